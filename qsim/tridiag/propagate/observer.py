"""Records of a state at an output time: norms, positions, currents, energies, populations.

Every process of a run takes its share of each sum over its own points, and the shares are added in the order of the processes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.links import HostLinks, total
from qsim.core.device.parallel import SerialComm
from qsim.tridiag.propagate.lattice import apply_h, energy
from qsim.tridiag.propagate.stepping.shared import part_of
from qsim.tridiag.solver.shared import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Array
    from qsim.core.device.links import Links
    from qsim.tridiag.propagate.problem import Propagation

__all__ = ["Observer"]

# points of a large grid that an energy is taken of at once
WINDOW = 1 << 24
# points around them; the inverse mass matrix falls off tenfold per point
OVERLAP = 40


class Observer:
    """Takes everything that is written at an output time from a state on the device.

    Parameters
    ----------
    problem : Propagation
    span : Span, optional
        Points that this process owns; all of them without it.
    links : Links, optional
        To the processes that own the others.
    """

    def __init__(self, problem: Propagation, span: Span | None = None, links: Links | None = None) -> None:
        self.problem, self.lattice = problem, problem.lattice
        self.xp = problem.device.xp
        self.links = HostLinks(SerialComm(), problem.device) if links is None else links
        self.span = Span(0, self.lattice.points, self.lattice.points) if span is None else span
        convert, own = problem.device.asarray, slice(self.span.low, self.span.high)
        self.x = convert(self.lattice.x[own])
        self.slope = None if self.lattice.slope is None else convert(self.lattice.slope[own])
        self._at_walls = np.array([self.span.low == 0, self.span.high == self.span.rows], float)
        # counted with the walls, where the density is zero
        columns = problem.columns
        self._all = range(columns.start - 1, columns.stop - 1, columns.step)
        self._columns = _within(self._all, self.span)
        self.states = None
        if problem.states is not None:
            low, high = self._levels(problem.states.shape[1])
            self.states = convert(np.ascontiguousarray(problem.states[:, low : max(low, high)]))
        self.radii = [self._part(-r, r) for r in problem.observed.norm_within]
        self.places = [self._part(place, math.inf) for place in problem.observed.norm_right]

    def _levels(self, width: int) -> tuple[int, int]:
        """Return first and last of the own points, counted from the start of the window of the eigenstates."""
        window = self.problem.window
        return max(self.span.low - window, 0), min(self.span.high - window, width)

    def _part(self, low: float, high: float) -> tuple[int, int, float, float]:
        """Return first and last point of an interval and their weights: the share of the cells of width dx around them."""
        lattice = self.lattice
        bounds = [(v - lattice.xmin) / lattice.dx + 0.5 for v in (low, high)]
        cells = [min(max(v, 0.0), float(lattice.points)) for v in bounds]
        # an edge on a point or between two points is meant exactly there: rounding of the deck's numbers must
        # not move it
        cells = [float(round(2 * v)) / 2 if abs(2 * v - round(2 * v)) < 1e-6 else v for v in cells]
        first, last = math.floor(cells[0]), math.ceil(cells[1]) - 1
        return first, last, first + 1.0 - cells[0], cells[1] - last

    def _inside(self, psi: Array, part: tuple[int, int, float, float]) -> Array:
        """Return the own share of the norm in an interval of `_part`, a number of the device."""
        low, high = self.span.low, self.span.high
        first, last, left, right = part
        # nothing of the interval lies in the box
        if last < first:
            return self.xp.zeros((), float)
        if first == last:
            left, right = left + right - 1.0, 0.0
        # cells that the interval cuts count by their part inside it
        ends = self.xp.zeros((), float)
        for point, weight in ((first, left), (last, right)):
            if low <= point < high and weight:
                ends = ends + weight * abs(psi[point - low]) ** 2
        middle = psi[max(first + 1 - low, 0) : max(last - low, 0)]
        return (self.xp.vdot(middle, middle).real + ends) * self.lattice.dx

    def sums(self, psi: Array) -> NDArray[np.float64]:
        """Return norm, <x> and <V'> (for the acceleration, Eq. T20) of a state, not divided by the norm; `psi`: own points."""
        # the serial solvers keep their state on the host
        psi = self.problem.device.asarray(psi)
        density, dx = self.xp.abs(psi) ** 2, self.lattice.dx
        slope = 0.0 if self.slope is None else float(density @ self.slope)
        own = np.array([float(density.sum()) * dx, float(density @ self.x) * dx, slope * dx])
        return total(self.links, own)

    def near(self, psi: Array, windows: Sequence[range]) -> NDArray[np.complex128]:
        """Return a state on some parts of the grid, (parts, points), whoever owns them; a collective call.

        Parameters
        ----------
        psi : (points,) complex
            Own points.
        windows
            Points of each part, equally many.
        """
        found = np.zeros((len(windows), len(windows[0])), dtype=complex)
        for part, window in zip(found, windows, strict=True):
            low, high = max(window.start, self.span.low), min(window.stop, self.span.high)
            if low < high:
                own = psi[low - self.span.low : high - self.span.low]
                part[low - window.start : high - window.start] = self.problem.device.to_host(own)
        both = total(self.links, np.concatenate([found.real.ravel(), found.imag.ravel()]))
        real, imag = both.reshape(2, *found.shape)
        return np.asarray(real + 1j * imag)

    def row(self, step: int, psi: Array, sums: Sequence[float] | NDArray[np.float64]) -> dict[str, Any]:
        """Return the row of an output time.

        Parameters
        ----------
        step
            Number of steps done.
        psi : (points,) complex
            Own points of the state.
        sums
            As `Propagator.advance` returns them.
        """
        problem = self.problem
        psi = problem.device.asarray(psi)
        time = step * problem.dt
        field, a = float(problem.electric(time)[0]), float(problem.kick(time)[0])
        # current and energy couple a point with its neighbours, which another process may hold
        wide, offset = self._with_neighbours(psi)
        shares = {
            "velocity": self._current(wide, offset).reshape(1),
            # density beside the left and the right wall: other processes multiply theirs by 0
            "walls": abs(psi[:: len(psi) - 1]) ** 2 * self.lattice.dx * self.xp.asarray(self._at_walls),
        }
        for name, parts in (("norm_within", self.radii), ("norm_right", self.places)):
            if parts:
                shares[name] = self.xp.stack([self._inside(psi, part) for part in parts])
        if self.states is not None:
            shares["amplitudes"] = self._amplitudes(psi, a)
        density = abs(psi[self._columns]) ** 2
        # all that comes from the device in one array: a copy costs a synchronisation
        # one copy for all
        host = problem.device.to_host(self.xp.concatenate([*shares.values(), density]))
        ends = np.cumsum([share.size for share in shares.values()])
        own = np.append(host[: ends[-1]].astype(float), self._energy(wide, offset, a))
        # added in the order of the ranks: the same bits on all of them
        summed = total(self.links, own)
        sums_by_name = dict(zip(shares, np.split(summed[:-1], ends[:-1]), strict=True))
        density_map = self._all_columns(host[ends[-1] :])
        if self.states is not None:
            real, imag = np.split(sums_by_name.pop("amplitudes"), 2)
            held = (real**2 + imag**2) * self.lattice.dx**2
            if problem.levels:
                sums_by_name["populations"] = held[: problem.levels]
            if problem.bound:
                sums_by_name["bound"] = held[: problem.bound].sum()
                # what levels hold that another grid may have on the other side of the threshold
                sums_by_name["near"] = held[problem.bound - 1 : problem.bound + 1]
        norm = float(sums[0])
        return {
            "norm": norm,
            "dipole": float(sums[1]),
            "acceleration": -float(sums[2]) - field,
            "energy": float(summed[-1]),
            **{name: values for name, values in sums_by_name.items() if name != "walls"},
            "density": density_map,
            "wall_density": float(sums_by_name["walls"].sum()),
            "velocity": float(sums_by_name["velocity"][0]) + a * norm,
        }

    def _with_neighbours(self, psi: Array) -> tuple[Array, int]:
        """Return the own points between points of the neighbours, and the number of points before them."""
        if self.links.size == 1:
            return psi, 0
        copy = self.xp.ascontiguousarray
        before, after = self.links.edges(copy(psi[:OVERLAP]), copy(psi[-OVERLAP:]))
        parts = [part for part in (before, psi, after) if part is not None]
        return self.xp.concatenate(parts), 0 if before is None else OVERLAP

    def _all_columns(self, own: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the density map of all processes, and zeros at the walls."""
        columns = self._all
        whole = np.zeros(len(columns), own.dtype)
        start = max(0, -(-(self.span.low - columns.start) // columns.step))
        whole[start : start + len(own)] = own
        return total(self.links, whole)

    def _current(self, wide: Array, offset: int) -> Array:
        """Return the own share of ``<p>`` by the central difference, of the order of the stencil; a number of the device."""
        end = offset + self.span.size

        def pairs(distance: int) -> Array:
            # pairs are counted by the process of their right point
            start = max(offset, distance)
            return self.xp.vdot(wide[start - distance : end - distance], wide[start:end]).imag

        current = pairs(1)
        if self.lattice.stencil == "numerov":
            # fourth-order first difference, (8 (f_1 - f_-1) - (f_2 - f_-2)) / 12, as pairs
            current = (8.0 * current - pairs(2)) / 6.0
        return self.xp.asarray(current)

    def _energy(self, wide: Array, offset: int, a: float) -> float:
        """Return the own share of the field-free energy, in windows on a large grid: what H needs around a window is local.

        In double precision throughout: the differences of the kinetic part cancel all but ``(k dx)^2`` of their terms, and in
        single precision nothing is left of it on a fine grid.
        """
        lattice, first_row = self.lattice, self.span.low - offset
        if self.links.size == 1 and lattice.points <= WINDOW:
            return energy(lattice, wide.astype(complex, copy=False), a)
        share = 0.0
        # H couples a point with its neighbours (Numerov: within OVERLAP, to rounding), so the sum can be taken window by window
        for low in range(self.span.low, self.span.high, WINDOW):
            high = min(self.span.high, low + WINDOW)
            first, last = max(0, low - OVERLAP), min(lattice.points, high + OVERLAP)
            psi = wide[first - first_row : last - first_row].astype(complex, copy=False)
            inside = slice(low - first, high - first)
            h = apply_h(part_of(lattice, slice(first, last)), psi, 0.0, a)
            share += float(self.xp.vdot(psi[inside], h[inside]).real)
        return share * lattice.dx

    def _amplitudes(self, psi: Array, a: float) -> Array:
        """Return the own shares of Re and Im of ``<n|psi> / dx`` of the length-gauge state, one after the other."""
        states = self.states
        assert states is not None
        assert self.problem.states is not None
        start = self.problem.window + self._levels(self.problem.states.shape[1])[0] - self.span.low
        window = slice(start, start + states.shape[1])
        psi = psi[window]
        # populations refer to the length-gauge state, exp(i A x) psi
        if a:
            psi = psi * self.xp.exp(1j * a * self.x[window])
        real, imag = self.xp.ascontiguousarray(psi.real), self.xp.ascontiguousarray(psi.imag)
        return self.xp.concatenate([states @ real, states @ imag])


def _within(columns: range, span: Span) -> slice:
    """Select the columns that lie in a span, counted from its start."""
    start, stop, step = columns.start, columns.stop, columns.step
    first = start + step * max(0, -(-(span.low - start) // step))
    last = min(stop, span.high)
    return slice(first - span.low, last - span.low, step) if first < last else slice(0, 0, 1)
