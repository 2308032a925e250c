"""What the cases of ``tridiag`` share: a laser-driven atom on grids of any length, random systems, costs, timers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Timing, kernel
from qsim.core.device.device import Device
from qsim.tridiag.propagate.lattice import Lattice, bands, mass
from qsim.tridiag.propagate.stepping.propagator import Propagator, Stepping

System = tuple[Any, Any, Any, Any]  # a, b, c, d on a device

DX, DT = 0.1, 0.05  # of inputs/tridiag/hhg_800nm.yaml; dt / (2 dx^2) = 2.5
SWING = 20.0  # x E at the ends of the grid, hartree, at any length: that of the same deck
A0, OMEGA = 1.0, 0.057  # velocity gauge: vector potential; 800 nm

# Fused multiply-adds a row and step without the spikes of a partition (qsim/tridiag/kernels/crank_nicolson/steps.py)
STEP_FLOPS = {"three_point": 2 * 25.0, "numerov": 2 * 40.0}
PASS_BYTES = 40.0  # psi read and written, V read
# Thomas, a row: products b/p, c b/p, d b/p, one reciprocal; going back one product-sum and one product
SOLVE_FLOPS = {"c": 44.0, "f": 9.0}
DOMINANCE = 2.0  # |a| = 2 (|b| + |c|) in the random systems


# --------------------------------------------------------------------------------------------- steps


def lattice(points: int, stencil: str = "three_point", dx: float = DX) -> Lattice:
    """Return soft-core hydrogen (a^2 = 2) in the middle of a grid."""
    xmin = -0.5 * dx * (points - 1)
    x = xmin + dx * np.arange(points)
    x *= x
    x += 2.0
    np.sqrt(x, out=x)
    np.divide(-1.0, x, out=x)
    kind: Any = stencil
    return Lattice(xmin, dx, points, kind, x)


def field(gauge: str, grid: Lattice, steps: int, dt: float = DT, swing: float = SWING) -> dict[str, Any]:
    """Return the field of every step: ``electric`` or ``vector_potential``, as :class:`Propagator` takes it."""
    wave = np.sin(OMEGA * dt * (np.arange(steps) + 0.5) + 1.0)
    if gauge == "length":
        return {"electric": swing / abs(grid.xmin) * wave}
    return {"vector_potential": A0 * wave}


def wavefunction(points: int) -> np.ndarray:
    """Return noise (points,) complex: nothing in it is small or smooth."""
    rng = np.random.default_rng(1)
    block = rng.standard_normal((min(points, 1 << 20), 2)).view(complex)[:, 0]
    return np.resize(block, points)


def propagator(
    device: Device,
    grid: Lattice,
    gauge: str,
    steps: int,
    dt: float = DT,
    swing: float = SWING,
    **options: Any,
) -> Propagator:
    """Return a propagator whose field changes in every step, without the sum of V' |psi|^2."""
    psi = wavefunction(grid.points)
    fields = field(gauge, grid, steps, dt, swing)
    return Propagator(device, grid, psi, dt, **fields, how=Stepping(slope=False, **options))


def grow(small: Propagator, points: int) -> None:
    """Give a propagator on a CUDA device a longer grid with the same chunks; arrays are made on the device.

    Chunks depend on dx, dt and the range of V + x E only, once there are more of them than the device runs at a time.
    """
    cp = small.device.xp
    grid = small.lattice
    xmin = -0.5 * grid.dx * (points - 1)
    field = small._fields[0]
    if field is not None:  # the same swing of x E
        small._host_table[:, 0] *= grid.xmin / xmin
        small._table = small.device.asarray(small._host_table)
    small.psi = small._out = None
    small._operator = dataclasses.replace(small._operator, potential=None)
    cp.get_default_memory_pool().free_all_blocks()
    psi, out, potential = cp.empty(points, complex), cp.empty(points, complex), cp.empty(points)
    fill_potential(cp, potential, xmin, grid.dx)
    fill_noise(cp, psi)
    small.psi, small._out = psi, out
    small._operator = dataclasses.replace(small._operator, potential=potential, xmin=xmin)
    small.lattice = dataclasses.replace(grid, xmin=xmin, points=points)


def fill_potential(cp: Any, v: Any, xmin: float, dx: float) -> None:
    """Write the soft-core potential."""
    make = cp.ElementwiseKernel(
        "float64 xmin, float64 dx",
        "float64 v",
        "double x = xmin + dx * i; v = -rsqrt(x * x + 2.0);",
        "bench_v",
    )
    piece = 1 << 28
    for first in range(0, v.size, piece):
        make(xmin + dx * first, dx, v[first : first + piece])


def fill_noise(cp: Any, z: Any) -> None:
    """Write complex noise: an integer hash of the index."""
    make = cp.ElementwiseKernel(
        "uint64 first",
        "complex128 z",
        "unsigned long long h = (first + i) * 0x9E3779B97F4A7C15ull; h ^= h >> 31; h *= 0xBF58476D1CE4E5B9ull; "
        "h ^= h >> 27; z = complex<double>((unsigned int)h * 2.3e-10 - 0.5, (unsigned int)(h >> 32) * 2.3e-10 - 0.5);",
        "bench_noise",
    )
    piece = 1 << 28
    for first in range(0, z.size, piece):
        make(np.uint64(first), z[first : first + piece])


def step_cost(stencil: str, points: int, steps: int, steps_per_pass: int) -> Cost:
    """Return operations and bytes of some steps made in passes of ``steps_per_pass``."""
    rows = float(points) * steps
    return Cost(STEP_FLOPS[stencil] * rows, PASS_BYTES * rows / steps_per_pass)


def reference_steps(
    grid: Lattice, psi: np.ndarray, fields: dict[str, Any], steps: int, dt: float = DT
) -> np.ndarray:
    """Return psi after some steps by LAPACK: ``psi' = 2 T^-1 M psi - psi``."""
    from scipy.linalg.lapack import zgtsv

    electric, a = (
        fields.get(name, np.zeros(steps)).astype(float) for name in ("electric", "vector_potential")
    )
    psi = psi.astype(complex)
    for k in range(steps):
        lower, main, upper = bands(grid, dt, float(electric[k]), float(a[k]))
        *_, y, _info = zgtsv(lower[1:], main, upper[:-1], mass(grid, psi, float(a[k])))
        psi = 2.0 * y - psi
    return psi


def difference(x: Any, y: Any) -> float:
    """Return the largest difference relative to the largest element."""
    return float(abs(x - y).max() / abs(y).max())


# ------------------------------------------------------------------------------------------- systems


def random_system(device: Device, n: int, batch: int = 1, dtype: Any = complex) -> System:
    """Return a, b, c, d (batch * n,) on the device, diagonally dominant."""
    from qsim.tridiag.solver.systems import RandomSource

    source = RandomSource(n, 1, DOMINANCE, dtype, batch)
    xp = device.xp
    a, b, c = (xp.empty(n * batch, dtype) for _ in range(3))
    d = xp.empty((1, n * batch), dtype)
    source.fill(device, 0, a, b, c, d)
    return a, b, c, d[0]


def solve_cost(rows: int, dtype: Any) -> Cost:
    """Return operations of elimination without pivoting, and bytes: four arrays read, one written."""
    kind = np.dtype(dtype)
    return Cost(SOLVE_FLOPS[kind.kind] * rows, 5.0 * kind.itemsize * rows)


def backward_error(device: Device, system: System, x: Any, length: int) -> float:
    """Return the largest normwise backward error of a batch."""
    from qsim.tridiag.kernels.partition import stages

    a, b, c, d, x = (v.reshape(-1, length) for v in (*system, x))
    residual, size, rhs, matrix, _rowwise = stages.residual(device, a, b, c, d, x, device.xp.empty_like(x)).T
    return float(np.max(residual / (matrix * size + rhs)))


# -------------------------------------------------------------------------------------------- timers


def burst(device: Device, work: Callable[[], object], count: int, budget: float = 0.6) -> Timing:
    """Time one of ``count`` launches that follow each other without a wait: what a loop on the device takes."""

    def many() -> None:
        for _ in range(count):
            work()

    return scaled(kernel(device, many, budget), count)


def scaled(timing: Timing, count: int) -> Timing:
    """Return the time of one of ``count`` equal pieces of work."""
    busy = None if timing.cpu_seconds is None else timing.cpu_seconds / count
    return dataclasses.replace(
        timing, seconds=timing.seconds / count, best=timing.best / count, cpu_seconds=busy
    )


def minus(timing: Timing, other: Timing) -> Timing:
    """Return a time less that of something done besides it."""
    return dataclasses.replace(
        timing,
        seconds=max(timing.seconds - other.seconds, 1e-9),
        best=max(timing.best - other.best, 1e-9),
    )


def replayed(device: Device, work: Callable[[], object], count: int) -> Timing:
    """Time one of ``count`` launches recorded in a graph; ``work`` allocates nothing and has run before."""
    from qsim.core.device.kernels import Graph

    work()
    device.synchronize()
    with Graph.capture(device) as graph:
        for _ in range(count):
            work()
    return scaled(kernel(device, graph.launch), count)


def repeats(rows: int, most: int = 50) -> int:
    """Return how many launches make a burst of about 2e8 rows."""
    return max(1, min(most, 200_000_000 // rows))


def release(bench: Bench) -> None:
    """Give the memory of arrays that are gone back to the device."""
    if bench.device.is_cuda:
        bench.device.xp.get_default_memory_pool().free_all_blocks()
