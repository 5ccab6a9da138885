"""docs/reproduction.md is what its records give, and every table and figure of the papers is accounted for."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from mixlens.reproduce import REPRODUCTIONS
from mixlens.reproduce.catalogue import CATALOGUE
from mixlens.reproduce.record import PageRecord
from mixlens.reproduce.verdicts import judge

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"
RECORDS = sorted((ROOT / "docs" / "reproduction").glob("*.json"))


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "experiments"))
    yield importlib.import_module("reproduction_page")
    sys.path.remove(str(ROOT / "experiments"))


def test_the_page_is_written_from_the_records(script):
    """No verdict stands there by hand: python experiments/reproduction_page.py writes it again."""
    assert RECORDS
    assert script.text() == PAGE.read_text(encoding="utf-8")


def test_every_picture_that_a_page_shows_is_there():
    shown = {file for path in RECORDS for _, file in PageRecord.read(path).pictures}
    assert shown == {path.name for path in (ROOT / "docs" / "reproduction").glob("*.png")}


def test_links_of_the_list_lead_to_a_page(script):
    """An anchor is the heading in small letters, blanks as hyphens, other marks left out."""
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, flags=re.M)
    anchors = {"".join(c for c in h.lower() if c.isalnum() or c in " -_").replace(" ", "-") for h in headings}
    links = set(re.findall(r"\]\(#(.*?)\)", text))
    assert links and links <= anchors


def test_every_table_and_figure_has_its_page_or_a_reason():
    entries = [one for paper in CATALOGUE.values() for one in paper]
    assert all(bool(one.page) != bool(one.why) for one in entries)
    assert {one.page for one in entries if one.page} == set(REPRODUCTIONS) - {"known-source"}  # of no paper


@pytest.mark.parametrize(
    ("paper", "numbers"),
    [
        ("Abnar & Zuidema 2020", "F1 F2 F3 F4 T1 T2 T3"),
        ("Modarressi 2022", "F1 F2 F3 F4 F5 FA.1 FA.2 FA.3 FA.4 FA.5 FA.6 T1 T2 TA.1 TA.2"),
        ("Ferrando 2022", "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 T1 T2 T3 T4 T5 T6 T7 T8 T9"),
        ("Mohebbi 2023", "F1 F2 F3 F4 " + " ".join(f"FA.{k}" for k in range(1, 19)) + " T1 T2 T3"),
        ("Qiang 2022", "F1 F2 F3 F4 F5 T1 T2"),
    ],
)
def test_the_list_is_whole(paper, numbers):
    """The captions of the papers, counted by hand."""
    found = set()
    for one in CATALOGUE[paper]:
        match = re.fullmatch(r"(Figure|Table)s? (A\.)?(\d+)(?: (to|and) (?:A\.)?(\d+))?", one.label)
        if match:
            kind, appendix, first, _, last = match.groups()
            found |= {f"{kind[0]}{appendix or ''}{k}" for k in range(int(first), int(last or first) + 1)}
    assert found == set(numbers.split())


def test_no_correlation_over_three_has_a_verdict():
    """Of all claims on the page together."""
    judged = judge([claim for path in RECORDS for claim in PageRecord.read(path).claims])
    few = [one for one in judged if one.decisive is not None and one.decisive.source == "test" and one.decisive.n < 4]
    assert few and {one.verdict for one in few} == {"too few"}
    sure = [one for one in judged if one.verdict.startswith(("holds", "reversed"))]
    assert sure and all(one.p <= 0.05 for one in sure)
