"""What a call will take, before it starts: passes, peak memory, and the batches that stay inside a budget.

Peaks are estimates from above: of the largest layer's tensors, the method's own, and the maps that are kept. They are
held against measured peaks in the tests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mixlens.architectures import base_model
from mixlens.arguments import budget
from mixlens.attribute import ATTRIBUTIONS, Method, Preset
from mixlens.capture.batch import BatchSize
from mixlens.capture.offload import device_of
from mixlens.capture.run import layer_count
from mixlens.decompose.compiled import lanes
from mixlens.decompose.terms import ROW_BYTES, VECTOR_BYTES
from mixlens.decompose.zeroing import STEP_BYTES
from mixlens.errors import OverBudget, UnknownOption
from mixlens.facts import COST
from mixlens.mixing import MIXING

POINTS = {"cpu": 32}  # points of a way of so many tokens count as one text of a batch; shorter ones fill it up
POINTS_ELSEWHERE = 2048
HELD_BYTES = 256 << 20  # see mixing/hta.py and runners/jacobian.py
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

    def require(self, others: Sequence[str] = (), rows: bool = False) -> Plan:
        """Itself, or OverBudget with what would be enough: `others` that fit, some `rows` of a map alone."""
        if self.fits:
            return self
        enough = _shown(int(1.05 * self.peak_bytes))
        less = f"or a method that fits: {', '.join(others)}" if others else "or use a method that needs less"
        some = ", queries=[...] for some rows alone" if rows else ""
        raise OverBudget(
            f"expected {self.method} on {self.texts} text(s) of up to {self.tokens} tokens to need at most "
            f"{_shown(self.budget)} of memory, it needs about {_shown(self.peak_bytes)}; pass memory={enough!r} or "
            f"more, fewer or shorter texts{some}, {less} (see Lens.plan)"
        )

    def __str__(self) -> str:
        return (
            f"{self.method}, {self.texts} text(s) of up to {self.tokens} tokens: {self.time}; about {self.passes:.1f} "
            f"forward passes a text, {self.batch_size} at a time, at most {_shown(self.peak_bytes)} of "
            f"{_shown(self.budget)}"
        )


def bytes_of(memory: Any, device: torch.device) -> int:
    """A budget in bytes: "2GB", "512MiB", a number, or None: what is free now. Raises UnknownOption."""
    asked = budget(memory)
    return _free(device) if asked is None else asked


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
class Cost:
    """The sizes of a model that a call's cost depends on, and the class of what is done (a key of `facts.COST`)."""

    needs: str
    device: torch.device
    layers: int
    dim: int
    heads: int
    width: int  # of a head
    hidden: int  # of the feed-forward network, gates counted
    vocabulary: int  # logits of one position; 0 without a head that has one
    item: int  # bytes of a number, at least 4 where a method works on it
    half: bool
    masked: bool  # the pass holds a mask (query, key)
    own_jacobians: int = 0  # rows of a token's Jacobians, where every token has its own (a norm before the attention)
    steps: int = 100
    per_head: bool = False
    compiled: bool = False  # loops are compiled in the call, if it is the first
    together: int = 0  # methods that share the pass, a batch's maps of each being kept; 0: the maps of all texts are

    @property
    def weights(self) -> int:
        """Numbers of one layer."""
        return 4 * self.dim * self.heads * self.width + 2 * self.dim * self.hidden

    def layer_bytes(self, n: int) -> int:
        """One text in one layer: hidden states, query, key, value, FFN, mask, and what is captured of them."""
        return n * self.item * (14 * self.dim + 4 * self.heads * self.width + 2 * self.hidden) + self.masked * 2 * n * n

    def batch_bytes(self, n: int) -> int:
        """What grows with every text of a batch while it is run."""
        square, s = n * n, self.item
        maps = 3 * square * s  # a layer's map, masked and normalised
        own = {
            "forward": (3 * self.heads * square * s) if self.per_head else maps,
            "flow": maps,
            "decompose": maps + 16 * n * (self.heads + 1) ** 2 + square * s,
            "finish": maps + 3 * self.heads * square * s + 2 * n * self.heads * self.dim * s,
            "full": maps + 8 * self.heads * (5 * square + 4 * n * self.width),
            "jacobian": maps + 4 * self.heads * square * s + self.own_jacobians * n * self.dim * s,
            "backward": self.layers * (n * s * (24 * self.dim + 4 * self.hidden) + 5 * self.heads * square * s),
            "relevance": self.layers * (n * s * (30 * self.dim + 6 * self.hidden) + 8 * self.heads * square * s),
            "rows": self.layers * (n * s * (30 * self.dim + 6 * self.hidden) + 8 * self.heads * square * s),
        }
        own["path"], own["pair"], own["last relevance"] = own["backward"], 2 * own["backward"], own["relevance"]
        return self.layer_bytes(n) + own.get(self.needs, 0) + self.together * self.kept_bytes(n)

    def most(self, n: int, room: int) -> int:
        """How many texts of n tokens fit into a batch. Several methods at once gain nothing by batches of any size."""
        fit = (room - self.fixed_bytes(n)) // self.batch_bytes(n)
        return min(fit, 2 * HELD_BYTES // (self.together * self.kept_bytes(n) or 1)) if self.together > 1 else fit

    def kept_bytes(self, n: int) -> int:
        """The maps of a text by one method, kept from its pass on."""
        if self.needs not in ("forward", "flow", "decompose", "finish", "full", "jacobian"):
            return 0
        return self.layers * n * n * (self.heads if self.per_head else 1) * self.item

    def result_bytes(self, n: int) -> int:
        """One text's maps put together and aggregated in float64; causal models: beside those of uniform attention."""
        return self.kept_bytes(n) * (15 if self.masked else 7)

    def fixed_bytes(self, n: int) -> int:
        """What is held once a batch: blocks of rows and vectors, a layer in float32 where the model is half."""
        rows = min(ROW_BYTES, self.heads * n * n * self.item)
        vectors = min(VECTOR_BYTES, n * self.heads * self.dim * self.item)
        blocks = {"finish": 4 * STEP_BYTES + 3 * rows, "rows": 4 * HELD_BYTES, "jacobian": 6 * HELD_BYTES}
        fixed = blocks.get(self.needs, 4 * rows + 2 * vectors)
        compiler = COMPILER_BYTES if self.compiled else 0
        return BASE_BYTES + compiler + fixed + self.vocabulary * 8 + (2 * self.weights * 4 if self.half else 0)

    def passes(self, n: int) -> float:
        """Forward passes over a text of n tokens that the whole call costs, about."""
        square, inner = n * n, self.heads * self.width
        layer = 2 * n * self.weights + 4 * square * inner
        extra = {
            "forward": 4 * square * inner,
            "flow": 4 * square * inner,
            "decompose": 3 * (2 * n * inner * self.dim + 4 * (n + square) * self.heads**2),
            "finish": 1.3 * square * self.dim * self.hidden,
            "full": 12 * square * inner,
            "jacobian": 6 * n * self.dim**2 * (self.hidden + self.dim) + 4 * square * self.heads * self.width**2,
        }.get(self.needs, 0)
        whole = {
            "backward": 2.5,
            "relevance": 6,
            "last relevance": 1.5,
            "pair": 6,
            "path": 3 * self.steps,
            "occlusion": n,
            "rows": 2 * self.dim,
        }
        return whole.get(self.needs, 1.0) + extra / layer


def _cost(lens: Any, needs: str, options: Mapping[str, Any], together: int) -> Cost:
    base, spec = base_model(lens.model), lens.spec
    item = next(p.element_size() for p in base.parameters() if p.is_floating_point())
    heads = int(getattr(base.config, "num_attention_heads", 1))
    dim = int(base.config.hidden_size)
    width = int(getattr(base.config, "head_dim", None) or dim // heads)
    inner = int(getattr(base.config, "intermediate_size", None) or getattr(base.config, "n_inner", None) or 4 * dim)
    head = lens.model.get_output_embeddings() if hasattr(lens.model, "get_output_embeddings") else None
    return Cost(
        needs=needs,
        device=device_of(lens.model),
        layers=layer_count(lens.model, spec),
        dim=dim,
        heads=heads,
        width=width,
        hidden=inner * (2 if spec.feed.gated else 1),
        vocabulary=0 if head is None else int(head.weight.shape[0]),
        item=max(4, item),
        half=item < 4,
        masked=lens.head.causal,
        own_jacobians=0 if spec.order == "post" else 3 * dim + inner,
        steps=max(1, options.get("steps", 100)),  # none is refused by the method
        per_head=bool(options.get("per_head")),
        compiled=needs == "decompose" and item == 4 and device_of(lens.model).type == "cpu" and lanes() > 0,
        together=together,
    )


def of_maps(lens: Any, name: str, options: Mapping[str, Any]) -> Cost:
    """The cost of a mixing method's maps."""
    return _cost(lens, _needs_of_maps(name), options, 0)


def of_attribution(lens: Any, chosen: Method, options: Mapping[str, Any], together: int = 1) -> Cost:
    """The cost of an attribution method, beside `together - 1` others that share its pass."""
    return _cost(lens, _needs_of(chosen), options, together)


def _needs_of(chosen: Method) -> str:
    return _needs_of_maps(chosen.mixing) if isinstance(chosen, Preset) and chosen.needs != "flow" else chosen.needs


def _needs_of_maps(name: str) -> str:
    return "full" if name == "effective_attention" else MIXING[name].needs


def planned(name: str, of: Cost, lengths: Sequence[int], memory: Any, batch_size: int) -> Plan:
    """The Plan of a call on texts of these lengths. Raises UnknownOption."""
    budget, longest, kept = bytes_of(memory, of.device), max(lengths), _kept(of, lengths)
    # Some methods run many points of a way, or changed texts, for each text.
    runs = len(lengths) * {"path": of.steps, "occlusion": longest}.get(of.needs, 1)
    size = max(1, min(_asked(of, longest, batch_size), runs, of.most(longest, budget - kept)))
    peak = of.fixed_bytes(longest) + kept + size * of.batch_bytes(longest)
    time = COST["decompose" if of.needs == "full" else of.needs]
    return Plan(name, len(lengths), longest, time, of.passes(longest), size, peak, budget)


def within(name: str, of: Cost, lengths: Sequence[int], memory: Any, batch_size: int) -> tuple[int, BatchSize]:
    """The batch size of the longest texts, and that of each length. Raises OverBudget, UnknownOption.

    Not cut to the number of texts: some methods run many changed texts, or points of a way, for each.
    """
    if type(batch_size) is not int or batch_size < 1:
        raise UnknownOption(f"expected batch_size of 1 or more, got {batch_size!r}")
    plan = planned(name, of, lengths, memory, batch_size)
    if not plan.fits:
        plan.require(_fitting(of, lengths, memory, batch_size), of.together == 0 and MIXING[name].queries)
    room = plan.budget - _kept(of, lengths)

    def size(n: int) -> int:
        return max(1, min(_asked(of, n, batch_size), of.most(n, room)))

    return size(max(lengths)), size


def _fitting(of: Cost, lengths: Sequence[int], memory: Any, batch_size: int) -> list[str]:
    """The methods of the same kind, maps or scores, that would stay inside the budget."""
    needs = {name: _needs_of(one) for name, one in ATTRIBUTIONS.items()}
    if not of.together:
        needs = {name: _needs_of_maps(name) for name in MIXING}
    fits = {
        need: planned("", replace(of, needs=need, compiled=False), lengths, memory, batch_size).fits
        for need in set(needs.values())
    }
    return [name for name, need in needs.items() if fits[need] and name != "random"]


def _asked(of: Cost, n: int, batch_size: int) -> int:
    """How many rows of n tokens are to go through at a time: a text's points are many, and short ones leave room."""
    if of.needs != "path":
        return batch_size
    return max(batch_size, batch_size * POINTS.get(of.device.type, POINTS_ELSEWHERE) // n)


def _kept(of: Cost, lengths: Sequence[int]) -> int:
    """What stands beside a batch: maps of all texts if they are asked for, and room where one's become a result."""
    return (0 if of.together else sum(map(of.kept_bytes, lengths))) + of.result_bytes(max(lengths))


def _shown(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.2f}{name}" if size < 10 * unit else f"{size / unit:.0f}{name}"
    return f"{size / 1000:.1f}KB" if size >= 1000 else f"{size}B"
