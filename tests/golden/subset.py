"""How the files of this folder were cut out of the full set of reference numbers (see README.md).

    python tests/golden/subset.py FOLDER

FOLDER holds `{tiny,tinyeps,minilm}_{globenc,alti,vz,flow}.npz`, the two models and the inputs, as README.md says how
they were computed. What is left out here is what no test reads: other methods, the longest text, per-head norms.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
INPUTS = {"tiny": (0, 1, 2, 3, 4), "tinyeps": (0, 1, 2, 3), "minilm": (0, 1, 2)}
MAPS = ("W", "W_FIXEDRES", "W_RES", "N_FIXEDRES", "N", "N_RES", "N_RESLN", "N_ENC")
RATIOS = ("N", "N_RES", "N_RESLN", "N_ENC")
ALTI = ("alti", "alti_l2", "alti_ln2")
ARRAYS = {
    "globenc": ("logits", *MAPS, *(f"ratio_{m}" for m in RATIOS), *(f"rollout/{m}" for m in MAPS)),
    "alti": (*ALTI, *(f"{m}_rollout" for m in ALTI), "norm_rollout"),
    "vz": ("vz_raw", "vz", "vz_rollout"),
    "flow": ("rollout", "rollout_nores"),
}
BATCH = ("input_ids", "attention_mask", "N_ENC", "ratio_N_ENC")


def cut(source: Path, model: str) -> dict[str, np.ndarray]:
    """The arrays of a model that tests read, by `part/input/name`."""
    out = {}
    for part, names in ARRAYS.items():
        with np.load(source / f"{model}_{part}.npz") as table:
            out |= {f"{part}/{i}/{name}": table[f"{i}/{name}"] for i in INPUTS[model] for name in names}
            if model == "tiny" and part == "globenc":
                out |= {f"globenc/batch/{name}": table[f"batch/{name}"] for name in BATCH}
            if model == "tiny" and part == "vz":
                out["vz/padded1/vz_raw"] = table["padded1/vz_raw"]
    return out


def main(source: Path) -> None:
    for model, kept in INPUTS.items():
        np.savez_compressed(HERE / f"{model}.npz", **cut(source, model))
        inputs = source / f"{model.removesuffix('eps')}_inputs.json"
        rows = [json.loads(inputs.read_text())["inputs"][i] for i in kept]
        rows = [{k: row[k] for k in ("input_ids", "token_type_ids")} for row in rows]
        (HERE / f"{model}.json").write_text(json.dumps(rows) + "\n")
    for folder in ("tiny", "tinyeps"):
        (HERE / folder).mkdir(exist_ok=True)
        shutil.copyfile(source / folder / "model.safetensors", HERE / folder / "model.safetensors")
        config = json.loads((source / folder / "config.json").read_text())
        kept = (
            "architectures hidden_act hidden_size id2label intermediate_size label2id layer_norm_eps "
            "max_position_embeddings model_type num_attention_heads num_hidden_layers pad_token_id type_vocab_size "
            "vocab_size"
        ).split()
        (HERE / folder / "config.json").write_text(json.dumps({k: config[k] for k in kept}, indent=1) + "\n")
    shutil.copyfile(source / "minilm_head" / "classifier_head.safetensors", HERE / "minilm_head.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
