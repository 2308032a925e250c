"""Density matrices as matrices: the Lindbladian for more than a few levels, without a superoperator of H."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, kron

from qsim.qoc.kernels.densities import density_backward, density_forward, layout_of, matrices_of
from qsim.qoc.kernels.portions import look, part_rows, portions
from qsim.qoc.propagators.layouts import Layout
from qsim.qoc.propagators.slots import LONGEST_OF_MATRICES, Slots, Trajectory, row_and_column_norm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.propagators.slots import Motion


class Densities(Slots):
    """Propagation of Hermitian matrices (D^2, S) by the Taylor action of each slot (Eqs. Q16, Q17).

    The interface is that of `Slots` with ``lindblad``; every column must be Hermitian.

    Parameters
    ----------
    model : QuantumModel
    motion : Motion
        Of density matrices.
    """

    def __init__(self, model: QuantumModel, motion: Motion) -> None:
        # G is the generator of lossy kets
        super().__init__(model, replace(motion, lindblad=False, lossy=True))
        self.layout, self.longest = Matrices(), LONGEST_OF_MATRICES
        # rho is multiplied from both sides
        self.norms = 2.0 * self.norms
        size = model.dimension**2
        both = csr_array((size, size), dtype=complex)
        for jump in model.jumps:
            both = both + kron(jump.operator, jump.operator.conj())
        self.jumps = _rows(csr_array(both))
        self.adjoint = _rows(csr_array(csr_array(both).conj().T))
        self.jump_norm = row_and_column_norm(csr_array(both))

    def bound(self, factors: NDArray[np.float64]) -> float:
        """Return a bound of the norm of the Lindbladian for the largest factors (C,): ``2 ||G|| + ||sum L x L*||``."""
        return 2.0 * super().bound(factors) + self.jump_norm

    def operations(self, fields: NDArray[np.float64], columns: int) -> float:
        """Return the floating-point operations of one propagation of some matrices."""
        self.prepare(fields, None)
        size = self.pattern.rows
        entries = self.values.shape[1] * size + self.jumps[1].size + 0.5 * size**2
        return 8.0 * entries * columns * self.products

    def forward(
        self, fields: NDArray[np.float64], columns: ComplexArray, parts: int | None = None
    ) -> tuple[ComplexArray, Trajectory]:
        """Return the matrices (D^2, S) at T under fields (C, N), and what `gradient` goes back along."""
        factors, terms, parts = self.prepare(fields, parts)
        x = layout_of(columns)
        states = self._room((fields.shape[1] * parts, *x.shape))
        self._advance(factors, terms, parts, x, states)
        return matrices_of(x), Trajectory(factors, states, terms, parts, (self.layout, columns.shape[1]))

    def final(self, fields: NDArray[np.float64], columns: ComplexArray) -> ComplexArray:
        """Return the matrices (D^2, S) at T alone."""
        return self.passed(fields, columns, np.ones(columns.shape[1]))[0]

    def gradient(
        self, fields: NDArray[np.float64], trajectory: Trajectory, costate: ComplexArray
    ) -> NDArray[np.float64]:
        """Return dJ/du (C, N) from Hermitian ``dJ/drho*`` (D^2, S) at T."""
        return self.by_controls(fields, self.back(trajectory, self.enter(costate)))

    def turn(self, slots: int) -> complex:
        """Return 1: the shift leaves density matrices as they are."""
        return 1.0

    def back(self, trajectory: Trajectory, lam: RealArray) -> NDArray[np.float64]:
        """Return dJ/df (C, n) along some slots, and carry lam back to their start."""
        t = trajectory
        out = np.zeros(t.factors.shape)
        pattern = (self.pattern.start, self.pattern.column, self.values)
        tau = self.tau / t.parts
        for slots, parts in reversed(portions(t.factors.shape[1], t.parts, self._work(t.terms, lam))):
            look()
            rows = np.empty((len(out), slots.stop - slots.start))
            density_backward(
                pattern,
                self.jumps,
                self.adjoint,
                np.ascontiguousarray(t.factors[:, slots]),
                tau,
                t.terms,
                parts.stop - parts.start,
                lam,
                t.states[part_rows(slots, parts, t.parts)],
                rows,
            )
            out[:, slots] += rows
        return out

    def _work(self, terms: int, x: RealArray) -> float:
        """Return the multiplications of a part of a slot."""
        entries = self.values.shape[1] * x.shape[1] + 2.0 * self.jumps[1].size * (x.shape[1] / x.shape[0])
        return float(terms) * entries

    def _advance(
        self, factors: NDArray[np.float64], terms: int, parts: int, x: NDArray[np.float64], states: RealArray
    ) -> None:
        pattern = (self.pattern.start, self.pattern.column, self.values)
        tau = self.tau / parts
        for slots, some in portions(factors.shape[1], parts, self._work(terms, x)):
            look()
            own, count = np.ascontiguousarray(factors[:, slots]), some.stop - some.start
            rows = states[part_rows(slots, some, parts)]
            density_forward(pattern, self.jumps, own, tau, terms, count, x, rows)


class Matrices(Layout):
    """Matrices (D^2, S) as (D, 2 D S): of each row its real parts, then its imaginary ones, the S matrices innermost."""

    def enter(self, columns: ComplexArray) -> NDArray[np.float64]:
        """Return matrices (D^2, S) as the array of the kernels."""
        return layout_of(columns)

    def leave(self, numbers: RealArray, count: int) -> ComplexArray:
        """Return the matrices (..., D^2, S)."""
        return matrices_of(numbers)

    def kept(self, trajectory: RealArray) -> RealArray:
        """Return the same."""
        return trajectory

    def generator(self, a: csr_array) -> csr_array:
        """Return the same."""
        return a


Rows = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"]


def _rows(a: csr_array) -> Rows:
    """Return a sparse matrix as the arrays of the kernel: rows, columns, real and imaginary parts."""
    a.sum_duplicates()
    a.eliminate_zeros()
    real = np.ascontiguousarray(a.data.real)
    imaginary = np.ascontiguousarray(a.data.imag)
    return a.indptr.astype(np.int64), a.indices.astype(np.int64), real, imaginary
