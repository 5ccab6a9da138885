"""Embeddings of a prompt set to zero or thinned out: what is left of the answer, by passes of the model itself."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Example
from mixlens.errors import Undefined
from mixlens.measure import Case, measure
from models import chats, families

PROMPT, ANSWER = "w5 w6 w7 w8 w9 w10", "w6 w7"
EXAMPLE = Example("a", prompt=PROMPT, answer=ANSWER)


@pytest.fixture(scope="module")
def lens() -> mixlens.Lens:
    return mixlens.load(families.make("llama", "causal", max_position_embeddings=96), chats.tokenizer())


def rows(lens: mixlens.Lens, trace: mixlens.Trace, kept: np.ndarray) -> torch.Tensor:
    """ln p of every word at the rows of the answer, each embedding of the prompt times what is kept of it."""
    ids = torch.tensor([[*trace.prompt.ids, *trace.answer.ids]])
    with torch.no_grad():
        x = lens.model.get_input_embeddings()(ids).clone()
        x[0, : len(kept)] *= torch.from_numpy(kept).to(x)
        z = lens.model(inputs_embeds=x).logits[0, len(trace.prompt) - 1 : -1]
    return z.double().log_softmax(-1)


def case(trace: mixlens.Trace, **more) -> Case:
    scores = trace.scores[:, : len(trace.prompt)].double().sum(0).numpy()
    return Case(scores, np.array(trace.prompt.special, dtype=bool), **more)


@pytest.mark.parametrize("name", ["disrupt", "recover"])
def test_embeddings_of_the_highest_tokens_or_of_all_others_are_zero(lens: mixlens.Lens, name: str) -> None:
    table = mixlens.evaluate(lens, [EXAMPLE], ["saliency"], [name], batch_size=3)
    trace = lens.trace(PROMPT, ANSWER, "saliency")
    curve = []
    for gone in ((), *measure(name).removed(case(trace))):
        kept = np.ones((len(trace.prompt), 1))
        kept[list(gone)] = 0
        log_p = rows(lens, trace, kept)
        curve.append(sum(float(log_p[t, token]) for t, token in enumerate(trace.answer.ids)))
    assert np.log(table.curve(name, "saliency")[0]) == pytest.approx(curve, abs=1e-9)
    expected = measure(name)(case(trace, curve=np.array(curve)))
    assert table.values(name, "saliency")[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["soft_ns", "soft_nc"])
def test_embeddings_are_thinned_out_by_the_scores(lens: mixlens.Lens, name: str) -> None:
    table = mixlens.evaluate(lens, [EXAMPLE], ["saliency"], [(name, name, {"seed": 3})])
    trace = lens.trace(PROMPT, ANSWER, "saliency")
    asked = case(trace)
    n = len(trace.prompt)
    whole = rows(lens, trace, np.ones((n, 1)))
    draws = np.random.default_rng([3, *trace.prompt.ids]).random((n, 32))
    near = []
    for given in measure(name).removed(asked, seed=3):
        log_p = rows(lens, trace, (draws < np.array(given[1:])[:, None]).astype(float))
        distance = (1 - (whole.exp() * log_p.exp()).sqrt().sum(-1)).clamp_min(0).sqrt().mean()
        near.append(1 - float(distance))
    expected = measure(name)(case(trace, curve=np.log([1.0, *near])))
    assert 0 < expected < 1
    assert table.values(name, "saliency")[0] == pytest.approx(expected, abs=1e-9)


def test_batches_and_other_methods_change_nothing(lens: mixlens.Lens) -> None:
    examples = [
        EXAMPLE,
        Example("b", prompt="w5 w6 w7", answer="w9", foil="w8"),
        Example("c", prompt="w8 w11", answer="w9"),
    ]
    names = ["disrupt", "soft_ns", "top_k_drop"]
    together = mixlens.evaluate(lens, examples, ["saliency", "random"], names, batch_size=8)
    for i, example in enumerate(examples):
        for name in names:
            alone = mixlens.evaluate(lens, [example], ["saliency"], [name], batch_size=1)
            assert together.values(name, "saliency")[i] == pytest.approx(
                alone.values(name, "saliency")[0], abs=1e-9, nan_ok=True
            )


def test_what_is_refused(lens: mixlens.Lens) -> None:
    with pytest.raises(Undefined, match="disrupt changes embeddings of the prompt of an answer"):
        mixlens.evaluate(families.lens("bert", "sequence"), [Example("a", [5, 6])], ["saliency"], ["disrupt"])
    table = mixlens.evaluate(lens, [EXAMPLE, Example("t", "w5 w6 w7")], ["saliency"], ["disrupt"])
    (line,) = [line for line in table.examples() if line["id"] == "t"]
    assert table.row("disrupt", "saliency").n_errors == 1 and "example 't' is a text" in json.dumps(line)
