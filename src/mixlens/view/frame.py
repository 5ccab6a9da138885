"""Results as pandas tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixlens.errors import missing
from mixlens.view import reading

if TYPE_CHECKING:
    import pandas

    from mixlens.evaluation.result import Table
    from mixlens.results import Attribution, Comparison, LayerMaps, Results


def attribution(attr: Attribution) -> pandas.DataFrame:
    """A row a token: token, score, start, end, special; for a pair also segment, the text that start and end count in.

    start and end are missing where there are no offsets. `.attrs` holds method and model. Raises MissingExtra.
    """
    pd = _pandas()
    spans = attr.source.spans or (None,) * len(attr.tokens)
    columns: dict[str, Any] = {
        "token": list(attr.tokens),
        "score": _numbers(attr.scores),
        "start": pd.array([s and s[1] for s in spans], dtype="Int64"),
        "end": pd.array([s and s[2] for s in spans], dtype="Int64"),
        "special": list(attr.special),
    }
    if len(attr.source.text) > 1:
        columns["segment"] = pd.array([s and s[0] for s in spans], dtype="Int64")
    return _with_origin(pd.DataFrame(columns), attr)


def maps(maps: LayerMaps) -> pandas.DataFrame:
    """A long table, a row a score: layer, (head,) query, key, score, all counted from 0. Raises MissingExtra."""
    pd = _pandas()
    scores = _numbers(maps.scores)
    names = ("layer", "query", "key") if scores.ndim == 3 else ("layer", "head", "query", "key")
    places = np.unravel_index(np.arange(scores.size), scores.shape)
    columns = {n: p.astype(np.int32) for n, p in zip(names, places, strict=True)}
    for name, numbers in (("layer", maps.layer_numbers), ("query", maps.queries)):
        if numbers is not None:  # a part was computed: its own numbers
            columns[name] = np.array(numbers, dtype=np.int32)[columns[name]]
    return _with_origin(pd.DataFrame({**columns, "score": scores.ravel()}), maps)


def comparison(found: Comparison) -> pandas.DataFrame:
    """A row a token, a column a method, beside token, start, end and special. Raises MissingExtra."""
    base = attribution(found.first).drop(columns="score")
    for name, attr in found.attributions.items():
        base[name] = _numbers(attr.scores)
    base.attrs.pop("method", None)
    return base


def several(found: Results[Any]) -> pandas.DataFrame:
    """The results' tables below each other, the number of the text in the first column. Raises MissingExtra."""
    pd = _pandas()
    parts = []
    for number, one in enumerate(found):
        if one is not None:
            part = one.to_frame()
            part.attrs = {}
            part.insert(0, "text", number)
            parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"text": []})


def evaluation(found: Table) -> pandas.DataFrame:
    """A row a method, measure and layer, as in table.csv; `.attrs` holds the manifest. Raises MissingExtra."""
    pd = _pandas()
    frame = pd.DataFrame(found.to_dicts())
    frame["layer"] = frame["layer"].astype("Int64")
    numbers = ["mean", "std", "low", "high", "null", "p_null"]
    frame[numbers] = frame[numbers].astype("float64")
    frame.attrs["manifest"] = dict(found.manifest)
    return frame


def _numbers(tensor: Any) -> NDArray[np.floating[Any]]:
    """As it is where numpy has the type (it knows no bfloat16)."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype.itemsize >= 4 else tensor.float()).numpy()


def _with_origin(frame: pandas.DataFrame, result: Attribution | LayerMaps) -> pandas.DataFrame:
    target = reading.target(result)
    frame.attrs |= {"method": result.method, "model": result.meta.get("model")} | ({"target": target} if target else {})
    return frame


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise missing("a table", "pandas", "pandas") from None
    return pandas
