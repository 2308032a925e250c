"""`task: scaling`: time of the N-shaped partition method against the number of blocks, as in the paper's Fig. 2.

The literal stages are timed for every size, number of blocks and number of nested partitions; alpha and beta of the cost model
(Eqs. 7-9) are fitted to one partition of the first size, and what the model then calls the best number of blocks stands beside
the best one measured.  The copies that refresh the matrix, which the stages overwrite, are not counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.tables import Scalar, Table
from qsim.core.run.loop import Progress, drive
from qsim.tridiag.tasks.solve_sources import dtype_of, generator, located

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.model import Scaling
    from qsim.tridiag.problem import ScalingProblem
    from qsim.tridiag.solver.systems import Source

__all__ = ["ScalingResult", "block_numbers", "measure", "run_scaling"]

LEAST, MOST = 16, 8  # `blocks: auto`: powers of two from 16 to n / 8

TABLES = (
    Table("blocks", ("blocks",), "", "blocks of the first partition"),
    Table("iterations", ("iterations",), "", "nested partitions"),
    Table(
        "time_vs_blocks",
        ("iterations", "blocks"),
        "s",
        "time of a solution, first size",
        note="fastest of the repeats",
    ),
    Table("model", ("iterations", "blocks"), "s", "cost model with the fitted alpha and beta, first size"),
    Table("optimum", ("iterations",), "", "blocks of the fastest solution measured, first size"),
    Table("optimum_model", ("iterations",), "", "best number of blocks of the cost model, first size"),
    Table("n", ("n",), "", "rows of the systems"),
    Table("optimum_vs_n", ("n", "iterations"), "", "blocks of the fastest solution measured"),
    Table("optimum_model_vs_n", ("n", "iterations"), "", "best number of blocks of the cost model"),
    Table("time_vs_n", ("n", "iterations"), "s", "time of the fastest solution measured"),
    Table(
        "times",
        ("n", "iterations", "blocks"),
        "s",
        "time of a solution",
        note="NaN where n has no room for the blocks",
    ),
    Table("backward_error_vs_n", ("n",), "", "largest normwise backward error of the literal stages"),
    Table(
        "compare/*",
        ("n",),
        "s",
        "time of another solver",
        note="one CPU thread but for Woodbury; auto: the fast kernels",
    ),
)


@dataclass
class ScalingResult:
    """Result of a scaling run; S sizes, I numbers of nested partitions, B numbers of blocks.

    Attributes
    ----------
    times : (S, I, B) float64
        Seconds of a solution; NaN where there is no room for that many blocks.
    alpha, beta : float
        Of the cost model, seconds per row; fitted to the first number of partitions of the first size.
    backward : (S,) float64
        Largest backward error seen.
    compare : dict of (S,) float64
        Seconds of other solvers.
    """

    name: str
    sizes: list[int]
    blocks: NDArray[np.int64]
    iterations: list[int]
    times: NDArray[np.float64]
    alpha: float
    beta: float
    backward: NDArray[np.float64]
    compare: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def measured(self) -> NDArray[np.int64]:
        """Blocks of the fastest solution (S, I)."""
        return np.asarray(self.blocks[np.nanargmin(self.times, axis=2)])

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Best number of blocks of the cost model (S, I)."""
        from qsim.tridiag.solver.partition import optimum

        return np.array([[optimum(n, i, self.alpha, self.beta) for i in self.iterations] for n in self.sizes])

    def exponent(self) -> float | None:
        """Return p of ``best blocks ~ n^p`` for the first number of partitions; the model says 1/2 for one."""
        if len(set(self.sizes)) < 2:
            return None
        return float(np.polyfit(np.log(self.sizes), np.log(self.measured[:, 0]), 1)[0])

    def tables(self) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        return TABLES

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the results file by name."""
        from qsim.tridiag.solver.partition import cost

        n, measured, predicted = self.sizes[0], self.measured, self.predicted
        rows = [
            [cost(n, float(b), i, self.alpha, self.beta) if b < n else np.nan for b in self.blocks]
            for i in self.iterations
        ]
        return {
            "blocks": self.blocks,
            "iterations": np.array(self.iterations),
            "time_vs_blocks": self.times[0],
            "model": np.array(rows),
            "optimum": measured[0],
            "optimum_model": predicted[0],
            "n": np.array(self.sizes),
            "optimum_vs_n": measured,
            "optimum_model_vs_n": predicted,
            "time_vs_n": np.nanmin(self.times, axis=2),
            "times": self.times,
            "backward_error_vs_n": self.backward,
            **{f"compare/{name}": seconds for name, seconds in self.compare.items()},
        }

    def scalars(self) -> dict[str, Scalar]:
        """Return the headline numbers."""
        best = float(np.nanmin(self.times[0]))
        _size, first, blocks = np.unravel_index(int(np.nanargmin(self.times[:1])), self.times[:1].shape)
        out = {
            "alpha": Scalar(self.alpha, "s", description="cost model: RD, RU and SS of a row"),
            "beta": Scalar(self.beta, "s", description="cost model: RS of a joint line"),
            "optimum_blocks": Scalar(
                int(self.blocks[blocks]), description="blocks of the fastest solution, first size"
            ),
            "optimum_iterations": Scalar(self.iterations[int(first)], description="its nested partitions"),
            "solve_seconds": Scalar(best, "s", description="fastest solution of the first size"),
            "rows": Scalar(self.sizes[0], description="rows of the first size"),
            "rows_per_second": Scalar(
                self.sizes[0] / best, "1/s", description="rows of the fastest solution"
            ),
            "backward_error": Scalar(
                float(self.backward.max()), description="largest normwise backward error"
            ),
            "system": Scalar(self.name, description="what was solved"),
        }
        for index, count in enumerate(self.iterations):
            out[f"optimum_blocks_{count}"] = Scalar(
                int(self.measured[0, index]), description=f"fastest with {count} partitions"
            )
            out[f"optimum_model_{count}"] = Scalar(
                int(self.predicted[0, index]), description=f"cost model with {count} partitions"
            )
        if (power := self.exponent()) is not None:
            out["optimum_exponent"] = Scalar(power, description="p of best blocks ~ n^p; 1/2 in the model")
        for name, seconds in self.compare.items():
            out[f"{name}_seconds"] = Scalar(float(seconds[0]), "s", description=f"{name}, first size")
            out[f"speedup_{name}"] = Scalar(
                float(seconds[0]) / best, description=f"{name} over the fastest partition"
            )
        return out


def block_numbers(sizes: Sequence[int]) -> list[int]:
    """Return powers of two from 16 to an eighth of the largest size."""
    top = max(MOST, max(sizes) // MOST)
    found = [1 << k for k in range(int(math.log2(LEAST)), int(math.log2(top)) + 1)]
    return found or [min(2, max(1, max(sizes) - 1))]


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
    timings = _Timings(make, device, setting)
    drive(timings, monitor, total=int(timings.times.size), unit="timings", what="scaling")
    if not device.is_cuda:
        monitor.note(
            f"the cost model has as many processors as blocks, this CPU {device.threads} threads: alpha and beta are formal"
        )
    return timings.result()


class _Timings:
    """Times of all solvers for all sizes; they cannot be continued."""

    def __init__(self, make: Callable[[int], Source], device: Device, setting: Scaling) -> None:
        self.make, self.device, self.setting = make, device, setting
        sizes = setting.n
        self.counts = sorted(set(block_numbers(sizes) if isinstance(setting.blocks, str) else setting.blocks))
        self.nested = sorted(set(setting.iterations))
        self.compare = list(dict.fromkeys(setting.compare))
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
            host = [part.reshape(1, -1) for part in source.read(0, n)]
            with self.device.use():
                timer = _Timer(self.device, host, self.setting.repeats)
                self._literal(s, n, timer, report)
                if np.isnan(self.times[s]).all():
                    raise ValueError(f"{n} rows have room for at most {n - 1} blocks, not {self.counts[0]}")
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
                if count < n:
                    self.times[s, i, k], error = timer.literal(count, levels)
                    self.backward[s] = max(self.backward[s], error)
                done = (s * len(self.nested) + i) * len(self.counts) + k + 1
                report(Progress(done, savable=False))

    def result(self) -> ScalingResult:
        """Return the times, and the cost model fitted to one partition of the first size."""
        from qsim.tridiag.solver.partition import fit

        sizes, first = self.setting.n, self.times[0, 0]
        usable = np.isfinite(first)
        counts = [count for count, good in zip(self.counts, usable, strict=True) if good]
        alpha, beta = 0.0, 0.0
        if len(counts) > 1:
            alpha, beta = fit(counts, first[usable].tolist(), sizes[0], self.nested[0])
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
        self.used = [device.xp.empty_like(part) for part in self.given]
        self.x = device.xp.empty_like(self.given[3])

    def _best(self, work: Callable[[], object], warm: bool = True) -> float:
        """Return the seconds of the fastest call; the first one, which compiles, does not count."""
        seconds = []
        for repeat in range(self.repeats + warm):
            for used, given in zip(self.used, self.given, strict=True):
                used[...] = given
            self.device.synchronize()
            start = time.perf_counter()
            work()
            self.device.synchronize()
            if repeat >= warm:
                seconds.append(time.perf_counter() - start)
        return min(seconds)

    def literal(self, blocks: int, iterations: int) -> tuple[float, float]:
        """Return seconds and backward error of the literal stages."""
        from qsim.tridiag.kernels import stages
        from qsim.tridiag.solver.partition import levels

        a, b, c, d = self.used
        partition = levels(a.shape[1], blocks, iterations)
        seconds = self._best(lambda: stages.solve_levels(self.device, partition, a, b, c, d, self.x))
        return seconds, self._error()

    def _error(self) -> float:
        from qsim.tridiag.kernels import stages

        a, b, c, d = self.given
        norms = stages.residual(self.device, a, b, c, d, self.x, self.used[3])
        residual, x, rhs, matrix = norms[0]
        return float(residual / (matrix * x + rhs)) if residual else 0.0

    def automatic(self) -> float | None:
        """Return the seconds of the fast kernels, if there are any."""
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("qsim.tridiag.kernels.nshape") is None:
            return None
        solver = import_module("qsim.tridiag.kernels.nshape").partition_solve
        flat = [part.reshape(-1) for part in (*self.used, self.x)]
        return self._best(lambda: solver(self.device, *flat, flat[0].size))

    def other(self, name: str, host: Sequence[NDArray[Any]], blocks: int) -> float:
        """Return the seconds of another solver on the CPU."""
        from qsim.core.device.device import cpu
        from qsim.tridiag.kernels import serial
        from qsim.tridiag.solver.partition import joints
        from qsim.tridiag.solver.pieces import gtsv

        where, x = cpu(self.device.threads), np.empty_like(host[3])
        a, b, c, d = host
        if name == "thomas":
            return self._best(lambda: serial.thomas(where, a, b, c, d, x))
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
    assert not isinstance(block, FileSystem)  # the deck has checked that

    def make(n: int) -> Source:
        if block is None:
            return systems.CrankNicolsonSource(n, seed=problem.seed, dtype=dtype_of(precision, "complex"))
        return generator(block, precision, problem.seed, n)

    with located(problem), monitor.stage("scaling"):
        return measure(make, problem.device, setting, monitor)
