"""What is trained on what: one entry a model in RECIPES. A row becomes model inputs by a function named here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mixlens.reproduce.qiang import held_out

Row = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A row to learn: a text (or a pair), and its class, or the words that compete at [MASK], the right one first.

    Or a question and its context, and the characters of the answer in the context.
    """

    text: str | tuple[str, str]
    label: int | None = None
    words: tuple[str, str] | None = None
    answer: tuple[int, int] | None = None


@dataclass(frozen=True)
class Recipe:
    """What is tuned, on what, and how. File names are relative to --data."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    sample: Callable[[Row, int], Sample | None]  # row and its number; None: the row is left out
    labels: tuple[str, ...] = ()  # of a classifier
    task: Literal["sequence", "masked", "question"] = "sequence"
    train_part: Callable[[Row, int], bool] | None = None  # where train and dev stand in the same files
    layers: int | None = None  # keep the first layers alone
    rank: int = 8  # of the LoRA difference on every linear map of every layer; 0: none
    lr: float = 1e-3
    epochs: int = 3
    batch: int = 32
    warmup: float = 0.06  # part of the steps; then linear decay to 0
    weight_decay: float = 0.01
    clip: float = 1.0  # largest gradient norm
    dropout: float = 0.1
    seed: int = 0


def single(row: Row, _: int) -> Sample:
    """`text` and a class index."""
    return Sample(row["text"], row["label"])


def paraphrase(row: Row, _: int) -> Sample:
    """MRPC: 1 is a paraphrase."""
    return Sample((row["text_a"], row["text_b"]), row["label"])


def inference(row: Row, _: int) -> Sample:
    """SNLI: the label is a name."""
    return Sample((row["premise"], row["hypothesis"]), INFERENCE.index(row["label"]))


def hate(row: Row, _: int) -> Sample:
    """HateXplain: normal, or not."""
    return Sample(" ".join(row["tokens"]), int(row["label"] != "normal"))


def number_of_verb(row: Row, _: int) -> Sample:
    """SVA: the number of the verb that follows this beginning."""
    return Sample(row["prefix"], NUMBERS.index(row["number"]))


def masked_verb(row: Row, _: int) -> Sample:
    """SVA: the sentence with [MASK] for its verb; right and wrong number compete."""
    return _masked(row)


def agreement(row: Row, _: int) -> Sample | None:
    """BLiMP, the paper's subset: the sentence with [MASK] for its target word; target and foil compete."""
    return _masked(row) if row["paper_subset"] else None


def question(row: Row, _: int) -> Sample:
    """XQuAD (English): the characters of the context that answer the question."""
    start = row["answer_start"]
    return Sample((row["question"], row["context"]), answer=(start, start + len(row["answer"])))


def _masked(row: Row) -> Sample:
    start, end = row["target_span"]
    return Sample(row["sentence"][:start] + "[MASK]" + row["sentence"][end:], words=(row["target"], row["foil"]))


INFERENCE = ("entailment", "neutral", "contradiction")
NUMBERS = ("singular", "plural")
_BLIMP = tuple(f"blimp/{name}.jsonl" for name in ("ana", "dna", "dnaa", "darn", "rpsv"))

RECIPES = {
    "sst2": Recipe(
        ("sst2/train_phrases.jsonl.gz",),
        ("sst2/dev.jsonl",),
        single,
        ("negative", "positive"),
        epochs=1,
        batch=64,
        dropout=0.0,  # a quarter faster on a CPU; phrases of one sentence overlap, but come once
    ),
    "sst2_cut": Recipe(
        ("sst2/train_phrases.jsonl.gz",),
        ("sst2/dev.jsonl",),
        single,
        ("negative", "positive"),
        layers=3,
        epochs=1,
        batch=64,
        dropout=0.0,
    ),
    "agreement": Recipe(
        _BLIMP, _BLIMP, agreement, task="masked", train_part=lambda row, _: row["split"] == "train", rank=4
    ),
    "verb_number": Recipe(
        ("sva/train.jsonl.gz",), ("sva/test.jsonl",), number_of_verb, NUMBERS, rank=0, lr=2e-3, epochs=4
    ),
    "masked_verb": Recipe(("sva/train.jsonl.gz",), ("sva/test.jsonl",), masked_verb, task="masked", rank=4),
    "hate": Recipe(
        ("hatexplain/val.jsonl.gz",),
        ("hatexplain/val.jsonl.gz",),
        hate,
        ("normal", "hateful or offensive"),
        train_part=lambda _, number: number % 5 != 4,  # the rest is for the figures
        epochs=2,
    ),
    "inference": Recipe(("nli_snli/train.jsonl.gz",), ("nli_snli/test.jsonl",), inference, INFERENCE),
    "paraphrase": Recipe(
        ("paraphrase_mrpc/train.jsonl.gz",),
        ("paraphrase_mrpc/test.jsonl",),
        paraphrase,
        ("different", "paraphrase"),
        epochs=4,
    ),
    "question": Recipe(
        ("qa_xquad_en/test.jsonl.gz",),
        ("qa_xquad_en/test.jsonl.gz",),
        question,
        task="question",
        train_part=lambda row, number: not held_out(row, number),  # by paragraph
        epochs=8,
        batch=16,
    ),
}
