"""What pandas tables of results are made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixlens.errors import missing
from mixlens.precision import widened
from mixlens.view.kit import caption
from mixlens.view.kit.drawn import Attribution, LayerMaps

if TYPE_CHECKING:
    import pandas


def numbers(tensor: Any) -> NDArray[np.floating[Any]]:
    """A tensor as an array, in at least float32 (numpy knows no bfloat16)."""
    array: NDArray[np.floating[Any]] = widened(tensor.detach().cpu()).numpy()
    return array


def with_origin(frame: pandas.DataFrame, result: Attribution | LayerMaps) -> pandas.DataFrame:
    """The table with method, model and target among its `.attrs`."""
    target = caption.target(result)
    frame.attrs |= {"method": result.method, "model": result.meta.get("model")} | ({"target": target} if target else {})
    return frame


def pandas_module() -> Any:
    """pandas. Raises MissingExtra where it is not installed."""
    try:
        import pandas
    except ImportError:
        raise missing("a table", "pandas", "pandas") from None
    return pandas
