"""Traces of models in half precision, and of models whose layers are kept on several devices."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from torch import Tensor

import mixlens
from mixlens.errors import NotConverged
from models import chats, families

IDS, ANSWER = families.text(7), [5, 6]
METHODS = ("globenc", "alti", "head_logit", "path_logit", "alti_logit", "saliency", "attcat", "cp_lrp", "gim")
METHODS += ("flashtrace", "leave_one_out")
UNITS = {"leave_one_out": {"units": "token"}}


def model() -> Any:
    return families.make("llama", "causal", max_position_embeddings=96)


def scores(lens: mixlens.Lens, method: str) -> Tensor:
    return lens.trace(IDS, ANSWER, method, **UNITS.get(method, {})).scores


@cache
def plain(method: str) -> Tensor:
    """In float64, all in one place."""
    return scores(mixlens.load(model(), chats.tokenizer()), method)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    """Scores in float32 at least, off by the rounding of the model's own numbers."""
    lens = mixlens.load(model().to(dtype), chats.tokenizer())
    limit = 10 * torch.finfo(dtype).eps  # of the largest score; seen: 7
    for method in METHODS:
        got = scores(lens, method)
        assert got.dtype in (torch.float32, torch.float64)
        assert (got - plain(method)).abs().max() <= limit * plain(method).abs().max(), method
    with pytest.raises(NotConverged, match="load the model in float32"):
        lens.trace(IDS, ANSWER, "integrated_gradients")


def test_layers_on_several_devices(tmp_path: Path) -> None:
    """The CPU and the disk: every other layer, and the vocabulary's map, are elsewhere."""
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk"}
    places |= {f"model.layers.{k}": "disk" if k % 2 else "cpu" for k in range(3)}
    split = accelerate.dispatch_model(model(), places, main_device="cpu", offload_dir=tmp_path)
    lens = mixlens.load(split, chats.tokenizer())
    elsewhere = [p for p in split.parameters() if p.is_meta]
    assert 0 < len(elsewhere) < len(list(split.parameters()))
    for method in METHODS:
        assert torch.equal(scores(lens, method), plain(method)), method
    assert all(p.is_meta for p in elsewhere)
