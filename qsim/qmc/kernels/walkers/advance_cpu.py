"""The kernel of walkers on the CPU: all jobs of ``walk.py`` and ``derivatives.py``, for molecules and for crystals."""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.jit import held
from qsim.core.device.team import ranges, share
from qsim.qmc.kernels.common.jit import JIT, PART
from qsim.qmc.kernels.common.types import Draw
from qsim.qmc.kernels.walkers.derivatives_cpu import collect, derivatives, set_velocities
from qsim.qmc.kernels.walkers.energy_cpu import (
    TOTAL,
    add_generation,
    clipped,
    local_energy,
    nonlocal_moves,
)
from qsim.qmc.kernels.walkers.evaluators_cpu import own_arrays, own_space, place_ions
from qsim.qmc.kernels.walkers.jobs import DERIVATIVES, DIFFUSE, GENERATIONS, RECOMPUTE, SLOPES, WALK
from qsim.qmc.kernels.walkers.system import System
from qsim.qmc.kernels.walkers.tangent_cpu import add_determinants
from qsim.qmc.kernels.walkers.walk_cpu import refresh, sweep

__all__ = ["advance", "shared"]


@nb.njit(**PART)
def advance(first, last, worker, job, state, tables, draw, sums, parameters, spaces):
    """Do a job for walkers ``first ... last``: one kernel for all, since each would compile the same parts again.

    ``RECOMPUTE``: rows, inverses and log psi; ``sums[w, 0]`` is the largest change of an inverse relative to its size.
    ``WALK``: ``sweeps`` generations, numbered from ``step``.  ``ENERGIES``: local energies.
    ``GENERATIONS``: ``repeats`` times ``sweeps`` moves of all electrons and the local energy; ``sums`` (W, 8) collects its
    components, the square of the total, and the number of generations.  ``DIFFUSE``: one generation of diffusion Monte
    Carlo, moves, local energy, weight, T-moves; weights are multiplied by ``exp(-tau_eff ((E + E') / 2 - E_T))`` with
    energies clipped to ``window`` around ``reference``.  ``DERIVATIVES``: local energies, and what they and log psi change
    by with each parameter.  ``SLOPES``: local energies; ``sums[w, 0]`` is the square of the gradient of log psi.

    Parameters
    ----------
    worker
        Number of the thread, which has work space of its own.
    job
        A `Job`.
    tables
        A `System`; its type decides what is compiled.
    draw
        The counter of the first walker of the ensemble.
    parameters
        `Derivatives` of this thread, which only ``DERIVATIVES`` reads.
    """
    # Tables are held by address in this frame: a call of an inner function then passes one pointer, not ten numbers an array.
    state, parameters = held(state), held(parameters)
    system = held(
        System(
            held(tables.orbitals),
            held(tables.jastrow),
            held(tables.hamiltonian),
            tables.ion_ion,
            tables.n_up,
            tables.is_complex,
            tables.basis,
            tables.pseudopotentials,
            tables.windows,
            held(tables.expansion),
            held(tables.start),
        )
    )
    own = held(own_arrays(spaces.arrays.own, worker, spaces.workers))
    work = held(own_space(spaces, worker, own))
    pseudopotentials, windows = tables.pseudopotentials, tables.windows
    tau, sweeps, repeats = job.tau, job.sweeps, job.repeats
    place_ions(system, work)
    # A thread carries each walker through all generations of the call, so that its arrays stay in the cache.
    for w in range(first, last):
        walker = draw.walker + w
        if job.kind == RECOMPUTE:
            sums[w, 0] = refresh(state, w, system, work)
            continue
        for g in range(repeats):
            step = draw.step + g * sweeps
            here = Draw(draw.k0, draw.k1, draw.stream, step, walker)
            before = clipped(state.energy[w, TOTAL], job.reference, job.window)
            for k in range(sweeps):
                there = Draw(draw.k0, draw.k1, draw.stream, step + k, walker)
                sweep(state, w, system, windows, tau, job.mode, there, work)
            if job.kind == WALK:
                continue
            local_energy(state, w, system, pseudopotentials, here, work)
            if job.kind == DERIVATIVES:
                add_determinants(system, state, w, pseudopotentials, parameters, work)
                derivatives(state, w, system, pseudopotentials, parameters, work)
                collect(w, parameters)
            elif job.kind == SLOPES:
                set_velocities(state, w, system, work)
                sums[w, 0] = 0.0
                for e in range(work.J.shape[0]):
                    sums[w, 0] += work.J[e, 0] ** 2 + work.J[e, 1] ** 2 + work.J[e, 2] ** 2
            elif job.kind == GENERATIONS:
                add_generation(state, w, sums)
            elif job.kind == DIFFUSE:
                after = clipped(state.energy[w, TOTAL], job.reference, job.window)
                effective = tau * job.tau_ratio
                state.weight[w] *= math.exp(-effective * (0.5 * (before + after) - job.trial))
                if job.tmoves:
                    nonlocal_moves(state, w, system, pseudopotentials, effective, here, work)


@nb.njit(**JIT)
def shared(ticket, *arguments):
    """Do ranges of a job on the threads of a team."""
    return share(ticket, ranges(advance, arguments))
