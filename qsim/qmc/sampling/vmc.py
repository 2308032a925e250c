r"""Variational Monte Carlo: energies of the trial function :math:`\psi`, as means over walkers distributed as :math:`\psi^2`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import gathered
from qsim.core.run.loop import Progress
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED
from qsim.qmc.sampling.exchange import bounds
from qsim.qmc.sampling.messages import Message
from qsim.qmc.sampling.moves import Moves, WarmUp
from qsim.qmc.sampling.series import ENERGIES, Agreement, Pace, Series
from qsim.qmc.statistics.samples import GROUPS, Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.run.loop import Report, State
    from qsim.qmc.deck.series import Vmc
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Rows", "VmcSampling"]

SAMPLES = 10  # configurations of a block that other estimators than the energy see


class Rows:
    """Blocks in the order of the run, a row of numbers each.

    Parameters
    ----------
    restored
        Columns of the blocks to continue from.
    """

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


class VmcSampling:
    """Blocks of variational Monte Carlo.

    Parameters
    ----------
    walkers
        Ensemble, in/out.
    block
        Settings of the section.
    section
        Number of the section, a word of the random counters.
    saved
        State to continue from.
    estimators
        What to measure besides energies.
    """

    unit = "blocks"

    def __init__(
        self,
        walkers: Walkers,
        block: Vmc,
        section: int,
        saved: Mapping[str, Any] | None = None,
        estimators: Estimators | None = None,
    ) -> None:
        self.walkers = walkers
        self.estimators = estimators
        self.section = section
        self.total = block.blocks
        self.what = f"vmc {section & 0xFF}"
        self.steps = block.steps
        self.sweeps = block.sweeps
        saved = saved or {}
        if saved:
            walkers.restore(saved["walkers"])
            if estimators:
                estimators.restore(saved.get("estimators", {}), walkers.comm)
        self.rows = Rows(saved.get("rows"))
        self.moves = Moves(walkers, block, saved.get("moves"))
        # A saved state within the warm-up has no rows, and the number of sweeps that are
        # done.
        self.warm_up = WarmUp(walkers, self.moves, block.warmup, section, int(saved.get("warm", 0)))
        self.worst = float(saved.get("worst", 0.0))  # relative error of an updated inverse
        self.begun = len(self.rows)
        # A block that takes long is sampled in pieces, after each of which a stop is possible: generations done, sums.
        self._open: tuple[int, Array] | None = None
        if "open" in saved:
            sums = walkers.device.asarray(np.asarray(saved["open"]["sums"], np.float64)[walkers.own])
            self._open = int(saved["open"]["done"]), sums
        self._pace = Pace(walkers)
        # A GPU samples the next block while the sums of one are added up; histograms are closed
        # in between.
        self._ahead = 1 if walkers.device.is_cuda and not estimators else 0
        self._sent: list[tuple[Message, Message]] = []  # sums and inverses of blocks
        self._since = time.perf_counter()
        self._agreement = Agreement(walkers.comm.size)
        self.samples = Samples(min(GROUPS, walkers.count), restored=saved.get("samples"))

    @property
    def done(self) -> int:
        """Blocks done so far."""
        return len(self.rows)

    def advance(self, report: Report) -> None:
        """Sample to the last block.

        Raises
        ------
        NumericsError
            If a local energy is not a number; the walker is shown.
        """
        if not len(self.rows) and self._open is None:
            self.warm_up.advance(report)
        self._since = time.perf_counter()
        while len(self.rows) < self.total:
            if self.begun < self.total:
                self._begin_block(report)
            if len(self._sent) > self._ahead or self.begun == self.total:
                energy = self._end_block()
                if self._agreement.due or len(self.rows) == self.total:
                    report(Progress(len(self.rows), {"energy": energy}))
                    self._agreement.reported()

    def state(self) -> State:
        """Return walkers and blocks; a collective call."""
        while self._sent:
            self._end_block()
        if not len(self.rows) and self._open is None:
            return self.warm_up.state()
        state: dict[str, Any] = {
            # every block ends with a recomputation
            "walkers": self.walkers.saved(exact=self._open is None),
            "rows": self.rows.arrays(),
            "warm": self.warm_up.sweeps,
            "moves": self.moves.state(),
            "worst": self.worst,
            "samples": self.samples.state(),
        }
        if self.estimators:
            state["estimators"] = self.estimators.state(self.walkers.comm)
        if self._open is not None:
            sums = self.walkers.join(self.walkers.device.to_host(self._open[1]))
            state["open"] = {"done": self._open[0], "sums": sums}
        return state

    def _begin_block(self, report: Report) -> None:
        """Sample one block; its sums are left on their way."""
        walkers, device = self.walkers, self.walkers.device
        # Sums of each walker stay where they live until the block is over.
        if self._open is None:
            self._open = 0, device.xp.zeros((walkers.mine.R.shape[0], walk.SUMS))
            walkers.state.moves[...] = 0.0
        (done, sums), mine = self._open, walkers.mine
        # Estimators other than the energy see a few configurations of a block: neighbouring
        # ones hardly differ, and histograms cost more than moves.
        for end in _ends(self.steps, SAMPLES if self.estimators else 1):
            while done < end:
                steps = self._pace.part(end - done)
                walk.generations(
                    device,
                    mine,
                    walkers.tables,
                    self.moves.tau,
                    self.moves.mode,
                    self.sweeps,
                    steps,
                    walkers.stream(self.section),
                    sums,
                )
                walkers.count_sweeps(steps * self.sweeps, self.moves.time)
                done += steps
                if self.estimators and done == end:
                    walkers.measure(self.estimators)
                if self._pace.due(steps) and done < self.steps:
                    self._open = done, sums
                    report(Progress())
        self._open = None
        # one message: the sums of every walker and its accepted moves
        found = device.xp.concatenate((sums, mine.moves[:, ACCEPTED, None]), axis=1)
        # Once in a block inverses are made anew; how far they were off is reported.
        self._sent.append((Message(device, [found]), walkers.begin_recompute()))
        if self.estimators:
            self.estimators.close_block(walkers.comm)
        self.begun += 1

    def _end_block(self) -> float:
        """Add the sums of the oldest block on its way; return its mean energy, hartree."""
        walkers = self.walkers
        message, recomputed = self._sent.pop(0)
        found, told = self._joined(message.read()[0], walkers.worst(recomputed))
        self._agreement.learn(told[:, 0])
        # Contiguous copies: sums of strided views are added in another order, and their bits
        # would depend on the number of ranks.
        of_all = np.ascontiguousarray(found[:, :-1])
        total = of_all.sum(axis=0)
        # One energy that is no number spoils the block: better no result than one without
        # that walker.
        if not np.isfinite(total).all():
            _blame(walkers, of_all)
        self.samples.add_walkers(of_all)
        accepted = np.ascontiguousarray(found[:, -1]).sum()
        # Column 7 counts generations, so that these are means over walkers and generations.
        means = total[:7] / total[7]
        self.worst = max(self.worst, walkers.judge_all(told[:, 1:3]))
        # Moves that were tried in all of the block.
        moves = self.steps * self.sweeps * walkers.electrons * walkers.count
        now = time.perf_counter()
        self.rows.add(
            **dict(zip(ENERGIES, means[:6], strict=True)),
            energy_squared=means[6],
            weight=total[7],
            acceptance=float(accepted) / moves,
            seconds=now - self._since,
        )
        self._since = now
        return float(means[5])

    def _joined(
        self, found: NDArray[np.float64], worst: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the sums of all walkers, and what each rank tells in the same message; a collective call."""
        told = np.zeros((1, found.shape[1]))
        told[0, :3] = self._agreement.waited(), *worst
        walkers, comm = self.walkers, self.walkers.comm
        if comm.size == 1:
            return found, told
        # A row more of each rank, before those of its walkers.
        edges = bounds(walkers.count, comm.size)
        every = gathered(comm, np.concatenate((told, found)), np.diff(edges) + 1)
        rows = edges[:-1] + np.arange(comm.size)
        return np.delete(every, rows, axis=0), every[rows]

    def series(self) -> Series:
        """Return the blocks."""
        walkers, blocks, moves = self.walkers, self.rows.arrays(), self.moves
        block_time = self.steps * self.sweeps * moves.time
        energy = float(np.average(blocks["energy"], weights=blocks["weight"]))
        square = float(np.average(blocks["energy_squared"], weights=blocks["weight"]))
        return Series(
            kind="vmc",
            label=f"vmc, tau = {moves.tau:.4g}" if moves.sought else f"vmc, tau = {moves.tau:g}",
            timestep=moves.tau,
            blocks=blocks,
            info={
                "variance": max(square - energy * energy, 0.0),
                "acceptance": float(blocks["acceptance"].mean()),
                "inverse_error": self.worst,
                "walkers": float(walkers.count),
                "generations": float(blocks["weight"].sum()),
                "seconds": float(blocks["seconds"].sum()),
                "block_time": block_time,
                "sweep_time": moves.time,
                # Time before the first block: what all sections so far have moved, less the
                # blocks of this one.
                "warm": walkers.warm - len(self.rows) * block_time,
                "settled": walkers.settled - len(self.rows) * block_time,
                "related": float(walkers.related),
                **walkers.cell_info(),
            },
            samples=self.samples,
        )


def _ends(steps: int, most: int) -> list[int]:
    """Return where at most `most` parts of nearly equal length end in the steps of a block."""
    # Lengths differ by one at most, whatever the numbers.
    count = min(steps, most)
    return [steps * (k + 1) // count for k in range(count)]


def _blame(walkers: Walkers, sums: NDArray[np.float64]) -> None:
    """Raise an error that shows the walker whose energy is not a number."""
    bad = int(np.argmin(np.isfinite(sums).all(axis=1)))
    walkers.complain(bad, f"has a local energy that is not finite ({sums[bad, 5]})")
