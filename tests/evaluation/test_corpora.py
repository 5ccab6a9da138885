"""Measures of a corpus: the model's vectors against transformers' own, resumed, in every export, and refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app
from mixlens.errors import Undefined, UnknownOption
from mixlens.evaluation import layers, windows
from mixlens.measure import probing
from mixlens.measure.corpus import anisotropy
from mixlens.measure.probing import mdl_compression, online_code
from mixlens.measure.statistics import permutation
from models.families import make
from models.words import tokenizer

ROWS = [
    {"text": "a deep film .", "label": "positive"},
    {"text": "not bad", "label": "negative"},
    {"text": "a very slow and bad film .", "label": "negative"},
    {"text": "meaningful and deep .", "label": "positive"},
    {"text": "good", "label": "positive"},
]
BOTH: Any = ["anisotropy", ("inner", "anisotropy", {"of": "transformed"}), "mdl_compression"]


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Probes that learn a little: how well they learn does not matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing, "_CHECKS", 3)
        yield


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder), dtype=torch.float64)


@pytest.fixture(scope="module")
def table(lens: mixlens.Lens, tmp_path_factory: pytest.TempPathFactory) -> mixlens.Table:
    return mixlens.evaluate(lens, ROWS, measures=BOTH, out=tmp_path_factory.mktemp("run"), resamples=50)


def hidden(lens: mixlens.Lens, text: str) -> list[np.ndarray]:
    """(token, dim) of the embeddings and of each layer, by transformers."""
    with torch.no_grad():
        out = lens.model(**lens.tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    return [h[0].numpy() for h in out.hidden_states]


def norms(lens: mixlens.Lens, text: str) -> list[np.ndarray]:
    """(token, dim) of each layer's first LayerNorm, by hooks."""
    seen: list[np.ndarray] = []
    hooks = [
        layer.attention.output.LayerNorm.register_forward_hook(lambda m, i, o: seen.append(o[0].numpy()))
        for layer in lens.model.bert.encoder.layer
    ]
    hidden(lens, text)
    for hook in hooks:
        hook.remove()
    return seen


def cosines(texts: list[np.ndarray]) -> float:
    """Mean cosine of all pairs of vectors of different texts, one by one."""
    units = [t / np.linalg.norm(t, axis=-1, keepdims=True) for t in texts]
    return float(
        np.mean([x @ y for i, a in enumerate(units) for j, b in enumerate(units) if i != j for x in a for y in b])
    )


def test_anisotropy_is_that_of_the_models_own_vectors(lens: mixlens.Lens, table: mixlens.Table) -> None:
    own = [norms(lens, row["text"]) for row in ROWS]
    for layer, row in enumerate(table.layers("anisotropy")):
        assert (row.layer, row.method, row.n, row.std, row.null) == (layer, "model", 5, None, 0.0)
        assert row.mean == pytest.approx(cosines([one[layer] for one in own]), abs=1e-6)
        assert row.low < row.mean < row.high  # type: ignore[operator]
        assert row.p_null == 2 / 2**5  # what a sign test of five texts can reach


def test_transformed_vectors_are_the_terms(lens: mixlens.Lens, table: mixlens.Table) -> None:
    """Padding, batch mates and terms of 0 count for nothing; the terms are made here from attention and values."""
    every: list[list[np.ndarray]] = []
    for text in (row["text"] for row in ROWS):
        (tokens,) = lens.subject.read([text]).require()

        def terms(block: Any) -> torch.Tensor:
            (whole,) = [vectors for _, _, vectors in block.terms("ln1").chunks()]
            return whole.flatten(2)

        (one,) = lens.subject.through([tokens], terms, square=False)
        every.append([layer.reshape(-1, lens.model.config.hidden_size).numpy() for layer in one.layers])
    for layer, row in enumerate(table.layers("inner")):
        assert row.mean == pytest.approx(cosines([one[layer] for one in every]), abs=1e-6)


def test_compression_is_that_of_the_read_out_token(lens: mixlens.Lens, table: mixlens.Table) -> None:
    labels = np.array([row["label"] for row in ROWS])
    own = [[h[0] for h in hidden(lens, row["text"])] for row in ROWS]
    assert [row.layer for row in table.layers("mdl_compression")] == [-1, 0, 1]
    for k, row in enumerate(table.layers("mdl_compression")):
        vectors = np.stack([one[k] for one in own])
        assert row.mean == pytest.approx(mdl_compression(vectors, labels), abs=1e-3)
        assert row.low <= row.mean <= row.high and row.null > 0  # type: ignore[operator]
        bits = online_code(vectors, labels).bits
        assert row.mean == pytest.approx(5 / bits.sum(), abs=1e-3)


def test_with_methods_and_their_correlation_over_layers(lens: mixlens.Lens) -> None:
    measures = ["special_rank", "anisotropy", "mdl_compression"]
    table = mixlens.evaluate(lens, ROWS, ["alti"], measures, layers="each", resamples=10)
    assert (table.measures, table.corpora) == (("special_rank",), ("anisotropy", "mdl_compression"))
    found = table.correlation("special_rank", "alti")
    ranks = np.array([row.mean for row in table.layers("special_rank", "alti")], dtype=np.float64)
    codes = np.array([row.mean for row in table.layers("mdl_compression")[1:]], dtype=np.float64)
    # equal ranks correlate with nothing: NaN
    np.testing.assert_equal(astuple(found), astuple(permutation(ranks, codes, statistic="spearman")))
    assert (found.n, found.exact) == (2, True)
    assert table.correlation("special_rank", "alti", "anisotropy").n == 2
    with pytest.raises(UnknownOption, match="no layers of 'special_rank', 'model' in this table"):
        table.layers("special_rank")
    plain = mixlens.evaluate(lens, ROWS, ["alti"], ["special_rank"], resamples=10)
    with pytest.raises(UnknownOption, match="ask for layers='each'"):
        plain.layers("special_rank", "alti")


def test_a_killed_run_ends_with_the_same_table(
    lens: mixlens.Lens, table: mixlens.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after every chunk of two texts, with the second torn."""
    monkeypatch.setattr(windows, "CHUNK", 2)
    whole = mixlens.evaluate(lens, ROWS, measures=BOTH, out=tmp_path / "whole", resamples=50)
    for stop in (2, 4):

        def progress(done: int, total: int | None, stop: int = stop) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            mixlens.evaluate(lens, ROWS, measures=BOTH, out=tmp_path / "run", resamples=50, progress=progress)
    results = tmp_path / "run" / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-40])
    again = mixlens.evaluate(lens, ROWS, measures=BOTH, out=tmp_path / "run", resamples=50)
    assert again.to_csv() == whole.to_csv()
    assert [r.mean for r in again] == pytest.approx([r.mean for r in table], abs=2e-3)  # other batches
    with pytest.raises(mixlens.errors.RunChanged, match=r"corpora: was .*\"inner\".*, now"):
        mixlens.evaluate(lens, ROWS, measures=["anisotropy", "mdl_compression"], out=tmp_path / "run", resamples=50)


def test_probes_are_trained_once_a_run(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    whole = probing.online_code

    def counted(*args: Any, **how: Any) -> Any:
        trained.append(1)
        return whole(*args, **how)

    monkeypatch.setattr(probing, "online_code", counted)

    def again(**how: Any) -> str:
        return mixlens.evaluate(lens, ROWS, measures=BOTH, out=tmp_path, **{"resamples": 50, **how}).to_csv()

    first, count = again(), len(trained)
    assert count == 2 * 3  # with the null; embeddings and two layers
    assert (again(), len(trained)) == (first, count)
    assert again(level=0.5) != first  # other intervals are worked out
    assert len(trained) == 2 * count
    for broken in ("{", "[1]", '{"a": 3}', '{"a": [1, 2]}'):
        (tmp_path / layers.SPREADS).write_text(broken)
        assert again() == first
    assert len(trained) == 6 * count


def test_exports_and_pictures(table: mixlens.Table, tmp_path: Path) -> None:
    lines = list(csv.DictReader(table.to_csv().splitlines()))
    assert [(line["measure"], line["layer"]) for line in lines] == [
        ("anisotropy", "0"), ("anisotropy", "1"), ("inner", "0"), ("inner", "1"),
        ("mdl_compression", "-1"), ("mdl_compression", "0"), ("mdl_compression", "1"),
    ]  # fmt: skip
    assert {line["std"] for line in lines} == {""}
    assert len(table.to_frame()) == 7
    table.to_parquet(tmp_path / "t.parquet")
    assert "embeddings" in str(table) and "0 methods" not in str(table)
    assert r"embeddings & - & - & " in table.to_latex()
    page = table.to_html()
    assert "embeddings" in page and "embeddings" in table._repr_html_()
    assert page.count("<img") == 3
    for measure in (None, "mdl_compression"):
        table.plot(tmp_path / "layers.svg", measure=measure)
    with pytest.raises(UnknownOption, match="has no picture of kind 'ranking'"):
        table.plot(kind="ranking", measure="anisotropy")
    with pytest.raises(UnknownOption, match="anisotropy is one number of all texts"):
        table.values("anisotropy", "model")
    with pytest.raises(Undefined, match="ranks no methods"):
        table.ranking("anisotropy")


def test_texts_without_a_label_are_counted(lens: mixlens.Lens) -> None:
    table = mixlens.evaluate(lens, [*ROWS, "bad film"], measures=["mdl_compression", "anisotropy"], resamples=5)
    row = table.row("mdl_compression", "model", 0)
    assert (row.n, row.n_errors, table.row("anisotropy", "model", 0).n) == (5, 1, 6)
    (line,) = [line for line in table.examples() if "errors" in line]
    assert "needs a label, example '5' has none; name its column" in line["errors"]["mdl_compression model"]


def test_what_is_undefined_has_no_number(lens: mixlens.Lens) -> None:
    """One class; one text."""
    one = [row for row in ROWS if row["label"] == "positive"]
    row = mixlens.evaluate(lens, one, measures=["mdl_compression"]).row("mdl_compression", "model", 0)
    assert (row.n, row.n_undefined, row.mean, row.low, row.null, row.p_null) == (0, 3, None, None, None, None)
    row = mixlens.evaluate(lens, one[:1], measures=["anisotropy"]).row("anisotropy", "model", 0)
    assert (row.n, row.n_undefined, row.mean) == (0, 1, None)
    none = mixlens.evaluate(lens, ["bad film"], measures=["mdl_compression"])
    assert none.row("mdl_compression", "model", 1).n_errors == 1


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        ({"methods": ["alti"]}, r"anisotropy looks at the model's vectors in every layer.* leave methods= out"),
        ({"layers": "each"}, "leave layers= out"),
        ({"target": "label"}, "target='label' would be ignored"),
        ({"measures": [("a", "anisotropy", {"of": "inputs"})]}, "expected of='outputs' or 'transformed', got 'inputs'"),
        ({"measures": ["anisotropy:alti"]}, "anisotropy has no reference"),
        ({"methods": [], "measures": ["aopc"]}, "expected at least one method and one measure"),
        ({"measures": []}, "expected at least one method and one measure"),
    ],
)
def test_what_would_be_ignored_is_refused(lens: mixlens.Lens, ask: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownOption, match=says):
        mixlens.evaluate(lens, ROWS, **{"measures": ["anisotropy"], **ask})


def test_of_a_causal_model_what_a_token_does_not_see_is_no_vector() -> None:
    causal = mixlens.load(make("gpt2", "causal", dtype=torch.float32))
    table = mixlens.evaluate(causal, [[7, 8, 9], [9, 5], [6, 7, 8, 9]], measures=[BOTH[1], "anisotropy"], resamples=5)
    kept = [line["kept"]["inner"] for line in table.examples()]
    assert sorted(one["n"][0] for one in kept) == [2 * 3 / 2, 3 * 4 / 2, 4 * 5 / 2]
    assert all(abs(row.mean) <= 1 for row in table)  # type: ignore[arg-type]


def test_the_label_of_an_agreement_example() -> None:
    """What the probe looks for is no word of the sentence: its column is named."""
    masked = mixlens.load(make("bert", "masked", dtype=torch.float32), tokenizer())
    rows = [
        {"text": f"w5 {t} w7", "target": t, "foil": f, "target_span": [3, 5], "cue": [[0, 2]], "number": n}
        for t, f, n in (("w6", "w8", "plural"), ("w8", "w6", "singular"), ("w6", "w9", "plural"))
    ]
    labelled = mixlens.task("agreement", label="number")
    table = mixlens.evaluate(masked, rows, ["alti"], ["cue_dot", "mdl_compression"], task=labelled, resamples=5)
    assert [line["kept"]["mdl_compression"]["y"] for line in table.examples()] == ["plural", "singular", "plural"]
    assert [line["target"] for line in table.examples()] == ["w6", "w8", "w6"]
    plain = mixlens.evaluate(masked, rows, ["alti"], ["cue_dot"], task="agreement", resamples=5)
    assert [line["label"] for line in plain.examples()] == ["w6", "w8", "w6"]
    assert "label" not in plain.manifest["task"]["fields"]


def test_heads_without_one_read_out_token_are_refused() -> None:
    from transformers import BertForQuestionAnswering

    reader = mixlens.load(BertForQuestionAnswering(make("bert").config).eval(), tokenizer())
    with pytest.raises(Undefined, match="probes the vector of the one token that speaks for a text"):
        mixlens.evaluate(reader, [("w5", "w6 w7")], measures=["mdl_compression"], task="question")


def test_a_model_without_a_head_needs_none(lens: mixlens.Lens) -> None:
    bare = mixlens.load(lens.model.base_model, lens.tokenizer)
    table = mixlens.evaluate(bare, ROWS, measures=["anisotropy", "mdl_compression"], resamples=5)
    whole = mixlens.evaluate(lens, ROWS, measures=["anisotropy", "mdl_compression"], resamples=5)
    assert [row.mean for row in table] == pytest.approx([row.mean for row in whole])


def test_command_line(tiny_bert_folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    words = ["evaluate", "--model", str(tiny_bert_folder), "--data", str(data), "--measures", "anisotropy"]
    words += [
        "--png",
        str(tmp_path / "layers.png"),
        "--csv",
        str(tmp_path / "t.csv"),
        "-o",
        "anisotropy.of=transformed",
    ]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "layers.png").stat().st_size > 1000
    lines = list(csv.DictReader((tmp_path / "t.csv").read_text("utf-8").splitlines()))
    assert [line["method"] for line in lines] == ["model", "model"]
    assert anisotropy(np.ones((2, 1)), np.array([1, 1])) == 1
