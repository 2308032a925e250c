r"""Ground state of a condensate: conjugate gradients of the energy under a fixed norm, preconditioned.

The gradient ``H psi - mu psi`` with ``H = T + V + g |psi|^2`` is preconditioned by ``(T_3 + V + g n - shift)^-1``, the kinetic
energy of three points and the density n of Thomas and Fermi, whose matrix is factorised once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError
from qsim.tridiag.plane.levels import RESIDUAL, Levels, Operator, lowest, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.tridiag.plane.lattice import PlaneLattice

__all__ = ["ground"]

# bohr: half width of the part of the lattice that is searched; a trap gives the walls
REACH = 1e6
ITERATIONS = 500
# residual up to which a search without progress has reached rounding, relative to the chemical potential
ROUNDED = 1e-8
# of the chemical potential: what is added to the preconditioner
SHIFT = 0.5
# with vortices: iterations of each pattern, the largest residual, vortices on a ring, and its radius in that of the density
TRIAL, SOFT, RING, RADIUS = 100, 1e-6, 6, 0.6


def ground(lattice: PlaneLattice) -> Levels:
    """Return the ground state, its energy being the chemical potential.

    In a frame that rotates the energy has many minima, with other numbers of vortices: of patterns with few of them, and of a
    hexagonal lattice of the density that turns like a solid body, the one of the lowest energy goes on.

    Raises
    ------
    NumericsError
        If the search does not converge, or the trap does not hold what rotates so fast.
    """
    g, v = lattice.nonlinear, lattice.potential()
    low = np.unravel_index(int(np.argmin(v)), v.shape)
    if lattice.turns and any(at in (0, n - 1) for at, n in zip(low, v.shape, strict=True)):
        raise NumericsError(
            "the centrifugal force exceeds that of the trap: the lowest potential lies at the walls",
            hint="lower system.rotation, or take a steeper trap",
        )
    density = _thomas_fermi(v, g, lattice.cell) if g > 0.0 else np.zeros_like(v)
    part = part_of(lattice, (v.shape[0] // 2, v.shape[1] // 2), REACH)
    # the lowest level at rest in the trap that the others widen
    felt = v + lattice.diamagnetic(part) + g * density
    rest = replace(
        lattice, table=felt - lattice.first[:, None] - lattice.second, nonlinear=0.0, gauge=(0.0, 0.0)
    )
    first = lowest(rest, 1)
    search = _Search(lattice, part, v[part], g * density[part], float(first.energies[0]))
    psi = first.whole(0, v.shape)[part] * np.sqrt(lattice.cell)
    if lattice.turns:
        tried = [search.run(one, TRIAL) for one in _patterns(lattice, part, psi)]
        psi = min(tried, key=lambda one: one.energy).psi
    found = search.run(psi, ITERATIONS * (10 if lattice.turns else 1))
    # rows of vortices may move past each other at next to no energy
    if found.residual > (SOFT if lattice.turns else ROUNDED) * max(1.0, abs(found.mu)):
        raise NumericsError(
            f"the search for the ground state stopped at a residual of {found.residual:.1e} hartree",
            hint="the grid may be too coarse or the trap too shallow",
        )
    state = found.psi if lattice.turns else np.abs(found.psi)
    return Levels(np.array([found.mu]), np.array([found.residual]), state[None] / np.sqrt(lattice.cell), part)


class _Found(NamedTuple):
    """A state of the norm 1, its chemical potential, residual, and energy."""

    psi: NDArray[Any]
    mu: float
    residual: float
    energy: float


class _Search:
    """Conjugate gradients on a part of a lattice with the potential v, preconditioned with that of a density."""

    def __init__(
        self,
        lattice: PlaneLattice,
        part: tuple[slice, slice],
        v: NDArray[np.float64],
        screen: NDArray[np.float64],
        level: float,
    ) -> None:
        self.h, self.v, self.g = Operator(lattice, part, v + screen), v, lattice.nonlinear / lattice.cell
        self.shift = level * (1.0 - SHIFT) if level > 0.0 else level - SHIFT

    def run(self, psi: NDArray[Any], iterations: int) -> _Found:
        """Go down from a state; `iterations` at most."""
        psi = psi / np.linalg.norm(psi)
        old, direction = np.zeros_like(psi), np.zeros_like(psi)
        before, mu, residual, energy = 0.0, 0.0, np.inf, 0.0
        for _ in range(iterations):
            density = np.abs(psi) ** 2
            applied = self.h.moving(psi) + (self.v + self.g * density) * psi
            mu = _mean(psi, applied)
            energy = mu - 0.5 * self.g * float((density**2).sum())
            gradient = applied - mu * psi
            residual = float(np.linalg.norm(gradient))
            if residual <= RESIDUAL * max(1.0, abs(mu)):
                break
            step = self.h.coupled_correction(gradient[None], self.shift)[0]
            step = step - np.vdot(psi, step) * psi
            slope = _mean(gradient, step)
            # Polak and Ribiere, beginning anew where it points uphill
            turn = max(0.0, (slope - _mean(old, step)) / before) if before > 0.0 else 0.0
            direction = turn * direction - step
            direction = direction - np.vdot(psi, direction) * psi
            if _mean(direction, gradient) >= 0.0:
                direction = -step
            before, old = slope, gradient
            bent = self.h.moving(direction) + (self.v + self.g * density - mu) * direction
            curvature = _mean(direction, bent)
            curvature += 2.0 * self.g * float(((psi.conj() * direction).real ** 2).sum())
            length = -_mean(direction, gradient) / curvature if curvature > 0.0 else 1.0
            psi = psi + length * direction
            psi = psi / np.linalg.norm(psi)
        return _Found(psi, mu, residual, energy)


def _mean(one: NDArray[Any], other: NDArray[Any]) -> float:
    return float(np.vdot(one, other).real)


def _patterns(
    lattice: PlaneLattice, part: tuple[slice, slice], psi: NDArray[np.float64]
) -> Iterator[NDArray[np.complex128]]:
    """Yield a state with vortices at several places: none, some on a ring, with one in the middle, and hexagons."""
    x, y = lattice.axes[0].x[part[0], None], lattice.axes[1].x[part[1]]
    density = psi**2 / (psi**2).sum()
    middle = complex((density * x).sum(), (density * y).sum())
    z = x + 1j * y - middle
    wide = float(np.sqrt(2.0 * (density * np.abs(z) ** 2).sum()))
    turn = sum(lattice.gauge)
    core = 0.2 * wide
    places: list[NDArray[np.complex128]] = [np.zeros(0, complex), np.zeros(1, complex)]
    for count in range(2, RING + 1):
        ring = RADIUS * wide * np.exp(2j * np.pi * np.arange(count) / count)
        places += [ring, np.append(ring, 0.0)] if count > 4 else [ring]
    # as many in an area as a solid body has
    apart = np.sqrt(4.0 * np.pi / (np.sqrt(3.0) * max(abs(turn), 1e-300)))
    reach = 1.3 * wide
    if apart < reach:
        count = int(np.ceil(reach / apart))
        rows = np.arange(-count, count + 1)
        whole = (rows[:, None] + rows * np.exp(1j * np.pi / 3.0)).ravel() * apart
        for shift in (0.0, apart * (1.0 + np.exp(1j * np.pi / 3.0)) / 3.0):
            places.append((whole + shift)[np.abs(whole + shift) < reach])
    for pattern in places:
        out = psi.astype(complex)
        for at in pattern:
            # off the symmetric places, which may be saddles
            w = z - at - (0.02 + 0.01j) * wide
            out *= (w if turn > 0.0 else w.conj()) / np.sqrt(np.abs(w) ** 2 + core**2)
        yield out


def _thomas_fermi(v: NDArray[np.float64], g: float, cell: float) -> NDArray[np.float64]:
    """Return ``max(mu - V, 0) / g`` of the norm 1."""
    low, high = float(v.min()), float(v.min()) + g / cell
    for _ in range(200):
        middle = 0.5 * (low + high)
        full = np.maximum(middle - v, 0.0).sum() * cell > g
        low, high = (low, middle) if full else (middle, high)
    return np.asarray(np.maximum(high - v, 0.0) / g)
