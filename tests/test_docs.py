"""What the front pages say is so: tables, links, commands, and every block of code.

`python tests/test_docs.py` writes the tables of README.md anew.
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
import torch

import mixlens

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


EXAMPLES = {"README.md": {"film.html", "maps.png"}, "docs/evaluation.md": {"ranking.png", "evaluation.html"}}


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_print_what_stands_there(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(page, "python")
    (shown,) = blocks(page, "text")
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, page, "exec"), {})
    assert printed.getvalue() == shown
    assert {path.name for path in tmp_path.iterdir()} == EXAMPLES[page]


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
    stages = {fact["name"] for fact in mixlens.methods() if fact["stage"] != "aggregate"}
    # (a preset that is a mixing method rolled out is told of in the card of that method)
    assert titled <= stages
    assert stages - titled == {"attention_rollout", "norm_rollout"}
    assert all(f"`{name}`" in CARDS["rollout.md"] for name in stages - titled)


@pytest.mark.parametrize("page", CARDS)
def test_a_card_says_what_it_has_to(page):
    """Formula, source, cost, when to use it and when not, and where it departs from the authors' code."""
    card = CARDS[page]
    assert re.search(r"^    \S|^\| `rollout`", card, re.MULTILINE), "formula"
    for part in ("Source", "Cost", "Use it", "Not", "Authors' code"):
        assert re.search(rf"(\*\*|## (the )?){part}", card, re.IGNORECASE), part


# ---- CONTRIBUTING.md

# (blocks that begin with the path of a file are put there by tests/test_contributing.py)
METHOD, METHOD_LINE, AGGREGATION, AGGREGATION_LINE, MAPS_METHOD, SPEC, SPEC_LINE = (
    code for code in blocks("CONTRIBUTING.md", "python") if not code.startswith("# ")
)


def new_names(code: str, module: object = None) -> dict[str, object]:
    """What the code defines where it stands at the end of a module."""
    names = dict(vars(module)) if module is not None else {}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    return names


def new_line(code: str, names: dict[str, object]) -> tuple[str, object]:
    """The key and value of a line of a literal table."""
    ((key, value),) = eval(compile("{" + code + "}", "CONTRIBUTING.md", "eval"), names).items()
    return key, value


@pytest.mark.parametrize("code", blocks("CONTRIBUTING.md", "python"))
def test_examples_are_short(code):
    assert len(code.splitlines()) <= (30 if code.startswith("# ") else 20)


def test_adding_a_method(monkeypatch, tiny_bert_folder):
    from mixlens.mixing import table

    names = {**vars(table), **new_names(METHOD)}
    monkeypatch.setitem(table.MIXING, *new_line(METHOD_LINE, names))
    lens = mixlens.load(tiny_bert_folder)
    maps = lens.mixing(TEXT, method="norm_share", power=2.0)
    expected = lens.mixing(TEXT, method="norm").scores.double() ** 2
    torch.testing.assert_close(maps.scores.double(), expected / expected.sum(-1, keepdim=True), rtol=1e-5, atol=1e-7)
    assert lens.attribute(TEXT, method="norm_share+rollout").scores.sum() == pytest.approx(1)
    assert "norm_share" in [fact["name"] for fact in mixlens.methods()]


def test_adding_an_aggregation(monkeypatch, tiny_bert_folder):
    from mixlens.aggregate import functions
    from mixlens.results import maps as results

    names = new_names(AGGREGATION, functions)
    monkeypatch.setitem(functions.AGGREGATIONS, *new_line(AGGREGATION_LINE, names))
    added = new_names(MAPS_METHOD, results)["largest"]
    monkeypatch.setattr(results.LayerMaps, "largest", added, raising=False)
    lens = mixlens.load(tiny_bert_folder)
    maps = lens.mixing(TEXT, method="alti")
    largest = maps.largest()
    assert largest.aggregation == "largest"
    torch.testing.assert_close(largest.scores[-1], maps.scores.amax(0))
    assert lens.attribute(TEXT, method="alti+largest").method == "alti+largest"


def test_adding_an_architecture(monkeypatch):
    from transformers import Starcoder2Config, Starcoder2ForCausalLM

    from mixlens.architectures import families
    from mixlens.errors import SelfCheckFailed, UnknownArchitecture

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2}
        config = Starcoder2Config(**sizes, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0)
        model = Starcoder2ForCausalLM(config).eval()
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    with pytest.raises(UnknownArchitecture, match="starcoder2"):
        mixlens.load(model)
    wrong = new_names(SPEC.replace('norm="post_attention_layernorm"', 'norm="input_layernorm"'), families)
    monkeypatch.setitem(families.SPECS, *new_line(SPEC_LINE, wrong))
    with pytest.raises(SelfCheckFailed):
        mixlens.load(model)
    monkeypatch.setitem(families.SPECS, *new_line(SPEC_LINE, new_names(SPEC, families)))
    lens = mixlens.load(model)
    assert lens.check().passed
    assert lens.mixing([5, 6, 7, 8], method="alti").scores.shape == (2, 4, 4)


if __name__ == "__main__":
    page = read("README.md")
    for name, make in TABLES.items():
        found = table_in(page, name)
        page = page[: found.start(1)] + make() + page[found.end(1) :]
    (ROOT / "README.md").write_text(page, "utf-8")
