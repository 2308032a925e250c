"""Equations of a collision: the source of one energy, and solutions that have converged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.driven import operator as driven
from qsim.sturmian.driven import outgoing, sources
from qsim.sturmian.driven.checks import safe_angle
from qsim.sturmian.driven.krylov import Krylov

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.sturmian.driven.setup import Bound, Setup
    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics
    from qsim.sturmian.scatter.problem import Collision

__all__ = ["solved", "source"]


def source(
    problem: Collision,
    setup: Setup,
    operator: driven.Driven,
    kin: Kinematics,
    initial: Bound | None,
    label: str,
) -> Any:
    """Return the source (P, n, n) of one energy: electron impact, a photon in the gauge `label`, or a fast charge."""
    L, S, pairs = operator.L, operator.S, operator.pairs
    if problem.process == "e_h":
        _, target = setup.target()
        potentials = setup.screened(L, pairs)
        return sources.electron(setup.grid, potentials, pairs, S, target, setup.incident(L, kin.k))
    assert initial is not None
    if problem.process == "photo":
        return sources.dipole(setup.grid, pairs, L, initial.components, initial.L, label, kin.omega, setup.Z)
    return sources.fast_projectile(setup.grid, pairs, L, initial.components, initial.L, kin.q)


def solved(
    problem: Collision,
    operator: driven.Driven,
    equation: tuple[Any, list[float], Any],
    tolerance: float,
    poll: Callable[[], None],
) -> driven.Solution:
    """Return solutions for sources, energies and, where there are some, starts; refuse them if they have not converged."""
    s, E, start = equation
    solver = problem.settings.solver
    if solver.type == "dense":
        from qsim.sturmian.driven.dense import solve_dense

        solutions = solve_dense(operator, s, np.array(E))
    else:
        solutions = driven.solve(
            operator,
            s,
            np.array(E),
            tolerance=max(tolerance, 1e-13),
            max_iterations=solver.max_iterations,
            krylov=Krylov(problem.krylov),
            start=start,
            observe=poll,
        )
    # Ten times the tolerance, or what rounding allows on this contour: the true residual may
    # exceed the one of the iteration a little.
    worst = int(np.argmax(solutions.residuals))
    if not solutions.residuals[worst] <= max(10.0 * tolerance, problem.rounding(operator)):
        raise NumericsError(
            f"L = {operator.L}, S = {operator.S}, E = {E[worst]:.6g} hartree: the relative residual is "
            f"{solutions.residuals[worst]:.1e} after {int(solutions.iterations[worst])} steps, but {tolerance:.1e} is required; "
            "no cross section is taken from it",
            hint=_remedy(problem, operator, int(solutions.iterations[worst])),
        )
    return solutions


def _remedy(problem: Collision, operator: driven.Driven, steps: int) -> str:
    """Return the remedy for an equation that did not converge: a smaller angle of the contour, or more steps."""
    safe = safe_angle(operator.points)
    condition = max(orbital.condition for orbital in operator.orbitals.values())
    if condition > outgoing.CONDITION and problem.numbers.angle > safe:
        text = f"grid.ecs.angle: {safe:g}, since at {problem.numbers.angle:g} rad the eigenvectors on {operator.points} points"
        return f"{text} are nearly dependent, condition {condition:.1e}"
    if steps >= problem.settings.solver.max_iterations:
        return "a larger solver.max_iterations"
    return "a larger solver.tolerance, or a smaller grid.ecs.angle"
