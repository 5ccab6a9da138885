"""Prompts whose answers have a known source: made by a seed, and the source is where they say."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import mixlens
from mixlens import Example
from mixlens.errors import DataError, UnknownOption
from mixlens.tasks import digest
from mixlens.tasks.planted import PLANTED


def golds(example: Example) -> list[str]:
    return [example.prompt[a:b] for a, b in example.gold]


@pytest.mark.parametrize("name", PLANTED)
def test_a_seed_makes_the_same_and_another_others(name):
    made = mixlens.planted(name, 8, seed=1)
    assert made == mixlens.planted(name, 8, seed=1) and made[:3] == mixlens.planted(name, 3, seed=1)
    assert not {e.prompt for e in made} & {e.prompt for e in mixlens.planted(name, 8, seed=2)}
    assert len({e.id for e in made}) == 8 and all(e.answer.startswith(" ") for e in made)


def test_needle():
    for keys in range(1, 9):
        (one,) = mixlens.planted("needle", 1, seed=keys, keys=keys, filler=4)
        (gold,) = golds(one)
        asked = one.prompt.rpartition("Answer: ")[2]
        assert f"{asked} {gold}." in one.prompt and one.answer == f" {gold}"
        assert one.prompt.count(". ") == keys + 4
    (fact,) = golds(mixlens.planted("needle", 1, gold="fact", depth=0.0, filler=3)[0])
    assert fact.split()[1:3] == ["has", "a"] and fact.endswith(".")
    first, last = (mixlens.planted("needle", 1, depth=d, filler=9)[0].gold[0][0] for d in (0.0, 1.0))
    assert first < 20 < last


def test_variables():
    for one in mixlens.planted("variables", 8, steps=3, chains=2):
        lines = golds(one)
        assert len(lines) == 3 and lines[0].endswith(one.answer)
        for before, line in pairwise(lines):
            assert line.endswith(f"= {before[0]}")
        assert one.prompt.endswith(f"The value of {lines[-1][0]} is") and one.foil != one.answer


def test_indirect_objects_and_agreement():
    for one in mixlens.planted("ioi", 8):
        assert golds(one) == [one.answer.strip()] and one.prompt.count(one.foil) == 2
    for one in mixlens.planted("agreement", 8, attractors=2):
        (subject,) = golds(one)
        assert subject.endswith("s") == (one.answer in (" are", " were", " have")) and one.foil != one.answer


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("needles", {}, "did you mean 'needle'"),
        ("needle", {"key": 2}, "needle has no option 'key'; did you mean 'keys'"),
        ("needle", {"keys": 9}, "expected keys= a whole number of 1 to 8, got 9"),
        ("needle", {"depth": 2}, "expected depth= None or a number of 0 to 1"),
        ("needle", {"gold": "line"}, "expected gold='value' or 'fact'"),
        ("variables", {"steps": 0}, "expected steps="),
    ],
)
def test_mistakes(name, options, says):
    with pytest.raises(UnknownOption, match=says):
        mixlens.planted(name, 1, **options)


def test_an_example_has_a_text_or_a_prompt():
    for given in ({}, {"text": "a", "prompt": "b"}):
        with pytest.raises(DataError, match="expected a text, or a prompt with its answer"):
            Example("1", **given)
    with pytest.raises(DataError, match="expected a prompt beside the documents"):
        Example("1", "a", documents={"b": "c"})


def test_an_example_of_before_has_the_digest_of_before():
    """A finished run goes on being read."""
    fields = "id text label target foil cue phrase rationale answer"
    assert sorted(json.loads(digest(Example("1", "a film", 1)))) == sorted(fields.split())


def test_documents():
    row = {"question": "Who?", "documents": ["Ann did.", "Tom did not."], "answer": " Ann", "gold": "document 1"}
    read = mixlens.task("documents").read(row, 3)
    assert read == Example(
        "3",
        prompt="Who?",
        documents={"document 1": "Ann did.", "document 2": "Tom did not."},
        answer=" Ann",
        gold=("document 1",),
        units="document",
    )
    with pytest.raises(DataError, match="expected documents as"):
        mixlens.task("documents").read({**row, "documents": 3}, 0)
