// Switches, sliders, legends and lists, alike on all pages.

let controls = 0;

/** One of several, as radio buttons in a row. */
function choice(label, options, value, change) {
  const name = `c${controls++}`;
  const set = el("fieldset", { class: "choice" }, el("legend", { text: label }));
  for (const [key, text, reason] of options) {
    const input = el("input", { type: "radio", name, value: key, disabled: Boolean(reason) });
    input.checked = key === value;
    input.addEventListener("change", () => change(key));
    set.append(el("label", { title: reason }, input, el("span", { text })));
  }
  set.choose = (key) => {
    for (const input of set.querySelectorAll("input")) input.checked = input.value === key;
  };
  return set;
}

/** On or off. */
function tick(label, value, change) {
  const input = el("input", { type: "checkbox" });
  input.checked = value;
  input.addEventListener("change", () => change(input.checked));
  return el("label", { class: "tick" }, input, el("span", { text: label }));
}

/** A slider of whole numbers; `say` is what stands behind it. */
function slider(label, [low, high], value, say, change) {
  const id = `c${controls++}`;
  const input = el("input", { type: "range", id, min: low, max: high, step: 1 });
  const output = el("output", { for: id });
  const show = () => {
    output.textContent = say(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const node = el("div", { class: "slider" }, el("label", { for: id, text: label }), input, output);
  input.addEventListener("input", () => {
    change(Number(input.value));
    show();
  });
  node.put = (next) => {
    input.value = String(next);
    show();
  };
  node.say = show;
  node.put(value);
  return node;
}

/** A list to choose from, where there are too many for a row of buttons. */
function picker(label, options, value, change) {
  const id = `c${controls++}`;
  const select = el("select", { id });
  for (const [key, text] of options) select.append(el("option", { value: key, text }));
  select.value = value;
  select.addEventListener("change", () => change(select.value));
  return el("div", { class: "picker" }, el("label", { for: id, text: label }), select);
}

/** The colours of a scale between its ends, and a note on them. */
function legend() {
  const [low, high, ramp, note] = [el("span"), el("span"), el("span", { class: "ramp", role: "img" }), el("span")];
  const node = el("div", { class: "legend" }, el("span", { class: "nowrap" }, low, ramp, high), note);
  node.put = (scale, text) => {
    const ends = scale.steps(2).map(number);
    [low.textContent, high.textContent] = ends;
    ramp.setAttribute("aria-label", `colour scale from ${ends[0]} to ${ends[1]}`);
    ramp.style.background = `linear-gradient(to right, ${scale.steps(13).map((s) => scale.css(s)).join(", ")})`;
    note.textContent = text;
  };
  return node;
}

/** A bar as long as a value's share of the largest; signed ones run to both sides. */
function bar(scale, value) {
  const width = (100 * Math.abs(scale.share(value))) / (scale.signed ? 2 : 1);
  const fill = el("i");
  fill.style.width = `${width}%`;
  fill.style.left = `${scale.signed ? 50 - width * (value < 0) : 0}%`;
  fill.style.background = scale.strong(value);
  return el("span", { class: `track${scale.signed ? " signed" : ""}`, "aria-hidden": "true" }, fill);
}

/** Names with bars and numbers as buttons that lead somewhere. */
function rows(entries, scale, go) {
  const list = el("ol", { class: "rows" });
  for (const { name, value, text, note, key, chosen } of entries) {
    const face = [el("bdi", { class: "name", text: name }), el("span", { class: "value", text: text ?? number(value) })];
    if (scale) face.push(bar(scale, value));
    if (note) face.push(el("span", { class: "note", text: note }));
    const button = el("button", { type: "button", "aria-pressed": chosen === undefined ? null : String(chosen) }, ...face);
    button.addEventListener("click", () => go(key));
    list.append(el("li", {}, button));
  }
  return list;
}

/** Pairs of a name and a value. */
function facts(pairs) {
  const list = el("dl");
  for (const [name, value] of pairs) list.append(el("dt", { text: name }), el("dd", { text: value }));
  return list;
}

function remarks(notes) {
  return notes.map((text) => el("p", { class: "soft", text }));
}
