"""The deck of ``qsim qoc`` for a molecule with the propagators of the paper, and its keys against each other."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Deck, Finding, short_form
from qsim.core.deck.units import Energy, Time
from qsim.qoc.deck.controls import Control, FileGuess, ZeroGuess
from qsim.qoc.deck.ensemble import Ensemble, Range, values_of
from qsim.qoc.deck.numbers import SIGNED, SIZE, Positive
from qsim.qoc.deck.optimizers import Lbfgs, Optimizer
from qsim.qoc.deck.quantum import TYPES, QuantumDeck, asks_for_levels
from qsim.qoc.deck.system import System, levels_of, parse_weight


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


def rules(deck: QocDeck) -> Iterator[Finding]:
    """Yield contradictions that need no calculation."""
    yield from _states(deck)
    yield from _time_and_grid(deck)
    yield from _control(deck)
    yield from _optimizer(deck)
    yield from _ensemble(deck)
    if deck.run.precision == "mixed":
        yield Finding("run.precision", "qoc runs in double or single precision, not mixed")


def _states(deck: QocDeck) -> Iterator[Finding]:
    system = deck.system
    if system.pairs is not None and (system.initial is not None or system.target is not None):
        yield Finding("system.pairs", "give either pairs, or initial and target, not both")
        return
    if system.pairs is None:
        for key in ("initial", "target"):
            if getattr(system, key) is None:
                yield Finding(f"system.{key}", "missing key; give a level such as 0, or {level: weight}")
                return
    states = deck.propagator.states if isinstance(deck.propagator, EigenbasisPropagator) else "auto"
    room = system.grid.points if states == "auto" else states
    # one of several pairs may ask to keep a state
    pairs = system.state_pairs()
    # of several pairs together, the phases between them count, which the free motion changes as well
    phases = deck.objective.combine == "coherent" and len(pairs) > 1
    nothing_to_do = deck.optimizer.type != "none" and not phases and all(_same(a, b) for a, b in pairs)
    for i, (initial, target) in enumerate(pairs):
        where = f"system.pairs.{i}." if system.pairs is not None else "system."
        if nothing_to_do:
            same = f"the initial state lies within the target levels {target}"
            if not isinstance(target, list):
                same = f"initial and target are the same state ({target})"
            yield Finding(f"{where}target", f"{same}; nothing to control")
        for key, state in (("initial", initial), ("target", target)):
            if max(levels_of(state)) >= room:
                yield Finding(
                    f"{where}{key}",
                    f"level {max(levels_of(state))} is not among the {room} "
                    + ("grid states" if states == "auto" else "states of propagator.states"),
                )
    if not isinstance(states, str) and states > system.grid.points // 2:
        yield Finding(
            "propagator.states",
            f"{states} states on {system.grid.points} grid points; at most {system.grid.points // 2} of them are accurate",
        )


def _time_and_grid(deck: QocDeck) -> Iterator[Finding]:
    grid, time = deck.system.grid, deck.time
    if grid.xmin >= grid.xmax:
        yield Finding("system.grid.xmin", f"xmin = {grid.xmin:g} must lie below xmax = {grid.xmax:g} bohr")
    elif grid.xmax - grid.xmin < 1e-9 * (1.0 + abs(grid.xmin)):
        yield Finding("system.grid.xmax", f"the grid is only {grid.xmax - grid.xmin:.3g} bohr wide")
    if time.steps is None and time.dt is None:
        yield Finding("time.steps", "missing key; give steps (a number or auto), or dt")
    elif time.dt is not None and isinstance(time.steps, int) and abs(time.T / time.dt - time.steps) > 0.5:
        yield Finding(
            "time.dt",
            f"dt = {time.dt:g} a.u. and T = {time.T:g} a.u. make {time.T / time.dt:.6g} steps, but steps = {time.steps}; "
            "leave one of them out",
        )
    elif time.dt is not None and time.dt > time.T:
        yield Finding("time.dt", f"dt = {time.dt:g} a.u. is longer than T = {time.T:g} a.u.")


def _control(deck: QocDeck) -> Iterator[Finding]:
    control = deck.control
    if control.bounds is not None:
        yield from _bounds(deck, *control.bounds)
    if control.band is not None and control.band[0] >= control.band[1]:
        yield Finding(
            "control.band", f"the lowest frequency {control.band[0]:g} must be below {control.band[1]:g}"
        )
    tried = isinstance(control.guess, FileGuess) and control.guess.file.suffix not in (".h5", ".hdf5")
    if tried and deck.optimizer.type == "none" and control.shape is not None:
        text = "the field of the file is multiplied by this shape; leave it out to try the field as it is"
        yield Finding("control.shape", text, "warning")
    noisy = isinstance(control.guess, ZeroGuess) and bool(control.guess.noise)
    if noisy and deck.optimizer.type not in ("travolta", "none"):
        yield Finding("control.guess.noise", "noise is only used by optimizer travolta", "warning")


def _bounds(deck: QocDeck, low: float, high: float) -> Iterator[Finding]:
    if low >= high:
        yield Finding("control.bounds", f"lower bound {low:g} must lie below the upper bound {high:g} a.u.")
    elif not low <= 0 <= high:
        yield Finding("control.bounds", f"the bounds [{low:g}, {high:g}] must include zero field")
    elif deck.control.zero_area and 0 in (low, high):
        yield Finding("control.bounds", "a field of one sign cannot have zero area")


def _optimizer(deck: QocDeck) -> Iterator[Finding]:
    """Yield constraints and goals that the optimiser cannot keep."""
    kind = deck.optimizer.type
    unknown = {
        "travolta": (
            ("bounds", "band", "zero_area", "shape"),
            "the paper's line search cannot keep constraints; use optimizer lbfgs or gauss_newton",
        ),
        "krotov": (
            ("band", "zero_area"),
            "Krotov's sequential update cannot keep this; use optimizer lbfgs or gauss_newton",
        ),
    }
    keys, message = unknown.get(kind, ((), ""))
    for key in keys:
        if getattr(deck.control, key):
            yield Finding(f"control.{key}", message)
    if kind == "krotov" and not isinstance(deck.propagator, EigenbasisPropagator):
        yield Finding(
            "propagator", "Krotov's method runs in the eigenbasis; set propagator: {type: eigenbasis}"
        )
    coherent = deck.objective.combine == "coherent"
    if coherent and kind == "gauss_newton":
        yield Finding(
            "objective.combine", "Gauss-Newton treats pairs incoherently; use optimizer lbfgs or krotov"
        )
    if coherent and any(isinstance(target, list) for _, target in deck.system.state_pairs()):
        yield Finding("objective.combine", "a list of target levels has no phase; use incoherent")


def _ensemble(deck: QocDeck) -> Iterator[Finding]:
    if deck.ensemble is None:
        return
    count = 1
    for values in (deck.ensemble.field_scale, deck.ensemble.mass_scale, deck.ensemble.potential_scale):
        count *= values.count if isinstance(values, Range) else len(values_of(values))
    if count > 1_000_000:
        yield Finding("ensemble", f"{count} members; at most 1000000 are allowed")


def _same(a: Any, b: Any) -> bool:
    """Return True if the first state of a deck is the second one (the same ray), or lies within its list of levels."""
    if isinstance(b, list):
        return set(levels_of(a)) <= set(b)
    va = {int(k): parse_weight(w) for k, w in a.items()} if isinstance(a, dict) else {int(a): 1 + 0j}
    vb = {int(k): parse_weight(w) for k, w in b.items()} if isinstance(b, dict) else {int(b): 1 + 0j}
    na = math.sqrt(sum(abs(w) ** 2 for w in va.values()))
    nb = math.sqrt(sum(abs(w) ** 2 for w in vb.values()))
    overlap = abs(sum(va[k].conjugate() * vb[k] for k in va if k in vb)) / (na * nb)
    return overlap > 1 - 1e-12
