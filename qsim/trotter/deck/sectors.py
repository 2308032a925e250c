"""Block of the symmetry sector in which a state is carried or levels are found."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Finding

__all__ = ["Choice", "Permutation", "PointGroup", "SectorBlock", "check_sector", "check_symmetries"]

WORDS = {"even": 1, "odd": -1}
# tasks that carry one state, and all that work in spaces of characters
CARRIED = ("evolve", "floquet")
STATES = ("spectrum", "levels", "dynamics", "thermal", *CARRIED)
# tasks that look at several sectors
SEVERAL = ("spectrum", "dynamics", "thermal")
_Sz = Annotated[float, Field(ge=-1e3, le=1e3)]


def _sign(value: object) -> object:
    """Read ``even`` as 1 and ``odd`` as -1."""
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    return int(value) if isinstance(value, float) and value in (1.0, -1.0) else value


Sign = Annotated[
    Literal[1, -1],
    BeforeValidator(_sign, json_schema_input_type=Literal[1, -1, "even", "odd"]),
]


_Point = Annotated[str, Field(min_length=1, max_length=8)]
Site = Annotated[int, Field(ge=0, le=63)]


class Permutation(Block):
    """A permutation of the sites under which H is invariant."""

    sites: Annotated[list[Site], Field(min_length=1)] = Field(
        description="where the spin of each site goes: every site once", json_schema_extra={"example": [1, 0]}
    )
    number: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="m of the eigenvalue exp(-2 pi i m / order): 0 to order - 1; of an order of 2, 0 is even and 1 odd",
    )


class PointGroup(Block):
    """Rotations and a mirror of a planar lattice, of one character."""

    name: Literal["C2", "C3", "C4", "C6", "C2v", "C3v", "C4v", "C6v"] = Field(
        description="Cn: rotations by 2 pi / n about a site, of honeycomb and kagome about the middle of a hexagon; Cnv: and the "
        "mirror y -> -y"
    )
    irrep: Literal["A", "B", "A1", "A2", "B1", "B2"] = Field(
        description="A, B: 1, -1 under the rotation; of Cnv also 1, 2: 1, -1 under the mirror"
    )


class SectorBlock(Block):
    """States of one total Sz, and of one sign under the inversion of all spins."""

    sz: _Sz | list[_Sz] | None = Field(
        default=None,
        validation_alias=AliasChoices("sz", "magnetisation", "magnetization"),
        description="total Sz (also: magnetisation), such as 0 or 1.5; for task: spectrum also a list",
        json_schema_extra={"example": 0.0},
    )
    up: Count | list[Count] | None = Field(
        default=None, description="number of spins up, instead of sz; for task: spectrum also a list"
    )
    inversion: Sign | None = Field(
        default=None,
        description="sign under the inversion of all spins: 1 (even) or -1 (odd); needs sz: 0 and no fields, or, with task: "
        "spectrum, levels, dynamics, thermal, evolve or floquet, an H without a total Sz that it leaves as it is; left out: "
        "not used",
    )

    parity: Literal["even", "odd"] | None = Field(
        default=None,
        description="even or odd number of spins down, instead of sz or up, where H conserves no Sz: along the first of the "
        "axes z, x and y along which H conserves it",
    )

    momentum: Count | _Point | Annotated[list[Count | _Point], Field(min_length=1)] | None = Field(
        default=None,
        description="k of the momentum 2 pi k / N under shifts by one site of a ring, 0 to N - 1; on a lattice the number of a "
        "momentum of its cells, that of the first direction running fastest, or a point of its zone, such as Gamma, X, M, K; a "
        "list or all with task: spectrum, dynamics or thermal; with task: spectrum, levels, dynamics, thermal, evolve or floquet",
    )
    reflection: Sign | None = Field(
        default=None,
        description="sign under the reflection j -> N - 1 - j: 1 (even) or -1 (odd); beside momentum only for 0 and N/2; with "
        "task: spectrum, levels, dynamics, thermal, evolve or floquet",
    )
    permutations: list[Permutation] = Field(
        default=[],
        description="other permutations of the sites and their eigenvalues; with task: spectrum, levels, dynamics, thermal, "
        "evolve or floquet",
    )

    point_group: PointGroup | None = Field(
        default=None,
        description="rotations and a mirror of the lattice square, triangular, honeycomb or kagome, of one character; beside a "
        "momentum that they leave as it is; with task: spectrum, levels, dynamics, thermal, evolve or floquet",
    )

    @property
    def stored(self) -> bool:
        """True if symmetries beside Sz and inversion are used, whose states are those of orbits."""
        others = self.momentum, self.reflection, self.point_group
        return bool(self.permutations) or any(one is not None for one in others)

    @property
    def charged(self) -> bool:
        """True if a total Sz is named."""
        return self.sz is not None or self.up is not None

    def ups(self, spins: int) -> list[float]:
        """Return the numbers of spins up, not necessarily whole or possible; sz: 0 is understood where neither is given."""
        if self.up is not None:
            return [float(up) for up in (self.up if isinstance(self.up, list) else [self.up])]
        given = 0.0 if self.sz is None else self.sz
        return [0.5 * spins + sz for sz in (given if isinstance(given, list) else [given])]


Choice = Annotated[
    Literal["auto", "full", "none"] | SectorBlock,
    Field(
        description="auto: that of the start, if H and all that is observed stay in it, or all sectors that together hold every "
        "state; full (also: none): all states"
    ),
]


def check_symmetries(
    choice: SectorBlock, spins: int, task: str, key: str = "sector", *, quanta: int | None = None
) -> Iterator[Finding]:
    """Yield the mistakes in momentum, reflection and other permutations of a sector; quanta are twice the largest Sz."""
    quanta = spins if quanta is None else quanta
    if not choice.stored:
        return
    names = ("momentum", "reflection", "point_group", "permutations")
    name = next(k for k in names if getattr(choice, k) not in (None, []))
    if task not in STATES:
        yield Finding(
            f"{key}.{name}",
            f"{name} belongs to task: {', '.join(STATES)}, but the deck has task: {task}; leave it out",
        )
        return
    if task not in CARRIED and not choice.charged and choice.parity is None and quanta % 2 == 0:
        every = (
            f"sz: [{-quanta // 2}, ..., {quanta // 2}] has all" if task == "spectrum" else "sz names another"
        )
        yield Finding(
            f"{key}.{name}",
            f"sz is not given: where H conserves it, the levels are those of Sz = 0 alone; {every}",
            severity="note",
        )
    momenta = choice.momentum if isinstance(choice.momentum, list) else [choice.momentum]
    if task not in SEVERAL and (len(momenta) > 1 or choice.momentum == "all"):
        does = "diagonalises one sector" if task == "levels" else "carries a state in one sector"
        yield Finding(f"{key}.momentum", f"task: {task} {does}; give one momentum")
    if len(set(momenta)) < len(momenta):
        yield Finding(f"{key}.momentum", f"expected different values, found {choice.momentum}")
    for index, item in enumerate(choice.permutations):
        yield from _check_permutation(item, spins, f"{key}.permutations.{index}")


def _check_permutation(item: Permutation, spins: int, key: str) -> Iterator[Finding]:
    if sorted(item.sites) != list(range(spins)):
        yield Finding(
            f"{key}.sites",
            f"expected every site from 0 to {spins - 1} once, found {len(item.sites)} entries: {item.sites}",
        )
        return
    order, now = 1, list(item.sites)
    while now != sorted(now):
        order, now = order + 1, [item.sites[j] for j in now]
    if item.number >= order:
        yield Finding(
            f"{key}.number",
            f"this permutation has the order {order}: number is 0 to {order - 1}, found {item.number}",
        )


def _check_parity(choice: SectorBlock, spins: int, quanta: int, task: str, key: str) -> Iterator[Finding]:
    # the other symmetries are told of by `check_symmetries`
    alone = ("sz", "up") if task in STATES else ("sz", "up", "inversion")
    for name in alone:
        if getattr(choice, name) is not None:
            yield Finding(f"{key}.{name}", "goes with a sector of Sz; parity stands alone")
    if "inversion" not in alone and choice.inversion is not None and quanta % 2:
        yield Finding(
            f"{key}.inversion",
            f"the inversion of {spins} spins turns one parity into the other; leave one of them out",
        )
    if quanta < 2:
        yield Finding(f"{key}.parity", "a single spin has no sectors of parity")


def check_sector(
    choice: Any, spins: int, task: str, key: str = "sector", *, quanta: int | None = None
) -> Iterator[Finding]:
    """Yield the mistakes in a sector of `spins` spins; quanta are twice the largest Sz, by default of spins 1/2."""
    quanta = spins if quanta is None else quanta
    if not isinstance(choice, SectorBlock):
        return
    if choice.parity is not None:
        yield from _check_parity(choice, spins, quanta, task, key)
        return
    if choice.sz is not None and choice.up is not None:
        yield Finding(f"{key}.up", "give either sz or up, not both")
        return
    name = "up" if choice.up is not None else "sz"
    given = choice.up if choice.up is not None else choice.sz
    if isinstance(given, list) and task not in SEVERAL:
        yield Finding(f"{key}.{name}", "one sector for one state; a list goes with task: spectrum")
        return
    if isinstance(given, list) and (not given or len(set(given)) < len(given)):
        yield Finding(f"{key}.{name}", f"expected different values, found {given}")
        return
    if not choice.charged and (task in ("spectrum", "levels") or (task in STATES and choice.stored)):
        # whether a total Sz is needed is a matter of H
        return
    if not choice.charged and quanta % 2:
        yield Finding(f"{key}.sz", f"missing key: Sz of {spins} spins is half an odd number, such as 0.5")
        return
    for up in choice.ups(quanta):
        if up != round(up):
            what = "whole" if quanta % 2 == 0 else "half an odd number"
            yield Finding(
                f"{key}.{name}",
                f"Sz of {spins} spins is {what}; found {up - 0.5 * quanta:g}: the sector is empty",
            )
            return
        if not 0 <= up <= quanta:
            counted = (f"0 to {spins} up and ", f"{up:g} up, ") if quanta == spins else ("", "")
            yield Finding(
                f"{key}.{name}",
                f"{spins} spins have {counted[0]}Sz from {-0.5 * quanta:g} to {0.5 * quanta:g}; found {counted[1]}"
                f"Sz = {up - 0.5 * quanta:g}: the sector is empty",
            )
            return
    if choice.inversion is not None and any(2 * up != quanta for up in choice.ups(quanta)):
        yield Finding(
            f"{key}.inversion",
            "the inversion of all spins turns Sz over: it needs sz: 0 and an even number of spins",
        )
