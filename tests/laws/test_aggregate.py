"""Aggregations: their closed forms, what they refuse, and what they promise of causal models."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import mixlens
from mixlens.aggregate import AGGREGATIONS, functions
from mixlens.aggregate import down as aggregate_down
from mixlens.aggregate.down import down, down_uniform
from mixlens.aggregate.functions import rollout_scaled
from mixlens.aggregate.streams import rollout_streams
from mixlens.errors import MixlensError, Undefined, UnknownOption
from mixlens.mixing import MIXING
from models import families

TEXT = families.text()


@cache
def maps_of(method: str = "globenc", name: str = "bert", n: int = 9, **options: object) -> mixlens.LayerMaps:
    return families.lens(name).mixing(TEXT[:n], method=method, **options)


def product(maps: Tensor, share: float = 0.0) -> Tensor:
    """The rollout as Abnar & Zuidema write it."""
    out = []
    for m in maps.double():
        m = (1 - share) * m + share * torch.eye(m.shape[-1], dtype=m.dtype)
        out.append(m @ out[-1] if out else m)
    return torch.stack(out)


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max()))


# --- rollout ---


@pytest.mark.parametrize("method", [m for m, facts in MIXING.items() if not facts.signed])
def test_rollout_is_the_product(method):
    maps = maps_of(method)
    got, expected = maps.rollout(residual=None).scores, product(maps.scores)
    if not maps.rows_sum_to_one:  # rescaled by one number a layer, the largest entry
        logs = maps.rollout(residual=None).meta["log_scale"]
        close(torch.tensor(logs, dtype=torch.float64), expected.amax((1, 2)).log())
        expected = expected / expected.amax((1, 2), keepdim=True)
    close(got, expected)
    assert len(maps.rollout(residual=None)) == len(maps)


def test_rollout_of_attention_adds_half_the_identity_unless_told():
    maps = maps_of("attention")
    close(maps.rollout().scores, product(maps.scores, 0.5))
    close(maps.rollout(residual=0.25).scores, product(maps.scores, 0.25))
    close(maps.rollout(residual=None).scores, product(maps.scores))
    assert maps.rollout().meta["residual"] == 0.5
    close(maps.rollout().scores.sum(-1), torch.ones(3, len(TEXT), dtype=torch.float64))


@pytest.mark.parametrize("method", [m for m in MIXING if m != "attention" and not MIXING[m].signed])
def test_rollout_of_anything_else_adds_nothing_by_itself(method):
    maps = maps_of(method)
    assert torch.equal(maps.rollout().scores, maps.rollout(residual=None).scores)


def test_rows_are_normalised_before_the_product():
    maps = maps_of("globenc")
    rows = maps.scores / maps.scores.sum(-1, keepdim=True)
    close(maps.rollout(normalize=True).scores, product(rows))
    assert maps.rollout(normalize=True).rows_sum_to_one
    assert not maps.rollout().rows_sum_to_one
    norm = maps_of("norm")
    rows = norm.scores / norm.scores.sum(-1, keepdim=True)
    close(norm.rollout(residual=0.5, normalize=True).scores, product(rows, 0.5))


def test_rollout_of_huge_maps_stays_finite_and_exact():
    g = torch.Generator().manual_seed(0)
    raw = torch.rand(24, 9, 9, generator=g, dtype=torch.float64) * 1e30
    maps = replace(maps_of("globenc"), scores=raw)
    got = maps.rollout()
    assert torch.isfinite(got.scores).all()
    exact, out = np.ones(1, np.longdouble), []
    for m in raw.numpy().astype(np.longdouble):  # up to 1e730, where float64 ends at 1e308
        exact = m @ exact if exact.ndim == 2 else m
        out.append(exact)
    for layer in range(24):
        top = out[layer].max()
        close(got.scores[layer], torch.from_numpy((out[layer] / top).astype(np.float64)))
        assert got.meta["log_scale"][layer] == pytest.approx(float(np.log(top)), rel=1e-12)


def test_rollout_of_zeros_is_zero():
    maps = replace(maps_of("globenc"), scores=torch.zeros(3, 9, 9, dtype=torch.float64))
    assert (maps.rollout().scores == 0).all()


def test_rollout_of_one_head_is_over_the_mean_of_all_below():
    maps = maps_of("attention", per_head=True)
    heads = 0.5 * maps.scores + 0.5 * torch.eye(len(TEXT), dtype=torch.float64)
    below = product(heads.mean(1))
    for k in range(4):
        expected = torch.stack([heads[0, k], *(heads[layer, k] @ below[layer - 1] for layer in (1, 2))])
        got = maps.rollout(head=k)
        close(got.scores, expected)
        assert got.meta["head"] == k
    close(maps.rollout(head=-1).scores, maps.rollout(head=3).scores)


REFUSED = [
    ("globenc", {"residual": 0.5}, Undefined, "already holds the residual; roll it out with residual=None"),
    ("alti", {"residual": 0.5, "normalize": True}, Undefined, "already holds the residual"),
    ("norm", {"residual": 0.5}, Undefined, "do not sum to 1.*use normalize=True"),
    ("effective_attention", {}, Undefined, "is signed.*use mean\\(\\) or layer\\(k\\)"),
    ("attention", {"residual": 1.0}, UnknownOption, "a share in \\[0, 1\\), got 1.0"),
    ("attention", {"residual": -0.1}, UnknownOption, "a share in"),
    ("attention", {"residual": True}, UnknownOption, "got True"),
    ("attention", {"residual": "half"}, UnknownOption, "got 'half'"),
    ("attention", {"head": 0}, UnknownOption, "per_head=True"),
]


@pytest.mark.parametrize(("method", "options", "error", "says"), REFUSED)
def test_rollouts_that_mean_nothing_are_refused(method, options, error, says):
    with pytest.raises(error, match=says):
        maps_of(method).rollout(**options)


def test_maps_of_heads_need_a_head():
    maps = maps_of("attention", per_head=True)
    with pytest.raises(Undefined, match="pass head=k, or ask for maps without per_head"):
        maps.rollout()
    with pytest.raises(UnknownOption, match=r"expected head=0 to 3 .*, got 4"):
        maps.rollout(head=4)


def test_maps_are_aggregated_once():
    with pytest.raises(Undefined, match="already aggregated by rollout; aggregate once"):
        maps_of("alti").rollout().rollout()
    with pytest.raises(Undefined, match="already aggregated by mean"):
        maps_of("alti").mean().sum()


# --- several streams ---


def random_rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decoder(layers: int = 4, target: int = 5, source: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    """Maps T, S and the encoder's rollout; rows of T and S together sum to 1."""
    rows = random_rows(layers, target, target + source)
    rows = rows / rows.sum(-1, keepdim=True)
    encoder = random_rows(source, source, seed=1)
    return rows[..., :target], rows[..., target:], encoder / encoder.sum(-1, keepdim=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rescale", [False, True])
def test_one_stream_is_the_rollout(rescale, dtype):
    """But for rounding: a processor's products may depend on where in memory a matrix begins."""
    maps = random_rows(6, 11, 11).to(dtype)
    expected, logs = [], []
    for m in maps:
        product = m.double() @ expected[-1] if expected else m.double()
        expected.append(product / product.max() if rescale else product)
        logs.append((logs[-1] if logs else 0.0) + (product.max().log() if rescale else 0.0))
    rolled, scale = rollout_streams({("x", "x"): maps}, rescale=rescale)
    assert (rolled["x", "x"] / torch.stack(expected) - 1).abs().max() <= 1e-13
    assert (scale - torch.tensor(logs, dtype=torch.float64)).abs().max() <= 1e-13
    got, again = rollout_scaled(maps, rescale=rescale)
    assert torch.equal(got, rolled["x", "x"])
    assert torch.equal(again, scale)


def test_a_decoder_s_rollout_is_that_of_two_equations():
    t, s, encoder = decoder()
    got, _ = rollout_streams({("t", "t"): t, ("t", "s"): s}, {("s", "s"): encoder})
    assert set(got) == {("t", "t"), ("t", "s")}
    to_target, to_source = [t[0]], [s[0] @ encoder]
    for layer in range(1, 4):
        to_source.append(s[layer] @ encoder + t[layer] @ to_source[-1])
        to_target.append(t[layer] @ to_target[-1])
    close(got["t", "t"], torch.stack(to_target))
    close(got["t", "s"], torch.stack(to_source))
    close(got["t", "t"].sum(-1) + got["t", "s"].sum(-1), torch.ones(4, 5, dtype=torch.float64))


def test_streams_are_blocks_of_one_matrix():
    """One matrix over all tokens, the identity where a stream stays, rolled out as one stream."""
    t, s, encoder = decoder()
    whole = torch.zeros(4, 12, 12, dtype=torch.float64)
    whole[:, :5, :5], whole[:, :5, 5:], whole[:, 5:, 5:] = t, s, torch.eye(7, dtype=torch.float64)
    first = torch.eye(12, dtype=torch.float64)
    first[5:, 5:] = encoder
    expected = product(torch.cat([first[None], whole]))[1:]
    got, _ = rollout_streams({("t", "t"): t, ("t", "s"): s}, {("s", "s"): encoder})
    close(got["t", "t"], expected[:, :5, :5])
    close(got["t", "s"], expected[:, :5, 5:])
    plain, _ = rollout_streams({("t", "t"): t, ("t", "s"): s})  # the memory is its own tokens
    close(plain["t", "s"], product(whole)[:, :5, 5:])


def test_streams_that_read_each_other():
    """Both move, and one comes from the other from the second layer on only."""
    a, b, c = random_rows(3, 4, 4), random_rows(3, 4, 2, seed=1), random_rows(3, 2, 3, seed=2)
    got, _ = rollout_streams({("a", "a"): a, ("a", "b"): b, ("b", "c"): c})
    assert torch.equal(got["a", "b"][0], b[0])
    assert (got["a", "c"][0] == 0).all()
    close(got["a", "b"][1], a[1] @ b[0])
    close(got["a", "c"][1], b[1] @ c[0])
    close(got["a", "c"][2], a[2] @ b[1] @ c[0] + b[2] @ c[1])
    close(got["b", "c"], c)


def test_rescaled_streams_keep_their_shares():
    t, s, encoder = decoder(24)
    t, s = 1e30 * t, 1e30 * s
    got, logs = rollout_streams({("t", "t"): t, ("t", "s"): s}, {("s", "s"): encoder}, rescale=True)
    plain, _ = rollout_streams({("t", "t"): t, ("t", "s"): s}, {("s", "s"): encoder})
    assert all(torch.isfinite(m).all() for m in (*got.values(), logs))
    assert not all(torch.isfinite(m).all() for m in plain.values())  # 1e720
    for layer in range(9):  # what float64 holds without
        assert max(float(m[layer].max()) for m in got.values()) == 1.0
        for pair, m in plain.items():
            close(got[pair][layer], m[layer] / logs[layer].exp(), 1e-11)


@pytest.mark.parametrize(
    ("maps", "below", "says"),
    [
        ({}, {}, r"expected maps of as many layers for every pair of streams, got \[\]"),
        ({("t", "t"): (2, 3, 3), ("t", "s"): (3, 3, 4)}, {}, r"as many layers for every pair of streams, got \[2, 3\]"),
        ({("t", "t"): (2, 3, 4)}, {}, "expected as many tokens of 't' in every map, got 3 and 4"),
        ({("t", "s"): (2, 3, 4)}, {("s", "s"): (5, 5)}, "expected as many tokens of 's' in every map, got 4 and 5"),
    ],
)
def test_streams_that_do_not_fit_are_refused(maps, below, says):
    with pytest.raises(Undefined, match=says):
        rollout_streams({k: torch.ones(v) for k, v in maps.items()}, {k: torch.ones(v) for k, v in below.items()})


# --- the others ---


def test_mean_sum_and_layer():
    maps = maps_of("globenc")
    s = maps.scores
    close(maps.mean().scores, torch.stack([s[0], (s[0] + s[1]) / 2, s.mean(0)]))
    close(maps.sum().scores, torch.stack([s[0], s[0] + s[1], s.sum(0)]))
    for k in (0, 1, 2, -1, -3):
        assert torch.equal(maps.layer(k).scores, s[k][None])
    assert maps.layer(1).aggregation == "layer:1"
    assert maps.rollout().layer(-1).aggregation == "rollout"
    assert torch.equal(maps.rollout().layer(-1).scores[0], maps.rollout().scores[-1])
    assert not maps_of("alti").sum().rows_sum_to_one
    assert maps_of("alti").mean().rows_sum_to_one


def test_maps_of_heads_are_aggregated_head_by_head():
    """Layers and heads are one number here, so that a mean over the wrong axis would not be seen by its shape."""
    lens = families.lens("albert-groups")  # four of each
    maps = lens.mixing(TEXT, method="attention", per_head=True)
    assert maps.scores.shape[:2] == (4, 4)
    for name, options in {"mean": {}, "sum": {}, "layer": {"k": 2}}.items():
        whole = getattr(maps, name)(**options)
        for head in range(4):
            one = replace(maps, scores=maps.scores[:, head])
            assert torch.equal(whole.scores[:, head], getattr(one, name)(**options).scores)


@pytest.mark.parametrize("k", [3, -4, True])
def test_layers_that_are_not_there(k):
    with pytest.raises(UnknownOption, match="expected a layer of -3 to 2, got"):
        maps_of().layer(k)


def test_rows():
    maps = maps_of()
    assert torch.equal(maps.row(2), maps.scores[:, 2])
    assert torch.equal(maps.row(-1), maps.scores[:, -1])
    assert torch.equal(maps.row("max"), maps.scores.max(1).values)
    for i in (9, -10, "min"):
        with pytest.raises(UnknownOption, match="expected a row of -9 to 8 or 'max', got"):
            maps.row(i)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_aggregations_leave_the_maps_alone(name):
    maps = maps_of("alti")
    before = maps.scores.clone()
    getattr(maps, name)(*([0] if name == "layer" else []))
    assert torch.equal(maps.scores, before)
    assert maps.aggregation is None
    assert "residual" not in maps.meta


# --- causal models ---

CAUSAL = [n for n, f in families.FAMILIES.items() if f.causal]
HOW = {"rollout": {}, "mean": {}, "sum": {}, "layer": {"k": -1}}


@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma2"])
def test_uniform_attention_spreads_evenly_over_the_receptive_field(name):
    model = copy.deepcopy(families.model(name))
    for module in model.modules():  # no query, no preference
        if hasattr(module, "q_proj"):
            module.q_proj.weight.data.zero_()
            module.q_proj.bias is not None and module.q_proj.bias.data.zero_()
        if hasattr(module, "c_attn"):
            module.c_attn.weight.data[:, :32].zero_()
            module.c_attn.bias.data[:32].zero_()
    maps = mixlens.load(model).mixing(TEXT, method="attention")
    for aggregation, how in HOW.items():
        got = getattr(maps, aggregation)(**how, receptive_field=True)
        seen = (getattr(maps, aggregation)(**how).scores > 0).double()
        close(got.scores, seen / seen.sum(-1, keepdim=True))
        assert got.meta["receptive_field"] is True, aggregation
        assert got.rows_sum_to_one, aggregation


@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma2", "gpt_neox"])
@pytest.mark.parametrize("method", ["attention", "attention_fixed_res", "globenc", "alti", "value_zeroing"])
def test_appended_tokens_change_no_earlier_row(name, method):
    def rows(n: int, aggregation: str) -> Tensor:
        maps = maps_of(method, name, n)
        return getattr(maps, aggregation)(**HOW[aggregation], receptive_field=True).scores

    for aggregation in HOW:
        close(rows(9, aggregation)[:, :6, :6], rows(6, aggregation))


def test_sliding_windows_are_known():
    assert families.lens("mistral").mixing(TEXT, method="attention").windows == (3, 3, 3)
    assert families.lens("gemma2").mixing(TEXT, method="attention").windows == (3, None, 3)
    assert families.lens("gpt2").mixing(TEXT, method="attention").windows == (None, None, None)
    assert families.lens("modernbert").mixing(TEXT, method="attention").windows is None


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_encoders_have_no_receptive_field(name):
    with pytest.raises(Undefined, match="expected maps of a causal model"):
        maps_of("alti", name).rollout(receptive_field=True)


def test_receptive_field_is_not_defined_per_head():
    with pytest.raises(MixlensError, match="not defined per head"):
        maps_of("attention", "gpt2", per_head=True).rollout(head=0, receptive_field=True)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_rows_of_a_rollout_are_rows_of_the_rollout(share):
    maps = torch.rand(4, 6, 6, dtype=torch.float64).tril().clamp_min(1e-3)
    maps /= maps.sum(-1, keepdim=True)
    rows = torch.eye(6, dtype=torch.float64)[[5, 0, 2]]
    reached = rows
    for layer_map in reversed(maps):
        reached = down(reached, [(slice(0, 2), layer_map[:2]), ([5, 2, 3, 4], layer_map[[5, 2, 3, 4]])], share)
    whole = functions.rollout(functions.add_residual(maps, share))[-1]
    torch.testing.assert_close(reached, whole[[5, 0, 2]], rtol=1e-12, atol=1e-15)
    assert torch.equal(rows, torch.eye(6, dtype=torch.float64)[[5, 0, 2]])


@given(st.integers(1, 40), st.integers(0, 45), st.sampled_from([0.0, 0.3, 0.5]), st.integers(0, 2**32 - 1))
def test_uniform_attention_in_closed_form_is_that_of_its_map(n, width, share, seed):
    window = width or None
    rows = torch.rand(2, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    rows = rows * 10.0 ** torch.linspace(-30, 0, n, dtype=torch.float64)  # what is small stays what it is
    want = rows @ functions.add_residual(functions.uniform([window], n)[0], share)
    torch.testing.assert_close(down_uniform(rows, window, share), want, rtol=1e-12, atol=0)


def test_a_map_is_taken_in_pieces(monkeypatch):
    rows, maps = torch.rand(2, 7, dtype=torch.float64), torch.rand(7, 7)
    monkeypatch.setattr(aggregate_down, "PIECE_BYTES", 7 * 8 * 3)
    torch.testing.assert_close(down(rows, [(slice(None), maps)]), rows @ maps.double(), rtol=1e-14, atol=1e-15)
