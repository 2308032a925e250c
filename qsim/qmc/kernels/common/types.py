"""The arrays that all kernels of ``qmc`` take, as named tuples (numba passes them as they are)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qsim.core.device.arrays import Array, FloatArray, IndexArray

__all__ = [
    "BINS",
    "COMPONENTS",
    "OCTAVES",
    "SMALLEST",
    "WINDOW",
    "Draw",
    "JastrowTables",
    "State",
    "Work",
]

BINS = 32  # intervals of an octave, and of what lies below the first
SMALLEST = 2.0**-6  # bohr: start of the first octave
OCTAVES = 11  # up to 32 bohr
WINDOW = 16  # electrons whose updates of inverses are made together, where they are delayed
COMPONENTS = ("kinetic", "electron_electron", "local", "nonlocal", "external", "total")


class JastrowTables(NamedTuple):
    """Functions of a distance: 0 equal spins, 1 opposite spins, 2 + s electron and ion of species s.

    Attributes
    ----------
    kind : (F,) int64
        0: none; 1: cubic B-spline; 2: ``-a r / (1 + b r)``; 3: ``-log(1 + a r)``.
    spline : (F, n + 4) float64
        Coefficients, padded by zeros.
    inverse_h, rcut : (F,) float64
    pade : (F, 2) float64
        a and b.
    species : (A,) int64
        Of each atom.
    """

    kind: IndexArray
    spline: FloatArray
    inverse_h: FloatArray
    rcut: FloatArray
    pade: FloatArray
    species: IndexArray


class State(NamedTuple):
    """Walkers.

    Attributes
    ----------
    R : (W, N, 3) float64
        Positions, spin-up electrons first, bohr.
    rows : (W, N, 5, M) real or complex
        Value, gradient and Laplacian of the orbitals of its spin at each electron; of as many as electrons of the larger spin, or
        more in an expansion.
    inverse : (W, 2, n, n) real or complex
        ``inverse[w, s, i]`` is the column of electron i of the inverse Slater matrix, in an expansion of the reference: its
        product with row i is 1.
    expansion : (W, numbers) double or complex double
        What an expansion keeps, see :class:`~qsim.qmc.kernels.expansion.types.ExpansionTables`.
    log_psi : (W,) float64
    sign : (W,) float64
    energy : (W, 6) float64
        Local energies by component, hartree.
    weight : (W,) float64
    moves : (W, 4) float64
        Sums since they were last cleared: accepted moves, squared displacements proposed and accepted, nonlocal moves.
    age : (W,) int64
        Generations without an accepted move.
    """

    R: FloatArray
    rows: Array
    inverse: Array
    expansion: Array
    log_psi: FloatArray
    sign: FloatArray
    energy: FloatArray
    weight: FloatArray
    moves: FloatArray
    age: NDArray[np.int64]


class Draw(NamedTuple):
    """The counter of the random numbers of a walker in a generation, but for the purpose of each.

    Attributes
    ----------
    k0, k1
        Words of the key, which the seed makes.
    stream
        Number of the section of the run.
    step
        Generation.
    walker
        Number of the walker in the whole ensemble.
    """

    k0: int
    k1: int
    stream: int
    step: int
    walker: int


class Work(NamedTuple):
    """Work space of one CPU thread.

    Attributes
    ----------
    rows : (5, M) of the determinants' type
        Of a proposed position; of molecules with M rounded up to a multiple of four.
    column : (M,) of the determinants' type
    Q : (3, 3) float64
        A rotation.
    factors : (8,) float64
        Of the angular momenta of a pseudopotential.
    J : (N, 5) float64
        Gradient and Laplacian of the Jastrow exponent for each electron, and, of molecules, the sum of its functions.
    targets : (N, points, 4) float64
        Points of the nonlocal potential and its value there.
    counts : (N,) int64
        Points of each electron.
    matrix, fresh, identity : (M, M) double or complex double
        For inversions.
    bar, weights : (S,) double or complex double
        Of the strings of an expansion: derivatives of ln psi by their minors, and what the other spin makes them weigh.
    Y : (n (M - n),) double or complex double
        Derivatives of ln psi by T.
    stale : (1,) int64
        1 if `Y` is out of date.
    columns : (N, M) double or complex double
        Derivatives of ln psi by the orbitals at each electron.
    tangent, bar_tangent, Y_tangent
        What the numbers of an expansion, `bar` and `Y` change by along the one-body operators.
    bodies, turned : (N, M) double or complex double
        One-body operators on the orbitals at each electron, and what `columns` change by along them.
    start_rows : (5, M') of the determinants' type
        As `rows`, of the orbitals that mix.
    start : (2, N, M') float64
        Values of these at each electron, and one-body operators on them.
    kept : (2, window, M) of the determinants' type
        Columns and rows of delayed updates, see :mod:`qsim.qmc.kernels.common.inverses_cpu`; of molecules nothing.
    own : MoleculeWork or CrystalWork
        What orbitals and potentials need.
    """

    rows: Array
    column: Array
    Q: FloatArray
    factors: FloatArray
    J: FloatArray
    targets: FloatArray
    counts: IndexArray
    matrix: Array
    fresh: Array
    identity: Array
    bar: Array
    weights: Array
    Y: Array
    stale: IndexArray
    columns: Array
    tangent: Array
    bar_tangent: Array
    Y_tangent: Array
    bodies: Array
    turned: Array
    start_rows: Array
    start: FloatArray
    kept: Array
    own: object
