"""Block: one layer of one pass, taken apart. Three primitives: terms, (their) norms, and `finish`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from mixlens.architectures import Spec, submodule
from mixlens.capture.attention import Call
from mixlens.capture.run import LayerPass, call_again, text_of
from mixlens.decompose.jacobian import Jacobians, feed_forward, token_local
from mixlens.decompose.linear import Frozen, in_place, matrix
from mixlens.decompose.terms import Terms
from mixlens.errors import SelfCheckFailed, Undefined
from mixlens.precision import is_half, widened

Stage = Literal["attention", "residual", "ln1", "ln2"]
STAGES: tuple[Stage, ...] = ("attention", "residual", "ln1", "ln2")


def take_rows(t: Tensor, queries: Tensor) -> Tensor:
    """Some rows (batch, row, dim) of (batch, position, dim)."""
    return t.gather(1, queries[..., None].expand(-1, -1, t.shape[-1]))


class Block:
    """One layer of one pass. Hidden states are (batch, position, dim), in at least float32.

    `x` the layer's input, `attn` the output projection's real output (bias in), `y` the layer's real output.
    `place` (batch, row): the positions of the query rows, where not all are there (see `only`); None: all.
    """

    def __init__(self, spec: Spec, seen: LayerPass) -> None:
        assert seen.attn is not None and seen.y is not None
        self.spec, self.index = spec, seen.index
        self.half = is_half(seen.x.dtype)
        self.module = copy.deepcopy(seen.module).float() if self.half else seen.module
        (call,) = seen.calls
        self.call: Call = call
        self.x, self.attn, self.y = (widened(t) for t in (seen.x, seen.attn, seen.y))
        self.norms = {role: tuple(widened(t) for t in pair) for role, pair in seen.norms.items()}
        self.values = widened(call.v)
        self.inputs: tuple[Any, Any] = (seen.args, seen.kwargs)
        self.place: Tensor | None = None

    def only(self, queries: Tensor) -> Block:
        """The same for some query rows alone, `queries` (batch, row) being their positions; all keys stay."""
        one = copy.copy(self)
        one.place, one.call = queries, self.call.take(queries)
        one.x, one.attn, one.y = (take_rows(t, queries) for t in (self.x, self.attn, self.y))
        one.norms = {role: tuple(take_rows(t, queries) for t in pair) for role, pair in self.norms.items()}
        return one

    @cached_property
    def output(self) -> tuple[Tensor, Tensor | None]:
        """W_O as (head, head dim, dim), and b_O (dim,) or None."""
        heads, width = self.call.q.shape[1], self.values.shape[-1]
        weight, bias = matrix(submodule(self.module, self.spec.out), heads * width)
        return weight.T.reshape(heads, width, -1), bias

    def norm(self, role: str) -> Frozen:
        """The frozen form of the norm that plays `role`."""
        return Frozen(submodule(self.module, self.spec.norms[role]), self.spec.norm, self.spec.one_plus)

    def scale(self, role: str) -> Tensor:
        """1 / standard deviation that the norm `role` met in this pass, (batch, position)."""
        return self.norm(role).scale(self.norms[role][0])

    def has(self, stage: Stage) -> bool:
        """Whether the layer has this stage: `ln1` and `ln2` only where norms follow the residual sums (post-LN)."""
        return stage in ("attention", "residual") or self.spec.order == "post"

    def terms(self, stage: Stage) -> Terms:
        """The terms of the attention sub-block at a stage of the layer (value bias in, output bias and LN beta out).

        attention: sum_h alpha_ij^h W_O^h v_j^h;  residual: plus x_i at i = j;  ln1, ln2: through the frozen norms.
        A norm between sub-block and residual (Gemma 2) is frozen and applied from `residual` on. Raises Undefined.
        """
        if not self.has(stage):
            raise Undefined(
                f"expected a post-LN layer for the stage '{stage}', got a {self.spec.order}-LN one: no norm follows "
                "its residual sum"
            )
        projection, own, scale = self.output[0], None, None
        if stage != "attention":
            own = self.x
            if "post_attention" in self.norms:
                projection = self.norm("post_attention").linear(projection)
                scale = self.scale("post_attention")
        for role in ("ln1", "ln2")[: max(0, STAGES.index(stage) - 1)]:
            norm, factor = self.norm(role), self.scale(role)
            assert own is not None
            projection, own = norm.linear(projection), norm.linear(own) * factor[..., None]
            scale = factor if scale is None else scale * factor
        return Terms(self.call, self.values, projection, scale, own, self.place)

    def result(self, stage: Stage) -> Tensor:
        """The real vector at a stage, biases in: what the terms explain. (batch, position, dim)."""
        if stage == "attention":
            return self.attn
        if stage == "residual":
            return self.x + (self.norms["post_attention"][1] if "post_attention" in self.norms else self.attn)
        return self.norms[stage][1]

    def finish(self, attn: Tensor) -> Tensor:
        """The rest of the layer from an output-projection output (b_O in, before any post-norm and the residual).

        `attn` (batch, position, dim) or with one more axis before dim: (batch, position, any, dim).
        """
        x = self.x if attn.ndim == self.x.ndim else self.x.unsqueeze(-2)
        a = x + (self._module("post_attention")(attn) if "post_attention" in self.norms else attn)
        if self.spec.order == "post":
            b = self._module("ln1")(a)
            return self._module("ln2")(b + self.ffn(b))
        if self.spec.order == "pre":
            return a + self.ffn(self._module("ln2")(a))
        return a + self.ffn(self._module("ln2")(x))

    def ffn(self, t: Tensor) -> Tensor:
        """The feed-forward network with the norm behind it, if any."""
        ffn = self.spec.ffn
        return self.after_up(*(submodule(self.module, up)(t) for up in ffn.up))

    def after_up(self, *hidden: Tensor, spare: bool = False) -> Tensor:
        """The feed-forward network from the outputs of its first maps on. `spare`: which may be written over."""
        ffn = self.spec.ffn
        if ffn.fused:
            hidden = hidden[0].chunk(2, -1)
        act = submodule(self.module, ffn.act)
        h = in_place(act)(hidden[0]) if spare else act(hidden[0])
        if len(hidden) == 2:
            h = h * hidden[1]
        out = submodule(self.module, ffn.down)(h)
        return self._module("post_ffn")(out) if "post_ffn" in self.norms else out

    def texts(self) -> Iterator[Block]:
        """The same for each text of the batch alone."""
        batch = len(self.x)
        for b in range(batch):
            one = copy.copy(self)
            for name in ("x", "attn", "y", "norms", "values", "call", "inputs"):
                setattr(one, name, text_of(getattr(self, name), b, batch))
            yield one

    def jacobians(self) -> Jacobians:
        """Of query, key and value with respect to the layer's input, token by token, for a block of one text.

        The layer is run again under autograd; no parameter gets a gradient. Raises SelfCheckFailed if it doesn't
        give what it gave.
        """
        x = self.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            call = call_again(self.module, self.spec, *self.inputs, x)
            for name in ("q", "k", "v"):
                real, got = getattr(self.call, name), getattr(call, name)
                off = float((got.detach() - real).abs().max())
                if not off <= 50 * torch.finfo(real.dtype).eps * float(real.abs().max()):
                    raise SelfCheckFailed(
                        f"expected {type(self.module).__name__} {self.index} run again to give the same {name}, it is "
                        f"off by {off:.1e}; the layer keeps a state or draws random numbers"
                    )
            return Jacobians(*(token_local(t, x) for t in (call.q, call.k, call.v)))

    def rest(self, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Jacobians of `finish` by attn_i, and of the layer by x_i at a fixed attn_i; each (batch, row, dim, dim)."""

        def at(role: str) -> tuple[Frozen, Tensor, Tensor]:
            before, after = self.norms[role]
            return self.norm(role), before[:, rows], after[:, rows]

        norm, before, entering = at("ln1" if self.spec.order == "post" else "ln2")
        ffn = self._ffn_jacobian(entering)
        if "post_ffn" in self.norms:
            last, actual, _ = at("post_ffn")
            ffn = last.push(ffn, actual)
        eye = torch.eye(ffn.shape[-1], dtype=ffn.dtype, device=ffn.device)
        if self.spec.order == "post":
            last, actual, _ = at("ln2")
            ffn.diagonal(dim1=-2, dim2=-1).add_(1)
            own = last.push(norm.pull(ffn, before), actual)
        else:
            own = norm.pull(ffn, before) + eye
        through = eye.expand_as(own) if self.spec.order == "parallel" else own
        if "post_attention" in self.norms:
            between, actual, _ = at("post_attention")
            through = between.pull(through, actual)
        return through, own

    def _ffn_jacobian(self, entering: Tensor) -> Tensor:
        ffn, dim = self.spec.ffn, entering.shape[-1]
        up = [submodule(self.module, path) for path in ffn.up]
        hidden, weights = [u(entering) for u in up], [matrix(u, dim)[0] for u in up]
        if ffn.fused:
            hidden, weights = list(hidden[0].chunk(2, -1)), list(weights[0].chunk(2, 0))
        down = matrix(submodule(self.module, ffn.down), hidden[0].shape[-1])[0]
        return feed_forward(hidden, weights, submodule(self.module, ffn.act), down)

    def _module(self, role: str) -> torch.nn.Module:
        module: torch.nn.Module = submodule(self.module, self.spec.norms[role])
        return module
