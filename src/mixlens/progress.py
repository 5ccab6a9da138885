"""`progress=True` is a bar, in terminals and notebooks; the bars of others stay quiet while a model loads."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Progress = Callable[[int, int], None]  # how much is done, of how much
OpenProgress = Callable[[int, "int | None"], None]  # where nobody may know of how much
PartsProgress = Callable[[str, int, "int | None"], None]  # and work has several parts, named


def part_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    """The progress of part `number` of `count`, all parts taken to be as long."""
    return None if progress is None else lambda done, total: progress(number * total + done, count * total)


def reporter(progress: Progress | bool | None) -> Progress | None:
    """What a `barred` function was given for its `progress`."""
    assert not isinstance(progress, bool), "the function is not barred"
    return progress


def barred(function: Callable[P, R]) -> Callable[P, R]:
    """The function, to which `progress=True` is a function that moves a bar, and False is None."""
    expected = signature(function)

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        call = expected.bind(*args, **kwargs)
        wanted = call.arguments.get("progress")
        if not isinstance(wanted, bool):
            return function(*args, **kwargs)
        with bar(function.__name__) if wanted else nullcontext() as report:
            call.arguments["progress"] = report
            return function(*call.args, **call.kwargs)

    return run


@contextmanager
def bar(title: str) -> Iterator[Callable[..., None]]:
    """A bar on standard error or in a notebook, and what moves it: `(done, in all or None)`, a part's name before."""
    from tqdm.auto import tqdm

    with tqdm(desc=title, total=None, leave=True) as line:

        def report(*news: Any) -> None:
            *part, done, total = news
            if part and line.desc != f"{part[0]}: ":
                line.set_description(part[0], refresh=False)
            if done < line.n or total != line.total:  # the next piece of the work
                line.reset(total)
            line.update(done - line.n)

        yield report


@contextmanager
def silent() -> Iterator[None]:
    """Without warnings and what transformers logs, where a model is tried that nobody has; as they were behind it."""
    logger = logging.getLogger("transformers")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own bars; as they were behind it."""
    from transformers.utils import logging

    active = logging.is_progress_bar_enabled()
    try:
        logging._tqdm_active = False  # its function for this turns those of downloads off too
        yield
    finally:
        logging._tqdm_active = active
