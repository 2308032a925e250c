"""Derivatives with respect to Jastrow parameters in crystals: public wrapper of ``crystal_derivatives.cu``, and its CPU twin.

It is called by `derivatives.derivatives`, which says what the arguments are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.pool import each_part
from qsim.qmc.kernels import crystal_derivatives_cpu
from qsim.qmc.kernels.crystal_walk import _Launch, crystal_space
from qsim.qmc.kernels.launches import slopes
from qsim.qmc.kernels.tables import counters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.derivatives_cpu import ParameterTables
    from qsim.qmc.kernels.tables import Stream, Tables
    from qsim.qmc.kernels.types import State

__all__ = ["derivatives"]


def derivatives(
    device: Device, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[Any, Any]:
    """Set ``state.energy`` and return the derivatives (W, P) of log psi and of the local energies."""
    if device.is_cuda:
        return slopes(_Launch(state, tables), "crystal_derivatives", device, parameters, count, stream)
    return _derivatives_cpu(device.threads, state, tables, parameters, count, stream)


def _derivatives_cpu(
    threads: int, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    walkers, at = state.R.shape[0], counters(stream)
    log_slopes, energy_slopes = np.zeros((walkers, count)), np.zeros((walkers, count))
    psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, tables.ion_ion, tables.n_up)

    def part(a: int, b: int) -> None:
        sums = np.zeros((2, parameters.place.size))
        out = (log_slopes, energy_slopes, *sums)
        work = crystal_space(state, tables)
        crystal_derivatives_cpu.crystal_derivatives(a, b, state, *psi, *at, *parameters, *out, work)

    each_part(part, walkers, walkers, threads, 2)
    return log_slopes, energy_slopes
