"""The result of a steady state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.measurement.quantities import axes_in, labels_in
from qsim.trotter.observables.registry import arrays_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.evolve.steady.problem import SteadyProblem

__all__ = ["QUANTITIES", "SteadyResult"]


@dataclass
class SteadyResult:
    """A steady state.

    Attributes
    ----------
    values : dict
        Observables by the names of their arrays.
    modes : (M,) complex128
        Eigenvalues of the generator, the steady state first.
    mode_errors : (M,) float64
        Their errors.
    residual : float
        ``||G rho||_2``.
    gap : float
        Slowest rate; not a number if it is not known.
    unique : bool
    error : float
        Bound of the distance from the exact state in the norm of the trace.
    energy, purity : float
    jumps : (entries,) float64
        Rate of the jumps of every entry of dissipation.
    """

    task: ClassVar[str] = "steady"

    problem: SteadyProblem
    values: dict[str, Any]
    modes: NDArray[np.complex128]
    mode_errors: NDArray[np.float64]
    residual: float
    gap: float
    unique: bool
    error: float
    energy: float
    purity: float
    jumps: NDArray[np.float64]


def _value(name: str) -> Callable[[SteadyResult], Any]:
    return lambda r: r.values.get(name)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _shift(size: Callable[[SteadyResult], float]) -> Callable[[SteadyResult], float | None]:
    """Return the function of the error of an observable of a largest eigenvalue."""
    return lambda r: _known(size(r) * r.error)


def _energy_scale(result: SteadyResult) -> float:
    return max(map(abs, result.problem.hamiltonian.envelope.bounds))


ARRAYS: tuple[Quantity[SteadyResult], ...] = (
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.models.spins), ("site",)),
    *(
        Quantity(
            array.name,
            array.unit,
            array.text,
            _value(array.name),
            array.axes,
            axes_of=axes_in("steady", kind, array),
            note=array.note,
        )
        for kind, array in arrays_of("steady")
    ),
    *labels_in("steady"),
    Quantity(
        "current",
        "J",
        "flow of Sz by the couplings from sites 0 ... j to the others",
        _value("current"),
        ("cut",),
    ),
    Quantity("mode_rate", "J", "slowest rates of the generator", lambda r: -r.modes.real[1:], ("mode",)),
    Quantity("mode_frequency", "J", "their frequencies", lambda r: r.modes.imag[1:], ("mode",)),
    Quantity(
        "mode_error", "J", "error of mode_rate and mode_frequency", lambda r: r.mode_errors[1:], ("mode",)
    ),
    Quantity(
        "jump_rates", "J", "rate of the jumps of each entry of dissipation", lambda r: r.jumps, ("entry",)
    ),
    Quantity(
        "fano_entries",
        "",
        "variance over mean of the jumps of each entry in a long time; none of an entry that makes no jumps",
        _value("fano_entries"),
        ("entry",),
    ),
    Quantity("fano_entries_error", "", "error of fano_entries", _value("fano_entries_error"), ("entry",)),
    Quantity("two_time", "", "Re <A_j(t) B_j(0)>", _value("two_time"), ("two_time_t", "two_time_site")),
    Quantity(
        "two_time_imag", "", "Im <A_j(t) B_j(0)>", _value("two_time_imag"), ("two_time_t", "two_time_site")
    ),
    Quantity("two_time_t", "1/J", "times of two_time", _value("two_time_t"), ("two_time_t",)),
    Quantity("emission", "1/J", "incoherent emission of the sites", _value("emission"), ("emission_omega",)),
    Quantity("emission_omega", "J", "frequencies of emission", _value("emission_omega"), ("emission_omega",)),
)

SCALARS: tuple[Quantity[SteadyResult], ...] = (
    Quantity("energy", "J", "<H>", lambda r: r.energy, error=_shift(_energy_scale), headline=True),
    Quantity(
        "total_sz",
        "hbar",
        "total Sz",
        _value("total_sz"),
        error=_shift(lambda r: 0.5 * r.problem.models.system.quanta),
        headline=True,
    ),
    Quantity("purity", "", "Tr rho^2", lambda r: r.purity, error=_shift(lambda _: 2.0), headline=True),
    Quantity(
        "gap",
        "J",
        "slowest rate of the generator",
        lambda r: _known(r.gap),
        error=lambda r: (
            None if np.isnan(r.gap) else float(r.mode_errors[np.argmin(np.abs(r.modes.real + r.gap))])
        ),
        headline=True,
    ),
    Quantity("unique", "", "whether there is one steady state", lambda r: r.unique, headline=True),
    Quantity("residual_steady", "J", "Frobenius norm of d rho / dt", lambda r: r.residual, headline=True),
    Quantity(
        "error_estimate",
        "",
        "bound of the distance from the exact steady state in the norm of the trace",
        lambda r: _known(r.error),
        headline=True,
    ),
    Quantity(
        "jump_rate",
        "J",
        "rate of all jumps",
        lambda r: float(r.jumps.sum()),
        error=_shift(lambda r: float(sum((np.abs(c.w) ** 2).sum() for c in r.problem.channels))),
    ),
    Quantity(
        "fano",
        "",
        "variance over mean of the number of all jumps in a long time",
        _value("fano"),
        error=_value("fano_error"),
        headline=True,
        when=lambda r: "fano" in r.values,
    ),
    Quantity(
        "emission_error",
        "",
        "largest change of the emission by the last vectors",
        _value("emission_error"),
        when=lambda r: "emission" in r.values,
    ),
    Quantity("elements", "", "elements of the density matrix", lambda r: r.problem.doubled.space.dimension),
    Quantity("spins", "", "number of spins", lambda r: r.problem.models.spins),
)

QUANTITIES = (*SCALARS, *ARRAYS)
