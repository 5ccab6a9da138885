"""A paper, and its BibTeX entry."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Paper:
    """A paper. `place`: its proceedings, or its journal, or its number at arXiv, as `kind` says."""

    authors: tuple[str, ...]
    title: str
    year: int
    place: str
    kind: Literal["inproceedings", "article", "arxiv"] = "inproceedings"

    def key(self) -> str:
        """As it is cited in LaTeX: `modarressi2022`."""
        last = self.authors[0].rpartition(" ")[2]
        return re.sub(r"[^a-z]", "", _plain(last).lower()) + str(self.year)

    def bibtex(self) -> str:
        """Its entry."""
        lines = [f"  author = {{{' and '.join(map(_latex, self.authors))}}}", f"  title = {{{{{_latex(self.title)}}}}}"]
        if self.kind == "arxiv":
            lines += [f"  eprint = {{{self.place}}}", "  archivePrefix = {arXiv}"]
        else:
            where = "journal" if self.kind == "article" else "booktitle"
            lines.append(f"  {where} = {{{_latex(self.place)}}}")
        lines.append(f"  year = {{{self.year}}}")
        return f"@{'misc' if self.kind == 'arxiv' else self.kind}{{{self.key()},\n" + ",\n".join(lines) + "\n}\n"


_SIGNS = {"\u0300": "`", "\u0301": "'", "\u0308": '"', "\u030a": "r ", "\u030c": "v ", "\u0303": "~", "\u0327": "c "}
_LETTERS = {"ł": r"{\l}", "Ł": r"{\L}", "ø": r"{\o}", "Ø": r"{\O}", "&": r"\&", "%": r"\%"}


def _latex(text: str) -> str:
    """In ASCII, as every BibTeX reads it."""
    out: list[str] = []
    for letter in unicodedata.normalize("NFD", text):
        if letter in _SIGNS:
            out[-1] = f"{{\\{_SIGNS[letter]}{out[-1]}}}"
        else:
            out.append(_LETTERS.get(letter, letter))
    return "".join(out)


def _plain(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
