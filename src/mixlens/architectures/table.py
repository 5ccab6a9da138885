"""The table of architectures: the spec of a configuration, by its model type."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from mixlens.architectures import families, translators
from mixlens.architectures.spec import Spec

SPECS: dict[str, Callable[[Any], Spec]] = {
    "bert": lambda config: families.BERT,
    "roberta": lambda config: families.ROBERTA,
    "xlm-roberta": lambda config: families.ROBERTA,
    "camembert": lambda config: families.ROBERTA,
    "electra": lambda config: families.BERT,
    "distilbert": lambda config: families.DISTILBERT,
    "albert": lambda config: families.ALBERT,
    "gpt2": lambda config: families.GPT2,
    "gpt_neox": families.gpt_neox,
    "opt": families.opt,
    "llama": lambda config: families.LLAMA,
    "mistral": lambda config: families.LLAMA,
    "qwen2": lambda config: families.LLAMA,
    "qwen3": lambda config: families.LLAMA,
    "gemma2": lambda config: families.GEMMA2,
    "granite": lambda config: families.GRANITE,
    "mixtral": lambda config: families.MIXTURE,
    "qwen3_moe": lambda config: families.MIXTURE,
    "gpt_oss": lambda config: families.MIXTURE,
    "olmo2": lambda config: families.OLMO2,
    "modernbert": lambda config: families.MODERNBERT,
    "deberta": lambda config: families.DEBERTA,
    "deberta-v2": lambda config: families.DEBERTA,
    "mpnet": lambda config: families.MPNET,
    "bloom": lambda config: families.BLOOM,
    "gpt_neo": lambda config: families.GPT_NEO,
    "mpt": lambda config: families.MPT,
    "bart": translators.bart,
    "marian": translators.bart,
    "plbart": translators.bart,
    "blenderbot-small": translators.bart,
    "blenderbot": translators.mbart,
    "mbart": translators.mbart,
    "pegasus": translators.mbart,
    "m2m_100": translators.m2m_100,
    "t5": translators.t5,
    "mt5": translators.t5,
    "umt5": translators.t5,
    "whisper": translators.mbart,
}

CHOICES: dict[str, tuple[str, tuple[Any, ...]]] = {  # the setting that a family's spec depends on, and its values
    "gpt_neox": ("use_parallel_residual", (True, False)),
    "opt": ("do_layer_norm_before", (True, False)),
    "t5": ("is_gated_act", (False, True)),
    "mt5": ("is_gated_act", (False, True)),
    "umt5": ("is_gated_act", (False, True)),
}


def variants(kind: str) -> dict[str, Spec]:
    """The specs of a model type by the setting that chooses between them; `{"": spec}` where there is one."""
    if kind not in CHOICES:
        return {"": SPECS[kind](SimpleNamespace())}
    key, values = CHOICES[kind]
    return {f"{key}={value}": SPECS[kind](SimpleNamespace(**{key: value})) for value in values}
