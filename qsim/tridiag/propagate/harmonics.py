"""High harmonics of an electron in one dimension: orders, spectrum and cutoffs, of a run and of its companions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.tridiag.tdse import harmonics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.tridiag.deck.observe import Hhg
    from qsim.tridiag.propagate.result import Propagated

__all__ = ["Harmonics", "spectrum"]


@dataclass(frozen=True)
class Harmonics:
    """A harmonic spectrum.

    Attributes
    ----------
    order, power : (k,) float64
        Harmonic order, and the spectrum of the acceleration, a.u.
    classical, cutoff : float or None
        Orders of the classical cutoff and of the end of the plateau; None where there is none.
    """

    order: NDArray[np.float64]
    power: NDArray[np.float64]
    classical: float | None
    cutoff: float | None


def spectrum(result: Propagated, block: Hhg) -> Harmonics:
    """Return the harmonics of the fine trace: output times are too few."""
    problem = result.problem
    omega, top = problem.fundamental(block), problem.max_order(block)
    time, signal = result.traced("time"), result.traced(block.form)
    order, power = harmonics.hhg(time, signal, omega, block.window, top, form=block.form)
    classical = problem.classical_cutoff(omega)
    cutoff = None if classical is None else harmonics.cutoff_order(order, power, classical)
    return Harmonics(order, power, classical, cutoff)
