"""The two passes of an encoder-decoder: the source through the encoder, the answer's tokens through the decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from mixlens.architectures import decoder_of
from mixlens.capture.graph import Graph, graph
from mixlens.capture.run import LayerPass, Reading, run
from mixlens.capture.shadow import shadow
from mixlens.capture.text import Tokens
from mixlens.errors import InputError
from mixlens.precision import widened
from mixlens.subject.stacks import EncoderDecoder
from mixlens.subject.subject import Subject

OnLayer = Callable[[LayerPass], None]


@dataclass(frozen=True, eq=False)
class Streams:
    """One text of an encoder-decoder: of `ids` the first `source` are the encoder's, the rest the decoder's.

    `signal`: what the encoder is fed where that is no text (a sound); its ids then mean nothing.
    """

    subject: EncoderDecoder
    ids: Sequence[int]
    source: int
    signal: Mapping[str, Tensor] | None = None

    def encoded(self, on_layer: OnLayer | None = None) -> Tensor:
        """The memory (1, source token, dim), which the decoder reads."""
        encoder = self.subject.encoder
        memory: Tensor = run(encoder.model, encoder.spec, self._fed(), on_layer or _nothing).last_hidden_state
        return memory

    def decoded(self, memory: Tensor, on_layer: OnLayer | None = None) -> Any:
        """The whole model's output, its head's among it."""
        return run(
            self.subject.model, self.subject.spec, self._behind(memory), on_layer or _nothing, Reading(heads=True)
        )

    def graphs(self, recompute: bool = False) -> tuple[Graph, Graph]:
        """Both passes in one graph, of which the inputs of both first layers are the leaves."""
        encoder = self.subject.encoder
        above = graph(encoder.model, encoder.spec, self._fed(), heads=False, recompute=recompute)
        fed = self._behind(above.output.last_hidden_state)
        return above, graph(self.subject.model, self.subject.spec, fed, recompute=recompute)

    def logits(self, output: Any, rows: Sequence[int]) -> Float[Tensor, "row vocabulary"]:
        """The logits at some of the decoder's rows, which are counted from the source's first token; of a classifier
        those of its one answer.
        """
        if self.subject.classifies:
            return widened(output.logits)
        return widened(output.logits[0, [row - self.source for row in rows]])

    def _fed(self) -> dict[str, Tensor]:
        if self.signal is not None:
            device, dtype = self.subject.device, self.subject.model.dtype
            return {name: t[None].to(device, dtype) for name, t in self.signal.items()}
        ids = self._tensor(self.ids[: self.source])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def _behind(self, memory: Tensor) -> dict[str, Any]:
        return {
            "encoder_outputs": BaseModelOutput(last_hidden_state=memory),
            **({} if self.signal is not None else {"attention_mask": self._fed()["attention_mask"]}),
            **({"input_ids": self._fed()["input_ids"]} if self.subject.classifies else {}),
            "decoder_input_ids": self._tensor(self.ids[self.source :]),
        }

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], dtype=torch.int64, device=self.subject.device)


def answering(subject: Subject, text: Tokens) -> int:
    """The decoder's row that a classifier reads: that of the text's last end token. Raises InputError."""
    end = getattr(subject.model.config, "eos_token_id", None)
    if end not in text.ids:
        raise InputError(
            f"expected a text with the end token {end}, at which this classifier reads its answer, got none; tokenize "
            "it with its special tokens"
        )
    return max(i for i, token in enumerate(text.ids) if token == end)


@torch.no_grad()
def moved_on(subject: Subject, text: Tokens) -> Tokens:
    """What the decoder of a classifier reads of a text: the model's own shift of it. Raises InputError."""
    ids = torch.tensor([list(text.ids)], dtype=torch.int64, device=subject.device)
    seen: list[Tensor] = []

    def look(module: Any, args: Any, kwargs: Any) -> None:
        seen.append(args[0] if args else kwargs["input_ids"])

    plain = shadow(subject.model, "eager")
    decoder_of(plain).register_forward_pre_hook(look, with_kwargs=True)
    answering(subject, text)
    plain(input_ids=ids, attention_mask=torch.ones_like(ids))
    read = [int(i) for i in seen[0][0]]
    if read[1:] != list(text.ids[:-1]):
        raise InputError(f"expected a decoder that reads the text moved on by one, it reads {read[:8]} ...")
    tokenizer = subject.tokenizer
    pieces = map(str, read) if tokenizer is None else tokenizer.convert_ids_to_tokens(read)
    return Tokens(ids=tuple(read), pieces=tuple(pieces), special=(True, *text.special[:-1]))


def _nothing(seen: LayerPass) -> None:
    """Nobody looks."""
