"""What fills a model's batches up, and a few tokens to try it on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import TEXT, Spec, base_model, decoder_of, fed, position_limit
from mixlens.capture.fed import SIGNALS, random_signal
from mixlens.capture.offload import device_of

PROBE_TOKENS = 24  # enough for small windows to end in it


def pad_id(model: Any, tokenizer: Any = None) -> int | None:
    """An id to fill up with: the config's, the tokenizer's, else 0; always one that has an embedding. None: no text."""
    if fed(model) != TEXT:
        return None
    size = base_model(model).get_input_embeddings().num_embeddings
    candidates = (getattr(model.config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None), 0)
    return next(i for i in candidates if isinstance(i, int) and 0 <= i < size)


def probe_inputs(model: Any, spec: Spec) -> dict[str, Tensor]:
    """A random picture or sound, or a few tokens without padding, the same for every model of a vocabulary size."""
    draw = torch.Generator("cpu").manual_seed(0)
    n = max(2, min(PROBE_TOKENS, position_limit(model, spec) or PROBE_TOKENS))
    pad = pad_id(model) or 0
    if fed(model) in SIGNALS:
        inputs = {fed(model): random_signal(model).to(device_of(model), model.dtype)}
    else:
        ids = _drawn(base_model(model), n, pad, draw).to(device_of(model))
        inputs = {TEXT: ids, "attention_mask": torch.ones_like(ids)}
    if spec.memory is not None:
        inputs["decoder_input_ids"] = _drawn(decoder_of(model), max(2, n - 5), pad, draw).to(device_of(model))
    return inputs


def _drawn(module: Any, n: int, pad: int, draw: torch.Generator) -> Tensor:
    size = module.get_input_embeddings().num_embeddings
    ids = torch.randint(0, size, (1, n), generator=draw, dtype=torch.int64, device="cpu")
    return torch.where(ids == pad, (pad + 1) % size, ids)
