"""Members of a batch on a GPU: runs of one atom in different fields, all with the same grid, channels and steps.

A single run is a batch of one.  State and tables stay on the device; what comes back are sums, and states where they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeviceError
from qsim.tridiag.atom.grid import first_entry
from qsim.tridiag.atom.lanes import PlanarLanes
from qsim.tridiag.kernels import atom as kernels
from qsim.tridiag.kernels.atom_planar import planar_length_steps
from qsim.tridiag.kernels.atom_gpu import CudaTables, Families, Observed, radial_tables, shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.atom.lanes import AnyLanes
    from qsim.tridiag.atom.propagator import AtomLattice
    from qsim.tridiag.kernels.atom_gpu import CudaShape

__all__ = ["CudaBatch", "families_of", "shape_of"]

FIRST = 13.0 / 12.0  # Euler-Maclaurin weight of the first point, of the force


def families_of(lanes: AnyLanes) -> Families:
    """Return the pairs of lanes in the order in which a step begins."""
    k, l = lanes.pairs, lanes.momenta
    here, there = np.arange(k), np.arange(k) + k
    even, odd = lanes.even, lanes.odd
    own = [
        (here, there, even, even * (l[:k] + 1.0)),
        (there[:-1], here[1:], odd[:-1], odd[:-1] * (l[k : 2 * k - 1] + 1.0)),
    ]
    momenta = None
    if isinstance(lanes, PlanarLanes):
        place = np.arange(2 * k)
        swaps = np.where(lanes.swaps < k, lanes.swaps, lanes.swaps - kernels.HALF + k)
        place[swaps] = swaps[:, ::-1]
        own = [(place[a], place[b], -c, -g) for a, b, c, g in own] + own
        momenta = -lanes.turns
    pairs, coupling, growth = [], [], []
    for a, b, c, g in own:
        used = c != 0.0
        pairs.append(np.array([a[used], b[used]], dtype=np.int32))
        coupling.append(np.asarray(c[used], dtype=float))
        growth.append(np.asarray(g[used], dtype=float))
    return Families(pairs, coupling, growth, momenta)


def shape_of(device: Device, points: int, lanes: int, members: int) -> CudaShape:
    """Return how a batch lies on a device.

    Raises
    ------
    DeviceError
        If there are too many channels for the shared memory of a block.
    """
    with device.use():
        runtime = device.xp.cuda.runtime
        found = runtime.getDeviceProperties(device.index)
        shared = int(found.get("sharedMemPerBlockOptin", found["sharedMemPerBlock"]))
        able = getattr(device.xp.cuda.Device(device.index), "attributes", {}).get("CooperativeLaunch", 0)
        return shape(
            points, lanes, members, int(found["multiProcessorCount"]), shared, waits=bool(able)
        )


class CudaBatch:
    """States of one atom in several fields, and the steps that carry them on.

    Parameters
    ----------
    device : Device
    lattice, lanes
        The atom, and its channels.
    phi : list of (used, n) complex128
        State of each member, in the order of the channels.
    dt : float
        Time step, a.u.
    fields : list of functions
        E(t) of each member in length gauge; functions of an array of times.
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
        dt: float,
        fields: list[Callable[[Any], NDArray[np.float64]]],
        found: CudaShape | None = None,
    ) -> None:
        self.device, self.lattice, self.lanes, self.dt, self.fields = device, lattice, lanes, dt, fields
        self.members = len(phi)
        n, width = lattice.grid.points, 2 * lanes.pairs
        self.shape = shape_of(device, n, width, self.members) if found is None else found
        self.tables = self._tables(dt)
        with device.use():
            self.state = device.xp.zeros((self.members, self.shape.padded, width), dtype=np.complex128)
        for member, one in enumerate(phi):
            self.set(member, one)
        self.step = 0

    def _tables(self, dt: float) -> CudaTables:
        """Return the tables of steps of length `dt`."""
        grid, l = self.lattice.grid, self.lanes.momenta
        square = grid.slope**2
        w = np.zeros(grid.points) if self.lattice.cap is None else self.lattice.cap
        potential = np.column_stack([square * (self.lattice.potential + grid.curvature) / 6.0, -square * w / 6.0])
        rotation, a, ll = square / (12.0 * grid.r**2), square / (3.0 * dt), l * (l + 1.0)
        first = np.array([first_entry(int(one), self.lattice.charge, grid.step) for one in l])
        pivots = kernels.pivots(a, potential, rotation, ll, first)
        force = np.array(self.lattice.force)
        force[0] *= FIRST
        last = self.lanes.order[self.lanes.ls == self.lanes.lmax]
        return CudaTables(
            self.device,
            self.shape,
            radial_tables(a, potential, rotation, ll, first, *pivots),
            grid.r,
            families_of(self.lanes),
            Observed(1.0 / square, force, last),
            mask=self.lattice.mask,
            members=self.members,
        )

    def set(self, member: int, phi: NDArray[np.complex128]) -> None:
        """Take the state of a member, (used, n), in the order of the channels."""
        f = np.zeros(self.state.shape[1:], dtype=np.complex128)
        f[: phi.shape[1], self.lanes.order] = (phi * self.lattice.grid.slope).T
        with self.device.use():
            self.state[member] = self.device.asarray(f)

    def phi(self, member: int) -> NDArray[np.complex128]:
        """Return the state of a member (used, n), in the order of the channels."""
        f = self.device.to_host(self.state[member])[: self.lattice.grid.points]
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
        middle = (self.step + np.arange(count) + 0.5) * self.dt
        samples = np.full(count + 1, -1, dtype=np.int32)
        samples[marks] = np.arange(len(marks))
        fields = [np.asarray(one(middle), dtype=float) for one in self.fields]
        if isinstance(self.lanes, PlanarLanes):
            size = np.array([np.hypot(*one) for one in fields])
            angle = np.array([np.arctan2(one[1], one[0]) for one in fields])
            sums = planar_length_steps(self.state, self.tables, size, angle, self.dt, samples)
        else:
            table = np.array(fields).reshape(self.members, count)
            sums = kernels.length_steps(self.state, self.tables, table, self.dt, samples)
        self.step += count
        return self.device.to_host(sums)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.state.nbytes) + self.tables.nbytes


def unable(reason: str) -> DeviceError:
    """Return the error of what has no CUDA kernels."""
    return DeviceError(f"task: atom: {reason} runs on the CPU only", hint="run.device: auto or cpu")
