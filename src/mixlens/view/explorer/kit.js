// What every view is made of: the page's data, elements, numbers, colours.
// Text from outside enters the page by `textContent` and attributes alone, never as markup.

/** A page's string (see `packed.py`) as its head and its arrays, {values: Float32Array, shape}. */
async function unpack(text) {
  const signs = atob(text.trim());
  const bytes = new Uint8Array(signs.length);
  for (let i = 0; i < signs.length; i++) bytes[i] = signs.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const raw = {};
  let at = 4 + size;
  for (const { name, kind, shape } of head.arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    const wide = kind === "f4" ? 4 : 2;
    raw[name] = { kind, shape, values: fromPlanes(new Uint8Array(buffer, at, count * wide), count, wide, kind) };
    at += count * wide;
  }
  const arrays = {};
  for (const [name, array] of Object.entries(raw)) {
    if (name.endsWith(".scale")) continue;
    arrays[name] = array.kind === "f4" ? array : scaled(array, raw[`${name}.scale`].values);
  }
  return { head, arrays };
}

/** Bytes by planes, the lowest first, as numbers. */
function fromPlanes(planes, count, wide, kind) {
  const bytes = new Uint8Array(count * wide);
  for (let p = 0; p < wide; p++) {
    for (let i = 0, from = p * count, to = p; i < count; i++, from++, to += wide) bytes[to] = planes[from];
  }
  const types = { f4: Float32Array, u2: Uint16Array, i2: Int16Array };
  return new types[kind](bytes.buffer);
}

/** Whole numbers times their row's scale. */
function scaled(array, scale) {
  const width = array.shape[array.shape.length - 1];
  const values = new Float32Array(array.values.length);
  for (let i = 0; i < values.length; i++) values[i] = array.values[i] * scale[Math.floor(i / width)];
  return { kind: "f4", shape: array.shape, values, rounded: true };
}

/** An element. `facts`: its attributes, `on` (listeners), `text`; children are elements and strings. */
function el(tag, facts = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Three significant digits, as on the rest of the page. */
function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (!(size >= 1e-3 && size < 1e5)) return value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
  return size < 10 ? value.toFixed(3) : String(Number(value.toPrecision(4)));
}

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 1) return "under 1 %";
  return value < 100 && value > 99 ? "over 99 %" : `${Math.round(value)} %`;
}

function ordinal(rank) {
  const tens = rank % 100;
  if (tens > 10 && tens < 14) return `${rank}th`;
  return rank + (["th", "st", "nd", "rd"][rank % 10] ?? "th");
}

function many(count, noun) {
  if (count === 1) return `1 ${noun}`;
  return `${count} ${noun}${/(ch|s|sh|x)$/.test(noun) ? "es" : "s"}`;
}

const dark = matchMedia("(prefers-color-scheme: dark)");

/** From zero to the largest size of what is shown; two arms where anything is below zero. */
class Scale {
  constructor(arms, values) {
    this.arms = arms;
    this.top = 0;
    this.signed = false;
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      this.top = Math.max(this.top, Math.abs(value));
      this.signed ||= value < 0;
    }
  }

  share(value) {
    if (!this.top || Number.isNaN(value)) return 0;
    return Math.max(this.signed ? -1 : 0, Math.min(1, value / this.top));
  }

  rgb(value) {
    const share = this.share(value);
    const arm = this.arms[dark.matches ? "dark" : "light"][share < 0 ? "cool" : "warm"];
    const place = Math.abs(share) * (arm.length - 1);
    const i = Math.min(Math.floor(place), arm.length - 2);
    return [0, 2, 4].map((k) => {
      const [low, high] = [arm[i], arm[i + 1]].map((hex) => parseInt(hex.slice(k, k + 2), 16));
      return Math.round(low + (high - low) * (place - i));
    });
  }

  css(value) {
    return `rgb(${this.rgb(value).join(" ")})`;
  }

  /** Black or white, by the larger contrast. */
  ink(value) {
    const [r, g, b] = this.rgb(value).map((c) => (c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000" : "#fff";
  }

  /** The end colour of a value's arm, for bars. */
  strong(value) {
    return `#${this.arms.light[value < 0 ? "cool" : "warm"].at(-1)}`;
  }

  steps(count) {
    const low = this.signed ? -this.top : 0;
    return Array.from({ length: count }, (_, i) => low + ((this.top - low) * i) / (count - 1));
  }
}

/** The colours of shares 0 to 1 (0 to -1: `cool`) in 255 steps, as a canvas has them. */
function ramp(arms, arm) {
  const scale = new Scale(arms, [1, -1]);
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const [r, g, b] = scale.rgb((arm === "cool" ? -i : i) / 255);
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

/** The weight of an underline, 0 to 4: by it the colour is said once more. */
function weight(share) {
  return Math.max(0, Math.min(4, Math.ceil(4 * Math.abs(share) - 0.4)));
}

/** The places of the largest sizes, the largest first, and each place's rank from 1. */
function ranking(values, kept) {
  const order = values.map((_, i) => i).filter((i) => kept(i));
  order.sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]) || a - b);
  const ranks = new Map(order.map((i, k) => [i, k + 1]));
  return { order, ranks };
}
