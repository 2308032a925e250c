"""A scan of `task: atom`: its runs as one batch, from output time to output time, several at once on threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.tridiag.atom.scan import below, focal_average
from qsim.tridiag.tasks import atom_spectra
from qsim.tridiag.tasks.atom import AtomEvolution, analyse, warnings
from qsim.tridiag.tasks.atom_scan_result import AtomScanResult

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        self.runs = [AtomEvolution(one, state) for one, state in zip(problem.runs, saved, strict=True)]

    def advance(self, report: Report) -> None:
        """Propagate all runs to the end."""
        first = self.runs[0]
        with ThreadPoolExecutor(max_workers=self.problem.threads) as pool:
            for mark in first.remaining:
                sums = list(pool.map(lambda one, mark=mark: one.to(mark), self.runs))
                norms = [float(one[0]) for one in sums]
                report(Progress(mark, {"smallest norm": min(norms), "largest norm": max(norms)}))

    def state(self) -> State:
        """Return what continues all runs."""
        return {f"run{k}": one.state() for k, one in enumerate(self.runs)}


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
