"""Global Hidden Token Attribution against a Jacobian made row by row in plain autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mixlens
from mixlens.attribute import jacobian
from mixlens.errors import Undefined
from models import families
from oracles import autograd

N = 5


def by_hand(name, head, row):
    trace = autograd.trace(autograd.model_of(name, head), families.text(N))
    x, y = trace.hidden[0], trace.hidden[-1][0]
    y = y.mean(0) if row == "mean" else y[row]
    rows = [torch.autograd.grad(y[k], x, retain_graph=True)[0][0].numpy() for k in range(len(y))]
    return np.stack(rows), x[0].detach().numpy()  # (out dim, token, in dim), (token, in dim)


@pytest.mark.parametrize(
    ("name", "head", "row"),
    [("bert", "sequence", 0), ("gpt2", "causal", N - 1), ("gemma2", "causal", N - 1), ("albert-inner", "sequence", 0)],
)
def test_row_by_row(name, head, row, monkeypatch):
    jac, x = by_hand(name, head, row)
    lens = families.lens(name, head)
    plain = [np.linalg.norm(jac[:, j]) for j in range(N)]
    scaled = [np.linalg.norm(jac[:, j] * x[j]) for j in range(N)]
    for method, expected in (("hta", plain), ("hta_x_input", scaled)):
        got = lens.attribute(families.text(N), method, normalize=False)
        np.testing.assert_allclose(got.scores, expected, rtol=1e-10)
        assert not got.meta["class_specific"] and got.meta["readout"] == row
        shares = lens.attribute(families.text(N), method)
        np.testing.assert_allclose(shares.scores, expected / np.sum(expected), rtol=1e-10)
    monkeypatch.setattr(jacobian, "HELD_BYTES", 1)  # one covector at a time
    np.testing.assert_allclose(lens.attribute(families.text(N), "hta", normalize=False).scores, plain, rtol=1e-10)


def test_of_a_mean():
    jac, _ = by_hand("bert", "sequence", "mean")
    got = families.lens("bert", "sequence").attribute(families.text(N), "hta", readout="mean", normalize=False)
    np.testing.assert_allclose(got.scores, [np.linalg.norm(jac[:, j]) for j in range(N)], rtol=1e-10)
    with pytest.raises(Undefined, match="pass readout= a position or 'mean'"):
        families.lens("bert", "sequence").attribute(families.text(N), "hta", readout="max")


def test_a_model_without_a_head_will_do():
    lens, full = families.lens("bert"), families.lens("bert", "sequence")
    assert lens.attribute(families.text(N), "hta", readout=0).scores.shape == (N,)
    one, other = (full.attribute(families.text(N), "hta", target=c).scores for c in (0, 1))
    assert torch.equal(one, other)


def test_tokens_behind_the_row_of_a_causal_model_are_zero():
    got = families.lens("gpt2", "causal").attribute(families.text(N), "hta", target=mixlens.Target(position=2))
    assert (got.scores[3:] == 0).all() and (got.scores[:3] > 0).all()
