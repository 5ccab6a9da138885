"""Pages and notebook output: inert, whole, small. What the script does is in `test_explorer.py`."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from mixlens.errors import ResultFileError
from mixlens.results import Attribution, Results
from pages import Page, still

ALL = ("film", "signed", "pair", "ids", "nasty", "maps")
KNOWN = set(
    "html head meta title style body main h1 h2 p div span br table caption thead tbody tr th td i details summary "
    "figure figcaption img picture source ol li dl dt dd bdi script code".split()
)


def outputs(result) -> list[str]:
    return [result.to_html(), result._repr_html_()]


@pytest.mark.parametrize("name", ALL)
def test_no_script_no_network_no_unknown_tag(name, request):
    for source in outputs(request.getfixturevalue(name)):
        assert "http://" not in source and "https://" not in source
        lower = still(source).lower()
        for bad in ("<script", "javascript:", "@import", "url(", "<link", "<iframe"):
            assert bad not in lower, bad
        page = Page(source)
        assert {tag for tag, _ in page.tags} <= KNOWN
        for tag, attrs in page.tags:
            assert not any(a.startswith("on") for a in attrs)
            assert tag != "script" or attrs in ({"type": "module"}, {"type": "application/octet-stream"})
            if tag == "img":
                assert attrs["src"].startswith("data:image/png;base64,")
                assert attrs["alt"]
            if tag == "source":
                assert attrs["srcset"].startswith("data:image/png;base64,")


def test_hostile_tokens_are_inert_and_legible(nasty):
    for source in outputs(nasty):
        page = Page(source)
        assert "</script><img src=x onerror=alert(1)>" in page.text
        assert "<img src=x" not in source
        assert "<u>" not in source
        assert "<b>" not in source
        assert not [1 for tag, _ in page.tags if tag in ("img", "u", "b")]
        assert len([1 for tag, _ in page.tags if tag == "script"]) == (2 if "<html" in source else 0)
        assert "\x1b" not in source
        assert "\u202e" not in source


@pytest.mark.parametrize("name", ["film", "signed", "pair", "ids"])
def test_every_token_and_its_score_is_there(name, request):
    attr = request.getfixturevalue(name)
    text = Page(attr.to_html()).text
    for token, score in zip(attr.display, attr.scores.tolist(), strict=True):
        assert token in text
        assert (f"{score:.3f}" if score else "0") in text


def test_a_page_says_where_it_comes_from(film):
    text = Page(film.to_html()).text
    for fact in ("globenc", "positive (logit)", "org/tiny_model", "normalize=yes", "self check", "3.2e-07", "0.1.0"):
        assert fact in text, fact


def test_hover_shows_the_pieces(film):
    for source in outputs(film):
        titles = [a.get("title") for _, a in Page(source).tags if a.get("title")]
        assert "meaningful: 0.340 (meaning 0.220 + ful 0.120)" in titles


def test_the_running_text_is_the_text(film):
    page = film.to_html()
    assert re.search(r">a</span> <span", page)
    assert "[CLS] a deep and meaningful film. [SEP]" in Page(page).text


def test_accessible(film, maps):
    for result in (film, maps):
        page = Page(result.to_html())
        tags = dict(page.tags)
        assert tags["html"]["lang"] == "en"
        assert [t for t, _ in page.tags].count("h1") == 1
        assert "title" in tags
        scopes = [a.get("scope") for t, a in page.tags if t == "th"]
        assert all(s in ("row", "col") for s in scopes)
        assert [t for t, _ in page.tags].count("caption") == [t for t, _ in page.tags].count("table")


@pytest.mark.parametrize("name", ALL)
def test_two_fragments_stand_in_one_notebook(name, request):
    source = request.getfixturevalue(name)._repr_html_()
    page = Page(source * 2)
    assert not [a for _, a in page.tags if "id" in a or "class" in a]
    assert not [t for t, _ in page.tags if t in ("style", "html", "body")]
    assert [t for t, _ in page.tags].count("div") == source.count("</div>") * 2


def test_tags_are_closed(film, nasty, maps):
    for result in (film, nasty, maps):
        for source in outputs(result):
            for tag in ("div", "span", "table", "figure", "details", "ol", "main"):
                assert len(re.findall(rf"<{tag}[ >]", still(source))) == still(source).count(f"</{tag}>"), tag


def test_a_page_is_written(film, maps, tmp_path):
    for result in (film, maps):
        page = result.to_html(tmp_path / "p.html")
        assert (tmp_path / "p.html").read_text(encoding="utf-8") == page
    with pytest.raises(ResultFileError, match="create it first"):
        film.to_html(tmp_path / "none" / "p.html")


def test_the_page_of_512_tokens_and_144_heads_is_small(make_maps, tmp_path):
    maps = make_maps(12, 512, heads=12)
    page = maps.to_html(tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_size < 10e6
    text = Page(page).text
    assert "Mean over the heads." in text
    assert "Each dot is the largest of 3 x 3 tokens." in text
    assert [t for t, _ in Page(page).tags].count("img") == 13
    assert len(maps._repr_html_()) < 1e6


def test_the_page_of_a_long_text_is_small(make):
    words = [f"w{i}" for i in range(510)]
    attr = Attribution(make(" ".join(words), *words), torch.rand(512), "x", layers=torch.rand(12, 512))
    assert len(attr.to_html()) < 1e6


def test_maps_show_a_picture_a_layer_with_its_tokens(maps):
    page = Page(maps.to_html())
    for layer in (1, 2, 3):
        assert f"layer {layer}" in page.text
    assert [t for t, _ in page.tags].count("img") == 4
    for token in maps.display:
        assert token in page.text


def test_truncation_is_told(film):
    cut = replace(film, source=replace(film.source, dropped=3))
    assert "3 tokens" in Page(cut.to_html()).text
    assert "3 tokens cut off" in Page(cut._repr_html_()).text


def test_signed_scores_say_what_the_colours_mean(signed):
    assert "orange speaks for it, blue against it" in Page(signed.to_html()).text
    assert "orange: for, blue: against" in signed._repr_html_()


def test_a_method_that_knows_no_class_says_so(film):
    assert "Which words count for “positive”?" in Page(film.to_html()).text
    blind = replace(film, meta={**film.meta, "class_specific": False})
    text = Page(blind.to_html()).text
    assert "count for" not in text
    assert "not specific to a class" in text
    assert "not specific to the target" in " ".join(str(blind).split())
    assert "not specific to a class" in Page(Results([blind, blind]).to_html()).text
    assert "not specific" not in Page(Results([film]).to_html()).text


def test_numbers_below_each_other_have_the_same_places(film):
    small = replace(film, scores=film.scores.clone().index_fill_(0, torch.tensor([3]), 4e-4))
    shown = re.findall(r'<td class="score">([^<]*)</td>', small.to_html())
    assert "0.000" in shown and "0.220" in shown and {len(text.partition(".")[2]) for text in shown} == {3}
