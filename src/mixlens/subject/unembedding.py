"""How a language model's logits come of its last layer's vectors: by which norm, and by which matrix.

Both are found by values in one small pass: the norm is the module whose input is the last layer's output and whose
output is what the vocabulary's map reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.architectures import Spec, base_model, layer_modules
from mixlens.capture.attention import blocks
from mixlens.capture.shadow import implementation, shadow
from mixlens.decompose.linear import Frozen
from mixlens.errors import Undefined
from mixlens.precision import is_half, widened

BLOCK = 1 << 24  # numbers of the matrix that are widened at a time
TIMES_EPS = 50  # as in the self-check


@dataclass(frozen=True, eq=False)
class Unembedding:
    """logits = factor (matrix N(x) + bias), N the final norm.

    `cap`: what logits are held below by a tanh (Gemma 2). `factor`: what they are multiplied by, where there is no cap
    (Granite, Cohere).
    """

    norm: Frozen | None
    matrix: Float[Tensor, "vocabulary dim"]
    bias: Float[Tensor, " vocabulary"] | None = None
    cap: float | None = None
    factor: float = 1.0

    def logits(self, normed: Float[Tensor, "row dim"]) -> Float[Tensor, "row vocabulary"]:
        """The logits of vectors behind the final norm, in at least float32."""
        raw = widened(torch.nn.functional.linear(normed, self.matrix, self.bias))
        return raw * self.factor if self.cap is None else torch.tanh(raw / self.cap) * self.cap

    def combined(self, weights: Float[Tensor, "row vocabulary"]) -> Float[Tensor, "row dim"]:
        """sum_w weights_w U_w for each row: what the matrix' rows are together."""
        out = weights.new_zeros(len(weights), self.matrix.shape[1])
        for part in blocks(len(self.matrix), BLOCK // self.matrix.shape[1]):
            out += weights[:, part] @ widened(self.matrix[part]).to(weights.dtype)
        return out

    def slope(self, logits: Tensor) -> Tensor:
        """What a logit gains where the matrix' number gains 1."""
        return torch.full_like(logits, self.factor) if self.cap is None else 1 - (logits / self.cap).pow(2)

    def directions(self, last: Float[Tensor, "row dim"], wanted: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        """u with u . x = wanted . N(x) but for N's bias, at the last layer's vectors; the norm's scale frozen there."""
        if self.norm is None:
            return wanted
        return self.norm.adjoint(wanted) * self.norm.scale(last)[..., None]


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a model has its unembedding: the names of its norm, of which kind, and of the vocabulary's map, its factor.

    `mark`: what a place holds for. `refused`: why there is none.
    """

    mark: Any
    vocabulary: str = ""
    norm: tuple[str, Literal["layer", "rms"], bool] | None = None
    factor: float = 1.0
    refused: str | None = None


_PLACES: WeakKeyDictionary[Any, _Place] = WeakKeyDictionary()


def unembedding_of(model: Any, spec: Spec, inputs: Mapping[str, Tensor]) -> Unembedding:
    """The Unembedding of a language model, seen on `inputs`. Raises Undefined where nothing adds up to its logits.

    Where it was found is remembered as long as the model lives and has the same modules and configuration; tensors are
    those of the call.
    """
    mark = _mark(model)
    place = _PLACES.get(model)
    if place is not None and place.mark == mark:
        if place.refused is not None:
            raise Undefined(place.refused)
        again = _again(model, place)
        if again is not None:
            return again
    try:
        unembedding, names = _searched(model, spec, inputs)
    except Undefined as reason:
        _PLACES[model] = _Place(mark, refused=str(reason))
        raise
    norm = unembedding.norm
    kind = None if norm is None else (names[norm.module], norm.kind, norm.one_plus)
    _PLACES[model] = _Place(mark, names["vocabulary"], kind, unembedding.factor)
    return unembedding


def _mark(model: Any) -> Any:
    """The modules themselves, forwards of their own, the configuration, the model's own numbers and the dtype."""
    # (by identity: a forward may hold its module, and what is remembered must not keep the model alive)
    modules = [(ref(module), id(vars(module).get("forward"))) for module in model.modules()]
    numbers = {k: v for k, v in vars(model).items() if type(v) in (int, float)}  # (Cohere: a factor of its logits)
    return modules, model.config.to_dict(), numbers, model.dtype


def _again(model: Any, place: _Place) -> Unembedding | None:
    """The tensors of a place; None where they are kept elsewhere, and a pass must bring them in."""
    twin = shadow(model, implementation(model))
    vocabulary, norm = twin.get_submodule(place.vocabulary), None
    if place.norm is not None:
        name, kind, one_plus = place.norm
        norm = Frozen(twin.get_submodule(name), kind, one_plus)
    parts = [vocabulary] if norm is None else [vocabulary, norm.module]
    if any(p.is_meta for part in parts for p in part.parameters()):
        return None
    return Unembedding(norm, vocabulary.weight, vocabulary.bias, _cap(model), place.factor)


def _cap(model: Any) -> float | None:
    cap = getattr(base_model(model).config, "final_logit_softcapping", None)
    return float(cap) if cap else None


@torch.no_grad()
def _searched(model: Any, spec: Spec, inputs: Mapping[str, Tensor]) -> tuple[Unembedding, dict[Any, str]]:
    """By a pass; the names of the modules too, that of the vocabulary's map as "vocabulary"."""
    twin = shadow(model, implementation(model))
    vocabulary = twin.get_output_embeddings() if hasattr(twin, "get_output_embeddings") else None
    if not isinstance(vocabulary, nn.Linear):
        raise Undefined(f"expected a language model with a linear map to its vocabulary, got {type(model).__name__}")
    layers = layer_modules(base_model(twin), spec)
    inside = {part for layer in layers for part in layer.modules()}
    ran: list[tuple[nn.Module, Tensor, Tensor]] = []
    for module in twin.modules():
        if module is layers[-1] or (module not in inside and not list(module.children())):
            module.register_forward_hook(partial(_keep, ran))
    logits = twin(**inputs).logits
    last = next(out for module, _, out in reversed(ran) if module is layers[-1])
    read = next(x for module, x, _ in reversed(ran) if module is vocabulary)
    norm = None
    if not _same(read, last):
        fits = (_frozen(module, x, out) for module, x, out in ran if _same(x, last) and _same(out, read))
        norm = next((fit for fit in fits if fit is not None), None)
        if norm is None:
            raise Undefined(
                f"expected one norm between the last layer of {type(model).__name__} and its vocabulary, none gives "
                "what the vocabulary's map reads; use saliency, or another method of gradients"
            )
    # the twin's, which has brought in what the model's own keeps elsewhere
    unembedding = Unembedding(norm, vocabulary.weight, vocabulary.bias, _cap(model))
    if unembedding.cap is None:
        raw = unembedding.logits(read[0]).double()
        factor = float((raw * logits[0]).sum() / raw.square().sum())  # least squares
        if not abs(factor - 1) <= 8 * torch.finfo(model.dtype).eps:
            unembedding = replace(unembedding, factor=factor)
    if _near(unembedding.logits(read[0]), logits[0], model.dtype):
        names: dict[Any, str] = {module: name for name, module in twin.named_modules()}
        return unembedding, {**names, "vocabulary": names[vocabulary]}
    raise Undefined(
        f"expected the logits of {type(model).__name__} to be its vocabulary's map of the last norm, they are "
        "something else; use saliency, or another method of gradients"
    )


def _keep(ran: list[tuple[nn.Module, Tensor, Tensor]], module: nn.Module, args: Any, out: Any) -> None:
    first = out[0] if isinstance(out, (tuple, list)) and out else out
    if args and isinstance(args[0], Tensor) and isinstance(first, Tensor):
        ran.append((module, args[0], first))


def _frozen(module: nn.Module, x: Tensor, out: Tensor) -> Frozen | None:
    """The frozen form of a norm, of the kind that gives what it gave; None: it is no norm."""
    if x.shape != out.shape:
        return None
    kinds: tuple[tuple[Literal["layer", "rms"], bool], ...] = (("layer", False), ("rms", False), ("rms", True))
    for kind, one_plus in kinds:
        form = Frozen(module, kind, one_plus)
        if _near(form.apply(widened(x)), out, x.dtype):
            return form
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    return a.numel() == b.numel() and torch.equal(a.reshape(-1), b.reshape(-1))


def _near(got: Tensor, real: Tensor, dtype: torch.dtype) -> bool:
    """Within rounding; norms are computed in float32 whatever the model's type."""
    eps = torch.finfo(dtype if is_half(dtype) else torch.float32).eps
    off = (got - widened(real)).abs().max()
    return bool(off <= TIMES_EPS * eps * real.abs().max())
