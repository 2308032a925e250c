"""The table of all decks, on one core, on sixteen, and on a GPU if there is one: ``python bench/decks.py OUT.json``.

Every deck of inputs/ is run as a user runs it, from the start of the interpreter to its end, without figures:

1. *Cold*, on two cores, with caches of compiled kernels of its own that are empty: on the CPU and on the GPU.
2. *Warm*, with what the cold run has compiled: on one core, on sixteen (``WIDE``), and on the GPU with two cores.

Commands run beside each other on cores of their own, their *lanes*: on 32 cores and two GPUs the whole takes less than ten
minutes.  A command that takes longer than ``--limit`` is ended and counts as that long.  What time is left goes into repeats of
decks whose times contradict a goal (`verdicts`); the shortest counts.  What ``auto`` takes is asked of the program, not run.
Decks of ``LARGER`` probe the sizes by which it chooses; they are run warm on sixteen cores and on the GPU.

``--cold`` measures cold commands alone, at most ``QUIET`` at a time: compilation then has its two cores to itself.

``--scaling`` measures decks that should gain from many cores on 1, 8 and 16 of them instead, on the CPU alone (``SCALING``).

The record is written after each command; ``python bench/report.py`` makes the page of all records.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import importlib.util
import json
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/

from qsim.core.device.device import cuda_status  # noqa: E402
from qsim.core.device.hardware import available_threads, cpu_name  # noqa: E402
from qsim.core.run.provenance import git_state  # noqa: E402

# cores of the column for many, of a cold command, and beside a GPU
WIDE, COLD, BESIDE = 16, 2, 2
# cold commands at the same time on one GPU: most of their time is compilation on the host
SHARING = 4
# cold commands at the same time where nothing else is measured: cores share caches and clocks
QUIET = 4
# share of the time after which no cold command begins
COLD_SHARE = 0.42
# seconds of `compile` from which a warm command is repeated: other threads may need other kernels
COMPILED = 1.0

SERIES = (
    "series=[{{vmc: {{walkers: {0}, blocks: 2, steps: 10, sweeps: 3, timestep: 0.3}}}}, "
    "{{dmc: {{walkers: {0}, timesteps: [0.02], blocks: 2, steps: 20, warmup: 4}}}}]"
)
#: Decks whose sizes lie about those from which a GPU is faster, where those of inputs/ do not.
LARGER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("qmc/h2o_ccecp", (SERIES.format(8192),)),
    ("qmc/h2o_ccecp", (SERIES.format(65536),)),
    ("qmc/h2o_ccecp", ("series=[{vmc: {walkers: 512, blocks: 20, steps: 10, timestep: 0.3}}]",)),
    ("qoc/robust", ("ensemble.field_scale={start: 0.9, stop: 1.1, count: 100}",)),
    ("sturmian/he_dpi", ("grid.R=100",)),
    ("sturmian/he_ground", ("basis.N=60",)),
    ("sturmian/repulsion_tables", ("task.N=[96]",)),
    ("tridiag/packet", ("grid.points=1000001", "grid.xmin=-5e4", "grid.xmax=5e4", "time.outputs=4")),
    ("tridiag/solve_random", ("system.n=3000000",)),
    ("tridiag/hhg_800nm", ("grid.points=20001",)),
    ("trotter/autocorrelation_a1", ("system.spins=18",)),
    ("trotter/autocorrelation_a1", ("system.spins=20",)),
    ("trotter/mbl_ensemble", ("system.spins=14",)),
)


# an atom of 4000 points and 60 l
ATOM = ("grid.rmax=800", "grid.l_max=59", "grid.map=none", "laser.pulses.0.cycles=1", "time.dt=0.1")
#: Decks with work for many cores, by the goals for 8 of them: atoms, collisions and spectra 4 times, crystals 6 times.
SCALING: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tridiag/h_hhg_800nm", (*ATOM, "time.outputs=20")),
    ("tridiag/attoclock", ()),
    ("qmc/diamond_primitive", ()),
    ("qmc/hydrogen_bcc", ()),
    ("qmc/electron_gas", ()),
    ("sturmian/he_limit", ()),
    ("sturmian/he_dpi", ()),
    ("sturmian/e_h_full", ()),
    ("sturmian/resonances", ()),
    ("trotter/heisenberg_ground", ()),
    ("trotter/xxz_sector_quench", ()),
)
MIDDLE = 8


@dataclass(frozen=True)
class Deck:
    """A deck of inputs/ and what is changed in it."""

    name: str
    changes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name with the changes."""
        return " ".join((self.name, *self.changes))

    @property
    def path(self) -> Path:
        """File of the deck."""
        return ROOT / "inputs" / f"{self.name}.yaml"

    @property
    def method(self) -> str:
        """Method that runs it."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Column:
    """A column of the table: device, threads, and whether the caches are empty."""

    name: str
    device: str
    threads: int
    cold: bool = False


@dataclass(frozen=True)
class Lane:
    """Cores, and a GPU perhaps, that no other command has."""

    cores: tuple[int, ...]
    gpu: int | None = None


@dataclass
class Table:
    """Rows of decks, which lanes fill at the same time.

    Attributes
    ----------
    rows
        By label: size, choice, and seconds by column.
    keep
        Called with all rows after each command.
    """

    keep: Callable[[list[dict[str, Any]]], None]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, deck: Deck, column: Column, found: dict[str, Any]) -> None:
        """Note what a command took; of several the shortest counts."""
        with self.lock:
            row = self.rows.setdefault(deck.label, {"deck": deck.label})
            seconds = row.setdefault("seconds", {})
            shorter = found["seconds"] < seconds.get(column.name, float("inf"))
            for key, value in found.items() if shorter else []:
                row.setdefault(key, {})[column.name] = value
            if shorter and "cut" not in found:
                row.get("cut", {}).pop(column.name, None)
            self.keep(list(self.rows.values()))

    def describe(self, deck: Deck, chosen: dict[str, Any]) -> None:
        """Note what ``auto`` takes, and forget what was asked of a GPU in vain."""
        with self.lock:
            row = self.rows.get(deck.label, {})
            if "no kernels" in chosen:
                for found in row.values():
                    if isinstance(found, dict):
                        found.pop("GPU, cold", None)
            self.rows[deck.label] = {"deck": deck.label} | chosen | row


# ------------------------------------------------------------------------------------------- commands


def command(deck: Deck, column: Column, lane: Lane, caches: Path, limit: float) -> dict[str, Any]:
    """Run a deck as a process of its own on the cores of this thread.

    Returns
    -------
    dict
        ``seconds`` of the whole command, ``processor`` of all its threads, ``compile``, and ``run`` of its stage; ``cut`` if it
        was ended at the limit, ``error`` with its last line if it failed.
    """
    words = [deck.method, str(deck.path), "--no-figures", "--quiet", "--device", column.device]
    words += ["--threads", str(column.threads)]
    words += [word for change in deck.changes for word in ("--set", change)]
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "errors"
        with errors.open("wb") as told:
            begun = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "qsim", *words, "-o", folder],
                cwd=folder,
                env=environment(caches, lane),
                stdout=subprocess.DEVNULL,
                stderr=told,
                start_new_session=True,
            )
            end = threading.Timer(limit, kill, (process.pid,))
            end.start()
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begun
            end.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
        found: dict[str, Any] = {"seconds": round(seconds, 3)}
        if process.returncode == -signal.SIGKILL:
            return {"seconds": limit, "cut": True}
        found["processor"] = round(used.ru_utime + used.ru_stime, 3)
        if process.returncode:
            last = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return found | {"error": next((line for line in last if "error" in line), "")[:200]}
        for summary in Path(folder).glob("*.summary.json"):
            timing = json.loads(summary.read_text(encoding="utf-8"))["timing"]
            found |= {key: round(timing[key], 3) for key in ("compile", "run") if key in timing}
            found["stages"] = {key: round(value, 3) for key, value in timing.items()}
    return found


def kill(group: int) -> None:
    """End a command with the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def environment(caches: Path, lane: Lane) -> dict[str, str]:
    """Return the environment of a command: caches of its own, and the GPU of its lane."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    for name in ("NUMBA_CACHE_DIR", "CUPY_CACHE_DIR", "QSIM_CACHE_DIR"):
        kept[name] = str(caches / name)
    if lane.gpu is not None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        kept["CUDA_VISIBLE_DEVICES"] = visible.split(",")[lane.gpu] if visible else str(lane.gpu)
    return kept


def choice(deck: Deck, wide: str) -> dict[str, Any]:
    """Return the size of a deck, the one from which ``auto`` takes a GPU, and the column that it takes where there is one."""
    from qsim.core.deck.load import load_deck
    from qsim.core.run.stages import stage

    try:
        loaded = load_deck(deck.path, stage(deck.method, "deck").DECK, list(deck.changes))
        plan = stage(deck.method, "build").plan(loaded)
    except Exception as error:  # the others are measured all the same
        return {"not read": f"{type(error).__name__}: {error}"[:200]}
    found: dict[str, Any] = {"auto": "GPU"}
    if plan.size is not None:
        found |= {"size": plan.size.value, "of": plan.size.name}
        found |= {"GPU from": plan.size.gpu} if math.isfinite(plan.size.gpu) else {}
        found["auto"] = "GPU" if plan.size.is_for_gpu else wide
    if plan.cpu_only:
        found |= {"auto": wide, "no kernels": plan.cpu_only}
    return found


# ---------------------------------------------------------------------------------------------- lanes


Work = tuple[Deck, Column]


class Queue:
    """Commands that wait, by what a lane must have for them."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = deque(works)
        self._lock = threading.Lock()

    def take(self, lane: Lane) -> Work | None:
        """Return the first command that a lane can run: for its GPU, else with the most threads; None if there is none."""
        with self._lock:
            able = [work for work in self._works if fits(work[1], lane)]
            if not able:
                return None
            first = max(able, key=lambda work: (work[1].device == "cuda", work[1].threads))
            self._works.remove(first)
            return first


def fits(column: Column, lane: Lane) -> bool:
    """Return whether a lane has what a column needs."""
    return column.threads <= len(lane.cores) and (column.device != "cuda" or lane.gpu is not None)


def run_all(
    lanes: Sequence[Lane], queue: Queue, run: Callable[[Deck, Column, Lane], None], until: float
) -> None:
    """Run the commands of a queue on lanes, none of which begins after `until`."""

    def drive(lane: Lane) -> None:
        while time.monotonic() < until and (work := queue.take(lane)) is not None:
            # of this thread, which its processes inherit: as many as they have threads
            os.sched_setaffinity(0, lane.cores[: work[1].threads])
            run(*work, lane)

    threads = [threading.Thread(target=drive, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cold_lanes(cores: Sequence[int], gpus: int, most: int | None = None) -> list[Lane]:
    """Return lanes of two cores, some of which share a GPU; not more than `most`, spread over all cores."""
    pairs = [tuple(cores[k : k + COLD]) for k in range(0, len(cores), COLD)]
    if most is not None:
        pairs = pairs[:: max(1, -(-len(pairs) // most))]
    return [Lane(pair, k % gpus if gpus and k < SHARING * gpus else None) for k, pair in enumerate(pairs)]


def warm_lanes(cores: Sequence[int], gpus: int, wide: int) -> list[list[Lane]]:
    """Return lanes of warm commands, in stages that come one after the other.

    A wide lane runs beside lanes with a GPU and lanes of one core if there are cores enough for them; every other core is left
    free there, so that each has half of the memory's rate and of a core that two threads share.
    """
    beside = len(cores) >= wide + BESIDE * gpus + 2
    rest = list(cores[wide:] if beside else cores)
    narrow = [Lane(tuple(rest[BESIDE * k : BESIDE * (k + 1)]), k) for k in range(gpus)]
    narrow += [Lane((core,)) for core in rest[BESIDE * gpus :: 2]]
    narrow = [lane for lane in narrow if lane.cores]
    starts = range(0, len(cores) - wide + 1, wide)
    widest = [
        Lane(tuple(cores[first : first + wide]), k if k < gpus else None) for k, first in enumerate(starts)
    ]
    return [[*narrow, Lane(widest[0].cores)], widest] if beside else [narrow, widest]


# --------------------------------------------------------------------------------------------- verdicts


def verdicts(rows: Sequence[dict[str, Any]], wide: str, slack: float = 0.3) -> dict[str, list[str]]:
    """Return the decks that contradict a goal, by goal.

    Parameters
    ----------
    rows
        Of the table.
    wide
        Name of the column of many cores.
    slack
        Seconds by which start and imports of one command vary.
    """
    goals = (
        "auto within 20 % of the better device",
        f"{wide} no slower than 1 core",
        "cold: 8 s of compilation",
    )
    found: dict[str, list[str]] = {goal: [] for goal in goals}
    for row in rows:
        seconds = row.get("seconds", {})
        taken, better = seconds.get(row.get("auto")), min(seconds.get(wide, 1e9), seconds.get("GPU", 1e9))
        if taken is not None and "GPU" in seconds and taken > 1.2 * better + 0.1 * slack:
            found[goals[0]].append(row["deck"])
        one, many = seconds.get("1 core"), seconds.get(wide)
        if one is not None and many is not None and many > one + slack:
            found[goals[1]].append(row["deck"])
        if any(row.get("compile", {}).get(name, 0.0) > 8.0 for name in ("CPU, cold", "GPU, cold")):
            found[goals[2]].append(row["deck"])
    return found


# ------------------------------------------------------------------------------------------------ main


def all_decks(chosen: Sequence[str] = ()) -> list[Deck]:
    """Return the decks of inputs/, or those chosen by name with or without method, those of the methods in turn."""
    methods: dict[str, list[Deck]] = {}
    for path in sorted(ROOT.glob("inputs/*/*.yaml")):
        name = f"{path.parent.name}/{path.stem}"
        if not chosen or name in chosen or path.stem in chosen:
            methods.setdefault(path.parent.name, []).append(Deck(name))
    return [deck for some in zip_longest(*methods.values()) for deck in some if deck]


def columns(cores: int, gpus: int) -> dict[str, Column]:
    """Return the columns that this machine can fill, by name; that of many cores is the last of the CPU."""
    found = [Column("CPU, cold", "cpu", min(COLD, cores), cold=True), Column("1 core", "cpu", 1)]
    if cores > 1:
        found.append(Column(f"{min(WIDE, cores)} cores", "cpu", min(WIDE, cores)))
    if gpus:
        found += [
            Column("GPU, cold", "cuda", min(COLD, cores), cold=True),
            Column("GPU", "cuda", min(BESIDE, cores)),
        ]
    return {column.name: column for column in found}


class Measurement:
    """The commands of a table, their caches and their time.

    Parameters
    ----------
    options
        Of the command line.
    table
        Where times go.
    folder
        For caches.
    """

    def __init__(self, options: argparse.Namespace, table: Table, folder: Path) -> None:
        self.cores = sorted(os.sched_getaffinity(0))[: available_threads()]
        self.gpus = 0 if options.no_gpu or options.scaling else cuda_status().count
        self.columns = columns(len(self.cores), self.gpus)
        warm = [column for column in self.columns.values() if column.device == "cpu" and not column.cold]
        self.wide, self.name = warm[-1].threads, warm[-1].name
        self.limit, self.table, self.folder = options.limit, table, folder
        self.begun = time.monotonic()
        self.until = self.begun + options.seconds - options.limit
        self.decks = all_decks(options.decks.split(",") if options.decks else [])
        self.larger = (
            [] if options.decks or options.cold else [Deck(name, changes) for name, changes in LARGER]
        )
        self.warm_names = ("GPU", "1 core", self.name)
        self.only_cold = options.cold
        if options.scaling:
            middle = Column(f"{MIDDLE} cores", "cpu", min(MIDDLE, len(self.cores)))
            self.columns[middle.name] = middle
            self.decks, self.larger = [Deck(name, changes) for name, changes in SCALING], []
            self.warm_names = ("1 core", middle.name, self.name)

    def caches(self, deck: Deck, column: Column) -> Path:
        """Return the folder of what a deck compiles on a device."""
        return self.folder / deck.name.replace("/", "_") / column.device

    def run(self, deck: Deck, column: Column, lane: Lane) -> None:
        """Run a command, and again if it is warm and has compiled something."""
        caches = self.caches(deck, column)
        if column.cold:
            shutil.rmtree(caches, ignore_errors=True)
        caches.mkdir(parents=True, exist_ok=True)
        found = command(deck, column, lane, caches, self.limit)
        compiled = not column.cold and found.get("compile", 0.0) > COMPILED
        if compiled and time.monotonic() < self.until:
            found = command(deck, column, lane, caches, self.limit)
        self.table.put(deck, column, found)
        print(
            f"{time.monotonic() - self.begun:6.1f} {deck.label[:60]}: {column.name} {found}",
            file=sys.stderr,
            flush=True,
        )

    def works(self, decks: Sequence[Deck], names: Sequence[str]) -> list[Work]:
        """Return the commands of some columns, those without CUDA kernels on the CPU alone."""
        chosen = [self.columns[name] for name in names if name in self.columns]
        return [
            (deck, column)
            for deck in decks
            for column in chosen
            if column.device == "cpu" or "no kernels" not in self.table.rows.get(deck.label, {})
        ]

    def cold(self) -> None:
        """Run all decks with empty caches, and ask meanwhile what ``auto`` takes."""
        asking = threading.Thread(target=self.choices)
        asking.start()
        share = 1.0 if self.only_cold else COLD_SHARE
        until = self.begun + share * (self.until - self.begun)
        queue = Queue(self.works(self.decks, ("GPU, cold", "CPU, cold")))
        most = QUIET if self.only_cold else None
        run_all(cold_lanes(self.cores, self.gpus, most), queue, self.run, until)
        asking.join()

    def warm(self) -> None:
        """Run all decks with full caches, then the larger ones."""
        works = self.works(self.larger, ("GPU", self.name)) + self.works(self.decks, self.warm_names)
        # the longest first, which fills lanes evenly; what took the limit when it was cold comes last
        queue = Queue(sorted(works, key=self.expected, reverse=True))
        for lanes in warm_lanes(self.cores, self.gpus, self.wide):
            run_all(lanes, queue, self.run, self.until)

    def expected(self, work: Work) -> float:
        """Return what a warm command may take: less than the cold one; nothing where that was ended."""
        deck, column = work
        cold = f"{'GPU' if column.device == 'cuda' else 'CPU'}, cold"
        row = self.table.rows.get(deck.label, {})
        if cold in row.get("cut", {}):
            return 0.0
        return float(row.get("seconds", {}).get(cold, self.limit) - row.get("compile", {}).get(cold, 0.0))

    def again(self) -> None:
        """Repeat the decks that contradict a goal of warm commands."""
        found = verdicts(list(self.table.rows.values()), self.name)
        auto, slower = list(found.values())[:2]
        by_label = {deck.label: deck for deck in (*self.decks, *self.larger)}
        works = self.works([by_label[label] for label in slower], ("1 core", self.name))
        works += [
            work
            for work in self.works([by_label[label] for label in auto], (self.name, "GPU"))
            if work not in works
        ]
        works = [work for work in works if "cut" not in self.table.rows[work[0].label]]
        # one at a time: nothing else disturbs
        lane = Lane(tuple(self.cores[: self.wide]), 0 if self.gpus else None)
        run_all([lane], Queue(works), self.run, self.until)

    def choices(self) -> None:
        """Ask what ``auto`` takes of each deck."""
        decks = [*self.decks, *self.larger]
        with multiprocessing.get_context("spawn").Pool(min(4, len(self.cores))) as pool:
            found = pool.starmap(choice, [(deck, self.name) for deck in decks], chunksize=1)
        for deck, chosen in zip(decks, found, strict=True):
            self.table.describe(deck, chosen)


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=570.0, help="of the whole measurement, at most")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds of one command, at most")
    parser.add_argument("--decks", default="", help="some of them, with or without method: morse,qmc/hooke")
    parser.add_argument("--no-gpu", action="store_true", help="leave GPUs alone")
    parser.add_argument("--cold", action="store_true", help="cold commands alone")
    parser.add_argument("--scaling", action="store_true", help="decks for many cores, on 1, 8 and 16 of them")
    options = parser.parse_args()
    # bytecode is there in an installation: it is no part of a cold start
    compileall.compile_dir(ROOT / "qsim", quiet=2)
    pydantic = importlib.util.find_spec("pydantic")
    for place in pydantic.submodule_search_locations or [] if pydantic else []:
        with contextlib.suppress(OSError):
            compileall.compile_dir(place, quiet=2)
    record: dict[str, Any] = {
        "command": " ".join(["python", "bench/decks.py", *sys.argv[1:]]),
        "unit": "s",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_state(),
    }

    def keep(rows: list[dict[str, Any]]) -> None:
        record["decks"] = rows
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    table = Table(keep)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Measurement(options, table, Path(folder))
        names = [name for name in cuda_status().names[:1] if work.gpus]
        record["device"] = f"{cpu_name()}, {len(work.cores)} cores" + "".join(
            f", {work.gpus} {name}" for name in names
        )
        record["wide"] = work.name
        record["limit"] = work.limit
        record["columns"] = list(work.columns)
        record["scaling"] = options.scaling
        for stage in (work.cold,) if options.cold else (work.cold, work.warm, work.again):
            stage()
            print(
                f"{stage.__name__} ended after {time.monotonic() - work.begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        record["took"] = round(time.monotonic() - work.begun, 1)
        record["verdicts"] = verdicts(list(table.rows.values()), record["wide"])
        keep(list(table.rows.values()))
    print(json.dumps(record["verdicts"], indent=1))


if __name__ == "__main__":
    main()
