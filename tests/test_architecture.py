"""The two pages on how it is built are so: rooms, their order, and the files that a call enters."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from dataclasses import dataclass, field
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


@dataclass
class Crossing:
    """What a call crosses: the files of the package whose functions it enters, and which functions; the calls that
    lead from a file into one of a room above, other than to a function that was handed down.
    """

    files: dict[str, set[str]] = field(default_factory=dict)
    climbs: set[tuple[str, str]] = field(default_factory=set)


DECORATORS = ("arguments.py", "process.py", "progress.py")  # each calls the function that it stands around


def entered(call: Any) -> Crossing:
    """What a call crosses."""
    crossing, order = Crossing(), {name: depth for depth, name in enumerate(layers())}

    def room(file: str) -> int:
        return order[file.partition("/")[0].removesuffix(".py")]

    def named(frame: Any) -> str:
        """The file that a frame is of; "" for others' and for decorators."""
        name = frame.f_code.co_filename
        file = name[len(str(SOURCE)) + 1 :] if name.startswith(f"{SOURCE}/") else ""
        return "" if file in DECORATORS else file

    def look(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not code.co_filename.startswith(f"{SOURCE}/"):
            return
        file = code.co_filename[len(str(SOURCE)) + 1 :]
        crossing.files.setdefault(file, set()).add(code.co_name)
        handed_down = code.co_name == "<lambda>" or code.co_flags & inspect.CO_NESTED
        while (frame := frame.f_back) is not None and not named(frame):
            pass
        caller = "" if frame is None else named(frame)
        if caller and not handed_down and room(file) < room(caller):
            crossing.climbs.add((f"{caller} {frame.f_code.co_name}", f"{file} {code.co_name}"))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return crossing


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(tiny_bert_folder)


@pytest.fixture(scope="module")
def crossed(lens: mixlens.Lens) -> dict[str, set[str]]:
    lens.attribute(TEXT, method="globenc")  # what is imported or compiled on first use is so by now
    return entered(lambda: lens.attribute(TEXT, method="globenc")).files


def test_no_call_climbs(lens: mixlens.Lens) -> None:
    """What a room calls stands below it, or was handed to it: also where imports would not show it."""
    assert entered(lambda: lens.attribute(TEXT, method="globenc")).climbs == set()
    assert entered(lambda: lens.mixing(TEXT, method="alti")).climbs == set()


@pytest.mark.slow
def test_nor_does_an_evaluation(lens: mixlens.Lens) -> None:
    rows = [{"text": TEXT, "label": 1}]
    assert entered(lambda: mixlens.evaluate(lens, rows, ["globenc"], ["comprehensiveness"])).climbs == set()


def test_a_climb_is_seen(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    below = importlib.import_module("mixlens.subject.read")
    before = below.as_list
    monkeypatch.setattr(below, "as_list", lambda data: (lens.check(), before(data))[1])
    assert entered(lambda: lens.mixing(TEXT)).climbs == {("subject/read.py read", "lens.py check")}


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
