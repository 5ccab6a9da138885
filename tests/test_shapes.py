"""The tests' own guard: a wrong shape is an error in every package that states shapes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch

import mixlens

FLAT = torch.zeros(3)
WRONG = {
    "aggregate.functions": ("rollout", FLAT),
    "answer.readout": ("take", FLAT, (0,)),
    "attribute.jacobian": ("frobenius", FLAT, FLAT, None, 1),
    "decompose.terms": ("_factor", FLAT),
    "measure.ranks": ("correlation", np.zeros((2, 2)), np.zeros(2)),
    "mixing.effective": ("_project", FLAT, FLAT, FLAT, 0.0),
}


def test_every_package_is_here():
    source = Path(mixlens.__file__).parent
    shaped = {f.relative_to(source).parts[0] for f in source.rglob("*.py") if "from jaxtyping" in f.read_text("utf-8")}
    assert {name.partition(".")[0] for name in WRONG} == shaped


@pytest.mark.parametrize("module", WRONG)
def test_wrong_shapes_are_refused(module):
    name, *args = WRONG[module]
    with pytest.raises(jaxtyping.TypeCheckError):
        getattr(import_module(f"mixlens.{module}"), name)(*args)
