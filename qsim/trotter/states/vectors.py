"""Sums over state vectors: overlaps, norms, linear combinations, in pieces and without another vector.

Overlaps are summed in double precision and in a fixed order, whatever the threads of the libraries below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qsim.core.device.device import namespace
from qsim.core.device.links import Links, total
from qsim.core.device.pool import each_part

# single or double precision, NumPy or CuPy
Amplitudes = NDArray[np.complexfloating[Any, Any]]

# Amplitudes of a piece.  CPU: a BLAS takes one thread for so few, so that the order of its sum is fixed, and they stay in cache.
PIECE = 1 << 13
PIECE_CUDA = 1 << 24
# of sums of vectors on a CPU: long enough that threads seldom wait for the interpreter
SHARED = 1 << 15
# threads of such sums: more of them wait for the interpreter, which they need between two pieces
MOST = 6


def overlap(a: Amplitudes, b: Amplitudes, links: Links | None = None) -> complex:
    """Return ``<a|b>``, the sum of conj(a) b.

    Parameters
    ----------
    a, b : (n,) complex
        On one device.
    links : Links, optional
        To processes that have other amplitudes of both vectors: the sum is over all of them, and a collective call.
    """
    own = _own_overlap(a, b)
    if links is None or links.size == 1:
        return own
    real, imaginary = total(links, np.array([own.real, own.imag]))
    return complex(real, imaginary)


def _own_overlap(a: Amplitudes, b: Amplitudes) -> complex:
    xp = namespace(a)
    parts = [
        xp.vdot(a[s].astype(np.complex128, copy=False), b[s].astype(np.complex128, copy=False))
        for s in _pieces(a)
    ]
    if xp is np:
        return complex(math.fsum(p.real for p in parts), math.fsum(p.imag for p in parts))
    return complex(xp.stack(parts).sum())


def norm2(a: Amplitudes, links: Links | None = None) -> float:
    """Return ``<a|a>``; parameters as of :func:`overlap`."""
    return overlap(a, a, links).real


def axpy(c: complex, x: Amplitudes, y: Amplitudes, threads: int = 1) -> None:
    """Add ``c x`` to ``y`` in place; x and y are (n,) complex of one dtype, `threads` of the CPU share the work."""
    if namespace(y) is np and threads > 1:
        each_part(
            partial(_axpy, c, x, y, SHARED), -(-y.shape[0] // PIECE), 2 * y.shape[0], min(threads, MOST)
        )
    else:
        _axpy(c, x, y, PIECE, 0, y.shape[0])


def _axpy(c: complex, x: Amplitudes, y: Amplitudes, size: int, first: int, last: int) -> None:
    """Add the pieces `first` to `last` - 1 of ``c x``, or as many as there are, `size` amplitudes at a time on a CPU."""
    xp = namespace(y)
    factor = y.dtype.type(c)
    if xp is np:
        x, y = x[first * PIECE : last * PIECE], y[first * PIECE : last * PIECE]
    # one piece of work space, whatever the length
    pieces = list(_pieces(y, size))
    term = xp.empty_like(y[pieces[0]]) if pieces else y
    for s in pieces:
        piece = y[s]
        part = term[: piece.shape[0]]
        xp.multiply(x[s], factor, out=part)
        piece += part


def scale(c: complex, x: Amplitudes, out: Amplitudes | None = None) -> None:
    """Set ``out`` (by default x itself) to ``c x``."""
    xp = namespace(x)
    xp.multiply(x, x.dtype.type(c), out=x if out is None else out)


def hashes(xp: Any, start: int, end: int, offset: int) -> Any:
    """Return the hash `splitmix64` (Steele, Lea and Flood 2014) of ``offset + n``, n = start ... end - 1, uint64.

    Numbers of one index are the same on every device; integers wrap around at 2^64.
    """
    z = (xp.arange(start, end, dtype=np.uint64) + np.uint64(offset)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _pieces(a: Amplitudes, cpu: int = PIECE) -> Iterator[slice]:
    size = cpu if namespace(a) is np else PIECE_CUDA
    for start in range(0, a.shape[0], size):
        yield slice(start, min(start + size, a.shape[0]))


def on_host(psi: NDArray[Any]) -> NDArray[Any]:
    """Return a vector of any device in host memory; one that is there as it is."""
    source: Any = psi
    return psi if namespace(psi) is np else np.asarray(source.get())
