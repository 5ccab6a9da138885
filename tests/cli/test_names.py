"""What no model has is said before one is loaded."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import mixlens
from cli.typed import one_line_error
from mixlens.cli import app

TEXT = "a deep film ."
DATA = ("explain", "--data", "x.csv", "--out", "run")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explain", TEXT, "--method", "altii"), "no attribution method 'altii'; did you mean 'alti'"),
        (("explain", TEXT, "--method", "alti", "-o", "stps=3"), "alti would ignore the option 'stps'; its options are"),
        (("explain", TEXT, "-o", "stps=3"), "no method has an option 'stps'; did you mean 'steps'?"),
        (("explain", TEXT, "--method", "alti+rolout"), "no aggregation 'rolout' in 'alti+rolout'"),
        (("explain", TEXT, "--method", "integrated_gradients", "-o", "steps=many"), "expected steps= a whole number"),
        ((*DATA, "--method", "altii"), "no attribution method 'altii'"),
        ((*DATA, "-o", "stps=3"), "no method has an option 'stps'"),
        ((*DATA, "--task", "clasification"), "clasification"),
        (("compare", TEXT, "--method", "alti", "--method", "altii"), "no attribution method 'altii'"),
        (("map", TEXT, "--method", "altii"), "no mixing method 'altii'"),
        (("map", TEXT, "-o", "stps=3"), "globenc would ignore the option 'stps'"),
        (("trace", TEXT, "--method", "altii"), "no attribution method 'altii'"),
        (("trace", TEXT, "--method", "alti", "-o", "stps=3"), "alti would ignore the option 'stps'"),
        (("similarity", TEXT, TEXT, "--method", "altii"), "no similarity method 'altii'"),
        (("similarity", TEXT, TEXT, "-o", "stps=3"), "leave_out would ignore the option 'stps'"),
        (("evaluate", "--methods", "alti,altii"), "no attribution method 'altii'"),
        (("evaluate", "--measures", "aop"), "no measure 'aop'"),
        (("evaluate", "--measures", "spearman:altii", "--methods", "alti"), "no attribution method 'altii'"),
        (("evaluate", "--methods", "alti", "-o", "alti.stps=3"), "alti would ignore the option 'stps'"),
        (("evaluate", "--methods", "alti", "-o", "altii.p=1"), "options for 'altii', which is not evaluated"),
    ],
)
def test_a_wrong_name_costs_no_model(monkeypatch, words, says):
    def load(*_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(mixlens, "load", load)
    assert says in one_line_error(CliRunner().invoke(app, words))


@pytest.mark.parametrize(
    "words",
    [
        ("explain", TEXT, "-o", "batch_size=2", "-o", "normalize=false"),
        ("explain", TEXT, "-o", "steps=3"),
        ("map", TEXT, "--method", "alti", "-o", "p=1"),
        ("similarity", TEXT, TEXT, "--method", "integrated_jacobian", "-o", 'steps={"text": 3}', "-o", "memory=1GB"),
        ("trace", TEXT, "-o", "normalize=false", "-o", "memory=1GB"),
        (
            "evaluate",
            "--measures",
            "spearman:integrated_gradients,aopc",
            "-o",
            "integrated_gradients.steps=4",
            "-o",
            "random.seed=3",
        ),
    ],
)
def test_a_right_name_does(monkeypatch, words):
    def load(*_):
        raise mixlens.errors.ModelError("a model was loaded")

    monkeypatch.setattr(mixlens, "load", load)
    assert "a model was loaded" in one_line_error(CliRunner().invoke(app, words))
