"""Blank-out against n forward passes, BERT-base shape: at most 0.95 n at 128 tokens, 0.65 n at 32.

python benchmarks/blank_out.py [--repeats 3] [--threads 2] [--cpu-time]
"""

from __future__ import annotations

from shapes import arguments, bert_base, forward, ratio, text

LIMITS = {32: 0.65, 128: 0.95}


def main() -> int:
    asked = arguments(__doc__, repeats=3)
    lens, failed = bert_base(), False
    for n, limit in LIMITS.items():
        ids = text(n)
        passes, unit = ratio(
            lambda ids=ids: lens.attribute(ids, "blank_out", replace=100),
            forward(lens, ids),
            asked,
            units=n // 4,
        )
        share = passes / n
        print(f"{n:5} tokens  {share:.2f} n forward passes, limit {limit}  (one: {unit * 1000:.0f} ms)", flush=True)
        failed |= share > limit
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
