"""Momenta of a lattice: those that its cells have, and the points of its Brillouin zone that have names.

Momenta are vectors in units of pi, neighbours at distance 1: ``(1, 1, 0)`` is ``(pi, pi)`` of a square lattice.  Plain Python, as
the checks of a deck need it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from qsim.core.text import multiple_of_pi
from qsim.trotter.deck import lattices as blocks
from qsim.trotter.lattices.bonds import CELLS, ORIGIN, Place, bonds, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Translations", "all_momenta", "points", "shifts", "translations", "wave_vector"]

# rounding of a length in the zone
SAME = 1e-9
HALF, THIRD = 0.5, 1.0 / 3.0
Points = dict[str, tuple[float, ...]]
_HEXAGONAL: Points = {"M": (HALF, HALF), "K": (2.0 * THIRD, THIRD)}
_FCC: Points = {
    "X": (HALF, HALF, 0.0),
    "L": (HALF, HALF, HALF),
    "W": (HALF, 0.25, 0.75),
    "K": (0.375, 0.375, 0.75),
}
#: Parts of the reciprocal vectors that lead to each point (Setyawan and Curtarolo, Comput. Mater. Sci. 49, 299 (2010)).
POINTS: dict[type, Points] = {
    blocks.Square: {"X": (HALF, 0.0), "Y": (0.0, HALF), "M": (HALF, HALF)},
    blocks.Ladder: {"X": (HALF, 0.0), "Y": (0.0, HALF), "M": (HALF, HALF)},
    blocks.Triangular: _HEXAGONAL,
    blocks.Honeycomb: _HEXAGONAL,
    blocks.Kagome: _HEXAGONAL,
    blocks.Cubic: {"X": (HALF, 0.0, 0.0), "M": (HALF, HALF, 0.0), "R": (HALF, HALF, HALF)},
    blocks.Bcc: {"H": (HALF, -HALF, HALF), "N": (0.0, 0.0, HALF), "P": (0.25, 0.25, 0.25)},
    blocks.Fcc: _FCC,
    blocks.Pyrochlore: _FCC,
}
Cells = blocks.Crystal | blocks.Ladder


def _vectors(lattice: Cells) -> tuple[Place, ...]:
    """Return the vectors of the cells; of a ladder along the legs and across."""
    return (
        CELLS[blocks.Square].vectors if isinstance(lattice, blocks.Ladder) else CELLS[type(lattice)].vectors
    )


def shifts(lattice: Cells, spins: int) -> list[list[int]]:
    """Return where each site goes under the shift by one cell along each periodic vector of a lattice."""
    lengths = _lengths(lattice, spins)
    # Cells count along the first vector first.  Rungs are the cells of a ladder, legs its sites.
    closed: tuple[bool, ...]
    if isinstance(lattice, blocks.Ladder):
        inner, lengths, closed = lengths[1], lengths[:1], (lattice.periodic,)
    else:
        inner, closed = lattice.SITES, lattice.closed()
    found, step = [], 1
    for length, periodic in zip(lengths, closed, strict=True):
        if periodic and length > 1:
            sites = []
            for site in range(spins):
                cell, place = divmod(site, inner)
                last = cell // step % length == length - 1
                sites.append(inner * (cell + (step * (1 - length) if last else step)) + place)
            found.append(sites)
        step *= length
    return found


@dataclass(frozen=True)
class Translations:
    """Shifts of the sites that momenta of a sector belong to, which are numbered with that of the first shift running fastest.

    Attributes
    ----------
    shifts : list of lists of int
        Where each site goes: by one site of a ring, or by one cell along each closed direction of a lattice.
    lengths : tuple of int
        Orders of the shifts.
    texts : tuple of str
        Direction of each, nothing for a ring.
    named : mapping of text to tuple of Fraction
        Parts of 2 pi along each shift of the points of the zone that the lattice has.
    missing : str
        Why there are no momenta, where there are none.
    lattice
        Block of the deck.
    """

    shifts: list[list[int]]
    lengths: tuple[int, ...]
    texts: tuple[str, ...] = ("",)
    named: dict[str, tuple[Fraction, ...]] = field(default_factory=dict)
    missing: str = ""
    lattice: object = None

    @classmethod
    def of_ring(cls, spins: int, lattice: object = None) -> Translations:
        """Return the shifts of a ring."""
        shift = [(j + 1) % spins for j in range(spins)]
        return cls([shift], (spins,), named={"Gamma": (Fraction(0),)}, lattice=lattice)

    @property
    def count(self) -> int:
        """Number of momenta."""
        return math.prod(self.lengths)

    def parts(self, number: int) -> list[int]:
        """Return m of the momentum 2 pi m / L along each shift."""
        found = []
        for length in self.lengths:
            number, m = divmod(number, length)
            found.append(m)
        return found

    def negative(self, number: int) -> int:
        """Return the number of the opposite momentum."""
        total, step = 0, 1
        for m, length in zip(self.parts(number), self.lengths, strict=True):
            total, step = total + step * (-m % length), step * length
        return total

    def numbers(self, given: object) -> list[int | None]:
        """Return the numbers of the momenta of a deck: of all, a number or a point, or a list of them; None where it has none.

        Raises
        ------
        ValueError
            If there is no such momentum.
        """
        if given is None:
            return [None]
        if self.missing:
            raise ValueError(self.missing)
        if given == "all":
            return list(range(self.count))
        return [self._number(one) for one in (given if isinstance(given, list) else [given])]

    def _number(self, given: object) -> int:
        """Return the number of a momentum given by its number or by a point of the zone."""
        if isinstance(given, int) and given < self.count:
            return given
        by_lower = {name.lower(): parts for name, parts in self.named.items()}
        parts = by_lower.get(str(given).lower())
        if parts is None:
            cells, last = " x ".join(map(str, self.lengths)), self.count - 1
            what = f"2 pi k / {self.count} with k from 0 to {last}"
            if self.texts != ("",):
                zone = ", ".join(self.named)
                what = f"one of {cells} cells, numbered from 0 to {last}, or a point of the zone: {zone}"
            raise ValueError(f"the momentum is {what}; found {given}")
        total, step = 0, 1
        for part, length in zip(parts, self.lengths, strict=True):
            if (part * length).denominator != 1:
                cells = " x ".join(map(str, self.lengths))
                raise ValueError(
                    f"{given} is no momentum of {cells} cells: it has the part {part} of 2 pi along a direction of {length}"
                )
            total, step = total + step * (int(part * length) % length), step * length
        return total


def translations(lattice: object, spins: int) -> Translations:
    """Return the shifts of the sites that momenta belong to.

    Raises
    ------
    ValueError
        If the lattice has no such number of sites.
    """
    ring = Translations.of_ring(spins, lattice)
    if not isinstance(lattice, Cells):
        return ring
    moves = shifts(lattice, spins)
    ladder = isinstance(lattice, blocks.Ladder)
    lengths = _lengths(lattice, spins)
    closed = (lattice.periodic, False) if ladder else lattice.closed()  # type: ignore[union-attr]
    if not any(closed):
        pairs = {(bond.j, bond.k) for bond in bonds(lattice, spins, [1])}
        # an open one whose bonds are those of a ring all the same, such as a single bond
        if pairs == {tuple(sorted(((j + 1) % spins, (k + 1) % spins))) for j, k in pairs}:
            return ring
        missing = (
            f"momentum belongs to shifts of a ring by one site, which a lattice of type {lattice.type} does not have; nor has it "
            "shifts by one cell, as it is open: see periodic"
        )
        return Translations([], (), (), missing=missing, lattice=lattice)
    kept = [i for i, (length, yes) in enumerate(zip(lengths, closed, strict=True)) if yes and length > 1]
    named: dict[str, tuple[Fraction, ...]] = {"Gamma": (Fraction(0),) * len(kept)}
    for name, parts in POINTS[type(lattice)].items():
        exact = [Fraction(part).limit_denominator(12) for part in parts]
        # along an open direction there is no momentum
        if not any(part for i, part in enumerate(exact) if i not in kept):
            named[name] = tuple(exact[i] for i in kept)
    return Translations(
        moves,
        tuple(lengths[i] for i in kept),
        tuple(f" along a{i + 1}" for i in kept),
        named,
        lattice=lattice,
    )


def _lengths(lattice: Cells, spins: int) -> tuple[int, ...]:
    """Return the numbers of cells along the vectors."""
    if isinstance(lattice, blocks.Ladder):
        return spins // lattice.legs, lattice.legs
    return shape_of(lattice, spins)


def _cross(a: Place, b: Place) -> Place:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def reciprocal(lattice: Cells) -> list[Place]:
    """Return the reciprocal vectors b_i in units of pi, ``a_i . b_j = 2 delta_ij``."""
    given = list(_vectors(lattice))
    # a plane has the vector out of it as its third one
    a = [*given, (0.0, 0.0, 1.0)][:3]
    volume = _dot(a[0], _cross(a[1], a[2]))
    vectors = []
    for i in range(len(given)):
        x, y, z = _cross(a[(i + 1) % 3], a[(i + 2) % 3])
        vectors.append((2.0 * x / volume, 2.0 * y / volume, 2.0 * z / volume))
    return vectors


def _combined(parts: Sequence[float], vectors: Sequence[Place]) -> Place:
    """Return a sum of vectors with given factors."""
    x, y, z = (
        math.fsum(p * b[axis] for p, b in zip(parts, vectors, strict=True)) + ORIGIN[axis]
        for axis in range(3)
    )
    return x, y, z


def _folded(q: Place, vectors: Sequence[Place]) -> Place:
    """Return the equal momentum next to the origin; of several the one with the most positive components."""
    images = [
        _combined([1.0, *(float(n) for n in numbers)], [q, *vectors])
        for numbers in product(range(-2, 3), repeat=len(vectors))
    ]
    nearest = min(_dot(image, image) for image in images)
    on_the_edge = [image for image in images if _dot(image, image) - nearest <= SAME * max(nearest, 1.0)]
    # round off -0.0 and differences in the last digit before the order is taken
    return max((round(x, 12) + 0.0, round(y, 12) + 0.0, round(z, 12) + 0.0) for x, y, z in on_the_edge)


def all_momenta(lattice: Cells, spins: int) -> list[Place]:
    """Return the momenta of the cells, ``sum_i m_i / L_i b_i``, in the first Brillouin zone, (0, 0, 0) first.

    Parameters
    ----------
    lattice
        Block of the deck; a direction that is open has the momenta of the closed one.
    spins
        Number of sites.
    """
    vectors, lengths = reciprocal(lattice), _lengths(lattice, spins)
    # the first direction runs fastest, as the cells do
    numbers = [tuple(reversed(each)) for each in product(*(range(n) for n in reversed(lengths)))]
    return [
        _folded(_combined([m / n for m, n in zip(each, lengths, strict=True)], vectors), vectors)
        for each in numbers
    ]


def points(lattice: Cells) -> dict[str, Place]:
    """Return the named points of the zone, Gamma first."""
    vectors = reciprocal(lattice)
    named = {"Gamma": ORIGIN}
    return named | {name: _combined(parts, vectors) for name, parts in POINTS[type(lattice)].items()}


def wave_vector(lattice: Cells | None, given: object) -> Place:
    """Return a momentum of the deck in units of pi: a name, one component, or a list of components.

    Parameters
    ----------
    lattice
        Lattice of the deck; None or another one for a row of sites, where q is one number.
    given
        ``0.5`` and ``"pi/2"`` are the same.

    Raises
    ------
    ValueError
        If there is no such point, or the number of components does not fit.
    """
    if isinstance(lattice, Cells):
        named = points(lattice)
        # Labels are capital letters, and told apart without them.
        by_lower = {name.lower(): point for name, point in named.items()}
        if isinstance(given, str) and given.lower() in by_lower:
            return by_lower[given.lower()]
        size = len(_vectors(lattice))
        if not isinstance(given, list) or len(given) != size:
            example = ", ".join(["pi"] * size)
            raise ValueError(
                f"expected [{example}] with {size} components (numbers are in units of pi), or a point of the {lattice.type} "
                f"zone, {', '.join(named)}; found {given}"
            )
        parts = [_component(part) for part in given]
        x, y, z = [*parts, 0.0, 0.0][:3]
        return x, y, z
    if isinstance(given, list):
        raise ValueError(f"sites in a row have one component of q, such as pi/2; found {given}")
    return _component(given), 0.0, 0.0


def _component(given: object) -> float:
    """Return one component in units of pi."""
    from qsim.core.deck.expression import Expression, ExpressionError

    if not isinstance(given, str):
        return float(given)  # type: ignore[arg-type]
    if (multiple := multiple_of_pi(given)) is not None:
        return multiple
    try:
        value = float(Expression(given, ())())
    except ExpressionError as error:
        raise ValueError(
            f"expected a number in units of pi, or a text such as pi/2; found {given!r}: {error}"
        ) from None
    if value and "pi" not in given:
        raise ValueError(
            f"a text is the whole value and holds pi, such as pi/2; a number is in units of pi; found {given!r}"
        )
    return value / math.pi
