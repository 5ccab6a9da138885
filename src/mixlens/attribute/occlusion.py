"""Blank-out: the answer with a token less the answer without it, for every token in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer, answer
from mixlens.architectures import TEXT
from mixlens.attribute.method import Method
from mixlens.attribute.variants import Substitute, Variant, pieces, removal_default, replacement, variant
from mixlens.cost import Cost
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.head import Head
from mixlens.subject.provenance import provenance
from mixlens.target import Quantity

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request

TOKENS = 2048  # in one pass on a CPU: more gains nothing and holds more; other devices take whole batches

PASSES = Cost("occlusion", "one pass a token", lambda sizes, n: n, runs=lambda sizes, n: n)


def blanked_out(whole: float, without: Mapping[tuple[int, ...], float], count: int) -> Float[Tensor, " token"]:
    """F(x) - F(x without the group), shared out evenly to the group's tokens; 0 for tokens that are in none.

    `without`: the explained number without each group of tokens. (Zeiler & Fergus 2014.)
    """
    scores = torch.zeros(count, dtype=torch.float64, device="cpu")
    for group, value in without.items():
        scores[list(group)] = (whole - value) / len(group)
    return scores


@dataclass(frozen=True)
class Occlusion(Method):
    """The answer with and without each token."""

    of: Quantity = "prob"
    substitute: str = "unk"
    signed: bool = True
    class_specific: bool = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return PASSES

    def options(self) -> dict[str, Any]:
        return {"replace": self.substitute, "absolute": False, "words": False}

    def for_head(self, head: Head) -> Method:
        super().for_head(head)
        return replace(self, substitute=removal_default(head)) if head.fed != TEXT else self

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """A pass a token. Raises TargetError, Undefined, UnknownOption."""
        ask.need_answer(subject)
        substitute = ask.options.get("replace", self.substitute)
        filler = None if substitute == "delete" else replacement(subject, ask.name, substitute)
        removed = [pieces(tokens, bool(ask.options.get("words"))) for tokens in ask.texts]
        whole = subject.through(ask.texts, batch_size=ask.batch_size, answers=ask.answers)
        total, done, results = sum(map(len, removed)), 0, []
        for read, text_pass, groups in zip(ask.reads, whole, removed, strict=True):
            tokens, logits = text_pass.tokens, text_pass.logits
            assert logits is not None
            resolved = answer(subject.head, read, logits)
            value = self._value(resolved, logits)
            made = [variant(subject.head, tokens, read.at, resolved, group, filler) for group in groups]
            variants = [v for v in made if isinstance(v, Variant)]
            without: dict[tuple[int, ...], float] = {}
            done += len(made) - len(variants)
            for batch in _batches(variants, _rows(subject, ask.batch_size, len(tokens))):
                passes = subject.through(
                    [v.tokens for v in batch], batch_size=len(batch), answers=[v.at for v in batch]
                )
                for v, passed in zip(batch, passes, strict=True):
                    assert passed.logits is not None
                    without[v.removed] = self._value(v.answer, passed.logits)
                done += len(batch)
                if ask.progress is not None:
                    ask.progress(done, total)
            undefined = tuple(i for v in made if not isinstance(v, Variant) for i in v)
            meta = {
                **provenance(subject, tokens),
                "of": resolved.chosen(self.of),
                "value": value,
                "replaced_by": "nothing" if filler is None else _name(subject, filler),
                **({"undefined": undefined} if undefined else {}),
            }
            scores = blanked_out(value, without, len(tokens))
            kind = logits[0].dtype if logits[0].dtype == torch.float64 else torch.float32
            scores = (scores.abs() if ask.options.get("absolute") else scores).to(kind)
            results.append(ask.result(tokens, scores, None, resolved, meta))
        return results

    def _value(self, resolved: Answer, logits: tuple[Tensor, ...]) -> float:
        return float(resolved.value(tuple(z.cpu().double() for z in logits), self.of))


def _rows(subject: Subject, batch_size: int, n: int) -> int:
    return max(1, min(batch_size, TOKENS // n)) if subject.device.type == "cpu" else batch_size


def _batches(variants: Sequence[Variant], size: int) -> Iterator[list[Variant]]:
    """Variants of like length together, so that nothing is padded that need not be."""
    variants = sorted(variants, key=lambda v: -len(v.tokens))
    for start in range(0, len(variants), size):
        yield variants[start : start + size]


def _name(subject: Subject, token: Substitute) -> str:
    if isinstance(token, str):
        return token
    return str(token) if subject.tokenizer is None else str(subject.tokenizer.convert_ids_to_tokens([token])[0])
