"""Limits of all partial waves of a response, with errors from partial waves, basis and box, and gauges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.sturmian.radial.potentials import DOUBT
from qsim.sturmian.two_electron.extrapolation import partial_wave_limit, response_limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.response.problem import ResponseProblem
    from qsim.sturmian.response.sectors import Level

__all__ = ["Limit", "limits_of"]

# Arrays whose last axis are gauges.
WITH_GAUGES = ("f", "A", "rate", "alpha", "alpha_tensor")
# Relative error of arithmetic, and of the first-order functions.
ROUNDING = 1e-10


class Limit(NamedTuple):
    """Values for l_max to infinity and their errors, arrays of one shape."""

    values: NDArray[np.float64]
    errors: NDArray[np.float64]


def limits_of(
    l_max: Sequence[int],
    partial: Mapping[str, NDArray[np.float64]],
    others: Sequence[Mapping[str, NDArray[np.float64]]],
    levels: Sequence[Level],
    problem: ResponseProblem,
) -> dict[str, Limit]:
    """Return the limits of all arrays.

    Parameters
    ----------
    l_max : sequence of int
        Of S states, ascending.
    partial : dict of (k, ...)
        Arrays at each l_max.
    others : sequence of dict of (...)
        Arrays at the largest l_max in the smaller basis: what they differ by is the error of basis and box.  Then, where there is
        a table, those with the other curve that its rows allow: the change is the error of the table.
    levels : sequence of Level
    problem : ResponseProblem
    """
    found, coarse = {}, others[0]
    for name, values in partial.items():
        if name == "energy":
            found[name] = _energies(l_max, values, coarse[name], levels)
            continue
        if name == "threshold":
            found[name] = Limit(values[-1], np.abs(values[-1] - coarse[name]))
            continue
        spins = _spins(name, values.shape[1:], levels, problem)
        found[name] = _limit(l_max, values, coarse[name], spins)
    for table in others[1:]:
        for name, (value, error) in found.items():
            found[name] = Limit(value, error + DOUBT * np.abs(table[name] - coarse[name]))
    if "c6_with" in found:
        # A file without errors of its polarisabilities leaves none of the coefficient.
        value, error = found["c6_with"]
        found["c6_with"] = Limit(value, np.hypot(error, found.pop("c6_with_off").values))
    for name in WITH_GAUGES:
        if name in found and found[name].values.shape[-1] > 1:
            found[name] = _between_gauges(found[name])
    return found


def _energies(
    l_max: Sequence[int],
    values: NDArray[np.float64],
    coarse: NDArray[np.float64],
    levels: Sequence[Level],
) -> Limit:
    """Return the limits of the energies of levels, which have pairs up to ``l_max + L``."""
    pairs = [
        partial_wave_limit(
            [l + level.L for l in l_max],
            values[:, k],
            L=level.L,
            S=level.S,
            parity=level.parity,
            uncertainty=float(abs(values[-1, k] - coarse[k])),
        )[:2]
        for k, level in enumerate(levels)
    ]
    return Limit(*np.array(pairs).T)


def _spins(
    name: str, shape: tuple[int, ...], levels: Sequence[Level], problem: ResponseProblem
) -> NDArray[np.int64]:
    """Return the spin whose powers the elements of an array fall with; of two atoms the slower one."""
    S = np.array([level.S for level in levels], np.int64)
    if name == "c6":
        own = np.array([min(S[a], S[b]) for a, b in problem.partners])
    elif name in ("alpha_imaginary", "c6_with", "c6_with_off"):
        own = S[problem.attracting]
    else:
        own = S[: shape[0]]
    return np.broadcast_to(own.reshape(-1, *([1] * (len(shape) - 1))), shape)


def _limit(
    l_max: Sequence[int], values: NDArray[np.float64], coarse: NDArray[np.float64], spins: NDArray[np.int64]
) -> Limit:
    """Return the limits of all elements of an array; NaN where it has none."""
    limit, error = np.full(spins.shape, np.nan), np.full(spins.shape, np.nan)
    for place in np.ndindex(spins.shape):
        series = values[(slice(None), *place)]
        if not np.isfinite(series).all():
            continue
        off = abs(series[-1] - coarse[place])
        value, claim = response_limit(l_max, series, S=int(spins[place]), uncertainty=float(off))
        limit[place], error[place] = value, claim + ROUNDING * abs(value)
    return Limit(limit, error)


def _between_gauges(limit: Limit) -> Limit:
    """Return a limit whose errors are at least half of what length and velocity differ by: the first two gauges of the deck."""
    apart = 0.5 * np.abs(limit.values[..., :1] - limit.values[..., 1:2])
    # without a second gauge the error stays
    return Limit(limit.values, np.fmax(limit.errors, apart))
