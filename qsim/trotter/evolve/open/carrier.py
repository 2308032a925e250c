r"""One quantum trajectory: a state drifts until its norm squared has fallen to a random number, and jumps there.

d rho/dt = -i [H, rho] + sum_k (L_k rho L_k^+ - {L_k^+ L_k, rho} / 2) is the mean over these states (Dalibard, Castin and Molmer,
PRL 68, 580 (1992)).  The time of a jump has the order of the drift: a cubic through ln ||psi||^2 and its slopes at both ends of
the step in which it fell below ln u, one step back from the end, and Newton steps.  Where the rate of all jumps is the same in
every state the time is known beforehand.

The numbers of jump n of trajectory m are functions of (seed, m, n) alone: results depend neither on batches nor on ranks, and two
runs with different steps make the same jumps.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.trotter.evolve.open.drifts import Drift

__all__ = ["NOWHERE", "SAME", "Carrier", "randoms"]

# of an error
NOWHERE = "no jump has a rate before t = {time:g}, where the norm has fallen"

# of the logarithm of the norm at a jump
CLOSE = 1e-12
# of a jump at most
NEWTON = 12
# ends of a step that rounding cannot tell
SAME = 1e-13
# of the integral of a rate that depends on time
BISECTIONS, PIECES = 60, 256


# asked at every output time until the jump
@lru_cache(maxsize=16)
def randoms(seed: int, member: int, number: int) -> tuple[float, float]:
    """Return the two random numbers of a jump: of its time in (0, 1], of its channel in [0, 1)."""
    key = np.array([np.uint64(seed & 0xFFFFFFFFFFFFFFFF), np.uint64(member)])
    drawn = np.random.Generator(np.random.Philox(key=key, counter=number)).random(2)
    return 1.0 - float(drawn[0]), float(drawn[1])


class Carrier:
    """A trajectory.

    Parameters
    ----------
    drift : Drift
        Carries the state between jumps.
    seed, member : int
        Of the random numbers.

    Attributes
    ----------
    jumps : list of (float, int)
        Time and channel of every jump so far.
    """

    def __init__(self, drift: Drift, seed: int, member: int) -> None:
        self.drift, self.seed, self.member = drift, seed, member
        self.jumps: list[tuple[float, int]] = []
        # of the clock: what is left of -ln u
        self.wait: float | None = None

    def advance(self, start: float, end: float, dt: float) -> None:
        """Carry the state from a time to another one, in steps of dt as long as no jump is near."""
        if self.drift.clock is not None:
            self._clocked(start, end, self.drift.clock)
            return
        t, close = start, SAME * max(abs(start), abs(end))
        while end - t > close:
            u, chosen = randoms(self.seed, self.member, len(self.jumps))
            steps = int((end - t) / dt * (1.0 + 1e-12))
            length = dt if steps else end - t
            made = self.drift.stretch(t, length, max(steps, 1), u)
            t += made.made * length
            if made.after[0] < u:
                t = self._found(t, length, made.before, made.after, math.log(u))
                self._jump(t, chosen)

    def _found(
        self, end: float, dt: float, before: tuple[float, float], after: tuple[float, float], target: float
    ) -> float:
        """Bring the state to the time at which ln ||psi||^2 is at the target, within the step that ends now; return it."""
        root = _hermite(before, after, dt, target)
        drift, t = self.drift, end
        tau = root - dt
        for _ in range(NEWTON):
            drift.step(t, tau)
            t += tau
            w, q = drift.weight(t)
            off = math.log(w) - target
            tau = off * w / q if q > 0.0 else 0.0
            # never out of the step
            tau = min(max(tau, end - dt - t), end - t)
            if abs(off) < CLOSE or tau == 0.0:
                return t
        return t

    def _jump(self, t: float, chosen: float) -> None:
        rates = np.cumsum(self.drift.rates(t))
        if not rates[-1] > 0.0:
            raise NumericsError(NOWHERE.format(time=t), hint="lower evolve.dt")
        # a channel of rate 0 is never chosen
        channel = int(np.searchsorted(rates, chosen * rates[-1], side="right"))
        channel = min(channel, int(np.flatnonzero(np.diff(rates, prepend=0.0) > 0.0)[-1]))
        self.drift.jump(channel)
        self.jumps.append((t, channel))

    def _clocked(self, start: float, end: float, rate: Callable[[float], float]) -> None:
        """Carry a state whose jumps come at times that do not depend on it."""
        t = start
        while True:
            u, chosen = randoms(self.seed, self.member, len(self.jumps))
            if self.wait is None:
                self.wait = -math.log(u)
            due, passed = _due(rate, t, end, self.wait, driven=self.drift.driven)
            stop = end if due is None else due
            self.drift.step(t, stop - t)
            if due is None:
                self.wait -= passed
                return
            t, self.wait = due, None
            self._jump(t, chosen)

    # ----------------------------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, Any]:
        """Return what continues the trajectory."""
        return {
            "psi": self.drift.psi,
            "down": getattr(getattr(self.drift, "space", None), "down", -1),
            "jumps": np.array(self.jumps, float).reshape(-1, 2),
            "wait": self.wait,
        }


def _hermite(before: tuple[float, float], after: tuple[float, float], dt: float, target: float) -> float:
    """Return the time within a step at which the cubic through ln w at both ends, with slopes -q / w, is at the target."""
    y0, y1 = math.log(before[0]), math.log(max(after[0], 1e-300))
    d0, d1 = -before[1] / before[0] * dt, -after[1] / max(after[0], 1e-300) * dt
    low, high = 0.0, 1.0
    x = min(max((y0 - target) / (y0 - y1) if y0 > y1 else 0.5, 0.0), 1.0)
    for _ in range(60):
        s = 1.0 - x
        f = (1 + 2 * x) * s * s * y0 + x * s * s * d0 + x * x * (3 - 2 * x) * y1 - x * x * s * d1 - target
        low, high = (x, high) if f > 0.0 else (low, x)
        slope = 6 * x * s * (y1 - y0) + (1 - 4 * x + 3 * x * x) * d0 + (3 * x * x - 2 * x) * d1
        step = x - f / slope if slope != 0.0 else -1.0
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - x) < 1e-15:
            break
        x = new
    return x * dt


def _due(
    rate: Callable[[float], float], start: float, end: float, wait: float, *, driven: bool
) -> tuple[float | None, float]:
    """Return the time at which the integral of a rate from `start` is `wait`, None if not before `end`; and that integral."""
    if not driven:
        total = rate(start) * (end - start)
        return (None, total) if total < wait else (start + wait / rate(start), wait)
    times = np.linspace(start, end, PIECES + 1)
    values = np.array([rate(float(t)) for t in times])
    middle = np.array([rate(float(t)) for t in 0.5 * (times[1:] + times[:-1])])
    # Simpson's rule on fine pieces
    parts = np.diff(times) * (values[1:] + 4.0 * middle + values[:-1]) / 6.0
    sums = np.cumsum(parts)
    if sums[-1] < wait:
        return None, float(sums[-1])
    k = int(np.searchsorted(sums, wait))
    left = wait - (sums[k] - parts[k])
    a, h = times[k], times[k + 1] - times[k]
    # the integral of the parabola of the piece up to a share x of it
    f0, f1, f2 = values[k], middle[k], values[k + 1]

    def upto(x: float) -> float:
        return (
            h
            * x
            * (f0 + x * ((-1.5 * f0 + 2.0 * f1 - 0.5 * f2) + x * (2.0 * f0 - 4.0 * f1 + 2.0 * f2) / 3.0))
        )

    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        x = 0.5 * (low + high)
        low, high = (x, high) if upto(x) < left else (low, x)
    return float(a + h * 0.5 * (low + high)), wait
