"""What the compiled CPU kernels of ``tridiag`` share: compiler options, reciprocals, magnitudes, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.extending import overload

if TYPE_CHECKING:
    from collections.abc import Callable

# No fast-math flag that lets the compiler assume finite numbers: breakdown shows as inf and NaN, and must be seen.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
PARALLEL_ROWS = 32768  # below this, starting threads costs more than it saves


def reciprocal(z: Any) -> Any:
    """Return ``1 / z`` in the precision of z; inf or NaN for zero, and no overflow on the way."""
    return 1 / z


def magnitude(z: Any) -> Any:
    """Return ``|Re z| + |Im z|``, within a factor of sqrt(2) of ``|z|``, which can neither overflow nor underflow."""
    return abs(z.real) + abs(z.imag)


@overload(reciprocal, jit_options=JIT)
def _reciprocal(z):
    if isinstance(z, types.Complex):
        real = np.float32 if z.bitwidth == 64 else np.float64
        one, low, high = (real(1), real(1e-30), real(1e30)) if real is np.float32 else (1.0, 1e-280, 1e280)

        def divide(z):
            re, im = z.real, z.imag
            square = re * re + im * im
            if low < square < high:
                t = one / square
                return complex(re * t, -im * t)
            # |z|^2 overflows or underflows: scaled by the larger part (Smith)
            scale = max(abs(re), abs(im))
            re, im = re / scale, im / scale
            t = one / (re * re + im * im) / scale
            return complex(re * t, -im * t)

        return divide
    unit = np.float32(1) if z.bitwidth == 32 else 1.0
    return lambda z: unit / z


@overload(magnitude, jit_options=JIT)
def _magnitude(z):
    if isinstance(z, types.Complex):
        return lambda z: abs(z.real) + abs(z.imag)
    return lambda z: abs(z)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="tridiag")


def each_part(work: Callable[[int, int], object], tasks: int, rows: int, threads: int) -> None:
    """Call ``work(first, last)`` for ranges that cover ``0 .. tasks``, on several threads if there are many rows.

    Tasks share no output, so the result does not depend on the number of threads.
    """
    if threads <= 1 or tasks <= 1 or rows < PARALLEL_ROWS:
        work(0, tasks)
        return
    parts = min(
        tasks, 4 * threads
    )  # several parts a thread: other work on the machine delays one of them only
    edges = [tasks * part // parts for part in range(parts + 1)]
    for _ in _pool(threads).map(work, edges[:-1], edges[1:]):  # re-raises the first error
        pass
