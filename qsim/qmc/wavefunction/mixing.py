r"""Orbitals that an optimisation changes: linear mixtures of those that the trial function begins with.

The orbitals of each spin are :math:`\phi\,(1+X)` with the orbitals :math:`\phi` of the start, those that determinants have and
virtual ones, and a parameter x for each pair that mixes: :math:`X_{pq}=x` adds orbital p to q, and :math:`X_{qp}=-x` takes q from
p where determinants have p, too.  To first order these are rotations, :math:`e^X`; with :math:`1+X` itself psi is a polynomial in
each parameter, the orbitals of the start are in its derivatives at any x, and parameters tell the orbitals without the steps that
led there.  :math:`1+X` has an inverse for every x, since X between orbitals of determinants is antisymmetric.  What both spins
share stays shared, so that the spin of psi stays.

Some pairs change nothing: both orbitals in all determinants or in none, and in a complete active space what coefficients do as
well.  Over determinants the changes of psi are the vectors :math:`(a_p^\dagger a_q-a_q^\dagger a_p)|\psi\rangle`; those that
depend on others, or on the derivatives by coefficients, are left out (J. Toulouse and C. J. Umrigar, J. Chem. Phys. 126,
084102 (2007)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from qsim.qmc.wavefunction.expansion import parity
from qsim.qmc.wavefunction.molecules.orbitals import Y00

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.qmc.system.ions import System
    from qsim.qmc.wavefunction.expansion import Expansion, Strings
    from qsim.qmc.wavefunction.molecules.orbitals import OrbitalSet

__all__ = ["Mixing", "Slope", "mixing_of", "uneven_cusps"]

INDEPENDENT = 1e-6  # squared norm that the change of psi by a parameter has beside what others do
SAME = 1e-6  # of an orbital, at reflected points
UNEVEN = 0.02  # deviation of cusps, relative to Z times the largest value at the nucleus
PROBES = 40  # points at which orbitals are compared with their images
Signs: TypeAlias = tuple[int, ...]


class Slope(NamedTuple):
    """What a parameter does: ``sign`` times orbital `added` of the start is added to orbital `to` of a spin."""

    spin: int
    added: int
    to: int
    sign: float


@dataclass(frozen=True)
class Mixing:
    """Orbitals that mix, and by how much.

    Attributes
    ----------
    start : OrbitalSet
        The orbitals of determinants at the start, and behind them virtual ones.
    occurring
        Numbers of orbitals of each spin that determinants have.
    pairs : (P, 2) int64
        Of each parameter: orbitals p and q of the source, the first of which is added to the second.
    slopes
        What each parameter does.
    values : (P,) float64
    signs
        For each spin and orbital how it behaves under each symmetry of the ions: 1, -1, or 0 where neither is true.
    """

    start: OrbitalSet
    occurring: tuple[int, int]
    pairs: NDArray[np.int64]
    slopes: tuple[tuple[Slope, ...], ...]
    values: NDArray[np.float64]
    signs: tuple[tuple[Signs, ...], tuple[Signs, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        shared = self.start.columns.shared
        return tuple(
            f"x_{p}_{q}" if shared else f"x_{('up', 'dn')[slopes[0].spin]}_{p}_{q}"
            for (p, q), slopes in zip(self.pairs.tolist(), self.slopes, strict=True)
        )

    @cached_property
    def matrices(self) -> NDArray[np.float64]:
        """Shares of the orbitals of the start in those that determinants have, (2, all, occurring)."""
        found = np.zeros((2, self.start.coefficients.shape[2], max(self.occurring)))
        for spin, count in enumerate(self.occurring):
            found[spin, np.arange(count), np.arange(count)] = 1.0
        for x, slopes in zip(self.values, self.slopes, strict=True):
            for spin, added, to, sign in slopes:
                found[spin, added, to] += sign * x
        return found

    def with_values(self, values: NDArray[np.float64]) -> Mixing:
        """Return the mixing with other parameters (P,)."""
        return replace(self, values=np.array(values, np.float64))

    def orbitals(self) -> OrbitalSet:
        """Return the orbitals that determinants have."""
        C = self.start.coefficients
        if not self.values.any():  # to the bit
            return replace(self.start, coefficients=np.ascontiguousarray(C[:, :, : max(self.occurring)]))
        return replace(self.start, coefficients=C @ self.matrices)

    # ------------------------------------------------------------------------------- independence

    def chosen(
        self, expansion: Expansion, *, coefficients: bool, virtual: int | None = None, symmetry: bool = False
    ) -> NDArray[np.int64]:
        """Return the numbers of parameters that change psi independently.

        Parameters
        ----------
        expansion
            The determinants.
        coefficients
            Whether coefficients are optimised, too: what they do is left to them.
        virtual
            Number of virtual orbitals that take part, the first ones; None: all.
        symmetry
            Whether orbitals that differ in their symmetry stay apart.
        """
        candidates = [
            k
            for k, slopes in enumerate(self.slopes)
            if all(self._allowed(slope, virtual, symmetry) for slope in slopes)
        ]
        inner = [k for k in candidates if not self._is_outer(k)]
        changes = _Changes(expansion)
        kept = [
            inner[k] for k in _independent(changes.products([self.slopes[k] for k in inner], coefficients))
        ]
        # Changes with different virtual orbitals are orthogonal; with the same one, as their densities.
        outer: dict[tuple[int, ...], list[int]] = {}
        for k in candidates:
            if self._is_outer(k):
                key = (
                    int(self.pairs[k, 0]),
                    *(slope.spin for slope in self.slopes[k] if not self.start.columns.shared),
                )
                outer.setdefault(key, []).append(k)
        for group in outer.values():
            overlaps = np.zeros((len(group), len(group)))
            for i, one in enumerate(group):
                for j, other in enumerate(group):
                    overlaps[i, j] = sum(
                        changes.densities[a.spin][a.to, b.to]
                        for a in self.slopes[one]
                        for b in self.slopes[other]
                        if a.spin == b.spin
                    )
            kept += [group[k] for k in _independent(overlaps)]
        return np.array(sorted(kept), np.int64)

    def _allowed(self, slope: Slope, virtual: int | None, symmetry: bool) -> bool:
        spin, added, to, _ = slope
        if virtual is not None:
            numbers, shared = self.start.columns
            inside = set(numbers[spin][: self.occurring[spin]])
            if shared:
                inside |= set(numbers[1 - spin][: self.occurring[1 - spin]])
            beyond = [o for o in numbers[spin] if o not in inside]
            if numbers[spin][added] in beyond[virtual:]:
                return False
        if not symmetry:
            return True
        return all(a * b >= 0 for a, b in zip(self.signs[spin][added], self.signs[spin][to], strict=True))

    def _is_outer(self, k: int) -> bool:
        """Return True if a parameter adds an orbital that no determinant has."""
        return all(s.sign > 0.0 and s.added >= self.occurring[s.spin] for s in self.slopes[k])


def mixing_of(orbitals: OrbitalSet, expansion: Expansion, system: System) -> Mixing:
    """Return the mixing of all orbitals of a set, of which determinants have the first ones, at its start."""
    numbers, shared = orbitals.columns
    first, second = expansion.orbitals
    has = [set(numbers[0][:first]), set(numbers[1][:second])]
    pairs: list[tuple[int, int]] = []
    slopes: list[tuple[Slope, ...]] = []
    for group in ([0, 1],) if shared else ([0], [1]):
        every = sorted(set().union(*(numbers[spin] for spin in group)))
        occurring = sorted(set().union(*(has[spin] for spin in group)))
        for q in occurring:
            for p in every:
                if p == q or (p in occurring and p < q):
                    continue
                found = []
                for spin in group:
                    if not {p, q} <= set(numbers[spin]):
                        continue
                    a, b = numbers[spin].index(p), numbers[spin].index(q)
                    found += [Slope(spin, a, b, 1.0)] if q in has[spin] else []
                    found += [Slope(spin, b, a, -1.0)] if p in has[spin] else []
                if found:
                    pairs.append((p, q))
                    slopes.append(tuple(found))
    return Mixing(
        start=orbitals,
        occurring=expansion.orbitals,
        pairs=np.array(pairs, np.int64).reshape(-1, 2),
        slopes=tuple(slopes),
        values=np.zeros(len(pairs)),
        signs=_signs(orbitals, system),
    )


def uneven_cusps(orbitals: OrbitalSet, system: System) -> list[str]:
    """Return the bare nuclei (``Be``, or ``Be at atom 2``) where orbitals differ in their cusps, which mixing then changes."""
    found = []
    for atom, symbol in enumerate(system.symbols):
        if not system.is_bare(symbol):
            continue
        values = orbitals.atomic(orbitals.centres[atom][None], exact=True)[0, 0]
        slopes = np.zeros(orbitals.size)
        for shell, first in zip(orbitals.shells, orbitals.first, strict=True):
            if shell.atom == atom and shell.l == 0:
                slopes[first] = shell.function(np.zeros(1)).slope[0] * Y00
        v, s = (np.concatenate([x @ C for C in orbitals.coefficients]) for x in (values, slopes))
        if not v.any():
            continue
        left = s - (s @ v) / (v @ v) * v  # one cusp for all would leave nothing
        if np.abs(left).max() > UNEVEN * float(system.charges[atom]) * np.abs(v).max():
            found.append(symbol if len(system.symbols) == 1 else f"{symbol} at atom {atom}")
    return found


def _signs(orbitals: OrbitalSet, system: System) -> tuple[tuple[Signs, ...], tuple[Signs, ...]]:
    """Return how orbitals behave under the reflections and turns along the axes that leave the ions where they are."""
    places, charges = system.positions, system.charges
    weight = charges if charges.any() else np.ones(len(places))
    centre = weight @ places / weight.sum() if len(places) else np.zeros(3)
    points = np.random.default_rng(0).normal(scale=1.5, size=(PROBES, 3))
    homes = places if len(places) else np.zeros((1, 3))
    points = points + homes[np.arange(PROBES) % len(homes)]
    signs: list[list[list[int]]] = [[[] for _ in order] for order in orbitals.columns.numbers]
    for k in range(1, 8):
        turn = np.array([-1.0 if k >> x & 1 else 1.0 for x in range(3)])
        images = centre + turn * (places - centre)
        there = [np.flatnonzero(np.abs(places - image).max(axis=1) < SAME) for image in images]
        if not all(
            t.size and system.symbols[int(t[0])] == symbol
            for t, symbol in zip(there, system.symbols, strict=False)
        ):
            continue
        for spin, one in enumerate(signs):
            before = orbitals.rows(points, spin)[:, 0]
            after = orbitals.rows(centre + turn * (points - centre), spin)[:, 0]
            for o, found in enumerate(one):
                size = SAME * float(np.abs(before[:, o]).max())
                same = np.abs(after[:, o] - before[:, o]).max() <= size
                opposite = np.abs(after[:, o] + before[:, o]).max() <= size
                found.append(int(same) - int(opposite))
    first, second = (tuple(tuple(found) for found in one) for one in signs)
    return first, second


# --------------------------------------------------------------------------- changes of determinants


class _Changes:
    """Changes of an expansion by moving an electron from one orbital to another, as vectors over determinants."""

    def __init__(self, expansion: Expansion) -> None:
        self.expansion = expansion
        self._numbers: tuple[dict[tuple[int, ...], int], ...] = ({}, {})
        self._own = [self._known(spin, strings) for spin, strings in enumerate(expansion.strings)]

    def _known(self, spin: int, strings: Strings) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return numbers of strings by their orbitals in ascending order, and the signs of their orders."""
        known = self._numbers[spin]
        numbers, signs = [], []
        for row in strings.tolist():
            order = sorted(range(len(row)), key=row.__getitem__)
            numbers.append(known.setdefault(tuple(row[k] for k in order), len(known)))
            signs.append(parity(order))
        return np.array(numbers, np.int64), np.array(signs, np.float64)

    @cached_property
    def densities(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Density matrices of both spins over orbitals, of psi with the norm 1."""
        c = self.expansion.coefficients
        found = []
        for spin, (strings, M) in enumerate(
            zip(self.expansion.strings, self.expansion.orbitals, strict=True)
        ):
            # Overlaps of a_q |psi>: strings that lack an electron, with what the other spin is in.
            gamma = np.zeros((M, M))
            holes: dict[tuple[tuple[int, ...], int], list[tuple[int, float]]] = {}
            for (k, other), value in zip(self._pairs(spin), c.tolist(), strict=True):
                row = strings[k].tolist()
                order = sorted(range(len(row)), key=row.__getitem__)
                ascending, sign = [row[x] for x in order], parity(order)
                for place, q in enumerate(ascending):
                    rest = (*ascending[:place], *ascending[place + 1 :])
                    holes.setdefault((rest, other), []).append((q, sign * (-1.0) ** place * value))
            for entries in holes.values():
                for q, a in entries:
                    for r, b in entries:
                        gamma[q, r] += a * b
            found.append(gamma / float(c @ c))
        return found[0], found[1]

    def _pairs(self, spin: int) -> list[tuple[int, int]]:
        """Return the string of a spin and that of the other one of each determinant."""
        return [(row[spin], row[1 - spin]) for row in self.expansion.index.tolist()]

    def products(self, changes: Sequence[tuple[Slope, ...]], coefficients: bool) -> NDArray[np.float64]:
        """Return the scalar products of changes, beside what a change of coefficients or of the norm does, (P, P)."""
        if not changes:
            return np.zeros((0, 0))
        expansion = self.expansion
        c = expansion.coefficients / np.linalg.norm(expansion.coefficients)
        vectors: list[dict[tuple[int, int], float]] = []
        for slopes in changes:
            vector: dict[tuple[int, int], float] = {}
            for slope in slopes:
                numbers, signs = self._moved(slope)
                for (own, other), value in zip(self._pairs(slope.spin), c.tolist(), strict=True):
                    if numbers[own] < 0:
                        continue
                    rest, sign = self._own[1 - slope.spin]
                    there = int(rest[other])
                    key = (numbers[own], there) if slope.spin == 0 else (there, numbers[own])
                    vector[key] = vector.get(key, 0.0) + slope.sign * signs[own] * float(sign[other]) * value
            vectors.append(vector)
        places: dict[tuple[int, int], int] = {}
        for (up, dn), _ in zip(expansion.index.tolist(), c, strict=True):
            places.setdefault((int(self._own[0][0][up]), int(self._own[1][0][dn])), len(places))
        D = len(places)
        for vector in vectors:
            for key in vector:
                places.setdefault(key, len(places))
        V = np.zeros((len(vectors), len(places)))
        for row, vector in zip(V, vectors, strict=True):
            row[[places[key] for key in vector]] = list(vector.values())
        # What coefficients do: each configuration is a direction of its own; without them psi itself is.
        up, dn = expansion.index.T
        signed = c * self._own[0][1][up] * self._own[1][1][dn]
        groups = expansion.tied if coefficients and expansion.parameters.size else np.zeros(len(c), np.int64)
        directions = np.zeros((D, int(groups.max(initial=0)) + 1))
        directions[np.arange(D), groups] = signed
        directions /= np.maximum(np.linalg.norm(directions, axis=0), np.finfo(float).tiny)
        inside = V[:, :D] @ directions
        return np.asarray(V @ V.T - inside @ inside.T)

    def _moved(self, slope: Slope) -> tuple[list[int], list[float]]:
        """Return the strings with the electron of an orbital in another, -1 for none, and the signs of their orders."""
        known = self._numbers[slope.spin]
        numbers, signs = [], []
        for row in self.expansion.strings[slope.spin].tolist():
            if slope.to not in row or slope.added in row:
                numbers.append(-1)
                signs.append(0.0)
                continue
            changed = [slope.added if o == slope.to else o for o in row]
            order = sorted(range(len(row)), key=changed.__getitem__)
            numbers.append(known.setdefault(tuple(changed[k] for k in order), len(known)))
            signs.append(parity(order))
        return numbers, signs


def _independent(products: NDArray[np.float64]) -> list[int]:
    """Return which vectors are independent, by their scalar products: Cholesky's decomposition with pivots."""
    left, found = products.copy(), []
    for _ in range(len(left)):
        k = int(np.argmax(np.diag(left)))
        if not left[k, k] > INDEPENDENT:
            break
        found.append(k)
        column = left[:, k] / np.sqrt(left[k, k])
        left -= np.outer(column, column)
        left[k, :] = left[:, k] = 0.0
    return sorted(found)
