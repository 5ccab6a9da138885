"""What do vectors know of a label? Minimum description length by online coding (Voita & Titov 2020, section 2.2).

The labels are sent in blocks: the first in the uniform code, each other with a probe that was trained on all before it.
The better the probe learns and the fewer examples it needs, the shorter the code. All lengths are in bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import log, log2
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from mixlens.errors import InputError, UnknownOption
from mixlens.measure.measure import Spread
from mixlens.measure.statistics import paired, resampled

ENDS = (0.8, 1.6, 3.2, 6.25, 12.5, 25, 50, 100)  # per cent of the examples
_BATCH, _RATE = 128, 1e-3
_CHECKS, _STEPS = 60, 4  # held-out losses at most, and optimiser's steps between two at least
_PATIENCE, _GAIN = 5, 1e-3  # so many losses in a row that fall by less than this, in nats, end the training


@dataclass(frozen=True, eq=False)
class Code:
    """`bits`: what each example's label costs, (example,), in the order given; `uniform`: what one costs anyway."""

    bits: Float[np.ndarray, " example"]
    uniform: float

    @property
    def compression(self) -> float:
        """Uniform code length / online code length; NaN where a label costs nothing anyway."""
        return float(self.uniform * len(self.bits) / self.bits.sum()) if self.uniform else float("nan")


def mdl_compression(
    vectors: Float[np.ndarray, "example dim"],
    labels: Shaped[np.ndarray, " label"],
    *,
    seed: int = 0,
    hidden: int = 128,
) -> float:
    """N log2 K / MDL of the labels given the vectors: about 1 or below where they say nothing, unbounded above.

    NaN: one class only, or no example. Raises InputError, UnknownOption. See `online_code`.
    """
    return online_code(vectors, labels, seed=seed, hidden=hidden).compression


def online_code(
    vectors: Float[np.ndarray, "example dim"],
    labels: Shaped[np.ndarray, " label"],
    *,
    seed: int = 0,
    hidden: int = 128,
) -> Code:
    """The online code of the labels, K classes, given one vector an example.

    Examples are shuffled by `seed`; blocks end at `ENDS`, 2 examples at least in the first. The probe: dropout 0.2, a
    hidden layer with ReLU and LayerNorm, dropout 0.3, K logits, 0 at first; AdamW, 1e-3, batches of 128. A tenth
    of what it may see is held out and stops it: the state with the least held-out cross-entropy is kept, the untrained
    one (the uniform code) included. The block to be coded is never looked at. On one CPU thread, in float32: more
    threads are slower at this size, and would change the last digits. Raises InputError, UnknownOption.
    """
    if hidden < 1:
        raise UnknownOption(f"hidden: expected at least 1, got {hidden}")
    if len(vectors) != len(labels):
        raise InputError(f"expected a label for each of {len(vectors)} vectors, got {len(labels)}")
    if not np.isfinite(vectors).all():
        raise InputError("expected finite vectors to probe, got NaN or infinity")
    classes, targets = np.unique(labels, return_inverse=True)
    uniform = log2(len(classes)) if len(classes) else 0.0
    bits = np.full(len(labels), uniform)
    if len(classes) < 2:
        return Code(bits, 0.0)
    order = np.random.default_rng(seed).permutation(len(labels))
    x, y = torch.from_numpy(vectors[order]).float(), torch.from_numpy(targets[order])
    ends = block_ends(len(labels))
    with _alone(), torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        for start, end in pairwise(ends):
            probe = _trained(x[:start], y[:start], len(classes), hidden)
            bits[order[start:end]] = _nats(probe, x[start:end], y[start:end]).numpy() / log(2)
    return Code(bits, uniform)


def mdl_spread(
    vectors: Float[np.ndarray, "example dim"],
    labels: Shaped[np.ndarray, " label"],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    draw_seed: int = 0,
    seed: int = 0,
    hidden: int = 128,
) -> Spread:
    """`mdl_compression` with the interval that draws of examples give, the code staying as it is.

    Null: the same vectors and permuted labels, coded anew. p: of a label's mean bits against those of the null. Raises
    InputError, UnknownOption.
    """
    code = online_code(vectors, labels, seed=seed, hidden=hidden)
    if np.isnan(code.compression):
        return Spread(0, *[float("nan")] * 5)
    mixed = np.asarray(labels)[np.random.default_rng((draw_seed, len(labels))).permutation(len(labels))]
    null = online_code(vectors, mixed, seed=seed, hidden=hidden)
    draw_options: dict[str, Any] = {"level": level, "resamples": resamples, "seed": draw_seed}
    low, high = interval(code, **draw_options)
    return Spread(
        len(labels), code.compression, low, high, null.compression, paired(code.bits, null.bits, **draw_options).p
    )


def interval(code: Code, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> tuple[float, float]:
    """The interval of a code's compression that draws of examples give, the code staying as it is."""
    n = len(code.bits)
    return resampled(lambda w: code.uniform * n / float(w @ code.bits), n, level=level, resamples=resamples, seed=seed)


@contextmanager
def _alone() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def block_ends(n: int) -> list[int]:
    """Where the blocks of n examples end, rounded, ascending; at least 2 examples stand in the first."""
    return sorted({min(n, max(2, round(n * percent / 100))) for percent in ENDS})


def _trained(x: Float[Tensor, "example dim"], y: Int[Tensor, " example"], classes: int, hidden: int) -> nn.Module:
    """A probe trained on nine tenths and stopped on the rest."""
    kind: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    probe = nn.Sequential(
        nn.Dropout(0.2),
        nn.Linear(x.shape[1], hidden, **kind),
        nn.ReLU(),
        nn.LayerNorm(hidden, **kind),
        nn.Dropout(0.3),
        nn.Linear(hidden, classes, **kind),
    )
    for parameter in probe[-1].parameters():
        nn.init.zeros_(parameter)
    held = max(1, round(len(y) / 10))
    x_held, y_held, x, y = x[:held], y[:held], x[held:], y[held:]
    best = {k: v.clone() for k, v in probe.state_dict().items()}
    least = goal = float(_nats(probe, x_held, y_held).mean())
    since = 0
    steps = torch.optim.AdamW(probe.parameters(), lr=_RATE, fused=True)
    queue: list[Tensor] = []
    for _ in range(_CHECKS):
        probe.train()
        for _ in range(max(_STEPS, -(-len(y) // _BATCH))):
            queue = queue or list(torch.randperm(len(y), dtype=torch.int64, device="cpu").split(_BATCH))
            rows = queue.pop()
            steps.zero_grad()
            nn.functional.cross_entropy(probe(x[rows]), y[rows]).backward()
            steps.step()
        loss = float(_nats(probe, x_held, y_held).mean())
        since = 0 if loss < goal - _GAIN else since + 1
        goal = loss if since == 0 else goal
        if loss < least:
            least = loss
            best = {k: v.clone() for k, v in probe.state_dict().items()}
        if since == _PATIENCE:
            break
    probe.load_state_dict(best)
    return probe


def _nats(probe: nn.Module, x: Float[Tensor, "example dim"], y: Int[Tensor, " example"]) -> Float[Tensor, " example"]:
    """-ln p of each label."""
    probe.eval()
    with torch.no_grad():
        return nn.functional.cross_entropy(probe(x).double(), y, reduction="none")
