"""t-SURFF of any geometry: the flux through a surface, against time, as a spectrum with its error.

What the potential beyond the surface does falls as 1/R: a second surface at 3/4 of the radius, with another flux, says how much
is left.  What absorber and wall send back adds to the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.physics.integrals import running_integral
from qsim.core.run.loop import Progress
from qsim.tridiag.tdse.photoelectrons import Photoelectrons, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.tridiag.tdse.motion import Motion

__all__ = ["INNER", "SENT_BACK", "SIDE", "SLOPE", "Flux", "Surface", "sample_weights"]

# radius of the second surface over the radius of the first
INNER = 0.75
# error over the difference of both, of an error that falls as 1/R
# b(R) = b + c / R: b(R) - b = LIMIT (b(3R/4) - b(R))
LIMIT = INNER / (1.0 - INNER)
# change of a spectrum over the wave sent back: 2 as it goes in, 2 as it comes out again, and some room
SENT_BACK = 5.0
# points of A between two samples
FINE = 8
# points on either side of a surface that the slope is taken from
SIDE = 3
# central difference of sixth order
SLOPE = np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 60.0
# weights at the ends of an integral over even samples, order 4
GREGORY = np.array([251.0, 897.0, 633.0, 739.0]) / 720.0


@dataclass(frozen=True)
class Surface:
    """The wave function on a surface against time.

    Attributes
    ----------
    sphere : Any
        Where it lies; of the geometry.
    time : (samples,) float64
        Even, a.u.
    value, slope : (samples, channels) complex128
        Wave function and its slope there, in velocity gauge: u_l and du_l/dr at R, zero beyond the l of their time; of a line,
        psi and psi' at both places.
    a, alpha : (samples,) or (samples, 2) float64
        A and its integral; in a plane, their x and y.
    """

    sphere: Any
    time: NDArray[np.float64]
    value: NDArray[np.complex128]
    slope: NDArray[np.complex128]
    a: NDArray[np.float64]
    alpha: NDArray[np.float64]


def sample_weights(time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of an integral over even samples, of fourth order if there are enough, (samples,)."""
    weights = np.full(time.size, float(time[1] - time[0]))
    ends = GREGORY.size
    # corrections at both ends must not overlap
    if weights.size >= 2 * ends:
        weights[:ends] *= GREGORY
        weights[-ends:] *= GREGORY[::-1]
    else:
        weights[[0, -1]] *= 0.5
    return weights


class Flux:
    """The integrals over time, sample by sample, and over energies after the end.

    Parameters
    ----------
    result, block
        Propagation with its flux, and block of the deck.
    phi : (..., n) complex128
        State at the end in length gauge, where A = 0.
    """

    def __init__(self, result: Any, block: Any, phi: NDArray[np.complex128]) -> None:
        self.result, self.block, self.phi = result, block, phi
        self.energy = np.linspace(block.energy[0], block.energy[1], block.points)
        self.k = np.sqrt(2.0 * self.energy)
        self.time, self.a, self.alpha = _field(result.problem, result.trace[:, 0] * result.problem.dt)
        # largest phase k alpha: it sets how many directions the integral over angles needs
        self.reach = float(self.k[-1] * np.hypot.reduce(self.alpha, axis=0).max())
        self.passed: list[NDArray[np.complex128]] = []

    @property
    def total(self) -> int:
        """Number of samples of both surfaces."""
        return 2 * self.time.size

    def advance(self, report: Report) -> None:
        """Find the amplitudes of both surfaces."""
        problem, done = self.result.problem, 0

        def each() -> None:
            nonlocal done
            done += 1
            report(Progress(done))

        # of one component (samples,), of two (samples, 2)
        a, alpha = (x[0] if x.shape[0] == 1 else x.T for x in (self.a, self.alpha))
        for k, sphere in enumerate(problem.spheres):
            value, slope = self.result.flux[:, k, 0], self.result.flux[:, k, 1]
            b = self.amplitudes(Surface(sphere, self.time, value, slope, a, alpha), each)
            if self.block.tail == "isurfv":
                # the resolvent adds what passes from the end of the run to infinity
                b += self.tail(sphere, float(self.time[-1]))
            self.passed.append(b)
        self.found = self._finished()

    def amplitudes(self, seen: Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
        """Return b(k) from the wave function and its slope on a surface."""
        raise NotImplementedError

    def tail(self, sphere: Any, end: float) -> NDArray[np.complex128]:
        """Return the part of b(k) from the time after the end, without a field."""
        raise NotImplementedError

    def spectrum(self, b: NDArray[np.complex128]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dP/dE, and its parts by l, or to the left and to the right."""
        raise NotImplementedError

    def resolved(self, spectrum: Photoelectrons) -> Photoelectrons:
        """Return the spectrum with its angles."""
        raise NotImplementedError

    def sent_back(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what interference with the wave that absorber and wall send back changes at most, (energy,)."""
        raise NotImplementedError

    def _finished(self) -> Photoelectrons:
        """Return the spectrum of both surfaces, with its error."""
        # the tail of the potential beyond the surface is neglected: the error falls as 1/R, and two radii tell its size
        (whole, parts), (other, _) = (self.spectrum(b) for b in self.passed)
        error = LIMIT * spread(np.abs(whole - other)) + spread(self.sent_back(parts))
        nothing = np.zeros((self.energy.size, 0))
        return self.resolved(Photoelectrons(self.energy, whole, parts, nothing[0], nothing, error=error))


def _field(
    problem: Motion, time: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return times of samples, the components of A, and their integrals, (1 or 2, samples)."""
    # A is integrated on finer times than the samples, so that the phase k alpha is exact enough
    fine = np.linspace(float(time[0]), float(time[-1]), FINE * (time.size - 1) + 1)
    a = problem.vector(fine)
    alpha = running_integral(a, fine)
    return time, np.asarray(a[:, ::FINE]), np.asarray(alpha[:, ::FINE])
