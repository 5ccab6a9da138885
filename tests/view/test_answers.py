"""Targets as text, and what the model answers: the same words in every format."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import pytest
import torch

from mixlens.measure.faithfulness import Faithfulness
from mixlens.results import Comparison
from mixlens.target import Target
from mixlens.view.kit import caption, terminal
from mixlens.view.kit.fonts import drawable
from mixlens.view.kit.spelling import spelled

SAID = {"prediction": "positive", "probability": 0.75, "target_probability": 0.75}


def texts(figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("ĠParis", "␣Paris"),
        ("▁Paris", "␣Paris"),
        (" Paris", "␣Paris"),
        ("Paris", "Paris"),
        ("CafÃ©", "Café"),
        ("Ġä½ł", "␣你"),
        ("ä½", "ä½"),  # two bytes of three
        ("ĠĠ", "␣␣"),
        ("▁", "␣"),
        ("Ċ", "↵"),
        ("##ing", "##ing"),
        ("very positive", "very positive"),
        ("Très bien", "Très bien"),
        ("Łódź", "Łódź"),
        ("中文", "中文"),
        (3, "3"),
    ],
)
def test_labels_as_text(label, shown):
    assert spelled(label) == shown


@pytest.mark.parametrize(("piece", "foil"), [("ĠParis", " Rome"), ("▁Paris", "▁Rome")])
def test_no_mark_of_the_tokenizer_is_anywhere(film, piece, foil):
    said = {"prediction": piece, "probability": 0.75, "target_probability": 0.75, "foil_probability": 0.125}
    attr = replace(film, target=Target(piece, foil=foil, index=7, label=piece), meta={**film.meta, **said})
    both = Comparison({"globenc": attr}, {})
    shown = [attr.to_html(), attr._repr_html_(), attr.to_latex(), str(attr), *texts(attr.plot())]
    shown += [both.to_html(), both._repr_html_(), both.to_latex(), str(both), *texts(both.plot())]
    assert not [text for text in shown if piece[0] in text or foil in text]
    for text in (attr.to_html(), str(attr), both.to_html(), str(both)):
        assert "␣Paris rather than ␣Rome" in text
    assert "for “<bdi>␣Paris</bdi>” rather than “<bdi>␣Rome</bdi>”?" in attr.to_html()


@pytest.mark.parametrize(
    ("target", "meta", "line"),
    [
        (Target(label="positive"), SAID, "model's answer: positive, probability 0.750"),
        (
            Target(label="negative"),
            {**SAID, "target_probability": 0.25},
            "model's answer: positive, probability 0.750; negative 0.250",
        ),
        (
            Target(label="positive", foil="negative"),
            {**SAID, "foil_probability": 0.25},
            "model's answer: positive, probability 0.750; negative 0.250",
        ),
        (
            Target(label="neutral", foil="positive"),
            {**SAID, "target_probability": 1e-5, "foil_probability": 0.75},
            "model's answer: positive, probability 0.750; neutral 1.00e-05",
        ),
        (Target(label="positive"), {**SAID, "probability": 0.99999, "target_probability": 0.99999}, None),
        (Target(label="output"), {"output": 2.5}, "model's output: 2.500"),
        (Target(label="positive"), {}, ""),
        (None, {}, ""),
    ],
)
def test_the_answer_and_its_probability(film, target, meta, line):
    attr = replace(film, target=target, meta={**film.meta, **meta})
    line = "model's answer: positive, probability over 0.999" if line is None else line
    assert (caption.says(attr) or "") == line
    head, both = line[:1].upper() + line[1:], Comparison({"globenc": attr}, {})
    page = attr.to_html().replace("&#39;", "'")
    assert head in page[: page.index('class="paper"')]
    assert line in attr._repr_html_().replace("&#39;", "'") and line in both._repr_html_().replace("&#39;", "'")
    assert line in str(attr) and line in str(both)
    assert line in attr.to_latex() and line in both.to_latex()
    assert head in both.to_html().replace("&#39;", "'")
    if line:
        assert str(attr).splitlines()[1] == line


def test_an_extracted_answer_is_named_by_its_words(film):
    meta = {**film.meta, "answer": (2, 5), "probability": 0.5}
    attr = replace(film, target=Target(position=(2, 5), label="tokens 2 to 5"), meta=meta)
    assert caption.goal(attr) == "deep and meaningful"
    assert caption.says(attr) == "model's answer: deep and meaningful, probability 0.500"
    blind = replace(attr, source=replace(attr.source, spans=None))
    assert caption.goal(blind) == "tokens 2 to 5"


def test_a_figure_says_what_its_faithfulness_means(film):
    rating = Faithfulness(0.8125, 0.5, 0.25, 0.625, 1 / 21)
    drawn = texts(Comparison({"globenc": film}, {}, {"globenc": rating}).plot())
    assert "globenc (0.81)" in drawn
    title = " ".join(" ".join(drawn).split())
    assert "faithful, 0: by chance, 1: the best order found" in title
    assert not any("by chance" in text for text in texts(Comparison({"globenc": film}, {}).plot()))


def test_names_that_steer_leave_an_svg_whole(nasty, make_maps, tmp_path):
    from xml.etree import ElementTree

    name = "a\x1b[31m\x00$x_1^2$"
    maps = replace(make_maps(2, 5), method=name)
    found = Comparison({name: replace(nasty, target=Target(label=name))}, {}, {}, {name: maps})
    for kind in ("words", "maps"):
        found.plot(tmp_path / f"{kind}.svg", kind=kind)
        text = "".join(ElementTree.parse(tmp_path / f"{kind}.svg").getroot().itertext())
        assert drawable(name) in text
    for text in (found.to_html(), found._repr_html_(), found.to_latex(), str(found)):
        assert "\x1b" not in text and "\x00" not in text


def test_probabilities_that_are_no_numbers_are_left_alone(film):
    meta = {**film.meta, "probability": "high", "prediction": 3}
    assert caption.says(replace(film, meta=meta)) is None
    assert torch.equal(replace(film, meta=meta).scores, film.scores)


def test_warnings_stand_at_the_head_of_everything(film, maps):
    warned = {"warnings": ("mind <b>this</b>", "mind that")}
    attr, maps = (replace(r, meta={**r.meta, **warned}) for r in (film, maps))
    both = Comparison({"globenc": attr, "alti": attr}, {})
    for page in (attr.to_html(), maps.to_html(), both.to_html()):
        head = page[page.index("<h1>") : page.index("<h2>") if "<h2>" in page else None]
        assert 'class="warning">Warning: mind &lt;b&gt;this&lt;/b&gt;</p>' in head
        assert page.count("Warning: mind that") == 1
    for fragment in (attr._repr_html_(), maps._repr_html_(), both._repr_html_()):
        assert "Warning: mind &lt;b&gt;this&lt;/b&gt;</div>" in fragment
    for text in (str(attr), terminal.as_text(maps.__rich__()), str(both)):
        assert text.count("warning: mind that") == 1
