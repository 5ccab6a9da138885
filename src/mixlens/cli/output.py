"""Results out: the terminal, files, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mixlens.cli.running import note, progress, say
from mixlens.errors import UnknownMethod, did_you_mean
from mixlens.escape import STEERS
from mixlens.files import write_text

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from mixlens.results import Attribution, LayerMaps
    from mixlens.subject.check import Check

STDOUT = Path("-")


def deliver(
    results: Any,
    files: dict[str, Path | None],
    json_file: Path | None,
    *,
    saved: tuple[Any, Path | None] | None = None,
    floats: Mapping[str, str] | None = None,
    **plot: Any,
) -> None:
    """Print the results, unless JSON goes to standard output, and write the files.

    `files`: the results' method that writes -> where. Several results are numbered: film-1.html, film-2.html; those of
    one text have one page. None is one that was skipped. `saved`: a result that is saved whole, where what is shown is
    made of it, and where. `floats`: caption and label in LaTeX, the label numbered as the files are.
    """
    several = isinstance(results, list)
    rows: Sequence[Attribution | LayerMaps | None] = results if several else [results]
    if json_file != STDOUT:
        show(*(row for row in rows if row is not None))
    jobs: list[tuple[Path, Callable[[Path], Any]]] = []
    page = files.get("to_html")
    if getattr(results, "names", ()) and page is not None:  # of one text: one page
        jobs.append((page, results.to_html))
        files = {**files, "to_html": None}
    for number, result in enumerate(rows, start=1):
        if result is None:  # skipped, and said
            continue
        for write, path in files.items():
            if path is not None:
                path = path.with_stem(f"{path.stem}-{number}") if several else path
                more = {"plot": plot, "to_latex": _float(floats, number if several else None)}.get(write, {})
                jobs.append((path, partial(getattr(result, write), **more)))
    if saved is not None and saved[1] is not None:
        jobs.append((saved[1], saved[0].save))
    if json_file is not None and json_file != STDOUT:
        jobs.append((json_file, lambda path: write_text(path, _document(results))))
    try:
        write_all(jobs)
    finally:
        if json_file == STDOUT:
            typer.echo(_document(results).encode(), nl=False)


def _float(floats: Mapping[str, str] | None, number: int | None) -> dict[str, str]:
    """A label twice in a paper would be none."""
    return {k: f"{v}-{number}" if k == "label" and number is not None else v for k, v in (floats or {}).items()}


def write_all(jobs: Sequence[tuple[Path, Callable[[Path], Any]]]) -> None:
    """Write each file that can be written and say so; of the others, raise the last error after a line a file."""
    written, failed = [], list[Exception]()
    with progress("writing"):
        for path, write in jobs:
            try:
                write(path)
                written.append(path)
            except Exception as error:  # of one file: no reason to lose the others
                failed.append(error)
    for path in written:
        note(f"wrote {path}")
    for other in failed[:-1]:
        note(f"error: {other}")
    if failed:
        raise failed[-1]


def say_plan(plan: Any, json_file: Path | None) -> None:
    """What a call would take, in words, unless JSON goes to standard output."""
    if json_file != STDOUT:
        say(str(plan))
        if json_file is not None:
            write_all([(json_file, lambda path: write_text(path, _document(plan)))])
    else:
        typer.echo(_document(plan).encode(), nl=False)


def _document(results: Any) -> str:
    if isinstance(results, list):
        return "[" + ",\n".join("null" if result is None else _json(result.to_dict()) for result in results) + "]\n"
    return _json(results.to_dict()) + "\n"


def _json(data: dict[str, Any]) -> str:
    """A line a key: short enough to look at, and plain JSON; what steers a terminal is spelled in ASCII."""
    lines = (f'"{key}": {json.dumps(value, ensure_ascii=False, allow_nan=False)}' for key, value in data.items())
    text = "{" + ",\n ".join(lines) + "}"
    return STEERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def show(*things: Any) -> None:
    """Print results, tables or lines to standard output."""
    from rich.console import Console

    from mixlens.view.kit.visible import Visible

    console = Console()
    for thing in things:
        console.print(Visible(thing))


def check_tables(report: Check) -> Iterator[Table | Text]:
    """The residuals of every layer, the verdict, how the layers are built, and what the model supports."""
    from rich.table import Table
    from rich.text import Text

    from mixlens.architectures import written

    table = Table("layer", "sum of terms", "finish", "norms", title=Text(f"{report.model} ({report.architecture})"))
    for layer in report.layers:
        numbers = (layer.sum_of_terms, layer.finish, layer.norms)
        styles = ("bold red" if not x <= report.tolerance else "" for x in numbers)
        table.add_row(layer.name, *(Text(f"{x:.1e}", style) for x, style in zip(numbers, styles, strict=True)))
    yield table
    yield Text(
        f"{'passed' if report.passed else 'FAILED'}: at most {report.worst:.1e} off the model's own numbers "
        f"(tolerance {report.tolerance:.1e}), whole pass {report.reference:.1e} ({report.reference_tolerance:.1e})"
    )
    yield Text(f"spec ({report.origin}): {written(report.spec)}")
    table = Table("method", "supported")
    for name, reason in report.supports.items():
        table.add_row(name, Text("yes" if reason is None else f"no: {reason}"))
    if report.supports:  # of two towers each has its own
        yield table


def facts_tables(facts: Sequence[dict[str, Any]]) -> Iterator[Table | Text]:
    """A table a stage, a row a method, and what the costs mean."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    columns = {
        "mixing": ("name", "rows_sum_to_one", "holds_residual", "needs", "cite"),
        "aggregate": ("name", "summary", "cite"),
        "attribute": ("name", "signed", "class_specific", "needs", "cite"),
        "similarity": ("name", "summary", "cost", "cite"),
    }
    for stage, keys in columns.items():
        table = Table(*(key.replace("_", " ") for key in keys), title=stage, title_justify="left", box=SIMPLE)
        for fact in facts:
            if fact["stage"] == stage:
                table.add_row(*(Text(_cell(fact[key])) for key in keys))
        table.columns[0].no_wrap = True
        yield table
    for needs, cost in {fact["needs"]: fact["cost"] for fact in facts if fact["needs"]}.items():
        yield Text(f"{needs}: {cost}")


def facts_of(name: str, facts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The facts of a method of this name, one a stage that has such. Raises UnknownMethod."""
    chosen = [fact for fact in facts if fact["name"] == name]
    if not chosen:
        raise UnknownMethod(f"no method {name!r}{did_you_mean(name, [fact['name'] for fact in facts])}")
    return chosen


def facts_pages(facts: Sequence[dict[str, Any]]) -> Iterator[Table]:
    """A table a method, a row a fact."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    for fact in facts:
        table = Table("", "", title=f"{fact['name']} ({fact['stage']})", title_justify="left", box=SIMPLE)
        table.show_header = False
        for key, value in fact.items():
            if key not in ("name", "stage") and value is not None:
                table.add_row(key.replace("_", " "), Text(_cell(value)))
        yield table


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={default!r}" for key, default in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no", None: ""}.get(value, str(value))
