"""A vector a token: each method against its formula in plain torch, in float64."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import mixlens
from mixlens.aggregate.functions import add_residual, rollout
from mixlens.attribute.path.baselines import baseline_text
from mixlens.capture.run import Watch, run
from mixlens.errors import UnknownOption
from mixlens.similarity import SIMILARITIES
from mixlens.similarity.jacobian import on_path
from models import exact, families

FAMILIES = ("bert", "llama", "modernbert")
POOLING = ("mean", "first", "last")


def rows(family: str, ids: list[int]) -> torch.Tensor:
    """The last layer's rows, by the model's own pass."""
    return exact.forward(families.model(family, attention=exact.ATTENTION), ids).last_hidden_state[0]


def pooled(h: torch.Tensor, pooling: str) -> torch.Tensor:
    return {"mean": h.mean(0), "first": h[0], "last": h[-1]}[pooling]


# Each method with each family, and the poolings in turn: what follows a vector down to its tokens does not know how it
# was pooled. (A causal model's first row sees nothing but itself.)
POOLED = {"bert": POOLING, "llama": ("mean", "last"), "modernbert": ("first", "last", "mean")}
CASES = [
    (family, pooling, method)
    for family, poolings in POOLED.items()
    for k, method in enumerate(SIMILARITIES)
    for j, pooling in enumerate(poolings)
    if k % len(poolings) == j or (family, pooling) == ("bert", "mean")
]
FAST = {
    *((("bert", "mean", method)) for method in SIMILARITIES),
    *next([case] for case in CASES if case[0] == "llama"),
    *next([case] for case in CASES if case[0] == "modernbert"),
}


@pytest.mark.parametrize(
    ("family", "pooling", "method"),
    [pytest.param(*case, marks=[] if case in FAST else pytest.mark.slow) for case in CASES],
)
def test_the_cosine_is_the_models_and_complete_methods_share_all_of_it_out(family, pooling, method):
    lens, a, b = families.lens(family), families.text(7), families.text(9)
    alike = lens.similarity(a, b, method, pooling=pooling)
    u, v = (pooled(rows(family, ids), pooling) for ids in (a, b))
    assert alike.value == pytest.approx(float(torch.cosine_similarity(u, v, dim=0)), abs=1e-9)
    if SIMILARITIES[method].complete:
        assert alike.explained == pytest.approx(alike.value, abs=1e-6)
        torch.testing.assert_close(alike.scores.sum(1), alike.first_scores, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(alike.scores.sum(0), alike.second_scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_products_of_rows_and_the_same_followed_down(family):
    lens, a, b = families.lens(family), families.text(7), families.text(9)
    u, v = rows(family, a), rows(family, b)
    products = (u @ v.T) / (len(a) * len(b) * u.mean(0).norm() * v.mean(0).norm())
    got = lens.similarity(a, b, "token_products", pooling="mean").scores
    torch.testing.assert_close(got, products.float(), rtol=1e-5, atol=1e-7)
    flows = [rollout(add_residual(lens.mixing(ids, "attention").scores.double(), 0.5))[-1] for ids in (a, b)]
    rolled = flows[0].T @ products @ flows[1]
    got = lens.similarity(a, b, "attention_rollout", pooling="mean").scores
    torch.testing.assert_close(got, rolled.float(), rtol=1e-4, atol=1e-6)


def jacobian(lens: mixlens.Lens, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the mean of the last layer's rows by the first layer's input, (dim, token, dim), row by row; and the input."""
    leaves: list[torch.Tensor] = []

    def begin(index: int, x: torch.Tensor) -> torch.Tensor | None:
        if index:
            return None
        leaves.append(x.detach().clone().requires_grad_())
        return leaves[0]

    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)}
    with torch.enable_grad():
        out = run(lens.model, lens.spec, inputs, Watch(lambda seen: None, begin)).last_hidden_state[0].mean(0)
        slopes = [torch.autograd.grad(y, leaves[0], retain_graph=True)[0][0] for y in out]
    return torch.stack(slopes), leaves[0].detach()[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_jacobians_are_those_of_backward_passes(family):
    lens, a, b = families.lens(family), families.text(5), families.text(6)
    parts = []
    for ids in (a, b):
        slopes, x = jacobian(lens, ids)
        parts.append(torch.einsum("dtk,tk->td", slopes, x) / rows(family, ids).mean(0).norm())
    got = lens.similarity(a, b, "jacobian", pooling="mean").scores
    torch.testing.assert_close(got, (parts[0] @ parts[1].T).float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_integrated_jacobians_sum_to_the_difference_from_the_reference(family):
    lens, a, b = families.lens(family), families.text(5), families.text(6)
    texts = [lens.subject.read(ids).require()[0] for ids in (a, b)]
    references = [baseline_text(lens.subject, tokens, "pad") for tokens in texts]
    ends = [
        (rows(family, ids).mean(0), rows(family, list(r.ids)).mean(0))
        for ids, r in zip((a, b), references, strict=True)
    ]
    alike = lens.similarity(a, b, "integrated_jacobian", pooling="mean", steps=40, baseline="pad")
    wanted = (ends[0][0] - ends[0][1]) @ (ends[1][0] - ends[1][1]) / (ends[0][0].norm() * ends[1][0].norm())
    assert alike.explained == pytest.approx(float(wanted), rel=1e-4, abs=1e-6)


def test_the_rule_on_the_path_is_exact_for_polynomials():
    for power in range(6):
        assert sum(weight * share**power for share, weight in on_path(3)) == pytest.approx(1 / (power + 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_leaving_out_is_the_second_difference(family):
    lens, a, b = families.lens(family), families.text(5), families.text(6)
    alike = lens.similarity(a, b, "leave_out", pooling="mean", unit="token")

    def unit(ids: list[int]) -> torch.Tensor:
        vector = rows(family, ids).mean(0)
        return vector / vector.norm()

    wholes, less = [unit(ids) for ids in (a, b)], [[unit(t[:i] + t[i + 1 :]) for i in range(len(t))] for t in (a, b)]
    special = [lens.subject.read(ids).require()[0].special for ids in (a, b)]
    for i in range(len(a)):
        for j in range(len(b)):
            if special[0][i] or special[1][j]:
                assert float(alike.scores[i, j]) == 0
                continue
            both = wholes[0] @ wholes[1] - less[0][i] @ wholes[1] - wholes[0] @ less[1][j] + less[0][i] @ less[1][j]
            assert float(alike.scores[i, j]) == pytest.approx(float(both), abs=1e-6)


@pytest.mark.parametrize("method", list(SIMILARITIES))
def test_company_and_precision_change_no_number(method):
    a, many = families.text(7), [families.text(n) for n in (9, 4, 6)]
    lens = families.lens("bert")
    several = lens.similarity(a, many, method, pooling="mean", batch_size=2)
    for ids, alike in zip(many, several, strict=True):
        torch.testing.assert_close(
            alike.scores, lens.similarity(a, ids, method, pooling="mean").scores, rtol=1e-6, atol=1e-8
        )
    single = mixlens.load(copy.deepcopy(lens.model).float()).similarity(a, many[0], method, pooling="mean")
    wanted = several[0].scores
    torch.testing.assert_close(single.scores, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))
    assert np.isfinite(single.value)


def test_a_token_of_the_number_0_takes_a_word_s_place():
    lens, a, b = families.lens("bert"), families.text(5), families.text(6)
    got = lens.similarity(a, b, "leave_out", pooling="mean", unit="token", replace=0).first_scores
    u, v = (rows("bert", ids).mean(0) for ids in (a, b))
    cosine = torch.cosine_similarity(u, v, dim=0)
    for i in range(len(a)):
        mask = torch.ones(1, len(a), dtype=torch.int64)  # 0 is padding's number too, and is read here
        changed = torch.tensor([[*a[:i], 0, *a[i + 1 :]]])
        other = families.model("bert", attention=exact.ATTENTION)(changed, attention_mask=mask).last_hidden_state[0]
        less = torch.cosine_similarity(other.detach().mean(0), v, dim=0)
        assert float(got[i]) == pytest.approx(float(cosine - less), abs=1e-6)


def test_a_tensor_is_a_baseline_and_an_empty_word_is_none():
    lens, a, b = families.lens("bert"), families.text(5), families.text(6)
    ask = {"method": "integrated_jacobian", "pooling": "mean", "steps": 3}
    given = lens.similarity(a, b, baseline=torch.zeros(32, dtype=torch.float64), **ask)
    torch.testing.assert_close(given.scores, lens.similarity(a, b, baseline="zeros", **ask).scores)
    with pytest.raises(UnknownOption, match="expected baseline='mask', 'zeros', 'pad' or a tensor, got ''"):
        lens.similarity(a, b, baseline="", **ask)
