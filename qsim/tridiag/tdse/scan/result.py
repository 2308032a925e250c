"""Result of a scan and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results import quantities
from qsim.core.results.quantities import Quantity
from qsim.tridiag.tdse.quantities import intensity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.tables import Scalar
    from qsim.tridiag.tdse.motion import Scan

__all__ = ["ScanResult", "scan_quantities", "shared", "stacked"]

# units of what is scanned, where they are not those of its kind in atomic units
UNITS = {
    "intensity": "W/cm2",
    "cep": "rad",
    "delay": "a.u.",
    "E0": "a.u.",
    "wavelength": "nm",
    "omega": "hartree",
    "chirp": "a.u.",
    "cycles": "",
    "duration": "a.u.",
    "fwhm": "a.u.",
}

# beginnings of the names of the numbers that a scan keeps of each run
KEPT = (
    "population_", "norm_within_", "norm_right_", "transmission", "reflection", "hhg_cutoff", "attoclock_", "norm_final",
    "energy_", "dipole_final", "bound_", "continuum_", "rate", "pes_total", "adk_yield", "ionisation_potential",
    "inner", "single", "double", "absorbed_", "norm_in_", "norm_absorbed", "purity", "entropy", "dissociation", "mu",
)  # fmt: skip


@dataclass
class ScanResult:
    """Result of a scan.

    Attributes
    ----------
    problem : Scan
    runs : list
        Results of the runs.
    focal : dict
        Averages over the focus.
    """

    problem: Scan
    runs: list[Any]
    focal: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """Name of the quantities of the scan."""
        return f"{self.problem.geometry.task}_scan"

    @property
    def numbers(self) -> list[dict[str, Scalar]]:
        """Scalars of each run."""
        return [quantities.scalars(self.problem.geometry.quantities, one) for one in self.runs]

    def each_error(self) -> dict[str, NDArray[np.float64]]:
        """Return the errors of the numbers of `each` that have some, (run,); not a number where a run claims none."""
        numbers = self.numbers
        out = {}
        for name in self.each():
            errors = [one[name].error for one in numbers]
            if any(error is not None for error in errors):
                out[name] = np.array([np.nan if error is None else error for error in errors], dtype=float)
        return out

    def each(self) -> dict[str, NDArray[np.float64]]:
        """Return the numbers of all runs by the name of the scalar, (run,)."""
        numbers = self.numbers
        # numbers that every run has, and at least one knows
        names = [
            name
            for name in numbers[0]
            if name.startswith(KEPT)
            and all(name in one for one in numbers)
            and any(isinstance(one[name].value, float) for one in numbers)
        ]
        out = {}
        for name in names:
            values = [one[name].value for one in numbers]
            out[name] = np.array([np.nan if value is None else value for value in values], dtype=float)
        return out

    def stacked(self, name: str, axis: str = "") -> NDArray[Any] | None:
        """Return a spectrum of all runs, (run, ...), if all have it with one shape, and on the same `axis`."""
        # runs whose axes differ cannot be stacked: such an array is left out
        values = [one.spectra[name] for one in self.runs if name in one.spectra]
        if len(values) < len(self.runs) or len({value.shape for value in values}) > 1:
            return None
        axes = [one.spectra[axis] for one in self.runs] if axis else []
        if any(not np.array_equal(one, axes[0]) for one in axes):
            return None
        return np.array(values)

    @property
    def _names(self) -> tuple[str, str]:
        """Names of the axis and of the photoelectron spectrum of a run."""
        first = "pes" in self.runs[0].spectra
        return ("energy", "pes") if first else ("photoelectron_energy", "photoelectron_spectrum")

    def pes(self) -> NDArray[Any] | None:
        """Return the photoelectron spectra of all runs, (run, energy), if they have one axis."""
        axis, name = self._names
        return self.stacked(name, axis)

    def energies(self) -> NDArray[Any] | None:
        """Return their energies, hartree."""
        return self.axis(self._names[0])

    def axis(self, name: str) -> NDArray[Any] | None:
        """Return an axis that all runs share."""
        return None if (axes := self.stacked(name, name)) is None else axes[0]


Q = Quantity[ScanResult]


def _largest(values: NDArray[np.float64] | None) -> float | None:
    """Return the largest number of the runs; None if a run does not know it."""
    return None if values is None or bool(np.isnan(values).any()) else float(values.max())


def _largest_error(r: ScanResult, name: str) -> float | None:
    """Return the error of the largest number of the runs."""
    # a maximum moves no farther than the numbers it is taken of
    errors = r.each_error().get(name)
    return None if errors is None or bool(np.isnan(errors).any()) else float(errors.max())


def _values(name: str) -> Any:
    """Return a function that gives what is scanned, in its unit."""
    factor = {"intensity": intensity(1.0), "wavelength": float(to_unit(1.0, "nm", "wavelength"))}.get(
        name, 1.0
    )
    return lambda r: factor * np.array(r.problem.values[name])


def _given(name: str) -> Any:
    return lambda r: name in r.problem.values


def _of_potential(r: ScanResult) -> dict[str, NDArray[np.float64]]:
    """Return the scanned numbers of the potential by the name of the array."""
    values = r.problem.values.items()
    return {f"scan_{name.replace('.', '_')}": np.array(one) for name, one in values if "." in name}


def stacked(name: str, axis: str = "") -> Any:
    """Return a function that gives a spectrum of all runs on an axis that they share."""
    return lambda r: r.stacked(name, axis)


def shared(name: str) -> Any:
    """Return a function that gives an axis that all runs share."""
    return lambda r: r.axis(name)


def _focal_error(r: ScanResult) -> float | None:
    """Return the error of the average at the last intensity, None where it is not known."""
    error = float(r.focal["focal_yield_error"][-1])
    return error if np.isfinite(error) else None


def scan_quantities(settings: tuple[Q, ...], spectra: tuple[Q, ...], block: str) -> tuple[Q, ...]:
    """Return the quantities of scans of a geometry.

    Parameters
    ----------
    settings, spectra
        What it alone has.
    block
        Block of the deck with its potential.
    """
    return (
        Q(
            "runs",
            "",
            "number of runs",
            lambda r: len(r.runs),
            headline=("continuum_population_max", "focal_yield_max", "energy_initial", "runs"),
        ),
        Q("steps", "", "time steps of each run", lambda r: r.problem.runs[0].steps, headline=True),
        Q("dt", "a.u.", "time step", lambda r: r.problem.runs[0].dt, exact=True),
        *settings,
    Q(
        "energy_initial",
        "hartree",
        "<H> at t = 0",
        lambda r: r.numbers[0]["energy_initial"].value,
        error=lambda r: r.numbers[0]["energy_initial"].error,
        when=lambda r: not _of_potential(r),
    ),
    Q(
        "continuum_population_max",
        "",
        "largest continuum_population of a run",
        lambda r: _largest(r.each().get("continuum_population")),
        headline=True,
        error=lambda r: _largest_error(r, "continuum_population"),
        when=lambda r: "continuum_population" in r.each(),
    ),
    Q(
        "focal_yield_max",
        "",
        "focal_yield at the last intensity",
        lambda r: float(r.focal["focal_yield"][-1]),
        error=_focal_error,
        when=lambda r: "focal_yield" in r.focal,
        note="of yields between and below the intensities of the scan, and of the yields where errors are claimed",
        headline=True,
    ),
    *(Q(f"scan_{name}", unit, f"{name} of each run", _values(name), ("run",), when=_given(name)) for name, unit in UNITS.items()),
    Q(f"scan_{block}_*", "a.u.", f"{block}: * of each run", _of_potential, ("run",)),
    Q(
        "run_*_error",
        "",
        "error of run_*",
        lambda r: {f"run_{name}_error": values for name, values in r.each_error().items()},
        ("run",),
        note="not a number where a run claims none",
    ),
    Q(
        "run_*",
        "",
        "* of each run",
        lambda r: {f"run_{name}": values for name, values in r.each().items()},
        ("run",),
        note="units as in a run of its own",
    ),
    Q(
        "focal_yield",
        "",
        "continuum_population integrated over the focus, by peak intensity",
        lambda r: r.focal.get("focal_yield"),
        ("run",),
        note="in units of pi w0^2 zR (3 dimensions) or pi w0^2 (2)",
    ),
    Q(
        "focal_yield_error",
        "",
        "error of focal_yield by the interpolation between the intensities and the extrapolation below the first",
        lambda r: r.focal.get("focal_yield_error"),
        ("run",),
        note="infinite where the extrapolated integral may diverge",
    ),
    # spectra of all runs on one axis
    Q(
        "energy",
        "hartree",
        "energies of the photoelectron spectra",
        lambda r: r.energies(),
        ("energy",),
    ),
    Q("scan_pes", "1/hartree", "photoelectron spectrum of each run", lambda r: r.pes(), ("run", "energy")),
    Q(
        "focal_pes",
        "1/hartree",
        "photoelectron spectrum integrated over the focus",
        lambda r: r.focal.get("focal_pes"),
        ("energy",),
        note="in the units of focal_yield, per hartree; NaN where the integral diverges",
    ),
    Q(
        "focal_pes_error",
        "1/hartree",
        "error of focal_pes, as focal_yield_error",
        lambda r: r.focal.get("focal_pes_error"),
        ("energy",),
    ),
    *spectra,
    Q("hhg_order", "", "harmonic order", shared("hhg_order"), ("hhg_order",)),
    Q("scan_hhg", "a.u.", "harmonic spectrum of each run", stacked("hhg_spectrum", "hhg_order"), ("run", "hhg_order")),
    )  # fmt: skip
