"""Time every kernel of crystals by CUDA events: `python .probe/crystals.py [--quick]`; prints registers and local memory, too."""

import os
import sys

import cupy
import numpy as np

from bench.qmc import crystals, problem
from qsim.core.device import kernels
from qsim.core.device.device import select
from qsim.qmc.kernels import walk
from qsim.qmc.kernels.walk_cpu import FIXED_NODE

QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 7
CASES = [("diamond 16", 8192, True), ("diamond 64", 2048, True), ("diamond 16", 8192, False)]
if QUICK:
    CASES = CASES[:2]


EXTRA = dict(word.split("=") for word in os.environ.get("MACROS", "").split())
_plain = kernels.function


def _with_macros(package, stem, name, defines=kernels.NO_DEFINES, **keys):
    return _plain(package, stem, name, {**defines, **EXTRA} if stem == "crystal_walk" else defines, **keys)


kernels.function = _with_macros


def without(walkers, what):
    tables = walkers.tables
    if what == "jastrow":
        return tables._replace(jastrow=tables.jastrow._replace(kind=0 * tables.jastrow.kind))
    if what == "nonlocal":
        h = tables.hamiltonian
        return tables._replace(hamiltonian=h._replace(channels=0 * h.channels, slots=0))
    return tables


def main():
    device = select("cuda")[0]
    for name, count, single in CASES:
        made = crystals.of_deck(name) if name in crystals.FILES else crystals.diamond64()
        walkers = problem.ensemble(device, made, count, crystals.MOVES, single=single)
        error = cupy.zeros(count)
        limits = dict(reference=0.0, trial=0.0, window=1e3, tau_ratio=1.0)

        def stream():
            walkers.generation += 1
            return walkers.stream(problem.SECTION)

        def moves(tables):
            walk.walk(device, walkers.state, tables, crystals.TAU, FIXED_NODE, 1, stream())

        def energies(tables):
            walk.energies(device, walkers.state, tables, stream())

        def diffuse(tmoves):
            walkers.state.weight[...] = 1.0
            walk.diffuse(
                device, walkers.state, walkers.tables, crystals.TAU, stream(), tmoves=tmoves, **limits
            )

        works = {
            "moves": lambda t=walkers.tables: moves(t),
            "moves, no Jastrow": lambda t=without(walkers, "jastrow"): moves(t),
            "energies": lambda t=walkers.tables: energies(t),
            "energies, no Jastrow": lambda t=without(walkers, "jastrow"): energies(t),
            "energies, no nonlocal": lambda t=without(walkers, "nonlocal"): energies(t),
            "energies, no nonlocal, no Jastrow": lambda t=without(walkers, "nonlocal")._replace(jastrow=without(walkers, "jastrow").jastrow): (
                energies(t)
            ),
            "generation, locality": lambda: diffuse(False),
            "generation, T-moves": lambda: diffuse(True),
            "recompute": lambda: walk.recompute(device, walkers.state, walkers.tables, error),
        }
        times = {key: [] for key in works}
        for round_ in range(ROUNDS + 1):
            for key, work in works.items():
                if key == "recompute" and round_ > 1:
                    continue
                a, b = cupy.cuda.Event(), cupy.cuda.Event()
                a.record()
                work()
                b.record()
                b.synchronize()
                if round_:
                    times[key].append(cupy.cuda.get_elapsed_time(a, b))
        label = f"{name}, {count}, {'mixed' if single else 'double'}"
        print(f"== {label}")
        for key, found in times.items():
            best = min(found)
            print(
                f"{key:36s} {best:9.3f} ms  {1e3 * best / count:8.4f} us per walker  {1e3 * count / best:10.0f} /s"
            )
        acceptance = cupy.asnumpy(walkers.state.moves)
        print(
            "finite:",
            bool(np.isfinite(cupy.asnumpy(walkers.state.energy)).all()),
            "mean energy",
            float(walkers.state.energy[:, 5].mean()),
            "T-moves per walker",
            acceptance[:, 3].mean(),
        )
        del walkers
        cupy.get_default_memory_pool().free_all_blocks()
    for key, kernel in kernels._functions.items():
        print(
            key[2],
            key[3],
            key[-1],
            "regs",
            kernel.num_regs,
            "local",
            kernel.local_size_bytes,
            "static",
            kernel.shared_size_bytes,
            "dynamic",
            kernel.max_dynamic_shared_size_bytes,
        )


main()
