"""A text's layers from the last to the first: the numbers of the pass, whether its maps are kept or made again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import mixlens
from mixlens.attribute import ATTRIBUTIONS, Preset
from mixlens.attribute.calls import attributions, request
from mixlens.capture.replay import Replay
from mixlens.errors import NotFinite, SelfCheckFailed
from mixlens.mixing.calls import mapper
from mixlens.subject import descent
from mixlens.subject.descent import Descent
from models import families

ROLLED = [name for name, method in ATTRIBUTIONS.items() if isinstance(method, Preset)]
DECODERS = ["llama", "gpt2", "gemma2", "mistral", "gpt_neox"]


@pytest.fixture
def long(monkeypatch):
    """Every text is a long one, whose maps are made again in blocks of two rows."""

    def start(n: int = 9) -> None:
        monkeypatch.setattr(descent, "KEPT_BYTES", 0)
        monkeypatch.setattr(descent, "PART_BYTES", 2 * 8 * n)

    return start


@pytest.mark.parametrize("family", DECODERS)
def test_a_replayed_layer_gives_what_it_gave(family):
    lens = families.lens(family, "causal")
    (batch,) = lens.subject.batches(lens.subject.read([families.text()]).require(), 1)
    seen = []
    with torch.no_grad():
        replay = Replay(lens.model, lens.subject.spec, batch.inputs, seen.append)
        for index in (1, 0, 1):
            with replay.again(index) as again:
                assert again.index == index and again.module is seen[index].module
                assert torch.equal(again.y, seen[index].y) and torch.equal(again.x, seen[index].x)
                for one, other in zip(again.attends, seen[index].attends, strict=True):
                    assert torch.equal(one.calls[0].q, other.calls[0].q) and torch.equal(one.out, other.out)


def test_a_layer_that_keeps_a_state_is_refused():
    lens = families.lens("llama", "causal")
    (batch,) = lens.subject.batches(lens.subject.read([families.text()]).require(), 1)
    with torch.no_grad():
        replay = Replay(lens.model, lens.subject.spec, batch.inputs)
        replay._calls[1].y.add_(1.0)
        said = r"run again to give what it gave, it is off by 1\.0e\+00; the layer"
        with pytest.raises(SelfCheckFailed, match=said), replay.again(1):
            pass


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("family", DECODERS)
def test_maps_made_again_in_blocks_are_the_maps(family, by_rows, long):
    lens, text = families.lens(family, "causal"), families.text()
    (maps,) = (torch.as_tensor(m.scores) for m in [lens.mixing(text, "alti")])
    long()
    (tokens,) = lens.subject.read([text]).require()
    down = Descent(lens.subject, tokens, mapper("alti", {}), by_rows=by_rows, top=[4, 7])
    seen = {}
    for index, parts in down.layers():
        made = torch.full_like(maps[index], float("nan"))
        for rows, part in parts:
            assert len(part) <= (2 if by_rows else len(text))
            made[rows] = part
        seen[index] = made
    assert list(seen) == list(reversed(range(len(maps))))
    top = seen.pop(len(maps) - 1)
    there = [4, 7] if by_rows else list(range(len(text)))
    assert torch.allclose(top[there], maps[-1][there], atol=1e-12)
    assert bool(top.isnan().any()) == by_rows
    for index, made in seen.items():
        assert torch.allclose(made, maps[index], atol=1e-12)
    assert down.sights[0].causal


@pytest.mark.parametrize("name", ROLLED)
@pytest.mark.parametrize("family", ["llama", "gemma2", "bert"])
def test_a_long_text_has_the_numbers_of_a_short_one(family, name, long):
    lens, texts = families.lens(family, "sequence" if family == "bert" else "causal"), families.texts()
    short = lens.attribute(texts, name)
    long()
    assert lens.plan(texts, name).fits
    for one, other in zip(short, lens.attribute(texts, name), strict=True):
        assert one.meta == {
            k: pytest.approx(v) if isinstance(v, float) or k == "probabilities" else v for k, v in other.meta.items()
        }
        assert torch.allclose(one.scores, other.scores, atol=1e-13)
        assert (one.layers is None) == (other.layers is None)
        assert one.layers is None or torch.allclose(one.layers, other.layers, atol=1e-13)


@pytest.mark.parametrize("name", ["attention_rollout", "alti", "globenc", "alti_logit", "ifr", "globenc+mean"])
def test_a_long_trace_has_the_numbers_of_a_short_one(name, long):
    lens, text = families.lens("llama", "causal"), families.text()
    short = lens.trace(text, [5, 6, 7], method=name)
    long(12)
    assert torch.allclose(short.scores, lens.trace(text, [5, 6, 7], method=name).scores, atol=1e-13)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("name", "method", "field"), [("attention_rollout", "attention", True), ("alti", "alti", False)]
)
def test_each_layer_s_own_row_is_that_of_its_map(name, method, field, kept, long):
    lens, text = families.lens("llama", "causal"), families.text()
    want = [lens.mixing(text, method).layer(k, receptive_field=field).scores[0, -1] for k in range(2)]
    if not kept:
        long()
    tokens = lens.subject.read([text]).require()
    ask = request(lens.subject, name, {"normalize": False}, [mixlens.Target()], tokens, 1, None)
    ((found,),) = attributions(lens.subject, [replace(ask, layered="each")])
    torch.testing.assert_close(found.layers[:2], torch.stack(want), rtol=1e-12, atol=1e-15)


def test_what_passes_is_told_on_the_way_up_and_down(long):
    lens, text, told = families.lens("llama", "causal"), families.text(), []
    long()
    lens.attribute(text, "alti", progress=lambda done, total: told.append((done, total)))
    layers = len(lens.mixing(text, "alti"))
    assert told == [(k, 2 * layers) for k in range(1, 2 * layers + 1)]


def test_nan_in_a_map_is_named(long):
    lens, text = families.lens("llama", "causal"), families.text()
    long()

    def broken(block):
        return mapper("attention", {})(block) * float("nan")

    (tokens,) = lens.subject.read([text]).require()
    down = Descent(lens.subject, tokens, broken, by_rows=True)
    with pytest.raises(NotFinite, match="a score gives NaN"):
        [list(parts) for _, parts in down.layers()]


def test_long_texts_beside_short_ones(monkeypatch):
    lens = families.lens("llama", "causal")
    texts = [families.text(3), families.text(9), families.text(4)]
    alone = [lens.attribute(text, "alti") for text in texts]
    flows = [lens.attribute(text, "attention_flow") for text in texts]
    layers = len(lens.mixing(texts[0], "alti"))
    monkeypatch.setattr(descent, "KEPT_BYTES", layers * 5 * 5 * 8)
    both = mixlens.load(lens.model).attribute(texts, "alti")
    for one, other in zip(alone, both, strict=True):
        assert torch.allclose(one.scores, other.scores, atol=1e-12)
    for one, other in zip(flows, lens.attribute(texts, "attention_flow"), strict=True):
        assert torch.allclose(one.scores, other.scores, atol=1e-12)
