"""Streams of positions: what no text is goes through results, files and views without being asked for a text."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import product

import matplotlib
import pytest
import torch

import mixlens
from mixlens.capture.stream import Positions, Stream
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, ResultFileError, Undefined
from mixlens.results import Attribution, Comparison, LayerMaps, Results
from mixlens.target import Target
from mixlens.view.kit import terminal
from pages import still

TEXT = Tokens(
    ids=(2, 5, 6, 7, 3),
    pieces=("[CLS]", "a", "cat", "##s", "[SEP]"),
    special=(True, False, False, False, True),
    text=("a cats",),
    spans=(None, (0, 0, 1), (0, 2, 5), (0, 5, 6), None),
)
BOXES = Positions(
    "patch",
    labels=("[CLS]", *(f"r{r}c{c}" for r, c in product(range(2), range(3)))),
    marks=(True, *[False] * 6),
    places=(None, *((16 * c, 16 * r, 16 * c + 16, 16 * r + 16) for r, c in product(range(2), range(3)))),
    axes=("left", "top", "right", "bottom"),
)
SECONDS = Positions("frame", places=tuple((0.02 * i, 0.02 * i + 0.025) for i in range(6)), axes=("start", "end"))
KINDS = pytest.mark.parametrize("stream", [TEXT, BOXES, SECONDS], ids=["text", "boxes", "seconds"])
OTHERS = pytest.mark.parametrize("stream", [BOXES, SECONDS], ids=["boxes", "seconds"])


def random(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def attribution(stream: Stream) -> Attribution:
    meta, n = {"model": "m", "prediction": "cat", "probability": 0.75}, len(stream)
    return Attribution(stream, random(n), "alti", {}, meta, Target(label="cat"), random(3, n))


def maps(stream: Stream) -> LayerMaps:
    return LayerMaps(stream, random(3, len(stream), len(stream)).softmax(-1), "attention", rows_sum_to_one=True)


def across(queries: Stream, keys: Stream, **more) -> LayerMaps:
    scores = random(3, len(queries), len(keys)).softmax(-1)
    return LayerMaps(queries=queries, keys=keys, scores=scores, method="attention", rows_sum_to_one=True, **more)


def texts(figure) -> str:
    """All words of a figure, without the breaks of its lines."""
    return " ".join(" ".join(t.get_text() for t in figure.findobj(matplotlib.text.Text)).split())


# --- streams ---


def test_a_text_is_a_stream():
    assert isinstance(TEXT, Stream)
    assert (TEXT.n, len(TEXT), TEXT.unit, TEXT.units) == (5, 5, "token", "tokens")
    assert (TEXT.names, TEXT.places, TEXT.raw) == (TEXT.pieces, TEXT.spans, "a cats")
    assert TEXT.display == ("[CLS]", "a", "cat", "s", "[SEP]")
    assert (TEXT.excerpt(1, 3), TEXT.excerpt(0, 3), BOXES.excerpt(1, 3)) == ("a cats", None, None)
    assert TEXT.columns() == {"start": [None, 0, 2, 5, None], "end": [None, 1, 5, 6, None]}
    assert replace(TEXT, text=("a cat", "s")).columns()["segment"] == [None, 0, 0, 0, None]


def test_positions_have_names_marks_and_places():
    assert (BOXES.n, BOXES.units, BOXES.names[:2]) == (7, "patches", ("[CLS]", "r0c0"))
    assert SECONDS.names == tuple(f"frame {i}" for i in range(6))
    assert SECONDS.special == (False,) * 6
    assert (BOXES.raw, BOXES.offsets, BOXES.has_words, BOXES.dropped) == (None, None, False, 0)
    assert BOXES.columns()["right"] == [None, 16, 32, 48, 16, 32, 48]
    with pytest.raises(FrozenInstanceError):
        BOXES.n = 3


def test_a_length_that_a_pass_says_is_asked_for_behind_it():
    speech = Positions("frame", axes=("start", "end"), inputs={"input_features": torch.rand(80, 12)})
    assert speech.n is None
    for early in (len, lambda s: s.names, lambda s: s.special, lambda s: s.columns()):
        with pytest.raises(
            InputError, match=r"got one of frames that the model counts in its pass; .*with_length\(n\)"
        ):
            early(speech)
    known = speech.with_length(2, places=((0.0, 0.02), (0.02, 0.04)))
    assert (known.n, known.names, speech.n) == (2, ("frame 0", "frame 1"), None)
    assert known.with_length(2) is known
    assert TEXT.with_length(5) is TEXT
    for stream in (known, TEXT):
        with pytest.raises(InputError, match=rf"length of a stream of {len(stream)} .*, got 3"):
            stream.with_length(3)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"n": 3, "labels": ("a", "b")}, "expected 3 labels, one a patch, got 2"),
        ({"labels": ("a", "b"), "marks": (True,)}, "expected 2 marks, one a patch, got 1"),
        ({"places": ((0, 1),), "axes": ("left",)}, r"expected places of 1 numbers \('left',\), got \(0, 1\)"),
    ],
)
def test_positions_that_do_not_agree_are_refused(row, said):
    with pytest.raises(InputError, match=said):
        Positions("patch", **row)


# --- results of one stream ---


@KINDS
def test_an_attribution_is_shown_in_every_way(stream, tmp_path):
    attr = attribution(stream)
    assert (attr.tokens, attr.special) == (stream.names, stream.special)
    shown = [
        still(attr.to_html()),
        attr._repr_html_(),
        attr.to_latex(),
        str(attr),
        texts(attr.plot()),
        texts(attr.plot(kind="text")),
    ]
    name = stream.display[2]
    assert all(name in text for text in shown)
    assert repr(attr) == f"Attribution(alti, {len(stream)} {stream.units}, target=cat)"
    data = attr.to_dict()
    assert (data["tokens"], data["text"]) == (list(stream.names), stream.raw)
    frame = attr.to_frame()
    assert list(frame)[:2] == [stream.unit, "score"]
    assert set(stream.columns()) <= set(frame)


@OTHERS
def test_nothing_says_token_of_what_is_none(stream):
    attr, layers = attribution(stream), maps(stream)
    shown = [still(attr.to_html()), attr._repr_html_(), str(attr), texts(attr.plot())]
    shown += [still(layers.to_html()), layers._repr_html_(), terminal.as_text(layers.__rich__()), texts(layers.plot())]
    shown += [texts(layers.plot(row=1)), texts(layers.plot(kind="graph", row=1))]
    for text in shown:
        assert stream.unit in text or stream.names[1] in text
        assert "token" not in text.lower()


@OTHERS
def test_words_are_a_texts(stream):
    attr = attribution(stream)
    with pytest.raises(Undefined, match=rf"words are a text's, and this is a row of {stream.units}; read \.scores"):
        attr.words()
    assert (attr.text, attr.offsets, attr.to_dict()["words"]) == (None, None, None)
    assert list(attr.to_dict()["places"]) == list(stream.axes)


@KINDS
def test_maps_of_any_stream_aggregate_and_show(stream):
    whole = maps(stream)
    assert (whole.queries, whole.keys, whole.rectangular) == (stream, stream, False)
    rolled = whole.rollout()
    assert rolled.queries is stream
    assert stream.display[1] in texts(rolled.plot())
    flow = whole.flow(queries=[2])
    assert (flow.rows, flow.queries) == ((2,), stream)
    for shown in (texts(flow.plot()), still(flow.to_html()), terminal.as_text(flow.__rich__())):
        assert f"{stream.display[2]} ({stream.unit} 2)" in shown
    assert len(whole.to_frame()) == whole.scores.numel()


@KINDS
def test_results_of_any_stream_come_back(stream, tmp_path):
    attr, layers = attribution(stream), maps(stream)
    both = Comparison({"alti": attr}, {}, {}, {"alti": layers})
    for result in (attr, layers, both):
        back = mixlens.read(result.save(tmp_path / "a"))
        assert back.to_dict() == result.to_dict()
    back = mixlens.read(attr.save(tmp_path / "a"))
    assert (back.source, type(back.source)) == (stream, type(stream))
    assert torch.equal(back.scores, attr.scores)


def test_what_was_fed_is_kept_as_its_digest(tmp_path):
    fed = replace(BOXES, inputs={"pixel_values": torch.ones(3, 4, 4)})
    kept = mixlens.read(attribution(fed).save(tmp_path / "a")).source.inputs["pixel_values"]
    assert (kept["tensor"], kept["dtype"], len(kept["sha256"])) == ([3, 4, 4], "float32", 64)


def test_a_stream_that_files_do_not_know_is_refused(tmp_path):
    class Own(Positions):
        pass

    with pytest.raises(ResultFileError, match="a kind that files know, Tokens, Positions, Picture, Sound, got Own"):
        attribution(Own("patch", n=3)).save(tmp_path / "a")
    assert not (tmp_path / "a").exists()


@KINDS
def test_a_comparison_and_a_list_of_any_stream_are_shown(stream):
    both = Comparison({"alti": attribution(stream), "norm": attribution(stream)}, {}, {}, {"alti": maps(stream)})
    name = stream.display[2]
    shown = [still(both.to_html()), both._repr_html_(), both.to_latex(), str(both), texts(both.plot()), both.to_csv()]
    assert all(name in text for text in shown)
    assert both.plot(kind="maps").axes
    rows = both.to_dicts()
    assert [k for k in rows[1] if k in stream.axes] == list(stream.axes)
    assert rows[1][stream.axes[-1]] == stream.places[1][-1]
    assert set(stream.columns()) <= set(both.to_frame())
    assert Results([attribution(stream)]).to_html().count(name)


# --- maps from one stream into another ---


def test_maps_may_be_from_one_stream_into_another():
    cross = across(TEXT, BOXES)
    assert (cross.queries, cross.keys, cross.source, cross.rectangular) == (TEXT, BOXES, BOXES, True)
    assert cross.scores.shape == (3, 5, 7)
    assert torch.equal(cross.row(-1), cross.scores[:, 4])
    assert cross.mean().queries is TEXT and cross.layer(0).keys is BOXES
    assert torch.equal(cross.mean().scores[1], cross.scores[:2].mean(0))
    assert replace(cross, method="x").queries is TEXT
    part = replace(cross, scores=cross.scores[:, [3]], rows=(3,))
    assert torch.equal(part.row(3), cross.row(3))
    assert cross.normalized().rectangular


def test_one_text_read_twice_is_two_streams():
    """A decoder that repeats its encoder's text attends across all the same."""
    assert across(TEXT, replace(TEXT)).rectangular
    assert not across(TEXT, TEXT).rectangular


@pytest.mark.parametrize(("queries", "keys"), [(TEXT, BOXES), (BOXES, TEXT), (TEXT, SECONDS)])
def test_both_axes_have_their_own_names(queries, keys):
    cross = across(queries, keys)
    figure = cross.plot()
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == list(queries.display)
    assert [t.get_text() for t in figure.axes[2].get_xticklabels()] == list(keys.display)
    assert f"row: the {queries.unit} that takes, column: the {keys.unit} it takes from" in texts(figure)
    page = cross.to_html()
    assert all(name in page for name in (*queries.display, *keys.display))
    assert f"Row: the {queries.unit} that takes. Column: the {keys.unit} it takes from." in page
    row = cross.plot(row=1)
    assert f"what flows into {queries.display[1]} ({queries.unit} 1)" in texts(row)
    assert [t.get_text() for t in row.axes[0].get_xticklabels()] == list(keys.display)
    printed = terminal.as_text(cross.__rich__())
    assert keys.display[1] in printed
    assert cross._repr_html_()
    assert cross.to_frame()["key"].max() == len(keys) - 1


def test_both_streams_come_back(tmp_path):
    cross = across(TEXT, SECONDS)
    back = mixlens.read(cross.save(tmp_path / "a"))
    assert (back.queries, back.keys, back.rectangular) == (TEXT, SECONDS, True)
    assert torch.equal(back.scores, cross.scores)
    data = cross.to_dict()
    assert back.to_dict() == data
    assert (data["tokens"], data["query_tokens"]) == (list(SECONDS.names), list(TEXT.pieces))
    assert (data["query_special"], data["query_text"]) == (list(TEXT.special), "a cats")
    assert across(BOXES, TEXT).to_dict()["query_places"]["left"] == [None, 0, 16, 32, 0, 16, 32]


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        (lambda m: m.rollout(), "rollout goes through all layers"),
        (lambda m: m.flow(), "flow goes through all layers"),
        (lambda m: m.mean(receptive_field=True), "receptive_field=True goes through all layers"),
    ],
)
def test_what_goes_through_all_layers_needs_both_streams_own_maps(aggregate, said):
    with pytest.raises(Undefined, match=rf"{said}.*needs the maps of either stream to itself too; use mean\(\)"):
        aggregate(across(TEXT, BOXES))


def test_a_graph_is_of_one_stream():
    with pytest.raises(Undefined, match=r"maps of a stream into itself for a graph.*draw kind='heatmap'"):
        across(TEXT, BOXES).plot(kind="graph")


def test_maps_of_another_shape_than_their_streams_are_refused():
    with pytest.raises(InputError, match=r"expected scores \(\.\.\., 5, 7\), query by key, .* got \(3, 7, 5\)"):
        LayerMaps(queries=TEXT, keys=BOXES, scores=random(3, 7, 5), method="attention")
    with pytest.raises(TypeError, match="LayerMaps needs a stream"):
        LayerMaps(scores=random(3, 7, 5), method="attention")


def test_rows_may_still_be_called_queries():
    part = LayerMaps(TEXT, random(3, 2, 5), "attention", queries=(4, 1))
    assert (part.rows, part.queries) == ((4, 1), TEXT)
    assert part.to_dict()["queries"] == [4, 1]
