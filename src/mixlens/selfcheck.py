"""The check at load: does the decomposition add up to the model's own numbers, and what does its head read?"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, base_model, layer_modules, position_limit
from mixlens.attribute.methods import ATTRIBUTIONS
from mixlens.capture.offload import device_of, let_go, state
from mixlens.capture.run import LayerPass, layer_count, run
from mixlens.capture.shadow import implementation, shadow
from mixlens.decompose import Block, LayerCheck, residuals
from mixlens.decompose.check import tolerance
from mixlens.errors import NotFinite, SelfCheckFailed, Undefined
from mixlens.mixing import MIXING

PROBE_TOKENS = 8


@dataclass(frozen=True)
class Check:
    """What the self-check found. Residuals are relative to the largest real value.

    `reference`: the captured pass's output against the model's own, with the attention implementation that it was
    loaded with. `supports`: method -> None, or the reason why it is not defined here.
    """

    model: str
    architecture: str
    layers: tuple[LayerCheck, ...]
    tolerance: float
    reference: float
    reference_tolerance: float
    causal: bool
    supports: dict[str, str | None]

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
            what = f"{part} of layer {bad.layer} is off by {getattr(bad, part):.1e} (at most {self.tolerance:.1e})"
        else:
            what = f"the captured output is off by {self.reference:.1e} (at most {self.reference_tolerance:.1e})"
        raise SelfCheckFailed(
            f"expected the decomposition of {self.model} ({self.architecture}) to add up to the model's own numbers, "
            f"{what}; the model computes something else than its spec says, so nothing is explained"
        )


def accepts(model: Any) -> frozenset[str]:
    """The names of what a model's forward takes; one that takes any hands them on to the model without heads."""
    taken = inspect.signature(getattr(model.forward, "_torchdynamo_orig_callable", model.forward)).parameters
    names = frozenset(name for name, one in taken.items() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL))
    base = base_model(model)
    if base is not model and any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        return names | accepts(base)
    return names


def pad_id(model: Any, tokenizer: Any = None) -> int:
    """An id to fill up with: the config's, the tokenizer's, else 0; always one that has an embedding."""
    size = base_model(model).get_input_embeddings().num_embeddings
    found = (getattr(model.config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None), 0)
    return next(i for i in found if isinstance(i, int) and 0 <= i < size)


def probe_inputs(model: Any) -> dict[str, Tensor]:
    """A few tokens, the same for every model of a vocabulary size, no padding among them."""
    size = base_model(model).get_input_embeddings().num_embeddings
    n = max(2, min(PROBE_TOKENS, position_limit(model) or PROBE_TOKENS))
    pad, draw = pad_id(model), torch.Generator("cpu").manual_seed(0)
    ids = torch.randint(0, size, (1, n), generator=draw, dtype=torch.int64, device="cpu")
    ids = torch.where(ids == pad, (pad + 1) % size, ids).to(device_of(model))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@torch.no_grad()
def self_check(model: Any, spec: Spec, name: str) -> Check:
    """Run the check. Raises NotFinite for NaN weights; does not raise for residuals (see `Check.require`)."""
    inputs = probe_inputs(model)
    found: list[LayerCheck] = []
    limit, causal = 0.0, False

    def look(seen: LayerPass) -> None:
        nonlocal limit, causal
        block = Block(spec, seen)
        if not bool(torch.isfinite(block.y).all()):
            raise not_finite(model, f"layer {seen.index}")
        limit = max(limit, tolerance(block, seen.x.dtype))
        try:
            found.append(residuals(block))
        except (RuntimeError, TypeError) as error:  # shapes that do not fit, arguments that are missing
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise SelfCheckFailed(
                f"expected the parts of layer {seen.index} of {name} ({model.config.model_type}) to fit its spec, they "
                f"do not: {str(error).partition(chr(10))[0]}; the spec names other modules"
            ) from error
        visible = block.call.visible()
        causal = visible is not None and not bool(visible.triu(1).any())

    got = run(model, spec, inputs, look).last_hidden_state
    plain = base_model(shadow(model, _reference(model)))
    for layer in layer_modules(plain, spec):
        layer.register_forward_hook(lambda module, args, out: let_go(module))
    real = plain(**inputs).last_hidden_state
    if not bool(torch.isfinite(real).all()):
        raise not_finite(model, "the last layer")
    off = float((got - real).abs().max() / real.abs().max().clamp_min(1e-30))
    expected = layer_count(model, spec)
    if len(found) != expected:
        raise SelfCheckFailed(f"expected {expected} layers of {name} to run, {len(found)} did; the spec names others")
    # The attention kernels differ in rounding, and the difference grows with depth; eager ones may round to float32.
    wide = limit if _reference(model) != "eager" else max(limit, 50 * torch.finfo(torch.float32).eps)
    far = 0.2 if model.dtype in (torch.float16, torch.bfloat16) else 4 * wide
    return Check(name, model.config.model_type, tuple(found), limit, off, far, causal, supports(spec))


def _reference(model: Any) -> str:
    own = implementation(model)
    capped = getattr(model.config, "attn_logit_softcapping", None) is not None  # sdpa knows no soft cap
    return own if own in ("eager", "sdpa") else "eager" if capped else "sdpa"


def supports(spec: Spec) -> dict[str, str | None]:
    """Method -> None where it is defined for this architecture, else the reason."""
    out: dict[str, str | None] = {}
    for name, mixing in MIXING.items():
        reason = f"needs a norm behind the residual sum (post-LN); these layers: {spec.order}"
        out[name] = None if mixing.defined(spec) else reason
    for name, method in ATTRIBUTIONS.items():
        try:
            method.for_spec(spec)
            out.setdefault(name, None)
        except Undefined as error:
            out.setdefault(name, str(error))
    return out


def bad_weights(model: Any) -> list[str]:
    """The parameters that hold NaN or infinity."""
    known = {name for name, _ in model.named_parameters()}
    return [n for n, p in state(model).items() if n in known and not bool(torch.isfinite(p).all())]


def not_finite(model: Any, where: str) -> NotFinite:
    """The error for NaN or infinity, with the parameters that hold it."""
    bad = bad_weights(model)
    if bad:
        return NotFinite(
            f"expected finite weights, {bad[0]} holds NaN or infinity ({len(bad)} such parameters); "
            "load an intact checkpoint"
        )
    return NotFinite(
        f"expected finite numbers, {where} gives NaN or infinity though all weights are finite; "
        "load the model in float32 (half precision overflows)"
    )
