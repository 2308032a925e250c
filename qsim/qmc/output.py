"""Names, units and figures of a qmc result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.tables import Scalar, Table
from qsim.qmc import scalar_dat
from qsim.qmc.estimators.tables import estimator_tables
from qsim.qmc.figures import FIGURES
from qsim.qmc.sampling.series import ENERGIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.qmc.analysis import Analysis, Fit
    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.problem import Part
    from qsim.qmc.run import Result
    from qsim.qmc.sampling.series import Series
    from qsim.qmc.statistics.blocking import Estimate
    from qsim.qmc.wavefunction.jastrow import Jastrow

__all__ = ["FIGURES", "HEADLINE", "TABLES", "arrays", "extra_files", "extra_paths", "scalars"]

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

# the first declaration that fits a name is taken, and * stands for slashes too
TABLES = (
    Table("section", ("section",), "", "kinds of the sections"),
    Table("series_*/history/parameters", ("iteration", "parameter"), "", "parameters at each iteration"),
    *(Table(f"series_*/history/{name}", ("iteration",), *what) for name, what in HISTORY.items()),
    Table("series_*/reblock/length", ("level",), "", "blocks that are joined on a level"),
    Table("series_*/reblock/blocks", ("level",), "", "number of joined blocks"),
    Table("series_*/reblock/error", ("level",), HARTREE, "error of the mean energy by level"),
    Table("series_*/reblock/error_of_error", ("level",), HARTREE, "uncertainty of that"),
    Table("series_*/component", ("component",), "", "names of means"),
    Table("series_*/mean", ("component",), "", "means", note="atomic units"),
    Table(
        "series_*/mean_error", ("component",), "", "their errors", note="NaN where there are too few blocks"
    ),
    Table("series_*/timestep", ("timestep",), "1/hartree", "time steps of the section"),
    Table("series_*/timestep_energy", ("timestep",), HARTREE, "energies at the time steps"),
    Table("series_*/timestep_error", ("timestep",), HARTREE, "their errors"),
    Table("series_*/fit/coefficients", ("power",), "", "fit of the energies to powers of the time step"),
    Table("series_*/fit/covariance", ("power", "other_power"), "", "covariance of the coefficients"),
    Table("series_*/twist_energy", ("twist",), HARTREE, "energies of the twists"),
    Table("series_*/twist_error", ("twist",), HARTREE, "their errors"),
    *estimator_tables("series_*/"),
    *(Table(f"series_*/{name}", ("block",), *what) for name, what in COLUMNS.items()),
    Table("twists", ("twist", "xyz"), "", "twists, in reciprocal vectors of the supercell"),
    Table("twist_weight", ("twist",), "", "their weights", note="of sum 1 over all twists of the deck"),
    Table("jastrow/*/r", ("r",), "bohr", "distances"),
    Table("jastrow/*/u", ("r",), "", "function of the Jastrow factor exp(-J) at the end"),
    Table("jastrow/*/u_start", ("r",), "", "the same at the start"),
    Table(
        "jastrow/*/coefficients",
        ("coefficient",),
        "",
        "parameters at the end",
        note="of a B-spline: those of QMCPACK; of a Pade form: b",
    ),
)

HEADLINE = (
    "dmc_energy_extrapolated",
    "dmc_energy",
    "vmc_energy",
    "vmc_variance",
    "vmc_acceptance",
    "dmc_population_mean",
    "determinant_energy",
    "walker_generations_per_second",
)


# ---------------------------------------------------------------------------------------------- arrays


def arrays(result: Result) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    out: dict[str, NDArray[Any]] = {"section": np.array(result.problem.kinds, dtype=object)}
    for part, series, analysis in zip(result.problem.parts, result.series, result.analyses, strict=True):
        group = group_of(part)
        if analysis is None:
            out |= {f"{group}/history/{name}": values for name, values in series.blocks.items()}
            out |= {f"{group}/history/{name}": np.asarray(values) for name, values in series.arrays.items()}
            continue
        out |= {f"{group}/{name}": np.asarray(values) for name, values in series.blocks.items()}
        out |= {f"{group}/{name}": np.asarray(values) for name, values in series.arrays.items()}
        out |= _means(group, analysis)
    for fit in result.fits:
        out |= _fitted(f"series_{fit.index}", fit)
    if result.twists:
        out |= _twists(result)
    return out | _jastrow(result.problem.wavefunction.jastrow, result.jastrow)


def _twists(result: Result) -> dict[str, NDArray[Any]]:
    """Return the energies and blocks of each twist; the blocks beside the averages are those of the first."""
    used = [result.problem.twists[one.number] for one in result.twists]
    out: dict[str, NDArray[Any]] = {
        "twists": np.array([one.vector for one in used]),
        "twist_weight": np.array([one.weight for one in used]),
    }
    for k, part in enumerate(result.problem.parts):
        found = [(one, one.analyses[k]) for one in result.twists]
        estimates = [analysis.energy for _, analysis in found if analysis is not None]
        if part.kind == "optimize":
            continue
        group = group_of(part)
        out[f"{group}/twist_energy"] = np.array([e.mean for e in estimates])
        out[f"{group}/twist_error"] = np.array([np.nan if e.error is None else e.error for e in estimates])
        for one in result.twists[1:]:
            own = [p for p in result.problem.parts if p.kind != "optimize"].index(part)
            blocks = one.series[own].blocks
            out |= {
                f"{group}/twist_{one.number}/{name}": np.asarray(values) for name, values in blocks.items()
            }
    return out


def group_of(part: Part) -> str:
    """Return where the arrays of a part are: ``series_1``, or ``series_2/tau_0`` for a time step."""
    name = f"series_{part.section}"
    return f"{name}/tau_{part.step}" if part.kind == "dmc" else name


def _means(group: str, analysis: Analysis) -> dict[str, NDArray[Any]]:
    names = list(analysis.estimates)
    found = list(analysis.estimates.values())
    out: dict[str, NDArray[Any]] = {
        f"{group}/component": np.array(names, dtype=object),
        f"{group}/mean": np.array([e.mean for e in found]),
        f"{group}/mean_error": np.array([np.nan if e.error is None else e.error for e in found]),
    }
    curve = analysis.energy.curve
    if curve.length.size:
        out |= {f"{group}/reblock/{name}": np.asarray(getattr(curve, name)) for name in curve._fields}
    return out


def _fitted(group: str, fit: Fit) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {
        f"{group}/timestep": fit.timesteps,
        f"{group}/timestep_energy": fit.energies,
        f"{group}/timestep_error": fit.errors,
    }
    if fit.extrapolation is not None:
        out[f"{group}/fit/coefficients"] = fit.extrapolation.coefficients
        out[f"{group}/fit/covariance"] = fit.extrapolation.covariance
    return out


def _jastrow(start: Jastrow, end: Jastrow) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {}
    for before, after in zip(start.functions, end.functions, strict=True):
        if after.kind == "none":
            continue
        r = np.linspace(0.0, after.rcut if after.kind == "bspline" else 8.0, 401)
        name = f"jastrow/{after.name}"
        out |= {f"{name}/r": r, f"{name}/u": after.jet(r)[0], f"{name}/u_start": before.jet(r)[0]}
        if after.parameters:
            out[f"{name}/coefficients"] = np.array(after.parameters)
    return out


# --------------------------------------------------------------------------------------------- scalars


def scalars(result: Result) -> dict[str, Scalar]:
    """Return the headline numbers; of several sections of a kind, the last one's."""
    parts, wavefunction = result.problem.parts, result.problem.wavefunction
    out: dict[str, Scalar] = {}
    for k, (part, series, analysis) in enumerate(zip(parts, result.series, result.analyses, strict=True)):
        if part.kind == "optimize":
            out |= _optimised(series)
        elif part.kind == "vmc" and analysis is not None:
            out |= _section("vmc", series, analysis)
        elif analysis is not None and k == _smallest(result, part.section):
            out |= _section("dmc", series, analysis) | _diffusion(part, series, analysis)
    for fit in result.fits:
        out.pop("dmc_energy_extrapolated", None)
        if fit.extrapolation is not None:
            out |= _at_zero(fit)
    out["ion_ion"] = Scalar(float(wavefunction.ion_ion), HARTREE, description="repulsion of the ions")
    if result.twists:
        out["twists"] = Scalar(len(result.twists), description="twists that energies are averaged over")
    out["electrons"] = Scalar(int(wavefunction.n_electrons), description="number of electrons")
    if (energy := wavefunction.orbitals.about.get("determinant_energy")) is not None:
        text = "energy of the determinant of these orbitals, from their self-consistent field"
        out["determinant_energy"] = Scalar(float(energy), HARTREE, description=text)
    return out | _speed(result)


def _smallest(result: Result, index: int) -> int:
    """Return the number of the part with the smallest time step of a dmc section."""
    return next(fit.parts[0] for fit in result.fits if fit.index == index)


def _scalar(estimate: Estimate, unit: str, text: str) -> Scalar:
    error = None if estimate.error is None else float(estimate.error)
    return Scalar(float(estimate.mean), unit, error, text)


def _section(kind: str, series: Series, analysis: Analysis) -> dict[str, Scalar]:
    found = analysis.estimates
    words = "" if kind == "vmc" else ", mixed estimate"
    out = {
        f"{kind}_energy": _scalar(found["energy"], HARTREE, f"total energy, {series.label}"),
        f"{kind}_variance": _scalar(found["variance"], "hartree^2", "variance of the local energy"),
        f"{kind}_acceptance": _scalar(found["acceptance"], "", "fraction of accepted moves"),
    }
    out |= _finite_size(kind, series)
    names = {"local": "local_pp", "nonlocal": "nonlocal_pp"}
    for name in ENERGIES[:-1]:
        unit, text = MEANS[name]
        out[f"{kind}_{names.get(name, name)}"] = _scalar(found[name], unit, text + words)
    energy = found["energy"]
    out[f"{kind}_blocks"] = Scalar(int(energy.blocks), description="blocks after the warm-up")
    out[f"{kind}_autocorrelation"] = Scalar(
        float(energy.autocorrelation_time),
        "blocks",
        description="integrated autocorrelation time of the energy",
    )
    out[f"{kind}_error_is_converged"] = Scalar(
        bool(energy.plateau),
        description="whether the run is long beside the upper bound of its correlation time",
    )
    if "inverse_error" in series.info:
        out[f"{kind}_inverse_error"] = Scalar(
            float(series.info["inverse_error"]),
            description="largest relative error of an updated inverse before it was computed anew",
        )
    return out


def _finite_size(kind: str, series: Series) -> dict[str, Scalar]:
    r"""Return what the potential energy of a finite cell lacks, from the structure factor at the smallest waves.

    :math:`S(k)=1-e^{-\alpha k^2}` at the first shell gives :math:`\alpha`; how it differs at the second one is part of the error.
    """
    if "sofk" not in series.arrays or "density" not in series.info:
        return {}
    k, S, error = (np.asarray(series.arrays[name]) for name in ("sofk_k", "sofk", "sofk_error"))
    found = []
    for size in np.unique(np.round(k, 6))[:2]:
        here = np.abs(k - size) < 1e-5
        mean = min(float(S[here].mean()), 0.99)
        scatter = float(np.sqrt((error[here] ** 2).sum())) / int(here.sum())
        found.append((-np.log1p(-mean) / size**2, scatter / (1.0 - mean) / size**2))
    if len(found) < 2 or not np.isfinite(found).all():
        return {}
    scale = 2.0 * np.pi * series.info["density"]
    value = scale * found[0][0]
    uncertainty = scale * float(np.hypot(found[0][1], found[0][0] - found[1][0]))
    text = "finite-size correction of the potential energy, to be added, from the structure factor at small k"
    return {f"{kind}_finite_size_potential": Scalar(float(value), HARTREE, uncertainty, text)}


def _diffusion(part: Part, series: Series, analysis: Analysis) -> dict[str, Scalar]:
    out = {
        "dmc_population_mean": _scalar(
            analysis.estimates["population"], "walkers", "mean sum of the weights of all walkers"
        ),
        "dmc_timestep": Scalar(
            part.timestep, "1/hartree", description="time step of dmc_energy, the smallest"
        ),
    }
    out |= _bias(analysis)
    if "effective_timestep" in series.info:
        out["dmc_effective_timestep"] = Scalar(
            float(series.info["effective_timestep"]), "1/hartree", description="after rejections"
        )
    if "persistent" in series.info:
        out["dmc_persistent"] = Scalar(
            int(series.info["persistent"]),
            description="times that a walker that did not move was kept from multiplying",
        )
    return out


def _bias(analysis: Analysis) -> dict[str, Scalar]:
    text = "estimate of how much population control raises dmc_energy; part of its error"
    return {"dmc_population_bias": Scalar(float(analysis.population_bias), HARTREE, description=text)}


def _at_zero(fit: Fit) -> dict[str, Scalar]:
    found = fit.extrapolation
    assert found is not None
    return {
        "dmc_energy_extrapolated": Scalar(
            float(found.value), HARTREE, float(found.error), "total energy at zero time step"
        ),
        "dmc_extrapolation_chi2": Scalar(
            float(found.chi2), description=f"chi squared of that fit, {found.degrees} degrees of freedom"
        ),
    }


def _optimised(series: Series) -> dict[str, Scalar]:
    info = series.info
    return {
        "optimize_energy": Scalar(
            info["energy"],
            HARTREE,
            info["energy_error"],
            "energy of the chosen parameters, in their own sample",
        ),
        "optimize_variance": Scalar(
            info["variance"], "hartree^2", info["variance_error"], "variance of their local energy"
        ),
        "optimize_iterations": Scalar(
            int(np.asarray(series.blocks["energy"]).size) - 1, description="changes of the parameters"
        ),
    }


def _speed(result: Result) -> dict[str, Scalar]:
    last: Series | None = None
    for kind in ("vmc", "dmc"):
        last = next((series for series in reversed(result.series) if series.kind == kind), last)
    if last is None or not last.info.get("seconds", 0.0) > 0.0:
        return {}
    rate = last.info["generations"] / last.info["seconds"]
    text = f"walkers times generations per second of {last.label}: all electrons moved, and one local energy"
    return {"walker_generations_per_second": Scalar(float(rate), "1/s", description=text)}


# ----------------------------------------------------------------------------------------- scalar.dat


def extra_paths(deck: QmcDeck, stem: Path) -> list[Path]:
    """Return the files that `extra_files` will write for a deck."""
    if not deck.output.scalar_dat:
        return []
    kinds = [
        item.kind
        for item in deck.series
        for _ in range(len(item.dmc.timesteps) if item.dmc is not None else 1)
    ]
    return [scalar_dat.path_of(stem, number) for number, kind in enumerate(kinds) if kind != "optimize"]


def extra_files(results: Results, stem: Path) -> list[Path]:
    """Write ``scalar.dat`` files of the vmc and dmc sections, if the deck asks for them; return their paths.

    Their numbers count the parts of the run from 0, optimisations included: a dmc section takes one for each time step.
    """
    if not results.deck.get("output", {}).get("scalar_dat", False):
        return []
    ion_ion = results.scalars["ion_ion"].value
    system = results.deck["system"]
    written, number = [], 0
    for index, kind in enumerate(results["section"]):
        groups = [f"series_{index}"]
        if kind == "dmc":
            groups = [f"series_{index}/tau_{k}" for k in range(results.shape(f"series_{index}/timestep")[0])]
        for group in groups:
            if kind != "optimize":
                blocks = {
                    name: results[f"{group}/{name}"] for name in COLUMNS if f"{group}/{name}" in results
                }
                table = scalar_dat.columns(
                    {**blocks, "total": blocks["energy"], "total_squared": blocks["energy_squared"]},
                    ion_ion=float(ion_ion)
                    if len(system["atoms"]) > 1 and isinstance(ion_ion, float)
                    else None,
                    pseudopotential=bool(system["pseudopotentials"]),
                    external=not system["atoms"],
                )
                written.append(scalar_dat.path_of(stem, number))
                scalar_dat.write(written[-1], table)
            number += 1
    return written
