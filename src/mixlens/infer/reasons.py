"""Why the layers of a model cannot be said by a spec, in words that name what has no room yet."""

from __future__ import annotations

import torch
from torch import Tensor

from mixlens.infer.traced import Run
from mixlens.infer.values import multiple, norm_kind, same

ALONE = "attention alone: no feed-forward network in the layer"
NO_NORM = "no norm in front of the feed-forward network"
NO_SUM = "no norm reads the sum of the layer's input and attention's output"
TWO_STREAMS = "an encoder-decoder: two streams of tokens, with cross attention between them"
TWO_TOWERS = (
    "two towers, one for texts and one for pictures; load the one that is to be explained: "
    "mixlens.load(model.vision_model, image_processor) or mixlens.load(model.text_model, tokenizer)"
)
NO_WAVE = (
    "takes no wave (sound, sample) as its input_values, but a spectrogram that it cuts into patches, or something else "
    "of its own, which has no rule here"
)
NOT_SEEN = "its attention is seen neither at transformers' attention interface nor at a softmax"


class Misfit(Exception):
    """A layer that no spec can say; its text is the reason."""


def no_projection(core: Tensor, linear: list[Run], runs: list[Run], when: int) -> str:
    """Why no linear map reads what the heads read."""
    later = [run for run in runs if run.begin > when]
    for run in later:
        if same(run.reads[0], core) and norm_kind(run.module, run.reads[0], run.gives[0]):
            return "a norm between attention and its output projection"
    for run in (r for r in linear if r.begin > when):
        read = run.reads[0]
        if read.numel() == core.numel() and read.shape[-1] == core.shape[-1]:
            ratio = read.reshape(core.shape) / core
            if bool(torch.isfinite(ratio).all()) and bool((ratio > -1e-6).all() and (ratio < 2.001).all()):
                return "gated attention output"
            if same(read.reshape(1, -1).sort().values, core.reshape(1, -1).sort().values):
                return "attention's output in another order (windows, flattened axes)"
    return "no linear map reads attention's output"


def scaled(x: Tensor, branch: Tensor, later: list[Run]) -> str | None:
    """How x and branch are joined, where not by a plain sum."""
    read = [t for run in later for t in run.reads if t.numel() == x.numel() and t.shape[-1] == x.shape[-1]]
    if any(same(t, x + branch) for t in read):
        return None
    for t in read:
        factor = multiple(branch, t.reshape(x.shape) - x)
        if factor is not None:
            return f"layer scale: attention's output times a {factor} that the layer does not hold"
        if _weighted(x, branch, t):
            return "a weighted residual sum"
    return None


def no_network(made: Tensor, given: Tensor, later: list[Run]) -> str:
    """Why no module maps each token's vector to what is added; `given`: the same before a norm of the branch."""
    for run in reversed(later):
        if same(run.gives[0], given) and any(True for _ in run.module.parameters()):
            return (
                f"a feed-forward network in pieces: {type(run.module).__name__} gives what is added, and no module "
                "maps a norm's output to it"
            )
    if any(multiple(run.gives[0], made) for run in later):
        return "layer scale: the feed-forward network's output times a factor that the layer does not hold"
    return "no module gives what is added behind attention (several networks, or a residual sum of another form)"


def _weighted(x: Tensor, branch: Tensor, t: Tensor) -> bool:
    """Whether t is p x + q branch."""
    both = torch.stack([x.flatten(), branch.flatten()], 1).double()
    solution = torch.linalg.lstsq(both, t.flatten()[:, None].double()).solution
    return same((both @ solution).reshape(1, -1), t.reshape(1, -1)) and bool(solution.abs().min() > 1e-3)
