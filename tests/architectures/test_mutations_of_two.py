"""No change of an encoder-decoder's spec, in either stack, passes the self-check."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from torch import nn

from mixlens.architectures import Attend, Feed, base_model, encoder_of, layer_modules
from models.mutations import changed, mutations, refused
from models.translators import QUICK, lens, model


def in_the_decoder(spec, layer):
    """A path to each other module of the kind, an order, sub-blocks in another order or not there."""
    named = [(path, module) for path, module in layer.named_modules() if path]
    linear = [path for path, module in named if isinstance(module, nn.Linear)]
    norms = [path for path, module in named if "Norm" in type(module).__name__]
    for k, part in enumerate(spec.chain):
        fields = {"norm": norms} if part.norm is not None else {}
        if isinstance(part, Attend):
            fields |= {"out": linear, "attention": [p for p, m in named if "Attention" in type(m).__name__]}
        if isinstance(part, Feed):
            fields["down"] = linear
            for n, up in enumerate(part.up):
                for path in set(linear) - {up}:
                    ups = (*part.up[:n], path, *part.up[n + 1 :])
                    yield f"{k}.up[{n}]={path}", partial(changed, spec, part, up=ups)
        for field, paths in fields.items():
            for path in paths:
                if path != getattr(part, field):
                    yield f"{k}.{field}={path}", partial(changed, spec, part, **{field: path})
        yield f"{k}.scale", partial(changed, spec, part, scale=0.7)
        yield f"no {k}", partial(replace, spec, chain=(*spec.chain[:k], *spec.chain[k + 1 :]))
    first, second, feed = spec.chain
    swapped = (replace(first, reads="memory"), replace(second, reads="self"), feed)
    yield "streams swapped", partial(replace, spec, chain=swapped)
    yield "the encoder's chain", partial(replace, spec, chain=spec.memory.chain)
    yield "network first", partial(replace, spec, chain=(first, feed, second))
    yield "order", partial(replace, spec, order="pre" if spec.order == "post" else "post")
    yield "norm", partial(replace, spec, norm="rms" if spec.norm == "layer" else "layer")
    yield "encoder's layers", partial(replace, spec, layers=spec.layers.replace("decoder", "encoder"))


# Norms behind and in front, gated networks, maps of one output; the other families' decoders are built as bart's, and
# their encoders as the one stack of test_specs.py.
BUILT = ("bart", "mbart", "t5", "t5-gated")


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_every_mutation_is_refused(name):
    whole, spec = model(name), lens(name).spec
    layer = layer_modules(base_model(whole), spec)[-1]
    tried = dict(in_the_decoder(spec, layer))
    assert len(tried) > 20
    below = layer_modules(encoder_of(whole), spec.memory)[-1]
    tried |= {f"encoder {what}": partial(_with, spec, make) for what, make in mutations(spec.memory, below)}
    assert [what for what, make in tried.items() if not refused(whole, make)] == []


def _with(spec, make):
    return replace(spec, memory=make())


@pytest.mark.parametrize("name", QUICK)
def test_a_few_mutations_are_refused(name):
    whole, spec = model(name), lens(name).spec
    tried = dict(in_the_decoder(spec, layer_modules(base_model(whole), spec)[-1]))
    few = ("streams swapped", "the encoder's chain", "order", "encoder's layers")
    assert [what for what in few if not refused(whole, tried[what])] == []
    assert refused(
        whole, lambda: replace(spec, memory=replace(spec.memory, norm="rms" if spec.norm == "layer" else "layer"))
    )
