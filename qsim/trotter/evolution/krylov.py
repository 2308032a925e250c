"""Evolution by exponentials in Krylov spaces, with steps found on the way: of a constant H, and of one that depends on time.

**One exponential.** m steps of Lanczos from psi give ``exp(-i H h) psi = V exp(-i T h) e_1``, up to an error of at most

    beta_m int_0^h |[exp(-i T s)]_(m,1)| ds,

since the evolution is unitary (Saad, SIAM J. Numer. Anal. 29, 209 (1992)).  m grows until that is below the tolerance; if it
does not with the most vectors, the step is shortened, for which T needs no more products.

**H(t).** A step of the commutator-free Magnus integrator of order 4 is two exponentials of weighted means of H at the two points
of Gauss (Blanes and Moan, Appl. Numer. Math. 56, 1519 (2006)).  Each is made once and again as two halves; the distance over 15
is the error of the halves, which are kept, and decides about the step.  The errors of unitary steps add up at most.  Steps end at
the kinks of the profiles.

A share of the accuracy below the rounding of a step, ``eps (1 + ||H|| h)``, is raised to it: in narrow pulses there are few such
steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.sectors.lanczos import ritz
from qsim.trotter.states.vectors import axpy, norm2, overlap, scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.sectors.lanczos import Linear

# of a Krylov space at most
VECTORS = 20
# of the integral in the bound of an error
POINTS = 24
ORDER = 4
# of the evolution: longest step of H(t), so that none passes over a feature of the profiles
LONGEST = 1.0 / 64.0
# of a time in which the profiles are smooth
SHORTEST = 1e-9


@dataclass
class Combined:
    """A weighted sum of Hamiltonians."""

    parts: Sequence[tuple[float, Linear]]

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.parts[0][1].size

    @property
    def whole(self) -> int:
        """Length of a vector together with the parts of other processes."""
        linear = self.parts[0][1]
        return int(getattr(linear, "whole", linear.size))

    @property
    def links(self) -> Links | None:
        """To processes that have other parts of the vectors, None where there are none."""
        return getattr(self.parts[0][1], "links", None)

    @property
    def needs_work(self) -> bool:
        """True if `apply` needs a vector as work space."""
        return any(linear.needs_work for _, linear in self.parts)

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``."""
        for number, (weight, linear) in enumerate(self.parts):
            first = number == 0
            # the first part sets out, the others add to it
            linear.apply(psi, out, alpha * weight, beta if first else 0.0, gamma if first else 1.0, work)


class Exponential:
    """Exponentials in Krylov spaces of one size; the vectors are kept from one to the next."""

    def __init__(self, device: Device, size: int, dtype: Any) -> None:
        self.device, self.most = device, min(VECTORS, size)
        self.ulp = 0.5 * float(np.finfo(dtype).eps)
        with device.use():
            self.space = [device.xp.empty(size, dtype) for _ in range(self.most + 1)]
            self.work = device.xp.empty(size, dtype)
        self.products = 0

    def advance(self, linear: Linear, psi: NDArray[Any], t: float, tolerance: float) -> None:
        """Replace psi by ``exp(-i H t) psi``; t may be negative.

        Parameters
        ----------
        tolerance : float
            Error, relative to the norm.
        """
        left = t
        # each step takes as long a time as its space allows; the error is shared by time
        while left != 0.0:
            left -= self._step(linear, psi, left, tolerance / abs(t))

    def _step(self, linear: Linear, psi: NDArray[Any], t: float, rate: float) -> float:
        """Advance psi by at most t with an error of at most `rate` per time; return by how much."""
        # to processes that have other amplitudes of the vectors
        links = getattr(linear, "links", None)
        norm = math.sqrt(norm2(psi, links))
        if norm == 0.0:
            return t
        alpha: list[float] = []
        beta: list[float] = []
        v = self.space
        scale(1.0 / norm, psi, out=v[0])
        done = t
        # Lanczos in vectors that are all kept: the exponential needs them
        for k in range(self.most):
            linear.apply(v[k], v[k + 1], work=self.work)
            self.products += 1
            if k:
                axpy(-beta[-1], v[k - 1], v[k + 1])
            alpha.append(overlap(v[k], v[k + 1], links).real)
            axpy(-alpha[-1], v[k], v[k + 1])
            beta.append(math.sqrt(norm2(v[k + 1], links)))
            # size of H among the vectors so far
            size = max(map(abs, alpha)) + max(beta)
            # the space is invariant
            if beta[-1] <= 1e-14 * size or k + 1 == getattr(linear, "whole", linear.size):
                done = t
                break
            # the bound is looked at after every product: H of short steps needs few vectors
            if _bound(alpha, beta, t) <= max(rate, self.ulp * size) * abs(t):
                break
            scale(1.0 / beta[-1], v[k + 1])
        # all vectors are used: a shorter step, from the same space
        else:
            done = _longest(alpha, beta, t, max(rate, self.ulp * size))
        # psi = V exp(-i T h) e_1 |psi|
        values, vectors = ritz(alpha, beta)
        numbers = vectors @ (np.exp(-1j * done * values) * vectors[0])
        scale(norm * complex(numbers[0]), v[0], out=psi)
        for k in range(1, len(alpha)):
            axpy(norm * complex(numbers[k]), v[k], psi)
        return done


def _bound(alpha: list[float], beta: list[float], t: float) -> float:
    """Return the bound of the error of a step t, the integral from above by the larger end of each part."""
    values, vectors = ritz(alpha, beta)
    # the integrand oscillates with the energies of T; of each part the larger end counts
    times = np.linspace(0.0, t, POINTS + 1)
    last = np.abs(np.exp(-1j * np.outer(times, values)) @ (vectors[0] * vectors[-1]))
    return float(beta[-1] * abs(t) / POINTS * np.maximum(last[1:], last[:-1]).sum())


def _longest(alpha: list[float], beta: list[float], t: float, rate: float) -> float:
    """Return the longest step (a fraction of t) whose error is below its share.

    Raises
    ------
    NumericsError
        If even a tiny one is not.
    """
    fraction = 1.0
    # a fifth less at a time: each try is a small matrix, not a product
    while _bound(alpha, beta, fraction * t) > rate * fraction * abs(t):
        fraction *= 0.8
        if fraction < SHORTEST:
            raise NumericsError(
                f"no Krylov step reaches an error of {rate:.2g} per time",
                hint="ask for a larger evolve.accuracy",
            )
    return fraction * t
