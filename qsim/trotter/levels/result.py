"""All levels of sectors and their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.statistics import error_of_mean
from qsim.trotter.model.hamiltonian import scale_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.levels.problem import LevelsProblem

__all__ = ["QUANTITIES", "LevelsResult"]

EPS = 2.2e-16


@dataclass
class LevelsResult:
    """All levels of sectors and their statistics.

    Attributes
    ----------
    problem : LevelsProblem
    levels : (members, levels) float64
        Of every realisation, ascending.
    ratios : (members,) float64
        Mean gap ratio of every realisation; empty if the window holds too few levels.
    all_ratios : (n,) float64 or None
        Gap ratios of all realisations in the window.
    participation, entropies : (members, levels) float64 or None
        Participation entropy, and entropy of half of the chain, of every eigenstate.
    spins : (members, levels) float64 or None
        Total spin of every eigenstate; not a number where levels of one energy are not whole multiplets.
    sectors : (members, levels) int64 or None
        Number of the sector of every level.
    """

    task: ClassVar[str] = "levels"

    problem: LevelsProblem
    levels: NDArray[np.float64]
    ratios: NDArray[np.float64]
    all_ratios: NDArray[np.float64] | None
    participation: NDArray[np.float64] | None = None
    entropies: NDArray[np.float64] | None = None
    spins: NDArray[np.float64] | None = None
    sectors: NDArray[np.int64] | None = None

    @property
    def rounding(self) -> float:
        """Rounding of a level of the first realisation, of a diagonalisation of n states."""
        # errors of n sums of rounded numbers as large as the bound of the spectrum add up like their root
        model = self.problem.of_realisation(0)
        return float(EPS * np.sqrt(self.levels.shape[1]) * scale_of(model))

    @property
    def ratio_error(self) -> float | None:
        """Standard error of the mean gap ratio over the realisations; of a single one from parts of its window."""
        if len(self.ratios) < 2:
            return None if self.all_ratios is None else error_of_mean(self.all_ratios)
        return float(self.ratios.std(ddof=1) / np.sqrt(len(self.ratios)))


QUANTITIES: tuple[Quantity[LevelsResult], ...] = (
    Quantity(
        "gap_ratio",
        "",
        "mean of min/max of neighbouring spacings in the window: 0.3863 Poisson, 0.5307 GOE",
        lambda r: float(r.ratios.mean()),
        error=lambda r: r.ratio_error,
        headline=("gap_ratio", "energy_0"),
        when=lambda r: bool(r.ratios.size),
    ),
    Quantity(
        "sector",
        "",
        "sector of the levels",
        lambda r: "; ".join(str(sector) for sector in r.problem.sectors),
        headline=True,
    ),
    Quantity(
        "dimension",
        "",
        "states of the sector, or of all of them",
        lambda r: sum(sector.dimension for sector in r.problem.sectors),
        headline=True,
    ),
    Quantity(
        "level_sector",
        "",
        "number of the sector of every level, in the order in which they are named",
        lambda r: r.sectors,
        axes=("realisation", "state"),
        when=lambda r: len(r.problem.sectors) > 1,
    ),
    Quantity(
        "energy_0",
        "J",
        "lowest level of the first realisation",
        lambda r: float(r.levels[0, 0]),
        error=lambda r: r.rounding,
    ),
    Quantity("realisations", "", "realisations of the disorder", lambda r: len(r.levels)),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity(
        "levels", "J", "all levels of every realisation", lambda r: r.levels, axes=("realisation", "state")
    ),
    Quantity(
        "gap_ratios",
        "",
        "gap ratios in the window, of all realisations",
        lambda r: r.all_ratios,
        axes=("gap_ratios",),
    ),
    Quantity(
        "participation",
        "nat",
        "-sum p ln p over the Ising states, of every eigenstate",
        lambda r: r.participation,
        axes=("realisation", "state"),
    ),
    Quantity(
        "half_chain_entropy",
        "nat",
        "entropy of the first half of the sites, of every eigenstate",
        lambda r: r.entropies,
        axes=("realisation", "state"),
    ),
    Quantity(
        "total_spin",
        "hbar",
        "total spin S of every eigenstate, from <S^2> = S (S + 1)",
        lambda r: r.spins,
        axes=("realisation", "state"),
    ),
)
