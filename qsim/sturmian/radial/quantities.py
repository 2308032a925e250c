"""Quantities of the radial functions, which several tasks write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = [
    "ALPHA",
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

# Numbers of basis functions up to which the results file holds them.
STORED_FUNCTIONS = 4_000_000
# Eigenvalues that are scalars.
SHOWN = 3
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
    # Coefficients of the normalised basis are values times sqrt(w).
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
        exact=True,
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
    exact=True,
)
ALPHA: Quantity[Any] = Quantity(
    "basis_alpha",
    "1/bohr",
    "inverse range of the generating potential",
    lambda r: r.problem.values.alpha,
    when=lambda r: r.problem.values.alpha is not None,
    exact=True,
)
PARAMETERS: tuple[Quantity[Any], ...] = (
    Quantity("R", "bohr", "radius of the box", lambda r: r.problem.values.R, exact=True),
    Quantity("grid_points", "", "functions of the radial grid", lambda r: r.problem.grid.size),
    ENERGY,
    ALPHA,
)
