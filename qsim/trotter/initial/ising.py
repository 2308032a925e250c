"""Single Ising states."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from qsim.core.deck.blocks import Count, Finding
from qsim.trotter.deck.couplings import LatticeTerm
from qsim.trotter.deck.lattices import Ring
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.initial.base import InitialState


def _bits(text: str) -> str:
    # An unquoted 0101 is a number in YAML, whose leading zero is lost.
    if not text or set(text) - {"0", "1"}:
        raise ValueError(f'expected a quoted text of 0 (up) and 1 (down), site 0 first, found "{text}"')
    return text


def _string(down: list[bool]) -> int:
    """Return the sum of 2^j over the sites that are down."""
    return sum(1 << site for site, value in enumerate(down) if value)


class BasisState(InitialState):
    """One Ising state, given as bits or by the sites that are up or down."""

    has_parts = True
    example = {"up": [0, 2, 4]}

    type: Literal["basis"]
    bits: Annotated[str, AfterValidator(_bits)] | None = Field(
        default=None,
        description='quoted, site 0 first, 0 = up, 1 = down: "0101"',
        json_schema_extra={"example": "0101"},
    )
    up: list[Count] | None = Field(default=None, description="sites that are up, the others down")
    down_sites: list[Count] | None = Field(
        default=None, alias="down", description="sites that are down, the others up"
    )
    m: list[float] | None = Field(default=None, description="Sz of every site, for spins above 1/2")

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield keys that are missing, duplicate or of another length."""
        # Three ways to give one state; the names are those of the deck.
        values = {"bits": self.bits, "up": self.up, "down": self.down_sites, "m": self.m}
        given = [name for name, value in values.items() if value is not None]
        if len(given) != 1:
            keys = " and ".join(given) or "none of them"
            yield Finding(
                key, f"give exactly one of bits, up and down; found {keys}; larger spins have m, too"
            )
        if self.bits is not None and len(self.bits) != spins:
            yield Finding(f"{key}.bits", f"{len(self.bits)} bits, but system.spins = {spins}")
        if self.m is not None and len(self.m) != spins:
            yield Finding(f"{key}.m", f"{len(self.m)} values, but system.spins = {spins}")
        yield from check_sites(self.up, spins, f"{key}.up")
        yield from check_sites(self.down_sites, spins, f"{key}.down")

    def digits(self, twos: tuple[int, ...]) -> list[int]:
        """Return the quanta of every site."""
        if self.m is not None:
            return [round(0.5 * two - m) for two, m in zip(twos, self.m, strict=True)]
        string = self.string(len(twos))
        return [two * (string >> j & 1) for j, two in enumerate(twos)]

    def string(self, spins: int) -> int:
        """Return the index."""
        if self.m is not None:
            return _string([m < 0.0 for m in self.m])
        if self.bits is not None:
            return _string([bit == "1" for bit in self.bits])
        if self.up is not None:
            up = set(self.up)
            # a bit is 1 where the spin is down
            return _string([site not in up for site in range(spins)])
        down = set(self.down_sites or ())
        return _string([site in down for site in range(spins)])


class NeelState(InitialState):
    """Neighbours antiparallel: the bits 0101... in the order of the sites, or two sublattices of rows."""

    has_parts = True

    type: Literal["neel"]
    first: Literal["up", "down"] = Field(default="up", description="site 0")
    row: Annotated[Count, Field(ge=1)] | None = Field(
        default=None, description="sites in a row (Lx) of a square lattice, for a checkerboard"
    )

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield a row that does not divide the sites."""
        if self.row is not None and spins % self.row:
            yield Finding(f"{key}.row", f"{spins} spins are not made of rows of {self.row}")

    def check_evolution(self, deck: Any) -> Iterator[Finding]:
        """Yield a ring of an odd number of sites."""
        # Only rings close: the last site and the first are neighbours.
        spins, terms = deck.system.spins, deck.system.terms
        lattices = [term.lattice or deck.system.lattice for term in terms if isinstance(term, LatticeTerm)]
        if spins % 2 and any(isinstance(lattice, Ring) for lattice in lattices):
            yield Finding(
                "initial.type",
                f"no Neel state fits on a ring of {spins} sites: sites {spins - 1} and 0 would be parallel; use an even number "
                "of spins, lattice: chain, or initial: {type: basis, bits: ...}",
            )

    def string(self, spins: int) -> int:
        """Return the index."""
        # checkerboard: parity of column plus row; without rows 0101...
        row = self.row or spins
        odd = [(site % row + site // row) % 2 == 1 for site in range(spins)]
        return _string([not value for value in odd] if self.first == "down" else odd)


class DomainWallState(InitialState):
    """The first sites up, the others down."""

    has_parts = True

    type: Literal["domain_wall"]
    up: Count | None = Field(default=None, description="number of sites up; by default half of them")

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield more sites than there are."""
        if self.up is not None and self.up > spins:
            yield Finding(f"{key}.up", f"{self.up} sites up, but system.spins = {spins}")

    def string(self, spins: int) -> int:
        """Return the index."""
        up = spins // 2 if self.up is None else self.up
        return _string([site >= up for site in range(spins)])
