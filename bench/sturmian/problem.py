"""What the cases of ``sturmian`` share: grids of the paper's sizes, functions, rates of the library, the paper's numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bench.harness import Bench, Timing, kernel, wall
from qsim.core.device.device import Device
from qsim.sturmian.radial.grid import RadialGrid
from qsim.sturmian.radial.sturmians import Sturmians, orbitals, sturmians

R = 24.0
ORDER = 17  # 8 or 16 elements of 17 points: 127 or 255 nodes, and r = R, where the functions vanish
Z, ENERGY, ALPHA = 2.0, -0.9, 0.6  # the basis of inputs/sturmian/he_ground.yaml
LONG = 1.0  # seconds from which a piece of work is timed once, without a warm-up

# Colavecchia, Comput. Phys. Commun. 185, 1955 (2014): seconds of the best grid of blocks, integrals a second
PRINTED = yaml.safe_load((Path(__file__).parents[1] / "papers/numbers.yaml").read_text(encoding="utf-8"))
TABLE_1, TABLE_2, TABLE_3, TABLE_4 = (
    {
        int(N): (float(cpu), float(gpu))
        for N, (cpu, gpu) in PRINTED["sturmian"]["numbers"][f"table_{k}"].items()
    }
    for k in (1, 2, 3, 4)
)
TABLES_3_4 = {(Nq, N): pair for Nq, rows in ((128, TABLE_3), (256, TABLE_4)) for N, pair in rows.items()}
CONTRADICTIONS = {
    "overlap": (
        "Table 1 of the paper gives 44 and 277 s for a CPU: 4.2 and 16.8 million complex multiply-adds cannot take that long on "
        "an i7-960, nor the GPU 0.9 and 3.4 s; milliseconds are meant, and overlaps are then no part of the total worth naming"
    ),
    "kronecker": (
        "The caption of Table 2 says N = 128 and 256 for the times 0.035 and 32.94 s; its speed-ups fit N = 32 and 128, used here"
    ),
    "repulsion": (
        "Tables 3 and 4 contradict the text: TILE_W = 4 is the best of Table 3 for N >= 32, the text says 8; 55 blocks at the "
        "rates of Table 4 make 55 min and 149 s for N = 64, sec. 3.3 says 28 h and 1.45 h"
    ),
}


@cache
def grid(points: int) -> RadialGrid:
    """Return a grid of 127 or 255 nodes for 128 or 256 points of the paper; elements grow outwards."""
    elements = points // (ORDER - 1)
    return RadialGrid(R * np.linspace(0.0, 1.0, elements + 1) ** 1.7, ORDER)


@cache
def functions(points: int, N: int, l: int = 0) -> Sturmians:
    """Return N Sturmian functions of the helium deck."""
    nodes = grid(points).r
    return sturmians(grid(points), l, -Z / nodes, ENERGY, np.exp(-ALPHA * nodes) / nodes, N)


def coefficients(points: int, N: int, kind: Any) -> np.ndarray:
    """Return functions as an array (points, N); beyond N = 64 eigenfunctions of the grid, as the values do not matter."""
    found = orbitals(grid(points), 0, -Z / grid(points).r).C[:, :N]
    if N <= 64:
        found = functions(points, N).c
    found = found[:, np.arange(N) % found.shape[1]]  # more functions than points
    found = np.ascontiguousarray(found.astype(kind))
    # a phase that depends on the function: numbers that are complex in earnest
    return found * np.exp(0.3j * np.arange(N)) if np.dtype(kind).kind == "c" else found


def timed(device: Device, work: Callable[[], object], budget: float = 1.0) -> Timing:
    """Time kernels; long work on a CPU once only."""
    if device.is_cuda:
        return kernel(device, work, budget)
    begun, busy = time.perf_counter(), time.process_time()
    work()
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    if seconds > LONG:
        return Timing(seconds, seconds, 1, "wall", busy)
    return wall(device, work, budget)


_rates: dict[tuple[str, str], float] = {}


def product_rate(bench: Bench, kind: Any) -> float:
    """Return the operations a second of the library's large matrix product, measured in this run."""
    key = (bench.device.label, np.dtype(kind).name)
    if key not in _rates:
        xp = bench.device.xp
        n = (2048 if bench.quick else 8192) if bench.device.is_cuda else (512 if bench.quick else 1024)
        generator = np.random.default_rng(0)
        a = generator.standard_normal((n, n)) + (
            1j * generator.standard_normal((n, n)) if np.dtype(kind).kind == "c" else 0.0
        )
        a = bench.device.asarray(a.astype(kind))
        out = xp.empty_like(a)
        timing = kernel(bench.device, lambda: xp.matmul(a, a, out=out), 0.5)
        _rates[key] = (8.0 if np.dtype(kind).kind == "c" else 2.0) * n**3 / timing.best
        name = "zgemm" if np.dtype(kind).kind == "c" else "dgemm"
        bench.row(f"{name} {n}: the ceiling of products", timing, gflops=_rates[key] / 1e9)
    return _rates[key]


def release(bench: Bench) -> None:
    """Give the memory of arrays that are gone back to the device."""
    if bench.device.is_cuda:
        bench.device.xp.get_default_memory_pool().free_all_blocks()
