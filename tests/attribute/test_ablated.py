"""Parts of a prompt taken out, alone or many at once: real prompts without them, LASSO by hand, and what is refused."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens.attribute.ablated import fits
from mixlens.attribute.ablated.fits import coefficients, leave_one_out, random_masks
from mixlens.errors import InputError, MissingExtra, Undefined, UnknownOption
from models import chats, exact, families

PROMPT, ANSWER = families.text(6), [5, 7, 11]
TEXT = "w5 w6. w7 w8. w9 w10. w11?"
DOCUMENTS = {"a": "w5 w6. w7 w8.", "b": "w9 w10."}


def log_odds(ids: list[int], foil: list[int] | None = None) -> np.ndarray:
    """Of each answer token behind these ids."""
    model = families.model("llama", "causal", attention=exact.ATTENTION)
    z = exact.forward(model, [*ids, *ANSWER]).logits[0].numpy()[len(ids) - 1 :]
    if foil is not None:
        return np.array([z[t, a] - z[t, f] for t, (a, f) in enumerate(zip(ANSWER, foil, strict=True))])
    p = np.array([np.exp(row[a]) / np.exp(row).sum() for row, a in zip(z, ANSWER, strict=False)])
    return np.log(p / (1 - p))


def without(units: list[tuple[int, ...]], kept: np.ndarray) -> list[int]:
    gone = {i for unit, keep in zip(units, kept, strict=True) if not keep for i in unit}
    return [token for i, token in enumerate(PROMPT) if i not in gone]


def lasso_by_hand(masks: np.ndarray, y: np.ndarray, alpha: float, tokens: int = 1) -> np.ndarray:
    """Coordinate descent on standardised masks, until nothing moves."""
    z = (masks - masks.mean(0)) / masks.std(0)
    target, w, n = y / tokens - (y / tokens).mean(), np.zeros(masks.shape[1]), len(masks)
    for _ in range(5000):
        for k in range(len(w)):
            rho = z[:, k] @ (target - z @ w + z[:, k] * w[k]) / n
            w[k] = np.sign(rho) * max(0.0, abs(rho) - alpha)
    return w / masks.std(0) * tokens


@pytest.mark.parametrize("foil", [None, [6, 8, 12]])
def test_leave_one_out_is_the_difference(foil):
    trace = families.lens("llama", "causal").trace(PROMPT, ANSWER, "leave_one_out", foil, units="token")
    whole = log_odds(PROMPT, foil)
    for i in range(len(PROMPT)):
        expected = whole - log_odds(PROMPT[:i] + PROMPT[i + 1 :], foil)
        np.testing.assert_allclose(trace.scores[:, i].numpy(), expected, rtol=1e-9, atol=1e-10)
    assert not trace.scores[:, len(PROMPT) :].any() and trace.signed


@pytest.mark.parametrize("span", ["token", "answer"])
def test_context_cite_is_the_formula(span):
    trace = families.lens("llama", "causal").trace(
        PROMPT, ANSWER, "context_cite", units="token", ablations=24, seed=3, span=span
    )
    units = [(i,) for i in range(len(PROMPT))]
    masks = np.array([kept for kept in random_masks(len(units), 24, 3) if kept.any()])
    y = np.array([log_odds(without(units, kept)) for kept in masks])
    for t in range(len(ANSWER)):
        if span == "token":
            expected = lasso_by_hand(masks, y[:, t], 0.01)
        else:
            p = np.prod(1 / (1 + np.exp(-y)), 1)
            expected = lasso_by_hand(masks, np.log(p / (1 - p)), 0.01, len(ANSWER))
        np.testing.assert_allclose(trace.scores[t, : len(PROMPT)].numpy(), expected, rtol=1e-5, atol=1e-6)
    assert trace.scores.any()


def test_a_linear_answer_gives_its_weights_less_what_alpha_takes():
    masks = random_masks(5, 400, 0)
    weights = np.array([2.0, -1.0, 0.0, 0.5, 0.0])
    got = coefficients(masks, masks @ weights + 7.0, alpha=1e-4)
    np.testing.assert_allclose(got, weights, atol=1e-3)
    assert not coefficients(masks, masks @ weights, alpha=10.0).any()
    assert not coefficients(masks, np.ones(400), alpha=0.01).any()


def test_a_unit_that_always_stayed_has_nothing():
    masks = np.array([[True, True], [True, False], [True, True]])
    assert coefficients(masks, np.array([1.0, 0.0, 1.0]), alpha=0.01)[0] == 0


@pytest.mark.parametrize("method", ["leave_one_out", "context_cite"])
def test_the_text_before_the_answer_is_the_trace_of_its_first_token(method):
    lens = families.lens("llama", "causal")
    row = lens.trace(PROMPT, ANSWER, method, units="token").scores[0, : len(PROMPT)]
    alone = lens.attribute(PROMPT, method, ANSWER[0], units="token")
    torch.testing.assert_close(alone.scores, row, rtol=1e-9, atol=1e-10)
    small = lens.trace(PROMPT, ANSWER, method, units="token", batch_size=2).scores[0, : len(PROMPT)]
    torch.testing.assert_close(small, row, rtol=1e-9, atol=1e-10)


@pytest.fixture(scope="module")
def lens():
    return mixlens.load(families.make("llama", "causal", max_position_embeddings=64), chats.tokenizer())


def test_a_seed_says_which_ablations(lens):
    first, again, other = (lens.trace(TEXT, "w9 w7", "context_cite", seed=s, ablations=8).scores for s in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("method", ["leave_one_out", "context_cite"])
def test_a_sentence_s_number_stands_on_its_tokens(lens, method):
    trace = lens.trace(TEXT, "w9 w7", method)
    by = trace.units("sentence")
    assert len(by.sources) == 5  # and the answer
    for unit in by.sources[:4]:
        assert len({round(x, 9) for x in trace.scores[0, list(unit.indices)].tolist()}) == 1


@pytest.mark.parametrize("units", ["document", "sentence"])
def test_where_there_are_documents_nothing_else_goes(lens, units):
    trace = lens.trace("w11?", "w9 w7", "leave_one_out", documents=DOCUMENTS, units=units)
    held = {i for first, last in trace.meta["documents"].values() for i in range(first, last)}
    assert trace.scores.any(0).nonzero().flatten().tolist() == sorted(held)
    assert len(set(trace.scores[0, sorted(held)].tolist())) == (2 if units == "document" else 3)


def test_a_document_alone_may_be_left_out_and_not_fitted(lens):
    one = {"a": DOCUMENTS["a"]}
    assert lens.trace("w11?", "w9", "leave_one_out", documents=one, units="document").scores.any()
    with pytest.raises(Undefined, match="at least 2 documents that may be taken out, for context_cite, got 1"):
        lens.trace("w11?", "w9", "context_cite", documents=one, units="document")


def test_another_token_in_place_of_what_goes(lens):
    deleted, put = (lens.trace(TEXT, "w9", "leave_one_out", replace=how).scores for how in ("delete", "pad"))
    assert put.any() and not torch.equal(deleted, put)


@pytest.mark.parametrize(
    ("prompt", "options", "error", "says"),
    [
        (TEXT, {"units": "sentense"}, UnknownOption, "did you mean 'sentence'"),
        (TEXT, {"units": 3}, UnknownOption, r"expected units= a unit's name, or \{'name': \(start, end\)\}"),
        ("w5 w6", {}, Undefined, "sentences cut nothing here"),
        (PROMPT, {}, InputError, "sentences need offsets into a text"),
        (TEXT, {"ablations": 1}, UnknownOption, "expected ablations= of 2 or more for context_cite, got 1"),
        (TEXT, {"alpha": 0.0}, UnknownOption, "expected alpha= a number above 0 for context_cite"),
        (TEXT, {"seed": -1}, UnknownOption, "expected seed= a whole number of 0 or more"),
        (TEXT, {"replace": "blank"}, UnknownOption, "expected replace='delete', 'pad', 'mask' or 'unk'"),
        (TEXT, {"span": "answers"}, UnknownOption, "expected span= 'token', 'answer'"),
    ],
)
def test_what_is_refused_before_anything_is_generated(lens, monkeypatch, prompt, options, error, says):
    monkeypatch.setattr("mixlens.trace.calls.generated", None)
    with pytest.raises(error, match=says):
        lens.trace(prompt, method="context_cite", **options)


def test_without_scikit_learn(lens, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtra, match=r"context_cite needs the package scikit-learn, .*\[lasso\]"):
        lens.trace(TEXT, method="context_cite")


def test_no_measure_judges_by_the_same_ablations():
    from mixlens.measure.answers import _draws

    assert not np.array_equal(_draws(9, 32, 0), random_masks(9, 64, 0)[:32])


def test_fits_in_two_threads_leave_the_filters_of_warnings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first to begin is the first to end, which is where each would put back what it found."""
    begun, ended = [threading.Event(), threading.Event()], threading.Event()

    class Slow:
        def __init__(self, **settings: Any) -> None:
            self.coef_ = 0.0

        def fit(self, x: np.ndarray, y: np.ndarray) -> Slow:
            number = int(y[0])
            begun[number].set()
            (begun[1] if number == 0 else ended).wait(0.3)
            return self

    monkeypatch.setattr(fits, "lasso", lambda: Slow)
    before, masks = list(warnings.filters), leave_one_out(2)
    one = threading.Thread(target=lambda: [coefficients(masks, np.array([0.0, 5.0]), alpha=1.0), ended.set()])
    two = threading.Thread(target=lambda: coefficients(masks, np.array([1.0, 5.0]), alpha=1.0))
    one.start()
    assert begun[0].wait(5)
    two.start()
    one.join()
    two.join()
    assert begun[1].is_set() and list(warnings.filters) == before
