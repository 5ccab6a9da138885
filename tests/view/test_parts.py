"""Maps of which not all rows or layers were computed: drawn under their own names and numbers."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from mixlens.errors import Undefined
from mixlens.view.kit import arrays, terminal


@pytest.fixture
def whole(make_maps):
    return make_maps(4, 7)


@pytest.fixture
def one_row(whole):
    """Row 3 of layers 2 and 4 (from 1)."""
    return replace(whole, scores=whole.scores[[1, 3], 3:4], queries=(3,), layer_numbers=(1, 3), depth=4)


@pytest.fixture
def two_rows(whole):
    return replace(whole, scores=whole.scores[:, [5, 2]], queries=(5, 2))


def texts(figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]


def test_one_row_is_the_picture_of_that_row(whole, one_row):
    figure = one_row.plot()
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(image, whole.scores[[1, 3], 3])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["2", "4"]
    assert any(arrays.row_name(whole, 3) in text for text in texts(figure))
    assert texts(one_row.plot(row=3)) == texts(figure)


def test_some_rows_are_a_grid_of_those_rows(whole, two_rows):
    figure = two_rows.plot()
    labels = arrays.labels(whole)
    for layer, axes in enumerate(figure.axes[:4]):
        np.testing.assert_allclose(axes.images[0].get_array(), whole.scores[layer, [5, 2]])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == [labels[5], labels[2]]
    row = two_rows.plot(row=2).axes[0].images[0].get_array()
    np.testing.assert_allclose(row, whole.scores[:, 2])


def test_some_layers_keep_their_numbers(whole):
    part = replace(whole, scores=whole.scores[[3, 0]], layer_numbers=(3, 0), depth=4)
    assert {"layer 4", "layer 1"} <= set(texts(part.plot()))
    assert "layer 2" not in texts(part.plot())
    assert "layer 4" in part.to_html()
    assert ">layer 2<" not in part.to_html()


def test_pages_and_the_terminal_show_the_row_that_is_there(one_row, two_rows):
    name = arrays.row_name(one_row, 3)
    for shown in (terminal.as_text(one_row.__rich__()), one_row.to_html(), one_row._repr_html_()):
        assert name in shown
    assert "layers 2, 4 across" in terminal.as_text(one_row.__rich__())
    assert "mean over the computed query rows" in terminal.as_text(two_rows.__rich__())


@pytest.mark.parametrize("name", ["one_row", "two_rows"])
def test_a_graph_of_a_part_is_refused(name, request):
    with pytest.raises(Undefined, match=r"all rows and layers for a graph.*draw kind='heatmap'"):
        request.getfixturevalue(name).plot(kind="graph")
