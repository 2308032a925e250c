r"""Real one-electron functions far and near: continuum states, bound levels, outgoing Coulomb waves, phases.

Continuum functions come from the R-matrix of the real part of the grid.  With the eigenvectors w_j of ``h_l`` and its Bloch term
(eigenvalues e_j), the regular solution at any energy is

    u(r) = 1/2 sum_j w_j(r) w_j(R) / (e_j - e) u'(R),

one matrix product for any number of energies and for any one-body potential.  It is normalised to
``sqrt(2/pi) sin(k r + ...)``, that is ``<k|k'> = delta(k - k')``, by Steed's continued fraction for the outgoing Coulomb wave at
R (:mod:`qsim.sturmian.radial.coulomb`); no phase has to be found for that.  These functions are orthogonal to the bound states
of h_l, which is why amplitudes taken with them hold no part of any discrete channel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.pool import each_call
from qsim.core.errors import NumericsError
from qsim.sturmian.radial.coulomb import steed
from qsim.sturmian.radial.grid import RadialGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

# Sets of continuum functions that are kept: one for each open channel, the same for all gauges.
KEPT = 256
# Terms of the asymptotic series of a Coulomb wave.
ASYMPTOTIC = 60
# Share of its largest value that a level may have left at the end of the box that holds it.
HELD = 2e-3
# The same in the smaller box that tells errors: what it cuts off makes them larger.
ROUGHLY = 0.05
# Last term of that series that counts as converged.
SETTLED = 1e-11


def real_part(grid: RadialGrid) -> RadialGrid:
    """Return the part [0, R0] of a grid with its last node kept."""
    bounds = np.asarray(grid.bounds)
    real = bounds[bounds.imag == 0.0].real if grid.is_complex else bounds.real
    return RadialGrid(np.ascontiguousarray(real), grid.order, keep_last=True)


class Continuum:
    """Continuum functions of h_l on the real part of a grid, at any energy.

    Parameters
    ----------
    real : RadialGrid
        From `real_part`.
    potential
        One-body potential, hartree, of radii in bohr; beyond R it has to be ``-charge / r``.
    charge : float
        Charge that the electron sees beyond R.
    share : float
        Of its largest value, that a level may have left at R.
    """

    def __init__(
        self,
        real: RadialGrid,
        potential: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        charge: float,
        share: float = HELD,
    ) -> None:
        self.real, self.charge, self.share = real, float(charge), share
        self.V = np.asarray(potential(real.r), float)
        self._levels: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._bound: dict[tuple[int, int, float | None], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._functions: dict[tuple[int, bytes], NDArray[np.float64]] = {}

    def _eigen(self, l: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if l not in self._levels:
            h = np.array(self.real.kinetic(l), float)
            h[np.diag_indices_from(h)] += self.V
            # unlike SciPy's, it lets other threads work meanwhile
            pairs = np.linalg.eigh(h)
            self._levels[l] = pairs.eigenvalues, pairs.eigenvectors
        return self._levels[l]

    def functions(self, l: int, energies: ArrayLike) -> NDArray[np.float64]:
        """Return the regular functions of l at some energies, (k, n): values at the nodes, R included.

        Parameters
        ----------
        l : int
            Orbital momentum.
        energies : (k,)
            Hartree, positive.

        Returns
        -------
        (k, n) float64
            Normalised to ``sqrt(2/pi) sin(...)``, positive at the first node.
        """
        e = np.atleast_1d(np.asarray(energies, float))
        if np.any(e <= 0.0):
            raise NumericsError(f"a continuum function needs a positive energy, not {e.min():g} hartree")
        # Amplitudes of all gauges and spins ask for the same energies; the key is the bytes of
        # these.
        known = self._functions.get((l, e.tobytes()))
        if known is not None:
            return known
        levels, w = self._eigen(l)
        # R-matrix: expand in the eigenfunctions with u' = 0 at R, whose surface values w_j(R)
        # couple to the derivative that is set to 1. The energy of an eigenfunction itself is
        # moved aside by rounding.
        at_R = w[-1] / math.sqrt(float(self.real.w[-1]))
        gap = levels[None, :] - e[:, None]
        gap = np.where(np.abs(gap) < 1e-14, 1e-14, gap)
        # of u'(R) = 1
        c = 0.5 * (at_R[None, :] / gap) @ w.T
        u = c / np.sqrt(self.real.w)[None, :]
        R = float(np.real(self.real.R))
        # Normalise at R by the outgoing wave H = G + i F, with H'/H = p + i q: the amplitude of
        # u with u' = 1 follows from u and (u' - p u)/q, and the Wronskian makes |H|^2 = 1/q.
        for i, energy in enumerate(e):
            k = math.sqrt(2.0 * energy)
            H = steed(l, -self.charge / k, k * R)
            p, q = H.real, H.imag
            norm = 1.0 / math.sqrt(q) / math.hypot(u[i, -1], (1.0 / k - p * u[i, -1]) / q)
            u[i] *= norm * math.sqrt(2.0 / math.pi) * (1.0 if u[i, 0] > 0.0 else -1.0)
        # Full: start again, which is simpler than to rank the sets by age and as good for the
        # sequence of channels.
        if len(self._functions) >= KEPT:
            self._functions.clear()
        # shared by all that ask for them
        u.flags.writeable = False
        self._functions[l, e.tobytes()] = u
        return u

    def levels(
        self, l: int, count: int, R: float | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest bound levels of h_l and their functions.

        Levels that [0, R] does not hold are left out; by default R is the radius of the box.

        Returns
        -------
        e : (k,) float64
            Hartree, k <= count.
        P : (k, n) float64
            Values at the nodes, ``int P^2 dr = 1``, positive near the nucleus.
        """
        known = self._bound.get((l, count, R))
        if known is not None:
            return known
        levels, w = self._eigen(l)
        # The box also turns continuum into discrete states, at positive energies; and it
        # squeezes high levels, which `held` leaves out.
        bound = np.flatnonzero(levels < 0.0)[:count]
        P = (w[:, bound] / np.sqrt(self.real.w)[:, None]).T
        held = np.array([self.held(function, R) for function in P], bool)
        P = P[held] * np.where(P[held, :1] < 0.0, -1.0, 1.0)
        self._bound[l, count, R] = levels[bound][held], P
        return self._bound[l, count, R]

    def polarisability(self) -> float:
        """Return the dipole polarisability of the lowest s level, bohr^3: a sum over all p functions of the box."""
        levels, P = self.levels(0, 1)
        e, w = self._eigen(1)
        moments = w.T @ (P[0] * self.real.r * np.sqrt(self.real.w))
        # alpha = 2 sum_n <n|z|0>^2/(e_n - e_0), and the angles leave a third of the radial square
        return float(2.0 / 3.0 * (moments**2 / (e - levels[0])).sum())

    def held(self, function: NDArray[np.float64], R: float | None = None) -> bool:
        """Tell whether [0, R] holds a function (n,), by default the whole box."""
        return self.lost(function, R) < self.share

    def lost(self, function: NDArray[np.float64], R: float | None = None) -> float:
        """Return the largest value of a function at R and beyond, relative to its largest one."""
        return float(self.lost_beyond(function, [float(np.real(self.real.R if R is None else R))])[0])

    def lost_beyond(self, function: NDArray[np.float64], radii: ArrayLike) -> NDArray[np.float64]:
        """Return what :meth:`lost` does for several radii, (R,)."""
        size = np.abs(function)
        # Largest value at each node and beyond; the nodes ascend.
        beyond = np.maximum.accumulate(size[::-1])[::-1]
        first = np.searchsorted(self.real.r, np.asarray(radii, float) * (1.0 - 1e-12))
        return np.asarray(beyond[first] / max(float(size.max()), 1e-300))


def prepare(fields: Sequence[Continuum], ls: Sequence[int], threads: int) -> None:
    """Find the eigenfunctions of some l in some fields on threads, one on each; the fields keep them."""
    missing = [(field, l) for field in fields for l in ls if l not in field._levels]

    def work(first: int, last: int) -> None:
        for field, l in missing[first:last]:
            field._eigen(l)

    each_call(work, len(missing), sum(field.real.size**3 for field, _ in missing), threads)


def phase(l: int, charge: float, k: float) -> float:
    """Return the Coulomb phase ``arg Gamma(l + 1 - i charge / k)``, radian."""
    from scipy.special import loggamma

    return float(np.imag(loggamma(l + 1 - 1j * charge / k)))


def outgoing_wave(l: int, charge: float, k: float, r: float) -> tuple[complex, complex]:
    """Return ``H+_l`` at r and its derivative with respect to r, from its asymptotic series.

    ``H+`` behaves like ``exp(i (k r + charge/k ln 2 k r - l pi/2 + sigma_l))``.

    Raises
    ------
    NumericsError
        If r is too small for the series.
    """
    rho, eta = k * r, -charge / k
    theta = rho - eta * math.log(2.0 * rho) - 0.5 * l * math.pi + phase(l, charge, k)
    total = term = 1.0 + 0j
    # The series diverges in the end: it is summed to its smallest term.
    for n in range(ASYMPTOTIC):
        factor = (1j * eta - l + n) * (1j * eta + l + 1 + n) / (2j * rho * (n + 1))
        if abs(term * factor) > abs(term) and abs(term) > SETTLED:
            break
        term *= factor
        total += term
        if abs(term) < 1e-16 * abs(total):
            break
    if abs(term) > SETTLED * abs(total):
        raise NumericsError(
            f"the outgoing wave of l = {l}, k = {k:.4g} has not reached its asymptotic form at {r:.4g} bohr",
            hint="a larger grid.R",
        )
    value = complex(np.exp(1j * theta)) * total
    return value, value * k * steed(l, eta, rho)
