"""Chebyshev expansions of states with equal amplitudes on every orbit of the symmetries of H and start."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.evolution.chebyshev import LONGEST, coefficients
from qsim.trotter.kernels.sectors.orbit_series import bessel, series
from qsim.trotter.sectors.orbits import Orbits

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OrbitSeries"]


# arguments of Bessel functions, below which the recurrence spans too many powers of ten
SMALL = 0.1


def _numbers(x: float, tolerance: float) -> NDArray[np.float64]:
    """Return the numbers of :func:`qsim.trotter.evolution.chebyshev.coefficients`, in a hundredth of the time."""
    if x < SMALL:
        return coefficients(x, tolerance)[0]
    values = np.empty(int(x + 40 + 20 * x ** (1 / 3)))
    bessel(x, values)
    values[1:] *= 2.0
    tail = np.cumsum(np.abs(values[::-1]))[::-1]
    return values[: max(1, int(np.flatnonzero(tail <= max(tolerance, 1e-17))[0]))]


class OrbitSeries:
    """Expansions on the orbits; the ends of the spectrum are the rigorous bounds of the couplings."""

    def __init__(self, orbits: Orbits) -> None:
        self.orbits = orbits
        self.bounds = orbits.model.bounds
        self._known: dict[tuple[float, float], NDArray[np.float64]] = {}
        self._work: tuple[NDArray[np.complex128], ...] | None = None

    def advance(self, psi: NDArray[np.complex128], t: float, tolerance: float) -> int:
        """Replace amplitudes (orbits,) by those after t, which may be negative; return the number of products."""
        if t == 0.0:
            return 0
        low, high = self.bounds
        # as in `Chebyshev.advance`: centre, half width, and parts of at most LONGEST terms
        centre, radius = 0.5 * (low + high), 0.5 * (high - low)
        parts = max(1, math.ceil(radius * abs(t) / LONGEST))
        # every output interval of the same length has the same series
        key = (abs(t), tolerance)
        if key not in self._known:
            self._known[key] = _numbers(radius * abs(t) / parts, tolerance / parts)
        numbers = self._known[key]
        if self._work is None:
            old, new, total = (np.empty(psi.size, np.complex128) for _ in range(3))
            self._work = old, new, total
        old, new, total = self._work
        matrix = self.orbits.matrix
        inverse = 1.0 / radius if radius > 0 else 0.0
        angle = -centre * t / parts
        for _ in range(parts):
            series(matrix, psi, old, new, total, numbers, centre, inverse, t > 0.0)
            np.multiply(total, complex(math.cos(angle), math.sin(angle)), out=psi)
        if not np.isfinite(psi[0]):
            raise NumericsError("the expansion on the orbits is not finite", hint="sector: full")
        return parts * (len(numbers) - 1)
