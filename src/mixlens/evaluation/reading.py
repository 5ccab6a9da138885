"""What was kept, read back: any result that knows itself, and the table of a run, which stands above them."""

from __future__ import annotations

from pathlib import Path

from mixlens import results
from mixlens.arguments import checked
from mixlens.evaluation.result import Table
from mixlens.evaluation.tabulate import tabulate
from mixlens.files import PathLike, path_of
from mixlens.results import Attribution, Comparison, Explained, LayerMaps, Similarity, Trace
from mixlens.results.folder import finished


@checked
def read(path: PathLike) -> Attribution | LayerMaps | Comparison | Similarity | Trace | Explained | Table:
    """Read a result that `save` wrote, every number bit-exact; or the folder of `mixlens.explain_data` or `evaluate`.

    Of a run of `mixlens.evaluate` that has come to its end the table, with intervals of 95 %; neither its model nor its
    data is needed. Raises ResultFileError.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = lens.attribute("a good film.", method="alti").save(f"{folder}/film")
        ...     mixlens.read(path)
        Attribution(alti, 6 tokens, target=positive)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = mixlens.evaluate(lens, methods=["alti"], measures=["spearman"], limit=3, out=folder)
        ...     mixlens.read(folder).row("spearman", "alti") == made.row("spearman", "alti")
        True
    """
    folder = path_of(path, "name one that .save(path) wrote")
    return tabulate(folder, csv=False) if _is_run(folder) else results.read(path)


def _is_run(folder: Path) -> bool:
    """Whether a finished run of `evaluate` is there."""
    try:
        return folder.is_dir() and "columns" in (finished(folder) or {})
    except (OSError, ValueError):  # a name that no file can have
        return False
