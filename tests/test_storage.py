"""Save and read: bit-exact, whole or not at all, every fault an error of one line."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

import mixlens
from mixlens import storage
from mixlens.capture.text import Tokens
from mixlens.errors import ResultFileError
from mixlens.evaluation.log import MANIFEST, RESULTS
from mixlens.evaluation.tabulate import CSV
from mixlens.measure.faithfulness import Faithfulness
from mixlens.results import Attribution, Comparison, LayerMaps
from mixlens.target import Target

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SOURCE = Tokens(
    ids=(2, 9, 4, 3),
    pieces=("[CLS]", "na", "##ïve", "[SEP]"),
    special=(True, False, False, True),
    text=("naïve",),
    spans=(None, (0, 0, 2), (0, 2, 5), None),
    inputs={"token_type_ids": (0, 0, 0, 0)},
    dropped=6,
)


def attribution(dtype=torch.float32, **more) -> Attribution:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, generator=generator, dtype=torch.float64).to(dtype)
    layers = torch.randn(3, 4, generator=generator, dtype=torch.float64).to(dtype)
    values = {"options": {"p": 2}, "meta": {"model": "m"}, "target": Target("pos", index=1, label="pos"), **more}
    return Attribution(SOURCE, scores, "alti", layers=layers, **values)


def maps(**more) -> LayerMaps:
    values = {"rows_sum_to_one": True, "windows": (None, 5, None), "causal": True, "aggregation": "rollout", **more}
    return LayerMaps(SOURCE, torch.rand(3, 4, 4), "attention", {}, {"model": "m"}, **values)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool((a.view(torch.uint8) == b.view(torch.uint8)).all())


@pytest.mark.parametrize("dtype", TYPES)
def test_an_attribution_comes_back_bit_exact(tmp_path, dtype):
    attr = attribution(dtype)
    path = attr.save(tmp_path / "a.result")
    back = mixlens.read(path)
    assert isinstance(back, Attribution)
    assert same(back.scores, attr.scores)
    assert same(back.layers, attr.layers)
    assert (back.source, back.method, back.options, back.meta, back.target) == (
        SOURCE,
        "alti",
        attr.options,
        attr.meta,
        attr.target,
    )


def test_special_numbers_keep_their_bits(tmp_path):
    scores = torch.tensor([-0.0, 5e-324, 1 / 3, 1.7976931348623157e308], dtype=torch.float64)
    back = mixlens.read(Attribution(SOURCE, scores, "x").save(tmp_path / "a"))
    assert same(back.scores, scores)


@pytest.mark.parametrize("heads", [None, 5])
def test_layer_maps_come_back(tmp_path, heads):
    before = maps()
    if heads:
        before = LayerMaps(SOURCE, torch.rand(3, heads, 4, 4), "attention")
    back = mixlens.read(before.save(tmp_path / "m"))
    assert same(back.scores, before.scores)
    assert back.heads == heads
    for name in ("rows_sum_to_one", "holds_residual", "aggregation", "windows", "causal", "signed"):
        assert getattr(back, name) == getattr(before, name), name


def comparison() -> Comparison:
    named = {"alti": attribution(), "0.scores": attribution(torch.float64, options={"p": float("inf")})}
    numbers = {"alti": Faithfulness(float("nan"), 0.25, 1 / 3, 0.5, 0.1)}
    return Comparison(named, {"norm": "not defined", "a": ""}, numbers, {"alti": maps()})


@pytest.mark.parametrize("whole", [True, False])
def test_a_comparison_comes_back(tmp_path, whole):
    found = comparison() if whole else Comparison({"alti": attribution()}, {})
    path = found.save(tmp_path / "c")
    back = mixlens.read(path)
    assert isinstance(back, Comparison)
    assert list(back.attributions) == list(found.attributions)  # their order is what was asked for
    assert (list(back.skipped.items()), list(back.maps)) == (list(found.skipped.items()), list(found.maps))
    for kind in ("attributions", "maps"):
        for name, one in getattr(found, kind).items():
            other = getattr(back, kind)[name]
            assert same(one.scores, other.scores)
            assert (one.source, one.method, one.options, one.meta) == (
                other.source,
                other.method,
                other.options,
                other.meta,
            )
    assert repr(back.faithfulness) == repr(found.faithfulness)  # NaN too
    assert back.to_dict() == found.to_dict()
    assert back.save(tmp_path / "d").read_bytes() == path.read_bytes()


def test_a_comparison_without_its_parts_is_damaged(tmp_path):
    path = comparison().save(tmp_path / "c")
    for change in ({"parts": []}, {"faithfulness": {"alti": {}}}, {"parts": header(path)["parts"] + [{"of": "maps"}]}):
        save_file({"0.scores": torch.rand(4)}, path, metadata={"mixlens": json.dumps({**header(path), **change})})
        with pytest.raises(ResultFileError, match="expected a whole result file, got a damaged one"):
            mixlens.read(path)
        comparison().save(path)


def test_tensors_that_share_memory_are_saved(tmp_path):
    layers = torch.rand(3, 4)
    back = mixlens.read(Attribution(SOURCE, layers[-1], "x", layers=layers).save(tmp_path / "a"))
    assert same(back.scores, layers[-1].clone())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["a", "tuple", "dict", "tensor", "target", "name", "float", ""]), inner)
        | st.dictionaries(st.integers(0, 3) | st.tuples(st.integers(0, 3)), inner, max_size=2)
    ),
    max_leaves=12,
)


def types(value):
    if isinstance(value, (list, tuple)):
        return type(value), [types(v) for v in value]
    if isinstance(value, dict):
        return dict, [(types(k), types(v)) for k, v in value.items()]
    return type(value)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_options_come_back_equal_and_of_the_same_type(value):
    back = storage._unpack(json.loads(json.dumps(storage._pack(value), allow_nan=False)))
    assert back == value
    assert types(back) == types(value)


def test_tensors_among_the_options_become_their_summary(tmp_path):
    mean = torch.tensor([[0.5, 1.5, 2.5]], dtype=torch.bfloat16)
    options = {"standardize": (mean, mean.float().numpy()), "at": np.float32(0.5), "f": len, "d": torch.float16}
    first = mixlens.read(attribution(options=options).save(tmp_path / "a")).options
    again = mixlens.read(attribution(options=options).save(tmp_path / "b")).options
    other = mixlens.read(attribution(options={"standardize": (mean + 1, 0)}).save(tmp_path / "c")).options
    assert first == again
    kept = first["standardize"][0]
    assert kept["tensor"] == [1, 3]
    assert kept["dtype"] == "bfloat16"
    assert len(kept["sha256"]) == 64
    assert kept["sha256"] != other["standardize"][0]["sha256"]
    assert (first["at"], first["f"], first["d"]) == (0.5, "builtins.len", "torch.float16")
    json.dumps(attribution(options=options).to_dict(), allow_nan=False)


def test_the_same_result_gives_the_same_bytes(tmp_path):
    a, b = attribution().save(tmp_path / "a"), attribution().save(tmp_path / "b")
    assert a.read_bytes() == b.read_bytes()


def header(path) -> dict:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["mixlens"])


def test_a_newer_format_is_refused(tmp_path):
    path = attribution().save(tmp_path / "a")
    data = {**header(path), "format": storage.VERSION + 1}
    save_file({"scores": torch.rand(4)}, path, metadata={"mixlens": json.dumps(data)})
    with pytest.raises(ResultFileError, match=r"format 3 or older, got format 4: .*from a newer mixlens: install that"):
        mixlens.read(path)


def damaged(path, how):
    if how == "missing":
        return path / "no such file"
    if how == "folder":
        return path
    file = path / "a"
    if how == "text":
        file.write_text("not a result")
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "weights":
        save_file({"scores": torch.rand(4)}, file)
    elif how == "truncated":
        attribution().save(file)
        file.write_bytes(file.read_bytes()[:-7])
    else:
        attribution().save(file)
        data = header(file)
        tensors = {"scores": torch.rand(4)}
        if how == "other length":
            tensors = {"scores": torch.rand(5)}
        elif how == "no scores":
            tensors = {"else": torch.rand(4)}
        elif how == "other kind":
            data["kind"] = "Tensor"
        elif how == "no format":
            del data["format"]
        elif how == "list":
            data = [1]
        save_file(tensors, file, metadata={"mixlens": "{" if how == "no json" else json.dumps(data)})
    return file


@pytest.mark.parametrize(
    "content", [b"", b"<!doctype html><p>a deep film", b"method,measure\nalti,1\n", b'{"a": {"b": 1}}']
)
def test_what_no_result_is_said_to_be(tmp_path, content):
    (tmp_path / "film.html").write_bytes(content)
    with pytest.raises(ResultFileError, match=r"not a mixlens result: .*film\.html; .* takes what \.save") as caught:
        mixlens.read(tmp_path / "film.html")
    assert "Safetensor" not in str(caught.value)


def test_a_run_of_evaluate_is_no_result(tmp_path):
    with pytest.raises(ResultFileError, match=r"got a folder, not a mixlens result: .* takes what \.save"):
        mixlens.read(tmp_path)
    for name in (MANIFEST, RESULTS, CSV):
        (tmp_path / name).write_text("example,method")
    for path in (tmp_path, tmp_path / CSV, tmp_path / RESULTS):
        with pytest.raises(ResultFileError, match=r"not a mixlens result: .*a run is there: mixlens\.read\(") as caught:
            mixlens.read(path)
        assert f"mixlens.read('{tmp_path}') has what came out of it once it is finished" in str(caught.value)
    assert mixlens.read(attribution().save(tmp_path / "a")).scores.numel()  # a result among them is one


HOW = ("missing", "folder", "text", "empty", "weights", "truncated", "other length", "no scores", "other kind")


@pytest.mark.parametrize("how", [*HOW, "no format", "list", "no json"])
def test_a_bad_file_is_an_error_of_one_line(tmp_path, how):
    path = damaged(tmp_path, how)
    with pytest.raises(ResultFileError) as caught:
        mixlens.read(path)
    message = str(caught.value)
    assert message.startswith("expected ")
    assert str(path) in message
    assert "\n" not in message


def test_a_missing_folder_and_a_folder_as_file_are_refused(tmp_path):
    with pytest.raises(ResultFileError, match=r"expected an existing folder .* create it first"):
        attribution().save(tmp_path / "none" / "a")
    with pytest.raises(ResultFileError, match="add a file name"):
        attribution().save(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="rights don't bind root")
def test_a_folder_without_rights_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ResultFileError, match="check rights and space"):
        attribution().save(tmp_path / "a")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = attribution().save(tmp_path / "a")
    before = path.read_bytes()

    def fail(tensors, name, metadata):
        name.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "save_file", fail)
    with pytest.raises(ResultFileError, match=r"No space left on device; check rights and space"):
        attribution(torch.float64).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_written_file_has_the_rights_that_the_umask_gives(tmp_path):
    old = os.umask(0o022)
    try:
        assert attribution().save(tmp_path / "a").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(old)


def test_plain_data_of_an_attribution():
    data = attribution(options={"t": (1, None)}, meta={"model": "m", "low": float("-inf")}).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert list(data) == [
        *("text", "tokens", "scores", "offsets", "special", "words", "target", "layers"),
        *("method", "options", "model", "meta"),
    ]
    assert data["text"] == "naïve"
    assert data["offsets"] == [None, [0, 2], [2, 5], None]
    assert [w["text"] for w in data["words"]] == ["[CLS]", "naïve", "[SEP]"]
    assert data["words"][1]["score"] == pytest.approx(data["scores"][1] + data["scores"][2])
    assert data["target"]["label"] == "pos"
    assert data["options"] == {"t": [1, None]}
    assert data["meta"] == {"model": "m", "low": "-inf"}
    assert data["model"] == "m"


def test_plain_data_without_offsets_has_no_words():
    data = Attribution(Tokens((5, 6), ("a", "b"), (False, False)), torch.rand(2), "x").to_dict()
    assert (data["text"], data["offsets"], data["words"], data["target"]) == (None, None, None, None)


def test_plain_data_of_layer_maps():
    data = maps().to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["aggregation"] == "rollout"
    assert np.shape(data["scores"]) == (3, 4, 4)
    assert data["windows"] == [None, 5, None]
