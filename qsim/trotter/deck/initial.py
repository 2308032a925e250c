"""Blocks of initial states; :mod:`qsim.trotter.states.initial` makes them.  Site j is bit j of the index, bit 1 is down."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field

from qsim.core.deck.blocks import Block, Count, DeckPath, Finding, short_form
from qsim.core.deck.units import Angle

SEED = "seed of the state; by default run.seed"
Sites = Annotated[list[Count], Field(min_length=1)]
AngleField = Annotated[Angle, Field(gt=-1e6, lt=1e6)]
Angles = AngleField | Annotated[list[AngleField], Field(min_length=1)]
Generator = Literal["philox", "splitmix64"]
RNG = "philox: the generator of qsim; splitmix64: the hash by which the reference values were made"


def _bits(text: str) -> str:
    if not text or set(text) - {"0", "1"}:
        raise ValueError(f'expected a quoted text of 0 (up) and 1 (down), site 0 first, found "{text}"')
    return text


def check_sites(sites: list[int] | None, spins: int, key: str) -> Iterator[Finding]:
    """Yield sites that do not exist or stand twice in a list."""
    seen: set[int] = set()
    for k, site in enumerate(sites or ()):
        if site >= spins:
            yield Finding(
                f"{key}.{k}", f"site {site} does not exist: {spins} spins are sites 0 to {spins - 1}"
            )
            return
        if site in seen:
            yield Finding(f"{key}.{k}", f"site {site} stands twice")
            return
        seen.add(site)


class BasisInitial(Block):
    """One Ising state, given as bits or by the sites that are up or down."""

    type: Literal["basis"]
    bits: Annotated[str, AfterValidator(_bits)] | None = Field(
        default=None,
        description='quoted, site 0 first, 0 = up, 1 = down: "0101"',
        json_schema_extra={"example": "0101"},
    )
    up: list[Count] | None = Field(default=None, description="sites that are up, the others down")
    down: list[Count] | None = Field(default=None, description="sites that are down, the others up")

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield what is missing, given twice or of another length."""
        given = [name for name in ("bits", "up", "down") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            yield Finding(key, f"give exactly one of bits, up and down; found {found}")
        if self.bits is not None and len(self.bits) != spins:
            yield Finding(f"{key}.bits", f"{len(self.bits)} bits, but system.spins = {spins}")
        yield from check_sites(self.up, spins, f"{key}.up")
        yield from check_sites(self.down, spins, f"{key}.down")


class NeelInitial(Block):
    """Neighbours antiparallel: the bits 0101... in the order of the sites, or two sublattices of rows."""

    type: Literal["neel"]
    first: Literal["up", "down"] = Field(default="up", description="site 0")
    row: Annotated[Count, Field(ge=1)] | None = Field(
        default=None, description="sites in a row (Lx) of a square lattice, for a checkerboard"
    )

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield a row that does not divide the sites."""
        if self.row is not None and spins % self.row:
            yield Finding(f"{key}.row", f"{spins} spins are not made of rows of {self.row}")


class DomainWallInitial(Block):
    """The first sites up, the others down."""

    type: Literal["domain_wall"]
    up: Count | None = Field(default=None, description="number of sites up; by default half of them")

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield more sites than there are."""
        if self.up is not None and self.up > spins:
            yield Finding(f"{key}.up", f"{self.up} sites up, but system.spins = {spins}")


class ProductInitial(Block):
    """``cos(theta/2) |up> + exp(i phi) sin(theta/2) |down>`` on every site."""

    type: Literal["product"]
    theta: Angles = Field(
        default=0.0, description="polar angle of every site, or one for all; 0 is up, pi is down"
    )
    phi: Angles = Field(default=0.0, description="azimuth of every site, or one for all")

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield lists of another length."""
        for name in ("theta", "phi"):
            value = getattr(self, name)
            if isinstance(value, list) and len(value) != spins:
                yield Finding(f"{key}.{name}", f"{len(value)} angles, but system.spins = {spins}")


class PolarisedInitial(Block):
    """All spins along one axis."""

    type: Literal["polarised", "polarized"]
    axis: Literal["x", "y", "z", "-x", "-y", "-z"] = Field(default="z", description="direction")


class A1Initial(Block):
    """Eq. (A.1) of the paper: some sites up, the others in a superposition of equal weights and random phases.

    Infinite temperature but for the sites that are up: ``2 <Sz_j>`` is the correlation function of j with them.
    """

    type: Literal["a1"]
    up: Sites = Field(
        validation_alias=AliasChoices("up", "site", "sites"),
        description="sites that are up",
        json_schema_extra={"example": [0]},
    )
    seed: Count | None = Field(default=None, description=SEED)
    rng: Generator = Field(default="philox", description=RNG)

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield sites that do not exist."""
        yield from check_sites(self.up, spins, f"{key}.up")


class RandomPhaseInitial(Block):
    """All Ising states with equal weights and random phases."""

    type: Literal["random_phase"]
    seed: Count | None = Field(default=None, description=SEED)
    rng: Generator = Field(default="philox", description=RNG)


class HaarInitial(Block):
    """A state drawn evenly from the unit sphere (normal amplitudes, normalised)."""

    type: Literal["haar"]
    seed: Count | None = Field(default=None, description=SEED)


class MpsInitial(Block):
    """A matrix product state, Eq. (A.2): ``psi = tr(A_0 A_1 ... A_{N-1})``, contracted to a vector and normalised."""

    type: Literal["mps"]
    file: DeckPath = Field(
        description=".npz with one array (left bond, 2, right bond) per site, A0, A1, ... or arr_0, arr_1, ...; 0 of the "
        "middle axis is up"
    )


class FileInitial(Block):
    """A state vector of 2^N amplitudes, normalised."""

    type: Literal["file"]
    file: DeckPath = Field(description=".npy, .npz, .h5 or results of qsim")
    name: str | None = Field(
        default=None, description="name of the array; by default psi, psi_final, or the only one there is"
    )


IsingInitial = BasisInitial | NeelInitial | DomainWallInitial
RandomInitial = A1Initial | RandomPhaseInitial | HaarInitial
Initial = Annotated[
    BasisInitial
    | NeelInitial
    | DomainWallInitial
    | ProductInitial
    | PolarisedInitial
    | A1Initial
    | RandomPhaseInitial
    | HaarInitial
    | MpsInitial
    | FileInitial,
    Field(discriminator="type"),
    short_form,
]


def check_initial(initial: object, spins: int, key: str = "initial") -> Iterator[Finding]:
    """Yield what is wrong with an initial state of so many spins."""
    if isinstance(initial, BasisInitial | NeelInitial | DomainWallInitial | ProductInitial | A1Initial):
        yield from initial.check(spins, key)


def is_random(initial: object) -> bool:
    """Return whether members of an ensemble of such states differ."""
    return isinstance(initial, RandomInitial)
