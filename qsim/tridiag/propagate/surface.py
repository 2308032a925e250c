r"""Photoelectron spectra of a line from the flux through x = -R and x = R (t-SURFF), with that after the end by resolvents.

Beyond R the electron is taken as free in the field: ``chi_k = exp(i k x - i Phi_k(t)) / sqrt(2 pi)`` in velocity gauge, ``Phi_k =
int (k + A)^2 / 2 dt``.  What passes R to the right gives

    b(k) = int dt exp(i Phi_k - i k R) ((k / 2 + A) psi - i psi' / 2) / sqrt(2 pi),

with psi and its slope at R; what passes -R to the left has the other sign.  ``dP/dE = (|b(k)|^2 + |b(-k)|^2) / k`` (Tao and
Scrinzi, New J. Phys. 14, 013021 (2012)).  After the end T, where A = 0, the integral to infinity replaces psi by ``-i (H - i W -
k^2 / 2)^-1 psi(T)``: one tridiagonal system per energy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_banded

from qsim.core.physics.integrals import running_integral
from qsim.tridiag.propagate.lattice import mass
from qsim.tridiag.tdse import absorbers
from qsim.tridiag.tdse.flux import INNER, SENT_BACK, SIDE, SLOPE, Flux, sample_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.tridiag.deck.photoelectrons import LineTsurff
    from qsim.tridiag.propagate.lattice import Lattice
    from qsim.tridiag.propagate.result import Propagated
    from qsim.tridiag.tdse.flux import Surface
    from qsim.tridiag.tdse.photoelectrons import Photoelectrons

__all__ = ["Ends", "LineFlux", "ends_of", "resolvent"]

# samples whose phases are in memory at a time
CHUNK = 256
# momentum times spacing up to which the reflection by an absorber is known
BAND = 1.5


@dataclass(frozen=True)
class Ends:
    """The points of the grid that are nearest to -R and R.

    Attributes
    ----------
    points : (int, int)
        Of the lattice.
    x : (2,) float64
        Where they lie, bohr.
    radius : float
        The distance that the deck, or a part of it, states, bohr.
    """

    points: tuple[int, int]
    x: NDArray[np.float64]
    radius: float

    @property
    def windows(self) -> list[range]:
        """Points around each."""
        return [range(point - SIDE, point + SIDE + 1) for point in self.points]


def ends_of(lattice: Lattice, blocks: Sequence[object]) -> list[Ends]:
    """Return the surfaces whose flux a run records: none without a t-SURFF spectrum."""
    found = []
    for one in blocks:
        for share in (1.0, INNER) if getattr(one, "method", "") == "tsurff" else ():
            radius = share * float(one.radius)  # type: ignore[attr-defined]
            points = [round((x - lattice.xmin) / lattice.dx) for x in (-radius, radius)]
            left, right = (min(max(k, SIDE), lattice.points - 1 - SIDE) for k in points)
            found.append(Ends((left, right), lattice.x[[left, right]], radius))
    return found


def resolvent(lattice: Lattice, energy: float, psi: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return ``(H - i W - E)^-1 psi`` without a field, (n,): one tridiagonal system.

    Parameters
    ----------
    lattice
        With a complex absorber.
    energy
        E, hartree.
    psi : (n,) complex128
    """
    q = lattice.potential - 1j * (0.0 if lattice.cap is None else lattice.cap) - energy
    half = 0.5 / lattice.dx**2
    compact = lattice.stencil == "numerov"
    # -D / 2 + M (V - i W - E), the mass of a neighbour with its own potential
    bands = np.full((3, lattice.points), -half, dtype=complex)
    bands[1] = 2.0 * half + q * (10.0 / 12.0 if compact else 1.0)
    if compact:
        bands[[0, 2]] += q / 12.0
    return np.asarray(solve_banded((1, 1), bands, mass(lattice, psi)))


class LineFlux(Flux):
    """The integrals over time at both ends, and over energies after the end of the run."""

    def __init__(self, result: Propagated, block: LineTsurff) -> None:
        problem = result.problem
        a = float(problem.kick(problem.t_final)[0])
        super().__init__(result, block, result.psi.astype(complex) * np.exp(1j * a * problem.lattice.x))
        # to the left, and to the right
        self.momenta = np.concatenate([-self.k, self.k])

    def _phase(
        self, t: NDArray[np.float64], alpha: NDArray[np.float64], beta: NDArray[np.float64]
    ) -> NDArray[np.complex128]:
        """Return ``exp(i Phi_k)``, (times, momenta); alpha and beta: integrals of A and of its half square."""
        k = self.momenta
        return np.asarray(np.exp(1j * (np.outer(t, 0.5 * k**2) + np.outer(alpha, k) + beta[:, None])))

    def amplitudes(self, seen: Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
        """Return b(k), (momenta,)."""
        k, weights = self.momenta, sample_weights(seen.time)
        beta = running_integral(0.5 * seen.a**2, seen.time)
        total = np.zeros(k.size, dtype=complex)
        for first in range(0, seen.time.size, CHUNK):
            part = slice(first, first + CHUNK)
            phase = weights[part, None] * self._phase(seen.time[part], seen.alpha[part], beta[part])
            for side, x in enumerate(seen.sphere.x):
                value, slope = seen.value[part, side], seen.slope[part, side]
                flux = 0.5 * k * (value @ phase) + (seen.a[part] * value - 0.5j * slope) @ phase
                total += _outwards(side) * np.exp(-1j * k * x) * flux
            for _ in range(len(weights[part])):
                each()
        return np.asarray(total / math.sqrt(2.0 * math.pi))

    def tail(self, sphere: Ends, end: float) -> NDArray[np.complex128]:
        """Return the part of b(k) from the time after the end, (momenta,)."""
        lattice, k = self.result.problem.lattice, self.momenta
        found = np.empty((self.energy.size, 2, 2), dtype=complex)
        for i, energy in enumerate(self.energy):
            w = -1j * resolvent(lattice, float(energy), self.phi)
            for side, window in enumerate(sphere.windows):
                near = w[window.start : window.stop]
                found[i, side] = near[SIDE], near @ SLOPE / lattice.dx
        found = np.concatenate([found, found])
        beta = running_integral(0.5 * self.a[0] ** 2, self.time)[-1:]
        total = np.zeros(k.size, dtype=complex)
        for side, x in enumerate(sphere.x):
            flux = 0.5 * k * found[:, side, 0] - 0.5j * found[:, side, 1]
            total += _outwards(side) * np.exp(-1j * k * x) * flux
        return total * self._phase(np.array([end]), self.alpha[0, -1:], beta)[0] / math.sqrt(2.0 * math.pi)

    def spectrum(self, b: NDArray[np.complex128]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dP/dE, and its parts to the left and to the right."""
        parts = (np.abs(b.reshape(2, -1)) ** 2 / self.k).T
        return parts.sum(axis=1), parts

    def sent_back(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what interference with the wave that absorbers send back changes at most, (energy,)."""
        problem, k = self.result.problem, self.k
        back = np.ones(k.size)
        known = k * problem.lattice.dx < BAND
        if problem.absorber.type != "none":
            back[known] = absorbers.reflection(problem.absorber, problem.lattice.dx, k[known], problem.dt)
        return np.asarray(SENT_BACK * np.sqrt(np.clip(back, 0.0, 1.0)) * parts.sum(axis=1))

    def resolved(self, spectrum: Photoelectrons) -> Photoelectrons:
        """Return the spectrum: its directions are its parts."""
        return replace(spectrum)


def _outwards(side: int) -> float:
    """Return the sign of the current that leaves at the left (0) or the right end (1)."""
    return 1.0 if side else -1.0
