"""Photoelectron spectra of a run, of whatever geometry and method: found with progress, stored with errors, total, peaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.model import Photoelectron
    from qsim.tridiag.deck.photoelectrons import Spectrum
    from qsim.tridiag.tdse.motion import MotionResult

__all__ = [
    "Photoelectrons",
    "error_of",
    "flux_interval",
    "of_companion",
    "photoelectrons",
    "same_peaks",
    "spread",
    "warnings",
]

UNITS = {
    "window": "energies",
    "scattering": "projections",
    "tsurff": "samples",
    "photoelectron": "energies",
}
# energies that become scalars
PEAKS = 5
# what an absorber took belongs to the spectrum, but is gone when it is taken
ABSORBED = 1e-6
# of the range of energies, over which differences that cross zero are spread
NEAR = 0.05
# of the flux, per period of the highest energy
SAMPLES = 12.0


@dataclass(frozen=True)
class Photoelectrons:
    """A spectrum.

    Attributes
    ----------
    energy : (k,) float64
        Hartree.
    spectrum : (k,) float64
        dP/dE, 1/hartree.
    partial : (k, l) float64
        The part of each l; of a line, of electrons that fly to the left and to the right.
    theta : (a,) float64
        Polar angles, radian; in a plane, azimuths at theta = pi/2.
    angular : (k, a) float64
        d2P/(dE dOmega), 1/hartree.
    phase : (k, l) float64 or None
        eta_l, of scattering states.
    error : (k,) float64 or None
        Claimed error of dP/dE.
    inner : (k, a) float64 or None
        `angular` by t-SURFF from the second sphere, in a plane.
    polar : (p,) float64 or None
        In a plane: polar angles, radian.
    sphere : (k, p, a) float64 or None
        In a plane: d2P/(dE dOmega) at these and the azimuths, 1/hartree.
    """

    energy: NDArray[np.float64]
    spectrum: NDArray[np.float64]
    partial: NDArray[np.float64]
    theta: NDArray[np.float64]
    angular: NDArray[np.float64]
    phase: NDArray[np.float64] | None = None
    error: NDArray[np.float64] | None = None
    inner: NDArray[np.float64] | None = None
    polar: NDArray[np.float64] | None = None
    sphere: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class _Saved:
    """A spectrum that is found anew after a stop, from the state at the end of the propagation."""

    spectrum: Any
    state: Callable[[], State]

    def advance(self, report: Report) -> None:
        """Find it."""
        self.spectrum.advance(report)


def of_companion(result: MotionResult, report: Report) -> None:
    """Find the spectra of a companion of a run."""
    for index, block in enumerate(result.problem.spectra):
        wanted = result.problem.geometry.spectrum(result, block, {})
        wanted.advance(lambda _: report(Progress()))
        _store(result, wanted.found, block, first=index == 0)


def photoelectrons(
    result: MotionResult, state: Callable[[], State], monitor: Monitor, shared: dict[int, Any]
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
    shared : dict
        Scattering states by l, filled and used again by other runs on the same grid.
    """
    for index, block in enumerate(result.problem.spectra):
        wanted, unit = result.problem.geometry.spectrum(result, block, shared), UNITS[block.method]
        drive(_Saved(wanted, state), monitor, total=wanted.total, unit=unit, what="photoelectrons")
        _store(result, wanted.found, block, first=index == 0)


def warnings(result: MotionResult, lost: float) -> Iterator[tuple[str, float, str]]:
    """Yield what the spectra do not hold: a short name, its size, and the text; `lost`: norm that no absorber took."""
    yield from result.remarks
    missing = float(result.frames["norm"][0] - result.frames["norm"][-1]) - lost
    for method in result.methods if missing > ABSORBED else ():
        if method != "tsurff":
            yield (
                f"absorbed, {method}",
                missing,
                f"{missing:.2g} of the norm was absorbed before the end and is not in the photoelectron spectrum ({method}): "
                f"{result.problem.geometry.wider}, and leave the absorber out",
            )


def _store(
    result: MotionResult, spectrum: Photoelectrons, block: Spectrum | Photoelectron, *, first: bool
) -> None:
    """Store a spectrum, of the first in the deck all that belongs to it."""
    if block.method == "photoelectron":
        sides = {"left": spectrum.partial[:, 0], "right": spectrum.partial[:, 1]}
        found = {"energy": spectrum.energy, "spectrum": spectrum.spectrum, **sides}
        result.spectra |= {f"photoelectron_{name}": values for name, values in found.items()}
        return
    result.methods.append(block.method)
    name = "pes" if first else f"{block.method}_pes"
    axis = "energy" if first else f"{block.method}_energy"
    result.spectra |= {axis: spectrum.energy, name: spectrum.spectrum}
    # of every method
    assert spectrum.error is not None
    result.unsure[name] = spectrum.error
    # t-SURFF knows its own error from two spheres; those of the other methods come from companions, and are added later
    if block.method == "tsurff":
        result.spectra[error_of(name)] = spectrum.error
    if first:
        _keep(result, spectrum, block)


def error_of(name: str) -> str:
    """Return the name of the error of a spectrum."""
    return "pes_error" if name == "pes" else name.replace("_pes", "_error")


def _keep(result: MotionResult, electrons: Photoelectrons, block: Spectrum | Photoelectron) -> None:
    """Store the integral, the peaks, and what belongs to directions, of the first spectrum of the deck."""
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
    result.problem.geometry.directions(result, electrons, block)


def _total(
    result: MotionResult,
    energy: NDArray[np.float64],
    spectrum: NDArray[np.float64],
    error: NDArray[np.float64],
) -> None:
    """Store the integral of a spectrum, with the error of its method and the error of the sum over energies."""
    from scipy.integrate import simpson

    total = float(np.trapezoid(spectrum, energy))
    result.numbers["pes_total"] = total
    # trapezoid against Simpson: the error of the sum over energies
    own = float(np.trapezoid(error, energy)) + abs(total - float(simpson(spectrum, x=energy)))
    (result.errors if result.methods[0] == "tsurff" else result.own)["pes_total"] = own


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


def same_peaks(own: Mapping[str, float], other: dict[str, float]) -> dict[str, float]:
    """Return the numbers of a companion, of the peaks of its spectrum those nearest to the peaks of the run."""
    peaks = [other.pop(name) for name in list(other) if name.startswith("peak_energy_")]
    if peaks:
        names = [name for name in own if name.startswith("peak_energy_")]
        other |= {name: min(peaks, key=lambda energy: abs(energy - own[name])) for name in names}
    return other


def flux_interval(blocks: list[Spectrum], steps: int, dt: float, most: int) -> int:
    """Return the steps between two samples of the trace: a divisor of `steps`, dense enough for the flux, at most `most`."""
    tops = [one.energy[1] for one in blocks if one.method == "tsurff"]
    if not tops:
        return most
    # SAMPLES per period of the highest energy, and a whole number of intervals in the run
    wanted = min(most, max(1, int(2.0 * np.pi / (SAMPLES * max(tops) * dt))))
    return max(k for k in range(1, wanted + 1) if steps % k == 0)


def spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest value in the neighbourhood of each energy."""
    from scipy.ndimage import maximum_filter1d

    return np.asarray(
        maximum_filter1d(values, size=2 * max(1, round(NEAR * values.size)) + 1, mode="nearest")
    )
