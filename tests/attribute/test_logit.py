"""What heads carry straight to the logits, against layers by hand, and what the terms must sum to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens.attribute.logit.direct import directions, head_logits, rows_pass
from mixlens.errors import Undefined, UnknownOption
from mixlens.target import Target
from models import exact, families
from oracles import methods
from oracles.layers import FORWARDS, Layer, Norm

NAMES = ("gpt2", "gpt_neox", "llama", "gemma2")
FINAL = {"gpt2": "ln_f", "gpt_neox": "final_layer_norm", "llama": "norm", "gemma2": "norm"}


def by_hand(name: str, ids: list[int]) -> tuple[list[Layer], Norm, np.ndarray, np.ndarray]:
    """The layers of a family's language model, its final norm, its unembedding and its last logits."""
    model = families.model(name, "causal", attention=exact.ATTENTION)
    out = exact.forward(model, ids, output_hidden_states=True)
    layers = list(FORWARDS[name](model.base_model, out.hidden_states[0][0].numpy()))
    norm = getattr(model.base_model, FINAL[name])
    rms, eps = "RMS" in type(norm).__name__, getattr(norm, "eps", getattr(norm, "variance_epsilon", None))
    gain = norm.weight.detach().numpy() + (name == "gemma2")
    final = Norm(gain, 0.0 if rms else norm.bias.detach().numpy(), eps, rms)
    return layers, final, model.get_output_embeddings().weight.detach().numpy(), out.logits[0, -1].numpy()


def literal(name: str, ids: list[int], target: int, foil: int | None, cap: float | None) -> np.ndarray:
    """(layer, source): sum_h max(0, alpha^h_qj (v_j^h W_O^h) . u), a source, head and layer at a time."""
    layers, final, unembedding, logits = by_hand(name, ids)
    q, last = len(ids) - 1, layers[-1].y[-1]
    slope = 1.0 if cap is None else 1 - (logits / cap) ** 2
    if foil is None:  # the gradient of log p / (1 - p) by the logits
        p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        weights = -p / (1 - p[target])
        weights[target] = 1.0
    else:
        weights = np.zeros_like(logits)
        weights[target], weights[foil] = 1.0, -1.0
    wanted = (weights * slope) @ unembedding
    out = np.zeros((len(layers), len(ids)))
    for k, layer in enumerate(layers):
        for j in range(len(ids)):
            for h in range(len(layer.alpha)):
                term = layer.alpha[h, q, j] * (layer.v[h, j] @ layer.wo[h])
                if layer.post_attention is not None:
                    term = layer.post_attention.frozen(term, layer.attn[q])
                out[k, j] += max(0.0, float(final.frozen(term, last) @ wanted))
    return out


@pytest.mark.parametrize("foil", [None, 9])
@pytest.mark.parametrize("name", NAMES)
def test_head_logit_is_the_formula(name: str, foil: int | None) -> None:
    ids, lens = families.text(7), families.lens(name, "causal")
    got = lens.attribute(ids, "head_logit", target=Target(4, foil=foil), normalize=False)
    expected = literal(name, ids, 4, foil, lens.subject.unembedding.cap)
    assert got.layers is not None
    np.testing.assert_allclose(got.layers.numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got.scores.numpy(), expected.sum(0), rtol=1e-9, atol=1e-12)
    assert bool((got.scores >= 0).all())


@pytest.mark.parametrize("name", NAMES[:3])  # (under a cap its slope is a factor of every term)
def test_signed_terms_sum_to_what_the_attentions_write(name: str) -> None:
    """And with what the embedding, the networks and the biases write, to the explained number itself."""
    ids, lens = families.text(7), families.lens(name, "causal")
    layers, final, unembedding, _ = by_hand(name, ids)
    got = lens.attribute(ids, "head_logit", target=Target(4, foil=9), signed=True)
    wanted, last = unembedding[4] - unembedding[9], layers[-1].y[-1]

    def u(vector: np.ndarray) -> float:
        return float(final.frozen(vector, last) @ wanted)

    written = [u((layer.attn - layer.bo)[-1]) for layer in layers]
    np.testing.assert_allclose(got.layers.sum(1).numpy(), written, rtol=1e-9, atol=1e-12)
    rest = u(layers[0].x[-1]) + sum(u(np.broadcast_to(layer.bo, last.shape)) for layer in layers)
    rest += sum(u(layer.y[-1] - layer.a[-1]) for layer in layers)
    model = families.model(name, "causal", attention=exact.ATTENTION)
    logits = exact.forward(model, ids).logits[0, -1]
    bias = float((final(last) - final.frozen(last, last)) @ wanted)
    assert float(got.scores.sum()) + rest + bias == pytest.approx(float(logits[4] - logits[9]), rel=1e-9)
    swapped = lens.attribute(ids, "head_logit", target=Target(9, foil=4), signed=True)
    torch.testing.assert_close(swapped.scores, -got.scores, rtol=1e-9, atol=1e-12)


def test_the_target_less_what_was_expected() -> None:
    """Of log-odds, the default: (U_target - sum_w p_w U_w) / (1 - p_target)."""
    ids, lens = families.text(7), families.lens("llama", "causal")
    with torch.no_grad():
        seen = rows_pass(lens.subject, lens.subject.read(ids).require()[0], [6])
        unembedding = lens.subject.unembedding
        logits = unembedding.logits(seen.normed)
        attr = lens.attribute(ids, "head_logit", target=3)
        from mixlens.answer import Reading, answer

        resolved = answer(lens.head, Reading(6, 6, True, Target(3)), (logits[0],))
        p = logits.softmax(-1)
        u = directions(unembedding, seen.last, logits, [resolved], "log_odds")
        expected = unembedding.directions(seen.last, unembedding.matrix[[3]] - p @ unembedding.matrix)
        torch.testing.assert_close(u * (1 - p[0, 3]), expected, rtol=1e-9, atol=1e-12)
        raw = head_logits(seen.terms, u).sum((0, 1))
    torch.testing.assert_close(attr.scores, raw / raw.sum())


@pytest.mark.parametrize("name", families.each(of=[n for n, family in families.FAMILIES.items() if family.causal]))
def test_every_decoder_has_it_or_says_why_not(name: str) -> None:
    lens, ids = families.lens(name, "causal"), families.text(5)
    if name == "opt-post":
        with pytest.raises(
            Undefined,
            match="head_logit is a sum of what heads add to one residual stream, this model's layers are post-LN",
        ):
            lens.attribute(ids, "head_logit")
        return
    attr = lens.attribute(ids, "head_logit")
    assert bool((attr.scores >= 0).all()) and float(attr.scores.sum()) == pytest.approx(1)
    batch = lens.attribute([families.text(3), ids, families.text(9)], "head_logit")
    torch.testing.assert_close(batch[1].scores, attr.scores, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("family", "head", "ask", "error", "says"),
    [
        (
            "gpt2",
            "sequence",
            {},
            Undefined,
            "head_logit explains the answers of causal heads, got a sequence head; use",
        ),
        ("gpt2", "base", {}, Undefined, "explains the answers of causal heads, got a model without a head"),
        ("llama", "causal", {"readout": 0}, Undefined, "reads the row that answers; leave readout= out"),
        ("llama", "causal", {"signed": 1}, UnknownOption, "expected signed= True or False for head_logit"),
        ("llama", "causal", {"steps": 1}, UnknownOption, "head_logit would ignore the option 'steps'"),
    ],
)
def test_what_means_nothing_is_refused(family: str, head: str, ask: dict[str, Any], error: Any, says: str) -> None:
    lens = families.lens(family, head)
    with pytest.raises(error, match=says):
        lens.attribute(families.text(5), "head_logit", **ask)


def test_half_precision_is_near() -> None:
    wide = families.lens("llama", "causal", torch.float32).attribute(families.text(9), "head_logit", target=3)
    half = families.lens("llama", "causal", torch.bfloat16).attribute(families.text(9), "head_logit", target=3)
    assert np.corrcoef(wide.scores.double(), half.scores.double())[0, 1] > 0.98


def test_a_model_that_was_moved_is_seen_anew() -> None:
    lens = mixlens.load(families.make("llama", "causal", dtype=torch.float32))
    before = lens.attribute(families.text(5), "head_logit", target=3).scores
    lens.model.double()
    after = lens.attribute(families.text(5), "head_logit", target=3).scores
    assert after.dtype == torch.float64
    torch.testing.assert_close(before.double(), after, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("what", ["head", "norm", "assign", "resize"])
def test_a_model_with_other_tensors_is_seen_anew(what: str) -> None:
    """Weights that were put in place of others, not written into them, are those that the scores are of."""
    lens = mixlens.load(families.make("llama", "causal"))
    model, text = lens.model, families.text(5)
    before = lens.attribute(text, "head_logit", target=3).scores
    if what == "assign":
        model.load_state_dict({name: 1.3 * value for name, value in model.state_dict().items()}, assign=True)
    elif what == "resize":
        model.resize_token_embeddings(families.VOCABULARY + 9, mean_resizing=False)
    else:
        held = model.lm_head if what == "head" else model.model.norm
        held.weight = torch.nn.Parameter(0.3 - 1.5 * held.weight.detach())
    after = lens.attribute(text, "head_logit", target=3)
    fresh = mixlens.load(model).attribute(text, "head_logit", target=3)
    assert torch.equal(after.scores, fresh.scores) and not torch.equal(after.scores, before)
    assert after.meta["target_probability"] == fresh.meta["target_probability"]


def alti_by_hand(layers: list[Layer], final: Norm, u: np.ndarray, ffn: bool) -> np.ndarray:
    """phi = sum_l v_l C_(l-1) ... C_1, products written out; and what is at the row itself."""
    n, last = len(layers[0].x), layers[-1].y[-1]
    maps = [methods.alti(layer) for layer in layers]

    def dot(vector: np.ndarray) -> float:
        return float(final.frozen(vector, last) @ u)

    phi = np.zeros(n)
    phi[-1] += dot(layers[0].x[-1])
    for k, layer in enumerate(layers):
        below = np.eye(n)
        for lower in maps[:k]:
            below = lower @ below
        terms = methods.terms(layer, "residual")[-1]
        terms[-1] -= layer.x[-1]
        phi += np.array([dot(t) for t in terms]) @ below
        if ffn:
            phi += dot(layer.y[-1] - layer.a[-1]) * (maps[k] @ below)[-1]
    return phi


@pytest.mark.parametrize("ffn", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_alti_logit_is_the_formula(name: str, ffn: bool) -> None:
    ids, lens = families.text(7), families.lens(name, "causal")
    layers, final, unembedding, logits = by_hand(name, ids)
    cap = lens.subject.unembedding.cap
    slopes = np.ones_like(logits) if cap is None else 1 - (logits / cap) ** 2
    u = slopes[4] * unembedding[4] - slopes[9] * unembedding[9]
    got = lens.attribute(ids, "alti_logit", target=Target(4, foil=9), ffn=ffn)
    np.testing.assert_allclose(got.scores.numpy(), alti_by_hand(layers, final, u, ffn), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", NAMES[:3])
def test_alti_logit_with_networks_and_biases_is_the_difference_of_logits(name: str) -> None:
    ids, lens = families.text(7), families.lens(name, "causal")
    layers, final, unembedding, logits = by_hand(name, ids)
    u, last = unembedding[4] - unembedding[9], layers[-1].y[-1]
    got = lens.attribute(ids, "alti_logit", target=Target(4, foil=9), ffn=True)
    biases = sum(float(final.frozen(np.broadcast_to(layer.bo, last.shape), last) @ u) for layer in layers)
    biases += float((final(last) - final.frozen(last, last)) @ u)
    assert float(got.scores.sum()) + biases == pytest.approx(float(logits[4] - logits[9]), rel=1e-8)
    swapped = lens.attribute(ids, "alti_logit", target=Target(9, foil=4), ffn=True)
    torch.testing.assert_close(swapped.scores, -got.scores, rtol=1e-9, atol=1e-12)
