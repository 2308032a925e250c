"""Phases, quantum defects and scattering lengths of a collision as quantities of its results file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.scatter.collected import CollisionResult

__all__ = ["ARRAYS", "SCALARS"]

Scalars = dict[str, Scalar]


def _electrons(result: CollisionResult) -> bool:
    return result.problem.process == "e_h"


def _claimed(error: float) -> float | None:
    """Return an error, None where it is not known."""
    return error if np.isfinite(error) else None


def _phase_shifts(result: CollisionResult) -> Scalars:
    return {
        f"phase_shift_L{L}_{label}_{i}": Scalar(
            phase.value,
            "rad",
            _claimed(phase.error),
            f"phase shift, 1s to 1s, L = {L}, {result.kinematics[i].name}, {label}",
        )
        for (i, label, L), phase in sorted(result.elastic.phases.items())
    }


def _defects_of_phases(result: CollisionResult) -> Scalars:
    if result.elastic.polarisability is not None:
        return {}
    return {
        f"quantum_defect_L{L}_{label}_{i}": Scalar(
            phase.value / math.pi,
            error=_claimed(phase.error / math.pi),
            description=f"phase over pi, L = {L}, {result.kinematics[i].name}, {label}",
        )
        for (i, label, L), phase in sorted(result.elastic.phases.items())
    }


def _lengths(result: CollisionResult) -> Scalars:
    return {
        f"scattering_length_{label}": Scalar(value, "bohr", _claimed(error), f"scattering length, {label}")
        for label, (value, error) in result.elastic.lengths.items()
    }


def _phases(attribute: str) -> Callable[[CollisionResult], NDArray[Any] | None]:
    """Return a function that gives the phases over energy, spin and L; NaN where there is none, None without any."""

    def table(result: CollisionResult) -> NDArray[Any] | None:
        known, momenta = result.elastic.phases, result.momenta
        if not known:
            return None
        return np.array(
            [
                [
                    [getattr(known.get((i, label, L)), attribute, np.nan) for L in momenta]
                    for label in by_label
                ]
                for i, by_label in enumerate(result.observed)
            ]
        )

    return table


SCALARS: tuple[Quantity[CollisionResult], ...] = (
    Quantity("phase_shift_*", "rad", "phase shift on its branch, where only elastic scattering is possible", _phase_shifts,
             when=_electrons),
    Quantity("quantum_defect_*", "", "phase shift over pi, of an ion", _defects_of_phases, when=_electrons),
    Quantity("scattering_length_*", "bohr", "scattering length of a neutral target", _lengths, when=_electrons,
             headline=("scattering_length_singlet", "scattering_length_triplet")),
    Quantity("polarisability", "bohr^3", "dipole polarisability of a neutral target", lambda r: r.elastic.polarisability,
             when=lambda r: _electrons(r) and r.elastic.polarisability is not None, exact=True),
)  # fmt: skip
ARRAYS: tuple[Quantity[CollisionResult], ...] = (
    Quantity("phase_shift", "rad", "phase shifts on their branch, NaN where other channels are open (e_h)",
             _phases("value"), ("point", "label", "L"), when=_electrons),
    Quantity("phase_shift_error", "rad", "its error", _phases("error"), ("point", "label", "L"), when=_electrons),
    Quantity("phase_branch", "", "times pi in a phase shift above its value in [0, pi)", _phases("branch"),
             ("point", "label", "L"), when=_electrons),
)  # fmt: skip
