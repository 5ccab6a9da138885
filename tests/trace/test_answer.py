"""Answers that the model generates, foils, sources that are left out, and that the model stays as it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Target
from mixlens.errors import EmptyInput, InputError, MixlensError, OverBudget, TooLong, UnknownMethod, UnknownOption
from models import chats, families

PROMPT = [5, 6, 7, 8]
USER = [{"role": "user", "content": "w5 w6"}]


def load(**settings):
    model = families.make("llama", "causal", max_position_embeddings=64, **settings)
    return mixlens.load(model, chats.tokenizer())


@pytest.fixture(scope="module")
def lens():
    return load()


def greedy(model, ids, n=8, **how):
    """What the model's own generate gives, the end token left out."""
    ids = torch.tensor([list(ids)])
    out = (
        copy.deepcopy(model)
        .generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, pad_token_id=0, **{"do_sample": False, **how}
        )[0, ids.shape[1] :]
        .tolist()
    )
    end = model.generation_config.eos_token_id
    return tuple(out[: out.index(end)] if end in out else out)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "gpt_neox"])
def test_the_greedy_answer_is_generate_s(family):
    lens = families.lens(family, "causal")
    trace = lens.trace(PROMPT, max_new_tokens=8)
    assert trace.answer.ids == greedy(lens.model, PROMPT) and trace.meta["generated"] is True
    again = lens.trace(PROMPT, trace.answer.ids)
    assert torch.equal(again.scores, trace.scores) and again.meta["generated"] is False


def test_the_answer_to_a_chat_follows_its_template(lens):
    trace = lens.trace(USER, max_new_tokens=5)
    ids = lens.tokenizer.apply_chat_template(USER, add_generation_prompt=True, return_dict=False)
    assert trace.answer.ids == greedy(lens.model, ids, 5)


def test_greedy_whatever_the_model_s_own_settings_say():
    lens = load()
    lens.model.generation_config.do_sample = True
    lens.model.generation_config.temperature = 9.0
    expected = greedy(lens.model, PROMPT, temperature=None)
    assert all(lens.trace(PROMPT, max_new_tokens=8).answer.ids == expected for _ in range(3))


def test_arguments_of_generate_are_passed_on(lens):
    how = {"repetition_penalty": 5.0}
    assert lens.trace(PROMPT, max_new_tokens=8, generate=how).answer.ids == greedy(lens.model, PROMPT, **how)
    torch.manual_seed(0)
    found = {lens.trace(PROMPT, max_new_tokens=8, generate={"do_sample": True}).answer.ids for _ in range(5)}
    assert len(found) > 1


def test_the_end_token_is_left_out_whichever_it_is(lens):
    plain = lens.trace(PROMPT, max_new_tokens=8).answer.ids
    end = plain[3]
    expected = plain[: plain.index(end)]
    if not expected:
        pytest.skip("this model begins with it")
    assert lens.trace(PROMPT, max_new_tokens=8, generate={"eos_token_id": end}).answer.ids == expected


def test_an_answer_that_ends_at_once():
    lens = load()
    first = greedy(lens.model, PROMPT)[0]
    lens.model.generation_config.eos_token_id = first
    with pytest.raises(EmptyInput, match="ended its answer at once"):
        lens.trace(PROMPT)


def test_generated_texts_are_texts(lens):
    trace = lens.trace("w5 w6", max_new_tokens=4)
    assert lens.tokenizer(trace.answer.text[0])["input_ids"] == list(trace.answer.ids)


def test_an_answer_fits_the_model_s_positions(lens):
    assert len(lens.trace([5] * 60, max_new_tokens=64).answer) <= 4
    with pytest.raises(InputError, match="leaves room for an answer among 64 positions, got 64"):
        lens.trace([5] * 64)


def test_more_new_tokens_than_there_are_positions_are_refused(lens):
    with pytest.raises(TooLong):
        lens.trace([5] * 60, [6] * 5)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens of 1 or more, got 0"),
        ({"max_new_tokens": True}, "max_new_tokens of 1 or more, got True"),
        ({"max_new_tokens": 2.0}, "max_new_tokens of 1 or more, got 2.0"),
        ({"generate": {"beans": 3}}, "generate has no argument 'beans'"),
        ({"generate": {"temperature": -1.0, "do_sample": True}}, "refuses"),
        ({"generate": {"num_return_sequences": 2}}, "one answer is traced"),
        ({"generate": {"return_dict_in_generate": True}}, "generate"),
        ({"generate": {"max_new_tokens": 3}}, "max_new_tokens"),
        ({"generate": {"max_length": 100}}, "max_new_tokens"),
        ({"generate": 3}, "generate"),
    ],
)
def test_what_generate_does_not_take(lens, how, says):
    with pytest.raises(UnknownOption, match=says):
        lens.trace(PROMPT, **how)


@pytest.mark.parametrize("how", [{"temperature": 1e-300}, {"suppress_tokens": list(range(families.VOCABULARY))}])
def test_settings_that_leave_nothing_to_draw_from(lens, how):
    with pytest.raises(UnknownOption, match=r"the model's generate refuses .* probability tensor"):
        lens.trace(PROMPT, max_new_tokens=2, generate={"do_sample": True, **how})


def test_an_answer_and_arguments_to_generate_one(lens):
    with pytest.raises(UnknownOption, match="leave either out"):
        lens.trace(PROMPT, [9], generate={"do_sample": True})


# --- the model stays as it was ---


@pytest.mark.parametrize("method", ["head_logit", "alti", "saliency", "attcat", "blank_out"])
def test_the_model_is_not_touched(method):
    lens = load()
    model = lens.model
    model.train()
    model.model.layers[1].eval()

    def state():
        return (
            model.config.to_dict(),
            model.generation_config.to_dict(),
            [(name, m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for name, m in model.named_modules()],
            [(name, p.requires_grad, p.grad) for name, p in model.named_parameters()],
            {name: value.clone() for name, value in model.state_dict().items()},
            torch.is_grad_enabled(),
            torch.random.get_rng_state(),
        )

    before = state()
    lens.trace(PROMPT, method=method, max_new_tokens=3)
    after = state()
    assert before[:4] == after[:4] and before[5] == after[5]
    assert all(torch.equal(before[4][name], after[4][name]) for name in before[4])
    assert torch.equal(before[6], after[6])


# --- foils ---


def test_one_foil_for_all_and_one_each(lens):
    one = lens.trace(PROMPT, [9, 10, 11], foil=12)
    for foil in ([12], "w12", [12, 12, 12], "w12 w12 w12", torch.tensor([12]), torch.tensor(12), np.int64(12)):
        assert torch.equal(lens.trace(PROMPT, [9, 10, 11], foil=foil).scores, one.scores)
    assert [t.foil_index for t in one.targets] == [12, 12, 12]
    assert all(0 < row["foil_probability"] < 1 for row in one.said)
    assert "same_as_foil" not in one.meta


@pytest.mark.parametrize("foil", [[12, 13], "w12 w13", [12] * 4])
def test_a_foil_of_another_length(lens, foil):
    with pytest.raises(InputError, match=r"a foil of 3 tokens, as many as the answer has, or of one, got [24]"):
        lens.trace(PROMPT, [9, 10, 11], foil=foil)


@pytest.mark.parametrize("foil", [[9, 10, 11], "w9 w10 w11"])
def test_a_foil_that_is_the_answer(lens, foil):
    with pytest.raises(InputError, match="a foil other than the answer"):
        lens.trace(PROMPT, [9, 10, 11], foil=foil)


@pytest.mark.parametrize("foil", ["", [], True, 1.5, {"a": 1}])
def test_what_is_no_foil(lens, foil):
    with pytest.raises(InputError, match="expected a foil"):
        lens.trace(PROMPT, [9, 10, 11], foil=foil)


def test_tokens_that_are_their_foil_are_zero_and_named(lens):
    trace = lens.trace(PROMPT, [9, 10, 11], foil=[9, 12, 11])
    assert trace.meta["same_as_foil"] == (0, 2)
    assert not trace.scores[[0, 2]].any() and trace.scores[1].any()
    assert [t.foil_index for t in trace.targets] == [None, 12, None]


# --- what is left out ---


def rows(trace):
    return trace.scores.sum(-1)


@pytest.mark.parametrize("method", ["head_logit", "alti", "saliency"])
def test_what_is_left_out_is_zero_and_rows_are_divided_anew(lens, method):
    whole = lens.trace(PROMPT, [9, 10], method)
    less = lens.trace(PROMPT, [9, 10], method, exclude="first")
    assert less.meta["excluded"] == (0,) and "excluded" not in whole.meta
    assert not less.scores[:, 0].any()
    rest = whole.scores[:, 1:] / whole.scores[:, 1:].sum(-1, keepdim=True)
    torch.testing.assert_close(less.scores[:, 1:], rest, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rows(less), torch.ones(2, dtype=torch.float64))


def test_signed_scores_and_raw_ones_are_not_divided(lens):
    for how in ({"method": "grad_x_input"}, {"method": "saliency", "normalize": False}):
        whole, less = lens.trace(PROMPT, [9], **how), lens.trace(PROMPT, [9], exclude="first", **how)
        assert torch.equal(less.scores[:, 1:], whole.scores[:, 1:]) and not less.scores[:, 0].any()


def test_template_and_roles_are_left_out(lens):
    chat = [{"role": "system", "content": "w10 w11"}, *USER]
    roles = lens.trace(chat, "w8").prompt.roles
    left = lens.trace(chat, "w8 w9", exclude="template").meta["excluded"]
    assert left == tuple(i for i, role in enumerate(roles) if role is None)
    left = lens.trace(chat, "w8 w9", exclude=["system", "template"]).meta["excluded"]
    assert left == tuple(i for i, role in enumerate(roles) if role in (None, "system"))
    assert lens.trace(chat, "w8", exclude=("first", "template")).meta["excluded"][0] == 0


@pytest.mark.parametrize(
    ("prompt", "exclude", "says"),
    [
        (PROMPT, "last", r"'first', 'template' \(this prompt is no chat, so it has no roles\), got 'last'"),
        (PROMPT, ["first", "user"], "this prompt is no chat"),
        (USER, "system", r"'template' or a role \(user\), got 'system'"),
        (USER, [3], "got 3"),
        (USER, ["user", "template"], "leave some of the prompt"),
        (PROMPT[:1], "first", "leave some of the prompt"),
    ],
)
def test_what_cannot_be_left_out(lens, prompt, exclude, says):
    with pytest.raises(UnknownOption, match=says):
        lens.trace(prompt, [9], exclude=exclude)


@pytest.mark.parametrize("exclude", [3, None])
def test_what_names_no_sources(lens, exclude):
    with pytest.raises(UnknownOption, match="exclude"):
        lens.trace(PROMPT, [9], exclude=exclude)


# --- other options ---


def test_readout_means_nothing(lens):
    with pytest.raises(UnknownOption, match=r"readout= means nothing for a trace"):
        lens.trace(PROMPT, [9], readout=0)


@pytest.mark.parametrize("method", ["globenk", "", 3])
def test_unknown_methods(lens, method):
    with pytest.raises(UnknownMethod):
        lens.trace(PROMPT, [9], method)


def test_the_default_method_may_be_said(lens):
    assert torch.equal(lens.trace(PROMPT, [9], None, None).scores, lens.trace(PROMPT, [9]).scores)
    assert lens.trace(PROMPT, [9]).method == "path_logit"


def test_unknown_options_are_refused_before_anything_is_generated(lens, monkeypatch):
    monkeypatch.setattr("mixlens.trace.calls.generated", None)
    for how in ({"beans": 3}, {"method": "globenk"}, {"readout": 0}, {"exclude": "user"}):
        with pytest.raises(MixlensError):
            lens.trace(PROMPT, **how)


def test_a_budget_that_is_too_small(lens):
    with pytest.raises(OverBudget):
        lens.trace(PROMPT, [9, 10], "alti", memory=1)


def test_a_budget_knows_the_logits_of_every_answer_token():
    """Of a long answer in a large vocabulary they are more than the pass itself."""
    lens = load(vocab_size=30_000)
    enough = int(1.2 * lens.plan(PROMPT * 8, "path_logit").peak_bytes)
    assert len(lens.trace(PROMPT, [9], memory=enough)) == 1
    with pytest.raises(OverBudget, match="path_logit"):
        lens.trace(PROMPT, [9] * 28, memory=enough)


def test_targets_are_the_answer_s_tokens(lens):
    trace = lens.trace(PROMPT, [9, 10])
    assert [t.index for t in trace.targets] == [9, 10]
    asked = lens.attribute(PROMPT, "random", Target(9))
    assert trace.targets[0].label == asked.target.label
