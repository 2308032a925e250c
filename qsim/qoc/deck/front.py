"""Fronts of a quantum deck: the best value against a duration, a fluence or any other key."""

from typing import Annotated

from pydantic import Field

from qsim.core.deck.blocks import Block

# Short names of keys.
ALIASES = {"T": "time.T", "fluence": "objective.max_fluence", "slots": "time.slots"}

Point = Annotated[float | str, Field(union_mode="left_to_right")]


class Front(Block):
    """One search for each value of a key, from one neighbour to the next and back; the larger result is kept."""

    over: Annotated[str, Field(min_length=1)] = Field(
        description="key of the deck, such as time.T; fluence: the largest integral of the sum of u^2",
        json_schema_extra={"example": "time.T"},
    )
    values: Annotated[list[Point], Field(min_length=2, max_length=1000)] = Field(
        description="values of the key", json_schema_extra={"example": ["10 ns", "20 ns"]}
    )
    warm_start: bool = Field(
        default=True,
        description="begin each search from the controls of its neighbour, rescaled to the same areas",
    )
    both_ways: bool = Field(
        default=True, description="go through the values forwards and backwards; needs warm_start"
    )

    @property
    def key(self) -> str:
        """The key of the deck that the values belong to."""
        return ALIASES.get(self.over, self.over)
