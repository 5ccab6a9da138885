"""`mixlens trace`: a whole answer of a language model, back to the prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import mixlens
from mixlens.cli import names
from mixlens.cli.arguments import (
    Caption,
    Csv,
    Debug,
    Html,
    Json,
    Label,
    Latex,
    Method,
    Parquet,
    Picture,
    Planned,
    Save,
    Settings,
)
from mixlens.cli.inputs import (
    NOT_OPTIONS,
    STDIN,
    check_files,
    floating,
    nothing_written,
    one_of,
    picture,
    read_file,
    say_if_file,
    settings_of,
    text_of,
)
from mixlens.cli.output import deliver, say_plan
from mixlens.cli.running import load, progress, reported
from mixlens.files import parquet as arrow

MODEL = "mixlens:smollm2"
UNITS = ("token", "word", "sentence", "line", "paragraph", "turn", "document")
_FLAGS = (*NOT_OPTIONS, "answer", "documents", "exclude", "foil", "generate", "max_new_tokens", "prompt")


def trace(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT",
            help="In quotes; - is standard input. A tokenizer with a chat template gets it as a user's message.",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", metavar="MODEL", help="Folder or hub id; default: the embedded chat model."),
    ] = MODEL,
    chat: Annotated[
        str | None,
        typer.Option(metavar="FILE", help='Instead of PROMPT: JSON, [{"role": ..., "content": ...}, ...]; or -.'),
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="A system message in front of PROMPT.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="PROMPT as it stands, to be continued: no message, no chat template.")
    ] = False,
    document: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help='A document, repeatable; put at "{documents}" or in front. Without NAME its file is its name.',
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            "--answer",
            "--target",
            metavar="TEXT",
            help="The answer, or a translator's target; default: what the model generates, greedily.",
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most so many tokens are generated; default: 64.")
    ] = None,
    generate: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An argument of the model's own generate, as do_sample=true."),
    ] = None,
    foil: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Why the answer rather than this: another with as many tokens, or one."),
    ] = None,
    method: Method = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="Sources left out, repeatable: first, template, or a role of the chat."),
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="UNIT", help=f"Sources and answer by {', '.join(UNITS)}.")] = None,
    option: Settings = None,
    html: Html = None,
    png: Picture = None,
    csv: Csv = None,
    parquet: Parquet = None,
    latex: Latex = None,
    caption: Caption = None,
    label: Label = None,
    json_file: Json = None,
    save: Save = None,
    plan: Planned = False,
    debug: Debug = False,
) -> None:
    """Where does a language model's answer come from, token by token?

    mixlens trace "Who wrote Hamlet?" --html hamlet.html
    mixlens trace "When was it built?" --document guide.txt --by sentence
    mixlens trace "Who wrote Hamlet?" --exclude first --exclude template
    """
    options = settings_of(option, others=_FLAGS)
    arguments = settings_of(generate, "generate", ("max_new_tokens",))
    if answer is not None and (arguments or max_new_tokens is not None):
        raise typer.BadParameter("--answer is given, and nothing generated; leave out --generate and --max-new-tokens")
    one_of("by", by, UNITS)
    texts = documents_of(document, prompt, chat)
    question = asked_of(prompt, chat, system, raw)
    if by == "document" and not texts:
        raise typer.BadParameter("--by document needs documents; add --document FILE")
    tables = {"to_csv": csv, "to_parquet": parquet, "to_latex": latex}
    files = {"to_html": html, "plot": picture(png), **tables}
    check_files(*files.values(), json_file, save)
    floats = floating(latex, caption, label)
    if plan:
        nothing_written(*files.values(), save)
    with reported(debug):
        if parquet is not None:
            arrow()
        names.attributed(method, options, mixlens.Lens.trace)
        with progress("loading the model") as line:
            from mixlens.trace.prompt import as_chat, require_units

            lens = load(model)
            question = question if isinstance(question, list) or raw else as_chat(lens.tokenizer, question)
            if by is not None:
                require_units(lens.subject, question, texts or None, by)
            if plan:
                settings = {"documents": texts or None, "max_new_tokens": max_new_tokens or 64, **options}
                say_plan(lens.plan_trace(question, answer, method, **settings), json_file)
                return
            line.stage("tracing" if answer is not None else "answering, and tracing the answer")
            result: Any = lens.trace(
                question,
                answer,
                method,
                foil,
                documents=texts or None,
                max_new_tokens=max_new_tokens or 64,
                generate=arguments or None,
                exclude=exclude or (),
                progress=line.report,
                **options,
            )
            shown: Any = result if by is None else result.units(by)
        deliver(shown, files, json_file, saved=(result, save), floats=floats)


def asked_of(prompt: str | None, chat: str | None, system: str | None, raw: bool) -> str | list[Any]:
    """What is asked: a text, or messages. Anything wrong is a usage error."""
    if (prompt is None) == (chat is None):
        got = "neither" if prompt is None else "both"
        raise typer.BadParameter(f"expected one of PROMPT and --chat FILE, got {got}")
    if raw and (chat is not None or system is not None):
        raise typer.BadParameter("--raw continues PROMPT as it stands; leave it out with --chat and --system")
    if chat is not None:
        if system is not None:
            raise typer.BadParameter("--system goes in front of PROMPT; with --chat write it into the file")
        return _messages(read_file("chat", chat), chat)
    assert prompt is not None
    say_if_file(prompt)
    text = text_of(prompt)
    return text if system is None else [_message("system", system), _message("user", text)]


def documents_of(pairs: Sequence[str] | None, *others: str | None) -> dict[str, str]:
    """`["guide=guide.txt", "faq.md"]` as texts by name, else the file's; `others`: what else may be standard input."""
    paths: dict[str, str] = {}
    for pair in pairs or ():
        name, sign, path = pair.partition("=")
        if not sign and pair != STDIN:
            name, path = Path(pair).name, pair
        if not name.strip() or not path:
            raise typer.BadParameter(f"--document takes FILE or NAME=FILE, got '{pair}'")
        if name in paths:
            raise typer.BadParameter(f"--document takes each name once, got '{name}' twice")
        paths[name] = path
    if [*paths.values(), *others].count(STDIN) > 1:
        raise typer.BadParameter("'-' is standard input, which can be read once; name files for the others")
    return {name: read_file("document", path) for name, path in paths.items()}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _messages(text: str, path: str) -> list[Any]:
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"--chat takes JSON, got '{path}': {error}") from None
    messages = messages.get("messages") if isinstance(messages, dict) else messages  # as APIs are sent it
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise typer.BadParameter(
            f'--chat takes a list of messages, at least one, as {{"role": "user", "content": ...}}, got \'{path}\''
        )
    return messages
