"""The vocabulary of an architecture: the few facts that a decomposition needs and a model does not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Order = Literal["post", "pre", "parallel"]
Seam = Literal["interface", "softmax"]  # where attention is seen: many models call no interface
# Which tokens take a position: all of them; those that the attention mask shows; those whose ids are no padding,
# numbered from behind the padding's id. In the last two, a masked padding token in the middle takes none.
Positions = Literal["all", "mask", "ids"]
# What a sub-block's output is multiplied by before the residual sum: the path of a number, of a vector or of a module
# that multiplies by one (layer scale), or the number itself; None: nothing.
Scale: TypeAlias = str | float | None


@dataclass(frozen=True)
class Attend:
    """An attention sub-block: its tokens read themselves, or another stream (`memory`: an encoder's output).

    `norm` stands behind the residual sum in post-LN layers, else in front of the sub-block. At the beginning of a
    layer that is not post-LN it needs no name: it is in the query, key and value vectors.

    Examples:
        >>> mixlens.Attend("self_attn", "self_attn.o_proj").reads
        'self'
    """

    attention: str  # the module that is handed to the attention interface
    out: str  # the output projection W_O, b_O
    norm: str | None = None
    branch_norm: str | None = None  # between the output projection and the residual sum (Gemma 2)
    scale: Scale = None
    reads: Literal["self", "memory"] = "self"
    qkv: tuple[str, str, str] | None = None  # linear maps to query, key, value; for relevance rules, None: no rule


@dataclass(frozen=True)
class Feed:
    """A feed-forward sub-block: `down(act(up(x)))`, or gated: `down(act(up[0](x)) * up[1](x))`.

    `fused`: one linear map holds both gated halves, the activated one first.

    Examples:
        >>> mixlens.Feed(("mlp.gate", "mlp.up"), "mlp.act", "mlp.down", norm="norm_2").gated
        True
    """

    up: tuple[str, ...]
    act: str
    down: str
    norm: str | None = None
    branch_norm: str | None = None  # between `down` and the residual sum (Gemma 2)
    scale: Scale = None
    fused: bool = False

    def __post_init__(self) -> None:
        if len(self.up) not in ((1,) if self.fused else (1, 2)):
            raise ValueError(f"expected one first map, or two where they are gated and not fused, got {self.up}")

    @property
    def gated(self) -> bool:
        """Whether two activations are multiplied."""
        return self.fused or len(self.up) == 2


@dataclass(frozen=True)
class Network:
    """A feed-forward sub-block that is known as a whole: a module that maps each token's vector alone.

    For mixtures of experts, and whatever is not `down(act(up(x)))`. It is run as it is; methods that need its maps are
    not defined for it.

    Examples:
        >>> mixlens.Network("mlp", norm="post_attention_layernorm").module
        'mlp'
    """

    module: str
    norm: str | None = None
    branch_norm: str | None = None
    scale: Scale = None


SubBlock: TypeAlias = Attend | Feed | Network


@dataclass(frozen=True)
class Spec:
    """A layer as a chain of sub-blocks f_1, f_2 ...: which module plays which part, and how the parts are joined.

    post:     x_k = norm_k(x_(k-1) + f_k(x_(k-1)))
    pre:      x_k = x_(k-1) + f_k(norm_k(x_(k-1)))
    parallel: x_k = x_(k-1) + f_k(norm_k(x_0))

    x_0 is the layer's input, the last x its output; f_k(...) goes through its `branch_norm` or is multiplied by its
    `scale` before the sum, and where it has a `branch_norm`, the norm in front may be missing (OLMo 2). Paths are below
    the layer. `layers` is the path of a list below the base model, or a function of the base model to the layers
    in the order in which they run (one that runs several times is there as often). What is not here is read from the
    pass itself: query, key and value projections, head counts, rotary embeddings, masks and windows. A spec that is
    wrong does not survive the self-check at load. Of an encoder-decoder it is the decoder's, and has the encoder's as
    its `memory`.

    Examples:
        >>> attend = mixlens.Attend("attn", "attn.c_proj")
        >>> feed = mixlens.Feed(("mlp.c_fc",), "mlp.act", "mlp.c_proj", norm="ln_2")
        >>> spec = mixlens.Spec(layers="h", chain=(attend, feed))  # mixlens.load(model, spec=spec)
        >>> spec.norms
        ('ln_2',)
    """

    layers: str | Callable[[Any], Iterable[Any]]
    chain: tuple[SubBlock, ...]
    order: Order = "pre"
    norm: Literal["layer", "rms"] = "layer"
    one_plus: bool = False  # the gain of the norms is 1 + weight
    seam: Seam = "interface"
    bare: bool = False  # pre-LN, but the first layer's attention reads its input without a norm
    positions: Positions = "all"
    memory: Spec | None = None  # of an encoder-decoder: the encoder's layers, their path below the encoder

    def __post_init__(self) -> None:
        if not self.attends:
            raise ValueError(f"expected at least one attention sub-block, got {self.chain}")
        if self.memory is not None and [attend.reads for attend in self.attends] != ["self", "memory"]:
            raise ValueError(
                "expected a layer that reads an encoder's memory to attend to itself and then to that, got attention "
                f"to {', '.join(attend.reads for attend in self.attends)}"
            )
        for k, part in enumerate(self.chain):
            if part.scale is not None and part.branch_norm is not None:
                raise ValueError(f"expected a norm or a scale between a sub-block and the residual sum, got {part}")
            post, first = self.order == "post", k == 0 and isinstance(part, Attend)
            behind = not post and part.branch_norm is not None and not isinstance(part, Attend)
            if (part.norm is None) != (first and not post) and not behind:
                raise ValueError(
                    "expected the norm of every sub-block, but not that in front of the attention that a layer begins "
                    f"with unless it is post-LN, got norm={part.norm!r} of sub-block {k}, {self.order}"
                )
            if k and isinstance(part, Attend) and (part.reads == "self" or self.order == "parallel"):
                raise ValueError(
                    "expected tokens to read each other at the beginning of a layer only, and no second attention in a "
                    f"parallel one, got {part} behind {k} other sub-block(s), {self.order}"
                )

    @property
    def attends(self) -> tuple[Attend, ...]:
        """The attention sub-blocks."""
        return tuple(part for part in self.chain if isinstance(part, Attend))

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The feed-forward sub-blocks whose maps are known."""
        return tuple(part for part in self.chain if isinstance(part, Feed))

    @property
    def networks(self) -> tuple[Network, ...]:
        """The feed-forward sub-blocks that are known as a whole."""
        return tuple(part for part in self.chain if isinstance(part, Network))

    @property
    def attend(self) -> Attend:
        """The attention sub-block of layers that have one. Raises ValueError for others."""
        (attend,) = self.attends
        return attend

    @property
    def feed(self) -> Feed:
        """The feed-forward sub-block of layers that have one, of known maps. Raises ValueError for others."""
        (feed,) = self.feeds
        return feed

    @property
    def norms(self) -> tuple[str, ...]:
        """The paths of the norms that the decomposition freezes, in the order in which they run."""
        pairs = [(part.branch_norm, part.norm) for part in self.chain]
        pairs = [pair if self.order == "post" else pair[::-1] for pair in pairs]
        return tuple(path for pair in pairs for path in pair if path is not None)
