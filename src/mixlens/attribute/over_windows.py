"""The passes of texts in windows: one for their answers, and the method's own of the windows that are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mixlens.attribute.calls import attribution_method, attributions, request, room_for
from mixlens.attribute.windowed import Inquiry, Logits, answers_at, cut, inquiry, joined_attribution, refuse_windows
from mixlens.capture.batch import BatchSize
from mixlens.capture.stream import Stream
from mixlens.capture.windows import TextWindow
from mixlens.errors import UnknownOption
from mixlens.progress import Progress, part_of
from mixlens.results import Attribution, Results
from mixlens.subject import Subject
from mixlens.target import Target


@dataclass(frozen=True)
class Windows:
    """How texts are cut: `size` tokens a window, each `stride` behind the one before (None: half)."""

    size: int
    stride: int | None

    @property
    def written(self) -> dict[str, Any]:
        """As a caller wrote it."""
        return {"window": self.size, **({} if self.stride is None else {"stride": self.stride})}

    def lengths(self, subject: Subject, text: Stream) -> list[int]:
        """The tokens of each window of a text. Raises InputError, UnknownOption."""
        return [len(window.tokens) for window in cut(subject, text, self.size, self.stride)]


def of_windows(
    subject: Subject, window: int | None, stride: int | None, truncate: bool, options: Mapping[str, Any]
) -> Windows | None:
    """What is asked of windows; None: nothing. Raises UnknownOption, Undefined."""
    if window is None:
        if stride is not None:
            raise UnknownOption("expected stride= beside window=, got it alone; pass window= as well, or leave it out")
        return None
    if truncate:
        raise UnknownOption("expected window= or truncate=True, got both; windows leave nothing to cut off")
    refuse_windows(subject.head, options.get("readout"))
    return Windows(window, stride)


def over_windows(
    subject: Subject,
    name: str,
    options: Mapping[str, Any],
    targets: Sequence[Target],
    texts: Sequence[Stream],
    windows: Windows,
    batch_size: int,
    progress: Progress | None,
    memory: Any,
) -> list[Attribution]:
    """An Attribution a text; one that fits into a window is explained as it is. Raises as `request`, InputError."""
    chosen, written = attribution_method(subject, name, options), {**options, **windows.written}
    cuts = [cut(subject, text, windows.size, windows.stride) for text in texts]
    short = [i for i, parts in enumerate(cuts) if len(parts) == 1]
    long = [i for i, parts in enumerate(cuts) if len(parts) > 1]
    out: dict[int, Attribution] = {}
    if short:
        goals, streams = [targets[i] for i in short], [texts[i] for i in short]
        ask = request(subject, name, options, goals, streams, batch_size, part_of(progress, 0, 1 + bool(long)), memory)
        (results,) = attributions(subject, [ask])
        out |= {i: replace(result, options=written) for i, result in zip(short, results, strict=True)}
    if long:
        lengths = [len(window.tokens) for i in long for window in cuts[i]]
        _, sizes = room_for(subject, name, chosen, options, lengths, memory, batch_size)
        asks = _inquiries(subject, [(texts[i], cuts[i], targets[i]) for i in long], sizes)
        goals = [goal for about in asks for goal in about.targets]
        streams = [about.windows[number].tokens for about in asks for number in about.chosen]
        told = part_of(progress, bool(short), 1 + bool(short))
        each = request(subject, name, {**options, "normalize": False}, goals, streams, batch_size, told, memory)
        (results,) = attributions(subject, [each])
        for i, about in zip(long, asks, strict=True):
            mine, results = results[: len(about.chosen)], results[len(about.chosen) :]
            out[i] = joined_attribution(chosen, texts[i], about, mine, written)
    return [out[i] for i in range(len(texts))]


def classes_over(
    subject: Subject,
    name: str,
    options: Mapping[str, Any],
    goals: Sequence[Target],
    stream: Stream,
    windows: Windows,
    settings: Mapping[str, Any],
) -> Results[Attribution]:
    """What one text's classes are explained by, an Attribution each."""
    results = over_windows(subject, name, options, goals, [stream] * len(goals), windows, **settings)
    return Results(results, names=[str(result.target and result.target.label) for result in results])


def _inquiries(
    subject: Subject, texts: Sequence[tuple[Stream, Sequence[TextWindow], Target]], sizes: BatchSize
) -> list[Inquiry]:
    """What the windows are asked, by their answers, which one pass of all of them gives."""
    places = [answers_at(subject, whole, windows, target) for whole, windows, target in texts]
    read = [(t, w) for t, at in enumerate(places) for w, place in enumerate(at) if place is not None]
    logits: list[list[Logits | None]] = [[None] * len(at) for at in places]
    if read:
        streams = [texts[t][1][w].tokens for t, w in read]
        answers = [place for at in places for place in at if place is not None]
        passes = subject.through(streams, batch_size=sizes, answers=answers)
        for (t, w), passed in zip(read, passes, strict=True):
            logits[t][w] = passed.logits
    return [
        inquiry(subject, whole, windows, known, target)
        for (whole, windows, target), known in zip(texts, logits, strict=True)
    ]
