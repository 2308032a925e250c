r"""Molecular orbitals that other programs have found: what their files hold, and the way from there to an `OrbitalSet`.

A file brings ions, contracted Gaussian shells and coefficients of orbitals.  Its shells are spherical or Cartesian; a monomial
is a sum of solid harmonics times even powers of the distance,

.. math:: x^iy^jz^k = \sum_{l' = l, l-2, ...} r^{l-l'} \sum_m T^{l'm}_{ijk} S_{l'm}(x, y, z), \qquad l = i + j + k,

so that Cartesian shells need no kernel of their own: each becomes up to three spherical ones.

Programs differ in the order, the sign and the normalisation of their functions.  The overlap matrix of what was read,
computed here from the Gaussians in closed form, must make the orbitals orthonormal: a wrong convention fails this test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.harmonics import order, solid_harmonics
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX, OrbitalSet, Shell, chosen_orbitals, orbital_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.qmc.wavefunction.expansion import Orders
    from qsim.qmc.wavefunction.formats.eshdf import StoredEcp
    from qsim.qmc.wavefunction.formats.expansions import Stored

__all__ = [
    "GAMESS",
    "ORTHONORMAL",
    "Components",
    "GaussianShell",
    "Molecule",
    "double_factorial",
    "ions_first",
    "normalised",
    "occupied",
    "orbitals_of",
    "overlap",
]

ORTHONORMAL = 1e-4  # deviation of the overlaps of orbitals from 1 and 0 that is refused
DIGITS = 1e-5  # and the one that is told: files of text often have six digits
WHOLE = 1e-3  # how closely occupations must be 0, 1 or 2
MOST_FUNCTIONS = 5000  # of a basis: the overlap matrix of more would not fit into the time of a check
LARGEST = 1e100

Component = tuple[int, int, int]
Components = tuple[int, ...] | tuple[Component, ...]
GAMESS: dict[int, tuple[str, ...]] = {
    0: ("",),
    1: ("x", "y", "z"),
    2: ("xx", "yy", "zz", "xy", "xz", "yz"),
    3: ("xxx", "yyy", "zzz", "xxy", "xxz", "yyx", "yyz", "zzx", "zzy", "xyz"),
    4: (
        "xxxx",
        "yyyy",
        "zzzz",
        "xxxy",
        "xxxz",
        "yyyx",
        "yyyz",
        "zzzx",
        "zzzy",
        "xxyy",
        "xxzz",
        "yyzz",
        "xxyz",
        "yyxz",
        "zzxy",
    ),
}
"""Cartesian functions of a shell in the order of GAMESS, which molden (but for f) and QMCPACK share."""


@dataclass(frozen=True)
class GaussianShell:
    r"""Contracted functions with one radial part :math:`\sum_kc_k\exp(-a_kr^2)`.

    Attributes
    ----------
    atom, l
        Centre and angular momentum.
    exponent, coefficient : (k,) float64
        1/bohr^2; coefficients with all normalisation.
    components
        In the order of the file: m of real solid harmonics, or powers of x, y, z.
    scale : (components,) float64
        Factor of each component, as its normalisation.
    """

    atom: int
    l: int
    exponent: NDArray[np.float64]
    coefficient: NDArray[np.float64]
    components: Components
    scale: NDArray[np.float64]

    @property
    def is_cartesian(self) -> bool:
        """Return True if the components are monomials."""
        return isinstance(self.components[0], tuple)


@dataclass(frozen=True)
class Molecule:
    """Content of a file.

    Attributes
    ----------
    path
        The file.
    symbols
        Of each ion.
    positions : (A, 3) float64
        Of the ions, bohr; further ones are centres of basis functions alone (ghost atoms).
    charges
        Of the ions as the file says; None where it does not.
    shells
        In the order of the file's basis functions.
    orbitals
        For spin up and down, (B, n) float64: occupied orbitals over the basis functions.
    all_orbitals
        (B, n) float64 each: all orbitals of the file, the unoccupied ones too, whose overlaps tell whether it is understood.
    conventions
        Name of those of a program that the file was read in; empty if they are those of the format.
    energy
        Of the self-consistent field, hartree, if the file has it.
    ecp
        Effective core potentials that it keeps.
    doubts
        What a user must know about it.
    expansion
        Determinants, by the places of their orbitals in `all_orbitals`.
    """

    path: Path
    symbols: tuple[str, ...]
    positions: NDArray[np.float64]
    charges: tuple[float | None, ...]
    shells: tuple[GaussianShell, ...]
    orbitals: tuple[NDArray[np.float64], NDArray[np.float64]]
    all_orbitals: tuple[NDArray[np.float64], ...]
    energy: float | None = None
    ecp: StoredEcp | None = None
    doubts: tuple[str, ...] = ()
    expansion: Stored | None = None
    conventions: str = ""

    @property
    def off_orthonormal(self) -> float:
        """Largest deviation of the overlaps of orbitals from 1 and 0; infinite if functions and coefficients do not fit."""
        # Coefficients that do not fit count as infinitely far off, so that a reader may try
        # other conventions.
        size = sum(len(shell.components) for shell in self.shells)
        if any(C.shape[0] != size or not np.all(np.abs(C) <= LARGEST) for C in self.all_orbitals):
            return math.inf
        S = overlap(self.shells, self.positions)
        found = [C.T @ S @ C for C in self.all_orbitals]
        return max(float(np.abs(one - np.eye(len(one))).max(initial=0.0)) for one in found)


def ions_first(
    ghosts: Sequence[bool], positions: NDArray[np.float64], shells: Sequence[GaussianShell]
) -> tuple[NDArray[np.float64], tuple[GaussianShell, ...]]:
    """Return positions and shells with centres without charge behind all ions, whose order stays.

    Parameters
    ----------
    ghosts
        Whether a centre has no charge, (A,).
    positions : (A, 3) float64
        Bohr.
    shells
        In the order of the file, which stays.
    """
    # A stable order: ions stay as they are, centres without charge follow them.
    where = np.argsort(np.array(ghosts, bool), kind="stable")
    new = np.argsort(where)
    return positions[where], tuple(replace(shell, atom=int(new[shell.atom])) for shell in shells)


# ------------------------------------------------------------------------------------- normalisation


def double_factorial(n: int) -> float:
    """Return n!! = n (n - 2) ..., 1 for n <= 0."""
    return float(math.prod(range(n, 0, -2)))


def powers(name: str) -> Component:
    """Return the powers of x, y, z of a monomial such as ``xxy``."""
    return name.count("x"), name.count("y"), name.count("z")


def normalised(
    atom: int,
    l: int,
    exponent: NDArray[np.float64],
    coefficient: NDArray[np.float64],
    components: Components,
    *,
    of_primitives: bool = True,
) -> GaussianShell:
    r"""Return a shell each of whose functions has the norm 1.

    Parameters
    ----------
    atom, l, exponent, coefficient, components
        As of `GaussianShell`.
    of_primitives
        Coefficients are those of normalised Gaussians, :math:`N_k^2\int r^{2l+2}e^{-2a_kr^2}dr = 1`.
    """
    a = exponent
    # Most formats give coefficients of normalised Gaussians; the contraction is then
    # normalised as a whole.
    if of_primitives:
        coefficient = coefficient / np.sqrt(_radial_integral(l, 2.0 * a))
    # <contraction|contraction> from all pairs of primitives.
    pairs = _radial_integral(l, a[:, None] + a[None, :])
    norm = float(coefficient @ pairs @ coefficient)
    coefficient = coefficient / math.sqrt(norm)
    scale = np.ones(len(components))
    for k, component in enumerate(components):
        if isinstance(component, tuple):
            # Norm of a monomial on the sphere relative to that of r^l: each Cartesian
            # function is normalised by itself.
            angular = math.prod(double_factorial(2 * n - 1) for n in component) / double_factorial(2 * l + 1)
            scale[k] = 1.0 / math.sqrt(4.0 * math.pi * angular)
    return GaussianShell(atom, l, a, coefficient, components, scale)


def _radial_integral(l: int, a: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return :math:`\int_0^\infty r^{2l+2}e^{-ar^2}dr`."""
    factor = double_factorial(2 * l + 1) * math.sqrt(math.pi) / 2.0 ** (l + 2)
    return np.asarray(factor * a ** -(l + 1.5))


# ----------------------------------------------------------------------------------------- harmonics


@cache
def monomials(l: int) -> tuple[Component, ...]:
    """Return the powers of all monomials of degree l."""
    return tuple((i, j, l - i - j) for i in range(l, -1, -1) for j in range(l - i, -1, -1))


@cache
def to_spherical(l: int) -> tuple[NDArray[np.float64], ...]:
    r"""Return :math:`T` for l' = l, l - 2, ...: (monomials, 2 l' + 1) each; the last axis in our order."""
    # Polynomials of degree l agree everywhere if they agree at enough random points: least
    # squares find the matrix exactly, without formulas for each l.
    points = np.random.default_rng(l).standard_normal((8 * len(monomials(l)), 3))
    rr = (points**2).sum(1)
    parts = [
        rr[:, None] ** ((l - k) // 2) * solid_harmonics(k, points)[0] for k in range(l, -1, -2)
    ]  # a basis of the polynomials of degree l
    values = np.stack([np.prod(points ** np.array(p), axis=1) for p in monomials(l)], -1)
    found = np.linalg.lstsq(np.concatenate(parts, -1), values, rcond=None)[0].T
    # What is zero by symmetry shall not become coefficients of 1e-16.
    found[np.abs(found) < 1e-12] = 0.0
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    return tuple(np.split(found, ends, axis=1))


@cache
def to_monomials(l: int) -> NDArray[np.float64]:
    """Return the solid harmonics of one l, in our order, over monomials: (2 l + 1, monomials)."""
    points = np.random.default_rng(l).standard_normal((8 * len(monomials(l)), 3))
    values = np.stack([np.prod(points ** np.array(p), axis=1) for p in monomials(l)], -1)
    return np.linalg.lstsq(values, solid_harmonics(l, points)[0], rcond=None)[0].T


# -------------------------------------------------------------------------------------------- overlap


def overlap(shells: Sequence[GaussianShell], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the overlap matrix (B, B) of the basis functions of a file, in closed form.

    Parameters
    ----------
    shells
        Of the basis.
    positions : (A, 3) float64
        Of their atoms.
    """
    first = np.cumsum([0, *(len(shell.components) for shell in shells)])
    out = np.zeros((first[-1], first[-1]))
    # Kets of the same l are taken together: their primitives make one long array.
    by_l: dict[int, list[int]] = {}
    for k, shell in enumerate(shells):
        by_l.setdefault(shell.l, []).append(k)
    for bra, shell in enumerate(shells):
        left = _over_monomials(shell)
        for l, all_kets in by_l.items():
            # Half of the symmetric matrix.
            kets = [k for k in all_kets if k <= bra]
            if not kets:
                continue
            values = _pair_overlaps(shell, positions[shell.atom], l, [shells[k] for k in kets], positions)
            for ket, block in zip(kets, values, strict=True):
                part = left @ block @ _over_monomials(shells[ket]).T
                out[first[bra] : first[bra + 1], first[ket] : first[ket + 1]] = part
                out[first[ket] : first[ket + 1], first[bra] : first[bra + 1]] = part.T
    return out


def _over_monomials(shell: GaussianShell) -> NDArray[np.float64]:
    """Return the components of a shell over the monomials of its l, (components, monomials)."""
    if shell.is_cartesian:
        # Components of a shell as combinations of monomials, whatever order and norm the file
        # has.
        rows = np.eye(len(monomials(shell.l)))[[monomials(shell.l).index(c) for c in shell.components]]
    else:
        rows = to_monomials(shell.l)[[order(shell.l).index(m) for m in shell.components]]  # type: ignore[arg-type]
    return np.asarray(shell.scale[:, None] * rows)


def _pair_overlaps(
    shell: GaussianShell,
    A: NDArray[np.float64],
    l: int,
    kets: list[GaussianShell],
    positions: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the overlaps (kets, monomials of the bra, monomials of l) of contracted monomials, by Obara and Saika."""
    a = shell.exponent[:, None]
    b = np.concatenate([ket.exponent for ket in kets])[None, :]
    c = shell.coefficient[:, None] * np.concatenate([ket.coefficient for ket in kets])[None, :]
    B = np.concatenate([np.tile(positions[ket.atom], (ket.exponent.size, 1)) for ket in kets])
    # The product of two Gaussians is one around the centre between them; integrals along x, y
    # and z are independent.
    p = a + b
    axes = []
    for x in range(3):
        centre = (a * A[x] + b * B[None, :, x]) / p
        s = np.zeros((shell.l + 1, l + 1, *p.shape))
        # Two s functions, and then the recurrences that raise the power on the one side and
        # on the other.
        s[0, 0] = np.sqrt(np.pi / p) * np.exp(-a * b / p * (A[x] - B[None, :, x]) ** 2)
        for i in range(shell.l):
            s[i + 1, 0] = (centre - A[x]) * s[i, 0] + (i / (2 * p) * s[i - 1, 0] if i else 0.0)
        for j in range(l):
            for i in range(shell.l + 1):
                s[i, j + 1] = (centre - B[None, :, x]) * s[i, j]
                s[i, j + 1] += (i * s[i - 1, j] if i else 0.0) / (2 * p)
                s[i, j + 1] += (j * s[i, j - 1] if j else 0.0) / (2 * p)
        axes.append(s)
    # Sums over the primitives of each ket, which lie one after another.
    starts = np.cumsum([0, *(ket.exponent.size for ket in kets)])[:-1]
    out = np.empty((len(kets), len(monomials(shell.l)), len(monomials(l))))
    for m, (i, j, k) in enumerate(monomials(shell.l)):
        for n, (u, v, w) in enumerate(monomials(l)):
            product = (c * axes[0][i, u] * axes[1][j, v] * axes[2][k, w]).sum(0)
            out[:, m, n] = np.add.reduceat(product, starts)
    return out


# ------------------------------------------------------------------------------------------- orbitals


def occupied(
    path: Path, coefficients: Sequence[NDArray[np.float64]], occupations: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the occupied orbitals of both spins.

    Parameters
    ----------
    path
        The file, for messages.
    coefficients, occupations
        One each, (B, n) and (n,) with 0, 1 or 2, for orbitals that both spins share; or two each with 0 and 1.

    Raises
    ------
    FileError
        For occupations in between, as natural orbitals have.
    """
    for n in occupations:
        # Natural orbitals have occupations in between, which one determinant cannot have.
        off = np.abs(n - np.round(n))
        if not np.isfinite(n).all() or off.max(initial=0.0) > WHOLE:
            raise FileError(
                f"{path}: orbital {int(np.argmax(off)) + 1} is occupied by {n[int(np.argmax(off))]:g} electrons; one "
                "determinant needs whole numbers (natural orbitals of correlated methods have others)",
                hint="export the orbitals of the self-consistent field",
            )
        if n.min(initial=0.0) < -0.5 or n.max(initial=0.0) > 2.5 / len(occupations):
            raise FileError(f"{path}: occupations of orbitals reach from {n.min():g} to {n.max():g}")
    # Unrestricted: each spin has its own orbitals. Restricted: 1 is spin up alone.
    if len(occupations) == 2:
        up, dn = (C[:, n > 0.5] for C, n in zip(coefficients, occupations, strict=True))
        return up, dn
    return coefficients[0][:, occupations[0] > 0.5], coefficients[0][:, occupations[0] > 1.5]


def orbitals_of(molecule: Molecule, orders: Orders | None = None, virtual: int | None = None) -> OrbitalSet:
    """Return the orbitals of a file: those that are occupied, or the ones that determinants have; and some more.

    Raises
    ------
    FileError
        For basis functions that kernels do not know, numbers that are not finite, orbitals that are not orthonormal.
    """
    # Overlaps in closed form tell whether order, signs and normalisation of the file were
    # understood.
    _check(molecule)
    off = molecule.off_orthonormal
    if off > ORTHONORMAL:
        raise FileError(
            f"{molecule.path}: overlaps of the orbitals differ from 1 and 0 by up to {off:.2g}; they must be "
            f"orthonormal (within {ORTHONORMAL:g}): either the file is damaged or has too few digits, or the program that wrote "
            "it orders or normalises basis functions in a way that is not known",
            hint="export with another program, for example from PySCF",
        )
    doubts = list(molecule.doubts)
    if off > DIGITS:
        doubts.append(
            f"{molecule.path}: overlaps of the orbitals differ from 1 and 0 by up to {off:.1g}: its numbers have few digits"
        )
    shells, rows = _spherical(molecule)
    n_up, n_dn = (C.shape[1] for C in molecule.orbitals)
    # Occupied orbitals over our spherical functions, both spins in one array.
    occurring, which = molecule.orbitals, (list(range(n_up)), list(range(n_dn)))
    if orders is not None or virtual is not None:
        occurring = molecule.all_orbitals[0], molecule.all_orbitals[-1]
        which = orders or (
            _places(molecule.orbitals[0], occurring[0]),
            _places(molecule.orbitals[1], occurring[1]),
        )
    key = "wavefunction.determinants"
    coefficients, columns = chosen_orbitals([rows @ C for C in occurring], which, key, virtual)
    about: dict[str, Any] = {"doubts": doubts}
    energy = "" if molecule.energy is None else f", {molecule.energy:.6f} hartree"
    read_as = f", read in the conventions of {molecule.conventions}" if molecule.conventions else ""
    about["summary"] = (
        f"orbitals from {molecule.path}{read_as}: {rows.shape[1]} basis functions, {n_up} and {n_dn} orbitals occupied{energy}"
    )
    if molecule.energy is not None:
        about["energy"] = molecule.energy
    return orbital_set(molecule.positions, shells, coefficients, about, columns)


def _places(some: NDArray[np.float64], every: NDArray[np.float64]) -> list[int]:
    """Return where some orbitals (B, n) are among all, (B, m)."""
    return [int(np.argmin(np.abs(every - C[:, None]).max(axis=0))) for C in some.T]


def _check(molecule: Molecule) -> None:
    """Refuse what cannot be evaluated."""
    size = sum(len(shell.components) for shell in molecule.shells)
    if not molecule.shells or not any(C.shape[1] for C in molecule.orbitals):
        raise FileError(f"{molecule.path} holds no occupied orbitals")
    if size > MOST_FUNCTIONS:
        raise FileError(f"{molecule.path} has {size} basis functions; at most {MOST_FUNCTIONS} are supported")
    # Numbers from a file may be anything: each is looked at before it is used.
    for shell in molecule.shells:
        if shell.l > L_MAX:
            raise FileError(
                f"{molecule.path} has basis functions of l = {shell.l}; those up to l = {L_MAX} (g) are supported"
            )
        good = np.all(np.abs(shell.exponent) <= LARGEST) and np.all(np.abs(shell.coefficient) <= LARGEST)
        if not (good and np.all(shell.exponent > 0.0)):
            raise FileError(
                f"{molecule.path}: an exponent or coefficient of atom {shell.atom + 1} is not finite or not possible"
            )
    for C in molecule.orbitals:
        if C.shape[0] != size:
            raise FileError(
                f"{molecule.path}: orbitals have {C.shape[0]} coefficients, the basis {size} functions"
            )
        if not np.all(np.abs(C) <= LARGEST):
            raise FileError(f"{molecule.path}: a coefficient of an orbital is not finite")


def _spherical(molecule: Molecule) -> tuple[list[Shell], NDArray[np.float64]]:
    """Return spherical shells, and their functions over those of the file, (ours, theirs)."""
    shells: list[Shell] = []
    blocks: list[tuple[int, NDArray[np.float64]]] = []
    first = 0
    for shell in molecule.shells:
        if shell.is_cartesian:
            which = [monomials(shell.l).index(c) for c in shell.components]
            # A Cartesian shell holds spherical ones of l, l - 2, ... with factors r^2, r^4
            # ...: each becomes a shell.
            parts = [T[which].T * shell.scale for T in to_spherical(shell.l)]
        else:
            which = [shell.components.index(m) for m in order(shell.l)]
            parts = [np.eye(len(which))[which] * shell.scale]
        for k, part in enumerate(parts):
            function = Terms.of(shell.coefficient, 2 * k, 0.0, shell.exponent)
            shells.append(Shell(shell.atom, shell.l - 2 * k, function))
            blocks.append((first, part))
        first += len(shell.components)
    # Blocks of shells along the diagonal.
    rows = np.zeros((sum(len(part) for _, part in blocks), first))
    start = 0
    for begin, part in blocks:
        rows[start : start + part.shape[0], begin : begin + part.shape[1]] = part
        start += part.shape[0]
    return shells, rows
