"""What holds of every model of pictures: parts, places, sums, batch mates, precision.

A test is a law on one model, and names the method that breaks it. Methods of many passes or gradients (`COSTLY`) are
tried on two: a classifier whose row is known, and a model whose row is named.
"""

import numpy as np
import pytest
import torch
import transformers

import mixlens
from mixlens.architectures import base_model, layer_modules
from mixlens.attribute import ATTRIBUTIONS
from mixlens.attribute.calls import attribution_method
from mixlens.errors import SelfCheckFailed, Undefined
from mixlens.mixing import MIXING
from models import pictures
from models.mutations import mutations, refused

OLDER = tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 24)
newer = pytest.mark.skipif(OLDER, reason="BEiT's attention is seen from transformers 5.24 on")
KINDS = [pytest.param(kind, marks=newer) if kind == "beit" else kind for kind in pictures.KINDS]
SLOW = [pytest.param(kind, marks=() if kind == "vit" else pytest.mark.slow) for kind in pictures.KINDS]
COSTLY = ("integrated_gradients", "hta", "hta_x_input")


def readout(kind, method="alti"):
    """Where a head's row is not known, one is named, for a method that reads it."""
    if kind in ("vit", "vit-base", "deit", "dinov2", "dinov2-registers", "dinov3", "clip"):
        return {}
    reads = attribution_method(pictures.lens(kind).subject, method, {}).reads_row({})
    return {"readout": 0} if reads else {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_pictures_is_found_and_adds_up(kind):
    lens = pictures.lens(kind)
    check = lens.check()
    assert check.passed and check.worst < 1e-13, check
    assert check.origin == "inferred"
    assert not check.causal


@pytest.mark.parametrize("kind", KINDS)
def test_every_patch_has_its_place_and_what_is_beside_them_is_special(kind):
    stream = pictures.lens(kind).subject.read(pictures.image()).require()[0]
    beside = pictures.KINDS[kind].beside
    assert stream.unit == "patch"
    assert tuple(name for name, special in zip(stream.names, stream.special, strict=True) if special) == beside
    assert stream.grid == (5, 5)
    expected = [(j * 12.0, i * 9.0, (j + 1) * 12.0, (i + 1) * 9.0) for i in range(5) for j in range(5)]
    assert [place for place in stream.places if place is not None] == expected
    assert stream.names[len(beside)] == "patch 1,1" and stream.names[-1] == "patch 5,5"


@pytest.mark.parametrize("kind", SLOW)
def test_maps_are_of_the_patches_and_their_rows_sum_as_the_method_says(kind):
    lens, drawn = pictures.lens(kind), set()
    for method in MIXING:
        try:
            maps = lens.mixing(pictures.pixels()[0], method=method)
        except Undefined as reason:
            assert method in str(reason)
            continue
        n = len(maps.source)
        assert maps.scores.shape == (3, n, n) and torch.isfinite(maps.scores).all(), method
        if MIXING[method].rows_sum_to_one:
            ones = torch.ones(3, n, dtype=maps.scores.dtype)
            assert torch.allclose(maps.scores.sum(-1), ones, atol=1e-10), method
        drawn.add(method)
    assert drawn == {*MIXING} - {"norm_resln"}  # (it needs a norm behind the sum)


def explained(kind: str, methods: list[str]) -> set[str]:
    """Which of the methods explain a picture; the others say why not."""
    lens, able = pictures.lens(kind), set()
    for method in methods:
        try:
            attr = lens.attribute(pictures.pixels()[0], method=method, **readout(kind, method))
        except mixlens.errors.MixlensError as reason:
            assert method in str(reason) and not isinstance(reason, SelfCheckFailed), method
            continue
        assert attr.scores.shape == (len(attr.source),) and torch.isfinite(attr.scores).all(), method
        able.add(method)
    return able


@pytest.mark.parametrize("kind", SLOW)
def test_every_method_explains_or_says_why_not(kind):
    able = explained(kind, [name for name in ATTRIBUTIONS if name not in COSTLY])
    assert {"alti", "globenc", "random"} <= able
    assert ("saliency" in able) == ("attcat" in able) == (pictures.lens(kind).head.task != "none")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vit", "dinov2-head"])
def test_so_do_methods_of_many_passes(kind):
    assert explained(kind, list(COSTLY)) == {*COSTLY}


@pytest.mark.parametrize("kind", SLOW)
def test_pictures_beside_a_picture_change_no_number(kind):
    lens = pictures.lens(kind)
    first, second, third = pictures.pixels(3)
    for method in ["alti"] if lens.head.task == "none" else ["alti", "saliency", "blank_out", "deeplift"]:
        rows = readout(kind, method)
        together = lens.attribute([first, second, third], method=method, **rows)
        alone = lens.attribute(second, method=method, **rows)
        assert torch.allclose(together[1].scores, alone.scores, rtol=1e-12, atol=1e-15), method


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k in ("vit", "siglip") else pytest.mark.slow) for k in pictures.KINDS]
)
def test_single_precision_is_near_whatever_lies_how_in_memory(kind):
    rows, x = readout(kind), pictures.pixels()[0]
    for method in ("alti", "globenc", "norm_rollout"):
        exact = pictures.lens(kind).attribute(x, method=method, **rows).scores
        single = pictures.lens(kind, torch.float32).attribute(x.float(), method=method, **rows).scores
        assert torch.allclose(single.double(), exact, atol=3e-5 * float(exact.max())), method


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vit", "dinov2", "siglip"])
def test_a_spec_with_one_thing_changed_is_refused(kind):
    model, spec = pictures.model(kind), pictures.lens(kind).spec
    layer = layer_modules(base_model(model), spec)[0]
    changed = list(mutations(spec, layer))
    passed = [name for name, make in changed if not refused(model, make)]
    assert len(changed) > 30 and passed == []


def test_pictures_of_other_sizes_go_through_apart():
    lens = pictures.lens("dinov2")
    wide = torch.zeros(3, 30, 60, dtype=torch.float64) + 0.1
    tall = torch.zeros(3, 60, 30, dtype=torch.float64) + 0.1
    results = lens.attribute([wide, tall, pictures.pixels()[0]], method="alti")
    assert [attr.source.grid for attr in results] == [(5, 10), (10, 5), (5, 5)]
    assert torch.allclose(results[0].scores, lens.attribute(wide, method="alti").scores, rtol=1e-12, atol=1e-15)


def test_random_scores_are_the_same_for_the_same_picture():
    lens = pictures.lens("vit")
    first, second = pictures.pixels(2)
    scores = [lens.attribute(x, method="random").scores for x in (first, first, second)]
    assert torch.equal(scores[0], scores[1]) and not torch.equal(scores[0], scores[2])


def test_a_rollout_of_the_maps_is_the_preset():
    lens, x = pictures.lens("vit"), pictures.pixels()[0]
    rolled = lens.mixing(x, method="alti").rollout().scores[-1, 0]
    assert np.allclose(rolled.numpy(), lens.attribute(x, method="alti").scores.numpy(), atol=1e-12)
