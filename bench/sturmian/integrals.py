"""Tables 1 to 4 of the paper: overlaps, Kronecker products, repulsion integrals; ours beside its numbers and its algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Cost, case
from bench.sturmian import problem
from qsim.sturmian.kernels.repulsion import SIDES
from qsim.sturmian.linalg.ldlt import symmetric_root
from qsim.sturmian.two_electron import integrals

POINTS = (128, 256)
SIZES = (16, 32, 64, 128)
CPU_LARGEST = 64  # N = 128 takes 4.3 GB
MULTIPOLE = 1
KINDS = {"complex128": np.complex128, "float64": np.float64}


@case("sturmian-overlap", "the paper's Table 1: overlaps of 128 and 256 functions, Nq = 256")
def overlap(bench: Bench) -> None:
    """Time ``S^T S`` and ``S^T v S`` of complex functions."""
    bench.note(problem.CONTRADICTIONS["overlap"])
    generator = np.random.default_rng(0)
    for N, (paper_cpu, paper_gpu) in problem.TABLE_1.items():
        values = generator.standard_normal((256, N)) + 1j * generator.standard_normal((256, N))
        c, v = bench.device.asarray(values), bench.device.asarray(np.ones(256))

        def both(c: Any = c, v: Any = v) -> None:
            integrals.overlap(c, c)
            integrals.potential_matrix(c, v, c)

        timing = problem.timed(bench.device, both, 0.3)
        bench.row(
            f"N={N} Nq=256: O and V",
            timing,
            Cost(16.0 * 256 * N * N, 16.0 * (2 * 256 * N + 2 * N * N)),
            functions=N,
            paper_cpu_printed_s=paper_cpu,
            paper_gpu_s=paper_gpu,
            times_paper_gpu=paper_gpu / timing.seconds,
        )


@case("sturmian-kronecker", "the paper's Table 2: Kronecker products of two overlap matrices")
def kronecker(bench: Bench) -> None:
    """Time the two-electron matrix of N^4 complex numbers; one write of it is the floor."""
    bench.note(problem.CONTRADICTIONS["kronecker"])
    generator = np.random.default_rng(0)
    for N, (paper_cpu, paper_gpu) in problem.TABLE_2.items():
        if (32 if bench.quick else 64) < N and not bench.device.is_cuda:
            continue  # the paper's own sizes, up to 4.3 GB, on a GPU only
        if bench.quick and N > 32:
            continue
        A, B = (
            bench.device.asarray(generator.standard_normal((N, N)) + 1j * generator.standard_normal((N, N)))
            for _ in range(2)
        )
        out = bench.device.xp.empty((N * N, N * N), complex)
        timing = problem.timed(bench.device, lambda A=A, B=B, out=out: integrals.kronecker(A, B, out), 0.5)
        bench.row(
            f"N={N}: {N * N} x {N * N} complex128",
            timing,
            Cost(6.0 * N**4, 16.0 * N**4),
            functions=N,
            paper_cpu_s=paper_cpu,
            paper_gpu_s=paper_gpu,
            times_paper_cpu=paper_cpu / timing.seconds,
            times_paper_gpu=paper_gpu / timing.seconds,
        )
        del out
        problem.release(bench)


@case(
    "sturmian-repulsion",
    "the paper's Tables 3 and 4: repulsion integrals, matrix products and its nested quadrature",
)
def repulsion(bench: Bench) -> None:
    """Time all N^4 integrals of one multipole, by both routes; the first two goals are those of the method."""
    bench.note(problem.CONTRADICTIONS["repulsion"])
    most = 32 if bench.quick else 128 if bench.device.is_cuda else CPU_LARGEST
    for name, kind in KINDS.items():
        rate = problem.product_rate(bench, kind)
        for Nq in POINTS:
            for N in SIZES:
                if most >= N and (kind is np.complex128 or Nq == POINTS[-1]):
                    _products(bench, name, kind, Nq, N, rate)
                    problem.release(bench)
    for Nq in POINTS:
        for N in SIZES:
            if most >= N:
                _nested(bench, Nq, N)
                problem.release(bench)


def _products(bench: Bench, name: str, kind: Any, Nq: int, N: int, rate: float) -> None:
    device, grid = bench.device, problem.grid(Nq)
    K = integrals.repulsion_kernel(grid, MULTIPOLE)
    root = symmetric_root(K)
    root = None if root is None else device.asarray(root)
    c = device.asarray(problem.coefficients(Nq, N, kind))
    out = device.xp.empty((N * N, N * N), kind)

    def packed() -> Any:
        return integrals.repulsion_pairs(device, K, (c, c, c, c), root=root, dtype=kind)

    pairs = packed()
    products = problem.timed(device, packed)
    expansion = problem.timed(device, lambda: pairs.expand(out))
    whole = problem.timed(device, lambda: packed().expand(out))
    paper_cpu, paper_gpu = problem.TABLES_3_4[Nq, N]
    item, count = np.dtype(kind).itemsize, N * (N + 1) / 2
    label = f"N={N} Nq={Nq} {name}"
    bench.row(
        f"{label}: products, packed pairs",
        products,
        functions=N,
        flops=pairs.flops,
        gemm_fraction=pairs.flops / products.seconds / rate,
        integrals_per_second=N**4 / products.seconds,
    )
    bench.row(
        f"{label}: expansion to N^4",
        expansion,
        Cost(0.0, item * (N**4 + 0.5 * count**2)),
        functions=N,
    )
    bench.row(
        f"{label}: all N^4 integrals",
        whole,
        functions=N,
        integrals_per_second=N**4 / whole.seconds,
        paper_cpu_s=paper_cpu,
        paper_gpu_s=paper_gpu,
        times_paper_cpu=paper_cpu / whole.seconds,
        times_paper_gpu=paper_gpu / whole.seconds,
    )
    if Nq == POINTS[-1] and kind is np.complex128:
        if device.is_cuda and SIZES[-1] == N:
            bench.goal(f"integrals a second, {label}", N**4 / whole.seconds, 1e10, "1/s", at_least=True)
            bench.goal(
                f"products, part of zgemm, {label}",
                100 * pairs.flops / products.seconds / rate,
                75.0,
                "%",
                at_least=True,
            )
        if not device.is_cuda and N == CPU_LARGEST:
            bench.goal(f"integrals a second, {label}", N**4 / whole.seconds, 5e7, "1/s", at_least=True)
    if N == 32:  # no symmetry used, as a measure of what it saves
        slow = problem.timed(
            device,
            lambda: integrals.repulsion_gemm(grid, MULTIPOLE, c, c, c, c, device=device, symmetric=False),
        )
        bench.row(f"{label}: all pairs, no symmetry used", slow, integrals_per_second=N**4 / slow.seconds)


def _nested(bench: Bench, Nq: int, N: int) -> None:
    """Time the paper's algorithm on this machine, on a GPU with every TILE_W."""
    device, fine = bench.device, 9
    generator = np.random.default_rng(0)
    points = integrals.quadrature(Nq, fine, problem.R)

    def noise(*shape: int) -> Any:
        return device.asarray(generator.standard_normal(shape) + 1j * generator.standard_normal(shape))

    at = integrals.Samples(noise(Nq, N), noise(Nq, fine, N))
    out = device.xp.empty((N * N, N * N), complex)
    paper_cpu, paper_gpu = problem.TABLES_3_4[Nq, N]
    for side in SIDES if device.is_cuda else SIDES[:1]:

        def work(side: int = side) -> None:
            integrals.repulsion_simpson(
                (at, at, at, at), points, MULTIPOLE, device=device, side=side, out=out
            )

        if min(SIZES) == N:
            work()  # compilation: long work is timed once, without a warm-up
        timing = problem.timed(device, work, 0.3)
        bench.row(
            f"N={N} Nq={Nq} complex128: nested quadrature, Ns=9" + f", TILE_W={side}" * device.is_cuda,
            timing,
            Cost(16.0 * Nq * N**4, 32.0 * N**4),
            functions=N,
            integrals_per_second=N**4 / timing.seconds,
            paper_cpu_s=paper_cpu,
            paper_gpu_s=paper_gpu,
            times_paper_cpu=paper_cpu / timing.seconds,
            times_paper_gpu=paper_gpu / timing.seconds,
        )
