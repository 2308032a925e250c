"""Deck of the counter."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Deck, DeckPath, Finding, PositiveCount
from qsim.core.deck.units import Duration


class CountBlock(Block):
    """What is counted."""

    steps: PositiveCount = Field(description="number of steps", json_schema_extra={"example": 20})
    start: float = Field(0.25, description="first value", gt=0, lt=1)
    growth: float = Field(3.9, description="parameter of the map", gt=0, le=4)
    file: DeckPath | None = Field(None, description="file of a number that is added to the first value")
    pause: Duration = Field(0.0, description="waiting time per step")
    fail: Literal["none", "nan", "bug", "memory", "figure", "rank", "death", "disk", "wait"] = Field(
        "none", description="what goes wrong"
    )
    beside: bool = Field(False, description="also write <name>.s001.extra.dat")
    huge: bool = Field(False, description="plan more memory than there is")


class CounterDeck(Deck):
    """A counter."""

    method: Literal["counter"] = Field(description="the method that this deck is for")
    count: CountBlock = Field(description="what is counted")

    def check(self) -> Iterable[Finding]:
        if self.count.steps > 1000:
            yield Finding("count.steps", f"{self.count.steps} steps are more than 1000")
        if self.count.growth < 1:
            yield Finding("count.growth", "the map dies out", "warning")


DECK = CounterDeck
EXTENDABLE = ("count.steps",)


def references(deck: CounterDeck) -> tuple[str, ...]:
    return ("may1976",)
