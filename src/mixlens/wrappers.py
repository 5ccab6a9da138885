"""What people have a model in (a pipeline, a trainer, a sentence encoder, an adapter): the model and tokenizer in it.

Wrappers are known by the names of their classes, so that none of their packages is imported. What cannot be taken
apart without a guess is refused, and the message says what to pass instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mixlens.architectures import fed, two_towers, unwrap
from mixlens.capture.fed import SOUNDS, TowerProcessor
from mixlens.capture.offload import missing
from mixlens.capture.picture import PIXELS
from mixlens.errors import ModelError, UnsupportedConfig
from mixlens.readers import SoundProcessor, image_processor, readable, sound_processor, tower_processor
from mixlens.subject.head import Pooled

_POOLING: dict[str, Pooled] = {"cls": "first", "mean": "mean", "lasttoken": "last"}


@dataclass(frozen=True)
class Given:
    """A transformers model, its tokenizer (None: none is known), the rows that a sentence encoder pools, and what it
    has behind them.
    """

    model: Any
    tokenizer: Any = None
    pooled: Pooled | None = None
    behind: tuple[str, ...] = ()


def taken_apart(model: Any, tokenizer: Any = None) -> Given:
    """The transformers model in whatever it came in. A tokenizer that is given counts before a wrapper's own.

    Raises ModelError, InputError.
    """
    given = Given(model, tokenizer)
    while (inner := _inside(given)) is not None:
        given = replace(inner, tokenizer=given.tokenizer if given.tokenizer is not None else inner.tokenizer)
    if not isinstance(given.model, torch.nn.Module):
        raise ModelError(
            f"expected a Hugging Face transformers model, a folder or a model id, got {_named(given.model)}"
        )
    if not _is_model(unwrap_adapter(given.model)):
        raise ModelError(_told(given.model))
    model = unwrap(given.model)
    usable(model)
    if given.pooled is None and not given.behind:
        given = _saved_beside(model, given)
    food = fed(model)
    kind = image_processor if food == PIXELS else sound_processor if food in SOUNDS else readable
    if two_towers(type(model)):
        kind = tower_processor
    return replace(given, model=model, tokenizer=kind(given.tokenizer))


def _inside(given: Given) -> Given | None:
    """What one wrapper holds; None where it is none."""
    model, names = given.model, _names(given.model)
    if "OptimizedModule" in names:
        return replace(given, model=model._orig_mod)
    if "DataParallel" in names or "DistributedDataParallel" in names:
        return replace(given, model=model.module)
    if "Pipeline" in names and hasattr(model, "model"):
        return Given(model.model, _of_pipeline(model))
    if "Trainer" in names and hasattr(model, "model"):
        held = getattr(model, "processing_class", None)
        return Given(model.model, getattr(held, "tokenizer", held))
    if "CrossEncoder" in names:
        return Given(model.model, getattr(model, "tokenizer", None))
    if "SentenceTransformer" in names:
        return _sentence_encoder(model)
    if hasattr(model, "get_base_model") and hasattr(model, "peft_config"):
        inner = model.get_base_model()
        return None if _is_model(inner) else replace(given, model=inner)
    return None


def _of_pipeline(pipeline: Any) -> Any:
    """The processor of a pipeline: of sounds whatever holds most of what is needed."""
    processor, extractor = getattr(pipeline, "processor", None), getattr(pipeline, "feature_extractor", None)
    if fed(pipeline.model) in SOUNDS:
        if processor is not None or extractor is None or getattr(pipeline, "tokenizer", None) is None:
            return processor or extractor
        return SoundProcessor(extractor, pipeline.tokenizer)
    if two_towers(type(pipeline.model)):
        return processor or TowerProcessor(pipeline.tokenizer, pipeline.image_processor)
    return getattr(pipeline, "image_processor", None) or getattr(pipeline, "tokenizer", None)


def _sentence_encoder(model: Any) -> Given:
    """The encoder of a SentenceTransformer and the rows that its vector is made of."""
    parts = list(model)
    inner = getattr(parts[0], "auto_model", None) or getattr(parts[0], "model", None)
    if inner is None:
        raise ModelError(
            f"expected a SentenceTransformer whose first part holds a transformers model, got {type(parts[0]).__name__}"
        )
    pooling = next((p for p in parts if "Pooling" in _names(p)), None)
    mode = getattr(pooling, "pooling_mode", None)
    if not isinstance(mode, (str, tuple, list)) and hasattr(pooling, "get_pooling_mode_str"):
        mode = pooling.get_pooling_mode_str()  # type: ignore[union-attr]
    modes = [mode] if isinstance(mode, str) else list(mode or ())
    pooled = _POOLING.get(str(modes[0])) if len(modes) == 1 else None
    behind = tuple(type(p).__name__ for p in parts[1:] if not _names(p) & {"Pooling", "Normalize", "Dropout"})
    return Given(inner, getattr(model, "tokenizer", None), pooled, behind)


_SAVED: dict[str, Pooled] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}


def _saved_beside(model: Any, given: Given) -> Given:
    """With the rows that the folder of a sentence encoder says: modules.json, and the configuration of its pooling."""
    name = getattr(model.config, "_name_or_path", "")
    if not name:
        return given
    from mixlens.loading import encoder_parts

    kinds = dict(encoder_parts(Path(str(name)))[1:])
    try:
        modes = json.loads((kinds.pop("Pooling") / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError):
        return given  # no sentence encoder's folder
    chosen = [name for name, value in modes.items() if name.startswith("pooling_mode") and value is True]
    pooled = _SAVED.get(chosen[0]) if len(chosen) == 1 else _POOLING.get(str(modes.get("pooling_mode")))
    return replace(given, pooled=pooled, behind=tuple(k for k in kinds if k not in ("Normalize", "Dropout")))


def unwrap_adapter(model: Any) -> Any:
    """The model that a PEFT wrapper holds, else the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") and hasattr(model, "peft_config") else model


def _is_model(model: Any) -> bool:
    has = ("base_model", "get_input_embeddings")
    return hasattr(getattr(model, "config", None), "model_type") and all(hasattr(model, name) for name in has)


def _names(value: Any) -> set[str]:
    """The names of a value's class and of those it is made from."""
    return {cls.__name__ for cls in type(value).__mro__}


def _named(value: Any) -> str:
    """What a value is that is no model, with what to pass instead."""
    if isinstance(value, type):
        return f"the class {value.__name__}; pass a model of it, as {value.__name__}.from_pretrained(...) gives"
    kind = type(value).__name__
    if hasattr(value, "convert_ids_to_tokens"):
        return f"{kind}, a tokenizer; the model comes first: mixlens.load(model, tokenizer)"
    if hasattr(value, "model_type"):
        return f"{kind}, a configuration; pass a model with weights"
    if isinstance(value, dict) and any(isinstance(entry, torch.Tensor) for entry in value.values()):
        return f"{kind} of weights; load them into a model (load_state_dict) and pass that"
    if hasattr(getattr(value, "config", None), "model_type"):
        return f"{kind}, which is no torch module (an exported model?); pass the torch model"
    return kind


def _told(module: torch.nn.Module) -> str:
    """What to pass instead of a module that is no transformers model."""
    kind = type(module).__name__
    models = list(_outermost(module))
    if not models:
        return f"expected a Hugging Face transformers model, a folder or a model id, got {kind}, which holds none"
    if len(models) > 1:
        paths = ", ".join(f"model.{path} ({type(part).__name__})" for path, part in models)
        return f"expected a Hugging Face transformers model, got {kind}, which holds several: pass one of {paths}"
    ((path, inner),) = models
    return (
        f"expected a Hugging Face transformers model, got {kind}, a module around one: pass mixlens.load(model.{path}, "
        f"tokenizer) to see that encoder's maps; to explain the answer of {kind}, make it a class of "
        f"{_family(inner)} whose forward takes input_ids and attention_mask"
    )


def _family(model: Any) -> str:
    return next((c.__name__ for c in type(model).__mro__ if c.__name__.endswith("PreTrainedModel")), "PreTrainedModel")


def _outermost(module: torch.nn.Module, path: str = "") -> Iterator[tuple[str, Any]]:
    """The transformers models in a module that are in no other, with their paths."""
    for name, child in module.named_children():
        where = f"{path}.{name}" if path else name
        if _is_model(child):
            yield where, child
        else:
            yield from _outermost(child, where)


def usable(model: Any) -> None:
    """Raises ModelError for weights that are no floating-point numbers that are there."""
    parameters = dict(model.named_parameters())
    quantised = [n for n, m in model.named_modules() if ".quantized" in type(m).__module__]
    whole = [n for n, p in parameters.items() if not p.is_floating_point()]
    if quantised or whole:
        raise UnsupportedConfig(
            f"expected weights that are floating-point numbers, {(quantised or whole)[0]} is quantised "
            f"({len(quantised or whole)} such parts): its kernels are no sums that can be taken apart; "
            + (
                "model.dequantize() makes floats of these very weights, then load the model"
                if getattr(model, "hf_quantizer", None) is not None
                else "load the model in float32 or bfloat16"
            )
        )
    if not parameters:
        raise ModelError(f"expected a model with weights, {type(model).__name__} has no parameters")
    bare = missing(model)
    if bare:
        raise ModelError(
            f"expected a model with weights, {bare[0]} is on the meta device, which holds no numbers ({len(bare)} such "
            "parameters); load them with from_pretrained, or load_state_dict(..., assign=True)"
        )
    if any(p.is_inference() for p in parameters.values()):
        raise ModelError(
            "expected weights that can be differentiated, these were made under torch.inference_mode(); load the "
            "model outside of it (a lens may be used inside)"
        )
