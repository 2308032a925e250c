"""Block of the symmetry sector in which a state is carried or levels are found."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Finding

__all__ = ["Choice", "SectorBlock", "check_sector"]

WORDS = {"even": 1, "odd": -1}
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
        description="sign under the inversion of all spins: 1 (even) or -1 (odd); needs sz: 0 and no fields; left out: not used",
    )

    def ups(self, spins: int) -> list[float]:
        """Return the numbers of spins up, not necessarily whole or possible; sz: 0 is understood where neither is given."""
        if self.up is not None:
            return [float(up) for up in (self.up if isinstance(self.up, list) else [self.up])]
        given = 0.0 if self.sz is None else self.sz
        return [0.5 * spins + sz for sz in (given if isinstance(given, list) else [given])]


Choice = Annotated[
    Literal["auto", "full", "none"] | SectorBlock,
    Field(
        description="auto: that of the start, if H and all that is observed stay in it; full (also: none): all states"
    ),
]


def check_sector(choice: Any, spins: int, several: bool = False, key: str = "sector") -> Iterator[Finding]:
    """Yield what is wrong with a sector of so many spins."""
    if not isinstance(choice, SectorBlock):
        return
    if choice.sz is not None and choice.up is not None:
        yield Finding(f"{key}.up", "give either sz or up, not both")
        return
    name = "up" if choice.up is not None else "sz"
    given = choice.up if choice.up is not None else choice.sz
    if isinstance(given, list) and not several:
        yield Finding(f"{key}.{name}", "one sector for one state; a list goes with task: spectrum")
        return
    if isinstance(given, list) and (not given or len(set(given)) < len(given)):
        yield Finding(f"{key}.{name}", f"expected different values, found {given}")
        return
    if choice.sz is None and choice.up is None and spins % 2:
        yield Finding(f"{key}.sz", f"missing key: Sz of {spins} spins is half an odd number, such as 0.5")
        return
    for up in choice.ups(spins):
        if up != round(up):
            what = "whole" if spins % 2 == 0 else "half an odd number"
            yield Finding(
                f"{key}.{name}",
                f"Sz of {spins} spins is {what}; found {up - 0.5 * spins:g}: the sector is empty",
            )
            return
        if not 0 <= up <= spins:
            yield Finding(
                f"{key}.{name}",
                f"{spins} spins have 0 to {spins} up and Sz from {-0.5 * spins:g} to {0.5 * spins:g}; found {up:g} up, "
                f"Sz = {up - 0.5 * spins:g}: the sector is empty",
            )
            return
    if choice.inversion is not None and any(2 * up != spins for up in choice.ups(spins)):
        yield Finding(
            f"{key}.inversion",
            "the inversion of all spins turns Sz over: it needs sz: 0 and an even number of spins",
        )
