"""t-SURFF spectra of `task: atom`: spheres of a run, amplitudes in all directions; what is sent back, for every l and energy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.atom.photoelectrons import surface, surface_planar
from qsim.tridiag.atom.states.lanes import Lanes, PlanarLanes
from qsim.tridiag.atom.states.observables import by_momentum
from qsim.tridiag.deck.photoelectrons import TsurffSpectrum
from qsim.tridiag.tdse.flux import INNER, SENT_BACK, Flux

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.deck.photoelectrons import Spectrum
    from qsim.tridiag.tdse.flux import Surface
    from qsim.tridiag.tdse.photoelectrons import Photoelectrons

__all__ = ["Flux", "flux_of", "spheres"]

# of the largest part of an l
NEGLIGIBLE = 1e-9


def spheres(lattice: AtomLattice, blocks: list[Spectrum]) -> list[surface.Sphere]:
    """Return the spheres whose flux a run records: none without a t-SURFF spectrum."""
    return [
        surface.at_radius(lattice, share * one.radius)
        for one in blocks
        if isinstance(one, TsurffSpectrum)
        for share in (1.0, INNER)
    ]


class _OfAtom(Flux):
    """Of an atom."""

    def sent_back(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what interference with the wave that is sent back changes at most, from its size for each l."""
        problem, lanes = self.result.problem, self.result.lanes
        out = np.zeros(self.energy.size)
        for k, l in enumerate(range(lanes.lowest, lanes.lmax + 1)):
            if float(parts[:, k].max()) > NEGLIGIBLE * float(parts.max()):
                sent = surface.reflection(problem.lattice, l, problem.spheres[0], self.energy, problem.tail)
                out += SENT_BACK * np.minimum(sent, 1.0) * parts[:, k]
        return out


class _Along(_OfAtom):
    """In a field along z."""

    def __init__(self, result: AtomResult, block: TsurffSpectrum, phi: NDArray[np.complex128]) -> None:
        super().__init__(result, block, phi)
        assert isinstance(result.lanes, Lanes)
        self.lanes = result.lanes
        self.theta = np.linspace(0.0, math.pi, block.angles)
        nodes, self.weights = surface.directions(self.lanes, self.reach)
        self.cosine = np.concatenate([nodes, np.cos(self.theta)])

    def amplitudes(self, seen: Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
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


class _Around(_OfAtom):
    """In a field that turns."""

    def __init__(self, result: AtomResult, block: TsurffSpectrum, phi: NDArray[np.complex128]) -> None:
        super().__init__(result, block, phi)
        assert isinstance(result.lanes, PlanarLanes)
        self.lanes = result.lanes
        self.rays = surface_planar.rays(self.lanes, self.reach, block.polar or 0, block.angles)

    def amplitudes(self, seen: Surface, each: Callable[[], None]) -> NDArray[np.complex128]:
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
