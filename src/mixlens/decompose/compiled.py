"""Loops written in LLVM's own language and compiled on the fly, where `llvmlite` is installed (the extra `fast`).

For the few places where torch needs several passes over numbers that could stay in registers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

LLVM = 20  # before, pointers are written another way, and LLVM starts another way


@dataclass
class Loops:
    """A function under construction: nested counting loops around straight code. Values are named `%name`."""

    lines: list[str] = field(default_factory=list)
    inside: str = "start"  # the piece of code that the next line stands in

    def put(self, line: str) -> None:
        """One instruction."""
        self.lines.append("  " + line)

    def at(self, name: str, base: str, *factors: str | int, kind: str = "float") -> None:
        """%name = the address `base` + the product of the factors, in numbers."""
        index = str(factors[0])
        for k, factor in enumerate(factors[1:]):
            self.put(f"%{name}.{k} = mul i64 {index}, {factor}")
            index = f"%{name}.{k}"
        self.put(f"%{name} = getelementptr {kind}, ptr {base}, i64 {index}")

    def begin(self, loop: str, sums: Sequence[str] = (), kind: str = "") -> None:
        """A loop over %loop.i; `sums`: values %name of a type that begin as 0 and go on as %name.more."""
        before, self.inside = self.inside, loop
        self.put(f"br label %{loop}")
        self.lines.append(f"{loop}:")
        self.put(f"%{loop}.i = phi i64 [0, %{before}], [%{loop}.next, %{loop}.end]")
        for name in sums:
            self.put(f"%{name} = phi {kind} [zeroinitializer, %{before}], [%{name}.more, %{loop}.end]")

    def end(self, loop: str, stop: str | int, step: int = 1) -> None:
        """The loop's end: %loop.i goes on by `step` until `stop`; at least one turn is made."""
        self.put(f"br label %{loop}.end")
        self.lines.append(f"{loop}.end:")
        self.put(f"%{loop}.next = add nuw nsw i64 %{loop}.i, {step}")
        self.put(f"%{loop}.on = icmp slt i64 %{loop}.next, {stop}")
        self.put(f"br i1 %{loop}.on, label %{loop}, label %{loop}.over")
        self.lines.append(f"{loop}.over:")
        self.inside = f"{loop}.over"

    def text(self, name: str, pointers: Iterable[str], counts: Iterable[str], declared: Iterable[str]) -> str:
        """The whole module: the function `name` of pointers that don't overlap and of 64-bit counts."""
        of = ", ".join([f"ptr noalias %{p}" for p in pointers] + [f"i64 %{c}" for c in counts])
        return "\n".join([f"define void @{name}({of}) {{\nstart:", *self.lines, "  ret void\n}", *declared])


@cache
def lanes() -> int:
    """Float32 numbers in one register of this machine; 0 where nothing can be compiled."""
    llvm = _llvm()
    if llvm is None:
        return 0
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


def compiled(name: str, text: str, pointers: int, counts: int) -> Callable[..., None] | None:
    """The function `name` of a module, of addresses and counts; None where LLVM refuses. It holds no lock."""
    llvm = _llvm()
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # Without the last flag, LLVM halves the vectors of machines whose clock once fell at full width.
        features = llvm.get_host_cpu_features()
        flags = features.flatten() + (",-prefer-256-bit" if features.get("avx512f") else "")
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=flags, opt=3, jit=True
        )
        module = llvm.parse_assembly(text)
        module.verify()
        engine = llvm.create_mcjit_compiler(module, target)
        engine.finalize_object()
    except RuntimeError:  # an LLVM that reads another dialect, a machine that it cannot generate code for
        return None
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * counts)
    function = kind(engine.get_function_address(name))
    function.engine = engine  # type: ignore[attr-defined]  # the code lives as long as this
    return function


def checked(name: str, t: Tensor, dtype: torch.dtype, *shape: int) -> Tensor:
    """The tensor, if a loop that reads or writes `shape` numbers of `dtype` at its address stays inside it.

    Compiled code knows addresses alone: memory of another type or size would be read as numbers, or written over.
    Raises TypeError.
    """
    fits = t.dtype is dtype and t.device.type == "cpu" and t.layout is torch.strided and tuple(t.shape) == shape
    if not (fits and t.is_contiguous() and t.data_ptr() % t.element_size() == 0):
        raise TypeError(
            f"expected {name} as a contiguous {dtype} tensor {shape} on the CPU for a compiled loop, got {t.dtype} "
            f"{tuple(t.shape)} on {t.device}, {t.layout}, contiguous: {t.is_contiguous()}"
        )
    return t


def in_threads(work: Sequence[tuple[Any, ...]], function: Callable[..., None], threads: int) -> None:
    """`function(*part)` of every part of the work."""
    each = map if threads == 1 or len(work) == 1 else _pool(torch.get_num_threads()).map
    for _ in each(function, *zip(*work, strict=True)):
        pass


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "mixlens")


def _llvm() -> Any:
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return None
    return llvm if llvm.llvm_version_info[0] >= LLVM else None
