"""The table of attribution methods: one line a method."""

from __future__ import annotations

from mixlens.attribute.ablated import Ablated
from mixlens.attribute.chance import Random
from mixlens.attribute.frozen import RULES, Frozen, PathLogit
from mixlens.attribute.gradient import Gradient
from mixlens.attribute.gradient import functions as gradients
from mixlens.attribute.jacobian import Jacobian
from mixlens.attribute.logit import AltiLogit, Logit
from mixlens.attribute.method import Method
from mixlens.attribute.occlusion import Occlusion
from mixlens.attribute.path import Path
from mixlens.attribute.preset import Preset
from mixlens.attribute.relevance import Relevance
from mixlens.attribute.relevance import rules as relevance
from mixlens.attribute.span import SpanRoutes

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
        arguments={"k": -1},
        zero_cls=True,
    ),
    Preset(
        "attention_rollout",
        "attention with half residual, rolled out",
        "Abnar & Zuidema 2020",
        mixing="attention",
        arguments=_HALF,
        zero_cls=True,
    ),
    Preset(
        "attention_flow",
        "attention with half residual, maximum flow",
        "Abnar & Zuidema 2020",
        mixing="attention",
        aggregation="flow",
        arguments={"residual": 0.5},
    ),
    Preset(
        "norm_rollout",
        "row-normalised norm_resln, rolled out (pre-LN: norm_res)",
        "Kobayashi 2021; Ferrando 2022",
        mixing="norm_resln",
        arguments=_ROWS,
        pre=Preset(
            "norm_rollout", "row-normalised norm_res, rolled out", "Kobayashi 2021", mixing="norm_res", arguments=_ROWS
        ),
    ),
    Preset(
        "globenc",
        "globenc maps, rolled out (pre-LN: row-normalised, since the next norm undoes a row's scale)",
        "Modarressi 2022",
        mixing="globenc",
        arguments=_ROLL,
        pre=Preset(
            "globenc", "row-normalised globenc maps, rolled out", "Modarressi 2022", mixing="globenc", arguments=_ROWS
        ),
    ),
    Preset("alti", "alti maps, rolled out", "Ferrando 2022", mixing="alti", arguments=_ROLL, receptive_field=False),
    Preset(
        "ifr",
        "ifr maps without the residual's edge, summed over layers",
        "Ferrando & Voita 2024",
        mixing="ifr",
        aggregation="sum",
        fixed={"with_residual": False},
        receptive_field=False,
    ),
    Preset("value_zeroing", "value_zeroing maps, rolled out", "Mohebbi 2023", mixing="value_zeroing", arguments=_ROLL),
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
        reads="received",
    ),
    Gradient(
        "grads",
        "gradient of the last layer's attention, read-out row",
        "Qiang 2022, Figure 2",
        signed=True,
        function=gradients.grads,
        reads="weights",
        row=True,
        per_layer=False,
    ),
    Gradient(
        "att_grads",
        "gradient times attention, summed over layers, read-out row",
        "Qiang 2022, Figure 2",
        signed=True,
        function=gradients.att_grads,
        reads="weights",
        row=True,
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
        reads="last",
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
        "grad_sum",
        "sum of the gradient over dimensions",
        "Abnar & Zuidema 2020",
        signed=True,
        function=gradients.grad_sum,
        sums=True,
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
        "gradients along the path from a baseline, times the path",
        "Sundararajan 2017",
        steps=100,
    ),
    Path("deeplift", "rescaled activations, times the difference from a baseline", "Shrikumar 2017"),
    Frozen(
        "cp_lrp",
        "gradient times input, norms' scales, attention and gates held fixed",
        "Ali 2022",
        rules=RULES["cp_lrp"],
    ),
    Frozen(
        "attn_lrp",
        "gradient times input, norms' scales held fixed, products shared by halves",
        "Achtibat 2024",
        rules=RULES["attn_lrp"],
    ),
    Frozen(
        "gim",
        "gradient times input, norms' scales held fixed, a warmer softmax, products shared by halves",
        "Edin 2025",
        rules=RULES["gim"],
    ),
    Frozen("libragrad", "the same as cp_lrp, by another way", "Mehri 2025", rules=RULES["libragrad"]),
    Logit("head_logit", "what each head carries straight to the logits, negative terms dropped", "mixlens"),
    PathLogit("path_logit", "what each head carries along paths to the logits, negative terms dropped", "mixlens"),
    AltiLogit("alti_logit", "direct terms of the logit, followed to the input through the alti maps", "Ferrando 2023"),
    SpanRoutes("flashtrace", "ifr of a span of the answer as one, by hops through the answer before it", "Pan 2026"),
    Occlusion("blank_out", "the answer's probability less that without the token", "Zeiler & Fergus 2014"),
    Ablated("leave_one_out", "the answer's log-odds less those without the unit", "Li 2016"),
    Ablated(
        "context_cite",
        "what each unit adds to the answer's log-odds, by LASSO over random ablations",
        "Cohen-Wang 2024",
        fitted=True,
    ),
    Jacobian("hta", "norm of the read-out vector's Jacobian by the input embeddings", "Brunner 2020"),
    Jacobian(
        "hta_x_input",
        "the same with the Jacobian's columns scaled by the input",
        "Modarressi 2022, Eq. 18",
        times_input=True,
    ),
    Random("random", "uniform random scores, seeded: the baseline of every table", "-"),
)
