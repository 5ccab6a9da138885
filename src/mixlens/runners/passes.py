"""Many texts through a model: grouped by length, one layer alive at a time, one tensor a layer and text kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.attribute.outputs import Key, part_logits
from mixlens.capture.batch import BatchSize, Sight, buckets, collate, sight
from mixlens.capture.offload import device_of
from mixlens.capture.run import LayerPass, layer_count, run
from mixlens.capture.text import Tokens
from mixlens.decompose import Block
from mixlens.decompose.scratch import keep_pages, release
from mixlens.errors import UnknownOption
from mixlens.selfcheck import accepts, not_finite, pad_id

Progress = Callable[[int, int], None]  # layers done, layers in all
OnBlock = Callable[[Block], Tensor]
Wanted = Callable[[int, int], "tuple[int, ...] | None"]  # text, layer -> the query rows to make; None: all


@dataclass(eq=False)
class TextPass:
    """What is kept of one text's pass: a tensor a layer (padding cut off), what its rows may see, its answer.

    No layers and no sights where no tensor was asked for.
    """

    tokens: Tokens
    layers: list[Tensor]
    sights: list[Sight]
    logits: tuple[Tensor, ...] | None = None  # (class,) or (vocabulary,) at the asked position; QA: start and end


def through(
    model: Any,
    spec: Spec,
    texts: Sequence[Tokens],
    on_block: OnBlock | None,
    *,
    wanted: Wanted | None = None,
    **how: Any,
) -> list[TextPass]:
    """One `TextPass` a text, in order; `wanted` and the rest: see `stream`."""
    out: list[Any] = [None] * len(texts)
    for members, (ran,) in stream(model, spec, texts, [(on_block, wanted)], **how):
        for i, one in zip(members, ran, strict=True):
            out[i] = one
    return out


@torch.no_grad()
def stream(
    model: Any,
    spec: Spec,
    texts: Sequence[Tokens],
    make: Sequence[tuple[OnBlock | None, Wanted | None]],
    *,
    square: bool = True,
    pad: int | None = None,
    batch_size: BatchSize = 32,
    progress: Progress | None = None,
    answers: Sequence[int] | None = None,
    keys: Sequence[Key] = (),
) -> Iterator[tuple[list[int], list[list[TextPass]]]]:
    """Batch by batch: the numbers of its texts, and for each entry of `make` a `TextPass` a text.

    An entry's function gives (batch, ..., query, key) if `square`, else (batch, token, ...); beside it, the query rows
    of a square result that are made, as many for every text: those alone are kept. `answers`: the position of each
    text where the head's answer is read; without them the head is not run. `keys`: where its logits are.
    Raises UnknownOption, NotFinite.
    """
    keep_pages()
    layers = layer_count(model, spec)
    for done, total, members, inputs in groups(model, texts, batch_size, pad, head=answers is not None):
        sights: list[list[Sight]] = [[] for _ in members]
        out = [[TextPass(texts[i], [], seen) for i, seen in zip(members, sights, strict=True)] for _ in make]
        masks: list[Tensor] = []  # the last layer's
        held: list[tuple[Tensor, list[TextPass], bool]] = []  # where a device works ahead, it is not waited for

        def on_layer(
            seen: LayerPass,
            members: list[int] = members,
            sights: list[list[Sight]] = sights,
            out: list[list[TextPass]] = out,
            masks: list[Tensor] = masks,
            held: list[tuple[Tensor, list[TextPass], bool]] = held,
            before: int = done - 1,
            total: int = total,
        ) -> None:
            block: Block | None = None
            for (on_block, wanted), here in zip(make, out, strict=True):
                if on_block is None:
                    continue
                if block is None:
                    block = Block(spec, seen)
                    _look(block, here, sights, masks)
                rows = None if wanted is None else _rows([wanted(i, seen.index) for i in members], seen.x)
                held.append((on_block(block if rows is None else block.only(rows)), here, rows is not None))
                if held[-1][0].device.type == "cpu":
                    _hand_out(*held.pop(), square)
            if progress is not None:
                progress(before * layers + seen.index + 1, total * layers)

        at = None if answers is None else [answers[i] for i in members]
        try:
            result = run(model, spec, inputs, on_layer, heads=at is not None, at=at)
        finally:
            release()
        for scores, here, some in held:
            _hand_out(scores, here, some, square)
        said = None if at is None else part_logits(result, keys, at, [len(texts[i]) for i in members])
        for here in out:
            for b, one in enumerate(here):
                if not all(bool(torch.isfinite(t).all()) for t in one.layers):
                    raise not_finite(model, "a score")
                one.logits = None if said is None else said[b]
        yield members, out


def _rows(each: list[tuple[int, ...] | None], like: Tensor) -> Tensor | None:
    """The query rows of each text, (batch, row); None where any text's are all wanted."""
    return None if None in each else torch.tensor(each, dtype=torch.int64, device=like.device)


def _look(block: Block, here: Sequence[TextPass], sights: list[list[Sight]], masks: list[Tensor]) -> None:
    """What the rows of each text may see in this layer is put down."""
    mask = block.call.mask
    if mask is not None and masks and masks[-1] is mask:  # most layers share one, and looking at it takes its time
        for known in sights:
            known.append(known[-1])
        return
    masks[:] = [] if mask is None else [mask]
    visible = block.call.visible()
    visible = None if visible is None else visible.cpu()
    for b, (one, known) in enumerate(zip(here, sights, strict=True)):
        known.append(sight(None if visible is None else visible[min(b, len(visible) - 1), 0], len(one.tokens)))


def _hand_out(scores: Tensor, here: Sequence[TextPass], some: bool, square: bool) -> None:
    """A layer's tensor to each text, padding cut off; `some`: of its query rows, which are no padding."""
    scores = scores.cpu()
    for b, one in enumerate(here):
        n = len(one.tokens)
        rows = slice(None) if some else slice(n)
        one.layers.append((scores[b, ..., rows, :n] if square else scores[b, :n]).clone())


def groups(
    model: Any, texts: Sequence[Tokens], batch_size: BatchSize, pad: int | None, *, head: bool
) -> Iterator[tuple[int, int, list[int], dict[str, Tensor]]]:
    """`(number, how many, indices of the texts, model inputs)` of each batch, by length. Raises UnknownOption."""
    if not callable(batch_size) and (type(batch_size) is not int or batch_size < 1):
        raise UnknownOption(f"expected batch_size of 1 or more, got {batch_size!r}")
    fill = pad_id(model) if pad is None else pad
    if head and fill != getattr(model.config, "pad_token_id", None):
        batch_size = 1  # some heads find the last token by the config's padding token, which cannot be filled with here
    names = accepts(model)  # without its head too: what the model as a whole does not take, it never sees
    batches = list(buckets(texts, batch_size))
    for number, members in enumerate(batches, 1):
        chosen = [texts[i] for i in members]
        inputs = collate(chosen, fill, device_of(model), names)
        yield number, len(batches), members, inputs
