"""What holds of every model of sounds: parts, places, words, sums, batch mates, precision."""

import numpy as np
import pytest
import torch

import mixlens
from mixlens.architectures import base_model, layer_modules
from mixlens.attribute import ATTRIBUTIONS
from mixlens.errors import SelfCheckFailed, Undefined
from mixlens.mixing import MIXING
from models import sounds
from models.mutations import mutations, refused

SLOW = [pytest.param(kind, marks=() if kind == "wav2vec2-classes" else pytest.mark.slow) for kind in sounds.KINDS]
FEW = [
    pytest.param(kind, marks=() if kind in ("wav2vec2-classes", "wav2vec2-stable", "wavlm") else pytest.mark.slow)
    for kind in sounds.KINDS
]
SEVERAL = [kind for kind in sounds.KINDS if kind in ("wav2vec2-stable", "wavlm", "wavlm-stable", "wav2vec2-ctc")]
THREE = ["wav2vec2-classes", *(pytest.param(k, marks=pytest.mark.slow) for k in ("wavlm-stable", "wav2vec2-ctc"))]
HEAVY = ("integrated_gradients", "hta", "hta_x_input", "deeplift", "blank_out")


def asked(kind):
    """What is asked of each kind of head."""
    if kind == "wav2vec2-ctc":
        return {"target": mixlens.Target(position=(0, 23))}
    if kind == "wav2vec2-frames":
        return {"target": mixlens.Target(position=7)}
    return {} if kind == "wav2vec2-classes" else {"readout": "mean"}


@pytest.mark.parametrize("kind", FEW)
def test_a_model_of_sounds_is_found_and_adds_up(kind):
    lens = sounds.lens(kind)
    check = lens.check()
    assert check.passed and check.worst < 1e-13 and check.reference < 1e-12, check
    assert check.origin == "inferred" and not check.causal
    assert lens.spec.seam == ("softmax" if kind.startswith("wavlm") else "interface")


@pytest.mark.parametrize("kind", SLOW)
def test_every_frame_has_its_time(kind):
    stream = sounds.lens(kind).subject.read(sounds.sound()).require()[0]
    times = 2 if kind == "sew" else 1
    assert (stream.unit, len(stream), stream.rate, stream.seconds) == ("frame", 24 // times, 1000, 0.5)
    assert stream.axes == ("start", "end") and not any(stream.special)
    starts = [start for start, _ in stream.places]
    assert starts[0] == 0 and np.allclose(np.diff(starts[1:]), 0.02 * times)
    assert all(end == start for (_, end), start in zip(stream.places[:-1], starts[1:], strict=True))
    assert stream.places[-1][1] == 0.5  # what the last frame sees ends there


@pytest.mark.parametrize("kind", THREE)
@pytest.mark.parametrize("method", sorted(MIXING))
def test_maps_are_of_the_frames_and_their_rows_sum_as_the_method_says(kind, method):
    lens = sounds.lens(kind)
    try:
        maps = lens.mixing(sounds.spoken(), method=method)
    except Undefined as reason:
        assert method in str(reason)
        return
    n = len(maps.source)
    assert maps.scores.shape == (3, n, n) and torch.isfinite(maps.scores).all()
    words = maps.by_word()
    assert words.scores.shape == (3, 6, 6) and words.source.names == ("…", "one", "…", "two", "one", "…")
    if MIXING[method].rows_sum_to_one:
        for made in (maps, words):
            assert torch.allclose(made.scores.sum(-1), torch.ones(made.scores.shape[:2], dtype=made.scores.dtype))


@pytest.mark.parametrize("kind", THREE)
@pytest.mark.parametrize(
    "method", [pytest.param(n, marks=pytest.mark.slow) if n in HEAVY else n for n in sorted(ATTRIBUTIONS)]
)
def test_every_method_explains_or_says_why_not(kind, method):
    lens = sounds.lens(kind)
    try:
        attr = lens.attribute(sounds.spoken(), method=method, **asked(kind))
    except mixlens.errors.MixlensError as reason:
        assert method in str(reason) and not isinstance(reason, SelfCheckFailed)
        return
    assert attr.scores.shape == (len(attr.source),) and torch.isfinite(attr.scores).all()
    assert sum(word.score for word in attr.words()) == pytest.approx(float(attr.scores.sum()), abs=1e-12)


@pytest.mark.parametrize("method", ["alti", "saliency"])
def test_sounds_beside_a_sound_change_no_number(method):
    lens = sounds.lens("wav2vec2-classes")
    given = [sounds.sound(), sounds.sound(seed=1), sounds.sound(330, seed=2)]
    together = lens.attribute(given, method=method)
    assert [len(attr.source) for attr in together] == [24, 24, 15]
    for attr, one in zip(together, given, strict=True):
        alone = lens.attribute(one, method=method)
        assert torch.allclose(attr.scores, alone.scores, rtol=1e-12, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wav2vec2-classes", *SEVERAL])
def test_single_precision_is_near(kind):
    exact = sounds.lens(kind).attribute(sounds.sound(), method="alti", **asked(kind)).scores
    single = sounds.lens(kind, torch.float32).attribute(sounds.sound(), method="alti", **asked(kind)).scores
    assert torch.allclose(single.double(), exact, atol=3e-5 * float(exact.max()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wav2vec2", "wav2vec2-stable", "wavlm"])
def test_a_spec_with_one_thing_changed_is_refused(kind):
    model, spec = sounds.model(kind), sounds.lens(kind).spec
    layer = layer_modules(base_model(model), spec)[0]
    changed = list(mutations(spec, layer))
    passed = [name for name, make in changed if not refused(model, make)]
    assert len(changed) > 20 and passed == []


def test_random_scores_are_the_same_for_the_same_sound():
    lens = sounds.lens("wav2vec2-classes")
    scores = [lens.attribute(sounds.sound(seed=k), method="random").scores for k in (0, 0, 1)]
    assert torch.equal(scores[0], scores[1]) and not torch.equal(scores[0], scores[2])


def test_results_of_sounds_come_back_from_files(tmp_path):
    lens = sounds.lens("wav2vec2-ctc")
    attr = lens.attribute(sounds.spoken(), method="alti", target=mixlens.Target(position=(0, 23)))
    back = mixlens.read(attr.save(tmp_path / "a"))
    assert back.to_dict() == attr.to_dict() and back.words() == attr.words()
    assert (back.source.words, back.source.emitted) == (attr.source.words, attr.source.emitted)
    maps = lens.mixing(sounds.spoken(), method="alti").by_word()
    assert mixlens.read(maps.save(tmp_path / "b")).to_dict() == maps.to_dict()
