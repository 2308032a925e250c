"""Blocks of time profiles: the factor f(t) of a term of the Hamiltonian; :mod:`qsim.trotter.model.profiles` evaluates them."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.blocks import Block, DeckPath, Finding, short_form
from qsim.core.deck.expression import ExpressionText

SIGNED = Field(gt=-1e12, lt=1e12)
SIZE = Field(gt=1e-12, lt=1e12)
Number = Annotated[float, SIGNED]


class ConstantProfile(Block):
    """``f = value`` at all times."""

    type: Literal["constant"]
    value: Number = Field(default=1.0, description="the factor")


class RampProfile(Block):
    """From `start` to `end` between two times, constant before and after."""

    type: Literal["ramp"]
    start: Number = Field(default=0.0, description="factor until t0")
    end: Number = Field(default=1.0, description="factor from t1")
    t0: Number = Field(default=0.0, description="time at which the ramp begins")
    t1: Number = Field(
        validation_alias=AliasChoices("t1", "duration"),
        description="time at which it ends (also: duration, for t0 = 0)",
        json_schema_extra={"example": 10.0},
    )
    shape: Literal["linear", "smooth"] = Field(
        default="linear", description="linear, or smooth: sin^2, without kinks at the ends"
    )

    def check(self, key: str) -> Iterator[Finding]:
        """Yield contradictions between the keys."""
        if self.t1 <= self.t0:
            yield Finding(
                f"{key}.t1", f"the ramp must end after it begins: t0 = {self.t0:g}, t1 = {self.t1:g}"
            )


class CosineProfile(Block):
    """``f = offset + amplitude cos(omega t + phase)``."""

    type: Literal["cosine"]
    omega: Number = Field(
        description="angular frequency, in the unit of J", json_schema_extra={"example": 0.6}
    )
    amplitude: Number = Field(default=1.0, description="amplitude")
    phase: Number = Field(default=0.0, description="phase at t = 0, rad; -pi/2 makes a sine")
    offset: Number = Field(default=0.0, description="mean value")


class TableProfile(Block):
    """Values at given times, joined by straight lines and constant outside."""

    type: Literal["table"]
    points: (
        Annotated[
            list[Annotated[list[Number], Field(min_length=2, max_length=2)]],
            Field(min_length=1, max_length=1_000_000),
        ]
        | None
    ) = Field(default=None, description="[t, f] in ascending order of t, instead of file")
    file: DeckPath | None = Field(default=None, description="CSV with the columns t, f, instead of points")

    def check(self, key: str) -> Iterator[Finding]:
        """Yield rows that are missing, duplicate, or out of order."""
        if (self.points is None) == (self.file is None):
            yield Finding(key, "give the table either as points or as file")
        times = [row[0] for row in self.points or ()]
        for k, (a, b) in enumerate(pairwise(times)):
            if b <= a:
                yield Finding(f"{key}.points.{k + 1}", f"times must ascend, but {b:g} follows {a:g}")
                return


class FormulaProfile(Block):
    """A formula of the time t."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("t")] = Field(
        description="formula of t", json_schema_extra={"example": "sin(0.6*t)"}
    )


Profile = Annotated[
    ConstantProfile | RampProfile | CosineProfile | TableProfile | FormulaProfile,
    Field(discriminator="type"),
    short_form,
]


def check_profile(profile: object, key: str) -> Iterator[Finding]:
    """Yield the mistakes of a profile."""
    if isinstance(profile, RampProfile | TableProfile):
        yield from profile.check(key)
