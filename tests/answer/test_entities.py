"""Several tokens of a token classifier as one: words, entities, stretches."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast

import mixlens
from mixlens import Target
from mixlens.answer import Answer, reading
from mixlens.attribute.removal import asked_about
from mixlens.capture.text import encode
from mixlens.errors import InputError, TargetError, Undefined
from models import families

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] anna smith ##son met in paris ##ian . the lady".split()
TEXT = "Anna Smithson met the lady in Paris."  # [CLS] anna smith ##son met the lady in paris . [SEP]
ENTITY = (1, 2, 3)
METHODS = ("grad_x_input", "saliency", "attcat", "integrated_gradients", "deeplift", "cp_lrp", "alti", "globenc")
METHODS += ("attention_rollout", "blank_out", "hta")


def make(labels=tuple(LABELS), **settings):
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=32,
        id2label=dict(enumerate(labels)),
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForTokenClassification(config).double()
        families.randomize(model)
    return mixlens.load(model.eval(), BertTokenizerFast(vocab={w: i for i, w in enumerate(WORDS)}, do_lower_case=True))


@pytest.fixture(scope="module")
def lens():
    return make()


def logits(lens, text=TEXT):
    with torch.no_grad():
        return lens.model(**lens.tokenizer(text, return_tensors="pt")).logits[0]


@pytest.mark.parametrize(
    "target",
    [
        Target("B-PER", word="Anna Smithson"),
        Target("B-PER", word="anna  smithson"),
        Target("B-PER", word=(0, 13)),
        Target("B-PER", position=(1, 3)),
        Target(1, position=(-10, -8)),
        Target("B-PER", position=(1, 3), word="Anna Smithson"),
    ],
)
def test_a_label_of_all_tokens_is_the_sum_over_them(lens, target):
    whole = lens.attribute(TEXT, "grad_x_input", target=target)
    parts = lens.attribute([TEXT] * 3, "grad_x_input", target=[Target("B-PER", position=i) for i in ENTITY])
    torch.testing.assert_close(whole.scores, sum(part.scores for part in parts), rtol=1e-9, atol=1e-12)
    assert whole.target.label == "B-PER" and whole.target.index == 1 and whole.target.position == (1, 3)
    p = logits(lens).softmax(-1)[1:4, 1]
    assert whole.meta["target_probability"] == pytest.approx(float(p.prod()))
    assert whole.meta["value"] == pytest.approx(float(logits(lens)[1:4, 1].sum()))


def test_an_entity_is_its_labels_as_one(lens):
    whole = lens.attribute(TEXT, "grad_x_input", target=Target("PER", word="Anna Smithson", of="log_odds"))
    z = logits(lens)[1:4]
    inside, outside = z[:, [1, 2]].logsumexp(-1), z[:, [0, 3, 4, 5]].logsumexp(-1)
    assert whole.meta["value"] == pytest.approx(float((inside - outside).sum()))
    assert whole.meta["target_probability"] == pytest.approx(float(z.softmax(-1)[:, [1, 2]].sum(-1).prod()))
    assert (whole.target.label, whole.target.index) == ("PER", None)
    against = lens.attribute(TEXT, "grad_x_input", target=Target("per", foil="LOC", word="Anna Smithson"))
    assert against.meta["value"] == pytest.approx(float((inside - z[:, [3, 4]].logsumexp(-1)).sum()))
    assert against.meta["foil_probability"] == pytest.approx(float(z.softmax(-1)[:, [3, 4]].sum(-1).prod()))
    one = lens.attribute(TEXT, "grad_x_input", target=Target("LOC", position=8))
    assert one.meta["value"] == pytest.approx(float(logits(lens)[8, [3, 4]].logsumexp(-1)))


def test_the_gradient_is_autograds(lens):
    got = lens.attribute(TEXT, "grad_x_input", target=Target("PER", foil="O", word="Smithson", of="prob")).scores
    kept = []

    def put(module, args, kwargs):
        kept.append(args[0].detach().requires_grad_())
        return (kept[0], *args[1:]), kwargs

    handle = lens.model.bert.encoder.layer[0].register_forward_pre_hook(put, with_kwargs=True)
    z = lens.model(**lens.tokenizer(TEXT, return_tensors="pt")).logits[0, 2:4]
    handle.remove()
    value = torch.sigmoid(z[:, [1, 2]].logsumexp(-1) - z[:, 0]).sum()
    (g,) = torch.autograd.grad(value, kept[0])
    torch.testing.assert_close(got, (g * kept[0]).sum(-1)[0].detach())


def test_the_prediction_is_the_likeliest_for_all_tokens_together(lens):
    got = lens.attribute(TEXT, "grad_x_input", target=Target(word="Anna Smithson"))
    p = logits(lens)[1:4].softmax(-1)
    groups = {"O": [0], "PER": [1, 2], "LOC": [3, 4], "MISC": [5]}
    chances = {name: float(p[:, group].sum(-1).prod()) for name, group in groups.items()}
    best = max(chances, key=chances.get)
    assert got.target.label == got.meta["prediction"] == best
    assert got.meta["probability"] == got.meta["target_probability"] == pytest.approx(chances[best])
    named = lens.attribute(TEXT, "grad_x_input", target=Target(best, word="Anna Smithson"))
    assert torch.equal(named.scores, got.scores)


def test_maps_have_the_sum_of_the_tokens_rows(lens):
    whole = lens.attribute(TEXT, "alti", target=Target("PER", word="Anna Smithson"), normalize=False)
    parts = [lens.attribute(TEXT, "alti", target=Target(0, position=i), normalize=False) for i in ENTITY]
    torch.testing.assert_close(whole.scores, sum(part.scores for part in parts))
    assert whole.meta["readout"] == ENTITY
    shares = lens.attribute(TEXT, "alti", target=Target("PER", word="Anna Smithson"))
    torch.testing.assert_close(shares.scores, whole.scores / whole.scores.sum())


def test_occlusion_is_by_hand(lens):
    got = lens.attribute(TEXT, "blank_out", target=Target("PER", word="Smithson"), replace="mask")
    ids = lens.tokenizer(TEXT)["input_ids"]
    chance = lambda z: float(z[2:4].softmax(-1)[:, [1, 2]].sum())  # noqa: E731
    want = []
    for i in range(len(ids)):
        changed = [*ids[:i], lens.tokenizer.mask_token_id, *ids[i + 1 :]]
        with torch.no_grad():
            want.append(chance(logits(lens)) - chance(lens.model(torch.tensor([changed])).logits[0]))
    torch.testing.assert_close(got.scores, torch.tensor(want, dtype=got.scores.dtype))
    gone = lens.attribute(TEXT, "blank_out", target=Target("PER", word="Smithson"), replace="delete")
    assert gone.meta["undefined"] == (2, 3) and gone.scores[2] == 0
    short = [*ids[:1], *ids[2:]]
    with torch.no_grad():
        without = lens.model(torch.tensor([short])).logits[0, 1:3].softmax(-1)[:, [1, 2]].sum()
    assert float(gone.scores[1]) == pytest.approx(chance(logits(lens)) - float(without))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_explains_one_and_a_batch_changes_nothing(lens, method):
    entity, single = Target("PER", word="Smithson"), Target("B-LOC", position=2)
    texts = [TEXT, "Anna met Smithson.", "The lady met Anna in Paris."]
    alone = [
        lens.attribute(text, method, target=goal) for text, goal in zip(texts, (entity, entity, single), strict=True)
    ]
    assert all(bool(attr.scores.abs().sum() > 0) for attr in alone)
    for one, other in zip(alone, lens.attribute(texts, method, target=[entity, entity, single]), strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-9, atol=1e-12)
        assert one.target == other.target


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        (
            Target("PER", word="Smith"),
            TargetError,
            "'Smith' is none of it; it is a part of 'Smithson' there",
        ),
        (Target("PER", word="Pariss"), TargetError, r"'Pariss' is none of it; did you mean 'Paris'\?"),
        (Target("PERS", word="Anna"), TargetError, r"no label 'PERS'; did you mean 'PER'\?"),
        (
            Target("XYZ", word="Anna"),
            TargetError,
            "no label 'XYZ'; known are: B-LOC, B-PER, I-LOC, I-PER, LOC, MISC, O, PER",
        ),
        (Target("PER"), TargetError, "an entity stands at tokens: pass word= a word of the text, or position=0 to 10"),
        (
            Target("PER", foil="B-PER", word="Anna"),
            TargetError,
            "other than the target, got 'B-PER' beside 'PER'",
        ),
        (Target("PER", word="Anna", position=(2, 3)), TargetError, "leave one out"),
        (
            Target("PER", position=(3, 2)),
            TargetError,
            r"position=\(first, last\), tokens of 0 to 10, got \(3, 2\)",
        ),
        (Target("PER", position=(0, 11)), TargetError, r"tokens of 0 to 10"),
        (Target("PER", word=(3, 99)), TargetError, r"characters of 0 to 36, got \(3, 99\)"),
        (Target("PER", word=(4, 5)), TargetError, "no token at"),
        ("all", TargetError, "classes at each token; ask for one: .*word="),
        (None, TargetError, "or word= a word of the text"),
    ],
)
def test_refusals(lens, target, error, said):
    with pytest.raises(error, match=said):
        lens.attribute(TEXT, "grad_x_input", target=target)


@pytest.mark.parametrize("position", [(), (1,), (1, 2, 3)])
def test_a_position_of_another_length_is_none(position):
    with pytest.raises(TargetError, match=r"expected a position, a whole number, or \(start, end\), got \("):
        Target("PER", position=position)


def test_words_that_overlap_themselves_stand_there_twice(lens):
    with pytest.raises(TargetError, match=r"position=\(1, 2\) or position=\(2, 3\)"):
        lens.attribute("Anna Anna Anna", target=Target("PER", word="Anna Anna"))


def test_a_word_that_stands_there_twice(lens):
    text = "Anna met Anna Smithson."
    with pytest.raises(TargetError, match=r"stands there 2 times; say which .* position=\(1, 1\) or position=\(3, 3\)"):
        lens.attribute(text, target=Target("PER", word="Anna"))
    lens.attribute(text, target=Target("PER", position=(3, 3)))
    lens.attribute(text, target=Target("PER", word=(9, 13)))
    with pytest.raises(TargetError, match="of a pair; pass position="):
        lens.attribute(("Anna met", "the lady"), target=Target("PER", word=(0, 4)))
    pair = lens.attribute(("Anna met", "the lady"), "saliency", target=Target("PER", word="lady"))
    assert pair.target.position == (5, 5)


@pytest.mark.parametrize("word", ["", 3, ("a", "b"), (1, 2, 3), True])
def test_what_is_no_word(word):
    with pytest.raises(TargetError, match=r"expected word= one of the text, or its characters \(start, end\)"):
        Target("PER", word=word)


def test_words_need_a_token_classifier_and_a_text(lens):
    for family, head in (("bert", "sequence"), ("bert", "masked"), ("gpt2", "causal")):
        with pytest.raises(TargetError, match="a word is asked about of a token classifier, not of"):
            families.lens(family, head).attribute([2, 11, 12, 3], "alti", target=Target(1, word="w11"))
    with pytest.raises(InputError, match="words need offsets"):
        lens.attribute([2, 5, 6, 3], target=Target("PER", word="Anna"))
    with pytest.raises(TargetError, match="no label 'PER'"):
        make(labels=["O", "I-PER"]).attribute(TEXT, target=Target("PER", word="Anna"))
    with pytest.raises(TargetError, match="expected one label of a head whose classes have a probability each"):
        make(problem_type="multi_label_classification").attribute(TEXT, target=Target("PER", word="Anna"))


def test_a_literal_label_goes_before_an_entity():
    both = make(labels=["O", "B-PER", "I-PER", "PER"])
    got = both.attribute(TEXT, "grad_x_input", target=Target("PER", word="Anna Smithson"))
    assert got.target.index == 3


def test_the_result_is_kept_and_compared(lens, tmp_path):
    attr = lens.attribute(TEXT, "alti", target=Target("PER", word="Anna Smithson"))
    assert mixlens.read(attr.save(tmp_path / "entity")).target == attr.target
    again = lens.attribute(TEXT, "alti", target=attr.target)
    assert torch.equal(again.scores, attr.scores)
    table = lens.compare(TEXT, ["alti", "grad_x_input"], Target("PER", word="Anna Smithson"))
    assert not table.skipped and len(table.faithfulness) == 2


def test_words_of_words(lens):
    got = lens.attribute(mixlens.Words(["Anna", "Smithson", "met"]), "saliency", target=Target("PER", word="Smithson"))
    assert got.target.position == (2, 3)


def test_other_streams_have_no_words():
    from mixlens.answer.entity import word_tokens
    from mixlens.capture.stream import Positions

    with pytest.raises(Undefined, match=r"a word is of a text, .*; pass position=\(first, last\)"):
        word_tokens(Positions(n=3), "a")


def test_data_sets_are_asked_about_an_entity(lens):
    rows = [TEXT, "Anna met the lady.", "the lady in Paris"]
    goal = Target("PER", word="Anna")
    explained = mixlens.explain_data(lens, rows, "grad_x_input", goal)
    assert [failure.row for failure in explained.failures] == [2]
    for text in explained:
        attr = lens.attribute(text.text, "grad_x_input", target=goal)
        torch.testing.assert_close(explained.attribution(text.id).scores, attr.scores.float())
    with pytest.raises(TargetError, match="no label 'PERS'"):
        mixlens.explain_data(lens, rows, "grad_x_input", Target("PERS", word="Anna"))
    table = mixlens.evaluate(lens, rows[:2], ["alti", "grad_x_input", "random"], ["aopc"], target=goal)
    assert len(table) == 3 and all(row.n == 2 for row in table)


def test_a_row_of_its_own_for_several_tokens(lens):
    goal = Target("PER", word="Anna Smithson")
    one = lens.attribute(TEXT, "alti", target=goal, readout=5, normalize=False)
    single = lens.attribute(TEXT, "alti", target=Target(0, position=5), normalize=False)
    torch.testing.assert_close(one.scores, single.scores)
    with pytest.raises(Undefined, match="saliency reads the row that answers; leave readout= out"):
        lens.attribute(TEXT, "saliency", target=goal, readout=5)


def test_no_token_that_is_asked_about_is_taken_out():
    read = reading(make().head, encode(TEXT, make().tokenizer), Target("PER", word="Anna Smithson"))
    entity = Answer(read.target, (0, 0, 0), ENTITY, {}, frames=ENTITY, merged=((1, 2),))
    assert asked_about("token", read.at, entity, 11).nonzero()[0].tolist() == [1, 2, 3]
