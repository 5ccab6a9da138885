"""What do hidden states know of a label? Online-coding probing (Voita & Titov 2020)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def mdl_compression(
    vectors: Float[np.ndarray, "example dim"], labels: Int[np.ndarray, " example"], *, seed: int = 0
) -> float:
    """Uniform code length / online code length of the labels, both in bits."""
    raise NotImplementedError
