"""What is typed, and what an error on the command line has to look like."""

from __future__ import annotations

import re

TEXT = "a deep and meaningful film."


def one_line_error(result, code: int = 1) -> str:
    """The error, held to the rule: exit code, nothing on standard output, one line."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
    return result.stderr.removeprefix("error: ").strip()
