r"""A set of molecular orbitals: shells of atomic ones, ``R_s(r) S_lm(x, y, z)``, and two matrices of coefficients.

Sources of orbitals (`sto`, `harmonic`, `gaussian`) build an `OrbitalSet`; kernels take its tables.  The NumPy evaluation
here is the reference that they are tested against.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.kernels.molecule.types import FACTORS, OrbitalTables
from qsim.qmc.system import radial
from qsim.qmc.wavefunction.harmonics import solid_harmonics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from qsim.qmc.wavefunction.expansion import Orders

__all__ = ["Columns", "OrbitalSet", "Shell", "chosen_orbitals", "orbital_set"]

L_MAX = 4  # g, the largest that kernels know
TINY = 1e-12  # bohr
UNUSED = 1e-13  # coefficient relative to the largest, that is rounding error of a self-consistent field
Y00 = 0.5 / math.sqrt(math.pi)


@dataclass(frozen=True)
class Shell:
    """The 2l + 1 atomic orbitals with one radial function.

    Parameters
    ----------
    atom
        Its centre.
    l
        Angular momentum, at most `L_MAX`.
    function
        R_s: the radial part without r^l.
    rmax
        Radius from which the function is zero, if that is sharp, bohr.
    """

    atom: int
    l: int
    function: radial.RadialFunction
    rmax: float | None = None

    @property
    def size(self) -> int:
        """Number of atomic orbitals."""
        return 2 * self.l + 1

    @cached_property
    def reach(self) -> float:
        """Boundary of the radial grid beyond which the shell is zero or negligible, bohr."""
        if self.rmax is not None:
            return radial.knot_at_or_after(self.rmax)
        return radial.reach_of(self.function, self.l)

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """The radial function as (INTERVALS, 6) float64, see `qsim.qmc.system.radial`."""
        return radial.table(self.function, self.reach)


class Columns(NamedTuple):
    """Which orbitals of a source a set has.

    Attributes
    ----------
    numbers : pair of list of int
        Of each spin, in the order of the set: those of determinants first.
    shared : bool
        Whether both spins have the same orbitals.
    """

    numbers: tuple[list[int], list[int]]
    shared: bool


NO_COLUMNS = Columns(([], []), shared=False)
"""Of sets that have no source."""


@dataclass(frozen=True)
class OrbitalSet:
    """Orbitals of both spins that occur in determinants, and behind them those that an optimisation may mix in.

    Attributes
    ----------
    centres : (A, 3) float64
        Positions of the atoms, bohr.
    shells
        By ascending atom.
    coefficients : (2, B, M) float64
        Of orbital o of a spin over the atomic orbitals, zero for orbitals that a spin does not have.
    about : dict
        What is known of its origin: ``energy`` (hartree) of a self-consistent field and the like.
    columns : Columns
        Which orbitals of the source they are.
    """

    centres: NDArray[np.float64]
    shells: tuple[Shell, ...]
    coefficients: NDArray[np.float64]
    about: dict[str, Any] = field(default_factory=dict)
    columns: Columns = NO_COLUMNS

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First atomic orbital of each shell."""
        return np.cumsum([0, *(shell.size for shell in self.shells)])[:-1].astype(np.int64)

    @property
    def size(self) -> int:
        """Number of atomic orbitals."""
        return int(self.coefficients.shape[1])

    def tables(self, real: DTypeLike = np.float64, like: OrbitalSet | None = None) -> OrbitalTables:
        """Return the arrays for the kernels, with tables and coefficients in the given precision.

        Shells that no orbital uses, such as the p functions of an atom whose orbitals are s, are left out; those that another
        set with the same shells uses are kept.
        """
        judge = self if like is None else like
        kept = [k for k, first in enumerate(self.first) if judge._is_used(self.shells[k], first)] or [0]
        used = [self.shells[k] for k in kept]
        rows = np.concatenate([self.first[k] + np.arange(self.shells[k].size) for k in kept])
        sizes = [shell.size for shell in used]
        begin = np.searchsorted([shell.atom for shell in used], np.arange(len(self.centres) + 1))
        factors = np.concatenate([FACTORS[shell.l] for shell in used])
        scaled = factors[:, None] * self.coefficients[:, rows]
        kind, side_by_side = _side_by_side([used[a:b] for a, b in itertools.pairwise(begin)], real)
        return OrbitalTables(
            atom=np.ascontiguousarray(self.centres, np.float64),
            shell_atom=np.array([shell.atom for shell in used], np.int64),
            shell_l=np.array([shell.l for shell in used], np.int64),
            shell_first=np.cumsum([0, *sizes[:-1]]).astype(np.int64),
            table=np.stack([shell.table for shell in used]).astype(real),
            reach=np.array([shell.reach for shell in used]),
            coefficients=np.ascontiguousarray(self.coefficients[:, rows].astype(real)),
            atom_begin=begin.astype(np.int64),
            atom_kind=kind,
            side_by_side=side_by_side,
            padded=_rounded_up(scaled, real),
            across=_rounded_up(scaled.swapaxes(1, 2), real),
        )

    def _is_used(self, shell: Shell, first: int) -> bool:
        """Return True if a shell has a coefficient that is not rounding error."""
        part = np.abs(self.coefficients[:, first : first + shell.size])
        return bool(part.max(initial=0.0) > UNUSED * np.abs(self.coefficients).max(initial=0.0))

    # ----------------------------------------------------------------------------- evaluation

    def atomic(self, points: NDArray[np.float64], *, exact: bool = False) -> NDArray[np.float64]:
        """Return the atomic orbitals at points.

        Parameters
        ----------
        points : (n, 3) float64
            Bohr.
        exact
            Use the radial functions themselves instead of their tables.

        Returns
        -------
        (n, 5, B) float64
            Values, gradients x, y, z and Laplacians.
        """
        points = np.asarray(points, np.float64)
        out = np.zeros((len(points), 5, self.size))
        # Shells of one atom and angular momentum differ by their radial functions alone.
        angular: dict[tuple[int, int], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        for shell, first in zip(self.shells, self.first, strict=True):
            d = points - self.centres[shell.atom]
            r = np.maximum(np.sqrt((d * d).sum(-1)), TINY)
            if exact:
                R, slope, curvature = shell.function(r)
            else:
                R, slope, curvature = radial.evaluate(shell.table, r)
            if (shell.atom, shell.l) not in angular:
                angular[shell.atom, shell.l] = solid_harmonics(shell.l, d)
            S, G = angular[shell.atom, shell.l]
            part = out[:, :, first : first + shell.size]
            part[:, 0] = R[:, None] * S
            for x in range(3):
                part[:, 1 + x] = (slope / r * d[:, x])[:, None] * S + R[:, None] * G[..., x]
            part[:, 4] = (curvature + 2 * (shell.l + 1) * slope / r)[:, None] * S
        return out

    def rows(self, points: NDArray[np.float64], spin: int, *, exact: bool = False) -> NDArray[np.float64]:
        """Return the orbitals of a spin at points (n, 3): (n, 5, M) float64, as `atomic`."""
        return self.atomic(points, exact=exact) @ self.coefficients[spin]

    # -------------------------------------------------------------------------------- changes

    def with_shells(self, extra: Sequence[Shell], coefficients: NDArray[np.float64]) -> OrbitalSet:
        """Return the set with more shells, whose coefficients are (2, their atomic orbitals, M)."""
        return orbital_set(
            self.centres,
            [*self.shells, *extra],
            np.concatenate([self.coefficients, coefficients], axis=1),
            self.about,
            self.columns,
        )

    def noting(self, **about: Any) -> OrbitalSet:
        """Return the set with more known about it."""
        return replace(self, about={**self.about, **about})

    def equally_far(self) -> OrbitalSet:
        """Return the orbitals with shells that end as far out as the farthest one, but for those with a sharp end.

        Where an orbital is negligible beside others, a determinant with it may be multiplied by one that is not.
        """
        farthest = max((shell.reach for shell in self.shells), default=0.0)
        shells = (shell if shell.rmax is not None else replace(shell, rmax=farthest) for shell in self.shells)
        return replace(self, shells=tuple(shells))

    # ---------------------------------------------------------------------------------- cusps

    def cusp(self, atom: int, occupied: tuple[int, int]) -> float:
        r"""Return the logarithmic slope that the determinants leave at a nucleus.

        Weighted by the density that the orbitals have there, ``-n'(0) / (2 n(0))`` of its spherical average: Z for orbitals
        that obey Kato's condition, 0 for Gaussians.

        Parameters
        ----------
        atom
            Number of the nucleus.
        occupied
            Numbers of electrons with spin up and down.

        Returns
        -------
        float
            Positive if the density falls; 0 if no orbital reaches the nucleus.
        """
        density = slope = 0.0
        here = self.atomic(self.centres[atom][None], exact=True)[0, 0]
        radial_slope = np.zeros(self.size)
        for shell, first in zip(self.shells, self.first, strict=True):
            if shell.atom == atom and shell.l == 0:
                radial_slope[first] = shell.function(np.zeros(1)).slope[0] * Y00
        for spin, count in enumerate(occupied):
            C = self.coefficients[spin][:, :count]
            density += float(((here @ C) ** 2).sum())
            slope += float(((here @ C) * (radial_slope @ C)).sum())
        return 0.0 if density < 1e-20 else -slope / density


def orbital_set(
    centres: NDArray[np.float64],
    shells: Iterable[Shell],
    coefficients: NDArray[np.float64],
    about: dict[str, Any] | None = None,
    columns: Columns = NO_COLUMNS,
) -> OrbitalSet:
    """Build a set from shells in any order, whose coefficients (2, B, M) follow that order.

    Raises
    ------
    ValueError
        If the number of coefficients is not that of the atomic orbitals, or an l is too large.
    """
    shells = list(shells)
    if any(shell.l > L_MAX for shell in shells):
        raise ValueError(
            f"orbitals with l > {L_MAX} are not supported, found l = {max(shell.l for shell in shells)}"
        )
    ends = np.cumsum([0, *(shell.size for shell in shells)])
    if coefficients.shape[1] != ends[-1]:
        raise ValueError(
            f"{ends[-1]} atomic orbitals need as many coefficients, found {coefficients.shape[1]}"
        )
    by_atom = sorted(range(len(shells)), key=lambda k: shells[k].atom)
    order = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in by_atom])
    return OrbitalSet(
        np.ascontiguousarray(centres, np.float64),
        tuple(shells[k] for k in by_atom),
        np.ascontiguousarray(coefficients[:, order], np.float64),
        dict(about or {}),
        columns,
    )


def chosen_orbitals(
    matrices: Sequence[NDArray[np.float64]], orders: Orders, key: str, virtual: int | None = None
) -> tuple[NDArray[np.float64], Columns]:
    """Return the orbitals that determinants have, (2, B, M), zero for those that a spin does not have, and which they are.

    Parameters
    ----------
    matrices : pair of (B, all)
        All orbitals of both spins.
    orders
        Which of them, in their order.
    key
        Of the deck, which brings the orbitals.
    virtual
        How many orbitals follow that no determinant has, the first ones of the source; None: not even those that determinants
        have with the other spin alone.

    Raises
    ------
    InvalidInput
        If there are fewer orbitals.
    """
    both = min(matrix.shape[1] for matrix in matrices)
    shared = bool(np.array_equal(matrices[0][:, :both], matrices[1][:, :both]))
    numbers = []
    for spin, (matrix, order) in enumerate(zip(matrices, orders, strict=True)):
        count = matrix.shape[1]
        if max(order, default=-1) >= count:
            raise InvalidInput(
                key,
                f"a determinant has orbital {max(order)}, counted from 0; the source has {count} orbitals",
            )
        # What another spin has is no virtual orbital: both spins then have the same ones.
        others = set(orders[1 - spin]) if shared and virtual is not None else set()
        free = [o for o in range(count) if o not in order and o not in others][: virtual or 0]
        numbers.append([*order, *sorted(o for o in others if o not in order and o < count), *free])
    found = np.zeros((2, matrices[0].shape[0], max(map(len, numbers))))
    for spin, order in enumerate(numbers):
        found[spin, :, : len(order)] = matrices[spin][:, order]
    return found, Columns((numbers[0], numbers[1]), shared)


def _rounded_up(numbers: NDArray[np.float64], real: DTypeLike) -> NDArray[Any]:
    """Return an array (a, b, c), with zeros up to a multiple of four of the last index, which is the fastest in memory."""
    found = np.zeros((*numbers.shape[:2], -(-numbers.shape[2] // 4) * 4), real)
    found[..., : numbers.shape[2]] = numbers
    return found


def _side_by_side(
    atoms: list[tuple[Shell, ...]] | list[list[Shell]], real: DTypeLike
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the kind of each atom, and the tables of each kind with four shells side by side, (kinds, K, L, 6, 4)."""
    kinds: dict[bytes, int] = {}
    tables: list[NDArray[np.float64]] = []
    found = []
    width = -(-max(len(shells) for shells in atoms) // 4)
    for shells in atoms:
        name = b"".join(shell.table.tobytes() for shell in shells)
        if name not in kinds:
            kinds[name] = len(tables)
            table = np.zeros((4 * width, radial.INTERVALS, 6))
            for place, shell in zip(table, shells, strict=False):
                place[...] = shell.table
            tables.append(table.reshape(width, 4, radial.INTERVALS, 6).transpose(2, 0, 3, 1))
        found.append(kinds[name])
    return np.array(found, np.int64), np.ascontiguousarray(np.stack(tables).astype(real))
