"""Classifiers of an encoder and a decoder (BART, T5): both places of each token, against the model's own passes."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest
import torch
import transformers

import mixlens
from mixlens.attribute.classified import folded
from mixlens.errors import InputError, TargetError, Undefined, UnknownOption
from models import families, towers
from models.exact import exact_norms
from models.translators import TRANSLATORS

TEXT = [*families.text(7), 2]
PREFIX = {"bart": "Bart", "mbart": "MBart", "t5": "T5"}
N = len(TEXT)


@cache
def model(name: str, **settings: Any) -> Any:
    config = getattr(transformers, f"{PREFIX[name]}Config")(
        **{**TRANSLATORS[name].settings, "num_labels": 3, **settings}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = getattr(transformers, f"{PREFIX[name]}ForSequenceClassification")(config).double()
        families.randomize(made)
    exact_norms(made)
    return made.eval()


@cache
def lens(name: str) -> mixlens.Lens:
    return mixlens.load(model(name))


def logits(name: str, ids: list[int] = TEXT) -> torch.Tensor:
    with torch.no_grad():
        return model(name)(input_ids=torch.tensor([ids])).logits[0]


def stacks(made: Any) -> tuple[Any, Any]:
    """The first layer of either stack."""
    base = made.base_model
    return tuple((s.layers if hasattr(s, "layers") else s.block)[0] for s in (base.get_encoder(), base.get_decoder()))


@pytest.mark.parametrize("name", PREFIX)
def test_the_answer_is_the_models(name):
    attr = lens(name).attribute(TEXT)
    wanted = logits(name).softmax(-1)
    assert attr.method == "alti" and attr.target.index == int(wanted.argmax())
    assert attr.meta["probabilities"] == pytest.approx({f"LABEL_{i}": float(p) for i, p in enumerate(wanted)})
    assert len(attr.source) == N + 1 and attr.source.special[-1] and attr.source.ids[:N] == tuple(TEXT)
    assert float(attr.scores.sum()) == pytest.approx(1)


@pytest.mark.parametrize("name", PREFIX)
def test_gradients_are_those_of_both_first_layers(name):
    """A token stands at i in the encoder and at i + 1 in the decoder, which the end token does not reach."""
    made, kept = model(name), []

    def keep(module, args, kwargs):
        x = (args[0] if args else kwargs["hidden_states"]).detach().requires_grad_()
        kept.append(x)
        return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

    hooks = [layer.register_forward_pre_hook(keep, with_kwargs=True) for layer in stacks(made)]
    value = made(input_ids=torch.tensor([TEXT])).logits[0, 1]
    gradients = torch.autograd.grad(value, kept)
    for hook in hooks:
        hook.remove()
    source, target = ((g * h)[0].sum(-1).detach() for g, h in zip(gradients, kept, strict=True))
    wanted = torch.cat([source, target[:1]])
    wanted[: N - 1] += target[1:]
    got = lens(name).attribute(TEXT, "grad_x_input", target=1)
    torch.testing.assert_close(got.scores.double(), wanted, rtol=1e-5, atol=1e-7)
    assert got.target.label == "LABEL_1"


@pytest.mark.parametrize("name", PREFIX)
def test_rollouts_share_out_all_of_the_answering_row(name):
    for method in ("alti", "globenc", "attention_rollout", "value_zeroing", "attention", "alti+mean"):
        attr = lens(name).attribute(TEXT, method, normalize=False)
        assert float(attr.scores.sum()) == pytest.approx(1, abs=1e-6) and bool((attr.scores >= 0).all()), method


def test_the_last_end_token_answers():
    """mBART's texts have a language behind it."""
    behind = [*TEXT, 9]
    attr = lens("mbart").attribute(behind, "saliency")
    assert attr.meta["target_probability"] == pytest.approx(float(logits("mbart", behind).softmax(-1).max()))
    assert attr.meta["readout"] == N - 1
    with pytest.raises(InputError, match=r"expected a text with the end token 2, .*got none; tokenize it"):
        lens("bart").attribute(TEXT[:-1])


def test_every_class_and_several_texts():
    every = lens("bart").attribute(TEXT, "grad_x_input", target="all")
    assert every.names == ("LABEL_0", "LABEL_1", "LABEL_2")
    alone = lens("bart").attribute(TEXT, "grad_x_input", target=2)
    assert torch.equal(every[2].scores, alone.scores)
    two = lens("bart").attribute([TEXT, TEXT[2:]], "saliency", target=["LABEL_0", 1])
    assert [attr.target.index for attr in two] == [0, 1]
    assert torch.equal(two[1].scores, lens("bart").attribute(TEXT[2:], "saliency", target=1).scores)
    with pytest.raises(TargetError, match="expected one text for target='all', got 2"):
        lens("bart").attribute([TEXT, TEXT], target="all")


def test_the_encoder_has_maps_and_what_is_not_built_is_refused(tmp_path):
    assert lens("bart").mixing(TEXT, "alti").scores.shape == (2, N, N)
    with pytest.raises(Undefined, match=r"got a classifier of an encoder and a decoder .*lens\.attribute\(text\)"):
        lens("bart").compare(TEXT)
    with pytest.raises(Undefined, match="got a classifier of an encoder and a decoder"):
        mixlens.explain_data(lens("bart"), [{"text": "a", "label": 0}], out=tmp_path / "run")
    with pytest.raises(InputError, match="expected a causal language model to trace an answer of, got a sequence head"):
        lens("bart").trace(TEXT)
    with pytest.raises(Undefined, match="cp_lrp is not defined for two streams of tokens"):
        lens("bart").attribute(TEXT, "cp_lrp")
    with pytest.raises(UnknownOption, match="readout= means nothing here"):
        lens("bart").attribute(TEXT, readout=0)


def test_an_output_without_classes():
    one = mixlens.load(model("bart", num_labels=1))
    with torch.no_grad():
        output = float(model("bart", num_labels=1)(input_ids=torch.tensor([TEXT])).logits)
    assert one.head.regression and one.attribute(TEXT).meta["output"] == pytest.approx(output)


def test_a_premise_and_its_hypothesis_are_read_as_one(tmp_path):
    lens = mixlens.load(model("bart"), towers.pair_tokenizer())
    attr = lens.attribute(("a red cat", "a blue cat"), "saliency", target=0)
    assert [word.text for word in attr.words() if not word.special] == "a red cat a blue cat".split()


def test_both_places_of_a_token_are_summed():
    row = torch.tensor([1.0, 2, 3, 10, 20, 30])  # three tokens; the decoder reads its start and the first two
    assert folded(row, 3).tolist() == [21, 32, 3, 10]


def test_a_data_set_is_refused_before_its_first_text():
    says = "expected a model of one stream, got a classifier of an encoder and a decoder"
    with pytest.raises(Undefined, match=says):
        mixlens.explain_data(lens("bart"), [TEXT], "saliency")
    with pytest.raises(Undefined, match=says):
        mixlens.evaluate(lens("bart"), [TEXT], ["saliency"], ["aopc"])
    for plan in (
        lens("bart").plan,
        partial(mixlens.plan_evaluate, lens("bart")),
        partial(mixlens.plan_explain_data, lens("bart")),
    ):
        with pytest.raises(Undefined, match=says):
            plan([TEXT])
