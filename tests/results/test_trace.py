"""`Trace`: what it holds, rows and spans, units, closure, citations, and every way out of it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import mixlens
from mixlens.aggregate.closure import closure
from mixlens.capture.stream import Positions
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, NotFinite, TargetError, Undefined, UnknownOption
from mixlens.measure.shares import shares
from mixlens.results import Attribution
from models.traces import DOCUMENTS, PROMPT, ids, tokens, trace
from pages import still, styled

# --- what it holds


def test_sources_are_the_prompt_and_then_the_answer():
    made = trace()
    p = len(made.prompt)
    assert isinstance(made.source, Tokens)
    assert made.tokens == (*made.prompt.names, *made.answer.names)
    assert made.source.raw == made.prompt.raw + made.answer.raw
    assert made.source.excerpt(p, p + 1) == "The red"
    assert made.source.roles[1] == "user"
    assert made.source.roles[p] == "assistant"
    assert len(made) == len(made.answer) == 13
    assert repr(made) == "Trace(head_logit, 13 answer tokens from 41 of the prompt)"


def test_sources_without_text_have_names_alone():
    made = trace(ids(3), tokens("a b"))
    assert (made.source.names, made.source.raw, made.source.offsets) == (("Ġw0", "Ġw1", "Ġw2", "a", "b"), None, None)
    speech = trace(Positions("frame", n=2), Positions("token", labels=("a",)), torch.rand(1, 3).tril(1))
    assert speech.source.names == ("frame 0", "frame 1", "a")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": torch.rand(2, 4)}, InputError, r"expected scores \(2, 5\) .* got \(2, 4\)"),
        ({"scores": torch.zeros(2, 5, dtype=torch.int64)}, InputError, "of floating point"),
        ({"scores": torch.full((2, 5), torch.nan).tril(2)}, NotFinite, "expected finite scores"),
        ({"scores": torch.ones(2, 5).tril(3)}, InputError, "got 1.0 at answer token 0, source 3"),
        ({"targets": ()}, InputError, "expected 2 targets, one an answer token, got 0"),
        ({"said": ({},)}, InputError, "expected 2 said, one an answer token, got 1"),
        ({"said": ({}, {"probability": 1.5})}, InputError, "expected probability between 0 and 1, or None, got 1.5"),
        ({"said": ({}, {"prediction": [1]})}, InputError, r"expected a prediction, a token, or None, got \[1\]"),
        ({"meta": {"documents": {"a": (0, 4)}}}, InputError, r"in the prompt's 3 .* got 'a' at tokens \(0, 4\)"),
        ({"meta": {"documents": {"a": (0, 2), "b": (1, 3)}}}, InputError, "that do not overlap, got 'b'"),
        ({"meta": {"documents": {"a": (1, 1)}}}, InputError, "documents of at least one token"),
        ({"meta": {"documents": {"a": 1}}}, InputError, r"expected the tokens of document 'a' as \(first, last\)"),
        ({"meta": {"documents": ["a"]}}, InputError, r"expected meta\['documents'\] = "),
    ],
)
def test_what_is_no_trace_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        trace(ids(3), ids(2), **change)


def test_an_answer_of_no_tokens_is_refused():
    with pytest.raises(InputError, match="at least one token, got 3 and 0"):
        trace(ids(3), ids(0), torch.zeros(0, 3))


# --- rows and spans


def test_a_row_is_an_attribution_over_what_was_read():
    made = trace(foil="blue")
    p = len(made.prompt)
    row = made.row(-2)
    assert isinstance(row, Attribution)
    assert torch.equal(row.scores, made.scores[11, : p + 11])
    assert row.source.names == made.tokens[: p + 11]
    assert row.text == (PROMPT + "The red key opens it. Dr. Hale cut it")
    assert (row.target.label, row.target.foil, row.meta["readout"]) == (".", "blue", p + 10)
    assert (row.meta["target_probability"], row.meta["model"]) == (0.5, "org/tiny")
    assert row.words()[-1].text == "it"
    assert "rather than" in row.to_html()
    assert torch.equal(made.row(11).scores, row.scores)


def test_a_span_is_the_mean_of_its_rows():
    made = trace()
    p = len(made.prompt)
    span = made.span(2, 6)
    assert torch.allclose(span.scores, made.scores[2:6, : p + 5].double().mean(0).float())
    assert span.scores.sum().item() == pytest.approx(1)
    assert (span.target.label, span.meta["target_probability"]) == ("key opens it.", 0.5**4)
    assert torch.equal(made.span(2, 6, prompt_only=True).scores, span.scores[:p])
    assert torch.equal(made.span(-3, -2).scores, made.row(-3).scores)


@pytest.mark.parametrize("ends", [(0, 14), (3, 3), (5, 2), (-20, 2), (0, True), (0, 1.5)])
def test_a_span_that_is_none_is_refused(ends):
    with pytest.raises(TargetError, match="expected a"):
        trace().span(*ends)


@pytest.mark.parametrize("t", [13, -14, "0", None, True])
def test_a_row_that_is_not_there_is_refused(t):
    with pytest.raises(TargetError, match=r"expected an answer token of -13 to 12 \(the answer has 13\), got"):
        trace().row(t)


def test_foil_and_sign():
    assert trace().foil is None
    assert trace(ids(2), ids(2), foil="ĠParis").foil == "Paris"
    answers = (mixlens.Target(foil="ĠLondon", label="ĠParis"), mixlens.Target(label="."))
    assert trace(ids(2), ids(2), targets=answers).foil == "London."
    made = trace(ids(2), ids(1), torch.tensor([[-1.0, 1.0, 0.0]]), options={})
    assert made.signed
    assert not trace().signed
    assert trace(meta={"signed": True}).signed


# --- units


BY = ["token", "word", "sentence", "line", "paragraph", "document", {"keys": (9, 30)}, ("document", "word")]


@pytest.mark.parametrize("by", BY, ids=str)
def test_units_are_sums_and_means_and_lose_nothing(by):
    made = trace()
    units = made.units(by)
    p = len(made.prompt)
    assert sorted(i for unit in units.sources for i in unit.indices) == list(range(p + 13))
    assert sorted(i for unit in units.answer for i in unit.indices) == list(range(p, p + 13))
    assert units.scores.sum(1).tolist() == pytest.approx([1] * len(units.answer))
    for a, unit in enumerate(units.answer):
        rows = made.scores.double()[[i - p for i in unit.indices]]
        for s, source in enumerate(units.sources):
            assert units.scores[a, s].item() == pytest.approx(rows[:, list(source.indices)].sum(1).mean().item())
    assert len(units.to_dicts()) == units.scores.numel()
    assert json.loads(json.dumps(units.to_dict()))["scores"] == units.scores.tolist()


def test_units_by_name():
    made = trace()

    def names(by, where="prompt"):
        return [unit.name for unit in made.units(by).sources if unit.where == where]

    assert names("sentence") == [
        "The red key opens the north gate.",
        "It was cut in 1911 by Dr. Hale.",
        "The blue key opens the cellar.",
        "Nobody knows who cut it.",
        "Which key opens the north gate?",
    ]
    assert names("sentence", "answer") == ["The red key opens it.", "Dr. Hale cut it."]
    assert names("paragraph") == names("line")
    assert [name[:8] for name in names("line")] == ["The red ", "The blue", "Which ke"]
    assert names("document") == ["keys.txt", "cellar.txt", "rest of the prompt"]
    assert names({"b": (45, 70), "a": (9, 42)}) == ["a", "b", "rest of the prompt"]
    assert names("word")[:3] == ["The", "red", "key"]
    assert names("token")[0] == "<|user|>"
    assert names("document", "template") == ["template"]
    assert made.units("word").answer[-1].name == "template"  # the end of the text holds mass
    assert [u.name for u in made.units(("document", "turn")).answer] == ["answer", "template"]


def test_template_tokens_without_mass_are_not_shown():
    made = trace(tokens("<|user|>Aa. Bb."), tokens("c"), torch.tensor([[0, 0.5, 0, 0.5, 0, 0]]))
    assert [unit.name for unit in made.units("sentence").sources] == ["Aa.", "Bb.", "c"]


def test_turns_have_the_names_of_their_roles():
    chat = "<|system|>Be brief.<|user|>Hi. You?<|assistant|>Well.<|user|>Good. Bye."
    made = trace(tokens(chat, chat=True), tokens("Yes. No."))
    units = made.units("turn")
    assert [unit.name for unit in units.sources] == [
        "system",
        "user 1",
        "assistant",
        "user 2",
        "answer",
        "template",
    ]
    assert [unit.text for unit in units.sources][1] == "Hi. You?"
    assert units.scores.sum(1).tolist() == pytest.approx([1])
    assert [unit.name for unit in made.units("sentence").sources][:4] == ["Be brief.", "Hi.", "You?", "Well."]


def test_units_do_not_cross_a_document():
    prompt = tokens("one two three four five six. Seven eight")
    made = trace(prompt, tokens("a"), meta={"documents": {"a": (0, 3), "b": (3, 5)}})
    assert [unit.text for unit in made.units("sentence").sources][:3] == ["one two three", "four five", "six."]


def test_tokens_of_blanks_and_over_two_units_have_a_unit():
    prompt = Tokens(
        ids=tuple(range(5)),
        pieces=("A", ".", "Ċ", ".ĊB", "c"),
        special=(False,) * 5,
        text=("A.\n\n.\nB c",),
        spans=((0, 0, 1), (0, 1, 2), (0, 4, 4), (0, 4, 7), (0, 8, 9)),
    )
    units = trace(prompt, ids(1)).units(("sentence", "token")).sources
    assert [(unit.indices, unit.text) for unit in units[:3]] == [((0, 1), "A."), ((2, 3), ".\nB"), ((4,), "c")]


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        ("sentences", UnknownOption, "did you mean 'sentence'"),
        (5, UnknownOption, "expected by= one of token, word"),
        (("word",), UnknownOption, "or a pair of them"),
        (("word", {"a": (0, 3)}), UnknownOption, "named spans are the prompt's"),
        ({}, UnknownOption, "at least one name, got none"),
        ({"a": (3, 3)}, UnknownOption, r"0 <= start < end <= \d+"),
        ({"a": (0, 10**6)}, UnknownOption, "the prompt's length"),
        ({"a": 3}, UnknownOption, r"expected by= {'name': \(start, end\)}"),
        ({"a": (9, 20), "b": (15, 30)}, UnknownOption, "do not overlap, got 'a' up to 20 and 'b' from 15"),
        ({"a": (8, 9)}, UnknownOption, "expected a token in 'a', got none"),
        ({"a": (0, 8)}, InputError, "template tokens alone"),
        ({"a": (0, len(PROMPT))}, Undefined, "which is all of it; name smaller ones"),
    ],
)
def test_units_that_are_none_are_refused(by, error, message):
    with pytest.raises(error, match=message):
        trace().units(by)


@pytest.mark.parametrize("by", ["sentence", "line", "paragraph", "turn"])
def test_units_that_cut_nothing_are_refused(by):
    made = trace(tokens("<|user|>only one here<|end|>", chat=True), tokens("x. Y"))
    with pytest.raises(Undefined, match=f"expected more than one {by} in the prompt, got one: {by}s cut nothing here"):
        made.units(by)


def test_units_that_are_not_there_are_refused():
    made = trace(tokens("one. Two."), tokens("x"), meta={})
    with pytest.raises(Undefined, match=r"expected documents in the prompt, got none; put them there by name"):
        made.units("document")
    with pytest.raises(Undefined, match="turns are a chat's, and this prompt is none"):
        made.units("turn")
    with pytest.raises(InputError, match=r"sentences need offsets into a text: .* or choose by='token'"):
        trace(ids(3), ids(2)).units("sentence")
    with pytest.raises(Undefined, match="words are a text's, and this is a row of frames"):
        trace(Positions("frame", n=2), ids(1)).units("word")
    assert [len(unit.indices) for unit in trace(ids(3), ids(2)).units("token").sources] == [1] * 5


@given(st.text(alphabet="aB. \n!?<>", min_size=1, max_size=40), st.sampled_from(["sentence", "line", "paragraph"]))
@settings(deadline=None, max_examples=60)
def test_every_token_is_in_one_unit(text, by):
    prompt = tokens(text)
    if not len(prompt):
        return
    made = trace(prompt, tokens("a. B"))
    try:
        units = made.units(by)
    except Undefined as error:
        assert "cut nothing" in str(error)
        return
    assert sorted(i for unit in units.sources for i in unit.indices) == list(range(len(prompt) + 3))
    for unit in units.sources:
        if unit.where == "prompt":
            assert prompt.text[0][unit.start : unit.end] == unit.text


def test_top_are_the_largest_sources():
    made = trace()
    for top in made.top(3, by="sentence"):
        row = made.units("sentence").scores[[u.name for u in made.units("sentence").answer].index(top.answer.name)]
        assert len(top.sources) == 3
        assert [s.score for s in top.sources] == sorted((s.score for s in top.sources), reverse=True)
        assert all(s.unit.where != "template" for s in top.sources)
        assert top.sources[0].score == row[:-1].max().item()
    with pytest.raises(UnknownOption, match="expected n"):
        made.top(0)


# --- closure


@st.composite
def matrices(draw):
    p, m = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**20))
    scores = torch.randn(m, p + m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return p, scores.clamp(min=draw(st.sampled_from([-1.0, 0.0]))).tril(p - 1)


@given(matrices())
@settings(deadline=None)
def test_closure_is_the_inverse(made):
    p, scores = made
    g = np.maximum(scores.numpy(), 0)
    total = g.sum(1, keepdims=True)
    g = g / np.where(total > 0, total, 1)
    oracle = np.linalg.inv(np.eye(len(g)) - g[:, p:]) @ g[:, :p]
    found = closure(scores, p)
    assert np.abs(found.numpy() - oracle).max() < 1e-12
    full = total.ravel() > 0
    if full.all():  # and each row that draws on full rows alone
        assert np.abs(found.sum(1).numpy() - 1).max() < 1e-12
    assert (found >= 0).all()


def test_through_answer_is_over_the_prompt_alone():
    made = trace()
    p = len(made.prompt)
    closed = made.through_answer()
    assert closed.scores.dtype == torch.float64
    assert not closed.scores[:, p:].any()
    assert closed.scores.sum(1).tolist() == pytest.approx([1] * 13, abs=1e-12)
    assert closed.meta["through_answer"] is True
    assert (closed.prompt, closed.answer, closed.said) == (made.prompt, made.answer, made.said)
    assert torch.allclose(closed.through_answer().scores, closed.scores, atol=1e-14)
    one = trace(ids(3), ids(1))
    assert torch.allclose(one.through_answer().scores, one.scores.double(), atol=1e-7)


def test_closure_of_a_row_of_nothing_stays_nothing():
    scores = torch.tensor([[-1.0, -2.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    assert closure(scores, 2).tolist() == [[0, 0], [0, 0.5]]


# --- citations


def with_mass(*where: range, weight: float = 1.0, noise: float = 0.02):
    made = trace()
    p, scores = len(made.prompt), torch.zeros(13, 54)
    scores[:, :p] = noise * torch.rand(13, p, generator=torch.Generator().manual_seed(1))
    for part in where:
        scores[:, list(part)] += weight * torch.rand(len(part), generator=torch.Generator().manual_seed(2))
    return trace(scores=scores)


def test_a_document_that_gave_the_answer_is_cited():
    first, second = with_mass(range(3, 10)).citations()
    assert (first.answer.text, second.answer.text) == ("The red key opens it.", "Dr. Hale cut it.")
    for citation in (first, second):
        (cited,) = citation.cited
        assert (cited.name, cited.stands_out) == ("keys.txt", True)
        assert cited.share > 0.85
        assert cited.expected == pytest.approx(18 / 38 - 0.0, abs=0.1)
        assert cited.p < 0.05
    assert first.probability == 0.5**6


def test_an_even_spread_cites_nothing():
    even = torch.full((13, 54), 1 / 54).tril(40)
    for citation in trace(scores=even).citations(threshold=0):
        assert citation.cited == ()
        assert all(source.p == 1 for source in citation.sources)
        assert {source.name for source in citation.sources} == set(DOCUMENTS)
    assert trace(scores=torch.zeros(13, 54)).citations()[0].sources == ()


def test_without_documents_its_sentences_are_cited():
    made = with_mass(range(9, 18))
    made = trace(scores=made.scores, meta={})
    assert [c.cited[0].name for c in made.citations()] == ["It was cut in 1911 by Dr. Hale."] * 2
    assert made.citations() == made.citations()  # seeded


def test_citations_that_mean_nothing_are_refused():
    with pytest.raises(Undefined, match="expected several documents or sentences in the prompt, got one sentence"):
        trace(tokens("one two"), tokens("a")).citations()
    for value in (-0.1, 2, "x"):
        with pytest.raises(UnknownOption, match="expected threshold= a share between 0 and 1"):
            trace().citations(threshold=value)
    with pytest.raises(InputError, match="sentences need offsets"):
        trace(ids(3), ids(2)).citations()


def test_chance_is_kept_to_its_level():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(6), [3, 5, 8, 2, 10, 4])
    lowest = [shares(rng.exponential(size=32) ** 2, groups, samples=99, seed=i).p.min() for i in range(200)]
    assert np.mean(np.array(lowest) <= 0.05) < 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
    assert np.mean(np.array(lowest) <= 0.5) > 0.35  # and not held down


def test_shares_are_of_the_row():
    found = shares(np.array([1.0, 1, 2, 0]), np.array([0, 0, 1, 1]), samples=9)
    assert (found.share.tolist(), found.expected.tolist()) == ([0.5, 0.5], [0.5, 0.5])
    assert shares(np.zeros(3), np.array([0, 1, 1])).p.tolist() == [1, 1]
    assert shares(np.array([1.0]), np.array([0])).p.tolist() == [1]


# --- ways out


def test_rows_of_a_table():
    made = trace()
    p = len(made.prompt)
    frame = made.to_frame()
    assert list(frame.columns) == ["answer_index", "answer", "source_index", "source", "where", "score", "probability"]
    assert len(frame) == sum(p + t for t in range(13))
    row = frame[(frame.answer_index == 4) & (frame.source_index == p + 1)].iloc[0]
    assert (row.answer, row.source, row["where"], row.probability) == ("it", "red", "answer", 0.5)
    assert row.score == made.scores[4, p + 1].item()
    assert frame.attrs["method"] == "head_logit"
    lines = made.to_csv().splitlines()
    assert (lines[0], len(lines)) == (",".join(frame.columns), len(frame) + 1)


def test_a_table_in_files(tmp_path):
    import pyarrow.parquet

    made = trace()
    assert (tmp_path / "a.csv").write_text(made.to_csv(tmp_path / "b.csv")) > 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    table = pyarrow.parquet.read_table(made.to_parquet(tmp_path / "a.parquet"))
    assert table.to_pylist() == made.to_dicts()
    units = made.units("document")
    assert pyarrow.parquet.read_table(units.to_parquet(tmp_path / "u.parquet")).to_pylist() == units.to_dicts()


def test_plain_data():
    data = trace(foil="blue").to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["prompt"]["text"] == PROMPT
    assert (data["targets"][1]["foil"], data["said"][1]["foil_probability"], data["model"]) == (
        "blue",
        0.125,
        "org/tiny",
    )
    assert np.shape(data["scores"]) == (13, 54)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_file_comes_back_to_the_last_bit(dtype, tmp_path):
    scores = trace().scores.double().to(dtype)
    made = trace(scores=scores, foil="x")
    back = mixlens.read(made.save(tmp_path / "a"))
    assert isinstance(back, mixlens.Trace)
    assert back.scores.dtype == dtype
    assert torch.equal(back.scores, scores)
    for name in ("prompt", "answer", "method", "options", "meta", "targets", "said"):
        assert getattr(back, name) == getattr(made, name), name
    assert back.save(tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_a_page_says_it_without_a_script(tmp_path):
    made = with_mass(range(3, 10))
    page = made.to_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text("utf-8") == page
    assert "http:" not in page and "https:" not in page
    page = styled(page)
    assert page.count("<details") == 2
    assert re.search(r"<strong><bdi>keys.txt</bdi></strong>: \d\d %", page)
    assert "Documents it came from" in page
    assert 'title="red: probability 0.500"' in page
    assert 'href="#s2"' in page and 'id="s2"' in page
    assert "\n\n" in re.search(r'<p class="text" style.*?</p>', page, re.DOTALL)[0]  # the prompt's own lines
    assert "rather than" not in page
    assert "rather than “<bdi>blue" in trace(foil="Ġblue").to_html()
    assert "rather than ␣blue 0.125" in trace(foil="Ġblue").to_html()


def test_tokens_are_inert(tmp_path):
    evil = "</script><img src=x onerror=alert(1)> $x_1^2$ \\input{x} [red]"
    made = trace(tokens(f"{evil}. {evil}"), tokens(evil + " A."), meta={"documents": {evil: (0, 5)}, "model": evil})
    for page in (made.to_html(), made.units("word").to_html(), made._repr_html_()):
        assert "<img src=x" not in page
        assert "<script" not in still(page)
    assert "\\input{x}" not in made.to_latex()
    assert "[red]" in str(made)


@pytest.mark.slow
def test_long_prompts_stay_small():
    text = " ".join(f"word{i}" for i in range(3000)) + ". End."
    prompt, answer = tokens(text), tokens("One. " * 10)
    scores = torch.zeros(len(answer), len(prompt) + len(answer))
    scores[:, 5:25] = 1
    page = trace(prompt, answer, scores, meta={}).to_html()
    assert len(page) < 1_500_000
    assert "word2999" in page
    assert "are left plain" in page


def test_no_text_is_shown_by_names():
    made = trace(ids(4), ids(3, 4))
    assert "w4 w5 w6" in made.to_html()
    assert "w0" in str(made)
    assert "Sentences of the prompt" not in made.to_html()


def test_small_grey_positions_are_called_what_they_are():
    special = tokens("<|user|> One two three.")
    chat = trace(special, tokens("Yes."), meta={}).to_html()
    assert "small grey tokens are the template&#39;s and not coloured" in chat.lower()
    read = trace(special, tokens("Yes."), meta={"source_tokens": 3}).to_html()
    assert "template&#39;s" not in read
    assert "small grey tokens have no content and are not coloured" in read.lower()


def test_the_page_by_units_calls_facts_as_others_do():
    page = trace(meta={"model": "m", "self_check": 1e-7, "class_specific": True}).units("sentence").to_html()
    names = re.findall(r"<dt>(.*?)</dt>", page)
    assert names == ["method", "by", "signed", "model", "class specific", "self check"]


def test_a_terminal_sees_the_answer_and_its_sources():
    text = str(with_mass(range(3, 10)))
    assert text.startswith("head_logit · model org/tiny")
    assert "The red key opens it." in text
    assert "13 answer tokens from 41 of the prompt" in text
    assert "largest sources" in text
    assert "(itself, so far)" in str(trace().units(("document", "sentence")))
    assert "probability 0.016, 0.50 a token" in trace().to_html()
    assert "keys.txt" in str(trace().units("document"))
    assert repr(trace().units(("document", "word"))) == "UnitTrace(head_logit, by word to document, 13 from 16)"


def test_latex_is_a_tabular():
    tex = trace().to_latex()
    assert r"The red key opens it. & 0.016 & " in tex
    assert tex.count(r" \\") == 4
    assert r"\begin{tabular}" in trace().units("document").to_latex()
    for made in (trace(), trace().units("document")):
        assert "\\centering\n\\caption{Keys}\n\\label{tab:k}\n\\begin{tabular}" in made.to_latex(
            caption="Keys", label="tab:k"
        )


@pytest.mark.parametrize("by", ["token", "sentence"])
def test_figures(by, tmp_path):
    figure = trace().plot(tmp_path / "a.png", by=by)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    (image,) = figure.axes[0].get_images()
    assert image.get_array().shape == tuple(trace().units(by).scores.shape)


def test_figures_of_long_prompts_are_pooled_across():
    p = 4000
    scores = torch.zeros(2, p + 2)
    scores[1, 17] = -3
    figure = trace(ids(p), ids(2), scores).plot()
    image = figure.axes[0].get_images()[0].get_array()
    assert image.shape == (2, 1334)
    assert image[1, 5] == -3
    assert "largest of 3 sources" in figure.get_suptitle()
    with pytest.raises(UnknownOption, match=r"ends in \.png"):
        trace().plot("a.gif")
