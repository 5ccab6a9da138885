"""A text to sentences by rule, for any script that marks their ends; no model, no list to download.

A sentence ends behind `.`, `!`, `?`, an ellipsis or another script's own mark (`。`, `؟`, `।` ...) with the quotes and
brackets that close there, or at a line's end. Where a point may be none, what stands around it decides: a figure or a
letter right behind it (3.14, os.path), an abbreviation (Dr., e.g., U.S.), an initial, a number that begins a list,
a small letter behind it. Code in backticks is not cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

_OPENING, _CLOSING = r"""["'*_\p{Pi}\p{Ps}]""", r"""["'*_\p{Pf}\p{Pe}]"""
_END = regex.compile(
    rf"(?P<mark>[.!?…]+|(?:(?![.!?])\p{{Sentence_Terminal}}|\uff0e)+[.!?…]*)(?P<closed>{_CLOSING}*(?:\[\d+\])*)"
)
_LINE = regex.compile(r"[^\S\n]*(?:\r?\n[^\S\n]*)+")
_CODE = regex.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", regex.DOTALL)
_NEXT = regex.compile(rf"\s*{_OPENING}*(?P<word>[\p{{L}}\p{{M}}'\u2019]+|\p{{N}}+|\S)?(?P<point>\.)?")
_BEFORE = regex.compile(
    r"(?<![^\s\p{Ps}\p{Pi}\"'])[\p{L}\p{M}](?:[\p{L}\p{M}]|\.(?=[\p{L}\p{M}])|['\u2019](?=\p{L}))*$"
)
_ITEM = regex.compile(r"\s*(?:[-*•‣◦\u2013—+>|#]|```|[(\[]?(?:\p{N}{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)\]]\s)")
_MARKER = regex.compile(rf"(?:.*[:;]\s*)?{_OPENING}*(?:\p{{N}}{{1,3}}|[a-zA-Z]|[ivxIVX]{{1,4}})", regex.DOTALL)

# What never ends a sentence, what does not before a figure, and what may end one: there, the next word decides.
_NEVER = set(
    "dr mr mrs ms mx prof st mt gen rep sen gov capt cpt lt col sgt maj cmdr adm rev hon pres messrs mmes "
    "e.g i.e cf vs viz approx incl resp esp eq eqs fig figs sec sect ch chap vol vols pp dept univ "
    "z.b d.h u.a v.a bzw vgl ggf evtl bsp hr fr dipl ing hrsg mme mlle mgr p.ex sra srta dra ud uds sig dott avv "
    "v.s t.ex bl.a".split()
)
_BEFORE_FIGURES = set(
    "no nos nr art p ca c jan feb mar apr jun jul aug sep sept oct nov dec tab abb ex op cap ref lit para ver".split()
)
_MAYBE = set(
    "etc inc ltd co corp bros jr sr esq u.s u.k u.n u.s.a e.u d.c l.a n.y a.m p.m ph.d m.d b.a m.a b.sc m.sc al ed eds "
    "est dist ave blvd rd bldg apt assn intl natl usw usf ff".split()
)
_STARTERS = set(
    "the this that these those there he she it we they i you his her its our their my your a an in on at by for from "
    "as if when while what why how who where which after before since then thus so but and or however no yes not is "
    "are was were do does did can could will would let another each both some many most all one two three".split()
)


def sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of a text as characters [start, end), without the blanks around them; none of a blank text.

    In a text without any capital (chats are often written so) a small letter may begin a sentence.
    """
    code = [match.span() for match in _CODE.finditer(text)]
    small = not regex.search(r"\p{Lu}", text)
    out: list[tuple[int, int]] = []
    start = 0
    for stop in [*_stops(text, code, small), len(text)]:
        inner = text[start:stop]
        if inner.strip():
            out.append((start + len(inner) - len(inner.lstrip()), stop - len(inner) + len(inner.rstrip())))
        start = stop
    return out


def _stops(text: str, code: list[tuple[int, int]], small: bool) -> Iterator[int]:
    """Where sentences end. Code is skipped, but a block of it stands alone."""
    start, marks = 0, sorted([*_END.finditer(text), *_LINE.finditer(text)], key=lambda match: match.start())
    blocks = {edge for a, b in code if text.startswith("```", a) for edge in (a, b)}
    edges = iter(sorted(blocks))
    edge = next(edges, None)
    for match in marks:
        while edge is not None and edge <= match.start():
            if edge > start:
                yield edge
                start = edge
            edge = next(edges, None)
        if match.start() < start or any(a <= match.start() < b for a, b in code):
            continue
        ends = _breaks(text, match, start) if "\n" in match[0] else _closes(text, match, start, small)
        if ends:
            yield match.end()
            start = match.end()
    while edge is not None:
        yield edge
        edge = next(edges, None)


def _breaks(text: str, line: regex.Match[str], start: int) -> bool:
    """Whether a line's end is a sentence's: at an empty line, before an item, and where no line was just wrapped."""
    if line[0].count("\n") > 1 or _ITEM.match(text, line.end()):
        return True
    before = text[start : line.start()].rstrip()[-1:]
    behind = text[line.end() : line.end() + 1]
    wrapped = bool(regex.match(r"\p{Ll}|[({\[&=,;]", behind)) or before in (",", ";", "-", "(", "[", "{", "&", "")
    return not wrapped


def _closes(text: str, match: regex.Match[str], start: int, small: bool) -> bool:
    mark, end = match["mark"], match.end()
    ascii_mark = all(c in ".!?…" for c in mark)
    behind = text[end : end + 1]
    if not ascii_mark:  # other scripts' marks need no blank behind them, and stand in no number but the wide point
        return not (mark == "\uff0e" and text[match.start() - 1 : match.start()].isdigit() and behind.isdigit())
    if behind and not behind.isspace() and not regex.match(r"[\p{Han}\p{Hiragana}\p{Katakana}]", behind):
        return False
    after = _NEXT.match(text, end)
    word = (after and after["word"]) or ""
    if not word:
        return True
    lower = bool(regex.match(r"\p{Ll}", word))
    if lower and not small and (mark[-1] in ".…" or match["closed"]):
        return False
    if mark != ".":
        return not (lower and match["closed"])
    if _MARKER.fullmatch(text[start : match.start()].strip()):
        return False  # "1. Open the door."
    return not _abbreviated(text[start : match.start()], word, bool(after and after["point"]))


def _abbreviated(before: str, word: str, point: bool) -> bool:
    """Whether the point behind `before` is an abbreviation's alone; `word` comes next (`point`: with its own)."""
    match = _BEFORE.search(before)
    if match is None:
        return False
    last, name = match[0], match[0].lower()
    begins = word.lower() in _STARTERS and not word.islower() and not (point and len(word) == 1)
    if name in _NEVER:
        return True
    if name in _BEFORE_FIGURES and word[0].isdigit():
        return True
    if name in _MAYBE or ("." in last and all(len(part) <= 2 for part in last.split("."))):
        return not begins
    return len(last) == 1 and last.isupper() and last != "I" and not begins  # an initial
