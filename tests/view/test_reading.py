"""What a reader sees of a result, whatever the format."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mixlens.capture.text import Tokens
from mixlens.escape import visible
from mixlens.results import Attribution
from mixlens.target import Target
from mixlens.view.kit import arrays, caption, spelling, words


def joined(attr) -> str:
    return "".join(p.before + p.text for p in words.parts(attr))


def test_words_and_what_stands_between_them(film):
    assert joined(film) == "[CLS] a deep and meaningful film. [SEP]"
    part = words.parts(film)[4]
    assert (part.text, part.score) == ("meaningful", pytest.approx(0.34))
    assert part.detail == "meaningful: 0.340 (meaning 0.220 + ful 0.120)"


def test_the_second_text_of_a_pair_opens(pair):
    shown = words.parts(pair)
    assert [p.text for p in shown if p.opens] == ["he"]
    assert joined(pair) == "[CLS] a man runs [SEP] he moves [SEP]"


def test_ids_show_the_tokenizers_own_names(ids):
    assert joined(ids) == "Ġdeep Ġfilm s"


def test_line_ends_and_uncovered_characters_stay():
    source = Tokens((1, 2), ("a", "b"), (False, False), ("a\n\u200b b",), ((0, 0, 1), (0, 4, 5)))
    assert joined(Attribution(source, torch.rand(2), "x")) == "a\n\u200b b"


def test_special_tokens_don_t_pale_the_words(film):
    scores = film.scores.clone()
    scores[0] = 50.0
    assert words.scale(words.parts(replace(film, scores=scores))).top == pytest.approx(0.34)


def test_a_text_of_special_tokens_only_still_has_a_scale():
    source = Tokens((1,), ("[CLS]",), (True,))
    assert words.scale(words.parts(Attribution(source, torch.ones(1), "x"))).top == 1.0


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\x1b[31m", "a␛[31m"),
        ("\u202eab", "\ufffdab"),
        ("\ud800", "\ufffd"),
        ("\x00\x7f\x85", "␀␡\ufffd"),
        ("é\n", "é\n"),
    ],
)
def test_characters_that_steer_are_shown_as_signs(text, seen):
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("target", "goal", "words"),
    [
        (Target(label="positive", index=1, of="logit"), "positive", "positive (logit)"),
        (Target(what=3), "3", "3"),
        (Target(), "prediction", "prediction"),
        (Target(label="are", foil="is", of="log_odds", position=-1), "are rather than is", None),
        (Target(label="span", position=(2, 5)), "span (deep and meaningful)", "span (deep and meaningful)"),
    ],
)
def test_targets_in_words(film, target, goal, words):
    attr = replace(film, target=target)
    assert caption.goal(attr) == goal
    assert caption.target(attr) == (words or "are rather than is (log odds, position -1)")


def test_provenance_names_everything(film):
    rows = dict(caption.provenance(replace(film, source=replace(film.source, dropped=4))))
    assert rows["method"] == "globenc"
    assert rows["options"] == "normalize=yes"
    assert rows["self check"] == "3.2e-07"
    assert rows["model"] == "org/tiny_model"
    assert rows["truncated"].startswith("4 tokens")


def test_the_readout_row_or_the_mean(make_maps):
    maps = make_maps(3, 7, heads=2)
    rows, name = arrays.readout(maps)
    assert torch.allclose(torch.from_numpy(rows).float(), maps.scores.mean(1)[:, 0])
    assert name == "what flows into [CLS] (token 0), head mean"
    rows, name = arrays.readout(replace(maps, meta={"readout": (1, 2)}))
    assert torch.allclose(torch.from_numpy(rows).float(), maps.scores.mean(1)[:, 1:3].mean(1))
    assert "w0 (token 1) and w1 (token 2)" in name
    rows, name = arrays.readout(replace(maps, meta={"readout": "mean"}))
    assert torch.allclose(torch.from_numpy(rows).float(), maps.scores.mean((1, 2)))
    assert name == "mean over all query rows, head mean"


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.31234, "0.312"), (-1.2e-5, "-1.20e-05"), (1234.5, "1234"), (3e7, "3.00e+07")]
)
def test_numbers_have_three_digits(value, shown):
    assert spelling.number(value) == shown
