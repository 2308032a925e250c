"""The field as a function of free parameters: shape, bounds, area, modes.

The optimisers see parameters ``u`` (one a time step, or one a mode); the field is

    eps = clip(S (B u + offset) - lambda S),

with the modes B (or the identity), the shape S(t), ``lambda`` such that the area is as wanted, and a soft clip to the bounds.
With modes, the field is moved along ``S B^T B S`` first, which keeps it among them.
Plain bounds (no area, no modes that overlap) are left to the optimiser as a box on ``u``.  The map and its transposed
derivative are exact, so gradients stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.qoc.deck.controls import Control, Shape

# Of the soft clip: 5e-4 low at half the bound, 8 % low at the bound itself.
CLIP_POWER = 8
NEWTON_STEPS = 200
# Sum of values, relative to that of their sizes, that is none.
NO_AREA = 1e-12
# Of the values before the area is taken away: what is left by rounding.
NOTHING = 1e-14
# Share of the bounds that a first field may reach: of one that a search moves, and of one that is only propagated.
ROOM, EXACT = 0.9, 1.0 - 1e-9


@dataclass(frozen=True)
class Parametrisation:
    """Map from free parameters to the field (Eq. Q10).

    Attributes
    ----------
    shape : (N,) float64
        S at the midpoints.
    low, high : (N,) float64
        Bounds of the field (infinite where there are none).
    area : float or None
        Sum of all values of the field; None: any.
    modes : (modes, N) float64 or None
        Orthonormal rows of B: sine modes of a band, splines, blocks of slots; None: the identity.
    disjoint : bool
        True if every slot belongs to one mode at most, and no mode changes its sign: bounds are then a box.
    offset : (N,) float64 or None
        Values that B u is added to.
    slew : float or None
        Largest change from one value to the next, and of the first from zero; the parameters are then these changes.
    soft_bounds : bool
        Keep bounds by the soft clip even where a box would do: for searches that know no box.
    room : float
        Share of the bounds that a field may reach which the soft clip is to give back.
    """

    shape: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    area: float | None
    modes: NDArray[np.float64] | None
    disjoint: bool = False
    offset: NDArray[np.float64] | None = None
    slew: float | None = None
    soft_bounds: bool = False
    room: float = ROOM

    @property
    def bounded(self) -> bool:
        """True if the field has bounds."""
        return bool(np.any(np.isfinite(self.low)) or np.any(np.isfinite(self.high)))

    @property
    def soft(self) -> bool:
        """True if bounds are kept by the soft clip, since a linear constraint couples the time steps."""
        linear = self.slew is not None or (self.modes is not None and not self.disjoint)
        return self.bounded and (
            self.area is not None or self.offset is not None or linear or self.soft_bounds
        )

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return self.shape.size if self.modes is None else self.modes.shape[0]

    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Bounds on the parameters for the optimiser, or None."""
        if self.slew is not None and not self.soft_bounds:
            # The parameters are the changes themselves.
            ends = np.full(self.size, self.slew)
            return -ends, ends
        if not self.bounded or self.soft:
            return None
        # where the shape is zero, or next to it, no finite parameter reaches a bound
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            low = np.where(self.shape > 0, self.low / self.shape, -np.inf)
            high = np.where(self.shape > 0, self.high / self.shape, np.inf)
        if self.modes is None:
            return low, high
        # of a block of slots, the slot that reaches its bound first
        inside = self.modes > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.max(np.where(inside, low / self.modes, -np.inf), axis=1)
            most = np.min(np.where(inside, high / self.modes, np.inf), axis=1)
        return least, most

    def field(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the field (N,) of the parameters."""
        return self._clip(self._before_clip(u))[0]

    def pull_back(self, u: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient with respect to ``u`` from the one with respect to the field: (..., N) -> (..., size)."""
        # From the field back to the parameters: clip, area, shape, then the linear part.
        slope = self._clip(self._before_clip(u))[1]
        g = gradient * slope
        if self.area is not None:
            # d lambda = (slope . dv) / (slope . S), so the transposed map subtracts slope times the projection on S
            within = self.along[0]
            if self.soft or not within.any():
                weight = slope if self.soft else np.ones_like(slope)
                g = g - (g @ self.shape)[..., None] * (weight / max(float(weight @ self.shape), 1e-300))
            if within.any():
                g = g - (g @ within)[..., None] / float(within.sum())
        g = g * self.shape
        if self.slew is not None:
            # every change moves all values after it
            after = np.flip(np.cumsum(np.flip(g, -1), axis=-1), -1)
            return after * self._changes(u)[1]
        return g if self.modes is None else g @ self.modes.T

    def metric(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the squared diagonal response of the field to each parameter, for scaling."""
        if self.modes is not None:
            return np.ones(self.size)
        return (self.shape * self._clip(self._before_clip(u))[1]) ** 2

    def parameters(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return parameters whose field is closest to a wanted one (before the clip, with a band: least squares)."""
        if self.bounded:
            # The soft clip reaches its bound at infinity alone.
            margin = self.room if self.soft else 1.0
            field = np.clip(field, margin * self.low, margin * self.high)
            if self.soft:
                field = self._unclip(field)
        if self.offset is not None:
            field = field - self.shape * self.offset
        if self.slew is not None:
            margin = self.room * self.slew if self.soft_bounds else self.slew
            return np.clip(np.diff(field, prepend=0.0), -margin, margin)
        if self.modes is not None and np.any(self.shape != 1.0):
            rows = self.modes * self.shape
            overlaps = rows @ rows.T
            # Modes under a shape may depend on each other; a little of the unit matrix picks the shortest answer.
            overlaps[np.diag_indices_from(overlaps)] += 1e-10 * np.trace(overlaps) / overlaps.shape[0]
            return np.asarray(np.linalg.solve(overlaps, rows @ field), dtype=float)
        # Where the shape is nearly zero the field says nothing of the parameter.
        safe = np.where(self.shape > 1e-3, self.shape, 1.0)
        u = np.where(self.shape > 1e-3, field / safe, 0.0)
        return u if self.modes is None else self.modes @ u

    def kept(
        self, wanted: NDArray[np.float64], shape: NDArray[np.float64], u: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what the constraints make of a wanted field at any times, as ``field(parameters(...))`` does in the steps.

        Parameters
        ----------
        wanted, shape : (n,) float64
            The field, and S at its times.
        u : (size,) float64
            Parameters of the steps, from which the shift follows.
        """
        low, high = float(self.low[0]), float(self.high[0])
        if not self.soft:
            return np.clip(wanted, low, high) - self.shifts(u)[1] * shape
        inside = np.clip(wanted, self.room * low, self.room * high)
        bound = np.where(inside >= 0, high, -low)
        return soft_clip(_unclipped(inside, bound) - self.shifts(u)[1] * shape, low, high)[0]

    # ---------------------------------------------------------------------------------------- pieces

    def _before_clip(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        v = self._sum(u)
        v = self.shape * (v if self.offset is None else v + self.offset)
        if self.area is None:
            return v
        inside, shift = self._shifts(v)
        kept = v - inside * self.along[0] - shift * self.shape
        # of a single number whose integral vanishes only rounding would be left
        return np.zeros_like(v) if np.abs(kept).max() <= NOTHING * np.abs(v).max() else kept

    def _sum(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return B u."""
        if self.slew is not None:
            return np.cumsum(self._changes(u)[0])
        return u if self.modes is None else u @ self.modes

    def _changes(self, u: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the changes from value to value, and their derivative by the parameters."""
        if self.slew is None or not self.soft_bounds:
            return u, np.ones_like(u)
        return soft_clip(u, -self.slew, self.slew)

    def shifts(self, u: NDArray[np.float64]) -> tuple[float, float]:
        """Return the multiples of `along` and of S that are taken away to keep the area; 0 without one."""
        if self.area is None:
            return 0.0, 0.0
        v = self._sum(u)
        return self._shifts(self.shape * (v if self.offset is None else v + self.offset))

    @cached_property
    def along(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Direction ``S B^T B S`` (N,) and its modes (size,), which changes the area within the band; zero where none does."""
        if self.modes is None or self.area is None:
            return np.zeros_like(self.shape), np.zeros(self.size)
        inside = self.modes @ self.shape
        direction = self.shape * (inside @ self.modes)
        if float(direction.sum()) <= NO_AREA * float(self.shape.sum()):
            return np.zeros_like(direction), np.zeros_like(inside)
        return direction, inside

    def _shifts(self, v: NDArray[np.float64]) -> tuple[float, float]:
        """Return the multiples of `along` and of S that are taken from v to keep the area."""
        s, area, within = self.shape, float(self.area or 0.0), self.along[0]
        inside = 0.0
        if within.any():
            inside = (float(v.sum()) - area) / float(within.sum())
            if not self.soft:
                return inside, 0.0
            v = v - inside * within
        # Without a clip the sum is linear in the shift, and this is the answer.
        shift = (float(v.sum()) - area) / float(s.sum())
        if not self.soft:
            return inside, shift
        # The sum falls with the shift. Newton's steps are kept between the last two shifts on either side of the answer,
        # for where all values are at their bounds the slope tells little.
        low, high, size = -np.inf, np.inf, float(np.abs(v).max()) + abs(shift)
        for _ in range(NEWTON_STEPS):
            value, slope = self._clip(v - shift * s)
            off = float(value.sum()) - area
            low, high = (shift, high) if off > 0 else (low, shift)
            step = off / max(float(slope @ s), 1e-300)
            if abs(step) <= 1e-16 * max(abs(shift), size) or off == 0.0:
                break
            if low < shift + step < high and abs(step) <= size:
                shift += step
            elif np.isfinite(low) and np.isfinite(high):
                shift = 0.5 * (low + high)
            else:
                shift += np.copysign(size, step)
                size *= 2.0
        return inside, shift

    def given_way(self, field: NDArray[np.float64]) -> dict[str, float]:
        """Return what is missed of the area, in units of ``sum |eps|``, and of the band, relative to the root mean square."""
        found = {}
        if self.area is not None:
            found["area"] = abs(float(field.sum()) - self.area) / max(float(np.abs(field).sum()), 1e-300)
        if self.modes is not None and not self.disjoint and self.offset is None:
            free = np.full_like(self.low, np.inf)
            bare = replace(self, low=-free, high=free, area=None, soft_bounds=False)
            rest = field - bare.field(bare.parameters(field))
            found["band"] = float(np.linalg.norm(rest)) / max(float(np.linalg.norm(field)), 1e-300)
        return found

    def _clip(self, w: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the soft clip ``w / (1 + |w/b|^p)^(1/p)`` (Eq. Q11) and its slope."""
        if not self.soft:
            return w, np.ones_like(w)
        return soft_clip(w, self.low, self.high)

    def _unclip(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        return _unclipped(field, np.where(field >= 0, self.high, -self.low))


def _unclipped(field: NDArray[np.float64], bound: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the soft clip takes to a field within its bounds."""
    # a bound may be zero, and so is the field there
    ratio = (np.abs(field) / np.where(bound > 0, bound, 1.0)) ** CLIP_POWER
    return field * (1.0 - ratio) ** (-1.0 / CLIP_POWER)


def soft_clip(
    w: NDArray[np.float64], low: NDArray[np.float64] | float, high: NDArray[np.float64] | float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``w / (1 + |w/b|^p)^(1/p)`` (Eq. Q11) with b the bound of its sign, and its slope."""
    # Bounds need not be symmetric: each sign has its own.
    bound = np.where(w >= 0, high, np.negative(low))
    # a bound may be zero
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.minimum(np.abs(w) / bound, 1e30) ** CLIP_POWER
    root = (1.0 + ratio) ** (-1.0 / CLIP_POWER)
    return w * root, root / (1.0 + ratio)


def parametrisation(
    control: Control, times: NDArray[np.float64], duration: float, room: float = ROOM
) -> Parametrisation:
    """Build the map from the deck's control block.

    Parameters
    ----------
    times : (N,) float64
        Midpoints of the steps, a.u.
    duration : float
        T, a.u.
    room : float
        As of `Parametrisation`.

    Raises
    ------
    InvalidInput
        If the shape leaves [0, 1] or vanishes, or the band holds no mode.
    """
    shape = shape_function(control.shape, times, duration)
    low = np.full(times.size, -np.inf)
    high = np.full(times.size, np.inf)
    if control.bounds is not None:
        low[:], high[:] = control.bounds
    modes = None
    if control.band is not None:
        first, last = band_modes(control.band, duration, times.size)
        n = np.arange(first, last + 1)
        # Sine modes at the midpoints are orthogonal, and of norm 1 with this factor.
        modes = np.sqrt(2.0 / times.size) * np.sin(np.pi / duration * np.outer(n, times))
    return Parametrisation(shape, low, high, 0.0 if control.zero_area else None, modes, room=room)


def band_modes(band: Sequence[float], duration: float, steps: int) -> tuple[int, int]:
    """Return the first and the last sine mode ``sin(n pi t / T)`` of a band that ``steps`` values can represent.

    Raises
    ------
    InvalidInput
        If there is none.
    """
    spacing = np.pi / duration
    # Mode 0 vanishes; above N modes the samples repeat lower ones.
    first, last = max(int(np.ceil(band[0] / spacing)), 1), min(int(np.floor(band[1] / spacing)), steps)
    if last < first:
        raise InvalidInput(
            "control.band",
            f"no sine mode of the pulse lies between {band[0]:g} and {band[1]:g} hartree; their spacing is "
            f"pi/T = {spacing:g}, and {steps} steps represent frequencies up to {steps * spacing:g}",
        )
    return first, last


def shape_function(block: Shape | None, times: NDArray[np.float64], duration: float) -> NDArray[np.float64]:
    """Return S(t) of a shape block; ones without a block."""
    if block is None:
        return np.ones(times.size)
    shape = block.at(times, duration)
    if shape.min() < -1e-12 or shape.max() > 1 + 1e-12:
        raise InvalidInput(
            "control.shape",
            f"the shape must stay between 0 and 1; it runs from {np.min(shape):g} to {np.max(shape):g}",
        )
    if shape.max() <= 0:
        raise InvalidInput("control.shape", "the shape vanishes at every step")
    return np.clip(shape, 0.0, 1.0)
