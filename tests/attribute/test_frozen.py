"""Gradients with parts held fixed: laws, and the formulas written out once more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mixlens
from mixlens.attribute.frozen import RULES, Frozen, Rules, softmax
from mixlens.attribute.frozen.engine import ruled_pass
from mixlens.attribute.frozen.softmax import read, tempered
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.capture.attention import Call, repeat_heads
from mixlens.errors import Undefined, UnknownOption
from mixlens.target import Target
from models import exact, families
from oracles.layers import FORWARDS, Norm, silu

PRESETS = ("cp_lrp", "attn_lrp", "gim")
DECODERS = ("gpt2", "llama", "qwen2", "qwen3", "gemma2", "gpt_neox", "mistral", "opt")
BARE = {"attention_bias": False, "mlp_bias": False}


@pytest.mark.parametrize("name", DECODERS)
def test_no_number_of_the_pass_changes(name):
    lens, ids = families.lens(name, "causal"), families.text(7)
    (batch,) = lens.subject.batches([lens.subject.read(ids).require()[0]], 1)
    model = families.model(name, "causal", attention=exact.ATTENTION)  # eager attention rounds to float32
    real = exact.forward(model, ids).logits[0, [3, 6]]
    for preset in PRESETS:
        passed = ruled_pass(lens.subject, batch.inputs, [0, 0], [3, 6], RULES[preset])
        torch.testing.assert_close(passed.logits.detach(), real, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("settings", [BARE])
def test_a_linear_model_without_biases_sums_to_its_logit(settings):
    attr = families.lens("llama", "causal", **settings).attribute(families.text(7), "cp_lrp", Target(3, of="logit"))
    assert float(attr.scores.sum()) == pytest.approx(attr.meta["value"], abs=1e-8)


@pytest.mark.parametrize("name", DECODERS)
def test_without_rules_it_is_grad_x_input(name, monkeypatch):
    monkeypatch.setitem(ATTRIBUTIONS, "ruleless", Frozen("ruleless", "-", "-", rules=Rules()))
    lens, ids = families.lens(name, "causal"), families.text(7)
    ours, theirs = (lens.attribute(ids, m, Target(4, foil=9)).scores for m in ("ruleless", "grad_x_input"))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


class LinearLlama:
    """A Llama whose attention, norms' scales and gates are held at what they were: a vector's way to the logits."""

    def __init__(self, ids: list[int]) -> None:
        self.model = families.model("llama", "causal", attention=exact.ATTENTION)
        out = exact.forward(self.model, ids, output_hidden_states=True)
        self.logits = out.logits[0, -1].numpy()
        self.layers = list(FORWARDS["llama"](self.model.base_model, out.hidden_states[0][0].numpy()))
        self.state = {k: t.detach().numpy() for k, t in self.model.state_dict().items()}
        self.eps = self.model.config.rms_norm_eps

    def carried(self, part: np.ndarray, first: int = 0, *, behind: bool = False) -> np.ndarray:
        """The logits of the last row that a part of the stream makes: from layer `first`, or `behind` its attention."""
        for k, layer in list(enumerate(self.layers))[first:]:
            path = f"model.layers.{k}"
            if not (behind and k == first):
                before = Norm(self.state[f"{path}.input_layernorm.weight"], 0.0, self.eps, rms=True)
                value = before.frozen(part, layer.x) @ self.state[f"{path}.self_attn.v_proj.weight"].T
                groups = len(layer.alpha) // self.model.config.num_key_value_heads
                wide = value.reshape(len(part), -1, layer.v.shape[-1]).transpose(1, 0, 2).repeat(groups, 0)
                part = part + sum(layer.alpha[h] @ wide[h] @ layer.wo[h] for h in range(len(layer.alpha)))
            read, mlp = layer.ln2(layer.a), f"{path}.mlp"
            gate = silu(read @ self.state[f"{mlp}.gate_proj.weight"].T + self.state[f"{mlp}.gate_proj.bias"])
            up = layer.ln2.frozen(part, layer.a) @ self.state[f"{mlp}.up_proj.weight"].T
            part = part + (gate * up) @ self.state[f"{mlp}.down_proj.weight"].T
        final = Norm(self.state["model.norm.weight"], 0.0, self.eps, rms=True)
        return final.frozen(part[-1], self.layers[-1].y[-1]) @ self.state["lm_head.weight"].T


def linear_scores(ids: list[int], target: int) -> np.ndarray:
    """A Llama's token scores by pushing each source token's share through the layers, a source at a time."""
    llama = LinearLlama(ids)
    scores = []
    for j in range(len(ids)):
        part = np.zeros_like(llama.layers[0].x)
        part[j] = llama.layers[0].x[j]
        scores.append(llama.carried(part)[target])
    return np.array(scores)


def test_cp_lrp_is_the_linear_decomposition():
    ids = families.text(7)
    got = families.lens("llama", "causal").attribute(ids, "cp_lrp", Target(3, of="logit")).scores.numpy()
    np.testing.assert_allclose(got, linear_scores(ids, 3), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("preset", [*PRESETS, "libragrad", "path_logit"])
def test_the_log_odds_are_explained_unless_the_target_says_otherwise(preset):
    lens, ids = families.lens("llama", "causal"), families.text(5)
    odds, asked = (lens.attribute(ids, preset, target) for target in (Target(3), Target(3, of="log_odds")))
    assert odds.meta["of"] == "log_odds" and torch.equal(odds.scores, asked.scores)
    logit = lens.attribute(ids, preset, Target(3, of="logit"))
    assert logit.meta["of"] == "logit" and not torch.equal(odds.scores, logit.scores)
    trace = lens.trace(ids[:4], [3], preset)
    torch.testing.assert_close(trace.scores[0, :4], lens.attribute(ids[:4], preset, 3).scores, rtol=1e-9, atol=1e-12)


def ruled_logits(name: str, ids: list[int], rules: dict[str, float]) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings and last logits of a Llama or Qwen3, written out with each rule where it acts."""
    model = families.model(name, "causal", attention=exact.ATTENTION)
    config, w = model.config, {key: t.detach() for key, t in model.state_dict().items()}
    x = leaf = w["model.embed_tokens.weight"][ids].clone().requires_grad_()
    n, width = len(ids), config.head_dim
    places = torch.arange(n)[None]
    cos, sin = (t[0] for t in model.model.rotary_emb(x, places))

    def scaled(t, factor):
        return t.detach() + factor * (t - t.detach())

    def norm(path, t):
        return w[f"{path}.weight"] * t * (t.detach().pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).rsqrt()

    def linear(path, t):
        return t @ w[f"{path}.weight"].T + w.get(f"{path}.bias", torch.zeros(()))

    def turned(t):
        first, second = t.chunk(2, -1)
        return t * cos + torch.cat([-second, first], -1) * sin

    for k in range(config.num_hidden_layers):
        at = f"model.layers.{k}"
        h = norm(f"{at}.input_layernorm", x)
        q, key, v = (
            linear(f"{at}.self_attn.{part}_proj", h).view(n, -1, width).transpose(0, 1) for part in ("q", "k", "v")
        )
        if name == "qwen3":
            q, key = norm(f"{at}.self_attn.q_norm", q), norm(f"{at}.self_attn.k_norm", key)
        groups = len(q) // len(v)
        q, key, v = scaled(turned(q), 1 / 4), scaled(turned(key), 1 / 4), scaled(v, 1 / 2)
        s = q @ key.repeat_interleave(groups, 0).mT / width**0.5
        s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
        warm = rules["temperature"] * (s / rules["temperature"]).softmax(-1)  # whose slope is p (g - p . g)
        alpha = s.softmax(-1).detach() + (warm - warm.detach())
        x = x + linear(f"{at}.self_attn.o_proj", (alpha @ v.repeat_interleave(groups, 0)).transpose(0, 1).flatten(1))
        h = norm(f"{at}.post_attention_layernorm", x)
        gate, up = linear(f"{at}.mlp.gate_proj", h), linear(f"{at}.mlp.up_proj", h)
        act = gate * torch.sigmoid(gate)
        act = gate * torch.sigmoid(gate).detach() if rules["slope"] else act
        x = x + linear(
            f"{at}.mlp.down_proj",
            scaled(act, 1 / 2) * up.detach() + act.detach() * scaled(up, 1 / 2) - act.detach() * up.detach(),
        )
    return leaf, norm("model.norm", x)[-1] @ w["lm_head.weight"].T


@pytest.mark.parametrize("method", ["attn_lrp", "gim"])
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_the_whole_net_by_rules_written_out(name, method):
    ids, target = families.text(7), 3
    rules = {"attn_lrp": {"temperature": 1.0, "slope": True}, "gim": {"temperature": 2.0, "slope": False}}[method]
    leaf, logits = ruled_logits(name, ids, rules)
    model = families.model(name, "causal", attention=exact.ATTENTION)
    torch.testing.assert_close(logits.detach(), exact.forward(model, ids).logits[0, -1], rtol=1e-9, atol=1e-10)
    (gradient,) = torch.autograd.grad(logits[target], leaf)
    got = families.lens(name, "causal").attribute(ids, method, Target(target, of="logit")).scores
    torch.testing.assert_close(got, (leaf.detach() * gradient).sum(-1), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("target", "itself", "temperature", "average", "clamp"),
    [
        (3, True, 2.0, 0.25, "layer"),
        (3, True, 1.0, 0.5, "layer"),
        (3, False, 1.0, None, "head"),
        (4, True, 1.0, None, "layer"),
        (4, True, 3.0, 0.0, "head"),
        (3, True, 1.0, 1.0, "layer"),
    ],
)
@pytest.mark.parametrize("paths", ["row", "all"])
def test_path_logit_is_every_term_carried_to_the_log_odds(paths, target, itself, temperature, average, clamp):
    """sum over layers and rows i != j of max(0, what the heads' terms of j at row i add), a term at a time, against
    what the head reads there and on average; and what the last token's embedding adds by itself, where that speaks for
    the answer (it does for token 3).
    """
    ids = families.text(6)
    llama, q = LinearLlama(ids), len(ids) - 1
    p = np.exp(llama.logits - llama.logits.max())
    p = p / p.sum()
    weights = -p / (1 - p[target])
    weights[target] = 1.0  # the gradient of log p / (1 - p) by the logits
    expected = np.zeros(len(ids))
    for k, layer in enumerate(llama.layers):
        added = np.zeros((len(layer.alpha), len(ids), len(ids)))
        for h in range(len(layer.alpha)):
            weighed = layer.alpha[h] ** (1 / temperature)
            weighed = weighed / weighed.sum(1, keepdims=True)
            reads = weighed @ layer.v[h]
            for i in range(len(ids)) if paths == "all" else [q]:
                share = 0 if average is None else average
                against = ((1 - share) * reads[i] + share * reads[: i + 1].mean(0)) * (average is not None)
                for j in range(i):
                    part = np.zeros_like(layer.x)
                    part[i] = weighed[i, j] * ((layer.v[h, j] - against) @ layer.wo[h])
                    added[h, i, j] = float(llama.carried(part, k, behind=True) @ weights)
        expected += np.maximum(added.sum(0) if clamp == "layer" else added, 0).reshape(-1, len(ids)).sum(0)
    part = np.zeros_like(llama.layers[0].x)
    part[q] = llama.layers[0].x[q]
    said = float(llama.carried(part) @ weights)
    assert (said > 0) == (target == 3) and expected[q] == 0
    expected[q] = max(0.0, said) * itself
    options = {"paths": paths, "itself": itself, "temperature": temperature, "average": average, "clamp": clamp}
    got = families.lens("llama", "causal").attribute(ids, "path_logit", target=target, normalize=False, **options)
    np.testing.assert_allclose(got.scores.numpy(), expected, rtol=1e-9, atol=1e-11)
    assert expected.any()


class OwnLinear(torch.nn.Linear):
    """A linear map with a forward of its own (Falcon's): its matrix is read off its outputs."""

    def forward(self, input):
        return input @ self.weight.T + (0 if self.bias is None else self.bias)


@pytest.mark.parametrize("paths", ["row", "all"])
def test_path_logit_reads_a_map_off_its_outputs_without_taking_them_for_the_pass(paths):
    model, ids = families.make("llama", "causal"), families.text(6)
    for layer in model.model.layers:
        layer.self_attn.o_proj.__class__ = OwnLinear
    one, other = (lens.trace(ids[:4], ids[4:], "path_logit", paths=paths).scores for lens in (
        mixlens.load(model), families.lens("llama", "causal")
    ))  # fmt: skip
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *(("llama", method) for method in (*PRESETS, "path_logit")),
        *(("gemma2", method) for method in ("attn_lrp", "path_logit")),
        *(
            pytest.param(f, method, marks=pytest.mark.slow)
            for f in DECODERS
            for method in ("attn_lrp", "path_logit")
            if f not in ("llama", "gemma2")
        ),
    ],
)
def test_batch_mates_change_nothing(name, method):
    lens, ids = families.lens(name, "causal"), families.text(6)
    one = lens.attribute(ids, method, target=3).scores
    batch = lens.attribute([families.text(3), ids, families.text(9)], method, target=3)
    torch.testing.assert_close(batch[1].scores, one, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("method", PRESETS)
def test_a_foil_turns_the_sign(method):
    lens, ids = families.lens("llama", "causal"), families.text(6)
    one, other = (lens.attribute(ids, method, Target(a, foil=b)).scores for a, b in ((4, 9), (9, 4)))
    torch.testing.assert_close(one, -other, rtol=1e-11, atol=1e-13)


def test_libragrad_is_cp_lrp():
    lens, ids = families.lens("gpt2", "causal"), families.text(6)
    assert torch.equal(lens.attribute(ids, "libragrad").scores, lens.attribute(ids, "cp_lrp").scores)


def test_the_norm_instead_of_the_sum():
    scores = families.lens("llama", "causal").attribute(families.text(6), "gim", target=3, reduce="l2").scores
    summed = families.lens("llama", "causal").attribute(families.text(6), "gim", target=3).scores
    assert bool((scores >= 0).all()) and bool((scores * 32**0.5 >= summed.abs()).all())


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_softmax_of_another_temperature_by_hand(temperature):
    """dL/ds = p (g - p . g), p the softmax at that temperature, and the factors of q, k and v."""
    from mixlens.attribute.frozen.rules import ruled

    draw = torch.Generator().manual_seed(0)
    q, k, v, g = (torch.randn(1, 2, 5, 4, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(4))
    call = Call(q, k, v, None, 0.5, None, None, causal=True)
    rules = Rules(softmax=temperature, query=1 / 4, key=1 / 4, value=1 / 2)
    got = torch.autograd.grad((ruled(rules, call).output() * g.detach()).sum(), (q, k, v))
    with torch.no_grad():
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        s = (q @ k.mT * 0.5).masked_fill(hidden, -torch.inf)
        p, a = (s / temperature).softmax(-1), s.softmax(-1)
        by_weight = g @ v.mT
        by_logit = p * (by_weight - (p * by_weight).sum(-1, keepdim=True))
        expected = (by_logit @ k * 0.5 / 4, by_logit.mT @ q * 0.5 / 4, a.mT @ g / 2)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def calls():
    """Attention calls of every form, in float64: each part of one that the logits may have."""
    draw = torch.Generator().manual_seed(1)

    def some(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    q, k, v, nothing = some(2, 4, 6, 3), some(2, 2, 6, 3), some(2, 2, 6, 5), some(2, 4, 6, 0)
    seen = torch.ones(6, 6, dtype=torch.bool).tril()[None, None]
    hidden = torch.zeros(1, 1, 6, 6, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    return {
        "causal": Call(q, k, v, None, 0.5, None, None, causal=True),
        "mask": Call(q, k, v, seen, 0.5, None, None, causal=False),
        "additive mask, bias": Call(q, k, v, hidden, 0.5, None, some(1, 4, 6, 6), causal=False),
        "cap": Call(q, k, v, seen, 0.5, 0.7, None, causal=False),
        "sinks": Call(q, k, v, None, 0.5, None, None, causal=True, sinks=some(4)),
        "logits given": Call(
            some(2, 4, 6, 6), nothing, some(2, 4, 6, 5), seen, 1.0, None, None, causal=False, given=True
        ),
    }


@pytest.mark.parametrize("form", list(calls()))
def test_its_own_temperature_is_the_softmaxs_own_gradient_in_blocks_of_rows(form, monkeypatch):
    monkeypatch.setattr(softmax, "ROW_BYTES", 2 * 2 * 4 * 6 * 8)  # two rows at a time
    call = calls()[form]
    leaves = [t.requires_grad_() for t in (call.q, call.k, call.v)]
    slope = torch.randn(call.output().shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ours, plain = tempered(call, 1.0), call.weights() @ repeat_heads(call.v, call.groups)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    ours, plain = (torch.autograd.grad(out, leaves, slope, allow_unused=True) for out in (ours, plain))
    for mine, true in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, torch.zeros_like(mine) if true is None else true, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "head", "method", "options", "error", "says"),
    [
        (
            "llama",
            "causal",
            "gim",
            {"reduce": "max"},
            UnknownOption,
            "expected reduce='sum' or 'l2' for gim, got 'max'",
        ),
        (
            "llama",
            "causal",
            "path_logit",
            {"paths": "rows"},
            UnknownOption,
            "expected paths='row' or 'all' for path_logit",
        ),
        ("llama", "causal", "path_logit", {"itself": "no"}, UnknownOption, "expected itself= True or False"),
        ("llama", "causal", "path_logit", {"temperature": 0}, UnknownOption, "expected temperature= a number above 0"),
        ("llama", "causal", "path_logit", {"average": 2}, UnknownOption, "expected average= a share of 0 to 1"),
        ("llama", "causal", "gim", {"readout": 0}, Undefined, "gim reads the row that answers; leave readout= out"),
    ],
)
def test_what_has_no_rule_is_refused(family, head, method, options, error, says):
    with pytest.raises(error, match=says):
        families.lens(family, head).attribute(families.text(5), method, **options)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("kind", ["causal", "bool", "additive", "softcap", "bias", "sinks", "given"])
def test_what_heads_read_at_a_temperature_is_their_tempered_weights_of_the_values(kind, temperature):
    """By the fused kernel, or by blocks where a cap, a bias, sinks or a mask's own numbers are beside."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 3, generator=draw, dtype=torch.float64) for heads in (4, 2, 2))
    seen = torch.ones(5, 5, dtype=torch.bool).tril()
    hidden = torch.zeros(5, 5, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    bias = torch.randn(1, 4, 5, 5, generator=draw, dtype=torch.float64)
    sinks = torch.randn(4, generator=draw, dtype=torch.float64)
    logits = 0.5 * q @ repeat_heads(k, 2).transpose(2, 3)
    mask, more = seen[None, None], {}
    if kind == "additive":
        mask, logits = (hidden + 0.3 * bias), logits + 0.3 * bias
    elif kind == "bias":
        more, logits = {"bias": bias}, logits + bias
    elif kind == "softcap":
        more, logits = {"softcap": 0.7}, 0.7 * torch.tanh(logits / 0.7)
    elif kind == "sinks":
        more = {"sinks": sinks}
    elif kind == "given":
        q, more = logits, {"given": True}
    settings = {"mask": None if kind == "causal" else mask, "scaling": 0.5, "softcap": None, "bias": None, **more}
    call = Call(q, k, v, causal=kind == "causal", **settings)
    e = (logits / temperature).exp() * seen
    extra = (sinks / temperature).exp()[None, :, None, None] if kind == "sinks" else 0
    expected = e / (e.sum(-1, keepdim=True) + extra) @ repeat_heads(v, 2)
    torch.testing.assert_close(read(call, temperature), expected, rtol=1e-9, atol=1e-12)
