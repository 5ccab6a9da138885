"""A tiny random Whisper in a folder, with what reads sounds and no tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

SIZES = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 44,
    "decoder_ffn_dim": 44,
    "num_mel_bins": 20,
    "max_source_positions": 50,
    "max_target_positions": 30,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}


def make() -> transformers.PreTrainedModel:
    """The model, in float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**SIZES)).eval()


def extractor() -> transformers.WhisperFeatureExtractor:
    """Sounds of one second, in 50 frames."""
    return transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)


def whisper(folder: Path) -> Path:
    """The folder, with both."""
    for part in (make(), extractor()):
        part.save_pretrained(folder)
    return folder
