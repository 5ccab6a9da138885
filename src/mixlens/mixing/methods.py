"""The table of mixing methods: their functions and the facts about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from mixlens.architectures.spec import Order, Spec
from mixlens.mixing.alti import alti
from mixlens.mixing.attention import attention, attention_fixed_res, attention_res
from mixlens.mixing.effective import effective_attention
from mixlens.mixing.hta import hta, hta_x_input
from mixlens.mixing.norms import globenc, norm, norm_fixed_res, norm_res, norm_resln
from mixlens.mixing.value_zeroing import value_zeroing
from mixlens.options import options_of

Needs = Literal["forward", "decompose", "finish", "jacobian"]


@dataclass(frozen=True)
class Mixing:
    """A mixing method: a pure function `(block, **options) -> (batch, query, key)`, and the facts about it."""

    function: Callable[..., Tensor]
    symbol: str
    summary: str
    cite: str
    needs: Needs  # the pass alone, the terms, the rest of the layer for every pair of tokens, or its Jacobian
    rows_sum_to_one: bool = False
    holds_residual: bool = False
    signed: bool = False
    queries: bool = False  # can be had for some query rows alone, with less work
    orders: tuple[Order, ...] = ("post", "pre", "parallel")

    def options(self) -> dict[str, Any]:
        """Option name -> default, read from the function's keyword-only arguments."""
        return options_of(self.function)

    def defined(self, spec: Spec) -> bool:
        """Whether there is such a map for an architecture."""
        return spec.order in self.orders


MIXING: dict[str, Mixing] = {
    "attention": Mixing(
        attention,
        "W",
        "head mean of the attention weights",
        "Vaswani 2017",
        "forward",
        rows_sum_to_one=True,
        queries=True,
    ),
    "attention_fixed_res": Mixing(
        attention_fixed_res,
        "W_FIXEDRES",
        "half attention, half the token itself",
        "Abnar & Zuidema 2020",
        "forward",
        rows_sum_to_one=True,
        holds_residual=True,
    ),
    "attention_res": Mixing(
        attention_res,
        "W_RES",
        "attention mixed with the token itself by globenc's mixing ratio",
        "Modarressi 2022, Eq. 14-15",
        "decompose",
        rows_sum_to_one=True,
        holds_residual=True,
    ),
    "effective_attention": Mixing(
        effective_attention,
        "W_EFF",
        "attention minus its part in the left null space of the value terms",
        "Brunner 2020",
        "decompose",
        signed=True,
    ),
    "norm": Mixing(norm, "N", "norm of the value-weighted terms", "Kobayashi 2020", "decompose", queries=True),
    "norm_fixed_res": Mixing(
        norm_fixed_res,
        "N_FIXEDRES",
        "half row-normalised N, half the token itself",
        "Modarressi 2022",
        "decompose",
        rows_sum_to_one=True,
        holds_residual=True,
    ),
    "norm_res": Mixing(
        norm_res,
        "N_RES",
        "the same with the residual",
        "Kobayashi 2021",
        "decompose",
        holds_residual=True,
        queries=True,
    ),
    "norm_resln": Mixing(
        norm_resln,
        "N_RESLN",
        "the same through the frozen first norm",
        "Kobayashi 2021",
        "decompose",
        holds_residual=True,
        orders=("post",),
        queries=True,
    ),
    "globenc": Mixing(
        globenc,
        "N_ENC",
        "the same through both frozen norms: the whole layer but the FFN's direct effect",
        "Modarressi 2022, Eq. 11",
        "decompose",
        holds_residual=True,
        queries=True,
    ),
    "alti": Mixing(
        alti,
        "C",
        "how near each term comes to the sub-block's output",
        "Ferrando 2022, Eq. 9-10",
        "decompose",
        rows_sum_to_one=True,
        holds_residual=True,
        queries=True,
    ),
    "value_zeroing": Mixing(
        value_zeroing,
        "C",
        "how far the layer's output moves when a token's value is zeroed",
        "Mohebbi 2023, Eq. 10",
        "finish",
        rows_sum_to_one=True,
        queries=True,
    ),
    "hta": Mixing(
        hta,
        "HTA",
        "Frobenius norm of the layer's Jacobian between two tokens",
        "Brunner 2020",
        "jacobian",
        holds_residual=True,
    ),
    "hta_x_input": Mixing(
        hta_x_input,
        "HTA x Inputs",
        "the same with the input's dimensions scaled by the input",
        "Modarressi 2022, Eq. 18",
        "jacobian",
        holds_residual=True,
    ),
}
