"""Diffusion Monte Carlo with fixed nodes, at one time step.

Importance-sampled drift and diffusion, one electron after the other, with the limited drift of Umrigar, Nightingale and Runge,
J. Chem. Phys. 99, 2865 (1993), rejection (also at nodes), an effective time step, and branching weights
``exp(-tau_eff ((E + E') / 2 - E_T))`` whose energies are clipped to a window of ``0.2 sqrt(N / tau)`` around the mean (Zen,
Sorella, Gillan, Michaelides and Alfe, Phys. Rev. B 93, 241118 (2016)).

Sums over the walkers and the choice of a branching act one generation late: they are on their way to the host, and to the other
ranks, while the next generation moves.  No device waits for the host in a generation.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device import rng
from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress
from qsim.qmc.kernels.estimators.estimators import TOTALS
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, ACCEPTED_SQUARE, NONLOCAL, PROPOSED_SQUARE
from qsim.qmc.sampling.branching import Population
from qsim.qmc.sampling.messages import Numbers
from qsim.qmc.sampling.series import ENERGIES, Agreement, Series
from qsim.qmc.sampling.vmc import Rows
from qsim.qmc.statistics.samples import COLUMNS, PARTS, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.core.run.loop import Report, State
    from qsim.qmc.deck.series import Dmc
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.sampling.messages import Message
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["DmcSampling"]

BRANCHING = 0x8000  # added to the section's stream for the random numbers of branching
SIGMA = 0.2  # of the branching window, Zen et al.
MEMORY = 200  # generations whose mean energy steers the trial energy at first
LASTING = 1e9  # the same in blocks
LOW_ACCEPTANCE = 0.98


class Force(NamedTuple):
    """Energy in the middle of the window, trial energy (hartree), and effective over nominal time step, of a generation."""

    reference: float
    trial: float
    tau_ratio: float


@dataclass
class _Sent:
    """A generation whose numbers are on their way.

    Attributes
    ----------
    numbers
        Its sums and, before a branching, its weights.
    generation
        Its number.
    memory
        Generations that steer the trial energy; infinity in a block.
    held : (own walkers,) float64 or None
        Weights by which to branch.
    """

    numbers: Numbers
    generation: int
    memory: float
    held: FloatArray | None


@dataclass
class _Choice:
    """A branching that acts after the next generation.

    Attributes
    ----------
    indices : (new walkers,) int64
    weight : float
        Of each copy, times what its walker has gained since.
    held : (own walkers,) float64
        Weights by which it was chosen.
    """

    indices: Any
    weight: float
    held: FloatArray


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
        """What the next generation goes by."""
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
                estimators.restore(saved.get("estimators", {}))
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
        self.choice = self._restored_choice(saved)
        self._sent: _Sent | None = None
        self._recomputed: Message | None = None
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
        """Do one generation; meanwhile learn of the one before, and branch by its weights.

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
        # The device is busy: time for what the generation before has left.
        self._learn()
        self.force = self.steering.force
        numbers = Numbers(walkers, force.reference, self.window)
        self._branch()
        # Branching every few generations: weights differ little from 1 in between, and it
        # needs those of all ranks.
        held = None
        if walkers.generation % self.branch_every == 0:
            numbers.weigh(self.population)
            held = walkers.mine.weight.copy()
        numbers.send()
        self._sent = _Sent(numbers, walkers.generation, memory, held)

    def _branch(self) -> None:
        """Copy the walkers that were chosen by the weights of the generation before."""
        choice, self.choice = self.choice, None
        if choice is not None:
            self.walkers.branch(choice.indices, choice.weight, choice.held)

    def _learn(self) -> None:
        """Take in the numbers of the last generation that was sent; a collective call."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        # One message also has the errors of the inverses that were made anew since.
        recomputed, self._recomputed = self._recomputed, None
        own = np.array([0.0, math.inf]) if recomputed is None else self.walkers.worst(recomputed)
        told = sent.numbers.read(np.array([self._agreement.waited(), *own]))
        self._agreement.learn(told[:, 0])
        if recomputed is not None:
            self.worst = max(self.worst, self.walkers.judge_all(told[:, 1:]))
        totals = sent.numbers.totals
        if not np.isfinite(totals).all():
            self.walkers.check_finite()
            raise NumericsError(
                f"the weights of generation {sent.generation} are not finite",
                hint="smaller timesteps or an optimised Jastrow factor",
            )
        self._steer(totals, sent.memory)
        if sent.held is not None:
            self.choice = self._chosen(sent, sent.held)
        if sent.memory == math.inf:
            self._count(totals, sent.numbers.count)

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
        steering.trial = self.population.trial_energy(
            steering.energy, weight, self.tau, self.feedback, warmup=memory < math.inf
        )

    def _chosen(self, sent: _Sent, held: FloatArray) -> _Choice:
        """Choose walkers by the weights of a generation."""
        walkers, numbers = self.walkers, sent.numbers
        total, bad, old = (int(x) for x in numbers.weighed)
        if bad:
            self.population.refuse(walkers.join_on_device(held))
        self.old += old
        if numbers.whole is None:
            raise ValueError("a generation without weights chooses nothing")
        # The same numbers on all ranks, counted by the generation: which walkers survive does
        # not depend on how they are distributed.
        count = int(numbers.whole.shape[0])
        draws = rng.uniform(
            walkers.key, self.section + BRANCHING, sent.generation, self.population.draws(count)
        )
        return _Choice(*self.population.choose(numbers.whole, total, draws), held)

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

    def _report(self, report: Report, progress: Progress) -> None:
        """Report where all ranks do, and at the end."""
        if self._agreement.due or progress.done == self.total:
            report(progress)
            self._agreement.reported()

    def _go_on(self) -> None:
        """Do a generation of a block or, after the last one, learn of it."""
        if self.begun == self.total * self.steps:
            self._learn()
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
        # Histograms are closed before the next generation adds to them.
        if self.estimators:
            self._learn()
            self.estimators.close_block(self.walkers.comm)

    def _recompute(self) -> None:
        """Make inverses anew; how far they were off comes with the numbers of this generation."""
        self._recomputed = self.walkers.begin_recompute()

    def _count(self, totals: NDArray[np.float64], walkers: int) -> None:
        """Add the sums of a generation to its block, which may be the last of it."""
        block, steps = self.block, self.steps
        block.add(totals, self.walkers.electrons * walkers)
        # Sums of parts of a block are kept apart, for correlations shorter than a block.
        if block.generations * self.parts // steps > (block.generations - 1) * self.parts // steps:
            self.samples.add(block.part)
            block.part = np.zeros((1, COLUMNS))
        if block.generations == steps:
            self._close(block)
            self.block = _Block()

    def _close(self, block: _Block) -> None:
        """Add the row of a block."""
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
            trial_energy=self.steering.trial,
            # What the window cuts off from the energies: a bias of this order remains at this
            # time step.
            cut_energy=sums[12] / weight,
            seconds=now - self._since,
        )
        self._since = now

    def _restored_choice(self, saved: Mapping[str, Any]) -> _Choice | None:
        """Return the branching that a state has still to come."""
        if "choice" not in saved:
            return None
        choice, device = saved["choice"], self.walkers.device
        held = np.ascontiguousarray(np.asarray(choice["held"], np.float64)[self.walkers.own])
        indices = np.asarray(choice["indices"], np.int64)
        return _Choice(device.asarray(indices), float(choice["weight"]), device.asarray(held))

    def state(self) -> State:
        """Return walkers, blocks, running means and a branching to come; a collective call."""
        # What is on its way arrives first; the next generation goes by the same numbers as if
        # it had arrived later.
        self._learn()
        state: dict[str, Any] = {
            "walkers": self.walkers.saved(),
            "rows": self.rows.arrays(),
            "warm": self.warm,
            "begun": self.begun,
            "block": dict(vars(self.block)),
            "force": np.array(self.force),
            "steering": dict(vars(self.steering)),
            "old": self.old,
            "worst": self.worst,
            "samples": self.samples.state(),
        }
        if self.choice is not None:
            device, choice = self.walkers.device, self.choice
            held = self.walkers.join(device.to_host(choice.held)[:, None])[:, 0]
            state["choice"] = {
                "indices": device.to_host(choice.indices),
                "weight": choice.weight,
                "held": held,
            }
        if self.estimators:
            state["estimators"] = self.estimators.state()
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
