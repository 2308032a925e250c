"""From a deck with a quantum system to its problem: matrices, controls, first values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.qoc.control.fields import midpoints
from qsim.qoc.control.making import Making, penalties
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.models.builders import model
from qsim.qoc.models.faults import InvalidSystem
from qsim.qoc.models.quantum import GateTarget, ObservableTarget
from qsim.qoc.objectives.amplitudes import refuse_without_amplitudes
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.quantum.problem import QuantumProblem

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.qoc.deck.quantum import QuantumDeck
    from qsim.qoc.models.quantum import QuantumModel

__all__ = ["build", "plan"]

# Levels up to which density matrices are columns of a sparse Lindbladian.
MOST_LEVELS = 32
# Terms of the series of a slot, roughly, for the count of operations.
TERMS = 12
# Threshold of `auto`.
THRESHOLD = 0.99


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
            _making(deck, made).start()
            if deck.optimizer.type == "gauss_newton":
                refuse_without_amplitudes(made, lindblad)
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
    making = _making(deck, made)
    controls, guess = making.start()
    warnings, notices = [], []
    if made.jumps and not lindblad:
        warnings.append("dissipation: none leaves out the jumps of the system; P is that of a closed one")
    if deck.dissipation == "auto" and lindblad:
        notices.append("dissipation: auto -> lindblad (the system has jumps)")
    search = deck.optimizer
    return QuantumProblem(
        system=deck.system,
        model=made,
        objective=SlotObjective(made, lindblad, duration, slots, penalties(deck, made.controls)),
        controls=controls,
        guess=guess,
        times=midpoints(slots, duration),
        duration=duration,
        threshold=_threshold(deck, made),
        making=making,
        optimizer=search,
        gradient_scale=_gradient_scale(deck, duration / slots),
        verify=deck.verify,
        warnings=warnings,
        notices=notices,
    )


def _making(deck: QuantumDeck, made: QuantumModel) -> Making:
    """Return what makes the controls; the paper's line search knows no box."""
    return Making(deck, made.controls, deck.run.seed or 0, soft=deck.optimizer.type == "travolta")


def _gradient_scale(deck: QuantumDeck, tau: float) -> float:
    """Return the factor of the gradient that a time step of the deck makes."""
    options = deck.optimizer
    if options.type != "travolta" or options.gradient_tau is None:
        return 1.0
    return units_of(deck.system).time(options.gradient_tau, "optimizer.gradient_tau") / tau


def _threshold(deck: QuantumDeck, made: QuantumModel) -> float:
    if deck.objective.threshold != "auto":
        return deck.objective.threshold
    return math.inf if isinstance(made.goal, ObservableTarget) else THRESHOLD


def kind_of(made: QuantumModel) -> str:
    """Return the name of what is maximised: fidelity, observable or probability."""
    if isinstance(made.goal, GateTarget):
        return "fidelity"
    return "observable" if isinstance(made.goal, ObservableTarget) else "probability"
