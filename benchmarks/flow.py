"""The read-out row of attention flow against scipy's maximum flow called pair by pair, in the same run.

python benchmarks/flow.py [--tokens 128] [--row 0] [--random] [--repeat 3]

MiniLM's maps (6 layers, heads averaged, half residual). The scipy loop builds the graph once, in int32 steps of 2^-30,
and solves one pair after the other. Exits with 1 below 3 times faster, or where a value differs by 1e-5.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from transformers import BertConfig, BertModel

import mixlens
from mixlens.aggregate import flow as stage
from mixlens.aggregate.functions import add_residual
from mixlens.embedded import base_folder

TIMES = 3  # at least
STEPS = 2**30


def graph_of(maps: np.ndarray) -> csr_array:
    """Nodes level * n + token, level 0 the input."""
    depth, n = maps.shape[:2]
    layer, i, j = np.nonzero(maps)
    steps = np.rint(maps[layer, i, j] * STEPS).astype(np.int32)
    return csr_array((steps, ((layer + 1) * n + i, layer * n + j)), shape=((depth + 1) * n,) * 2)


def pair_by_pair(maps: np.ndarray, row: int) -> np.ndarray:
    depth, n = maps.shape[:2]
    graph = graph_of(maps)
    return np.array([maximum_flow(graph, depth * n + row, j).flow_value for j in range(n)]) / STEPS


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--row", type=int, default=0)
    options.add_argument("--random", action="store_true", help="weights as initialised instead of trained ones")
    options.add_argument("--repeat", type=int, default=3)
    given = options.parse_args()

    torch.manual_seed(0)
    folder = base_folder()
    model = BertModel(BertConfig.from_pretrained(folder)) if given.random else BertModel.from_pretrained(folder)
    ids = torch.randint(1000, 30000, (given.tokens - 2,)).tolist()
    maps = mixlens.load(model.eval()).mixing([101, *ids, 102], method="attention").scores.double()
    maps = add_residual(maps, 0.5)
    numbers = maps.numpy()

    best, found = {"scipy": np.inf, "mixlens": np.inf}, {}
    for _ in range(given.repeat):
        for name, run in (
            ("scipy", lambda: pair_by_pair(numbers, given.row)),
            ("mixlens", lambda: stage.flow(maps, [given.row], [-1], normalize=False)[0, 0].numpy()),
        ):
            start = time.perf_counter()
            found[name] = run()
            best[name] = min(best[name], time.perf_counter() - start)
    ratio = best["scipy"] / best["mixlens"]
    off = abs(found["scipy"] - found["mixlens"]).max()
    print(f"row {given.row} of {maps.shape[0]} layers, {given.tokens} tokens, best of {given.repeat}")
    print(f"scipy pair by pair {best['scipy']:.3f} s, flow {best['mixlens']:.3f} s: {ratio:.1f} times faster")
    print(f"largest difference {off:.1e}")
    if ratio < TIMES or off > 1e-5:
        raise SystemExit(f"expected at least {TIMES} times faster and the same values to 1e-5")


if __name__ == "__main__":
    main()
