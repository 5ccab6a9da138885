"""HTA of one MiniLM layer, in float32, against one backward pass for each of the n * dim outputs.

python benchmarks/hta.py [--tokens 32] [--passes 384] [--repeat 5] [--threads 2] [--clock wall]

`--clock cpu` counts processor time, for a machine that is not quiet (with one thread). Exits with 1 below 50 times.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import BertModel

from mixlens.architectures import spec_for
from mixlens.capture.run import LayerPass, run
from mixlens.decompose import Block
from mixlens.embedded import base_folder
from mixlens.mixing import MIXING

LAYER = 0
TIMES = 50  # at least


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def timed(f: Callable[[], Tensor], clock: Callable[[], float]) -> tuple[float, Tensor]:
    start = clock()
    out = f()
    return clock() - start, out


def naive(layer: torch.nn.Module, x: Tensor, passes: int) -> Tensor:
    """Gradients of the first outputs of a layer by its input (pass, token, dim); of no parameters."""
    x = x.detach().requires_grad_()
    y = layer(x)
    y = (y[0] if isinstance(y, tuple) else y).flatten()
    return torch.stack([torch.autograd.grad(y[i], x, retain_graph=True)[0][0] for i in range(passes)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=32)
    options.add_argument("--passes", type=int, default=384, help="backward passes that are timed; the rest is scaled")
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument("--clock", choices=CLOCKS, default="wall")
    given = options.parse_args()
    clock = CLOCKS[given.clock]
    torch.set_num_threads(given.threads)

    model = BertModel.from_pretrained(base_folder(), attn_implementation="sdpa").eval()
    layer, dim = model.encoder.layer[LAYER], model.config.hidden_size
    ids = torch.randint(1000, 30000, (1, given.tokens), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        x = model(ids, output_hidden_states=True).hidden_states[LAYER]
    passes = min(given.passes, given.tokens * dim)
    best = {name: (float("inf"), x) for name in ("hta", "hta_x_input", "naive")}

    def keep(name: str, found: tuple[float, Tensor]) -> None:
        best[name] = min(best[name], found, key=lambda pair: pair[0])

    def look(seen: LayerPass) -> None:
        if seen.index == LAYER:
            for name in ("hta", "hta_x_input"):
                block = Block(spec, seen)
                keep(name, timed(lambda name=name, block=block: MIXING[name].function(block)[0], clock))

    spec = spec_for(model.config)
    for _ in range(given.repeat):
        with torch.no_grad():
            run(model, spec, {"input_ids": ids}, look)
        keep("naive", timed(lambda: naive(layer, x, passes), clock))

    seconds, gradients = best["naive"]
    whole = seconds * given.tokens * dim / passes
    how = f"float32, {given.threads} threads, {given.clock} clock, best of {given.repeat}"
    print(f"one layer of MiniLM, {given.tokens} tokens, {how}")
    print(f"naive: {passes} backward passes in {seconds:.2f} s, so {whole:.1f} s for all {given.tokens * dim} (scaled)")
    rows = passes // dim
    jacobian = gradients[: rows * dim].unflatten(0, (rows, dim))
    for name, columns in (("hta", torch.ones_like(x[0])), ("hta_x_input", x[0])):
        mine, got = best[name]
        real = (jacobian * columns).double().pow(2).sum((1, 3)).sqrt()
        off = float((got[:rows] - real).abs().max() / real.max()) if rows else float("nan")
        print(f"{name}: {mine:.3f} s, {whole / mine:.0f} times faster, off by {off:.0e} of the largest ({rows} rows)")
    if whole / max(best["hta"][0], best["hta_x_input"][0]) < TIMES:
        raise SystemExit(f"expected both at least {TIMES} times faster")


if __name__ == "__main__":
    main()
