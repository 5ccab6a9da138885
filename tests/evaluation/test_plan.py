"""What a run is said to take beforehand, against what it takes."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens import budget
from mixlens.budget import Demand
from mixlens.cli import app
from mixlens.cost import Cost
from mixlens.dataset.plan import in_threads
from mixlens.errors import DataError, Undefined, UnknownMethod, UnknownOption
from mixlens.subject import Subject

TEXTS = ["a deep film .", "not bad", "a very slow and bad film .", "meaningful and deep .", "bad", "deep and not bad"]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture
def ran(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The texts that go through a layer, pass by pass."""
    out: list[int] = []
    kind = type(lens.model.bert.encoder.layer[0])
    plain = kind.forward

    @functools.wraps(plain)
    def forward(self, hidden, *args, **kwargs):
        out.append(len(hidden))
        return plain(self, hidden, *args, **kwargs)

    monkeypatch.setattr(kind, "forward", forward)
    yield out


EXACT: dict[str, dict[str, Any]] = {
    "one method": {"methods": ["random"], "measures": ["aopc"]},
    "two measures of the same changed texts": {"methods": ["random"], "measures": ["aopc", "comprehensiveness"]},
    "two ways to take tokens out": {"methods": ["random"], "measures": ["aopc", "log_odds"]},
    "what is left is kept": {"methods": ["random"], "measures": ["sufficiency"]},
    "the same changed texts for every method": {
        "methods": [("r", "random", {"seed": 3}), "random"],
        "measures": ["lds"],
    },
    "no changed texts": {"methods": ["random"], "measures": ["spearman:random"]},
    "each class": {"methods": ["random"], "measures": ["kendall_confidence"]},
    "vectors": {"methods": [], "measures": ["anisotropy"]},
}


@pytest.mark.parametrize("name", EXACT)
def test_as_many_passes_as_it_says(name: str, lens: mixlens.Lens, ran: list[int]) -> None:
    how = EXACT[name]
    plan = mixlens.plan_evaluate(lens, TEXTS, **how)
    assert ran == []
    mixlens.evaluate(lens, TEXTS, resamples=2, **how)
    assert plan.passes == sum(ran) / lens.subject.layers


def test_no_more_passes_than_it_says(lens: mixlens.Lens, ran: list[int]) -> None:
    """Where two methods take the same tokens out that text passes once."""
    how: dict[str, Any] = {"methods": ["attention_rollout", "attention"], "measures": ["aopc", "spearman:random"]}
    plan = mixlens.plan_evaluate(lens, TEXTS, layers="each", **how)
    mixlens.evaluate(lens, TEXTS, resamples=2, layers="each", **how)
    least = plan.passes - plan.parts[-1].passes
    assert least < sum(ran) / lens.subject.layers <= plan.passes
    assert [part.most for part in plan.parts] == [False] * (len(plan.parts) - 1) + [True]


def test_its_estimates_are_those_of_one_call(lens: mixlens.Lens) -> None:
    plan = mixlens.plan_evaluate(lens, TEXTS, ["hta", "alti"], ["spearman:blank_out"], memory="2GB", batch_size=4)
    parts = {part.of: part for part in plan.parts}
    assert list(parts) == ["the answers", "hta", "alti", "random", "blank_out"]
    for name in ("hta", "alti", "blank_out"):
        one = lens.plan(TEXTS, name, memory="2GB", batch_size=4)
        assert parts[name].plan == one
        each = [lens.plan(text, name).passes for text in TEXTS]
        assert parts[name].passes == pytest.approx(sum(each))
    assert plan.peak_bytes == max(part.plan.peak_bytes for part in plan.parts if part.plan)
    assert (plan.budget, plan.fits, plan.tokens) == (2 * 10**9, True, lens.plan(TEXTS, "alti").tokens)
    small = mixlens.plan_evaluate(lens, TEXTS, ["alti"], ["aopc"], memory="1MB")
    assert not small.fits and "which is not enough: see memory=" in str(small)


def test_methods_that_share_a_pass_have_it_once(lens: mixlens.Lens) -> None:
    alone = [mixlens.plan_evaluate(lens, TEXTS, name, "spearman:random").parts[1] for name in ("globenc", "alti")]
    both = mixlens.plan_evaluate(lens, TEXTS, ["globenc", "alti"], "spearman:random").parts[1]
    assert both.of == "globenc, alti"
    assert both.passes == pytest.approx(sum(part.passes for part in alone) - len(TEXTS))
    again = mixlens.plan_evaluate(lens, TEXTS, "grad_l2", "special_rank", layers="each").parts[1]
    once = mixlens.plan_evaluate(lens, TEXTS, "grad_l2", "special_rank").parts[1]
    assert again.passes >= once.passes


def test_what_a_function_takes_is_its_own(lens: mixlens.Lens) -> None:
    plan = mixlens.plan_evaluate(lens, TEXTS, [("mine", lambda question: [1.0] * len(question), {})], ["special_rank"])
    assert "  mine: 0 (and what the function takes)" in str(plan).splitlines()


def test_a_row_that_cannot_be_read_is_said(lens: mixlens.Lens) -> None:
    plan = mixlens.plan_evaluate(lens, [*TEXTS, ""], ["alti"], ["aopc"])
    assert (plan.rows, plan.texts) == (7, 6)
    assert str(plan).splitlines()[1].startswith("1 of 7 rows cannot be read, the first: EmptyInput: ")
    none = mixlens.plan_evaluate(lens, [""], ["alti"], ["aopc"])
    assert (none.rows, none.texts, none.passes, none.parts, none.peak_bytes) == (1, 0, 0, (), 0)


def test_what_evaluate_refuses(lens: mixlens.Lens) -> None:
    for expected, arguments in (
        (UnknownMethod, {"methods": ["altii"]}),
        (UnknownOption, {"layers": "all"}),
        (Undefined, {"data": [mixlens.Example("0", prompt="a", answer=" b")]}),
        (DataError, {"data": []}),
        (DataError, {"data": [{"words": "a"}]}),
    ):
        with pytest.raises(expected):
            mixlens.plan_evaluate(lens, **{"data": TEXTS, **arguments})


def test_explain_data(lens: mixlens.Lens, ran: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixlens.dataset.plan.divides", lambda model: False)
    for method, more in (("attention_rollout", {}), ("random", {"window": 5, "stride": 2})):
        plan = mixlens.plan_explain_data(lens, [*TEXTS, ""], method, **more)
        assert ran == []
        mixlens.explain_data(lens, [*TEXTS, ""], method, out=tmp_path / method, **more)
        if not more:
            assert int(plan.passes) == sum(ran) / lens.subject.layers == len(TEXTS)  # and a share of one in the maps
            assert plan.parts[0].plan == replace(lens.plan(TEXTS, method), budget=plan.budget)
        else:
            answers, own = plan.parts  # of windows of cut texts the answer is asked first
            assert (plan.passes, own.passes) == (sum(ran) / lens.subject.layers, lens.plan(TEXTS, method, **more).texts)
            assert 0 < answers.passes < own.passes
        assert (plan.rows, plan.texts) == (7, 6)
        ran.clear()


@pytest.mark.parametrize("texts", [120, 3])  # that there is room for
def test_two_threads_hold_a_batch_each(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch, texts: int) -> None:
    """What they are said to take holds what both make room for; in half of the memory, batches are smaller."""
    given: list[tuple[str, int]] = []
    whole = budget.planned

    def kept(name: str, wanted: Any, lengths: Any, *more: Any) -> Any:
        made = whole(name, wanted, lengths, *more)
        given.append((threading.current_thread().name, made.peak_bytes))
        return made

    memory = 2 * lens.plan([TEXTS[2]] * texts, "alti", batch_size=120).peak_bytes
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        plan = mixlens.plan_explain_data(lens, TEXTS * 20, "alti", memory=memory)
        monkeypatch.setattr(budget, "planned", kept)
        mixlens.explain_data(lens, TEXTS * 20, "alti", memory=memory)
    finally:
        torch.set_num_threads(before)
    names = {name for name, _ in given}
    assert len(names) == 2 and plan.fits
    assert sum(max(peak for name, peak in given if name == thread) for thread in names) <= plan.peak_bytes <= memory


def test_a_text_too_large_for_half_of_the_memory_is_planned_alone(lens: mixlens.Lens) -> None:
    wanted = Demand(Cost("x", "one pass"), budget.sizes_of(lens.subject), 1)
    alone = {n: budget.planned("x", wanted, [n], 10**12, 1).peak_bytes for n in (8, 4000)}
    for memory, fits in ((alone[4000] + 1, True), (alone[4000] - 1, False)):
        plan = budget.planned("x", wanted, [4000, 8, 8], memory, 1)
        both = in_threads(plan, wanted, [4000, 8, 8], 1)
        assert (both.peak_bytes, both.fits) == (max(alone[4000], 2 * alone[8]), fits)
    plan = budget.planned("x", wanted, [8, 8], 10**12, 1)
    assert in_threads(plan, wanted, [8, 8], 1).peak_bytes == 2 * alone[8]
    assert in_threads(plan, wanted, [8], 1) == plan  # no second thread has anything to do


def test_rows_that_the_run_cannot_explain_are_none_of_the_texts(lens: mixlens.Lens) -> None:
    """Pairs whose first text leaves a window no room, and texts without the label that is asked for."""
    for data, more in (
        ([("bad", "a deep film ." * 6), ("a deep film . " * 5, "bad bad " * 6)], {"task": "pairs", "window": 12}),
        ([{"text": "bad", "label": 1}, {"text": "good", "label": None}, "bad"], {"target": "label"}),
    ):
        plan = mixlens.plan_explain_data(lens, data, "random", **more)
        explained = mixlens.explain_data(lens, data, "random", **more)
        assert 0 < plan.texts == len(explained) < plan.rows == len(data)
        assert plan.error == explained.failures[0].error
    plan = mixlens.plan_evaluate(lens, data, ["random"], ["aopc"], target="label")
    assert (plan.rows, plan.texts) == (3, 1) and "expected a gold label" in str(plan.error)


def test_on_the_command_line(tiny_bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Subject, "through", None)  # nothing runs
    (tmp_path / "d.csv").write_text("review\n" + "".join(f"{text}\n" for text in TEXTS), "utf-8")

    def cli(*words: str) -> Any:
        return CliRunner().invoke(app, [*words, "--model", str(tiny_bert_folder), "--data", "d.csv", "--field", field])

    field, lens = "text=review", mixlens.load(str(tiny_bert_folder))
    rows = [{"text": text} for text in TEXTS]
    how = ["--methods", "alti", "--measures", "aopc", "--memory", "2GB"]
    plan = mixlens.plan_evaluate(lens, rows, ["alti"], ["aopc"], memory="2GB")
    said = cli("evaluate", "--plan", *how)
    assert (said.exit_code, said.stdout) == (0, f"{plan}\n")
    assert json.loads(cli("evaluate", "--plan", "--json", "-", *how).stdout) == plan.to_dict()
    assert cli("evaluate", "--plan", "--json", "plan.json", *how).stdout == f"{plan}\n"
    assert json.loads((tmp_path / "plan.json").read_text("utf-8")) == plan.to_dict()
    assert "leave 'run' out" in " ".join(
        cli("evaluate", "--plan", "--out", "run", *how).stderr.replace("│", "").split()
    )
    assert "--json goes with --plan" in cli("evaluate", "--json", "-", *how).stderr
    field = "review"
    plan = mixlens.plan_explain_data(lens, rows, "alti", memory="2GB")
    how = ["explain", "--plan", "--method", "alti", "--memory", "2GB"]
    assert cli(*how).stdout == f"{plan}\n"
    assert json.loads(cli(*how, "--json", "-").stdout) == plan.to_dict()
    assert "--workers changes nothing of what --plan says" in cli(*how, "--workers", "2").stderr
    assert {path.name for path in tmp_path.iterdir()} == {"d.csv", "plan.json"}
