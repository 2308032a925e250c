"""Quantities of open evolutions: how they were carried, jumps and their statistics, purity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.evolve.open.statistics import Counted, counted, numbers_of, windows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.deck.open.dissipation import Counting
    from qsim.trotter.evolve.problem import Problem

__all__ = ["ARRAYS", "SCALARS"]


class Counts(Protocol):
    """What the counting statistics take of a result: the problem, and (n, 2) times and channels of the jumps of trajectories."""

    problem: Problem
    jumps: list[NDArray[np.float64]]


def _jumping(result: Counts) -> bool:
    return bool(result.problem.jumping)


def _numbers(result: Counts) -> NDArray[np.float64]:
    """Return the jumps of every entry (entries, trajectories)."""
    entries = np.array([channel.entry for channel in result.problem.channels], np.int64)
    return numbers_of(result.jumps, entries)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _counted(name: str) -> Callable[[Any], float | None]:
    """Return the function of a number of the counting statistics; None where there are no trajectories."""
    return lambda result: _finite(getattr(counted(_numbers(result).sum(axis=0)), name))


def _per_time(name: str) -> Callable[[Any], float | None]:
    def value(result: Any) -> float | None:
        end = result.problem.times[-1]
        made: Counted = counted(_numbers(result).sum(axis=0))
        return _finite(getattr(made, name) / end) if end > 0.0 else None

    return value


def _counting(result: Counts) -> Counting:
    """Return what the deck says of windows."""
    block = None if result.problem.open is None else result.problem.open.counting
    # asked for, see `_in_windows`
    assert block is not None
    return block


def _windows(result: Counts) -> NDArray[np.float64]:
    """Return the jumps in every window (windows, trajectories)."""
    problem, block = result.problem, _counting(result)
    wanted = range(problem.entries) if block.jumps == "all" else block.jumps
    own = np.array([channel.entry in wanted for channel in problem.channels], np.bool_)
    return windows_of(result.jumps, own, block.window, (block.after, problem.times[-1]))


def _in_windows(result: Counts) -> bool:
    block = result.problem.open
    return _jumping(result) and block is not None and block.counting is not None


def _window(name: str, *, per_time: bool = False) -> Callable[[Any], float | None]:
    """Return the function of a number of the statistics of windows, or of it over their length."""

    def value(result: Counts) -> float | None:
        found = getattr(counted(_windows(result)), name)
        return _finite(found / _counting(result).window if per_time else found)

    return value


def _histogram(result: Counts) -> Any:
    if not _in_windows(result):
        return None
    numbers = _windows(result).astype(int).ravel()
    return np.bincount(numbers) / numbers.size


def _of_entries(name: str) -> Callable[[Any], Any]:
    """Return the function of a number of the counting statistics of every entry."""

    def value(result: Any) -> Any:
        if not result.problem.jumping or not result.jumps:
            return None
        return np.array([getattr(counted(n), name) for n in _numbers(result)])

    return value


def _recorded(column: Callable[[Any, NDArray[np.float64], NDArray[np.int64]], Any]) -> Callable[[Any], Any]:
    """Return the function of a column of the records of all jumps, None where they are not asked for."""

    def value(result: Any) -> Any:
        problem = result.problem
        if not problem.jumping or not problem.open.records or not result.jumps:
            return None
        rows = np.concatenate([np.zeros((0, 2)), *result.jumps])
        return column(problem, rows, np.repeat(np.arange(len(result.jumps)), [len(j) for j in result.jumps]))

    return value


def _rows(name: str, *, error: bool = False) -> Callable[[Any], Any]:
    def value(result: Any) -> Any:
        values = (result.error if error else result.mean).get(name)
        return None if values is None else values[result.problem.stored]

    return value


def _waits(_: object, rows: NDArray[np.float64], owner: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the times between jumps of one trajectory."""
    same = owner[1:] == owner[:-1]
    return np.asarray(np.diff(rows[:, 0])[same])


def _of_channel(name: str) -> Callable[[Any, NDArray[np.float64], NDArray[np.int64]], Any]:
    return lambda problem, rows, _: np.array(
        [getattr(problem.channels[int(k)], name) for k in rows[:, 1]], int
    )


ARRAYS: tuple[Quantity[Any], ...] = (
    Quantity("purity", "", "Tr rho^2", _rows("purity"), ("time",)),
    Quantity("jumps", "", "jumps of each entry of dissipation until then", _rows("jumps"), ("time", "entry")),
    Quantity(
        "jumps_error",
        "",
        "standard error over the trajectories of jumps",
        _rows("jumps", error=True),
        ("time", "entry"),
    ),
    Quantity(
        "fano_entries",
        "",
        "variance over mean of the number of jumps of each entry until t_final",
        _of_entries("fano"),
        ("entry",),
    ),
    Quantity("fano_entries_error", "", "its standard error", _of_entries("fano_error"), ("entry",)),
    Quantity("window_counts", "", "share of the windows with 0, 1, 2, ... jumps", _histogram, ("count",)),
    Quantity("jump_time", "1/J", "time of every jump", _recorded(lambda p, r, o: r[:, 0]), ("jump",)),
    Quantity("jump_trajectory", "", "its trajectory", _recorded(lambda p, r, o: o), ("jump",)),
    Quantity("jump_site", "", "its site; -1 of several", _recorded(_of_channel("site")), ("jump",)),
    Quantity("jump_type", "", "its entry of dissipation", _recorded(_of_channel("entry")), ("jump",)),
    Quantity("waiting_time", "1/J", "times between two jumps of a trajectory", _recorded(_waits), ("wait",)),
)

SCALARS: tuple[Quantity[Any], ...] = (
    Quantity(
        "open_method",
        "",
        "how the open system was carried",
        lambda r: "trajectories" if r.problem.jumping else "density_matrix",
        headline=True,
        when=lambda r: r.problem.open is not None,
    ),
    Quantity(
        "jumps_mean",
        "",
        "mean number of jumps of a trajectory until t_final",
        _counted("mean"),
        error=_counted("mean_error"),
        headline=True,
        when=_jumping,
    ),
    Quantity(
        "jump_rate",
        "J",
        "the same over t_final",
        _per_time("mean"),
        error=_per_time("mean_error"),
        when=_jumping,
    ),
    Quantity(
        "fano",
        "",
        "variance of the number of jumps over its mean; none without jumps",
        _counted("fano"),
        error=_counted("fano_error"),
        headline=True,
        when=_jumping,
    ),
    Quantity(
        "window_rate",
        "J",
        "jumps in the windows of counting over their length",
        _window("mean", per_time=True),
        error=_window("mean_error", per_time=True),
        headline=True,
        when=_in_windows,
    ),
    Quantity(
        "window_fano",
        "",
        "variance of the number of jumps in a window over its mean",
        _window("fano"),
        error=_window("fano_error"),
        headline=True,
        when=_in_windows,
    ),
    Quantity(
        "purity_final",
        "",
        "Tr rho^2 at t_final",
        lambda r: float(r.mean["purity"][-1]),
        when=lambda r: "purity" in r.mean,
    ),
)
