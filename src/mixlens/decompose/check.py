"""The three-way self-check of a layer, each against the model's own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mixlens.architectures import Attend, Feed, Network, submodule
from mixlens.capture.again import attention_alone, attention_of
from mixlens.capture.attention import repeat_heads
from mixlens.decompose.block import Block
from mixlens.errors import SelfCheckFailed
from mixlens.precision import is_half, widened

COPIES = 128  # of one token
_STRIDE = 6  # layers of a call's check, where one of so many is looked at
_STEP = 7919  # rows of a call's check: a prime, so that layers look at others
ROWS = 128  # whose terms are summed up, where there are more (1,500 frames of Whisper)
TIMES_EPS = 50  # seen on right specs: up to 5.4
TIMES_HALF = 10  # in half precision: seen up to 1.1; 50 would be 0.4 in bfloat16, and let swapped norms through


@dataclass(frozen=True)
class LayerCheck:
    """Largest differences of one layer, relative to the largest real value."""

    layer: int
    sum_of_terms: float  # sum of the terms + b_O against the output projection's output; qkv against what came of it
    finish: float  # `finish` of that output against the layer's output
    norms: float  # frozen affine forms against the norms' outputs
    part: str = ""  # of an encoder-decoder: "encoder", "decoder", or "cross" for the decoder's attention to the encoder

    @property
    def name(self) -> str:
        """Which layer it is, of which stack."""
        return f"{self.part} {self.layer}" if self.part else str(self.layer)

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.sum_of_terms, self.finish, self.norms)


def residuals(block: Block) -> LayerCheck:
    """How far the decomposition of a layer (without padding) is from what the layer did.

    Raises SelfCheckFailed where an attention reads another stream than its spec says, or a network mixes tokens.
    """
    _check_stream(block)
    _check_networks(block)
    part = _some_rows(block)
    total = torch.zeros_like(part.attn)
    for rows, _, t in part.terms("attention").chunks():
        total[:, rows] += t.sum(2)
    bias = block.output[1]
    total = total if bias is None else total + bias
    maps = zip(block.attend.qkv or (), (block.call.q, block.call.k, block.call.v), strict=False)
    named = [_relative(submodule(block.module, path)(block.x), t.transpose(1, 2).flatten(2)) for path, t in maps]
    norms = [_of_vectors(block.norm(path).apply(before), after) for path, (before, after) in block.norms.items()]
    return LayerCheck(
        layer=block.index,
        sum_of_terms=max((_relative(total, part.attn), *named)),
        finish=_relative(block.finish(block.attn), block.y),
        norms=max(norms, default=0.0),
    )


class CallCheck:
    """How far the layers of a pass are off the model's own numbers: a router or a window may do with a real text what
    it did not do with the probe.

    At one row of one of the texts, in turn, so that it costs as little however many there are: what attention's weights
    and values give is held against its output, `finish` of that against the layer's, relative to the largest values
    there. Of layers whose networks are known as a whole (routers), or whose attention is seen at its softmax, in each
    of them; of others, whose parts were seen at load to map each token alone, in one of six, other ones for other
    lengths.
    """

    def __init__(self, lengths: Sequence[int], count: int) -> None:
        self.lengths, self.stride = lengths, min(count, _STRIDE)
        self.layers: list[tuple[Tensor, float, str]] = []  # how far, what is allowed, which layer

    @torch.no_grad()
    def look(self, block: Block) -> None:
        """A layer of the texts, or one attention of it; `finish` is held against the layer's output behind the last."""
        whole = any(isinstance(part, Network) for part in block.behind) or block.spec.seam == "softmax"
        if not whole and (block.index + sum(self.lengths)) % self.stride:
            return
        b = block.index % len(self.lengths)
        n = self.lengths[b]
        row = n - 1 if block.index % 2 == 0 else (_STEP * block.index) % n
        text = block.text(b) if len(self.lengths) > 1 else block
        real = text.attn, text.y
        text = text.only(torch.tensor([[row]], dtype=torch.int64, device=block.x.device))
        context = text.call.weights() @ repeat_heads(text.values, text.call.groups)
        projection, bias = block.output
        made = torch.einsum("bhrw,hwd->brd", context, projection)
        made = made if bias is None else made + bias
        off = _off(made - text.attn, real[0])
        if not any(isinstance(part, Attend) for part in block.behind):
            off = torch.maximum(off, _off(text.finish(text.attn) - text.y, real[1]))
        self.layers.append((off, tolerance(block, block.dtype), f"{type(block.module).__name__} {block.index}"))

    def require(self) -> float:
        """The largest of all. Raises SelfCheckFailed."""
        each = torch.stack([off for off, *_ in self.layers]).tolist()
        for off, (_, limit, name) in zip(each, self.layers, strict=True):
            if not off <= limit:
                raise SelfCheckFailed(
                    f"expected the decomposition of {name} to add up to the model's own numbers on this text as it did "
                    f"at load, it is off by {off:.1e} (at most {limit:.1e}); a router, a window or a branch of the "
                    "model does something else here than its spec says, so nothing is explained"
                )
        return float(max(each))


def _off(difference: Tensor, real: Tensor) -> Tensor:
    """The largest difference, relative to the largest real value."""
    return difference.abs().max() / real.abs().max().clamp_min(torch.finfo(real.dtype).tiny)


def _some_rows(block: Block) -> Block:
    """The block, or so many of its rows from the first to the last that summing up their terms takes no minutes."""
    n = block.x.shape[1]
    if n <= ROWS:
        return block
    rows = torch.linspace(0, n - 1, ROWS, dtype=torch.float64, device=block.x.device).round().to(torch.int64)
    return block.only(rows.expand(len(block.x), -1))


def _check_stream(block: Block) -> None:
    """Keys of the sub-block's own stream move with the vectors that enter it, those of another stream stay.

    Vectors of the other sign show it. Where a layer has one attention, whose keys are said to be its own, there is no
    other stream.
    """
    if block.one_stream and len(block.spec.attends) == 1:
        return
    path, arguments = block.attend.attention, block.passes[block.attend].arguments
    if block.one_stream:
        call = attention_of(block.module, path, block.arguments, -block.x)
    else:
        call = attention_alone(submodule(block.module, path), arguments, -block.x)
    seen, there = (c.v if c.given else c.k for c in (call, block.call))  # logits alone have no keys
    stays = seen.shape == there.shape and _relative(seen, widened(there)) < 1e-2
    if stays == block.one_stream:
        kinds = {True: "'memory'", False: "'self'"}
        raise SelfCheckFailed(
            f"expected '{path}' of {type(block.module).__name__} {block.index} to read '{block.attend.reads}', its "
            f"keys {'stay' if stays else 'move'} as the layer's input changes; say reads={kinds[stays]} in its spec"
        )


def _check_networks(block: Block) -> None:
    """A network gives one token's vector the same output beside others as beside its own copies.

    A router of limited capacity drops some of so many, a convolution reads neighbours. The token is one in the middle:
    the first and the last may be what all others read.
    """
    middle = block.x.shape[1] // 2
    for part in block.behind:
        if isinstance(part, Attend):
            continue
        beside = block.branch(part, block.x)[:1, [middle]]
        copies = block.branch(part, block.x[:1, [middle]].expand(-1, COPIES, -1))
        path = part.module if isinstance(part, Network) else part.down
        if _relative(copies, beside) > 1e-2:
            raise SelfCheckFailed(
                f"expected '{path}' of {type(block.module).__name__} {block.index} to map each token alone, "
                "its output of one changes with the tokens beside it (a router that takes so many and no more?)"
            )
        if isinstance(part, Feed):
            _check_activation(block, part)


def _check_activation(block: Block, feed: Feed) -> None:
    """An activation maps each number alone: its slopes are taken so. Every other number of another sign shows it."""
    act = submodule(block.module, feed.act)
    z = submodule(block.module, feed.up[0])(block.x)
    z = z.chunk(2, -1)[0] if feed.fused else z
    kept = torch.arange(z.shape[-1], dtype=torch.int64, device=z.device) % 2 == 0
    if _relative(act(torch.where(kept, z, -z))[..., kept], act(z)[..., kept]) > 1e-2:
        raise SelfCheckFailed(
            f"expected '{feed.act}' of {type(block.module).__name__} {block.index} to map each number alone, one's "
            "changes with those beside it; say the network as a whole: mixlens.Network in its spec"
        )


def tolerance(block: Block, dtype: torch.dtype) -> float:
    """50 eps of the model's dtype (10 in half precision); of float32 where parts are computed in it always."""
    if is_half(dtype):
        return TIMES_HALF * torch.finfo(dtype).eps
    # RMS norms, norms of a model's own class, and softmaxes of one
    rounding = any(type(submodule(block.module, path)) is not torch.nn.LayerNorm for path in block.norms)
    single = rounding or block.spec.norm == "rms" or block.spec.seam == "softmax"
    if single and dtype == torch.float64:
        dtype = torch.float32
    return TIMES_EPS * torch.finfo(dtype).eps


def _of_vectors(got: Tensor, real: Tensor) -> float:
    """The largest difference of a vector, relative to its own length: a mean that is not subtracted shows in one."""
    lengths = torch.linalg.vector_norm(real, dim=-1).clamp_min(torch.finfo(real.dtype).tiny)
    worst = (torch.linalg.vector_norm(got - real, dim=-1) / lengths).max()
    return float(worst) if torch.isfinite(worst) else float("inf")


def _relative(got: Tensor, real: Tensor) -> float:
    worst = _off(got - real, real)
    return float(worst) if torch.isfinite(worst) else float("inf")
