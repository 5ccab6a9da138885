"""Write docs/reproduction.md from the records that stand beside it, docs/reproduction/NAME.json; nothing is run.

    python experiments/reproduction_page.py [DIR]

DIR: a folder of `mixlens reproduce --out DIR`, whose records and figures are taken over first. The claims of all pages
stand on one page here, so Holm's correction is over all of them.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from string import Template

from PIL import Image
from reproduction_printed import PRINTED

from mixlens.reproduce import REPRODUCTIONS
from mixlens.reproduce.catalogue import CATALOGUE
from mixlens.reproduce.claims import MATTERS, STRONG
from mixlens.reproduce.record import PageRecord
from mixlens.reproduce.report import page
from mixlens.reproduce.verdicts import ALPHA, judge

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "reproduction"


def take(out: Path) -> None:
    """Take over the records and figures of a run's folder."""
    for name in REPRODUCTIONS:
        if (out / name / "record.json").is_file():
            for old in [*KEPT.glob(f"{name}-[0-9].png"), *KEPT.glob(f"{name}-[0-9][0-9].png")]:
                old.unlink()
            for picture in sorted((out / name).glob("*.png")):
                with Image.open(picture) as drawn:  # 256 colours: a third of the size, and looks the same
                    drawn.convert("RGB").quantize(256).save(KEPT / picture.name, optimize=True)
            shutil.copy(out / name / "record.json", KEPT / f"{name}.json")


def text() -> str:
    """The page."""
    records = [PageRecord.read(KEPT / f"{name}.json") for name in REPRODUCTIONS if (KEPT / f"{name}.json").is_file()]
    judged = iter(judge([claim for one in records for claim in one.claims]))
    verdicts, parts = Counter(), []
    for one in records:
        own = [next(judged) for _ in one.claims]
        verdicts.update(j.verdict for j in own)
        parts.append(page(one, own, "reproduction/"))
    head = (Path(__file__).parent / "reproduction_intro.md").read_text(encoding="utf-8")
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    said = {
        "claims": str(verdicts.total()),
        "alpha": f"{ALPHA:g}",
        "printed": "`, `".join(one.name for one in records if _printed(one)),
        "strong": str(STRONG),
        "counted": counted,
        "matters": _matters(),
        "catalogue": _catalogue({one.name for one in records}),
    }
    return Template(head).substitute(said) + "\n" + "\n".join(parts)


def _printed(one: PageRecord) -> bool:
    """Whether its p is from printed intervals of what has texts behind it."""
    return PRINTED in one.circumstances


def _matters() -> str:
    rows = [f"| {kind} | {one.least:g} | {one.why} |" for kind, one in MATTERS.items()]
    return "\n".join(["| kind of number | matters from | that is |", "| --- | --- | --- |", *rows])


def _catalogue(here: set[str]) -> str:
    rows = ["| paper | table or figure | what | here |", "| --- | --- | --- | --- |"]
    for paper, entries in CATALOGUE.items():
        for one in entries:
            where = f"[`{one.page}`](#{_anchor(one.page)})" if one.page in here else f"`{one.page}`: not yet run"
            rows.append(f"| {paper} | {one.label} | {one.content} | {where if one.page else one.why} |")
    return "\n".join(rows)


def _anchor(name: str) -> str:
    """The anchor of a page's heading, as Markdown renderers make it."""
    heading = f"{name}: {REPRODUCTIONS[name].title}".lower()
    return "".join(c for c in heading if c.isalnum() or c in " -_").replace(" ", "-")


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]))
    (ROOT / "docs" / "reproduction.md").write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
