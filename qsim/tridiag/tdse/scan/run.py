"""A scan: its runs from output time to output time, several at once on threads, or as the geometry carries them on a GPU.

Ranks of a run share the runs of the scan: rank r of R carries runs r, r + R, r + 2 R, ..., since neighbours of a scan cost alike.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm
from qsim.core.run.loop import Progress, drive
from qsim.tridiag.tdse import judge
from qsim.tridiag.tdse.run import finished
from qsim.tridiag.tdse.scan.focus import Focus, focal_average, least_power
from qsim.tridiag.tdse.scan.result import ScanResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.tdse.motion import Scan

__all__ = ["run_scan"]

# share of a focal average from which a warning is given
EXTRAPOLATED = 0.05


class _Batch:
    """The propagations of the runs of this rank, kept in step with one another and with the runs of other ranks.

    Attributes
    ----------
    own : list of int
        Numbers of the runs of this rank in the scan.
    runs : list of Evolution
        Their propagations.
    """

    def __init__(self, problem: Scan, restored: Mapping[str, Any] | None, comm: Comm | None = None) -> None:
        self.problem = problem
        self.comm = SerialComm() if comm is None else comm
        # neighbouring runs of a scan cost alike, so ranks take turns
        self.own = list(range(self.comm.rank, len(problem.runs), self.comm.size))
        saved = [None if restored is None else restored[f"run{k}"] for k in self.own]
        self.runs = problem.geometry.begin(problem.device, [problem.runs[k] for k in self.own], saved)

    def advance(self, report: Report) -> None:
        """Propagate all runs to the end."""
        device = self.problem.device
        # runs are independent between marks: kernels release the interpreter lock, so threads work side by side
        with ThreadPoolExecutor(max_workers=device.threads) as pool:
            for marks in self.runs[0].remaining:
                if device.is_cuda:
                    sums = self.problem.geometry.together(self.runs, marks)
                else:
                    sums = list(pool.map(lambda one, marks=marks: one.to(marks), self.runs))
                # all ranks must report at the same marks, where the run may be stopped for all of them
                norms = [float(one[0]) for one in sums]
                extremes = self.comm.gather_numbers(np.array([min(norms), max(norms)]))
                smallest, largest = float(extremes[:, 0].min()), float(extremes[:, 1].max())
                report(Progress(marks[-1], {"smallest norm": smallest, "largest norm": largest}))

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


def run_scan(problem: Scan, monitor: Monitor) -> ScanResult:
    """Propagate all runs, analyse each, average over the focus."""
    comm = monitor.comm
    batch = _Batch(problem, monitor.restored, comm)
    geometry = problem.geometry
    with monitor.stage("propagate"):
        drive(
            batch,
            monitor,
            total=problem.runs[0].steps,
            unit="steps",
            what="propagate",
            done=batch.runs[0].start,
        )
    with monitor.stage("analyse"):
        own: list[Any] = []
        said: list[tuple[int, str, float, str]] = []
        shared: dict[int, Any] = {}
        # all runs are repeated, or none
        work = sum(comm.allgather(sum(geometry.work(one.result()) for one in batch.runs)))
        judge.claimed(problem.runs[0], work, monitor)
        for rounds in range(batch.most):
            # ranks may have different numbers of runs
            with monitor.alone():
                if rounds < len(batch.runs):
                    one = batch.runs[rounds].result()
                    remarks = finished(one, batch.state, monitor, SerialComm(), work, shared)
                    said += [(batch.own[rounds], *remark) for remark in remarks]
                    own.append(one)
            if comm.size > 1:
                monitor.poll(batch.state)
        result = ScanResult(problem, _of_all(batch, own))
        for text in [text for part in comm.allgather(monitor.warnings) for text in part]:
            monitor.warn(text)
        for text in _worst([one for part in comm.allgather(said) for one in part]):
            monitor.warn(text)
        monitor.judged("averages over the focus", partial(_focus, result, monitor), None)
    return result


def _worst(said: list[tuple[int, str, float, str]]) -> Iterator[str]:
    """Yield the worst warning of each kind, from (run, kind, how bad, text) of all runs, whoever carried them."""
    for kind in dict.fromkeys(one[1] for one in sorted(said)):
        # of equal badness the first run
        alike = [one for one in said if one[1] == kind]
        run, _, _, text = max(alike, key=lambda one: (one[2], -one[0]))
        others = f" (the worst of {len(alike)} runs)" if len(alike) > 1 else ""
        yield f"run {run}: {text}{others}"


def _of_all(batch: _Batch, own: list[Any]) -> list[Any]:
    """Return the results of all runs on every rank, without the states of other ranks; a collective call."""
    comm, problem, state = batch.comm, batch.problem, batch.problem.geometry.state
    results: list[Any] = []
    for k, one in enumerate(problem.runs):
        rounds, owner = divmod(k, comm.size)
        if comm.size == 1:
            results.append(own[rounds])
            continue
        mine = own[rounds] if owner == comm.rank else None
        # every rank has the problem, and nothing of a scan needs the state any more
        sent = None if mine is None else {n: v for n, v in vars(mine).items() if n not in ("problem", state)}
        parts = comm.bcast(sent, owner)
        # the owner has it, and every rank has some run of its kind
        assert parts is not None
        whole = np.zeros((0, 0), complex) if mine is None else getattr(mine, state)
        results.append(type(own[0])(problem=one, **{state: whole}, **parts))
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


def _focus(result: ScanResult, monitor: Monitor) -> None:
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
    pes = result.pes()
    if pes is not None:
        spectrum = focal_average(x, pes, float(x[-1]), block.dimensions)
        result.focal["focal_pes"] = spectrum.value
        result.focal["focal_pes_error"] = spectrum.error
        energy = result.energies()
        # levels below the threshold have no power law
        assert energy is not None
        if missing := int(np.isnan(spectrum.value[energy > 0.0]).sum()):
            monitor.warn(
                f"focal_pes is missing at {missing} of {spectrum.value.size} energies: the spectrum there falls off with power"
                f" {least:g} of the intensity or less, so that the integral over the focus diverges"
            )
