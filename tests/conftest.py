"""For all tests: no network, few threads, shapes enforced, and one tiny model on disk."""

from __future__ import annotations

import gc
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # workers, and processes of tests, would compile all of it anew
sys.dont_write_bytecode = False
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # (torch's are set below)
gc.disable()  # until all is imported and collected: nothing of it is garbage

from pathlib import Path
from types import ModuleType

import jaxtyping
from beartype import BeartypeConf, beartype

import shaped

# Shapes hold in every test; an int passes for a float, as for any type checker. Before mixlens is imported.
checker = ModuleType("shape_checker")
checker.check = beartype(conf=BeartypeConf(is_pep484_tower=True))
sys.modules["shape_checker"] = checker
jaxtyping.jaxtyped = shaped.where_shapes_are(jaxtyping.jaxtyped)
jaxtyping.install_import_hook(shaped.SHAPED, "shape_checker.check")


from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
import typer.testing
from hypothesis import settings

from forking import Forking

settings.register_profile("mixlens", deadline=None, max_examples=40)  # a busy machine is no fault of a test
settings.load_profile("mixlens")
typer.testing._get_command = cache(typer.testing._get_command)  # a command keeps no state; it is slow to build
torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else min(2, torch.get_num_threads()))


# Where the longest tests stand, a minute and less each: they come first, so that none is left to a worker at the end.
LONG = (
    *("test_contributing.py", "test_budget.py", "cli/test_trace.py::test_the_embedded", "test_source.py"),
    *("test_arguments.py::test_any", "reproduce/test_", "evaluation/test_resume.py", "dataset/test_resume.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the packaged model's real weights are slow ones; they have `minilm` in their id."""
    for item in items:
        if "minilm" in item.nodeid.partition("[")[2]:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not any(part in item.nodeid for part in LONG))


def pytest_collection_finish() -> None:
    """Modules and tests stay: what looks for garbage need not look at them each time."""
    shaped.leave_the_others(shaped.SHAPED)
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a deep and meaningful film . not bad good ##ly ##s slow very 中 文 < > / script"


def save_tiny_bert(folder: Path, **config: object) -> Path:
    """A random BertForSequenceClassification and a WordPiece tokenizer, saved; every size is another number."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    vocab = {word: i for i, word in enumerate(WORDS.split())}
    settings = {
        "vocab_size": len(vocab),
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "max_position_embeddings": 32,
        "initializer_range": 0.5,
        "id2label": {0: "negative", 1: "positive"},
        "label2id": {"negative": 0, "positive": 1},
        **config,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(**settings))
        for parameter in model.parameters():  # fresh norms and biases are all alike: a swapped one would not show
            parameter.data += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    BertTokenizerFast(vocab=vocab, do_lower_case=True, model_max_length=32).save_pretrained(folder)
    return folder


@pytest.fixture
def unshaped() -> Iterator[None]:
    """No shapes are checked, as in a user's process: what the checker would refuse first shows its own error."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    with Forking() as process:
        yield process


@pytest.fixture(scope="session")
def script(forking: Forking, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """What a Python file prints, run with the words that follow in a process without the tests' own checks."""

    def run(file: Path, *words: str, status: int = 0) -> str:
        source = Path(__file__).parent.parent / "src"
        got, printed = forking.run(tmp_path_factory.mktemp("script"), str(file), *words, source=source)
        assert got == status, printed[-4000:]
        return printed

    return run


@pytest.fixture(scope="session")
def tiny_bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("tiny_bert"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium: the system's, or Playwright's own. Skipped where neither is there, or no Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    there = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_api.sync_playwright() as driver:
        try:
            made = driver.chromium.launch(executable_path=there, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]}")
        yield made
        made.close()
