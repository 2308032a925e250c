"""Chebyshev expansion of the propagator of a constant Hamiltonian.

With the spectrum inside ``[c - R, c + R]`` and ``H' = (H - c) / R``,

    exp(-i H t) = exp(-i c t) sum_k (2 - delta_k0) (-i)^k J_k(R t) T_k(H'),

whose terms fall faster than exponentially beyond ``k = R t``: the number of products ``H psi`` is about ``R t + 10 (R t)^(1/3)``,
hardly depends on the accuracy, and no other method needs fewer for one long step (Tal-Ezer and Kosloff 1984).  Memory: the state,
two more vectors, and one as work space of the frame form of ``H psi``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.kernels.product.apply import apply_h
from qsim.trotter.kernels.product.operators import Operator, operator
from qsim.trotter.states.vectors import axpy, hashes, norm2, overlap, scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.sectors.lanczos import Linear
    from qsim.trotter.states.vectors import Amplitudes

LANCZOS_STEPS = 24
# of the half width, beyond the Ritz values
MARGIN = 0.02
# R t of one expansion: rounding grows with the number of terms
LONGEST = 1000.0
EPS = {np.dtype(np.complex64): 6e-8, np.dtype(np.complex128): 1.2e-16}

Bounds = Literal["lanczos", "couplings"]


@dataclass(frozen=True)
class Whole:
    """H in the whole space."""

    device: Device
    operator: Operator

    @property
    def size(self) -> int:
        """Length of a vector."""
        return 1 << self.operator.spins

    @property
    def needs_work(self) -> bool:
        """True if `apply` needs a vector as work space."""
        return self.operator.needs_work

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
        apply_h(self.device, self.operator, psi, out, alpha=alpha, beta=beta, gamma=gamma, work=work)


@dataclass(frozen=True)
class Expansion:
    """The work and the error of one call of :meth:`Chebyshev.advance`.

    Attributes
    ----------
    products : int
        Products ``H psi``.
    error : float
        Bound of the tail of the series and of rounding, relative to the norm of the state.
    """

    products: int
    error: float


class Chebyshev:
    """Propagates states with one constant Hamiltonian.

    Parameters
    ----------
    model : Model or Hamiltonian
        Without time profiles.
    form
        Form of ``H psi``; see :func:`qsim.trotter.kernels.product.apply.operator`.
    bounds
        How the ends of the spectrum are found: ``"lanczos"`` (24 products ``H psi`` at the first use), ``"couplings"``
        (rigorous, but 1.4 times too wide for a Heisenberg ring and 3 times for random all-to-all couplings), or two numbers.
    linear
        H as it acts on the vectors of a sector, or on the parts of processes; by default H of the whole space.
    """

    def __init__(
        self,
        device: Device,
        model: Hamiltonian | Model,
        *,
        form: Literal["auto", "bonds", "frames"] = "auto",
        bounds: Bounds | tuple[float, float] = "lanczos",
        linear: Linear | None = None,
    ) -> None:
        self.device = device
        self.model = constant(model)
        self.linear = Whole(device, operator(device, self.model, form)) if linear is None else linear
        # to processes that have other amplitudes of the vectors
        self.links = getattr(self.linear, "links", None)
        self._choice = bounds
        self._bounds: tuple[float, float] | None = None if isinstance(bounds, str) else bounds
        self.products = 0

    def bounds(self, dtype: DTypeLike = np.complex128) -> tuple[float, float]:
        """Return the ends of the interval that is taken for the spectrum."""
        if self._bounds is None:
            if self._choice == "couplings":
                self._bounds = coupling_bounds(self.model)
            else:
                self._bounds = lanczos_bounds(self.device, self.linear, self.model, dtype=dtype)
                self.products += LANCZOS_STEPS
        return self._bounds

    def advance(
        self, psi: Amplitudes, t: float, tolerance: float = 1e-12, poll: Callable[[], None] | None = None
    ) -> Expansion:
        """Replace ``psi`` by ``exp(-i H t) psi``.

        Parameters
        ----------
        psi : (2^N,) complex, in/out
        t : float
            May be negative.
        tolerance : float
            Error of the state relative to its norm, not below the rounding of the precision.
        poll : callable, optional
            Called after every product.

        Raises
        ------
        NumericsError
            If the norm shows that the spectrum is wider than the bounds.
        """
        if t == 0.0:
            return Expansion(0, 0.0)
        # H' = (H - c) / R has its spectrum in [-1, 1], where the polynomials T_k are bounded
        low, high = self.bounds(psi.dtype)
        centre, radius = 0.5 * (low + high), 0.5 * (high - low)
        # the norm before: the check at the end compares with it
        before = norm2(psi, self.links)
        if before == 0.0:
            return Expansion(0, 0.0)
        # long expansions are cut in parts, for the sum of terms of either sign and for the memory of their coefficients
        parts = max(1, math.ceil(radius * abs(t) / LONGEST))
        numbers, left = coefficients(radius * t / parts, tolerance / parts)
        work = self._work(psi)
        for _ in range(parts):
            self._expand(psi, numbers, centre, radius, t / parts, work, poll)
        products = parts * (len(numbers) - 1)
        self.products += products
        # left out of the series, and rounding that adds up like a random walk over the products
        error = parts * left + EPS[psi.dtype] * math.sqrt(products + 1.0) * 4.0
        # outside of the bounds polynomials grow instead of oscillating, and so does the norm
        drift = abs(norm2(psi, self.links) / before - 1.0)
        # 1e3: an end that is missed makes the norm grow by powers of ten, rounding by a few units
        if not drift <= 1e3 * (error + EPS[psi.dtype] * (products + 10)):
            raise NumericsError(
                f"the norm changed by {drift:.2g} in a Chebyshev expansion: the spectrum reaches beyond [{low:.6g}, {high:.6g}]",
                hint="use a splitting, such as evolve.integrator: bm6",
            )
        return Expansion(products, error)

    def _work(self, psi: Amplitudes) -> tuple[Any, ...]:
        """Allocate once per call: the second polynomial, the sum, and the work space of H psi."""
        xp = self.device.xp
        space = xp.empty_like(psi) if self.linear.needs_work else None
        return xp.empty_like(psi), xp.empty_like(psi), space

    def _expand(
        self,
        psi: Amplitudes,
        numbers: NDArray[np.float64],
        centre: float,
        radius: float,
        t: float,
        work: tuple[Any, ...],
        poll: Callable[[], None] | None,
    ) -> None:
        """Sum one series; psi is the first polynomial, then work space, and the result."""
        other, total, space = work
        scale(numbers[0], psi, out=total)
        # H of one energy: the phase of the centre alone
        inverse = 1.0 / radius if radius > 0 else 0.0
        # psi and other hold T_(k-1) and T_k in turn; only the sum is a third vector
        old, new = psi, other
        for k in range(1, len(numbers)):
            # T_1 = H', T_(k+1) = 2 H' T_k - T_(k-1), written over T_(k-1)
            twice = 1.0 if k == 1 else 2.0
            gamma = 0.0 if k == 1 else -1.0
            self.linear.apply(old, new, twice * inverse, -twice * centre * inverse, gamma, space)
            # (-i)^k without rounding
            axpy((1, -1j, -1, 1j)[k % 4] * numbers[k], new, total, self.device.threads)
            old, new = new, old
            if poll is not None:
                poll()
        # the phase exp(-i c t) of the centre
        angle = -centre * t
        scale(complex(math.cos(angle), math.sin(angle)), total, out=psi)


def constant(hamiltonian: Hamiltonian | Model) -> Model:
    """Return the model of a Hamiltonian that does not depend on time."""
    if not hamiltonian.is_static:
        raise ValueError("a Chebyshev expansion needs a Hamiltonian that does not depend on time")
    return hamiltonian.static


def coefficients(x: float, tolerance: float) -> tuple[NDArray[np.float64], float]:
    """Return ``(2 - delta_k0) J_k(x)`` up to the k beyond which the sum of sizes is below the tolerance, and that sum."""
    from scipy.special import jv

    # sizes of the Bessel functions fall faster than exponentially beyond k = |x| + O(|x|^(1/3))
    size = abs(x)
    most = int(size + 40 + 20 * size ** (1 / 3))
    values = 2.0 * jv(np.arange(most), x)
    values[0] *= 0.5
    # tail[k]: sum from k on
    tail = np.cumsum(np.abs(values[::-1]))[::-1]
    # not empty, as the last ones underflow; 1e-17: below the rounding
    # of a sum of terms of order one there is nothing to gain
    enough = np.flatnonzero(tail <= max(tolerance, 1e-17))
    keep = max(1, int(enough[0]))
    return values[:keep], float(tail[keep])


def coupling_bounds(model: Model) -> tuple[float, float]:
    """Return bounds of the spectrum: the sums of the least and largest energies of every pair and every field.

    The energies of a pair are ``(s_x Jx + s_y Jy + s_z Jz) / 4`` of the four Bell states, with signs whose product is -1.
    """
    return model.bounds


def lanczos_bounds(
    device: Device,
    op: Operator | Linear,
    model: Model,
    *,
    steps: int = LANCZOS_STEPS,
    dtype: DTypeLike = np.complex128,
) -> tuple[float, float]:
    """Return the ends of the spectrum from a few Lanczos steps, widened by the residuals, inside :func:`coupling_bounds`.

    The residual of the outermost Ritz pair and 2 % of the half width are added on either side (Zhou and Li, Linear Algebra
    Appl. 435, 480); in the whole space polarised states along the axes, which a random start hardly contains, are taken in.
    """
    rigorous = coupling_bounds(model)
    linear = Whole(device, op) if isinstance(op, Operator) else op
    size = linear.size
    # a small space is exhausted before
    steps = min(steps, getattr(linear, "whole", size))
    xp = device.xp
    # of a vector that processes share, its part; the whole one has norm 1
    links, first = getattr(linear, "links", None), getattr(linear, "first", 0)
    v = _random_phases(device, (first, first + size), getattr(linear, "whole", size), dtype)
    old, space = xp.zeros_like(v), xp.empty_like(v) if linear.needs_work else None
    diagonal: list[float] = []
    beside: list[float] = []
    # Lanczos without reorthogonalisation: ghosts repeat outer levels, and do no harm to the ends
    for _ in range(steps):
        linear.apply(v, old, gamma=-(beside[-1] if beside else 0.0), work=space)
        diagonal.append(overlap(v, old, links).real)
        axpy(-diagonal[-1], v, old, device.threads)
        beside.append(math.sqrt(norm2(old, links)))
        # the space is invariant, or nearly: the next vector would be rounding
        if beside[-1] <= 1e-6 * max(map(abs, rigorous), default=0.0):
            break
        scale(1.0 / beside[-1], old)
        v, old = old, v
    off = beside[: len(diagonal) - 1]
    ritz, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    # an eigenvalue lies within the residual of each Ritz value: no end is missed by more than that, but for states that the
    # start does not contain
    residual = beside[-1] * np.abs(vectors[-1])
    low, high = float(ritz[0] - residual[0]), float(ritz[-1] + residual[-1])
    if isinstance(linear, Whole) or links is not None:
        for a in range(3):
            # polarised states along an axis are eigenstates of the couplings along it, far from any random vector
            exchange, field = model.J[a].sum() / 8, abs(model.h[a].sum()) / 2
            low, high = min(low, exchange - field), max(high, exchange + field)
    # a margin for the ends that 24 steps miss, but never beyond the sums of the couplings
    width = MARGIN * 0.5 * (high - low)
    return max(low - width, rigorous[0]), min(high + width, rigorous[1])


def _random_phases(device: Device, part: tuple[int, int], whole: int, dtype: DTypeLike) -> Amplitudes:
    """Return amplitudes first .. last - 1 of a unit vector of random phases, the hash `splitmix64` of the index."""
    # as in `random_start`, with phases: every string has the same weight
    xp = device.xp
    first, last = part
    out = xp.empty(last - first, dtype)
    piece = 1 << 20
    with device.use():
        for start in range(first, last, piece):
            z = hashes(xp, start, min(start + piece, last), 1)
            angle = (z >> np.uint64(11)).astype(np.float64) * (2.0**-53 * 2.0 * math.pi)
            out[start - first : start - first + piece] = xp.exp(1j * angle) / math.sqrt(whole)
    return out
