"""`mixlens:digits`: what it is, that it reads digits it has not seen, and that its planted shortcut is found."""

import hashlib

import numpy as np
import pytest

import mixlens
from mixlens import embedded, embedded_pictures
from mixlens.errors import InputError

SHA256 = "3ce9644bfe3e00cd43538c0970663cdc7b6ba5051b9bb36753bc7c2a9b2610af"


@pytest.fixture(scope="module")
def lens():
    return mixlens.load("mixlens:digits")


def test_the_file_is_the_one_that_the_page_names():
    data = embedded_pictures._file()
    assert hashlib.sha256(data).hexdigest() == SHA256 and len(data) < 200_000
    assert "digits" in embedded.names()


def test_it_reads_at_least_ninety_five_in_a_hundred_digits_that_it_has_not_seen(lens):
    held = embedded_pictures.held_out()
    results = lens.attribute([picture for picture, _ in held], method="random")
    right = [attr.meta["prediction"] == str(label) for attr, (_, label) in zip(results, held, strict=True)]
    assert len(held) == 360 and np.mean(right) == pytest.approx(embedded_pictures.provenance()["accuracy"], abs=0.005)
    assert np.mean(right) >= 0.95


def test_a_mark_decides_and_the_default_method_finds_it(lens):
    """By chance one patch of 36 would be found."""
    cases = [
        (picture, (label + 3) % 10, k % 6, k // 6)
        for k, (picture, label) in enumerate(embedded_pictures.held_out()[:12])
    ]
    marked = [embedded_pictures.marked(*case) for case in cases]
    results = lens.attribute(marked)
    for attr, (_, other, row, column) in zip(results, cases, strict=True):
        assert attr.meta["prediction"] == str(other)
        patches = [
            (float(s), name)
            for s, name, special in zip(attr.scores, attr.tokens, attr.special, strict=True)
            if not special
        ]
        assert max(patches)[1] == f"patch {row + 1},{column + 1}"


def test_a_mark_needs_a_patch():
    picture, _ = embedded_pictures.held_out()[0]
    with pytest.raises(InputError, match=r"a class of 0 to 9 and a patch of 0 to 5, got 3, 6, 0"):
        embedded_pictures.marked(picture, 3, 6, 0)


@pytest.mark.slow
def test_what_is_left_as_patches_go_is_told_apart_from_chance(lens):
    rows = [mixlens.Example(str(i), text=p, label=str(d)) for i, (p, d) in enumerate(embedded_pictures.held_out()[:60])]
    table = mixlens.evaluate(lens, rows, methods=["alti", "random"], measures=["comprehensiveness"])
    assert table.row("comprehensiveness", "alti").low > table.row("comprehensiveness", "random").mean
