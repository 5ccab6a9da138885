"""The specs of encoder-decoders: each is the decoder's, with the encoder's as its memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from mixlens.architectures.spec import Attend, Feed, Seam, Spec
from mixlens.errors import UnknownArchitecture

BART = Spec(
    layers="decoder.layers",
    chain=(
        Attend("self_attn", "self_attn.out_proj", norm="self_attn_layer_norm"),
        Attend("encoder_attn", "encoder_attn.out_proj", norm="encoder_attn_layer_norm", reads="memory"),
        Feed(("fc1",), "activation_fn", "fc2", norm="final_layer_norm"),
    ),
    order="post",
    memory=Spec(
        layers="layers",
        chain=(
            Attend(
                "self_attn",
                "self_attn.out_proj",
                norm="self_attn_layer_norm",
                qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            ),
            Feed(("fc1",), "activation_fn", "fc2", norm="final_layer_norm"),
        ),
        order="post",
    ),
)


def _pre(post: Spec, **changes: Any) -> Spec:
    """The same with norms in front: that of the first attention needs no name."""
    first, *rest = post.chain
    assert isinstance(first, Attend)
    return replace(post, chain=(replace(first, norm=None, qkv=None), *rest), order="pre", **changes)


def _numbered(spec: Spec) -> Spec:
    """Positions are numbered from the ids, as padding has none."""
    return replace(spec, positions="ids")


assert BART.memory is not None
MBART = _pre(BART, memory=_pre(BART.memory))
M2M_100 = replace(_numbered(MBART), memory=_numbered(_pre(BART.memory)))


def _t5_feed(number: int, gated: bool) -> Feed:
    path = f"layer.{number}.DenseReluDense"
    up = (f"{path}.wi_0", f"{path}.wi_1") if gated else (f"{path}.wi",)
    return Feed(up, f"{path}.act", f"{path}.wo", norm=f"layer.{number}.layer_norm")


def _t5(gated: bool, seam: Seam) -> Spec:
    attend = Attend("layer.0.SelfAttention", "layer.0.SelfAttention.o")
    memory = Attend("layer.1.EncDecAttention", "layer.1.EncDecAttention.o", norm="layer.1.layer_norm", reads="memory")
    encoder = Spec(layers="block", chain=(attend, _t5_feed(1, gated)), norm="rms", seam=seam)
    chain = (attend, memory, _t5_feed(2, gated))
    return replace(encoder, layers="decoder.block", chain=chain, memory=encoder)


def bart(config: Any) -> Spec:
    """BART, PLBart, Blenderbot's small ones and Marian: norms behind the residual sums."""
    return _whole(config, BART)


def mbart(config: Any) -> Spec:
    """mBART, Pegasus, Blenderbot and Whisper: norms in front."""
    return _whole(config, MBART)


def m2m_100(config: Any) -> Spec:
    """M2M-100 and NLLB."""
    return _whole(config, M2M_100)


def t5(config: Any) -> Spec:
    """T5, mT5 and UMT5, their networks gated or not; of an encoder alone its layers."""
    spec = _t5(bool(config.is_gated_act), _t5_seam())
    if getattr(config, "is_encoder_decoder", True):
        return spec
    assert spec.memory is not None
    return replace(spec.memory, layers="encoder.block")


def _whole(config: Any, spec: Spec) -> Spec:
    """Raises UnknownArchitecture for one of the two stacks alone."""
    if getattr(config, "is_encoder_decoder", True):
        return spec
    raise UnknownArchitecture(
        f"expected an encoder-decoder of the type '{config.model_type}', its configuration says is_encoder_decoder="
        "False; load the whole model, or say the layers of the one stack with spec="
    )


@cache
def _t5_seam() -> Seam:
    """Where the installed transformers hands T5's attention out: older versions call no interface."""
    from transformers import T5PreTrainedModel

    return "interface" if getattr(T5PreTrainedModel, "_supports_sdpa", False) else "softmax"
