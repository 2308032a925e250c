"""``system: {type: model}``: named parts (qubits, transmons, ladders, spins, rotors), couplings, controls, jumps by formulas."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count
from qsim.qoc.deck.systems.quantities import FrequencyValue, RateValue, TemperatureValue, TimeValue, UnitName
from qsim.qoc.deck.systems.states import Initial, StatePair, Target

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


Formula = Annotated[str, Field(min_length=1, max_length=20_000)]


class Term(Block):
    """One term of H0 beside the parts."""

    operator: Formula = Field(description="Hermitian formula of operators, part.operator")
    value: FrequencyValue = Field(default=1.0, description="its factor")


class JumpTerm(Block):
    """One jump operator beside those of the parts."""

    operator: Formula = Field(description="formula of operators")
    rate: RateValue = Field(description="rate, 1/time; the jump is sqrt(rate) times the operator")


class ControlOperator(Block):
    """The operator of one control; H gets u^power times it."""

    operator: Formula = Field(description="Hermitian formula of operators")
    power: Literal[1, 2] = Field(default=1, description="1, or 2 for a coupling to the square of the control")


def _as_operator(value: Any) -> Any:
    return {"operator": value} if isinstance(value, str) else value


Control = Annotated[
    ControlOperator, BeforeValidator(_as_operator, json_schema_input_type=ControlOperator | str)
]
ControlOperators = Annotated[dict[str, Control], Field(min_length=1)]


class ModelSystem(Block):
    """Qubits, ladders, spins and rotors by name."""

    type: Literal["model"]
    unit: UnitName | None = Field(
        default=None, description="unit of bare frequencies and energies; none: numbers with hbar = 1"
    )
    parts: Annotated[list[Part], Field(min_length=1, max_length=20)] = Field(
        description="parts; the first one is the slowest in the product basis"
    )
    frame: FrequencyValue | dict[str, FrequencyValue] | None = Field(
        default=None, description="rotating frame of all parts, or of each by name"
    )
    terms: list[Term] = Field(default=[], description="couplings and further terms of H0")
    controls: ControlOperators = Field(
        description="operators of the controls by name, in the frame if there is one"
    )
    jumps: list[JumpTerm] = Field(default=[], description="jumps beside those of the parts")
    initial: Initial | None = Field(
        default=None, description="start: label, level, superposition, thermal, file"
    )
    target: Target | None = Field(
        default=None, description="goal: label, level, superposition, list, observable, density, gate"
    )
    pairs: Annotated[list[StatePair], Field(min_length=1)] | None = Field(
        default=None,
        description="several goals for the same controls, of any kinds and with weights, instead of initial and target",
    )
