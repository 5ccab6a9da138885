"""`mixlens similarity`: which words of two texts made their vectors alike."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mixlens.cli.arguments import Csv, Debug, Html, Json, Method, Picture, Save, Settings, Truncate
from mixlens.cli.inputs import NOT_OPTIONS, check_files, picture, say_if_file, settings_of, text_of
from mixlens.cli.output import deliver
from mixlens.cli.running import load, progress, reported

MODEL = "mixlens:minilm"
_FLAGS = (*NOT_OPTIONS, "errors", "first", "pooling", "second", "truncate")


def similarity(
    first: Annotated[str, typer.Argument(metavar="FIRST", help="In quotes; - is standard input.")],
    second: Annotated[
        list[str], typer.Argument(metavar="SECOND...", help="A text or several, which FIRST is held against.")
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="Folder or hub id; default: the embedded sentence encoder."
        ),
    ] = MODEL,
    method: Method = None,
    pooling: Annotated[
        str | None,
        typer.Option(metavar="ROWS", help="mean, first or last: what a text's vector is made of; default: as saved."),
    ] = None,
    truncate: Truncate = False,
    option: Settings = None,
    html: Html = None,
    png: Picture = None,
    csv: Csv = None,
    json_file: Json = None,
    save: Save = None,
    debug: Debug = False,
) -> None:
    """Which words of two texts made their vectors alike?

    mixlens similarity "a fast car" "the quick automobile" --html alike.html
    """
    options = settings_of(option, others=_FLAGS)
    files = {"to_html": html, "plot": picture(png), "to_csv": csv, "save": save}
    check_files(*files.values(), json_file)
    for text in (first, *second):
        say_if_file(text)
    with reported(debug):
        with progress("loading the model") as line:
            lens = load(model)
            line.stage("comparing")
            texts = [text_of(text) for text in second]
            result: Any = lens.similarity(
                text_of(first),
                texts if len(texts) > 1 else texts[0],
                method,
                pooling=pooling,
                truncate=truncate,
                progress=line.report,
                **options,
            )
        deliver(result, files, json_file)
