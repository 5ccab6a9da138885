"""A preset: its facts, and how its scores are had of many texts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from mixlens.attribute.method import Deep, Method, Tracing
from mixlens.attribute.preset.across import rows_across
from mixlens.attribute.preset.descending import descended, kept_layers, rolled_text, traced
from mixlens.attribute.preset.layered import layered_text, layered_trace
from mixlens.cost import Cost, of_rows, rolled_down
from mixlens.mixing import MIXING
from mixlens.mixing.calls import mapper
from mixlens.progress import Progress, part_of
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.descent import is_long
from mixlens.subject.head import Head
from mixlens.subject.passes import Wanted

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.architectures.spec import Spec
    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced

_OWN = ("receptive_field", "zero_cls")  # options that are a preset's, not its mixing method's

# How scores are had: rows of a product from the last layer down; the read-out row of each map; whole maps.
Way = Literal["down", "rows", "whole"]


@dataclass(frozen=True)
class Preset(Method):
    """A mixing method, how its layers are put together, and the read-out row.

    `arguments`: the aggregation's. `fixed`: options of the mixing method that the preset is made of, so that none may
    be asked otherwise. `pre`: the preset for layers without norms behind their residual sums, where it differs.
    `zero_cls`: an option. `receptive_field`: that option's default; None: where the mask is plain. `several`: the head
    reads many rows at once.
    """

    mixing: str = ""
    aggregation: str = "rollout"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    pre: Preset | None = None
    zero_cls: bool = False
    receptive_field: bool | None = None
    several: bool = False

    def reads_row(self, options: Mapping[str, Any]) -> bool:
        return True

    def shares(self, options: Mapping[str, Any]) -> Hashable:
        return "maps"  # a pass keeps what any of them reads of a layer

    def cost(self, options: Mapping[str, Any]) -> Cost:
        maps, way = MIXING[self.mixing].costs, self.way(options)
        if self.aggregation == "flow":
            return replace(maps, work="flow", words="one pass and a maximum flow for every token, on the CPU")
        return maps if way == "whole" else rolled_down(maps) if way == "down" else of_rows(maps)

    def way(self, options: Mapping[str, Any]) -> Way:
        """How the scores of a read-out row are had.

        A product is made from the top down where the rows of its maps sum to 1, as only then it needs no number that
        is taken of whole maps (`rollout_scaled`).
        """
        facts, many = MIXING[self.mixing], options.get("readout", "mean" if self.several else None) in ("mean", "max")
        if many:
            return "whole"
        if self.aggregation == "rollout":
            return "down" if facts.rows_sum_to_one or self.arguments.get("normalize") else "whole"
        return "rows" if facts.queries and self.aggregation in ("mean", "sum", "layer") else "whole"

    def options(self) -> dict[str, Any]:
        fixed = {"normalize", "per_head", *self.fixed}
        maps = {k: v for k, v in MIXING[self.mixing].options().items() if k not in fixed}
        return {**maps, "receptive_field": self.receptive_field, **({"zero_cls": False} if self.zero_cls else {})}

    def maps_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the mixing method among a request's."""
        return {**self.fixed, **{k: v for k, v in options.items() if k not in _OWN}}

    def by_field(self, windows: Sequence[int | None] | None, options: Mapping[str, Any]) -> bool:
        """Whether scores are divided by those of uniform attention (the receptive field)."""
        wanted = options.get("receptive_field", self.receptive_field)
        return windows is not None if wanted is None else bool(wanted)

    def layers(self, deep: Deep) -> Literal["own"] | None:
        return "own" if deep == "each" or self.aggregation != "layer" else None

    def for_spec(self, spec: Spec) -> Preset:
        chosen = self.pre if spec.order != "post" and self.pre is not None else self
        super(Preset, chosen).for_spec(spec)
        MIXING[chosen.mixing].for_spec(chosen.mixing, spec)
        return chosen

    @property
    def two_streams(self) -> bool:
        return MIXING[self.mixing].across is not None and self.aggregation in ("rollout", "layer", "mean")

    def for_head(self, head: Head) -> Method:
        super().for_head(head)
        return replace(self, several=head.pooled == "mean")

    def run(self, subject: Subject, asks: Sequence[Request[Self]]) -> list[list[Attribution]]:
        """Maps put together, the row read out. One batch's maps live at a time, of a long text one layer's.

        Raises TargetError.
        """
        texts, report = asks[0].texts, asks[0].progress
        long = [i for i, tokens in enumerate(texts) if is_long(subject, tokens)]
        short = [i for i, tokens in enumerate(texts) if not is_long(subject, tokens)]
        down = [k for k, ask in enumerate(asks) if _way_of(ask) == "down"]
        rest = [k for k in range(len(asks)) if k not in down]
        alone = [(k, i) for k in down for i in long]
        groups = [(ks, group) for ks, group in ((list(range(len(asks))), short), (rest, long)) if ks and group]
        out: list[dict[int, Attribution]] = [{} for _ in asks]
        for number, (ks, group) in enumerate(groups):
            made = _together(subject, [asks[k] for k in ks], group, part_of(report, number, len(groups) + len(alone)))
            for k, mine in zip(ks, made, strict=True):
                out[k] |= mine
        for number, (k, i) in enumerate(alone, len(groups)):
            out[k][i] = descended(subject, asks[k], i, part_of(report, number, len(groups) + len(alone)))
        return [[mine[i] for i in range(len(texts))] for mine in out]

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        return "together"

    @torch.no_grad()
    def rows(self, subject: Subject, ask: Traced) -> Tensor:
        """Every answer token's row of the maps of one pass."""
        if ask.source:
            return rows_across(subject, self, ask)
        way = self.way(ask.options)
        return traced(subject, self, ask) if way == "down" else layered_trace(subject, self, ask, rows=way == "rows")


def _way_of(ask: Request[Preset]) -> Way:
    """How a request's scores are had."""
    way = ask.method.way(ask.options)
    if way == "down" and any(isinstance(read.row, str) for read in ask.reads):
        return "whole"
    if way == "rows" and not all(isinstance(read.row, int) for read in ask.reads):
        return "whole"
    return way


def _together(
    subject: Subject, asks: Sequence[Request[Preset]], chosen: Sequence[int], report: Progress | None
) -> list[dict[int, Attribution]]:
    """The Attributions of some texts, batch by batch, for requests that share the passes, by the texts' numbers."""
    ways = [_way_of(ask) for ask in asks]
    wanted = [
        _wanted([ask.reads[i].row for i in chosen], way, subject.layers, MIXING[ask.method.mixing].queries)
        for ask, way in zip(asks, ways, strict=True)
    ]
    make = [
        (mapper(ask.method.mixing, ask.method.maps_options(ask.options)), rows)
        for ask, rows in zip(asks, wanted, strict=True)
    ]
    flows = any(ask.method.aggregation == "flow" for ask in asks)  # what takes the time is counted
    out: list[dict[int, Attribution]] = [{} for _ in asks]
    done = 0
    for members, ran in subject.passes(
        [asks[0].texts[i] for i in chosen],
        make,
        progress=None if flows else report,
        answers=[asks[0].answers[i] for i in chosen],
        batch_size=lambda n: min(ask.size_of(n) for ask in asks),
    ):
        for ask, way, rows, mine, passes in zip(asks, ways, wanted, out, ran, strict=True):
            for at, (member, text_pass) in enumerate(zip(members, passes, strict=True)):
                i = chosen[member]
                if way == "down":
                    layers = kept_layers(text_pass.layers, None if rows is None else rows(member, subject.layers - 1))
                    mine[i] = rolled_text(subject, ask, i, layers, text_pass.sights, text_pass.logits, text_pass.off)
                else:
                    part = part_of(report, done + at, len(chosen))
                    mine[i] = layered_text(subject, ask, i, text_pass, way == "rows", part)
                text_pass.layers.clear()
        done += len(members)
    return out


def _wanted(rows: Sequence[Any], way: Way, depth: int, queries: bool) -> Wanted | None:
    """Which rows of which layers are made, where not all: a product needs those of every layer but the last."""
    if way == "whole" or not queries or not all(isinstance(row, int) for row in rows):
        return None
    first = 0 if way == "rows" else depth - 1
    return lambda text, layer: (rows[text],) if layer >= first else None
