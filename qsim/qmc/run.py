"""Run the sections of a deck in order; walkers carry over from one to the next.

What every finished section left is kept, walkers and blocks, so that a checkpoint, or a run that is complete, can be continued
with more blocks in any of its sections: each has random numbers of its own, and the later ones stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.sections import Sections
from qsim.qmc.analysis import Analysis, Fit, analyse, fit_sections
from qsim.qmc.deck.series import Dmc, Vmc
from qsim.qmc.estimators import estimators
from qsim.qmc.sampling.dmc import DmcSampling
from qsim.qmc.sampling.optimise import Optimisation
from qsim.qmc.sampling.series import Sampler, Series, sample
from qsim.qmc.sampling.vmc import VmcSampling
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.statistics.twists import average
from qsim.qmc.wavefunction.singular import divergences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.estimators import Estimators
    from qsim.qmc.problem import Part, Problem
    from qsim.qmc.system.twists import Twist
    from qsim.qmc.wavefunction.jastrow import Jastrow

__all__ = ["Result", "final_state", "run"]

TWISTS = 0x10000  # random streams from one twist to the next; those of one end with that which places walkers

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
    twists : list of TwistResult
        What each of several twists gave; empty for one.  `analyses` are averages over them, `series` those of the first.
    """

    problem: Problem
    series: list[Series]
    analyses: list[Analysis | None]
    fits: list[Fit]
    jastrow: Jastrow
    state: Mapping[str, Any]
    twists: list[TwistResult] = field(default_factory=list)


@dataclass
class TwistResult:
    """What one twist gave.

    Attributes
    ----------
    number : int
        Of the twist.
    series : list of Series
        Of its parts; without optimisations for all twists but the first.
    analyses : list of Analysis
        Statistics of all parts; None for optimisations.
    jastrow : Jastrow
        At the end.
    """

    number: int
    series: list[Series]
    analyses: list[Analysis | None]
    jastrow: Jastrow


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
    monitor.sections = Sections(_works(problem))
    first = _run_twist(problem, 0, saved, monitor)
    twists = [first]
    for t in range(1, 1 + len(problem.others)):
        try:
            twists.append(_run_twist(problem, t, saved, monitor))
        except NumericsError as error:  # one bad twist does not take the others with it
            monitor.warn(f"twist {_words(problem.twists[t])} is left out of the average: {error}")
    analyses = first.analyses if len(twists) == 1 else _averaged(problem, twists)
    fits = fit_sections(problem.parts, analyses, monitor, problem.wavefunction.system.highest_energy)
    state = {"parts": _as_list(saved)}
    return Result(
        problem, first.series, analyses, fits, first.jastrow, state, twists if problem.others else []
    )


def _works(problem: Problem) -> list[float]:
    """Return the work of all sections of all twists, as moves of walkers; optimisations belong to the first twist."""
    first = [part.generations * part.walkers for part in problem.parts]
    other = [
        0.0 if part.kind == "optimize" else work for part, work in zip(problem.parts, first, strict=True)
    ]
    return first + len(problem.others) * other


def _run_twist(problem: Problem, t: int, saved: Saved, monitor: Monitor) -> TwistResult:
    """Run all sections with one twist; twists but the first take the Jastrow factors that were optimised with that."""
    wavefunction = problem.wavefunction if t == 0 else problem.others[t - 1]
    start = t * len(problem.parts)
    walkers = Walkers(
        problem.device,
        wavefunction,
        problem.parts[0].walkers,
        problem.key,
        single=problem.single,
    )
    if t:
        monitor.note(f"twist {_words(problem.twists[t])}, weight {problem.twists[t].weight:.4g}")
    if start not in saved:
        walkers.place()
    series = [_run_part(problem, k, t, walkers, saved, monitor) for k in range(len(problem.parts))]
    singular = divergences(wavefunction)
    momentum = 2.0 * wavefunction.system.mass / wavefunction.n_electrons
    particles = wavefunction.n_electrons
    analyses = [
        None if one is None else analyse(one, monitor, singular, momentum, particles) for one in series
    ]
    jastrow = walkers.wavefunction.jastrow
    return TwistResult(t, [one for one in series if one is not None], analyses, jastrow)


def _words(twist: Twist) -> str:
    return "(" + ", ".join(f"{x:g}" for x in twist.vector) + ")"


def _averaged(problem: Problem, twists: list[TwistResult]) -> list[Analysis | None]:
    """Return the statistics of each part, averaged over the twists that were run."""
    weights = [problem.twists[one.number].weight for one in twists]
    out: list[Analysis | None] = []
    for k in range(len(problem.parts)):
        found = [one.analyses[k] for one in twists]
        known = [one for one in found if one is not None]
        if len(known) < len(twists):  # an optimisation, of the first twist alone
            out.append(None)
            continue
        names = known[0].estimates
        estimates = {name: average([one.estimates[name] for one in known], weights) for name in names}
        bias = sum(w * one.population_bias for w, one in zip(weights, known, strict=True)) / sum(weights)
        out.append(replace(known[0], estimates=estimates, population_bias=bias))
    return out


def _as_list(saved: Saved) -> list[Mapping[str, Any]]:
    return [saved.get(k, {}) for k in range(1 + max(saved, default=-1))]


def _run_part(
    problem: Problem, k: int, t: int, walkers: Walkers, saved: Saved, monitor: Monitor
) -> Series | None:
    """Run part `k` of twist `t`, or what is missing of it, and keep its end in `saved`; None for what is not repeated."""
    place = t * len(problem.parts) + k
    part, mine = problem.parts[k], saved.get(place)
    if t and part.kind == "optimize":
        return None
    if t and mine is None:
        parameters = np.asarray(saved[k]["parameters"], np.float64)
        if not np.array_equal(parameters, walkers.wavefunction.parameters):
            walkers.set_wavefunction(walkers.wavefunction.with_parameters(parameters))
            walkers.recompute()
    if mine is not None:
        parameters = np.asarray(mine["parameters"], np.float64)
        if not np.array_equal(parameters, walkers.wavefunction.parameters):
            walkers.set_wavefunction(walkers.wavefunction.with_parameters(parameters))
    else:
        parameters = walkers.wavefunction.parameters
        if k:
            _resize(walkers, part.walkers)
    if monitor.sections is not None:
        monitor.sections.enter(place)
    measured = None
    if problem.measured and part.kind != "optimize":
        system = problem.wavefunction.system
        measured = estimators.make(
            problem.device, problem.measured, system.n_up, system.n_dn, problem.atoms, walkers.wavefunction
        )
    number = part.number + TWISTS * t
    sampler = _sampler(part, number, walkers, mine["state"] if mine else None, measured)
    within = _PartOfRun(place, sampler, parameters, saved)
    series = sample(sampler, monitor, within)
    saved[place] = within.own()
    for text in (*series.warnings, *(measured.notes() if measured else ())):
        monitor.warn(text)
    return series


def _sampler(
    part: Part, number: int, walkers: Walkers, saved: Mapping[str, Any] | None, measured: Estimators | None
) -> Sampler:
    """Return the computation of a part, from the state where it was interrupted or complete."""
    block = part.block
    if isinstance(block, Vmc):
        return VmcSampling(walkers, block, number, saved, measured)
    if isinstance(block, Dmc):
        return DmcSampling(walkers, block, part.walkers, part.timestep, number, saved, measured)
    return Optimisation(walkers, block, number, saved)


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
