"""What a terminal shows."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from mixlens.capture.text import Tokens
from mixlens.results import Attribution
from mixlens.view.kit import colors, terminal


def colored(renderable) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=100)
    console.print(renderable)
    return console.file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def background(score, scale) -> str:
    return "48;2;{};{};{}m".format(*scale.rgb(score))


def test_the_words_the_bars_and_where_they_come_from(film):
    text = str(film)
    assert "globenc · target positive (logit) · model org/tiny_model" in text
    assert "[CLS] a deep and meaningful film. [SEP]" in text
    lines = text.splitlines()
    bars = [line for line in lines if "█" in line]
    assert [line.split()[0] for line in bars[:3]] == ["meaningful", "deep", "film"]
    assert "0.340" in bars[0]
    assert "\x1b" not in text


def test_words_stand_on_their_colours(film, signed):
    shown = colored(film)
    assert background(0.34, colors.scale([0.34])) + "meaningful" in shown
    shown = colored(signed)
    scale = colors.scale([0.61, -0.61])
    assert background(0.61, scale) + "not" in shown
    assert background(-0.42, scale) + "bad" in shown
    red, _, blue = scale.rgb(-0.42)
    assert blue > red


def test_special_tokens_are_dim_and_without_a_colour(film):
    assert "38;2;118;118;118;48;2;255;255;255m[CLS]" in colored(film)
    assert "special tokens hold 41 % of the scores (largest: [CLS] 0.310) and are not coloured" in flat(str(film))


def test_bars_of_signed_scores_go_to_both_sides(signed):
    lines = {line.split()[0]: line for line in str(signed).splitlines() if "│" in line}
    assert lines["not"].index("│") < lines["not"].index("█")
    assert lines["bad"].index("█") < lines["bad"].index("│")
    assert lines["not"].index("│") == lines["bad"].index("│")


def test_markup_and_control_characters_are_inert(nasty):
    text = str(nasty)
    assert "[red]bold[/red]" in text
    assert "</script><img src=x onerror=alert(1)>" in text
    assert "\x1b" not in text
    assert "\x1b[31m" not in colored(nasty).replace("\x1b[31m\x1b", "")
    assert "␛[31m" in text


def test_a_pair_is_two_lines(pair):
    lines = str(pair).splitlines()
    assert lines[1].strip() == "[CLS] a man runs [SEP]"
    assert lines[2].strip() == "he moves [SEP]"


def test_a_long_text_is_cut_in_the_terminal_and_says_so(make):
    words = [f"w{i}" for i in range(700)]
    scores = torch.zeros(702)
    scores[690] = 1.0
    text = str(Attribution(make(" ".join(words), *words), scores, "x"))
    assert "the first 600 of 702 words; to_html() shows all" in flat(text)
    assert "w689 1.000" in flat(text)


def test_truncation_is_told(film):
    assert "3 tokens were cut off, as asked" in flat(str(replace(film, source=replace(film.source, dropped=3))))


def test_blank_tokens_and_zero_scores():
    source = Tokens((1, 2), ("▁", "[red]"), (False, False))
    text = str(Attribution(source, torch.zeros(2), "x"))
    assert "[red]" in text


def test_maps_with_numbers(maps):
    text = terminal.as_text(maps.__rich__())
    assert "what flows into [CLS] (token 0)" in text
    row = next(line for line in text.splitlines() if line.startswith("w0"))
    shown = [float(v) for v in row.split()[1:]]
    assert shown == pytest.approx(maps.scores[:, 0, 1].tolist(), abs=0.006)


def test_many_layers_and_tokens_as_shades(make_maps):
    text = terminal.as_text(make_maps(20, 60).__rich__())
    assert "the 40 of 60 tokens with the largest scores, in reading order" in flat(text)
    assert "█" in text
    assert max(map(len, text.splitlines())) <= 100


def test_large_scores_are_percent(make_maps):
    maps = make_maps(3, 7)
    text = terminal.as_text(replace(maps, scores=maps.scores * 500).__rich__())
    assert "percent of the largest score" in flat(text)
    assert "100%" in text
