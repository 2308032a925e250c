"""Result of `task: response` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.deck.response import Response
from qsim.sturmian.radial.quantities import PARAMETERS
from qsim.sturmian.response.numbers import POWERS, STORED, casimir_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.sturmian.response.curves import Curve
    from qsim.sturmian.response.limits import Limit
    from qsim.sturmian.response.problem import ResponseProblem
    from qsim.sturmian.response.sectors import Level

__all__ = ["QUANTITIES", "ResponseResult"]

HARTREE = "hartree"
# Units of lifetimes and of rates of emission, as in tables of spectral lines; s, ns and 1/s are those of the run's own times.
NANOSECOND, RATE = "1e-9 s", "1e8/s"
NANOSECONDS, TIMES = 1e9, 1e-8
# Names of the sums S(-2), ..., S(2) in scalars, and their units: bohr^3 is that of a polarisability.
SUMS = ("m2", "m1", "0", "1", "2")
ERROR = "error: partial waves, basis and box, and half of what two gauges differ by"


@dataclass
class ResponseResult:
    """Transitions, polarisabilities, dispersion coefficients and sums of a deck.

    Attributes
    ----------
    problem : ResponseProblem
    levels : list of Level
        States of the deck, then levels to which they decay.
    partial : dict of (k, ...)
        Arrays at each l_max.
    limits : dict of Limit
        The same arrays for l_max to infinity, with errors.
    curves : list of Curve
        Polarisability against frequency, of each state; empty unless requested.
    """

    task: ClassVar[str] = "response"

    problem: ResponseProblem
    levels: list[Level]
    partial: Mapping[str, NDArray[np.float64]]
    limits: Mapping[str, Limit]
    curves: list[Curve]

    @property
    def count(self) -> int:
        """Number of the states of the deck, the first of the levels."""
        return len(self.problem.order)

    @property
    def options(self) -> Response:
        """Block of the task."""
        task = self.problem.task
        assert isinstance(task, Response)
        return task

    @property
    def gauges(self) -> list[str]:
        """Gauges of transitions."""
        return list(self.options.gauges)

    @property
    def field_gauges(self) -> list[str]:
        """Gauges of polarisabilities, which have no acceleration."""
        return [gauge for gauge in self.gauges if gauge != "acceleration"] or ["length"]

    @property
    def shows_transitions(self) -> bool:
        """True if oscillator strengths were requested."""
        return "oscillator_strengths" in self.options.observables

    @property
    def shows_lifetimes(self) -> bool:
        """True if lifetimes were requested."""
        return "lifetimes" in self.options.observables

    def lifetimes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lifetimes of the states and their errors, ns; NaN for states that do not decay by electric dipole radiation."""
        rate, error = (np.asarray(part)[: self.count, 0] for part in self.limits["rate"])
        return NANOSECONDS / rate, NANOSECONDS * error / rate**2


def _limit(name: str, part: int) -> Callable[[ResponseResult], NDArray[np.float64] | None]:
    """Return a function that gives the limits of an array, or their errors; None where the deck did not ask for it."""
    return lambda r: np.asarray(r.limits[name][part]) if name in r.limits else None


def _partial(name: str) -> Callable[[ResponseResult], NDArray[np.float64] | None]:
    """Return a function that gives an array at every l_max."""
    return lambda r: r.partial.get(name)


def _of_levels(value: Callable[[Level], object]) -> Callable[[ResponseResult], NDArray[np.generic]]:
    """Return a function that gives an array with one entry per level."""
    return lambda r: np.array([value(level) for level in r.levels])


def _scalar(value: float, error: float, unit: str, text: str, alias: str = "") -> Scalar:
    return Scalar(float(value), unit, float(error) if np.isfinite(error) else None, text, alias=alias)


def _energies(r: ResponseResult) -> dict[str, Scalar]:
    values, errors = r.limits["energy"]
    return {
        f"energy_{level.label}": _scalar(
            values[k], errors[k], HARTREE, f"energy of {level.name} for l_max to infinity", f"energy_{k}"
        )
        for k, level in enumerate(r.levels)
    }


def _upward(r: ResponseResult) -> list[tuple[int, int]]:
    """Return the transitions between levels that absorb, by the numbers of the levels."""
    f = r.limits["f"].values
    n = len(r.levels)
    return [(i, k) for i in range(n) for k in range(n) if f[i, k, 0] > 0.0]


def _strengths(r: ResponseResult) -> dict[str, Scalar]:
    values, errors = r.limits["f"]
    return {
        f"f_{r.levels[i].label}_to_{r.levels[k].label}": _scalar(
            values[i, k, 0],
            errors[i, k, 0],
            "",
            f"oscillator strength {r.levels[i].name} - {r.levels[k].name}, {r.gauges[0]}",
            f"f_{i}_{k}",
        )
        for i, k in _upward(r)
    }


def _lifetimes(r: ResponseResult) -> dict[str, Scalar]:
    values, errors = r.lifetimes()
    found: dict[str, Scalar] = {}
    for k in range(r.count):
        level = r.levels[k]
        if np.isfinite(values[k]):
            lower = [r.levels[i].name for i in range(len(r.levels)) if r.limits["A"].values[k, i, 0] > 0.0]
            text = f"lifetime of {level.name}, which decays to {', '.join(lower)}"
            found[f"lifetime_{level.label}"] = _scalar(
                values[k], errors[k], NANOSECOND, text, f"lifetime_{k}"
            )
    return found


def _polarisabilities(name: str, text: str) -> Callable[[ResponseResult], dict[str, Scalar]]:
    """Return a function that gives the scalars of a part of polarisabilities: ``alpha_dipole_1s_1S`` of the first frequency."""

    def numbers(r: ResponseResult) -> dict[str, Scalar]:
        """Return those that a result has."""
        values, errors = r.limits[name]
        found: dict[str, Scalar] = {}
        for k, m, w in np.ndindex(values.shape[:3]):
            order, omega = r.options.multipoles[m], r.options.frequencies[w]
            if not np.isfinite(values[k, m, w, 0]):
                continue
            alias = name.replace("alpha", f"alpha{order}") + f"_{k}" + (f"_{w}" if w else "")
            kind = {1: "dipole", 2: "quadrupole"}[order]
            label = f"{name.replace('alpha', f'alpha_{kind}')}_{r.levels[k].label}" + (
                f"_omega_{w}" if w else ""
            )
            place = f"of {r.levels[k].name} at {omega:g} hartree, {r.field_gauges[0]}"
            found[label] = _scalar(
                values[k, m, w, 0],
                errors[k, m, w, 0],
                f"bohr^{2 * order + 1}",
                f"{kind} {text} {place}",
                alias,
            )
        return found

    return numbers


def _dispersion(r: ResponseResult) -> dict[str, Scalar]:
    values, errors = r.limits["c6"]
    return {
        f"c6_{r.levels[a].label}_{r.levels[b].label}": _scalar(
            values[k],
            errors[k],
            "hartree bohr^6",
            f"C6 of {r.levels[a].name} and {r.levels[b].name}",
            f"c6_{a}_{b}",
        )
        for k, (a, b) in enumerate(r.problem.partners)
    }


def _with_others(r: ResponseResult) -> dict[str, Scalar]:
    values, errors = r.limits["c6_with"]
    found = {}
    for k, number in enumerate(r.problem.attracting):
        for j, other in enumerate(r.problem.others):
            text = f"C6 of {r.levels[number].name} and {other.name}"
            name, alias = f"c6_{r.levels[number].label}_with_{j}", f"c6_{number}_with_{j}"
            found[name] = _scalar(values[k, j], errors[k, j], "hartree bohr^6", text, alias)
    return found


def _sums(name: str, prefix: str, text: str) -> Callable[[ResponseResult], dict[str, Scalar]]:
    """Return a function that gives sums as scalars, without those that are missing."""

    def numbers(r: ResponseResult) -> dict[str, Scalar]:
        values, errors = r.limits[name]
        found: dict[str, Scalar] = {}
        for k, p in np.ndindex(values.shape):
            if np.isfinite(values[k, p]):
                label = f"S({POWERS[p]}) {text}, {r.levels[k].name}"
                value, error = float(values[k, p]), float(errors[k, p])
                full = SUMS[p].replace("m", "minus_")
                found[f"{prefix}_{full}_{r.levels[k].label}"] = _scalar(
                    value, error, "", label, f"{prefix}_{SUMS[p]}_{k}"
                )
        return found

    return numbers


def _lifetime_array(part: int) -> Callable[[ResponseResult], NDArray[np.float64] | None]:
    return lambda r: r.lifetimes()[part] if r.shows_lifetimes else None


def _rates(part: int) -> Callable[[ResponseResult], NDArray[np.float64]]:
    return lambda r: TIMES * np.asarray(r.limits["A"][part])


def _curves(name: str) -> Callable[[ResponseResult], dict[str, NDArray[np.float64]]]:
    return lambda r: {f"curves/{k}/{name}": getattr(one, name) for k, one in enumerate(r.curves)}


def _shows_transitions(r: ResponseResult) -> bool:
    return r.shows_transitions


def _has(name: str) -> Callable[[ResponseResult], bool]:
    return lambda r: name in r.limits


def _wants_sums(r: ResponseResult) -> bool:
    return "sum_rules" in r.options.observables and "closure" in r.limits


def _wanted_sums(name: str, part: int) -> Callable[[ResponseResult], NDArray[np.float64] | None]:
    return lambda r: np.asarray(r.limits[name][part]) if _wants_sums(r) else None


TRANSITION = ("level", "final", "gauge")
FIELD = ("state", "multipole", "omega", "field_gauge")

QUANTITIES: tuple[Quantity[ResponseResult], ...] = (
    Quantity("f_*", "", f"oscillator strengths for l_max to infinity; {ERROR}", _strengths, when=_shows_transitions,
             headline=("f_0_1", "f_0_2", "f_0_3", "f_1_2", "f_1_3", "f_2_3", "f_2_4")),
    Quantity("lifetime_*", NANOSECOND, f"lifetimes against electric dipole radiation; {ERROR}", _lifetimes,
             when=lambda r: r.shows_lifetimes, headline=("lifetime_0", "lifetime_1", "lifetime_2", "lifetime_3")),
    Quantity("alpha_dipole_tensor_*", "bohr^3", "tensor part of dipole polarisabilities",
             lambda r: {k: v for k, v in _polarisabilities("alpha_tensor", "polarisability, tensor part,")(r).items()
                        if k.startswith("alpha_dipole_tensor_")}, when=_has("alpha")),
    Quantity("alpha_quadrupole_tensor_*", "bohr^5", "tensor part of quadrupole polarisabilities",
             lambda r: {k: v for k, v in _polarisabilities("alpha_tensor", "polarisability, tensor part,")(r).items()
                        if k.startswith("alpha_quadrupole_tensor_")}, when=_has("alpha")),
    Quantity("alpha*", "", f"polarisabilities for l_max to infinity; {ERROR}",
             _polarisabilities("alpha", "polarisability"), when=_has("alpha"),
             headline=("alpha1_0", "alpha1_1", "alpha1_2", "alpha2_0")),
    Quantity("c6_*_with_*", "hartree bohr^6", "dispersion coefficients with atoms of other decks", _with_others,
             when=_has("c6_with"), headline=("c6_0_with_0", "c6_0_with_1")),
    Quantity("c6_*", "hartree bohr^6", "dispersion coefficients for l_max to infinity", _dispersion, when=_has("c6"),
             headline=("c6_0_0", "c6_0_1", "c6_1_1")),
    Quantity("sum_*", "", "sums of f dE^k over all levels by closure",
             _sums("closure", "sum", "by closure"), when=_wants_sums,
             headline=("sum_m1_0", "sum_0_0", "sum_1_0")),
    Quantity("spectral_*", "", "sums of f dE^k as the spectrum in the basis gives them",
             _sums("spectral", "spectral", "of the spectrum in the basis"), when=_wants_sums,
             note="high powers converge slowly with the basis"),
    Quantity("energy_*", HARTREE, "energies for l_max to infinity", _energies, headline=("energy_0", "energy_1")),
    *PARAMETERS,
    Quantity("state", "", "names of the states", lambda r: np.array([level.name for level in r.levels[: r.count]]),
             ("state",)),
    Quantity("level", "", "names of the levels: states of the deck, then those to which they decay",
             _of_levels(lambda level: level.name), ("level",)),
    Quantity("final", "", "names of the final levels", _of_levels(lambda level: level.name), ("final",)),
    Quantity("L", "", "total orbital momentum", _of_levels(lambda level: level.L), ("level",)),
    Quantity("S", "", "total spin", _of_levels(lambda level: level.S), ("level",)),
    Quantity("root", "", "number in the symmetry", _of_levels(lambda level: level.root), ("level",)),
    Quantity("gauge", "", "forms of the dipole operator", lambda r: np.array(r.gauges), ("gauge",)),
    Quantity("field_gauge", "", "forms of the dipole operator in polarisabilities", lambda r: np.array(r.field_gauges),
             ("field_gauge",)),
    Quantity("multipole", "", "orders of the multipoles", lambda r: np.array(r.options.multipoles), ("multipole",)),
    Quantity("omega", HARTREE, "frequencies of the field", lambda r: np.array(r.options.frequencies), ("omega",)),
    Quantity("level_energy", HARTREE, "energies for l_max to infinity", _limit("energy", 0), ("level",)),
    Quantity("level_energy_error", HARTREE, "their errors", _limit("energy", 1), ("level",)),
    Quantity("level_threshold", HARTREE, "ionisation thresholds", _limit("threshold", 0), ("level",)),
    Quantity("f", "", "oscillator strengths from level to final", _limit("f", 0), TRANSITION,
             note="negative for emission; NaN where selection rules forbid"),
    Quantity("f_error", "", "their errors", _limit("f", 1), TRANSITION),
    Quantity("A", RATE, "rates of spontaneous emission from level to final", _rates(0), TRANSITION),
    Quantity("A_error", RATE, "their errors", _rates(1), TRANSITION),
    Quantity("moment", "", "size of the reduced elements of r^k C^k, bohr^k", _limit("moment", 0),
             ("level", "final", "multipole"), note="Edmonds' convention: S = moment^2"),
    Quantity("moment_error", "", "their errors", _limit("moment", 1), ("level", "final", "multipole")),
    Quantity("lifetime", NANOSECOND, "lifetimes", _lifetime_array(0), ("state",),
             note="NaN for states without a lower level that electric dipole radiation leads to"),
    Quantity("lifetime_error", NANOSECOND, "their errors", _lifetime_array(1), ("state",)),
    Quantity("alpha", "", "polarisabilities averaged over directions, bohr^(2k + 1)", _limit("alpha", 0), FIELD),
    Quantity("alpha_error", "", "their errors", _limit("alpha", 1), FIELD),
    Quantity("alpha_tensor", "", "factor of (3 M^2 - L(L + 1))/(L(2L - 1)) in the polarisability of M",
             _limit("alpha_tensor", 0), FIELD),
    Quantity("alpha_tensor_error", "", "their errors", _limit("alpha_tensor", 1), FIELD),
    Quantity("c6", "hartree bohr^6", "dispersion coefficients", _limit("c6", 0), ("pair",)),
    Quantity("c6_error", "hartree bohr^6", "their errors", _limit("c6", 1), ("pair",)),
    Quantity("c6_with", "hartree bohr^6", "dispersion coefficients of the states with atoms of other decks", _limit("c6_with", 0),
             ("partner", "other")),
    Quantity("c6_with_error", "hartree bohr^6", "their errors", _limit("c6_with", 1), ("partner", "other")),
    Quantity("other", "", "names of the atoms of other decks",
             lambda r: np.array([one.name for one in r.problem.others]) if r.problem.others else None, ("other",)),
    Quantity("partner", "", "names of the states that attract others",
             lambda r: np.array([r.levels[k].name for k in r.problem.attracting]) if r.problem.attracting else None,
             ("partner",)),
    Quantity("partners", "", "numbers of the states of each pair",
             lambda r: np.array(r.problem.partners) if r.problem.partners else None, ("pair", "atom")),
    Quantity("alpha_imaginary", "bohr^3", "dipole polarisabilities of the partners at imaginary frequencies",
             _limit("alpha_imaginary", 0), ("partner", "omega_imaginary")),
    Quantity("alpha_imaginary_error", "bohr^3", "their errors", _limit("alpha_imaginary", 1), ("partner", "omega_imaginary")),
    Quantity("omega_imaginary", HARTREE, "imaginary frequencies, nodes of a Gauss-Legendre rule of (w - 1)/(w + 1)",
             lambda r: casimir_nodes(1.0, STORED)[0] if "c6" in r.limits else None, ("omega_imaginary",)),
    Quantity("sums/power", "", "powers k of S(k)", lambda r: np.array(POWERS) if _wants_sums(r) else None, ("power",)),
    Quantity("sums/closure", "", "S(k) by closure, atomic units", _wanted_sums("closure", 0), ("state", "power")),
    Quantity("sums/closure_error", "", "their errors", _wanted_sums("closure", 1), ("state", "power")),
    Quantity("sums/spectral", "", "S(k) of the spectrum in the basis, atomic units", _wanted_sums("spectral", 0),
             ("state", "power")),
    Quantity("waves/l_max", "", "largest orbital momentum in S states",
             lambda r: np.array(r.problem.extrapolate), ("l_max",)),
    Quantity("waves/energy", HARTREE, "energies up to l_max", _partial("energy"), ("l_max", "level")),
    Quantity("waves/f", "", "oscillator strengths up to l_max", _partial("f"), ("l_max", *TRANSITION)),
    Quantity("waves/alpha", "", "polarisabilities up to l_max", _partial("alpha"), ("l_max", *FIELD)),
    Quantity("waves/c6", "hartree bohr^6", "dispersion coefficients up to l_max", _partial("c6"),
             ("l_max", "pair")),
    Quantity("curves/*/frequency", HARTREE, "frequencies of a curve", _curves("frequency"), ("frequency",)),
    Quantity("curves/*/alpha", "bohr^3", "dipole polarisability at the largest l_max", _curves("alpha"), ("frequency",)),
    Quantity("curves/*/poles", HARTREE, "frequencies of the levels that the state reaches", _curves("poles"), ("pole",)),
    Quantity("curves/*/strengths", "", "their oscillator strengths", _curves("strengths"), ("pole",)),
)  # fmt: skip
