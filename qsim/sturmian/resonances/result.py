"""Complex energies of `task: resonances` and its quantities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.deck.collision_symmetry import Sector
from qsim.sturmian.deck.symmetry import parity_of
from qsim.sturmian.two_electron.known import letter

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.driven.problem import Problem
    from qsim.sturmian.driven.setup import Setup

__all__ = ["QUANTITIES", "Resonance", "ResonanceResult"]


@dataclass
class Resonance:
    """One complex energy.

    Attributes
    ----------
    L, S : int
    near : float
        Where it was sought, hartree.
    energy : complex
        ``E - i Gamma/2``, hartree.
    moved : float
        Change of the complex energy with the coarser grid, hartree; 0 without it.
    error, width_error : float
        Of position and width, hartree: that change, and those with fewer partial waves; 0 without them.
    residual : float
        ``|H v - E v| / |v|``, hartree.
    iterations : int
        Steps of the linear solver.
    inside : float
        Share of ``|v|^2`` on the real axis.
    parity : str
        Of the symmetry, as in the deck.
    threshold : float
        Lowest energy at which an electron can leave in this symmetry, hartree.
    """

    L: int
    S: int
    near: float
    energy: complex
    residual: float
    iterations: int
    inside: float
    moved: float = 0.0
    error: float = 0.0
    width_error: float = 0.0
    parity: str = "natural"
    threshold: float = -math.inf

    @property
    def width(self) -> float:
        """Gamma, hartree."""
        return -2.0 * self.energy.imag

    @property
    def bound(self) -> bool:
        """True below the first threshold of the symmetry, where no electron can leave and the true width is zero."""
        return self.energy.real < self.threshold

    @property
    def resolved(self) -> bool:
        """True if the width is larger than its error, or has none."""
        return not self.width_error >= self.width

    @property
    def label(self) -> str:
        """The symmetry as a part of the name of a number: ``1Po``."""
        return f"{2 * self.S + 1}{letter(self.L)}{parity_of(self.L, self.parity)[0]}"

    @property
    def name(self) -> str:
        """Words for the symmetry."""
        return Sector(self.L, self.S, self.parity).name


@dataclass
class ResonanceResult:
    """All complex energies of a deck."""

    problem: Problem
    setup: Setup
    resonances: list[Resonance]
    unknowns: int
    condition: float
    task: ClassVar[str] = "resonances"


def _each(
    name: str, unit: str, value: Callable[[Resonance], tuple[float, float | None]], text: str
) -> Quantity[ResonanceResult]:
    """Return a quantity with one scalar per resonance, from its value and error."""

    def scalars(result: ResonanceResult) -> dict[str, Scalar]:
        out = {}
        for k, resonance in enumerate(result.resonances):
            number, error = value(resonance)
            known = error is not None and np.isfinite(error)
            where = f"{resonance.name}, near {resonance.near:g} hartree"
            out[f"{name}_{resonance.label}_{k}"] = Scalar(
                number, unit, error if known else None, f"{text}, {where}", alias=f"{name}_{k}"
            )
        return out

    return Quantity(f"{name}_*", unit, text, scalars, headline=(f"{name}_0",))


def _array(value: Callable[[Resonance], float]) -> Callable[[ResonanceResult], NDArray[np.float64]]:
    """Return a function that gives an array with one number per resonance."""
    return lambda result: np.array([value(resonance) for resonance in result.resonances])


QUANTITIES: tuple[Quantity[ResonanceResult], ...] = (
    _each("resonance_energy", "hartree", lambda one: (one.energy.real, one.error), "position of the resonance"),
    _each("resonance_width", "hartree", lambda one: (one.width, one.width_error), "width of the resonance"),
    Quantity("unknowns", "", "coefficients of the largest solution", lambda r: r.unknowns,
             headline=("unknowns", "solver_iterations")),
    Quantity("solver_iterations", "", "steps of the linear solver for one resonance",
             lambda r: max(resonance.iterations for resonance in r.resonances)),
    _each("residual", "hartree", lambda one: (one.residual, None), "|H v - E v|"),
    Quantity("contour_condition", "", "largest condition number of the one-electron eigenvectors",
             lambda r: r.condition, exact=True),
    Quantity("r", "bohr", "radial nodes", lambda r: r.setup.grid.r, ("r",), note="complex on the contour beyond R0"),
    Quantity("resonance_energy", "hartree", "positions of resonances", _array(lambda one: one.energy.real), ("resonance",)),
    Quantity("resonance_width", "hartree", "widths, -2 Im E", _array(lambda one: one.width), ("resonance",)),
    Quantity("resonance_error", "hartree", "largest error of position and half width",
             _array(lambda one: max(one.error, 0.5 * one.width_error)), ("resonance",)),
)  # fmt: skip
