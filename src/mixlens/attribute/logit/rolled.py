"""The direct terms of a logit, each followed through the layers below it to the input (ALTI-Logit)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.attribute.logit.direct import RowsPass, rows_pass
from mixlens.capture.text import Tokens
from mixlens.decompose import Block
from mixlens.decompose.dots import dots
from mixlens.mixing.alti import alti
from mixlens.subject import Subject


class Rolled(NamedTuple):
    """Of a layer: its map, and of the rows what enters it and what its networks add."""

    map: Float[Tensor, "query key"]
    entering: Float[Tensor, "row dim"]
    fed: Float[Tensor, "row dim"]


def rolled_pass(subject: Subject, tokens: Tokens, rows: Sequence[int], p: int) -> RowsPass:
    """One pass over a text that keeps what is `Rolled` of each layer beside its terms."""

    def rolled(block: Block, chosen: Block) -> Rolled:
        return Rolled(alti(block, p=p)[0], chosen.x[0], (chosen.y - chosen.result("residual"))[0])

    return rows_pass(subject, tokens, rows, rolled)


def alti_logits(seen: RowsPass, u: Float[Tensor, "row dim"], *, ffn: bool = False) -> Float[Tensor, "row source"]:
    """phi = v_1 + v_2 C_1 + v_3 C_2 C_1 + ... + x_q . u at the row itself (Ferrando 2023, ALTI-Logit).

    v_l[t, j] = sum_h alpha_qj^h (W_O^h v_j^h) . u_t, C_l the ALTI maps; by Horner's rule from the top. `ffn`: what
    each network adds to the row, through C_l ... C_1 too, so that the scores and the output biases' part are the whole
    explained number.
    """
    at = torch.tensor(seen.rows, dtype=torch.int64, device=u.device)
    index = torch.arange(len(seen.rows), dtype=torch.int64, device=u.device)
    phi = torch.zeros(len(seen.rows), seen.terms[0].shape[2], dtype=u.dtype, device=u.device)
    for terms, layer in zip(reversed(seen.terms), reversed(seen.beside), strict=True):
        if ffn:
            phi[index, at] += (layer.fed * u).sum(-1)
        phi = phi @ layer.map + dots(terms, u[None])[0].sum(0)
    phi[index, at] += (seen.beside[0].entering * u).sum(-1)
    return phi
