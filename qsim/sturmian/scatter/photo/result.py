"""Result of photoionisation over many photon energies and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.deck.symmetry import parity_of
from qsim.sturmian.scatter.cross_sections.kinematics import FINE_STRUCTURE, HARTREE_EV
from qsim.sturmian.scatter.photo.asymmetry import phased
from qsim.sturmian.scatter.photo.errors import FEW
from qsim.sturmian.scatter.photo.weights import MEGABARN, weight_of
from qsim.sturmian.scatter.solved import LETTERS, level_name
from qsim.sturmian.two_electron.known import letter

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.driven.setup import Setup
    from qsim.sturmian.scatter.photo.errors import Judgement
    from qsim.sturmian.scatter.photo.problem import Photoionisation
    from qsim.sturmian.scatter.photo.spectrum import Spectrum

__all__ = ["QUANTITIES", "PhotoResult"]

# Number of sigma_a among the parameters of a fit, and among the errors of a resonance.
HEIGHT = 3
SUMS = ("sum_minus_2", "sum_minus_1", "sum_0", "sum_1")
SUM_TEXTS = (
    "S(-2), the static dipole polarisability",
    "S(-1), sum of f over the energy of excitation",
    "S(0), sum of oscillator strengths: the number of electrons",
    "S(1), sum of f times the energy of excitation",
)
SUM_POWERS = (-2, -1, 0, 1)
SUM_UNITS = ("bohr^3", "bohr^2", "", "hartree")


@dataclass
class PhotoResult:
    """Cross sections over many photon energies.

    Attributes
    ----------
    problem : Photoionisation
    setup : Setup
    own : Spectrum
        Of the deck's grid.
    judgement : Judgement
        Its cross sections with their errors.
    resonance_errors : (p, 4) float64
        Of position, width and q, and relative of sigma_a.
    threshold : (float, float)
        Energy from which photon energies count, and its error, hartree.
    unresolved : list of float
        Total energies of poles that their errors do not tell from each other or from nothing, hartree.
    """

    problem: Photoionisation
    setup: Setup
    own: Spectrum
    judgement: Judgement
    resonance_errors: NDArray[np.float64]
    threshold: tuple[float, float]
    unresolved: list[float] = field(default_factory=list)
    task: ClassVar[str] = "photoionisation"

    @property
    def photons(self) -> NDArray[np.float64]:
        """Photon energies of the deck, hartree, ascending."""
        return self.problem.photons(self.threshold[0])

    @property
    def shown(self) -> list[int]:
        """Numbers of the levels (n, l) that the deck asks for."""
        return [i for i, (n, _) in enumerate(self.judgement.levels) if n <= self.problem.task.highest]

    @property
    def channels(self) -> list[int]:
        """Numbers of the channels that the deck asks for."""
        return [c for c, (n, *_) in enumerate(self.own.channels.tolist()) if n <= self.problem.task.highest]

    def thresholds(self) -> dict[int, float]:
        """Return the photon energy, hartree, at which every level n of the ion opens."""
        out: dict[int, float] = {}
        for (n, *_), level in zip(self.own.channels.tolist(), self.own.levels, strict=True):
            opens = float(level) - self.threshold[0]
            out[n] = min(out.get(n, opens), opens)
        return dict(sorted(out.items()))

    def resolved(self) -> NDArray[np.bool_]:
        """Return whether the box holds the Rydberg states at a photon energy (e,): up to n^2 = R Z / 2 below every threshold."""
        charge = self.setup.potential.charge - 1.0
        out = np.ones(self.own.omega.size, bool)
        if charge <= 0.0:
            return out
        # The last state that the box holds has charge^2 / (2 n^2) = charge / R.
        reach = charge / self.setup.numbers.R
        for opens in self.thresholds().values():
            out &= ~((self.own.omega < opens) & (self.own.omega > opens - reach))
        return out

    def strength(self, power: int) -> float:
        """Return bound levels and the range of the deck in S(power), first gauge, atomic units."""
        own = self.own
        gap = own.bound_levels - own.initial
        discrete = float((own.bound_strengths * gap**power).sum())
        density = own.total[0] / (2.0 * np.pi**2 * FINE_STRUCTURE * MEGABARN)
        return discrete + float(np.trapezoid(density * own.omega**power, own.omega))


def _by_energy(
    value: Callable[[PhotoResult], NDArray[np.float64]],
) -> Callable[[PhotoResult], NDArray[np.float64]]:
    """Return a function that gives an array (..., g, e) as (e, g, ...)."""
    return lambda result: np.ascontiguousarray(value(result).T)


def _measured(column: int) -> Callable[[PhotoResult], NDArray[np.float64] | None]:
    """Return a function that gives a column of the measurements of the deck; None without them."""

    def values(result: PhotoResult) -> NDArray[np.float64] | None:
        measured = result.problem.measured
        return None if measured is None or measured.shape[1] <= column else measured[:, column]

    return values


def _levels(
    value: Callable[[Judgement], NDArray[np.float64]],
) -> Callable[[PhotoResult], NDArray[np.float64]]:
    """Return a function that gives an array (l, g, e) of the levels that the deck asks for as (e, g, l)."""
    return lambda result: np.ascontiguousarray(
        np.moveaxis(value(result.judgement)[result.shown], 0, -1).swapaxes(0, 1)
    )


def _channels(
    value: Callable[[PhotoResult], NDArray[np.float64]],
) -> Callable[[PhotoResult], NDArray[np.float64]]:
    """Return a function that gives an array (c, g, e) of the channels that the deck asks for as (e, g, c)."""
    return lambda result: np.ascontiguousarray(
        np.moveaxis(value(result)[result.channels], 0, -1).swapaxes(0, 1)
    )


def _names(result: PhotoResult) -> NDArray[np.object_]:
    made = []
    for c in result.channels:
        n, l, leaves, L = result.own.channels[c].tolist()
        name = f"{level_name(n, l)} e{LETTERS[leaves]}"
        # From L = 0 there is one total momentum.
        made.append(name if result.problem.settings.initial.L == 0 else f"{name} {LETTERS[L].upper()}")
    return np.array(made, dtype=object)


def _phases(result: PhotoResult) -> NDArray[np.float64]:
    """Return the phase of ``(-i)^l exp(i sigma_l) A`` of all channels, (c, g, e), radian; NaN where they are closed."""
    own, charge = result.own, result.setup.potential.charge - 1.0
    out = np.full(own.amplitude.shape, np.nan)
    for c, (_, _, leaves, _) in enumerate(own.channels.tolist()):
        a = phased(own.k[c], own.amplitude[c], leaves, charge)
        out[c] = np.where(own.k[c] > 0.0, np.angle(a), np.nan)
    return out


def _of_numbers(
    value: Callable[[Judgement], NDArray[np.float64]],
) -> Callable[[PhotoResult], NDArray[np.float64]]:
    """Return a function that gives an array (n, g, e) of the principal quantum numbers that the deck asks for as (e, g, n)."""

    def values(result: PhotoResult) -> NDArray[np.float64]:
        shown = [result.judgement.numbers.index(n) for n in _principal(result).tolist()]
        return np.ascontiguousarray(np.moveaxis(value(result.judgement)[shown], 0, -1).swapaxes(0, 1))

    return values


def _principal(result: PhotoResult) -> NDArray[np.int64]:
    return np.array(sorted({result.judgement.levels[i][0] for i in result.shown}), np.int64)


# ---------------------------------------------------------------------------------------------- scalars


def _totals(result: PhotoResult) -> dict[str, Scalar]:
    """Return the total at the energies of a short list."""
    own, judgement, photons = result.own, result.judgement, result.photons
    out: dict[str, Scalar] = {}
    if photons.size > FEW:
        return out
    for i, omega in enumerate(photons):
        at = int(np.argmin(np.abs(own.omega - omega)))
        for k, gauge in enumerate(result.problem.gauges):
            text = f"photoabsorption at {omega * HARTREE_EV:.6g} eV, {gauge}"
            error = float(judgement.total_error[k, at])
            out[f"sigma_photo_{gauge}_{i}"] = Scalar(
                float(judgement.total[k, at]), "Mb", error if np.isfinite(error) else None, text
            )
    return out


def _gauges(result: PhotoResult) -> float | None:
    """Return the median relative difference of the gauges."""
    total = result.judgement.total
    if total.shape[0] < 2:
        return None
    return float(np.median(np.ptp(total, axis=0) / np.abs(total).mean(axis=0)))


def _resonances(
    name: str, unit: str, text: str, value: Callable[[PhotoResult, int], tuple[float, float]]
) -> Quantity[PhotoResult]:
    """Return a quantity with one scalar per resonance."""

    def scalars(result: PhotoResult) -> dict[str, Scalar]:
        out, term = {}, _term(result)
        for p in range(result.own.poles.size):
            number, error = value(result, p)
            # A profile that no fit found has no numbers.
            if not np.isfinite(number):
                continue
            where = f"{_photon_of(result, p) * HARTREE_EV:.4f} eV"
            known = error if np.isfinite(error) else None
            label, alias = (f"{term}_{p}", f"{name}_{p}") if term else (str(p), "")
            out[f"{name}_{label}"] = Scalar(number, unit, known, f"{text}, {where}", alias=alias)
        return out

    return Quantity(f"{name}_*", unit, text, scalars, headline=(f"{name}_0",))


def _term(result: PhotoResult) -> str:
    """Return the symmetry of all resonances as a part of names, ``1Po``; nothing where photons lead to several."""
    if len(result.problem.sectors) > 1:
        return ""
    (sector,) = result.problem.sectors
    return f"{2 * sector.S + 1}{letter(sector.L)}{parity_of(sector.L, sector.parity)[0]}"


def _photon_of(result: PhotoResult, p: int) -> float:
    return float(result.own.poles[p].real - result.threshold[0])


def _height_with_error(result: PhotoResult, p: int) -> tuple[float, float]:
    """Return sigma_a of a resonance and its error, Mb."""
    value = _height(result, p)
    return value, value * float(result.resonance_errors[p, HEIGHT])


def _height(result: PhotoResult, p: int) -> float:
    """Return sigma_a of a resonance from its pole, first gauge, Mb."""
    own, problem = result.own, result.problem
    omega, width = _photon_of(result, p), -2.0 * own.poles[p].imag
    power = {"length": 0, "velocity": 2, "acceleration": 4}[problem.gauges[0]]
    gap = own.poles[p].real - own.initial
    return float(weight_of(np.array([omega]))[0] / gap**power * 2.0 / width * own.strengths[p, 0].imag ** 2)


def _fit(parameter: int) -> Callable[[PhotoResult, int], tuple[float, float]]:
    def found(result: PhotoResult, p: int) -> tuple[float, float]:
        value, error = float(result.own.fits[p, 0, parameter]), float(result.own.fit_errors[p, 0, parameter])
        # The fit of one grid knows nothing of grid and partial waves, which move the pole as well.
        grid = float(result.resonance_errors[p, parameter])
        return value, error + (grid * abs(value) if parameter == HEIGHT else grid)

    return found


def _correlation(result: PhotoResult, p: int) -> tuple[float, float]:
    from qsim.sturmian.scatter.photo.fano import Fit

    fit = Fit(result.own.fits[p, 0], result.own.fit_errors[p, 0])
    value, error = fit.correlation
    # What the grid changes in sigma_a, it changes in the share of sigma_a, which no resonance has more than all of.
    error += abs(value) * abs(1.0 - value) * float(result.resonance_errors[p, HEIGHT])
    return min(value, 1.0), error + max(value - 1.0, 0.0)


def _unresolved(result: PhotoResult) -> dict[str, Scalar]:
    """Return one line for all poles that are not resolved; nothing for a short list of energies."""
    if result.photons.size <= FEW:
        return {}
    text = "poles whose errors exceed their width and distance or their height, not listed"
    if result.unresolved:
        places = ", ".join(f"{(E - result.threshold[0]) * HARTREE_EV:.2f}" for E in result.unresolved)
        text += f": {places} eV"
    text += (
        "; narrow resonances that change the cross section by less than solver.tolerance are not among them"
    )
    return {"resonances_unresolved": Scalar(len(result.unresolved), "", None, text)}


def _profiles(result: PhotoResult) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return E, Gamma, q, sigma_a and rho^2 of every resonance, and their errors, (5, p, route): of the pole, and of the fit.

    A pole knows nothing of the rest of the cross section, and has no rho^2.
    """
    columns = [_by_pole, lambda r, p: [*(_fit(k)(r, p) for k in range(HEIGHT + 1)), _correlation(r, p)]]
    count = result.own.poles.size
    made = np.array([[column(result, p) for p in range(count)] for column in columns])
    values, errors = np.moveaxis(made.reshape(len(columns), count, 5, 2), 3, 0)
    return np.transpose(values, (2, 1, 0)), np.transpose(errors, (2, 1, 0))


def _by_pole(result: PhotoResult, p: int) -> list[tuple[float, float]]:
    """Return parameters of a resonance with their errors from its pole."""
    pole, d, errors = result.own.poles[p], result.own.strengths[p, 0], result.resonance_errors[p]
    values = (pole.real, -2.0 * pole.imag, -d.real / d.imag)
    first = [(float(value), float(error)) for value, error in zip(values, errors, strict=False)]
    return [*first, _height_with_error(result, p), (np.nan, np.nan)]


def _profile(parameter: int, part: int) -> Callable[[PhotoResult], NDArray[np.float64]]:
    """Return a function that gives a parameter of all resonances, or its error, (p, route)."""
    return lambda result: np.ascontiguousarray(_profiles(result)[part][parameter])


def _sum_routes(result: PhotoResult) -> NDArray[np.float64]:
    """Return S(-2), ..., S(1) by closure and over the spectrum of the deck, (k, route)."""
    short = result.photons.size <= FEW
    spectrum = [np.nan if short else result.strength(power) for power in SUM_POWERS]
    return np.column_stack((result.own.closures, spectrum))


def _closures(result: PhotoResult) -> dict[str, Scalar]:
    # Partial waves do not converge from one side with pairs of one l_max alone: what one wave more changes is no error.
    return {
        name: Scalar(
            float(value),
            unit,
            description=f"{text}, by closure with the pairs of the deck (task: response gives limits with errors)",
        )
        for name, value, unit, text in zip(SUMS, result.own.closures, SUM_UNITS, SUM_TEXTS, strict=True)
        if np.isfinite(value)
    }


def _spectral(result: PhotoResult) -> dict[str, Scalar]:
    # A short list is no spectrum to integrate over.
    if result.photons.size <= FEW:
        return {}
    return {
        f"{name}_spectrum": Scalar(
            result.strength(power),
            unit,
            description=f"{text}: bound levels of the box and the energies of the deck",
        )
        for name, unit, text, power in zip(SUMS, SUM_UNITS, SUM_TEXTS, SUM_POWERS, strict=True)
    }


def _open_scalars(result: PhotoResult) -> dict[str, Scalar]:
    return {
        f"threshold_{n}": Scalar(
            opens * HARTREE_EV,
            "eV",
            result.threshold[1] * HARTREE_EV,
            f"photon energy at which the ion is left in n = {n}",
        )
        for n, opens in result.thresholds().items()
        if n <= result.problem.task.highest
    }


def _speed(result: PhotoResult) -> float:
    return result.own.flops * result.own.steps / max(result.own.seconds, 1e-9)


POINT, GAUGE = ("photon_energy",), ("photon_energy", "gauge")
# Parameters of a profile: name, unit, text.
PROFILE = (
    ("E", "hartree", "positions of the resonances, total energy"),
    ("Gamma", "hartree", "their widths"),
    ("q", "", "Fano's q"),
    ("sigma_a", "Mb", "Fano's sigma_a"),
    ("rho2", "", "correlation sigma_a/(sigma_a + sigma_b)"),
)


def _of_profiles() -> tuple[Quantity[PhotoResult], ...]:
    """Return the arrays of all resonances, parameters and errors, by pole and by fit."""
    made: list[Quantity[PhotoResult]] = []
    for k, (name, unit, text) in enumerate(PROFILE):
        made.append(
            Quantity(f"fano/{name}", unit, f"{text}, first gauge", _profile(k, 0), ("resonance", "route"))
        )
        made.append(
            Quantity(f"fano/{name}_error", unit, "their errors", _profile(k, 1), ("resonance", "route"))
        )
    return tuple(made)


_ALL: tuple[Quantity[PhotoResult], ...] = (
    Quantity("sigma_photo_*", "Mb", "photoabsorption, in a gauge, at the energies of a short list", _totals,
             headline=("sigma_photo_length_0",)),
    _resonances("resonance_energy", "hartree", "position of the resonance, total energy, from its pole",
                lambda r, p: (float(r.own.poles[p].real), float(r.resonance_errors[p, 0]))),
    _resonances("resonance_width", "hartree", "width of the resonance, from its pole",
                lambda r, p: (float(-2.0 * r.own.poles[p].imag), float(r.resonance_errors[p, 1]))),
    _resonances("resonance_q", "", "Fano's q of the resonance, from its pole",
                lambda r, p: (float(-r.own.strengths[p, 0].real / r.own.strengths[p, 0].imag), float(r.resonance_errors[p, 2]))),
    _resonances("resonance_sigma_a", "Mb", "Fano's sigma_a, from the pole", _height_with_error),
    _resonances("fano_energy", "hartree", "position of the resonance, total energy, from the fit", _fit(0)),
    _resonances("fano_width", "hartree", "width of the resonance, from the fit", _fit(1)),
    _resonances("fano_q", "", "Fano's q, from the fit", _fit(2)),
    _resonances("fano_sigma_a", "Mb", "Fano's sigma_a, from the fit", _fit(3)),
    _resonances("fano_rho2", "", "correlation sigma_a/(sigma_a + sigma_b), from the fit", _correlation),
    Quantity("resonances_*", "", "number of poles that errors do not tell from each other or from nothing", _unresolved),
    Quantity("threshold_*", "eV", "photon energy at which a level of the ion opens", _open_scalars, headline=("threshold_1",)),
    Quantity("gauge_difference", "", "median relative difference of the gauges, photoabsorption", _gauges, headline=True),
    Quantity("unitarity_defect", "", "median of what the channels lack of the total, relative to it",
             lambda r: float(np.median(np.abs(r.judgement.defect[0]))), headline=True),
    Quantity("sum_*_spectrum", "", "sums of oscillator strengths over bound levels and the energies of the deck", _spectral),
    Quantity("sum_*", "", "sums of oscillator strengths over all states, by closure", _closures),
    Quantity("initial_energy", "hartree", "energy of the initial state on this grid, up to its l_max", lambda r: r.own.initial,
             error=lambda r: abs(r.own.initial - r.threshold[0]) + r.threshold[1]),
    Quantity("threshold_energy", "hartree", "energy of the initial state from which photon energies count",
             lambda r: r.threshold[0], error=lambda r: r.threshold[1]),
    Quantity("model_nodes", "", "energies at which directions of the model were preconditioned", lambda r: r.own.nodes),
    Quantity("model_directions", "", "directions of the model of all energies", lambda r: r.own.directions),
    Quantity("residual", "", "largest relative residual at any energy and gauge", lambda r: r.own.residual),
    Quantity("unknowns", "", "coefficients of a solution", lambda r: r.own.unknowns, headline=True),
    Quantity("solver_iterations", "", "products with the operator for all energies and gauges", lambda r: r.own.steps,
             headline=True),
    Quantity("solver_flop_per_second", "1/s", "floating-point operations of all steps per second of the solver", _speed),
    Quantity("R", "bohr", "radius where the contour begins", lambda r: r.problem.numbers.R, exact=True),
    Quantity("contour_condition", "", "largest condition number of the one-electron eigenvectors", lambda r: r.own.condition),
    Quantity("photon_energy", "eV", "photon energy", lambda r: r.own.omega * HARTREE_EV, POINT,
             note="of the deck, and across resonances where it refines"),
    Quantity("total_energy", "hartree", "energy E of the two electrons", lambda r: r.own.E, POINT),
    Quantity("gauge", "", "gauge of the columns", lambda r: np.array(r.problem.gauges, dtype=object), ("gauge",)),
    Quantity("sigma_total", "Mb", "photoabsorption, by the optical theorem", _by_energy(lambda r: r.judgement.total), GAUGE),
    Quantity("sigma_total_error", "Mb", "its error at the same distance from the resonances",
             _by_energy(lambda r: r.judgement.total_error), GAUGE),
    Quantity("sigma_total_position_error", "Mb", "what the errors of the positions of resonances add at the photon energy",
             _by_energy(lambda r: r.judgement.total_position), GAUGE),
    Quantity("resolved", "", "1 where the box holds the Rydberg states, 0 where it averages over them below a threshold",
             lambda r: r.resolved().astype(np.int64), POINT),
    Quantity("unitarity_defects", "", "what the channels lack of the total, relative to it",
             _by_energy(lambda r: r.judgement.defect), GAUGE),
    Quantity("unitarity_errors", "", "the error of that", _by_energy(lambda r: r.judgement.defect_error), GAUGE),
    Quantity("level", "", "levels of the ion",
             lambda r: np.array([level_name(*r.judgement.levels[i]) for i in r.shown], dtype=object), ("level",)),
    Quantity("sigma_level", "Mb", "the ion is left in a level", _levels(lambda j: j.level), (*GAUGE, "level")),
    Quantity("sigma_level_error", "Mb", "its error at the same distance from the resonances", _levels(lambda j: j.level_error),
             (*GAUGE, "level")),
    Quantity("sigma_level_position_error", "Mb", "what the errors of the positions of resonances add at the photon energy",
             _levels(lambda j: j.level_position), (*GAUGE, "level")),
    Quantity("beta", "", "asymmetry parameter of the photoelectron", _levels(lambda j: j.beta), (*GAUGE, "level")),
    Quantity("beta_error", "", "its error", _levels(lambda j: j.beta_error), (*GAUGE, "level")),
    Quantity("n", "", "principal quantum numbers of the ion", _principal, ("n",)),
    Quantity("beta_n", "", "asymmetry parameter with the levels of one n unresolved", _of_numbers(lambda j: j.beta_n),
             (*GAUGE, "n")),
    Quantity("beta_n_error", "", "its error", _of_numbers(lambda j: j.beta_n_error), (*GAUGE, "n")),
    Quantity("channel", "", "level of the ion and momentum of the electron that leaves", _names, ("channel",)),
    Quantity("sigma_channel", "Mb", "cross section of a channel", _channels(lambda r: r.own.partial()), (*GAUGE, "channel")),
    Quantity("sigma_channel_error", "Mb", "its error at the same distance from the resonances",
             _channels(lambda r: r.judgement.channel_error), (*GAUGE, "channel")),
    Quantity("sigma_channel_position_error", "Mb", "what the errors of the positions of resonances add at the photon energy",
             _channels(lambda r: r.judgement.channel_position), (*GAUGE, "channel")),
    Quantity("amplitude", "bohr", "complex amplitude A of the outgoing Coulomb wave of a channel, length gauge at all gauges",
             lambda r: np.ascontiguousarray(np.moveaxis(r.own.amplitude[r.channels], 0, -1).swapaxes(0, 1)), (*GAUGE, "channel"),
             note="sigma = 4 pi alpha omega k |A|^2"),
    Quantity("phase", "rad", "phase of (-i)^l exp(i sigma_l) A", _channels(_phases), (*GAUGE, "channel"),
             note="differences of two channels of one level enter beta"),
    Quantity("threshold/n", "", "levels of the ion that the box holds", lambda r: np.array(list(r.thresholds())), ("threshold",)),
    Quantity("threshold/energy", "eV", "photon energies at which they open",
             lambda r: np.array(list(r.thresholds().values())) * HARTREE_EV, ("threshold",)),
    Quantity("resonance/photon_energy", "eV", "photon energies of the resonances",
             lambda r: (r.own.poles.real - r.threshold[0]) * HARTREE_EV, ("resonance",)),
    Quantity("resonance/fit", "", "fits of Fano's profile: position and width (hartree), q, sigma_a and sigma_b (Mb), slope",
             lambda r: np.swapaxes(r.own.fits, 0, 1), ("gauge", "resonance", "parameter")),
    Quantity("resonance/fit_error", "", "their errors", lambda r: np.swapaxes(r.own.fit_errors, 0, 1),
             ("gauge", "resonance", "parameter")),
    Quantity("fano/route", "", "ways to a resonance: its pole, and a fit to the cross section",
             lambda r: np.array(["pole", "fit"], dtype=object), ("route",)),
    *_of_profiles(),
    Quantity("thresholds", "eV", "photon energies at which levels of the ion open, as threshold/energy",
             lambda r: np.array(list(r.thresholds().values())) * HARTREE_EV, ("opening",)),
    Quantity("sums/k", "", "powers of the excitation energy in sums of oscillator strengths",
             lambda r: np.array(SUM_POWERS), ("k",)),
    Quantity("sums/S_k", "", "sums S(k), atomic units", _sum_routes, ("k", "sum"),
             note="by closure over all states, then over bound levels of the box and the energies of the deck"),
    Quantity("bound/energy", "hartree", "bound levels of the box that the photon reaches, total energy",
             lambda r: r.own.bound_levels, ("bound_level",)),
    Quantity("bound/strength", "", "their oscillator strengths, first gauge", lambda r: r.own.bound_strengths, ("bound_level",)),
    Quantity("measured/energy", "eV", "photon energies of the file to compare with", _measured(0),
             ("measurement",), when=lambda r: r.problem.measured is not None),
    Quantity("measured/sigma", "Mb", "its cross sections", _measured(1), ("measurement",),
             when=lambda r: r.problem.measured is not None),
    Quantity("measured/error", "Mb", "its errors", _measured(2), ("measurement",),
             when=lambda r: r.problem.measured is not None and r.problem.measured.shape[1] > 2),
    Quantity("r", "bohr", "radial nodes", lambda r: r.setup.grid.r, ("r",), note="complex on the contour beyond R0"),
)  # fmt: skip

# Quantities of each observable that a deck may name, by the beginnings of their names.
_OBSERVABLES = {
    "partial": ("sigma_level", "sigma_channel"),
    "beta": ("beta",),
    "phases": ("amplitude", "phase"),
    "fano": ("fano", "resonance_", "resonance/fit"),
    "sum_rules": ("sum_", "sums/"),
}


def _where_shown(quantity: Quantity[PhotoResult]) -> Quantity[PhotoResult]:
    """Return a quantity that is left out where the deck names observables without its own."""
    owner = next((name for name, begins in _OBSERVABLES.items() if quantity.name.startswith(begins)), None)
    if owner is None:
        return quantity
    return replace(quantity, when=lambda result: result.problem.shows(owner))


QUANTITIES = tuple(map(_where_shown, _ALL))
