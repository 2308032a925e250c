r"""High harmonics: spectrum, cutoff, time-frequency map.

Harmonic spectra belong to the dipole acceleration in all three forms: ``S = |\int s(t) w(t) exp(-i omega t) dt|^2`` by the
trapezoid rule, times ``omega^2`` for the velocity and ``omega^4`` for the dipole.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.deck.observe import Gabor, Hhg

WINDOWS = ("none", "hann", "sin2", "blackman", "gauss")
# where the deck leaves the orders open and the cutoff law gives fewer
LEAST_ORDERS = 30
# samples per period of the highest harmonic
PER_PERIOD = 8
# of the classical cutoff: orders 11 to 19 where it is 21
PLATEAU = (0.52, 0.91)


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
    # Nyquist: the samples know no faster component
    highest = math.pi / step / omega0
    if max_order is None:
        max_order = 100.0
    max_order = min(max_order, highest)
    # four points per width of a line of that duration, within 16 to 128 per order
    density = points_per_order or int(min(max(math.ceil(4.0 * cycles), 16), 128))
    order = np.arange(math.floor(max_order * density + 1e-9) + 1) / density
    # step and window once for all orders
    weighted = (signal * window_values(window, m)).astype(complex) * step
    # trapezoid rule
    weighted[[0, -1]] *= 0.5
    t = time - time[0]
    # equidistant orders: each phase is the one before times a constant, which is cheaper than an exponential
    turn = np.exp(-1j * omega0 / density * t)
    amplitude = np.empty(order.size, dtype=complex)
    for k in range(order.size):
        # set anew, so that rounding does not add up
        if k % 64 == 0:
            phased = weighted * np.exp(-1j * omega0 * order[k] * t)
        amplitude[k] = np.sum(phased)
        phased *= turn
    # d'' = -omega^2 d: all forms give the spectrum of the acceleration
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
    # lines of the plateau away from the perturbative orders below and from the cutoff above
    low, high = PLATEAU[0] * classical, PLATEAU[1] * classical
    if order.size < 3 or order[-1] < high + 1.0 or low < 1.0:
        return None
    density = round(1.0 / float(order[1] - order[0]))
    # running mean over one order on either side, from differences of sums
    sums = np.concatenate([[0.0], np.cumsum(spectrum)])
    centre = np.arange(density, order.size - density)
    mean = (sums[centre + density + 1] - sums[centre - density]) / (2 * density + 1)
    smooth = np.log10(np.maximum(mean, 1e-300))
    middle = order[centre]
    plateau = (middle >= low) & (middle <= high)
    if not np.any(plateau):
        return None
    # one decade below the mean of the plateau
    level = float(np.mean(smooth[plateau])) - 1.0
    below = np.flatnonzero((middle > high) & (smooth < level))
    if below.size == 0:
        return None
    k = int(below[0])
    drop = smooth[k - 1] - smooth[k]
    # linear interpolation of the logarithm between the two points
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
    # times of the map are samples of the signal, so that nothing is interpolated
    pick = np.round(np.linspace(0, m - 1, min(times, m))).astype(int)
    from scipy.fft import fft, ifft, next_fast_len

    # the window is below 1e-17 beyond nine standard deviations; padding by that much keeps the convolution from wrapping
    reach = min(math.ceil(9.0 * width / step), m)
    size = next_fast_len(m + reach)
    # convolution of the signal, turned down by each frequency, with the window: one product of transforms per
    # order
    lag = np.fft.fftfreq(size, 1.0 / size) * step
    kernel = fft(np.exp(-0.5 * (lag / width) ** 2) * step)
    t = time - time[0]
    out = np.empty((pick.size, orders))
    for k, h in enumerate(order):
        smooth = ifft(fft(signal * np.exp(-1j * h * omega0 * t), size) * kernel)
        out[:, k] = np.abs(smooth[pick]) ** 2
    return time[pick], order, out


class Harmonic:
    """A problem with a field `pulse` and an ionisation potential `ip`, hartree, that may be None: what its harmonics count in."""

    pulse: Any
    ip: Any
    observed: Any

    def fundamental(self, block: Hhg | Gabor) -> float:
        """Return the frequency that the harmonics of a block count in."""
        omega = self.pulse.omega if block.omega is None else block.omega
        # the plan has seen to it
        assert omega is not None
        return float(omega)

    def classical_cutoff(self, omega: float) -> float | None:
        """Return (Ip + 3.17 Up) / omega, with Ip from the initial or the ground state; None where there is no such."""
        if self.ip is None or self.pulse.up == 0.0:
            return None
        return float((self.ip + 3.17 * self.pulse.up) / omega)

    def max_order(self, block: Hhg | Gabor) -> float:
        """Return the highest harmonic order of a block."""
        if not isinstance(block.max_order, str):
            return float(block.max_order)
        # semiclassical cutoff; 1.6 times as far, so that the fall beyond it is seen
        cutoff = self.classical_cutoff(self.fundamental(block)) or 0.0
        return float(math.ceil(max(LEAST_ORDERS, 1.6 * cutoff)))


def sampling(problem: Any, dt: float) -> int | None:
    """Return the steps between samples that the highest harmonic of a problem needs; None without harmonics."""
    wanted = [block for block in (problem.observed.hhg, problem.observed.gabor) if block is not None]
    if not wanted:
        return None
    highest = max(problem.fundamental(block) * problem.max_order(block) for block in wanted)
    return max(1, int(2.0 * math.pi / (PER_PERIOD * highest * dt)))


def spectrum(result: Any) -> None:
    """Add the harmonic spectrum of a run, summed over the components of the dipole, and its cutoffs."""
    problem, block = result.problem, result.problem.observed.hhg
    omega, top, time = problem.fundamental(block), problem.max_order(block), result.traced("time")
    parts = [
        hhg(time, signal, omega, block.window, top, form=block.form)
        for signal in result.components(block.form)
    ]
    # powers of the components add up: they are emitted with perpendicular polarisations
    order, power = parts[0][0], np.sum([one[1] for one in parts], axis=0)
    result.spectra |= {"hhg_order": order, "hhg_spectrum": power}
    classical = problem.classical_cutoff(omega)
    result.numbers["hhg_cutoff_classical"] = classical
    result.numbers["hhg_cutoff_order"] = None if classical is None else cutoff_order(order, power, classical)


def time_frequency_map(result: Any) -> None:
    """Add the power of the acceleration against time and harmonic order, summed over its components."""
    problem, block = result.problem, result.problem.observed.gabor
    omega, top, time = problem.fundamental(block), problem.max_order(block), result.traced("time")
    parts = [
        gabor(time, signal, omega, max_order=top, width=block.width)
        for signal in result.components("acceleration")
    ]
    t, order = parts[0][:2]
    power = np.sum([one[2] for one in parts], axis=0)
    result.spectra |= {"gabor_time": t, "gabor_order": order, "hhg_gabor": power}
