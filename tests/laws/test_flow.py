"""What attention flow promises, of any maps and of maps of models."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import mixlens
from mixlens.aggregate.flow import flow
from mixlens.aggregate.functions import add_residual
from mixlens.errors import Undefined, UnknownMethod, UnknownOption
from mixlens.mixing import MIXING
from models import families

TEXT = families.text()
ROWS = [m for m, facts in MIXING.items() if facts.rows_sum_to_one]


def random_maps(n: int, depth: int = 4, causal: bool = False, share: float = 0.5) -> Tensor:
    logits = 2 * torch.randn(depth, n, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    if causal:
        logits = logits.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
    return add_residual(logits.softmax(-1), share)


def maps_of(method: str = "attention", name: str = "bert", **options: object) -> mixlens.LayerMaps:
    return families.lens(name).mixing(TEXT, method=method, **options)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_layer_0_is_the_map_itself(n):
    maps = random_maps(n)
    assert torch.equal(flow(maps, layers=[0], normalize=False)[0], maps[0])


@pytest.mark.parametrize("n", [5, 40])
def test_no_flow_exceeds_a_cut(n):
    maps, rows = random_maps(n), [0, 2, n - 1]
    values = flow(maps, rows, normalize=False)
    assert (values <= maps.sum(-1)[:, rows, None] + 1e-12).all()  # what the source sends
    assert (values <= maps[0].sum(0) + 1e-12).all()  # what the sink takes
    through = torch.minimum(maps[1][:, :, None], maps[0]).sum(1)
    assert (values[1] - through[rows]).abs().max() < 1e-12  # closed form
    product = maps[0]
    for layer in range(1, len(maps)):
        product = maps[layer] @ product
        assert (values[layer] >= product[rows] - 2e-6).all()  # the rollout is a flow


@pytest.mark.parametrize(("n", "rows"), [(7, None), (40, [*range(8), 39])])
def test_a_row_alone_is_the_row_of_all(n, rows):
    maps = random_maps(n, 3)
    whole = flow(maps, rows)
    assert torch.equal(flow(maps, queries=[-1, 2], layers=[2, 0]), whole[[2, 0]][:, [-1, 2]])


def test_layers_above_do_not_matter():
    maps = random_maps(12)
    assert torch.equal(flow(maps, layers=[2])[0], flow(maps[:3])[2])


@pytest.mark.parametrize("n", [6, 40])
def test_ties_at_the_ceiling_are_ties(n):
    uniform = torch.full((4, n, n), 1 / n, dtype=torch.float64)
    values = flow(add_residual(uniform, 0.5), queries=[0], layers=[-1], normalize=False)[0, 0]
    assert values.unique().tolist() == [pytest.approx(1.0, abs=1e-12)]
    shares = flow(add_residual(uniform, 0.5), queries=[0], layers=[-1])[0, 0]
    assert len(shares.unique()) == 1


@pytest.mark.parametrize("n", [6, 40])
def test_causal_flow_stays_below_the_diagonal_and_knows_no_later_token(n):
    maps, half = random_maps(n, 3, causal=True), n // 2
    rows = [0, 1, half - 1]
    values = flow(maps, rows)
    for place, i in enumerate(rows):
        assert (values[:, place, i + 1 :] == 0).all()
    assert (flow(maps[:, :half, :half], rows) - values[:, :, :half]).abs().max() < 1e-12


def test_progress_counts_rows():
    seen: list[tuple[int, int]] = []
    flow(random_maps(4), queries=[0, 1, 2], layers=[1, 2], progress=lambda done, of: seen.append((done, of)))
    assert seen == [(k, 6) for k in range(1, 7)]


def test_what_is_no_capacity_is_refused():
    maps = random_maps(3)
    for bad in (-0.1, torch.nan, torch.inf):
        with pytest.raises(Undefined, match="capacities of 0 or more"):
            flow(maps.index_put((torch.tensor(0), torch.tensor(1), torch.tensor(2)), torch.tensor(bad).double()))


# --- LayerMaps ---


@pytest.mark.parametrize("method", ROWS)
def test_maps_whose_rows_sum_to_one_can_be_flowed(method):
    maps = maps_of(method)
    got = maps.flow()
    share = 0.5 if method == "attention" else 0.0
    assert torch.equal(got.scores, flow(add_residual(maps.scores, share)))
    assert (got.aggregation, got.rows_sum_to_one, got.meta["residual"]) == ("flow", True, share or None)
    assert not maps.flow(normalize=False).rows_sum_to_one


@pytest.mark.parametrize("method", [m for m in MIXING if m not in ROWS])
def test_other_maps_are_refused_until_their_rows_are_divided(method):
    maps = maps_of(method)
    with pytest.raises(Undefined, match="signed" if maps.signed else r"maps\.normalized\(\)\.flow\(\)"):
        maps.flow()
    if not maps.signed:
        rows = maps.scores / maps.scores.sum(-1, keepdim=True)
        assert (maps.normalized().flow().scores - flow(rows)).abs().max() < 1e-12
        assert maps.normalized().meta["rows_divided"] is True
    else:
        with pytest.raises(Undefined, match="is signed"):
            maps.normalized()


def test_rows_and_layers_keep_their_numbers(tmp_path):
    maps = maps_of()
    whole, part = maps.flow(), maps.flow(queries=[-1, 2], layers=[-1, 0])
    n = len(TEXT)
    assert (part.rows, part.layer_numbers, part.depth) == ((n - 1, 2), (2, 0), 3)
    assert torch.equal(part.row(2), whole.row(2)[[2, 0]])
    assert torch.equal(part.row(-1), part.row(n - 1))
    assert torch.equal(part.layer(0).row(2), whole.layer(0).row(2))
    assert torch.equal(part.layer(-1).scores, part.layer(2).scores)
    assert part.layer(-1).layer_numbers == (2,)
    again = mixlens.read(part.save(tmp_path / "part.safetensors"))
    assert (again.rows, again.layer_numbers, again.depth) == (part.rows, part.layer_numbers, 3)
    assert {**part.to_dict(), "scores": 0}["queries"] == [n - 1, 2]
    frame = part.to_frame()
    assert sorted(set(frame["query"])) == [2, n - 1]
    assert sorted(set(frame["layer"])) == [0, 2]
    assert (whole.rows, whole.layer_numbers, whole.depth) == (None, None, None)


@pytest.mark.parametrize("method", ["attention_flow", "alti+flow"])
def test_progress_goes_through_the_rows_of_every_text(method):
    seen: list[tuple[int, int]] = []
    texts = families.texts((5, 3))
    families.lens("bert").attribute(texts, method, readout="mean", batch_size=2, progress=lambda *at: seen.append(at))
    assert seen == [(k, 10) for k in (1, 2, 3, 4, 5)] + [(3 + k, 6) for k in (1, 2, 3)]


def test_what_is_not_there_is_refused():
    part = maps_of().flow(queries=[2], layers=[1])
    with pytest.raises(UnknownOption, match="row that was computed, 2, got 0; ask with queries="):
        part.row(0)
    with pytest.raises(UnknownOption, match="expected one row of -9 to 8, got 'max'"):
        part.row("max")
    with pytest.raises(UnknownOption, match="layer that was computed, 1, got -1; ask with layers="):
        part.layer(-1)
    with pytest.raises(Undefined, match="expected all rows and layers for a graph"):
        part.plot(kind="graph")


@pytest.mark.parametrize("name", ["queries", "layers"])
@pytest.mark.parametrize("asked", [[], [9], [-10], [True]])
def test_rows_and_layers_that_mean_nothing(name, asked):
    with pytest.raises(UnknownOption, match=f"expected {name}= a list of numbers of -"):
        maps_of().flow(**{name: asked})


def test_twice_the_same_row():
    with pytest.raises(UnknownOption, match="expected each of queries= once"):
        maps_of().flow(queries=[0, -9])


REFUSED = [
    ("alti", {"residual": 0.5}, Undefined, "already holds the residual; flow it with residual=None"),
    ("attention", {"residual": 1.5}, UnknownOption, "a share in \\[0, 1\\), got 1.5"),
    ("attention", {"head": 0}, UnknownOption, "per_head=True"),
    ("attention", {"receptive_field": True}, Undefined, "expected maps of a causal model"),
]


@pytest.mark.parametrize(("method", "options", "error", "says"), REFUSED)
def test_flows_that_mean_nothing_are_refused(method, options, error, says):
    with pytest.raises(error, match=says):
        maps_of(method).flow(**options)


def test_one_head_at_the_top():
    maps = maps_of("attention", per_head=True)
    with pytest.raises(Undefined, match="pass head=k"):
        maps.flow()
    got = maps.flow(head=-1)
    below = add_residual(maps.scores.mean(1), 0.5)
    own = add_residual(maps.scores[:, -1], 0.5)
    assert torch.equal(got.scores, flow(below, leaving=own))
    same = replace(maps, scores=maps.scores[:, :1].expand_as(maps.scores))
    assert torch.equal(same.flow(head=2).scores, replace(maps, scores=maps.scores[:, 0]).flow().scores)


@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_receptive_field(name):
    lens = families.lens(name)
    maps = lens.mixing(TEXT, method="attention")
    whole = maps.flow(receptive_field=True)
    start = lens.mixing(TEXT[:6], method="attention").flow(receptive_field=True)
    assert (whole.scores[:, :6, :6] - start.scores).abs().max() < 1e-6
    plain = maps.flow(normalize=False).scores
    uniform = replace(maps, scores=(plain > 0).double()).scores  # what can be seen
    assert ((whole.scores > 0) == (uniform > 0)).all()
    even = torch.stack([m / m.sum(-1, keepdim=True) for m in (maps.scores > 0).double()])
    flat = replace(maps, scores=even).flow(receptive_field=True).scores
    seen = (flat > 0).double()
    assert (flat - seen / seen.sum(-1, keepdim=True)).abs().max() < 1e-12


# --- presets ---


def test_the_preset_is_the_read_out_row_of_the_last_layer():
    lens = families.lens("bert")
    got = lens.attribute(TEXT, method="attention_flow", readout=3)
    whole = lens.mixing(TEXT, method="attention").flow()
    assert torch.equal(got.scores, whole.row(3)[-1] / whole.row(3)[-1].sum())
    raw = lens.attribute(TEXT, method="attention_flow", readout=3, normalize=False)
    assert torch.equal(raw.scores, lens.mixing(TEXT, method="attention").flow(normalize=False).row(3)[-1])
    assert got.layers is None
    mean = lens.attribute(TEXT, method="attention_flow", readout="mean")
    assert (mean.scores - whole.scores[-1].mean(0)).abs().max() < 1e-12


@pytest.mark.parametrize("method", ROWS)
def test_composed_flows_add_no_residual(method):
    lens = families.lens("bert")
    got = lens.attribute(TEXT, method=f"{method}+flow", readout=0).scores
    expected = lens.mixing(TEXT, method=method).flow(residual=None).row(0)[-1]
    assert (got - expected).abs().max() < 1e-12


def test_composed_flows_of_other_rows_are_refused_before_the_pass():
    with pytest.raises(Undefined, match=r"rows of globenc do not sum to 1.*normalized\(\)\.flow\(\)"):
        families.lens("bert").attribute(TEXT, method="globenc+flow")
    with pytest.raises(UnknownMethod, match="no ':'"):
        families.lens("bert").attribute(TEXT, method="alti+flow:2")


def test_batch_mates_change_nothing():
    lens = families.lens("bert")
    alone = [lens.attribute(t, method="attention_flow", readout=0).scores for t in (TEXT, TEXT[:5])]
    both = lens.attribute([TEXT, TEXT[:5]], method="attention_flow", readout=0)
    for a, b in zip(alone, both, strict=True):
        assert (a - b.scores).abs().max() < 1e-6


def test_causal_presets_divide_by_the_receptive_field():
    lens = families.lens("gpt2")
    got = lens.attribute(TEXT, method="attention_flow")
    assert got.meta["receptive_field"] is True
    expected = lens.mixing(TEXT, method="attention").flow(receptive_field=True).row(-1)[-1]
    assert (got.scores - expected).abs().max() < 1e-12
