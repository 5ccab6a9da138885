"""HTA against the layer's whole Jacobian from autograd, in float64, on every architecture."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import Cache

import mixlens
from mixlens.architectures import spec_for
from mixlens.capture.run import LayerPass, run
from mixlens.decompose import Block, jacobian
from mixlens.errors import SelfCheckFailed
from mixlens.mixing import MIXING, hta
from models import exact, families

N = 7  # more than a window
TOLERANCE = 1e-12
QUICK = ("bert", "gpt2", "gpt_neox", "gemma2", "modernbert")  # every order, norm and FFN; -m slow: all others
DEFINED = [n for n in families.FAMILIES if MIXING["hta"].defined(spec_for(families.config_of(n)))]
METHODS = ("hta", "hta_x_input")


@pytest.fixture(autouse=True)
def exact_rotation(monkeypatch):
    """ModernBERT rounds to float32 when it rotates; here it does not."""
    from transformers.models.modernbert import modeling_modernbert as modern

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, ...]:
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return tuple(t * cos + modern.rotate_half(t) * sin for t in (q, k))

    monkeypatch.setattr(modern, "apply_rotary_pos_emb", rotate)


def jacobians(name: str, ids: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Each layer's input (n, d) and its Jacobian (n, d out, n, d in)."""
    model, found = families.make(name, attention=exact.ATTENTION), []

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        args = tuple(None if isinstance(a, Cache) else a for a in args)
        kwargs = {k: None if isinstance(a, Cache) else a for k, a in kwargs.items()}
        x = args[0] if args else kwargs.pop("hidden_states")

        def layer(t: Tensor) -> Tensor:
            y = module.forward(t[None], *args[1:], **kwargs)
            return (y[0] if isinstance(y, tuple) else y)[0]

        with torch.enable_grad():
            found.append((x[0], torch.autograd.functional.jacobian(layer, x[0], vectorize=True)))

    for module in exact.layers(model):
        module.register_forward_hook(hook, with_kwargs=True)
    exact.forward(model, ids)
    return found


@cache
def expected(name: str) -> dict[str, Tensor]:
    found = jacobians(name, families.text(N))
    plain = [j.pow(2).sum((1, 3)).sqrt() for _, j in found]
    scaled = [(j * x).pow(2).sum((1, 3)).sqrt() for x, j in found]
    return dict(zip(METHODS, (torch.stack(plain), torch.stack(scaled)), strict=True))


def close(got: Tensor, real: Tensor, tolerance: float = TOLERANCE) -> None:
    assert got.shape == real.shape
    assert (got - real).abs().max() <= tolerance * real.max()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in families.FAMILIES
        if MIXING["hta"].defined(spec_for(families.config_of(name)))
    ],
)
def test_maps_are_the_norms_of_autograd_s_jacobian(name):
    for method in METHODS:
        real, got = expected(name)[method], families.lens(name).mixing(families.text(N), method=method).scores
        close(got, real)
        assert (got[real == 0] == 0).all()


# For bert: everything alone; and three query tokens held, two made at a time, two met by two keys at a time.
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1 << 14, 1 << 13, 1 << 14, 1 << 10)])
@pytest.mark.parametrize("name", ["bert", "gemma2"])
def test_tiles_change_no_number(name, sizes, monkeypatch):
    met = []
    squares = hta._squares
    monkeypatch.setattr(hta, "_squares", lambda *given: met.append(given[-2:]) or squares(*given))
    for constant, size in zip(("HELD_BYTES", "STEP_BYTES", "KEY_BYTES", "TILE_BYTES"), sizes, strict=True):
        monkeypatch.setattr(hta, constant, size)
    monkeypatch.setattr(jacobian, "STEP_BYTES", sizes[1])
    for method in METHODS:
        close(families.lens(name).mixing(families.text(N), method=method).scores, expected(name)[method])
    rows = {r.stop - r.start for r, _ in met}
    assert rows == {1} if sizes[0] == 1 else name != "bert" or rows == {1, 2}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_nothing_is_left_on_the_model_and_grad_mode_does_not_matter(name):
    model = families.make(name)
    required = [p.requires_grad for p in model.parameters()]
    lens = mixlens.load(model)
    for mode in (torch.no_grad(), torch.enable_grad(), torch.inference_mode()):
        with mode:
            got = lens.mixing(families.text(N), method="hta").scores
        assert not got.requires_grad
        close(got.clone(), expected(name)["hta"])
    assert [p.requires_grad for p in model.parameters()] == required
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_half_precision_is_computed_in_float32(name):
    got = families.lens(name, dtype=torch.bfloat16).mixing(families.text(N), method="hta").scores
    assert got.dtype == torch.float32
    close(got.double(), expected(name)["hta"], 0.1)


def test_one_jacobian_where_all_tokens_have_the_same():
    counts = {}

    def look(seen: LayerPass) -> None:
        local = Block(lens.spec, seen).jacobians()
        counts[name] = tuple(len(t) for t in (local.query, local.key, local.value))

    for name in ("bert", "opt-post", "gpt2", "llama"):
        lens = families.lens(name)
        with torch.no_grad():
            run(lens.model, lens.spec, {"input_ids": torch.tensor([families.text(N)])}, look)
    assert counts == {"bert": (1, 1, 1), "opt-post": (1, 1, 1), "gpt2": (N, N, N), "llama": (N, N, N)}


def test_a_layer_that_gives_something_else_the_second_time_is_refused():
    lens = families.lens("bert")

    def look(seen: LayerPass) -> None:
        block = Block(lens.spec, seen)
        block.x = block.x * 1.001
        block.jacobians()

    with torch.no_grad(), pytest.raises(SelfCheckFailed, match=r"expected BertLayer 0 run again .* the same q"):
        run(lens.model, lens.spec, {"input_ids": torch.tensor([families.text(N)])}, look)
