r"""Photoelectron spectra of the final state: window operator, and projection on scattering states.

**Window operator** (Schafer, Comput. Phys. Commun. 63, 427 (1991)), for each l:

    W(E) = gamma^p / ((H - E)^p + gamma^p),   p = 2^order;

is a sum of resolvents at half of the shifts, ``sum_k a_k (H - E - s_k)^-1``, ``s_k = gamma exp(i pi (2 k - 1) / p)``, ``a_k =
prod_(j != k) 1 / (s_k - s_j)``: one tridiagonal system each, in a box without an end (`photoelectrons/outgoing`).  The
norm of what is left, over the integral of the window ``2 pi gamma / (p sin(pi / p))``, is dP/dE.  The angle-resolved spectrum
takes positions as angles.

**Scattering states** ``u_El -> sqrt(2 / (pi k)) sin(k r + Z ln(2 k r) / k - l pi / 2 + eta_l)``, ``eta_l = sigma_l +
delta_l``, by
outward recurrence of ``(M2 - 6 / g) Z = 0`` and matching to the phase-amplitude form ``sqrt(2 / (pi zeta))
sin(Phi)``, ``Phi' = zeta``,

    zeta^2 = kappa^2 + 3/4 (zeta' / zeta)^2 - zeta'' / (2 zeta),   kappa^2 = 2 (E - V) - l (l + 1) / r^2,

solved by iteration where the potential is its Coulomb tail.  With them

    dP/dE = sum_l |<u_El|u_l>|^2,   d2P/dE dOmega = |sum_l (-i)^l exp(i eta_l) Y_lm <u_El|u_l>|^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import sph_harm_y

from qsim.tridiag.atom.photoelectrons.angles import Sky, even_azimuths
from qsim.tridiag.atom.photoelectrons.outgoing import QUIET, beyond, leaving
from qsim.tridiag.atom.states.lanes import PlanarLanes
from qsim.tridiag.atom.states.levels import Radial
from qsim.tridiag.atom.states.observables import by_momentum
from qsim.tridiag.kernels.resolvents import resolvents
from qsim.tridiag.tdse.photoelectrons import Photoelectrons

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.lanes import AnyLanes

__all__ = ["Angles", "local_wave", "scattering", "scattering_states", "window"]

# of the integral of the phase to infinity
NODES = 64
# complex numbers of the waves that are solved for at a time
SOLVED = 2_000_000
# of the iteration for zeta
SWEEPS = 3
# relative step of the derivatives of zeta
STENCIL = 1e-3


@dataclass(frozen=True)
class Angles:
    """Directions of an angle-resolved spectrum.

    Attributes
    ----------
    count : int or None
        Polar angles; in a plane, azimuths. None for the spectrum alone.
    polar : int or None
        In a plane: polar angles, if it is to be resolved out of the plane.
    """

    count: int | None
    polar: int | None = None


def spherical_harmonics(lanes: AnyLanes, angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``Y_lm(theta, 0)`` of all channels, (used, a)."""
    return np.asarray(sph_harm_y(lanes.ls[:, None], lanes.ms[:, None], angle[None, :], 0.0).real)


def directions(lanes: AnyLanes, count: int) -> NDArray[np.float64]:
    """Return polar angles, 0 to pi; of planar lanes, azimuths -pi to pi without the last, (count,) radian."""
    if isinstance(lanes, PlanarLanes):
        return even_azimuths(count)
    return np.linspace(0.0, math.pi, count)


def window(
    atom: tuple[AtomLattice, AtomLattice],
    lanes: AnyLanes,
    phi: NDArray[np.complex128],
    energy: NDArray[np.float64],
    shape: tuple[float, int],
    angles: Angles,
    each: Callable[[int], None] = lambda done: None,
    threads: int = 1,
) -> Photoelectrons:
    """Return the spectrum by the window operator.

    Parameters
    ----------
    atom : (box, beyond)
        Grid and potential of the box, without its absorber, and of a larger box.
    lanes, phi
        Channels and the length-gauge state (used, n).
    energy : (k,) float64
        Hartree, may be negative.
    shape : (float, int)
        Half width gamma, hartree, and order of the window: its exponent is 2^order.
    angles
        Directions.
    each
        Called with the number of energies done.
    threads
        At most.
    """
    gamma, order = shape
    p = 2**order
    # (H - E)^p + gamma^p has its roots on a circle about E; half of them give an operator whose square is the window
    shifts = gamma * np.exp(1j * np.pi * (2 * np.arange(1, p // 2 + 1) - 1) / p)
    area = 2.0 * math.pi * gamma / (p * math.sin(math.pi / p))
    # |gamma^(p/2) prod (H - E - s_k)^-1 psi|^2 is <W>; the area of the window makes it a density
    factor = gamma**p / area
    theta = directions(lanes, angles.count or 2)
    sky = _sky(lanes, angles, theta)
    y = np.zeros((0, 0)) if isinstance(lanes, PlanarLanes) else spherical_harmonics(lanes, theta)
    # channels without norm have no spectrum: their systems are not solved
    alive = np.sum(np.abs(phi) ** 2, axis=1) > QUIET
    used = {int(l): np.flatnonzero((lanes.ls == l) & alive) for l in np.unique(lanes.ls[alive])}
    lattice, far = atom
    radials = {l: Radial(lattice, l) for l in used}
    # partial fractions: the product of resolvents becomes a sum, one solution per root
    parts = np.array([1.0 / np.prod((one - shifts)[shifts != one]) for one in shifts])
    # all energies and shifts at once: the recurrence from far away is a loop over points, not over energies
    z = energy[:, None] + shifts
    # boundary condition of an outgoing wave at the wall, so that the box has no levels of its own
    rho = {l: leaving(far, phi.shape[1], l, z.ravel(), threads).reshape(z.shape) for l in used}
    outside = {l: beyond(rho[l], z) for l in used}
    partial, angular = np.zeros((energy.size, lanes.used)), np.zeros((energy.size, theta.size))
    sphere = np.zeros((energy.size, 0 if sky is None else sky.theta.size, theta.size))
    n, block = phi.shape[1], max(1, SOLVED // phi.size)
    for i in range(energy.size):
        # some energies at a time, on all threads
        if i % block == 0:
            some = slice(i, i + block)
            waves = {
                l: resolvents(radials[l], z[some], rho[l][some], phi[here], threads, parts)
                for l, here in used.items()
            }
        # the points of the box, and for each shift one number for all that lies beyond the wall
        left = np.zeros((phi.shape[0], n + shifts.size), dtype=complex)
        for l, here in used.items():
            inside, edges = (one[i % block] for one in waves[l])
            left[here, :n] = inside.T
            # what lies beyond the wall: a few numbers per energy that have the same overlaps as the waves there
            left[here, n:] = (parts[:, None] * edges).T @ outside[l][i]
        partial[i] = factor * np.sum(np.abs(left) ** 2, axis=1)
        if sky is not None:
            sphere[i] = factor * sky.density(left.T)
        elif angles.count is not None:
            angular[i] = factor * np.sum(np.abs(left.T @ y) ** 2, axis=0)
        each(i + 1)
    partial = by_momentum(partial, lanes)
    spectrum = Photoelectrons(energy, partial.sum(axis=1), partial, theta, angular)
    return spectrum if sky is None else _around(spectrum, sky, sphere)


def _sky(lanes: AnyLanes, angles: Angles, azimuth: NDArray[np.float64]) -> Sky | None:
    """Return the plane and the requested polar angles; None along z, or without angles."""
    if not isinstance(lanes, PlanarLanes) or angles.count is None:
        return None
    polar = np.linspace(0.0, math.pi, angles.polar) if angles.polar else np.zeros(0)
    return Sky(lanes, np.concatenate([[0.5 * math.pi], polar]), azimuth)


def _around(spectrum: Photoelectrons, sky: Sky, sphere: NDArray[np.float64]) -> Photoelectrons:
    """Return a spectrum with its angles: the first polar angle is the plane, the rest are the requested ones."""
    spectrum = replace(spectrum, angular=sphere[:, 0])
    return spectrum if sky.theta.size == 1 else replace(spectrum, polar=sky.theta[1:], sphere=sphere[:, 1:])


def scattering(
    lattice: AtomLattice,
    lanes: AnyLanes,
    phi: NDArray[np.complex128],
    energy: NDArray[np.float64],
    angles: Angles,
    tail: float,
    known: dict[int, Any],
) -> Photoelectrons:
    """Return the spectrum by projection on scattering states.

    Parameters
    ----------
    lattice
        Grid and potential.
    lanes, phi, energy, angles
        As of `window`.
    tail
        Charge that is seen from far away.
    known
        States and phases of each l, on this grid and at these energies; those that are missing are added.
    """
    theta = directions(lanes, angles.count or 2)
    sky = _sky(lanes, angles, theta)
    amplitude = np.zeros((energy.size, lanes.used), dtype=complex)
    phase = np.zeros((energy.size, lanes.lmax - lanes.lowest + 1))
    for l in np.unique(lanes.ls):
        here = lanes.ls == l
        # channels without norm are left out: their scattering states would cost as much as others
        if float(np.sum(np.abs(phi[here]) ** 2)) <= QUIET:
            continue
        if int(l) not in known:
            known[int(l)] = scattering_states(lattice, int(l), energy, tail)
        states, eta = known[int(l)]
        # incoming boundary condition: phase -l pi/2 + eta_l, by which partial waves interfere in a direction
        amplitude[:, here] = ((-1j) ** int(l) * np.exp(1j * eta))[:, None] * (states @ phi[here].T)
        phase[:, l - lanes.lowest] = eta
    partial = by_momentum(np.abs(amplitude) ** 2, lanes)
    angular = np.zeros((energy.size, theta.size))
    if sky is None:
        angular = np.abs(amplitude @ spherical_harmonics(lanes, theta)) ** 2
    spectrum = Photoelectrons(
        energy, partial.sum(axis=1), partial, theta, angular, np.mod(phase, 2.0 * math.pi)
    )
    if sky is None:
        return spectrum
    return _around(spectrum, sky, np.swapaxes(np.abs(sky.total(amplitude)) ** 2, 0, 1))


def scattering_states(
    lattice: AtomLattice, l: int, energy: NDArray[np.float64], tail: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return energy-normalised states ``phi_El`` (k, n) of one l, and ``eta_l`` (k,), radian.

    Parameters
    ----------
    lattice, l
        Atom and angular momentum.
    energy : (k,) float64
        Above 0, hartree.
    tail : float
        Charge that is seen from far away.
    """
    # outward from the nucleus: the regular solution grows, so that the recurrence is stable in this direction
    radial, grid = Radial(lattice, l), lattice.grid
    n = grid.points
    # all energies side by side: one loop over the points
    g = 6.0 + radial.square[:, None] * (energy[None, :] - radial.potential[:, None])
    z = np.zeros((n, energy.size))
    z[0] = 1e-30 * g[0]
    before = np.zeros(energy.size)
    for j in range(n - 1):
        diagonal = radial.first if j == 0 else 10.0 / 12.0
        z[j + 1] = 12.0 * (6.0 / g[j] - diagonal) * z[j] - before
        before = z[j]
        large = np.abs(z[j + 1]).max()
        # a high l grows from nearly nothing
        if large > 1e100:
            z[: j + 2] /= large
            before = z[j]
    x = z / g
    # points within a steep centrifugal wall alternate
    # sign: positive in the first lobe that is clear of rounding
    lobe = np.argmax(np.abs(x) > 1e-4 * np.abs(x).max(axis=0), axis=0)
    x = x * np.sign(np.take_along_axis(x, lobe[None, :], axis=0))
    # amplitude and phase at the end of the grid by matching value and slope to sqrt(2 / (pi zeta)) sin(Phi)
    u = np.sqrt(grid.slope)[:, None] * x
    # value and slope in the middle of the last five points, by a quartic through them; spacing is even there
    last = u[-5:]
    h = float(grid.r[-2] - grid.r[-3])
    value = last[2]
    slope = (last[0] - 8.0 * last[1] + 8.0 * last[3] - last[4]) / (12.0 * h)
    r = float(grid.r[-3])
    zeta, growth = local_wave(energy, l, tail, r)
    # of sqrt(2/(pi zeta)) sin Phi: zeta times the cosine
    turned = slope + 0.5 * growth / zeta * value
    size = np.sqrt(zeta * value**2 + turned**2 / zeta)
    here = np.arctan2(zeta * value, turned)
    k = np.sqrt(2.0 * energy)
    eta = (
        here - (k * r + tail / k * np.log(2.0 * k * r) - 0.5 * l * math.pi) + _to_infinity(energy, l, tail, r)
    )
    # phi = r' X, normalised to delta(E - E') by the amplitude far away
    phi = (grid.slope[:, None] * x) * (math.sqrt(2.0 / math.pi) / size)
    return np.ascontiguousarray(phi.T), eta


def _kappa(
    energy: NDArray[np.float64], l: int, tail: float, r: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(2.0 * energy + 2.0 * tail / r - l * (l + 1.0) / r**2)


def _zeta(
    energy: NDArray[np.float64], l: int, tail: float, r: float | NDArray[np.float64], sweeps: int
) -> NDArray[np.float64]:
    """Return zeta(r) after a number of iterations, each with differences of the one before."""
    # amplitude equation of Milne, solved by iteration from the WKB wave number kappa outward; each sweep takes
    # the derivatives of the one before
    square = _kappa(energy, l, tail, r)
    if sweeps == 0:
        return np.sqrt(np.maximum(square, 1e-6))
    h = STENCIL * r * 10.0
    below, here, above = (_zeta(energy, l, tail, s, sweeps - 1) for s in (r - h, r, r + h))
    first, second = (above - below) / (2.0 * h), (above - 2.0 * here + below) / h**2
    return np.sqrt(np.maximum(square + 0.75 * (first / here) ** 2 - 0.5 * second / here, 1e-6))


def local_wave(
    energy: NDArray[np.float64], l: int, tail: float, r: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the local wave number zeta of a Coulomb tail and its slope at a radius, (k,)."""
    h = STENCIL * r
    below, here, above = (_zeta(energy, l, tail, s, SWEEPS) for s in (r - h, r, r + h))
    return here, (above - below) / (2.0 * h)


def _to_infinity(energy: NDArray[np.float64], l: int, tail: float, r: float) -> NDArray[np.float64]:
    """Return what ``Phi - k r - Z ln(2 k r) / k`` still gains between r and infinity, (k,)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    k = np.sqrt(2.0 * energy)
    total = np.zeros(energy.size)
    # integral over r from the radius to infinity in s = 1/r, where the integrand is smooth; all nodes side by side
    at = 2.0 * r / (1.0 + nodes)
    gains = _zeta(energy, l, tail, at[:, None], SWEEPS) - k - tail / (k * at[:, None])
    for one, weight, gain in zip(at, weights, gains, strict=True):
        total += 0.5 * weight / r * one**2 * gain
    return total
