"""Eigenvalues of large dense matrices, during which a stop is heard.

NumPy's functions release the interpreter lock, SciPy's keep it; LAPACK's own routines, whose addresses SciPy tells, are called
without it.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import LinAlgError

from qsim.core.device.pool import listen
from qsim.core.run.stops.aside import aside

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["eigh", "lowest_pairs"]

# Rows from which LAPACK takes so long that a thread of its own, which costs some 0.1 ms, does not matter.
LONG = 400


def eigh(matrix: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return all eigenvalues, ascending, and eigenvectors (columns) of a Hermitian matrix (n, n), as `numpy.linalg.eigh`."""
    solve = partial(np.linalg.eigh, matrix)
    made = solve() if len(matrix) < LONG else aside(solve, listen)
    return made.eigenvalues, made.eigenvectors


def lowest_pairs(
    matrix: NDArray[np.float64], overlap: NDArray[np.float64] | None, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest eigenvalues (count,) and eigenvectors (n, count) of a real symmetric matrix.

    Computing these alone takes a fraction of the time of all (LAPACK's dsyevr, or dsygvx beside an overlap matrix).

    Parameters
    ----------
    matrix : (n, n) float64
        Symmetric; its lower triangle is read.
    overlap : (n, n) float64, optional
        Positive definite matrix S of H x = E S x; the eigenvectors are orthonormal with it.
    count : int
        From 1 to n.

    Raises
    ------
    numpy.linalg.LinAlgError
        If LAPACK does not converge, or the overlap is not positive definite.
    """
    solve = partial(_lowest, np.array(matrix, np.float64, order="F"), overlap, count)
    return solve() if len(matrix) < LONG else aside(solve, listen)


@cache
def _routine(name: str) -> Callable[..., None]:
    """Return a routine of LAPACK as a function without the interpreter lock; every argument is an address."""
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_char_p
    ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.pythonapi.PyCapsule_GetName(capsule)
    address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (signature.count(b",") + 1))(address)


def _address(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.ctypes.data_as(ctypes.c_void_p)
    if isinstance(value, bytes):
        return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p)
    cell = ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(float(str(value)))
    return ctypes.cast(ctypes.pointer(cell), ctypes.c_void_p)


def _lowest(
    a: NDArray[np.float64], overlap: NDArray[np.float64] | None, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Call LAPACK for :func:`lowest_pairs`; `a` is overwritten."""
    n = len(a)
    values, vectors = np.empty(n), np.empty((n, count), order="F")
    found, info = np.zeros(1, np.intc), np.zeros(1, np.intc)
    chosen = (0.0, 0.0, 1, count, 0.0, found, values, vectors, n)
    best = np.empty(1)
    if overlap is None:
        support, best_integers = np.empty(2 * n, np.intc), np.zeros(1, np.intc)
        head: tuple[object, ...] = (b"V", b"I", b"L", n, a, n, *chosen, support)
        _call("dsyevr", info, *head, best, -1, best_integers, -1)
        integers = np.empty(int(best_integers[0]), np.intc)
        work = np.empty(int(best[0]))
        _call("dsyevr", info, *head, work, work.size, integers, integers.size)
    else:
        b = np.array(overlap, np.float64, order="F")
        head = (1, b"V", b"I", b"L", n, a, n, b, n, *chosen)
        integers, failed = np.empty(5 * n, np.intc), np.empty(n, np.intc)
        _call("dsygvx", info, *head, best, -1, integers, failed)
        work = np.empty(int(best[0]))
        _call("dsygvx", info, *head, work, work.size, integers, failed)
    if info[0] or found[0] != count:
        raise LinAlgError(
            f"{found[0]} of {count} eigenvectors were found, LAPACK's info is {info[0]} for {n} rows"
        )
    return values[:count], vectors


def _call(name: str, info: NDArray[np.intc], *arguments: object) -> None:
    _routine(name)(*map(_address, arguments), _address(info))
