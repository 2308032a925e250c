"""From a deck with a quantum system to its problem: matrices, controls, first values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device import rng
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import formula
from qsim.core.run.stages import Plan, Size
from qsim.qoc.control.controls import Controls, constant_mode, spline_modes
from qsim.qoc.control.fields import midpoints
from qsim.qoc.control.parametrisation import Parametrisation
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.models.builders import model
from qsim.qoc.models.faults import InvalidSystem
from qsim.qoc.models.quantum import GateTarget, ObservableTarget
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.quantum.problem import QuantumProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.qoc.deck.quantum import QuantumControl, QuantumDeck
    from qsim.qoc.models.quantum import QuantumModel

__all__ = ["build", "plan"]

# Levels up to which density matrices are columns of a sparse Lindbladian.
MOST_LEVELS = 32
# Terms of the series of a slot, roughly, for the count of operations.
TERMS = 12
# Threshold of `auto`.
THRESHOLD = 0.99
# Stream of random numbers of the first values; one more per control.
STREAM = 40


def nominal_model(deck: QuantumDeck) -> QuantumModel:
    """Return the matrices of the deck: made once by plan and build."""
    return model(deck.system)


def plan(loaded: LoadedDeck[QuantumDeck]) -> Plan:
    """Check the system and the controls, and estimate memory."""
    deck = loaded.deck
    slots = deck.time.slots
    try:
        made = loaded.once(nominal_model)
    except InvalidSystem as problem:
        return _refused(list(problem.findings), slots)
    except InvalidInput as problem:
        return _refused([Finding(problem.key, str(problem))], slots)
    findings = list(_order(deck, made))
    lindblad = _lindblad(deck, made)
    if lindblad and made.dimension > MOST_LEVELS:
        text = f"{made.dimension} levels; density matrices are carried for at most {MOST_LEVELS}: use dissipation: none"
        findings.append(Finding("dissipation", text))
        return _refused(findings, slots)
    columns = 1
    try:
        start, _ = cost_of(made, lindblad)
        columns = start.shape[1]
        if not findings:
            _controls(deck, made, 0)
    except InvalidInput as problem:
        findings.append(Finding(problem.key, str(problem)))
    rows = made.dimension**2 if lindblad else made.dimension
    products = 4.0 * rows * columns * TERMS * slots
    return Plan(
        # the trajectory, and the powers of one slot
        memory=Memory(
            host=16 * rows * columns * (2 * slots + 2 * TERMS),
            parts={"trajectory": 16 * rows * columns * slots},
            reduce="time.slots",
        ),
        sizes={
            "levels": made.dimension,
            "columns": columns,
            "controls": len(made.controls),
            "jumps": len(made.jumps),
            "slots": slots,
        },
        steps=slots,
        findings=findings,
        size=Size(products, "products of a sweep", math.inf),
        operations=4.0 * products,
        reduce="time.slots",
        cpu_only=f"system: {deck.system.type}",
    )


def _refused(findings: list[Finding], slots: int) -> Plan:
    return Plan(steps=slots, findings=findings, size=Size(1.0, "products of a sweep", math.inf))


def _lindblad(deck: QuantumDeck, made: QuantumModel) -> bool:
    return deck.dissipation == "lindblad" or (deck.dissipation == "auto" and bool(made.jumps))


def _order(deck: QuantumDeck, made: QuantumModel) -> list[Finding]:
    """Return what is wrong with the names of the controls."""
    known = [c.name for c in made.controls]
    given = [c.name for c in deck.control]
    findings = [
        Finding(f"control.{i}.name", f"the system has no control '{name}'; it has {', '.join(known)}")
        for i, name in enumerate(given)
        if name not in known
    ]
    missing = [name for name in known if name not in given]
    if missing:
        findings.append(Finding("control", f"no entry for the control {', '.join(missing)} of the system"))
    return findings


def build(loaded: LoadedDeck[QuantumDeck]) -> QuantumProblem:
    """Return the problem of a deck that `plan` has accepted."""
    deck = loaded.deck
    made = loaded.once(nominal_model)
    slots = deck.time.slots
    duration = units_of(deck.system).time(deck.time.T, "time.T")
    lindblad = _lindblad(deck, made)
    controls, guess = _controls(deck, made, deck.run.seed or 0)
    warnings, notices = [], []
    if made.jumps and not lindblad:
        warnings.append("dissipation: none leaves out the jumps of the system; P is that of a closed one")
    if deck.dissipation == "auto" and lindblad:
        notices.append("dissipation: auto -> lindblad (the system has jumps)")
    search = deck.optimizer
    return QuantumProblem(
        system=deck.system,
        model=made,
        objective=SlotObjective(made, lindblad, duration, slots, deck.objective.alpha),
        controls=controls,
        guess=guess,
        times=midpoints(slots, duration),
        duration=duration,
        threshold=_threshold(deck, made),
        memory=search.memory if search.type == "lbfgs" else None,
        max_sweeps=search.max_sweeps if search.type == "lbfgs" else 1,
        verify=deck.verify,
        warnings=warnings,
        notices=notices,
    )


def _threshold(deck: QuantumDeck, made: QuantumModel) -> float:
    if deck.objective.threshold != "auto":
        return deck.objective.threshold
    return math.inf if isinstance(made.goal, ObservableTarget) else THRESHOLD


def _controls(deck: QuantumDeck, made: QuantumModel, seed: int) -> tuple[Controls, NDArray[np.float64]]:
    """Return the maps of all controls, in the order of the system, and their first values (C, N)."""
    duration = units_of(deck.system).time(deck.time.T, "time.T")
    times = midpoints(deck.time.slots, duration)
    place = {c.name: i for i, c in enumerate(deck.control)}
    maps, rows = [], []
    for number, term in enumerate(made.controls):
        i = place[term.name]
        block, key = deck.control[i], f"control.{i}"
        maps.append(_map(deck, block, key, times, duration))
        # a rotation by pi in T, for a control without bounds
        size = float(abs(term.operator).sum(axis=1).max(initial=0.0))
        natural = (math.pi / duration / size) ** (1.0 / term.power) if size > 0 else 1.0
        rows.append(_first(deck, block, key, maps[-1], _Clock(times, duration, natural, seed, number)))
    kept = [
        r if deck.control[place[t.name]].fixed else None for r, t in zip(rows, made.controls, strict=True)
    ]
    controls = Controls(maps, kept)
    guess = np.array(rows)
    return controls, controls.field(controls.parameters(guess))


class _Clock:
    """Times of the slots, and what the first values of one control depend on besides its block."""

    def __init__(
        self, times: NDArray[np.float64], duration: float, natural: float, seed: int, number: int
    ) -> None:
        self.times, self.duration, self.natural = times, duration, natural
        self.seed, self.number = seed, number


def _map(
    deck: QuantumDeck, block: QuantumControl, key: str, times: NDArray[np.float64], duration: float
) -> Parametrisation:
    units, slots = units_of(deck.system), times.size
    shape = np.ones(slots)
    if block.shape is not None:
        shape = block.shape.at(times, duration)
        if shape.min() < -1e-12 or shape.max() > 1 + 1e-12 or shape.max() <= 0:
            text = f"the shape must stay between 0 and 1; it runs from {np.min(shape):g} to {np.max(shape):g}"
            raise InvalidInput(f"{key}.shape", text)
        shape = np.clip(shape, 0.0, 1.0)
    low, high = np.full(slots, -np.inf), np.full(slots, np.inf)
    if block.bounds is not None:
        ends = [units.control(b, f"{key}.bounds") for b in block.bounds]
        if not ends[0] < ends[1]:
            raise InvalidInput(f"{key}.bounds", f"{ends[0]:g} must lie below {ends[1]:g}")
        if not ends[0] <= 0.0 <= ends[1]:
            raise InvalidInput(f"{key}.bounds", f"[{ends[0]:g}, {ends[1]:g}] must include zero")
        low[:], high[:] = ends
    return Parametrisation(shape, low, high, block.zero_area, _modes(deck, block, key, times, duration))


def _modes(
    deck: QuantumDeck, block: QuantumControl, key: str, times: NDArray[np.float64], duration: float
) -> NDArray[np.float64] | None:
    """Return orthonormal modes (modes, N) of the parameters; None for one per slot."""
    units, slots, choice = units_of(deck.system), times.size, block.parameters
    if choice.type == "constant":
        return constant_mode(slots)
    if choice.type == "bspline":
        if choice.count > slots:
            raise InvalidInput(f"{key}.parameters.count", f"{choice.count} splines on {slots} slots")
        return spline_modes(choice.count, slots)
    if choice.type == "sine":
        low, high = (units.frequency(b, f"{key}.parameters.band") for b in choice.band)
        spacing = math.pi / duration
        first, last = max(1, math.ceil(low / spacing)), min(slots, math.floor(high / spacing))
        if last < first:
            text = f"no sine mode of the pulse lies in the band; their spacing is {spacing / units.factor:g}"
            raise InvalidInput(f"{key}.parameters.band", text)
        n = np.arange(first, last + 1)
        return np.sqrt(2.0 / slots) * np.sin(np.pi / duration * np.outer(n, times))
    return None


def _first(
    deck: QuantumDeck, block: QuantumControl, key: str, made: Parametrisation, clock: _Clock
) -> NDArray[np.float64]:
    """Return the first values (N,) of one control, within its bounds."""
    guess, times, duration = block.guess, clock.times, clock.duration
    if guess.type == "expression":
        return (
            np.clip(
                formula(guess.value, f"{key}.guess.value", t=times, T=duration) * np.ones(times.size),
                made.low,
                made.high,
            )
            * made.shape
        )
    if guess.type == "zero":
        return np.zeros(times.size)
    units = units_of(deck.system)
    size = clock.natural
    if guess.amplitude != "auto":
        size = units.control(guess.amplitude, f"{key}.guess.amplitude")
    elif made.bounded:
        # a bound of zero leaves the other one
        sides = [s for s in (-float(made.low[0]), float(made.high[0])) if 0.0 < s < math.inf]
        size = 0.5 * min(sides)
    count = min(guess.modes, times.size)
    draws = rng.normal(rng.key_from_seed(clock.seed), STREAM + clock.number, 0, count)
    values = draws @ np.sin(np.pi / duration * np.outer(np.arange(1, count + 1), times))
    return np.clip(values * size / float(np.sqrt(np.mean(values**2))), made.low, made.high) * made.shape


def kind_of(made: QuantumModel) -> str:
    """Return the name of what is maximised: fidelity, observable or probability."""
    if isinstance(made.goal, GateTarget):
        return "fidelity"
    return "observable" if isinstance(made.goal, ObservableTarget) else "probability"
