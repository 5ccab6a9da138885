"""The compiled loop gives what torch's passes and the definition give; without `llvmlite` torch's passes are taken."""

from __future__ import annotations

import sys

import pytest
import torch

import mixlens
from mixlens.decompose import fused, terms
from mixlens.decompose.compiled import checked, compiled, lanes
from mixlens.decompose.fused import distances_source, fused_distances, fused_grams, grams_source
from models import families

CACHES = (lanes, fused_distances, fused_grams)


def forget() -> None:
    """What was compiled is compiled anew."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture
def compiled_anew():
    forget()
    yield
    forget()


def _none(*sizes: object) -> None:
    return None


@pytest.fixture(scope="module", params=[4, 8, None], ids=["sse", "avx2", "widest"])
def width(request):
    """Registers of 4, 8, and as many numbers as this machine has."""
    pytest.importorskip("llvmlite")
    forget()
    with pytest.MonkeyPatch.context() as patch:
        if request.param is not None:
            if request.param > lanes():
                pytest.skip("this machine has no registers of that width")
            patch.setattr(fused, "lanes", lambda: request.param)
        yield
    forget()


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(
    ("texts", "keys", "rows", "heads", "dim"),
    [(1, 1, 1, 1, 16), (3, 5, 9, 12, 48), (2, 33, 40, 4, 768), (1, 8, 8, 6, 400)],
)
def test_the_loop_gives_the_definition(p, texts, keys, rows, heads, dim):
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


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(("tokens", "heads", "dim"), [(1, 1, 16), (7, 4, 48), (40, 12, 768), (5, 9, 400)])
def test_the_inner_products_are_those_of_float64(residual, tokens, heads, dim):
    draw = torch.Generator().manual_seed(dim)
    w, own = torch.randn(heads, tokens, dim, generator=draw), torch.randn(tokens, dim, generator=draw)
    out = torch.empty(tokens, heads + residual, heads + residual, dtype=torch.float64)
    fused_grams(heads, dim, residual)(w, own if residual else None, out)
    each = torch.cat([w, own[None]] if residual else [w]).double().transpose(0, 1)
    assert (out - each @ each.mT).abs().max() <= 1e-12 * dim
    assert torch.equal(out, out.mT)


@pytest.mark.parametrize(
    ("name", "method", "options"),
    [
        *(("bert", method, options) for method, options in (("alti", {"p": 1}), ("globenc", {}), ("norm", {}))),
        *(("gpt2", "alti", {"p": 2}), ("llama", "globenc", {}), ("gemma2", "alti", {"p": 1})),
    ],
)
def test_maps_are_the_same_with_it_and_without(name, method, options, monkeypatch):
    """With the loop or without, in a batch or alone: all within the rounding of float32, as this machine rounds.

    Kernels of other machines sum in another order, and which one runs depends on the batch, so no number is the limit
    everywhere. What float32 does to a text alone, against float64, is measured here: E. Another order of the same sums
    errs about as much, 3 E at most, so that two of them differ by 4 E; E itself is a few bits' worth.
    """
    pytest.importorskip("llvmlite")
    lens, texts = families.lens(name, dtype=torch.float32), families.texts()
    exact = [families.lens(name).mixing(text, method, **options).scores for text in texts]
    quick = lens.mixing(texts, method, **options)
    alone = [lens.mixing(text, method, **options) for text in texts]
    for loop in ("fused_distances", "fused_grams"):
        monkeypatch.setattr(terms, loop, _none)
    plain = lens.mixing(texts, method, **options)

    def off(some, others):
        return max(
            float((a.double() - b).abs().max() / c.abs().max()) for a, b, c in zip(some, others, exact, strict=True)
        )

    eps = torch.finfo(torch.float32).eps
    rounding = off([one.scores for one in alone], exact)
    assert rounding <= 256 * eps
    for other in (alone, plain):
        assert off([one.scores for one in quick], [one.scores.double() for one in other]) <= 4 * rounding + 8 * eps


@pytest.mark.parametrize(
    "t",
    [
        torch.zeros(2, 3, dtype=torch.float64),
        torch.zeros(3, 2),
        torch.zeros(2, 4)[:, :3],
        torch.zeros(3, 2).T,
        torch.zeros(2, 3, device="meta"),
        torch.zeros(2, 3, dtype=torch.int32),
        torch.zeros(2, 3).to_sparse(),
    ],
    ids=["type", "shape", "gaps", "order", "device", "numbers", "layout"],
)
def test_memory_that_a_loop_would_misread_is_refused(t):
    with pytest.raises(TypeError, match=r"expected x as a contiguous torch.float32 tensor \(2, 3\) on the CPU"):
        checked("x", t, torch.float32, 2, 3)
    good = torch.zeros(2, 3)
    assert checked("x", good, torch.float32, 2, 3) is good


def test_memory_that_begins_between_two_numbers_is_refused():
    t = torch.frombuffer(bytearray(28), dtype=torch.float32, count=6, offset=1)
    with pytest.raises(TypeError, match="expected x"):
        checked("x", t, torch.float32, 6)


def test_the_loops_refuse_memory_of_another_type():
    pytest.importorskip("llvmlite")
    out = torch.empty(4, 2, 2, dtype=torch.float64)
    with pytest.raises(TypeError, match="head vectors"):
        fused_grams(2, 32, False)(torch.zeros(2, 4, 32, dtype=torch.float64), None, out)
    with pytest.raises(TypeError, match="residuals"):
        fused_grams(2, 32, False)(torch.zeros(2, 4, 32), torch.zeros(4, 32), out)
    with pytest.raises(TypeError, match="targets"):
        fused_distances(2, 32, 1)(
            torch.zeros(1, 4, 8, 2), torch.zeros(1, 4, 2, 32), torch.zeros(1, 8, 16), torch.zeros(1, 4, 8)
        )


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


@pytest.mark.usefixtures("compiled_anew")
def test_without_the_compiler_torch_does_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert fused_distances(4, 32, 1) is None
    assert fused_grams(4, 32, True) is None
    scores = families.lens("bert", dtype=torch.float32).mixing(families.text(), "alti").scores
    assert torch.isfinite(scores).all()


def test_sizes_that_do_not_fit_are_left_to_torch():
    for loop, last in ((fused_distances, 1), (fused_grams, False)):
        assert loop(4, 30, last) is None  # no whole number of registers
        assert loop(65, 64, last) is None  # one long loop body


def test_what_llvm_refuses_is_left_to_torch():
    pytest.importorskip("llvmlite")
    assert compiled("distances", "no such language", 4, 2) is None


@pytest.mark.parametrize("width", [4, 8, 16])
def test_every_machine_s_loops_are_valid(width):
    llvm = pytest.importorskip("llvmlite.binding")
    made = [distances_source(12, 768, p, width, rows) for p in (1, 2) for rows in (4, 8)]
    made += [
        grams_source(heads, 768, own, width // 2, tile) for heads in (1, 12) for own in (False, True) for tile in (3, 4)
    ]
    for text in made:
        llvm.parse_assembly(text).verify()


def test_double_precision_is_torch_s(monkeypatch):
    for loop in ("fused_distances", "fused_grams"):
        monkeypatch.setattr(terms, loop, lambda *sizes: pytest.fail("float64 in a float32 loop"))
    for method in ("alti", "globenc"):
        assert isinstance(families.lens("bert").mixing(families.text(), method), mixlens.LayerMaps)
