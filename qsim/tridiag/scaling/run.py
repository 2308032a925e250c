"""`task: scaling`: time of the N-shaped partition method against the number of blocks, as in the paper's Fig. 2.

The literal stages are timed for every size, number of blocks and number of nested partitions; alpha and beta of the cost model
(Eqs. 7-9) are fitted to one partition of the first size, and what the model then calls the best number of blocks stands beside
the best one measured.  The copies that refresh the matrix, which the stages overwrite, are not counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.tridiag.scaling.result import ScalingResult
from qsim.tridiag.systems.sources import dtype_of, generator, located

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.model import Scaling
    from qsim.tridiag.scaling.problem import ScalingProblem
    from qsim.tridiag.solver.systems import Source

__all__ = ["block_numbers", "measure", "run_scaling"]

# `blocks: auto`: powers of two from 16 to n / 8
LEAST, MOST = 16, 8


def block_numbers(sizes: Sequence[int]) -> list[int]:
    """Return powers of two from 16 to an eighth of the largest size."""
    top = max(MOST, max(sizes) // MOST)
    # equal steps on the logarithmic axis of Fig. 2; below 16 blocks few processors work, above n / 8 blocks have few rows
    powers = [1 << k for k in range(int(math.log2(LEAST)), int(math.log2(top)) + 1)]
    # too few rows for 16 blocks
    return powers or [min(2, max(1, max(sizes) - 1))]


def measure(
    make: Callable[[int], Source], device: Device, setting: Scaling, monitor: Monitor
) -> ScalingResult:
    """Time the solvers.

    Parameters
    ----------
    make
        Makes the system of n rows.
    device
        Where the partition method runs.
    setting
        Sizes, numbers of blocks (``auto``: :func:`block_numbers`) and of partitions, repetitions, other solvers.
    monitor
        Told of the progress.
    """
    timings = _Timings(make, device, setting, monitor)
    drive(timings, monitor, total=int(timings.times.size), unit="timings", what="scaling")
    # Eq. 7 takes a processor for every block: with fewer, alpha and beta describe nothing
    if not device.is_cuda:
        monitor.note(
            f"the cost model has as many processors as blocks, this CPU {device.threads} threads: alpha and beta are formal"
        )
    return timings.result()


class _Timings:
    """Times of all solvers for all sizes; they cannot be continued."""

    def __init__(
        self, make: Callable[[int], Source], device: Device, setting: Scaling, monitor: Monitor
    ) -> None:
        self.make, self.device, self.setting, self.monitor = make, device, setting, monitor
        sizes = setting.n
        # sorted, each once: axes of the results file
        self.counts = sorted(set(block_numbers(sizes) if isinstance(setting.blocks, str) else setting.blocks))
        self.nested = sorted(set(setting.iterations))
        self.compare = list(dict.fromkeys(setting.compare))
        # NaN: not timed, since n rows allow fewer blocks
        self.times = np.full((len(sizes), len(self.nested), len(self.counts)), np.nan)
        self.backward = np.zeros(len(sizes))
        self.others: dict[str, list[float]] = {name: [] for name in self.compare}
        self.name = ""

    def state(self) -> State:
        """Return nothing: times of two processes do not belong together."""
        return {}

    def advance(self, report: Report) -> None:
        """Time everything.

        Raises
        ------
        ValueError
            If a size has no room for the smallest number of blocks.
        """
        for s, n in enumerate(self.setting.n):
            source = self.make(n)
            self.name = source.name
            # a batch of one system, as the stages take it
            host = [part.reshape(1, -1) for part in source.read(0, n)]
            with self.device.use():
                timer = _Timer(self.device, host, self.setting.repeats)
                self._literal(s, n, timer, report)
                if np.isnan(self.times[s]).all():
                    raise ValueError(f"{n} rows have room for at most {n - 1} blocks, not {self.counts[0]}")
                # Woodbury is timed at the number of blocks where one partition is fastest
                cuts = self.counts[int(np.nanargmin(self.times[s, 0]))]
                for other in self.compare:
                    self.others[other].append(timer.other(other, host, cuts))
                fast = timer.automatic()
            if fast is not None:
                self.others.setdefault("auto", []).append(fast)

    def _literal(self, s: int, n: int, timer: _Timer, report: Report) -> None:
        """Time the stages of the paper for every number of partitions and blocks that n rows have room for."""
        for i, levels in enumerate(self.nested):
            for k, count in enumerate(self.counts):
                # more blocks than rows allow: the time stays NaN
                if count < n:
                    self.times[s, i, k] = timer.literal(count, levels)
                    # every timed solution is judged, so that no time stands for a wrong answer
                    error = self.monitor.judged("a backward error", timer.error, math.nan)
                    # NaN stays
                    self.backward[s] = np.maximum(self.backward[s], error)
                done = (s * len(self.nested) + i) * len(self.counts) + k + 1
                report(Progress(done, savable=False))

    def result(self) -> ScalingResult:
        """Return the times, and the cost model fitted to one partition of the first size."""
        from qsim.tridiag.solver.partition import fit

        sizes, first = self.setting.n, self.times[0, 0]
        usable = np.isfinite(first)
        counts = [count for count, good in zip(self.counts, usable, strict=True) if good]
        alpha, beta = 0.0, 0.0
        # two parameters need two times
        if len(counts) > 1:
            # a fit that fails costs the two parameters, not the times
            alpha, beta = self.monitor.judged(
                "the cost model",
                lambda: fit(counts, first[usable].tolist(), sizes[0], self.nested[0]),
                (math.nan, math.nan),
            )
        return ScalingResult(
            self.name,
            list(sizes),
            np.array(self.counts),
            self.nested,
            self.times,
            alpha,
            beta,
            self.backward,
            {other: np.array(seconds) for other, seconds in self.others.items()},
        )


class _Timer:
    """One system, solved again and again."""

    def __init__(self, device: Device, host: Sequence[NDArray[Any]], repeats: int) -> None:
        self.device, self.repeats = device, repeats
        self.given = [device.asarray(part) for part in host]
        # the stages overwrite the system: every call gets a fresh copy of it
        self.used = [device.xp.empty_like(part) for part in self.given]
        self.x = device.xp.empty_like(self.given[3])

    def _best(self, work: Callable[[], object], warm: bool = True) -> float:
        """Return the seconds of the fastest call; the first one, which compiles, does not count."""
        seconds = []
        for repeat in range(self.repeats + warm):
            # outside of the timed part
            for used, given in zip(self.used, self.given, strict=True):
                used[...] = given
            # kernels run on by themselves: the clock starts and stops with an idle device
            self.device.synchronize()
            start = time.perf_counter()
            work()
            self.device.synchronize()
            if repeat >= warm:
                seconds.append(time.perf_counter() - start)
        # the least disturbed call: what others do on the machine can only add to it
        return min(seconds)

    def literal(self, blocks: int, iterations: int) -> float:
        """Return the seconds of the literal stages."""
        from qsim.tridiag.kernels.partition import stages
        from qsim.tridiag.solver.partition import levels

        a, b, c, d = self.used
        # joint lines are made once for a system of one shape, and are not part of its solution
        partition = levels(a.shape[1], blocks, iterations)
        return self._best(lambda: stages.solve_levels(self.device, partition, a, b, c, d, self.x))

    def error(self) -> float:
        """Return the backward error of the solution before."""
        from qsim.tridiag.kernels.partition import stages

        a, b, c, d = self.given
        # the residual may overwrite the copy of d, which the next call makes anew
        norms = stages.residual(self.device, a, b, c, d, self.x, self.used[3])
        residual, x, rhs, matrix, _rowwise = norms[0]
        return float(residual / (matrix * x + rhs)) if residual else 0.0

    def automatic(self) -> float | None:
        """Return the seconds of the fast kernels, if there are any."""
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("qsim.tridiag.kernels.partition.nshape") is None:
            return None
        solver = import_module("qsim.tridiag.kernels.partition.nshape").partition_solve
        flat = [part.reshape(-1) for part in (*self.used, self.x)]
        return self._best(lambda: solver(self.device, *flat, flat[0].size))

    def other(self, name: str, host: Sequence[NDArray[Any]], blocks: int) -> float:
        """Return the seconds of another solver on the CPU."""
        from qsim.core.device.device import cpu
        from qsim.tridiag.kernels.partition import serial
        from qsim.tridiag.solver.partition import joints
        from qsim.tridiag.solver.pieces import gtsv

        # on the host: these have no CUDA kernels
        where, x = cpu(self.device.threads), np.empty_like(host[3])
        a, b, c, d = host
        if name == "thomas":
            return self._best(lambda: serial.thomas(where, a, b, c, d, x))
        # one system on one thread, as LAPACK offers it
        if name == "lapack":
            return self._best(lambda: gtsv(a[0], b[0], c[0], d.T))
        if name == "woodbury":
            cut = joints(a.shape[1], blocks)
            return self._best(lambda: serial.woodbury(where, cut, a, b, c, d, x))
        raise ValueError(f"compare knows thomas, lapack and woodbury, not {name!r}")


def run_scaling(problem: ScalingProblem, monitor: Monitor) -> ScalingResult:
    """Time the partition method against the number of blocks."""
    from qsim.tridiag.deck.model import FileSystem
    from qsim.tridiag.solver import systems

    block, setting, precision = problem.system, problem.setting, problem.precision
    # the deck has checked that
    assert not isinstance(block, FileSystem)

    def make(n: int) -> Source:
        if block is None:
            # the system of the paper's Fig. 2, where the deck gives none
            return systems.CrankNicolsonSource(n, seed=problem.seed, dtype=dtype_of(precision, "complex"))
        return generator(block, precision, problem.seed, n)

    with located(problem), monitor.stage("scaling"):
        return measure(make, problem.device, setting, monitor)
