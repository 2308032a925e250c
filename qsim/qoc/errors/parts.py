"""The errors that a run claims, by what makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Parts of the error of P, in the order of `Errors`.
PARTS = ("time", "grid", "box", "levels", "interpolation", "slots", "reference")


@dataclass(frozen=True)
class Errors:
    """Errors of a run and of its levels.

    Attributes
    ----------
    time, grid, box, levels : float
        Change of P from the run's time step, from the stencil's grid, from the walls, and from the truncation to K levels.
    interpolation : float
        Change of P between a field that is constant in each step and a spline, if the deck leaves open which is meant.
    reference : float
        Error of the reference itself, and what the rows of tables leave open.
    between : str
        Course of the field between its values: ``hold`` or ``cubic``.
    energies : (K,) float64
        Error of each energy, hartree; NaN for levels above the potential far outside.
    dipoles : (K, K) float64
        Error of each dipole matrix element, a.u.
    member : (S,) int
        Ensemble members on which the errors were determined.
    truth : (S, pairs, levels) complex128
        Final amplitudes of the reference for these members.
    of_members : (S,) float64
        Error of P of each of these members.
    guess : float
        Error of P of the first field; NaN where it is not known.
    fallen : str or None
        Reason why the levels do not belong to the whole potential.
    unclaimed : str or None
        Why no error of P is known; the parts are NaN then, and no member was followed.
    slots : float
        Change of P from values that are constant in each step, or a spline through them, to the function that the deck gives.
    continuous : (float, float) or None
        P under that function, and its error.
    """

    time: float
    grid: float
    box: float
    levels: float
    interpolation: float
    reference: float
    between: str
    energies: NDArray[np.float64]
    dipoles: NDArray[np.float64]
    member: NDArray[np.int64]
    truth: NDArray[np.complex128]
    of_members: NDArray[np.float64]
    guess: float = math.nan
    fallen: str | None = None
    unclaimed: str | None = None
    slots: float = 0.0
    continuous: tuple[float, float] | None = None

    @property
    def parts(self) -> dict[str, float]:
        """The parts by name."""
        return {
            "time step": self.time,
            "grid": self.grid,
            "box": self.box,
            "levels": self.levels,
            "interpolation": self.interpolation,
            "slots": self.slots,
            "reference": self.reference,
        }

    @property
    def total(self) -> float:
        """Error of P: the sum of the parts, at most 1; NaN if it is not known."""
        return math.nan if self.unclaimed else min(1.0, sum(self.parts.values()))
