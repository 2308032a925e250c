"""Photoelectron spectra of `task: atom`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.tridiag.atom.photoelectrons import flux, spectra
from qsim.tridiag.atom.photoelectrons.attoclock import attoclock
from qsim.tridiag.atom.photoelectrons.outgoing import spectral_density
from qsim.tridiag.atom.states import observables
from qsim.tridiag.deck.photoelectrons import ScatteringSpectrum, TsurffSpectrum, WindowSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.photoelectrons.spectra import Photoelectrons
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.deck.photoelectrons import Spectrum

__all__ = ["error_of", "of_companion", "photoelectrons", "warnings"]

UNITS = {"window": "energies", "scattering": "projections", "tsurff": "samples"}
# energies that become scalars
PEAKS = 5
# points of the momentum map in each direction
MAP = 121
# norm that is missing at the end, which a projection does not see
# what an absorber took belongs to the spectrum, but is gone when it is taken
ABSORBED = 1e-6
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
    error = flux.spread(np.where(free, np.abs(spectrum.spectrum - exact), 0.0))
    return replace(spectrum, error=np.where(free, error, np.nan))


def _computation(
    result: AtomResult, block: Spectrum, phi: NDArray[np.complex128], states: dict[int, Any]
) -> _Window | _Scattering | flux.Flux:
    """Return what finds a spectrum of the state at the end, in length gauge."""
    if isinstance(block, TsurffSpectrum):
        return flux.flux_of(result, block, phi)
    if isinstance(block, WindowSpectrum):
        return _Window(result, phi, block)
    return _Scattering(result, phi, block, states)


@dataclass(frozen=True)
class _Saved:
    """A spectrum that is found anew after a stop, from the state at the end of the propagation."""

    spectrum: _Window | _Scattering | flux.Flux
    state: Callable[[], State]

    def advance(self, report: Report) -> None:
        """Find it."""
        self.spectrum.advance(report)


def _at_end(result: AtomResult) -> NDArray[np.complex128]:
    """Return the state at the end in length gauge."""
    problem = result.problem
    a = problem.kick(problem.t_final)
    return observables.length_gauge(result.phi, problem.lattice.grid.r, result.lanes, a)


def of_companion(result: AtomResult, report: Report) -> None:
    """Find the spectra of a companion of a run."""
    # spectra refer to the length-gauge state, which equals the velocity-gauge state once A = 0
    phi = _at_end(result)
    for index, block in enumerate(result.problem.spectra):
        wanted = _computation(result, block, phi, {})
        wanted.advance(lambda _: report(Progress()))
        _store(result, wanted.found, block, first=index == 0)


def photoelectrons(
    result: AtomResult, state: Callable[[], State], monitor: Monitor, states: dict[int, Any] | None = None
) -> None:
    """Add the spectra of the deck.

    Parameters
    ----------
    result
        The propagation.
    state
        What a stop request saves.
    monitor
        Told of progress and warnings.
    states : dict, optional
        Scattering states by l, filled and used again by other runs on the same grid.
    """
    found_states: dict[int, Any] = {} if states is None else states
    phi = _at_end(result) if result.problem.spectra else np.zeros((0, 0), complex)
    for index, block in enumerate(result.problem.spectra):
        wanted = _computation(result, block, phi, found_states)
        drive(
            _Saved(wanted, state),
            monitor,
            total=wanted.total,
            unit=UNITS[block.method],
            what="photoelectrons",
        )
        _store(result, wanted.found, block, first=index == 0)


def warnings(result: AtomResult) -> Iterator[tuple[str, float, str]]:
    """Yield what the spectra do not hold: a short name, its size, and the text."""
    yield from result.remarks
    lattice, tail = result.problem.lattice, result.problem.tail
    # norm lost to the absorber, without what was set to zero at the core
    missing = float(result.frames["norm"][0] - result.frames["norm"][-1]) - result.lost
    if missing > ABSORBED:
        for method in result.methods:
            if method != "tsurff":
                yield (
                    f"absorbed, {method}",
                    missing,
                    f"{missing:.2g} of the norm was absorbed before the end and is not in the photoelectron spectrum ({method}): "
                    "raise grid.rmax, and leave the absorber out",
                )
    r = float(lattice.grid.r[-1])
    # scattering states continue with a Coulomb tail beyond the wall: V must have reached it there
    charge = -r * float(lattice.potential[-1])
    if "scattering" in result.methods and abs(charge - tail) > TAIL:
        yield (
            "tail",
            abs(charge - tail),
            f"r V is {-charge:.6g} at the wall, not yet -{tail:g}: scattering states need a larger grid.rmax",
        )


def _store(result: AtomResult, spectrum: Photoelectrons, block: Spectrum, *, first: bool) -> None:
    """Store a spectrum, of the first in the deck all that belongs to it."""
    result.methods.append(block.method)
    name = "pes" if first else f"{block.method}_pes"
    result.spectra |= {
        "energy" if first else f"{block.method}_energy": spectrum.energy,
        name: spectrum.spectrum,
    }
    # of every method
    assert spectrum.error is not None
    result.unsure[name] = spectrum.error
    # t-SURFF knows its own error from two spheres; those of the other methods come from companions, and are
    # added later
    if block.method == "tsurff":
        result.spectra[error_of(name)] = spectrum.error
    if first:
        _keep(result, spectrum, block)


def error_of(name: str) -> str:
    """Return the name of the error of a spectrum."""
    return "pes_error" if name == "pes" else name.replace("_pes", "_error")


def _keep(result: AtomResult, electrons: Photoelectrons, block: Spectrum) -> None:
    """Store the integral, the peaks, and what belongs to directions, of the first spectrum of the deck."""
    result.spectra["pes_l"] = electrons.partial
    # below 0 a window shows levels: they are no photoelectrons
    free = electrons.energy > 0.0
    if np.count_nonzero(free) > 1 and electrons.error is not None:
        _total(result, electrons.energy[free], electrons.spectrum[free], electrons.error[free])
        found = _peaks(electrons.energy[free], electrons.spectrum[free], electrons.error[free])
        for k, (energy, own) in enumerate(found):
            result.peaks[f"peak_energy_{k}"] = energy
            result.own[f"peak_energy_{k}"] = own
    if electrons.phase is not None:
        result.spectra["scattering_phase"] = electrons.phase
    if isinstance(block, WindowSpectrum) and block.angles is None:
        return
    if result.problem.frame.planar:
        result.remarks += attoclock(result, electrons)
        return
    result.spectra |= {"theta": electrons.theta, "pad": electrons.angular}
    if np.count_nonzero(free) > 3:
        result.spectra |= _momentum_map(electrons.energy[free], electrons.theta, electrons.angular[free])


def _total(
    result: AtomResult, energy: NDArray[np.float64], spectrum: NDArray[np.float64], error: NDArray[np.float64]
) -> None:
    """Store the integral of a spectrum, with the error of its method and the error of the sum over energies."""
    from scipy.integrate import simpson

    total = float(np.trapezoid(spectrum, energy))
    result.numbers["pes_total"] = total
    # trapezoid against Simpson: the error of the sum over energies
    own = float(np.trapezoid(error, energy)) + abs(total - float(simpson(spectrum, x=energy)))
    if result.methods[0] == "tsurff":
        result.errors["pes_total"] = own
    else:
        result.own["pes_total"] = own


def _peaks(
    energy: NDArray[np.float64], spectrum: NDArray[np.float64], error: NDArray[np.float64]
) -> list[tuple[float, float]]:
    """Return the energies of the highest peaks, each by a parabola through the logarithms of three points, and their errors.

    An error is what five points change, and how far the peak may move on its parabola within the error of the spectrum.
    """
    log = np.log(np.maximum(spectrum, 1e-300))
    step = float(energy[1] - energy[0])
    tops = np.flatnonzero((log[1:-1] > log[:-2]) & (log[1:-1] >= log[2:])) + 1
    found = []
    for k in sorted(tops, key=lambda k: -log[k])[:PEAKS]:
        # vertex of the parabola through three logarithms: exact for a Gaussian line
        bend = log[k - 1] - 2.0 * log[k] + log[k + 1]
        slope = 0.5 * (log[k + 1] - log[k - 1])
        shift = -slope / bend if bend else 0.0
        wide = log[k - 2 : k + 3] if 2 <= k < log.size - 2 else None
        of_points = 0.5 if wide is None else abs(_vertex(wide, shift) - shift)
        # errors of neighbours are alike: what they may differ by turns the slope
        unsure = error[k - 1 : k + 2] / np.maximum(spectrum[k - 1 : k + 2], 1e-300)
        turned = float(np.ptp(unsure)) / abs(bend) if bend else 1.0
        found.append((float(energy[k] + shift * step), step * (of_points + turned)))
    return found


def _vertex(log: NDArray[np.float64], start: float) -> float:
    """Return where the polynomial through five logarithms at -2 to 2 is largest, by one Newton step."""
    polynomial = np.polynomial.Polynomial.fit(np.arange(-2.0, 3.0), log, 4)
    slope, bend = (float(polynomial.deriv(n)(start)) for n in (1, 2))
    return start - slope / bend if bend else start


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
