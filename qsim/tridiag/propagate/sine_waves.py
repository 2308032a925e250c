"""State at the end of a run, by a method in which free motion is exact: sine waves and Strang steps.

Three-point and compact stencils and the Crank-Nicolson step slow fast components down, and finer ones do so a little less.  The
norm that has reached an absorber, or a far part of the box, early on consists of the fastest components; it can be wrong by
orders of magnitude in a run and in all its refinements alike.  A Strang step

    exp(-i V h/2 - W h/2) exp(-i p^2 h/2) exp(-i V h/2 - W h/2)

between the walls of the run (Feit, Fleck and Steiger, J. Comput. Phys. 47, 412 (1982)) moves each sine wave at its own speed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.propagate.lattice import Lattice
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["final"]

# points times steps, at most: some tenths of a second
WORK = 8e6
# steps, where the run has fewer: long steps kick fast components through the absorber
FEWEST = 64
# longest step of a short run, a.u.
STEP = 0.02


def final(
    lattice: Lattice, psi0: NDArray[Any], dt: float, count: int, pulse: LaserField
) -> NDArray[np.complex128] | None:
    """Return the state at the end of a run, (n,); None if a run is too long for it.

    Parameters
    ----------
    lattice
        Grid, potential and absorber.
    psi0 : (n,)
        State at t = 0.
    dt, count
        Time step of the run, a.u., and number of steps.
    pulse
        The field.  Densities do not depend on the gauge: it acts as ``E x``.
    """
    from scipy.fft import dst

    total = count * dt
    # Strang steps: at least as many as the run has, and short enough for their own error
    steps = max(count, FEWEST, math.ceil(total / STEP))
    if steps * lattice.points > WORK:
        steps = count
    if steps * lattice.points > WORK:
        return None
    h = total / steps
    x: NDArray[np.float64] = np.asarray(lattice.xmin + lattice.dx * np.arange(lattice.points), float)
    # sines that vanish at the walls: their wave numbers, in which the kinetic energy is exact
    k = math.pi * np.arange(1, lattice.points + 1) / ((lattice.points + 1) * lattice.dx)
    half = np.exp(-0.5j * h * np.asarray(lattice.potential))
    if lattice.cap is not None:
        half = half * np.exp(-0.5 * h * np.asarray(lattice.cap))
    if lattice.mask is not None:
        # the mask of a step of length dt, for half of a step of length h
        half = half * np.asarray(lattice.mask) ** (0.5 * h / dt)
    # the kinetic factor of a step, one number per sine
    whole = np.exp(-0.5j * h * k * k)
    # the field of a step at its midpoint keeps second order
    field = pulse.steps(steps, h) if pulse.pulses else None
    psi = np.array(psi0, dtype=complex)
    for i in range(steps):
        kick = half if field is None else half * np.exp(-0.5j * h * float(field[i]) * x)
        # V/2, T, V/2; the sine transform of type 1 is its own inverse with this normalisation
        psi = kick * dst(whole * dst(kick * psi, type=1, norm="ortho"), type=1, norm="ortho")
    return psi
