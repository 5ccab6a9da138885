// Several methods on one text: rows that sort, a word read in all of them, how far each two agree.

function comparison({ head, arrays }) {
  const width = arrays.scores.shape[1];
  const grain = Object.keys(head.text.grains)[0];
  const list = pieces(head.text.grains[grain]);
  const rows = head.methods.map((method, index) => {
    const parts = sums(list, arrays.scores.values.subarray(index * width, (index + 1) * width));
    const content = list.some((piece) => !piece.special) ? (i) => !list[i].special : () => true;
    const { order, ranks } = ranking(parts, content);
    return { ...method, index, parts, ranks, count: order.length, scale: new Scale(head.colors, order.map((i) => parts[i])) };
  });
  const state = { sort: head.rated ? "faithful" : "asked", like: 0, under: -1, pinned: -1 };
  const card = el("div", { class: "card", role: "status" });
  for (const row of rows) {
    row.text = new Running(`the text by ${row.name}; arrow keys move, Enter pins a word`, {
      point: (i) => read(i),
      pin: (i) => {
        state.pinned = state.pinned === i ? -1 : i;
        for (const other of rows) other.text.mark(new Set(state.pinned < 0 ? [] : [state.pinned]));
        read(state.under);
      },
    }, true);
    row.text.fill(list, head.text.directions);
    const title = [el("span", { class: "name", text: row.name })];
    if (head.rated) title.push(el("span", { class: "soft", text: `faithful ${row.shown}` }), bar(new Scale(head.colors, [1, Math.min(0, ...rows.map((r) => r.rating ?? 0))]), row.rating ?? 0));
    row.node = el("li", {}, el("div", { class: "title" }, ...title), el("div", { class: "paper" }, row.text.node));
  }
  const order = el("ol", { class: "methods" });

  function sort() {
    const by = {
      asked: (r) => r.index, faithful: (r) => -(r.rating ?? -Infinity), name: null, like: (r) => -(head.agreement[state.like][r.index] ?? -2),
    }[state.sort];
    const sorted = [...rows].sort(by ? (a, b) => by(a) - by(b) || a.index - b.index : (a, b) => a.name.localeCompare(b.name));
    order.replaceChildren(...sorted.map((row) => row.node));
    paint();
  }

  function paint() {
    for (const row of rows) row.text.paint(row.parts, row.scale);
    matrix.replaceChildren(table());
  }

  function read(i) {
    state.under = i;
    const at = i >= 0 ? i : state.pinned;
    for (const row of rows) row.text.items.forEach((item, k) => item.classList.toggle("twin", k === at));
    if (at < 0) {
      card.replaceChildren(el("p", { class: "soft", text: "Point at a word: every method's score and rank for it. A click or Enter pins it." }));
      return;
    }
    const body = el("dl");
    for (const row of rows) {
      const rank = row.ranks.get(at);
      body.append(el("dt", { text: row.name }), el("dd", { text: number(row.parts[at]) + (rank ? `, ${ordinal(rank)} of ${row.count}` : "") }));
    }
    card.replaceChildren(el("p", { class: "title" }, el("bdi", { text: list[at].text })), body);
  }

  /** The rank correlation of each two; a click sorts by a method's row. */
  function table() {
    const scale = new Scale(head.colors, [1, -1]);
    const top = el("tr", {}, el("th", { scope: "col", text: "method" }), ...rows.map((row) => el("th", { scope: "col", text: row.name })));
    const body = rows.map((row) => {
      const go = el("button", { type: "button", class: "link", text: row.name, title: "sort the methods by how far they agree with this one" });
      go.addEventListener("click", () => {
        Object.assign(state, { sort: "like", like: row.index });
        sorting.choose("like");
        sort();
      });
      const cells = rows.map((other) => {
        const rho = head.agreement[row.index][other.index];
        const cell = el("td", { text: rho === null ? "-" : rho.toFixed(2) });
        Object.assign(cell.style, { background: scale.css(rho ?? 0), color: scale.ink(rho ?? 0) });
        return cell;
      });
      return el("tr", {}, el("th", { scope: "row" }, go), ...cells);
    });
    return el("table", { class: "grid" }, el("thead", {}, top), el("tbody", {}, ...body));
  }

  const matrix = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "agreement of the methods" });
  const options = [["asked", "As asked"], ["name", "By name"], ["like", "By agreement"]];
  if (head.rated) options.splice(1, 0, ["faithful", "By faithfulness"]);
  if (rows.length < 2) options.length = 0;
  const sorting = choice("Methods", options, state.sort, (value) => {
    Object.assign(state, { sort: value, like: 0 });
    sort();
  });
  const colours = el("p", { class: "soft", text: "Each method has its own colours: they compare within a text, not between texts. A dashed underline is below zero." });
  const agree = rows.length > 1 ? [el("h2", { text: "Do they agree?" }), el("p", { class: "soft", text: "Rank correlation (Spearman) over the words: 1 is the same order, 0 none, -1 the opposite. A click on a method sorts by its row." }), matrix] : [];
  sort();
  read(-1);
  const main = el("div", { class: "main" }, order, colours, ...remarks(head.note ? [`${head.note[0].toUpperCase()}${head.note.slice(1)}.`] : []), ...agree);
  const switches = el("div", { class: "controls" }, options.length ? sorting : null);
  return { node: el("div", { class: "explorer" }, switches, el("div", { class: "columns" }, main, el("div", { class: "side" }, card))), paint };
}
