"""Jumps between levels: lifetimes, tables of rates, baths that couple by a formula, dephasing, operators."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from qsim.core.deck.blocks import Block
from qsim.qoc.deck.systems.quantities import RateValue, TemperatureValue, TimeValue

# What an entry may be about, and the keys that may stand beside it.
KINDS = {
    "matrix": ("rate",),
    "lifetimes": ("temperature",),
    "rates": ("temperature", "M"),
    "bath": ("rate", "temperature"),
    "dephasing": ("operator",),
    "operator": ("rate",),
}


class LevelJump(Block):
    """One process: lifetimes, rates, bath, dephasing, or operator with its rate."""

    lifetimes: Annotated[dict[str, TimeValue], Field(min_length=1)] | None = Field(
        default=None,
        description="lifetime of each level, {level: time}: it falls to the next lower level",
        json_schema_extra={"example": {"1": "10 ps"}},
    )
    rates: Annotated[dict[str, dict[str, RateValue]], Field(min_length=1)] | None = Field(
        default=None, description="rates of jumps between levels, {from: {to: rate}}"
    )
    bath: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="formula f by which a bath couples: each pair of levels jumps with rate |f_ij|^2/|f_10|^2, times 1 + n down "
        "and n up, n the quanta of the bath at the frequency of the pair",
    )
    rate: RateValue | None = Field(
        default=None, description="of bath: jumps 1 -> 0 in a cold bath; of operator: factor, 1/time"
    )
    temperature: TemperatureValue | None = Field(
        default=None,
        description="of the bath; of lifetimes and rates: the reverse of each jump follows by detailed balance",
    )
    dephasing: TimeValue | None = Field(
        default=None,
        description="decay time of the coherence of levels 0 and 1 from pure dephasing; others by the square of the distance of "
        "their numbers, or of the means of operator",
    )
    operator: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="formula of a jump operator, the jump is sqrt(rate) times it; of dephasing: whose means count",
    )
    M: Literal["mixed", "kept"] | None = Field(
        default=None,
        description="rotor, rates: mixed (default): collisions leave J' with any M; kept: M stays",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "LevelJump":
        """Refuse an entry without a process, or with two of them."""
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        kind = next((name for name in KINDS if name in given), None)
        if kind is None:
            raise ValueError(f"expected one of {', '.join(k for k in KINDS if k in type(self).model_fields)}")
        extra = [name for name in given if name != kind and name not in KINDS[kind]]
        if extra:
            raise ValueError(f"{extra[0]} does not belong beside {kind}; write an entry for each process")
        if kind in ("bath", "operator") and self.rate is None:
            raise ValueError(f"{kind} needs its rate")
        return self


LevelJumps = list[LevelJump]
