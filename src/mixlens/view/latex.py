"""Coloured text for a paper. Every character that means something to LaTeX is escaped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mixlens.escape import one_line, visible
from mixlens.files import put
from mixlens.view import colors, reading

if TYPE_CHECKING:
    from mixlens.results import Attribution

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "…": r"\ldots{}",
    "␣": r"\textvisiblespace{}",
    # two of these in a row would become one other sign
    "-": "-{}",
    "`": "`{}",
    "'": "'{}",
    ",": ",{}",
    "?": "?{}",
    "!": "!{}",
    "\n": " ",
    "\t": " ",
}

_RTL = (
    r"% needs \usepackage{bidi} (XeLaTeX; last of all) or \usepackage{luabidi} (LuaLaTeX) for text from right to left"
)


def attribution(attr: Attribution, path: str | os.PathLike[str] | None = None) -> str:
    r"""A group of `\colorbox`es to `\input`; written to `path` if given. Raises ResultFileError.

    The first comment line names the packages. Words without an escape in LaTeX (ideographs, emoji) are left as they
    are and need XeLaTeX or LuaLaTeX with a font that has them.
    """
    shown = reading.parts(attr)
    scale = reading.scale(shown)
    low, high = (reading.number(v) for v in scale.ends())
    hue = "blue to white to orange" if scale.signed else "white to orange"
    says, held = reading.says(attr), reading.held(shown)
    lines = [
        r"% needs \usepackage[T1]{fontenc} and \usepackage{xcolor}; XeLaTeX or LuaLaTeX for text beyond Latin scripts",
        *([_RTL] if _has_rtl(shown) else []),
        f"% mixlens: {comment(reading.heading(attr))}",
        *([f"% {comment(says)}"] if says else []),
        f"% colours: {hue} for {low} to {high}" + (f"; {comment(held)} and are grey" if held else ""),
        r"{\setlength{\fboxsep}{1.5pt}\raggedright",
    ]
    return put("\n".join([*lines, running(shown, scale) + r"\par}", ""]), path)


def running(shown: Sequence[reading.Part], scale: colors.Scale) -> str:
    """The words one behind the other in boxes of their colours; a text from right to left as such."""
    pieces = []
    for way, line in reading.lines(shown):
        text = _line(line, scale)
        pieces.append(f"\\begin{{RTL}}\n{text}\n\\end{{RTL}}" if way == "rtl" else text)
    return "\\par\n".join(pieces)


def _has_rtl(shown: Sequence[reading.Part]) -> bool:
    return any(way == "rtl" for way, _ in reading.lines(shown))


def _line(shown: Sequence[reading.Part], scale: colors.Scale) -> str:
    text = ""
    for i, part in enumerate(shown):
        if part.opens:
            pass
        elif part.before.strip(" \n\t"):
            text += f"\n{escape(part.before)}\n"
        elif part.before:
            text += "\n\\par\n" if "\n\n" in part.before else "\n"
        elif i:
            text += "\\allowbreak\n" if not part.text.isascii() else "%\n"
        text += _box(part, scale)
    return text


def tabular(heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: str | None = None) -> list[str]:
    r"""The lines of a tabular; the cells are LaTeX already. `kinds`: of the columns, the first left, others right.

    A row that begins with `[` or `*` would be an option of the `\\` before it, so an empty group stands in front.
    """
    body = ["{}" * row[0].startswith(("[", "*")) + " & ".join(row) + r" \\" for row in (heads, *rows)]
    start = [rf"\begin{{tabular}}{{{kinds or 'l' + 'r' * (len(heads) - 1)}}}", r"\toprule", body[0], r"\midrule"]
    return [*start, *body[1:], r"\bottomrule", r"\end{tabular}"]


def _box(part: reading.Part, scale: colors.Scale) -> str:
    word = escape(part.text)
    if part.special:
        return rf"\textcolor[HTML]{{767676}}{{{word}}}"
    fill, ink = scale.hex(part.score).upper(), scale.ink(part.score).upper()
    return rf"\colorbox[HTML]{{{fill}}}{{\textcolor[HTML]{{{ink}}}{{\strut {word}}}}}"


def escape(text: str) -> str:
    """Text with every character that means something to LaTeX written as itself."""
    return "".join(_ESCAPES.get(c, c) for c in visible(text))


def comment(text: str) -> str:
    """Text on one line, so that all of it stays behind the `%`."""
    return one_line(text)
