"""Presets: a mixing method, how its layers are put together, and the read-out row."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from mixlens.answer import Readout, answer, take
from mixlens.attribute.method import Deep, Method
from mixlens.attribute.position import position_meta
from mixlens.capture.text import Tokens
from mixlens.cost import Cost
from mixlens.errors import Undefined
from mixlens.mixing import MIXING
from mixlens.mixing.calls import layer_maps, mapper
from mixlens.progress import Progress
from mixlens.results import Attribution, LayerMaps
from mixlens.results.aggregation import aggregated
from mixlens.subject import Subject
from mixlens.subject.passes import TextPass, Wanted

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.architectures.spec import Spec
    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced

_OWN = ("receptive_field", "zero_cls")  # options that are a preset's, not its mixing method's


@dataclass(frozen=True)
class Preset(Method):
    """A mixing method, how its layers are put together, and the read-out row.

    `arguments`: the aggregation's. `fixed`: options of the mixing method that the preset is made of, so that none may
    be asked otherwise. `pre`: the preset for layers without norms behind their residual sums, where it differs.
    `zero_cls`: an option. `receptive_field`: that option's default; None: where the mask is plain.
    """

    mixing: str = ""
    aggregation: str = "rollout"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    pre: Preset | None = None
    zero_cls: bool = False
    receptive_field: bool | None = None

    def shares(self, options: Mapping[str, Any]) -> Hashable:
        return "maps"  # a pass keeps what any of them reads of a layer

    def cost(self, options: Mapping[str, Any]) -> Cost:
        maps = MIXING[self.mixing].costs
        if self.aggregation != "flow":
            return maps
        return replace(maps, needs="flow", words="one pass and a maximum flow for every token, on the CPU")

    def options(self) -> dict[str, Any]:
        fixed = {"normalize", "per_head", *self.fixed}
        maps = {k: v for k, v in MIXING[self.mixing].options().items() if k not in fixed}
        return {**maps, "receptive_field": self.receptive_field, **({"zero_cls": False} if self.zero_cls else {})}

    def maps_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the mixing method among a request's."""
        return {**self.fixed, **{k: v for k, v in options.items() if k not in _OWN}}

    def by_field(self, maps: LayerMaps, options: Mapping[str, Any]) -> bool:
        """Whether scores are divided by those of uniform attention (the receptive field)."""
        wanted = options.get("receptive_field", self.receptive_field)
        return maps.windows is not None if wanted is None else bool(wanted)

    def layers(self, deep: Deep) -> Literal["own"] | None:
        return "own" if deep == "each" or self.aggregation != "layer" else None

    def for_spec(self, spec: Spec) -> Preset:
        chosen = self.pre if spec.order != "post" and self.pre is not None else self
        if not MIXING[chosen.mixing].defined(spec):
            raise Undefined(
                f"{chosen.mixing} is defined for {', '.join(MIXING[chosen.mixing].orders)}-LN layers, this model's are "
                f"{spec.order}-LN: no norm follows their residual sum; use norm_res or globenc"
            )
        return chosen

    def run(self, subject: Subject, asks: Sequence[Request[Self]]) -> list[list[Attribution]]:
        """Maps aggregated, the row read out. One batch's maps live at a time. Raises TargetError."""
        texts, count = asks[0].texts, len(asks[0].texts)
        wanted = [read_rows(ask, subject.layers) for ask in asks]
        make = [
            (mapper(ask.method.mixing, ask.method.maps_options(ask.options)), rows)
            for ask, rows in zip(asks, wanted, strict=True)
        ]
        flows = any(ask.method.aggregation == "flow" for ask in asks)  # what takes the time is counted
        out: list[dict[int, Attribution]] = [{} for _ in asks]
        done = 0
        for members, ran in subject.passes(
            texts,
            make,
            progress=None if flows else asks[0].progress,
            answers=asks[0].answers,
            batch_size=lambda n: min(ask.size_of(n) for ask in asks),
        ):
            for ask, rows, mine, passes in zip(asks, wanted, out, ran, strict=True):
                for at, (i, text_pass) in enumerate(zip(members, passes, strict=True)):
                    made = None if rows is None else [rows(i, k) for k in range(len(text_pass.layers))]
                    progress = _part(ask.progress, done + at, count)
                    mine[i] = _attribution(subject, ask, i, text_pass, made, progress)
                    text_pass.layers.clear()
            done += len(members)
        return [[mine[i] for i in range(count)] for mine in out]

    @torch.no_grad()
    def rows(self, subject: Subject, ask: Traced) -> Tensor:
        """Every answer token's row of the maps of one pass."""
        options = self.maps_options(ask.options)
        ((_, ((text_pass,),)),) = subject.passes(
            [ask.tokens], [(mapper(self.mixing, options), None)], batch_size=1, progress=ask.progress
        )
        maps = layer_maps(subject, text_pass, torch.stack(text_pass.layers), self.mixing, options)
        field = self.by_field(maps, ask.options)
        arguments, rows = dict(self.arguments), ask.rows
        if self.aggregation == "flow":
            arguments |= {"normalize": False, "layers": [-1], "queries": rows}
            rows = list(range(len(rows)))
        if self.aggregation == "rollout":
            scores = aggregated(maps, "rollout", receptive_field=field, rows=rows, **arguments).scores[-1]
        else:
            scores = getattr(maps, self.aggregation)(**arguments, receptive_field=field).scores[-1][rows]
        return without_cls(subject, ask.tokens, scores) if ask.options.get("zero_cls") else scores


def _attribution(
    subject: Subject,
    ask: Request[Preset],
    i: int,
    text_pass: TextPass,
    rows_made: list[tuple[int, ...] | None] | None,
    progress: Progress | None,
) -> Attribution:
    """The Attribution of text i from its maps, of which `rows_made` alone are there (None: all)."""
    preset, tokens = ask.method, text_pass.tokens
    resolved = answer(subject.head, ask.reads[i], text_pass.logits)
    scores, made = _filled_up(text_pass, rows_made)
    maps = layer_maps(subject, text_pass, scores, preset.mixing, ask.method.maps_options(ask.options), made=made)
    field = preset.by_field(maps, ask.options)
    own_rows = _own_rows(maps, resolved.rows, field) if ask.layered == "each" else None
    arguments, at = dict(preset.arguments), resolved.rows
    if preset.aggregation == "flow":  # the read-out rows, of the last layer alone unless all were asked for
        arguments |= {"normalize": ask.normalize, **({} if ask.layered == "upto" else {"layers": [-1]})}
        if all(isinstance(row, int) for row in at):
            arguments["queries"] = list(dict.fromkeys(at))
            at = tuple(arguments["queries"].index(row) for row in at)
        arguments["progress"] = progress
    maps = getattr(maps, preset.aggregation)(**arguments, receptive_field=field)
    rows = take(maps.scores, at)
    layers = None if preset.aggregation == "layer" or len(rows) == 1 < len(text_pass.layers) else rows
    layers = layers if own_rows is None else own_rows
    if ask.options.get("zero_cls"):
        rows = without_cls(subject, tokens, rows)
        layers = layers if layers is None else without_cls(subject, tokens, layers)
    meta = {**maps.meta, "mixing": preset.mixing, "aggregation": maps.aggregation, "receptive_field": field}
    if maps.causal:
        last = resolved.rows[-1]
        meta |= position_meta(rows[-1][: last + 1] if isinstance(last, int) else rows[-1])
    return ask.result(tokens, rows[-1], layers, resolved, meta)


def _part(progress: Progress | None, i: int, count: int) -> Progress | None:
    """The flow's progress of text i of `count`, in rows, all texts taken to have as many."""
    return None if progress is None else lambda done, total: progress(i * total + done, count * total)


def read_rows(ask: Request[Preset], depth: int) -> Wanted | None:
    """Which rows of which layers a preset reads, where it reads a part of them only.

    A product of maps needs all rows of every layer but the last; a mean, a sum or one layer needs the read-out row of
    each. Maps whose products are rescaled by their largest entry (`rollout_scaled`) are made whole.
    """
    preset = ask.method
    facts, rows = MIXING[preset.mixing], [(read.row,) for read in ask.reads if isinstance(read.row, int)]
    plain = facts.rows_sum_to_one or bool(preset.arguments.get("normalize"))
    if not facts.queries or len(rows) < len(ask.reads):
        return None
    if preset.aggregation in ("mean", "sum", "layer"):
        first = 0
    elif preset.aggregation == "rollout" and plain:
        first = depth - 1
    else:
        return None
    return lambda text, layer: rows[text] if layer >= first else None


def _filled_up(text_pass: TextPass, made: list[tuple[int, ...] | None] | None) -> tuple[Tensor, Tensor | None]:
    """Whole maps (layer, query, key), zeros in the rows that were not made; and which were (layer, query)."""
    if made is None:
        return torch.stack(text_pass.layers), None
    n = len(text_pass.tokens)
    scores = text_pass.layers[0].new_zeros(len(made), n, n)
    there = torch.zeros(len(made), n, dtype=torch.bool, device="cpu")
    for k, rows in enumerate(made):
        chosen = slice(None) if rows is None else list(rows)
        scores[k, chosen], there[k, chosen] = text_pass.layers[k], True
    return scores, there


def _own_rows(maps: LayerMaps, rows: tuple[Readout, ...], field: bool) -> Tensor:
    """The read-out row of each layer's own map, (layer, token)."""
    alone = [maps.layer(k, receptive_field=field).scores for k in range(len(maps))]
    return torch.stack([take(scores, rows)[-1] for scores in alone])


def without_cls(subject: Subject, tokens: Tokens, rows: Tensor) -> Tensor:
    """Scores (..., token) with 0 for [CLS]. Raises Undefined where the first token is none."""
    if not (tokens.special[0] or subject.head.pooled == "first"):
        raise Undefined("zero_cls=True needs a text that begins with [CLS], this one does not; leave it out")
    return torch.cat([torch.zeros_like(rows[..., :1]), rows[..., 1:]], -1)
