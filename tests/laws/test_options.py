"""No option is ignored in silence: asked for otherwise, it changes what comes out, or is refused in words."""

from __future__ import annotations

import pytest
import torch

from mixlens.attribute.names import COMMON
from mixlens.attribute.names import method as named
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.errors import MixlensError, TargetError, Undefined
from mixlens.mixing import MIXING
from mixlens.target import Target
from models import families

TEXT = [families.CLS, 11, 12, 13, 12, families.SEP]
OTHER = {
    "readout": [2],
    "normalize": [False],
    "receptive_field": [True, False],
    "zero_cls": [True],
    "p": [2],
    "upto": ["ln2"],
    "heads": ["sum"],
    "threshold": [0.1],
    "with_residual": [False],
    "per_head": [True],
    "distance": ["euclidean"],
    "indexing": ["input"],
    "mask_special": [True],
    "weights": ["readout"],
    "layer": [1],
    "absolute": [True],
    "steps": [130],
    "rule": ["riemann_left"],
    "tolerance": [0.0],
    "baseline": ["zeros", "mask"],
    "reduce": ["l2"],
    "signed": [True],
    "paths": ["all"],
    "itself": [False],
    "temperature": [2.0],
    "average": [None],
    "clamp": ["head"],
    "ffn": [True],
    "hops": [0],
    "reasoning": [(1, 3)],
    "replace": [7],
    "words": [True],
    "span": ["answer"],
    "units": ["word"],
    "seed": [1],
    "ablations": [7],
    "alpha": [0.5],
    "standardize": [(torch.linspace(0, 9, 96).view(3, 32), torch.ones(3, 32))],
}
# What stays as it is, for a reason: hops go through what reasoning= names, and a tolerance changes no number.
SAME = {("flashtrace", "hops"), ("integrated_gradients", "tolerance")}
CALLS = {"bert": ("sequence", None), "llama": ("causal", 5)}


def _known(family: str, head: str) -> dict[str, dict]:
    lens, out = families.lens(family, head), {}
    for name in (*ATTRIBUTIONS, *(f"{mixing}+mean" for mixing in MIXING)):
        try:
            chosen = named(name).for_spec(lens.spec).for_head(lens.head)
        except Undefined:
            continue
        out[name] = {**chosen.options(), **COMMON}
    return out


def _heard(lens, name, target, plain, options) -> bool:
    """Whether something else comes out, or a refusal."""
    try:
        other = lens.attribute(TEXT, name, target, **options)
    except MixlensError:
        return True
    same = plain.layers is None or torch.equal(plain.layers, other.layers)
    return not (same and torch.equal(plain.scores, other.scores))


@pytest.mark.parametrize("family", CALLS)
def test_no_option_is_ignored(family):
    head, target = CALLS[family]
    lens, ignored, tried = families.lens(family, head), [], 0
    for name, options in _known(family, head).items():
        base = {"replace": families.UNK} if options.get("replace") == "unk" else {}
        try:
            plain = lens.attribute(TEXT, name, target, **base)
        except MixlensError:  # needs more than ids of this model: a text, another head
            continue
        raw = lens.attribute(TEXT, name, target, normalize=False, **base)
        divided = not named(name).signed and not torch.isclose(raw.scores.sum(), torch.ones((), dtype=raw.scores.dtype))
        for option in options:
            if (name, option) in SAME or (option == "normalize" and not divided):
                continue
            tried += 1
            if not any(_heard(lens, name, target, plain, {**base, option: value}) for value in OTHER[option]):
                ignored.append((name, option))
    assert not ignored, ignored
    assert tried > 90


ROWLESS = ("saliency", "grad_x_input", "cat", "attcat", "integrated_gradients", "deeplift", "blank_out", "grad_sam")


@pytest.mark.parametrize("method", ROWLESS)
def test_a_row_that_nobody_reads_is_refused(method):
    lens, options = families.lens("bert", "sequence"), {"replace": families.UNK} if method == "blank_out" else {}
    with pytest.raises(Undefined, match=rf"^{method} explains the answer itself, no row.*; leave readout= out, or use"):
        lens.attribute(TEXT, method, readout=0, **options)
    at = families.lens("bert", "token")
    goal = Target(1, position=3)
    with pytest.raises(Undefined, match=rf"^{method} reads the row that answers; leave readout= out, .*position="):
        at.attribute(TEXT, method, goal, readout=2, **options)
    same = at.attribute(TEXT, method, goal, readout=3, **options)  # it says the very row that answers
    assert torch.equal(same.scores, at.attribute(TEXT, method, goal, **options).scores)


def test_attcat_reads_a_row_where_it_is_asked_to():
    lens = families.lens("bert", "sequence")
    scores = [lens.attribute(TEXT, "attcat", weights="readout", readout=row).scores for row in (0, 3)]
    assert not torch.allclose(*scores)


def test_a_head_that_reads_no_known_row_is_explained_by_what_needs_none(monkeypatch):
    lens = families.lens("bert", "sequence")
    plain = lens.attribute(TEXT, "grad_x_input")
    from dataclasses import replace

    unknown = replace(lens.subject, head=replace(lens.head, pooled=None))
    monkeypatch.setattr(type(lens), "subject", property(lambda self: unknown))
    got = lens.attribute(TEXT, "grad_x_input")
    assert torch.equal(got.scores, plain.scores) and got.meta["readout"] is None
    with pytest.raises(TargetError, match="no read-out row is known"):
        lens.attribute(TEXT, "alti")
    assert lens.attribute(TEXT, "alti", readout=0).meta["readout"] == 0
    assert lens.compare(TEXT, ["grad_x_input", "alti"], faithfulness=False).skipped["alti"].startswith("TargetError")
