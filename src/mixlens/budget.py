"""What a call will take, before it starts: passes, peak memory, and the batches that stay inside a budget.

Peaks are estimates from above: of the largest layer's tensors, the method's own, and the maps that are kept. They are
held against measured peaks in the tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mixlens.architectures import base_model, ffn_width, fuses_attention
from mixlens.arguments import budget
from mixlens.capture.batch import BatchSize
from mixlens.cost import Cost, Sizes
from mixlens.decompose.compiled import lanes
from mixlens.errors import OverBudget, UnknownOption
from mixlens.precision import is_half
from mixlens.subject import Subject

POINTS = {"cpu": 32}  # points of a path of so many tokens count as one text of a batch; shorter ones fill it up
POINTS_ELSEWHERE = 2048
TOGETHER_BYTES = 512 << 20  # maps of several methods: more gains nothing
BASE_BYTES = 24 << 20  # what Python, torch's threads and the allocator take beside the tensors
COMPILER_BYTES = 64 << 20  # LLVM itself, from the first loop on (decompose/compiled.py)


@dataclass(frozen=True)
class Plan:
    """What a call will take. `passes`: forward passes over a text, about; `peak_bytes`: above the model's weights.

    `time`: how the time grows, in words. `batch_size`: of the longest texts; shorter ones go through more at a time.
    `budget`: what `memory=` allows, or what is free.
    """

    method: str
    texts: int
    tokens: int  # of the longest text
    time: str
    passes: float
    batch_size: int
    peak_bytes: int
    budget: int

    @property
    def fits(self) -> bool:
        """Whether the longest text alone stays inside the budget."""
        return self.peak_bytes <= self.budget

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "fits": self.fits}

    def require(self, others: Sequence[str] = (), rows: bool = False) -> Plan:
        """Itself, or OverBudget with what would be enough: `others` that fit, or a row-wise map (`rows`)."""
        if self.fits:
            return self
        enough = shown_bytes(int(1.05 * self.peak_bytes))
        less = f"or a method that fits: {', '.join(others)}" if others else "or use a method that needs less"
        fewer = ", a row-wise map (queries=[...])" if rows else ""
        raise OverBudget(
            f"expected {self.method} on {self.texts} text(s) of up to {self.tokens} tokens to need at most "
            f"{shown_bytes(self.budget)} of memory, it needs about {shown_bytes(self.peak_bytes)}; pass "
            f"memory={enough!r} or more, fewer or shorter texts{fewer}, {less} (see Lens.plan)"
        )

    def __str__(self) -> str:
        return (
            f"{self.method}, {self.texts} text(s) of up to {self.tokens} tokens: {self.time}; about {self.passes:.1f} "
            f"forward passes a text, {self.batch_size} at a time, at most {shown_bytes(self.peak_bytes)} of "
            f"{shown_bytes(self.budget)}"
        )


def bytes_of(memory: Any, device: torch.device) -> int:
    """A budget in bytes: "2GB", "512MiB", a number, or None: what is free now. Raises UnknownOption."""
    size = budget(memory)
    return _free(device) if size is None else size


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + unused)
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 1 << 62  # cannot be known here


@dataclass(frozen=True)
class Demand:
    """A method's cost on one model. `together`: methods that share the pass, a batch's maps of each being kept; 0: the
    maps of all texts are. `beside`: bytes that a text holds beside the method's own.
    """

    cost: Cost
    sizes: Sizes
    together: int = 0
    beside: int = 0

    def batch_bytes(self, n: int) -> int:
        """What grows with every text of a batch while it is run."""
        held = self.sizes.layer_bytes(n) + int(self.cost.held(self.sizes, n)) + self.beside
        return held + self.together * self.cost.kept_bytes(self.sizes, n)

    def fixed_bytes(self, n: int) -> int:
        """What is held once a batch: blocks of rows and vectors, a layer in float32 where the model is half."""
        sizes = self.sizes
        compiled = self.cost.compiles and sizes.item == 4 and sizes.device.type == "cpu" and lanes() > 0
        wide = 2 * sizes.weights * 4 if sizes.half else 0
        blocks = int(self.cost.blocks(sizes, n))
        return BASE_BYTES + (COMPILER_BYTES if compiled else 0) + blocks + sizes.vocabulary * 8 + wide

    def most(self, n: int, room: int) -> int:
        """How many texts of n tokens fit into a batch. Several methods at once gain nothing by batches of any size."""
        fit = (room - self.fixed_bytes(n)) // self.batch_bytes(n)
        if self.together < 2:
            return fit
        return min(fit, TOGETHER_BYTES // (self.together * self.cost.kept_bytes(self.sizes, n) or 1))

    def wanted(self, n: int, batch_size: int) -> int:
        """How many rows of n tokens are to go through at a time: a text's points are many, short ones leave room."""
        if not self.cost.fills:
            return batch_size
        return max(batch_size, batch_size * POINTS.get(self.sizes.device.type, POINTS_ELSEWHERE) // n)

    def kept(self, lengths: Sequence[int]) -> int:
        """What stands beside a batch: maps of all texts if they are asked for, and room where one's become a result."""
        maps = 0 if self.together else sum(self.cost.kept_bytes(self.sizes, n) for n in lengths)
        return maps + self.cost.result_bytes(self.sizes, max(lengths))


def sizes_of(subject: Subject) -> Sizes:
    """The sizes of a model."""
    model, spec, device = subject.model, subject.spec, subject.device
    base = base_model(model)
    dtype = next(p.dtype for p in base.parameters() if p.is_floating_point())
    heads = int(getattr(base.config, "num_attention_heads", 1))
    dim = int(base.config.hidden_size)
    inner = ffn_width(model, spec)
    encoder = subject.encoder
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    return Sizes(
        device=device,
        layers=subject.layers + (0 if encoder is subject else encoder.layers),
        dim=dim,
        heads=heads,
        width=int(getattr(base.config, "head_dim", None) or dim // heads),
        hidden=inner * (2 if any(feed.gated for feed in spec.feeds) else 1),
        vocabulary=0 if head is None else len(getattr(head, "weight", ())) or int(base.config.vocab_size),
        item=max(4, dtype.itemsize),
        half=is_half(dtype),
        masked=subject.head.causal,
        fused=fuses_attention(model),
        own_jacobians=0 if spec.order == "post" else 3 * dim + inner,
    )


def planned(name: str, demand: Demand, lengths: Sequence[int], memory: Any, batch_size: int) -> Plan:
    """The Plan of a call on texts of these lengths. Raises UnknownOption."""
    cost, sizes = demand.cost, demand.sizes
    budget, longest, kept = bytes_of(memory, sizes.device), max(lengths), demand.kept(lengths)
    runs = len(lengths) * int(cost.runs(sizes, longest))
    size = max(1, min(demand.wanted(longest, batch_size), runs, demand.most(longest, budget - kept)))
    peak = demand.fixed_bytes(longest) + kept + size * demand.batch_bytes(longest)
    return Plan(name, len(lengths), longest, cost.words, cost.passes(sizes, longest), size, peak, budget)


def within(
    name: str,
    demand: Demand,
    lengths: Sequence[int],
    memory: Any,
    batch_size: int,
    others: Callable[[], Mapping[str, Cost]],
    rows: bool = False,
) -> tuple[int, BatchSize]:
    """The batch size of the longest texts, and that of each length. Raises OverBudget, UnknownOption.

    Not cut to the number of texts: some methods run many changed texts, or points of a path, for each. `others`: what
    may be named where it does not fit; `rows`: a row-wise map may be.
    """
    if type(batch_size) is not int or batch_size < 1:
        raise UnknownOption(f"expected batch_size of 1 or more, got {batch_size!r}")
    plan = planned(name, demand, lengths, memory, batch_size)
    if not plan.fits:
        plan.require(_fitting(demand, others(), lengths, memory, batch_size), rows)
    room = plan.budget - demand.kept(lengths)

    def size(n: int) -> int:
        return max(1, min(demand.wanted(n, batch_size), demand.most(n, room)))

    return size(max(lengths)), size


def _fitting(
    demand: Demand, others: Mapping[str, Cost], lengths: Sequence[int], memory: Any, batch_size: int
) -> list[str]:
    """The methods that would stay inside the budget."""
    fits: dict[int, bool] = {}
    for cost in {id(cost): cost for cost in others.values()}.values():
        alone = replace(demand, cost=replace(cost, compiles=False))
        fits[id(cost)] = planned("", alone, lengths, memory, batch_size).fits
    return [name for name, cost in others.items() if fits[id(cost)]]


def shown_bytes(size: int) -> str:
    """In GB, MB or KB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.2f}{name}" if size < 10 * unit else f"{size / unit:.0f}{name}"
    return f"{size / 1000:.1f}KB" if size >= 1000 else f"{size}B"
