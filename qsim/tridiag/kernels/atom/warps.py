"""Steps along z on a GPU with the state in registers, for runs of up to 64 lanes and 32 rows per multiprocessor.

Steps and CPU twins are the same as in `atom/length` and `atom/velocity`;
what differs is where the numbers lie and how blocks exchange them (``warps.cuh``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.tridiag.kernels.atom.launch import WARPS, launch_length, launch_velocity, moves, operations
from qsim.tridiag.kernels.atom.length import _length_steps_cpu
from qsim.tridiag.kernels.atom.velocity import _velocity_steps_cpu

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.tridiag.kernels.atom.cuda_tables import CudaTables

__all__ = ["warp_length_steps", "warp_velocity_steps"]


def _warp_length_steps_cpu(*arguments):
    return _length_steps_cpu(*arguments)


def warp_length_steps(
    s: Array, tables: CudaTables, fields: NDArray[np.float64], dt: float, samples: NDArray[np.int32]
) -> Any:
    """Make steps in length gauge; the state is whole before and after.

    Parameters
    ----------
    s : (members, padded n, 2 K) complex128
        States on the device, worked on in place.
    tables : CudaTables
        With a shape for warps.
    fields : (members, steps) float64
        E of every step, a.u.
    dt : float
        Time step, a.u.
    samples : (steps + 1,) int32
        Place of the sums to be taken after that many steps, -1 for none.

    Returns
    -------
    (members, places, 6) float64
        Sums as of :func:`qsim.tridiag.kernels.atom.launch.launch_length`.
    """
    return launch_length((WARPS, "warp_length_steps"), s, tables, moves(fields, dt, samples), samples)


def _warp_velocity_steps_cpu(*arguments):
    return _velocity_steps_cpu(*arguments)


def warp_velocity_steps(
    s: Array,
    tables: CudaTables,
    kicks: NDArray[np.float64],
    halves: NDArray[np.float64],
    dt: float,
    samples: NDArray[np.int32],
) -> tuple[Any, Any]:
    """Make steps in velocity gauge; the state is whole before and after.

    Parameters
    ----------
    s, tables, dt, samples
        As of `warp_length_steps`.
    kicks, halves : (members, steps + 1) and (members, steps) float64
        A at the ends of the steps and at their midpoints, a.u.

    Returns
    -------
    (members, places, 6) and (members,) float64
        Sums, and the norm that was set to zero near the nucleus.
    """
    made = operations((dt * kicks, dt * halves), samples, masked=tables.mask is not None)
    return launch_velocity((WARPS, "warp_velocity_steps"), s, tables, made)
