"""Lattices: which pairs of sites are neighbours of which shell, how far apart they are, and where the sites lie.

Plain Python, since there are at most 780 pairs, and the checks of a deck need it.  Every pair counts once, j < k; in a periodic
direction the nearest image counts.  Two sites that are equally near by several ways round (across a periodic direction of two
sites, opposite sites of a ring) are one bond with ``images: one``, and as many as there are ways with ``images: all``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from qsim.trotter.deck import couplings as blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "Bond",
    "bonds",
    "directions",
    "distances_of_shells",
    "images_of",
    "pair_distance",
    "positions",
    "wrapped",
]

# relative difference below which two distances are one shell
SAME = 1e-9


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
    ways = [images_of(lattice, spins, j, k) for j, k in pairs]
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
    return _radii(pair_distance(lattice, spins, j, k) for j in range(spins) for k in range(j + 1, spins))


def pair_distance(lattice: blocks.Lattice, spins: int, j: int, k: int) -> float:
    """Return the distance of two sites, in lattice spacings; along the circle of a ring, to the nearest image of a torus."""
    return _distance(lattice, images_of(lattice, spins, j, k)[0])


def _distance(lattice: blocks.Lattice, way: tuple[float, float]) -> float:
    return 1.0 if isinstance(lattice, blocks.AllToAll) else math.hypot(*way)


def images_of(lattice: blocks.Lattice, spins: int, j: int, k: int) -> list[tuple[float, float]]:
    """Return the ways from site j to the nearest images of site k; more than one where these are equally near."""
    if isinstance(lattice, blocks.AllToAll):
        return [(float(k - j), 0.0)]
    here, there = _flat(lattice, spins, j), _flat(lattice, spins, k)
    dx, dy = there[0] - here[0], there[1] - here[1]
    # all images of the other site by the translations of the periodic directions
    images = [(dx + ax, dy + ay) for ax, ay in _translations(lattice, spins)]
    nearest = min(math.hypot(*way) for way in images)
    return [way for way in images if math.hypot(*way) - nearest <= SAME * nearest]


def directions(lattice: blocks.Lattice, spins: int, j: int, k: int) -> tuple[int, int]:
    """Return the numbers of nearest ways from site j to site k that lead forwards and backwards.

    Forwards is along x in a row and to higher rows; of a ladder, to further rungs and from leg to leg on one.
    """
    ahead = 0
    ways = images_of(lattice, spins, j, k)
    # of a ladder x counts first, of others y: along rows, then to higher rows
    for dx, dy in ways:
        first, second = (dx, dy) if isinstance(lattice, blocks.Ladder) else (dy, dx)
        ahead += first > SAME or (abs(first) <= SAME and second > 0.0)
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
    """Return where the sites lie: in the xy plane, neighbours at distance 1; a chain along x, a ring on a circle.

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
    return [(*_flat(lattice, spins, site), 0.0) for site in range(spins)]


def _flat(lattice: blocks.Lattice, spins: int, site: int) -> tuple[float, float]:
    if isinstance(lattice, blocks.Square | blocks.Triangular):
        y, x = divmod(site, _shape(lattice, spins)[0])
        if isinstance(lattice, blocks.Triangular):
            return x + 0.5 * y, y * math.sqrt(0.75)
        return float(x), float(y)
    if isinstance(lattice, blocks.Ladder):
        rung, leg = divmod(site, lattice.legs)
        return float(rung), float(leg)
    return float(site), 0.0


def _translations(lattice: blocks.Lattice, spins: int) -> list[tuple[float, float]]:
    """Return the shifts that lead to the images of a site, none first."""
    first = second = (0.0, 0.0)
    if isinstance(lattice, blocks.Ring):
        first = (float(spins), 0.0)
    elif isinstance(lattice, blocks.Ladder) and lattice.periodic:
        first = (float(spins // lattice.legs), 0.0)
    elif isinstance(lattice, blocks.Square | blocks.Triangular):
        Lx, Ly = _shape(lattice, spins)
        both = (
            lattice.periodic if isinstance(lattice.periodic, list) else (lattice.periodic, lattice.periodic)
        )
        lean, height = (0.5, math.sqrt(0.75)) if isinstance(lattice, blocks.Triangular) else (0.0, 1.0)
        first = (float(Lx), 0.0) if both[0] else first
        second = (lean * Ly, height * Ly) if both[1] else second
    # two images each way: a triangular torus leans, so the nearest image is not always the next one
    along, up = (range(-2, 3) if any(shift) else (0,) for shift in (first, second))
    return [(a * first[0] + b * second[0], a * first[1] + b * second[1]) for a in along for b in up]


def _shape(lattice: blocks.Square | blocks.Triangular, spins: int) -> tuple[int, int]:
    shape = blocks.plane_shape(lattice, spins)
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
