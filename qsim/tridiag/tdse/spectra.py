r"""Spectra: high harmonics, their time-frequency map, and photoelectrons.

Harmonic spectra are those of the dipole acceleration in all three forms: ``S = |\int s(t) w(t) exp(-i omega t) dt|^2`` by the
trapezoid rule, times ``omega^2`` for the velocity and ``omega^4`` for the dipole.

Photoelectron spectra come from the window operator of Schafer (Comput. Phys. Commun. 63, 427 (1991)),

    W(E) = gamma^p / ((H - E)^p + gamma^p),   p = 2^order,

whose denominator factors into shifts ``H - E - gamma exp(i pi (2k-1)/p)``: half of them are solved for, one tridiagonal system
each, and the norm of what is left is ``<psi|W|psi>``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.tdse.eigenstates import Pencil

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.tdse.lattice import Lattice

WINDOWS = ("none", "hann", "sin2", "blackman", "gauss")
PLATEAU = (0.52, 0.91)  # of the classical cutoff: orders 11 to 19 where it is 21
LARGEST_GRID = 8_000_000  # points up to which a photoelectron spectrum is evaluated on the host


def window_values(name: str, m: int) -> NDArray[np.float64]:
    """Return a window on m samples from 0 to T, ends included, float64.

    ``sin2`` and ``hann`` are both ``sin^2(pi t/T)``; ``blackman`` is ``0.42 - 0.5 cos + 0.08 cos 2``; ``gauss`` has the standard
    deviation T/8.
    """
    y = np.arange(m) / max(m - 1, 1)
    if name == "none":
        return np.ones(m)
    if name in ("hann", "sin2"):
        return np.sin(np.pi * y) ** 2
    if name == "blackman":
        return 0.42 - 0.5 * np.cos(2 * np.pi * y) + 0.08 * np.cos(4 * np.pi * y)
    if name == "gauss":
        return np.exp(-0.5 * ((y - 0.5) * 8.0) ** 2)
    raise ValueError(f"unknown window {name!r}; allowed: {', '.join(WINDOWS)}")


def hhg(
    time: NDArray[np.float64],
    signal: NDArray[np.float64],
    omega0: float,
    window: str = "sin2",
    max_order: float | None = None,
    form: str = "acceleration",
    points_per_order: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return harmonic orders and the harmonic spectrum S (Eq. T21).

    Parameters
    ----------
    time : (m,) float64
        Equidistant times, atomic units.
    signal : (m,) float64
        Dipole <x>, velocity or acceleration, atomic units.
    omega0 : float
        Carrier frequency.
    window : str
        One of `WINDOWS`.
    max_order : float, optional
        Highest order; by default 100, or the highest that the samples can tell.
    form : {"dipole", "velocity", "acceleration"}
        What the signal is; all forms give the spectrum of the acceleration.
    points_per_order : int, optional
        By default four per resolution 2 pi / T, but 16 to 128.  Whole orders are among the points.

    Returns
    -------
    order : (k,) float64
    spectrum : (k,) float64
        Atomic units.
    """
    time, signal = np.asarray(time, float), np.asarray(signal, float)
    m, step = time.shape[0], float(time[1] - time[0])
    cycles = (time[-1] - time[0]) * omega0 / (2.0 * math.pi)
    highest = math.pi / step / omega0
    if max_order is None:
        max_order = 100.0
    max_order = min(max_order, highest)
    density = points_per_order or int(min(max(math.ceil(4.0 * cycles), 16), 128))
    order = np.arange(math.floor(max_order * density + 1e-9) + 1) / density
    weighted = (signal * window_values(window, m)).astype(complex) * step
    weighted[[0, -1]] *= 0.5
    t = time - time[0]
    turn = np.exp(-1j * omega0 / density * t)
    amplitude = np.empty(order.size, dtype=complex)
    for k in range(order.size):
        if k % 64 == 0:  # set anew, so that rounding does not add up
            carried = weighted * np.exp(-1j * omega0 * order[k] * t)
        amplitude[k] = np.sum(carried)
        carried *= turn
    power = {"acceleration": 0, "velocity": 1, "dipole": 2}[form]
    return order, np.abs(amplitude * (omega0 * order) ** power) ** 2


def classical_cutoff(ip: float, up: float, omega0: float) -> float:
    """Return the order of the classical cutoff ``(Ip + 3.17 Up) / omega0``; 3.17 stands for 3.17314..."""
    return (ip + 3.17 * up) / omega0


def lewenstein_cutoff(ip: float, up: float, omega0: float) -> float:
    """Return the order of the quantum cutoff ``(1.32 Ip + 3.17 Up) / omega0`` (Lewenstein et al., Ip << Up)."""
    return (1.32 * ip + 3.17 * up) / omega0


def cutoff_order(
    order: NDArray[np.float64], spectrum: NDArray[np.float64], classical: float | None
) -> float | None:
    """Return where the plateau of a harmonic spectrum ends.

    The plateau is 0.52 to 0.91 of the classical cutoff (orders 11 to 19 of 21).  S is averaged over one order on either
    side; the cutoff is the first order above the plateau where log10 of that falls one decade below its mean over the plateau.

    Returns
    -------
    float or None
        None if the spectrum does not reach beyond the plateau, never falls so far, or has no plateau to expect.
    """
    if classical is None:
        return None
    low, high = PLATEAU[0] * classical, PLATEAU[1] * classical
    if order.size < 3 or order[-1] < high + 1.0 or low < 1.0:
        return None
    density = round(1.0 / float(order[1] - order[0]))
    sums = np.concatenate([[0.0], np.cumsum(spectrum)])
    centre = np.arange(density, order.size - density)
    mean = (sums[centre + density + 1] - sums[centre - density]) / (2 * density + 1)
    smooth = np.log10(np.maximum(mean, 1e-300))
    middle = order[centre]
    plateau = (middle >= low) & (middle <= high)
    if not np.any(plateau):
        return None
    level = float(np.mean(smooth[plateau])) - 1.0
    below = np.flatnonzero((middle > high) & (smooth < level))
    if below.size == 0:
        return None
    k = int(below[0])
    drop = smooth[k - 1] - smooth[k]
    part = (smooth[k - 1] - level) / drop if drop > 0 and smooth[k - 1] > level else 1.0
    return float(middle[k - 1] + part * (middle[k] - middle[k - 1]))


def gabor(
    time: NDArray[np.float64],
    signal: NDArray[np.float64],
    omega0: float,
    max_order: float = 40.0,
    width: float | None = None,
    orders: int = 200,
    times: int = 400,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    r"""Return ``|\int s(t') exp(-(t' - t)^2 / (2 width^2)) exp(-i omega t') dt'|^2``.

    Parameters
    ----------
    time, signal, omega0
        As in `hhg`.
    max_order : float
        Highest order.
    width : float, optional
        Standard deviation of the window in time; by default a tenth of a cycle.
    orders, times : int
        Size of the map.

    Returns
    -------
    t : (times,) float64
    order : (orders,) float64
    map : (times, orders) float64
    """
    time, signal = np.asarray(time, float), np.asarray(signal, float)
    m, step = time.shape[0], float(time[1] - time[0])
    width = 0.2 * math.pi / omega0 if width is None else width
    order = np.linspace(0.0, min(max_order, math.pi / step / omega0), orders)
    pick = np.round(np.linspace(0, m - 1, min(times, m))).astype(int)
    from scipy.fft import fft, ifft, next_fast_len

    reach = min(math.ceil(9.0 * width / step), m)
    size = next_fast_len(m + reach)
    lag = np.fft.fftfreq(size, 1.0 / size) * step
    kernel = fft(np.exp(-0.5 * (lag / width) ** 2) * step)
    t = time - time[0]
    out = np.empty((pick.size, orders))
    for k, h in enumerate(order):
        smooth = ifft(fft(signal * np.exp(-1j * h * omega0 * t), size) * kernel)
        out[:, k] = np.abs(smooth[pick]) ** 2
    return time[pick], order, out


@dataclass(frozen=True)
class Photoelectrons:
    """A photoelectron spectrum.

    Attributes
    ----------
    energy : (m,) float64
        Hartree.
    spectrum : (m,) float64
        Probability per hartree; its integral over all energies is the norm, the part below the threshold the bound states.
    left, right : (m,) float64
        What of it lies at x < 0 and at x >= 0; late after the pulse, the electrons that flew there.
    """

    energy: NDArray[np.float64]
    spectrum: NDArray[np.float64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]


def photoelectrons(
    lattice: Lattice,
    psi: NDArray[np.complex128],
    energies: NDArray[np.float64],
    gamma: float,
    order: int = 3,
    vector_potential: float = 0.0,
    each: Callable[[int], None] | None = None,
) -> Photoelectrons:
    """Return the energy distribution of a wavefunction by the window operator (Eq. T22).

    ``P(E) = <psi|W(E)|psi> / (gamma (pi / q) / sin(pi / 2q))``, ``q = 2^(order-1)``: the divisor is the area of the window,
    so that ``integral P dE`` over the spectrum of H is the norm.  A line has the width 2 gamma.

    Parameters
    ----------
    lattice : Lattice
        Grid, potential and stencil; the absorber does not count.
    psi : (n,) complex128
        ``sum |psi|^2 dx`` is its norm.
    energies : (m,) float64
        Where to evaluate, hartree; steps below gamma resolve the lines.
    gamma : float
        Half width of the window, hartree; above the spacing of the box states for a smooth continuum.
    order : int
        n of ``p = 2^n``: 1 (Lorentzian), 2, 3, ...; higher ones have steeper edges.
    vector_potential : float
        A of the velocity gauge at this time; psi is turned to the length gauge by ``exp(i A x)``.
    each : callable, optional
        Called with the number of energies done.

    Raises
    ------
    ValueError
        If the grid has more than `LARGEST_GRID` points.
    """
    if lattice.points > LARGEST_GRID:
        raise ValueError(
            f"photoelectron spectra are limited to {LARGEST_GRID:.0e} points, the grid has {lattice.points}"
        )
    half = 2 ** (order - 1)
    shifts = gamma * np.exp(1j * np.pi * (2.0 * np.arange(1, half + 1) - 1.0) / (2.0 * half))
    area = gamma * (np.pi / half) / math.sin(np.pi / (2.0 * half))
    pencil = Pencil(np.asarray(lattice.potential, float), lattice.dx, lattice.stencil)
    start = np.asarray(psi, complex)
    if vector_potential:
        start = start * np.exp(1j * vector_potential * lattice.x)
    energies = np.asarray(energies, float)
    parts = np.empty((2, energies.size))
    origin = int(np.searchsorted(lattice.x, 0.0))
    for k, energy in enumerate(energies):
        chi = start
        for shift in shifts:
            chi = gamma * pencil.solve(complex(energy + shift), chi)
        weight = chi.real**2 + chi.imag**2
        parts[0, k] = np.sum(weight[:origin])
        parts[1, k] = np.sum(weight[origin:])
        if each is not None:
            each(k + 1)
    parts *= lattice.dx / area
    return Photoelectrons(energies, parts.sum(axis=0), parts[0], parts[1])
