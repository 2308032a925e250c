"""Moves that sample the square of the trial function: their step, which the warm-up finds, and the warm-up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.run.loop import Progress
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, DRIFT, PLAIN, PROPOSED_SQUARE, SCALED
from qsim.qmc.sampling.series import Pace
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from qsim.core.run.loop import Report, State
    from qsim.qmc.deck.series import Optimize, Vmc
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Moves", "WarmUp"]

FAR_SHARE = 5  # sweeps of the warm-up to one of far moves
FAR_MOVES = 0xF0000000  # and a section number: streams of their random numbers
WARM_UP_CHUNK = 20  # sweeps of the warm-up after which far moves follow
TRIAL = 10  # and those after which a step that is sought is changed
TRIALS = 6  # changes, at least: the first ones find the order of magnitude
#: Acceptance that is aimed at: energies of atoms and molecules from He to Ar forget fastest between 0.75 and 0.87.
TARGET = 0.8
#: Change of the time step for an acceptance that is off by 1: it falls by about 0.1 from one octave to the next.
OCTAVES = 10.0
COARSE = 3  # trials that are followed as they are; later ones are averaged
FARTHEST = 2.0  # octaves of one change
SMALLEST, LARGEST = 1e-8, 100.0  # 1/hartree


class Moves:
    r"""Kind and step of the moves of a section.

    A deck that gives no time step leaves it to the warm-up: after every `TRIAL` sweeps :math:`\tau` is changed towards the
    acceptance `TARGET`, less and less (Robbins and Monro).  Near nuclei these moves are shorter (`move_scale` of the kernels), so
    that one step suits all shells.  Numbers of accepted moves are whole, and squares are added in the order of the walkers:
    neither threads nor ranks change the step.

    Parameters
    ----------
    walkers
        That move.
    block
        Settings of the section.
    saved
        State to continue from.

    Attributes
    ----------
    tau : float
        Time step, 1/hartree; where moves are scaled that far from all nuclei.
    mode : int
        As the kernels know it.
    time : float
        Time (1/hartree) in which free particles would spread as far as a sweep moves them.
    sought : bool
        Whether the warm-up finds the step.
    """

    def __init__(
        self, walkers: Walkers, block: Optimize | Vmc, saved: Mapping[str, Any] | None = None
    ) -> None:
        self.mode = PLAIN if block.move == "metropolis" else DRIFT
        self.sought = block.timestep == "auto"
        self.trials = 0
        self.tau = self.time = _guess(walkers) if block.timestep == "auto" else block.timestep
        if self.sought and not isinstance(walkers.wavefunction, CrystalWavefunction):
            self.mode += SCALED
        if saved:
            self.tau, self.time = float(saved["tau"]), float(saved["time"])
            self.trials = int(saved["trials"])

    def state(self) -> State:
        """Return what was found."""
        return {"tau": self.tau, "time": self.time, "trials": self.trials}

    def learn(self, walkers: Walkers, sweeps: int) -> None:
        """Change the step by what the last sweeps did; a collective call."""
        own = walkers.device.to_host(walkers.mine.moves)[:, [ACCEPTED, PROPOSED_SQUARE]]
        accepted, square = np.ascontiguousarray(walkers.join(np.ascontiguousarray(own)).T).sum(axis=1)
        moves = sweeps * walkers.electrons * walkers.count
        self.trials += 1
        octaves = OCTAVES * (accepted / moves - TARGET) / max(1, self.trials - COARSE)
        tau = self.tau * 2.0 ** min(max(octaves, -FARTHEST), FARTHEST)
        # Where moves are scaled, their mean square says how far a sweep reaches; drift makes it larger, which is no diffusion.
        free = 3.0 * self.tau / walkers.wavefunction.system.mass
        self.tau = min(max(tau, SMALLEST), LARGEST)
        self.time = self.tau * min(1.0, square / moves / free)


def _guess(walkers: Walkers) -> float:
    """Return the time step that the search begins with, 1/hartree: a third of the time to cross an oscillator, or a radius."""
    wavefunction = walkers.wavefunction
    if wavefunction.system.omega:
        return 0.3 / wavefunction.system.omega
    if isinstance(wavefunction, CrystalWavefunction):
        volume = wavefunction.cell.volume / walkers.electrons
        return 0.3 * wavefunction.system.mass * (3.0 * volume / (4.0 * math.pi)) ** (2.0 / 3.0)
    return 0.5


class WarmUp:
    """Sweeps after which walkers have forgotten where they started; a stop is possible every few of them.

    Parameters
    ----------
    walkers
        Ensemble, in/out.
    moves
        Their kind and step, which may be sought.
    sweeps
        Moves of all electrons.
    section
        Number of the section, a word of the random counters.
    done
        Sweeps done before a restart.
    """

    def __init__(self, walkers: Walkers, moves: Moves, sweeps: int, section: int, done: int = 0) -> None:
        self.walkers = walkers
        self.moves = moves
        self.section = section
        self.done = done
        self._chunk = TRIAL if moves.sought else WARM_UP_CHUNK
        self.sweeps = max(sweeps, TRIALS * TRIAL) if moves.sought else sweeps
        self._pace = Pace(walkers)

    def advance(self, report: Report) -> None:
        """Do what is missing of the sweeps."""
        walkers, moves = self.walkers, self.moves
        while self.done < self.sweeps:
            # Some sweeps in one launch, and then a look for a request to stop.
            begun = self.done % self._chunk
            chunk = min(self._chunk, self.sweeps - self.done + begun)
            # Far moves beside them, for what short ones do not reach.
            for k in range(0 if begun else chunk // FAR_SHARE):
                walkers.far_sweep(FAR_MOVES + self.section, walkers.generation + k)
            if moves.sought and not begun:
                walkers.state.moves[...] = 0.0
            piece = self._pace.part(chunk - begun)
            stream = walkers.stream(self.section)
            walk.walk(walkers.device, walkers.mine, walkers.tables, moves.tau, moves.mode, piece, stream)
            walkers.count_sweeps(piece, moves.time)
            self.done += piece
            over = begun + piece == chunk
            if moves.sought and over:
                moves.learn(walkers, chunk)
            if self._pace.due(piece) or over:
                report(Progress())
        # Many updates have added up rounding in the inverses before the first block.
        walkers.recompute()

    def state(self) -> State:
        """Return walkers, step and sweeps done; rows say that there are no blocks yet."""
        return {
            "walkers": self.walkers.saved(),
            "rows": {},
            "warm": self.done,
            "moves": self.moves.state(),
        }
