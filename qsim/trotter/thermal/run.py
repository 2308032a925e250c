"""Temperature: traces over all sectors from the recurrences of random vectors (finite-temperature Lanczos).

A random unit vector r of a sector with D states has ``D <r| f(H) |r> = Tr f(H)`` in the mean; M steps of Lanczos from r give
``<r| f(H) |r> = sum_k y_k^2 f(theta_k)``, exactly for polynomials of degree 2 M - 1.  Sectors with few states are diagonalised
instead, without error.

**Statistical errors.**  The weight of a level in the mean over n vectors is distributed like ``g chi^2 / n`` with n degrees of
freedom for each of its g states, and the weights of a sector have the sum D.  A level that all vectors have found at one energy
has n degrees of freedom at least; other Ritz values stand for many states.  `DRAWS` sets of weights that may be the true ones
(inverse ``chi^2`` for levels, ``chi^2`` for the others) give as many values of every average: two error bars hold 95.4 % of them,
and three 99.7 %, whatever the ratio of two uncertain weights does.  Errors of correlators come from a jackknife: the k-th vectors
of all sectors are one sample.

**Errors of the recurrence.**  The averages are found with three and four fifths of the steps as well.  x(T) is the largest change
of ln Z and of <H> / T, or of ln Z if one sector is off by twice its own change.  Levels that are off by x T change the root of
the variance of H by as much, and the weights of sectors by exp(2 x): these bounds, or the changes seen if they are larger, are
added in quadrature to the statistical errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.core.run.stops.aside import aside
from qsim.core.statistics import student
from qsim.trotter.deck.tasks import MOST_THERMAL_STEPS
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.lanczos import chain, random_start, ritz
from qsim.trotter.sectors.linear import matrix_of
from qsim.trotter.thermal.correlators import Correlators
from qsim.trotter.thermal.response import Response, band_of, response_of, response_of_samples
from qsim.trotter.thermal.result import ThermalResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.sectors.linear import SpaceOperator
    from qsim.trotter.thermal.problem import ThermalProblem

__all__ = ["run"]

# of the steps: shorter recurrences that the averages are compared with
FEWER = (0.8, 0.6)
FIRST, CHECK = 20, 10  # steps before the first and between two looks at the convergence
# change of ln Z and <H> / T of a vector with the shorter recurrences, at which no more steps are made
SETTLED = 1e-4
# of the size of the spectrum over T: changes that are rounding
FLOOR = 32.0 * 2.2e-16
# temperatures that are looked at for it
THINNED = 16
# change of ln Z or <H> / T that is warned of
CHANGED = 0.02
# of a jackknife: Student's factor of two would be 78
LEAST_SAMPLES = 3
# sets of weights that may be the true ones
DRAWS = 1000
# of the size of the spectrum: Ritz values of several vectors closer than that are one level
ONE_LEVEL = 1e-6
# levels that are drawn at once
TOGETHER = 1024
TINY = 1e-300


class Computation:
    """Energies and weights of all sectors; complete sectors are kept in a checkpoint.

    Attributes
    ----------
    energies, weights : list of (lengths, vectors, m) float64
        Of each sector: of the whole recurrences and of shorter ones; of length 1 and one row where it was diagonalised.
    sums : list of (vectors, T, count) float64
        Sums of correlators of each sector, energies from the lowest of their row; empty without correlators.
    changes : list of (vectors, T) float64
        Bounds of how far the sums are off by the end of the recurrence, of operators of norm 1.
    steps : int
        Largest number of steps of a vector.
    responses : list of (vectors, axes, 4, T) float64
        Sums for the response to a field, of each sector; see `Response.sampled`.
    """

    def __init__(self, problem: ThermalProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        self.energies: list[NDArray[np.float64]] = []
        self.weights: list[NDArray[np.float64]] = []
        self.sums: list[NDArray[np.float64]] = []
        self.changes: list[NDArray[np.float64]] = []
        self.responses: list[NDArray[np.float64]] = []
        # middle and half width of the spectra, of which the response takes polynomials
        self.band: tuple[float, float] | None = None
        self.steps = 0
        self.correlators = Correlators(problem)
        self.temperatures = np.array(problem.block.grid())
        if restored is not None:
            self.sums = [np.array(part) for part in restored["sums"]]
            self.changes = [np.array(part) for part in restored["changes"]]
            self.steps = int(restored["steps"])
            self.responses = [np.array(part) for part in restored["responses"]]
            self.energies = [np.array(part) for part in restored["energies"]]
            self.weights = [np.array(part) for part in restored["weights"]]

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "energies": list(self.energies),
            "weights": list(self.weights),
            "sums": list(self.sums),
            "changes": list(self.changes),
            "responses": list(self.responses),
            "steps": self.steps,
        }

    def advance(self, report: Report) -> None:
        """Do the sectors that are left."""
        # a sector is the unit of a checkpoint: those that are complete are not made again
        sectors = self.problem.sectors
        for number in range(len(self.energies), len(sectors)):
            # small sectors exactly, with all their levels; in
            # large ones traces are means over random vectors
            if sectors[number].dimension <= self.problem.block.exact:
                self._exact(sectors[number], lambda: report(Progress()))
            else:
                self._sampled(number, report)
            if self.problem.sampled_axes:
                self.responses.append(self._responses(number, report))
            report(Progress(number + 1))

    def _exact(self, sector: Space, look: Callable[[], None]) -> None:
        """Diagonalise a sector."""
        operator = self.problem.operator(sector, self.problem.model)
        matrix = self.problem.place.to_host(matrix_of(operator, look))
        sums = np.zeros((1, self.temperatures.size, self.correlators.count))
        if self.correlators.count:
            values, vectors = aside(partial(np.linalg.eigh, matrix), look)
            sums[0] = self.correlators.exact(sector, values, vectors, self.temperatures)
        else:
            values = aside(partial(np.linalg.eigvalsh, matrix), look)
        # one length and one row, as of a recurrence with weight 1 for each level
        self.energies.append(values[None, None])
        self.weights.append(np.ones((1, 1, values.size)))
        self.sums.append(sums)
        self.changes.append(np.zeros((1, self.temperatures.size)))

    def _sampled(self, number: int, report: Report) -> None:
        """Make the recurrences of all random vectors of a sector."""
        problem, block = self.problem, self.problem.block
        sector = problem.sectors[number]
        operator = problem.operator(sector, problem.model)
        recurrences = []
        sums = np.zeros((block.vectors, self.temperatures.size, self.correlators.count))
        changes = np.zeros((block.vectors, self.temperatures.size))
        for k in range(block.vectors):
            start = self._start(number, k, operator)
            kept = start.copy() if self.correlators.count else start
            made = chain(problem.place, operator, start)
            # counts: the whole recurrence, and the shorter ones that show how far it is converged
            counts = self._recurrence(made, report)
            self.steps = max(self.steps, counts[0])
            recurrences.append([ritz(made.alpha[:count], made.beta[:count]) for count in counts])
            if self.correlators.count:
                changes[k] = self.correlators.change(made, self.temperatures, counts[1:])
                sums[k] = self.correlators.sampled(
                    operator,
                    kept,
                    made,
                    self.temperatures,
                    scale_of(problem.model),
                    lambda: report(Progress()),
                )
        # recurrences end after different numbers of steps: missing energies are infinite, with weight 0
        shape = (1 + len(FEWER), block.vectors, max(row[0][0].size for row in recurrences))
        energies, weights = np.full(shape, np.inf), np.zeros(shape)
        for k, row in enumerate(recurrences):
            for length, (values, vectors) in enumerate(row):
                energies[length, k, : values.size] = values
                # <r|phi_j>^2 is the squared first component; times
                # D, as the mean over random vectors is Tr / D
                weights[length, k, : values.size] = sector.dimension * vectors[0] ** 2
        self.energies.append(energies)
        self.weights.append(weights)
        self.sums.append(sums)
        self.changes.append(changes)

    def _start(self, number: int, k: int, operator: SpaceOperator) -> NDArray[Any]:
        """Return a random vector of a sector."""
        problem = self.problem
        # seeds of run, sector and vector in separate bits: no vector is used twice
        seed = (problem.models.seed << 20) + (number << 10) + k
        return random_start(problem.place, problem.sectors[number].dimension, seed, operator.dtype)

    def _responses(self, number: int, report: Report) -> NDArray[np.float64]:
        """Return the response to fields in the random vectors of a sector (vectors, axes, 4, T).

        Sectors that are diagonalised have them, too, where others are not: the errors come from all of them together.
        """
        problem, sector = self.problem, self.problem.sectors[number]
        operator = problem.operator(sector, problem.model)
        if self.band is None:
            self.band = band_of(problem, float(self.temperatures.min()), lambda: report(Progress()))
        fields = [Response(problem, sector, axis) for axis in problem.sampled_axes]
        return np.array(
            [
                [
                    one.sampled(
                        operator,
                        self._start(number, k, operator),
                        self.band,
                        self.temperatures,
                        lambda: report(Progress()),
                    )
                    for one in fields
                ]
                for k in range(problem.block.vectors)
            ]
        )

    def _recurrence(self, made: chain, report: Report) -> tuple[int, ...]:
        """Make the steps of one vector; return how many, and how many the shorter recurrences have."""
        steps, scale = self.problem.block.steps, scale_of(self.problem.model)
        most = MOST_THERMAL_STEPS if steps == "auto" else steps
        for step in range(1, most + 1):
            report(Progress())
            # the space is invariant: nothing is cut off
            if not made.step(scale):
                return (step,) * (1 + len(FEWER))
            if steps == "auto" and step >= FIRST and step % CHECK == 0 and self._settled(made, scale):
                break
        return shorter(len(made.alpha))

    def _settled(self, made: chain, scale: float) -> bool:
        """Return True if the averages of one vector would be the same after fewer steps, at all temperatures."""
        # few temperatures, spread like the grid of the deck: the lowest are the last to settle
        T = np.unique(np.quantile(self.temperatures, np.linspace(0.0, 1.0, THINNED)))
        tallies = []
        for count in shorter(len(made.alpha)):
            values, vectors = ritz(made.alpha[:count], made.beta[:count])
            # energies and weights as if the vector were a sector of its own
            owners = np.zeros(values.size, np.int64)
            tallies.append(Tally.of([Part(0.0, 1.0, 0, values.size, values, vectors[0] ** 2, owners)], T))
        return bool(np.all(change(tallies) <= SETTLED + FLOOR * scale / T))


def shorter(steps: int) -> tuple[int, ...]:
    """Return a number of steps, and the numbers of the recurrences that are compared with it."""
    return (steps, *(max(1, min(steps - 1, int(share * steps))) for share in FEWER))


def run(problem: ThermalProblem, monitor: Monitor) -> ThermalResult:
    """Return thermal averages at all temperatures."""
    made = Computation(problem, monitor.restored)
    sectors, block = problem.sectors, problem.block
    exact = sum(sector.dimension <= block.exact for sector in sectors)
    monitor.note(
        f"{len(sectors)} sectors, {exact} of them diagonalised, {block.vectors} random vectors in each of the others"
    )
    with monitor.stage("sectors"):
        drive(made, monitor, total=len(sectors), unit="sectors", what="thermal", done=len(made.energies))
    result = ThermalResult(problem, made.temperatures, values(problem, made), None, steps=made.steps)
    if made.correlators.count:
        result.observed = observed(problem, made)
    if problem.sampled_axes:
        result.response, result.response_errors = response_of_samples(problem, made.responses)
    elif problem.response_axes:
        with monitor.stage("response"):
            result.response = response_of(problem, made.temperatures)
    elif not problem.charged:
        monitor.note(
            "susceptibility: H does not commute with the magnetisation, whose response to a field is given where every sector is "
            "diagonalised (thermal.exact), or along the axes that thermal.response names"
        )
    # a sector was sampled
    if made.steps:
        monitor.judged("the errors of the thermal averages", lambda: judge(result, made, monitor), None)
    return result


@dataclass(frozen=True)
class Part:
    """Levels of a sector, or what a recurrence has in their place.

    Attributes
    ----------
    sz, copies : float
        Total Sz, and 2 for a sector that stands for -Sz as well.
    vectors : int
        Random vectors; 0 where it was diagonalised.
    dimension : int
    energies, weights : (m,) float64
        Weights of all vectors, of which each has its share.
    owners : (m,) int64
        Vector of each energy.
    """

    sz: float
    copies: float
    vectors: int
    dimension: int
    energies: NDArray[np.float64]
    weights: NDArray[np.float64]
    owners: NDArray[np.int64]

    def sums(self, low: float, T: NDArray[np.float64], scale: float | None = None) -> NDArray[np.float64]:
        """Return the traces of exp(-H / T), H exp(-H / T) and H^2 exp(-H / T) with H from `low`, (3, T, 1).

        With the size of the spectrum, and random vectors: of all sets of weights that may be the true ones, (3, T, DRAWS).
        """
        order = np.argsort(self.energies, kind="stable")
        up, weights = self.energies[order] - low, self.weights[order]
        # one row for each temperature; the copies of Sz > 0 stand for -Sz
        boltzmann = np.exp(-up / T[:, None]) * (self.copies * weights)
        rows = np.array([boltzmann, boltzmann * up, boltzmann * up**2])
        if scale is None or not self.vectors:
            return np.asarray(rows.sum(axis=-1, keepdims=True))
        place = np.cumsum(np.diff(up, prepend=up[0]) > ONE_LEVEL * scale)
        found = np.bincount(np.unique(np.stack([place, self.owners[order]]), axis=1)[0]) == self.vectors
        # degrees of freedom: n of every state, of which the weight is the number
        degrees = self.vectors * np.maximum(np.bincount(place, weights), found)[:, None]
        rng = np.random.default_rng([self.dimension, round(2.0 * abs(self.sz)), int(self.sz > 0.0)])
        made, total = np.zeros((*rows.shape[:2], DRAWS)), np.zeros(DRAWS)
        for first in range(0, found.size, TOGETHER):
            some = slice(first, first + TOGETHER)
            # weights of no size, which underflow leaves, have no part in anything
            n = np.maximum(degrees[some], TINY)
            chi = np.maximum(rng.chisquare(n, (n.size, DRAWS)) / n, TINY)
            factors = np.where(found[some, None], 1.0 / chi, chi)
            inside = slice(*np.searchsorted(place, (first, first + TOGETHER)))
            factors = factors[place[inside] - first]
            made += rows[..., inside] @ factors
            total += weights[inside] @ factors
        # the trace of 1 is known
        return np.asarray(made * (weights.sum() / np.maximum(total, TINY)))


def parts_of(problem: ThermalProblem, made: Computation, length: int = 0) -> list[Part]:
    """Return the levels of all sectors; of the whole recurrences, or of one of the shorter ones."""
    parts = []
    for sector, e, w in zip(problem.sectors, made.energies, made.weights, strict=True):
        sampled = len(e) > 1
        energies, weights = e[length if sampled else 0], w[length if sampled else 0]
        # shorter recurrences are filled up with infinite energies
        known, count = np.isfinite(energies), len(energies)
        owners = np.repeat(np.arange(count)[:, None], energies.shape[1], axis=1)[known]
        copies = 2.0 if problem.mirrored and sector.sz != 0.0 else 1.0
        parts.append(
            Part(
                # of no use where there is none
                sector.sz if problem.charged else 0.0,
                copies,
                count if sampled else 0,
                sector.dimension,
                energies[known],
                # the mean over the vectors of a sector
                weights[known] / count,
                owners,
            )
        )
    return parts


@dataclass(frozen=True)
class Tally:
    """Traces at all temperatures, energies from the lowest.

    Attributes
    ----------
    T : (T,) float64
    low : float
        The lowest energy.
    Z, e, v, m, m2 : (T,) float64
        Partition function; means of H - low and of Sz, of Sz^2; variance of H.
    """

    T: NDArray[np.float64]
    low: float
    Z: NDArray[np.float64]
    e: NDArray[np.float64]
    v: NDArray[np.float64]
    m: NDArray[np.float64]
    m2: NDArray[np.float64]

    @classmethod
    def of(cls, parts: list[Part], T: NDArray[np.float64], drawn: float | None = None) -> Tally:
        """Add up the sectors; where one stands for -Sz as well, the mean of Sz vanishes.

        With the size of the spectrum as `drawn`, of all sets of weights that may be the true ones: (T, DRAWS).
        """
        # from the lowest energy: no Boltzmann factor overflows, the lowest one is 1
        low = min(float(part.energies.min()) for part in parts)
        sums = np.zeros((5, T.size, 1 if drawn is None else DRAWS))
        doubled = any(part.copies > 1.0 for part in parts)
        for part in parts:
            own = part.sums(low, T, drawn)
            m = 0.0 if doubled else part.sz
            # Tr 1, Tr (H - low), Tr (H - low)^2, Tr Sz, Tr Sz^2, each with exp(-H / T)
            sums[:3] += own
            sums[3:] += np.array([m * own[0], part.sz**2 * own[0]])
        if drawn is None:
            sums = sums[..., 0]
        else:
            T = T[:, None]
        # means; then variances, free of the shift of the energies
        Z, (e, e2, m, m2) = sums[0], sums[1:] / sums[0]
        return cls(T, low, Z, e, e2 - e**2, m, m2)

    @property
    def log_Z(self) -> NDArray[np.float64]:
        """``ln Tr exp(-H / T)``."""
        return np.asarray(np.log(self.Z) - self.low / self.T)

    @property
    def values(self) -> NDArray[np.float64]:
        """Energy, specific heat, susceptibility and entropy of the whole system, (4, T)."""
        return np.array(
            [
                self.low + self.e,
                self.v / self.T**2,
                (self.m2 - self.m**2) / self.T,
                np.log(self.Z) + self.e / self.T,
            ]
        )


def change(tallies: Sequence[Tally]) -> NDArray[np.float64]:
    """Return the largest change of ln Z and <H> / T (T,) from the first to one of the others."""
    first = tallies[0]
    # both are numbers of order one: ln Z = S - <H> / T
    differences = [np.zeros(first.T.size)]
    for other in tallies[1:]:
        differences.append(np.abs(other.log_Z - first.log_Z))
        differences.append(np.abs(other.low + other.e - first.low - first.e) / first.T)
    return np.max(differences, axis=0)


def changes(
    lengths: Sequence[list[Part]], T: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bounds of the errors of ln Z and <H> / T, and of the susceptibility, (T,) each.

    Changes of the whole, and what becomes of it if ln Z of one sector is larger by twice its own change: recurrences that have
    not come down to the lowest levels of a sector, and so give it no weight, are alike.
    """
    tallies = [Tally.of(parts, T) for parts in lengths]
    first, bounds, shift = tallies[0], [change(tallies)], np.zeros(T.size)
    for sector in zip(*lengths, strict=True):
        if sector[0].vectors:
            own = [Tally.of([part], T) for part in sector]
            # ln of the weight of the sector, and of all others
            share = np.minimum(own[0].log_Z - first.log_Z, 0.0)
            rest = np.log(np.maximum(-np.expm1(share), 1e-300))
            # change of ln Z if the sector grows by twice its own change; below zero by rounding alone
            more = np.maximum(np.logaddexp(rest, share + 2.0 * change(own)), 0.0)
            bounds.append(more)
            # weight that the sector would take from the others
            shift += _shifted(first, sector[0].sz, -np.expm1(-more))
    return np.max(bounds, axis=0), shift


def _shifted(tally: Tally, sz: float, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the error of the susceptibility if a sector takes at most this weight from the others, (T,)."""
    # Sz and -Sz alike
    if not tally.m.any():
        return weight * np.abs(sz**2 - tally.m2) / tally.T
    # a variance is largest where either has half of the weight
    half = np.minimum(weight, 0.5)
    return (half * (1.0 - half) * (sz - tally.m) ** 2 + weight * (tally.m2 - tally.m**2)) / tally.T


def values(problem: ThermalProblem, made: Computation) -> NDArray[np.float64]:
    """Return energy, specific heat, susceptibility and entropy per site, (4, T)."""
    return Tally.of(parts_of(problem, made), made.temperatures).values / problem.spins


def observed(
    problem: ThermalProblem, made: Computation, left_out: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the means of correlators; one sample may be left out."""
    total = _samples(problem, made, made.sums)
    if left_out is not None:
        total = np.delete(total, left_out, axis=0)
    mean = total.mean(axis=0)
    # vectors that have not come down to the lowest level have no weight
    return made.correlators.named(mean[:, 1:] / np.maximum(mean[:, :1], TINY))


def _samples(
    problem: ThermalProblem, made: Computation, sums: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return Z and ``Z <A>`` (samples, T, 1 + count) from the sums of every sector, energies from the lowest of all."""
    T, total = made.temperatures, np.zeros(())
    # every sector from the lowest energy of all; sums of correlators are from the lowest of their own row
    low = min(float(e[0].min()) for e in made.energies)
    for part, e, w, own in zip(parts_of(problem, made), made.energies, made.weights, sums, strict=True):
        up = np.where(np.isfinite(e[0]), e[0] - low, np.inf)
        Z = (np.exp(-up[:, None, :] / T[:, None]) * w[0][:, None, :]).sum(axis=2)
        from_lowest = np.exp(-up.min(axis=1)[:, None] / T)
        # a sector that was diagonalised is the same in every sample
        total = total + part.copies * np.concatenate([Z[..., None], from_lowest[..., None] * own], axis=2)
    return total


# -------------------------------------------------------------------------------------------------- errors


def judge(result: ThermalResult, made: Computation, monitor: Monitor) -> None:
    """Add the errors to a result, and warn where they are uncertain, or where too few steps were made."""
    problem, T = result.problem, made.temperatures
    # the same averages from three and four fifths of the steps
    lengths = [parts_of(problem, made, length) for length in range(1 + len(FEWER))]
    tallies = [Tally.of(parts, T) for parts in lengths]
    scale = scale_of(problem.model)
    x, shift = changes(lengths, T)
    result.change = x
    # statistical and truncation errors are independent: squares add up; per site, as the values
    cut = truncation(tallies, x, shift) + rounding(tallies[0], scale, problem.spins)
    result.errors = np.hypot(scatter(lengths[0], tallies[0], scale), cut) / problem.spins
    if made.correlators.count and problem.block.vectors >= LEAST_SAMPLES:
        result.observed_errors = _observed_errors(problem, made, x)
    elif made.correlators.count:
        monitor.warn(
            f"errors of correlators are not known from {problem.block.vectors} random vectors; give {LEAST_SAMPLES} "
            "thermal.vectors or more"
        )
    if (worst := float(x.max())) > CHANGED:
        few = T[x > CHANGED]
        where = f"{few.min():.4g}" if len(few) == 1 else f"{few.min():.4g} to {few.max():.4g}"
        monitor.warn(
            f"thermal averages at T = {where} are not converged in {made.steps} steps: ln Z or <H>/T still changes by "
            f"{worst:.2g} with the last two fifths of them, which the error bars include; give more thermal.steps, or auto"
        )


def scatter(parts: list[Part], tally: Tally, scale: float) -> NDArray[np.float64]:
    """Return the standard errors of energy, specific heat, susceptibility and entropy by the random vectors, (4, T)."""
    off = np.sort(Tally.of(parts, tally.T, scale).values - tally.values[..., None], axis=-1)
    errors = np.zeros(off.shape[:2])
    for bars, outside in ((2.0, 0.0455), (3.0, 0.0027)):
        # as many sets are beyond either end as a normal law has there
        rest = round(0.5 * outside * DRAWS)
        errors = np.maximum(errors, np.maximum(-off[..., rest], off[..., -1 - rest]) / bars)
    return errors


def rounding(tally: Tally, scale: float, spins: int) -> NDArray[np.float64]:
    """Return the rounding errors of the values (4, T): of energies and Boltzmann factors."""
    T, v, e2 = tally.T, np.maximum(tally.v, 0.0), tally.v + tally.e**2
    rows = [
        scale + np.sqrt(v) * scale / T,
        (scale * np.sqrt(e2) + e2 + v * scale / T) / T**2,
        tally.m2 * (1.0 + scale / T) / T,
        spins + scale / T,
    ]
    return FLOOR * np.array(rows)


def truncation(
    tallies: Sequence[Tally], x: NDArray[np.float64], shift: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the truncation errors of energy, specific heat, susceptibility and entropy, (4, T)."""
    first = tallies[0]
    seen = np.max([np.abs(other.values - first.values) for other in tallies[1:]], axis=0)
    heat = np.maximum(first.v / first.T**2, 0.0)
    # energy: T x; heat: (sqrt(heat) + x)^2 - heat;
    # susceptibility from weights that move; entropy like ln Z
    bounds = [first.T * x, 2.0 * np.sqrt(heat) * x + x**2, shift, x]
    return np.maximum(seen, bounds)


def _observed_errors(
    problem: ThermalProblem, made: Computation, x: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return the errors of correlators: of a jackknife over the samples, and of the end of the recurrences."""
    samples = max(len(part) for part in made.sums)
    # jackknife: the means without one sample each
    left_out = [observed(problem, made, k) for k in range(samples)]
    cut = [np.repeat(part[..., None], made.correlators.count, axis=2) for part in made.changes]
    mean = _samples(problem, made, cut).mean(axis=0)
    # correlators have the norm S^2, of spins 1/2 1/4, and Z changes like a sum of norm 1; weights that are off by exp(x) shift
    # means between +-S^2
    twice = 2.0 * problem.largest**2
    off = twice * np.maximum(
        mean[:, 1:2] / mean[:, :1], np.minimum(np.expm1(np.minimum(x, 1.0)), 1.0)[:, None]
    )
    errors = {}
    for name in left_out[0]:
        rows = np.array([one[name] for one in left_out])
        # variance of a jackknife: (n - 1) / n times the sum of squares
        square = (samples - 1.0) / samples * ((rows - rows.mean(axis=0)) ** 2).sum(axis=0)
        # of each site, in a structure factor
        pairs = problem.spins if name.startswith("structure") else 1
        errors[name] = np.hypot(student(samples - 1.0) * np.sqrt(square), pairs * off)
    return errors
