"""The spec of a model from the numbers of one pass: the layers' parts, the same in all of them, and their list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from mixlens.architectures import Spec
from mixlens.architectures.spec import Seam
from mixlens.errors import MixlensError
from mixlens.infer import reasons
from mixlens.infer.layer import Parts, parts
from mixlens.infer.positions import positions_of
from mixlens.infer.reasons import Misfit
from mixlens.infer.traced import Attended, Run, Traced, traced
from mixlens.infer.twin import Twin


def spec_of(twin: Twin) -> Spec:
    """The spec of a small model's layers. Raises Misfit."""
    layers = layers_of(twin)
    first = layers[0]
    bare = first.spec.order != "post" and first.reads_input and not any(layer.reads_input for layer in layers[1:])
    return replace(
        first.spec,
        layers=list_of(twin.model, layers),
        bare=bare and len(layers) > 1,
        positions=positions_of(twin, first.layer.path),
    )


def layers_of(twin: Twin) -> list[Parts]:
    """The parts of the layers in the order of their runs, alike in all of them. Raises Misfit."""
    seen = _pass(twin)
    for whole in (False, True):  # layers that differ in their networks' maps alone: networks as they are
        layers = [_layer(seen, attended, whole) for attended in seen.attended]
        if all(layer.spec == layers[0].spec for layer in layers):
            return layers
    raise Misfit("layers of different kinds")


def _pass(twin: Twin) -> Traced:
    """A pass in which attention is seen: at the interface, else at the softmax. Raises Misfit."""
    seams: tuple[Seam, ...] = ("interface", "softmax")
    for seam in seams:
        try:
            seen = traced(twin.model, twin.inputs, seam)
        except MixlensError as error:
            raise Misfit(str(error).partition(";")[0]) from error
        except Exception:  # a model that computes its attention itself may not take the interface's masks
            continue
        if seen.attended:
            return seen
    raise Misfit(reasons.NOT_SEEN)


def _layer(seen: Traced, attended: Attended, whole: bool) -> Parts:
    """The innermost run that holds an attention call and is a layer. Raises Misfit, with what the outermost lacks."""
    reason = ""
    for run in seen.around(attended.when):
        calls = len(seen.calls(run))
        if not run.path or calls > 1:
            reason = reason or f"{calls} attention calls in one layer"
            break
        try:
            return parts(seen, run, attended, whole)
        except Misfit as misfit:
            if not (reason and str(misfit) == reasons.ALONE):
                reason = str(misfit)
    raise Misfit(reason)


def list_of(model: Any, layers: list[Parts]) -> str:
    """The path of the list of the layers. Raises Misfit where they are no plain list, all of it, in order."""
    runs: list[Run] = [layer.layer for layer in layers]
    path = runs[0].path.rpartition(".")[0]
    held = model.get_submodule(path)
    if len({run.path for run in runs}) != len(runs):
        raise Misfit("layers that run several times")
    if not isinstance(held, (nn.ModuleList, nn.Sequential)) or any(r.path.rpartition(".")[0] != path for r in runs):
        raise Misfit("layers in several lists")
    names = [run.path.rpartition(".")[2] for run in runs]
    if names != list(held._modules):
        raise Misfit(f"hybrid: {len(held) - len(names)} of {len(held)} layers have no attention over all tokens")
    return path
