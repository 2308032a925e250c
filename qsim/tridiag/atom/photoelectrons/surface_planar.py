r"""Photoelectron spectra from the flux through a sphere, of a field that turns in a plane; see `photoelectrons/surface`.

With A and ``alpha = int A dt`` in the plane, ``n`` a direction and ``X = sin(theta) cos(phi - phi_A)``,

    b = i sqrt(2/pi) int dt exp(i k^2 t / 2 + i k alpha.n) sum_lm (-i)^l Y_lm(n) B_lm,
    B_lm = 1/2 ((r j_l)' u_lm - R j_l u_lm') - i |A| R j_l sum_l'm' <l m|X|l' m'> u_l'm'.

The phase spreads b over degrees up to ``l_max + k |alpha|``: directions are chosen for these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.atom.photoelectrons.angles import Sky, even_azimuths, nodes
from qsim.tridiag.atom.photoelectrons.surface import QUIET, waves
from qsim.tridiag.atom.states.levels import Radial
from qsim.tridiag.atom.states.observables import along
from qsim.tridiag.tdse.flux import SIDE, SLOPE, sample_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.photoelectrons.surface import Sphere
    from qsim.tridiag.atom.states.lanes import PlanarLanes
    from qsim.tridiag.tdse.flux import Surface

__all__ = ["Rays", "planar_amplitudes", "planar_tail", "rays"]


@dataclass(frozen=True)
class Rays:
    """Directions in which amplitudes are found: nodes of an integral, the plane, and requested polar angles.

    Attributes
    ----------
    sky : Sky
        Polar angles: nodes, pi/2, requested ones; even azimuths, a multiple of the requested ones.
    weights : (nodes,) float64
        Of cos(theta).
    stride : int
        Azimuths per requested one.
    """

    sky: Sky
    weights: NDArray[np.float64]
    stride: int

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.weights.size

    def spectrum(
        self, b: NDArray[np.complex128], k: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dP/dE (k,), and the part of each channel (k, used), of amplitudes (angles, k, azimuths)."""
        # integral over azimuths by even points, which is exact for a finite Fourier sum
        inner = b[: self.nodes]
        size = np.sum(np.abs(inner) ** 2, axis=2) * (2.0 * math.pi / b.shape[2])
        parts = Sky(self.sky.lanes, self.sky.theta[: self.nodes], self.sky.azimuth).projected(
            inner, self.weights
        )
        return k * (self.weights @ size), k[:, None] * np.abs(parts) ** 2

    def in_plane(self, b: NDArray[np.complex128], k: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return d2P/(dE dOmega) at theta = pi/2, (k, requested azimuths)."""
        return np.asarray(k[:, None] * np.abs(b[self.nodes, :, :: self.stride]) ** 2)

    def requested(self, b: NDArray[np.complex128], k: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return d2P/(dE dOmega) in the requested directions, (k, polar, azimuths)."""
        density = np.abs(b[self.nodes + 1 :, :, :: self.stride]) ** 2
        return np.asarray(np.swapaxes(density, 0, 1) * k[:, None, None])


def rays(lanes: PlanarLanes, reach: float, polar: int, azimuths: int) -> Rays:
    """Return directions for degrees up to ``l_max + reach``, with these numbers of polar angles (or none) and azimuths."""
    # exp(i k alpha.n) of size `reach` has degrees up to about that: nodes and azimuths must resolve their
    # product with Y_lm
    band = lanes.lmax + reach
    theta, weights = nodes(lanes, band)
    # at least two azimuths per order of the band, with room, in a multiple of the requested ones
    stride = math.ceil((2.0 * band + 16.0) / azimuths)
    reported = np.linspace(0.0, math.pi, polar) if polar else np.zeros(0)
    sky = Sky(lanes, np.concatenate([theta, [0.5 * math.pi], reported]), even_azimuths(stride * azimuths))
    return Rays(sky, weights, stride)


def _phase(sky: Sky, k: NDArray[np.float64], t: float, alpha: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return ``exp(i k^2 t / 2 + i k alpha.n)``, (a, k, b)."""
    along_field = alpha[0] * np.cos(sky.azimuth) + alpha[1] * np.sin(sky.azimuth)
    # alpha lies in the plane: alpha.n = sin(theta) times its part along the azimuth
    across = np.sin(sky.theta)[:, None, None] * k[None, :, None] * along_field
    return np.asarray(np.exp(1j * (across + (0.5 * t * k**2)[None, :, None])))


def planar_amplitudes(
    surface: Surface,
    sky: Sky,
    energy: NDArray[np.float64],
    each: Callable[[], None] = lambda: None,
) -> NDArray[np.complex128]:
    """Return b(k) of what passed until the end of the run, (angles, energy, azimuths).

    Parameters
    ----------
    surface
        With A and alpha (samples, 2).
    sky
        Directions.
    energy : (k,) float64
        Hartree.
    each
        Called after each sample.
    """
    lanes, k = sky.lanes, np.sqrt(2.0 * energy)
    # r j_l(k r) and its slope on the sphere, once for all samples
    wave, slope = waves(k, lanes.ls, surface.sphere.radius)
    x, y = along(lanes, np.array([1.0, 0.0])), along(lanes, np.array([0.0, 1.0]))
    # phases of the partial waves of a plane wave
    turn = (-1j) ** lanes.ls
    weights = sample_weights(surface.time)
    total = np.zeros((sky.theta.size, k.size, sky.azimuth.size), dtype=complex)
    for i, t in enumerate(surface.time):
        u, du = surface.value[i], surface.slope[i]
        if float(np.abs(u).max()) ** 2 > QUIET:
            a = surface.a[i]
            # A.n couples neighbours in l: x and y parts of the field with their own matrices
            driven = a[0] * (x @ u) + a[1] * (y @ u)
            flux = 0.5 * (slope * u - wave * du) - 1j * wave * driven
            total += weights[i] * _phase(sky, k, float(t), surface.alpha[i]) * sky.total(turn * flux)
        each()
    return 1j * math.sqrt(2.0 / math.pi) * total


def planar_tail(
    lattice: AtomLattice,
    phi: NDArray[np.complex128],
    sphere: Sphere,
    sky: Sky,
    energy: NDArray[np.float64],
    end: tuple[float, NDArray[np.float64]],
) -> NDArray[np.complex128]:
    """Return b(k) of what passes after the end of the run, (angles, energy, azimuths).

    Parameters
    ----------
    lattice
        With a complex absorber.
    phi : (used, n) complex128
        State at the end, where A = 0.
    sphere, sky, energy
        As of `planar_amplitudes`.
    end : (t, alpha)
        Time, and integral of A (2,).
    """
    lanes, k = sky.lanes, np.sqrt(2.0 * energy)
    wave, slope = waves(k, lanes.ls, sphere.radius)
    near, root = sphere.window, np.sqrt(lattice.grid.slope)
    u = np.zeros((energy.size, lanes.used), dtype=complex)
    du = np.zeros_like(u)
    # channels without norm stay zero; those of one l share their matrix and are solved together
    held = np.any(np.abs(phi) > 1e-15, axis=1)
    for l in np.unique(lanes.ls[held]):
        here = np.flatnonzero(held & (lanes.ls == l))
        radial = Radial(lattice, int(l))
        for i, e in enumerate(energy):
            w = -1j * radial.resolvent_absorbed(float(e), phi[here].T, lattice.cap)[near] / root[near, None]
            u[i, here], du[i, here] = w[SIDE], SLOPE @ w / lattice.grid.slope[sphere.index]
    flux = np.asarray(0.5 * (slope * u - wave * du), dtype=complex)
    return 1j * math.sqrt(2.0 / math.pi) * _phase(sky, k, *end) * sky.total((-1j) ** lanes.ls * flux)
