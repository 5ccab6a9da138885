"""The check at load: does the decomposition add up to the model's own numbers?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, base_model, encoder_of, layer_count, layer_modules
from mixlens.capture.offload import let_go
from mixlens.capture.run import LayerPass, run
from mixlens.capture.shadow import implementation, shadow
from mixlens.decompose import Block, LayerCheck, residuals
from mixlens.decompose.check import tolerance
from mixlens.errors import SelfCheckFailed
from mixlens.infer import Origin
from mixlens.precision import is_half
from mixlens.subject.finite import not_finite
from mixlens.subject.outputs import result_of
from mixlens.subject.probe import probe_inputs


@dataclass(frozen=True)
class Check:
    """What the self-check found. Residuals are relative to the largest real value.

    `reference`: the captured pass's output against the model's own, with the attention implementation that it was
    loaded with. `spec`: how the layers are built; `origin`: who says so. `supports`: method -> None, or the reason why
    it is not defined here (filled in by `Lens.check`, as `origin` is).
    """

    model: str
    architecture: str
    layers: tuple[LayerCheck, ...]
    tolerance: float
    reference: float
    reference_tolerance: float
    causal: bool
    spec: Spec
    origin: Origin = "hand-written"
    supports: dict[str, str | None] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """The largest residual of all layers."""
        return max(layer.worst for layer in self.layers)

    @property
    def passed(self) -> bool:
        """Whether everything is within tolerance."""
        return self.worst <= self.tolerance and self.reference <= self.reference_tolerance

    def require(self) -> Check:
        """Itself, or SelfCheckFailed with the layer and the part that does not add up."""
        if self.passed:
            return self
        bad = max(self.layers, key=lambda layer: layer.worst)
        if bad.worst > self.tolerance:
            part = max(("sum_of_terms", "finish", "norms"), key=lambda name: getattr(bad, name))
            fault = f"{part} of layer {bad.name} is off by {getattr(bad, part):.1e} (at most {self.tolerance:.1e})"
        else:
            fault = f"the captured output is off by {self.reference:.1e} (at most {self.reference_tolerance:.1e})"
        raise SelfCheckFailed(
            f"expected the decomposition of {self.model} ({self.architecture}) to add up to the model's own numbers, "
            f"{fault}; the model computes something else than its spec says, so nothing is explained"
        )


def self_check(model: Any, spec: Spec, name: str) -> Check:
    """Run the check, of an encoder-decoder that of both. Raises NotFinite for NaN weights; does not raise for residuals
    (see `Check.require`).
    """
    check = _checked(model, spec, name)
    if spec.memory is None:
        return check
    encoder = _checked(encoder_of(model), spec.memory, name)
    return replace(
        check,
        layers=(*(replace(layer, part="encoder") for layer in encoder.layers), *check.layers),
        tolerance=max(check.tolerance, encoder.tolerance),
        reference=max(check.reference, encoder.reference),
    )


def of_towers(text: Check, picture: Check, model: Any) -> Check:
    """The checks of two towers as one, of the model that holds them."""
    both = (("text", text), ("picture", picture))
    layers = [replace(layer, part=part) for part, check in both for layer in check.layers]
    return replace(
        text,
        architecture=model.config.model_type,
        layers=tuple(layers),
        tolerance=max(text.tolerance, picture.tolerance),
        reference=max(text.reference, picture.reference),
        reference_tolerance=max(text.reference_tolerance, picture.reference_tolerance),
    )


@torch.no_grad()
def _checked(model: Any, spec: Spec, name: str) -> Check:
    inputs = probe_inputs(model, spec)
    checks: list[LayerCheck] = []
    limit, causal = 0.0, False
    last: Tensor | None = None

    def look(seen: LayerPass) -> None:
        nonlocal limit, causal, last
        if last is not None and not torch.equal(seen.x.to(last.device), last):
            raise SelfCheckFailed(
                f"expected layer {seen.index} of {name} ({model.config.model_type}) to read what layer "
                f"{seen.index - 1} gave, it reads something else; a part of the model between them has no rule here"
            )
        last = seen.y
        block = Block(spec, seen, 0)
        if not bool(torch.isfinite(block.y).all()):
            raise not_finite(model, f"layer {seen.index}")
        limit = max(limit, tolerance(block, seen.x.dtype))
        try:
            if spec.memory is None:
                checks.append(residuals(block))
            else:
                checks.append(replace(residuals(block), part="decoder"))
                checks.append(replace(residuals(Block(spec, seen, 1)), part="cross"))
        except (RuntimeError, TypeError) as error:  # shapes that do not fit, arguments that are missing
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise SelfCheckFailed(
                f"expected the parts of layer {seen.index} of {name} ({model.config.model_type}) to fit its spec, they "
                f"do not: {str(error).partition(chr(10))[0]}; the spec names other modules"
            ) from error
        visible = block.call.visible()
        causal = visible is not None and not bool(visible.triu(1).any())

    got = result_of(run(model, spec, inputs, look))
    plain = base_model(shadow(model, _reference(model)))
    for layer in layer_modules(plain, spec):
        layer.register_forward_hook(lambda module, args, out: let_go(module))
    encoder = [] if spec.memory is None else layer_modules(encoder_of(plain), spec.memory)
    beside = _beside(plain, layer_modules(plain, spec) + encoder)
    real = result_of(plain(**inputs))
    if beside:
        raise SelfCheckFailed(
            f"expected the spec of {name} ({model.config.model_type}) to name all of its layers, '{beside[0]}' runs "
            "beside them and is of their kind; say the whole list in layers="
        )
    if not bool(torch.isfinite(real).all()):
        raise not_finite(model, "the last layer")
    off = float((got - real).abs().max() / real.abs().max().clamp_min(1e-30))
    expected, ran = layer_count(model, spec), len(checks) // len(spec.attends)
    if ran != expected:
        raise SelfCheckFailed(f"expected {expected} layers of {name} to run, {ran} did; the spec names others")
    # The attention kernels differ in rounding, and the difference grows with depth; eager ones may round to float32.
    wide = limit if _reference(model) != "eager" else max(limit, 50 * torch.finfo(torch.float32).eps)
    far = 0.2 if is_half(model.dtype) else 4 * wide
    return Check(name, model.config.model_type, tuple(checks), limit, off, far, causal, spec)


def _beside(plain: Any, layers: list[Any]) -> list[str]:
    """The names of modules of the layers' classes, but outside them, filled in as they run."""
    kinds, inside, ran = {type(layer) for layer in layers}, {m for layer in layers for m in layer.modules()}, []
    for path, module in plain.named_modules():
        if type(module) in kinds and module not in inside:
            module.register_forward_hook(lambda *_, path=path: ran.append(path))
    return ran


def _reference(model: Any) -> str:
    attention = implementation(model)
    capped = getattr(model.config, "attn_logit_softcapping", None) is not None  # sdpa knows no soft cap
    return attention if attention in ("eager", "sdpa") else "eager" if capped else "sdpa"
