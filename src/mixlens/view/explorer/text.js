// A running text whose pieces are pointed at, reached by keys, and pinned.

const SPECIAL = 1;
const OPENS = 2;

/** The pieces of a page's data: [before, text, tokens, kind]. */
function pieces(list) {
  return list.map(([before, text, tokens, kind]) => ({
    before, text, tokens, special: Boolean(kind & SPECIAL), opens: Boolean(kind & OPENS),
  }));
}

/** What the pieces hold of their tokens' values. */
function sums(list, values) {
  return list.map((piece) => piece.tokens.reduce((sum, i) => sum + values[i], 0));
}

class Running {
  /** `on.point(i)`: piece i is under the pointer or the focus (-1: none); `on.pin(i)`: it was chosen. */
  constructor(label, on, lined = false) {
    this.on = on;
    this.node = el("div", { class: lined ? "running lined" : "running", role: "listbox", "aria-label": label });
    this.items = [];
    this.list = [];
    this.at = 0;
    this.all = false; // special tokens have colours too
    this.pinned = new Set();
    this.node.addEventListener("pointerover", (event) => this.#under(event));
    this.node.addEventListener("pointerleave", () => this.on.point(-1));
    this.node.addEventListener("focusin", (event) => this.#under(event));
    this.node.addEventListener("click", (event) => this.#click(event));
    this.node.addEventListener("keydown", (event) => this.#key(event));
  }

  fill(list, directions) {
    this.list = list;
    this.pinned = new Set();
    this.at = Math.max(0, list.findIndex((piece) => !piece.special));
    const lines = [];
    const open = () => lines.push(el("p", { class: "text", dir: directions[lines.length] ?? "auto", role: "none" }));
    open();
    this.items = list.map((piece, i) => {
      if (piece.opens) open();
      else if (i || piece.before.trim()) lines.at(-1).append(piece.before);
      const item = el(piece.special ? "bdi" : "span", {
        class: piece.special ? "piece special" : "piece", role: "option", "aria-selected": "false", text: piece.text,
        tabindex: i === this.at ? 0 : -1, "data-i": i,
      });
      lines.at(-1).append(item);
      return item;
    });
    this.node.replaceChildren(...lines);
  }

  /** Each piece on its colour; `faded(i)`: left plain. */
  paint(values, scale, faded = () => false) {
    this.items.forEach((item, i) => {
      item.dataset.value = String(values[i]);
      const plain = (this.list[i].special && !this.all) || faded(i) || !Number.isFinite(values[i]);
      const share = plain ? 0 : scale.share(values[i]);
      item.style.background = plain ? "" : scale.css(values[i]);
      item.style.color = plain ? "" : scale.ink(values[i]);
      const kinds = ["piece", this.list[i].special ? "special" : "", plain ? "plain" : `u${weight(share)}`];
      if (share < 0) kinds.push("minus");
      item.className = kinds.filter(Boolean).join(" ");
    });
    this.mark(this.pinned);
  }

  /** The pieces that are chosen. */
  mark(chosen) {
    this.pinned = chosen;
    this.items.forEach((item, i) => {
      item.classList.toggle("pinned", chosen.has(i));
      item.setAttribute("aria-selected", String(chosen.has(i)));
    });
  }

  /** The focus, and the view, go to a piece. */
  go(i, focus = true) {
    this.items[this.at]?.setAttribute("tabindex", "-1");
    this.at = i;
    this.items[i].setAttribute("tabindex", "0");
    if (focus) this.items[i].focus({ preventScroll: true });
    this.items[i].scrollIntoView({ block: "nearest" });
  }

  #index(event) {
    const item = event.target.closest?.("[data-i]");
    return item ? Number(item.dataset.i) : -1;
  }

  #under(event) {
    const i = this.#index(event);
    if (i >= 0) this.on.point(i);
  }

  #click(event) {
    const i = this.#index(event);
    if (i < 0) return;
    this.go(i);
    this.on.pin(i);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const rtl = this.items[this.at]?.closest("p")?.dir === "rtl";
    const steps = { ArrowRight: rtl ? -1 : 1, ArrowLeft: rtl ? 1 : -1 };
    if (event.key in steps) this.#to(this.at + steps[event.key]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.#line(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Home") this.#to(0);
    else if (event.key === "End") this.#to(this.items.length - 1);
    else if (event.key === "Enter" || event.key === " ") this.on.pin(this.at);
    else if (event.key === "Escape") this.on.pin(-1);
    else return;
    event.preventDefault();
  }

  #to(i) {
    this.go(Math.max(0, Math.min(this.items.length - 1, i)));
  }

  /** The piece of the next line that stands nearest. */
  #line(step) {
    const from = this.items[this.at].getBoundingClientRect();
    let line = null;
    let best = -1;
    let near = Infinity;
    for (let i = this.at + step; i >= 0 && i < this.items.length; i += step) {
      const box = this.items[i].getBoundingClientRect();
      if (step * (box.top - from.top) < from.height / 2) continue;
      if (line !== null && Math.abs(box.top - line) > from.height / 2) break;
      line = box.top;
      const far = Math.abs(box.left + box.width / 2 - from.left - from.width / 2);
      if (far < near) [near, best] = [far, i];
    }
    if (best >= 0) this.#to(best);
  }
}
