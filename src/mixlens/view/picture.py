"""A figure that a notebook shows."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A Figure with a picture of its own: made without pyplot, it has no other way onto a notebook's page."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=110, metadata={"Software": "mixlens"})
        return out.getvalue()
