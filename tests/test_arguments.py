"""Every argument of every public function: a result, or an error of mixlens that says what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mixlens
from mixlens.arguments import KINDS, budget, checked, shown
from mixlens.errors import InputError, MixlensError, TargetError, UnknownMethod, UnknownOption
from mixlens.results import Attribution, Comparison, LayerMaps
from models import families
from models.words import tokenizer

TEXT = "a deep film ."


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


TEXTS: list[tuple[Any, str]] = [
    ({1: 2, None: 3}, r"a mapping with 'input_ids', got the keys \['1', 'None'\]"),
    ({"input_ids": [[5, 6], [7]], "attention_mask": [[1, 1]]}, "as long as 'input_ids'"),
    ({"input_ids": [2**63]}, r"token ids below 2\^31"),
    ([2**63], r"token ids below 2\^31"),
    ({"input_ids": [5], "token_type_ids": ["a"]}, "expected 'token_type_ids' as whole numbers"),
    ({"input_ids": [5], "token_type_ids": [9]}, "expected token_type_ids below 2"),
    ({"input_ids": [5], "position_ids": [99]}, "expected position_ids below 32"),
]


@pytest.mark.parametrize(("text", "says"), TEXTS, ids=[str(text) for text, _ in TEXTS])
def test_odd_texts(lens: mixlens.Lens, text: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        lens.attribute(text)


ASKS: list[tuple[str, dict[str, Any], type[MixlensError], str]] = [
    ("attribute", {"method": ["alti"]}, UnknownMethod, r"a method's name, a str, or None, got \['alti'\]"),
    ("attribute", {"method": 3}, UnknownMethod, "a method's name"),
    ("attribute", {"memory": "9" * 400 + "GB"}, UnknownOption, "expected memory= bytes, '2GB'"),
    ("attribute", {"progress": 5}, UnknownOption, "expected progress= True"),
    ("attribute", {"truncate": 1}, UnknownOption, "expected truncate= True or False, got 1"),
    ("attribute", {"batch_size": 2.0}, UnknownOption, "expected batch_size of 1 or more, got 2.0"),
    ("mixing", {"method": "value_zeroing", "standardize": 1}, UnknownOption, r"standardize=\(mean, deviation\)"),
    ("mixing", {"method": "value_zeroing", "distance": ["cosine"]}, UnknownOption, "expected distance= a str"),
    ("mixing", {"queries": "0"}, UnknownOption, "expected queries= a list of numbers"),
    ("compare", {"methods": [["alti"]]}, UnknownMethod, "expected names of methods"),
    ("compare", {"faithfulness": "no"}, UnknownOption, "expected faithfulness= True or False"),
    ("plan", {"maps": 1}, UnknownOption, "expected maps= True or False"),
    ("mixing", {"method": "ifr", "heads": ["each", "sum"]}, UnknownOption, "expected heads= a str for ifr, got"),
]


@pytest.mark.parametrize(("verb", "ask", "error", "says"), ASKS, ids=[f"{v} {a!s:.60}" for v, a, _, _ in ASKS])
def test_odd_asks(lens: mixlens.Lens, verb: str, ask: dict[str, Any], error: type[MixlensError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        getattr(lens, verb)(TEXT, **ask)
    assert type(caught.value) is error


@pytest.mark.parametrize("odd", [True, 1.5, ["positive"], {"a": 1}, b"positive"])
def test_odd_targets(odd: Any) -> None:
    says = dict.fromkeys(("what", "foil"), "= a label, an index or a token, got")
    for name, message in {**says, "of": "expected of='logit'", "position": "expected a position"}.items():
        target = mixlens.Target()
        object.__setattr__(target, name, odd)  # (in tests the types of arguments are checked before)
        with pytest.raises(TargetError, match=message):
            target.__post_init__()


def test_half_a_character_is_no_token() -> None:
    lens = mixlens.load(families.make("gpt2", "causal"), tokenizer())
    with pytest.raises(TargetError, match="half of a surrogate pair"):
        lens.attribute("w7 w30", target="\ud800")


@pytest.mark.parametrize(
    ("memory", "size"), [("2GB", 2 * 10**9), ("512 MiB", 512 << 20), (5, 5), ("1.5k", 1500), (None, None)]
)
def test_budgets(memory: Any, size: int | None) -> None:
    assert budget(memory) == size


@pytest.mark.parametrize("memory", [0, -1, True, 1.5, "", "GB", "2 bytes", "0GB", "9" * 400, 10**30, [], "2kib3"])
def test_what_is_no_budget(memory: Any) -> None:
    with pytest.raises(UnknownOption, match="expected memory= bytes, '2GB', '512MiB' or None"):
        budget(memory)


def test_values_are_shown_whatever_they_are() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert (shown(Odd()), len(shown("a" * 999)), shown(10**5000)) == ("a Odd", 80, "a int")


# What a function looks at itself, since it depends on the model, the text, the method or the table.
OWN = {"self", "text", "texts", "target", "data", "task", "second", "columns", "k", "a", "b", "other", "lens"}
OWN |= {"prompt", "answer", "foil", "documents"}  # of a trace


def test_every_argument_has_a_kind() -> None:
    verbs = [getattr(mixlens.Lens, v) for v in ("attribute", "trace", "mixing", "compare", "plan", "mixing_ratio")]
    own = [LayerMaps.rollout, LayerMaps.flow, LayerMaps.mean, LayerMaps.sum, LayerMaps.layer, LayerMaps.row]
    own += [LayerMaps.per_head, LayerMaps.plot, Attribution.plot, Attribution.to_html, Comparison.plot]
    tables = [getattr(mixlens.Table, v) for v in ("row", "values", "better", "layers", "plot", "to_csv")]
    for function in [*verbs, mixlens.Lens.output_statistics, *own, *tables, mixlens.evaluate, mixlens.task]:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is not parameter.VAR_KEYWORD:
                assert name in KINDS or name in OWN, (function, name)
        assert hasattr(function, "__wrapped__"), function


@pytest.mark.slow
def test_any_arguments(script: Callable[..., str]) -> None:
    assert script(Path(__file__).with_name("odd.py"), "1500", "0") == ""


def test_a_default_of_none_may_be_passed() -> None:
    @checked
    def call(method: str | None = None, name: str = "x") -> tuple[str | None, str]:
        return method, name

    assert call(None) == call(method=None) == (None, "x")
    with pytest.raises(UnknownMethod, match="a method's name, a str, or None, got 3"):
        call(3)  # type: ignore[arg-type]
    with pytest.raises(UnknownOption, match="expected name= a str, got None"):
        call(name=None)  # type: ignore[arg-type]
