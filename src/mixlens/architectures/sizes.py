"""What a model says of itself beside what its layers are: how many run, how wide they are, how tokens are placed."""

from __future__ import annotations

import inspect
from typing import Any

from mixlens.architectures.match import base_model, layer_modules, submodule
from mixlens.architectures.spec import Spec

TEXT = "input_ids"  # what models of texts read


def layer_count(model: Any, spec: Spec) -> int:
    """How many layers run in one pass; a module that runs several times counts as often."""
    base = base_model(model)
    return len(list(spec.layers(base) if callable(spec.layers) else submodule(base, spec.layers)))


def shares_layers(spec: Spec) -> bool:
    """Whether one layer's weights may serve several layers: the layers are no plain list of the model then."""
    return callable(spec.layers)


def ffn_width(model: Any, spec: Spec) -> int:
    """Hidden activations of one token in the widest feed-forward network, gates not counted.

    Of networks that are known as a whole the outputs of all their linear maps, of stacked experts those of each that a
    token is sent to.
    """
    layers = layer_modules(base_model(model), spec)
    known = [_reads(submodule(layer, feed.down)) for layer in layers for feed in spec.feeds]
    chosen = _experts_a_token(model.config)
    return max(known + [_made(submodule(layer, part.module), chosen) for layer in layers for part in spec.networks])


def _made(network: Any, chosen: int | None) -> int:
    """The numbers that a network's matrices give of one token, at most."""
    width = 0
    for weight in network.parameters():
        if weight.ndim == 2:
            width += len(weight)
        elif weight.ndim == 3:  # one matrix an expert
            width += max(weight.shape[1:]) * min(len(weight), chosen or len(weight))
    return width


def _experts_a_token(config: Any) -> int | None:
    """How many experts a router sends a token to; None where the configuration does not say."""
    for name in ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts"):
        if isinstance(number := getattr(config, name, None), int):
            return number
    return None


def _reads(linear: Any) -> int:
    """The width of the vectors that a linear map reads, whatever class it is of."""
    width = getattr(linear, "in_features", None)
    return int(linear.weight.shape[0] if width is None else width)  # transformers' Conv1D: (in, out)


def accepts(model: Any) -> frozenset[str]:
    """The names of what a model's forward takes; one that takes any hands them on to the model without heads."""
    taken = inspect.signature(getattr(model.forward, "_torchdynamo_orig_callable", model.forward)).parameters
    names = frozenset(name for name, p in taken.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
    base = base_model(model)
    if base is not model and any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return names | accepts(base)
    return names


def fed(model: Any) -> str:
    """The name of what a model reads: TEXT, "pixel_values"."""
    return str(getattr(model, "main_input_name", TEXT))


def two_towers(kind: Any) -> bool:
    """Whether a class holds a model of texts and one of pictures, whose vectors it compares (CLIP)."""
    return hasattr(kind, "get_text_features") and hasattr(kind, "get_image_features")


def takes_positions(model: Any) -> bool:
    """Whether the positions of tokens can be given (`position_ids`)."""
    return "position_ids" in accepts(model)


def position_limit(model: Any, spec: Spec) -> int | None:
    """The most tokens that the model has positions for; None where nothing says so."""
    config = model.config
    named = ("max_position_embeddings", "n_positions", "max_target_positions")
    limit = next((size for name in named if (size := getattr(config, name, None))), None)
    if limit is None:
        return None
    return int(limit) - int(config.pad_token_id) - 1 if spec.positions == "ids" else int(limit)


def fuses_attention(model: Any) -> bool:
    """Whether attention is what torch's fused kernels compute: no soft cap on its logits, no bias, no sinks."""
    base = base_model(model)
    if getattr(base.config, "attn_logit_softcapping", None) or hasattr(base.config, "relative_attention_num_buckets"):
        return False
    return not any(name.endswith(".sinks") for name, _ in base.named_parameters())


def by_length(module: Any) -> bool:
    """Whether a module's rotary embedding turns otherwise in a longer text: a batch is as long as its longest."""
    kinds = getattr(module, "rope_type", None)
    named = kinds.values() if isinstance(kinds, dict) else [kinds]
    return any(isinstance(kind, str) and ("dynamic" in kind or kind == "longrope") for kind in named)
