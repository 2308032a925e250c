"""Go through the sections of a deck, each with the walkers of the one before.

What every finished section left is kept, walkers and blocks, so that a checkpoint, or a run that is complete, can be continued
with more blocks in any of its sections: each has random numbers of its own, and the later ones stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.analysis import Analysis, Fit, analyse, fit_sections
from qsim.qmc.estimators import estimators
from qsim.qmc.sampling.series import Resume, Series
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.singular import divergences

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.estimators import Estimators
    from qsim.qmc.problem import Part, Problem
    from qsim.qmc.wavefunction.jastrow import Jastrow

__all__ = ["Result", "final_state", "run"]


@dataclass
class Result:
    """What a run leaves.

    Attributes
    ----------
    problem : Problem
    series : list of Series
        One for each part, in their order.
    analyses : list of Analysis
        Their statistics; None for optimisations.
    fits : list of Fit
        Energies against the time step, for each dmc section.
    jastrow : Jastrow
        At the end.
    state
        Everything that is needed to add blocks.
    """

    problem: Problem
    series: list[Series]
    analyses: list[Analysis | None]
    fits: list[Fit]
    jastrow: Jastrow
    state: Mapping[str, Any]


def final_state(result: Result) -> Mapping[str, Any]:
    """Return what a complete run is continued from."""
    return result.state


def run(problem: Problem, monitor: Monitor) -> Result:
    """Run all sections."""
    for text in problem.notices:
        monitor.note(text)
    for text in problem.warnings:
        monitor.warn(text)
    before = dict(enumerate((monitor.restored or {}).get("parts", [])))
    saved: dict[int, Mapping[str, Any]] = {k: part for k, part in before.items() if part}
    walkers = Walkers(
        problem.device,
        problem.wavefunction,
        problem.parts[0].block.walkers,
        problem.key,
        single=problem.single,
    )
    if 0 not in saved:
        walkers.place()
    series = []
    for k, part in enumerate(problem.parts):
        series.append(_run_part(problem, k, part, walkers, saved, monitor))
    singular = divergences(problem.wavefunction)
    momentum = 2.0 * problem.wavefunction.system.mass / problem.wavefunction.n_electrons
    particles = problem.wavefunction.n_electrons
    analyses = [analyse(one, monitor, singular, momentum, particles) for one in series]
    fits = fit_sections(problem.parts, analyses, monitor, problem.wavefunction.system.highest_energy)
    return Result(problem, series, analyses, fits, walkers.wavefunction.jastrow, {"parts": _as_list(saved)})


def _as_list(saved: Mapping[int, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [saved.get(k, {}) for k in range(1 + max(saved, default=-1))]


def _run_part(
    problem: Problem,
    k: int,
    part: Part,
    walkers: Walkers,
    saved: dict[int, Mapping[str, Any]],
    monitor: Monitor,
) -> Series:
    """Run one part, or what is missing of it, and keep its end in `saved`."""
    mine = saved.get(k)
    if mine is not None:
        parameters = np.asarray(mine["parameters"], np.float64)
        if not np.array_equal(parameters, walkers.wavefunction.parameters):
            walkers.set_wavefunction(walkers.wavefunction.with_parameters(parameters))
    else:
        parameters = walkers.wavefunction.parameters
        if k:
            _resize(walkers, part.block.walkers)

    def wrap(state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"parts": _as_list({**saved, k: {"parameters": parameters, "state": state}})}

    watched = _Watched(monitor)
    found = _drive(problem, part, walkers, watched, Resume(wrap, mine["state"] if mine else None))
    if watched.last is not None:
        saved[k] = watched.last()["parts"][k]
    return found


def _drive(problem: Problem, part: Part, walkers: Walkers, monitor: Any, resume: Resume) -> Series:
    if part.kind == "optimize":
        from qsim.qmc.sampling.optimise import run_optimize

        return run_optimize(walkers, part.block, part.number, monitor, resume)
    measured = _estimators(problem)
    if part.kind == "vmc":
        from qsim.qmc.sampling.vmc import run_vmc

        found = run_vmc(walkers, part.block, part.number, monitor, resume, measured)
    else:
        from qsim.qmc.sampling.dmc import run_dmc

        assert part.timestep is not None
        found = run_dmc(walkers, part.block, part.timestep, part.number, monitor, resume, measured)
    for text in measured.notes() if measured else []:
        monitor.warn(text)
    return found


def _estimators(problem: Problem) -> Estimators | None:
    requests = problem.deck.requests()
    if not requests:
        return None
    system = problem.wavefunction.system
    places = system.positions if problem.deck.system.atoms else np.zeros((0, 3))
    return estimators.make(problem.device, requests, system.n_up, system.n_dn, places)


def _resize(walkers: Walkers, count: int) -> None:
    """Give a section its number of walkers, of weight 1: the first of those that there are, or copies."""
    indices = np.arange(count, dtype=np.int64) % walkers.count
    walkers.select(indices, np.ones(count))


class _Watched:
    """A monitor that remembers how the last step could be saved: that is what more blocks are added to."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.last: Callable[[], Mapping[str, Any]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.monitor, name)

    def step(self, done: int, state: Any = None, **observables: float) -> None:
        """Report a step."""
        if state is not None:
            self.last = state
        self.monitor.step(done, state, **observables)
