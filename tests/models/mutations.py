"""Every change of a spec that makes it another one, and whether a model refuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from torch import nn

from mixlens.architectures import Spec
from mixlens.architectures.spec import SubBlock
from mixlens.errors import MixlensError
from mixlens.subject.check import self_check


def changed(spec: Spec, part: SubBlock, **fields: object) -> Spec:
    """The spec with fields of one sub-block changed."""
    return replace(spec, chain=tuple(replace(p, **fields) if p is part else p for p in spec.chain))


def mutations(spec: Spec, layer: nn.Module) -> Iterator[tuple[str, Callable[[], Spec]]]:
    """The spec with one thing changed: a path to each other module of the kind, an order, a norm's kind ..."""
    named = [(path, module) for path, module in layer.named_modules() if path]
    linear = [p for p, m in named if isinstance(m, nn.Linear) or type(m).__name__ == "Conv1D"]
    norms = [p for p, m in named if "Norm" in type(m).__name__]
    attend, feed = spec.attend, spec.feed
    for path in [p for p, _ in named if p != attend.attention]:
        yield f"attention={path}", partial(changed, spec, attend, attention=path)
    for path in linear:
        if path != attend.out:
            yield f"out={path}", partial(changed, spec, attend, out=path)
        for k, up in enumerate(feed.up):
            if path != up:
                yield f"up[{k}]={path}", partial(changed, spec, feed, up=(*feed.up[:k], path, *feed.up[k + 1 :]))
        if path != feed.down:
            yield f"down={path}", partial(changed, spec, feed, down=path)
    places = [(part, role) for part in spec.chain for role in ("norm", "branch_norm")]
    for k, (part, role) in enumerate(places):
        current, what = getattr(part, role), f"{type(part).__name__}.{role}"
        for path in [*norms, None]:
            if path != current:
                yield f"{what}={path}", partial(changed, spec, part, **{role: path})
        for other, its in places[k + 1 :]:
            if current is not None and getattr(other, its) is not None:
                yield f"{what}<->{type(other).__name__}.{its}", partial(swapped, spec, part, role, other, its)
    for order in ("post", "pre", "parallel"):
        for first in norms if order == "post" else [None]:
            if (order, first) != (spec.order, attend.norm):
                chain = (replace(attend, norm=first), feed)
                yield f"order={order}, norm={first}", partial(replace, spec, order=order, chain=chain)
    yield "reads=memory", partial(changed, spec, attend, reads="memory")
    yield "chain reversed", partial(replace, spec, chain=spec.chain[::-1])
    yield "no network", partial(replace, spec, chain=(attend,))
    yield "network twice", partial(replace, spec, chain=(attend, feed, feed))
    yield "no attention", partial(replace, spec, chain=(feed,))
    yield "attention twice", partial(replace, spec, chain=(attend, *spec.chain))
    yield "norm", partial(replace, spec, norm="rms" if spec.norm == "layer" else "layer")
    yield "one_plus", partial(replace, spec, one_plus=not spec.one_plus)
    if len(feed.up) == 1:
        yield "fused", partial(changed, spec, feed, fused=not feed.fused)
    yield "act", partial(changed, spec, feed, act=feed.down)
    if len(feed.up) == 2:
        yield "up reversed", partial(changed, spec, feed, up=feed.up[::-1])
        yield "up[0] alone", partial(changed, spec, feed, up=feed.up[:1])
        yield "up[1] alone", partial(changed, spec, feed, up=feed.up[1:])
    elif not feed.fused:
        yield "up twice", partial(changed, spec, feed, up=feed.up * 2)
    for k, path in enumerate(attend.qkv or ()):
        for other in linear:
            if other != path:
                qkv = (*attend.qkv[:k], other, *attend.qkv[k + 1 :])
                yield f"qkv[{k}]={other}", partial(changed, spec, attend, qkv=qkv)
    yield "layers=absent", partial(replace, spec, layers="absent")


def swapped(spec: Spec, part: SubBlock, role: str, other: SubBlock, its: str) -> Spec:
    """Two norms in each other's places."""
    here, there = getattr(part, role), getattr(other, its)
    if part is other:
        return changed(spec, part, **{role: there, its: here})
    moved = {id(part): {role: there}, id(other): {its: here}}
    return replace(spec, chain=tuple(replace(p, **moved.get(id(p), {})) for p in spec.chain))


def refused(model: object, make: Callable[[], Spec]) -> bool:
    """Whether a spec cannot be made, or does not survive the self-check."""
    try:
        spec = make()
    except ValueError:
        return True
    try:
        self_check(model, spec, "it").require()
    except MixlensError:
        return True
    return False
