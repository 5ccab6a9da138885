"""How many passes a trace takes: what one pass gives is not asked for again."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch

import mixlens
from models import chats, families

PROMPT, ANSWER = "w5 w6 w7 w8", "w9 w10 w11"


@pytest.fixture(scope="module")
def lens() -> mixlens.Lens:
    return mixlens.load(families.make("llama", "causal", max_position_embeddings=96), chats.tokenizer())


@pytest.fixture
def ran(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The layers that run, whoever asks for it."""
    out: list[int] = []
    kind = type(lens.model.model.layers[0])
    plain = kind.forward

    @functools.wraps(plain)
    def forward(self, *args, **kwargs):
        out.append(1)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(kind, "forward", forward)
    yield out


ONE_PASS = (
    "attention_rollout",
    "globenc",
    "alti",
    "ifr+rollout",
    "head_logit",
    "alti_logit",
    "cp_lrp",
    "gim",
    "path_logit",
)
ONE_PASS += ("saliency", "cat", "attcat", "grads", "att_grads", "grad_sam")  # their backward passes run no layer


@pytest.mark.parametrize("method", [*ONE_PASS, "flashtrace"])
def test_methods_that_run_once(lens: mixlens.Lens, ran: list[int], method: str) -> None:
    """The logits are those of the method's own pass, and where they are made of is known from the first call."""
    first = lens.trace(PROMPT, ANSWER, method)
    ran.clear()
    again = lens.trace(PROMPT, ANSWER, method)
    assert len(ran) == lens.subject.layers
    assert torch.equal(first.scores, again.scores) and first.said == again.said


@pytest.mark.parametrize("method", ONE_PASS)
def test_what_is_said_of_an_answer_is_the_model_s(lens: mixlens.Lens, method: str) -> None:
    trace = lens.trace(PROMPT, ANSWER, method)
    ids = [*trace.prompt.ids, *trace.answer.ids]
    with torch.no_grad():
        logits = lens.model(input_ids=torch.tensor([ids])).logits[0, len(trace.prompt) - 1 : -1]
    for token, said, row in zip(trace.answer.ids, trace.said, logits.softmax(-1), strict=True):
        assert said["target_probability" if "target_probability" in said else "probability"] == pytest.approx(
            float(row[token]) if "target_probability" in said else float(row.max()), abs=1e-9
        )
