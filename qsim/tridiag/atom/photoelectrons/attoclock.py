r"""Photoelectrons in the plane of a field that turns: momentum map, distribution of azimuths, attoclock angle.

An electron set free at t0 and not pulled by its ion ends with the momentum ``-A(t0)``.  The attoclock angle is that from ``-A``
at the peak of ``|E|`` to the maximum of ``W(phi) = int k dk d3P/dk3`` over the energies of the deck, in the sense in which the
field turns.  W is a finite Fourier sum, whose maximum is found exactly if there are azimuths enough: with every second one,
and with every second energy, it must be the same.  t-SURFF adds what the second sphere tells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.tdse.polarization import PlaneField

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.result import AtomResult
    from qsim.tridiag.tdse.photoelectrons import Photoelectrons

__all__ = ["attoclock", "highest"]

# points of the momentum map in each direction
MAP = 161
# error over the difference of two spheres at 1 and 3/4 of the radius, of an error that falls as 1/R
LIMIT = 3.0
# energies of an angle: every second one must do as well
FEWEST = 8
# points around a maximum, and how often their distance shrinks, to 1e-8 of the distance of the azimuths
NEAR, ROUNDS = (41, 6)
# contrast of W below which it has no direction
ROUND = 0.02


def attoclock(result: AtomResult, found: Photoelectrons) -> list[tuple[str, float, str]]:
    """Store the momentum map and the angle; return what a user must know: a short name, its size, and the text.

    Parameters
    ----------
    result
        Whose spectra and numbers are filled.
    found
        Spectrum with azimuths.
    """
    free = found.energy > 0.0
    if np.count_nonzero(free) < 4:
        return []
    energy, azimuth, angular = found.energy[free], found.theta, found.angular[free]
    k = np.sqrt(2.0 * energy)
    # distribution of azimuths, integrated over the momenta of the deck
    over = _over(k, angular)
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
    if not isinstance(pulse, PlaneField) or pulse.sense == 0 or energy.size < FEWEST:
        return []
    # an electron that leaves at the peak of |E| without a momentum ends with -A of that time: the reference direction
    a = result.problem.vector(_peak(result, pulse))
    reference = math.atan2(-float(a[1]), -float(a[0]))
    best = highest(azimuth, over)
    result.own["attoclock_angle"] = _own_error(found, k, angular, best)
    # the momentum is one of the deck's energies
    result.own["attoclock_momentum"] = float(np.diff(k).max())
    # counted in the sense in which the field turns, so that a delay is positive for either handedness
    offset = math.remainder(pulse.sense * (best - reference), 2.0 * math.pi)
    contrast = float((over.max() - over.min()) / (over.max() + over.min())) if over.max() > 0.0 else 0.0
    # distance of azimuths on the circle
    nearest = int(np.argmin(np.abs(np.angle(np.exp(1j * (azimuth - best))))))
    result.numbers |= {
        "attoclock_angle": math.degrees(offset),
        "attoclock_reference": math.degrees(reference),
        "attoclock_contrast": contrast,
        "attoclock_momentum": float(k[int(np.argmax(angular[:, nearest]))]),
    }
    # a spectrum that has not fallen at its highest energy misses electrons, which may come from another direction
    edge = max(float(angular[-1].max()), 0.0) / max(float(angular.max()), 1e-300)
    if contrast < ROUND:
        text = f"the azimuths of the photoelectrons have a contrast of {contrast:.2g}: their maximum is no attoclock angle"
        return [("contrast", -contrast, text)]
    if edge > 1e-2:
        text = f"the photoelectron spectrum has {edge:.2g} of its maximum at its highest energy: raise spectra.0.energy"
        return [("highest energy", edge, text)]
    return []


def _peak(result: AtomResult, pulse: PlaneField) -> float:
    """Return the time at which |E| is largest, between samples, a.u."""
    # the largest sample, then finer samples between its neighbours, over and over
    t = pulse.samples(result.problem.t_final)
    for _ in range(ROUNDS):
        size = np.hypot(*result.problem.electric(t))
        best = int(np.argmax(size))
        t = np.linspace(t[max(best - 1, 0)], t[min(best + 1, t.size - 1)], NEAR)
    return float(t[NEAR // 2])


def _own_error(
    found: Photoelectrons, k: NDArray[np.float64], angular: NDArray[np.float64], best: float
) -> float:
    """Return the error of the maximum that azimuths, energies and the sphere of t-SURFF leave, degrees."""
    azimuth = found.theta
    # the same angle from half of the energies, and from half of the azimuths: the difference is what their
    # number leaves open
    others = [highest(azimuth, _over(k[::2], angular[::2]))]
    if azimuth.size % 2 == 0:
        others.append(highest(azimuth[::2], _over(k, angular)[::2]))
    total = sum(abs(math.remainder(one - best, 2.0 * math.pi)) for one in others)
    # t-SURFF leaves out the tail beyond the sphere: two spheres show how much it turns the maximum
    if found.inner is not None:
        inner = found.inner[found.energy > 0.0]
        near = highest(azimuth, _over(k, inner))
        total += LIMIT * abs(math.remainder(near - best, 2.0 * math.pi))
    return math.degrees(total)


def _over(k: NDArray[np.float64], angular: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the integral over k of d2P/(dE dOmega), by a cubic spline, (azimuths,)."""
    from scipy.interpolate import CubicSpline

    return np.asarray(CubicSpline(k, angular, axis=0).integrate(k[0], k[-1]))


def highest(angle: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the angle of the maximum of a periodic function on even angles, from its Fourier sum, radian."""
    n = values.size
    # even angles without the last are what a Fourier transform takes
    weights = np.fft.rfft(values) / n
    # real Fourier sum: every frequency but 0 (and the highest of an even number) stands for itself and its negative
    weights[1:] *= 2.0
    if n % 2 == 0:
        weights[-1] *= 0.5
    order = np.arange(weights.size)

    def value(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(1j * np.outer(at - angle[0], order)) @ weights).real

    best, width = float(angle[int(np.argmax(values))]), float(angle[1] - angle[0])
    for _ in range(ROUNDS):
        # a finer search about the best point so far; the Fourier sum is exact between the azimuths
        near = best + width * np.linspace(-1.0, 1.0, NEAR)
        best = float(near[int(np.argmax(value(near)))])
        width *= 2.0 / (NEAR - 1)
    return best


def _map(
    k: NDArray[np.float64], azimuth: NDArray[np.float64], density: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return d3P/dk3 in the plane, interpolated from momenta and azimuths."""
    from scipy.interpolate import RegularGridInterpolator

    step = azimuth[1] - azimuth[0]
    # close the circle, so that the map has no gap at pi
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

    # close the circle, as in `_map`
    around = np.concatenate([azimuth, [azimuth[-1] + (azimuth[1] - azimuth[0])]])
    closed = np.concatenate([density, density[:, :, :1]], axis=2)
    value = RegularGridInterpolator((k, polar, around), closed, bounds_error=False, fill_value=0.0)
    side = np.linspace(-k[-1], k[-1], MAP)
    z, x = np.meshgrid(side, side, indexing="ij")
    # x < 0 is the azimuth pi; the polar angle counts from z
    angle = np.where(x >= 0.0, 0.0, math.pi)
    angle = np.mod(angle - azimuth[0], 2.0 * math.pi) + azimuth[0]
    points = np.stack([np.hypot(x, z), np.arctan2(np.abs(x), z), angle], axis=-1)
    return {"momentum_z": side, "momentum_map": np.asarray(value(points))}
