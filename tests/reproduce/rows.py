"""A data folder in the layout that reproductions read, with a handful of invented rows a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

_SENTIMENT = [
    ("a warm and funny film , and well acted .", 1),
    ("the plot is thin and the jokes are old .", 0),
    ("an honest , moving story .", 1),
    ("two dull hours .", 0),
]
_PAIRS = [
    ("A man plays a guitar .", "A man makes music .", "entailment"),
    ("A woman reads a book .", "The woman sleeps .", "contradiction"),
    ("Two dogs run on the beach .", "The dogs are brothers .", "neutral"),
    ("A boy kicks a ball .", "A boy is outside .", "neutral"),
]
_VERBS = [
    ("the keys to the old cabinet", "are", "is", " on the table ."),
    ("the key to the old cabinets", "is", "are", " on the table ."),
    ("the authors of the long book", "are", "is", " here ."),
    ("a child with two dogs", "is", "are", " at the door ."),
]
_PARAGRAPHS = [
    f"It was {name} who came to the {place} first ." for name in ("Ann", "Bob", "Eve") for place in ("sea", "hill")
]
_AGREEMENT = [("Susan", "herself", "themselves"), ("Some waiters", "themselves", "himself")]


def write(folder: Path) -> Path:
    """Fill the folder; returns it."""
    sentiment = [{"id": str(i), "text": t, "label": y} for i, (t, y) in enumerate(_SENTIMENT)]
    for file in (
        "sst2/dev.jsonl",
        "review_sentences/amazon_test.jsonl",
        "review_sentences/yelp_test.jsonl",
        "imdb/dev.jsonl.gz",
    ):
        _put(folder / file, sentiment)
    _put(
        folder / "nli_snli/test.jsonl",
        [{"id": str(i), "premise": a, "hypothesis": b, "label": y} for i, (a, b, y) in enumerate(_PAIRS)],
    )
    _put(
        folder / "paraphrase_mrpc/test.jsonl",
        [{"id": str(i), "text_a": a, "text_b": b, "label": i % 2} for i, (a, b, _) in enumerate(_PAIRS)],
    )
    hate = [
        {"id": str(i), "tokens": t.split(), "label": "normal" if y else "offensive"}
        for i, (t, y) in enumerate(_SENTIMENT * 5)
    ]
    _put(folder / "hatexplain/val.jsonl.gz", hate)
    questions = [
        {"question": "Who came first?", "context": c, "answer": c[7:10], "answer_start": 7} for c in _PARAGRAPHS
    ]
    _put(folder / "qa_xquad_en/test.jsonl.gz", questions)
    verbs = []
    for i, (prefix, target, foil, rest) in enumerate(_VERBS):
        span = [len(prefix) + 1, len(prefix) + 1 + len(target)]
        verbs.append(
            {
                "id": str(i),
                "sentence": f"{prefix} {target}{rest}",
                "prefix": prefix,
                "target": target,
                "foil": foil,
                "target_span": span,
                "number": "plural" if target == "are" else "singular",
            }
        )
    _put(folder / "sva/test.jsonl", verbs)
    for name in ("ana", "dna", "dnaa", "darn", "rpsv"):
        _put(
            folder / f"blimp/{name}.jsonl",
            [_agreement(*row, split) for row in _AGREEMENT for split in ("train", "test")],
        )
    return folder


def _agreement(cue: str, target: str, foil: str, split: str) -> dict:
    start = len(cue) + len(" did not hurt ")
    return {
        "sentence": f"{cue} did not hurt {target}.",
        "target": target,
        "foil": foil,
        "target_span": [start, start + len(target)],
        "cue_spans": [[cue.rfind(" ") + 1, len(cue)]],
        "phrase_spans": [[0, len(cue)]],
        "number": "plural" if target == "themselves" else "singular",
        "paper_subset": True,
        "split": split,
    }


def _put(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
