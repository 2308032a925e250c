r"""Laser fields: E(t) and A(t) of the pulses of a deck.

The electron has charge -1, so that the length gauge adds ``+ x E(t)`` and ``A(t) = -\int_0^t E``.  Every pulse lives on
``delay <= t <= delay + length`` and has its time tau = t - delay; its block (:mod:`qsim.tridiag.deck.pulses`) defines E(tau), or
A(tau) and ``E = -dA/dt``.  ``polarity: -1`` reverses both.  Where the field is what is given, A is integrated by Gauss-Legendre
panels (or the spline of a table exactly), to about 1e-14 of its size.
"""

from __future__ import annotations

import copy
import itertools
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import in_chunks, remark_on
from qsim.tridiag.deck.pulses.given import TablePulse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.tridiag.deck.laser import Laser
    from qsim.tridiag.deck.pulses import PulseBlock

# where peaks are looked for
SAMPLES_PER_CYCLE = 512
# field at the end of a table, relative to its largest, that is no edge
CUT = 1e-3
# difference of the mean of a field over a step from its midpoint, relative to the field about it, from which the mean is taken: a
# carrier of 8 steps per cycle has 0.026, a pulse that begins with t^2 has 0.042
ROUGH = 0.06
# steps of a short pulse, all of which are looked at
FEW_STEPS = 32
# of a field at its start or end, relative to its samples within the pulse, that is a jump
JUMP, JUMP_SAMPLES = 1e-6, 259
# steps on either side of one that misses the field
BESIDE = 2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


class PulseField:
    """One pulse on the axis of time: zero before it starts, and a constant vector potential after its end.

    Parameters
    ----------
    block : PulseBlock
        The pulse as a function of its own time.
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

    def __init__(self, block: PulseBlock, key: str = "laser.pulses.0") -> None:
        self.block, self.key = block, key
        self.omega, self.amplitude, self.length = block.carrier, block.peak, block.length
        self.given_a = block.defines == "A"
        self._panels_made: tuple[FloatArray, FloatArray] | None = None
        self._found: tuple[float, Sequence[float]] | None = None
        # A of a formula need not vanish at the start; A of the pulse does
        self._offset = float(self._own(block.A, np.zeros(1))[0]) if self.given_a else 0.0

    @property
    def start(self) -> float:
        """Start of the pulse, atomic units."""
        return float(self.block.delay)

    @property
    def end(self) -> float:
        """End of the pulse, atomic units; ``inf`` for an endless one."""
        return self.start + self.length

    def electric(self, t: ArrayLike) -> FloatArray:
        """Return E(t), float64, for times of any shape; zero before the start and after the end."""
        return self._on(t, self._local_e, 0.0)

    def vector_potential(self, t: ArrayLike) -> FloatArray:
        """Return A(t) = -integral of E, float64; zero before the start, constant after the end."""
        return self._on(t, self._local_a, self._final)

    @cached_property
    def _final(self) -> float:
        """A after the pulse."""
        # an endless pulse has no time after it
        if math.isinf(self.length):
            return 0.0
        return float(self._local_a(np.array([self.length]))[0])

    def _on(self, t: ArrayLike, function: Callable[[FloatArray], FloatArray], after: float) -> FloatArray:
        """Return a function of the pulse's own time at times of any shape, with its sign."""
        t = np.asarray(t, dtype=float)
        tau = t.ravel() - self.start
        out = np.zeros(tau.size)
        # functions of a block are defined during the pulse only
        inside = (tau >= 0.0) & (tau <= self.length)
        if np.any(inside):
            out[inside] = in_chunks(function, tau[inside])
        out[tau > self.length] = after
        return (self.block.polarity * out).reshape(t.shape)

    def places(self, last: float, dt: float) -> FloatArray:
        """Return the times up to `last` about which the field may change within a step of length `dt`."""
        whole, _ = self._horizon(last)
        own = [float(t) for t in self._structure(whole)]
        if self.length < FEW_STEPS * dt:
            own += np.linspace(0.0, self.length, FEW_STEPS + 1).tolist()
        own += [t for t in (0.0, self.length) if math.isfinite(t) and self._jumps(t, whole)]
        return self.start + np.unique(own)

    def _jumps(self, tau: float, whole: float) -> bool:
        """Tell whether the field is switched on or off at its start or its end."""
        # just before and just after
        before, after = self.electric(np.nextafter(self.start + tau, [-np.inf, np.inf]))
        if before == after:
            return False
        inside = self.electric(self.start + np.linspace(0.0, whole, JUMP_SAMPLES)[1:-1])
        return bool(abs(after - before) > JUMP * np.max(np.abs(inside)))

    def _structure(self, whole: float) -> Sequence[float]:
        """Return the places of the block up to `whole`, looked for once."""
        if self._found is None or self._found[0] < whole:
            self._found = (whole, self.block.places(whole))
        return self._found[1]

    def _horizon(self, last: float) -> tuple[float, bool]:
        """Return the time up to which the pulse is known, counted from its start, and whether it ends there."""
        if math.isfinite(self.length):
            return self.length, True
        # the horizon of an endless pulse grows by factors of two, so that the panels depend little on the last time
        return 2.0 ** (math.floor(math.log2(max(last, 1e-9))) + 1), False

    # ----------------------------------------------------------------------------- fields in local time

    def _own(self, function: Callable[[FloatArray], FloatArray], tau: FloatArray) -> FloatArray:
        """Return a function of the block; what is wrong with it lies at its key of the deck."""
        try:
            return function(tau)
        except InvalidInput as error:
            raise InvalidInput(f"{self.key}.{error.key}", str(error)) from error

    def _local_e(self, tau: FloatArray) -> FloatArray:
        """Return E, counted from the start of the pulse."""
        return self._own(self.block.E, tau)

    def _local_a(self, tau: FloatArray) -> FloatArray:
        """Return A, counted from the start of the pulse: as given, or minus the integral of E."""
        if self.given_a:
            return self._own(self.block.A, tau) - self._offset
        exact = self.block.integral(tau)
        if exact is not None:
            return -exact
        edges, sums = self._panels(float(np.max(tau)))
        # whole panels are summed once and kept; the last, incomplete panel is integrated for each time
        k = np.clip(np.searchsorted(edges, tau, side="right") - 1, 0, edges.size - 2)
        return -(sums[k] + self._quadrature(edges[k], tau))

    # -------------------------------------------------------------------------------- integral of the field

    def _panels(self, last: float) -> tuple[FloatArray, FloatArray]:
        """Return panel edges from 0 to at least `last` and the integral of E up to each; kinks are edges."""
        if self._panels_made is not None and self._panels_made[0][-1] >= last:
            return self._panels_made
        whole, _ = self._horizon(last)
        panel = self.block.panel(whole)
        places = {*self.block.kinks(), *self._structure(whole)}
        # panels end where the field has a kink: quadrature is exact to rounding on smooth pieces only
        corners = np.array([0.0, *sorted(k for k in places if 0.0 < k < whole), whole])
        parts = [
            np.linspace(low, high, max(math.ceil((high - low) / panel), 1) + 1)[:-1]
            for low, high in itertools.pairwise(corners)
            if high > low
        ]
        edges = np.concatenate([*parts, [max(whole, 1e-300)]])
        # each panel once; A at any time is a sum of whole panels and one incomplete panel
        pieces = self._quadrature(edges[:-1], edges[1:])
        self._panels_made = (edges, np.concatenate([[0.0], np.cumsum(pieces)]))
        return self._panels_made

    def _quadrature(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the integral of E over intervals no longer than a panel, 12-point Gauss-Legendre."""
        total = np.zeros(low.size)
        half = 0.5 * (high - low)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            total += weight * self._local_e(low + half * (1.0 + node))
        return half * total


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

    @property
    def components(self) -> tuple[LaserField, ...]:
        """The field along its direction, or along x and y."""
        return (self,)

    def doubted(self) -> Self | None:
        """Return the field with other curves that the rows of its tables allow; None without such tables."""
        found = [one.block.doubted() if isinstance(one.block, TablePulse) else None for one in self.pulses]
        if not any(found):
            return None
        other = copy.copy(self)
        other.pulses = [
            PulseField(block or one.block, one.key) for block, one in zip(found, self.pulses, strict=True)
        ]
        return other

    def in_velocity_gauge(self) -> Self:
        """Return the same field in velocity gauge."""
        other = copy.copy(self)
        other.gauge = "velocity"
        return other

    def electric(self, t: ArrayLike) -> FloatArray:
        """Return E(t), float64, for times of any shape."""
        t = np.asarray(t, dtype=float)
        return sum((pulse.electric(t) for pulse in self.pulses), start=np.zeros(t.shape))

    def vector_potential(self, t: ArrayLike) -> FloatArray:
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

    def steps(self, count: int, dt: float) -> FloatArray:
        """Return the field of every step from 0 on, (count,): see :meth:`over`."""
        return self.over((np.arange(count) + 0.5) * dt, dt)

    def over(self, middle: NDArray[Any], dt: float, *, potential: bool = False) -> FloatArray:
        """Return E of steps of length `dt` about some times, or A: at the midpoint, or the mean where that misses the field.

        A field that is switched on within a step, or a pulse narrower than it, has a mean far from the midpoint; the mean of E,
        ``-(A(t + dt) - A(t)) / dt``, keeps A at the ends of the steps exact.

        Parameters
        ----------
        middle : (count,) float64
            Midpoints, atomic units.
        dt
            May be negative.
        potential
            Whether A is wanted.
        """
        function = self.vector_potential if potential else self.electric
        value = np.asarray(function(middle), float)
        if not value.size or not self.pulses:
            return value
        half, last = 0.5 * abs(dt), float(np.max(middle)) + abs(dt)
        places = np.unique(
            np.concatenate([pulse.places(last - pulse.start, abs(dt)) for pulse in self.pulses])
        )
        # a place at the end of a step divides nothing; steps beside a rough one take their means, too, so that these add up
        slack, beside = 1e-6 * half, BESIDE * 2.0 * half
        low, high = middle - half, middle + half
        found = np.searchsorted(places, high + beside - slack) > np.searchsorted(places, low - beside + slack)
        k = np.flatnonzero(found)
        if k.size:
            far = 2.0 * half * np.arange(-BESIDE, BESIDE + 1)[:, None]
            around, mean = self._roughness(middle[k] + far, half, places, potential)
            rough = np.any(around, axis=0)
            value[k[rough]] = mean[BESIDE][rough]
        return value

    def _roughness(
        self, middle: FloatArray, half: float, places: FloatArray, potential: bool
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """Return whether the midpoints of steps (offsets, n) miss the field, and the means of these steps."""
        function = self.vector_potential if potential else self.electric
        low, high = middle - half, middle + half
        if potential:
            mean = self._mean_potential(low.ravel(), high.ravel(), places).reshape(middle.shape)
        else:
            mean = (self.vector_potential(low) - self.vector_potential(high)) / (2.0 * half)
        value = function(middle)
        near = [np.abs(function(middle + far)) for far in (-2.0 * half, 2.0 * half)]
        scale = np.max([*near, np.abs(mean), np.abs(value)], axis=0)
        return np.abs(mean - value) > ROUGH * scale, mean

    def _mean_potential(self, low: FloatArray, high: FloatArray, places: FloatArray) -> FloatArray:
        """Return the means of A over steps (n,) that some places divide: Gauss-Legendre sums of smooth pieces."""
        edges = np.unique(np.concatenate([low, high, places[(places > low.min()) & (places < high.max())]]))
        half = 0.5 * np.diff(edges)
        pieces = np.zeros(half.size)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            pieces += weight * half * self.vector_potential(edges[:-1] + half * (1.0 + node))
        sums = np.concatenate([[0.0], np.cumsum(pieces)])
        return (sums[np.searchsorted(edges, high)] - sums[np.searchsorted(edges, low)]) / (high - low)

    def kicks(self, count: int, dt: float) -> bool:
        """Tell whether some step has a mean of the field that its midpoint misses: the field may be narrower than a step."""
        middle = (np.arange(count) + 0.5) * dt
        own = self.over(middle, dt)
        return bool(np.any(np.abs(own - self.electric(middle)) > ROUGH * np.abs(own)))

    @property
    def carrier(self) -> PulseField | None:
        """The pulse with a carrier and the largest ponderomotive energy."""
        # Up = (E0 / 2 omega)^2: the pulse that drives electrons most sets the scale of harmonics
        pulses = [pulse for pulse in self.pulses if pulse.omega]
        return max(pulses, key=lambda p: p.amplitude / (p.omega or 1.0), default=None)

    @property
    def omega(self) -> float | None:
        """Frequency of the `carrier`: harmonics are counted in it."""
        return self.carrier.omega if self.carrier else None

    @property
    def fastest(self) -> float:
        """Highest carrier frequency, chirp included; 0 without one."""
        return max((pulse.block.fastest for pulse in self.pulses), default=0.0)

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

    def samples(self, t_final: float) -> FloatArray:
        """Return times that resolve the field, (m,) float64, 0 to `t_final`."""
        # enough samples per cycle that a peak is missed by 2e-5 of its height at most
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

    def check_tables(self, t_final: float) -> Iterator[Finding]:
        """Yield a warning for every table whose curve its rows do not determine, or whose field is cut off at its end."""
        for pulse in self.pulses:
            if not isinstance(pulse.block, TablePulse):
                continue
            yield from remark_on(pulse.block, pulse.block.curve, pulse.key)
            # not small at its end, and zero from there on
            if pulse.start + pulse.length >= t_final * (1.0 - 1e-6):
                continue
            last = abs(float(pulse.block.E(np.array([pulse.length * (1.0 - 1e-12)]))[0]))
            end = pulse.start + pulse.length
            largest = float(np.abs(pulse.block.E(np.linspace(0.0, pulse.length, 1001))).max())
            if last > CUT * largest:
                yield Finding(
                    f"{pulse.key}.file",
                    f"the table ends at {end:.6g} a.u. with {last / largest:.2g} of its largest field, before "
                    f"the run does ({t_final:.6g} a.u.); the field is zero afterwards",
                    "warning",
                )

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
