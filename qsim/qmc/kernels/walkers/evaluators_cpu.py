"""Orbitals, distances and potentials as the kernels of walkers call them on the CPU, for molecules and for crystals.

Kernels of walkers are written once; this table is all that they know of boundaries and of the basis of orbitals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb

from qsim.qmc.kernels.common.choice import Choice
from qsim.qmc.kernels.common.jit import INLINE, PART
from qsim.qmc.kernels.common.types import Work
from qsim.qmc.kernels.crystal import system_cpu as crystal
from qsim.qmc.kernels.crystal.types import CrystalOrbitals, CrystalWork
from qsim.qmc.kernels.molecule import system_cpu as molecule
from qsim.qmc.kernels.molecule.types import MoleculeWork, OrbitalTables

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "displacement",
    "electron_gradient",
    "electron_of",
    "electron_value",
    "exponent_before",
    "move_scale",
    "nonlocal_electron",
    "normals_of",
    "own_arrays",
    "own_space",
    "place_electron",
    "place_electrons",
    "place_ions",
    "potentials",
    "renew_exponent",
    "rows_at",
    "velocity",
]


def _either(name: str) -> Callable[..., Any]:
    """Return a function that both modules have, chosen by the orbitals of its first argument."""
    return Choice({OrbitalTables: getattr(molecule, name), CrystalOrbitals: getattr(crystal, name)})


#: ``(system, work)``: set what stays for all walkers of a call.
place_ions = _either("place_ions")
#: ``(system, R, work)``: set what depends on the places of all electrons of a walker.
place_electrons = _either("place_electrons")
#: ``(system, R, e, work)``: the same after electron e has moved.
place_electron = _either("place_electron")
#: ``(system, draw, e, work)``: three normals for the move of electron e; electrons must be taken in their order.
normals_of = _either("normals_of")
#: ``(system, x, y, z)``: length of moves at a point over that far from all nuclei.
move_scale = _either("move_scale")
#: ``(system, spin, x, y, z, work)``: set ``work.rows`` to values, gradients and Laplacians of the orbitals at a point.
rows_at = _either("rows_at")
#: ``(system, row, column, n, ratio)``: real part of the gradient of a determinant over it, by its row and column.
velocity = _either("velocity")
#: ``(system, dx, dy, dz)``: the vector between two particles, of nearest images in a crystal, and its length.
displacement = _either("displacement")
#: ``(system, R, e, x, y, z, work)``: sum of the Jastrow functions of electron e at a point.
electron_value = _either("electron_value")
#: ``(system, R, e, x, y, z, work)``: the same, and its gradient.
electron_gradient = _either("electron_gradient")
#: ``(system, R, pseudopotentials, work)``: repulsion, energy with ions, external energy; sets ``work.J``.
potentials = _either("potentials")
#: ``(system, state, w, e, draw, work)``: nonlocal energy of electron e and the number of its points in ``work.targets``.
nonlocal_electron = _either("nonlocal_electron")
#: ``(system, R, e, work)``: bring up to date what :func:`nonlocal_electron` takes from the local energy.
renew_exponent = _either("renew_exponent")
#: ``(system, R, e, work)``: sum of the Jastrow functions of electron e where it is.
exponent_before = _either("exponent_before")


@nb.njit(**INLINE)
def electron_of(system, R, e):
    """Return the spin of electron e, its number among those of this spin, and their number."""
    n_up = system.n_up
    if e < n_up:
        return 0, e, n_up
    return 1, e - n_up, R.shape[0] - n_up


# --------------------------------------------------------------------------------------- work space


@nb.njit(**INLINE)
def _place(stack, k, workers):
    """Return where the part of thread k begins in an array, see `Spaces`."""
    return k * (stack.shape[0] // workers)


@nb.njit(**PART)
def _molecule_space(own, k, workers):
    """Return the work space of thread k for a molecule."""
    return MoleculeWork(
        own.combined[_place(own.combined, k, workers)],
        own.G[_place(own.G, k, workers)],
        own.draws[_place(own.draws, k, workers)],
        own.here[_place(own.here, k, workers)],
        own.radial[_place(own.radial, k, workers)],
        own.places[_place(own.places, k, workers)],
        own.curves[_place(own.curves, k, workers)],
        own.begins[_place(own.begins, k, workers)],
        own.charges[_place(own.charges, k, workers)],
        own.distances[_place(own.distances, k, workers)],
        own.numbers[_place(own.numbers, k, workers)],
    )


@nb.njit(**PART)
def _crystal_space(own, k, workers):
    """Return the work space of thread k for a crystal."""
    return CrystalWork(
        own.sums[_place(own.sums, k, workers)],
        own.w[_place(own.w, k, workers)],
        own.powers[_place(own.powers, k, workers)],
        own.rho[_place(own.rho, k, workers)],
    )


#: ``(own, k, workers)``: what thread k has for orbitals and potentials.
own_arrays = Choice({MoleculeWork: _molecule_space, CrystalWork: _crystal_space})


@nb.njit(**PART)
def own_space(spaces, k, own):
    """Return the work space of thread k, which has the arrays ``own`` for orbitals and potentials."""
    arrays, workers = spaces.arrays, spaces.workers
    return Work(
        arrays.rows[_place(arrays.rows, k, workers)],
        arrays.column[_place(arrays.column, k, workers)],
        arrays.Q[_place(arrays.Q, k, workers)],
        arrays.factors[_place(arrays.factors, k, workers)],
        arrays.J[_place(arrays.J, k, workers)],
        arrays.targets[_place(arrays.targets, k, workers)],
        arrays.counts[_place(arrays.counts, k, workers)],
        arrays.matrix[_place(arrays.matrix, k, workers)],
        arrays.fresh[_place(arrays.fresh, k, workers)],
        arrays.identity[_place(arrays.identity, k, workers)],
        arrays.bar[_place(arrays.bar, k, workers)],
        arrays.weights[_place(arrays.weights, k, workers)],
        arrays.Y[_place(arrays.Y, k, workers)],
        arrays.stale[_place(arrays.stale, k, workers)],
        arrays.columns[_place(arrays.columns, k, workers)],
        arrays.tangent[_place(arrays.tangent, k, workers)],
        arrays.bar_tangent[_place(arrays.bar_tangent, k, workers)],
        arrays.Y_tangent[_place(arrays.Y_tangent, k, workers)],
        arrays.bodies[_place(arrays.bodies, k, workers)],
        arrays.turned[_place(arrays.turned, k, workers)],
        arrays.start_rows[_place(arrays.start_rows, k, workers)],
        arrays.start[_place(arrays.start, k, workers)],
        arrays.kept[_place(arrays.kept, k, workers)],
        own,
    )
