"""experiments/small_decoder.py: what is kept from training, and that another source says another answer."""

import random
import sys
from pathlib import Path

import pytest

import mixlens

FOLDER = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import small_decoder
    import small_decoder_texts

    yield small_decoder, small_decoder_texts
    for name in ("small_decoder", "small_decoder_texts"):
        sys.modules.pop(name, None)


def test_no_text_of_training_says_a_set_that_is_measured(scripts):
    script, words = scripts
    tokenizer = words.tokenizer_of()
    for kind, options in {(kind, tuple(options.items())) for kind, options in script.TASKS.values()}:
        sets = [words.parts_of(example, kind) for example in mixlens.planted(kind, 60, seed=0, **dict(options))]
        share = sum(words.held(kind, parts) for parts in sets) / len(sets)
        assert 0.25 / words.KEPT[kind] < share < 3 / words.KEPT[kind]
        draw, kept = random.Random(0), 0
        for level in (0, 2, 4) * 10:
            text, parts = words.KINDS[kind](draw, level)
            kept += words.held(kind, parts)
            assert tokenizer.unk_token_id not in tokenizer.convert_tokens_to_ids(text.words)
            assert tokenizer(" ".join(text.words)).input_ids == tokenizer.convert_tokens_to_ids(text.words)
        assert kept  # so `texts` has something to leave out


def test_another_source_says_another_answer(scripts):
    script, _ = scripts
    for kind, options in script.TASKS.values():
        for example in mixlens.planted(kind, 5, seed=1, **options):
            prompt, answer = script.swapped(example, kind)
            assert answer != example.answer.strip()
            changed = [(a, b) for a, b in zip(example.prompt.split(), prompt.split(), strict=True) if a != b]
            assert len(changed) == 1
            if kind != "agreement":
                assert changed[0][0].strip(".") == example.answer.strip() and changed[0][1].strip(".") == answer
