"""The tests' own guard: a wrong shape is an error in every package that states shapes."""

from __future__ import annotations

import inspect
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch

import mixlens
from mixlens.aggregate.flow import flow
from mixlens.errors import UnknownOption
from mixlens.mixing import MIXING
from models.blocks import each_block
from shaped import SHAPED, functions, is_checked, states_shapes, wrapped

FLAT = torch.zeros(3)
WRONG = {
    "aggregate.functions": ("rollout", FLAT),
    "answer.readout": ("take", FLAT, (0,)),
    "attribute.jacobian": ("frobenius", FLAT, FLAT, None, 1),
    "decompose.terms": ("_factor", FLAT),
    "measure.ranks": ("correlation", np.zeros((2, 2)), np.zeros(2)),
    "capture.picture": ("filled", FLAT, (1, 1), "grey"),
    "similarity.vectors": ("vector", FLAT, "mean"),
    "subject.unembedding": ("Unembedding.combined", None, FLAT),
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
        attrgetter(name)(import_module(f"mixlens.{module}"))(*args)


def test_what_states_a_shape_is_known_by_its_signature():
    written = [f for f in wrapped(["mixlens"]) if any("Float[" in str(said) for said in f.__annotations__.values())]
    assert len(written) > 50 and all(map(states_shapes, written))
    assert all(not getattr(f, "__no_type_check__", False) for f in written)
    assert states_shapes(import_module("mixlens.aggregate.functions").rollout.__wrapped__)  # by the name of a shape
    assert not states_shapes(test_every_package_is_here)


def test_whatever_states_a_shape_is_checked():
    stating = [f for f in functions(SHAPED) if states_shapes(inspect.unwrap(f))]
    assert len(stating) > 50 and [f.__qualname__ for f in stating if not is_checked(f)] == []


def test_the_checker_can_be_put_aside(unshaped):
    """What stands behind it then shows: here torch's own error."""
    with pytest.raises(IndexError, match="Dimension out of range"):
        import_module("mixlens.aggregate.functions").head_rollout(FLAT, 0, 0.5)


OPTIONS = [
    ("alti", {"p": "1"}, "expected p=1 or p=2 for alti, got p='1'"),
    ("alti", {"upto": None}, "expected upto='ln1' or 'ln2' for alti, got upto=None"),
    ("value_zeroing", {"distance": 3}, "expected a distance of cosine, euclidean, spearman, got 3"),
    ("value_zeroing", {"standardize": (FLAT, FLAT)}, r"expected standardize=\(mean, deviation\), each of shape"),
]


@pytest.mark.parametrize(("method", "options", "says"), OPTIONS)
def test_formulas_refuse_by_themselves_what_the_checker_would(unshaped, method, options, says):
    with pytest.raises(UnknownOption, match=says):
        each_block("bert", lambda block: MIXING[method].function(block, **options))


@pytest.mark.parametrize("asked", ["0", 0, [0.5], [None]])
def test_flow_refuses_by_itself_what_the_checker_would(unshaped, asked):
    with pytest.raises(UnknownOption, match="queries"):
        flow(torch.eye(3)[None], queries=asked)
