"""A state after every few cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.measurement.quantities import axes_in, labels_in
from qsim.trotter.observables.registry import OBSERVABLES, arrays_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.floquet.problem import FloquetProblem
    from qsim.trotter.measurement.spaces import Space

__all__ = ["QUANTITIES", "FloquetResult"]


@dataclass
class FloquetResult:
    """A state after every few cycles.

    Attributes
    ----------
    problem : FloquetProblem
    sector : Space
    rows : dict of arrays
        ``cycle``, ``norm``, ``sz`` and the observables of the deck, one row per observation.
    error : float
        Claimed error of the last state.
    products : int
    quasienergies : (D,) float64 or None
    ratio, ratio_error : float or None
        Mean gap ratio of the quasi-energies and its error, from parts of the spectrum.
    """

    task: ClassVar[str] = "floquet"

    problem: FloquetProblem
    sector: Space
    rows: dict[str, NDArray[Any]]
    error: float
    products: int
    quasienergies: NDArray[np.float64] | None = None
    ratio: float | None = None
    ratio_error: float | None = None

    @property
    def period(self) -> float:
        """Duration of a cycle."""
        return sum(step.time for step in self.problem.block.cycle)

    def row(self, name: str) -> NDArray[Any] | None:
        """Return a row of observations, None if there is none; of one cut without the axis of the cuts."""
        values = self.rows.get(name)
        # one row per observation, and one column per cut
        kind = next((kind for kind, array in arrays_of("floquet") if array.name == name), None)
        observable = None if values is None or kind is None else self.problem.observables.get(kind)
        return values if observable is None else observable.column(np.asarray(values))


def _row_of(name: str) -> Callable[[FloquetResult], NDArray[Any] | None]:
    return lambda result: result.row(name)


def _final(name: str) -> Callable[[FloquetResult], float | None]:
    def last(result: FloquetResult) -> float | None:
        values = result.row(name)
        return None if values is None or values.ndim > 1 else float(values[-1])

    return last


def _last(name: str, unit: str, text: str) -> Quantity[FloquetResult]:
    """Return the quantity of the last value of an observable; its error is how far the error of the state moves it."""
    final = next(f for kind in OBSERVABLES.values() for f in kind.finals if f.name == f"{name}_final")

    def moved(result: FloquetResult) -> float | None:
        return None if final.error is None else final.error(result.problem, result.error)

    return Quantity(final.name, unit, text, _final(name), error=moved, headline=True)


QUANTITIES: tuple[Quantity[FloquetResult], ...] = (
    _last("entropy", "nat", "entropy after the last cycle"),
    _last("imbalance", "", "imbalance after the last cycle"),
    _last("return_probability", "", "|<psi(0)|psi>|^2 after the last cycle"),
    Quantity(
        "gap_ratio",
        "",
        "mean of min/max of neighbouring spacings of quasi-energies: 0.3863 Poisson, 0.5307 GOE",
        lambda r: r.ratio,
        error=lambda r: r.ratio_error,
        headline=True,
        when=lambda r: r.quasienergies is not None,
    ),
    Quantity("cycles", "", "cycles", lambda r: r.problem.block.cycles, headline=True),
    Quantity("period", "1/J", "duration of a cycle", lambda r: r.period, headline=True, exact=True),
    Quantity(
        "norm_drift",
        "",
        "largest change of <psi|psi>",
        lambda r: float(np.abs(r.rows["norm"] - r.rows["norm"][0]).max()),
        headline=True,
    ),
    Quantity("error_estimate", "", "claimed error of the last state", lambda r: r.error, headline=True),
    Quantity("sector", "", "sector of the state", lambda r: str(r.sector), headline=True),
    Quantity("dimension", "", "states of that sector", lambda r: r.sector.dimension, headline=True),
    Quantity("products", "", "products H psi", lambda r: r.products),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity(
        "time", "1/J", "times of the observations", lambda r: r.rows["cycle"] * r.period, axes=("time",)
    ),
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.spins), axes=("site",)),
    Quantity("cycle", "", "cycles before each observation", lambda r: r.rows["cycle"], axes=("time",)),
    Quantity("norm", "", "<psi|psi>", lambda r: r.rows["norm"], axes=("time",)),
    *(
        Quantity(
            array.name,
            array.unit,
            array.text,
            _row_of(array.name),
            axes=("time", *array.axes),
            axes_of=axes_in("floquet", kind, array, ("time",)),
        )
        for kind, array in arrays_of("floquet")
    ),
    *labels_in("floquet"),
    Quantity(
        "quasienergies",
        "",
        "angles of the eigenvalues exp(i theta) of a cycle, in (-pi, pi]",
        lambda r: r.quasienergies,
        axes=("state",),
    ),
)
