"""Result of a scan of `task: atom` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results import quantities
from qsim.core.results.quantities import Quantity
from qsim.tridiag.atom.result import QUANTITIES as RUN
from qsim.tridiag.tdse.quantities import intensity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.tables import Scalar
    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.atom.scan.problem import AtomScan

__all__ = ["QUANTITIES", "AtomScanResult"]

UNITS = {"intensity": "W/cm2", "cep": "rad", "delay": "a.u."}
PATTERNS = (
    "population_",
    "norm_within_",
    "hhg_cutoff",
    "attoclock_",
    "norm_final",
    "bound_",
    "continuum_",
    "rate",
    "pes_total",
    "adk_yield",
)


@dataclass
class AtomScanResult:
    """Result of a scan.

    Attributes
    ----------
    problem : AtomScan
    runs : list of AtomResult
    focal : dict
        Averages over the focus.
    """

    task: ClassVar[str] = "atom_scan"

    problem: AtomScan
    runs: list[AtomResult]
    focal: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def numbers(self) -> list[dict[str, Scalar]]:
        """Scalars of each run."""
        return [quantities.scalars(RUN, one) for one in self.runs]

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
            if name.startswith(PATTERNS)
            and all(name in one for one in numbers)
            and any(isinstance(one[name].value, float) for one in numbers)
        ]
        out = {}
        for name in names:
            values = [one[name].value for one in numbers]
            out[name] = np.array([np.nan if value is None else value for value in values], dtype=float)
        return out

    def stacked(self, name: str) -> NDArray[Any] | None:
        """Return an array of all runs, (run, ...), if all have it with one shape."""
        # runs whose axes differ cannot be stacked: such an array is left out
        values = [one.spectra[name] for one in self.runs if name in one.spectra]
        if len(values) < len(self.runs) or len({value.shape for value in values}) > 1:
            return None
        return np.array(values)

    def axis(self, name: str) -> NDArray[Any] | None:
        """Return an axis that all runs share."""
        return self.runs[0].spectra.get(name)


Q = Quantity[AtomScanResult]


def _largest(values: NDArray[np.float64] | None) -> float | None:
    """Return the largest number of the runs; None if a run does not know it."""
    return None if values is None or bool(np.isnan(values).any()) else float(values.max())


def _largest_error(r: AtomScanResult, name: str) -> float | None:
    """Return the error of the largest number of the runs."""
    # a maximum moves no farther than the numbers it is taken of
    errors = r.each_error().get(name)
    return None if errors is None or bool(np.isnan(errors).any()) else float(errors.max())


def _values(name: str) -> Any:
    factor = intensity(1.0) if name == "intensity" else 1.0
    return lambda r: factor * np.array(r.problem.values[name])


def _given(name: str) -> Any:
    return lambda r: name in r.problem.values


def _stack(name: str) -> Any:
    return lambda r: r.stacked(name)


def _axis(name: str) -> Any:
    return lambda r: r.axis(name)


def _side(index: int) -> Any:
    """Return the spectrum along the field, or against it."""

    def value(r: AtomScanResult) -> Any:
        pad = r.stacked("pad")
        return None if pad is None or r.runs[0].problem.frame.planar else pad[:, :, index]

    return value


def _focal_error(r: AtomScanResult) -> float | None:
    """Return the error of the average at the last intensity, None where it is not known."""
    error = float(r.focal["focal_yield_error"][-1])
    return error if np.isfinite(error) else None


QUANTITIES: tuple[Q, ...] = (
    Q(
        "runs",
        "",
        "number of runs",
        lambda r: len(r.runs),
        headline=("continuum_population_max", "focal_yield_max", "energy_initial", "runs"),
    ),
    Q("steps", "", "time steps of each run", lambda r: r.runs[0].problem.setting.steps, headline=True),
    Q("dt", "a.u.", "time step", lambda r: r.runs[0].problem.setting.dt, exact=True),
    Q("gauge", "", "gauge of the runs", lambda r: r.runs[0].problem.setting.gauge),
    Q("points", "", "radial points", lambda r: r.runs[0].problem.lattice.grid.points),
    Q("lmax", "", "largest angular momentum at the end of any run", lambda r: max(one.lanes.lmax for one in r.runs)),
    Q(
        "energy_initial",
        "hartree",
        "<H> at t = 0",
        lambda r: r.runs[0].numbers.get("energy_initial"),
        error=lambda r: r.runs[0].errors.get("energy_initial"),
    ),
    Q(
        "continuum_population_max",
        "",
        "largest continuum_population of a run",
        lambda r: _largest(r.each().get("continuum_population")),
        headline=True,
        error=lambda r: _largest_error(r, "continuum_population"),
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
    Q("energy", "hartree", "energies of the photoelectron spectra", _axis("energy"), ("energy",)),
    Q("scan_pes", "1/hartree", "photoelectron spectrum of each run", _stack("pes"), ("run", "energy")),
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
    Q("scan_pes_along", "1/hartree", "d2P/(dE dOmega) along the field, theta = 0", _side(0), ("run", "energy")),
    Q("scan_pes_against", "1/hartree", "d2P/(dE dOmega) against the field, theta = pi", _side(-1), ("run", "energy")),
    Q("azimuth", "rad", "azimuths in the plane of the field", _axis("azimuth"), ("azimuth",)),
    Q("scan_azimuths", "a.u.", "attoclock_distribution of each run", _stack("attoclock_distribution"), ("run", "azimuth")),
    Q("hhg_order", "", "harmonic order", _axis("hhg_order"), ("hhg_order",)),
    Q("scan_hhg", "a.u.", "harmonic spectrum of each run", _stack("hhg_spectrum"), ("run", "hhg_order")),
)  # fmt: skip
