"""What a run puts in its columns, against the numbers worked out one text at a time."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import mixlens
from evaluation.alone import TEXTS, curve, probability, scores
from mixlens.attribute import ATTRIBUTIONS, Preset
from mixlens.attribute.calls import attributions
from mixlens.errors import DataError, Undefined, UnknownMethod, UnknownOption
from mixlens.evaluation import explain, windows
from mixlens.target import Target
from models.families import make


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder), dtype=torch.float64)  # no limit below hangs on how a machine rounds


def test_correlations(lens: mixlens.Lens) -> None:
    table = mixlens.evaluate(lens, TEXTS, ["alti", "attcat"], ["spearman", "kendall_tau:grad_l2", "pearson"])
    for i, text in enumerate(TEXTS):
        for method in ("alti", "attcat"):
            own, ref = scores(lens, text, method), scores(lens, text, "saliency")
            assert table.values("spearman", method)[i] == pytest.approx(stats.spearmanr(own, ref).statistic, abs=1e-6)
            assert table.values("pearson", method)[i] == pytest.approx(stats.pearsonr(own, ref).statistic, abs=1e-5)
            other = stats.kendalltau(own, scores(lens, text, "grad_l2")).statistic
            assert table.values("kendall_tau", method)[i] == pytest.approx(other, abs=1e-6)
    row = table.row("spearman", "alti")
    values = table.values("spearman", "alti")
    assert (row.n, row.n_undefined, row.n_errors) == (4, 0, 0)
    assert row.mean == pytest.approx(values.mean())
    assert row.std == pytest.approx(values.std())
    assert row.low <= row.mean <= row.high  # type: ignore[operator]
    assert row.null == pytest.approx(table.values("spearman", "random").mean())


def test_curves_with_deletion_and_padding(lens: mixlens.Lens) -> None:
    measures = ["aopc", "log_odds", ("masked", "log_odds", {"mask_pad": True}), ("mask", "aopc", {"replace": "mask"})]
    table = mixlens.evaluate(lens, TEXTS[:2], ["alti"], measures)

    def deleted(ids: list[int], gone: list[int], label: int) -> float:
        return probability(lens, [t for i, t in enumerate(ids) if i not in gone], label)

    def padded(ids: list[int], gone: list[int], label: int) -> float:
        return probability(lens, [0 if i in gone else t for i, t in enumerate(ids)], label)

    def unseen(ids: list[int], gone: list[int], label: int) -> float:
        changed = [0 if i in gone else t for i, t in enumerate(ids)]
        return probability(lens, changed, label, [int(i not in gone) for i in range(len(ids))])

    def masked(ids: list[int], gone: list[int], label: int) -> float:
        return probability(lens, [4 if i in gone else t for i, t in enumerate(ids)], label)

    for i, text in enumerate(TEXTS[:2]):
        c = curve(lens, text, "alti", deleted)
        assert table.values("aopc", "alti")[i] == pytest.approx((c[0] - c).mean(), abs=1e-6)
        assert table.curve("aopc", "alti")[i] == pytest.approx(np.array([c[0], *c]), abs=1e-6)
        c = curve(lens, text, "alti", padded)
        assert table.values("log_odds", "alti")[i] == pytest.approx(np.log(c / c[0]).mean(), abs=1e-5)
        c = curve(lens, text, "alti", unseen)
        assert table.values("masked", "alti")[i] == pytest.approx(np.log(c / c[0]).mean(), abs=1e-5)
        c = curve(lens, text, "alti", masked)
        assert table.values("mask", "alti")[i] == pytest.approx((c[0] - c).mean(), abs=1e-6)


def test_gold_labels(lens: mixlens.Lens) -> None:
    rows = [{"text": t, "label": i % 2, "id": f"t{i}"} for i, t in enumerate(TEXTS)]
    table = mixlens.evaluate(lens, rows, ["attcat"], ["spearman", "aopc"], target="label")
    for i, text in enumerate(TEXTS):
        own, ref = (scores(lens, text, m, Target(i % 2)) for m in ("attcat", "saliency"))
        assert table.values("spearman", "attcat")[i] == pytest.approx(stats.spearmanr(own, ref).statistic, abs=1e-6)
        ids = list(lens.attribute(text, "random").source.ids)
        assert table.curve("aopc", "attcat")[i, 0] == pytest.approx(probability(lens, ids, i % 2), abs=1e-6)
    lines = list(table.examples())
    assert {line["id"]: line["target"] for line in lines} == {
        f"t{i}": ("negative", "positive")[i % 2] for i in range(4)
    }
    assert {line["label"] for line in lines} == {0, 1}


@pytest.mark.parametrize("deep", ["each", "upto"])
def test_layers(deep: str, lens: mixlens.Lens) -> None:
    methods = ["globenc", "saliency", "attcat", "integrated_gradients", "attention", "blank_out"]
    few = {"integrated_gradients": {"steps": 4, "tolerance": 9.0}}
    table = mixlens.evaluate(lens, TEXTS[:2], methods, ["spearman:grad_l2"], layers=deep, options=few)
    numbers = {m: [r.layer for r in table if r.method == m] for m in methods}
    both = [None, 0, 1]
    layered = ["globenc", "saliency", "attcat", "integrated_gradients", "attention"] if deep == "each" else ["globenc"]
    assert numbers == {m: both if m in layered else [None] for m in methods}
    for i, text in enumerate(TEXTS[:2]):
        ref = scores(lens, text, "grad_l2")

        def rho(own: Any, ref: Any = ref) -> Any:
            return pytest.approx(stats.spearmanr(np.asarray(own), ref).statistic, abs=1e-6)

        maps = lens.mixing(text, "globenc")
        for layer in (0, 1):
            rows = maps.scores[layer, 0] if deep == "each" else maps.rollout().scores[layer, 0]
            assert table.values("spearman", "globenc", layer)[i] == rho(rows)
        assert table.values("spearman", "globenc")[i] == rho(maps.rollout().scores[-1, 0])
        if deep == "each":
            for layer in (0, 1):
                assert table.values("spearman", "saliency", layer)[i] == rho(
                    scores(lens, text, "saliency", layer=layer)
                )
                assert table.values("spearman", "attcat", layer)[i] == rho(lens.attribute(text, "attcat").layers[layer])
                own = lens.mixing(text, "attention").scores[layer, 0]
                assert table.values("spearman", "attention", layer)[i] == rho(own)


def test_other_classes(lens: mixlens.Lens) -> None:
    table = mixlens.evaluate(
        lens, TEXTS, ["attcat", "grad_x_input"], [("kendall", "kendall_confidence", {"on": "scores"})]
    )
    for i, text in enumerate(TEXTS):
        label = lens.attribute(text, "random").target.index
        one, other = (scores(lens, text, "attcat", Target(c)) for c in (label, 1 - label))
        assert table.values("kendall", "attcat")[i] == pytest.approx(stats.kendalltau(one, other).statistic, abs=1e-6)
    assert np.isfinite(table.values("kendall", "random")).all()
    assert abs(table.row("kendall", "attcat").null) < 0.9  # type: ignore[arg-type]
    with pytest.raises(Undefined, match="alti says the same for every class"):
        mixlens.evaluate(lens, TEXTS, ["attcat", "alti"], ["kendall_confidence"])


def test_examples_outlive_the_name_of_their_table(lens: mixlens.Lens) -> None:
    """The folder of a run without out= goes with its table, not before its lines were read."""
    lines = mixlens.evaluate(lens, TEXTS, ["random"], ["aopc"]).examples()
    gc.collect()
    assert [one["i"] for one in sorted(lines, key=lambda one: one["i"])] == list(range(len(TEXTS)))


def test_nothing_is_computed_twice(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(lens: Any, asks: Any) -> Any:
        asked.extend(ask.name for ask in asks)
        return attributions(lens, asks)

    monkeypatch.setattr(explain, "attributions", counted)
    methods = ["alti", ("again", "alti", {}), "saliency", "random"]
    table = mixlens.evaluate(lens, TEXTS, methods, ["spearman", "spearman:alti", "aopc", "sufficiency", "log_odds"])
    assert sorted(asked) == ["alti", "random", "saliency"]
    assert (table.values("aopc", "again") == table.values("aopc", "alti")).all()


def test_a_changed_text_goes_through_once(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixlens.evaluation import perturbed

    seen: list[tuple[int, ...]] = []
    whole = perturbed.left

    def counted(lens: Any, variants: Any, batch_size: int) -> list[float]:
        seen.extend(v.tokens.ids for v in variants)
        return whole(lens, variants, batch_size)

    monkeypatch.setattr(perturbed, "left", counted)
    mixlens.evaluate(lens, TEXTS[:1], ["alti", "globenc", "saliency", "random"], ["aopc", "comprehensiveness"])
    assert len(seen) == len(set(seen)) <= 2**4 - 1  # a, deep, film and the point: in or out


def test_bad_examples_are_recorded(lens: mixlens.Lens, tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    rows = ['{"text": "a deep film", "label": 1}', "no json", '{"text": ""}', '{"words": 3}']
    rows += [
        '{"text": "%s"}' % ("a " * 40),
        '{"text": "bad", "label": "new"}',
        '{"text": "not bad", "label": "negative"}',
    ]
    file.write_text("\n".join(rows), "utf-8")
    table = mixlens.evaluate(lens, file, ["alti"], ["spearman", "aopc"], target="label")
    row = table.row("aopc", "alti")
    assert (row.n, row.n_undefined, row.n_errors) == (2, 0, 5)
    errors = {line["i"]: line["error"] for line in table.examples() if "error" in line}
    kinds = ["DataError: expected JSON", "EmptyInput", "DataError: expected a column", "TooLong", "TargetError"]
    assert [errors[i + 1][: len(k)] for i, k in enumerate(kinds)] == kinds
    assert "did you mean 'negative'" in errors[5] or "known are" in errors[5]
    assert np.isnan(table.values("aopc", "alti")[1:6]).all()


@pytest.mark.parametrize("method", ["alti", "grads"])  # alone, and in the pass of saliency
def test_a_method_that_fails_on_one_text(method: str, lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(lens: Any, asks: Any) -> Any:
        if any(ask.name == method for ask in asks) and any(len(t) == 4 for t in asks[0].texts):
            raise RuntimeError("out of\nmemory")
        return attributions(lens, asks)

    monkeypatch.setattr(explain, "attributions", broken)
    table = mixlens.evaluate(lens, TEXTS, [method, "saliency"], ["spearman", "aopc"])
    row = table.row("spearman", method)
    assert (row.n, row.n_errors, table.row("spearman", "saliency").n_errors) == (3, 1, 0)
    assert np.isnan(table.values("aopc", method)[1])
    null = table.values("aopc", "random")
    assert table.row("aopc", method).null == pytest.approx(np.delete(null, 1).mean())  # of the texts that both are of
    assert table.row("aopc", "saliency").null == pytest.approx(null.mean()) != pytest.approx(np.delete(null, 1).mean())
    (line,) = [line for line in table.examples() if "errors" in line]
    assert line["errors"][f"aopc {method}"] == "RuntimeError: out of memory"


@pytest.mark.parametrize("layers", ["each", "upto"])
def test_every_method_has_its_layers_or_says_nothing_of_them(layers: str, lens: mixlens.Lens) -> None:
    coarse = "integrated_gradients"  # too coarse steps on a random model
    methods = [name for name, why in lens.check().supports.items() if name in ATTRIBUTIONS and why is None]
    methods.remove(coarse)
    table = mixlens.evaluate(lens, TEXTS[1:2], methods, ["spearman:random"], layers=layers)
    assert [line["errors"] for line in table.examples() if line.get("errors")] == []
    alone = {row.method for row in table} - {row.method for row in table if row.layer is not None}
    single = {"grads", "partial_lrp", "trans_att", "blank_out", "hta", "hta_x_input", "random"}
    assert alone == (single if layers == "each" else single | {n for n in methods if not_a_preset(n)})


def not_a_preset(name: str) -> bool:
    return not isinstance(ATTRIBUTIONS[name], Preset) or ATTRIBUTIONS[name].aggregation == "layer"


def test_what_no_text_can_mend_is_raised(lens: mixlens.Lens) -> None:
    with pytest.raises(UnknownMethod, match="did you mean 'globenc'"):
        mixlens.evaluate(lens, TEXTS, ["globencc"])
    with pytest.raises(UnknownMethod, match="did you mean 'spearman'"):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["spaerman"])
    with pytest.raises(UnknownOption, match="would ignore the option 'q'"):
        mixlens.evaluate(lens, TEXTS, [("x", "alti", {"q": 1})])
    with pytest.raises(UnknownOption, match="has no option 'q'"):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["aopc"], options={"aopc": {"q": 1}})
    with pytest.raises(UnknownOption, match="which is not evaluated"):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["aopc"], options={"globenc": {}})
    with pytest.raises(UnknownOption, match="twice"):
        mixlens.evaluate(lens, TEXTS, ["alti", "alti"])
    with pytest.raises(UnknownOption, match="aopc has no reference"):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["aopc:saliency"])
    with pytest.raises(UnknownOption, match="layers=None, 'each' or 'upto'"):
        mixlens.evaluate(lens, TEXTS, ["alti"], layers="all")
    with pytest.raises(UnknownOption, match="limit of 1 or more"):
        mixlens.evaluate(lens, TEXTS, ["alti"], limit=0)
    with pytest.raises(DataError, match="expected a column 'text' or"):
        mixlens.evaluate(lens, [{"words": "a film"}], ["alti"])
    with pytest.raises(UnknownOption, match="expected replace="):
        mixlens.evaluate(lens, TEXTS, ["alti"], [("x", "aopc", {"replace": "blank"})])


def test_no_pad_token_is_refused() -> None:
    bare = mixlens.load(make("gpt2", "sequence", dtype=torch.float32, pad_token_id=None))
    with pytest.raises(Undefined, match=r"puts \[PAD\] in a token's place"):
        mixlens.evaluate(bare, [[7, 8, 9]], ["saliency"], ["log_odds"])


def test_batches_change_nothing_that_counts(lens: mixlens.Lens) -> None:
    small = mixlens.evaluate(lens, TEXTS, ["alti", "attcat"], ["spearman", "aopc"], batch_size=1)
    large = mixlens.evaluate(lens, TEXTS, ["alti", "attcat"], ["spearman", "aopc"])
    assert small.array == pytest.approx(large.array, abs=1e-6, nan_ok=True)


def test_progress(lens: mixlens.Lens) -> None:
    calls: list[tuple[int, int | None]] = []
    mixlens.evaluate(lens, iter(TEXTS), ["alti"], progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[0] == (0, None)
    assert calls[-1] == (4, None)
    calls.clear()
    mixlens.evaluate(lens, TEXTS, ["alti"], limit=3, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (3, 3)


def test_progress_begins_where_the_run_goes_on(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "CHUNK", 1)

    def stop(done: int, total: int | None) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mixlens.evaluate(lens, TEXTS, ["alti"], out=tmp_path, progress=stop)
    for first in (2, 4):  # the third was at its end, but not on the disk
        calls: list[int] = []
        mixlens.evaluate(lens, TEXTS, ["alti"], out=tmp_path, progress=lambda done, total: calls.append(done))  # noqa: B023
        assert (calls[0], calls[-1]) == (first, 4)
