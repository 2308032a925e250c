"""Derivatives with respect to Jastrow parameters in crystals: public wrapper of ``derivatives.cu``, and its CPU twin.

It is called by `derivatives.derivatives`, which says what the arguments are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.pool import each_part
from qsim.qmc.kernels.common.tables import SUMS
from qsim.qmc.kernels.crystal.walk import _Launch, do
from qsim.qmc.kernels.walkers.derivatives_cpu import Derivatives
from qsim.qmc.kernels.walkers.jobs import DERIVATIVES, Job
from qsim.qmc.kernels.walkers.launches import slopes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.tables import Stream, Tables
    from qsim.qmc.kernels.common.types import State
    from qsim.qmc.kernels.walkers.derivatives_cpu import ParameterTables

__all__ = ["derivatives"]


def derivatives(
    device: Device, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[Any, Any]:
    """Set ``state.energy`` and return the derivatives (W, P) of log psi and of the local energies."""
    if device.is_cuda:
        return slopes(_Launch(state, tables), device, parameters, count, stream)
    return _derivatives_cpu(device.threads, state, tables, parameters, count, stream)


def _derivatives_cpu(
    threads: int, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    walkers = state.R.shape[0]
    log_slopes, energy_slopes = np.zeros((walkers, count)), np.zeros((walkers, count))

    def part(a: int, b: int) -> None:
        sums = Derivatives(*parameters, log_slopes, energy_slopes, *np.zeros((2, parameters.place.size)))
        do(a, b, state, tables, Job(DERIVATIVES), stream, np.zeros((1, SUMS)), sums)

    each_part(part, walkers, walkers, threads, 2)
    return log_slopes, energy_slopes
