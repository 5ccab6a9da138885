"""What users may rely on: the exported names, and the error tree as drawn."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import mixlens
from mixlens import errors

NAMES = [
    "Attend",
    "Attribution",
    "Comparison",
    "Example",
    "Explained",
    "Feed",
    "LayerMaps",
    "Lens",
    "Network",
    "Question",
    "Similarity",
    "Spec",
    "Table",
    "Target",
    "Trace",
    "Words",
    "__version__",
    "architectures",
    "cite",
    "errors",
    "evaluate",
    "explain_data",
    "explore",
    "load",
    "measures",
    "methods",
    "plan_evaluate",
    "plan_explain_data",
    "planted",
    "read",
    "task",
]


def test_names_are_pinned():
    assert sorted(mixlens.__all__) == NAMES
    assert dir(mixlens) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there_and_documented(name):
    assert getattr(mixlens, name).__doc__


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="module 'mixlens' has no attribute 'laod'"):
        mixlens.laod  # noqa: B018


def test_version_stands_in_one_place():
    assert metadata.version("mixlens") == mixlens.__version__


def drawn_tree(text: str) -> dict[str, str]:
    """Error -> its base, from the drawing: four columns a level."""
    above: list[str] = []
    tree = {}
    for line in text.splitlines():
        if match := re.match(r"    ((?:[|` ][- ]{3})*)(\w+)(?: {2,}|$)", line):
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            tree[match[2]] = above[depth - 1] if depth else "Exception"
    return tree


def test_error_tree_is_the_drawing():
    assert errors.__doc__ is not None
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, BaseException)]
    assert drawn_tree(errors.__doc__) == {c.__name__: c.__bases__[0].__name__ for c in classes}


def test_the_drawing_is_read_well():
    assert drawn_tree("x\n    A\n    |-- B     b\n    |   `-- C    c\n    `-- D\n") == {
        "A": "Exception",
        "B": "A",
        "C": "B",
        "D": "A",
    }


class Untyped(ast.NodeTransformer):
    """A module without what type checkers alone read."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if typing else self.generic_visit(node)


def imported_by_the_package() -> set[str]:
    """Distributions whose modules the package's files import anywhere, typing aside."""
    owners = metadata.packages_distributions()
    names: set[str] = set()
    for file in Path(mixlens.__file__).parent.rglob("*.py"):
        for node in ast.walk(Untyped().visit(ast.parse(file.read_text("utf-8")))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add((node.module or "").partition(".")[0])
    return {owner.lower() for name in names for owner in owners.get(name, ())} - {"mixlens"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows the modules of few distributions")
def test_dependencies_are_what_is_imported():
    wanted = [re.match(r"([\w.-]+)", r)[1].lower() for r in metadata.requires("mixlens") if "extra ==" not in r]
    # an error of its own each; without llvmlite torch does it
    optional = {
        "pandas",
        "pyarrow",
        "datasets",
        "scikit-learn",
        "llvmlite",
        "python-multipart",
        "starlette",
        "uvicorn",
        "ray",
        "anywidget",
        "traitlets",
    }
    assert imported_by_the_package() - optional == set(wanted)
