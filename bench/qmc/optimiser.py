"""Optimisation of Jastrow parameters: derivatives and moments of a sample, whole iterations; on a GPU also through its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, wall
from bench.qmc import crystals, problem
from qsim.core.device.device import Device, cpu
from qsim.core.device.hardware import available_threads
from qsim.core.run.progress import Monitor
from qsim.qmc.deck.series import Optimize
from qsim.qmc.kernels.common.tables import Stream, Tables
from qsim.qmc.kernels.common.types import State
from qsim.qmc.kernels.walkers.derivatives import ParameterTables, derivatives
from qsim.qmc.sampling import optimise
from qsim.qmc.sampling.linear_method import Moments
from qsim.qmc.sampling.optimise import Optimisation
from qsim.qmc.sampling.parameters import Varied
from qsim.qmc.sampling.series import sample
from qsim.qmc.sampling.walkers import Walkers

COUNTS = {
    "cpu": {"He": 1024, "H2O": 256, "diamond 2": 64, "diamond 16": 8},
    "cuda": {"He": 65536, "H2O": 8192, "diamond 2": 8192, "diamond 16": 2048},
}
WINDOW = 1e3  # hartree: nothing is cut off
FACTOR = 10.0  # goal: how many times as fast as through the host


Take = Callable[..., tuple[Any, Any]]


def through_host(walkers: Walkers) -> Take:
    """Take derivatives of walkers on a GPU with the threads of its host: what they took before there was a kernel."""
    orbitals = walkers.wavefunction.orbital_tables(walkers.real)  # the GPU's leave out what CPUs alone need

    def take(
        device: Device, state: State, tables: Tables, places: ParameterTables, count: int, stream: Stream
    ) -> tuple[Any, Any]:
        host, jastrow, hamiltonian, copied = (
            _on_host(device, part) for part in (state, tables.jastrow, tables.hamiltonian, places)
        )
        here = Tables(orbitals, jastrow, hamiltonian, tables.ion_ion, tables.n_up)
        slopes = derivatives(cpu(available_threads()), host, here, copied, count, stream)
        state.energy[...] = device.asarray(host.energy)
        return device.asarray(slopes[0]), device.asarray(slopes[1])

    return take


def _on_host(device: Device, tables: Any) -> Any:
    return type(tables)(*(np.array(device.to_host(x)) if hasattr(x, "shape") else x for x in tables))


def _moments(walkers: Walkers, take: Take) -> Callable[[], object]:
    """Return what one sample of an optimisation adds."""
    psi, device = walkers.wavefunction, walkers.device
    places = Varied(psi).tables(device)
    count = psi.parameters.size

    def work() -> None:
        stream = walkers.stream(problem.SECTION)
        slopes = take(device, walkers.state, walkers.tables, places, count, stream)
        moments = Moments(count, 0.0, WINDOW)
        moments.add(walkers.state.energy[:, 5], *slopes)
        moments.surroundings()

    return work


def _iterations(walkers: Walkers, tau: float, take: Take) -> Callable[[], object]:
    """Return a short optimisation: two samples with a step between them, and the sample of the chosen parameters."""
    block = Optimize(iterations=1, steps=10, sweeps=4, warmup=0, timestep=tau)
    start = walkers.wavefunction

    def work() -> None:
        optimise.derivatives = take
        try:
            walkers.set_wavefunction(start)
            walkers.recompute()
            sample(Optimisation(walkers, block, problem.SECTION), Monitor.silent())
        finally:
            optimise.derivatives = derivatives

    return work


@case("qmc-optimiser", "derivatives and moments of a sample, iterations of an optimisation: He, H2O, diamond")
def optimiser(bench: Bench) -> None:
    """On a GPU each is measured through the host as well, with all of its threads."""
    for name, many in COUNTS[bench.device.kind].items():
        crystal = name in crystals.FILES
        count = 64 if bench.quick and not crystal else many
        tau = crystals.MOVES if crystal else problem.TAU[name]
        psi = crystals.of_deck(name) if crystal else problem.of_deck(name)
        walkers = problem.ensemble(bench.device, psi, count, tau)
        works: dict[str, Callable[[Take], Callable[[], object]]] = {
            "derivatives and moments": lambda take, w=walkers: _moments(w, take),
            "iteration, 3 samples of 10 sets": lambda take, w=walkers, t=tau: _iterations(w, t, take),
        }
        for kind, work in works.items():
            ours = wall(bench.device, work(derivatives), budget=1.0)
            label = f"{name} {count} walkers: {kind}"
            bench.row(label, ours, kind=kind, system=name, walkers=count)
            if not bench.device.is_cuda:
                continue
            host: Timing = wall(bench.device, work(through_host(walkers)), budget=1.0)
            threads = available_threads()
            ratio = host.seconds / ours.seconds
            more = f"{label}, baseline: derivatives on {threads} threads of the host"
            bench.row(more, host, kind=kind, system=name, walkers=count, threads=threads, ratio=ratio)
            if kind == "derivatives and moments":
                bench.goal(f"{name}: {kind}: host / GPU", ratio, FACTOR, "times", at_least=True)
