r"""Photoelectron spectra from the flux through a sphere (t-SURFF), with the flux after the end of the run by resolvents (iSURFV).

Beyond R the electron is taken as free in the field: ``chi_k ~ exp(i k.r - i k^2 t / 2 - i k.alpha)``, ``alpha = int A dt``.  With
``u_l`` and its slope at R in velocity gauge, ``b(k) = i int dt <chi_k|[H, Theta(r - R)]|psi>`` is

    b = i sqrt(2/pi) int dt exp(i k^2 t / 2 + i k.alpha) sum_l (-i)^l Y_lm(k) B_l,
    B_l = 1/2 ((r j_l(k r))' u_l - R j_l(k R) u_l') - i A R j_l(k R) sum_l' <l|cos|l'> u_l',

and ``d3P/dk3 = |b|^2`` (Tao and Scrinzi, New J. Phys. 14, 013021 (2012)).  After the end T, where A = 0, the integral to infinity
replaces u_l by ``-i (H_l - i W - k^2 / 2)^-1 u_l(T)``: one tridiagonal system per l and energy (Morales, Bredtmann and
Patchkovskii, J. Phys. B 49, 245001 (2016)).

What the potential beyond R does is left out: of order 1/R for a Coulomb tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import roots_legendre, sph_harm_y, spherical_jn

from qsim.tridiag.atom.photoelectrons.spectra import local_wave
from qsim.tridiag.atom.states.levels import Radial
from qsim.tridiag.atom.states.observables import length_gauge
from qsim.tridiag.tdse.flux import SIDE, SLOPE, sample_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.lanes import AnyLanes, Lanes
    from qsim.tridiag.tdse.flux import Surface

__all__ = [
    "Sphere",
    "amplitudes",
    "at_radius",
    "directions",
    "reflection",
    "spherical_harmonics",
    "tail",
    "values",
    "waves",
]

# of the polar angle, beyond twice the largest l
NODES = 8
QUIET = 1e-30


@dataclass(frozen=True)
class Sphere:
    """A sphere on the grid.

    Attributes
    ----------
    index : int
        Point of the grid.
    radius : float
        Bohr.
    """

    index: int
    radius: float

    @property
    def window(self) -> slice:
        """Points around it."""
        return slice(self.index - SIDE, self.index + SIDE + 1)


def at_radius(lattice: AtomLattice, radius: float) -> Sphere:
    """Return the sphere through the point of the grid that is nearest to a radius."""
    grid = lattice.grid
    k = int(np.clip(np.argmin(np.abs(grid.r - radius)), SIDE, grid.points - 1 - SIDE))
    return Sphere(k, float(grid.r[k]))


def values(
    phi: NDArray[np.complex128],
    lattice: AtomLattice,
    lanes: AnyLanes,
    sphere: Sphere,
    a: NDArray[np.float64],
) -> NDArray[np.complex128]:
    """Return u_l and du_l/dr at R, (2, used), of a state that ``exp(-i a.r)`` takes to velocity gauge; a is (1 or 2,).

    `phi` is the state on the window of the sphere, (used, 7); a box that grows and has not reached it has fewer points there.
    """
    grid, near = lattice.grid, sphere.window
    # nothing has arrived there yet
    if phi.shape[1] < 2 * SIDE + 1:
        return np.zeros((2, lanes.used), dtype=complex)
    u = length_gauge(phi, grid.r[near], lanes, -a) / np.sqrt(grid.slope[near])
    return np.array([u[:, SIDE], u @ SLOPE / grid.slope[sphere.index]])


def waves(
    k: NDArray[np.float64], l: NDArray[np.int64], r: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``r j_l(k r)`` and its slope, (k, l)."""
    j = spherical_jn(l[None, :], k[:, None] * r)
    slope = spherical_jn(l[None, :], k[:, None] * r, derivative=True)
    return r * j, j + k[:, None] * r * slope


@dataclass(frozen=True)
class _Free:
    """Free waves on a sphere, and directions.

    Attributes
    ----------
    wave, slope : (k, l) float64
    spherical_harmonics : (l, nodes) complex128
        ``(-i)^l Y_lm``.
    cosine : (nodes,) float64
    """

    k: NDArray[np.float64]
    wave: NDArray[np.float64]
    slope: NDArray[np.float64]
    spherical_harmonics: NDArray[np.complex128]
    cosine: NDArray[np.float64]

    def flux(
        self, u: NDArray[np.complex128], du: NDArray[np.complex128], driven: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        """Return B summed over l in every direction, (k, nodes); u, du, driven (l,) or (k, l)."""
        b = 0.5 * (self.slope * u - self.wave * du) - 1j * self.wave * driven
        return np.asarray(b @ self.spherical_harmonics)

    def phase(self, t: float, alpha: float) -> NDArray[np.complex128]:
        """Return ``exp(i k^2 t / 2 + i k.alpha)``, (k, nodes)."""
        return np.asarray(
            np.exp(0.5j * t * self.k**2)[:, None] * np.exp(1j * alpha * self.k[:, None] * self.cosine)
        )


def _free(k: NDArray[np.float64], lanes: Lanes, radius: float, cosine: NDArray[np.float64]) -> _Free:
    wave, slope = waves(k, lanes.ls, radius)
    return _Free(
        k,
        wave,
        slope,
        np.asarray((-1j) ** lanes.ls[:, None] * spherical_harmonics(lanes, cosine), complex),
        cosine,
    )


def spherical_harmonics(lanes: Lanes, cosine: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``Y_lm(theta, 0)`` of all channels, (l, directions)."""
    return np.asarray(sph_harm_y(lanes.ls[:, None], lanes.m, np.arccos(cosine)[None, :], 0.0).real)


def directions(lanes: Lanes, reach: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of cos(theta) for amplitudes of all l, turned by ``exp(i reach cos)``."""
    return roots_legendre(2 * lanes.lmax + NODES + int(reach))


def amplitudes(
    surface: Surface,
    lanes: Lanes,
    energy: NDArray[np.float64],
    cosine: NDArray[np.float64],
    each: Callable[[], None] = lambda: None,
) -> NDArray[np.complex128]:
    """Return b(k) of what passed until the end of the run, (energy, directions)."""
    free = _free(np.sqrt(2.0 * energy), lanes, surface.sphere.radius, cosine)
    weights = sample_weights(surface.time)
    c = lanes.coupling(lanes.ls[:-1])
    total = np.zeros((energy.size, cosine.size), dtype=complex)
    for i, t in enumerate(surface.time):
        u, du = surface.value[i], surface.slope[i]
        # samples before anything has arrived cost nothing
        if float(np.abs(u).max()) ** 2 > QUIET:
            driven = np.zeros_like(u)
            # A cos(theta) couples l and l + 1: the part of the flux in velocity gauge
            driven[:-1] += c * u[1:]
            driven[1:] += c * u[:-1]
            total += (
                weights[i]
                * free.phase(float(t), float(surface.alpha[i]))
                * free.flux(u, du, surface.a[i] * driven)
            )
        each()
    return 1j * math.sqrt(2.0 / math.pi) * total


def tail(
    lattice: AtomLattice,
    lanes: Lanes,
    phi: NDArray[np.complex128],
    sphere: Sphere,
    energy: NDArray[np.float64],
    cosine: NDArray[np.float64],
    end: tuple[float, float],
) -> NDArray[np.complex128]:
    """Return b(k) of what passes after the end of the run, (energy, directions).

    Parameters
    ----------
    lattice
        With a complex absorber.
    lanes, phi
        Channels, and the state at the end, where A = 0.
    sphere, energy, cosine
        As of `amplitudes`.
    end : (t, alpha)
        Time, and integral of A.
    """
    free = _free(np.sqrt(2.0 * energy), lanes, sphere.radius, cosine)
    u = np.zeros((energy.size, lanes.used), dtype=complex)
    du = np.zeros_like(u)
    near, root = sphere.window, np.sqrt(lattice.grid.slope)
    for k, l in enumerate(lanes.ls):
        if not np.any(np.abs(phi[k]) > 1e-15):
            continue
        radial = Radial(lattice, int(l))
        for i, e in enumerate(energy):
            # the absorber -i W belongs to H, so that it adds to E point by point
            # int_0^inf dt exp(i E t) exp(-i H t) = -i (H - E)^-1 of the state at the end; the absorber makes it
            # converge
            w = -1j * radial.resolvent_absorbed(float(e), phi[k], lattice.cap)[near] / root[near]
            u[i, k], du[i, k] = w[SIDE], w @ SLOPE / lattice.grid.slope[sphere.index]
    passed = free.phase(*end) * free.flux(u, du, np.zeros_like(u))
    return 1j * math.sqrt(2.0 / math.pi) * passed


def reflection(
    lattice: AtomLattice, l: int, sphere: Sphere, energy: NDArray[np.float64], charge: float
) -> NDArray[np.float64]:
    """Return the size of the wave that absorber and wall send back, relative to the outgoing wave at R, (energy,).

    Parameters
    ----------
    lattice, l, sphere
        With its absorber.
    energy
        Hartree, above 0.
    charge
        Charge that is seen from far away.
    """
    radial, grid = Radial(lattice, l), lattice.grid
    cap = np.zeros(grid.points) if lattice.cap is None else lattice.cap
    g = 6.0 + radial.square[:, None] * (energy[None, :] + 1j * cap[:, None] - radial.potential[:, None])
    first = sphere.window.start
    z = np.zeros((grid.points - first, energy.size), dtype=complex)
    # from the wall inwards, where u is zero: the solution that the wall and the absorber allow
    z[-1] = 1e-30
    after = np.zeros(energy.size, dtype=complex)
    for j in range(z.shape[0] - 1, 0, -1):
        z[j - 1] = 12.0 * (6.0 / g[first + j] - 10.0 / 12.0) * z[j] - after
        after = z[j]
        # behind the absorber the solution grows by many orders; only ratios count
        large = float(np.abs(z[j - 1]).max())
        if large > 1e100:
            z[j - 1 :] /= large
            after = z[j]
    # u = sqrt(r') X on the points of the sphere, from Z = g X
    near = sphere.window
    u = np.sqrt(grid.slope[near])[:, None] * z[: 2 * SIDE + 1] / g[near]
    slope = SLOPE @ u / grid.slope[sphere.index]
    # beyond the sphere the waves are exp(+-i int zeta) / sqrt(zeta), whose logarithmic slopes are +-i zeta -
    # zeta' / (2 zeta)
    zeta, growth = local_wave(energy, l, charge, sphere.radius)
    fall = 0.5 * growth / zeta
    # WKB waves that come back and go out, by value and slope at R
    back = slope - (1j * zeta - fall) * u[SIDE]
    out = slope + (1j * zeta + fall) * u[SIDE]
    return np.asarray(np.abs(back) / np.maximum(np.abs(out), 1e-300))
