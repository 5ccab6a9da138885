"""TransAtt against the model's own forward pass, BERT-base shape: at most 6 at 128 tokens (the authors' code: 10).

python benchmarks/trans_att.py [--repeats 7] [--threads 2] [--cpu-time]
"""

from __future__ import annotations

from shapes import arguments, bert_base, forward, ratio, text

LIMIT = 6.0


def main() -> int:
    asked = arguments(__doc__, repeats=7)
    lens = bert_base()
    ids = text(128)
    passes, unit = ratio(lambda: lens.attribute(ids, "trans_att"), forward(lens, ids), asked, units=3)
    print(f"trans_att at 128 tokens: {passes:.2f} forward passes (one: {unit * 1000:.0f} ms), limit {LIMIT}")
    return int(passes > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
