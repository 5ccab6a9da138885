"""Results as tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from io import StringIO

import pytest
import torch

from mixlens.errors import MissingExtra

pd = pytest.importorskip("pandas")


def test_a_row_a_token(film):
    table = film.to_frame()
    assert list(table.columns) == ["token", "score", "start", "end", "special"]
    assert table.token.tolist() == list(film.tokens)
    assert table.score.tolist() == film.scores.tolist()
    assert table.special.tolist() == list(film.special)
    assert table.start.isna().tolist() == list(film.special)
    assert table.start.tolist()[1:3] == [0, 2]
    assert table.attrs == {"method": "globenc", "model": "org/tiny_model", "target": "positive (logit)"}
    assert film.to_pandas().equals(table)


def test_the_same_as_csv(film, pair, tmp_path):
    for attr in (film, pair):
        read = pd.read_csv(StringIO(attr.to_csv(tmp_path / "a.csv")))
        table = attr.to_frame()
        assert list(read) == list(table) and read.token.tolist() == list(attr.tokens)
        assert [float(line.split(",")[1]) for line in attr.to_csv().splitlines()[1:]] == attr.scores.tolist()
        assert read.start.fillna(-1).tolist() == table.start.fillna(-1).tolist()
        assert (tmp_path / "a.csv").read_text("utf-8") == attr.to_csv()


def test_a_pair_says_which_text(pair):
    assert pair.to_frame().segment.tolist()[1:7] == [0, 0, 0, pd.NA, 1, 1]


def test_ids_have_no_places(ids):
    assert ids.to_frame().start.isna().all()


@pytest.mark.parametrize("heads", [None, 4])
def test_a_row_a_score_of_maps(make_maps, heads):
    maps = make_maps(3, 5, heads=heads)
    table = maps.to_frame()
    names = ["layer", "query", "key"] if heads is None else ["layer", "head", "query", "key"]
    assert list(table.columns) == [*names, "score"]
    assert len(table) == maps.scores.numel()
    for place in ([2, 1, 4], [0, 4, 3]):
        at = place if heads is None else [place[0], 3, *place[1:]]
        assert table.set_index(names).score[tuple(at)] == maps.scores[tuple(at)].item()


def test_maps_as_csv_name_both_tokens(make_maps, tmp_path):
    maps, here = make_maps(3, 5), {"queries": (0, 4), "layer_numbers": (1, 2), "depth": 3}
    maps = replace(maps, scores=maps.scores[1:, [0, 4]], **here)
    read = pd.read_csv(StringIO(maps.to_csv(tmp_path / "m.csv")), keep_default_na=False)
    assert list(read) == ["layer", "query", "key", "query_token", "key_token", "score"]
    assert read[["layer", "query", "key"]].to_numpy().tolist() == maps.to_frame().iloc[:, :3].to_numpy().tolist()
    assert read.query_token.tolist() == [maps.tokens[i] for i in read["query"]]
    assert read.key_token.tolist() == [maps.tokens[i] for i in read["key"]]
    lines = maps.to_csv().splitlines()[1:]
    assert [float(line.rpartition(",")[2]) for line in lines] == maps.scores.flatten().tolist()  # to the last bit
    assert "head" in make_maps(3, 5, heads=2).to_csv().partition("\n")[0].split(",")


def test_a_part_of_the_maps_keeps_its_numbers(make_maps):
    maps = make_maps(3, 5)
    part = replace(maps, scores=maps.scores[1:, [0, 4]], queries=(0, 4), layer_numbers=(1, 2), depth=3)
    table = part.to_frame().set_index(["layer", "query", "key"]).score
    assert table[2, 4, 3] == maps.scores[2, 4, 3].item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types_that_numpy_does_not_know(film, dtype):
    scores = film.scores.to(dtype)
    assert replace(film, scores=scores).to_frame().score.tolist() == scores.tolist()


def test_without_pandas_the_error_holds_the_install_line(film, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'pip install "\.\[pandas\]" in the clone'):
        film.to_frame()
