"""Coloured text for LaTeX: nothing a text holds is a command."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from mixlens.errors import ResultFileError, UnknownOption
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


def test_a_caption_makes_a_float(film, tmp_path):
    bare = film.to_latex()
    text = film.to_latex(tmp_path / "f.tex", caption=r"Why? By \emph{ALTI}, 5\% of it.", label="fig:film_1")
    assert (tmp_path / "f.tex").read_text(encoding="utf-8") == text
    head, rest = bare.split("{\\setlength", 1)
    said = "\\caption{Why? By \\emph{ALTI}, 5\\% of it.}\n\\label{fig:film_1}\n\\end{figure}\n"
    assert text == head + "\\begin{figure}\n\\centering\n{\\setlength" + rest + said
    assert "\\label" not in film.to_latex(caption="x")


def test_a_tables_caption_stands_above():
    text = latex.floated("% note\n\\begin{tabular}{l}\n\\end{tabular}\n", "table", "A table", "tab:a")
    assert text.splitlines() == [
        "% note",
        r"\begin{table}",
        r"\centering",
        r"\caption{A table}",
        r"\label{tab:a}",
        r"\begin{tabular}{l}",
        r"\end{tabular}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    "caption",
    ["{", "}{", "a}", "5% of", "a\n\nb", "a\n \tb\n \nc", "a\r\n\r\nb", "a\r\rb", "\0", " ", "\\{{", "end\\", 5],
)
def test_a_caption_that_would_reach_beyond_itself(film, caption):
    with pytest.raises(UnknownOption, match="expected caption= one paragraph of LaTeX whose braces match"):
        film.to_latex(caption=caption)
    assert "\\caption{a\nb}" in film.to_latex(caption="a\nb")
    assert "\\caption{\\} 5\\% \\\\ {a}}" in film.to_latex(caption="\\} 5\\% \\\\ {a}")


def test_a_label_is_a_name_and_stands_in_a_caption(film):
    for label in ("", "a b", "a}", "é", "a%", 5):
        with pytest.raises(UnknownOption, match="expected label= letters, digits and : "):
            film.to_latex(caption="x", label=label)
    with pytest.raises(UnknownOption, match="expected caption= beside label=, got it alone: 'a'"):
        film.to_latex(label="a")
