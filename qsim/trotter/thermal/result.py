"""Thermal averages against temperature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.deck.axes import AXES
from qsim.trotter.measurement.quantities import axes_in, labels_in
from qsim.trotter.observables.registry import arrays_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.trotter.observables.base import Array as Observed
    from qsim.trotter.observables.base import Observable
    from qsim.trotter.thermal.problem import ThermalProblem

__all__ = ["QUANTITIES", "ThermalResult"]


@dataclass
class ThermalResult:
    """Thermal averages.

    Attributes
    ----------
    problem : ThermalProblem
    temperatures : (T,) float64
    values : (4, T) float64
        Energy, specific heat, susceptibility and entropy, per site.
    errors : (4, T) float64 or None
        Standard errors with the errors of the end of the recurrences; None where every sector was diagonalised.
    observed, observed_errors : dict of (T, ...) float64
        Correlators and structure factors, and their errors.
    response : dict of (T,) float64
        Magnetisation and susceptibility along each axis, per site, where H conserves none of the total spins.
    response_errors : dict of (T,) float64
        Their standard errors, where they come from random vectors.
    steps : int
        Largest number of steps of a random vector; 0 where every sector was diagonalised.
    change : (T,) float64 or None
        Largest change of ln Z and <H> / T with the last two fifths of the steps.
    """

    task: ClassVar[str] = "thermal"

    problem: ThermalProblem
    temperatures: NDArray[np.float64]
    values: NDArray[np.float64]
    errors: NDArray[np.float64] | None
    observed: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    observed_errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    response: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    response_errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    steps: int = 0
    change: NDArray[np.float64] | None = None


def _observed(name: str) -> Any:
    return lambda result: result.observed.get(name)


def _row(number: int) -> Callable[[ThermalResult], NDArray[np.float64]]:
    return lambda result: result.values[number]


def _row_error(number: int) -> Callable[[ThermalResult], NDArray[np.float64] | None]:
    return lambda result: None if result.errors is None else result.errors[number]


def _has(name: str) -> Callable[[ThermalResult], bool]:
    """Return whether a row is given: the fluctuation of Sz is the susceptibility where H conserves it."""
    return lambda result: (
        name != "susceptibility" or (result.problem.charged and result.problem.frame.axis == "z")
    )


def _response(name: str) -> Callable[[ThermalResult], NDArray[np.float64] | None]:
    return lambda result: result.values[2] if _fluctuates(result, name) else result.response.get(name)


def _response_error(name: str) -> Callable[[ThermalResult], NDArray[np.float64] | None]:
    def error(result: ThermalResult) -> NDArray[np.float64] | None:
        if _fluctuates(result, name):
            return _row_error(2)(result)
        return result.response_errors.get(name)

    return error


def _fluctuates(result: ThermalResult, name: str) -> bool:
    """Return True for the susceptibility of a total spin that H conserves along another axis than z: the fluctuation."""
    own = result.problem.frame.axis
    return result.problem.charged and own != "z" and name == f"susceptibility_{own}"


def _observed_error(name: str) -> Callable[[ThermalResult], NDArray[np.float64] | None]:
    return lambda result: result.observed_errors.get(name)


def _against_temperature(kind: type[Observable], array: Observed) -> Iterator[Quantity[ThermalResult]]:
    """Yield an array of an observable at every temperature, and its error."""
    name, axes = f"{array.name}_T", ("temperature", *array.axes)
    axes_of = axes_in("thermal", kind, array, ("temperature",))

    yield Quantity(
        name,
        array.unit,
        f"{array.text} at every temperature",
        _observed(name),
        axes=axes,
        axes_of=axes_of,
    )
    yield Quantity(
        f"{name}_error",
        array.unit,
        f"error of {name}: standard error of the random vectors, and that of the end of the recurrences",
        _observed_error(name),
        axes=axes,
        axes_of=axes_of,
    )


def _peak(result: ThermalResult) -> int:
    return int(np.argmax(result.values[1]))


def _peak_error(result: ThermalResult) -> float | None:
    """Return how far the temperature of the maximum may lie from that of the grid; None where the maximum is at an end."""
    heat, T, top = result.values[1], result.temperatures, _peak(result)
    errors = np.zeros_like(heat) if result.errors is None else result.errors[1]
    # all temperatures that may have the largest specific heat within the errors, and their neighbours
    possible = np.flatnonzero(heat + errors >= heat[top] - errors[top])
    first, last = int(possible[0]) - 1, int(possible[-1]) + 1
    if first < 0 or last >= T.size:
        return None
    return float(max(T[top] - T[first], T[last] - T[top]))


QUANTITIES: tuple[Quantity[ThermalResult], ...] = (
    Quantity(
        "specific_heat_max",
        "",
        "largest specific heat per site on the grid",
        lambda r: float(r.values[1, _peak(r)]),
        error=lambda r: None if r.errors is None else float(r.errors[1, _peak(r)]),
        headline=True,
    ),
    Quantity(
        "temperature_of_maximum",
        "J",
        "temperature at which it is",
        lambda r: float(r.temperatures[_peak(r)]),
        error=_peak_error,
    ),
    Quantity(
        "steps",
        "",
        "largest number of products H psi of a random vector",
        lambda r: r.steps,
        when=lambda r: r.steps > 0,
    ),
    Quantity(
        "change_max",
        "",
        "largest change of ln Z and <H> / T with the last two fifths of the products",
        lambda r: None if r.change is None else float(r.change.max()),
        headline=True,
        when=lambda r: r.steps > 0,
        exact=True,
    ),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity("sectors", "", "sectors that were computed", lambda r: len(r.problem.sectors)),
    Quantity("temperature", "J", "temperatures, k_B = 1", lambda r: r.temperatures, axes=("temperature",)),
    *(
        quantity
        for number, (name, unit, text) in enumerate(
            (
                ("energy_T", "J", "<H> per site"),
                ("specific_heat", "", "(<H^2> - <H>^2) / T^2 per site"),
                ("susceptibility", "1/J", "(<Sz^2> - <Sz>^2) / T per site"),
                ("entropy_T", "nat", "ln Z + <H> / T per site"),
            )
        )
        for quantity in (
            Quantity(name, unit, text, _row(number), axes=("temperature",), when=_has(name)),
            Quantity(
                f"{name}_error",
                unit,
                f"error of {name}: standard error of the random vectors, and that of the end of the recurrences",
                _row_error(number),
                axes=("temperature",),
                when=_has(name),
            ),
        )
    ),
    *(
        quantity
        for axis in AXES
        for name, unit, text in (
            ("magnetisation", "hbar", "<M> / N of the total spin M along "),
            (
                "susceptibility",
                "1/J",
                "d<M>/dh / N, the integral of <M(tau) M> - <M>^2 over imaginary time, of the total spin along ",
            ),
        )
        for quantity in (
            Quantity(
                f"{name}_{axis}", unit, f"{text}{axis}", _response(f"{name}_{axis}"), axes=("temperature",)
            ),
            Quantity(
                f"{name}_{axis}_error",
                unit,
                f"standard error of {name}_{axis} by the random vectors",
                _response_error(f"{name}_{axis}"),
                axes=("temperature",),
            ),
        )
    ),
    *labels_in("thermal"),
    *(quantity for kind, array in arrays_of("thermal") for quantity in _against_temperature(kind, array)),
)
