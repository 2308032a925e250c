r"""The trial function ``psi = sum_k c_k D_up D_dn exp(-J)`` of a system: tables for kernels, a plain reference of results.

The reference (`Wavefunction.log_psi`, `Wavefunction.gradient`, `Wavefunction.local_energy` and so on) takes one configuration
at a time, recomputes everything and is slow; it uses the tables, so that kernels in double precision agree with it to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.qmc.kernels.common.types import COMPONENTS, JastrowTables
from qsim.qmc.kernels.molecule.types import HamiltonianTables, OrbitalTables
from qsim.qmc.system import radial
from qsim.qmc.system.quadrature import legendre
from qsim.qmc.wavefunction.jastrow import FIRST_CHI, Jastrow

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

    from qsim.qmc.estimators.histograms import Periodic
    from qsim.qmc.system.ions import System
    from qsim.qmc.system.quadrature import Rule
    from qsim.qmc.wavefunction.expansion import Expansion
    from qsim.qmc.wavefunction.jastrow import Jastrow
    from qsim.qmc.wavefunction.mixing import Mixing
    from qsim.qmc.wavefunction.molecules.orbitals import OrbitalSet

__all__ = ["NonlocalTerm", "Wavefunction"]


class NonlocalTerm(NamedTuple):
    """Tables of the nonlocal pseudopotentials for an electron near an ion.

    Attributes
    ----------
    electron, atom
        Which.
    points : (Q, 3) float64
        Where the electron would be, bohr.
    amplitudes : (Q,) float64
        ``w_q sum_l (2l + 1) (V_l - V_loc)(r) P_l(cos theta_q) psi(r_q) / psi``, hartree; their sum is the nonlocal energy,
        the negative ones are T-moves.
    """

    electron: int
    atom: int
    points: NDArray[np.float64]
    amplitudes: NDArray[np.float64]


@dataclass(frozen=True)
class Wavefunction:
    """System, orbitals and Jastrow factor.

    Attributes
    ----------
    system, orbitals, jastrow
        Its parts.
    rule
        Of the spherical averages of nonlocal pseudopotentials.
    expansion
        Determinants of the orbitals.
    mixing
        Where the orbitals are from, if an optimisation may change them.
    """

    system: System
    orbitals: OrbitalSet
    jastrow: Jastrow
    rule: Rule
    expansion: Expansion
    mixing: Mixing | None = field(default=None, kw_only=True)

    def periodic(self) -> Periodic | None:
        """Return what estimators need to know of a crystal; None in open boundaries."""
        return None

    @property
    def n_up(self) -> int:
        """Electrons with spin up."""
        return self.system.n_up

    @property
    def n_dn(self) -> int:
        """Electrons with spin down."""
        return self.system.n_dn

    @property
    def n_electrons(self) -> int:
        """All electrons."""
        return self.system.n_electrons

    @property
    def shares(self) -> dict[str, int]:
        """Numbers of equal parts that the energy of a crystal is told for; empty for a molecule."""
        return {}

    @property
    def ion_ion(self) -> float:
        """Repulsion of the ions, hartree."""
        return self.system.ion_ion

    # -------------------------------------------------------------------------------- tables

    def orbital_tables(self, real: DTypeLike = np.float64) -> OrbitalTables:
        """Return the orbitals as kernels take them."""
        return self.orbitals.tables(real, None if self.mixing is None else self.mixing.start)

    def start_tables(self, real: DTypeLike = np.float64) -> OrbitalTables | None:
        """Return all orbitals that mix, with the same shells; None if none do."""
        return None if self.mixing is None else self.mixing.start.tables(real)

    def jastrow_tables(self) -> JastrowTables:
        """Return the Jastrow factor as kernels take it: centres without charge have the last function, which is zero."""
        tables = self.jastrow.tables()
        zero = len(self.jastrow.functions) - 1 - FIRST_CHI
        return tables._replace(species=np.append(tables.species, np.full(self._ghosts, zero, np.int64)))

    @property
    def _ghosts(self) -> int:
        """Number of centres that have basis functions, but no charge; they come after the ions."""
        return max(0, len(self.orbitals.centres) - len(self.system.symbols))

    @cached_property
    def _hamiltonian(self) -> HamiltonianTables:
        """Return the tables of the Hamiltonian: charges, pseudopotentials by species, quadrature, trap."""
        system = self.system
        # One table for each species that has a pseudopotential.
        with_one = [symbol for symbol in system.species if symbol in system.pseudopotentials]
        found = [system.pseudopotentials[symbol] for symbol in with_one]
        channels = max([p.channels for p in found], default=0)
        tables = [p.tables(max(channels, 1)) for p in found]
        count = max(len(found), 1)  # tables are never empty
        local = np.zeros((count, radial.INTERVALS, 6))
        delta = np.zeros((count, max(channels, 1), radial.INTERVALS, 6))
        # Channels of species that have fewer stay zero.
        for k, (a, b) in enumerate(tables):
            local[k], delta[k] = a, b
        potential = [with_one.index(s) if s in with_one else -1 for s in system.symbols]
        return HamiltonianTables(
            charge=np.append(system.charges, np.zeros(self._ghosts)),
            omega=float(system.omega),
            mass=float(system.mass),
            interacting=int(system.interacting),
            potential=np.array(potential + [-1] * self._ghosts, np.int64),
            local=local,
            delta=delta,
            channels=np.array([p.channels for p in found], np.int64),
            cutoff=np.array([p.cutoff for p in found], np.float64),
            points=self.rule.points,
            weights=self.rule.weights,
        )

    def hamiltonian_tables(self) -> HamiltonianTables:
        """Return charges, pseudopotentials and the rest of the Hamiltonian as kernels take them."""
        return self._hamiltonian

    # ---------------------------------------------------------------------------- parameters

    @property
    def parameters(self) -> NDArray[np.float64]:
        """All that an optimisation may change: Jastrow factor of uu, ud and each species, then determinants, then orbitals."""
        mixed = np.zeros(0) if self.mixing is None else self.mixing.values
        return np.concatenate([self.jastrow.parameters, self.expansion.parameters, mixed])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Their names."""
        mixed = () if self.mixing is None else self.mixing.names
        return (*self.jastrow.names, *(f"c_{k + 1}" for k in range(self.expansion.parameters.size)), *mixed)

    def with_parameters(self, values: NDArray[np.float64]) -> Self:
        """Return the wavefunction with other parameters."""
        own = len(self.jastrow.names)
        jastrow, expansion = self.jastrow.with_parameters(values[:own]), self.expansion
        # Tables of strings and of orbitals take longer than those of a Jastrow factor.
        coefficients, mixed = np.split(values[own:], [expansion.parameters.size])
        if not np.array_equal(coefficients, expansion.parameters):
            expansion = expansion.with_parameters(coefficients)
        orbitals, mixing = self.orbitals, self.mixing
        if mixing is not None and not np.array_equal(mixed, mixing.values):
            mixing = mixing.with_values(mixed)
            orbitals = mixing.orbitals()
        return replace(self, jastrow=jastrow, expansion=expansion, orbitals=orbitals, mixing=mixing)

    # ----------------------------------------------------------------------------- positions

    def start_positions(self, order: int | None = None) -> NDArray[np.float64]:
        """Return the atoms that electrons start from, shared out to the ions by their charges, spins in turn: (N, 3), bohr.

        Parameters
        ----------
        order
            Number of a random order of the atoms, which decides what spin each has, and of ions which ones have electrons at
            all.  None: that of the input.
        """
        atoms = np.arange(len(self.system.symbols))
        if order is not None:
            # an order and its reverse follow each other: of two atoms each comes first in half of the cases
            atoms = np.random.default_rng(order // 2).permutation(atoms)[:: 1 - 2 * (order % 2)]
        return self.system.positions[self._homes(atoms)]

    def _homes(self, atoms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the atom of each electron, (N,), with the atoms in an order."""
        system = self.system
        # As many electrons at an ion as its charge, spins in turn: neighbours in a molecule
        # start with opposite spins on average.
        seats = [a for a in atoms for _ in range(round(system.charges[a]))]
        up: list[int] = []
        dn: list[int] = []
        for k, a in enumerate(seats):
            # The spin whose turn it is, unless all of it are placed.
            first, second = (up, dn) if k % 2 == 0 else (dn, up)
            room = (system.n_up, system.n_dn) if first is up else (system.n_dn, system.n_up)
            if len(first) < room[0]:
                first.append(a)
            elif len(second) < room[1]:
                second.append(a)
        for spin, wanted in ((up, system.n_up), (dn, system.n_dn)):
            # Electrons beyond the charges, of negative ions.
            spin += [atoms[k % len(atoms)] for k in range(wanted - len(spin))]
        return np.array(up + dn)

    def scatter(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw configurations to try: normal around the atoms of `start_positions`.

        Returns
        -------
        (count, N, 3) float64
            Bohr.
        """
        system = self.system
        # Heavy ions hold electrons closer.
        homes = self._homes(np.arange(len(system.symbols)))
        width = np.where(system.charges[homes] > 2.0, 0.6, 1.0)
        if system.omega > 0.0:
            width = np.full(self.n_electrons, 1.0 / np.sqrt(2.0 * system.mass * system.omega))
        return self.start_positions() + width[:, None] * generator.normal(size=(count, self.n_electrons, 3))

    # ----------------------------------------------------------------------------- reference

    def _rows(self, R: NDArray[np.float64], spin: int) -> NDArray[np.float64]:
        """Return the rows (n, 5, M) of the electrons of a spin over the orbitals that occur."""
        known = self._known.get((spin, R.tobytes()))
        if known is not None:
            return known
        part = R[: self.n_up] if spin == 0 else R[self.n_up :]
        return self.orbitals.rows(part, spin)[:, :, : self.expansion.orbitals[spin]]

    @cached_property
    def _known(self) -> dict[tuple[int, bytes], NDArray[np.float64]]:
        """Rows by the spin and the bytes of a configuration."""
        return {}

    def knowing(self, configurations: NDArray[np.float64]) -> Self:
        """Return the same trial function, with the orbitals at some configurations (count, N, 3) made in one call.

        A call of a few points takes as long as one of hundreds: most of it goes from shell to shell.
        """
        made = replace(self)
        for spin, part in enumerate((slice(0, self.n_up), slice(self.n_up, None))):
            points = configurations[:, part]
            count, n = points.shape[:2]
            M = self.expansion.orbitals[spin]
            rows = self.orbitals.rows(points.reshape(-1, 3), spin)[:, :, :M]
            for R, own in zip(configurations, rows.reshape(count, n, 5, M), strict=True):
                made._known[spin, R.tobytes()] = own
        return made

    def log_psi(self, R: NDArray[np.float64]) -> tuple[float, float]:
        """Return log|psi| and the sign of psi at one configuration (N, 3)."""
        # The plain reference of the kernels: determinants, inverses and distances by NumPy, in full for each configuration.
        log, sign = self._determinants(R)[0]
        return log - self.jastrow.value(R, self.system.positions), float(sign)

    def _determinants(self, R: NDArray[np.float64]) -> tuple[tuple[float, Any], list[NDArray[Any]]]:
        """Return log and sign of the determinants, and their logarithmic derivatives by the orbitals of each spin, (M, n)."""
        return self.expansion.values([self._rows(R, spin)[:, 0] for spin in range(2)])

    def _log_derivatives(self, R: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return grad psi / psi (N, 3) and lap psi / psi by electron (N,)."""
        jastrow_gradient, jastrow_laplacian = self.jastrow.derivatives(R, self.system.positions)
        gradient, laplacian = np.empty_like(R), np.empty(len(R))
        slopes = self._determinants(R)[1]
        for spin, part in enumerate((slice(0, self.n_up), slice(self.n_up, None))):
            rows, inverse = self._rows(R, spin), slopes[spin]
            # grad D / D = sum of the gradients of a row with the column of the inverse, or of what takes its place; the
            # Laplacian likewise.
            gradient[part] = np.einsum("ixo,oi->ix", rows[:, 1:4], inverse)
            laplacian[part] = np.einsum("io,oi->i", rows[:, 4], inverse)
        # lap psi / psi for psi = D exp(-J).
        laplacian += (
            (jastrow_gradient**2).sum(1) - jastrow_laplacian - 2.0 * (gradient * jastrow_gradient).sum(1)
        )
        return gradient - jastrow_gradient, laplacian

    def gradient(self, R: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient of log|psi|, (N, 3) in 1/bohr."""
        return self._log_derivatives(R)[0]

    def laplacian_over_psi(self, R: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Laplacian of psi over psi by electron, (N,) in 1/bohr^2."""
        return self._log_derivatives(R)[1]

    def _ratios(self, R: NDArray[np.float64], e: int, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return psi with electron e at points (Q, 3) over psi, (Q,)."""
        spin = 0 if e < self.n_up else 1
        first = 0 if spin == 0 else self.n_up
        # Psi is linear in the row of an electron.
        column = self._determinants(R)[1][spin][:, e - first]
        ratios = self.orbitals.rows(points, spin)[:, 0, : len(column)] @ column
        before = self.jastrow.value(R, self.system.positions)
        for q, point in enumerate(points):
            # The whole Jastrow factor again for each point: slow, and obviously right.
            moved = R.copy()
            moved[e] = point
            ratios[q] *= np.exp(before - self.jastrow.value(moved, self.system.positions))
        return ratios

    def nonlocal_terms(
        self, R: NDArray[np.float64], rotations: NDArray[np.float64] | None = None
    ) -> list[NonlocalTerm]:
        """Return all terms of the nonlocal pseudopotentials.

        Parameters
        ----------
        R : (N, 3) float64
        rotations : (3, 3) or (N, A, 3, 3) float64
            Of the rule's points, ``rotation @ point``; None: as they are.
        """
        tables = self.hamiltonian_tables()
        N, A = len(R), len(self.system.symbols)
        turns = np.broadcast_to(np.eye(3) if rotations is None else rotations, (N, A, 3, 3))
        terms = []
        for e in range(N):
            for a in range(A):
                p = int(tables.potential[a])
                d = R[e] - self.system.positions[a]
                r = float(np.linalg.norm(d))
                if p < 0 or r >= tables.cutoff[p]:
                    continue
                # Points on the sphere through the electron, around the ion.
                directions = self.rule.points @ turns[e, a].T
                count = int(tables.channels[p])
                polynomials = legendre(count, directions @ d / r)
                potential = [
                    (2 * l + 1) * radial.evaluate(tables.delta[p, l], np.array([r])).value[0]
                    for l in range(count)
                ]
                points = self.system.positions[a] + r * directions
                amplitudes = self.rule.weights * (np.array(potential) @ polynomials)
                terms.append(NonlocalTerm(e, a, points, amplitudes * self._ratios(R, e, points)))
        return terms

    def local_energy(
        self, R: NDArray[np.float64], rotations: NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        """Return the local energy of one configuration by component, hartree; the total includes the repulsion of the ions.

        Parameters
        ----------
        R, rotations
            As for `nonlocal_terms`.
        """
        system, tables = self.system, self.hamiltonian_tables()
        energy = dict.fromkeys(COMPONENTS, 0.0)
        energy["kinetic"] = float(-0.5 / system.mass * self.laplacian_over_psi(R).sum())
        if system.interacting:
            r = np.linalg.norm(R[:, None] - R, axis=-1)
            energy["electron_electron"] = float((1.0 / r[np.triu_indices(len(R), 1)]).sum())
        # Ions alone: centres without charge come after them.
        for a, p in enumerate(tables.potential[: len(system.symbols)]):
            r = np.linalg.norm(R - system.positions[a], axis=-1)
            short = radial.evaluate(tables.local[p], r).value if p >= 0 else 0.0
            energy["local"] += float(((short - system.charges[a]) / r).sum())
        energy["nonlocal"] = float(sum(term.amplitudes.sum() for term in self.nonlocal_terms(R, rotations)))
        energy["external"] = float(0.5 * system.mass * system.omega**2 * (R**2).sum())
        energy["total"] = sum(energy.values()) + system.ion_ion
        return energy
