"""What a caller passes as text, to the streams that a model reads; what the model cannot read is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.architectures import base_model
from mixlens.capture.given import as_list
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens, encode
from mixlens.errors import InputError
from mixlens.subject.head import Head
from mixlens.subject.several import numbered


@dataclass(frozen=True)
class Texts:
    """The texts of one call. `single`: it was one, so one result is expected; an InputError stands in the place of a
    text of a list that cannot be read.
    """

    each: Sequence[Stream | InputError]
    single: bool

    def require(self) -> list[Stream]:
        """All texts. Raises the first InputError among them."""
        return self.of(range(len(self.each)))

    def of(self, numbers: Sequence[int]) -> list[Stream]:
        """The texts of these numbers. Raises the first InputError among them."""
        texts = []
        for number in numbers:
            text = self.each[number]
            if isinstance(text, InputError):
                raise text
            texts.append(text)
        return texts


def read(
    data: Any, model: Any, tokenizer: Any, head: Head, limit: int | None, truncate: bool, windows: bool | None
) -> Texts:
    """The texts of a call (see `given.as_list`) as tokens; `windows`: see `Subject.read`.

    Raises InputError where a single one cannot be read.
    """
    items, single = as_list(data)
    texts: list[Stream | InputError] = []
    for number, item in enumerate(items):
        try:
            most, offered = None if windows else limit, windows is not None and head.task != "causal"
            tokens = encode(item, tokenizer, most, truncate, head.pad, windows=offered)
            texts.append(readable(tokens, model, head))
        except InputError as error:
            if single:
                raise
            texts.append(numbered(error, number))
    return Texts(texts, single)


def readable(tokens: Tokens, model: Any, head: Head) -> Tokens:
    """The text, which the model has embeddings for. Raises InputError."""
    if head.task == "causal" and len(tokens.text) > 1:
        raise InputError(
            "expected one text for a language model, got a pair, which is for classifiers; what follows a "
            "prompt and its beginning of an answer is explained by one str, prompt + answer, or by token ids"
        )
    size = base_model(model).get_input_embeddings().num_embeddings
    if max(tokens.ids) >= size:
        raise InputError(
            f"expected token ids below {size} (the model's embeddings), got {max(tokens.ids)}; "
            "the tokenizer has tokens that the model was not resized for"
        )
    config = base_model(model).config
    for name, most in (("token_type_ids", "type_vocab_size"), ("position_ids", "max_position_embeddings")):
        size, given = getattr(config, most, None), tokens.inputs.get(name, ())
        if size and given and max(given) >= size:
            raise InputError(f"expected {name} below {size} (the model's {most}), got {max(given)}")
    return tokens
