"""Put the pages of `mixlens reproduce --out DIR` together as docs/reproduction.md, with its figures beside it.

python experiments/reproduction_page.py DIR
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from mixlens.reproduce import REPRODUCTIONS

ROOT = Path(__file__).parents[1]


def main() -> None:
    out = Path(sys.argv[1])
    pictures = ROOT / "docs" / "reproduction"
    pictures.mkdir(exist_ok=True)
    parts, missing = [], []
    for name in REPRODUCTIONS:
        page = out / name / "page.md"
        if not page.is_file():
            missing.append(name)
            continue
        for picture in sorted(page.parent.glob("*.png")):
            shutil.copy(picture, pictures)
        parts.append(page.read_text(encoding="utf-8").replace(f"]({name}-", f"](reproduction/{name}-"))
    head = (Path(__file__).parent / "reproduction_intro.md").read_text(encoding="utf-8")
    names = ", ".join(f"`{name}`" for name in missing)
    said = "Written and tested on invented rows, but not yet run on the data"
    left = f"\n{said}: {names}.\n\n" if missing else "\n"
    (ROOT / "docs" / "reproduction.md").write_text(head + left + "\n".join(parts), encoding="utf-8")
    print(f"{len(parts)} pages, missing: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
