"""Run the sections of a deck in order; walkers carry over from one to the next.

What every finished section left is kept, walkers and blocks, so that a checkpoint, or a run that is complete, can be continued
with more blocks in any of its sections: each has random numbers of its own, and the later ones stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.analysis import Analysis, Fit, analyse, fit_sections
from qsim.qmc.deck.series import Dmc, Vmc
from qsim.qmc.estimators import estimators
from qsim.qmc.sampling.dmc import DmcSampling
from qsim.qmc.sampling.optimise import Optimisation
from qsim.qmc.sampling.series import Sampler, Series, sample
from qsim.qmc.sampling.vmc import VmcSampling
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.singular import divergences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.estimators import Estimators
    from qsim.qmc.problem import Part, Problem
    from qsim.qmc.wavefunction.jastrow import Jastrow

__all__ = ["Result", "final_state", "run"]

Saved = dict[int, Mapping[str, Any]]
"""By the number of a part: its first Jastrow parameters, and the state from which blocks can be added."""


@dataclass
class Result:
    """Series of all parts, with their statistics.

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
    """Return the state needed to add blocks to a complete run."""
    return result.state


def run(problem: Problem, monitor: Monitor) -> Result:
    """Run all sections and analyse their blocks."""
    for text in problem.notices:
        monitor.note(text)
    for text in problem.warnings:
        monitor.warn(text)
    before = dict(enumerate((monitor.restored or {}).get("parts", [])))
    saved: Saved = {k: part for k, part in before.items() if part}
    walkers = Walkers(
        problem.device,
        problem.wavefunction,
        problem.parts[0].walkers,
        problem.key,
        single=problem.single,
    )
    if 0 not in saved:
        walkers.place()
    series = [_run_part(problem, k, walkers, saved, monitor) for k in range(len(problem.parts))]
    singular = divergences(problem.wavefunction)
    momentum = 2.0 * problem.wavefunction.system.mass / problem.wavefunction.n_electrons
    particles = problem.wavefunction.n_electrons
    analyses = [analyse(one, monitor, singular, momentum, particles) for one in series]
    fits = fit_sections(problem.parts, analyses, monitor, problem.wavefunction.system.highest_energy)
    return Result(problem, series, analyses, fits, walkers.wavefunction.jastrow, {"parts": _as_list(saved)})


def _as_list(saved: Saved) -> list[Mapping[str, Any]]:
    return [saved.get(k, {}) for k in range(1 + max(saved, default=-1))]


def _run_part(problem: Problem, k: int, walkers: Walkers, saved: Saved, monitor: Monitor) -> Series:
    """Run part `k`, or what is missing of it, and keep its end in `saved`."""
    part, mine = problem.parts[k], saved.get(k)
    if mine is not None:
        parameters = np.asarray(mine["parameters"], np.float64)
        if not np.array_equal(parameters, walkers.wavefunction.parameters):
            walkers.set_wavefunction(walkers.wavefunction.with_parameters(parameters))
    else:
        parameters = walkers.wavefunction.parameters
        if k:
            _resize(walkers, part.walkers)
    measured = None
    if problem.measured and part.kind != "optimize":
        system = problem.wavefunction.system
        measured = estimators.make(problem.device, problem.measured, system.n_up, system.n_dn, problem.atoms)
    sampler = _sampler(part, walkers, mine["state"] if mine else None, measured)
    within = _PartOfRun(k, sampler, parameters, saved)
    series = sample(sampler, monitor, within)
    saved[k] = within.own()
    for text in (*series.warnings, *(measured.notes() if measured else ())):
        monitor.warn(text)
    return series


def _sampler(
    part: Part, walkers: Walkers, saved: Mapping[str, Any] | None, measured: Estimators | None
) -> Sampler:
    """Return the computation of a part, from the state where it was interrupted or complete."""
    block = part.block
    if isinstance(block, Vmc):
        return VmcSampling(walkers, block, part.number, saved, measured)
    if isinstance(block, Dmc):
        return DmcSampling(walkers, block, part.walkers, part.timestep, part.number, saved, measured)
    return Optimisation(walkers, block, part.number, saved)


def _resize(walkers: Walkers, count: int) -> None:
    """Give a section its number of walkers, of weight 1: the first of those that there are, or copies."""
    indices = np.arange(count, dtype=np.int64) % walkers.count
    walkers.select(indices, np.ones(count))


class _PartOfRun:
    """A part whose state is saved with the ends of the other parts.

    Parameters
    ----------
    k
        Number of the part.
    sampler
        Its computation.
    parameters
        Of the Jastrow factor, with which the part begins.
    saved
        Ends of the other parts.
    """

    def __init__(self, k: int, sampler: Sampler, parameters: NDArray[np.float64], saved: Saved) -> None:
        self.k = k
        self.sampler = sampler
        self.parameters = parameters
        self.saved = saved

    def advance(self, report: Report) -> None:
        """Compute the part to its end."""
        self.sampler.advance(report)

    def own(self) -> Mapping[str, Any]:
        """Return the state of the part itself."""
        return {"parameters": self.parameters, "state": self.sampler.state()}

    def state(self) -> State:
        """Return the state of the run."""
        return {"parts": _as_list({**self.saved, self.k: self.own()})}
