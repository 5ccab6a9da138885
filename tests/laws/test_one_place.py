"""What the source keeps in one place: model types, half precision, the privacy of a room, the names of methods."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

import mixlens
from mixlens.attribute import ATTRIBUTIONS
from mixlens.mixing import MIXING

SOURCE = Path(mixlens.__file__).parent
FILES = {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}

T = TypeVar("T", bound=ast.AST)

MODEL_TYPES = {  # beside `architectures/`, which decides by it
    "subject/check.py": "a message and the report name it",
    "subject/provenance.py": "results record it",
    "attribute/removal.py": "a message names it",
    "wrappers.py": "what has one is a configuration",
    "infer/found.py": "a message names it",
    "infer/twin.py": "a message names it",
    "infer/sizes.py": "a configuration inside another is made of it",
    "survey.py": "the list names them",
    "cli/surveying.py": "the same",
}
OF_OTHERS = {  # what torch, transformers and notebooks call so
    *("_parameters", "_buffers", "_modules", "_orig_mod", "_attn_implementation_internal", "_name_or_path"),
    "_experts_implementation_internal",
    *("_tqdm_active", "_getframe", "_repr_html_", "_repr_mimebundle_"),
}


@cache
def every_node() -> list[tuple[str, ast.AST]]:
    return [(name, node) for name, text in FILES.items() for node in ast.walk(ast.parse(text))]


def nodes(kind: type[T]) -> Iterator[tuple[str, T]]:
    return ((name, node) for name, node in every_node() if isinstance(node, kind))


def test_model_types_are_known_to_architectures_alone():
    used = {name for name, text in FILES.items() if "model_type" in text and not name.startswith("architectures/")}
    assert used == set(MODEL_TYPES)


@pytest.mark.parametrize("name", MODEL_TYPES)
def test_and_decide_nothing_elsewhere(name):
    def decides(node: ast.AST) -> bool:
        return any(isinstance(part, ast.Attribute) and part.attr == "model_type" for part in ast.walk(node))

    for node in ast.walk(ast.parse(FILES[name])):
        if isinstance(node, (ast.Compare, ast.Subscript, ast.Match)):
            assert not decides(node), ast.unparse(node)
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            assert not decides(node.test), ast.unparse(node.test)


def test_half_precision_is_asked_in_one_way():
    types = [name for name, node in nodes(ast.Attribute) if node.attr in ("float16", "bfloat16", "half")]
    assert set(types) == {"precision.py", "budget.py", "decompose/block.py", "mixing/value_zeroing.py"}
    owned = [ast.unparse(node) for name, node in nodes(ast.Attribute) if name != "precision.py" and node.attr == "half"]
    assert set(owned) == {"sizes.half", "self.half", "block.half"}
    for name, node in nodes(ast.Compare):
        text = ast.unparse(node)
        assert not re.search(r"(itemsize|element_size\(\)) (<|<=|>|>=|==) [1-9]", text), f"{name}: {text}"


def test_no_room_reaches_into_another():
    for name, node in nodes(ast.Attribute):
        if re.match(r"_[a-z]", node.attr) and ast.unparse(node.value) not in ("self", "cls"):
            assert node.attr in OF_OTHERS, f"{name}: {ast.unparse(node)}"
    for name, node in nodes(ast.ImportFrom):
        if (node.module or "").startswith("mixlens"):
            private = [alias.name for alias in node.names if re.match(r"_[a-z]", alias.name)]
            assert not private, f"{name}: {private} of {node.module}"


def test_no_method_is_named_where_something_is_decided():
    """A method that is another case says so in its line of the table."""
    known = {
        "maps.method == 'attention'",  # residual="auto" is Abnar & Zuidema's half for attention (`LayerMaps.rollout`)
        "stage != 'attention'",  # a stage of a layer, which has the name too
        "stage == 'attention'",
        "stage in ('attention', 'residual')",
    }
    for name, node in nodes(ast.Compare):
        sides = {
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
        if sides & {*MIXING, *ATTRIBUTIONS} and not name.startswith("reproduce/"):  # papers speak of methods
            assert ast.unparse(node) in known, f"{name}: {ast.unparse(node)}"


PRONOUNS = {
    "found",
    "one",
    "own",
    "some",
    "how",
    "said",
    "asked",
    "these",
    "those",
    "what",
    "that",
    "it",
    "its",
    "ours",
}
FIELDS = {  # keys of files and arguments of users
    ("target.py", "what"): "`Target(what)`",
    ("results/trace.py", "said"): "a field of trace files",
    ("view/kit/drawn_trace.py", "said"): "the same",
    ("reproduce/record.py", "said"): "a key of page records",
}


def test_things_are_named_by_nouns():
    """A variable or a parameter says what it holds: none is a pronoun."""
    names = [(name, node.id) for name, node in nodes(ast.Name) if isinstance(node.ctx, ast.Store)]
    names += [(name, node.arg) for name, node in nodes(ast.arg)]
    names += [(name, node.name.strip("_")) for name, node in nodes(ast.FunctionDef)]
    names += [(name, node.attr) for name, node in nodes(ast.Attribute) if isinstance(node.ctx, ast.Store)]
    pronouns = {(name, word) for name, word in names if word in PRONOUNS}
    assert pronouns == set(FIELDS)
