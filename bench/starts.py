"""Seconds around the kernels: ``python bench/starts.py [OUT.json] [--device cpu,cuda]``.

A deck of each task, made so small that it has nothing to do, is run as a command from the start of the interpreter to its end,
without figures; the commands that read decks and results are run beside them.  The first run of each fills the caches of
compiled kernels and does not count.  Of the others the median is told: wall time, processor time of all threads, and *again*, the
processor time of the same deck by ``qsim.run`` in a process that has run it before.  Commands run beside each other on cores of
their own; give fewer ``--lanes`` where wall times matter most.

``--trace`` prints instead where the time of the commands goes: modules by the time of their import, functions by cumulative time.
``--only`` takes commands whose names begin so.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import math
import os
import pstats
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/

from qsim.core.device.device import cuda_status  # noqa: E402
from qsim.core.device.hardware import available_threads, cpu_name  # noqa: E402
from qsim.core.run.provenance import git_state  # noqa: E402

# goals in seconds from the shell to the end
GOALS = {"cpu": 0.9, "cuda": 2.0, "read": 0.5}
# cores of a command, and commands at the same time
CORES, LANES = 2, 4
# lines of a trace: modules, functions
MODULES, FUNCTIONS = 25, 40
AROUND = re.compile(r"frozen|method builtins\.(exec|next|__import__)|/click/|runpy|contextlib|importlib")

# decks with nothing to do
WALK = "walkers: 16, blocks: 2, steps: 2"
VMC = f"series=[{{vmc: {{{WALK}}}}}]"
DMC = f"series=[{{vmc: {{{WALK}}}}}, {{dmc: {{{WALK}, timesteps: [0.02], warmup: 2}}}}]"
OPTIMIZE = "series=[{optimize: {walkers: 64, iterations: 1}}]"
COARSE = ("grid.R=18", "grid.order=12", "grid.elements=14", "grid.ecs.length=8")
PLANE = (
    "system.grid.x.points=20",
    "system.grid.y.points=20",
    "system.states=4",
    "system.target=[1,2]",
    "verify.tolerance=0.5",
)
GUESS = "optimizer={type: none}"
ATOM = ("grid.rmax=40", "grid.l_max=4", "laser.pulses.0.cycles=1", "time.outputs=2", "time.verify=false")
DECKS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("tridiag solve", "tridiag/solve_random", ("system.n=2000",)),
    ("tridiag propagate", "tridiag/packet", ("time.t_final=0.1", "time.outputs=2")),
    ("tridiag atom", "tridiag/h_hhg_800nm", (*ATOM, "absorber.kmin=0.5", "observe=[{hhg: {}}]")),
    ("trotter evolve", "trotter/autocorrelation_a1", ("system.spins=8", "evolve.t_final=1")),
    ("trotter dynamics", "trotter/structure_factor", ("system.spins=6", "dynamics.steps=10")),
    ("trotter thermal", "trotter/thermal_ladder", ("system.spins=6", "thermal.vectors=2")),
    ("trotter floquet", "trotter/floquet_brickwork", ("floquet.cycles=2", "floquet.quasienergies=false")),
    ("trotter spectrum", "trotter/heisenberg_ground", ("system.spins=6", "sector.up=[3]", "observe=[]")),
    ("trotter levels", "trotter/mbl_ensemble", ("system.spins=8", "ensemble.disorder=2")),
    (
        "sturmian bound",
        "sturmian/he_ground",
        ("basis.N=6", "channels.l_max=1", "extrapolate=null", "scan=null"),
    ),
    ("sturmian basis", "sturmian/outgoing_basis", ("basis.N=6", "task.l=[0]")),
    (
        "sturmian response",
        "sturmian/he_response",
        (
            "basis.N=8",
            "channels={l_max: 0}",
            "extrapolate=null",
            "states=[{L: 0, S: 0, root: 0}]",
            "task.multipoles=[1]",
            "task.observables=[polarisability]",
            "task.omega=[0]",
        ),
    ),
    ("sturmian scatter", "sturmian/temkin_poet", (*COARSE, "task.energy=[2.0]", "channels.S=0")),
    ("sturmian resonances", "sturmian/resonances", (*COARSE, "channels.l_max=0")),
    (
        "sturmian photo",
        "sturmian/he_dpi",
        (
            *COARSE,
            "initial.l_max=1",
            "channels.l_max=1",
            "task.gauges=[length]",
            "task.observables=[sigma]",
            "task.excess=1.5",
        ),
    ),
    ("qmc vmc", "qmc/hooke", (VMC,)),
    ("qmc dmc", "qmc/he_atom", (DMC,)),
    ("qmc optimize", "qmc/he_atom", (OPTIMIZE,)),
    ("qmc crystal", "qmc/electron_gas", (DMC,)),
    ("qoc grid", "qoc/morse", ("time.steps=200", "verify.steps=2000", GUESS)),
    ("qoc system", "qoc/cnot", ("time.slots=10", GUESS)),
    ("qoc grid2d", "qoc/water_stretches", (*PLANE, "time.slots=20", GUESS)),
)
# What no command can do without: libraries, and on a GPU driver and CuPy. CuPy compiles an empty program for all options that are
# new, to know the version of the compiler, before it looks into its cache.
LIBRARIES = (
    ("numpy", "import numpy"),
    ("numba", "import numba"),
    ("scipy.linalg", "import scipy.linalg"),
    ("h5py", "import h5py"),
    ("pydantic", "import pydantic; pydantic.BaseModel"),
)
CUDA = (
    ("numpy", "import numpy"),
    ("cupy", "import cupy"),
    ("driver and context of the device", "cupy.cuda.runtime.memGetInfo()"),
    ("first allocation", "a = cupy.zeros(1000)"),
    ("compiler library", "from cupy.cuda import nvrtc; nvrtc.getVersion()"),
    (
        "empty program",
        "from cupy.cuda import compiler; compiler._preprocess('', ('-DA=1',), compiler._get_arch(), 'nvrtc')",
    ),
    ("another empty program", "compiler._preprocess('', ('-DA=2',), compiler._get_arch(), 'nvrtc')"),
    ("CuPy's kernel of a sum", "b = a + a"),
    ("CuPy's kernel of a product", "b = a * b"),
    ("CuPy's reduction", "float(b.sum())"),
    ("cuBLAS", "c = cupy.ones((8, 8)) @ cupy.ones((8, 8)); cupy.cuda.runtime.deviceSynchronize()"),
    ("cuSOLVER", "cupy.linalg.eigh(c); cupy.cuda.runtime.deviceSynchronize()"),
)
EARLY = (
    ("numpy", "import numpy"),
    ("cuInit", "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0)"),
    ("primary context", "x = ctypes.c_void_p(); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0)"),
    ("cupy", "import cupy"),
    ("memory", "cupy.cuda.runtime.memGetInfo()"),
)

# tasks whose deck is validated, and whose results are shown and drawn: one of each method
READ = ("tridiag propagate", "trotter evolve", "sturmian scatter", "qmc dmc", "qoc system")


@dataclass(frozen=True)
class Start:
    """A command: its name, words, and whether it takes a device."""

    name: str
    words: tuple[str, ...]
    runs: bool = False

    def on(self, device: str) -> list[str]:
        """Return the words for a device."""
        return [*self.words, *(("--device", device) if self.runs else ())]


def starts(results: Path) -> list[Start]:
    """Return all commands; those that run decks write into the folder `results`, from which others read."""
    found = []
    for name, deck, changes in DECKS:
        path = ROOT / "inputs" / f"{deck}.yaml"
        file = results / f"{name.replace(' ', '_')}.h5"
        sets = [word for change in changes for word in ("--set", change)]
        words = (name.split()[0], str(path), *sets, "--no-figures", "--quiet", "--force", "-o", str(file))
        found.append(Start(name, words, runs=True))
        if name in READ:
            method = name.split()[0]
            found += [
                Start(f"validate {method}", ("validate", str(path))),
                Start(f"show {method}", ("show", str(file))),
                Start(f"plot {method}", ("plot", str(file), "--force")),
            ]
    return [Start("--help", ("--help",)), *sorted(found, key=lambda start: not start.runs)]


# ------------------------------------------------------------------------------------------- commands


def timed(words: Sequence[str], cores: Sequence[int]) -> dict[str, Any]:
    """Run a command of qsim as a process of its own on some cores.

    Returns
    -------
    dict
        ``wall`` and ``processor`` time, s: from the start of the interpreter to its end, and of all its threads; ``error`` with
        the last line that it said if it failed.
    """
    with tempfile.TemporaryFile() as told:
        begun = time.perf_counter()
        process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-m", "qsim", *words],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=told,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        lines = told.read().decode(errors="replace").strip().splitlines()
    if process.returncode:
        errors = [line for line in lines if "error" in line]
        return {"error": (errors or lines or [f"exit code {process.returncode}"])[0]}
    return {"wall": wall, "processor": used.ru_utime + used.ru_stime}


def environment() -> dict[str, str]:
    """Return the environment of a command: this checkout, and compiled sources kept as in an installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return kept


NOTE = """`wall` from the start of the interpreter to its end, `processor` of all threads, `again` the same by `qsim.run` in a
process that has run the deck before. Every task has a deck of `inputs/`, made small; `validate`, `show`, `plot` read.
Below, milliseconds: imports of libraries; steps of a start on a GPU (`CUDA`); the same with the driver first (`early`)."""
# runs the deck of a command in a process that has run it before; says what each run takes
AGAIN = """
import json, sys, time
import qsim
deck, device, folder, *overrides = sys.argv[1:]
def run():
    begun = time.perf_counter(), time.process_time()
    qsim.run(deck, device=device, overrides=overrides, output=folder, force=True).close()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]
times = [run() for _ in range(2 + int(folder.rpartition("-")[2]))]
print(json.dumps(times[2:]))
"""


def again(start: Start, device: str, cores: Sequence[int], repeats: int) -> float:
    """Return the processor time, s, of a deck by `qsim.run` in a process that has run it before; NaN if it fails."""
    deck, words = start.words[1], start.words
    overrides = [words[k + 1] for k, word in enumerate(words) if word == "--set"]
    with tempfile.TemporaryDirectory(suffix=f"-{repeats}") as folder:
        program = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-c", AGAIN]
        done = subprocess.run(
            [*program, deck, device, folder, *overrides],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return math.nan
    return float(statistics.median(processor for _, processor in json.loads(done.stdout.splitlines()[-1])))


def median(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of the repeats of a command; of a command that failed, its error."""
    failed = [each for each in found if "error" in each]
    if failed:
        return failed[0]
    return {key: round(statistics.median(each[key] for each in found), 3) for key in ("wall", "processor")}


def in_lanes(commands: Sequence[Start], lanes: int, work: Callable[[Start, Sequence[int]], None]) -> None:
    """Call a function for each command with the cores that it has for itself, as many at the same time as there are lanes."""
    cores = sorted(os.sched_getaffinity(0))
    waiting = deque(commands)

    def drive(own: Sequence[int]) -> None:
        # a deque gives each command to one thread alone
        with contextlib.suppress(IndexError):
            while True:
                work(waiting.popleft(), own)

    count = max(1, min(lanes, len(cores) // CORES))
    threads = [
        threading.Thread(target=drive, args=(cores[CORES * lane : CORES * (lane + 1)],))
        for lane in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(commands: Sequence[Start], device: str, repeats: int, lanes: int) -> dict[str, dict[str, Any]]:
    """Return by name what commands take on a device."""
    found = {}

    def work(start: Start, cores: Sequence[int]) -> None:
        # the first fills the caches
        times = [timed(start.on(device), cores) for _ in range(1 + repeats)][1:]
        found[start.name] = median(times)
        if start.runs and "error" not in found[start.name]:
            found[start.name]["again"] = round(again(start, device, cores, 2 * repeats), 3)
        print(f"{start.name:22} {device:5} {found[start.name]}", file=sys.stderr, flush=True)

    # results are there before they are read
    in_lanes([start for start in commands if start.runs], lanes, work)
    in_lanes([start for start in commands if not start.runs], lanes, work)
    return found


# --------------------------------------------------------------------------------------------- traces


def trace(start: Start, cores: Sequence[int], device: str) -> None:
    """Print where the time of a command goes: its imports, and its functions, by cumulative time."""
    timed(start.on(device), cores)
    on_cores = ["taskset", "-c", ",".join(map(str, cores)), sys.executable]
    words = ["-m", "qsim", *start.on(device)]
    with tempfile.TemporaryDirectory() as folder:
        profile, lines = Path(folder) / "profile", Path(folder) / "lines"
        program = [*on_cores, "-X", "importtime", *words]
        told = subprocess.run(program, env=environment(), capture_output=True, text=True, check=False).stderr
        program = [*on_cores, "-m", "cProfile", "-o", str(profile), *words]
        subprocess.run(program, env=environment(), capture_output=True, check=True)
        shown = []
        for order, count in (("cumulative", FUNCTIONS), ("tottime", FUNCTIONS // 2)):
            with lines.open("w", encoding="utf-8") as stream:
                pstats.Stats(str(profile), stream=stream).sort_stats(order).print_stats()
            text = lines.read_text(encoding="utf-8").split("filename:lineno(function)\n")[-1]
            # those that import and call others say nothing
            found = [line for line in text.splitlines() if not AROUND.search(line)]
            shown += [f"   by {order} time", *found[:count]]
    text = f"=== {start.name}, {device}\n{imports(told)}\n" + "\n".join(shown)
    print(text.replace(f"{ROOT}/", ""), flush=True)


def imports(told: str) -> str:
    """Return the modules that took longest to import, with what they import: ms, name."""
    rows = re.findall(r"^import time: +\d+ \| +(\d+) \| +(\S+)$", told, re.MULTILINE)
    longest = sorted(((int(time), name) for time, name in rows), reverse=True)[:MODULES]
    lines = [f"{time / 1000:9.1f} ms {name}" for time, name in longest]
    return "\n".join([f"{len(rows)} modules", *lines])


# ---------------------------------------------------------------------------------------------- steps


def steps(lines: Sequence[tuple[str, str]], repeats: int) -> list[dict[str, Any]]:
    """Return the median of the milliseconds of some lines of Python, one after the other in an interpreter of their own."""
    program = "\n".join(
        ["import json, sys, time", "ms = []", "last = time.perf_counter()"]
        + [
            f"{line}\nnow = time.perf_counter(); ms.append((now - last) * 1e3); last = now"
            for _, line in lines
        ]
        + ["print(json.dumps(ms))"]
    )
    found = []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
        )
        whole = (time.perf_counter() - begun) * 1e3
        if done.returncode:
            return [{"step": "failed", "ms": done.stderr.strip().splitlines()[-1]}]
        times = json.loads(done.stdout.splitlines()[-1])
        # what is missing to the whole is start and end of the interpreter
        found.append([*times, whole - sum(times)])
    names = [*(name for name, _ in lines), "start and end of the interpreter"]
    medians = [round(statistics.median(column), 1) for column in zip(*found[1:], strict=True)]
    return [{"step": name, "ms": ms} for name, ms in zip(names, medians, strict=True)]


# ------------------------------------------------------------------------------------------------ main


def table(commands: Sequence[Start], found: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a row for each command: its goals, and what it takes by device."""
    rows = []
    for start in commands:
        row: dict[str, Any] = {"command": start.name}
        for device, times in found.items():
            if start.name in times:
                limit = GOALS["cuda" if device == "cuda" else "cpu"] if start.runs else GOALS["read"]
                row[device] = {**times[start.name], "goal": limit}
        rows.append(row)
    return rows


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print wall and processor time by device, with a mark where the wall time is above its goal."""
    devices = list(dict.fromkeys(key for row in rows for key in row if key != "command"))
    print(" " * 22 + "".join(f"{device + ': wall, processor, again':>35}" for device in devices))
    for row in rows:
        cells = []
        for device in devices:
            times = row.get(device, {})
            mark = "*" if times.get("wall", 0.0) > times.get("goal", 0.0) else " "
            text = f"{times['wall']:.2f}{mark} {times['processor']:.2f}" if "wall" in times else ""
            text += f" {times['again']:.3f}" if "again" in times else ""
            cells.append(f"{times.get('error', text)[:60]:>35}")
        print(f"{row['command']:22}" + "".join(cells))
    print(
        f"* above the goal: {GOALS['cpu']} s on a CPU, {GOALS['cuda']} s on a GPU, {GOALS['read']} s to read"
    )


def record(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return the record of `bench/results`."""
    gpus = cuda_status().names
    return {
        "device": "; ".join(dict.fromkeys([f"{cpu_name()}, {available_threads()} cores", *gpus])),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_state(),
        "command": "python bench/starts.py",
        "unit": "s",
        "note": f"Commands with nothing to do, warm; median of {options.repeats}. {NOTE}",
        "rows": list(rows),
    }


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument(
        "--device", help="cpu, cuda, auto, with commas; by default cpu, and cuda where there is one"
    )
    parser.add_argument("--only", default="", help="commands whose names begin so, such as trotter,qoc")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    devices = options.device or ("cpu,cuda" if cuda_status().count else "cpu")
    compileall.compile_dir(ROOT / "qsim", quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        wanted = tuple(options.only.split(","))
        commands = [start for start in starts(Path(folder)) if start.name.startswith(wanted)]
        if options.trace:
            for device in devices.split(","):
                chosen = [start for start in commands if start.runs or device == "cpu"]
                in_lanes(chosen, options.lanes, partial(trace, device=device))
            return
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for device in devices.split(","):
            chosen = [start for start in commands if start.runs or not found]
            found[device] = measure(chosen, device, options.repeats, options.lanes)
        rows = table(commands, found)
    print_table(rows)
    parts = steps(LIBRARIES, options.repeats)
    if "cuda" in devices:
        parts += [
            {"step": f"CUDA: {each['step']}", "ms": each["ms"]} for each in steps(CUDA, options.repeats)
        ]
        parts += [
            {"step": f"early: {each['step']}", "ms": each["ms"]} for each in steps(EARLY, options.repeats)
        ]
    print("\n".join(f"{each['step']:45} {each['ms']:>10}" for each in parts))
    if options.out:
        options.out.write_text(
            json.dumps(record(rows, options) | {"works": parts}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
