"""Names, units and figures of a sturmian result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from qsim.core.results import quantities
from qsim.core.results.tables import Scalar, Table
from qsim.sturmian.figures.overview import FIGURES
from qsim.sturmian.scattering.quantities import QUANTITIES, RESONANCES, collisions
from qsim.sturmian.two_electron import known

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.problem import Problem, Sector
    from qsim.sturmian.radial.sturmians import Sturmians
    from qsim.sturmian.scattering.results import CollisionResult
    from qsim.sturmian.tasks.basis import BasisResult
    from qsim.sturmian.tasks.states import BoundResult

__all__ = ["FIGURES", "HEADLINE", "QUANTITIES", "TABLES", "arrays", "scalars", "tables"]

STORED_FUNCTIONS = 4_000_000  # numbers of basis functions up to which the results file holds them
STORED_PAIRS = 40  # pairs of a symmetry up to which its angular coefficients are stored
HARTREE = "hartree"

TABLES = (
    Table("state", ("state",), "", "names of the states"),
    Table(
        "energies",
        ("state",),
        HARTREE,
        "energies of the states",
        note="nonrelativistic, nucleus at rest; in the basis and up to l_max of the deck",
    ),
    Table(
        "energy_errors",
        ("state",),
        HARTREE,
        "estimated errors of the energies",
        note="solver, radial functions and grid, box and missing partial waves; without these if the deck lists its pairs",
    ),
    Table("L", ("state",), "", "total orbital momentum"),
    Table("S", ("state",), "", "total spin"),
    Table("root", ("state",), "", "number of the state in its symmetry"),
    Table("r", ("r",), "bohr", "radial nodes", note="complex on an ECS contour"),
    Table("weights", ("r",), "bohr", "quadrature weights of the nodes"),
    Table("potential", ("r",), HARTREE, "one-body potential"),
    Table("generating", ("r",), HARTREE, "generating potential v", note="the attractive potential is -v"),
    Table(
        "density",
        ("state", "r"),
        "1/bohr",
        "radial density of the two electrons, divided by two",
        note="its integral over r is 1",
    ),
    Table("r1", ("r1",), "bohr", "radii of the first electron"),
    Table("r2", ("r2",), "bohr", "radii of the second electron"),
    Table(
        "pair_density",
        ("state", "r1", "r2"),
        "1/bohr^2",
        "probability density of r1 and r2, angles integrated over",
    ),
    Table("basis/l*/beta", ("n",), HARTREE, "eigenvalues beta_n of the Sturmian functions"),
    Table("basis/l*/beta_error", ("n",), HARTREE, "estimated errors of beta_n", note="task: basis alone"),
    Table(
        "basis/l*/S",
        ("n", "r"),
        "",
        "Sturmian functions S_n(r)",
        note="normalised so that the integral of S_n v S_m is delta_nm, without conjugation",
    ),
    Table("thresholds", ("state",), HARTREE, "ionisation thresholds"),
    Table("pair_weights/*/la", ("pair",), "", "orbital momentum of one electron"),
    Table("pair_weights/*/lb", ("pair",), "", "orbital momentum of the other"),
    Table("pair_weights/*/weight", ("pair",), "", "weight of the pair in the state, both orders together"),
    Table("angular/*/bra", ("coefficient", "electron"), "", "orbital momenta la', lb' of the bra"),
    Table("angular/*/ket", ("coefficient", "electron"), "", "orbital momenta la, lb of the ket"),
    Table("angular/*/l", ("coefficient",), "", "multipole"),
    Table(
        "angular/*/A",
        ("coefficient",),
        "",
        "angular coefficients of the repulsion",
        note="1/r12 = sum over l of A_l r<^l / r>^(l + 1); the factor 4 pi / (2l + 1) is included",
    ),
    Table("residual_history/*/residual", ("iteration", "followed"), HARTREE, "residuals of the eigensolver"),
    Table("moments/*", ("state",), "", "expectation values, atomic units"),
    Table("convergence/*/value", ("value",), "", "values of the scanned key, atomic units"),
    Table("convergence/*/energies", ("value", "state"), HARTREE, "energies at each value"),
    Table("partial_waves/l_max", ("l_max",), "", "largest orbital momentum"),
    Table("partial_waves/energies", ("l_max", "state"), HARTREE, "energies up to l_max"),
    Table("partial_waves/limit", ("state",), HARTREE, "extrapolation of l_max to infinity"),
    Table("partial_waves/limit_error", ("state",), HARTREE, "its estimated error"),
)

HEADLINE = (
    "energy_extrapolated",
    "energy_0",
    "error_solver_0",
    "error_radial_0",
    "error_box_0",
    "error_angular_0",
    "energy_1",
    "energy_2",
    "energy_3",
    "error_to_exact",
    "virial_ratio_0",
    "orthogonality_error",
    "unknowns",
    "solver_iterations",
    "integrals_per_second",
    "beta_0",
    "sigma_ionisation_singlet_0",
    "sigma_ionisation_triplet_0",
    "sigma_elastic_singlet_0",
    "sigma_elastic_triplet_0",
    "sigma_double_photo_length_0",
    "sigma_photo_length_0",
    "ratio_double_0",
    "gauge_difference_0",
    "sigma_double_0",
    "sigma_double_L1_0",
    "resonance_energy_0",
    "resonance_width_0",
    "unitarity_defect_0",
    "residual_0",
)


def _declared(result: object) -> tuple[quantities.Quantity[Any], ...] | None:
    """Return the quantities of a collision or of resonances; None for the other tasks."""
    task = getattr(result, "task", None)
    if task == "collisions":
        return collisions(cast("CollisionResult", result).kinematics[0].unit)
    return RESONANCES if task == "resonances" else None


def tables(result: Any) -> tuple[Table, ...]:
    """Return the declarations for a result."""
    if (declared := _declared(result)) is not None:
        return quantities.tables(declared)
    return result.tables() if hasattr(result, "tables") else TABLES


def arrays(result: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    if (declared := _declared(result)) is not None:
        return quantities.arrays(declared, result)
    if hasattr(result, "arrays"):
        return dict(result.arrays())
    return _bound_arrays(result) if hasattr(result, "states") else _basis_arrays(result)


def scalars(result: Any) -> dict[str, Scalar]:
    """Return the headline numbers."""
    if (declared := _declared(result)) is not None:
        return quantities.scalars(declared, result)
    if hasattr(result, "scalars"):
        return dict(result.scalars())
    return _bound_scalars(result) if hasattr(result, "states") else _basis_scalars(result)


# ---------------------------------------------------------------------------------------------- basis


def _grid_arrays(problem: Problem, bases: dict[int, Sturmians]) -> dict[str, NDArray[Any]]:
    from qsim.sturmian.radial.parameters import generating_values

    grid = problem.grid
    out: dict[str, NDArray[Any]] = {"r": grid.r, "weights": grid.w, "potential": np.asarray(problem.V)}
    if problem.is_gsf:
        out["generating"] = np.asarray(generating_values(problem.radial, problem.values, grid))
    stored = sum(functions.c.size for functions in bases.values()) <= STORED_FUNCTIONS
    for l, functions in bases.items():
        out[f"basis/l{l}/beta"] = functions.beta
        if stored:
            out[f"basis/l{l}/S"] = np.ascontiguousarray((functions.c / np.sqrt(grid.w)[:, None]).T)
    return out


def _basis_quality(bases: dict[int, Sturmians]) -> dict[str, Scalar]:
    worst = max((functions.orthogonality for functions in bases.values()), default=None)
    out = {
        "orthogonality_error": Scalar(
            worst, description="largest |int S_n v S_m dr - delta_nm| of any l, Eq. (14)"
        )
    }
    if bases:
        out["sturmian_residual"] = Scalar(
            max(functions.residual for functions in bases.values()),
            description="largest relative residual of a Sturmian function",
        )
        for l, functions in bases.items():
            out[f"rank_l{l}"] = Scalar(int(functions.rank), description=f"independent functions of l = {l}")
    return out


def _basis_arrays(result: BasisResult) -> dict[str, NDArray[Any]]:
    out = _grid_arrays(result.problem, result.bases)
    return out | {f"basis/l{l}/beta_error": errors for l, errors in result.beta_errors.items()}


def _basis_scalars(result: BasisResult) -> dict[str, Scalar]:
    out = _basis_quality(result.bases) | _parameters(result.problem)
    out["functions"] = Scalar(
        sum(functions.beta.size for functions in result.bases.values()), description="functions of all l"
    )
    lowest = next(iter(result.bases.values()))
    for n in range(min(3, lowest.beta.size)):
        beta, text = lowest.beta[n], f"eigenvalue {n} of l = {lowest.l}"
        error = float(result.beta_errors[lowest.l][n]) if lowest.l in result.beta_errors else np.nan
        stated = error if np.isfinite(error) else None
        text = f"{text}; error: from a finer grid, of functions that decay in a larger box"
        out[f"beta_{n}"] = Scalar(float(np.real(beta)), HARTREE, stated, text)
        if np.iscomplexobj(lowest.beta):
            out[f"beta_{n}_imag"] = Scalar(
                float(np.imag(beta)), HARTREE, description=f"{text}, imaginary part"
            )
    out["condition"] = Scalar(
        max(result.condition.values()),
        description="largest condition number of the normalised functions of an l",
    )
    out["outgoing"] = Scalar(bool(lowest.outgoing), description="whether the functions are outgoing waves")
    return out


def _parameters(problem: Problem) -> dict[str, Scalar]:
    values = problem.values
    out = {
        "R": Scalar(values.R, "bohr", description="radius of the box"),
        "grid_points": Scalar(problem.grid.size, description="functions of the radial grid"),
    }
    if values.energy is not None:
        out["basis_energy"] = Scalar(values.energy, HARTREE, description="energy of the Sturmian functions")
    if values.alpha is not None:
        out["basis_alpha"] = Scalar(
            values.alpha, "1/bohr", description="inverse range of the generating potential"
        )
    return out


# ------------------------------------------------------------------------------------------ bound states


def state_names(result: BoundResult) -> list[str]:
    """Return the names of the states, such as ``2^3P``."""
    return [known.term(s.L, s.S, s.parity, s.root) for s in result.states]


def _exact(result: BoundResult, k: int) -> float | None:
    problem, state = result.problem, result.states[k]
    if not problem.is_bare:
        return None
    return known.energy(problem.Z, state.L, state.S, state.parity, state.root)


def _bound_arrays(result: BoundResult) -> dict[str, NDArray[Any]]:
    states = result.states
    out = _grid_arrays(result.problem, result.bases)
    out |= {
        "state": np.array(state_names(result), dtype=object),
        "energies": np.array([s.energy for s in states]),
        "energy_errors": np.array([s.error for s in states]),
        "L": np.array([s.L for s in states]),
        "S": np.array([s.S for s in states]),
        "root": np.array([s.root for s in states]),
        "density": np.array([s.density for s in states]),
        "thresholds": np.array([s.threshold for s in states]),
    }
    for k, s in enumerate(states):
        out[f"pair_weights/{k}/la"], out[f"pair_weights/{k}/lb"] = np.asarray(s.pairs).T
        out[f"pair_weights/{k}/weight"] = np.asarray(s.weights)
    for sector in result.problem.sectors:
        if len(sector.pairs) <= STORED_PAIRS:
            out |= _angular(sector)
    for k, history in enumerate(result.histories):
        if history.ndim == 2 and history.size:
            out[f"residual_history/{k}/residual"] = history
    for name in states[0].moments if states else ():
        out[f"moments/{name}"] = np.array([s.moments[name] for s in states])
    if states and all(s.map is not None for s in states):
        radii = result.problem.grid.r
        out |= {"r1": radii, "r2": radii, "pair_density": np.array([s.map for s in states])}
    for key, scan in result.convergence.items():
        out[f"convergence/{key}/value"] = np.asarray(scan.values, float)
        out[f"convergence/{key}/energies"] = np.asarray(scan.energies)
    if result.partial.values.size:
        out["partial_waves/l_max"] = np.asarray(result.partial.values).astype(int)
        out["partial_waves/energies"] = np.asarray(result.partial.energies)
    if result.limits:
        out["partial_waves/limit"] = np.array([value for value, _ in result.limits])
        out["partial_waves/limit_error"] = np.array([error for _, error in result.limits])
    return out


def _angular(sector: Sector) -> dict[str, NDArray[Any]]:
    """Return the angular coefficients between the stored pairs of a symmetry."""
    from qsim.sturmian.two_electron.angular import multipoles

    rows = [
        (bra, ket, l, value)
        for bra in sector.pairs
        for ket in sector.pairs
        for l, value in multipoles(sector.L, bra, ket)
    ]
    where = f"angular/L{sector.L}_S{sector.S}_{sector.parity}"
    bras, kets, ls, values = zip(*rows, strict=True)
    return {
        f"{where}/bra": np.array(bras),
        f"{where}/ket": np.array(kets),
        f"{where}/l": np.array(ls),
        f"{where}/A": np.array(values),
    }


_MOMENTS = {
    "r": ("mean_r", "bohr", "<r> of one electron"),
    "r2": ("mean_r2", "bohr^2", "<r^2> of one electron"),
    "inv_r": ("mean_inv_r", "1/bohr", "<1/r> of one electron"),
    "inv_r2": ("mean_inv_r2", "1/bohr^2", "<1/r^2> of one electron"),
    "inv_r12": ("mean_inv_r12", "1/bohr", "<1/r12>"),
    "r12_squared": ("mean_r12_squared", "bohr^2", "<r12^2>"),
    "r1_dot_r2": ("mean_r1_dot_r2", "bohr^2", "<r1 . r2>"),
    "cos_theta12": ("mean_cos_theta12", "", "mean cosine of the angle between the electrons"),
    "repulsion": ("repulsion", HARTREE, "repulsion energy"),
    "edge_density": ("edge_density", "1/bohr", "largest radial density in the last element of the box"),
    "kinetic": ("kinetic", HARTREE, "kinetic energy"),
    "nuclear": ("nuclear", HARTREE, "energy in the one-body potential"),
    "virial_ratio": ("virial_ratio", "", "-<V>/<T>, 2 for an exact state of charges at rest"),
    "norm": ("norm", "", "norm of the state"),
    "symmetry_error": ("symmetry_error", "", "violation of the exchange symmetry, relative to the state"),
}


#: Parts of the error of an energy.
_PARTS = {
    "solver": "eigensolver and rounding",
    "radial": "functions, grid and its quadrature, from the same pairs on a finer grid",
    "box": "wall at R",
    "angular": "pairs of angular momenta beyond l_max",
}


def _headline(result: BoundResult, k: int, name: str) -> str:
    """Return what an energy is and what its error is made of."""
    if result.problem.lists_pairs:
        return (
            f"energy of {name} with the pairs of the deck only; error: solver, radial functions and grid, box"
        )
    return f"energy of {name} up to l_max; error: solver, radial functions and grid, box, and the missing partial waves"


def _bound_scalars(result: BoundResult) -> dict[str, Scalar]:
    from qsim.sturmian.tasks.doubts import box_density

    problem = result.problem
    out: dict[str, Scalar] = {}
    names = state_names(result)
    for k, state in enumerate(result.states):
        out[f"energy_{k}"] = Scalar(
            float(state.energy),
            HARTREE,
            float(state.error),
            _headline(result, k, names[k]),
        )
    out |= _limit_scalars(result, names)
    for k, state in enumerate(result.states):
        for name, value in state.moments.items():
            scalar, unit, text = _MOMENTS.get(name, (name, "", name.replace("_", " ")))
            out[f"{scalar}_{k}"] = Scalar(float(value), unit, description=f"{text}, {names[k]}")
        out[f"ionisation_energy_{k}"] = Scalar(
            float(state.threshold - state.energy),
            HARTREE,
            state.error + (state.error_threshold if np.isfinite(state.error_threshold) else 0.0),
            description=f"energy below the ionisation threshold, {names[k]}",
        )
        text = f"density at R if there were no wall, {names[k]}"
        out[f"box_density_{k}"] = Scalar(box_density(state), "1/bohr", description=text)
        out[f"residual_{k}"] = Scalar(float(state.residual), HARTREE, description=f"|H x - E x|, {names[k]}")
        for part, text in _PARTS.items():
            value = getattr(state, f"error_{part}")
            if np.isfinite(value):
                text = f"part of the error of energy_{k}: {text}, {names[k]}"
                out[f"error_{part}_{k}"] = Scalar(float(value), HARTREE, description=text)
    out |= _basis_quality(result.bases) | _parameters(problem)
    out["unknowns"] = Scalar(int(result.unknowns), description="coefficients of a state")
    out["solver_iterations"] = Scalar(
        int(result.solver_iterations), description="steps of the eigensolver for the states of the deck"
    )
    out["products"] = Scalar(int(result.products), description="products H x of the eigensolver")
    out["solver"] = Scalar(problem.solver.type, description="eigensolver")
    return out


def _limit_scalars(result: BoundResult, names: list[str]) -> dict[str, Scalar]:
    out: dict[str, Scalar] = {}
    for k, (value, error) in enumerate(result.limits):
        text = f"energy of {names[k]} for l_max to infinity"
        out[f"energy_extrapolated_{k}"] = Scalar(float(value), HARTREE, float(error), text)
    if result.limits:
        out = {"energy_extrapolated": out["energy_extrapolated_0"], **out}
    for k, state in enumerate(result.states):
        exact = _exact(result, k)
        if exact is None:
            continue
        best = result.limits[k][0] if result.limits else state.energy
        what = "extrapolated" if result.limits else "up to l_max"
        out[f"energy_exact_{k}"] = Scalar(exact, HARTREE, description=f"known energy of {names[k]}")
        scalar = Scalar(
            float(best - exact), HARTREE, description=f"energy {what} minus the known one, {names[k]}"
        )
        out |= {"error_to_exact": scalar} if k == 0 else {}
        out[f"error_to_exact_{k}"] = scalar
        out[f"above_exact_{k}"] = Scalar(
            bool(state.energy >= exact - state.error_in_pairs),
            description=f"whether the energy up to l_max is an upper bound of the known one, {names[k]}",
        )
    return out
