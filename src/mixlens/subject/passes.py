"""Many texts through a model: grouped by length, one layer alive at a time, one tensor a layer and text kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, accepts, by_length, layer_count
from mixlens.capture.batch import BatchSize, buckets, collate
from mixlens.capture.offload import device_of
from mixlens.capture.run import LayerPass, Reading, Recorder, Watch
from mixlens.capture.sight import Sight, Sights
from mixlens.capture.stream import Stream
from mixlens.decompose import Block, CallCheck
from mixlens.decompose.scratch import keep_pages, release
from mixlens.errors import UnknownOption
from mixlens.progress import Progress
from mixlens.subject.finite import not_finite
from mixlens.subject.outputs import Key, part_logits

OnBlock = Callable[[Block], Tensor]
Wanted = Callable[[int, int], "tuple[int, ...] | None"]  # text, layer -> the query rows to make; None: all
Made = tuple["OnBlock | None", "Wanted | None"]  # a function of a layer; of which rows its result is to be made


@dataclass(eq=False)
class TextPass:
    """What is kept of one text's pass: a tensor a layer (padding cut off), what its rows may see, its answer.

    No layers and no sights where no tensor was asked for.
    """

    tokens: Stream
    layers: list[Tensor]
    sights: list[Sight]
    logits: tuple[Tensor, ...] | None = None  # (class,) or (vocabulary,) at the asked position; QA: start and end
    off: float | None = None  # how far the layers were off the model's own numbers (see `CallCheck`)


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts that go through the model together: their numbers, and what the model is fed. `number` of `count`."""

    number: int
    count: int
    members: list[int]
    inputs: dict[str, Tensor]


@torch.no_grad()
def passes(
    model: Any,
    spec: Spec,
    texts: Sequence[Stream],
    make: Sequence[Made],
    *,
    pad: int | None,
    square: bool = True,
    batch_size: BatchSize = 32,
    progress: Progress | None = None,
    answers: Sequence[int] | None = None,
    keys: Sequence[Key] = (),
) -> Iterator[tuple[list[int], list[list[TextPass]]]]:
    """Batch by batch: the numbers of its texts, and for each entry of `make` a `TextPass` a text.

    An entry's function gives (batch, ..., query, key) if `square`, else (batch, token, ...); beside it, the query rows
    of a square result that are made, as many for every text: those alone are kept. `answers`: the position of each
    text whose answer by the head is read; without them the head is not run. `keys`: where its logits are. `pad`: the
    id that fills batches up. Raises UnknownOption, NotFinite.
    """
    keep_pages()
    layers, recorder = layer_count(model, spec), Recorder(spec, Watch(lambda seen: None))
    try:
        for batch in batches(model, texts, batch_size, pad, head=answers is not None):
            kept = _Kept(spec, [texts[i] for i in batch.members], batch.members, make, square, layers)

            def on_layer(seen: LayerPass, kept: _Kept = kept, batch: Batch = batch) -> None:
                kept.add(seen)
                if progress is not None:
                    progress((batch.number - 1) * layers + seen.index + 1, batch.count * layers)

            at = None if answers is None else [answers[i] for i in batch.members]
            try:
                recorder.watch = Watch(on_layer)
                result = recorder.run(model, batch.inputs, Reading(at is not None, at))
            finally:
                release()
            kept.hand_out_the_rest()
            logits = None if at is None else part_logits(result, keys, at, [len(texts[i]) for i in batch.members])
            for of_function in kept.passes:
                for b, text_pass in enumerate(of_function):
                    if not all(bool(torch.isfinite(t).all()) for t in text_pass.layers):
                        raise not_finite(model, "a score")
                    text_pass.logits = None if logits is None else logits[b]
            kept.check()
            yield batch.members, kept.passes
    finally:
        recorder.end()


@dataclass(eq=False)
class _Kept:
    """What is kept of a batch, layer by layer: a list of passes a function."""

    spec: Spec
    texts: list[Stream]
    members: list[int]
    make: Sequence[Made]
    square: bool
    count: int  # of layers
    passes: list[list[TextPass]] = field(init=False)
    sights: Sights = field(init=False)
    sums: CallCheck = field(init=False)
    waiting: list[tuple[Tensor, list[TextPass], bool]] = field(default_factory=list)  # a device that works ahead

    def __post_init__(self) -> None:
        self.sights = Sights([len(text) for text in self.texts])
        self.sums = CallCheck([len(text) for text in self.texts], self.count)
        seen = self.sights.texts
        self.passes = [[TextPass(text, [], seen[b]) for b, text in enumerate(self.texts)] for _ in self.make]

    def add(self, seen: LayerPass) -> None:
        """What each function makes of a layer."""
        block: Block | None = None
        for (on_block, wanted), text_passes in zip(self.make, self.passes, strict=True):
            if on_block is None:
                continue
            if block is None:
                block = Block(self.spec, seen)
                self.sights.look(block.call)
                self.sums.look(block)
            rows = None if wanted is None else _rows([wanted(i, seen.index) for i in self.members], seen.x)
            scores = on_block(block if rows is None else block.only(rows))
            self.waiting.append((scores, text_passes, rows is not None))
            if scores.device.type == "cpu":
                self.hand_out_the_rest()

    def check(self) -> None:
        """Tell the texts how far the layers are off. Raises SelfCheckFailed."""
        off = self.sums.require() if self.sums.layers else None
        for of_function in self.passes:
            for text_pass in of_function:
                text_pass.off = off

    def hand_out_the_rest(self) -> None:
        """A layer's tensor to each text, padding cut off; query rows that were asked for are no padding."""
        for scores, text_passes, rowwise in self.waiting:
            scores = scores.cpu()
            for b, text_pass in enumerate(text_passes):
                n = len(text_pass.tokens)
                rows = slice(None) if rowwise else slice(n)
                text_pass.layers.append((scores[b, ..., rows, :n] if self.square else scores[b, :n]).clone())
        self.waiting.clear()


def _rows(each: list[tuple[int, ...] | None], like: Tensor) -> Tensor | None:
    """The query rows of each text, (batch, row); None where any text's are all wanted."""
    return None if None in each else torch.tensor(each, dtype=torch.int64, device=like.device)


def batches(
    model: Any, texts: Sequence[Stream], batch_size: BatchSize, pad: int | None, *, head: bool
) -> Iterator[Batch]:
    """The texts in batches by length. Raises UnknownOption."""
    if not callable(batch_size) and (type(batch_size) is not int or batch_size < 1):
        raise UnknownOption(f"expected batch_size of 1 or more, got {batch_size!r}")
    if head and pad is not None and pad != getattr(model.config, "pad_token_id", None):
        batch_size = 1  # some heads find the last token by the config's padding token, which cannot be filled with here
    names = accepts(model)  # without its head too: what the model as a whole does not take, it never sees
    device = device_of(model)
    members = list(buckets(texts, batch_size, any(map(by_length, model.modules())), device.type == "cpu"))
    for number, group in enumerate(members, 1):
        inputs = collate([texts[i] for i in group], pad, device, model.dtype, names)
        yield Batch(number, len(members), group, inputs)
