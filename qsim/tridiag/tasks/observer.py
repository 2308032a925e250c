"""What is recorded of a state at an output time: norms, positions, currents, energies, populations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.tdse.lattice import Lattice, apply_h, energy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Array
    from qsim.tridiag.problem import Propagation

__all__ = ["Observer"]

WINDOW = 1 << 24  # points of a large grid that an energy is taken of at once
OVERLAP = 40  # points around them; the inverse mass matrix falls off tenfold per point


class Observer:
    """Takes everything that is written at an output time from a state on the device."""

    def __init__(self, problem: Propagation) -> None:
        self.problem, self.lattice = problem, problem.lattice
        self.xp = problem.device.xp
        convert = problem.device.asarray
        self.x = convert(self.lattice.x)
        self.slope = None if self.lattice.slope is None else convert(self.lattice.slope)
        self.states = None if problem.states is None else convert(problem.states)
        self.radii = [self._part(-r, r) for r in problem.observed.norm_within]
        self.places = [self._part(place, math.inf) for place in problem.observed.norm_right]

    def _part(self, low: float, high: float) -> tuple[int, int, float, float]:
        """Return first and last point of an interval and their weights: the share of the cells of width dx around them."""
        lattice = self.lattice
        bounds = [(v - lattice.xmin) / lattice.dx + 0.5 for v in (low, high)]
        cells = [min(max(v, 0.0), float(lattice.points)) for v in bounds]
        cells = [float(round(2 * v)) / 2 if abs(2 * v - round(2 * v)) < 1e-6 else v for v in cells]
        first, last = math.floor(cells[0]), math.ceil(cells[1]) - 1
        return first, last, first + 1.0 - cells[0], cells[1] - last

    def _inside(self, psi: Array, part: tuple[int, int, float, float]) -> Array:
        """Return the norm in an interval of `_part`, a number of the device."""
        first, last, left, right = part
        if last < first:
            return self.xp.zeros((), float)
        if first == last:
            return abs(psi[first]) ** 2 * ((left + right - 1.0) * self.lattice.dx)
        ends = left * abs(psi[first]) ** 2 + right * abs(psi[last]) ** 2
        middle = psi[first + 1 : last]
        return (self.xp.vdot(middle, middle).real + ends) * self.lattice.dx

    def sums(self, psi: Array) -> tuple[float, float, float]:
        """Return norm, <x> and <V'> (for the acceleration, Eq. T20) of a state, not divided by the norm."""
        psi = self.problem.device.asarray(psi)  # the serial solvers keep their state on the host
        density, dx = self.xp.abs(psi) ** 2, self.lattice.dx
        slope = 0.0 if self.slope is None else float(density @ self.slope)
        return float(density.sum()) * dx, float(density @ self.x) * dx, slope * dx

    def row(self, step: int, psi: Array, sums: Sequence[float] | NDArray[np.float64]) -> dict[str, Any]:
        """Return the row of an output time; `sums` as `Propagator.advance` returns them."""
        problem, xp = self.problem, self.xp
        psi = problem.device.asarray(psi)
        time = step * problem.dt
        field, a = float(problem.field_at(time)), float(problem.vector_at(time))
        a = a if problem.velocity_gauge else 0.0
        walls = abs(psi[:: len(psi) - 1]) ** 2 * self.lattice.dx
        pieces = {
            "velocity": self._current(psi).reshape(1),
            "density": abs(psi[problem.columns]) ** 2,
            "walls": walls,
        }
        for name, parts in (("norm_within", self.radii), ("norm_right", self.places)):
            if parts:
                pieces[name] = xp.stack([self._inside(psi, part) for part in parts])
        if self.states is not None:
            pieces["populations"] = self._populations(psi, a)
        host = problem.device.to_host(xp.concatenate(list(pieces.values())))  # one copy for all
        ends = np.cumsum([piece.size for piece in pieces.values()])
        found = dict(zip(pieces, np.split(host, ends[:-1]), strict=True))
        norm = float(sums[0])
        return {
            "norm": norm,
            "dipole": float(sums[1]),
            "acceleration": -float(sums[2]) - field,
            "energy": self._energy(psi, a),
            **{name: values for name, values in found.items() if name != "walls"},
            "wall_density": float(found["walls"].sum()),
            "velocity": float(found["velocity"][0]) + a * norm,
        }

    def _current(self, psi: Array) -> Array:
        """Return ``<p>`` by the central difference, of the order of the stencil; a number of the device."""
        current = self.xp.vdot(psi[:-1], psi[1:]).imag
        if self.lattice.stencil == "numerov":
            current = (8.0 * current - self.xp.vdot(psi[:-2], psi[2:]).imag) / 6.0
        return self.xp.asarray(current)

    def _energy(self, psi: Array, a: float) -> float:
        """Return the field-free energy, in windows on a large grid: what H needs of a window's surroundings is local.

        In double precision throughout: the differences of the kinetic part cancel all but ``(k dx)^2`` of their terms, and in
        single precision nothing is left of it on a fine grid.
        """
        lattice, n = self.lattice, self.lattice.points
        if n <= WINDOW:
            return energy(lattice, psi.astype(complex, copy=False), a)
        total = 0.0
        for low in range(0, n, WINDOW):
            high = min(n, low + WINDOW)
            first, last = max(0, low - OVERLAP), min(n, high + OVERLAP)
            part = Lattice(
                lattice.xmin + first * lattice.dx,
                lattice.dx,
                last - first,
                lattice.stencil,
                lattice.potential[first:last],
            )
            h = apply_h(part, psi[first:last].astype(complex, copy=False), 0.0, a)
            total += float(self.xp.vdot(psi[low:high], h[low - first : high - first]).real)
        return total * lattice.dx

    def _populations(self, psi: Array, a: float) -> Array:
        """Return ``|<n|psi>|^2`` of the levels, of the length-gauge state in either gauge."""
        states, dx = self.states, self.lattice.dx
        assert states is not None
        window = slice(self.problem.window, self.problem.window + states.shape[1])
        psi = psi[window]
        if a:
            psi = psi * self.xp.exp(1j * a * self.x[window])
        real, imag = self.xp.ascontiguousarray(psi.real), self.xp.ascontiguousarray(psi.imag)
        return ((states @ real) ** 2 + (states @ imag) ** 2) * dx**2
