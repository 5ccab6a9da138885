"""How `measures.json` was cut out of the full set of reference numbers (see README.md).

    python tests/golden/subset_measures.py FOLDER

FOLDER holds `metrics.json`, `{tiny,tinyeps}_attcat_metrics.json`, `{tiny,tinyeps}_attcat.npz` and `tiny_inputs.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

CURVES = (
    "original_prob trunc_words_num deletion_probs pad_probs aopc_del aopc_pad lodds_del lodds_pad kendall_c1_vs_c0"
).split()
CLS_SEP = (2, 3)


def main(source: Path) -> None:
    inputs = json.loads((source / "tiny_inputs.json").read_text())["inputs"]
    curves = []
    for model in ("tiny", "tinyeps"):
        with np.load(source / f"{model}_attcat.npz") as scores:
            for key, row in json.loads((source / f"{model}_attcat_metrics.json").read_text()).items():
                name = row["attribution_key"]
                assert row["target"] == 1
                curves.append(
                    {
                        "key": f"{model}/{key}",
                        "model": model,
                        "ids": inputs[int(key.split("/")[0])]["input_ids"],
                        "scores": scores[name].squeeze().tolist(),
                        "other": scores[name.replace("/c1/", "/c0/")].squeeze().tolist(),
                        **{k: row[k] for k in CURVES},
                    }
                )
    out = {"special": CLS_SEP, "curves": curves, "cues": json.loads((source / "metrics.json").read_text())}
    Path(__file__).with_name("measures.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
