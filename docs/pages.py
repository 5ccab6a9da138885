"""What the site has beside the pages of this folder: the front pages of the project, cards by name, the reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FRONT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """The pages that are made."""
    made = {page: (ROOT / name).read_text("utf-8") for name, page in FRONT.items()}
    cards = sorted(path.stem for path in (ROOT / "docs" / "methods").glob("*.md"))
    made["methods/index.md"] = cards_page(cards)
    made["reference.md"] = reference()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are between the site's pages, where in the project they go to files."""
    where = Path(page.file.src_uri).parent
    front = page.file.src_uri in FRONT.values()
    return LINK.sub(lambda link: rewritten(link, where, front), markdown)


def rewritten(link: re.Match[str], where: Path, front: bool) -> str:
    """A link of a page in folder `where`, or of a front page; what the site does not have is its words alone."""
    mark, text, address = link.groups()
    target, hash_, anchor = address.partition("#")
    if not target or "://" in target or address.startswith("mailto:"):
        return link[0]
    base = ROOT if front else ROOT / "docs" / where
    path = (base / target).resolve()
    if not path.is_relative_to(ROOT):
        return link[0]
    inside = path.relative_to(ROOT).as_posix()
    if inside in FRONT:
        goal = FRONT[inside]
    elif inside == "docs/methods":
        goal = "methods/index.md"
    elif inside.startswith("docs/"):
        goal = inside.removeprefix("docs/")
    else:
        return text
    up = "../" * len(where.parts)
    return f"{mark}[{text}]({up}{goal}{hash_}{anchor})"


def cards_page(cards: list[str]) -> str:
    """All cards, by name, with their titles."""
    lines = [
        "# Methods",
        "",
        "A card each: its formula, source, cost, what it is for, and what the authors' code does.",
        "",
    ]
    for card in cards:
        title = (ROOT / "docs" / "methods" / f"{card}.md").read_text("utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"* [{title.replace('`', '')}]({card}.md)")
    return "\n".join([*lines, ""])


def reference() -> str:
    """Every public name, with its page of help."""
    import mixlens

    names = [name for name in mixlens.__all__ if name not in ("__version__", "errors", "architectures")]
    first = ["load", "Lens", "Target", "Words"]
    parts = [f"::: mixlens.{name}" for name in [*first, *(name for name in names if name not in first)]]
    return "\n\n".join(["# Reference", *parts, "::: mixlens.errors", ""])
