"""The paper's optimiser: gradient ascent with a growing sequence and a bisection (Algorithm 1, Eqs. 7, 9, 10).

Every empirical constant is an option.  Two remarks that the paper does not make: the zero field is a critical point, so the
first gradient is roundoff (or the stated noise) and gamma scales as 1/sqrt(P0); and with ``derivative: difference`` the step
1e-4 is below the spacing of doubles once gamma exceeds 1e12, so the bisection then always keeps the right half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qoc.optimizers.search import Finished

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.deck.model import Travolta
    from qsim.qoc.optimizers.search import Search

SMALLEST = float(np.finfo(float).eps)  # left end of the bisection, as in the ancestor code
CUDA_CANDIDATES = 128  # gammas tried in one batch on a GPU


def travolta(search: Search, field: NDArray[np.float64], options: Travolta) -> None:
    """Run the paper's Algorithm 1 from a field (N,) and record every iteration in ``search``."""
    objective = search.objective
    scale = 1.0 if options.gradient_tau is None else options.gradient_tau / objective.tau
    if search.monitor.restored is not None and search.monitor.restored.get("kind") == "travolta":
        search.restore(search.monitor.restored)
        field = search.monitor.restored["current"]
    batch = CUDA_CANDIDATES if objective.propagator.device.is_cuda else 1

    while True:
        at_start = {"kind": "travolta", "current": field, **search.state()}

        def state(saved: dict[str, Any] = at_start) -> dict[str, Any]:
            return saved

        result = objective.evaluate(field)
        if search.iterations == 0 and options.max_iterations > 0:
            search.refuse_critical_point(result.gradient, result.probability)
        search.record(
            field, result.probability, result.objective, float(np.linalg.norm(result.gradient)), state
        )
        if search.iterations >= options.max_iterations:
            search.reason = f"limit of {options.max_iterations} iterations reached"
            return
        beta = amplification(result.probability, options)
        direction = beta * scale * result.gradient

        def probe(
            gammas: NDArray[np.float64], f: Any = field, d: Any = direction, s: Any = state
        ) -> NDArray[np.float64]:
            search.monitor.poll(s)
            if objective.sweeps >= search.max_sweeps:
                search.reason = f"limit of {search.max_sweeps} sweeps reached"
                raise Finished
            return objective.values(f + gammas[:, None] * d)[1]

        gammas, values = grow(probe, result.objective, options, batch, objective)

        def slope(gamma: float, f: Any = field, d: Any = direction, p: Any = probe) -> float:
            if options.derivative == "exact":
                return -float(objective.evaluate(f + gamma * d).gradient @ d)
            h = options.derivative_step
            up, down = p(np.array([gamma + h, gamma - h]))
            return -float(up - down) / (2.0 * h)

        gamma, middles = bisect(slope, gammas[-1], options.bisection_tolerance)
        if search.iterations == 0:
            search.extra["line_search/gamma"] = gammas
            search.extra["line_search/objective"] = values
            search.extra["line_search/bisection"] = middles
        search.extra.setdefault("history/gamma", []).append(gamma)
        search.extra.setdefault("history/beta", []).append(beta)
        search.extra.setdefault("history/line_search_evaluations", []).append(float(len(gammas)))
        field = field + gamma * direction
        search.iterations += 1


def amplification(probability: float, options: Travolta) -> float:
    """Return beta of Eq. (10): ``factor / sqrt(P)`` below the threshold, else 1."""
    if not options.amplified or probability >= options.amplify_below or probability <= 0.0:
        return 1.0
    return options.amplify_factor / float(np.sqrt(probability))


def grow(
    probe: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    start: float,
    options: Travolta,
    batch: int,
    objective: Any,
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
        else:  # also when the difference is exactly zero: the paper's wrong answer comes from here
            left, at_left = middles[-1], at_middle
        middles.append(0.5 * (left + right))
        at_middle = slope(middles[-1])
    return middles[-1], middles
