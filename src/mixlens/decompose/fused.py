"""Two sums over the terms' vectors as one loop each: distances (ALTI), and inner products of head vectors.

torch makes every one of n^2 vectors, compares it and sums it in three passes; here a vector lives in registers only.
Head vectors become float64 on their way into the sum instead of being copied first. Float32 on a CPU, where it can be
compiled (`compiled.py`); whatever cannot goes torch's way, which gives the same to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from mixlens.capture.attention import blocks
from mixlens.decompose.compiled import Loops, checked, compiled, in_threads, lanes

BLOCK = 384  # dimensions at a time: with more, one key's head vectors leave the innermost cache
ALONE = 1 << 18  # numbers that one thread makes faster than others wake up
MOST = 48  # heads: a loop's body grows with them

Distances = Callable[[Tensor, Tensor, Tensor, Tensor], None]
Grams = Callable[[Tensor, "Tensor | None", Tensor], None]


@cache
def fused_distances(heads: int, dim: int, p: int) -> Distances | None:
    """`(a, w, y, out)`: out[t,j,i] = ||sum_h a[t,j,i,h] w[t,j,h] - y[t,i]||_p^p; None where it cannot be compiled.

    a (text, key, row, head), w (text, key, head, dim), y (text, row, dim) and out (text, key, row) float32 on a CPU.
    """
    width = lanes()
    if not width or dim % width or heads > MOST:
        return None
    rows = 8 if width == 16 else 4
    function = compiled("distances", distances_source(heads, dim, p, width, rows), 4, 2)
    if function is None:
        return None

    def run(a: Tensor, w: Tensor, y: Tensor, out: Tensor) -> None:
        texts, keys, count, _ = a.shape
        if (short := -count % rows) > 0:
            a = torch.nn.functional.pad(a, (0, 0, 0, short))
            y = torch.nn.functional.pad(y, (0, 0, 0, short))
        total, single = count + short, torch.float32
        a = checked("weights", a.contiguous(), single, texts, keys, total, heads)
        w = checked("head vectors", w.contiguous(), single, texts, keys, heads, dim)
        y = checked("targets", y.contiguous(), single, texts, total, dim)
        made = torch.zeros(texts, keys, total, dtype=single, device="cpu")

        def run_part(text: int, part: slice) -> None:
            tensors = a[text, part], w[text, part], y[text], made[text, part]
            function(*(t.data_ptr() for t in tensors), part.stop - part.start, total)

        threads = torch.get_num_threads() if made.numel() * dim > ALONE else 1
        parts = list(blocks(keys, -(-keys // -(-threads // texts))))
        in_threads([(text, part) for text in range(texts) for part in parts], run_part, threads)
        out.copy_(made[..., :count])

    return run


@cache
def fused_grams(heads: int, dim: int, residual: bool) -> Grams | None:
    """`(w, own, out)`: inner products of a token's head vectors and, last, its residual; None: not compiled.

    w (head, token, dim) and own (token, dim) or None float32 on a CPU, contiguous; out (token, vector, vector) float64.
    """
    width = lanes() // 2
    if not width or dim % width or heads > MOST:
        return None
    function = compiled("grams", grams_source(heads, dim, residual, width, 4 if width == 8 else 3), 3, 2)
    if function is None:
        return None

    def run(w: Tensor, tails: Tensor | None, out: Tensor) -> None:
        tokens = w.shape[1]
        checked("head vectors", w, torch.float32, heads, tokens, dim)
        checked("inner products", out, torch.float64, tokens, heads + residual, heads + residual)
        if (tails is not None) is not residual:
            raise TypeError(f"expected residuals: {residual}, got {type(tails).__name__}")
        if tails is not None:
            checked("residuals", tails, torch.float32, tokens, dim)

        def run_part(part: slice) -> None:
            residuals = 0 if tails is None else tails[part].data_ptr()
            function(w[:, part].data_ptr(), residuals, out[part].data_ptr(), part.stop - part.start, tokens * dim)

        threads = torch.get_num_threads() if w.numel() > ALONE else 1
        in_threads([(part,) for part in blocks(tokens, -(-tokens // threads))], run_part, threads)

    return run


def distances_source(heads: int, dim: int, p: int, width: int, rows: int) -> str:
    """For each key, block of dimensions, and `rows` rows at a time: one vector of `width` numbers after the other."""
    block = next(size for size in range(min(BLOCK, dim), 0, -1) if dim % size == 0 and size % width == 0)
    v, f, each = f"<{width} x float>", f"v{width}f32", range(rows)
    code = Loops()
    put, at = code.put, code.at
    code.begin("key")
    at("key.w", "%w", "%key.i", heads * dim)
    at("key.a", "%a", "%key.i", "%rows", heads)
    at("key.out", "%out", "%key.i", "%rows")
    code.begin("block")
    at("block.w", "%key.w", "%block.i", block)
    at("block.y", "%y", "%block.i", block)
    code.begin("row")
    at("row.a", "%key.a", "%row.i", heads)
    at("row.y", "%block.y", "%row.i", dim)
    code.begin("d", [f"sum{r}" for r in each], v)
    at("d.w", "%block.w", "%d.i")
    at("d.y", "%row.y", "%d.i")
    for r in each:
        at(f"y{r}", "%d.y", r * dim)
        put(f"%to{r} = load {v}, ptr %y{r}, align 4")
        put(f"%t{r}.0 = fneg {v} %to{r}")
    for h in range(heads):
        at(f"w{h}", "%d.w", h * dim)
        put(f"%vector{h} = load {v}, ptr %w{h}, align 4")
        for r in each:
            name = f"a{r}.{h}"
            at(name, "%row.a", r * heads + h)
            put(f"%{name}.one = load float, ptr %{name}, align 4")
            put(f"%{name}.first = insertelement {v} poison, float %{name}.one, i64 0")
            put(f"%{name}.all = shufflevector {v} %{name}.first, {v} poison, <{width} x i32> zeroinitializer")
            put(f"%t{r}.{h + 1} = call {v} @llvm.fma.{f}({v} %{name}.all, {v} %vector{h}, {v} %t{r}.{h})")
    for r in each:
        t = f"%t{r}.{heads}"
        if p == 1:
            put(f"%abs{r} = call {v} @llvm.fabs.{f}({v} {t})")
            put(f"%sum{r}.more = fadd {v} %sum{r}, %abs{r}")
        else:
            put(f"%sum{r}.more = call {v} @llvm.fma.{f}({v} {t}, {v} {t}, {v} %sum{r})")
    code.end("d", block, width)
    at("row.out", "%key.out", "%row.i")
    for r in each:
        put(f"%all{r} = call reassoc float @llvm.vector.reduce.fadd.{f}(float 0.0, {v} %sum{r}.more)")
        at(f"out{r}", "%row.out", r)
        put(f"%was{r} = load float, ptr %out{r}, align 4")
        put(f"%now{r} = fadd float %was{r}, %all{r}")
        put(f"store float %now{r}, ptr %out{r}, align 4")
    code.end("row", "%rows", rows)
    code.end("block", dim // block)
    code.end("key", "%keys")
    return code.text("distances", ("a", "w", "y", "out"), ("keys", "rows"), _used(width, "float", "f32"))


def grams_source(heads: int, dim: int, residual: bool, width: int, tile: int) -> str:
    """For each token and each square of `tile` by `tile` pairs of vectors: one pass over the dimensions."""
    count = heads + residual
    v, f = f"<{width} x double>", f"v{width}f64"
    code = Loops()
    put, at = code.put, code.at
    code.begin("token")
    at("token.w", "%w", "%token.i", dim)
    at("token.own", "%own", "%token.i", dim)
    at("token.out", "%out", "%token.i", count * count, kind="double")
    for k in range(heads):
        at(f"vector{k}", "%token.w", "%stride", k)
    for square, (rows, columns) in enumerate(
        (r, c) for r in blocks(count, tile) for c in blocks(count, tile) if r.start <= c.start
    ):
        pairs = [(a, b) for a in range(rows.start, rows.stop) for b in range(columns.start, columns.stop) if a <= b]
        loop = f"d{square}"
        code.begin(loop, [f"g{a}.{b}" for a, b in pairs], v)
        for k in sorted({k for pair in pairs for k in pair}):
            at(f"{loop}.at{k}", "%token.own" if k == heads else f"%vector{k}", f"%{loop}.i")
            put(f"%{loop}.single{k} = load <{width} x float>, ptr %{loop}.at{k}, align 4")
            put(f"%{loop}.w{k} = fpext <{width} x float> %{loop}.single{k} to {v}")
        for a, b in pairs:
            put(f"%g{a}.{b}.more = call {v} @llvm.fma.{f}({v} %{loop}.w{a}, {v} %{loop}.w{b}, {v} %g{a}.{b})")
        code.end(loop, dim, width)
        for a, b in pairs:
            put(f"%all{a}.{b} = call reassoc double @llvm.vector.reduce.fadd.{f}(double 0.0, {v} %g{a}.{b}.more)")
            for row, column in {(a, b), (b, a)}:
                at(f"out{row}.{column}", "%token.out", row * count + column, kind="double")
                put(f"store double %all{a}.{b}, ptr %out{row}.{column}, align 8")
    code.end("token", "%tokens")
    return code.text("grams", ("w", "own", "out"), ("tokens", "stride"), _used(width, "double", "f64"))


def _used(width: int, kind: str, short: str) -> list[str]:
    """The declarations of LLVM's own functions."""
    v, f = f"<{width} x {kind}>", f"v{width}{short}"
    return [
        f"declare {v} @llvm.fma.{f}({v}, {v}, {v})",
        f"declare {v} @llvm.fabs.{f}({v})",
        f"declare {kind} @llvm.vector.reduce.fadd.{f}({kind}, {v})",
    ]
