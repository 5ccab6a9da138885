"""One model of each kind against its own pass: experts, sinks, multipliers, attention at its softmax, two streams,
pictures, sounds, two towers.

python benchmarks/kinds.py [--repeats 5] [--threads 2] [--cpu-time] [--tokens 128]
    [--kinds clip ...]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from shapes import arguments, forward, picture, ratio, text

import mixlens
from mixlens.subject import EncoderDecoder, TwoTowers

SIZES = {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "vocab_size": 30000}
LLAMA = {**SIZES, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 1024}
SIDE = 176  # pixels of a picture
PICTURES = {"hidden_size": 512, "num_hidden_layers": 6, "image_size": SIDE, "patch_size": 16}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", LLAMA),  # for comparison
    "granite": ("Granite", {**LLAMA, "residual_multiplier": 0.22}),
    "qwen3_moe": ("Qwen3Moe", {**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}),
    "gpt_oss": ("GptOss", {**LLAMA, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 512}),
    "deberta-v2": (
        "DebertaV2",
        {**SIZES, "intermediate_size": 2048, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    ),
    "mpnet": ("MPNet", {**SIZES, "intermediate_size": 2048}),
    "vit": ("ViT", {**PICTURES, "num_attention_heads": 8, "intermediate_size": 2048}),  # 122 positions
    "dinov2": ("Dinov2", {**PICTURES, "num_attention_heads": 8}),
    "wav2vec2": (
        "Wav2Vec2",
        {**SIZES, "vocab_size": 32, "intermediate_size": 2048},
    ),
    "clip": (
        "CLIP",
        {
            "text_config": {**SIZES, "vocab_size": 30000, "intermediate_size": 2048},
            "vision_config": {**PICTURES, "num_attention_heads": 8, "intermediate_size": 2048},
        },
    ),
    "bloom": ("Bloom", {"hidden_size": 512, "n_layer": 6, "n_head": 8, "vocab_size": 30000}),
    "bart": (
        "Bart",
        {
            **{"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "vocab_size": 30000},
            **{"encoder_attention_heads": 8, "decoder_attention_heads": 8},
            **{"encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048},
        },
    ),
}
METHODS = ("attention", "globenc", "alti")
SIMILARITIES = ("token_products", "alti", "leave_out", "jacobian")  # of a text and a picture
WORDS = 16  # of the text beside a picture
TRACED = ("attention_rollout", "globenc", "alti")  # of an encoder-decoder, over as many source tokens as of the target


def sound(frames: int) -> torch.Tensor:
    """A wave of so many frames of wav2vec2, 320 samples apart."""
    draw = torch.Generator().manual_seed(0)
    return 0.1 * torch.randn(frames * 320 + 80, generator=draw)


def lens_on(kind: str) -> mixlens.Lens:
    """A lens on a random model without a head."""
    import transformers

    prefix, settings = KINDS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{prefix}Config")(**settings)
    ending = "ForConditionalGeneration" if config.is_encoder_decoder else "Model"
    return mixlens.load(getattr(transformers, prefix + ending)(config).eval())


def calls_on(lens: mixlens.Lens, ids: Any) -> tuple[Callable[[], Any], dict[str, Callable[[], Any]]]:
    """The model's own pass, and what each method does."""
    if isinstance(lens.subject, TwoTowers):
        beside = text(WORDS)
        pair = {"input_ids": torch.tensor([beside]), "pixel_values": picture(SIDE)[None]}
        return torch.no_grad()(lambda: lens.model(**pair)), {
            m: partial(lens.similarity, beside, picture(SIDE), m) for m in SIMILARITIES
        }
    if not isinstance(lens.subject, EncoderDecoder):
        given = {"input_values": ids} if lens.head.fed == "input_values" else ids
        return forward(lens, ids), {m: partial(lens.mixing, given, method=m) for m in METHODS}
    start = lens.model.config.decoder_start_token_id
    inputs = {"input_ids": torch.tensor([ids]), "decoder_input_ids": torch.tensor([[start, *ids[:-1]]])}
    plain = torch.no_grad()(lambda: lens.model(**inputs))
    return plain, {m: partial(lens.trace, ids, ids, m) for m in TRACED}


def main() -> int:
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    sizes, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    asked = arguments(__doc__, repeats=5)
    ids = text(sizes.tokens)
    for kind in sizes.kinds:
        lens = lens_on(kind)
        fed = picture(SIDE) if "image_size" in KINDS[kind][1] else sound(sizes.tokens) if kind == "wav2vec2" else ids
        plain, calls = calls_on(lens, fed)
        passes = {method: ratio(call, plain, asked)[0] for method, call in calls.items()}
        print(f"{kind:12}", "  ".join(f"{method} {value:5.2f}" for method, value in passes.items()), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
