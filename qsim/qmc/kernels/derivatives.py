"""Derivatives of log psi and of local energies with respect to Jastrow parameters: wrapper of ``derivatives.cu``, CPU twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.qmc.kernels import crystal_derivatives_cpu
from qsim.qmc.kernels.advance_cpu import DERIVATIVES
from qsim.qmc.kernels.crystal_types import CrystalOrbitals
from qsim.qmc.kernels.derivatives_cpu import Derivatives, ParameterTables
from qsim.qmc.kernels.launches import SHARED_BYTES, WARP
from qsim.qmc.kernels.tables import SUMS, Tables, counters
from qsim.qmc.kernels.types import State
from qsim.qmc.kernels.walk import Job, Launch, _space, job_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.tables import Stream

__all__ = ["ParameterTables", "derivatives"]


def derivatives(
    device: Device, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[Any, Any]:
    """Set ``state.energy`` to the local energies and return what they and log psi change by with each parameter.

    Walkers of a crystal on a GPU are copied to the host and back: crystals have no kernel of derivatives there.

    Parameters
    ----------
    parameters
        Which parameter moves which number of the Jastrow tables, on the device.
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
    if not device.is_cuda:
        return _derivatives_cpu(device.threads, state, tables, parameters, count, stream)
    if not isinstance(tables.orbitals, CrystalOrbitals):
        return _launch(device, state, tables, parameters, count, stream)
    host = _on_host(device, state)
    orbitals, jastrow, hamiltonian = (
        _on_host(device, part) for part in (tables.orbitals, tables.jastrow, tables.hamiltonian)
    )
    copied = Tables(orbitals, jastrow, hamiltonian, tables.ion_ion, tables.n_up)
    places = _on_host(device, parameters)
    log_slopes, energy_slopes = _derivatives_cpu(device.threads, host, copied, places, count, stream)
    state.energy[...] = device.asarray(host.energy)
    return device.asarray(log_slopes), device.asarray(energy_slopes)


def _launch(
    device: Device, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[Any, Any]:
    """Launch the kernel of local energies and that of derivatives, which reads what it left in scratch memory."""
    xp, launch = device.xp, Launch(state, tables)
    launch("energies", (), stream, (np.uint64(0),))
    walkers, numbers = launch.walkers, int(parameters.place.size)
    each = WARP // launch.lanes
    blocks = -(-walkers // each)
    shared, space = 8 * 4 * launch.sizes["electrons"] * each, np.uint64(0)
    if shared + 8 * 2 * numbers * WARP <= SHARED_BYTES:
        shared += 8 * 2 * numbers * WARP
    else:
        space = xp.empty(2 * numbers * WARP * blocks)
    log_slopes, energy_slopes = xp.empty((walkers, count)), xp.empty((walkers, count))
    macros = {**launch.macros, "WARPS": 1}
    kernel = kernels.function("qmc/kernels", "derivatives", "derivatives", macros, shared_bytes=shared)
    sizes = (np.int32(numbers), np.int32(count))
    arguments = (*parameters, *sizes, space, log_slopes, energy_slopes)
    kernel((blocks,), (WARP,), (launch.model, launch.state, *arguments), shared_mem=shared)
    return log_slopes, energy_slopes


def _on_host(device: Device, tables: Any) -> Any:
    return type(tables)(*(np.array(device.to_host(x)) if hasattr(x, "shape") else x for x in tables))


def _derivatives_cpu(
    threads: int, state: State, tables: Tables, parameters: ParameterTables, count: int, stream: Stream
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    walkers, at = state.R.shape[0], counters(stream)
    log_slopes, energy_slopes = np.zeros((walkers, count)), np.zeros((walkers, count))
    if isinstance(tables.orbitals, CrystalOrbitals):
        psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, tables.ion_ion, tables.n_up)

        def part(a: int, b: int) -> None:
            values, slopes = np.zeros((2, parameters.place.size))
            out = (log_slopes, energy_slopes, values, slopes)
            work = _space(state, tables)
            crystal_derivatives_cpu.crystal_derivatives(a, b, state, *psi, *at, *parameters, *out, work)
    else:
        do = job_of(state, tables, Job(DERIVATIVES), stream, np.zeros((1, SUMS)))

        def part(a: int, b: int) -> None:
            values, slopes = np.zeros((2, parameters.place.size))
            mine = Derivatives(*parameters, log_slopes, energy_slopes, values, slopes)
            do(a, b, mine, _space(state, tables))

    each_part(part, walkers, walkers, threads, 2)
    return log_slopes, energy_slopes
