"""Names, units and figures of a qmc result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qmc.estimators.collection import estimator_tables
from qsim.qmc.figures import FIGURES
from qsim.qmc.results.crystals import finite_size, intensive
from qsim.qmc.results.determinants import DETERMINANTS, EXPANSIONS
from qsim.qmc.results.forces import FORCES
from qsim.qmc.results.parts import (
    analysis_of,
    at_zero,
    column,
    determinant_energy,
    errors_of,
    extrapolation,
    fitted,
    generations_per_second,
    has_part,
    info_of,
    jastrow_table,
    last_part,
    means_of,
    part_results,
    radii,
    reblocked,
    twist_results,
)
from qsim.qmc.results.scalar_dat import extra_files, extra_paths
from qsim.qmc.results.states import STATE_ARRAYS, STATES, of_each
from qsim.qmc.sampling.series import ENERGIES, SUMMED

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.qmc.run import Result
    from qsim.qmc.statistics.blocking import Estimate
    from qsim.qmc.system.ions import System

__all__ = ["FIGURES", "QUANTITIES", "extra_files", "extra_paths"]

HARTREE = "hartree"
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
    "cut_energy": (
        HARTREE,
        "mean by which local energies are outside of the window of branching",
    ),
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
    "overlap": ("", "overlap with the states before this one, normalised: root of the sum of squares"),
    "taken_back": ("", "1: the last step made things worse and was taken back"),
}


# -------------------------------------------------------------------------------------------- quantities


def _estimate(
    kind: str, name: str, unit: str, text: str, *, found: str | None = None, headline: bool = False
) -> Quantity[Result]:
    """Return the declaration of the mean of the last part of a kind, with its error."""
    key = name if found is None else found

    def error(result: Result) -> float | None:
        claimed = analysis_of(result, kind).estimates[key].error
        return None if claimed is None else float(claimed)

    return Quantity(
        f"{kind}_{name}",
        unit,
        text,
        lambda r: float(analysis_of(r, kind).estimates[key].mean),
        error=error,
        when=has_part(kind),
        headline=headline,
    )


def _number(kind: str, name: str, unit: str, text: str, made: type = float) -> Quantity[Result]:
    """Return the declaration of a number that only some parts leave."""
    return Quantity(
        f"{kind}_{name}",
        unit,
        text,
        lambda r: made(info_of(r, kind)[name]),
        when=lambda r: name in info_of(r, kind),
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
        *finite_size(kind),
        *intensive(kind),
        Quantity(
            f"{kind}_blocks",
            "",
            "blocks after the warm-up",
            lambda r: int(analysis_of(r, kind).energy.blocks),
            when=has_part(kind),
        ),
        Quantity(
            f"{kind}_autocorrelation",
            "blocks",
            "integrated autocorrelation time of the energy",
            lambda r: float(analysis_of(r, kind).energy.autocorrelation_time),
            when=has_part(kind),
        ),
        Quantity(
            f"{kind}_error_is_converged",
            "",
            "whether the error bar is sure: from independent walkers, or the run is long beside its correlation time",
            lambda r: bool(analysis_of(r, kind).energy.plateau),
            when=has_part(kind),
        ),
        _number(
            kind,
            "inverse_error",
            "",
            "largest relative error of an updated inverse before it was computed anew",
        ),
    )


def _system(result: Result) -> System:
    return result.problem.wavefunction.system


def _twist_values(name: str, value: Callable[[Estimate], float]) -> Callable[[Result], object]:
    """Return the function for a number of every twist in every part but optimisations."""

    def values(result: Result) -> object:
        found = {}
        for k, item in enumerate(part_results(result)):
            if item.part.kind != "optimize":
                analyses = [one.analyses[k] for one in result.twists]
                found[f"{item.group}/{name}"] = np.array([value(a.energy) for a in analyses if a is not None])
        return found

    return values


def _twist_blocks(name: str) -> Callable[[Result], object]:
    """Return the function for the blocks of the twists; their averages lie beside them."""
    return lambda result: {
        f"{item.group}/{name}": np.asarray(item.series.blocks[name])
        for item in twist_results(result)
        if name in item.series.blocks
    }


TWISTS: tuple[Quantity[Result], ...] = (
    Quantity(
        "series_*/twist_energy",
        HARTREE,
        "energies of the twists",
        _twist_values("twist_energy", lambda e: e.mean),
        ("twist",),
        when=lambda r: bool(r.twists),
    ),
    Quantity(
        "series_*/twist_error",
        HARTREE,
        "their errors",
        _twist_values("twist_error", lambda e: np.nan if e.error is None else e.error),
        ("twist",),
        when=lambda r: bool(r.twists),
    ),
    *(
        Quantity(
            f"series_*/twist_*/{name}",
            *what,
            _twist_blocks(name),
            ("block",),
            when=lambda r: bool(r.twists),
        )
        for name, what in COLUMNS.items()
    ),
    Quantity(
        "twists",
        "",
        "twists, in reciprocal vectors of the supercell",
        lambda r: np.array([r.problem.twists[one.number].vector for one in r.twists]),
        ("twist", "xyz"),
        when=lambda r: bool(r.twists),
    ),
    Quantity(
        "twist_number",
        "",
        "their numbers in the deck, from 0, and in the names of arrays; one that failed is left out",
        lambda r: np.array([one.number for one in r.twists]),
        ("twist",),
        when=lambda r: bool(r.twists),
    ),
    Quantity(
        "twist_weight",
        "",
        "their weights",
        lambda r: np.array([r.problem.twists[one.number].weight for one in r.twists]),
        ("twist",),
        note="of sum 1 over all twists of the deck",
        when=lambda r: bool(r.twists),
    ),
)

ATOMS: tuple[Quantity[Result], ...] = tuple(
    Quantity(f"atoms/{name}", unit, text, value, axes, when=lambda r: any(_system(r).symbols))
    for name, unit, text, value, axes in (
        (
            "symbol",
            "",
            "atoms, in the order of the run",
            lambda r: np.array(_system(r).symbols, object),
            ("atom",),
        ),
        ("position", "bohr", "where they are", lambda r: _system(r).positions, ("atom", "xyz")),
        (
            "charge",
            "",
            "their charges for electrons: less what is in a pseudopotential",
            lambda r: _system(r).charges,
            ("atom",),
        ),
        (
            "bare",
            "",
            "1: a bare nucleus, 0: an atom with a pseudopotential",
            lambda r: np.array([s not in _system(r).pseudopotentials for s in _system(r).symbols], np.int64),
            ("atom",),
        ),
    )
)


def _step(kind: str) -> Quantity[Result]:
    """Return the declaration of the time step that a warm-up has found."""

    def found(result: Result) -> float | None:
        last = last_part(result, kind)
        return None if last is None or last.part.timestep else last.series.timestep

    return Quantity(
        f"{kind}_timestep",
        "1/hartree",
        f"time step of the moves of {kind} that the warm-up has found, far from nuclei",
        found,
        when=lambda r: found(r) is not None,
        exact=True,
    )


EXTRAPOLATED: tuple[Quantity[Result], ...] = (
    Quantity(
        "dmc_energy_extrapolated",
        HARTREE,
        "total energy at zero time step",
        lambda r: float(found.value) if (found := at_zero(r)) else None,
        error=lambda r: float(found.error) if (found := at_zero(r)) else None,
        when=lambda r: at_zero(r) is not None,
        headline=True,
    ),
    Quantity(
        "dmc_extrapolation_chi2",
        "",
        "chi squared of that fit; its degrees of freedom are the time steps less the coefficients",
        lambda r: float(found.chi2) if (found := at_zero(r)) else None,
        # two energies and a straight line: nothing is left over
        when=lambda r: (found := at_zero(r)) is not None and found.degrees > 0,
        exact=True,
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
        lambda r: last.part.timestep if (last := last_part(r, "dmc")) else None,
        when=has_part("dmc"),
        exact=True,
    ),
    Quantity(
        "dmc_population_bias",
        HARTREE,
        "estimate of how much population control raises dmc_energy; part of its error",
        lambda r: None if math.isnan(bias := analysis_of(r, "dmc").population_bias) else float(bias),
        when=has_part("dmc"),
        exact=True,
    ),
    replace(_number("dmc", "effective_timestep", "1/hartree", "time step after rejections"), exact=True),
    _number(
        "dmc", "persistent", "", "times that a walker that did not move was kept from multiplying", made=int
    ),
)

OPTIMISED: tuple[Quantity[Result], ...] = (
    replace(
        _number(
            "optimize",
            "energy",
            HARTREE,
            "energy of the chosen parameters, in their own sample; with several twists at one of them",
        ),
        error=lambda r: info_of(r, "optimize")["energy_error"],
    ),
    replace(
        _number("optimize", "variance", "hartree^2", "variance of their local energy"),
        error=lambda r: info_of(r, "optimize")["variance_error"],
    ),
    _number("optimize", "parameters", "", "parameters that were optimised", int),
    Quantity(
        "optimize_iterations",
        "",
        "changes of the parameters",
        lambda r: last.series.blocks["energy"].size - 1 if (last := last_part(r, "optimize")) else None,
        when=has_part("optimize"),
    ),
)

SYSTEM: tuple[Quantity[Result], ...] = (
    Quantity(
        "twists",
        "",
        "twists that energies are averaged over",
        lambda r: len(r.twists),
        when=lambda r: bool(r.twists),
    ),
    Quantity(
        "ion_ion",
        HARTREE,
        "repulsion of the ions",
        lambda r: float(r.problem.wavefunction.ion_ion),
        exact=True,
    ),
    Quantity("electrons", "", "number of electrons", lambda r: int(r.problem.wavefunction.n_electrons)),
    Quantity(
        "determinant_energy",
        HARTREE,
        "energy of the determinants without Jastrow factor, as the calculation of the orbitals knows it",
        determinant_energy,
        when=lambda r: determinant_energy(r) is not None,
        headline=True,
    ),
    *EXPANSIONS,
    Quantity(
        "walker_generations_per_second",
        "1/s",
        "walkers times generations per second of the last dmc part, or vmc without one: all electrons moved, and one "
        "local energy",
        generations_per_second,
        when=lambda r: generations_per_second(r) is not None,
        headline=True,
    ),
)

JASTROW: tuple[Quantity[Result], ...] = (
    Quantity(
        "jastrow/*/r", "bohr", "distances", jastrow_table("r", lambda before, after: radii(after)), ("r",)
    ),
    Quantity(
        "jastrow/*/u",
        "",
        "function of the Jastrow factor exp(-J) at the end",
        jastrow_table("u", lambda before, after: after.jet(radii(after))[0]),
        ("r",),
    ),
    Quantity(
        "jastrow/*/u_start",
        "",
        "the same at the start",
        jastrow_table("u_start", lambda before, after: before.jet(radii(after))[0]),
        ("r",),
    ),
    Quantity(
        "jastrow/*/coefficients",
        "",
        "parameters at the end",
        jastrow_table("coefficients", lambda before, after: np.array(after.parameters)),
        ("coefficient",),
        note="of a B-spline: as in QMCPACK; of a Pade form: b",
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
        column("parameters", history=True),
        ("iteration", "parameter"),
    ),
    *(
        Quantity(f"series_*/history/{name}", *what, column(name, history=True), ("iteration",))
        for name, what in HISTORY.items()
    ),
    *(
        Quantity(f"series_*/reblock/{name}", unit, text, reblocked(name), ("level",))
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
        means_of("component", lambda found: np.array(list(found), dtype=object)),
        ("component",),
    ),
    Quantity(
        "series_*/mean",
        "",
        "means",
        means_of("mean", lambda found: np.array([e.mean for e in found.values()])),
        ("component",),
        note="atomic units",
    ),
    Quantity(
        "series_*/mean_error",
        "",
        "their errors",
        means_of("mean_error", errors_of),
        ("component",),
        note="NaN where there are too few blocks",
    ),
    Quantity(
        "series_*/timestep",
        "1/hartree",
        "time steps of the section",
        fitted("timestep", lambda fit: fit.timesteps),
        ("timestep",),
    ),
    Quantity(
        "series_*/timestep_energy",
        HARTREE,
        "energies at the time steps",
        fitted("timestep_energy", lambda fit: fit.energies),
        ("timestep",),
    ),
    Quantity(
        "series_*/timestep_error",
        HARTREE,
        "their errors",
        fitted("timestep_error", lambda fit: fit.errors),
        ("timestep",),
    ),
    Quantity(
        "series_*/fit/coefficients",
        "",
        "fit of the energies to powers of the time step",
        fitted("fit/coefficients", lambda fit: extrapolation(fit, "coefficients")),
        ("power",),
    ),
    Quantity(
        "series_*/fit/covariance",
        "",
        "covariance of the coefficients",
        fitted("fit/covariance", lambda fit: extrapolation(fit, "covariance")),
        ("power", "other_power"),
    ),
    *(
        Quantity(
            f"series_*/{table.name}",
            table.unit,
            table.description,
            column(table.name),
            table.dims,
            note=table.note,
        )
        for table in estimator_tables()
    ),
    *TWISTS,
    *(
        Quantity(
            f"series_*/{name}",
            *what,
            column(name),
            ("block",),
            note="of several twists the sum" if name in SUMMED else "of several twists the average",
        )
        for name, what in COLUMNS.items()
    ),
    *ATOMS,
    *STATE_ARRAYS,
    *DETERMINANTS,
    *JASTROW,
    *map(of_each, (*DETERMINANTS, *JASTROW)),
)

SCALARS = (
    *STATES,
    *EXTRAPOLATED,
    *_section("dmc"),
    *_section("vmc"),
    _step("vmc"),
    _step("optimize"),
    *DIFFUSION,
    *OPTIMISED,
    *FORCES,
    *SYSTEM,
)
QUANTITIES = (*SCALARS, *ARRAYS)
