"""The kinds of results that a file may hold, and the way from a file to one."""

from __future__ import annotations

from pathlib import Path

from mixlens import storage
from mixlens.arguments import checked
from mixlens.files import PathLike, path_of
from mixlens.results.attribution import Attribution
from mixlens.results.comparison import Comparison
from mixlens.results.explained import KIND, Explained
from mixlens.results.folder import manifest_of
from mixlens.results.maps import LayerMaps
from mixlens.results.similarity import Similarity
from mixlens.results.trace import Trace

KINDS: dict[str, type[Attribution | LayerMaps | Comparison | Similarity | Trace]] = {
    "Attribution": Attribution,
    "LayerMaps": LayerMaps,
    "Comparison": Comparison,
    "Similarity": Similarity,
    "Trace": Trace,
}


@checked
def read(path: PathLike) -> Attribution | LayerMaps | Comparison | Similarity | Trace | Explained:
    """Read a result that `save` wrote, every number bit-exact; or the folder that `mixlens.explain_data` wrote.

    Raises ResultFileError.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = lens.attribute("a good film.", method="alti").save(f"{folder}/film")
        ...     mixlens.read(path)
        Attribution(alti, 6 tokens, target=positive)
    """
    folder = path_of(path, "name one that .save(path) wrote")
    if ((manifest_of(folder) if _is_folder(folder) else None) or {}).get("kind") == KIND:
        return Explained(folder)
    return storage.read(path, KINDS)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        return False
