r"""Resonances of a line by complex scaling: position and decay rate of a level in a static field, or behind barriers.

With ``x = x0 + y e^(i theta)`` outgoing waves decay on either side, and a resonance becomes a complex eigenvalue ``E - i Gamma /
2`` of the compact stencil with complex spacings,

    (-e^(-2 i theta) D / 2 + M (V(x) + F x - E)) psi = 0:

one tridiagonal matrix.  A bound level is followed from F = 0 by inverse iteration; a shape resonance, or one by which a molecule
falls apart, is that nearest to an energy.  Box and spacings are chosen here, whatever the run has.  What the angle changes, which
it must not, is a part of the claimed error.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.lapack import zgttrf, zgttrs

from qsim.core.errors import NumericsError
from qsim.tridiag.deck.electron import levels_of
from qsim.tridiag.deck.pulses.ramps import StaticPulse
from qsim.tridiag.propagate.eigenstates import window_states
from qsim.tridiag.tdse.scaling import IDLE, RATIO, ROUNDING, SAME, Pencil, Resonance, follow, limit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.potentials import Potential
    from qsim.tridiag.propagate.result import Propagated

    Waves = NDArray[np.complex128]

__all__ = ["Wanted", "find", "resonance"]

# theta, below pi / 4, where Gaussians would grow; and another one, of which nothing may depend
ANGLE, OTHER = 0.4, 0.3
# bohr: half of the first box, its growth, the largest; spacing of the first grid
BOX, MORE_BOX, MOST_BOX, SPACING = 20.0, 1.4, 3000.0, 0.15
# relative error of a rate from which a warning is given
UNSURE = 0.1


@dataclass(frozen=True)
class Wanted:
    """A resonance to be found.

    Attributes
    ----------
    potential : Potential
        Block of the deck, analytic.
    which : int or float
        Level that is followed from F = 0, or energy, hartree, whose nearest resonance is taken.
    """

    potential: Potential
    which: int | float


class _LinePencil(Pencil):
    """Hamiltonian and right side on one complex grid; states are (points,)."""

    def __init__(self, potential: Potential, half: float, points: int, angle: float) -> None:
        self.half, self.angle = half, angle
        self.centre = float(getattr(potential, "x0", 0.0))
        self.y = np.linspace(-half, half, points + 2)[1:-1]
        self.dx, turn = float(self.y[1] - self.y[0]), cmath.exp(1j * angle)
        self.x: Waves = np.asarray(self.centre + self.y * turn, np.complex128)
        self.potential: Waves = np.asarray(potential.continued(self.x), np.complex128)
        self.kinetic = 0.5 / (self.dx * turn) ** 2

    def weighted(self, x: Waves) -> Waves:
        """Return the right side, ``M x``."""
        out = (10.0 / 12.0) * x
        out[1:] += x[:-1] / 12.0
        out[:-1] += x[1:] / 12.0
        return out

    def product(self, x: Waves, y: Waves) -> complex:
        """Return the product of two states, without a conjugate."""
        return complex(np.sum(x * y))

    def dipole(self, x: Waves, y: Waves) -> complex:
        """Return ``<x|coordinate|y>`` in this product."""
        return complex(np.sum(x * self.x * y))

    def factors(self, field: float, shift: complex) -> Any:
        """Return the LU factors of ``H(F) - shift``.

        Raises
        ------
        NumericsError
            If the matrix is singular.
        """
        q = self.potential + field * self.x - shift
        side = -self.kinetic + q / 12.0
        *lu, info = zgttrf(side[:-1], 2.0 * self.kinetic + q * (10.0 / 12.0), side[1:])
        if info != 0:
            raise NumericsError("the resonance was not found: its matrix is singular")
        return lu

    def solve(self, factors: Any, b: Waves) -> Waves:
        """Return the solution for a right side."""
        x, _ = zgttrs(*factors, b)
        return np.asarray(x)


@dataclass(frozen=True)
class _Found:
    """A resonance on one grid."""

    pencil: _LinePencil
    energy: complex
    x: Waves

    def again(self, wanted: Wanted, field: float, half: float, points: int, angle: float) -> _Found:
        """Return it on another grid, or with another angle."""
        new = _LinePencil(wanted.potential, half, points, angle)
        start = np.interp(new.y, self.pencil.y, self.x, left=0.0, right=0.0).astype(complex)
        return _Found(new, *new.nearest(field, self.energy, start))


def _first(wanted: Wanted, field: float) -> _Found:
    """Return the resonance on the first grid.

    Raises
    ------
    NumericsError
        If it is not there.
    """
    half = BOX
    points = round(2.0 * half / SPACING)
    pencil = _LinePencil(wanted.potential, half, points, ANGLE)
    if isinstance(wanted.which, float):
        # no state to begin with: something smooth without parity
        start = np.exp(-((pencil.y / (0.2 * half)) ** 2)) * (1.0 + pencil.y / half)
        return _Found(pencil, *pencil.nearest(field, wanted.which, np.asarray(start, np.complex128)))
    real = np.asarray(wanted.potential.V(pencil.centre + pencil.y), float)
    energies, states, low = window_states(pencil.dx, real, "numerov", 1, wanted.which)
    x = np.zeros(points, complex)
    x[low : low + states.shape[1]] = states[0]
    return _Found(pencil, *follow(pencil, field, *pencil.nearest(0.0, complex(energies[0]), x)))


def resonance(wanted: Wanted, field: float) -> Resonance:
    """Return position and rate of a resonance in a static field.

    Parameters
    ----------
    wanted
        Which one.
    field
        F of ``+ F x``, a.u.

    Raises
    ------
    NumericsError
        If it cannot be followed, or if the box does not converge.
    """
    value, last = _first(wanted, field), math.inf
    while True:
        half, points = value.pencil.half, value.pencil.y.size
        wide = round(MORE_BOX * (points + 1)) - 1
        # the same spacing in a larger box
        larger = value.again(wanted, field, half * (wide + 1) / (points + 1), wide, ANGLE)
        cut = abs(larger.energy - value.energy)
        # as small as rounding of the energy makes it, or negligible beside the rate; or no longer falling
        small = SAME * abs(value.energy.imag) + ROUNDING * abs(value.energy)
        if cut < small or 0.5 * last < cut < IDLE * abs(value.energy):
            break
        last, value = cut, larger
        if larger.pencil.half > MOST_BOX:
            raise NumericsError(f"the resonance does not converge up to a box of {MOST_BOX:g} bohr")
    limits = []
    for angle in (ANGLE, OTHER):

        def level(k: int, angle: float = angle) -> tuple[float, complex]:
            finer = round((points + 1) * RATIO**k) - 1
            found = value.again(wanted, field, half, finer, angle)
            return found.pencil.dx, found.energy

        limits.append(limit(level, cut))
    (fine, uncertain), (other, _) = limits
    uncertain += abs(other - fine)
    return Resonance(fine.real, -2.0 * fine.imag, uncertain, 2.0 * uncertain, 0, half, math.nan)


def find(result: Propagated, monitor: Monitor) -> None:
    """Store position and rate of the resonance that the deck requests, with their errors."""
    problem, block = result.problem, result.problem.observed.resonance
    assert block is not None
    which: int | float = levels_of(problem.initial)[0] if block.energy is None else block.energy
    # the deck allows constant fields alone
    blocks = [pulse.block for pulse in problem.pulse.pulses]
    field = sum(pulse.polarity * pulse.E0 for pulse in blocks if isinstance(pulse, StaticPulse))
    try:
        seen = resonance(Wanted(problem.potential, which), float(field))
    except NumericsError as error:
        monitor.warn(f"no resonance: {error}")
        return
    result.resonance = f"level {which}" if block.energy is None else f"nearest to {which:.10g} hartree"
    result.numbers |= {"resonance_energy": seen.energy, "resonance_rate": seen.rate}
    result.errors |= {"resonance_energy": seen.energy_error, "resonance_rate": seen.rate_error}
    if seen.rate_error > UNSURE * abs(seen.rate):
        monitor.warn(
            f"resonance_rate = {seen.rate:.3g} is uncertain by {seen.rate_error:.2g}: a rate this small is lost in the "
            "rounding of the energy"
        )
