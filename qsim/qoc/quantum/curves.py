"""Quantities of the curves of a run, spectra, Bloch vectors and revivals, of levels on a grid, and of each control."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.quantum.result import named
from qsim.qoc.result import UNIT, of_areas, of_controls, of_fluences, of_frequencies, of_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.models.line.levels import Line
    from qsim.qoc.models.plane.levels import Plane
    from qsim.qoc.quantum.result import QuantumResult


# Levels whose wavefunctions are kept in the file beside those of the start and the goal.
SHOWN = 6
# Points of a spectrum at least.
PADDED = 2048
# Population from which a level counts as one of start or goal.
SEEN = 1e-3


def _bloch(result: QuantumResult) -> dict[str, FloatArray]:
    return {f"bloch/{k}": v for k, v in result.paths.bloch.items()}


def _observed_times(result: QuantumResult) -> FloatArray:
    """Return t = 0 and the ends of the slots at which curves are kept."""
    count = result.populations.shape[0]
    return np.asarray(result.problem.objective.tau * result.stride * np.arange(count + 1.0))


def _frequency(result: QuantumResult) -> FloatArray:
    """Return the angular frequencies of the spectra, 1/time."""
    tau = result.problem.objective.tau
    return np.asarray(2.0 * np.pi * np.fft.rfftfreq(_padded(result), tau), dtype=np.float64)


def _padded(result: QuantumResult) -> int:
    """Return the slots of a spectrum: the pulse, and nothing behind it, so that few slots give no polygon."""
    return max(PADDED, result.fields.shape[1])


def _spectra(result: QuantumResult) -> dict[str, FloatArray]:
    """Return ``|integral u exp(i w t) dt|^2`` of every control."""
    # The factor tau turns the sum over slots into the integral over time.
    amplitudes = np.fft.rfft(result.fields, _padded(result), axis=1) * result.problem.objective.tau
    return {f"spectrum/{k}": v for k, v in named(result, np.abs(amplitudes) ** 2).items()}


def _space(result: QuantumResult) -> Line | Plane:
    """Return the coordinates whose levels the system has."""
    found = result.problem.model.plane or result.problem.model.line
    assert found is not None
    return found


def _has_levels(result: QuantumResult) -> bool:
    return result.problem.model.on_points


def _has_plane(result: QuantumResult) -> bool:
    return result.problem.model.plane is not None


def _coordinates(result: QuantumResult) -> tuple[str, ...]:
    """Return the names of the coordinates."""
    return ("x", "y") if _has_plane(result) else ("x",)


def _x(result: QuantumResult) -> FloatArray:
    return _space(result).x


def _y(result: QuantumResult) -> FloatArray:
    plane = result.problem.model.plane
    assert plane is not None
    return plane.axes[1].x


def _potential(result: QuantumResult) -> FloatArray:
    return _space(result).potential


def _shown(result: QuantumResult) -> NDArray[np.int64]:
    """Return the levels whose densities are kept: the lowest ones, and those populated first or last."""
    # Intermediate levels may be many; start and goal are what a reader looks for.
    used = np.maximum(result.populations[0], result.populations[-1]) > SEEN
    used[:SHOWN] = True
    return np.flatnonzero(used)


def _densities(result: QuantumResult) -> FloatArray:
    """Return |psi|^2 (levels, n1, n2) or (levels, L) of the levels that are kept, 1/bohr^2 or 1/bohr."""
    return _space(result).densities(_shown(result))


CURVES: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "frequency",
        UNIT,
        "angular frequency, 1/time_unit",
        _frequency,
        ("frequency",),
        unit_of=of_frequencies,
    ),
    Quantity(
        "spectrum/*",
        "",
        "power spectrum of the control *, |integral u exp(i w t) dt|^2",
        _spectra,
        ("frequency",),
    ),
    Quantity(
        "goal", "", "value of the goal at the end of a slot", lambda r: r.paths.goal, ("time_populations",)
    ),
    Quantity(
        "time_observed",
        "",
        "times of the mean values, in time_unit, from t = 0 on",
        _observed_times,
        ("time_observed",),
        when=lambda r: bool(r.paths.observed),
    ),
    Quantity(
        "observed/*",
        "",
        "mean value of the observable * over time, in the units of the system",
        lambda r: {f"observed/{k}": v for k, v in r.paths.observed.items()},
        ("time_observed",),
    ),
    Quantity(
        "time_states",
        "",
        "chosen times, in time_unit",
        lambda r: r.problem.states_at,
        ("time_states",),
        when=lambda r: r.paths.rho_at is not None,
    ),
    Quantity(
        "rho_at",
        "",
        "mean density matrix at the chosen times; of a gate, of the logical states",
        lambda r: r.paths.rho_at,
        ("time_states", "level", "level_to"),
    ),
    Quantity("psi_at", "", "state at the chosen times", lambda r: r.paths.psi_at, ("time_states", "level")),
    Quantity(
        "bloch/*",
        "",
        "means of sx, sy, sz in the two lowest levels of the part *",
        _bloch,
        ("time_populations", "xyz"),
        note="of a gate, from its first logical state",
    ),
    Quantity(
        "free_time",
        UNIT,
        "times after the controls, in time_unit",
        lambda r: r.paths.free_time,
        ("free_time",),
        unit_of=of_times,
    ),
    Quantity(
        "free_goal",
        "",
        "value of the goal without controls from T on, through one revival",
        lambda r: r.paths.free_goal,
        ("free_time",),
    ),
)

LEVELS: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "energies", "hartree", "levels of H0", lambda r: _space(r).energies, ("level",), when=_has_levels
    ),
    Quantity(
        "energies_error",
        "hartree",
        "claimed error of each level",
        lambda r: _space(r).errors,
        ("level",),
        when=_has_levels,
    ),
    Quantity("x", "bohr", "points of x", _x, ("x",), when=_has_levels),
    Quantity("y", "bohr", "points of y", _y, ("y",), when=_has_plane),
    Quantity(
        "potential",
        "hartree",
        "potential energy",
        _potential,
        ("x", "y"),
        when=_has_levels,
        axes_of=_coordinates,
    ),
    Quantity("level_shown", "", "level whose density is kept", _shown, ("level_shown",), when=_has_levels),
    Quantity(
        "densities",
        "1/bohr^2",
        "probability density of a level, |psi|^2; of one coordinate 1/bohr",
        _densities,
        ("level_shown", "x", "y"),
        when=_has_levels,
        axes_of=lambda r: ("level_shown", *_coordinates(r)),
    ),
)

QUANTITIES = (*CURVES, *LEVELS)


def _by_control(
    name: str, number: Callable[[NDArray[np.float64], float], float]
) -> Callable[[QuantumResult], object]:
    """Return a scalar of each control from its values and the length of a slot."""

    def of_all(result: QuantumResult) -> dict[str, float]:
        tau = result.problem.objective.tau
        return {f"{name}_{k}": number(v, tau) for k, v in named(result, result.fields).items()}

    return of_all


def _fluence(values: NDArray[np.float64], tau: float) -> float:
    return float(np.sum(values**2)) * tau


def _area(values: NDArray[np.float64], tau: float) -> float:
    return float(np.sum(values)) * tau


def _peak(values: NDArray[np.float64], tau: float) -> float:
    return float(np.abs(values).max(initial=0.0))


def _coefficients(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    """Return the coefficients of the functions of each control, of all draws one after another."""
    found = {}
    parts = result.controls.parts(result.parameters)
    for name, line, u in zip(result.problem.names, result.controls.lines, parts, strict=True):
        if line.basis is not None and line.fixed is None:
            drawn = [basis.coefficients(old) for basis, old in (*line.past, (line.basis, u))]
            found[f"parameters/{name}/coefficients"] = np.concatenate(drawn)
    return found


def _frequencies(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    """Return the angular frequencies of the Fourier modes of each control, of all draws one after another."""
    found = {}
    for name, line in zip(result.problem.names, result.controls.lines, strict=True):
        bases = [basis for basis, _ in line.past] + ([] if line.basis is None else [line.basis])
        drawn = [b.frequencies for b in bases if b.frequencies is not None]
        if drawn and line.fixed is None:
            found[f"parameters/{name}/frequencies"] = np.concatenate(drawn)
    return found


CONTROLS: tuple[Quantity[QuantumResult], ...] = (
    # of the values that are held in the slots: sums without an error
    Quantity(
        "fluence_*",
        UNIT,
        "integral of u^2 of the control *",
        _by_control("fluence", _fluence),
        exact=True,
        unit_of=of_fluences,
    ),
    Quantity(
        "area_*", UNIT, "integral of the control *", _by_control("area", _area), exact=True, unit_of=of_areas
    ),
    Quantity(
        "peak_*",
        UNIT,
        "largest |u| of the control *",
        _by_control("peak", _peak),
        exact=True,
        unit_of=of_controls,
    ),
    Quantity(
        "parameters/*/coefficients",
        "",
        "coefficients of the functions of the control *",
        _coefficients,
        ("function",),
        note="blocks; sine modes by frequency; splines by carrier, cosine before sine; Fourier: all sines, then all cosines, of "
        "one draw after another",
    ),
    Quantity(
        "parameters/*/frequencies",
        UNIT,
        "angular frequencies of the Fourier modes of the control *, per time_unit",
        _frequencies,
        ("mode",),
        unit_of=of_frequencies,
    ),
)
