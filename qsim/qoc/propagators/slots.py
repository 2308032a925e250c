"""Any quantum system under controls that are constant in each slot: no error of a time step, only of rounding."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array, kron

from qsim.core.device.device import cpu, namespace
from qsim.core.device.parallel import on_host
from qsim.core.errors import NumericsError
from qsim.qoc.kernels.blocks import norm_bound
from qsim.qoc.kernels.slots import Pattern, SlotBatch, slot_backward, slot_forward
from qsim.qoc.propagators.layouts import Hermitian, Kets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.core.device.device import Device
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.propagators.layouts import Layout


@dataclass(frozen=True)
class Motion:
    """Duration, slots, and what a column is.

    Attributes
    ----------
    duration : float
        T, in the unit of time of the model.
    slots : int
        Number N of slots.
    lindblad : bool
        Density matrices with the jumps, instead of kets.
    lossy : bool
        Kets that lose what jumps: order 0 of the expansion in jumps, a lower part of the value.
    """

    duration: float
    slots: int
    lindblad: bool = False
    lossy: bool = False

    @property
    def tau(self) -> float:
        """Length of a slot."""
        return self.duration / self.slots


# Remainder of the series of one part of a slot: below the rounding of its sum.
REMAINDER = 1e-16
# Steps towards the norm of a generator; the bound holds after every one of them.
POWERS = 12
# Levels up to which superoperators are made of dense matrices.
FEW_LEVELS = 9
# Bytes of trajectory kept at a time by a propagation without a gradient.
SEGMENT_BYTES = 6e7
# Lengths of slots that are equal but for rounding, relative.
SAME_LENGTH = 1e-10
# Norm of tau A in one part; beyond, terms of alternating sign lose digits.
LONGEST = 3.0
# The same of density matrices, whose generators are about twice as large as those of kets and each product dear: a digit is lost
# at most.
LONGEST_OF_MATRICES = 4.5


def generators(model: QuantumModel, lindblad: bool, lossy: bool = False) -> list[csr_array]:
    """Return A0 and every A_c: ``-i H`` for kets (D, D), or the Lindbladian on rows of rho (D^2, D^2).

    Row by row, ``vec(A rho B) = (A x B^T) vec(rho)``. Lossy kets lose what jumps:
    ``A0 = -i H0 - sum_k L_k+ L_k/2``.
    """
    hamiltonians = [model.drift, *(c.operator for c in model.controls)]
    if not lindblad:
        made = [csr_array(-1j * h) for h in hamiltonians]
        if lossy:
            made[0] = csr_array(made[0] - 0.5 * total_rate(model))
        return made
    if model.dimension <= FEW_LEVELS:
        return _of_few_levels(model, hamiltonians)
    one = eye_array(model.dimension, format="csr")
    made = [csr_array(-1j * (kron(h, one) - kron(one, h.T))) for h in hamiltonians]
    for jump in model.jumps:
        rate = jump.operator.conj().T @ jump.operator
        loss = kron(rate, one) + kron(one, rate.T)
        made[0] = csr_array(made[0] + kron(jump.operator, jump.operator.conj()) - 0.5 * loss)
    return made


def _of_few_levels(model: QuantumModel, hamiltonians: list[csr_array]) -> list[csr_array]:
    """Return the Lindbladian by dense products, which take less time than sparse ones of a few rows."""
    one = np.eye(model.dimension)
    dense = [h.toarray() for h in hamiltonians]
    made = [-1j * (np.kron(h, one) - np.kron(one, h.T)) for h in dense]
    for jump in model.jumps:
        operator = jump.operator.toarray()
        rate = operator.conj().T @ operator
        loss = np.kron(rate, one) + np.kron(one, rate.T)
        made[0] = made[0] + np.kron(operator, operator.conj()) - 0.5 * loss
    return [csr_array(a) for a in made]


def total_rate(model: QuantumModel) -> csr_array:
    """Return ``sum_k L_k+ L_k`` (D, D), 1/time."""
    rates = (jump.operator.conj().T @ jump.operator for jump in model.jumps)
    return csr_array(sum(rates, csr_array(model.drift.shape, dtype=complex)))


@dataclass(frozen=True)
class _Made:
    """Generators as the kernels take them, and what bounds them: norms are those of every basis, closest in that of the model."""

    shift: float
    norms: NDArray[np.float64]
    bounded: Pattern
    sizes: NDArray[np.float64]
    pattern: Pattern
    values: ComplexArray


def _made(model: QuantumModel, motion: Motion, layout: Layout, *, adjoint: bool) -> _Made:
    """Return the generators of a model without the phase of their shift."""
    parts = generators(model, motion.lindblad, motion.lossy)
    # the middle of the diagonal of H0 multiplies kets by a phase alone, and the series is shorter without it
    shift = 0.0 if motion.lindblad else middle_of(model.drift)
    parts[0] = csr_array(parts[0] + 1j * shift * eye_array(parts[0].shape[0]))
    if adjoint:
        parts, shift = [csr_array(a.conj().T) for a in parts], -shift
    norms = np.array([row_and_column_norm(a) for a in parts])
    bounded, values = _on_one_pattern(parts)
    sizes = np.abs(values)
    pattern, values = (
        _on_one_pattern([layout.generator(a) for a in parts]) if layout.real else (bounded, values)
    )
    return _Made(shift, norms, bounded, sizes, pattern, values)


class Slots:
    """Propagation of columns by the Taylor action of each slot, and the exact derivative of what is computed.

    Parameters
    ----------
    model : QuantumModel
    motion : Motion
        Density matrices are columns (D^2,), which must be Hermitian matrices; kets are columns (D,).
    adjoint : bool
        A+ instead of A, which carries targets back; fields must come in reverse.
    device : Device, optional
        A GPU, on which the columns are the batch and trajectories stay; by default one thread of the CPU.
    """

    def __init__(
        self, model: QuantumModel, motion: Motion, *, adjoint: bool = False, device: Device | None = None
    ) -> None:
        self.motion, self.slots, self.tau = motion, motion.slots, motion.tau
        self.longest = LONGEST_OF_MATRICES if motion.lindblad else LONGEST
        # one system has no members that threads could share
        self.core = cpu(1) if device is None or not device.is_cuda else device
        self.powers = np.array([c.power for c in model.controls])
        self.linear = bool(np.all(self.powers == 1))
        self.dimension = model.dimension
        self.layout: Layout = Hermitian(model.dimension, self.core) if motion.lindblad else Kets()
        self._made = model.kept(
            ("slots", motion.lindblad, motion.lossy, adjoint),
            lambda: _made(model, motion, self.layout, adjoint=adjoint),
        )
        self.shift, self.norms = self._made.shift, self._made.norms
        self.pattern, self.values = self._made.pattern, self._made.values
        self._own = self.core.asarray(self.values[None])
        # room of a trajectory that is no longer needed
        self._spare: RealArray | None = None
        # the largest series that was used, for the error
        self.remainder = 0.0
        self.products = 0

    def bound(self, factors: NDArray[np.float64]) -> float:
        """Return a bound of the norm of the generator for the largest factors (C,)."""
        start, column = self._made.bounded.both[:2]
        return float(norm_bound(start, column, self._made.sizes, factors, POWERS))

    def layout_on(self, device: Device) -> Layout:
        """Return the layout for columns on a device."""
        return Hermitian(self.dimension, device) if self.layout.real else Kets()

    def operations(self, fields: NDArray[np.float64], columns: int) -> float:
        """Return the floating-point operations of one propagation of some columns."""
        self.prepare(fields, None)
        return (2.0 if self.layout.real else 8.0) * self.values.shape[1] * columns * self.products

    def forward(
        self, fields: NDArray[np.float64], columns: ComplexArray, parts: int | None = None
    ) -> tuple[ComplexArray, Trajectory]:
        """Return the columns at T under fields (C, N), and what `gradient` goes back along.

        Parameters
        ----------
        fields : (C, N) float64
            Controls of some successive slots.
        columns : (D, S) complex128
            Columns at the start of the first.
        parts : int, optional
            Equal parts of a slot; by default as many as its series needs.
        """
        factors, terms, parts = self.prepare(fields, parts)
        core = self.core
        x, there = self.enter(columns), core.asarray(factors)
        states = self._room((fields.shape[1] * parts, *x.shape))
        slot_forward(core, self._batch(terms, parts), there, x[None], states[None])
        phase = np.exp(-1j * self.shift * self.tau * fields.shape[1])
        final = core.to_host(self.layout.leave(x, columns.shape[1])) * phase
        return final, Trajectory(there, states, terms, parts, (self.layout, columns.shape[1]))

    def release(self, trajectory: Trajectory) -> None:
        """Take the room of a trajectory that nobody reads any more for the next one."""
        self._spare = trajectory.states

    def _room(self, shape: tuple[int, ...]) -> RealArray:
        """Return an array for a trajectory: new pages cost as much as a sweep of a small system."""
        spare, self._spare = self._spare, None
        return spare if spare is not None and spare.shape == shape else self.core.xp.empty(shape)

    def final(self, fields: NDArray[np.float64], columns: ComplexArray) -> ComplexArray:
        """Return the columns at T alone; no trajectory is kept."""
        factors, terms, parts = self.prepare(fields, None)
        core = self.core
        x = self.enter(columns)
        slot_forward(core, self._batch(terms, parts), core.asarray(factors), x[None])
        phase = np.exp(-1j * self.shift * self.tau * fields.shape[1])
        return np.asarray(core.to_host(self.layout.leave(x, columns.shape[1])) * phase)

    def passed(
        self, fields: NDArray[np.float64], columns: ComplexArray, weights: NDArray[np.float64]
    ) -> tuple[ComplexArray, ComplexArray]:
        """Return the columns at T, and their weighted sum (N, rows) at the end of each slot, without the phase of the shift.

        Trajectories are kept for a few slots at a time.
        """
        parts = self.prepare(fields, None)[2]
        at_once = max(1, int(SEGMENT_BYTES / (16.0 * columns.size * parts)))
        x, sums = columns, []
        for first in range(0, fields.shape[1], at_once):
            piece = np.ascontiguousarray(fields[:, first : first + at_once])
            x, trajectory = self.forward(piece, x, parts)
            sums.append(trajectory.at_slots() @ weights)
            self.release(trajectory)
        sums.append((x @ weights)[None])
        return x, np.concatenate(sums)[1:]

    def unequal(
        self, lengths: NDArray[np.float64], factors: NDArray[np.float64], columns: ComplexArray
    ) -> tuple[ComplexArray, Slots]:
        """Return the columns at the end of slots of any lengths (n,) with factors ``f = u^p`` (C, n), and what carried them."""
        own, x = self.in_factors(lengths.size), columns
        edges = 1 + np.flatnonzero(np.abs(np.diff(lengths)) > SAME_LENGTH * lengths[1:])
        # Slots of one length follow one another: halvings leave few of them.
        for few, some in zip(np.split(lengths, edges), np.split(factors, edges, axis=1), strict=True):
            own.tau = float(few.mean())
            x = own.final(np.ascontiguousarray(some), x)
        return x, own

    def in_factors(self, slots: int, tau: float = 0.0) -> Slots:
        """Return the same system with a number of slots of some length, whose controls are factors ``f = u^p`` already."""
        own = copy.copy(self)
        own.slots, own.tau, own.linear = slots, tau, True
        own.remainder, own.products = 0.0, 0
        return own

    def gradient(
        self, fields: NDArray[np.float64], trajectory: Trajectory, costate: ComplexArray
    ) -> NDArray[np.float64]:
        """Return dJ/du (C, N) from ``dJ/dX*`` (D, S) at T: ``dJ = 2 Re sum conj(costate) dX``."""
        # The kernels carry columns without the phase of the shift, so the costate gives it up first.
        turned = costate * self.turn(fields.shape[1])
        return self.by_controls(fields, self.back(trajectory, self.enter(turned)))

    def turn(self, slots: int) -> complex:
        """Return the phase that the shift takes from columns in some slots."""
        return complex(np.exp(1j * self.shift * self.tau * slots))

    def enter(self, columns: ComplexArray) -> RealArray:
        """Return columns as the array of the kernels, where they run."""
        return self.layout.enter(self.core.asarray(columns))

    def back(self, trajectory: Trajectory, lam: RealArray) -> NDArray[np.float64]:
        """Return dJ/df (C, n) along some slots, and carry lam, without the phase of the shift, back to their start."""
        t = trajectory
        batch = self._batch(t.terms, t.parts)
        gradient = slot_backward(self.core, batch, t.factors, lam[None], t.states[None])[0]
        return np.asarray(self.core.to_host(gradient))

    def _batch(self, terms: int, parts: int) -> SlotBatch:
        """Return the arguments of the kernels: one member."""
        return SlotBatch(self.pattern, self._own, self.tau / parts, terms, parts, self.layout.real)

    def by_controls(self, fields: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return dJ/du from dJ/df, ``f = u^p``."""
        if self.linear:
            return gradient
        inner: NDArray[np.float64] = self.powers[:, None] * fields ** (self.powers[:, None] - 1)
        return gradient * inner

    def prepare(self, fields: NDArray[np.float64], parts: int | None) -> tuple[NDArray[np.float64], int, int]:
        """Return factors f, terms and parts of a slot for the strongest fields, and keep the remainder."""
        factors = np.ascontiguousarray(fields if self.linear else fields ** self.powers[:, None])
        norm = self.bound(np.abs(factors).max(axis=1, initial=0.0)) * self.tau
        terms, parts, rest = series_of(norm, self.slots, self.longest, parts)
        self.remainder = max(self.remainder, rest)
        self.products = max(self.products, terms * parts * self.slots)
        return factors, terms, parts


def series_of(
    norm: float, slots: int, longest: float = LONGEST, parts: int | None = None
) -> tuple[int, int, float]:
    """Return terms and parts of a slot, and the remainder of all slots.

    Parameters
    ----------
    norm : float
        Of A, times the length of a slot.
    slots : int
        Number of slots.
    longest : float
        Largest norm of a part.
    parts : int, optional
        Parts, if they are given.

    Raises
    ------
    NumericsError
        If the norm is not finite.
    """
    if not math.isfinite(norm):
        raise NumericsError(
            f"the norm of a slot is {norm}: the values of the controls are beyond double precision"
        )
    # Unless parts are given, the norm of each is at most `longest`, so that rounding of the alternating terms stays small.
    parts = parts or max(1, math.ceil(norm / longest))
    theta = norm / parts
    # The first term that is left out is theta^(m + 1)/(m + 1)!.
    terms, term = 1, theta**2 / 2.0
    while term > REMAINDER:
        terms += 1
        term *= theta / (terms + 1)
    # the terms that are left out add up to less than a geometric series
    return terms, parts, term * math.exp(theta) * parts * slots


class Trajectory:
    """Columns at the start of every part of a slot, as the kernel left them, on its device."""

    def __init__(
        self, factors: RealArray, states: RealArray, terms: int, parts: int, form: tuple[Layout, int]
    ) -> None:
        self.factors, self.states, self.terms, self.parts = factors, states, terms, parts
        # layout of the numbers, and the number of columns
        self.form = form

    def slot(self, n: int) -> Trajectory:
        """Return the part of one slot."""
        states = self.states[n * self.parts : (n + 1) * self.parts]
        factors = namespace(states).ascontiguousarray(self.factors[:, n : n + 1])
        return type(self)(factors, states, self.terms, self.parts, self.form)

    def at_slots(self) -> ComplexArray:
        """Return the columns at the start of each slot, without the phase of the shift: (N, D, S)."""
        return self._complex(self._columns()[:: self.parts])

    def at_parts(self) -> ComplexArray:
        """Return the columns at the start of each part, without the phase of the shift: (N parts, D, S)."""
        return self._complex(self._columns())

    def _columns(self) -> RealArray:
        """Return the numbers of the layout, (N parts, D, 2 S)."""
        return self.form[0].kept(self.states)

    def _complex(self, states: RealArray) -> ComplexArray:
        """Return complex columns (n, D, S) on the host."""
        layout, count = self.form
        return np.asarray(on_host(layout.leave(states, count)))


def middle_of(drift: csr_array) -> float:
    """Return the middle of the diagonal of H0."""
    diagonal = drift.diagonal().real
    return 0.5 * float(diagonal.min() + diagonal.max())


def row_and_column_norm(a: csr_array) -> float:
    """Return the larger of the norms by rows and by columns, which bounds the spectral norm."""
    size = abs(a)
    return float(max(size.sum(axis=0).max(initial=0.0), size.sum(axis=1).max(initial=0.0)))


def _on_one_pattern(parts: list[csr_array]) -> tuple[Pattern, ComplexArray]:
    """Return the union of the entries of matrices, and their values (C + 1, E) on it."""
    # Sizes cannot cancel, so that the union holds every entry.
    pattern = csr_array(sum(abs(a) for a in parts))
    pattern.sum_duplicates()
    pattern.eliminate_zeros()
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    width = pattern.shape[1]
    keys = rows.astype(np.int64) * width + pattern.indices
    values = np.zeros((len(parts), keys.size), complex)
    for row, a in zip(values, parts, strict=True):
        entries = a.tocoo()
        entries.sum_duplicates()
        own = entries.data != 0
        place = np.searchsorted(keys, entries.row[own].astype(np.int64) * width + entries.col[own])
        row[place] = entries.data[own]
    return Pattern(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)), values
