"""Numbers that peers' packages give on tiny decoders: where ours are theirs, and where theirs are another method."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import mixlens
from golden.peer_models import ANSWER, IDS, MODELS, model
from mixlens import Target
from mixlens.attribute.ablated.fits import coefficients
from mixlens.attribute.frozen import RULES, Frozen
from mixlens.attribute.logit.direct import rows_pass
from mixlens.attribute.span.edges import span_edges, sums
from mixlens.attribute.table import ATTRIBUTIONS

THEIRS = json.loads((Path(__file__).parent / "peers.json").read_text("utf-8"))


@cache
def lens(name):
    return mixlens.load(model(name))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["attn_lrp", "cp_lrp"])
def test_lxt_s_relevance_is_ours(method, name):
    scores = lens(name).attribute(IDS, method, Target(3, of="logit")).scores.numpy()
    np.testing.assert_allclose(scores, THEIRS["lxt"][method][name], rtol=0, atol=1e-6 * np.abs(scores).max())


@pytest.mark.parametrize("name", MODELS)
def test_gim_explain_scales_queries_keys_and_values_alone(name, monkeypatch):
    """Norms of its own class, softmax inside a fused kernel and gates are not reached."""
    rules = replace(RULES["gim"], norm="exact", softmax=1.0, gate="exact")
    monkeypatch.setitem(ATTRIBUTIONS, "scaled", Frozen("scaled", "-", "-", rules=rules))
    theirs = np.array(THEIRS["gim-explain"][name])
    scores = lens(name).attribute(IDS, "scaled", Target(3, of="logit")).scores.numpy()
    np.testing.assert_allclose(scores, theirs, rtol=0, atol=1e-6 * np.abs(scores).max())
    whole = lens(name).attribute(IDS, "gim", Target(3, of="logit")).scores.numpy()
    assert np.abs(whole - theirs).max() > 0.1 * np.abs(whole).max()


def hops(name):
    """FlashTrace's sum of a base and two hops, each token read at its own row as its authors do."""
    subject, n, m = lens(name).subject, len(IDS), len(IDS) + len(ANSWER)
    with torch.no_grad():
        seen = rows_pass(subject, subject.read([*IDS, *ANSWER]).require()[0], range(m), sums)

        def total(weights):
            return sum(span_edges(layer, weights[None])[0] for layer in seen.beside)

        sinks, reasoning, prompt = (torch.zeros(m, dtype=torch.float64) for _ in range(3))
        sinks[n + 2 :], reasoning[n : n + 2], prompt[:n] = 1, 1, 1
        found = total(sinks)
        out, ratio = found * prompt, (found * reasoning).sum() / found.sum()
        for _ in range(2):
            found = total(found * reasoning)
            out, ratio = out + ratio * found * prompt, ratio * (found * reasoning).sum() / found.sum()
    return out.numpy()


def test_flashtrace_s_edges_and_hops_are_ours_where_there_are_no_biases():
    np.testing.assert_allclose(hops("llama"), THEIRS["flashtrace"]["llama"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["llama with biases", "qwen3"])
def test_flashtrace_drops_the_values_bias(name):
    assert np.abs(hops(name) - THEIRS["flashtrace"][name]).max() > 1e-3


def test_context_cite_s_solver_is_ours():
    draw = np.random.RandomState(0)
    masks = draw.rand(32, 6) < 0.5
    values = masks @ np.array([3.0, 0.2, -1, 0, 0, 1.0]) + draw.standard_normal(32)
    np.testing.assert_allclose(coefficients(masks, values, alpha=0.01, tokens=4), THEIRS["context-cite"], atol=5e-4)
