"""Temperature: traces over all sectors from the recurrences of random vectors (finite-temperature Lanczos).

A random unit vector r of a sector with D states has ``D <r| f(H) |r> = Tr f(H)`` in the mean; M steps of Lanczos from r give
``<r| f(H) |r> = sum_k y_k^2 f(theta_k)``, exactly for polynomials of degree 2 M - 1.  Sectors with few states are diagonalised
instead, without statistical error.  Errors are those of a jackknife over the vectors: the k-th vectors of all sectors are one
sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.lanczos import chain, random_start, ritz
from qsim.trotter.sectors.matrix import matrix_of
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.tasks.averaged import Correlators
from qsim.trotter.tasks.results import ThermalResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.deck.tasks import Thermal
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.tasks.problem import TaskProblem

__all__ = ["run"]

EXACT = 1024  # states of a sector up to which it is diagonalised


class Computation:
    """Energies and weights of all sectors; complete sectors are kept in a checkpoint.

    Attributes
    ----------
    energies, weights : list of (vectors, m) float64
        Of each sector: one row where it was diagonalised.
    sums : list of (vectors, T, count) float64
        Sums of correlators of each sector, energies from the lowest of their row; empty if none are asked for.
    """

    def __init__(self, problem: TaskProblem[Thermal], restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        self.energies: list[NDArray[np.float64]] = []
        self.weights: list[NDArray[np.float64]] = []
        self.sums: list[NDArray[np.float64]] = []
        self.correlators = Correlators(problem.asked, problem.spins)
        self.temperatures = np.array(problem.block.grid())
        if restored is not None:
            self.sums = [np.array(part) for part in restored["sums"]]
            self.energies = [np.array(part) for part in restored["energies"]]
            self.weights = [np.array(part) for part in restored["weights"]]

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"energies": list(self.energies), "weights": list(self.weights), "sums": list(self.sums)}

    def advance(self, report: Report) -> None:
        """Do the sectors that are left."""
        sectors = self.problem.plain_sectors
        for number in range(len(self.energies), len(sectors)):
            found = (
                self._exact(sectors[number])
                if sectors[number].dimension <= EXACT
                else self._sampled(number, report)
            )
            self.energies.append(found[0])
            self.weights.append(found[1])
            self.sums.append(found[2])
            report(Progress(number + 1))

    def _exact(self, sector: Sector) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        operator = SectorOperator(self.problem.place, sector, self.problem.model)
        matrix = self.problem.place.to_host(matrix_of(operator))
        sums = np.zeros((1, self.temperatures.size, self.correlators.count))
        if self.correlators.count:
            values, vectors = np.linalg.eigh(matrix)
            sums[0] = self.correlators.exact(sector, values, vectors, self.temperatures)
        else:
            values = np.linalg.eigvalsh(matrix)
        return values[None], np.ones((1, values.size)), sums

    def _sampled(
        self, number: int, report: Report
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        problem, block = self.problem, self.problem.block
        sector = problem.plain_sectors[number]
        operator = SectorOperator(problem.place, sector, problem.model)
        energies = np.full((block.vectors, block.steps), np.inf)
        weights = np.zeros((block.vectors, block.steps))
        sums = np.zeros((block.vectors, self.temperatures.size, self.correlators.count))
        for k in range(block.vectors):
            seed = (problem.models.seed << 20) + (number << 10) + k
            start = random_start(problem.place, sector.dimension, seed, operator.dtype)
            kept = start.copy() if self.correlators.count else start
            made = chain(problem.place, operator, start)
            for _ in range(block.steps):
                report(Progress())
                if not made.step(scale_of(problem.model)):
                    break
            values, vectors = ritz(made.alpha, made.beta)
            energies[k, : values.size] = values
            weights[k, : values.size] = sector.dimension * vectors[0] ** 2
            if self.correlators.count:
                sums[k] = self.correlators.sampled(
                    operator,
                    kept,
                    made,
                    self.temperatures,
                    scale_of(problem.model),
                    lambda: report(Progress()),
                )
        return energies, weights, sums


def run(problem: TaskProblem[Thermal], monitor: Monitor) -> ThermalResult:
    """Return thermal averages at all temperatures."""
    made = Computation(problem, monitor.restored)
    sectors, block = problem.plain_sectors, problem.block
    exact = sum(sector.dimension <= EXACT for sector in sectors)
    monitor.note(
        f"{len(sectors)} sectors, {exact} of them diagonalised, {block.vectors} random vectors in each of the others"
    )
    with monitor.stage("sectors"):
        drive(made, monitor, total=len(sectors), unit="sectors", what="thermal", done=len(made.energies))
    found = averages(problem, made.energies, made.weights)
    if made.correlators.count:
        _add_correlators(found, made)
    return found


def _add_correlators(result: ThermalResult, made: Computation) -> None:
    """Add the means of correlators and their jackknife errors to a result."""
    T, problem = result.temperatures, result.problem
    low = min(float(e.min()) for e in made.energies)
    samples = max(len(e) for e in made.energies)
    total = np.zeros((samples, T.size, 1 + made.correlators.count))  # Z and Z <A>
    for sector, e, w, sums in zip(problem.plain_sectors, made.energies, made.weights, made.sums, strict=True):
        copies = 2.0 if problem.doubled and sector.sz != 0.0 else 1.0
        known = np.isfinite(e)
        up = np.where(known, e - low, 0.0)
        boltzmann = np.exp(-up[:, None, :] / T[None, :, None]) * (w * known)[:, None, :]
        total[..., 0] += copies * boltzmann.sum(axis=2)
        from_lowest = np.exp(-(e.min(axis=1)[:, None] - low) / T)
        total[..., 1:] += copies * from_lowest[..., None] * sums
    mean = total.mean(axis=0)
    result.observed = made.correlators.named(mean[:, 1:] / mean[:, :1])
    if samples == 1:
        return
    spread = {name: np.zeros((samples, *values.shape)) for name, values in result.observed.items()}
    for k in range(samples):
        rest = np.delete(total, k, axis=0).mean(axis=0)
        for name, values in made.correlators.named(rest[:, 1:] / rest[:, :1]).items():
            spread[name][k] = values
    result.observed_errors = {
        name: np.sqrt((samples - 1.0) / samples * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
        for name, values in spread.items()
    }


def averages(
    problem: TaskProblem[Thermal], energies: list[NDArray[np.float64]], weights: list[NDArray[np.float64]]
) -> ThermalResult:
    """Return energy, specific heat, susceptibility and entropy per site with their jackknife errors."""
    temperatures = np.array(problem.block.grid())
    low = min(float(e.min()) for e in energies)
    samples = max(len(e) for e in energies)
    sums = np.zeros((samples, temperatures.size, 4))  # Z, Z <E>, Z <E^2>, Z <Sz^2>; energies from the lowest
    for sector, e, w in zip(problem.plain_sectors, energies, weights, strict=True):
        copies = 2.0 if problem.doubled and sector.sz != 0.0 else 1.0
        up = e - low
        known = np.isfinite(up)
        up = np.where(known, up, 0.0)
        boltzmann = np.exp(-up[:, None, :] / temperatures[None, :, None]) * (w * known)[:, None, :] * copies
        part = np.stack(
            [
                boltzmann.sum(axis=2),
                (boltzmann * up[:, None, :]).sum(axis=2),
                (boltzmann * up[:, None, :] ** 2).sum(axis=2),
                boltzmann.sum(axis=2) * sector.sz**2,
            ],
            axis=2,
        )
        sums += part  # a sector that was diagonalised is the same in every sample
    mean_sz = _mean_sz(problem, energies, weights, low, samples)
    whole = _thermal(sums.mean(axis=0), mean_sz.mean(axis=0), temperatures, low, problem.spins)
    if samples == 1:
        return ThermalResult(problem, temperatures, whole, None)
    left_out = np.array(
        [
            _thermal(
                np.delete(sums, k, axis=0).mean(axis=0),
                np.delete(mean_sz, k, axis=0).mean(axis=0),
                temperatures,
                low,
                problem.spins,
            )
            for k in range(samples)
        ]
    )
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    return ThermalResult(problem, temperatures, whole, np.sqrt((samples - 1.0) / samples * spread))


def _mean_sz(
    problem: TaskProblem[Thermal],
    energies: list[NDArray[np.float64]],
    weights: list[NDArray[np.float64]],
    low: float,
    samples: int,
) -> NDArray[np.float64]:
    """Return ``Z <Sz>`` of every sample and temperature; it vanishes where Sz and -Sz are alike."""
    temperatures = np.array(problem.block.grid())
    found = np.zeros((samples, temperatures.size))
    if problem.doubled:
        return found
    for sector, e, w in zip(problem.plain_sectors, energies, weights, strict=True):
        up = np.where(np.isfinite(e), e - low, np.inf)
        boltzmann = np.exp(-up[:, None, :] / temperatures[None, :, None]) * w[:, None, :]
        found += sector.sz * boltzmann.sum(axis=2)
    return found


def _thermal(
    sums: NDArray[np.float64], sz: NDArray[np.float64], T: NDArray[np.float64], low: float, spins: int
) -> NDArray[np.float64]:
    """Return energy, specific heat, susceptibility and entropy per site, (4, temperatures)."""
    Z = sums[:, 0]
    e, e2, m2 = sums[:, 1] / Z, sums[:, 2] / Z, sums[:, 3] / Z
    entropy = np.log(Z) + e / T
    rows = [low + e, (e2 - e**2) / T**2, (m2 - (sz / Z) ** 2) / T, entropy]
    return np.array(rows) / spins
