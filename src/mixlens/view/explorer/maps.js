// Maps of every layer: what a token takes from, or where it goes, in the text, as a heat map, and layer by layer.

function maps({ head, arrays }) {
  const layers = new Layers(arrays.maps, head.rollout);
  const queries = pieces(Object.values(head.queries.grains)[0]);
  const keys = pieces(Object.values(head.keys.grains)[0]);
  const rows = head.rows ?? queries.map((_, i) => i); // the query tokens that are here
  const place = new Map(rows.map((q, i) => [q, i]));
  const state = {
    layer: layers.count - 1, mode: "layer", flow: "row", head: null, token: head.start, diagonal: false, special: true, by: head.pairs ? "all" : "row",
  };
  let [shown, ticket, under] = [null, 0, [-1, -1]];
  const names = (list) => list.map((piece) => piece.text.replace(/\s+/g, " "));
  const on = (side) => ({
    point: (i) => {
      const here = i >= 0 && (head.square || side === (state.flow === "row" ? "keys" : "queries")); // else the side that chooses
      under = !here ? [-1, -1] : state.flow === "row" ? [state.token, i] : [i, state.token];
      read();
    },
    pin: (i) => {
      if (i < 0) return;
      if (!head.square) state.flow = side === "queries" ? "row" : "column";
      choose(i);
    },
  });
  const shows = (label, side) => (head[side].picture ? new Photo(label, on(side), head[side].picture) : new Running(label, on(side), true));
  const mixed = Boolean(head.keys.picture) !== Boolean(head.queries.picture);
  const title = (side, number) => `The ${mixed ? "" : `${number} `}${what(side)}`;
  const what = (side) => head[side].noun;
  const texts = { keys: shows(`the ${what("keys")}; arrow keys move, Enter chooses a ${head.keys.unit}`, "keys") };
  texts.keys.all = true;
  texts.keys.fill(keys, head.keys.directions);
  if (head.square) texts.queries = texts.keys;
  else {
    texts.queries = shows(`the ${what("queries")} that takes; Enter chooses a ${head.queries.unit}`, "queries");
    texts.queries.all = true;
    texts.queries.fill(queries, head.queries.directions);
  }
  const heat = new Heat("heat map, rows take from columns", {
    point: (i, j) => {
      under = i < 0 ? [-1, -1] : [rows[i], j];
      read();
    },
    pin: (i, j) => choose(state.flow === "row" ? rows[i] : j),
  });
  const deep = new Heat(`layers by ${head.keys.units}`, {
    point: () => {},
    pin: (i) => {
      state.layer = layers.count - 1 - i;
      depth.put(state.layer + 1);
      look();
    },
  }, 420);
  const [card, says, busy, key] = [el("div", { class: "card", role: "status" }), el("p", { class: "lead", "aria-live": "polite" }), el("p", { class: "soft", role: "status" }), legend()];
  const titleDeep = el("h2", { text: "Layer by layer" });

  function choose(token) {
    if (state.flow === "row" && !place.has(token)) {
      busy.textContent = `Row ${token} was not computed; the rows that are here: ${rows.join(", ")}.`;
      return;
    }
    state.token = token;
    under = [-1, -1];
    look();
  }

  const matrix = async (layer) => {
    if (state.mode === "rollout") return layers.rolled(layer, state.head, (l) => (busy.textContent = `rolling out layer ${head.layers[l]} …`));
    return state.mode === "mean" ? layers.mean(layer, state.head) : layers.single(layer, state.head);
  };

  const kept = new Map(); // what is left out of a matrix, by what is asked

  /** A matrix, row by row of those that are here, NaN where it is left out. */
  function masked(map) {
    const name = `${state.diagonal} ${state.special}`;
    if (kept.get(map)?.name === name) return kept.get(map).values;
    const values = Float64Array.from(map);
    rows.forEach((q, i) => {
      const at = i * layers.columns;
      if (!state.special) keys.forEach((key, j) => key.special && (values[at + j] = NaN));
      if (!state.special && queries[q].special) values.fill(NaN, at, at + layers.columns);
      if (state.diagonal) values[at + q] = NaN;
    });
    kept.clear();
    kept.set(map, { name, values });
    return values;
  }

  /** Whether row i (of those here) and column j are left out. */
  const out = (i, j) => (state.diagonal && rows[i] === j) || (!state.special && (keys[j].special || queries[rows[i]].special));

  const cell = (map, i, j) => (out(i, j) ? NaN : map[i * layers.columns + j]);

  /** The row or the column of the chosen token. */
  function along(map) {
    if (state.flow === "row") return keys.map((_, j) => cell(map, place.get(state.token), j));
    return queries.map((_, q) => (place.has(q) ? cell(map, place.get(q), state.token) : NaN));
  }

  /** What `along` gives of a layer, before its whole matrix is there; null where that is needed. */
  function soon(layer) {
    if (state.mode !== "rollout") return along(state.mode === "mean" ? layers.mean(layer, state.head) : layers.single(layer, state.head));
    const line = layers.rolledLine(layer, state.head, state.flow, state.token);
    const at = place.get(state.token);
    return line && Array.from(line, (v, i) => (out(...(state.flow === "row" ? [at, i] : [i, state.token])) ? NaN : v));
  }

  async function look() {
    const turn = ++ticket;
    says.replaceChildren(...sentence());
    const early = soon(state.layer);
    if (early) {
      shown = { map: null, values: early };
      if (state.by === "row") paintText(early, new Scale(head.colors, early));
      paintDeep(Array.from({ length: layers.count }, (_, l) => soon(l)));
      read();
    }
    const map = await matrix(state.layer);
    if (turn !== ticket) return; // something else was asked for meanwhile
    busy.textContent = "";
    const every = masked(map);
    const whole = new Scale(head.colors, every);
    shown = { map, values: early ?? along(map) };
    if (!early || state.by === "all") paintText(shown.values, state.by === "all" ? whole : new Scale(head.colors, shown.values));
    paintHeat(every, whole);
    read();
    if (early) return;
    const all = [];
    for (let l = 0; l < layers.count; l++) all.push(along(await matrix(l)));
    if (turn === ticket) paintDeep(all);
  }

  function paintText(values, scale) {
    const [to, from] = state.flow === "row" ? [texts.keys, texts.queries] : [texts.queries, texts.keys];
    if (from !== to) from.paint(from.list.map(() => NaN), scale);
    to.paint(values, scale);
    if (from !== to) to.mark(new Set());
    from.mark(new Set([state.token]));
    key.put(scale, state.by === "all" ? `up to the largest of ${head.pairs ? "all pairs" : "the layer's map"}` : "up to the largest of this row or column");
  }

  function sentence() {
    const quote = el("bdi", { class: "quote", text: (state.flow === "row" ? queries : keys)[state.token].text });
    const layer = `layer ${head.layers[state.layer]}`;
    const where = layers.count === 1 ? "" : { layer: `at ${layer}`, mean: `on the mean up to ${layer}`, rollout: `by the rollout up to ${layer}` }[state.mode];
    const [other, side] = state.flow === "row" ? ["keys", "queries"] : ["queries", "keys"];
    const whose = what(other) === what(side) ? `the other ${what(other)}` : `the ${what(other)}`;
    if (head.pairs) return ["What ", quote, ` has in common with the ${what(other) === "picture" ? "patches" : "words"} of ${whose}.`];
    return state.flow === "row" ? ["What ", quote, ` takes from${where && `, ${where}`}.`] : ["Where ", quote, ` goes${where && `, ${where}`}.`];
  }

  /** Of each row what has the full colour. */
  function tops(values, width, whole) {
    const count = values.length / width;
    if (state.by === "all") return new Float64Array(count).fill(whole.top);
    return Float64Array.from({ length: count }, (_, i) => new Scale(head.colors, values.subarray(i * width, (i + 1) * width)).top);
  }

  function paintHeat(values, whole) {
    heat.show({
      values, tops: tops(values, keys.length, whole), by: state.by, arms: head.colors, rows: names(rows.map((q) => queries[q])), columns: names(keys),
      chosen: state.flow === "row" ? [place.get(state.token), -1] : [-1, state.token],
    });
  }

  function paintDeep(all) {
    const last = layers.count - 1;
    const values = Float64Array.from(all.reverse().flat());
    deep.show({
      values, tops: tops(values, all[0].length, new Scale(head.colors, values)), by: state.by, arms: head.colors,
      rows: all.map((_, i) => `layer ${head.layers[last - i]}`), columns: names(state.flow === "row" ? keys : queries), chosen: [last - state.layer, -1],
    });
    titleDeep.textContent = state.flow === "row" ? "What it takes from, layer by layer" : "Where it goes, layer by layer";
  }

  function read() {
    const [q, k] = under;
    if (q < 0 || k < 0 || !place.has(q) || shown === null) {
      card.replaceChildren(el("p", { class: "soft", text: `Point at a ${head.keys.unit} or a cell, or go there with the arrow keys. A click or Enter chooses it.` }));
      return;
    }
    const i = place.get(q);
    const line = !shown.map && state.flow === "row" && q === state.token;
    const value = shown.map ? cell(shown.map, i, k) : line ? shown.values[k] : k === state.token ? shown.values[q] : NaN;
    const pairs = [["score", Number.isNaN(value) ? "left out" : number(value)]];
    if (!Number.isNaN(value) && (shown.map || line)) {
      const row = (line ? shown.values : keys.map((_, j) => cell(shown.map, i, j))).map((v) => (Number.isNaN(v) ? 0 : v));
      const total = row.reduce((sum, v) => sum + Math.abs(v), 0);
      pairs.push(["share", total ? `${percent(Math.abs(value) / total)} of the row` : "-"]);
      pairs.push(["rank", `${ordinal(ranking(row, () => true).ranks.get(k))} of the row's ${row.length}`]);
    }
    card.replaceChildren(el("p", { class: "title" }, el("bdi", { text: short(queries[q].text, 30) }), el("span", { class: "soft", text: head.pairs ? " with " : " takes from " }), el("bdi", { text: short(keys[k].text, 30) })), facts(pairs));
  }

  const set = (name) => (value) => {
    state[name] = value;
    look();
  };
  const depth = slider("Layer", [1, layers.count], layers.count, (value) => `${head.layers[value - 1]} of ${head.depth}`, (value) => set("layer")(value - 1));
  const modes = [["layer", head.aggregated ?? "This layer"], ["rollout", "Rollout up to it", head.rollout.reason], ["mean", "Mean up to it", head.mean.reason]];
  const switches = el("div", { class: "controls" }, ...(layers.count > 1 ? [depth, choice("Layers", modes, "layer", set("mode"))] : []));
  if (head.square) {
    switches.append(choice(`The ${head.queries.unit}`, [["row", "takes from"], ["column", "goes to"]], "row", (flow) => {
      state.flow = flow;
      if (flow === "row" && !place.has(state.token)) state.token = rows[0];
      look();
    }));
  }
  if (layers.heads) {
    const options = [["mean", "mean of all"], ...Array.from({ length: layers.heads }, (_, h) => [String(h), `head ${h + 1}`])];
    const roll = switches.querySelector('input[value="rollout"]');
    const rest = () => {
      if (!roll) return; // of one layer
      roll.disabled = Boolean(head.rollout.reason) || state.head === null;
      if (state.mode === "rollout" && roll.disabled) [state.mode, switches.querySelector('input[value="layer"]').checked] = ["layer", true];
    };
    switches.append(picker("Head", options, "mean", (value) => {
      state.head = value === "mean" ? null : Number(value);
      rest();
      look();
    }));
    if (roll) roll.parentElement.title ||= "choose a head: its own map over the heads' mean below";
    rest();
  }
  switches.append(choice("Colours", [["row", "by row"], ["all", "by all"]], state.by, set("by")));
  const ticks = el("div", { class: "controls ticks" });
  if (head.square) ticks.append(tick("Leave the diagonal out", state.diagonal, set("diagonal")));
  if (keys.some((piece) => piece.special)) ticks.append(tick(`Leave special ${head.keys.units} out`, false, (out) => set("special")(!out)));
  const papers = [el("div", { class: "paper tall" }, texts.keys.node)];
  if (!head.square) papers.unshift(el("h2", { text: head.pairs ? title("queries", "first") : "What takes" }), el("div", { class: "paper tall" }, texts.queries.node), el("h2", { text: head.pairs ? title("keys", "second") : "What is taken from" }));
  const main = el("div", { class: "main" }, ...papers, key, ...remarks(head.notes), busy,
    el("h2", { text: head.pairs ? "Every pair" : `Every ${head.keys.unit}` }), el("p", { class: "soft", text: `${head.pairs ? "Row: the first. Column: the second." : "Row: what takes. Column: what it takes from."} Control and the wheel, or the buttons, zoom.` }), heat.node, ...(layers.count > 1 ? [titleDeep, deep.node] : []));
  look();
  return { node: el("div", { class: "explorer" }, switches, ticks, says, el("div", { class: "columns" }, main, el("div", { class: "side" }, card))), paint: look };
}
