"""H with any matrices of one and of two sites, on vectors of a space of strings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.sectors.terms import (
    Numbering,
    Terms,
    term_columns,
    term_diagonal,
    term_rows,
)
from qsim.trotter.model.larger import SpinModel, quanta_of
from qsim.trotter.sectors.linear import StoredMatrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.digits.space import DigitSpace

# Bytes up to which H is kept as a sparse matrix, which is made while three times as much is taken.  A product takes 12 ns a state
# of a spin-1 chain instead of 65.
MOST_STORED = 1 << 30


def terms_of(model: Model, rows: DigitSpace, columns: DigitSpace) -> Terms:
    """Return the tables of an operator that leads from one space of strings to another; elements that leave them are left out."""
    bits, twos = rows.bits, rows.twos
    local = SpinModel.of(model).terms
    energies: NDArray[Any] = np.zeros(len(local) << 2 * bits, np.complex128)
    first, changes, values = [0], [np.zeros(0, np.int64)], [np.zeros(0, np.complex128)]
    for number, term in enumerate(local):
        own = [twos[j] for j in term.sites]
        digits = np.array(list(np.ndindex(*(two + 1 for two in own))), np.int64)
        # of one site twice
        places = digits[:, 0] << bits | digits[:, -1]
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
            energies[places + (number << 2 * bits)] = term.matrix.diagonal()
            np.fill_diagonal(kept, val=False)
        row, column = np.nonzero(kept)
        count = kept.sum(axis=1)
        # rows of one length, filled up with elements of value 0
        width = int(count.max(initial=0))
        change, value = (
            np.zeros((1 << 2 * bits, width), np.int64),
            np.zeros((1 << 2 * bits, width), np.complex128),
        )
        at = places[row], np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
        change[at], value[at] = strings[column] - strings[row], term.matrix[row, column]
        first.append(first[-1] + change.size)
        changes.append(change.ravel())
        values.append(value.ravel())
    sites = np.array([[term.sites[0], term.sites[-1]] for term in local], np.int64).reshape(-1, 2) * bits
    made: NDArray[Any] = np.concatenate(values)
    if not (made.imag.any() or energies.imag.any()):
        made, energies = made.real.copy(), energies.real.copy()
    if not len(local):
        energies = np.zeros(1)
    return Terms(sites, bits, np.array(first, np.int64), np.concatenate(changes), made, energies)


def on_place(place: Any, parts: Sequence[Any]) -> list[Any]:
    """Return tables with all arrays on a device."""
    return [place(part) if isinstance(part, np.ndarray) else part for part in parts]


def diagonal_of(terms: Terms, strings: NDArray[Any]) -> NDArray[Any]:
    """Return the diagonal elements of strings, (D,)."""
    out = np.zeros(strings.size, terms.energies.dtype)
    term_diagonal(strings, terms, out)
    return out


def rows_of(terms: Terms, strings: NDArray[Any]) -> NDArray[np.int64]:
    """Return the first element beside the diagonal of the rows of strings, (D + 1,)."""
    first = np.zeros(strings.size + 1, np.int64)
    term_columns(strings, terms, first, np.zeros(0, np.int64), terms.value)
    return np.cumsum(first, out=first)


def columns_of(
    terms: Terms, strings: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return first element of every row (D + 1,), and strings and values of the elements beside the diagonal."""
    first = rows_of(terms, strings)
    to, data = np.empty(first[-1], np.int64), np.empty(first[-1], terms.value.dtype)
    # without elements the kernel would count
    if to.size:
        term_columns(strings, terms, first, to, data)
    return first, to, data


def elements(model: Model) -> float:
    """Return how many elements beside the diagonal a row of H has, in the mean over all states."""
    total = 0.0
    for term in SpinModel.of(model).terms:
        size = len(term.matrix)
        total += (np.count_nonzero(term.matrix) - np.count_nonzero(term.matrix.diagonal())) / size
    return total


def stored_bytes(model: Model, states: int, *, real: bool) -> int:
    """Return the bytes of H as a sparse matrix, in a space with a number of states."""
    return int(states * (1.0 + elements(model)) * (12 if real else 20))


class DigitOperator(StoredMatrix):
    """H in a space of strings, or an operator that leads from one to another.

    Parameters
    ----------
    device : Device
    sector : DigitSpace, Sector, ParitySector or WholeSpace
        Space of the rows.
    model : Model
        Elements that leave the space are left out.
    columns : space, optional
        Space of the columns; by default that of the rows.
    strings : (D,) int64, optional
        Strings of the rows on the host, where they are known.
    """

    def __init__(
        self,
        device: Device,
        sector: Any,
        model: Model,
        columns: Any = None,
        strings: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(device, sector, model)
        self.columns = sector if columns is None else columns
        if strings is not None:
            self.strings = strings

    @cached_property
    def strings(self) -> NDArray[np.int64]:
        """Strings of the rows, on the host."""
        return self.sector.strings()

    @cached_property
    def terms(self) -> Terms:
        """The terms, on the host."""
        return terms_of(self.model, self.sector.digits, self.columns.digits)

    @cached_property
    def _placed(self) -> tuple[NDArray[np.int64], Numbering, Terms]:
        """Strings, numbering of the columns and terms, on the device."""
        place, (split, above, below) = self.device.asarray, self.columns.numbering
        return (
            place(self.strings),
            Numbering(split, place(above), place(below)),
            Terms(*on_place(place, self.terms)),
        )

    @cached_property
    def keeps(self) -> bool:
        """True if H is kept as a sparse matrix, from the first product on: of a space with itself, where it fits."""
        return (
            not self.device.is_cuda
            and self.columns == self.sector
            and stored_bytes(self.model, self.size, real=self.is_real) <= MOST_STORED
        )

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real."""
        return self.terms.is_real

    @cached_property
    def matrix(self) -> csr_array:
        """H as a sparse matrix, (D, D) or between two spaces; of small spaces."""
        from scipy.sparse import csr_array, dia_array

        first, to, data = columns_of(self.terms, self.strings)
        shape = (self.sector.dimension, self.columns.dimension)
        # numbers of 32 bits where they are enough
        kind = np.int32 if max(to.size + shape[0], *shape) < 1 << 31 else np.int64
        made = csr_array((data, self.columns.index(to).astype(kind), first.astype(kind)), shape=shape)
        # several terms may lead to the same string
        made.sum_duplicates()
        if self.columns != self.sector:
            return made
        return csr_array(made + dia_array((diagonal_of(self.terms, self.strings)[None], [0]), shape=shape))

    def by_terms(self, psi: NDArray[Any], out: NDArray[Any], factors: tuple[float, float, float]) -> None:
        """Compute ``out = a H psi + b psi + c out`` by the terms."""
        strings, numbering, terms = self._placed
        square = self.columns == self.sector
        term_rows(self.device, terms, strings, numbering, psi, out, factors, square=square)

    def applied(self, psi: NDArray[Any]) -> NDArray[Any]:
        """Return the operator on a vector of the columns, once: no matrix is made for it."""
        xp = self.device.xp
        with self.device.use():
            out = xp.empty(self.size, np.result_type(psi.dtype, self.dtype))
            self.by_terms(xp.ascontiguousarray(psi, out.dtype), out, (1.0, 0.0, 0.0))
        return out
