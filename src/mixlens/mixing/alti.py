"""ALTI: aggregation of layer-wise token-to-token interactions (Ferrando 2022)."""

from __future__ import annotations

from typing import Literal

import torch

from mixlens.decompose import Block
from mixlens.errors import Undefined, UnknownOption
from mixlens.mixing.steps import Map, normalize_rows, only_visible


def alti(block: Block, *, p: int = 1, upto: Literal["ln1", "ln2"] = "ln1") -> Map:
    """C: max(0, ||y_i||_p - ||T_i(x_j) - y_i||_p), rows divided by their sum (Ferrando 2022, Eq. 9-10).

    T_i(x_j) are the terms through the first norm and y_i the real output there, output bias and beta in. `p`: 1
    (paper) or 2, for both norms. `upto="ln2"`: terms through both norms, y the layer's output; post-LN only. In
    pre-LN layers T are the terms and y the residual sum. A row that is all zero stays zero. Raises Undefined,
    UnknownOption.
    """
    if p not in (1, 2):
        raise UnknownOption(f"expected p=1 or p=2 for alti, got p={p!r}")
    if upto not in ("ln1", "ln2"):
        raise UnknownOption(f"expected upto='ln1' or 'ln2' for alti, got upto={upto!r}")
    if upto == "ln2" and not block.has("ln2"):
        raise Undefined("alti with upto='ln2' needs a norm behind the FFN (post-LN); use upto='ln1'")
    stage = upto if block.has(upto) else "residual"
    y = block.result(stage)
    distance = block.terms(stage).distances(y, p)
    near = (torch.linalg.vector_norm(y, ord=p, dim=-1)[..., None] - distance).clamp_min(0)
    return normalize_rows(only_visible(block, near))
