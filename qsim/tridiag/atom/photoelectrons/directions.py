"""Photoelectron spectra of `task: atom`: what finds those of the state at the end, and what belongs to their directions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress
from qsim.tridiag.atom.photoelectrons import flux, spectra
from qsim.tridiag.atom.photoelectrons.attoclock import attoclock
from qsim.tridiag.atom.photoelectrons.outgoing import spectral_density
from qsim.tridiag.atom.states import observables
from qsim.tridiag.deck.photoelectrons import ScatteringSpectrum, TsurffSpectrum, WindowSpectrum
from qsim.tridiag.tdse import photoelectrons
from qsim.tridiag.tdse.photoelectrons import spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.deck.photoelectrons import Spectrum
    from qsim.tridiag.tdse.photoelectrons import Photoelectrons

__all__ = ["computation", "directions", "warnings"]

# points of the momentum map in each direction
MAP = 121
# relative distance of the potential from its Coulomb tail at the wall
TAIL = 1e-4


class _Window:
    """The window operator, energy by energy."""

    def __init__(self, result: AtomResult, phi: NDArray[np.complex128], block: WindowSpectrum) -> None:
        self.result, self.phi, self.block = result, phi, block
        self.energy = np.linspace(block.energy[0], block.energy[1], block.points)

    @property
    def total(self) -> int:
        """Number of energies."""
        return self.energy.size

    def advance(self, report: Report) -> None:
        """Apply the operator at every energy."""
        block, result = self.block, self.result
        # lines as wide as the spacing of the energies give a smooth curve
        gamma = block.gamma if block.gamma is not None else float(self.energy[1] - self.energy[0])
        spectrum = spectra.window(
            (result.problem.lattice, result.problem.beyond),
            result.lanes,
            self.phi,
            self.energy,
            (gamma, block.order),
            spectra.Angles(block.angles, block.polar),
            each=lambda done: report(Progress(done)),
            threads=result.problem.threads,
        )
        self.found = _against_flux(spectrum, result, self.phi)


class _Scattering:
    """Projection on scattering states; runs on the same grid share the states."""

    def __init__(
        self,
        result: AtomResult,
        phi: NDArray[np.complex128],
        block: ScatteringSpectrum,
        states: dict[int, Any],
    ) -> None:
        self.result, self.phi, self.block, self.states = result, phi, block, states
        self.energy = np.linspace(block.energy[0], block.energy[1], block.points)

    @property
    def total(self) -> int:
        """Number of reports."""
        return 1

    def advance(self, report: Report) -> None:
        """Project on all states."""
        problem, angles = self.result.problem, spectra.Angles(self.block.angles, self.block.polar)
        spectrum = spectra.scattering(
            problem.lattice, self.result.lanes, self.phi, self.energy, angles, problem.tail, self.states
        )
        self.found = _against_flux(spectrum, self.result, self.phi)
        report(Progress(1))


def _against_flux(
    spectrum: Photoelectrons, result: AtomResult, phi: NDArray[np.complex128]
) -> Photoelectrons:
    """Return a spectrum with the error that its method leaves: its distance from the flux out of the box.

    Below 0 there are levels, whatever the window shows: nothing is claimed.
    """
    problem, energy = result.problem, spectrum.energy
    # the spectrum without angles of a box without an end: what a projection in a finite box should give
    exact = spectral_density(problem.lattice, problem.beyond, result.lanes, phi, energy, problem.threads)
    free = energy > 0.0
    error = spread(np.where(free, np.abs(spectrum.spectrum - exact), 0.0))
    return replace(spectrum, error=np.where(free, error, np.nan))


def computation(
    result: AtomResult, block: Spectrum, states: dict[int, Any]
) -> _Window | _Scattering | flux.Flux:
    """Return what finds a spectrum of the state at the end, in length gauge, which is that in velocity gauge once A = 0."""
    problem = result.problem
    a = problem.kick(problem.t_final)
    phi = observables.length_gauge(result.phi, problem.lattice.grid.r, result.lanes, a)
    if isinstance(block, TsurffSpectrum):
        return flux.flux_of(result, block, phi)
    if isinstance(block, WindowSpectrum):
        return _Window(result, phi, block)
    return _Scattering(result, phi, block, states)


def warnings(result: AtomResult) -> Iterator[tuple[str, float, str]]:
    """Yield what the spectra do not hold: a short name, its size, and the text."""
    yield from photoelectrons.warnings(result, result.lost)
    lattice, tail = result.problem.lattice, result.problem.tail
    r = float(lattice.grid.r[-1])
    # scattering states continue with a Coulomb tail beyond the wall: V must have reached it there
    charge = -r * float(lattice.potential[-1])
    if "scattering" in result.methods and abs(charge - tail) > TAIL:
        yield (
            "tail",
            abs(charge - tail),
            f"r V is {-charge:.6g} at the wall, not yet -{tail:g}: scattering states need a larger grid.rmax",
        )


def directions(result: AtomResult, electrons: Photoelectrons, block: Spectrum) -> None:
    """Store the parts by l, and what belongs to directions, of the first spectrum of the deck."""
    result.spectra["pes_l"] = electrons.partial
    if isinstance(block, WindowSpectrum) and block.angles is None:
        return
    if result.problem.frame.planar:
        result.remarks += attoclock(result, electrons)
        return
    free = electrons.energy > 0.0
    result.spectra |= {"theta": electrons.theta, "pad": electrons.angular}
    if np.count_nonzero(free) > 3:
        result.spectra |= _momentum_map(electrons.energy[free], electrons.theta, electrons.angular[free])


def _momentum_map(
    energy: NDArray[np.float64], theta: NDArray[np.float64], angular: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return d3P/dk^3 in the plane of the field, interpolated from energies and angles."""
    from scipy.interpolate import RegularGridInterpolator

    # d3P/dk3 = (d2P/dE dOmega) / k, since dE = k dk and d3k = k^2 dk dOmega
    k = np.sqrt(2.0 * energy)
    density = RegularGridInterpolator((k, theta), angular / k[:, None], bounds_error=False, fill_value=0.0)
    across, along = np.linspace(-k[-1], k[-1], MAP), np.linspace(-k[-1], k[-1], MAP)
    size = np.hypot(along[:, None], across[None, :])
    # the map is symmetric about the axis: both signs of p_x have the polar angle of |p_x|
    angle = np.arctan2(np.abs(across)[None, :], along[:, None])
    points = np.stack([size, np.clip(angle, 0.0, math.pi)], axis=-1)
    return {"momentum_x": across, "momentum_z": along, "momentum_map": np.asarray(density(points))}
