"""Resonances by complex scaling in any geometry: complex eigenvalues of a pencil, followed in a field, without spacings.

A pencil is the Hamiltonian on one complex grid, in whose product, without a conjugate, states are normalised.
"""

from __future__ import annotations

import cmath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Waves = NDArray[np.complex128]

__all__ = ["IDLE", "RATIO", "ROUNDING", "SAME", "Pencil", "Resonance", "follow", "limit"]

# of the spacings
RATIO, ORDER = 1.3, 4
# relative change of the rate from a larger box, or more functions, that is taken as none
SAME = 3e-9
# relative, of an energy: several times what its last digits do from grid to grid
ROUNDING = 1e-12
# relative change of an energy below which larger boxes that no longer help are rounding
IDLE = 1e-8
# fields from 0 to F, at first
STAGES = 6
# part of F that a stage may have
SMALLEST = 1e-4
# of a state that a stage must leave
ALIKE = 0.7
# relative distance of an energy from the predicted one, within which it is the same level
MISSED = 0.1
ITERATIONS = 40
# matrices of an inverse iteration
SHIFTS = 4
# error of half a rate, relative, below which no finer spacings are taken
ENOUGH = 1e-6
# spacings at most
FINEST = 6
SAFETY = 3.0


@dataclass(frozen=True)
class Resonance:
    """A level in a static field.

    Attributes
    ----------
    energy, rate : float
        E, hartree, and Gamma, a.u.
    energy_error, rate_error : float
        Claimed errors.
    lmax : int
    box : float
        Radius up to which rho goes, bohr.
    weight : float
        Share of the level it was followed from, without a field; NaN if it was named by an energy.
    """

    energy: float
    rate: float
    energy_error: float
    rate_error: float
    lmax: int
    box: float
    weight: float


class Pencil:
    """Hamiltonian and right side on one complex grid."""

    def weighted(self, x: Waves) -> Waves:
        """Return the right side of a state."""
        raise NotImplementedError

    def product(self, x: Waves, y: Waves) -> complex:
        """Return the product of two states, without a conjugate."""
        raise NotImplementedError

    def dipole(self, x: Waves, y: Waves) -> complex:
        """Return the matrix element of the coordinate along the field in this product."""
        raise NotImplementedError

    def factors(self, field: float, shift: complex) -> Any:
        """Return the LU factors of ``H(F) - shift``.

        Raises
        ------
        NumericsError
            If the matrix is singular.
        """
        raise NotImplementedError

    def solve(self, factors: Any, b: Waves) -> Waves:
        """Return the solution for a right side."""
        raise NotImplementedError

    def nearest(self, field: float, energy: complex, x: Waves) -> tuple[complex, Waves]:
        """Return the eigenvalue nearest to an energy, with its state, of product 1 with itself: inverse iteration.

        Raises
        ------
        NumericsError
            If it does not converge.
        """
        before = energy
        for _ in range(SHIFTS):
            before = energy
            # a shift beside the eigenvalue: on it the matrix would be singular
            shift = energy + 1e-9 * (1.0 + 1.0j) * max(abs(energy), 1e-3)
            factors = self.factors(field, shift)
            for _ in range(ITERATIONS):
                y = self.solve(factors, self.weighted(x))
                # x = (lambda - shift) y for an eigenvector
                now = shift + complex(np.vdot(y, x) / np.vdot(y, y))
                x = y / np.linalg.norm(y)
                near = abs(now - energy)
                energy = now
                if near < 1e-15 * max(abs(now), 1e-4):
                    break
            if abs(energy - before) < 1e-13 * abs(energy):
                break
        if not abs(energy - before) < 1e-9 * abs(energy):
            raise NumericsError("the resonance was not found: its inverse iteration does not converge")
        return energy, x / cmath.sqrt(self.product(x, x))


def follow(pencil: Pencil, field: float, energy: complex, x: Waves) -> tuple[complex, Waves]:
    """Return energy and state at F, followed from F = 0 in steps that leave the state much as it was.

    Raises
    ------
    NumericsError
        If the smallest steps do not.
    """
    at, step = 0.0, field / STAGES
    known = [(0.0, energy, pencil.dipole(x, x))]
    # a field along either direction
    while abs(at) < abs(field):
        f = at + step if abs(at + step) < abs(field) else field
        try:
            # the energy is predicted, the state is taken from the stage before; a small overlap means another level
            guess = ahead(known, f)
            found, y = pencil.nearest(f, guess, x)
            alike = abs(pencil.product(x, y)) if abs(found - guess) < MISSED * abs(found) else 0.0
        except NumericsError:
            alike = 0.0
        if alike < ALIKE:
            step *= 0.5
            if abs(step) < SMALLEST * abs(field):
                raise NumericsError(
                    f"the level meets another at F = {at:.4g} a.u. and cannot be followed: name the resonance by its energy"
                )
            continue
        at, energy, x = f, found, y
        # a stage that went well is followed by a longer one
        step *= 1.5
        known = [*known[-1:], (f, energy, pencil.dipole(x, x))]
    return energy, x


def ahead(known: list[tuple[float, complex, complex]], f: float) -> complex:
    """Return the energy at a field from one or two earlier fields, energies and slopes, by a line or a cubic."""
    at, energy, slope = known[-1]
    if len(known) == 1:
        return energy + (f - at) * slope
    before, other, rise = known[0]
    h = at - before
    t = (f - before) / h
    # cubic through two energies and their slopes dE/dF = <z>
    return (
        other * (1.0 + 2.0 * t) * (1.0 - t) ** 2
        + rise * h * t * (1.0 - t) ** 2
        + energy * t * t * (3.0 - 2.0 * t)
        + slope * h * t * t * (t - 1.0)
    )


def limit(level: Callable[[int], tuple[float, complex]], cut: float) -> tuple[complex, float]:
    """Return the energy in the limit of fine spacings, hartree, and its error.

    Parameters
    ----------
    level
        Spacing and energy with all spacings ``RATIO^-k`` of the first.
    cut
        Error that other limits have left.
    """
    # spacings of a geometric ladder; each pair of neighbours gives a limit, and two limits the error
    ladder: list[tuple[float, complex]] = []
    limits: list[complex] = []
    uncertain = np.inf
    for k in range(1, FINEST + 1):
        spacing, energy = level(k)
        ladder.append((spacing**ORDER, energy))
        if k == 1:
            continue
        # Richardson: two spacings, error of fourth order; the difference of two such limits is the error
        (p, a), (q, b) = ladder[-2:]
        limits.append((p * b - q * a) / (p - q))
        if k == 2:
            continue
        spaced = abs(limits[-1] - limits[-2])
        before, uncertain = uncertain, SAFETY * (spaced + cut) + ROUNDING * abs(limits[-1])
        # good enough, or no longer getting better: rounding grows as spacings shrink
        if uncertain < ENOUGH * abs(limits[-1].imag) or uncertain > 0.5 * before:
            break
    return limits[-1], float(uncertain)
