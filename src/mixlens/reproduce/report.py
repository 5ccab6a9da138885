"""A reproduction's findings as a page, a table of numbers and figures."""

from __future__ import annotations

import csv
import io
import platform
import shlex
from collections import Counter
from datetime import date
from importlib.metadata import version
from pathlib import Path

import mixlens
from mixlens.files import write_text
from mixlens.reproduce.findings import Findings, Panel
from mixlens.reproduce.study import BATCH, Study
from mixlens.view import reproduction

_COLUMNS = ("panel", "row", "column", "n", "n_undefined", "mean", "std", "low", "high", "paper")


def write(cite: str, title: str, study: Study, found: Findings) -> Path:
    """Write page.md, table.csv and a PNG a panel and picture into the study's folder; the page's path."""
    pictures = []
    for number, panel in enumerate(found.panels, 1):
        pictures.append((panel.title, f"{study.name}-{number}.png"))
        reproduction.panel(panel, study.out / pictures[-1][1])
    for number, (name, draw) in enumerate(found.pictures.items(), 1 + len(found.panels)):
        pictures.append((name, f"{study.name}-{number}.png"))
        draw(study.out / pictures[-1][1])
    write_text(study.out / "table.csv", _csv(found))
    page = study.out / "page.md"
    write_text(page, _page(cite, title, study, found, pictures))
    return page


def _csv(found: Findings) -> str:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(_COLUMNS)
    for panel in found.panels:
        for row in panel.rows:
            for column in panel.columns:
                cell = panel.summary(row, column)
                if cell is not None:
                    numbers = (getattr(cell, name, "") for name in ("n", "n_undefined", "mean", "std", "low", "high"))
                    out.writerow([panel.title, row, column, *numbers, panel.paper.get((row, column), "")])
    return text.getvalue()


def _page(cite: str, title: str, study: Study, found: Findings, pictures: list[tuple[str, str]]) -> str:
    lines = [f"## `{study.name}`: {title}", "", f"{cite}.", ""]
    lines += [f"- {line}" for line in _circumstances(study)]
    for panel in found.panels:
        lines += ["", f"### {panel.title}", "", *_table(panel)]
        if panel.note:
            lines += ["", panel.note]
        lines += _tally(panel)
    if pictures:
        lines += ["", *(f"![{name}]({file})" for name, file in pictures)]
    if found.claims:
        lines += ["", "**The paper's claims**", "", "| claim | here | evidence |", "| --- | --- | --- |"]
        lines += [f"| {_cell(c.text)} | {c.verdict} | {_cell(c.evidence)} |" for c in found.claims]
    if found.notes:
        lines += ["", *(f"* {note}" for note in found.notes)]
    return "\n".join(lines) + "\n"


def _circumstances(study: Study) -> list[str]:
    used = ", ".join(f"{role}: {name}" for role, name in study.used.items())
    texts = ", ".join(f"{file} {count}" for file, count in study.counted.items()) or "none"
    options = {"--limit": study.limit, "--costly": study.costly, "--device": study.device}
    options["--batch-size"] = None if study.batch_size == BATCH else study.batch_size
    said = "".join(f" {name} {value}" for name, value in options.items() if value is not None)
    models = [name if role == "*" else f"{role}={name}" for role, name in study.models.items()]
    said += "".join(f" --model {shlex.quote(one)}" for one in models)
    device = study.device or "cpu"
    if device.startswith("cuda"):
        import torch

        device = torch.cuda.get_device_name()
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    versions += f", Python {platform.python_version()}"
    return [
        f"`mixlens reproduce {study.name} --data DIR{said}`",
        f"{date.today().isoformat()}, mixlens {mixlens.__version__}, {versions}, {device}",
        f"models: {used or 'none'}",
        f"texts: {texts}",
    ]


def _table(panel: Panel) -> list[str]:
    """Ours: mean ± deviation [interval], and the paper's mean behind it where there is one."""
    lines = [f"| | {' | '.join(map(_cell, panel.columns))} |", f"| --- |{' --- |' * len(panel.columns)}"]
    for row in panel.rows:
        cells = []
        for column in panel.columns:
            found = panel.summary(row, column)
            if found is None:
                cells.append("-")
                continue
            text = f"{found.mean:.2f}"
            if hasattr(found, "std"):
                text += f" ± {found.std:.2f}"
            if found.low == found.low:
                text += f" [{found.low:.2f}, {found.high:.2f}]"
            if (row, column) in panel.paper:
                text += f" (paper {panel.paper[row, column]:g})"
            cells.append(text)
        lines.append(f"| {_cell(row)} | {' | '.join(cells)} |")
    return lines


def _tally(panel: Panel) -> list[str]:
    """How many of the orderings of the paper's numbers hold here, column by column, and which are reversed."""
    counts: dict[str, Counter[str]] = {}
    turned: dict[str, list[str]] = {}
    for column, first, second, verdict, _ in panel.orderings():
        counts.setdefault(column, Counter())[verdict] += 1
        if verdict == "reversed":
            turned.setdefault(column, []).append(f"{first} over {second}")
    out = []
    for column, tally in counts.items():
        total = sum(tally.values())
        line = (
            f"{_cell(column)}: of the {total} pairs that the paper's numbers put in an order, {tally['holds']} hold "
            f"here, {tally['reversed']} are reversed, {tally['undecided']} are not told apart"
        )
        names = turned.get(column, [])
        shown = ", ".join(map(_cell, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        out.append(f"- {line}{f' (reversed: {shown})' if names else ''}.")
    return ["", *out] if out else []


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
