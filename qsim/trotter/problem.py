"""The problem of a run: Hamiltonian, initial state, times and observables."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.load import LoadedDeck
from qsim.core.errors import DeckError
from qsim.trotter.deck.initial import GroundStateInitial, is_random
from qsim.trotter.deck.model import TrotterDeck, correlator_axes

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.ground import Ground

__all__ = ["AXES", "MOST_STEPS", "PIECE", "Problem", "memory", "memory_on_gpu"]

AXES = ("x", "y", "z")
GROUND_TERMS = (
    1000  # number of the first term of a ground state, by which its disorder is apart from all other
)
BATCH_SPINS = 12  # up to which trajectories are carried together, as in batch.LARGEST
BATCH = {"cpu": 64, "cuda": 1024}  # as in ensemble.MOST
PILOT_SPINS, COMPARED_SPINS = 12, 26  # as in pilot and pilots
GPU_EXPANSION = 3  # state vectors that the memory pool holds beside those of a Chebyshev expansion
PIECE = {"cpu": 1e8, "cuda": 5e10}  # amplitudes times layers of one call: of the order of a second
MOST_STEPS = 5000  # of one call: where the state is small, launches take the time


@dataclass
class Problem:
    """Everything that a run needs.

    Attributes
    ----------
    times : list of float
        All times at which the evolution stops, 0 and t_final among them, 1/J.
    output_times : list of float
        Those of the deck, which the arrays hold.
    seed : int
        Seed of the run.
    """

    deck: TrotterDeck
    device: Device
    times: list[float]
    output_times: list[float]
    seed: int
    loaded: LoadedDeck[TrotterDeck] | None = None
    notices: list[str] = field(default_factory=list)
    _grounds: dict[int, Ground] = field(default_factory=dict, init=False, repr=False)

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.deck.system.spins

    @cached_property
    def sector(self) -> Sector | None:
        """Sector of conserved Sz in which the states are carried; None for the whole space.

        Raises
        ------
        DeckError
            If the deck asks for one that H or the start do not stay in.
        """
        from qsim.trotter.sectors.choice import sector_of

        if self.deck.sector in ("full", "none"):
            return None
        return sector_of(self.deck, self.hamiltonian(), self.sigma() if self.echo_sigma else None)

    @property
    def dimension(self) -> int:
        """Number of amplitudes of a state."""
        return 1 << self.spins if self.sector is None else self.sector.dimension

    @property
    def members(self) -> int:
        """Number of trajectories: realisations times states, the states of one realisation in a row."""
        return self.deck.ensemble.disorder * self.deck.ensemble.states

    @property
    def group(self) -> int:
        """Trajectories whose average is one sample of the ensemble."""
        return self.deck.ensemble.states if self.deck.ensemble.disorder > 1 else 1

    @property
    def dtype(self) -> Any:
        """Type of the amplitudes."""
        return np.complex64 if self.deck.run.precision == "single" else np.complex128

    @cached_property
    def stored(self) -> list[int]:
        """Numbers of the times that are output times."""
        return [bisect.bisect_left(self.times, t) for t in self.output_times]

    # ------------------------------------------------------------------------------ models and states

    def hamiltonian(self, member: int = 0) -> Hamiltonian:
        """Return the Hamiltonian of a trajectory."""
        from qsim.trotter.model.hamiltonian import build_hamiltonian

        realisation = member // self.deck.ensemble.states
        return build_hamiltonian(self.deck.system, seed=self.seed, realisation=realisation)

    def sigma(self, member: int = 0) -> Hamiltonian:
        """Return the perturbation of the echo of a trajectory."""
        from qsim.trotter.model.hamiltonian import build_hamiltonian

        system, realisation = self.deck.system, member // self.deck.ensemble.states
        return build_hamiltonian(
            system,
            seed=self.seed,
            realisation=realisation,
            terms=self.echo.sigma,
            first=len(system.terms),
        )

    def initial(self, member: int) -> Any:
        """Return a new array (dimension,) on the device with the initial state of a trajectory."""
        from qsim.trotter.states import initial as states

        if isinstance(self.deck.initial, GroundStateInitial):
            return self._ground_vector(member)
        if self.sector is not None:
            from qsim.trotter.sectors.states import initial_state

            return initial_state(
                self.deck.initial, self.sector, self.device, self.dtype, seed=self.seed, member=member
            )
        return states.initial_state(
            self.deck.initial, self.spins, self.device, self.dtype, seed=self.seed, member=member
        )

    def ground(self, member: int = 0) -> Ground:
        """Return the ground state that a trajectory begins with; the last one is kept.

        Raises
        ------
        DeckError
            If its Hamiltonian does not conserve Sz.
        """
        from qsim.trotter.model.hamiltonian import build_hamiltonian
        from qsim.trotter.sectors.basis import Sector
        from qsim.trotter.sectors.choice import definite_down, obstacle
        from qsim.trotter.sectors.ground import ground_state

        block, realisation = self.deck.initial, member // self.deck.ensemble.states
        assert isinstance(block, GroundStateInitial)
        if realisation not in self._grounds:
            terms = build_hamiltonian(
                self.deck.system,
                seed=self.seed,
                realisation=realisation,
                terms=block.terms,
                first=GROUND_TERMS,
            )
            down = definite_down(block, self.spins)
            assert down is not None
            sector = self.sector or Sector(self.spins, down)
            if why := obstacle(terms, sector.inversion):
                raise DeckError(f"initial.terms: a ground state is found in a sector of Sz, but {why}")
            self._grounds.clear()
            self._grounds[realisation] = ground_state(self.device, sector, terms.at(0.0))
        return self._grounds[realisation]

    def _ground_vector(self, member: int) -> Any:
        from qsim.trotter.sectors.basis import Sector
        from qsim.trotter.sectors.choice import definite_down
        from qsim.trotter.sectors.states import whole_state

        vector = self.ground(member).vector.astype(self.dtype)
        if self.sector is not None:
            return vector
        return whole_state(
            Sector(self.spins, definite_down(self.deck.initial, self.spins) or 0), self.device, vector
        )

    @property
    def start_error(self) -> float:
        """Bound of the error of the start of the first trajectory."""
        return self.ground().error if isinstance(self.deck.initial, GroundStateInitial) else 0.0

    # ------------------------------------------------------------------------------------ observables

    def sites(self, axis: str) -> list[int] | None:
        """Return the sites whose S along an axis is stored, None if it is not."""
        asked = self.deck.observed(f"s{axis}")
        if asked is None or asked == "total":
            return None
        return list(range(self.spins)) if asked == "all" else list(asked)

    @cached_property
    def totals(self) -> list[str]:
        """Axes along which the total spin is stored; z always."""
        asked = self.deck.observed("total")
        found = {"z"} | {a for a in AXES if self.deck.observed(f"s{a}") is not None}
        if asked is not None:
            found |= set(AXES) if asked == "all" else set(asked)
        return [a for a in AXES if a in found]

    @cached_property
    def pairs(self) -> dict[str, list[tuple[int, int]]]:
        """Pairs [j, k] of each correlator, by its axes such as ``zz``."""
        found: dict[str, list[tuple[int, int]]] = {}
        for item in self.deck.observe:
            for axes in correlator_axes(item):
                if isinstance(item.pairs, list):
                    found[axes] = [(min(j, k), max(j, k)) for j, k in item.pairs]
                else:
                    found[axes] = list(combinations(range(self.spins), 2))
        return found

    @property
    def shared_pairs(self) -> bool:
        """True if all correlators have the same pairs."""
        lists = list(self.pairs.values())
        return all(pairs == lists[0] for pairs in lists)

    @property
    def autocorrelation_site(self) -> int | None:
        """Site of the autocorrelation, None if it is not asked for."""
        found = (item.autocorrelation for item in self.deck.observe)
        return next((site for site in found if site is not None), None)

    @cached_property
    def cuts(self) -> list[list[int]]:
        """Sites of every entropy that is asked for."""
        found = [item.entropy.parts(self.spins) for item in self.deck.observe if item.entropy is not None]
        return [cut for cuts in found for cut in cuts]

    @cached_property
    def entropies(self) -> list[str]:
        """Kinds of entropy beside that of von Neumann: ``number``, ``renyi2``."""
        kinds = [
            kind for item in self.deck.observe if item.entropy is not None for kind in item.entropy.kinds
        ]
        return [kind for kind in ("number", "renyi2") if kind in kinds]

    @cached_property
    def schmidt(self) -> int:
        """How many Schmidt values are stored of every cut; 0 for none."""
        return max(
            (item.entropy.spectrum for item in self.deck.observe if item.entropy is not None), default=0
        )

    @property
    def echo(self) -> Any:
        """The echo block, None if no echo is asked for."""
        return self.deck.observed("echo")

    @property
    def echo_sigma(self) -> bool:
        """True if the way back differs from the way forward."""
        return self.echo is not None and bool(self.echo.sigma)

    @property
    def echo_everywhere(self) -> bool:
        """True if the echo is taken at every output time."""
        return self.echo is None or self.echo.times in ("all", "output")

    @cached_property
    def echo_at(self) -> list[int]:
        """Numbers of the times after which the echo is taken."""
        if self.echo is None:
            return []
        if self.echo_everywhere:
            return list(range(len(self.times)))
        count = 1 if self.echo.times == "final" else min(self.echo.times, len(self.stored))
        last = len(self.stored) - 1
        return sorted({self.stored[round(last * (k + 1) / count)] for k in range(count)})

    # --------------------------------------------------------------------------------------- stepping

    def steps(self, k: int, dt: float | None) -> tuple[int, float]:
        """Return number and length of the steps from time k to time k + 1."""
        interval = self.times[k + 1] - self.times[k]
        if dt is None:
            return 1, interval
        count = max(1, math.ceil(interval / dt * (1.0 - 1e-12)))
        return count, interval / count

    def pieces(self, steps: int, layers: int) -> Iterator[int]:
        """Yield the steps of each call: a split that depends on the deck alone, so that resumed runs repeat it."""
        largest = max(1, min(MOST_STEPS, int(PIECE[self.device.kind] / (2.0**self.spins * max(layers, 1)))))
        while steps > 0:
            yield min(steps, largest)
            steps -= largest


def memory(
    problem: Problem, spins: int | None = None, single: bool | None = None
) -> tuple[dict[str, int], int]:
    """Return bytes on the device by part, and bytes of the stored rows in host memory."""
    deck = problem.deck
    if problem.sector is not None:
        return sector_memory(problem, spins, single)
    spins = problem.spins if spins is None else spins
    single = deck.run.precision == "single" if single is None else single
    state = (8 if single else 16) << spins
    parts = {"state": state}
    echo, expansion = problem.echo, 3 * state if deck.evolve.integrator == "chebyshev" else 0
    if deck.observed("return_probability") or (echo is not None and not echo.overlap):
        parts["initial state"] = state
    if echo is not None:
        parts["echo"] = state
    if expansion:
        parts["chebyshev"] = expansion
    if (batch := _batch(problem, spins)) > 1:
        # of the states and what is measured of them: copies in other frames, and moments
        parts["batch"] = (batch - 1) * sum(parts.values()) + batch * (3 * state + 24 * spins**2)
    if deck.observed("fidelity") is not None:
        parts["fidelity"] = state
    parts["observables"] = _work(problem, spins, state)
    parts |= _passing(problem, spins, state, expansion, sum(parts.values()))
    row = 2 + 3 * spins + sum(len(p) for p in problem.pairs.values()) + len(problem.cuts) + 8
    host = 8 * row * len(problem.times) * (4 if problem.members > 1 else 2)
    if deck.initial.type == "mps":
        host += state
    return parts, host


def sector_memory(
    problem: Problem, spins: int | None = None, single: bool | None = None
) -> tuple[dict[str, int], int]:
    """Return what `memory` does, of an evolution in a sector; other numbers of spins have the same share of them down."""
    deck, sector = problem.deck, problem.sector
    assert sector is not None
    chosen = problem.spins if spins is None else spins
    single = deck.run.precision == "single" if single is None else single
    down = sector.down if chosen == problem.spins else round(sector.down * chosen / problem.spins)
    states = math.comb(chosen - bool(sector.inversion), min(down, chosen - bool(sector.inversion)))
    state = (8 if single else 16) * states
    parts = {"state": state, "chebyshev": 2 * state, "tables": (chosen + 40) << ((chosen + 1) // 2 + 2)}
    echo = problem.echo
    if deck.observed("return_probability") or (echo is not None and not echo.overlap):
        parts["initial state"] = state
    if echo is not None:
        parts["echo"] = state
    work = state  # H psi, for the energy
    if problem.cuts:
        half = max(
            math.comb(min(len(cut), chosen - len(cut)), min(len(cut), chosen - len(cut)) // 2)
            for cut in problem.cuts
        )
        work = max(work, (2 * state if sector.inversion else 0) + 16 * 4 * half**2 + (16 << 22))
    if deck.observed("state"):
        work = max(work, (16 << chosen) + 32 * states)
    parts["observables"] = work
    row = (
        2
        + 3 * chosen
        + sum(len(p) for p in problem.pairs.values())
        + (2 + 2 * problem.schmidt) * len(problem.cuts)
        + 8
    )
    return parts, 8 * row * len(problem.times) * (4 if problem.members > 1 else 2)


def memory_on_gpu(problem: Problem, parts: Mapping[str, int]) -> int:
    """Return the bytes that the memory pool of a GPU holds beyond those of a CPU (measured peaks, H100).

    Chebyshev expansions and the comparison of a step by the pilot leave vectors in the pool: its two vectors for either start,
    and the state that is made anew.
    """
    state = parts["state"]
    if problem.sector is not None:
        return 0  # arrays of the sector are pieces
    if "chebyshev" in parts:
        return GPU_EXPANSION * state
    if not PILOT_SPINS < problem.spins <= COMPARED_SPINS:
        return 0
    vector = 16 << problem.spins
    held = (4 if is_random(problem.deck.initial) else 5) * vector + parts.get("initial state", 0)
    held += parts["observables"] if problem.cuts else 0
    return max(0, held - sum(parts.values()))


def _work(problem: Problem, spins: int, state: int) -> int:
    """Return the bytes that the observables take in passing, of which the largest counts."""
    # sums of the moments for every 4096 amplitudes: 79 doubles, 13, a copy (a GPU: 13)
    found = 840 << max(spins - 12, 0)
    if problem.deck.observed("energy_variance"):
        found = max(found, 2 * state)
    for cut in problem.cuts:
        # as in observables.entropy_bytes, which would load the kernels
        rows, piece = min(len(cut), spins - len(cut)), min(spins, 20)
        matrix, gathered = 16 << 2 * rows, 40 << max(rows, piece)
        found = max(found, 2 * matrix + gathered, 3 * matrix)
    return found


def _batch(problem: Problem, spins: int) -> int:
    """Return the number of trajectories that are carried together."""
    constant = not problem.deck.driven and problem.deck.evolve.integrator not in ("chebyshev", "auto")
    if spins > BATCH_SPINS or not constant:
        return 1
    kind = getattr(problem.device, "kind", "cpu")  # a plan has no device
    return min(problem.members, BATCH[kind])


def _passing(problem: Problem, spins: int, state: int, expansion: int, run: int) -> dict[str, int]:
    """Return the bytes that stages before and after the evolution take beyond its own."""
    deck, found = problem.deck, {}
    if PILOT_SPINS < spins <= COMPARED_SPINS and not expansion and 2 * (16 << spins) > run:
        found["pilot"] = 2 * (16 << spins) - run  # a step of the whole system, in double precision
    if deck.evolve.verify:
        kept = state * (1 + (problem.echo is not None and problem.echo.overlap))
        replay = state * (1 + (problem.echo is not None)) + expansion
        start = state if problem.echo is not None and not problem.echo.overlap else 0
        found["verification"] = max(0, kept + replay + start - run - sum(found.values()))
    return found
