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

__all__ = ["ARRAYS", "LISTED", "SCALARS"]

Scalars = dict[str, Scalar]
# Energies up to which every number of each is listed by itself.
LISTED = 40


def _electrons(result: CollisionResult) -> bool:
    return result.problem.process == "e_h"


def _claimed(error: float) -> float | None:
    """Return an error, None where it is not known."""
    return error if np.isfinite(error) else None


def _phase_shifts(result: CollisionResult) -> Scalars:
    if len(result.observed) > LISTED:
        return {}
    return {
        f"phase_shift_L{L}_{label}_{i}": Scalar(
            phase.value,
            "rad",
            _claimed(phase.error),
            f"phase shift, 1s to 1s, L = {L}, {result.kinematics[i].name}, {label}",
        )
        for (i, label, L), phase in sorted(result.elastic.phases.items())
    }


def _eigenphases(result: CollisionResult) -> Scalars:
    if len(result.observed) > LISTED:
        return {}
    return {
        f"eigenphase_sum_L{L}_{label}_{i}": Scalar(
            phase.value,
            "rad",
            _claimed(phase.error),
            f"sum of all eigenphases, L = {L}, {result.kinematics[i].name}, {label}",
        )
        for (i, label, L), phase in sorted(result.elastic.eigenphases.items())
    }


def _defects_of_phases(result: CollisionResult) -> Scalars:
    if result.elastic.polarisability is not None or len(result.observed) > LISTED:
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


def _resonances(part: int, name: str) -> Callable[[CollisionResult], Scalars]:
    """Return a function that gives energies (0) or widths (1) of the resonances in the phases."""

    def scalars(result: CollisionResult) -> Scalars:
        out = {}
        for (label, L), found in result.elastic.resonances.items():
            for n, pair in enumerate(found):
                value, error = pair[part]
                what = ("impact energy", "width")[part]
                text = f"{what} of a resonance in the phase, L = {L}, {label}"
                out[f"{name}_L{L}_{label}_{n}"] = Scalar(value, "hartree", _claimed(error), text)
        return out

    return scalars


def _phases(attribute: str, kind: str = "phases") -> Callable[[CollisionResult], NDArray[Any] | None]:
    """Return a function that gives phases over energy, spin and L; NaN where there is none, None without any."""

    def table(result: CollisionResult) -> NDArray[Any] | None:
        known, momenta = getattr(result.elastic, kind), result.momenta
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
    Quantity("eigenphase_sum_*", "rad", "sum of all eigenphases on its branch, below ionisation", _eigenphases, when=_electrons),
    Quantity("quantum_defect_*", "", "phase shift over pi, of an ion", _defects_of_phases, when=_electrons),
    Quantity("breit_wigner_energy_*", "hartree", "impact energy of a resonance that a phase passes, by a fit",
             _resonances(0, "breit_wigner_energy"), when=_electrons),
    Quantity("breit_wigner_width_*", "hartree", "its width", _resonances(1, "breit_wigner_width"), when=_electrons),
    Quantity("scattering_length_*", "bohr", "scattering length of a neutral target", _lengths, when=_electrons,
             headline=("scattering_length_singlet", "scattering_length_triplet")),
    Quantity("polarisability", "bohr^3", "dipole polarisability of a neutral target", lambda r: r.elastic.polarisability,
             when=lambda r: _electrons(r) and r.elastic.polarisability is not None, exact=True),
)  # fmt: skip
ARRAYS: tuple[Quantity[CollisionResult], ...] = (
    Quantity("phase_shift", "rad", "phase shifts on their branch, NaN where other channels are open (e_h)",
             _phases("value"), ("point", "label", "L"), when=_electrons),
    Quantity("phase_shift_error", "rad", "its error", _phases("error"), ("point", "label", "L"), when=_electrons),
    Quantity("eigenphase_sum", "rad", "sums of all eigenphases on their branch, NaN above ionisation (e_h)",
             _phases("value", "eigenphases"), ("point", "label", "L"), when=_electrons),
    Quantity("eigenphase_sum_error", "rad", "its error", _phases("error", "eigenphases"), ("point", "label", "L"),
             when=_electrons),
    Quantity("phase_branch", "", "times pi in a phase shift above its value in [0, pi)", _phases("branch"),
             ("point", "label", "L"), when=_electrons),
)  # fmt: skip
