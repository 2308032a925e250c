"""From the deck to the problem: output times, models and initial states of every trajectory, memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.device.device import Memory
from qsim.core.errors import DeckError, FileError, NumericsError
from qsim.core.run.stages import Plan
from qsim.core.run.work import CACHED, Work
from qsim.trotter import checks
from qsim.trotter.deck.initial import GroundStateInitial
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.problem import GROUND_TERMS, Problem, memory, memory_on_gpu
from qsim.trotter.tasks.problem import TaskProblem, task_memory

if TYPE_CHECKING:
    from qsim.core.device.device import Device

MOST_LEVELS = 20_000  # states of a sector that is diagonalised: 10 GB
PLAN_SPINS = 30  # up to which the plan builds the couplings, to find mistakes of files early


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    deck = loaded.deck
    if deck.task != "evolve":
        return _plan_task(loaded)
    spins = deck.system.spins
    problem = _problem(deck, device=None)
    findings = list(checks.shells(deck))
    if not findings and spins <= PLAN_SPINS:
        findings = list(_models(problem))
    if not findings:
        findings = list(_sector(problem))
    if findings:
        problem = _problem(deck.model_copy(update={"sector": "full"}), device=None)
    if not findings:
        findings = list(checks.physics(problem))
    dt = deck.evolve.dt
    steps = sum(problem.steps(k, dt)[0] for k in range(len(problem.times) - 1)) if dt is not None else 0
    parts, host = memory(problem)
    sizes: dict[str, Any] = {
        "spins": spins,
        "amplitudes": problem.dimension,
        "output times": len(problem.output_times),
    }
    if problem.members > 1:
        sizes["trajectories"] = problem.members
    return Plan(
        memory=Memory(
            host=host,
            device=sum(parts.values()),
            parts=parts,
            reduce="system.spins",
            fits=lambda free: _fits(problem, free),
            on_gpu=memory_on_gpu(problem, parts),
            library="cusolver" if problem.cuts else "",
        ),
        sizes=sizes,
        steps=steps * problem.members,
        findings=findings,
        work=_work(problem, steps),
        ranks=problem.members,
        shared="trajectories",
    )


def _work(problem: Problem, steps: int) -> Work:
    """Return the least work: a diagonal layer per step; of chebyshev, the terms that the rms energy needs."""
    deck, amplitudes = problem.deck, float(problem.dimension)
    # a layer multiplies every amplitude by a phase
    layers = float(max(steps, len(problem.times) - 1))
    if deck.evolve.integrator == "chebyshev" and problem.spins <= PLAN_SPINS:
        with contextlib.suppress(DeckError, FileError, NumericsError):  # told before
            # half the width of a spectrum without trace is the rms energy at least, and terms grow with width times time
            model = problem.hamiltonian().at(0.0)
            square = float((model.J**2).sum() / 32.0 + (model.h**2).sum() / 4.0)
            layers = max(layers, math.sqrt(square) * problem.times[-1])
    whole = layers * amplitudes * problem.members
    item = 8 if deck.run.precision == "single" else 16
    moved = 2.0 * item * whole if amplitudes * item > CACHED else 0.0
    return Work(
        flops=6.0 * whole, bytes=moved, reduce="ensemble" if problem.members > layers else "evolve.t_final"
    )


def _fits(problem: Problem, free: int) -> str:
    """Describe how many spins fit into the free bytes."""
    found = []
    for single, name in ((False, "double"), (True, "single")):
        most = 0
        for spins in range(2, 41):
            if sum(memory(problem, spins, single)[0].values()) <= free:
                most = spins
        if (most and most < problem.spins) or (single and most >= problem.spins):
            found.append(f"{min(most, problem.spins)} spins fit in {name} precision")
    return ", ".join(dict.fromkeys(found))


def _sector(problem: Problem) -> Iterator[Finding]:
    """Yield why the sector that is asked for is none."""
    try:
        _ = problem.sector
    except DeckError as error:
        yield Finding("sector", str(error).removeprefix("sector: "))


def _models(problem: Problem) -> Iterator[Finding]:
    """Yield what building the couplings finds, term by term: files that are missing numbers, pairs given twice, wild sizes."""
    system, first = problem.deck.system, len(problem.deck.system.terms)
    yield from _terms(problem, system.terms, 0, "system.terms")
    if isinstance(problem.deck.initial, GroundStateInitial):
        yield from _terms(problem, problem.deck.initial.terms, GROUND_TERMS, "initial.terms")
    for index, item in enumerate(problem.deck.observe):
        if item.echo is not None:
            yield from _terms(problem, item.echo.sigma, first, f"observe.{index}.echo.sigma")


def _terms(problem: Problem, terms: list[Any], first: int, key: str) -> Iterator[Finding]:
    from qsim.trotter.model.hamiltonian import build_hamiltonian

    for number, term in enumerate(terms):
        try:
            part = build_hamiltonian(
                problem.deck.system, seed=problem.seed, terms=[term], first=first + number
            )
            for t in (problem.times[0], problem.times[-1]):  # where every run asks for it
                part.at(t)
        except (DeckError, FileError, NumericsError) as error:
            yield Finding(f"{key}.{number}", str(error))


# --------------------------------------------------------------------------------------------- build


def _plan_task(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Estimate the memory of a task beside an evolution, and find what is wrong with its couplings and sectors."""
    deck = loaded.deck
    findings = list(checks.shells(deck)) or list(_models(_problem(deck, device=None)))
    problem, states = TaskProblem(deck, None, _seed(deck)), [0]
    if not findings:
        try:
            states = [sector.dimension for sector in problem.sectors]
        except DeckError as error:
            findings = [Finding("sector", str(error).removeprefix("sector: "))]
    if deck.task == "levels" and max(states) > MOST_LEVELS:
        findings.append(
            Finding(
                "sector",
                f"{max(states)} states are too many to diagonalise, at most {MOST_LEVELS}; take fewer spins, or task: spectrum",
            )
        )
    parts = task_memory(deck, max(states))
    sizes: dict[str, Any] = {"spins": deck.system.spins, "sectors": len(states), "states": max(states)}
    return Plan(
        memory=Memory(device=sum(parts.values()), parts=parts, reduce="system.spins"),
        sizes=sizes,
        findings=findings,
    )


def _seed(deck: TrotterDeck) -> int:
    return deck.run.seed if deck.run.seed is not None else 0


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> Problem | TaskProblem:
    """Set up the problem of the deck; states and couplings are made trajectory by trajectory."""
    if loaded.deck.task != "evolve":
        return TaskProblem(loaded.deck, device, _seed(loaded.deck))
    problem = _problem(loaded.deck, device)
    problem.loaded = loaded
    dt = loaded.deck.evolve.dt
    if dt is not None:
        lengths = [problem.steps(k, dt)[1] for k in range(len(problem.times) - 1)]
        if lengths and min(lengths) < dt * (1.0 - 1e-9):
            problem.notices.append(
                f"evolve.dt: {dt:g} does not divide the output intervals; steps of {min(lengths):.6g} to {max(lengths):.6g}"
            )
    return problem


def _problem(deck: TrotterDeck, device: Device | None) -> Problem:
    output = deck.evolve.times()
    end = deck.evolve.end
    end = output[-1] if abs(output[-1] - end) <= 1e-12 * end else end
    times = sorted({0.0, *output, end})
    return Problem(deck, device, times, output, _seed(deck))  # type: ignore[arg-type]
