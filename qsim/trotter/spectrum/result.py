"""Levels of the sectors, and observables of the lowest (highest) one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.measurement.quantities import axes_in, labels_in
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.observables.registry import arrays_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.deck.tasks import Spectrum
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.problem import TaskProblem

__all__ = ["QUANTITIES", "SpectrumResult"]

EPS = 2.2e-16


@dataclass
class SpectrumResult:
    """Levels of all sectors.

    Attributes
    ----------
    problem : TaskProblem
    sectors : list of Space
    levels, residuals : (sectors, levels) float64
        Not a number where a sector has fewer states.
    spins : (sectors, levels) float64
        Total spin of the levels; not a number where it is not known, or not conserved.
    listed : (n, 3) float64
        Levels, bounds of their errors and total spins of all sectors, the lowest (highest) first, up to where they are complete.
    degeneracy : int or None
        States at the lowest (highest) level; None where they are not all known.
    second : (float, float) or None
        Energy and bound of its error of the next level; None where it is not known, or where there is none.
    observed : dict of arrays
        Expectation values in the lowest (highest) level, means over its states.
    products : int
    """

    task: ClassVar[str] = "spectrum"

    problem: TaskProblem[Spectrum]
    sectors: list[Space]
    levels: NDArray[np.float64]
    residuals: NDArray[np.float64]
    spins: NDArray[np.float64]
    listed: NDArray[np.float64]
    degeneracy: int | None
    second: tuple[float, float] | None
    observed: dict[str, NDArray[Any]] = field(default_factory=dict)
    products: int = 0

    @property
    def order(self) -> list[tuple[int, int]]:
        """Sector and number of all levels, the lowest (highest) first."""
        sign = -1.0 if self.problem.block.which == "highest" else 1.0
        # sectors with fewer levels than others are filled up with NaN
        places = [tuple(map(int, place)) for place in np.argwhere(np.isfinite(self.levels))]
        return sorted(((i, k) for i, k in places), key=lambda place: sign * self.levels[place])

    @property
    def extreme(self) -> Space:
        """Sector of the lowest (highest) level."""
        return self.sectors[self.order[0][0]]

    @property
    def rounding(self) -> float:
        """Rounding of an energy."""
        # of sums as large as the bound of the spectrum
        return 4.0 * EPS * scale_of(self.problem.model)

    def error(self, number: int) -> float:
        """Return the bound of the error of a listed level: its residual, and rounding."""
        return float(self.listed[number, 1]) + self.rounding

    @property
    def gap(self) -> tuple[float, float] | None:
        """Distance of the two lowest (highest) distinct levels of the sectors, and its error; None where it is not known."""
        if self.second is None:
            return None
        energy, residual = self.second
        # errors of two levels add up
        return abs(energy - float(self.listed[0, 0])), self.error(0) + residual + self.rounding


def _observed(name: str) -> Any:
    return lambda result: result.observed.get(name)


def _energies(result: SpectrumResult) -> dict[str, float]:
    return {f"energy_{k}": float(energy) for k, energy in enumerate(result.listed[:, 0])}


def _bounds(result: SpectrumResult) -> dict[str, float]:
    return {f"energy_error_{k}": result.error(k) for k in range(len(result.listed))}


def _spins(result: SpectrumResult) -> dict[str, float | None]:
    return {
        f"total_spin_{k}": None if np.isnan(spin) else float(spin)
        for k, spin in enumerate(result.listed[:, 2])
    }


def _gap(part: int) -> Callable[[SpectrumResult], float | None]:
    return lambda result: None if result.gap is None else result.gap[part]


def _alike(result: SpectrumResult) -> bool:
    """Return whether sectors have one Sz, and differ by more than the momentum of a ring."""
    return _momenta(result) is None and len({sector.sz for sector in result.sectors}) < len(result.sectors)


def _momenta(result: SpectrumResult) -> NDArray[np.float64] | None:
    momenta = [getattr(sector, "momentum", None) for sector in result.sectors]
    # of cells in several directions it is no single number
    return (
        None
        if None in momenta or len(result.problem.translations.lengths) > 1
        else np.array([2.0 * k / result.problem.translations.count for k in momenta if k is not None])
    )


QUANTITIES: tuple[Quantity[SpectrumResult], ...] = (
    Quantity(
        "E0_per_site",
        "J",
        "lowest (highest) level per site",
        lambda r: float(r.listed[0, 0]) / r.problem.spins,
        error=lambda r: r.error(0) / r.problem.spins,
        headline=True,
    ),
    Quantity(
        "gap",
        "J",
        "distance of the two lowest (highest) distinct levels of H",
        _gap(0),
        error=_gap(1),
        headline=True,
        when=lambda r: r.problem.complete and r.gap is not None,
    ),
    Quantity(
        "sector_gap",
        "J",
        "distance of the two lowest (highest) distinct levels in the sectors of the deck, which do not hold all levels of H",
        _gap(0),
        error=_gap(1),
        headline=True,
        when=lambda r: not r.problem.complete and r.gap is not None,
    ),
    Quantity(
        "energy_*",
        "J",
        "level *, the lowest (highest) first, each as often as H has it (with a sector in the deck, as the sectors have it)",
        _energies,
        error=lambda r: {f"energy_{k}": r.error(k) for k in range(len(r.listed))},
        headline=("energy_0", "energy_1"),
    ),
    Quantity("energy_error_*", "J", "bound of the error of level *: residual and rounding", _bounds),
    Quantity(
        "degeneracy",
        "",
        "states of H at the lowest (highest) level (with a sector in the deck, in its sectors)",
        lambda r: r.degeneracy,
        headline=True,
        when=lambda r: r.degeneracy is not None,
    ),
    Quantity(
        "total_spin_*",
        "hbar",
        "total spin S of level *, from <S^2> = S (S + 1), where H conserves it",
        _spins,
        headline=("total_spin_0", "total_spin_1"),
        when=lambda r: r.problem.spin_conserved,
        exact=True,
    ),
    Quantity(
        "residual_max",
        "J",
        "largest ||H psi - E psi||",
        lambda r: float(np.nanmax(r.residuals)),
        headline=True,
    ),
    Quantity("sector", "", "sector of the lowest (highest) level", lambda r: str(r.extreme), headline=True),
    Quantity("dimension", "", "states of that sector", lambda r: r.extreme.dimension, headline=True),
    Quantity("products", "", "products H psi", lambda r: r.products),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity("site", "", "sites", lambda r: np.arange(r.problem.spins), axes=("site",)),
    Quantity(
        "level",
        "",
        "number of a level in its sector",
        lambda r: np.arange(r.levels.shape[1]),
        axes=("level",),
    ),
    Quantity(
        "sector_sz",
        "hbar",
        "total Sz of the sectors",
        lambda r: np.array([s.sz for s in r.sectors]),
        axes=("sector_sz",),
        note="along the axis that H conserves; not a number where it is conserved along none",
    ),
    Quantity(
        "sector_name",
        "",
        "names of the sectors, where Sz or a momentum does not tell them apart",
        lambda r: [str(s) for s in r.sectors],
        axes=("sector_sz",),
        when=lambda r: not r.problem.charged or r.problem.frame.axis != "z" or _alike(r),
    ),
    Quantity(
        "sector_momentum",
        "pi",
        "momentum of the sectors",
        _momenta,
        axes=("sector_sz",),
        when=lambda r: _momenta(r) is not None,
    ),
    Quantity("levels", "J", "levels of the sectors", lambda r: r.levels, axes=("sector_sz", "level")),
    Quantity(
        "total_spin",
        "hbar",
        "total spin S of the levels, where H conserves it",
        lambda r: r.spins,
        axes=("sector_sz", "level"),
        when=lambda r: r.problem.spin_conserved,
    ),
    Quantity(
        "residuals",
        "J",
        "||H psi - E psi|| of the levels",
        lambda r: r.residuals,
        axes=("sector_sz", "level"),
    ),
    Quantity(
        "sector_dimension",
        "",
        "states of the sectors",
        lambda r: np.array([s.dimension for s in r.sectors]),
        axes=("sector_sz",),
    ),
    *(
        Quantity(
            array.name,
            array.unit,
            f"{array.text}, in the lowest (highest) level, the mean over its states",
            _observed(array.name),
            axes=array.axes,
            axes_of=axes_in("spectrum", kind, array),
        )
        for kind, array in arrays_of("spectrum")
    ),
    *labels_in("spectrum"),
)
