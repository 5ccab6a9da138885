"""An aggregation of LayerMaps: what is asked held against what the maps are, then the pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.aggregate import AGGREGATIONS, functions
from mixlens.aggregate.flow import flow, indices
from mixlens.aggregate.shares import normalize_rows
from mixlens.errors import Undefined, UnknownOption
from mixlens.process import settled
from mixlens.progress import Progress

if TYPE_CHECKING:
    from mixlens.results import LayerMaps

Run = Callable[..., tuple[Tensor, dict[str, Any]]]

RESIDUAL = 0.5  # Abnar & Zuidema: half of a token stays itself


@settled
def aggregated(maps: LayerMaps, name: str, *, receptive_field: bool = False, **options: Any) -> LayerMaps:
    """`maps` aggregated by `name`, again LayerMaps; `meta` names the options used. Raises Undefined, UnknownOption."""
    if maps.aggregation is not None and name != "layer":
        raise Undefined(
            f"expected the layer maps themselves, got maps already aggregated by {maps.aggregation}; aggregate once"
        )
    if maps.rectangular and (name in ("rollout", "flow") or receptive_field):
        of = "receptive_field=True" if receptive_field else name
        raise Undefined(
            f"{of} goes through all layers of a model, these maps hold its attention from one stream to another alone; "
            "it needs the maps of either stream to itself too; use mean(), sum() or layer(k)"
        )
    if maps.rows is not None and name in ("rollout", "flow") and maps.aggregation is None:
        raise Undefined(
            f"{name} needs every row of every layer, these maps hold rows {_listed(maps.rows)}; leave queries= out"
        )
    named: dict[str, Run] = {"rollout": _rollout, "flow": _flow, "layer": _single}
    run = named.get(name) or _plain(name)
    reference = _uniform(maps) if receptive_field else None
    out, used = run(maps, **options)
    if reference is not None:
        plain = replace(
            maps, scores=reference, method="attention", holds_residual=False, signed=False, rows_sum_to_one=True
        )
        share = used.get("residual")
        if maps.holds_residual:
            plain = replace(plain, scores=functions.add_residual(reference, RESIDUAL, maps.rows), holds_residual=True)
            share = None
        again = {**options, **({"residual": share, "head": None} if "residual" in options else {})}
        again |= {"progress": None} if "progress" in options else {}
        out = functions.relative_to(out, run(plain, **again)[0])
        used["receptive_field"] = True
    sums = bool(options["normalize"]) if name == "flow" else maps.rows_sum_to_one or bool(options.get("normalize"))
    summed = receptive_field or (sums and name != "sum")
    aggregation = name if maps.aggregation is None else maps.aggregation
    return replace(
        maps,
        scores=out.to(maps.scores.dtype),
        aggregation=f"layer:{options['k']}" if name == "layer" and maps.aggregation is None else aggregation,
        rows_sum_to_one=summed,
        meta={**maps.meta, **used},
        **_kept(maps, name, options),
    )


def _kept(maps: LayerMaps, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The fields that say which rows and layers the result holds, where not all."""
    out: dict[str, Any] = {}
    if name == "layer":
        places: tuple[int, ...] = (_place(maps, options["k"]),)
        if maps.layer_numbers is not None:
            out["layer_numbers"] = (maps.layer_numbers[places[0]],)
    elif name == "flow":
        depth, n = len(maps), maps.scores.shape[-1]
        places, rows = indices("layers", options["layers"], depth), indices("queries", options["queries"], n)
        if rows != tuple(range(n)):
            out["rows"] = rows
        if places != tuple(range(depth)):
            out |= {"layer_numbers": places, "depth": depth}
    else:
        return out
    return out if maps.windows is None else {**out, "windows": tuple(maps.windows[p] for p in places)}


def _rollout(
    maps: LayerMaps,
    residual: float | str | None,
    normalize: bool,
    head: int | None,
) -> tuple[Tensor, dict[str, Any]]:
    if maps.signed:
        raise Undefined(
            f"{maps.method} is signed: products of signed maps let two wrongs make a right; use mean() or layer(k)"
        )
    share = _share(maps, residual, "roll it out")
    if share and not (maps.rows_sum_to_one or normalize):
        raise Undefined(
            f"the rows of {maps.method} do not sum to 1, so a share of the identity means nothing; use normalize=True"
        )
    _check_head(maps, head)
    scores = normalize_rows(maps.scores) if normalize else maps.scores
    used: dict[str, Any] = {"residual": share or None, "normalize": normalize}
    if head is not None:
        return functions.head_rollout(scores, head, share), {**used, "head": head}
    if maps.rows_sum_to_one or normalize:
        return functions.rollout(functions.add_residual(scores, share)), used
    out, logs = functions.rollout_scaled(scores)
    return out, {**used, "log_scale": tuple(logs.tolist())}


def _flow(
    maps: LayerMaps,
    residual: float | str | None,
    normalize: bool,
    queries: Sequence[int] | None,
    layers: Sequence[int] | None,
    head: int | None,
    progress: Progress | None,
) -> tuple[Tensor, dict[str, Any]]:
    if maps.signed:
        raise Undefined(f"{maps.method} is signed, and a capacity is 0 or more; use mean() or layer(k)")
    if not maps.rows_sum_to_one:
        raise Undefined(
            f"the rows of {maps.method} do not sum to 1, so a token would send more than there is of it; divide them "
            "by their sum first: maps.normalized().flow()"
        )
    share = _share(maps, residual, "flow it")
    _check_head(maps, head)
    settings: dict[str, Any] = {"normalize": normalize, "progress": progress}
    used: dict[str, Any] = {"residual": share or None, "normalize": normalize}
    if head is not None:
        return functions.head_flow(maps.scores, head, share, queries, layers, **settings), {**used, "head": head}
    return flow(functions.add_residual(maps.scores.double(), share), queries, layers, **settings), used


def _share(maps: LayerMaps, residual: float | str | None, verb: str) -> float:
    """The share of the identity that was asked for. Raises UnknownOption, Undefined."""
    share = (RESIDUAL if maps.method == "attention" else 0.0) if residual == "auto" else (residual or 0.0)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise UnknownOption(f"expected residual='auto', None or a share in [0, 1), got {residual!r}")
    if share and maps.holds_residual:
        raise Undefined(f"{maps.method} already holds the residual; {verb} with residual=None")
    return share


def _check_head(maps: LayerMaps, head: int | None) -> None:
    if maps.heads is not None and head is None:
        raise Undefined("expected one map a layer, got one a head; pass head=k, or ask for maps without per_head")
    if head is not None and (maps.heads is None or not -maps.heads <= head < maps.heads):
        raise UnknownOption(f"expected head=0 to {(maps.heads or 0) - 1} of maps with per_head=True, got {head}")


def _plain(name: str) -> Run:
    return lambda maps: (AGGREGATIONS[name].function(maps.scores), {})


def _single(maps: LayerMaps, k: int) -> tuple[Tensor, dict[str, Any]]:
    return functions.layer(maps.scores, _place(maps, k)), {}


def _place(maps: LayerMaps, k: int) -> int:
    """Where layer `k` stands. Raises UnknownOption."""
    count = maps.depth or len(maps)
    if isinstance(k, bool) or not isinstance(k, int) or not -count <= k < count:
        raise UnknownOption(f"expected a layer of -{count} to {count - 1}, got {k!r}")
    if maps.layer_numbers is None:
        return k % count
    if k % count not in maps.layer_numbers:
        raise UnknownOption(
            f"expected a layer that was computed, {_listed(maps.layer_numbers)}, got {k}; ask with layers=[{k}]"
        )
    return maps.layer_numbers.index(k % count)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _uniform(maps: LayerMaps) -> Tensor:
    windows = require_field(maps.causal, maps.windows)
    if maps.heads is not None:
        raise Undefined("receptive_field=True is not defined per head; ask for maps without per_head")
    return functions.uniform(windows, maps.scores.shape[-1], maps.rows).to(maps.scores)


def require_field(causal: bool, windows: tuple[int | None, ...] | None) -> tuple[int | None, ...]:
    """How far back each layer sees. Raises Undefined where there is no receptive field to divide by."""
    if not causal or windows is None:
        raise Undefined(
            "expected maps of a causal model with a plain or sliding mask for receptive_field=True; every token of an "
            "encoder sees the whole text already"
        )
    return windows
