r"""Photoelectron spectra of a propagation by a window on the energy.

Photoelectron spectra come from the window operator of Schafer (Comput. Phys. Commun. 63, 427 (1991)),

    W(E) = gamma^p / ((H - E)^p + gamma^p),   p = 2^order,

whose denominator factors into shifts ``H - E - gamma exp(i pi (2k-1)/p)``: half of them are solved for, one tridiagonal system
each, and the norm of what is left is ``<psi|W|psi>``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.run.loop import Progress
from qsim.tridiag.propagate.eigenstates import Pencil
from qsim.tridiag.tdse.photoelectrons import Photoelectrons

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.tridiag.deck.model import Photoelectron
    from qsim.tridiag.deck.photoelectrons import LineWindow
    from qsim.tridiag.propagate.lattice import Lattice
    from qsim.tridiag.propagate.result import Propagated

# points up to which a photoelectron spectrum is evaluated on the host
LARGEST_GRID = 8_000_000


class Window:
    """The window operator on the state at the end of a run, energy by energy.

    Parameters
    ----------
    result : Propagated
    block : Photoelectron or LineWindow
        Of the deck.
    """

    def __init__(self, result: Propagated, block: Photoelectron | LineWindow) -> None:
        self.result, self.block = result, block
        self.energy = result.problem.photoelectron_energies(block)

    @property
    def total(self) -> int:
        """Number of energies."""
        return self.energy.size

    def advance(self, report: Report) -> None:
        """Apply the operator at every energy."""
        problem, block = self.result.problem, self.block
        # lines as wide as the spacing of the energies make a smooth curve
        gamma = block.gamma if block.gamma is not None else float(self.energy[1] - self.energy[0])
        # the window operator is defined in length gauge
        a, psi = float(problem.kick(problem.t_final)[0]), self.result.psi.astype(complex)
        self.found = photoelectrons(
            problem.lattice, psi, self.energy, gamma, block.order, a, lambda done: report(Progress(done))
        )


def photoelectrons(
    lattice: Lattice,
    psi: NDArray[np.complex128],
    energies: NDArray[np.float64],
    gamma: float,
    order: int = 3,
    vector_potential: float = 0.0,
    each: Callable[[int], None] | None = None,
) -> Photoelectrons:
    """Return the energy distribution of a wavefunction by the window operator (Eq. T22).

    ``P(E) = <psi|W(E)|psi> / (gamma (pi / q) / sin(pi / 2q))``, ``q = 2^(order-1)``: the divisor is the area of the window,
    so that ``integral P dE`` over the spectrum of H is the norm.  A line has the width 2 gamma.

    Parameters
    ----------
    lattice : Lattice
        Grid, potential and stencil; the absorber does not count.
    psi : (n,) complex128
        ``sum |psi|^2 dx`` is its norm.
    energies : (m,) float64
        Where to evaluate, hartree; steps below gamma resolve the lines.
    gamma : float
        Half width of the window, hartree; above the spacing of the box states for a smooth continuum.
    order : int
        n of ``p = 2^n``: 1 (Lorentzian), 2, 3, ...; higher ones have steeper edges.
    vector_potential : float
        A of the velocity gauge at this time; psi is turned to the length gauge by ``exp(i A x)``.
    each : callable, optional
        Called with the number of energies done.

    Raises
    ------
    ValueError
        If the grid has more than `LARGEST_GRID` points.
    """
    if lattice.points > LARGEST_GRID:
        raise ValueError(
            f"photoelectron spectra are limited to {LARGEST_GRID:.0e} points, the grid has {lattice.points}"
        )
    half = 2 ** (order - 1)
    # half of the roots of (H - E)^p + gamma^p: the norm of the result is <psi|W|psi> (Eq. T22)
    shifts = gamma * np.exp(1j * np.pi * (2.0 * np.arange(1, half + 1) - 1.0) / (2.0 * half))
    area = gamma * (np.pi / half) / math.sin(np.pi / (2.0 * half))
    pencil = Pencil(np.asarray(lattice.potential, float), lattice.dx, lattice.stencil)
    start = np.asarray(psi, complex)
    # energies refer to length gauge, in which A does not appear in H
    if vector_potential:
        start = start * np.exp(1j * vector_potential * lattice.x)
    energies = np.asarray(energies, float)
    parts = np.empty((2, energies.size))
    origin = int(np.searchsorted(lattice.x, 0.0))
    for k, energy in enumerate(energies):
        chi = start
        # one tridiagonal solution per root, one after the other
        for shift in shifts:
            chi = gamma * pencil.solve(complex(energy + shift), chi)
        # electrons that have flown to the left, and to the right
        weight = chi.real**2 + chi.imag**2
        parts[0, k] = np.sum(weight[:origin])
        parts[1, k] = np.sum(weight[origin:])
        if each is not None:
            each(k + 1)
    parts *= lattice.dx / area
    none = np.zeros((energies.size, 0))
    return Photoelectrons(energies, parts.sum(axis=0), parts.T, none[0], none, error=np.zeros(energies.size))
