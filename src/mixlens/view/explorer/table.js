// The table of an evaluation: sorted by any measure, intervals drawn, method against method.

function table({ head }) {
  const { methods, measures } = head;
  const state = { measure: 0, sort: { column: 0, down: true }, pair: [0, Math.min(1, methods.length - 1)] };
  const better = (m) => ({ true: "higher is better", false: "lower is better" })[String(measures[m].better)] ?? "neither end is better";
  const arrow = (m) => ({ true: " ↑", false: " ↓" })[String(measures[m].better)] ?? "";

  /** Methods from the best down (from the largest, where no end is better). */
  function sorted(m, down = true) {
    const sign = (measures[m].better === false ? 1 : -1) * (down ? 1 : -1);
    const value = (r) => measures[m].rows[r].mean;
    return methods.map((_, r) => r).sort((a, b) => (value(a) === null) - (value(b) === null) || sign * (value(a) - value(b)) || a - b);
  }

  const whole = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "all measures" });
  function grid() {
    const { column, down } = state.sort;
    const ways = (c) => (c === column ? (down ? "descending" : "ascending") : "none");
    const top = [-1, ...measures.keys()].map((c) => {
      const go = el("button", { type: "button", class: "link", text: c < 0 ? "method" : measures[c].name + arrow(c) });
      go.addEventListener("click", () => {
        state.sort = { column: c, down: c === state.sort.column ? !state.sort.down : true };
        grid();
        whole.querySelectorAll("thead button")[c + 1].focus();
      });
      return el("th", { scope: "col", "aria-sort": ways(c) }, go);
    });
    const order = column < 0 ? methods.map((_, r) => r).sort((a, b) => methods[a].localeCompare(methods[b]) * (down ? 1 : -1)) : sorted(column, down);
    const body = order.map((r) => el("tr", {}, el("th", { scope: "row", class: "name", text: methods[r] }), ...measures.map(({ rows }) => {
      const cell = el("td", {}, el(rows[r].best ? "strong" : "span", { class: rows[r].chance ? "soft" : null, text: rows[r].text }));
      return cell;
    })));
    whole.replaceChildren(el("table", { class: "sorted" }, el("thead", {}, el("tr", {}, ...top)), el("tbody", {}, ...body)));
  }

  /** Rows of a name, an interval on a line from low to high, and numbers. */
  function forest(entries, mark) {
    const ends = entries.flatMap((e) => [e.low ?? e.mean, e.high ?? e.mean]).concat(mark ?? []).filter((v) => v !== null);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const at = (v) => `${2 + (96 * (v - low)) / (high - low || 1)}%`;
    return el("ol", { class: "forest" }, ...entries.map((e) => {
      const line = el("span", { class: e.chance ? "line chance" : "line", "aria-hidden": "true" });
      if (e.mean !== null) {
        const [bar, dot] = [el("i"), el("b")];
        if (e.low !== null && e.high !== null) {
          bar.style.left = at(e.low);
          bar.style.width = `${(96 * (e.high - e.low)) / (high - low || 1)}%`;
          line.append(bar);
        }
        dot.style.left = at(e.mean);
        line.append(dot);
      }
      if (mark !== null && mark !== undefined) {
        const rule = el("u");
        rule.style.left = at(mark);
        line.append(rule);
      }
      return el("li", {}, el("span", { class: "name", text: e.name }), line, el("span", { class: "value", text: e.text }));
    }));
  }

  const ranked = el("div");
  const about = el("p", { class: "soft" });
  function draw() {
    const { rows } = measures[state.measure];
    const nulls = rows.map((row) => row.null).filter((v) => v !== null);
    const entries = sorted(state.measure).map((r) => ({ ...rows[r], name: methods[r] }));
    about.textContent = `The best on top (${better(state.measure)}); a line is the ${head.level} % interval over texts${nulls.length ? "; dotted: random scores; a hollow dot is not told from them" : ""}.`;
    ranked.replaceChildren(forest(entries, nulls.length ? nulls[0] : null));
  }

  const against = el("div");
  function pair() {
    const [a, b] = state.pair;
    const entries = measures.flatMap(({ name, pairs }, m) => {
      const known = pairs.find((p) => (p.a === a && p.b === b) || (p.a === b && p.b === a));
      if (!known) return [];
      const sign = known.a === a ? 1 : -1;
      const ends = [sign * known.low, sign * known.high].sort((x, y) => x - y);
      return [{ name: name + arrow(m), mean: sign * known.difference, low: ends[0], high: ends[1], chance: !(known.p <= head.alpha),
        text: `${number(sign * known.difference)}, p = ${number(known.p)}` }];
    });
    const note = a === b ? "Choose two methods." : entries.length ? "Difference of the means (first less second) with its paired bootstrap interval; a hollow dot is not told from none." : "No measure with a better end compares these two.";
    const parts = entries.map((e) => forest([e], 0)); // each measure has a line of its own
    against.replaceChildren(el("p", { class: "soft", text: note }), ...parts);
  }

  const node = el("div", { class: "explorer" });
  if (measures.length) {
    grid();
    draw();
    node.append(whole, el("h2", { text: "A measure, drawn" }));
    node.append(el("div", { class: "controls" }, picker("Measure", measures.map(({ name }, m) => [String(m), name]), "0", (m) => {
      state.measure = Number(m);
      draw();
    })), about, ranked);
    if (methods.length > 1) {
      pair();
      const pick = (label, k) => picker(label, methods.map((name, r) => [String(r), name]), String(state.pair[k]), (r) => {
        state.pair[k] = Number(r);
        pair();
      });
      node.append(el("h2", { text: "Method against method" }), el("div", { class: "controls" }, pick("First", 0), pick("Second", 1)), against);
    }
  }
  return { node, paint: () => {} };
}
