"""Time profiles: the factor f(t) of a term, from its block in the deck."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from qsim.core.deck.columns import read_rows
from qsim.core.deck.expression import Expression
from qsim.core.deck.table_units import Column
from qsim.core.deck.tables import column_units
from qsim.core.errors import FileError
from qsim.trotter.deck import profiles as blocks

MOST_ROWS = 1_000_000
"""Times of a table."""


@dataclass(frozen=True)
class Factor:
    """A factor f(t).

    Attributes
    ----------
    function : callable
    kinks : tuple of float or None
        Times at which it is not smooth; None if that is not known.
    vector : callable or None
        The same of many times at once, where that is faster.
    formula : Expression or None
        The formula of t behind it, if there is one.
    """

    function: Callable[[float], float]
    kinks: tuple[float, ...] | None = ()
    vector: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    formula: Expression | None = None

    def __call__(self, t: float) -> float:
        """Return f(t)."""
        return self.function(t)

    def many(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return f of many times."""
        if self.vector is not None:
            return np.broadcast_to(self.vector(times), times.shape)
        return np.array([self.function(float(t)) for t in times])


def factor(profile: blocks.Profile | None) -> Factor:
    """Return f(t) of a profile block; 1 for None.

    Raises
    ------
    FileError
        If the file of a table cannot be read or its times do not ascend.
    """
    if profile is None:
        # without a profile: 1 at all times
        return Factor(lambda t: 1.0)
    if isinstance(profile, blocks.ConstantProfile):
        value = profile.value
        return Factor(lambda t: value)
    if isinstance(profile, blocks.RampProfile):
        # slope of a linear ramp, curvature of a smooth one: both ends are kinks
        return Factor(_ramp(profile), (profile.t0, profile.t1))
    if isinstance(profile, blocks.CosineProfile):
        offset, amplitude, omega, phase = profile.offset, profile.amplitude, profile.omega, profile.phase
        return Factor(lambda t: offset + amplitude * math.cos(omega * t + phase))
    if isinstance(profile, blocks.TableProfile):
        return _table(profile)
    # the kinks of a formula are not known; `structure` searches them
    formula = Expression(profile.value, ("t",))
    return Factor(
        lambda t: float(formula(t=t)), None, lambda times: np.asarray(formula(t=times), float), formula
    )


def is_constant(profile: blocks.Profile | None) -> bool:
    """Return True if f does not depend on time."""
    return profile is None or isinstance(profile, blocks.ConstantProfile)


def _ramp(ramp: blocks.RampProfile) -> Callable[[float], float]:
    def value(t: float) -> float:
        x = min(max((t - ramp.t0) / (ramp.t1 - ramp.t0), 0.0), 1.0)
        if ramp.shape == "smooth":
            x = math.sin(0.5 * math.pi * x) ** 2
        return ramp.start + (ramp.end - ramp.start) * x

    return value


def _table(table: blocks.TableProfile) -> Factor:
    """Return the piecewise linear factor of a table, constant beyond its ends; its points are kinks."""
    points = table.points
    if points is None:
        # check() has seen to it
        assert table.file is not None
        column_units(table.file, (Column("t", unit="1/J"), Column("f", ignored=True)))
        points = read_rows(table.file, "t, f", (2,), most=MOST_ROWS)
        for k, (a, b) in enumerate(pairwise(points)):
            if b[0] <= a[0]:
                raise FileError(
                    f"{table.file}: times must ascend, but {b[0]:g} follows {a[0]:g} in row {k + 2}"
                )
    times, values = [row[0] for row in points], [row[1] for row in points]

    def value(t: float) -> float:
        # beyond the ends the first and the last value hold
        right = bisect.bisect_right(times, t)
        if right in (0, len(times)):
            return values[0 if right == 0 else -1]
        a, b = right - 1, right
        return values[a] + (values[b] - values[a]) * (t - times[a]) / (times[b] - times[a])

    return Factor(value, tuple(times))
