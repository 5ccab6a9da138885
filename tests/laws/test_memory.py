"""Layers that read two streams: each attention is an exact sum over its own stream, and `finish` is the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import transformers
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.capture.graph import graph
from mixlens.capture.run import LayerPass, run
from mixlens.decompose import STAGES, Block, residuals
from mixlens.decompose.rest import rest
from mixlens.decompose.zeroing import zeroed
from mixlens.errors import SelfCheckFailed, Undefined
from mixlens.mixing import MIXING
from mixlens.mixing.ratio import mixing_ratio
from models.blocks import vectors
from models.decoders import DECODERS, SOURCE, TARGET, each_block, inputs, model

# Older versions hand the attention of some of these models out in another form, or not at all; what the self-check then
# refuses. No model of two streams is loaded yet, so that the newest is what the vocabulary is held against.
pytestmark = pytest.mark.skipif(
    tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 24),
    reason="decoders of two streams hand their attention out from transformers 5.24 on",
)

every = pytest.mark.parametrize(  # norms behind and in front
    "name", [pytest.param(name, marks=() if name in ("bart", "t5") else pytest.mark.slow) for name in DECODERS]
)


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max()))


def frozen(block: Block, paths: tuple[str, ...], u: Tensor) -> Tensor:
    """Vectors (batch, position, any, dim) through the linear parts of norms with the spreads that they met."""
    for path in paths:
        module, at = block.module.get_submodule(path), block.norms[path][0]
        u, at = u - u.mean(-1, keepdim=True), at - at.mean(-1, keepdim=True)
        u = module.weight * u / (at.pow(2).mean(-1, keepdim=True) + module.eps).sqrt()[:, :, None]
    return u


@every
def test_each_attention_is_a_sum_over_its_own_stream(name):
    def look(block: Block) -> int:
        bias = block.output[1]
        terms = vectors(block.terms("attention"))
        close(terms.sum(2) + (0 if bias is None else bias), block.attn)
        assert torch.equal(block.result("attention"), block.attn)
        close(block.result("residual"), block.x + block.attn)
        return terms.shape[2]

    assert each_block(name, look) == [TARGET, SOURCE] * 2


@every
def test_finish_is_the_rest_of_the_layer(name):
    def look(block: Block) -> None:
        close(block.finish(block.attn), block.y)
        several = torch.stack([block.attn, 2 * block.attn, block.attn.flip(1)], 2)
        got = block.finish(several)
        for k in range(3):
            close(got[:, :, k], block.finish(several[:, :, k]))
        close(got[:, :, 0], block.y)
        assert (got[:, :, 1] - block.y).abs().max() > 1e-2
        assert max(residuals(block).sum_of_terms, residuals(block).finish, residuals(block).norms) < 1e-12

    each_block(name, look)


def output_with(name: str, path: str, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The last layer's output in a plain pass of the model, with what a module of that layer gives changed."""
    got: list[Tensor] = []
    layer = model(name).get_submodule(DECODERS[name].spec.layers)[-1]
    handles = [
        layer.get_submodule(path).register_forward_hook(lambda module, args, out: change(out)),
        layer.register_forward_hook(lambda module, args, out: got.append(out[0] if isinstance(out, tuple) else out)),
    ]
    try:
        with torch.no_grad():
            model(name)(**inputs(name))
    finally:
        for handle in handles:
            handle.remove()
    return got[0]


@every
def test_finish_is_what_the_model_gives_with_that_output(name):
    def change(out: Tensor) -> Tensor:
        return out.flip(0) + 0.5

    expected = [output_with(name, attend.out, change) for attend in DECODERS[name].spec.attends]
    got = each_block(name, lambda block: block.finish(change(block.attn)))
    for one, real in zip(got[-2:], expected, strict=True):
        close(one, real, 1e-11)


@every
def test_only_where_tokens_read_themselves_is_there_a_term_of_their_own(name):
    def look(block: Block) -> None:
        behind = (block.attend.norm, *(part.norm for part in block.behind))
        for stage in STAGES:
            if not block.has(stage):
                continue
            paths = {"ln1": behind[:1], "ln2": behind}.get(stage, ())
            expected = frozen(block, paths, vectors(block.terms("attention")))
            if stage != "attention" and block.one_stream:
                i = torch.arange(TARGET)
                expected[:, i, i] += frozen(block, paths, block.x[:, :, None])[:, :, 0]
            terms, y = block.terms(stage), block.result(stage)
            close(vectors(terms), expected)
            close(terms.norms(), expected.norm(dim=-1))
            close(terms.distances(y, 1), (expected - y[:, :, None]).abs().sum(-1))
        if block.has("ln2"):
            close(block.result("ln2"), block.y)

    each_block(name, look)


OWN = ("attention_fixed_res", "attention_res", "norm_fixed_res")


@every
def test_maps_between_two_streams(name):
    def look(block: Block) -> None:
        if block.one_stream:
            return
        for method in ("attention", "norm", "globenc", "alti", "value_zeroing", "effective_attention"):
            scores = MIXING[method].function(block)
            assert scores.shape == (2, TARGET, SOURCE), method
            assert torch.isfinite(scores).all()
            assert (scores[1, :, -2:] == 0).all(), method  # padding of the memory
            if MIXING[method].rows_sum_to_one:
                close(scores.sum(-1), torch.ones(2, TARGET, dtype=torch.float64))
        for method in OWN:
            with pytest.raises(Undefined, match=r"needs queries and keys of one stream, '.*' reads another, in"):
                MIXING[method].function(block)
        with pytest.raises(Undefined, match="the mixing ratio needs queries and keys of one stream"):
            mixing_ratio(block, "globenc")
        with pytest.raises(Undefined, match="got two streams"):
            block.terms("attention").selves()

    each_block(name, look)


@every
def test_a_zeroed_value_is_finish_without_its_term(name):
    def look(block: Block) -> None:
        literal = block.finish(block.attn[:, :, None] - vectors(block.terms("attention")))
        for rows, keys, part in zeroed(block):
            close(part, literal[:, rows, keys])

    each_block(name, look)


@every
def test_some_rows_and_single_texts_are_those_of_all(name):
    queries = torch.tensor([[3, 1], [0, 4]])

    def look(block: Block) -> None:
        few = block.only(queries)
        at = queries[..., None]
        close(few.finish(few.attn), block.y.gather(1, at.expand(-1, -1, 32)))
        moved = few.finish(few.attn[:, :, None] * torch.tensor([1.0, 2.0], dtype=torch.float64)[:, None])
        whole = block.finish(block.attn[:, :, None] * torch.tensor([1.0, 2.0], dtype=torch.float64)[:, None])
        close(moved, whole.gather(1, at[..., None].expand(-1, -1, 2, 32)))
        norms = block.terms("residual").norms()
        close(few.terms("residual").norms(), norms.gather(1, at.expand(-1, -1, norms.shape[-1])))
        for b, one in enumerate(block.texts()):
            close(one.finish(one.attn), block.y[b : b + 1])

    each_block(name, look)


@every
def test_the_jacobian_of_such_a_layer_is_refused(name):
    def look(block: Block) -> None:
        with pytest.raises(Undefined, match="one self attention and one feed-forward network, got 3 sub-blocks"):
            rest(block)
        with pytest.raises(Undefined, match="one self attention and one feed-forward network, got 3 sub-blocks"):
            block.jacobians()

    each_block(name, look)


@every
def test_half_precision_is_computed_in_float32(name):
    def look(block: Block) -> None:
        assert block.finish(block.attn).dtype == torch.float32
        close(block.finish(block.attn), block.y, 0.05)

    each_block(name, look, torch.bfloat16)


def worst(name: str, spec: Spec) -> float:
    """The largest residual of a model's layers under a spec; infinity where the spec is refused."""
    found: list[float] = []

    def look(seen: LayerPass) -> None:
        found.extend(residuals(Block(spec, seen, number)).worst for number in range(len(spec.attends)))

    try:
        with torch.no_grad():
            run(model(name), spec, inputs(name), look)
    except (SelfCheckFailed, RuntimeError):
        return float("inf")
    return max(found)


@every
def test_a_spec_that_names_another_attention_is_refused(name):
    spec = DECODERS[name].spec
    first, second, feed = spec.chain
    alone = (first, feed) if spec.order == "post" else (first, replace(feed, norm=second.norm))
    wrong = {
        "modules": (replace(first, attention=second.attention), replace(second, attention=first.attention), feed),
        "projections": (replace(first, out=second.out), replace(second, out=first.out), feed),
        "one attention": alone,
        "no network": (first, second),
        "norms": (first, replace(second, norm=feed.norm), replace(feed, norm=second.norm)),
        "stream": (replace(first, reads="memory"), second, feed),
    }
    for what, chain in wrong.items():
        assert worst(name, replace(spec, chain=chain)) > 1e-6, what
    assert worst(name, spec) < 1e-12


def test_a_stream_that_is_not_the_one_read_is_named():
    spec = DECODERS["bart"].spec
    first, second, feed = spec.chain
    crossed = (replace(second, reads="self"), replace(first, reads="memory"), feed)
    for chain, says in (
        ((replace(first, reads="memory"), second, feed), "'self_attn' .* to read 'memory', its keys move .*='self'"),
        (crossed, "'encoder_attn' .* to read 'self', its keys stay .*reads='memory'"),
    ):
        changed = replace(spec, chain=chain)
        with torch.no_grad(), pytest.raises(SelfCheckFailed, match=says):
            run(model("bart"), changed, inputs("bart"), lambda seen, s=changed: residuals(Block(s, seen, 0)))


def test_weights_in_the_graph_need_layers_of_one_attention():
    with pytest.raises(Undefined, match="weights in the graph are defined for layers of one attention, got 2"):
        graph(model("bart"), DECODERS["bart"].spec, inputs("bart"), weights=True)
    with_hidden = graph(model("bart"), DECODERS["bart"].spec, inputs("bart"))
    assert [h.shape for h in with_hidden.hidden] == [(2, TARGET, 32)] * 3
