"""What no search of a deck can pass: bounds on its value, thresholds above them, slots too long for what controls drive."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import eye_array

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.objectives.bounds import Limits, limits_of
from qsim.qoc.propagators.slots import LONGEST, middle_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.qoc.control.controls import Controls
    from qsim.qoc.deck.quantum import QuantumDeck
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.quantum.dissipation import Dissipation
    from qsim.qoc.quantum.ensembles.members import Members


# Threshold of `auto`.
THRESHOLD = 0.99
# Rounding of a bound.
ROUNDING = 1e-12
# Slots in a period of a transition from which a search can follow it, where T has more than some periods.
SLOTS_PER_PERIOD, FEW_PERIODS = 4.0, 3.0
# Part of the largest element of a control from which a transition counts as driven.
STRONG = 0.1
# Largest value of a goal that nothing leads to.
NOTHING = 1e-24


def fastest(made: QuantumModel) -> float:
    """Return the largest angular frequency of a transition that a control drives strongly."""
    levels = made.drift.diagonal().real
    found = 0.0
    for control in made.controls:
        entries = control.operator.tocoo()
        # what a control does to levels alone drives nothing
        size = np.abs(entries.data) * (entries.row != entries.col)
        gaps = np.abs(levels[entries.row] - levels[entries.col])[size > STRONG * size.max(initial=0.0)]
        found = max(found, float(gaps.max(initial=0.0)))
    return found


def own_limits(deck: QuantumDeck, made: QuantumModel, controls: Controls, chosen: Dissipation) -> Limits:
    """Return what no search can pass."""
    low, high = controls.extent()
    return limits_of(made, duration_of(deck), low, high, closed=chosen.search == "closed")


def coarse_slots(deck: QuantumDeck, made: QuantumModel) -> Iterator[Finding]:
    """Yield a warning where slots that a search sets alone are too long for the transitions that the controls drive."""
    if deck.optimizer.type == "none":
        return
    highest = fastest(made)
    duration = duration_of(deck)
    periods = duration * highest / (2.0 * math.pi)
    slots = deck.time.count / periods if periods > FEW_PERIODS else math.inf
    if slots < SLOTS_PER_PERIOD:
        remedy = f"take at least {math.ceil(SLOTS_PER_PERIOD * periods)} slots"
        if isinstance(deck.system, ModelSystem) and deck.system.frame is None:
            frequency = units_of(deck.system).text(highest)
            remedy = f"give system.frame, such as {frequency}, so that controls are envelopes of a carrier, or {remedy}"
        text = f"{slots:.3g} slots per period of the fastest transition that a control drives ({periods:.4g} periods in T)"
        yield Finding("time.slots", f"{text}; {remedy}", "warning")


def limits_for(
    deck: QuantumDeck, made: QuantumModel, controls: Controls, chosen: Dissipation, members: Members | None
) -> Limits:
    """Return what no search can pass; of an ensemble what the best, or for the worst value the least, of its systems leaves.

    A mean is at most the largest bound of its members, a smallest value at most the smallest one. Of many systems some are looked
    at, so that of a mean the first-order estimate alone is told.
    """
    if members is None:
        return own_limits(deck, made, controls, chosen)
    assert deck.ensemble is not None
    worst, numbers = deck.ensemble.measure == "worst", members.ends()
    scale, closed = members.scale(slice(None)), chosen.search == "closed"
    found = []
    for number in numbers:
        # Members of one system differ by factors of the controls: the widest bounds hold for all of them.
        own = scale[members.system_of == number]
        ends = np.array([np.where(np.isfinite(x), x * own, x) for x in controls.extent()])
        low, high = ends.min(axis=(0, 1)), ends.max(axis=(0, 1))
        found.append(limits_of(members.model(number), duration_of(deck), low, high, closed=closed))
    every = worst or len(numbers) == np.unique(members.system_of).size

    def together(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if not known or (len(known) < len(values) and not worst):
            return None
        return min(known) if worst else max(known)

    names = [one.name for one in fields(Limits) if every or one.name == "coherence"]
    return Limits(**{name: together([getattr(bounds, name) for bounds in found]) for name in names})


def out_of_reach(deck: QuantumDeck, made: QuantumModel, limits: Limits) -> Iterator[Finding]:
    """Yield the bounds that the threshold exceeds."""
    threshold = threshold_of(deck, made)
    if not math.isfinite(threshold) or deck.optimizer.type == "none":
        return
    key, told = "objective.threshold", f"the threshold {threshold:g} is above"
    if limits.connection is not None and limits.connection < NOTHING:
        text = "no control, coupling or jump leads from the start to the goal: the value is 0 whatever the controls"
        yield Finding("system.controls", text)
    elif limits.connection is not None and threshold > limits.connection + ROUNDING:
        text = f"{told} {limits.connection:.6g}, the most where parts of the space are connected by no control or coupling"
        yield Finding(key, text, "warning")
    if limits.mixture is not None and threshold > limits.mixture + ROUNDING:
        text = f"{told} {limits.mixture:.6g}, the most that unitary motion can make of this mixture"
        yield Finding(key, text, "warning")
    if limits.speed is not None and threshold > limits.speed + ROUNDING:
        text = f"{told} {limits.speed:.6g}, the most that controls within their bounds reach in this time (Mandelstam-Tamm)"
        yield Finding("time.T", text, "warning")
    if limits.coherence is not None and threshold > limits.coherence + ROUNDING:
        text = f"{told} {limits.coherence:.6g}, the first-order estimate of what the jumps leave of the gate in this time"
        yield Finding(key, text + _bare_times(deck), "warning")


def _bare_times(deck: QuantumDeck) -> str:
    """Return what bare lifetimes are read as, for the message that they are short; "" without any."""
    unit = units_of(deck.system).of_times
    parts = deck.system.parts if unit and isinstance(deck.system, ModelSystem) else ()
    for part in parts:
        for name in ("T1", "T2", "Tphi"):
            value = getattr(part, name, None)
            if isinstance(value, int | float):
                return f"; {name}: {value:g} without a unit is {value:g}{unit}, other units are written: '{value:g} us'"
    return ""


def duration_of(deck: QuantumDeck) -> float:
    """Return T in the unit of time of the system."""
    return units_of(deck.system).time(deck.time.T, "time.T")


def threshold_of(deck: QuantumDeck, made: QuantumModel) -> float:
    """Return P that ends the search; infinite for none."""
    if deck.objective.threshold != "auto":
        return deck.objective.threshold
    # A mean value may have any size, so no threshold suits it.
    return math.inf if made.measured else THRESHOLD


# Elements whose squares and products stay within double precision.
LARGEST = 1e100
# Below this a control is as good as none, and what it takes for a turn is beyond double precision.
LEAST = 1e-100
# Parts of all slots that a propagation may have: hours to days of a core.
MOST_PARTS = 1e9


def require_computable(model: QuantumModel, duration: float, guess: NDArray[np.float64]) -> None:
    """Refuse matrices and durations that cannot be computed with.

    Parameters
    ----------
    model : QuantumModel
    duration : float
    guess : (C, N) float64
        First values of the controls.

    Raises
    ------
    InvalidInput
        Naming the matrix and its largest element, or what makes the parts of the slots so many.
    """
    for name, matrix in _named(model):
        _require_elements(name, matrix, least=LEAST if name.startswith("the control") else 0.0)
    sizes = {"H0": _norm(model.drift - middle_of(model.drift) * eye_array(model.dimension))}
    for control, values in zip(model.controls, guess, strict=True):
        sizes[f"the control {control.name}"] = _norm(control.operator) * np.abs(values).max() ** control.power
    for jump in model.jumps:
        sizes[f"the jump {jump.name}"] = _norm(jump.operator) ** 2
    parts = sum(sizes.values()) * duration / LONGEST
    if math.isfinite(parts) and parts <= MOST_PARTS:
        return
    worst = max(sizes, key=lambda name: sizes[name])
    raise InvalidInput(
        "time.T",
        f"{worst} has the norm {sizes[worst]:.3g} per unit of time: {sizes[worst] * duration:.3g} in T, so that the slots need "
        f"{parts:.2g} parts, at most {MOST_PARTS:.0e}; lower T or {worst}, or choose a frame in which it is small",
    )


def _named(model: QuantumModel) -> Iterator[tuple[str, csr_array]]:
    """Yield the matrices of a model by the names of messages."""
    yield "H0", model.drift
    yield from ((f"the control {control.name}", control.operator) for control in model.controls)
    yield from ((f"the jump {jump.name}", jump.operator) for jump in model.jumps)


def _require_elements(name: str, matrix: csr_array, least: float) -> None:
    """Refuse a matrix by its largest element.

    Raises
    ------
    InvalidInput
        Naming the element.
    """
    entries = matrix.tocoo()
    if entries.nnz == 0:
        return
    sizes = np.maximum(np.abs(entries.data.real), np.abs(entries.data.imag))
    worst = int(np.argmax(sizes))
    if least <= sizes[worst] <= LARGEST:
        return
    row, column = (int(k[worst]) for k in entries.coords)
    beyond = f"beyond {LARGEST:.0e}" if sizes[worst] > LARGEST else f"below {least:.0e}"
    raise InvalidInput(
        "system",
        f"the largest element of {name}, at ({row}, {column}), is {sizes[worst]:.3g}, {beyond}; rescale the units",
    )


def _norm(matrix: csr_array) -> float:
    """Return the norm by rows."""
    return float(abs(matrix).sum(axis=1).max(initial=0.0))
