"""Share of time of each class of work in a generation of diffusion Monte Carlo of a crystal on a GPU (Fig. 4).

A generation is three kernels, which CUDA events time one by one.  One of them moves all electrons of a walker; what its parts
take is asked of clocks inside: the same source with ``-DCLOCKS=1`` adds up, over all warps, the clocks that pass in each class of
functions (``clocks.cuh``), and a class gets the part of the kernel's time that it has of the clocks of its warps.  Rows of the
kernels say how much longer they take with clocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, kernel
from bench.qmc import problem
from bench.qmc.crystals import MOVES, TAU, diamond64, of_deck
from qsim.core.device import kernels, rng
from qsim.qmc.kernels.crystal.launch import CrystalLaunch
from qsim.qmc.kernels.walkers.launches import PACKAGE, WalkerLaunch
from qsim.qmc.kernels.walkers.walk_cpu import FIXED_NODE
from qsim.qmc.sampling.branching import Population
from qsim.qmc.sampling.walkers import Walkers

CLASSES = ("whole", "nonlocal", "splines", "jastrow", "ratios", "updates")  # as in clocks.cuh
COUNTS = {"diamond 16": 4096, "diamond 64": 2048, "diamond 2": 8192}
DRIVEN = {"diamond 2": 3, "diamond 16": 2, "diamond 64": 1}  # blocks of the driver in a piece of work
BLOCK, EVERY = 20, 5  # generations between recomputations, and between branchings, as of the driver
# of the driver: the orbitals of 64 atoms are none of their Hamiltonian, whose population would grow without end
STEPS = {"diamond 2": TAU, "diamond 16": TAU, "diamond 64": 0.01 * TAU}
ROUNDS = {"diamond 2": 3, "diamond 16": 2, "diamond 64": 1}
KERNELS = ("walk", "weigh", "nonlocal_steps")
ROWS = 1024  # of clocks, as in clocks.cuh
GENERATIONS = {"diamond 2": 30, "diamond 16": 16, "diamond 64": 4}  # that kernels are timed for
Work = Callable[[], None]
Clocks = dict[str, dict[str, int]]  # of the kernels, by class


class Kernels:
    """The kernels of a generation, launched one by one with clocks or without.

    Parameters
    ----------
    walkers
        On a GPU; they are moved.
    clocked
        Launch the kernels that count their clocks.
    """

    def __init__(self, walkers: Walkers, clocked: bool = False) -> None:
        self.walkers = walkers
        self.launch: WalkerLaunch = CrystalLaunch(walkers.state, walkers.tables)
        if clocked:
            self.launch.macros["CLOCKS"] = 1
        self.energy = 0.0

    def run(self, name: str) -> None:
        """Launch a kernel of a generation of diffusion."""
        numbers: dict[str, tuple[Any, ...]] = {
            "energies": (),
            "walk": (np.float64(TAU), np.int32(FIXED_NODE), np.int32(1)),
            "weigh": (np.float64(TAU), *map(np.float64, (self.energy, self.energy, 10.0))),
            "nonlocal_steps": (np.float64(TAU),),
        }
        more = (np.uint64(0),) if name == "energies" else ()
        self.launch(name, numbers[name], self.walkers.stream(problem.SECTION), more)

    def generations(self, count: int, *, counting: bool = False) -> tuple[dict[str, float], Clocks]:
        """Return the seconds of each kernel in a generation, means over some, and its clocks by class."""
        walkers, event = self.walkers, self.walkers.device.xp.cuda.Event
        clocks: Clocks = {name: dict.fromkeys(CLASSES, 0) for name in KERNELS}
        pairs = []
        for _ in range(count):
            walkers.state.weight[...] = 1.0
            for name in KERNELS:
                pairs.append((name, event(), event()))
                pairs[-1][1].record()
                self.run(name)
                pairs[-1][2].record()
                for kind, spent in self.clocks().items() if counting else ():
                    clocks[name][kind] += spent
            walkers.generation += 1
        walkers.device.synchronize()
        seconds = dict.fromkeys(KERNELS, 0.0)
        for name, begin, end in pairs:
            seconds[name] += 1e-3 * walkers.device.xp.cuda.get_elapsed_time(begin, end) / count
        return seconds, clocks

    def clocks(self) -> dict[str, int]:
        """Return the clocks of each class since they were asked for last."""
        xp = self.walkers.device.xp
        module = kernels.load(PACKAGE, "walk", self.launch.macros)
        spent = xp.ndarray((ROWS, len(CLASSES)), np.uint64, module.get_global("clocks_spent"))
        total = self.walkers.device.to_host(spent.sum(0))
        spent[...] = 0
        return dict(zip(CLASSES, map(int, total), strict=True))


@case(
    "qmc-crystal-shares-gpu",
    "share of time per class of work in DMC of diamond on a GPU, mixed precision (Fig. 4)",
    devices=("cuda",),
)
def shares(bench: Bench) -> None:
    """Rows of the kernels, and one for each class with its share of a generation by the driver."""
    for name in list(COUNTS)[: 1 if bench.quick else None]:
        _system(bench, name, 64 if bench.quick else COUNTS[name])


def _system(bench: Bench, name: str, count: int) -> None:
    made = diamond64() if name == "diamond 64" else of_deck(name)
    walkers = problem.ensemble(bench.device, made, count, MOVES, single=True)
    times, clocks = _kernels(bench, name, walkers)
    whole = _driver(bench, name, walkers)
    move, weigh = (_parts(clocks[each], times[each]) for each in KERNELS[:2])
    outside = weigh["nonlocal"]
    classes = {
        "splines of moves": move["splines"],
        "Jastrow factor of moves": move["jastrow"],
        "determinants: ratios and drift": move["ratios"],
        "determinants: updates of inverses": move["updates"],
        "random numbers, acceptance": move["rest"],
        "local energy without nonlocal part": times["weigh"] - outside,
        "nonlocal part: splines": weigh["splines"],
        "nonlocal part: Jastrow factor": weigh["jastrow"],
        "nonlocal part: ions, rotations, sums": outside - weigh["splines"] - weigh["jastrow"],
        "T-moves": times["nonlocal_steps"],
        "branching": times["branching"] / EVERY,
        "recomputation": times["recomputation"] / BLOCK,
    }
    classes["driver, and what is in no class"] = whole - sum(classes.values())
    for kind, time in classes.items():
        timing = Timing(time, time, ROUNDS[name], "events")
        bench.row(
            f"{name} atoms: {kind}",
            timing,
            kind=kind,
            system=name,
            walkers=count,
            share_of_generation=time / whole,
        )


def _parts(clocks: dict[str, int], seconds: float) -> dict[str, float]:
    """Return the seconds of each class of a kernel, and of what is in none."""
    whole = max(clocks["whole"], 1)
    found = {kind: seconds * clocks[kind] / whole for kind in CLASSES[1:]}
    return found | {"rest": seconds - sum(found[kind] for kind in CLASSES[2:])}


def _kernels(bench: Bench, name: str, walkers: Walkers) -> tuple[dict[str, float], Clocks]:
    """Return seconds of kernels and of work between them, and clocks; a row of each kernel says what clocks cost it."""
    count = 2 if bench.quick else GENERATIONS[name]
    plain, clocked = Kernels(walkers), Kernels(walkers, clocked=True)
    for both in (plain, clocked):
        both.run("energies")
        both.energy = float(walkers.device.xp.mean(walkers.state.energy[:, 5]))
        both.generations(1)
    clocked.clocks()  # those of the first generation do not count
    seconds, _ = plain.generations(count)
    longer, clocks = clocked.generations(count, counting=True)
    for each, time in seconds.items():
        inside: dict[str, Any] = {
            f"clocks_{kind}": clocks[each][kind] / max(clocks[each]["whole"], 1) for kind in CLASSES[1:]
        }
        bench.row(
            f"{name} atoms, {walkers.count} walkers: kernel {each}",
            Timing(time, time, count, "events"),
            kernel=each,
            system=name,
            walkers=walkers.count,
            seconds_with_clocks=longer[each],
            **inside,
        )
    for kind, work in _between(walkers).items():
        seconds[kind] = kernel(bench.device, work, 0.3).seconds
    return seconds, clocks


def _between(walkers: Walkers) -> dict[str, Work]:
    """Return what the driver does between some generations."""
    device, count = walkers.device, walkers.count
    population, numbers = Population(target=count), itertools.count()
    weights = device.asarray(np.random.default_rng(1).normal(1.0, 0.05, count).clip(0.5, 1.5))

    def branching() -> None:
        draws = device.asarray(rng.uniform(problem.KEY, 3, next(numbers), population.draws(count)))
        walkers.select(*population.branch(weights, draws))

    def recomputation() -> None:
        walkers.recompute()

    return {"recomputation": recomputation, "branching": branching}


def _driver(bench: Bench, name: str, walkers: Walkers) -> float:
    """Return the seconds of a generation with T-moves, branching and recomputations by the driver."""
    blocks = 1 if bench.quick else DRIVEN[name]
    work = problem.diffusion(walkers, STEPS[name], BLOCK, blocks)
    timing = problem.alternate(bench.device, {"driver": work}, ROUNDS[name])["driver"]
    label = f"{name} atoms, {walkers.count} walkers: {BLOCK * blocks} generations by the driver"
    bench.row(label, timing, kind="driver", system=name, walkers=walkers.count, generations=BLOCK * blocks)
    return problem.undisturbed(bench.device, timing) / (BLOCK * blocks)
