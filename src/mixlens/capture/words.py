"""Tokens to words, by their place in the raw text (no tokenizer has to be asked); frames to words, by their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import regex

from mixlens.capture.sound import Sound
from mixlens.capture.stream import Place, Stream
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, Undefined

# A word: one ideograph, or letters and figures (with marks, joiners, inner apostrophes, inner points between figures),
# or one user-perceived character of anything else, so that an emoji of several code points is one. The scripts that
# are written without blanks are taken out of the letters, or a Latin name would swallow the ideographs behind it.
_ALONE = r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}"
_INNER = rf"[[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d]--[{_ALONE}]]+"
_WORD = regex.compile(
    rf"[{_ALONE}][\p{{M}}ー]*"
    rf"|{_INNER}(?:(?:['\u2019](?=\p{{L}})|(?<=\p{{N}})[.,](?=\p{{N}})){_INNER})*"
    r"|(?!\s)\X",
    regex.VERSION1,
)
_CHARACTER = regex.compile(r"\X")  # user-perceived


@dataclass(frozen=True)
class Unit:
    """A word of the text, or one special token: `indices` are its tokens.

    Of a sound `indices` are frames, `place` is the seconds where a word begins and ends, and a pause is special.
    """

    text: str
    indices: tuple[int, ...]
    segment: int | None = None
    start: int | None = None
    end: int | None = None
    special: bool = False
    place: Place | None = None
    before: str = ""  # of its text, what no unit covers between the one before and this one


def units(tokens: Stream) -> tuple[Unit, ...]:
    """The words of a tokenised text, or of a sound, in order; special tokens stand alone, and so do pauses.

    Pieces are put together when one word of the raw text holds them, or when they share a character (a byte-split
    character is one unit). A token of blanks alone goes with the word behind it, as the blank of `"Ġfilm"` does (at
    the end of a text with the last word). Raises InputError without offsets, Undefined
    for a stream that has none, InputError for a sound of which nobody says what is said when.
    """
    if isinstance(tokens, Sound):
        return _spoken(tokens)
    if not isinstance(tokens, Tokens):
        raise Undefined(
            f"words are a text's, and this is a row of {tokens.units}; read .scores by position: .source.names and "
            ".source.places say which is which"
        )
    if tokens.spans is None:
        raise InputError(
            "words need offsets into a text: explain a str with a fast tokenizer, not token ids or a slow tokenizer"
        )
    homes = [_homes(text) for text in tokens.text]
    out: list[list[int]] = []
    blank: list[int] = []
    last: tuple[int, int] | None = None  # segment and the last word touched
    reach = -1
    for i, span in enumerate(tokens.spans):
        if blank and (span is None or tokens.spans[blank[0]][0] != span[0]):  # type: ignore[index]
            _close(out, blank, joins=last is not None and last[0] == tokens.spans[blank[0]][0])  # type: ignore[index]
            blank = []
        if span is None:
            out.append([i])
            last, reach = None, -1
            continue
        seg, start, end = span
        if tokens.groups is not None:
            first = final = tokens.groups[i] or 0
        elif start == end:
            blank.append(i)
            continue
        else:
            covered = homes[seg][start:end]
            first, final = covered[0], covered[-1]
        same = last is not None and last[0] == seg
        if last is not None and same and (last[1] == first or (tokens.groups is None and start < reach)):
            out[-1] += [*blank, i]
        else:
            out.append([*blank, i])
        blank = []
        last, reach = (seg, final), max(end, reach if same else -1)
    if blank:
        _close(out, blank, joins=last is not None and last[0] == tokens.spans[blank[0]][0])  # type: ignore[index]
    return tuple(_in_order(tokens, out, homes))


PAUSE = "…"


def _spoken(sound: Sound) -> tuple[Unit, ...]:
    """The words of a sound, a frame in the word that holds its middle; the frames between two words are a pause."""
    if not sound.words:
        raise InputError(
            "words need to be known with their times: pass {'array': x, 'sampling_rate': rate, 'words': [(word, start, "
            "end), ...]} in seconds; a CTC model with its tokenizer says its own, where it says any"
        )
    out: list[Unit] = []
    for home, group in groupby(enumerate(sound.homes()), key=lambda pair: pair[1]):
        frames = tuple(i for i, _ in group)
        text, start, end = (PAUSE, sound.places[frames[0]][0], sound.places[frames[-1]][1])
        if home is not None:
            text, start, end = sound.words[home]
        out.append(Unit(text, frames, special=home is None, place=(start, end), before=" " if out else ""))
    return tuple(out)


def _in_order(tokens: Tokens, each: list[list[int]], homes: list[list[int]]) -> Iterator[Unit]:
    """The units of these tokens, with what stands before each in its text."""
    segment, at = None, 0
    for indices in each:
        unit = _unit(tokens, indices, homes, segment, at)
        if unit.segment is not None and unit.end is not None:
            segment, at = unit.segment, unit.end
        yield unit


def _close(out: list[list[int]], blank: list[int], joins: bool) -> None:
    """Blanks with no word behind them: to the word before, or alone where a text has no word."""
    if joins:
        out[-1] += blank
    else:
        out.append(list(blank))


def _unit(tokens: Tokens, indices: list[int], homes: list[list[int]], segment: int | None, at: int) -> Unit:
    """`segment`, `at`: where the unit before it ends."""
    spans = [s for i in indices if tokens.spans and (s := tokens.spans[i]) is not None]
    if not spans:
        return Unit(tokens.pieces[indices[0]], tuple(indices), special=tokens.special[indices[0]])
    seen = [s for s in spans if s[1] < s[2]] or spans  # blanks count, but don't widen the word
    seg, start, end = seen[0][0], min(s[1] for s in seen), max(s[2] for s in seen)
    if start < end:
        end = _character_end(tokens.text[seg], homes[seg], end)
    special, text = all(tokens.special[i] for i in indices), tokens.text[seg]
    before = text[at if seg == segment else 0 : start]
    return Unit(text[start:end], tuple(indices), seg, start, end, special, before=before)


def _character_end(text: str, home: list[int], end: int) -> int:
    """Where the user-perceived character that holds the last one before `end` ends, inside its word.

    A tokenizer that strips accents or composes a syllable points at the first of several code points.
    """
    word = home[end - 1]
    if word >= 0 and (end == len(text) or home[end] != word):  # words are in one piece: nothing of it comes behind
        return end
    first = end - 1
    while first > 0 and home[first - 1] == word:
        first -= 1
    for match in _CHARACTER.finditer(text, pos=first):
        if match.end() >= end:
            last = match.end()
            break
    while last > end and home[last - 1] != word:
        last -= 1
    return last


def _homes(text: str) -> list[int]:
    """The number of the word that holds each character (-1 for blanks)."""
    home, word = [-1] * len(text), -1
    for match in _WORD.finditer(text):
        word += 1
        home[match.start() : match.end()] = [word] * (match.end() - match.start())
    return home
