"""The gradient, CAT and attention-gradient methods against plain autograd, in float64, on every architecture."""

from __future__ import annotations

import copy
import functools
from functools import cache

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Target
from mixlens.attribute import ATTRIBUTIONS, Gradient
from mixlens.attribute.gradient import family as gradient_family
from mixlens.capture.graph import graph
from mixlens.capture.run import Recorder
from mixlens.errors import NotFinite, TargetError, Undefined, UnknownOption
from models import families
from oracles import autograd

NAMES = sorted(families.FAMILIES)
METHODS = [name for name, method in ATTRIBUTIONS.items() if isinstance(method, Gradient)]
N = 7
BLIND = ("gpt2", "gpt_neox", "gpt_neox-sequential", "opt")  # to the mean of a hidden state: LayerNorms before all else


def head_of(name: str) -> str:
    return "causal" if families.FAMILIES[name].causal else "sequence"


@cache
def by_hand(name: str, layer: int = 0):
    """(hidden, gradients, weights, weight gradients, row) for the predicted class's logit."""
    trace = autograd.trace(autograd.model_of(name, head_of(name)), families.text(N), layer=layer)
    logits = trace.logits[-1] if trace.logits.ndim == 2 else trace.logits
    value = logits[int(logits.argmax())]
    g, w = autograd.gradients(trace, value)
    hidden = [autograd.numpy(h[0]) for h in trace.hidden]
    weights = [autograd.numpy(a[0]) for a in trace.weights]
    row = N - 1 if families.FAMILIES[name].causal else 0
    return hidden, [t.numpy() for t in g], weights, [t.numpy() for t in w], row


def cats(h, g, a, indexing: str = "output"):
    """(layer, token)"""
    first = 1 if indexing == "output" else 0
    return np.array([[(h[k + first][i] * g[k + first][i]).sum() for i in range(N)] for k in range(len(a))])


def attcat(h, g, a, da, row, weights: str = "column", indexing: str = "output"):
    out, each = np.zeros(N), cats(h, g, a, indexing)
    for k in range(len(a)):
        for j in range(N):
            mean = a[k].mean(0)
            out[j] += each[k][j] * (mean[row, j] if weights == "readout" else sum(mean[:, j]) / N)
    return out


def grad_sam(h, g, a, da, row):
    return np.array(
        [np.mean([(w * np.maximum(d, 0))[:, i].mean() for w, d in zip(a, da, strict=True)]) for i in range(N)]
    )


ORACLES = {
    "saliency": lambda h, g, a, da, row: np.array([np.linalg.norm(g[0][i] * h[0][i]) for i in range(N)]),
    "grad_l2": lambda h, g, a, da, row: np.array([np.linalg.norm(g[0][i]) for i in range(N)]),
    "grad_sum": lambda h, g, a, da, row: np.array([sum(g[0][i]) for i in range(N)]),
    "grad_x_input": lambda h, g, a, da, row: np.array([sum(g[0][i] * h[0][i]) for i in range(N)]),
    "cat": lambda h, g, a, da, row, **options: cats(h, g, a, **options).sum(0),
    "attcat": attcat,
    "grads": lambda h, g, a, da, row: da[-1].mean(0)[row],
    "att_grads": lambda h, g, a, da, row: sum((w * d).mean(0)[row] for w, d in zip(a, da, strict=True)),
    "grad_sam": grad_sam,
}


def oracle(method: str, hand, **options):
    return ORACLES[method](*hand, **options)


def close(got, expected, tolerance=1e-9):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_architecture(name):
    lens = families.lens(name, head_of(name))
    for method in METHODS:
        if method == "grad_sum" and name in BLIND:
            continue
        got = lens.attribute(families.text(N), method, normalize=False)
        close(got.scores, oracle(method, by_hand(name)))
        assert got.meta["of"] == "logit" and got.meta["class_specific"]


@pytest.mark.parametrize("name", BLIND)
def test_gradients_that_always_sum_to_zero(name):
    g = by_hand(name)[1][0]
    assert np.abs(g.sum(-1)).max() < 1e-13 < np.abs(g).max()
    with pytest.raises(Undefined, match=r"sum to 0 over dimensions.*use grad_l2 or grad_x_input"):
        families.lens(name, head_of(name)).attribute(families.text(N), "grad_sum")


@pytest.mark.parametrize("options", [{"indexing": "input"}, {"weights": "readout"}], ids=str)
def test_options_of_attcat(options):
    close(
        families.lens("bert", "sequence").attribute(families.text(N), "attcat", **options).scores,
        oracle("attcat", by_hand("bert"), **options),
    )


def test_cat_at_the_input_of_layers():
    got = families.lens("gpt2", "causal").attribute(families.text(N), "cat", indexing="input")
    close(got.scores, oracle("cat", by_hand("gpt2"), indexing="input"))


@pytest.mark.parametrize("method", ["cat", "attcat", "att_grads"])
def test_layers_sum_to_the_scores(method):
    got = families.lens("bert", "sequence").attribute(families.text(N), method)
    assert got.layers.shape == (3, N)
    torch.testing.assert_close(got.layers.sum(0), got.scores)


def test_at_the_last_output_only_the_row_has_a_gradient():
    layers = families.lens("bert", "sequence").attribute(families.text(N), "cat").layers
    assert (layers[-1, 1:] == 0).all() and layers[-1, 0] != 0


@pytest.mark.parametrize("method", ["saliency", "grad_l2", "grad_sum", "grad_x_input"])
@pytest.mark.parametrize("layer", [1, 2, -1])
@pytest.mark.parametrize("name", ["bert", "gpt2", "albert-inner"])
def test_at_another_layer(name, layer, method):
    if name in BLIND and method == "grad_sum":
        pytest.skip("it is 0")
    lens = families.lens(name, head_of(name))
    depth = 4 if name.startswith("albert") else 3
    got = lens.attribute(families.text(N), method, layer=layer, normalize=False)
    close(got.scores, oracle(method, by_hand(name, layer % depth)))


@pytest.mark.parametrize("method", ["grad_sum", "grad_x_input"])
def test_absolute(method):
    lens = families.lens("bert", "sequence")
    signed, absolute = (lens.attribute(families.text(N), method, absolute=a).scores for a in (False, True))
    assert (signed < 0).any() and torch.equal(absolute, signed.abs())


# --- laws ---


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "distilbert"])
def test_grad_x_input_is_the_directional_derivative(name):
    model, ids = autograd.model_of(name, head_of(name)), families.text(N)
    got = families.lens(name, head_of(name)).attribute(ids, "grad_x_input")
    x = autograd.trace(model, ids).hidden[0][0].detach()
    index = got.target.index

    def value(x):
        logits = autograd.trace(model, ids, leaf=x).logits
        return (logits[-1] if logits.ndim == 2 else logits)[index]

    for i in (0, 3):
        along = torch.zeros_like(x)
        along[i] = x[i]
        assert abs(autograd.directional(value, x, along) - float(got.scores[i])) < 1e-6 * float(got.scores.abs().max())
    assert abs(autograd.directional(value, x, x) - float(got.scores.sum())) < 1e-6 * float(got.scores.abs().sum())


SIGNED = [name for name in METHODS if ATTRIBUTIONS[name].signed]


@pytest.mark.parametrize("method", [*SIGNED, "integrated_gradients", "deeplift", "blank_out"])
def test_log_odds_of_two_classes_are_opposite(method):
    lens, ids = families.lens("bert", "sequence"), families.text(N)
    more = {"replace": families.UNK} if method == "blank_out" else {}
    one, other = (lens.attribute(ids, method, target=Target(c, of="log_odds"), **more).scores for c in (0, 1))
    assert one.abs().max() > 1e-6
    torch.testing.assert_close(one, -other, rtol=1e-9, atol=1e-12)


def test_logits_of_two_classes_are_not():
    lens, ids = families.lens("bert", "sequence"), families.text(N)
    one, other = (lens.attribute(ids, "grad_x_input", target=c).scores for c in (0, 1))
    assert (one + other).abs().max() > 1e-3


EVERY = [*METHODS, "integrated_gradients", "deeplift", "hta", "hta_x_input", "blank_out"]


def options_of(method: str) -> dict:
    if method == "blank_out":
        return {"replace": families.UNK}
    return {"steps": 32, "tolerance": float("inf")} if method == "integrated_gradients" else {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "method"),
    [
        *(("bert", "sequence", method) for method in EVERY),
        *(("llama", "causal", method) for method in ("saliency", "attcat", "deeplift", "blank_out")),
        *(("modernbert", "sequence", method) for method in ("grad_x_input", "att_grads", "integrated_gradients")),
    ],
)
def test_batch_mates_change_nothing(name, head, method):
    lens, texts = families.lens(name, head), families.texts((7, 4, 6))
    how = options_of(method)
    together = lens.attribute(texts, method, **how)
    for ids, mate in zip(texts, together, strict=True):
        alone = lens.attribute(ids, method, **how)
        torch.testing.assert_close(mate.scores, alone.scores, rtol=1e-11, atol=1e-12 * float(alone.scores.abs().max()))
        assert mate.target == alone.target


@pytest.mark.parametrize("method", EVERY)
def test_padding_sides_change_nothing(method):
    lens, ids = families.lens("bert", "sequence"), families.text(N)
    alone = lens.attribute(ids, method, **options_of(method)).scores
    pad = [families.PAD] * 3
    for row, mask in (([*pad, *ids], [0] * 3 + [1] * N), ([*ids, *pad], [1] * N + [0] * 3)):
        got = lens.attribute({"input_ids": row, "attention_mask": mask}, method, **options_of(method))
        assert torch.equal(got.scores, alone)


@pytest.mark.parametrize("method", EVERY)
def test_float32_is_near_float64(method):
    wide, narrow = (families.lens("bert", "sequence", dtype) for dtype in (torch.float64, torch.float32))
    a, b = (lens.attribute(families.text(N), method, **options_of(method)).scores for lens in (wide, narrow))
    assert b.dtype == torch.float32
    torch.testing.assert_close(a.float(), b, rtol=0, atol=1e-4 * float(a.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", EVERY)
def test_half_precision_is_finite(method, dtype):
    got = families.lens("bert", "sequence", dtype).attribute(families.text(N), method, **options_of(method))
    assert got.scores.dtype == torch.float32 and torch.isfinite(got.scores).all() and got.scores.abs().max() > 0


AROUND = [(torch.no_grad, True), (torch.inference_mode, False), (torch.enable_grad, True)]


@pytest.mark.parametrize(
    ("around", "frozen", "method"),
    [
        *((*around, method) for around in AROUND for method in ("attcat", "deeplift")),
        *(  # every other method in two of the three, in turn
            pytest.param(*AROUND[(k + more) % 3], method, marks=pytest.mark.slow)
            for k, method in enumerate(EVERY)
            for more in (0, 1)
            if method not in ("attcat", "deeplift")
        ),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_the_callers_autograd_is_neither_needed_nor_touched(method, frozen, around):
    model = families.make("bert", "sequence")
    model.requires_grad_(not frozen)
    model.bert.encoder.layer[1].requires_grad_(frozen)  # some as the others are not
    before = [p.requires_grad for p in model.parameters()]
    how = options_of(method)
    expected = families.lens("bert", "sequence").attribute(families.text(N), method, **how).scores
    lens = mixlens.load(model)
    with around():
        enabled = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        got = lens.attribute(families.text(N), method, **how).scores
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == enabled
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-13)
    assert not got.requires_grad and not got.is_inference()
    assert [p.requires_grad for p in model.parameters()] == before
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_one_pass_and_one_way_back(method, monkeypatch):
    from transformers import BertForSequenceClassification

    lens = mixlens.load(families.model("bert", "sequence"))
    forward, backward, ran = BertForSequenceClassification.forward, torch.autograd.grad, []

    @functools.wraps(forward)  # its arguments are looked at
    def passes(self, *args, **kwargs):
        ran.append("forward")
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(BertForSequenceClassification, "forward", passes)
    monkeypatch.setattr(torch.autograd, "grad", lambda *a, **k: ran.append("backward") or backward(*a, **k))
    lens.attribute(families.texts((N, N)), method)  # two texts: still one of each
    assert ran == ["forward", "backward"]


def test_a_gradient_of_the_users_own_stays():
    model = families.make("bert", "sequence")
    ids = torch.tensor([families.text(N)])
    model(input_ids=ids).logits.sum().backward()
    before = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    lens = mixlens.load(model)
    for method in EVERY:
        lens.attribute(families.text(N), method, **options_of(method))
    assert all(torch.equal(p.grad, before[name]) for name, p in model.named_parameters() if name in before)


# --- special tokens hidden, refusals ---


def test_mask_special_is_another_pass_than_the_prediction(tiny_bert_folder):
    lens = mixlens.load(tiny_bert_folder, dtype=torch.float64)
    plain, masked = (lens.attribute("a deep film .", "attcat", mask_special=m) for m in (False, True))
    assert masked.target == plain.target
    assert masked.meta["probability"] == pytest.approx(plain.meta["probability"], abs=1e-9)
    assert masked.scores[0] == masked.scores[-1] == 0  # nobody attends to them
    assert (masked.scores - plain.scores)[1:-1].abs().max() > 1e-4


@pytest.mark.parametrize("options", [{"indexing": "both"}, {"weights": "all"}, {"layer": 0}])
def test_options_it_does_not_know(options):
    with pytest.raises(UnknownOption):
        families.lens("bert", "sequence").attribute(families.text(N), "attcat", **options)


@pytest.mark.parametrize("layer", [3, -4, 1.0, True])
def test_layers_there_are_not(layer):
    with pytest.raises(UnknownOption, match=r"expected layer=(-3 to 2| a whole number for .*), got"):
        families.lens("bert", "sequence").attribute(families.text(N), "saliency", layer=layer)


def test_mask_special_without_special_tokens():
    with pytest.raises(Undefined, match="load the model with its tokenizer"):
        families.lens("bert", "sequence").attribute(families.text(N), "attcat", mask_special=True)


@pytest.mark.parametrize("method", [*METHODS, "integrated_gradients", "deeplift", "blank_out"])
def test_without_a_head_there_is_no_answer(method):
    with pytest.raises(TargetError, match="load it with its classification or language-model head"):
        families.lens("bert").attribute(families.text(N), method, readout=0)


def test_attention_that_is_not_finite(monkeypatch):
    """attcat weighs by the attention that tokens receive, which is no part of its gradients."""
    lens = families.lens("llama", "causal")
    monkeypatch.setattr(
        "mixlens.capture.graph._received",
        lambda call, lengths: call.q.new_full((1, len(lengths[0]), call.k.shape[2]), torch.nan),
    )
    for scores in (lambda: lens.attribute(families.text(), "attcat"), lambda: lens.trace([5, 6], [7, 8], "attcat")):
        with pytest.raises(NotFinite, match="attention gives NaN"):
            scores()


def test_a_gradient_that_is_not_finite():
    model = families.make("bert", "sequence")
    lens = mixlens.load(copy.deepcopy(model))
    with torch.no_grad():
        lens.model.classifier.weight[0, 0] = float("nan")
    with pytest.raises(NotFinite, match=r"classifier\.weight"):
        lens.attribute(families.text(N), "grad_x_input", target=0)


AGAIN = ["saliency", "grad_x_input", "cat", "attcat", "att_grads"]


@pytest.mark.parametrize(
    ("family", "name"),
    [
        # every method on a decoder; on each other way to build a layer one that reads weights, one that has rules
        *(("llama", name) for name in (*AGAIN, "cp_lrp", "attn_lrp", "gim", "path_logit")),
        *((family, "attcat") for family in ("gemma2", "gpt2", "bert", "albert-inner")),
        *((family, "path_logit") for family in ("gemma2", "gpt2")),
    ],
)
def test_layers_that_run_again_for_their_gradients_change_no_number(family, name, monkeypatch):
    lens = families.lens(family, "sequence" if family in ("bert", "albert-inner") else "causal")
    texts, runs, forward = families.texts(), [], Recorder.run_again
    kept = lens.attribute(texts, name)
    monkeypatch.setattr(gradient_family, "GRAPH_BYTES", 0)
    monkeypatch.setattr(Recorder, "run_again", lambda self, *a, **k: runs.append(self.count) or forward(self, *a, **k))
    again = lens.attribute(texts, name)
    assert len(set(runs)) > 1
    for one, other in zip(kept, again, strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-12, atol=1e-15)
    trace = lens.trace(texts[0], [5, 6], name).scores if family == "llama" else None
    monkeypatch.undo()
    if trace is not None:
        torch.testing.assert_close(trace, lens.trace(texts[0], [5, 6], name).scores, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_received_attention_is_the_mean_of_the_weights(family):
    lens, texts = families.lens(family, "sequence" if family == "bert" else "causal"), families.texts()
    (batch,) = lens.subject.batches(lens.subject.read(texts).require(), len(texts))
    lengths = [len(texts[i]) for i in batch.members]
    wanted = [[n, max(1, n - 1)] for n in lengths]
    g = graph(lens.model, lens.subject.spec, batch.inputs, weights=True, at=[0] * len(texts), received=wanted)
    for weights, received in zip(g.weights, g.received, strict=True):
        for b, n in enumerate(lengths):
            torch.testing.assert_close(received[b, 0, :n], weights[b, :, :n, :n].mean((0, 1)).detach())
            torch.testing.assert_close(received[b, 1, :n], weights[b, :, : max(1, n - 1), :n].mean((0, 1)).detach())
