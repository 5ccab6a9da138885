"""The questions that inference asks of numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixlens.infer.values import NormKind, is_linear, multiple, norm_kind, same

X = torch.randn(1, 7, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class OnePlus(nn.RMSNorm):
    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt() * (1 + self.weight)


def noisy(module: nn.Module) -> nn.Module:
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, 0.5)
    return module


NORMS = {
    "layer": (noisy(nn.LayerNorm(16)), NormKind("layer", False)),
    "layer, no weight": (nn.LayerNorm(16, elementwise_affine=False), NormKind("layer", None)),
    "rms": (noisy(nn.RMSNorm(16, eps=1e-3)), NormKind("rms", False)),
    "rms, 1 + w": (noisy(OnePlus(16, eps=1e-3)), NormKind("rms", True)),
    "linear": (noisy(nn.Linear(16, 16)), None),
    "identity": (nn.Identity(), None),
    "activation": (nn.GELU(), None),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_told_by_what_they_give(name):
    module, kind = NORMS[name]
    with torch.no_grad():
        assert norm_kind(module, X, module(X)) == kind


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Linear(16, 5), True),
        (nn.Conv1d(7, 7, 1), True),
        (nn.PReLU(), False),
        (nn.Identity(), False),
        (nn.Sequential(nn.Linear(16, 5)), False),
        (nn.RMSNorm(16), False),
    ],
)
def test_linear_maps_are_told_by_what_they_give(module, expected):
    with torch.no_grad():
        assert is_linear(module.double(), X) == expected


def test_multiples():
    assert multiple(X, 0.3 * X) == "number"
    assert multiple(X, X * torch.arange(16)) == "vector"
    assert multiple(X, X * torch.arange(7)[:, None]) is None
    assert multiple(X, X[..., :8]) is None


def test_nothing_is_the_same_as_nan_or_as_another_shape():
    assert same(X, X + 1e-9)
    assert not same(X, X + 1e-3)
    assert not same(X, torch.full_like(X, torch.nan))
    assert not same(torch.full_like(X, torch.nan), X)
    assert not same(X, X.flatten())
    assert not same(X, None)
