"""From the deck of an evolution to its problem: output times, sector, memory, processes that share the run."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.device.device import Memory, cpu
from qsim.core.device.parallel import connected
from qsim.core.errors import DeckError, FileError, NumericsError
from qsim.core.run.stages import Plan, Size
from qsim.trotter import checks
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.evolve.checks import physics
from qsim.trotter.evolve.memory import memory, memory_on_gpu, sector_memory
from qsim.trotter.evolve.open.spaces import AS_CLOSED, by_trajectories, open_space
from qsim.trotter.evolve.problem import Problem
from qsim.trotter.model.models import Models
from qsim.trotter.model.open.channels import channels_of
from qsim.trotter.problem import GPU_AMPLITUDES, GPU_TERMS
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.shared.space import LEAST_BITS, most_ranks

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.trotter.measurement.spaces import Space

__all__ = ["build", "plan"]

# bytes of the buffers of an exchange on a GPU: two each way of 256 MiB, for up to 16 ranks twice as much
EXCHANGE = 1 << 31
# operations of a phase on an amplitude
PHASE_FLOPS = 6.0
# up to which the plan builds the couplings, to find mistakes of files early
PLAN_SPINS = 30


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    deck = loaded.deck
    spins = deck.system.spins
    # a plan has no device: sizes and physics alone
    try:
        problem = _problem(deck, device=None)
    except (DeckError, FileError) as error:
        key, _, text = str(error).partition(": ")
        known = key.startswith("dissipation") and text
        return Plan(findings=[Finding(key, text) if known else Finding("dissipation", str(error))])
    # each check needs sound results of the one before: shells, couplings, sector, then times and steps
    findings = list(checks.shells(deck))
    if not findings and spins <= PLAN_SPINS:
        findings = list(checks.couplings(deck, problem.models))
    if not findings:
        try:
            problem.sector = _sector(deck, problem)
        except DeckError as error:
            findings = [checks.of_sector(error)]
    if not findings:
        findings = list(physics(problem))
    # there may be no couplings to estimate from
    if checks.mistaken(findings):
        return Plan(findings=findings)
    # with an accuracy the steps are known only after the pilots
    dt = deck.evolve.dt
    steps = sum(problem.steps(k, dt)[0] for k in range(len(problem.times) - 1)) if dt is not None else 0
    parts, host = memory(problem)
    # ranks share trajectories, or the amplitudes of one state
    most, alone = (problem.members, "") if problem.members > 1 else _shared_ranks(problem)
    comm = connected()
    # of a state that ranks share, each has its part; on a CPU the other parts are on the host, too
    ranks = 1 if comm is None or problem.members > 1 else min(comm.size, most)
    whole = sum(parts.values())
    others = whole - whole // ranks
    sizes: dict[str, Any] = {
        "spins": spins,
        "amplitudes": problem.dimension,
        "output times": len(problem.output_times),
    }
    if problem.members > 1:
        sizes["trajectories"] = problem.members
    return Plan(
        memory=Memory(
            host=host + others,
            device=whole - others,
            parts=parts,
            reduce="system.spins",
            fits=lambda free: _fits(problem, free),
            size=f"{problem.dimension} states",
            on_gpu=memory_on_gpu(problem, parts) // ranks + (min(EXCHANGE, 4 * others) if ranks > 1 else 0),
            on_gpu_host=-others,
            library="cusolver" if problem.observables.needs.cuts else "",
        ),
        sizes=sizes,
        steps=steps * problem.members,
        findings=findings,
        size=_size(problem),
        operations=_operations(problem, steps),
        reduce="ensemble" if problem.members > max(steps, len(problem.times)) else "evolve.t_final",
        ranks=most,
        shared="trajectories" if problem.members > 1 else "amplitudes",
        doubling=problem.members == 1,
        alone=alone,
        capacity=problem.members == 1,
    )


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> Problem:
    """Set up the problem of the deck; states and couplings are made trajectory by trajectory.

    Raises
    ------
    DeckError
        If the deck asks for a sector that H or the start do not stay in.
    """
    deck = loaded.deck
    problem = _problem(deck, device)
    problem.sector = _sector(deck, problem)
    if _hosted(problem) and device.is_cuda:
        problem.device = cpu(device.threads)
    dt = deck.evolve.dt
    if dt is not None:
        # intervals are divided equally: a notice says how long the steps become
        lengths = [problem.steps(k, dt)[1] for k in range(len(problem.times) - 1)]
        if lengths and min(lengths) < dt * (1.0 - 1e-9):
            problem.notices.append(
                f"evolve.dt: {dt:g} does not divide the output intervals; steps of {min(lengths):.6g} to {max(lengths):.6g}"
            )
    return problem


def _problem(deck: TrotterDeck, device: Device | None) -> Problem:
    """Return the problem of an evolution in the whole space; a plan has no device."""
    output = deck.evolve.times()
    end = deck.evolve.end
    # the end is the last output time, but for rounding of a grid
    end = output[-1] if abs(output[-1] - end) <= 1e-12 * end else end
    channels = channels_of(deck.dissipation, deck.system)
    models = Models.of(deck)
    return Problem(
        device=device,  # type: ignore[arg-type]
        models=models,
        channels=channels,
        entries=len(deck.dissipation),
        open=deck.open if channels else None,
        start=deck.initial,
        evolution=deck.evolve,
        observables=deck.observables,
        precision="single" if deck.run.precision == "single" else "double",
        times=sorted({0.0, *output, end}),
        output_times=output,
    )


def _hosted(problem: Problem) -> bool:
    """Return True if products are those of stored matrices of a small space, which stay on the host."""
    by_terms = problem.has_matrix or not problem.models.system.halves
    return by_terms and problem.dimension < GPU_TERMS


def _sector(deck: TrotterDeck, problem: Problem) -> Space | None:
    """Return the sector of an evolution, None for the whole space.

    Raises
    ------
    DeckError
        If the deck asks for one that H or the start do not stay in.
    """
    from qsim.trotter.sectors.selection import Asked, lowered_of, obstacle, sector_of, space_with

    models = problem.models
    if problem.open:
        space = open_space(deck, problem)
        problem.sector = None if space is AS_CLOSED else space
        problem.jumping = by_trajectories(deck, problem)
        if problem.jumping:
            problem.models = replace(models, states=models.states * deck.open.members)
        if space is not AS_CLOSED:
            return space
    hamiltonian = models.hamiltonian()
    sigma, model = models.sigma() if models.sigma_terms else None, hamiltonian.static
    integrator, down = deck.evolve.integrator, lowered_of(models, deck.initial)
    if isinstance(deck.sector, SectorBlock):
        needs = deck.observables.needs
        asked = Asked(deck.sector, deck.initial, down, deck.system.twos, deck.lattice, needs)
        return sector_of(asked, hamiltonian, sigma)
    # auto: a start of one Sz that H and the way back conserve, and no product formula of layers, which are in the whole space
    layered = model.halves and model.cross is None
    stays = (
        deck.sector == "auto"
        and (not layered or integrator in ("auto", "chebyshev", "krylov"))
        and (not deck.driven or integrator == "krylov")
        and not obstacle(hamiltonian)
        and (sigma is None or integrator == "krylov" or sigma.is_static)
        and (sigma is None or not obstacle(sigma))
    )
    if stays and down is not None:
        return space_with(model, down)
    # all states of larger spins are a space like others
    return None if deck.system.halves else space_with(model)


def _shared_ranks(problem: Problem) -> tuple[int, str]:
    """Return the number of processes that can share the state of a problem, a power of two, and why one alone must have it."""
    needs, start = problem.observables.needs, problem.start
    reasons = {
        f"the state is carried in the sector {problem.sector}; sector: full is shared": problem.sector
        is not None,
        "couplings of different components have no layers": problem.has_tensors,
        f"initial.type: {start.word} is made whole": not start.has_parts,
        "observe: state, time_correlation and otoc need whole states": needs.vector,
        f"{problem.spins} spins are too few": problem.spins <= LEAST_BITS,
    }
    for reason, applies in reasons.items():
        if applies:
            return 1, reason
    return most_ranks(problem.spins), ""


def _size(problem: Problem) -> Size:
    """Return the amplitudes of all trajectories, which are propagated together."""
    # of formulas bond by bond the host has a kernel of its own for sectors of Sz
    gpu = GPU_TERMS if problem.path == "bonds" else GPU_AMPLITUDES
    gpu = math.inf if _hosted(problem) else gpu
    return Size(float(problem.dimension) * problem.members, "amplitudes", gpu)


def _operations(problem: Problem, steps: int) -> float:
    """Return the least operations: a diagonal layer per step; of chebyshev, the terms that the rms energy needs."""
    layers = float(max(steps, len(problem.times) - 1))
    if problem.evolution.integrator == "chebyshev" and problem.spins <= PLAN_SPINS:
        # told before
        with contextlib.suppress(DeckError, FileError, NumericsError):
            # half the width of a spectrum without trace is the rms energy at least, and terms grow with width times time
            model = problem.hamiltonian().at(0.0)
            layers = max(layers, math.sqrt(model.mean_square) * problem.times[-1])
    return PHASE_FLOPS * layers * problem.dimension * problem.members


def _fits(problem: Problem, free: int) -> str:
    """Describe the number of spins that fit into the free bytes."""
    sentences = []
    for single, name in ((False, "double"), (True, "single")):
        most = 0
        # memory grows with every spin: the largest number that fits
        for spins in range(2, 41):
            if sum(memory(problem, spins, single)[0].values()) <= free:
                most = spins
        if (most and most < problem.spins) or (single and most >= problem.spins):
            sentences.append(f"{min(most, problem.spins)} spins fit in {name} precision")
    return ", ".join(dict.fromkeys(sentences + _formula_fits(problem, free)))


def _formula_fits(problem: Problem, free: int) -> list[str]:
    """Tell of the product formula in the sector of a problem, which needs no vectors beside the state, if it fits."""
    sector = problem.sector
    usable = problem.charged and not problem.space.inversion and problem.path != "bonds"
    if (
        not usable
        or not isinstance(sector, Sector)
        or problem.has_matrix
        or problem.models.driven
        or problem.models.driven_sigma
    ):
        return []
    needed = sum(sector_memory(problem, path="bonds")[0].values())
    if needed > free:
        return []
    named = f"sector: {{up: {sector.spins - sector.down}}}"
    return [f"a product formula, evolve.integrator: bm4 with {named}, takes {needed / 1e9:.3g} GB on a CPU"]
