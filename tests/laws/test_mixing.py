"""What holds for every mixing method on every architecture; a new line of either table is covered as it stands.

A test is a law on one architecture, and names the method that breaks it. Every method is tried where layers are
built in the ways that methods could tell apart (`WHOLE`). Elsewhere the same formulas read the same parts of a layer,
so there is one method for each kind of work on them (`PARTS`): what a capture or a spec gets wrong shows in these.
"""

from __future__ import annotations

import sys
from functools import cache

import pytest
import torch
from torch import Tensor

import mixlens
from mixlens.architectures import spec_for
from mixlens.mixing import MIXING
from models import families

QUICK = ("bert", "gemma2")  # post- and pre-LN, both norms, grouped heads, a window, a cap; -m slow: all others
# and parallel layers, experts, shared layers, attention seen at its softmax, sinks, two norms a branch
WHOLE = (*QUICK, "gpt_neox", "qwen3_moe", "albert-groups", "deberta-v2", "gpt_oss", "opt-post")
# The pass alone, norms and vectors of terms, those of heads, the null space, the rest of the layer. (Its Jacobian
# is tried on QUICK, and held against autograd's on every family: tests/oracles/test_hta.py.)
PARTS = ("attention", "globenc", "alti", "ifr", "effective_attention", "value_zeroing")


def chunk_sizes() -> list[tuple[object, str]]:
    """Where each chunk size stands, its importers included: constants of modules that end in `_BYTES`."""
    modules = [module for name, module in sys.modules.items() if name.startswith("mixlens.")]
    return [(module, name) for module in modules for name in vars(module) if name.endswith("_BYTES")]


def methods(name: str) -> list[str]:
    """The methods that are tried on a family."""
    spec = spec_for(families.config_of(name))
    whole = [m for m, facts in MIXING.items() if name in QUICK or facts.work != "jacobian"]
    return [method for method in (whole if name in WHOLE else PARTS) if MIXING[method].defined(spec)]


everywhere = pytest.mark.parametrize("name", families.each(QUICK))
CAUSAL = [name for name, family in families.FAMILIES.items() if family.causal]


def test_every_method_and_every_kind_of_work_is_tried():
    assert {method for name in QUICK for method in methods(name)} == {*MIXING}
    assert {*WHOLE} <= {*families.FAMILIES}
    assert {MIXING[m].costs for m in PARTS} == {facts.costs for facts in MIXING.values() if facts.work != "jacobian"}


def maps(name: str, method: str, text: object, dtype: torch.dtype = torch.float64) -> Tensor | list[Tensor]:
    got = families.lens(name, dtype=dtype).mixing(text, method=method)
    return [one.scores for one in got] if isinstance(got, list) else got.scores


@cache
def alone(name: str, method: str, n: int) -> mixlens.LayerMaps:
    """The maps of the first n tokens of the text, with nothing beside it."""
    return families.lens(name).mixing(families.text()[:n], method=method)


def close(got: Tensor, expected: Tensor, method: str, tolerance: float = 1e-12) -> None:
    assert got.shape == expected.shape, method
    assert (got - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max())), method


def padded(name: str, texts: list[list[int]], left: bool) -> dict[str, Tensor]:
    width = max(map(len, texts))
    pad = families.FAMILIES[name].settings["pad_token_id"]
    rows = [([pad] * (width - len(t)), [0] * (width - len(t)), t, [1] * len(t)) for t in texts]
    return {
        "input_ids": torch.tensor([p + t if left else t + p for p, _, t, _ in rows]),
        "attention_mask": torch.tensor([z + o if left else o + z for _, z, _, o in rows]),
    }


LENGTHS = (9, 5, 1)


@everywhere
def test_batch_mates_and_padding_change_no_number(name):
    texts = [families.text()[:n] for n in LENGTHS]
    for method in methods(name):
        for n, got in zip(LENGTHS, maps(name, method, padded(name, texts, left=True)), strict=True):
            close(got, alone(name, method, n).scores, method)


@pytest.mark.parametrize("name", families.each())
def test_padding_on_either_side_or_none_is_the_same_batch(name):
    texts = [families.text()[:n] for n in LENGTHS]
    first, *others = (
        maps(name, "attention", batch) for batch in (texts, padded(name, texts, True), padded(name, texts, False))
    )
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@everywhere
def test_facts_hold(name):
    for method in methods(name):
        for n in LENGTHS:
            facts_hold_of(name, method, n)


def facts_hold_of(name: str, method: str, n: int) -> None:
    facts, got = MIXING[method], alone(name, method, n)
    assert got.scores.shape[1:] == (n, n), method
    assert torch.isfinite(got.scores).all(), method
    assert (got.rows_sum_to_one, got.holds_residual, got.signed) == (
        facts.rows_sum_to_one,
        facts.holds_residual,
        facts.signed,
    ), method
    if not facts.signed:
        assert (got.scores >= 0).all(), method
    if facts.rows_sum_to_one:
        sums = got.scores.sum(-1)
        whole = (~(got.scores == 0).all(-1)).to(sums)  # a row of zeros stays one
        if name == "gpt_oss" and method in ("attention", "attention_fixed_res"):  # but for what the sinks take
            assert (sums < whole - 1e-3).any() and (sums <= whole + 1e-12).all(), method
        else:
            close(sums, whole, method)
        assert (sums > 0).double().mean() > 0.9, method
    assert got.causal == (families.FAMILIES[name].causal and n > 1), method
    if got.causal:
        assert (got.scores.triu(1) == 0).all(), method
    assert got.scores.abs().amax((1, 2)).min() > 0, method


@everywhere
def test_float32_is_float64_but_for_rounding(name):
    for method in methods(name):
        narrow = maps(name, method, families.text(), torch.float32)
        assert narrow.dtype == torch.float32
        close(narrow.double(), alone(name, method, 9).scores, method, 2e-3 if method == "value_zeroing" else 2e-5)


@pytest.mark.parametrize("name", families.each(QUICK, CAUSAL))
def test_appended_tokens_change_no_earlier_row(name):
    for method in methods(name):
        close(alone(name, method, 9).scores[:, :5, :5], alone(name, method, 5).scores, method)


@everywhere
def test_chunk_sizes_change_no_number(name, monkeypatch):
    sizes = {1: 3, 3_000: 5}  # one row or key at a time; a few, and fewer at the end
    whole = {(m, n): alone(name, m, n).scores for m in methods(name) for n in sizes.values()}  # (as the sizes are)
    for size, n in sizes.items():
        for module, constant in chunk_sizes():
            monkeypatch.setattr(module, constant, size)
        for method in methods(name):
            close(maps(name, method, families.text()[:n]), whole[method, n], method)


def test_the_chunk_sizes_are_found():
    assert {"ROW_BYTES", "VECTOR_BYTES", "STEP_BYTES"} <= {name for _, name in chunk_sizes()}


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_repeated_words_have_a_score_a_position(name):
    text = families.text()
    rows = maps(name, "alti", text[:2] + [text[2]] * 3 + text[3:5])[-1, -1]
    assert rows.shape == (7,)
    assert len({float(v) for v in rows[2:5]}) == 3
