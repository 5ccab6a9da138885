"""Every public function with arguments of every kind, in a process without the tests' own checks of types.

`python tests/odd.py COUNT SEED`: that many calls, each with one or two arguments that are odd; it prints what raised
anything but an error of mixlens, and ends with 1 then.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import mixlens
from mixlens.attribute import ATTRIBUTIONS
from mixlens.errors import MixlensError
from mixlens.mixing import MIXING
from models import families
from models.words import tokenizer

TEXT = "w11 w12 w13"
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 5, 2**63, -(2**63), 10**400, 0.5, float("nan"), float("inf"), 1e308, 1j, ...,
    "", "a", "\ud800", "\x00", "w11", "2GB", "9" * 400 + "GB", "each", b"a", (), [], {}, (1, 2), [1], [True], ["a"],
    [["a"]], [[1, 2], [3]], [[]], [None], [float("nan")], [2**63], [10**400], ("a", "b"), ("a", None), set(), {1},
    range(3), object(), lambda *_: None, {1: 2, None: 3}, {"a": {"b": 1}}, {"input_ids": [[1, 2], [3]]},
    {"input_ids": None}, {"input_ids": 5}, {"input_ids": "abc"}, {"input_ids": [[[1]]]}, {"input_ids": [2**63]},
    {"input_ids": [5, 6], "token_type_ids": ["a", "b"]}, {"input_ids": [5], "token_type_ids": [9]},
    {"input_ids": [5], "position_ids": [10**6]}, np.int64(1), np.float32(0.5), np.array([1, 2]), np.array(["a"]),
    np.array(5), torch.tensor([5, 6]), torch.tensor(1.5), torch.zeros(2, 2), mixlens.Target(0), mixlens.Words(["w11"]),
]  # fmt: skip
Call = tuple[Callable[..., Any], dict[str, Any]]


def calls() -> dict[str, Call]:
    """Name -> a public function and arguments that are good."""
    bert = mixlens.load(families.make("bert", "sequence"), tokenizer())
    gpt = mixlens.load(families.make("gpt2", "causal"), tokenizer())
    maps, heads = bert.mixing(TEXT, "attention"), bert.mixing(TEXT, "attention", per_head=True)
    attr, found = bert.attribute(TEXT), bert.compare(TEXT, ["alti", "random"], faithfulness=False)
    table = mixlens.evaluate(bert, [{"text": TEXT}] * 3, ["alti", "random"], ["spearman"], reference="alti")
    how = {"batch_size": 32, "memory": None, "truncate": False, "progress": None, "errors": "raise"}
    target: dict[str, Any] = {"what": 0, "foil": None, "position": None, "of": None}
    run: dict[str, Any] = {
        "data": [{"text": TEXT}], "methods": ["random"], "measures": ["spearman"], "task": "classification",
        "encoding": None, "target": None, "reference": "random", "layers": None, "second": None, "limit": None,
        "truncate": False, "batch_size": 32, "memory": None, "seed": 0, "level": 0.95, "resamples": 10,
        "options": None, "progress": None,
    }  # fmt: skip
    out: dict[str, Call] = {
        "attribute": (bert.attribute, {"text": TEXT, "method": "alti", "target": None, **how, "readout": None}),
        "mixing": (bert.mixing, {"text": TEXT, "method": "globenc", "queries": None, **how}),
        "plan": (bert.plan, {"text": TEXT, "method": "alti", "batch_size": 32, "memory": None, "maps": False}),
        "compare": (
            bert.compare,
            {"text": TEXT, "methods": ["random"], "target": None, "faithfulness": False, "maps": False},
        ),
        "mixing_ratio": (bert.mixing_ratio, {"text": TEXT, "method": "globenc", "batch_size": 32, "truncate": False}),
        "output_statistics": (bert.output_statistics, {"texts": [TEXT], "batch_size": 32}),
        "Target": (mixlens.Target, target),
        "target of a class": (lambda **k: bert.attribute(TEXT, "saliency", mixlens.Target(**k)), target),
        "target of a token": (lambda **k: gpt.attribute(TEXT, "saliency", mixlens.Target(**k)), target),
        "Words": (mixlens.Words, {"words": ["a"]}),
        "task": (mixlens.task, {"name": "pairs", "first": "x"}),
        "evaluate": (lambda **k: mixlens.evaluate(bert, **k), run),
        "rollout": (maps.rollout, {"residual": "auto", "normalize": False, "head": None, "receptive_field": False}),
        "rollout of a head": (heads.rollout, {"residual": "auto", "head": 0}),
        "flow": (
            maps.flow,
            {"residual": "auto", "normalize": True, "queries": None, "layers": None, "head": None, "progress": None},
        ),
        "mean": (maps.mean, {"receptive_field": False}),
        "sum": (maps.sum, {"receptive_field": False}),
        "layer": (maps.layer, {"k": 0, "receptive_field": False}),
        "row": (maps.row, {"i": 0}),
        "per_head": (heads.per_head, {"head": 0}),
        "plot of maps": (maps.plot, {"row": None, "kind": "heatmap"}),
        "plot": (attr.plot, {"kind": "bar"}),
        "plot of several": (found.plot, {"kind": "words"}),
        "table.row": (table.row, {"measure": "spearman", "method": "alti", "layer": None}),
        "table.values": (table.values, {"measure": "spearman", "method": "alti", "layer": None}),
        "table.better": (table.better, {"measure": "spearman", "a": "alti", "b": "random", "layer": None}),
        "table.plot": (table.plot, {"kind": None, "measure": None}),
        "evaluate into": (lambda **k: mixlens.evaluate(bert, [{"text": TEXT}], ["random"], **k), {"out": "run"}),
        "evaluate a lens": (lambda lens: mixlens.evaluate(lens, [{"text": TEXT}], ["random"]), {"lens": bert}),
        "load": (mixlens.load, {"model": bert.model, "tokenizer": bert.tokenizer}),
        "read": (mixlens.read, {"path": str(attr.save("kept"))}),
        "plot into": (attr.plot, {"path": "a.png"}),
    }
    for result, kinds in (
        (attr, "html latex"),
        (maps, "html"),
        (found, "html latex csv parquet"),
        (table, "html latex"),
    ):
        for kind in kinds.split():
            write = getattr(result, f"to_{kind}")
            out[f"{type(result).__name__}.to_{kind}"] = (write, {"path": f"a.{kind}"})
        if hasattr(result, "save"):
            out[f"{type(result).__name__}.save"] = (result.save, {"path": "a"})
    for name, attribution in ATTRIBUTIONS.items():
        out[f"attribute by {name}"] = (bert.attribute, {"text": TEXT, "method": name, **attribution.options()})
    for name, mixing in MIXING.items():
        out[f"mixing by {name}"] = (bert.mixing, {"text": TEXT, "method": name, **mixing.options()})
    return out


def fault(call: Call, odd: dict[str, Any]) -> str | None:
    """What a call raised, if it is no error of mixlens."""
    function, good = call
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            function(**{**good, **odd})
    except MixlensError as error:
        return None if str(error) else "an error that says nothing"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(count: int, first: int) -> None:
    """See above. Files are written in a folder of its own, since some of the odd values are names."""
    with tempfile.TemporaryDirectory() as folder, _in(folder):
        _tried(count, first)


@contextlib.contextmanager
def _in(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _tried(count: int, first: int) -> None:
    every = calls()
    faults: dict[str, str] = {}

    @seed(first)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(every)))
        chosen = data.draw(st.lists(st.sampled_from(sorted(every[name][1])), min_size=1, max_size=2, unique=True))
        odd = {argument: ODD[data.draw(st.integers(0, len(ODD) - 1))] for argument in chosen}
        said = fault(every[name], odd)
        if said is not None:
            faults.setdefault(f"{name} {odd!r:.200}", said)

    run()
    for what, said in faults.items():
        print(f"{what}: {said}"[:400].encode("ascii", "backslashreplace").decode())
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
