"""A scan of `task: atom`: its runs as one batch, from output time to output time, several at once on threads or all on a GPU.

Ranks of a run share the runs of the scan: rank r of R carries runs r, r + R, r + 2 R, ..., since neighbours of a scan cost alike.
"""

from __future__ import annotations

import time as clock
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm
from qsim.core.run.loop import Progress, drive
from qsim.tridiag.atom import accuracy
from qsim.tridiag.atom.evolution.cuda import CudaBatch, CudaMember, Stepping, merged
from qsim.tridiag.atom.evolution.propagator import truncated
from qsim.tridiag.atom.photoelectrons import analysis as photoelectrons
from qsim.tridiag.atom.result import AtomResult
from qsim.tridiag.atom.run import ERRORS, SPECTRA, WARNINGS, AtomEvolution, analyse, begun, errors, warnings
from qsim.tridiag.atom.scan.focus import Focus, focal_average, least_power
from qsim.tridiag.atom.scan.result import AtomScanResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.scan.problem import AtomScan

__all__ = ["run_scan"]

# share of a focal average from which a warning is given
EXTRAPOLATED = 0.05


class _Batch:
    """The propagations of the runs of this rank, kept in step with one another and with the runs of other ranks.

    Attributes
    ----------
    own : list of int
        Numbers of the runs of this rank in the scan.
    runs : list of AtomEvolution
        Their propagations.
    """

    def __init__(
        self, problem: AtomScan, restored: Mapping[str, Any] | None, comm: Comm | None = None
    ) -> None:
        self.problem = problem
        self.comm = SerialComm() if comm is None else comm
        # neighbouring runs of a scan cost alike, so ranks take turns
        self.own = list(range(self.comm.rank, len(problem.runs), self.comm.size))
        mine = [problem.runs[k] for k in self.own]
        saved = [None if restored is None else restored[f"run{k}"] for k in self.own]
        # on a CPU each run has a propagator of its own
        members: list[CudaMember | None] = [None] * len(mine)
        if problem.device.is_cuda:
            grown = [begun(one, state) for one, state in zip(mine, saved, strict=True)]
            members = _members(problem, mine, grown)
        self.runs = [
            AtomEvolution(one, state, member) for one, state, member in zip(mine, saved, members, strict=True)
        ]

    def advance(self, report: Report) -> None:
        """Propagate all runs to the end."""
        first = self.runs[0]
        # runs are independent between marks: kernels release the interpreter lock, so threads work side by side
        with ThreadPoolExecutor(max_workers=self.problem.device.threads) as pool:
            for marks in first.remaining:
                if self.problem.device.is_cuda:
                    sums = self._together(marks)
                else:
                    sums = list(pool.map(lambda one, marks=marks: one.to(marks), self.runs))
                # all ranks must report at the same marks, where the run may be stopped for all of them
                norms = [float(one[0]) for one in sums]
                extremes = self.comm.gather_numbers(np.array([min(norms), max(norms)]))
                smallest, largest = float(extremes[:, 0].min()), float(extremes[:, 1].max())
                report(Progress(marks[-1], {"smallest norm": smallest, "largest norm": largest}))

    def _together(self, marks: list[int]) -> list[NDArray[np.float64]]:
        """Propagate the runs of this rank to the next marks, batch by batch, and record."""
        sums_of_runs: list[NDArray[np.float64] | None] = [None] * len(self.runs)
        for batch, numbers in self._batches():
            begun = clock.perf_counter()
            # marks count from the start, a batch from where it stands
            ahead = np.array(marks) - batch.step
            sums = batch.advance(int(ahead[-1]), ahead)
            seconds = (clock.perf_counter() - begun) / len(numbers)
            for k in numbers:
                member = self.runs[k].propagator
                assert isinstance(member, CudaMember)
                sums_of_runs[k] = self.runs[k].record(marks, member.components(sums[member.index]), seconds)
        return [one for one in sums_of_runs if one is not None]

    def _batches(self) -> list[tuple[CudaBatch, list[int]]]:
        """Return the batches with the numbers of their runs; runs whose channels and box have grown alike become one batch."""
        members = [one.propagator for one in self.runs if isinstance(one.propagator, CudaMember)]
        # a batch has one shape: largest l and points of the box
        kinds: dict[tuple[int, int], list[int]] = {}
        for k, one in enumerate(members):
            kinds.setdefault((one.lanes.lmax, one.lattice.grid.points), []).append(k)
        batches = []
        for numbers in kinds.values():
            # a batch stays as it is while exactly its members have that shape
            batch = members[numbers[0]].batch
            if any(members[k].batch is not batch for k in numbers) or batch.members != len(numbers):
                batch = merged([members[k] for k in numbers])
                for index, k in enumerate(numbers):
                    self.runs[k].propagator = CudaMember(batch, index)
            batches.append((batch, numbers))
        return batches

    def state(self) -> State:
        """Return what continues all runs, on rank 0; a collective call.

        Run by run, so that a message has one state per rank.
        """
        states: dict[str, object] = {}
        for rounds in range(self.most):
            one = self.runs[rounds].state() if rounds < len(self.runs) else None
            for rank, state in enumerate(self.comm.gather(one) or []):
                if state is not None:
                    states[f"run{rounds * self.comm.size + rank}"] = state
        return states

    @property
    def most(self) -> int:
        """Largest number of runs of a rank."""
        return -(-len(self.problem.runs) // self.comm.size)


def _members(
    problem: AtomScan, runs: list[AtomProblem], sizes: list[tuple[int, int]]
) -> list[CudaMember | None]:
    """Return the members of batches, one for each run with its size (largest l, points), at t = 0."""
    members: list[CudaMember | None] = [None] * len(sizes)
    for size in dict.fromkeys(sizes):
        numbers = [k for k, one in enumerate(sizes) if one == size]
        # runs of a scan have the same atom and the same initial state: one state for all members
        first = runs[numbers[0]]
        lanes, lattice = first.frame.lanes(size[0]), truncated(first.lattice, size[1])
        phi = [first.state(first.lattice, lanes)[:, : size[1]]] * len(numbers)
        fields = [runs[k].field() for k in numbers]
        how = Stepping(first.setting.dt, first.velocity, first.order, first.setting.parts)
        batch = CudaBatch(problem.device, lattice, lanes, phi, fields, how)
        for index, k in enumerate(numbers):
            members[k] = CudaMember(batch, index)
    return members


def run_scan(problem: AtomScan, monitor: Monitor) -> AtomScanResult:
    """Propagate all runs, analyse each, average over the focus."""
    comm = monitor.comm
    batch = _Batch(problem, monitor.restored, comm)
    first = batch.runs[0]
    with monitor.stage("propagate"):
        drive(
            batch,
            monitor,
            total=problem.runs[0].setting.steps,
            unit="steps",
            what="propagate",
            done=first.start,
        )
    with monitor.stage("analyse"):
        own: list[AtomResult] = []
        said: list[tuple[int, str, float, str]] = []
        states: dict[int, Any] = {}
        # all runs are repeated, or none
        work = sum(comm.allgather(sum(accuracy.work_of(one.result()) for one in batch.runs)))
        repeated = accuracy.claimed(problem.runs[0], work, monitor)
        for rounds in range(batch.most):
            # ranks may have different numbers of runs
            with monitor.alone():
                if rounds < len(batch.runs):
                    one = batch.runs[rounds].result()
                    _judge(one, batch, monitor, states)
                    none: list[tuple[str, float, str]] = []
                    remarks = monitor.judged(WARNINGS, partial(list, warnings(one)), none)
                    if repeated:
                        # of spectra a scan keeps no errors; an attoclock angle is read from one
                        angle = "attoclock_angle" in one.numbers
                        find = partial(errors, one, batch.state, monitor, work, spectra=angle)
                        remarks = remarks + monitor.judged(ERRORS, find, none)
                    said += [(batch.own[rounds], *warning) for warning in remarks]
                    own.append(one)
            if comm.size > 1:
                monitor.poll(batch.state)
        result = AtomScanResult(problem, _of_all(batch, own))
        for text in [text for part in comm.allgather(monitor.warnings) for text in part]:
            monitor.warn(text)
        for text in _worst([one for part in comm.allgather(said) for one in part]):
            monitor.warn(text)
        monitor.judged("averages over the focus", partial(_focus, result, monitor), None)
    return result


def _judge(one: AtomResult, batch: _Batch, monitor: Monitor, states: dict[int, Any]) -> None:
    """Add what the end of a run tells, and its spectra; `states` holds the scattering states of the runs before."""
    analyse(one, monitor)
    monitor.judged(SPECTRA, lambda: photoelectrons.photoelectrons(one, batch.state, monitor, states), None)


def _worst(said: list[tuple[int, str, float, str]]) -> Iterator[str]:
    """Yield the worst warning of each kind, from (run, kind, how bad, text) of all runs, whoever carried them."""
    for kind in dict.fromkeys(one[1] for one in sorted(said)):
        # of equal badness the first run
        alike = [one for one in said if one[1] == kind]
        run, _, _, text = max(alike, key=lambda one: (one[2], -one[0]))
        others = f" (the worst of {len(alike)} runs)" if len(alike) > 1 else ""
        yield f"run {run}: {text}{others}"


def _of_all(batch: _Batch, own: list[AtomResult]) -> list[AtomResult]:
    """Return the results of all runs on every rank, without the states of other ranks; a collective call."""
    comm, problem = batch.comm, batch.problem
    results: list[AtomResult] = []
    for k, one in enumerate(problem.runs):
        rounds, owner = divmod(k, comm.size)
        if comm.size == 1:
            results.append(own[rounds])
            continue
        mine = own[rounds] if owner == comm.rank else None
        # every rank has the problem, and nothing of a scan needs the state any more
        sent = None if mine is None else {n: v for n, v in vars(mine).items() if n not in ("problem", "phi")}
        parts = comm.bcast(sent, owner)
        # the owner has it
        assert parts is not None
        phi = np.zeros((0, one.lattice.grid.points), complex) if mine is None else mine.phi
        results.append(AtomResult(problem=one, phi=phi, **parts))
    return results


def _averaged(
    x: NDArray[np.float64],
    yields: NDArray[np.float64],
    unsure: NDArray[np.float64] | None,
    peak: float,
    dimensions: int,
) -> Focus:
    """Return the average of yields over a focus; its error has a part of those of the yields, where they are known."""
    found = focal_average(x, yields, peak, dimensions)
    if unsure is None or bool(np.isnan(unsure).any()):
        return found
    # the integral grows with every yield: all are too large, or too small
    ends = [
        focal_average(x, np.maximum(yields + sign * unsure, 0.0), peak, dimensions).value
        for sign in (1.0, -1.0)
    ]
    apart = [abs(end - found.value) for end in ends]
    return found._replace(error=found.error + np.max(apart))


def _focus(result: AtomScanResult, monitor: Monitor) -> None:
    """Average yields over the focus, for every intensity of the scan as its peak, and the spectrum for the last."""
    block = result.problem.focal
    if block is None:
        return
    x = np.array(result.problem.values["intensity"])
    unsure = result.each_error().get("continuum_population")
    # every intensity of the scan serves as the peak of a focus: intensities above it do not occur in it
    yields = result.each()["continuum_population"]
    averages = [_averaged(x, yields, unsure, float(peak), block.dimensions) for peak in x]
    last, least = averages[-1], least_power(block.dimensions)
    if np.isnan(last.value):
        monitor.warn(
            f"no average over the focus: its integral in {block.dimensions} dimensions diverges, because the yield falls off with"
            f" power {last.power:.3g} of the intensity between the two lowest ({yields[0]:.3g} and {yields[1]:.3g}), and a power"
            f" above {least:g} is needed; add lower intensities if it is higher there, or set dimensions: 2"
        )
    else:
        result.focal["focal_yield"] = np.array([float(one.value) for one in averages])
        result.focal["focal_yield_error"] = np.array([float(one.error) for one in averages])
        share = float(last.below / last.value) if last.value > 0.0 else 0.0
        if share > EXTRAPOLATED:
            monitor.warn(
                f"{share:.0%} of the yield of the focus comes from below the first intensity of the scan, where it is "
                f"extrapolated with power {last.power:.3g}: add lower ones"
            )
    # energy by energy, since each has a power law of its own
    pes = result.stacked("pes")
    if pes is not None:
        spectrum = focal_average(x, pes, float(x[-1]), block.dimensions)
        result.focal["focal_pes"] = spectrum.value
        result.focal["focal_pes_error"] = spectrum.error
        if missing := int(np.isnan(spectrum.value).sum()):
            monitor.warn(
                f"focal_pes is missing at {missing} of {spectrum.value.size} energies: the spectrum there falls off with power"
                f" {least:g} of the intensity or less, so that the integral over the focus diverges"
            )
