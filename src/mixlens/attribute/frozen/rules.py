"""What of a model's gradient is another than its own, and which methods are which choice of that.

Nothing here changes a number of the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from mixlens.architectures import Spec, base_model, layer_modules, submodule
from mixlens.attribute.frozen.softmax import tempered
from mixlens.capture.attention import Call, repeat_heads
from mixlens.decompose.linear import Frozen
from mixlens.errors import Undefined
from mixlens.precision import is_half, widened

TIMES_EPS = 50  # as in the self-check


@dataclass(frozen=True)
class Rules:
    """`norm`: a norm's scale (its mean subtraction keeps its gradient). `softmax`: the temperature at which it is
    differentiated (1: its own); None: attention weights are held fixed. `query`, `key`, `value`: what their gradients
    are multiplied by. `activation`: its derivative, or its slope act(x) / x (caps by a tanh too). `gate`: of
    act(gate) * up, both gradients as they are ("exact") or halved ("half"), or act(gate) held fixed ("frozen").
    """

    norm: Literal["exact", "frozen"] = "exact"
    softmax: float | None = 1.0
    query: float = 1.0
    key: float = 1.0
    value: float = 1.0
    activation: Literal["exact", "slope"] = "exact"
    gate: Literal["exact", "half", "frozen"] = "exact"


RULES = {
    "cp_lrp": Rules(norm="frozen", softmax=None, activation="slope", gate="frozen"),
    # AttnLRP's rule for a softmax, x_i (R_i - s_i sum_j R_j), is gradient times input with the softmax's own gradient.
    "attn_lrp": Rules(norm="frozen", query=1 / 4, key=1 / 4, value=1 / 2, activation="slope", gate="half"),
    "gim": Rules(norm="frozen", softmax=2.0, query=1 / 4, key=1 / 4, value=1 / 2, gate="half"),
}
RULES["libragrad"] = RULES["cp_lrp"]  # the same rules, reached from another side


def scaled(t: Tensor, factor: float) -> Tensor:
    """t, its gradient times a factor."""
    if factor == 1:
        return t
    return t.detach() if factor == 0 else valued(t.detach(), t * factor)


def valued(value: Tensor, graph: Tensor) -> Tensor:
    """`value` to the last bit, with the gradient of `graph`."""
    return value + (graph - graph.detach())


def slope(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f(x), differentiated as x times f(x) / x held fixed; at 0 as next to it."""
    with torch.no_grad():
        y = f(x)
        safe = x.masked_fill(x == 0, torch.finfo(x.dtype).eps)
        factor = f(safe) / safe
    return valued(y, x * factor)


@dataclass(frozen=True, eq=False)
class RuledCall(Call):
    """An attention call whose output is differentiated by rules.

    `alone` (batch, row): these rows pass their gradient on by their own weight alone, to themselves, so that none of
    them gets another's; other rows pass on nothing.
    """

    rules: Rules = Rules()
    alone: Tensor | None = None

    def capped(self, s: Tensor, cap: float) -> Tensor:
        if self.rules.activation == "exact":
            return super().capped(s, cap)
        return slope(partial(super().capped, cap=cap), s)

    def output(self) -> Tensor:
        if self.alone is not None:
            return valued(super().output().detach(), self._selves(self.alone))
        if self.rules.softmax in (None, 1.0):
            return super().output()
        return tempered(self, self.rules.softmax)

    def _selves(self, rows: Tensor) -> Tensor:
        """alpha_ii v_i of these rows, 0 elsewhere, the weights held fixed."""
        v, at = repeat_heads(self.v, self.groups), rows[:, None, :, None]
        with torch.no_grad():
            weights = self.take(rows).weights().gather(3, at.expand(-1, self.q.shape[1], -1, 1)).to(v.dtype)
        at = at.expand(-1, v.shape[1], -1, v.shape[3])
        return torch.zeros_like(v).scatter(2, at, weights * v.gather(2, at))


def ruled(rules: Rules, call: Call, alone: Tensor | None = None) -> Call:
    """A call in the place of `call`, differentiated by the rules; `alone`: see `RuledCall`."""
    query, key = (0.0, 0.0) if rules.softmax is None else (rules.query, rules.key)
    given = {each.name: getattr(call, each.name) for each in fields(call)}
    given |= {"q": scaled(call.q, query), "k": scaled(call.k, key), "v": scaled(call.v, rules.value)}
    return RuledCall(**given, rules=rules, alone=alone)


class Reached:
    """Whether the first layer has begun: no gradient goes through what is in front of it."""

    begun = False

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.begun = True


def norms(model: Any) -> list[nn.Module]:
    """What has a scale to be held fixed. Batch norms in eval mode have none: they are linear."""
    return [
        module
        for module in base_model(model).modules()
        if not isinstance(module, nn.modules.batchnorm._BatchNorm)
        and type(module).__module__ != parametrizations.__name__  # of weights
        and (_has_eps(module) or (type(module).__name__.endswith("Norm") and not any(module.children())))
    ]


def _has_eps(module: nn.Module) -> bool:
    return hasattr(module, "eps") or hasattr(module, "variance_epsilon")


def prepare(rules: Rules, spec: Spec, twin: Any) -> None:
    """Put the rules on a shadow's norms and feed-forward networks. Its pass raises Undefined where one has no rule."""
    if rules.norm == "frozen":
        reached = Reached()
        layer_modules(base_model(twin), spec)[0].register_forward_pre_hook(reached)
        for module in norms(twin):
            module.register_forward_hook(partial(_freeze, Frozen(module, spec.norm, spec.one_plus), reached))
    for layer in layer_modules(base_model(twin), spec):
        for feed in spec.feeds:
            frozen = feed.gated and rules.gate == "frozen"
            if frozen or rules.activation == "slope":
                path, _, name = feed.act.rpartition(".")
                parent = submodule(layer, path) if path else layer
                setattr(parent, name, _Activation(getattr(parent, name), frozen))
            if feed.gated and rules.gate == "half":
                submodule(layer, feed.down).register_forward_pre_hook(_halve)


class _Activation(nn.Module):
    """An activation by its slope, or held fixed."""

    def __init__(self, act: Any, frozen: bool) -> None:
        super().__init__()
        self.act, self.frozen = act, frozen

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(x).detach() if self.frozen else slope(self.act, x)
        return out


def _freeze(form: Frozen, reached: Reached, module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor | None:
    if not reached.begun:
        return None
    if not _has_eps(module) or isinstance(module, nn.GroupNorm):
        raise Undefined(
            f"expected norms with an epsilon, of each token alone, got {type(module).__name__}, for which no rule is "
            "here; use saliency or grad_x_input"
        )
    x = widened(args[0])
    frozen = form.linear(x) * form.scale(x.detach())[..., None]
    with torch.no_grad():
        off = (frozen if form.bias is None else frozen + form.bias) - widened(out)
        eps = torch.finfo(out.dtype if is_half(out.dtype) else torch.float32).eps  # norms are computed in float32
        if not bool(off.abs().max() <= TIMES_EPS * eps * out.abs().max()):
            raise Undefined(
                f"expected {type(module).__name__} to be a norm like those of the layers, its output is another; use "
                "saliency or grad_x_input"
            )
    return valued(out.detach(), frozen.to(out.dtype))


def _halve(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (scaled(args[0], 0.5), *args[1:])
