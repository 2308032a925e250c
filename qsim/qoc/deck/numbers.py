"""Ranges of numbers in a qoc deck."""

from typing import Annotated

from pydantic import Field

# A number in atomic units outside of these ranges is a slip, and products of several such numbers overflow.
SIZE = Field(gt=1e-12, lt=1e12)
SIGNED = Field(gt=-1e12, lt=1e12)
Positive = Annotated[float, Field(gt=0.0)]
