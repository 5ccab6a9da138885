"""Two pictures by one model: every method on pooled rows, against the model's own pass."""

from __future__ import annotations

import pytest
import torch

from mixlens.errors import ModelError, UnknownOption
from mixlens.similarity import SIMILARITIES
from models import pictures

POOLED = {"first": lambda h: h[0], "mean": lambda h: h.mean(0)}


def rows(kind: str, pixels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return pictures.model(kind)(pixels[None]).last_hidden_state[0]


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("dinov2", "first"), pytest.param("clip", "mean", marks=slow), pytest.param("vit-base", "mean", marks=slow)],
)
def test_the_cosine_is_that_of_pooled_rows(kind, pooling):
    lens, (a, b) = pictures.lens(kind), pictures.pixels(2)
    u, v = (POOLED[pooling](rows(kind, x)) for x in (a, b))
    wanted = float(torch.cosine_similarity(u, v, dim=0))
    for method, line in SIMILARITIES.items():
        alike = lens.similarity(a, b, method, pooling=pooling)
        assert alike.value == pytest.approx(wanted, abs=1e-6), method
        assert tuple(alike.scores.shape) == (len(alike.into), len(alike.source))
        if line.complete:
            assert alike.explained == pytest.approx(wanted, abs=1e-5), method
        if method != "integrated_jacobian":  # the same for it, at twenty times the price
            swapped = lens.similarity(b, a, method, pooling=pooling)
            torch.testing.assert_close(swapped.scores, alike.scores.T, rtol=1e-5, atol=1e-7)


def test_a_patch_is_made_grey():
    lens, (a, b) = pictures.lens("dinov2"), pictures.pixels(2)
    alike = lens.similarity(a, b, "leave_out", pooling="first")
    at = alike.into.cells.index((1, 2))
    less = a.clone()
    less[:, 6:12, 12:18] = a.mean((1, 2))[:, None, None]
    u, w, v = (rows("dinov2", x)[0] for x in (a, less, b))
    fall = float(torch.cosine_similarity(u, v, dim=0) - torch.cosine_similarity(w, v, dim=0))
    assert float(alike.first_scores[at]) == pytest.approx(fall, abs=1e-6)
    assert [p.first.text[:5] for p in alike.top(3)] == ["patch"] * 3


def test_what_is_refused():
    lens, (a, b) = pictures.lens("dinov2"), pictures.pixels(2)
    with pytest.raises(ModelError, match="pass pooling='mean', 'first' or 'last'"):
        lens.similarity(a, b)
    with pytest.raises(UnknownOption, match="expected replace='grey', 'blur' or 'zero' for leave_out of a picture"):
        lens.similarity(a, b, pooling="first", replace="mask")
