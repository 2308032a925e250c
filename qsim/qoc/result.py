"""Result of a run, and the quantities that every result has: names, units and meanings in the results file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qsim.core.results.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.problem import Problem

    Pair: TypeAlias = tuple[float | None, float | None]

# Unit of electric fields and of their times.
ATOMIC = "a.u."
# What the page of quantities says of a unit that follows that of the deck.
UNIT = "unit of the deck"
MEANINGS = {
    "probability": "probability of the goal at T",
    "fidelity": "average fidelity of the gate over all states of the logical space",
    "fidelity_process": "process fidelity of the gate",
    "observable": "mean value of the observable at T",
    "functional": "formula of mean values and overlaps at T",
    "closeness": "1 - ||rho - sigma||^2/2 of the density matrix at T and that of the goal",
    "goals": "weighted mean of the values of all goals",
}


@dataclass(kw_only=True)
class Result:
    """Result of a run.

    Attributes
    ----------
    problem : Problem
    kind : str
        What was maximised: a key of `MEANINGS`.
    fields : (C, N) float64
        Final controls.
    populations : (n, D) float64
        At the end of every `stride`-th slot.
    stride : int
    sweeps, iterations : int
    reached : bool
        Whether the threshold was reached.
    reason : str
        Why the search ended.
    value : float
        Value of the goal.
    error : float or None
        Claimed error of the value; None if none is claimed.
    first : (float, float or None)
        Value of the first controls, and its claimed error.
    verified : (float, float or None) or None
        Value by another propagator, and its claimed error; None where nothing was verified.
    continuous : (float, float or None) or None
        Value under the controls as functions of time, and its claimed error; None where they are not followed.
    charges : float
        What J subtracts from the value.
    norm_error : float
        Largest change of a norm or trace.
    parts : dict
        Parts of the error of the value by their names in the file.
    history, extra : dict of arrays
        What the search and its optimiser leave.
    """

    problem: Problem
    kind: str
    fields: NDArray[np.float64]
    populations: NDArray[np.float64]
    stride: int
    sweeps: int
    iterations: int
    reached: bool
    reason: str
    value: float
    error: float | None
    first: Pair
    verified: Pair | None
    continuous: Pair | None
    charges: float
    norm_error: float
    parts: dict[str, float]
    history: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    extra: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def objective(self) -> float:
        """J."""
        return self.value - self.charges


# ---------------------------------------------------------------------------------------------- units of the deck
def of_controls(result: Result) -> str:
    """Return the unit of a control: that of the system, or of an electric field."""
    return result.problem.units[0]


def of_times(result: Result) -> str:
    """Return the unit of times."""
    return result.problem.units[1]


def of_frequencies(result: Result) -> str:
    """Return the unit of angular frequencies."""
    time = of_times(result)
    return "hartree" if time == ATOMIC else time and f"1/{time}"


def of_areas(result: Result) -> str:
    """Return the unit of a control times a time."""
    return _product(result, "")


def of_fluences(result: Result) -> str:
    """Return the unit of the square of a control times a time."""
    return _product(result, "^2")


def _product(result: Result, power: str) -> str:
    """Return a power of the unit of a control times that of a time; empty where the control's is no single word, as cm-1."""
    control, time = result.problem.units
    if control == ATOMIC:
        return ATOMIC
    return f"{control}{power} {time}" if control.isalpha() else ""


# ---------------------------------------------------------------------------------------------- quantities
def _of(name: str, part: Callable[[Result], Pair | None], place: int) -> Callable[[Result], float | None]:
    """Return the function for a number of a pair, of results whose value is of a kind."""

    def number(result: Result) -> float | None:
        pair = part(result) if result.kind == name else None
        return None if pair is None else pair[place]

    return number


def _with(name: str, part: Callable[[Result], Pair | None]) -> Callable[[Result], bool]:
    return lambda result: result.kind == name and part(result) is not None


BESIDE: tuple[tuple[str, str, Callable[[Result], Pair | None]], ...] = (
    ("verified", "by another algorithm", lambda r: r.verified),
    (
        "continuous",
        "of the formulas and functions themselves instead of values that are held in slots",
        lambda r: r.continuous,
    ),
    ("guess", "of the first values", lambda r: r.first),
)
# The value once more, of every kind.
CHECKED: tuple[Quantity[Result], ...] = tuple(
    Quantity(
        f"{name}_{what}",
        "",
        f"{text}, {beside}",
        _of(name, part, 0),
        error=_of(name, part, 1),
        when=_with(name, part),
        headline=what == "verified",
    )
    for name, text in MEANINGS.items()
    for what, beside, part in BESIDE
)
OBJECTIVE: Quantity[Result] = Quantity(
    "objective",
    "",
    "J, the value less alpha times the fluence, leakage_weight times the leakage, and the running mean",
    lambda r: r.objective,
    error=lambda r: r.error,
)
FLUENCE: Quantity[Result] = Quantity(
    "fluence",
    UNIT,
    "integral of the sum of u^2, in the units of the system",
    lambda r: float(np.sum(r.fields**2)) * r.problem.objective.tau,
    headline=True,
    exact=True,
    unit_of=of_fluences,
)
# What the search says of itself.
SEARCH: tuple[Quantity[Result], ...] = (
    Quantity("sweeps", "", "forward and backward propagations", lambda r: r.sweeps, headline=True),
    Quantity("iterations", "", "iterations of the optimiser", lambda r: r.iterations, headline=True),
    Quantity("threshold_reached", "", "whether the threshold was reached", lambda r: r.reached),
    Quantity("stop_reason", "", "why the optimiser stopped", lambda r: r.reason),
    Quantity("norm_error", "", "largest change of a norm or trace", lambda r: r.norm_error, headline=True),
)
# Of the slots: distance from the value of the functions themselves, a part where the deck gives functions of time.
ERRORS: Quantity[Result] = Quantity("error_*", "", "part of the error of the value: *", lambda r: r.parts)


def _history(name: str) -> Callable[[Result], object]:
    return lambda result: result.history.get(name)


COLUMNS = {
    "sweeps": ("", "propagations so far"),
    "probability": ("", "value of the goal; without a jump where the search is"),
    "objective": ("", "objective J"),
    "fluence": (UNIT, "integral of the sum of u^2"),
    "gradient_norm": ("", "norm of dJ/du"),
    "seconds": ("s", "wall time since the start"),
}
TIME: Quantity[Result] = Quantity(
    "time", UNIT, "middles of the slots", lambda r: r.problem.times, ("time",), unit_of=of_times
)
HISTORY: tuple[Quantity[Result], ...] = tuple(
    Quantity(
        f"history/{name}",
        unit,
        text,
        _history(name),
        ("evaluation",),
        unit_of=of_fluences if name == "fluence" else None,
    )
    for name, (unit, text) in COLUMNS.items()
)
