"""The colour scale: zero is white, size is darkness, text can be read on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.view.kit import colors

SCORE = st.floats(-1, 1)


@given(score=SCORE, signed=st.booleans(), dark=st.booleans())
def test_the_text_on_every_colour_can_be_read(score, signed, dark):
    scale = colors.Scale(1.0, signed)
    ink = {"000000": (0, 0, 0), "ffffff": (255, 255, 255)}[scale.ink(score, dark)]
    a, b = sorted(map(colors._luminance, (scale.rgb(score, dark), ink)))
    assert (b + 0.05) / (a + 0.05) >= 4.5


@given(a=SCORE, b=SCORE)
def test_a_larger_size_is_darker_on_both_arms(a, b):
    low, high = sorted((abs(a), abs(b)))
    for sign in (1, -1):
        shades = [colors._luminance(colors.Scale(1.0, True).rgb(sign * s)) for s in (low, high)]
        assert shades[0] >= shades[1]


def test_the_scale_ends_at_the_largest_size():
    assert colors.scale([0.2, 0.5]) == colors.Scale(0.5, False)
    assert colors.scale([0.2, -0.5]) == colors.Scale(0.5, True)
    assert colors.scale([]) == colors.Scale(0.0, False)


def test_zero_is_white_and_signs_have_hues():
    scale = colors.scale([1.0, -1.0])
    assert scale.hex(0.0) == "ffffff"
    red, _, blue = scale.rgb(1.0)
    assert red > blue
    red, _, blue = scale.rgb(-1.0)
    assert red < blue


@pytest.mark.parametrize("score", [0.0, 3.0, float("nan")])
def test_a_scale_of_zeros_is_white(score):
    assert colors.scale([0.0, 0.0]).hex(score) == "ffffff"


def test_legend_and_figure_colours_are_the_same_scale():
    assert colors.scale([2.0]).steps(3) == [0.0, 1.0, 2.0]
    assert colors.scale([-2.0]).steps(3) == [-2.0, 0.0, 2.0]
    assert colors.stops(False)[0] == (0.0, "#ffffff")
    place, color = colors.stops(True)[-1]
    assert (place, color) == (1.0, "#" + colors.scale([-1.0]).hex(1.0))
    assert color == "#" + colors.strong(1.0)
