"""The verb that lists model types."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from mixlens.cli.arguments import Debug
from mixlens.cli.inputs import check_files
from mixlens.cli.output import show
from mixlens.cli.running import progress, reported
from mixlens.files import replacing


def architectures(
    types: Annotated[
        list[str] | None, typer.Argument(metavar="[TYPE...]", help="Model types; default: all for texts (minutes).")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the list as a page.")] = None,
    json_out: Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")] = False,
    debug: Debug = False,
) -> None:
    """Which model types of the installed transformers are explained, by what spec, and why not the others?

    mixlens architectures phi gemma3_text mamba
    """
    check_files(markdown)
    with reported(debug):
        from rich.table import Table
        from rich.text import Text

        from mixlens.survey import page, survey

        with progress("trying model types", counted=True) as line:
            listed = survey(types or None, progress=line.report)
        if markdown is not None:
            with replacing(markdown) as file:
                file.write_bytes(page(listed).encode())
    if json_out:
        typer.echo(json.dumps([known.facts() for known in listed], indent=2))
        return
    table = Table("model type", "spec", "why not")
    for known in listed:
        table.add_row(*(Text(word) for word in (known.model_type, known.status, known.reason)))
    counts = Counter(known.status for known in listed)
    show(table, Text(", ".join(f"{n} {status}" for status, n in counts.items())))
