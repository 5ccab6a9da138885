"""Answers of encoder-decoders, back to the source and to what the decoder has read."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import transformers
from typer.testing import CliRunner

import mixlens
from mixlens.architectures import encoder_of
from mixlens.attribute import ATTRIBUTIONS
from mixlens.capture.run import run
from mixlens.cli import app
from mixlens.decompose import Block
from mixlens.errors import EmptyInput, InputError, MixlensError, TooLong, Undefined, UnknownOption
from mixlens.subject.probe import probe_inputs
from models import words
from models.blocks import vectors
from models.translators import QUICK, SOURCE, TARGET, TRANSLATORS, lens, make, model
from oracles import alti_plus

every = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in TRANSLATORS]
)
quick = pytest.mark.parametrize("name", QUICK)
SHARES = ("alti", "attention_rollout", "norm_rollout", "globenc", "value_zeroing", "attention", "alti+mean")
GRADIENTS = ("saliency", "grad_l2", "grad_x_input")
START = len(SOURCE) + 1  # sources that are there before the answer: the source's, and what the decoder starts from


NEWEST = tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 24)


def close(got, expected, tolerance=1e-12):
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance * max(1.0, float(expected.abs().max()))


# --- loading and checking ---


@every
def test_both_stacks_are_checked(name):
    check = lens(name).check()
    # where transformers hands out no attention of T5's, it is seen at a softmax that rounds to float32
    limit = 2e-14 if lens(name).spec.seam == "interface" else 1e-6
    assert check.passed and check.worst < limit and check.origin == "hand-written"
    encoder, decoder = TRANSLATORS[name].encoder, 3
    parts = [(layer.part, layer.layer) for layer in check.layers]
    decoder_parts = [(part, k) for k in range(decoder) for part in ("decoder", "cross")]
    assert parts == [*(("encoder", k) for k in range(encoder)), *decoder_parts]
    assert lens(name).head.task == "causal"
    assert repr(lens(name)).endswith(f"{type(model(name)).__name__}, 3 layers)")


@every
def test_each_attention_is_a_sum_with_what_it_carries(name):
    """The source's terms, the target's, the carried vector and the biases are the model's own vector at each stage."""
    spec, seen_stages = lens(name).spec, []

    def look(seen):
        for number in (0, 1):
            block = Block(spec, seen, number)
            post = spec.order == "post"
            stage = "ln1" if post else "residual"
            total = vectors(block.terms(stage)).sum(2)
            if number:
                total = total + block.carried(stage)
            bias = block.output[1]
            if post:
                path = block.attend.norm
                norm = block.norm(path)
                total = total + norm.linear(bias) * block.scale(path)[..., None] + norm.module.bias
            elif bias is not None:
                total = total + bias
            # a softmax that older transformers compute in float32 for T5 is no exact weight
            close(total, block.result(stage), 1e-11 if NEWEST or name != "t5" else 1e-6)
            seen_stages.append(stage)

    with torch.no_grad():
        run(model(name), spec, probe_inputs(model(name), spec), look)
    assert len(seen_stages) == 6


@every
def test_the_encoder_alone_has_the_same_maps(name):
    encoder = mixlens.load(encoder_of(model(name)), spec=lens(name).spec.memory)
    for method in ("globenc", "value_zeroing"):
        got = lens(name).mixing(SOURCE, method=method)
        assert torch.equal(got.scores, encoder.mixing(SOURCE, method=method).scores)
        assert got.scores.shape == (TRANSLATORS[name].encoder, len(SOURCE), len(SOURCE))


def test_a_spec_in_print_makes_it_again():
    for name in QUICK:
        spec = lens(name).spec
        names = {k: getattr(mixlens, k) for k in ("Spec", "Attend", "Feed", "Network")}
        assert eval(mixlens.architectures.written(spec), names) == spec


def test_a_layer_that_reads_no_memory_has_no_encoder():
    spec = lens("bart").spec
    with pytest.raises(ValueError, match=r"attend to itself and then to that, got attention to self$"):
        mixlens.Spec(layers="layers", chain=spec.memory.chain, order="post", memory=spec.memory)


def test_one_stack_of_a_family_is_refused_and_a_t5_encoder_is_not():
    kind = TRANSLATORS["bart"]
    alone = transformers.BartForCausalLM(transformers.BartConfig(**kind.settings, is_encoder_decoder=False)).eval()
    with pytest.raises(mixlens.errors.UnknownArchitecture, match=r"an encoder-decoder of the type 'bart', .*=False"):
        mixlens.load(alone)
    encoder = transformers.T5EncoderModel(transformers.T5Config(**TRANSLATORS["t5"].settings)).eval()
    assert mixlens.load(encoder).mixing(SOURCE, method="alti").scores.shape == (3, 8, 8)


# --- what a trace is ---


@every
def test_rows_are_shares_of_what_was_read(name):
    for method in SHARES:
        trace = lens(name).trace(SOURCE, TARGET, method)
        assert trace.scores.shape == (4, START + 4)
        assert (trace.scores >= 0).all()
        close(trace.scores.sum(1), torch.ones(4, dtype=torch.float64))
        assert not trace.scores.triu(START).any()
        assert trace.prompt.names[-1] == "2" and trace.prompt.special[-1] and trace.meta["source_tokens"] == 8


@every
def test_probabilities_are_the_models_own(name):
    ids = torch.tensor([SOURCE])
    with torch.no_grad():
        logits = model(name)(input_ids=ids, decoder_input_ids=torch.tensor([[2, *TARGET]])).logits[0]
    expected = logits[range(4), TARGET] - logits[:4].logsumexp(-1)
    for method in ("alti", "saliency", "random"):
        trace = lens(name).trace(SOURCE, TARGET, method)
        got = torch.tensor([row["target_probability"] for row in trace.said], dtype=torch.float64).log()
        close(got, expected, 1e-6)


@every
def test_generated_is_what_the_model_generates_and_given_is_the_same(name):
    made = lens(name).trace(SOURCE, max_new_tokens=3)
    plain = model(name).generate(torch.tensor([SOURCE]), max_new_tokens=3, do_sample=False, num_beams=1)[0].tolist()
    assert [2, *made.answer.ids] == [i for k, i in enumerate(plain) if not k or i != 2]
    assert made.method == "alti" and made.meta["generated"]
    assert torch.equal(lens(name).trace(SOURCE, list(made.answer.ids)).scores, made.scores)
    whole = lens(name).trace(SOURCE, [2, *made.answer.ids])  # what begins with the start token begins there
    assert torch.equal(whole.scores, made.scores)


@quick
def test_alti_is_alti_plus(name):
    expected = getattr(alti_plus, name)(copy.deepcopy(model(name)), SOURCE, [2, *TARGET])
    got = lens(name).trace(SOURCE, TARGET, "alti").scores
    # transformers' eager softmax of T5 rounds to float32
    close(got[:, :-1], expected[:4, :-1], 1e-12 if name == "bart" else 1e-5)


@quick
def test_a_layers_attention_is_the_models_cross_attention(name):
    got = lens(name).trace(SOURCE, TARGET, "attention+layer:1").scores
    plain = alti_plus.plain(copy.deepcopy(model(name)), SOURCE, [2, *TARGET])
    close(got[:, :8], plain.cross_attentions[1][0].mean(0)[:4], 1e-12 if name == "bart" else 1e-6)
    assert not got[:, 8:].any()
    assert torch.equal(got, lens(name).trace(SOURCE, TARGET, "attention+layer:-2").scores)


def test_gradients_are_autograds():
    plain = copy.deepcopy(model("t5"))
    x, z = (plain.shared(torch.tensor([ids])).detach().requires_grad_() for ids in (SOURCE, [2, *TARGET[:-1]]))
    logits = plain(inputs_embeds=x, decoder_inputs_embeds=z).logits[0]
    got = {method: lens("t5").trace(SOURCE, TARGET, method, normalize=False).scores for method in GRADIENTS}
    for t in range(4):
        made = torch.autograd.grad(logits[t, TARGET[t]], (x, z), retain_graph=True)
        g, h = torch.cat([m[0] for m in made]), torch.cat([x[0], z[0]])
        forms = {"saliency": (g * h).norm(dim=-1), "grad_l2": g.norm(dim=-1), "grad_x_input": (g * h).sum(-1)}
        for method in GRADIENTS:
            close(got[method][t, : START + t], forms[method][: START + t].detach(), 1e-6)


@every
def test_gradients_of_long_texts_run_layers_again_and_are_the_same(name, monkeypatch):
    once = lens(name).trace(SOURCE, TARGET, "grad_x_input")
    monkeypatch.setattr("mixlens.attribute.gradient.family.GRAPH_BYTES", 1)
    close(lens(name).trace(SOURCE, TARGET, "grad_x_input").scores, once.scores, 1e-11)


@every
def test_float32_is_near_float64(name):
    for method in (*SHARES, *GRADIENTS):
        exact = lens(name).trace(SOURCE, TARGET, method).scores
        got = lens(name, torch.float32).trace(SOURCE, TARGET, method).scores
        close(got.double(), exact, 2e-4)


@quick
def test_padding_at_either_side_changes_nothing(name):
    plain = lens(name).trace(SOURCE, TARGET).scores
    for ids, mask in (([*SOURCE, 0, 0], [1] * 8 + [0] * 2), ([0, *SOURCE], [0] + [1] * 8)):
        inputs = {"input_ids": [ids], "attention_mask": [mask]}
        assert torch.equal(lens(name).trace(inputs, TARGET).scores, plain)
    several = lens(name).trace([SOURCE, SOURCE[:4]], TARGET)
    assert torch.equal(several[0].scores, plain)


@quick
def test_the_model_stays_as_it_is(name):
    mine = make(name)
    before, config = (
        {k: t.clone() for k, t in mine.state_dict().items()},
        json.dumps(mine.config.to_dict(), default=str),
    )
    view = mixlens.load(mine)
    for method in ("alti", "saliency"):
        view.trace(SOURCE, max_new_tokens=2, method=method)
    assert all(torch.equal(t, before[k]) for k, t in mine.state_dict().items())
    assert json.dumps(mine.config.to_dict(), default=str) == config
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in mine.modules())
    assert not any(p.requires_grad and p.grad is not None for p in mine.parameters())


def test_another_dtype_later_is_checked_again():
    view = mixlens.load(make("bart"))
    exact = view.trace(SOURCE, TARGET)
    view.model.float()
    known = view.subject
    assert known.checked_as[0] == known.memory.checked_as[0] == torch.float32  # so the next call checks nothing
    assert view.self_check_residual > exact.meta["self_check"]
    close(view.trace(SOURCE, TARGET).scores.double(), exact.scores, 1e-4)


def test_what_every_answer_begins_with_is_what_the_decoder_starts_from():
    made = lens("m2m_100").trace(SOURCE, max_new_tokens=3, generate={"forced_bos_token_id": 7})
    assert made.prompt.ids[-2:] == (2, 7) and made.answer.ids[0] != 7
    mine = make("m2m_100")
    mine.generation_config.forced_bos_token_id = 7
    forced = mixlens.load(mine)
    made = forced.trace(SOURCE, max_new_tokens=4)
    assert made.prompt.ids[-2:] == (2, 7) and made.prompt.special[-2:] == (True, True)
    given = forced.trace(SOURCE, [2, 7, *made.answer.ids])
    assert torch.equal(given.scores, made.scores) and given.prompt.ids == made.prompt.ids
    assert torch.equal(forced.trace(SOURCE, list(made.answer.ids)).scores, made.scores)


# --- what goes on with one ---


def test_shares_are_the_sources_part():
    trace = lens("bart").trace(SOURCE, TARGET)
    expected = trace.scores[:, :8].sum(1)
    close(torch.tensor(trace.shares(), dtype=torch.float64), expected)
    frame = trace.to_dicts()
    total = sum(row["score"] for row in frame if row["answer_index"] == 2 and row["where"] == "prompt")
    assert total == pytest.approx(float(expected[2]))
    empty = lens("bart").trace(SOURCE, TARGET[:1], "grad_x_input", foil=[7])
    assert 0 < empty.shares()[0] <= 1


def test_forms_and_files(tmp_path):
    trace = lens("bart").trace(SOURCE, TARGET)
    path = trace.save(tmp_path / "trace")
    again = mixlens.read(path)
    assert torch.equal(again.scores, trace.scores) and again.shares() == trace.shares()
    closed = trace.through_answer()
    close(closed.scores.sum(1), torch.ones(4, dtype=torch.float64))
    assert not closed.scores[:, START:].any()
    assert trace.top(2, "token")[0].sources and "<html" in trace.to_html()
    assert len(trace.row(3).scores) == START + 3


def test_sources_are_left_out():
    trace = lens("bart").trace(SOURCE, TARGET, exclude="first")
    assert not trace.scores[:, 0].any()
    close(trace.scores.sum(1), torch.ones(4, dtype=torch.float64))


# --- refusals ---


@quick
def test_every_method_is_defined_or_refused_in_words(name):
    for method, facts in ATTRIBUTIONS.items():
        if facts.two_streams and facts.defined(lens(name).spec):
            assert lens(name).trace(SOURCE, TARGET[:2], method).scores.isfinite().all()
            continue
        with pytest.raises(Undefined, match=r"two streams|post-LN|is 0 whatever"):
            lens(name).trace(SOURCE, TARGET[:2], method)
    listed = {m["name"] for m in mixlens.methods() if m["stage"] == "attribute" and m["two_streams"]}
    assert {*SHARES[:-1], *GRADIENTS, "random"} <= listed
    assert not {"head_logit", "gim", "ifr", "attention_flow", "attcat", "leave_one_out"} & listed


@pytest.mark.parametrize("verb", ["attribute", "compare", "plan"])
def test_one_text_is_no_question_for_an_encoder_decoder(verb):
    methods = {"methods": ["alti", "saliency"]} if verb == "compare" else {"method": "alti"}
    with pytest.raises(Undefined, match=r"an encoder-decoder \(Bart.*lens\.trace\(source, target\)"):
        getattr(lens("bart"), verb)(SOURCE, **methods)


@pytest.mark.parametrize(
    ("source", "target", "error", "words"),
    [
        ([], TARGET, InputError, "expected"),
        (SOURCE, [], EmptyInput, "expected an answer of at least one token, got none"),
        (SOURCE, [2, 1], EmptyInput, "at least one token beside special ones"),
        (SOURCE, [5000], InputError, "token ids of 0 to 96"),
        (SOURCE, 3.5, InputError, "expected an answer as a str or token ids, got float"),
        ([5] * 41, TARGET, TooLong, "at most 40 tokens .*, got 41"),
        (SOURCE, [5] * 40, TooLong, "of what the decoder reads, got 41"),
        ("a text", TARGET, InputError, "needs a tokenizer"),
        (SOURCE, "a text", InputError, "needs a tokenizer"),
    ],
)
def test_bad_input(source, target, error, words):
    with pytest.raises(error, match=words):
        lens("bart").trace(source, target)


def test_what_has_no_meaning_is_refused():
    for options in ({"receptive_field": True}, {"upto": "ln2"}):
        with pytest.raises(Undefined, match=r"has no meaning for alti of an encoder-decoder"):
            lens("bart").trace(SOURCE, TARGET, "alti", **options)
    with pytest.raises(Undefined, match=r"taken at both stacks' first layers; use layer=0"):
        lens("bart").trace(SOURCE, TARGET, "saliency", layer=1)
    with pytest.raises(UnknownOption, match=r"expected a layer of -3 to 2 \(the decoder's\), got 3"):
        lens("bart").trace(SOURCE, TARGET, "alti+layer:3")


def test_a_model_without_a_head_has_maps_and_no_answers():
    bare = mixlens.load(make("bart", head=False))
    assert bare.mixing(SOURCE).scores.shape == (2, 8, 8)
    with pytest.raises(MixlensError, match=r"expected a causal language model to trace an answer of, got a model with"):
        bare.trace(SOURCE, TARGET)


def test_a_head_that_fails_is_refused_with_what_to_load():
    class Failing(transformers.BartForConditionalGeneration):
        def forward(self, *args, **kwargs):
            super().forward(*args, **kwargs)
            raise ValueError("no answer")

    model = make("bart")
    model.__class__ = Failing
    with pytest.raises(MixlensError, match=r"Failing fails on that: ValueError: no answer; .*model.get_encoder\(\)"):
        mixlens.load(model)


# --- texts ---


@pytest.fixture(scope="module")
def spoken():
    return mixlens.load(model("bart"), words.tokenizer())


def test_a_text_and_its_translation(spoken):
    trace = spoken.trace("w5 w6 w7", "w8 w9")
    assert trace.prompt.names == ("[CLS]", "w5", "w6", "w7", "[SEP]", "[SEP]", "[CLS]")  # two to start
    assert (trace.answer.raw, trace.answer.names, trace.meta["source_tokens"]) == ("w8 w9", ("w8", "w9"), 5)
    units = trace.units("word")
    assert [unit.text for unit in units.sources] == ["w5", "w6", "w7", "w8", "w9", units.sources[-1].text]
    assert torch.equal(trace.scores, spoken.trace([1, 5, 6, 7, 2], [1, 8, 9]).scores)
    made = spoken.trace("w5 w6 w7", max_new_tokens=3)
    assert made.answer.raw and not any(made.answer.special[:1])
    assert spoken.trace("w5 w6", "w8", documents={"a": "w7 w9"}).units("document").sources[0].name == "a"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [("  ", "w8", "a prompt with at least one token"), ("w5", " ", "an answer of at least one token, got an empty")],
)
def test_empty_texts_are_refused(spoken, source, target, words):
    with pytest.raises(EmptyInput, match=words):
        spoken.trace(source, target)


def test_a_pair_is_a_source_and_a_target_to_nobody(spoken):
    with pytest.raises(InputError, match=r"one text for an encoder, got a pair.*lens\.trace\(source, target\)"):
        spoken.mixing(("w5 w6", "w7"))


def test_the_command_line_traces_a_target(tmp_path):
    make("bart", torch.float32).save_pretrained(tmp_path)
    words.tokenizer().save_pretrained(tmp_path)
    result = CliRunner().invoke(app, ["trace", "w5 w6 w7", "--target", "w8 w9", "-m", str(tmp_path), "--json", "-"])
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert (data["method"], data["answer"]["tokens"]) == ("alti", ["w8", "w9"])
    result = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert result.exit_code == 0 and "encoder" in result.stdout and "cross" in result.stdout


def test_a_family_without_a_spec_by_hand_is_refused_and_can_be_said():
    import transformers

    class Config(transformers.MBartConfig):
        model_type = "other"

    other = transformers.MBartForConditionalGeneration(Config(**TRANSLATORS["mbart"].settings)).eval()
    with pytest.raises(mixlens.errors.UnknownArchitecture, match=r"'other': an encoder-decoder: two streams"):
        mixlens.load(other)
    view = mixlens.load(other, spec=lens("mbart").spec)
    assert view.check().origin == "given" and view.trace(SOURCE, TARGET).meta["spec"] == "given"
