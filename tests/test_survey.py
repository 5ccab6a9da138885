"""The model types of the installed transformers: the list is true, and none of it is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

import mixlens
from mixlens.cli import main
from mixlens.errors import UnknownArchitecture
from mixlens.survey import Known, examine, known_types, page, survey

HERE = Path(__file__).parent
# Of the types that were found: all on the transformers that the page was written with, else those without a mark.
# "newest": not there, or not found, in the oldest that is supported.
LINES = [line.split() for line in (HERE / "infer" / "types.txt").read_text("utf-8").splitlines()]
TYPES = [kind for kind, *_ in LINES]
PAGE = (HERE.parent / "docs" / "architectures.md").read_text("utf-8")
WRITTEN_WITH = re.search(r"in transformers (\d+)\.(\d+)", PAGE)
assert WRITTEN_WITH is not None
NEWEST = tuple(map(int, transformers.__version__.split(".")[:2])) >= tuple(map(int, WRITTEN_WITH.groups()))
HELD = [kind for kind, *marks in LINES if NEWEST or not marks]


def test_enough_types_are_held():
    """120 with the newest transformers, and 60 with the oldest."""
    assert len(set(TYPES)) == len(TYPES)
    assert {mark for _, *marks in LINES for mark in marks} <= {"newest"}
    assert len(TYPES) >= 120 and sum(not marks for _, *marks in LINES) >= 60
    assert set(HELD) <= set(CONFIG_MAPPING_NAMES)  # a type that a newer one no longer has is to be taken out


def test_the_page_lists_the_types_that_are_held():
    found = PAGE.partition("## By a spec that is found")[2].partition("## Refused")[0]
    assert sorted(re.findall(r"^\| (\S+) \| (?:pre|post|parallel) ", found, re.MULTILINE)) == sorted(TYPES)


def test_the_page_counts_what_it_lists():
    explained = PAGE.partition("## Refused")[0]
    rows = re.findall(r"^\| (\S+) \| (?:pre|post|parallel) ", explained, re.MULTILINE)
    refused = re.findall(r"^\| (?!model|---)(\S+) \| ", PAGE.partition("## Refused")[2], re.MULTILINE)
    said = re.search(r"Of (\d+) .*explains \*\*(\d+)\*\*: (\d+) .*, (\d+) by .*; (\d+) are refused", PAGE)
    assert said is not None
    total, known, by_hand, found, not_known = map(int, said.groups())
    assert (len(rows), len(refused)) == (known, not_known)
    assert (known, total, found) == (by_hand + found, known + not_known, len(TYPES))


@pytest.mark.slow
@pytest.mark.parametrize("kind", HELD)
def test_a_type_that_was_found_is_found(kind):
    known = examine(kind)
    assert (known.status, known.reason) == ("inferred", "")


def test_types_are_listed_with_status_and_reason():
    assert mixlens.architectures(["bert", "phi", "mamba"]) == [
        {"model_type": "bert", "status": "hand-written", "reason": "", "order": "post"},
        {"model_type": "phi", "status": "inferred", "reason": "", "order": "parallel"},
        {
            "model_type": "mamba",
            "status": "refused",
            "reason": "its attention is seen neither at transformers' attention interface nor at a softmax",
            "order": None,
        },
    ]


def test_a_word_that_is_no_type_is_refused():
    with pytest.raises(
        UnknownArchitecture, match=r"expected a model type of the installed .*'fhi'; did you mean 'phi'"
    ):
        survey(["fhi"])


def test_names_that_are_too_many_to_read_are_counted():
    with pytest.raises(UnknownArchitecture, match=r"got 'qqqqqq'; \d+ others are known, none is near$"):
        survey(["qqqqqq"])


def test_all_types_for_texts_are_asked_about(monkeypatch):
    asked = []
    monkeypatch.setattr("mixlens.survey.examine", lambda kind: asked.append(kind) or Known(kind, "refused", "no"))
    told = []
    survey(progress=lambda done, total: told.append((done, total)))
    assert asked == known_types()
    assert {"bert", "gpt2", "t5", "mamba", "llava"} < set(asked)
    assert {"vit", "clip_vision_model"} < set(asked)
    assert told[-1] == (len(asked) - 1, len(asked))


def test_the_command_lists_and_writes_a_page(tmp_path, capsys, monkeypatch):
    for words in (["--json"], ["--markdown", str(tmp_path / "page.md")]):
        monkeypatch.setattr("sys.argv", ["mixlens", "architectures", "bert", "mamba", *words])
        with pytest.raises(SystemExit, match="0"):
            main()
        out = capsys.readouterr().out
        if words == ["--json"]:
            assert [known["status"] for known in json.loads(out)] == ["hand-written", "refused"]
        else:
            assert "1 hand-written, 1 refused" in out
    assert (tmp_path / "page.md").read_text("utf-8") == page(survey(["bert", "mamba"]))
