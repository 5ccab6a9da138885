"""Attention flow against the numbers of the authors' own code (github.com/samiraabnar/attention_flow, 8044f53).

`A_res` are their residual-augmented maps of tiny random BERTs and of MiniLM; `flow` all rows of all layers (up to 14
tokens), `flow_cls_lastlayer` the first row of the last layer, `_unnorm` the same before rows are divided by their sum.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mixlens.aggregate.flow import flow

GOLDEN = dict(np.load(Path(__file__).parent / "flow.npz"))
CASES = sorted({key.rpartition("/")[0] for key in GOLDEN})


def golden(case: str, name: str) -> torch.Tensor:
    return torch.from_numpy(GOLDEN[f"{case}/{name}"])


def test_there_are_cases():
    assert len(CASES) == 15
    assert sum(f"{case}/flow" in GOLDEN for case in CASES) == 11


@pytest.mark.parametrize("case", CASES)
def test_first_row_of_the_last_layer(case):
    maps = golden(case, "A_res")
    for name, normalize in (("flow_cls_lastlayer", True), ("flow_cls_lastlayer_unnorm", False)):
        found = flow(maps, queries=[0], layers=[-1], normalize=normalize)[0, 0]
        assert (found - golden(case, name)).abs().max() < 1e-5


@pytest.mark.parametrize("case", [case for case in CASES if f"{case}/flow" in GOLDEN])
def test_all_rows_of_all_layers(case):
    assert (flow(golden(case, "A_res")) - golden(case, "flow")).abs().max() < 1e-5
