"""t-SURFF spectra of `task: atom`: spheres of a run, and the spectrum with its error at the end.

What the potential beyond the sphere does falls as 1/R: a second sphere at 3/4 of the radius, with another flux, says how much is
left.  What absorber and wall send back is found for every l and energy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.run.loop import Progress
from qsim.tridiag.atom.photoelectrons import surface, surface_planar
from qsim.tridiag.atom.photoelectrons.spectra import Photoelectrons
from qsim.tridiag.atom.states.lanes import Lanes, PlanarLanes
from qsim.tridiag.atom.states.observables import by_momentum
from qsim.tridiag.deck.photoelectrons import TsurffSpectrum
from qsim.tridiag.tdse.harmonics import sampling
from qsim.tridiag.tdse.integrals import running_integral

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.deck.photoelectrons import Spectrum

__all__ = ["Flux", "flux_interval", "flux_of", "sample_steps", "spheres", "spread"]

# radius of the second sphere over the radius of the first
INNER = 0.75
# error over the difference of both, of an error that falls as 1/R
# b(R) = b + c / R: b(R) - b = LIMIT (b(3R/4) - b(R))
LIMIT = INNER / (1.0 - INNER)
# of the range of energies, over which differences that cross zero are spread
NEAR = 0.05
# change of a spectrum over the wave sent back: 2 as it goes in, 2 as it comes out again, and some room
SENT_BACK = 5.0
# of the largest part of an l
NEGLIGIBLE = 1e-9
# of the flux, per period of the highest energy
SAMPLES = 12.0
# points of A between two samples
FINE = 8
# samples of a run without spectra
TRACE = 20_000


def spheres(lattice: AtomLattice, blocks: list[Spectrum]) -> list[surface.Sphere]:
    """Return the spheres whose flux a run records: none without a t-SURFF spectrum."""
    return [
        surface.at_radius(lattice, share * one.radius)
        for one in blocks
        if isinstance(one, TsurffSpectrum)
        for share in (1.0, INNER)
    ]


def flux_interval(blocks: list[Spectrum], steps: int, dt: float, most: int) -> int:
    """Return the steps between two samples of the trace: a divisor of `steps`, dense enough for the flux, at most `most`."""
    tops = [one.energy[1] for one in blocks if isinstance(one, TsurffSpectrum)]
    if not tops:
        return most
    # SAMPLES per period of the highest energy, and a whole number of intervals in the run
    wanted = min(most, max(1, int(2.0 * math.pi / (SAMPLES * max(tops) * dt))))
    return max(k for k in range(1, wanted + 1) if steps % k == 0)


def sample_steps(problem: AtomProblem) -> int:
    """Return the steps between samples of the trace."""
    steps, dt = problem.steps, problem.dt
    # without harmonics at least 400 samples, or a quarter of the steps; TRACE at most
    most = sampling(problem, dt) or max(1, -(-steps // min(TRACE, max(400, steps // 4))))
    return flux_interval(problem.spectra, steps, dt, most)


class Flux:
    """The integrals over time, sample by sample, and over energies after the end."""

    def __init__(
        self,
        result: AtomResult,
        block: TsurffSpectrum,
        phi: NDArray[np.complex128],
    ) -> None:
        self.result, self.block, self.phi = result, block, phi
        self.energy = np.linspace(block.energy[0], block.energy[1], block.points)
        self.k = np.sqrt(2.0 * self.energy)
        self.time, self.a, self.alpha = _field(result.problem, result.trace[:, 0] * result.problem.setting.dt)
        # largest phase k alpha: it sets how many directions the integral over angles needs
        self.reach = float(self.k[-1] * np.hypot.reduce(self.alpha, axis=0).max())
        self.passed: list[NDArray[np.complex128]] = []

    @property
    def total(self) -> int:
        """Number of samples of both spheres."""
        return 2 * self.time.size

    def advance(self, report: Report) -> None:
        """Find the amplitudes of both spheres."""
        problem, done = self.result.problem, 0

        def each() -> None:
            nonlocal done
            done += 1
            report(Progress(done))

        # of one component (samples,), of two (samples, 2)
        a, alpha = (x[0] if x.shape[0] == 1 else x.T for x in (self.a, self.alpha))
        for k, sphere in enumerate(problem.spheres):
            value, slope = self.result.flux[:, k, 0], self.result.flux[:, k, 1]
            b = self.amplitudes(surface.Surface(sphere, self.time, value, slope, a, alpha), each)
            if self.block.tail == "isurfv":
                # the resolvent adds what passes from the end of the run to infinity
                b += self.tail(sphere, float(self.time[-1]))
            self.passed.append(b)
        self.found = _finished(self)

    def amplitudes(self, seen: surface.Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
        """Return b(k) from u and its slope on a sphere."""
        raise NotImplementedError

    def tail(self, sphere: surface.Sphere, end: float) -> NDArray[np.complex128]:
        """Return the part of b(k) from the time after the end, without a field."""
        raise NotImplementedError

    def spectrum(self, b: NDArray[np.complex128]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dP/dE, and its parts by l."""
        raise NotImplementedError

    def resolved(self, spectrum: Photoelectrons) -> Photoelectrons:
        """Return the spectrum with its angles."""
        raise NotImplementedError


class _Along(Flux):
    """In a field along z."""

    def __init__(
        self,
        result: AtomResult,
        block: TsurffSpectrum,
        phi: NDArray[np.complex128],
    ) -> None:
        super().__init__(result, block, phi)
        assert isinstance(result.lanes, Lanes)
        self.lanes = result.lanes
        self.theta = np.linspace(0.0, math.pi, block.angles)
        nodes, self.weights = surface.directions(self.lanes, self.reach)
        self.cosine = np.concatenate([nodes, np.cos(self.theta)])

    def amplitudes(self, seen: surface.Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
        """Return b(k), (energy, directions)."""
        return surface.amplitudes(seen, self.lanes, self.energy, self.cosine, each)

    def tail(self, sphere: surface.Sphere, end: float) -> NDArray[np.complex128]:
        """Return the part of b(k) from the time after the end, (energy, directions)."""
        when, lattice = (end, float(self.alpha[0, -1])), self.result.problem.lattice
        return surface.tail(lattice, self.lanes, self.phi, sphere, self.energy, self.cosine, when)

    def spectrum(self, b: NDArray[np.complex128]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dP/dE, and its parts by l."""
        inner = b[:, : self.weights.size]
        # the first directions are nodes of an integral over cos(theta), the rest are reported
        whole = 2.0 * math.pi * self.k * (np.abs(inner) ** 2 @ self.weights)
        # parts of l by projection on Y_lm with the weights of the nodes
        y = surface.spherical_harmonics(self.lanes, self.cosine[: self.weights.size])
        parts = 2.0 * math.pi * (inner * self.weights) @ y.T
        return whole, self.k[:, None] * np.abs(parts) ** 2

    def resolved(self, spectrum: Photoelectrons) -> Photoelectrons:
        """Return the spectrum with its polar angles."""
        angular = self.k[:, None] * np.abs(self.passed[0][:, self.weights.size :]) ** 2
        return replace(spectrum, theta=self.theta, angular=angular)


class _Around(Flux):
    """In a field that turns."""

    def __init__(
        self,
        result: AtomResult,
        block: TsurffSpectrum,
        phi: NDArray[np.complex128],
    ) -> None:
        super().__init__(result, block, phi)
        assert isinstance(result.lanes, PlanarLanes)
        self.lanes = result.lanes
        self.rays = surface_planar.rays(self.lanes, self.reach, block.polar or 0, block.angles)

    def amplitudes(self, seen: surface.Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
        """Return b(k), (polar angles, energy, azimuths)."""
        return surface_planar.planar_amplitudes(seen, self.rays.sky, self.energy, each)

    def tail(self, sphere: surface.Sphere, end: float) -> NDArray[np.complex128]:
        """Return the part of b(k) from the time after the end, (polar angles, energy, azimuths)."""
        when, lattice = (end, self.alpha[:, -1]), self.result.problem.lattice
        return surface_planar.planar_tail(lattice, self.phi, sphere, self.rays.sky, self.energy, when)

    def spectrum(self, b: NDArray[np.complex128]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dP/dE, and its parts by l."""
        whole, parts = self.rays.spectrum(b, self.k)
        return whole, by_momentum(parts, self.lanes)

    def resolved(self, spectrum: Photoelectrons) -> Photoelectrons:
        """Return the spectrum with its azimuths, and with polar angles if requested."""
        azimuth = self.rays.sky.azimuth[:: self.rays.stride]
        outer, inner = (self.rays.in_plane(b, self.k) for b in self.passed)
        spectrum = replace(spectrum, theta=azimuth, angular=outer, inner=inner)
        if self.block.polar is None:
            return spectrum
        polar = self.rays.sky.theta[self.rays.nodes + 1 :]
        return replace(spectrum, polar=polar, sphere=self.rays.requested(self.passed[0], self.k))


def _field(
    problem: AtomProblem, time: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return times of samples, the components of A, and their integrals, (1 or 2, samples)."""
    # A is integrated on finer times than the samples, so that the phase k alpha is exact enough
    fine = np.linspace(float(time[0]), float(time[-1]), FINE * (time.size - 1) + 1)
    a = problem.vector(fine)
    alpha = running_integral(a, fine)
    return time, np.asarray(a[:, ::FINE]), np.asarray(alpha[:, ::FINE])


def flux_of(result: AtomResult, block: TsurffSpectrum, phi: NDArray[np.complex128]) -> Flux:
    """Return the computation of a spectrum.

    Parameters
    ----------
    result, block
        Propagation with its flux, and block of the deck.
    phi : (used, n) complex128
        State at the end in length gauge, where A = 0.
    """
    return (_Around if isinstance(result.lanes, PlanarLanes) else _Along)(result, block, phi)


def _finished(flux: Flux) -> Photoelectrons:
    """Return the spectrum of both spheres, with its error."""
    result = flux.result
    # the tail of the potential beyond the sphere is neglected: the error falls as 1/R, and two radii tell its size
    (whole, parts), (other, _) = (flux.spectrum(b) for b in flux.passed)
    error = LIMIT * spread(np.abs(whole - other)) + spread(_sent_back(result, flux, parts))
    nothing = np.zeros((flux.energy.size, 0))
    return flux.resolved(Photoelectrons(flux.energy, whole, parts, nothing[0], nothing, error=error))


def _sent_back(result: AtomResult, flux: Flux, parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what interference with the wave that absorber and wall send back changes at most, from its size for each l."""
    problem = result.problem
    out = np.zeros(flux.energy.size)
    for k, l in enumerate(range(result.lanes.lowest, result.lanes.lmax + 1)):
        if float(parts[:, k].max()) > NEGLIGIBLE * float(parts.max()):
            sent = surface.reflection(problem.lattice, l, problem.spheres[0], flux.energy, problem.tail)
            out += SENT_BACK * np.minimum(sent, 1.0) * parts[:, k]
    return out


def spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest value in the neighbourhood of each energy."""
    from scipy.ndimage import maximum_filter1d

    return np.asarray(
        maximum_filter1d(values, size=2 * max(1, round(NEAR * values.size)) + 1, mode="nearest")
    )
