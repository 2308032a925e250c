"""The system, and work space of each thread, as kernels of walkers take them on the CPU."""

from __future__ import annotations

import math
import threading
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from qsim.core.device.arrays import Array
from qsim.qmc.kernels.common.inverses_cpu import DELAYED
from qsim.qmc.kernels.common.tables import Tables
from qsim.qmc.kernels.common.types import WINDOW, JastrowTables, State, Work
from qsim.qmc.kernels.crystal.types import CrystalHamiltonian, CrystalOrbitals, CrystalWork, basis_of
from qsim.qmc.kernels.expansion.types import ExpansionTables, OneDeterminant
from qsim.qmc.kernels.molecule.types import HamiltonianTables, MoleculeWork, OrbitalTables

__all__ = ["Spaces", "System", "space_of_one", "spaces", "system_of"]

Static: TypeAlias = int | None  # None: what depends on it is not compiled


class System(NamedTuple):
    """A trial function and a Hamiltonian, and what the compiler has to know of them.

    Attributes
    ----------
    orbitals, jastrow, hamiltonian, ion_ion, n_up
        As in `Tables`.
    is_complex : int
        Whether determinants are complex.
    basis : tuple
        The basis of a crystal's orbitals, see `basis_of`; empty for molecules.
    pseudopotentials
        None if there are none.
    windows
        None if no inverse is large enough for delayed updates.
    expansion
        The determinants.
    start
        Orbitals that mix; `orbitals` where none do.
    """

    orbitals: OrbitalTables | CrystalOrbitals
    jastrow: JastrowTables
    hamiltonian: HamiltonianTables | CrystalHamiltonian
    ion_ion: float
    n_up: int
    is_complex: int
    basis: tuple[int, ...]
    pseudopotentials: Static
    windows: Static
    expansion: OneDeterminant | ExpansionTables
    start: OrbitalTables | CrystalOrbitals


def system_of(state: State, tables: Tables) -> System:
    """Return the system in types that are the same for all its jobs, so that there is one compiled kernel for it."""
    orbitals, n_up = tables.orbitals, int(tables.n_up)
    basis: tuple[int, ...] = ()
    windows = False
    if isinstance(orbitals, CrystalOrbitals):
        basis = basis_of(orbitals)
        one = isinstance(tables.expansion, OneDeterminant)
        windows = one and max(n_up, state.R.shape[1] - n_up) >= DELAYED
    return System(
        orbitals,
        tables.jastrow,
        tables.hamiltonian,
        float(tables.ion_ion),
        n_up,
        int(tables.is_complex),
        basis,
        1 if tables.hamiltonian.channels.shape[0] > 0 else None,
        1 if windows else None,
        tables.expansion,
        orbitals if tables.start is None else tables.start,
    )


# --------------------------------------------------------------------------------------- work space

APART = 128  # bytes between what two threads write, so that they share no line of the cache


class Spaces(NamedTuple):
    """Work space of some threads.

    Attributes
    ----------
    workers : int
        Number of threads.
    arrays
        The work space of one thread after another in each array.
    """

    workers: int
    arrays: Work


_local = threading.local()


def spaces(workers: int, state: State, tables: Tables) -> Spaces:
    """Return work space for some threads, kept by the thread that asks as long as shapes stay the same."""
    key = (
        tables.is_complex,
        state.R.shape[1:],
        state.inverse.shape[1:],
        state.rows.shape[1:],
        state.expansion.shape[1:],
        state.rows.dtype,
        *(np.shape(array) for array in (*tables.orbitals, *tables.hamiltonian, *tables.expansion)),
        None if tables.start is None else tables.start.coefficients.shape,
        getattr(tables.orbitals, "tin_lmax", 0),
        getattr(tables.hamiltonian, "most_wave", 0),
    )
    kept: dict[int, tuple[object, Spaces]] = _local.__dict__.setdefault("spaces", {})
    if workers not in kept or kept[workers][0] != key:
        kept[workers] = key, Spaces(workers, _Stacks(workers).work(state, tables))
    return kept[workers][1]


def space_of_one(state: State, tables: Tables) -> Work:
    """Return the work space of a single thread, as kernels that take no part in a team need it."""
    arrays = spaces(1, state, tables).arrays
    own = arrays.own
    assert isinstance(own, CrystalWork | MoleculeWork)
    first = type(own)(*(array[0] for array in own))
    return Work._make((*(array[0] for array in arrays[:-1]), first))


class _Stacks:
    """Makes arrays in which each of some threads has a part of its own."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = float) -> Array:
        """Return zeros of a shape for each thread, which lie `APART`."""
        shape = shape if isinstance(shape, tuple) else (shape,)
        # As many more rows as lie between two threads.
        apart = -(-APART // max(1, math.prod(shape) * np.dtype(dtype).itemsize))
        return np.zeros((self.workers * (1 + apart), *shape), dtype)

    def work(self, state: State, tables: Tables) -> Work:
        """Return work space for walkers."""
        electrons, n, M, kind = (
            state.R.shape[1],
            state.inverse.shape[2],
            state.rows.shape[3],
            state.rows.dtype,
        )
        orbitals, hamiltonian = tables.orbitals, tables.hamiltonian
        atoms, points = orbitals.atom.shape[0], hamiltonian.points.shape[0]
        own: CrystalWork | MoleculeWork
        if isinstance(orbitals, CrystalOrbitals):
            assert isinstance(hamiltonian, CrystalHamiltonian)
            own, width, window = self._crystal(orbitals, hamiltonian, kind), M, WINDOW
            points *= hamiltonian.images.shape[0]
        else:
            own, width, window = self._molecule(orbitals, electrons), _fours(M), 0
        expansion = tables.expansion
        strings = len(expansion.begin) - 1 if isinstance(expansion, ExpansionTables) else 0
        double = np.complex128 if tables.is_complex else np.float64
        turned = strings > 0 or tables.start is not None
        mixed = 1 if tables.start is None else tables.start.coefficients.shape[2]
        return Work(
            rows=self.zeros((5, width), kind),
            column=self.zeros(n, kind),
            Q=self.zeros((3, 3)),
            factors=self.zeros(8),
            J=self.zeros((electrons, 5)),
            targets=self.zeros((electrons, max(1, atoms * points), 4)),
            counts=self.zeros(electrons, np.int64),
            matrix=self.zeros((n, n), double),
            fresh=self.zeros((n, n), double),
            identity=self.zeros((n, n), double),
            bar=self.zeros(strings, double),
            weights=self.zeros(strings, double),
            Y=self.zeros(max(1, n * M if strings else 1), double),
            stale=self.zeros(1, np.int64),
            columns=self.zeros((electrons, M if strings else 1), double),
            tangent=self.zeros(expansion.numbers if strings else 1, double),
            bar_tangent=self.zeros(strings, double),
            Y_tangent=self.zeros(max(1, n * M if strings else 1), double),
            bodies=self.zeros((electrons, M if turned else 1), double),
            turned=self.zeros((electrons, M if turned else 1), double),
            start_rows=self.zeros((5, _fours(mixed)), kind),
            start=self.zeros((2, electrons, mixed)),
            kept=self.zeros((2, window, n), kind),
            own=own,
        )

    def _molecule(self, orbitals: OrbitalTables, electrons: int) -> MoleculeWork:
        partners = _fours(electrons + orbitals.atom.shape[0])
        # Shells of an atom come in vectors of four.
        shells = _fours(orbitals.side_by_side.shape[2] * 4)
        return MoleculeWork(
            combined=self.zeros(_fours(orbitals.coefficients.shape[1])),
            G=self.zeros((9, 4)),
            draws=self.zeros((2, 4)),
            here=self.zeros(12),
            radial=self.zeros(5 * shells),
            places=self.zeros((3, partners)),
            curves=self.zeros((2, 2, partners)),
            begins=self.zeros((2, partners), np.int64),
            charges=self.zeros((2, partners)),
            distances=self.zeros(partners),
            numbers=self.zeros(partners),
        )

    def _crystal(
        self, orbitals: CrystalOrbitals, hamiltonian: CrystalHamiltonian, kind: np.dtype[np.inexact]
    ) -> CrystalWork:
        real = np.zeros(0, kind).real.dtype
        # Channels that any function has, in the sums of all rows; those of tins need (lmax +
        # 1)^2 columns as well.
        channels = int((orbitals.channel + orbitals.parts).max(initial=1))
        return CrystalWork(
            sums=self.zeros((17, max(6, channels + 1, (orbitals.tin_lmax + 1) ** 2)), real),
            w=self.zeros((3, 3, 4), real),
            powers=self.zeros((3, 2 * hamiltonian.most_wave + 1, 2)),
            rho=self.zeros((max(1, len(hamiltonian.waves)), 2)),
        )


def _fours(count: int) -> int:
    """Return a count rounded up to a multiple of four, the numbers of a vector."""
    return -(-count // 4) * 4
