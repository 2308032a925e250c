"""Run the sections of a deck in order; walkers carry over from one to the next.

What every finished section left is kept, walkers and blocks, so that a checkpoint, or a run that is complete, can be continued
with more blocks in any of its sections: each has random numbers of its own, and the later ones stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qsim.core.errors import NumericsError
from qsim.core.run.timing.sections import Sections
from qsim.qmc.analysis import Analysis, Fit, analyse, average_of, fit_sections
from qsim.qmc.deck.series import Dmc, Vmc
from qsim.qmc.estimators import collection
from qsim.qmc.estimators.histograms import Setting
from qsim.qmc.sampling.dmc import DmcSampling
from qsim.qmc.sampling.forces import Displacements
from qsim.qmc.sampling.optimise import Optimisation
from qsim.qmc.sampling.series import Sampler, Series, averaged, sample
from qsim.qmc.sampling.vmc import VmcSampling
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.singular import divergences

if TYPE_CHECKING:
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.problem import Part, Problem
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["Result", "final_state", "run"]

TWISTS = 0x10000  # random streams from one twist to the next; those of one end with that which places walkers

Saved = dict[int, Mapping[str, Any]]
"""By the number of a part: its first parameters, and the state from which blocks can be added, or why it failed."""

Optimised = dict[int, tuple[Series, NDArray[np.float64]]]
"""By the number of a part: an optimisation that is over, and the parameters of the trial function then."""


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
    after : Wavefunction
        The trial function at the end.
    state
        Everything that is needed to add blocks.
    twists : list of TwistResult
        What each of several twists gave; empty for one.  `series` and `analyses` are averages over them; an optimisation is that
        of one of them, which `Series.twist` names.
    """

    problem: Problem
    series: list[Series]
    analyses: list[Analysis | None]
    fits: list[Fit]
    after: Wavefunction
    state: Mapping[str, Any]
    twists: list[TwistResult] = field(default_factory=list)


@dataclass
class TwistResult:
    """Results of one twist.

    Attributes
    ----------
    number : int
        Of the twist.
    series : list of Series
        Of all parts; an optimisation is that of the first twist which came to its end.
    analyses : list of Analysis
        Statistics of all parts; None for optimisations.
    after : Wavefunction
        The trial function at the end.
    """

    number: int
    series: list[Series]
    analyses: list[Analysis | None]
    after: Wavefunction


def final_state(result: Result) -> Mapping[str, Any]:
    """Return the state needed to add blocks to a complete run."""
    return result.state


def run(problem: Problem, monitor: Monitor) -> Result:
    """Run all sections and analyse their blocks."""
    with monitor.together("twist"):
        return _run(problem, monitor)


def _run(problem: Problem, monitor: Monitor) -> Result:
    """Run all sections of all twists, and average them."""
    for text in problem.warnings:
        monitor.warn(text)
    # A checkpoint, or a complete run that is given more blocks, has the end of each part.
    before = dict(enumerate((monitor.restored or {}).get("parts", [])))
    saved: Saved = {k: part for k, part in before.items() if part}
    monitor.sections = Sections(_works(problem))
    twists = _run_twists(problem, saved, monitor)
    # Twists that failed are missing here: the average is over those that are left.
    weights = [problem.twists[one.number].weight for one in twists]
    series, analyses = twists[0].series, twists[0].analyses
    if problem.others:
        # the sums of an optimisation belong to one twist, all others are averaged
        series = [
            found[0] if found[0].kind == "optimize" else averaged(found, weights)
            for found in zip(*(one.series for one in twists), strict=True)
        ]
        analyses = [
            None if known[0] is None else average_of(known, weights)
            for known in zip(*(one.analyses for one in twists), strict=True)
        ]
    fits = fit_sections(problem.parts, analyses, monitor, problem.wavefunction.system.highest_energy)
    # The time step error of the energy depends on the energies of the cores.
    state = {"parts": _as_list(saved)}
    return Result(problem, series, analyses, fits, twists[0].after, state, twists if problem.others else [])


def _run_twists(problem: Problem, saved: Saved, monitor: Monitor) -> list[TwistResult]:
    """Run all twists; one that fails is left out, and told.

    Raises
    ------
    NumericsError
        If all twists fail.
    """
    twists: list[TwistResult] = []
    optimised: Optimised = {}
    for t in range(1 + len(problem.others)):
        try:
            twists.append(_Twist(problem, t, optimised, saved, monitor).run())
        # A singular Slater matrix or an energy that is not finite at one twist says nothing
        # about the others.
        except NumericsError as error:
            if not problem.others:
                raise
            monitor.warn(f"{problem.twists[t]} is left out of the average: {error}")
            last = error
    if not twists:
        text = f"none of {1 + len(problem.others)} twists could be run; the last one: {last}"
        raise NumericsError(text, hint=last.hint) from last
    return twists


def _works(problem: Problem) -> list[float]:
    """Return the work of all sections of all twists, as moves of walkers; optimisations belong to the first twist."""
    first = [part.generations * part.walkers for part in problem.parts]
    other = [
        0.0 if part.kind == "optimize" else work for part, work in zip(problem.parts, first, strict=True)
    ]
    return first + len(problem.others) * other


def _as_list(saved: Saved) -> list[Mapping[str, Any]]:
    return [saved.get(k, {}) for k in range(1 + max(saved, default=-1))]


@dataclass
class _Twist:
    """A twist that is run.

    Attributes
    ----------
    problem
        The problem.
    number
        Of the twist.
    optimised
        Optimisations that are over, of any twist; in/out.
    saved
        Ends of all parts; in/out.
    monitor
        Observer of the run.
    """

    problem: Problem
    number: int
    optimised: Optimised
    saved: Saved
    monitor: Monitor

    @property
    def prefix(self) -> str:
        """Start of all that is said of one of several twists."""
        return f"{self.problem.twists[self.number]}: " if self.problem.others else ""

    def run(self) -> TwistResult:
        """Run all parts, but for optimisations that an earlier twist has done, and analyse them."""
        problem, monitor, t = self.problem, self.monitor, self.number
        # The places where E_L diverges are known from the trial function, without a sample.
        wavefunction = problem.wavefunction if t == 0 else problem.others[t - 1]
        singular = monitor.judged(
            "where the local energy diverges", functools.partial(divergences, wavefunction), None
        )
        walkers = Walkers(
            problem.device, wavefunction, problem.parts[0].walkers, problem.key, single=problem.single
        )
        if problem.others:
            monitor.note(f"{problem.twists[t]}, weight {problem.twists[t].weight:.4g}")
        # A twist that is resumed has its walkers in the state of its first part.
        if t * len(problem.parts) not in self.saved:
            walkers.place()
        series = [self._part(k, walkers) for k in range(len(problem.parts))]
        # Mean kinetic energy times this: the mean square of a wave number, to which singular
        # terms are compared.
        momentum = 2.0 * wavefunction.system.mass / wavefunction.n_electrons
        analyses = [
            analyse(one, monitor, singular, momentum, wavefunction.n_electrons, single=problem.single)
            for one in series
        ]
        return TwistResult(t, series, analyses, walkers.wavefunction)

    def _part(self, k: int, walkers: Walkers) -> Series:
        """Run part `k`, or what is missing of it, and keep its end; an optimisation is done once for all twists."""
        if k in self.optimised:
            return self.optimised[k][0]
        problem, monitor = self.problem, self.monitor
        place = self.number * len(problem.parts) + k
        part, mine = problem.parts[k], self.saved.get(place, {})
        # It failed before the interruption, and would fail again with the same random
        # numbers.
        if "failed" in mine:
            raise NumericsError(mine["failed"])
        parameters = self._follow(k, walkers, mine)
        if monitor.sections is not None:
            monitor.sections.enter(place)
        measured = None
        # Optimisations change the trial function: there is nothing to average.
        # Each part of each twist has its own stream, so that more blocks in one of them leave
        # the others as they are.
        number = part.number + TWISTS * self.number
        wanted = [block for block in problem.measured if part.kind == "vmc" or block.diffusion]
        if wanted and part.kind != "optimize":
            system = problem.wavefunction.system
            crystal = walkers.wavefunction.periodic()
            # A product of two orbitals has no node, an expansion may have some.
            nodes = max(system.n_up, system.n_dn) > 1 or walkers.wavefunction.expansion.size > 1
            setting = Setting(
                problem.device,
                system.n_up,
                system.n_dn,
                problem.atoms,
                crystal,
                nodes=nodes,
                response=Displacements(walkers, number),
            )
            measured = collection.make(setting, wanted)
        sampler = _sampler(part, number, walkers, mine.get("state"), measured, monitor)
        within = _PartOfRun(place, sampler, parameters, self.saved)
        try:
            series = sample(sampler, monitor, within)
        except NumericsError as error:  # a run that is resumed need not fail again
            self.saved[place] = {"parameters": parameters, "failed": str(error)}
            raise
        self.saved[place] = within.own()
        if problem.others:
            series.twist, series.label = self.number, self.prefix + series.label
        if measured:
            self._measure(series, measured)
        for text in series.warnings:
            monitor.warn(self.prefix + text)
        if part.kind == "optimize":
            self.optimised[k] = series, walkers.wavefunction.parameters
        return series

    def _follow(self, k: int, walkers: Walkers, mine: Mapping[str, Any]) -> NDArray[np.float64]:
        """Let the walkers follow the trial function that part `k` begins with; return its parameters."""
        # The parameters of the last optimisation before this part, unless a checkpoint says
        # with which ones it began.
        before = [self.optimised[j][1] for j in sorted(self.optimised) if j < k]
        parameters = walkers.wavefunction.parameters
        if mine:
            parameters = np.asarray(mine["parameters"], np.float64)
        elif before:
            parameters = before[-1]
        if not np.array_equal(parameters, walkers.wavefunction.parameters):
            walkers.set_wavefunction(walkers.wavefunction.with_parameters(parameters))
            if not mine:
                walkers.recompute()
        # A part that was begun has its own walkers.
        if k and not mine:
            _resize(walkers, self.problem.parts[k].walkers)
        return parameters

    def _measure(self, series: Series, measured: Estimators) -> None:
        """Give a part the tables of its estimators, and tell what they lack."""
        judged, label = self.monitor.judged, series.label
        found = judged(f"the errors of what {label} measured", measured.arrays, None)
        series.arrays.update(measured.arrays(errors=False) if found is None else found)
        unseen: list[str] = []
        for text in judged(f"what {label} did not measure", measured.notes, unseen):
            self.monitor.warn(self.prefix + text)


def _sampler(
    part: Part,
    number: int,
    walkers: Walkers,
    saved: Mapping[str, Any] | None,
    measured: Estimators | None,
    monitor: Monitor,
) -> Sampler:
    """Return the computation of a part, from the state where it was interrupted or complete."""
    block = part.block
    if isinstance(block, Vmc):
        return VmcSampling(walkers, block, number, saved, measured)
    if isinstance(block, Dmc):
        return DmcSampling(walkers, block, part.walkers, part.timestep, number, saved, measured)
    return Optimisation(walkers, block, number, saved, monitor)


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
        Of the trial function with which the part begins.
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
