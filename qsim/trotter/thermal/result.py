"""Thermal averages against temperature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.deck.axes import PAIR_AXES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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
        Standard errors with those of the end of the recurrences; None where every sector was diagonalised.
    observed, observed_errors : dict of (T, ...) float64
        Correlators and structure factors, and their errors.
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
    steps: int = 0
    change: NDArray[np.float64] | None = None


def _observed(name: str) -> Any:
    return lambda result: result.observed.get(name)


def _row(number: int) -> Callable[[ThermalResult], NDArray[np.float64]]:
    return lambda result: result.values[number]


def _row_error(number: int) -> Callable[[ThermalResult], NDArray[np.float64] | None]:
    return lambda result: None if result.errors is None else result.errors[number]


def _observed_error(name: str) -> Callable[[ThermalResult], NDArray[np.float64] | None]:
    return lambda result: result.observed_errors.get(name)


def _thermal_pairs(axes: str) -> Callable[[ThermalResult], NDArray[np.int64] | None]:
    def found(result: ThermalResult) -> NDArray[np.int64] | None:
        pairs = result.problem.asked.pairs.get(axes)
        return None if pairs is None else np.array(pairs)

    return found


def _peak(result: ThermalResult) -> int:
    return int(np.argmax(result.values[1]))


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
        "temperature_of_maximum", "J", "temperature at which it is", lambda r: float(r.temperatures[_peak(r)])
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
    ),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity("sectors", "", "sectors of Sz that were computed", lambda r: len(r.problem.sectors)),
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
            Quantity(name, unit, text, _row(number), axes=("temperature",)),
            Quantity(
                f"{name}_error",
                unit,
                f"error of {name}: standard error of the random vectors, and that of the end of the recurrences",
                _row_error(number),
                axes=("temperature",),
            ),
        )
    ),
    *(
        Quantity(
            f"pairs_{axes}",
            "",
            f"sites (j, k) of correlator_{axes}_T",
            _thermal_pairs(axes),
            axes=(f"pair_{axes}", "end"),
        )
        for axes in PAIR_AXES
    ),
    Quantity(
        "wave_number",
        "pi",
        "2 m / N",
        lambda r: 2.0 * np.arange(r.problem.spins) / r.problem.spins,
        axes=("wave_number",),
        when=lambda r: any(name.startswith("structure") for name in r.observed),
    ),
    *(
        quantity
        for name, text, axis in (
            *(
                (f"correlator_{a}_T", f"<S{a[0]}_j S{a[0]}_k> at every temperature", f"pair_{a}")
                for a in PAIR_AXES
            ),
            *(
                (f"structure_factor_{a}_T", f"sum_jk exp(iq(j - k)) <S{a[0]}_j S{a[0]}_k> / N", "wave_number")
                for a in ("zz", "xx")
            ),
        )
        for quantity in (
            Quantity(name, "hbar^2", text, _observed(name), axes=("temperature", axis)),
            Quantity(
                f"{name}_error",
                "hbar^2",
                f"error of {name}: standard error of the random vectors, and that of the end of the recurrences",
                _observed_error(name),
                axes=("temperature", axis),
            ),
        )
    ),
)
