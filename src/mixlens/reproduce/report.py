"""A reproduction's record as a page, a table of numbers and figures."""

from __future__ import annotations

import math
import platform
import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import mixlens
from mixlens.files import csv_text, write_text
from mixlens.reproduce.claims import Claim
from mixlens.reproduce.findings import Findings
from mixlens.reproduce.record import PageRecord, Table, record
from mixlens.reproduce.study import BATCH, Study
from mixlens.reproduce.verdicts import ALPHA, Judged, Measured, Tested, judge
from mixlens.view import reproduction

_COLUMNS = ("panel", "row", "column", "n", "n_undefined", "mean", "std", "low", "high", "paper")
_SOURCES = {
    "texts": "",
    "test": "",
    "none": "",
    "interval": " (i)",
    "two intervals": " (ii)",
}
_SAID = {
    "interval": "(i): from the interval of the paired difference, or of a number that is no mean over texts.",
    "two intervals": "(ii): from the intervals of the two methods, as if they erred in opposite directions, which is "
    "conservative: the paired difference was not kept, or there is none.",
}


def write(cite: str, title: str, study: Study, findings: Findings, claims: Sequence[Claim]) -> Path:
    """Write page.md, record.json, table.csv and a PNG a panel and picture into the study's folder; the page's path."""
    pictures = []
    for number, panel in enumerate(findings.panels, 1):
        pictures.append((panel.title, f"{study.name}-{number}.png"))
        reproduction.panel(panel, study.out / pictures[-1][1])
    for number, (name, draw) in enumerate(findings.pictures.items(), 1 + len(findings.panels)):
        pictures.append((name, f"{study.name}-{number}.png"))
        draw(study.out / pictures[-1][1])
    made = record(study.name, cite, title, circumstances(study), findings.panels, claims, pictures, findings.notes)
    made.save(study.out / "record.json")
    write_text(study.out / "table.csv", _csv(made))
    path = study.out / "page.md"
    write_text(path, page(made))
    return path


def page(made: PageRecord, judged: Sequence[Judged] | None = None, pictures: str = "") -> str:
    """The page of a record. `judged`: its claims' verdicts where other claims stand on the page too; else its own.

    `pictures`: the folder that the pictures are in, as the page names it.
    """
    lines = [f"## `{made.name}`: {made.title}", "", f"{made.cite}.", ""]
    lines += [f"- {line}" for line in made.circumstances]
    for table in made.tables:
        lines += ["", f"### {table.title}", "", *_table(table)]
        if table.note:
            lines += ["", table.note]
        lines += _tally(table)
    if made.pictures:
        lines += ["", *(f"![{name}]({pictures}{file})" for name, file in made.pictures)]
    lines += _claims(judge(made.claims) if judged is None else judged)
    if made.notes:
        lines += ["", *(f"* {note}" for note in made.notes)]
    return "\n".join(lines) + "\n"


def _csv(made: PageRecord) -> str:
    rows = [
        {"panel": table.title, "row": row, "column": column, **cell}
        for table in made.tables
        for (row, column), cell in table.cells.items()
    ]
    return csv_text(_COLUMNS, [{name: row.get(name, "") for name in _COLUMNS} for row in rows])


def circumstances(study: Study) -> list[str]:
    """The whole command, when and with what it ran, on which models and texts."""
    used = ", ".join(f"{role}: {name}" for role, name in study.used.items())
    texts = ", ".join(f"{file} {count}" for file, count in study.counted.items()) or "none"
    options = {"--limit": study.limit, "--seeds": study.seeds, "--costly": study.costly, "--device": study.device}
    options["--batch-size"] = None if study.batch_size == BATCH else study.batch_size
    words = "".join(f" {name} {value}" for name, value in options.items() if value is not None)
    models = [name if role == "*" else f"{role}={name}" for role, name in study.models.items()]
    words += "".join(f" --model {shlex.quote(named)}" for named in models)
    data = "" if study.generated else " --data DIR"
    device = study.device or "cpu"
    if device.startswith("cuda"):
        import torch

        device = torch.cuda.get_device_name()
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    versions += f", Python {platform.python_version()}"
    return [
        f"`mixlens reproduce {study.name}{data}{words}`",
        f"{date.today().isoformat()}, mixlens {mixlens.__version__}, {versions}, {device}",
        f"models: {used or 'none'}",
        f"texts: {texts}",
    ]


def _table(table: Table) -> list[str]:
    """Ours: mean ± deviation [interval], and the paper's mean behind it where there is one."""
    lines = [f"| | {' | '.join(map(_cell, table.columns))} |", f"| --- |{' --- |' * len(table.columns)}"]
    for row in table.rows:
        cells = []
        for column in table.columns:
            cell = table.cells.get((row, column))
            if cell is None or "mean" not in cell:
                cells.append("-")
                continue
            text = f"{cell['mean']:.2f}"
            if "std" in cell:
                text += f" ± {cell['std']:.2f}"
            if "low" in cell:
                text += f" [{cell['low']:.2f}, {cell['high']:.2f}]"
            if "paper" in cell:
                text += f" (paper {cell['paper']:g})"
            cells.append(text)
        lines.append(f"| {_cell(row)} | {' | '.join(cells)} |")
    return lines


def _tally(table: Table) -> list[str]:
    """How many of the orderings of the paper's numbers hold here, column by column, and which are reversed."""
    if table.said:
        return ["", *(f"- {line}" for line in table.said)]
    judged = judge([Tested("", (pair,)) for pair in table.orderings])
    columns = list(dict.fromkeys(pair.pair.column for pair in table.orderings))
    out = []
    for column in columns:
        here = [claim for claim in judged if claim.tested.pairs[0].pair.column == column]
        count = Counter(claim.verdict.partition(",")[0] for claim in here)
        small = Counter(claim.verdict.partition(",")[0] for claim in here if claim.verdict.endswith("small"))
        turned = [claim.tested.pairs[0].pair for claim in here if claim.verdict == "reversed"]
        names = [f"{pair.better} over {pair.worse}" for pair in turned]
        shown = ", ".join(map(_cell, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        line = (
            f"{_cell(column)}: of the {len(here)} pairs that the paper's numbers put in an order, {count['holds']} "
            f"hold here{_of_them(small['holds'])}, {count['reversed']} are reversed{_of_them(small['reversed'])}, "
            f"{len(here) - count['holds'] - count['reversed']} are not distinguishable"
        )
        out.append(f"- {line}{f' (reversed by what matters: {shown})' if names else ''}.")
    return ["", *out] if out else []


def _of_them(small: int) -> str:
    return f" ({small} of them by less than matters)" if small else ""


def _claims(judged: Sequence[Judged]) -> list[str]:
    if not judged:
        return []
    lines = ["", "**The paper's claims**", "", "| claim | here | p | by how much |", "| --- | --- | --- | --- |"]
    for claim in judged:
        lines.append(f"| {_cell(claim.tested.text)} | {claim.verdict} | {_p(claim)} | {_cell(evidence(claim))} |")
    used = {pair.source for claim in judged for pair in claim.tested.pairs}
    notes = [text for source, text in _SAID.items() if source in used]
    return [*lines, *(["", " ".join(notes)] if notes else [])]


def _p(claim: Judged) -> str:
    if math.isnan(claim.p):
        return "-"
    sources = [pair.source for pair in claim.tested.pairs]
    mark = next((_SOURCES[source] for source in ("two intervals", "interval") if source in sources), "")
    return ("< 0.001" if claim.p < 0.001 else f"{claim.p:.3f}") + mark


def evidence(claim: Judged) -> str:
    """The pair that a verdict hangs on, what would matter where it is less, and the others that speak against it."""
    pairs, decisive = claim.tested.pairs, claim.decisive
    if decisive is None:
        return "not measured here"
    text = _pair(decisive, claim.tested)
    if claim.verdict == "too few":
        return f"{text}; the smallest p that so few could give is {decisive.floor:.3f}, above {ALPHA:g}"
    if claim.tested.alike:
        text += f"; alike is taken as within {decisive.pair.least:g}"
    elif claim.verdict.endswith("small"):
        text += f"; {decisive.pair.least:g} would matter"
    if len(pairs) > 1 and decisive.toward == min(p.toward for p in pairs):
        text += f"; the least favourable of {len(pairs)}"
    others = sorted((p for p in claim.tested.against if p is not decisive), key=lambda p: p.toward)
    if others:
        shown = "; ".join(_pair(p, claim.tested) for p in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        text += f". Against it also: {shown}{more}"
    return text


def _pair(measured: Measured, of: Tested) -> str:
    """A pair's difference, and as much of what it is about as tells it from the claim's other pairs."""
    pair = measured.pair
    text = f"{measured.difference:+.3f}"
    if not math.isnan(measured.low):
        text += f" [{measured.low:+.3f}, {measured.high:+.3f}]"
    several = len({p.pair.better for p in of.pairs}) > 1
    if pair.worse is None:
        text += f" ({pair.better}{f', n = {measured.n}' if measured.n else ''})"
    elif of.alike:
        text += f" from {pair.worse}"
    else:
        text += f" {pair.better} over" if several else " over"
        text += f" {pair.worse}{', where less is better' if measured.difference * measured.toward < 0 else ''}"
    if len({p.pair.panel for p in of.pairs}) > 1:
        return f"{text} ({pair.panel}, {pair.column})"
    return f"{text} ({pair.column})" if len({p.pair.column for p in of.pairs}) > 1 else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
