"""Lowest levels of a sector, and which of them are one level: as many as it takes to see all states of the lowest energy.

Levels of a sector are sought one after the other (:mod:`qsim.trotter.sectors.lanczos`).  The search goes on beyond the number
of the deck until it has passed the lowest level known, so that all its states are found, and the level above it.  Levels
whose residuals do not tell them apart are separated by diagonalising H among their vectors; with r the residuals of such a group
and D its distance from all other levels, its energies are right to ``r^2 / D`` (Kato and Temple).  Levels that are then closer
than `RESOLUTION` are one level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.stops.lapack import eigh
from qsim.trotter.sectors.lanczos import EPS, Search
from qsim.trotter.sectors.linear import matrix_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.sectors.linear import SpaceOperator

# of the size of the spectrum: levels closer than that are one, to rounding
RESOLUTION = 2e-13
# of the size of the spectrum: errors beyond this do not tell whether two levels are one
COARSE = 1e-9
# states of one energy that are found one by one; a sector that has more is diagonalised
CROWDED = 12
# states of a sector that is diagonalised
MOST_DENSE = 4096
# states of one energy in a sector that is too large for it
MOST_FOUND = 100


@dataclass(frozen=True)
class LowLevels:
    """Levels of a sector, the lowest (highest) first.

    Attributes
    ----------
    energies, residuals, errors : (n,) float64
        ``||H x - E x||``, a bound of the error; and a sharper one, for levels that have a known distance from all others.
    vectors : list of (D,)
        Orthonormal, on the device.
    every : bool
        Whether the sector has no more.
    known : bool
        Whether all states of the lowest energy known are among them, and the level above it.
    products : int
        Products H x.
    whole : int
        How many levels, the lowest first, lie in groups of which no state is missing, as far as residuals can tell.
    """

    energies: NDArray[np.float64]
    residuals: NDArray[np.float64]
    errors: NDArray[np.float64]
    vectors: list[Any]
    every: bool
    known: bool = True
    products: int = 0
    whole: int = 0

    @property
    def claims(self) -> NDArray[np.float64]:
        """Bounds of the errors, (n,): residuals, and the width of a group of which states may be missing."""
        claims = self.residuals.copy()
        if self.whole < len(claims):
            claims[self.whole :] += np.ptp(self.energies[self.whole :])
        return claims


def same(first: tuple[float, float], second: tuple[float, float], scale: float) -> bool | None:
    """Return True if two levels (energy, error) are one, False if not; None if their errors are too large to tell."""
    errors = first[1] + second[1]
    if abs(first[0] - second[0]) > errors + RESOLUTION * scale:
        return False
    # errors overlap: one level, unless they are so coarse that two levels would overlap as well
    return True if errors <= COARSE * scale else None


def grouped(energies: NDArray[np.float64], least: float | NDArray[np.float64]) -> list[slice]:
    """Return runs of ordered levels in which neighbours are at most `least` apart."""
    cuts = np.flatnonzero(np.abs(np.diff(energies)) > least) + 1
    return [slice(int(a), int(b)) for a, b in zip([0, *cuts], [*cuts, len(energies)], strict=True)]


def lowest_levels(
    linear: SpaceOperator,
    count: int,
    tolerance: float,
    scale: float,
    *,
    lowest: float | None = None,
    passing: bool = True,
    highest: bool = False,
    poll: Callable[[], None] | None = None,
) -> LowLevels:
    """Find the lowest levels of a sector.

    Parameters
    ----------
    count : int
        Levels wanted, at least.
    tolerance : float
        Largest residual.
    scale : float
        Bound of the size of the spectrum.
    lowest : float, optional
        Lowest level that is known of other sectors.
    passing : bool
        Whether to go on until a level above the lowest one is found.
    highest : bool
        The highest levels instead; `lowest` is then the highest one.
    """
    device, size = linear.device, linear.size
    # vectors of other levels are projected out; levels closer than the errors of both are one group
    search = Search(device, linear, size, tolerance, scale, highest=highest, dtype=linear.dtype)
    sign, near = search.sign, 4.0 * search.tolerance + RESOLUTION * scale
    # first the levels that the deck wants
    while len(search.found.energies) < min(count, size):
        search.next_level(poll)
    energies = search.found.energies
    known = passing
    # then on until a level lies above the lowest one of all sectors: its degeneracy and the gap are known
    while passing and len(energies) < size:
        first = sign * energies[0] if lowest is None else min(sign * energies[0], sign * lowest)
        if sign * energies[-1] - first > near:
            break
        if len(energies) >= CROWDED and size <= MOST_DENSE:
            # fast, where the search is slow
            return _diagonalised(linear, count, first, near, sign)
        known = len(energies) < max(count, MOST_FOUND) and _fits(device, search.found.vectors[0].nbytes)
        if not known:
            break
        search.next_level(poll)
    search.separate(near)
    levels = search.found
    every = len(levels.energies) == size
    energy, residual = np.array(levels.energies), np.array(levels.residuals)
    # levels of a group are told apart only by H among their vectors
    errors = _sharpened(energy, residual, near, every)
    whole = energy.size if every else grouped(energy, near)[-1].start
    return LowLevels(energy, residual, errors, levels.vectors, every, known, search.products, whole)


def _fits(device: Device, size: int) -> bool:
    """Return True if memory holds another level and its recurrence, or if the free memory is not known."""
    # a level takes five vectors at most, work space included
    free = device.free_memory()
    return not free or 5 * size < free


def _sharpened(
    energies: NDArray[np.float64], residuals: NDArray[np.float64], near: float, every: bool
) -> NDArray[np.float64]:
    """Return the errors of levels from their residuals and distances."""
    errors = residuals.copy()
    groups = grouped(energies, near)
    for group, after in zip(groups, [*groups[1:], None], strict=True):
        # the next level above is not known
        if after is None and not every:
            continue
        # Kato-Temple: |E - level| <= r^2 / distance to the
        # other levels, for the residuals of a group together
        square = float((residuals[group] ** 2).sum())
        below = abs(energies[group.start] - energies[group.start - 1]) if group.start else np.inf
        beyond = np.inf if after is None else abs(energies[after.start] - energies[group.stop - 1])
        # the other levels are known within their own errors: the residual is taken off the distance
        distance = min(below, beyond) - np.sqrt(square)
        if distance > 0.0:
            errors[group] = np.minimum(errors[group], square / distance)
    return errors


def _diagonalised(
    linear: SpaceOperator,
    count: int,
    first: float,
    near: float,
    sign: float,
) -> LowLevels:
    """Diagonalise a small sector; return the levels `near` the first and the next one, at least `count`."""
    device = linear.device
    with device.use():
        xp, matrix = device.xp, matrix_of(linear)
        values, states = (xp.linalg.eigh if device.is_cuda else eigh)(matrix if sign > 0 else -matrix)
        signed = np.asarray(device.to_host(values), np.float64)
        # up to the end, and one level beyond it, from which the gap follows
        kept = min(signed.size, max(count, int(np.searchsorted(signed, first + near)) + 1))
        chosen = states[:, :kept]
        # residuals of the eigenvectors themselves, as of a search
        rest = matrix @ chosen - sign * values[:kept] * chosen
        residuals = np.asarray(device.to_host(xp.linalg.norm(rest, axis=0)), np.float64)
        vectors = [xp.ascontiguousarray(chosen[:, k]).astype(linear.dtype, copy=False) for k in range(kept)]
    rounding = np.full(kept, EPS * float(np.abs(signed).max(initial=0.0)))
    # the next level, if there is one, may be one with the last
    every = kept == signed.size
    apart = every or signed[kept] - signed[kept - 1] > near
    whole = kept if apart else grouped(signed[:kept], near)[-1].start
    return LowLevels(
        sign * signed[:kept], residuals, rounding, vectors, every, products=signed.size, whole=whole
    )
