"""P, J and their exact gradient for an ensemble of quantum systems under the same controls (C, N).

Members are shared by the ranks of a run; what they add up to is added in the order of the ranks, so that all ranks go on with the
same numbers. ``P = sum_m w_m P_m``, or the smallest P_m; the search for the smallest one goes by a smooth function (`Worst`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm, share, world
from qsim.qoc.objectives.costs import GateCost, Linear, Mean, Overlap, cost_of
from qsim.qoc.objectives.objective import Evaluation
from qsim.qoc.propagators.batch import SlotMembers
from qsim.qoc.propagators.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.cost import Cost
    from qsim.qoc.propagators.slots import Motion

# Exponent of the smooth minimum: of 1000 members the distance lies within a factor 2.4 of the largest one.
EXPONENT = 8
# Costs that are linear or quadratic in the columns, of many members at once.
TOGETHER = (Mean, GateCost, Overlap, Linear)
# Distance from the largest value below which a member counts as perfect.
PERFECT = 1e-14


class Measure(ABC):
    """Combination of the values of the members (M,).

    Attributes
    ----------
    weights : (M,) float64 or None
        Derivative of `smooth` by each P_m where it does not depend on them.
    """

    weights: NDArray[np.float64] | None = None

    @abstractmethod
    def value(self, p: NDArray[np.float64]) -> float:
        """Return P of the ensemble."""

    @abstractmethod
    def smooth(self, p: NDArray[np.float64]) -> float:
        """Return what is maximised, less the fluence penalty."""

    @abstractmethod
    def slope(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the derivative of `smooth` by each P_m."""


@dataclass(frozen=True)
class Weighted(Measure):
    """``sum_m w_m P_m``.

    Attributes
    ----------
    weights : (M,) float64
        Their sum is 1.
    """

    weights: NDArray[np.float64]

    def value(self, p: NDArray[np.float64]) -> float:
        """Return the weighted mean."""
        return float(self.weights @ p)

    def smooth(self, p: NDArray[np.float64]) -> float:
        """Return the weighted mean."""
        return self.value(p)

    def slope(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights."""
        return self.weights


@dataclass(frozen=True)
class Worst(Measure):
    """The smallest P_m, by ``top - (mean_m (top - P_m)^q)^(1/q)``: the same shape at any distance from the top (Eq. Q28).

    Attributes
    ----------
    top : float
        Largest value that any member can have.
    """

    top: float

    def value(self, p: NDArray[np.float64]) -> float:
        """Return the smallest value itself."""
        return float(p.min())

    def smooth(self, p: NDArray[np.float64]) -> float:
        """Return the smooth minimum, between the smallest value and the mean."""
        return self.top - self._distance(p)[0]

    def slope(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(1/M) (e_m/e)^(q - 1)`` with the distances e_m of the members and e of all."""
        e, each = self._distance(p)
        return np.asarray((each / e) ** (EXPONENT - 1) / p.size)

    def _distance(self, p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        each = np.maximum(self.top - p, PERFECT)
        largest = float(each.max())
        # by the largest one, so that no power underflows
        return largest * float(np.mean((each / largest) ** EXPONENT)) ** (1.0 / EXPONENT), each


class Member:
    """A system of an ensemble: its propagation, starts and cost.

    Parameters
    ----------
    model : QuantumModel
    motion : Motion
    """

    def __init__(self, model: QuantumModel, motion: Motion) -> None:
        self.slots = Slots(model, motion)
        self.start, self.cost = cost_of(model, motion.lindblad)
        self.motion, self.dimension = motion, model.dimension

    def sizes(self, columns: ComplexArray) -> RealArray:
        """Return the squared norm, or the trace, of columns (m, D, S) of either device: (m, S)."""
        if self.motion.lindblad:
            return columns[:, :: self.dimension + 1].sum(axis=1).real
        return (columns.real**2 + columns.imag**2).sum(axis=1)


class EnsembleObjective:
    """Value and gradient of all members; counts a propagation of all of them as one sweep.

    Parameters
    ----------
    device : Device
    systems : sequence of Member
        Different systems of the members of this rank.
    system : (m,) int64
        System of each member of this rank.
    scale : (m, C) float64
        Factors by which these members see the controls.
    measure : Measure
        Of all members of all ranks.
    count : int
        Number M of members of all ranks.
    alpha : float or (C,) float64
        Fluence penalty of all controls, or of each.
    """

    batched = False

    def __init__(
        self,
        device: Device,
        systems: Sequence[Member],
        system: NDArray[np.int64],
        scale: NDArray[np.float64],
        measure: Measure,
        count: int,
        alpha: float | NDArray[np.float64] = 0.0,
    ) -> None:
        self.measure, self.systems = measure, systems
        self.alpha = np.broadcast_to(np.asarray(alpha, float), scale.shape[1:])[:, None]
        self.propagator = SlotMembers(device, [s.slots for s in systems], system, scale)
        self.comm, self.own = own_members(count)
        columns = _padded([s.start for s in systems])[system]
        self._starts = self.propagator.placed(columns)
        self._sizes = device.asarray(systems[0].sizes(columns))
        self._costs = [
            (_placed(cost, device), np.isin(system, places), systems[places[0]].start.shape[1])
            for cost, places in _distinct(systems)
        ]
        self.sweeps = 0
        self.norm_error = 0.0

    @property
    def tau(self) -> float:
        """Length of a slot."""
        return self.propagator.tau

    def penalty(self, fields: NDArray[np.float64]) -> float:
        """Return ``sum_c alpha_c sum u_c^2 tau``."""
        return float(self.tau * np.sum(self.alpha * fields**2))

    def values(self, fields: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P and J of one set of controls (C, N), as arrays (1,)."""
        self.sweeps += 1
        p = self.member_values(fields)
        return np.array([self.measure.value(p)]), np.array([self.measure.smooth(p) - self.penalty(fields)])

    def member_values(self, fields: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P of every member of all ranks (M,)."""
        found = [np.zeros(0)]
        for members in self._chunks(fields):
            final, _ = self.propagator.forward(fields, self._starts, members, keep=False)
            found.append(self._looked_at(final, members)[0])
        return self._of_all(np.concatenate(found))

    def evaluate(self, fields: NDArray[np.float64]) -> Evaluation:
        """Return P, J and the exact gradient (C, N); two sweeps."""
        self.sweeps += 2
        found, rows, own = [np.zeros(0)], [], np.zeros(fields.shape)
        fixed = self.measure.weights
        for members in self._chunks(fields):
            final, run = self.propagator.forward(fields, self._starts, members, keep=True)
            p, costates = self._looked_at(final, members)
            found.append(p)
            assert run is not None
            part = self.propagator.gradient(fields, run, costates)
            self.propagator.release(run)
            if fixed is not None:
                own += self._summed(part, fixed[self.own][members])
            else:
                # the weight of a member depends on the values of all others
                rows.append((members, part))
        p = self._of_all(np.concatenate(found))
        slope = self.measure.slope(p)[self.own]
        own = sum((self._summed(part, slope[members]) for members, part in rows), own)
        parts = self.comm.allgather(own)
        gradient = sum(parts[1:], parts[0])
        total = gradient - 2.0 * self.alpha * self.tau * fields
        return Evaluation(self.measure.value(p), self.measure.smooth(p) - self.penalty(fields), total, p)

    def _chunks(self, fields: NDArray[np.float64]) -> list[slice]:
        """Return the members of this rank, as many at a time as memory holds."""
        step, count = self.propagator.chunk(self._starts.shape[2] // 2, fields), self.propagator.count
        return [slice(first, min(first + step, count)) for first in range(0, count, step)]

    def _looked_at(self, final: ComplexArray, members: slice) -> tuple[NDArray[np.float64], ComplexArray]:
        """Return P of members, and dP/dX* on the device, from columns (m, D, S) at T; keep the largest change of a norm."""
        device = self.propagator.device
        # A closed system keeps every norm, so its change measures rounding and the cut of the series.
        change = self.systems[0].sizes(final) - self._sizes[members]
        # kets that lose what jumps may only become shorter
        change = change if self.systems[0].motion.lossy else abs(change)
        self.norm_error = max(self.norm_error, float(change.max()))
        if len(self._costs) == 1:
            return _with_one_cost(self._costs[0][0], final, device)
        p, derivative = np.zeros(final.shape[0]), device.xp.zeros_like(final)
        for cost, places, width in self._costs:
            own = np.flatnonzero(places[members])
            if own.size:
                there = device.asarray(own)
                # a mixture of fewer levels has columns of zeros at the end
                p[own], derivative[there, :, :width] = _with_one_cost(
                    cost, final[there][:, :, :width], device
                )
        return p, derivative

    def _of_all(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the members of all ranks; keep the largest norm error of any."""
        found = self.comm.allgather((own, self.norm_error))
        self.norm_error = max(error for _, error in found)
        return np.concatenate([p for p, _ in found])

    def _summed(self, rows: RealArray, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``sum_m w_m dP_m/du`` (C, N) of rows (m, C, N), on the host."""
        device = self.propagator.device
        # as a matrix product: it reads many rows at memory speed
        there = device.asarray(np.ascontiguousarray(weights))
        summed = there[None] @ rows.reshape(rows.shape[0], -1)
        return device.to_host(summed).reshape(rows.shape[1:])


def own_members(count: int) -> tuple[Comm, slice]:
    """Return the ranks that share members, and the members of this one; of fewer members than ranks, each has all."""
    comm = world() if world().size <= count else SerialComm()
    return comm, share(comm, count)


def _padded(starts: list[ComplexArray]) -> ComplexArray:
    """Return starts (K, D, S) of systems; mixtures of fewer levels have columns of zeros at the end."""
    width = max(s.shape[1] for s in starts)
    made = np.zeros((len(starts), starts[0].shape[0], width), complex)
    for row, start in zip(made, starts, strict=True):
        row[:, : start.shape[1]] = start
    return made


def _distinct(systems: Sequence[Member]) -> list[tuple[Cost, list[int]]]:
    """Return the different costs, and the systems of each."""
    found: dict[tuple[object, ...], tuple[Cost, list[int]]] = {}
    for number, member in enumerate(systems):
        content = [getattr(member.cost, f.name) for f in fields(member.cost)]  # type: ignore[arg-type]
        key = (
            type(member.cost),
            member.start.shape[1],
            *(np.asarray(c).shape for c in content),
            *(np.asarray(c).tobytes() for c in content),
        )
        found.setdefault(key, (member.cost, []))[1].append(number)
    return list(found.values())


def _placed(cost: Cost, device: Device) -> Cost:
    """Return a cost with its arrays on the device."""
    if not device.is_cuda or type(cost) not in TOGETHER:
        return cost

    def there(value: Any) -> Any:
        if isinstance(value, bool):
            return value
        return [device.asarray(v) for v in value] if isinstance(value, list) else device.asarray(value)

    content = {f.name: there(getattr(cost, f.name)) for f in fields(cost)}  # type: ignore[arg-type]
    return replace(cost, **content)  # type: ignore[type-var]


def _with_one_cost(
    cost: Cost, final: ComplexArray, device: Device
) -> tuple[NDArray[np.float64], ComplexArray]:
    """Return the values (m,) of members with one cost, on the host, and dJ/dX* (m, D, S) on the device."""
    if type(cost) not in TOGETHER:
        # a cost of another kind, member by member
        columns = device.to_host(final)
        slopes = np.array([cost.derivative(x) for x in columns])
        return np.array([cost.value(x) for x in columns]), device.asarray(slopes)
    slopes = _derivatives(cost, final, device.xp)
    # a quadratic cost is <X|dJ/dX*>, a linear one twice its real part
    factor = 2.0 if type(cost) is Linear else 1.0
    values = factor * (final.conj() * slopes).sum(axis=(1, 2)).real
    return device.to_host(values), slopes


def _derivatives(cost: Cost, x: ComplexArray, xp: Any) -> ComplexArray:
    """Return dJ/dX* of columns (m, D, S) of many members at once."""
    if isinstance(cost, GateCost):
        overlaps = (cost.wanted.conj() * x).sum(axis=(1, 2))
        inside = cost.logical @ (cost.logical.conj().T @ x)
        d = cost.logical.shape[1]
        return (overlaps[:, None, None] * cost.wanted + inside) / (d * (d + 1))
    if isinstance(cost, Overlap):
        overlaps = (cost.targets.conj() * x).sum(axis=(1, 2))
        return overlaps[:, None, None] * cost.targets
    if isinstance(cost, Linear):
        return xp.broadcast_to(0.5 * cost.rows, x.shape)
    assert isinstance(cost, Mean)
    slopes = xp.zeros_like(x)
    for s, (o, w) in enumerate(zip(cost.operators, cost.weights, strict=True)):
        slopes[:, :, s] = w * (x[:, :, s] @ o.T)
    return slopes
