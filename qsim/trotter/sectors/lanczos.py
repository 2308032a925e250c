"""Lowest levels of H by the recurrence of Lanczos, one after the other.

Each level is looked for in the orthogonal complement of those found before, from another random start, so that a level of
multiplicity g is found g times, whatever H is.  The recurrence keeps two vectors; its eigenvector is summed in a second run of
the same recurrence, which has all its numbers from the first and makes no scalar products.  Orthogonality is lost only when a
level has converged, which is where it stops.  A level is accepted by the residual ``||H x - theta x||`` of the vector itself: an
eigenvalue lies within this distance of theta.  Of vectors that several processes share each has a part; sums go over all of them,
by the `links` of the operator, in the order of the processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.core.device.device import namespace
from qsim.core.device.links import total
from qsim.core.device.pool import each_part
from qsim.core.errors import NumericsError
from qsim.trotter.states.vectors import hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.sectors.linear import SpaceOperator

__all__ = [
    "EPS",
    "Levels",
    "Linear",
    "Search",
    "chain",
    "diagonal_among",
    "dot",
    "judged",
    "random_start",
    "ritz",
    "turn_vectors",
]


# of one recurrence, before it starts again from the best vector
STEPS = 300
ROUNDS = 12
# products between two looks at the convergence
CHECK = 5
PIECE = 1 << 15
PIECE_CUDA = 1 << 26
# pieces that threads share; fewer are done before others wake
SHARED = 8
EPS = 2.2e-16
# of what a step removes: less than that is orthogonalised again
LITTLE = 0.1


class Linear(Protocol):
    """H as it acts on vectors: of the whole space, or of a sector."""

    @property
    def size(self) -> int:
        """Length of a vector."""

    @property
    def needs_work(self) -> bool:
        """True if `apply` needs a vector as work space."""

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


def _pieces(size: int, xp: Any) -> range:
    return range(0, size, PIECE if xp is np else PIECE_CUDA)


def _summed(numbers: Sequence[complex], links: Links | None) -> list[complex]:
    """Return numbers, added over all processes."""
    if links is None or links.size == 1:
        return list(numbers)
    flat = np.array(numbers, np.complex128).view(np.float64)
    return [complex(number) for number in total(links, flat).view(np.complex128)]


def dot(a: NDArray[Any], b: NDArray[Any], links: Links | None = None) -> complex:
    """Return ``<a|b>``, summed in a fixed order; with `links` over all processes, a collective call."""
    # sums of pieces of fixed length, added exactly on a CPU:
    # the result does not depend on the number of threads
    xp = namespace(a)
    step = _pieces(a.size, xp).step
    parts = [xp.vdot(a[k : k + step], b[k : k + step]) for k in _pieces(a.size, xp)]
    if xp is not np:
        return _summed([complex(xp.stack(parts).sum())], links)[0]
    own = complex(math.fsum(p.real for p in parts), math.fsum(p.imag for p in parts))
    return _summed([own], links)[0]


def add(c: complex, x: NDArray[Any], y: NDArray[Any]) -> None:
    """Add ``c x`` to y in place."""
    xp = namespace(y)
    # a real vector stays real; the imaginary part of the factor is rounding there
    factor = y.dtype.type(c if y.dtype.kind == "c" else complex(c).real)
    step = _pieces(y.size, xp).step
    for k in _pieces(y.size, xp):
        y[k : k + step] += factor * x[k : k + step]


def _in_pieces(device: Device, size: int, work: Callable[[slice], Any]) -> list[Any]:
    """Return what some work returns for the pieces of a vector, in their order; threads of a CPU share them."""
    pieces = _pieces(size, device.xp)
    if len(pieces) < SHARED:
        return [work(slice(start, min(start + pieces.step, size))) for start in pieces]
    made: list[Any] = [None] * len(pieces)

    def some(first: int, last: int) -> None:
        for k in range(first, last):
            made[k] = work(slice(pieces[k], min(pieces[k] + pieces.step, size)))

    each_part(some, len(pieces), size, 1 if device.is_cuda else device.threads, alike=work)
    return made


def overlaps(device: Device, vectors: Sequence[Any], w: Any, links: Links | None = None) -> list[complex]:
    """Return ``<x|w>`` of some vectors x, read together piece by piece; summed as by :func:`dot`."""
    xp = device.xp
    if w.size <= PIECE:
        return _summed([complex(xp.vdot(x, w)) for x in vectors], links)
    rows = _in_pieces(device, w.size, lambda s: [xp.vdot(x[s], w[s]) for x in vectors])
    if device.is_cuda:
        sums = xp.stack([xp.stack(row) for row in rows]).sum(axis=0)
        return _summed([complex(number) for number in sums], links)
    return _summed(
        [
            complex(math.fsum(p.real for p in parts), math.fsum(p.imag for p in parts))
            for parts in zip(*rows, strict=True)
        ],
        links,
    )


def subtract(
    device: Device,
    vectors: Sequence[Any],
    factors: Sequence[complex],
    w: Any,
    by: float | None = None,
    links: Links | None = None,
) -> float:
    """Subtract ``sum_k factors[k] x_k`` from w in place; return its squared norm, or multiply it by a number and return nan."""
    kind = w.dtype.type
    numbers = [kind(c if w.dtype.kind == "c" else c.real) for c in factors]

    def work(s: slice) -> Any:
        part = w[s]
        for c, x in zip(numbers, vectors, strict=True):
            part -= c * x[s]
        if by is not None:
            part *= kind(by)
            return math.nan
        return device.xp.vdot(part, part).real

    parts = [work(slice(None))] if w.size <= PIECE else _in_pieces(device, w.size, work)
    square = math.fsum(map(float, parts))
    return square if by is not None else _summed([square], links)[0].real


def turn_vectors(device: Device, vectors: list[Any], turn: NDArray[Any]) -> None:
    """Replace vectors x_j by ``sum_j x_j turn[j, k]``, in place, piece by piece."""
    xp = device.xp
    with device.use():
        factors = device.asarray(np.ascontiguousarray(turn.T))
        step = _pieces(vectors[0].size, xp).step
        for start in _pieces(vectors[0].size, xp):
            # a piece of all vectors at a time, so that no second set of vectors is needed
            made = factors @ xp.stack([x[start : start + step] for x in vectors])
            for x, row in zip(vectors, made, strict=True):
                x[start : start + step] = row


def random_start(
    device: Device, size: int, seed: int, dtype: Any = np.float64, first: int = 0, links: Links | None = None
) -> Any:
    """Return a random unit vector, the same on every device: numbers of a hash of index and seed, even in (-1, 1).

    Parameters
    ----------
    size, first : int
        Amplitudes of this process, and the index of the first of them.
    """
    xp = device.xp
    with device.use():
        out = xp.empty(size, dtype)
        # in pieces: the hash takes four arrays of integers
        for start in range(0, size, 1 << 20):
            end = min(start + (1 << 20), size)
            z = hashes(xp, first + start, first + end, (1 + seed * 0x100000001) & 0xFFFFFFFFFFFF)
            # 53 bits to (-1, 1)
            out[start:end] = (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        out *= 1.0 / math.sqrt(dot(out, out, links).real)
    return out


def ritz(alpha: list[float], beta: list[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues and eigenvectors (columns) of the tridiagonal matrix of a recurrence."""
    from scipy.linalg import eigh_tridiagonal

    if len(alpha) == 1:
        return np.array(alpha), np.ones((1, 1))
    values, vectors = eigh_tridiagonal(np.array(alpha), np.array(beta[: len(alpha) - 1]))
    return np.asarray(values), np.asarray(vectors)


def diagonal_among(device: Device, linear: SpaceOperator, group: list[Any]) -> None:
    """Turn orthonormal vectors into those with which H is diagonal among them, in place."""
    rows, links = np.empty((len(group), len(group)), group[0].dtype), linear.links
    # matrix of H among the vectors of the group, (g, g)
    with device.use():
        out = device.xp.empty_like(group[0])
        for k, vector in enumerate(group):
            linear.apply(vector, out)
            column = [dot(other, out, links) for other in group]
            rows[:, k] = column if rows.dtype.kind == "c" else np.real(column)
        turn_vectors(device, group, np.linalg.eigh(0.5 * (rows + rows.conj().T))[1])


def judged(device: Device, linear: SpaceOperator, vector: NDArray[Any]) -> tuple[float, float]:
    """Return energy and residual of a vector."""
    with device.use():
        out = device.xp.empty_like(vector)
        linear.apply(vector, out)
        energy = dot(vector, out, linear.links).real
        add(-energy, vector, out)
    return energy, math.sqrt(max(dot(out, out, linear.links).real, 0.0))


class chain:
    """The recurrence of Lanczos: ``beta_k v_(k+1) = H v_k - alpha_k v_k - beta_(k-1) v_(k-1)``.

    Parameters
    ----------
    device : Device
    linear : Linear
    start : (D,)
        Unit vector; taken over.
    locked : list of (D,)
        Orthonormal vectors whose complement is kept to.
    script : (removed, beta), optional
        Numbers of a recurrence that started from the same vector, which is run again without scalar products.

    Attributes
    ----------
    alpha, beta : list of float
    removed : list of list of complex
        Overlaps with the newest v and the locked vectors that each step removes; those of a second time after them.
    vector : (D,)
        The newest v.
    """

    def __init__(
        self,
        device: Device,
        linear: Linear,
        start: NDArray[Any],
        locked: Sequence[Any] = (),
        script: tuple[list[list[complex]], list[float]] | None = None,
    ) -> None:
        self.device, self.linear, self.locked, self._script = device, linear, locked, script
        self.links = getattr(linear, "links", None)
        self.alpha: list[float] = []
        self.beta: list[float] = []
        self.removed: list[list[complex]] = []
        self.vector = start
        with device.use():
            self.old = device.xp.zeros_like(start)

    @property
    def script(self) -> tuple[list[list[complex]], list[float]]:
        """Numbers from which the recurrence can be run again."""
        return self.removed, self.beta

    def step(self, scale: float) -> bool:
        """Make one product; return whether the recurrence goes on: beta is more than rounding of a number of size `scale`."""
        v, w, device = self.vector, self.old, self.device
        with device.use():
            # w = H v - beta_(k-1) v_(k-1), with v_(k-1) in w
            # before: the product overwrites the older vector
            self.linear.apply(v, w, gamma=-(self.beta[-1] if self.beta else 0.0))
            # rounding brings locked vectors back, multiplied at every step: they are projected out each time
            vectors = [v, *self.locked]
            if self._script is not None:
                removed, beta = self._script[0][len(self.beta)], self._script[1][len(self.beta)]
                subtract(device, vectors * (len(removed) // len(vectors)), removed, w, 1.0 / beta)
            else:
                removed = overlaps(device, vectors, w, self.links)
                if self.locked:
                    # v has a rounding part of them, which the step would multiply by alpha / beta
                    parts = overlaps(device, self.locked, v, self.links)
                    removed[1:] = [c - removed[0] * part for c, part in zip(removed[1:], parts, strict=True)]
                beta = math.sqrt(max(subtract(device, vectors, removed, w, links=self.links), 0.0))
                # little is left: rounding of what was removed is taken off as well
                if beta < LITTLE * max(map(abs, removed)):
                    removed += overlaps(device, vectors, w, self.links)
                    again = removed[len(vectors) :]
                    beta = math.sqrt(max(subtract(device, vectors, again, w, links=self.links), 0.0))
            self.removed.append(removed)
            self.alpha.append(removed[0].real)
            self.beta.append(beta)
            # the Krylov space is invariant: a further vector would be rounding alone
            if beta <= 8.0 * EPS * max(scale, 1e-300):
                return False
            if self._script is None:
                subtract(device, [], [], w, 1.0 / beta)
        self.vector, self.old = w, v
        return True


@dataclass
class Levels:
    """Levels found.

    Attributes
    ----------
    energies, residuals : list of float
        Ascending (descending for the highest); ``||H x - E x||``.
    vectors : list of (D,)
        Orthonormal, on the device.
    """

    energies: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    vectors: list[Any] = field(default_factory=list)

    def add(self, energy: float, residual: float, vector: NDArray[Any], sign: float) -> None:
        """Put a level at its place."""
        place = int(np.searchsorted(sign * np.array(self.energies), sign * energy, side="right"))
        self.energies.insert(place, energy)
        self.residuals.insert(place, residual)
        self.vectors.insert(place, vector)


class Search:
    """The lowest or highest levels of H.

    Parameters
    ----------
    device : Device
    linear : SpaceOperator
    count : int
        Levels wanted; at most as many as there are.
    tolerance : float
        Largest residual.
    scale : float
        Bound of the size of the spectrum, by which rounding is judged.
    highest : bool
        The highest instead of the lowest.
    dtype
        Of the vectors.
    """

    def __init__(
        self,
        device: Device,
        linear: SpaceOperator,
        count: int,
        tolerance: float,
        scale: float,
        *,
        highest: bool = False,
        dtype: Any = np.float64,
    ) -> None:
        self.device, self.linear, self.dtype = device, linear, dtype
        self.count = min(count, linear.states)
        self.sign = -1.0 if highest else 1.0
        self.scale = scale
        # rounding of a product leaves no smaller residual
        self.tolerance = max(tolerance, self.floor)
        self.found = Levels()
        self.products = 0

    @property
    def floor(self) -> float:
        """The residual that rounding leaves."""
        eps = EPS if np.finfo(self.dtype).eps < 1e-10 else 1.2e-7
        return 16.0 * eps * max(self.scale, 1e-300)

    @property
    def complete(self) -> bool:
        """True if all levels are found."""
        return len(self.found.energies) >= self.count

    def next_level(self, poll: Callable[[], None] | None = None) -> None:
        """Find one more level.

        Raises
        ------
        NumericsError
            If the residual does not come down to the tolerance.
        """
        # each level from another start: one of multiplicity g
        # is found g times, in the complement of those before
        linear = self.linear
        seed = 1 + len(self.found.energies)
        start = self._orthogonal(
            random_start(self.device, linear.size, seed, self.dtype, linear.first, linear.links)
        )
        residual = math.inf
        # few hundred steps lose orthogonality to rounding; the best vector so far starts the next round
        for _ in range(ROUNDS):
            vector = self._round(start, poll)
            energy, residual = self._judged(vector)
            if residual <= self.tolerance:
                self.found.add(energy, residual, vector, self.sign)
                # the residual of the vector itself, not of the recurrence, decides
                return
            start = vector
        raise NumericsError(
            f"level {len(self.found.energies)}: the residual {residual:.2g} stays above the tolerance {self.tolerance:.2g} after "
            f"{self.products} products",
            hint="ask for a larger spectrum.tolerance",
        )

    def separate(self, least: float) -> None:
        """Diagonalise H among the vectors of levels that are at most `least` apart, which residuals do not tell apart."""
        levels, self.found = self.found, Levels()
        first = 0
        # neighbours in a chain of levels less than `least` apart make one group
        for last in range(1, len(levels.energies) + 1):
            if (
                last < len(levels.energies)
                and abs(levels.energies[last] - levels.energies[last - 1]) <= least
            ):
                continue
            group = levels.vectors[first:last]
            if len(group) == 1:
                self.found.add(levels.energies[first], levels.residuals[first], group[0], self.sign)
            else:
                diagonal_among(self.device, self.linear, group)
                self.products += len(group)
                for vector in group:
                    self.found.add(*self._judged(vector), vector, self.sign)
            first = last

    def _orthogonal(self, vector: NDArray[Any]) -> Any:
        # twice: the first projection leaves rounding of the size of the removed part
        for _ in range(2):
            for x in self.found.vectors:
                add(-dot(x, vector, self.linear.links), x, vector)
        with self.device.use():
            vector *= vector.dtype.type(1.0 / math.sqrt(dot(vector, vector, self.linear.links).real))
        return vector

    def _round(self, start: NDArray[Any], poll: Callable[[], None] | None) -> Any:
        """Return the best vector that one recurrence finds, in the place of its start."""
        # at most as many steps as the complement of the locked vectors has dimensions
        made = chain(self.device, self.linear, start.copy(), self.found.vectors)
        limit = min(STEPS, self.linear.states - len(self.found.energies))
        weights = np.ones(1)
        for k in range(1, limit + 1):
            goes_on = made.step(self.scale)
            self.products += 1
            if poll is not None:
                poll()
            if goes_on and k % CHECK and k < limit:
                continue
            values, vectors = ritz(made.alpha, made.beta)
            # the lowest Ritz value, or the highest
            best = int(np.argmin(self.sign * values))
            weights = vectors[:, best]
            # beta_m |y_m| is the residual of the Ritz vector; 0.3
            # of the tolerance, as the second run rounds differently
            if not goes_on or made.beta[-1] * abs(weights[-1]) <= 0.3 * self.tolerance:
                break
        # two vectors less before the second run takes its own
        script = made.script
        del made
        return self._summed(start, weights, script, poll)

    def _summed(
        self,
        start: NDArray[Any],
        weights: NDArray[np.float64],
        script: tuple[list[list[complex]], list[float]],
        poll: Callable[[], None] | None,
    ) -> Any:
        """Return the sum of the vectors of a recurrence with these weights, by running it again, in the place of `start`."""
        made = chain(self.device, self.linear, start.copy(), self.found.vectors, script)
        with self.device.use():
            # the same numbers again: vectors of the recurrence
            # are not stored, but made anew with their weights
            total = start
            total *= start.dtype.type(weights[0])
        for weight in weights[1:]:
            made.step(0.0)
            self.products += 1
            subtract(self.device, [made.vector], [-weight], total, 1.0)
            if poll is not None:
                poll()
        return self._orthogonal(total)

    def _judged(self, vector: NDArray[Any]) -> tuple[float, float]:
        """Return energy and residual of a vector."""
        self.products += 1
        return judged(self.device, self.linear, vector)
