"""What all costs of final columns X (D, S) have, ``dJ = 2 Re sum conj(dJ/dX*) dX``, and formulas of mean values and overlaps.

``J = F(<O_1>, ..., Re <f_1|x>, Im <f_1|x>, ...)`` (Eq. Q30).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.expression import Expression
from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import formula_slope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray as Columns
    from qsim.qoc.models.quantum import FunctionalTarget, QuantumModel


class Cost(ABC):
    """A real function of the final columns."""

    @abstractmethod
    def value(self, x: Columns) -> float:
        """Return J."""

    @abstractmethod
    def derivative(self, x: Columns) -> Columns:
        """Return dJ/dX* (D, S)."""

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return J (n,) of columns (n, D, S)."""
        return np.array([self.value(x) for x in stack])

    @property
    def free(self) -> int:
        """Number k of phases that do not count."""
        return 0

    def phases(self, x: Columns) -> NDArray[np.float64]:
        """Return the best phases (k,) of final columns."""
        return np.zeros(0)

    def at(self, phases: NDArray[np.float64]) -> Cost:
        """Return the cost with given phases: a quadratic form; itself where none are free."""
        return self

    def frozen(self, x: Columns) -> Cost:
        """Return the cost with the phases that are best for columns."""
        return self.at(self.phases(x))


KEY = "system.target.formula"
# Points of the ranges of all numbers at which a formula and its slopes are looked at.
POINTS = 64


@dataclass(frozen=True)
class Functional(Cost):
    """Value of the formula, and its derivative by the chain rule.

    Attributes
    ----------
    formula : str
        F, of the names of `operators`, and of NAME_re and NAME_im for each of `overlaps`.
    operators : mapping of (D, D) complex128
        Hermitian.
    overlaps : mapping of (D,) complex128
        States f, of kets alone.
    weights : (S,) float64 or None
        Of kets as columns; None: the only column is rho, row by row.
    """

    formula: str
    operators: Mapping[str, Columns]
    overlaps: Mapping[str, Columns]
    weights: NDArray[np.float64] | None

    def numbers(self, x: Columns) -> dict[str, float]:
        """Return the mean values and the parts of the overlaps by name."""
        # a quadratic form of kets, a linear one of a density matrix
        twice = 1.0 if self.weights is not None else 2.0
        found = {
            name: twice * float(np.vdot(x, self._slope(operator, x)).real)
            for name, operator in self.operators.items()
        }
        for name, state in self.overlaps.items():
            overlap = complex(np.vdot(state, x[:, 0]))
            found |= {f"{name}_re": overlap.real, f"{name}_im": overlap.imag}
        return found

    def _slope(self, operator: Columns, x: Columns) -> Columns:
        """Return ``d<O>/dX*``."""
        if self.weights is None:
            return 0.5 * operator.reshape(-1, 1)
        return np.asarray((operator @ x) * self.weights)

    def value(self, x: Columns) -> float:
        """Return J."""
        numbers = self.numbers(x)
        return float(Expression(self.formula, tuple(numbers))(**{k: np.array(v) for k, v in numbers.items()}))

    def derivative(self, x: Columns) -> Columns:
        """Return ``sum_k dF/dm_k dm_k/dX*``; ``Re <f|x>`` has f/2, ``Im <f|x>`` i f/2."""
        numbers = self.numbers(x)
        slopes = _slopes(self.formula, numbers)
        total = np.zeros(x.shape, complex)
        for name, operator in self.operators.items():
            total += slopes[name] * self._slope(operator, x)
        for name, state in self.overlaps.items():
            total[:, 0] += 0.5 * (slopes[f"{name}_re"] + 1j * slopes[f"{name}_im"]) * state
        return total


def _slopes(formula: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the derivatives of a formula by all of its names."""
    return {name: float(formula_slope(formula, KEY, name, **numbers)) for name in numbers}


def functional_cost(
    model: QuantumModel, goal: FunctionalTarget, lindblad: bool
) -> tuple[Columns, Functional]:
    """Return the columns at t = 0 and the cost of those at T.

    Raises
    ------
    InvalidInput
        If overlaps are asked for with jumps, or of a mixture.
    """
    operators = {name: one.toarray() for name, one in goal.operators.items()}
    if goal.overlaps and lindblad:
        raise InvalidInput(
            "dissipation", "the phase of an overlap is lost with jumps; give observables, or none"
        )
    if goal.overlaps and model.weights.size > 1:
        raise InvalidInput("system.initial", "an overlap needs one start, not a mixture; give observables")
    if lindblad:
        mean = (model.states * model.weights) @ model.states.conj().T
        return mean.reshape(-1, 1), Functional(goal.formula, operators, {}, None)
    return model.states, Functional(goal.formula, operators, goal.overlaps, model.weights)


def range_of(goal: FunctionalTarget) -> tuple[float, float, float]:
    """Return the least and the largest value that were seen, and the largest ``sum_k |dF/dm_k| ||O_k||``: an estimate.

    Mean values lie between the extreme eigenvalues, overlaps in the unit circle; points of these ranges, with their corners.
    """
    low, high = [], []
    for one in goal.operators.values():
        values = np.linalg.eigvalsh(one.toarray())
        low.append(float(values[0]))
        high.append(float(values[-1]))
    low += [-1.0] * (2 * len(goal.overlaps))
    high += [1.0] * (2 * len(goal.overlaps))
    # the same points every time; powers above 1 move them to the ends
    shares = np.random.default_rng(1).beta(0.3, 0.3, (POINTS, len(low)))
    points = np.array(low) + shares * (np.array(high) - np.array(low))
    sizes = np.maximum(np.abs(low), np.abs(high))
    found, slopes = [], []
    for row in points:
        numbers = dict(zip(goal.names, row.tolist(), strict=True))
        try:
            found.append(
                float(Expression(goal.formula, goal.names)(**{k: np.array(v) for k, v in numbers.items()}))
            )
            slopes.append(float(np.abs(list(_slopes(goal.formula, numbers).values())) @ sizes))
        except (ArithmeticError, InvalidInput, ValueError):
            # outside of where the formula means something
            continue
    return min(found, default=0.0), max(found, default=1.0), max(slopes, default=1.0)
