"""Figures: the right kind of file, the tokens in it, nothing global."""

from __future__ import annotations

import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from mixlens.capture.text import Tokens
from mixlens.errors import ResultFileError, UnknownOption
from mixlens.results import Attribution
from mixlens.view.kit import colors, style
from mixlens.view.kit.arrays import pooled
from mixlens.view.kit.fonts import drawable

MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}
ALL = ("film", "signed", "pair", "ids", "nasty")


def texts(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]


def svg_text(path) -> str:
    return " ".join(ElementTree.parse(path).getroot().itertext())


@pytest.mark.parametrize("ending", MAGIC)
@pytest.mark.parametrize("kind", ["bar", "text"])
def test_the_ending_says_the_format(film, tmp_path, ending, kind):
    path = tmp_path / f"f.{ending}"
    assert isinstance(film.plot(path, kind=kind), Figure)
    assert path.read_bytes().startswith(MAGIC[ending])


@pytest.mark.parametrize("more", [{}, {"row": 2}, {"row": "max"}, {"kind": "graph"}, {"kind": "graph", "row": -1}])
@pytest.mark.parametrize("heads", [None, 2])
def test_maps_are_drawn(make_maps, tmp_path, more, heads):
    path = tmp_path / "m.svg"
    assert isinstance(make_maps(3, 7, heads=heads).plot(path, **more), Figure)
    assert path.read_bytes().startswith(MAGIC["svg"])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", ["bar", "text"])
def test_an_svg_holds_the_words_as_text(name, kind, request, tmp_path):
    attr = request.getfixturevalue(name)
    whole = name == "nasty"  # whose characters are what a format may warn of; the others in two formats of three
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ending in MAGIC if whole else ("svg", "png" if kind == "bar" else "pdf"):
            attr.plot(tmp_path / f"f.{ending}", kind=kind)
    text = svg_text(tmp_path / "f.svg")
    expected = {"film": "film", "signed": "slow", "pair": "moves", "ids": "Ġdeep", "nasty": "$x_1^2$"}[name]
    assert expected in text
    assert not ElementTree.parse(tmp_path / "f.svg").getroot().findall(".//{http://www.w3.org/2000/svg}script")


def test_formulas_are_not_read(nasty):
    figure = nasty.plot()
    assert {"$x_1^2$", "\\input{x}"} <= set(texts(figure))
    assert all(
        not t.get_parse_math() for t in figure.findobj(matplotlib.text.Text) if t.get_visible() and "$" in t.get_text()
    )


def test_a_character_without_a_glyph_is_a_box():
    assert drawable("a\U0010fffdb") == "a□b"
    assert drawable("a\ufe0fb") in ("ab", "a\ufe0fb")
    assert drawable("\u200d") != ""


def test_bars_have_the_scores_and_their_colours(signed):
    bars = signed.plot().axes[0].patches
    assert [b.get_width() for b in bars] == pytest.approx(signed.scores.tolist())
    hues = [matplotlib.colors.to_hex(b.get_facecolor()) for b in bars]
    assert hues[1] == "#" + colors.strong(1)
    assert hues[3] == "#" + colors.strong(-1)
    assert hues[0] == hues[-1] == "#" + colors.SPECIAL


def test_the_row_picture_has_layer_1_at_the_bottom(maps):
    axes = maps.plot(row=2).axes[0]
    image = axes.images[0]
    assert image.origin == "lower"
    assert np.allclose(image.get_array(), maps.row(2))
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1", "2", "3"]
    assert [t.get_text() for t in axes.get_xticklabels()] == list(maps.display)


def test_the_grid_has_a_panel_a_layer_on_one_scale(maps):
    panels = [a for a in maps.plot().axes if a.get_title().startswith("layer")]
    assert [a.get_title() for a in panels] == ["layer 1", "layer 2", "layer 3"]
    for panel, scores in zip(panels, maps.scores, strict=True):
        assert np.allclose(panel.images[0].get_array(), scores)
    assert len({panel.images[0].norm.vmax for panel in panels}) == 1


def test_heads_are_columns_and_layers_rows(make_maps):
    maps = make_maps(3, 7, heads=5)
    axes = maps.plot().axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == [f"head {h}" for h in range(1, 6)]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["layer 1", "layer 2", "layer 3"]
    sheet = axes.images[0].get_array().filled(np.nan)
    assert np.allclose(sheet[8:15, 16:23], maps.scores[1, 2])


def test_the_graph_draws_weights_into_their_tokens(make_maps):
    maps = make_maps(2, 5)
    scores = torch.zeros(2, 5, 5)
    scores[1, 3, 1] = 0.7  # layer 2: token 1 goes into token 3
    lines = replace(maps, scores=scores).plot(kind="graph").axes[0].collections[0]
    assert np.array_equal(lines.get_segments(), [[[1, 1], [3, 2]]])
    one = maps.plot(kind="graph", row=3).axes[0].collections[0]
    assert {segment[1][0] for segment in np.array(one.get_segments())} == {3}


@pytest.mark.parametrize("kind", ["heatmap", "graph"])
def test_signed_maps_have_two_hues_around_white(make_maps, kind):
    maps = make_maps(2, 5)
    figure = replace(maps, scores=maps.scores - 0.3).plot(kind=kind)
    if kind == "heatmap":
        norm = figure.axes[0].images[0].norm
        assert norm.vmin == -norm.vmax
    else:
        assert len(np.unique(figure.axes[0].collections[0].get_color()[:, :3], axis=0)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "n", "heads"), [(1, 2, None), (2, 170, None), (26, 5, None), (2, 70, 3), (1, 2, 1), (3, 2, 40)]
)
def test_all_sizes_are_drawn_without_a_warning(make_maps, tmp_path, layers, n, heads):
    maps = make_maps(layers, n, heads=heads)
    for more in ({}, {"row": 0}, {"kind": "graph"}):
        if not (more and max(layers, heads or 0) > 20):
            maps.plot(tmp_path / "m.png", **more)
            assert (tmp_path / "m.png").stat().st_size < 3e6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bar", "text"])
@pytest.mark.parametrize("n", [1, 300])
def test_short_and_long_texts_are_drawn(make, tmp_path, kind, n):
    words = ["word" * 60] if n == 1 else [f"w{i}" for i in range(n)]
    attr = Attribution(make(" ".join(words), *words, special=False), torch.zeros(n), "x")
    attr.plot(tmp_path / "f.png", kind=kind)


def test_pooling_keeps_the_largest_size_and_its_sign():
    scores = np.zeros((2, 5, 7))
    scores[1, 4, 6], scores[1, 0, 1] = -3.0, 2.0
    out, k = pooled(scores, 4)
    assert (k, out.shape) == (2, (2, 3, 4))
    assert out[1, 2, 3] == -3.0
    assert out[1, 0, 0] == 2.0
    assert pooled(scores, 7)[1] == 1


def test_unknown_endings_kinds_and_rows_are_refused(film, maps, tmp_path):
    with pytest.raises(UnknownOption, match=r"ends in \.png, \.svg or \.pdf, got .*f\.jpg"):
        film.plot(tmp_path / "f.jpg")
    with pytest.raises(UnknownOption, match="got 'bars'; did you mean 'bar'"):
        film.plot(kind="bars")
    with pytest.raises(UnknownOption, match="known are: graph, heatmap"):
        maps.plot(kind="x")
    with pytest.raises(UnknownOption, match="expected a row of -7 to 6"):
        maps.plot(row=7)
    with pytest.raises(ResultFileError, match="create it first"):
        film.plot(tmp_path / "none" / "f.png")
    assert not list(tmp_path.iterdir())


def test_the_same_result_gives_the_same_file(film, tmp_path):
    for ending in MAGIC:
        a, b = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
        film.plot(a)
        film.plot(b)
        assert a.read_bytes() == b.read_bytes(), ending


def test_nothing_global_is_left_behind(film, tmp_path):
    before = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    film.plot(tmp_path / "f.svg")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded


@pytest.mark.slow
def test_threads_can_draw_at_once(film, maps, tmp_path):
    def draw(i: int) -> int:
        (film if i % 2 else maps).plot(tmp_path / f"{i}.svg")
        return len(svg_text(tmp_path / f"{i}.svg"))

    with ThreadPoolExecutor(4) as pool:
        sizes = list(pool.map(draw, range(8)))
    assert len(set(sizes)) == 2


def test_blank_and_odd_labels_are_drawn(tmp_path):
    source = Tokens((1, 2, 3), ("▁", "\n", ""), (False,) * 3)
    for kind in ("bar", "text"):
        Attribution(source, torch.tensor([0.5, -0.5, 0.0]), "x").plot(tmp_path / "f.png", kind=kind)


# ---- the look


def shown(figure: Figure) -> list[matplotlib.text.Text]:
    """The texts that are drawn: those of ticks outside of their axis are not."""
    drawn = []
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            drawn += [tick.label1 for tick in axis.get_major_ticks() if min(limits) <= tick.get_loc() <= max(limits)]
            drawn.append(axis.label)
        drawn += [*axes.texts, axes.title]
    named = figure._suptitle
    return [text for text in (*drawn, *([named] if named else [])) if text.get_text()]


def sizes(figure: Figure) -> list[float]:
    figure.draw_without_rendering()
    return [text.get_fontsize() for text in shown(figure)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda film, maps, **look: film.plot(**look),
        lambda film, maps, **look: film.plot(kind="text", **look),
        lambda film, maps, **look: maps.plot(**look),
        lambda film, maps, **look: maps.plot(row=0, **look),
        lambda film, maps, **look: maps.plot(kind="graph", **look),
    ],
    ids=["bar", "text", "maps", "row", "graph"],
)
def test_a_figure_has_the_look_that_is_asked_for(film, maps, draw):
    usual = draw(film, maps)
    figure = draw(film, maps, size=(3.3, 2.8), font="DejaVu Serif", fontsize=5, title="my title")
    assert figure.get_size_inches().tolist() == [3.3, 2.8]
    assert max(sizes(figure)) == pytest.approx(max(sizes(usual)) / 2)
    named = {film.method, maps.method}
    assert "my title" in texts(figure) and not any(name in text for text in texts(figure) for name in named)
    assert {text.get_fontfamily()[0] for text in shown(figure)} == {"DejaVu Serif"}
    assert not any(film.method in text for text in texts(draw(film, maps, title="")))
    with matplotlib.rc_context({"font.size": 5, "font.family": "DejaVu Serif"}):
        followed = draw(film, maps)
    assert max(sizes(followed)) == pytest.approx(max(sizes(usual)) / 2)
    assert "DejaVu Serif" in {text.get_fontfamily()[0] for text in shown(followed)}
    assert sizes(draw(film, maps)) == sizes(usual)  # nothing of it stays


def test_every_label_is_inside_of_a_small_figure(maps, film):
    """Labels are thinned out, not cut."""
    small = (maps.plot(size=(3.3, 2.6), fontsize=6), film.plot(size=(2.5, 1.6)), film.plot(size=(3, 2), fontsize=14))
    for figure in small:
        figure.draw_without_rendering()
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert box.x0 >= -0.02 and box.x1 <= width + 0.02 and box.y0 >= -0.02 and box.y1 <= height + 0.02
        assert len(figure.axes[0].get_yticks()) >= 2


def test_colours_of_a_caller(film, signed, maps, tmp_path):
    image = maps.plot(cmap="viridis").axes[0].images[0]
    assert image.get_cmap().name == "viridis"
    warm, cool = (matplotlib.colormaps["PuOr"](share) for share in (0.9, 0.1))
    bars = {tuple(np.round(bar.get_facecolor(), 2)) for bar in signed.plot(cmap="PuOr").axes[0].patches}
    assert {tuple(np.round(warm, 2)), tuple(np.round(cool, 2))} <= bars
    patches = film.plot(kind="text", cmap="viridis").axes[0].patches
    assert to_hex(matplotlib.colormaps["viridis"](1.0)) in {to_hex(patch.get_facecolor()) for patch in patches}
    film.plot(tmp_path / "small.png", dpi=50)
    film.plot(tmp_path / "large.png", dpi=100)
    with Image.open(tmp_path / "small.png") as small, Image.open(tmp_path / "large.png") as large:
        assert large.size == (2 * small.width, 2 * small.height)


def test_axes_of_a_caller(film, maps):
    figure = Figure(figsize=(7, 3))
    left, right = figure.subplots(1, 2)
    assert maps.layer(-1).plot(ax=left, title="maps") is figure and film.plot(ax=right, title="$a") is figure
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("maps", "$a")
    assert left.images and len(right.patches) == len(film.tokens) and figure.get_suptitle() == ""
    assert type(figure) is Figure  # the caller's, as it was
    figure.draw_without_rendering()


def test_tokens_are_no_tex(film, maps):
    with matplotlib.rc_context({"text.usetex": True}):
        ax = Figure().subplots()
        ax.set_xlabel("the caller's")
        film.plot(ax=ax, title="a_$")
        drawn = [film.plot(), film.plot(kind="text"), maps.plot(), maps.plot(kind="graph")]
        for text in [text for figure in drawn for text in figure.findobj(matplotlib.text.Text)]:
            assert not text.get_usetex()
        seen = [text for text in ax.findobj(matplotlib.text.Text) if text.get_visible()]
        written = [text for text in seen if text.get_text() in ("a_$", *film.display)]
        assert len(written) > 2 and not any(text.get_usetex() for text in written)


def test_axes_of_a_subfigure(film, maps):
    figure = Figure(figsize=(7, 3))
    left, right = figure.subfigures(1, 2)
    assert maps.layer(-1).plot(ax=left.subplots()) is left and film.plot(ax=right.subplots()) is right
    figure.draw_without_rendering()


def test_the_smallest_letters_are_drawn(film, maps, tmp_path):
    for plot in (film.plot, maps.plot):
        plot(tmp_path / "small.png", fontsize=3, dpi=30)


def test_axes_that_hold_no_figure_are_refused(film, maps):
    figure = Figure()
    removed, polar = figure.add_subplot(), figure.add_subplot(projection="polar")
    removed.remove()
    for result in (film, maps.layer(-1)):
        with pytest.raises(UnknownOption, match="Axes of a figure, got some that were removed from theirs"):
            result.plot(ax=removed)
        with pytest.raises(UnknownOption, match="Axes with an x and a y axis, got polar ones; add a plain subplot"):
            result.plot(ax=polar)
        with pytest.raises(UnknownOption, match="Axes with linear scales, got linear and log"):
            result.plot(ax=Figure().subplots(subplot_kw={"xscale": "log"}))


WRONG = [
    ({"sise": (1, 2)}, "plot has no option 'sise'; did you mean 'size'?"),
    ({"size": 3}, r"expected size=\(width, height\), inches of 0.5 to 100, got 3"),
    ({"size": (0, 3)}, "inches of 0.5 to 100"),
    ({"dpi": "high"}, "expected dpi= a number of 30 to 2400, got 'high'"),
    ({"fontsize": 0}, "expected fontsize= a number of 3 to 100, got 0"),
    ({"font": "No Such Font"}, "or serif, sans-serif or monospace, which always are; got 'No Such Font'"),
    ({"cmap": "virdis"}, "got 'virdis'; did you mean 'viridis'"),
    ({"title": 3}, "expected title= a str, got 3"),
    ({"ax": 1}, "expected ax= Axes of matplotlib, got 1"),
]


@pytest.mark.parametrize(("look", "says"), WRONG, ids=lambda value: str(value)[:30])
def test_a_look_that_cannot_be_is_refused(film, maps, look, says):
    for result in (film, maps):
        with pytest.raises(UnknownOption, match=says):
            result.plot(**look)


def test_of_many_families_whole_names_are_listed():
    installed = {f"Aaaa {i:02}" for i in range(60)}
    said = style._near("Times New Roman", installed)
    assert re.fullmatch(r"; known are: Aaaa 00, .*Aaaa \d\d and \d+ more", said)
    listed, rest = said.count("Aaaa"), int(said.split()[-2])
    assert listed + rest == 60
    assert "did you mean 'Aaaa" in style._near("Aaaa 61", installed)


def test_what_would_be_ignored_is_refused(film, maps, tmp_path):
    ax = Figure().subplots()
    with pytest.raises(UnknownOption, match="expected ax= or size=, got both"):
        film.plot(ax=ax, size=(1, 2))
    with pytest.raises(UnknownOption, match="expected path= or ax=, got both"):
        film.plot(tmp_path / "a.png", ax=ax)
    with pytest.raises(UnknownOption, match=r"for figures of one Axes, this one has \d layers \(maps.layer"):
        maps.plot(ax=ax)
    with pytest.raises(UnknownOption, match="this one has a page of its own"):
        film.plot(kind="text", ax=ax)
    assert not (tmp_path / "a.png").exists()


def test_the_style_for_papers_is_one():
    import matplotlib.style

    with matplotlib.style.context("mixlens.view.paper"):
        assert matplotlib.rcParams["font.size"] == 8 and matplotlib.rcParams["pdf.fonttype"] == 42
