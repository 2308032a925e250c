"""Functions of time that a control is a sum of: blocks of slots, sine and Fourier modes, splines on carriers, a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import rng

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Times = NDArray[np.float64]
    # Values (functions, n) at times (n,).
    Functions = Callable[[Times], NDArray[np.float64]]

# Part of a function, relative to the largest, that is no function of its own.
DEPENDENT = 1e-9
# Degree of the splines.
CUBIC = 3


@dataclass(frozen=True)
class Basis:
    """Functions of time, and orthonormal combinations of them on the slots.

    Attributes
    ----------
    functions : callable
        From times (n,) to values (functions, n).
    mixing : (modes, functions) float64
        Combinations whose values at the slots are orthonormal.
    modes : (modes, N) float64
        These values.
    disjoint : bool
        True if every slot belongs to one function at most, and none changes its sign.
    held : bool
        True if the functions are constant in each slot.
    frequencies : (n,) float64 or None
        Angular frequencies of Fourier modes.
    """

    functions: Functions
    mixing: NDArray[np.float64]
    modes: NDArray[np.float64]
    disjoint: bool = False
    held: bool = False
    frequencies: NDArray[np.float64] | None = None

    def coefficients(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients (functions,) of the functions from those (modes,) of the modes."""
        return u @ self.mixing

    def at(self, u: NDArray[np.float64], times: Times) -> NDArray[np.float64]:
        """Return the sum (n,) of the functions at any times."""
        return self.coefficients(u) @ self.functions(times)


def _orthonormal(functions: Functions, times: Times) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return combinations (modes, functions) of functions that are orthonormal on the slots, and their values (modes, N)."""
    values = functions(times)
    q, r = np.linalg.qr(values.T)
    diagonal = np.abs(np.diag(r))
    if values.shape[0] <= values.shape[1] and diagonal.min() > DEPENDENT * diagonal.max():
        return np.linalg.inv(r.T), np.ascontiguousarray(q.T)
    # functions that are almost sums of others give fewer modes
    left, sizes, right = np.linalg.svd(values, full_matrices=False)
    kept = sizes > DEPENDENT * sizes[0]
    return (left[:, kept] / sizes[kept]).T, np.ascontiguousarray(right[kept])


def blocks(count: int, slots: int, duration: float) -> Basis:
    """Return one mode per block of ``slots/count`` slots, which `count` must divide."""
    modes = np.kron(np.eye(count), np.full(slots // count, (slots / count) ** -0.5))

    def functions(times: Times) -> NDArray[np.float64]:
        place = np.clip((times / duration * count).astype(np.int64), 0, count - 1)
        return np.eye(count)[:, place]

    return Basis(functions, np.eye(count) * (slots / count) ** -0.5, modes, disjoint=True, held=True)


def constant(times: Times, *, held: bool) -> Basis:
    """Return the only mode of a constant control; with a shape it is not held."""
    size = times.size**-0.5
    return Basis(
        lambda t: np.ones((1, t.size)), np.full((1, 1), size), np.full((1, times.size), size), True, held
    )


def sine(first: int, last: int, times: Times, duration: float) -> Basis:
    """Return ``sin(n pi t/T)``, n from `first` to `last`."""
    n = np.arange(first, last + 1)
    size = math.sqrt(2.0 / times.size)

    def functions(t: Times) -> NDArray[np.float64]:
        return np.sin(np.pi / duration * np.outer(n, t))

    return Basis(functions, size * np.eye(n.size), size * functions(times))


def fourier(frequencies: NDArray[np.float64], times: Times) -> Basis:
    """Return sine and cosine at angular frequencies (n,)."""

    def functions(t: Times) -> NDArray[np.float64]:
        phases = np.outer(frequencies, t)
        return np.concatenate([np.sin(phases), np.cos(phases)])

    return Basis(functions, *_orthonormal(functions, times), frequencies=frequencies)


def near_harmonics(count: int, spread: float, duration: float, seed: int, stream: int) -> NDArray[np.float64]:
    """Return ``(k + r_k) 2 pi/T`` (count,), with r_k uniform in [-spread, spread]."""
    shifts = rng.uniform(rng.key_from_seed(seed), stream, 0, count)
    return 2.0 * np.pi / duration * (np.arange(1, count + 1) + spread * (2.0 * shifts - 1.0))


def carried_splines(count: int, carriers: NDArray[np.float64], times: Times, duration: float) -> Basis:
    """Return cubic B-splines on ``count - 3`` equal intervals, times cosine and sine of each carrier.

    The functions are ordered by carrier, cosine before sine, then by spline; a carrier of zero has no sine.
    """
    from scipy.interpolate import BSpline

    inner = np.linspace(0.0, 1.0, count - 2)
    knots = np.concatenate([np.zeros(CUBIC), inner, np.ones(CUBIC)])

    def functions(t: Times) -> NDArray[np.float64]:
        splines = BSpline.design_matrix(np.clip(t / duration, 0.0, 1.0), knots, CUBIC).toarray().T
        waves = []
        for frequency in carriers:
            waves.append(np.cos(frequency * t))
            if frequency != 0.0:
                waves.append(np.sin(frequency * t))
        return np.concatenate([wave * splines for wave in waves])

    return Basis(functions, *_orthonormal(functions, times))
