"""Names, units and figures of a trotter result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results import quantities
from qsim.core.results.tables import Scalar, Table
from qsim.trotter.figures import AXES, FIGURES
from qsim.trotter.quantities import declared
from qsim.trotter.tasks.results import TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.trotter.run import Result

__all__ = ["FIGURES", "HEADLINE", "TABLES", "arrays", "scalars", "tables"]

BITS = "site j is bit j of the basis index, site 0 the least significant; bit 0 is up (+1/2), bit 1 is down"
TIME = "1/J"
MEAN = "standard error over the ensemble"
ENTROPIES = ("entropy", "number_entropy", "renyi2", "schmidt", "schmidt_sz")

TABLES = (
    Table("time", ("time",), TIME, "output times"),
    Table("site", ("site",), "", "sites"),
    Table("norm", ("time",), "", "<psi|psi>"),
    Table("energy", ("time",), "J", "<H>", note="divided by the norm, as all expectation values"),
    *(
        table
        for a in AXES
        for table in (
            Table(f"total_s{a}", ("time",), "hbar", f"total S{a}"),
            Table(f"site_s{a}", (f"site_s{a}",), "", f"sites of s{a}"),
            Table(f"pairs_{a}{a}", (f"pair_{a}{a}", "end"), "", f"sites [j, k] of correlator_{a}{a}"),
        )
    ),
    Table("pairs", ("pair", "end"), "", "sites [j, k] of the correlators"),
    Table("energy_variance", ("time",), "J^2", "<H^2> - <H>^2"),
    Table("return_probability", ("time",), "", "|<psi(0)|psi(t)>|^2"),
    Table("fidelity", ("time",), "", "|<phi|psi(t)>|^2 with the state of the file"),
    Table("imbalance", ("time",), "", "sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2"),
    Table("autocorrelation", ("time",), "", "4 Tr[Sz_j(t) Sz_j]/2^N, as 2<Sz_j>"),
    Table("polarisation", ("time", "site"), "", "4 Tr[Sz_k(t) Sz_j]/2^N, as 2<Sz_k>"),
    Table("entropy_sites", ("cut", "site"), "", "whether a site belongs to the part of this entropy"),
    Table("echo_time", ("echo_time",), TIME, "times after which the echo was taken"),
    Table("echo_site", ("echo_site",), "", "sites of the local echo"),
    Table(
        "couplings",
        ("axis", "spin", "other"),
        "J",
        "J^a_jk of a = x, y, z, in spin operators, each pair in both places",
    ),
    Table("fields", ("axis", "spin"), "J", "h^a_j of a = x, y, z, in spin operators"),
    Table("state", ("basis",), "", "state at t_final", note=BITS),
)

HEADLINE = (
    "energy_initial",
    "energy_final",
    "energy_drift",
    "norm_drift",
    "error_estimate",
    "integrator",
    "steps",
    "layers",
    "total_sz_final",
    "echo_final",
    "imbalance_final",
    "entropy_final",
    "sector",
    "dimension",
    "E0_per_site",
    "gap",
    "energy_0",
    "energy_1",
    "residual_max",
    "static_sum",
    "change_max",
    "gap_ratio",
    "specific_heat_max",
)


def tables(result: Result | TaskResult) -> tuple[Table, ...]:
    """Return the declarations for a result: which sites, pairs and times an array has depends on the deck."""
    if isinstance(result, TaskResult):
        return quantities.tables(declared(result))
    found = [
        *TABLES,
        *_site_tables(result),
        *_pair_tables(result),
        *_echo_tables(result),
        *_entropy_tables(result),
    ]
    return tuple(
        found + [_error_table(table) for table in found if "time" in table.dims[0] and len(table.dims) > 0]
    )


def _error_table(table: Table) -> Table:
    return Table(f"{table.name}_error", table.dims, table.unit, f"{MEAN} of {table.name}")


def _site_tables(result: Result) -> Iterator[Table]:
    for a in AXES:
        sites = result.problem.asked.sites(a)
        if sites is not None:
            axis = "site" if len(sites) == result.problem.spins else f"site_s{a}"
            yield Table(f"s{a}", ("time", axis), "hbar", f"<S{a}> of the sites", note=BITS)


def _pair_tables(result: Result) -> Iterator[Table]:
    shared = result.problem.asked.shared_pairs
    for axes in result.problem.asked.pairs:
        axis = "pair" if shared else f"pair_{axes}"
        yield Table(f"correlator_{axes}", ("time", axis), "hbar^2", f"<S{axes[0]}_j S{axes[1]}_k>")


def _echo_tables(result: Result) -> Iterator[Table]:
    time = "time" if result.problem.asked.echo_everywhere else "echo_time"
    yield Table("echo", (time,), "", "|<psi0|exp(i(H+Sigma)t) exp(-iHt)|psi0>|^2")
    yield Table("echo_normalised", (time,), "", "echo divided by <psi|psi> after the return")
    yield Table("echo_local", (time, "echo_site"), "", "2<Sz> after the return")


def _entropy_tables(result: Result) -> Iterator[Table]:
    dims = ("time",) if len(result.problem.asked.cuts) == 1 else ("time", "cut")
    yield Table("entropy", dims, "nat", "von Neumann entropy of the sites with the rest")
    yield Table("number_entropy", dims, "nat", "entropy of the distribution of Sz of the sites")
    yield Table("renyi2", dims, "nat", "Renyi entropy -ln tr rho^2 of the sites with the rest")
    yield Table("schmidt", (*dims, "schmidt_value"), "", "squared Schmidt coefficients, the largest first")
    yield Table(
        "schmidt_sz", (*dims, "schmidt_value"), "hbar", "Sz of the sites, for each Schmidt coefficient"
    )


def arrays(result: Result | TaskResult) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    if isinstance(result, TaskResult):
        return quantities.arrays(declared(result), result)
    problem = result.problem
    out: dict[str, NDArray[Any]] = {
        "time": np.array(problem.output_times),
        "site": np.arange(problem.spins),
        "couplings": result.model.J,
        "fields": result.model.h,
    }
    keep = problem.stored
    for source, suffix in ((result.mean, ""), (result.error, "_error")):
        for name, values in source.items():
            chosen = values if name.startswith("echo") and not problem.asked.echo_everywhere else values[keep]
            out[f"{name}{suffix}"] = (
                chosen[:, 0] if name in ENTROPIES and len(problem.asked.cuts) == 1 else chosen
            )
    for a in AXES:
        sites = problem.asked.sites(a)
        if sites is not None and len(sites) != problem.spins:
            out[f"site_s{a}"] = np.array(sites)
    for k, (axes, pairs) in enumerate(problem.asked.pairs.items()):
        if problem.asked.shared_pairs:
            out |= {"pairs": np.array(pairs)} if k == 0 else {}
        else:
            out[f"pairs_{axes}"] = np.array(pairs)
    if "echo" in result.mean and not problem.asked.echo_everywhere:
        out["echo_time"] = np.array([problem.times[k] for k in problem.echo_at])
    if "echo_local" in result.mean:
        out["echo_site"] = np.array(problem.asked.echo_local)
    if problem.asked.cuts:
        out["entropy_sites"] = np.array(
            [[site in cut for site in range(problem.spins)] for cut in problem.asked.cuts], dtype=bool
        )
    if result.psi is not None:
        out["state"] = result.psi
    return out


def scalars(result: Result | TaskResult) -> dict[str, Scalar]:
    """Return the headline numbers."""
    if isinstance(result, TaskResult):
        return quantities.scalars(declared(result), result)
    problem, how = result.problem, result.integration
    out = {
        "energy_initial": _of(result, "energy", 0, "J", "<H> at t = 0"),
        "energy_final": _of(result, "energy", -1, "J", "<H> at t_final"),
        "energy_drift": Scalar(
            result.numbers["energy_drift"],
            "J",
            description="largest |<H>(t) - <H>(0)| of any trajectory; none if H depends on time",
        ),
        "norm_drift": Scalar(
            result.numbers["norm_drift"], description="largest |<psi|psi> - 1| of any trajectory"
        ),
        "total_sz_final": _of(result, "total_sz", -1, "hbar", "total Sz at t_final"),
        "error_estimate": Scalar(
            how.error,
            description="estimated error ||psi - psi_exact|| at t_final, of the state and of that of the way back of an echo",
        ),
        "integrator": Scalar(how.method, description="integrator of the run"),
        "dt": Scalar(result.numbers["dt"], TIME, description="longest time step"),
        "steps": Scalar(result.numbers["steps"], description="time steps of one trajectory"),
        "layers": Scalar(result.numbers["layers"], description="diagonal layers of one trajectory"),
        "spins": Scalar(problem.spins, description="number of spins"),
        "trajectories": Scalar(problem.members, description="disorder realisations times random states"),
        "conserved": Scalar(
            result.numbers["conserved"], description="components of the total spin that H conserves"
        ),
        "sector": Scalar(
            "full" if problem.sector is None else str(problem.sector),
            description="sector in which the states are carried; full: all states",
        ),
        "dimension": Scalar(problem.dimension, description="amplitudes of a state"),
        "bit_order": Scalar(BITS, description="how basis states are numbered"),
    }
    if result.numbers["sz_drift"] is not None:
        out["total_sz_drift"] = Scalar(
            result.numbers["sz_drift"], "hbar", description="largest change of the conserved total Sz"
        )
    for name, unit, text in (
        ("echo", "", "Loschmidt echo after the last return"),
        ("echo_normalised", "", "echo divided by <psi|psi> after the return"),
        ("imbalance", "", "imbalance at t_final"),
        ("return_probability", "", "|<psi(0)|psi>|^2 at t_final"),
        ("autocorrelation", "", "autocorrelation at t_final"),
        ("fidelity", "", "fidelity at t_final"),
        ("energy_variance", "J^2", "<H^2> - <H>^2 at t_final"),
    ):
        if name in result.mean:
            out[f"{name}_final"] = _of(result, name, -1, unit, text)
    if "entropy" in result.mean:
        out["entropy_final"] = _of(result, "entropy", (-1, 0), "nat", "entanglement entropy at t_final")
    if "echo" in result.mean and not problem.asked.echo_sigma:
        steps = 2 * max(result.numbers["steps"], 1)
        out["echo_drift_per_step"] = Scalar(
            abs(float(result.mean["echo"][-1]) - 1.0) / steps,
            description="|echo - 1| per time step, forward and back, not normalised",
        )
    for name, value in result.info.items():
        out[name] = Scalar(value[0], value[1], description=value[2])
    return out


def _of(result: Result, name: str, index: int | tuple[int, int], unit: str, description: str) -> Scalar:
    error = float(result.error[name][index]) if name in result.error else None
    return Scalar(float(result.mean[name][index]), unit, error, description)
