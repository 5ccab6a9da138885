"""HTA against numbers of n * dim backward passes, computed apart from mixlens.

No code for the layer-by-layer maps was published. `hta.npz` holds a plain rendering of the formulas in float64 (torch
2.13.0, transformers 4.38.2): `model/text/method`, (layer, query, key); of MiniLM the first layer alone.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from models import stored

with np.load(stored.GOLDEN / "hta.npz") as file:
    TABLE = dict(file)


@pytest.mark.parametrize("key", TABLE)
def test_maps(key):
    name, index, method = key.split("/")
    expected = torch.from_numpy(TABLE[key])
    inputs = json.loads((stored.GOLDEN / f"{name}.json").read_text())[int(index)]
    got = stored.lens(name).mixing(inputs, method=method).scores[: len(expected)]
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 1e-8 * expected.max()
