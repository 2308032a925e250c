"""The problem of a run: Hamiltonians, initial states, times and observables."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.evolve.open.statistics import Enough, ranges_of
from qsim.trotter.initial.ground import GroundState
from qsim.trotter.measurement.spaces import all_states, operator_in, strings_of_deck
from qsim.trotter.model.frames import FRAMES
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.model.open.channels import charge_of, decays_of
from qsim.trotter.observables.correlations import Otoc
from qsim.trotter.observables.echo import Echo
from qsim.trotter.sectors.ground import lowest_of
from qsim.trotter.sectors.parity import WholeSpace
from qsim.trotter.sectors.selection import frame_of, leaving, lowered_of, space_with, spaces_of
from qsim.trotter.sectors.states import normalised
from qsim.trotter.sectors.symmetric import SymmetricSector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qsim.core.device.arrays import StateVector
    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.core.device.parallel import Comm
    from qsim.trotter.deck.model import Evolve
    from qsim.trotter.deck.open.dissipation import Open
    from qsim.trotter.evolve.trajectories.averages import Averages
    from qsim.trotter.initial.base import InitialState
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.model.frames import Frame
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.model.models import Models
    from qsim.trotter.model.open.channels import Channel
    from qsim.trotter.observables.base import Observable
    from qsim.trotter.observables.registry import Observables
    from qsim.trotter.sectors.ground import Ground

__all__ = ["MOST_STEPS", "PIECE", "Path", "Problem"]

# amplitudes times layers of one call: of the order of a second
PIECE = {"cpu": 1e8, "cuda": 5e10}
# of one call: where the state is small, launches take the time
MOST_STEPS = 5000


Drift = Literal["layers", "sparse", "unitary"]

Path = Literal["layers", "bonds", "chebyshev", "krylov"]
"""Method that propagates states.

layers
    A product formula of diagonal layers in the whole space, or a Chebyshev expansion where that is cheaper.
bonds
    A product formula of bonds: in a sector of Sz or of a parity, of larger spins, and of couplings that have no layers.
chebyshev
    Expansions of exp(-iHt), of a constant H in a sector or with couplings that have no layers.
krylov
    Exponentials in Krylov spaces, of Magnus steps where H depends on time.
"""


@dataclass
class Problem:
    """Everything that a run needs.

    Attributes
    ----------
    device : Device
    models : Models
        Couplings and fields of every trajectory.
    start : InitialState
        Initial state of the deck, of which every trajectory makes its own.
    evolution : Evolve
        Integrator with its step or accuracy.
    observables : Observables
        Observables of the deck.
    precision : {"single", "double"}
        Of the amplitudes.
    times : list of float
        All times at which the evolution stops, 0 and t_final among them, 1/J.
    output_times : list of float
        Output times of the deck, which the arrays hold.
    sector : Space or None
        Space of conserved Sz, parity or character of symmetries in which the states are carried; None for all states.
    ranks : int
        Processes that share each state.
    links : Links or None
        To them, as soon as the steps are chosen.
    team : Comm or None
        Processes that share the pilot runs: those that will share the trajectories.
    channels : list of Channel
        Jump operators of an open system.
    entries : int
        Entries of the deck that they come from.
    open : Open or None
        How an open system is carried; None for a closed one.
    jumping : bool
        True if it is carried by trajectories.
    """

    task: ClassVar[str] = "evolve"

    device: Device
    models: Models
    start: InitialState
    evolution: Evolve
    observables: Observables
    precision: Literal["single", "double"]
    times: list[float]
    output_times: list[float]
    sector: Space | None = None
    notices: list[str] = field(default_factory=list)
    ranks: int = 1
    links: Links | None = None
    team: Comm | None = None
    channels: list[Channel] = field(default_factory=list)
    entries: int = 0
    open: Open | None = None
    jumping: bool = False
    _grounds: dict[int, tuple[Space, Ground]] = field(default_factory=dict, init=False, repr=False)
    _elsewhere: dict[Any, Problem] = field(default_factory=dict, init=False, repr=False)
    _hamiltonians: dict[int, Hamiltonian] = field(default_factory=dict, init=False, repr=False)

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.models.spins

    @property
    def dimension(self) -> int:
        """Number of amplitudes of a state."""
        return 1 << self.spins if self.sector is None else self.sector.dimension

    @property
    def space(self) -> Space:
        """Space of the states."""
        return WholeSpace(self.spins) if self.sector is None else self.sector

    @property
    def frame(self) -> Frame:
        """Axes along which the strings of the space are written."""
        return FRAMES[self.space.axis]  # type: ignore[index]

    @property
    def charged(self) -> bool:
        """True if the states have one total Sz."""
        return not math.isnan(self.space.sz)

    @property
    def has_matrix(self) -> bool:
        """True if H is a stored matrix: the states have a character of permutations."""
        return bool(self.space.symmetries)

    @property
    def has_tensors(self) -> bool:
        """True if different components of two spins are coupled, of which there are no layers."""
        return self.models.has_tensors

    @property
    def path(self) -> Path:
        """Method that propagates the states: everything that depends on it asks here."""
        # no layers exist in sectors, nor for couplings of different components
        no_layers = self.sector is not None or self.has_tensors
        if no_layers and self.evolution.integrator not in ("chebyshev", "krylov", "auto"):
            return "bonds"
        driven = self.models.driven or self.models.driven_sigma
        if self.evolution.integrator == "krylov" or (driven and no_layers):
            return "krylov"
        return "chebyshev" if no_layers else "layers"

    @cached_property
    def drift(self) -> Drift:
        """Method that carries the states of an open system between their jumps."""
        decays = decays_of(self.channels, self.models.system.twos)
        local = all(channel.local for channel in self.channels)
        halves = self.models.system.halves
        stays = self.sector is None or all(charge_of(channel) == 0 for channel in self.channels)
        if halves and local and stays and all(decay.is_constant for decay in decays):
            return "unitary"
        plain = halves and not self.has_tensors and all(decay.model.cross is None for decay in decays)
        return "layers" if plain and self.sector is None else "sparse"

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Times at which a profile of H or of a rate is not smooth, where they are known."""
        factors = [*(f for f, _ in self.hamiltonian().driven), *(c.factor for c in self.channels)]
        found = {k for f in factors for k in (getattr(f, "kinks", None) or ()) if 0.0 < k < self.times[-1]}
        return tuple(sorted(found))

    @cached_property
    def longest(self) -> float:
        """Longest step between two looks at the norm of an open system: some jumps of the whole system."""
        rate = sum(float((np.abs(channel.w) ** 2).sum()) for channel in self.channels)
        return 2.0 / rate if rate > 0.0 and self.drift == "sparse" else math.inf

    @cached_property
    def enough(self) -> Callable[[Averages], bool] | None:
        """Rule by which no more trajectories are made; None where their number is given."""
        if self.open is None or self.open.target_error is None:
            return None
        return Enough(ranges_of(self.models), self.open.target_error, self.output_times[0] == 0.0)

    def in_space(self, space: Space) -> Problem:
        """Return the problem in another space, to which a jump leads."""
        if space == self.sector:
            return self
        if space not in self._elsewhere:
            self._elsewhere[space] = replace(self, sector=space)
        return self._elsewhere[space]

    @property
    def part(self) -> slice:
        # rank r holds the amplitudes whose top bits spell r
        """Amplitudes of a state that this process has: all, or those whose top bits are its number."""
        ranks, rank = (1, 0) if self.links is None else (self.links.size, self.links.rank)
        size = self.dimension // ranks
        return slice(rank * size, (rank + 1) * size)

    @property
    def members(self) -> int:
        """Number of trajectories: realisations times states, the states of one realisation in a row."""
        return self.models.disorder * self.models.states

    @property
    def group(self) -> int:
        """Trajectories whose average is one sample of the ensemble."""
        # with disorder a realisation is one sample: its states are averaged first
        return self.models.states if self.models.disorder > 1 else 1

    @property
    def dtype(self) -> Any:
        """Type of the amplitudes."""
        return np.complex64 if self.precision == "single" else np.complex128

    @cached_property
    def stored(self) -> list[int]:
        """Numbers of the times that are output times."""
        return [bisect.bisect_left(self.times, t) for t in self.output_times]

    # ------------------------------------------------------------------------------ models and states

    def hamiltonian(self, member: int = 0) -> Hamiltonian:
        """Return the Hamiltonian of a trajectory; the last one is kept for those of one realisation of the disorder."""
        realisation = self.models.realisation(member)
        if realisation not in self._hamiltonians:
            self._hamiltonians.clear()
            self._hamiltonians[realisation] = self.models.hamiltonian(member)
        return self._hamiltonians[realisation]

    def sigma(self, member: int = 0) -> Hamiltonian:
        """Return the perturbation of the echo of a trajectory."""
        return self.models.sigma(member)

    def initial(self, member: int) -> StateVector:
        """Return a new array on the device with the initial state of a trajectory: all of it, or the part of this process."""
        # a part of a state is made where it lives, never the whole
        device, dtype, seed = self.device, self.dtype, self.models.seed
        if self.links is not None:
            return self.start.part(self.spins, device, dtype, self.part, seed=seed)
        if isinstance(self.start, GroundState):
            return self._ground_vector(member)
        if self.sector is not None:
            from qsim.trotter.sectors.states import initial_state

            return initial_state(self.start, self.sector, device, dtype, seed=seed, member=member)
        return self.start.vector(self.spins, device, dtype, seed=seed, member=member)

    def ground(self, member: int = 0) -> tuple[Space, Ground]:
        """Return the ground state that a trajectory begins with, and its space; the last one is kept.

        Raises
        ------
        DeckError
            If its Hamiltonian does not conserve an Sz that another realisation has.
        NumericsError
            If it is degenerate.
        """
        realisation = self.models.realisation(member)
        # ensembles go through the realisations in order: one ground state is enough
        if realisation not in self._grounds:
            self._grounds.clear()
            model = self.models.ground(member).at(0.0)
            operators: list[Any] = [
                operator_in(space, self.device, _along(space, model)) for space in self._ground_spaces(model)
            ]
            self._grounds[realisation] = lowest_of(operators, scale_of(model))
        return self._grounds[realisation]

    def _ground_spaces(self, model: Model) -> Sequence[Space]:
        """Return where the ground state of a Hamiltonian is sought: in the space of the run, or in all that it conserves."""
        space, down = self.space, lowered_of(self.models, self.start)
        narrower = (down is None or self.charged) and space != all_states(space)
        if narrower and not leaving(space, _along(space, model)):
            return [space]
        if down is None:
            frame = frame_of(model, "auto", "")
            return spaces_of(frame.turned(model), "auto", frame.axis)
        own = space_with(model, down)
        if isinstance(space, SymmetricSector) and (
            2 * down == self.models.system.quanta or not any(one.turned for one in space.symmetries)
        ):
            # with the characters of the run, where they are those of H
            narrow = replace(space, base=own)
            if narrow.dimension and not leaving(narrow, model):
                return [narrow]
        if why := leaving(own, model):
            raise DeckError(f"initial.terms: a ground state is sought at one Sz, but {why}")
        return [own]

    def _ground_vector(self, member: int) -> StateVector:
        own, ground = self.ground(member)
        vector = ground.vector.astype(self.dtype)
        if own == self.sector:
            return vector
        # made in its own space, then unfolded for runs elsewhere
        state = strings_of_deck(own, self.device, vector, own.axis)
        return normalised(self.space, self.part_of(state), self.start)

    def part_of(self, state: StateVector) -> StateVector:
        """Return the part in the space of a state of all spins along the axes of the deck."""
        from qsim.trotter.sectors.states import restricted

        turned = strings_of_deck(all_states(self.space), self.device, state, self.space.axis)
        return restricted(self.space, self.device, turned).astype(self.dtype, copy=False)

    def whole(self, psi: StateVector) -> StateVector:
        """Return a vector of the space as a state of all spins along the axes of the deck."""
        state = strings_of_deck(self.space, self.device, psi, self.space.axis)
        return state.astype(psi.dtype, copy=False)

    @property
    def start_error(self) -> float:
        """Bound of the error of the start of the first trajectory."""
        return self.ground()[1].error if isinstance(self.start, GroundState) else 0.0

    # ----------------------------------------------------------------------------------------- echoes

    def times_of(self, kind: type[Observable]) -> list[int]:
        """Return the numbers of the times at which an observable is taken: all, the last output time, or some even ones."""
        observable = self.observables.get(kind)
        if observable is None:
            return []
        times = observable.times
        if observable.everywhere:
            return list(range(len(self.times)))
        # the last output time, or a number of them, evenly chosen, the last among them
        count = min(times, len(self.stored)) if isinstance(times, int) else 1
        last = len(self.stored) - 1
        return sorted({self.stored[round(last * (k + 1) / count)] for k in range(count)})

    @cached_property
    def echo(self) -> Echo | None:
        """The echo of the run, None without one."""
        return self.observables.get(Echo)

    @cached_property
    def echo_at(self) -> list[int]:
        """Numbers of the times after which the echo is taken."""
        return self.times_of(Echo)

    @cached_property
    def otoc_at(self) -> list[int]:
        """Numbers of the times at which the out-of-time-order correlators are taken."""
        return self.times_of(Otoc)

    def different_hamiltonians(self, member: int = 0) -> list[Hamiltonian]:
        """Return the Hamiltonian of a trajectory, and the one of the way back where it differs."""
        forward = self.hamiltonian(member)
        perturbed = self.echo is not None and self.echo.perturbed
        return [forward, forward + self.sigma(member)] if perturbed else [forward]

    # --------------------------------------------------------------------------------------- stepping

    def steps(self, k: int, dt: float | None) -> tuple[int, float]:
        """Return number and length of the steps from time k to time k + 1."""
        interval = self.times[k + 1] - self.times[k]
        # expansions and Krylov steps go from time to time
        if dt is None:
            return 1, interval
        # 1e-12: an interval that is a multiple of dt but for rounding gets no step more
        count = max(1, math.ceil(interval / dt * (1.0 - 1e-12)))
        return count, interval / count

    def pieces(self, steps: int, layers: int) -> Iterator[int]:
        """Yield the steps of each call: a split that depends on the deck alone, so that resumed runs repeat it."""
        # of about a second, so that reports and checkpoints come in time
        largest = max(1, min(MOST_STEPS, int(PIECE[self.device.kind] / (self.dimension * max(layers, 1)))))
        while steps > 0:
            yield min(steps, largest)
            steps -= largest


def _along(space: Space, model: Model) -> Model:
    """Return a model along the axes of the strings of a space."""
    return FRAMES[space.axis].turned(model)  # type: ignore[index]
