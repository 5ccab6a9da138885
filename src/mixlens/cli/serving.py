"""`mixlens app`: pages on which texts are typed and results answer."""

from __future__ import annotations

from typing import Annotated

import typer

from mixlens.cli.arguments import Debug
from mixlens.cli.running import progress, quiet, reported, say
from mixlens.errors import missing


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL...]", help="Folders or hub ids, offered beside the models that come along."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="NAME", help="Where it listens; any but this machine's own asks for a token."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: one that is free.")] = 8000,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    debug: Debug = False,
) -> None:
    """Pages of a local web server: type a text or choose a file, choose model and method, and look.

    mixlens app --open
    mixlens app ./my-classifier org/name --port 8080
    """
    with reported(debug):
        try:
            from mixlens.app import Models, serve
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package not in ("starlette", "uvicorn", "python_multipart"):
                raise
            raise missing("mixlens app", package.replace("_", "-"), "app") from None
        quiet()
        offered = Models(models or ())
        with progress("loading the models"):
            for name in offered.named:  # a wrong one is said now
                offered.lens(name)
        serve(offered, host, port, say=say, show=show)
