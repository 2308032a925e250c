"""Matrices and states that stand in a deck itself, as Python gives them: lists of real and complex numbers."""

from typing import Annotated, Any

from pydantic import Field

from qsim.core.deck.blocks import Block, ComplexNumber

Vector = Annotated[list[ComplexNumber], Field(min_length=1)]
Matrix = Annotated[list[Vector], Field(min_length=1)]


class StateArray(Block):
    """A state or a density matrix in the order of the basis states."""

    psi: Vector | None = Field(default=None, description="amplitudes (D)")
    rho: Matrix | None = Field(default=None, description="density matrix (D, D), of a start")


def as_state(value: Any) -> Any:
    """Read an array as the block of a state: a vector, a column or a density matrix."""
    if not isinstance(value, list) or not value:
        return value
    if all(isinstance(row, list) and len(row) == 1 for row in value):
        value = [row[0] for row in value]
    return {"rho" if isinstance(value[0], list) else "psi": value}
