"""The texts of Mohebbi 2023: half of BLiMP's subset, the verb or pronoun masked."""

from __future__ import annotations

from mixlens.reproduce.study import DataRow, Study

BLIMP = ("ana", "dna", "dnaa", "darn", "rpsv")


def held_out(study: Study) -> list[DataRow]:
    """The paper's subset (one-piece targets, balanced), the half that was not trained on; `limit` over all five."""
    rows = [row for name in BLIMP for row in study.rows(f"blimp/{name}.jsonl", _is_test)]
    if study.limit is not None:
        rows = rows[:: max(1, len(rows) // study.limit)][: study.limit]
    study.counted = {"blimp/*.jsonl": len(rows)}
    return rows


def _is_test(row: DataRow, _: int) -> bool:
    return bool(row["paper_subset"]) and row["split"] == "test"


def masked(row: DataRow) -> str:
    """The sentence with [MASK] for the word that agrees with the cue."""
    start, end = row["target_span"]
    return f"{row['sentence'][:start]}[MASK]{row['sentence'][end:]}"
