"""Tiny random models of pictures, float64, all weights random; a picture each, and their image processor."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from PIL import Image

from models.exact import exact_norms
from models.families import randomize

SIDE, PATCH = 30, 6  # 25 patches
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 44,
    "image_size": SIDE,
    "patch_size": PATCH,
    "num_channels": 3,
}


class Kind(NamedTuple):
    """The class of a model, of its configuration, and what stands beside the patches, in order."""

    model: str
    config: str
    beside: tuple[str, ...] = ("[CLS]",)
    settings: tuple[tuple[str, Any], ...] = ()


KINDS = {
    "vit": Kind("ViTForImageClassification", "ViTConfig", settings=(("num_labels", 5),)),
    "vit-base": Kind("ViTModel", "ViTConfig"),
    "deit": Kind("DeiTForImageClassification", "DeiTConfig", ("[CLS]", "token 2"), settings=(("num_labels", 5),)),
    "dinov2": Kind("Dinov2Model", "Dinov2Config"),
    "dinov2-head": Kind("Dinov2ForImageClassification", "Dinov2Config", settings=(("num_labels", 5),)),
    "dinov2-registers": Kind(
        "Dinov2WithRegistersModel",
        "Dinov2WithRegistersConfig",
        ("[CLS]", "register 1", "register 2"),
        settings=(("num_register_tokens", 2),),
    ),
    "dinov3": Kind(
        "DINOv3ViTModel",
        "DINOv3ViTConfig",
        ("[CLS]", "register 1", "register 2"),
        settings=(("num_register_tokens", 2),),
    ),
    "beit": Kind("BeitModel", "BeitConfig"),
    "clip": Kind("CLIPVisionModel", "CLIPVisionConfig"),
    "siglip": Kind("SiglipVisionModel", "SiglipVisionConfig", ()),
}


def make(name: str, dtype: torch.dtype = torch.float64, seed: int = 0, **settings: Any) -> Any:
    """A fresh model in eval mode."""
    kind = KINDS[name]
    config = getattr(transformers, kind.config)(**{**_SIZES, **dict(kind.settings), **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, kind.model)(config).double()
        randomize(model)
    exact_norms(model)
    return model.to(dtype).eval()


@cache
def model(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """`make`, once for all tests."""
    return make(name, dtype)


@cache
def lens(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """A lens on `model`, once for all tests."""
    import mixlens

    return mixlens.load(model(name, dtype), processor())


@cache
def processor(**settings: Any) -> Any:
    """An image processor that resizes to the models' pictures."""
    kind = getattr(transformers, "ViTImageProcessorPil", None) or transformers.ViTImageProcessor
    return kind(size={"height": SIDE, "width": SIDE}, **settings)


def image(width: int = 60, height: int = 45, seed: int = 0) -> Image.Image:
    """A picture of random colours."""
    draw = np.random.default_rng(seed)
    return Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8))


def pixels(count: int = 1, seed: int = 0) -> torch.Tensor:
    """(picture, channel, row, column) as a processor gives, within what it makes of black and white."""
    draw = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(count, 3, SIDE, SIDE, generator=draw, dtype=torch.float64) - 1
