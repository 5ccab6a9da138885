"""What a trace would take, before an answer is generated or anything is traced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mixlens.arguments import checked
from mixlens.attribute.calls import attribution_method, demand
from mixlens.attribute.defaults import default_method
from mixlens.budget import Plan, planned
from mixlens.capture.fed import SOUNDS
from mixlens.errors import Undefined
from mixlens.process import settled
from mixlens.subject import EncoderDecoder, Subject
from mixlens.trace.calls import row_bytes
from mixlens.trace.prompt import read_answer, read_prompt, require_answers, require_room

_WORDS = {
    "together": "for all answer tokens at once",
    "backward": "backward once for each answer token",
    "alone": "for each answer token alone",
}


@settled
@checked
def plan_trace(
    subject: Subject,
    /,
    prompt: Any,
    answer: Any = None,
    method: str | None = None,
    *,
    documents: Mapping[str, str] | None = None,
    max_new_tokens: int = 64,
    batch_size: int = 32,
    memory: int | str | None = None,
    **options: Any,
) -> Plan:
    """What `trace` would take, without generating or tracing anything: a `Plan`, as of `Lens.plan`.

    `prompt`, `answer`, `method`, `documents`, `options`: as in `trace`. Where no answer is given `max_new_tokens` are
    counted (as many as the model has positions for), each a step of the model, in `passes` together one pass over the
    text: the plan is for the longest answer. Of causal language models. Raises InputError, MethodError, Undefined.

    Examples:
        >>> chat = mixlens.load("mixlens:smollm2")  # doctest: +SKIP
        >>> print(chat.plan_trace("Who wrote Hamlet?", "Shakespeare", "blank_out"))  # doctest: +SKIP
    """
    require_answers(subject)
    if isinstance(subject, EncoderDecoder) or subject.head.fed in SOUNDS:
        raise Undefined(
            "a trace is planned of causal language models; of two stacks see Lens.plan of the source's text"
        )
    name = default_method(subject) if method is None else method
    chosen = attribution_method(subject, name, options)
    first = len(read_prompt(subject, prompt, documents).tokens)
    room = max_new_tokens if subject.limit is None else max(1, subject.limit - first)
    count = min(max_new_tokens, room) if answer is None else len(read_answer(subject, answer))
    require_room(subject, first, count)
    size = first + count
    needed = replace(demand(subject, chosen, options), beside=row_bytes(subject, count, size))
    plan = planned(name, needed, [size], memory, batch_size)
    way = chosen.traced(subject, options)
    passes = {"together": plan.passes, "backward": 1 + count * (plan.passes - 1), "alone": count * plan.passes}[way]
    generated = f", behind up to {count} tokens that are generated" if answer is None else ""
    words = f"{plan.time}, {_WORDS[way]} ({'up to ' if answer is None else ''}{count}){generated}"
    return replace(plan, time=words, passes=passes + (answer is None))
