"""Whole commands and a table of threads: ``python bench/whole.py OUT.json [--only commands|large|works]``.

*Works*: one piece of work per method, large enough for many threads, on 1, 2, 4 ... of them, beside what the host can do on as
many: copies, multiplications in registers, and products of matrices by BLAS that lie in the caches of each core, since wide
instructions on all cores lower their clocks.  Calls of one thread and of many take turns, so that both meet the same other
programs; the shortest of each count.  *Commands*: two decks per method, a small and a large one, from start to exit in a process
of its own, first with an empty cache (`cold`), then warm, on a GPU a third one with work for it (`ON_GPU`, with an empty cache
less of it); the wall time is split into the parts of ``bench/parts.py`` and the `start` of the interpreter.  The processor time
beside it tells how much of that others had on a shared machine.  *Large* (`--only large`): the third ones alone.  All decks:
``bench/decks.py``.

The record is written after each command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/

import numpy as np  # noqa: E402

from qsim.core.device.blas import large_matrices, small_matrices  # noqa: E402
from qsim.core.device.device import Device, cpu  # noqa: E402
from qsim.core.device.hardware import available_threads, cpu_name  # noqa: E402
from qsim.core.run.provenance import git_state  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DECKS = {
    "qmc": ("he_atom", "h2o_ccecp"),
    "qoc": ("morse", "robust"),
    "sturmian": ("li_plus_scan", "he_dpi"),
    "tridiag": ("hhg_800nm", "h_hhg_800nm"),
    "trotter": ("ring_echo", "mbl_ensemble"),
}
SERIES = (
    "series=[{{vmc: {{walkers: 65536, blocks: {0}, steps: 10, sweeps: 3, timestep: 0.3}}}}, "
    "{{dmc: {{walkers: 65536, timesteps: [0.02], blocks: {0}, steps: 20, warmup: 4}}}}]"
)
SCALES = ", ".join(f"{0.9 + 0.0001 * k:.4f}" for k in range(2001))
#: Decks with work for a GPU, half a minute and less: what is set in them, and in the first run, which fills the cache of kernels.
ON_GPU = {
    "qmc": ("h2o_ccecp", (SERIES.format(300),), (SERIES.format(2),)),
    "qoc": (
        "robust",
        (
            "propagator={type: crank_nicolson}",
            "optimizer.max_sweeps=40",
            f"ensemble.field_scale=[{SCALES}]",
        ),
        ("optimizer.max_sweeps=2",),
    ),
    "sturmian": ("he_dpi", ("initial.l_max=8", "channels.l_max=8", "grid.R=160"), ("grid.R=40",)),
    "tridiag": (
        "packet",
        ("grid.points=100000001", "grid.xmin=-5e6", "grid.xmax=5e6", "time.t_final=200", "time.outputs=4"),
        ("time.t_final=1",),
    ),
    "trotter": ("thirty_spins", ("evolve.outputs=6",), ("evolve.t_final=0.1", "evolve.outputs=2")),
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
        with large_matrices(4096):
            integrals.repulsion_pairs(device, K, (c, c, c, c), root=root, dtype=complex).expand(out)

    return work


def _apply(device: Device) -> Callable[[], object]:
    from bench.sturmian import states

    operator = states._operator(device, *states.APPLIED[0])
    x = np.random.default_rng(0).standard_normal((1, *operator.shape))
    return lambda: operator.apply(x)


def _qmc(device: Device) -> Callable[[], object]:
    from bench.qmc import problem

    walkers = problem.ensemble(device, problem.of_deck("H2O"), 2048, problem.TAU["H2O"])
    return problem.variational(walkers, problem.TAU["H2O"], 10)


def _qoc(device: Device) -> Callable[[], object]:
    from bench.qoc import problem

    nominal = problem.morse(641, 24)
    objective = problem.objective(problem.eigen_propagator(device, nominal, 600, 100))
    field = problem.half_pi(nominal, 600)
    return lambda: objective.evaluate(field)


def _arithmetic(device: Device) -> Callable[[], object]:
    from bench.threads import multiplications
    from qsim.core.device.pool import each_part

    work = multiplications(1024, 40_000)
    return lambda: each_part(work, 1024, 10**8, device.threads)


def _matrices(shape: tuple[int, int, int], kind: type) -> Callable[[Device], Callable[[], object]]:
    """Return work of BLAS products of that shape, m x k x n, on matrices of each thread's own."""

    def make(device: Device) -> Callable[[], object]:
        from bench.threads import matrix_products
        from qsim.core.device.pool import each_part

        work = matrix_products(256, 4, shape, kind, device.threads)
        return lambda: each_part(work, 256, 10**8, device.threads)

    return make


def _copy(device: Device) -> Callable[[], object]:
    from qsim.core.device.pool import each_part

    x, y = np.ones(1 << 26), np.zeros(1 << 26)
    return lambda: each_part(lambda a, b: np.copyto(y[a:b], x[a:b]), x.size, x.size, device.threads)


WORKS: dict[str, Callable[[Device], Callable[[], object]]] = {
    "copy of 0.5 GB": _copy,
    "multiplications in registers": _arithmetic,
    "real products, 32 x 84 x 256": _matrices((32, 84, 256), float),
    "complex products, 128 x 256 x 128": _matrices((128, 256, 128), complex),
    "trotter, 22 spins, step of ts2": _trotter,
    "tridiag, 10^7 points": _tridiag,
    "sturmian, integrals, N = 64": _integrals,
    "sturmian, H x, 35 280 rows": _apply,
    "qmc, H2O, 2048 walkers": _qmc,
    "qoc, gradient, 100 members": _qoc,
}


def works(counts: list[int], until: float, budget: float = 1.0) -> list[dict[str, Any]]:
    """Return a row for each work: shortest seconds by number of threads, and how many times as fast as one thread that is."""
    rows = []
    for name, make in WORKS.items():
        row: dict[str, Any] = {"work": name, "seconds": {}, "speedup": {}}
        rows.append(row)
        try:
            for count in counts:
                if time.monotonic() > until:
                    row["cut"] = True
                    break
                one, many = _shortest_of_turns([make(cpu(k)) for k in (1, count)], count, budget)
                row["seconds"][count] = many
                row["speedup"][count] = round(one / many, 2)
        except Exception as error:  # the others are measured all the same
            row["error"] = f"{type(error).__name__}: {error}"
        print(row, file=sys.stderr, flush=True)
    return rows


def _shortest_of_turns(some: Sequence[Callable[[], object]], threads: int, budget: float) -> list[float]:
    """Return the shortest seconds of each of some works, which take turns for so many seconds."""
    found = [float("inf")] * len(some)
    with small_matrices(threads):  # as in a run
        for _ in range(2):
            for work in some:
                work()
        turns, begun = 0, time.perf_counter()
        while turns < 3 or time.perf_counter() - begun < budget:
            for k, work in enumerate(some):
                start = time.perf_counter()
                work()
                found[k] = min(found[k], time.perf_counter() - start)
            turns += 1
    return found


# ----------------------------------------------------------------------------------------- commands


def command(
    method: str,
    deck: str,
    device: str,
    threads: int,
    cache: str,
    changes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Run a deck as a process of its own; return its wall time, its processor time, and the parts of the wall time, s."""
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
        words += [word for change in changes for word in ("--set", change)]
        packages = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        # bytecode of qsim is kept as in an installation, whatever this process does with its own
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environ = {**kept, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(packages)}
        if device == "cuda":
            environ["CUPY_CACHE_DIR"] = cache
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, str(ROOT / "bench/parts.py"), str(told), *words],
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
        found = json.loads(told.read_text(encoding="utf-8"))
    parts = {name: round(seconds, 4) for name, seconds in found["wall"].items()}
    return {
        "wall": round(wall, 4),
        "processor": round(sum(found["cpu"].values()), 4),
        "start": round(wall - sum(parts.values()), 4),
        **parts,
    }


def commands(
    counts: list[int],
    devices: list[str],
    until: float,
    keep: Callable[[list[dict[str, Any]]], None],
    *,
    large: bool = False,
    methods: Sequence[str] = tuple(DECKS),
) -> None:
    """Measure each deck and device, cold, then warm on each number of threads; `keep` gets all rows after each.

    If `large`, those alone that have work for a GPU.
    """
    rows: list[dict[str, Any]] = []
    works: list[tuple[str, str, tuple[str, ...], tuple[str, ...], list[str]]] = []
    for size in range(0 if large else 2):  # all small decks first
        works += [(method, decks[size], (), (), devices) for method, decks in DECKS.items()]
    works += [(method, *how, ["cuda"]) for method, how in ON_GPU.items()]
    for method, deck, changes, shorter, chosen in works:
        for device in [name for name in chosen if name in devices and method in methods]:
            with tempfile.TemporaryDirectory() as cache:
                warm = counts if device == "cpu" else counts[-1:]
                for number, count in enumerate([counts[-1], *warm]):
                    if time.monotonic() > until:
                        return
                    less = () if number else shorter
                    about = {
                        "deck": f"{method}/{deck}" + ", larger" * bool(changes) + ", shorter" * bool(less),
                        "device": device,
                        "threads": count,
                        "cache": "warm" if number else "cold",
                    }
                    rows.append(about | command(method, deck, device, count, cache, (*changes, *less)))
                    print(rows[-1], file=sys.stderr, flush=True)
                    keep(rows)


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--only",
        choices=("commands", "large", "works"),
        help="one part; without, commands and works",
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--share", type=float, default=0.45, help="part of the time that the works may take")
    parser.add_argument("--threads", default="")
    parser.add_argument("--methods", default=",".join(DECKS), help="of which methods commands are run")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    most = available_threads()
    counts = [int(x) for x in options.threads.split(",")] if options.threads else []
    counts = counts or sorted({1, *(2**k for k in range(1, 12) if 2**k < most), most})
    begun = time.monotonic()
    record: dict[str, Any] = {
        "device": f"{cpu_name()}, {most} cores",
        "command": " ".join(["python", "bench/whole.py", *sys.argv[1:]]),
        "unit": "s",
        "note": "cold: with an empty cache of kernels; processor: time of all threads; other columns: parts of the wall time",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_state(),
        "rows": [],
    }

    def keep(rows: list[dict[str, Any]]) -> None:
        record["rows"] = rows
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    if options.only not in ("commands", "large"):
        share = options.share if options.only is None else 1.0
        record["works"] = works(counts, begun + share * options.seconds)
        keep([])
    if options.only != "works":
        devices = options.device.split(",")
        commands(
            counts,
            devices,
            begun + options.seconds,
            keep,
            large=options.only == "large",
            methods=options.methods.split(","),
        )


if __name__ == "__main__":
    main()
