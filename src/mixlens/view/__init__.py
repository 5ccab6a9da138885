"""Stage 9: pictures of a result: terminal, pages, figures, LaTeX, tables. Nothing here computes a score.

The modules know a result by its attributes and never import `mixlens.results`, which imports them on use.
"""

import random

_state = random.getstate()
import rich.style  # noqa: E402, F401  (draws a random number as it is imported, and nobody asked for that)

random.setstate(_state)
