"""Propagation of a wavefunction whose grid points lie on several processes; no process ever holds all of it.

Two ways.  ``local``: every process makes passes of K steps over its points and a halo of its neighbours', then gets new halos:
two messages per process and pass.  ``exact`` and ``literal``: every step solves the system of the paper's partition with a block,
or several, per process; of each only its joint lines are gathered (:mod:`qsim.tridiag.solver.shared`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.kernels.crank_nicolson.steps import Shape, cn_steps
from qsim.tridiag.propagate.lattice import Lattice, mass
from qsim.tridiag.propagate.stepping.propagator import AUTOMATIC, Propagator
from qsim.tridiag.solver.shared import SharedSolver, spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.core.device.links import Links
    from qsim.tridiag.propagate.stepping.propagator import Mode, Stepping

__all__ = ["SharedPropagator", "part_of"]

Fields = tuple["NDArray[np.float64] | None", "NDArray[np.float64] | None"]


def part_of(lattice: Lattice, rows: slice) -> Lattice:
    """Return some neighbouring points of a lattice as a lattice."""

    def cut(values: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        return None if values is None else values[rows]

    return Lattice(
        lattice.xmin + rows.start * lattice.dx,
        lattice.dx,
        rows.stop - rows.start,
        lattice.stencil,
        lattice.potential[rows],
        cut(lattice.slope),
        cut(lattice.cap),
        cut(lattice.mask),
    )


class SharedPropagator(Propagator):
    """The part of a Crank-Nicolson propagation that one of several processes carries; every call is made by all of them.

    Parameters
    ----------
    device : Device
    lattice : Lattice
        The whole grid.
    psi0 : (n,) complex
        State on the whole grid, of which only the own part is kept.
    dt : float
        Time step, a.u.
    fields
        E and A at the midpoints of the steps, or None.
    links : Links
        To the other processes.
    how : Stepping

    Attributes
    ----------
    span : Span
        Own rows.

    Raises
    ------
    InvalidInput
        If ``mode="local"`` and the inverse decays too slowly for chunks, or for the points of a process.
    """

    def __init__(
        self,
        device: Device,
        lattice: Lattice,
        psi0: NDArray[np.complexfloating],
        dt: float,
        fields: Fields,
        links: Links,
        how: Stepping = AUTOMATIC,
    ) -> None:
        self.links = links
        self._prepare(device, lattice, dt, fields, how)
        literal = how.wanted == "literal"
        # all processes take the same chunks: those that the largest part needs
        all_spans = spans(lattice.points, links.size, how.blocks if literal else "auto")
        self.span = all_spans[links.rank]
        # for the choice, which all processes must make alike
        self.rows = max(span.size for span in all_spans)
        self._least = min(span.size for span in all_spans)
        self.shape = how.shape or self._choose("literal" if how.wanted == "exact" else how.wanted)
        self.mode = self._mode(how)
        # without chunks a process holds its rows and the joint line at their left; with chunks also a halo on
        # either side
        window = self.span.window if self.shape is None else self.span.wider(self.shape.halo)
        self.offset = self.span.low - window.start
        # from here on the propagator sees the window as its lattice
        self.whole, self.lattice = self.lattice, part_of(lattice, window)
        self._allocate(psi0[window], how)
        with device.use():
            if self.shape is None:
                self._solver = SharedSolver(device, self.span, links, how.iterations if literal else "auto")
                self._v = device.asarray(self.lattice.potential, self.complex)
                if self.lattice.cap is not None:
                    self._v = self._v - 1j * device.asarray(self.lattice.cap, self.real)
            self._x = device.asarray(self.lattice.x, self.real)
            # samples are taken by `_sums` over the own rows, not by the kernel, which would count halos
            self._none = device.xp.zeros((1, 1, 3), self.real if device.is_cuda else float)

    # ------------------------------------------------------------------------------------- choosing

    def _whole(self, n: int) -> Shape | None:
        """Return None: no process has the whole grid."""
        return None

    def _fit_cpu(self, n: int, reach: int, steps: int) -> tuple[Shape, float] | None:
        return super()._fit_cpu(n, reach, steps) if reach <= self._least else None

    def _fit_cuda(self, n: int, reach: int, steps: int) -> tuple[Shape, float] | None:
        return super()._fit_cuda(n, reach, steps) if reach <= self._least else None

    def _choose(self, mode: Mode) -> Shape | None:
        """Return what process 0 chooses: processors may differ in what they measure, but all must do the same."""
        chosen = super()._choose(mode)
        # seven numbers make a Shape; all zeros stand for none
        mine = np.zeros(7, np.int64)
        if chosen is not None:
            mine[:] = (
                chosen.chunk,
                chosen.halo,
                chosen.steps,
                chosen.rows,
                chosen.threads,
                chosen.most,
                chosen.resident,
            )
        numbers = [int(value) for value in self.links.gather(mine)[0]]
        return Shape(*numbers) if numbers[0] else None

    # ------------------------------------------------------------------------------------- stepping

    @property
    def own(self) -> Array:
        """The part of the wavefunction that this process owns, on the device."""
        return self.psi[self.offset : self.offset + self.span.size]

    def _passes(self, shape: Shape, steps: int, every: int) -> NDArray[np.float64]:
        """Make passes that end where samples are taken; those are sums over the own rows."""
        samples, done = [], 0
        while done < steps:
            # a pass ends at a sample: the sums need rows of one time
            boundary = min((done // every + 1) * every, steps)
            length = min(shape.steps, boundary - done)
            cn_steps(
                self.device, self._operator, self.psi, self._out, self._rows(length), shape, 0, self._none
            )
            self.psi, self._out = self._out, self.psi
            # a pass has used up the halo: its rows come from the processes that own them
            self._renew(shape.halo)
            done += length
            self.step += length
            if done % every == 0:
                samples.append(self._sums())
        return self._together(samples)

    def _renew(self, halo: int) -> None:
        """Get the halos of this process from its neighbours."""
        own, xp = self.own, self.device.xp
        # neighbours exchange the rows at their common edge; at the walls there is nobody
        before, after = self.links.edges(xp.ascontiguousarray(own[:halo]), xp.ascontiguousarray(own[-halo:]))
        if before is not None:
            self.psi[: self.offset] = before[halo - self.offset :]
        if after is not None:
            beyond = len(self.psi) - self.offset - self.span.size
            self.psi[len(self.psi) - beyond :] = after[:beyond]

    def _solve_steps(self, steps: int, every: int) -> NDArray[np.float64]:
        samples = []
        for number in range(1, steps + 1):
            field, a = (0.0 if f is None else float(f[self.step]) for f in self._fields)
            self.psi = self._solve_step(field, a)
            self.step += 1
            if number % every == 0:
                samples.append(self._sums())
        return self._together(samples)

    def _together(self, samples: list[tuple[float, float, float]]) -> NDArray[np.float64]:
        """Return the sums of samples over the processes."""
        from qsim.core.device.links import total

        return total(self.links, np.array(samples, float).reshape(-1, 3))

    def _solve_step(self, field: float, a: float) -> Array:
        """Return ``psi' = 2 T^-1 M psi - psi`` (Eq. T5), own rows and the joint line at their left."""
        lower, main, upper = self._bands(field, a)
        right = mass(self.lattice, self.psi, a)
        # `mass` returns psi itself for three points, and right is changed below
        if right is self.psi:
            right = self.psi.copy()
        if self.links.rank:
            # both processes add to the equation of a joint line: each part of it must be added once
            # of the joint line at the left the neighbour has everything but what follows it
            main[0] = 0
            right[0] = 0
            if self.lattice.stencil == "numerov":
                right[0] = self.psi[1] * complex(np.exp(1j * a * self.lattice.dx) / 12.0)
        y = self._solver.solve(main, lower, upper, right.astype(self.complex, copy=False))
        psi = 2 * y - self.psi
        return psi if self.lattice.mask is None else (psi * self._operator.absorber).astype(self.complex)

    def _bands(self, field: float, a: float) -> tuple[Array, Array, Array]:
        """Return lower, main and upper diagonal of T on the device, as :func:`qsim.tridiag.propagate.lattice.bands` has them."""
        xp, lattice = self.device.xp, self.lattice
        tau, dx, kind = 0.5 * self.dt, lattice.dx, self.complex
        sigma = tau / (2.0 * dx**2)
        # bands of the own rows alone, on the device: no process has the whole matrix
        v = self._v + self._x * self.real.type(field)
        if lattice.stencil == "three_point":
            main = kind.type(1j * tau) * v + kind.type(1.0 + 1j * tau * (1.0 / dx**2 + 0.5 * a * a))
            upper = xp.full(lattice.points, -1j * sigma * (1.0 + 1j * a * dx), kind)
            lower = xp.full(lattice.points, -1j * sigma * (1.0 - 1j * a * dx), kind)
        else:
            u = kind.type(1j * tau / 12.0) * v + kind.type(1.0 / 12.0 - 1j * sigma)
            phase = complex(np.exp(1j * a * dx))
            main = kind.type(10.0) * u + kind.type(12j * sigma)
            upper, lower = xp.zeros_like(u), xp.zeros_like(u)
            upper[:-1] = kind.type(phase) * u[1:]
            lower[1:] = kind.type(phase.conjugate()) * u[:-1]
        lower[0] = upper[-1] = 0
        return lower, main, upper

    def sums(self) -> NDArray[np.float64]:
        """Return the sums of the state of all processes, (3,)."""
        with self.device.use():
            return self._together([self._sums()])[0] * self.lattice.dx

    def _sums(self) -> tuple[float, float, float]:
        """Return the sums of the own rows."""
        part = slice(self.offset, self.offset + self.span.size)
        density = abs(self.psi[part]) ** 2
        slope = self._operator.slope
        force = 0.0 if slope is None else float((density * slope[part]).sum())
        return float(density.sum()), float((density * self._x[part]).sum()), force

    def info(self) -> dict[str, Any]:
        """Return how the steps are done: algorithm, halo, steps per pass, blocks, nested partitions."""
        entries = super().info()
        if self.shape is not None:
            entries["blocks"] = self.shape.chunks(self.whole.points)
        elif not entries["blocks"]:
            entries["blocks"] = self.links.size
        return entries
