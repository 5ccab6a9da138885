"""What every head carries from token to token, weighed by how the answer depends on it where it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.attribute.frozen.engine import RuledPass, gradients, ruled_pass
from mixlens.attribute.frozen.family import Frozen
from mixlens.attribute.frozen.rules import RULES, Rules
from mixlens.attribute.gradient.family import states_bytes
from mixlens.attribute.method import Deep
from mixlens.capture.again import each_tensor
from mixlens.capture.attention import blocks
from mixlens.capture.offload import there
from mixlens.capture.run import LayerPass
from mixlens.cost import Cost
from mixlens.decompose import Block
from mixlens.decompose.dots import dots
from mixlens.decompose.tiles import ROW_BYTES
from mixlens.errors import UnknownOption
from mixlens.precision import widened
from mixlens.subject import Subject

if TYPE_CHECKING:
    from typing import Literal

PATHS = ("row", "all")

COST = Cost("backward", "one pass forward, one backward, and the terms", lambda sizes, n: 3.5, states_bytes)


@dataclass(frozen=True)
class PathLogit(Frozen):
    """sum over layers, heads and rows i of max(0, alpha_ij^h (W_O^h v_j^h) . u_i), j != i, u_i the frozen gradient of
    the answer by what the layer's attention writes at row i.
    """

    rules: Rules = RULES["cp_lrp"]
    signed: bool = False

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return COST

    def options(self) -> dict[str, Any]:
        return {"paths": "row"}

    def layers(self, deep: Deep) -> Literal["again"] | None:
        return None

    def see(
        self,
        subject: Subject,
        inputs: Mapping[str, Tensor],
        texts: Sequence[int],
        rows: Sequence[int],
        options: Mapping[str, Any],
    ) -> RuledPass:
        """The pass, with what every attention reads and writes."""
        paths = options.get("paths", "row")
        if paths not in PATHS:
            raise UnknownOption(f"expected paths='row' or 'all' for {self.name}, got {paths!r}")
        passed = ruled_pass(subject, inputs, texts, rows, self.rules, keep=True)
        passed.seen = [_apart(seen) for seen in passed.seen]
        return passed

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
        slopes = gradients(passed, covector, passed.written, last=last)
        total = widened(passed.leaf.detach()).new_zeros(passed.leaf.shape[:2])
        for seen, u in zip(passed.seen, slopes, strict=True):
            with torch.no_grad(), there(seen.module):
                total += self._layer(Block(subject.spec, seen), widened(u).view_as(passed.leaf), rows, options)
        return total.cpu()

    def _layer(self, block: Block, u: Tensor, rows: Sequence[int], options: Mapping[str, Any]) -> Tensor:
        """What a layer adds."""
        if options.get("paths", "row") == "row":
            return arriving(block, u, torch.tensor(list(rows), dtype=torch.int64, device=u.device)[:, None])
        batch, n, _ = u.shape
        total = u.new_zeros(batch, n)
        for part in blocks(n, ROW_BYTES // (batch * block.call.q.shape[1] * n * u.element_size())):
            at = torch.arange(part.start, part.stop, dtype=torch.int64, device=u.device).expand(batch, -1)
            total += arriving(block, u, at)
        return total


def arriving(block: Block, u: Float[Tensor, "text token dim"], rows: Tensor) -> Float[Tensor, "text token"]:
    """sum over heads and these rows i of max(0, alpha_ij^h (W_O^h v_j^h) . u_i), without a token's own term."""
    mine = u.gather(1, rows[..., None].expand(-1, -1, u.shape[-1]))
    terms = dots(block.only(rows).terms("attention"), mine).clamp_min(0).sum(1)
    return terms.scatter(2, rows[..., None], 0.0).sum(1)


def _apart(seen: LayerPass) -> LayerPass:
    """The same layer beside the graph."""
    kept = {k: each_tensor(v, Tensor.detach) for k, v in vars(seen).items()}
    return LayerPass(**kept)
