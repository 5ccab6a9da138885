"""Pictures of results: terminal, pages, figures, LaTeX, tables. Nothing here computes a score.

A file a result, and one of its figures (`*_figures.py`, which alone import matplotlib), over what all are made with in
`kit/`.

The modules know a result by what it must have to be drawn (`kit/drawn.py`), and no class that has it; results import
them, on use.
"""

import random

_state = random.getstate()
import rich.style  # noqa: E402, F401  (draws a random number as it is imported, and nobody asked for that)

random.setstate(_state)
