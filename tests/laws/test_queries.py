"""Some query rows alone are the rows of the whole map, and presets that make no others give the same scores.

Every method that can be had by rows on three ways of building a layer; on all other architectures those that read the
norms of its terms, their vectors, the heads' vectors, and the rest of the layer.
"""

from __future__ import annotations

import pytest
import torch

from mixlens.errors import Undefined, UnknownOption
from mixlens.mixing import MIXING
from models import families

QUICK = ("bert", "gemma2", "opt")  # -m slow: all others
ABLE = [name for name, facts in MIXING.items() if facts.queries]
PARTS = ("globenc", "alti", "ifr", "value_zeroing")


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 1e-12 * max(1.0, float(expected.abs().max()))


def test_every_kind_of_work_is_tried():
    costs = {MIXING[name].costs for name in ABLE}
    assert {MIXING[name].costs for name in PARTS} == costs - {MIXING["attention"].costs}


@pytest.mark.parametrize("name", families.each(QUICK))
def test_some_rows_are_rows_of_the_whole(name):
    texts, lens = [families.text()[:n] for n in (9, 5)], families.lens(name)
    for method in ABLE if name in QUICK else PARTS:
        if not MIXING[method].defined(lens.spec):
            continue
        for whole, some in zip(lens.mixing(texts, method), lens.mixing(texts, method, queries=[-1, 2]), strict=True):
            n = len(whole.source)
            assert some.rows == (n - 1, 2), method
            close(some.scores, whole.scores[:, [n - 1, 2]])
            close(some.row(-1), whole.row(-1))
            assert some.windows == whole.windows, method


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize(
    "method", ["alti+rollout", "value_zeroing+rollout", "norm_res+mean", "alti+sum", "norm+layer:1"]
)
def test_a_preset_that_makes_the_rows_it_reads_scores_as_the_whole_maps_do(name, method):
    lens, text = families.lens(name), families.text()
    mixing, aggregation = method.split("+")
    maps = lens.mixing(text, mixing)
    rows = {"rollout": maps.rollout, "mean": maps.mean, "sum": maps.sum, "layer:1": lambda: maps.layer(1)}[
        aggregation
    ]()
    got = lens.attribute(
        text, method, readout=4, normalize=False, **({"receptive_field": False} if maps.causal else {})
    )
    close(got.scores, rows.scores[-1, 4])
    if got.layers is not None:
        close(got.layers, rows.scores[:, 4])


def test_value_zeroing_of_one_row_runs_the_rest_of_the_layer_for_n_vectors(monkeypatch):
    from mixlens.decompose import block as module

    lens, text, seen = families.lens("bert", "sequence"), families.text(), []
    real = module.Block.after_up
    monkeypatch.setattr(
        module.Block,
        "after_up",
        lambda self, feed, *h, **how: (seen.append(h[0].numel() // h[0].shape[-1]), real(self, feed, *h, **how))[1],
    )
    lens.mixing(text, "value_zeroing", queries=[0])
    checked = 1  # row that is held against the model's own numbers
    assert sum(seen) == 3 * len(text) + checked
    seen.clear()
    lens.attribute(text, "value_zeroing")
    assert sum(seen) == 2 * len(text) ** 2 + len(text) + checked  # the last layer's map is read in one row


def test_rows_that_cannot_be_had_alone_are_refused():
    lens, text = families.lens("bert"), families.text()
    with pytest.raises(Undefined, match=r"hta has no row-wise map; leave queries= out, or use one of att"):
        lens.mixing(text, "hta", queries=[0])
    with pytest.raises(UnknownOption, match=r"expected queries= a list of numbers of -9 to 8, or None, got \[9\]"):
        lens.mixing(text, "alti", queries=[9])
    with pytest.raises(Undefined, match=r"rollout needs every row of every layer, .* leave queries= out"):
        lens.mixing(text, "alti", queries=[0]).rollout()
