"""`mixlens reproduce`: a paper's table or figure, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mixlens.cli.arguments import Debug
from mixlens.cli.inputs import folder
from mixlens.cli.running import goes_on, note, progress, reported, say


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Without a name: the list.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the data files.")] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=folder, help="Where results go and a killed run goes on.")
    ] = Path("reproduction"),
    model: Annotated[
        list[str] | None, typer.Option(metavar="[ROLE=]MODEL", help="Another model, for one role or for all.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "--items", metavar="N", help="At most N texts a data set: a quick look.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Of generated data, known-source: 3 by default.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu (the default), cuda ...")] = None,
    costly: Annotated[
        int | None,
        typer.Option(metavar="N", help="At most N texts for integrated gradients, HTA and IMDB; default: all."),
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="N")] = 32,
    debug: Debug = False,
) -> None:
    """Run a paper's table or figure again: our numbers beside the paper's, and which of its claims hold here.

    known-source measures other packages too, where they are installed: the extra "peers".
    """
    with reported(debug):
        from mixlens.reproduce import REPRODUCTIONS
        from mixlens.reproduce import reproduce as run

        if name is None:
            for key, entry in REPRODUCTIONS.items():
                say(f"{key:20} {entry.cite}: {entry.title}")
            return
        models = dict(_named(pair) for pair in model or [])
        with progress(name, counted=True) as line:
            last: list[str] = []

            def report(part: str, done: int, total: int | None) -> None:
                if last != [part]:
                    last[:] = [part]
                    line.stage(part)
                line.report(done, total)

            settings: dict[str, Any] = {
                "data": data,
                "limit": limit,
                "models": models,
                "costly": costly,
                "seeds": seeds,
            }
            with goes_on(out):
                page = run(name, out, **settings, device=device, batch_size=batch_size, progress=report)
        say(page.read_text(encoding="utf-8"))
        note(f"written: {page.parent}")


def _named(text: str) -> tuple[str, str]:
    role, equals, model = text.partition("=")
    return (role, model) if equals and "/" not in role else ("*", text)
