"""What the front pages say is so: tables, links, commands, and every block of code.

`python tests/test_docs.py` writes the tables of README.md anew, and what `mixlens.methods()` and `measures()` read.
"""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from importlib.metadata import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, BertForTokenClassification

import mixlens
from mixlens import inventory
from models import smollm2

ROOT = Path(__file__).parent.parent
TEXT = "a deep and meaningful film."
STAGES = {
    "mixing": "Maps of every layer: `lens.mixing(text, method=...)`",
    "aggregate": "Several layers in one: `maps.rollout()` and its kin",
    "attribute": "One score a token: `lens.attribute(text, method=...)`",
}


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


# ---- README.md


def methods_table() -> str:
    """All methods by stage, from the facts."""
    lines: list[str] = []
    for stage, title in STAGES.items():
        lines += ["", f"**{title}**", "", "| name | what it is | from |", "| --- | --- | --- |"]
        for fact in mixlens.methods():
            if fact["stage"] == stage:
                lines.append(f"| `{fact['name']}` | {fact['summary']} | {fact['cite']} |")
    return "\n".join(lines[1:])


def models_list() -> str:
    """All model types, from the specs."""
    from mixlens.architectures import SPECS

    lines, line = [], ""
    for name in sorted(SPECS):
        if len(line) + len(name) + 4 > 120:
            lines.append(line)
            line = ""
        line += f"`{name}`, "
    return "\n".join(part.rstrip() for part in [*lines, line]).removesuffix(",") + "."


def measures_table() -> str:
    """All measures, from the facts."""
    lines = ["| name | what it says | range | better |", "| --- | --- | --- | --- |"]
    for fact in mixlens.measures():
        low, high = (str(end).replace("inf", "∞").removesuffix(".0") for end in fact["range"])
        better = {True: "higher", False: "lower", None: "-"}[fact["higher_is_better"]]
        lines.append(f"| `{fact['name']}` | {fact['summary']} | {low} to {high} | {better} |")
    return "\n".join(lines)


TABLES = {"methods": methods_table, "models": models_list, "measures": measures_table}


def table_in(page: str, name: str) -> re.Match[str]:
    found = re.search(
        rf"(?<=^<!-- {name}: )[^\n]* -->\n(.*?)\n(?=<!-- end of {name} -->$)", page, re.MULTILINE | re.DOTALL
    )
    assert found
    return found


@pytest.mark.parametrize("name", TABLES)
def test_readme_tables_are_the_facts(name):
    assert table_in(read("README.md"), name)[1] == TABLES[name](), "run: python tests/test_docs.py"


EXAMPLES = {
    "README.md": {"film.html", "maps.png"},
    "docs/evaluation.md": {"ranking.png", "evaluation.html"},
    "docs/data-sets.md": {"run", "row-36.html"},
    "docs/encoder-decoders.md": set(),
    "docs/pictures.md": {"digit.html", "digit.png"},
    "docs/similarity.md": {"alike.html", "cats.html"},
    "docs/speech.md": {"sentence.html", "sentence.png"},
    "docs/windows.md": {"review.html"},
}


RUN = {"docs/similarity.md": 2}  # blocks of a page; of others the first


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_print_what_stands_there(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for i in range(RUN.get(page, 1)):
        with redirect_stdout(StringIO()) as printed:
            exec(compile(blocks(page, "python")[i], page, "exec"), names)
        assert printed.getvalue() == blocks(page, "text")[i]
    assert {path.name for path in tmp_path.iterdir()} == EXAMPLES[page]


@pytest.mark.slow
def test_the_gallery_is_what_its_page_draws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in blocks("docs/figures.md", "python"):
        exec(compile(code, "docs/figures.md", "exec"), names)
    drawn = {path.name for path in tmp_path.iterdir()}
    gallery = {path.name for path in (ROOT / "docs" / "gallery").iterdir()}
    assert gallery == {name for name in drawn if name.endswith(".png")}
    assert set(re.findall(r"\(gallery/([\w.-]+)\)", read("docs/figures.md"))) == gallery
    assert {name for name in drawn if name.endswith(".pdf")} == {"column.pdf", "words.pdf", "both.pdf"}


@pytest.mark.slow
@smollm2.needed
def test_the_trace_prints_what_stands_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mixlens, "load", smollm2.load)
    code, shown = blocks("README.md", "python")[1], blocks("README.md", "text")[1]
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == shown
    assert (tmp_path / "trace.png").stat().st_size > 10_000


@pytest.mark.slow
@smollm2.needed
def test_the_documents_page_prints_what_stands_there(monkeypatch):
    monkeypatch.setattr(mixlens, "load", smollm2.load)
    names: dict[str, Any] = {}
    for code, shown in zip(blocks("docs/rag.md", "python"), blocks("docs/rag.md", "text"), strict=True):
        with redirect_stdout(StringIO()) as printed:
            exec(compile(code, "docs/rag.md", "exec"), names)
        assert printed.getvalue() == shown


@pytest.mark.slow
def test_the_questions_are_answered_by_what_stands_there(tmp_path, monkeypatch):
    """Of blocks that print; a model of a user's is a tiny one."""
    monkeypatch.chdir(tmp_path)
    load, tokenizer = mixlens.load, mixlens.load().tokenizer
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    user = BertForTokenClassification(BertConfig(vocab_size=len(tokenizer), num_labels=3, **sizes)).eval()
    monkeypatch.setattr(
        mixlens, "load", lambda *name: load(user, tokenizer) if "org/my-ner-model" in name else load(*name)
    )
    names: dict[str, Any] = {}
    shown: list[str] = []
    for code in blocks("docs/faq.md", "python"):
        with redirect_stdout(StringIO()) as printed:
            exec(compile(code, "docs/faq.md", "exec"), names)
        shown += [printed.getvalue()] if printed.getvalue() else []
    assert shown == blocks("docs/faq.md", "text")
    assert (tmp_path / "classes.html").stat().st_size > 50_000


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for block in blocks("README.md", "sh") for line in block.splitlines()])
def test_readme_commands(line, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from mixlens.cli import app

    monkeypatch.chdir(tmp_path)
    command = line.split(" && ")[-1].removeprefix(".venv/bin/")  # what stands before it, .ci/run does
    program, *words = shlex.split(command)
    if program == "mixlens":
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    else:
        assert program == "pytest"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["agreement", "masked_verb"])
def test_a_masked_model_prefers_the_right_word(name):
    (code,) = blocks("docs/tuned-models.md", "python")
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code.replace("mixlens:agreement", f"mixlens:{name}"), "tuned-models.md", "exec"), names)
    assert "are rather than is" in printed.getvalue()
    meta = names["found"].meta
    assert meta["target_probability"] > 10 * meta["foil_probability"]
    assert meta["probability"] < 0.01  # of the vocabulary's first: it says nothing, as the page says


PAGES = [str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]


def test_the_list_of_documents_has_every_page():
    listed = re.findall(r"\]\((docs/[\w-]+\.md)\)", read("README.md").partition("## More")[2].partition("## Citing")[0])
    assert set(listed) == {page for page in PAGES if page.startswith("docs/")}


def test_the_number_of_types_that_are_found_is_that_of_the_table():
    (count,) = re.findall(r"\[(\d+) more types\]", read("README.md"))
    assert f"in its table, {count} by a spec that is found" in read("docs/architectures.md")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"```.*?```", "", read(page), flags=re.DOTALL)):
        file, _, anchor = target.partition("#")
        path = (ROOT / page).parent / file if file else ROOT / page
        assert path.exists(), target
        titles = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE) if anchor else []
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles], target


CARDS = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs" / "methods").glob("*.md"))}


def test_no_link_is_broken_on_a_package_index():
    """There the page stands alone: its relative links and pictures are left out, their words and all else stay."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    hooks = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    assert hooks["fragments"] == [{"path": "README.md"}]
    shown = read("README.md")
    for rule in hooks["substitutions"]:
        shown = re.sub(rule["pattern"], rule["replacement"], shown)
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert links and all(link.startswith(("https:", "#")) for link in links), links
    assert "![" not in shown
    words = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", read("README.md"))
    assert shown.split() == re.sub(r"\[([^\]]+)\]\((?!#)[^)]*\)", r"\1", words).split()
    installed = metadata("mixlens")["Description"] or metadata("mixlens").get_payload()
    assert installed.startswith("# mixlens") and "](docs/" not in installed


def test_every_method_has_a_card():
    titles = " ".join(card.partition("\n")[0] for card in CARDS.values())
    titled = set(re.findall(r"`(\w+)`", titles))
    stages = {fact["name"] for fact in mixlens.methods() if fact["stage"] in ("mixing", "attribute")}
    # (a preset that is a mixing method rolled out is told of in the card of that method)
    assert titled <= stages
    assert stages - titled == {"attention_rollout", "norm_rollout"}
    assert all(f"`{name}`" in CARDS["rollout.md"] for name in stages - titled)


def test_the_page_of_similarity_has_every_method():
    page = (ROOT / "docs" / "similarity.md").read_text(encoding="utf-8")
    rows = "".join(line for line in page.splitlines() if line.startswith("| `"))
    assert all(f"`{fact['name']}`" in rows for fact in mixlens.methods() if fact["stage"] == "similarity")


@pytest.mark.parametrize("page", CARDS)
def test_a_card_says_what_it_has_to(page):
    """Formula, source, cost, when to use it and when not, and where it departs from the authors' code."""
    card = CARDS[page]
    assert re.search(r"^    \S|^\| `rollout`", card, re.MULTILINE), "formula"
    for part in ("Source", "Cost", "Use it", "Not", "Authors' code"):
        assert re.search(rf"(\*\*|## (the )?){part}", card, re.IGNORECASE), part


# ---- CONTRIBUTING.md (tests/test_contributing.py puts its blocks where they say)


@pytest.mark.parametrize("code", blocks("CONTRIBUTING.md", "python"))
def test_examples_are_short(code):
    assert len(code.splitlines()) <= 40
    assert code.startswith("# "), "where does it go?"


if __name__ == "__main__":
    (ROOT / "src" / "mixlens" / inventory.FILE).write_text(inventory.to_write(), "utf-8")
    page = read("README.md")
    for name, make in TABLES.items():
        found = table_in(page, name)
        page = page[: found.start(1)] + make() + page[found.end(1) :]
    (ROOT / "README.md").write_text(page, "utf-8")


def test_what_is_to_be_cited_is_this_version():
    assert f"\nversion: {mixlens.__version__}\n" in read("CITATION.cff")
