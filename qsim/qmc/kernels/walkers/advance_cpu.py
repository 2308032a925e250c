"""The kernel of walkers in open boundaries on the CPU: all jobs of ``walk.py`` and ``derivatives.py``."""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.jit import held, variant
from qsim.core.device.team import ranges, share
from qsim.qmc.kernels.common.jastrow_cpu import place_ions
from qsim.qmc.kernels.common.jit import JIT, PART
from qsim.qmc.kernels.common.types import Work
from qsim.qmc.kernels.walkers.derivatives_cpu import collect, derivatives, nonlocal_derivatives
from qsim.qmc.kernels.walkers.energy_cpu import (
    TOTAL,
    add_generation,
    clipped,
    local_energy,
    nonlocal_energy,
    nonlocal_moves,
)
from qsim.qmc.kernels.walkers.jobs import DERIVATIVES, DIFFUSE, GENERATIONS, RECOMPUTE, WALK
from qsim.qmc.kernels.walkers.walk_cpu import refresh, sweep

__all__ = ["ADVANCE"]


@nb.njit(**PART)
def _own_space(spaces, worker, workers):
    """Return the work space of one of several threads, see `work_spaces`."""
    return Work(
        spaces.rows[worker * (spaces.rows.shape[0] // workers)],
        spaces.column[worker * (spaces.column.shape[0] // workers)],
        spaces.combined[worker * (spaces.combined.shape[0] // workers)],
        spaces.G[worker * (spaces.G.shape[0] // workers)],
        spaces.draws[worker * (spaces.draws.shape[0] // workers)],
        spaces.here[worker * (spaces.here.shape[0] // workers)],
        spaces.radial[worker * (spaces.radial.shape[0] // workers)],
        spaces.Q[worker * (spaces.Q.shape[0] // workers)],
        spaces.factors[worker * (spaces.factors.shape[0] // workers)],
        spaces.J[worker * (spaces.J.shape[0] // workers)],
        spaces.places[worker * (spaces.places.shape[0] // workers)],
        spaces.curves[worker * (spaces.curves.shape[0] // workers)],
        spaces.begins[worker * (spaces.begins.shape[0] // workers)],
        spaces.charges[worker * (spaces.charges.shape[0] // workers)],
        spaces.distances[worker * (spaces.distances.shape[0] // workers)],
        spaces.numbers[worker * (spaces.numbers.shape[0] // workers)],
        spaces.targets[worker * (spaces.targets.shape[0] // workers)],
        spaces.counts[worker * (spaces.counts.shape[0] // workers)],
        spaces.matrix[worker * (spaces.matrix.shape[0] // workers)],
        spaces.fresh[worker * (spaces.fresh.shape[0] // workers)],
        spaces.identity[worker * (spaces.identity.shape[0] // workers)],
    )


def _kernel(pseudopotentials):
    """Return the kernel with or without what pseudopotentials need: the compiler leaves out what the constant excludes."""

    @variant("with_pseudopotentials" if pseudopotentials else "plain", **PART)
    def advance(
        first, last, worker, job, state, orbitals, jastrow, hamiltonian, ion_ion, n_up, tau, mode, sweeps, count, tmoves,
        reference, trial, window, tau_ratio, k0, k1, stream, step, offset, sums, parameters, workers, spaces,
    ):  # fmt: skip
        """Do a job for walkers ``first ... last``: one kernel for all, since each would compile the same parts again.

        ``RECOMPUTE``: rows, inverses and log psi; ``sums[w, 0]`` is the largest change of an inverse relative to its size.
        ``WALK``: ``sweeps`` generations, numbered from ``step``.  ``ENERGIES``: local energies.
        ``GENERATIONS``: ``count`` times ``sweeps`` moves of all electrons and the local energy; ``sums`` (W, 8) collects its
        components, the square of the total, and the number of generations.  ``DIFFUSE``: one generation of diffusion Monte
        Carlo, moves, local energy, weight, T-moves; weights are multiplied by ``exp(-tau_eff ((E + E') / 2 - E_T))`` with
        energies clipped to ``window`` around ``reference``.  ``DERIVATIVES``: local energies, and what they and log psi change
        by with each parameter.
        """
        state, orbitals, jastrow = held(state), held(orbitals), held(jastrow)
        hamiltonian, parameters = held(hamiltonian), held(parameters)
        work = held(_own_space(spaces, worker, workers))
        mass = hamiltonian.mass
        place_ions(jastrow, hamiltonian, orbitals.atom, n_up, work)
        for w in range(first, last):
            if job == RECOMPUTE:
                sums[w, 0] = refresh(state, w, orbitals, jastrow, n_up, work)
                continue
            for g in range(count):
                at = step + g * sweeps
                before = clipped(state.energy[w, TOTAL], reference, window)
                for k in range(sweeps):
                    sweep(
                        state, w, orbitals, jastrow, n_up, mass, tau, mode, k0, k1, stream, at + k, offset + w, work
                    )  # fmt: skip
                if job == WALK:
                    continue
                local_energy(state, w, orbitals, jastrow, hamiltonian, ion_ion, n_up, work)
                if pseudopotentials:
                    nonlocal_energy(
                        state, w, orbitals, jastrow, hamiltonian, ion_ion, n_up, k0, k1, stream, at, offset + w, work
                    )  # fmt: skip
                if job == DERIVATIVES:
                    derivatives(state, w, orbitals, jastrow, n_up, mass, parameters, work)
                    if pseudopotentials:
                        first_number, slopes = parameters.first, parameters.slopes
                        nonlocal_derivatives(state.R[w], orbitals, jastrow, first_number, n_up, slopes, work)
                    collect(w, parameters)
                elif job == GENERATIONS:
                    add_generation(state, w, sums)
                elif job == DIFFUSE:
                    after = clipped(state.energy[w, TOTAL], reference, window)
                    state.weight[w] *= math.exp(-tau * tau_ratio * (0.5 * (before + after) - trial))
                    if pseudopotentials:
                        points = 0
                        if tmoves:
                            for e in range(work.counts.shape[0]):
                                points += work.counts[e]
                        if points > 0:  # a call costs more than it takes to see that there is nothing to do
                            nonlocal_moves(
                                state, w, orbitals, jastrow, hamiltonian, n_up, tau * tau_ratio,
                                k0, k1, stream, step, offset + w, work,
                            )  # fmt: skip

    return advance


_plain, _with_pseudopotentials = _kernel(False), _kernel(True)


@nb.njit(**JIT)
def _plain_shared(ticket, *arguments):
    return share(ticket, ranges(_plain, arguments))


@nb.njit(**JIT)
def _with_pseudopotentials_shared(ticket, *arguments):
    return share(ticket, ranges(_with_pseudopotentials, arguments))


#: Without and with pseudopotentials; a run compiles the one that it needs.
ADVANCE = (_plain_shared, _with_pseudopotentials_shared)
