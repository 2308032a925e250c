"""What an evolution leaves: observables against time, their errors over the ensemble, drifts and steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.trotter.deck.axes import AXES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem

__all__ = ["QUANTITIES", "Result"]

BITS = "site j is bit j of the basis index, site 0 the least significant; bit 0 is up (+1/2), bit 1 is down"
TIME = "1/J"
ENTROPIES = ("entropy", "number_entropy", "renyi2", "schmidt", "schmidt_sz")

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
        State of the last trajectory at t_final, if it is asked for.
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
    info: dict[str, tuple[Any, str, str]] = field(default_factory=dict)


# -------------------------------------------------------------------------- observables against time


def _rows(result: Result, name: str, *, error: bool = False) -> NDArray[np.float64] | None:
    """Return an observable at the times of the file, or its error; None where there is none."""
    values = (result.error if error else result.mean).get(name)
    if values is None:
        return None
    asked = result.problem.asked
    everywhere = asked.otoc_everywhere if name.startswith("otoc") else asked.echo_everywhere
    if not name.startswith(("echo", "otoc")) or everywhere:
        values = values[result.problem.stored]
    return values[:, 0] if name in ENTROPIES and len(asked.cuts) == 1 else values


def _observable(
    name: str,
    unit: str,
    text: str,
    axes: Axes = ("time",),
    *,
    axes_of: Callable[[Result], Axes] | None = None,
    note: str = "",
) -> Quantity[Result]:
    return Quantity(name, unit, text, lambda r: _rows(r, name), axes, axes_of=axes_of, note=note)


def _error_of(observable: Quantity[Result]) -> Quantity[Result]:
    """Return the quantity of the error of an observable."""
    name = observable.name
    return replace(
        observable,
        name=f"{name}_error",
        text=f"standard error over the ensemble of {name}",
        value=lambda r: _rows(r, name, error=True),
        note="",
    )


def _sites_axes(a: str) -> Callable[[Result], Axes]:
    """Return a function that gives the axes of Sa: its sites are all sites, or have an axis of their own."""

    def axes(result: Result) -> Axes:
        sites = result.problem.asked.sites(a)
        return ("time", "site" if sites is None or len(sites) == result.problem.spins else f"site_s{a}")

    return axes


def _pairs_axes(axes: str) -> Callable[[Result], Axes]:
    """Return a function that gives the axes of a correlator: its pairs are those of all, or have an axis of their own."""
    return lambda r: ("time", "pair" if r.problem.asked.shared_pairs else f"pair_{axes}")


def _echo_axes(*more: str) -> Callable[[Result], Axes]:
    return lambda r: ("time" if r.problem.asked.echo_everywhere else "echo_time", *more)


def _cut_axes(*more: str) -> Callable[[Result], Axes]:
    """Return a function that gives the axes of an entropy: that of the cuts only where there are several."""
    return lambda r: ("time", *(() if len(r.problem.asked.cuts) == 1 else ("cut",)), *more)


def _entropy(name: str, unit: str, text: str, *more: str) -> Quantity[Result]:
    return _observable(name, unit, text, ("time", "cut", *more), axes_of=_cut_axes(*more))


STATE: tuple[Quantity[Result], ...] = (
    _observable("norm", "", "<psi|psi>"),
    _observable("energy", "J", "<H>", note="divided by the norm, as all expectation values"),
)
TOTALS = {a: _observable(f"total_s{a}", "hbar", f"total S{a}") for a in AXES}
OVERLAPS: tuple[Quantity[Result], ...] = (
    _observable("energy_variance", "J^2", "<H^2> - <H>^2"),
    _observable("return_probability", "", "|<psi(0)|psi(t)>|^2"),
    _observable("fidelity", "", "|<phi|psi(t)>|^2 with the state of the file"),
    _observable("imbalance", "", "sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2"),
    _observable("autocorrelation", "", "4 Tr[Sz_j(t) Sz_j]/2^N, as 2<Sz_j>"),
    _observable("polarisation", "", "4 Tr[Sz_k(t) Sz_j]/2^N, as 2<Sz_k>", ("time", "site")),
)
PARTS: tuple[Quantity[Result], ...] = (
    *(
        _observable(
            f"s{a}", "hbar", f"<S{a}> of the sites", ("time", "site"), axes_of=_sites_axes(a), note=BITS
        )
        for a in AXES
    ),
    *(
        _observable(
            f"correlator_{a}{a}",
            "hbar^2",
            f"<S{a}_j S{a}_k>",
            ("time", "pair"),
            axes_of=_pairs_axes(f"{a}{a}"),
        )
        for a in AXES
    ),
    _observable(
        "time_correlation",
        "hbar^2",
        "Re <Sz_j(t) Sz_k> of the site k that is asked for",
        ("time", "site"),
        note="of random states Tr[Sz_j(t) Sz_k]/D within D^(-1/2)/4",
    ),
    _observable(
        "otoc",
        "",
        "Re <W(t) V W(t) V>, Pauli matrices along z",
        ("time", "otoc_site"),
        axes_of=lambda r: ("time" if r.problem.asked.otoc_everywhere else "otoc_time", "otoc_site"),
    ),
    _observable("echo", "", "|<psi0|exp(i(H+Sigma)t) exp(-iHt)|psi0>|^2", axes_of=_echo_axes()),
    _observable("echo_normalised", "", "echo divided by <psi|psi> after the return", axes_of=_echo_axes()),
    _observable(
        "echo_local", "", "2<Sz> after the return", ("time", "echo_site"), axes_of=_echo_axes("echo_site")
    ),
    _entropy("entropy", "nat", "von Neumann entropy of the sites with the rest"),
    _entropy("number_entropy", "nat", "entropy of the distribution of Sz of the sites"),
    _entropy("renyi2", "nat", "Renyi entropy -ln tr rho^2 of the sites with the rest"),
    _entropy("schmidt", "", "squared Schmidt coefficients, the largest first", "schmidt_value"),
    _entropy("schmidt_sz", "hbar", "Sz of the sites, for each Schmidt coefficient", "schmidt_value"),
)


# ------------------------------------------------------------------------- what the observables are of


def _own_sites(a: str) -> Any:
    """Return a function that gives the sites of Sa, None where they are all sites, or not asked for."""

    def found(result: Result) -> NDArray[np.int64] | None:
        sites = result.problem.asked.sites(a)
        return None if sites is None or len(sites) == result.problem.spins else np.array(sites)

    return found


def _own_pairs(axes: str) -> Any:
    """Return a function that gives the pairs of a correlator, None where all correlators share theirs."""

    def found(result: Result) -> NDArray[np.int64] | None:
        asked = result.problem.asked
        return np.array(asked.pairs[axes]) if axes in asked.pairs and not asked.shared_pairs else None

    return found


def _shared_pairs(result: Result) -> NDArray[np.int64] | None:
    asked = result.problem.asked
    return np.array(next(iter(asked.pairs.values()))) if asked.pairs and asked.shared_pairs else None


def _otoc_sites(result: Result) -> NDArray[np.int64] | None:
    block = result.problem.asked.otoc
    return None if block is None else np.array(block.v)


def _otoc_times(result: Result) -> NDArray[np.float64] | None:
    problem = result.problem
    if "otoc" not in result.mean or problem.asked.otoc_everywhere:
        return None
    return np.array([problem.times[k] for k in problem.otoc_at])


def _echo_times(result: Result) -> NDArray[np.float64] | None:
    problem = result.problem
    if "echo" not in result.mean or problem.asked.echo_everywhere:
        return None
    return np.array([problem.times[k] for k in problem.echo_at])


def _cuts(result: Result) -> NDArray[np.bool_] | None:
    cuts, sites = result.problem.asked.cuts, range(result.problem.spins)
    return np.array([[site in cut for site in sites] for cut in cuts], dtype=bool) if cuts else None


ARRAYS: tuple[Quantity[Result], ...] = (
    Quantity("time", TIME, "output times", lambda r: np.array(r.problem.output_times), ("time",)),
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.spins), ("site",)),
    *STATE,
    *(
        quantity
        for a in AXES
        for quantity in (
            TOTALS[a],
            Quantity(f"site_s{a}", "", f"sites of s{a}", _own_sites(a), (f"site_s{a}",)),
            Quantity(
                f"pairs_{a}{a}",
                "",
                f"sites [j, k] of correlator_{a}{a}",
                _own_pairs(f"{a}{a}"),
                (f"pair_{a}{a}", "end"),
            ),
        )
    ),
    Quantity("pairs", "", "sites [j, k] of the correlators", _shared_pairs, ("pair", "end")),
    *OVERLAPS,
    Quantity(
        "entropy_sites", "", "whether a site belongs to the part of this entropy", _cuts, ("cut", "site")
    ),
    Quantity("otoc_time", TIME, "times of the out-of-time-order correlators", _otoc_times, ("otoc_time",)),
    Quantity(
        "otoc_site",
        "",
        "sites of V",
        _otoc_sites,
        ("otoc_site",),
    ),
    Quantity("echo_time", TIME, "times after which the echo was taken", _echo_times, ("echo_time",)),
    Quantity(
        "echo_site",
        "",
        "sites of the local echo",
        lambda r: np.array(r.problem.asked.echo_local) if "echo_local" in r.mean else None,
        ("echo_site",),
    ),
    Quantity(
        "couplings",
        "J",
        "J^a_jk of a = x, y, z, in spin operators, each pair in both places",
        lambda r: r.model.J,
        ("axis", "spin", "other"),
    ),
    Quantity("fields", "J", "h^a_j of a = x, y, z, in spin operators", lambda r: r.model.h, ("axis", "spin")),
    Quantity("state", "", "state at t_final", lambda r: r.psi, ("basis",), note=BITS),
    *PARTS,
    *(_error_of(observable) for observable in (*STATE, *TOTALS.values(), *OVERLAPS, *PARTS)),
)


# ------------------------------------------------------------------------------------------------ scalars


def _of(
    name: str,
    source: str,
    index: int | tuple[int, int],
    unit: str,
    text: str,
    *,
    headline: bool = False,
) -> Quantity[Result]:
    """Return the quantity of an observable at one time, with its error over the ensemble, where it was observed."""

    def error(result: Result) -> float | None:
        return float(result.error[source][index]) if source in result.error else None

    return Quantity(
        name,
        unit,
        text,
        lambda r: float(r.mean[source][index]),
        error=error,
        when=lambda r: source in r.mean,
        headline=headline,
    )


def _number(name: str, unit: str, text: str, key: str = "", *, headline: bool = False) -> Quantity[Result]:
    return Quantity(name, unit, text, lambda r: r.numbers[key or name], headline=headline)


def _echo_drift(result: Result) -> float:
    steps = 2 * max(result.numbers["steps"], 1)
    return abs(float(result.mean["echo"][-1]) - 1.0) / steps


SCALARS: tuple[Quantity[Result], ...] = (
    _of("energy_initial", "energy", 0, "J", "<H> at t = 0", headline=True),
    _of("energy_final", "energy", -1, "J", "<H> at t_final", headline=True),
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
    _number("dt", TIME, "longest time step"),
    _number("steps", "", "time steps of one trajectory", headline=True),
    _number("layers", "", "diagonal layers of one trajectory", headline=True),
    _of("total_sz_final", "total_sz", -1, "hbar", "total Sz at t_final", headline=True),
    _of("echo_final", "echo", -1, "", "Loschmidt echo after the last return", headline=True),
    _of("imbalance_final", "imbalance", -1, "", "imbalance at t_final", headline=True),
    _of("entropy_final", "entropy", (-1, 0), "nat", "entanglement entropy at t_final", headline=True),
    Quantity(
        "sector",
        "",
        "sector in which the states are carried; full: all states",
        lambda r: "full" if r.problem.sector is None else str(r.problem.sector),
        headline=True,
    ),
    Quantity("dimension", "", "amplitudes of a state", lambda r: r.problem.dimension, headline=True),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity("trajectories", "", "disorder realisations times random states", lambda r: r.problem.members),
    _number("conserved", "", "components of the total spin that H conserves"),
    Quantity("bit_order", "", "how basis states are numbered", lambda _: BITS),
    Quantity(
        "total_sz_drift",
        "hbar",
        "largest change of the conserved total Sz",
        lambda r: r.numbers["sz_drift"],
        when=lambda r: r.numbers["sz_drift"] is not None,
    ),
    _of("echo_normalised_final", "echo_normalised", -1, "", "echo divided by <psi|psi> after the return"),
    _of("return_probability_final", "return_probability", -1, "", "|<psi(0)|psi>|^2 at t_final"),
    _of("autocorrelation_final", "autocorrelation", -1, "", "autocorrelation at t_final"),
    _of("fidelity_final", "fidelity", -1, "", "fidelity at t_final"),
    _of("energy_variance_final", "energy_variance", -1, "J^2", "<H^2> - <H>^2 at t_final"),
    Quantity(
        "echo_drift_per_step",
        "",
        "|echo - 1| per time step, forward and back, not normalised",
        _echo_drift,
        when=lambda r: "echo" in r.mean and not r.problem.asked.echo_sigma,
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


QUANTITIES = (*SCALARS, *ARRAYS)
