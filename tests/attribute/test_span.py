"""Spans of an answer explained as one, in hops through its reasoning: the formula written out once more, and laws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mixlens.errors import Undefined, UnknownOption
from models import exact, families
from oracles.layers import FORWARDS, Layer

NAMES = ("gpt2", "gpt_neox", "llama", "gemma2")
PROMPT, ANSWER = families.text(6), [5, 7, 11, 3]
P, M = len(PROMPT), len(ANSWER)
SPANS = {
    "token": [(t, t + 1) for t in range(M)],
    "answer": [(0, M)],
    (1, 3): [(0, 1), (1, 3), (3, 4)],
}


def layers_of(name: str) -> list[Layer]:
    model = families.model(name, "causal", attention=exact.ATTENTION)
    out = exact.forward(model, [*PROMPT, *ANSWER], output_hidden_states=True)
    return list(FORWARDS[name](model.base_model, out.hidden_states[0][0].numpy()))


def edges(layer: Layer, weights: dict[int, float]) -> np.ndarray:
    """The edges of a weighted sum of rows over those and the residual's, a source and head at a time."""
    a = sum(w * layer.a[i] for i, w in weights.items())
    x = sum(w * layer.x[i] for i, w in weights.items())
    size = np.abs(a).sum()
    out = np.zeros(len(layer.x))
    for j in range(len(layer.x)):
        for h in range(len(layer.alpha)):
            term = np.zeros_like(a)
            for i, w in weights.items():
                own = layer.alpha[h, i, j] * (layer.v[h, j] @ layer.wo[h])
                term += w * (own if layer.post_attention is None else layer.post_attention.frozen(own, layer.attn[i]))
            out[j] += max(0.0, size - np.abs(a - term).sum())
    return out / (out.sum() + max(0.0, size - np.abs(a - x).sum()))


def by_hand(layers: list[Layer], span: tuple[int, int], reasoning: tuple[int, int], hops: int) -> np.ndarray:
    """Scores over prompt and answer of answer tokens first to last - 1, read at the rows before them."""

    def shares(weights: dict[int, float]) -> np.ndarray:
        total = sum(edges(layer, weights) for layer in layers)
        return total / total.sum()

    def lies_on_reasoning(scores: np.ndarray) -> dict[int, float]:
        return {P + t - 1: scores[P + t] for t in range(*reasoning)}

    found = shares({P + t - 1: 1.0 for t in range(*span)})
    out, ratio = found.copy(), 1.0
    for _ in range(hops):
        weights = lies_on_reasoning(found)
        held = sum(weights.values())
        if held == 0:
            break
        for t in range(*reasoning):
            out[P + t] -= ratio * found[P + t]
        ratio *= held
        found = shares(weights)
        out += ratio * found
    out[P + span[0] : P + span[1]] = 0.0
    return out / out.sum()


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize(
    ("name", "hops", "reasoning"),
    [
        ("llama", 0, None),
        ("llama", 1, None),
        ("llama", 3, (1, 3)),
        *(pytest.param(name, 2, None, marks=pytest.mark.slow) for name in NAMES),
        ("gemma2", 1, (0, 2)),
    ],
)
def test_flashtrace_is_the_formula(name, hops, reasoning, span):
    layers = layers_of(name)
    got = families.lens(name, "causal").trace(PROMPT, ANSWER, "flashtrace", hops=hops, span=span, reasoning=reasoning)
    for first, last in SPANS[span]:
        through = ((0, first) if first else (0, last)) if reasoning is None else (reasoning[0], min(reasoning[1], last))
        expected = by_hand(layers, (first, last), through, hops)
        for t in range(first, last):
            np.testing.assert_allclose(got.scores[t].numpy(), expected, rtol=1e-9, atol=1e-12)


def test_as_many_hops_as_tokens_leave_nothing_on_the_answer():
    trace = families.lens("llama", "causal").trace(PROMPT, ANSWER, "flashtrace", hops=M)
    assert not trace.scores[:, P:].any()
    torch.testing.assert_close(trace.scores.sum(1), torch.ones(M, dtype=torch.float64))
    none = families.lens("llama", "causal").trace(PROMPT, ANSWER, "flashtrace", hops=0)
    assert bool((none.scores[1:, P] > 0).all())


def test_all_hops_of_single_tokens_are_near_the_way_through_the_answer():
    """A hop takes the sum of the rows that it goes through, closure each of them: one token before, and both agree."""
    lens = families.lens("llama", "causal")
    hopped = lens.trace(PROMPT, ANSWER[:2], "flashtrace", hops=1)
    closed = lens.trace(PROMPT, ANSWER[:2], "flashtrace", hops=0).through_answer()
    torch.testing.assert_close(hopped.scores, closed.scores, rtol=1e-12, atol=1e-14)


def test_tokens_of_a_span_have_its_row():
    trace = families.lens("llama", "causal").trace(PROMPT, ANSWER, "flashtrace", span=[1, 3])
    assert torch.equal(trace.scores[1], trace.scores[2])
    torch.testing.assert_close(trace.span(1, 3).scores[: P + 1], trace.scores[1, : P + 1])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"hops": -1}, UnknownOption, "expected hops= a whole number of 0 or more for flashtrace, got -1"),
        ({"hops": 1.0}, UnknownOption, "expected hops= a whole number for flashtrace, got 1.0"),
        ({"span": "word"}, UnknownOption, r"expected span= 'token', 'answer' or \(first, last\) for flashtrace"),
        ({"span": (2, 2)}, UnknownOption, r"span=\(first, last\) with 0 <= first < last <= 4 for flashtrace, got"),
        ({"span": (0, 5)}, UnknownOption, "0 <= first < last <= 4"),
        ({"reasoning": (-1, 2)}, UnknownOption, r"reasoning=\(first, last\) with 0 <= first < last <= 4"),
        ({"reasoning": "all"}, UnknownOption, r"expected reasoning=\(first, last\), two whole numbers, or None"),
    ],
)
def test_what_is_no_span(options, error, says):
    with pytest.raises(error, match=says):
        families.lens("llama", "causal").trace(PROMPT, ANSWER, "flashtrace", **options)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"span": "answer"}, UnknownOption, "span= is of the tokens of an answer, for flashtrace in lens.trace"),
        ({"reasoning": (0, 2)}, UnknownOption, "with 1 <= first < last <= 6 for flashtrace"),
        ({"readout": 0}, Undefined, "flashtrace reads the row that answers; leave readout= out"),
    ],
)
def test_what_a_text_alone_does_not_say(options, error, says):
    with pytest.raises(error, match=says):
        families.lens("llama", "causal").attribute(PROMPT, "flashtrace", **options)
