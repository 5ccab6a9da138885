"""Colours and bars are scaled by what they show; special tokens, which are not shown so, are told in words."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from mixlens.results import Comparison
from mixlens.view import attribution
from mixlens.view import maps as maps_view
from mixlens.view.kit import colors, spelling, terminal, words
from mixlens.view.kit import html as kit_html
from pages import still, styled

HELD = "special tokens hold 93 % of the scores' sizes (largest: [CLS] -9.000)"


def texts(figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]


def bars(page: str) -> list[dict[str, float]]:
    """Name and width of every row with a bar, table by table."""
    tables = re.findall(r"<tbody>(.*?)</tbody>", page, re.S)
    row = re.compile(r"<bdi>([^<]*)</bdi></th><td class=\"score\">[^<]*</td><td class=\"bar\">.*?width: ([\d.]+)%")
    return [{n: float(w) for line in t.split("</tr>") for n, w in row.findall(line)} for t in tables]


def pixels(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB"))


def test_bars_of_a_page_are_scaled_by_the_words(heavy):
    page = heavy.to_html()
    top, every = bars(styled(page))
    assert top == {"deep": 100.0, "film": 50.0, "a": 25.0}
    assert every == top  # special tokens have their number alone
    assert 'class="track signed"' not in still(page)
    assert HELD[1:] in page.replace("&#39;", "'")
    assert HELD in heavy._repr_html_().replace("&#39;", "'")


def test_a_text_of_special_tokens_alone_has_its_bars(heavy):
    alone = replace(heavy, source=replace(heavy.source, special=(True,) * 5))
    assert bars(styled(alone.to_html()))[0]["[CLS]"] == 50.0
    assert "special tokens hold" not in alone.to_html()


def test_the_layers_of_a_page_are_the_words(heavy):
    found = attribution._layers(heavy)
    assert found["columns"] == ["a", "deep", "film"]
    assert (found["legend"]["low"], found["legend"]["high"]) == ("0", "0.400")
    scale = colors.scale([0.4])
    assert pixels(found["light"]).shape == (2, 3, 3)
    assert tuple(pixels(found["light"])[0, 1]) == scale.rgb(0.4)
    assert "without the special tokens" in heavy.to_html()


def test_bars_in_a_terminal_are_scaled_by_the_words(heavy):
    text = terminal.as_text(heavy.__rich__(), width=200)
    lines = {line.split()[0]: line for line in text.splitlines() if "█" in line}
    assert list(lines) == ["deep", "film", "a"]
    assert lines["deep"].count("█") == 24
    assert HELD in text


def test_bars_of_a_figure_end_with_the_words(heavy, film):
    axes = heavy.plot().axes[0]
    low, high = axes.get_xlim()
    assert (low, high) == (pytest.approx(-0.5), pytest.approx(0.5))
    assert "-9.000" in texts(axes.figure)
    assert "score (grey: special tokens, cut where a number stands)" in texts(axes.figure)
    assert "score (grey: special tokens)" in texts(film.plot())
    assert "0.310" not in texts(film.plot())


def test_a_figure_of_a_comparison_shows_the_words_alone(heavy, film):
    figure = Comparison({"attcat": heavy, "alti": replace(heavy, scores=-heavy.scores)}, {}).plot()
    shares = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(shares, [[0.25, 1, 0.5], [-0.25, -1, -0.5]], rtol=1e-6)
    assert any("special tokens left out" in text for text in texts(figure))


@pytest.mark.parametrize("name", ["film", "signed", "pair", "ids"])
def test_words_in_the_order_of_their_sizes_without_special_tokens(name, request):
    shown = words.parts(request.getfixturevalue(name))
    assert not any(p.special for p in words.ranked(shown, 99))


def test_what_special_tokens_hold(film, ids, signed):
    assert words.held(words.parts(film)) == "special tokens hold 41 % of the scores (largest: [CLS] 0.310)"
    assert words.held(words.parts(ids)) is None
    zero = replace(film, scores=torch.zeros(9))
    assert words.held(words.parts(zero)) is None
    little = replace(signed, scores=torch.tensor([0.0, 1, 1, 1, 1, 1, 1, -1, 1e-4]))
    assert words.held(words.parts(little)).startswith("special tokens hold under 1 % of the scores' sizes")


def test_heatmaps_and_their_legends_agree_in_light_and_dark(signed):
    rows = torch.tensor([[-2.0, 0.0, 2.0]]).double().numpy()
    found = kit_html.by_layer(rows, ["a", "b", "c"], [1])
    for mode in ("light", "dark"):
        legend = re.findall(r"#([0-9a-f]{6})", found["legend"][mode])
        drawn = ["{:02x}{:02x}{:02x}".format(*dot) for dot in pixels(found[mode])[0]]
        assert drawn == [legend[0], legend[len(legend) // 2], legend[-1]]
        words = colors.Scale(2.0, True)
        assert drawn == [words.hex(v, dark=mode == "dark") for v in (-2.0, 0.0, 2.0)]


def test_a_page_has_a_picture_for_dark_and_its_legend_beside(film, maps):
    for page in (film.to_html(), maps.to_html()):
        count = page.count("<picture>")
        assert count == page.count("<img ") > 0
        assert page.count('media="screen and (prefers-color-scheme: dark)"') == count
        assert "@media screen and (prefers-color-scheme: dark)" in page
    assert film.to_html().count('class="ramp"') == maps.to_html().count('class="ramp"') == 2


def test_colours_are_explained_as_they_are(film, signed):
    blind = replace(signed, meta={**signed.meta, "class_specific": False})
    assert "orange is above zero, blue below it" in blind.to_html()
    assert "against" not in still(blind.to_html()) and "against" not in blind._repr_html_()
    assert "orange speaks for it, blue against it" in terminal.as_text(signed.__rich__(), width=200)
    one, both = Comparison({"a": film}, {}), Comparison({"a": signed, "b": signed}, {})
    for shown in (still(one.to_html()), one._repr_html_(), str(one), one.to_latex()):
        assert "blue" not in shown
    for shown in (both.to_html(), both._repr_html_(), str(both), both.to_latex()):
        assert "blue speaks against" in " ".join(shown.split())


def test_maps_of_a_comparison_have_their_own_legends(film, make_maps):
    three, two = make_maps(3, 9), make_maps(2, 9)
    found = Comparison({"alti": film, "globenc": film}, {}, {}, {"alti": three, "globenc": two})
    page = found.to_html()
    assert page.count("<picture>") == page.count("<img ") == 5
    assert page.count('class="ramp"') == 2
    assert re.findall("<h3>(.*?)</h3>", page) == ["alti", "globenc"]
    assert [spelling.number(float(m.scores.max())) in page for m in (three, two)] == [True, True]


def test_pictures_of_a_page_share_its_size(make_maps, monkeypatch):
    maps = make_maps(2, 20)
    monkeypatch.setattr(maps_view, "_PIXELS", 2 * 20 * 20)
    sizes = {share: len(pixels(maps_view.pictures(maps, share)["pictures"][0]["light"])) for share in (1, 2, 9)}
    assert sizes == {1: 20, 2: 10, 9: 5}
    assert maps_view.pictures(maps, 9)["notes"] == ["each dot is the largest of 4 x 4 tokens"]
