"""Does the explanation mark what people marked? Precision@K, token F1, IOU, AUPRC.

Sources: Precision@K, Qiang 2022 section 4; the others, DeYoung 2020 (ERASER) section 4, on tokens. Signed scores are
taken as they are (evidence for the explained class) unless `absolute`.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from jaxtyping import Bool, Float

from mixlens.errors import UnknownOption
from mixlens.measure.case import Case
from mixlens.measure.cue import precision_recall
from mixlens.measure.perturb import order

Vector = Float[np.ndarray, " token"]
Mask = Bool[np.ndarray, " token"]
_NAN = float("nan")


def precision_at_k(
    case: Case, *, k: int = 20, fraction: bool = False, absolute: bool = False, special: bool = True
) -> float:
    """How many of the K highest tokens belong to the answer: a count, as the paper; `fraction` divides it by K.

    Of a text shorter than K all tokens count. Ties in reading order. NaN: no token of the answer. Raises UnknownOption.
    """
    if not isinstance(k, int) or k < 1:
        raise UnknownOption(f"k: expected a whole number from 1, got {k!r}")
    assert case.answer is not None
    scores, answer = _kept(case, case.answer, absolute, special)
    if not answer.any():
        return _NAN
    hits = float(answer[order(scores)[:k]].sum())
    return hits / k if fraction else hits


def token_f1(
    case: Case, *, top: float | None = None, threshold: float = 0.5, absolute: bool = False, special: bool = False
) -> float:
    """F1 of the highest tokens against the rationale's, 0 to 1; NaN: the rationale has no token. See `chosen`."""
    marked, wanted = _sets(case, top, threshold, absolute, special)
    return float(2 * (marked & wanted).sum() / (marked.sum() + wanted.sum())) if wanted.any() else _NAN


def iou(
    case: Case, *, top: float | None = None, threshold: float = 0.5, absolute: bool = False, special: bool = False
) -> float:
    """Intersection over union of the highest tokens and the rationale's, 0 to 1; NaN: the rationale has no token."""
    marked, wanted = _sets(case, top, threshold, absolute, special)
    return float((marked & wanted).sum() / (marked | wanted).sum()) if wanted.any() else _NAN


def auprc(case: Case, *, threshold: float = 0.5, absolute: bool = False, special: bool = False) -> float:
    """Area under the precision-recall curve of the rationale's tokens, trapezoids as ERASER, 0 to 1.

    The curve begins at recall 0, precision 1; tied tokens come in together. NaN: the rationale has no token.
    """
    scores, wanted = _rationale(case, threshold, absolute, special)
    if not wanted.any():
        return _NAN
    precision, recall = precision_recall(scores, wanted)
    precision, recall = np.insert(precision, 0, 1.0), np.insert(recall, 0, 0.0)
    return float(np.diff(recall) @ (precision[1:] + precision[:-1]) / 2)


def chosen(scores: Vector, wanted: Mask, top: float | None) -> Mask:
    """The highest tokens, ties in reading order: `top` of them if whole, that share (rounded up) if below 1.

    None: as many as the rationale has, so that precision, recall and F1 are one number. Raises UnknownOption.
    """
    if top is None:
        count = int(wanted.sum())
    elif isinstance(top, (int, float)) and top > 0 and (top < 1 or float(top).is_integer()):
        count = ceil(top * len(scores) - 1e-9) if top < 1 else int(top)
    else:
        raise UnknownOption(f"top: expected None, a whole number from 1 or a share below 1, got {top!r}")
    mask = np.zeros(len(scores), dtype=bool)
    mask[order(scores)[:count]] = True
    return mask


def _sets(case: Case, top: float | None, threshold: float, absolute: bool, special: bool) -> tuple[Mask, Mask]:
    scores, wanted = _rationale(case, threshold, absolute, special)
    return chosen(scores, wanted, top), wanted


def _rationale(case: Case, threshold: float, absolute: bool, special: bool) -> tuple[Vector, Mask]:
    if not 0 < threshold <= 1:
        raise UnknownOption(f"threshold: expected a share of annotators above 0 and up to 1, got {threshold!r}")
    assert case.rationale is not None
    return _kept(case, case.rationale >= threshold, absolute, special)


def _kept(
    case: Case, wanted: Mask, absolute: bool, special: bool
) -> tuple[Float[np.ndarray, " kept"], Bool[np.ndarray, " kept"]]:
    kept = np.ones(len(case.scores), dtype=bool) if special else ~case.special
    scores = np.abs(case.scores) if absolute else case.scores
    return scores[kept], wanted[kept]
