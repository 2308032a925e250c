"""Measure what a call of threads costs: ``python bench/threads.py [THREADS...]``.

The same work (``y = a x + y``) on n numbers by one thread, by futures of a pool (four ranges per thread), by the threads of
`qsim.core.device.pool` that need the interpreter, by those of `qsim.core.device.team` that do not, all of them each time, and by
`each_part` with these, which wakes as many as shorten the work.  Shortest and median microseconds of a call.  The slope of the
third against the number of threads, for few numbers, is `pool.WAKE`.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/

from qsim.core.device import pool  # noqa: E402
from qsim.core.device.cpu.vectors import same, total  # noqa: E402
from qsim.core.device.hardware import available_threads  # noqa: E402
from qsim.core.device.team import ranges, share  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (2_000, 20_000, 200_000, 2_000_000)
CALLS = 200


@nb.njit(nogil=True)
def axpy(first, last, worker, y, x, a):
    """Add ``a x`` to y within a range."""
    for i in range(first, last):
        y[i] = a * x[i] + y[i]


@nb.njit(nogil=True)
def axpy_shared(ticket, *arguments):
    """Share it among threads."""
    return share(ticket, ranges(axpy, arguments))


@nb.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def multiply(first, last, worker, out, steps):
    """Multiply and add in registers, in vectors enough to fill them: what threads reach of the arithmetic rate."""
    for task in range(first, last):
        a, b, c, d, e, f = same(0.1), same(0.2), same(0.3), same(0.4), same(0.5), same(0.6)
        g, h, i, j, k, m = same(0.7), same(0.8), same(0.9), same(1.0), same(1.1), same(1.2)
        for _ in range(steps):
            a, b, c = a * 0.999 + 0.0005, b * 0.999 + 0.0005, c * 0.999 + 0.0005
            d, e, f = d * 0.999 + 0.0005, e * 0.999 + 0.0005, f * 0.999 + 0.0005
            g, h, i = g * 0.999 + 0.0005, h * 0.999 + 0.0005, i * 0.999 + 0.0005
            j, k, m = j * 0.999 + 0.0005, k * 0.999 + 0.0005, m * 0.999 + 0.0005
        out[task] = total(a + b + c + d + e + f + g + h + i + j + k + m)


@nb.njit(nogil=True, error_model="numpy")
def multiply_shared(ticket, *arguments):
    """Share it among threads."""
    return share(ticket, ranges(multiply, arguments))


@nb.njit(nogil=True, error_model="numpy")
def multiply_matrices(first, last, worker, a, b, out, steps):
    """Multiply matrices that no other thread has."""
    for _ in range(first, last):
        for _ in range(steps):
            np.dot(a[worker], b[worker], out[worker])


@nb.njit(nogil=True, error_model="numpy")
def multiply_matrices_shared(ticket, *arguments):
    """Share it among threads."""
    return share(ticket, ranges(multiply_matrices, arguments))


def multiplications(tasks: int, steps: int) -> pool.Shared:
    """Return work that needs nothing but the arithmetic units of the processor: what threads can reach of it together."""
    return pool.Shared(multiply_shared, (np.empty(tasks), steps))


def matrix_products(
    tasks: int, steps: int, shape: tuple[int, int, int], kind: type, threads: int
) -> pool.Shared:
    """Return work of BLAS alone, `steps` products (m, k) (k, n) per task on arrays of each thread."""
    m, k, n = shape
    generator = np.random.default_rng(0)
    a = generator.standard_normal((threads, m, k)).astype(kind)
    b = generator.standard_normal((threads, k, n)).astype(kind)
    return pool.Shared(multiply_matrices_shared, (a, b, np.zeros((threads, m, n), kind), steps))


def timed(call: Callable[[], object]) -> str:
    """Return the shortest and the median time of a call, microseconds."""
    call()
    call()
    found = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        found.append(1e6 * (time.perf_counter() - begun))
    found.sort()
    return f"{found[0]:.1f} / {found[CALLS // 2]:.1f}"


def measure(threads: int, size: int) -> tuple[str, ...]:
    """Return the times of the five ways."""
    y, x = np.zeros(size), np.ones(size)

    def work(first: int, last: int) -> None:
        axpy(first, last, 0, y, x, 0.5)

    def edges(parts: int) -> list[int]:
        return [size * part // parts for part in range(parts + 1)]

    shared = pool.Shared(axpy_shared, (y, x, 0.5))

    with ThreadPoolExecutor(threads) as futures:
        many, few = edges(4 * threads), edges(threads)
        return (
            timed(lambda: work(0, size)),
            timed(lambda: list(futures.map(work, many[:-1], many[1:]))),
            timed(lambda: pool._team(threads).run(work, few, threads)),
            timed(lambda: pool._team(threads).run(shared, few, threads)),
            timed(lambda: pool.each_part(shared, size, size, threads)),
        )


def main() -> None:
    """Print a table for some numbers of threads."""
    names = ("numbers", "threads", "one thread", "futures", "interpreter", "compiled", "each_part")
    print("".join(f"{name:>20}" for name in names))
    for threads in [int(text) for text in sys.argv[1:]] or sorted({2, available_threads()}):
        for size in SIZES:
            print("".join(f"{text!s:>20}" for text in (size, threads, *measure(threads, size))), flush=True)


if __name__ == "__main__":
    main()
