"""Several controls side by side: one parametrisation each, their parameters in one vector, and what binds them together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control.mesh import means_of, places_of
from qsim.qoc.control.parametrisation import CLIP_POWER, soft_clip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.core.physics.structure import FormulaProfile
    from qsim.qoc.control.mesh import Kinks
    from qsim.qoc.control.modes import Basis
    from qsim.qoc.control.parametrisation import Parametrisation

    Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Of a bound: first values beyond this part of it are drawn in, for the soft clip never reaches the bound itself.
MARGIN = 0.9
# Relative size from which a constraint counts as missed.
KEPT = 1e-6
# Squared norm of a vector that counts as zero.
TINY = 1e-300


@dataclass(frozen=True)
class Line:
    """One control as a function of time.

    Attributes
    ----------
    map : Parametrisation
        From its parameters to its values in the slots.
    shape : callable
        S at any times.
    basis : Basis or None
        Functions that its parameters multiply; None: one value per slot.
    first : callable or None
        What is fixed, or what the functions are added to, before the shape.
    given : bool
        True if the values in the slots are those of `first`, with shape and constraints: nothing searches them.
    profiles : tuple of FormulaProfile or Kinks
        What says where the control is not smooth.
    fixed : (N,) float64 or None
        Values of a control that is not optimised.
    held : bool
        True if it is constant in each slot by nature.
    past : tuple of (Basis, (modes,) float64)
        Functions of earlier draws and their parameters: part of the offset of the map.
    draw : callable or None
        From the number of a draw to a new basis.
    """

    map: Parametrisation
    shape: Curve
    basis: Basis | None = None
    first: Curve | None = None
    fixed: NDArray[np.float64] | None = None
    held: bool = True
    given: bool = False
    profiles: tuple[FormulaProfile | Kinks, ...] = ()
    past: tuple[tuple[Basis, NDArray[np.float64]], ...] = ()
    draw: Callable[[int], Basis] | None = None

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return self.map.size if self.fixed is None else 0

    def values(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values (N,) in the slots."""
        return self.map.field(u) if self.fixed is None else self.fixed

    def wanted(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the first values (n,) at any times, with the shape, before any constraint."""
        return np.zeros(times.size) if self.first is None else self.first(times) * self.shape(times)

    def at(
        self,
        u: NDArray[np.float64],
        times: NDArray[np.float64],
        duration: float,
        drawn: NDArray[np.float64] | float = 1.0,
    ) -> NDArray[np.float64]:
        """Return the control (n,) at any times, before what binds it to others; `drawn` is a factor (n,) of given values."""
        if self.given:
            return self.map.kept(drawn * self.wanted(times), self.shape(times), u)
        if self.held:
            # The slot that a time lies in; T itself belongs to the last one.
            values = self.values(u)
            return values[np.clip((times / duration * values.size).astype(np.int64), 0, values.size - 1)]
        inner = np.zeros(times.size)
        if self.first is not None:
            inner = inner + self.first(times)
        if self.fixed is not None:
            return inner * self.shape(times)
        for basis, old in self.past:
            inner = inner + basis.at(old, times)
        # The shift that keeps the area is that of the slots: a function of the parameters alone.
        inside, shift = self.map.shifts(u)
        if self.basis is not None:
            inner = inner + self.basis.at(u - inside * self.map.along[1], times)
        w = self.shape(times) * (inner - shift)
        return soft_clip(w, self.map.low[0], self.map.high[0])[0] if self.map.soft else w

    def redrawn(self, u: NDArray[np.float64], number: int) -> Line:
        """Return the line with new functions, added to what the old ones have come to."""
        if self.draw is None or self.basis is None or self.fixed is not None:
            return self
        basis = self.draw(number)
        # What the old functions have come to stays, before shape and clip, and the new ones start at zero.
        found = u @ self.basis.modes
        offset = found if self.map.offset is None else self.map.offset + found
        changed = replace(self.map, modes=basis.modes, offset=offset)
        return replace(self, map=changed, basis=basis, past=(*self.past, (self.basis, u)))


@dataclass(frozen=True)
class Pair:
    """Two controls with ``sqrt(u^2 + v^2)`` below a bound: Eq. Q11 of the modulus."""

    first: int
    second: int
    bound: float

    @property
    def rows(self) -> list[int]:
        """Places of both controls."""
        return [self.first, self.second]


@dataclass(frozen=True)
class Controls:
    """Map from the free parameters of all controls to their values (C, N).

    Each line gives values of its own; pairs are drawn into their circles, and all free controls together into the ball of
    the largest fluence. Both are Eq. Q11 of a norm: a factor ``(1 + (|v|/b)^8)^(-1/8)``.

    Attributes
    ----------
    lines : tuple of Line
    duration : float
    pairs : tuple of Pair
    most : float or None
        Largest ``integral sum_c u_c^2 dt`` of the free controls; None: any.
    """

    lines: tuple[Line, ...]
    duration: float
    pairs: tuple[Pair, ...] = ()
    most: float | None = None

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower bounds (C, N)."""
        return np.array([line.map.low for line in self.lines])

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper bounds (C, N)."""
        return np.array([line.map.high for line in self.lines])

    def extent(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and highest value (C,) that each control can have, with pairs and fixed values; infinite for any."""
        low, high = self.low.min(axis=1), self.high.max(axis=1)
        for pair in self.pairs:
            low[pair.rows] = np.maximum(low[pair.rows], -pair.bound)
            high[pair.rows] = np.minimum(high[pair.rows], pair.bound)
        # A fixed control has no bounds of its own: it is where it is.
        for c, line in enumerate(self.lines):
            if line.fixed is not None:
                low[c], high[c] = line.fixed.min(), line.fixed.max()
        return low, high

    @property
    def shape(self) -> NDArray[np.float64]:
        """S (C, N); zero for controls that are fixed."""
        rows = [
            line.map.shape if line.fixed is None else np.zeros_like(line.map.shape) for line in self.lines
        ]
        return np.array(rows)

    @property
    def sizes(self) -> list[int]:
        """Number of free parameters of each control."""
        return [line.size for line in self.lines]

    @property
    def held(self) -> bool:
        """True if every control is constant in its slots by nature."""
        return all(line.held for line in self.lines)

    @property
    def given(self) -> bool:
        """True if the deck gives a control as a function of time, which is not constant in its slots."""
        return any(not line.held and (line.given or line.fixed is not None) for line in self.lines)

    def parts(self, u: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the parameters of each control."""
        return np.split(u, np.cumsum(self.sizes)[:-1])

    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return bounds on all parameters, infinite where there are none; None if there are none at all."""
        boxes = [line.map.box() for line in self.lines]
        if all(box is None for box in boxes):
            return None
        sides: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        for box, size in zip(boxes, self.sizes, strict=True):
            # Fixed controls have no parameters, and so no place in the box.
            if size == 0:
                continue
            for side, free, end in zip(sides, (-np.inf, np.inf), box or (None, None), strict=True):
                side.append(np.full(size, free) if end is None else end)
        return np.concatenate(sides[0]), np.concatenate(sides[1])

    def field(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values (C, N) of the parameters."""
        return self._bound(self._rows(u))

    def at(self, u: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the controls (C, n) as functions of time, at any times within the pulse."""
        parts = zip(self.lines, self.parts(u), strict=True)
        drawn = self._drawn(times)
        rows = np.array(
            [line.at(part, times, self.duration, row) for (line, part), row in zip(parts, drawn, strict=True)]
        )
        for pair in self.pairs:
            rows[pair.rows] *= _shrink(np.sum(rows[pair.rows] ** 2, axis=0), pair.bound**2)[0]
        if self.most is not None:
            # the fluence is that of the slots
            whole = self._paired(self._rows(u))[self._free]
            rows[self._free] *= _shrink(np.sum(whole**2), self._largest)[0]
        return rows

    def pull_back(self, u: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient (..., size) with respect to the parameters from the one (..., C, N) by the values."""
        # The map is lines, then pairs, then fluence; derivatives go back in the opposite order.
        g = np.array(gradient)
        rows = self._rows(u) if self.pairs or self.most is not None else g
        if self.most is not None:
            g[..., self._free, :] = _shrunk_back(
                self._paired(rows)[self._free], g[..., self._free, :], self._largest, (-2, -1)
            )
        for pair in self.pairs:
            g[..., pair.rows, :] = _shrunk_back(rows[pair.rows], g[..., pair.rows, :], pair.bound**2, (-2,))
        parts = enumerate(zip(self.lines, self.parts(u), strict=True))
        pulled = [line.map.pull_back(part, g[..., i, :]) for i, (line, part) in parts if line.fixed is None]
        return np.concatenate(pulled or [np.zeros(0)], axis=-1)

    def metric(
        self, u: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the squared response (size,) of the values to each parameter, for scaling; times weights (C,) if given."""
        weights = np.ones(len(self.lines)) if weights is None else weights
        parts = zip(self.lines, self.parts(u), weights, strict=True)
        found = [w * line.map.metric(part) for line, part, w in parts if line.fixed is None]
        return np.concatenate(found or [np.zeros(0)])

    def parameters(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the parameters (size,) whose values come closest to (C, N)."""
        rows = np.array(field)
        if self.most is not None:
            # The inverse undoes the fluence first, which was bounded last.
            rows[self._free] *= _grow(np.sum(rows[self._free] ** 2), self._largest)
        for pair in self.pairs:
            rows[pair.rows] *= _grow(np.sum(rows[pair.rows] ** 2, axis=0), pair.bound**2)
        found = [
            line.map.parameters(row) for line, row in zip(self.lines, rows, strict=True) if line.fixed is None
        ]
        return np.concatenate(found or [np.zeros(0)])

    def given_way(self, fields: NDArray[np.float64]) -> Iterator[tuple[int, str, float]]:
        """Yield control, constraint and by how much final values (C, N) miss it, where another constraint acts."""
        for number, (line, row) in enumerate(zip(self.lines, fields, strict=True)):
            if line.fixed is None:
                for name, size in line.map.given_way(row).items():
                    if size > KEPT:
                        yield number, name, size

    def redrawn(self, u: NDArray[np.float64], number: int) -> tuple[Controls, NDArray[np.float64]]:
        """Return controls with new random functions, and the parameters with which they have the same values."""
        lines, found = [], []
        for line, part in zip(self.lines, self.parts(u), strict=True):
            changed = line.redrawn(part, number)
            lines.append(changed)
            # New functions have no part in the values yet.
            found.append(part if changed is line else np.zeros(changed.size))
        return replace(self, lines=tuple(lines)), np.concatenate(found)

    @property
    def can_redraw(self) -> bool:
        """True if a free control has random functions."""
        return any(line.draw is not None and line.fixed is None for line in self.lines)

    # ---------------------------------------------------------------------------------------- pieces

    def _drawn(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the factors (C, n) by which `parameters` changes given values for the sake of pairs and of the fluence."""
        factors = np.ones((len(self.lines), times.size))
        if not any(line.given for line in self.lines):
            return factors
        if self.most is not None:
            slots = self.lines[0].map.shape.size
            middles = (np.arange(slots) + 0.5) * self.duration / slots
            whole = np.array([self.lines[c].wanted(middles) for c in self._free])
            factors[self._free] = _grow(np.sum(whole**2), self._largest)
        for pair in self.pairs:
            rows = factors[pair.rows] * np.array([self.lines[c].wanted(times) for c in pair.rows])
            factors[pair.rows] *= _grow(np.sum(rows**2, axis=0), pair.bound**2)
        return factors

    @property
    def _free(self) -> list[int]:
        return [i for i, line in enumerate(self.lines) if line.fixed is None]

    @property
    def _largest(self) -> float:
        """The largest sum of squares of the values of free controls."""
        slots = self.lines[0].map.shape.size
        # integral sum u^2 dt = tau sum u^2 of values that are held
        return (self.most or 0.0) * slots / self.duration

    def _rows(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = zip(self.lines, self.parts(u), strict=True)
        return np.array([line.values(part) for line, part in parts])

    def _paired(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        for pair in self.pairs:
            rows = rows.copy()
            rows[pair.rows] *= _shrink(np.sum(rows[pair.rows] ** 2, axis=0), pair.bound**2)[0]
        return rows

    def _bound(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = self._paired(rows)
        if self.most is not None:
            rows = rows.copy()
            rows[self._free] *= _shrink(np.sum(rows[self._free] ** 2), self._largest)[0]
        return rows


@dataclass(frozen=True)
class Functions:
    """Controls as functions of time.

    Attributes
    ----------
    controls : Controls
    u : (size,) float64
        Their parameters.
    given : bool
        True if some of them are what the deck says, so that the slots are an approximation of the run.
    scale : (C, 1) float64 or None
        Factors of the controls, of a member of an ensemble.
    """

    controls: Controls
    u: NDArray[np.float64]
    given: bool
    scale: NDArray[np.float64] | None = None

    def at(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values (C, n) at any times."""
        values = self.controls.at(self.u, times)
        return values if self.scale is None else self.scale * values

    @cached_property
    def places(self) -> tuple[NDArray[np.float64], int]:
        """Times at which they are not smooth, and the number of narrow pulses beyond those found."""
        profiles = [p for line in self.controls.lines if not line.held for p in line.profiles]
        return places_of(profiles, self.controls.duration)

    @property
    def switches(self) -> NDArray[np.float64]:
        """Edges of slots at which controls that are held in them change."""
        parts = zip(self.controls.lines, self.controls.parts(self.u), strict=True)
        rows = np.array([line.values(part) for line, part in parts if line.held])
        if not rows.size:
            return np.zeros(0)
        changes = 1 + np.flatnonzero(np.any(np.diff(rows, axis=1) != 0.0, axis=0))
        return np.asarray(changes * (self.controls.duration / rows.shape[1]))

    def means(self, steps: int) -> NDArray[np.float64]:
        """Return the means (C, steps) over each of equal steps."""
        return means_of(self.at, self.places[0], self.controls.duration, steps)


def _shrink(
    square: NDArray[np.float64] | np.floating, largest: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the factor ``s = (1 + (q/Q)^4)^(-1/8)`` of vectors with squared norm q and bound Q, and ds/dq."""
    # The fourth power of larger ratios would overflow; their factor is the same to all digits.
    ratio = np.minimum(np.asarray(square) / largest, 1e30)
    inner = 1.0 + ratio ** (CLIP_POWER / 2)
    factor = inner ** (-1.0 / CLIP_POWER)
    return factor, -0.5 * factor / inner * ratio ** (CLIP_POWER / 2 - 1) / largest


def _shrunk_back(
    v: NDArray[np.float64], gradient: NDArray[np.float64], largest: float, axes: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the gradient by v from the one by ``s(|v|^2) v``, with norms over some axes."""
    # d(s v) = s dv + 2 s' v (v . dv), and its transpose is itself.
    factor, slope = _shrink(np.sum(v**2, axis=axes, keepdims=True), largest)
    return factor * gradient + 2.0 * slope * v * np.sum(v * gradient, axis=axes, keepdims=True)


def _grow(square: NDArray[np.float64] | np.floating, largest: float) -> NDArray[np.float64]:
    """Return the factor that takes vectors to those that `_shrink` takes to them, or near their bound."""
    square = np.maximum(np.asarray(square), TINY)
    # Vectors beyond the bound have no preimage; they are drawn just inside first.
    inside = np.minimum(1.0, MARGIN * np.sqrt(largest / square))
    ratio = (inside**2 * square / largest) ** (CLIP_POWER / 2)
    return inside * (1.0 - ratio) ** (-1.0 / CLIP_POWER)
