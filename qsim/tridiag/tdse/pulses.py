r"""Laser fields: E(t) and A(t) of the pulses of a deck.

The electron has charge -1, so that the length gauge adds ``+ x E(t)`` and ``A(t) = -\int_0^t E``.  Every pulse lives on
``delay <= t <= delay + length`` and has its time tau = t - delay; f is the envelope (0 to 1), tc the middle of the pulse,
``theta = omega (tau - tc) + cep + chirp (tau - tc)^2 / 2``:

======================  ==================================================================================
sin2, cosn, gaussian    ``envelope_on: A`` (default): ``A = (E0/omega) f sin(theta)``, ``E = -dA/dt``, so that no pulse
                        leaves a momentum behind; near the maximum ``E = -E0 f cos(theta)``
                        ``envelope_on: E``: ``E = -E0 f cos(theta)``
flat_top                ``envelope_on: E`` (default): ``E = E0 f sin(theta)`` with tc = 0: sine from the start of the pulse;
                        ``envelope_on: A``: ``A = -(E0/omega) f cos(theta)``, ``E = -dA/dt``
cw                      ``E = E0 cos(theta)`` with tc = 0
static, expression,     as given; E of a table is zero outside of it
table
======================  ==================================================================================

``polarity: -1`` reverses E and A.  Where the field is what is given, A is integrated by Gauss-Legendre panels (or the spline of
a table exactly), to about 1e-14 of its size.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import formula, formula_slope, in_chunks, spline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from qsim.tridiag.deck.laser import Laser

PANELS_PER_CYCLE = 8  # of the integral of E, with 12 points each
PANELS = 4000  # of a formula without a carrier, over its duration
SAMPLES_PER_CYCLE = 512  # where peaks are looked for
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def fwhm_factor(power: float) -> float:
    """Return fwhm / length of an envelope ``cos^power``; fwhm is that of the intensity, ``cos^(2 power)``."""
    return 2.0 / math.pi * math.acos(2.0 ** (-1.0 / (2.0 * power)))


def gaussian_exponent(extent: float) -> float:
    """Return k of the lowered Gaussian ``(g(u) - g(extent)) / (1 - g(extent))``, ``g(u) = exp(-4 k u^2)``.

    Its square is 1/2 at u = 1/2 (Eq. T17a): its full width at half maximum is 1 then; without the lowering k is ``log(2) / 2``.

    Parameters
    ----------
    extent
        Distance of the ends from the middle, at least 1.
    """
    low, high = 0.0, 0.5 * math.log(2.0)
    whole = 4.0 * extent * extent
    for _halving in range(60):
        k = 0.5 * (low + high)
        height = math.exp(-k) * math.expm1(-k * (whole - 1.0)) / math.expm1(-k * whole)
        low, high = (k, high) if height > math.sqrt(0.5) else (low, k)
    return 0.5 * (low + high)


class PulseField:
    """One pulse in its own time, which starts with the pulse.

    Parameters
    ----------
    block
        A member of `qsim.tridiag.deck.laser.Pulse`.
    key : str
        Where it stands in the deck.

    Attributes
    ----------
    length : float
        Duration, atomic units; ``inf`` for an endless pulse.
    omega : float or None
        Carrier frequency.
    amplitude : float
        Peak of the envelope of the field; 0 for shapes that do not name it.
    """

    def __init__(self, block: Any, key: str = "laser.pulses.0") -> None:
        self.block, self.key = block, key
        self.shape = {"trapezoid": "flat_top", "constant": "static", "file": "table"}.get(
            block.shape, block.shape
        )
        carrier = self.shape in ("sin2", "cosn", "gaussian", "flat_top", "cw")
        self.omega: float | None = block.frequency if carrier else None
        self.amplitude: float = block.amplitude if carrier else 0.0
        if self.shape == "static":
            self.amplitude = abs(block.E0)
        self._curve = self._read_table() if self.shape == "table" else None
        self.length = self._length()
        self._offset = 0.0
        if self.given_a:
            self._offset = float(self._local_a(np.zeros(1))[0])

    @property
    def given_a(self) -> bool:
        """Whether the pulse is defined by its vector potential."""
        block = self.block
        return getattr(block, "envelope_on", getattr(block, "of", "E")) == "A"

    @property
    def start(self) -> float:
        """Start of the pulse, atomic units."""
        return float(self.block.delay)

    @property
    def end(self) -> float:
        """End of the pulse, atomic units; ``inf`` for an endless one."""
        return self.start + self.length

    def electric(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return E(t), float64, for times of any shape; zero before the start and after the end."""
        return self._on(t, self._local_e, 0.0)

    def vector_potential(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return A(t) = -integral of E, float64; zero before the start, constant after the end."""
        if not self.given_a:
            return self._on(t, self._integral, self._final)
        return self._on(t, lambda tau: self._local_a(tau) - self._offset, self._final)

    @cached_property
    def _final(self) -> float:
        """A after the pulse."""
        if math.isinf(self.length):
            return 0.0
        whole = np.array([self.length])
        value = self._local_a(whole) - self._offset if self.given_a else self._integral(whole)
        return float(value[0])

    def _on(
        self, t: ArrayLike, function: Callable[[NDArray[Any]], NDArray[Any]], after: float
    ) -> NDArray[np.float64]:
        t = np.asarray(t, dtype=float)
        tau = t.ravel() - self.start
        out = np.zeros(tau.size)
        inside = (tau >= 0.0) & (tau <= self.length)
        if np.any(inside):
            out[inside] = in_chunks(function, tau[inside])
        out[tau > self.length] = after
        return (self.block.polarity * out).reshape(t.shape)

    # ------------------------------------------------------------------------------- what the deck says

    def _length(self) -> float:
        block = self.block
        if self.shape in ("sin2", "cosn", "gaussian"):
            if block.duration is not None:
                return block.duration
            if block.cycles is not None:
                return block.cycles * block.cycle
            if self.shape == "gaussian":
                return 2.0 * block.extent * block.fwhm
            return block.fwhm / fwhm_factor(self._power)
        if self.shape == "flat_top":
            ramp, flat = block.lengths
            return 2.0 * ramp + max(flat, 0.0)
        if self.shape == "table":
            assert self._curve is not None
            return float(self._curve.x[-1]) - min(0.0, float(self._curve.x[0]))
        if self.shape == "cw" and block.cycles is not None:
            return block.cycles * block.cycle
        return math.inf if block.duration is None else block.duration

    @property
    def _power(self) -> float:
        return 2.0 if self.shape == "sin2" else float(self.block.power)

    def _read_table(self) -> Any:
        return spline(self.block.file, "t")

    # ----------------------------------------------------------------------------- fields in local time

    def _local_e(self, tau: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return E, counted from the start of the pulse (Eqs. T17 to T19)."""
        block = self.block
        if self.shape == "table":
            return self._table(tau, derivative=self.given_a)
        if self.shape == "expression":
            values = {"t": tau, "T": np.full_like(tau, self._horizon)}
            if self.given_a:
                return -formula_slope(block.value, f"{self.key}.value", "t", **values)
            return formula(block.value, f"{self.key}.value", **values)
        if self.shape == "static":
            return block.E0 * self._envelope(tau)[0]
        f, df = self._envelope(tau)
        phase, omega = self._phase(tau)
        if self.shape == "cw" or (self.shape == "flat_top" and not self.given_a):
            wave = np.cos if self.shape == "cw" else np.sin
            return self.amplitude * f * wave(phase)
        if not self.given_a:
            return -self.amplitude * f * np.cos(phase)
        assert self.omega is not None
        peak = self.amplitude / self.omega
        if self.shape == "flat_top":
            return peak * (df * np.cos(phase) - f * omega * np.sin(phase))
        return -peak * (df * np.sin(phase) + f * omega * np.cos(phase))

    def _local_a(self, tau: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A of a pulse that is defined by it (Eqs. T17, T18), without the constant that makes A(0) = 0."""
        if self.shape == "table":
            return self._table(tau)
        if self.shape == "expression":
            values = {"t": tau, "T": np.full_like(tau, self._horizon)}
            return formula(self.block.value, f"{self.key}.value", **values)
        f, _ = self._envelope(tau)
        phase, _ = self._phase(tau)
        assert self.omega is not None
        peak = self.amplitude / self.omega
        return -peak * f * np.cos(phase) if self.shape == "flat_top" else peak * f * np.sin(phase)

    @property
    def _horizon(self) -> float:
        return 0.0 if math.isinf(self.length) else self.length

    def _table(self, tau: NDArray[np.float64], derivative: bool = False) -> NDArray[np.float64]:
        """Return the table in the time of the pulse: its own times count from the start of the pulse."""
        curve = self._curve
        assert curve is not None
        first, last = curve.x[0], curve.x[-1]
        t = tau + min(0.0, float(first))
        if self.given_a and not derivative:  # constant outside, so that E is zero there
            return curve(np.clip(t, first, last))
        value = -curve.derivative()(t) if derivative else curve(t)
        return np.where((t >= first) & (t <= last), value, 0.0)

    def _phase(self, tau: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return theta (Eq. T16) and its derivative."""
        block = self.block
        s = tau - (0.5 * self.length if self.shape in ("sin2", "cosn", "gaussian") else 0.0)
        assert self.omega is not None
        return self.omega * s + block.cep + 0.5 * block.chirp * s * s, self.omega + block.chirp * s

    def _envelope(self, tau: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return f and df/dt."""
        block, length = self.block, self.length
        s = tau - 0.5 * length
        if self.shape in ("sin2", "cosn"):
            n, k = self._power, math.pi / length
            cos = np.maximum(np.cos(k * s), 0.0)  # rounding may leave it below zero at the ends
            return cos**n, -n * k * cos ** (n - 1.0) * np.sin(k * s)
        if self.shape == "gaussian":
            # lowered by its value at the ends and stretched, so that it vanishes there and is 1 in the middle; Eq. T17a
            exponent = gaussian_exponent(block.extent)
            rate = 8.0 * exponent * (2.0 * block.extent / length) ** 2
            edge = math.exp(-4.0 * exponent * block.extent**2)
            g = np.exp(-0.5 * rate * s * s)
            return (g - edge) / (1.0 - edge), -rate * s * g / (1.0 - edge)
        if self.shape == "flat_top":
            ramp, _ = block.lengths
            if ramp == 0.0:
                return np.ones_like(tau), np.zeros_like(tau)
            rising, falling = tau < ramp, tau > length - ramp
            y = np.where(rising, tau / ramp, np.where(falling, (length - tau) / ramp, 1.0))
            sign = np.where(rising, 1.0, np.where(falling, -1.0, 0.0)) / ramp
            return _edge(y, sign, block.ramp_shape)
        if block.ramp == 0.0:  # cw, static
            return np.ones_like(tau), np.zeros_like(tau)
        return _edge(
            np.minimum(tau / block.ramp, 1.0), np.where(tau < block.ramp, 1.0 / block.ramp, 0.0), "sin2"
        )

    # -------------------------------------------------------------------------------- integral of the field

    def _integral(self, tau: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return -integral of E from 0 to tau."""
        if self.shape == "table":
            assert self._curve is not None
            first, last = self._curve.x[0], self._curve.x[-1]
            primitive = self._curve.antiderivative()
            t = np.clip(tau + min(0.0, float(first)), first, last)
            return -(primitive(t) - primitive(first))
        edges, sums = self._panels(float(np.max(tau)))
        k = np.clip(np.searchsorted(edges, tau, side="right") - 1, 0, edges.size - 2)
        return -(sums[k] + self._quadrature(edges[k], tau))

    def _panels(self, last: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return panel edges from 0 to at least `last` and the integral of E up to each; kinks are edges."""
        # the horizon of an endless pulse grows by factors of two, so that the panels depend little on what is asked for
        whole = (
            2.0 ** (math.floor(math.log2(max(last, 1e-9))) + 1) if math.isinf(self.length) else self.length
        )
        if self.omega is not None:
            fastest = self.omega + abs(self.block.chirp) * whole
            panel = 2.0 * math.pi / fastest / PANELS_PER_CYCLE
        else:
            panel = max(whole, 1e-300) / PANELS
        if self.shape in ("sin2", "cosn", "gaussian"):
            panel = min(panel, whole / 64.0)
        cached = self.__dict__.get("_cache")
        if cached is not None and cached[0][-1] >= last:
            return cached
        corners = np.array([0.0, *(k for k in self._kinks() if 0.0 < k < whole), whole])
        parts = [
            np.linspace(low, high, max(math.ceil((high - low) / panel), 1) + 1)[:-1]
            for low, high in itertools.pairwise(corners)
            if high > low
        ]
        edges = np.concatenate([*parts, [max(whole, 1e-300)]])
        pieces = self._quadrature(edges[:-1], edges[1:])
        result = (edges, np.concatenate([[0.0], np.cumsum(pieces)]))
        self.__dict__["_cache"] = result
        return result

    def _kinks(self) -> list[float]:
        """Return the times at which the field is not smooth."""
        if self.shape == "flat_top":
            ramp, _ = self.block.lengths
            return [ramp, self.length - ramp]
        return [self.block.ramp] if self.shape in ("cw", "static") else []

    def _quadrature(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integral of E over intervals no longer than a panel, 12-point Gauss-Legendre."""
        total = np.zeros(low.size)
        half = 0.5 * (high - low)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            total += weight * self._local_e(low + half * (1.0 + node))
        return half * total


def _edge(y: NDArray[np.float64], dy: NDArray[np.float64], form: str) -> tuple[Any, Any]:
    """Return a ramp of the given form and its derivative, from the linear ramp and its derivative."""
    if form == "linear":
        return y, dy
    return np.sin(0.5 * np.pi * y) ** 2, 0.5 * np.pi * np.sin(np.pi * y) * dy


class LaserField:
    """The sum of the pulses of a deck; no field at all without a laser.

    Parameters
    ----------
    laser : Laser or None
        Block of the deck.
    key : str
        Where it stands in the deck.

    Attributes
    ----------
    pulses : list of PulseField
    gauge : {"length", "velocity"}
    duration : float
        End of the last pulse, atomic units; 0 without pulses, ``inf`` if one is endless.
    """

    def __init__(self, laser: Laser | None, key: str = "laser") -> None:
        blocks = [] if laser is None else laser.pulses
        self.pulses = [PulseField(block, f"{key}.pulses.{i}") for i, block in enumerate(blocks)]
        self.gauge: str = "length" if laser is None else laser.gauge
        self.duration = max((pulse.end for pulse in self.pulses), default=0.0)
        self.key = key

    def electric(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return E(t), float64, for times of any shape."""
        t = np.asarray(t, dtype=float)
        return sum((pulse.electric(t) for pulse in self.pulses), start=np.zeros(t.shape))

    def vector_potential(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return A(t) = -integral of E from 0, float64, for times of any shape."""
        t = np.asarray(t, dtype=float)
        return sum((pulse.vector_potential(t) for pulse in self.pulses), start=np.zeros(t.shape))

    def end_of_run(self, t_final: float | str) -> float:
        """Return the duration of a run, a.u.: as given, or until the last pulse ends.

        Raises
        ------
        InvalidInput
            If it is left open, but the pulses do not end.
        """
        if not isinstance(t_final, str):
            return t_final
        if not math.isfinite(self.duration) or self.duration <= 0.0:
            raise InvalidInput(
                "time.t_final", "auto is the end of the pulses, but they do not end; give a time"
            )
        return self.duration

    def steps(self, count: int, dt: float) -> NDArray[np.float64]:
        """Return the field of every step, (count,): E at its midpoint, or its mean over a step in which it jumps."""
        field = np.asarray(self.electric((np.arange(count) + 0.5) * dt), float)
        for time in {t for pulse in self.pulses for t in (pulse.start, pulse.end) if math.isfinite(t)}:
            k = math.floor(time / dt + 1e-9)
            if not 0 <= k < count or time / dt - k < 1e-6:
                continue
            ends = np.array([k, k + 1]) * dt
            near = np.nextafter(time, [-np.inf, np.inf])
            before, after = self.electric(near)
            if abs(after - before) > 1e-9 * (abs(after) + abs(before)):
                start, end = self.vector_potential(ends)
                field[k] = (start - end) / dt
        return field

    @property
    def carrier(self) -> PulseField | None:
        """The pulse with a carrier and the largest ponderomotive energy."""
        pulses = [pulse for pulse in self.pulses if pulse.omega]
        return max(pulses, key=lambda p: p.amplitude / (p.omega or 1.0), default=None)

    @property
    def omega(self) -> float | None:
        """Frequency of the `carrier`: harmonics are counted in it."""
        return self.carrier.omega if self.carrier else None

    @property
    def fastest(self) -> float:
        """Highest carrier frequency, chirp included; 0 without one."""
        return max(
            (p.omega + abs(p.block.chirp) * min(p.length, 1e300) / 2 for p in self.pulses if p.omega),
            default=0.0,
        )

    @property
    def up(self) -> float:
        """Ponderomotive energy E0^2 / (4 omega^2) of the `carrier`, hartree; 0 without one."""
        pulse = self.carrier
        return 0.0 if pulse is None or not pulse.omega else (pulse.amplitude / (2.0 * pulse.omega)) ** 2

    @property
    def quiver(self) -> float:
        """Quiver radius E0 / omega^2 of the `carrier`, bohr; 0 without one."""
        pulse = self.carrier
        return 0.0 if pulse is None or not pulse.omega else pulse.amplitude / pulse.omega**2

    def keldysh(self, ip: float) -> float | None:
        """Return the Keldysh parameter sqrt(Ip / 2 Up); None without a carrier."""
        return math.sqrt(ip / (2.0 * self.up)) if self.up > 0.0 and ip > 0.0 else None

    def samples(self, t_final: float) -> NDArray[np.float64]:
        """Return times that resolve the field, (m,) float64, 0 to `t_final`."""
        count = math.ceil(t_final * self.fastest / (2.0 * math.pi) * SAMPLES_PER_CYCLE) if self.fastest else 0
        return np.linspace(0.0, t_final, min(max(count, 4096), 2_000_000) + 1)

    def peak(self, t_final: float) -> float:
        """Return the largest |E(t)| up to `t_final`."""
        return float(np.max(np.abs(self.electric(self.samples(t_final))))) if self.pulses else 0.0

    def peak_vector_potential(self, t_final: float) -> float:
        """Return the largest |A(t)| up to `t_final`."""
        return float(np.max(np.abs(self.vector_potential(self.samples(t_final))))) if self.pulses else 0.0

    def residual(self, t_final: float) -> float:
        """Return A(t_final): the momentum that the field leaves with a free electron, 0 for light."""
        return float(self.vector_potential(np.array([t_final]))[0])

    def check_residual(self, t_final: float) -> Iterator[Finding]:
        """Yield a warning if a field that should be light has a zero-frequency part."""
        largest, rest = self.peak_vector_potential(t_final), self.residual(t_final)
        if self.omega is None or t_final < self.duration or abs(rest) <= 1e-3 * largest:
            return
        yield Finding(
            f"{self.key}.pulses",
            f"the integral of the field is {-rest:.3g} a.u. at the end ({abs(rest) / largest:.2g} of its largest value); light "
            "has none, and a free electron keeps this momentum; envelope_on: A avoids it",
            "warning",
        )
