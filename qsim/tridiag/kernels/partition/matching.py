"""Scales of a tridiagonal matrix from its heaviest matching, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.tridiag.kernels.jit import JIT, PART

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array

__all__ = ["NOTHING", "matching_scales"]

# logarithm of a zero
NOTHING = -(1 << 45)
# up and down; two or three are usual
SWEEPS = 64


def matching_scales(
    main: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return exponents of row and column scales that make no entry larger than 1 and the ones of the heaviest matching 1.

    A perfect matching of a tridiagonal matrix takes the diagonal element of a row, or both elements that couple it to a
    neighbour (of a cyclic one, also the whole lower or upper diagonal); the heaviest has the largest product.  The scales are
    the dual variables of this assignment (I. S. Duff and J. Koster, SIAM J. Matrix Anal. Appl. 22, 973 (2001)).  Scaling rows and
    columns beforehand does not change the result but for the freedom that the duals have.

    Parameters
    ----------
    main, lower, upper : (n,) int64
        Exponents of the entries, `NOTHING` for zeros; ``lower[0]`` and ``upper[n-1]`` are the corners of a cyclic matrix of
        at least 3 rows, `NOTHING` in others.

    Returns
    -------
    rows, columns : (n,) int64
        None if there is no perfect matching: the matrix is singular whatever its entries are.
    """
    rows, columns = np.zeros(main.shape[0], np.int64), np.zeros(main.shape[0], np.int64)
    perfect = _matching_scales_cpu(main, lower, upper, rows, columns)
    return (rows, columns) if perfect else None


@nb.njit(**PART)
def _chain(main: Array, lower: Array, upper: Array, first: Any, last: Any, match: Any) -> Any:
    """Match rows ``first .. last - 1`` without corners; return the weight."""
    paired = np.zeros(last - first + 1, np.bool_)
    # heaviest matchings of one row less, and of the rows so far
    before, now = 0, 0
    for i in range(first, last):
        # a matching of a tridiagonal matrix pairs a row with its own column, or two neighbours with each other's:
        # dynamic programming over the rows, with the weights of one and of two rows before
        alone = now + main[i]
        pair = before + lower[i] + upper[i - 1] if i > first else 2 * NOTHING
        paired[i - first] = pair > alone
        before, now = now, max(alone, pair, 4 * NOTHING)
    # backwards along the choices of the heaviest matching
    i = last - 1
    while i >= first:
        match[i] = i
        if paired[i - first]:
            match[i], match[i - 1] = i - 1, i
            i -= 1
        i -= 1
    return now


@nb.njit(**PART)
def _heaviest(main: Array, lower: Array, upper: Array, match: Any) -> Any:
    """Write the column that each row is matched with; return the weight."""
    n = main.shape[0]
    best = _chain(main, lower, upper, 0, n, match)
    if n < 3 or max(lower[0], upper[n - 1]) < NOTHING // 2:
        return best
    trial = np.empty_like(match)
    # with corners there are three kinds more: both corners, and all rows moved down or up by one
    weight = _chain(main, lower, upper, 1, n - 1, trial) + lower[0] + upper[n - 1]
    trial[0], trial[n - 1] = n - 1, 0
    if weight > best:
        best = weight
        match[:] = trial
    down, up = 0, 0
    for i in range(n):
        down, up = max(down + lower[i], 4 * NOTHING), max(up + upper[i], 4 * NOTHING)
    if max(down, up) > best:
        best = max(down, up)
        for i in range(n):
            match[i] = (i - 1) % n if down >= up else (i + 1) % n
    return best


@nb.njit(**JIT)
def _matching_scales_cpu(main: Array, lower: Array, upper: Array, rows: Any, columns: Any) -> bool:
    """Write the scales of `matching_scales`; return False if no perfect matching exists."""
    n = main.shape[0]
    match = np.arange(n)
    if _heaviest(main, lower, upper, match) < NOTHING // 2:
        return False
    own = np.empty_like(main)
    for i in range(n):
        own[i] = main[i]
        # two rows are each other's neighbours on both sides, but have no corners
        if match[i] != i:
            own[i] = lower[i] if match[i] == (i - 1) % n and (n > 2 or i == 1) else upper[i]
    # dual variables by Bellman-Ford along the ring: log scales such that no entry exceeds the matched ones
    for _sweep in range(SWEEPS):
        changed = False
        # up and down
        for k in range(2 * n):
            i = k if k < n else 2 * n - 1 - k
            # row i may not be exceeded: u_i + v_j + w_ij <= 0 for all entries, with equality for the matched one
            base = columns[match[i]] + own[i]
            for side in range(3):
                entry, j = main[i], i
                if side == 1:
                    entry, j = lower[i], (i - 1) % n
                elif side == 2:
                    entry, j = upper[i], (i + 1) % n
                if entry > NOTHING // 2 and base - entry < columns[j]:
                    columns[j] = base - entry
                    changed = True
        if not changed:
            break
    for i in range(n):
        # u_i follows from its matched column: that entry becomes 1
        rows[i] = -columns[match[i]] - own[i]
    return True
