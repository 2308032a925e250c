"""Lowest levels of the sectors of H, and what is observed in the lowest state of all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.lanczos import Search
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.schmidt import sector_schmidt
from qsim.trotter.sectors.symmetric import SymmetricSector
from qsim.trotter.tasks.results import SpectrumResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.deck.tasks import Spectrum
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.tasks.problem import TaskProblem

__all__ = ["run"]


class Computation:
    """The search for the levels of all sectors; what is found of complete sectors is kept in a checkpoint."""

    def __init__(self, problem: TaskProblem[Spectrum], restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        block = problem.block
        shape = (len(problem.sectors), block.levels)
        self.levels, self.residuals = np.full(shape, math.nan), np.full(shape, math.nan)
        self.done = self.products = 0
        self.best: tuple[float, int, Any] | None = None
        if restored is not None:
            self.levels, self.residuals = np.array(restored["levels"]), np.array(restored["residuals"])
            self.done, self.products = int(restored["done"]), int(restored["products"])
            if restored["best"] is not None:
                energy, number, vector = (restored["best"][key] for key in ("energy", "sector", "vector"))
                self.best = float(energy), int(number), problem.place.asarray(vector)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        best = None
        if self.best is not None:
            best = dict(zip(("energy", "sector", "vector"), self.best, strict=True))
        return {
            "levels": self.levels,
            "residuals": self.residuals,
            "done": self.done,
            "products": self.products,
            "best": best,
        }

    def advance(self, report: Report) -> None:
        """Find the levels of the sectors that are left."""
        problem, block = self.problem, self.problem.block
        sign = -1.0 if block.which == "highest" else 1.0
        for number in range(self.done, len(problem.sectors)):
            linear = problem.operator(problem.sectors[number], problem.model)
            search = Search(
                problem.place,
                linear,
                block.levels,
                block.tolerance,
                scale_of(problem.model),
                highest=sign < 0,
                dtype=linear.dtype,
            )
            while not search.complete:
                search.next_level(lambda: report(Progress()))
            found = len(search.found.energies)
            self.levels[number, :found] = search.found.energies
            self.residuals[number, :found] = search.found.residuals
            self.products += search.products
            if self.best is None or sign * search.found.energies[0] < sign * self.best[0]:
                self.best = search.found.energies[0], number, search.found.vectors[0]
            self.done = number + 1
            report(Progress(self.done, {"energy": search.found.energies[0]}))


def run(problem: TaskProblem[Spectrum], monitor: Monitor) -> SpectrumResult:
    """Find the levels of all sectors and observe the lowest state."""
    for sector in problem.sectors:
        monitor.note(f"sector {sector}: {sector.dimension} of {2**problem.spins} states")
    made = Computation(problem, monitor.restored)
    with monitor.stage("levels"):
        drive(made, monitor, total=len(problem.sectors), unit="sectors", what="levels", done=made.done)
    assert made.best is not None
    result = SpectrumResult(problem, problem.sectors, made.levels, made.residuals, products=made.products)
    if not problem.block.vectors:
        return result
    with monitor.stage("observe"):
        sector, psi = problem.sectors[made.best[1]], made.best[2]
        if isinstance(sector, SymmetricSector):
            result.observed = observe(problem, sector.base, sector.whole(psi))
        else:
            result.observed = observe(problem, sector, psi)
    if result.degeneracy > 1 and problem.asked.items:
        monitor.warn(
            f"{result.degeneracy} levels have the energy {result.levels[result.order[0]]:.12g}: what is observed is that of one "
            "state among them"
        )
    return result


def observe(problem: TaskProblem[Spectrum], sector: Sector, psi: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return what the deck asks for, in one state of a sector."""
    operator = SectorOperator(problem.place, sector, problem.model)
    across = {pair for axes, pairs in problem.asked.pairs.items() if axes != "zz" for pair in pairs}
    factors = structure_axes(problem)
    if "xx" in factors:
        across |= {(j, k) for j in range(problem.spins) for k in range(j + 1, problem.spins)}
    moments = sector_moments(operator, psi, sorted(across))
    found: dict[str, NDArray[Any]] = {}
    if problem.asked.block("sz") is not None:
        found["sz"] = moments.s["z"] / moments.norm
    for axes, pairs in problem.asked.pairs.items():
        j, k = np.array(pairs).T
        found[f"correlator_{axes}"] = moments.ss[axes[0]][j, k] / moments.norm
    for axes in factors:
        found[f"structure_factor_{axes}"] = structure_factor(moments.ss[axes[0]] / moments.norm)
    spectra = [sector_schmidt(sector, problem.place, psi, cut) for cut in problem.asked.cuts]
    if spectra:
        found["entropy"] = np.array([s.entropy for s in spectra])
        found["number_entropy"] = np.array([s.number_entropy for s in spectra])
        found["renyi2"] = np.array([s.renyi2 for s in spectra])
    stored = problem.asked.schmidt
    if stored and spectra:
        found["schmidt"], found["schmidt_sz"] = map(
            np.array, zip(*(s.largest(stored) for s in spectra), strict=True)
        )
    return found


def structure_axes(problem: TaskProblem[Spectrum]) -> list[str]:
    """Return the axes of the structure factors that are asked for."""
    asked = problem.asked.block("structure_factor")
    if asked is None:
        return []
    return [asked] if isinstance(asked, str) else list(asked)


def structure_factor(ss: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``S(q) = sum_jk e^(i q (j - k)) <S_j S_k> / N`` at ``q = 2 pi m / N``, m = 0 ... N - 1."""
    n = len(ss)
    wave = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    return np.asarray(np.einsum("qj,jk,qk->q", wave, ss, wave.conj()).real / n, np.float64)
