"""Threads of the linear-algebra libraries (BLAS), which cost more than they save where matrices are small.

A BLAS with many threads wakes all of them for products of a few thousand numbers, and they spin between calls: on 16 cores a run
of small products takes three times as long as on one.  A run therefore begins with one BLAS thread, and the few places where
matrices are large take more with `large_matrices`.  OpenBLAS also starts its threads when it is loaded, once for NumPy and once
for SciPy, and each spins for a while before it sleeps: `start_with_one_thread` lets the program begin without them.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from threadpoolctl import ThreadpoolController

__all__ = [
    "LARGE",
    "kernels_of_blas",
    "large_matrices",
    "one_thread",
    "small_matrices",
    "start_with_one_thread",
]

# Rows of a matrix from which BLAS gains from threads; below, factorisations are slower with two than with
# one.
LARGE = 400

_most: int | None = None  # threads of the run; None outside a run, where the libraries stay as they are
_large = 0  # `large_matrices` within each other


def start_with_one_thread(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenBLAS start without threads, unless its user has given a number; it makes them when `large_matrices` needs them.

    It counts for libraries that are loaded afterwards, and for child processes: it is for programs, not for ``import qsim``.
    """
    environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@cache
def _libraries() -> ThreadpoolController:
    """Return the control of the libraries that NumPy and SciPy have loaded (each brings one)."""
    import numpy.linalg  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def kernels_of_blas() -> set[str]:
    """Return the processors for which the libraries have chosen their kernels, such as ``SkylakeX`` (OpenBLAS)."""
    return {str(library.get("architecture", "")) for library in _libraries().info()}


@contextmanager
def small_matrices(threads: int) -> Iterator[None]:
    """Give BLAS one thread during a run; `large_matrices` gives it up to `threads`.

    The setting holds for the whole process: it is not for code that runs on several threads at once.
    """
    global _most
    # Runs may be nested: a plan within a run gets its own limit.
    before, _most = _most, threads
    try:
        with _libraries().limit(limits=1):
            yield
    finally:
        _most = before


@contextmanager
def large_matrices(rows: int) -> Iterator[None]:
    """Give BLAS all threads of the run meanwhile, if matrices have at least `LARGE` rows; outside a run, change nothing."""
    # Outside a run the setting is the caller's business, as the library of another program.
    if _most is None or _most == 1 or rows < LARGE:
        yield
        return
    global _large
    # Counted, since such blocks nest: `one_thread` within one must reduce.
    _large += 1
    try:
        # Restored on leaving, also after an error.
        with _libraries().limit(limits=_most):
            yield
    finally:
        _large -= 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Give BLAS one thread meanwhile: for products that several threads of the program make at once."""
    if _most is not None and not _large:
        yield  # as it is in a run
        return
    with _libraries().limit(limits=1):
        yield
