"""The decomposition itself: it adds up to the model's own numbers, and its short cuts are only that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mixlens.decompose import STAGES, Block
from mixlens.decompose.zeroing import zeroed, zeroed_plainly
from models import families
from models.blocks import each_block, vectors

QUICK = ("bert", "albert-inner", "gpt2", "gpt_neox", "llama", "gemma2", "modernbert")  # -m slow: all others
every = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in families.FAMILIES]
)


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max()))


def frozen(block: Block, path: str, u: Tensor, bias: bool) -> Tensor:
    """A norm with the spread that it met in the pass, from its definition."""
    module = block.module.get_submodule(path)
    at = block.norms[path][0]
    if block.spec.norm == "layer":
        u, at = u - u.mean(-1, keepdim=True), at - at.mean(-1, keepdim=True)
    eps = module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps
    out = (module.weight + block.spec.one_plus) * u / (at.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return out + module.bias if bias and getattr(module, "bias", None) is not None else out


def rest(block: Block, stage: str) -> Tensor:
    """What no token's term holds: the output bias through the norms, their biases, and the FFN's direct effect."""
    bias, (feed,) = block.output[1], block.behind
    r = torch.zeros_like(block.x) if bias is None else bias.expand_as(block.x)
    if stage != "attention" and block.attend.branch_norm is not None:
        r = frozen(block, block.attend.branch_norm, r, bias=True)
    if stage in ("ln1", "ln2"):
        r = frozen(block, block.attend.norm, r, bias=True)
    if stage == "ln2":
        r = frozen(block, feed.norm, r + block.branch(feed, block.norms[block.attend.norm][1]), bias=True)
    return r


@every
def test_terms_and_biases_add_up_at_every_stage(name):
    def look(block: Block) -> None:
        for stage in STAGES:
            if block.has(stage):
                close(vectors(block.terms(stage)).sum(2) + rest(block, stage), block.result(stage))
        if block.has("ln2"):
            close(block.result("ln2"), block.y)

    each_block(name, look)


@every
def test_finish_of_the_real_output_is_the_real_output(name):
    each_block(name, lambda block: close(block.finish(block.attn), block.y))


@every
def test_short_cuts_equal_the_vectors(name):
    def look(block: Block) -> None:
        for stage in STAGES:
            if not block.has(stage):
                continue
            terms = block.terms(stage)
            t, y = vectors(terms), block.result(stage)
            close(terms.norms(), t.norm(dim=-1))
            for p in (1, 2):
                close(terms.distances(y, p), torch.linalg.vector_norm(t - y[:, :, None], ord=p, dim=-1))
            own = t.diagonal(dim1=1, dim2=2).transpose(1, 2)
            selves, others = terms.selves_and_others()
            close(selves, own)
            close(others, t.sum(2) - own)
            close(terms.selves(), own)
            whole = torch.zeros_like(t)
            for rows, keys, part in terms.chunks():
                whole[:, rows, keys] += part
            close(whole, t)

    each_block(name, look)


@every
def test_zeroing_is_finish_on_every_changed_vector(name):
    def whole(pieces) -> Tensor:
        out: Tensor | None = None
        for rows, keys, part in pieces:
            if out is None:
                n = families.LENGTHS[0]
                out = part.new_full((part.shape[0], n, n, part.shape[-1]), torch.nan)
            out[:, rows, keys] = part
        assert out is not None
        return out

    def look(block: Block) -> None:
        literal = block.finish(block.attn[:, :, None] - vectors(block.terms("attention")))
        close(whole(zeroed(block)), literal)
        close(whole(zeroed_plainly(block)), literal)

    each_block(name, look)


@pytest.mark.parametrize("name", ["bert", "llama", "modernbert"])
def test_folding_a_map_into_the_output_projection_changes_no_number(name):
    """Short texts push head vectors through the FFN's first map, longer ones fold the map into W_O."""
    long = [families.text(30)]  # 30 tokens of 4 heads, over the 32 dimensions
    short = [families.text(3)]

    def look(block: Block) -> None:
        literal = block.finish(block.attn[:, :, None] - vectors(block.terms("attention")))
        for rows, keys, part in zeroed(block):
            close(part, literal[:, rows, keys])

    each_block(name, look, long)
    each_block(name, look, short)


def test_norms_of_cancelling_heads_hold_in_float32():
    """Two heads whose vectors nearly cancel: the Gram matrix in float32 would leave nothing of their sum."""

    def look(block: Block) -> tuple[Tensor, Tensor]:
        terms = block.terms("attention")
        for t in (block.call.q, block.call.k):  # one pair of heads attends alike
            t[:, 1::2] = t[:, ::2]
        terms.projection[1::2] = -terms.projection[::2] * (1 + 1e-4)
        terms.values[:, 1::2] = terms.values[:, ::2]
        alpha = terms.call.weights().double()
        exact = torch.einsum("bhij,bhjc,hcd->bijd", alpha, terms.values.double(), terms.projection.double())
        return terms.norms(), exact.norm(dim=-1)

    for got, expected in each_block("bert", look, dtype=torch.float32):
        assert (got.double() - expected).abs().max() < 5e-3 * expected.max()  # head vectors themselves are rounded
