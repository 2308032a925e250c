"""Collisions of a deck: solve the driven equations, take cross sections, and find out how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.scattering import amplitudes, driven, sources
from qsim.sturmian.scattering.kinematics import Kinematics
from qsim.sturmian.scattering.observed import Observed, observe
from qsim.sturmian.scattering.results import CollisionResult, Solved, Wave
from qsim.sturmian.scattering.summed import Solutions, Summed, combined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.sturmian.scattering.problem import Problem
    from qsim.sturmian.scattering.resonances import ResonanceResult
    from qsim.sturmian.scattering.setup import Bound, Setup

__all__ = ["run_collisions"]

DEFECT = 0.05  # of the total, that unitarity may miss before it is worth a warning
POOR = 0.1  # relative error of a break-up cross section that is worth a warning
TAIL = 0.02  # relative weight of the L that are left out, likewise


@dataclass
class _Runs:
    """Observations of one setup: [energy][label] -> by L."""

    observed: list[dict[str, list[Observed]]]
    solved: list[Solved]
    wave: Wave | None
    initial: Bound | None
    kinematics: list[Kinematics]


def run_collisions(problem: Problem, monitor: Monitor) -> CollisionResult | ResonanceResult:
    """Solve all symmetries and energies of a deck, then those that tell the errors.

    Raises
    ------
    NumericsError
        If an equation does not converge: there is no cross section without a solution.
    """
    if problem.process == "resonances":
        from qsim.sturmian.scattering.resonances import run_resonances

        return run_resonances(problem, monitor)
    full = problem.pairs()
    rounds = 1 + (2 if problem.other_pairs() is not None else 1) * problem.errors
    monitor.begin(rounds * len(problem.sectors), "sectors", "driven equations")
    setup = problem.setup()
    with monitor.stage("solve"):
        main = _solve_all(problem, setup, full, monitor, 0, final=True)
    coarse = angular = None
    if problem.errors:
        with monitor.stage("errors"):
            other = problem.setup(coarser=True)
            coarse = _solve_all(problem, other, full, monitor, 1, final=False)
            fewer = problem.other_pairs()
            if fewer is not None:
                angular = _solve_all(problem, other, fewer, monitor, 2, final=False, other=True)
    convergence = _scans(problem, monitor)
    monitor.end()
    observed = []
    for i, by_label in enumerate(main.observed):
        found = {}
        for label, parts in by_label.items():
            solutions = Solutions(
                parts,
                coarse.observed[i][label] if coarse is not None else None,
                angular.observed[i][label] if angular is not None else None,
                problem.beyond,
                problem.numbers.whole,
            )
            kin = main.kinematics[i]
            found[label] = combined(
                solutions, kin, problem.ejected(kin), np.radians(problem.angles), setup.potential.charge
            )
        observed.append(found)
    result = CollisionResult(problem, setup, main.kinematics, observed, main.solved, main.wave, main.initial)
    result.convergence = convergence
    result.warnings = _warnings(result)
    for text in result.warnings:
        monitor.warn(text)
    return result


def _scans(problem: Problem, monitor: Monitor) -> dict[str, dict[str, list[object]]]:
    """Return totals and break-up at each value of the scanned keys, all else as it is."""
    out: dict[str, dict[str, list[object]]] = {}
    with monitor.stage("scan"):
        for key, values in problem.scan.items():
            entry: dict[str, list[object]] = {"value": [], "total": [], "ionisation": []}
            for value in values:
                changed = problem.changed(key, value)
                runs = _solve_all(changed, changed.setup(), changed.pairs(), monitor, None, final=False)
                entry["value"].append(value)
                entry["total"].append(_sums(runs, lambda part: part.total))
                entry["ionisation"].append(
                    _sums(runs, lambda part: part.sharing.total if part.sharing is not None else np.nan)
                )
            out[key] = entry
    return out


def _sums(runs: _Runs, value: Callable[[Observed], float]) -> list[list[float]]:
    """Return sums over L, [energy][label]."""
    return [[sum(value(part) for part in parts) for parts in by_label.values()] for by_label in runs.observed]


def _solve_all(
    problem: Problem,
    setup: Setup,
    pairs: Sequence[Sequence[tuple[int, int]]],
    monitor: Monitor,
    number: int | None,
    *,
    final: bool,
    other: bool = False,
) -> _Runs:
    """Solve every symmetry at all energies."""
    initial = None
    if problem.process in ("photo", "born"):
        initial = problem.initial(setup, monitor.poll, other=other)
    kinematics = problem.kinematics(setup, initial)
    labels = problem.labels
    runs = _Runs([{} for _ in kinematics], [], None, initial, kinematics)
    for k, (sector, own) in enumerate(zip(problem.sectors, pairs, strict=True)):
        names = labels if problem.process == "photo" else [problem.label(sector.S)]
        energies = [kin.E for kin in kinematics]
        for group in problem.groups(energies):
            operator = setup.operator(sector.L, sector.S, own, energies[group[0]])
            for name in names:
                s = np.stack([_source(problem, setup, operator, kinematics[i], initial, name) for i in group])
                batch = max(1, int(driven.BATCH / (driven.RESTART * s[0].nbytes)))
                for start in range(0, len(group), batch):
                    part = group[start : start + batch]
                    found = _solved(
                        problem, operator, s[start : start + batch], [energies[i] for i in part], monitor
                    )
                    inside = amplitudes.inside(
                        operator, setup.grid, found.u, operator.device.asarray(s[start : start + batch])
                    )
                    if final:
                        _note(runs, part, operator, found, name)
                        if runs.wave is None:
                            runs.wave = _picture(setup, operator, found, name)
                    for i, solution in zip(part, inside, strict=True):
                        seen = observe(
                            solution,
                            setup,
                            kinematics[i],
                            sector.L,
                            sector.S,
                            problem.wants,
                            problem.ejected(kinematics[i]),
                        )
                        runs.observed[i].setdefault(name, []).append(seen)
        if number is not None:
            monitor.step(number * len(problem.sectors) + k + 1)
    return runs


def _source(
    problem: Problem,
    setup: Setup,
    operator: driven.Driven,
    kin: Kinematics,
    initial: Bound | None,
    label: str,
) -> NDArray[np.complex128]:
    L, S, pairs = operator.L, operator.S, operator.pairs
    if problem.process == "e_h":
        _, target = setup.target()
        for l in range(0, max(max(pair) for pair in pairs) + L + 1):
            if l not in setup.planes:
                setup.planes[l] = np.asarray(setup.grid.poisson(l), complex)
        return sources.electron(setup.grid, setup.planes, pairs, L, S, target, setup.incident(L, kin.k))
    assert initial is not None
    if problem.process == "photo":
        return sources.dipole(setup.grid, pairs, L, initial.components, initial.L, label, kin.omega, setup.Z)
    return sources.fast_projectile(setup.grid, pairs, L, initial.components, initial.L, kin.q)


def _solved(
    problem: Problem,
    operator: driven.Driven,
    s: NDArray[np.complex128],
    E: list[float],
    monitor: Monitor,
) -> driven.Solution:
    solver = problem.asked.solver
    right = operator.device.asarray(s)
    if solver.type == "dense":
        from qsim.sturmian.scattering.dense_route import solve_dense

        found = solve_dense(operator, right, np.array(E))
    else:
        found = driven.solve(
            operator,
            right,
            np.array(E),
            tolerance=max(solver.tolerance, 1e-13),
            max_iterations=solver.max_iterations,
            krylov=problem.krylov,
        )
    monitor.poll()
    worst = int(np.argmax(found.residuals))
    if not found.residuals[worst] <= max(10.0 * solver.tolerance, problem.rounding(operator)):
        raise NumericsError(
            f"L = {operator.L}, S = {operator.S}, E = {E[worst]:.6g} hartree: the relative residual is "
            f"{found.residuals[worst]:.1e} after {int(found.iterations[worst])} steps, but {solver.tolerance:.1e} is asked for; "
            "no cross section is taken from it",
            hint="a larger solver.max_iterations, or a smaller grid.ecs.angle if the condition of the contour is large",
        )
    return found


def _note(
    runs: _Runs, points: list[int], operator: driven.Driven, found: driven.Solution, label: str
) -> None:
    runs.solved.append(
        Solved(
            operator.L,
            operator.S,
            label,
            list(points),
            operator.unknowns,
            found.residuals,
            found.iterations,
            found.history,
            operator.flops,
            operator.traffic,
            found.seconds,
        )
    )


def _picture(setup: Setup, operator: driven.Driven, found: driven.Solution, label: str) -> Wave:
    grid = setup.grid
    u = np.asarray(operator.device.to_host(found.u[0]))
    root = np.sqrt(grid.w)
    values = np.abs(u / (root[:, None] * root[None, :]))
    weight = (np.abs(u[:, : setup.count, : setup.count]) ** 2).sum(axis=(1, 2))
    p = int(np.argmax(weight))
    a, b = operator.pairs[p]
    arc = np.where(grid.is_real, grid.r.real, grid.R0 + np.abs(grid.r - grid.R0))
    return Wave(arc, values[p], grid.R0, f"L = {operator.L}, (la, lb) = ({a}, {b}), {label}")


def _warnings(result: CollisionResult) -> list[str]:
    """Return what should not be believed without a second look."""
    from qsim.sturmian.scattering.outgoing import CONDITION

    out = []
    condition = result.setup.condition
    if condition > CONDITION:
        out.append(
            f"the eigenvectors on the contour are nearly dependent, condition {condition:.1e}; a smaller grid.ecs.angle is safer"
        )
    for kin, by_label in zip(result.kinematics, result.observed, strict=True):
        for label, seen in by_label.items():
            where = f"{kin.name}, {label}"
            out += [f"{where}: {text}" for text in _doubts(seen, "unitarity" in result.problem.wants)]
    return out


def _doubts(seen: Summed, unitarity: bool) -> list[str]:
    """Return what is doubtful about one energy and one spin or gauge."""
    out = []
    if unitarity and seen.unitarity is not None:
        defect, error = seen.unitarity
        if abs(defect) > DEFECT + error:
            out.append(f"the channels add up to {1.0 - defect:.3f} of the total; a larger grid.R is needed")
    if seen.ionisation is not None:
        value, error = seen.ionisation
        if error > POOR * abs(value) > 0.0:
            text = f"the break-up cross section is known to {100.0 * error / abs(value):.0f} % only"
            out.append(f"{text}; a larger grid.R, a finer grid or a larger l_max is needed")
    if seen.tail is not None and seen.tail > TAIL:
        text = f"the largest L still gives {100.0 * seen.tail:.1f} % of the sum over L"
        out.append(f"{text}; add more to channels.L")
    return out
