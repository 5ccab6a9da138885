"""Write docs/known-source.md from docs/known-source.json; nothing is run.

    python experiments/known_source_page.py [DIR]

DIR: a folder of `mixlens reproduce known-source --out DIR`, whose record is taken over first.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from mixlens.reproduce.record import PageRecord
from mixlens.reproduce.report import page

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "known-source.json"


def text() -> str:
    """The page: what is asked, and the record's tables."""
    head = (Path(__file__).parent / "known_source_intro.md").read_text(encoding="utf-8")
    return head + page(replace(PageRecord.read(KEPT), pictures=()))


def main() -> None:
    if len(sys.argv) > 1:
        shutil.copy(Path(sys.argv[1]) / "known-source" / "record.json", KEPT)
    (ROOT / "docs" / "known-source.md").write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
