"""A target for every task, with a method that reads gradients, one that reads maps, and one that reads answers."""

from __future__ import annotations

import pytest
import torch

import mixlens
from mixlens import Target
from mixlens.answer.objective import quantity
from mixlens.answer.readout import answer, reading
from mixlens.answer.spans import best_span
from mixlens.errors import TargetError
from models import families
from models.words import tokenizer

N = 6
METHODS = ["grad_x_input", "attcat", "attention_rollout", "blank_out", "deeplift", "hta"]


def ids_of(n=N, mask=None):
    ids = families.text(n)
    if mask is not None:
        ids[mask] = families.MASK
    return ids


def explain(lens, ids, method, target=None):
    return lens.attribute(ids, method, target=target, **({"replace": families.UNK} if method == "blank_out" else {}))


def hand_gradient(model, ids, value, **inputs):
    """Gradient times input of `value(output)` by the embedding layer's output, in plain autograd."""
    kept = []

    def put(module, args, kwargs):
        x = (args[0] if args else kwargs["hidden_states"]).detach().requires_grad_()
        kept.append(x)
        return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

    base = model.base_model
    first = base.h[0] if hasattr(base, "h") else base.encoder.layer[0]
    handle = first.register_forward_pre_hook(put, with_kwargs=True)
    try:
        output = model(input_ids=torch.tensor([ids]), **{k: torch.tensor([v]) for k, v in inputs.items()})
    finally:
        handle.remove()
    (g,) = torch.autograd.grad(value(output), kept[0])
    return (g[0] * kept[0][0]).sum(-1).detach()


def question_model():
    import transformers

    config = families.config_of("bert")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.BertForQuestionAnswering._from_config(
            config, attn_implementation="sdpa", dtype=torch.float64
        )
        families.randomize(model)
    return model.eval()


CASES = {
    "classification by index": ("bert", "sequence", {"num_labels": 3}, 2, lambda o: o.logits[0, 2], 0),
    "classification by label": ("bert", "sequence", {"num_labels": 3}, "label_1", lambda o: o.logits[0, 1], 0),
    "classification with foil": (
        "bert",
        "sequence",
        {"num_labels": 3},
        Target("LABEL_1", foil="LABEL_0"),
        lambda o: o.logits[0, 1] - o.logits[0, 0],
        0,
    ),
    "classification, probability": (
        "bert",
        "sequence",
        {"num_labels": 3},
        Target(1, of="prob"),
        lambda o: o.logits[0].softmax(-1)[1],
        0,
    ),
    "classification, log-odds": (
        "bert",
        "sequence",
        {"num_labels": 3},
        Target(1, of="log_odds"),
        lambda o: torch.logit(o.logits[0].softmax(-1)[1]),
        0,
    ),
    "multi-label": (
        "bert",
        "sequence",
        {"num_labels": 3, "problem_type": "multi_label_classification"},
        Target(1, of="prob"),
        lambda o: torch.sigmoid(o.logits[0, 1]),
        0,
    ),
    "multi-label, one label": (
        "bert",
        "sequence",
        {"num_labels": 1, "problem_type": "multi_label_classification"},
        Target(0, of="prob"),
        lambda o: torch.sigmoid(o.logits[0, 0]),
        0,
    ),
    "regression": ("bert", "sequence", {"num_labels": 1}, None, lambda o: o.logits[0, 0], 0),
    "regression, one of several": (
        "bert",
        "sequence",
        {"num_labels": 3, "problem_type": "regression"},
        Target(1, foil=2),
        lambda o: o.logits[0, 1] - o.logits[0, 2],
        0,
    ),
    "masked word": ("bert", "masked", {}, Target(30, position=2), lambda o: o.logits[0, 2, 30], 2),
    "masked word with foil": (
        "bert",
        "masked",
        {},
        Target(30, foil=31, position=2),
        lambda o: o.logits[0, 2, 30] - o.logits[0, 2, 31],
        2,
    ),
    "next word": ("gpt2", "causal", {}, 30, lambda o: o.logits[0, -1, 30], N - 1),
    "next word with foil": (
        "gpt2",
        "causal",
        {},
        Target(30, foil=31),
        lambda o: o.logits[0, -1, 30] - o.logits[0, -1, 31],
        N - 1,
    ),
    "a word inside": ("gpt2", "causal", {}, Target(30, position=-3), lambda o: o.logits[0, N - 3, 30], N - 3),
    "token classification": (
        "bert",
        "token",
        {"num_labels": 3},
        Target("LABEL_2", position=4),
        lambda o: o.logits[0, 4, 2],
        4,
    ),
    "answer": (
        "question",
        "",
        {},
        Target(position=(1, 4)),
        lambda o: o.start_logits[0, 1] + o.end_logits[0, 4],
        (1, 4),
    ),
}


def case_of(case):
    """The model of a case, its token ids, what is asked, the number that means, and its row."""
    name, head, settings, target, value, row = CASES[case]
    model = question_model() if name == "question" else families.make(name, head, **settings)
    return model, ids_of(mask=2 if head == "masked" else None), target, value, row


@pytest.mark.parametrize("case", CASES)
def test_the_number_of_every_task(case):
    model, ids, target, value, row = case_of(case)
    got = explain(mixlens.load(model), ids, "grad_x_input", target)
    torch.testing.assert_close(got.scores, hand_gradient(model, ids, value), rtol=1e-8, atol=1e-11)
    assert got.meta["readout"] == row


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_task(case):
    name = CASES[case][0]
    model, ids, target, value, row = case_of(case)
    lens = mixlens.load(model)
    got = {method: explain(lens, ids, method, target) for method in METHODS}
    torch.testing.assert_close(got["grad_x_input"].scores, hand_gradient(model, ids, value), rtol=1e-8, atol=1e-11)
    for method, attribution in got.items():
        assert attribution.meta["readout"] == row, method
        assert torch.isfinite(attribution.scores).all() and attribution.scores.abs().max() > 0
    rows = lens.mixing(ids, "attention").rollout(receptive_field=name == "gpt2").scores[-1]
    expected = sum(rows[i] for i in (row if isinstance(row, tuple) else (row,)))
    torch.testing.assert_close(got["attention_rollout"].scores, expected / expected.sum())
    asked = target if isinstance(target, Target) else Target(target)
    if case.startswith("regression"):
        assert "output" in got["deeplift"].meta
    else:
        assert 0 <= got["deeplift"].meta["probability"] <= 1
    assert got["attcat"].meta["of"] == (asked.of or "logit")
    assert got["blank_out"].meta["of"] == (asked.of or ("logit" if case.startswith("regression") else "prob"))


@pytest.mark.parametrize(
    ("name", "head"), [("bert", "sequence"), ("gpt2", "causal"), ("llama", "sequence"), ("modernbert", "sequence")]
)
def test_without_a_target_it_is_the_prediction(name, head):
    lens, ids = families.lens(name, head), ids_of()
    got = explain(lens, ids, "grad_x_input")
    with torch.no_grad():
        logits = lens.model(input_ids=torch.tensor([ids])).logits[0]
    best = int((logits if logits.ndim == 1 else logits[-1]).argmax())
    assert got.target.index == best
    again = explain(lens, ids, "grad_x_input", best)
    assert torch.equal(got.scores, again.scores)


def answered(starts, ends, data, **settings):
    """What a head with these logits at each token is explained to answer."""
    model = question_model()
    with torch.no_grad():
        model.qa_outputs.weight.zero_()
        model.qa_outputs.bias.zero_()
    lens = mixlens.load(model, tokenizer())
    tokens = lens.subject.read(data).require()[0]
    z = tuple(torch.tensor([t.get(i, 0.0) for i in range(len(tokens))], dtype=torch.float64) for t in (starts, ends))
    return answer(lens.head, reading(lens.head, tokens, Target()), z)


PAIR = ("w11 w12", "w13 w14 w15 w16")  # [CLS] 1 2 [SEP] 4 5 6 7 [SEP]
BERT_IDS = [families.CLS, 11, 12, families.SEP, 13, 14, 15, 16, families.SEP]


@pytest.mark.parametrize(
    "data",
    [
        PAIR,
        BERT_IDS,
        {"input_ids": BERT_IDS, "token_type_ids": [0] * 4 + [1] * 5},
    ],
    ids=["pair", "ids", "ids with types"],
)
@pytest.mark.parametrize(
    ("starts", "ends", "span"),
    [
        ({6: 9.0, 4: 8.0}, {5: 9.0, 7: 1.0}, (4, 5)),  # each alone: an end before its start
        ({1: 9.0, 5: 3.0}, {2: 9.0, 6: 3.0}, (5, 6)),  # in the question
        ({0: 9.0, 5: 3.0}, {0: 9.0, 5: 3.0}, (5, 5)),  # [CLS]: no answer
        ({4: 3.0}, {8: 9.0, 7: 3.0}, (4, 7)),  # [SEP]
    ],
)
def test_question_answering_takes_the_best_span_of_the_context(data, starts, ends, span):
    got = answered(starts, ends, data)
    assert got.target.position == span == got.reported["answer"] == got.indices
    z = [torch.tensor([t.get(i, 0.0) for i in range(9)]).double() for t in (starts, ends)]
    p = float(z[0].softmax(0)[span[0]] * z[1].softmax(0)[span[1]])
    assert got.reported["probability"] == pytest.approx(p)


def test_an_answer_has_at_most_15_tokens():
    context = " ".join(f"w{i}" for i in range(20, 40))
    assert answered({4: 5.0}, {18: 3.0, 19: 4.0}, ("w11 w12", context)).target.position == (4, 18)


def test_the_best_span_is_explained():
    model, ids = question_model(), ids_of()
    got = explain(mixlens.load(model), ids, "grad_x_input")
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]))
    total = out.start_logits[0, :, None] + out.end_logits[0]
    start, end = max(((i, j) for i in range(N) for j in range(i, N)), key=lambda at: total[at])
    assert got.target.position == (start, end) and got.meta["answer"] == (start, end)
    by_hand = hand_gradient(model, ids, lambda o: o.start_logits[0, start] + o.end_logits[0, end])
    torch.testing.assert_close(got.scores, by_hand, rtol=1e-8, atol=1e-11)


def test_an_answer_needs_a_context():
    with pytest.raises(TargetError, match="expected a context with the answer in it, got none"):
        best_span(torch.zeros(3), torch.zeros(3), ())


def test_question_answering_without_a_token_of_the_answer():
    lens, ids = mixlens.load(question_model()), ids_of()
    target = Target(position=(1, 4))
    got = lens.attribute(ids, "blank_out", target=target, replace="delete")
    assert got.meta["undefined"] == (1, 4) and got.scores[1] == got.scores[4] == 0

    def value(ids, start, end):
        with torch.no_grad():
            out = lens.model(input_ids=torch.tensor([ids]))
        return float(out.start_logits[0].softmax(-1)[start] + out.end_logits[0].softmax(-1)[end])

    assert float(got.scores[0]) == pytest.approx(value(ids, 1, 4) - value(ids[1:], 0, 3))
    assert float(got.scores[2]) == pytest.approx(value(ids, 1, 4) - value(ids[:2] + ids[3:], 1, 3))


def test_a_token_classifier_that_is_a_decoder():
    model, ids = families.make("gpt2", "token"), ids_of()
    got = explain(mixlens.load(model), ids, "grad_x_input", Target(1, position=3))
    torch.testing.assert_close(
        got.scores, hand_gradient(model, ids, lambda o: o.logits[0, 3, 1]), rtol=1e-8, atol=1e-11
    )


@pytest.mark.parametrize("method", METHODS)
def test_sentence_pairs(tiny_bert_folder, method):
    lens = mixlens.load(tiny_bert_folder, dtype=torch.float64)
    pair = ("a deep film .", "not bad")
    got = lens.attribute(pair, method, target="positive")
    assert got.text == pair and [w.segment for w in got.words() if not w.special] == [0, 0, 0, 0, 1, 1]
    if method == "grad_x_input":
        given = lens.tokenizer(*pair)
        hand = hand_gradient(
            lens.model, given["input_ids"], lambda o: o.logits[0, 1], token_type_ids=given["token_type_ids"]
        )
        torch.testing.assert_close(got.scores, hand, rtol=1e-8, atol=1e-11)


# --- refusals ---


@pytest.fixture(scope="module")
def masked(tiny_bert_folder):
    from transformers import BertForMaskedLM, BertTokenizerFast

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.utils.logging._tqdm_active", False, raising=False)
        model = BertForMaskedLM._from_config(BertForMaskedLM.config_class.from_pretrained(tiny_bert_folder))
    return mixlens.load(model.double(), BertTokenizerFast.from_pretrained(tiny_bert_folder))


def test_a_masked_word_by_its_name(masked):
    got = masked.attribute("a [MASK] film .", "grad_x_input", target=Target("good", foil="bad"))
    assert got.target.label == "good" and got.meta["readout"] == 2
    opposite = masked.attribute("a [MASK] film .", "grad_x_input", target=Target("bad", foil="good"))
    torch.testing.assert_close(got.scores, -opposite.scores, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("method", ["grad_x_input", "attention_rollout", "blank_out"])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("deeply", r"expected a target of one token, 'deeply' is 2: \['deep', '##ly'\]; use one of them"),
        (Target("good", foil="slowly"), r"'slowly' is 2: \['slow', '##ly'\]"),
        ("zebra", r"'zebra' is 1: \['\[UNK\]'\]"),
        (Target("good", foil="good"), "expected a foil other than the target"),
        (10_000, "expected a token index of 0 to"),
        (Target("good", position=99), "expected a position of -6 to 5, got 99"),
        (1.5, "expected a label, an index, a token or a mixlens.Target, got float"),
    ],
    ids=str,
)
def test_words_that_are_no_token(masked, method, target, message):
    with pytest.raises(TargetError, match=message):
        masked.attribute("a [MASK] film .", method, target=target)


def test_a_masked_text_needs_one_mask(masked):
    for text in ("a good film .", "a [MASK] [MASK] ."):
        with pytest.raises(TargetError, match=r"expected one \[MASK\] .* pass mixlens.Target\(position=...\)"):
            masked.attribute(text, "grad_x_input")


class BytePair:
    """A tokenizer for which a word is one token only with a blank before it."""

    is_fast = False
    all_special_ids = ()
    unk_token_id = None

    def get_vocab(self):
        return {"Ġfilm": 7, "f": 8, "ilm": 9}

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [7] if text == " film" else [8, 9]}

    def convert_tokens_to_ids(self, token):
        return self.get_vocab().get(token)

    def convert_ids_to_tokens(self, ids):
        names = {7: "Ġfilm", 8: "f", 9: "ilm"}
        return names.get(ids, str(ids)) if isinstance(ids, int) else [names.get(i, str(i)) for i in ids]


def test_the_suggestion_is_one_that_works():
    lens = mixlens.load(families.model("gpt2", "causal"), BytePair())
    with pytest.raises(TargetError, match=r"'film' is 2: \['f', 'ilm'\]; did you mean ' film', which is one\?"):
        lens.attribute(ids_of(), "grad_x_input", target="film")
    assert lens.attribute(ids_of(), "grad_x_input", target=" film").target.index == 7


class Blanks(BytePair):
    """The same word with and without a blank before it, as byte-level BPE and SentencePiece write it."""

    blank = "\u0120"

    def get_vocab(self):
        return {"film": 7, f"{self.blank}film": 8}

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [8] if text.startswith(" ") else [7]}

    def convert_ids_to_tokens(self, ids):
        names = {i: piece for piece, i in self.get_vocab().items()}
        return names.get(ids, str(ids)) if isinstance(ids, int) else [names.get(i, str(i)) for i in ids]


@pytest.mark.parametrize("blank", ["\u0120", "\u2581"])
def test_the_word_with_a_blank_is_named_where_it_is_likelier(blank):
    lens = mixlens.load(families.model("gpt2", "causal"), type("Its", (Blanks,), {"blank": blank})())
    ids = ids_of()
    with torch.no_grad():
        p = lens.model(torch.tensor([ids])).logits[0, -1].softmax(-1)
    likelier, other = ("film", f"{blank}film") if p[7] > p[8] else (f"{blank}film", "film")
    (said,) = lens.attribute(ids, "grad_x_input", target=other).meta["warnings"]
    assert said.startswith(f"{other!r} was taken as the token {other!r}") and f"pass {likelier!r}" in said
    for target in (likelier, 7, 8, None):
        assert "warnings" not in lens.attribute(ids, "grad_x_input", target=target).meta
    (foil,) = lens.attribute(ids, "alti", target=Target(30, foil=other)).meta["warnings"]
    assert foil == said


@pytest.mark.parametrize(
    ("name", "head", "settings", "target", "message"),
    [
        ("bert", "sequence", {}, "LABEL_7", "no label 'LABEL_7'; did you mean 'LABEL_"),
        ("bert", "sequence", {}, 2, "expected a label index of 0 to 1, got 2"),
        ("bert", "sequence", {}, Target(position=1), "a position means nothing for a sequence head"),
        ("bert", "sequence", {"num_labels": 1}, Target(position=1), "a position means nothing for a regression head"),
        ("bert", "sequence", {"num_labels": 1}, 1, "expected no target for a regression head with one output, got 1"),
        ("bert", "sequence", {"num_labels": 1}, Target(of="prob"), "no probability here"),
        (
            "bert",
            "sequence",
            {"num_labels": 3, "problem_type": "regression"},
            None,
            "3 outputs has no largest one to explain; name one of LABEL_0, LABEL_1, LABEL_2",
        ),
        ("bert", "token", {}, 1, "answers at every token: pass mixlens.Target"),
        ("gpt2", "causal", {}, "film", "a target token needs a tokenizer; pass its id"),
    ],
)
def test_targets_there_are_not(name, head, settings, target, message):
    lens = mixlens.load(families.make(name, head, **settings))
    with pytest.raises(TargetError, match=message):
        explain(lens, ids_of(), "grad_x_input", target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (1, "got a label or token"),
        (Target(position=2), r"expected position=\(start, end\)"),
        (Target(position=(4, 1)), r"expected an answer that starts before it ends, got position=\(4, 1\)"),
    ],
)
def test_question_answering_takes_two_positions(target, message):
    with pytest.raises(TargetError, match=message):
        explain(mixlens.load(question_model()), ids_of(), "grad_x_input", target)


# --- the quantity ---


def test_quantities():
    z = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)
    p = z.softmax(-1)
    assert quantity(z, 1) == z[1]
    torch.testing.assert_close(quantity(z, 1, of="prob"), p[1])
    torch.testing.assert_close(quantity(z, 1, of="log_odds"), (p[1] / (1 - p[1])).log())
    torch.testing.assert_close(quantity(z, 1, 2, "prob"), z[1:].softmax(-1)[0])
    torch.testing.assert_close(quantity(z, 1, 2, "log_odds"), z[1] - z[2])
    torch.testing.assert_close(quantity(z, 1, of="prob", independent=True), z[1].sigmoid())
    assert quantity(z, 1, of="log_odds", independent=True) == z[1]
    torch.testing.assert_close(quantity(z[:1], 0, of="prob", independent=True), z[0].sigmoid())
    with pytest.raises(TargetError, match="it has no probability"):
        quantity(z[:1], 0, of="prob")


def test_log_odds_do_not_saturate():
    z = torch.tensor([200.0, -200.0])
    assert quantity(z, 0, of="log_odds") == 400 and quantity(z, 1, of="log_odds") == -400
