"""Diffusion Monte Carlo with fixed nodes, at one time step.

Importance-sampled drift and diffusion, one electron after the other, with the limited drift of Umrigar, Nightingale and Runge,
J. Chem. Phys. 99, 2865 (1993), rejection (also at nodes), an effective time step, and branching weights
``exp(-tau_eff ((E + E') / 2 - E_T))`` whose energies are clipped to a window of ``0.2 sqrt(N / tau)`` around the mean (Zen,
Sorella, Gillan, Michaelides and Alfe, Phys. Rev. B 93, 241118 (2016)).

Trial energy, reference energy and effective time step stay the same from one branching to the next, or for an equal part of that
of at most ten generations.  Sums over the walkers act one such interval late: they are on their way to the host, and to the other
ranks, while the next one moves.  Walkers branch where they are; no device waits for the host.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device import rng
from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress
from qsim.qmc.kernels.estimators.estimators import TOTALS
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, ACCEPTED_SQUARE, NONLOCAL, PROPOSED_SQUARE
from qsim.qmc.sampling.branching import UNEVEN, Population
from qsim.qmc.sampling.numbers import Numbers
from qsim.qmc.sampling.series import ENERGIES, Agreement, Series
from qsim.qmc.sampling.vmc import Rows
from qsim.qmc.statistics.samples import COLUMNS, PARTS, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.qmc.deck.series import Dmc
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.sampling.messages import Message
    from qsim.qmc.sampling.walkers import Branched, Walkers

__all__ = ["DmcSampling"]

BRANCHING = 0x8000  # added to the section's stream for the random numbers of branching
SIGMA = 0.2  # of the branching window, Zen et al.
MEMORY = 200  # generations whose mean energy steers the trial energy at first
LASTING = 1e9  # the same in blocks
LOW_ACCEPTANCE = 0.98
LONGEST = 10  # generations by one trial energy, so that the population is held however seldom walkers branch
FEW = 128  # walkers up to which every generation has its own: their sum soon leaves its limits


class Force(NamedTuple):
    """Energy in the middle of the window, trial energy (hartree), and effective over nominal time step, of a generation."""

    reference: float
    trial: float
    tau_ratio: float


@dataclass
class _Interval:
    """Generations by one trial energy; while warming up, a single one.

    Attributes
    ----------
    numbers
        Their sums.
    first
        Number of the first one.
    memory
        Generations that steer the trial energy; infinity in a block.
    trial
        Trial energy, hartree.
    before
        Sums of generations of it that are counted already.
    branched
        Weights before the branching at its end, if there is one.
    """

    numbers: Numbers
    first: int
    memory: float
    trial: float
    before: list[NDArray[np.float64]] = field(default_factory=list)
    branched: Branched | None = None


class _Block:
    """Sums of a block so far; part of a checkpoint."""

    def __init__(self, restored: Mapping[str, Any] | None = None) -> None:
        restored = restored or {}
        self.generations = int(restored.get("generations", 0))
        self.tried = float(restored.get("tried", 0.0))  # moves
        self.sums = np.array(restored.get("sums", np.zeros(TOTALS)), np.float64)
        self.part = np.array(restored.get("part", np.zeros((1, COLUMNS))), np.float64)

    def add(self, totals: NDArray[np.float64], tried: int) -> None:
        """Add a generation."""
        self.generations += 1
        self.tried += tried
        self.sums += totals
        self.part += totals[:COLUMNS]


class _Steering:
    """Running means that steer the trial energy and the effective time step; part of a checkpoint."""

    def __init__(self, restored: Mapping[str, Any] | None = None) -> None:
        self.energy = 0.0  # mean local energy, hartree
        self.energies = 0.0  # generations that it has seen
        self.proposed = 0.0  # sum of the squares of all proposed moves, bohr^2
        self.accepted = 0.0  # of the accepted ones
        self.trial = 0.0  # trial energy, hartree
        if restored:
            for name, value in restored.items():
                setattr(self, name, float(value))

    @property
    def tau_ratio(self) -> float:
        """Effective over nominal time step."""
        return self.accepted / self.proposed if self.proposed > 0.0 else 1.0

    @property
    def force(self) -> Force:
        """Return the parameters of the next generation."""
        return Force(self.energy, self.trial, self.tau_ratio)

    def see(self, energy: float, memory: float) -> None:
        """Add the mean of a generation; older ones than `memory` count less."""
        # A running mean over all generations at first, and later over the last `memory` of
        # them.
        self.energies = min(self.energies + 1.0, memory)
        self.energy += (energy - self.energy) / self.energies


class DmcSampling:
    """Blocks of diffusion Monte Carlo: the lowest energy with the nodes of the trial function.

    Parameters
    ----------
    walkers
        Ensemble distributed as the square of the trial function, or as an earlier section left it; in/out.
    block
        Settings of the section.
    target
        Number of walkers that population control aims at.
    tau
        Time step, 1/hartree.
    section
        Number of the section and time step, a word of the random counters.
    saved
        State to continue from.
    estimators
        What to measure besides energies.
    """

    unit = "blocks"

    def __init__(
        self,
        walkers: Walkers,
        block: Dmc,
        target: int,
        tau: float,
        section: int,
        saved: Mapping[str, Any] | None = None,
        estimators: Estimators | None = None,
    ) -> None:
        self.walkers = walkers
        self.estimators = estimators
        self.tau = tau
        self.section = section
        self.total = block.blocks
        self.what = f"dmc tau = {tau:g}"
        self.steps = block.steps
        # Population control sees sums over all ranks, so that every rank branches alike.
        self.population = Population(target=target, control=block.population)
        self.feedback = block.feedback
        self.tmoves = block.nonlocal_ == "tmove"
        self.branch_every = block.branch_every
        # As many generations by one trial energy as fit between two branchings.
        longest = LONGEST if target > FEW else 1
        self.interval = max(n for n in range(1, longest + 1) if self.branch_every % n == 0)
        # Local energies are cut off at E +- 0.2 sqrt(N / tau) in weights (Zen and others,
        # Phys. Rev. B 93, 241118 (2016)): a size-consistent bound that opens as tau goes to
        # zero.
        self.window = SIGMA * math.sqrt(walkers.electrons / tau)
        self.warmup = math.ceil(block.warmup / tau)
        self.fresh = not saved
        saved = saved or {}
        if saved:
            walkers.restore(saved["walkers"])
            if estimators:
                estimators.restore(saved.get("estimators", {}), walkers.comm)
        self.rows = Rows(saved.get("rows"))
        self.warm = int(saved.get("warm", 0))  # generations of the warm-up that are done
        self.begun = int(saved.get("begun", len(self.rows) * self.steps))  # generations of blocks
        self.steering = _Steering(saved.get("steering"))
        self.old = float(saved.get("old", 0.0))  # persistent walkers so far
        self.worst = float(saved.get("worst", 0.0))  # relative error of an updated inverse
        self.parts = min(PARTS, self.steps)  # of a block, whose sums are kept apart
        self.samples = Samples(1, self.parts, saved.get("samples"))
        self.block = _Block(saved.get("block"))
        self.force = Force(*saved["force"]) if "force" in saved else self.steering.force
        self.uneven = bool(saved.get("uneven", False))  # whether all walkers branch together next
        self.before = list(np.asarray(saved.get("before", np.zeros((0, TOTALS))), np.float64))
        self.exact = True  # inverses are those of the positions
        self._open: _Interval | None = None  # at work
        self._sent: _Interval | None = None  # on its way
        self._recomputed: list[Message] = []
        self._agreement = Agreement(walkers.comm.size)
        self._since = time.perf_counter()

    @property
    def done(self) -> int:
        """Blocks done so far."""
        return len(self.rows)

    def _start(self) -> None:
        """Take the energies of the walkers as they are."""
        walkers, xp = self.walkers, self.walkers.device.xp
        walkers.recompute()
        # Weights need the local energy before the first move, too.
        walk.energies(walkers.device, walkers.mine, walkers.tables, walkers.stream(self.section))
        walkers.publish_energies()
        walkers.check_finite()
        # What an earlier section left is taken as a fresh sample: equal weights, no ages. Its
        # walkers are copies of each other, which the statistics must know.
        walkers.state.weight[...] = 1.0
        walkers.state.age[...] = 0
        walkers.state.moves[...] = 0.0
        walkers.warm, walkers.related = 0.0, True
        self.steering.see(float(walkers.device.to_host(xp.mean(walkers.state.energy[:, 5]))), MEMORY)
        self.steering.trial = self.steering.energy
        self.force = self.steering.force

    # ---------------------------------------------------------------------------------- generations

    def _generation(self, memory: float) -> None:
        """Do one generation; at the end of an interval let walkers branch, and learn of the interval before.

        Parameters
        ----------
        memory
            Generations whose mean energy steers the trial energy; infinity in a block.
        """
        walkers, force = self.walkers, self.force
        # One launch for all walkers: moves, energies, weights, T-moves.
        walk.diffuse(
            walkers.device,
            walkers.mine,
            walkers.tables,
            self.tau,
            walkers.stream(self.section),
            tmoves=self.tmoves,
            reference=force.reference,
            trial=force.trial,
            window=self.window,
            tau_ratio=force.tau_ratio,
        )
        walkers.generation += 1
        walkers.settled += self.tau
        self.exact = False
        if self._open is None:
            most = 1 if memory < math.inf else self.interval
            numbers = Numbers(walkers, force.reference, self.window, most)
            self._open = _Interval(numbers, walkers.generation, memory, force.trial)
        self._open.numbers.add()
        if memory < math.inf or walkers.generation % self.interval == 0:
            # Weights differ little from 1 between two branchings.
            self._end_interval(walkers.generation % self.branch_every == 0)

    def _end_interval(self, branches: bool) -> None:
        """Learn of the interval before, let walkers branch, and send the numbers of this one."""
        # The device is busy with the generations of this interval: time for what the one before
        # has left.
        self._learn()
        interval, self._open = self._open, None
        if interval is None:
            raise ValueError("an interval ends that has not begun")
        interval.before, self.before = self.before, []
        if branches:
            interval.branched = self._branch()
            interval.numbers.weigh(interval.branched.sums)
        interval.numbers.send()
        self._sent = interval
        self.force = self.steering.force

    def _branch(self) -> Branched:
        """Let walkers branch: by the same random numbers on all ranks, counted by the generation."""
        walkers, population = self.walkers, self.population
        # Which walkers survive does not depend on how they are distributed.
        draws = population.draws(walkers.count)
        uniforms = rng.uniform(walkers.key, self.section + BRANCHING, walkers.generation, draws)
        return walkers.branch(population, uniforms, together=self.uneven)

    def _learn(self) -> None:
        """Take in the numbers of the last interval that was sent; a collective call."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        totals = self._read(sent)
        # Their sums steer later generations, those that were counted before too.
        for row in [*sent.before, *totals]:
            self._steer(row, sent.memory)
        self.old += float(sent.numbers.weighed[2])
        # Groups whose mean weights have parted branch together for once.
        groups = sent.numbers.groups
        self.uneven = bool(groups.max() > UNEVEN * groups.min())

    def _learn_all(self) -> None:
        """Take in what there is so far, of the interval at work too; a collective call."""
        self._learn()
        if self._open is not None:
            interval, self._open = self._open, None
            interval.numbers.send()
            # They are counted now, and steer when the interval is over: what follows is the same
            # as if nobody had asked.
            self.before += list(self._read(interval))

    def _read(self, interval: _Interval) -> NDArray[np.float64]:
        """Return the sums of the generations of an interval, (generations, 13), and count those of a block; a collective call.

        Raises
        ------
        NumericsError
            If a number is not finite, or a walker lies on a node; the walker is shown.
        """
        # One message also has the errors of the inverses that were made anew since.
        walkers, recomputed = self.walkers, self._recomputed
        self._recomputed = []
        found = [walkers.worst(message) for message in recomputed]
        own = [
            max((error for error, _ in found), default=0.0),
            min((at for _, at in found), default=math.inf),
        ]
        told = interval.numbers.read(np.array([self._agreement.waited(), *own]))
        self._agreement.learn(told[:, 0])
        self.worst = max(self.worst, walkers.judge_all(told[:, 1:]))
        self._check(interval)
        totals = interval.numbers.totals
        if interval.memory == math.inf:
            for row in totals:
                self._count(row, interval)
        return totals

    def _check(self, interval: _Interval) -> None:
        """Raise if a number of an interval is not finite, or a weight out of range."""
        walkers, branched = self.walkers, interval.branched
        finite = np.isfinite(interval.numbers.totals).all(axis=1)
        if not finite.all():
            walkers.check_finite()
        if branched is not None and interval.numbers.weighed[1]:
            self.population.refuse(walkers.join_on_device(branched.weights))
        if not finite.all():
            generation = interval.first + int(np.argmin(finite))
            raise NumericsError(
                f"the weights of generation {generation} are not finite",
                hint="smaller timesteps or an optimised Jastrow factor",
            )

    def _steer(self, totals: NDArray[np.float64], memory: float) -> None:
        """Let the sums of a generation steer later ones."""
        steering, weight = self.steering, float(totals[7])
        moves = totals[8:12]
        # Effective time step of Umrigar and others: tau times accepted over proposed squared
        # displacements, since rejected moves diffuse less.
        steering.proposed += float(moves[PROPOSED_SQUARE])
        steering.accepted += float(moves[ACCEPTED_SQUARE])
        # The reference of the window follows the mean energy; the trial energy also pulls the
        # population to its target.
        steering.see(float(totals[5]) / weight, min(memory, LASTING))
        self.population.check(weight)
        warmup = memory < math.inf
        time = self.tau if warmup else self.tau * self.interval
        steering.trial = self.population.trial_energy(steering.energy, weight, time, self.feedback, warmup)

    # ----------------------------------------------------------------------------------------- runs

    def advance(self, report: Report) -> None:
        """Project to the last block.

        Raises
        ------
        NumericsError
            If the population leaves its limits or an energy is not a number.
        """
        if self.fresh:
            self._start()
        self._since = time.perf_counter()
        # While warming up, the running mean forgets the trial function's energy: its memory
        # grows with the run.
        while self.warm < self.warmup:
            self._generation(min(MEMORY, 1 + 0.5 * self.warm))
            self.warm += 1
            if self.warm % self.steps == 0:
                self._recompute()
            self._report(report, Progress())
        while len(self.rows) < self.total:
            before = len(self.rows)
            self._go_on()
            if len(self.rows) > before:
                energy = self.rows.columns["energy"][-1]
                self._report(report, Progress(len(self.rows), {"energy": energy}))
            # A long block hears a stop between generations.
            elif self._agreement.overdue:
                self._report(report, Progress())

    def _report(self, report: Report, progress: Progress) -> None:
        """Report where all ranks do, and at the end."""
        if self._agreement.due or progress.done == self.total:
            report(progress)
            self._agreement.reported()

    def _go_on(self) -> None:
        """Do a generation of a block or, after the last one, learn of it."""
        if self.begun == self.total * self.steps:
            self._learn_all()
            return
        # A memory without end: the trial energy settles, and with it the bias that its
        # fluctuations make.
        self._generation(math.inf)
        self.begun += 1
        if self.estimators:
            self.walkers.measure(self.estimators)
        if self.begun % self.steps:
            return
        self._recompute()
        # Histograms are closed before the next generation adds to them, with all that is counted.
        if self.estimators:
            self._learn_all()
            self.estimators.close_block(self.walkers.comm)

    def _recompute(self) -> None:
        """Make inverses anew; how far they were off comes with the numbers of this generation."""
        self._recomputed.append(self.walkers.begin_recompute())
        self.exact = True

    def _count(self, totals: NDArray[np.float64], interval: _Interval) -> None:
        """Add the sums of a generation to its block, which may be the last of it."""
        block, steps = self.block, self.steps
        block.add(totals, self.walkers.electrons * interval.numbers.count)
        # Sums of parts of a block are kept apart, for correlations shorter than a block.
        if block.generations * self.parts // steps > (block.generations - 1) * self.parts // steps:
            self.samples.add(block.part)
            block.part = np.zeros((1, COLUMNS))
        if block.generations == steps:
            self._close(block, interval.trial)
            self.block = _Block()

    def _close(self, block: _Block, trial: float) -> None:
        """Add the row of a block, whose last generation had a trial energy (hartree)."""
        sums = block.sums
        weight, moves = sums[7], sums[8:12]
        means = sums[:7] / weight
        now = time.perf_counter()
        self.rows.add(
            **dict(zip(ENERGIES, means[:6], strict=True)),
            energy_squared=means[6],
            weight=weight,
            acceptance=moves[ACCEPTED] / block.tried,
            nonlocal_moves=moves[NONLOCAL] / block.tried,
            population=weight / self.steps,
            trial_energy=trial,
            # What the window cuts off from the energies: a bias of this order remains at this
            # time step.
            cut_energy=sums[12] / weight,
            seconds=now - self._since,
        )
        self._since = now

    def state(self) -> State:
        """Return walkers, blocks and running means; a collective call."""
        # What is on its way arrives first; the next generation goes by the same numbers as if
        # it had arrived later.
        self._learn_all()
        state: dict[str, Any] = {
            "walkers": self.walkers.saved(exact=self.exact),
            "rows": self.rows.arrays(),
            "warm": self.warm,
            "begun": self.begun,
            "block": dict(vars(self.block)),
            "force": np.array(self.force),
            "steering": dict(vars(self.steering)),
            "old": self.old,
            "worst": self.worst,
            "samples": self.samples.state(),
            "uneven": self.uneven,
            "before": np.array(self.before).reshape(-1, TOTALS),
        }
        if self.estimators:
            state["estimators"] = self.estimators.state(self.walkers.comm)
        return state

    def series(self) -> Series:
        """Return the blocks, with warnings about rejected moves and persistent walkers."""
        blocks, count = self.rows.arrays(), float(self.walkers.count)
        # Blocks count by their weights in all means, as they do in the statistics.
        length = blocks["energy"].size * self.steps  # generations
        energy = float(np.average(blocks["energy"], weights=blocks["weight"]))
        square = float(np.average(blocks["energy_squared"], weights=blocks["weight"]))
        acceptance = float(blocks["acceptance"].mean())
        return Series(
            kind="dmc",
            label=f"dmc, tau = {self.tau:g}",
            timestep=self.tau,
            blocks=blocks,
            info={
                "variance": max(square - energy * energy, 0.0),
                "acceptance": acceptance,
                "effective_timestep": self.tau * self.steering.tau_ratio,
                "inverse_error": self.worst,
                "population": float(blocks["population"].mean()),
                "walkers": count,
                "generations": float(length) * count,
                "seconds": float(blocks["seconds"].sum()),
                "persistent": self.old,
                "block_time": self.tau * self.steps,
                "warm": self.tau * self.warm,
                "settled": self.walkers.settled - self.tau * self.steps * blocks["energy"].size,
                "related": 1.0,
                "feedback": self.feedback,
                **self.walkers.cell_info(),
            },
            samples=self.samples,
            warnings=list(self._warnings(acceptance)),
        )

    def _warnings(self, acceptance: float) -> Iterator[str]:
        """Yield what a user must know about the sampling."""
        # Below, the time step error is no small correction any more.
        if acceptance < LOW_ACCEPTANCE:
            yield (
                f"dmc tau = {self.tau:g}: only {100 * acceptance:.1f} % of the moves were accepted; a smaller timestep has a "
                "smaller error"
            )
        if self.old:
            yield (
                f"dmc tau = {self.tau:g}: {self.old:.0f} times a walker that had not moved for {self.population.max_age} "
                "generations was kept from multiplying"
            )
