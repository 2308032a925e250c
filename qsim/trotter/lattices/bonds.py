"""Lattices: which pairs of sites are neighbours of which shell, how far apart they are, and where the sites lie.

Plain Python, since there are at most 780 pairs, and the checks of a deck need it.  Every pair counts once, j < k; in a periodic
direction the nearest image counts.  Two sites that are equally near by several ways round (across a periodic direction of two
sites, opposite sites of a ring) are one bond with ``images: one``, and as many as there are ways with ``images: all``.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from qsim.trotter.deck import lattices as blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# relative difference below which two distances are one shell
SAME = 1e-9


Place = tuple[float, float, float]
ORIGIN: Place = (0.0, 0.0, 0.0)


class Cell(NamedTuple):
    """Vectors of the cells of a lattice, and where the sites of a cell lie; neighbours are at distance 1."""

    vectors: tuple[Place, ...]
    basis: tuple[Place, ...] = (ORIGIN,)


_ROOT3, _ROOT2 = math.sqrt(3.0), math.sqrt(2.0)
# half the edge of the cube of bcc, fcc and pyrochlore lattices
_BCC, _FCC, _PYROCHLORE = 1.0 / _ROOT3, 0.5 * _ROOT2, _ROOT2
CELLS: dict[type[blocks.Crystal], Cell] = {
    blocks.Square: Cell(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))),
    blocks.Triangular: Cell(((1.0, 0.0, 0.0), (0.5, 0.5 * _ROOT3, 0.0))),
    blocks.Honeycomb: Cell(
        ((_ROOT3, 0.0, 0.0), (0.5 * _ROOT3, 1.5, 0.0)), (ORIGIN, (0.5 * _ROOT3, 0.5, 0.0))
    ),
    blocks.Kagome: Cell(
        ((2.0, 0.0, 0.0), (1.0, _ROOT3, 0.0)), (ORIGIN, (1.0, 0.0, 0.0), (0.5, 0.5 * _ROOT3, 0.0))
    ),
    blocks.Cubic: Cell(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))),
    blocks.Bcc: Cell(((-_BCC, _BCC, _BCC), (_BCC, -_BCC, _BCC), (_BCC, _BCC, -_BCC))),
    blocks.Fcc: Cell(((0.0, _FCC, _FCC), (_FCC, 0.0, _FCC), (_FCC, _FCC, 0.0))),
    # the tetrahedron of a cell has its corners half way to the next cells
    blocks.Pyrochlore: Cell(
        ((0.0, _PYROCHLORE, _PYROCHLORE), (_PYROCHLORE, 0.0, _PYROCHLORE), (_PYROCHLORE, _PYROCHLORE, 0.0)),
        (ORIGIN, (0.0, _FCC, _FCC), (_FCC, 0.0, _FCC), (_FCC, _FCC, 0.0)),
    ),
}


class Bond(NamedTuple):
    """A pair of sites j < k of a lattice, its distance, its shell, counted from 1, and the number of equally near ways."""

    j: int
    k: int
    distance: float
    shell: int
    ways: int


# lattices whose bonds are kept: all realisations of disorder have the same
KEPT = 64
_kept: dict[tuple[str, str, int, tuple[int, ...] | None], list[Bond]] = {}


def bonds(lattice: blocks.Lattice, spins: int, shells: Sequence[int] | None = None) -> list[Bond]:
    """Return the pairs of a lattice, sorted by (j, k); they are found once for a lattice.

    Parameters
    ----------
    lattice
        Block of the deck.
    spins
        Number of sites.
    shells
        Which shells, from 1 for nearest neighbours; None for every pair.

    Raises
    ------
    ValueError
        If a shell does not exist, or holds none of the bonds of a ladder that are meant; the message names those that do.
    """
    key = (
        type(lattice).__name__,
        lattice.model_dump_json(),
        spins,
        None if shells is None else tuple(shells),
    )
    if key not in _kept:
        found = _bonds(lattice, spins, shells)
        if len(_kept) >= KEPT:
            _kept.clear()
        _kept[key] = found
    return list(_kept[key])


def _bonds(lattice: blocks.Lattice, spins: int, shells: Sequence[int] | None) -> list[Bond]:
    """Find the pairs of :func:`bonds`."""
    pairs = [(j, k) for j in range(spins) for k in range(j + 1, spins)]
    # a single site: a sum over no pairs, whatever the shells
    if not pairs:
        return []
    # ways to the nearest image: more than one where the site is equally near both ways round
    ways = _all_images(lattice, spins, pairs)
    measured = [
        (*pair, _distance(lattice, each[0]), len(each)) for pair, each in zip(pairs, ways, strict=True)
    ]
    radii = _radii(r for _, _, r, _ in measured)
    for shell in shells or ():
        if shell > len(radii):
            raise ValueError(_no_shell(lattice, spins, shell, radii))
    everything = [Bond(j, k, r, _shell(radii, r), ways) for j, k, r, ways in measured]
    if isinstance(lattice, blocks.Ladder) and lattice.bonds != "all":
        # shells are counted among all pairs, then legs or rungs are chosen
        same = _same_rung if lattice.bonds == "rungs" else _same_leg
        everything = [bond for bond in everything if same(lattice.legs, bond)]
        held = {bond.shell: bond.distance for bond in everything}
        for shell in shells or ():
            # its coupling would be dropped without a word
            if held and shell not in held:
                raise ValueError(_not_along(lattice.bonds, shell, radii[shell - 1], held))
    return everything if shells is None else [bond for bond in everything if bond.shell in set(shells)]


def distances_of_shells(lattice: blocks.Lattice, spins: int) -> list[float]:
    """Return the distance of every shell, nearest neighbours first."""
    pairs = [(j, k) for j in range(spins) for k in range(j + 1, spins)]
    return _radii(_distance(lattice, ways[0]) for ways in _all_images(lattice, spins, pairs))


def pair_distance(lattice: blocks.Lattice, spins: int, j: int, k: int) -> float:
    """Return the distance of two sites, in lattice spacings; along the circle of a ring, to the nearest image of a torus."""
    return _distance(lattice, images_of(lattice, spins, j, k)[0])


def _distance(lattice: blocks.Lattice, way: Place) -> float:
    return 1.0 if isinstance(lattice, blocks.AllToAll) else math.hypot(*way)


def images_of(lattice: blocks.Lattice, spins: int, j: int, k: int) -> list[Place]:
    """Return the ways from site j to the nearest images of site k; more than one where these are equally near."""
    if isinstance(lattice, blocks.AllToAll):
        return [(float(k - j), 0.0, 0.0)]
    return _images(_place(lattice, spins, j), _place(lattice, spins, k), _translations(lattice, spins))


def _all_images(lattice: blocks.Lattice, spins: int, pairs: Sequence[tuple[int, int]]) -> list[list[Place]]:
    """Return the nearest images of many pairs."""
    if isinstance(lattice, blocks.AllToAll):
        return [images_of(lattice, spins, j, k) for j, k in pairs]
    places, shifts = [_place(lattice, spins, site) for site in range(spins)], _translations(lattice, spins)
    return [_images(places[j], places[k], shifts) for j, k in pairs]


def _images(here: Place, there: Place, shifts: Sequence[Place]) -> list[Place]:
    """Return the ways to the nearest images of a place by the translations of the periodic directions."""
    dx, dy, dz = (b - a for a, b in zip(here, there, strict=True))
    images = [(dx + x, dy + y, dz + z) for x, y, z in shifts]
    lengths = [math.hypot(*way) for way in images]
    nearest = min(lengths)
    return [way for way, r in zip(images, lengths, strict=True) if r - nearest <= SAME * nearest]


def directions(lattice: blocks.Lattice, spins: int, j: int, k: int) -> tuple[int, int]:
    """Return the numbers of nearest ways from site j to site k that lead forwards and backwards.

    Forwards is along x in a row, to higher rows and to higher planes; of a ladder, to further rungs and from leg to leg on one.
    """
    ahead = 0
    ways = images_of(lattice, spins, j, k)
    # of a ladder x counts first, of others z, then y: to higher planes, to higher rows, along rows
    for dx, dy, dz in ways:
        order = (dx, dy) if isinstance(lattice, blocks.Ladder) else (dz, dy, dx)
        ahead += next((step for step in order if abs(step) > SAME), 0.0) > 0.0
    return ahead, len(ways) - ahead


def wrapped(lattice: blocks.Lattice, spins: int, shells: Sequence[int] | None) -> str:
    """Describe the first bond of a lattice that joins its sites by several ways round, ``""`` if there is none."""
    bond = next((bond for bond in bonds(lattice, spins, shells) if bond.ways > 1), None)
    if bond is None:
        return ""
    every = getattr(lattice, "images", "one") == "all"
    now, other = (f"{bond.ways} bonds", "one") if every else ("one bond", "all")
    rule = f"they have {now}; lattice: {{..., images: {other}}} makes it {1 if every else bond.ways}"
    return f"sites {bond.j} and {bond.k} of the {lattice.type} are equally near by {bond.ways} ways round: {rule}"


def positions(lattice: blocks.Lattice, spins: int) -> list[tuple[float, float, float]]:
    """Return where the sites lie, neighbours at distance 1; a chain along x, a ring on a circle, planes in the xy plane.

    Raises
    ------
    ValueError
        For all-to-all couplings, which have no positions.
    """
    if isinstance(lattice, blocks.AllToAll):
        raise ValueError("lattice all has no positions")
    if isinstance(lattice, blocks.Ring):
        radius = 0.5 / math.sin(math.pi / spins)
        turn = [2.0 * math.pi * site / spins for site in range(spins)]
        return [(radius * math.cos(a), radius * math.sin(a), 0.0) for a in turn]
    return [_place(lattice, spins, site) for site in range(spins)]


def _place(lattice: blocks.Lattice, spins: int, site: int) -> Place:
    """Return where a site lies, a ring stretched out along x."""
    if isinstance(lattice, blocks.Ladder):
        rung, leg = divmod(site, lattice.legs)
        return float(rung), float(leg), 0.0
    if not isinstance(lattice, blocks.Crystal):
        return float(site), 0.0, 0.0
    cell, number = CELLS[type(lattice)], site // lattice.SITES
    steps = []
    for length in shape_of(lattice, spins):
        steps.append(number % length)
        number //= length
    return _sum(cell.basis[site % lattice.SITES], cell.vectors, steps)


def _sum(start: Place, vectors: Sequence[Place], numbers: Sequence[float]) -> Place:
    """Return a place and numbers of vectors away from it."""
    x, y, z = (
        start[axis] + sum(n * vector[axis] for n, vector in zip(numbers, vectors, strict=False))
        for axis in range(3)
    )
    return x, y, z


def _translations(lattice: blocks.Lattice, spins: int) -> list[Place]:
    """Return the shifts that lead to the images of a site."""
    closed: list[Place] = []
    if isinstance(lattice, blocks.Ring):
        closed = [(float(spins), 0.0, 0.0)]
    elif isinstance(lattice, blocks.Ladder) and lattice.periodic:
        closed = [(float(spins // lattice.legs), 0.0, 0.0)]
    elif isinstance(lattice, blocks.Crystal):
        shape, vectors = shape_of(lattice, spins), CELLS[type(lattice)].vectors
        closed = [
            _sum(ORIGIN, [vector], [length])
            for length, vector, periodic in zip(shape, vectors, lattice.closed(), strict=False)
            if periodic
        ]
    # two images each way: cells lean, so the nearest image is not always the next one
    return [_sum(ORIGIN, closed, numbers) for numbers in product(range(-2, 3), repeat=len(closed))]


def shape_of(lattice: blocks.Crystal, spins: int) -> tuple[int, ...]:
    """Return the numbers of cells along the vectors of a lattice.

    Raises
    ------
    ValueError
        If the spins do not make whole cells.
    """
    shape = blocks.cells_of(lattice, spins)
    if isinstance(shape, str):
        raise ValueError(shape)
    return shape


def _radii(distances: Iterable[float]) -> list[float]:
    radii: list[float] = []
    for r in sorted(distances):
        if not radii or r - radii[-1] > SAME * r:
            radii.append(r)
    return radii


def _shell(radii: list[float], r: float) -> int:
    return 1 + next(n for n, radius in enumerate(radii) if abs(r - radius) <= 2 * SAME * r)


def _not_along(what: str, shell: int, radius: float, held: Mapping[int, float]) -> str:
    along = ", ".join(f"{number} (distance {held[number]:.4g})" for number in sorted(held)[:8])
    return (
        f"shell {shell} (distance {radius:.4g}) has no bonds along the {what}: shells count in the whole ladder, of which "
        f"the {what} hold {along}"
    )


def _same_rung(legs: int, bond: Bond) -> bool:
    return bond.j // legs == bond.k // legs


def _same_leg(legs: int, bond: Bond) -> bool:
    return bond.j % legs == bond.k % legs


def _no_shell(lattice: blocks.Lattice, spins: int, shell: int, radii: list[float]) -> str:
    some = ", ".join(f"{r:.4g}" for r in radii[:6]) + (", ..." if len(radii) > 6 else "")
    shells = f"shells 1 to {len(radii)}" if len(radii) > 1 else f"{len(radii)} shell"
    return f"shell {shell} does not exist: {lattice.type} of {spins} sites has {shells} (distances {some})"
