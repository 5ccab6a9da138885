"""The table of attribution methods: one line a method. What runs a line is chosen by its class (`runners`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mixlens.architectures.spec import Order
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

    def for_order(self, order: Order) -> Method:
        """The method as it stands for a layer order. Raises Undefined."""
        return self


@dataclass(frozen=True)
class Preset(Method):
    """A mixing method, how its layers are put together, and the read-out row.

    `pre`: the preset for layers without norms behind their residual sums, where it differs. `zero_cls`: has that option.
    """

    mixing: str = ""
    aggregation: str = "rollout"
    how: Mapping[str, Any] = field(default_factory=dict)
    pre: Preset | None = None
    zero_cls: bool = False

    @property
    def needs(self) -> str:
        return "flow" if self.aggregation == "flow" else MIXING[self.mixing].needs

    def options(self) -> dict[str, Any]:
        own = {k: v for k, v in MIXING[self.mixing].options().items() if k not in ("normalize", "per_head")}
        return {**own, "receptive_field": None, **({"zero_cls": False} if self.zero_cls else {})}

    def for_order(self, order: Order) -> Preset:
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
    """

    function: Callable[..., gradients.Scores] = gradients.saliency
    reads: Literal["input", "hidden", "weights"] = "input"
    of: Quantity = "logit"
    class_specific: bool = True

    @property
    def needs(self) -> str:
        return "backward"

    def options(self) -> dict[str, Any]:
        own = options_of(self.function)
        return {**own, "layer": 0} if self.reads == "input" else {**own, "mask_special": False}


@dataclass(frozen=True)
class Relevance(Method):
    """A pure function of attention, its gradients and its relevance in every layer (Chefer 2021)."""

    function: Callable[..., gradients.Scores] = relevance.trans_att
    class_specific: bool = True

    @property
    def needs(self) -> str:
        return "relevance"

    def options(self) -> dict[str, Any]:
        return options_of(self.function)

    def for_order(self, order: Order) -> Method:
        if order != "post":
            raise Undefined(
                f"{self.name} has relevance rules for post-LN encoders, this model's layers are {order}-LN; "
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
        return {**way, "baseline": None, "layer": 0}


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


_ROLL = {"residual": None, "normalize": False, "head": None}
_ROWS = {**_ROLL, "normalize": True}
_HALF = {**_ROLL, "residual": 0.5}


def _table(*methods: Method) -> dict[str, Method]:
    return {m.name: m for m in methods}


ATTRIBUTIONS: dict[str, Method] = _table(
    Preset(
        "attention",
        "last layer's attention",
        "Vaswani 2017",
        mixing="attention",
        aggregation="layer",
        how={"k": -1},
        zero_cls=True,
    ),
    Preset(
        "attention_rollout",
        "attention with half residual, rolled out",
        "Abnar & Zuidema 2020",
        mixing="attention",
        how=_HALF,
        zero_cls=True,
    ),
    Preset(
        "attention_flow",
        "attention with half residual, maximum flow",
        "Abnar & Zuidema 2020",
        mixing="attention",
        aggregation="flow",
        how={"residual": 0.5},
    ),
    Preset(
        "norm_rollout",
        "row-normalised norm_resln, rolled out (pre-LN: norm_res)",
        "Kobayashi 2021; Ferrando 2022",
        mixing="norm_resln",
        how=_ROWS,
        pre=Preset(
            "norm_rollout", "row-normalised norm_res, rolled out", "Kobayashi 2021", mixing="norm_res", how=_ROWS
        ),
    ),
    Preset(
        "globenc",
        "globenc maps, rolled out (pre-LN: row-normalised, since the next norm undoes a row's scale)",
        "Modarressi 2022",
        mixing="globenc",
        how=_ROLL,
        pre=Preset("globenc", "row-normalised globenc maps, rolled out", "Modarressi 2022", mixing="globenc", how=_ROWS),
    ),
    Preset("alti", "alti maps, rolled out", "Ferrando 2022", mixing="alti", how=_ROLL),
    Preset("value_zeroing", "value_zeroing maps, rolled out", "Mohebbi 2023", mixing="value_zeroing", how=_ROLL),
    Gradient(
        "cat",
        "gradient times hidden state, summed over layers",
        "Qiang 2022, Eq. 8-9",
        signed=True,
        function=gradients.cat,
        reads="hidden",
    ),
    Gradient(
        "attcat",
        "cat times the attention that a token receives",
        "Qiang 2022, Eq. 10-11",
        signed=True,
        function=gradients.attcat,
        reads="weights",
    ),
    Gradient(
        "grads",
        "gradient of the last layer's attention, read-out row",
        "Qiang 2022, Figure 2",
        signed=True,
        function=gradients.grads,
        reads="weights",
    ),
    Gradient(
        "att_grads",
        "gradient times attention, summed over layers, read-out row",
        "Qiang 2022, Figure 2",
        signed=True,
        function=gradients.att_grads,
        reads="weights",
    ),
    Gradient(
        "grad_sam",
        "attention times its positive gradient, a token's own row",
        "Barkan 2021",
        function=gradients.grad_sam,
        reads="weights",
    ),
    Relevance(
        "partial_lrp",
        "relevance of the last layer's attention, clamped, read-out row",
        "Voita 2019",
        function=relevance.partial_lrp,
    ),
    Relevance(
        "trans_att",
        "attention's relevance times its positive gradient, rolled out",
        "Chefer 2021",
        function=relevance.trans_att,
    ),
    Gradient("saliency", "L2 norm of gradient times input", "Modarressi 2022, Eq. 17", function=gradients.saliency),
    Gradient("grad_l2", "L2 norm of the gradient", "Ferrando 2022", function=gradients.grad_l2),
    Gradient(
        "grad_sum", "sum of the gradient over dimensions", "Abnar & Zuidema 2020", signed=True, function=gradients.grad_sum
    ),
    Gradient(
        "grad_x_input",
        "gradient times input, summed over dimensions",
        "Shrikumar 2016",
        signed=True,
        function=gradients.grad_x_input,
    ),
    Path(
        "integrated_gradients",
        "gradients along the way from a baseline, times the way",
        "Sundararajan 2017",
        steps=100,
    ),
    Path("deeplift", "rescaled activations, times the difference from a baseline", "Shrikumar 2017"),
    Occlusion("blank_out", "the answer's probability less that without the token", "Zeiler & Fergus 2014"),
    Jacobian("hta", "norm of the read-out vector's Jacobian by the input embeddings", "Brunner 2020"),
    Jacobian(
        "hta_x_input",
        "the same with the Jacobian's columns scaled by the input",
        "Modarressi 2022, Eq. 18",
        times_input=True,
    ),
    Random("random", "uniform random scores, seeded: the baseline of every table", "-"),
)
