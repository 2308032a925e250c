"""The paper's line search: all gammas of a sequence in one launch against one after another."""

from __future__ import annotations

import numpy as np

from bench.harness import Bench, case, kernel, wall
from bench.qoc import problem
from bench.qoc.eigenbasis import cost

EVALUATIONS = 90  # of Fig. 1a, conventional gradient; 11 of Fig. 1c, amplified


def sequence(count: int) -> np.ndarray:
    """Return the first ``count`` gammas of Eq. (9): 0, 0.1, then (gamma + 0.3) 1.4."""
    gammas = [0.0, 0.1]
    while len(gammas) < count:
        gammas.append((gammas[-1] + 0.3) * 1.4)
    return np.array(gammas[:count])


@case(
    "qoc-linesearch",
    "the 90 (and 11) candidates of Fig. 1's line search at once against one after another",
    ("cuda",),
)
def line_search(bench: Bench) -> None:
    """16 states, 30000 steps of 1 a.u.; the last candidate is a full pi pulse, as in the figure."""
    number = 3000 if bench.quick else 30_000
    nominal = problem.morse(641, 16)
    propagator = problem.eigen_propagator(bench.device, nominal, number)
    objective = problem.objective(propagator)
    for count in (11, EVALUATIONS):
        gammas = sequence(count)
        fields = (gammas / gammas[-1])[:, None] * (2.0 * problem.half_pi(nominal, number))
        together = wall(bench.device, lambda f=fields: objective.values(f))
        apart = wall(bench.device, lambda f=fields: [objective.values(row) for row in f], budget=2.0, least=1)
        difference = np.abs(
            objective.values(fields)[0] - np.array([objective.values(row)[0][0] for row in fields])
        )
        bench.row(f"{count} candidates, one after another", apart, steps=number * count)
        bench.row(
            f"{count} candidates at once, whole call",
            together,
            cost("forward", 16, number, count, bench),
            ratio=apart.seconds / together.seconds,
            difference=float(difference.max()),
        )
        run = propagator.forward(fields)
        batch, eps = run.handle["batch"], run.handle["eps"]
        w = bench.device.xp.ones((count, 16), complex) / 4.0
        from qsim.qoc.kernels.eigenbasis import eb_forward

        launched = kernel(bench.device, lambda b=batch, e=eps, s=w: eb_forward(bench.device, b, s, e))
        bench.row(
            f"{count} candidates at once, kernel",
            launched,
            cost("forward", 16, number, count, bench),
            steps=number,
        )
