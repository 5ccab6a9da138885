"""Which method explains where none is named: a table by the model's task and by what its rows see."""

from __future__ import annotations

import pytest

from mixlens import Target
from mixlens.attribute.defaults import DEFAULTS
from mixlens.attribute.names import method
from mixlens.errors import Undefined
from mixlens.subject import subject
from models import families

TEXT = families.text(6)
CASES = [
    ("llama", "causal", {}, "path_logit"),
    ("gpt2", "causal", {}, "path_logit"),
    ("opt", "causal", {"do_layer_norm_before": False}, "saliency"),  # norms behind its sums: no one residual stream
    ("gpt2", "sequence", {}, "saliency"),
    ("bert", "sequence", {}, "cp_lrp"),
]


@pytest.mark.parametrize(("family", "head", "settings", "expected"), CASES)
def test_it_goes_by_task_and_architecture(family, head, settings, expected):
    lens = families.lens(family, head, **settings)
    assert lens.attribute(TEXT).method == expected
    assert lens.plan(TEXT).method == expected


@pytest.mark.parametrize("head", ["masked", "token"])
def test_encoders_that_answer_at_a_token_have_a_rollout(head):
    assert families.lens("bert", head).attribute(TEXT, target=Target(1, position=2)).method == "alti"


def test_without_an_answer_there_are_maps_alone():
    assert families.lens("gpt2").attribute(TEXT).method == "alti"
    assert families.lens("bert").attribute(TEXT, readout=0).method == "alti"


def test_a_row_is_explained_by_a_map_and_no_answers_gradient_ignores_it():
    lens = families.lens("bert", "sequence")
    attr = lens.attribute(TEXT, readout=2)
    assert attr.method == lens.plan(TEXT, readout=2).method == "alti" and attr.meta["readout"] == 2
    with pytest.raises(
        Undefined, match=r"cp_lrp explains the answer itself, no row.*; leave readout= out, or use alti"
    ):
        lens.attribute(TEXT, "cp_lrp", readout=2)


@pytest.mark.parametrize(("family", "settings", "expected"), [(c[0], c[2], c[3]) for c in CASES if c[1] == "causal"])
def test_a_trace_has_the_same(family, settings, expected):
    lens = families.lens(family, "causal", **settings)
    assert lens.trace(TEXT[:4], TEXT[4:]).method == expected


def test_logits_that_are_made_otherwise_are_explained_by_a_gradient(monkeypatch):
    def otherwise(*args):
        raise Undefined("a multiplier")

    monkeypatch.setattr(subject, "unembedding_of", otherwise)
    assert families.lens("llama", "causal").attribute(TEXT).method == "saliency"


def test_every_line_is_a_method_and_the_last_fits_all():
    assert [method(line.method).baseline for line in DEFAULTS] == [False] * len(DEFAULTS)
    assert {line.causal for line in DEFAULTS if not line.answered} == {True, False}
