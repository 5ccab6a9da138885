"""Distances to the terms as one fused loop, compiled on the fly where `llvmlite` is installed (`mixlens[fast]`).

torch makes every one of n^2 vectors, compares it and sums it in three passes; here a vector lives in registers only.
Float32 on a CPU; whatever cannot be compiled goes torch's way, which gives the same to rounding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor

BLOCK = 384  # dimensions at a time: with more, one key's head vectors leave the innermost cache
LLVM = 20  # before, pointers are written another way, and LLVM starts another way
ALONE = 1 << 18  # numbers that one thread makes faster than others wake up
LOOPS = ("key", "block", "row", "dim")

Distances = Callable[[Tensor, Tensor, Tensor, Tensor], None]


@cache
def fused_distances(heads: int, dim: int, p: int) -> Distances | None:
    """`(a, w, y, out)`: out[t,j,i] = ||sum_h a[t,j,i,h] w[t,j,h] - y[t,i]||_p^p; None where it cannot be compiled.

    a (text, key, row, head), w (text, key, head, dim) and y (text, row, dim) float32 on a CPU, contiguous; out (text,
    key, row) in any layout.
    """
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return None
    if llvm.llvm_version_info[0] < LLVM:
        return None
    features = llvm.get_host_cpu_features()
    lanes, rows = (16, 8) if features.get("avx512f") else (8, 4) if features.get("avx2") else (4, 4)
    if dim % lanes or heads > 64:
        return None
    try:
        engine = _compiled(llvm, source(heads, dim, p, lanes, rows))
    except RuntimeError:  # an LLVM that reads another dialect, a machine that it cannot generate code for
        return None
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
    function = kind(engine.get_function_address("distances"))

    def run(a: Tensor, w: Tensor, y: Tensor, out: Tensor) -> None:
        texts, keys, count, _ = a.shape
        if (short := -count % rows) > 0:
            a = torch.nn.functional.pad(a, (0, 0, 0, short))
            y = torch.nn.functional.pad(y, (0, 0, 0, short))
        a, w, y = a.contiguous(), w.contiguous(), y.contiguous()
        made = torch.zeros(texts, keys, count + short)

        def some(text: int, start: int, stop: int) -> None:
            tensors = a[text, start], w[text, start], y[text], made[text, start]
            function(*(t.data_ptr() for t in tensors), stop - start, count + short)

        threads = torch.get_num_threads() if made.numel() * dim > ALONE else 1
        step = -(-keys // -(-threads // texts))
        work = [(text, start, min(keys, start + step)) for text in range(texts) for start in range(0, keys, step)]
        # ctypes lets go of the interpreter's lock
        each = map if threads == 1 else _pool(threads).map
        for _ in each(some, *zip(*work, strict=True)):
            pass
        out.copy_(made[..., :count])

    run.engine = engine  # type: ignore[attr-defined]  # the code lives as long as this
    return run


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "mixlens")


def _compiled(llvm: Any, text: str) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Without this, LLVM halves the vectors on machines whose clock once fell at full width.
    features = llvm.get_host_cpu_features()
    flags = features.flatten() + (",-prefer-256-bit" if features.get("avx512f") else "")
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=flags, opt=3, jit=True
    )
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine


def source(heads: int, dim: int, p: int, lanes: int, rows: int) -> str:
    """The loop in LLVM's own language: for each key, block of dimensions, and `rows` rows at a time."""
    block = next(size for size in range(min(BLOCK, dim), 0, -1) if dim % size == 0 and size % lanes == 0)
    v, f = f"<{lanes} x float>", f"v{lanes}f32"
    each, tops = range(rows), {"key": "%keys", "block": str(dim // block), "row": "%rows", "dim": str(block)}
    steps = {"key": 1, "block": 1, "row": rows, "dim": lanes}
    out: list[str] = []

    def put(line: str) -> None:
        out.append("  " + line)

    def address(name: str, base: str, index: str) -> None:
        put(f"%{name} = getelementptr float, ptr {base}, i64 {index}")

    def product(name: str, *factors: str | int) -> None:
        put(f"%{name}.0 = add i64 0, {factors[0]}")
        for k, factor in enumerate(factors[1:], 1):
            put(f"%{name}.{k} = mul i64 %{name}.{k - 1}, {factor}")
        put(f"%{name} = add i64 0, %{name}.{len(factors) - 1}")

    def head(loop: str, before: str, sums: bool = False) -> None:
        put(f"br label %{loop}")
        out.append(f"{loop}:")
        put(f"%{loop}.i = phi i64 [0, %{before}], [%{loop}.next, %{loop}.end]")
        for r in each if sums else ():
            put(f"%sum{r} = phi {v} [zeroinitializer, %{before}], [%more{r}, %{loop}.end]")

    def tail(loop: str) -> None:
        put(f"br label %{loop}.end")
        out.append(f"{loop}.end:")
        put(f"%{loop}.next = add nuw nsw i64 %{loop}.i, {steps[loop]}")
        put(f"%{loop}.on = icmp slt i64 %{loop}.next, {tops[loop]}")
        put(f"br i1 %{loop}.on, label %{loop}, label %{loop}.over")
        out.append(f"{loop}.over:")

    def splat(name: str, pointer: str) -> None:
        put(f"%{name}.s = load float, ptr {pointer}, align 4")
        put(f"%{name}.1 = insertelement {v} poison, float %{name}.s, i64 0")
        put(f"%{name} = shufflevector {v} %{name}.1, {v} poison, <{lanes} x i32> zeroinitializer")

    out.append("define void @distances(ptr noalias %a, ptr noalias %w, ptr noalias %y, ptr noalias %out, i64 %keys, "
               "i64 %rows) {\nstart:")  # fmt: skip
    head("key", "start")
    product("key.w", "%key.i", heads * dim)
    product("key.out", "%key.i", "%rows")
    head("block", "key")
    product("block.d", "%block.i", block)
    head("row", "block")
    put("%pair = add i64 %key.out, %row.i")
    product("pair.a", "%pair", heads)
    address("a.row", "%a", "%pair.a")
    address("o.row", "%out", "%pair")
    product("row.y", "%row.i", dim)
    head("dim", "row", sums=True)
    put("%d = add i64 %block.d, %dim.i")
    put("%at.w = add i64 %key.w, %d")
    put("%at.y = add i64 %row.y, %d")
    address("w.d", "%w", "%at.w")
    address("y.d", "%y", "%at.y")
    for r in each:
        address(f"y.d{r}", "%y.d", str(r * dim))
        put(f"%to{r} = load {v}, ptr %y.d{r}, align 4")
        put(f"%t{r}.0 = fneg {v} %to{r}")
    for h in range(heads):
        address(f"w.{h}", "%w.d", str(h * dim))
        put(f"%w{h} = load {v}, ptr %w.{h}, align 4")
        for r in each:
            address(f"a.{r}.{h}", "%a.row", str(r * heads + h))
            splat(f"a{r}.{h}", f"%a.{r}.{h}")
            put(f"%t{r}.{h + 1} = call {v} @llvm.fma.{f}({v} %a{r}.{h}, {v} %w{h}, {v} %t{r}.{h})")
    for r in each:
        t = f"%t{r}.{heads}"
        if p == 1:
            put(f"%abs{r} = call {v} @llvm.fabs.{f}({v} {t})")
            put(f"%more{r} = fadd {v} %sum{r}, %abs{r}")
        else:
            put(f"%more{r} = call {v} @llvm.fma.{f}({v} {t}, {v} {t}, {v} %sum{r})")
    tail("dim")
    for r in each:
        put(f"%all{r} = call reassoc float @llvm.vector.reduce.fadd.{f}(float 0.0, {v} %more{r})")
        address(f"o.{r}", "%o.row", str(r))
        put(f"%was{r} = load float, ptr %o.{r}, align 4")
        put(f"%now{r} = fadd float %was{r}, %all{r}")
        put(f"store float %now{r}, ptr %o.{r}, align 4")
    for loop in reversed(LOOPS[:-1]):
        tail(loop)
    put("ret void")
    out.append("}")
    out.append(f"declare {v} @llvm.fma.{f}({v}, {v}, {v})")
    out.append(f"declare {v} @llvm.fabs.{f}({v})")
    out.append(f"declare float @llvm.vector.reduce.fadd.{f}(float, {v})")
    return "\n".join(out)
