"""Coloured words and tables in LaTeX. Every character that means something to LaTeX is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from mixlens.errors import UnknownOption
from mixlens.escape import one_line, visible
from mixlens.view.kit import colors, words

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


def require_float(caption: str | None, label: str | None) -> None:
    """Raises UnknownOption for a caption or a label that LaTeX would not take."""
    if caption is None and label is not None:
        raise UnknownOption(f"expected caption= beside label=, got it alone: {label!r:.80} would be the section's")
    if caption is not None and not (isinstance(caption, str) and _paragraph(caption)):
        expected = r"one paragraph of LaTeX whose braces match (a percent sign is \%)"
        raise UnknownOption(f"expected caption= {expected}, got {caption!r:.80}")
    if label is not None and not (isinstance(label, str) and re.fullmatch(r"[\w:.+/-]+", label, re.ASCII)):
        raise UnknownOption(f"expected label= letters, digits and : . + / - _, got {label!r:.80}")


def floated(text: str, kind: Literal["table", "figure"], caption: str | None, label: str | None) -> str:
    r"""What `to_latex` gives as a float with a caption, or as it is without one; comments in front stay there.

    `caption` is LaTeX as it stands, above a table and below a figure; `label`: of `\ref`. Raises UnknownOption.
    """
    require_float(caption, label)
    if caption is None:
        return text
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("%"))
    caption_lines = [rf"\caption{{{caption}}}", *([] if label is None else [rf"\label{{{label}}}"])]
    body = [*caption_lines, *lines[first:]] if kind == "table" else [*lines[first:], *caption_lines]
    parts = [*lines[:first], rf"\begin{{{kind}}}", r"\centering", *body, rf"\end{{{kind}}}"]
    return "\n".join([*parts, ""])


def _paragraph(text: str) -> bool:
    """Whether LaTeX ends where it ends: nothing of what follows is in a group or a comment of its."""
    bare = re.sub(r"\\.", "", text, flags=re.DOTALL)
    depths = list(accumulate(({"{": 1, "}": -1}.get(c, 0) for c in bare), initial=0))
    whole = min(depths) == 0 == depths[-1] and not bare.endswith("\\")
    apart = re.search(r"(\r\n?|\n)[ \t]*[\r\n]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text)  # or no sign of LaTeX's
    return whole and "%" not in bare and apart is None and bool(text.strip())


def running(shown: Sequence[words.Part], scale: colors.Scale) -> str:
    """The words one behind the other in boxes of their colours; a text from right to left as such."""
    pieces = []
    for direction, line in words.lines(shown):
        text = _line(line, scale)
        pieces.append(f"\\begin{{RTL}}\n{text}\n\\end{{RTL}}" if direction == "rtl" else text)
    return "\\par\n".join(pieces)


def has_rtl(shown: Sequence[words.Part]) -> bool:
    """Whether a text runs from right to left."""
    return any(direction == "rtl" for direction, _ in words.lines(shown))


def _line(shown: Sequence[words.Part], scale: colors.Scale) -> str:
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


def _box(part: words.Part, scale: colors.Scale) -> str:
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
