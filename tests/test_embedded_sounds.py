"""`mixlens:tones`: what it is, that it writes sentences it has not heard, and that the deciding word is found."""

import hashlib

import numpy as np
import pytest

import mixlens
from mixlens import embedded, embedded_sounds
from mixlens.errors import InputError

SHA256 = "96e24c4e50ec7ae1cab56642c953aca52aa1610b03702087d9d0887697ffff66"


@pytest.fixture(scope="module")
def lens():
    return mixlens.load("mixlens:tones")


def test_the_file_is_the_one_that_the_page_names():
    data = embedded_sounds._file()
    assert hashlib.sha256(data).hexdigest() == SHA256 and len(data) < 300_000
    assert "tones" in embedded.names()


def test_it_writes_sentences_that_it_has_not_heard_with_their_times(lens):
    held = embedded_sounds.held_out(8)
    right = []
    for made in held:
        (stream,) = lens.subject.read({k: v for k, v in made.sound.items() if k != "words"}).require()
        right.append([word for word, _, _ in stream.words] == made.text.split())
        if right[-1]:
            off = [
                abs(a - b)
                for w, v in zip(stream.words, made.sound["words"], strict=True)
                for a, b in zip(w[1:], v[1:], strict=True)
            ]
            assert max(off) < 0.05
    assert np.mean(right) >= 0.8


@pytest.mark.slow
def test_the_word_that_decides_is_found_by_the_default_and_not_by_chance(lens):
    """By chance one of five other words would be found."""
    found = {"alti": 0, "random": 0}
    for made in embedded_sounds.held_out(12):
        for method in found:
            attr = lens.attribute(made.sound, method, target=made.text.split()[made.alike])
            words = [w for w in attr.words() if not w.special]
            others = [w.score for k, w in enumerate(words) if k != made.alike]
            found[method] += words[made.cue].score == max(others)
    assert found["alti"] >= 9 and found["random"] <= 6


def test_the_deciding_word_goes_into_the_one_that_sounds_alike_by_value_zeroing(lens):
    """As in the homophones of the paper: in some layer, more of it than of any other word."""
    rows = []
    for made in embedded_sounds.held_out(3):
        maps = lens.mixing(made.sound, method="value_zeroing").by_word()
        words = [i for i, special in enumerate(maps.source.special) if not special]
        row = maps.scores[:, words[made.alike]][:, words]
        row[:, made.alike] = 0
        rows.append(made.cue in row.argmax(-1).tolist())
    assert all(rows)


def test_a_sentence_is_the_same_each_time_and_none_is_refused():
    first, again = (embedded_sounds.held_out(2)[1] for _ in range(2))
    assert np.array_equal(first.sound["array"], again.sound["array"]) and first.text == again.text
    with pytest.raises(InputError, match="expected one sentence or more, got 0"):
        embedded_sounds.held_out(0)
