"""Ranges of numbers in a tridiag deck, and keys of which one is to be given."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import Block, Finding

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray

__all__ = ["NOT_NEGATIVE", "SIGNED", "SIZE", "Points", "Times", "exactly_one"]

# Coordinates, bohr, and times, atomic units, of functions of a block; decks are read without NumPy.
Points: TypeAlias = "FloatArray"
Times: TypeAlias = "FloatArray"

# A number in atomic units outside of these ranges is a slip, and products of several such numbers overflow.
SIZE = Field(gt=1e-12, lt=1e12)
SIGNED = Field(gt=-1e12, lt=1e12)
NOT_NEGATIVE = Field(ge=0, lt=1e12)


def exactly_one(block: Block, key: str, *names: str) -> Iterator[Finding]:
    """Yield a finding unless exactly one of the named keys is given."""
    given = [name for name in names if getattr(block, name) is not None]
    if not given:
        yield Finding(f"{key}.{names[0]}", f"missing key; give one of {', '.join(names)}")
    elif len(given) > 1:
        yield Finding(
            f"{key}.{given[1]}", f"give one of {', '.join(names)}, not both {given[0]} and {given[1]}"
        )
