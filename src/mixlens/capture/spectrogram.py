"""Models that are fed spectrograms of a fixed length (Whisper): how long they are, and how many columns a frame is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import base_model
from mixlens.errors import UnsupportedConfig


def shape_of(model: Any) -> tuple[int, int]:
    """Bands and columns of a spectrogram. Raises UnsupportedConfig where the configuration does not say."""
    base = base_model(model)
    encoder = base.get_encoder() if hasattr(base, "get_encoder") else base
    bands, positions = (getattr(base.config, name, None) for name in ("num_mel_bins", "max_source_positions"))
    steps = [part.stride[0] for part in encoder.children() if isinstance(part, torch.nn.Conv1d)]
    if not isinstance(bands, int) or not isinstance(positions, int) or not steps:
        raise UnsupportedConfig(
            f"expected a model of spectrograms of one length (num_mel_bins and max_source_positions in its "
            f"configuration, convolutions in front, as Whisper's), got {type(base).__name__}; others have no rule here"
        )
    columns = positions
    for step in steps:
        columns *= step
    return bands, columns


def random_spectrogram(model: Any) -> Tensor:
    """(1, band, column): the same for every model of a size."""
    draw = torch.Generator("cpu").manual_seed(0)
    return torch.randn(1, *shape_of(model), generator=draw, dtype=torch.float32, device="cpu")
