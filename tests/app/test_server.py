"""The pages: what answers, who is let in, and what is said where nothing can be answered."""

from __future__ import annotations

import asyncio
import gc
import html
import re
import resource
import threading
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason='needs the extra "app"')
pytest.importorskip("httpx", reason="needs httpx")

import httpx

import mixlens
from app.pages import TEXT, client, data, error
from mixlens.app import Models, application
from mixlens.app.models import EMBEDDED
from mixlens.app.verbs import VERBS
from mixlens.embedded import names
from mixlens.errors import OverBudget
from models import chats


@pytest.fixture(scope="module")
def asking(tiny_bert_folder):
    models = Models([str(tiny_bert_folder)])
    with client(models=models) as made:
        made.models, made.folder = models, tiny_bert_folder
        yield made


def test_every_embedded_model_is_offered():
    assert set(EMBEDDED) == set(names())
    assert {verb for _, verbs in EMBEDDED.values() for verb in verbs} == set(VERBS) - {"text-picture", "sound-trace"}


def test_the_form_is_there_before_anything_is_asked(asking):
    assert asking.get("/").headers["location"] == "/explain"
    for name in VERBS:
        page = asking.get(f"/{name}")
        assert page.status_code == 200 and f'action="/{name}"' in page.text
        inputs = re.findall(r'<(?:input|select|textarea) id="([\w-]+)"', page.text)
        assert len(inputs) >= 3 and all(f'<label for="{id}">' in page.text for id in inputs)


def test_the_answer_is_the_explorers_page_under_the_form(asking, tiny_bert_folder):
    page = asking.get("/explain", params={"text": TEXT, "method": "alti", "target": "negative"}).text
    expected = mixlens.load(tiny_bert_folder).attribute(TEXT, "alti", "negative").to_html()
    assert data(page) == data(expected)
    assert page.index("<form") < page.index("<h1>") and f"{TEXT}</textarea>" in page
    assert '<option value="alti" selected>' in page and 'value="negative"' in page
    command = (
        f"mixlens explain --model {tiny_bert_folder} --method alti --target negative --html answer.html -- '{TEXT}'"
    )
    assert command in html.unescape(page)
    (link,) = re.findall(r'href="(/explain\?[^"]*)"', page)
    again = asking.get(html.unescape(link)).text
    assert untimed(again) == untimed(page) and untimed(page) != page


def untimed(page: str) -> str:
    """A page without the seconds that it took."""
    return re.sub(r"Answered in [^<]*? s\b[^<.]*(\.\d+ s[^<.]*)?\.", "", page)


def test_what_an_answer_took_and_its_table(asking):
    page = asking.get("/explain", params={"text": TEXT, "method": "saliency"}).text
    (took,) = re.findall(r'<p class="soft took">(.*?)</p>', page, re.S)
    assert re.fullmatch(r"Answered in \d+\.\d+ s(, and \d+\.\d s until the model was loaded)?\. .*", took)
    assert "The method takes one pass forward and one backward. <a" in took
    table = r'href="data:text/csv;base64,([^"]*)" download="(.*?)"'
    lens, options = mixlens.load(asking.folder), {"text": TEXT, "method": "alti"}
    for verb, result in (("explain", lens.attribute(TEXT, "alti")), ("map", lens.mixing(TEXT, "alti"))):
        ((rows, name),) = re.findall(table, asking.get(f"/{verb}", params=options).text)
        assert (b64decode(html.unescape(rows)).decode(), name) == (result.to_csv(), f"{verb}.csv")
    compared = asking.get("/compare", params={"text": TEXT, "method": ["alti", "saliency"], "no_faithfulness": "on"})
    ((rows, name),) = re.findall(table, compared.text)
    result = lens.compare(TEXT, ["alti", "saliency"], faithfulness=False)
    assert (b64decode(html.unescape(rows)).decode(), name) == (result.to_csv(), "compare.csv")


def test_a_table_too_large_for_a_link_is_the_command_lines(asking, monkeypatch):
    monkeypatch.setattr("mixlens.app.pages.TABLE", 100)
    page = asking.get("/compare", params={"text": TEXT, "method": "alti", "no_faithfulness": "on"}).text
    assert "text/csv" not in page and "add --csv FILE to the command line" in page
    monkeypatch.setattr("mixlens.results.LayerMaps.to_csv", lambda maps: pytest.fail("written in vain"))
    page = asking.get("/map", params={"text": TEXT, "method": "alti"}).text
    assert "text/csv" not in page and "add --csv FILE to the command line" in page


@pytest.mark.parametrize("query", ["model=mixlens:digits", "model=mixlens:digits&text=a"])
def test_a_model_of_other_pages_is_told_with_ways_on(asking, query):
    """Also where nothing is asked yet: the form would be another model's."""
    response = asking.get(f"/trace?{query}")
    assert response.status_code == 400
    assert error(response) == (
        "'mixlens:digits' (reads a digit, 8 x 8 pixels and more) answers /picture, /picture-compare, /picture-map; "
        f"/trace is answered by {' or '.join(asking.models.of(VERBS['trace']))}"
    )
    (ways,) = re.findall(r'<p class="others">(.*?)</p>', response.text, re.S)
    links = re.findall(r'href="([^"]*)"', ways)
    assert links == [
        "/trace",
        *(f"/{name}?model=mixlens%3Adigits" for name in ("picture", "picture-compare", "picture-map")),
    ]
    assert all(asking.get(link).status_code == 200 for link in links)


def test_nobody_here_answers(monkeypatch):
    monkeypatch.setattr("mixlens.app.models.installed", lambda: ["digits"])
    with client() as asked_of:
        response = asked_of.get("/trace?model=mixlens:digits")
        assert error(response).endswith("/trace is answered by none that is here")
        assert "mixlens app MODEL" in html.unescape(response.text)


def test_a_page_may_do_no_more_than_the_explorers(asking):
    """Its scripts and styles by their hashes; and a form, to where it comes from."""
    response = asking.get("/explain", params={"text": "</textarea><script>alert(1)</script> ."})
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', response.text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'" and rules["form-action"] == "'self'" and "unsafe" not in policy
    assert rules["script-src"].count("sha256-") == response.text.count('<script type="module">') == 2
    assert "<script>alert" not in response.text
    assert response.headers["x-frame-options"] == "DENY" and response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/explain?mothod=alti", 400, "did you mean 'method'?"),
        ("/explain?text=a&method=altii", 400, "did you mean 'alti'?"),
        ("/explain?text=a&target=neutral", 400, "neutral"),
        ("/explain?text=" + "a+" * 40, 413, "positions"),
        ("/explain?text=" + "a" * 10_001, 413, "at most 10,000 characters"),
        ("/explain?text=%ff", 400, "percent-encoded UTF-8"),
        ("/explain?text=a&model=..%2f..", 400, "named when the app is started"),
        ("/trace?text=a&model={folder}", 400, "causal language model"),
        ("/trace?text=a&model={folder}&by=letter", 400, "expected by to be one of word, sentence"),
        ("/explain?text=a&option=steps", 400, "an option of the method as name=value, got 'steps'"),
        ("/explain?text=a&option=memory=1", 400, "got 'memory', which is none; see the form's fields"),
        ("/explain?text=a&option=layer=1&option=layer=0", 400, "each option once, got 'layer' twice"),
        ("/explain?text=a&method=alti&option=steps=3", 400, "alti would ignore the option 'steps'"),
        ("/map?text=a&option=queries=[0]", 400, "got 'queries', which is none"),
        ("/explain?text=a&stride=3", 400, "expected stride= beside window=, got it alone"),
        ("/explain?text=a&window=0", 400, "expected window from 1 to 100,000, got '0'"),
        ("/explain?text=a&word=a", 400, "a word is asked about of a token classifier"),
    ],
)
def test_what_cannot_be_answered_is_said(asking, tiny_bert_folder, path, status, words):
    response = asking.get(path.replace("{folder}", str(tiny_bert_folder)))
    assert response.status_code == status and words in error(response)


def test_an_error_leaves_what_was_typed_in_the_form(asking):
    text = "one\n\x1b\u202e<b>'\""
    response = asking.get("/explain", params={"text": text, "method": "nope"})
    (typed,) = re.findall(r'<textarea id="text-1"[^>]*>\n(.*?)</textarea>', response.text, re.S)
    assert html.unescape(typed) == text


def test_no_model_of_that_kind(monkeypatch):
    monkeypatch.setattr("mixlens.app.models.installed", list)
    with client() as nothing:
        assert "mixlens app MODEL" in html.unescape(nothing.get("/trace").text)
        assert "no model here answers trace" in error(nothing.get("/trace?text=a"))


class Broken(Models):
    """Whose model raises."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(["m"])
        self.fault = fault

    def lens(self, name: str) -> Any:
        raise self.fault


def test_what_nobody_foresaw_is_a_line_and_the_terminal_has_the_rest(caplog):
    with client(models=Broken(RuntimeError("the secret"))) as asked_of:
        response = asked_of.get("/explain?text=a")
    assert response.status_code == 500 and "secret" not in response.text
    assert error(response).startswith("unexpected RuntimeError; the terminal")
    assert "the secret" in caplog.text and "Traceback" in caplog.text


def test_what_does_not_fit_into_memory():
    with client(models=Broken(OverBudget("needs 2 TB"))) as asked_of:
        response = asked_of.get("/explain?text=a")
    assert response.status_code == 413 and error(response) == "needs 2 TB"


# ---- who is let in


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "words"),
    [
        ("POST", "/explain", {}, 405, "expected GET, got POST"),
        ("GET", "/explain", {"content-length": "5"}, 413, "expected no body"),
        ("GET", "/explain", {"transfer-encoding": "chunked"}, 413, "expected no body"),
        ("GET", "/explain", {"host": "evil.example"}, 421, "this machine's own name"),
        ("GET", "/explain", {"host": "localhost.evil.example:80"}, 421, "this machine's own name"),
        ("GET", "/explain", {"host": "[bad"}, 421, "this machine's own name"),
        ("GET", "/explain", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403, "another site"),
    ],
)
def test_who_is_not_let_in_is_told_why(asking, method, path, headers, status, words):
    response = asking.request(method, path, headers=headers)
    assert response.status_code == status and words in response.text and "<" not in response.text


def test_a_page_that_is_not_here_has_the_way_to_those_that_are(asking):
    response = asking.get("/nothing")
    assert response.status_code == 404 and "there are /explain, /compare" in error(response)
    assert '<a href="/trace"' in response.text


def test_who_is_let_in(asking):
    for host in ("localhost", "127.0.0.1:9000", "[::1]:8000"):
        assert asking.get("/explain", headers={"host": host}).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert asking.get("/explain", headers=link).status_code == 200


def test_a_token_is_asked_for_once(tiny_bert_folder):
    with client(tiny_bert_folder, hosts=None, token="s3cret", base="http://box.lan:8000") as outside:
        for query in ("", "?token=", "?token=s3cre", "?token=%ff%00é"):
            refused = outside.get(f"/explain{query}")
            assert refused.status_code == 401 and "expected the token" in refused.text
        let_in = outside.get("/explain?token=s3cret")
        assert (let_in.status_code, let_in.headers["location"]) == (303, "/explain")
        assert "HttpOnly" in let_in.headers["set-cookie"] and "SameSite=lax" in let_in.headers["set-cookie"]
        page = outside.get("/explain", params={"text": TEXT})
        assert page.status_code == 200 and "s3cret" not in page.text


# ---- many at once


class Slow(Models):
    """A model that answers when it is let; how often it was asked."""

    def __init__(self) -> None:
        super().__init__(["m"])
        self.go, self.begun, self.count = threading.Event(), threading.Event(), 0

    def lens(self, name: str) -> Any:
        def attribute(*_: Any, progress: Any, **__: Any) -> Any:
            self.count += 1
            self.begun.set()
            while not self.go.wait(0.01):
                progress(0, 1)
            return SimpleNamespace(to_html=lambda: f"<title></title><main>“{'x' * 100_000}”</main></body>")

        return SimpleNamespace(attribute=attribute)


def calls(models: Models, **settings: Any) -> Any:
    """A client of the app in this thread's event loop."""
    transport = httpx.ASGITransport(application(models, **settings))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None)


def test_more_than_may_wait_are_told_to_come_back():
    models = Slow()

    async def ask() -> list[Any]:
        async with calls(models, room=2) as asked_of:
            tasks = [asyncio.create_task(asked_of.get("/explain?text=a"))]
            await asyncio.to_thread(models.begun.wait, 5)
            tasks += [asyncio.create_task(asked_of.get("/explain?text=a")) for _ in range(5)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            models.go.set()
            return await asyncio.gather(*tasks)

    responses = asyncio.run(ask())
    full = [response for response in responses if response.status_code == 503]
    assert sorted(response.status_code for response in responses) == [200] * 3 + [503] * 3
    assert models.count == 3
    for response in full:
        assert re.fullmatch(r"2 questions wait already, .* try again in about \d+ s", error(response))
        assert int(response.headers["retry-after"]) >= 1


async def by_hand(app: Any, query: bytes, gone: asyncio.Event) -> list[Any]:
    """What is sent to who asks without a client, and is gone once `gone` is set."""
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/explain", "query_string": query, "root_path": ""}
    scope |= {
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "server": ("localhost", 80),
        "http_version": "1.1",
    }
    await app(scope, receive, send)
    return sent


def test_an_address_has_an_end():
    async def ask() -> list[Any]:
        return await by_hand(application(Models()), b"text=" + b"a" * 100_000, asyncio.Event())

    sent = asyncio.run(ask())
    assert sent[0]["status"] == 414 and b"at most 100,000 bytes, got 100,005" in sent[1]["body"]


def test_what_nobody_waits_for_is_not_done():
    """Not begun: never; begun: it ends with the next step that it reports."""
    models = Slow()

    async def ask() -> list[Any]:
        app, leave, stay = application(models), asyncio.Event(), asyncio.Event()
        begun = asyncio.create_task(by_hand(app, b"text=a", leave))
        await asyncio.to_thread(models.begun.wait, 5)
        waiting = asyncio.create_task(by_hand(app, b"text=a", leave))
        last = asyncio.create_task(by_hand(app, b"text=a", stay))
        await asyncio.sleep(0.05)
        leave.set()
        await asyncio.gather(begun, waiting)
        models.go.set()
        return await last

    sent = asyncio.run(ask())
    assert sent[0]["status"] == 200
    assert models.count == 2  # the one that had begun, and the last


@pytest.mark.slow
def test_models_in_memory_are_the_last_few(tiny_bert_folder, tmp_path):
    folders = [str(tiny_bert_folder)]
    for number in range(2):
        (tmp_path / f"m{number}").symlink_to(tiny_bert_folder)
        folders.append(str(tmp_path / f"m{number}"))
    models = Models(folders, kept=2)
    first, second = models.lens(folders[0]), models.lens(folders[1])
    assert models.lens(folders[0]) is first
    models.lens(folders[2])  # in place of the second
    assert models.lens(folders[0]) is first and models.lens(folders[1]) is not second


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
def test_a_hundred_at_once_lose_none(tiny_bert_folder):
    words = "a deep and meaningful film not bad good slow very".split()
    texts = [" ".join(words[k % 10 :] + words[: k // 10]) for k in range(100)]

    async def hundred() -> list[Any]:
        async with calls(Models([str(tiny_bert_folder)])) as asked_of:
            fields = ({"text": text, "method": "attention"} for text in texts)
            return await asyncio.gather(*(asked_of.get("/explain", params=each) for each in fields))

    responses = asyncio.run(hundred())
    for text, response in zip(texts, responses, strict=True):
        assert response.status_code == 200 and f"\n{text}</textarea>" in response.text
    assert len({data(response.text)[0] for response in responses}) == 100


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_and_leave_memory_flat():
    """Without the collector: a page is in no cycle."""
    models = Slow()
    models.go.set()

    async def rounds() -> list[int]:
        app, stay, held = application(models), asyncio.Event(), []
        for _ in range(3):
            answers = await asyncio.gather(*(by_hand(app, b"text=a", stay) for _ in range(100)))
            assert all(sent[0]["status"] == 200 and len(sent[1]["body"]) > 100_000 for sent in answers)
            held.append(resident())
        return held

    gc.collect()
    gc.disable()
    try:
        held = asyncio.run(rounds())
    finally:
        gc.enable()
    assert models.count == 300
    assert held[2] - held[1] < 4e6, held  # the pages of a round are 10 MB, and 20 as they are made


def test_a_trace(tmp_path):
    folder = chats.folder(tmp_path / "chat")
    with client(folder) as asked_of:
        fields = {"text": "w5 w6", "document": "w7 w8", "max_new_tokens": "2", "exclude": ["first", "template"]}
        page = asked_of.get("/trace", params={"model": str(folder), **fields})
        assert page.status_code == 200 and len(data(page.text)) == 1
        several = [("text", "w5 w6"), ("max_new_tokens", "2"), ("by", "document")]
        several += [("document_name", "guide"), ("document", "w7 w8"), ("document_name", "<b>"), ("document", "w9")]
        page = asked_of.get("/trace", params=[("model", str(folder)), *several])
        assert page.status_code == 200 and page.text.count("guide") > 3 and "<b>" not in page.text
        rows = re.findall(
            r'name="document_name" value="([^"]*)".*?<textarea[^>]*>\n([^<]*)</textarea>', page.text, re.S
        )
        assert rows == [("guide", "w7 w8"), ("&lt;b&gt;", "w9"), *[("", "")] * 6]
        whole = asked_of.get("/trace", params=[("model", str(folder)), *(each for each in several if each[0] != "by")])
        chat = [{"role": "user", "content": "w5 w6"}]
        documents = {"guide": "w7 w8", "<b>": "w9"}
        expected = mixlens.load(folder).trace(chat, documents=documents, max_new_tokens=2).to_html()
        assert data(whole.text) == data(expected) and expected.count("citation") > 0
        assert page.text.count("data-spare>") == 6
        assert 'class="documents" data-rows>' in page.text  # folded: the answer stands below
        assert "Documents to answer from: 2</summary>" in page.text and "<summary>More: 2 set</summary>" in page.text
        both = asked_of.get("/trace", params={"model": str(folder), **fields, "answer": "w9"})
        assert both.status_code == 400 and "nothing generated" in error(both)
