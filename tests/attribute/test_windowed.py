"""Texts over a model's positions, window by window: each as it is alone, and one view over all."""

from __future__ import annotations

import pytest
import torch

import mixlens
from answer.test_entities import make as token_classifier
from answer.test_targets import question_model
from mixlens import Target
from mixlens.attribute.names import method as named
from mixlens.capture.text import encode
from mixlens.capture.windows import windows_of
from mixlens.errors import InputError, OverBudget, TargetError, TooLong, Undefined, UnknownOption
from models import families
from models.words import tokenizer

LONG = " ".join(f"w{5 + (7 * i) % 80}" for i in range(70))  # 72 tokens where the model has 40 positions
METHODS = ("grad_x_input", "saliency", "cp_lrp", "attcat", "alti", "globenc", "attention_flow", "blank_out", "deeplift")
METHODS += ("random", "trans_att", "hta", "grad_sam", "alti+mean")
WINDOW, STRIDE = 30, 21


def lens(family="bert", head="sequence", **settings):
    return mixlens.load(families.make(family, head, **settings), tokenizer())


@pytest.fixture(scope="module")
def classifier():
    return lens(num_labels=3)


def parts_of(text=LONG, window=WINDOW, stride=STRIDE):
    whole = encode(text, tokenizer())
    return whole, windows_of(whole, window, stride, 40)


def ids(window):
    return {"input_ids": list(window.tokens.ids), "token_type_ids": list(window.tokens.inputs["token_type_ids"])}


def mean_over(windows, results, n, name="scores"):
    """By hand: the scores of a token in the windows that hold it, averaged."""
    out = []
    for place in range(n):
        mine = [
            getattr(r, name)[..., w.places.index(place)]
            for w, r in zip(windows, results, strict=True)
            if place in w.places
        ]
        out.append(torch.stack(mine).mean(0))
    return torch.stack(out, -1)


@pytest.mark.parametrize("method", METHODS)
def test_a_score_is_the_mean_of_those_of_the_windows_alone(classifier, method):
    options = {"replace": families.UNK} if method == "blank_out" else {}
    whole, windows = parts_of()
    raw = [classifier.attribute(ids(w), method, target=1, normalize=False, **options) for w in windows]
    got = classifier.attribute(LONG, method, 1, window=WINDOW, stride=STRIDE, normalize=False, **options)
    torch.testing.assert_close(got.scores, mean_over(windows, raw, len(whole)), rtol=1e-9, atol=1e-12)
    assert got.source == whole and len(windows) == 3
    if raw[0].layers is not None:
        torch.testing.assert_close(got.layers, mean_over(windows, raw, len(whole), "layers"), rtol=1e-9, atol=1e-12)
    shares = classifier.attribute(LONG, method, 1, window=WINDOW, stride=STRIDE, **options)
    expected = got.scores if named(method).signed else got.scores / got.scores.sum()
    torch.testing.assert_close(shares.scores, expected, rtol=1e-9, atol=1e-12)
    assert shares.options == {"window": WINDOW, "stride": STRIDE, **options}


def test_the_answer_is_of_the_mean_of_the_probabilities(classifier):
    _, windows = parts_of()
    with torch.no_grad():
        p = torch.stack(
            [
                classifier.model(**{k: torch.tensor([v]) for k, v in ids(w).items()}).logits[0].softmax(-1)
                for w in windows
            ]
        )
    got = classifier.attribute(LONG, "grad_x_input", window=WINDOW, stride=STRIDE)
    best = int(p.mean(0).argmax())
    assert got.target.index == best and got.meta["prediction"] == got.target.label == f"LABEL_{best}"
    assert got.meta["probability"] == pytest.approx(float(p.mean(0)[best]))
    assert list(got.meta["probabilities"].values()) == pytest.approx(p.mean(0).tolist())
    rows = got.meta["windows"]
    assert [(row["first"], row["last"]) for row in rows] == [(w.first, w.last) for w in windows]
    assert [row["target_probability"] for row in rows] == pytest.approx(p[:, best].tolist())
    assert [row["prediction"] for row in rows] == [f"LABEL_{int(i)}" for i in p.argmax(-1)]
    alone = [classifier.attribute(ids(w), "grad_x_input", target=best) for w in windows]
    assert [row["value"] for row in rows] == pytest.approx([attr.meta["value"] for attr in alone])
    assert got.meta["joined"] == "mean over the windows that hold a token" and "value" not in got.meta


def test_one_window_is_no_window(classifier):
    short = " ".join(LONG.split()[:20])
    for method in ("alti", "grad_x_input"):
        plain, got = classifier.attribute(short, method), classifier.attribute(short, method, window=22, stride=4)
        assert torch.equal(plain.scores, got.scores) and plain.target == got.target and plain.meta == got.meta


def test_texts_beside_others_and_short_ones_among_them(classifier):
    texts = [LONG, " ".join(LONG.split()[:9]), " ".join(LONG.split()[30:])]
    for method in ("grad_x_input", "globenc"):
        alone = [classifier.attribute(text, method, window=24) for text in texts]
        together = classifier.attribute(texts, method, window=24, batch_size=3)
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one.scores, other.scores, rtol=1e-9, atol=1e-12)
            assert one.target == other.target
        plain = classifier.attribute(texts[1], method)
        torch.testing.assert_close(together[1].scores, plain.scores, rtol=1e-9, atol=1e-12)
        assert "windows" not in together[1].meta


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, None),
        ({"num_labels": 1}, None),
        ({"num_labels": 3}, Target("LABEL_0", foil="LABEL_2", of="log_odds")),
        ({"num_labels": 3, "problem_type": "regression"}, 2),
    ],
)
def test_heads_and_targets(settings, target):
    model = lens(**settings)
    whole, windows = parts_of()
    got = model.attribute(LONG, "grad_x_input", target, window=WINDOW, stride=STRIDE)
    goal = target if target is not None else got.target.index if settings["num_labels"] > 1 else None
    raw = [model.attribute(ids(w), "grad_x_input", target=goal) for w in windows]
    torch.testing.assert_close(got.scores, mean_over(windows, raw, len(whole)), rtol=1e-9, atol=1e-12)
    key = "output" if "output" in got.meta else "target_probability"
    assert got.meta[key] == pytest.approx(sum(attr.meta[key] for attr in raw) / 3)
    caption = got.to_html().partition("<caption>The windows in reading order")[2].partition("</caption>")[0]
    assert ("and its output" in caption) == (key == "output") != ("and the probability of" in caption)


def test_a_causal_classifier_reads_each_windows_last_token():
    model = mixlens.load(families.make("gpt2", "sequence"), tokenizer(special=False))
    got = model.attribute(LONG, "alti", window=30)
    assert {row.get("readout", got.meta.get("readout")) for row in got.meta["windows"]} == {29}
    assert float(got.scores.sum()) == pytest.approx(1)


def test_every_class_at_once(classifier):
    results = classifier.attribute(LONG, "grad_x_input", "all", window=WINDOW)
    assert results.names == ("LABEL_0", "LABEL_1", "LABEL_2")
    for name, attr in zip(results.names, results, strict=True):
        torch.testing.assert_close(
            attr.scores, classifier.attribute(LONG, "grad_x_input", name, window=WINDOW).scores, rtol=1e-9, atol=1e-12
        )
    assert sum(attr.meta["target_probability"] for attr in results) == pytest.approx(1)


def test_an_entity_is_asked_of_the_windows_that_hold_it():
    model = token_classifier()
    filler = "the lady met the lady in Paris . " * 5
    text = filler + "Anna Smithson met the lady in Paris. " + filler
    whole = encode(text, model.tokenizer)
    windows = windows_of(whole, 30, 9, 32)
    goal = Target("PER", word="Anna Smithson")
    got = model.attribute(text, "grad_x_input", goal, window=30, stride=9)
    first, last = got.target.position
    assert whole.excerpt(first, last) == "Anna Smithson"
    held = [w for w in windows if first in w.places and last in w.places]
    local = [Target("PER", position=(w.places.index(first), w.places.index(last))) for w in held]
    raw = [
        model.attribute(list(w.tokens.ids), "grad_x_input", target=goal) for w, goal in zip(held, local, strict=True)
    ]
    for place in range(len(whole)):
        mine = [r.scores[w.places.index(place)] for w, r in zip(held, raw, strict=True) if place in w.places]
        expected = torch.stack(mine).mean() if mine else torch.zeros((), dtype=torch.float64)
        torch.testing.assert_close(got.scores[place], expected, rtol=1e-9, atol=1e-12)
    assert [row["explained"] for row in got.meta["windows"]] == [w in held for w in windows]
    assert 1 < len(held) < len(windows)
    unseen = len(whole) - len({p for w in held for p in w.places})
    assert f"{unseen} of {len(whole)} tokens stand in no window with what is asked about" in got.meta["warnings"][0]
    single = model.attribute(text, "alti", Target("B-PER", position=first), window=30, stride=9)
    assert (
        single.target.index == 1 and single.target.position == first and float(single.scores.sum()) == pytest.approx(1)
    )
    likeliest = model.attribute(text, "alti", Target(word="Anna Smithson"), window=30, stride=9)
    assert likeliest.target.label == likeliest.meta["prediction"]
    with pytest.raises(TargetError, match=r"a window that holds all of tokens .* a smaller stride= or a larger"):
        model.attribute(text, "alti", Target("PER", position=(1, 40)), window=30)


def test_a_masked_word_is_asked_of_the_windows_that_hold_it():
    model = lens(head="masked")
    words = LONG.split()
    words[40] = "[MASK]"
    text = " ".join(words)
    got = model.attribute(text, "grad_x_input", "w9", window=WINDOW, stride=STRIDE)
    held = [row for row in got.meta["windows"] if row["explained"]]
    assert 0 < len(held) < 3 and all(row["first"] <= 41 <= row["last"] for row in held)
    assert got.target.label == "w9"
    assert got.meta["target_probability"] == pytest.approx(sum(row["target_probability"] for row in held) / len(held))


def test_an_answer_is_sought_in_every_window():
    model = mixlens.load(question_model(), tokenizer())
    pair = ("w5 w6", LONG)
    whole = encode(pair, tokenizer())
    windows = windows_of(whole, 34, 20, 40)
    got = model.attribute(pair, "grad_x_input", window=34, stride=20)
    alone = [model.attribute(ids(w), "grad_x_input") for w in windows]
    chances = [attr.meta["probability"] for attr in alone]
    best = chances.index(max(chances))
    start, end = alone[best].target.position
    assert got.target.position == (windows[best].places[start], windows[best].places[end])
    assert got.meta["probability"] == pytest.approx(max(chances))
    assert [row["probability"] for row in got.meta["windows"]] == pytest.approx(chances)
    assert got.meta["windows"][best]["explained"]
    given = model.attribute(pair, "grad_x_input", Target(position=(30, 31)), window=34, stride=20)
    assert given.target.position == (30, 31)
    with pytest.raises(TargetError, match="got a label or token"):
        model.attribute(pair, "grad_x_input", "w5", window=34)
    with pytest.raises(TargetError, match="starts before it ends"):
        model.attribute(pair, "grad_x_input", Target(position=(31, 30)), window=34)


def test_a_model_without_a_head_has_maps():
    got = lens(head="base").attribute(LONG, "alti", window=WINDOW)
    assert (
        float(got.scores.sum()) == pytest.approx(1) and "prediction" not in got.meta and len(got.meta["windows"]) == 4
    )
    with pytest.raises(TargetError, match="load it with its classification"):
        lens(head="base").attribute(LONG, "saliency", window=WINDOW)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"window": 41}, UnknownOption, "expected window= of at most 40 tokens"),
        ({"window": 2}, UnknownOption, "expected window= of more than 2 tokens"),
        ({"window": 0}, UnknownOption, "expected window of 1 or more, or None, got 0"),
        ({"window": 30.0}, UnknownOption, "expected window of 1 or more, or None, got 30.0"),
        ({"window": 30, "stride": 29}, UnknownOption, "expected stride= of 1 to 28"),
        ({"stride": 5}, UnknownOption, "expected stride= beside window=, got it alone"),
        ({"window": 30, "truncate": True}, UnknownOption, "expected window= or truncate=True, got both"),
        (
            {"window": 30, "readout": 4},
            UnknownOption,
            "expected readout= 0, -1, 'mean' or 'max' beside .* got 4",
        ),
        (
            {},
            TooLong,
            r"got 72; shorten the text, pass window=40 to explain it in overlapping parts, or pass trunc",
        ),
    ],
)
def test_refusals(classifier, settings, error, said):
    with pytest.raises(error, match=said):
        classifier.attribute(LONG, "alti", **settings)


def test_where_windows_mean_nothing(classifier):
    model = mixlens.load(families.make("gpt2", "causal"), tokenizer(special=False))
    with pytest.raises(Undefined, match="window= is of models that answer about a whole text: a language model"):
        model.attribute(LONG, window=30)
    with pytest.raises(TooLong) as error:
        model.attribute(LONG)
    assert "window" not in str(error.value)
    with pytest.raises(InputError, match="got token ids"):
        classifier.attribute(families.text(9), "alti", window=6)
    with pytest.raises(TooLong) as error:
        classifier.mixing(LONG, "attention")
    assert "window" not in str(error.value)
    with pytest.raises(UnknownOption, match="attention would ignore the option 'window'"):
        classifier.mixing(LONG, "attention", window=30)
    with pytest.raises(UnknownOption, match="expected no window= for maps"):
        classifier.plan(LONG, "alti", window=30, maps=True)


def test_pictures_and_sounds_have_none():
    with pytest.raises(Undefined, match="window= cuts texts into parts, this model reads none"):
        mixlens.load("mixlens:digits").attribute(mixlens.embedded_pictures.held_out()[0][0], "alti", window=9)


def test_plans_and_budgets_count_windows(classifier):
    plan = classifier.plan(LONG, "blank_out", window=WINDOW, stride=STRIDE)
    assert plan.passes == 30
    with pytest.raises(OverBudget):
        classifier.attribute(LONG, "alti", window=WINDOW, memory="1KB")


def test_one_of_several_that_cannot_be_cut_is_skipped(classifier):
    with pytest.warns(UserWarning, match="1 of 2 texts are skipped"):
        results = classifier.attribute([LONG, [5, 6, 7]], "alti", window=WINDOW, errors="skip")
    assert results[1] is None and "got token ids" in results.skipped[1]
    with pytest.raises(InputError, match="text 1: expected a text to cut"):
        classifier.attribute([LONG, [5, 6, 7]], "alti", window=WINDOW)


def test_it_is_kept_drawn_and_told(classifier, tmp_path):
    attr = classifier.attribute(LONG, "alti", window=WINDOW, stride=STRIDE)
    back = mixlens.read(attr.save(tmp_path / "long"))
    assert torch.equal(back.scores, attr.scores) and back.meta == attr.meta and back.source == attr.source
    assert sum(word.score for word in attr.words()) == pytest.approx(1)
    assert len(attr.to_frame()) == 72 and attr.to_dict()["meta"]["windows"][1]["first"] == 22
    page = attr.to_html()
    assert "Window by window" in page and page.count('<th scope="row">') == 3
    assert "Joined from 3 windows of 30 tokens" in page and "joined from 3 windows" in attr._repr_html_()
    classes = classifier.attribute(LONG, "grad_x_input", "all", window=WINDOW, stride=STRIDE).to_html()
    assert classes.count("LABEL_0 in each: ") == 1 and classes.count("joined from 3 windows") == 3
    told = " ".join(str(attr).split())
    assert "joined from 3 windows of 30 tokens: a score is the mean over the windows that hold a token" in told
    assert f"· probability of {attr.target.label} in each: " in told
    attr.plot(tmp_path / "long.png")
    assert "Window by window" not in classifier.attribute(" ".join(LONG.split()[:5]), "alti", window=WINDOW).to_html()


@pytest.mark.parametrize("problem", ["multi_label_classification", "single_label_classification"])
def test_probabilities_that_round_to_one(problem):
    model = families.make("bert", "sequence", num_labels=3, problem_type=problem)
    with torch.no_grad():
        model.classifier.bias[:] = torch.tensor([500.0, -500.0, 0.0])
    got = mixlens.load(model, tokenizer()).attribute(LONG, "grad_x_input", window=WINDOW)
    assert got.target.index == 0 and got.meta["probability"] == pytest.approx(1)
    assert got.meta["probabilities"]["LABEL_1"] == pytest.approx(0, abs=1e-100)


def test_progress_ends_at_its_end(classifier):
    seen = []
    texts = [LONG, " ".join(LONG.split()[:9])]
    classifier.attribute(texts, "alti", window=24, batch_size=1, progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen) and seen[-1] == pytest.approx(1)


def test_windows_that_disagree_are_asked_about_the_same_class():
    model = families.make("bert", "sequence", num_labels=3)
    _, windows = parts_of()
    fed = [{k: torch.tensor([v]) for k, v in ids(w).items()} for w in windows]
    with torch.no_grad():
        z = torch.cat([model(**inputs).logits for inputs in fed])
        model.classifier.bias -= z.mean(0)  # so that each is the likeliest of some window
    unsure = mixlens.load(model, tokenizer())
    got = unsure.attribute(LONG, "grad_x_input", window=WINDOW, stride=STRIDE)
    assert len({row["prediction"] for row in got.meta["windows"]}) > 1
    named = unsure.attribute(LONG, "grad_x_input", got.target.index, window=WINDOW, stride=STRIDE)
    assert torch.equal(got.scores, named.scores)
    alone = [unsure.attribute(ids(w), "grad_x_input", target=got.target.index) for w in windows]
    torch.testing.assert_close(got.scores, mean_over(windows, alone, 72), rtol=1e-9, atol=1e-12)
