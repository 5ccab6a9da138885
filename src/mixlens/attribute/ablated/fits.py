"""From what ablations leave of an answer to a number a unit."""

from __future__ import annotations

import warnings
from threading import Lock
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mixlens.errors import NotConverged, missing

Masks = Bool[np.ndarray, "ablation unit"]
Values = Float[np.ndarray, " ablation"]

_LOCK = Lock()  # filters of warnings are the process's: two fits at a time would leave each other's behind
_STREAM = 64  # of random numbers: another than the measure `lds` draws its ablations from


def random_masks(units: int, ablations: int, seed: int) -> Masks:
    """Which units each ablation keeps: each with probability 1/2, the same whatever the text says."""
    return np.random.default_rng([seed, units, _STREAM]).random((ablations, units)) < 0.5


def leave_one_out(units: int) -> Masks:
    """Each unit left out alone, in order."""
    return ~np.eye(units, dtype=bool)


def lasso() -> Any:
    """scikit-learn's Lasso. Raises MissingExtra where it is not installed."""
    try:
        from sklearn.linear_model import Lasso
    except ImportError:
        raise missing("context_cite", "scikit-learn", "lasso") from None
    return Lasso


def coefficients(masks: Masks, values: Values, *, alpha: float, tokens: int = 1) -> Float[np.ndarray, " unit"]:
    """What each unit adds to the answer's log-odds, by LASSO (Cohen-Wang 2024, ContextCite).

    min_w 1/2 mean (y / m - b - z w)^2 + alpha |w|_1, z the masks less their mean over their standard deviation, m the
    answer's `tokens`; the coefficients are m w / deviation. Raises MissingExtra, NotConverged.
    """
    from sklearn.exceptions import ConvergenceWarning

    if np.ptp(values) == 0:  # scikit-learn before 1.8 never stops there
        return np.zeros(masks.shape[1])
    x = masks.astype(np.float64)
    spread = x.std(0)
    spread[spread == 0] = 1  # kept, or left out, in every ablation: nothing is known of it
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            fit = lasso()(alpha=alpha, max_iter=100_000, tol=1e-8).fit((x - x.mean(0)) / spread, values / tokens)
        except ConvergenceWarning:
            raise NotConverged(
                f"expected LASSO with alpha={alpha} to converge on {len(values)} ablations of {x.shape[1]} units, it "
                "did not in 100,000 steps; pass a larger alpha= or more ablations="
            ) from None
    return np.asarray(fit.coef_ / spread * tokens, dtype=np.float64)
