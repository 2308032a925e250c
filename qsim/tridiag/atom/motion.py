"""An atom as a scan sees it: its runs side by side, on a GPU as batches of those with one shape."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.atom import accuracy, run
from qsim.tridiag.atom.evolution.cuda import CudaBatch, CudaMember, Stepping, merged
from qsim.tridiag.atom.evolution.propagator import truncated
from qsim.tridiag.atom.photoelectrons import analysis as photoelectrons
from qsim.tridiag.atom.result import QUANTITIES
from qsim.tridiag.atom.run import AtomEvolution, begun
from qsim.tridiag.tdse.scan.problem import Motion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.run.loop import State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.tdse.scan.problem import Remarks, Scan

__all__ = ["ATOM"]


def _begin(
    problem: Scan, own: Sequence[int], saved: Sequence[Mapping[str, Any] | None]
) -> list[AtomEvolution]:
    """Return the propagations of some runs; on a CPU each has a propagator of its own."""
    mine = [problem.runs[k] for k in own]
    members: Sequence[CudaMember | None] = [None] * len(mine)
    if problem.device.is_cuda:
        grown = [begun(one, state) for one, state in zip(mine, saved, strict=True)]
        members = _members(problem.device, mine, grown)
    return [AtomEvolution(*one) for one in zip(mine, saved, members, strict=True)]


def _together(runs: Sequence[AtomEvolution], marks: Sequence[int]) -> list[NDArray[np.float64]]:
    """Propagate the runs of a rank to the next marks, batch by batch, and record."""
    sums_of_runs: list[NDArray[np.float64] | None] = [None] * len(runs)
    for batch, numbers in _batches(runs):
        start = clock.perf_counter()
        # marks count from the start, a batch from where it stands
        ahead = np.array(marks) - batch.step
        sums = batch.advance(int(ahead[-1]), ahead)
        seconds = (clock.perf_counter() - start) / len(numbers)
        for k in numbers:
            member = runs[k].propagator
            assert isinstance(member, CudaMember)
            sums_of_runs[k] = runs[k].record(marks, member.components(sums[member.index]), seconds)
    return [one for one in sums_of_runs if one is not None]


def _batches(runs: Sequence[AtomEvolution]) -> list[tuple[CudaBatch, list[int]]]:
    """Return the batches with the numbers of their runs; runs whose channels and box have grown alike become one batch."""
    members = [one.propagator for one in runs if isinstance(one.propagator, CudaMember)]
    # a batch has one atom and one shape: largest l and points of the box
    kinds: dict[tuple[int, int, int], list[int]] = {}
    for k, one in enumerate(members):
        kinds.setdefault((id(runs[k].problem.lattice), one.lanes.lmax, one.lattice.grid.points), []).append(k)
    batches = []
    for numbers in kinds.values():
        # a batch stays as it is while exactly its members have that shape
        batch = members[numbers[0]].batch
        if any(members[k].batch is not batch for k in numbers) or batch.members != len(numbers):
            batch = merged([members[k] for k in numbers])
            for index, k in enumerate(numbers):
                runs[k].propagator = CudaMember(batch, index)
        batches.append((batch, numbers))
    return batches


def _members(
    device: Device, runs: Sequence[AtomProblem], sizes: list[tuple[int, int]]
) -> list[CudaMember | None]:
    """Return the members of batches, one for each run with its size (largest l, points), at t = 0."""
    members: list[CudaMember | None] = [None] * len(sizes)
    kinds = [(id(run.lattice), size) for run, size in zip(runs, sizes, strict=True)]
    for kind in dict.fromkeys(kinds):
        numbers = [k for k, one in enumerate(kinds) if one == kind]
        # runs of one atom have the same initial state: one state for all members
        first, size = runs[numbers[0]], kind[1]
        lanes, lattice = first.frame.lanes(size[0]), truncated(first.lattice, size[1])
        phi = [first.state(first.lattice, lanes)[:, : size[1]]] * len(numbers)
        fields = [runs[k].field() for k in numbers]
        how = Stepping(first.setting.dt, first.velocity, first.order, first.setting.parts)
        batch = CudaBatch(device, lattice, lanes, phi, fields, how)
        for index, k in enumerate(numbers):
            members[k] = CudaMember(batch, index)
    return members


def _analyse(
    result: AtomResult, state: Callable[[], State], monitor: Monitor, shared: dict[int, Any]
) -> None:
    """Add what the end of a run tells, and its spectra; `shared` holds the scattering states of the runs before."""
    run.analyse(result, monitor)
    monitor.judged(run.SPECTRA, lambda: photoelectrons.photoelectrons(result, state, monitor, shared), None)


def _errors(result: AtomResult, state: Callable[[], State], monitor: Monitor, work: float) -> Remarks:
    # of spectra a scan keeps no errors; an attoclock angle is read from one
    return run.errors(result, state, monitor, work, spectra="attoclock_angle" in result.numbers)


ATOM = Motion(
    task="atom_scan",
    quantities=QUANTITIES,
    patterns=(
        "population_",
        "norm_within_",
        "hhg_cutoff",
        "attoclock_",
        "norm_final",
        "bound_",
        "continuum_",
        "rate",
        "pes_total",
        "adk_yield",
    ),
    energy="energy",
    spectrum="pes",
    state="phi",
    begin=_begin,
    together=_together,
    analyse=_analyse,
    errors=_errors,
    warnings=lambda result: list(run.warnings(result)),
    work=accuracy.work_of,
    claimed=accuracy.claimed,
)
