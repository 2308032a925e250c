"""Memory of an evolution, before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from qsim.trotter.evolve.open.density import order_kept
from qsim.trotter.kernels.product.forms import form_of
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.observables.entropy import Entropy
from qsim.trotter.observables.state import State
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.liouville import space_of
from qsim.trotter.sectors.symmetric import term_bytes

if TYPE_CHECKING:
    from qsim.trotter.evolve.problem import Path, Problem

__all__ = ["memory", "memory_on_gpu"]

# up to which trajectories are carried together, as in batch.LARGEST
BATCH_SPINS = 12
# as in ensemble.MOST and together.MOST
BATCH = {"cpu": 64, "cuda": 1024}
# as in pilot and pilots
PILOT_SPINS, COMPARED_SPINS = 12, 26
# beside the state: as in krylov.VECTORS, work space and copies of a step
KRYLOV_VECTORS = 24
# state vectors that the memory pool holds beside the vectors of a Chebyshev expansion
GPU_EXPANSION = 3


def memory(
    problem: Problem, spins: int | None = None, single: bool | None = None
) -> tuple[dict[str, int], int]:
    """Return bytes on the device by part, and bytes of the stored rows in host memory."""
    if problem.open is not None and not (problem.jumping and problem.drift == "unitary"):
        return open_memory(problem)
    if not problem.models.system.halves:
        return digit_memory(problem)
    if problem.charged and not problem.has_matrix:
        return sector_memory(problem, spins, single)
    return _of_all_spins(problem, spins, single)


def _of_all_spins(problem: Problem, spins: int | None, single: bool | None) -> tuple[dict[str, int], int]:
    """Return the memory of an evolution that is observed in the space of all states, as `memory` does."""
    spins = problem.spins if spins is None else spins
    single = problem.precision == "single" if single is None else single
    whole = (8 if single else 16) << spins
    # other numbers of spins have the same share of all states
    state = whole * problem.dimension >> problem.spins
    parts = {"state": state}
    if problem.has_matrix:
        parts["matrix"] = term_bytes(problem.hamiltonian().envelope, [problem.space], observed=False)
    needs, expansion = problem.observables.needs, 0
    # of a series: second polynomial, sum and work space; or the vectors of a Krylov space
    if problem.evolution.integrator == "chebyshev" or problem.path in ("chebyshev", "krylov"):
        expansion = (KRYLOV_VECTORS if problem.path == "krylov" else 3) * state
    if problem.path == "bonds":
        # strings of a formula bond by bond
        parts["tables"] = state // (1 if single else 2)
    parts |= _beside(problem, state)
    if expansion:
        parts["krylov" if problem.path == "krylov" else "chebyshev"] = expansion
    if (batch := _batch(problem, spins)) > 1:
        # states, their copies in other frames, and moments
        parts["batch"] = (batch - 1) * sum(parts.values()) + batch * (3 * state + 24 * spins**2)
    if needs.reference is not None:
        parts["fidelity"] = state
    parts["observables"] = _work(problem, spins, state)
    if problem.sector is not None:
        # observables are taken from the state of all spins; of characters by strings, places and factors
        parts["observables"] += whole + (96 << spins if problem.has_matrix else 0)
    parts |= _passing(problem, spins, state, expansion, sum(parts.values()))
    host = _rows(problem, spins)
    if problem.start.held_twice:
        host += state
    return parts, host


def _beside(problem: Problem, state: int) -> dict[str, int]:
    """Return the bytes of the states that an evolution keeps or carries beside its own."""
    needs, parts = problem.observables.needs, {}
    if needs.start:
        parts["initial state"] = state
    if problem.echo is not None:
        parts["echo"] = state
    if needs.sigma_sites:
        parts["correlations"] = (len(needs.sigma_sites) + 2) * state
    return parts


def _rows(problem: Problem, spins: int) -> int:
    """Return the bytes of the rows of the run and of the result; an ensemble has sums for its errors as well."""
    needs, entropy = problem.observables.needs, problem.observables.get(Entropy)
    # numbers of one output time: spins, pairs, entropies with the coefficients that are stored, and a few scalars
    of_cut = 1 if entropy is None else 2 + 2 * entropy.stored
    row = 10 + 3 * spins + sum(len(p) for p in needs.pairs.values()) + of_cut * len(needs.cuts)
    return 8 * row * len(problem.times) * (4 if problem.members > 1 else 2)


def open_memory(problem: Problem) -> tuple[dict[str, int], int]:
    """Return the memory of an open system as `memory` does: of a density matrix, or of a trajectory."""
    twos, states = problem.models.system.twos, problem.dimension
    elements = 4.0 + 2.0 * len(problem.hamiltonian().envelope.pairs()) + len(problem.channels)
    if not problem.jumping:
        order = order_kept(problem)
        size = space_of(twos, order).dimension
        # generator, complex and real, and a Krylov space
        parts = {"generator": int(36 * elements * size), "krylov": 8 * 20 * size, "state": 24 * size}
    elif problem.drift == "sparse":
        parts = {
            "matrices": int(20 * (elements + 2 * len(twos)) * states),
            "krylov": 16 * 32 * states,
            "state": 16 * states,
        }
    else:
        # layers of two steps as cosines and sines, diagonals of every profile, and copies of the state
        stages = 2 * 2 * 2 * 40
        parts = {"layers": 8 * stages * states, "diagonals": 8 * 6 * (2 + len(problem.kinks)) * states}
        parts["state"] = 16 * 6 * states
        if len(twos) <= BATCH_SPINS:
            # all trajectories at once: states, their copies in other frames, and moments; a plan has no device
            together = min(problem.members, BATCH[getattr(problem.device, "kind", "cpu")])
            parts["batch"] = together * (48 * states + 24 * len(twos) ** 2)
    needs = problem.observables.needs
    row = 10 + 3 * len(twos) + sum(len(p) for p in needs.pairs.values()) + 3 * len(needs.cuts)
    return parts, 8 * row * len(problem.times) * 8


def digit_memory(problem: Problem) -> tuple[dict[str, int], int]:
    """Return the memory of an evolution of larger spins, as `memory` does."""
    space = problem.space
    state = (8 if problem.precision == "single" else 16) * space.dimension
    model, needs = problem.hamiltonian().envelope, problem.observables.needs
    assert isinstance(model, SpinModel)
    parts = {"state": state}
    if problem.path != "bonds":
        parts[problem.path] = (KRYLOV_VECTORS if problem.path == "krylov" else 3) * state
    # a formula takes the strings alone, H psi the terms
    parts["tables"] = term_bytes(model, [space])
    if needs.reference is not None:
        parts["fidelity"] = 16 * model.dimension + state
    parts |= _beside(problem, state)
    # of entropies: blocks of the Schmidt matrix, and their places
    parts["observables"] = (6 if needs.cuts else 2) * state
    if space.axis != "z":
        # taken from the state of all spins, which is turned
        parts["observables"] += 48 * model.dimension
    return parts, _rows(problem, problem.spins)


def sector_memory(
    problem: Problem, spins: int | None = None, single: bool | None = None, path: Path | None = None
) -> tuple[dict[str, int], int]:
    """Return the memory of an evolution in a sector, as `memory` does; other numbers of spins have the same share of spins down.

    Parameters
    ----------
    path : Path, optional
        By default the path of the problem.
    """
    sector = problem.sector
    assert isinstance(sector, Sector)
    chosen = problem.spins if spins is None else spins
    single = problem.precision == "single" if single is None else single
    # other sizes keep the magnetisation per spin
    down = sector.down if chosen == problem.spins else round(sector.down * chosen / problem.spins)
    states = math.comb(chosen - bool(sector.inversion), min(down, chosen - bool(sector.inversion)))
    state = (8 if single else 16) * states
    path = problem.path if path is None else path
    # ranks and strings of both parts, and energies, of 2^(N / 2) entries each
    tables = (chosen + 40) << ((chosen + 1) // 2 + 2)
    vectors: dict[str, int] = {}
    if path == "bonds":
        # nothing beside the state, but the columns that each pair of sites of the low part turns over
        tables += (3 * (chosen // 2) ** 2 // 2) << (chosen // 2)
    elif path == "krylov":
        vectors["krylov"] = KRYLOV_VECTORS * state
    else:
        vectors["chebyshev"] = 2 * state
    parts = {"state": state, **vectors, "tables": tables}
    needs = problem.observables.needs
    parts |= _beside(problem, state)
    # H psi, for the energy; moments have pieces of the vector
    moments = 3 << 20
    work = state
    if path == "bonds" and not needs.variance and not problem.has_tensors:
        work = moments
    if needs.reference is not None:
        parts["fidelity"] = (16 << chosen) + state
    if needs.cuts:
        # the largest Gram matrix, of half of the spins down in the part
        half = max(math.comb(part, part // 2) for part in _parts(problem, chosen))
        work = max(
            work, (2 * state if sector.inversion else 0) + 16 * 4 * half**2 + 16 * min(1 << 22, states)
        )
    # the state of the file fills the whole space, and that of which unlike components are taken
    if State in problem.observables or needs.unlike:
        work = max(work, (16 << chosen) + 32 * states)
    parts["observables"] = work
    return parts, _rows(problem, chosen)


def memory_on_gpu(problem: Problem, parts: Mapping[str, int]) -> int:
    """Return the bytes that the memory pool of a GPU holds beyond the needs of a CPU (measured peaks, H100).

    Chebyshev expansions and the comparison of a step by the pilot leave vectors in the pool: its two vectors for either start,
    and the state that is made anew.
    """
    state = parts["state"]
    if problem.sector is not None or problem.open is not None:
        # arrays of the sector are pieces
        return 0
    if "chebyshev" in parts:
        return GPU_EXPANSION * state
    if not PILOT_SPINS < problem.spins <= COMPARED_SPINS:
        return 0
    vector = 16 << problem.spins
    held = (4 if problem.start.is_random else 5) * vector + parts.get("initial state", 0)
    held += parts["observables"] if problem.observables.needs.cuts else 0
    return max(0, held - sum(parts.values()))


def _work(problem: Problem, spins: int, state: int) -> int:
    """Return the bytes that the observables take in passing, of which the largest counts."""
    # sums of the moments for every 4096 amplitudes: 79 doubles, 13, a copy (a GPU: 13)
    most = 840 << max(spins - 12, 0)
    if problem.observables.needs.unlike:
        # the state of all spins, and an operator of either site times it
        most = max(most, 48 << spins)
    if problem.observables.needs.variance:
        model = problem.hamiltonian().envelope
        # a plan has no device
        cuda = getattr(problem.device, "is_cuda", False)
        work = state if form_of(model.J, model.h, cuda=cuda) == "frames" else 0
        most = max(most, state + work)
    for rows in _parts(problem, spins):
        # as in entanglement.entropy_bytes, which would load the kernels
        piece = min(spins, 20)
        matrix, gathered = 16 << 2 * rows, 40 << max(rows, piece)
        most = max(most, 2 * matrix + gathered, 3 * matrix)
    return most


def _parts(problem: Problem, spins: int) -> list[int]:
    """Return the sites of the smaller part of every cut; among other numbers of spins a cut keeps its share of them."""
    sites = [round(len(cut) * spins / problem.spins) for cut in problem.observables.needs.cuts]
    return [min(part, spins - part) for part in sites]


def _batch(problem: Problem, spins: int) -> int:
    """Return the number of trajectories that are carried together."""
    constant = not problem.models.driven and problem.evolution.integrator not in (
        "chebyshev",
        "krylov",
        "auto",
    )
    if spins > BATCH_SPINS or not constant or problem.observables.needs.sigma_sites:
        return 1
    # a plan has no device
    kind = getattr(problem.device, "kind", "cpu")
    return min(problem.members, BATCH[kind])


def _passing(problem: Problem, spins: int, state: int, expansion: int, run: int) -> dict[str, int]:
    """Return the bytes that stages before and after the evolution take beyond its own."""
    stages: dict[str, int] = {}
    if PILOT_SPINS < spins <= COMPARED_SPINS and not expansion and 2 * (16 << spins) > run:
        # a step of the whole system, in double precision
        stages["pilot"] = 2 * (16 << spins) - run
    if problem.evolution.verify:
        echo = problem.echo
        # states of the run that are kept, and states of the repetition
        kept = state * (1 + (echo is not None and echo.overlap))
        replay = state * (1 + (echo is not None)) + expansion
        start = state if echo is not None and not echo.overlap else 0
        stages["verification"] = max(0, kept + replay + start - run - sum(stages.values()))
    return stages
