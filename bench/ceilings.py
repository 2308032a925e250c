"""Ceilings of a device, measured in the run that they judge: copy bandwidth, FP64 rate, latency of one operation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np

from qsim.core.device.device import Device

LANES = 64  # independent chains of the CPU's rate: eight AVX-512 registers
DEPTH = 32  # operations on a value between load and store


@dataclass(frozen=True)
class Ceilings:
    """Measured limits of one device (a CPU: of one core).

    Attributes
    ----------
    copy : float
        Bytes read plus bytes written a second, of a copy much larger than the caches.
    fma : float
        FP64 operations a second of independent fused multiply-adds (on a CPU: or of dgemm, if that is faster).
    dgemm : float
        FP64 operations a second of the library's matrix product.
    fma_latency : float
        Seconds of one fused multiply-add that waits for the one before.
    """

    copy: float
    fma: float
    dgemm: float
    fma_latency: float


@cache
def measure(device: Device, quick: bool = False) -> Ceilings:
    """Measure the ceilings of a device; kept for the rest of the run."""
    return _cuda(device, quick) if device.is_cuda else _cpu(quick)


def _best(work: Callable[[], object], repeats: int = 5) -> float:
    """Shortest wall time: a ceiling is what the machine can do when nothing else disturbs it."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


# ---------------------------------------------------------------------------------------------- CPU


def _cpu(quick: bool) -> Ceilings:
    copy = _cpu_copy(1 << (23 if quick else 25))
    rounds = 200_000
    acc = np.linspace(0.0, 1.0, LANES)
    rate = 2.0 * rounds * LANES * DEPTH / _best(lambda: _fma_rate(acc, rounds))
    n = 768 if quick else 1536
    a, b = np.random.default_rng(1).standard_normal((2, n, n))
    c = np.empty((n, n))
    dgemm = 2.0 * n**3 / _best(lambda: np.matmul(a, b, out=c))
    chain = 10_000_000
    latency = _best(lambda: _fma_chain(0.5, chain)) / chain
    return Ceilings(copy, max(rate, dgemm), dgemm, latency)


def _cpu_copy(size: int) -> float:
    source, target = np.ones(size), np.ones(size)
    return 16.0 * size / _best(lambda: np.copyto(target, source))


@nb.njit(fastmath={"contract", "nsz"}, error_model="numpy", cache=True)
def _fma_rate(acc, rounds):
    for _ in range(rounds):
        for i in range(LANES):
            x = acc[i]
            for _ in range(DEPTH):
                x = x * 0.999 + 1e-3
            acc[i] = x


@nb.njit(fastmath={"contract", "nsz"}, error_model="numpy", cache=True)
def _fma_chain(x, rounds):
    for _ in range(rounds):
        x = x * 0.999 + 1e-3
    return x


# --------------------------------------------------------------------------------------------- CUDA


def _cuda(device: Device, quick: bool) -> Ceilings:
    cp = device.xp
    module = cp.RawModule(code=Path(__file__).with_suffix(".cu").read_text(encoding="utf-8"))
    rate, chain = module.get_function("fma_rate"), module.get_function("fma_chain")
    blocks, rounds, links = 8 * multiprocessors(device), 20_000, 1 << 20
    with device.use():
        out = cp.zeros(1)
        copy = _cuda_copy(device, module.get_function("copy"), 3 if quick else 0)
        seconds = _events(cp, lambda: rate((blocks,), (256,), (out, np.int32(rounds))))
        dgemm = _cuda_dgemm(cp, 2048 if quick else 8192)
        latency = _events(cp, lambda: chain((1,), (1,), (out, np.int32(links)))) / links
        cp.get_default_memory_pool().free_all_blocks()
    return Ceilings(copy, 2.0 * 8 * 256 * blocks * rounds / seconds, dgemm, latency)


def _cuda_copy(device: Device, kernel: Any, smaller: int) -> float:
    cp = device.xp
    count = min(1 << 27, device.free_memory() // 48) >> smaller  # elements of 16 bytes: 2 GiB a buffer
    source, target = cp.ones(2 * count), cp.empty(2 * count)
    arguments = (source, target, np.int64(count))
    return 32.0 * count / _events(cp, lambda: kernel((-(-count // 256),), (256,), arguments))


def _cuda_dgemm(cp: Any, n: int) -> float:
    a, b = cp.random.standard_normal((n, n)), cp.random.standard_normal((n, n))
    c = cp.empty((n, n))
    return 2.0 * n**3 / _events(cp, lambda: cp.matmul(a, b, out=c))


def multiprocessors(device: Device) -> int:
    """Return the number of multiprocessors of a CUDA device; 1 for a CPU core."""
    if not device.is_cuda:
        return 1
    return int(device.xp.cuda.runtime.getDeviceProperties(device.index)["multiProcessorCount"])


def _events(cp: Any, work: Callable[[], object], repeats: int = 5) -> float:
    work()
    times = []
    for _ in range(repeats):
        start, stop = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(1e-3 * cp.cuda.get_elapsed_time(start, stop))
    return min(times)
