"""Other packages as rows beside ours: what is asked of each, on tiny models and against their own numbers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import mixlens
from golden.peer_models import ANSWER, IDS, model
from mixlens import Example
from mixlens.errors import InputError, MissingExtra
from mixlens.evaluation.given import Question
from mixlens.reproduce import peers

GOLDEN = Path(__file__).parents[1] / "golden"
UNKNOWN, FOIL = 4, 9


def words(ids):
    """Token ids as a text."""
    return " ".join(f"w{i:02}" for i in ids)


@cache
def lens(name="llama"):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({f"w{i:02}": i for i in range(97)}, unk_token=f"w{UNKNOWN:02}"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "w00", "bos_token": "w01", "eos_token": "w02", "unk_token": f"w{UNKNOWN:02}"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False, **special)
    return mixlens.load(model(name), tokenizer)


def asked(answer, foil=None, name="llama"):
    """The question that `evaluate` asks of a function, for an answer behind IDS."""
    said = {"answer": f" {words(answer)}", "foil": None if foil is None else f" {words(foil)}"}
    seen = []
    mixlens.evaluate(lens(name), [Example("a", prompt=words(IDS), gold=(0,), **said)], [("x", keep(seen), {})], ["mrr"])
    return seen[0]


def keep(seen):
    return lambda question: seen.append(question) or [0.0] * len(question)


def peer(package, what=""):
    """The line of the table, or another method of its package; skipped where that is not installed."""
    others = (
        peers.Peer("inseq", "input_x_gradient", peers.inseq("input_x_gradient"), attention="eager"),
        peers.Peer("captum", "LayerGradientXActivation", peers.captum("LayerGradientXActivation")),
    )
    found = next(p for p in (*peers.PEERS, *others) if (p.package, p.variant) == (package, what))
    if not found.installed:
        pytest.skip(f"needs {package}, of the extra peers")
    return found


def same(ours, theirs, limit=2e-6):
    theirs = np.asarray(theirs, dtype=np.float64)
    np.testing.assert_allclose(np.asarray(ours, dtype=np.float64), theirs, rtol=0, atol=limit * np.abs(theirs).max())


def logits(made, embeddings):
    """(vocabulary,) behind a text of these embeddings, (1, n, dim)."""
    return made(inputs_embeds=embeddings).logits[0, -1]


def gradient(made, number):
    """(token, dim): of a number of the logits behind IDS by the embeddings, and these."""
    inner = made.get_input_embeddings()(torch.tensor([IDS])).detach().requires_grad_(True)
    number(logits(made, inner)).backward()
    return inner.grad[0], inner.detach()[0]


def shares(vectors):
    """What inseq makes of them: L2 norms that sum to 1."""
    return vectors.norm(dim=-1) / vectors.norm(dim=-1).sum()


NAME = "llama with biases"
CAPTUM = json.loads((GOLDEN / "captum_inseq.json").read_text("utf-8"))
PEER_NUMBERS = json.loads((GOLDEN / "peers.json").read_text("utf-8"))


@pytest.mark.parametrize("method", ["saliency", "input_x_gradient"])
def test_inseq_s_own_shares_are_summed_over_the_answer(method):
    theirs = np.array(CAPTUM[f"inseq, {NAME}"][f"{method}, l2"], dtype=float)  # (source, answer token)
    whole = (theirs / theirs.sum(0))[: len(IDS)].sum(1)
    same(peer("inseq", method)(asked(ANSWER, name=NAME)), whole, 5e-6)


@pytest.mark.parametrize("method", ["saliency", "input_x_gradient"])
def test_inseq_holds_the_answer_against_the_foil(method):
    """The gradient of p(answer) - p(foil)."""
    grad, inner = gradient(model(NAME), lambda z: torch.softmax(z, -1) @ contrast)
    expected = shares(grad if method == "saliency" else grad * inner)
    same(peer("inseq", method)(asked(ANSWER[:1], [FOIL], NAME)), expected, 5e-6)
    assert not np.allclose(peer("inseq", method)(asked(ANSWER[:1], name=NAME)), expected, atol=1e-4)


contrast = torch.zeros(97, dtype=torch.float64)
contrast[ANSWER[0]], contrast[FOIL] = 1, -1


def test_captum_s_gradients_are_of_the_log_probability():
    made = model(NAME)
    grad, inner = gradient(made, lambda z: torch.log_softmax(z, -1)[ANSWER[0]])
    same(peer("captum", "LayerGradientXActivation")(asked(ANSWER[:1], name=NAME)), (grad * inner).sum(-1))


@pytest.mark.slow
def test_captum_s_integrals_begin_at_the_vocabulary_s_token_0():
    made = model(NAME)
    inner, zero = (made.get_input_embeddings()(torch.tensor([ids])).detach() for ids in (IDS, [0] * len(IDS)))
    total = torch.zeros_like(inner)
    for place, weight in zip(*np.polynomial.legendre.leggauss(50), strict=True):
        between = (zero + (place + 1) / 2 * (inner - zero)).requires_grad_(True)
        torch.log_softmax(logits(made, between), -1)[ANSWER[0]].backward()
        total += weight / 2 * between.grad
    expected = (total * (inner - zero))[0].sum(-1)
    same(peer("captum", "LayerIntegratedGradients")(asked(ANSWER[:1], name=NAME)), expected)


def test_captum_s_ablation_puts_the_vocabulary_s_token_0_there():
    made = model(NAME)

    def log_p(ids):
        with torch.no_grad():
            return float(torch.log_softmax(made(input_ids=torch.tensor([ids])).logits[0, -1], -1)[ANSWER[0]])

    expected = [log_p(IDS) - log_p([*IDS[:i], 0, *IDS[i + 1 :]]) for i in range(len(IDS))]
    same(peer("captum", "FeatureAblation")(asked(ANSWER[:1], name=NAME)), expected)


def test_gim_explain_s_numbers_are_met_where_its_baseline_is_zero():
    """As they were computed: its baseline, the padding where a blank is no token, has the embedding 0 in this model."""
    found = peer("gim-explain")
    twin = model("llama")
    with torch.no_grad():
        twin.get_input_embeddings().weight[0] = 0
    zeroed = mixlens.load(twin, lens().tokenizer)
    question = asked([3])
    question = Question(zeroed, question.example, question.tokens, answer=question.answer)
    same(found(question), PEER_NUMBERS["gim-explain"]["llama"])
    two = Question(zeroed, Example("b", prompt=words(IDS), answer=" w03 w05"), question.tokens, answer=(3, 5))
    longer = Question(zeroed, Example("c", prompt=words([*IDS, 3]), answer=" w05"), read([*IDS, 3]), answer=(5,))
    same(found(two), found(question) + found(longer)[: len(IDS)])


def read(ids):
    return lens().subject.read(words(ids)).require()[0]


def read_ids():
    return lens().subject.read(IDS).require()[0]


def test_flashtrace_reads_the_answer_s_tokens_as_one_span():
    """What it gives for ids, behind its own reading of the text: one hop, the answer's rows."""
    found = peer("flashtrace")
    engine = pytest.importorskip("flashtrace.improved", reason="needs flashtrace, of the extra peers")
    made = engine.LLMIFRAttributionBoth(peers.twin_of(lens(), "eager"), lens().tokenizer)
    raw = made.calculate_ifr_multi_hop_both(words(IDS), target=words(ANSWER))
    assert made.prompt_ids[0].tolist() == IDS and made.generation_ids[0].tolist()[: len(ANSWER)] == ANSWER
    rows = raw.attribution_matrix[: len(ANSWER), : len(IDS)]
    assert torch.equal(rows[0], rows[-1])  # a score of the whole span, in each of its rows
    same(found(asked(ANSWER)), rows[0])


@pytest.mark.parametrize("found", peers.PEERS, ids=lambda found: f"{found.package} {found.variant}".strip())
def test_the_model_and_its_tokenizer_stay_as_they_are(found):
    if not found.installed:
        pytest.skip(f"needs {found.package}, of the extra peers")
    question = asked(ANSWER[:1])
    before = {name: value.clone() for name, value in question.lens.model.state_dict().items()}
    how, padded = question.lens.model.config._attn_implementation, question.lens.tokenizer.pad_token
    scores = np.asarray(found(question), dtype=float)
    assert scores.shape == (len(IDS),) and np.isfinite(scores).all() and np.ptp(scores) > 0
    np.testing.assert_array_equal(np.asarray(found(question), dtype=float), scores)  # and says the same again
    for name, value in question.lens.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(p.grad is None and p.requires_grad for p in question.lens.model.parameters())
    assert question.lens.model.config._attn_implementation == how and question.lens.tokenizer.pad_token == padded
    assert not any(module._forward_hooks or module._backward_hooks for module in question.lens.model.modules())


# --- the harness, without the packages ---


def test_a_package_gets_its_own_copies_once_a_model(monkeypatch):
    made = []

    def make(twin, tokenizer):
        made.append((twin, tokenizer))
        return lambda question: [1.0] * len(question)

    fake = peers.Peer("mixlens", "fake", make)
    assert fake.installed and fake.label == f"mixlens {mixlens.__version__} (package, fake)"
    question = asked(ANSWER)
    assert fake(question) == fake(question) == [1.0] * len(IDS)
    ((twin, tokenizer),) = made
    assert twin is not question.lens.model and tokenizer is not question.lens.tokenizer
    ours, theirs = dict(question.lens.model.named_parameters()), dict(twin.named_parameters())
    assert theirs.keys() == ours.keys()
    assert all(w.data_ptr() == ours[name].data_ptr() and not w.requires_grad for name, w in theirs.items())
    assert all(w.requires_grad for w in ours.values())


def test_a_package_that_is_not_there_says_its_extra():
    absent = peers.Peer("no-such-package", "", lambda twin, tokenizer: lambda question: [])
    assert not absent.installed
    with pytest.raises(
        MissingExtra, match=r"the scores of no-such-package needs the package .* pip install \"\.\[peers\]\""
    ):
        _ = absent.label


def test_other_tokens_than_those_measured_are_refused():
    question = asked(ANSWER)
    tokenizer = lens().tokenizer
    assert peers.written(question, tokenizer, "answer") == f" {words(ANSWER)}"

    def told(answer):
        return Question(lens(), Example("a", prompt=words(IDS), answer=answer), question.tokens, answer=tuple(ANSWER))

    with pytest.raises(InputError, match="expected the tokens of example 'a' from its text too"):
        peers.written(told(words(ANSWER)), tokenizer, "answer")  # grows together with the prompt's last word
    with pytest.raises(InputError, match="got 1 others for 4"):
        peers.written(told(" w05"), tokenizer, "answer")
    ids = Question(lens(), Example("ids", prompt=IDS, answer=ANSWER), read_ids(), answer=(5,))
    fake = peers.Peer("mixlens", "", lambda twin, tokenizer: lambda question: [])
    with pytest.raises(InputError, match="explains answers to prompts that are text, got example 'ids'"):
        fake(ids)
