"""The direct terms of a logit, each followed through the layers below it to the input (ALTI-Logit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.down import down
from mixlens.attribute.logit.direct import Keeper, RowsPass
from mixlens.capture.stream import Stream
from mixlens.decompose.dots import dots
from mixlens.mixing.alti import alti
from mixlens.progress import Progress
from mixlens.subject import Subject
from mixlens.subject.descent import Descent


@dataclass(frozen=True, eq=False)
class RolledPass(RowsPass):
    """And of each layer its map, from the last layer down. `beside`: what enters the layer at the rows, and what its
    networks add there.
    """

    down: Descent


def rolled_pass(
    subject: Subject, tokens: Stream, rows: Sequence[int], p: int, progress: Progress | None = None
) -> RolledPass:
    """One pass over a text, ready to be gone through again from the top down, beside what `rows_pass` keeps."""
    keeper = Keeper(rows, lambda block, chosen: (chosen.x[0], (chosen.y - chosen.result("residual"))[0]))
    down = Descent(subject, tokens, lambda block: alti(block, p=p), by_rows=True, watch=keeper.see, progress=progress)
    return RolledPass(**{**vars(keeper.kept(down.output)), "off": down.off}, down=down)


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
            phi[index, at] += (seen.beside[layer][1] * u).sum(-1)
        phi = down(phi, parts) + dots(seen.terms[layer], u[None])[0].sum(0)
    phi[index, at] += (seen.beside[0][0] * u).sum(-1)
    return phi
