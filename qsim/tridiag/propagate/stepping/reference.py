"""Crank-Nicolson steps through a general solver: `solver: {type: thomas | lapack | woodbury}` of a propagation.

Every step builds the three bands of ``T = M (1 + i dt/2 H)`` and solves ``T y = M psi``, ``psi' = 2 y - psi`` (Eq. T5, the
Cayley form; right with an absorber too).  Slower than
:class:`qsim.tridiag.propagate.stepping.propagator.Propagator`, and independent of it: the two agree to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from qsim.tridiag.propagate.lattice import bands, mass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.propagate.lattice import Lattice
    from qsim.tridiag.propagate.stepping.propagator import Stepping

Vector: TypeAlias = "NDArray[Any]"


class SolverPropagator:
    """The interface of ``Propagator``, one solve per step, on the host.

    Parameters
    ----------
    device, lattice, psi0, dt, electric, vector_potential
        As for :class:`qsim.tridiag.propagate.stepping.propagator.Propagator`.
    how : Stepping
        Precision, blocks (of ``woodbury``) and whether to sum V' |psi|^2.
    solver : {"lapack", "thomas", "woodbury"}

    Attributes
    ----------
    psi : (n,) complex128 or complex64
    step : int
        Steps done.
    """

    def __init__(
        self,
        device: Device,
        lattice: Lattice,
        psi0: NDArray[np.complexfloating],
        dt: float,
        electric: NDArray[np.float64] | None,
        vector_potential: NDArray[np.float64] | None,
        how: Stepping,
        solver: Literal["lapack", "thomas", "woodbury"] = "lapack",
    ) -> None:
        self.device, self.lattice, self.dt = device, lattice, dt
        self.electric, self.vector_potential = electric, vector_potential
        self.solver, self.blocks, self.slope = solver, how.blocks, how.slope
        self.dtype = np.complex64 if how.precision == "single" else np.complex128
        self.psi: NDArray[Any] = np.array(device.to_host(psi0), dtype=self.dtype)
        self.step = 0
        self._count = 1

    # one process has all points
    span, offset = None, 0

    @property
    def own(self) -> NDArray[Any]:
        """The wavefunction: one process has all of it."""
        return self.psi

    def advance(self, steps: int, every: int) -> NDArray[np.float64]:
        """Do some steps; return the sums (steps // every, 3) of |psi|^2, x |psi|^2 and V' |psi|^2, times dx."""
        samples = []
        for number in range(1, steps + 1):
            self._one()
            if number % every == 0:
                samples.append(self._sums())
        return np.array(samples).reshape(-1, 3)

    def _one(self) -> None:
        # fields at the midpoint of the step, as everywhere
        field = 0.0 if self.electric is None else float(self.electric[self.step])
        a = 0.0 if self.vector_potential is None else float(self.vector_potential[self.step])
        lower, main, upper = bands(self.lattice, self.dt, field, a)
        right = mass(self.lattice, self.psi, a)
        y = self._solve(*(np.asarray(band, self.dtype) for band in (main, lower, upper, right)))
        # the Cayley form needs no right-hand half step: (1 - i tau H) = 2 - (1 + i tau H)
        self.psi = 2.0 * y - self.psi
        if self.lattice.mask is not None:
            self.psi = self.psi * self.lattice.mask
        self.psi = np.asarray(self.psi, self.dtype)
        self.step += 1

    def _solve(self, main: Vector, lower: Vector, upper: Vector, right: Vector) -> Vector:
        """Solve ``T y = right`` with the bands of T, (n,) each."""
        if self.solver == "lapack":
            from scipy.linalg import get_lapack_funcs

            # pivoted: this path does not rest on the argument that the partition needs no pivoting
            (gtsv,) = get_lapack_funcs(("gtsv",), (main, right))
            *_, y, info = gtsv(lower[1:], main, upper[:-1], right)
            if info:
                # Re T >= 1: cannot happen
                raise ZeroDivisionError(f"gtsv: pivot {info} is zero")
            return np.asarray(y)
        from qsim.tridiag.solver.solve import solve

        solution = solve(main, lower, upper, right, type=self.solver, blocks=self.blocks)
        self._count = solution.blocks
        return np.asarray(solution.x)

    def sums(self) -> NDArray[np.float64]:
        """Return the sums of the state, (3,)."""
        return np.array(self._sums())

    def _sums(self) -> tuple[float, float, float]:
        density = np.abs(self.psi) ** 2
        slope = self.lattice.slope if self.slope else None
        force = 0.0 if slope is None else float(density @ slope)
        dx = self.lattice.dx
        return float(density.sum()) * dx, float(density @ self.lattice.x) * dx, force * dx

    def info(self) -> dict[str, Any]:
        """Return how the steps were done."""
        return {
            "algorithm": self.solver,
            "halo": 0,
            "steps_per_pass": 1,
            "blocks": self._count,
            "iterations": 1,
        }
