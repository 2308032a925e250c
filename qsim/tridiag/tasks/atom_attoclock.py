r"""Photoelectrons in the plane of a field that turns: momentum map, distribution of azimuths, attoclock angle.

An electron set free at t0 and not pulled by its ion ends with the momentum ``-A(t0)``.  The attoclock angle is that from ``-A``
at the peak of ``|E|`` to the maximum of ``W(phi) = int k dk d3P/dk3``, counted in the sense in which the field turns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.atom.polarization import PlaneField

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.spectra import Photoelectrons
    from qsim.tridiag.tasks.atom_result import AtomResult

__all__ = ["attoclock", "highest"]

MAP = 161  # points of the momentum map in each direction
ROUND = 0.02  # contrast of W below which it has no direction


def attoclock(result: AtomResult, found: Photoelectrons) -> str | None:
    """Store the momentum map and the angle; return what a user must know.

    Parameters
    ----------
    result
        Whose spectra and numbers are filled.
    found
        Spectrum with azimuths.
    """
    free = found.energy > 0.0
    if np.count_nonzero(free) < 4:
        return None
    energy, azimuth, angular = found.energy[free], found.theta, found.angular[free]
    k = np.sqrt(2.0 * energy)
    over = np.asarray(np.trapezoid(angular, k, axis=0))
    result.spectra |= {"azimuth": azimuth, "pad_azimuth": found.angular, "attoclock_distribution": over}
    result.spectra |= _map(k, azimuth, angular / k[:, None])
    if found.sphere is not None and found.polar is not None:
        result.spectra |= {
            "theta": found.polar,
            "pad_sphere": found.sphere,
            "pad": found.sphere.mean(axis=2),
        }
        result.spectra |= _upright(k, found.polar, azimuth, found.sphere[free] / k[:, None, None])
    pulse = result.problem.pulse
    if not isinstance(pulse, PlaneField) or pulse.sense == 0:
        return None
    t = pulse.samples(result.problem.t_final)
    e, a = result.problem.electric(t), result.problem.vector(t)
    peak = int(np.argmax(np.hypot(*e)))
    reference = math.atan2(-float(a[1, peak]), -float(a[0, peak]))
    best = highest(azimuth, over)
    offset = math.remainder(pulse.sense * (best - reference), 2.0 * math.pi)
    contrast = float((over.max() - over.min()) / (over.max() + over.min())) if over.max() > 0.0 else 0.0
    nearest = int(np.argmin(np.abs(np.angle(np.exp(1j * (azimuth - best))))))
    result.numbers |= {
        "attoclock_angle": math.degrees(offset),
        "attoclock_reference": math.degrees(reference),
        "attoclock_contrast": contrast,
        "attoclock_momentum": float(k[int(np.argmax(angular[:, nearest]))]),
    }
    edge = max(float(angular[-1].max()), 0.0) / max(float(angular.max()), 1e-300)
    if contrast < ROUND:
        return f"the azimuths of the photoelectrons have a contrast of {contrast:.2g}: their maximum is no attoclock angle"
    if edge > 1e-2:
        return f"the photoelectron spectrum has {edge:.2g} of its maximum at its highest energy: raise spectra.0.energy"
    return None


def highest(angle: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the angle of the maximum of a periodic function on even angles, by a parabola through three points, radian."""
    k = int(np.argmax(values))
    left, here, right = values[k - 1], values[k], values[(k + 1) % values.size]
    bend = left - 2.0 * here + right
    shift = 0.5 * (left - right) / bend if bend else 0.0
    return float(angle[k] + shift * (angle[1] - angle[0]))


def _map(
    k: NDArray[np.float64], azimuth: NDArray[np.float64], density: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return d3P/dk3 in the plane, interpolated from momenta and azimuths."""
    from scipy.interpolate import RegularGridInterpolator

    step = azimuth[1] - azimuth[0]
    around = np.concatenate([azimuth, [azimuth[-1] + step]])
    closed = np.concatenate([density, density[:, :1]], axis=1)
    value = RegularGridInterpolator((k, around), closed, bounds_error=False, fill_value=0.0)
    side = np.linspace(-k[-1], k[-1], MAP)
    x, y = np.meshgrid(side, side)
    angle = np.mod(np.arctan2(y, x) - azimuth[0], 2.0 * math.pi) + azimuth[0]
    points = np.stack([np.hypot(x, y), angle], axis=-1)
    return {"momentum_x": side, "momentum_y": side, "attoclock_map": np.asarray(value(points))}


def _upright(
    k: NDArray[np.float64],
    polar: NDArray[np.float64],
    azimuth: NDArray[np.float64],
    density: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Return d3P/dk3 in the plane of x and z of the run (p_y = 0), interpolated from momenta and angles."""
    from scipy.interpolate import RegularGridInterpolator

    around = np.concatenate([azimuth, [azimuth[-1] + (azimuth[1] - azimuth[0])]])
    closed = np.concatenate([density, density[:, :, :1]], axis=2)
    value = RegularGridInterpolator((k, polar, around), closed, bounds_error=False, fill_value=0.0)
    side = np.linspace(-k[-1], k[-1], MAP)
    z, x = np.meshgrid(side, side, indexing="ij")
    angle = np.where(x >= 0.0, 0.0, math.pi)
    angle = np.mod(angle - azimuth[0], 2.0 * math.pi) + azimuth[0]
    points = np.stack([np.hypot(x, z), np.arctan2(np.abs(x), z), angle], axis=-1)
    return {"momentum_z": side, "momentum_map": np.asarray(value(points))}
