"""The paper's optimiser: gradient ascent with a growing sequence and a bisection (Algorithm 1, Eqs. 7, 9, 10).

Every empirical constant is an option.  Two remarks that the paper does not make: the zero field is a critical point, so the
first gradient is roundoff (or the stated noise) and gamma scales as 1/sqrt(P0); and with ``derivative: difference`` the step
1e-4 is below the spacing of doubles once gamma exceeds 1e12, so the bisection then always keeps the right half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.qoc.deck.optimizers import Optimizer
    from qsim.qoc.deck.optimizers import Travolta as Options
    from qsim.qoc.deck.systems.quantities import Units
    from qsim.qoc.optimizers.search import Aim, Search

# Left end of the bisection, as in the ancestor code.
SMALLEST = float(np.finfo(float).eps)
# Gammas tried in one batch on a GPU.
CUDA_CANDIDATES = 128


class Travolta:
    """The paper's Algorithm 1, in the space of the free parameters.

    Parameters
    ----------
    search : Search
    u : (size,) float64
        First parameters: of a field without constraints the field itself, a.u.
    options : Travolta
        Block of the deck.
    scale : float
        Factor of the gradient: the paper's time step over the run's own.
    batch : int
        Gammas that are tried together.
    saved : mapping, optional
        State to continue from; `u` is then taken from it.
    """

    kind = "travolta"

    def __init__(
        self,
        search: Search,
        u: NDArray[np.float64],
        options: Options,
        saved: Mapping[str, Any] | None = None,
        *,
        scale: float = 1.0,
        batch: int = 1,
    ) -> None:
        self.search = search
        self.u = u
        self.options = options
        self.scale, self.batch = scale, batch
        # of earlier starts of the same search
        self.before = search.iterations
        if saved is not None:
            search.restore(saved)
            self.u = saved["current"]
            self.before = int(saved["before"])
        self._at_start: dict[str, object] = {}

    def state(self) -> State:
        """Return the field at the start of the iteration, which is repeated as a whole."""
        return self._at_start

    def advance(self, report: Report) -> None:
        """Iterate until the threshold or a limit is reached."""
        search, options = self.search, self.options
        objective, control = search.objective, search.control
        while True:
            done = search.iterations - self.before
            self._at_start = {"kind": self.kind, "current": self.u, "before": self.before, **search.state()}
            field, search.at = control.field(self.u), self.u
            result = objective.evaluate(field)
            if done == 0 and options.max_iterations > 0:
                search.refuse_critical_point(result.gradient, result.probability)
            norm = float(np.linalg.norm(result.gradient))
            search.record(report, field, result.probability, result.objective, norm)
            if done >= options.max_iterations:
                search.reason = f"limit of {options.max_iterations} iterations reached"
                return
            # direction: the gradient, amplified where P is small, Eq. (10); in units of the paper's time step if
            # that is given
            beta = amplification(result.probability, options)
            gradient = control.pull_back(self.u, result.gradient)
            line = _Line(self, report, beta * self.scale * gradient)
            # a growing sequence of gamma until J falls, Eq. (9), then bisection of its slope
            gammas, values = grow(line.values, result.objective, options, self.batch, objective)
            gamma, middles = bisect(line.slope, gammas[-1], options.bisection_tolerance)
            if done == 0:
                search.extra["line_search/gamma"] = gammas
                search.extra["line_search/objective"] = values
                search.extra["line_search/bisection"] = middles
            search.extra.setdefault("history/gamma", []).append(gamma)
            search.extra.setdefault("history/beta", []).append(beta)
            search.extra.setdefault("history/line_search_evaluations", []).append(float(len(gammas)))
            self.u = self.u + gamma * line.direction
            search.iterations += 1


class _Line:
    """J along ``u + gamma d``; each look at it is a point at which the run can stop."""

    def __init__(self, owner: Travolta, report: Report, direction: NDArray[np.float64]) -> None:
        self.owner = owner
        self.report = report
        self.direction = direction

    def values(self, gammas: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J at some gammas."""
        self.report(Progress())
        self.owner.search.refuse_more_than_allowed()
        search = self.owner.search
        points = self.owner.u + gammas[:, None] * self.direction
        fields = np.array([search.control.field(u) for u in points])
        if search.objective.batched:
            return search.objective.values(fields)[1]
        return np.concatenate([search.objective.values(field)[1] for field in fields])

    def slope(self, gamma: float) -> float:
        """Return the derivative of -J, exact or by a difference."""
        options = self.owner.options
        if options.derivative == "exact":
            search, u = self.owner.search, self.owner.u + gamma * self.direction
            gradient = search.objective.evaluate(search.control.field(u)).gradient
            return -float(search.control.pull_back(u, gradient) @ self.direction)
        h = options.derivative_step
        up, down = self.values(np.array([gamma + h, gamma - h]))
        return -float(up - down) / (2.0 * h)


def candidates(is_cuda: bool) -> int:
    """Return how many gammas are tried together."""
    return CUDA_CANDIDATES if is_cuda else 1


def gradient_scale(options: Optimizer, units: Units, tau: float) -> float:
    """Return the factor of the gradient that a time step of the deck makes in place of the run's own, `tau`."""
    if options.type != "travolta" or options.gradient_tau is None:
        return 1.0
    return units.time(options.gradient_tau, "optimizer.gradient_tau") / tau


def amplification(probability: float, options: Options) -> float:
    """Return beta of Eq. (10): ``factor / sqrt(P)`` below the threshold, else 1."""
    if not options.amplified or probability >= options.amplify_below or probability <= 0.0:
        return 1.0
    return options.amplify_factor / float(np.sqrt(probability))


def grow(
    probe: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    start: float,
    options: Options,
    batch: int,
    objective: Aim,
) -> tuple[list[float], list[float]]:
    """Return the increasing sequence of Eq. (9) and J at each gamma, up to the first strict decrease or the threshold.

    ``batch`` gammas are evaluated together; the sequence, and the sweeps counted, are those of one at a time.
    """
    gammas, values = [0.0], [start]
    upcoming = options.gamma_start
    while True:
        block: list[float] = []
        while len(block) < batch and (not block or block[-1] <= options.gamma_max):
            block.append(upcoming)
            upcoming = (upcoming + options.gamma_add) * options.gamma_mul
        for used, (gamma, value) in enumerate(zip(block, probe(np.array(block)), strict=True), 1):
            gammas.append(gamma)
            values.append(float(value))
            if values[-1] < values[-2] or (gamma > options.gamma_max and len(gammas) > 2):
                # the rest of the batch would not have run one gamma at a time
                objective.sweeps -= len(block) - used
                return gammas, values


def bisect(slope: Callable[[float], float], right: float, tolerance: float) -> tuple[float, list[float]]:
    """Return the midpoint at which the derivative of -J changes sign, and all midpoints tried."""
    left, at_left = SMALLEST, slope(SMALLEST)
    middles = [0.5 * (left + right)]
    at_middle = slope(middles[-1])
    while abs(right - left) / middles[-1] > tolerance:
        if at_middle * at_left < 0:
            right = middles[-1]
        else:
            # also when the difference is exactly zero: the paper's wrong answer comes from here
            left, at_left = middles[-1], at_middle
        middles.append(0.5 * (left + right))
        at_middle = slope(middles[-1])
    return middles[-1], middles
