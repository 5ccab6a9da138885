"""The pages in a browser: clicks, keys, numbers, nothing fetched, nothing run that a token holds.

Skipped without Playwright's Python package and a Chromium (of the system, or `playwright install chromium`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens.measure.faithfulness import Faithfulness
from mixlens.results import Comparison, LayerMaps
from mixlens.view.comparison import agreement
from mixlens.view.kit.spelling import number
from models import pictures, towers, traces
from view.test_explained import written

pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def visit(browser, tmp_path: Path) -> Iterator[Any]:
    """A result's page in a window; at the end nothing may have been fetched, refused or gone wrong."""
    windows, wrong = [], []

    def go(result: Any, width: int = 1280, scheme: str = "light") -> Any:
        path = tmp_path / f"{len(windows)}.html"
        result.to_html(path)
        window = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        windows.append(window)
        page = window.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append("a dialog"))
        page.on("request", lambda request: request.url == path.as_uri() or wrong.append(request.url))
        page.goto(path.as_uri())
        page.locator(".view[data-live]").first.wait_for()
        return page

    yield go
    for window in windows:
        window.close()
    assert wrong == []


def values(page: Any, index: int = 0) -> np.ndarray:
    """What the pieces of a running text hold."""
    got = page.locator(".running").nth(index).locator(".piece").evaluate_all("all => all.map(e => e.dataset.value)")
    return np.array([float(v) for v in got])


def contrast(a: list[float], b: list[float]) -> float:
    def luminance(rgb: list[float]) -> float:
        linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


# ---- an attribution


def test_a_word_is_read_pinned_and_left(visit, film):
    page = visit(film)
    np.testing.assert_allclose(values(page)[4], 0.34, rtol=1e-6)
    word = page.locator(".piece", has_text="meaningful")
    word.hover()
    card = page.locator(".card")
    for fact in ("0.340", "58 % of all words'", "1st of 6", "meaning 0.220 + ful 0.120"):
        assert fact in card.inner_text(), fact
    page.mouse.move(5, 5)
    assert "Point at a word" in card.inner_text()
    word.click()
    page.mouse.move(5, 5)
    assert "pinned" in card.inner_text() and word.get_attribute("aria-selected") == "true"
    word.click()
    page.mouse.move(5, 5)
    assert "Point at a word" in card.inner_text() or "pinned" not in card.inner_text()


def test_the_keys_move_and_pin(visit, film):
    page = visit(film)
    page.locator(".piece[tabindex='0']").focus()
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused) == "a"
    for key, word in (
        ("ArrowRight", "deep"),
        ("ArrowRight", "and"),
        ("ArrowLeft", "deep"),
        ("End", "[SEP]"),
        ("Home", "[CLS]"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused) == word
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert "pinned" in page.locator(".card").inner_text()
    page.keyboard.press("Escape")
    assert "pinned" not in page.locator(".card").inner_text()


def test_the_threshold_fades_and_the_list_jumps(visit, film):
    page = visit(film)
    slider = page.locator("input[type=range]")
    slider.fill("50")
    assert "50 % of the largest: 1 of 6 words left" in page.locator(".slider").inner_text()
    assert page.locator(".piece:not(.special):not(.plain)").all_inner_texts() == ["meaningful"]
    slider.fill("0")
    top = page.locator(".rows button")
    assert [text.split("\n")[0] for text in top.all_inner_texts()] == ["meaningful", "deep", "film", ".", "a", "and"]
    top.nth(2).click()
    assert page.locator(".pinned").inner_text() == "film" == page.evaluate("document.activeElement.textContent")


def test_words_and_tokens(visit, film):
    page = visit(film)
    page.get_by_label("Tokens").check()
    np.testing.assert_array_equal(values(page), film.scores.float().numpy())
    assert page.locator(".piece").all_inner_texts()[4:6] == ["meaning", "ful"]


def test_every_class_has_its_probability(visit, film):
    known = {"prediction": "positive", "probabilities": {"negative": 0.25, "positive": 0.75}, "probability": 0.75}
    page = visit(replace(film, meta={**film.meta, **known}))
    assert [" ".join(text.split()) for text in page.locator(".chances li").all_inner_texts()] == [
        "positive 0.750",
        "negative 0.250",
    ]


def test_the_sign_is_said_without_colour(visit, signed):
    page = visit(signed)
    styles = page.locator(".piece").evaluate_all(
        "all => all.map(e => [e, getComputedStyle(e)]).map(([e, look]) => [e.textContent, look.textDecorationLine,"
        " look.textDecorationStyle, look.textDecorationThickness])"
    )
    look = {word: rest for word, *rest in styles}
    assert look["not"] == ["underline", "solid", "4px"] and look["bad"] == ["underline", "dashed", "3px"]
    assert look["a"][0] == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_what_is_soft_have_contrast(visit, signed, scheme):
    page = visit(signed, scheme=scheme)
    pairs = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(e => e.offsetParent && [...e.childNodes].some(
        n => n.nodeType === 3 && n.textContent.trim())).map(e => {
          let ground = e, color;
          do { color = getComputedStyle(ground).backgroundColor; ground = ground.parentElement; }
          while (ground && color === 'rgba(0, 0, 0, 0)');
          return [e.textContent.slice(0, 20), getComputedStyle(e).color, color];
        })"""
    )
    assert len(pairs) > 40
    for text, *colors in pairs:
        ink, ground = ([float(x) for x in re.findall(r"[\d.]+", color)[:3]] for color in colors)
        assert contrast(ink, ground) >= 4.5, (text, colors)


# ---- a trace


def test_the_prompt_lights_up_for_a_part_of_the_answer(visit):
    trace = traces.trace()
    page = visit(trace)
    words = page.locator(".running").first.locator(".piece")
    t = trace.answer.display.index("opens")
    words.nth(t).click()
    assert page.locator(".lead").inner_text() == "Where opens came from."
    page.get_by_label("Tokens").last.check() if page.get_by_label("Tokens").count() else None
    np.testing.assert_allclose(values(page, 1).sum(), trace.scores[t, : len(trace.prompt)].sum(), rtol=1e-5)
    page.get_by_label("Sentences").first.check()
    page.locator(".running").first.locator(".piece").first.click()
    first = trace.units("sentence").answer[0]
    rows = trace.scores[[i - len(trace.prompt) for i in first.indices], : len(trace.prompt)].double().mean(0)
    np.testing.assert_allclose(values(page, 1).sum(), rows.sum(), rtol=1e-5)


def test_the_answer_lights_up_for_a_document_and_a_token(visit):
    trace = traces.trace()
    page = visit(trace)
    first, last = trace.meta["documents"]["keys.txt"]
    page.locator(".rows button", has_text="keys.txt").click()
    np.testing.assert_allclose(values(page), trace.scores[:, first:last].sum(1), rtol=1e-5)
    assert page.locator(".rows button", has_text="keys.txt").get_attribute("aria-pressed") == "true"
    page.locator(".button", has_text="whole answer").click()
    page.locator(".running").nth(1).locator(".piece").nth(3).click()
    np.testing.assert_allclose(values(page), trace.scores[:, 3], rtol=1e-5)


def test_shares_of_documents_are_those_of_the_citations(visit):
    trace = traces.trace()
    page = visit(trace)
    page.get_by_label("Sentences").first.check()
    page.locator(".running").first.locator(".piece").first.click()
    shown = dict(text.split("\n")[:2] for text in page.locator(".rows").first.locator("button").all_inner_texts())
    shares = {source.name: f"{100 * source.share:.0f} %" for source in trace.citations(threshold=0)[0].sources}
    assert shown == shares


def test_a_contrast_is_taken_apart(visit):
    base = traces.trace(foil="Ġblue")
    scores = base.scores.clone()
    scores[:, ::2] *= -1
    page = visit(replace(base, scores=scores))
    whole = values(page, 1)
    page.get_by_label("For the answer").check()
    speaks = values(page, 1)
    page.get_by_label("For “blue”").check()
    against = values(page, 1)
    assert (speaks >= 0).all() and (against <= 0).all()
    np.testing.assert_allclose(speaks + against, whole, atol=1e-6)


# ---- maps


@pytest.fixture
def drawn(make_maps) -> LayerMaps:
    return make_maps(4, 9, rows_sum_to_one=True)


@pytest.mark.parametrize("residual", [True, False])
def test_the_rollout_of_the_page_is_the_librarys(visit, drawn, residual):
    maps = drawn if residual else replace(drawn, method="value_zeroing")
    rolled = maps.rollout().scores
    page = visit(maps)
    page.locator("input[value=rollout]").check()
    for layer in (4, 2, 1):
        page.locator("input[type=range]").fill(str(layer))
        page.locator(".lead", has_text=f"rollout up to layer {layer}").wait_for()
        for token in (0, 5):
            page.locator(".piece").nth(token).click()
            np.testing.assert_allclose(values(page), rolled[layer - 1, token], atol=1e-5)
    page.get_by_label("goes to").check()
    np.testing.assert_allclose(values(page), rolled[0, :, 5], atol=1e-5)


def test_the_switch_calls_a_position_what_it_is(visit, drawn):
    assert visit(drawn).locator("legend").all_inner_texts() == ["Layers", "The token", "Colours"]
    page = visit(pictures.lens("vit").mixing(pictures.image(), method="attention"))
    assert page.locator("legend").all_inner_texts() == ["Layers", "The patch", "Colours"]
    assert page.get_by_label("the picture; arrow keys move, Enter chooses a patch").count() == 1


def test_scaled_rollouts_heads_and_means(visit, make_maps):
    grown = replace(make_maps(3, 6), method="norm", scores=make_maps(3, 6).scores * 3)
    page = visit(grown)
    page.locator("input[value=rollout]").check()
    page.locator(".piece").nth(2).click()
    page.wait_for_timeout(300)
    np.testing.assert_allclose(values(page), grown.rollout().scores[-1, 2], atol=1e-5)
    page.locator("input[value=mean]").check()
    page.wait_for_timeout(300)
    np.testing.assert_allclose(values(page), grown.mean().scores[-1, 2], atol=1e-5)
    heads = make_maps(3, 6, heads=2, rows_sum_to_one=True)
    page = visit(heads)
    assert page.locator("input[value=rollout]").is_disabled()
    page.locator("select").select_option("1")
    page.locator("input[value=rollout]").check()
    page.locator(".piece").nth(2).click()
    page.wait_for_timeout(300)
    np.testing.assert_allclose(values(page), heads.rollout(head=1).scores[-1, 2], atol=1e-5)


def test_what_cannot_be_rolled_out_says_why(visit, drawn):
    page = visit(replace(drawn, signed=True))
    assert page.locator("input[value=rollout]").is_disabled()
    assert "signed" in page.locator("label", has_text="Rollout").get_attribute("title")


def test_the_diagonal_and_the_heat_map(visit, drawn):
    page = visit(drawn)
    page.locator(".piece").nth(3).click()
    page.get_by_label("Leave the diagonal out").check()
    assert np.isnan(values(page)[3]) and not np.isnan(values(page)[4])
    canvas = page.locator("canvas").first
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".lead").inner_text().startswith("What w3 takes")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] - 10, "y": 10})
    assert page.locator(".lead").inner_text().startswith("What [CLS] takes")
    page.get_by_label("zoom in").first.click()


def test_a_map_that_is_too_large_for_names_is_a_square_on_a_phone(visit, make_maps):
    page = visit(make_maps(2, 100), width=390)
    box = page.locator("canvas").first.bounding_box()
    assert 0.9 < box["height"] / box["width"] < 1.4
    # the name of the first row, which is chosen, keeps its upper half: ink near the top, left of the map
    upper = """canvas => { const copy = new OffscreenCanvas(28, 20);
        const pen = copy.getContext("2d", { willReadFrequently: true });
        pen.drawImage(canvas, 0, 0);
        const inked = (y) => pen.getImageData(0, y, 28, 1).data.some((v, i) => i % 4 === 3 && v > 120);
        return [...Array(20).keys()].find(inked); }"""
    assert 1 <= page.locator("canvas").first.evaluate(upper) <= 5
    named = visit(make_maps(2, 40), width=390).locator("canvas").first.bounding_box()
    assert named["height"] > 14 * 40  # as high as names need


# ---- comparisons and tables


def test_no_pair_of_two_texts_is_left_out(visit):
    alike = mixlens.load("mixlens:minilm").similarity("a fast car", "the quick automobile", "token_products")
    page = visit(alike)
    for i, word in enumerate(alike.streams[0].display):
        page.locator(".running").nth(0).locator(".piece").nth(i).click()
        assert word in page.locator(".lead").inner_text()
        assert np.allclose(values(page, 1), alike.scores[i].numpy(), rtol=0, atol=1e-7)


@pytest.mark.skipif(towers.TOO_OLD, reason="towers of older transformers are no models of their own")
def test_a_word_lights_up_its_patches_and_a_patch_its_words(visit):
    alike = towers.lens("CLIP").similarity("a red cat", pictures.image(60, 45))
    page = visit(alike)
    page.locator(".explorer .piece", has_text="cat").click()
    shown = page.locator(".explorer .patch")
    assert shown.count() == 25
    row = alike.scores[3, 1:].tolist()
    colours = page.evaluate("[...document.querySelectorAll('.explorer .patch')].map((p) => p.style.background)")
    assert [bool(colour) for colour in colours] == [abs(v) > 0 for v in row]
    box, sheet = shown.nth(7).bounding_box(), page.locator(".explorer .sheet img").bounding_box()
    assert box["x"] - sheet["x"] == pytest.approx(0.4 * sheet["width"], abs=1)
    assert box["y"] - sheet["y"] == pytest.approx(0.2 * sheet["height"], abs=1)
    shown.nth(7).click()
    assert "What patch 2,3 has in common with the words of the text." in page.locator(".explorer .lead").inner_text()
    values = page.evaluate(
        "[...document.querySelectorAll('.explorer .piece[data-value]')].map((p) => +p.dataset.value)"
    )
    assert values[:5] == pytest.approx(alike.scores[:, 8].tolist(), abs=1e-6)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "patch 3,3" in page.locator(".explorer .lead").inner_text()


@pytest.fixture(scope="module")
def toy(tiny_bert_folder: Path) -> mixlens.Table:
    texts = ["a deep film .", "not bad", "a very slow and bad film .", "meaningful and deep ."]
    return mixlens.evaluate(
        mixlens.load(str(tiny_bert_folder)), texts, ["alti", "saliency", "random"], ["aopc"], resamples=99
    )


def test_methods_sort_and_a_word_is_read_in_all(visit, film, signed):
    high, low = (Faithfulness(value, 0.5, 0.25, 0.625, 0.05) for value in (0.9, -0.2))
    made = {"b": film, "a": replace(film, scores=film.scores.flip(0)), "c": replace(film, scores=film.scores**2)}
    both = Comparison(made, {}, {"b": low, "a": high, "c": low})
    page = visit(both)
    names = page.locator(".methods .title .name")
    assert names.all_inner_texts() == ["a", "b", "c"]  # the most faithful first, others as asked
    page.get_by_label("As asked").check()
    assert names.all_inner_texts() == ["b", "a", "c"]
    page.locator(".running").first.locator(".piece").nth(4).hover()
    card = page.locator(".card").inner_text()
    assert "meaningful" in card and "0.340, 1st of 6" in card and card.count(" of 6") == 3
    cells = [float(text) for text in page.locator(".explorer .grid td").all_inner_texts()]
    np.testing.assert_allclose(cells, np.ravel(agreement(both)), atol=0.006)
    page.locator(".explorer .grid button", has_text="c").click()
    assert names.all_inner_texts() == ["b", "c", "a"]  # b has the same order of words


def test_a_table_sorts_and_sets_method_against_method(visit, toy):
    page = visit(toy)
    first = page.locator(".sorted tbody th")
    measure = toy.measures[0]
    best = list(toy.ranking(measure).names)
    assert first.all_inner_texts() == best
    assert page.locator(".sorted th[aria-sort=descending]").inner_text().startswith(measure)
    page.locator(".sorted thead button").nth(1).click()
    assert first.all_inner_texts() == best[::-1]
    (a, b), pair = next(iter(toy.ranking(measure).pairs.items()))
    page.get_by_label("First").select_option(label=b)
    page.get_by_label("Second").select_option(label=a)
    assert f"{number(-pair.difference)}, p = {number(pair.p)}" in page.locator(".forest").nth(1).inner_text()


# ---- every page


def results(request: Any) -> dict[str, Any]:
    film, make_maps = request.getfixturevalue("film"), request.getfixturevalue("make_maps")
    both = Comparison({"alti": film, "globenc": replace(film, scores=film.scores.flip(0))}, {}, {}, {})
    toy = request.getfixturevalue("toy")
    spoken = mixlens.embedded_sounds.held_out(1)[0].sound
    sound = mixlens.load("mixlens:tones").attribute(spoken, "alti", mixlens.Target(position=(0, 9)))
    shown = {"attribution": film, "trace": traces.trace(), "maps": make_maps(4, 9), "comparison": both, "table": toy}
    return {**shown, "sound": sound}


@pytest.mark.parametrize("kind", ["attribution", "trace", "maps", "comparison", "table"])
def test_nothing_hangs_over_at_390_pixels(visit, request, kind):
    page = visit(results(request)[kind], width=390)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("kind", ["attribution", "trace", "maps", "comparison", "table", "sound"])
def test_axe_finds_nothing(visit, browser, request, kind):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    window = browser.new_context(bypass_csp=True)  # for axe's own script
    page = window.new_page()
    page.goto(visit(results(request)[kind]).url)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator(".view[data-live]").first.wait_for()
        report = axe.run(page).response
        assert len(report["passes"]) > 10
        assert [(v["id"], v["nodes"][0]["html"]) for v in report["violations"]] == []
    window.close()


def test_axe_finds_nothing_on_the_page_of_a_data_set(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    path = tmp_path / "summary.html"
    mixlens.read(written(tmp_path / "run", specific=True)).to_html(path)
    window = browser.new_context(bypass_csp=True)
    page = window.new_page()
    page.goto(path.as_uri())
    for width, head in ((1280, "mean, interval | chance"), (390, "drawn")):
        page.set_viewport_size({"width": width, "height": 900})
        report = axe.run(page).response
        assert [(v["id"], v["nodes"][0]["html"]) for v in report["violations"]] == []
        assert page.locator("table.words thead th:last-child").first.inner_text() == head
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    window.close()


def test_what_is_too_wide_is_scrolled_by_keys(visit, request):
    page = visit(results(request)["table"], width=390)
    assert page.locator(".scroll[tabindex='0'], figure[tabindex='0']").count() > 0
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator(".scroll[tabindex], figure[tabindex]").first.wait_for(state="detached")
    assert page.locator(".scroll[tabindex], figure[tabindex]").count() == 0


def test_a_token_that_is_a_script_is_a_text(visit, nasty):
    page = visit(nasty)
    assert "</script><img src=x onerror=alert(1)>" in "".join(page.locator(".running").all_inner_texts())
    assert page.locator("main img").count() == 0
    evil = "</script><img src=x onerror=alert(1)>"
    page = visit(
        traces.trace(
            traces.tokens(f"{evil}. {evil}"),
            traces.tokens(evil + " A."),
            meta={"documents": {evil: (0, 5)}, "model": evil},
        )
    )
    page.locator(".rows button").first.click()
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("kind", ["attribution", "trace", "maps", "comparison", "table"])
def test_without_a_script_and_on_paper_the_still_page_is_there(visit, browser, request, tmp_path, kind):
    page = visit(results(request)[kind])
    assert page.locator(".static").first.is_hidden() and page.locator(".explorer").is_visible()
    page.emulate_media(media="print")
    assert page.locator(".static").first.is_visible() and page.locator(".explorer").is_hidden()
    window = browser.new_context(java_script_enabled=False)
    plain = window.new_page()
    plain.goto(page.url)
    assert plain.locator(".static").first.is_visible() and plain.locator(".explorer").count() == 0
    window.close()


def test_the_policy_stops_what_is_slipped_in(visit, browser, film, tmp_path):
    source = film.to_html().replace(
        "</main>", "<script>document.title = 'run'</script><img src='http://localhost:9/x.png'></main>"
    )
    (tmp_path / "slipped.html").write_text(source, encoding="utf-8")
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto((tmp_path / "slipped.html").as_uri())
    page.locator(".view[data-live]").wait_for()
    assert page.title() != "run" and sum("Content Security Policy" in text for text in refused) >= 2
    page.close()
