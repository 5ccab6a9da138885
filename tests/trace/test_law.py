"""A row of a trace is `attribute` of the text before its token, for every method that a model has."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import mixlens
from mixlens import Target
from mixlens.attribute import ATTRIBUTIONS
from mixlens.inventory import supports
from models import chats, families

FAMILIES = ("llama", "gpt2", "gemma2", "qwen3", "gpt_neox")
PROMPT, ANSWER, FOIL = families.text(6), [5, 7, 11], [5, 8, 12]
SPELLED = ("alti+layer:1", "norm+mean", "value_zeroing+sum", "attention+flow")
QUICK = ("head_logit", "alti", "saliency")  # of every family
# Every method on llama; the others on one more family each, in turn, as slow tests: what a family has of its own (its
# positions, windows, norms, heads) shows in a quarter of the methods, what a method has of its own in any family.
# A pass a token of a text and answer token (or hundreds of gradients): tried on one family.
OPTIONS = {"integrated_gradients": {"steps": 20, "tolerance": 9.0}, "blank_out": {"replace": "delete"}}
ABLATED = {"leave_one_out", "context_cite"}  # they take nothing out of the answer (attribute/test_ablated.py)
COSTLY = {"hta", "hta_x_input", "integrated_gradients", "deeplift", "blank_out"}


@cache
def lens(name):
    return families.lens(name, "causal")


def cases():
    for family in FAMILIES:
        able = [m for m, why in supports(lens(family).spec).items() if why is None and m in {*ATTRIBUTIONS} - ABLATED]
        for turn, method in enumerate([*able, *SPELLED]):
            if family == "llama":
                yield pytest.param(family, method, marks=pytest.mark.slow if method in COSTLY else [])
            elif method in QUICK:
                yield pytest.param(family, method)
            elif method not in COSTLY and FAMILIES[1 + turn % 4] == family:
                yield pytest.param(family, method, marks=pytest.mark.slow)


def attributed(family, method, t, **how):
    """`attribute` of answer token t, by the text before it."""
    target = Target(ANSWER[t], foil=how.pop("foil", None))
    if method == "flashtrace" and t:  # a text does not say where its answer begins
        how["reasoning"] = (len(PROMPT), len(PROMPT) + t)
    return lens(family).attribute([*PROMPT, *ANSWER[:t]], method, target, **how)


@pytest.mark.parametrize(("family", "method"), list(cases()))
def test_rows_are_attribute_at_each_position(family, method):
    how, heard = OPTIONS.get(method, {}), [(0, 1)]
    trace = lens(family).trace(PROMPT, ANSWER, method, progress=lambda *news: heard.append(news), **how)
    shares = [done / total for done, total in heard]
    assert shares == sorted(shares) and shares[-1] == 1, heard
    assert trace.scores.shape == (3, 9) and trace.scores.dtype == torch.float64
    for t in range(3):
        one = attributed(family, method, t, **how)
        torch.testing.assert_close(trace.scores[t, : 6 + t], one.scores, rtol=1e-12, atol=1e-12)
        assert not trace.scores[t, 6 + t :].any()
        assert trace.said[t]["target_probability"] == pytest.approx(one.meta["target_probability"], rel=1e-12)
    assert trace.scores.any()


@pytest.mark.parametrize(
    ("family", "method", "normalize"),
    [
        *(("llama", m, n) for m in ("head_logit", "saliency", "attcat", "alti", "random") for n in (False, True)),
        *(pytest.param(f, "head_logit", False, marks=pytest.mark.slow) for f in FAMILIES[1:]),
        *(pytest.param(f, "grad_x_input", True, marks=pytest.mark.slow) for f in FAMILIES[1:]),
    ],
)
def test_rows_rather_than_a_foil(family, method, normalize):
    """Answer and foil share their first token, for which nothing speaks; the rest is as `attribute` says."""
    trace = lens(family).trace(PROMPT, ANSWER, method, FOIL, normalize=normalize)
    assert trace.meta["same_as_foil"] == (0,) and not trace.scores[0].any()
    assert [t.foil_index for t in trace.targets] == [None, 8, 12]
    for t in (1, 2):
        one = attributed(family, method, t, foil=FOIL[t], normalize=normalize)
        torch.testing.assert_close(trace.scores[t, : 6 + t], one.scores, rtol=1e-12, atol=1e-12)
        assert trace.said[t]["foil_probability"] == pytest.approx(one.meta["foil_probability"], rel=1e-12)


@pytest.mark.parametrize("method", ["head_logit", "alti", "saliency", "random"])
def test_a_prompt_of_one_token_and_an_answer_of_one(method):
    (row,) = lens("llama").trace(PROMPT[:1], [7], method).scores
    expected = lens("llama").attribute(PROMPT[:1], method, Target(7)).scores
    torch.testing.assert_close(row, torch.cat([expected, expected.new_zeros(1)]), rtol=1e-12, atol=1e-12)


def test_a_foil_in_place_of_the_answer_turns_the_sign():
    """Where the answer's tokens before are the same: its first."""
    one = lens("llama").trace(PROMPT, [7], "grad_x_input", [8])
    other = lens("llama").trace(PROMPT, [8], "grad_x_input", [7])
    torch.testing.assert_close(one.scores, -other.scores, rtol=1e-12, atol=1e-12)
    assert one.scores.any()


@pytest.mark.parametrize("method", ["head_logit", "alti", "saliency", "attcat"])
def test_batches_change_nothing(method):
    whole = lens("llama").trace(PROMPT, ANSWER, method)
    torch.testing.assert_close(
        lens("llama").trace(PROMPT, ANSWER, method, batch_size=1).scores, whole.scores, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("method", ["cat", "attcat", "grads"])
def test_rows_where_special_tokens_are_hidden(method):
    """Which makes another pass than the one that predicts, for each answer token."""
    tokenizer = chats.tokenizer()
    known = mixlens.load(families.make("llama", "causal"), tokenizer)
    prompt = [tokenizer.all_special_ids[0], *PROMPT]
    trace = known.trace(prompt, ANSWER[:2], method, mask_special=True)
    one = known.attribute([*prompt, ANSWER[0]], method, Target(ANSWER[1]), mask_special=True)
    torch.testing.assert_close(trace.scores[1, : len(prompt) + 1], one.scores, rtol=1e-12, atol=1e-12)
    assert (trace.scores - known.trace(prompt, ANSWER[:2], method).scores).abs().max() > 1e-3
