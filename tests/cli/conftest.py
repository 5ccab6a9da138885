"""The command line in an empty folder, on a tiny model."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app


@pytest.fixture
def cli(tiny_bert_folder, tmp_path, monkeypatch):
    """Run `mixlens VERB ...` in an empty folder, on the tiny model where the verb takes one."""
    monkeypatch.chdir(tmp_path)

    def run(verb: str, *words: str, model: bool = True):
        more = [] if not model else [str(tiny_bert_folder)] if verb == "check" else ["-m", str(tiny_bert_folder)]
        result = CliRunner().invoke(app, [verb, *words, *more])
        if not isinstance(result.exception, SystemExit | mixlens.errors.MixlensError | None):
            raise result.exception
        return result

    return run
