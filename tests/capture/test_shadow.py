"""A shadow shares tensors; modules, and what may change or point at a module, are its own."""

from __future__ import annotations

import copy
import threading
from functools import partial
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn

import mixlens
from mixlens.capture.shadow import shadow
from models import families


class Keeps(nn.Module):
    """A module with attributes of every kind."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.first = self.second = inner  # one module in two places
        self.listed, self.call, self.bound = [inner], partial(torch.add, inner.weight), inner.extra_repr
        self.state: dict[str, Any] = {}
        self.plain = torch.ones(3)
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.register_forward_hook(print)


class CopiesItself(nn.Linear):
    """A module whose class says how it is copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CopiesItself:
        twin = memo[id(self)] = CopiesItself(2, 2)
        twin.weight = self.weight
        return twin


def model_with(module: nn.Module) -> tuple[Any, Any]:
    model = families.make("bert")
    model.more = module
    return model.more, shadow(model, "mixlens").more


def test_one_module_in_two_places_stays_one_and_tensors_are_shared():
    mine, twin = model_with(Keeps(nn.Linear(2, 2)))
    assert twin is not mine
    assert twin.first is twin.second is twin.listed[0]
    assert twin.first is not mine.first
    assert twin.first.weight is mine.first.weight
    assert twin.plain is mine.plain
    assert twin.passing is mine.passing


def test_what_points_at_a_module_points_at_the_shadow_s():
    mine, twin = model_with(Keeps(nn.Linear(2, 2)))
    assert twin.bound.__self__ is twin.first
    assert twin.call.args[0] is mine.first.weight


def test_what_may_change_is_the_shadow_s_own():
    mine, twin = model_with(Keeps(nn.Linear(2, 2)))
    twin.state["seen"] = 1
    twin.register_parameter("new", nn.Parameter(torch.ones(1)))
    twin.register_buffer("newer", torch.ones(1), persistent=False)
    assert not mine.state
    assert not hasattr(mine, "new")
    assert not hasattr(mine, "newer")
    assert mine._non_persistent_buffers_set == {"passing"}
    assert len(mine._forward_hooks) == 1
    assert not twin._forward_hooks


def test_a_class_that_copies_itself_is_asked_to():
    mine, twin = model_with(CopiesItself(2, 2))
    assert type(twin) is CopiesItself
    assert twin is not mine
    assert twin.weight is mine.weight
    assert not twin.training


def test_repeated_layers_stay_one():
    twin = shadow(families.model("albert-groups"), "mixlens")
    groups = twin.encoder.albert_layer_groups
    assert len({id(group) for group in groups}) == len(families.model("albert-groups").encoder.albert_layer_groups)


# --- models as people have them ---

IDS = families.text()


def with_checkpointing(model: Any) -> None:
    enable = getattr(model, "activation_checkpointing_enable", None)  # its name before: gradient_checkpointing_enable
    (enable or model.gradient_checkpointing_enable)()


def with_gradients_of_inputs(model: Any) -> None:
    model.enable_input_require_grads()


def as_tuples(model: Any) -> None:
    model.config.return_dict = False


def with_all_states(model: Any) -> None:
    model.config.output_hidden_states = model.config.output_attentions = True


def compiled(model: Any) -> None:
    model.compile()


def compiled_layers(model: Any) -> None:
    for layer in model.bert.encoder.layer:
        layer.compile()


def compiled_forward(model: Any) -> None:
    model.forward = torch.compile(model.forward)


def compiled_layer_modules(model: Any) -> None:
    layers = model.bert.encoder.layer
    for i, layer in enumerate(layers):
        layers[i] = torch.compile(layer)


def with_a_lock(model: Any) -> None:
    model.bert.lock = threading.Lock()


def with_another_call(model: Any) -> None:
    """What `model.compile()` leaves, without its compiler."""
    model._compiled_call_impl = lambda *args, **kwargs: pytest.fail("compiled code ran")


STATES = [with_gradients_of_inputs, as_tuples, with_all_states, with_a_lock, with_another_call]
COMPILED = [with_checkpointing, compiled, compiled_layers, compiled_forward, compiled_layer_modules]
compiles = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]  # torch's own


@pytest.mark.parametrize("put", [*STATES, *(pytest.param(one, marks=compiles) for one in COMPILED)])
def test_a_model_in_any_state_is_explained_as_it_was(put):
    before, after = (copy.deepcopy(families.model("bert", "sequence", attention="eager")) for _ in range(2))
    put(before)
    lenses = [mixlens.load(before), mixlens.load(after)]
    put(after)
    for method in ("alti", "attcat", "deeplift", "integrated_gradients"):
        expected = families.lens("bert", "sequence", attention="eager").attribute(IDS, method).scores
        for lens in lenses:
            assert torch.equal(lens.attribute(IDS, method).scores, expected), method


def test_handles_of_hooks_stay_the_user_s():
    model = copy.deepcopy(families.model("bert", "sequence"))
    model.handle = model.bert.embeddings.register_forward_hook(print)
    twin = shadow(shadow(model, "mixlens"), "mixlens")
    twin.handle.remove()
    assert len(model.bert.embeddings._forward_hooks) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compiled_modules_are_their_plain_selves():
    model = copy.deepcopy(families.model("bert", "sequence"))
    compiled_layer_modules(model)
    model.first = [model.bert.encoder.layer[0]]
    twin = shadow(model, "mixlens")
    assert twin.first[0] is twin.bert.encoder.layer[0]
    assert type(twin.first[0]) is type(families.model("bert").encoder.layer[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_forward_that_was_replaced_is_the_copy_s():
    model = copy.deepcopy(families.model("bert", "sequence"))

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self, type(self).forward(self, *args, **kwargs)

    model.forward = torch.compile(MethodType(forward, model))
    twin = shadow(model, "mixlens")
    mine, out = twin.forward(torch.tensor([IDS]))
    assert mine is twin
    assert out.logits.shape == (1, 2)
