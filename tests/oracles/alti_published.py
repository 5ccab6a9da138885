"""ALTI as its authors' code computes it, which is not quite what its paper says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy import ndarray

from oracles.layers import Layer
from oracles.methods import terms

ADDED = 1e-6  # to each difference, by torch's pairwise_distance


def alti(layer: Layer, p: int = 1, upto: str = "ln1") -> ndarray:
    """C with the LayerNorms' epsilon ignored in T (not in the model), and ADDED in every difference of a distance."""
    assert layer.ln1 is not None
    real, without = layer, replace(layer, ln1=replace(layer.ln1, eps=0.0), ln2=replace(layer.ln2, eps=0.0))
    first = terms(without, "ln1")
    y = without.ln1(layer.a)
    t = first
    if upto == "ln2":
        t = np.stack([without.ln2.frozen(first[i], real.before_ln2[i]) for i in range(len(first))])
        y = real.y
    size = np.linalg.norm(y, p, axis=-1)
    distance = np.linalg.norm(t - y[:, None] + ADDED, p, axis=-1)
    c = np.maximum(0, size[:, None] - distance)
    return c / c.sum(1, keepdims=True)
