"""Functions of `task: basis` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.radial.quantities import (
    BETA,
    FUNCTIONS,
    HARTREE,
    NODES,
    PARAMETERS,
    POTENTIALS,
    QUALITY,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.problem import Problem
    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = ["QUANTITIES", "BasisResult"]

# Eigenvalues that are scalars.
SHOWN = 3


@dataclass
class BasisResult:
    """Sturmian functions by l.

    Attributes
    ----------
    condition : dict of float
        Condition number of the functions of an l, each normalised.
    beta_errors : dict of (N,) float64
        Estimated errors of the eigenvalues of an l, hartree; NaN where they could not be found.
    """

    task: ClassVar[str] = "basis"

    problem: Problem
    bases: dict[int, Sturmians]
    condition: dict[int, float] = field(default_factory=dict)
    beta_errors: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


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
    known = [(n, float(error)) for n, error in enumerate(errors) if np.isfinite(error)]
    # of complex ones the distance in the plane, which neither part exceeds
    return {f"beta_{n}{part}": error for n, error in known for part in ("", "_imag")}


QUANTITIES: tuple[Quantity[BasisResult], ...] = (
    Quantity(
        "beta_*",
        HARTREE,
        "eigenvalue of the lowest l; _imag: its imaginary part",
        _betas,
        error=_beta_errors,
        headline=("beta_0",),
    ),
    *QUALITY,
    *PARAMETERS,
    Quantity(
        "functions",
        "",
        "functions of all l",
        lambda r: sum(functions.beta.size for functions in r.bases.values()),
    ),
    Quantity(
        "condition",
        "",
        "largest condition number of the normalised functions of an l",
        lambda r: max(r.condition.values()),
        exact=True,
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
