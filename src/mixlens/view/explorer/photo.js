// A picture whose patches are pointed at, reached by keys, and pinned; what is of no patch stands below it.

class Photo extends Running {
  /** `facts.uri`: the picture, in grey; `facts.boxes`: of each position left, top, right, bottom as shares, or null. */
  constructor(label, on, facts) {
    super(label, on);
    this.facts = facts;
  }

  fill(list) {
    this.list = list;
    this.pinned = new Set();
    this.at = Math.max(0, list.findIndex((piece) => !piece.special));
    const sheet = el("div", { class: "sheet", role: "none" }, el("img", { src: this.facts.uri, alt: "" }));
    const beside = el("p", { class: "text", dir: "ltr", role: "none" });
    this.items = list.map((piece, i) => {
      const box = this.facts.boxes[i];
      const item = el("span", {
        class: box ? "patch" : "piece special", role: "option", "aria-selected": "false", title: box ? piece.text : null,
        "aria-label": piece.text, tabindex: i === this.at ? 0 : -1, "data-i": i,
      });
      if (box) {
        const sides = { left: box[0], top: box[1], width: box[2] - box[0], height: box[3] - box[1] };
        for (const [side, share] of Object.entries(sides)) item.style[side] = `${100 * share}%`;
        sheet.append(item);
      } else {
        item.textContent = piece.text;
        beside.append(item, " ");
      }
      return item;
    });
    this.node.replaceChildren(sheet, ...(beside.childNodes.length ? [beside] : []));
  }

  /** Each patch under its colour, the stronger the larger its size is. */
  paint(values, scale, faded = () => false) {
    super.paint(values, scale, faded);
    this.items.forEach((item, i) => {
      if (!this.facts.boxes[i]) return;
      const share = Number.isFinite(values[i]) && !faded(i) ? scale.share(values[i]) : 0;
      item.style.background = share ? `color-mix(in srgb, ${scale.css(Math.sign(share) * scale.top)} ${Math.round(85 * Math.abs(share))}%, transparent)` : "";
      item.className = "patch";
    });
    this.mark(this.pinned);
  }
}
