"""The verbs and their options."""

from __future__ import annotations

import json
import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer

import mixlens
from mixlens.cli import evaluating, explaining, names, reproducing, running, serving, similar, surveying, tracing
from mixlens.cli.arguments import (
    Caption,
    Csv,
    Debug,
    Foil,
    Html,
    Json,
    Label,
    Latex,
    Method,
    Model,
    Pair,
    Parquet,
    Picture,
    Position,
    Save,
    Settings,
    Truncate,
    What,
    Word,
)
from mixlens.cli.inputs import (
    aggregation_of,
    check_files,
    drawn,
    floating,
    one_of,
    picture,
    row_of,
    say_if_files,
    settings_of,
    target_of,
    texts_of,
)
from mixlens.cli.output import check_tables, deliver, facts_of, facts_pages, facts_tables, show
from mixlens.cli.running import Verbs, load, lost, progress, reported
from mixlens.files import parquet as arrow

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which tokens a Transformer mixes, and which of them made it decide.",
)


def main() -> None:
    """Run the command line (the console script)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still gets the rest
    code: Any = 0
    try:
        app(prog_name="mixlens")
    except SystemExit as done:
        code = done.code
    except OSError as error:
        if "--debug" in sys.argv:
            raise
        code = lost(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or lost(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left would be tried once more at exit
    raise SystemExit(code)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"mixlens {mixlens.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None: ...


app.command()(explaining.explain)


@app.command()
def compare(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text, in quotes; - is standard input.")],
    model: Model = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A method, repeatable; default: all that are defined.")
    ] = None,
    target: What = None,
    foil: Foil = None,
    word: Word = None,
    position: Position = None,
    pair: Pair = None,
    truncate: Truncate = False,
    maps: Annotated[
        bool, typer.Option("--maps", help="The methods' layer maps too: in the page, the picture and --save.")
    ] = False,
    faithfulness: Annotated[
        bool, typer.Option(help="A number each: 0 as chance, 1 the best order found; about n^2 passes.")
    ] = True,
    csv: Csv = None,
    parquet: Parquet = None,
    html: Html = None,
    latex: Latex = None,
    caption: Caption = None,
    label: Label = None,
    png: Picture = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="What --png draws: words, or maps (the default with --maps).")
    ] = None,
    save: Save = None,
    json_file: Json = None,
    debug: Debug = False,
) -> None:
    """Do the methods agree on which tokens made the model decide?

    mixlens compare "a deep and meaningful film." --html methods.html --png methods.png
    """
    data = texts_of([text], pair)
    tables = {"to_csv": csv, "to_parquet": parquet, "to_latex": latex}
    files = {"to_html": html, "plot": picture(png), "save": save, **tables}
    check_files(*files.values(), json_file)
    floats = floating(latex, caption, label)
    one_of("kind", kind, ("words", "maps"))
    drawn(png, kind=kind)
    maps = maps or kind == "maps"
    kind = kind or ("maps" if maps else "words")
    if maps and html is None and save is None and (png is None or kind == "words"):
        raise typer.BadParameter("--maps would be shown nowhere; add --html, --png or --save (or --kind maps) for them")
    with reported(debug):
        if parquet is not None:
            arrow()
        names.compared(method)
        with progress("loading the model") as line:
            lens = load(model)
            say_if_files(lens, data)
            line.stage("comparing")
            goal = target_of(target, foil, word, position)
            settings: dict[str, Any] = {"truncate": truncate, "progress": line.report}
            comparison = lens.compare(data, method, goal, faithfulness=faithfulness, maps=maps, **settings)
        deliver(comparison, files, json_file, floats=floats, kind=kind)


@app.command("map")
def map_(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text, in quotes; - is standard input.")],
    model: Model = None,
    method: Method = None,
    pair: Pair = None,
    truncate: Truncate = False,
    aggregate: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Layers 0 to l in one: rollout, flow, mean, sum; or layer:K alone."),
    ] = None,
    row: Annotated[
        str | None,
        typer.Option(metavar="N", help="Draw one query row, layer x token; 'max' is the largest. Of a flow: no other."),
    ] = None,
    option: Settings = None,
    csv: Csv = None,
    html: Html = None,
    png: Picture = None,
    json_file: Json = None,
    save: Save = None,
    debug: Debug = False,
) -> None:
    """How much of each token goes into each other token, layer by layer?

    mixlens map "a deep and meaningful film." --method alti --png maps.png
    mixlens map "a deep and meaningful film." --aggregate flow --row 0 --png cls.png
    """
    options = settings_of(option)
    data = texts_of([text], pair)
    files = {"to_csv": csv, "to_html": html, "plot": picture(png), "save": save}
    query, aggregation = row_of(row), aggregation_of(aggregate)
    if row is not None and png is None and (aggregation is None or aggregation[0] != "flow"):
        drawn(png, row=row)
    check_files(*files.values(), json_file)
    if method is not None:
        options["method"] = method
    with reported(debug):
        names.mapped(options)
        with progress("loading the model") as line:
            lens = load(model)
            say_if_files(lens, data)
            line.stage("mapping")
            maps: Any = lens.mixing(data, truncate=truncate, progress=line.report, **options)
            if aggregation is not None:
                line.stage("aggregating")
                name, settings = aggregation
                if name == "flow":
                    settings |= {"progress": line.report, "queries": [query] if isinstance(query, int) else None}
                maps = getattr(maps, name)(**settings)
            if query is not None:
                maps.row(query)  # raises UnknownOption, before anything is printed
        deliver(maps, files, json_file, row=query)


app.command()(tracing.trace)
app.command()(similar.similarity)
app.command()(evaluating.evaluate)
app.command()(reproducing.reproduce)
app.command()(surveying.architectures)
app.command("app")(serving.serve)


@app.command()
def check(
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="Folder or hub id.")] = None,
    debug: Debug = False,
) -> None:
    """Does the decomposition add up to the model's own numbers, layer by layer? Exit code 1 if not."""
    with reported(debug), progress("checking the model"):
        report = running.check(model)
    show(*check_tables(report))
    if not report.passed:
        raise typer.Exit(1)


@app.command()
def cite(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Methods and measures; without: mixlens alone.")
    ] = None,
    debug: Debug = False,
) -> None:
    """The papers that methods and measures come from, and mixlens, as BibTeX.

    mixlens cite globenc attcat aopc >> paper.bib
    """
    with reported(debug):
        typer.echo(mixlens.cite(*names or ()), nl=False)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One method, with everything about it.")] = None,
    json_out: Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")] = False,
    debug: Debug = False,
) -> None:
    """What there is, with what holds of each method and where it comes from."""
    with reported(debug):
        facts = mixlens.methods()
        if name is not None:
            facts = facts_of(name, facts)
    if json_out:
        typer.echo(json.dumps(facts, indent=2))
    else:
        show(*(facts_tables(facts) if name is None else facts_pages(facts)))
