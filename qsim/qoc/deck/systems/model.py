"""``system: {type: model}``: parts by name, couplings, controls and jumps by formulas."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block
from qsim.qoc.deck.systems.parts import Part
from qsim.qoc.deck.systems.quantities import FrequencyValue, RateValue, UnitName
from qsim.qoc.deck.systems.states import Initial, StatePair, Target

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
