"""Derivatives of log psi and of local energies with respect to parameters: ``derivatives.cu`` and ``tangent.cu``, CPU twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.pool import each_part
from qsim.qmc.kernels.common.tables import SUMS
from qsim.qmc.kernels.molecule.launch import MoleculeLaunch
from qsim.qmc.kernels.walkers.derivatives_cpu import Derivatives, ParameterTables
from qsim.qmc.kernels.walkers.jobs import DERIVATIVES, Job
from qsim.qmc.kernels.walkers.system import spaces
from qsim.qmc.kernels.walkers.tangent import add_determinants
from qsim.qmc.kernels.walkers.walk import job_of, launch_of

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.tables import Stream, Tables
    from qsim.qmc.kernels.common.types import State

__all__ = ["ParameterTables", "derivatives"]


def derivatives(
    device: Device, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[FloatArray, FloatArray]:
    """Set ``state.energy`` to the local energies and return what they and log psi change by with each parameter.

    Parameters
    ----------
    parameters
        Which parameter moves which number of the Jastrow tables, which coefficient and which orbital, on the device.
    count
        Number of parameters P.
    stream
        Of the random rotations, as for the local energy alone.

    Returns
    -------
    (W, P) float64
        ``d log psi / dp``, on the device.
    (W, P) float64
        ``d E_L / dp`` in hartree, on the device.
    """
    if device.is_cuda:
        launch = launch_of(state, tables)
        slopes = launch.derivatives(device, parameters, count, stream)
        if parameters.group.size or parameters.mixed.size:
            assert isinstance(launch, MoleculeLaunch)  # crystals have one determinant, of orbitals that stay
            add_determinants(device, state, tables, launch, parameters, slopes)
        return slopes
    return _derivatives_cpu(device.threads, state, tables, parameters, count, stream)


def _derivatives_cpu(
    threads: int, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[FloatArray, FloatArray]:
    walkers = state.R.shape[0]
    log_slopes, energy_slopes = np.zeros((walkers, count)), np.zeros((walkers, count))

    def part(a: int, b: int) -> None:
        # Work space of the range: sums by the numbers of the tables.
        sums = Derivatives(*parameters, log_slopes, energy_slopes, *np.zeros((2, parameters.place.size)))
        space = spaces(1, state, tables)
        job_of(state, tables, Job(DERIVATIVES), stream, np.zeros((1, SUMS)), sums, space)(a, b)

    each_part(part, walkers, walkers, threads, 2)
    return log_slopes, energy_slopes
