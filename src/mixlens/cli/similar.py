"""`mixlens similarity`: which words of two texts made their vectors alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mixlens.architectures import TEXT
from mixlens.cli import names
from mixlens.cli.arguments import Csv, Debug, Html, Json, Method, Picture, Save, Settings, Truncate
from mixlens.cli.inputs import NOT_OPTIONS, check_files, picture, say_if_files, settings_of, text_of
from mixlens.cli.output import deliver
from mixlens.cli.running import load, progress, reported
from mixlens.errors import InputError

MODEL = "mixlens:minilm"
_FLAGS = (*NOT_OPTIONS, "errors", "first", "pooling", "second", "truncate")


def similarity(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIRST SECOND...",
            help="In quotes; -: standard input; of a model of pictures their files. FIRST is held against each.",
        ),
    ] = None,
    seen: Annotated[
        list[Path] | None,
        typer.Option(
            "--picture",
            metavar="FILE",
            help="Behind the texts, of a model of texts and pictures (CLIP): a picture's file; repeatable.",
        ),
    ] = None,
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
    """Which words of two texts made their vectors alike? Which words and which patches of a picture?

    mixlens similarity "a fast car" "the quick automobile" --html alike.html
    mixlens similarity "a photo of a cat" --picture cat.png --model openai/clip-vit-base-patch32 --html cat.html
    """
    if len(texts or ()) + len(seen or ()) < 2:
        raise typer.BadParameter("expected two texts or more, or a TEXT and --picture FILE")
    options = settings_of(option, others=_FLAGS)
    files = {"to_html": html, "plot": picture(png), "to_csv": csv, "save": save}
    check_files(*files.values(), json_file)
    with reported(debug):
        names.alike(method, options)
        with progress("loading the model") as line:
            from mixlens.subject import TwoTowers

            lens = load(model)
            if seen and lens.head.fed == TEXT and not isinstance(lens.subject, TwoTowers):
                raise InputError(f"--picture is of a model of texts and pictures, {lens.name} reads texts alone")
            say_if_files(lens, texts or [])
            line.stage("comparing")
            given: list[Any] = [*map(text_of, texts or []), *(seen or [])]
            first, *others = given
            result: Any = lens.similarity(
                first,
                others if len(others) > 1 else others[0],
                method,
                pooling=pooling,
                truncate=truncate,
                progress=line.report,
                **options,
            )
        deliver(result, files, json_file)
