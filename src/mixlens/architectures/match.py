"""A model and its spec: found by name, held against the configuration, refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from mixlens.architectures.spec import Spec
from mixlens.architectures.table import SPECS
from mixlens.errors import ModelError, SelfCheckFailed, UnknownArchitecture, UnsupportedConfig

# Keys whose every value is handled: sizes and wiring that are read off the pass (heads, masks, windows, rotary
# embeddings, caps), parts above or below the layers, names, token ids, training and generation.
_SIZES = """vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings
type_vocab_size embedding_size num_hidden_groups inner_group_num num_key_value_heads head_dim
word_embed_proj_dim ffn_dim n_layers n_heads dim hidden_dim n_positions n_embd n_layer n_head n_inner
num_layers num_heads d_model max_seq_len expansion_ratio ffn_hidden_size encoder_layers decoder_layers
encoder_ffn_dim decoder_ffn_dim encoder_attention_heads decoder_attention_heads decoder_vocab_size d_kv d_ff
num_decoder_layers num_mel_bins max_source_positions max_target_positions"""
_READ_OFF = """hidden_act hidden_activation activation activation_function layer_norm_eps layer_norm_epsilon
rms_norm_eps
norm_eps norm_bias attention_bias mlp_bias enable_bias layer_norm_elementwise_affine rope_parameters
sliding_window use_sliding_window max_window_layers layer_types local_attention query_pre_attn_scalar
attn_logit_softcapping scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn
use_bidirectional_attention is_decoder use_parallel_residual do_layer_norm_before sinusoidal_pos_embds
pretraining_tp chunk_size_feed_forward residual_multiplier attention_multiplier embedding_multiplier logits_scaling
num_local_experts num_experts num_experts_per_tok experts_per_token moe_intermediate_size decoder_sparse_step
mlp_only_layers norm_topk_prob swiglu_limit relative_attention relative_attention_num_buckets pos_att_type
position_buckets share_att_key norm_rel_ebd max_relative_positions position_biased_input alibi attention_types
attention_layers window_size num_kv_heads multi_query new_decoder_architecture parallel_attn num_ln_in_parallel_attn
bias attn_config pooler_hidden_size pooler_dropout pooler_hidden_act scale_embedding feed_forward_proj
dense_act_fn is_gated_act relative_attention_max_distance is_encoder_decoder share_encoder_decoder_embeddings"""
_ELSEWHERE = """_name_or_path architectures dtype id2label label2id model_type output_attentions output_hidden_states
problem_type return_dict transformers_version use_cache tie_word_embeddings final_logit_softcapping
_remove_final_layer_norm classifier_pooling classifier_dropout classifier_dropout_prob classifier_bias
classifier_activation decoder_bias summary_type summary_use_proj summary_activation summary_last_dropout
summary_first_dropout summary_proj_to_labels pad_token_id bos_token_id eos_token_id cls_token_id sep_token_id
sparse_prediction sparse_pred_ignore_index deterministic_flash_attn decoder_start_token_id forced_bos_token_id
forced_eos_token_id scale_decoder_outputs suppress_tokens begin_suppress_tokens classifier_proj_size
median_filter_width encoder_no_repeat_ngram_size"""
_TRAINING = """hidden_dropout_prob attention_probs_dropout_prob hidden_dropout attention_dropout dropout qa_dropout
seq_classif_dropout resid_pdrop embd_pdrop attn_pdrop mlp_dropout embedding_dropout layerdrop initializer_range
init_std initializer_factor encoder_layerdrop decoder_layerdrop activation_dropout dropout_rate
classif_dropout initializer_cutoff_factor router_jitter_noise router_aux_loss_coef output_router_logits
apply_spec_augment mask_time_prob mask_time_length
mask_time_min_masks mask_feature_prob mask_feature_length mask_feature_min_masks"""
HANDLED = frozenset(" ".join((_SIZES, _READ_OFF, _ELSEWHERE, _TRAINING)).split())

# Keys that today's classes no longer read although old checkpoints carry them: the model would be another one.
GONE = {"position_embedding_type": "absolute", "quantization_config": None}


def unwrap(model: Any) -> Any:
    """The Hugging Face model inside a PEFT wrapper, else the model itself. Raises ModelError for anything else."""
    model = getattr(model, "_orig_mod", model)  # torch.compile's wrapper
    if hasattr(model, "get_base_model") and hasattr(model, "peft_config"):
        if any(getattr(c, "is_prompt_learning", False) for c in model.peft_config.values()):
            raise UnsupportedConfig(
                "expected a PEFT model that changes weights (LoRA and the like), got prompt learning, which adds "
                "positions that are no tokens; merge or remove it"
            )
        model = model.get_base_model()
    if not hasattr(model, "config") or not hasattr(model.config, "model_type"):
        raise ModelError(
            f"expected a Hugging Face transformers model, a folder or a model id, got {type(model).__name__}"
        )
    return model


def base_model(model: Any) -> Any:
    """The part without heads (`model.bert`, `model.transformer` ...), whatever a class of one's own calls it."""
    base = model.base_model
    config: Any = type(model.config)
    kind = base_class(config)
    if kind is not None and isinstance(model, kind) and not isinstance(base, kind):
        return model  # (DINOv3 has its encoder where others have the model)
    if base is not model or kind is None or isinstance(model, kind):
        return base
    inside = [module for module in model.modules() if isinstance(module, kind)]
    if not inside and model.main_input_name != "input_ids":  # the part of two towers that a head reads (SigLIP's)
        inside = [part for part in model.children() if hasattr(part, "base_model") and hasattr(part, "config")]
    return inside[0] if len(inside) == 1 else base


def encoder_of(model: Any) -> Any:
    """The encoder of an encoder-decoder, a model without a head."""
    return base_model(model).get_encoder()


def decoder_of(model: Any) -> Any:
    """The decoder of an encoder-decoder."""
    return base_model(model).get_decoder()


@cache
def base_class(config: Any) -> Any:
    """transformers' class without heads for a class of configurations; None: it has none."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    kinds = MODEL_MAPPING.get(config, None)
    return kinds[0] if isinstance(kinds, tuple) else kinds


def submodule(module: Any, path: str) -> Any:
    """The submodule at a dotted path; activations may be plain functions, so attributes are followed."""
    for part in path.split("."):
        if not hasattr(module, part):
            raise SelfCheckFailed(
                f"expected {type(module).__name__} to have '{part}' (of the spec's path '{path}'), it has not; "
                "the model's layers are built in another way than its model type says"
            )
        module = getattr(module, part)
    return module


def layer_modules(base: Any, spec: Spec) -> list[Any]:
    """The distinct layer modules in the order of their first run (ALBERT runs each several times)."""
    layers = spec.layers(base) if callable(spec.layers) else submodule(base, spec.layers)
    if not isinstance(layers, Iterable):
        raise SelfCheckFailed(
            f"expected a list of layers at the spec's path '{spec.layers}' of {type(base).__name__}, got "
            f"{type(layers).__name__}"
        )
    return list(dict.fromkeys(layers))


def has_spec(config: Any) -> bool:
    """Whether the table has a spec of the configuration's model type."""
    return config.model_type in SPECS


def spec_for(config: Any) -> Spec:
    """The spec of a configuration. Raises UnknownArchitecture, or UnsupportedConfig naming the key."""
    family = SPECS.get(config.model_type)
    if family is None:
        raise UnknownArchitecture(
            f"expected a model type of {', '.join(sorted(SPECS))}, got '{config.model_type}'; "
            "CONTRIBUTING.md shows how to add one (a spec of about ten lines)"
        )
    check_config(config)
    return family(config)


def check_gone(config: Any) -> None:
    """No key that changed the mathematics once and is no longer read may be set. Raises UnsupportedConfig."""
    for key, value in config.to_dict().items():
        if key in GONE and value != GONE[key] and not _floats(key, value):
            raise _unsupported(config, key, value, GONE[key])


def check_config(config: Any) -> None:
    """Every key that differs from its class's default must be handled. Raises UnsupportedConfig."""
    check_gone(config)
    mine, default = config.to_dict(), type(config)().to_dict()
    for key, value in mine.items():
        # Keys that the class does not know cannot change what it computes.
        if key in default and key not in HANDLED and value != default[key]:
            raise _unsupported(config, key, value, default[key])


def _floats(key: str, value: Any) -> bool:
    """Whether a quantisation is one that is undone on loading: what a GGUF file held are plain floats then."""
    return key == "quantization_config" and isinstance(value, dict) and value.get("quant_method") == "gguf"


def _unsupported(config: Any, key: str, value: Any, default: Any) -> UnsupportedConfig:
    remedy = "load a model without it, or add the rule (CONTRIBUTING.md)"
    if key == "quantization_config":
        remedy = "make floats of these very weights, from_pretrained(...).dequantize(), and load the model"
    return UnsupportedConfig(
        f"expected the configuration of '{config.model_type}' with {key}={default!r}, got {key}={value!r}, which may "
        f"change the mathematics and has no rule here; {remedy}"
    )
