"""Where a model of sounds has its frames: which samples each is of, seen from how many enter the first layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, base_model
from mixlens.capture.entering import entering
from mixlens.capture.offload import device_of
from mixlens.capture.sound import WAVE
from mixlens.errors import UnsupportedConfig

LONGEST = 1 << 18  # samples within which a model has to have a first frame
PROBED = 24  # frames of a sound to try a model on
_SEVERAL = 5  # frames that must be as far apart as the first two


@dataclass(frozen=True)
class Timing:
    """A frame sees `field` samples, and the next one those `hop` samples later."""

    field: int
    hop: int

    def count(self, samples: int) -> int:
        """How many frames a sound of so many samples has."""
        return 0 if samples < self.field else (samples - self.field) // self.hop + 1

    def cuts(self, samples: int) -> tuple[tuple[int, int], ...]:
        """The samples [start, end) that each frame stands for: `hop` of them around the middle of what it sees.

        What frames see overlaps; these do not. The first and the last reach as far as anything is seen.
        """
        n, ahead = self.count(samples), (self.field - self.hop) // 2
        edges = [0, *(i * self.hop + ahead for i in range(1, n)), min(samples, (n - 1) * self.hop + self.field)]
        return tuple(pairwise(edges))


def random_sound(samples: int) -> Tensor:
    """(1, sample): the same for every model."""
    draw = torch.Generator("cpu").manual_seed(0)
    return torch.randn(1, samples, generator=draw, dtype=torch.float32, device="cpu")


def probe_length(model: Any) -> int:
    """Samples of about `PROBED` frames, by the convolutions that a configuration names; else 8,000."""
    config = base_model(model).config
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if not isinstance(kernels, (list, tuple)) or not isinstance(strides, (list, tuple)):
        return 8000
    samples = PROBED
    for kernel, stride in reversed(list(zip(kernels, strides, strict=True))):
        samples = (samples - 1) * stride + kernel
    return samples


def timing_of(model: Any, spec: Spec) -> Timing:
    """How frames follow each other, from the shortest sounds that have one, two and some more of them.

    Raises UnsupportedConfig where they do not follow each other evenly.
    """

    def frames(samples: int) -> int:
        x = random_sound(samples).to(device_of(model), model.dtype)
        try:
            return entering(model, spec, {WAVE: x}).shape[1]
        except Exception as error:  # whatever convolutions say of what is too short for them
            if isinstance(error, torch.OutOfMemoryError):
                raise
            return 0

    field = _shortest(frames, 1, 1)
    hop = 0 if field is None else (_shortest(frames, 2, field) or 0) - field
    if field is None or hop < 1:
        raise UnsupportedConfig(
            f"expected a frame more for some samples more of {type(model).__name__}, none came up to {LONGEST:,} "
            "samples; sounds that are cut in another way have no rule here"
        )
    timing = Timing(field, hop)
    for samples in (field + _SEVERAL * hop - 1, field + _SEVERAL * hop, field + (2 * _SEVERAL + 1) * hop - 1):
        if frames(samples) != timing.count(samples):
            raise UnsupportedConfig(
                f"expected a frame every {hop} samples of {type(model).__name__}, as the first two are apart, got "
                f"{frames(samples)} of {samples}, not {timing.count(samples)}; uneven frames have no rule here"
            )
    return timing


def _shortest(frames: Callable[[int], int], wanted: int, above: int) -> int | None:
    """The fewest samples that have so many frames; None: more than `LONGEST`."""
    low, high = above - 1, max(above, 16)
    while frames(high) < wanted:
        low, high = high, 2 * high
        if high > LONGEST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if frames(middle) >= wanted else (middle, high)
    return high
