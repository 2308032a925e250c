"""H x in factorised form, helium from nothing to its energy, and PySCF beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Skip, Timing, case, kernel, wall
from bench.sturmian import problem
from qsim.core.device.device import Device
from qsim.sturmian.radial.grid import RadialGrid, element_bounds
from qsim.sturmian.radial.sturmians import Orbitals, orbitals, sturmians
from qsim.sturmian.two_electron import davidson, dense
from qsim.sturmian.two_electron.hamiltonian import TwoElectron

PAIRS = tuple((l, l) for l in range(5))
APPLIED = ((84, 5, 256), (128, 5, 256), (64, 5, 128), (35, 13, 128))  # N, pairs, Nq; the first: 35 280 rows
PAPER_CPU, PAPER_GPU = 28 * 3600.0, 1.45 * 3600.0  # seconds of the Hamiltonian alone, N = 64
EXACT = -2.903724377034120
ELEMENTS = 24.0
SETS = ("cc-pvdz", "cc-pvtz", "cc-pvqz", "cc-pv5z")
OURS = ((4, 1), (6, 2), (6, 3), (8, 4), (8, 6), (12, 8), (16, 10))  # N, l_max in the order of their cost


# ---------------------------------------------------------------------------------------------- H x


@case("sturmian-apply", "H x in factorised form: the paper's 35 280-row block and other sizes")
def apply(bench: Bench) -> None:
    """Time a product of the Hamiltonian with one vector and with eight."""
    for N, count, Nq in APPLIED[-1:] if bench.quick else APPLIED:
        operator = _operator(bench.device, N, count, Nq)
        generator = np.random.default_rng(0)
        for vectors in (1, 8):
            x = bench.device.asarray(generator.standard_normal((vectors, *operator.shape)))
            timing = kernel(bench.device, lambda x=x, operator=operator: operator.apply(x), 0.5)
            P, n = len(operator.pairs), operator.points
            planes = len(operator.multipoles) * n * n
            moved = 8.0 * (planes + vectors * (2 * P * n * n + 2 * P * N * N))
            bench.row(
                f"N={N} pairs={count} Nq={Nq}, {vectors} vector{'s' * (vectors > 1)}",
                timing,
                Cost(operator.flops * vectors, moved),
                unknowns=count * N * N,
                dense_bytes=16.0 * (count * N * N) ** 2,
                dense_product_flops=8.0 * (count * N * N) ** 2,
            )
            if (N, count) == APPLIED[0][:2] and vectors == 1 and bench.device.is_cuda:
                bench.goal("H x, 35 280 rows", 1e3 * timing.seconds, 1.0, "ms")


def _operator(device: Device, N: int, count: int, Nq: int) -> TwoElectron:
    grid = problem.grid(Nq)
    basis = {}
    for l in range(count):
        whole = orbitals(grid, l, -problem.Z / grid.r)
        basis[l] = Orbitals(l, whole.e[:N], np.ascontiguousarray(whole.C[:, :N]))
    return TwoElectron(device, grid, basis, 0, 0, [(l, l) for l in range(count)])


# -------------------------------------------------------------------------------------------- helium


def helium(device: Device, N: int, l_max: int, R: float = ELEMENTS, tolerance: float = 1e-7) -> float:
    """Return the ground-state energy of helium: grid, functions, kernels, eigenvalue, everything."""
    grid = RadialGrid(element_bounds(R, problem.Z), 12)
    V, v = -problem.Z / grid.r, np.exp(-problem.ALPHA * grid.r) / grid.r
    pairs = [(l, l) for l in range(l_max + 1)]
    basis = {l: orbitals(grid, l, V, sturmians(grid, l, V, problem.ENERGY, v, N).c) for l, _ in pairs}
    operator = TwoElectron(device, grid, basis, 0, 0, pairs)
    return float(davidson.lowest(operator, 1, tolerance=tolerance).values[0])


def helium_dense(device: Device, N: int, l_max: int) -> float:
    """Return the same energy by the paper's route."""
    grid = RadialGrid(element_bounds(ELEMENTS, problem.Z), 12)
    V, v = -problem.Z / grid.r, np.exp(-problem.ALPHA * grid.r) / grid.r
    pairs = [(l, l) for l in range(l_max + 1)]
    functions = {l: sturmians(grid, l, V, problem.ENERGY, v, N) for l, _ in pairs}
    field, symmetry = dense.Field(grid, V, v, V), dense.Symmetry(0, 0, pairs)
    return float(dense.solve(field, functions, symmetry, 1, device)[0][0])


@case("sturmian-helium", "helium, N = 64 and five pairs: the paper's example, from nothing to the energy")
def whole(bench: Bench) -> None:
    """Time the matrix-free route with everything, and the dense route where it is small enough."""
    N = 16 if bench.quick else 64
    energy = helium(bench.device, N, 4)
    timing = wall(bench.device, lambda: helium(bench.device, N, 4), 1.0)
    bench.row(
        f"N={N}, l_max=4: matrix-free, everything",
        timing,
        energy=energy,
        unknowns=5 * N * (N + 1) // 2,
        paper_cpu_s=PAPER_CPU,
        paper_gpu_s=PAPER_GPU,
        times_paper_cpu=PAPER_CPU / timing.seconds,
        times_paper_gpu=PAPER_GPU / timing.seconds,
    )
    bench.goal("helium N = 64, five pairs, everything", timing.seconds, 1.0, "s")
    for size in (8,) if bench.quick else (16, 35, 64) if bench.device.is_cuda else (16, 24):
        energy = helium_dense(bench.device, size, 4)
        timing = problem.timed(bench.device, lambda size=size: helium_dense(bench.device, size, 4))
        free = wall(bench.device, lambda size=size: helium(bench.device, size, 4), 0.3)
        bench.row(
            f"N={size}, l_max=4: dense, everything",
            timing,
            energy=energy,
            difference=energy - helium(bench.device, size, 4),
            unknowns=5 * size * (size + 1) // 2,
            times_matrix_free=timing.seconds / free.seconds,
        )


# --------------------------------------------------------------------------------------------- PySCF


@case("sturmian-pyscf", "helium beside PySCF's full CI at equal accuracy", devices=("cpu",))
def pyscf(bench: Bench) -> None:
    """Find the smallest of our bases that is as accurate as each Gaussian one, and time both, one thread."""
    fci = _fci()
    ladder: list[tuple[int, int, float]] = [(N, l_max, helium(bench.core, N, l_max)) for N, l_max in OURS]
    for name in SETS[:1] if bench.quick else SETS:
        energy = fci(name)
        theirs = _once_or_more(bench.core, lambda name=name: fci(name))
        found = next((entry for entry in ladder if entry[2] <= energy), None)
        bench.row(f"He, PySCF FCI {name}", theirs, energy=energy, error=energy - EXACT)
        if found is None:
            bench.note(f"no basis of the ladder is as accurate as {name}")
            continue
        N, l_max, ours = found
        timing = wall(bench.core, lambda N=N, l_max=l_max: helium(bench.core, N, l_max), 0.5)
        bench.row(
            f"He, qsim N={N} l_max={l_max}",
            timing,
            energy=ours,
            error=ours - EXACT,
            ratio=theirs.seconds / timing.seconds,
        )


def _fci() -> Callable[[str], float]:
    try:
        from pyscf import fci, gto, lib, scf
    except ImportError as error:
        raise Skip(f"PySCF is not installed ({error}): pip install pyscf") from error
    lib.num_threads(1)

    def energy(basis: str) -> float:
        molecule = gto.M(atom="He 0 0 0", basis=basis, verbose=0)
        field: Any = scf.RHF(molecule).run()
        return float(fci.FCI(field).kernel()[0])

    return energy


def _once_or_more(device: Device, work: Callable[[], object]) -> Timing:
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    if seconds > problem.LONG:
        return Timing(seconds, seconds, 1, "wall")
    return wall(device, work, 0.5)
