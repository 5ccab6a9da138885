"""CONTRIBUTING.md is true: who adds what a section adds, by its blocks alone, has the suites that it names green.

Each section is applied to a copy of the project (`sections.py`); that all of them are well typed stands in
`test_typed.py`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from forking import Forking
from sections import PAGE, ROOT, SECTIONS, added, copied, with_entry, with_row


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return copied(tmp_path)


def test_every_thing_that_can_be_added_has_a_section() -> None:
    attributions = "A mixing method,An aggregation,An attribution method,A kind of attribution methods"
    inputs, numbers = "An architecture,A kind of input", "A measure,A task,A similarity method"
    assert ",".join(SECTIONS) == f"{attributions},{inputs},{numbers},A reproduction,A view"


def test_an_entry_goes_where_it_says() -> None:
    """What places blocks is seen to, before it is believed about the page."""
    module = "import a\n\nTABLE: dict = {\n    1: 2,\n}\n\n\nclass C:\n    x = 1\n\n\nREST = 3\n"
    table = with_entry(module, "TABLE", "from b import c\n\n3: c,\n")
    assert table.startswith("import a\nfrom b import c\n") and "    1: 2,\n    3: c,\n}\n" in table
    assert with_entry(module, "TABLE", "3: 4\n").count("    3: 4,\n}") == 1
    assert "    x = 1\n\n    y = 2\n\n\nREST" in with_entry(module, "C", "y = 2\n")
    page = "| task | a row |\n| --- | --- |\n| `a` | b |\n\nmore\n"
    assert with_row(page, "tasks", "| `c` | d |\n").endswith("| `a` | b |\n| `c` | d |\n\nmore\n")


def test_a_folder_of_tests_has_the_name_of_what_it_tests() -> None:
    across = set(
        re.findall(r"`(\w+)/` \(", PAGE.read_text("utf-8").partition("Across them stand")[2].partition("\n\n")[0])
    )
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert across == {"laws", "oracles", "golden", "models", "stored"}
    assert folders - across <= rooms()


def rooms() -> set[str]:
    """The folders and files of the package."""
    there = (ROOT / "src" / "mixlens").iterdir()
    return {path.stem for path in there if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}


def test_what_has_no_tests_of_its_name_stands_on_the_page() -> None:
    paragraphs = (" ".join(text.split()) for text in PAGE.read_text("utf-8").split("\n\n"))
    (where,) = (text.partition("What has no tests of")[2] for text in paragraphs if "What has no tests of" in text)
    places = {path for path in re.findall(r"`(\w+(?:/|\.py))`", where)}
    assert all((ROOT / "tests" / path).exists() for path in places)
    there = {path.stem.removeprefix("test_") for path in (ROOT / "tests").iterdir()}
    assert set(re.findall(r"`(\w+)`", where)) - {"budget", "storage"} == rooms() - there


# What looks at all tables and pages at once, and is said by nearly every section.
WRITTEN = "tests/test_docs.py"
WHOLE = (WRITTEN, "tests/test_inventory.py", "tests/test_public.py")


def commands(title: str) -> list[list[str]]:
    """What a section says to run, as words for Python or pytest, its name in front."""
    lines = [line for language, code in SECTIONS[title] if language == "sh" for line in code.splitlines()]
    return [[Path(program).name, *words] for program, *words in map(shlex.split, lines)]


def passes(forking: Forking, root: Path, *words: str) -> None:
    # (a library that is there before pytest, and has a plugin, is none of ours)
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    status, printed = forking.run(root, "-m", "pytest", "-q", "-n", "0", "-x", *quiet, *words)
    assert status == 0, printed[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_is_all_that_it_takes(title: str, copy: Path, forking: Forking) -> None:
    """The blocks alone, and what the section says to run; of what looks at everything, see below."""
    said = [words for program, *words in commands(title) if program == "pytest"]
    assert said, "a section names the suites that guard what it adds"
    added(copy, title)
    if ["python", WRITTEN] in commands(title):
        assert forking.run(copy, WRITTEN)[0] == 0
    for words in said:
        own = words if "-k" in words else [word for word in words if word not in WHOLE]
        if own:
            passes(forking, copy, *own)


@pytest.mark.slow
def test_all_sections_together_stand_on_the_pages(copy: Path, forking: Forking) -> None:
    """What looks at all tables and pages, once for all sections: what one of them leaves out is missed here too.

    The tables in the pages change by those sections alone that say how to write them.
    """

    def pages() -> dict[Path, str]:
        return {path: path.read_text("utf-8") for path in [copy / "README.md", *(copy / "docs").rglob("*.md")]}

    writing = [title for title in SECTIONS if ["python", WRITTEN] in commands(title)]
    assert 0 < len(writing) < len(SECTIONS)
    for titles in ([title for title in SECTIONS if title not in writing], writing):
        for title in titles:
            added(copy, title)
        before = pages()
        status, printed = forking.run(copy, WRITTEN)
        assert status == 0, printed[-4000:]
        assert (pages() == before) == (titles is not writing)
    passes(forking, copy, *WHOLE)
