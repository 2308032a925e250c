"""The JSON record of a run: machine, code, versions, ceilings, numbers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.ceilings import measure
from qsim import __version__
from qsim.core.device.device import Device, cpu
from qsim.core.device.hardware import cpu_name
from qsim.core.run.provenance import git_state, versions

FORMAT = 1
ROOT = Path(__file__).resolve().parents[1]
PEERS = ("torch", "qutip", "qutip-qtrl", "qulacs", "qiskit", "qiskit-aer", "pyscf", "custatevec-cu13")


def begin(devices: Sequence[Device], quick: bool, commit: str | None) -> dict[str, Any]:
    """Return the facts known before the first case, and print the machine and its ceilings."""
    state = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "bench/run.py", *sys.argv[1:]]),
        "qsim": __version__,
        "commit": commit or git_state(),
        "sources": sources(),
        "versions": versions() | {name: _version(name) for name in PEERS},
        "host": {
            "cpu": cpu_name(),
            "cpus": os.cpu_count(),
            "affinity": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "system": platform.platform(),
            "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS"),
            "load": load(),
        },
        "quick": quick,
    }
    print(
        f"qsim {__version__}, commit {state['commit']}, sources {state['sources']}, load {state['host']['load']}"
    )
    for device in devices:
        ceilings = measure(device, quick)
        print(
            f"{device}: copy {ceilings.copy / 1e9:.4g} GB/s, FP64 {ceilings.fma / 1e9:.4g} GFLOP/s, "
            f"dgemm {ceilings.dgemm / 1e9:.4g} GFLOP/s, FMA latency {ceilings.fma_latency * 1e9:.3g} ns",
            flush=True,
        )
    return state


def write(
    path: Path, state: dict[str, Any], devices: Sequence[Device], entries: list[dict[str, Any]], quick: bool
) -> None:
    """Write the record."""
    record = state | {
        "devices": {
            d.label: d.describe() | {"ceilings": asdict(measure(d, quick))} for d in [*devices, cpu(1)]
        },
        "cases": entries,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, default=float) + "\n", encoding="utf-8")


def sources() -> str:
    """Return a hash of all code of the package: the same hash, the same code, committed or not."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "qsim").rglob("*")):
        if path.suffix in (".py", ".cu", ".cuh"):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def load() -> list[float] | None:
    """Return the load averages of the machine: on a shared one, what disturbs the numbers."""
    with contextlib.suppress(OSError, AttributeError):
        return [round(value, 2) for value in os.getloadavg()]
    return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
