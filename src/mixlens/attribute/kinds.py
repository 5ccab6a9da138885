"""The kinds of attribution methods: what a line of the table says. A kind's class chooses what runs it (`runners`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mixlens.architectures.spec import Spec
from mixlens.attribute import gradients, relevance
from mixlens.attribute.target import Quantity
from mixlens.errors import Undefined
from mixlens.mixing import MIXING
from mixlens.options import options_of


@dataclass(frozen=True)
class Method:
    """The facts about an attribution method. `class_specific`: the scores depend on the target, not only on its row."""

    name: str
    summary: str
    cite: str
    signed: bool = False
    class_specific: bool = False

    @property
    def needs(self) -> str:
        """What the method needs of the model."""
        return "forward"

    def options(self) -> dict[str, Any]:
        """The method's own options and their defaults."""
        return {}

    def shares(self, asked: Mapping[str, Any]) -> Hashable | None:
        """What must be equal for one pass to serve several methods, asked for with these options; None: it never does.

        A method that is computed beside others has the numbers that it has alone: to the last bit in equal batches, and
        maps of several methods may make batches smaller.
        """
        return None

    def for_spec(self, spec: Spec) -> Method:
        """The method as it stands for an architecture. Raises Undefined."""
        return self

    def defined(self, spec: Spec) -> bool:
        """Whether there is such a method for an architecture."""
        try:
            self.for_spec(spec)
        except Undefined:
            return False
        return True


@dataclass(frozen=True)
class Preset(Method):
    """A mixing method, how its layers are put together, and the read-out row.

    `pre`: the preset for layers without norms behind their residual sums, where it differs. `zero_cls`: an option.
    """

    mixing: str = ""
    aggregation: str = "rollout"
    how: Mapping[str, Any] = field(default_factory=dict)
    pre: Preset | None = None
    zero_cls: bool = False

    def shares(self, asked: Mapping[str, Any]) -> Hashable:
        return "maps"  # a pass keeps what any of them reads of a layer

    @property
    def needs(self) -> str:
        return "flow" if self.aggregation == "flow" else MIXING[self.mixing].needs

    def options(self) -> dict[str, Any]:
        own = {k: v for k, v in MIXING[self.mixing].options().items() if k not in ("normalize", "per_head")}
        return {**own, "receptive_field": None, **({"zero_cls": False} if self.zero_cls else {})}

    def for_spec(self, spec: Spec) -> Preset:
        order = spec.order
        chosen = self.pre if order != "post" and self.pre is not None else self
        if order not in MIXING[chosen.mixing].orders:
            raise Undefined(
                f"{chosen.mixing} is defined for {', '.join(MIXING[chosen.mixing].orders)}-LN layers, this model's are "
                f"{order}-LN: no norm follows their residual sum; use norm_res or globenc"
            )
        return chosen


@dataclass(frozen=True)
class Random(Method):
    """Uniform random scores: the baseline of every table."""

    def options(self) -> dict[str, Any]:
        return {"seed": 0}


@dataclass(frozen=True)
class Gradient(Method):
    """A pure function of one text's graph (`gradients.TextGraph`).

    `reads`: "input" (the gradient at one layer's input), "hidden" (at all of them) or "weights" (attention too).
    `per_layer`: every layer has scores of its own. `sums`: it is the gradient's sum over dimensions, which is 0 where
    nothing but LayerNorms reads the input.
    """

    function: Callable[..., gradients.Scores] = gradients.saliency
    reads: Literal["input", "hidden", "weights"] = "input"
    of: Quantity = "logit"
    class_specific: bool = True
    per_layer: bool = True
    sums: bool = False

    @property
    def needs(self) -> str:
        return "backward"

    def shares(self, asked: Mapping[str, Any]) -> Hashable:
        how = [repr(asked.get(option)) for option in ("layer", "mask_special", "readout")]
        return ("backward", self.of, self.reads == "weights", *how)

    def for_spec(self, spec: Spec) -> Method:
        if self.sums and spec.order != "post" and spec.norm == "layer" and not spec.bare:
            raise Undefined(
                f"{self.name} is 0 whatever the text is: the gradients of this {spec.order}-LN model sum to 0 over "
                "dimensions, since its LayerNorms take the mean out of what they read; use grad_l2 or grad_x_input"
            )
        return self

    def options(self) -> dict[str, Any]:
        own = options_of(self.function)
        return {**own, "layer": 0} if self.reads == "input" else {**own, "mask_special": False}


@dataclass(frozen=True)
class Relevance(Method):
    """A pure function of attention, its relevance and (but for "last") its gradients (Chefer 2021).

    `reads`: in every layer ("all"), or the relevance of the last layer's alone, so that it goes no further ("last").
    """

    function: Callable[..., gradients.Scores] = relevance.trans_att
    reads: Literal["all", "last"] = "all"
    class_specific: bool = True

    @property
    def needs(self) -> str:
        return "relevance" if self.reads == "all" else "last relevance"

    def options(self) -> dict[str, Any]:
        return options_of(self.function)

    def for_spec(self, spec: Spec) -> Method:
        if spec.order != "post" or spec.attend.qkv is None:
            lacks = "its spec names no maps to query, key and value" if spec.order == "post" else f"{spec.order}-LN"
            raise Undefined(
                f"{self.name} has relevance rules for post-LN encoders, this model's layers are not such ({lacks}); "
                "use grad_sam or attcat"
            )
        return self


@dataclass(frozen=True)
class Path(Method):
    """A method between a baseline and the input (`paths`). `steps`: points on the way; None: the two ends alone."""

    steps: int | None = None
    of: Quantity = "logit"
    signed: bool = True
    class_specific: bool = True

    @property
    def needs(self) -> str:
        return "pair" if self.steps is None else "path"

    def options(self) -> dict[str, Any]:
        way = {} if self.steps is None else {"steps": self.steps, "rule": "gausslegendre", "tolerance": 0.01}
        return {**way, "baseline": None, "layer": 0, "absolute": False}


@dataclass(frozen=True)
class Occlusion(Method):
    """The answer with and without each token."""

    of: Quantity = "prob"
    signed: bool = True
    class_specific: bool = True

    @property
    def needs(self) -> str:
        return "occlusion"

    def options(self) -> dict[str, Any]:
        return {"replace": "unk", "absolute": False, "words": False}


@dataclass(frozen=True)
class Jacobian(Method):
    """The norm of the read-out vector's Jacobian. `times_input`: its columns scaled by the input."""

    times_input: bool = False

    @property
    def needs(self) -> str:
        return "rows"
