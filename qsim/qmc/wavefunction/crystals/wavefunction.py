r"""The trial function of a crystal: Bloch determinants times a Jastrow factor, the periodic Hamiltonian, and their reference.

The energies follow one convention: every Coulomb sum uses potentials of zero average.

``electron_electron``
    :math:`\sum_{i<j}v(r_{ij})+N\xi/2`
``local``
    :math:`-\sum_{iI}Z_Iv(r_{iI})+\sum_{iI}\sum_T[V_\mathrm{loc}+Z/r](|r_{iI}+T|)`, the average of the second part included
``ion_ion``
    the Ewald energy of the ions
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.estimators.histograms import Periodic
from qsim.qmc.kernels.common.types import COMPONENTS
from qsim.qmc.kernels.crystal.types import CrystalHamiltonian, CrystalOrbitals
from qsim.qmc.system import ewald, radial
from qsim.qmc.system.quadrature import legendre
from qsim.qmc.wavefunction.slater_jastrow import NonlocalTerm, Wavefunction

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.arrays import IndexArray
    from qsim.qmc.system.breakup import Breakup
    from qsim.qmc.system.cell import Cell
    from qsim.qmc.wavefunction.crystals.bloch import BlochOrbitals

__all__ = ["CrystalWavefunction"]

PLASTIC = 1.2207440846057596  # root of x^4 = x + 1, whose powers give an even sequence of points
NEGLIGIBLE = 1e-9  # of the largest value of r V_loc + Zeff: what lies farther out is cut off


@dataclass(frozen=True)
class CrystalWavefunction(Wavefunction):
    """System, Bloch orbitals, Jastrow factor and the divided Coulomb potential of a supercell.

    Attributes
    ----------
    breakup
        The Coulomb potential of the supercell.
    """

    orbitals: BlochOrbitals  # type: ignore[assignment]
    breakup: Breakup

    @property
    def cell(self) -> Cell:
        """The supercell."""
        return self.breakup.cell

    @property
    def shares(self) -> dict[str, int]:
        """Atoms and primitive cells of the supercell, or electrons where there are no ions."""
        if not self.system.charges.any():
            return {"electron": self.n_electrons}
        cells = round(self.cell.volume / self.orbitals.primitive.volume)
        return {"atom": len(self.system.charges), "cell": cells}

    def periodic(self) -> Periodic:
        """Return what estimators need to know of the supercell."""
        primitive = self.orbitals.primitive
        return Periodic(
            waves=self.breakup.waves @ self.cell.reciprocal,
            ions=bool(self.system.charges.any()),
            radius=self.cell.radius,
            volume=self.cell.volume,
            lattice=primitive.lattice,
            inverse=primitive.inverse,
            orbitals=self.orbital_tables,
        )

    @cached_property
    def ion_ion(self) -> float:
        """Ewald energy of the ions, hartree."""
        system = self.system
        if not system.charges.any():
            return 0.0
        return ewald.ewald_energy(self.cell, system.charges, system.positions)

    # -------------------------------------------------------------------------------- tables

    def orbital_tables(self, real: DTypeLike = np.float64) -> CrystalOrbitals:  # type: ignore[override]
        """Return the orbitals as kernels take them."""
        return self.orbitals.tables(real)

    @cached_property
    def _periodic(self) -> CrystalHamiltonian:
        open_, breakup, N = self._hamiltonian, self.breakup, self.n_electrons
        # The range of r V_loc + Z, beyond which an image of an ion is its Coulomb potential
        # alone.
        reach = np.zeros(len(open_.cutoff))
        for k in range(len(reach)):
            values = np.abs(radial.evaluate(open_.local[k], radial.KNOTS[:-1]).value)
            far = np.flatnonzero(values > NEGLIGIBLE * max(1.0, values.max()))
            reach[k] = radial.KNOTS[far[-1] + 1] if far.size else 0.0
        # Images that can come within any of the ranges.
        range_ = max(float(reach.max(initial=0.0)), float(open_.cutoff.max(initial=0.0)), 1e-3)
        waves = breakup.waves @ self.cell.reciprocal
        charge = self.system.charges
        # The charge density of the ions at the waves: fixed, so that a wave of the electrons
        # meets one number.
        phases = np.exp(1j * waves @ self.system.positions.T) @ charge
        return CrystalHamiltonian(
            mass=open_.mass,
            charge=charge,
            potential=open_.potential,
            local=open_.local,
            reach=reach,
            delta=open_.delta,
            channels=open_.channels,
            cutoff=open_.cutoff,
            points=open_.points,
            weights=open_.weights,
            images=np.ascontiguousarray(self.cell.images(range_)),
            pair=breakup.table,
            pair_reach=breakup.rc,
            waves=breakup.waves,
            inverse=np.ascontiguousarray(self.cell.inverse),
            weight=breakup.weights,
            ions=np.ascontiguousarray(np.stack([phases.real, phases.imag], -1)),
            repulsion=0.5 * N * breakup.xi - 0.5 * N * (N - 1) * breakup.average,
            attraction=float(charge.sum()) * N * breakup.average,
            most_wave=int(np.abs(breakup.waves).max(initial=1)),
            slots=self._most_ions(open_.potential, open_.channels, open_.cutoff),
        )

    def _most_ions(self, potential: IndexArray, channels: IndexArray, cutoff: NDArray[np.float64]) -> int:
        """Return a bound of the ions, images included, in whose nonlocal ranges a point can lie at once.

        Two of them are closer than the sum of their ranges, so none of them has more neighbours in that sense.
        """
        # Lists on a GPU have a fixed length: a bound of what they must hold.
        ions = [a for a, p in enumerate(potential) if p >= 0 and channels[p] > 0]
        if not ions:
            return 0
        places, ranges = self.system.positions[ions], cutoff[potential[ions]]
        images = self.cell.images(2.0 * float(ranges.max()))
        most = 1
        for place, reach in zip(places, ranges, strict=True):
            # Pairs of ranges that overlap, images included.
            apart = np.linalg.norm(self.cell.fold(places - place)[:, None] + images, axis=-1)
            most = max(most, int((apart < (ranges + reach)[:, None]).sum()))
        return most

    def hamiltonian_tables(self) -> CrystalHamiltonian:  # type: ignore[override]
        """Return charges, pseudopotentials and the Coulomb potential as kernels take them."""
        return self._periodic

    def with_parameters(self, values: NDArray[np.float64]) -> Self:
        """Return the trial function with other parameters."""
        made = super().with_parameters(values)
        # Ewald sums and tables do not depend on the Jastrow factor: an optimisation would
        # make them anew in each step.
        made.__dict__["_periodic"] = self._periodic
        made.__dict__["ion_ion"] = self.ion_ion
        return made

    # ----------------------------------------------------------------------------- positions

    def start_positions(self, order: int | None = None) -> NDArray[np.float64]:
        """Return where electrons start, (N, 3) in bohr: at the ions, or spread evenly over the cell of the electron gas."""
        if self.system.charges.any():
            return super().start_positions(order)
        # A sequence of low discrepancy in three dimensions: electrons of the gas start evenly
        # spread, whatever their number.
        steps = PLASTIC ** -np.arange(1.0, 4.0)
        u = (0.5 + np.arange(1, self.n_electrons + 1)[:, None] * steps) % 1.0
        return np.asarray(u @ self.cell.lattice)

    # ----------------------------------------------------------------------------- reference

    def log_psi(self, R: NDArray[np.float64]) -> tuple[float, float]:
        """Return log|psi| and the sign of psi at one configuration (N, 3); 1 for complex determinants."""
        log, sign = self._determinants(R)[0]
        # Complex determinants have a phase, which the fixed-phase approximation keeps.
        return log - self.jastrow.value(R, self.system.positions), float(
            sign.real
        ) if self.orbitals.real else 1.0

    def _log_derivatives(self, R: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the real parts of grad psi / psi (N, 3) and of lap psi / psi by electron (N,)."""
        jastrow_gradient, jastrow_laplacian = self.jastrow.derivatives(R, self.system.positions)
        gradient, laplacian = np.empty_like(R), np.empty(len(R))
        slopes = self._determinants(R)[1]
        for spin, part in enumerate((slice(0, self.n_up), slice(self.n_up, None))):
            rows, inverse = self._rows(R, spin), slopes[spin]
            gradient[part] = np.einsum("ixo,oi->ix", rows[:, 1:4], inverse).real
            laplacian[part] = np.einsum("io,oi->i", rows[:, 4], inverse).real
        laplacian += (
            (jastrow_gradient**2).sum(1) - jastrow_laplacian - 2.0 * (gradient * jastrow_gradient).sum(1)
        )
        return gradient - jastrow_gradient, laplacian

    def nonlocal_terms(
        self, R: NDArray[np.float64], rotations: NDArray[np.float64] | None = None
    ) -> list[NonlocalTerm]:
        """Return all terms of the nonlocal pseudopotentials, those of periodic images one by one.

        Parameters
        ----------
        R : (N, 3) float64
        rotations : (3, 3) or (N, A, images, 3, 3) float64
            Of the rule's points; None: as they are.
        """
        tables = self.hamiltonian_tables()
        N, A = len(R), len(self.system.symbols)
        shape = (N, A, len(tables.images), 3, 3)
        turns = np.broadcast_to(np.eye(3) if rotations is None else rotations, shape)
        terms = []
        for e in range(N):
            for a in range(A):
                p = int(tables.potential[a])
                folded = self.cell.fold(R[e] - self.system.positions[a])
                # Each image within the range is an ion of its own.
                for image, d in enumerate(folded + tables.images):
                    r = float(np.linalg.norm(d))
                    if p < 0 or r >= tables.cutoff[p]:
                        continue
                    directions = self.rule.points @ turns[e, a, image].T
                    count = int(tables.channels[p])
                    polynomials = legendre(count, directions @ d / r)
                    potential = [
                        (2 * l + 1) * radial.evaluate(tables.delta[p, l], np.array([r])).value[0]
                        for l in range(count)
                    ]
                    points = R[e] - d + r * directions
                    amplitudes = self.rule.weights * (np.array(potential) @ polynomials)
                    terms.append(NonlocalTerm(e, a, points, amplitudes * self._ratios(R, e, points)))
        return terms

    def _ratios(self, R: NDArray[np.float64], e: int, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the real part of psi with electron e at points (Q, 3) over psi, (Q,)."""
        spin = 0 if e < self.n_up else 1
        first = 0 if spin == 0 else self.n_up
        column = self._determinants(R)[1][spin][:, e - first]
        ratios = (self.orbitals.rows(points, spin)[:, 0, : len(column)] @ column).real
        # Change of the exponent by the electron that moves.
        after = self.jastrow.of_electron(R, e, np.concatenate([R[e][None], points]), self.system.positions)
        ratios *= np.exp(after[0] - after[1:])
        return ratios

    def local_energy(
        self, R: NDArray[np.float64], rotations: NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        """Return the local energy of one configuration by component, hartree, with converged Ewald sums."""
        system, tables, cell = self.system, self.hamiltonian_tables(), self.cell
        energy: dict[str, Any] = dict.fromkeys(COMPONENTS, 0.0)
        energy["kinetic"] = float(-0.5 / system.mass * self.laplacian_over_psi(R).sum())
        i, j = np.triu_indices(len(R), 1)
        # Each electron with its own images, then pairs by converged Ewald sums: independent
        # of the division that kernels use.
        energy["electron_electron"] = 0.5 * len(R) * self.breakup.xi
        if i.size:
            energy["electron_electron"] += float(ewald.potential(cell, R[i] - R[j]).sum())
        for a, p in enumerate(tables.potential):
            if system.charges[a] == 0.0:
                continue
            d = R - system.positions[a]
            energy["local"] -= float(system.charges[a] * ewald.potential(cell, d).sum())
            if p >= 0:
                r = np.linalg.norm(cell.fold(d)[:, None] + tables.images, axis=-1).ravel()
                r = r[r < tables.reach[p]]
                energy["local"] += float((radial.evaluate(tables.local[p], r).value / r).sum())
        energy["nonlocal"] = float(sum(term.amplitudes.sum() for term in self.nonlocal_terms(R, rotations)))
        energy["total"] = sum(energy.values()) + self.ion_ion
        return energy
