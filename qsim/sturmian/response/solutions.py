"""Levels, transitions and first-order functions at one l_max in one basis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven.sources import multipole
from qsim.sturmian.response.sectors import reached, roots_of, sector_pairs
from qsim.sturmian.two_electron import davidson
from qsim.sturmian.two_electron.hamiltonian import TwoElectron
from qsim.sturmian.two_electron.linear import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.sturmian.problem import Problem
    from qsim.sturmian.response.sectors import Level
    from qsim.sturmian.two_electron.linear import Response

__all__ = ["Atom", "Frequencies", "Reached", "Source"]

# Largest residual of a first-order function relative to its source; quadratic forms have its square.  The source in velocity
# is such a function itself, and its residual counts.  Functions behind a curve need not be as good.
TOLERANCE, OF_SOURCE, OF_CURVE = 1e-6, 1e-7, 1e-3


@dataclass(frozen=True, eq=False)
class Source:
    """A multipole operator applied to a state, in one sector.

    Attributes
    ----------
    vector : (P, M, M)
        In the basis of the sector, on the device.
    norm : float
        Its squared norm on the whole grid: what the basis of the sector does not hold is in it, too.
    """

    vector: FloatArray
    norm: float


@dataclass(frozen=True)
class Frequencies:
    """Values z of the equations ``(H - E - z) u = s``, hartree: in length and velocity, and rough ones of a curve."""

    length: Sequence[complex]
    velocity: Sequence[complex] = ()
    curve: Sequence[complex] = ()


@dataclass(frozen=True, eq=False)
class Reached:
    """A sector that a multipole leads to, with the first-order functions of a state.

    Attributes
    ----------
    L : int
    lengths, velocities : Response or None
        Of the source ``r^k C^k``, and of ``(H - E)^-1 (grad_1 + grad_2)`` in its place; None unless requested.
    moments : tuple of float
        Of the source in length: ``s^T (H - E)^power s`` for the powers 0, 1, 2 in the basis.
    closures : tuple of float
        Squared norms of the sources in length and velocity on the grid.
    """

    L: int
    lengths: Response
    velocities: Response | None
    moments: tuple[float, float, float]
    closures: tuple[float, float]


class Atom:
    """Bound levels of an atom at one l_max in one basis.

    Parameters
    ----------
    problem : Problem
        With the basis; its own sectors are not used.
    l_max : int
        Of S states; other sectors hold pairs up to ``l_max + L``.
    levels : sequence of Level
        Levels to find.
    poll : callable
        Called wherever a run may stop.
    """

    def __init__(
        self, problem: Problem, l_max: int, levels: Sequence[Level], poll: Callable[[], None]
    ) -> None:
        self.problem, self.l_max, self.poll = problem, l_max, poll
        self.planes: dict[int, NDArray[np.float64]] = {}
        self.made: dict[tuple[int, int, str, int], TwoElectron] = {}
        self.operators: dict[tuple[int, int, str], TwoElectron] = {}
        self.found: dict[tuple[int, int, str], davidson.Eigenpairs] = {}
        self.components: dict[Level, dict[tuple[int, int], NDArray[np.float64]]] = {}
        for symmetry, roots in roots_of(levels).items():
            self.operators[symmetry] = self.operator(*symmetry, l_max)
            self.found[symmetry] = davidson.lowest(
                self.operators[symmetry],
                roots,
                tolerance=problem.solver.tolerance,
                max_iterations=problem.solver.max_iterations,
                observe=lambda *_: poll(),
            )
        for level in levels:
            self._require_bound(level)

    def operator(self, L: int, S: int, parity: str, l_max: int) -> TwoElectron:
        """Return the Hamiltonian of a sector with pairs up to ``l_max + L``, made once."""
        key = (L, S, parity, l_max)
        if key not in self.made:
            problem, pairs = self.problem, sector_pairs(L, parity, l_max)
            orbitals = {l: problem.orbitals(l) for l in sorted({l for pair in pairs for l in pair})}
            self.made[key] = TwoElectron(problem.device, problem.grid, orbitals, L, S, pairs, self.planes)
        return self.made[key]

    def energy(self, level: Level) -> float:
        """Return the energy of a level, hartree."""
        return float(self.found[level.symmetry].values[level.root])

    def threshold(self, level: Level) -> float:
        """Return the energy from which the spectrum of a level's symmetry is continuous, hartree."""
        operator = self.operators[level.symmetry]
        lowest = min(float(operator.orbitals[l].e[0]) for pair in operator.pairs for l in pair)
        # the other electron at rest at R, where a confining potential is still positive
        return lowest + max(float(self.problem.V[-1]), 0.0)

    def _require_bound(self, level: Level) -> None:
        """Refuse a level above its threshold."""
        energy, threshold = self.energy(level), self.threshold(level)
        if energy >= threshold:
            raise NumericsError(
                f"the level {level.name} lies at {energy:.6f} hartree, above its threshold {threshold:.6f}: it is not bound",
                hint="a lower root, or a larger grid.R with more functions",
            )

    def vector(self, level: Level) -> FloatArray:
        """Return a level in the orbitals of its operator, (P, M, M), on the device."""
        return self.found[level.symmetry].vectors[level.root]

    def on_grid(self, level: Level) -> dict[tuple[int, int], NDArray[np.float64]]:
        """Return the radial components of a level for every ordered pair, on the product grid."""
        if level not in self.components:
            operator = self.operators[level.symmetry]
            stored = self.problem.device.to_host(operator.on_grid(self.vector(level)[None]))[0]
            made: dict[tuple[int, int], NDArray[np.float64]] = {}
            for (a, b), part in zip(operator.pairs, stored, strict=False):
                # stored components count both orders of the electrons
                made[a, b] = np.asarray(part) * (1.0 if a == b else math.sqrt(0.5))
                if a != b:
                    made[b, a] = exchange_sign(a, b, level.L, level.S) * made[a, b].T
            self.components[level] = made
        return self.components[level]

    def source(self, level: Level, operator: TwoElectron, order: int, gauge: str) -> Source:
        """Return a multipole operator applied to a level, reduced, in the sector of an operator."""
        grid, device = self.problem.grid, self.problem.device
        applied = multipole(
            grid, operator.pairs, operator.L, self.on_grid(level), level.L, order, gauge, self.problem.Z
        ).real
        projected = operator.project(device.asarray(np.ascontiguousarray(applied))[None])
        return Source(operator.symmetrise(projected)[0], float(np.sum(applied**2)))

    def element(self, final: Level, level: Level, order: int, gauge: str) -> float:
        """Return the reduced element of a multipole between two levels; its sign is that of their vectors."""
        operator = self.operators[final.symmetry]
        source = self.source(level, operator, order, gauge).vector
        return float(self.problem.device.xp.sum(self.vector(final) * source))

    # ----------------------------------------------------------------------------- first order

    def reached(self, level: Level, order: int, frequencies: Frequencies) -> list[Reached]:
        """Return the first-order functions of a level under a multipole, one for each sector that it leads to.

        Parameters
        ----------
        level : Level
        order : int
            1 dipole, 2 quadrupole.
        frequencies : Frequencies
        """
        return [self._sector(level, order, L, parity, frequencies) for L, parity in reached(level, order)]

    def _sector(self, level: Level, order: int, L: int, parity: str, frequencies: Frequencies) -> Reached:
        """Return the first-order functions of a level in one sector."""
        energy, same = self.energy(level), (L, level.S, parity) == level.symmetry
        # Momenta up to k more than the level has. Where the sector is that of the level itself, only with equal pairs
        # is the level a state of it, which is then left out.
        extra = 0 if same else level.L + order - L
        operator = (
            self.operators[level.symmetry] if same else self.operator(L, level.S, parity, self.l_max + extra)
        )
        space = Space(operator, energy, self.vector(level) if same else None)
        length = self.source(level, operator, order, "length")
        if frequencies.curve:
            space.solve(length.vector, frequencies.curve, tolerance=OF_CURVE, observe=self.poll)
        lengths, _ = space.solve(length.vector, frequencies.length, tolerance=TOLERANCE, observe=self.poll)
        velocities, norm = None, math.nan
        if order == 1:
            source = self.source(level, operator, 1, "velocity")
            norm = source.norm
            if frequencies.velocity:
                # (H - E)^-1 (grad_1 + grad_2) is the dipole in velocity, as [H, z] = -d/dz
                _, moved = space.solve(source.vector, [0.0], tolerance=OF_SOURCE, observe=self.poll)
                velocities, _ = space.solve(
                    moved[0], frequencies.velocity, tolerance=TOLERANCE, observe=self.poll
                )
        return Reached(
            L, lengths, velocities, self._moments(operator, energy, length.vector), (length.norm, norm)
        )

    def _moments(self, operator: TwoElectron, energy: float, s: FloatArray) -> tuple[float, float, float]:
        """Return ``s^T (H - E)^power s`` for the powers 0, 1, 2."""
        xp = self.problem.device.xp
        image = operator.apply(s[None])[0] - energy * s
        return float(xp.sum(s * s)), float(xp.sum(s * image)), float(xp.sum(image * image))
