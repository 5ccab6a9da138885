"""AttCAT against the model's own forward pass, BERT-base shape: at most 3 at 128 tokens (the authors' code: 15).

python benchmarks/attcat.py [--repeats 7] [--threads 2] [--cpu-time]
"""

from __future__ import annotations

from shapes import arguments, bert_base, forward, ratio, text

LIMIT = 3.0


def main() -> int:
    asked = arguments(__doc__, repeats=7)
    lens = bert_base()
    worst = 0.0
    for n in (32, 128, 512):
        ids = text(n)
        for method in ("attcat", "cat", "grad_x_input"):
            passes, unit = ratio(
                lambda ids=ids, method=method: lens.attribute(ids, method), forward(lens, ids), asked, units=3
            )
            print(f"{method:14}{n:5} tokens  {passes:5.2f} forward passes  (one: {unit * 1000:.0f} ms)", flush=True)
            if n == 128 and method == "attcat":
                worst = passes
    print(f"attcat at 128 tokens: {worst:.2f}, limit {LIMIT}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
