"""Cross sections summed over L, and the errors that coarser solutions tell."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.scatter.cross_sections import angles, spectra
from qsim.sturmian.scatter.cross_sections.observed import FIRST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics
    from qsim.sturmian.scatter.cross_sections.observed import Measured, Observed

SAFETY, FUNCTIONS_SAFETY = 1.5, 4.0
# Least error of the total, over the sum of the errors of all levels.
STATIONARY, FUNCTIONS_STATIONARY = 0.1, 0.5
# Relative error of a level that the coarser box does not hold, over the error of the next lower level of its l.
SERIES = 2.0
# Partial-wave error of a level over the largest relative one among the levels of its n.
MIXING = 0.5


@dataclass
class Summed:
    """Cross sections of one energy and one spin or gauge, summed over L, in the unit of the kinematics.

    Attributes
    ----------
    total, ionisation : (float, float)
        Value and error; ionisation is the break-up into two free electrons, None below its threshold: the mean of the two below.
    direct, missing : (float, float) or None
        Break-up from its amplitudes, and as what the discrete channels leave of the total.
    levels : dict of (float, float)
        The error is NaN where it is not known.
    rest : (float, float) or None
        All higher levels together, extrapolated; None where the box holds too few to tell.
    sdcs, sdcs_error : (k,) float64 or None
        Per hartree at the shares e/E of `spectra.shares`, convention *full*.
    by_L : dict of (float, float, float)
        Of each L: total, ionisation (NaN without), share of the largest level.
    matrix : dict of (complex, float)
        Elastic element of the S-matrix of each L (e_h), and its error.
    unitarity : (float, float) or None
        What the channels lack of the total, relative to it, and the error of that.
    tail : float or None
        Estimated relative weight of the L beyond the largest one.
    fdcs, fdcs_error : (k, k) float64 or None
        Coplanar, per hartree and steradian squared, at the angles of the deck.
    """

    total: Measured
    ionisation: Measured | None
    direct: Measured | None
    missing: Measured | None
    levels: dict[tuple[int, int], Measured]
    rest: Measured | None
    sdcs: NDArray[np.float64] | None
    sdcs_error: NDArray[np.float64] | None
    by_L: dict[int, tuple[float, float]]
    unitarity: Measured | None
    tail: float | None
    fdcs: NDArray[np.float64] | None = None
    fdcs_error: NDArray[np.float64] | None = None
    ripple: float = 0.0
    matrix: dict[int, tuple[complex, float]] = field(default_factory=dict)


@dataclass
class Solutions:
    """Observations of all L of one energy and one spin or gauge.

    Every error is the sum of three: what a solution itself still shows of its radius, the difference to the coarser grid, and, in
    that grid, the difference to fewer (or more) partial waves times `beyond`.  The second one is multiplied by `SAFETY`, as two
    solutions may agree by accident; among functions, which converge slowly, and whose total is stationary and hence nearly equal
    in both, by more.

    Attributes
    ----------
    parts : list of Observed
        Those that count.
    coarse, fewer : list of Observed or None
        In the coarser grid, and there with other partial waves.
    beyond : float
        Error of the momenta that are left out over the change with `fewer`.
    whole_grid : bool
        Whether the basis is the whole grid.
    lost : bool
        Whether the other solutions could not be found, so that no error is known.
    """

    parts: Sequence[Observed]
    coarse: Sequence[Observed] | None
    fewer: Sequence[Observed] | None
    beyond: float
    whole_grid: bool = True
    lost: bool = False

    @property
    def safety(self) -> float:
        """Factor of the difference to the coarser grid."""
        return SAFETY if self.whole_grid else FUNCTIONS_SAFETY

    def error(self, value: Callable[[Sequence[Observed]], complex]) -> float:
        """Return the error of a quantity of the solutions of all L, without what they show of it themselves."""
        if self.coarse is None:
            return math.nan if self.lost else 0.0
        there = value(self.coarse)
        # Change with the grid (box, order, angle, functions) times its safety, plus the change
        # with partial waves in the coarser grid.
        error = self.safety * abs(value(self.parts) - there)
        if self.fewer is not None:
            error += self.beyond * abs(there - value(self.fewer))
        return float(error)

    def errors(self, curve: Callable[[Sequence[Observed]], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return `error` for every point of a curve."""
        if self.coarse is None:
            return np.full(1, math.nan if self.lost else 0.0)
        there = curve(self.coarse)
        error = self.safety * np.abs(curve(self.parts) - there)
        if self.fewer is not None:
            error = error + self.beyond * np.abs(there - curve(self.fewer))
        return np.asarray(error, float)


def combined(
    solutions: Solutions,
    kin: Kinematics,
    ejected: tuple[float, float] | None,
    theta: NDArray[np.float64],
    charge: float,
) -> Summed:
    """Return the sum over L with errors.

    Parameters
    ----------
    solutions : Solutions
    kin : Kinematics
    ejected : (float, float) or None
        Energies of the electrons of fdcs, hartree.
    theta : (k,) float64
        Angles of fdcs, radian.
    charge : float
        That both electrons see far outside.
    """
    parts = solutions.parts
    # every sum carries the change by the coarser grid and by other partial waves as its error
    levels = _levels(solutions)
    rest = _sum_of([part.rest for part in parts])
    level_error = _error_of_all(levels)
    # the total is stationary: two solutions may agree in it by more than they deserve
    share = STATIONARY if solutions.whole_grid else FUNCTIONS_STATIONARY
    own = sum(part.total_error for part in parts)
    total = _total(parts), solutions.error(_total) + share * level_error + own
    # below break-up the levels are all there is: what they and the total miss each other by is an error
    if kin.E < 0.0:
        levels, total = _closed(levels, total)
    direct, sdcs, sdcs_error, ripple = _sharing(solutions, kin)
    # break-up twice: from its amplitudes, and as what the levels leave of the total; their agreement is a check
    missing, defect = _unitarity(total, direct, levels, rest)
    made = Summed(
        total=total,
        ionisation=_agreed(direct, missing),
        direct=direct,
        missing=missing,
        levels=levels,
        rest=rest,
        sdcs=sdcs,
        sdcs_error=sdcs_error,
        by_L={
            part.L: (part.total, part.sharing.total if part.sharing is not None else float("nan"))
            for part in parts
        },
        unitarity=defect,
        tail=_tail(parts),
        matrix={part.L: (part.matrix, _matrix_error(solutions, part.L)) for part in parts},
        ripple=ripple,
    )
    if ejected is not None and all(part.break_up is not None for part in parts):
        mean, scatter = _fdcs(parts, kin, ejected, theta, charge)
        made.fdcs = mean
        made.fdcs_error = scatter + solutions.errors(lambda of: _fdcs(of, kin, ejected, theta, charge)[0])
    return made


def _matrix_error(solutions: Solutions, L: int) -> float:
    """Return the error of the elastic element of the S-matrix of an L."""

    def element(of: Sequence[Observed]) -> complex:
        return next(part.matrix for part in of if part.L == L)

    own = next(part.matrix_error for part in solutions.parts if part.L == L)
    return solutions.error(element) + own


def _total(of: Sequence[Observed]) -> float:
    return sum(part.total for part in of)


def _sum_of(values: Sequence[Measured | None]) -> Measured | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return sum(value for value, _ in known), sum(error for _, error in known)


def _levels(solutions: Solutions) -> dict[tuple[int, int], Measured]:
    """Return all levels with their errors.

    Levels of one l are alike near the nucleus but for a factor, and so are their relative errors.  A level that the coarser box
    does not hold takes over the error of the next lower one of its l; the error of the first excited level of an l is then not
    known, NaN.
    """
    parts, coarse = solutions.parts, solutions.coarse
    levels: dict[tuple[int, int], Measured] = {}
    relative: dict[int, float] = {}
    for name in sorted({name for part in parts for name in part.levels}):

        def level(of: Sequence[Observed], name: tuple[int, int] = name) -> float:
            return sum(part.levels.get(name, (0.0, 0.0))[0] for part in of)

        n, l = name
        value = level(parts)
        # A level counts as held if the coarser box has it in every L in which the grid of the
        # deck does.
        held = coarse is None or all(
            name in there.levels for here, there in zip(parts, coarse, strict=True) if name in here.levels
        )
        spread = sum(part.levels[name][1] for part in parts if name in part.levels)
        change = solutions.error(level) if held else SERIES * relative.get(l, math.nan) * abs(value)
        if held and n >= FIRST:
            relative[l] = change / max(abs(value), 1e-300)
        levels[name] = value, spread + change
    if coarse is not None and solutions.fewer is not None:
        levels = _mixed(levels, coarse, solutions.fewer, solutions.beyond)
    return levels


def _error_of_all(levels: dict[tuple[int, int], Measured]) -> float:
    """Return the error of the sum of levels, to which one with an error that is not known adds itself."""
    return sum(error if math.isfinite(error) else abs(value) for value, error in levels.values())


def _sharing(
    solutions: Solutions, kin: Kinematics
) -> tuple[Measured | None, NDArray[np.float64] | None, NDArray[np.float64] | None, float]:
    """Return break-up from its amplitudes, energy sharing with its error, and the largest ripple; None below the threshold."""
    sharings = [part.sharing for part in solutions.parts if part.sharing is not None]
    if not sharings:
        return None, None, None, 0.0
    shares = spectra.shares()

    def whole(of: Sequence[Observed]) -> float:
        return sum(part.sharing.total for part in of if part.sharing is not None)

    def curve(of: Sequence[Observed]) -> NDArray[np.float64]:
        known = [part.sharing.at(shares) for part in of if part.sharing is not None]
        return np.asarray(np.sum(known, axis=0) / kin.E, float)

    # Errors of all L add up linearly: they have the same sources and need not cancel.
    own = sum(sharing.total_error for sharing in sharings)
    error = np.sum([sharing.error_at(shares) for sharing in sharings], axis=0) / kin.E
    direct = whole(solutions.parts), own + solutions.error(whole)
    ripple = max(sharing.ripple for sharing in sharings)
    return direct, curve(solutions.parts), error + solutions.errors(curve), ripple


def _closed(
    levels: dict[tuple[int, int], Measured], total: Measured
) -> tuple[dict[tuple[int, int], Measured], Measured]:
    """Return levels and total below the threshold of break-up with errors not smaller than what they miss each other by.

    There the levels are all there is: a difference shows an error of the total, or of the levels, the largest of which has most
    of it.
    """
    if not levels:
        return levels, total
    missing = abs(total[0] - sum(value for value, _ in levels.values()))
    largest = max(levels, key=lambda name: levels[name][0])
    value, error = levels[largest]
    return {**levels, largest: (value, float(np.maximum(error, missing)))}, (
        total[0],
        float(np.maximum(total[1], missing)),
    )


def _unitarity(
    total: Measured,
    direct: Measured | None,
    levels: dict[tuple[int, int], Measured],
    rest: Measured | None,
) -> tuple[Measured | None, Measured | None]:
    """Return what the levels leave of the total, and the relative defect of all channels together."""
    if rest is None or total[0] <= 0.0:
        return None, None
    bound = sum(value for value, _ in levels.values()) + rest[0]
    error = _error_of_all(levels) + rest[1] + total[1]
    missing = total[0] - bound, error
    if direct is None:
        return None, (missing[0] / total[0], error / total[0])
    return missing, ((missing[0] - direct[0]) / total[0], (error + direct[1]) / total[0])


def _mixed(
    levels: dict[tuple[int, int], Measured],
    coarse: Sequence[Observed],
    fewer: Sequence[Observed],
    more: float,
) -> dict[tuple[int, int], Measured]:
    """Return levels with their share in the partial-wave error of all levels of the same n, which mix at any distance."""

    def value(of: Sequence[Observed], name: tuple[int, int]) -> float:
        return sum(part.levels.get(name, (0.0, 0.0))[0] for part in of)

    change: dict[int, float] = {}
    for name in levels:
        here, there = value(coarse, name), value(fewer, name)
        # At most the level itself: beyond, the relative change says nothing about other levels.
        if here > 0.0:
            relative = min(1.0, more * abs(here - there) / here)
            change[name[0]] = max(change.get(name[0], 0.0), relative)
    return {
        (n, l): (level, error + (MIXING * change.get(n, 0.0) * level if n >= FIRST else 0.0))
        for (n, l), (level, error) in levels.items()
    }


def _agreed(first: Measured | None, second: Measured | None) -> Measured | None:
    """Return the mean of two estimates with weights 1/error^2; the error grows where they disagree by more than their errors."""
    if first is None or second is None:
        return first
    if not min(first[1], second[1]) > 0.0:
        return first
    weights = np.array([first[1] ** -2, second[1] ** -2])
    value = float((weights @ np.array([first[0], second[0]])) / weights.sum())
    error = float(weights.sum() ** -0.5)
    return value, error * max(1.0, abs(first[0] - second[0]) / math.hypot(first[1], second[1]))


def _tail(parts: Sequence[Observed]) -> float | None:
    """Return the relative weight of larger L, if the last terms fall like a geometric series; None for fewer than three L."""
    if len(parts) < 3:
        return None
    values = [part.total for part in sorted(parts, key=lambda part: part.L)]
    last, before = values[-1], values[-2]
    if not 0.0 < last < before:
        return float(abs(last) / max(sum(values), 1e-300))
    return float(last**2 / (before - last) / sum(values))


def _fdcs(
    parts: Sequence[Observed],
    kin: Kinematics,
    ejected: tuple[float, float],
    theta: NDArray[np.float64],
    charge: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean over the radii and scatter of ``2 pi/(k1 k2) |sum ...|^2``, (k, k)."""
    k1, k2 = math.sqrt(2.0 * ejected[0]), math.sqrt(2.0 * ejected[1])
    first = parts[0].break_up
    assert first is not None
    amplitude = np.zeros((first.shape[0], theta.size, theta.size), complex)
    # Amplitudes of different L interfere: they are added before the square.
    for part in parts:
        assert part.break_up is not None
        factor = kin.phase(part.L) * math.sqrt(kin.weight(part.L, part.S))
        amplitude += factor * angles.coplanar(
            part.pairs, part.L, part.S, part.break_up, k1, k2, theta, charge
        )
    values = 2.0 * math.pi / (k1 * k2) * np.abs(amplitude) ** 2
    # a ripple is no noise: more radii do not average it away
    return values.mean(axis=0), values.std(axis=0)
