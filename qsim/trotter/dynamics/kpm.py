"""The kernel polynomial method: a spectral function from its Chebyshev moments, smoothed by the kernel of Jackson.

With ``x = (H - c) / R`` inside (-1, 1) and ``mu_k = <phi| T_k(x) |phi>``, two of them per product,

    A(x) = (g_0 mu_0 + 2 sum_k g_k mu_k T_k(x)) / (pi (1 - x^2)^(1/2)).

The kernel g turns every delta into a peak that is nowhere negative, nearly Gaussian, of standard deviation ``pi R / M`` in the
middle of the band and less towards its ends (Weisse et al., Rev. Mod. Phys. 78, 275).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.sectors.lanczos import dot

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.sectors.lanczos import Linear

# of mu_0: a moment larger by more than that shows a spectrum wider than the band
OUTSIDE = 1e-6


def chebyshev_moments(
    device: Device,
    linear: Linear,
    phi: NDArray[Any],
    band: tuple[float, float],
    steps: int,
    poll: Callable[[], object],
) -> NDArray[np.float64]:
    """Return ``<phi| T_k((H - c) / R) |phi>``, k = 0 ... 2 steps, by `steps` products.

    Parameters
    ----------
    phi : (D,)
        Taken over.
    band : (float, float)
        c and R.

    Raises
    ------
    NumericsError
        If the spectrum is wider than the band.
    """
    centre, half = band
    mu = np.zeros(2 * steps + 1)
    old = phi
    with device.use():
        new = device.xp.empty_like(phi)
        linear.apply(old, new, 1.0 / half, -centre / half)
        mu[0], mu[1] = dot(old, old).real, dot(old, new).real
        for k in range(1, steps + 1):
            # T_2k = 2 T_k^2 - 1 and T_(2k+1) = 2 T_k T_(k+1) - T_1: two moments for each product
            mu[2 * k] = 2.0 * dot(new, new).real - mu[0]
            # |mu_n| <= mu_0 within the band; beyond it polynomials grow
            if abs(mu[2 * k]) > (1.0 + OUTSIDE) * mu[0]:
                raise NumericsError(
                    f"moment {2 * k} is {mu[2 * k] / mu[0]:.3g} times the static factor: the spectrum is wider than the band "
                    f"{centre - half:.6g} to {centre + half:.6g}"
                )
            poll()
            if k == steps:
                break
            # T_(k+1) = 2 x T_k - T_(k-1), over the older one
            linear.apply(new, old, 2.0 / half, -2.0 * centre / half, -1.0)
            old, new = new, old
            mu[2 * k + 1] = 2.0 * dot(new, old).real - mu[1]
    return mu


def jackson(count: int) -> NDArray[np.float64]:
    """Return the kernel of Jackson, g_k with k = 0 ... count - 1."""
    k, n = np.arange(count), count + 1
    turn = np.pi * k / n
    return np.asarray(((n - k) * np.cos(turn) + np.sin(turn) / np.tan(np.pi / n)) / n, np.float64)


def _weights(mu: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``g_0 mu_0, 2 g_1 mu_1, ...`` of moments (..., M)."""
    weights = 2.0 * jackson(mu.shape[-1]) * mu
    weights[..., 0] *= 0.5
    return np.asarray(weights, np.float64)


def smoothed(
    mu: NDArray[np.float64], energies: NDArray[np.float64], band: tuple[float, float]
) -> NDArray[np.float64]:
    """Return A at the energies (E,), (..., E), from moments (..., M); zero outside of the band."""
    centre, half = band
    x = (energies - centre) / half
    inside = np.abs(x) < 1.0
    angle = np.arccos(np.where(inside, x, 0.0))
    # A(E) = [g_0 mu_0 + 2 sum_k g_k mu_k cos(k arccos x)] / (pi R sqrt(1 - x^2))
    waves = np.cos(np.arange(mu.shape[-1])[:, None] * angle)
    density = _weights(mu) @ waves / (math.pi * half * np.sin(angle))
    return np.where(inside, density, 0.0)


def share(mu: NDArray[np.float64], ends: tuple[float, float], band: tuple[float, float]) -> Any:
    """Return the integral of A between two energies over mu_0, its integral over the band: (...,) of moments (..., M)."""
    centre, half = band
    # integrals of cos(k theta), k = 0, 1, ..., between the angles of the ends
    first, last = (math.acos(min(1.0, max(-1.0, (e - centre) / half))) for e in ends)
    k = np.arange(1, mu.shape[-1])
    pieces = np.concatenate([[first - last], (np.sin(k * first) - np.sin(k * last)) / k]) / math.pi
    total = mu[..., 0]
    return np.where(total > 0.0, _weights(mu) @ pieces / np.where(total > 0.0, total, 1.0), 0.0)
