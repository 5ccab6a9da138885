"""Attention flow against networkx: one s-t problem a pair, on the graph as Abnar & Zuidema draw it."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mixlens.aggregate import flow as stage
from mixlens.aggregate.flow import flow
from mixlens.aggregate.functions import add_residual, head_flow
from mixlens.aggregate.network import Network


def oracle(maps: Tensor, own: Tensor | None = None) -> Tensor:
    """Unnormalised flow values (layer, query, key) by networkx's default algorithm."""
    depth, n, _ = maps.shape
    own = maps if own is None else own
    graph = networkx.DiGraph()
    graph.add_nodes_from((level, k) for level in range(depth + 1) for k in range(n))
    for layer, i, j in np.ndindex(*maps.shape):
        if maps[layer, i, j] > 0:
            graph.add_edge((layer + 1, i), (layer, j), capacity=float(maps[layer, i, j]))
    out = torch.zeros(maps.shape, dtype=torch.float64)
    for layer, i in np.ndindex(depth, n):
        graph.add_node("source")
        for k in range(n):
            if own[layer, i, k] > 0:
                graph.add_edge("source", (layer, k), capacity=float(own[layer, i, k]))
        for j in range(n):
            out[layer, i, j] = networkx.maximum_flow_value(graph, "source", (0, j))
        graph.remove_node("source")
    return out


def random_maps(seed: int, depth: int, n: int, sharp: float, share: float, causal: bool, zeros: float) -> Tensor:
    """Softmax rows of any sharpness, some entries exactly 0, with a share of the identity."""
    g = torch.Generator().manual_seed(seed)
    hidden = torch.rand(depth, n, n, generator=g) < zeros
    if causal:
        hidden |= torch.ones(n, n).triu(1).bool()
    hidden &= ~torch.eye(n, dtype=torch.bool)
    logits = sharp * torch.randn(depth, n, n, generator=g, dtype=torch.float64)
    maps = logits.masked_fill(hidden, -torch.inf).softmax(-1)
    return (1 - share) * maps + share * torch.eye(n, dtype=torch.float64)


ANY = st.builds(
    random_maps,
    seed=st.integers(0, 2**31),
    depth=st.integers(1, 4),
    n=st.integers(1, 5),
    sharp=st.sampled_from([0.0, 0.3, 2.0, 6.0]),
    share=st.sampled_from([0.0, 0.1, 0.5]),
    causal=st.booleans(),
    zeros=st.sampled_from([0.0, 0.3, 0.7]),
)


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() < tolerance


@settings(max_examples=25, deadline=None)
@given(maps=ANY)
def test_any_small_graph(maps):
    expected = oracle(maps)
    close(flow(maps, normalize=False), expected)
    close(flow(maps), expected / expected.sum(-1, keepdim=True))


@settings(max_examples=10, deadline=None)
@given(maps=ANY)
def test_every_pair_without_the_short_cuts(maps):
    """The whole graph alone, from whatever upper bound and in steps so coarse that it takes several rounds."""
    expected, data = oracle(maps), maps.numpy()
    for layer, i, j in np.ndindex(*maps.shape):
        if layer > 0:
            network = Network(data[1:layer], None, i)
            low, high = network.bounds(data[layer, i], data[0, :, j], j, 1.0, 1e-9)
            assert high - low <= 1e-9
            assert low - 1e-9 <= expected[layer, i, j] <= high + 1e-9


def test_coarse_steps_are_refined(monkeypatch):
    maps = random_maps(3, 4, 6, 2.0, 0.5, False, 0.3)
    monkeypatch.setattr("mixlens.aggregate.network.WHOLE", 200)
    data, expected = maps.numpy(), oracle(maps)
    for i, j in np.ndindex(6, 6):
        low, high = Network(data[1:3], None, i).bounds(data[3, i], data[0, :, j], j, 1.0, 1e-7)
        assert high - low <= 1e-7
        assert low - 1e-12 <= expected[3, i, j] <= high + 1e-12


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("share", "causal"), [(0.5, False), (0.5, True), (0.0, False)])
def test_with_edges_left_out(monkeypatch, seed, share, causal):
    """More tokens than the part of the graph that is tried first has edges a row; both ways are taken."""
    monkeypatch.setattr(stage, "_SMALL", 0)
    monkeypatch.setattr(stage, "_strongest", lambda maps, count, keep=stage._strongest: keep(maps, 2))
    maps = random_maps(seed, 3, 8, 1.5, share, causal, 0.2)
    close(flow(maps, normalize=False), oracle(maps))


def test_a_single_head_over_averaged_layers():
    heads = torch.stack([random_maps(s, 3, 5, 2.0, 0.0, False, 0.0) for s in range(3)], 1)
    below, own = add_residual(heads.mean(1), 0.5), add_residual(heads[:, 1], 0.5)
    close(head_flow(heads, 1, 0.5, normalize=False), oracle(below, own))


def test_rows_that_sum_to_more_than_one():
    maps = random_maps(0, 3, 5, 2.0, 0.5, False, 0.0) * 7
    close(flow(maps, normalize=False), oracle(maps), 7e-5)
