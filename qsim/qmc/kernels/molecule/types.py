"""The arrays that kernels of molecules take, as named tuples (numba passes them as they are)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qsim.core.device.arrays import FloatArray, IndexArray, RealArray

__all__ = ["FACTORS", "HamiltonianTables", "MoleculeWork", "OrbitalTables", "on_gpu"]

_D = 0.5 * math.sqrt(15.0 / math.pi)
_F3 = 0.25 * math.sqrt(35.0 / (2.0 * math.pi))
_F2 = 0.5 * math.sqrt(105.0 / math.pi)
_F1 = 0.25 * math.sqrt(21.0 / (2.0 * math.pi))
_G4 = 0.75 * math.sqrt(35.0 / math.pi)
_G3 = 0.75 * math.sqrt(35.0 / (2.0 * math.pi))
_G2 = 0.75 * math.sqrt(5.0 / math.pi)
_G1 = 0.75 * math.sqrt(5.0 / (2.0 * math.pi))
#: Factors of the solid harmonics r^l Y_lm, m = -l ... l (l = 1: x, y, z): coefficients for CPUs contain them.
FACTORS = (
    (0.5 / math.sqrt(math.pi),),
    (math.sqrt(3.0 / (4.0 * math.pi)),) * 3,
    (_D, _D, 0.25 * math.sqrt(5.0 / math.pi), _D, 0.5 * _D),
    (_F3, _F2, _F1, 0.25 * math.sqrt(7.0 / math.pi), _F1, 0.5 * _F2, _F3),
    (_G4, _G3, _G2, _G1, 3.0 / 16.0 / math.sqrt(math.pi), _G1, 0.5 * _G2, _G3, 0.25 * _G4),
)


class OrbitalTables(NamedTuple):
    """Molecular orbitals as combinations of atomic ones, ``R_s(r) S_lm(x, y, z)`` with tabulated radial parts.

    Attributes
    ----------
    atom : (A, 3) float64
        Positions, bohr.
    shell_atom, shell_l, shell_first : (Sh,) int64
        Atom, angular momentum and first atomic orbital of each shell; shells of one atom follow each other.
    table : (Sh, K, 6) real
        Quintic polynomials in t of [0, 1), ascending powers, on the graded grid of :mod:`qsim.qmc.system.radial`.
    reach : (Sh,) float64
        Radius from which a shell is zero, bohr.
    coefficients : (2, B, M) real
        Of molecular orbital o of a spin over the atomic orbitals; the orbital is the fastest index.
    atom_begin : (A + 1,) int64
        First shell of each atom.
    atom_kind : (A,) int64
        Atoms of the same kind have the same shells.
    side_by_side : (kinds, K, L, 6, 4) real
        ``table`` once more for CPUs: four shells of an atom side by side, for each kind of atoms and interval.
    padded : (2, B, 4 n) real
        ``coefficients`` once more for CPUs: times the factors of the solid harmonics (`FACTORS`), with orbitals of
        zeros up to a multiple of four.
    across : (2, M, 4 n) real
        The same with the atomic orbital as the fastest index, and zeros up to a multiple of four of these.
    """

    atom: FloatArray
    shell_atom: IndexArray
    shell_l: IndexArray
    shell_first: IndexArray
    table: RealArray
    reach: FloatArray
    coefficients: RealArray
    atom_begin: IndexArray
    atom_kind: IndexArray
    side_by_side: RealArray
    padded: RealArray
    across: RealArray


def on_gpu(orbitals: OrbitalTables) -> OrbitalTables:
    """Return the tables as kernels of a GPU read them: radial parts as (K, Sh, 6), and nothing that is for CPUs."""
    table, none = np.ascontiguousarray(np.swapaxes(orbitals.table, 0, 1)), np.zeros(1)
    return orbitals._replace(table=table, side_by_side=none, padded=none, across=none)


class HamiltonianTables(NamedTuple):
    """Charges, pseudopotentials and an external harmonic potential.

    Attributes
    ----------
    charge : (A,) float64
        Effective charges of the ions.
    omega, mass : float
        Of ``m omega^2 r^2 / 2`` (0: none) and of the particles.
    interacting : int
        True if electrons repel each other.
    potential : (A,) int64
        Pseudopotential of an atom, -1 for a bare ``-Z / r``.
    local : (P, K, 6) float64
        ``r V_loc + Zeff``, zero beyond its range.
    delta : (P, C, K, 6) float64
        ``V_l - V_loc``.
    channels : (P,) int64
        Number of l that occur, from l = 0; empty without pseudopotentials (`local` and `delta` then have one entry, of zeros).
    cutoff : (P,) float64
        Radius beyond which all of ``delta`` vanish, bohr.
    points : (Q, 3) float64
    weights : (Q,) float64
        Spherical rule, sum of weights 1.
    """

    charge: FloatArray
    omega: float
    mass: float
    interacting: int
    potential: IndexArray
    local: FloatArray
    delta: FloatArray
    channels: IndexArray
    cutoff: FloatArray
    points: FloatArray
    weights: FloatArray


class MoleculeWork(NamedTuple):
    """Work space of one CPU thread for orbitals and potentials in open boundaries.

    Attributes
    ----------
    combined : (4 n,) float64
        Sum of the coefficients of each of B atomic orbitals with a column of the inverse.
    G : (9, 4) float64
        Gradient of each solid harmonic of one l, and a zero.
    draws : (2, 4) float64
        Three normals for each of two electrons.
    here : (12,) float64
        A position relative to an atom, or x, y and z of four; numbers at four points.
    radial : (5 n,) float64
        Radial functions of an atom of up to n shells, a multiple of four: at four points and at the distance of the points from
        their ion, or with two derivatives at one.
    places : (3, P) float64
        Partners of an electron, x, y and z: all electrons, all ions, and up to a multiple of four what is far from everything.
    curves : (2, 2, P) float64
        For an electron of either spin and each partner ``inverse_h`` of their B-spline, and the number of its intervals.
    begins : (2, P) int64
        Where that spline begins in the table.
    charges : (2, P) float64
        Half a charge for each electron, the charges of ions; the others are zero.
    distances : (P,) float64
        Of an electron and its partners, bohr.
    numbers : (P,) float64
        0, 1, 2 ...
    """

    combined: FloatArray
    G: FloatArray
    draws: FloatArray
    here: FloatArray
    radial: FloatArray
    places: FloatArray
    curves: FloatArray
    begins: IndexArray
    charges: FloatArray
    distances: FloatArray
    numbers: FloatArray
