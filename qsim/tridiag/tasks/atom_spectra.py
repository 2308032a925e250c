"""Photoelectron spectra of `task: atom`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.tridiag.atom import observables, spectra
from qsim.tridiag.deck.photoelectrons import ScatteringSpectrum, TsurffSpectrum, WindowSpectrum
from qsim.tridiag.tasks import atom_surff
from qsim.tridiag.tasks.atom_attoclock import attoclock

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.spectra import Photoelectrons
    from qsim.tridiag.deck.photoelectrons import Spectrum
    from qsim.tridiag.tasks.atom_result import AtomResult

__all__ = ["attoclock_of", "photoelectrons"]

PEAKS = 5  # energies that become scalars
MAP = 121  # points of the momentum map in each direction
ABSORBED = 1e-6  # norm that is missing at the end, which a projection does not see
TAIL = 1e-4  # relative distance of the potential from its Coulomb tail at the wall


class _Window:
    """The window operator, energy by energy."""

    def __init__(
        self,
        result: AtomResult,
        phi: NDArray[np.complex128],
        block: WindowSpectrum,
        state: Callable[[], State],
    ) -> None:
        self.result, self.phi, self.block, self.state = result, phi, block, state
        self.energy = np.linspace(block.energy[0], block.energy[1], block.points)

    def advance(self, report: Report) -> None:
        """Apply the operator at every energy."""
        block = self.block
        gamma = block.gamma if block.gamma is not None else float(self.energy[1] - self.energy[0])
        self.found = spectra.window(
            self.result.problem.lattice,
            self.result.lanes,
            self.phi,
            self.energy,
            gamma,
            block.order,
            spectra.Angles(block.angles, block.polar),
            each=lambda done: report(Progress(done)),
        )


def attoclock_of(result: AtomResult, report: Report) -> None:
    """Find the attoclock angle of a companion of a run from the first spectrum of its deck."""
    problem, block = result.problem, result.problem.spectra[0]
    a = problem.kick(problem.t_final)
    phi = observables.length_gauge(result.phi, problem.lattice.grid.r, result.lanes, a)

    def step(_: Progress) -> None:
        report(Progress())

    if isinstance(block, TsurffSpectrum):
        flux = atom_surff.made(result, block, phi, dict)
        flux.advance(step)
        found = atom_surff.finished(flux)
    elif isinstance(block, WindowSpectrum):
        window = _Window(result, phi, block, dict)
        window.advance(step)
        found = window.found
    else:
        energy = np.linspace(block.energy[0], block.energy[1], block.points)
        found = spectra.scattering(
            problem.lattice, result.lanes, phi, energy, spectra.Angles(block.angles), problem.tail, {}
        )
    attoclock(result, found)


def photoelectrons(
    result: AtomResult, state: Callable[[], State], monitor: Monitor, states: dict[int, Any] | None = None
) -> None:
    """Add the spectra that the deck asks for.

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
    problem = result.problem
    if not problem.spectra:
        return
    a = problem.kick(problem.t_final)
    phi = observables.length_gauge(result.phi, problem.lattice.grid.r, result.lanes, a)
    for index, block in enumerate(problem.spectra):
        found = _one(result, phi, block, state, monitor, found_states)
        result.methods.append(block.method)
        if index == 0:
            told = _keep(result, found, block)
            if told is not None:
                monitor.warn(told)
        else:
            result.spectra |= {f"{block.method}_energy": found.energy, f"{block.method}_pes": found.spectrum}
            if found.error is not None:
                result.spectra["tsurff_error"] = found.error


def _one(
    result: AtomResult,
    phi: NDArray[np.complex128],
    block: Spectrum,
    state: Callable[[], State],
    monitor: Monitor,
    states: dict[int, Any],
) -> Photoelectrons:
    """Return one spectrum."""
    problem = result.problem
    if isinstance(block, TsurffSpectrum):
        return atom_surff.tsurff(result, block, phi, state, monitor)
    missing = float(result.frames["norm"][0] - result.frames["norm"][-1]) - result.lost
    if missing > ABSORBED:
        monitor.warn(
            f"{missing:.2g} of the norm was absorbed before the end and is not in the photoelectron "
            f"spectrum ({block.method}): raise "
            "grid.rmax, and leave the absorber out"
        )
    if isinstance(block, ScatteringSpectrum):
        lattice, tail = problem.lattice, problem.tail
        r = float(lattice.grid.r[-1])
        if abs(r * lattice.potential[-1] + tail) > TAIL:
            monitor.warn(
                f"r V is {r * lattice.potential[-1]:.6g} at the wall, not yet -{tail:g}: scattering states "
                f"need a larger grid.rmax"
            )
        energy = np.linspace(block.energy[0], block.energy[1], block.points)
        angles = spectra.Angles(block.angles, block.polar)
        return spectra.scattering(lattice, result.lanes, phi, energy, angles, tail, states)
    window = _Window(result, phi, block, state)
    drive(window, monitor, total=window.energy.size, unit="energies", what="photoelectrons")
    return window.found


def _keep(result: AtomResult, found: Photoelectrons, block: Spectrum) -> str | None:
    """Store the first spectrum of the deck, its peaks and its momentum map; return what a user must know."""
    result.spectra |= {"energy": found.energy, "pes": found.spectrum, "pes_l": found.partial}
    free = found.energy > 0.0
    if np.count_nonzero(free) > 1:
        result.numbers["pes_total"] = float(np.trapezoid(found.spectrum[free], found.energy[free]))
        for k, energy in enumerate(_peaks(found.energy[free], found.spectrum[free])):
            result.peaks[f"peak_energy_{k}"] = energy
    if found.error is not None:
        result.spectra["pes_error"] = found.error
        result.errors["pes_total"] = float(np.trapezoid(found.error[free], found.energy[free]))
    if found.phase is not None:
        result.spectra["scattering_phase"] = found.phase
    if isinstance(block, WindowSpectrum) and block.angles is None:
        return None
    if result.problem.frame.planar:
        return attoclock(result, found)
    result.spectra |= {"theta": found.theta, "pad": found.angular}
    if np.count_nonzero(free) > 3:
        result.spectra |= _momentum_map(found.energy[free], found.theta, found.angular[free])
    return None


def _peaks(energy: NDArray[np.float64], spectrum: NDArray[np.float64]) -> list[float]:
    """Return the energies of the highest peaks, each by a parabola through the logarithms of three points."""
    log = np.log(np.maximum(spectrum, 1e-300))
    tops = np.flatnonzero((log[1:-1] > log[:-2]) & (log[1:-1] >= log[2:])) + 1
    found = []
    for k in sorted(tops, key=lambda k: -log[k])[:PEAKS]:
        bend = log[k - 1] - 2.0 * log[k] + log[k + 1]
        shift = 0.5 * (log[k - 1] - log[k + 1]) / bend if bend else 0.0
        found.append(float(energy[k] + shift * (energy[1] - energy[0])))
    return found


def _momentum_map(
    energy: NDArray[np.float64], theta: NDArray[np.float64], angular: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return d3P/dk^3 in the plane of the field, interpolated from energies and angles."""
    from scipy.interpolate import RegularGridInterpolator

    k = np.sqrt(2.0 * energy)
    density = RegularGridInterpolator((k, theta), angular / k[:, None], bounds_error=False, fill_value=0.0)
    across, along = np.linspace(-k[-1], k[-1], MAP), np.linspace(-k[-1], k[-1], MAP)
    size = np.hypot(along[:, None], across[None, :])
    angle = np.arctan2(np.abs(across)[None, :], along[:, None])
    points = np.stack([size, np.clip(angle, 0.0, math.pi)], axis=-1)
    return {"momentum_x": across, "momentum_z": along, "momentum_map": np.asarray(density(points))}
