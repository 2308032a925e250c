"""Steps of two coordinates with exact kinetic phases between sine waves: slower, and independent of the recursive filters."""

from __future__ import annotations

import numpy as np

from qsim.tridiag.plane.propagator import PlanePropagator

__all__ = ["SinePropagator"]


class SinePropagator(PlanePropagator):
    """The interface of `PlanePropagator`; free motion has the energies ``k^2 / 2m``, without the errors of a lattice."""

    def advance(self, steps: int) -> None:
        """Make some steps."""
        lattice, stages = self.lattice, len(self.stages)
        potential = lattice.potential()
        kinetic = [
            0.5 / a.mass * (np.pi * np.arange(1, a.points + 1) / (a.high - a.low)) ** 2 for a in lattice.axes
        ]
        energies = kinetic[0][:, None] + kinetic[1]
        x, y = lattice.axes[0].x[:, None], lattice.axes[1].x
        gamma = lattice.absorber[0][:, None] + lattice.absorber[1]
        e, f = self.inside[0][:, None], self.inside[1]
        double = (1.0 - e) * (1.0 - f)
        psi = self.psi
        for step in range(self.step, self.step + steps):
            for k, share in enumerate(self.stages):
                length, action = share * self.dt, self.actions[:, step * stages + k]
                half = np.exp(-0.5j * (length * potential + action[0] * x + action[1] * y))
                psi = psi * half * self._bent(psi, length)
                if k == 0:
                    psi = self._absorbed(psi, gamma, double)
                if lattice.turns:
                    first = (step * stages + k) % 2
                    for number in (first, 1 - first):
                        own = lattice.along(np.ones(lattice.shape, complex), number)
                        turn = np.exp(-1j * length * kinetic[number])
                        turn = turn[:, None] if number == 0 else turn
                        psi = own.conj() * _waves(turn * _waves(own * psi, (number,)), (number,))
                else:
                    psi = _waves(np.exp(-1j * length * energies) * _waves(psi, (0, 1)), (0, 1))
                psi = psi * half * self._bent(psi, length)
            psi = self._absorbed(psi, gamma, double)
        self.psi = psi
        self.step += steps

    def _bent(self, psi: np.ndarray, length: float) -> np.ndarray | float:
        """Return the factors of ``g |psi|^2`` in half a stage."""
        g = self.lattice.nonlinear
        return np.exp(-0.5j * length * g * np.abs(psi) ** 2) if g else 1.0

    def _absorbed(self, psi: np.ndarray, gamma: np.ndarray, double: np.ndarray) -> np.ndarray:
        """Return what the absorber leaves in half a step, and count what it takes."""
        if not self.lattice.absorbs:
            return psi
        kept = np.exp(-0.5 * self.dt * gamma)
        taken = np.abs(psi) ** 2 * (1.0 - kept**2) * self.lattice.cell
        beyond = float((taken * double).sum())
        self.lost += np.array([float(taken.sum()) - beyond, beyond])
        return np.asarray(psi * kept)


def _waves(psi: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return the amplitudes of sine waves along some axes; the transform is its own inverse."""
    from scipy.fft import dstn

    return np.asarray(
        dstn(psi.real, type=1, norm="ortho", axes=axes) + 1j * dstn(psi.imag, type=1, norm="ortho", axes=axes)
    )
