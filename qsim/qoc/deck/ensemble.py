"""Ensembles of molecules and fields."""

from typing import Annotated

from pydantic import Field

from qsim.core.deck.blocks import Block, Count

# Of the field, mass or potential of a member.
Factor = Annotated[float, Field(ge=1e-3, le=1e3)]


class Range(Block):
    """Equidistant values."""

    start: Factor = Field(description="first value")
    stop: Factor = Field(description="last value")
    count: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(description="number of values")


Values = Annotated[list[Factor], Field(min_length=1, max_length=1_000_000)] | Range


class Ensemble(Block):
    """One field for many systems: all combinations, equal weights."""

    field_scale: Values | None = Field(default=None, description="factors of the field")
    mass_scale: Values | None = Field(default=None, description="factors of the mass")
    potential_scale: Values | None = Field(default=None, description="factors of the potential")


def values_of(values: Values | None) -> list[float]:
    """Return the numbers of a list, a range, or nothing ([1.0])."""
    if values is None:
        return [1.0]
    if isinstance(values, Range):
        n = values.count
        return [values.start + (values.stop - values.start) * i / max(n - 1, 1) for i in range(n)]
    return list(values)
