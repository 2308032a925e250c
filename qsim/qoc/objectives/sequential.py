"""Krotov's update of a quantum system: one slot after another, with the exact derivative of each (Eq. Q15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.propagators.slots import Slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.control.controls import Controls


@dataclass(frozen=True)
class SlotRun:
    """Result of a forward sweep: the columns (D, S) at T, and how far a norm is off."""

    final: ComplexArray
    norm_error: float


class SlotSteps:
    """Sweeps of any quantum system for Krotov's method.

    In slot n the derivative ``dP/du_c`` is taken between the columns under the new controls and the costates under the old
    ones; ``u_c <- u_c + S/lambda (dP/du_c / tau - 2 alpha_c u_c)``, clipped to the bounds.

    Parameters
    ----------
    objective : SlotObjective
    """

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        # A+ carries costates from the end of a slot to its start
        self.back = Slots(objective.model, objective.motion, adjoint=True)

    def forward(self, fields: NDArray[np.float64]) -> SlotRun:
        """Propagate controls (C, N)."""
        objective = self.objective
        final, _ = objective.propagator.forward(fields, objective.start)
        return SlotRun(final, objective.norm_change(final))

    def values(self, run: SlotRun, fields: NDArray[np.float64]) -> tuple[float, float]:
        """Return P and J of controls that were propagated."""
        p = self.objective.cost.value(run.final)
        return p, p - self.objective.penalty(fields)

    def update(
        self, fields: NDArray[np.float64], run: SlotRun, gain: NDArray[np.float64], control: Controls
    ) -> NDArray[np.float64]:
        """Return the controls (C, N) after one backward and one updating forward sweep."""
        objective, propagator = self.objective, self.objective.propagator
        ends = self._costates(fields, run)
        new, x = fields.copy(), objective.start
        low, high, alpha = control.low, control.high, objective.alpha[:, 0]
        for n, costate in enumerate(ends):
            # the state has already passed all earlier slots under their new controls
            old = np.ascontiguousarray(fields[:, n : n + 1])
            _, trajectory = propagator.forward(old, x)
            slope = propagator.gradient(old, trajectory, costate)[:, 0]
            moved = old[:, 0] + gain[:, n] * (slope / objective.tau - 2.0 * alpha * old[:, 0])
            # a control that is fixed has no gain, and need not lie within its bounds
            moved = np.where(gain[:, n] > 0.0, np.clip(moved, low[:, n], high[:, n]), old[:, 0])
            new[:, n] = moved
            x, _ = propagator.forward(np.ascontiguousarray(new[:, n : n + 1]), x)
        return new

    def _costates(self, fields: NDArray[np.float64], run: SlotRun) -> list[ComplexArray]:
        """Return the costates (D, S) at the end of every slot under the old controls."""
        costate = self.objective.cost.derivative(run.final)
        ends = [costate]
        for n in range(fields.shape[1] - 1, 0, -1):
            costate, _ = self.back.forward(np.ascontiguousarray(fields[:, n : n + 1]), costate)
            ends.append(costate)
        # collected from T backwards, but used from time 0 forwards
        return ends[::-1]
