"""The deck of ``qsim qoc`` for a quantum system that is given by its parts or by matrices."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from qsim.core.deck.blocks import Block, Count, Deck, Finding, PositiveCount, short_form
from qsim.qoc.deck.controls import QuantumControl, control_rules
from qsim.qoc.deck.ensemble import QuantumEnsemble
from qsim.qoc.deck.front import Front
from qsim.qoc.deck.numbers import Positive
from qsim.qoc.deck.optimizers import QuantumLbfgs, QuantumOptimizer
from qsim.qoc.deck.system import OTHERS
from qsim.qoc.deck.systems.grid2d import Grid2dSystem
from qsim.qoc.deck.systems.matrices import MatricesSystem
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.quantities import TimeValue
from qsim.qoc.deck.systems.rotor import RotorSystem

__all__ = ["TYPES", "QuantumDeck"]

# Types of system that this deck is for.
TYPES = OTHERS


class Slots(Block):
    """Duration and slots; every control is constant in each slot."""

    T: TimeValue = Field(description="duration", json_schema_extra={"example": "100 ns"})
    slots: Annotated[PositiveCount, Field(le=10_000_000)] = Field(
        description="number N of slots", json_schema_extra={"example": 200}
    )


class Running(Block):
    """A mean value that is kept small on the way."""

    observable: Annotated[str, Field(min_length=1)] = Field(
        description="Hermitian formula of operators",
        json_schema_extra={"example": "q.p2"},
    )
    weight: Annotated[float, Field(gt=-1e12, lt=1e12)] = Field(
        description="factor of its mean over time in J; negative to make it large",
        json_schema_extra={"example": 0.1},
    )


class QuantumObjective(Block):
    """``J = P - alpha sum_c integral u_c^2 dt - leakage_weight leak - running.weight mean``, with P the value of the goal."""

    measure: Literal["auto", "average_fidelity", "process_fidelity"] = Field(
        default="auto",
        description="value of a gate: average_fidelity (auto), over all states of the logical space, or process_fidelity",
    )
    threshold: float | Literal["auto"] = Field(
        default="auto", description="stop when P reaches this; auto: 0.99, for observables never"
    )
    alpha: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="fluence penalty, 1/(control^2 time)"
    )
    leakage_weight: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="factor of the leakage of a gate in J"
    )
    running: Running | None = Field(default=None, description="a mean value over time that counts in J")
    max_fluence: Annotated[float, Field(gt=0, lt=1e30)] | None = Field(
        default=None, description="largest integral of the sum of u^2 of all controls that are not fixed"
    )


class Histories(Block):
    """Sampled histories with jumps."""

    count: Annotated[Count, Field(ge=8, le=10_000_000)] = Field(
        default=1000, description="histories with jumps in every evaluation"
    )


class Unravelled(Block):
    """Jumps at times that are drawn once, for systems too large for density matrices."""

    trajectories: Histories = Field(
        description="histories whose times follow a Poisson process; the result is that of other times, with its error"
    )


def _more(value: object) -> object:
    """Return the number of a text such as "+2"."""
    text = value.strip() if isinstance(value, str) else ""
    return int(text[1:]) if text.startswith("+") and text[1:].isdecimal() else value


class QuantumVerify(Block):
    """Independent propagation of the final controls."""

    propagator: Literal["auto", "none"] = Field(
        default="auto",
        description="auto: exponentials of each slot by another algorithm and from another generator",
    )
    levels: Annotated[Count, Field(le=20), BeforeValidator(_more, json_schema_input_type=int | str)] = Field(
        default=2,
        description="levels more per ladder or transmon, at least, for the error of the levels; 0: the levels are the model",
    )
    tolerance: Positive = Field(
        default=1e-4, description="warn when both values differ by more, or the claimed error is larger"
    )


class Levels(Block):
    """The levels of two coordinates in which they move; what they leave out is in the error."""

    type: Literal["eigenbasis"]
    states: Annotated[Count, Field(ge=2, le=400)] = Field(
        default=60, description="levels kept, as system.states"
    )


class QuantumDeck(Deck):
    """Optimal control of any quantum system."""

    meant: ClassVar[Mapping[str, str]] = {
        "system.dissipation": "dissipation is jumps: [{operator: a.sm, rate: 0.01}], or T1 and T2 of a part",
        "system.lindblad*": "dissipation is jumps: [{operator: a.sm, rate: 0.01}], or T1 and T2 of a part",
        "system.collapse*": "dissipation is jumps: [{operator: a.sm, rate: 0.01}], or T1 and T2 of a part",
        "optimizer.type=GRAPE": "lbfgs takes the gradient that GRAPE computes",
        "optimizer.type=grape": "lbfgs takes the gradient that GRAPE computes",
    }

    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "system": {
                "type": "model",
                "unit": "GHz",
                "parts": [
                    {"type": "transmon", "name": "q", "levels": 5, "frequency": 5.0, "anharmonicity": -0.25}
                ],
                "frame": 5.0,
                "controls": {"x": "q.x/2"},
                "initial": "0",
                "target": "1",
            }
        },
        "rotor": {
            "system": {
                "type": "rotor",
                "B": "2 cm-1",
                "dalpha": "0.7 angstrom^3",
                "initial": 0,
                "target": {"observable": "cos2"},
            },
            "time": {"T": "2 ps", "slots": 100},
            "control": [{"name": "envelope", "guess": {"type": "expression", "value": "0.005"}}],
        },
        "grid2d": {
            "system": {
                "type": "grid2d",
                "mass": [1.0, 1.3],
                "dipole": {"x": "x"},
                "grid": {name: {"min": -7.0, "max": 7.0, "points": 32} for name in "xy"},
                "states": 20,
                "initial": 0,
                "target": 1,
            },
            "time": {"T": "2 fs", "slots": 200},
        },
    }

    @model_validator(mode="before")
    @classmethod
    def _levels_of_two_coordinates(cls, value: object) -> object:
        """Give the levels of the propagator to two coordinates that name none of their own."""
        if not isinstance(value, dict):
            return value
        system, propagator = value.get("system"), value.get("propagator")
        if not isinstance(system, dict) or not isinstance(propagator, dict) or "states" in system:
            return value
        if system.get("type") != "grid2d" or "states" not in propagator:
            return value
        return {**value, "system": {**system, "states": propagator["states"]}}

    method: Literal["qoc"]
    system: Annotated[ModelSystem | MatricesSystem | RotorSystem | Grid2dSystem, Field(discriminator="type")]
    time: Slots
    control: Annotated[list[QuantumControl], Field(min_length=1)] = Field(
        description="one entry per control of the system",
        json_schema_extra={"example": [{"name": "x"}]},
    )
    propagator: Annotated[Levels, short_form] | None = Field(
        default=None, description="grid2d: the levels in which the state moves"
    )
    dissipation: Literal["auto", "none", "no_jump", "lindblad"] | Unravelled = Field(
        default="auto",
        description="jumps of the system. none: left out; no_jump: kets that lose what jumps, with the interval of one "
        "jump and more; lindblad: density matrices; auto: lindblad for small systems and where jumps are frequent, else "
        "no_jump in the search and the Lindbladian once at the end if that takes seconds",
    )
    objective: QuantumObjective = Field(default=QuantumObjective(), description="quantity to maximise")
    optimizer: QuantumOptimizer = Field(
        default=QuantumLbfgs(type="lbfgs"), description="method of maximisation", validate_default=True
    )
    front: Front | None = Field(
        default=None, description="best value against a key: one search for each value of it"
    )
    ensemble: QuantumEnsemble | None = Field(
        default=None, description="robust control: the same controls, many systems"
    )
    verify: QuantumVerify = Field(default=QuantumVerify(), description="independent check of the result")

    @property
    def methods(self) -> set[str]:
        """Methods of the search: the first, and the one that finishes it."""
        return {self.optimizer.type, self._last}

    @property
    def _last(self) -> str:
        finish = getattr(self.optimizer, "finish", "none")
        return self.optimizer.type if finish == "none" else finish

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        if self.run.precision != "double":
            yield Finding("run.precision", "systems of parts or matrices run in double precision")
        yield from self._levels()
        yield from control_rules(self.control, self.optimizer.type)
        yield from self._sampling()
        beside = self.objective.running is not None or self.objective.leakage_weight > 0
        if beside and {"krotov", "gauss_newton"} & self.methods:
            key = "objective.running" if self.objective.running is not None else "objective.leakage_weight"
            yield Finding(key, f"{self._last} knows the value of the goal alone; use lbfgs")
        random = any(c.guess.type == "random" or c.parameters.type == "fourier" for c in self.control)
        if getattr(self.optimizer, "restarts", 0) and not random:
            text = "every start would be the same; give a control guess: random, or parameters: fourier"
            yield Finding("optimizer.restarts", text)
        if self.optimizer.type == "krotov" and self.objective.max_fluence is not None:
            text = "Krotov's update changes one slot after another and cannot keep this; use optimizer lbfgs"
            yield Finding("objective.max_fluence", text)
        if self.front is not None and self.optimizer.type == "none":
            yield Finding("front", "a front is searched; choose an optimizer")
        yield from self._members()

    def _members(self) -> Iterator[Finding]:
        """Yield what an ensemble cannot do."""
        if self.ensemble is None:
            return
        yield from self.ensemble.check()
        if isinstance(self.dissipation, Unravelled):
            yield Finding(
                "dissipation", "an ensemble has no sampled histories; use lindblad, no_jump or none"
            )
        if self.objective.running is not None:
            yield Finding("objective.running", "an ensemble knows the value of the goal alone")
        if self.objective.leakage_weight > 0:
            yield Finding("objective.leakage_weight", "an ensemble knows the value of the goal alone")
        if self.objective.measure == "process_fidelity":
            yield Finding("objective.measure", "an ensemble knows the average fidelity alone")
        if {"krotov", "gauss_newton"} & self.methods:
            text = f"{self._last} knows one system; with an ensemble: lbfgs, travolta or none"
            yield Finding("optimizer.type", text)

    def _sampling(self) -> Iterator[Finding]:
        """Yield what sampled histories cannot do."""
        if not isinstance(self.dissipation, Unravelled):
            return
        if {"krotov", "gauss_newton"} & self.methods:
            yield Finding("dissipation", f"{self._last} knows no sampled histories; use lbfgs")
        if self.objective.running is not None or self.objective.leakage_weight > 0:
            yield Finding("dissipation", "sampled histories know the value of the goal alone; use lindblad")

    def _levels(self) -> Iterator[Finding]:
        """Yield what is wrong with the levels of the propagator."""
        if self.propagator is None:
            return
        if not isinstance(self.system, Grid2dSystem):
            yield Finding("propagator", "systems of matrices have no choice of propagators; leave it out")
        elif self.system.states != self.propagator.states:
            text = f"{self.propagator.states} levels, but system.states is {self.system.states}; give one of them"
            yield Finding("propagator.states", text)
