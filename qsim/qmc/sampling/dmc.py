"""Diffusion Monte Carlo with fixed nodes, at one time step.

Importance-sampled drift and diffusion, one electron after the other, with the limited drift of Umrigar, Nightingale and Runge,
J. Chem. Phys. 99, 2865 (1993), rejection (also at nodes), an effective time step, and branching weights
``exp(-tau_eff ((E + E') / 2 - E_T))`` whose energies are clipped to a window of ``0.2 sqrt(N / tau)`` around the mean (Zen,
Sorella, Gillan, Michaelides and Alfe, Phys. Rev. B 93, 241118 (2016)).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import rng
from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, ACCEPTED_SQUARE, NONLOCAL, PROPOSED_SQUARE
from qsim.qmc.sampling.branching import Population
from qsim.qmc.sampling.series import ENERGIES, Series
from qsim.qmc.sampling.vmc import Rows
from qsim.qmc.statistics.samples import COLUMNS, PARTS, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.qmc.deck.series import Dmc
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["DmcSampling"]

BRANCHING = 0x8000  # added to the section's stream for the random numbers of branching
SIGMA = 0.2  # of the branching window, Zen et al.
MEMORY = 200  # generations whose mean energy steers the trial energy at first
LOW_ACCEPTANCE = 0.98


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
        self.steering = _Steering(saved.get("steering"))
        self.old = float(saved.get("old", 0.0))  # persistent walkers so far
        self.worst = float(saved.get("worst", 0.0))  # relative error of an updated inverse
        self.moves = np.zeros(4)  # of the block
        self.parts = min(PARTS, self.steps)  # of a block, whose sums are kept apart
        self.samples = Samples(1, self.parts, saved.get("samples"))

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

    # ---------------------------------------------------------------------------------- generations

    def _generation(self, memory: float, warming: bool) -> tuple[NDArray[np.float64], float]:
        """Do one generation; return the weighted sums of the energies and of their squares, and the sum of weights."""
        walkers, steering, device = self.walkers, self.steering, self.walkers.device
        # One generation for all walkers: moves, energies, weights, T-moves; then sums over
        # the walkers of all ranks, in one message.
        walk.diffuse(
            device,
            walkers.mine,
            walkers.tables,
            self.tau,
            walkers.stream(self.section),
            tmoves=self.tmoves,
            reference=steering.energy,
            trial=steering.trial,
            window=self.window,
            tau_ratio=steering.tau_ratio,
        )
        walkers.generation += 1
        walkers.settled += self.tau
        # Branching every few generations: weights differ little from 1 in between, and it
        # needs a message of its own.
        branching = walkers.generation % self.branch_every == 0
        # Columns: energies weighted (6), square of the total, weights, and the counts of
        # moves.
        numbers = walkers.totals(branching=branching)
        if not np.isfinite(numbers).all():
            walkers.check_finite()
            raise NumericsError(
                f"the weights of generation {walkers.generation} are not finite",
                hint="smaller timesteps or an optimised Jastrow factor",
            )
        total = float(numbers[7])
        moves = numbers[8:]
        self.moves += moves
        # Effective time step of Umrigar and others: tau times accepted over proposed squared
        # displacements, since rejected moves diffuse less.
        steering.proposed += float(moves[PROPOSED_SQUARE])
        steering.accepted += float(moves[ACCEPTED_SQUARE])
        # The reference of the window follows the mean energy; the trial energy also pulls the
        # population to its target.
        steering.see(float(numbers[5]) / total, memory)
        self.population.check(total)
        steering.trial = self.population.trial_energy(
            steering.energy, total, self.tau, self.feedback, warmup=warming
        )
        if branching:
            self._branch()
        return numbers[:7], total

    def _branch(self) -> None:
        """Choose the walkers of the next generation by the weights and ages that :meth:`Walkers.totals` has made agree."""
        walkers, state = self.walkers, self.walkers.state
        # The same numbers on all ranks, counted by the generation: which walkers survive does
        # not depend on how they are distributed.
        draws = rng.uniform(
            walkers.key, self.section + BRANCHING, walkers.generation, self.population.draws(walkers.count)
        )
        indices, new, old = self.population.next_generation(state.weight, state.age, draws)
        self.old += float(old)
        walkers.select(indices, new, settled=True)

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
        # While warming up, the running mean forgets the trial function's energy: its memory
        # grows with the run.
        while self.warm < self.warmup:
            self._generation(min(MEMORY, 1 + 0.5 * self.warm), warming=True)
            self.warm += 1
            if self.warm % self.steps == 0:
                self.walkers.recompute()
            report(Progress())
        while len(self.rows) < self.total:
            self.worst = max(self.worst, self._block())
            report(Progress(len(self.rows), {"energy": self.rows.columns["energy"][-1]}))

    def _block(self) -> float:
        """Sample one block; return the largest relative error of an updated inverse."""
        walkers, steps = self.walkers, self.steps
        begin = time.perf_counter()
        sums = np.zeros(7)
        weight = 0.0
        part = np.zeros((1, COLUMNS))
        self.moves[:] = 0.0
        moves = 0
        for k in range(steps):
            # The population may change from one generation to the next.
            moves += walkers.electrons * walkers.count
            # A memory without end: the trial energy settles, and with it the bias that its
            # fluctuations make.
            numbers, total = self._generation(1e9, warming=False)
            sums += numbers
            weight += total
            part[0, :7] += numbers
            part[0, 7] += total
            # Sums of parts of a block are kept apart, for correlations shorter than a block.
            if (k + 1) * self.parts // steps > k * self.parts // steps:
                self.samples.add(part)
                part[...] = 0.0
            if self.estimators:
                walkers.measure(self.estimators)
        error = walkers.recompute()
        # What the window cuts off from the energies at the end of a block: a bias of this
        # order remains at this time step.
        cut_energy = walkers.cut_energy(self.steering.energy, self.window)
        if self.estimators:
            self.estimators.close_block(walkers.comm)
        means = sums / weight
        self.rows.add(
            **dict(zip(ENERGIES, means[:6], strict=True)),
            energy_squared=means[6],
            weight=weight,
            acceptance=self.moves[ACCEPTED] / moves,
            nonlocal_moves=self.moves[NONLOCAL] / moves,
            population=weight / steps,
            trial_energy=self.steering.trial,
            cut_energy=cut_energy,
            seconds=time.perf_counter() - begin,
        )
        return error

    def state(self) -> State:
        """Return walkers, blocks and running means."""
        state: dict[str, Any] = {
            "walkers": self.walkers.saved(),
            "rows": self.rows.arrays(),
            "warm": self.warm,
            "steering": dict(vars(self.steering)),
            "old": self.old,
            "worst": self.worst,
            "samples": self.samples.state(),
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
