// A whole answer: choose a part of it and the prompt lights up; choose a part of the prompt and the answer does.

const SOURCES = 8;

function trace({ head, arrays }) {
  const scores = arrays.scores.values;
  const [count, width] = arrays.scores.shape;
  const size = head.prompt.count;
  const state = {
    grain: { answer: Object.keys(head.answer.grains)[0], prompt: Object.keys(head.prompt.grains)[0] },
    chosen: null, // {side: "answer" | "prompt" | "document", key, tokens}
    under: { side: null, i: -1 },
    sign: "both",
  };
  const sides = {};
  for (const side of ["answer", "prompt"]) {
    sides[side] = new Running(`the ${side}; arrow keys move, Enter chooses`, {
      point: (i) => {
        state.under = { side, i };
        read();
      },
      pin: (i) => choose(i < 0 ? null : { side, key: i, tokens: sides[side].list[i].tokens }),
    }, side === "prompt");
  }
  const card = el("div", { class: "card", role: "status" });
  const says = el("p", { class: "lead", "aria-live": "polite" });
  const key = legend();
  const earlier = el("p", { class: "soft", text: "Coloured in the answer: what it took from its own earlier words." });
  const [documents, top, note] = [el("div"), el("div"), el("p", { class: "soft" })];
  const clear = el("button", { type: "button", class: "button", text: "The whole answer", on: { click: () => choose(null) } });
  const differs = el("button", { type: "button", class: "button", text: "Where it differs from the foil" });
  differs.addEventListener("click", () => choose({ side: "answer", key: "differs", tokens: head.differs, name: "what differs from the foil" }));
  let view = {};

  /** A score as the contrast switch lets it through. */
  const through = (v) => (state.sign === "both" ? v : state.sign === "for" ? Math.max(v, 0) : Math.min(v, 0));

  function choose(next) {
    const same = next && state.chosen && next.side === state.chosen.side && next.key === state.chosen.key;
    state.chosen = same ? null : next;
    look();
  }

  /** What the choice says of every token: of the sources for a part of the answer, of the answer for a source. */
  function values() {
    const { chosen } = state;
    if (chosen === null || chosen.side === "answer") {
      const rows = chosen ? chosen.tokens : [...Array(count).keys()];
      const out = new Float64Array(width);
      for (const t of rows) for (let j = 0; j < width; j++) out[j] += through(scores[t * width + j]) / rows.length;
      return { prompt: out.subarray(0, size), answer: out.subarray(size), rows };
    }
    const out = new Float64Array(count);
    for (let t = 0; t < count; t++) for (const j of chosen.tokens) out[t] += through(scores[t * width + j]);
    return { prompt: null, answer: out };
  }

  function look() {
    const held = values();
    const { chosen } = state;
    const back = chosen !== null && chosen.side !== "answer"; // from a source to the answer
    const parts = {};
    for (const side of ["answer", "prompt"]) {
      const list = sides[side].list;
      parts[side] = held[side] ? sums(list, held[side]) : list.map(() => NaN);
    }
    const content = (side) => parts[side].filter((v, i) => Number.isFinite(v) && !sides[side].list[i].special);
    // from the answer's side prompt and answer are sources of the same rows, so they share a scale
    const shared = new Scale(head.colors, back ? content("answer") : [...content("prompt"), ...content("answer")]);
    view = { parts, back, scale: shared, held };
    for (const side of ["answer", "prompt"]) {
      const off = !back && side === "answer" && !parts.answer.some((v) => v !== 0);
      sides[side].paint(off ? parts.answer.map(() => NaN) : parts[side], shared);
      sides[side].mark(marked(side));
      sides[side].node.classList.toggle("wide-choice", marked(side).size > 1);
    }
    key.put(shared, meaning(shared.signed, head.specific));
    earlier.hidden = back || !parts.answer.some((v) => v !== 0);
    clear.disabled = chosen === null;
    says.replaceChildren(...sentence());
    list_();
    listDocuments();
    read();
  }

  function marked(side) {
    const { chosen } = state;
    if (chosen === null || (chosen.side === "document" ? "prompt" : chosen.side) !== side) return new Set();
    if (Number.isInteger(chosen.key) && chosen.side === side) return new Set([chosen.key]);
    const inside = new Set(chosen.tokens);
    const within = (piece) => 2 * piece.tokens.filter((t) => inside.has(t)).length >= piece.tokens.length;
    return new Set(sides[side].list.flatMap((piece, i) => (within(piece) ? [i] : [])));
  }

  function sentence() {
    const { chosen } = state;
    if (chosen === null) return ["Where the whole answer came from. Choose a part of the answer, or of the prompt."];
    const name = el("bdi", { class: chosen.key === "differs" ? null : "quote", text: chosen.name ? chosen.name : short(sides[chosen.side].list[chosen.key].text) });
    return chosen.side === "answer" ? ["Where ", name, " came from."] : ["What ", name, " went into."];
  }

  /** The largest sources of the choice; or the parts of the answer that a source went into most. */
  function list_() {
    const entries = [];
    for (const side of view.back ? ["answer"] : ["prompt", "answer"]) {
      sides[side].list.forEach((piece, i) => {
        const value = view.parts[side][i];
        if (!piece.special && value) entries.push({ name: short(piece.text), value, key: [side, i], note: side === "prompt" || view.back ? null : marked(side).has(i) ? "itself, so far" : "in the answer" });
      });
    }
    entries.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const go = ([side, i]) => sides[side].go(i);
    top.replaceChildren(
      el("h2", { text: view.back ? "It went into" : "The largest sources" }),
      entries.length ? rows(entries.slice(0, SOURCES), view.scale, go) : el("p", { class: "soft", text: "nothing" }),
    );
  }

  /** Documents with their shares of what the choice took from the prompt, as the result's citations count. */
  function listDocuments() {
    if (!head.documents.length) return;
    const shares = sharesOf(view.back ? [...Array(count).keys()] : view.held.rows);
    const cited = state.chosen?.side === "answer" ? head.cited.find((c) => alike(c.tokens, state.chosen.tokens)) : null;
    const entries = head.documents.map(({ name, tokens }, key) => {
      const odds = cited?.sources.find((source) => source.name === name);
      const told = odds ? `${odds.stands_out ? "stands out of chance" : "no more than chance"}, p = ${number(odds.p)}` : null;
      const chosen = state.chosen?.side === "document" && state.chosen.key === key;
      return { name, value: shares[key], text: percent(shares[key]), note: told, key, chosen };
    });
    const scale = new Scale(head.colors, [0, 1]);
    const list = rows(entries, scale, (key) => choose({ side: "document", key, name: head.documents[key].name, tokens: head.documents[key].tokens }));
    documents.replaceChildren(el("h2", { text: "Documents" }), list);
    note.textContent = view.back
      ? "Shares of the whole answer. A click on a document shows what it went into."
      : "Shares of what this took from the prompt. A click on a document shows what it went into.";
    documents.append(note);
  }

  function sharesOf(tokens) {
    const taken = new Float64Array(size);
    for (const t of tokens) for (let j = 0; j < size; j++) taken[j] += Math.max(scores[t * width + j], 0);
    const all = taken.reduce((sum, v, j) => sum + (head.prompt.special[j] ? 0 : v), 0);
    return head.documents.map((d) => (all ? d.tokens.reduce((sum, j) => sum + (head.prompt.special[j] ? 0 : taken[j]), 0) / all : 0));
  }

  /** The piece that is pointed at, else the chosen one. */
  function read() {
    const { chosen, under } = state;
    const at = under.i >= 0 ? under : Number.isInteger(chosen?.key) && chosen.side !== "document" ? { side: chosen.side, i: chosen.key } : null;
    const piece = at && sides[at.side].list[at.i];
    if (!piece) {
      card.replaceChildren(el("p", { class: "soft", text: "Point at a part of the answer or the prompt, or go there with the arrow keys. A click or Enter chooses it." }));
      return;
    }
    const pairs = [];
    const value = view.parts[at.side][at.i];
    const itself = chosen && chosen.side === at.side && chosen.key === at.i;
    if (Number.isFinite(value) && !itself) {
      const list = sides[at.side].list;
      const { ranks } = ranking(view.parts[at.side], (i) => !list[i].special && view.parts[at.side][i] !== 0);
      const total = ["prompt", "answer"].reduce((sum, side) => sum + (view.back && side === "prompt" ? 0
        : view.parts[side].reduce((s, v, i) => s + (sides[side].list[i].special || !Number.isFinite(v) ? 0 : Math.abs(v)), 0)), 0);
      pairs.push(["score", number(value)]);
      if (!piece.special) pairs.push(["share", total ? percent(Math.abs(value) / total) : "-"]);
      if (ranks.get(at.i)) pairs.push(["rank", `${ordinal(ranks.get(at.i))} of the ${at.side}`]);
    }
    if (at.side === "answer") for (const t of piece.tokens.slice(0, 4)) pairs.push(["model", head.said[t]]);
    card.replaceChildren(el("p", { class: "title" }, el("bdi", { text: short(piece.text) }), " ", itself ? el("span", { class: "soft", text: "chosen" }) : null), facts(pairs));
  }

  function cut(side, grain) {
    state.grain[side] = grain;
    sides[side].fill(pieces(head[side].grains[grain]), head[side].directions);
    if (state.chosen?.side === side) state.chosen = null;
    state.under = { side: null, i: -1 };
  }

  function grains(side, label) {
    const names = Object.keys(head[side].grains);
    if (names.length < 2) return null;
    return choice(label, names.map((name) => [name, `${capital(name)}s`]), state.grain[side], (grain) => {
      cut(side, grain);
      look();
    });
  }

  const switches = el("div", { class: "controls" });
  switches.append(...[grains("answer", "Answer by"), grains("prompt", "Prompt by")].filter(Boolean));
  if (head.foil && head.signed) {
    switches.append(choice("Contrast", [["both", "Both"], ["for", "For the answer"], ["against", `For “${short(head.foil, 24)}”`]], "both", (sign) => {
      state.sign = sign;
      look();
    }));
  }
  switches.append(clear);
  if (head.foil && head.differs.length < count) switches.append(differs);
  for (const side of ["answer", "prompt"]) cut(side, state.grain[side]);
  look();
  const main = el("div", { class: "main" },
    el("h2", { text: "The answer" }), el("div", { class: "paper" }, sides.answer.node), key, earlier,
    el("h2", { text: "The prompt" }), el("div", { class: "paper tall" }, sides.prompt.node), ...remarks(head.notes));
  const side = el("div", { class: "side" }, card, documents, top);
  return { node: el("div", { class: "explorer" }, switches, says, el("div", { class: "columns" }, main, side)), paint: look };
}

function short(text, limit = 60) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= limit ? line : `${line.slice(0, limit - 1)}…`;
}

function alike(a, b) {
  return a.length === b.length && a.every((v, i) => v === b[i]);
}
