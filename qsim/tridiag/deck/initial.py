"""Blocks of the deck of ``task: atom`` that describe the state at t = 0: bound levels, formulas, or a file."""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, ComplexNumber, Count, DeckPath, Finding, PositiveCount
from qsim.core.deck.expression import ExpressionText

__all__ = ["AnyInitial", "ChannelFormula", "FormulaState", "Level", "StoredState", "level_name"]

# of l = 0, 1, 2, ...: j, p and s do not come again
LETTERS = "spdfghiklmnoqrtuvwxyz"


def level_name(n: int, l: int) -> str:
    """Return the name of a level, ``3p``; ``25[l=21]`` beyond the letters."""
    return f"{n}{LETTERS[l]}" if l < len(LETTERS) else f"{n}[l={l}]"


class Level(Block):
    """A bound state of the atom by its quantum numbers; the n - l - 1 nodes count from 0 in each l."""

    n: Annotated[PositiveCount, Field(le=200)] = Field(
        description="principal quantum number", json_schema_extra={"example": 1}
    )
    l: Annotated[Count, Field(le=199)] = Field(default=0, description="angular momentum")
    m: Annotated[int, Field(ge=-199, le=199)] = Field(default=0, description="magnetic quantum number")
    weight: ComplexNumber = Field(default=1.0 + 0.0j, description="weight in a superposition")

    @property
    def name(self) -> str:
        """Name of the level, ``3p``."""
        return level_name(self.n, self.l)

    def check(self, key: str) -> Iterator[Finding]:
        """Yield quantum numbers that do not go together."""
        if self.n <= self.l:
            # a level of a list has no keys of its own in a message: it may be written as 3p
            yield Finding(f"{key}.n" if "." not in key else key, f"n = {self.n} must exceed l = {self.l}")
        if abs(self.m) > self.l:
            yield Finding(
                f"{key}.m" if "." not in key else key, f"|m| = {abs(self.m)} must not exceed l = {self.l}"
            )


def _level_form(value: object) -> object:
    """Read ``3p`` as ``{n: 3, l: 1}``."""
    # a letter beyond the list is told apart from text that is no level at all
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d{1,3})([a-z])\s*", value)):
        if match[2] not in LETTERS:
            raise ValueError(f"expected a level such as 1s, 3p or 4f (letters {LETTERS}), found {value!r}")
        return {"n": int(match[1]), "l": LETTERS.index(match[2])}
    if isinstance(value, str):
        raise ValueError(f"expected a level such as 1s, 3p or 4f, found {value!r}")
    return value


AnyLevel = Annotated[Level, BeforeValidator(_level_form, json_schema_input_type=Level | str)]


class StoredState(Block):
    """A state from an HDF5 file: the end of an earlier run of ``task: atom``, or arrays of the same layout."""

    type: Literal["file"] = Field(default="file")
    file: DeckPath = Field(
        description="HDF5 file, relative to the deck", json_schema_extra={"example": "pump.h5"}
    )
    normalise: bool = Field(
        default=False, description="scale the norm to 1; by default an absorbed part stays missing"
    )


class ChannelFormula(Block):
    """The part of a state with one l and m: ``u(r) = r R(r)`` by formulas of r, in atomic units."""

    l: Annotated[Count, Field(le=199)] = Field(default=0, description="angular momentum")
    m: Annotated[int, Field(ge=-199, le=199)] = Field(default=0, description="magnetic quantum number")
    real: Annotated[str, ExpressionText("r")] = Field(
        description="real part of u, formula of r", json_schema_extra={"example": "r*exp(-r)"}
    )
    imag: Annotated[str, ExpressionText("r")] = Field(default="0", description="imaginary part, formula of r")


class FormulaState(Block):
    """A state by formulas of its channels, normalised."""

    type: Literal["expression"]
    channels: Annotated[list[ChannelFormula], Field(min_length=1, max_length=100)] = Field(
        description="parts of one l and m each; one part may stand without a list",
        json_schema_extra={"example": [{"l": 0, "real": "r*exp(-r)"}]},
    )
    normalise: ClassVar[bool] = True

    def check(self, key: str) -> Iterator[Finding]:
        """Yield channels that do not exist, or are given twice."""
        pairs = [(one.l, one.m) for one in self.channels]
        for index, (l, m) in enumerate(pairs):
            if abs(m) > l:
                yield Finding(f"{key}.channels.{index}.m", f"|m| = {abs(m)} must not exceed l = {l}")
            if (l, m) in pairs[:index]:
                yield Finding(f"{key}.channels.{index}", f"duplicate of the channel l = {l}, m = {m}")


def _initial_form(value: object) -> object:
    """Read one level as a list of one, and one formula as a list of one channel."""
    if isinstance(value, dict) and value.get("type") == "expression" and "channels" not in value:
        return {"type": "expression", "channels": [{k: v for k, v in value.items() if k != "type"}]}
    # a mapping with `file` is a stored state; all other mappings and words are one level
    given = isinstance(value, dict) and ("file" in value or value.get("type") == "expression")
    return value if given or isinstance(value, (list, StoredState, FormulaState)) else [value]


Levels = Annotated[list[AnyLevel], Field(min_length=1, max_length=100)]
AnyInitial = Annotated[
    Levels | StoredState | FormulaState,
    BeforeValidator(
        _initial_form, json_schema_input_type=list[AnyLevel] | AnyLevel | StoredState | FormulaState
    ),
]
