"""One text through the model, and its layers' maps again from the top down, some query rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from mixlens.aggregate.down import Part
from mixlens.capture.attention import blocks
from mixlens.capture.replay import Replay
from mixlens.capture.run import LayerPass, Reading, run
from mixlens.capture.sight import Sight, Sights
from mixlens.capture.stream import Stream
from mixlens.decompose import Block, CallCheck
from mixlens.decompose.scratch import keep_pages, release
from mixlens.precision import at_least_single
from mixlens.progress import Progress
from mixlens.subject.finite import not_finite
from mixlens.subject.outputs import part_logits
from mixlens.subject.passes import OnBlock
from mixlens.subject.subject import Subject

KEPT_BYTES = 256 << 20  # of a text's maps that are kept from the pass; for more, each layer is run a second time
PART_BYTES = 64 << 20  # of a map's rows at a time, where it is made on the way down


def keeps_maps(layers: int, n: int, item: int) -> bool:
    """Whether all maps of a text of n tokens are few enough bytes to be kept."""
    return layers * n * n * item <= KEPT_BYTES


def is_long(subject: Subject, tokens: Stream) -> bool:
    """Whether a text's maps are too many bytes to be kept."""
    return not keeps_maps(subject.layers, len(tokens), at_least_single(subject.model.dtype).itemsize)


class Descent:
    """The pass of one text; then `layers`, from the last to the first, each with its map in blocks of query rows.

    The maps themselves are kept where all of them are few bytes, else each layer's input, and the layer is run again
    on the way down: one layer's block of rows lives at a time, and the products of a rollout are made of rows.

    `on_block` gives (1, query, key); `by_rows`: of some rows with less work. `top`: the query rows that are wanted of
    the last layer. `watch`: sees each layer on the way up. `at`: where the head's answer is read (`logits`); None: the
    head is not run. `output`: what the pass gave; `off`: how far its layers are off the model's own numbers. Raises
    SelfCheckFailed, NotFinite.
    """

    def __init__(
        self,
        subject: Subject,
        tokens: Stream,
        on_block: OnBlock,
        *,
        by_rows: bool,
        top: Sequence[int] | None = None,
        watch: Callable[[Block], None] | None = None,
        at: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        keep_pages()
        self._subject, self._on_block, self._by_rows, self._watch = subject, on_block, by_rows, watch
        self._progress, self._top = progress, None if top is None else list(top)
        self._count, n = subject.layers, len(tokens)
        self._sights, self._maps, self._sums = Sights([n]), dict[int, list[Part]](), CallCheck([n], self._count)
        self._size = max(1, PART_BYTES // (n * at_least_single(subject.model.dtype).itemsize))
        self._replay: Replay | None = None  # where the maps are not kept
        (batch,) = subject.batches([tokens], 1)
        at_each = None if at is None else [at]
        reading = Reading(at is not None, at_each)
        with torch.no_grad():
            try:
                if is_long(subject, tokens):
                    self._replay = Replay(subject.model, subject.spec, batch.inputs, self._up, reading)
                    self.output = self._replay.output
                else:
                    self.output = run(subject.model, subject.spec, batch.inputs, self._up_with_maps, reading)
            finally:
                release()
        self.off = self._sums.require()
        logits = None if at_each is None else part_logits(self.output, subject.head.keys, at_each, [n])
        self.logits: tuple[Tensor, ...] | None = None if logits is None else logits[0]

    @property
    def sights(self) -> list[Sight]:
        """What the rows may see in each layer."""
        return self._sights.texts[0]

    def layers(self) -> Iterator[tuple[int, Iterator[Part]]]:
        """(layer, its map in blocks of rows), from the last layer to the first."""
        try:
            for index in reversed(range(self._count)):
                yield index, self._finite(index)
                if self._progress is not None:
                    self._progress(2 * self._count - index, 2 * self._count)
        finally:
            release()

    def _up(self, seen: LayerPass, block: Block | None = None) -> None:
        block = block or Block(self._subject.spec, seen)
        self._sights.look(block.call)
        self._sums.look(block)
        if self._watch is not None:
            self._watch(block)
        if self._progress is not None:
            self._progress(seen.index + 1, 2 * self._count)

    def _up_with_maps(self, seen: LayerPass) -> None:
        block = Block(self._subject.spec, seen)
        self._maps[seen.index] = list(self._parts(seen.index, block))
        self._up(seen, block)

    @torch.no_grad()
    def _parts(self, index: int, block: Block) -> Iterator[Part]:
        n, top = block.x.shape[1], self._top
        wanted = list(range(n)) if top is None or index + 1 < self._count else top
        if not self._by_rows or (len(wanted) == n and n <= self._size):
            yield slice(None), self._on_block(block)[0]
            return
        for piece in blocks(len(wanted), self._size):
            rows = wanted[piece]
            at = torch.tensor([rows], dtype=torch.int64, device=block.x.device)
            yield rows if len(wanted) < n else slice(rows[0], rows[-1] + 1), self._on_block(block.only(at))[0]

    @torch.no_grad()
    def _made(self, index: int) -> Iterator[Part]:
        """The parts of a layer: kept from the pass, or of the layer run again."""
        if self._replay is None:
            yield from self._maps.pop(index)
            return
        with self._replay.again(index) as seen:
            yield from self._parts(index, Block(self._subject.spec, seen))

    def _finite(self, index: int) -> Iterator[Part]:
        """The parts of a layer; NaN is named."""
        for rows, part in self._made(index):
            if not bool(torch.isfinite(part).all()):
                raise not_finite(self._subject.model, "a score")
            yield rows, part
