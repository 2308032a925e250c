"""Steps of order 4: Suzuki's composition of five Crank-Nicolson steps, of whatever propagator makes these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.tdse.step_search import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.propagate.lattice import Lattice
    from qsim.tridiag.propagate.stepping.propagator import Propagator, Stepping
    from qsim.tridiag.solver.shared import Span

    Make = Callable[[Lattice, float, tuple[float, ...], Stepping], Propagator]

__all__ = ["Composed"]

OUTER, _, MIDDLE, _, _ = STAGES[4]
# midpoints of the stages in a step
PLACES = (0.5 * OUTER, 1.5 * OUTER, 1.0 - 1.5 * OUTER, 1.0 - 0.5 * OUTER)


class Composed:
    """A propagation by steps of order 4.

    ``S4(dt) = S(q dt)^2 S((1 - 4 q) dt) S(q dt)^2``, with the field at the midpoint of every stage.  The middle stage goes
    back in time, where an absorber would amplify: ``exp(-W dt / 2)`` before and after the five stages takes its place.

    Parameters
    ----------
    make
        Makes the propagator of stages: lattice, length of a stage in steps, midpoints of the stages in a step, and options.
    lattice : Lattice
    dt : float
        Time step, a.u.
    how : Stepping

    Attributes
    ----------
    psi : (n,) complex
        State on the device, as the propagators of the stages hold it.
    """

    def __init__(self, make: Make, lattice: Lattice, dt: float, how: Stepping) -> None:
        free = replace(lattice, cap=None)
        # the longer stage sets the chunks; with the same ones both hold the same points
        self.middle = make(free, MIDDLE, (0.5,), how)
        shape = getattr(self.middle, "shape", None)
        self.outer = make(free, OUTER, PLACES, replace(how, shape=shape) if shape else how)
        self.psi = self.outer.psi
        self._step, self._decay = 0, None
        if lattice.cap is not None:
            # of the points that this process holds
            low = 0 if self.span is None else self.span.low - self.outer.offset
            cap = lattice.cap[low : low + len(self.psi)]
            device = self.outer.device
            self._decay = device.asarray(np.exp(-0.5 * dt * cap), self.psi.real.dtype)

    @property
    def step(self) -> int:
        """Steps done; set it to continue a run."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step, self.middle.step, self.outer.step = step, step, 4 * step

    @property
    def span(self) -> Span | None:
        """Points that this process owns; None if it has all."""
        return self.outer.span

    @property
    def own(self) -> Any:
        """The part of the wavefunction that this process owns, on the device."""
        return self.outer.own

    def advance(self, steps: int, every: int) -> NDArray[np.float64]:
        """Make steps; return the sums as `Propagator.advance` does, (steps // every, 3)."""
        samples = []
        for number in range(1, steps + 1):
            self._absorb()
            for stages, count in ((self.outer, 2), (self.middle, 1), (self.outer, 2)):
                stages.psi = self.psi
                sums = stages.advance(count, count)[-1]
                self.psi = stages.psi
            self._absorb()
            self._step += 1
            if number % every == 0:
                samples.append(sums if self._decay is None else self.outer.sums())
        return np.array(samples).reshape(-1, 3)

    def _absorb(self) -> None:
        """Take what the absorber takes in half a step."""
        if self._decay is not None:
            self.psi *= self._decay

    def info(self) -> dict[str, Any]:
        """Return how the steps are done."""
        return self.outer.info() | {
            "algorithm": f"{self.outer.info()['algorithm']}, order 4",
            "steps_per_pass": 1,
        }
