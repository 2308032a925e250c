"""Trajectories shared by the ranks of a run: in each round every rank carries as many, and all make the same calls.

So all ranks report at the same points, where the round can be saved and stopped.  In the last round some trajectories may be
carried twice; they count once.  Averages take trajectories in their order, whoever carried them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.device.parallel import on_host

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.progress import Monitor

Rows = dict[str, "NDArray[Any]"]


class Round:
    """One round: the trajectories that each rank carries.

    Parameters
    ----------
    comm
        Ranks of the run.
    first
        First trajectory of the round.
    batch
        Most trajectories that a rank carries at once.
    members
        Trajectories of the run.
    """

    def __init__(self, comm: Comm, first: int, batch: int, members: int) -> None:
        self.comm = comm
        self.first = first
        # all ranks carry equally many; the last ones overlap with those before, rather than wait
        each = min(batch, -(-(members - first) // comm.size))
        starts = [min(first + rank * each, members - each) for rank in range(comm.size)]
        self.ranges = [range(start, start + each) for start in starts]
        self.own = self.ranges[comm.rank]
        self.stop = self.ranges[-1].stop

    def saved(self, trajectory: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state of the round for a checkpoint: members by rank, and their states; a collective call."""
        if self.comm.size == 1:
            return {"member": self.first, "trajectory": trajectory}
        states = self.comm.gather(on_host(trajectory))
        return {
            "member": self.first,
            "ranges": [(r.start, r.stop) for r in self.ranges],
            "trajectories": states,
        }

    def restored(self, saved: Mapping[str, Any], monitor: Monitor) -> Mapping[str, Any] | None:
        """Return the state of this rank's trajectories; None if other numbers of ranks carried others, which then begin anew."""
        state: Mapping[str, Any] | None = None
        if self.comm.size == 1 and "trajectory" in saved:
            state = saved["trajectory"]
        # same ranges: each rank goes on with its own
        elif [tuple(one) for one in saved.get("ranges", ())] == [(r.start, r.stop) for r in self.ranges]:
            state = saved["trajectories"][self.comm.rank]
        else:
            monitor.note(f"another number of ranks: trajectories from {self.first} on begin anew")
        return state

    def results(self, own: list[Rows]) -> Iterator[Rows]:
        """Yield the rows of all trajectories of the round in their order, each once; a collective call."""
        # members that several ranks carried are taken once
        following = self.first
        for members, arrays in zip(self.ranges, self.comm.allgather(own), strict=True):
            for member, rows in zip(members, arrays, strict=True):
                if member == following:
                    following += 1
                    yield rows
