"""The page as a notebook's widget: the same module, in a tree that the notebook's styles do not reach."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens.errors import MissingExtra, Undefined
from mixlens.results import Results
from mixlens.view import notebook
from mixlens.view.kit import sealed

anywidget = pytest.importorskip("anywidget", reason="the extra notebook is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages below anywidget


def test_a_widget_holds_the_page_and_what_stands_in_for_it(film):
    widget = mixlens.explore(film)
    assert "<main>" in widget.page and sealed.DATA in widget.page
    assert not re.search(r"<(body|html|head|meta|title|script type=.module)", widget.page)
    shown = widget._repr_mimebundle_()
    data = shown[0] if isinstance(shown, tuple) else shown
    assert data["text/html"] == film._repr_html_() and "application/vnd.jupyter.widget-view+json" in data
    assert "still" not in widget.get_state()  # it would go to the browser twice
    widget.close()


def test_every_style_of_a_page_is_there(film):
    framed = notebook.framed(film.to_html())
    style = re.search(r"<style>(.*)</style>", framed, re.S)[1]  # type: ignore[index]
    assert ":root" not in style and not re.search(r"(?m)^\s*body|\}\s*body", style)
    assert style.count(":host {") == film.to_html().count(":root {") and ".body.wide {" in style
    rules = re.findall(r'\[data-s="\d+"\]\[', style)
    assert len(rules) == len(set(re.findall(r'data-s="(\d+)"', framed.partition("</style>")[2])))


def test_a_list_and_a_wide_page_have_widgets(film, signed, maps):
    assert mixlens.explore(Results([film, signed])).page.count('class="view"') == 2
    assert '<div class="body wide">' in mixlens.explore(maps).page


def test_what_has_no_page_is_refused(film, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(Undefined, match=r"expected a result that has a page .* got str; a folder of explain_data"):
        mixlens.explore("film")  # type: ignore[arg-type]
    with pytest.raises(Undefined, match=r"a list of results as a call gives it\), got list;"):
        mixlens.explore([film])  # type: ignore[arg-type]
    with pytest.raises(Undefined, match="got type;"):
        mixlens.explore(type(film))  # type: ignore[arg-type]
    notebook._widget.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingExtra, match=r"explore\(\) needs the package anywidget.*\[notebook\]"):
        mixlens.explore(film)
    notebook._widget.cache_clear()


def test_the_module_writes_a_page_and_nothing_else():
    own = sealed.script("widget").removeprefix("".join(sealed._text(f"{name}.js") for name in sealed.MODULES))
    assert own.count("innerHTML") == 1 and 'root.innerHTML = model.get("page");' in own
    assert sealed.script("widget").count("export ") == 1 and "export" not in sealed.script()


HARNESS = """async ([module, page]) => {
  const made = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
  made.default.render({ model: { get: () => page }, el: document.getElementById("cell") });
}"""
NOTEBOOK = """<!doctype html><meta charset="utf-8">
<style>* { color: red } main, .view { display: none } .piece { font-size: 80px }</style><div id="cell"></div>"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_it_answers_in_a_notebook(browser: Any, film, nasty, tmp_path: Path):
    """Two widgets in one page whose styles would spoil them; nothing is fetched, and no token acts."""
    for result in (film, nasty):
        wrong: list[str] = []
        window = browser.new_context(viewport={"width": 700, "height": 900})
        page = window.new_page()
        page.on("console", lambda message, wrong=wrong: wrong.append(message.text))
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.on("dialog", lambda dialog, wrong=wrong: wrong.append("a dialog"))
        page.on("request", lambda request, wrong=wrong: wrong.append(request.url))
        page.set_content(NOTEBOOK)
        page.evaluate(HARNESS, [sealed.script("widget"), notebook.framed(result.to_html())])
        page.locator(".view[data-live]").first.wait_for()
        shown = page.locator(".running").first.locator(".piece").evaluate_all("all => all.map(e => e.dataset.value)")
        words = result.words()
        assert set(np.round([word.score for word in words], 5)) <= set(np.round(np.array(shown, float), 5))
        piece = page.locator(".piece").nth(1)
        assert piece.evaluate("e => getComputedStyle(e).fontSize") != "80px"
        assert page.locator("main").evaluate("e => getComputedStyle(e).display") == "block"
        piece.click()
        assert "pinned" in page.locator(".card").inner_text()
        page.locator(".piece[tabindex='0']").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".piece[tabindex='0']").inner_text() == page.locator(".piece").nth(2).inner_text()
        page.screenshot(path=tmp_path / "widget.png", full_page=True)
        window.close()
        assert [what for what in wrong if not what.startswith("blob:")] == []
