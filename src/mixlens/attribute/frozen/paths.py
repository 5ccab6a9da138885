"""What every head carries from token to token, weighed by how the answer depends on it where it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.attribute.frozen.edges import Edges, Measured
from mixlens.attribute.frozen.engine import RuledPass, covectors, gradients, products, ruled_pass
from mixlens.attribute.frozen.family import Frozen
from mixlens.attribute.frozen.rules import RULES, Rules
from mixlens.attribute.gradient.family import BACKWARD, runs_again, states_bytes
from mixlens.attribute.method import Deep, Tracing
from mixlens.attribute.traced import Traced
from mixlens.budget import sizes_of
from mixlens.capture.again import each_tensor
from mixlens.capture.attention import blocks
from mixlens.capture.offload import there
from mixlens.capture.run import LayerPass
from mixlens.cost import Cost, keys_and_values
from mixlens.decompose import Block
from mixlens.decompose.tiles import ROW_BYTES
from mixlens.errors import UnknownOption
from mixlens.precision import widened
from mixlens.subject import Subject
from mixlens.subject.head import HeadTask

if TYPE_CHECKING:
    from typing import Literal


PATHS = ("row", "all")

# the terms of all rows; those of the answering rows alone cost what keys and values take
ALL = Cost("backward", "one pass forward, one backward, and the terms", lambda sizes, n: 3.5, states_bytes)
ROW = replace(BACKWARD, held=lambda sizes, n: BACKWARD.held(sizes, n) + keys_and_values(sizes, n))


@dataclass(frozen=True)
class PathLogit(Frozen):
    """sum over layers and rows i of max(0, sum over heads of p_ij^h W_O^h (v_j^h - r_i^h) . u_i), j != i, u_i the
    frozen gradient of the answer by what the layer's attention writes at row i; the row that answers has max(0, x . u)
    of its own token, x the first layer's input there and u the gradient by it (`itself=False`: without).

    p: the head's weights at `temperature`. r_i: what it reads so, 1 - `average` of it at row i, `average` of it the
    mean over the rows up to i. `clamp="head"`: each head's negative terms are dropped. `temperature=1, average=None`:
    the heads' terms as they are, with no r.

    `paths="row"`: of the answering row alone, whose gradient goes back to itself: no later row reads it, and of what it
    reads nothing reaches its own attention again but by its own weight. So one backward pass serves all answers.
    """

    rules: Rules = RULES["cp_lrp"]
    signed: bool = False
    heads: tuple[HeadTask, ...] | None = ("causal",)
    no_post_ln = (
        "is worked out for a residual stream that no norm interrupts, this model's layers are post-LN; use attn_lrp or "
        "saliency"
    )

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return ALL if options.get("paths") == "all" else ROW

    def options(self) -> dict[str, Any]:
        return {"paths": "row", "itself": True, **asdict(Measured())}

    def layers(self, deep: Deep) -> Literal["again"] | None:
        return None

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        return "together" if options.get("paths", "row") == "row" else super().traced(subject, options)

    def rows(self, subject: Subject, ask: Traced) -> Tensor | None:
        """One pass forward, and one backward for all answer tokens (`paths="all"`: one each)."""
        if self.traced(subject, ask.options) != "together":
            return super().rows(subject, ask)
        (batch,) = subject.batches([ask.tokens], 1)
        passed = self.see(subject, batch.inputs, [0] * ask.count, ask.rows, ask.options)
        ask.passed(passed.normed.detach())
        _, covector = covectors(subject.unembedding, ask.logits, ask.answers, self.of, self.rules)
        scores = self.finite(subject, reaching(passed, covector, ask.options.get("itself", True))[0].cpu())
        if ask.progress is not None:
            ask.progress(ask.count, ask.count)
        return scores

    def see(
        self,
        subject: Subject,
        inputs: Mapping[str, Tensor],
        texts: Sequence[int],
        rows: Sequence[int],
        options: Mapping[str, Any],
    ) -> RuledPass:
        """The pass, with what every attention reads and writes."""
        paths, measured = options.get("paths", "row"), _measured(options)
        if paths not in PATHS:
            raise UnknownOption(f"expected paths='row' or 'all' for {self.name}, got {paths!r}")
        if paths == "all":
            return ruled_pass(subject, inputs, texts, rows, self.rules, keep=_apart)
        count, n = inputs["input_ids"].shape
        at = torch.tensor(list(rows), dtype=torch.int64, device=subject.device).view(count, -1)

        def keep(seen: LayerPass) -> Edges:
            with torch.no_grad():
                return measured.edges(Block(subject.spec, _apart(seen)), at.to(seen.x.device))

        again = runs_again(sizes_of(subject), n)
        return ruled_pass(subject, inputs, texts, rows, self.rules, keep=keep, alone=at, recompute=again)

    def score(
        self,
        subject: Subject,
        passed: RuledPass,
        covector: Tensor,
        rows: Sequence[int],
        options: Mapping[str, Any],
        *,
        last: bool,
    ) -> Tensor:
        """(text, token): the positive terms that arrive at the answer's row alone, or at every row."""
        itself = options.get("itself", True)
        if options.get("paths", "row") == "row":
            return reaching(passed, covector, itself)[:, 0].cpu()
        *slopes, start = gradients(passed, covector, [*passed.written, passed.leaf], last=last)
        at = torch.tensor(list(rows), dtype=torch.int64, device=start.device)[:, None]
        total = _alone(passed, start, at)[:, 0] * itself
        measured = _measured(options)
        for seen, u in zip(passed.seen, slopes, strict=True):
            with torch.no_grad(), there(seen.module):
                total += everywhere(measured, Block(subject.spec, seen), widened(u).view_as(passed.leaf))
        return total.cpu()


def reaching(passed: RuledPass, covector: Tensor, itself: bool) -> Float[Tensor, "text row token"]:
    """The positive terms of the rows asked for, over layers and heads, and with `itself` what each row's token says;
    `covector`: of all of them.
    """
    *slopes, start = gradients(passed, covector, [*passed.written, passed.leaf])
    with torch.no_grad():
        total = torch.stack([edges.positive(widened(u)) for edges, u in zip(passed.seen, slopes, strict=True)]).sum(0)
        return total + _alone(passed, start, passed.seen[0].terms.place) if itself else total


@torch.no_grad()
def _alone(passed: RuledPass, start: Tensor, rows: Int[Tensor, "text row"]) -> Float[Tensor, "text row token"]:
    """What the tokens of some rows say by themselves, where positive; `start`: the gradient by the leaf."""
    scores = products(passed.leaf, start, "sum").clamp_min(0)
    out = scores.new_zeros(*rows.shape, scores.shape[1])
    return out.scatter(2, rows[..., None], scores.gather(1, rows)[..., None])


def everywhere(measured: Measured, block: Block, u: Float[Tensor, "text token dim"]) -> Float[Tensor, "text token"]:
    """The positive terms of a layer at all of its rows."""
    batch, n, dim = u.shape
    total = u.new_zeros(batch, n)
    means = measured.means(block)
    for part in blocks(n, ROW_BYTES // (batch * block.call.q.shape[1] * n * u.element_size())):
        at = torch.arange(part.start, part.stop, dtype=torch.int64, device=u.device).expand(batch, -1)
        mine = u.gather(1, at[..., None].expand(-1, -1, dim))
        total += measured.edges(block, at, means).positive(mine).sum(1)
    return total


def _apart(seen: LayerPass) -> LayerPass:
    """The same layer beside the graph."""
    kept = {k: each_tensor(v, Tensor.detach) for k, v in vars(seen).items()}
    return LayerPass(**kept)


def _measured(options: Mapping[str, Any]) -> Measured:
    return Measured(**{name: options[name] for name in asdict(Measured()) if name in options})
