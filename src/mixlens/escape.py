"""Text from outside (labels, model types, tokens, file names, data) made harmless for whoever shows it."""

from __future__ import annotations

import re

STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_RUN = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"'+[=+\-@\t\r]")


def visible(text: str) -> str:
    """Text without characters that steer a terminal, break a file or turn the reading direction; signs stand for them.

    Line ends and tabs stay.
    """
    return STEERS.sub(lambda match: _sign(match[0]), text)


def one_line(text: object) -> str:
    """`visible` on one line."""
    return visible(" ".join(str(text).split()))


def _sign(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return "\n" if char == "\r" else chr(0x2400 + code)
    return "␡" if code == 0x7F else "\ufffd"


def guard(cell: str) -> str:
    """A cell of text that no spreadsheet runs as a formula: those that it would run get a quote in front.

    Cells that have such a quote already get one more, so that `unguard` gives every text back.
    """
    return f"'{cell}" if _RUN.match(cell) else cell


def unguard(cell: str) -> str:
    """What `guard` was given."""
    return cell[1:] if _GUARDED.match(cell) else cell
