"""The direct terms of a logit: what every head of every layer carries from a source to the row that answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer
from mixlens.attribute.traced import slopes
from mixlens.capture.run import LayerPass, run
from mixlens.capture.stream import Stream
from mixlens.decompose import Block, CallCheck, Terms
from mixlens.decompose.dots import dots
from mixlens.progress import Progress
from mixlens.subject import Subject
from mixlens.subject.unembedding import Unembedding
from mixlens.target import Quantity


@dataclass(frozen=True, eq=False)
class RowsPass:
    """What one pass over one text leaves of some of its rows. Lists are of each layer, lowest first.

    `terms`: what these rows read; `beside`: what else was asked of the layer.
    """

    rows: tuple[int, ...]
    terms: list[Terms]
    beside: list[Any]
    last: Float[Tensor, "row dim"]  # the last layer's output
    normed: Float[Tensor, "row dim"]  # the same behind the final norm
    off: float | None = field(default=None, kw_only=True)  # how far its layers are off the model's own numbers


@dataclass(eq=False)
class Keeper:
    """Keeps of each layer its keys and values and the queries of `rows`, as a pass goes on.

    `also`: what else is kept of a layer, from its block of all rows and that of `rows`.
    """

    rows: Sequence[int]
    also: Callable[[Block, Block], Any] | None = None
    terms: list[Terms] = field(default_factory=list)
    beside: list[Any] = field(default_factory=list)
    last: Tensor | None = None

    def see(self, block: Block) -> None:
        """A layer has run."""
        chosen = block.only(torch.tensor([list(self.rows)], dtype=torch.int64, device=block.x.device))
        self.terms.append(chosen.terms("residual"))
        if self.also is not None:
            self.beside.append(self.also(block, chosen))
        self.last = chosen.y[0]

    def kept(self, output: Any) -> RowsPass:
        """What is left, with the output of the pass."""
        assert self.last is not None
        normed = output.last_hidden_state[0, list(self.rows)]
        return RowsPass(tuple(self.rows), self.terms, self.beside, self.last, normed)


def rows_pass(
    subject: Subject,
    tokens: Stream,
    rows: Sequence[int],
    also: Callable[[Block, Block], Any] | None = None,
    progress: Progress | None = None,
) -> RowsPass:
    """One pass over a text, of which a `Keeper` keeps what it does; `progress` hears of its layers."""
    (batch,) = subject.batches([tokens], 1)
    keeper, sums = Keeper(rows, also), CallCheck([len(tokens)], subject.layers)

    def keep(seen: LayerPass) -> None:
        block = Block(subject.spec, seen)
        sums.look(block)
        keeper.see(block)
        if progress is not None:
            progress(seen.index + 1, subject.layers)

    kept = keeper.kept(run(subject.model, subject.spec, batch.inputs, keep))
    return replace(kept, off=sums.require())


def directions(
    unembedding: Unembedding,
    last: Float[Tensor, "row dim"],
    logits: Float[Tensor, "row vocabulary"],
    answers: Sequence[Answer],
    of: Quantity,
) -> Float[Tensor, "row dim"]:
    """u_t: the gradient of row t's explained number by the last layer's vector, the final norm's scale frozen.

    sum_w dQ/dz_w U_w through the norm. Of log-odds it is (U_target - sum_w p_w U_w) / (1 - p_target): the target less
    what the model expected; of a logit against a foil, U_target - U_foil.
    """
    _, weights = slopes(logits, answers, of)
    wanted = unembedding.combined(weights * unembedding.slope(logits))
    return unembedding.directions(last, wanted.to(last.dtype))


def head_logits(
    terms: Sequence[Terms], u: Float[Tensor, "row dim"], *, signed: bool = False
) -> Float[Tensor, "layer row key"]:
    """sum_h max(0, alpha_ij^h (W_O^h v_j^h) . u_i), a layer each; `signed`: with the negative terms too.

    A head that speaks against the answer takes nothing from what another says for it: that is what finds the source.
    """
    layers = []
    for layer in terms:
        parts = dots(layer, u[None])[0]
        layers.append((parts if signed else parts.clamp_min(0)).sum(0))
    return torch.stack(layers)
