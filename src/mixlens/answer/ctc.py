"""What a CTC head says: a class a frame. Which frames a question is about: one, a stretch, or those of a word."""

from __future__ import annotations

import torch
from torch import Tensor

from mixlens.answer.classes import find, name
from mixlens.capture.sound import Sound
from mixlens.capture.stream import Stream
from mixlens.errors import TargetError
from mixlens.subject.head import Head
from mixlens.target import Target


def frames_asked(stream: Stream, target: Target) -> tuple[int, ...]:
    """The frames whose classes are explained. Raises TargetError."""
    assert isinstance(stream, Sound)
    at, n = target.position, len(stream)
    if isinstance(at, int):
        if not -n <= at < n:
            raise TargetError(f"expected a frame of -{n} to {n - 1}, got {at}")
        return (at % n,)
    if at is not None:
        if target.what is not None or target.foil is not None:
            raise TargetError("expected no target and no foil for the frames of a stretch, which have a class each")
        if len(at) != 2 or not 0 <= at[0] <= at[1] < n:
            raise TargetError(f"expected position=(first, last), frames of 0 to {n - 1}, got {at}")
        return _speaking(stream, range(at[0], at[1] + 1), f"frames {at[0]} to {at[1]}")
    homes = stream.homes()
    words = [w for w, _, _ in stream.words or ()]
    fits = [
        k for k, word in enumerate(words) if isinstance(target.what, str) and word.casefold() == target.what.casefold()
    ]
    inside = [[i for i, home in enumerate(homes) if home == k] for k in fits]
    if len(fits) == 1:
        if target.foil is not None:
            raise TargetError("expected no foil for a word of several frames; ask about one: position= its frame")
        return _speaking(stream, inside[0], f"the word {target.what!r}")
    if fits:
        where = " or ".join(f"({frames[0]}, {frames[-1]})" for frames in inside if frames)
        raise TargetError(
            f"expected a word that is said once, {target.what!r} is said {len(fits)} times; pass {where}"
            " as mixlens.Target(position=...)"
        )
    heard = f"a word ({', '.join(dict.fromkeys(words))})" if words else "a word, where words= says when they are said"
    raise TargetError(
        f"a CTC head says something in every frame: ask about {heard}, or about frames, mixlens.Target(position=i) or "
        f"(first, last), of 0 to {n - 1}; got {target.what!r}"
    )


def resolved(
    head: Head, target: Target, parts: tuple[int, ...], logits: tuple[Tensor, ...]
) -> tuple[Target, tuple[int, ...], dict[str, object]]:
    """The target with its label, the class of each frame, and what is reported. Raises TargetError."""
    each = [logits[p].double() for p in parts]
    best = [int(z.argmax()) for z in each]
    indices, foil = list(best), None
    if isinstance(target.position, int) and target.what is not None:
        indices = [find(head, target.what, len(each[0]))]
    if target.foil is not None:
        foil = find(head, target.foil, len(each[0]))
    if foil is not None and foil in indices:
        raise TargetError(f"expected a foil other than the target, got {target.foil!r} for both")
    p = float(torch.stack([z.log_softmax(-1)[i] for z, i in zip(each, indices, strict=True)]).sum().exp())
    top = float(torch.stack([z.log_softmax(-1).amax() for z in each]).sum().exp())
    word = target.what if isinstance(target.what, str) and not isinstance(target.position, int) else None
    label = word or "".join(name(head, i) for i in indices)
    full = Target(
        target.what, target.foil, target.position, target.of, indices[0] if len(indices) == 1 else None, label, foil
    )
    reported = {"prediction": word or "".join(name(head, i) for i in best), "probability": top, "target_probability": p}
    if foil is not None:
        reported["foil_probability"] = float(each[0].softmax(-1)[foil])
    return full, tuple(indices), reported


def _speaking(stream: Sound, frames: range | list[int], which: str) -> tuple[int, ...]:
    """Those of the frames in which something is said. Raises TargetError where nothing is."""
    emitted = stream.emitted or (None,) * len(stream)
    out = tuple(i for i in frames if emitted[i] is not None)
    if not out:
        raise TargetError(f"expected frames in which the model says something, in {which} it says nothing (all blank)")
    return out
