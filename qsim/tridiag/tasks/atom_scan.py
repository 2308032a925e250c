"""A scan of `task: atom`: its runs as one batch, from output time to output time, several at once on threads or all on a GPU."""

from __future__ import annotations

import time as clock
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.tridiag.atom.cuda import CudaBatch, CudaMember, Stepping, merged
from qsim.tridiag.atom.propagator import truncated
from qsim.tridiag.atom.scan import below, focal_average
from qsim.tridiag.tasks import atom_spectra
from qsim.tridiag.tasks.atom import AtomEvolution, analyse, begun, warnings
from qsim.tridiag.tasks.atom_scan_result import AtomScanResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.scan import AtomScan

__all__ = ["run_scan"]

EXTRAPOLATED = 0.05  # share of a focal average that is told


class _Batch:
    """The propagations of all runs, kept in step."""

    def __init__(self, problem: AtomScan, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        saved = (
            [None] * len(problem.runs)
            if restored is None
            else [restored[f"run{k}"] for k in range(len(problem.runs))]
        )
        members: list[CudaMember | None] = [None] * len(problem.runs)
        if problem.device.is_cuda:
            grown = [begun(one, state) for one, state in zip(problem.runs, saved, strict=True)]
            members = _members(problem, grown)
        self.runs = [
            AtomEvolution(one, state, member)
            for one, state, member in zip(problem.runs, saved, members, strict=True)
        ]

    def advance(self, report: Report) -> None:
        """Propagate all runs to the end."""
        first = self.runs[0]
        with ThreadPoolExecutor(max_workers=self.problem.device.threads) as pool:
            for marks in first.remaining:
                if self.problem.device.is_cuda:
                    sums = self._together(marks)
                else:
                    sums = list(pool.map(lambda one, marks=marks: one.to(marks), self.runs))
                norms = [float(one[0]) for one in sums]
                report(Progress(marks[-1], {"smallest norm": min(norms), "largest norm": max(norms)}))

    def _together(self, marks: list[int]) -> list[NDArray[np.float64]]:
        """Propagate all runs to the next marks, batch by batch, and record."""
        found: list[NDArray[np.float64] | None] = [None] * len(self.runs)
        for batch, numbers in self._batches():
            begun = clock.perf_counter()
            ahead = np.array(marks) - batch.step
            sums = batch.advance(int(ahead[-1]), ahead)
            seconds = (clock.perf_counter() - begun) / len(numbers)
            for k in numbers:
                member = self.runs[k].propagator
                assert isinstance(member, CudaMember)
                found[k] = self.runs[k].record(marks, member.told(sums[member.index]), seconds)
        return [one for one in found if one is not None]

    def _batches(self) -> list[tuple[CudaBatch, list[int]]]:
        """Return the batches with the numbers of their runs; runs whose channels and box have grown alike become one batch."""
        members = [one.propagator for one in self.runs if isinstance(one.propagator, CudaMember)]
        kinds: dict[tuple[int, int], list[int]] = {}
        for k, one in enumerate(members):
            kinds.setdefault((one.lanes.lmax, one.lattice.grid.points), []).append(k)
        batches = []
        for numbers in kinds.values():
            batch = members[numbers[0]].batch
            if any(members[k].batch is not batch for k in numbers) or batch.members != len(numbers):
                batch = merged([members[k] for k in numbers])
                for index, k in enumerate(numbers):
                    self.runs[k].propagator = CudaMember(batch, index)
            batches.append((batch, numbers))
        return batches

    def state(self) -> State:
        """Return what continues all runs."""
        return {f"run{k}": one.state() for k, one in enumerate(self.runs)}


def _members(problem: AtomScan, sizes: list[tuple[int, int]]) -> list[CudaMember | None]:
    """Return the members of batches, one for each size (largest l, points), at t = 0."""
    found: list[CudaMember | None] = [None] * len(sizes)
    for size in dict.fromkeys(sizes):
        numbers = [k for k, one in enumerate(sizes) if one == size]
        first = problem.runs[numbers[0]]
        lanes, lattice = first.frame.lanes(size[0]), truncated(first.lattice, size[1])
        phi = [first.state(first.lattice, lanes)[:, : size[1]]] * len(numbers)
        fields = [problem.runs[k].field() for k in numbers]
        how = Stepping(first.setting.dt, first.velocity, first.order, first.setting.parts)
        batch = CudaBatch(problem.device, lattice, lanes, phi, fields, how)
        for index, k in enumerate(numbers):
            found[k] = CudaMember(batch, index)
    return found


def run_scan(problem: AtomScan, monitor: Monitor) -> AtomScanResult:
    """Propagate all runs, analyse each, average over the focus."""
    batch = _Batch(problem, monitor.restored)
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
        result = AtomScanResult(problem, [one.result() for one in batch.runs])
        told: dict[str, str] = {}
        states: dict[int, Any] = {}
        for k, one in enumerate(result.runs):
            analyse(one)
            atom_spectra.photoelectrons(one, batch.state, monitor, states)
            for key, text in warnings(one):
                told.setdefault(key, f"run {k}: {text}")
        for text in told.values():
            monitor.warn(text)
        monitor.note("no errors are claimed for scans; a run of its own claims them")
        _focus(result, monitor)
    return result


def _focus(result: AtomScanResult, monitor: Monitor) -> None:
    """Average yields over the focus, for every intensity of the scan as its peak, and the spectrum for the last."""
    block = result.problem.focal
    if block is None:
        return
    x = np.array(result.problem.values["intensity"])
    yields = result.each()["continuum_population"]
    result.focal["focal_yield"] = np.array(
        [float(focal_average(x, yields, peak, block.dimensions)) for peak in x]
    )
    share = below(x, yields, float(x[-1]), block.dimensions)
    if share > EXTRAPOLATED:
        monitor.warn(
            f"{share:.0%} of the yield of the focus comes from below the first intensity of the scan, where it is "
            f"extrapolated: add lower ones"
        )
    pes = result.stacked("pes")
    if pes is not None:
        result.focal["focal_pes"] = focal_average(x, pes, float(x[-1]), block.dimensions)
