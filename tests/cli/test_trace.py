"""`mixlens trace`: what is asked, what is written where, and what is refused in its words."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import mixlens
from cli.typed import one_line_error
from mixlens.cli import app, tracing
from mixlens.errors import MixlensError
from models import chats, smollm2

PROMPT, ANSWER = "w5 w6 w7", "w8 w9"
USER = [{"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return chats.folder(tmp_path_factory.mktemp("chat"))


@pytest.fixture
def trace(folder, tmp_path, monkeypatch):
    """Run `mixlens trace ...` on the tiny chat model, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words, model=True, given=None):
        more = ["-m", str(folder)] if model else []
        result = CliRunner().invoke(app, ["trace", *words, *more], input=given)
        if not isinstance(result.exception, SystemExit | MixlensError | None):
            raise result.exception
        return result

    return run


def shown(result):
    """The JSON on standard output, which is all there is."""
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def lens(folder):
    return mixlens.load(folder)


def test_a_prompt_is_sent_as_a_user_s_message(trace, lens):
    data = shown(trace(PROMPT, "--answer", ANSWER, "--json", "-"))
    expected = lens.trace(USER, ANSWER)
    assert data["scores"] == expected.scores.tolist()
    assert data["method"] == expected.method
    assert tuple(data["prompt"]["tokens"]) == ("[CLS]", "w91", "w5", "w6", "w7", "[SEP]", "[CLS]", "w92")


def test_raw_is_continued_as_it_stands(trace, lens):
    data = shown(trace(PROMPT, "--raw", "--answer", ANSWER, "--json", "-"))
    assert data["prompt"]["tokens"] == ["w5", "w6", "w7"]
    assert data["scores"] == lens.trace(PROMPT, ANSWER).scores.tolist()


def test_without_a_chat_template_a_prompt_is_a_text(tmp_path, trace):
    plain = chats.folder(tmp_path / "plain", template=None)
    data = shown(trace(PROMPT, "--answer", ANSWER, "--json", "-", "-m", str(plain), model=False))
    assert data["prompt"]["tokens"] == ["w5", "w6", "w7"]
    words = ("--answer", ANSWER, "--system", "w10", "-m", str(plain))
    assert "with a chat template" in one_line_error(trace(PROMPT, *words, model=False))


def test_a_system_message_stands_in_front(trace, lens):
    data = shown(trace(PROMPT, "--system", "w10", "--answer", ANSWER, "--json", "-"))
    assert data["scores"] == lens.trace([{"role": "system", "content": "w10"}, *USER], ANSWER).scores.tolist()


@pytest.mark.parametrize("whole", [False, True], ids=["a list", "as an API is sent it"])
def test_a_chat_out_of_a_file_or_standard_input(trace, lens, tmp_path, whole):
    chat = [*USER, {"role": "assistant", "content": "w11"}, {"role": "user", "content": "w12"}]
    text = json.dumps({"model": "x", "messages": chat} if whole else chat)
    (tmp_path / "chat.json").write_text(text)
    expected = lens.trace(chat, ANSWER).scores.tolist()
    assert shown(trace("--chat", "chat.json", "--answer", ANSWER, "--json", "-"))["scores"] == expected
    assert shown(trace("--chat", "-", "--answer", ANSWER, "--json", "-", given=text))["scores"] == expected


def test_the_answer_is_generated(trace, lens):
    data = shown(trace(PROMPT, "--max-new-tokens", "3", "--json", "-"))
    expected = lens.trace(USER, max_new_tokens=3)
    assert data["scores"] == expected.scores.tolist()
    assert data["meta"]["generated"] is True and len(data["scores"]) <= 3


def test_arguments_of_generate(trace, lens):
    data = shown(trace(PROMPT, "--max-new-tokens", "4", "--generate", "min_new_tokens=4", "--json", "-"))
    assert len(data["scores"]) == 4
    assert "generate has no argument 'beans'" in one_line_error(trace(PROMPT, "--generate", "beans=4"))


def test_documents(trace, lens, tmp_path):
    (tmp_path / "a.txt").write_text("w20 w21\n")
    words = ("--document", "w95=a.txt", "--document", "w96=-", "--answer", ANSWER)
    data = shown(trace("w30", *words, "--json", "-", given="\ufeffw22 w23\n"))
    texts = {"w95": "w20 w21", "w96": "w22 w23"}
    expected = lens.trace([{"role": "user", "content": "w30"}], ANSWER, documents=texts)
    assert data["scores"] == expected.scores.tolist()
    assert {k: tuple(v) for k, v in data["meta"]["documents"].items()} == expected.meta["documents"]


def test_method_foil_exclude_and_options(trace, lens):
    words = ("--method", "saliency", "--foil", "w10", "--exclude", "first", "--exclude", "template")
    data = shown(trace(PROMPT, "--answer", ANSWER, *words, "-o", "normalize=false", "--json", "-"))
    expected = lens.trace(USER, ANSWER, "saliency", "w10", exclude=["first", "template"], normalize=False)
    assert data["scores"] == expected.scores.tolist()
    assert data["method"] == "saliency" and data["options"] == {"normalize": False}


def test_a_document_without_a_name_has_its_files(trace, tmp_path):
    (tmp_path / "d.txt").write_text("w20 w21")
    data = shown(trace("w30", "--document", str(tmp_path / "d.txt"), "--answer", ANSWER, "--json", "-"))
    assert list(data["meta"]["documents"]) == ["d.txt"]


def test_by_units_it_is_said_what_the_answer_is_held_against(trace, tmp_path):
    words = (PROMPT, "--answer", ANSWER, "--foil", "w10", "--by", "word")
    result = trace(*words, "--html", str(tmp_path / "a.html"), "--latex", str(tmp_path / "a.tex"))
    assert "rather than w10" in result.stdout
    assert "came from, rather than “<bdi>w10</bdi>”" in (tmp_path / "a.html").read_text()
    assert "% rather than w10" in (tmp_path / "a.tex").read_text()
    assert "rather than" not in trace(*words[:3], "--by", "word").stdout


def test_what_is_printed(trace):
    result = trace(PROMPT, "--answer", ANSWER)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "path_logit" in result.stdout and "w8" in result.stdout


def test_what_each_sentence_came_from_is_printed(trace, lens, tmp_path):
    (tmp_path / "d.txt").write_text("w20 w21")
    (tmp_path / "e.txt").write_text("w22 w23")
    result = trace("w30", "--document", "one=d.txt", "--document", "two=e.txt", "--answer", ANSWER)
    whole = lens.trace([{"role": "user", "content": "w30"}], ANSWER, documents={"one": "w20 w21", "two": "w22 w23"})
    (citation,) = whole.citations(threshold=0.05)
    assert {source.name for source in citation.sources} == {"one", "two"}
    printed = " ".join(result.stdout.split())
    for source in citation.sources:
        chance = "stands out of" if source.stands_out else "no more than"
        assert f"{source.name} {100 * source.share:.0f} % ({chance} chance, p = {source.p:.3f}" in printed


def test_every_file(trace, tmp_path, lens):
    names = {"a.html", "a.png", "a.csv", "a.parquet", "a.tex", "a.json", "a.st"}
    words = "--html a.html --png a.png --csv a.csv --parquet a.parquet --latex a.tex --json a.json --save a.st".split()
    result = trace(PROMPT, "--answer", ANSWER, *words, "--caption", "Keys")
    assert result.exit_code == 0, result.stderr
    assert {line.removeprefix("wrote ") for line in result.stderr.splitlines()} == names
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "\\caption{Keys}" in (tmp_path / "a.tex").read_text("utf-8")
    assert "w8" in (tmp_path / "a.html").read_text("utf-8")
    assert mixlens.read(tmp_path / "a.st").scores.tolist() == lens.trace(USER, ANSWER).scores.tolist()


def test_by_units_on_the_terminal_and_in_files(trace, tmp_path, lens):
    (tmp_path / "d.txt").write_text("w20 w21")
    words = ("--document", "w95=d.txt", "--answer", ANSWER, "--by", "document")
    result = trace(PROMPT, *words, "--json", "u.json", "--png", "u.png", "--save", "u.st")
    assert result.exit_code == 0, result.stderr
    whole = lens.trace(USER, ANSWER, documents={"w95": "w20 w21"})
    assert json.loads((tmp_path / "u.json").read_text("utf-8")) == json.loads(
        json.dumps(whole.units("document").to_dict())
    )
    assert "w95" in result.stdout
    assert mixlens.read(tmp_path / "u.st").scores.shape == whole.scores.shape


def test_the_name_of_a_file_is_a_text_with_a_word_about_it(trace, tmp_path):
    (tmp_path / "w5").write_text("w6")
    result = trace("w5", "--answer", ANSWER)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: 'w5' is explained as a text, and is the name of a file")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of PROMPT and --chat FILE, got neither"),
        ([PROMPT, "--chat", "chat.json"], "one of PROMPT and --chat FILE, got both"),
        (["--chat", "chat.json", "--system", "w5"], "write it into the file"),
        (["--chat", "chat.json", "--raw"], "leave it out with --chat and --system"),
        ([PROMPT, "--raw", "--system", "w5"], "leave it out with --chat and --system"),
        (["--chat", "nowhere.json"], "--chat takes a file to read, got 'nowhere.json': No such file"),
        (["--chat", "text.json"], "--chat takes JSON, got 'text.json'"),
        (["--chat", "number.json"], "--chat takes a list of messages"),
        (["--chat", "empty.json"], "--chat takes a list of messages"),
        (["--chat", "bytes.json"], "'bytes.json' is no UTF-8 (byte 0xff)"),
        ([PROMPT, "--document", "a.txt"], "--document takes a file to read, got 'a.txt': No such file"),
        ([PROMPT, "--document", "-"], "--document takes FILE or NAME=FILE, got '-'"),
        ([PROMPT, "--document", "=a.txt"], "--document takes FILE or NAME=FILE"),
        ([PROMPT, "--document", "a="], "--document takes FILE or NAME=FILE"),
        ([PROMPT, "--document", "x/a.txt", "--document", "y/a.txt"], "each name once, got 'a.txt' twice"),
        ([PROMPT, "--document", "a=chat.json", "--document", "a=text.json"], "each name once, got 'a' twice"),
        ([PROMPT, "--document", "a=nowhere.txt"], "--document takes a file to read, got 'nowhere.txt'"),
        ([PROMPT, "--document", "a=bytes.json"], "'bytes.json' is no UTF-8 (byte 0xff): iconv -t utf-8"),
        ([PROMPT, "--document", "a=two.png"], "--document takes a text, no picture and no sound"),
        ([PROMPT, "--document", "a=."], "--document takes a file to read, got '.'"),
        (["-", "--document", "a=-"], "'-' is standard input, which can be read once"),
        ([PROMPT, "--by", "letter"], "--by is one of token, word, sentence"),
        ([PROMPT, "--by", "document"], "add --document FILE"),
        ([PROMPT, "--answer", "w8", "--max-new-tokens", "3"], "leave out --generate and --max-new-tokens"),
        ([PROMPT, "--answer", "w8", "--generate", "do_sample=true"], "leave out --generate and --max-new-tokens"),
        ([PROMPT, "--max-new-tokens", "0"], "--max-new-tokens"),
        ([PROMPT, "--generate", "x"], "--generate takes KEY=VALUE"),
        ([PROMPT, "-o", "max_new_tokens=3"], "use --max-new-tokens"),
        ([PROMPT, "-o", "documents=3"], "use --document"),
        ([PROMPT, "--png", "a.gif"], "ends in .png, .svg, .pdf"),
        ([PROMPT, "--save", "no/a"], "does not exist"),
    ],
)
def test_wrong_usage_is_exit_code_2_before_a_model_is_loaded(trace, tmp_path, monkeypatch, words, message):
    monkeypatch.setattr(tracing, "load", None)
    for name, text in {"chat": json.dumps(USER), "text": "Hi", "number": "3", "empty": "[]"}.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    (tmp_path / "two.png").write_bytes(b"\x89PNG\xff")
    result = trace(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--answer", ""], "an answer of at least one token"),
        (["--answer", "w8", "--method", "head_logits"], "did you mean 'head_logit'?"),
        (["--answer", "w8", "--exclude", "tool"], "expected --exclude first, 'template' or a role"),
        (["--answer", "w8 w9", "--foil", "w5 w6 w7"], "a foil of 2 tokens"),
        (["--answer", "w8", "-o", "readout=0"], "--readout means nothing for a trace"),
        (["--answer", "w8 " * 200], "at most 128 tokens"),
    ],
)
def test_errors_are_one_line_in_the_words_of_the_command_line(trace, words, message):
    said = one_line_error(trace(PROMPT, *words))
    assert message.replace("--readout", "readout=") in said, said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "line"], "lines cut nothing here"),
        (["--by", "paragraph"], "paragraphs cut nothing here"),
        (["--exclude", "tool"], "expected --exclude first, 'template' or a role"),
    ],
)
def test_what_cuts_nothing_is_refused_before_anything_is_generated(trace, monkeypatch, words, message):
    monkeypatch.setattr("mixlens.trace.calls.generated", None)
    assert message in one_line_error(trace(PROMPT, *words))


def test_a_role_that_the_template_refuses(trace, tmp_path):
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "tool", "content": "w5"}]))
    said = one_line_error(trace("--chat", "chat.json", "--answer", "w8"))
    assert "refuses these messages" in said and "no role tool" in said


def test_a_model_that_is_no_language_model(trace, tiny_bert_folder):
    said = one_line_error(trace("a film", "--answer", "bad", "-m", str(tiny_bert_folder), model=False))
    assert "expected a causal language model" in said


def test_the_default_is_the_embedded_chat_model(trace, monkeypatch, lens):
    asked = []
    monkeypatch.setattr(tracing, "load", lambda model: asked.append(model) or lens)
    assert trace(PROMPT, "--answer", ANSWER, model=False).exit_code == 0
    assert asked == ["mixlens:smollm2"]


@pytest.mark.slow
@smollm2.needed
def test_the_embedded_model_answers_out_of_a_document(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(tracing, "load", smollm2.load)
    (tmp_path / "guide.txt").write_text("The lighthouse of Orvel was built in 1871 by Mara Quint.")
    words = ("--document", "guide=guide.txt", "--max-new-tokens", "24", "--json", "-")
    data = shown(trace("When was the lighthouse of Orvel built?", *words, model=False))
    assert "1871" in data["answer"]["text"]
