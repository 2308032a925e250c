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
from qsim.qmc.kernels import walk
from qsim.qmc.kernels.estimators import take_totals
from qsim.qmc.kernels.walk_cpu import ACCEPTED, ACCEPTED_SQUARE, NONLOCAL, PROPOSED_SQUARE
from qsim.qmc.sampling.branching import Population
from qsim.qmc.sampling.series import ENERGIES, Resume, Series
from qsim.qmc.sampling.vmc import Rows
from qsim.qmc.statistics.samples import COLUMNS, PARTS, Samples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.estimators import Estimators
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["run_dmc"]

BRANCHING = 0x8000  # added to the section's stream for the random numbers of branching
BRANCH_EVERY = 5  # generations between two branchings: weights stay close to one meanwhile
SIGMA = 0.2  # of the branching window, Zen et al.
MEMORY = 200  # generations whose mean energy steers the trial energy at first
FEEDBACK = 1.0  # hartree: 1 / time in which the population returns to its target
LOW_ACCEPTANCE = 0.98


class _Steering:
    """Running means that steer the trial energy and the effective time step; part of a checkpoint."""

    def __init__(self, restored: Mapping[str, Any] | None = None) -> None:
        self.energy, self.energies = 0.0, 0.0  # mean local energy, and how many generations it has seen
        self.proposed, self.accepted = 0.0, 0.0
        self.trial = 0.0
        if restored:
            for name, value in restored.items():
                setattr(self, name, float(value))

    @property
    def tau_ratio(self) -> float:
        """Effective over nominal time step."""
        return self.accepted / self.proposed if self.proposed > 0.0 else 1.0

    def see(self, energy: float, memory: float) -> None:
        """Add the mean of a generation; older ones than `memory` count less."""
        self.energies = min(self.energies + 1.0, memory)
        self.energy += (energy - self.energy) / self.energies


def run_dmc(
    walkers: Walkers,
    block: Any,
    tau: float,
    section: int,
    monitor: Monitor,
    resume: Resume,
    estimators: Estimators | None = None,
) -> Series:
    """Project the ground state with the nodes of the trial function.

    Parameters
    ----------
    walkers
        Ensemble distributed as the square of the trial function, or as an earlier run left it; in/out.
    block
        ``blocks``, ``steps`` (generations of a block), ``warmup`` (1/hartree), ``nonlocal_``: tmove or locality, ``population``:
        comb or birth_death, ``feedback`` (hartree).
    tau
        Time step, 1/hartree.
    section
        Number of the section and time step, a word of the random counters.

    Raises
    ------
    NumericsError
        If the population leaves its limits or an energy is not a number.
    """
    return _Run(walkers, block, tau, section, monitor, resume, estimators).run()


class _Run:
    def __init__(
        self,
        walkers: Walkers,
        block: Any,
        tau: float,
        section: int,
        monitor: Monitor,
        resume: Resume,
        estimators: Estimators | None,
    ) -> None:
        self.walkers, self.block, self.tau, self.section = walkers, block, float(tau), section
        self.monitor, self.resume, self.estimators = monitor, resume, estimators
        self.population = Population(
            target=int(block.walkers), control=getattr(block, "population", None) or "comb"
        )
        self.feedback = float(getattr(block, "feedback", None) or FEEDBACK)
        self.tmoves = getattr(block, "nonlocal_", "tmove") == "tmove"
        self.every = int(getattr(block, "branch_every", None) or BRANCH_EVERY)
        self.window = SIGMA * math.sqrt(walkers.electrons / self.tau)
        self.warmup = math.ceil(float(block.warmup) / self.tau)
        restored = resume.restored
        self.rows = Rows(restored["rows"] if restored else None)
        self.warm = int(restored["warm"]) if restored else 0
        self.steering = _Steering(restored["steering"] if restored else None)
        self.old = float(restored["old"]) if restored else 0.0
        self.worst = float(restored["worst"]) if restored else 0.0
        self.moves = np.zeros(4)  # of the block
        self.parts = min(PARTS, int(block.steps))  # of a block, whose sums are kept apart
        self.samples = Samples(1, self.parts, restored.get("samples") if restored else None)
        if restored:
            walkers.restore(restored["walkers"])
            if estimators:
                estimators.restore(restored.get("estimators", {}))
        else:
            self._start()

    def _start(self) -> None:
        """Take the energies of the walkers as they are."""
        walkers, xp = self.walkers, self.walkers.device.xp
        walkers.recompute()
        walk.energies(walkers.device, walkers.state, walkers.tables, walkers.stream(self.section))
        walkers.check_finite()
        walkers.state.weight[...] = 1.0
        walkers.state.age[...] = 0
        walkers.state.moves[...] = 0.0
        walkers.warm, walkers.related = 0.0, True
        self.steering.see(float(walkers.device.to_host(xp.mean(walkers.state.energy[:, 5]))), MEMORY)
        self.steering.trial = self.steering.energy

    # ---------------------------------------------------------------------------------- generations

    def _generation(self, memory: float, warming: bool) -> tuple[np.ndarray[Any, Any], float]:
        """Do one generation; return the weighted sums of the energies and of their squares, and the sum of weights."""
        walkers, steering, device = self.walkers, self.steering, self.walkers.device
        walk.diffuse(
            device,
            walkers.state,
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
        numbers = take_totals(device, walkers.state)
        if not np.isfinite(numbers).all():
            walkers.check_finite()
            raise NumericsError(
                f"the weights of generation {walkers.generation} are not finite",
                hint="smaller timesteps or an optimised Jastrow factor",
            )
        total = float(numbers[7])
        moves = numbers[8:]
        self.moves += moves
        steering.proposed += float(moves[PROPOSED_SQUARE])
        steering.accepted += float(moves[ACCEPTED_SQUARE])
        steering.see(float(numbers[5]) / total, memory)
        self.population.check(total)
        steering.trial = self.population.trial_energy(
            steering.energy, total, self.tau, self.feedback, warmup=warming
        )
        if walkers.generation % self.every == 0:
            self._branch()
        return numbers[:7], total

    def _branch(self) -> None:
        walkers, state = self.walkers, self.walkers.state
        draws = rng.uniform(
            walkers.key, self.section + BRANCHING, walkers.generation, self.population.draws(walkers.count)
        )
        indices, new, old = self.population.next_generation(state.weight, state.age, draws)
        self.old += float(old)
        walkers.select(indices, new)

    # ----------------------------------------------------------------------------------------- runs

    def run(self) -> Series:
        block, monitor, walkers = self.block, self.monitor, self.walkers
        monitor.begin(int(block.blocks), "blocks", f"dmc tau = {self.tau:g}", done=len(self.rows) or None)
        steps = int(block.steps)
        while self.warm < self.warmup:
            self._generation(min(MEMORY, 1 + 0.5 * self.warm), warming=True)
            self.warm += 1
            if self.warm % steps == 0:
                walkers.recompute()
            monitor.poll(self._state)
        while len(self.rows) < int(block.blocks):
            self.worst = max(self.worst, self._block(steps))
            monitor.step(len(self.rows), self._state, energy=self.rows.columns["energy"][-1])
        monitor.end()
        return self._series()

    def _block(self, steps: int) -> float:
        walkers, begin = self.walkers, time.perf_counter()
        sums, weight = np.zeros(7), 0.0
        part = np.zeros((1, COLUMNS))
        self.moves[:] = 0.0
        moves = 0
        for k in range(steps):
            moves += walkers.electrons * walkers.count
            numbers, total = self._generation(1e9, warming=False)
            sums += numbers
            weight += total
            part[0, :7] += numbers
            part[0, 7] += total
            if (k + 1) * self.parts // steps > k * self.parts // steps:
                self.samples.add(part)
                part[...] = 0.0
            if self.estimators:
                self.estimators.accumulate(walkers.state.R, walkers.state.weight)
        error = walkers.recompute()
        if self.estimators:
            self.estimators.close_block()
        means = sums / weight
        self.rows.add(
            **dict(zip(ENERGIES, means[:6], strict=True)),
            energy_squared=means[6],
            weight=weight,
            acceptance=self.moves[ACCEPTED] / moves,
            nonlocal_moves=self.moves[NONLOCAL] / moves,
            population=weight / steps,
            trial_energy=self.steering.trial,
            seconds=time.perf_counter() - begin,
        )
        return error

    def _state(self) -> Mapping[str, Any]:
        inner = {
            "walkers": self.walkers.saved(),
            "rows": self.rows.arrays(),
            "warm": self.warm,
            "steering": dict(vars(self.steering)),
            "old": self.old,
            "worst": self.worst,
            "samples": self.samples.state(),
        }
        if self.estimators:
            inner["estimators"] = self.estimators.state()
        return self.resume.wrap(inner)

    def _series(self) -> Series:
        blocks, count = self.rows.arrays(), float(self.walkers.count)
        energy = float(np.average(blocks["energy"], weights=blocks["weight"]))
        square = float(np.average(blocks["energy_squared"], weights=blocks["weight"]))
        acceptance = float(blocks["acceptance"].mean())
        if acceptance < LOW_ACCEPTANCE:
            self.monitor.warn(
                f"dmc tau = {self.tau:g}: only {100 * acceptance:.1f} % of the moves were accepted; a smaller timestep has a "
                "smaller error"
            )
        if self.old:
            self.monitor.warn(
                f"dmc tau = {self.tau:g}: {self.old:.0f} times a walker that had not moved for {self.population.max_age} "
                "generations was kept from multiplying"
            )
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
                "generations": float(int(self.block.steps) * blocks["energy"].size) * count,
                "seconds": float(blocks["seconds"].sum()),
                "persistent": self.old,
                "block_time": self.tau * int(self.block.steps),
                "warm": self.tau * self.warm,
                "settled": self.walkers.settled - self.tau * int(self.block.steps) * blocks["energy"].size,
                "related": 1.0,
                "feedback": self.feedback,
            },
            samples=self.samples,
            arrays=self.estimators.arrays() if self.estimators else {},
        )
