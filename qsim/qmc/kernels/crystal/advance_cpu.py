"""The kernel of walkers in crystals on the CPU: all jobs of ``walk.py`` and ``derivatives.py``."""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.jit import held
from qsim.qmc.kernels.common.jit import JIT
from qsim.qmc.kernels.crystal.derivatives_cpu import walker_derivatives
from qsim.qmc.kernels.crystal.walk_cpu import local_energy, nonlocal_moves, renew, sweep
from qsim.qmc.kernels.walkers.derivatives_cpu import collect
from qsim.qmc.kernels.walkers.energy_cpu import TOTAL, add_generation, clipped
from qsim.qmc.kernels.walkers.jobs import DERIVATIVES, DIFFUSE, GENERATIONS, RECOMPUTE, WALK

__all__ = ["advance"]


@nb.njit(**JIT)
def advance(
    first, last, job, state, orbitals, jastrow, hamiltonian, ion_ion, n_up, tau, mode, sweeps, count, tmoves,
    reference, trial, window, tau_ratio, k0, k1, stream, step, offset, sums, parameters, work,
    basis, pseudopotentials, windows,
):  # fmt: skip
    """Do a job for walkers ``first ... last``, one kernel for all of them, as the one of `advance_cpu`.

    What the system does not need is not compiled: ``basis`` is as in `bloch_sums`, and ``pseudopotentials`` and ``windows``
    (inverses large enough for delayed updates) are 1, or None if there are none.
    """
    state, orbitals, jastrow = held(state), held(orbitals), held(jastrow)
    hamiltonian, work, parameters = held(hamiltonian), held(work), held(parameters)
    mass = hamiltonian.mass
    for w in range(first, last):
        if job == RECOMPUTE:
            sums[w, 0] = renew(state, w, basis, orbitals, jastrow, n_up, work)
            continue
        for g in range(count):
            at = step + g * sweeps
            before = clipped(state.energy[w, TOTAL], reference, window)
            for k in range(sweeps):
                sweep(
                    state, w, basis, orbitals, jastrow, n_up, mass, tau, mode, k0, k1, stream, at + k, offset + w,
                    work, windows,
                )  # fmt: skip
            if job == WALK:
                continue
            local_energy(
                state, w, basis, orbitals, jastrow, hamiltonian, ion_ion, n_up, k0, k1, stream, at, offset + w, work,
                pseudopotentials,
            )  # fmt: skip
            if job == DERIVATIVES:
                walker_derivatives(
                    state, w, orbitals, jastrow, n_up, mass, parameters, work, pseudopotentials
                )
                collect(w, parameters)
            elif job == GENERATIONS:
                add_generation(state, w, sums)
            elif job == DIFFUSE:
                after = clipped(state.energy[w, TOTAL], reference, window)
                state.weight[w] *= math.exp(-tau * tau_ratio * (0.5 * (before + after) - trial))
                if pseudopotentials is not None and tmoves:
                    nonlocal_moves(
                        state, w, basis, orbitals, jastrow, hamiltonian, n_up, tau * tau_ratio,
                        k0, k1, stream, step, offset + w, work,
                    )  # fmt: skip
