"""`task: basis`: the Sturmian functions alone, bound or outgoing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.sturmian.basis.result import BasisResult
from qsim.sturmian.radial import parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.sturmian.problem import Problem
    from qsim.sturmian.radial.sturmians import Sturmians

# Relative error of an eigenvalue that is worth a warning.
COARSE = 0.01
# Share of its largest value to which an outgoing function should have fallen at the end of the contour.
TAIL = 1e-3


def run(problem: Problem, monitor: Monitor) -> BasisResult:
    """Compute the functions of every l of the deck."""
    result = BasisResult(problem, {})
    monitor.begin(len(problem.ls), "l", "basis")
    with monitor.stage("basis"):
        for k, l in enumerate(problem.ls):
            functions = problem.functions(l)
            result.bases[l] = functions
            result.condition[l] = monitor.judged(
                "the condition of the functions", partial(condition, functions.c), np.nan
            )
            errors = result.beta_errors[l] = monitor.judged(
                "errors of beta", partial(beta_errors, problem, functions), np.full(functions.size, np.nan)
            )
            for judge in (partial(_warnings, problem, functions), partial(_coarse, functions, errors)):
                result.notes += monitor.judged("warnings about the functions", judge, [])
            monitor.step(k + 1, orthogonality=functions.orthogonality)
    monitor.end()
    for text in result.notes:
        monitor.warn(text)
    return result


def condition(c: NDArray[Any]) -> float:
    """Return the ratio of the largest to the smallest singular value of the functions, each normalised to one."""
    singular = np.linalg.svd(c / np.linalg.norm(c, axis=0), compute_uv=False)
    return float(singular[0] / max(singular[-1], 1e-300))


def beta_errors(problem: Problem, functions: Sturmians) -> NDArray[np.float64]:
    """Return the distance of the eigenvalues to the same on finer grids, in a larger box if the functions decay, hartree, (N,).

    It holds by how much these differ themselves, and what the rows of a table leave open.  Complex ones are compared with the
    nearest; NaN where no finer grid has such functions.
    """
    remade = [other for _, other in problem.finer_functions(functions)]
    if not remade:
        return np.full(functions.size, np.nan)
    # zero where there is one finer grid
    out = functions.apart(remade[-1]) + remade[-1].apart(remade[0])
    for other in problem.doubted():
        # of the same functions, without the signs by which a change may vanish
        v, U = (np.abs(one - two) for one, two in zip(_potentials(problem), _potentials(other), strict=True))
        first = (np.abs(functions.c.T) ** 2) @ U + np.abs(functions.beta) * ((np.abs(functions.c.T) ** 2) @ v)
        out += np.maximum(first, functions.apart(other.functions(functions.l, functions.size)))
    return out


def _potentials(problem: Problem) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the generating and the auxiliary potential at the nodes, (n,)."""
    return (
        parameters.generating_values(problem.radial, problem.values, problem.grid),
        parameters.auxiliary(problem.radial, problem.grid)[0],
    )


def _coarse(functions: Sturmians, errors: NDArray[np.float64]) -> list[str]:
    """Return the warning of functions that grid and box limit."""
    if np.isnan(errors).any():
        return [
            f"functions of l = {functions.l}: errors of beta could not be estimated; scan grid.order and R by hand"
        ]
    bad = np.flatnonzero(errors > COARSE * np.abs(functions.beta))
    if not bad.size:
        return []
    worst = float((errors / np.abs(functions.beta)).max())
    return [
        f"functions of l = {functions.l}: beta changes by up to {100.0 * worst:.2g} % on a finer grid in a larger box, from n = "
        f"{bad[0] + 1} on; give a higher grid.order, more elements, or a larger R"
    ]


def _warnings(problem: Problem, functions: Sturmians) -> list[str]:
    """Return the warning of an outgoing basis that has not died out at the end of the contour."""
    if not problem.grid.is_complex:
        return []
    values = np.abs(functions.c) / np.sqrt(np.abs(problem.grid.w))[:, None]
    end = float((values[-1] / values.max(axis=0)).max())
    if end < TAIL:
        return []
    return [
        f"functions of l = {functions.l} have {end:.1e} of their largest value left at the end of the contour; a longer "
        "grid.ecs.length lets them die out"
    ]
