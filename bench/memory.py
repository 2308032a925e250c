"""Measure memory: ``python bench/memory.py [METHOD[:TASK]...] [--device cpu|cuda] [--size small|medium|large] [--json FILE]``.

Beside the estimate of ``--dry-run`` stands the measured peak of the same command, in a process of its own:

- host: the largest resident set, as the system reports it for a process that has ended (what ``/usr/bin/time -v`` shows);
- device, arrays: the most that CuPy's memory pool held, by a hook in the process (`PROBE`);
- device, all: the largest use of the whole device while the process runs, less the use before, sampled with NVML.  Context and
  modules of the process are the difference; nothing else may use the device meanwhile.

Kernels are compiled by a first run of each small deck, which is not reported (``--cold``: an empty cache for every run).
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/: `bench` and `qsim` are packages of the checkout

from bench.memory_decks import CASES, deck_of, sizes_of, write  # noqa: E402

SAMPLE = 0.002  # s between two samples of the device's memory
SIZES = ("small", "medium", "large")

# A process inherits the peak of the one that started it, until its program is loaded: hence a small one in between.
STARTER = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""

# The command with a hook of CuPy: what the pool takes from the device, and what is in use of it.
PROBE = """
import atexit, json, os, sys
import cupy
from qsim.cli import main

class Peak(cupy.cuda.memory_hook.MemoryHook):
    name = "peak"
    held = used = most_held = most_used = 0
    def alloc_postprocess(self, **found):
        pool = cupy.get_default_memory_pool()
        self.most_held = max(self.most_held, pool.total_bytes())
    def malloc_postprocess(self, **found):
        pool = cupy.get_default_memory_pool()
        self.most_held = max(self.most_held, pool.total_bytes())
        self.most_used = max(self.most_used, pool.used_bytes())

peak = Peak()
def report():
    with open(os.environ["QSIM_BENCH_PEAK"], "w") as file:
        json.dump({"held": peak.most_held, "used": peak.most_used}, file)
atexit.register(report)
with peak:
    main()
"""


@dataclass
class Found:
    """One run: bytes estimated and measured."""

    method: str
    task: str
    size: str
    estimated_host: int
    estimated_device: int
    host: int
    device: int = 0
    device_held: int = 0
    device_used: int = 0
    seconds: float = 0.0
    parts: dict[str, int] | None = None
    error: str = ""

    @property
    def host_ratio(self) -> float:
        """Estimate / measured peak of the host."""
        return self.estimated_host / self.host if self.host else float("nan")

    @property
    def device_ratio(self) -> float:
        """Estimate / measured peak of the device, context included in both."""
        return self.estimated_device / self.device if self.device else float("nan")


def measure(
    case: tuple[str, str],
    size: str,
    device: str = "cpu",
    *,
    figures: bool = False,
    cache: Path | None = None,
    dry: bool = True,
) -> Found:
    """Return estimate and measured peak of one command.

    Parameters
    ----------
    case
        Method and task: a key of `CASES`.
    size
        ``"small"``, ``"medium"`` or ``"large"``.
    device
        ``"cpu"`` or ``"cuda"``.
    figures
        Whether figures are drawn.
    cache
        Folder for compiled kernels, such as an empty one; by default that of the user.
    dry
        Whether the estimate is asked for; else it is 0.

    Raises
    ------
    RuntimeError
        If the command fails.
    """
    method, task = case
    with tempfile.TemporaryDirectory(prefix="qsim-memory-") as name:
        folder = Path(name)
        deck = write(folder, deck_of(case, size))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "QSIM_BENCH_PEAK": str(folder / "peak.json"),
            "QSIM_CACHE_DIR": str(folder),  # of tuned choices
            "QSIM_TUNE": "off",
        }
        if cache is not None:
            environment["NUMBA_CACHE_DIR"] = str(cache)
        tail = [method, str(deck), "--device", device, "--output", str(folder / "run.h5")]
        tail += [] if figures else ["--no-figures"]
        plan = _plan(tail, environment) if dry else {"host": 0, "device": 0, "parts": {}}
        start = time.monotonic()
        with _sampled(device) as peak:
            host = _host_peak([*_python(device), *tail, "--quiet"], environment)
        pool = json.loads((folder / "peak.json").read_text()) if device != "cpu" else {}
    on_cpu = device == "cpu"
    return Found(
        method,
        task,
        size,
        estimated_host=plan["host"] + (plan["device"] if on_cpu else 0),
        estimated_device=0 if on_cpu else plan["device"],
        host=host,
        device=peak[0],
        device_held=pool.get("held", 0),
        device_used=pool.get("used", 0),
        seconds=time.monotonic() - start,
        parts=plan["parts"],
    )


def _python(device: str) -> list[str]:
    return [sys.executable, *(["-m", "qsim"] if device == "cpu" else ["-c", PROBE])]


def _plan(tail: list[str], environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "qsim", *tail, "--dry-run", "--json"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(found.stderr.strip()[-600:])
    memory: dict[str, Any] = json.loads(found.stdout)["memory"]
    return memory


def _host_peak(command: list[str], environment: dict[str, str]) -> int:
    """Run a command; return the bytes of its largest resident set."""
    starter = [sys.executable, "-I", "-S", "-c", STARTER, *command]
    found = subprocess.run(starter, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError((found.stderr or found.stdout).strip()[-600:])
    return int(found.stdout.split()[-1])


class _Nvml:
    """Memory in use on the first device, all processes together; through the driver's own library."""

    class _Memory(ctypes.Structure):
        _fields_ = (
            ("total", ctypes.c_ulonglong),
            ("free", ctypes.c_ulonglong),
            ("used", ctypes.c_ulonglong),
        )

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        self.handle = ctypes.c_void_p()
        if self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
            raise OSError("NVML finds no device")

    def used(self) -> int:
        found = self._Memory()
        self.library.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(found))
        return int(found.used)


@contextmanager
def _sampled(device: str) -> Iterator[list[int]]:
    """Sample the device's memory inside the block; the list then holds the peak above the use before (0: CPU)."""
    peak = [0]
    if device == "cpu":
        yield peak
        return
    nvml = _Nvml()
    before, done = nvml.used(), threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE):
            peak[0] = max(peak[0], nvml.used() - before)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


# -------------------------------------------------------------------------------------------- command

HEAD = (
    "method   task                    size   | host: estimate measured ratio | device: estimate  measured ratio"
    " (pool held,   used) |    s"
)


def _line(found: Found) -> str:
    name = f"{found.method:<8} {found.task:<23} {found.size:<6}"
    if found.error:
        return f"{name} | failed: {found.error.splitlines()[-1]}"
    mega = [
        value / 1e6
        for value in (
            found.estimated_host,
            found.host,
            found.estimated_device,
            found.device,
            found.device_held,
            found.device_used,
        )
    ]
    return (
        f"{name} | {mega[0]:>13.1f} {mega[1]:>9.1f} {found.host_ratio:>5.2f} | {mega[2]:>16.1f} {mega[3]:>9.1f}"
        f" {found.device_ratio:>5.2f} ({mega[4]:>8.1f} {mega[5]:>8.1f}) | {found.seconds:>5.1f}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the table, in MB; return 1 if a run failed."""
    parser = argparse.ArgumentParser(
        description="Compare the memory that --dry-run announces with measured peaks."
    )
    parser.add_argument("cases", nargs="*", metavar="METHOD[:TASK]", help="* allowed; all without")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--size", choices=SIZES, help="one size only")
    parser.add_argument("--figures", action="store_true", help="draw figures, as a user does")
    parser.add_argument("--cold", action="store_true", help="an empty cache of kernels for every run")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the record there")
    options = parser.parse_args(arguments)
    wanted = [text if ":" in text else f"{text}:*" for text in options.cases or ["*"]]
    chosen = [case for case in CASES if any(fnmatch.fnmatch(":".join(case), text) for text in wanted)]
    print(HEAD, flush=True)
    rows: list[Found] = []
    for case in chosen:
        if not options.cold:
            _warm_up(case, options.device, options.figures)
        for size in sizes_of(case) if options.size is None else {options.size} & {*sizes_of(case)}:
            rows.append(_try(case, size, options))
            print(_line(rows[-1]), flush=True)
            if options.json:
                record = {"device": options.device, "figures": options.figures, "cold": options.cold}
                rows_out = [asdict(row) for row in rows]
                options.json.write_text(json.dumps({**record, "rows": rows_out}, indent=1), encoding="utf-8")
    return int(any(row.error for row in rows))


def _warm_up(case: tuple[str, str], device: str, figures: bool) -> None:
    """Run the small deck once, which compiles its kernels; what fails is told by the measurement."""
    try:
        measure(case, "small", device, figures=figures, dry=False)
    except RuntimeError:
        return


def _try(case: tuple[str, str], size: str, options: argparse.Namespace) -> Found:
    try:
        if options.cold:
            with tempfile.TemporaryDirectory(prefix="qsim-cold-") as cache:
                return measure(case, size, options.device, figures=options.figures, cache=Path(cache))
        return measure(case, size, options.device, figures=options.figures)
    except RuntimeError as error:
        return Found(*case, size, 0, 0, 0, error=str(error))


if __name__ == "__main__":
    sys.exit(main())
