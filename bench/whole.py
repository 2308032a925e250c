"""Whole commands and a table of threads: ``python bench/whole.py OUT.json``.

*Works*: one piece of work per method, large enough for many threads, on 1, 2, 4 ... of them, beside the copy rate of the host
on as many.  *Commands*: two decks per method, a small and a large one, from start to exit in a process of its own, first with an
empty cache (`cold`), then warm; the wall time is split into imports, compilation, build, run and write.  What is spent in calls
of compiled kernels that may use threads stands beside it (`inside each_part`).

The record is written after both parts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/

import numpy as np  # noqa: E402

from qsim.core.device.blas import large_matrices, small_matrices  # noqa: E402
from qsim.core.device.device import Device, cpu  # noqa: E402
from qsim.core.device.hardware import available_threads, cpu_name  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

DECKS = {
    "qmc": ("he_atom", "h2o_ccecp"),
    "qoc": ("morse", "robust"),
    "sturmian": ("li_plus_scan", "he_dpi"),
    "tridiag": ("hhg_800nm", "h_hhg_800nm"),
    "trotter": ("ring_echo", "mbl_ensemble"),
}
LIMIT = 60.0  # seconds that one command may take

# -------------------------------------------------------------------------------------------- works


def _trotter(device: Device) -> Callable[[], object]:
    from bench.trotter import problem
    from qsim.trotter.evolution.layers import Evolver

    run = Evolver(device, problem.all_to_all(22), problem.noise(22))
    return lambda: run.advance("ts2", problem.DT, 1)


def _tridiag(device: Device) -> Callable[[], object]:
    from bench.tridiag import problem

    run = problem.propagator(device, problem.lattice(10_000_000), "length", 64)
    steps = run.shape.steps if run.shape else 1

    def work() -> None:
        run.step = 0
        run.advance(steps, steps)

    return work


def _integrals(device: Device) -> Callable[[], object]:
    from bench.sturmian import problem
    from qsim.sturmian.linalg.ldlt import symmetric_root
    from qsim.sturmian.two_electron import integrals

    K = integrals.repulsion_kernel(problem.grid(256), 2)
    root = symmetric_root(K)
    c = problem.coefficients(256, 64, complex)
    out = np.empty((64 * 64, 64 * 64), complex)

    def work() -> None:
        with small_matrices(device.threads), large_matrices(4096):
            integrals.repulsion_pairs(device, K, (c, c, c, c), root=root, dtype=complex).expand(out)

    return work


def _apply(device: Device) -> Callable[[], object]:
    from bench.sturmian import states

    operator = states._operator(device, *states.APPLIED[0])
    x = np.random.default_rng(0).standard_normal((1, *operator.shape))

    def work() -> None:
        with small_matrices(device.threads):
            operator.apply(x)

    return work


def _qmc(device: Device) -> Callable[[], object]:
    from bench.qmc import problem

    walkers = problem.ensemble(device, problem.of_deck("H2O"), 2048, problem.TAU["H2O"])
    return problem.variational(walkers, problem.TAU["H2O"], 2)


def _qoc(device: Device) -> Callable[[], object]:
    from bench.qoc import problem

    nominal = problem.morse(641, 24)
    objective = problem.objective(problem.eigen_propagator(device, nominal, 600, 100))
    field = problem.half_pi(nominal, 600)
    return lambda: objective.evaluate(field)


def _copy(device: Device) -> Callable[[], object]:
    from qsim.core.device.pool import each_part

    x, y = np.ones(1 << 26), np.zeros(1 << 26)
    return lambda: each_part(lambda a, b: np.copyto(y[a:b], x[a:b]), x.size, x.size, device.threads)


WORKS: dict[str, Callable[[Device], Callable[[], object]]] = {
    "copy of 0.5 GB": _copy,
    "trotter, 22 spins, step of ts2": _trotter,
    "tridiag, 10^7 points": _tridiag,
    "sturmian, integrals, N = 64": _integrals,
    "sturmian, H x, 35 280 rows": _apply,
    "qmc, H2O, 2048 walkers": _qmc,
    "qoc, gradient, 100 members": _qoc,
}


def works(counts: list[int], until: float, budget: float = 0.5) -> list[dict[str, Any]]:
    """Return a row for each work: best seconds and processor seconds by number of threads."""
    rows = []
    for name, make in WORKS.items():
        row: dict[str, Any] = {"work": name, "seconds": {}, "cpu_seconds": {}}
        rows.append(row)
        try:
            for count in counts:
                if time.monotonic() > until:
                    row["cut"] = True
                    break
                work = make(cpu(count))
                work()
                work()
                found: list[tuple[float, float]] = []
                begun = time.perf_counter()
                while len(found) < 3 or time.perf_counter() - begun < budget:
                    start, busy = time.perf_counter(), time.process_time()
                    work()
                    found.append((time.perf_counter() - start, time.process_time() - busy))
                row["seconds"][count], row["cpu_seconds"][count] = min(found)
        except Exception as error:  # the others are measured all the same
            row["error"] = f"{type(error).__name__}: {error}"
        print(row, file=sys.stderr, flush=True)
    return rows


# ----------------------------------------------------------------------------------------- commands

CHILD = """
import json, sys, threading, time
begun = time.perf_counter()
spent, deep = [0.0], threading.local()
from qsim.core.device import pool
plain = pool.each_part
def timed(*arguments, **more):
    if getattr(deep, "inside", False):
        return plain(*arguments, **more)
    deep.inside, start = True, time.perf_counter()
    try:
        return plain(*arguments, **more)
    finally:
        deep.inside = False
        spent[0] += time.perf_counter() - start
pool.each_part = timed
from qsim.__main__ import main
told, sys.argv = sys.argv[1], ["qsim", *sys.argv[2:]]
try:
    code = main()
except SystemExit as end:
    code = end.code
json.dump({"inside": time.perf_counter() - begun, "kernels": spent[0]}, open(told, "w"))
sys.exit(code)
"""


def command(method: str, deck: str, device: str, threads: int, cache: str) -> dict[str, Any]:
    """Run a deck as a process of its own; return its wall time and the parts of it."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        words = [
            method,
            str(ROOT / "inputs" / method / f"{deck}.yaml"),
            "-o",
            folder,
            "--no-figures",
            "--quiet",
        ]
        words += ["--device", device, "--threads", str(threads)]
        environ = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(told), *words],
                cwd=ROOT,
                env=environ,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"wall": LIMIT, "cut": True}
        wall = time.perf_counter() - start
        if done.returncode:
            return {"wall": wall, "error": done.stderr[-500:]}
        summary = json.loads(next(Path(folder).rglob("*.summary.json")).read_text(encoding="utf-8"))
        timing = {key: round(float(value), 4) for key, value in summary["timing"].items()}
        known = sum(timing.values())
        kernels = json.loads(told.read_text(encoding="utf-8"))["kernels"]
        return {"wall": wall, "import and start": wall - known, **timing, "inside each_part": kernels}


def commands(counts: list[int], devices: list[str], until: float) -> list[dict[str, Any]]:
    """Return a row for each deck and device: cold, then warm on each number of threads."""
    rows = []
    for size in range(2):  # all small decks first
        for method, decks in DECKS.items():
            deck = decks[size]
            for device in devices:
                cache = tempfile.mkdtemp()
                row: dict[str, Any] = {"deck": f"{method}/{deck}", "device": device}
                rows.append(row)
                for count in [counts[-1], *(counts if device == "cpu" else counts[-1:])]:
                    if time.monotonic() > until:
                        row["cut"] = True
                        break
                    key = "cold" if "cold" not in row else str(count)
                    row[key] = command(method, deck, device, count, cache)
                print(row, file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--share", type=float, default=0.45, help="part of the time that the works may take")
    parser.add_argument("--threads", default="")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    most = available_threads()
    counts = [int(x) for x in options.threads.split(",")] if options.threads else []
    counts = counts or sorted({1, *(2**k for k in range(1, 12) if 2**k < most), most})
    begun = time.monotonic()
    record: dict[str, Any] = {"host": cpu_name(), "cores": most, "threads": counts}

    def keep() -> None:
        options.out.write_text(json.dumps(record, indent=1), encoding="utf-8")

    record["works"] = works(counts, begun + options.share * options.seconds)
    keep()
    ends = [count for count in counts if count in (counts[0], counts[-1])]
    record["commands"] = commands(ends, options.device.split(","), begun + options.seconds)
    keep()


if __name__ == "__main__":
    main()
