"""Around the work: quiet loading, progress, errors on one line."""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

import mixlens
from mixlens.escape import one_line, visible

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.subject.check import Check

DELAY = 1.0  # seconds of work before progress shows
EVERY = 60.0  # seconds between lines where there is no terminal

# Arguments of the library that are flags here, as errors spell them: `out=`, `truncate=True`, `layers='each'`.
_ARGUMENT = re.compile(
    r"(?<![\w.'\"/-])(answer|batch_size|by|documents|encoding|engine|device|exclude|field|foil|generate|host|kind|layers|level|limit|maps"
    r"|max_new_tokens|measures?|memory|methods?|model|out|port|reference|resamples|row|second|seed|stride|target|task|truncate|window|word|workers)=(True\b|'[^']*'|\d+)?(?![\w\[({\"])"
)


_POSITION = re.compile(r"\bposition=\((\d+), (\d+)\)")


def note(text: str, *, lines: bool = False) -> None:
    """A line on standard error, where what comes from outside steers no terminal; `lines`: as many as there are."""
    with suppress(OSError):  # nobody is there to be told
        typer.echo(visible(text) if lines else one_line(text), err=True)


def say(text: str) -> None:
    """Lines on standard output, likewise."""
    typer.echo(visible(text))


def lost(error: OSError) -> int:
    """What could not be printed, on one line, and the exit code; a reader that has seen enough is none."""
    if not isinstance(error, BrokenPipeError):
        note(f"error: expected to write to standard output, got: {error.strerror or error}")
    return 1


class Verbs(TyperGroup):
    """The verbs; what was typed wrongly is shown by signs where it would steer the terminal."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """The context of a call."""
        with _shown():
            return super().make_context(*args, **more)

    def invoke(self, *args: Any, **more: Any) -> Any:
        """Run the verb."""
        with _shown():
            return super().invoke(*args, **more)


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error
            error.message = visible(getattr(error, "message", ""))  # type: ignore[attr-defined]
        raise


@contextmanager
def goes_on(out: Path | None) -> Iterator[None]:
    """Ctrl-C: what becomes of a run whose folder is `out`, on one line, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        if out is None:
            note("interrupted; nothing is kept without --out DIR, with which the same command goes on")
        else:
            note(f"interrupted; the same command goes on from what is in {out}")
        raise typer.Exit(130) from None


def load(model: str | None) -> Lens:
    """The lens on a folder, a hub id or the embedded default."""
    quiet()
    return mixlens.load(model)


def check(model: str | None) -> Check:
    """The self-check of a model, which `load` would refuse if it fails."""
    quiet()
    from mixlens.infer import known
    from mixlens.inventory import supports
    from mixlens.loading import load_named
    from mixlens.subject.check import of_towers, self_check
    from mixlens.subject.towers import towers_of

    loaded, _, name = load_named(model)
    towers = towers_of(loaded)
    if towers is not None:
        text, picture = (self_check(tower, known(tower)[0], name) for tower in towers)
        return replace(of_towers(text, picture, loaded), origin="inferred")
    spec, origin = known(loaded)
    return replace(self_check(loaded, spec, name), supports=supports(spec), origin=origin)


def quiet() -> None:
    """No bars, no advice and no list of retries while a model loads; what fails is said in the error."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read on import
    from transformers.utils import logging as transformers_logging

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Any error becomes a line on standard error, what differs between two runs a line each, and exit code 1.

    `debug` lets the traceback through.
    """
    try:
        yield
    except (BrokenPipeError, typer.Exit):  # the reader has seen enough; it is said already
        raise
    except (mixlens.errors.MixlensError, OSError) as error:
        if debug:
            raise
        note(f"error: {with_flags(str(error))}", lines=isinstance(error, mixlens.errors.RunChanged))
        raise typer.Exit(1) from None
    except Exception as error:
        if debug:
            raise
        note(f"error: unexpected {type(error).__name__}: {error} (--debug shows where)")
        raise typer.Exit(1) from None


def with_flags(message: str) -> str:
    """An error of the library in the words of the command line: `out=` is `--out`, `layers='each'` `--layers each`."""

    def flag(match: re.Match[str]) -> str:
        value = (match[2] or "").strip("'")
        name = "document" if match[1] == "documents" else match[1].replace("_", "-")
        return f"--{name}" + (f" {value}" if value not in ("", "True") else "")

    return _ARGUMENT.sub(flag, _POSITION.sub(r"--position \1:\2", message))


def _nothing() -> None: ...


class ProgressLine:
    """A line on a terminal's standard error, from the first second of work on."""

    def __init__(self, title: str, counted: bool = False) -> None:
        from rich import progress as columns
        from rich.console import Console

        from mixlens.cli.columns import Counted, Times

        console = Console(stderr=True)
        more: list[columns.ProgressColumn] = [Counted(), columns.TextColumn("{task.fields[rate]}")] if counted else []
        self.bar = columns.Progress(
            columns.SpinnerColumn(),
            columns.TextColumn("{task.description}"),
            columns.BarColumn(),
            *more,
            Times() if counted else columns.TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self.lines = counted and not console.is_terminal
        self.began, self.first, self.noted = time.monotonic(), -1, time.monotonic()
        self.task = self.bar.add_task(title, total=None, rate="", ends=None)
        self.timer = threading.Timer(DELAY, self.bar.start if console.is_terminal else _nothing)
        self.timer.daemon = True

    def stage(self, title: str) -> None:
        """Begin the next piece of work."""
        self.bar.remove_task(self.task)  # `reset` would keep the total
        self.task = self.bar.add_task(title, total=None, rate="", ends=None)
        self.first = -1

    def report(self, done: int, total: int | None) -> None:
        """Layers (or examples) done, of how many; the first call of a stage says where it begins.

        Without a terminal a counted line stands there every minute.
        """
        now = time.monotonic()
        if self.first < 0:
            self.began, self.first = now, done
        rate = (done - self.first) / max(now - self.began, 1e-9)
        speed = f"{rate:.3g}/s" if done > self.first and now - self.began > DELAY else ""
        ends = now + (total - done) / rate if speed and total is not None else None
        self.bar.update(self.task, completed=done, total=total, rate=speed, ends=ends)
        if self.lines and now - self.noted >= EVERY and speed:
            self.noted = now
            left = "" if total is None else f", {_left((total - done) / rate)}"
            title = self.bar.tasks[0].description
            note(f"{title}: {done}{'' if total is None else f' of {total}'}, {speed}{left}")


def _left(seconds: float) -> str:
    """How long something will take yet: seconds below two minutes, else minutes."""
    return f"{math.ceil(seconds)} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"


@contextmanager
def progress(title: str, counted: bool = False) -> Iterator[ProgressLine]:
    """Show progress while the body runs; the body prints nothing. `counted`: with the rate and the time left."""
    line = ProgressLine(title, counted)
    line.timer.start()
    try:
        yield line
    finally:
        line.timer.cancel()
        line.timer.join()
        if line.bar.live.is_started:
            line.bar.stop()
