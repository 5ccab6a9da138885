"""The kinds of results that a file may hold, and the way from a file to one."""

from __future__ import annotations

from mixlens import storage
from mixlens.arguments import checked
from mixlens.files import PathLike
from mixlens.results.attribution import Attribution
from mixlens.results.comparison import Comparison
from mixlens.results.maps import LayerMaps

KINDS: dict[str, type[Attribution | LayerMaps | Comparison]] = {
    "Attribution": Attribution,
    "LayerMaps": LayerMaps,
    "Comparison": Comparison,
}


@checked
def read(path: PathLike) -> Attribution | LayerMaps | Comparison:
    """Read a result that `save` wrote; every number comes back bit-exact. Raises ResultFileError."""
    return storage.read(path, KINDS)
