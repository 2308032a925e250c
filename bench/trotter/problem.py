"""What the cases of ``trotter`` share: models, layers, states, costs, timers, and the layers in plain array code."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Timing, kernel
from qsim.core.device.device import Device
from qsim.trotter.evolution.integrators import ORDER, Layer, layers
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.model.hamiltonian import Model

DT = 0.05
METHOD = "ts4"
LAYERS = 20  # of a step, merged with the next one; one more closes the last step
SPARE = 3 << 30  # bytes left beside the state: sums of a measurement at N = 33
ITEMS = {"double": 16, "single": 8}  # bytes of an amplitude
TYPES = {"double": "complex128", "single": "complex64"}
RESIDENT_SPINS = 31  # from here on a state is not warmed up by whole steps
# Floating-point operations an amplitude and layer: additions of N rotations of a complex number, 25 multiply-adds of the phase
PHASE_FLOPS = 50.0
HALF = 2.0**-0.5
ROTATION = HALF * np.array([[1, -1j], [1, 1j]])  # C: C S^z C^dagger = S^x, C S^x C^dagger = S^y


# -------------------------------------------------------------------------------------- models, states


def ring(spins: int) -> Model:
    """Return the Heisenberg ring, J = 1."""
    pairs = np.zeros((3, spins, spins))
    for j in range(spins):
        k = (j + 1) % spins
        pairs[:, j, k] = pairs[:, k, j] = 1.0
    return Model(spins, pairs, np.zeros((3, spins)))


def all_to_all(spins: int) -> Model:
    """Return random couplings of all pairs and random fields, different along x, y and z."""
    rng = np.random.default_rng(spins)
    pairs = np.triu(rng.standard_normal((3, spins, spins)), 1)
    return Model(spins, pairs + pairs.transpose(0, 2, 1), rng.standard_normal((3, spins)))


def noise(spins: int) -> np.ndarray:
    """Return a random state (2^N,): on a CPU, zeros and tiny numbers would not take the usual time."""
    psi = np.random.default_rng(1).standard_normal((1 << spins, 2)).view(complex)[:, 0]
    return psi / np.linalg.norm(psi)


def all_up(device: Device, model: Model, precision: str = "double") -> Evolver:
    """Return an evolver in the state with all spins up, made in place.

    It is given the first amplitude alone and sets the others to zero: there is never a second vector.
    """
    return Evolver(device, model, np.ones(1), precision=precision)


def sequence() -> list[Layer]:
    """Return the 21 layers (axis, time) of one step; 20 rotations lie between them."""
    return layers((0, 1, 2), METHOD, DT)


def rotations(sequence: Sequence[Layer]) -> list[bool]:
    """Return whether C (True) or C^dagger (False) lies between neighbouring layers."""
    order = [ORDER.index(axis) for axis, _ in sequence]
    return [(after - before) % 3 == 2 for before, after in itertools.pairwise(order)]


# ----------------------------------------------------------------------------------------------- costs


def pass_bytes(spins: int, precision: str = "double") -> float:
    """Bytes of a pass: every amplitude read and written."""
    return 2.0 * ITEMS[precision] * 2.0**spins


def step_cost(spins: int, passes: float, count: float = LAYERS, precision: str = "double") -> Cost:
    """Return operations of ``count`` layers and bytes of so many passes."""
    return Cost((2.0 * spins + PHASE_FLOPS) * count * 2.0**spins, passes * pass_bytes(spins, precision))


# ---------------------------------------------------------------------------------------------- timers


def scaled(timing: Timing, count: float) -> Timing:
    """Return the time of one of ``count`` equal pieces of work."""
    busy = None if timing.cpu_seconds is None else timing.cpu_seconds / count
    return dataclasses.replace(
        timing, seconds=timing.seconds / count, best=timing.best / count, cpu_seconds=busy
    )


def ratios(timing: Timing, ours: Timing) -> dict[str, float]:
    """Return how many times as long as we it takes: median, shortest, processor time (what is left when others have the core)."""
    found = {"ratio": timing.seconds / ours.seconds, "ratio_best": timing.best / ours.best}
    if timing.cpu_seconds and ours.cpu_seconds:
        found["ratio_cpu"] = timing.cpu_seconds / ours.cpu_seconds
    return found


def steps_for(spins: int, precision: str = "double", seconds: float = 0.1, rate: float = 3.5e12) -> int:
    """Return how many steps take about so many seconds at so many bytes a second, 2 at least and 200 at most."""
    passes = LAYERS * (1 if spins < 23 else 2)
    one = passes * (pass_bytes(spins, precision) / rate + 2e-6)
    return int(min(200, max(2, round(seconds / one))))


def advance_timing(evolver: Evolver, steps: int, budget: float = 0.6, least: int = 3) -> tuple[Timing, float]:
    """Time a step among ``steps`` that follow each other; return it and its passes."""
    device = evolver.device

    def work() -> None:
        evolver.advance(METHOD, DT, steps)

    if evolver.spins < RESIDENT_SPINS:
        start, runs = evolver.passes, 1  # and a warm-up
        timing = kernel(device, work, budget, least)
        runs += timing.repeats
    else:  # seconds a step: one run, after a shorter method has compiled the kernels and filled the state
        evolver.advance("ts2", DT, 1)
        start, runs = evolver.passes, 1
        timing = once(device, work)
    return scaled(timing, steps), (evolver.passes - start) / (runs * steps)


def once(device: Device, work: Callable[[], object]) -> Timing:
    """Time a single run, without another one before it."""
    device.synchronize()
    begun = time.perf_counter()
    work()
    device.synchronize()
    seconds = time.perf_counter() - begun
    return Timing(seconds, seconds, 1, "wall")


# ------------------------------------------------------------------------------------ plain array code


def energies(xp: Any, pairs: np.ndarray, fields: np.ndarray) -> Any:
    """Return the energies (2^N,) of all basis states along one axis: the paper's table, by doubling."""
    found = xp.zeros(1)
    for k in range(fields.size):
        field = xp.full(1, fields[k])
        for j in range(k):
            field = xp.concatenate([field + 0.5 * pairs[j, k], field - 0.5 * pairs[j, k]])
        field *= 0.5
        found = xp.concatenate([found + field, found - field])
    return found


def plain_tables(xp: Any, model: Model) -> list[Any]:
    """Return the energies along x, y and z."""
    return [energies(xp, model.J[a], model.h[a]) for a in range(3)]


def plain_phase(xp: Any, psi: Any, table: Any, tau: float) -> None:
    """Multiply by ``exp(-i tau E)``, in place."""
    psi *= xp.exp(-1j * tau * table)


def plain_rotation(psi: Any, spins: int, forward: bool) -> None:
    """Apply C (``forward``) or C^dagger to every spin, one after another, in place."""
    for q in range(spins):
        pair = psi.reshape(-1, 2, 1 << q)
        up, down = pair[:, 0], pair[:, 1]
        if forward:
            turned = 1j * down
            pair[:, 1] = HALF * (up + turned)
            pair[:, 0] = HALF * (up - turned)
        else:
            both = HALF * (up + down)
            pair[:, 1] = (1j * HALF) * (up - down)
            pair[:, 0] = both


def plain_step(xp: Any, psi: Any, tables: list[Any], spins: int) -> None:
    """Make one step, the same 21 + 20 layers, in place."""
    steps = sequence()
    turns = [*rotations(steps), None]
    for (axis, tau), forward in zip(steps, turns, strict=True):
        plain_phase(xp, psi, tables[axis], tau)
        if forward is not None:
            plain_rotation(psi, spins, forward)


def difference(x: Any, y: Any) -> float:
    """Return the largest difference relative to the largest element."""
    return float(abs(x - y).max() / abs(y).max())


def norm_error(evolver: Evolver) -> float | None:
    """Return how far <psi|psi> is from one; None if no memory is left for the sums beside the largest states."""
    try:
        return evolver.norm() - 1.0
    except Exception:
        return None


def release(bench: Bench) -> None:
    """Give the memory of arrays that are gone back to the device."""
    if bench.device.is_cuda:
        bench.device.xp.get_default_memory_pool().free_all_blocks()


def fits(bench: Bench, spins: int, precision: str = "double") -> bool:
    """Whether a state fits; says so in a note if not."""
    release(bench)
    need, free = ITEMS[precision] << spins, bench.device.free_memory()
    if free and need + SPARE > free:
        bench.note(f"N={spins} {TYPES[precision]} does not fit: {need} bytes, {free} bytes free")
        return False
    return True
