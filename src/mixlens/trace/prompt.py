"""What a language model is asked and what it answers, as streams: a text, ids or a chat; documents with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.capture.fed import SOUNDS
from mixlens.capture.given import is_id
from mixlens.capture.text import Tokens, encode, text_of
from mixlens.errors import EmptyInput, InputError, TooLong
from mixlens.results.units import prompt_units
from mixlens.subject import EncoderDecoder, Subject
from mixlens.subject.read import readable
from mixlens.trace.answered import ids_of
from mixlens.trace.target import read_target

PLACE = "{documents}"  # in a prompt, where its documents are to stand
_MARK = "mixlens0documents"  # what stands there instead when it is asked where that comes to be in a chat


@dataclass(frozen=True)
class Prompt:
    """A prompt's tokens, and which of them are of which document: [first, last + 1)."""

    tokens: Tokens
    documents: Mapping[str, tuple[int, int]]


def require_answers(subject: Subject) -> None:
    """Raises InputError for a model that answers nothing that could be traced."""
    if subject.head.task != "causal":
        raise InputError(
            f"expected a causal language model to trace an answer of, got {subject.head.in_words}; for what a "
            "classifier decided there is lens.attribute"
        )


def as_chat(tokenizer: Any, text: str) -> str | list[dict[str, str]]:
    """A text as a user's message where the tokenizer has a chat template, else as it stands."""
    return [{"role": "user", "content": text}] if getattr(tokenizer, "chat_template", None) else text


def require_units(subject: Subject, prompt: Any, documents: Mapping[str, str] | None, by: str) -> None:
    """Raises what `Trace.units` would, before an answer is generated."""
    read = read_prompt(subject, prompt, documents)
    prompt_units(read.tokens, by, read.documents)


def read_prompt(subject: Subject, prompt: Any, documents: Mapping[str, str] | None = None) -> Prompt:
    """A prompt: a str, token ids, or chat messages; `documents` by name, put at "{documents}" or in front.

    Raises InputError.
    """
    texts = _documents(documents)
    if isinstance(prompt, str) or _is_chat(prompt):
        chat = not isinstance(prompt, str)
        text, marked = (_written(subject, prompt, block) for block in (_block(texts), _MARK if texts else ""))
        tokens = readable(
            encode(text, subject.tokenizer, None, pad=subject.head.pad, template=chat), subject.model, subject.head
        )
        return Prompt(tokens, _spans(tokens, text, marked.find(_MARK), texts))
    inputs = isinstance(prompt, Mapping) and "input_ids" in prompt
    if inputs or (isinstance(prompt, Sequence) and all(map(is_id, prompt))) or hasattr(prompt, "tolist"):
        if texts:
            raise InputError("documents= are put into a prompt of text or chat messages, this one is token ids")
        read = subject.encoder.read(ids_of(prompt)).require()
        if len(read) > 1:
            raise InputError(f"expected one prompt, got the token ids of {len(read)}")
        return Prompt(text_of(read[0]), {})
    raise InputError(
        "expected a prompt as a str, token ids, or chat messages [{'role': ..., 'content': ...}], got "
        f"{type(prompt).__name__}: {prompt!r:.60}"
    )


def read_answer(subject: Subject, answer: Any, name: str = "an answer") -> Tokens:
    """An answer that is given, a str or token ids: as it follows the prompt, without special tokens of its own.

    Raises InputError.
    """
    if isinstance(subject, EncoderDecoder):
        return read_target(subject, answer, name)[1]
    if isinstance(answer, str):
        if not answer:
            raise EmptyInput(f"expected {name} of at least one token, got an empty text")
        tokens = encode(answer, subject.tokenizer, None, pad=subject.head.pad, template=True)
        return readable(tokens, subject.model, subject.head)
    answer = ids_of(answer)
    if isinstance(answer, Sequence) and answer and all(map(is_id, answer)):
        tokens = encode([int(i) for i in answer], subject.tokenizer, None, pad=subject.head.pad)
        return readable(tokens, subject.model, subject.head)
    if isinstance(answer, Sequence) and not answer:
        raise EmptyInput(f"expected {name} of at least one token, got none")
    raise InputError(f"expected {name} as a str or token ids, got {type(answer).__name__}: {answer!r:.60}")


def require_room(subject: Subject, prompt: int, answer: int) -> None:
    """Raises TooLong where prompt and answer have more tokens than the model has positions; each of its own stream."""
    if isinstance(subject, EncoderDecoder):
        for name, length in (("the source", prompt), ("what the decoder reads", answer)):
            heard = name == "the source" and subject.head.fed in SOUNDS  # its reader says what is too long
            if subject.limit is not None and length > subject.limit and not heard:
                raise TooLong(
                    f"expected at most {subject.limit} tokens (the model's positions) of {name}, got {length}; shorten "
                    "it: nothing is cut by itself"
                )
        return
    if subject.limit is not None and prompt + answer > subject.limit:
        raise TooLong(
            f"expected at most {subject.limit} tokens (the model's positions) of prompt and answer together, got "
            f"{prompt} and {answer}; shorten the prompt (its documents, say): nothing is cut by itself, since the end "
            "of a prompt is what is answered"
        )


# --- documents and chats ---


def _documents(documents: Any) -> dict[str, str]:
    if documents is None:
        return {}
    if not isinstance(documents, Mapping) or not documents:
        raise InputError(f"expected documents={{name: text}}, at least one, got {documents!r:.60}")
    for name, text in documents.items():
        if not isinstance(name, str) or not isinstance(text, str) or not name.strip() or not text.strip():
            raise InputError(
                f"expected documents with names and texts that are not empty, got {name!r:.40}: {text!r:.40}"
            )
    return dict(documents)


def _block(documents: Mapping[str, str]) -> str:
    return "".join(f"{name}:\n{text.strip()}\n\n" for name, text in documents.items())


def _written(subject: Subject, prompt: Any, block: str) -> str:
    """The text that the model is given, with a block of documents in it, if there are any."""
    if isinstance(prompt, str):
        return _placed(prompt, block)
    return _rendered(subject, _with_documents(prompt, block))


def _placed(text: str, block: str) -> str:
    if not text.strip() and not block:
        raise EmptyInput("expected a prompt with at least one token, got an empty one; nothing can be explained")
    if not block:
        return text
    return text.replace(PLACE, block.rstrip(), 1) if PLACE in text else block + text


def _is_chat(prompt: Any) -> bool:
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and bool(prompt)
        and any(isinstance(message, Mapping) for message in prompt)
    )


def _with_documents(messages: Sequence[Any], block: str) -> list[dict[str, Any]]:
    """The messages, checked, with the documents in the last user's."""
    out = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str) or "role" not in message:
            raise InputError(
                "expected chat messages as {'role': ..., 'content': a str}, got "
                f"{message!r:.80}; parts that are no text (images, tools) cannot be traced"
            )
        out.append({**message, "role": str(message["role"])})  # a template may read more of it: a name
    if out and out[-1]["role"] == "assistant":
        raise InputError(
            "expected a chat that ends before the answer, its last message is the assistant's; pass that message's "
            "text as answer= to trace it"
        )
    if block:
        users = [i for i, message in enumerate(out) if message["role"] == "user"]
        if not users:
            raise InputError("expected a user's message to put the documents in, got none")
        out[users[-1]]["content"] = _placed(out[users[-1]]["content"], block)
    return out


def _rendered(subject: Subject, messages: list[dict[str, Any]]) -> str:
    tokenizer = subject.tokenizer
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "expected a tokenizer with a chat template for chat messages, this one has none; pass the prompt as a str"
        )
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a template raises what it likes: an unknown role, turns that do not alternate
        raise InputError(
            f"the tokenizer's chat template refuses these messages: {type(error).__name__}: {error}; check the roles "
            "and their order"
        ) from None


def _spans(tokens: Tokens, text: str, at: int, documents: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Which tokens are of which document's text; the first one's name begins at character `at`."""
    if not documents:
        return {}
    if tokens.spans is None:
        raise InputError("documents= need a fast tokenizer, which says which characters a token is of")
    out = {}
    for name, document in documents.items():
        head, body = f"{name}:\n", document.strip()
        if at < 0 or not text.startswith(head + body, at):
            raise InputError(f"the chat template changed the text of document {name!r}; pass the prompt as a str")
        first, last = at + len(head), at + len(head) + len(body)
        inside = [i for i, span in enumerate(tokens.spans) if span is not None and span[1] < last and span[2] > first]
        out[name], at = (inside[0], inside[-1] + 1), last + 2  # an empty line between
    return out
