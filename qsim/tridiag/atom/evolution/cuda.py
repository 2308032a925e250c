"""Members of a batch on a GPU: runs of one atom in different fields, all with the same grid, channels and steps.

A single run is a batch of one.  State and tables stay on the device; sums come back, and states on request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.kernels import TOGETHER
from qsim.tridiag.atom.evolution.propagator import (
    Propagator,
    emptied,
    over_steps,
    radial_arrays,
    weighted_force,
)
from qsim.tridiag.atom.states.lanes import PlanarLanes
from qsim.tridiag.kernels.atom import length as kernels
from qsim.tridiag.kernels.atom.cuda_tables import (
    CudaTables,
    Families,
    Mixing,
    Observed,
    radial_tables,
    shape,
)
from qsim.tridiag.kernels.atom.planar import planar_length_steps, planar_velocity_steps
from qsim.tridiag.kernels.atom.velocity import velocity_steps
from qsim.tridiag.kernels.atom.warps import warp_length_steps, warp_velocity_steps
from qsim.tridiag.tdse.step_search import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.lanes import AnyLanes
    from qsim.tridiag.kernels.atom.cuda_tables import CudaShape

__all__ = ["AnyPropagator", "CudaBatch", "CudaMember", "Stepping", "families_of", "merged", "shape_of"]


def families_of(lanes: AnyLanes) -> Families:
    """Return the pairs of lanes in the order in which a step begins."""
    k, l = lanes.pairs, lanes.momenta
    # even pairs are lanes (k, K + k), odd pairs (K + k, k + 1)
    here, there = np.arange(k), np.arange(k) + k
    even, odd = lanes.even, lanes.odd
    own = [
        (here, there, even, even * (l[:k] + 1.0)),
        (there[:-1], here[1:], odd[:-1], odd[:-1] * (l[k : 2 * k - 1] + 1.0)),
    ]
    momenta = None
    if isinstance(lanes, PlanarLanes):
        place = np.arange(2 * k)
        # the CPU keeps odd lanes HALF places on; here they follow the even ones
        swaps = np.where(lanes.swaps < k, lanes.swaps, lanes.swaps - kernels.HALF + k)
        place[swaps] = swaps[:, ::-1]
        # pairs to m + 1 are those to m - 1 after an exchange of lanes, with the other sign; here they are families of their own
        # a step begins with the pairs to m + 1, then comes to those to m - 1
        own = [(place[a], place[b], -c, -g) for a, b, c, g in own] + own
        momenta = -lanes.turns
    pairs, coupling, growth = [], [], []
    for a, b, c, g in own:
        # lanes without a partner, and empty ones, have no coupling
        used = c != 0.0
        pairs.append(np.array([a[used], b[used]], dtype=np.int32))
        coupling.append(np.asarray(c[used], dtype=float))
        growth.append(np.asarray(g[used], dtype=float))
    return Families(pairs, coupling, growth, momenta)


def shape_of(
    device: Device, points: int, lanes: int, members: int, *, velocity: bool = False, warps: bool = True
) -> CudaShape:
    """Return how a batch lies on a device.

    Raises
    ------
    DeviceError
        If there are too many channels for the shared memory of a block.
    """
    with device.use():
        runtime = device.xp.cuda.runtime
        properties = runtime.getDeviceProperties(device.index)
        shared = int(properties.get("sharedMemPerBlockOptin", properties["sharedMemPerBlock"]))
        # blocks that wait for each other must all run at once: a cooperative launch promises it, and the driver
        # must know it
        able = getattr(device.xp.cuda.Device(device.index), "attributes", {}).get("CooperativeLaunch", 0)
        able = able and runtime.driverGetVersion() >= TOGETHER
        return shape(
            points,
            lanes,
            members,
            int(properties["multiProcessorCount"]),
            shared,
            velocity=velocity,
            waits=bool(able),
            warps=warps,
        )


@dataclass(frozen=True)
class Stepping:
    """Options of steps.

    Attributes
    ----------
    dt : float
        Time step, a.u.
    velocity : bool
        Gauge.
    order : int
        2 or 4.
    parts : int
        As of :class:`qsim.tridiag.atom.evolution.propagator.Propagator`.
    """

    dt: float
    velocity: bool = False
    order: int = 2
    parts: int = 0


class CudaBatch:
    """States of one atom in several fields, and the steps that carry them on.

    Parameters
    ----------
    device : Device
    lattice, lanes
        The atom, and its channels.
    phi : list of (used, n) complex128
        State of each member, in the order of the channels.
    fields : list of functions
        E(t) of each member, or A(t): functions of an array of times, which return (2, times) with planar lanes.
    how : Stepping
    found : CudaShape, optional
        As `shape_of`.

    Raises
    ------
    DeviceError
        If the device cannot hold the channels.
    """

    def __init__(
        self,
        device: Device,
        lattice: AtomLattice,
        lanes: AnyLanes,
        phi: list[NDArray[np.complex128]],
        fields: Sequence[Callable[[Any], NDArray[np.float64]]],
        how: Stepping,
        *,
        found: CudaShape | None = None,
    ) -> None:
        self.device, self.lattice, self.lanes, self.fields = device, lattice, lanes, fields
        self.how, self.dt, self.order, self.velocity = how, how.dt, how.order, how.velocity
        self.cleared, self.parts = how.parts > 0, max(how.parts, 1)
        dt, order = how.dt, how.order
        self.members = len(phi)
        n, width = lattice.grid.points, 2 * lanes.pairs
        if found is None:
            along = not isinstance(lanes, PlanarLanes)
            found = shape_of(device, n, width, self.members, velocity=how.velocity, warps=along)
        self.shape = found
        # the stages of order 4 have two lengths, hence two sets of tables
        made = {q: self._tables(q * dt / self.parts) for q in dict.fromkeys(STAGES[order])}
        self.stages = [(q, made[q]) for q in STAGES[order]]
        self.made = list(made.values())
        with device.use():
            self.state = device.xp.zeros((self.members, self.shape.padded, width), dtype=np.complex128)
        self._decay = None
        if order == 4 and lattice.cap is not None:
            # as on the CPU, the absorber is left out of the stages of order 4
            decay = np.ones((self.shape.padded, 1))
            decay[:n, 0] = np.exp(-lattice.cap * dt)
            self._decay = device.asarray(decay)
        for member, one in enumerate(phi):
            self.set(member, one)
        self.step = 0
        self.lost = np.zeros(self.members)

    def _tables(self, dt: float) -> CudaTables:
        """Return the tables of steps of length `dt`."""
        lattice, lanes = self.lattice, self.lanes
        arrays = radial_arrays(lattice, lanes, dt, cap=self.order == 2)
        pivots = kernels.pivots(*arrays)
        mask = lattice.mask
        if mask is not None and self.parts > 1:
            mask = mask ** (1.0 / self.parts)
        families = families_of(lanes)
        made = CudaTables(
            self.device,
            self.shape,
            radial_tables(*arrays, *pivots),
            lattice.grid.r,
            families,
            Observed(
                1.0 / lattice.grid.slope**2,
                weighted_force(lattice),
                lanes.order[lanes.ls == lanes.lmax],
            ),
            mask=mask,
            members=self.members,
        )
        if self.velocity:
            inner = emptied(lattice, lanes) if self.cleared else np.zeros((0, 2 * lanes.pairs))
            # the reach of a Cayley step grows with its coupling: the strongest one is safe for all pairs
            strongest = max((float(np.abs(one).max(initial=0.0)) for one in families.coupling), default=0.0)
            grid = lattice.grid
            made.mix = Mixing(
                self.device,
                self.shape,
                grid.r,
                grid.slope,
                strongest,
                inner,
                self.members,
                made.radial_reach,
            )
        return made

    def set(self, member: int, phi: NDArray[np.complex128]) -> None:
        """Take the state of a member, (used, n), in the order of the channels."""
        # rows beyond the grid, which fill up the last chunk, and lanes without a channel stay zero
        f = np.zeros(self.state.shape[1:], dtype=np.complex128)
        f[: phi.shape[1], self.lanes.order] = (phi * self.lattice.grid.slope).T
        with self.device.use():
            self.state[member] = self.device.asarray(f)

    def rows(self, member: int) -> NDArray[np.complex128]:
        """Return the state of a member as the kernels have it, (n, lanes)."""
        with self.device.use():
            return self.device.to_host(self.state[member])[: self.lattice.grid.points]

    def phi(self, member: int) -> NDArray[np.complex128]:
        """Return the state of a member (used, n), in the order of the channels."""
        f = self.rows(member)
        return np.ascontiguousarray((f[:, self.lanes.order] / self.lattice.grid.slope[:, None]).T)

    def advance(self, count: int, marks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Make `count` steps and return sums.

        Parameters
        ----------
        count : int
        marks : (places,) int64
            Numbers of steps, from here on and rising, after which sums are taken; 0 to `count`.

        Returns
        -------
        (members, places, 6) float64
            Norm, dipole and mean force along z (or x) and along y, norm of the last l.
        """
        start = self.step * self.dt
        if len(self.stages) == 1:
            # one launch makes all steps and takes all sums: the state does not leave the device
            sums = self._run(self.made[0], start, count, self.dt, marks)
        else:
            # order 4: five launches per step; sums are taken by a launch of no steps
            taken = [] if marks.size == 0 or marks[0] > 0 else [self._sums()]
            for k in range(count):
                at = start + k * self.dt
                for q, tables in self.stages:
                    self._run(tables, at, 1, q * self.dt, marks[:0])
                    at += q * self.dt
                if self._decay is not None:
                    self.state *= self._decay
                if k + 1 in marks:
                    taken.append(self._sums())
            empty = np.zeros((self.members, 0, 6))
            sums = self.device.xp.concatenate(taken, axis=1) if taken else empty
        self.step += count
        return self.device.to_host(sums)

    def sums(self) -> NDArray[np.float64]:
        """Return the sums of the states as they are, (members, 6)."""
        return self.device.to_host(self._sums())[:, 0]

    def _sums(self) -> Any:
        return self._run(self.made[0], 0.0, 0, self.dt, np.zeros(1, dtype=np.int64))

    def _run(self, tables: CudaTables, start: float, count: int, dt: float, marks: NDArray[np.int64]) -> Any:
        """Make `count` steps of length `dt` from a time on; return the sums on the device."""
        dt, count = dt / self.parts, count * self.parts
        middle = start + (np.arange(count) + 0.5) * dt
        # place in the result of the sums after each step, -1 where none are taken
        samples = np.full(count + 1, -1, dtype=np.int32)
        samples[marks * self.parts] = np.arange(len(marks))
        fields = [over_steps(one, middle, dt) for one in self.fields]
        if isinstance(self.lanes, PlanarLanes):
            # as size and angle: the frame of each step has the field along its x axis
            size = np.array([np.hypot(*one) for one in fields])
            angle = np.array([np.arctan2(one[1], one[0]) for one in fields])
            if not self.velocity:
                return planar_length_steps(self.state, tables, size, angle, dt, samples)
            sums, lost = planar_velocity_steps(self.state, tables, size, angle, dt, samples)
        else:
            table = np.array(fields).reshape(self.members, count)
            if not self.velocity:
                # chunks that fit into registers have kernels of their own (warps.cu)
                make = warp_length_steps if tables.shape.warps else kernels.length_steps
                return make(self.state, tables, table, dt, samples)
            ends = start + np.arange(count + 1) * dt
            kicks = np.array([np.asarray(one(ends), dtype=float) for one in self.fields])
            kicks = kicks.reshape(self.members, count + 1)
            steps = warp_velocity_steps if tables.shape.warps else velocity_steps
            sums, lost = steps(self.state, tables, kicks, table, dt, samples)
        if self.cleared:
            self.lost += self.device.to_host(lost)
        return sums

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.state.nbytes) + sum(one.nbytes for one in self.made)


class CudaMember:
    """One member of a batch, with what :class:`qsim.tridiag.atom.evolution.propagator.Propagator` offers.

    Parameters
    ----------
    batch : CudaBatch
    index : int
    """

    #: one launch makes the steps to many marks
    in_one = True

    def __init__(self, batch: CudaBatch, index: int = 0) -> None:
        self.batch, self.index = batch, index
        self.lattice, self.lanes, self.dt = batch.lattice, batch.lanes, batch.dt

    @property
    def step(self) -> int:
        """Steps done."""
        return self.batch.step

    @property
    def lost(self) -> float:
        """Norm that was set to zero near the nucleus."""
        return float(self.batch.lost[self.index])

    @property
    def phi(self) -> NDArray[np.complex128]:
        """The state (used, n), ``sum |phi|^2`` = norm, in the order of the channels."""
        return self.batch.phi(self.index)

    def near(self, window: slice) -> NDArray[np.complex128]:
        """Return the state on some points (used, points of the window)."""
        grid = self.lattice.grid
        with self.batch.device.use():
            f = self.batch.device.to_host(
                self.batch.state[self.index, window.start : min(window.stop, grid.points)]
            )
        return np.ascontiguousarray((f[:, self.lanes.order] / grid.slope[window, None]).T)

    @property
    def numbers(self) -> int:
        """Complex numbers of the state."""
        return self.lattice.grid.points * 2 * self.lanes.pairs

    def snapshot(self) -> NDArray[np.float64]:
        """Return the state in the layout of a CPU, (n, 4 K)."""
        f = self.batch.rows(self.index)
        return np.concatenate([f.real, f.imag], axis=1)

    def restore(self, state: NDArray[np.float64], step: int, lost: float) -> None:
        """Take what `snapshot` returned, after `step` steps."""
        # checkpoints have the layout of a CPU, so that a run can be continued on either
        half = state.shape[1] // 2
        f = np.zeros(self.batch.state.shape[1:], dtype=np.complex128)
        f[: state.shape[0]] = state[:, :half] + 1j * state[:, half:]
        with self.batch.device.use():
            self.batch.state[self.index] = self.batch.device.asarray(f)
        self.count_from(step, lost)

    def count_from(self, step: int, lost: float) -> None:
        """Take the state as that after `step` steps, in which the norm `lost` was set to zero."""
        self.batch.step, self.batch.lost[self.index] = step, lost

    def edges(self, rows: int) -> tuple[float, float]:
        """Return the norm of the last two l, and the norm of the last points."""
        batch, n = self.batch, self.lattice.grid.points
        xp = batch.device.xp
        last = self.lanes.order[self.lanes.ls >= self.lanes.lmax - 1]
        with batch.device.use():
            # norm from f = r' phi
            weight = batch.device.asarray(1.0 / self.lattice.grid.slope[:, None] ** 2)
            state = batch.state[self.index][:n]
            high = xp.sum(weight * xp.abs(state[:, batch.device.asarray(last)]) ** 2)
            outer = xp.sum(weight[n - rows :] * xp.abs(state[n - rows :]) ** 2)
            return float(high), float(outer)

    def components(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sums (..., 6) as a CPU has them: four numbers along z, six in a plane."""
        return sums if isinstance(self.lanes, PlanarLanes) else sums[..., [0, 1, 3, 5]]

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole and mean force (along z, or along x and y), and the norm of the last l."""
        return self.components(self.batch.sums()[self.index])

    def sampled(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Go on to each mark, a number of steps from the start, and return the `sums` there: of a batch of one."""
        ahead = np.array(marks) - self.step
        return self.components(self.batch.advance(int(ahead[-1]), ahead)[self.index])


def merged(members: list[CudaMember]) -> CudaBatch:
    """Return one batch of members of several, which have the same grid, channels and steps."""
    # batches of one that were made member by member: states and fields are taken over, tables are made once
    first = members[0].batch
    batch = CudaBatch(
        first.device,
        first.lattice,
        first.lanes,
        [one.phi for one in members],
        [one.batch.fields[one.index] for one in members],
        first.how,
    )
    batch.step = first.step
    batch.lost = np.array([one.lost for one in members])
    return batch


AnyPropagator = Propagator | CudaMember
