"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODEL", help="Folder or hub id; default: the embedded sentiment model."),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut a text that is too long for the model.")]
Window = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Explain a longer text in overlapping parts of N tokens, and join them."),
]
Stride = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Of --window: tokens from one part to the next; default: half of a part."),
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page that needs no network.")]
Picture = Annotated[
    Path | None, typer.Option("--png", "--plot", metavar="FILE", help="Write a picture: .png, .svg or .pdf.")
]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as CSV.")]
Parquet = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as Parquet.")]
Latex = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table for LaTeX.")]
Caption = Annotated[
    str | None, typer.Option(metavar="LATEX", help="Of --latex: what is written floats, under this caption.")
]
Label = Annotated[str | None, typer.Option(metavar="NAME", help=r"Of --caption: the name that \ref takes.")]
Planned = Annotated[
    bool, typer.Option("--plan", help="Say what it would take (passes, memory; --json), and do no more.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Method = Annotated[
    str | None, typer.Option(metavar="NAME", help="See `mixlens methods`; default: what suits the model.")
]
Foil = Annotated[str | None, typer.Option(metavar="WHAT", help="Explain the target rather than this.")]
Word = Annotated[
    str | None,
    typer.Option(metavar="WORD", help="Of a token classifier: the word or words of the text that are asked about."),
]
Position = Annotated[
    str | None,
    typer.Option(metavar="N", help="The token whose answer is explained, or FIRST:LAST, of an entity or an answer."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the method, VALUE as JSON or text."),
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write JSON; - is standard output.")]
Save = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a result file for mixlens.read().")]
What = Annotated[
    str | None,
    typer.Option(metavar="WHAT", help="A label or its number, a token, or all (classes); default: the prediction."),
]
Pair = Annotated[str | None, typer.Option(metavar="TEXT", help="The second text of a sentence pair.")]
