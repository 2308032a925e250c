"""Slot propagation of many systems under the same controls: the members of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.kernels.slots import Pattern, SlotBatch, slot_backward, slot_forward
from qsim.qoc.propagators.slots import series_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.core.device.device import Device
    from qsim.qoc.propagators.slots import Slots

# Bytes of trajectories that are kept at a time, on the host and on a GPU.
HOST_BYTES = 256e6
DEVICE_BYTES = 4e9


@dataclass(frozen=True)
class BatchRun:
    """Quantities of a propagation that its gradient needs.

    Attributes
    ----------
    members : slice
        Of those that were propagated.
    batch : SlotBatch
    factors : (C, N) float64
        ``u^p`` of each slot, on the device.
    states : (m, N parts, D, 2 S) float64
        Columns at the start of every part of a slot, on the device.
    """

    members: slice
    batch: SlotBatch
    factors: RealArray
    states: RealArray


class SlotMembers:
    """Systems of equal size on the union of their patterns; each member is one of them with factors of its controls.

    Parameters
    ----------
    device : Device
    systems : sequence of Slots
        Different systems, with the same slots and controls.
    system : (M,) int64
        System of each member.
    scale : (M, C) float64
        Factors by which a member sees the controls.
    """

    def __init__(
        self, device: Device, systems: Sequence[Slots], system: NDArray[np.int64], scale: NDArray[np.float64]
    ) -> None:
        first = systems[0]
        self.device, self.system = device, system
        self.slots, self.tau, self.powers = first.slots, first.tau, first.powers
        # Members share one pattern, so that a launch has one set of indices.
        self.pattern, values = _united(systems)
        # (s u)^p = s^p u^p
        factors = np.concatenate([np.ones((system.size, 1)), scale**self.powers], axis=1)
        self._values = device.asarray(values[system] * factors[:, :, None])
        norms = np.array([s.norms for s in systems])
        self.layout, self.columns = first.layout_on(device), 0
        self._spare: RealArray | None = None
        # of any member: a bound that costs nothing per member
        self._norms = (norms[system] * np.abs(factors)).max(axis=0)
        shifts = np.array([s.shift for s in systems])
        self._phases = device.asarray(np.exp(-1j * shifts * self.tau * self.slots)[system])
        # the largest series that was used, for the error
        self.remainder = 0.0
        self.products = 0

    @property
    def count(self) -> int:
        """Number M of members."""
        return int(self.system.size)

    def chunk(self, columns: int, fields: NDArray[np.float64]) -> int:
        """Return the number of members whose trajectories under fields (C, N) are kept at a time."""
        limit = DEVICE_BYTES if self.device.is_cuda else HOST_BYTES
        parts = self._series(np.abs(fields) ** self.powers[:, None])[1]
        return max(1, int(limit // (16 * self.slots * parts * self.pattern.rows * columns)))

    def placed(self, columns: ComplexArray) -> RealArray:
        """Return starts (M, D, S) of all members as `forward` takes them, (M, D, 2 S) on the device."""
        self.columns = columns.shape[-1]
        return self.layout.enter(self.device.asarray(columns))

    def forward(
        self, fields: NDArray[np.float64], starts: RealArray, members: slice, *, keep: bool
    ) -> tuple[ComplexArray, BatchRun | None]:
        """Propagate some members.

        Parameters
        ----------
        fields : (C, N) float64
        starts : (M, D, 2 S) float64
            Columns of all members, as `placed` returns them.
        members : slice
        keep : bool
            Whether a gradient follows.

        Returns
        -------
        final : (m, D, S) complex128
            Columns at T, on the device.
        run : BatchRun or None
        """
        factors = np.ascontiguousarray(fields ** self.powers[:, None])
        batch = self._batch(factors, members)
        x = starts[members].copy()
        shape = (x.shape[0], self.slots * batch.parts, *x.shape[1:])
        states = self._room(shape) if keep else None
        there = self.device.asarray(factors)
        slot_forward(self.device, batch, there, x, states)
        final = self.layout.leave(x, self.columns) * self._phases[members, None, None]
        return final, None if states is None else BatchRun(members, batch, there, states)

    def gradient(self, fields: NDArray[np.float64], run: BatchRun, costates: ComplexArray) -> RealArray:
        """Return dJ_m/du (m, C, N) from ``dJ_m/dX_m*`` (m, D, S) at T, both on the device."""
        # The phase of the shift is put on after the kernel, so the costate loses it before.
        lam = self.layout.enter(costates * self._phases[run.members, None, None].conj())
        rows = slot_backward(self.device, run.batch, run.factors, lam, run.states)
        # d u^p / d u; the factor of the member is in its matrices
        inner = self.powers[:, None] * fields ** (self.powers[:, None] - 1)
        return rows * self.device.asarray(inner)

    def release(self, run: BatchRun) -> None:
        """Take the room of trajectories that nobody reads any more for the next ones."""
        self._spare = run.states

    def _room(self, shape: tuple[int, ...]) -> RealArray:
        """Return an array for trajectories; new pages take time."""
        spare, self._spare = self._spare, None
        return spare if spare is not None and spare.shape == shape else self.device.xp.empty(shape)

    def _series(self, factors: NDArray[np.float64]) -> tuple[int, int, float]:
        """Return terms and parts of a slot for all members, and the remainder."""
        # Norms of the parts add up; slot by slot, since the controls are seldom all large at once.
        largest = float(np.max(self._norms[0] + self._norms[1:] @ np.abs(factors), initial=0.0))
        return series_of(largest * self.tau, self.slots)

    def _batch(self, factors: NDArray[np.float64], members: slice) -> SlotBatch:
        """Return the arguments of the kernels, with a series that is long enough for all members."""
        terms, parts, rest = self._series(factors)
        self.remainder = max(self.remainder, rest)
        self.products = terms * parts * self.slots
        values = self._values[members]
        return SlotBatch(self.pattern, values, self.tau / parts, terms, parts, self.layout.real)


def _united(systems: Sequence[Slots]) -> tuple[Pattern, ComplexArray]:
    """Return the union of the patterns of systems, and their values (K, C + 1, E) on it."""
    rows = systems[0].pattern.rows
    places = [_keys(s.pattern) for s in systems]
    keys = places[0]
    if any(not np.array_equal(keys, other) for other in places[1:]):
        # Systems of other patterns share the union; entries that one of them lacks are zeros.
        keys = np.unique(np.concatenate(places))
    values = np.zeros((len(systems), systems[0].values.shape[0], keys.size), complex)
    for row, own, s in zip(values, places, systems, strict=True):
        row[:, np.searchsorted(keys, own)] = s.values
    start = np.searchsorted(keys, np.arange(rows + 1) * rows)
    return Pattern(start.astype(np.int64), keys % rows), values


def _keys(pattern: Pattern) -> NDArray[np.int64]:
    """Return ``row D + column`` of each entry."""
    return np.repeat(np.arange(pattern.rows), np.diff(pattern.start)) * pattern.rows + pattern.column
