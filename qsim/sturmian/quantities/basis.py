"""Quantities of the radial functions of any task, and of `task: basis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.radial.sturmians import Sturmians
    from qsim.sturmian.tasks.basis import BasisResult

__all__ = [
    "ALPHA",
    "BASIS",
    "BETA",
    "ENERGY",
    "FUNCTIONS",
    "NODES",
    "PARAMETERS",
    "POTENTIALS",
    "QUALITY",
    "Arrays",
    "orthogonality",
]

STORED_FUNCTIONS = 4_000_000  # numbers of basis functions up to which the results file holds them
SHOWN = 3  # eigenvalues that are scalars
HARTREE = "hartree"

Arrays = dict[str, "NDArray[Any]"]
"""Arrays of a quantity with a pattern for a name."""


def _of_functions(name: str, of: Callable[[Sturmians], NDArray[Any]]) -> Callable[[Any], Arrays]:
    """Return a function that gives an array of the Sturmian functions of each l."""
    return lambda r: {f"basis/l{l}/{name}": of(functions) for l, functions in r.bases.items()}


def _stored(r: Any) -> bool:
    return sum(functions.c.size for functions in r.bases.values()) <= STORED_FUNCTIONS


def _generating(r: Any) -> NDArray[np.float64] | None:
    from qsim.sturmian.radial.parameters import generating_values

    problem = r.problem
    if not problem.is_gsf:
        return None
    return np.asarray(generating_values(problem.radial, problem.values, problem.grid))


NODES: tuple[Quantity[Any], ...] = (
    Quantity(
        "r", "bohr", "radial nodes", lambda r: r.problem.grid.r, ("r",), note="complex on an ECS contour"
    ),
    Quantity("weights", "bohr", "quadrature weights of the nodes", lambda r: r.problem.grid.w, ("r",)),
)
POTENTIALS: tuple[Quantity[Any], ...] = (
    Quantity("potential", HARTREE, "one-body potential", lambda r: np.asarray(r.problem.V), ("r",)),
    Quantity(
        "generating",
        HARTREE,
        "generating potential v",
        _generating,
        ("r",),
        note="the attractive potential is -v",
    ),
)
BETA: Quantity[Any] = Quantity(
    "basis/l*/beta",
    HARTREE,
    "eigenvalues beta_n of the Sturmian functions",
    _of_functions("beta", lambda functions: functions.beta),
    ("n",),
)


def _values(r: Any) -> Arrays:
    """Return the functions S_n(r), (N, n), of each l."""
    root = np.sqrt(r.problem.grid.w)[:, None]
    return _of_functions("S", lambda functions: np.ascontiguousarray((functions.c / root).T))(r)


FUNCTIONS: Quantity[Any] = Quantity(
    "basis/l*/S",
    "",
    "Sturmian functions S_n(r)",
    _values,
    ("n", "r"),
    when=_stored,
    note="normalised so that the integral of S_n v S_m is delta_nm, without conjugation",
)


def orthogonality(text: str) -> Quantity[Any]:
    """Return the quantity of how far the functions are from orthonormal, with its meaning."""
    return Quantity(
        "orthogonality_error",
        "",
        text,
        lambda r: max((functions.orthogonality for functions in r.bases.values()), default=None),
        headline=True,
    )


#: How good the functions are.
QUALITY: tuple[Quantity[Any], ...] = (
    orthogonality("largest |int S_n v S_m dr - delta_nm| of any l, Eq. (14)"),
    Quantity(
        "sturmian_residual",
        "",
        "largest relative residual of a Sturmian function",
        lambda r: max(functions.residual for functions in r.bases.values()),
        when=lambda r: bool(r.bases),
    ),
    Quantity(
        "rank_l*",
        "",
        "independent functions of l = *",
        lambda r: {f"rank_l{l}": int(functions.rank) for l, functions in r.bases.items()},
    ),
)
ENERGY: Quantity[Any] = Quantity(
    "basis_energy",
    HARTREE,
    "energy of the Sturmian functions",
    lambda r: r.problem.values.energy,
    when=lambda r: r.problem.values.energy is not None,
)
ALPHA: Quantity[Any] = Quantity(
    "basis_alpha",
    "1/bohr",
    "inverse range of the generating potential",
    lambda r: r.problem.values.alpha,
    when=lambda r: r.problem.values.alpha is not None,
)
PARAMETERS: tuple[Quantity[Any], ...] = (
    Quantity("R", "bohr", "radius of the box", lambda r: r.problem.values.R),
    Quantity("grid_points", "", "functions of the radial grid", lambda r: r.problem.grid.size),
    ENERGY,
    ALPHA,
)


def _lowest(r: BasisResult) -> Sturmians:
    return next(iter(r.bases.values()))


def _betas(r: BasisResult) -> dict[str, Scalar]:
    """Return the first eigenvalues of the lowest l, of complex ones the imaginary part, too."""
    lowest, out = _lowest(r), {}
    for n, beta in enumerate(lowest.beta[:SHOWN]):
        text = f"eigenvalue {n} of l = {lowest.l}; error: from a finer grid, of functions that decay in a larger box"
        out[f"beta_{n}"] = Scalar(float(np.real(beta)), HARTREE, description=text)
        if np.iscomplexobj(lowest.beta):
            out[f"beta_{n}_imag"] = Scalar(
                float(np.imag(beta)), HARTREE, description=f"{text}, imaginary part"
            )
    return out


def _beta_errors(r: BasisResult) -> dict[str, float]:
    errors = r.beta_errors.get(_lowest(r).l, np.zeros(0))
    return {f"beta_{n}": float(error) for n, error in enumerate(errors) if np.isfinite(error)}


BASIS: tuple[Quantity[BasisResult], ...] = (
    *QUALITY,
    *PARAMETERS,
    Quantity(
        "functions",
        "",
        "functions of all l",
        lambda r: sum(functions.beta.size for functions in r.bases.values()),
    ),
    Quantity(
        "beta_*",
        HARTREE,
        "eigenvalue of the lowest l; _imag: its imaginary part",
        _betas,
        error=_beta_errors,
        headline=("beta_0",),
    ),
    Quantity(
        "condition",
        "",
        "largest condition number of the normalised functions of an l",
        lambda r: max(r.condition.values()),
    ),
    Quantity("outgoing", "", "whether the functions are outgoing waves", lambda r: bool(_lowest(r).outgoing)),
    *NODES,
    *POTENTIALS,
    BETA,
    Quantity(
        "basis/l*/beta_error",
        HARTREE,
        "estimated errors of beta_n",
        lambda r: {f"basis/l{l}/beta_error": errors for l, errors in r.beta_errors.items()},
        ("n",),
        note="task: basis alone",
    ),
    FUNCTIONS,
)
