"""The sections of CONTRIBUTING.md that say where their blocks go, and a copy of the project to put them into.

A block's first line says where it goes: `# FILE` is a new file, or the end of that file; `# FILE, in NAME` the last
entry of the table, or the last method of the class, of that name (in a page: the last row of the table with that
heading). Imports in front of an entry go to the top of the file.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parent.parent
COPIED = (
    "src",
    "tests",
    "docs",
    "experiments",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
)
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"# (\S+\.\w+)(?:, in (\w+))?\n")


def sections() -> dict[str, list[tuple[str, str]]]:
    """Title -> (language, block), of the sections that say where something goes."""
    found: dict[str, list[tuple[str, str]]] = {}
    title = ""
    for part in re.finditer(rf"^## (?P<title>[^\n]*)$|{BLOCK.pattern}", read := PAGE.read_text("utf-8"), re.M | re.S):
        title = part["title"] or title  # (a heading within a block is the block's)
        if part["title"] is None:
            found.setdefault(title, []).append((part["language"], part["code"]))
    assert read.count("```") == 2 * sum(map(len, found.values()))
    return {title: blocks for title, blocks in found.items() if any(PLACE.match(code) for _, code in blocks)}


SECTIONS = sections()


def place(root: Path, code: str) -> Path:
    """Put a block where its first line says; the file."""
    where = PLACE.match(code)
    assert where is not None
    path, name, code = root / where[1], where[2], code[where.end() :].strip("\n") + "\n"
    old = path.read_text("utf-8") if path.exists() else ""
    if name is None:
        path.write_text(f"{old}\n\n{code}" if old else code, "utf-8")
    else:
        path.write_text(with_row(old, name, code) if path.suffix == ".md" else with_entry(old, name, code), "utf-8")
    return path


def with_entry(source: str, name: str, code: str) -> str:
    """A module with one more entry of a table or one more method of a class."""
    imports, entry = re.fullmatch(r"((?:(?:from|import) [^\n]*\n)*)\n*(.*)", code, re.DOTALL).groups()  # type: ignore[union-attr]
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    targets = {
        getattr(target, "id", None): node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if name in classes:
        lines.insert(classes[name].end_lineno or 0, "\n" + indent(entry, "    "))
    else:
        entry = entry.rstrip().removesuffix(",") + ",\n"
        lines.insert((targets[name].end_lineno or 0) - 1, indent(entry, "    "))
    last = max(node.end_lineno for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    return "".join([*lines[:last], imports, *lines[last:]])


def with_row(page: str, name: str, row: str) -> str:
    """A page with one more row of the table whose first column's heading is this name, or one of it."""
    start = re.search(rf"^\| {name.removesuffix('s')} \|.*$", page, re.MULTILINE)
    assert start is not None, name
    end = page.index("\n\n", start.start()) + 1
    return page[:end] + row + page[end:]


def copied(to: Path) -> Path:
    """The project as it stands, with what Python has compiled of it."""
    ignored = shutil.ignore_patterns(".*")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=ignored)
        elif source.is_file():
            shutil.copy(source, to / name)
    return to


def added(root: Path, title: str) -> None:
    """Put a section's blocks where they say, sorted and formatted as the page asks."""
    places = [place(root, code) for _, code in SECTIONS[title] if PLACE.match(code)]
    python = [str(path) for path in dict.fromkeys(places) if path.suffix == ".py"]
    if find_spec("ruff"):
        for words in (["format"], ["check", "--fix"]):
            subprocess.run([sys.executable, "-m", "ruff", *words, "-q", *python], cwd=root, check=True)
