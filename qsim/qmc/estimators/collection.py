"""All estimators of a run, and those that exist.

In diffusion Monte Carlo they are mixed estimates.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc import estimators
from qsim.qmc.estimators.histograms import EstimatorBlock, Histogram, Setting

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.core.results.tables import Table

__all__ = ["Estimators", "blocks", "estimator_tables", "make"]

OPEN = "open"  # names of a block that is not over begin with it in a checkpoint


@cache
def blocks() -> tuple[type[EstimatorBlock], ...]:
    """Return the estimators that exist: the subclasses of `EstimatorBlock` in the modules of this folder, in their order."""
    found: list[type[EstimatorBlock]] = []
    # Modules in the order of their names, so that files and pages have one order.
    for module in sorted(info.name for info in pkgutil.iter_modules(estimators.__path__)):
        members = vars(importlib.import_module(f"qsim.qmc.estimators.{module}")).values()
        for member in members:
            # A module also holds what it imports: each class counts once.
            known = isinstance(member, type) and issubclass(member, EstimatorBlock)
            if known and member is not EstimatorBlock and member not in found:
                found.append(member)
    return tuple(found)


def estimator_tables() -> tuple[Table, ...]:
    """Return the declarations of the arrays of all estimators."""
    return tuple(table for block in blocks() for table in block.tables())


def make(setting: Setting, measured: Sequence[EstimatorBlock]) -> Estimators:
    """Return the estimators of a deck, of each kind at most one."""
    return Estimators(setting.device, {block.key: block.make(setting) for block in measured})


class Estimators:
    """All estimators of a run."""

    def __init__(self, device: Device, members: Mapping[str, Histogram]) -> None:
        self.device, self.members = device, dict(members)
        with device.use():
            self._weight = device.xp.zeros((), np.int64)

    def __bool__(self) -> bool:
        """Return True if there is anything to measure."""
        return bool(self.members)

    def accumulate(self, R: FloatArray, weight: FloatArray) -> None:
        """Add one sample of every walker.

        Parameters
        ----------
        R : (walkers, N, 3) float64
            Positions (bohr), on the device.
        weight : (walkers,) float64
            Weights.
        """
        # Nothing is measured, and no kernel is loaded.
        if not self.members:
            return
        from qsim.qmc.kernels.estimators.estimators import count_quanta

        # Weights become integers, so that sums have no order.
        count = count_quanta(self.device, weight, self._weight)
        for member in self.members.values():
            member.add(R, count)

    @property
    def exact(self) -> bool:
        """Return whether all histograms are integers, whose sums need no order: ranks may add walkers by themselves."""
        return all(np.dtype(member.counts.dtype).kind == "i" for member in self.members.values())

    def close_block(self, comm: Comm | None = None) -> None:
        """End a block; nothing happens if it has no samples.

        Parameters
        ----------
        comm
            Processes whose walkers are to be added; with exact histograms each has accumulated its own, else all of them.
        """
        from qsim.qmc.kernels.estimators.estimators import UNIT

        # Other histograms were filled by each process with the walkers of all.
        shared = comm if comm is not None and comm.size > 1 and self.exact else None
        weight = float(_summed(shared, self.device.to_host(self._weight))) / UNIT
        # A block without samples, at a stop, says nothing.
        if not weight > 0:
            return
        for member in self.members.values():
            member.close_block(weight, _summed(shared, self.device.to_host(member.counts)) / UNIT)
        self._weight.fill(0)

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables of all estimators by name; without `errors`, they are NaN."""
        return {
            name: table
            for member in self.members.values()
            for name, table in member.arrays(errors=errors).items()
        }

    def notes(self) -> list[str]:
        """Return the remarks of all estimators."""
        return [note for member in self.members.values() for note in member.notes()]

    def state(self, comm: Comm | None = None) -> dict[str, Array]:
        """Return the closed blocks as arrays, and the histograms of one that is open; a collective call."""
        shared = comm if comm is not None and comm.size > 1 and self.exact else None
        found: dict[str, Array] = {
            f"{name}.{key}": array
            for name, member in self.members.items()
            for key, array in member.sums.state().items()
        }
        weight = _summed(shared, self.device.to_host(self._weight))
        if weight > 0:
            found[OPEN] = weight
            for name, member in self.members.items():
                found[f"{OPEN}.{name}"] = _summed(shared, self.device.to_host(member.counts))
        return found

    def restore(self, state: Mapping[str, Array], comm: Comm | None = None) -> None:
        """Continue from :meth:`state`; of exact histograms the first process goes on with what all have counted."""
        mine = comm is None or comm.rank == 0 or not self.exact
        for name, member in self.members.items():
            # Names of a checkpoint begin with the name of the estimator.
            start = f"{name}."
            member.sums.restore(
                {key.removeprefix(start): v for key, v in state.items() if key.startswith(start)}
            )
            if mine and OPEN in state:
                member.counts[...] = self.device.asarray(np.asarray(state[f"{OPEN}.{name}"]))
        if mine and OPEN in state:
            self._weight[...] = int(state[OPEN])


def _summed(comm: Comm | None, counts: Array) -> Array:
    """Return the sum of integers over the processes; a collective call."""
    return counts if comm is None else comm.gather_numbers(counts).sum(axis=0).reshape(counts.shape)
