"""The arrays that kernels of ``qmc`` take, as named tuples (numba passes them as they are)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "BINS",
    "COMPONENTS",
    "FACTORS",
    "OCTAVES",
    "SMALLEST",
    "HamiltonianTables",
    "JastrowTables",
    "OrbitalTables",
    "State",
    "Work",
    "on_gpu",
    "work_spaces",
]

BINS = 32  # intervals of an octave, and of what lies below the first
SMALLEST = 2.0**-6  # bohr: start of the first octave
OCTAVES = 11  # up to 32 bohr
COMPONENTS = ("kinetic", "electron_electron", "local", "nonlocal", "external", "total")
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

    atom: Any
    shell_atom: Any
    shell_l: Any
    shell_first: Any
    table: Any
    reach: Any
    coefficients: Any
    atom_begin: Any
    atom_kind: Any
    side_by_side: Any
    padded: Any
    across: Any


def on_gpu(orbitals: OrbitalTables) -> OrbitalTables:
    """Return the tables as kernels of a GPU read them: radial parts as (K, Sh, 6), and nothing that is for CPUs."""
    table, none = np.ascontiguousarray(np.swapaxes(orbitals.table, 0, 1)), np.zeros(1)
    return orbitals._replace(table=table, side_by_side=none, padded=none, across=none)


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

    kind: Any
    spline: Any
    inverse_h: Any
    rcut: Any
    pade: Any
    species: Any


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

    charge: Any
    omega: Any
    mass: Any
    interacting: Any
    potential: Any
    local: Any
    delta: Any
    channels: Any
    cutoff: Any
    points: Any
    weights: Any


class State(NamedTuple):
    """Walkers.

    Attributes
    ----------
    R : (W, N, 3) float64
        Positions, spin-up electrons first, bohr.
    rows : (W, N, 5, M) real
        Value, gradient and Laplacian of the orbitals of its spin at each electron.
    inverse : (W, 2, M, M) real
        ``inverse[w, s, i]`` is the column of electron i of the inverse Slater matrix: its product with row i is 1.
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

    R: Any
    rows: Any
    inverse: Any
    log_psi: Any
    sign: Any
    energy: Any
    weight: Any
    moves: Any
    age: Any


class Work(NamedTuple):
    """Work space of one CPU thread.

    Attributes
    ----------
    rows : (5, 4 n) real
        Of a proposed position, for M orbitals and up to a multiple of four.
    column : (M,) real
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
    Q : (3, 3) float64
        A rotation.
    factors : (8,) float64
        Of the angular momenta of a pseudopotential.
    J : (N, 5) float64
        Gradient and Laplacian of the Jastrow exponent for each electron, and the sum of its functions.
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
    targets : (N, A * Q, 4) float64
        Points of the nonlocal potential and its value there.
    counts : (N,) int64
        Points of each electron.
    matrix, fresh, identity : (M, M) float64
        For inversions.
    """

    rows: Any
    column: Any
    combined: Any
    G: Any
    draws: Any
    here: Any
    radial: Any
    Q: Any
    factors: Any
    J: Any
    places: Any
    curves: Any
    begins: Any
    charges: Any
    distances: Any
    numbers: Any
    targets: Any
    counts: Any
    matrix: Any
    fresh: Any
    identity: Any


APART = 128  # bytes between what two threads write, so that they share no line of the cache


def work_spaces(workers: int, state: State, atoms: int, basis: int, points: int, shells: int) -> Work:
    """Return the work space of some threads, one after another in each array, for :func:`advance_cpu._own_space`.

    Walkers are among some atoms, atomic orbitals, a spherical rule of some points, shells of an atom.
    """
    N, M, real = state.R.shape[1], state.inverse.shape[2], state.rows.dtype
    P = -(-(N + atoms) // 4) * 4

    def of_each(shape: int | tuple[int, ...], dtype: DTypeLike = float) -> NDArray[Any]:
        shape = shape if isinstance(shape, tuple) else (shape,)
        apart = -(-APART // max(1, math.prod(shape) * np.dtype(dtype).itemsize))
        return np.zeros((workers * (1 + apart), *shape), dtype)

    return Work(
        rows=of_each((5, -(-M // 4) * 4), real),
        column=of_each(M, real),
        combined=of_each(-(-basis // 4) * 4),
        G=of_each((9, 4)),
        draws=of_each((2, 4)),
        here=of_each(12),
        radial=of_each(5 * shells),
        Q=of_each((3, 3)),
        factors=of_each(8),
        J=of_each((N, 5)),
        places=of_each((3, P)),
        curves=of_each((2, 2, P)),
        begins=of_each((2, P), np.int64),
        charges=of_each((2, P)),
        distances=of_each(P),
        numbers=of_each(P),
        targets=of_each((N, max(1, atoms * points), 4)),
        counts=of_each(N, np.int64),
        matrix=of_each((M, M)),
        fresh=of_each((M, M)),
        identity=of_each((M, M)),
    )
