"""The direct terms of a logit, each followed through the layers below it to the input (ALTI-Logit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.down import down
from mixlens.attribute.logit.direct import RowsPass, at_rows
from mixlens.capture.text import Tokens
from mixlens.decompose import Block, Terms
from mixlens.decompose.dots import dots
from mixlens.mixing.alti import alti
from mixlens.subject import Subject
from mixlens.subject.descent import Descent


@dataclass(frozen=True, eq=False)
class RolledPass(RowsPass):
    """And of each layer its map, from the last layer down, and what its networks add to the rows; `first`: the rows of
    the first layer's input. `fed`: lowest layer first.
    """

    down: Descent
    fed: list[Float[Tensor, "row dim"]]
    first: Float[Tensor, "row dim"]


def rolled_pass(subject: Subject, tokens: Tokens, rows: Sequence[int], p: int) -> RolledPass:
    """One pass over a text, ready to be gone through again from the top down, beside what `rows_pass` keeps."""
    terms: list[Terms] = []
    fed: list[Tensor] = []
    ends: dict[str, Tensor] = {}

    def keep(block: Block) -> None:
        chosen = at_rows(block, rows)
        terms.append(chosen.terms("residual"))
        fed.append((chosen.y - chosen.result("residual"))[0])
        ends.setdefault("first", chosen.x[0])
        ends["last"] = chosen.y[0]

    down = Descent(subject, tokens, lambda block: alti(block, p=p), by_rows=True, watch=keep)
    logits = subject.unembedding.logits(down.output.last_hidden_state[0, list(rows)])
    return RolledPass(tuple(rows), terms, ends["last"], logits, down, fed, ends["first"])


def alti_logits(seen: RolledPass, u: Float[Tensor, "row dim"], *, ffn: bool = False) -> Float[Tensor, "row source"]:
    """phi = v_1 + v_2 C_1 + v_3 C_2 C_1 + ... + x_q . u at the row itself (Ferrando 2023, ALTI-Logit).

    v_l[t, j] = sum_h alpha_qj^h (W_O^h v_j^h) . u_t, C_l the ALTI maps; by Horner's rule from the top. `ffn`: what
    each network adds to the row, through C_l ... C_1 too, so that the scores and the output biases' part are the whole
    explained number.
    """
    at = torch.tensor(seen.rows, dtype=torch.int64, device=u.device)
    index = torch.arange(len(seen.rows), dtype=torch.int64, device=u.device)
    phi = torch.zeros(len(seen.rows), seen.terms[0].shape[2], dtype=u.dtype, device=u.device)
    for layer, parts in seen.down.layers():
        if ffn:
            phi[index, at] += (seen.fed[layer] * u).sum(-1)
        phi = down(phi, parts) + dots(seen.terms[layer], u[None])[0].sum(0)
    phi[index, at] += (seen.first * u).sum(-1)
    return phi
