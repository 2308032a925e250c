"""Variational Monte Carlo: energies of the trial function."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.kernels import walk
from qsim.qmc.kernels.walk_cpu import ACCEPTED, DRIFT, PLAIN
from qsim.qmc.sampling.series import ENERGIES, Resume, Series
from qsim.qmc.statistics.samples import GROUPS, Samples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qmc.estimators.estimators import Estimators
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Rows", "run_vmc", "thermalise"]

SAMPLES = 10  # configurations of a block that other estimators than the energy see
WARM_UP_PIECE = 20  # sweeps between two chances to stop


class Rows:
    """Blocks as they come, a row of numbers each."""

    def __init__(self, restored: Mapping[str, Any] | None = None) -> None:
        self.columns: dict[str, list[float]] = {}
        if restored:
            self.columns = {name: [float(x) for x in values] for name, values in restored.items()}

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def add(self, **row: float) -> None:
        """Add a block."""
        for name, value in row.items():
            self.columns.setdefault(name, []).append(float(value))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return a column for each name."""
        return {name: np.array(values, float) for name, values in self.columns.items()}


def mode_of(block: Any) -> int:
    """Return how electrons are proposed to move."""
    return PLAIN if getattr(block, "move", "drift") == "metropolis" else DRIFT


def thermalise(
    walkers: Walkers,
    tau: float,
    mode: int,
    sweeps: int,
    section: int,
    monitor: Monitor,
    resume: Resume,
    done: int = 0,
) -> None:
    """Let walkers forget where they started; a stop is possible every few sweeps."""
    while done < sweeps:
        piece = min(WARM_UP_PIECE, sweeps - done)
        walk.walk(walkers.device, walkers.state, walkers.tables, tau, mode, piece, walkers.stream(section))
        walkers.generation += piece
        walkers.warm += piece * tau
        walkers.settled += piece * tau
        done += piece

        def state(at: int = done) -> Mapping[str, Any]:
            return resume.wrap({"walkers": walkers.saved(), "rows": {}, "warm": at})

        monitor.poll(state)
    walkers.recompute()


def run_vmc(
    walkers: Walkers,
    block: Any,
    section: int,
    monitor: Monitor,
    resume: Resume,
    estimators: Estimators | None = None,
) -> Series:
    """Sample the square of the trial function.

    Parameters
    ----------
    walkers
        Ensemble, in/out.
    block
        ``timestep`` (1/hartree), ``blocks``, ``steps`` (generations of a block), ``sweeps`` (moves of all electrons in a
        generation), ``warmup`` (sweeps before the first block), ``move``: drift or metropolis.
    section
        Number of the section, a word of the random counters.
    resume
        How to save and continue.
    estimators
        What to measure besides energies.

    Raises
    ------
    NumericsError
        If a local energy is not a number; the walker is shown.
    """
    xp, device = walkers.device.xp, walkers.device
    tau, mode = float(block.timestep), mode_of(block)
    sweeps, steps = int(getattr(block, "sweeps", 1)), int(block.steps)
    restored = resume.restored
    rows = Rows(restored["rows"] if restored else None)
    warm = int(restored["warm"]) if restored else 0
    if restored:
        walkers.restore(restored["walkers"])
        if estimators:
            estimators.restore(restored.get("estimators", {}))
    samples = Samples(min(GROUPS, walkers.count), restored=restored.get("samples") if restored else None)
    monitor.begin(int(block.blocks), "blocks", f"vmc {section}", done=len(rows) or None)
    if not len(rows):
        thermalise(walkers, tau, mode, int(block.warmup), section, monitor, resume, warm)
    worst = float(restored["worst"]) if restored and "worst" in restored else 0.0
    moves = steps * sweeps * walkers.electrons * walkers.count
    while len(rows) < int(block.blocks):
        begin = time.perf_counter()
        sums = xp.zeros((walkers.count, walk.SUMS))
        walkers.state.moves[...] = 0.0
        for piece in _pieces(steps, SAMPLES if estimators else 1):
            stream = walkers.stream(section)
            walk.generations(device, walkers.state, walkers.tables, tau, mode, sweeps, piece, stream, sums)
            walkers.generation += piece * sweeps
            walkers.warm += piece * sweeps * tau
            walkers.settled += piece * sweeps * tau
            if estimators:
                estimators.accumulate(walkers.state.R, walkers.state.weight)
        total = device.to_host(xp.sum(sums, axis=0))
        if not np.isfinite(total).all():
            _blame(walkers, device.to_host(sums))
        samples.add_walkers(device.to_host(sums))
        means = total[:7] / total[7]
        worst = max(worst, walkers.recompute())
        if estimators:
            estimators.close_block()
        rows.add(
            **dict(zip(ENERGIES, means[:6], strict=True)),
            energy_squared=means[6],
            weight=total[7],
            acceptance=float(device.to_host(xp.sum(walkers.state.moves[:, ACCEPTED]))) / moves,
            seconds=time.perf_counter() - begin,
        )

        def state(worst: float = worst) -> Mapping[str, Any]:
            inner: dict[str, Any] = {"walkers": walkers.saved(), "rows": rows.arrays()}
            inner |= {"warm": int(block.warmup), "worst": worst, "samples": samples.state()}
            return resume.wrap({**inner, "estimators": estimators.state()} if estimators else inner)

        monitor.step(len(rows), state, energy=means[5])
    monitor.end()
    blocks = rows.arrays()
    energy, square = (
        float(np.average(blocks[name], weights=blocks["weight"])) for name in ("energy", "energy_squared")
    )
    return Series(
        kind="vmc",
        label=f"vmc, tau = {tau:g}",
        timestep=tau,
        blocks=blocks,
        info={
            "variance": max(square - energy * energy, 0.0),
            "acceptance": float(blocks["acceptance"].mean()),
            "inverse_error": worst,
            "walkers": float(walkers.count),
            "generations": float(blocks["weight"].sum()),
            "seconds": float(blocks["seconds"].sum()),
            "block_time": steps * sweeps * tau,
            "warm": walkers.warm - len(rows) * steps * sweeps * tau,
            "settled": walkers.settled - len(rows) * steps * sweeps * tau,
            "related": float(walkers.related),
        },
        arrays=estimators.arrays() if estimators else {},
        samples=samples,
    )


def _pieces(steps: int, most: int) -> list[int]:
    """Cut the steps of a block into at most so many pieces of nearly equal length."""
    count = min(steps, most)
    return [steps * (k + 1) // count - steps * k // count for k in range(count)]


def _blame(walkers: Walkers, sums: NDArray[np.float64]) -> None:
    """Raise an error that shows the walker whose energy is not a number."""
    bad = int(np.argmin(np.isfinite(sums).all(axis=1)))
    walkers.complain(bad, f"has a local energy that is not finite ({sums[bad, 5]})")
