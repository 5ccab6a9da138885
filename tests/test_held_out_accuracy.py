"""experiments/held_out.py: Wilson's interval by hand, and what counts as shared."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "experiments"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("held_out")
    sys.path.remove(str(FOLDER))


def test_wilson_by_hand(script):
    """(p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n): none of 10 right, and half of 4."""
    z2 = 1.959964**2
    assert script.wilson(0, 10) == pytest.approx((0.0, z2 / 10 / (1 + z2 / 10)), abs=1e-6)
    half = (z2 * (0.25 / 4 + z2 / 64)) ** 0.5 / (1 + z2 / 4)
    assert script.wilson(2, 4) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    assert all(v != v for v in script.wilson(0, 0))


def test_what_is_shared(script):
    row = {"uid": "darn", "target": "has", "cue_words": ["niece"]}
    assert script.SHARED["agreement"](row) == {("darn", "has", "niece")}
    pair = {"text_a": "A  man walks.", "text_b": "He WALKS ."}
    assert script.SHARED["paraphrase"](pair) == {"a man walks.", "he walks ."}


def test_the_rows_are_those_that_the_recipe_measures_on(script, tmp_path):
    (tmp_path / "blimp").mkdir()
    for name in ("ana", "dna", "dnaa", "darn", "rpsv"):
        rows = [
            {
                "sentence": f"{name} has",
                "target": "has",
                "foil": "have",
                "target_span": [len(name) + 1, len(name) + 4],
                "paper_subset": kept,
                "split": split,
            }
            for kept in (True, False)
            for split in ("train", "test")
        ]
        (tmp_path / f"blimp/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    measured = script.rows_of("agreement", tmp_path, training=False)
    assert [row["sentence"] for row in measured] == [f"{name} has" for name in ("ana", "dna", "dnaa", "darn", "rpsv")]
    assert {row["split"] for row in measured} == {"test"}
