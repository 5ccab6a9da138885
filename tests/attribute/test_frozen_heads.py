"""Gradients with parts held fixed, of answers that no vocabulary's map gives: classifiers, tokens, spans, pictures."""

from __future__ import annotations

import pytest
import torch

import mixlens
from mixlens import Target
from mixlens.attribute.frozen import Frozen, Rules
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.errors import Undefined
from models import exact, families, pictures, sounds

PRESETS = ("cp_lrp", "attn_lrp", "gim")
# layers: norms behind the sums, in front, at the softmax's seam, gated; heads: of one row, of all, of a vocabulary
CASES = [
    ("bert", "sequence"),
    ("opt-post", "causal"),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("bert", "masked"),
            ("bert", "token"),
            ("deberta-v2", "sequence"),
            ("modernbert", "sequence"),
            ("llama", "sequence"),
        )
    ),
]


@pytest.mark.parametrize(("family", "head"), CASES)
def test_without_rules_it_is_grad_x_input_and_with_rules_no_number_of_the_pass_changes(family, head, monkeypatch):
    monkeypatch.setitem(ATTRIBUTIONS, "ruleless", Frozen("ruleless", "-", "-", rules=Rules()))
    lens, ids = families.lens(family, head), families.text(7)
    where = {"position": 2} if head in ("masked", "token") else {}
    target = Target(1, of="log_odds", **where)
    plain = lens.attribute(ids, "grad_x_input", target)
    torch.testing.assert_close(lens.attribute(ids, "ruleless", target).scores, plain.scores, rtol=1e-9, atol=1e-11)
    for method in PRESETS:
        attr = lens.attribute(ids, method, Target(1, **where))
        assert attr.meta["of"] == "log_odds"
        assert attr.meta["value"] == pytest.approx(plain.meta["value"], rel=1e-9)
        assert not torch.allclose(attr.scores, plain.scores)
        alone = lens.attribute([ids, families.text(4)], method, Target(1, **where))[0]
        torch.testing.assert_close(alone.scores, attr.scores, rtol=1e-9, atol=1e-11)


def ruled_logits(ids: list[int], rules: dict[str, float]) -> tuple[torch.Tensor, torch.Tensor]:
    """The first layer's input and the logits of a BERT classifier, written out with each rule where it acts."""
    model = families.model("bert", "sequence", attention=exact.ATTENTION)
    config, w = model.config, {key: t.detach() for key, t in model.state_dict().items()}
    x = leaf = exact.forward(model, ids, output_hidden_states=True).hidden_states[0][0].detach().requires_grad_()
    n, heads = len(ids), config.num_attention_heads

    def linear(path, t):
        return t @ w[f"{path}.weight"].T + w[f"{path}.bias"]

    def norm(path, t):
        t = t - t.mean(-1, keepdim=True)
        scale = (t.detach().pow(2).mean(-1, keepdim=True) + config.layer_norm_eps).rsqrt()
        return w[f"{path}.weight"] * t * scale + w[f"{path}.bias"]

    def scaled(t, factor):
        return t.detach() + factor * (t - t.detach())

    for k in range(config.num_hidden_layers):
        at = f"bert.encoder.layer.{k}"
        q, key, v = (
            linear(f"{at}.attention.self.{part}", x).view(n, heads, -1).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        q, key, v = scaled(q, rules["query"]), scaled(key, rules["query"]), scaled(v, rules["value"])
        alpha = (q @ key.mT / q.shape[-1] ** 0.5).softmax(-1)
        mixed = (alpha @ v).transpose(0, 1).flatten(1)
        x = norm(f"{at}.attention.output.LayerNorm", x + linear(f"{at}.attention.output.dense", mixed))
        inner = linear(f"{at}.intermediate.dense", x)
        inner = inner * (torch.nn.functional.gelu(inner) / inner).detach()
        x = norm(f"{at}.output.LayerNorm", x + linear(f"{at}.output.dense", inner))
    return leaf, linear("classifier", torch.tanh(linear("bert.pooler.dense", x[0])))


@pytest.mark.parametrize(
    ("method", "rules"), [("cp_lrp", {"query": 0.0, "value": 1.0}), ("attn_lrp", {"query": 1 / 4, "value": 1 / 2})]
)
def test_a_classifier_by_rules_written_out(method, rules):
    ids, lens = families.text(7), families.lens("bert", "sequence")
    leaf, logits = ruled_logits(ids, rules)
    (gradient,) = torch.autograd.grad(logits[1], leaf)
    attr = lens.attribute(ids, method, Target(1, of="logit"))
    assert attr.meta["value"] == pytest.approx(float(logits[1].detach()), rel=1e-9)
    torch.testing.assert_close(attr.scores, (leaf.detach() * gradient).sum(-1), rtol=1e-9, atol=1e-11)
    norms = lens.attribute(ids, method, Target(1, of="logit"), reduce="l2", normalize=False).scores
    torch.testing.assert_close(norms, (leaf.detach() * gradient).norm(dim=-1), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("family", "head", "linear"), [("bert", "token", True), ("bert", "sequence", False)])
def test_scores_of_a_logit_sum_to_it_where_no_bias_is_and_the_head_is_linear(family, head, linear):
    model = families.make(family, head)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    where = {"position": 2} if head == "token" else {}
    attr = mixlens.load(model).attribute(families.text(6), "cp_lrp", Target(1, of="logit", **where))
    assert (float(attr.scores.sum()) == pytest.approx(attr.meta["value"], rel=1e-9)) is linear


@pytest.mark.parametrize("method", PRESETS)
def test_pictures_have_them(method):
    lens, picture = pictures.lens("vit"), pictures.pixels()[0]
    whole, above = (lens.attribute(picture, method, layer=layer).scores for layer in (0, 1))
    assert whole.shape == above.shape and not torch.allclose(whole, above)


@pytest.mark.parametrize("settings", [{"do_stable_layer_norm": True}, {"conv_pos_batch_norm": True}])
def test_sounds_have_them_whatever_the_norms_in_front_are(settings):
    lens = mixlens.load(sounds.make("hubert-classes", **settings), sounds.extractor())
    wave = sounds.sound()
    target = Target(1, of="logit")
    scores = [lens.attribute(wave, method, target).scores for method in ("cp_lrp", "gim", "grad_x_input")]
    assert not torch.allclose(scores[0], scores[2]) and not torch.allclose(scores[1], scores[2])
    assert lens.attribute(wave).method == "cp_lrp"


class NoNorm(torch.nn.Module):
    """A norm that is none."""

    def forward(self, x):
        return 0.5 * x


def test_a_norm_without_a_rule_is_refused_by_name_and_has_another_default():
    model = families.make("bert", "sequence")
    dense = model.bert.encoder.layer[1].intermediate.dense
    model.bert.encoder.layer[1].intermediate.dense = torch.nn.Sequential(NoNorm(), dense)
    lens = mixlens.load(model)
    with pytest.raises(Undefined, match="got NoNorm, for which no rule is here; use saliency"):
        lens.attribute(families.text(5), "cp_lrp")
    attr = lens.attribute(families.text(5))
    assert attr.method == lens.plan(families.text(5)).method == "alti"


def test_paths_are_of_one_stream_and_one_vocabulary():
    with pytest.raises(Undefined, match=r"path_logit is worked out for .* no norm interrupts.*use attn_lrp or"):
        families.lens("opt-post", "causal").attribute(families.text(5), "path_logit")
    with pytest.raises(Undefined, match="path_logit explains the answers of causal heads, got a sequence"):
        families.lens("gpt2", "sequence").attribute(families.text(5), "path_logit")
