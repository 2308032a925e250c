"""Lists of lines, and the decay that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# powers of a phase that are made at once
TOGETHER = 256
# lines whose phases are in memory at once
LINES = 4096


def merged(lines: NDArray[np.float64], within: float) -> NDArray[np.float64]:
    """Return lines of one rate in ascending order, those closer than `within` as one, at their mean weighted by intensity."""
    if not len(lines):
        return lines
    lines = lines[np.argsort(lines[:, 0], kind="stable")]
    starts = np.flatnonzero(np.diff(lines[:, 0], prepend=-np.inf) > within)
    weight = np.add.reduceat(lines[:, 1], starts)
    # from the first of a group: large frequencies do not lose digits in a sum
    first = np.repeat(lines[starts, 0], np.diff(starts, append=len(lines)))
    shift = np.add.reduceat((lines[:, 0] - first) * lines[:, 1], starts)
    return np.column_stack([lines[starts, 0] + shift / np.maximum(weight, 1e-300), weight, lines[starts, 2:]])


def decay(lines: NDArray[np.float64], dwell: float, points: int) -> NDArray[np.complex128]:
    """Return ``sum_k w_k exp((2 pi i nu_k - r_k) n dwell)`` for n = 0, ..., points - 1.

    Parameters
    ----------
    lines : (L, 4) float64
        nu, Hz; real and imaginary part of w; r, 1/s.
    dwell : float
        Time between samples, s.
    points : int
    """
    rows = -(-points // TOGETHER)
    out = np.zeros((rows, TOGETHER), np.complex128)
    for start in range(0, len(lines), LINES):
        nu, real, imag, rate = lines[start : start + LINES].T * [[dwell], [1.0], [1.0], [dwell]]
        # n = TOGETHER r + c: a product of two short tables instead of one exponential for each sample and line
        n, c = TOGETHER * np.arange(rows), np.arange(TOGETHER)
        far = np.exp(2j * np.pi * np.remainder(np.outer(n, nu), 1.0) - np.outer(n, rate))
        near = np.exp(2j * np.pi * np.remainder(np.outer(nu, c), 1.0) - np.outer(rate, c))
        out += (far * (real + 1j * imag)) @ near
    return out.ravel()[:points]
