"""Result of a molecule with the propagators of the paper, and the quantities that it alone has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.quantities import Quantity
from qsim.qoc.result import CHECKED, ERRORS, FLUENCE, HISTORY, OBJECTIVE, SEARCH, TIME, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.errors.reference import Errors
    from qsim.qoc.errors.verification import Verification
    from qsim.qoc.problem import MoleculeProblem

# Largest population from which a level counts for the density at the walls.
POPULATED = 1e-6


@dataclass(kw_only=True)
class MoleculeResult(Result):
    """Result of a search for the field of a molecule.

    Attributes
    ----------
    member_probabilities : (M,) float64
    amplitudes : (K,) complex128
        Of the first member and pair at T, in levels.
    psi : (L,) complex128
        The same on the grid.
    truncation : float
    verification : Verification or None
    errors : Errors or None
    reached_levels : (K,) float64
        Largest population of each level.
    """

    problem: MoleculeProblem
    member_probabilities: NDArray[np.float64]
    amplitudes: NDArray[np.complex128]
    psi: NDArray[np.complex128]
    truncation: float
    verification: Verification | None
    errors: Errors | None
    reached_levels: NDArray[np.float64]

    @property
    def task(self) -> str:
        """Kind of system, by which its quantities are found."""
        return "grid"

    @property
    def field(self) -> NDArray[np.float64]:
        """The final field (N,)."""
        return self.fields[0]

    @property
    def levels(self) -> int:
        """Number of levels K of the run."""
        return int(self.problem.initial.shape[1])

    @property
    def claimed(self) -> Errors | None:
        """The errors, if one of P is claimed."""
        return None if self.errors is None or self.errors.unclaimed is not None else self.errors


# ----------------------------------------------------------------------------------------- derived numbers


def spectrum(field: NDArray[np.float64], duration: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return angular frequencies (hartree) and ``|integral eps exp(i w t) dt|^2`` by a discrete Fourier transform."""
    tau = duration / field.size
    frequency = np.asarray(2 * np.pi * np.fft.rfftfreq(field.size, tau), dtype=float)
    return frequency, np.asarray(np.abs(np.fft.rfft(field) * tau) ** 2, dtype=float)


def _states(result: MoleculeResult) -> NDArray[np.float64]:
    """Return the levels on the grid (K, L)."""
    return result.problem.molecule.states[: result.levels]


def _peak(result: MoleculeResult) -> float:
    """Return the largest field strength, a.u."""
    return float(np.abs(result.field).max(initial=0.0))


def _worst_error(result: MoleculeResult) -> float | None:
    """Return the error of the smallest P: it changes by no more than that of a member does."""
    return float(result.claimed.of_members.max()) if result.claimed else None


def _spread_error(result: MoleculeResult) -> float | None:
    """Return the error of the standard deviation, at most the root mean square of those of the members."""
    return float(np.sqrt(np.mean(result.claimed.of_members**2))) if result.claimed else None


def _wall_density(result: MoleculeResult) -> float:
    used = tuple(int(k) for k in np.flatnonzero(result.reached_levels > POPULATED)) or (0,)
    return result.problem.molecule.wall_density(used)


def _extra(name: str) -> Callable[[MoleculeResult], object]:
    """Return the function that looks up what only some optimisers leave."""
    return lambda result: result.extra.get(name)


def _first(name: str, kind: type) -> Callable[[MoleculeResult], object]:
    """Return the function for the first number of what the line search leaves; None if there was no iteration."""

    def first(result: MoleculeResult) -> object:
        values = result.extra.get(name, np.zeros(0))
        return kind(values[0]) if values.size else None

    return first


def _verified(result: MoleculeResult) -> bool:
    return result.verification is not None


def _of_verification(name: str) -> Callable[[MoleculeResult], object]:
    return lambda result: result.verification and getattr(result.verification, name)


def _has_ensemble(result: MoleculeResult) -> bool:
    return result.problem.members.count > 1


def _searches_lines(result: MoleculeResult) -> bool:
    return result.problem.optimizer.type == "travolta"


# ---------------------------------------------------------------------------------------------- quantities

FAR = "NaN for levels above the potential far outside of the box"

ARRAYS: tuple[Quantity[MoleculeResult], ...] = (
    Quantity(
        "time_populations",
        "a.u.",
        "time of the thinned-out populations",
        lambda r: r.problem.times[r.stride - 1 :: r.stride],
        ("time_populations",),
        when=lambda r: r.stride > 1,
    ),
    Quantity(
        "field",
        "a.u.",
        "electric field",
        lambda r: r.field,
        ("time",),
        note="one value per step, used at the midpoint; field_between says how it goes on between",
    ),
    Quantity("field_guess", "a.u.", "electric field of the guess", lambda r: r.problem.guess[0], ("time",)),
    Quantity("shape", "", "shape function S(t)", lambda r: r.problem.control.shape, ("time",)),
    Quantity(
        "populations",
        "",
        "level populations",
        lambda r: r.populations,
        ("time", "level"),
        when=lambda r: r.stride == 1,
        note="at the end of the step whose midpoint is in time; the last row belongs to T",
    ),
    Quantity(
        "populations_thinned",
        "",
        "level populations at the end of some steps",
        lambda r: r.populations,
        ("time_populations", "level"),
        when=lambda r: r.stride > 1,
    ),
    Quantity("level", "", "vibrational level", lambda r: np.arange(r.levels), ("level",)),
    Quantity(
        "energies", "hartree", "eigenvalues", lambda r: r.problem.molecule.energies[: r.levels], ("level",)
    ),
    Quantity(
        "energies_error",
        "hartree",
        "claimed error of each eigenvalue",
        lambda r: r.errors and r.errors.energies,
        ("level",),
        note=FAR,
    ),
    Quantity(
        "dipole_matrix",
        "a.u.",
        "dipole matrix elements <i|mu|j>",
        lambda r: r.problem.molecule.dipole_matrix[: r.levels, : r.levels],
        ("level", "level_to"),
    ),
    Quantity(
        "dipole_matrix_error",
        "a.u.",
        "claimed error of each dipole matrix element",
        lambda r: r.errors and r.errors.dipoles,
        ("level", "level_to"),
        note=FAR,
    ),
    Quantity("amplitudes_final", "", "level amplitudes at T", lambda r: r.amplitudes, ("level",)),
    Quantity("x", "bohr", "grid points", lambda r: r.problem.molecule.x, ("x",)),
    Quantity("potential", "hartree", "potential energy", lambda r: r.problem.molecule.potential, ("x",)),
    Quantity("dipole", "a.u.", "dipole function", lambda r: r.problem.molecule.dipole, ("x",)),
    Quantity(
        "psi_initial",
        "bohr^-1/2",
        "initial wavefunction",
        lambda r: r.problem.goal.initial(r.levels)[0] @ _states(r),
        ("x",),
    ),
    Quantity(
        "psi_target",
        "bohr^-1/2",
        "target wavefunction (the first, if any of several levels will do)",
        lambda r: r.problem.goal.targets(r.levels)[0][0] @ _states(r),
        ("x",),
    ),
    Quantity("psi_final", "bohr^-1/2", "wavefunction at T", lambda r: r.psi, ("x",)),
    Quantity(
        "frequency",
        "hartree",
        "angular frequency",
        lambda r: spectrum(r.field, r.problem.duration)[0],
        ("frequency",),
    ),
    Quantity(
        "spectrum",
        "a.u.",
        "power spectrum of the field, |integral eps exp(i w t) dt|^2",
        lambda r: spectrum(r.field, r.problem.duration)[1],
        ("frequency",),
    ),
    Quantity(
        "member_probability",
        "",
        "probability of every ensemble member",
        lambda r: r.member_probabilities,
        ("member",),
        when=_has_ensemble,
    ),
    Quantity(
        "member_field_scale",
        "",
        "field factor of every ensemble member",
        lambda r: r.problem.members.scale,
        ("member",),
        when=_has_ensemble,
    ),
    # of the paper's line search
    *(
        Quantity(name, "", text, _extra(name), (axis,))
        for name, text, axis in (
            ("history/gamma", "step that the line search returned", "iteration"),
            ("history/beta", "amplification, Eq. (10)", "iteration"),
            ("history/line_search_evaluations", "evaluations of the growing sequence, Eq. (9)", "iteration"),
            ("line_search/gamma", "sequence of Eq. (9) in the first iteration", "candidate"),
            ("line_search/objective", "J along the sequence", "candidate"),
            ("line_search/bisection", "midpoints of the bisection in the first iteration", "midpoint"),
        )
    ),
)


VALUES: tuple[Quantity[MoleculeResult], ...] = (
    Quantity(
        "probability",
        "",
        "P, mean over the ensemble if there is one",
        lambda r: r.value,
        error=lambda r: r.error,
        headline=True,
    ),
)
PEAKS: tuple[Quantity[MoleculeResult], ...] = (
    Quantity("peak_field", "a.u.", "largest |eps|", _peak, headline=True, exact=True),
    Quantity(
        "peak_field_si",
        "V/nm",
        "largest |eps|",
        lambda r: float(to_unit(_peak(r), "V/nm", "electric field")),
        headline=True,
        exact=True,
    ),
    Quantity(
        "peak_intensity",
        "W/cm2",
        "intensity at the peak field, linear polarisation",
        lambda r: _peak(r) ** 2 * float(to_unit(1.0, "W/cm2", "intensity")),
        exact=True,
    ),
    Quantity(
        "field_area",
        "a.u.",
        "integral of eps",
        lambda r: float(np.sum(r.field)) * r.problem.propagator.tau,
        exact=True,
    ),
)
SCALARS: tuple[Quantity[Any], ...] = (
    Quantity(
        "truncation_leak",
        "",
        "largest population of the two highest levels kept",
        lambda r: r.truncation,
        exact=True,
    ),
    Quantity(
        "wall_density",
        "",
        "largest |psi|^2 dx at a wall among the levels that were populated",
        _wall_density,
        exact=True,
    ),
    Quantity(
        "gradient_norm",
        "a.u.",
        "norm of dJ/d eps at the end",
        lambda r: float(r.history["gradient_norm"][-1]),
        when=lambda r: bool(r.history.get("gradient_norm", np.zeros(0)).size),
        exact=True,
    ),
    *(
        Quantity(
            f"verification_{name}", "", f"{text} of the verification", _of_verification(name), when=_verified
        )
        for name, text in (("steps", "time steps"), ("propagator", "propagator"), ("points", "grid points"))
    ),
    ERRORS,
    Quantity(
        "field_between",
        "",
        "the field between its values: hold (constant in each step) or cubic",
        lambda r: r.errors and r.errors.between,
        when=lambda r: r.errors is not None,
    ),
    Quantity(
        "probability_worst",
        "",
        "smallest P in the ensemble",
        lambda r: float(r.member_probabilities.min()),
        error=_worst_error,
        when=_has_ensemble,
    ),
    Quantity(
        "probability_spread",
        "",
        "standard deviation of P in the ensemble",
        lambda r: float(r.member_probabilities.std()),
        error=_spread_error,
        when=_has_ensemble,
    ),
    Quantity(
        "line_search_evaluations_first",
        "",
        "evaluations of Eq. (9) in the first iteration",
        _first("history/line_search_evaluations", int),
        when=_searches_lines,
    ),
    Quantity(
        "gamma_first",
        "",
        "gamma of the first iteration",
        _first("history/gamma", float),
        when=_searches_lines,
        exact=True,
    ),
)

MOLECULE: tuple[Quantity[Any], ...] = (
    *VALUES,
    *CHECKED,
    replace(OBJECTIVE, headline=True),
    FLUENCE,
    *PEAKS,
    *SEARCH,
    *SCALARS,
    TIME,
    *ARRAYS,
    *HISTORY,
)
