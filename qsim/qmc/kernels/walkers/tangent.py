"""Derivatives with respect to coefficients and orbitals of determinants: wrapper of ``tangent.cu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import kernels
from qsim.qmc.kernels.expansion.types import ExpansionTables
from qsim.qmc.kernels.walkers.launches import PACKAGE, WARP, as_argument

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.tables import Tables
    from qsim.qmc.kernels.common.types import State
    from qsim.qmc.kernels.molecule.launch import MoleculeLaunch
    from qsim.qmc.kernels.walkers.derivatives_cpu import ParameterTables

__all__ = ["MOVED", "add_determinants", "moved_of"]

SPACE_BYTES = 1 << 28  # of work space: more walkers come one part after the other
POINTERS = ("order", "own", "begin", "share", "mixed", "factor", "first")
SIZES = ("coefficients", "orbitals", "at_coefficients", "at_orbitals")
#: ``Moved`` of tangent.cu.
MOVED = np.dtype([(name, np.uint64) for name in POINTERS] + [(name, np.int64) for name in SIZES])


def moved_of(
    device: Device, tables: Tables, parameters: ParameterTables
) -> tuple[dict[str, Array], dict[str, int]]:
    """Return the arrays and the numbers of `MOVED`, of coefficients and orbitals in the order of their parameters."""
    xp, group, mixed = device.xp, parameters.group, parameters.mixed
    kept = xp.flatnonzero(group >= 0)
    order = kept[xp.argsort(group[kept])].astype(np.int64)
    first = int(group[order[0]]) if order.size else 0
    count = int(group[order[-1]]) + 1 - first if order.size else 0
    begin = xp.searchsorted(group[order], first + xp.arange(count + 1)).astype(np.int64)
    own = xp.zeros(1, np.int64)
    if isinstance(tables.expansion, ExpansionTables) and group.size:
        strings = tables.expansion.begin
        own = (xp.searchsorted(strings, xp.arange(group.size), side="right") - 1).astype(np.int64)
    place = xp.ascontiguousarray(mixed[:, 3])
    at = int(place[0]) if place.size else 0
    turns = int(place[-1]) + 1 - at if place.size else 0
    starts = xp.searchsorted(place, at + xp.arange(turns + 1)).astype(np.int64)
    arrays = {
        "order": order,
        "own": own,
        "begin": begin,
        "share": parameters.share,
        "mixed": mixed,
        "factor": parameters.factor,
        "first": starts,
    }
    return arrays, {"coefficients": count, "orbitals": turns, "at_coefficients": first, "at_orbitals": at}


def add_determinants(
    device: Device,
    state: State,
    tables: Tables,
    launch: MoleculeLaunch,
    parameters: ParameterTables,
    slopes: tuple[FloatArray, FloatArray],
) -> None:
    """Add the derivatives by coefficients and orbitals to those of log psi and of the local energy, (W, P) each.

    Parameters
    ----------
    device
        A GPU; on CPUs one kernel takes all derivatives.
    launch
        Of the walkers, which has just set the local energies and the other derivatives.
    parameters
        Which parameter moves which coefficient and which orbital, on the device.
    slopes
        ``d log psi / dp`` and ``d E_L / dp`` in hartree, in/out.
    """
    xp, sizes = device.xp, launch.sizes
    arrays, numbers = moved_of(device, tables, parameters)
    record = np.zeros(1, MOVED)
    for name, array in arrays.items():
        record[name] = int(array.data.ptr) if array.size else 0  # type: ignore[attr-defined]  # CuPy's memory
    for name, number in numbers.items():
        record[name] = number
    every = launch.model_of(tables if tables.start is None else tables._replace(orbitals=tables.start), state)
    N, M, L, F = sizes["electrons"], sizes["orbitals"], int(every["orbitals"][0]), sizes["filled"]
    each = (
        2 * N * (M + L)
        + sizes["numbers"]
        + sizes["strings"]
        + F * M
        + F * F
        + 5 * (sizes["basis"] + max(M, L))
    )
    walkers, groups = state.R.shape[0], WARP // launch.lanes
    part = max(groups, SPACE_BYTES // (8 * each) // groups * groups)
    space = xp.empty(min(part, -(-walkers // groups) * groups) * each)
    kernel = kernels.function(PACKAGE, "tangent", "tangent", {**launch.macros, "WARPS": 1})
    count = slopes[0].shape[1]
    for begin in range(0, walkers, part):
        some = min(part, walkers - begin)
        arguments = (
            as_argument(launch.model),
            as_argument(every),
            as_argument(launch.state),
            as_argument(record),
            np.int64(begin),
            space,
            np.int64(each),
            np.int32(count),
            *slopes,
        )
        kernel((-(-some // groups),), (WARP,), arguments)
