"""The vocabulary of an architecture: the few facts that a decomposition needs and a model does not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Order = Literal["post", "pre", "parallel"]
# Which tokens take a position: all of them; those that the attention mask shows; those whose ids are no padding,
# numbered from behind the padding's id. In the last two, a masked padding token in the middle takes none.
Positions = Literal["all", "mask", "ids"]


@dataclass(frozen=True)
class FFN:
    """The feed-forward network: `down(act(up(x)))`, or gated: `down(act(up[0](x)) * up[1](x))`.

    Paths are below the layer. `fused`: one linear map holds both gated halves, the activated one first.
    """

    up: tuple[str, ...]
    act: str
    down: str
    fused: bool = False

    def __post_init__(self) -> None:
        if len(self.up) not in ((1,) if self.fused else (1, 2)):
            raise ValueError(f"expected one first map, or two where they are gated and not fused, got {self.up}")


@dataclass(frozen=True)
class Spec:
    """Which module of a layer plays which part. Paths are below the layer, `layers` is below the base model.

    `layers` is the path of a list, or a function of the base model to the layers in the order in which they run (one
    that runs several times is there as often).

    What is not here is read from the pass itself: query, key and value projections, head counts, rotary embeddings,
    masks and windows. A spec that is wrong does not survive the self-check at load.

    post:     a = x + attn;  b = ln1(a);  y = ln2(b + ffn(b))
    pre:      a = x + attn;               y = a + ffn(ln2(a))
    parallel: a = x + attn;               y = a + ffn(ln2(x))
    `post_attention` norms the sub-block's output before the residual sum, `post_ffn` the FFN's (Gemma 2).
    """

    layers: str | Callable[[Any], Iterable[Any]]
    attention: str  # the module that is handed to the attention interface
    out: str  # the output projection W_O, b_O
    ffn: FFN
    ln2: str
    ln1: str | None = None
    order: Order = "pre"
    post_attention: str | None = None
    post_ffn: str | None = None
    norm: Literal["layer", "rms"] = "layer"
    one_plus: bool = False  # the gain is 1 + weight
    bare: bool = False  # pre-LN, but the first layer's attention reads its input without a norm
    positions: Positions = "all"
    qkv: tuple[str, str, str] | None = None  # linear maps to query, key, value; for relevance rules, None: no rule

    def __post_init__(self) -> None:
        if (self.ln1 is not None) != (self.order == "post"):
            raise ValueError(f"expected ln1 for post-LN layers and no others, got ln1={self.ln1!r}, {self.order}")

    @property
    def norms(self) -> dict[str, str]:
        """Role -> path of the norms that the decomposition freezes."""
        roles = {n: getattr(self, n) for n in ("ln1", "ln2", "post_attention", "post_ffn")}
        return {role: path for role, path in roles.items() if path is not None}
