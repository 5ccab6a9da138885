"""The answer of a language model by its own `generate`, on a shadow."""

from __future__ import annotations

from collections.abc import Mapping, Set
from copy import deepcopy
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from mixlens.architectures import decoder_of
from mixlens.capture.shadow import implementation, shadow
from mixlens.capture.text import Tokens
from mixlens.errors import EmptyInput, InputError, UnknownOption
from mixlens.process import settled
from mixlens.progress import silent
from mixlens.subject import EncoderDecoder, Subject
from mixlens.trace.answered import as_text
from mixlens.trace.target import divided

_NOT_OURS = {  # arguments of generate -> what is to be done instead
    "max_new_tokens": "pass max_new_tokens=",
    "max_length": "pass max_new_tokens=",
    "num_return_sequences": "one answer is traced; call trace once for each",
    "return_dict_in_generate": "the answer's tokens alone are read",
}

_SPOKEN = frozenset(("language", "task"))  # arguments of Whisper's own generate
_START = 4  # tokens that Whisper's decoder starts from at most: its start, a language, a task, no times
# What an encoder-decoder's own settings say of an answer that is not how it is searched for.
_TOLD = ("decoder_start_token_id", "bos_token_id", "forced_bos_token_id", "bad_words_ids", "suppress_tokens")


@settled
def generated(subject: Subject, prompt: Tokens, max_new_tokens: int, arguments: Mapping[str, Any]) -> Tokens:
    """What the model answers, greedily unless `arguments` of `generate` say otherwise; the end token is left out.

    Raises EmptyInput where it ends at once, UnknownOption for arguments that `generate` does not take.
    """
    room = max_new_tokens if subject.limit is None else min(max_new_tokens, subject.limit - len(prompt))
    if room < 1:
        raise InputError(
            f"expected a prompt that leaves room for an answer among {subject.limit} positions, got {len(prompt)} "
            "tokens; shorten it"
        )
    answer = _run(subject, prompt, room, arguments)[len(prompt) :]
    return as_text(subject, _require(answer, "ask otherwise (a chat model wants chat messages)"))


@settled
def translated(
    subject: Subject, source: Tokens, max_new_tokens: int, arguments: Mapping[str, Any]
) -> tuple[list[int], Tokens]:
    """What an encoder-decoder's decoder starts from, and what it answers, as in `generated`."""
    room = max_new_tokens if subject.limit is None else min(max_new_tokens, subject.limit - 1)
    ids = _require(_run(subject, source, room, arguments), "another source")
    start, answer = divided(subject, ids, arguments.get("forced_bos_token_id"), "an answer")
    return start, as_text(subject, answer)


@settled
def heard(
    subject: Subject, sound: Mapping[str, Tensor], max_new_tokens: int, arguments: Mapping[str, Any]
) -> tuple[list[int], Tokens]:
    """What the decoder of a model of sounds (Whisper) starts from, its language and task among it, and what it answers.

    As its own `generate` has it, greedily unless `arguments` say otherwise; those may be `language` and `task` too.
    Raises EmptyInput, UnknownOption, InputError where it goes over the sound in several windows.
    """
    model = subject.model
    _check(arguments, vars(GenerationConfig()).keys() | (_SPOKEN & signature(model.generate).parameters.keys()))
    if "use_cache" in arguments:
        raise UnknownOption("generate={'use_cache': ...} is not taken: its cache says where an answer begins")
    room = max_new_tokens if subject.limit is None else min(max_new_tokens, subject.limit - _START)
    spoken = {name: value for name, value in arguments.items() if name in _SPOKEN}
    rest = {name: value for name, value in arguments.items() if name not in _SPOKEN}
    twin = shadow(model, implementation(model))
    twin.generation_config = deepcopy(model.generation_config)
    plainly = {
        "do_sample": False,
        "num_beams": 1,
        "max_length": None,
        "max_new_tokens": room,
        "use_cache": True,
        **rest,
    }
    twin.generation_config.update(**plainly)
    begun: list[list[int]] = []  # what the decoder reads first: to hear the language, then for each window

    def look(module: Any, args: Any, kwargs: Any) -> None:
        caches = [value for value in kwargs.values() if hasattr(value, "get_seq_length")]  # versions name it otherwise
        if not any(cache.get_seq_length() for cache in caches):
            begun.append((args[0] if args else kwargs["input_ids"])[0].tolist())

    decoder_of(twin).register_forward_pre_hook(look, with_kwargs=True)
    fed = {name: t[None].to(subject.device, model.dtype) for name, t in sound.items()}
    try:
        with torch.no_grad(), silent():
            out = twin.generate(**fed, **spoken)
    except (TypeError, ValueError, RuntimeError, KeyError) as error:
        raise UnknownOption(f"the model's generate refuses {dict(arguments)}: {error}") from None
    start = begun[-1]
    windows = begun.count(start)
    if windows > 1:
        raise InputError(
            f"expected a sound that the model's generate answers in one go, it went over it {windows} times, moved on "
            "by times in its answer; pass a part of the sound, or the answer"
        )
    answer: list[int] = out[0].tolist()
    ends = twin.generation_config.eos_token_id
    stops = set(ends if isinstance(ends, (list, tuple)) else [ends])
    while answer and answer[-1] in stops:
        answer.pop()
    return start, as_text(subject, _require(answer, "another sound"))


def _require(answer: list[int], otherwise: str) -> list[int]:
    if not answer:
        raise EmptyInput(
            "expected an answer of at least one token, the model ended its answer at once; pass answer=, or "
            f"{otherwise}"
        )
    return answer


def _check(arguments: Mapping[str, Any], known: Set[str]) -> None:
    """Raises UnknownOption for arguments that `generate` does not read, or that are not the caller's."""
    for argument in arguments:
        if argument not in known:  # it would keep it, and nobody read it
            raise UnknownOption(
                f"the model's generate has no argument {argument!r} (see transformers' GenerationConfig)"
            )
        if argument in _NOT_OURS:
            raise UnknownOption(f"generate={{{argument!r}: ...}} is not taken: {_NOT_OURS[argument]}")


def _run(subject: Subject, prompt: Tokens, room: int, arguments: Mapping[str, Any]) -> list[int]:
    """The ids that `generate` gives, without those at the end that end an answer."""
    model = subject.model
    _check(arguments, vars(GenerationConfig()).keys())
    default = getattr(model, "generation_config", None)
    ends = getattr(default, "eos_token_id", None)
    told = {}
    if isinstance(subject, EncoderDecoder):
        told = {k: v for k in _TOLD if (v := getattr(default, k, None)) is not None}
    try:
        config = GenerationConfig(
            **{
                "do_sample": False,
                "max_new_tokens": room,
                "eos_token_id": ends,
                "pad_token_id": subject.pad,
                "use_cache": True,
                **told,
                **arguments,
            }
        )
        twin = shadow(model, implementation(model))
        ids = torch.tensor([prompt.ids], dtype=torch.int64, device=subject.device)
        with torch.no_grad():
            out = twin.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config)
    except (TypeError, ValueError) as error:
        raise UnknownOption(f"the model's generate refuses {dict(arguments)}: {error}") from None
    except RuntimeError as error:
        if "probability tensor" not in str(error):
            raise
        raise UnknownOption(
            f"the model's generate refuses {dict(arguments)}: {error}; these settings leave nothing to draw from, or "
            "the model gives NaN (load it in float32)"
        ) from None
    answer: list[int] = out[0].tolist()
    ends = config.eos_token_id
    stops = set(ends if isinstance(ends, (list, tuple)) else [ends])
    while answer and answer[-1] in stops:
        answer.pop()
    return answer
