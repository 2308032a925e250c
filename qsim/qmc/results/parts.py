"""Parts of a complete run, their blocks and statistics, fits and Jastrow factors: sources of its quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.qmc.analysis import Analysis, Fit
    from qsim.qmc.problem import Part
    from qsim.qmc.run import Result
    from qsim.qmc.sampling.series import Series
    from qsim.qmc.statistics.blocking import Estimate
    from qsim.qmc.statistics.timestep import Extrapolation
    from qsim.qmc.wavefunction.jastrow import Function

JASTROW_POINTS = 401  # of the tables of the Jastrow factor
PADE_RANGE = 8.0  # bohr: end of the tables of functions that have no range of their own


class PartResult(NamedTuple):
    """A part of a run that is over: where its arrays are, its blocks, and their statistics if it is no optimisation."""

    group: str
    part: Part
    series: Series
    analysis: Analysis | None


def group_of(part: Part, series: Series) -> str:
    """Return where the arrays of a part are: ``series_1``, or ``series_2/tau_0`` for a time step, of a twist or state below."""
    name = f"series_{part.section}"
    if part.kind == "dmc":
        name += f"/tau_{part.step}"
    return name if series.member is None else f"{name}/{series.member}"


def part_results(result: Result) -> list[PartResult]:
    """Return all parts in the order of the run; of several twists their averages, and the optimisation of one of them."""
    found = zip(result.problem.parts, result.series, result.analyses, strict=True)
    return [PartResult(group_of(part, series), part, series, analysis) for part, series, analysis in found]


def all_results(result: Result) -> list[PartResult]:
    """Return all parts, and behind them those of all states but the first."""
    found = [
        PartResult(group_of(part, series), part, series, analysis)
        for one in result.states[1:]
        for part, series, analysis in zip(result.problem.parts, one.series, one.analyses, strict=True)
    ]
    return part_results(result) + found


def twist_results(result: Result) -> list[PartResult]:
    """Return the parts of each of several twists, but for optimisations."""
    return [
        PartResult(group_of(part, series), part, series, analysis)
        for one in result.twists
        for part, series, analysis in zip(result.problem.parts, one.series, one.analyses, strict=True)
        if analysis is not None
    ]


def last_part(result: Result, kind: str) -> PartResult | None:
    """Return the last part of a kind; of diffusion that with the smallest time step of its section. None if there is none."""
    smallest = {fit.index: fit.parts[0] for fit in result.fits}
    found = [
        item
        for k, item in enumerate(part_results(result))
        if item.part.kind == kind and (kind != "dmc" or smallest.get(item.part.section) == k)
    ]
    return found[-1] if found else None


def analysis_of(result: Result, kind: str) -> Analysis:
    """Return the statistics of the last part of a kind."""
    found = last_part(result, kind)
    assert found is not None  # such quantities have no value elsewhere
    assert found.analysis is not None
    return found.analysis


def info_of(result: Result, kind: str) -> Mapping[str, float]:
    """Return the numbers of the last part of a kind; none if there is no such part."""
    found = last_part(result, kind)
    return {} if found is None else found.series.info


def has_part(kind: str) -> Callable[[Result], bool]:
    """Return the function that tells whether a run has a part of a kind."""
    return lambda result: last_part(result, kind) is not None


def column(name: str, history: bool = False) -> Callable[[Result], object]:
    """Return the function for one array of every part that has it: of the optimisations (`history`), or of all others."""
    folder = "history/" if history else ""

    def value(result: Result) -> object:
        return {
            f"{item.group}/{folder}{name}": np.asarray(held[name])
            for item in all_results(result)
            for held in (item.series.blocks, item.series.arrays)
            if (item.analysis is None) == history and name in held
        }

    return value


def means_of(
    name: str, values: Callable[[Mapping[str, Estimate]], NDArray[Any]]
) -> Callable[[Result], object]:
    """Return the function for an array of the means of every part."""

    def value(result: Result) -> object:
        return {
            f"{item.group}/{name}": values(item.analysis.estimates)
            for item in all_results(result)
            if item.analysis is not None
        }

    return value


def errors_of(estimates: Mapping[str, Estimate]) -> NDArray[np.float64]:
    """Return the errors of estimates, NaN where they have none."""
    return np.array([np.nan if e.error is None else e.error for e in estimates.values()])


def reblocked(name: str) -> Callable[[Result], object]:
    """Return the function for one curve of reblocking, of parts that have enough blocks for one."""

    def value(result: Result) -> object:
        return {
            f"{item.group}/reblock/{name}": np.asarray(item.analysis.energy.curve._asdict()[name])
            for item in all_results(result)
            if item.analysis is not None and item.analysis.energy.curve.length.size
        }

    return value


def fitted(name: str, values: Callable[[Fit], NDArray[np.float64] | None]) -> Callable[[Result], object]:
    """Return the function for an array of the fit of every section of diffusion."""

    def value(result: Result) -> object:
        found = {f"series_{fit.index}/{name}": values(fit) for fit in result.fits}
        for one in result.states[1:]:
            group = f"state_{result.problem.roots[one.number]}"
            found |= {f"series_{fit.index}/{group}/{name}": values(fit) for fit in one.fits}
        return {key: array for key, array in found.items() if array is not None}

    return value


def extrapolation(fit: Fit, name: str) -> NDArray[np.float64] | None:
    """Return an array of the extrapolation; None where there is none."""
    if fit.extrapolation is None:
        return None
    return fit.extrapolation.covariance if name == "covariance" else fit.extrapolation.coefficients


def at_zero(result: Result) -> Extrapolation | None:
    """Return the extrapolation of the last section of diffusion to zero time step."""
    return result.fits[-1].extrapolation if result.fits else None


def radii(function: Function) -> NDArray[np.float64]:
    """Return the distances at which a function of the Jastrow factor is tabulated, bohr."""
    return np.linspace(0.0, function.rcut if function.kind == "bspline" else PADE_RANGE, JASTROW_POINTS)


def jastrow_table(
    name: str, values: Callable[[Function, Function], NDArray[np.float64]]
) -> Callable[[Result], object]:
    """Return the function for an array of every function of the Jastrow factor, at the start and at the end."""

    def value(result: Result) -> object:
        start = result.problem.wavefunction.jastrow
        return {
            f"jastrow/{after.name}/{name}": found
            for before, after in zip(start.functions, result.after.jastrow.functions, strict=True)
            if after.kind != "none" and (found := values(before, after)).size
        }

    return value


def determinant_energy(result: Result) -> object:
    """Return the energy of the determinants without a Jastrow factor, hartree; None if their source does not know it."""
    wavefunction = result.problem.wavefunction
    if wavefunction.expansion.size > 1:
        return wavefunction.expansion.about.get("energy")
    return wavefunction.orbitals.about.get("determinant_energy")


def has_determinants(result: Result) -> bool:
    """Return True if the trial function is a sum of several determinants."""
    return result.problem.wavefunction.expansion.size > 1


def of_expansion(name: str) -> Callable[[Result], object]:
    """Return the function for what is known of an expansion under a name; None if nothing is."""

    def value(result: Result) -> object:
        return result.problem.wavefunction.expansion.about.get(name)

    return value


def generations_per_second(result: Result) -> float | None:
    """Return walkers times generations per second of the last part of diffusion, or of vmc without one; None if unknown."""
    last: Series | None = None
    for kind in ("vmc", "dmc"):
        last = next((series for series in reversed(result.series) if series.kind == kind), last)
    if last is None or not last.info.get("seconds", 0.0) > 0.0:
        return None
    return float(last.info["generations"] / last.info["seconds"])
