"""What all Hamiltonians have in common as they act on the vectors of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.pool import each_part
from qsim.trotter.kernels.sectors.terms import stored_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device

# Columns between two looks for a stop.
TOGETHER = 64


class SpaceOperator:
    """H on the vectors of a space.

    Parameters
    ----------
    device : Device
    sector : space
    model : Model

    Attributes
    ----------
    products : int
        Products so far.
    """

    # whether a product needs a vector as work space
    needs_work = False

    def __init__(self, device: Device, sector: Any, model: Any) -> None:
        self.device, self.sector, self.model = device, sector, model
        self.products = 0

    @property
    def size(self) -> int:
        """Length of a vector."""
        return int(self.sector.dimension)

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of vectors that are enough for the levels: real where H is."""
        return np.dtype(np.float64 if self.is_real else np.complex128)

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``.

        Parameters
        ----------
        psi : (D,)
        out : (D,), in/out
            Another array; with ``gamma = 0`` it is not read.
        work : (D,), optional
            Work space, where `needs_work` asks for it.
        """
        self.products += 1
        self.product(psi, out, (float(alpha), float(beta), float(gamma)), work)

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute what `apply` does, without counting."""
        raise NotImplementedError


class StoredMatrix(SpaceOperator):
    """H that is kept as a sparse matrix where it fits, from the first product on."""

    @property
    def keeps(self) -> bool:
        """True if H is kept; a recurrence that runs again needs the same rounding in all products."""
        raise NotImplementedError

    @property
    def matrix(self) -> csr_array:
        """H as a sparse matrix; of small spaces."""
        raise NotImplementedError

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = a H psi + b psi + c out``, a, b, c = factors, by the matrix that is kept, or by the terms."""
        if not self.keeps:
            self.by_terms(psi, out, factors)
            return
        matrix = self.matrix
        tables = matrix.indptr, matrix.indices, matrix.data

        def rows(first: int, last: int) -> None:
            stored_rows(first, last, *tables, psi, out, *factors)

        each_part(rows, self.size, matrix.nnz, self.device.threads, alike="stored_rows")

    def by_terms(self, psi: NDArray[Any], out: NDArray[Any], factors: tuple[float, float, float]) -> None:
        """Compute what `product` does without a matrix."""
        raise NotImplementedError


def matrix_of(
    operator: SpaceOperator,
    look: Callable[[], None] = lambda: None,
) -> NDArray[Any]:
    """Return H (D, D) on the device: the stored matrix, or a product for each column; `look` for a stop between some of them."""
    device, size = operator.device, operator.size
    if isinstance(operator, StoredMatrix) and not device.is_cuda:
        return np.asarray(operator.matrix.toarray())
    with device.use():
        out = device.xp.empty((size, size), operator.dtype)
        unit = device.xp.zeros(size, operator.dtype)
        for k in range(size):
            unit[k] = 1.0
            operator.apply(unit, out[k])
            unit[k] = 0.0
            if k % TOGETHER == TOGETHER - 1:
                look()
        # each product is a column
        matrix = out.T if operator.dtype.kind == "c" else out
        # kernels that take complex vectors alone leave a real H with imaginary parts of zero
        if operator.is_real and matrix.dtype.kind == "c":
            matrix = device.xp.ascontiguousarray(matrix.real)
    return np.asarray(matrix) if device.kind == "cpu" else matrix
