"""Results built by hand: every dimension another size, tokens that try to break out of every format."""

from __future__ import annotations

import pytest
import torch

from mixlens.capture.text import Tokens
from mixlens.results import Attribution, LayerMaps
from mixlens.target import Target

META = {"model": "org/tiny_model", "mixlens": "0.1.0", "self_check": 3.2e-7, "readout": 0}


def tokens(text: str, *words: str, special: bool = True) -> Tokens:
    """Tokens of the text in the given pieces, each found in it in turn, between [CLS] and [SEP]."""
    spans, at = [], 0
    for word in words:
        start = text.index(word, at)
        at = start + len(word)
        spans.append((0, start, at))
    edge = special * 1
    return Tokens(
        ids=tuple(range(len(words) + 2 * edge)),
        pieces=("[CLS]",) * edge + words + ("[SEP]",) * edge,
        special=(True,) * edge + (False,) * len(words) + (True,) * edge,
        text=(text,),
        spans=(None,) * edge + tuple(spans) + (None,) * edge,
    )


@pytest.fixture
def make():
    return tokens


@pytest.fixture
def film() -> Attribution:
    source = tokens("a deep and meaningful film.", "a", "deep", "and", "meaning", "ful", "film", ".")
    scores = torch.tensor([0.31, 0.02, 0.11, 0.01, 0.22, 0.12, 0.08, 0.03, 0.10])
    target = Target(what="positive", of="logit", index=1, label="positive")
    return Attribution(
        source, scores, "globenc", {"normalize": True}, META, target=target, layers=torch.rand(4, 9).softmax(-1)
    )


@pytest.fixture
def signed() -> Attribution:
    source = tokens("not a bad film, but slow", "not", "a", "bad", "film", ",", "but", "slow")
    scores = torch.tensor([0.02, 0.61, 0.01, -0.42, 0.1, 0.0, -0.05, -0.33, 0.01], dtype=torch.float64)
    target = Target(what=1, foil="negative", of="log_odds", index=1, label="positive")
    return Attribution(source, scores, "grad_x_input", {"norm": None}, META, target=target)


@pytest.fixture
def pair() -> Attribution:
    source = Tokens(
        ids=tuple(range(8)),
        pieces=("[CLS]", "a", "man", "runs", "[SEP]", "he", "moves", "[SEP]"),
        special=(True, False, False, False, True, False, False, True),
        text=("a man runs", "he moves"),
        spans=(None, (0, 0, 1), (0, 2, 5), (0, 6, 10), None, (1, 0, 2), (1, 3, 8), None),
    )
    return Attribution(source, torch.linspace(0, 0.7, 8), "alti", meta=META)


@pytest.fixture
def ids() -> Attribution:
    source = Tokens(ids=(5, 7, 9), pieces=("Ġdeep", "Ġfilm", "s"), special=(False, False, False))
    return Attribution(source, torch.tensor([0.5, 0.25, 0.25]), "attention", meta=META)


NASTY = (
    "</script><img src=x onerror=alert(1)>",
    "[red]bold[/red]",
    "$x_1^2$",
    r"\input{x}",
    "100%_&#~^{}",
    "中文",
    "👩\u200d💻",
    "\x1b[31m",
    "\u202eabc",
    "'\"`--",
)


@pytest.fixture
def nasty() -> Attribution:
    source = tokens(" ".join(NASTY), *NASTY)
    scores = torch.linspace(-1, 1, len(NASTY) + 2)
    meta = {**META, "model": "<b>model</b> $a$ \\x % \n \\evil"}
    return Attribution(source, scores, "attention_rollout", {"<i>": "</dd>"}, meta, target=Target(label="<u>$y$"))


def layer_maps(layers: int, n: int, heads: int | None = None, **values) -> LayerMaps:
    generator = torch.Generator().manual_seed(0)
    shape = (layers, n, n) if heads is None else (layers, heads, n, n)
    words = [f"w{i}" for i in range(n - 2)]
    source = tokens(" ".join(words), *words)
    scores = (3 * torch.randn(shape, generator=generator)).softmax(-1)
    return LayerMaps(source, scores, "attention", {"per_head": heads is not None}, META, **values)


@pytest.fixture
def make_maps():
    return layer_maps


@pytest.fixture
def maps() -> LayerMaps:
    return layer_maps(3, 7, rows_sum_to_one=True)


@pytest.fixture
def heavy() -> Attribution:
    """Special tokens hold nearly all, with signs that no word has; attcat gives such scores."""
    source = tokens("a deep film", "a", "deep", "film")
    layers = torch.tensor([[-9.0, 0.1, 0.2, 0.3, 1.0], [-8.0, 0.0, 0.4, 0.1, 2.0]])
    target = Target(index=1, label="positive")
    return Attribution(
        source, torch.tensor([-9.0, 0.1, 0.4, 0.2, 0.3]), "attcat", meta=META, target=target, layers=layers
    )
