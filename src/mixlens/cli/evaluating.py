"""`mixlens evaluate`: methods by measures over a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import mixlens
from mixlens.cli.arguments import Debug, Html, Model, Picture, Truncate
from mixlens.cli.inputs import check_folders, picture, value_of
from mixlens.cli.output import show
from mixlens.cli.running import load, note, progress, reported
from mixlens.errors import DataError

KINDS = ("ranking", "curves", "heatmap", "layers")
_LISTS = "Names, with commas between them."


def evaluate(
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A .jsonl, .csv, .tsv, .json or .parquet file or a hub name; default: 40 bundled sentences.",
        ),
    ] = None,
    model: Model = None,
    task: Annotated[
        str,
        typer.Option(metavar="NAME", help="classification, pairs, agreement, question or rationales."),
    ] = "classification",
    field: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=COLUMN", help="Which column of the file is which field.")
    ] = None,
    methods: Annotated[str | None, typer.Option(metavar="A,B", help=f"{_LISTS} See `mixlens methods`.")] = None,
    measures: Annotated[
        str | None, typer.Option(metavar="X,Y", help=f"{_LISTS} spearman:alti sets a reference.")
    ] = None,
    reference: Annotated[str, typer.Option(metavar="METHOD", help="What correlations compare with.")] = "saliency",
    target: Annotated[
        str | None, typer.Option(metavar="WHAT", help="'label': each text's gold label; default: the prediction.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(metavar="each|upto", help="Each layer's own map too, or the aggregate up to it.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="The first N rows alone.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep results here as they come, and go on from them.")
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="N", min=1)] = 32,
    seed: Annotated[int, typer.Option(metavar="N", help="Of random scores and of the bootstrap.")] = 0,
    level: Annotated[float, typer.Option(metavar="SHARE", help="Of the intervals.")] = 0.95,
    truncate: Truncate = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME.KEY=VALUE", help="An option of a method or a measure."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as Parquet.")] = None,
    html: Html = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table for LaTeX.")] = None,
    png: Picture = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="What --png draws: ranking, curves, heatmap or layers.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Which method is to be believed, by these measures, over a data set?

    mixlens evaluate --data dev.jsonl --methods alti,globenc --measures spearman,aopc --out run --html run.html
    """
    columns = _pairs(field, "--field takes FIELD=COLUMN")
    options = _options(option)
    files = {"to_csv": csv, "to_parquet": parquet, "to_html": html, "to_latex": latex, "plot": picture(png)}
    check_folders(*files.values(), out)
    if kind not in (None, *KINDS):
        raise typer.BadParameter(f"--kind is one of {', '.join(KINDS)}, got '{kind}'")
    with reported(debug):
        kind_of_task = mixlens.task(task, **columns)
        with progress("loading the model", counted=True) as line:
            lens = load(model)
            line.stage("evaluating")
            from mixlens.evaluation.run import MEASURES
            from mixlens.tasks import SAMPLE

            table = mixlens.evaluate(
                lens,
                SAMPLE if data is None else data,
                _names(methods) or None,
                _names(measures) or MEASURES,
                out,
                task=kind_of_task,
                target=target,
                reference=reference,
                layers=layers,
                limit=limit,
                truncate=truncate,
                batch_size=batch_size,
                seed=seed,
                level=level,
                options=options,
                progress=line.report,
            )
        show(table)
        failed = [one for one in table.examples() if "error" in one]
        if failed and not any(row.n for row in table):
            raise DataError(f"none of {len(failed)} examples could be evaluated, the first: {failed[0]['error']}")
        if failed:
            note(f"{len(failed)} examples failed, the first ({failed[0]['id']}): {failed[0]['error']}")
        for write, path in files.items():
            if path is not None:
                getattr(table, write)(path, **({"kind": kind} if write == "plot" else {}))
                note(f"wrote {path}")
        if out is not None:
            note(f"wrote {out / 'table.csv'}")


def _names(text: str | None) -> Sequence[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _pairs(items: Sequence[str] | None, hint: str) -> dict[str, str]:
    out = {}
    for item in items or ():
        key, sign, value = item.partition("=")
        if not sign or not key or not value:
            raise typer.BadParameter(f"{hint}, got '{item}'")
        out[key] = value
    return out


def _options(items: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """`["aopc.replace=pad"]` by name."""
    out: dict[str, dict[str, Any]] = {}
    for key, value in _pairs(items, "--option takes NAME.KEY=VALUE").items():
        name, sign, option = key.rpartition(".")
        if not sign or not name or not option.isidentifier():
            raise typer.BadParameter(f"--option takes NAME.KEY=VALUE, got '{key}={value}'")
        out.setdefault(name, {})[option] = value_of(value)
    return out
