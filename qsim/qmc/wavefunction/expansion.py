r"""Expansions in Slater determinants, ``sum_IJ C_IJ det phi_I(up) det phi_J(down)``: strings, tables for kernels, spin.

A string is the set of orbitals that the electrons of one spin occupy.  Kernels want the orbitals of each spin in another order:
those of the reference string first, and of these the ones that every string occupies before the others.  `arranged` finds the
order; an `Expansion` speaks of orbitals by their places in it, a determinant keeps the sign of ascending orbitals of the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from qsim.qmc.kernels.expansion.types import LEVELS, ExpansionTables, OneDeterminant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Strings: TypeAlias = NDArray[np.int64]

__all__ = [
    "Expansion",
    "Listed",
    "Orders",
    "TooMany",
    "arranged",
    "configurations",
    "one_determinant",
    "parity",
    "spin_squared",
]

Orders: TypeAlias = tuple[list[int], list[int]]
"""Orbitals of the source that each spin has, in the order of the columns that kernels get."""
Key: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

MOST_STRINGS, MOST_DETERMINANTS = 4096, 1_000_000  # of a spin with those of the recursion, and in all


class TooMany(ValueError):
    """An expansion is larger than the kernels take."""


class Listed(NamedTuple):
    """Determinants as a source lists them.

    Attributes
    ----------
    strings : pair of (K, n) int64
        Orbitals of the source in each string of a spin, ascending.
    pairs : (D, 2) int64
        Strings of each determinant.
    coefficients : (D,) float64
        Of any norm.
    """

    strings: tuple[Strings, Strings]
    pairs: NDArray[np.int64]
    coefficients: NDArray[np.float64]

    def only(self, kept: NDArray[np.bool_]) -> Listed:
        """Return some of the determinants."""
        return self._replace(pairs=self.pairs[kept], coefficients=self.coefficients[kept])


@dataclass(frozen=True)
class Expansion:
    """Determinants with their coefficients.

    Attributes
    ----------
    strings : pair of (K, n) int64
        Orbitals of each string of a spin, by their places among the orbitals of the spin; their order gives the sign.
    index : (D, 2) int64
        Strings of each determinant.
    coefficients : (D,) float64
        With the norm 1 at the start.
    tied : (D,) int64
        Configuration of each determinant; those of one keep the ratios of their coefficients.  0: the configuration that weighs
        most, whose coefficients stay, since the norm of psi is of no effect.  None: each determinant by itself.
    about : dict
        What is known of its origin.
    """

    strings: tuple[Strings, Strings]
    index: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    tied: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def orbitals(self) -> tuple[int, int]:
        """Numbers of orbitals of each spin that occur."""
        first, second = (int(strings.max(initial=-1)) + 1 for strings in self.strings)
        return first, second

    @property
    def size(self) -> int:
        """Number of determinants."""
        return len(self.coefficients)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Coefficients by the strings of both spins, (K_up, K_dn)."""
        found = np.zeros((len(self.strings[0]), len(self.strings[1])))
        np.add.at(found, (self.index[:, 0], self.index[:, 1]), self.coefficients)
        return found

    # ------------------------------------------------------------------------------ parameters

    @cached_property
    def _shapes(self) -> NDArray[np.float64]:
        """Coefficients that belong to a parameter of 1: of one configuration with the norm of those that stay, (D,)."""
        weight = np.bincount(self.tied, self.coefficients**2)
        return np.asarray(self.coefficients * np.sqrt(weight[0] / weight)[self.tied])

    @cached_property
    def parameters(self) -> NDArray[np.float64]:
        """Norms of the coefficients of all configurations but the first, over the norm of that one."""
        weight = np.bincount(self.tied, self.coefficients**2)
        return np.asarray(np.sqrt(weight[1:] / weight[0]))

    def with_parameters(self, values: NDArray[np.float64]) -> Expansion:
        """Return the expansion with other parameters, each of which multiplies the coefficients of its configuration."""
        made = replace(self, coefficients=self._shapes * np.concatenate([[1.0], values])[self.tied])
        # What a parameter multiplies stays, also where it becomes zero or changes its sign; so do strings and their order.
        made.__dict__.update(
            _shapes=self._shapes, parameters=np.array(values, np.float64), _closed=self._closed
        )
        return made

    def slopes(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the parameter of each determinant in the order of the tables, -1 for none, and the slope of its coefficient."""
        order, sign = self._order
        return self.tied[order] - 1, (self._shapes * sign)[order]

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Determinants by their strings of spin up, as tables list them, and the sign of each for kernels, (D,)."""
        up, dn = self._closed
        order = np.lexsort((dn.place[self.index[:, 1]], up.place[self.index[:, 0]]))
        return order, up.sign[self.index[:, 0]] * dn.sign[self.index[:, 1]]

    # -------------------------------------------------------------------------------- tables

    @cached_property
    def _closed(self) -> tuple[_Closed, _Closed]:
        """Strings of both spins as kernels take them."""
        first, second = (_Closed.of(strings) for strings in self.strings)
        return first, second

    def tables(self) -> OneDeterminant | ExpansionTables:
        """Return the arrays for kernels.

        Raises
        ------
        TooMany
            If there are more strings or higher excitations than kernels take.
        """
        if self.size == 1:
            return OneDeterminant(1)
        up, dn = self._closed
        K = len(up.level_of)
        S = K + len(dn.level_of)
        sizes, level = np.zeros((2, 4), np.int64), np.zeros((2, LEVELS + 2), np.int64)
        at = 1 + S
        for spin, part in enumerate((up, dn)):
            n, M = self.strings[spin].shape[1], self.orbitals[spin]
            sizes[spin] = n, M, part.first_hole, at
            at += n * (M - n)
            level[spin] = K * spin + np.searchsorted(part.level_of, np.arange(LEVELS + 2))
        # The sign of each string belongs to its coefficient.
        I = up.place[self.index[:, 0]]
        J = K + dn.place[self.index[:, 1]]
        C = self.coefficients * self._order[1]
        own, other, value = np.concatenate([I, J]), np.concatenate([J, I]), np.concatenate([C, C])
        order = np.lexsort((other, own))
        place = np.concatenate([up.terms[:, 0], dn.terms[:, 0]])
        parent = np.concatenate([up.terms[:, 1], K + dn.terms[:, 1]])
        levels = np.concatenate([up.level_of, dn.level_of])
        owner = np.repeat(np.arange(S), levels)
        subtracted = (np.arange(len(owner)) - np.repeat(np.cumsum(levels) - levels, levels)) % 2 == 1
        # Numbers of T of both spins, one behind the other.
        cells = [int(size[0] * (size[1] - size[0])) for size in sizes]
        cell = place + np.where(owner < K, 0, cells[0])
        child, by_cell = np.argsort(parent, kind="stable"), np.argsort(cell, kind="stable")
        return ExpansionTables(
            sizes=sizes,
            level=level,
            first_term=np.array([0, len(up.terms)], np.int64),
            place=place.astype(np.int32),
            parent=parent.astype(np.int32),
            begin=np.searchsorted(own[order], np.arange(S + 1)).astype(np.int64),
            other=other[order].astype(np.int32),
            coefficient=value[order],
            children=np.searchsorted(parent[child], np.arange(S + 1)).astype(np.int64),
            child=child.astype(np.int32),
            cells=np.searchsorted(cell[by_cell], np.arange(sum(cells) + 1)).astype(np.int64),
            cell=by_cell.astype(np.int32),
            owner=np.where(subtracted, ~owner, owner).astype(np.int32),
            numbers=at,
        )

    # ----------------------------------------------------------------------------- reference

    def values(self, rows: Sequence[NDArray[Any]]) -> tuple[Any, list[NDArray[Any]]]:
        """Return log and sign or phase of the sum over all determinants, and its logarithmic derivatives by the orbital values.

        Plain and slow: LAPACK's determinant and inverse of each string.

        Parameters
        ----------
        rows
            Of each spin (n, M): values of the orbitals at each electron.

        Returns
        -------
        (log, sign)
            Of psi without the Jastrow factor.
        list of (M, n)
            ``d ln psi / d phi_p(r_i)`` of each spin.
        """
        dets, logs, inverses = [], [], []
        for phi, strings in zip(rows, self.strings, strict=True):
            A = phi[:, strings].transpose(1, 0, 2)
            sign, log = np.linalg.slogdet(A)
            top = float(log.max())
            dets.append(sign * np.exp(log - top))
            logs.append(top)
            inverses.append(np.linalg.inv(A))
        C = self.matrix
        psi = dets[0] @ C @ dets[1]
        weights = [dets[0] * (C @ dets[1]) / psi, dets[1] * (dets[0] @ C) / psi]
        slopes = []
        for phi, strings, inverse, weight in zip(rows, self.strings, inverses, weights, strict=True):
            slope = np.zeros(phi.shape[::-1], phi.dtype)
            for string, one, w in zip(strings, inverse, weight, strict=True):
                slope[string] += w * one
            slopes.append(slope)
        return (sum(logs) + float(np.log(np.abs(psi))), psi / np.abs(psi)), slopes


@dataclass(frozen=True)
class _Closed:
    """Strings of a spin with all that their recursion needs, by ascending level.

    Attributes
    ----------
    level_of : (K,) int64
        Electrons that each moves out of the reference.
    terms : (T, 2) int64
        Place in the (n, M - n) table and parent of each term.
    place : (given,) int64
        Of each given string.
    sign : (given,) float64
        Of its order against that of the reference with each particle in the place of its hole.
    first_hole : int
        The first orbital of the reference that is ever empty; n if none is.
    """

    level_of: NDArray[np.int64]
    terms: NDArray[np.int64]
    place: NDArray[np.int64]
    sign: NDArray[np.float64]
    first_hole: int

    @staticmethod
    def of(strings: Strings) -> _Closed:
        """Return the strings (K, n) of a spin, whose reference is 0 ... n - 1, closed under the recursion."""
        n = strings.shape[1]
        p = int(strings.max(initial=-1)) + 1 - n
        keys = [
            (tuple(h for h in range(n) if h not in here), tuple(sorted(q for q in here if q >= n)))
            for here in (set(string.tolist()) for string in strings)
        ]
        known = set(keys) | {((), ())}
        waiting = list(known)
        while waiting:
            holes, particles = waiting.pop()
            if len(holes) > LEVELS:
                raise TooMany(
                    f"a string moves {len(holes)} electrons out of the reference, {LEVELS} is the most"
                )
            for parent in _parents(holes, particles):
                if parent not in known:
                    known.add(parent)
                    waiting.append(parent)
        if len(known) > MOST_STRINGS:
            raise TooMany(f"{len(known)} strings of a spin, {MOST_STRINGS} is the most")
        order = sorted(known, key=lambda key: (len(key[0]), key))
        number = {key: k for k, key in enumerate(order)}
        terms = [
            (holes[-1] * p + particles[-1 - j] - n, number[parent])
            for holes, particles in order
            for j, parent in enumerate(_parents(holes, particles))
        ]
        signs = [_sign(string.tolist(), n, key) for string, key in zip(strings, keys, strict=True)]
        return _Closed(
            level_of=np.array([len(key[0]) for key in order], np.int64),
            terms=np.array(terms, np.int64).reshape(-1, 2),
            place=np.array([number[key] for key in keys], np.int64),
            sign=np.array(signs),
            first_hole=min((key[0][0] for key in order if key[0]), default=n),
        )


def _parents(holes: tuple[int, ...], particles: tuple[int, ...]) -> list[Key]:
    """Return the strings of the minors along the row of the last hole, that without the last particle first."""
    return [
        (holes[:-1], particles[:j] + particles[j + 1 :]) for j in range(len(particles) - 1, -1, -1) if holes
    ]


def _sign(string: list[int], n: int, key: Key) -> float:
    """Return the sign between the columns of a string and the reference with each particle in the place of its hole."""
    goal = list(range(n))
    for hole, particle in zip(*key, strict=True):
        goal[hole] = particle
    return parity([string.index(o) for o in goal])


def parity(permutation: Sequence[int]) -> float:
    """Return the sign of a permutation."""
    left, sign = list(permutation), 1.0
    for i in range(len(left)):
        while left[i] != i:
            j = left[i]
            left[i], left[j] = left[j], left[i]
            sign = -sign
    return sign


# ------------------------------------------------------------------------------------------- making


def one_determinant(n_up: int, n_dn: int) -> Expansion:
    """Return the expansion of a single determinant of the first orbitals."""
    up, dn = (np.arange(n, dtype=np.int64)[None] for n in (n_up, n_dn))
    return Expansion((up, dn), np.zeros((1, 2), np.int64), np.ones(1))


def arranged(listed: Listed, configuration: NDArray[np.int64] | None = None) -> tuple[Expansion, Orders]:
    """Return an expansion, normalised, and the orbitals of each spin in the order that it speaks of.

    Parameters
    ----------
    listed
        Its determinants.
    configuration
        Number of the configuration of each, as `configurations` finds it; each has its own by default.

    Raises
    ------
    TooMany
        If kernels do not take as many.
    """
    strings, index, coefficients = listed
    if len(coefficients) > MOST_DETERMINANTS:
        raise TooMany(f"{len(coefficients)} determinants, {MOST_DETERMINANTS} is the most")
    renumbered, orders = [], []
    for spin, table in enumerate(strings):
        used, numbers = np.unique(index[:, spin], return_inverse=True)
        table = table[used]
        index = index.copy()
        index[:, spin] = numbers.ravel()
        # The string that weighs most is the reference: minors that are large against it lose digits.
        weight = np.bincount(index[:, spin], coefficients**2)
        reference = table[int(np.argmax(weight))].tolist()
        always = set(reference).intersection(*(row.tolist() for row in table))
        core = [o for o in reference if o in always]
        others = sorted(set(table.ravel().tolist()) - set(reference))
        order = [*core, *(o for o in reference if o not in always), *others]
        place = np.zeros(max(order, default=0) + 1, np.int64)
        place[order] = np.arange(len(order))
        renumbered.append(place[table])
        orders.append(order)
    if configuration is None:
        configuration = np.arange(len(coefficients))
    numbers = np.unique(configuration, return_inverse=True)[1]
    # The configuration that weighs most comes first.
    first = int(np.argmax(np.bincount(numbers, coefficients**2)))
    tied = np.where(numbers == first, 0, np.where(numbers == 0, first, numbers)).astype(np.int64)
    made = Expansion((renumbered[0], renumbered[1]), index, coefficients / np.linalg.norm(coefficients), tied)
    if made.size > 1:
        made.tables()
    return made, (orders[0], orders[1])


def configurations(listed: Listed) -> NDArray[np.int64]:
    """Return the number of the spatial occupation of each determinant, (D,): those of one number differ by spins alone."""
    ups, dns = ([frozenset(row) for row in table.tolist()] for table in listed.strings)
    numbers: dict[tuple[frozenset[int], frozenset[int]], int] = {}
    found = [
        numbers.setdefault((ups[i] & dns[j], ups[i] ^ dns[j]), len(numbers)) for i, j in listed.pairs.tolist()
    ]
    return np.array(found, np.int64)


def spin_squared(listed: Listed) -> float:
    """Return <S^2> of determinants of orthonormal orbitals that both spins share.

    ``S^2 = S_z (S_z + 1) + |S_+ psi|^2``, and S_+ moves an electron of spin down to the same orbital of spin up.
    """
    strings, index, coefficients = listed
    sums: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    ups, dns = ([tuple(row) for row in table.tolist()] for table in strings)
    for (i, j), c in zip(index.tolist(), coefficients.tolist(), strict=True):
        up, dn = ups[i], dns[j]
        for k, o in enumerate(dn):
            if o not in up:
                before = sum(a < o for a in up)
                key = (tuple(sorted((*up, o))), dn[:k] + dn[k + 1 :])
                sums[key] = sums.get(key, 0.0) + (-1.0) ** (before + k) * c
    sz = 0.5 * (strings[0].shape[1] - strings[1].shape[1])
    raised = sum(value * value for value in sums.values())
    return sz * (sz + 1.0) + raised / float(coefficients @ coefficients)
