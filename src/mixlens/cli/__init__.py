"""The command line: `mixlens explain | compare | map | trace | evaluate | check | methods`. Words in, results out.

Results go to standard output; progress, notes and errors to standard error. Exit codes: 0 done, 1 an error (one line,
what differs between two runs a line each; the traceback with --debug), 2 wrong usage, 130 interrupted. Heavy imports
wait until a command runs, so that `mixlens --help` answers at once.
"""

from mixlens.cli.commands import app, main

__all__ = ["app", "main"]
