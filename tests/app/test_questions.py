"""What an address asks, what it is refused with, and the command line that says the same."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette", reason='needs the extra "app"')
pytest.importorskip("httpx", reason="needs httpx")

from app.pages import TEXT, client, data
from mixlens.app.questions import Question, pairs_of, question_of, quoted
from mixlens.cli import app
from mixlens.errors import InputError, TooLong, UnknownOption
from models import chats

NASTY = (
    'it\'s $(touch x) `touch y` "z" \\ !! ~ * ; & | #',
    "--help",
    "two\nlines\n",
    "\x1b[31mred\x1b[0m 'and' \\ \x07",
    "\u202egnp.exe",
    "中文 👩\u200d💻 é",
    "a=b",
    " ",
)
MODELS = {"m": "", "./n": ""}


def ask(name: str, **fields: str | list[str]) -> Question:
    pairs = [
        (key, value) for key, values in fields.items() for value in ([values] if isinstance(values, str) else values)
    ]
    return question_of(name, pairs, MODELS)


def test_a_link_asks_the_same_again():
    for text in NASTY:
        question = ask("explain", model="./n", text=text, target=text, truncate="on", foil="")
        link = urlsplit(question.link())
        assert question_of(link.path[1:], pairs_of(link.query.encode()), MODELS) == question
        assert question.get("text") == text and question.get("foil") is None


def test_a_shell_reads_the_words_back():
    """To the last character, and runs nothing of them; what steers a terminal does not stand there."""
    line = " ".join(map(quoted, NASTY))
    assert not set("\x1b\x07\u202e") & set(line)
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    run = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c {shlex.quote(show)} {line}"], capture_output=True, check=True
    )
    assert json.loads(run.stdout) == list(NASTY)


def test_a_command():
    question = ask("compare", model="./n", text="it's", method=["alti", "attcat"], target="-1", no_faithfulness="on")
    assert question.command() == (
        "mixlens compare --model ./n --method alti --method attcat --target -1 --no-faithfulness --html answer.html -- "
        "'it'\"'\"'s'"
    )
    traced = ask("trace", text="who?", document="it is w5", exclude=["first", "template"])
    assert traced.command() == (
        "printf '%s\\n' 'it is w5' | mixlens trace --document document=- --model m --exclude first --exclude template "
        "--html answer.html -- 'who?'"
    )


def test_documents_by_their_names():
    """A row whose two fields are empty is none, one without a name is called what it is."""
    names, texts = ["the guide", "", " menu ", ""], ["it's w5", "", "w7\n$x", "w8"]
    question = ask("trace", text="who?", document_name=names, document=texts)
    assert question.documents() == {"the guide": "it's w5", "menu": "w7\n$x", "document 3": "w8"}
    link = urlsplit(question.link())
    assert question_of("trace", pairs_of(link.query.encode()), MODELS) == question
    assert ask("trace", text="who?", document="w5").documents() == {"document": "w5"}
    assert ask("trace", text="who?").documents() is None


def test_a_shell_reads_several_documents():
    question = ask("trace", text="who?", document_name=["the guide", "-b"], document=["it's $x\n", "\x1b w7"])
    line = question.command()
    assert line.startswith("d=$(mktemp -d) && printf '%s\\n' 'it'\"'\"'s $x\n' > \"$d/1\" && printf ")
    show = "\n".join(('for x; do case $x in *=*) printf \'%s|\' "${x%%=*}"; cat "${x#*=}";; esac; done',))
    run = subprocess.run(["bash", "-c", f"mixlens() {{ {show}; }}; {line}"], capture_output=True, check=True, text=True)
    assert run.stdout == "the guide|it's $x\n\n-b|\x1b w7\n"


@pytest.mark.parametrize(
    ("names", "texts", "words"),
    [
        (["a", "a"], ["w5", "w6"], "each document by a name of its own, got 'a' twice"),
        (["", "document"], ["w5", "w6"], "each document by a name of its own, got 'document' twice"),
        (["a"], [""], "expected a text of the document 'a', got none"),
        (["a"], ["w5", "w6"], "expected a document_name for each document, got 1 and 2"),
        (["a=b"], ["w5"], "on one line without '='"),
        (["a\nb"], ["w5"], "on one line without '='"),
        ([""] * 9, ["w5"] * 9, "expected document at most 8 times, got 9"),
        (["a"], ["w" * 10_001], "at most 10,000 characters in document, got 10,001"),
        (["a" * 2_001], ["w"], "at most 2,000 characters in document_name, got 2,001"),
        (["a\0"], ["w"], "expected document_name without the character 0"),
    ],
)
def test_what_documents_are_refused(names, texts, words):
    with pytest.raises(InputError, match=words):
        ask("trace", text="a", document_name=names, document=texts)


@pytest.mark.parametrize(
    ("query", "words", "kind"),
    [
        (b"text=%ff", "percent-encoded UTF-8", InputError),
        (b"text", "percent-encoded UTF-8", InputError),
        (b"&".join([b"a=b"] * 41), "percent-encoded UTF-8", InputError),
        (b"text=", "expected a text, got none", InputError),
        (b"text=a&txet=b", "no field 'txet'; did you mean 'text'?", UnknownOption),
        (b"text=a&text=b", "text at most 1 times, got 2", InputError),
        (b"text=a%00b", "without the character 0", InputError),
        (b"text=-", "standard input", InputError),
        (b"text=" + b"a" * 10_001, "at most 10,000 characters in text, got 10,001", TooLong),
        (b"text=a&target=" + b"a" * 2_001, "at most 2,000 characters in target", TooLong),
        (b"text=a&model=/etc/passwd", "the models that are offered here (m, ./n), got", UnknownOption),
        (b"text=a&model=/etc/passwd", "a folder is offered if it is named when the app is started", UnknownOption),
    ],
)
def test_what_is_refused(query, words, kind):
    with pytest.raises(kind) as info:
        question_of("explain", pairs_of(query), MODELS)
    assert type(info.value) is kind and words in str(info.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"exclude": "all"}, "expected exclude to be one of first, template, got 'all'"),
        ({"exclude": ["first"] * 3}, "exclude at most 2 times"),
        ({"max_new_tokens": "0"}, "from 1 to 512, got '0'"),
        ({"max_new_tokens": "1e9"}, "from 1 to 512"),
    ],
)
def test_what_a_trace_is_refused(fields, words):
    with pytest.raises(InputError, match=words):
        ask("trace", text="a", **fields)


def test_where_no_model_answers():
    with pytest.raises(InputError, match="no model here answers trace; name one when the app is started"):
        question_of("trace", [("text", "a")], {})


CASES = {
    "explain": {
        "text": TEXT,
        "method": "grad_x_input",
        "target": "negative",
        "foil": "positive",
        "window": "6",
        "stride": "3",
        "option": ["absolute=true", "layer=1"],
    },
    "compare": {"text": TEXT, "method": ["alti", "saliency"]},
    "map": {"text": f"-{TEXT}", "pair": "not bad", "method": "value_zeroing"},
    "similarity": {"text": TEXT, "second": "a film", "method": "token_products"},
    "trace": {
        "text": "w5 w6",
        "document_name": ["guide", "the menu"],
        "document": ["w7 w8", "w9 w10"],
        "max_new_tokens": "3",
        "by": "word",
        "exclude": ["first", "template"],
    },
}


@pytest.mark.parametrize(
    "name", ["explain", *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != "explain")]
)
def test_the_command_writes_the_page_that_answers(name, tiny_bert_folder, tmp_path, monkeypatch):
    """Number for number; also of a text that looks like a flag."""
    folder = chats.folder(tmp_path / "chat") if name == "trace" else tiny_bert_folder
    if name == "similarity":
        folder = "mixlens:minilm"
    monkeypatch.chdir(tmp_path)
    with client(*([] if name == "similarity" else [folder])) as asked_of:
        response = asked_of.get(f"/{name}", params={"model": str(folder), **CASES[name]})
    assert response.status_code == 200, response.text
    words = [
        (key, value)
        for key, values in CASES[name].items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    question = question_of(name, [("model", str(folder)), *words], {str(folder): ""})
    command = question.command()
    for number, text in enumerate(CASES[name].get("document", ()), start=1):
        (tmp_path / str(number)).write_text(f"{text}\n", "utf-8")
    line = command.rpartition(" && ")[2].replace('"$d/', f'"{tmp_path}/')
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "answer.html").read_text("utf-8")
    assert data(page) and data(page) == data(response.text)
