"""The result of an evolution: observables against time, their errors over the ensemble, drifts and steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.trotter.evolve.open import quantities as of_open
from qsim.trotter.measurement.quantities import labels_in
from qsim.trotter.observables.base import Observable, shifted
from qsim.trotter.observables.registry import OBSERVABLES, arrays_of
from qsim.trotter.observables.spins import BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.observables.base import Array, Final

__all__ = ["QUANTITIES", "Result"]

TIME = "1/J"

Axes = tuple[str, ...]


@dataclass
class Result:
    """The result of a run; see ``output.py`` for the names in the file.

    Attributes
    ----------
    mean, error : dict of float64 arrays
        Means over the trajectories and their standard errors (empty without an ensemble), one row per time of the problem.
    numbers : dict
        Scalars: drifts, steps, layers.
    psi : (2^N,) complex or None
        State of the last trajectory at t_final, if it is observed.
    jumps : list of (n, 2) float64
        Time and channel of the jumps of every trajectory of an open system.
    info : dict of (value, unit, description)
        More scalars.
    """

    task: ClassVar[str] = "evolve"

    problem: Problem
    integration: Choice
    model: Any
    mean: dict[str, NDArray[np.float64]]
    error: dict[str, NDArray[np.float64]]
    numbers: dict[str, Any]
    psi: NDArray[Any] | None = None
    jumps: list[NDArray[np.float64]] = field(default_factory=list)
    info: dict[str, tuple[Any, str, str]] = field(default_factory=dict)


# -------------------------------------------------------------------------- observables against time


def _rows(
    result: Result, kind: type[Observable] | None, name: str, *, error: bool = False
) -> NDArray[np.float64] | None:
    """Return an array at the times of the file, or its error; None where there is none."""
    values = (result.error if error else result.mean).get(name)
    if values is None:
        return None
    observable = None if kind is None else result.problem.observables.get(kind)
    # arrays of every evolution
    if observable is None:
        return values[result.problem.stored]
    if observable.everywhere:
        values = values[result.problem.stored]
    return observable.column(values)


def _axes(kind: type[Observable], array: Array) -> Callable[[Result], Axes]:
    """Return a function that gives the axes of an array: its times, and the axes of the observable."""

    def axes(result: Result) -> Axes:
        observable = result.problem.observables.get(kind)
        if observable is None:
            return ("time", *array.axes)
        time = "time" if observable.everywhere else f"{kind.key}_time"
        return (time, *observable.axes(array, "evolve"))

    return axes


def _in_time(kind: type[Observable], array: Array) -> Quantity[Result]:
    """Return the quantity of an array of an observable."""
    return Quantity(
        array.name,
        array.unit,
        array.text,
        lambda r: _rows(r, kind, array.name),
        ("time", *array.axes),
        axes_of=_axes(kind, array),
        note=array.note,
    )


def _error_of(observed: Quantity[Result], kind: type[Observable] | None = None) -> Quantity[Result]:
    """Return the quantity of the error of an array."""
    name = observed.name
    return replace(
        observed,
        name=f"{name}_error",
        text=f"standard error over the ensemble of {name}",
        value=lambda r: _rows(r, kind, name, error=True),
        note="",
    )


def _own_times(kind: type[Observable]) -> Quantity[Result]:
    """Return the quantity of the times of an observable that need not be taken at every output time."""

    def times(result: Result) -> NDArray[np.float64] | None:
        problem, observable = result.problem, result.problem.observables.get(kind)
        if observable is None or observable.everywhere:
            return None
        return np.array([problem.times[k] for k in problem.times_of(kind)])

    name = f"{kind.key}_time"
    return Quantity(name, TIME, f"times at which {kind.key} was taken", times, (name,))


def _always(name: str, unit: str, text: str, note: str = "") -> Quantity[Result]:
    return Quantity(name, unit, text, lambda r: _rows(r, None, name), ("time",), note=note)


STATE: tuple[Quantity[Result], ...] = (
    _always("norm", "", "<psi|psi>"),
    _always("energy", "J", "<H>", note="divided by the norm, as all expectation values"),
)

ARRAYS: tuple[Quantity[Result], ...] = (
    Quantity("time", TIME, "output times", lambda r: np.array(r.problem.output_times), ("time",)),
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.spins), ("site",)),
    *STATE,
    *(_in_time(kind, array) for kind, array in arrays_of("evolve")),
    *labels_in("evolve"),
    *(_own_times(kind) for kind in OBSERVABLES.values() if kind.times is not Observable.times),
    Quantity(
        "couplings",
        "J",
        "J^a_jk of a = x, y, z, in spin operators, each pair in both places",
        lambda r: r.model.J,
        ("axis", "spin", "other"),
    ),
    Quantity("fields", "J", "h^a_j of a = x, y, z, in spin operators", lambda r: r.model.h, ("axis", "spin")),
    Quantity("state", "", "state at t_final", lambda r: r.psi, ("basis",), note=BITS),
    *(_error_of(quantity) for quantity in STATE),
    *(_error_of(_in_time(kind, array), kind) for kind, array in arrays_of("evolve")),
)


# ------------------------------------------------------------------------------------------------ scalars


def _at(
    name: str,
    unit: str,
    text: str,
    source: str,
    index: int | tuple[int, ...],
    moved: Callable[[Result], float | None],
) -> Quantity[Result]:
    """Return the quantity of an observable at one time, where it was observed.

    Its error is that over the ensemble, and how far the value has `moved` by the error of the states.
    """

    def error(result: Result) -> float | None:
        shift = moved(result)
        if source not in result.error:
            return shift
        # one is of chance, the other is in every trajectory
        return float(result.error[source][index]) + (shift or 0.0)

    return Quantity(
        name,
        unit,
        text,
        lambda r: float(r.mean[source][index]),
        error=error,
        when=lambda r: source in r.mean,
    )


def _moved(final: Final) -> Callable[[Result], float | None]:
    """Return the function that tells how far a last value is moved by the error of the state."""

    def moved(result: Result) -> float | None:
        lost = result.integration.error
        return None if final.error is None or math.isnan(lost) else final.error(result.problem, lost)

    return moved


def _rounding(result: Result) -> float:
    """Return how far an energy may be rounded: the sum over the terms of H, in units of the last place."""
    scale = max(map(abs, result.model.bounds), default=0.0)
    return 4.0 * result.problem.spins * float(np.finfo(result.problem.dtype).eps) * scale


def _moved_energy(result: Result) -> float | None:
    """Return the error of the energy at t_final: its drift, where it is conserved; else how far the state moves it."""
    drift, lost = result.numbers["energy_drift"], result.integration.error
    if drift is not None:
        return float(drift) + _rounding(result)
    if math.isnan(lost):
        return None
    low, high = result.problem.hamiltonian().envelope.bounds
    return shifted(max(abs(low), abs(high)), lost) + _rounding(result)


def _finals(*, headline: bool) -> Iterator[Quantity[Result]]:
    """Yield the last values of observables."""
    for kind in OBSERVABLES.values():
        for final in kind.finals:
            if final.headline == headline:
                quantity = _at(final.name, final.unit, final.text, final.array, final.index, _moved(final))
                yield replace(quantity, headline=headline)


def _number(name: str, unit: str, text: str, key: str = "", *, headline: bool = False) -> Quantity[Result]:
    return Quantity(name, unit, text, lambda r: r.numbers[key or name], headline=headline)


def _echo_drift(result: Result) -> float:
    steps = 2 * max(result.numbers["steps"], 1)
    return abs(float(result.mean["echo"][-1]) - 1.0) / steps


SCALARS: tuple[Quantity[Result], ...] = (
    *_finals(headline=True),
    replace(_at("energy_initial", "J", "<H> at t = 0", "energy", 0, _rounding), headline=True),
    replace(_at("energy_final", "J", "<H> at t_final", "energy", -1, _moved_energy), headline=True),
    _number(
        "energy_drift",
        "J",
        "largest |<H>(t) - <H>(0)| of any trajectory; none if H depends on time",
        headline=True,
    ),
    _number("norm_drift", "", "largest |<psi|psi> - 1| of any trajectory", headline=True),
    Quantity(
        "error_estimate",
        "",
        "estimated error ||psi - psi_exact|| at t_final, of the state and of that of the way back of an echo",
        lambda r: None if math.isnan(r.integration.error) else r.integration.error,
        headline=True,
    ),
    Quantity("integrator", "", "integrator of the run", lambda r: r.integration.method, headline=True),
    replace(_number("dt", TIME, "longest time step"), exact=True),
    _number("steps", "", "time steps of one trajectory", headline=True),
    _number("layers", "", "diagonal layers of one trajectory", headline=True),
    Quantity(
        "sector",
        "",
        "sector in which the states are carried; full: all states",
        lambda r: "full" if r.problem.sector is None else str(r.problem.sector),
        headline=True,
    ),
    Quantity("dimension", "", "amplitudes of a state", lambda r: r.problem.dimension, headline=True),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity(
        "trajectories",
        "",
        "disorder realisations times random states, times the trajectories of an open system that were made",
        lambda r: len(r.jumps) if r.problem.jumping else r.problem.members,
    ),
    _number("conserved", "", "components of the total spin that H conserves"),
    Quantity("bit_order", "", "how basis states are numbered", lambda _: BITS),
    Quantity(
        "total_sz_drift",
        "hbar",
        "largest change of the conserved total Sz",
        lambda r: r.numbers["sz_drift"],
        when=lambda r: r.numbers["sz_drift"] is not None,
    ),
    *_finals(headline=False),
    Quantity(
        "echo_drift_per_step",
        "",
        "|echo - 1| per time step, forward and back, not normalised",
        _echo_drift,
        when=lambda r: r.problem.echo is not None and not r.problem.echo.perturbed,
    ),
    Quantity(
        "verification_*",
        "",
        "* of the last trajectory: how far it lies from that with half the step",
        lambda r: {
            name: Scalar(value, unit, description=text) for name, (value, unit, text) in r.info.items()
        },
    ),
)


QUANTITIES = (*SCALARS, *of_open.SCALARS, *ARRAYS, *of_open.ARRAYS)
