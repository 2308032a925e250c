r"""The slowest modes of a generator: the eigenvalues of the largest real parts.

A polynomial of G close to exp(G tau) makes the slow parts of a random start grow; then a basis is extended by the residuals of
its slowest pairs ``(L_0 - lambda)^-1 (G - lambda) x``, L_0 the evolution between jumps (Davidson, J. Comput. Phys. 17, 87
(1975)).
The polynomial is the Chebyshev series of the exponential in an ellipse around the spectrum: a part of a fixed polynomial that
lies outside changes its eigenvalues but not its eigenvectors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ive, jv

from qsim.core.run.loop import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.run.loop import Report
    from qsim.trotter.evolve.steady.between import Between

# vectors that show the ellipse, and by how much it is larger than what they show
LOOKS, MARGIN = 30, 1.1
# longest half axis of the ellipse times tau, and with a tau of the deck at most
REACH, FARTHEST = 12.0, 300.0
# of a coefficient of the series that is left out
CUT = 1e-6
# steps of tau before vectors are kept, and how many are kept
STEPS, KEPT = 20, 12
# vectors of the basis at most, and after a restart
MOST, AGAIN = 60, 24
# extensions of the basis at most
TRIES = 200
# pairs after the last one that are asked for whose residual must not be larger than their distance from it
GUARDS = 4
# of a residual: of the rate, and at most
RELATIVE, COARSE = 1e-4, 1e-7
# of a vector that lies in the basis
INSIDE = 1e-10
# over the condition that the basis shows
SAFETY = 10.0
SEED = 1
ULP = 1e-15


class Exponential:
    """A polynomial of a real matrix that is close to ``exp(G tau)``.

    Attributes
    ----------
    tau : float
    degree : int
        Products with G of each application.
    """

    def __init__(self, G: csr_array, tau: float | None) -> None:
        from scipy.sparse import eye_array

        values = _ends(G)
        a = max(0.5 * MARGIN * float(-values.real.min()), 1e-3)
        b = max(MARGIN * float(np.abs(values.imag).max()), 1e-3)
        self.tau = min(math.inf if tau is None else tau, (REACH if tau is None else FARTHEST) / max(a, b))
        # half of the distance of the foci, which lie along the imaginary axis if b > a
        focus = max(abs(b * b - a * a) ** 0.5, 0.1 * max(a, b))
        count = np.arange(int(200 + 4 * focus * self.tau))
        x = focus * self.tau
        # with exp(-a tau), which the centre of the ellipse gives
        sizes = (
            jv(count, x) * math.exp(-a * self.tau) if b > a else ive(count, x) * math.exp(x - a * self.tau)
        )
        grown = np.abs(sizes) * np.exp(np.minimum(count * math.log((a + b) / focus), 600.0))
        self.degree = max(2, int(np.flatnonzero(grown > CUT).max(initial=1)) + 1)
        self.numbers = 2.0 * sizes[: self.degree + 1]
        self.numbers[0] *= 0.5
        # S_(k+1) = 2 (G + a) / focus S_k +- S_(k-1)
        self.sign = 1.0 if b > a else -1.0
        self.step = ((2.0 / focus) * (G + a * eye_array(G.shape[0]))).tocsr()

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the polynomial times a vector."""
        before, now = x, 0.5 * (self.step @ x)
        out = self.numbers[0] * before + self.numbers[1] * now
        for number in self.numbers[2:]:
            after = self.step @ now
            after += self.sign * before
            before, now = now, after
            out += number * now
        return np.asarray(out)


def _ends(G: csr_array) -> NDArray[np.complex128]:
    """Return eigenvalues of G in a Krylov space: the ends of its spectrum."""
    size = G.shape[0]
    basis = Basis(G, min(LOOKS, size), lambda v: v)
    v = np.random.default_rng(SEED).normal(size=size)
    while basis.count < basis.most and basis.add(v):
        v = basis.images[basis.count - 1]
    return np.linalg.eigvals(basis.small).astype(np.complex128)


class Basis:
    """Orthonormal vectors, what G makes of them, and G between them.

    Attributes
    ----------
    count : int
        Number of vectors so far.
    """

    def __init__(
        self, G: csr_array, most: int, project: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> None:
        self.G, self.most, self.project = G, most, project
        self._vectors, self._images = np.empty((2, most, G.shape[0]))
        self._small = np.zeros((most, most))
        self.count = 0

    @property
    def vectors(self) -> NDArray[np.float64]:
        """The vectors (count, D)."""
        return self._vectors[: self.count]

    @property
    def images(self) -> NDArray[np.float64]:
        """G times each of them (count, D)."""
        return self._images[: self.count]

    @property
    def small(self) -> NDArray[np.float64]:
        """G between them (count, count)."""
        return self._small[: self.count, : self.count]

    def add(self, v: NDArray[np.float64]) -> bool:
        """Add the part of a vector that is not in the basis yet; False if there is none."""
        v = self.project(v)
        size = float(np.linalg.norm(v))
        for _ in range(2):
            v = v - (self.vectors @ v) @ self.vectors
        left = float(np.linalg.norm(v))
        if not left > INSIDE * size:
            return False
        k = self.count
        self._vectors[k] = v / left
        self._images[k] = self.G @ self._vectors[k]
        self.count += 1
        self._small[k, : k + 1] = self.images @ self._vectors[k]
        self._small[:k, k] = self._vectors[:k] @ self._images[k]
        return True

    def restart(self, numbers: NDArray[np.float64]) -> None:
        """Keep only combinations (count, n) of the vectors."""
        kept, _ = np.linalg.qr(numbers)
        n, vectors, images = kept.shape[1], kept.T @ self.vectors, kept.T @ self.images
        self._small[:n, :n] = kept.T @ self.small @ kept
        self._vectors[:n], self._images[:n] = vectors, images
        self.count = n


class Modes:
    """The slowest modes beside the steady state.

    Parameters
    ----------
    G : (D, D) sparse
        The generator among Hermitian matrices.
    between : Between
    steady, trace : (D,) float64
        The steady state, and the trace of a vector as a product with it.
    """

    def __init__(
        self, G: csr_array, between: Between, steady: NDArray[np.float64], trace: NDArray[np.float64]
    ) -> None:
        self.G, self.between, self.steady, self.trace = G, between, steady, trace
        self.products = 0

    def project(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the part of a vector without trace: all modes but the steady state have none."""
        return v - float(self.trace @ v) * self.steady

    def find(
        self, count: int, tolerance: float, tau: float | None, report: Report
    ) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """Return the slowest eigenvalues, slowest first, and their errors; fewer where not all are found."""
        size = self.G.shape[0]
        count = min(count, size - 1)
        if count == 0:
            return np.zeros(0, np.complex128), np.zeros(0)
        most = min(MOST + 4 * count, size - 1)
        self.basis = Basis(self.G, most, self.project)
        self._begin(tau, report)
        for number in range(TRIES + 1):
            values, left, right = _pairs(self.basis.small)
            sizes, open_pair = self._judged(values, right, count, tolerance)
            if open_pair is None or number == TRIES:
                break
            self._extend(values, right, *open_pair, count)
            self.products += 2
            report(Progress(self.products))
        # those before the first that is not known
        known = count if open_pair is None else sizes.size
        conditions = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=0)
        rounding = ULP * float(np.abs(self.basis.small).max(initial=0.0))
        return values[:known], SAFETY * conditions[:known] * (sizes[:known] + rounding)

    def _extend(
        self,
        values: NDArray[np.complex128],
        right: NDArray[np.complex128],
        value: complex,
        residual: NDArray[np.complex128],
        count: int,
    ) -> None:
        """Add what the evolution between jumps makes of a residual."""
        basis, z = self.basis, complex(value) if value.imag else value.real
        y = self.between.solve(residual if value.imag else residual.real, z)
        if basis.count + 2 > basis.most:
            kept = min(AGAIN + 2 * count, basis.most // 2)
            basis.restart(_real(right[:, :kept], values[:kept]))
        parts = [y.real, y.imag] if np.iscomplexobj(y) else [y]
        if not any([basis.add(part) for part in parts]):
            # the residual itself lies outside
            for part in (residual.real, residual.imag)[: basis.most - basis.count]:
                basis.add(part)

    def _begin(self, tau: float | None, report: Report) -> None:
        """Fill the basis with what is left of a random start after some time."""
        size, most = self.G.shape[0], self.basis.most
        v = np.random.default_rng(SEED).normal(size=size)
        exponential = Exponential(self.G, tau)
        for number in range(STEPS + KEPT):
            v = self.project(exponential(v / float(np.linalg.norm(v))))
            self.products += exponential.degree
            report(Progress(self.products))
            if number >= STEPS and self.basis.count < most // 2 and not self.basis.add(v):
                break

    def _judged(
        self,
        values: NDArray[np.complex128],
        right: NDArray[np.complex128],
        count: int,
        tolerance: float,
    ) -> tuple[NDArray[np.float64], tuple[complex, NDArray[np.complex128]] | None]:
        """Return the residuals of the slowest pairs that are small, and the first pair whose residual is not with that."""
        looked = values[: count + GUARDS]
        # real and imaginary parts of G x - lambda x, all at once: the vectors are read once, and as they are
        X, L = right[:, : looked.size].T, looked[:, None]
        parts, shifted = np.vstack([X.real, X.imag]), np.vstack([(L * X).real, (L * X).imag])
        rows = parts @ self.basis.images - shifted @ self.basis.vectors
        residuals = rows[: looked.size], rows[looked.size :]
        sizes = np.hypot(*(np.linalg.norm(part, axis=1) for part in residuals))
        for j, value in enumerate(looked):
            small = max(tolerance, min(COARSE, RELATIVE * abs(value.real)))
            if j >= count:
                # a slower one may still hide behind it
                small = max(small, float(values[count - 1].real - value.real))
            if sizes[j] > small:
                return sizes[: min(j, count)], (value, residuals[0][j] + 1j * residuals[1][j])
        return sizes[:count], None


def _pairs(
    small: NDArray[np.float64],
) -> tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]]:
    """Return eigenvalues, slowest first and of a pair that of the positive frequency, left and right eigenvectors."""
    found = np.linalg.eig(small)
    values, right = found[0].astype(np.complex128), found[1].astype(np.complex128)
    order = np.lexsort((-values.imag, -values.real))
    values, right = values[order], right[:, order]
    return values, np.asarray(np.linalg.pinv(right), np.complex128), right


def _real(right: NDArray[np.complex128], values: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return real and imaginary parts of eigenvectors, of pairs once."""
    upper = values.imag >= 0.0
    lower = values.imag > 0.0
    return np.hstack([right.real[:, upper], right.imag[:, lower]])
