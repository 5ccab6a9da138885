// Maps of several layers in one, in float64, as `aggregate/` does them; kept, since a matrix of 512 tokens takes a while.

class Layers {
  /** `shape`: (layer, query, key) or (layer, head, query, key); `rollout`: share of the identity, whether each is scaled. */
  constructor({ values, shape }, rollout) {
    this.values = values;
    this.rollout = rollout;
    this.count = shape[0];
    this.heads = shape.length === 4 ? shape[1] : 0;
    [this.rows, this.columns] = shape.slice(-2);
    this.size = this.rows * this.columns;
    this.kept = new Map();
  }

  /** One layer's map; `head`: a number, or null for the mean over heads. */
  single(layer, head) {
    const from = layer * this.size * (this.heads || 1);
    if (!this.heads) return this.values.subarray(from, from + this.size);
    if (head !== null) return this.values.subarray(from + head * this.size, from + (head + 1) * this.size);
    return this.#keep(`single ${layer}`, () => {
      const out = new Float64Array(this.size);
      for (let h = 0; h < this.heads; h++) {
        for (let i = 0, at = from + h * this.size; i < this.size; i++) out[i] += this.values[at + i] / this.heads;
      }
      return out;
    });
  }

  /** The mean of the layers up to this one. */
  mean(layer, head) {
    return this.#keep(`mean ${layer} ${head}`, () => {
      const out = new Float64Array(this.size);
      for (let l = 0; l <= layer; l++) {
        const map = this.single(l, head);
        for (let i = 0; i < this.size; i++) out[i] += map[i] / (layer + 1);
      }
      return out;
    });
  }

  /** The product of the layers up to this one; of a head the layer's own map over the heads' mean below (A.1). */
  async rolled(layer, head, step) {
    const key = `rolled ${layer} ${head}`;
    if (this.kept.has(key)) return this.kept.get(key);
    if (layer === 0) return this.#keep(key, () => this.#scaled(this.#mixed(0, head)));
    const below = await this.rolled(layer - 1, null, step);
    const out = await this.#product(this.#mixed(layer, head), below, () => step(layer));
    return this.#keep(key, () => this.#scaled(out));
  }

  /** Row i (or column i) of `rolled` alone, which is soon done; null where each matrix is scaled as a whole. */
  rolledLine(layer, head, flow, i) {
    if (this.rollout.scaled) return null;
    const { share } = this.rollout;
    const [m, headOf] = [this.columns, (l) => (l === layer ? head : null)];
    const down = flow === "row";
    let line = new Float64Array(m);
    line[i] = 1;
    for (let step = 0; step <= layer; step++) {
      const l = down ? layer - step : step;
      const map = this.single(l, headOf(l));
      const next = new Float64Array(m);
      for (let r = 0; r < m; r++) {
        let sum = 0;
        const weight = (1 - share) * line[r];
        if (down) {
          if (weight) for (let j = 0, at = r * m; j < m; j++) next[j] += weight * map[at + j];
        } else {
          for (let j = 0, at = r * m; j < m; j++) sum += map[at + j] * line[j];
          next[r] = (1 - share) * sum;
        }
      }
      if (share) for (let j = 0; j < m; j++) next[j] += share * line[j];
      line = next;
    }
    return line;
  }

  /** (1 - share) M + share I. */
  #mixed(layer, head) {
    const { share } = this.rollout;
    const map = Float64Array.from(this.single(layer, head));
    if (!share) return map;
    for (let i = 0; i < this.size; i++) map[i] *= 1 - share;
    for (let i = 0; i < this.rows; i++) map[i * this.columns + i] += share;
    return map;
  }

  #scaled(map) {
    if (!this.rollout.scaled) return map;
    let top = 0;
    for (const v of map) top = Math.max(top, v);
    return top > 0 ? map.map((v) => v / top) : map;
  }

  /** The page stays alive: now and then the browser has its turn. */
  async #product(a, b, step) {
    const n = this.rows;
    const out = new Float64Array(n * n);
    let since = performance.now();
    for (let i = 0; i < n; i++) {
      const row = out.subarray(i * n, (i + 1) * n);
      for (let k = 0; k < n; k++) {
        const share = a[i * n + k];
        if (share === 0) continue;
        for (let j = 0, at = k * n; j < n; j++) row[j] += share * b[at + j];
      }
      if (performance.now() - since > 40) {
        step();
        await new Promise((resume) => setTimeout(resume));
        since = performance.now();
      }
    }
    return out;
  }

  #keep(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, make());
    return this.kept.get(key);
  }
}
