"""The deck of ``qsim qoc`` for a quantum system that is given by its parts or by matrices."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Deck, Finding, PositiveCount, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.qoc.deck.control import ExpressionShape, Sin2, Sin2Edges
from qsim.qoc.deck.numbers import Positive
from qsim.qoc.deck.optimizers import NoOptimizer
from qsim.qoc.deck.system import OTHERS
from qsim.qoc.deck.systems.grid2d import Grid2dSystem
from qsim.qoc.deck.systems.matrices import MatricesSystem
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.quantities import ControlValue, FrequencyValue, TimeValue
from qsim.qoc.deck.systems.rotor import RotorSystem

__all__ = ["TYPES", "QuantumDeck"]

# Types of system that this deck is for.
TYPES = OTHERS

Values = Annotated[list[FrequencyValue], Field(min_length=2, max_length=2)]
ControlValues = Annotated[list[ControlValue], Field(min_length=2, max_length=2)]


class Slots(Block):
    """Duration and slots; every control is constant in each slot."""

    T: TimeValue = Field(description="duration", json_schema_extra={"example": "100 ns"})
    slots: Annotated[PositiveCount, Field(le=10_000_000)] = Field(
        description="number N of slots", json_schema_extra={"example": 200}
    )


class ExpressionValues(Block):
    """A formula of t (and the duration T), evaluated in the middle of each slot."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(
        description="formula of t and T, in the unit of time and of frequency of the system"
    )


class RandomValues(Block):
    """A smooth random control: a few sine modes with normal coefficients."""

    type: Literal["random"]
    amplitude: ControlValue | Literal["auto"] = Field(
        default="auto",
        description="root mean square; auto: half of the smaller bound, or a rotation by pi in T",
    )
    modes: PositiveCount = Field(default=8, description="number of sine modes")


class ZeroValues(Block):
    """No control at first."""

    type: Literal["zero"]


FirstValues = Annotated[ExpressionValues | RandomValues | ZeroValues, Field(discriminator="type"), short_form]


class EverySlot(Block):
    """One free value per slot."""

    type: Literal["slots"]


class Sine(Block):
    """Sine modes ``sin(n pi t/T)`` in a band of frequencies."""

    type: Literal["sine"]
    band: Values = Field(description="lowest and highest frequency")


class Splines(Block):
    """Cubic B-splines on equal intervals."""

    type: Literal["bspline"]
    count: Annotated[Count, Field(ge=4)] = Field(description="number of splines")


class Constant(Block):
    """One value for the whole duration."""

    type: Literal["constant"]


Parameters = Annotated[EverySlot | Sine | Splines | Constant, Field(discriminator="type"), short_form]
Shapes = Annotated[Sin2Edges | Sin2 | ExpressionShape, Field(discriminator="type"), short_form]


class QuantumControl(Block):
    """One control of the system: its first values and constraints."""

    name: str = Field(description="name in system.controls, or in the file of matrices")
    guess: FirstValues = Field(
        default=RandomValues(type="random"), description="first values", validate_default=True
    )
    parameters: Parameters = Field(
        default=EverySlot(type="slots"), description="free parameters", validate_default=True
    )
    shape: Shapes | None = Field(default=None, description="factor S(t) of the control, from 0 to 1")
    bounds: ControlValues | None = Field(
        default=None,
        description="lowest and highest value, a frequency; rotor, grid2d: an electric field, or the intensity of its peak",
    )
    zero_area: bool = Field(default=False, description="keep the time integral at zero")
    fixed: bool = Field(default=False, description="keep the first values: a known drive")


class QuantumObjective(Block):
    """``J = P - alpha sum_c integral u_c^2 dt``, with P the probability, fidelity or mean value of the goal."""

    threshold: float | Literal["auto"] = Field(
        default="auto", description="stop when P reaches this; auto: 0.99, for observables never"
    )
    alpha: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="fluence penalty, 1/(control^2 time)"
    )


class QuantumLbfgs(Block):
    """Quasi-Newton with exact gradients (SciPy's L-BFGS-B)."""

    type: Literal["lbfgs"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )
    memory: Annotated[Count, Field(ge=1, le=100)] = Field(default=10, description="stored corrections")


class QuantumVerify(Block):
    """Independent propagation of the final controls."""

    propagator: Literal["auto", "none"] = Field(
        default="auto",
        description="auto: exponentials of each slot by another algorithm and from another generator",
    )
    levels: Annotated[Count, Field(le=20)] = Field(
        default=2,
        description="levels more per ladder or transmon for the error of the levels; 0: no such error",
    )
    tolerance: Positive = Field(
        default=1e-4, description="warn when both values differ by more, or the claimed error is larger"
    )


class QuantumDeck(Deck):
    """Optimal control of any quantum system."""

    method: Literal["qoc"]
    system: Annotated[ModelSystem | MatricesSystem | RotorSystem | Grid2dSystem, Field(discriminator="type")]
    time: Slots
    control: Annotated[list[QuantumControl], Field(min_length=1)] = Field(
        description="one entry per control of the system",
        json_schema_extra={"example": [{"name": "x"}]},
    )
    dissipation: Literal["auto", "none", "lindblad"] = Field(
        default="auto", description="lindblad: density matrices with the jumps; auto: if the system has jumps"
    )
    objective: QuantumObjective = Field(default=QuantumObjective(), description="quantity to maximise")
    optimizer: Annotated[QuantumLbfgs | NoOptimizer, Field(discriminator="type"), short_form] = Field(
        default=QuantumLbfgs(type="lbfgs"), description="method of maximisation", validate_default=True
    )
    verify: QuantumVerify = Field(default=QuantumVerify(), description="independent check of the result")

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        if self.run.precision != "double":
            yield Finding("run.precision", "systems of parts or matrices run in double precision")
        names = [c.name for c in self.control]
        for place, name in enumerate(names):
            if name in names[:place]:
                yield Finding(f"control.{place}.name", f"duplicate control '{name}'")
        if self.optimizer.type != "none" and all(c.fixed for c in self.control):
            yield Finding("control", "every control is fixed; nothing is left to optimise (optimizer: none)")
