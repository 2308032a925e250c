"""Rotations and mirrors of closed planar lattices of cells, and their one-dimensional characters.

A group C_n holds the rotations by 2 pi / n about a centre, a site or the middle of a hexagon; C_nv a mirror as well, ``y -> -y``
through the centre.  A, B are 1, -1 under the rotation, the index 1, 2 is 1, -1 under the mirror (Mulliken).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from qsim.core.errors import DeckError
from qsim.trotter.deck import lattices as blocks
from qsim.trotter.lattices.bonds import CELLS, positions, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

# of a neighbour distance: places that differ by less are one
SAME = 1e-6
#: Largest order of a rotation.
ORDERS: dict[type, int] = {blocks.Square: 4, blocks.Triangular: 6, blocks.Honeycomb: 6, blocks.Kagome: 6}
Point = tuple[float, float]


class Move(NamedTuple):
    """A generator of the group.

    Attributes
    ----------
    text : str
    sites : tuple of int
        Where the spin of each site goes.
    phase : Fraction
        f of its eigenvalue ``exp(-2 pi i f)``.
    """

    text: str
    sites: tuple[int, ...]
    phase: Fraction


def irreps_of(name: str) -> list[str]:
    """Return the one-dimensional characters of a group by its name."""
    letters = "AB" if int(name[1]) % 2 == 0 else "A"
    return [letter + index for letter in letters for index in (("1", "2") if name.endswith("v") else ("",))]


def point_moves(lattice: object, spins: int, name: str, irrep: str) -> list[Move]:
    """Return the rotation and the mirror of a group, with the eigenvalues of a character.

    Raises
    ------
    DeckError
        If the lattice has no such symmetries, or the group no such character.
    """
    order = int(name[1])
    if irrep not in irreps_of(name):
        raise DeckError(
            f"sector.point_group: {name} has the one-dimensional characters {', '.join(irreps_of(name))}; found {irrep}"
        )
    most = ORDERS.get(type(lattice))
    if most is None:
        raise DeckError(
            "sector.point_group: it belongs to a lattice square, triangular, honeycomb or kagome of the deck"
        )
    assert isinstance(lattice, blocks.Square | blocks.Triangular | blocks.Honeycomb | blocks.Kagome)
    if most % order:
        raise DeckError(
            f"sector.point_group: a {lattice.type} lattice has no rotations of {name}: their order divides {most}"
        )
    angle = 2.0 * math.pi / order
    c, s = math.cos(angle), math.sin(angle)
    kinds: list[tuple[str, Callable[[Point], Point], Fraction]] = [
        (
            f"the rotation by 2 pi / {order}",
            lambda p: (c * p[0] - s * p[1], s * p[0] + c * p[1]),
            Fraction(irrep[0] == "B") / 2,
        )
    ]
    if name.endswith("v"):
        kinds.append(("the mirror y -> -y", lambda p: (p[0], -p[1]), Fraction(irrep[1] == "2") / 2))
    return [Move(text, _moved(lattice, spins, turn, text), phase) for text, turn, phase in kinds]


def _moved(lattice: blocks.Crystal, spins: int, turn: Callable[[Point], Point], text: str) -> tuple[int, ...]:
    """Return where the sites of a torus go."""
    cell, lengths = CELLS[type(lattice)], shape_of(lattice, spins)
    a, b = ((n * v[0], n * v[1]) for n, v in zip(lengths, cell.vectors, strict=True))
    # a site; of honeycomb twice, of kagome the sum of the places in a cell lead to the middle of a hexagon
    places = [(x, y) for x, y, _ in positions(lattice, spins)]
    times = 2.0 if isinstance(lattice, blocks.Honeycomb) else 1.0
    centre = times * sum(p[0] for p in cell.basis), times * sum(p[1] for p in cell.basis)

    def reduced(p: Point) -> tuple[int, int]:
        # parts along both sides of the torus, as whole multiples of a small length
        area = a[0] * b[1] - a[1] * b[0]
        parts = (p[0] * b[1] - p[1] * b[0]) / area, (a[0] * p[1] - a[1] * p[0]) / area
        unit = round(1.0 / SAME)
        return round((parts[0] % 1.0) * unit) % unit, round((parts[1] % 1.0) * unit) % unit

    sites = {reduced(p): j for j, p in enumerate(places)}
    images = [turn((p[0] - centre[0], p[1] - centre[1])) for p in places]
    found = [sites.get(reduced((p[0] + centre[0], p[1] + centre[1]))) for p in images]
    origin = reduced((0.0, 0.0))
    if not all(lattice.closed()) or reduced(turn(a)) != origin or reduced(turn(b)) != origin or None in found:
        shape = " x ".join(map(str, lengths))
        raise DeckError(
            f"sector.point_group: {text} is no symmetry of {shape} cells: both directions must be closed, and the torus one "
            "that it leaves as it is"
        )
    return tuple(site for site in found if site is not None)
