"""The table of mixing methods: their functions and the facts about them."""

from __future__ import annotations

from mixlens.mixing.across import (
    alti_across,
    attention_across,
    globenc_across,
    norm_across,
    value_zeroing_across,
)
from mixlens.mixing.alti import alti
from mixlens.mixing.attention import attention, attention_fixed_res, attention_res
from mixlens.mixing.costs import DECOMPOSE, EDGES, FINISH, FORWARD, FORWARD_HEADS, JACOBIAN, VALUES
from mixlens.mixing.effective import effective_attention
from mixlens.mixing.hta import hta, hta_x_input
from mixlens.mixing.ifr import ifr
from mixlens.mixing.method import Mixing
from mixlens.mixing.norms import globenc, norm, norm_fixed_res, norm_res, norm_resln
from mixlens.mixing.value_zeroing import value_zeroing

MIXING: dict[str, Mixing] = {
    "attention": Mixing(
        attention,
        "W",
        "head mean of the attention weights",
        "Vaswani 2017",
        FORWARD,
        FORWARD_HEADS,
        rows_sum_to_one=True,
        queries=True,
        across=attention_across,
    ),
    "attention_fixed_res": Mixing(
        attention_fixed_res,
        "W_FIXEDRES",
        "half attention, half the token itself",
        "Abnar & Zuidema 2020",
        FORWARD,
        rows_sum_to_one=True,
        holds_residual=True,
    ),
    "attention_res": Mixing(
        attention_res,
        "W_RES",
        "attention mixed with the token itself by globenc's mixing ratio",
        "Modarressi 2022, Eq. 14-15",
        DECOMPOSE,
        rows_sum_to_one=True,
        holds_residual=True,
    ),
    "effective_attention": Mixing(
        effective_attention,
        "W_EFF",
        "attention minus its part in the left null space of the value terms",
        "Brunner 2020",
        VALUES,
        signed=True,
    ),
    "norm": Mixing(norm, "N", "norm of the value-weighted terms", "Kobayashi 2020", DECOMPOSE, queries=True),
    "norm_fixed_res": Mixing(
        norm_fixed_res,
        "N_FIXEDRES",
        "half row-normalised N, half the token itself",
        "Modarressi 2022",
        DECOMPOSE,
        rows_sum_to_one=True,
        holds_residual=True,
    ),
    "norm_res": Mixing(
        norm_res,
        "N_RES",
        "the same with the residual",
        "Kobayashi 2021",
        DECOMPOSE,
        holds_residual=True,
        queries=True,
        across=norm_across,
    ),
    "norm_resln": Mixing(
        norm_resln,
        "N_RESLN",
        "the same through the frozen first norm",
        "Kobayashi 2021",
        DECOMPOSE,
        holds_residual=True,
        orders=("post",),
        queries=True,
        across=norm_across,
    ),
    "globenc": Mixing(
        globenc,
        "N_ENC",
        "the same through both frozen norms: the whole layer but the FFN's direct effect",
        "Modarressi 2022, Eq. 11",
        DECOMPOSE,
        holds_residual=True,
        queries=True,
        across=globenc_across,
    ),
    "alti": Mixing(
        alti,
        "C",
        "how near each term comes to the sub-block's output",
        "Ferrando 2022, Eq. 9-10",
        DECOMPOSE,
        rows_sum_to_one=True,
        holds_residual=True,
        queries=True,
        across=alti_across,
    ),
    "ifr": Mixing(
        ifr,
        "IFR",
        "how near each head's term comes to the residual sum, the residual's own edge beside them",
        "Ferrando & Voita 2024",
        EDGES,
        rows_sum_to_one=True,
        holds_residual=True,
        queries=True,
    ),
    "value_zeroing": Mixing(
        value_zeroing,
        "C",
        "how far the layer's output moves when a token's value is zeroed",
        "Mohebbi 2023, Eq. 10",
        FINISH,
        rows_sum_to_one=True,
        queries=True,
        across=value_zeroing_across,
    ),
    "hta": Mixing(
        hta,
        "HTA",
        "Frobenius norm of the layer's Jacobian between two tokens",
        "Brunner 2020",
        JACOBIAN,
        holds_residual=True,
    ),
    "hta_x_input": Mixing(
        hta_x_input,
        "HTA x Inputs",
        "the same with the input's dimensions scaled by the input",
        "Modarressi 2022, Eq. 18",
        JACOBIAN,
        holds_residual=True,
    ),
}
