"""Names, units and figures of a qmc result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.results import quantities
from qsim.core.results.quantities import Quantity
from qsim.qmc.estimators.tables import estimator_tables
from qsim.qmc.figures import FIGURES
from qsim.qmc.sampling.series import ENERGIES
from qsim.qmc.scalar_dat import extra_files, extra_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.results.tables import Scalar
    from qsim.qmc.analysis import Analysis, Fit
    from qsim.qmc.problem import Part
    from qsim.qmc.run import Result
    from qsim.qmc.sampling.series import Series
    from qsim.qmc.statistics.blocking import Estimate
    from qsim.qmc.statistics.timestep import Extrapolation
    from qsim.qmc.wavefunction.jastrow import Function

__all__ = ["FIGURES", "HEADLINE", "QUANTITIES", "TABLES", "arrays", "extra_files", "extra_paths", "scalars"]

HARTREE = "hartree"
JASTROW_POINTS = 401  # of the tables of the Jastrow factor
PADE_RANGE = 8.0  # bohr: end of the tables of functions that have no range of their own
MEANS = {
    "energy": (HARTREE, "total energy, ions included"),
    "kinetic": (HARTREE, "kinetic energy"),
    "electron_electron": (HARTREE, "repulsion of the electrons"),
    "local": (HARTREE, "energy of the electrons in the local potential of the ions"),
    "nonlocal": (HARTREE, "energy in the nonlocal pseudopotentials"),
    "external": (HARTREE, "energy in the external potential"),
}
COLUMNS = {
    **MEANS,
    "energy_squared": ("hartree^2", "mean square of the local energy"),
    "weight": ("", "sum of the weights of all walkers and generations"),
    "acceptance": ("", "fraction of accepted moves"),
    "nonlocal_moves": ("", "T-moves per electron and generation"),
    "population": ("", "mean sum of the weights of all walkers"),
    "trial_energy": (HARTREE, "trial energy at the end of the block"),
    "seconds": ("s", "wall time"),
}
HISTORY = {
    **COLUMNS,
    "energy_error": (HARTREE, "error of the energy"),
    "variance": ("hartree^2", "variance of the local energy"),
    "variance_error": ("hartree^2", "error of the variance"),
    "target": ("", "what is made small"),
    "target_error": ("", "error of the target"),
    "step": ("", "change of the norm of the trial function by the step taken from here"),
    "shift": (HARTREE, "stabilising shift of that step"),
    "expected": ("", "change of the target that correlated sampling promises"),
    "expected_error": ("", "error of that"),
    "effective": ("", "fraction of the sample that counts after reweighting"),
    "taken_back": ("", "1: the last step made things worse and was taken back"),
}


# --------------------------------------------------------------------------------- where the values come from


class _Part(NamedTuple):
    """A part of a run that is over: where its arrays are, its blocks, and their statistics if it is no optimisation."""

    group: str
    part: Part
    series: Series
    analysis: Analysis | None


def group_of(part: Part) -> str:
    """Return where the arrays of a part are: ``series_1``, or ``series_2/tau_0`` for a time step."""
    name = f"series_{part.section}"
    return f"{name}/tau_{part.step}" if part.kind == "dmc" else name


def _parts(result: Result) -> list[_Part]:
    """Return all parts in the order of the run."""
    found = zip(result.problem.parts, result.series, result.analyses, strict=True)
    return [_Part(group_of(part), part, series, analysis) for part, series, analysis in found]


def _last(result: Result, kind: str) -> _Part | None:
    """Return the last part of a kind; of diffusion that with the smallest time step of its section. None if there is none."""
    smallest = {fit.index: fit.parts[0] for fit in result.fits}
    found = [
        item
        for k, item in enumerate(_parts(result))
        if item.part.kind == kind and (kind != "dmc" or smallest.get(item.part.section) == k)
    ]
    return found[-1] if found else None


def _analysis(result: Result, kind: str) -> Analysis:
    """Return the statistics of the last part of a kind."""
    found = _last(result, kind)
    assert found is not None  # such quantities have no value elsewhere
    assert found.analysis is not None
    return found.analysis


def _info(result: Result, kind: str) -> Mapping[str, float]:
    """Return the numbers of the last part of a kind; none if there is no such part."""
    found = _last(result, kind)
    return {} if found is None else found.series.info


def _has(kind: str) -> Callable[[Result], bool]:
    return lambda result: _last(result, kind) is not None


def _column(name: str, history: bool = False) -> Callable[[Result], object]:
    """Return the function for one array of every part that has it: of the optimisations (`history`), or of all others."""
    folder = "history/" if history else ""

    def value(result: Result) -> object:
        return {
            f"{item.group}/{folder}{name}": np.asarray(held[name])
            for item in _parts(result)
            for held in (item.series.blocks, item.series.arrays)
            if (item.analysis is None) == history and name in held
        }

    return value


def _mean(name: str, values: Callable[[Mapping[str, Estimate]], NDArray[Any]]) -> Callable[[Result], object]:
    """Return the function for an array of the means of every part."""

    def value(result: Result) -> object:
        return {
            f"{item.group}/{name}": values(item.analysis.estimates)
            for item in _parts(result)
            if item.analysis is not None
        }

    return value


def _errors(estimates: Mapping[str, Estimate]) -> NDArray[np.float64]:
    return np.array([np.nan if e.error is None else e.error for e in estimates.values()])


def _reblocked(name: str) -> Callable[[Result], object]:
    """Return the function for one curve of reblocking, of parts that have enough blocks for one."""

    def value(result: Result) -> object:
        return {
            f"{item.group}/reblock/{name}": np.asarray(item.analysis.energy.curve._asdict()[name])
            for item in _parts(result)
            if item.analysis is not None and item.analysis.energy.curve.length.size
        }

    return value


def _fitted(name: str, values: Callable[[Fit], NDArray[np.float64] | None]) -> Callable[[Result], object]:
    """Return the function for an array of the fit of every section of diffusion."""

    def value(result: Result) -> object:
        found = {f"series_{fit.index}/{name}": values(fit) for fit in result.fits}
        return {key: array for key, array in found.items() if array is not None}

    return value


def _extrapolation(fit: Fit, name: str) -> NDArray[np.float64] | None:
    """Return an array of the extrapolation; None where there is none."""
    if fit.extrapolation is None:
        return None
    return fit.extrapolation.covariance if name == "covariance" else fit.extrapolation.coefficients


def _at_zero(result: Result) -> Extrapolation | None:
    """Return the extrapolation of the last section of diffusion to zero time step."""
    return result.fits[-1].extrapolation if result.fits else None


def _radii(function: Function) -> NDArray[np.float64]:
    """Return the distances at which a function of the Jastrow factor is tabulated, bohr."""
    return np.linspace(0.0, function.rcut if function.kind == "bspline" else PADE_RANGE, JASTROW_POINTS)


def _jastrow(
    name: str, values: Callable[[Function, Function], NDArray[np.float64]]
) -> Callable[[Result], object]:
    """Return the function for an array of every function of the Jastrow factor, at the start and at the end."""

    def value(result: Result) -> object:
        start = result.problem.wavefunction.jastrow
        return {
            f"jastrow/{after.name}/{name}": found
            for before, after in zip(start.functions, result.jastrow.functions, strict=True)
            if after.kind != "none" and (found := values(before, after)).size
        }

    return value


def _determinant(result: Result) -> object:
    return result.problem.wavefunction.orbitals.about.get("determinant_energy")


def _speed(result: Result) -> float | None:
    """Return walkers times generations per second of the last part of diffusion, or of vmc without one; None if unknown."""
    last: Series | None = None
    for kind in ("vmc", "dmc"):
        last = next((series for series in reversed(result.series) if series.kind == kind), last)
    if last is None or not last.info.get("seconds", 0.0) > 0.0:
        return None
    return float(last.info["generations"] / last.info["seconds"])


# -------------------------------------------------------------------------------------------- quantities


def _estimate(
    kind: str, name: str, unit: str, text: str, *, found: str | None = None, headline: bool = False
) -> Quantity[Result]:
    """Return the declaration of the mean of the last part of a kind, with its error."""
    key = name if found is None else found

    def error(result: Result) -> float | None:
        claimed = _analysis(result, kind).estimates[key].error
        return None if claimed is None else float(claimed)

    return Quantity(
        f"{kind}_{name}",
        unit,
        text,
        lambda r: float(_analysis(r, kind).estimates[key].mean),
        error=error,
        when=_has(kind),
        headline=headline,
    )


def _number(kind: str, name: str, unit: str, text: str, made: type = float) -> Quantity[Result]:
    """Return the declaration of a number that only some parts leave."""
    return Quantity(
        f"{kind}_{name}",
        unit,
        text,
        lambda r: made(_info(r, kind)[name]),
        when=lambda r: name in _info(r, kind),
    )


def _section(kind: str) -> tuple[Quantity[Result], ...]:
    """Return the declarations of the means of the last part of a kind, vmc or dmc."""
    mixed = "" if kind == "vmc" else ", mixed estimate"
    which = (
        "of the last vmc section" if kind == "vmc" else "at the smallest time step of the last dmc section"
    )
    shown = kind == "vmc"
    names = {"local": "local_pp", "nonlocal": "nonlocal_pp"}
    energies = (_estimate(kind, names.get(e, e), *MEANS[e], found=e) for e in ENERGIES[:-1])
    return (
        _estimate(kind, "energy", HARTREE, f"total energy {which}", headline=True),
        _estimate(kind, "variance", "hartree^2", "variance of the local energy", headline=shown),
        _estimate(kind, "acceptance", "", "fraction of accepted moves", headline=shown),
        *(replace(energy, text=energy.text + mixed) for energy in energies),
        Quantity(
            f"{kind}_blocks",
            "",
            "blocks after the warm-up",
            lambda r: int(_analysis(r, kind).energy.blocks),
            when=_has(kind),
        ),
        Quantity(
            f"{kind}_autocorrelation",
            "blocks",
            "integrated autocorrelation time of the energy",
            lambda r: float(_analysis(r, kind).energy.autocorrelation_time),
            when=_has(kind),
        ),
        Quantity(
            f"{kind}_error_is_converged",
            "",
            "whether the run is long beside the upper bound of its correlation time",
            lambda r: bool(_analysis(r, kind).energy.plateau),
            when=_has(kind),
        ),
        _number(
            kind,
            "inverse_error",
            "",
            "largest relative error of an updated inverse before it was computed anew",
        ),
    )


EXTRAPOLATED: tuple[Quantity[Result], ...] = (
    Quantity(
        "dmc_energy_extrapolated",
        HARTREE,
        "total energy at zero time step",
        lambda r: float(found.value) if (found := _at_zero(r)) else None,
        error=lambda r: float(found.error) if (found := _at_zero(r)) else None,
        when=lambda r: _at_zero(r) is not None,
        headline=True,
    ),
    Quantity(
        "dmc_extrapolation_chi2",
        "",
        "chi squared of that fit; its degrees of freedom are the time steps less the coefficients",
        lambda r: float(found.chi2) if (found := _at_zero(r)) else None,
        when=lambda r: _at_zero(r) is not None,
    ),
)

DIFFUSION: tuple[Quantity[Result], ...] = (
    _estimate(
        "dmc",
        "population_mean",
        "walkers",
        "mean sum of the weights of all walkers",
        found="population",
        headline=True,
    ),
    Quantity(
        "dmc_timestep",
        "1/hartree",
        "time step of dmc_energy, the smallest",
        lambda r: last.part.timestep if (last := _last(r, "dmc")) else None,
        when=_has("dmc"),
    ),
    Quantity(
        "dmc_population_bias",
        HARTREE,
        "estimate of how much population control raises dmc_energy; part of its error",
        lambda r: float(_analysis(r, "dmc").population_bias),
        when=_has("dmc"),
    ),
    _number("dmc", "effective_timestep", "1/hartree", "time step after rejections"),
    _number(
        "dmc", "persistent", "", "times that a walker that did not move was kept from multiplying", made=int
    ),
)

OPTIMISED: tuple[Quantity[Result], ...] = (
    replace(
        _number("optimize", "energy", HARTREE, "energy of the chosen parameters, in their own sample"),
        error=lambda r: _info(r, "optimize")["energy_error"],
    ),
    replace(
        _number("optimize", "variance", "hartree^2", "variance of their local energy"),
        error=lambda r: _info(r, "optimize")["variance_error"],
    ),
    Quantity(
        "optimize_iterations",
        "",
        "changes of the parameters",
        lambda r: last.series.blocks["energy"].size - 1 if (last := _last(r, "optimize")) else None,
        when=_has("optimize"),
    ),
)

SYSTEM: tuple[Quantity[Result], ...] = (
    Quantity("ion_ion", HARTREE, "repulsion of the ions", lambda r: float(r.problem.wavefunction.ion_ion)),
    Quantity("electrons", "", "number of electrons", lambda r: int(r.problem.wavefunction.n_electrons)),
    Quantity(
        "determinant_energy",
        HARTREE,
        "energy of the determinant of these orbitals, from their self-consistent field",
        _determinant,
        when=lambda r: _determinant(r) is not None,
        headline=True,
    ),
    Quantity(
        "walker_generations_per_second",
        "1/s",
        "walkers times generations per second of the last dmc part, or vmc without one: all electrons moved, and one "
        "local energy",
        _speed,
        when=lambda r: _speed(r) is not None,
        headline=True,
    ),
)

# the first declaration that fits a name is taken, and * stands for slashes too
ARRAYS: tuple[Quantity[Result], ...] = (
    Quantity(
        "section",
        "",
        "kinds of the sections",
        lambda r: np.array(r.problem.kinds, dtype=object),
        ("section",),
    ),
    Quantity(
        "series_*/history/parameters",
        "",
        "parameters at each iteration",
        _column("parameters", history=True),
        ("iteration", "parameter"),
    ),
    *(
        Quantity(f"series_*/history/{name}", *what, _column(name, history=True), ("iteration",))
        for name, what in HISTORY.items()
    ),
    *(
        Quantity(f"series_*/reblock/{name}", unit, text, _reblocked(name), ("level",))
        for name, unit, text in (
            ("length", "", "blocks that are joined on a level"),
            ("blocks", "", "number of joined blocks"),
            ("error", HARTREE, "error of the mean energy by level"),
            ("error_of_error", HARTREE, "uncertainty of that"),
        )
    ),
    Quantity(
        "series_*/component",
        "",
        "names of means",
        _mean("component", lambda found: np.array(list(found), dtype=object)),
        ("component",),
    ),
    Quantity(
        "series_*/mean",
        "",
        "means",
        _mean("mean", lambda found: np.array([e.mean for e in found.values()])),
        ("component",),
        note="atomic units",
    ),
    Quantity(
        "series_*/mean_error",
        "",
        "their errors",
        _mean("mean_error", _errors),
        ("component",),
        note="NaN where there are too few blocks",
    ),
    Quantity(
        "series_*/timestep",
        "1/hartree",
        "time steps of the section",
        _fitted("timestep", lambda fit: fit.timesteps),
        ("timestep",),
    ),
    Quantity(
        "series_*/timestep_energy",
        HARTREE,
        "energies at the time steps",
        _fitted("timestep_energy", lambda fit: fit.energies),
        ("timestep",),
    ),
    Quantity(
        "series_*/timestep_error",
        HARTREE,
        "their errors",
        _fitted("timestep_error", lambda fit: fit.errors),
        ("timestep",),
    ),
    Quantity(
        "series_*/fit/coefficients",
        "",
        "fit of the energies to powers of the time step",
        _fitted("fit/coefficients", lambda fit: _extrapolation(fit, "coefficients")),
        ("power",),
    ),
    Quantity(
        "series_*/fit/covariance",
        "",
        "covariance of the coefficients",
        _fitted("fit/covariance", lambda fit: _extrapolation(fit, "covariance")),
        ("power", "other_power"),
    ),
    *(
        Quantity(
            f"series_*/{table.name}",
            table.unit,
            table.description,
            _column(table.name),
            table.dims,
            note=table.note,
        )
        for table in estimator_tables()
    ),
    *(Quantity(f"series_*/{name}", *what, _column(name), ("block",)) for name, what in COLUMNS.items()),
    Quantity("jastrow/*/r", "bohr", "distances", _jastrow("r", lambda before, after: _radii(after)), ("r",)),
    Quantity(
        "jastrow/*/u",
        "",
        "function of the Jastrow factor exp(-J) at the end",
        _jastrow("u", lambda before, after: after.jet(_radii(after))[0]),
        ("r",),
    ),
    Quantity(
        "jastrow/*/u_start",
        "",
        "the same at the start",
        _jastrow("u_start", lambda before, after: before.jet(_radii(after))[0]),
        ("r",),
    ),
    Quantity(
        "jastrow/*/coefficients",
        "",
        "parameters at the end",
        _jastrow("coefficients", lambda before, after: np.array(after.parameters)),
        ("coefficient",),
        note="of a B-spline: those of QMCPACK; of a Pade form: b",
    ),
)

SCALARS = (*EXTRAPOLATED, *_section("dmc"), *_section("vmc"), *DIFFUSION, *OPTIMISED, *SYSTEM)
QUANTITIES = (*SCALARS, *ARRAYS)
TABLES = quantities.tables(QUANTITIES)
HEADLINE = quantities.headline(QUANTITIES)


def arrays(result: Result) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    return quantities.arrays(QUANTITIES, result)


def scalars(result: Result) -> dict[str, Scalar]:
    """Return the headline numbers; of several sections of a kind, the last one's."""
    return quantities.scalars(QUANTITIES, result)
