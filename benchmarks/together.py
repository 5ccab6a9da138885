"""Several methods on one text that share passes, against each alone, BERT-base shape.

python benchmarks/together.py [--repeats 5] [--threads 2] [--cpu-time]
"""

from __future__ import annotations

from shapes import arguments, bert_base, forward, ratio, text

MAPS = ("attention_rollout", "norm_rollout", "globenc", "alti", "norm_res+rollout", "attention_res+rollout")
GRADIENTS = ("cat", "saliency", "grad_l2", "grad_x_input")
OF_ATTENTION = ("attcat", "grads", "att_grads", "grad_sam")
TOKENS = 64


def main() -> int:
    asked = arguments(__doc__, repeats=5)
    lens, ids = bert_base(), text(TOKENS)
    slower = False
    for name, methods in (("maps", MAPS), ("gradients", GRADIENTS), ("gradients of attention", OF_ATTENTION)):

        def together(methods: tuple[str, ...] = methods) -> None:
            lens.compare(ids, methods, faithfulness=False)

        def alone(methods: tuple[str, ...] = methods) -> None:
            for method in methods:
                lens.attribute(ids, method)

        passes, unit = ratio(together, forward(lens, ids), asked)
        share, _ = ratio(together, alone, asked)
        print(
            f"{len(methods)} {name:24} {passes:.1f} forward passes together, {share:.2f} of what they take one by one "
            f"(a pass: {unit * 1000:.0f} ms)",
            flush=True,
        )
        slower |= share > 1
    return int(slower)


if __name__ == "__main__":
    raise SystemExit(main())
