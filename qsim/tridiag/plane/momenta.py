r"""Distributions of momenta at the end: of both coordinates, and of the fragments of a molecular ion.

Momenta of both coordinates beyond the bound region have the density

    |\int dx dy m(x, y) psi e^(-i (p x + q y))|^2 / (2 pi)^2.

m rises from 0 at a radius to 1 as a squared sine: of two particles it is a product of one factor each, so that both are free;
of an ion that vibrates it is one of its electron; of others one of the distance from the origin.  In place of scattering states
these are plane waves: what the charges still change of the momenta is left out, and the change by another radius tells how much
that is.  About an axis the first transform is that of Hankel, and the map is the density in the space of all three momenta.

Kinetic-energy release of a molecular ion of one electron.

Far apart, the electron moves with one of the nuclei, at a share s of R: with ``u = x - s R`` held fixed, the momentum K of R is
that of the fragments, and

    dP/dE = mu / K  sum_s \int du |1/sqrt(2 pi) \int dR e^(-i K R) m(R) psi(R, s R + u)|^2,    E = K^2 / 2 mu.

m rises from 0 to 1 over a tenth of the distance that counts as dissociated, and u is bounded by half of it.  What the fragments
still gain or lose by their interaction is left out: the change by another distance tells how much that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.plane.lattice import RadialAxis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.plane.lattice import Axis
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.plane.result import PlaneResult

__all__ = ["beyond", "momenta", "release"]

# of the radius, or of a distance of nuclei: how much larger the other one is, and the width of the rising edge of that distance
OTHER = 0.1
# Fourier sums taken at once
AT_ONCE = 64


def momenta(result: PlaneResult) -> None:
    """Add the map of the momenta at the end of a run, its change by a larger radius, and the norm that it is made of."""
    problem = result.problem
    block = problem.observed.momenta
    assert block is not None
    radius = problem.radius if isinstance(block.radius, str) else block.radius
    axes = problem.lattice.axes
    waves = [_momenta_of(one, block.kmax, block.points) for one in axes]
    first, second = (_transform(one, k) for one, k in zip(axes, waves, strict=True))
    maps = []
    for at in (radius, (1.0 + OTHER) * radius):
        kept = result.psi * beyond(problem, at, block.edge)
        maps.append(np.abs(first @ kept @ second.T) ** 2)
        if at == radius:
            result.numbers["norm_of_momenta"] = float(np.vdot(kept, kept).real) * problem.lattice.cell
    result.spectra |= {
        "momentum_x": waves[0],
        "momentum_y": waves[1],
        "momentum_map": maps[0],
        "momentum_map_change": np.abs(maps[1] - maps[0]),
    }


def beyond(problem: PlaneProblem, radius: float, edge: float) -> NDArray[np.float64]:
    """Return the factor m (n1, n2) that leaves what is beyond a radius, bohr, and rises over an edge, bohr."""
    x, y = problem.lattice.axes[0].x[:, None], problem.lattice.axes[1].x

    def rise(r: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.sin(0.5 * np.pi * np.clip((np.abs(r) - radius) / edge, 0.0, 1.0)) ** 2)

    if problem.system.pair:
        return rise(x) * rise(y)
    return rise(y + 0.0 * x) if problem.system.nuclei is not None else rise(np.hypot(x, y))


def _momenta_of(axis: Axis, kmax: float, points: int) -> NDArray[np.float64]:
    """Return the momenta of an axis, 1/bohr; of a distance they are not negative."""
    return np.linspace(0.0 if isinstance(axis, RadialAxis) else -kmax, kmax, points)


def _transform(axis: Axis, k: NDArray[np.float64]) -> NDArray[Any]:
    """Return the transform from the points of an axis to momenta, (momenta, points)."""
    if isinstance(axis, RadialAxis):
        from scipy.special import j0

        return np.asarray(axis.spacing * np.sqrt(axis.x / (2.0 * np.pi)) * j0(np.outer(k, axis.x)))
    return np.asarray(axis.spacing / np.sqrt(2.0 * np.pi) * np.exp(-1j * np.outer(k, axis.x)))


def release(result: PlaneResult) -> None:
    """Add the kinetic-energy release at the end of a run, and its change by a larger distance."""
    block = result.problem.observed.ker
    assert block is not None
    energy = np.linspace(block.energy[0], block.energy[1], block.points)
    found, other = (_at(result, energy, distance) for distance in (block.R, (1.0 + OTHER) * block.R))
    result.spectra |= {"ker_energy": energy, "ker": found, "ker_change": np.abs(other - found)}


def _at(result: PlaneResult, energy: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Return dP/dE beyond a distance, 1/hartree."""
    nuclear, electron = result.problem.lattice.axes
    nuclei = result.problem.system.nuclei
    assert nuclei is not None
    r, x, h = nuclear.x, electron.x, electron.spacing
    kept = np.sin(0.5 * np.pi * np.clip((r - distance) / (OTHER * distance), 0.0, 1.0)) ** 2
    far = kept > 0.0
    middle = x[x.size // 2]
    near = np.abs(x - middle) < 0.5 * distance
    wave = np.sqrt(2.0 * nuclear.mass * energy)
    power = np.zeros(energy.size)
    for share in nuclei:
        # rows move by a phase of their Fourier series: at fixed u they follow the nucleus
        size = 2 * x.size
        rows = np.fft.fft(result.psi[far] * kept[far, None], size, axis=1)
        turn = np.exp(2j * np.pi * np.fft.fftfreq(size, h) * (share * r[far, None] - middle))
        moved = np.fft.ifft(rows * turn, axis=1)[:, : x.size][:, near]
        for low in range(0, wave.size, AT_ONCE):
            part = wave[low : low + AT_ONCE, None]
            amplitudes = np.exp(-1j * part * r[far]) @ moved
            power[low : low + AT_ONCE] += (np.abs(amplitudes) ** 2).sum(axis=1)
    scale = nuclear.spacing**2 * h / (2.0 * np.pi) * nuclear.mass
    return np.asarray(scale * power / np.where(wave > 0.0, wave, np.inf))
