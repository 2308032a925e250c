"""Columns as the slot kernels take them: real arrays (D, 2 S), of kets or of Hermitian matrices in a Hermitian basis.

In the basis ``|a><a|``, ``(|a><b| + |b><a|)/sqrt 2`` and ``i (|a><b| - |b><a|)/sqrt 2`` (a < b) a Hermitian matrix is a real
vector and a Lindbladian a real matrix, since it keeps matrices Hermitian. Two such vectors lie in the place of the real and the
imaginary parts of one column, and the kernels do half of the products with half of the work each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, diags_array

from qsim.core.device.device import cpu, namespace
from qsim.qoc.kernels.slots import kept_columns

if TYPE_CHECKING:
    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.core.device.device import Device

# Entries of a matrix, by its largest one, that are the rounding of a zero.
ZERO = 4e-16


class Layout(ABC):
    """Meaning of the real numbers of the kernels; all axes before the last two are a batch.

    Attributes
    ----------
    real : bool
        True if generators have no imaginary parts.
    """

    real = False

    @abstractmethod
    def enter(self, columns: ComplexArray) -> RealArray:
        """Return columns (..., D, S) as the kernels take them."""

    @abstractmethod
    def leave(self, numbers: RealArray, count: int) -> ComplexArray:
        """Return S = `count` complex columns (..., D, S) of numbers of the kernels."""

    def kept(self, trajectory: RealArray) -> RealArray:
        """Return the numbers of a trajectory of the kernels, one column after the other."""
        return kept_columns(trajectory)

    @abstractmethod
    def generator(self, a: csr_array) -> csr_array:
        """Return a generator (D, D) complex128 as it acts on these numbers."""


class Kets(Layout):
    """Any columns: real parts, then imaginary ones."""

    def enter(self, columns: ComplexArray) -> RealArray:
        """Return columns (..., D, S) as (..., D, 2 S)."""
        xp = namespace(columns)
        return xp.ascontiguousarray(xp.concatenate([columns.real, columns.imag], axis=-1))

    def leave(self, numbers: RealArray, count: int) -> ComplexArray:
        """Return complex columns (..., D, S)."""
        return numbers[..., :count] + 1j * numbers[..., count:]

    def generator(self, a: csr_array) -> csr_array:
        """Return the same."""
        return a


class Hermitian(Layout):
    """Hermitian matrices row by row (D^2, S): real vectors, of which the second half lies beside the first.

    Parameters
    ----------
    size : int
        D.
    device : Device, optional
        Where columns are; by default the CPU.
    """

    real = True

    def __init__(self, size: int, device: Device | None = None) -> None:
        a, b = (k.ravel() for k in np.indices((size, size)))
        upper, lower, root = a < b, a > b, np.sqrt(0.5)
        # rho_ab = own r_ab + other r_ba
        own = np.where(upper, root, np.where(lower, -1j * root, 1.0))
        other = np.where(upper, 1j * root, np.where(lower, root, 0.0))
        self._basis = own, other, b * size + a
        place = (device or cpu(1)).asarray
        self._own, self._other, self._swap = (place(own[:, None]), place(other[:, None]), place(b * size + a))
        # r_ab = sqrt 2 Re rho_ab above the diagonal, -sqrt 2 Im rho_ab below
        self._re = place(np.where(upper, 2.0 * root, np.where(lower, 0.0, 1.0))[:, None])
        self._im = place(np.where(lower, -2.0 * root, 0.0)[:, None])

    def enter(self, columns: ComplexArray) -> RealArray:
        """Return Hermitian matrices (..., D^2, S) as (..., D^2, 2 ceil(S/2))."""
        xp = namespace(columns)
        numbers = self._re * columns.real + self._im * columns.imag
        if numbers.shape[-1] % 2:
            numbers = xp.concatenate([numbers, xp.zeros_like(numbers[..., :1])], axis=-1)
        return xp.ascontiguousarray(numbers)

    def leave(self, numbers: RealArray, count: int) -> ComplexArray:
        """Return matrices (..., D^2, S), row by row."""
        kept = numbers[..., :count]
        return self._own * kept + self._other * kept[..., self._swap, :]

    def generator(self, a: csr_array) -> csr_array:
        """Return ``T+ a T`` of a generator that keeps matrices Hermitian: real, with the dtype of `a`."""
        own, other, swap = self._basis
        columns = csr_array((other, (np.arange(own.size), swap)), shape=a.shape)
        basis = csr_array(diags_array(own) + columns)
        made = csr_array(basis.conj().T @ a @ basis)
        made.data = made.data.real.astype(complex)
        made.data[np.abs(made.data) < ZERO * np.abs(made.data).max(initial=0.0)] = 0.0
        made.eliminate_zeros()
        return made
