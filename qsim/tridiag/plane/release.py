r"""Kinetic-energy release of a molecular ion of one electron.

Far apart, the electron moves with one of the nuclei, at a share s of R: with ``u = x - s R`` held fixed, the momentum K of R is
that of the fragments, and

    dP/dE = mu / K  sum_s \int du |1/sqrt(2 pi) \int dR e^(-i K R) m(R) psi(R, s R + u)|^2,    E = K^2 / 2 mu.

m rises from 0 to 1 over a tenth of the distance that counts as dissociated, and u is bounded by half of it.  What the fragments
still gain or lose by their interaction is left out: the change by another distance tells how much that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.plane.result import PlaneResult

__all__ = ["release"]

# of the distance: width of the rising edge, and the other distance
EDGE = 0.1
# Fourier sums taken at once
AT_ONCE = 64


def release(result: PlaneResult) -> None:
    """Add the kinetic-energy release at the end of a run, and its change by a larger distance."""
    block = result.problem.observed.ker
    assert block is not None
    energy = np.linspace(block.energy[0], block.energy[1], block.points)
    found, other = (_at(result, energy, distance) for distance in (block.R, (1.0 + EDGE) * block.R))
    result.spectra |= {"ker_energy": energy, "ker": found, "ker_change": np.abs(other - found)}


def _at(result: PlaneResult, energy: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Return dP/dE beyond a distance, 1/hartree."""
    nuclear, electron = result.problem.lattice.axes
    nuclei = result.problem.system.nuclei
    assert nuclei is not None
    r, x, h = nuclear.x, electron.x, electron.spacing
    kept = np.sin(0.5 * np.pi * np.clip((r - distance) / (EDGE * distance), 0.0, 1.0)) ** 2
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
