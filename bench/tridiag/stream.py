"""Systems larger than the memory of the device: blocks read twice, written once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case
from bench.tridiag import problem
from qsim.core.device.device import Device
from qsim.core.device.hardware import available_threads

ROW_BYTES = 2 * 64.0 + 16.0  # a, b, c, d read in both passes, x written
CPU_ROWS, CUDA_ROWS, MADE_ROWS = 4_000_000, 30_000_000, 100_000_000
BLOCKS = 8
COPIED = 1 << 30  # bytes of a copy between host and device


@case("tridiag-stream", "streamed solution of a complex system: bytes a second beside the host-device copy")
def stream(bench: Bench) -> None:
    """From arrays in host memory; on a GPU also a system made there block by block."""
    _from_host(bench)
    if bench.device.is_cuda:
        problem.release(bench)
        _made_there(bench)
        problem.release(bench)


def _from_host(bench: Bench) -> None:
    from qsim.tridiag.solver.stream import solve_streamed
    from qsim.tridiag.solver.systems import ArraySource

    device = _all_threads(bench)
    rows = 1_000_000 if bench.quick else CUDA_ROWS if device.is_cuda else CPU_ROWS
    piece = problem.random_system(bench.core, 1_000_000)
    source = ArraySource(*(np.resize(v, rows) for v in piece))  # repeated: dominance and bytes are the same
    out = np.empty(rows, complex)
    if device.is_cuda:
        copies = _copies(bench)
        # copies in both directions overlap: the longer one is the floor
        floor = max(128.0 * rows / copies["to_device"], 16.0 * rows / copies["to_host"])
        besides = {"pageable_s": 128.0 * rows / copies["pageable"]}
    else:
        floor, besides = ROW_BYTES * rows / bench.ceilings().copy, {}
    budget = rows // BLOCKS * 16 * (18 if device.is_cuda else 11)
    timing, found = _twice(lambda: solve_streamed(source, device=device, budget=budget, out=out))
    bench.row(
        "arrays in host memory, streamed",
        timing,
        rows=rows,
        blocks=found.blocks,
        host_threads=_all_threads(bench).threads,
        bytes=ROW_BYTES * rows,
        gb_per_s=1e-9 * ROW_BYTES * rows / timing.seconds,
        floor_s=floor,
        fraction=floor / timing.seconds,
        **besides,
        backward_error=found.backward_error,
    )


def _made_there(bench: Bench) -> None:
    from qsim.tridiag.solver.stream import solve_streamed
    from qsim.tridiag.solver.systems import RandomSource

    rows = 10_000_000 if bench.quick else MADE_ROWS
    source = RandomSource(rows, 1, problem.DOMINANCE)
    timing, found = _twice(lambda: solve_streamed(source, device=_all_threads(bench), keep=False))
    bench.row(
        "made on the device block by block, x to the host for its check sums",
        timing,
        rows=rows,
        blocks=found.blocks,
        host_threads=_all_threads(bench).threads,
        rows_per_s=rows / timing.seconds,
        gb_per_s=1e-9 * 16.0 * rows / timing.seconds,
        backward_error=found.backward_error,
    )


def _all_threads(bench: Bench) -> Device:
    """Return the device; beside a GPU all threads of the host fill the buffers, as in a run of qsim."""
    return replace(bench.device, threads=available_threads()) if bench.device.is_cuda else bench.device


def _twice(work: Any) -> tuple[Timing, Any]:
    """Time the second and third call: a call is long, and the first one compiles."""
    times, found = [], work()
    for _ in range(2):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
    return Timing(float(np.median(times)), min(times), len(times), "wall"), found


def _copies(bench: Bench) -> dict[str, float]:
    """Measure copies between host and device, bytes a second: pinned each way, and from ordinary memory."""
    cp = bench.device.xp
    size = COPIED >> (4 if bench.quick else 0)
    memory = cp.cuda.alloc_pinned_memory(size)
    pinned = np.frombuffer(memory, np.uint8, size)
    pinned[...] = 1
    ordinary, there = np.ones(size, np.uint8), cp.empty(size, np.uint8)

    def rate(work: Any) -> float:
        times = []
        for _ in range(4):
            bench.device.synchronize()
            start = time.perf_counter()
            work()
            bench.device.synchronize()
            times.append(time.perf_counter() - start)
        return float(size / min(times[1:]))

    found = {
        "to_device": rate(lambda: there.set(pinned)),
        "to_host": rate(lambda: there.get(out=pinned)),
        "pageable": rate(lambda: there.set(ordinary)),
    }
    bench.row(
        "copies host to device and back, pinned; pageable", **{f"gb_{k}": 1e-9 * v for k, v in found.items()}
    )
    return found
