"""`mixlens explain`: which tokens made the model decide, of texts that are typed or of every text of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

import mixlens
from mixlens.cli import names
from mixlens.cli.arguments import (
    Caption,
    Csv,
    Debug,
    Foil,
    Html,
    Json,
    Label,
    Method,
    Model,
    Pair,
    Picture,
    Planned,
    Position,
    Save,
    Settings,
    Stride,
    Truncate,
    Window,
    Word,
)
from mixlens.cli.inputs import (
    NOT_OPTIONS,
    check_files,
    check_folders,
    floating,
    folder,
    nothing_written,
    picture,
    say_if_files,
    settings_of,
    target_of,
    texts_of,
)
from mixlens.cli.output import deliver, say_plan, show
from mixlens.cli.running import goes_on, load, note, progress, reported
from mixlens.errors import DataError, UnknownOption
from mixlens.files import parquet

if TYPE_CHECKING:
    from mixlens.lens import Lens

_ROWS = "Of --data: "
_LISTED = 8  # rows that a line names
_OF_TEXTS = (*NOT_OPTIONS, "window", "stride")
_FLAGS = (*_OF_TEXTS, *"batch_size memory limit field task encoding top by seed out workers engine".split())
DTYPES = ("float32", "float64", "float16", "bfloat16")


def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT...]",
            help="A text or several, in quotes; -: standard input; files of pictures or sounds.",
        ),
    ] = None,
    model: Model = None,
    method: Method = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="A label or its number, a token, all (classes), or, of --data, label (each text's gold label); "
            "default: the prediction.",
        ),
    ] = None,
    foil: Foil = None,
    word: Word = None,
    position: Position = None,
    pair: Pair = None,
    truncate: Truncate = False,
    window: Window = None,
    stride: Stride = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Of several texts, explain those that can be; a line names each other.")
    ] = False,
    option: Settings = None,
    csv: Csv = None,
    html: Html = None,
    png: Picture = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="Write coloured text for LaTeX.")] = None,
    caption: Caption = None,
    label: Label = None,
    json_file: Json = None,
    save: Save = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Instead of TEXT every text of a .csv, .tsv, .jsonl, .json, .txt or .parquet file, or of a hub name.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=folder, help=_ROWS + "where Parquet files and summary.html go; goes on from them."
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help=_ROWS + "the text's column; or FIELD=COLUMN, repeatable (label=gold)."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help=_ROWS + "how rows are read: classification (default), pairs ...")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help=_ROWS + "the file's; default: its BOM's, or UTF-8.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help=_ROWS + "the first N rows alone.")] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=_ROWS + "words of each class in summary.html; default: 15.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help=_ROWS + "a table for each value of this column.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=_ROWS + "texts in a pass; default: 32.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help=_ROWS + "stay inside 2GB, 512MiB; default: what is free.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help=_ROWS + "cpu, cuda, cuda:1, mps ...")] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="NAME", help=_ROWS + f"{', '.join(DTYPES)}; default: the model's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help=_ROWS + "of the intervals and the null in summary.html.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=_ROWS + "processes side by side; default: this one alone.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help=_ROWS + "ray: workers are actors of a Ray cluster.")
    ] = None,
    plan: Planned = False,
    debug: Debug = False,
) -> None:
    """Which tokens made the model decide?

    mixlens explain "a deep and meaningful film." --html film.html --png film.png
    mixlens explain --data reviews.csv --field review --method alti --out run
    mixlens explain seven.png --model mixlens:digits --html seven.html
    """
    of_rows: dict[str, Any] = {"field": field, "task": task, "encoding": encoding, "limit": limit, "top": top}
    of_rows |= {"by": by, "batch_size": batch_size, "memory": memory, "seed": seed}
    of_rows |= {"workers": workers, "engine": engine}
    placed: dict[str, Any] = {"device": device, "dtype": dtype}
    of_texts = {"pair": pair, "skip": skip or None, "html": html, "png": png, "latex": latex, "json": json_file}
    of_texts |= {"save": save, "csv": csv, "caption": caption, "label": label}
    goal = target_of(target, foil, word, position)
    if data is not None:
        if texts:
            raise typer.BadParameter(f"expected TEXT or --data FILE, got both ('{texts[0]}' and '{data}')")
        _refuse(
            {**of_texts, "json": None} if plan else of_texts,
            "goes with TEXT; a data set's page is DIR/summary.html (mixlens.read(DIR) has the texts)",
        )
        if plan:
            beside = {"top": top, "by": by, "seed": seed, "workers": workers, "engine": engine, "out": out}
            _refuse(beside, "changes nothing of what --plan says, of one process; leave it out")
            of_rows = {name: value for name, value in of_rows.items() if name not in beside}
        elif out is None:
            raise typer.BadParameter("--data needs --out DIR, where what comes out is kept")
        request: dict[str, Any] = {"target": "label" if goal == mixlens.Target("label") else goal}
        request |= {"method": method, "truncate": truncate, "window": window, "stride": stride}
        request |= settings_of(option, others=_FLAGS)
        return _every_text(model, data, out, json_file, request, of_rows, placed, debug)
    _refuse({**of_rows, **placed, "out": out}, "goes with --data FILE; add it, or leave this out")
    if not texts:
        raise typer.BadParameter("expected a TEXT in quotes, or --data FILE, got neither")
    options = settings_of(option, others=_OF_TEXTS)
    typed = texts_of(texts, pair)
    files = {"to_csv": csv, "to_html": html, "plot": picture(png), "to_latex": latex, "save": save}
    check_files(*files.values(), json_file)
    floats = floating(latex, caption, label)
    if plan:
        nothing_written(*files.values())
    with reported(debug):
        names.attributed(method, options, mixlens.Lens.attribute)
        if method is not None:
            options["method"] = method
        with progress("loading the model") as line:
            lens = load(model)
            say_if_files(lens, typed)
            settings: dict[str, Any] = {"truncate": truncate, "window": window, "stride": stride}
            if plan:
                say_plan(lens.plan(typed, **settings, **options), json_file)
                return
            line.stage("explaining")
            settings |= {"progress": line.report}
            with catch_warnings():
                simplefilter("ignore", UserWarning)  # a line each says it below
                settings |= {"errors": "skip" if skip else "raise"}
                results = lens.attribute(typed, target=goal, **settings, **options)
        for reason in getattr(results, "skipped", {}).values():
            note(f"skipped: {reason}")
        deliver(results, files, json_file, floats=floats)


def _every_text(
    model: str | None,
    data: str,
    out: Path | None,
    json_file: Path | None,
    request: dict[str, Any],
    of_rows: dict[str, Any],
    placed: dict[str, Any],
    debug: bool,
) -> None:
    """The texts of a data set; without `out` what that would take."""
    check_folders(out)
    check_files(json_file)
    if placed["dtype"] not in (None, *DTYPES):
        raise typer.BadParameter(f"--dtype is one of {', '.join(DTYPES)}, got '{placed['dtype']}'")
    of_rows = {name: value for name, value in of_rows.items() if value not in (None, [])}
    if "field" in of_rows:
        of_rows["field"] = _columns(of_rows["field"])
    if of_rows.get("memory", "").isdecimal():
        of_rows["memory"] = int(of_rows["memory"])
    with reported(debug):
        parquet()
        settings = {name: value for name, value in request.items() if name not in ("method", "target")}
        names.attributed(request["method"], settings, mixlens.explain_data)
        mixlens.task(of_rows.get("task", "classification"))  # raises for another name
        if out is None:
            with progress("loading the model") as line:
                lens = on(load(model), **placed)
                line.stage("reading the texts")
                return say_plan(mixlens.plan_explain_data(lens, data, **request, **of_rows), json_file)
        with goes_on(out), progress("loading the model", counted=True) as line:
            lens = on(load(model), **placed)
            line.stage("explaining")
            explained = mixlens.explain_data(lens, data, out=out, progress=line.report, **request, **of_rows)
        failures = explained.failures
        if failures and not len(explained):
            raise DataError(f"none of {len(failures)} rows could be explained, the first: {failures[0].error}")
        show(explained)
        if failures:
            first = failures[0]
            rows = f"{len(failures)} row{'s' * (len(failures) != 1)}"
            listed = ", ".join(str(failure.row) for failure in failures[:_LISTED])
            more = f" and {len(failures) - _LISTED} more" if len(failures) > _LISTED else ""
            note(f"{rows} could not be explained (from 0: {listed}{more}), the first: {first.error}")
        note(f"wrote {len(explained.parts)} Parquet file{'s' * (len(explained.parts) != 1)} and summary.html in {out}")


def _refuse(given: dict[str, Any], says: str) -> None:
    """A usage error for what would be ignored."""
    for name, value in given.items():
        if value is not None and value != []:
            raise typer.BadParameter(f"--{name.replace('_', '-')} {says}")


def _columns(field: Sequence[str] | None) -> str | dict[str, str] | None:
    """`["review"]` as the text's column, `["label=stars"]` by field."""
    if not field:
        return None
    if len(field) == 1 and "=" not in field[0]:
        return field[0]
    out: dict[str, str] = {}
    for item in field:
        key, sign, value = item.partition("=")
        key, value = (key, value) if sign else ("text", key)
        if not key or not value or key in out:
            raise typer.BadParameter(f"--field takes COLUMN or FIELD=COLUMN, each field once, got '{item}'")
        out[key] = value
    return out


def on(lens: Lens, device: str | None, dtype: str | None) -> Lens:
    """The lens on its model on another device, in another dtype. Raises UnknownOption."""
    if device is None and dtype is None:
        return lens
    import torch

    try:
        lens.model.to(device=device, dtype=None if dtype is None else getattr(torch, dtype))
    except (RuntimeError, ValueError, AssertionError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UnknownOption(f"expected device= one that is here, got {device!r}: {reason}") from None
    return lens
