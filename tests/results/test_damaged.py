"""Result files that are not what was saved: whatever is wrong with one, an error of our tree that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, save_file

import mixlens
from mixlens.capture.stream import Positions
from mixlens.capture.text import Tokens
from mixlens.errors import ResultFileError
from mixlens.measure.faithfulness import Faithfulness
from mixlens.results import Attribution, Comparison, LayerMaps, Trace
from mixlens.schema import check
from mixlens.target import Target

SOURCE = Tokens(
    ids=(2, 9, 4, 3),
    pieces=("[CLS]", "na", "##ïve", "[SEP]"),
    special=(True, False, False, True),
    text=("naïve",),
    spans=(None, (0, 0, 2), (0, 2, 5), None),
    inputs={"token_type_ids": (0, 0, 0, 0)},
)


def attribution() -> Attribution:
    target = Target("pos", index=1, label="pos", position=(1, 2), of="prob")
    return Attribution(SOURCE, torch.rand(4), "alti", {"p": 2}, {"model": "m\ud800"}, target, torch.rand(3, 4))


def maps() -> LayerMaps:
    return LayerMaps(SOURCE, torch.rand(3, 1, 4), "norm", queries=(2,), windows=(None, 5, 3), depth=3, causal=True)


def comparison() -> Comparison:
    return Comparison({"alti": attribution()}, {"a": "b"}, {"alti": Faithfulness(*[0.1] * 5)}, {"alti": maps()})


def streams() -> LayerMaps:
    boxes = Positions("patch", labels=("a", "b"), places=((0, 1), None), axes=("x", "y"), inputs={"p": torch.ones(2)})
    return LayerMaps(queries=SOURCE, keys=boxes, scores=torch.rand(3, 4, 2), method="attention")


def trace() -> Trace:
    answer = Tokens((5, 6), ("a", "b"), (False, False), ("ab",), ((0, 0, 1), (0, 1, 2)))
    targets = (Target("a", index=5, label="a", foil="c", foil_index=7), Target("b", index=6, label="b"))
    said = ({"prediction": "a", "probability": 0.5, "target_probability": 0.5}, {"foil_probability": 0.25})
    meta = {"model": "m", "documents": {"one": (1, 3)}}
    return Trace(SOURCE, answer, torch.rand(2, 6).tril(3), "norm", {"p": 2}, meta, targets, said)


MADE: dict[str, Callable[[], Any]] = {
    "attribution": attribution,
    "maps": maps,
    "streams": streams,
    "comparison": comparison,
    "trace": trace,
}


def header(path: Path) -> Any:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["mixlens"])


def rewrite(path: Path, data: Any, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, path, metadata={"mixlens": data if isinstance(data, str) else json.dumps(data)})


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value stands, of all values in nested data."""
    yield at
    for key, inner in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(inner, (*at, key))


def changed(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[at[0]] = changed(copy[at[0]], at[1:], value)
    return copy


WRONG = [None, True, -1, 2**70, 1.5, "x", [], {}, [[1]], {"tuple": [1]}, {"dict": [[[1], 2]]}, {"float": "x"}, {"a": 1}]
FREE = {"options", "meta", "what", "foil"}  # these may hold more than one kind of value


@pytest.mark.parametrize(
    "kind", ["attribution", "maps", "streams", "trace", pytest.param("comparison", marks=pytest.mark.slow)]
)
def test_no_wrong_value_comes_through(kind: str, tmp_path: Path) -> None:
    path = MADE[kind]().save(tmp_path / "a")
    data, tensors, good = header(path), load_file(path), vars(mixlens.read(path))
    del data["sha256"]  # as in files of older versions, or the checksum alone would find it
    assert vars(mixlens.read(path)).keys() == good.keys()
    kept = 0
    spots = list(places(data))
    for number, at in enumerate(spots):
        for wrong in WRONG[number % 6 :: 6]:  # each place meets a sixth of them
            rewrite(path, changed(data, at, wrong), tensors)
            try:
                found = mixlens.read(path)
            except ResultFileError as error:
                assert "\n" not in str(error)
                continue
            check(found, type(found), "it")
            kept += 1
            if FREE.isdisjoint(at) and at:
                str(found), found.to_dict()  # what is read can be used
    assert kept < len(spots) * len(WRONG) / 24


@pytest.mark.parametrize("kind", MADE)
def test_every_other_byte_is_found(kind: str, tmp_path: Path) -> None:
    path = MADE[kind]().save(tmp_path / "a")
    whole = path.read_bytes()
    for at in [*range(8, len(whole), 23), *range(len(whole) - 12, len(whole))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ResultFileError):
            mixlens.read(path)
    path.write_bytes(whole)
    assert mixlens.read(path)


def test_the_checksum_is_of_the_numbers_too(tmp_path: Path) -> None:
    path = attribution().save(tmp_path / "a")
    data, tensors = header(path), load(path.read_bytes())  # (not lent by the file, which is rewritten)
    rewrite(path, data, {**tensors, "scores": tensors["scores"] + 1})
    with pytest.raises(ResultFileError, match="its checksum is not that of what it holds"):
        mixlens.read(path)
    rewrite(path, {k: v for k, v in data.items() if k != "sha256"}, tensors)
    assert torch.equal(mixlens.read(path).scores, tensors["scores"])  # an older file has none


def test_files_of_before_are_read(tmp_path: Path) -> None:
    """As version 0.1 wrote them, key by key."""
    data = {
        "format": 1,
        "kind": "Attribution",
        "source": {
            **{"ids": [5, 6], "pieces": ["a", "b"], "special": [False, False], "text": ["ab"], "dropped": 0},
            **{"spans": [[0, 0, 1], [0, 1, 2]], "groups": None, "inputs": {"token_type_ids": [0, 0]}},
        },
        "fields": {"method": "alti", "options": {}, "meta": {"readout": {"tuple": [0, 1]}}, "target": None},
    }
    rewrite(tmp_path / "a", data, {"scores": torch.rand(2)})
    found = mixlens.read(tmp_path / "a")
    assert (found.tokens, found.meta, found.source.inputs) == (
        ("a", "b"),
        {"readout": (0, 1)},
        {"token_type_ids": (0, 0)},
    )


@pytest.mark.parametrize(
    "text",
    ["5", '"x"', "null", "[]", "[" * 100_000, '{"format":' * 100_000, '{"format": true}', '{"format": "1"}', "1e999"],
)
def test_a_header_that_is_none(text: str, tmp_path: Path) -> None:
    path = attribution().save(tmp_path / "a")
    rewrite(path, text, load_file(path))
    with pytest.raises(ResultFileError, match="expected a whole result file, got a damaged one"):
        mixlens.read(path)


def test_values_that_are_nested_deeply(tmp_path: Path) -> None:
    path = attribution().save(tmp_path / "a")
    data, tensors = header(path), load_file(path)
    del data["sha256"]
    data["fields"]["options"] = "DEEP"
    deep = '{"a": ' * 5000 + "1" + "}" * 5000
    rewrite(path, json.dumps(data).replace('"DEEP"', deep), tensors)
    with pytest.raises(ResultFileError, match="nested too deep"):
        mixlens.read(path)
    value: Any = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(ResultFileError, match="nested too deep"):
        Attribution(SOURCE, torch.rand(4), "alti", {"p": value}).save(tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("scores", "layers"),
    [
        (torch.tensor(1.0), None),
        (torch.rand(1, 4), None),
        (torch.rand(0), None),
        (torch.ones(4, dtype=torch.int64), None),
        (torch.ones(4, dtype=torch.bool), None),
        (torch.rand(4), torch.rand(4)),
        (torch.rand(4), torch.rand(3, 5)),
    ],
)
def test_numbers_that_do_not_fit(scores: torch.Tensor, layers: torch.Tensor | None, tmp_path: Path) -> None:
    path = attribution().save(tmp_path / "a")
    data = {k: v for k, v in header(path).items() if k != "sha256"}
    rewrite(path, data, {"scores": scores, **({} if layers is None else {"layers": layers})})
    with pytest.raises(ResultFileError, match="expected a whole result file, got a damaged one"):
        mixlens.read(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pieces", ["a"]),
        ("special", []),
        ("groups", [1]),
        ("inputs", {"token_type_ids": [0]}),
        ("spans", [None, [0, 0, 99], None, None]),
        ("spans", [None, [1, 0, 1], None, None]),
        ("spans", [None, [0, 3, 1], None, None]),
    ],
)
def test_tokens_that_do_not_fit(field: str, value: Any, tmp_path: Path) -> None:
    path = attribution().save(tmp_path / "a")
    data = {k: v for k, v in header(path).items() if k != "sha256"}
    rewrite(path, changed(data, ("source", field), value), load_file(path))
    with pytest.raises(ResultFileError, match="expected a whole result file, got a damaged one"):
        mixlens.read(path)


def test_a_shape_is_checked_all_the_way_down() -> None:
    @dataclass(frozen=True)
    class Leaf:
        number: float
        word: Literal["a", "b"] | None = None

    good = [
        (1, int),
        (1, float),
        ((1, 2), tuple[int, ...]),
        ({"a": (1,)}, dict[str, tuple[int, ...]]),
        ([1], list[int]),
    ]
    good += [(None, int | None), (Leaf(1.0, "a"), Leaf), (object(), Any), (("a", 1), tuple[str, int])]
    for value, kind in good:
        check(value, kind, "it")
    bad = [
        (True, int),
        (True, float),
        ("1", int),
        ((1, "a"), tuple[int, ...]),
        ({1: 2}, dict[str, int]),
        ([""], list[int]),
    ]
    bad += [("a", int | None), (("a",), tuple[str, int])]
    for value, kind in bad:
        with pytest.raises(ValueError, match=r"^(a key of )?it"):
            check(value, kind, "it")
    with pytest.raises(ValueError, match=r"it\.word is 'c', not 'a' or 'b'"):
        check(Leaf(1.0, "c"), Leaf | str, "it")  # type: ignore[arg-type]
