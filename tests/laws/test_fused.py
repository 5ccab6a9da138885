"""The compiled loop gives what torch's passes and the definition give; without `llvmlite` torch's passes are taken."""

from __future__ import annotations

import sys

import pytest
import torch

import mixlens
from mixlens.decompose import terms
from mixlens.decompose.fused import fused_distances, source
from models import families


@pytest.fixture(autouse=True)
def _compiled_anew():
    fused_distances.cache_clear()
    yield
    fused_distances.cache_clear()


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(
    ("texts", "keys", "rows", "heads", "dim"),
    [(1, 1, 1, 1, 16), (3, 5, 9, 12, 48), (2, 33, 40, 4, 768), (1, 8, 8, 6, 400)],
)
def test_the_loop_gives_the_definition(p, texts, keys, rows, heads, dim):
    pytest.importorskip("llvmlite")
    draw = torch.Generator().manual_seed(dim)
    a = torch.rand(texts, keys, rows, heads, generator=draw)
    w, y = (torch.randn(texts, *n, dim, generator=draw) for n in ((keys, heads), (rows,)))
    out = torch.empty(texts, rows, keys).transpose(1, 2)
    run = fused_distances(heads, dim, p)
    assert run is not None
    run(a, w, y, out)
    t = torch.einsum("tjih,tjhd->tjid", a.double(), w.double()) - y[:, None].double()
    expected = t.abs().pow(p).sum(-1)
    assert ((out - expected).abs() <= 1e-6 * expected).all()


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2"])
def test_alti_is_the_same_with_it_and_without(name, p, monkeypatch):
    pytest.importorskip("llvmlite")
    lens, texts = families.lens(name, dtype=torch.float32), families.texts()
    fused = lens.mixing(texts, "alti", p=p)
    alone = [lens.mixing(text, "alti", p=p) for text in texts]
    monkeypatch.setattr(terms, "fused_distances", lambda *sizes: None)
    plain = lens.mixing(texts, "alti", p=p)
    for one, single, other in zip(fused, alone, plain, strict=True):
        assert (one.scores - single.scores).abs().max() <= 1e-6
        assert (one.scores - other.scores).abs().max() <= 1e-5


def test_threads_change_no_number():
    pytest.importorskip("llvmlite")
    draw, before = torch.Generator().manual_seed(0), torch.get_num_threads()
    a, w, y = (torch.rand(1, *n, generator=draw) for n in ((70, 64, 4), (70, 4, 64), (64, 64)))
    made = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            made.append(torch.empty(1, 70, 64))
            fused_distances(4, 64, 1)(a, w, y, made[-1])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(made[0], other) for other in made[1:])


def test_without_the_compiler_torch_does_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert fused_distances(4, 32, 1) is None
    scores = families.lens("bert", dtype=torch.float32).mixing(families.text(), "alti").scores
    assert torch.isfinite(scores).all()


def test_sizes_that_do_not_fit_are_left_to_torch():
    assert fused_distances(4, 30, 1) is None  # no whole number of lanes
    assert fused_distances(65, 64, 1) is None  # one long loop body


@pytest.mark.parametrize(("lanes", "rows"), [(4, 4), (8, 4), (16, 8)])
@pytest.mark.parametrize("p", [1, 2])
def test_every_machine_s_loop_is_one(lanes, rows, p):
    llvm = pytest.importorskip("llvmlite.binding")
    module = llvm.parse_assembly(source(12, 768, p, lanes, rows))
    module.verify()
    assert [f.name for f in module.functions if not f.is_declaration] == ["distances"]


def test_double_precision_is_torch_s(monkeypatch):
    monkeypatch.setattr(terms, "fused_distances", lambda *sizes: pytest.fail("float64 in a float32 loop"))
    assert isinstance(families.lens("bert").mixing(families.text(), "alti"), mixlens.LayerMaps)
