"""Motion of two coordinates on their grid: a split operator of order 4 with Fourier transforms, no levels.

``exp(-i tau (T + V)) = prod_k exp(-i a_k tau T) exp(-i b_k tau V)`` with six stages (Blanes and Moan, J. Comput. Appl. Math. 142,
313 (2002)). Walls of the sine basis are points where the wavefunction vanishes: on the periodic grid of one point more, T is
diagonal in the momenta, ``p1^2/2m1 + p2^2/2m2 + g p1 p2``. Nothing but the functions at the points is shared with the levels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.kernels.portions import look

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, FloatArray
    from qsim.qoc.models.plane.levels import Plane

# Coefficients of the six stages, Blanes and Moan 2002, Table 2 (S6, order 4): a for one part, b for the other, symmetric.
A = (0.0792036964311957, 0.353172906049774, -0.0420650803577195)
B = (0.209515106613362, -0.143851773179818)
# Phase of the fastest kinetic motion in one step: Henon and Heiles with twice as much errs by 2e-9.
PHASE = 8.0


class GridMotion:
    """Wavefunctions on the grid of a plane under held fields.

    Parameters
    ----------
    plane : Plane
    names : sequence of str
        Components of the dipole, in the order of the fields.
    """

    def __init__(self, plane: Plane, names: list[str]) -> None:
        self.plane = plane
        momenta = []
        for axis in plane.axes:
            spacing = float(axis.x[1] - axis.x[0])
            momenta.append(2.0 * np.pi * np.fft.fftfreq(axis.x.size + 1, spacing))
        p, q = momenta[0][:, None], momenta[1]
        self.kinetic: FloatArray = p**2 / (2.0 * plane.mass[0]) + q**2 / (2.0 * plane.mass[1])
        self.kinetic = self.kinetic + plane.coupling * p * q
        self.potential = self._periodic(plane.potential)
        self.dipoles = [self._periodic(plane.dipoles[name]) for name in names]

    def _periodic(self, values: FloatArray) -> FloatArray:
        """Return values (n1 + 1, n2 + 1) with those next to the wall also on it, where nothing is."""
        return np.pad(values, ((1, 0), (1, 0)), mode="edge")

    def least_steps(self, tau: float) -> int:
        """Return the steps of a slot of length tau in which kinetic energies turn phases by at most `PHASE`."""
        return max(1, math.ceil(tau * float(np.ptp(self.kinetic)) / PHASE))

    def amplitudes(
        self, columns: ComplexArray, fields: NDArray[np.float64], tau: float, steps: int
    ) -> ComplexArray:
        """Return the amplitudes of the levels at T.

        Parameters
        ----------
        columns : (K, S) complex128
            Amplitudes of the levels at t = 0.
        fields : (C, N) float64
            Held values of the fields, a.u.
        tau : float
            Length of a slot, a.u.
        steps : int
            Steps of the split operator in a slot.

        Returns
        -------
        (K, S) complex128
        """
        from scipy.fft import fft2, ifft2

        levels = self.plane.states.reshape(len(self.plane.states), -1)
        shape = self.plane.potential.shape
        psi = np.zeros((columns.shape[1], shape[0] + 1, shape[1] + 1), dtype=np.complex128)
        psi[:, 1:, 1:] = (columns.T @ levels).reshape(-1, *shape)
        step = tau / steps
        outer, middle = (*A, 1.0 - 2.0 * sum(A)), (*B, 0.5 - sum(B))
        # Stages a1 b1 a2 b2 a3 b3 a4 b3 a3 b2 a2 b1 a1: the kinetic part is b, the cheap phases a.
        kinetic = [np.exp(-1j * b * step * self.kinetic) for b in (*middle, *reversed(middle))]
        phases = (*outer, *reversed(outer[:-1]))
        for slot in fields.T:
            look()
            potential = self.potential.copy()
            for u, dipole in zip(slot, self.dipoles, strict=True):
                potential -= u * dipole
            # Symmetric halves: a_k of the first stages serve the last ones.
            half = [np.exp(-1j * a * step * potential) for a in outer]
            turns = [half[min(k, len(phases) - 1 - k)] for k in range(len(phases))]
            # The last phase of a step and the first one of the next are one.
            joined = turns[0] * turns[0]
            psi *= turns[0]
            for number in range(steps):
                for turn, carry in zip(turns[1:], kinetic, strict=True):
                    psi = fft2(psi, overwrite_x=True)
                    psi *= carry
                    psi = ifft2(psi, overwrite_x=True)
                    last = turn is turns[-1] and carry is kinetic[-1]
                    psi *= joined if last and number + 1 < steps else turn
        return np.asarray(levels @ psi[:, 1:, 1:].reshape(len(psi), -1).T)
