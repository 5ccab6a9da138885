"""Block: one attention of one layer of one pass, taken apart. Primitives: terms, (their) norms, and `finish`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from mixlens.architectures import Attend, Feed, Spec, submodule
from mixlens.architectures.spec import Network, SubBlock
from mixlens.capture.again import attention_alone, attention_of, each_tensor, of_text
from mixlens.capture.attention import Call, repeat_heads
from mixlens.capture.run import Arguments, LayerPass
from mixlens.decompose.jacobian import Jacobians, token_local
from mixlens.decompose.linear import Frozen, in_place, matrix
from mixlens.decompose.terms import Terms
from mixlens.errors import SelfCheckFailed, Undefined
from mixlens.precision import is_half, widened

Stage = Literal["attention", "residual", "ln1", "ln2"]
STAGES: tuple[Stage, ...] = ("attention", "residual", "ln1", "ln2")


def token_by_token(module: torch.nn.Module, t: Tensor) -> Tensor:
    """A network's output of vectors t (..., dim), each a token; of a tuple (with a router's scores) its first."""
    out = module(t.reshape(1, -1, t.shape[-1]))
    first: Tensor = out[0] if isinstance(out, tuple) else out
    return first.view(t.shape)


def take_rows(t: Tensor, queries: Tensor) -> Tensor:
    """Some rows (batch, row, dim) of (batch, position, dim)."""
    return t.gather(1, queries[..., None].expand(-1, -1, t.shape[-1]))


def _through(norms: Sequence[tuple[Frozen, Tensor]], vectors: Tensor) -> Tensor:
    """Vectors (batch, position, dim) through frozen norms, each with its scale (batch, position), LN beta out."""
    for norm, scale in norms:
        vectors = norm.linear(vectors) * scale[..., None]
    return vectors


class Block:
    """One attention sub-block of one layer of one pass. Hidden states are (batch, position, dim), in at least float32.

    `x` the vectors that enter it, `attn` its output projection's real output (bias and scale in), `y` the layer's real
    output.
    `place` (batch, row): the positions of the query rows, where not all are there (see `only`); None: all. `number`:
    which of the layer's attention sub-blocks; None: it has one. `dtype`: the model's own.
    """

    def __init__(self, spec: Spec, seen: LayerPass, number: int | None = None) -> None:
        attend = spec.attend if number is None else spec.attends[number]
        where = spec.chain.index(attend)
        self.spec, self.index, self.attend, self.behind = spec, seen.index, attend, spec.chain[where + 1 :]
        self.dtype, self.half = seen.x.dtype, is_half(seen.x.dtype)
        self.module = copy.deepcopy(seen.module).float() if self.half else seen.module
        self.passes = dict(zip(spec.attends, seen.attends, strict=True))
        mine = self.passes[attend]
        (call,) = mine.calls
        assert mine.out is not None and seen.y is not None
        self.call: Call = call
        self.norms = {path: (widened(before), widened(after)) for path, (before, after) in seen.norms.items()}
        self.x, self.y = widened(self._entering(seen, where)), widened(seen.y)
        self.attn = self.scaled(attend, widened(mine.out))
        self.values = widened(call.v)
        self.arguments: Arguments = (seen.args, seen.kwargs)
        self.place: Tensor | None = None

    def _entering(self, seen: LayerPass, where: int) -> Tensor:
        """The vectors that enter sub-block `where` of the chain."""
        if where == 0 or self.spec.order == "parallel":
            return seen.x
        before, here = self.spec.chain[where - 1], self.spec.chain[where]
        post = self.spec.order == "post"
        path = before.norm if post else here.norm
        assert path is not None
        return seen.norms[path][1 if post else 0]

    @property
    def one_stream(self) -> bool:
        """Whether queries and keys are one stream, so that a token has a term of its own."""
        return self.attend.reads == "self"

    def require_one_stream(self, name: str) -> None:
        """Raises Undefined for what needs a token's own term, where another stream is read."""
        if not self.one_stream:
            raise Undefined(
                f"{name} needs queries and keys of one stream, '{self.attend.attention}' reads another, in which no "
                "token meets itself; use a method that needs no term of its own (attention, norm, value_zeroing)"
            )

    def only(self, queries: Tensor) -> Block:
        """The same for a few query rows, `queries` (batch, row) being their positions; all keys stay."""
        rows = copy.copy(self)
        rows.place, rows.call = queries, self.call.take(queries)
        rows.x, rows.attn, rows.y = (take_rows(t, queries) for t in (self.x, self.attn, self.y))
        rows.norms = {p: (take_rows(t, queries), take_rows(u, queries)) for p, (t, u) in self.norms.items()}
        rows.passes = {
            attend: replace(seen, calls=[call.take(queries) for call in seen.calls])
            for attend, seen in self.passes.items()
        }
        return rows

    @cached_property
    def output(self) -> tuple[Tensor, Tensor | None]:
        """W_O as (head, head dim, dim), and b_O (dim,) or None; both times the sub-block's scale."""
        heads, width = self.call.q.shape[1], self.values.shape[-1]
        weight, bias = matrix(submodule(self.module, self.attend.out), heads * width)
        bias = None if bias is None else self.scaled(self.attend, bias)
        return self.scaled(self.attend, weight.T.reshape(heads, width, -1)), bias

    def scaled(self, part: SubBlock, branch: Tensor) -> Tensor:
        """A sub-block's output (..., dim) times its scale."""
        factor = part.scale if not isinstance(part.scale, str) else submodule(self.module, part.scale)
        if factor is None:
            return branch
        scaled: Tensor = factor(branch) if isinstance(factor, torch.nn.Module) else branch * factor
        return scaled

    def norm(self, path: str) -> Frozen:
        """The frozen form of a norm of the layer."""
        return Frozen(submodule(self.module, path), self.spec.norm, self.spec.one_plus)

    def scale(self, path: str) -> Tensor:
        """1 / standard deviation that a norm met in this pass, (batch, position)."""
        return self.norm(path).scale(self.norms[path][0])

    def has(self, stage: Stage) -> bool:
        """Whether the layer has this stage: `ln1` and `ln2` only where norms follow the residual sums (post-LN)."""
        return stage in ("attention", "residual") or self.spec.order == "post"

    def _norms_to(self, stage: Stage) -> tuple[str, ...]:
        """The norms behind the residual sums that a stage is behind."""
        if stage in ("attention", "residual"):
            return ()
        paths = (self.attend.norm, *(part.norm for part in self.behind))
        return tuple(path for path in paths[: 1 if stage == "ln1" else None] if path is not None)

    def terms(self, stage: Stage) -> Terms:
        """The terms of the sub-block at a stage of the layer (value bias in, output bias and LN beta out).

        attention: sum_h alpha_ij^h W_O^h v_j^h;  residual: plus x_i at i = j (not where another stream is read);
        ln1: through the frozen norm behind that sum;  ln2: through those of all sub-blocks behind. A norm between
        sub-block and residual (Gemma 2) is frozen and applied from `residual` on. Raises Undefined.
        """
        if not self.has(stage):
            raise Undefined(
                f"expected a post-LN layer for the stage '{stage}', got a {self.spec.order}-LN one: no norm follows "
                "its residual sum"
            )
        projection, scale = self.output[0], None
        branch_norm = self.attend.branch_norm
        if stage != "attention" and branch_norm is not None:
            projection, scale = self.norm(branch_norm).linear(projection), self.scale(branch_norm)
        frozen = [(self.norm(path), self.scale(path)) for path in self._norms_to(stage)]
        for norm, factor in frozen:
            projection = norm.linear(projection)
            scale = factor if scale is None else scale * factor
        residual = _through(frozen, self.x) if self.one_stream and stage != "attention" else None
        return Terms(self.call, self.values, projection, scale, residual, self.place, self.one_stream)

    def carried(self, stage: Stage) -> Tensor:
        """What the vectors that enter are at a stage behind the residual sum: through the frozen norms, LN beta out.

        Where one stream is read it is part of the term i = j; else it is a term of its own. (batch, position, dim).
        """
        return _through([(self.norm(path), self.scale(path)) for path in self._norms_to(stage)], self.x)

    def result(self, stage: Stage) -> Tensor:
        """The real vector at a stage, biases in: what the terms explain. (batch, position, dim)."""
        if stage == "attention":
            return self.attn
        if stage == "residual":
            branch_norm = self.attend.branch_norm
            return self.x + (self.attn if branch_norm is None else self.norms[branch_norm][1])
        return self.norms[self._norms_to(stage)[-1]][1]

    def finish(self, attn: Tensor) -> Tensor:
        """The rest of the layer from an output-projection output (b_O in, before any norm and the residual).

        `attn` (batch, position, dim) or with one more axis before dim: (batch, position, any, dim).
        """
        x = self.x if attn.ndim == self.x.ndim else self.x.unsqueeze(-2)
        vectors = self._joined(self.attend, x, attn)
        for part in self.behind:
            reads = x if self.spec.order == "parallel" else vectors
            if self.spec.order != "post" and part.norm is not None:
                reads = self._module(part.norm)(reads)
            vectors = self._joined(part, vectors, self.branch(part, reads))
        return vectors

    def _joined(self, part: SubBlock, stream: Tensor, branch: Tensor) -> Tensor:
        """The stream behind a sub-block whose branch (before its own norm, if any) is this."""
        total = stream + (branch if part.branch_norm is None else self._module(part.branch_norm)(branch))
        return self._module(part.norm)(total) if self.spec.order == "post" else total

    def branch(self, part: SubBlock, t: Tensor) -> Tensor:
        """A sub-block's output, its scale in, before any norm and the residual sum, for the vectors that it reads."""
        if isinstance(part, Feed):
            return self.after_up(part, *(submodule(self.module, up)(t) for up in part.up))
        if isinstance(part, Network):
            return self.scaled(part, token_by_token(self._module(part.module), t))
        return self.scaled(part, self._attended(part, t))

    def _attended(self, attend: Attend, t: Tensor) -> Tensor:
        """The attention of vectors t (batch, position, dim) or (batch, position, any, dim) to another stream."""
        seen = self.passes[attend]
        (call,) = seen.calls
        wide = t.unsqueeze(2) if t.ndim == 3 else t
        batch, n, count, dim = wide.shape
        # Each of the `any` is a text of its own, so that a query meets its own position.
        flat = wide.transpose(1, 2).reshape(batch * count, n, dim)
        arguments = each_tensor(
            seen.arguments, lambda t: t.repeat_interleave(count, 0) if t.ndim > 1 and len(t) == batch else t
        )
        q = attention_alone(submodule(self.module, attend.attention), arguments, flat).q
        values = repeat_heads(widened(call.v), call.groups)
        out = submodule(self.module, attend.out)
        made = []
        for each in q.view(batch, count, *q.shape[1:]).unbind(1):
            context = replace(call, q=each, causal=False).weights() @ values
            made.append(out(context.transpose(1, 2).flatten(2)))
        return made[0] if t.ndim == 3 else torch.stack(made, 2)

    def after_up(self, feed: Feed, *hidden: Tensor, spare: bool = False) -> Tensor:
        """A feed-forward network from the outputs of its first maps on. `spare`: which may be written over."""
        if feed.fused:
            hidden = hidden[0].chunk(2, -1)
        act = submodule(self.module, feed.act)
        h = in_place(act)(hidden[0]) if spare else act(hidden[0])
        if len(hidden) == 2:
            h = h * hidden[1]
        return self.scaled(feed, submodule(self.module, feed.down)(h))

    def texts(self) -> Iterator[Block]:
        """The same for each text of the batch alone."""
        yield from map(self.text, range(len(self.x)))

    def text(self, b: int) -> Block:
        """The same for text b of the batch alone."""
        text = copy.copy(self)
        for name in ("x", "attn", "y", "norms", "values", "call", "arguments", "passes"):
            setattr(text, name, of_text(getattr(self, name), b, len(self.x)))
        return text

    def jacobians(self) -> Jacobians:
        """Of query, key and value with respect to the layer's input, token by token, for a block of one text.

        The layer is run again under autograd; no parameter gets a gradient. Raises SelfCheckFailed if it doesn't
        give what it gave, Undefined for layers of other sub-blocks than one attention and one network.
        """
        self.network()
        if self.call.given:
            raise Undefined(
                f"the Jacobian of a layer needs its queries and keys, '{self.attend.attention}' hands over its logits "
                "alone; use value_zeroing"
            )
        x = self.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            call = attention_of(self.module, self.attend.attention, self.arguments, x)
            for name in ("q", "k", "v"):
                real, got = getattr(self.call, name), getattr(call, name)
                off = float((got.detach() - real).abs().max())
                if not off <= 50 * torch.finfo(real.dtype).eps * float(real.abs().max()):
                    raise SelfCheckFailed(
                        f"expected {type(self.module).__name__} {self.index} run again to give the same {name}, it is "
                        f"off by {off:.1e}; the layer keeps a state or draws random numbers"
                    )
            return Jacobians(*(token_local(t, x) for t in (call.q, call.k, call.v)))

    def network(self) -> Feed | Network:
        """The feed-forward network of a layer of one self attention and one network. Raises Undefined for others."""
        if len(self.spec.chain) != 2 or not self.one_stream or isinstance(self.behind[0], Attend):
            raise Undefined(
                "the Jacobian of a layer is defined for layers of one self attention and one feed-forward network, got "
                f"{len(self.spec.chain)} sub-blocks; use value_zeroing"
            )
        return self.behind[0]

    def _module(self, path: str | None) -> torch.nn.Module:
        assert path is not None
        module: torch.nn.Module = submodule(self.module, path)
        return module
