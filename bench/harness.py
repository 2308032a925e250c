"""Parts of a case: timers, floors, rows, goals."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bench.ceilings import Ceilings, measure
from qsim.core.device.device import Device
from qsim.core.device.kernels import Graph

CASES: dict[str, Case] = {}


class Skip(Exception):
    """A case cannot run here; the text says why."""


@dataclass(frozen=True)
class Case:
    """One entry of ``bench/run.py``."""

    name: str
    summary: str
    devices: tuple[str, ...]
    run: Callable[[Bench], None]

    @property
    def method(self) -> str:
        """Method of qsim that the case measures: what its name begins with."""
        return self.name.partition("-")[0]


def case(name: str, summary: str, devices: tuple[str, ...] = ("cpu", "cuda")) -> Callable[..., Any]:
    """Register a function ``run(bench)`` as a case."""

    def register(run: Callable[[Bench], None]) -> Callable[[Bench], None]:
        CASES[name] = Case(name, summary, devices, run)
        return run

    return register


# ------------------------------------------------------------------------------------------- timers


@dataclass(frozen=True)
class Timing:
    """Seconds of one piece of work.

    Attributes
    ----------
    seconds : float
        Median of the repeats.
    best : float
        Shortest repeat: on a shared machine the one that was disturbed least.
    repeats : int
    clock : str
        ``events`` (CUDA events: what the device was busy with) or ``wall`` (synchronised before and after).
    cpu_seconds : float or None
        Median processor time of this process; much less than ``seconds`` means that others had the core.
    """

    seconds: float
    best: float
    repeats: int
    clock: str
    cpu_seconds: float | None = None


def wall(
    device: Device,
    work: Callable[[], object],
    budget: float = 1.0,
    least: int = 3,
    most: int = 25,
    prepare: Callable[[], object] | None = None,
) -> Timing:
    """Wall time of ``work`` after one warm-up, repeated for about ``budget`` seconds; ``prepare`` comes first, untimed."""
    before = prepare or (lambda: None)
    before()
    work()
    device.synchronize()
    times, busy = [], []
    while len(times) < least or (sum(times) < budget and len(times) < most):
        before()
        device.synchronize()
        cpu, start = time.process_time(), time.perf_counter()
        work()
        device.synchronize()
        times.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
    return Timing(statistics.median(times), min(times), len(times), "wall", statistics.median(busy))


def kernel(
    device: Device, work: Callable[[], object], budget: float = 1.0, least: int = 3, most: int = 25
) -> Timing:
    """Time that the device spends on launches made by ``work``: CUDA events; wall time on a CPU.

    Devices are steadier than shared cores: a third of the budget is enough there.
    """
    if not device.is_cuda:
        return wall(device, work, budget, least, most)
    budget /= 3.0
    event = device.xp.cuda.Event
    work()
    device.synchronize()
    times: list[float] = []
    while len(times) < least or (sum(times) < budget and len(times) < most):
        start, stop = event(), event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(1e-3 * device.xp.cuda.get_elapsed_time(start, stop))
    return Timing(statistics.median(times), min(times), len(times), "events")


def replayed(device: Device, launch: Callable[[], object], launches: int = 10) -> Timing:
    """Time a launch among others that are replayed as one: of short kernels, what the host needs would be seen otherwise."""
    launch()
    with Graph.capture(device) as graph:
        for _ in range(launches):
            launch()
    found = kernel(device, graph.launch)
    return replace(found, seconds=found.seconds / launches, best=found.best / launches)


# ------------------------------------------------------------------------------------------- floors


@dataclass(frozen=True)
class Cost:
    """Least work of a task.

    Attributes
    ----------
    flops : float
        Floating-point operations of the algorithm (a fused multiply-add is two).
    bytes : float
        Bytes that must cross device memory, each read and each write once.
    share : float
        Part of the device's units that the work can occupy at all: one trajectory is one block, hence one multiprocessor.
    """

    flops: float
    bytes: float = 0.0
    share: float = 1.0

    def floor(self, ceilings: Ceilings) -> tuple[float, str]:
        """Return the shortest possible time under the measured ceilings, and which of them sets it."""
        arithmetic, memory = self.flops / (ceilings.fma * self.share), self.bytes / ceilings.copy
        return (arithmetic, "flops") if arithmetic >= memory else (memory, "bytes")


# ------------------------------------------------------------------------------------------- a case


@dataclass
class Bench:
    """Input and outcome of a case.

    Attributes
    ----------
    device : Device
        Where to measure.
    core : Device
        One core of the CPU, for comparisons.
    quick : bool
        Smaller sizes and fewer repeats, to see that everything works.
    rows, goals, notes : list
        Numbers, goals and remarks of the case, in the order of the record.
    """

    device: Device
    core: Device
    quick: bool
    say: Callable[[str], None] = print
    rows: list[dict[str, Any]] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def ceilings(self, device: Device | None = None) -> Ceilings:
        """Return the ceilings of a device, measured once per run."""
        return measure(device or self.device, self.quick)

    def row(
        self,
        label: str,
        timing: Timing | None = None,
        cost: Cost | None = None,
        device: Device | None = None,
        steps: int = 0,
        **numbers: Any,
    ) -> None:
        """Record one measurement; ``steps`` adds microseconds a step, ``cost`` the floor and the fraction of it reached."""
        where = device or self.device
        entry: dict[str, Any] = {"label": label, "device": where.label}
        text = f"  {label:<58} "
        if timing is not None:
            entry |= asdict(timing)
            text += f"{_seconds(timing.seconds):>10} (best {_seconds(timing.best)}, {timing.clock})"
            if steps:
                entry["us_per_step"] = 1e6 * timing.seconds / steps
                text += f"  {entry['us_per_step']:.3g} us/step"
        if cost is not None and timing is not None:
            floor, bound = cost.floor(self.ceilings(where))
            entry |= {"flops": cost.flops, "bytes": cost.bytes, "share": cost.share}
            entry |= {"floor_s": floor, "bound": bound, "fraction": floor / timing.seconds}
            text += f"  floor {_seconds(floor)} ({bound}), {100 * entry['fraction']:.3g} %"
        for name, value in numbers.items():
            entry[name] = value
            text += f"  {name} {value:.4g}" if isinstance(value, float) else f"  {name} {value}"
        self.rows.append(entry)
        self.say(text)

    def goal(self, text: str, value: float, limit: float, unit: str = "", at_least: bool = False) -> None:
        """Record a goal: ``value`` at most (or at least) ``limit``; small sizes prove nothing and are not judged."""
        if self.quick:
            return
        met = value >= limit if at_least else value <= limit
        sign = ">=" if at_least else "<="
        self.goals.append(
            {"goal": text, "value": value, "relation": sign, "limit": limit, "unit": unit, "met": met}
        )
        self.say(
            f"  goal: {text}: {value:.4g} {unit} ({sign} {limit:g} {unit}): {'met' if met else 'NOT met'}"
        )

    def note(self, text: str) -> None:
        """Record a remark."""
        self.notes.append(text)
        self.say(f"  note: {text}")


def _seconds(value: float) -> str:
    """Return a time with three figures and a fitting unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 0.9995:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
