"""What makes the vector of a text or a picture: pooled rows of the last layer, or what a tower has behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.architectures import layer_count
from mixlens.capture.run import WITHOUT_HEADS, LayerPass, OnLayer, Reading, Watch, run
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.errors import ModelError, Undefined, UnknownOption
from mixlens.precision import widened
from mixlens.similarity.vectors import vector
from mixlens.subject import Subject, TwoTowers
from mixlens.subject.finite import not_finite
from mixlens.subject.head import Pooled
from mixlens.subject.pictures import is_picture
from mixlens.subject.towers import features


@dataclass(frozen=True, eq=False)
class Encoder:
    """`pooled`: the rows of the last layer that a vector is made of; None: the subject is a tower, whose own features
    are its vectors.
    """

    subject: Subject
    pooled: Pooled | None = None

    def read(self, data: Any, truncate: bool) -> Any:
        """As `Subject.read`; a text filled up with padding where its tower is fed texts of one length."""
        texts = self.subject.read(data, truncate)
        if not self._last:
            return texts
        return replace(texts, each=[self._whole(text) for text in texts.each])

    @property
    def _last(self) -> bool:
        return self.pooled is None and self.subject.model.last

    def _whole(self, text: Any) -> Any:
        limit = self.subject.limit
        return self.filled(text, limit) if isinstance(text, Tokens) and text.text and limit is not None else text

    def filled(self, tokens: Stream, n: int) -> Stream:
        """The text with padding behind it, as special tokens, until it has `n`; any other stream as it is."""
        more = n - len(tokens)
        if not isinstance(tokens, Tokens) or more <= 0 or not self._last:
            return tokens
        pad = self.subject.pad or 0
        name = str(pad) if self.subject.tokenizer is None else self.subject.tokenizer.convert_ids_to_tokens(pad)
        return replace(
            tokens,
            ids=(*tokens.ids, *[pad] * more),
            pieces=(*tokens.pieces, *[name] * more),
            special=(*tokens.special, *[True] * more),
            spans=None if tokens.spans is None else (*tokens.spans, *[None] * more),
            groups=None if tokens.groups is None else (*tokens.groups, *[None] * more),
            roles=None if tokens.roles is None else (*tokens.roles, *[None] * more),
            inputs={key: (*row, *[0] * more) for key, row in tokens.inputs.items()},
        )

    def output(self, inputs: Mapping[str, Tensor], watch: OnLayer | Watch) -> Any:
        """A pass, as far as its vectors need it."""
        reading = WITHOUT_HEADS if self.pooled is not None else Reading(heads=True)
        return run(self.subject.model, self.subject.spec, inputs, watch, reading)

    def vector(self, output: Any) -> Float[Tensor, "text dim"]:
        """The vectors in what `output` gave, texts without padding, in at least float32."""
        if self.pooled is None:
            return features(output)
        return vector(output.last_hidden_state, self.pooled)

    @torch.no_grad()
    def vectors(self, texts: Sequence[Stream], passes: Any) -> list[Tensor]:
        """The vector (dim,) of each, in float64. Raises NotFinite."""
        out: dict[int, Tensor] = {}
        for batch in self.subject.batches(texts, 1 if self._last else passes.batch_size):
            output = self.output(batch.inputs, lambda seen: None)
            made = self.vector(output) if self.pooled is None else None
            for b, i in enumerate(batch.members):
                if made is None:
                    out[i] = vector(output.last_hidden_state[b, : len(texts[i])], self.pooled or "mean").cpu()
                else:
                    out[i] = made[b].double().cpu()
                if not bool(torch.isfinite(out[i]).all()):
                    raise not_finite(self.subject.model, "a vector")
            if passes.progress is not None:
                passes.progress(batch.number, batch.count)
        return [out[i] for i in range(len(texts))]

    def row(self, tokens: Stream) -> int:
        """The one row of the last layer that a tower's vector is made of. Raises Undefined where it is of several."""
        (batch,) = self.subject.batches([tokens], 1)
        last = layer_count(self.subject.model, self.subject.spec) - 1
        leaves: list[Tensor] = []

        def cut(seen: LayerPass) -> Tensor | None:
            if seen.index != last or seen.y is None:
                return None
            leaves.append(seen.y.detach().requires_grad_())
            return leaves[0]

        with torch.enable_grad():
            made = widened(self.vector(self.output(batch.inputs, cut)))
            (slope,) = torch.autograd.grad(made.pow(2).sum(), leaves[0])
        read = slope[0].abs().sum(-1).gt(0).nonzero().flatten().tolist()
        if len(read) != 1:
            raise Undefined(
                f"expected a vector that is made of rows of the last layer one by one, that of this tower is made of "
                f"{len(read)} rows at once (attention pooling); use leave_out, jacobian or integrated_jacobian"
            )
        return int(read[0])


def pooling_of(subject: Subject, pooling: Any) -> Pooled:
    """The rows that a text's vector is made of: as asked, else as a sentence encoder says. Raises UnknownOption,
    ModelError, Undefined.
    """
    if pooling is not None and pooling not in get_args(Pooled):
        raise UnknownOption(f"expected pooling='first', 'last' or 'mean', got {pooling!r}")
    head = subject.head
    if head.behind:
        raise Undefined(
            f"expected an encoder whose vectors are its pooled rows, this one has {', '.join(head.behind)} behind "
            "them, which no method here goes through; load the encoder in it alone, if its pooled rows are what you use"
        )
    if pooling is not None:
        chosen: Pooled = pooling
        return chosen
    if head.pooled is None or head.task != "none":
        raise ModelError(
            f"expected a sentence encoder, got {head.in_words}, which does not say which rows a text's vector is made "
            "of; load the SentenceTransformer, or pass pooling='mean', 'first' or 'last', as its vectors are made"
        )
    return head.pooled


def encoder_of(subject: Subject, pooling: Any, data: Any) -> Encoder:
    """What makes the vectors of what a caller passes. Raises UnknownOption, ModelError, Undefined, InputError."""
    if not isinstance(subject, TwoTowers):
        return Encoder(subject, pooling_of(subject, pooling))
    if pooling is not None:
        raise UnknownOption(f"expected no pooling= for two towers, which make their own vectors, got {pooling!r}")
    text, picture = subject.towers
    return Encoder(picture if is_picture(data) else text)
