"""H of spins of any size on vectors of a space of digits."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.pool import each_part
from qsim.trotter.kernels.sectors.digits import (
    digit_columns,
    digit_counts,
    digit_diagonal,
    digit_rows,
    stored_rows,
)
from qsim.trotter.model.larger import quanta_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device
    from qsim.trotter.model.larger import Local, SpinModel
    from qsim.trotter.sectors.digits.space import DigitSpace

__all__ = ["MOST_STORED", "DigitOperator", "Transitions", "elements", "stored_bytes", "transitions"]

# Bytes up to which H is kept as a sparse matrix, which is made while three times as much is taken.  A product takes 12 ns a state
# of a spin-1 chain instead of 65.
MOST_STORED = 1 << 29


class Transitions(NamedTuple):
    """Tables of the terms; see :mod:`qsim.trotter.kernels.sectors.digits`.

    Attributes
    ----------
    sites : (T, 2) int64
    bits : int
    starts : ((T << 2 bits) + 1,) int64
    change : (n,) int64
    value : (n,) float64 or complex128
    energies : (T << 2 bits,) float64 or complex128
    """

    sites: NDArray[np.int64]
    bits: int
    starts: NDArray[np.int64]
    change: NDArray[np.int64]
    value: NDArray[Any]
    energies: NDArray[Any]

    @property
    def is_real(self) -> bool:
        """True if all elements are real."""
        return self.value.dtype.kind == "f" and self.energies.dtype.kind == "f"

    def diagonal(self, strings: NDArray[np.int64]) -> NDArray[Any]:
        """Return the diagonal elements of strings, (D,)."""
        out = np.zeros(strings.size, self.energies.dtype)
        if not len(self.sites):
            return out
        digit_diagonal(strings, self.sites, self.bits, self.energies, out)
        return out

    def columns(
        self, strings: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Return first element of every row (D + 1,), and strings and values of the elements beside the diagonal."""
        first = np.zeros(strings.size + 1, np.int64)
        digit_counts(strings, self.sites, self.bits, self.starts, first[1:])
        np.cumsum(first, out=first)
        to, data = np.empty(first[-1], np.int64), np.empty(first[-1], self.value.dtype)
        digit_columns(strings, self.sites, self.bits, self.starts, self.change, self.value, first, to, data)
        return first, to, data


def transitions(terms: tuple[Local, ...], rows: DigitSpace, columns: DigitSpace) -> Transitions:
    """Return the tables of operators that lead from one space of digits to another."""
    bits, twos = rows.bits, rows.twos
    elements: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.complex128]]] = []
    energies = np.zeros(len(terms) << 2 * bits, np.complex128)
    for number, term in enumerate(terms):
        own = [twos[j] for j in term.sites]
        digits = np.array(list(np.ndindex(*(two + 1 for two in own))), np.int64)
        # of one site twice
        places = (digits[:, 0] << bits | digits[:, -1]) + (number << 2 * bits)
        strings = (digits << np.array(term.sites) * bits).sum(axis=1)
        quanta = quanta_of(own)
        # from column to row
        more = quanta[:, None] - quanta
        kept = term.matrix != 0.0
        if rows.down >= 0 and columns.down >= 0:
            kept &= more == rows.down - columns.down
        elif rows.odd >= 0 and columns.odd >= 0:
            kept &= more % 2 == rows.odd ^ columns.odd
        if rows == columns:
            energies[places] = term.matrix.diagonal()
            np.fill_diagonal(kept, val=False)
        row, column = np.nonzero(kept)
        elements.append((places[row], strings[column] - strings[row], term.matrix[row, column]))
    place = np.concatenate([np.zeros(0, np.int64), *(e[0] for e in elements)])
    change = np.concatenate([np.zeros(0, np.int64), *(e[1] for e in elements)])
    value = np.concatenate([np.zeros(0, np.complex128), *(e[2] for e in elements)])
    order = np.argsort(place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(terms) << 2 * bits))])
    sites = np.array([[term.sites[0], term.sites[-1]] for term in terms], np.int64).reshape(-1, 2) * bits
    value = value[order]
    return Transitions(
        sites,
        bits,
        starts.astype(np.int64),
        change[order],
        value if value.imag.any() else value.real.copy(),
        energies if energies.imag.any() else energies.real.copy(),
    )


def elements(model: SpinModel) -> float:
    """Return how many elements beside the diagonal a row of H has, in the mean over all states."""
    total = 0.0
    for term in model.terms:
        size = len(term.matrix)
        total += (np.count_nonzero(term.matrix) - np.count_nonzero(term.matrix.diagonal())) / size
    return total


def stored_bytes(model: SpinModel, states: int) -> int:
    """Return the bytes of H as a sparse matrix, in a space with a number of states."""
    return int(states * (1.0 + elements(model)) * (12 if model.real else 20))


class DigitOperator:
    """H in a space of digits, or an operator that leads from one to another.

    Parameters
    ----------
    device : Device
        A CPU.
    sector : DigitSpace
        Space of the rows.
    model : SpinModel
        Elements that leave the space are left out.
    columns : DigitSpace, optional
        Space of the columns; by default that of the rows.
    strings : (D,) int64, optional
        Strings of the rows, where they are known.
    """

    needs_work = False

    def __init__(
        self,
        device: Device,
        sector: DigitSpace,
        model: SpinModel,
        columns: DigitSpace | None = None,
        strings: NDArray[np.int64] | None = None,
    ) -> None:
        self.device, self.sector, self.model = device, sector, model
        self.columns = sector if columns is None else columns
        self.products = 0
        if strings is not None:
            self.strings = strings

    @cached_property
    def strings(self) -> NDArray[np.int64]:
        """Strings of the rows."""
        return self.sector.strings()

    @cached_property
    def tables(self) -> Transitions:
        """The terms, as the kernels take them."""
        return transitions(self.model.terms, self.sector, self.columns)

    @cached_property
    def diagonal(self) -> NDArray[Any]:
        """Diagonal elements, (D,); of length 0 between different spaces."""
        return self.tables.diagonal(self.strings) if self.columns == self.sector else np.zeros(0)

    @cached_property
    def keeps(self) -> bool:
        """True if H is kept as a sparse matrix, from the first product on: of a space with itself, where it fits."""
        # a recurrence that runs again needs the same rounding in all products
        return self.columns == self.sector and stored_bytes(self.model, self.size) <= MOST_STORED

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.sector.dimension

    @property
    def dtype(self) -> Any:
        """Of the vectors: real where H is."""
        return np.dtype(np.float64 if self.tables.is_real else np.complex128)

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real."""
        return bool(self.dtype.kind == "f")

    @cached_property
    def matrix(self) -> csr_array:
        """H as a sparse matrix, (D, D) or between two spaces; of small spaces."""
        from scipy.sparse import csr_array, dia_array

        first, to, data = self.tables.columns(self.strings)
        shape = (self.sector.dimension, self.columns.dimension)
        # numbers of 32 bits where they are enough
        kind = np.int32 if max(to.size + shape[0], *shape) < 1 << 31 else np.int64
        made = csr_array((data, self.columns.index(to).astype(kind), first.astype(kind)), shape=shape)
        # several terms may lead to the same string
        made.sum_duplicates()
        return (
            csr_array(made + dia_array((self.diagonal[None], [0]), shape=shape))
            if self.diagonal.size
            else made
        )

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``; ``work`` is not needed."""
        self.products += 1
        self._product(psi, out, (float(alpha), float(beta), float(gamma)), kept=self.keeps)

    def _product(
        self, psi: NDArray[Any], out: NDArray[Any], factors: tuple[float, float, float], *, kept: bool
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out`` by the matrix that is kept, or by the tables."""
        if kept:
            matrix = self.matrix
            tables = matrix.indptr, matrix.indices, matrix.data
            numbers = matrix.nnz

            def rows(first: int, last: int) -> None:
                stored_rows(first, last, *tables, psi, out, *factors)
        else:
            given = self.strings, self.diagonal, tuple(self.columns.numbering), self.tables[:5]
            numbers = self.size * max(1, len(self.tables.sites))

            def rows(first: int, last: int) -> None:
                digit_rows(first, last, *given, psi, out, factors)

        name = "stored_rows" if kept else "digit_rows"
        each_part(rows, self.size, numbers, self.device.threads, alike=name)

    def applied(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return the operator on a vector of the columns, once: no matrix is made for it."""
        out = np.empty(self.size, np.result_type(psi.dtype, self.dtype))
        self._product(np.ascontiguousarray(psi, out.dtype), out, (1.0, 0.0, 0.0), kept=False)
        return out
