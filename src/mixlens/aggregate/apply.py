"""An aggregation of LayerMaps: what is asked held against what the maps are, then the pure function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.aggregate import functions
from mixlens.errors import Undefined, UnknownOption
from mixlens.mixing.maps import normalize_rows

if TYPE_CHECKING:
    from mixlens.results import LayerMaps

RESIDUAL = 0.5  # Abnar & Zuidema: half of a token stays itself


def apply(maps: LayerMaps, name: str, *, receptive_field: bool = False, **options: Any) -> LayerMaps:
    """`maps` aggregated by `name`, again LayerMaps; the options used stand in `meta`. Raises Undefined, UnknownOption."""
    if maps.aggregation is not None and name != "layer":
        raise Undefined(
            f"expected the layer maps themselves, got maps already aggregated by {maps.aggregation}; aggregate once"
        )
    run = _rollout if name == "rollout" else _single if name == "layer" else _plain(name)
    out, used = run(maps, **options)
    if receptive_field:
        reference = _uniform(maps)
        plain = replace(
            maps, scores=reference, method="attention", holds_residual=False, signed=False, rows_sum_to_one=True
        )
        share = used.get("residual")
        if maps.holds_residual:
            plain = replace(plain, scores=functions.add_residual(reference, RESIDUAL), holds_residual=True)
            share = None
        again = {**options, **({"residual": share, "head": None} if name == "rollout" else {})}
        out = functions.relative_to(out, run(plain, **again)[0])
        used["receptive_field"] = True
    kept = {} if name != "layer" or maps.windows is None else {"windows": (maps.windows[options["k"]],)}
    summed = receptive_field or (maps.rows_sum_to_one or bool(options.get("normalize"))) and name != "sum"
    aggregation = name if maps.aggregation is None else maps.aggregation
    return replace(
        maps,
        scores=out.to(maps.scores.dtype),
        aggregation=f"layer:{options['k']}" if name == "layer" and maps.aggregation is None else aggregation,
        rows_sum_to_one=summed,
        meta={**maps.meta, **used},
        **kept,
    )


def _rollout(
    maps: LayerMaps, residual: float | str | None, normalize: bool, head: int | None
) -> tuple[Tensor, dict[str, Any]]:
    if maps.signed:
        raise Undefined(
            f"{maps.method} is signed: products of signed maps let two wrongs make a right; use mean() or layer(k)"
        )
    share = (RESIDUAL if maps.method == "attention" else 0.0) if residual == "auto" else (residual or 0.0)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise UnknownOption(f"expected residual='auto', None or a share in [0, 1), got {residual!r}")
    if share and maps.holds_residual:
        raise Undefined(f"{maps.method} already holds the residual; roll it out with residual=None")
    if share and not (maps.rows_sum_to_one or normalize):
        raise Undefined(
            f"the rows of {maps.method} do not sum to 1, so a share of the identity means nothing; use normalize=True"
        )
    if maps.heads is not None and head is None:
        raise Undefined("expected one map a layer, got one a head; pass head=k, or ask for maps without per_head")
    if head is not None and (maps.heads is None or not -maps.heads <= head < maps.heads):
        raise UnknownOption(f"expected head=0 to {(maps.heads or 0) - 1} of maps with per_head=True, got {head}")
    scores = normalize_rows(maps.scores) if normalize else maps.scores
    used: dict[str, Any] = {"residual": share or None, "normalize": normalize}
    if head is not None:
        return functions.head_rollout(scores, head, share), {**used, "head": head}
    if maps.rows_sum_to_one or normalize:
        return functions.rollout(functions.add_residual(scores, share)), used
    out, logs = functions.rollout_scaled(scores)
    return out, {**used, "log_scale": tuple(logs.tolist())}


def _plain(name: str) -> Callable[..., tuple[Tensor, dict[str, Any]]]:
    return lambda maps: (functions.AGGREGATIONS[name].function(maps.scores), {})


def _single(maps: LayerMaps, k: int) -> tuple[Tensor, dict[str, Any]]:
    count = len(maps.scores)
    if isinstance(k, bool) or not isinstance(k, int) or not -count <= k < count:
        raise UnknownOption(f"expected a layer of -{count} to {count - 1}, got {k!r}")
    return functions.layer(maps.scores, k), {}


def _uniform(maps: LayerMaps) -> Tensor:
    if not maps.causal or maps.windows is None:
        raise Undefined(
            "expected maps of a causal model with a plain or sliding mask for receptive_field=True; every token of an "
            "encoder sees the whole text already"
        )
    if maps.heads is not None:
        raise Undefined("receptive_field=True is not defined per head; ask for maps without per_head")
    return functions.uniform(maps.windows, maps.scores.shape[-1]).to(maps.scores)
