"""Time and memory of calls that take turns, so that a noisy machine slows all of them alike."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import torch

Call = Callable[[], Any]
_STATUS, _PEAK, _CPU = Path("/proc/self/status"), Path("/proc/self/clear_refs"), Path("/proc/cpuinfo")


def times(calls: dict[str, Call], runs: int) -> dict[str, list[tuple[float, float]]]:
    """(seconds on the wall, seconds of CPU in all threads) of each run, in turn; a first turn is thrown away."""
    out: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(runs + 1):
        for name, call in calls.items():
            wall, cpu = perf_counter(), process_time()
            call()
            wall, cpu = perf_counter() - wall, process_time() - cpu
            if turn:
                out[name].append((wall, cpu))
    return out


def ratios(taken: list[tuple[float, float]], unit: list[tuple[float, float]]) -> dict[str, float]:
    """Against the unit's runs: minimum by minimum, on the wall and in CPU time; the median of turns and its spread.

    `spread`: the difference between the quartiles of the turns' ratios.
    """
    turns = [a[0] / b[0] for a, b in zip(taken, unit, strict=True)]
    low, _, high = quantiles(turns, n=4) if len(turns) > 1 else (turns[0],) * 3
    return {
        "ratio": min(a[0] for a in taken) / min(b[0] for b in unit),
        "cpu_ratio": min(a[1] for a in taken) / min(b[1] for b in unit),
        "median": median(turns),
        "spread": high - low,
        "seconds": min(a[0] for a in taken),
    }


def peak(call: Call) -> int | None:
    """Bytes of resident memory at the call's highest point above those before it; None where it can't be known.

    The kernel's own mark is reset before the call (Linux), and the allocator's free memory given back, so that it is
    not used again unseen. Weights and Python's own objects stand before the call and do not count.
    """
    try:
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        _PEAK.write_text("5")
        before = _resident("VmRSS")
        kept = call()
        found = _resident("VmHWM") - before
        del kept
    except (OSError, AttributeError, LookupError):
        return None
    return max(found, 0)


def _resident(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def available() -> int:
    """Bytes of memory that are free for a naive version."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def machine() -> dict[str, Any]:
    """What was measured on, in general words, and with what."""
    wide = [name for name in ("avx512f", "avx2") if _CPU.exists() and name in _CPU.read_text()]
    return {
        "machine": f"{os.cpu_count()}-core {platform.machine()}" + (f" with {wide[0]}" if wide else ""),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "numpy")},
        "threads": torch.get_num_threads(),
        "load_at_start": os.getloadavg()[0],  # over the number of threads: other work ran beside it
        "date": datetime.now(timezone.utc).isoformat(timespec="minutes"),
    }
