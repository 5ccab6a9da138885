"""The kinds of results that a file may hold, and the way from a file to one."""

from __future__ import annotations

from mixlens import storage
from mixlens.arguments import checked
from mixlens.files import PathLike
from mixlens.results.attribution import Attribution
from mixlens.results.comparison import Comparison
from mixlens.results.maps import LayerMaps
from mixlens.results.trace import Trace

KINDS: dict[str, type[Attribution | LayerMaps | Comparison | Trace]] = {
    "Attribution": Attribution,
    "LayerMaps": LayerMaps,
    "Comparison": Comparison,
    "Trace": Trace,
}


@checked
def read(path: PathLike) -> Attribution | LayerMaps | Comparison | Trace:
    """Read a result that `save` wrote; every number comes back bit-exact. Raises ResultFileError.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = lens.attribute("a good film.", method="alti").save(f"{folder}/film")
        ...     mixlens.read(path)
        Attribution(alti, 6 tokens, target=positive)
    """
    return storage.read(path, KINDS)
