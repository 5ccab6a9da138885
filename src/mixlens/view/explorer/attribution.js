// One score a token: the text in its colours, what a word holds, which words hold most.

const LISTED = 10;

function attribution({ head, arrays }) {
  const scores = arrays.scores.values;
  const grains = Object.keys(head.text.grains);
  const state = { grain: grains[0], threshold: 0, pinned: -1, under: -1 };
  let [list, values, order, ranks, total] = [[], [], [], new Map(), 0];
  let scale = new Scale(head.colors, []);

  const text = new Running("the text; arrow keys move, Enter pins", {
    point: (i) => {
      state.under = i;
      read();
    },
    pin: (i) => {
      state.pinned = state.pinned === i ? -1 : i;
      text.mark(new Set(state.pinned < 0 ? [] : [state.pinned]));
      read();
    },
  });
  const card = el("div", { class: "card", role: "status" });
  const key = legend();
  const top = el("div");
  const noun = () => (state.grain === "word" ? "word" : head.text.unit);
  const threshold = slider("Fade below", [0, 100], 0, (value) => {
    const left = order.filter((i) => Math.abs(scale.share(values[i])) * 100 >= value).length;
    return value ? `${value} % of the largest: ${left} of ${many(order.length, noun())} left` : "nothing faded";
  }, (value) => {
    state.threshold = value;
    paint();
  });

  function cut() {
    list = pieces(head.text.grains[state.grain]);
    values = sums(list, scores);
    const content = list.some((piece) => !piece.special) ? (i) => !list[i].special : () => true;
    ({ order, ranks } = ranking(values, content));
    scale = new Scale(head.colors, order.map((i) => values[i]));
    total = order.reduce((sum, i) => sum + Math.abs(values[i]), 0);
    Object.assign(state, { pinned: -1, under: -1 });
    text.fill(list, head.text.directions);
    paint();
    read();
  }

  function paint() {
    text.paint(values, scale, (i) => Math.abs(scale.share(values[i])) * 100 < state.threshold);
    key.put(scale, meaning(scale.signed, head.specific));
    const entries = order.slice(0, LISTED).map((i) => ({ name: list[i].text, value: values[i], key: i }));
    top.replaceChildren(rows(entries, scale, (i) => {
      text.go(i);
      state.pinned = i;
      text.mark(new Set([i]));
      read();
    }));
    threshold.say();
  }

  /** The word that is pointed at, else the pinned one. */
  function read() {
    const i = state.under >= 0 ? state.under : state.pinned;
    if (i < 0) {
      card.replaceChildren(el("p", { class: "soft", text: `Point at a ${noun()}, or go there with the arrow keys. A click or Enter pins it.` }));
      return;
    }
    const rank = ranks.get(i);
    const facts_ = [["score", number(values[i])]];
    if (rank) {
      facts_.push(["share", total ? `${percent(Math.abs(values[i]) / total)} of all ${noun()}s'${scale.signed ? " sizes" : ""}` : "-"]);
      facts_.push(["rank", `${ordinal(rank)} of ${order.length}`]);
    } else facts_.push(["rank", `none: a special ${head.text.unit}`]);
    if (list[i].tokens.length > 1) {
      const parts = pieces(head.text.grains.token ?? []);
      const each = list[i].tokens.map((t) => `${parts[t]?.text ?? t} ${number(scores[t])}`);
      facts_.push([`${head.text.unit}s`, each.join(" + ")]);
    }
    const pin = i === state.pinned ? el("span", { class: "soft", text: "pinned" }) : null;
    card.replaceChildren(el("p", { class: "title" }, el("bdi", { text: list[i].text }), " ", pin), facts(facts_));
  }

  const switches = el("div", { class: "controls" });
  if (grains.length > 1) {
    switches.append(choice("Show", [["word", "Words"], ["token", `${capital(head.text.unit)}s`]], state.grain, (grain) => {
      state.grain = grain;
      cut();
    }));
  }
  switches.append(threshold);
  cut();
  const side = el("div", { class: "side" }, card, el("h2", { text: "The largest scores" }), top);
  const main = el("div", { class: "main" }, el("div", { class: "paper" }, text.node), key, ...remarks(head.notes));
  const node = el("div", { class: "explorer" }, chances(head), switches, el("div", { class: "columns" }, main, side));
  return { node, paint };
}

/** What the colours, and the underlines, mean. */
function meaning(signed, specific) {
  if (!signed) return "the stronger the colour and the underline, the larger the score";
  return specific ? "orange, underlined, speaks for it; blue, dashed, against it" : "orange, underlined, is above zero; blue, dashed, below it";
}

/** The probability of every class. */
function chances(head) {
  if (head.chances.length < 2) return null;
  const list = el("ul", { class: "chances" });
  for (const [name, p] of head.chances.slice(0, 12)) {
    const fill = el("i");
    fill.style.width = `${100 * p}%`;
    const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
    const chosen = name === head.goal;
    list.append(el("li", { class: chosen ? "chosen" : null }, el("bdi", { text: name }), track, el("span", { class: "value", text: chance(p) })));
  }
  const rest = head.chances.length - 12;
  const more = rest > 0 ? el("p", { class: "soft", text: `and ${many(rest, "class")} less likely` }) : null;
  const title = head.independent ? "What the model finds likely (each class by itself)" : "What the model finds likely";
  return el("div", { class: "block" }, el("h2", { text: title }), list, more);
}

function chance(p) {
  return p > 0.999 && p < 1 ? "over 0.999" : number(p);
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}
