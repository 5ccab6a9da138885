"""Texts from right to left run so, whatever stands around them."""

from __future__ import annotations

import re
from dataclasses import replace

import matplotlib
import pytest
import torch

from mixlens.capture.text import Tokens
from mixlens.results import Attribution, Comparison
from mixlens.view.kit import words
from mixlens.view.kit.direction import order, strong

ARABIC = ("فيلم", "جميل", "جدا")


@pytest.fixture
def arabic(make):
    return Attribution(make(" ".join(ARABIC), *ARABIC), torch.tensor([0.3, 0.1, 0.5, 0.1, 0.2]), "alti")


@pytest.fixture
def mixed() -> Attribution:
    """A pair: the first in Arabic, the second in English."""
    source = Tokens(
        ids=tuple(range(7)),
        pieces=("[CLS]", "رجل", "يركض", "[SEP]", "he", "moves", "[SEP]"),
        special=(True, False, False, True, False, False, True),
        text=("رجل يركض", "he moves"),
        spans=(None, (0, 0, 3), (0, 4, 8), None, (1, 0, 2), (1, 3, 8), None),
    )
    return Attribution(source, torch.linspace(0.1, 0.7, 7), "alti")


def ways(page: str) -> list[str]:
    return re.findall(r'dir="(\w+)"', page)


def test_the_first_strong_character():
    assert strong("[12] فيلم good") == "rtl"
    assert strong("«סרט»") == "rtl"
    assert strong("film فيلم") == "ltr"
    assert strong("12 👍 ...") is None


@pytest.mark.parametrize(
    ("words", "base", "places"),
    [
        (["a", "b", "c"], "ltr", [0, 1, 2]),
        (["א", "ב", "ג"], "rtl", [2, 1, 0]),
        (["א", "a", "b", "ב"], "rtl", [3, 1, 2, 0]),
        (["a", "א", ",", "ב", "b"], "ltr", [0, 3, 2, 1, 4]),
        (["א", "."], "rtl", [1, 0]),
        (["", "א", "a", "!"], "rtl", [3, 2, 1, 0]),
        ([], "rtl", []),
    ],
)
def test_words_from_left_to_right(words, base, places):
    assert order(words, base) == places


def test_pages_run_as_the_text_does(arabic, film):
    comparison = Comparison({"alti": arabic}, {})
    for page in (arabic.to_html(), arabic._repr_html_(), comparison.to_html(), comparison._repr_html_()):
        assert ways(page) == ["rtl"]
        assert re.search(r"<bdi[^>]*>\[CLS\]</bdi>", page)
    assert ways(film.to_html()) == ["ltr"]


def test_texts_of_a_pair_run_each_its_own_way(mixed):
    for page in (mixed.to_html(), mixed._repr_html_(), Comparison({"alti": mixed}, {}).to_html()):
        assert ways(page) == ["rtl", "ltr"]
    (_, first), (_, second) = words.lines(words.parts(mixed))
    assert [p.text for p in first] == ["[CLS]", "رجل", "يركض", "[SEP]"]
    assert [p.text for p in second] == ["he", "moves", "[SEP]"]


def test_special_tokens_and_templates_have_no_direction(arabic):
    pieces = ("user", *arabic.source.pieces[1:])
    assert ways(replace(arabic, source=replace(arabic.source, pieces=pieces)).to_html()) == ["rtl"]


def test_a_target_is_isolated(arabic):
    from mixlens.target import Target

    page = replace(arabic, target=Target(label="إيجابي", index=1)).to_html()
    assert "“<bdi>إيجابي</bdi>”" in page


def test_a_figure_places_words_from_the_right(arabic, film):
    figure = arabic.plot(kind="text")
    at = {t.get_text(): t.get_position()[0] for t in figure.findobj(matplotlib.text.Text) if t.get_text()}
    assert at[ARABIC[0]] > at[ARABIC[1]] > at[ARABIC[2]]
    assert at["[CLS]"] > at[ARABIC[0]]
    figure = film.plot(kind="text")
    at = {t.get_text(): t.get_position()[0] for t in figure.findobj(matplotlib.text.Text) if t.get_text()}
    assert at["[CLS]"] < at["a"] < at["deep"] < at["meaningful"]


def test_latex_says_what_it_needs(arabic, mixed, film):
    text = arabic.to_latex()
    assert r"\begin{RTL}" in text and r"\end{RTL}" in text and r"\usepackage{bidi}" in text
    assert mixed.to_latex().count(r"\begin{RTL}") == 1
    assert "RTL" not in film.to_latex() and "bidi" not in film.to_latex()
