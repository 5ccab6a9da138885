"""Models and texts that say nothing, through the whole run: a defined value, or counted as undefined."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

import mixlens
from mixlens.errors import InputError

RANKED = ("spearman", "kendall_tau", "pearson")
CURVED = ("aopc", "log_odds", "comprehensiveness", "sufficiency")
MEASURES = [*RANKED, *CURVED, "kendall_confidence", "special_rank", "consistency"]
TEXTS = [
    {"text": "a deep film .", "label": "positive"},
    {"text": "bad", "label": "negative"},
    {"text": "bad bad bad", "label": "positive"},
]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def with_head(lens: mixlens.Lens, weight: float, bias: list[float]) -> mixlens.Lens:
    """Changed behind the lens's back: of a head that reads nothing it would not know which row it reads."""
    other = mixlens.load(deepcopy(lens.model), lens.tokenizer)
    with torch.no_grad():
        other.model.classifier.weight.mul_(weight)
        other.model.classifier.bias.copy_(torch.tensor(bias))
    return other


def test_a_class_that_is_never_predicted(lens: mixlens.Lens) -> None:
    """It is explained as any other where the gold label asks for it."""
    negative = with_head(lens, 1.0, [9.0, -9.0])
    table = mixlens.evaluate(
        negative, TEXTS, ["attcat"], MEASURES, target="label", second=negative, resamples=10,
    )  # fmt: skip
    assert {line["prediction"] for line in table.examples()} == {negative.head.labels[0]}
    assert {line["target"] for line in table.examples()} == {"negative", "positive"}
    for row in table:
        assert (row.n, row.n_undefined, row.n_errors) == (3, 0, 0), row
        assert row.mean is not None and np.isfinite(row.mean)


def test_a_model_that_says_the_same_whatever_the_text(lens: mixlens.Lens) -> None:
    """Gradients are 0: no order, so no rank correlation; nothing that is taken out changes the answer."""
    constant = with_head(lens, 0.0, [0.5, 0.0])
    table = mixlens.evaluate(constant, TEXTS, ["attcat", "alti"], MEASURES[:-3], reference="grad_l2", resamples=10)
    for name in RANKED:
        row = table.row(name, "attcat")
        assert (row.n, row.n_undefined, row.n_errors, row.mean, row.low, row.p_null) == (0, 3, 0, None, None, None)
    for name in CURVED:
        for method in ("attcat", "alti"):
            assert table.row(name, method).mean == pytest.approx(0, abs=1e-6)
    assert " - " in str(table) and " - " in table.to_latex()


def test_one_token_and_nothing_but_special_ones(lens: mixlens.Lens) -> None:
    """Of one token there is no order; where nothing can be taken out there is no curve."""
    table = mixlens.evaluate(lens, [[7], [2, 3], [2, 7, 3]], ["alti"], [*RANKED, *CURVED, "special_rank"], resamples=10)
    undefined = {row.measure: row.n_undefined for row in table}
    assert all(undefined[name] == 1 for name in RANKED)
    assert all(row.n_errors == 0 for row in table)
    assert all(np.isfinite(table.values(name, "alti")[2]) for name in CURVED)


def test_tied_scores_go_in_reading_order(lens: mixlens.Lens) -> None:
    """All scores alike: the curve is that of the text read from the left; rank correlations are undefined."""
    constant = with_head(lens, 0.0, [0.5, 0.0])
    scores = constant.attribute("a deep film .", method="attcat").scores
    assert (scores == 0).all()
    table = mixlens.evaluate(constant, TEXTS[:1], ["attcat"], ["aopc", "special_rank", "kendall_confidence"])
    assert table.values("special_rank", "attcat")[0] == pytest.approx((len(scores) + 1) / 2 / len(scores))
    assert np.isnan(table.values("kendall_confidence", "attcat")[0])
    assert table.row("kendall_confidence", "attcat").n_undefined == 1


def test_what_is_no_lens(lens: mixlens.Lens) -> None:
    for odd in (None, "folder", lens.model, [lens]):
        with pytest.raises(
            InputError, match=rf"expected lens= what mixlens.load\(...\) gives, got {type(odd).__name__}"
        ):
            mixlens.evaluate(odd, ["a"])
    for odd in ("folder", lens.model):
        with pytest.raises(
            InputError, match=rf"expected second= what mixlens.load\(...\) gives, got {type(odd).__name__}"
        ):
            mixlens.evaluate(lens, ["a"], ["alti"], ["consistency"], second=odd)
