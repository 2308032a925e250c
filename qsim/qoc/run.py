"""Search for the controls, then look at what was found."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from qsim.core.run.loop import drive
from qsim.qoc.kernels.portions import watched
from qsim.qoc.optimizers.maximisation import Maximisation
from qsim.qoc.optimizers.search import told

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.qoc.problem import Problem
    from qsim.qoc.quantum.problem import Points
    from qsim.qoc.quantum.result import QuantumResult
    from qsim.qoc.result import Result

# What is told of a constraint that another one keeps from being met.
GIVEN_WAY = {
    "area": "the area is missed by {:.2g} of the integral of |u|, since bounds or max_fluence act; widen them",
    "band": "{:.2g} of its root mean square lies outside of its functions of time, since bounds or the area act; widen them",
}


def run(problem: Problem, monitor: Monitor) -> Result:
    """Run the deck's optimiser, of a front at every point, and analyse the controls that it found."""
    for text in problem.warnings:
        monitor.warn(text)
    # Ranks propagate other members, and so do not look at the same points.
    with watched(monitor.poll if problem.alone else None):
        if problem.points is not None:
            return _front(problem.points, monitor)
        search = problem.begin(problem)
        maximisation = Maximisation(problem, search, monitor.restored)
        total, (unit, what) = problem.max_sweeps * (1 + problem.restarts), told(problem.optimizer.type)
        with monitor.stage("optimise"):
            drive(maximisation, monitor, total=total, unit=unit, what=what, at_most=True)
        # what follows takes long for some systems; a stop there need not wait for it
        monitor.settle(maximisation.state)
        if maximisation.escaped:
            # Zero is where searches of quantum systems begin by habit; the field of a molecule is a choice.
            tell = monitor.warn if problem.stalled else monitor.note
            tell(
                "the search came to a critical point, where the gradient vanishes, and went on from controls without its "
                "symmetries"
            )
        final = problem.first if search.field is None else search.field
        for number, what, size in maximisation.controls_of(search.best_tag).given_way(final):
            monitor.warn(f"control {problem.names[number]}: {GIVEN_WAY[what]}".format(size))
        return problem.analyse(problem, search, maximisation, final, monitor)


def _front(points: Points, monitor: Monitor) -> QuantumResult:
    """Search the points of a front, and analyse the one that is shown."""
    # loaded for these decks alone
    from qsim.qoc.quantum.fronts import search_front

    front, search, maximisation = search_front(points, monitor)
    shown = points.problems[front.shown]
    assert search.field is not None
    result = shown.analyse(shown, search, maximisation, search.field, monitor)
    return dataclasses.replace(result, front=front)
