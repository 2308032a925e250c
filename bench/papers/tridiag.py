"""Lutsyshyn, Navarrete and Bauer (2023), tridiagonal systems: Fig. 2 and the scaling of Eqs. (7) to (9)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.papers.drawing import device_of, panels
from bench.papers.item import Data, Line, item, number, scheme
from bench.papers.work import NOT_RUN
from bench.tridiag import problem
from bench.tridiag.literal import _lowest
from qsim.core.device.device import cpu
from qsim.tridiag.kernels.partition import stages
from qsim.tridiag.solver import partition
from qsim.tridiag.solver.systems import CrankNicolsonSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bench.papers.work import Row, Work

ROWS = 300_000
SIZES = (30_000, 100_000, 300_000, 1_000_000)
PARTITIONS = (1, 2, 3)
CACHED = 4096  # rows of the small systems that are timed together
REPEATS = 15
COLORS = ("C0", "C1", "C2")

scheme(
    "tridiag/fig1",
    "the stages of the partition in colours",
    "a scheme; the theory page has the stages as a table",
)


def _said(key: str) -> str:
    found = number("tridiag", key)
    return f"{found} ({found.source})"


# ---------------------------------------------------------------------- a machine of as many processors


def _shortest(work: Callable[[], object], prepare: Callable[[], object]) -> float:
    """Return the shortest of some repeats in seconds; ``prepare`` is not timed."""
    times = []
    for _ in range(REPEATS):
        prepare()
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


@cache
def block_seconds(rows: int) -> float:
    """Return the time of one block with its two joint lines in RD, JD, RU, JU and SS, on one core.

    Short blocks are timed several at once, so that the call of a function does not count.
    """
    device, count = cpu(1), max(1, CACHED // rows)
    given = [np.tile(part, (count, 1)) for part in _system(rows)]
    used, x = [np.empty_like(part) for part in given], np.empty_like(given[0])
    level = stages.Level.empty(device, np.array([0, rows - 1]), rows, count, given[0].dtype)
    level.x[...] = 1.0

    def restore() -> None:
        for to, source in zip(used, given, strict=True):
            np.copyto(to, source)

    def work() -> None:
        stages.rd_jd_ru_ju(device, level, None, *used)
        stages.ss(device, level, *used, x)

    return _shortest(work, restore) / count


@cache
def serial_seconds(rows: int) -> float:
    """Return the time of the serial stage RS of so many joint lines."""
    device, count = cpu(1), max(1, CACHED // rows)
    given = [np.tile(part, (count, 1)) for part in _system(rows)]
    used, x = [np.empty_like(part) for part in given], np.empty_like(given[0])
    scale, pivots = np.ones(given[0].shape), np.empty(count)

    def restore() -> None:
        for to, source in zip(used, given, strict=True):
            np.copyto(to, source)

    return _shortest(lambda: stages.rs(device, *used, scale, x, pivots), restore) / count


def _system(rows: int) -> list[Any]:
    return list(CrankNicolsonSource(max(rows, 3), problem.DX, problem.DT).read(0, rows))


def ideal_seconds(n: int, blocks: int, partitions: int) -> float:
    """Return the time of a solution if every block had a processor: the longest block of each level, and the serial stage."""
    levels = partition.levels(n, blocks, partitions)
    longest = [int(np.diff(joints).max()) + 1 for joints in levels]
    return sum(block_seconds(max(rows, 3)) for rows in longest) + serial_seconds(max(len(levels[-1]), 3))


def sweep(n: int, partitions: int, per_octave: int = 1) -> tuple[list[int], list[float]]:
    """Return numbers of blocks and ideal times."""
    top = int(per_octave * np.log2(n / 8))
    blocks = sorted({round(2.0 ** (k / per_octave)) for k in range(4 * per_octave, top)})
    return blocks, [ideal_seconds(n, count, partitions) for count in blocks]


# ---------------------------------------------------------------------------------------------- Fig. 2


def _gpu_curves(rows: list[Row]) -> Data:
    """Return the curves of a GPU: blocks, seconds and model by number of partitions, and the optima."""
    found: Data = {"curves": {}, "optima": {}, "root": {}}
    for row in rows:
        if match := re.fullmatch(r"n=300000 iterations=(\d) blocks=(\d+)", row["label"]):
            curve = found["curves"].setdefault(match[1], {"blocks": [], "seconds": [], "model": []})
            for name, value in (
                ("blocks", int(match[2])),
                ("seconds", row["seconds"]),
                ("model", row["model"]),
            ):
                curve[name].append(value)
        elif match := re.fullmatch(r"n=300000 iterations=(\d) optimum", row["label"]):
            found["optima"][match[1]] = {"blocks": row["blocks_interpolated"], "model": row["blocks_model"]}
        elif match := re.fullmatch(r"n=(\d+) one partition, optimum", row["label"]):
            found["root"][match[1]] = row["blocks_interpolated"]
        elif "p" in row:
            found["power"] = row["p"]
    return found


def _draw_blocks(data: Data) -> Figure:
    fig, axes = panels(1, 2, 3.2)
    a, b = axes[0]
    for count, color in zip(map(str, PARTITIONS), COLORS, strict=True):
        here = data["ideal"].get(count)
        if here:
            a.loglog(
                here["blocks"],
                np.array(here["seconds"]) * 1e3,
                "o-",
                color=color,
                markersize=3,
                label=_words(count),
            )
            _arrow(a, here["blocks"], here["seconds"], here["model_optimum"], color)
        there = data["cuda"]["curves"].get(count)
        if there:
            b.loglog(
                there["blocks"],
                np.array(there["seconds"]) * 1e3,
                "o-",
                color=color,
                markersize=3,
                label=_words(count),
            )
            b.loglog(there["blocks"], np.array(there["model"]) * 1e3, ":", color=color)
            _arrow(b, there["blocks"], there["seconds"], data["cuda"]["optima"][count]["model"], color)
    a.set(
        xlabel="blocks $n_{bl}$",
        ylabel="time (ms)",
        title="one block of each level alone, then the serial rest",
    )
    b.set(xlabel="blocks $n_{bl}$", ylabel="time (ms)", title=device_of(data["cuda_from"]))
    a.legend(fontsize="x-small")
    if data["cuda"]["curves"]:
        b.legend(fontsize="x-small")
    fig.suptitle(
        f"$n={data['rows']}$; arrows: optimum of Eq. (8), dotted: the fitted model", fontsize="small"
    )
    return fig


def _words(count: str) -> str:
    return f"{count} partition" + "s" * (count != "1")


def _arrow(axes: Any, blocks: list[int], seconds: list[float], optimum: float, color: str) -> None:
    at = float(np.exp(np.interp(np.log(optimum), np.log(blocks), np.log(seconds)))) * 1e3
    axes.annotate(
        "", (optimum, at * 0.97), (optimum, at * 0.55), arrowprops={"arrowstyle": "->", "color": color}
    )


def _compare_blocks(data: Data) -> list[Line]:
    lines = []
    for count in map(str, PARTITIONS):
        here, there = data["ideal"][count], data["cuda"]["optima"].get(count)
        least = here["blocks"][int(np.argmin(here["seconds"]))]
        lines.append(
            Line(
                f"fastest number of blocks, {_words(count)}",
                "arrows of Fig. 2, Eq. (8) up to a constant",
                f"{least} in {1e3 * min(here['seconds']):.3g} ms; Eq. (8) says {here['model_optimum']:.0f}",
                f"{there['blocks']:.0f}; Eq. (8) says {there['model']:.0f}" if there else NOT_RUN,
                "here as if every block had a processor: one block is timed alone. "
                "On a GPU the third partition costs more launches than it saves",
            )
        )
    a, b = data["alpha"], data["beta"]
    lines.append(
        Line(
            "α/β",
            _said("ratio_alpha_beta"),
            f"{a / b:.2f} (α = {1e9 * a:.1f} ns, β = {1e9 * b:.1f} ns)",
            "",
            "match",
        )
    )
    return lines


@item(
    "tridiag/fig2",
    "time against the number of blocks, 1 to 3 nested partitions",
    20,
    _draw_blocks,
    _compare_blocks,
    "Two cores are not as many processors as blocks: left, the stages of one block and the serial stage are timed alone "
    "and added.",
)
def blocks(work: Work) -> Data:
    """Time the stages of Table 1; the curves of a GPU come from a run there."""
    n = ROWS // 10 if work.quick else ROWS
    block_seconds(64), serial_seconds(64)  # compilation
    block_seconds.cache_clear(), serial_seconds.cache_clear()
    data: Data = {"rows": n, "ideal": {}}
    for count in PARTITIONS:
        numbers, seconds = sweep(n, count)
        if count == 1:
            data["alpha"], data["beta"] = partition.fit(numbers, seconds, n)
        optimum = partition.optimum(n, count, data["alpha"], data["beta"])
        data["ideal"][str(count)] = {"blocks": numbers, "seconds": seconds, "model_optimum": optimum}
    rows, data["cuda_from"] = work.gpu_case("tridiag-fig2")
    data["cuda"] = _gpu_curves(rows)
    return data


# ------------------------------------------------------------------------------------ Eqs. (7) to (9)


def _draw_roots(data: Data) -> Figure:
    fig, axes = panels(1, 2)
    a, b = axes[0]
    n = np.array(data["sizes"], dtype=float)
    best = np.array(data["best"])
    a.loglog(n, best, "o", color="C0", label=f"one core: $n^{{{data['power']:.2f}}}$")
    a.loglog(n, np.exp(np.mean(np.log(best / n**0.5))) * n**0.5, color="0.6", label=r"$\sqrt{n}$")
    if data["cuda"]["root"]:
        gpu = {int(size): value for size, value in data["cuda"]["root"].items()}
        a.loglog(
            list(gpu), list(gpu.values()), "s", color="C2", label=f"GPU: $n^{{{data['cuda']['power']:.2f}}}$"
        )
    a.set(xlabel="rows $n$", ylabel="fastest number of blocks", title="Eq. (7)")
    a.legend()
    for k, (count, color) in enumerate(zip(map(str, PARTITIONS), COLORS, strict=True)):
        b.loglog(
            n,
            np.array(data["least"][count]) * 1e6,
            "o-",
            color=color,
            markersize=3,
            label=f"{count}: $n^{{{data['growth'][k]:.2f}}}$",
        )
    b.set(xlabel="rows $n$", ylabel="least time (µs)", title="Eq. (9), as many processors as blocks")
    b.legend(title="partitions", fontsize="x-small")
    return fig


def _compare_roots(data: Data) -> list[Line]:
    gpu = data["cuda"].get("power")
    lines = [
        Line(
            "power of n in the fastest number of blocks",
            _said("power"),
            f"{data['power']:.3f}",
            f"{gpu:.2f}" if gpu else NOT_RUN,
            "match; on a GPU α grows when the caches are left",
        )
    ]
    for k, count in enumerate(PARTITIONS):
        why = (
            "match"
            if abs(data["growth"][k] - 1 / (count + 1)) < 0.06
            else "short blocks and calls have a constant share"
        )
        lines.append(
            Line(
                f"power of n in the least time, {_words(str(count))}",
                f"{1 / (count + 1):.3f} (Eq. (9))",
                f"{data['growth'][k]:.3f}",
                "",
                why,
            )
        )
    return lines


@item("tridiag/scaling", "best number of blocks and least time against n", 40, _draw_roots, _compare_roots)
def roots(work: Work) -> Data:
    """Find the optimum for several sizes, one to three partitions."""
    block_seconds(64), serial_seconds(64)
    block_seconds.cache_clear(), serial_seconds.cache_clear()
    sizes = SIZES[:2] if work.quick else SIZES
    data: Data = {"sizes": list(sizes), "best": [], "least": {str(count): [] for count in PARTITIONS}}
    for n in sizes:
        for count in PARTITIONS:
            numbers, seconds = sweep(n, count, 1 if count > 1 else 2)
            if count == 1:
                data["best"].append(_lowest(np.array(numbers), np.array(seconds)))
            data["least"][str(count)].append(min(seconds))
    data["power"] = _power(sizes, data["best"])
    data["growth"] = [_power(sizes, data["least"][str(count)]) for count in PARTITIONS]
    rows, data["cuda_from"] = work.gpu_case("tridiag-fig2")
    data["cuda"] = _gpu_curves(rows)
    return data


def _power(sizes: tuple[int, ...], values: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
