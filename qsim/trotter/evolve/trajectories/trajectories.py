"""All trajectories of a run, one after the other or in batches, shared by the ranks: one resumable computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolution.accuracy import Choice
from qsim.trotter.evolve.open.density import Density
from qsim.trotter.evolve.open.members import MOST, Members
from qsim.trotter.evolve.open.together import Together, all_at_once
from qsim.trotter.evolve.trajectories.averages import Averages
from qsim.trotter.evolve.trajectories.ensemble import Ensemble, together
from qsim.trotter.evolve.trajectories.rounds import Round
from qsim.trotter.evolve.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.problem import Problem

__all__ = ["Drifts", "Trajectories"]

Carried = Trajectory | Ensemble | Members | Together | Density


@dataclass
class Drifts:
    """The largest drifts of any trajectory."""

    energy: float = 0.0
    norm: float = 0.0
    sz: float = 0.0

    def add(self, rows: Mapping[str, NDArray[np.float64]]) -> None:
        """Take the rows of one trajectory."""
        self.energy = max(self.energy, float(np.abs(rows["energy"] - rows["energy"][0]).max()))
        self.norm = max(self.norm, float(np.abs(rows["norm"] - 1.0).max()))
        self.sz = max(self.sz, float(np.abs(rows["total_sz"] - rows["total_sz"][0]).max()))


class Trajectories:
    """The trajectories of a run and their averages.

    Parameters
    ----------
    problem : Problem
    choose : function
        Returns integrator and steps; called unless a checkpoint has them.
    monitor : Monitor
        Gives the ranks and the content of a checkpoint.

    Attributes
    ----------
    how : Choice
        Integrator and steps.
    averages : Averages
    drifts : Drifts
    member : int
        Trajectories that are complete.
    batch : int
        Trajectories that are propagated at a time.
    at_once : int
        Trajectories of an open system that are carried at once; 0 where they are carried one after the other.
    jumps : list of (n, 2) float64
        Time and channel of the jumps of every trajectory of an open system.
    ended : bool
        True if the means are as accurate as the deck asks before all trajectories are made.
    current : Trajectory or Ensemble
        Those that are being propagated, the last ones in the end.
    passes : int
        Passes of all ranks over the states.
    """

    def __init__(self, problem: Problem, choose: Callable[[], Choice], monitor: Monitor) -> None:
        self.problem, self.monitor, self.passes = problem, monitor, 0
        self._restored: Mapping[str, Any] | None = monitor.restored
        if self._restored is None:
            self.how = choose()
            self.averages, self.drifts, self.member = Averages(problem.group), Drifts(), 0
            self.batch = 1 if problem.open else together(problem, self.how)
            self.at_once = all_at_once(problem, self.how) if problem.jumping else 0
            if problem.jumping:
                self.batch = self.at_once or min(MOST, problem.members)
            self.jumps: list[NDArray[np.float64]] = []
        else:
            kept = self._restored
            self.how = Choice(**kept["integration"])
            self.averages, self.drifts = Averages(**kept["averages"]), Drifts(**kept["drifts"])
            self.member, self.batch = int(kept["member"]), int(kept.get("batch", 1))
            self.jumps = [np.array(one) for one in kept.get("jumps", ())]
            self.at_once = int(kept.get("at_once", 0))
        self._round: Round | None = None
        self._current: Carried | None = None
        self.ended = False

    @property
    def steps(self) -> int:
        """Steps of one trajectory."""
        return sum(self.problem.steps(k, self.how.dt)[0] for k in range(len(self.problem.times) - 1))

    @property
    def current(self) -> Carried:
        """The trajectories that are being propagated."""
        # there is at least one
        assert self._current is not None
        return self._current

    def advance(self, report: Report) -> None:
        """Carry the trajectories that are left, and average them in their order."""
        comm, members = self.monitor.comm, self.problem.members
        # round after round: each rank carries its part, and all average in the order of the members
        while self.member < members and not self.ended:
            part = self._round = Round(comm, self.member, self.batch, members)
            inner = None if self._restored is None else self._inner(part, self._restored)
            self._restored = None
            self._current = self._begin(part, inner)
            self.current.advance(report, self.member * self.steps)
            for rows in part.results(self.current.results()):
                self.drifts.add(rows)
                # names with an underscore belong to the trajectory, such as its state at t = 0
                self.averages.add({name: row for name, row in rows.items() if not name.startswith("_")})
                if "_jumps" in rows:
                    self.jumps.append(rows["_jumps"])
                # looked at after the same trajectories, whatever the number of ranks
                if self.problem.enough is not None and self.problem.enough(self.averages):
                    self.ended = True
                    break
            self.passes += sum(comm.allgather(self.current.passes))
            self.member = part.stop

    def _inner(self, part: Round, saved: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the state of this rank's trajectories; of a single one, the state of all ranks together."""
        problem, parts = self.problem, saved.get("trajectories", ())
        if problem.members > 1:
            return part.restored(saved, self.monitor)
        if "trajectory" in saved:
            whole: Mapping[str, Any] = saved["trajectory"]
            # ranks shared the state: their parts are in the order of the top bits
            return whole
        shared = [name for name in ("psi", "other") if parts[0].get(name) is not None]
        return {**parts[0], **{name: np.concatenate([one[name] for one in parts]) for name in shared}}

    def _begin(self, part: Round, restored: Mapping[str, Any] | None) -> Carried:
        if self.problem.open and not self.problem.jumping:
            return Density(self.problem, part.own, self.how, restored)
        if self.at_once:
            return Together(self.problem, part.own, self.how, restored)
        if self.problem.open:
            return Members(self.problem, part.own, self.how, restored)
        if self.batch > 1:
            return Ensemble(self.problem, part.own, self.how, restored)
        return Trajectory(self.problem, part.own.start, self.how, restored)

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; a collective call."""
        assert self._round is not None
        return {
            "integration": {**vars(self.how), "costs": dict(self.how.costs)},
            "averages": self.averages.state(),
            "drifts": vars(self.drifts),
            "batch": self.batch,
            "at_once": self.at_once,
            "jumps": self.jumps,
            **self._round.saved(self.current.state()),
        }
