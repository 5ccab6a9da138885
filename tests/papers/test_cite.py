"""BibTeX of methods and measures: each has its paper, an entry is whole, and nothing is in it that nobody checked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

import mixlens
from cli.typed import one_line_error
from mixlens.cli import app
from mixlens.errors import UnknownMethod
from mixlens.papers import papers_of
from mixlens.papers.table import PAPERS

ENTRY = re.compile(r"@(\w+)\{(\w+),\n((?:  \w+ = \{.*\},?\n)+)\}\n")
NONE = {"-", "mixlens", "second difference of the cosine"}  # what is our own, or a plain baseline


def facts():
    return [*mixlens.methods(), *mixlens.measures()]


def test_every_method_and_measure_says_its_papers():
    for fact in facts():
        count = len(fact["cite"].split(";"))
        assert len(papers_of(fact["cite"])) == (0 if fact["cite"] in NONE else count), fact["cite"]
    assert {key for fact in facts() for key in papers_of(fact["cite"])} == set(PAPERS)  # and none is there in vain


def test_an_entry_is_whole_and_in_ascii():
    entries = [source.bibtex() for source in PAPERS.values()]
    assert len({ENTRY.fullmatch(entry)[2] for entry in entries}) == len(PAPERS)
    for (named, source), entry in zip(PAPERS.items(), entries, strict=True):
        kind, key, body = ENTRY.fullmatch(entry).groups()
        fields = dict(re.findall(r"  (\w+) = \{(.*)\}", body))
        where = {"inproceedings": "booktitle", "article": "journal", "misc": "eprint"}[kind]
        assert set(fields) == {"author", "title", where, "year"} | ({"archivePrefix"} if kind == "misc" else set())
        assert named.endswith(fields["year"]) and key.endswith(fields["year"])
        assert entry.isascii() and entry.count("{") == entry.count("}")
        last = source.authors[0].rpartition(" ")[2]
        assert named.startswith((last, last.replace("ö", "oe"), "DePass"))


def test_by_hand():
    place = (
        "Proceedings of the 17th Conference of the European Chapter of the Association for Computational Linguistics"
    )
    entry = (
        "@inproceedings{mohebbi2023,\n"
        "  author = {Hosein Mohebbi and Willem Zuidema and Grzegorz Chrupa{\\l}a and Afra Alishahi},\n"
        "  title = {{Quantifying Context Mixing in Transformers}},\n"
        f"  booktitle = {{{place}}},\n  year = {{2023}}\n}}\n"
    )
    given = mixlens.cite("value_zeroing")
    assert given.startswith("% value_zeroing: Mohebbi 2023, Eq. 10\n@misc{mixlens,\n")
    assert given.endswith("}\n\n" + entry)
    assert PAPERS["Edin 2025"].bibtex().splitlines()[1].endswith(r"and Jing Huang and Lars Maal{\o}e},")
    assert "Gr{\\'e}goire Montavon and Klaus-Robert M{\\\"u}ller" in PAPERS["Ali 2022"].bibtex()
    assert r"Information \& Knowledge" in PAPERS["Barkan 2021"].bibtex()


def test_several_names_have_one_entry_each():
    given = mixlens.cite("globenc+rollout", "rise", "globenc", "random")
    keys = ["mixlens", "modarressi2022", "abnar2020", "petsiuk2018", "pan2026"]
    assert re.findall(r"^@\w+\{(\w+)", given, re.M) == keys
    assert "% rollout: Abnar & Zuidema 2020, Eq. 1\n" in given and "% random: no paper but mixlens\n" in given
    assert mixlens.cite() == "@misc{mixlens," + mixlens.cite("random").partition("@misc{mixlens,")[2]
    assert re.findall(r"^@\w+\{(\w+)", mixlens.cite("alti+layer:-1"), re.M) == ["mixlens", "ferrando2022"]


def test_a_name_that_is_none():
    with pytest.raises(UnknownMethod, match="no method or measure 'globenk'; did you mean 'globenc'"):
        mixlens.cite("globenk")
    with pytest.raises(UnknownMethod, match="known are: alti, alti_logit, anisotropy"):  # each once
        mixlens.cite("")
    name: Any = ["alti"]
    with pytest.raises(UnknownMethod, match=r"expected names of methods and measures, each a str, got \['alti'\]"):
        mixlens.cite(name)


def test_on_the_command_line():
    runner = CliRunner()
    result = runner.invoke(app, ["cite", "globenc", "aopc"])
    assert (result.exit_code, result.output) == (0, mixlens.cite("globenc", "aopc"))
    assert "did you mean 'aopc'" in one_line_error(runner.invoke(app, ["cite", "aop"]))
    shown = runner.invoke(app, ["methods", "globenc", "--json"])
    assert {fact["cite"] for fact in json.loads(shown.output)} >= {"Modarressi 2022"}
