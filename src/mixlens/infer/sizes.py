"""A configuration made small: fewer layers, narrower vectors, a small vocabulary; all else as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """How small. `only_depth`: widths stay as they are; `heads`: whether the width of a head is set too."""

    hidden: int = 64
    network: int = 96
    head: int = 16
    vocabulary: int = 128
    positions: int = 128
    layers: int = 3
    heads: bool = True
    only_depth: bool = False


# From the smallest on: some classes tie their sizes to each other, or cannot be cut.
SIZES = (
    Size(),
    Size(hidden=256, network=256, head=64, vocabulary=1024),
    Size(vocabulary=1024, network=128, heads=False),
    Size(layers=10**6),
    Size(only_depth=True, vocabulary=1024),
)

_DEPTH = (
    r".*(num_hidden_layers|num_layers|n_layers?|encoder_layers|decoder_layers|num_blocks|^depth|num_hidden_blocks)$"
)
_HIDDEN = (
    r"^(hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim|d_embed|output_dim|emb_dim|embedding_size|"
    r"word_embed_proj_dim|model_dim|width|projection_size)$"
)
_NETWORK = r".*(intermediate_size|ffn_dim|d_ff|ffn_hidden_size|mlp_dim|n_inner|inner_dim|ff_dim)$"
_KEY_HEADS = r".*(key_value_heads|kv_heads)$"
_HEADS = r".*(^|_)(attention_heads|n_heads?|n_head|num_heads)$"
_HEAD = r".*head_dim$|^d_kv$|^attention_head_size$|^kv_channels$"
_CHOSEN = (
    r".*(experts_per_tok|experts_per_token|moe_topk|moe_top_k|top_k_experts|num_selected_experts|router_top_k|moe_k)$"
)
_EXPERTS = r".*(n_routed_experts|num_experts|num_local_experts|n_experts)$"
_SMALL = {
    r"^kv_lora_rank$": 16,
    r"^rotary_dim$": 8,
    r"^coordinate_size$": 10,
    r"^shape_size$": 12,
    r"^(q|o)_lora_rank$": 24,
    r"^n_group$|^topk_group$": 1,
    _EXPERTS: 4,
    _CHOSEN: 2,
}
_PICTURE = {"image_size": 30, "patch_size": 6}
_SOUND = {"conv_dim": 32}
_VOCABULARY = r"(?!type_).*vocab_size$|^n_tokens$|^vocab_size_per_layer_input$"
_POSITIONS = r".*(max_position_embeddings|n_positions|max_seq_len|n_ctx|max_sequence_length)$"
_DENSE_FIRST = r"^first_k_dense_replace$|^num_dense_layers$"
_TOKEN = r".*(token_id|token_index)$"
_WORKED_OUT = ("head_dim", "num_key_value_heads")  # None: from the other sizes, by whoever made the configuration
_KEPT = ("model_type", "transformers_version", "_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype")


def small(config: Any, size: Size, signals: bool = False) -> Any:
    """A configuration of the same class, made small; `signals`: the pictures or sounds that it is fed too.

    Raises what the class raises for sizes that do not fit.
    """
    settings = _settings(config, size)
    if signals and not size.only_depth:
        given = config.to_dict()
        settings |= {k: min(v, given[k]) for k, v in _PICTURE.items() if isinstance(given.get(k), int)}
        settings |= {k: [min(v, n) for n in given[k]] for k, v in _SOUND.items() if isinstance(given.get(k), list)}
    made = type(config)(**settings)
    for key in ("use_cache", "chunk_size_feed_forward"):
        if getattr(made, key, None):
            setattr(made, key, type(getattr(made, key))(0))
    return made


def _settings(config: Any, size: Size) -> dict[str, Any]:
    """What the class is to be made with: all that differs from its defaults, and the sizes."""
    given = config.to_dict()
    parts = {name: getattr(config, name, None) for name in getattr(config, "sub_configs", {}) or {}}
    settings = {k: v for k, v in config.to_diff_dict().items() if k not in _KEPT and k not in parts}
    settings |= _shrunk({k: v for k, v in given.items() if k not in parts and k not in _KEPT}, size)
    for name, part in parts.items():
        if part is not None and hasattr(part, "to_diff_dict"):
            settings[name] = {**_settings(part, size), "model_type": type(part).model_type}
    return settings


def _shrunk(given: Mapping[str, Any], size: Size) -> dict[str, Any]:
    """The sizes among a configuration's settings, made small."""
    depth = next((v for k, v in given.items() if re.match(_DEPTH, k) and isinstance(v, int) and v > 0), 0)
    kept = _kinds(given, depth, size.layers)
    heads = next((v for k, v in given.items() if re.match(_HEADS, k) and not re.match(_KEY_HEADS, k)), None)
    new: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, (list, tuple)) and len(value) == depth > len(kept):
            new[key] = [value[i] for i in kept]
        elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
            made = _number(key, value, size, heads, len(kept))
            if made is not None and made != value:
                new[key] = made
        elif isinstance(value, Mapping) and value and all(str(k).isdigit() and int(k) < depth for k in value):
            new[key] = {kept.index(int(k)): v for k, v in value.items() if int(k) in kept}
        elif value is None and not size.only_depth and key in _WORKED_OUT:
            new[key] = size.head if key == "head_dim" else 4
        elif isinstance(value, Mapping) and key.startswith("rope_") and not size.only_depth:
            new[key] = _rotary(value, size.head, given.get("partial_rotary_factor"))
    return new


def _number(key: str, value: int, size: Size, heads: Any, layers: int) -> int | None:
    """A size made small; None: it stays."""
    if re.match(_DEPTH, key):
        return min(value, layers)
    if re.match(_DENSE_FIRST, key):
        return 1
    if re.match(_TOKEN, key):
        return value if value < size.vocabulary else 5 + sum(map(ord, key)) % 20
    if re.match(_VOCABULARY, key):
        return min(value, size.vocabulary)
    if size.only_depth:
        return None
    if re.match(_KEY_HEADS, key):
        return 4 if value == heads else min(value, 2)
    if re.match(_HEADS, key):
        return min(value, 4)
    for rule, made in _SMALL.items():
        if re.match(rule, key):
            return min(value, made)
    if re.match(_HEAD, key):
        return (8 if "rope" in key else size.head) if size.heads else None
    for rule, made in ((_HIDDEN, size.hidden), (_NETWORK, size.network), (_POSITIONS, size.positions)):
        if re.match(rule, key):
            return min(value, made)
    return None


def _rotary(rope: Mapping[str, Any], head: int, partial: float | None) -> dict[str, Any]:
    """A rotary embedding's settings for narrower heads: what lists a number a dimension, or shares them out."""
    new = dict(rope)
    half = int(head * (partial or rope.get("partial_rotary_factor") or 1)) // 2
    for key in ("short_factor", "long_factor"):
        if isinstance(rope.get(key), (list, tuple)):
            new[key] = list(rope[key])[:half]
    if "mrope_section" in rope:
        section = rope["mrope_section"]
        new["mrope_section"] = [max(1, part * (head // 2) // sum(section)) for part in section]
    return new


def _kinds(given: Mapping[str, Any], depth: int, layers: int) -> list[int]:
    """Which layers stay: the first of each kind that a list of the layers' kinds has, and no fewer than `layers`."""
    lists = [v for v in given.values() if isinstance(v, (list, tuple)) and len(v) == depth > 0]
    kinds = [repr([v[i] for v in lists]) for i in range(depth)]
    first = [i for i in range(depth) if kinds.index(kinds[i]) == i][: max(4, layers)]
    others = [i for i in range(depth) if i not in first]
    return sorted(first + others[: max(0, min(layers, depth) - len(first))])
