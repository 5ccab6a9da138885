"""How `attribution.npz` was cut out of the full set of reference numbers (see README.md).

    python tests/golden/subset_attribution.py FOLDER

FOLDER holds `{tiny,tinyeps,minilm}_{attcat,misc_reimplemented}.npz`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

INPUTS = {"tiny": (0, 1, 3), "tinyeps": (1, 2), "minilm": (0,)}
ATTCAT = ("AttCAT", "RawAtt", "Rollout", "TransAtt", "PartialLRP")
AGAIN = (
    "AttCAT_paper_output_h",
    "AttCAT_layers_code",
    "AttGrads_clsrow",
    "CAT_code_indexing",
    "CAT_paper_indexing",
    "GradSAM_rowmean_relu",
    "Grads_clsrow",
)
SALIENCY = ("gradxinput_l2", "gradxinput_sum", "grad_l2", "grad_abs_sum")
MISC = ("pred", "blankout_unk", "blankout_mask", "ig_prob_sum", "hta_global_cls_norm")


def main(source: Path) -> None:
    out = {}
    for model, inputs in INPUTS.items():
        classes = range(3 if model == "tinyeps" else 2)
        with np.load(source / f"{model}_attcat.npz") as table:
            names = [f"full/c{c}/{name}" for c in (0, 1) for name in (*ATTCAT, *(f"reimpl/{a}" for a in AGAIN))]
            names += [f"specmask/c{c}/AttCAT" for c in (0, 1)]
            out |= {f"{model}/{i}/{name}": table[f"{i}/{name}"] for i in inputs for name in names}
        with np.load(source / f"{model}_misc_reimplemented.npz") as table:
            names = [*MISC, *(f"saliency/c{c}/{name}" for c in classes for name in SALIENCY)]
            out |= {f"{model}/{i}/{name}": table[f"{i}/{name}"] for i in inputs for name in names}
    np.savez_compressed(Path(__file__).with_name("attribution.npz"), **out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
