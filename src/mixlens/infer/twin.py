"""A small model of a class: the same configuration but for sizes, random weights of order one, float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.architectures import TEXT, fed, two_towers
from mixlens.capture.fed import SIGNALS, random_signal
from mixlens.capture.fed import kind as kind_of
from mixlens.capture.shadow import shadow
from mixlens.capture.sound import WAVE
from mixlens.errors import UnknownArchitecture
from mixlens.infer.reasons import NO_WAVE, TWO_STREAMS, TWO_TOWERS, Misfit
from mixlens.infer.sizes import SIZES, small

TOKENS = 24
LARGEST = 40_000_000  # numbers in a small model; more would take seconds


@dataclass(frozen=True, eq=False)
class Twin:
    """A small model with what a pass is fed: the token ids of one text, (1, position), a picture or a sound."""

    model: Any
    inputs: dict[str, Tensor]

    @property
    def ids(self) -> Tensor | None:
        """The token ids; None of what is no text."""
        return self.inputs.get(TEXT)


def twin_of(kind: Any, config: Any) -> Twin:
    """A small model of a class without heads. Raises UnknownArchitecture where none can be built or run, Misfit."""
    if two_towers(kind):
        raise Misfit(TWO_TOWERS)
    failed: list[str] = []
    for size in SIZES:
        try:
            model = _built(kind, small(config, size, fed(kind) in SIGNALS))
            twin = Twin(model, _inputs(model))
            with torch.no_grad():
                # on a shadow: a class may change itself in a pass (BigBird), as a user's model has not yet
                shadow(model, "eager")(**twin.inputs).last_hidden_state  # noqa: B018 - a class may give none
            return twin
        except Exception as error:  # whatever a class says of sizes that do not fit
            failed.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.160}")
    if fed(kind) == WAVE and failed[0].startswith("IndexError: Dimension"):
        raise Misfit(NO_WAVE)
    food = f"a {kind_of(fed(kind))}" if fed(kind) in SIGNALS else "token ids"
    raise UnknownArchitecture(
        f"expected a class of which a small model can be built and fed {food}, got {kind.__name__} "
        f"('{config.model_type}'): {failed[0]}"
    )


def whole_of(kind: Any, config: Any) -> Any:
    """A small model of a class that holds two towers. Raises UnknownArchitecture where none can be built."""
    failed: list[str] = []
    for size in SIZES:
        try:
            model = _built(kind, small(config, size))
            with torch.no_grad():
                model.get_text_features(_ids(model.text_model))
            return model
        except Exception as error:  # whatever a class says of sizes that do not fit
            failed.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.160}")
    raise UnknownArchitecture(
        f"expected a class of which a small model can be built and fed a text and a picture, got {kind.__name__} "
        f"('{config.model_type}'): {failed[0]}"
    )


def require_one_stream(config: Any) -> None:
    """Raises Misfit for an encoder-decoder: none is found, those of the table are known."""
    if _two_streams(config):
        raise Misfit(TWO_STREAMS)


def _two_streams(config: Any) -> bool:
    return bool(getattr(config, "is_encoder_decoder", False))


def _built(kind: Any, config: Any) -> Any:
    with torch.device("meta"):
        count = sum(p.numel() for p in kind(config).parameters())
    if count > LARGEST:
        raise ValueError(f"{count:,} numbers in its smallest model")
    config._attn_implementation_internal = "eager"
    with torch.random.fork_rng(devices=[]):
        model = kind(config).double().eval()
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._experts_implementation_internal = "eager"  # the others know no float64
    randomize(model)
    return model


@torch.no_grad()
def randomize(model: nn.Module) -> None:
    """Weights of order one: with a class's own first numbers, networks would be too small to be seen in a sum."""
    draw = torch.Generator("cpu").manual_seed(0)
    for parameter in model.parameters():
        if not parameter.is_floating_point():
            continue
        noise = torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype, device="cpu")
        if parameter.ndim > 1:
            width = parameter.shape[-1] if parameter.ndim < 4 else parameter[0].numel()
            parameter.copy_(noise * (1.2 / width**0.5))
        else:
            around = 1.0 if parameter.numel() and parameter.abs().mean() > 0.5 else 0.0
            parameter.copy_(noise * 0.2 + around)


def _inputs(model: Any) -> dict[str, Tensor]:
    """What a model is fed."""
    two = _two_streams(model.config)
    if fed(model) in SIGNALS:
        beside = {"decoder_input_ids": _ids(model)} if two else {}
        return {fed(model): random_signal(model).to(model.dtype), **beside}
    ids = _ids(model)
    beside = {"decoder_input_ids": ids} if two else {}
    return {TEXT: ids, "attention_mask": torch.ones_like(ids), **beside}


def _ids(model: Any) -> Tensor:
    """Token ids that mean nothing to the model: no padding, no marks of pictures."""
    size = model.get_input_embeddings().num_embeddings
    special = _special(model.config.to_dict())
    free = torch.tensor([i for i in range(min(size, 1024)) if i not in special], dtype=torch.int64, device="cpu")
    draw = torch.Generator("cpu").manual_seed(0)
    chosen = torch.randint(0, len(free), (1, TOKENS), generator=draw, dtype=torch.int64, device="cpu")
    return free[chosen]


def _special(config: Mapping[str, Any]) -> set[int]:
    """The token ids that a configuration names."""
    out: set[int] = set()
    for key, value in config.items():
        if isinstance(value, Mapping):
            out |= _special(value)
        elif str(key).endswith(("token_id", "token_index")):
            out |= {v for v in (value if isinstance(value, list) else [value]) if isinstance(v, int)}
    return out
