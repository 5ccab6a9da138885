"""The form in a browser: by keys alone, at two widths, in light and dark; Cancel; nothing refused by the policy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason='needs the extra "app"')
pytest.importorskip("httpx", reason="needs httpx")
pytest.importorskip("playwright.sync_api", reason="needs playwright")

import uvicorn
from PIL import Image

from app.pages import TEXT
from mixlens import embedded_pictures
from mixlens.app import Models, application

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


class Stuck(Models):
    """Beside the models a method's name that never ends."""

    stopped = 0

    def lens(self, name: str) -> Any:
        lens = super().lens(name)

        def attribute(text: Any, method: Any, *more: Any, progress: Any, **options: Any) -> Any:
            if method != "random":
                return lens.attribute(text, method, *more, progress=progress, **options)
            try:
                while True:
                    time.sleep(0.01)
                    progress(0, 1)
            finally:
                self.stopped += 1

        return SimpleNamespace(attribute=attribute, compare=lens.compare, subject=lens.subject, head=lens.head)


@pytest.fixture(scope="module")
def served(tiny_bert_folder) -> Iterator[Any]:
    models = Stuck([str(tiny_bert_folder)])
    config = uvicorn.Config(application(models), port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield SimpleNamespace(url=f"http://127.0.0.1:{port}", models=models)
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def page(browser, served) -> Iterator[Any]:
    """A window; at the end nothing may have gone wrong or been asked of others."""
    wrong: list[str] = []
    window = browser.new_context(viewport={"width": 1280, "height": 900})
    made = window.new_page()
    made.on("console", lambda message: wrong.append(message.text))
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("request", lambda request: request.url.startswith(served.url) or wrong.append(request.url))
    yield made
    window.close()
    assert wrong == []


def test_a_text_is_typed_and_answered_by_keys_alone(page, served):
    page.goto(f"{served.url}/")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "text":
            break
    page.keyboard.type(TEXT)
    page.keyboard.press("Control+Enter")
    page.locator(".view[data-live]").first.wait_for()
    assert page.locator("textarea[name=text]").input_value() == TEXT
    assert page.locator(".piece").count() == len(TEXT.split()) + 2
    page.locator(".again summary").click()
    assert page.locator(".again code").inner_text().startswith("mixlens explain --model ")
    with page.expect_navigation():
        page.locator("[data-link]").click()
    page.locator(".view[data-live]").first.wait_for()


@pytest.mark.parametrize("width", [1280, 390])
def test_an_answer_is_in_sight_and_has_the_focus(page, served, width):
    page.set_viewport_size({"width": width, "height": 720})
    page.goto(f"{served.url}/explain?text={TEXT}&target=negative&foil=positive")
    page.locator(".view[data-live]").first.wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H1"
    place = page.evaluate("document.querySelector('main h1').getBoundingClientRect().top")
    assert 0 <= place < 240
    page.evaluate("scrollTo(0, 0)")
    page.reload()
    page.locator(".view[data-live]").first.wait_for()
    assert page.evaluate("document.activeElement.tagName") == "BODY"  # where it was left
    page.goto(f"{served.url}/explain")
    assert page.evaluate("scrollY") == 0


def test_cancel_drops_the_work(page, served):
    page.goto(f"{served.url}/explain")
    page.locator("textarea[name=text]").fill(TEXT)
    page.locator("select[name=method]").select_option("random")
    later = "setTimeout(() => document.querySelector('[data-cancel]').click(), 500)"  # (Playwright waits for answers)
    page.evaluate(f"document.querySelector('.app form').addEventListener('submit', () => {later}, {{once: true}})")
    page.locator(".act").click(no_wait_after=True)
    page.wait_for_function("document.querySelector('[data-status]').textContent === 'Cancelled.'")
    assert page.locator("[data-status]").inner_text() == "Cancelled."
    for _ in range(100):
        if served.models.stopped:
            break
        page.wait_for_timeout(50)
    assert served.models.stopped == 1
    page.locator("select[name=method]").select_option("attention")
    page.locator(".act").click()
    page.locator(".view[data-live]").first.wait_for()  # who comes next is answered


def test_a_file_is_chosen_and_answered(page, served, tmp_path):
    picture = tmp_path / "seven.png"
    Image.fromarray(embedded_pictures.held_out()[3][0]).save(picture)
    (tmp_path / "large.png").write_bytes(b"0" * 11_000_000)
    page.goto(f"{served.url}/picture")
    page.locator("select[name=model]").select_option("mixlens:digits")
    page.locator("[type=file]").set_input_files(tmp_path / "large.png")
    message = page.locator("[type=file]").evaluate("input => input.validationMessage")
    assert message == "expected a file of at most 10 MB, got 11.0 MB"
    page.locator("[type=file]").set_input_files(picture)
    page.locator(".act").click()
    page.locator(".again").wait_for()
    assert page.locator(".again code").text_content().endswith("-- seven.png")
    assert page.locator("main img, main svg").count() > 0


def test_a_table_is_taken_along(page, served, tmp_path):
    page.goto(f"{served.url}/picture-compare?model=mixlens:digits&method=alti&no_faithfulness=on")
    Image.fromarray(embedded_pictures.held_out()[3][0]).save(tmp_path / "seven.png")
    page.locator("[type=file]").set_input_files(tmp_path / "seven.png")
    page.locator(".act").click()
    with page.expect_download() as download:
        page.locator(".took a").click()
    download.value.save_as(tmp_path / "t.csv")
    assert download.value.suggested_filename == "picture-compare.csv"
    assert (tmp_path / "t.csv").read_text("utf-8").startswith("method,index,token")


def test_documents_are_added_and_taken_away(page, served):
    page.goto(f"{served.url}/trace")
    page.locator(".documents summary").click()
    rows = page.locator(".document:visible")
    assert rows.count() == 1
    for number in range(2, 9):
        page.locator("[data-more]").click()
        assert rows.count() == number
    assert not page.locator("[data-more]").is_visible()
    rows.nth(1).locator("textarea").fill("gone")
    rows.nth(1).locator("[data-less]").click()
    assert rows.count() == 7 and page.locator("#document-2").input_value() == ""
    assert page.locator("[data-more]").is_visible()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_cut(browser, served, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    window = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    made = window.new_page()
    for path in (
        "/explain",
        "/compare",
        "/trace?document_name=a&document=b",
        "/picture",
        "/picture-compare",
        "/text-picture",
        "/sound-map",
        "/sound-trace",
        "/trace?model=mixlens:digits",
        f"/compare?text={TEXT}&method=alti&no_faithfulness=on",
        f"/explain?text={TEXT}&target=negative&foil=positive",
        "/explain?text=",
        "/nothing",
    ):
        made.goto(served.url + path)
        report = axe.run(made).response
        assert [(v["id"], v["nodes"][0]["html"]) for v in report["violations"]] == []
        assert made.evaluate("document.documentElement.scrollWidth") <= width
    window.close()
