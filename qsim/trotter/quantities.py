"""Quantities of the tasks beside an evolution, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.quantities_dynamics import DYNAMICS
from qsim.trotter.tasks.results import (
    DynamicsResult,
    FloquetResult,
    LevelsResult,
    SpectrumResult,
    TaskResult,
    ThermalResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["DYNAMICS", "LEVELS", "SPECTRUM", "THERMAL", "declared"]


def _observed(name: str) -> Any:
    return lambda result: result.observed.get(name)


def _energies(result: SpectrumResult) -> dict[str, float]:
    return {f"energy_{k}": float(energy) for k, energy in enumerate(result.listed[:, 0])}


def _bounds(result: SpectrumResult) -> dict[str, float]:
    return {f"energy_error_{k}": result.error(k) for k in range(len(result.listed))}


def _gap(part: int) -> Callable[[SpectrumResult], float | None]:
    return lambda result: None if result.gap is None else result.gap[part]


def _pairs(axes: str) -> Any:
    def found(result: SpectrumResult) -> NDArray[np.int64] | None:
        pairs = result.problem.asked.pairs.get(axes)
        return None if pairs is None else np.array(pairs)

    return found


def _momenta(result: SpectrumResult) -> NDArray[np.float64] | None:
    found = [getattr(sector, "momentum", None) for sector in result.sectors]
    return (
        None if None in found else np.array([2.0 * k / result.problem.spins for k in found if k is not None])
    )


def _cuts(result: SpectrumResult | FloquetResult) -> NDArray[np.bool_] | None:
    cuts, sites = result.problem.asked.cuts, range(result.problem.spins)
    return np.array([[site in cut for site in sites] for cut in cuts]) if cuts else None


AXES = ("xx", "yy", "zz")

SPECTRUM: tuple[Quantity[SpectrumResult], ...] = (
    Quantity("sector", "", "sector of the lowest (highest) level", lambda r: str(r.extreme), headline=True),
    Quantity("dimension", "", "states of that sector", lambda r: r.extreme.dimension, headline=True),
    Quantity(
        "E0_per_site",
        "J",
        "lowest (highest) level per site",
        lambda r: float(r.listed[0, 0]) / r.problem.spins,
        error=lambda r: r.error(0) / r.problem.spins,
        headline=True,
    ),
    Quantity(
        "gap",
        "J",
        "distance of the two lowest (highest) distinct levels of H",
        _gap(0),
        error=_gap(1),
        headline=True,
        when=lambda r: r.problem.complete and r.gap is not None,
    ),
    Quantity(
        "sector_gap",
        "J",
        "distance of the two lowest (highest) distinct levels in the sectors of the deck, which do not hold all levels of H",
        _gap(0),
        error=_gap(1),
        headline=True,
        when=lambda r: not r.problem.complete and r.gap is not None,
    ),
    Quantity(
        "energy_*",
        "J",
        "level *, the lowest (highest) first, each as often as H has it (with a sector in the deck, as the sectors have it)",
        _energies,
        headline=("energy_0", "energy_1"),
    ),
    Quantity("energy_error_*", "J", "bound of the error of level *: residual and rounding", _bounds),
    Quantity(
        "degeneracy",
        "",
        "states of H at the lowest (highest) level (with a sector in the deck, in its sectors)",
        lambda r: r.degeneracy,
        headline=True,
        when=lambda r: r.degeneracy is not None,
    ),
    Quantity(
        "residual_max",
        "J",
        "largest ||H psi - E psi||",
        lambda r: max(float(np.nanmax(r.residuals)), float(r.listed[:, 1].max())),
        headline=True,
    ),
    Quantity("products", "", "products H psi", lambda r: r.products),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.spins), axes=("site",)),
    Quantity(
        "level",
        "",
        "number of a level in its sector",
        lambda r: np.arange(r.levels.shape[1]),
        axes=("level",),
    ),
    Quantity(
        "sector_sz",
        "hbar",
        "total Sz of the sectors",
        lambda r: np.array([s.sz for s in r.sectors]),
        axes=("sector_sz",),
    ),
    Quantity(
        "sector_momentum",
        "pi",
        "momentum of the sectors",
        _momenta,
        axes=("sector_sz",),
        when=lambda r: _momenta(r) is not None,
    ),
    Quantity("levels", "J", "levels of the sectors", lambda r: r.levels, axes=("sector_sz", "level")),
    Quantity(
        "residuals",
        "J",
        "||H psi - E psi|| of the levels",
        lambda r: r.residuals,
        axes=("sector_sz", "level"),
    ),
    Quantity(
        "sector_dimension",
        "",
        "states of the sectors",
        lambda r: np.array([s.dimension for s in r.sectors]),
        axes=("sector_sz",),
    ),
    Quantity(
        "sz",
        "hbar",
        "<Sz> in the lowest (highest) level, the mean over its states",
        _observed("sz"),
        axes=("site",),
    ),
    *(
        quantity
        for axes in AXES
        for quantity in (
            Quantity(
                f"correlator_{axes}",
                "hbar^2",
                f"<S{axes[0]}_j S{axes[1]}_k> in the lowest (highest) level, the mean over its states",
                _observed(f"correlator_{axes}"),
                axes=(f"pair_{axes}",),
            ),
            Quantity(
                f"pairs_{axes}",
                "",
                f"sites [j, k] of correlator_{axes}",
                _pairs(axes),
                axes=(f"pair_{axes}", "end"),
            ),
        )
    ),
    Quantity(
        "wave_number",
        "pi",
        "q of the structure factor, 2 m / N in units of pi",
        lambda r: (
            2.0 * np.arange(r.problem.spins) / r.problem.spins
            if any(name.startswith("structure") for name in r.observed)
            else None
        ),
        axes=("wave_number",),
    ),
    *(
        Quantity(
            f"structure_factor_{axes}",
            "hbar^2",
            f"sum_jk exp(iq(j-k)) <S{axes[0]}_j S{axes[0]}_k>/N in the lowest (highest) level, the mean over its states",
            _observed(f"structure_factor_{axes}"),
            axes=("wave_number",),
        )
        for axes in ("xx", "zz")
    ),
    Quantity(
        "entropy_sites", "", "whether a site belongs to the part of this entropy", _cuts, axes=("cut", "site")
    ),
    Quantity(
        "entropy",
        "nat",
        "von Neumann entropy of the sites with the rest",
        _observed("entropy"),
        axes=("cut",),
    ),
    Quantity(
        "number_entropy",
        "nat",
        "entropy of the distribution of Sz of the sites",
        _observed("number_entropy"),
        axes=("cut",),
    ),
    Quantity("renyi2", "nat", "Renyi entropy -ln tr rho^2", _observed("renyi2"), axes=("cut",)),
    Quantity(
        "schmidt",
        "",
        "squared Schmidt coefficients, the largest first",
        _observed("schmidt"),
        axes=("cut", "schmidt_value"),
    ),
    Quantity(
        "schmidt_sz",
        "hbar",
        "Sz of the sites, for each Schmidt coefficient",
        _observed("schmidt_sz"),
        axes=("cut", "schmidt_value"),
    ),
)


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


THERMAL: tuple[Quantity[ThermalResult], ...] = (
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
        for axes in AXES
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
                for a in AXES
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

LEVELS: tuple[Quantity[LevelsResult], ...] = (
    Quantity("sector", "", "sector of the levels", lambda r: str(r.problem.sectors[0]), headline=True),
    Quantity(
        "dimension", "", "states of the sector", lambda r: r.problem.sectors[0].dimension, headline=True
    ),
    Quantity(
        "gap_ratio",
        "",
        "mean of min/max of neighbouring spacings in the window: 0.3863 random levels, 0.5307 orthogonal ensemble",
        lambda r: float(r.ratios.mean()),
        error=lambda r: r.ratio_error,
        headline=True,
        when=lambda r: bool(r.ratios.size),
    ),
    Quantity("energy_0", "J", "lowest level of the first realisation", lambda r: float(r.levels[0, 0])),
    Quantity("realisations", "", "realisations of the disorder", lambda r: len(r.levels)),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity(
        "levels", "J", "all levels of every realisation", lambda r: r.levels, axes=("realisation", "state")
    ),
    Quantity(
        "gap_ratios",
        "",
        "gap ratios in the window, of all realisations",
        lambda r: r.all_ratios,
        axes=("gap_ratios",),
    ),
    Quantity(
        "participation",
        "nat",
        "-sum p ln p over the Ising states, of every eigenstate",
        lambda r: r.participation,
        axes=("realisation", "state"),
    ),
    Quantity(
        "half_chain_entropy",
        "nat",
        "entropy of the first half of the sites, of every eigenstate",
        lambda r: r.entropies,
        axes=("realisation", "state"),
    ),
)


def _row_of(name: str) -> Callable[[FloquetResult], NDArray[Any] | None]:
    return lambda result: result.row(name)


def _cut_axes(name: str) -> Callable[[FloquetResult], tuple[str, ...]]:
    """Return a function that gives the axes of an entropy: that of the cuts only where there are several."""

    def axes(result: FloquetResult) -> tuple[str, ...]:
        values = result.row(name)
        return ("time",) if values is not None and values.ndim == 1 else ("time", "cut")

    return axes


def _final(name: str) -> Callable[[FloquetResult], float | None]:
    def found(result: FloquetResult) -> float | None:
        values = result.row(name)
        return None if values is None or values.ndim > 1 else float(values[-1])

    return found


FLOQUET: tuple[Quantity[FloquetResult], ...] = (
    Quantity("cycles", "", "cycles", lambda r: r.problem.block.cycles, headline=True),
    Quantity("period", "1/J", "duration of a cycle", lambda r: r.period, headline=True),
    Quantity(
        "norm_drift",
        "",
        "largest change of <psi|psi>",
        lambda r: float(np.abs(r.rows["norm"] - r.rows["norm"][0]).max()),
        headline=True,
    ),
    Quantity("error_estimate", "", "claimed error of the last state", lambda r: r.error, headline=True),
    Quantity("imbalance_final", "", "imbalance after the last cycle", _final("imbalance"), headline=True),
    Quantity("entropy_final", "nat", "entropy after the last cycle", _final("entropy"), headline=True),
    Quantity(
        "return_probability_final",
        "",
        "|<psi(0)|psi>|^2 after the last cycle",
        _final("return_probability"),
        headline=True,
    ),
    Quantity("sector", "", "sector of the state", lambda r: str(r.sector), headline=True),
    Quantity("dimension", "", "states of that sector", lambda r: r.sector.dimension, headline=True),
    Quantity(
        "gap_ratio",
        "",
        "mean of min/max of neighbouring spacings of quasi-energies: 0.3863 random, 0.5307 orthogonal ensemble",
        lambda r: r.ratio,
        headline=True,
        when=lambda r: r.quasienergies is not None,
    ),
    Quantity("products", "", "products H psi", lambda r: r.products),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity(
        "time", "1/J", "times of the observations", lambda r: r.rows["cycle"] * r.period, axes=("time",)
    ),
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.spins), axes=("site",)),
    Quantity(
        "entropy_sites",
        "",
        "whether a site is in the part whose entropy is taken",
        _cuts,
        axes=("cut", "site"),
    ),
    Quantity("cycle", "", "cycles before each observation", lambda r: r.rows["cycle"], axes=("time",)),
    Quantity("norm", "", "<psi|psi>", lambda r: r.rows["norm"], axes=("time",)),
    Quantity("sz", "hbar", "<Sz> of the sites", lambda r: r.rows["sz"], axes=("time", "site")),
    Quantity(
        "imbalance", "", "sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2", _row_of("imbalance"), axes=("time",)
    ),
    Quantity("return_probability", "", "|<psi(0)|psi(t)>|^2", _row_of("return_probability"), axes=("time",)),
    *(
        Quantity(
            name,
            "nat",
            text,
            _row_of(name),
            axes=("time", "cut"),
            axes_of=_cut_axes(name),
        )
        for name, text in (
            ("entropy", "von Neumann entropy of the sites with the rest"),
            ("number_entropy", "entropy of the distribution of Sz of the sites"),
            ("renyi2", "Renyi entropy -ln tr rho^2"),
        )
    ),
    Quantity(
        "quasienergies",
        "",
        "angles of the eigenvalues exp(i theta) of a cycle, in (-pi, pi]",
        lambda r: r.quasienergies,
        axes=("state",),
    ),
)


def declared(result: TaskResult) -> tuple[Quantity[Any], ...]:
    """Return the quantities of a result."""
    if isinstance(result, SpectrumResult):
        return SPECTRUM
    if isinstance(result, DynamicsResult):
        return DYNAMICS
    if isinstance(result, FloquetResult):
        return FLOQUET
    return THERMAL if isinstance(result, ThermalResult) else LEVELS
