"""Run the sections of a deck in order; walkers carry over from one to the next.

Several twists are run one after the other, and averaged.  Several states go through each section one after the other, so that a
later one knows what became of those before it.

What every finished section left is kept, walkers and blocks, so that a checkpoint, or a run that is complete, can be continued
with more blocks in any of its sections: each has random numbers of its own, and the later ones stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
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
from qsim.qmc.sampling.states import Penalty, Ratios
from qsim.qmc.sampling.vmc import VmcSampling
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.singular import divergences

if TYPE_CHECKING:
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.problem import Problem
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["Result", "final_state", "run"]

TWISTS = 0x10000  # random streams from one twist or state to the next; those of one end with that which places walkers

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
    twists : list of MemberResult
        What each of several twists gave; empty for one.  `series` and `analyses` are averages over them; an optimisation is that
        of one of them, which `Series.member` names.
    states : list of MemberResult
        What each of several states gave; empty for one.  `series` and `analyses` are those of the first one.
    """

    problem: Problem
    series: list[Series]
    analyses: list[Analysis | None]
    fits: list[Fit]
    after: Wavefunction
    state: Mapping[str, Any]
    twists: list[MemberResult] = field(default_factory=list)
    states: list[MemberResult] = field(default_factory=list)


@dataclass
class MemberResult:
    """Results of one twist or state.

    Attributes
    ----------
    number : int
        Of the twist, or of the state in the order of the deck.
    series : list of Series
        Of all parts; an optimisation is that of the first twist which came to its end.
    analyses : list of Analysis
        Statistics of all parts; None for optimisations.
    after : Wavefunction
        The trial function at the end.
    fits : list of Fit
        Of a state: energies against the time step, for each dmc section.
    """

    number: int
    series: list[Series]
    analyses: list[Analysis | None]
    after: Wavefunction
    fits: list[Fit] = field(default_factory=list)


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
    if problem.roots:
        states = _run_states(problem, saved, monitor)
        first = states[0]
        kept = {"parts": _as_list(saved)}
        return Result(problem, first.series, first.analyses, first.fits, first.after, kept, states=states)
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


def _run_states(problem: Problem, saved: Saved, monitor: Monitor) -> list[MemberResult]:
    """Run each part for all states before the next one."""
    members: list[_Member] = []
    for t in range(problem.members):
        members.append(_Member(problem, t, {}, saved, monitor, members))
    for k in range(len(problem.parts)):
        for member in members:
            member.part(k)
    found = [member.result() for member in members]
    for one in found:
        one.fits = fit_sections(
            problem.parts, one.analyses, monitor, problem.wavefunction.system.highest_energy
        )
    return found


def _run_twists(problem: Problem, saved: Saved, monitor: Monitor) -> list[MemberResult]:
    """Run all twists; one that fails is left out, and told.

    Raises
    ------
    NumericsError
        If all twists fail.
    """
    twists: list[MemberResult] = []
    optimised: Optimised = {}
    for t in range(1 + len(problem.others)):
        try:
            member = _Member(problem, t, optimised, saved, monitor)
            for k in range(len(problem.parts)):
                member.part(k)
            twists.append(member.result())
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
    if problem.roots:
        return [work for work in first for _ in range(problem.members)]
    return first + len(problem.others) * other


def _as_list(saved: Saved) -> list[Mapping[str, Any]]:
    return [saved.get(k, {}) for k in range(1 + max(saved, default=-1))]


@dataclass
class _Member:
    """A twist or state that is run.

    Attributes
    ----------
    problem
        The problem.
    number
        Of the twist or state.
    optimised
        Optimisations that are over, of any twist, or of this state; in/out.
    saved
        Ends of all parts; in/out.
    monitor
        Observer of the run.
    states
        All states that are run, in their order; none of twists.
    walkers
        Its walkers.
    series
        Parts that are over.
    """

    problem: Problem
    number: int
    optimised: Optimised
    saved: Saved
    monitor: Monitor
    states: Sequence[_Member] = ()
    walkers: Walkers = field(init=False)
    series: list[Series] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Place its walkers."""
        problem, t = self.problem, self.number
        wavefunction, count = problem.wavefunction_of(t), problem.parts[0].walkers
        self.walkers = Walkers(problem.device, wavefunction, count, problem.key, single=problem.single)
        if problem.others and not problem.roots:
            self.monitor.note(f"{problem.twists[t]}, weight {problem.twists[t].weight:.4g}")
        # A twist that is resumed has its walkers in the state of its first part.
        if problem.place(t, 0) not in self.saved:
            self.walkers.place()

    @property
    def prefix(self) -> str:
        """Start of all that is said of one of several twists or states."""
        name = self.problem.name(self.number)
        return f"{name}: " if name else ""

    def part(self, k: int) -> None:
        """Run part `k`, but for an optimisation that an earlier twist has done."""
        self.series.append(self._part(k, self.walkers))

    def result(self) -> MemberResult:
        """Analyse all parts."""
        problem, monitor, t, walkers, series = (
            self.problem,
            self.monitor,
            self.number,
            self.walkers,
            self.series,
        )
        # The places where E_L diverges are known from the trial function, without a sample.
        wavefunction = problem.wavefunction_of(t)
        singular = monitor.judged(
            "where the local energy diverges", functools.partial(divergences, wavefunction), None
        )
        # Mean kinetic energy times this: the mean square of a wave number, to which singular
        # terms are compared.
        momentum = 2.0 * wavefunction.system.mass / wavefunction.n_electrons
        analyses = [
            analyse(one, monitor, singular, momentum, wavefunction.n_electrons, single=problem.single)
            for one in series
        ]
        return MemberResult(t, series, analyses, walkers.wavefunction)

    def _part(self, k: int, walkers: Walkers) -> Series:
        """Run part `k`, or what is missing of it, and keep its end; an optimisation is done once for all twists."""
        if k in self.optimised:
            return self.optimised[k][0]
        problem, monitor = self.problem, self.monitor
        place = problem.place(self.number, k)
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
                ratios=Ratios(walkers, [one.walkers for one in self.states]) if self.states else None,
                states=len(self.states),
            )
            measured = collection.make(setting, wanted)
        sampler = self._sampler(k, number, mine.get("state"), measured)
        within = _PartOfRun(place, sampler, parameters, self.saved)
        try:
            series = sample(sampler, monitor, within)
        except NumericsError as error:  # a run that is resumed need not fail again
            self.saved[place] = {"parameters": parameters, "failed": str(error)}
            raise
        self.saved[place] = within.own()
        if problem.others:
            series.label = self.prefix + series.label
            series.member = self._member
        if measured:
            self._measure(series, measured)
        for text in series.warnings:
            monitor.warn(self.prefix + text)
        if part.kind == "optimize":
            self.optimised[k] = series, walkers.wavefunction.parameters
        return series

    @property
    def _member(self) -> str | None:
        """Folder of its arrays; those of the first state are where those of a single one would be."""
        if self.problem.roots:
            return f"state_{self.problem.roots[self.number]}" if self.number else None
        return f"twist_{self.number}"

    def _sampler(
        self, k: int, number: int, saved: Mapping[str, Any] | None, measured: Estimators | None
    ) -> Sampler:
        """Return the computation of part `k`, from the state where it was interrupted or complete."""
        part, walkers, problem = self.problem.parts[k], self.walkers, self.problem
        block = part.block
        if isinstance(block, Vmc):
            return VmcSampling(walkers, block, number, saved, measured)
        if isinstance(block, Dmc):
            return DmcSampling(walkers, block, part.walkers, part.timestep, number, saved, measured)
        penalty = None
        lower = list(self.states)[: self.number]
        if lower and problem.penalty != 0.0:
            energies = [one.series[k].info["energy"] for one in lower]
            penalty = Penalty(walkers, [one.walkers for one in lower], energies, problem.penalty)
        excited = problem.excited or bool(lower)
        return Optimisation(walkers, block, number, saved, self.monitor, penalty=penalty, excited=excited)

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
