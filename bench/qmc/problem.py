"""What the cases of ``qmc`` share: trial functions, ensembles at rest, the drivers as pieces of work, operations, bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bench.harness import Bench, Cost, Timing
from qsim.core.device.device import Device
from qsim.core.device.rng import key_from_seed
from qsim.core.run.progress import Monitor
from qsim.qmc.deck import wavefunction as blocks
from qsim.qmc.deck.series import Dmc, Vmc
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import DRIFT
from qsim.qmc.sampling.dmc import DmcSampling
from qsim.qmc.sampling.series import sample
from qsim.qmc.sampling.vmc import VmcSampling
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.slater_jastrow import Wavefunction
from qsim.qmc.wavefunction.trial import build_wavefunction

DECKS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"
KEY = key_from_seed(11)
SECTION = 1  # stream of the random numbers
STEPS = 10  # generations of a block, as of the other code
THERMAL = 60  # sweeps after which walkers have forgotten where they were placed
TAU = {"He": 0.3, "Be": 0.05, "H2O": 0.3}  # of variational moves
DIFFUSION = {"He": 0.01, "Be": 0.005, "H2O": 0.02}
FILES = {"He": "he_atom.yaml", "Be": "be_atom.yaml", "H2O": "h2o_ccecp.yaml"}
REAL = {False: "double", True: "mixed"}

# Operations of the pieces, counted in the formulas (multiply-add = 2; square root, division, exponential = 1 each)
SHELL = {0: 10, 1: 21, 2: 41}  # per orbital, with gradient and Laplacian; beyond: 10 for each atomic orbital
RADIAL, RADIAL_VALUE = 40, 12  # a quintic with two derivatives, and alone
ATOM = 16  # distance to an atom, place on its grid
PAIR, PAIR_VALUE = 45, 30  # a pair of the Jastrow factor with derivatives, and alone
DRAW = 100  # random numbers, drift and acceptance of a move
POINT = 40  # a point of a spherical rule


@cache
def of_deck(name: str) -> Wavefunction:
    """Return the trial function at the start of the deck of He, Be or H2O."""
    deck = yaml.safe_load((DECKS / FILES[name]).read_text(encoding="utf-8"))
    return build_wavefunction(
        blocks.System.model_validate(deck["system"]),
        blocks.Wavefunction.model_validate(deck["wavefunction"]),
        folder=DECKS,
    )


def ensemble(
    device: Device, wavefunction: Wavefunction, count: int, tau: float, *, single: bool = False
) -> Walkers:
    """Return walkers at rest in the square of a trial function."""
    walkers = Walkers(device, wavefunction, count, KEY, single=single)
    walkers.place()
    walk.walk(device, walkers.state, walkers.tables, tau, DRIFT, THERMAL, walkers.stream(SECTION))
    walkers.generation += THERMAL
    walkers.recompute()
    return walkers


# -------------------------------------------------------------------------------------- pieces of work


def moves(walkers: Walkers, tau: float, sweeps: int = STEPS) -> Callable[[], None]:
    """Return a block of moves without energies."""

    def work() -> None:
        walk.walk(walkers.device, walkers.state, walkers.tables, tau, DRIFT, sweeps, walkers.stream(SECTION))
        walkers.generation += sweeps
        walkers.recompute()

    return work


def variational(walkers: Walkers, tau: float, steps: int = STEPS) -> Callable[[], object]:
    """Return a block of variational Monte Carlo, a sweep and an energy each generation, by the driver."""
    block = Vmc(timestep=tau, blocks=1, steps=steps, sweeps=1, warmup=0)
    return lambda: sample(VmcSampling(walkers, block, SECTION), Monitor.silent())


def diffusion(walkers: Walkers, tau: float, steps: int = 2 * STEPS, blocks: int = 2) -> Callable[[], object]:
    """Return blocks of diffusion Monte Carlo with T-moves and branching, by the driver."""
    block = Dmc(blocks=blocks, steps=steps, warmup=0.0)
    return lambda: sample(DmcSampling(walkers, block, walkers.count, tau, SECTION), Monitor.silent())


# ----------------------------------------------------------------------------------------------- times


def alternate(
    device: Device, works: Mapping[str, Callable[[], object]], rounds: int = 5
) -> dict[str, Timing]:
    """Time pieces of work in turns after a warm-up of each: who shares the machine then shares it with all of them."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            device.synchronize()
            busy, start = time.process_time(), time.perf_counter()
            work()
            device.synchronize()
            if number:
                times[name].append((time.perf_counter() - start, time.process_time() - busy))
    found = {}
    for name, pairs in times.items():
        walls, busies = zip(*pairs, strict=True)
        found[name] = Timing(
            statistics.median(walls), min(walls), len(walls), "wall", statistics.median(busies)
        )
    return found


def ratios(timing: Timing, ours: Timing, scale: float = 1.0) -> dict[str, float]:
    """Return how many times as long as we it takes for equal work: median, shortest, processor time."""
    busy, our_busy = timing.cpu_seconds or timing.seconds, ours.cpu_seconds or ours.seconds
    return {
        "ratio": scale * timing.seconds / ours.seconds,
        "ratio_best": scale * timing.best / ours.best,
        "ratio_cpu": scale * busy / our_busy,  # what is left of it when others have the core
    }


def undisturbed(device: Device, timing: Timing) -> float:
    """Return seconds without those in which others had the core: of the shortest repeat, or of the processor if it was less."""
    if device.is_cuda or device.threads > 1 or timing.cpu_seconds is None:
        return timing.best
    return min(timing.best, timing.cpu_seconds)


# ----------------------------------------------------------------------------------------------- costs


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of a walker, means over an ensemble.

    Attributes
    ----------
    sweep : float
        Move all electrons once.
    energy : float
        Local energy without the nonlocal part.
    points : float
        Points of the nonlocal part.
    nonlocal_ : float
        All of them.
    """

    sweep: float
    energy: float
    points: float
    nonlocal_: float

    @property
    def generation(self) -> float:
        """A sweep and a local energy."""
        return self.sweep + self.energy + self.nonlocal_


def operations(walkers: Walkers) -> Operations:
    """Count the operations of an ensemble; electrons near ions are counted where they are."""
    psi, tables = walkers.wavefunction, walkers.tables
    orbitals, hamiltonian = psi.orbital_tables(), psi.hamiltonian_tables()
    N, A, B = walkers.electrons, orbitals.atom.shape[0], orbitals.coefficients.shape[1]
    spins = (tables.n_up, N - tables.n_up)
    M = sum(n * n for n in spins) / N  # orbitals that an electron sees
    squares = sum(n**3 for n in spins) / N
    shells = orbitals.shell_l
    rows = RADIAL * shells.size + ATOM * A
    rows += M * sum(SHELL.get(int(a), 10 * (2 * int(a) + 1)) for a in shells)
    pairs = N - 1 + A
    move = rows + 2 * PAIR * pairs + 16 * M + 4 * squares + DRAW
    energy = (PAIR + 2) * (N * (N - 1) / 2 + N * A) + 20 * N * A + N * (8 * M + 20)
    near = electrons = 0.0  # pairs of an electron and an ion in whose range it is; such electrons
    R = walkers.device.to_host(walkers.state.R[:512])
    inside = np.zeros(R.shape[:2], bool)
    for a in range(A):
        p = int(hamiltonian.potential[a])
        if p >= 0 and hamiltonian.channels[p] > 0:
            close = np.linalg.norm(R - orbitals.atom[a], axis=-1) < hamiltonian.cutoff[p]
            near += float(close.sum(1).mean())
            inside |= close
    electrons = float(inside.sum(1).mean())
    points = near * hamiltonian.points.shape[0]
    point = RADIAL_VALUE * shells.size + ATOM * A + 4 * B + PAIR_VALUE * pairs + POINT
    return Operations(N * move, energy, points, points * point + electrons * 2 * B * M)


def state_bytes(walkers: Walkers) -> float:
    """Bytes of a walker that are read and written when a kernel carries it: positions, rows, inverses, energies."""
    state = walkers.state
    arrays = (state.R, state.rows, state.inverse, state.log_psi, state.sign, state.energy, state.moves)
    return 2.0 * sum(array.nbytes for array in arrays) / walkers.count


def cost(walkers: Walkers, flops: float, passes: float) -> Cost:
    """Return operations of all walkers and the bytes of so many passes over them."""
    return Cost(flops * walkers.count, passes * state_bytes(walkers) * walkers.count)


def row(
    bench: Bench,
    label: str,
    walkers: Walkers,
    timing: Timing,
    generations: float,
    flops: float,
    passes: float,
    **numbers: Any,
) -> float:
    """Record a piece of work; return walker-generations a second."""
    rate = walkers.count * generations / undisturbed(walkers.device, timing)
    bench.row(
        label,
        timing,
        cost(walkers, flops * generations, passes),
        device=walkers.device,
        walkers=walkers.count,
        electrons=walkers.electrons,
        precision=REAL[walkers.single],
        walker_generations_per_s=rate,
        electron_moves_per_s=rate * walkers.electrons,
        **numbers,
    )
    return rate


def works_of(walkers: Walkers, name: str, blocks: int = 2) -> dict[str, Callable[[], None]]:
    """Return what is measured of an ensemble: moves, variational and diffusion Monte Carlo."""
    return {
        "moves": moves(walkers, TAU[name]),
        "VMC": variational(walkers, TAU[name]),
        "DMC": diffusion(walkers, DIFFUSION[name], 2 * STEPS, blocks),
    }


def rows_of(
    bench: Bench,
    walkers: Walkers,
    name: str,
    label: str,
    found: Mapping[str, Timing],
    blocks: int = 2,
    **numbers: Any,
) -> dict[str, float]:
    """Record the times of `works_of`; return walker-generations a second of each."""
    count = operations(walkers)
    rates = {}
    for kind, timing in found.items():
        diffused = kind == "DMC"
        generations = STEPS * (2 * blocks if diffused else 1)
        rates[kind] = row(
            bench,
            f"{name} {label}: {kind}",
            walkers,
            timing,
            generations,
            count.sweep if kind == "moves" else count.generation,
            generations + 2.0 if diffused else 2.0,  # one is the recomputation
            kind=kind,
            system=name,
            **numbers,
        )
    return rates


def measured(
    bench: Bench, walkers: Walkers, name: str, label: str, rounds: int = 4, blocks: int = 2, **numbers: Any
) -> dict[str, float]:
    """Measure an ensemble; return walker-generations a second of moves, variational and diffusion Monte Carlo."""
    found = alternate(walkers.device, works_of(walkers, name, blocks), rounds)
    return rows_of(bench, walkers, name, label, found, blocks, **numbers)
