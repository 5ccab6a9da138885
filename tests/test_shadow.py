"""A shadow shares tensors; modules, and what may change or point at a module, are its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

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
