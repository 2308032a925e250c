"""Quantities of each control: fluence, area and peak, and the coefficients of its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.quantum.result import named
from qsim.qoc.result import UNIT, of_areas, of_controls, of_fluences, of_frequencies

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.quantum.result import QuantumResult


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
    names = [c.name for c in result.problem.model.controls]
    parts = result.controls.parts(result.parameters)
    for name, line, u in zip(names, result.controls.lines, parts, strict=True):
        if line.basis is not None and line.fixed is None:
            drawn = [basis.coefficients(old) for basis, old in (*line.past, (line.basis, u))]
            found[f"parameters/{name}/coefficients"] = np.concatenate(drawn)
    return found


def _frequencies(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    """Return the angular frequencies of the Fourier modes of each control, of all draws one after another."""
    found = {}
    names = [c.name for c in result.problem.model.controls]
    for name, line in zip(names, result.controls.lines, strict=True):
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
