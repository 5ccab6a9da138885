"""Result files on users' disks: what older versions wrote (tests/stored, format 1 and 2) is read as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import mixlens
from mixlens import storage
from mixlens.capture.text import Tokens

STORED = Path(__file__).parent / "stored"
NAMES = sorted(path.stem for path in STORED.glob("*.result"))


def test_all_kinds_are_there():
    assert NAMES == ["attribution", "comparison", "heads", "maps"]


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_file_is_read_as_it_was(name):
    found = mixlens.read(STORED / f"{name}.result")
    assert found.to_dict() == json.loads((STORED / f"{name}.json").read_text("utf-8"))


def test_what_json_does_not_say_is_read_too():
    maps = mixlens.read(STORED / "maps.result")
    assert isinstance(maps.source, Tokens)
    assert maps.source.ids == (2, 5, 3, 6, 7, 3)
    assert maps.source.spans == (None, (0, 0, 2), None, (1, 0, 2), (1, 2, 3), None)
    assert maps.source.inputs == {"token_type_ids": (0, 0, 0, 1, 1, 1)}
    assert (maps.source.dropped, maps.rows, maps.queries, maps.keys) == (2, (4, 1), maps.source, maps.source)
    assert not maps.rectangular
    heads = mixlens.read(STORED / "heads.result")
    assert (heads.source.roles, heads.scores.dtype) == ((None, "user", None), torch.bfloat16)


@pytest.mark.parametrize("name", NAMES)
def test_written_again_it_carries_the_format_of_today(name, tmp_path):
    found = mixlens.read(STORED / f"{name}.result")
    path = found.save(tmp_path / name)
    with storage.safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()[storage.KEY])["format"] == storage.VERSION == 3
    assert mixlens.read(path).to_dict() == found.to_dict()
