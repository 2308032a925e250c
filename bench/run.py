"""Measure qsim: ``python bench/run.py [CASE...] [--method METHOD] [--device cpu|cuda|all] [--quick] [--json FILE]``.

Without a case all cases run, those of one method with ``--method``.  See README.md for what they measure and how to read
the record.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # CPU numbers are those of one core; set before NumPy is loaded
ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # instead of bench/: `bench` and `qsim` are packages of the checkout

import argparse  # noqa: E402
import fnmatch  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from typing import Any  # noqa: E402

from bench import ranks, record  # noqa: E402
from bench.harness import CASES, Bench, Case, Skip  # noqa: E402
from bench.qmc import (  # noqa: E402
    crystal_decks,  # noqa: F401
    crystal_parts,  # noqa: F401
    crystal_shares,  # noqa: F401
    crystals,  # noqa: F401
    molecules,  # noqa: F401
    optimiser,  # noqa: F401
    peers,  # noqa: F401
    shares,  # noqa: F401
    throughput,  # noqa: F401
)
from bench.qoc import columns, decks, dense, eigenbasis, gate, grid, line_search, members, qutip_grape, works  # noqa: E402, F401
from bench.sturmian import collisions, integrals, linear, photons, states  # noqa: E402, F401
from bench.tridiag import atom, atom_clubs, atom_cuda, batch, literal, plane, solve, step, stream, threads  # noqa: E402, F401
from bench.trotter import ensembles, equal_error, gates, large, measure, open_systems, products, scaling  # noqa: E402, F401
from bench.trotter import spaces as trotter_spaces  # noqa: E402, F401
from bench.trotter import step as trotter_step  # noqa: E402, F401
from bench.trotter import threads as trotter_threads  # noqa: E402, F401
from qsim.core.device.device import Device, cpu, select  # noqa: E402
from qsim.core.errors import QsimError  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cases; return 1 if one failed (a goal that is not met is no failure)."""
    options = _parser().parse_args(arguments)
    if options.gpus or options.ranks:
        return _on_ranks(options)
    cases = {
        name: item for name, item in CASES.items() if options.method in ("all", item.method)
    }  # in their order
    if options.list:
        for item in cases.values():
            print(f"{item.name:<18} {'+'.join(item.devices):<9} {item.summary}")
        return 0
    chosen = [name for name in cases if any(fnmatch.fnmatch(name, text) for text in options.cases or ["*"])]
    if not chosen:
        print(f"no such case; choose from {', '.join(cases)}", file=sys.stderr)
        return 2
    try:
        devices = _devices(options.device)
    except QsimError as error:
        print(f"{error}; {error.hint}" if getattr(error, "hint", None) else error, file=sys.stderr)
        return 2
    begun = record.begin(devices, options.quick, options.commit)
    entries = []
    for name in chosen:
        for device in devices:
            if device.kind in CASES[name].devices:
                entries.append(_run(CASES[name], device, options.quick))
                if options.json:  # after every case: a run that is cut short leaves what it has
                    record.write(options.json, begun, devices, entries, options.quick)
    _goals(entries)
    if options.json:
        print(f"written: {options.json}")
    return int(any(entry["status"] == "failed" for entry in entries))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure qsim side by side with its peers and baselines.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names, * allowed; all without")
    parser.add_argument(
        "--method",
        choices=("all", *dict.fromkeys(item.method for item in CASES.values())),
        default="all",
        help="cases of one method only",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "all"),
        default="all",
        help="all: the CPU, and a GPU if there is one",
    )
    parser.add_argument("--gpus", metavar="N,N", help="the cases of several ranks, on so many GPUs each")
    parser.add_argument("--ranks", metavar="N,N", help="the same on the CPU, one thread per rank")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the record to FILE")
    parser.add_argument("--commit", help="commit to record where the checkout has no .git")
    parser.add_argument("--list", action="store_true", help="list the cases")
    return parser


def _on_ranks(options: argparse.Namespace) -> int:
    """Run the cases of several ranks on each number of them."""
    kind, text = ("cuda", options.gpus) if options.gpus else ("cpu", options.ranks)
    counts = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    names = [
        name
        for name, item in ranks.CASES.items()
        if options.method in ("all", item.method)
        and any(fnmatch.fnmatch(name, pattern) for pattern in options.cases or ["*"])
    ]
    if min(counts) < 1 or not names:
        print("give numbers such as 1,2,4, and cases of " + ", ".join(ranks.CASES), file=sys.stderr)
        return 2
    devices = [cpu(1)]  # the ranks choose theirs; this process has no business on them
    begun = record.begin(devices, options.quick, options.commit)
    entries = ranks.measure(names, counts, kind, options.quick, say=lambda line: print(line, flush=True))
    _goals(entries)
    if options.json:
        record.write(options.json, begun, devices, entries, options.quick)
        print(f"written: {options.json}")
    return int(any(entry["status"] == "failed" for entry in entries))


def _devices(choice: str) -> list[Device]:
    """Return the devices to measure; one core stands for the CPU."""
    core = cpu(1)
    if choice == "cpu":
        return [core]
    cuda, _ = select("cuda" if choice == "cuda" else "auto", threads=1)
    if choice == "cuda":
        return [cuda]
    return [core, cuda] if cuda.is_cuda else [core]


def _run(item: Case, device: Device, quick: bool) -> dict[str, Any]:
    print(f"\n{item.name} on {device}: {item.summary}", flush=True)
    bench = Bench(device, cpu(1), quick, say=lambda text: print(text, flush=True))
    entry: dict[str, Any] = {"case": item.name, "summary": item.summary, "device": device.label}
    start, load = time.perf_counter(), record.load()
    try:
        with device.use():
            item.run(bench)
        status, message = "done", ""
    except Skip as reason:
        status, message = "skipped", str(reason)
        print(f"  skipped: {message}", flush=True)
    except Exception as error:  # one broken case must not lose the numbers of the others
        status, message = "failed", f"{type(error).__name__}: {error}"
        traceback.print_exc()
    if device.is_cuda:
        device.xp.get_default_memory_pool().free_all_blocks()
    return entry | {
        "status": status,
        "message": message,
        "seconds": time.perf_counter() - start,
        "load": [load, record.load()],
        "rows": bench.rows,
        "goals": bench.goals,
        "notes": bench.notes,
    }


def _goals(entries: list[dict[str, Any]]) -> None:
    print("\ngoals")
    for entry in entries:
        for goal in entry["goals"]:
            verdict = "met    " if goal["met"] else "NOT met"
            print(
                f"  {verdict} {entry['case']} on {entry['device']}: {goal['goal']}: {goal['value']:.4g} {goal['unit']} "
                f"({goal['relation']} {goal['limit']:g})"
            )
        if entry["status"] != "done":
            print(f"  {entry['status']} {entry['case']} on {entry['device']}: {entry['message']}")


if __name__ == "__main__":
    raise SystemExit(main())
