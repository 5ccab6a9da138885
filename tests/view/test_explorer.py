"""What a page lets its script do and gives it: the policy, the data to the last bit, sizes. Clicks: test_browser.py."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch

from mixlens.capture.text import Tokens
from mixlens.results import Attribution, Comparison
from mixlens.view.kit import packed, pieces, sealed
from models import traces
from pages import Page, data, styled

RESULTS = ("film", "signed", "pair", "ids", "nasty", "maps", "both", "trace", "units")


@pytest.fixture
def both(film, make_maps) -> Comparison:
    return Comparison({"alti": film, "globenc": film}, {"hta": "</script>"}, {}, {"alti": make_maps(3, 9)})


@pytest.fixture
def trace():
    return traces.trace()


@pytest.fixture
def units():
    return traces.trace().units("word")


def policy(page: str) -> dict[str, list[str]]:
    [text] = [
        attrs["content"] for tag, attrs in Page(page).tags if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    return {name: values for name, *values in (part.split() for part in text.split(";"))}


def sha(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_lets_its_style_and_its_script_alone_act(name, request):
    page = request.getfixturevalue(name).to_html()
    rules = policy(page)
    assert rules["default-src"] == ["'none'"] and rules["img-src"] == ["data:"]
    assert rules["base-uri"] == rules["form-action"] == ["'none'"]
    scripts = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert rules["script-src"] == ([sha(text) for text in scripts] or ["'none'"])
    assert rules["style-src"] == [sha(text) for text in re.findall("<style>(.*?)</style>", page, re.DOTALL)]
    tags = Page(page).tags
    assert not [attrs for _, attrs in tags if "style" in attrs]
    assert [tag for tag, _ in tags].index("meta") < [tag for tag, _ in tags].index("style")
    assert page.index("Content-Security-Policy") < page.index("<title>")  # before anything from outside


def test_every_style_is_where_it_was(film):
    page = film.to_html()
    count = len(re.findall(r' data-s="\d+"', page))
    assert count > 20
    restored = styled(page)
    assert restored.count(' style="') == count
    assert 'style="left: 0.0%; width: 100.0%; background: #e2590f"' in restored


def test_no_text_can_name_the_places_that_are_filled_in(film):
    evil = f'{sealed.POLICY} {sealed.LIFTED} </style><style>*{{}}</style> style="x"'
    page = replace(film, meta={**film.meta, "model": evil}).to_html()
    assert evil.split()[0] in Page(page).text and sealed.LIFTED in Page(page).text
    assert len(re.findall("<style>", page)) == 1 and sealed.POLICY not in policy(page)["default-src"]


def test_the_script_reaches_for_nothing_and_writes_no_markup():
    source = sealed.script()
    markup = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "</", 'setAttribute("style')
    reach = ("eval(", "Function(", "fetch(", "XMLHttpRequest", "import ", "import(", "http:", "https:", "localStorage")
    for bad in (*markup, *reach):
        assert bad not in source, bad
    assert ' style="' not in source  # it would be lifted, and the hash be another's


def test_the_wheel_carries_script_and_styles():
    folder = files("mixlens.view").joinpath("explorer")
    there = {entry.name for entry in folder.iterdir()}
    assert there == {f"{name}.js" for name in (*sealed.MODULES, *sealed.PLACES)} | {
        f"{name}.css" for name in sealed.SHEETS
    }
    for entry in folder.iterdir():
        assert len(entry.read_text("utf-8").splitlines()) <= 320, entry.name


@pytest.mark.parametrize("name", ["film", "signed", "pair", "ids", "nasty"])
def test_scores_come_back_to_the_last_bit(name, request):
    attr = request.getfixturevalue(name)
    head, arrays = data(attr.to_html())
    np.testing.assert_array_equal(arrays["scores"], attr.scores.float().numpy())
    assert head["kind"] == "attribution"
    assert len(head["text"]["grains"].get("token", head["text"]["grains"]["word"])) == len(attr.tokens)


def test_the_data_hold_the_text(film, pair):
    grains = data(film.to_html())[0]["text"]["grains"]
    assert ["".join(b + t for b, t, *_ in grains[g]) for g in ("word", "token")] == [
        "[CLS] a deep and meaningful film. [SEP]"
    ] * 2
    assert grains["word"][4] == [" ", "meaningful", [4, 5], 0]
    assert [t for _, t, _, kind in data(pair.to_html())[0]["text"]["grains"]["word"] if kind & pieces.OPENS] == ["he"]


def test_a_trace_hands_over_its_scores_and_documents(trace):
    head, arrays = data(trace.to_html())
    np.testing.assert_array_equal(arrays["scores"], trace.scores.float().numpy())
    assert head["prompt"]["count"] == len(trace.prompt)
    assert {d["name"]: d["tokens"] for d in head["documents"]} == {
        name: list(range(*span)) for name, span in trace.meta["documents"].items()
    }
    for side in ("prompt", "answer"):
        for grain in head[side]["grains"].values():
            assert sorted(i for _, _, indices, _ in grain for i in indices) == list(range(len(getattr(trace, side))))


def test_line_ends_stand_before_the_words():
    text = "a\n\nb c.\n\nd"
    spans = ((0, 0, 1), (0, 1, 3), (0, 3, 4), (0, 4, 6), (0, 6, 9), (0, 9, 10))
    stream = Tokens(tuple(range(6)), tuple(text[a:b] for _, a, b in spans), (False,) * 6, (text,), spans)
    assert [(b, t) for b, t, *_ in pieces.tokens(stream)] == [
        ("", "a"), ("\n\n", "↵↵"), ("", "b"), (" ", "c"), ("", "."), ("\n\n", "d"),
    ]  # fmt: skip
    trimmed = replace(stream, spans=((0, 0, 1), (0, 3, 3), *spans[2:]))  # as byte-level tokenizers place a blank
    assert "".join(b + t for b, t, *_ in pieces.words(trimmed)) == text


@pytest.mark.parametrize("signed", [False, True])
def test_large_arrays_are_rounded_to_their_rows(signed):
    values = np.random.default_rng(0).random((3, 4, 50)) - 0.5 * signed
    values[0, 1] = 0
    text = packed.pack({}, {"scores": values}, exact=10)
    head, arrays = data(f'<script type="application/octet-stream">{text}</script>')
    assert [entry["kind"] for entry in head["arrays"]] == ["i2" if signed else "u2", "f4"]
    back = arrays["scores"] * arrays["scores.scale"][..., None].astype(float)
    step = np.abs(values).max(-1, keepdims=True) / (32767 if signed else 65535)
    assert (np.abs(back - values) <= 0.51 * step + 1e-9).all()


@pytest.mark.slow
def test_the_page_of_a_long_text_is_under_a_megabyte(make):
    words = [f"w{i}" for i in range(2000)]
    attr = Attribution(make(" ".join(words), *words), torch.rand(2002), "x", layers=torch.rand(12, 2002))
    assert len(attr.to_html()) < 1e6
