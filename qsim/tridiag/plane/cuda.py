"""Steps of two coordinates on a GPU: the state stays there, and passes that come again are recorded once and replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.kernels import Graph
from qsim.tridiag.kernels.plane.records import NO_STEP
from qsim.tridiag.kernels.plane.steps import Launch, PlaneKernels, cut, pair
from qsim.tridiag.plane.propagator import PlanePropagator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.tridiag.plane.lattice import PlaneLattice
    from qsim.tridiag.plane.propagator import Pass

__all__ = ["CudaPlanePropagator"]

# passes whose factors are made together; even, so that a group ends in the array in which it began
PASSES = 32
# recorded groups of passes, at most
MOST = 32


class CudaPlanePropagator(PlanePropagator):
    """The interface of `PlanePropagator` on a GPU.

    Parameters
    ----------
    device : Device
    single : bool
        Whether numbers are of single precision.
    others
        As of `PlanePropagator`.
    """

    def __init__(
        self,
        lattice: PlaneLattice,
        psi: NDArray[np.complex128],
        dt: float,
        order: int,
        actions: NDArray[np.float64],
        inside: tuple[NDArray[np.float64], NDArray[np.float64]],
        device: Device,
        *,
        single: bool = False,
    ) -> None:
        self.device, self.single = device, single
        super().__init__(lattice, psi, dt, order, actions, inside)

    def _allocate(self) -> None:
        """Make room on the device, and choose the windows for all lengths of stages."""
        device, xp = self.device, self.device.xp
        item = 4 if self.single else 8
        decays = [min(axis.step(q * self.dt).decay for q in set(self.stages)) for axis in self.lattice.axes]
        cuts = [cut(n, decay, item) for n, decay in zip(self.shape, decays, strict=True)]
        with device.use():
            self.kernels = PlaneKernels(
                device, self.shape, (cuts[0], cuts[1]), self.inside, single=self.single
            )
            kind = self.kernels.complex
            self.states = [xp.zeros((self.shape[0], self.kernels.pitch), kind) for _ in range(2)]
            self.now = 0
            self._x = [device.asarray(axis.x) for axis in self.lattice.axes]
            first, second = ([axis.x[0], axis.spacing] for axis in self.lattice.axes)
            self._places = [
                device.asarray(np.array(one), self.kernels.real) for one in (first + second, second + first)
            ]
            # factors of the passes of a group, which recorded launches read
            self._used = [xp.ones((PASSES, n), kind) for n in self.shape]
        self._made: Any = None
        self._names: tuple[dict[Any, int], dict[Any, int]] = ({}, {})
        self._known: list[list[NDArray[np.complex128]]] = [[], []]
        self._stacks: list[Any] = [None, None]
        self._device_tables: dict[Any, Any] = {}
        self._kept: dict[Any, Any] = {}
        self._pairs: dict[Any, Any] = {}
        self._graphs: dict[Any, Graph | None] = {}
        self._resident: dict[int, tuple[Any, Any]] = {}

    @property
    def field(self) -> Array:
        """The state (n1, n2) on the device."""
        return self.states[self.now][:, : self.shape[1]]

    def resident(self, array: NDArray[Any]) -> Array:
        """Return an array that stays the same for the run on the device."""
        key = id(array)
        if key not in self._resident:
            # the array is kept, so that no other one can take its address
            kind = self.kernels.complex if np.iscomplexobj(array) else self.kernels.real
            self._resident[key] = array, self.device.asarray(array, kind)
        return self._resident[key][1]

    @property
    def psi(self) -> NDArray[np.complex128]:
        """The state (n1, n2)."""
        with self.device.use():
            return self.device.to_host(self.states[self.now])[:, : self.shape[1]].astype(complex)

    @psi.setter
    def psi(self, psi: NDArray[np.complex128]) -> None:
        with self.device.use():
            self.states[self.now][:, : self.shape[1]] = self.device.asarray(psi, self.kernels.complex)

    def _multiply(self, factor: float) -> None:
        with self.device.use():
            if factor not in self._turns:
                self._turns[factor] = self.device.asarray(self.lattice.phases(factor), self.kernels.complex)
            self.states[self.now][:, : self.shape[1]] *= self._turns[factor]

    def _go(self, passes: list[Pass], actions: NDArray[np.float64]) -> None:
        with self.device.use():
            for low in range(0, len(passes), PASSES):
                part = tuple(passes[low : low + PASSES])
                self._make_factors(part, actions[:, low : low + PASSES])
                self._group(part)
                self.now = (self.now + len(part)) % 2
            if self.lattice.absorbs:
                # at the end of each call, so that a run that is continued adds the same numbers
                for parts in self.kernels.lost:
                    sums = self.device.xp.sum(parts, axis=0, dtype=float)
                    self.lost += self.device.to_host(sums) * self.lattice.cell
                    parts[:] = 0.0

    def _group(self, part: tuple[Pass, ...]) -> None:
        """Launch passes, which are recorded when they come for the second time: the first time kernels are compiled."""
        key = (part, self.now)
        if key in self._graphs and self._graphs[key] is None:
            if sum(one is not None for one in self._graphs.values()) >= MOST:
                self._graphs.clear()
            with Graph.capture(self.device) as graph:
                self._launch(part)
            self._graphs[key] = graph
        known = self._graphs.setdefault(key, None)
        if known is None:
            self._launch(part)
        else:
            known.launch()

    def _launch(self, part: tuple[Pass, ...]) -> None:
        for k, one in enumerate(part):
            source = (self.now + k) % 2
            self.kernels.step_pass(self._arguments(k, one), self.states[source], self.states[1 - source])

    def _arguments(self, k: int, one: Pass) -> Launch:
        """Return what the k-th pass of a group takes."""
        axis, other = one.axis, 1 - one.axis
        constants, reach, _scale, weight = self._pair(one)
        table, origin, stride = self._on_device(axis, one.length)
        kept = None
        if one.decay > 0.0 and self.lattice.absorbs:
            kept = self._kept_of(axis, one.decay), self._kept_of(other, one.decay)
        return Launch(
            axis, constants, reach, self._used[axis][k], self._used[other][k], table, origin, stride, weight,
            one.length * self.lattice.nonlinear, kept,
            self._twist(axis) if one.twisted else 0.0, self._places[axis],
        )  # fmt: skip

    def _pair(self, one: Pass) -> tuple[Array, tuple[int, int], complex | NDArray[np.complex128], float]:
        """Return constants of both filters on the device, neighbours, the product of beta, and the weight of |psi|^2."""
        key = (one.axis, one.before, one.after)
        if key not in self._pairs:
            both = [self._filter(one.axis, t) if t else NO_STEP for t in (one.before, one.after)]
            constants, reach, scale = pair(both[0], both[1], 4 if self.single else 8)
            weight = float(np.abs(both[0].numbers[0, 3])) ** 2
            device = self.device
            self._pairs[key] = device.asarray(constants, self.kernels.real), reach, scale, weight
        found: tuple[Array, tuple[int, int], complex | NDArray[np.complex128], float] = self._pairs[key]
        return found

    def _kept_of(self, axis: int, decay: float) -> Array:
        key = (axis, decay)
        if key not in self._kept:
            kept = np.exp(-2.0 * decay * self.lattice.absorber[axis])
            self._kept[key] = self.device.asarray(kept, self.kernels.real)
        return self._kept[key]

    def _on_device(self, axis: int, length: float) -> tuple[Array | None, int, int]:
        """Return the factors of both coordinates for a pass along an axis, the place of the first point, and the stride."""
        lattice, device = self.lattice, self.device
        if lattice.table is None and lattice.between is None:
            return None, 0, 0
        # a table of both lies as the state does, for either axis
        key = length if lattice.table is not None else (axis, length)
        if key not in self._device_tables:
            if lattice.table is not None:
                wide = ((0, 0), (0, self.kernels.pitch - self.shape[1]))
                v = device.xp.pad(device.asarray(lattice.table), wide)
                made = device.xp.exp(-1j * length * v), 0, 0
            else:
                (real, imag), origin, stride = self._table(axis, length)
                made = device.asarray(real + 1j * imag), origin, stride
            self._device_tables[key] = made[0].astype(self.kernels.complex), *made[1:]
        found: tuple[Array, int, int] = self._device_tables[key]
        return found

    def _make_factors(self, part: tuple[Pass, ...], actions: NDArray[np.float64]) -> None:
        """Make the factors of each coordinate for some passes: potential, absorber, field, and beta along the lines."""
        driven = bool(actions.any())
        # without a field a group has the factors of the same group before
        if not driven and self._made == part:
            return
        self._made = None if driven else part
        for number in range(2):
            places = [self._place(number, one) for one in part]
            # new ones are found while the places are
            if self._stacks[number] is None or len(self._stacks[number]) < len(self._known[number]):
                self._stacks[number] = self.device.asarray(np.array(self._known[number]))
            factors = self._stacks[number][self.device.asarray(np.array(places))]
            if driven:
                turn = self.device.asarray(actions[number])[:, None] * self._x[number]
                factors = factors * self.device.xp.exp(-1j * turn)
            self._used[number][: len(part)] = factors.astype(self.kernels.complex)

    def _place(self, number: int, one: Pass) -> int:
        """Return the place of the factors of one coordinate without the field among those that are known."""
        along = number == one.axis
        key = (one.length, one.decay, one.before, one.after) if along else (one.length, one.decay)
        names = self._names[number]
        if key not in names:
            scale = self._pair(one)[2] if along else 1.0
            names[key] = len(names)
            self._known[number].append(scale * self._factor(number, one.length, one.decay, 0.0))
        return names[key]

    def marginals(
        self, tables: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the density of either coordinate and the means of tables, as `PlanePropagator` does."""
        found = self.kernels.marginals(self.states[self.now], self.resident(tables))
        along, across, weighted = (one * self.lattice.cell for one in found)
        return along, across, weighted
