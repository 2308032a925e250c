"""Moves and local energies of walkers: wrappers of ``walk.cu`` and of its CPU twin, the kernel of ``advance_cpu``.

A thread (CPU) or some lanes of a warp (GPU) carry a walker through all generations of a call; random numbers are counted by
(walker, generation, electron, purpose), so the result depends neither on threads nor on the device beyond rounding.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.pool import Shared, each_part
from qsim.qmc.kernels.common.tables import (
    MOVE_COST,
    NO_STREAM,
    SUMS,
    WORTH_THREADS,
    Stream,
    Tables,
    address,
    counters,
    device_number,
    in_crystal,
    scratch_address,
)
from qsim.qmc.kernels.common.types import Draw
from qsim.qmc.kernels.crystal.launch import CrystalLaunch
from qsim.qmc.kernels.crystal.types import CrystalOrbitals
from qsim.qmc.kernels.molecule.launch import MoleculeLaunch
from qsim.qmc.kernels.walkers import advance_cpu
from qsim.qmc.kernels.walkers.derivatives_cpu import NO_PARAMETERS, Derivatives
from qsim.qmc.kernels.walkers.jobs import DIFFUSE, ENERGIES, GENERATIONS, RECOMPUTE, SLOPES, WALK, Job
from qsim.qmc.kernels.walkers.system import Spaces, spaces, system_of
from qsim.qmc.kernels.walkers.walk_cpu import FIXED_NODE

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.types import State

__all__ = ["SUMS", "Stream", "Tables", "diffuse", "energies", "generations", "recompute", "slopes", "walk"]

BASIS_COST = 12  # ns of an atomic orbital in an electron's move on one CPU thread, roughly
CHANNEL_COST = 150  # ns of a function of a crystal
KEPT = 8  # launches: a run alternates between few ensembles and trial functions


def recompute(device: Device, state: State, tables: Tables) -> FloatArray:
    """Recompute rows, inverses (in double precision) and log psi of all walkers.

    Returns
    -------
    (W,) float64
        Largest change of an element of an inverse, relative to the largest element.
    """
    error: FloatArray = device.xp.zeros(state.R.shape[0])
    if device.is_cuda:
        launch_of(state, tables).do(Job(RECOMPUTE), NO_STREAM, error)
    else:
        _recompute_cpu(device, state, tables, error)
    return error


def _recompute_cpu(device: Device, state: State, tables: Tables, error: FloatArray) -> None:
    _do(device, state, tables, Job(RECOMPUTE), sums=error[:, None])


def walk(
    device: Device, state: State, tables: Tables, tau: float, mode: int, sweeps: int, stream: Stream
) -> None:
    """Move all electrons ``sweeps`` times; modes: ``walk_cpu.PLAIN``, ``DRIFT``, ``FIXED_NODE``."""
    _do(device, state, tables, Job(WALK, tau, mode, sweeps), stream)


def energies(device: Device, state: State, tables: Tables, stream: Stream) -> None:
    """Set ``state.energy`` to the local energies."""
    _do(device, state, tables, Job(ENERGIES), stream)


def slopes(device: Device, state: State, tables: Tables, stream: Stream) -> FloatArray:
    """Set ``state.energy`` to the local energies; return the squares of the gradients of log psi, (W,), 1/bohr^2; on a CPU."""
    found = np.zeros((state.R.shape[0], 1))
    _do(device, state, tables, Job(SLOPES), stream, found)
    return found[:, 0]


def generations(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    mode: int,
    sweeps: int,
    count: int,
    stream: Stream,
    sums: FloatArray,
) -> None:
    """Do ``count`` generations of variational Monte Carlo, each of ``sweeps`` sweeps and one local energy.

    Parameters
    ----------
    sums : (W, 8) float64, in/out
        Sums of the components of the energy, of the square of the total, and the number of generations.
    """
    _do(device, state, tables, Job(GENERATIONS, tau, mode, sweeps, count), stream, sums)


def diffuse(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    stream: Stream,
    *,
    tmoves: bool,
    reference: float,
    trial: float,
    window: float,
    tau_ratio: float,
) -> None:
    """Do one generation of diffusion Monte Carlo: move, local energy, weight, T-moves.

    Parameters
    ----------
    tau : float
        Time step, 1/hartree.
    tmoves : bool
        Sample the nonlocal potential by T-moves instead of the locality approximation.
    reference, window : float
        Local energies count in weights as clipped to ``reference +- window``, hartree.
    trial : float
        E_T, hartree.
    tau_ratio : float
        Effective over nominal time step.
    """
    job = Job(DIFFUSE, tau, FIXED_NODE, 1, 1, tmoves, reference, trial, window, tau_ratio)
    _do(device, state, tables, job, stream)


def _do(
    device: Device,
    state: State,
    tables: Tables,
    job: Job,
    stream: Stream = NO_STREAM,
    sums: FloatArray | None = None,
) -> None:
    """Do a job for all walkers, on a GPU or on as many threads as make it shorter."""
    if device.is_cuda:
        launch_of(state, tables).do(job, stream, sums)
        return
    orbitals = tables.orbitals
    # A rough time of a move, for the first call alone; later ones go by what they took.
    if isinstance(orbitals, CrystalOrbitals):
        cost = MOVE_COST + CHANNEL_COST * orbitals.channel.shape[1]
    else:
        cost = MOVE_COST + BASIS_COST * orbitals.coefficients.shape[1]
    walkers, electrons = state.R.shape[:2]
    moves = walkers * electrons * max(1, job.sweeps * job.repeats)
    # Kernels take the array whether a job writes to it or not.
    out = np.zeros((1, SUMS)) if sums is None else sums
    space = spaces(device.threads, state, tables)
    # A move takes ten times as long in one job as in another: how many threads are worth waking goes by what a job took.
    alike = ("walk", job.kind, in_crystal(tables), tables.hamiltonian.channels.shape[0] > 0)
    work = job_of(state, tables, job, stream, out, NO_PARAMETERS, space)
    each_part(work, walkers, moves * cost, device.threads, WORTH_THREADS, alike)  # nanoseconds


def job_of(
    state: State,
    tables: Tables,
    job: Job,
    stream: Stream,
    sums: FloatArray,
    parameters: Derivatives,
    space: Spaces,
) -> Shared:
    """Return a job for ranges of walkers on the CPU."""
    system = system_of(state, tables)
    arguments = (job.typed(), state, system, Draw(*counters(stream)), sums, parameters, space)
    return Shared(advance_cpu.shared, arguments)


# --------------------------------------------------------------------------------------------- CUDA


def launch_of(state: State, tables: Tables) -> MoleculeLaunch | CrystalLaunch:
    """Return the launches for some walkers and a trial function, made once: that takes longer than a kernel of few walkers."""
    index = device_number(state)
    # Most often the same arrays as in the last call; their addresses take longer than a launch.
    if _last and _last[0].fits(state, tables, scratch_address(index)):
        return _last[0].launch
    launch = _launch_by_address(index, state, tables)
    _last[:] = [_Last(tuple(map(weakref.ref, state)), tables, scratch_address(index), launch)]
    return launch


def _launch_by_address(index: int, state: State, tables: Tables) -> MoleculeLaunch | CrystalLaunch:
    """Return the launches for arrays at these addresses, or make them."""
    here = (index, state.R.shape[0], id(tables), *map(address, state))
    known = _kept.get((scratch_address(index), *here))
    if known is not None and known[0] is tables:  # kept, so that its number belongs to nothing else
        return known[1]
    launch = CrystalLaunch(state, tables) if in_crystal(tables) else MoleculeLaunch(state, tables)
    while len(_kept) >= KEPT:
        del _kept[next(iter(_kept))]
    # Under the address that scratch memory has now: the new launches may have made it larger.
    _kept[scratch_address(index), *here] = tables, launch
    return launch


class _Last(NamedTuple):
    """Launches of the last call, and for what they are; arrays are not kept alive."""

    arrays: tuple[weakref.ref[Any], ...]
    tables: Tables
    scratch: int
    launch: MoleculeLaunch | CrystalLaunch

    def fits(self, state: State, tables: Tables, scratch: int) -> bool:
        """Tell whether they are for these arrays, tables and scratch memory."""
        same = tables is self.tables and scratch == self.scratch
        return same and all(known() is array for known, array in zip(self.arrays, state, strict=True))


_last: list[_Last] = []
_kept: dict[tuple[int, ...], tuple[Tables, MoleculeLaunch | CrystalLaunch]] = {}
