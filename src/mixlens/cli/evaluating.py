"""`mixlens evaluate`: methods by measures over a data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import mixlens
from mixlens.cli.arguments import Caption, Csv, Debug, Html, Label, Latex, Model, Parquet, Picture, Planned, Truncate
from mixlens.cli.inputs import (
    check_files,
    check_folders,
    drawn,
    floating,
    folder,
    nothing_written,
    one_of,
    picture,
    value_of,
)
from mixlens.cli.output import say_plan, show, write_all
from mixlens.cli.running import goes_on, load, note, progress, reported
from mixlens.errors import DataError
from mixlens.files import parquet as arrow

KINDS = ("ranking", "curves", "heatmap", "layers")
_LISTS = "Names, with commas between them."


def evaluate(
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A .jsonl, .csv, .tsv, .json, .txt or .parquet file or a hub name; default: 40 bundled sentences.",
        ),
    ] = None,
    model: Model = None,
    task: Annotated[
        str,
        typer.Option(metavar="NAME", help="classification, pairs, agreement, question, rationales or documents."),
    ] = "classification",
    field: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=COLUMN", help="Which column of the file is which field.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a text file; default: its BOM's, or UTF-8."),
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
    second: Annotated[
        str | None, typer.Option(metavar="MODEL", help="What the measure consistency compares the model with.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="The first N rows alone.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=folder, help="Keep results here as they come, and go on from them."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="Sources left out, repeatable: first, template, or a role of the chats."),
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="N", min=1)] = 32,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Stay inside it: 2GB, 512MiB; default: what is free.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of random scores and of the bootstrap.")] = 0,
    level: Annotated[float, typer.Option(metavar="SHARE", help="Of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(metavar="N", min=1, help="Of the bootstrap.")] = 1000,
    truncate: Truncate = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME.KEY=VALUE", help="An option of a method or a measure."),
    ] = None,
    csv: Csv = None,
    parquet: Parquet = None,
    html: Html = None,
    latex: Latex = None,
    caption: Caption = None,
    label: Label = None,
    png: Picture = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="What --png draws: ranking, curves, heatmap or layers.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(metavar="X", help="Which measure --png draws; default: the first that can be drawn.")
    ] = None,
    plan: Planned = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write what --plan says as JSON; - is standard output."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Which method is to be believed, by these measures, over a data set?

    mixlens evaluate --data dev.jsonl --methods alti,globenc --measures spearman,aopc --out run --html run.html
    """
    columns = _pairs(field, "--field takes FIELD=COLUMN")
    options = _options(option)
    files = {"to_csv": csv, "to_parquet": parquet, "to_html": html, "to_latex": latex, "plot": picture(png)}
    check_files(*files.values(), json_file)
    check_folders(out)
    if plan:
        nothing_written(*files.values(), out)
    elif json_file is not None:
        raise typer.BadParameter("--json goes with --plan; the table is --csv or --parquet")
    floats = floating(latex, caption, label)
    one_of("kind", kind, KINDS)
    one_of("layers", layers, ("each", "upto"))
    drawn(png, kind=kind, measure=measure)
    _check_second(second, _names(measures))
    with reported(debug):
        kind_of_task = mixlens.task(task, **columns)
        if parquet is not None:
            arrow()
        from mixlens.evaluation.design import known, make
        from mixlens.evaluation.evaluate import MEASURES

        names, yardsticks = _names(methods) or None, _names(measures) or MEASURES
        known(names, yardsticks, reference=reference, options=options)
        with goes_on(out), progress("loading the model", counted=not plan) as line:
            lens = load(model)
            if second is not None:
                line.stage("loading the second model")
            other = None if second is None else load(second)
            from mixlens.evaluation.pictures import refuse_picture
            from mixlens.tasks import SAMPLE

            settings: dict[str, Any] = {"reference": reference, "layers": layers, "second": other}
            settings |= {"options": options, "seed": seed}
            if png is not None:
                refuse_picture(make(lens, names, yardsticks, **settings), kind, measure)
            settings |= {"task": kind_of_task, "encoding": encoding, "target": target, "limit": limit}
            settings |= {"truncate": truncate, "batch_size": batch_size}
            settings |= {"memory": int(memory) if memory is not None and memory.isdecimal() else memory}
            settings |= {"methods": names, "measures": yardsticks}
            rows = SAMPLE if data is None else data
            if plan:
                line.stage("reading the texts")
                return say_plan(mixlens.plan_evaluate(lens, rows, **settings), json_file)
            line.stage("evaluating")
            settings |= {"level": level, "resamples": resamples, "exclude": exclude or (), "progress": line.report}
            table = mixlens.evaluate(lens, rows, out=out, **settings)
        show(table)
        failed = [example for example in table.examples() if "error" in example]
        if failed and not any(row.n for row in table):
            raise DataError(f"none of {len(failed)} examples could be evaluated, the first: {failed[0]['error']}")
        if failed:
            note(f"{len(failed)} examples failed, the first ({failed[0]['id']}): {failed[0]['error']}")
        if out is not None:
            note(f"wrote {out / 'table.csv'}")
        picked: dict[str, Any] = {"plot": {"kind": kind, "measure": measure}, "to_latex": floats}
        write_all([(p, partial(getattr(table, w), **picked.get(w, {}))) for w, p in files.items() if p is not None])


def _check_second(second: str | None, measures: Sequence[str]) -> None:
    """A second model goes with a measure that compares two, before either is loaded."""
    from mixlens.measure import MEASURES

    names = [name.partition(":")[0] for name in measures]
    two = [name for name in names if name in MEASURES and MEASURES[name].needs == "second"]
    if two and second is None:
        raise typer.BadParameter(f"{two[0]} compares two models; add --second MODEL")
    if second is not None and not two:
        raise typer.BadParameter("--second is what consistency compares with; add consistency to --measures")


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
