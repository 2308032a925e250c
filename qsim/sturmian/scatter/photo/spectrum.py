"""Cross sections of one grid over many photon energies."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.sturmian.driven import operator as driven
from qsim.sturmian.driven import sources
from qsim.sturmian.driven.block import ChannelBlock
from qsim.sturmian.driven.reduced import Demand, Reduced
from qsim.sturmian.scatter.photo import fano
from qsim.sturmian.scatter.photo.outgoing_waves import Waves
from qsim.sturmian.scatter.photo.weights import weight_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.deck.collision_symmetry import Sector
    from qsim.sturmian.driven.setup import Bound, Setup
    from qsim.sturmian.scatter.photo.problem import Photoionisation

__all__ = ["Case", "Spectrum", "spectrum"]

# Most directions of a model, and how many are made together.
MOST, TOGETHER = 400, 6
# Residual of the model of the coarser grid over that of the deck's.
ROUGH = 3.0
# Level of the ion from which the residual may be larger.
CROWDED = 3
# Share of a larger residual by which an amplitude may be off without any earlier model telling it.
UNSEEN = 0.3
# Largest principal quantum number of the channels.
HIGHEST = 6
# Energies across a resonance, within this number of half widths on either side.
ACROSS, HALF_WIDTHS = 33, 14.0
# Most resonances that are refined, the strongest ones.
REFINED = 10
# 1/bohr: wave number of the slowest electron whose normalisation matters at the wall of the initial state.
SLOWEST = 0.1
# Hartree: imaginary part of a bound level.
REAL = 1e-7

# How the numbers of several symmetries make one spectrum.
LISTED_BY_CHANNEL = ("channels", "k", "amplitude", "spread", "levels")
LISTED_BY_ENERGY = ("omega", "E", "total", "left", "k", "amplitude", "spread")
LISTED_BY_POLE = ("poles", "strengths", "changes", "fits", "fit_errors")
LISTED_BY_LEVEL = ("bound_levels", "bound_strengths")
ADDED = ("total", "left", "closures", "nodes", "directions", "steps")
LARGEST = ("residual", "unknowns", "flops")


class Case(NamedTuple):
    """A grid and its pairs of every symmetry: of the deck, the coarser one, or that with other partial waves."""

    setup: Setup
    bound: Bound
    pairs: list[list[tuple[int, int]]]
    coarser: bool


@dataclass
class Spectrum:
    """Cross sections of one grid in all gauges; arrays are over gauges (g), energies (e), channels (c) and resonances (p).

    Attributes
    ----------
    omega, E : (e,) float64
        Photon energy, and energy of both electrons, hartree.
    total, left : (g, e) float64
        Photoabsorption by the optical theorem, Mb, and how far the residual of the model puts it off.
    channels : (c, 4) int64
        n and l of the ion, the momentum of the electron outside, and the total one.
    k : (c, e) float64
        Wave numbers, 1/bohr, 0 where a channel is closed.
    amplitude : (c, g, e) complex128
        Of the outgoing waves, in the unit of the length gauge.
    spread : (c, g, e) float64
        How much the amplitudes depend on the radius and on the residual of the model.
    levels : (c,) float64
        Energies of the ion, hartree.
    poles, strengths, changes : (p,) complex128, (p, g) complex128, (p,) float64
        See `fano.Pole`.
    fits, fit_errors : (p, g, 6) float64
        See `fano.Fit`; NaN where none converged.
    bound_levels, bound_strengths : (b,) float64
        Energies of bound levels, hartree, and oscillator strengths in the first gauge.
    closures : (4,) float64
        S(-2), S(-1), S(0), S(1) of the initial state; NaN where the deck lacks their gauge.
    node_energies : (m,) float64
        Energies at which the directions of the model were preconditioned, hartree.
    """

    omega: NDArray[np.float64]
    E: NDArray[np.float64]
    total: NDArray[np.float64]
    left: NDArray[np.float64]
    channels: NDArray[np.int64]
    k: NDArray[np.float64]
    amplitude: NDArray[np.complex128]
    spread: NDArray[np.float64]
    levels: NDArray[np.float64]
    poles: NDArray[np.complex128]
    strengths: NDArray[np.complex128]
    changes: NDArray[np.float64]
    fits: NDArray[np.float64]
    fit_errors: NDArray[np.float64]
    bound_levels: NDArray[np.float64]
    bound_strengths: NDArray[np.float64]
    closures: NDArray[np.float64]
    node_energies: NDArray[np.float64]
    initial: float = 0.0
    residual: float = 0.0
    nodes: int = 0
    directions: int = 0
    steps: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    unknowns: int = 0
    condition: float = 1.0

    def with_resonances(self, kept: list[int]) -> Spectrum:
        """Return the spectrum with some of its resonances alone."""
        return replace(
            self,
            poles=self.poles[kept],
            strengths=self.strengths[kept],
            changes=self.changes[kept],
            fits=self.fits[kept],
            fit_errors=self.fit_errors[kept],
        )

    def halves(self) -> tuple[Spectrum, Spectrum]:
        """Return the spectrum at the energies of another one, and at the same distances from its resonances."""
        n = self.omega.size // 2
        first, second = (
            replace(self, **{name: getattr(self, name)[..., part] for name in LISTED_BY_ENERGY})
            for part in (slice(None, n), slice(n, None))
        )
        return first, second

    def partial(self) -> NDArray[np.float64]:
        """Return the cross section of every channel (c, g, e), Mb."""
        return np.asarray(weight_of(self.omega) * self.k[:, None] * np.abs(self.amplitude) ** 2)

    def partial_spread(self) -> NDArray[np.float64]:
        """Return how much these depend on radius and model, Mb."""
        return np.asarray(
            2.0 * weight_of(self.omega) * self.k[:, None] * np.abs(self.amplitude) * self.spread
        )


def spectrum(
    problem: Photoionisation,
    case: Case,
    photons: NDArray[np.float64],
    threshold: float,
    poll: Callable[[], None],
    refine: bool = False,
    beside: Sequence[tuple[fano.Pole, fano.Pole]] = (),
    reach: float = 1e-3,
) -> Spectrum:
    """Return the cross sections of a grid.

    Parameters
    ----------
    problem : Photoionisation
    case : Case
    photons : (e,) float64
        Photon energies, hartree, ascending.
    threshold : float
        Energy from which they count, hartree.
    poll
        Called after every step.
    refine : bool
        Add energies across every resonance.
    beside : sequence of (Pole, Pole)
        Resonances of another spectrum, and how they are known here: all energies follow once more, at the same distance from the
        resonances as there.
    reach : float
        Distance, hartree, within which these are found.
    """
    E = threshold + photons
    began = time.perf_counter()
    angle = case.setup.numbers.angle
    models = [
        _model(problem, case, sector, pairs)
        for sector, pairs in zip(problem.sectors, case.pairs, strict=True)
    ]
    waves = [Waves(model, case.setup, HIGHEST) for model in models]
    for model in models:
        model.grow(E, _demand(problem, case, model, poll))
    if refine:
        span = (E[0], E[-1])
        found = [_resonances(*both, span, angle) for both in zip(models, waves, strict=True)]
        E = _refined(E, [pole for some in found for pole in some])
        for model in models:
            model.grow(E, _demand(problem, case, model, poll))
    made = []
    for model, own in zip(models, waves, strict=True):
        every = E
        if beside:
            poles = _resonances(model, own, (E[0] - reach, E[-1] + reach), angle)
            met = [(first, fano.matched(then, poles, reach)) for first, then in beside]
            moved = E + fano.shifts(E, [(first, there) for first, there in met if there is not None])
            model.grow(np.sort(moved), _demand(problem, case, model, poll))
            every = np.concatenate([E, moved])
        made.append(_of_symmetry(problem, case, model, own, E, every, threshold))
    whole = made[0] if len(made) == 1 else _joined(made)
    whole.seconds = time.perf_counter() - began
    return whole


def _of_symmetry(
    problem: Photoionisation,
    case: Case,
    model: Reduced,
    waves: Waves,
    E: NDArray[np.float64],
    every: NDArray[np.float64],
    threshold: float,
) -> Spectrum:
    """Return the spectrum of one symmetry of the final states at energies E of the deck, and at others of the same photons."""
    # Projected channels belong to the directions of a model that no longer grows.
    made = _taken(problem, case, model, waves, every, np.tile(E - threshold, every.size // E.size))
    found = _resonances(model, waves, (E[0], E[-1]), case.setup.numbers.angle)
    _add_resonances(made, model, found, threshold, problem, case)
    if not case.coarser:
        _add_sums(made, problem, model, waves, case.bound)
    _add_numbers(made, model, case)
    return made


def _joined(parts: list[Spectrum]) -> Spectrum:
    """Return the spectrum of several symmetries, whose cross sections add up."""
    by_pole = np.argsort(np.concatenate([part.poles for part in parts]).real, kind="stable")
    by_level = np.argsort(np.concatenate([part.bound_levels for part in parts]), kind="stable")

    changes: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*LISTED_BY_CHANNEL, *LISTED_BY_POLE, *LISTED_BY_LEVEL, "node_energies")
    }
    changes |= {name: changes[name][by_pole] for name in LISTED_BY_POLE}
    changes |= {name: changes[name][by_level] for name in LISTED_BY_LEVEL}
    changes |= {name: sum(getattr(part, name) for part in parts) for name in ADDED}
    changes |= {name: max(getattr(part, name) for part in parts) for name in LARGEST}
    return replace(parts[0], **changes)


def _model(problem: Photoionisation, case: Case, sector: Sector, pairs: list[tuple[int, int]]) -> Reduced:
    """Return the model of one symmetry with the sources of all gauges, averaged over M of the initial state."""
    setup, bound = case.setup, case.bound
    # In the whole grid no function depends on the energy, here 1 hartree.
    operator = setup.operator(sector.L, sector.S, pairs, 1.0)
    # |<L||D||L_i>|^2 / (3 (2 L_i + 1)) is the mean of all M for light along z; from L_i = 0 it is the element of M = 0.
    mean = 1.0 / math.sqrt(3.0 * (2 * bound.L + 1))
    made = [
        mean * sources.multipole(setup.grid, pairs, sector.L, bound.components, bound.L, 1, gauge, setup.Z)
        for gauge in problem.gauges
    ]
    order = [sources.GAUGES.index(gauge) for gauge in problem.gauges]
    chained = [k > 0 and order[k] == order[k - 1] + 1 for k in range(len(order))]
    ion = float(setup.continuum.levels(0, 1)[0][0])
    lowest = min(float(orbital.e[0].real) for orbital in operator.orbitals.values())
    on_device = operator.device.asarray(np.stack(made))
    return Reduced(operator, on_device, chained, ion, min(ion, lowest), ChannelBlock(operator))


def _demand(problem: Photoionisation, case: Case, model: Reduced, poll: Callable[[], None]) -> Demand:
    solver = problem.settings.solver
    tolerance = solver.tolerance * (ROUGH if case.coarser else 1.0)
    most = min(MOST, solver.max_iterations)
    return Demand(tolerance, most, TOGETHER, poll, problem.rounding(model.operator), _crowded(case))


def _crowded(case: Case) -> float:
    """Return the energy, hartree, from which so many levels of the ion are open that the residual may be larger."""
    levels = case.setup.continuum.levels(0, CROWDED)[0]
    return float(levels[-1]) if levels.size == CROWDED else np.inf


def _unseen(case: Case, model: Reduced, E: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least error (g, e) of an amplitude over all of them together.

    A narrow resonance that a larger residual hides changes no earlier model: what is left is shared by all channels.
    """
    return np.where(_crowded(case) < E, UNSEEN * model.residuals(E), 0.0)


def _powers(problem: Photoionisation, omega: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what brings the solutions of photon energy one to the length gauge, (g, e)."""
    order = np.array([sources.GAUGES.index(gauge) for gauge in problem.gauges])
    return np.asarray(omega[None, :] ** -order[:, None].astype(float))


def _cut(problem: Photoionisation, case: Case, E: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``k |A|^2`` (g, e) of the wave that the wall of the initial state radiates, for photons of energy one.

    What is cut off there, ``f = R u(R)``, ``u'(R)`` or ``Z u(R)/R^2`` by gauge, falls off as ``exp(-kappa (r - R))`` and would
    have met waves of k far outside: ``|A|^2 = 2 f^2 / (k^2 (kappa^2 + k^2))``.
    """
    bound = case.bound
    ion = float(case.setup.continuum.levels(0, 1)[0][0])
    factors = {
        "length": bound.wall,
        "velocity": bound.kappa,
        "acceleration": case.setup.Z / bound.wall**2,
    }
    f = np.array([factors[gauge] for gauge in problem.gauges])
    k2 = np.maximum(2.0 * (E - ion), SLOWEST**2)
    return np.asarray(2.0 * f[:, None] ** 2 * bound.density / (np.sqrt(k2) * (bound.kappa**2 + k2)))


def _sigma(
    problem: Photoionisation,
    case: Case,
    model: Reduced,
    E: NDArray[np.float64],
    omega: NDArray[np.float64],
    size: int | None = None,
) -> NDArray[np.float64]:
    """Return the photoabsorption (g, e) by the optical theorem, Mb, from the first `size` directions of the model."""
    # Commutators hold for the energies of the grid, the factor of the cross section for those of the deck.
    scale = _powers(problem, E - case.bound.energy) ** 2
    return np.asarray(weight_of(omega) * scale * -model.products(E, size).imag)


def _taken(
    problem: Photoionisation,
    case: Case,
    model: Reduced,
    waves: Waves,
    E: NDArray[np.float64],
    omega: NDArray[np.float64],
) -> Spectrum:
    """Return totals and channels at some energies."""
    total = _sigma(problem, case, model, E, omega)
    count, size = model.count, model.earlier
    left = model.changes(total, _sigma(problem, case, model, E, omega, size), E)
    powers = _powers(problem, E - case.bound.energy)
    now, before = waves.at(E), waves.at(E, size)
    channels = sorted(now)
    empty_c, empty_r = np.zeros((0, count, E.size), complex), np.zeros((0, count, E.size))
    amplitude = np.array([now[channel].amplitude * powers for channel in channels]) if channels else empty_c
    earlier = np.array([before[channel].amplitude * powers for channel in channels]) if channels else empty_c
    spread = np.array([now[channel].spread * powers for channel in channels]) if channels else empty_r
    k = np.array([now[channel].k for channel in channels]).reshape(-1, E.size)
    unseen = _unseen(case, model, E) * np.sqrt((np.abs(amplitude) ** 2).sum(axis=0))
    spread = spread + np.maximum(model.changes(amplitude, earlier, E), unseen)
    # A wave that the wall of the initial state radiates interferes with every channel and with their sum.
    cut = _cut(problem, case, E) * np.abs(powers) ** 2
    spread = spread + np.divide(cut, k[:, None], out=np.zeros(spread.shape), where=k[:, None] > 0.0) ** 0.5
    left = left + (2.0 * np.sqrt(np.abs(total) * weight_of(omega) * cut) + weight_of(omega) * cut)
    none = np.zeros(0)
    return Spectrum(
        omega=omega,
        E=E,
        total=total,
        left=left,
        channels=np.array(channels, np.int64).reshape(-1, 4),
        k=k,
        amplitude=amplitude,
        spread=spread,
        levels=np.array([waves.thresholds[channel.n, channel.l] for channel in channels]),
        poles=none.astype(complex),
        strengths=np.zeros((0, count), complex),
        changes=none,
        fits=np.zeros((0, count, 6)),
        fit_errors=np.zeros((0, count, 6)),
        bound_levels=none,
        bound_strengths=none,
        closures=np.full(4, np.nan),
        node_energies=np.array(sorted(model.energies)),
    )


# ------------------------------------------------------------------------------------------- resonances


def _resonances(model: Reduced, waves: Waves, span: tuple[float, float], angle: float) -> list[fano.Pole]:
    """Return the resonances of a model between two energies."""
    before, _ = model.poles(model.recent)
    return fano.resonances(model.poles(), before, span, list(waves.thresholds.values()), angle)


def _refined(E: NDArray[np.float64], found: list[fano.Pole]) -> NDArray[np.float64]:
    """Return energies with more of them across the strongest resonances, dense where the profile turns.

    Further out they become as sparse as those of the deck, each twice as far as the one before: a line from the last energy of a
    narrow profile to the next one of the deck would cut through the cross section.
    """
    strongest = sorted(found, key=lambda pole: -abs(pole.d[0]))[:REFINED]
    across = HALF_WIDTHS * np.sinh(np.linspace(-3.0, 3.0, ACROSS)) / math.sinh(3.0)
    apart = float(np.diff(E).max(initial=0.0))
    every = [E]
    for pole in strongest:
        doublings = math.ceil(math.log2(max(apart / (0.5 * HALF_WIDTHS * pole.width), 1.0)))
        out = HALF_WIDTHS * 2.0 ** np.arange(1, doublings + 1)
        every.append(pole.energy.real + 0.5 * pole.width * np.concatenate([across, out, -out]))
    energies = np.unique(np.concatenate(every))
    return energies[(energies >= E[0]) & (energies <= E[-1])]


def _add_resonances(
    made: Spectrum,
    model: Reduced,
    found: list[fano.Pole],
    threshold: float,
    problem: Photoionisation,
    case: Case,
) -> None:
    """Add poles and fits to a spectrum."""
    if not found:
        return
    made.poles = np.array([pole.energy for pole in found])
    made.changes = np.array([pole.change for pole in found])
    made.strengths = np.array([pole.d for pole in found])
    shape = (len(found), model.count, 6)
    made.fits, made.fit_errors = np.full(shape, np.nan), np.full(shape, np.nan)
    # A grid that judges another one does so by its poles.
    if case.coarser:
        return
    # The narrow ones among the strongest: a wide one has no profile of its own.
    strongest = set(np.argsort([-abs(pole.d[0]) for pole in found])[:REFINED].tolist())
    for p, pole in enumerate(found):
        if p not in strongest:
            continue
        for k in range(model.count):

            def sigma(E: NDArray[np.float64], k: int = k) -> NDArray[np.float64]:
                return np.asarray(_sigma(problem, case, model, E, E - threshold)[k])

            at = np.array([pole.energy.real])
            power = float(_powers(problem, at - case.bound.energy)[k, 0] ** 2)
            height = pole.height(k, float(weight_of(at - threshold)[0]) * power)
            fitted = fano.fit(sigma, pole, (pole.q(k), height))
            if fitted is not None:
                made.fits[p, k], made.fit_errors[p, k] = fitted.values, fitted.errors


# ------------------------------------------------------------------------------------------- sums


def _add_sums(made: Spectrum, problem: Photoionisation, model: Reduced, waves: Waves, bound: Bound) -> None:
    """Add bound levels with their oscillator strengths, and the sums that the initial state alone gives."""
    energies, d = model.poles()
    lowest = min(waves.thresholds.values(), default=0.0)
    real = (np.abs(energies.imag) < REAL) & (energies.real < lowest)
    order = np.argsort(energies.real[real])
    made.bound_levels = energies.real[real][order]
    gap = made.bound_levels - bound.energy
    scale = _powers(problem, gap)[0] ** 2 if gap.size else gap
    made.bound_strengths = 2.0 * gap * scale * np.real(d[0, real][order] ** 2)
    host = model.operator.device.to_host(model.s).reshape(model.count, -1)
    by_name = dict(zip(problem.gauges, host, strict=True))
    z, p = by_name.get("length"), by_name.get("velocity")
    # S(-1) = 2 <z z>, S(0) = -2 <z d/dz>, S(1) = 2 <d/dz d/dz>: sums over all states by closure.
    if z is not None:
        made.closures[0] = _polarisability(problem, model, bound)
        made.closures[1] = 2.0 * float((z @ z).real)
    if z is not None and p is not None:
        made.closures[2] = -2.0 * float((z @ p).real)
    if p is not None:
        made.closures[3] = 2.0 * float((p.conj() @ p).real)


def _polarisability(problem: Photoionisation, model: Reduced, bound: Bound) -> float:
    """Return the static dipole polarisability S(-2), bohr^3: ``-2 s^T u`` at the energy of the initial state."""
    k = problem.gauges.index("length")
    s = model.s[k][None]
    solver = problem.settings.solver
    solved = driven.solve(
        model.operator,
        s,
        np.array([bound.energy]),
        tolerance=solver.tolerance,
        max_iterations=solver.max_iterations,
    )
    return -2.0 * float(complex((solved.u.ravel() @ s.ravel()).item()).real)


def _add_numbers(made: Spectrum, model: Reduced, case: Case) -> None:
    """Add the numbers of the solver."""
    made.initial = case.bound.energy
    made.residual = model.left
    made.directions = made.steps = model.size
    made.nodes = len(set(model.energies))
    # per direction
    made.flops = model.operations / model.size
    made.unknowns = model.operator.unknowns
    made.condition = case.setup.condition
