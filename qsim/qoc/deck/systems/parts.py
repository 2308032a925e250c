"""The named parts of ``system: {type: model}``: qubits, transmons, ladders, spins, rotors."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import Block, Count
from qsim.qoc.deck.systems.quantities import FrequencyValue, TemperatureValue, TimeValue

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,31}$")]
Levels = Annotated[Count, Field(ge=2, le=400)]


class PartBase(Block):
    """Keys that all parts have."""

    name: Name = Field(description="name in formulas: a in a.b", json_schema_extra={"example": "a"})


class Damped(PartBase):
    """A part with a frequency, lifetimes and a bath."""

    frequency: FrequencyValue = Field(default=0.0, description="transition 0-1")
    T1: TimeValue | None = Field(default=None, description="lifetime of level 1 in a cold bath")
    T2: TimeValue | None = Field(default=None, description="decay time of the coherence 0-1")
    Tphi: TimeValue | None = Field(
        default=None, description="the same from pure dephasing alone, instead of T2"
    )
    temperature: TemperatureValue | None = Field(
        default=None, description="temperature of the bath of T1, or its kT as a frequency"
    )


class Qubit(Damped):
    """Two levels, H = frequency n; operators sx sy sz sp sm n b bd x y p0 p1 with sz|0> = +|0> and sm|1> = |0>."""

    type: Literal["qubit"]


class Ladder(Damped):
    """Levels 0, 1, ... of an oscillator, H = frequency n + anharmonicity n(n-1)/2; operators b bd n x y, p0 p1 ..."""

    type: Literal["ladder"]
    levels: Levels = Field(description="number of levels kept")
    anharmonicity: FrequencyValue = Field(default=0.0, description="frequency 1-2 less frequency 0-1")


class Transmon(Damped):
    """A weakly anharmonic oscillator, H = frequency n + anharmonicity n(n-1)/2; operators b bd n x y, p0 p1 ..."""

    type: Literal["transmon"]
    levels: Levels = Field(description="number of levels kept")
    anharmonicity: FrequencyValue = Field(description="frequency 1-2 less frequency 0-1; negative")


class Spin(PartBase):
    """Spin s, H = frequency n, n = Sz + s; level 0 has m = -s; operators Sx Sy Sz Sp Sm n p0 p1 ..."""

    type: Literal["spin"]
    s: Annotated[float, Field(ge=0.5, le=100, multiple_of=0.5)] = Field(description="spin, in halves")
    frequency: FrequencyValue = Field(default=0.0, description="distance of neighbouring levels")


class RotorPart(PartBase):
    """A linear rotor of fixed M, H = B J(J+1), levels J = abs(M), abs(M) + 1, ...; operators cos cos2 J2 p0 p1 ..."""

    type: Literal["rotor"]
    B: FrequencyValue = Field(description="rotational constant")
    levels: Levels = Field(description="number of levels J kept")
    M: Annotated[int, Field(ge=-300, le=300)] = Field(
        default=0, description="projection on the axis of the field"
    )


Part: TypeAlias = Annotated[Qubit | Transmon | Ladder | Spin | RotorPart, Field(discriminator="type")]
