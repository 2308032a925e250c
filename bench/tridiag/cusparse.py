"""cuSPARSE's tridiagonal solvers, called through ctypes: the library that CuPy has loaded, or that of the system.

A solver that cannot be called is no failure: the case records that it is absent, and why.  ``gtsv2`` with pivoting reads
memory that is not its own from about 1e8 rows on and takes the CUDA context with it; it is not called above ``LARGEST_PIVOTED``.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Bench, Timing
from bench.tridiag import problem

LARGEST_PIVOTED = 10_000_000
LETTER = {"D": "Z", "d": "D"}  # complex128, float64
NAMES = ("libcusparse.so.12", "libcusparse.so.13", "libcusparse.so.11", "libcusparse.so", "cusparse64_12.dll")


class Absent(Exception):
    """The library or the function is not there, or refuses."""


@cache
def library() -> ctypes.CDLL:
    """Return the library; the one already loaded in this process, if any."""
    from cupy.cuda import device

    with contextlib.suppress(Exception):  # makes CuPy load its own
        device.get_cusparse_handle()
    loaded = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            path = line.split(maxsplit=5)[-1]
            if "libcusparse.so" in path and path not in loaded:
                loaded.append(path)
    found = ctypes.util.find_library("cusparse")
    errors = []
    for name in [*loaded, *NAMES, *([found] if found else [])]:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            errors.append(str(error))
    raise Absent(f"libcusparse was not found ({errors[0]})")


@cache
def handle() -> ctypes.c_void_p:
    """Return a handle of our own."""
    made = ctypes.c_void_p()
    _check("cusparseCreate", library().cusparseCreate(ctypes.byref(made)))
    return made


def _check(name: str, status: int) -> None:
    if status != 0:
        raise Absent(f"{name} returns status {status}")


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(array.data.ptr))


class Solver:
    """One solver on one system; :meth:`__call__` overwrites ``x`` (the right-hand side) with the solution.

    Parameters
    ----------
    name : {"gtsv2_nopivot", "gtsv2", "gtsv2StridedBatch"}
    a, b, c : (batch * n,) on the device
        Diagonal, lower, upper; the first of b and the last of c of every system must be zero.
    x : (batch * n,) on the device
    n : int
        Rows of a system.
    """

    def __init__(self, name: str, a: Any, b: Any, c: Any, x: Any, n: int) -> None:
        import cupy

        full = f"cusparse{LETTER[a.dtype.char]}{name}"
        try:
            self._solve = getattr(library(), full)
            size_of = getattr(library(), f"{full}_bufferSizeExt")
        except AttributeError as error:
            raise Absent(f"{full} is not in the library") from error
        stream = ctypes.c_void_p(int(cupy.cuda.get_current_stream().ptr))
        _check("cusparseSetStream", library().cusparseSetStream(handle(), stream))
        rows, count = ctypes.c_int(n), ctypes.c_int(a.size // n)
        self._name, self._kept = full, (a, b, c, x)
        matrix = (_pointer(b), _pointer(a), _pointer(c), _pointer(x))
        if name == "gtsv2StridedBatch":
            self._arguments: tuple[Any, ...] = (handle(), rows, *matrix, count, rows)
        else:  # one right-hand side
            self._arguments = (handle(), rows, ctypes.c_int(1), *matrix, rows)
        size = ctypes.c_size_t()
        _check(f"{full}_bufferSizeExt", size_of(*self._arguments, ctypes.byref(size)))
        self.workspace = int(size.value)
        try:
            self._buffer = cupy.empty(max(1, self.workspace), np.uint8)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise Absent(f"{full}: no memory for its {self.workspace} bytes of workspace") from error

    def __call__(self) -> None:
        """Solve, without waiting."""
        _check(self._name, self._solve(*self._arguments, _pointer(self._buffer)))


def measure(bench: Bench, name: str, system: problem.System, n: int, ours: Any = None) -> Timing | None:
    """Time a solver, less the copy that restores the right-hand side; record a row, or that it is absent.

    Parameters
    ----------
    ours : (batch * n,), optional
        Our solution, to compare with.
    """
    a, b, c, d = system
    rows = a.size
    label = f"cuSPARSE {LETTER.get(a.dtype.char, '?').lower()}{name}, n={n}" + (
        f" x {rows // n}" if rows > n else ""
    )
    if name == "gtsv2" and n > LARGEST_PIVOTED:
        bench.note(f"{label}: not run; it accesses memory illegally at 1e8 rows, which ends the CUDA context")
        return None
    cp = bench.device.xp
    try:
        x = d.copy()
        b, c = b.copy(), c.copy()
        b[::n] = 0
        c[n - 1 :: n] = 0
        solver = Solver(name, a, b, c, x, n)

        def restore() -> None:
            cp.copyto(x, d)

        def both() -> None:
            restore()
            solver()

        count = problem.repeats(rows, 20)
        timing = problem.minus(
            problem.burst(bench.device, both, count), problem.burst(bench.device, restore, count)
        )
        both()
        bench.device.synchronize()
    except Exception as error:  # an anchor must not take the case with it
        bench.row(f"{label}: absent", error=f"{type(error).__name__}: {error}")
        return None
    compared = {} if ours is None else {"difference": problem.difference(x, ours)}
    bench.row(
        label,
        timing,
        problem.solve_cost(rows, a.dtype),
        workspace_bytes_a_row=solver.workspace / rows,
        **compared,
    )
    return timing
