"""Blocks of the trotter deck for lattices: where the sites are, and which cells they belong to.

The bonds are in :mod:`qsim.trotter.lattices.bonds`, the momenta in :mod:`qsim.trotter.lattices.momenta`.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from qsim.core.deck.blocks import Block, PositiveCount, short_form


class Chain(Block):
    """Sites 0 ... N-1 in a row, unit spacing."""

    type: Literal["chain", "open_chain"]


Images = Annotated[
    Literal["one", "all"],
    Field(
        description="sites equally near by several ways round, across a periodic direction of two sites or opposite on a ring: "
        "one bond, or all: a bond for each way, as a sum over all sites and directions has; a note of the run names such sites",
    ),
]


class Ring(Block):
    """Sites 0 ... N-1 in a circle; the distance of two sites is counted along it."""

    type: Literal["ring", "periodic_chain"]
    images: Images = "one"


class _Crystal(Block):
    """Base of the lattices of equal cells; site b + SITES (x + Lx y), in space b + SITES (x + Lx (y + Ly z))."""

    #: Sites of a cell.
    SITES: ClassVar[int] = 1

    def lengths(self) -> tuple[int | None, ...]:
        """Return the numbers of cells along the directions, as far as they are given."""
        raise NotImplementedError

    def closed(self) -> tuple[bool, ...]:
        """Return which directions are periodic."""
        given = self.periodic  # type: ignore[attr-defined]
        return tuple(given) if isinstance(given, list) else (given,) * len(self.lengths())


class _Plane(_Crystal):
    """Base of the lattices with Lx x Ly cells, of one site unless said otherwise."""

    Lx: PositiveCount | None = Field(
        default=None, description="cells in a row; by default the root of their number"
    )
    Ly: PositiveCount | None = Field(default=None, description="rows; by default as many as there are")
    periodic: bool | Annotated[list[bool], Field(min_length=2, max_length=2)] = Field(
        default=False, description="periodic in both directions, or [x, y]"
    )
    images: Images = "one"

    def lengths(self) -> tuple[int | None, ...]:
        """Return Lx and Ly."""
        return self.Lx, self.Ly


class _Space(_Crystal):
    """Base of the lattices with Lx x Ly x Lz primitive cells, of one site unless said otherwise."""

    Lx: PositiveCount | None = Field(
        default=None, description="cells along the first vector; by default the cubic root of their number"
    )
    Ly: PositiveCount | None = Field(default=None, description="cells along the second vector")
    Lz: PositiveCount | None = Field(default=None, description="cells along the third vector")
    periodic: bool | Annotated[list[bool], Field(min_length=3, max_length=3)] = Field(
        default=False, description="periodic in all directions, or [x, y, z]"
    )
    images: Images = "one"

    def lengths(self) -> tuple[int | None, ...]:
        """Return Lx, Ly and Lz."""
        return self.Lx, self.Ly, self.Lz


class Square(_Plane):
    """Lx x Ly sites, unit spacing; site x + Lx y."""

    type: Literal["square", "rectangular"]


class Triangular(_Plane):
    """Lx x Ly sites with six neighbours at unit distance; site x + Lx y at (x + y/2, y sqrt(3)/2)."""

    type: Literal["triangular"]


class Honeycomb(_Plane):
    """Lx x Ly cells of two sites with three neighbours at unit distance, sites 2 (x + Lx y) and the next."""

    SITES: ClassVar[int] = 2
    type: Literal["honeycomb", "hexagonal"]


class Kagome(_Plane):
    """Lx x Ly cells of three sites with four neighbours at unit distance, sites 3 (x + Lx y) and the next two."""

    SITES: ClassVar[int] = 3
    type: Literal["kagome"]


class Cubic(_Space):
    """Lx x Ly x Lz sites with six neighbours at unit distance; site x + Lx (y + Ly z)."""

    type: Literal["cubic", "simple_cubic"]


class Bcc(_Space):
    """Body-centred cubic: primitive cells of one site with eight neighbours at unit distance."""

    type: Literal["bcc"]


class Fcc(_Space):
    """Face-centred cubic: primitive cells of one site with twelve neighbours at unit distance."""

    type: Literal["fcc"]


class Pyrochlore(_Space):
    """Corners of tetrahedra: primitive cells of an fcc lattice with four sites, each with six neighbours at unit distance."""

    SITES: ClassVar[int] = 4
    type: Literal["pyrochlore"]


class Ladder(Block):
    """Legs of N / legs sites; site leg + legs * rung, unit spacing both ways."""

    type: Literal["ladder"]
    legs: Annotated[PositiveCount, Field(ge=2)] = Field(default=2, description="number of legs")
    periodic: bool = Field(default=False, description="whether the legs are closed")
    images: Images = "one"
    bonds: Literal["all", "legs", "rungs"] = Field(
        default="all",
        description="all bonds, or only those along the legs or the rungs, for different couplings",
    )


class AllToAll(Block):
    """Every pair of sites, all at distance 1."""

    type: Literal["all", "all_to_all"]


Lattice = Annotated[
    Chain
    | Ring
    | Square
    | Triangular
    | Honeycomb
    | Kagome
    | Ladder
    | Cubic
    | Bcc
    | Fcc
    | Pyrochlore
    | AllToAll,
    Field(discriminator="type"),
    short_form,
]

Crystal = Square | Triangular | Honeycomb | Kagome | Cubic | Bcc | Fcc | Pyrochlore


def sites_of(lattice: object) -> int | None:
    """Return the number of sites of a lattice as a deck has it, if all its lengths are given."""
    if not isinstance(lattice, Mapping):
        return None
    for kind in get_args(Crystal):
        if lattice.get("type") not in get_args(kind.model_fields["type"].annotation):
            continue
        names = [name for name in ("Lx", "Ly", "Lz") if name in kind.model_fields]
        lengths = [length for name in names if type(length := lattice.get(name)) is int and length > 0]
        if len(lengths) == len(names):
            return int(kind.SITES * math.prod(lengths))
    return None


def cells_of(lattice: Crystal, spins: int) -> tuple[int, ...] | str:
    """Return the numbers of cells (Lx, Ly) or (Lx, Ly, Lz) of a lattice, or why there are none."""
    number, rest = divmod(spins, lattice.SITES)
    if rest or not number:
        return f"{spins} spins are no whole cells of {lattice.SITES} sites"
    what = "spins" if lattice.SITES == 1 else f"cells of {lattice.SITES} sites"
    given = lattice.lengths()
    names = ("Lx", "Ly", "Lz")[: len(given)]
    known, missing = math.prod(one for one in given if one), given.count(None)
    if missing and number % known:
        return f"{number} {what} are not made of rows of {known}"
    # what is not given is equal: a square, a cube
    each = round((number // known) ** (1.0 / missing)) if missing else 1
    if missing and each**missing * known != number:
        shape = "square" if len(given) == 2 else "cube"
        return f"{number} {what} make no {shape}; give {' and '.join([', '.join(names[:-1]), names[-1]])}"
    found = tuple(one or each for one in given)
    if math.prod(found) != number:
        sizes = " x ".join(map(str, found))
        each_of = "" if lattice.SITES == 1 else f" cells of {lattice.SITES} sites"
        return f"{' '.join(names)} = {sizes} = {math.prod(found)}{each_of}, but system.spins = {spins}"
    return found
