"""Lowest levels of the sectors of H, and what is observed in the lowest level of all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.schmidt import sector_schmidt
from qsim.trotter.sectors.symmetric import SymmetricSector
from qsim.trotter.spectrum.result import SpectrumResult
from qsim.trotter.spectrum.search import LowestLevels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.deck.tasks import Spectrum
    from qsim.trotter.problem import TaskProblem
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.spectrum.search import Member

__all__ = ["run"]


class Computation:
    """The search for the levels of all sectors; what is found of complete sectors is kept in a checkpoint."""

    def __init__(self, problem: TaskProblem[Spectrum], restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        block = problem.block
        shape = (len(problem.sectors), block.levels)
        self.levels, self.residuals = np.full(shape, math.nan), np.full(shape, math.nan)
        self.done = self.products = 0
        if restored is not None:
            self.levels, self.residuals = np.array(restored["levels"]), np.array(restored["residuals"])
            self.done, self.products = int(restored["done"]), int(restored["products"])
        self.lowest = LowestLevels(
            problem,
            block.levels,
            block.tolerance,
            passing=block.gap,
            highest=block.which == "highest",
            restored=None if restored is None else restored["lowest"],
        )

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {
            "levels": self.levels,
            "residuals": self.residuals,
            "done": self.done,
            "products": self.products,
            "lowest": self.lowest.state(),
        }

    def advance(self, report: Report) -> None:
        """Find the levels of the sectors that are left."""
        for number in self.lowest.order[self.done :]:
            found = self.lowest.visit(number, lambda: report(Progress()))
            count = min(self.problem.block.levels, len(found.energies))
            self.levels[number, :count] = found.energies[:count]
            self.residuals[number, :count] = found.residuals[:count]
            self.products += found.products
            self.done += 1
            report(Progress(self.done, {"energy": float(found.energies[0])}))


def run(problem: TaskProblem[Spectrum], monitor: Monitor) -> SpectrumResult:
    """Find the levels of all sectors and observe the lowest one."""
    for sector in problem.sectors:
        monitor.note(f"sector {sector}: {sector.dimension} of {2**problem.spins} states")
    made = Computation(problem, monitor.restored)
    with monitor.stage("levels"):
        drive(made, monitor, total=len(problem.sectors), unit="sectors", what="levels", done=made.done)
    lowest = made.lowest
    result = SpectrumResult(
        problem,
        problem.sectors,
        made.levels,
        made.residuals,
        lowest.listed,
        lowest.degeneracy,
        lowest.second,
        products=made.products,
    )
    energy, which = result.listed[0, 0], problem.block.which
    if problem.block.gap and not lowest.known:
        monitor.warn(
            f"the {which} level, {energy:.12g}, has more states than were found, or lies closer to others than the tolerance "
            f"{problem.block.tolerance:.2g} can tell: its degeneracy and the gap are not given, nor is it observed; lower "
            "spectrum.tolerance, or name a smaller sector"
        )
        return result
    if problem.block.gap and not problem.complete:
        monitor.note("gap: the sectors of the deck do not hold all levels of H; sector_gap is their own")
    if not (problem.block.vectors and problem.asked.items):
        return result
    with monitor.stage("observe"):
        result.observed = observe(problem, lowest.members)
    if result.degeneracy != 1:
        left_out = "; entropies, of which a mixture has none, are left out" if problem.asked.cuts else ""
        monitor.warn(
            f"{result.degeneracy} states have the {which} energy, {energy:.12g}: what is observed is the mean over them{left_out}"
        )
    return result


def observe(problem: TaskProblem[Spectrum], members: Sequence[Member]) -> dict[str, NDArray[Any]]:
    """Return what the deck asks for, as the mean over the states of a level; entropies of a single state alone."""
    total = sum(member.states for member in members)
    factors = structure_axes(problem)
    everywhere = {(j, k) for j in range(problem.spins) for k in range(j + 1, problem.spins)}
    across = {
        pair
        for axes, pairs in problem.asked.pairs.items()
        if axes != "zz" or (problem.multiplets and total > 1)
        for pair in pairs
    }
    if "xx" in factors or (factors and problem.multiplets and total > 1):
        across = everywhere
    spins = problem.spins
    sz, ss = np.zeros(spins), {"x": np.zeros((spins, spins)), "z": np.zeros((spins, spins))}
    for member in members:
        sector, psi = plain(problem, member)
        moments = sector_moments(SectorOperator(problem.place, sector, problem.model), psi, sorted(across))
        share = member.states / total / moments.norm
        if member.states == 1 or not problem.mirrored:  # otherwise that of -Sz has the opposite one
            sz += share * moments.s["z"]
        x, z = moments.ss["x"], moments.ss["z"]
        if problem.multiplets and total > 1:  # the mean over a multiplet has no direction
            x = z = (2.0 * x + z) / 3.0
        ss["x"] += share * x
        ss["z"] += share * z
    found: dict[str, NDArray[Any]] = {}
    if problem.asked.block("sz") is not None:
        found["sz"] = sz
    for axes, pairs in problem.asked.pairs.items():
        j, k = np.array(pairs).T
        found[f"correlator_{axes}"] = ss["z" if axes == "zz" else "x"][j, k]
    for axes in factors:
        found[f"structure_factor_{axes}"] = structure_factor(ss["z" if axes == "zz" else "x"])
    if total == 1:
        found |= entropies(problem, *plain(problem, members[0]))
    return found


def plain(problem: TaskProblem[Spectrum], member: Member) -> tuple[Sector, NDArray[Any]]:
    """Return the sector of Sz of a state, and the state there."""
    sector = problem.sectors[member.sector]
    if isinstance(sector, SymmetricSector):
        return sector.base, sector.whole(member.vector)
    return sector, member.vector


def entropies(problem: TaskProblem[Spectrum], sector: Sector, psi: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the entropies of all cuts, and their largest Schmidt coefficients if they are asked for."""
    spectra = [sector_schmidt(sector, problem.place, psi, cut) for cut in problem.asked.cuts]
    if not spectra:
        return {}
    found = {
        "entropy": np.array([s.entropy for s in spectra]),
        "number_entropy": np.array([s.number_entropy for s in spectra]),
        "renyi2": np.array([s.renyi2 for s in spectra]),
    }
    if stored := problem.asked.schmidt:
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
