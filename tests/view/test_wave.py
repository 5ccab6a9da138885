"""A sound with its scores: its wave on a page and in a figure, its words in colours, its maps by word."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from models import sounds
from pages import still


@pytest.fixture(scope="module")
def attr():
    return sounds.lens("wav2vec2-classes").attribute(sounds.spoken(), method="saliency")


def test_the_page_holds_the_wave_and_the_words(attr, tmp_path):
    page = attr.to_html(tmp_path / "it.html")
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)[:1]
    drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))), dtype=float)
    assert drawn.shape == (150, 960, 3)
    text = still(page)
    assert all(word in text for word in ("one", "two")) and "0.03 s" in text


def test_the_word_with_the_largest_score_has_the_strongest_ground(attr):
    page = attr.to_html()
    data = re.findall(r'src="data:image/png;base64,([^"]+)"', page)[0]
    drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))), dtype=float)
    colour = drawn.max(2) - drawn.min(2)
    strength, scores = [], []
    for word in attr.words():
        if not word.special:
            left, right = (round(960 * t / 0.5) for t in (word.start + 0.02, word.end - 0.02))
            strength.append(np.median(colour[:3, left:right]))
            scores.append(word.score)
    assert np.argmax(strength) == np.argmax(scores) and np.argmin(strength) == np.argmin(scores)
    assert colour[:3, :30].max() == 0  # a pause


def test_figures_the_notebook_s_piece_and_the_terminal(attr, tmp_path):
    attr.plot(tmp_path / "it.png")
    with Image.open(tmp_path / "it.png") as drawn:
        assert drawn.size[0] > 900
    attr.plot(tmp_path / "bars.png", kind="bar")
    attr.plot(tmp_path / "text.png", kind="text")
    assert "two" in attr._repr_html_() and "two" in str(attr) and "two" in attr.to_latex()
    assert [row["text"] for row in attr.to_dict()["words"]] == ["…", "one", "…", "two", "one", "…"]
    assert list(attr.to_frame().columns) == ["frame", "score", "start", "end", "special"]


def test_maps_are_drawn_by_word_where_words_are_known():
    maps = sounds.lens("wav2vec2-classes").mixing(sounds.spoken(), method="alti")
    text = still(maps.to_html())
    assert "two" in text and "0.05 s" not in text
    assert maps.plot().axes
    plain = sounds.lens("wav2vec2-classes").mixing(sounds.sound(), method="alti")
    assert "0.03 s" in still(plain.to_html())
