"""Chemical shifts, scalar couplings and quadrupoles of nuclei as a Hamiltonian, in Hz."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.columns import read_rows
from qsim.core.errors import FileError
from qsim.trotter.deck import couplings as blocks
from qsim.trotter.deck.sites import pair_problems
from qsim.trotter.model.hamiltonian import local_part
from qsim.trotter.model.larger import SpinModel, spin_matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.trotter.model.hamiltonian import Model


@local_part.register(blocks.Shifts)
@local_part.register(blocks.Scalar)
@local_part.register(blocks.Quadrupole)
def _(term: blocks.NuclearTerm, system: blocks.System, part: Model) -> Model:
    """Return shifts, scalar couplings or quadrupoles as a model like `part`, Hz.

    Between unlike nuclei a coupling is ``J I^z_j I^z_k``: what else it has turns at the difference of their frequencies, MHz.

    Raises
    ------
    FileError
        If a file has another number of rows, or names pairs that do not exist.
    """
    spins = system.spins
    if isinstance(term, blocks.Shifts):
        h = np.zeros((3, spins))
        # MHz times ppm is Hz
        h[2] = term.Hz if term.Hz is not None else np.array(_shifts(term, spins)) * system.larmor
        return replace(part, h=h)
    if isinstance(term, blocks.Quadrupole):
        # the rules ask for spins above 1/2
        assert isinstance(part, SpinModel)
        sites = term.sites if term.sites is not None else [j for j, two in enumerate(system.twos) if two > 1]
        return replace(part, sites={j: _quadrupole(term, system.twos[j]) for j in sites})
    J = np.zeros((3, spins, spins))
    kinds = system.isotopes or [""] * spins
    for j, k, strength in _rows(term, spins):
        pair = int(j), int(k)
        like = kinds[pair[0]] == kinds[pair[1]] and not term.weak
        for a in range(0 if like else 2, 3):
            J[a][pair] = J[a][pair[::-1]] = strength
    return replace(part, J=J)


def _quadrupole(term: blocks.Quadrupole, two: int) -> NDArray[np.complex128]:
    """Return the matrix of a site with I = two / 2, Hz."""
    x, y, z = spin_matrices(two)
    spin = 0.5 * two
    made = 3.0 * z @ z - spin * (spin + 1.0) * np.eye(two + 1) + term.eta * (x @ x - y @ y)
    return np.asarray(term.Cq / (4.0 * spin * (2.0 * spin - 1.0)) * made)


def _shifts(term: blocks.Shifts, spins: int) -> Sequence[float]:
    if term.ppm is not None:
        return term.ppm
    assert term.file is not None
    rows = read_rows(term.file, "one shift per nucleus", (1,), most=spins)
    if len(rows) != spins:
        raise FileError(f"{term.file}: {len(rows)} shifts for {spins} nuclei")
    return [row[0] for row in rows]


def _rows(term: blocks.Scalar, spins: int) -> Sequence[Sequence[float]]:
    if term.list is not None:
        return term.list
    assert term.file is not None
    rows = read_rows(term.file, "j, k, J", (3,))
    for number, text in pair_problems(rows, spins):
        raise FileError(f"{term.file}: row {number + 1}: {text}")
    return rows
