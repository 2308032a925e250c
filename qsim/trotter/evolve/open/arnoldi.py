"""Exponentials of matrices that need not be Hermitian, in Krylov spaces by Arnoldi's method.

m steps from v give ``exp(A t) v = V exp(H t) e_1 |v|`` up to an error below ``h int_0^t |[exp(H s)]_(m,1)| ds`` times the norm of
``exp(A s)``, h the element of H that leads out of the space (Saad, SIAM J. Numer. Anal. 29, 209 (1992)); of jumps between states
that norm is 1 in the norm of the trace.  The next vector is kept with the integral as its number, which makes the error smaller
than the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import expm

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# of a Krylov space at most
VECTORS = 30
# of a bound: times at which the integral is looked at
POINTS = 4
# dimensions between two looks whether a space is large enough
LOOK = 8
# of a vector, less of which is made orthogonal once more
CANCELLED = 0.1
# of a time
SHORTEST = 1e-12
ULP = 1.1e-16

Apply = Callable[["NDArray[Any]"], "NDArray[Any]"]


class Arnoldi:
    """Exponentials of one size; the vectors are kept from one to the next.

    Attributes
    ----------
    products : int
        Products with the matrix so far.
    error : float
        Sum of the bounds of all steps so far.
    """

    def __init__(self, size: int, vectors: int = VECTORS, dtype: Any = np.complex128) -> None:
        self.most = min(vectors, size)
        self.space = np.empty((self.most + 1, size), dtype)
        self.products, self.error = 0, 0.0

    def advance(self, apply: Apply, psi: NDArray[Any], t: float, tolerance: float) -> NDArray[Any]:
        """Return ``exp(A t) psi``; t may be negative.

        Parameters
        ----------
        apply : function
            ``A x`` of a vector.
        tolerance : float
            Error, relative to the norm of psi, shared by the steps.

        Raises
        ------
        NumericsError
            If not even a tiny step is accurate enough.
        """
        left, h = t, t
        while left != 0.0:
            h = left if abs(h) >= abs(left) else h
            psi, done, longer = self._step(apply, psi, h, tolerance / abs(t))
            left = 0.0 if done == left else left - done
            h = done * longer
        return psi

    def _step(
        self, apply: Apply, psi: NDArray[Any], t: float, rate: float
    ) -> tuple[NDArray[Any], float, float]:
        """Return psi advanced by at most t, by how much, and by what factor the next step may be longer."""
        norm = float(np.linalg.norm(psi))
        if norm == 0.0:
            return psi, t, 1.0
        v, m = self.space, self.most
        H: NDArray[Any] = np.zeros((m + 2, m + 1), v.dtype)
        np.divide(psi, norm, out=v[0])
        for k in range(m):
            x = apply(v[k])
            self.products += 1
            before = float(np.linalg.norm(x))
            # twice is enough for orthogonality (Giraud and others, Numer. Math. 101, 87 (2005)), where much has cancelled
            h = 0.0
            for _ in range(2):
                part = (v[: k + 1] @ x.conj()).conj()
                x -= part @ v[: k + 1]
                H[: k + 1, k] += part
                h = float(np.linalg.norm(x))
                if h > CANCELLED * before:
                    break
            H[k + 1, k] = h
            # the space is invariant
            if h <= 1e-14 * max(before, 1e-300) or k + 1 == psi.size:
                H[k + 1, k] = 0.0
                numbers = expm(H[: k + 1, : k + 1] * t)[:, 0]
                return norm * (numbers @ v[: k + 1]), t, 2.0
            np.divide(x, h, out=v[k + 1])
            if k + 1 == m or (k + 1) % LOOK == 0:
                numbers, bound = _numbers(H, k + 1, t)
                floor = ULP * float(np.abs(H[: k + 1, : k + 1]).max()) + ULP / abs(t)
                if bound <= max(rate, floor) * abs(t):
                    self.error += norm * bound
                    return norm * (numbers @ v[: k + 2]), t, 1.0 + (k + 1 < m)
        allowed = max(rate, floor)
        done = t
        while bound > allowed * abs(done):
            # the bound falls like the power m of the step; exponentials of small matrices cost more than products
            done *= min(0.9, max(0.05, 0.9 * (allowed * abs(done) / bound) ** (1.0 / m)))
            if abs(done) < SHORTEST * abs(t):
                raise NumericsError(
                    f"no Krylov step reaches an error of {rate:.2g} per time",
                    hint="ask for a larger evolve.accuracy",
                )
            numbers, bound = _numbers(H, m, done)
        self.error += norm * bound
        return norm * (numbers @ v[: m + 1]), done, 1.05


def _numbers(H: NDArray[Any], m: int, t: float) -> tuple[NDArray[Any], float]:
    """Return the numbers (m + 1,) of the exponential in m vectors and the next one, and the bound of the error."""
    # the last row integrates h [exp(H s)]_(m,1)
    wide = np.zeros((m + 1, m + 1), H.dtype)
    wide[: m + 1, :m] = H[: m + 1, :m]
    part = expm(wide * (t / POINTS))
    column, largest = part[:, 0], abs(part[m, 0])
    for _ in range(POINTS - 1):
        column = part @ column
        largest = max(largest, abs(column[m]))
    return column, float(largest)
