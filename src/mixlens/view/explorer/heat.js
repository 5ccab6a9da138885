// A heat map on a canvas: zoomed and moved by pointer, fingers and keys, its cells read and chosen.

const GUTTER = 12; // characters of a label
const NAMED = 9; // pixels of a cell from which its row and column have their names
const CELL = 30; // the largest one of the whole map

class Heat {
  /** `on.point(i, j)`: a cell is under the pointer (-1, -1: none); `on.pin(i, j)`: it was chosen. */
  constructor(label, on, tall = 640) {
    this.on = on;
    this.tall = tall;
    this.canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": `${label}; arrow keys move, Enter chooses, plus and minus zoom` });
    const button = (text, name, act) => el("button", { type: "button", class: "button", "aria-label": name, title: name, text, on: { click: act } });
    const tools = el("div", { class: "tools" },
      button("+", "zoom in", () => this.#zoom(2)), button("−", "zoom out", () => this.#zoom(0.5)), button("fit", "show all", () => this.#fit()));
    this.node = el("div", { class: "heatmap" }, tools, this.canvas);
    this.cell = [-1, -1];
    this.pointers = new Map();
    this.zoom = 1;
    this.left = this.up = 0; // of the part that is seen, in cells
    const listen = (name, act) => this.canvas.addEventListener(name, (event) => act.call(this, event));
    listen("pointerdown", this.#down);
    listen("pointermove", this.#move);
    for (const name of ["pointerup", "pointercancel"]) listen(name, this.#lift);
    listen("pointerleave", () => this.#hover(-1, -1));
    listen("keydown", this.#key);
    this.canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  /**
   * `values`: row by row, NaN where one is left out; `tops`: of each row what has the full colour; names of `rows` and
   * `columns`; `chosen`: [row, column] or -1.
   */
  show(next) {
    const last = this.map;
    const same = last && last.rows.length === next.rows.length && last.columns.length === next.columns.length;
    if (!same) [this.zoom, this.left, this.up] = [1, 0, 0];
    if (!last || last.values !== next.values || last.by !== next.by || this.dark !== dark.matches) this.pooled = new Map();
    this.map = next;
    this.dark = dark.matches;
    this.draw();
  }

  /** The map as a picture, k x k cells a dot: of each square the value of the largest size. */
  #picture(k) {
    if (this.pooled.has(k)) return this.pooled.get(k);
    const { rows, columns, values, tops, arms } = this.map;
    const [warm, cool] = [ramp(arms, "warm"), ramp(arms, "cool")];
    const [n, m] = [Math.ceil(rows.length / k), Math.ceil(columns.length / k)];
    const picture = el("canvas", { width: m, height: n });
    const image = picture.getContext("2d").createImageData(m, n);
    const dots = new Uint32Array(image.data.buffer);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < m; b++) {
        let [best, top] = [NaN, 0];
        for (let i = a * k; i < Math.min(rows.length, (a + 1) * k); i++) {
          for (let j = b * k, at = i * columns.length + j; j < Math.min(columns.length, (b + 1) * k); j++, at++) {
            if (Math.abs(values[at]) > Math.abs(best) || (best !== best && values[at] === values[at])) [best, top] = [values[at], tops[i]];
          }
        }
        if (best !== best) continue; // left out: the paper is seen
        const step = top ? Math.round(255 * Math.min(1, Math.abs(best) / top)) : 0;
        dots[a * m + b] = (best < 0 ? cool : warm)[step];
      }
    }
    picture.getContext("2d").putImageData(image, 0, 0);
    this.pooled.set(k, picture);
    return picture;
  }

  /** Where things are: the gutter, the size of a cell, of the whole. */
  #place() {
    const { rows, columns } = this.map;
    const room = this.node.clientWidth;
    const pen = this.canvas.getContext("2d");
    pen.font = "11px system-ui, sans-serif";
    const wide = (names) => Math.min(92, Math.max(...names.map((name) => pen.measureText(clip(name)).width), 8) + 8);
    const [side, foot] = [wide(rows), wide(columns)];
    const fit = Math.min(CELL, (room - side - 2) / columns.length, this.tall / Math.min(rows.length, columns.length));
    const base = Math.max(fit, 0.2);
    const width = Math.min(room - side - 2, base * columns.length);
    const high = Math.min(14, this.tall / rows.length); // of a row with its name; a square without names stays one
    const stretched = high >= NAMED || rows.length !== columns.length;
    const height = Math.min(this.tall, (stretched ? Math.max(base, high) : base) * rows.length);
    return { side, foot, width, height, x: (width / columns.length) * this.zoom, y: (height / rows.length) * this.zoom };
  }

  draw() {
    if (!this.map || !this.node.clientWidth) return;
    const at = (this.at = this.#place());
    const { rows, columns, chosen } = this.map;
    const ratio = devicePixelRatio || 1;
    const [full, tall] = [at.side + at.width + 2, at.height + at.foot + 2];
    Object.assign(this.canvas, { width: Math.round(full * ratio), height: Math.round(tall * ratio) });
    Object.assign(this.canvas.style, { width: `${full}px`, height: `${tall}px`, touchAction: this.zoom > 1 ? "none" : "pan-y" });
    const [seenX, seenY] = [at.width / at.x, at.height / at.y];
    this.left = Math.max(0, Math.min(columns.length - seenX, this.left));
    this.up = Math.max(0, Math.min(rows.length - seenY, this.up));
    const pen = this.canvas.getContext("2d");
    const look = getComputedStyle(this.node);
    const [ink, soft, line, paper] = ["--ink", "--soft", "--line", "--paper"].map((name) => look.getPropertyValue(name));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, full, tall);
    pen.save();
    pen.translate(at.side, 1);
    pen.fillStyle = paper;
    pen.fillRect(0, 0, at.width, at.height);
    pen.beginPath();
    pen.rect(0, 0, at.width, at.height);
    pen.clip();
    const k = Math.max(1, Math.ceil(1 / Math.min(at.x, at.y) / ratio));
    const picture = this.#picture(k);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture, -this.left * at.x, -this.up * at.y, picture.width * k * at.x, picture.height * k * at.y);
    const frame = (i, j, color) => {
      pen.strokeStyle = color;
      pen.lineWidth = 2;
      const [x, y] = [j < 0 ? 0 : (j - this.left) * at.x, i < 0 ? 0 : (i - this.up) * at.y];
      pen.strokeRect(x, y, j < 0 ? at.width : Math.max(at.x, 3), i < 0 ? at.height : Math.max(at.y, 3));
    };
    if (chosen[0] >= 0) frame(chosen[0], -1, ink);
    if (chosen[1] >= 0) frame(-1, chosen[1], ink);
    if (this.cell[0] >= 0) frame(...this.cell, ink);
    pen.restore();
    pen.strokeStyle = line;
    pen.lineWidth = 1;
    pen.strokeRect(at.side - 0.5, 0.5, at.width + 1, at.height + 1);
    pen.font = "11px system-ui, sans-serif";
    const marked = (i, axis) => i === this.cell[axis] || i === chosen[axis];
    for (let i = Math.floor(this.up); i < Math.min(rows.length, this.up + seenY); i++) {
      const y = (i + 0.5 - this.up) * at.y;
      if ((at.y < NAMED && !marked(i, 0)) || y < 0 || y > at.height) continue;
      Object.assign(pen, { fillStyle: marked(i, 0) ? ink : soft, textAlign: "right", textBaseline: "middle" });
      pen.fillText(clip(rows[i]), at.side - 6, Math.max(y + 1, 6)); // the first of many rows is not cut
    }
    for (let j = Math.floor(this.left); j < Math.min(columns.length, this.left + seenX); j++) {
      const x = (j + 0.5 - this.left) * at.x;
      if ((at.x < NAMED && !marked(j, 1)) || x < 0 || x > at.width) continue;
      Object.assign(pen, { fillStyle: marked(j, 1) ? ink : soft, textAlign: "right", textBaseline: "middle" });
      pen.save();
      pen.translate(at.side + x, at.height + 7);
      pen.rotate(-Math.PI / 2);
      pen.fillText(clip(columns[j]), 0, 0);
      pen.restore();
    }
  }

  #under(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - this.at.side, event.clientY - box.top - 1];
    if (x < 0 || y < 0 || x >= this.at.width || y >= this.at.height) return [-1, -1];
    return [Math.floor(this.up + y / this.at.y), Math.floor(this.left + x / this.at.x)];
  }

  #hover(i, j) {
    if (i === this.cell[0] && j === this.cell[1]) return;
    this.cell = [i, j];
    this.on.point(i, j);
    this.draw();
  }

  #down(event) {
    this.pointers.set(event.pointerId, event);
    this.moved = 0;
  }

  #move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return this.#hover(...this.#under(event));
    this.pointers.set(event.pointerId, event);
    this.moved += Math.hypot(event.clientX - last.clientX, event.clientY - last.clientY);
    if (this.pointers.size === 2) {
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const far = (e) => Math.max(1, Math.hypot(e.clientX - other.clientX, e.clientY - other.clientY));
      this.#zoom(far(event) / far(last), this.#under(other));
    } else if (this.zoom > 1 && this.moved > 4) {
      this.canvas.setPointerCapture(event.pointerId);
      this.left -= (event.clientX - last.clientX) / this.at.x;
      this.up -= (event.clientY - last.clientY) / this.at.y;
      this.draw();
    }
  }

  #lift(event) {
    const alone = this.pointers.size === 1;
    this.pointers.delete(event.pointerId);
    const [i, j] = this.#under(event);
    if (event.type !== "pointerup" || !alone || this.moved > 4 || i < 0) return;
    this.#hover(i, j);
    this.on.pin(i, j);
  }

  /** Control and the wheel, or a pinch of a touchpad, zooms; the wheel alone scrolls the page. */
  #wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.#zoom(event.deltaY < 0 ? 1.25 : 0.8, this.#under(event));
  }

  #zoom(factor, [i, j] = this.cell) {
    const most = Math.max(1, 40 / Math.min(this.at.x / this.zoom, this.at.y / this.zoom));
    const next = Math.max(1, Math.min(most, this.zoom * factor));
    const [seenY, seenX] = [this.at.height / this.at.y, this.at.width / this.at.x];
    const [row, column] = [i < 0 ? this.up + seenY / 2 : i + 0.5, j < 0 ? this.left + seenX / 2 : j + 0.5];
    this.up = row - ((row - this.up) * this.zoom) / next;
    this.left = column - ((column - this.left) * this.zoom) / next;
    this.zoom = next;
    this.draw();
  }

  #fit() {
    [this.zoom, this.left, this.up] = [1, 0, 0];
    this.draw();
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in steps) {
      const sizes = [this.map.rows.length, this.map.columns.length];
      const from = this.cell[0] < 0 ? this.map.chosen.map((c) => Math.max(c, 0)) : this.cell;
      const [i, j] = from.map((c, axis) => Math.max(0, Math.min(sizes[axis] - 1, c + steps[event.key][axis])));
      const [seenY, seenX] = [this.at.height / this.at.y, this.at.width / this.at.x];
      this.up = Math.min(Math.max(this.up, i + 1 - seenY), i);
      this.left = Math.min(Math.max(this.left, j + 1 - seenX), j);
      this.#hover(i, j);
    } else if (event.key === "+" || event.key === "=") this.#zoom(2);
    else if (event.key === "-") this.#zoom(0.5);
    else if (event.key === "0") this.#fit();
    else if (event.key === "Enter" && this.cell[0] >= 0) this.on.pin(...this.cell);
    else return;
    event.preventDefault();
  }
}

function clip(name) {
  return name.length <= GUTTER ? name : `${name.slice(0, GUTTER - 1)}…`;
}
