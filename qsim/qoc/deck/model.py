"""The deck of ``qsim qoc`` for a molecule with the propagators of the paper."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Deck, short_form
from qsim.core.deck.units import Energy, Time
from qsim.qoc.deck.controls import Control
from qsim.qoc.deck.ensemble import Ensemble
from qsim.qoc.deck.forms import asks_for_levels
from qsim.qoc.deck.numbers import SIGNED, SIZE, Positive
from qsim.qoc.deck.optimizers import Lbfgs, Optimizer
from qsim.qoc.deck.quantum import TYPES, QuantumDeck
from qsim.qoc.deck.system import System


class TimeGrid(Block):
    """Duration and steps; the field has one value per step, at its midpoint."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"tau": "dt"}

    T: Annotated[Time, SIZE] = Field(description="duration", json_schema_extra={"example": 30000})
    steps: Annotated[Count, Field(ge=1, le=100_000_000)] | Literal["auto"] | None = Field(
        default=None,
        description="number of intervals N (the paper's N time points are N - 1 intervals); auto: from the spectrum",
        json_schema_extra={"example": 6000},
    )
    dt: Annotated[Time, SIZE] | None = Field(
        default=None, validation_alias=AliasChoices("dt", "tau"), description="time step, instead of steps"
    )


class EigenbasisPropagator(Block):
    """Strang splitting in the lowest eigenstates; checks its own truncation."""

    type: Literal["eigenbasis"]
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] = Field(
        default="auto", description="retained levels K"
    )
    truncation_tolerance: Positive = Field(
        default=1e-6, description="warn when the highest retained levels hold more population than this"
    )


class CrankNicolsonPropagator(Block):
    """The paper's propagator, Eq. (4), on the grid."""

    type: Literal["crank_nicolson"]
    energy_shift: Annotated[Energy, SIGNED] | Literal["auto"] = Field(
        default="auto",
        description="added to the potential; auto puts the zero between the states, 0.0 is the paper's Eq. (4)",
    )
    memory: Literal["auto", "store", "reverse"] = Field(
        default="auto", description="keep the trajectory for the gradient, or recover it by time reversal"
    )


Propagator = Annotated[
    EigenbasisPropagator | CrankNicolsonPropagator, Field(discriminator="type"), short_form
]


class Objective(Block):
    """``J = P - alpha integral eps^2 dt``, Eq. (6)."""

    threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.99, description="stop when P reaches this"
    )
    alpha: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="fluence penalty, 1/(field^2 time)"
    )
    combine: Literal["incoherent", "coherent"] = Field(
        default="incoherent",
        description="several pairs: mean of |o|^2, or |mean of o|^2 (relative phases count)",
    )


class Verify(Block):
    """Independent propagation of the final field."""

    propagator: Literal["auto", "crank_nicolson", "cn", "eigenbasis", "none"] = Field(
        default="auto", description="auto: the one that the run did not use"
    )
    steps: Annotated[Count, Field(ge=1, le=100_000_000)] | Literal["auto"] = Field(
        default="auto", description="time steps"
    )
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] = Field(
        default="auto", description="levels (eigenbasis)"
    )
    tolerance: Positive = Field(
        default=1e-3,
        description="warn when the two probabilities differ by more, or the claimed error is larger",
    )
    interpolation: Literal["auto", "cubic", "hold"] = Field(
        default="auto",
        description="field between its values: a cubic spline, or constant in each step (hold); auto: a spline "
        "if the field is smooth on its steps (claimed errors then cover both), else hold",
    )


def _verify_form(value: object) -> object:
    if value is False or value == "none":
        return {"propagator": "none"}
    return {"propagator": value} if isinstance(value, str) else value


class QocDeck(Deck):
    """Optimal control of a vibrational state."""

    meant: ClassVar[Mapping[str, str]] = {
        "optimizer.type=GRAPE": "lbfgs takes the gradient that GRAPE computes",
        "optimizer.type=grape": "lbfgs takes the gradient that GRAPE computes",
    }

    @classmethod
    def model_for(cls, data: Mapping[str, Any]) -> type[Deck]:
        """Return the deck in levels for all types of system but a molecule whose keys are those of the paper."""
        system = data.get("system")
        kind = system.get("type", "grid") if isinstance(system, Mapping) else None
        more = kind in TYPES or (kind == "grid" and asks_for_levels(data))
        return QuantumDeck if more else cls

    @classmethod
    def variants(cls) -> tuple[type[Deck], ...]:
        """Return the decks of a molecule on a grid and of any other system."""
        return (cls, QuantumDeck)

    method: Literal["qoc"]
    system: System
    time: TimeGrid
    propagator: Propagator = Field(
        default=EigenbasisPropagator(type="eigenbasis"),
        description="propagation of the state",
        validate_default=True,
    )
    control: Control = Field(default=Control(), description="the field", validate_default=True)
    objective: Objective = Field(default=Objective(), description="quantity to maximise")
    optimizer: Optimizer = Field(
        default=Lbfgs(type="lbfgs"), description="method of maximisation", validate_default=True
    )
    ensemble: Ensemble | None = Field(default=None, description="robust control: one field, many systems")
    verify: Annotated[
        Verify,
        BeforeValidator(
            _verify_form,
            json_schema_input_type=Verify
            | Literal[False, "none", "auto", "crank_nicolson", "cn", "eigenbasis"],
        ),
    ] = Field(default=Verify(), description="independent check of the final probability")


def references(deck: QocDeck | QuantumDeck) -> tuple[str, ...]:
    """Return the BibTeX keys of the algorithms that a deck uses."""
    keys = {
        "travolta": ("RodriguezBorbon2024", "Raza2021"),
        "krotov": ("Krotov1983",),
        "lbfgs": ("Byrd1995",),
    }
    return ("qsim", *keys.get(deck.optimizer.type, ()))
