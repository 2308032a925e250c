"""Share of time of each class of work in a generation of diffusion Monte Carlo, as in the paper's Fig. 4.

A kernel carries a walker through all of a generation, so nothing can be timed inside it.  A class is what a generation takes less
when that class is switched off in the tables, or what its own kernel takes alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numba as nb
import numpy as np

from bench.harness import Bench, Timing, case
from bench.qmc import problem
from qsim.core.device import rng
from qsim.qmc.kernels.common.jit import JIT
from qsim.qmc.kernels.molecule.orbitals_cpu import orbital_rows
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.system import space_of_one
from qsim.qmc.kernels.walkers.walk_cpu import FIXED_NODE
from qsim.qmc.sampling.branching import Population
from qsim.qmc.sampling.walkers import Walkers

COUNTS = {"cpu": 256, "cuda": 8192}
REPEATS = 10  # generations of a piece of work
ROUNDS = 15
EVERY = 5  # generations between branchings, as the driver
BLOCK = 20  # generations between recomputations
DRIVEN = 3 * BLOCK  # generations by the driver, whose first energies then hardly count


@case("qmc-shares", "share of time per class of kernels in DMC (Fig. 4), He and H2O")
def shares(bench: Bench) -> None:
    """A row for each class with seconds a generation of all walkers and its share."""
    for name in ("He", "H2O"):
        _system(bench, name)


def _system(bench: Bench, name: str) -> None:
    count = 64 if bench.quick else COUNTS[bench.device.kind]
    works = _works(bench, name, count)
    rounds = 3 if bench.quick else ROUNDS
    with np.errstate(all="ignore"):
        found = problem.alternate(bench.device, works, rounds)
    times = {kind: problem.undisturbed(bench.device, timing) / REPEATS for kind, timing in found.items()}
    whole = times["driver"] = times["driver"] * REPEATS / DRIVEN
    classes = {
        "orbitals and determinants": times["moves"] - times["moves, no orbitals"],
        "Jastrow factor of moves": times["moves"] - times["moves, no Jastrow factor"],
        "local energy without nonlocal part": times["energy, no nonlocal part"],
        "nonlocal part": times["energy"] - times["energy, no nonlocal part"],
        "T-moves": times["generation"] - times["generation, no T-moves"],
        "branching": times["branching"] / EVERY,
        "recomputation": times["recomputation"] / BLOCK,
    }
    classes["random numbers, drift, acceptance"] = (
        times["moves"] - classes["orbitals and determinants"] - classes["Jastrow factor of moves"]
    )
    classes["driver, and what is in no class"] = whole - sum(classes.values())
    if "orbitals" in times:
        both = classes.pop("orbitals and determinants")
        classes = {
            "orbitals": times["orbitals"],
            "determinants: ratios, drift, updates": both - times["orbitals"],
            **classes,
        }
    bench.row(f"{name} {count} walkers: a generation by the driver", found["driver"], generations=DRIVEN)
    for kind, seconds in classes.items():
        label = f"{name}: {kind}"
        timing = Timing(seconds, seconds, rounds, "wall")
        bench.row(label, timing, kind=kind, system=name, walkers=count, share_of_generation=seconds / whole)


def _works(bench: Bench, name: str, count: int) -> dict[str, Callable[[], None]]:
    device, tau = bench.device, problem.DIFFUSION[name]
    psi = problem.of_deck(name)

    def fresh() -> Walkers:
        return problem.ensemble(device, psi, count, problem.TAU[name])

    def moved(walkers: Walkers) -> Callable[[], None]:
        def work() -> None:
            walk.walk(
                device,
                walkers.state,
                walkers.tables,
                tau,
                FIXED_NODE,
                REPEATS,
                walkers.stream(problem.SECTION),
            )
            walkers.generation += REPEATS

        return work

    def energies(walkers: Walkers) -> Callable[[], None]:
        def work() -> None:
            for _ in range(REPEATS):
                walk.energies(device, walkers.state, walkers.tables, walkers.stream(problem.SECTION))

        return work

    def generations(walkers: Walkers, tmoves: bool) -> Callable[[], None]:
        energies(walkers)()
        reference = float(device.xp.mean(walkers.state.energy[:, 5]))

        def work() -> None:
            walkers.state.weight[...] = 1.0
            for _ in range(REPEATS):
                walk.diffuse(
                    device,
                    walkers.state,
                    walkers.tables,
                    tau,
                    walkers.stream(problem.SECTION),
                    tmoves=tmoves,
                    reference=reference,
                    trial=reference,
                    window=10.0,
                    tau_ratio=1.0,
                )
                walkers.generation += 1

        return work

    still = fresh()
    population, numbers = Population(target=count), itertools.count()
    weights = device.asarray(np.random.default_rng(1).normal(1.0, 0.05, count).clip(0.5, 1.5))

    def branching() -> None:
        for _ in range(REPEATS):
            draws = device.asarray(rng.uniform(problem.KEY, 3, next(numbers), population.draws(count)))
            still.select(*population.branch(weights, draws))

    def recomputation() -> None:
        for _ in range(REPEATS):
            still.recompute()

    walkers = fresh()
    works = {
        "driver": problem.diffusion(fresh(), tau, BLOCK, DRIVEN // BLOCK),
        "moves": moved(walkers),
        "moves, no orbitals": moved(_without(fresh(), "orbitals")),
        "moves, no Jastrow factor": moved(_without(fresh(), "jastrow")),
        "energy": energies(fresh()),
        "energy, no nonlocal part": energies(_without(fresh(), "nonlocal")),
        "generation": generations(fresh(), True),
        "generation, no T-moves": generations(fresh(), False),
        "branching": branching,
        "recomputation": recomputation,
    }
    if not device.is_cuda:
        works["orbitals"] = _rows(walkers)
    return works


def _without(walkers: Walkers, what: str) -> Walkers:
    """Switch a class off in the tables of an ensemble."""
    tables = walkers.tables
    if what == "orbitals":  # shells end at once; no move is accepted then, so nothing is updated
        orbitals = tables.orbitals
        tables = tables._replace(orbitals=orbitals._replace(reach=0.0 * orbitals.reach))
    elif what == "jastrow":
        tables = tables._replace(jastrow=tables.jastrow._replace(kind=0 * tables.jastrow.kind))
    else:
        hamiltonian = tables.hamiltonian
        tables = tables._replace(hamiltonian=hamiltonian._replace(channels=0 * hamiltonian.channels))
    walkers.tables = tables
    return walkers


def _rows(walkers: Walkers) -> Callable[[], None]:
    """Return the evaluation of orbitals at as many points as the moves have."""
    N, n_up = walkers.electrons, walkers.tables.n_up
    points = [
        np.ascontiguousarray(walkers.state.R[:, part].reshape(-1, 3))
        for part in (slice(0, n_up), slice(n_up, N))
    ]
    M = -(-walkers.state.rows.shape[3] // 4) * 4  # as in `Work.rows`
    out = [np.zeros((len(part), 5, M)) for part in points]
    work_space = space_of_one(walkers.state, walkers.tables).own

    def work() -> None:
        for _ in range(REPEATS):
            for spin in range(2):
                _rows_of_points(walkers.tables.orbitals, spin, points[spin], out[spin], work_space)

    return work


@nb.njit(**JIT)
def _rows_of_points(orbitals, spin, points, out, work):
    """Rows at many points, (k, 3) to (k, 5, 4 n)."""
    for k in range(points.shape[0]):
        orbital_rows(orbitals, spin, points[k, 0], points[k, 1], points[k, 2], out[k], work)
