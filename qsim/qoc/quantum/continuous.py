"""The controls as functions of time instead of values that are held in slots: what the slots leave of formulas and splines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.propagators.slots import generators

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem

__all__ = ["Continuous", "continuous_value"]

# Rows up to which a step is a dense exponential.
DENSE = 100
# Halvings of the steps, and the change of the value from which there are no more.
HALVINGS = 7
SMALL = 1e-9
# Multiply-adds of all exponentials that are spent.
MOST_OPERATIONS = 1e10
# Products of matrices in one exponential, roughly.
PRODUCTS = 12
# Numbers of the exponentials that are made together.
TOGETHER = 4e6


@dataclass(frozen=True)
class Continuous:
    """Value of the goal under the controls as functions of time.

    Attributes
    ----------
    value : float
    error : float
        Change by the last halving of the steps, of which a fourth-order method leaves a sixteenth, and rounding.
    """

    value: float
    error: float


def continuous_value(
    problem: QuantumProblem, controls: Controls, u: NDArray[np.float64], outcome: Outcome
) -> Continuous | None:
    """Return the value under the functions of time that the parameters mean; None if that takes too long.

    Magnus's expansion of fourth order at two Gauss points of each step, with steps halved from the slots on
    (Blanes, Casas, Oteo, Ros, Phys. Rep. 470, 151 (2009), Eq. 253). Of a search without jumps, their part is taken from the
    slots, and what the order without them changes by is part of the error.
    """
    objective, model = problem.objective, problem.model
    # Sampled histories have noise, which may hide what the slots leave.
    if outcome.sampling is not None:
        return None
    rows, slots = objective.start.shape[0], problem.times.size
    spent = PRODUCTS * float(rows) ** 3 * slots
    # The least work is one run on the slots and one on half slots, which is three parts.
    if rows > DENSE or 3.0 * spent > MOST_OPERATIONS:
        return None
    powers = np.array([c.power for c in model.controls])
    # (1 + C, rows, rows): the drift first, then one matrix per control.
    made = np.array([a.toarray() for a in generators(model, objective.lindblad, objective.lossy)])

    def value(steps: int) -> float:
        x = _magnus(made, powers, lambda t: controls.at(u, t), problem.duration, steps, objective.start)
        return objective.cost.value(x)

    before, steps = value(slots), slots
    # Steps begin at the slots, and each halving tells the error of the steps before it.
    change = np.inf
    for _ in range(HALVINGS):
        steps *= 2
        spent *= 2.0
        after = value(steps)
        change, before = abs(after - before), after
        if change < SMALL or 2.0 * spent > MOST_OPERATIONS:
            break
    # Rounding adds up over the steps, at a few units of the last place each.
    error = change + 1e-15 * steps
    if outcome.expansion is None:
        return Continuous(before, error)
    moved = before - outcome.expansion.zero
    return Continuous(outcome.value + moved, error + abs(moved))


def _magnus(
    matrices: ComplexArray,
    powers: NDArray[np.int64],
    at: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    duration: float,
    steps: int,
    x: ComplexArray,
) -> ComplexArray:
    """Return the columns at T: ``exp(h (A1 + A2)/2 + sqrt(3)/12 h^2 [A2, A1])`` step by step."""
    from scipy.linalg import expm

    h = duration / steps
    # Gauss points lie h sqrt(3)/6 before and behind the middle of a step.
    middles = (np.arange(steps) + 0.5) * h
    shift = h * np.sqrt(3.0) / 6.0
    first, second = (at(middles + sign * shift) ** powers[:, None] for sign in (-1.0, 1.0))
    # A batched exponential spares calls, and the batch bounds the memory.
    together = max(1, int(TOGETHER / matrices[0].size))
    for begin in range(0, steps, together):
        part = slice(begin, begin + together)
        a1, a2 = (matrices[0] + np.einsum("cn,cij->nij", f[:, part], matrices[1:]) for f in (first, second))
        omega = 0.5 * h * (a1 + a2) + np.sqrt(3.0) / 12.0 * h**2 * (a2 @ a1 - a1 @ a2)
        # The exponentials are independent, but the columns pass through them one after another.
        for step in expm(omega):
            x = step @ x
    return x
