"""What the measures of a corpus keep of each text: the model's vectors, layer by layer.

On the disk a layer's vector is float32, in base64: what is computed of it is the same in a run that was killed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from mixlens.answer.readout import Readout, reading
from mixlens.capture.stream import Stream
from mixlens.decompose import Block
from mixlens.errors import DataError
from mixlens.evaluation.design import Yardstick
from mixlens.evaluation.explain import Failure, each, target_of
from mixlens.lens import Lens
from mixlens.measure import Corpus
from mixlens.tasks import Example

_AT_ONCE = 8  # texts whose vectors, one a token and layer, are held together
EMBEDDINGS = -1  # the "layer" that the embeddings' output stands for
Kept = Mapping[str, Any]


def layers_of(lens: Lens, yardstick: Yardstick) -> list[int]:
    """The layers that a measure of a corpus has a number of; the embeddings' output is -1."""
    count = lens.subject.layers
    return [*([EMBEDDINGS] if _kind(yardstick).collects == "labelled" else []), *range(count)]


def collect(
    lens: Lens, yardstick: Yardstick, texts: Sequence[tuple[Example, Stream]], target: Any, batch_size: int
) -> list[Kept | Failure]:
    """What is kept of each text: "x", a vector a layer; "n", how many it sums a layer, or "y", the text's label."""
    work = (
        partial(_labelled, target=target)
        if _kind(yardstick).collects == "labelled"
        else partial(_sums, of=yardstick.options["of"])
    )
    out: list[Kept | Failure] = []
    step = min(batch_size, _AT_ONCE)
    for start in range(0, len(texts), step):
        batch = texts[start : start + step]
        run: Callable[[list[int]], list[Kept]] = partial(_of, work, lens, batch)
        kept = each(run, len(batch))
        out += kept
    return out


def _of(work: Callable[..., list[Kept]], lens: Lens, batch: Sequence[Any], chosen: list[int]) -> list[Kept]:
    return work(lens, [batch[i] for i in chosen])


def unpacked(kept: Kept) -> NDArray[np.float32]:
    """(layer, dim)."""
    return np.frombuffer(b64decode(kept["x"]), "<f4").reshape(kept["layers"], -1)


def _packed(vectors: Tensor) -> dict[str, Any]:
    data = vectors.cpu().numpy().astype("<f4").tobytes()
    return {"layers": len(vectors), "x": b64encode(data).decode()}


def _kind(yardstick: Yardstick) -> Corpus:
    assert isinstance(yardstick.measure, Corpus)
    return yardstick.measure


def _sums(lens: Lens, texts: Sequence[tuple[Example, Stream]], of: str) -> list[Kept]:
    stage = "ln1" if lens.spec.order == "post" else "residual"
    on_block: Callable[[Block], Tensor] = partial(UNITS[of], stage=stage)
    out: list[Kept] = []
    for output in _through(lens, texts, on_block):
        sums = torch.stack([layer.sum(0) for layer in output.layers])
        out.append({**_packed(sums[:, :-1]), "n": [int(n) for n in sums[:, -1]]})
    return out


def _outputs(block: Block, stage: Any) -> Tensor:
    """(batch, token, dim + 1): each token's vector at the stage at length 1, and whether it has one."""
    return _units(block.result(stage))


def _transformed(block: Block, stage: Any) -> Tensor:
    """(batch, query, dim + 1): the terms T_i(x_j) at length 1, summed over the keys, and how many there are.

    A key that a query may not see, padding among them, has a term of 0, which has no direction.
    """
    out: Tensor | None = None
    for rows, _, vectors in block.terms(stage).chunks():
        units = _units(vectors).sum(2)
        if out is None:
            out = units.new_zeros(*block.x.shape[:2], units.shape[-1])
        out[:, rows] += units
    assert out is not None
    return out


def _units(vectors: Tensor) -> Tensor:
    units = normalize(vectors.double(), dim=-1)
    return torch.cat([units, (units != 0).any(-1, keepdim=True).double()], -1)


UNITS: dict[str, Callable[..., Tensor]] = {"outputs": _outputs, "transformed": _transformed}


def _labelled(lens: Lens, texts: Sequence[tuple[Example, Stream]], target: Any) -> list[Kept]:
    rows: list[Readout] = []
    for example, tokens in texts:
        if example.label is None:
            raise DataError(
                f"mdl_compression needs a label, example {example.id!r} has none; name its column: "
                "mixlens.task(..., label='COLUMN'), or --field label=COLUMN"
            )
        row = reading(lens.head, tokens, target_of(example, tokens, target, lens.head)).row
        assert row is not None
        rows.append(row)
    out: list[Kept] = []
    for (example, _), row, output in zip(texts, rows, _through(lens, texts, _ends), strict=True):
        width = output.layers[0].shape[-1] // 2
        hidden = [output.layers[0][:, :width], *(layer[:, width:] for layer in output.layers)]
        vectors = [h[row] if isinstance(row, int) else h.double().mean(0).to(h.dtype) for h in hidden]
        out.append({**_packed(torch.stack(vectors)), "y": example.label})
    return out


def _ends(block: Block) -> Tensor:
    """(batch, token, 2 dim): what goes into the layer and what comes out."""
    return torch.cat([block.x, block.y], -1)


def _through(lens: Lens, texts: Sequence[tuple[Example, Stream]], on_block: Callable[[Block], Tensor]) -> list[Any]:
    return list(lens.subject.through([tokens for _, tokens in texts], on_block, square=False, batch_size=_AT_ONCE))
