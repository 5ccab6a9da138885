"""The two pages on how it is built are so: rooms, their order, and the files that a call enters."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import mixlens

ROOT = Path(__file__).parent.parent
SOURCE = Path(mixlens.__file__).parent
TEXT = "a deep and meaningful film."
STEPS = 15  # files that a reader can follow


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def layers() -> list[str]:
    """The rooms in the order of pyproject.toml, from the top."""
    text = (ROOT / "pyproject.toml").read_text("utf-8").partition("\nlayers = [\n")[2].partition("\n]")[0]
    return [name.strip() for line in text.splitlines() for name in line.split('"')[1].split("|")]


def test_every_room_stands_in_the_table_in_the_order_of_the_layers():
    """(lint-imports holds the layers against what is there, and what is there against itself.)"""
    rooms = re.findall(r"^\| `(\w+)` \|", read("architecture.md"), re.MULTILINE)
    assert rooms == layers()
    there = {p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert set(rooms) == there - {"__init__"}


def test_a_room_is_one_sentence_of_one_thing():
    sentences = re.findall(r"^\| `\w+` \| (.*) \|$", read("architecture.md"), re.MULTILINE)
    assert len(sentences) == len(layers())
    for sentence in sentences:
        words = sentence.replace(".py", "").split()
        assert len(words) <= 16 and sentence.endswith(".") and sentence[:-1].count(". ") == 0, sentence
        assert not {"and", "or"} & set(words) and ";" not in sentence, sentence


def test_the_arrows_of_the_picture_are_rooms():
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```$", read("architecture.md"), re.MULTILINE | re.DOTALL)
    arrows = re.findall(r"-- (\w+) -->", picture)
    assert len(arrows) == picture.count("-->") and not set(arrows) - set(layers())
    assert {"subject", "capture", "decompose", "mixing", "aggregate", "attribute", "view"} <= set(arrows)


def entered(call: Any) -> dict[str, set[str]]:
    """The files of the package whose functions a call enters, and which functions."""
    files: dict[str, set[str]] = {}

    def look(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(f"{SOURCE}/"):
            files.setdefault(code.co_filename[len(str(SOURCE)) + 1 :], set()).add(code.co_name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return files


@pytest.fixture(scope="module")
def crossed(tiny_bert_folder: Path) -> dict[str, set[str]]:
    lens = mixlens.load(tiny_bert_folder)
    lens.attribute(TEXT, method="globenc")  # what is imported or compiled on first use is so by now
    return entered(lambda: lens.attribute(TEXT, method="globenc"))


def test_the_journey_enters_the_files_that_it_names(crossed):
    page = read("journey.md")
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", page, re.MULTILINE)
    small = re.findall(r"`([\w/]+\.py)`", page.partition("## Small files")[2])
    assert len(steps) <= STEPS and len({*steps, *small}) == len(steps) + len(small)
    optional = {"decompose/fused.py", "decompose/compiled.py"}  # without the extra, one or both are passed by
    assert {*steps, *small} - optional == set(crossed) - optional
    assert optional <= set(small)


def test_the_functions_of_a_step_are_entered_there(crossed):
    for step in re.findall(r"^\d+\. (.*(?:\n   +.*)*)", read("journey.md"), re.MULTILINE):
        file, *names = re.findall(r"`([\w/.]+)`", step)
        named = [name for name in names if not name[0].isupper()]
        assert named and not set(named) - crossed[file], (file, set(named) - crossed[file])
