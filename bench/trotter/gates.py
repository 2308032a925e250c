"""The identical layers of a step by other codes: gate by gate, fused, and in plain array code."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, kernel, wall
from bench.trotter import custatevec, peers, problem

CPU_SIZES = (16, 18, 20, 22)
ALL_TO_ALL_SIZES = (16, 18)  # for the peers: N (N - 1) / 2 gates a layer instead of N
CUPY_SIZES = (20, 22, 24, 26)
LIBRARY_SIZES = (20, 24, 28)
CPU_GOAL = 5.0


@case(
    "trotter-gates", "the same layers by Qulacs, Qiskit Aer, plain NumPy (CPU), plain CuPy, custatevec (GPU)"
)
def gates(bench: Bench) -> None:
    """One step of the Heisenberg ring (CPU, custatevec) or of all-to-all couplings (CuPy)."""
    (cuda if bench.device.is_cuda else cpu)(bench)


# ------------------------------------------------------------------------------------------------ CPU


def cpu(bench: Bench) -> None:
    """One thread; the peers start from the same state and have to arrive at the same."""
    for n in CPU_SIZES[:1] if bench.quick else CPU_SIZES:
        _compared(bench, n, "ring", problem.ring(n))
        if n in ALL_TO_ALL_SIZES:
            _compared(bench, n, "all-to-all XYZ, fields", problem.all_to_all(n))


def _compared(bench: Bench, n: int, name: str, model: Any) -> None:
    psi = problem.noise(n)
    run = problem.Evolver(bench.device, model, psi)
    run.advance(problem.METHOD, problem.DT, 1)
    wanted = run.psi.copy()

    def work() -> None:
        run.advance(problem.METHOD, problem.DT, 1)

    start = run.passes
    work()
    cost = problem.step_cost(n, run.passes - start, problem.LAYERS + 1)
    ours = wall(bench.device, work)
    bench.row(f"N={n} {name}: qsim, one step", ours, cost, spins=n)
    found: dict[str, Timing] = {}
    for label, make in peers.CODES.items():
        if name != "ring" and label not in peers.ALL_TO_ALL:
            continue
        try:
            peer = make(model, psi)
        except Exception as error:  # a peer must not take the case with it
            bench.row(f"N={n} {name}: {label}: absent", error=f"{type(error).__name__}: {error}")
            continue
        apart = problem.difference(peer.state(), wanted)
        timing = peer.timing(bench.device, least=3 if n < 22 else 2)
        found[label] = timing
        _peer_row(bench, f"N={n} {name}: {label}, one step", timing, ours, spins=n, difference=apart)
    if found and name == "ring":
        best = min(found, key=lambda label: found[label].seconds)
        bench.goal(
            f"best other code ({best}) / qsim, N = {n}",
            found[best].seconds / ours.seconds,
            CPU_GOAL,
            "x",
            at_least=True,
        )
    _plain_layer(bench, n, name, model, psi, ours)


def _peer_row(bench: Bench, label: str, timing: Timing, ours: Timing, **numbers: Any) -> None:
    bench.row(label, timing, **problem.ratios(timing, ours), **numbers)


def _plain_layer(bench: Bench, n: int, name: str, model: Any, psi: np.ndarray, ours: Timing) -> None:
    """One layer in NumPy, the phase from a table of energies, times 20."""
    table, state = problem.energies(np, model.J[2], model.h[2]), psi.copy()

    def layer() -> None:
        problem.plain_phase(np, state, table, problem.DT)
        problem.plain_rotation(state, n, True)

    timing = problem.scaled(wall(bench.device, layer, least=2), 1 / problem.LAYERS)
    _peer_row(bench, f"N={n} {name}: plain NumPy, 20 times a layer", timing, ours, spins=n)


# ----------------------------------------------------------------------------------------------- CUDA


def cuda(bench: Bench) -> None:
    """Plain CuPy and custatevec beside our steps."""
    for n in CUPY_SIZES[:1] if bench.quick else CUPY_SIZES:
        problem.release(bench)
        _cupy(bench, n)
    try:
        library = custatevec.Library(bench.device)
    except Exception as error:  # an anchor must not take the case with it
        bench.row("custatevec: absent", error=f"{type(error).__name__}: {error}")
        return
    bench.note(f"custatevec {library.version} from {library.path}")
    for n in LIBRARY_SIZES[:1] if bench.quick else LIBRARY_SIZES:
        problem.release(bench)
        try:
            _library(bench, library, n)
        except Exception as error:
            bench.row(f"N={n} custatevec: absent", error=f"{type(error).__name__}: {error}")


def _ours(bench: Bench, n: int, model: Any) -> Timing:
    """Time our step among others that follow each other."""
    run = problem.all_up(bench.device, model)
    steps = problem.steps_for(n)
    timing, passes = problem.advance_timing(run, steps)
    bench.row(f"N={n}: qsim, one step", timing, problem.step_cost(n, passes), spins=n, steps_timed=steps)
    return timing


def _one_step(bench: Bench, model: Any) -> Any:
    run = problem.all_up(bench.device, model)
    run.advance(problem.METHOD, problem.DT, 1)
    return run.psi


def _cupy(bench: Bench, n: int) -> None:
    cp, model = bench.device.xp, problem.all_to_all(n)
    ours = _ours(bench, n, model)
    tables = problem.plain_tables(cp, model)
    psi = cp.zeros(1 << n, complex)
    psi[0] = 1
    problem.plain_step(cp, psi, tables, n)
    apart = problem.difference(_one_step(bench, model), psi)
    work = {
        "step": lambda: problem.plain_step(cp, psi, tables, n),
        "rotation of every qubit": lambda: problem.plain_rotation(psi, n, True),
        "phase from a table": lambda: problem.plain_phase(cp, psi, tables[2], problem.DT),
    }
    for label, call in work.items():
        timing = kernel(bench.device, call, budget=0.3, least=2)
        numbers: dict[str, Any] = {"passes": timing.seconds * bench.ceilings().copy / problem.pass_bytes(n)}
        if label == "step":
            numbers |= {"ratio": timing.seconds / ours.seconds, "difference": apart}
        bench.row(f"N={n}: plain CuPy, {label}", timing, spins=n, **numbers)


def _library(bench: Bench, library: custatevec.Library, n: int) -> None:
    cp, model = bench.device.xp, problem.ring(n)
    ours = _ours(bench, n, model)
    numbers: dict[str, Any] = {}
    if n == LIBRARY_SIZES[0]:
        psi = cp.zeros(1 << n, complex)
        psi[0] = 1
        for fused in (False, True):
            psi[:] = 0
            psi[0] = 1
            library.step(psi, n, fused)
            name = "difference_fused" if fused else "difference"
            numbers[name] = problem.difference(psi, _one_step(bench, model))
    psi = cp.zeros(1 << n, complex)
    psi[0] = 1
    problem.plain_rotation(psi, min(n, 24), True)
    copy = bench.ceilings().copy
    times: dict[str, dict[str, Timing]] = {"rotation": {}, "phase": {}}
    for kind, label, fused, work in library.layers(psi, n):
        timing = kernel(bench.device, work, budget=0.3, least=3)
        times[kind][f"{label}{'/fused' if fused else ''}"] = timing
        bench.row(
            f"N={n}: custatevec, {label}",
            timing,
            spins=n,
            passes=timing.seconds * copy / problem.pass_bytes(n),
        )
    for fused in (False, True):
        best = {
            kind: min(t.seconds for label, t in found.items() if label.endswith("/fused") == fused)
            for kind, found in times.items()
        }
        seconds = problem.LAYERS * sum(best.values())
        bench.row(
            f"N={n}: custatevec, {'fused by hand' if fused else 'gate by gate'}, 20 times the best layers / qsim",
            spins=n,
            seconds_per_step=seconds,
            ratio=seconds / ours.seconds,
            **(numbers if not fused else {}),
        )
