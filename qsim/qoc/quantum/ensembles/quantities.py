"""Quantities of an ensemble of quantum systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.results.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from qsim.qoc.quantum.ensembles.ensemble import EnsembleResult
    from qsim.qoc.quantum.result import QuantumResult

KINDS = {
    "probability": "probability of the goal",
    "fidelity": "average fidelity of the gate",
    "observable": "mean value of the observable",
    "functional": "formula of mean values and overlaps",
    "closeness": "closeness to the density matrix",
    "goals": "weighted mean of the goals",
}
PARAMETER = "member_parameter/"


def _own(result: QuantumResult) -> EnsembleResult:
    assert result.ensemble is not None
    return result.ensemble


def _largest_error(result: QuantumResult) -> float | None:
    """Return the largest claimed error of the members that were followed; None if one of them has none."""
    checks = _own(result).checks.values()
    if not checks or any(check.unclaimed for check in checks):
        return None
    return max(check.error for check in checks)


def _nominal_error(result: QuantumResult) -> float | None:
    """Return the claimed error of the nominal system's value; None if none is claimed."""
    check = result.nominal_check
    return None if check is None or check.unclaimed is not None else check.error


def _of_kind(kind: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == kind and result.ensemble is not None


def _verified(kind: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == kind and result.ensemble is not None and bool(result.ensemble.checks)


def _has_members(result: QuantumResult) -> bool:
    return result.ensemble is not None


def _parameters(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    ensemble = result.problem.ensemble
    assert ensemble is not None
    return {f"{PARAMETER}{path}": values for path, values in ensemble.members.numbers().items()}


def _of(kind: str, text: str) -> tuple[Quantity[QuantumResult], ...]:
    """Return the quantities of an ensemble whose values are of one kind."""
    return (
        Quantity(
            f"{kind}_worst",
            "",
            "smallest value in the ensemble",
            lambda r: float(_own(r).values.min()),
            error=_largest_error,
            when=_of_kind(kind),
            headline=True,
        ),
        Quantity(
            f"{kind}_spread",
            "",
            "standard deviation in the ensemble, with its weights",
            lambda r: _own(r).spread,
            # the spread changes by no more than the root mean square of what the members change by
            error=_largest_error,
            when=_of_kind(kind),
        ),
        Quantity(
            f"{kind}_nominal",
            "",
            "value of the system as the deck has it, without the ensemble",
            lambda r: r.nominal,
            error=_nominal_error,
            when=_of_kind(kind),
        ),
        Quantity(
            f"member_{kind}",
            "",
            f"{text}, of every member",
            lambda r: _own(r).values,
            ("member",),
            when=_of_kind(kind),
            note="the last entry of ensemble.members varies fastest",
        ),
        Quantity(
            f"member_{kind}_verified",
            "",
            "the same by another algorithm",
            lambda r: _own(r).verified,
            ("member",),
            when=_verified(kind),
            note="NaN for members that were not followed independently",
        ),
        Quantity(
            f"member_{kind}_error",
            "",
            "claimed error of every member",
            lambda r: _own(r).errors,
            ("member",),
            when=_verified(kind),
            note="NaN for members that were not followed independently",
        ),
    )


QUANTITIES: tuple[Quantity[QuantumResult], ...] = (
    *(quantity for kind, text in KINDS.items() for quantity in _of(kind, text)),
    Quantity(
        f"{PARAMETER}*",
        "",
        "what the ensemble varies, *, of every member",
        _parameters,
        ("member",),
        when=_has_members,
        note="as the deck has it, without its unit",
    ),
)
