"""Coloured text for LaTeX: nothing a text holds is a command."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from mixlens.errors import ResultFileError
from mixlens.view.kit import colors, latex


def test_words_stand_in_boxes_of_their_colours(film):
    text = film.to_latex()
    fill = colors.scale([0.34]).hex(0.34).upper()
    assert rf"\colorbox[HTML]{{{fill}}}{{\textcolor[HTML]{{000000}}{{\strut meaningful}}}}" in text
    assert r"\textcolor[HTML]{767676}{[CLS]}" in text
    assert text.startswith("% needs \\usepackage[T1]{fontenc} and \\usepackage{xcolor}")
    assert "% mixlens: globenc · target positive (logit)" in text


def test_blanks_are_where_the_text_has_them(film):
    body = re.sub(r"\\\w+(\[HTML\])?(\{[0-9A-F]{6}\})?|[{}]", "", film.to_latex().split("raggedright\n")[1])
    assert " ".join(body.replace("%\n", "").split()).replace(" .", ".") == "[CLS] a deep and meaningful film. [SEP]"


@pytest.mark.parametrize("char", "\\{}$&#_%~^")
def test_special_characters_are_escaped(char):
    escaped = latex.escape(f"a{char}b")
    assert escaped not in (f"a{char}b",)
    bare = re.sub(r"\\(?:text\w+\{\}|[{}$&#_%])", "", escaped)
    assert bare == "ab"


def test_pairs_of_signs_don_t_become_other_signs():
    assert latex.escape("--``,,?`") == "-{}-{}`{}`{},{},{}?{}`{}"


def test_comments_stay_on_their_line(nasty):
    lines = nasty.to_latex().splitlines()
    assert [line for line in lines if "evil" in line and not line.startswith("%")] == []
    body = "\n".join(line for line in lines if not line.startswith("%"))
    assert "\\input" not in body
    assert "\\evil" not in body
    assert body.count("{") - body.count("\\{") == body.count("}") - body.count("\\}")


def test_texts_of_a_pair_are_paragraphs(pair):
    assert pair.to_latex().count("\\par") == 2


def test_written_to_a_file(film, tmp_path):
    text = film.to_latex(tmp_path / "f.tex")
    assert (tmp_path / "f.tex").read_text(encoding="utf-8") == text
    with pytest.raises(ResultFileError, match="create it first"):
        film.to_latex(tmp_path / "none" / "f.tex")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("name", ["film", "signed", "pair", "nasty"])
def test_it_compiles(name, request, tmp_path):
    text = request.getfixturevalue(name).to_latex()
    (tmp_path / "t.tex").write_text("".join(c for c in text if c.isascii()), encoding="utf-8")
    main = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{xcolor}\begin{document}\input{t}\end{document}"
    (tmp_path / "m.tex").write_text(main, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "m.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    assert (tmp_path / "m.pdf").exists()
