"""Relaxation of the walkers: how long they remember where they started, and how long they remember each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.sampling.series import ENERGIES
from qsim.qmc.statistics.blocking import Chains
from qsim.qmc.statistics.correlation import drift, memory, slow_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.sampling.series import Series

__all__ = ["Rows", "Start", "drift_of", "memory_of"]

INDEPENDENT = 10.0  # times the memory of walkers after which copies do not remember each other
FORGOTTEN = 0.5  # of the error bar: what may be left of a start
AWAY = 1.0  # standard deviations of the local energy that walkers may be off where a section starts
# And where they are placed: normal around the atoms, whatever the exponents of the orbitals are.
STRAYED = 3.0
HINDERED = 4.0 / 3.0  # power of the acceptance: long moves are refused more often, in three dimensions
# Slowest decay of a 1s electron, 8/3 zeta^2 in time, in units of its inverse kinetic energy.
RELAXATION = 4.0 / 3.0


@dataclass(frozen=True)
class Rows:
    """Sums (rows, chains, 8) of the kept part of a series, and what they say."""

    sums: NDArray[np.float64]
    independent: bool
    per_block: float
    tested: tuple[int, ...]

    @classmethod
    def of(cls, series: Series, cut: int) -> Rows | None:
        """Return those of a series; None if there are too few."""
        if series.samples is None:
            return None
        sums = series.samples.after(cut)
        # Too few for any correlation.
        if sums.shape[0] < 4:
            return None
        # Quantities that do not fluctuate carry no information about memory.
        spread = sums[:, :, :6].std(axis=(0, 1))
        kinetic, total = ENERGIES.index("kinetic"), ENERGIES.index("energy")
        tested = tuple(k for k in (total, kinetic) if spread[k] > 1e-10 * np.abs(sums[:, :, k]).mean())
        per_block = series.samples.rows_per_block
        found = cls(sums, True, per_block, tested or (total,))
        # Walkers of vmc that are copies from an earlier diffusion count as independent once
        # they had ten memories to part.
        if series.kind == "vmc" and series.info.get("related", 0.0):
            found = replace(found, independent=False)
            apart = INDEPENDENT * found.memory() / per_block * series.info["block_time"]
            found = replace(found, independent=series.info["warm"] >= apart)
        return found

    def memory(self) -> float:
        """Return the decay time of the slower one of energy and kinetic energy, in rows."""
        return max(memory_of(self.mean_of(k)) for k in self.tested)

    def slow_need(self) -> tuple[float, float]:
        """Return the decay time of the slowest part that distant quarters share, in rows, and how far its start must decay.

        The second is the factor by which the mean of a part that starts `STRAYED` deviations off, and decays during the run,
        would exceed `FORGOTTEN` of the error bar.  Zeros where there is no such part, or where chains are not independent.
        """
        worst = 0.0, 0.0
        for column in self.tested:
            chains = self.mean_of(column)
            slow = slow_part(chains.y) if chains.independent else None
            if slow is None:
                continue
            count, rows = chains.y.shape
            error = float(np.std(chains.y.mean(axis=1), ddof=1)) / math.sqrt(count)
            average = slow.time / rows * -math.expm1(-rows / slow.time)
            worst = max(worst, (slow.time, STRAYED * slow.deviation * average / (FORGOTTEN * error)))
        return worst

    def relaxation(self, particles: int) -> float:
        """Return the time (1/hartree) in which particles of this kinetic energy spread over the system; 0 if it is unknown."""
        column = ENERGIES.index("kinetic")
        kinetic = float(self.sums[:, :, column].sum() / self.sums[:, :, 7].sum())
        return RELAXATION * particles / abs(kinetic) if kinetic else 0.0

    def mean_of(self, column: int) -> Chains:
        """Return the influences on a mean."""
        # Influence of each row on a ratio of sums: (sum - mean * weight) / mean weight.
        w = self.sums[:, :, 7]
        mean = float(self.sums[:, :, column].sum() / w.sum())
        return Chains(((self.sums[:, :, column] - mean * w) / w.mean()).T, self.independent)

    def variance(self) -> Chains:
        """Return the influences on the variance of the local energy."""
        w, e = self.sums[:, :, 7], self.sums[:, :, 5]
        mean = float(e.sum() / w.sum())
        squares = self.sums[:, :, 6] - 2.0 * mean * e + mean * mean * w
        return Chains(((squares - float(squares.sum() / w.sum()) * w) / w.mean()).T, self.independent)


def drift_of(chains: Chains) -> float:
    """Return the probability that stationary chains look as much like a decay as these (`statistics.correlation.drift`)."""
    return drift(chains.y, independent=chains.independent)


def memory_of(chains: Chains) -> float:
    """Return the decay time of the correlation, in rows (`statistics.correlation.memory`)."""
    return memory(chains.y, independent=chains.independent)


@dataclass(frozen=True)
class Start:
    r"""Warm-up of the walkers: the time they had to forget their start, and the time they need.

    What is left of a start that is `AWAY` standard deviations off has decayed with a time T; its effect on the mean of N walkers
    and a time t is below `FORGOTTEN` of the error bar once the time before the first block that counts is
    ``T ln(AWAY sqrt(N T / 2 t) / FORGOTTEN)``.  T is the memory of the slower energy and, since the walkers were placed, also the
    time that particles of that kinetic energy need to spread over the system: energies fluctuate mostly near the nuclei, fast,
    while the density far out follows slowly, and a run that is short beside T cannot show it.  Where walkers stay for long
    between nodes or at one of several centres, distant quarters of the series resemble each other
    (:func:`~qsim.qmc.statistics.correlation.slow_part`), and that part must have decayed since the walkers were placed.
    Around a 1s electron the
    slowest decay is that to 2s, with the rate :math:`\tfrac38\zeta^2`, thus :math:`T=\tfrac43/(\tfrac12\zeta^2)`.

    Attributes
    ----------
    warm
        Time of the warm-up, with that of the sections before, 1/hartree.
    cut
        Blocks left out beside it.
    needed
        Time that is needed, 1/hartree.
    block_time
        That of a block, 1/hartree.
    """

    warm: float
    cut: int
    needed: float
    block_time: float

    @classmethod
    def of(cls, series: Series, cut: int, particles: int) -> Start | None:
        """Return that of a series whose first blocks are cut; None if it is not known."""
        rows = Rows.of(series, cut)
        if rows is None or "warm" not in series.info:
            return None
        time, walkers = series.info["block_time"], series.info["walkers"]
        length = rows.sums.shape[0] / rows.per_block * time
        slowest = rows.memory() / rows.per_block * time
        if not slowest > 0.0:
            return None
        # rejected moves take no walker anywhere: the time that it needs in time steps is longer by that
        # Two scales: that of the energies, from the start of the sections, and that of the
        # density far out, from where walkers were placed.
        moved = max(series.info.get("acceptance", 1.0), 1e-3) ** HINDERED
        scales = [("warm", slowest, AWAY), ("settled", rows.relaxation(particles) / moved, STRAYED)]
        found = [
            cls(series.info.get(name, math.inf), cut, scale * math.log(max(1.0, left)), time)
            for name, scale, away in scales
            if (left := away * math.sqrt(0.5 * walkers * scale / length) / FORGOTTEN) > 0.0
        ]
        # Of the whole series: what is cut off shows the decay best.
        every = Rows.of(series, 0)
        slow, left = every.slow_need() if every else (0.0, 0.0)
        if left > 1.0:
            needed = slow / rows.per_block * time * math.log(left)
            found.append(cls(series.info.get("settled", math.inf), cut, needed, time))
        # The one that lacks most.
        return max(found, key=lambda one: one.needed - one.warm)

    @property
    def missing(self) -> int:
        """Blocks that must be left out in addition."""
        return max(0, math.ceil(max(0.0, self.needed - self.warm) / self.block_time - 1e-9) - self.cut)

    def text(self, series: Series) -> str:
        """Return the warning of a warm-up that is too short."""
        # In the unit of the deck's key: sweeps for vmc, imaginary time for dmc.
        also = f" and the {self.cut} blocks left out" if self.cut else ""
        sweep = series.info.get("sweep_time", series.timestep)
        if series.kind == "vmc" and sweep:
            found = f"{self.warm / sweep:.0f} sweeps"
            wanted = f"about {math.ceil(self.needed / sweep)} sweeps"
        else:
            found, wanted = f"{self.warm:.2g}/hartree", f"about {self.needed:.2g}/hartree"
        return (
            f"the warm-up is too short: {found}{also} are not enough for the walkers to forget where they started, so that means "
            f"may be wrong by more than their error bars; {wanted} are needed: raise warmup"
        )
