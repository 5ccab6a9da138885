"""Two towers, of texts and of pictures, whose vectors are compared (CLIP, SigLIP): each as a model of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.architectures import TEXT, base_model, two_towers
from mixlens.capture.fed import random_signal
from mixlens.capture.offload import device_of
from mixlens.capture.picture import PIXELS
from mixlens.capture.shadow import implementation, shadow
from mixlens.errors import SelfCheckFailed, UnknownArchitecture
from mixlens.precision import is_half

PARTS = {TEXT: ("text_model", "get_text_features"), PIXELS: ("vision_model", "get_image_features")}
NAME_ONE = (
    "mixlens.load(model.text_model, tokenizer) or mixlens.load(model.vision_model, image_processor) is a lens on one "
    "of them"
)
_TOKENS = 8  # of a text that a tower is tried on


class Tower(nn.Module):
    """One tower as a model: its own layers, and behind them what makes the vector that both towers share.

    It holds the user's model and changes nothing of it. `last`: its vector is read at the last position, whatever
    stands there (SigLIP's texts): such a tower is fed texts filled up to their full length, as its processor does.
    """

    def __init__(self, whole: Any, food: str) -> None:
        super().__init__()
        self.whole = whole
        self.food = food
        self.last = food == TEXT and reads_last(self)

    @property
    def base_model(self) -> Any:
        """The tower alone."""
        return getattr(self.whole, PARTS[self.food][0])

    @property
    def config(self) -> Any:
        """The tower's own."""
        return self.base_model.config

    @property
    def dtype(self) -> torch.dtype:
        """The tower's."""
        return self.base_model.dtype

    @property
    def device(self) -> torch.device:
        """The tower's."""
        return self.base_model.device

    @property
    def main_input_name(self) -> str:
        """What it reads."""
        return self.food

    def get_input_embeddings(self) -> Any:
        """The tower's."""
        return self.base_model.get_input_embeddings()

    def forward(self, **inputs: Tensor) -> Any:
        """The model's own features of texts or of pictures."""
        return getattr(self.whole, PARTS[self.food][1])(**inputs)


def towers_of(model: Any) -> tuple[Tower, Tower] | None:
    """The tower of texts and that of pictures; None of a model of one stream. Raises UnknownArchitecture."""
    if not two_towers(type(model)):
        return None
    for name, _ in PARTS.values():
        if not hasattr(model, name):
            raise UnknownArchitecture(
                f"expected the towers of {type(model).__name__} at model.text_model and model.vision_model, it has no "
                f"{name}; load the part that is to be explained alone"
            )
    return Tower(model, TEXT), Tower(model, PIXELS)


def features(output: Any) -> Tensor:
    """The vectors (text or picture, dim) in what a tower gave. Raises UnknownArchitecture."""
    made = output if isinstance(output, Tensor) else getattr(output, "pooler_output", None)
    if not isinstance(made, Tensor) or made.ndim != 2:
        raise UnknownArchitecture(
            f"expected a vector of each text or picture from a tower, got {type(output).__name__} without one"
        )
    return made


@torch.no_grad()
def reads_last(tower: Tower) -> bool:
    """Whether the vector changes with a last token that is padding by its mask."""
    ids = torch.tensor(
        [[5, *[1] * (_TOKENS - 1)], [5, *[1] * (_TOKENS - 2), 2]], dtype=torch.int64, device=device_of(tower.base_model)
    )
    mask = torch.ones_like(ids)
    mask[:, _TOKENS // 2 :] = 0
    plain: Any = shadow(tower, "eager")
    with_one, with_other = features(plain(input_ids=ids, attention_mask=mask)).double()
    return not torch.equal(with_one, with_other)


@torch.no_grad()
def require_cosines(model: Any, towers: tuple[Tower, Tower], name: str) -> None:
    """The model's `logits_per_image` go by the cosines of both towers' vectors, on two texts and two pictures.

    Scale and bias are the model's own matter: a straight line has to lead from one to the other. Raises
    SelfCheckFailed.
    """
    inputs = probes(towers)
    attention = implementation(model)
    plain = shadow(model, attention if attention in ("eager", "sdpa") else "sdpa")
    logits = getattr(plain(**inputs[TEXT], **inputs[PIXELS]), "logits_per_image", None)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != (2, 2):
        raise SelfCheckFailed(
            f"expected {name} ({type(model).__name__}) to give logits_per_image of two pictures by two texts, it gives "
            f"{None if logits is None else tuple(logits.shape)}; what it compares its towers by is not known here"
        )
    text, picture = (
        nn.functional.normalize(features(shadow(tower, "eager")(**inputs[tower.food])).double(), dim=-1)
        for tower in towers
    )
    off = line_residual((picture @ text.T).flatten(), logits.double().flatten())
    limit = 0.2 if is_half(model.dtype) else 1e-3
    if not off <= limit:
        raise SelfCheckFailed(
            f"expected logits_per_image of {name} ({type(model).__name__}) to go by the cosines of its towers' "
            f"vectors, they are off by {off:.1e} (at most {limit:.1e}); the model compares them in another way"
        )


def line_residual(x: Tensor, y: Tensor) -> float:
    """How far `y` is off the straight line in `x` that fits it best, in parts of its own spread."""
    both = torch.stack([x, torch.ones_like(x)], 1)
    fit = both @ torch.linalg.lstsq(both, y[:, None]).solution
    return float((fit[:, 0] - y).abs().max() / (y - y.mean()).abs().max().clamp_min(1e-30))


def probes(towers: tuple[Tower, Tower]) -> Mapping[str, dict[str, Tensor]]:
    """Two texts of a few tokens, and two pictures: the same for every model of a size."""
    text, picture = towers
    device = device_of(text.base_model)
    draw = torch.Generator("cpu").manual_seed(0)
    size = base_model(text).get_input_embeddings().num_embeddings
    ids = torch.randint(0, size, (2, _TOKENS), generator=draw, dtype=torch.int64, device="cpu").to(device)
    picture_probe = random_signal(picture).to(device, picture.dtype)
    return {
        TEXT: {TEXT: ids, "attention_mask": torch.ones_like(ids)},
        PIXELS: {PIXELS: torch.cat([picture_probe, picture_probe.flip(-1) / 2])},
    }
