"""What a caller passes as a target, as `Target`s: one for a text, or one for each class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixlens.errors import TargetError
from mixlens.subject.head import Head
from mixlens.target import Target

ALL = "all"  # a target: every class


def check_target(target: Any) -> Target:
    """A `Target` from what a caller may pass: None, a label, an index, a token or a Target. Raises TargetError."""
    if isinstance(target, Target):
        return target
    if target is None or (isinstance(target, (str, int)) and not isinstance(target, bool)):
        return Target(target)
    raise TargetError(f"expected a label, an index, a token or a mixlens.Target, got {type(target).__name__}")


def targets_of(target: Any, count: int, single: bool) -> list[Target]:
    """A `Target` for each of `count` texts: one for all, or a list of as many. Raises TargetError."""
    if isinstance(target, list) and not single:
        if len(target) != count:
            raise TargetError(f"expected one target, or one for each of {count} texts, got {len(target)}")
        return [check_target(each) for each in target]
    return [check_target(target)] * count


def every_class(head: Head, target: Any) -> list[Target] | None:
    """A `Target` for each class in the order of the labels, where a target is "all" of them; None where it is not.

    A class that is called so is meant by its name, and so is a token of a language model. Raises TargetError.
    """
    word = target.what if isinstance(target, Target) else target
    if not isinstance(word, str) or word != ALL or head.task not in ("sequence", "token"):
        return None
    if any(label.casefold() == ALL for label in head.labels.values()):
        return None
    if head.task == "token":
        raise TargetError(
            f"target='all' is of classifiers of whole texts, {head.in_words} has classes at each token; ask for one: "
            "mixlens.Target(label, word=...), or position=..."
        )
    chosen = check_target(target)
    if chosen.foil is not None:
        raise TargetError(f"expected no foil beside target='all', got {chosen.foil!r}; name a target for it")
    return [replace(chosen, what=index) for index in sorted(head.labels)]
