"""Integrated gradients and DeepLIFT: completeness, baselines, and captum where captum is right."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from captum.attr import DeepLift
from transformers.activations import NewGELUActivation

import mixlens
from mixlens import Target
from mixlens.architectures import layer_count
from mixlens.attribute.path import family as path
from mixlens.attribute.path.integrated import RULES, integrated_gradients
from mixlens.attribute.path.rescale import rescaled
from mixlens.capture.run import LayerPass
from mixlens.errors import NotConverged, Undefined, UnknownOption
from models import families
from oracles import autograd

N = 6
SMOOTH = {"tolerance": float("inf")}


def head_of(name: str) -> str:
    return "causal" if families.FAMILIES[name].causal else "sequence"


def answer_of(trace, index=None):
    logits = trace.logits[-1] if trace.logits.ndim == 2 else trace.logits
    return logits[int(logits.argmax()) if index is None else index]


@cache
def ends(name: str, layer: int = 0):
    """(model, ids, h^layer of the text, index of its prediction)."""
    model, ids = autograd.model_of(name, head_of(name)), families.text(N)
    trace = autograd.trace(model, ids, layer=layer)
    logits = trace.logits[-1] if trace.logits.ndim == 2 else trace.logits
    return model, ids, trace.hidden[0][0].detach(), int(logits.argmax())


def by_hand(name: str, baseline: torch.Tensor, points, weights, layer: int = 0):
    """The sum over points of the way, one plain backward pass each."""
    model, ids, x, index = ends(name, layer)
    total = torch.zeros_like(x)
    for a, w in zip(points, weights, strict=True):
        trace = autograd.trace(model, ids, leaf=baseline + a * (x - baseline), layer=layer)
        total += w * torch.autograd.grad(answer_of(trace, index), trace.hidden[0])[0][0]
    return (total * (x - baseline)).sum(-1)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_gauss_legendre_by_hand(name):
    points, weights = np.polynomial.legendre.leggauss(9)
    expected = by_hand(name, torch.zeros_like(ends(name)[2]), (points + 1) / 2, weights / 2)
    got = families.lens(name, head_of(name)).attribute(
        families.text(N), "integrated_gradients", steps=9, baseline="zeros", **SMOOTH
    )
    torch.testing.assert_close(got.scores, expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("layer", [0, 2])
def test_right_riemann_by_hand(layer):
    steps = 7
    baseline = torch.linspace(-1, 1, 32, dtype=torch.float64)
    expected = by_hand("bert", baseline, [(k + 1) / steps for k in range(steps)], [1 / steps] * steps, layer)
    got = families.lens("bert", "sequence").attribute(
        families.text(N),
        "integrated_gradients",
        steps=steps,
        rule="riemann_right",
        baseline=baseline,
        layer=layer,
        **SMOOTH,
    )
    torch.testing.assert_close(got.scores, expected, rtol=0, atol=1e-6 * float(expected.abs().max()))
    assert got.meta["baseline"] == "given"


@pytest.mark.slow
@pytest.mark.parametrize("of", ["logit", "prob", "log_odds"])
@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "gemma2"])
def test_scores_sum_to_the_difference_of_the_outputs(name, of):
    lens, (model, ids, x, index) = families.lens(name, head_of(name)), ends(name)
    other = 0.5 * x.roll(1, 0) + 0.5 * x  # a short way: one through 0 is steep in a random model
    got = lens.attribute(ids, "integrated_gradients", target=Target(of=of), steps=200, baseline=other)
    assert got.scores.sum() == pytest.approx(got.meta["difference"], rel=0.01, abs=1e-5)
    assert got.meta["delta"] == pytest.approx(float(got.scores.sum()) - got.meta["difference"], abs=1e-12)
    if of == "logit":
        here, there = (float(answer_of(autograd.trace(model, ids, leaf=h), index).detach()) for h in (x, other))
        assert got.meta["difference"] == pytest.approx(here - there, rel=1e-9)


@pytest.mark.parametrize("layer", [0, 1])
def test_there_and_back_are_opposite(layer):
    lens, (a, b) = families.lens("bert", "sequence"), families.texts((N, N), seed=5)
    model = ends("bert")[0]
    ha, hb = (autograd.trace(model, ids, layer=layer).hidden[0][0].detach() for ids in (a, b))
    how = {"target": 1, "steps": 50, "layer": layer, **SMOOTH}
    there = lens.attribute(a, "integrated_gradients", baseline=hb, **how)
    back = lens.attribute(b, "integrated_gradients", baseline=ha, **how)
    assert there.scores.abs().max() > 1e-3
    torch.testing.assert_close(there.scores, -back.scores, rtol=0, atol=1e-7)


def test_an_integral_that_has_not_converged_is_an_error():
    lens = families.lens("bert", "sequence")
    with pytest.raises(NotConverged, match=r"expected the scores .* off by .* after 2 steps .*; pass steps=8, or"):
        lens.attribute(families.text(N), "integrated_gradients", steps=2, rule="riemann_right")
    loose = lens.attribute(families.text(N), "integrated_gradients", steps=2, rule="riemann_right", **SMOOTH)
    assert abs(loose.meta["delta"]) > 0.01 * abs(loose.meta["difference"])


@pytest.mark.slow
def test_more_points_at_once_change_nothing():
    lens, ids = families.lens("bert", "sequence"), families.text(N)
    one, many = (lens.attribute(ids, "integrated_gradients", batch_size=b, **SMOOTH).scores for b in (3, 100))
    torch.testing.assert_close(one, many, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_several_texts_at_once_change_nothing(monkeypatch):
    """What devices other than a CPU do: the ways of all texts of a batch in the same passes."""
    lens, texts = families.lens("bert", "sequence"), [families.text(n) for n in (N, N - 3, 4)]
    alone = lens.attribute(texts, "integrated_gradients", target=[0, 1, 0], **SMOOTH)
    monkeypatch.setattr(path, "_texts_at_once", lambda lens, ask: ask.batch_size)
    for size in (2, 64):
        together = lens.attribute(texts, "integrated_gradients", target=[0, 1, 0], batch_size=size, **SMOOTH)
        for a, b in zip(alone, together, strict=True):
            torch.testing.assert_close(a.scores, b.scores, rtol=1e-7, atol=1e-9)
            assert a.meta["delta"] == pytest.approx(b.meta["delta"], abs=1e-8)


def test_rules_of_a_known_integral():
    def cubes(points):
        return (points**3).sum((1, 2))

    x, zero = torch.tensor([[[1.0, 2.0], [3.0, -1.0]]], dtype=torch.float64), torch.zeros(1, 2, 2, dtype=torch.float64)
    for rule in RULES:
        got = integrated_gradients(cubes, x, zero, steps=400, rule=rule)
        torch.testing.assert_close(got, (x**3).sum(-1), rtol=0.01, atol=0)
    torch.testing.assert_close(integrated_gradients(cubes, x, zero, steps=2), (x**3).sum(-1), rtol=1e-6, atol=0)


# --- baselines ---


def test_the_baseline_is_mask_tokens_between_the_special_ones(tiny_bert_folder):
    lens = mixlens.load(tiny_bert_folder, dtype=torch.float64)
    text = lens.attribute("a deep film .", "integrated_gradients", **SMOOTH)
    assert text.meta["baseline"] == "mask"
    assert text.scores[0] == text.scores[-1] == 0 and (text.scores[1:-1] != 0).all()
    with torch.no_grad():
        here, there = (
            float(lens.model(**lens.tokenizer(t, return_tensors="pt")).logits[0, text.target.index])
            for t in ("a deep film .", "[MASK] [MASK] [MASK] [MASK]")
        )
    assert text.meta["difference"] == pytest.approx(here - there, rel=1e-9)


def test_pairs_keep_their_token_types(tiny_bert_folder):
    lens = mixlens.load(tiny_bert_folder)
    got = lens.attribute(("a film .", "bad"), "integrated_gradients", steps=20, **SMOOTH)
    special = [i for i, s in enumerate(got.special) if s]
    assert len(special) == 3 and (got.scores[special] == 0).all()


def test_pad_baseline(tiny_bert_folder):
    lens = mixlens.load(tiny_bert_folder)
    pad, mask = (
        lens.attribute("a deep film .", "integrated_gradients", baseline=b, **SMOOTH).scores for b in ("pad", "mask")
    )
    assert (pad - mask).abs().max() > 1e-3


def test_without_a_mask_token_the_baseline_is_zeros():
    got = families.lens("gpt2", "causal").attribute(families.text(N), "integrated_gradients", **SMOOTH)
    assert got.meta["baseline"] == "zeros"


@pytest.mark.parametrize("kind", ["mask", "pad"])
def test_baselines_that_the_model_has_not(kind):
    lens = mixlens.load(families.make("gpt2", "causal", pad_token_id=None))
    with pytest.raises(Undefined, match=f"needs a {kind} token.*use baseline='zeros'"):
        lens.attribute(families.text(N), "integrated_gradients", baseline=kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "noise"}, "expected baseline='mask', 'zeros', 'pad' or a tensor, got 'noise'"),
        ({"baseline": torch.zeros(5)}, r"with the shape \(32,\) or \(token, 32\), got \(5,\)"),
        ({"baseline": torch.zeros(N + 1, 32)}, "got"),
        ({"baseline": torch.full((32,), float("nan"))}, "finite numbers"),
        ({"baseline": torch.ones(32).to_sparse()}, r"expected a dense baseline .* got .* \(torch\.sparse_coo, cpu\)"),
        ({"baseline": torch.ones(32, device="meta")}, r"expected a dense baseline .* got .* \(torch\.strided, meta\)"),
        ({"steps": 0}, "expected steps of 1 or more, got 0"),
        ({"steps": 1, "rule": "riemann_right"}, "expected steps of 2 or more for rule='riemann_right'"),
        ({"rule": "simpson"}, "expected rule= one of gausslegendre"),
        ({"tolerance": -1}, "expected tolerance="),
        ({"step": 5}, "would ignore the option 'step'"),
    ],
    ids=str,
)
def test_options_it_does_not_know(options, message):
    with pytest.raises(UnknownOption, match=message):
        families.lens("bert", "sequence").attribute(families.text(N), "integrated_gradients", **options)


def test_a_head_that_refuses_batches():
    """Without a padding token transformers' sequence heads take one text; a way has many points."""
    model = families.make("gpt2", "sequence", pad_token_id=None)
    lens = mixlens.load(model)
    for method in ("integrated_gradients", "deeplift"):
        assert lens.attribute(families.text(N), method, **(SMOOTH if method[0] == "i" else {})).scores.abs().max() > 0
    assert model.config.pad_token_id is None


# --- DeepLIFT ---


class Above(torch.nn.Module):
    """A model as a module of what goes into its first layer, as captum wants it."""

    def __init__(self, model, ids):
        super().__init__()
        self.model, self.ids = model, ids

    def forward(self, x):
        def put(module, args, kwargs):
            return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

        handle = autograd.layers(self.model.base_model)[0].register_forward_pre_hook(put, with_kwargs=True)
        try:
            logits = self.model(input_ids=torch.tensor([self.ids] * len(x))).logits
        finally:
            handle.remove()
        return logits[:, -1] if logits.ndim == 3 else logits


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks:UserWarning", "ignore:Input Tensor:UserWarning")
@pytest.mark.parametrize(
    ("name", "settings"), [("bert", {"hidden_act": "relu"}), ("opt", {"activation_function": "relu"})]
)
def test_captums_deeplift_where_all_activations_are_modules_it_knows(name, settings):
    model, ids = families.make(name, head_of(name), **settings), families.text(N)
    if name == "bert":
        for layer in model.bert.encoder.layer:
            layer.intermediate.intermediate_act_fn = torch.nn.ReLU()  # captum refuses one module used twice
    x = autograd.trace(model, ids).hidden[0].detach()
    lens = mixlens.load(model)
    got = lens.attribute(ids, "deeplift", baseline="zeros")
    expected = DeepLift(Above(model, ids)).attribute(x, torch.zeros_like(x), target=got.target.index)[0].sum(-1)
    expected = expected.detach()
    torch.testing.assert_close(got.scores, expected, rtol=0, atol=1e-9 * float(expected.abs().max()))


def by_formula(f, w, v, x, baseline):
    """A two-layer network's contributions by hand: multipliers of an activation are quotients of differences."""
    z, zb = w @ x, w @ baseline
    m = (f(z) - f(zb)) / (z - zb)
    return (v * m) @ w * (x - baseline)


ACTIVATIONS = {  # a module, a function, and a module that is several functions
    "module": torch.nn.Tanh(),
    "function": torch.tanh,
    "compound": NewGELUActivation(),
}


@pytest.mark.parametrize("call", ACTIVATIONS)
def test_rescale_rule_by_hand(call):
    act = ACTIVATIONS[call]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = type("Config", (), {})()
            g = torch.Generator().manual_seed(0)
            self.w = torch.nn.Parameter(torch.randn(5, 3, generator=g, dtype=torch.float64))
            self.v = torch.nn.Parameter(torch.randn(5, generator=g, dtype=torch.float64))
            self.act = act

        def forward(self, x):
            return self.act(x @ self.w.T) @ self.v

    net = Net()
    x, b = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), torch.tensor([0.3, 0.1, 0.5], dtype=torch.float64)
    leaf = torch.stack([x, b]).requires_grad_()
    with rescaled(net, 1) as twin:
        values = twin(leaf)
    (m,) = torch.autograd.grad(values[0], leaf)
    got = m[0] * (x - b)
    torch.testing.assert_close(got, by_formula(act, net.w, net.v, x, b).detach())
    torch.testing.assert_close(got.sum(), (values[0] - values[1]).detach())  # complete: nothing but activations
    assert net.act is act


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "roberta", "gemma2"])
def test_deeplift_is_not_the_gradient_and_reports_its_delta(name):
    lens, ids = families.lens(name, head_of(name)), families.text(N)
    got = lens.attribute(ids, "deeplift", baseline="zeros")
    plain = lens.attribute(ids, "grad_x_input")
    assert (got.scores - plain.scores).abs().max() > 1e-3 * float(plain.scores.abs().max())
    assert got.meta["delta"] == pytest.approx(float(got.scores.sum()) - got.meta["difference"])
    assert "rescale" in got.meta["rules"]


def test_each_text_of_a_batch_has_its_own_baseline(tiny_bert_folder):
    lens = mixlens.load(tiny_bert_folder, dtype=torch.float64)
    texts = [("a deep film .", "not bad"), ("not bad", "a deep film ."), "a deep film . not bad"]  # [SEP] elsewhere
    for text, found in zip(texts, lens.attribute(texts, "deeplift", batch_size=3), strict=True):
        alone = lens.attribute(text, "deeplift")
        torch.testing.assert_close(found.scores, alone.scores, rtol=1e-9, atol=1e-12)
        assert found.meta["delta"] == pytest.approx(alone.meta["delta"], rel=1e-6)


def test_deeplift_of_a_text_with_itself_is_zero():
    x = ends("bert")[2]
    got = families.lens("bert", "sequence").attribute(families.text(N), "deeplift", baseline=x)
    assert (got.scores == 0).all() and got.meta["difference"] == 0
    with pytest.raises(UnknownOption, match=r"^text 1: .* for texts of 4 tokens"):
        families.lens("bert", "sequence").attribute(families.texts((6, 4)), "deeplift", baseline=x)


def watched_and_whole(monkeypatch, lens, ids, method, asked):
    """(scores and difference, layers that were seen): as it is, and where nothing is left out."""
    ran, real, out = [], path.graph, []

    def watch(*args, also=None, **how):
        return real(*args, also=lambda seen: ran.append(seen.index), **how)

    def whole(*args, skip, tokens, **how):
        return watch(*args, **how)

    for graph in (watch, whole):
        with monkeypatch.context() as patch:
            patch.setattr(path, "graph", graph)
            if graph is whole:
                patch.setattr(path, "outputs_read", lambda answers, of: None)
            found = lens.attribute(ids, method, **asked)
        out.append((found.scores, found.meta["difference"], set(ran)))
        ran.clear()
    return out


METHODS = {"integrated_gradients": {"steps": 3, **SMOOTH}, "deeplift": {}}
LM = ("masked", "causal")
# Both methods leave out the same, at the same place: so each family's language model with one, its classifier with the
# other, and of tokens' classes an encoder's and a decoder's.
QUICK = [("bert", "masked"), ("gpt2", "causal"), ("gemma2", "causal"), ("deberta-v2", "masked")]
HEADS = [(name, head) for name, f in families.FAMILIES.items() for head in f.heads if head in (*LM, "sequence")]
HEADS += [("bert", "token"), ("gpt2", "token")]


@pytest.mark.parametrize(
    ("name", "head", "method"),
    [
        *(
            pytest.param(
                *one,
                "integrated_gradients" if one[1] in LM else "deeplift",
                marks=() if one in QUICK else pytest.mark.slow,
            )
            for one in HEADS
        ),
        ("llama", "causal", "deeplift"),
    ],
)
def test_what_the_number_does_not_depend_on_is_not_computed(name, head, method, monkeypatch):
    """Layers below and other tokens' logits are left out; with them the scores are the same."""
    lens = families.lens(name, head)
    both = Target(7, foil=1, position=3, of="prob")  # of a probability the biases of the two are part, too
    target = both if head in LM else Target(1, position=2 if head == "token" else None)
    asked = {"layer": 2, "target": target, **METHODS[method]}
    short, full = watched_and_whole(monkeypatch, lens, families.text(N), method, asked)
    count = layer_count(lens.model, lens.spec)
    # a layer that gives more than its output cannot be passed by
    assert (short[2], full[2]) == (set(range(0 if name == "deberta-v2" else 2, count)), set(range(count)))
    assert full[0].abs().max() > 0
    torch.testing.assert_close(short[0], full[0], rtol=1e-9, atol=1e-12)
    assert short[1] == pytest.approx(full[1], rel=1e-9, abs=1e-12)


def test_logits_of_other_tokens_are_made_where_the_number_depends_on_them(monkeypatch):
    lens, sizes = families.lens("bert", "masked"), []
    real = path.part_logits

    def look(output, *args):
        sizes.append(output.logits.shape[-1])
        return real(output, *args)

    monkeypatch.setattr(path, "part_logits", look)
    at = {"position": 3}
    for target, read in (
        (Target(7, **at), 1),
        (Target(7, foil=1, of="prob", **at), 2),
        (Target(7, of="prob", **at), families.VOCABULARY),
        (Target(7, of="log_odds", **at), families.VOCABULARY),
    ):
        sizes.clear()
        lens.attribute(families.text(N), "deeplift", target=target)
        assert sizes == [families.VOCABULARY, read]  # the pass that answers, and those of the points


def test_layers_that_give_back_more_than_vectors_are_run(monkeypatch):
    """What goes along with a layer's output is not known without it."""
    lens = families.lens("gpt2", "causal")
    monkeypatch.setattr(LayerPass, "form", property(lambda seen: None, lambda seen, form: None), raising=False)
    short, full = watched_and_whole(monkeypatch, lens, families.text(N), "deeplift", {"layer": 2})
    assert short[2] == full[2] == {0, 1, 2}
    torch.testing.assert_close(short[0], full[0], rtol=1e-9, atol=1e-12)
