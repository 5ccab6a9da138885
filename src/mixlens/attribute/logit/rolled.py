"""The direct terms of a logit, each followed through the layers below it to the input (ALTI-Logit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.attribute.logit.direct import RowsPass, at_rows
from mixlens.capture.run import LayerPass, run
from mixlens.capture.text import Tokens
from mixlens.decompose import Block, Terms
from mixlens.decompose.dots import dots
from mixlens.mixing.alti import alti
from mixlens.subject import Subject


@dataclass(frozen=True, eq=False)
class WholePass(RowsPass):
    """And of each layer its map, and what its networks add to the rows; `first`: the rows of the first layer's input.

    `maps`, `fed`: lowest layer first.
    """

    maps: list[Float[Tensor, "query key"]]
    fed: list[Float[Tensor, "row dim"]]
    first: Float[Tensor, "row dim"]


def whole_pass(subject: Subject, tokens: Tokens, rows: Sequence[int], p: int) -> WholePass:
    """One pass over a text that keeps a map a layer beside what `rows_pass` keeps."""
    (batch,) = subject.batches([tokens], 1)
    terms: list[Terms] = []
    maps: list[Tensor] = []
    fed: list[Tensor] = []
    ends: dict[str, Tensor] = {}

    def keep(seen: LayerPass) -> None:
        block = Block(subject.spec, seen)
        maps.append(alti(block, p=p)[0])
        chosen = at_rows(block, rows)
        terms.append(chosen.terms("residual"))
        fed.append((chosen.y - chosen.result("residual"))[0])
        ends.setdefault("first", chosen.x[0])
        ends["last"] = chosen.y[0]

    output = run(subject.model, subject.spec, batch.inputs, keep)
    logits = subject.unembedding.logits(output.last_hidden_state[0, list(rows)])
    return WholePass(tuple(rows), terms, ends["last"], logits, maps, fed, ends["first"])


def alti_logits(seen: WholePass, u: Float[Tensor, "row dim"], *, ffn: bool = False) -> Float[Tensor, "row source"]:
    """phi = v_1 + v_2 C_1 + v_3 C_2 C_1 + ... + x_q . u at the row itself (Ferrando 2023, ALTI-Logit).

    v_l[t, j] = sum_h alpha_qj^h (W_O^h v_j^h) . u_t, C_l the ALTI maps; by Horner's rule from the top. `ffn`: what
    each network adds to the row, through C_l ... C_1 too, so that the scores and the output biases' part are the whole
    explained number.
    """
    at = torch.tensor(seen.rows, dtype=torch.int64, device=u.device)
    index = torch.arange(len(seen.rows), dtype=torch.int64, device=u.device)
    phi = torch.zeros(len(seen.rows), seen.maps[0].shape[-1], dtype=u.dtype, device=u.device)
    for terms, layer_map, fed in zip(reversed(seen.terms), reversed(seen.maps), reversed(seen.fed), strict=True):
        if ffn:
            phi[index, at] += (fed * u).sum(-1)
        phi = phi @ layer_map + dots(terms, u[None])[0].sum(0)
    phi[index, at] += (seen.first * u).sum(-1)
    return phi
