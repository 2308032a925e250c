"""Range of Crank-Nicolson steps on the grid, and the halo of the chunked propagation.

On an endless lattice with a constant potential, K steps are a convolution with the transform of

    ((1 - i tau eps(k)) / (1 + i tau eps(k)))^K,   eps = (1 - cos k)/dx^2 + V0  (over 1 - (1 - cos k)/6 for Numerov),

(Eq. T11) whose entries fall off as exp(-kappa |j|), kappa = Re arccosh(1 - i/s) for one step, s = dt/(2 dx^2), V0 = 0
(Eq. T10).  A potential moves the resonance -1/(i tau) relative to the band, so the slowest decay over the range of V + x E
counts, not that at V0 = 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qsim.tridiag.propagate.lattice import Stencil

# endless for halos up to a quarter of it
POINTS = 16384
# steps per pass
STEPS = (32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
# cost of moving a row in and out of a pass, in steps of that row
PASS_COST = {"cpu": 2.5, "cuda": 1.5}
# chunks of a thread of a CPU
LANES = 8
# rows of a CPU chunk: eight of them with their scratch fit the second-level cache
CHUNK = 1536
# rows: chunks are no shorter for the sake of another thread
SHORT = 256
# halos that are tried, in units of the halo from the decay
MARGINS = (1.1, 1.4, 2.0)
# by bytes of a real number: amplitude that a pass may miss at the end of the halo, and largest relative difference of a tested
# pass from exact steps
TAIL, AGREE = {8: 1e-15, 4: 1e-7}, {8: 2e-13, 4: 2e-5}
# tails that stand clear of the rounding of the transform; below, the decay is extrapolated
SEEN = (1e-9, 1e-12)


def tail(
    stencil: Stencil, dx: float, dt: float, steps: int, v0: float = 0.0, points: int = POINTS
) -> np.ndarray:
    """Return a bound of ``sum over |j| >= m of |G(j)|``, m = 0 .. points/2 - 1; G(j): effect of a unit amplitude j points away.

    Ten times the largest entry from m on: entries fall by more than a tenth per point wherever chunks pay.
    """
    # the convolution kernel of K steps is the inverse transform of its symbol
    c = 1.0 - np.cos(2.0 * np.pi * np.arange(points) / points)
    eps = c / dx**2 / ((1.0 - c / 6.0) if stencil == "numerov" else 1.0) + v0
    g = np.abs(np.fft.ifft(((1.0 - 0.5j * dt * eps) / (1.0 + 0.5j * dt * eps)) ** steps))
    # both directions; what a distance m and all beyond it do is bounded by ten times the largest value there
    half = np.maximum(g[: points // 2], g[np.r_[0, points - 1 : points // 2 : -1]])
    return np.asarray(10.0 * np.maximum.accumulate(half[::-1])[::-1])


def halo(
    stencil: Stencil, dx: float, dt: float, steps: int, potentials: Iterable[float], tolerance: float
) -> int:
    """Return the points beyond which ``steps`` steps are felt by less than ``tolerance``.

    Parameters
    ----------
    potentials : iterable of float
        Values of V + x E that occur, hartree; the worst one counts.

    Returns
    -------
    int
        POINTS / 4 if the effect reaches that far or further.
    """
    worst = 1
    # constant potentials over the range of V + x E: the slowest decay among them bounds all
    for v0 in potentials:
        t = tail(stencil, dx, dt, steps, v0)
        small = t < max(tolerance, SEEN[1])
        # first distance at which the tail is small, if there is one within a quarter of the transform's length:
        # beyond, images overlap
        m = int(np.argmax(small))
        if not small[m] or m >= POINTS // 4:
            return POINTS // 4
        # rounding of the transform hides the tail below SEEN: it falls exponentially, and is continued at the rate that is seen
        if tolerance < SEEN[1]:
            first = int(np.argmax(t < SEEN[0]))
            rate = np.log(t[first] / t[m]) / max(m - first, 1)
            m += int(np.ceil(np.log(SEEN[1] / tolerance) / max(rate, 1e-3)))
        worst = max(worst, m)
    return min(worst, POINTS // 4)


def range_of_potential(lowest: float, highest: float, dx: float) -> tuple[float, ...]:
    """Return the values to try between the lowest and the highest V + x E: the ends, zero, and where the band is resonant."""
    # the decay is slowest where the energy of a lattice wave meets V: a few places in the band are tried
    inside = [0.0, -0.5 / dx**2, -1.0 / dx**2, -1.5 / dx**2, -2.0 / dx**2]
    return (lowest, highest, *(v for v in inside if lowest < v < highest))


def chunk_rows(points: int, reach: int, threads: int) -> tuple[int, float] | None:
    """Return the rows of a chunk of a grid on a CPU, and how often a row is computed; None where chunks do not pay.

    Parameters
    ----------
    reach
        Rows of the halo on either side.
    """
    # more threads than this would spend their time in halos
    threads = min(threads, max(1, points // (LANES * max(SHORT, 2 * reach))))
    # whole groups of lanes for every thread
    lanes = LANES * threads
    # chunks near CHUNK rows, or four halos where these are long: halos are computed twice
    chunk = -(-points // (lanes * max(1, round(points / (lanes * max(CHUNK, 4 * reach))))))
    redundancy = min(points, chunk + 2 * reach) / chunk
    return None if chunk < 2 or redundancy > 7 else (chunk, redundancy)


def chunks_pay(
    points: int, stencil: Stencil, dx: float, dt: float, *, single: bool = False, threads: int = 2
) -> bool:
    """Tell whether a CPU propagates a grid in chunks with a halo at V = 0, rather than whole.

    It does if a halo is found for the cheapest number of steps per pass, or if the widest halo that is tried agrees with steps of
    the whole grid.
    """
    real = 4 if single else 8
    # such a grid fits the caches as one chunk
    if points <= 512:
        return False
    costs = []
    for steps in STEPS:
        reach = halo(stencil, dx, dt, steps, (0.0,), TAIL[real])
        chunk = chunk_rows(points, int(MARGINS[0] * reach) + 1, threads)
        if chunk is not None:
            costs.append((chunk[1] + PASS_COST["cpu"] / steps, steps, reach))
    if not costs:
        return False
    _cost, steps, reach = min(costs)
    if reach < POINTS // 4:
        return True
    # the test of `_agrees` would compare a pass of the widest halo with exact steps: its tail decides
    return bool(tail(stencil, dx, dt, steps, points=8 * POINTS)[int(MARGINS[-1] * reach)] < AGREE[real])
