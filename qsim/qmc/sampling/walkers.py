"""An ensemble of walkers: positions, Slater matrices and local energies on a device.

The ranks of a run share the ensemble: each moves its own walkers, with the random numbers that they have on one rank.  The sums
of blocks of walkers are brought together, so that every rank takes the same sums and makes the same choices, to the bit those
of one rank.  Everything else of foreign walkers is out of date on a rank, until walkers that branching puts in its places are
fetched.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from qsim.core.device import rng
from qsim.core.device.parallel import gathered, world
from qsim.core.errors import NumericsError
from qsim.qmc.kernels.common.types import State
from qsim.qmc.kernels.molecule.types import OrbitalTables, on_gpu
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.rows import copy_rows, put_rows, take_rows
from qsim.qmc.kernels.walkers.walk_cpu import PLAIN
from qsim.qmc.sampling.exchange import bounds, crossing, groups, has_whole_groups
from qsim.qmc.sampling.messages import Message
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.arrays import Array, FloatArray, IndexArray
    from qsim.core.device.device import Device
    from qsim.qmc.estimators.collection import Estimators
    from qsim.qmc.sampling.branching import Population
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

TablesT = TypeVar("TablesT", bound=NamedTuple)

__all__ = ["Branched", "Walkers", "empty_state", "tables_of"]

PLACING = 0xFFFF  # stream of the random numbers that place walkers at the start
LIGHT = ("energy", "weight", "moves", "age")  # what a section begins with on every rank
KEPT = ("R", *LIGHT)  # what cannot be computed from the positions
HOST = 1 << 16  # walkers up to which a GPU is slower than the host in choosing among all of them
SPREAD = 1.0  # bohr, of electrons around their atom at the start
ORDERS = 32  # of the atoms of a molecule, by which walkers differ at the start
FAR_SWEEPS = 40  # sweeps of far moves before the warm-up
FAR = (0.1, 0.4, 1.6, 6.4)  # their variances, over that of the places where electrons start
SHRINKS = 40  # times that a walker is drawn to the atoms, half the way each, until no orbital vanishes for it


class Branched(NamedTuple):
    """Weights that walkers had before they branched.

    Attributes
    ----------
    sums : (3,) int64
        Of this rank, as of :func:`~qsim.qmc.kernels.walkers.branching.weigh_walkers`, on the device.
    weights : (own walkers,) float64
        On the device.
    """

    sums: NDArray[np.int64]
    weights: FloatArray


class Walkers:
    """Walkers and the trial function that they follow.

    Parameters
    ----------
    device
        Where they live.
    wavefunction
        Trial function and Hamiltonian.
    count
        Number of walkers.
    key : (2,) uint32
        Of the random numbers.
    single
        Keep orbitals and inverses in single precision; positions, sums and full inversions are always double.
    offset
        Number of the first walker in an ensemble that several processes share.

    Attributes
    ----------
    state : State
    tables : Tables
    generation : int
        Generations done, which numbers the random draws.
    warm : float
        Time (1/hartree) that they have followed the square of a trial function since they were placed, copied or in diffusion.
    settled : float
        Time (1/hartree) that they, or those that they are copies of, have moved since they were placed.
    related : bool
        True if some of them are copies of others, so that they are not independent of each other.
    """

    def __init__(
        self,
        device: Device,
        wavefunction: Wavefunction,
        count: int,
        key: NDArray[np.uint32],
        *,
        single: bool = False,
        offset: int = 0,
    ) -> None:
        self.device, self.key, self.offset, self.single = device, key, offset, single
        # Every rank holds arrays of all walkers; it moves its own, and others' places hold
        # what was last published.
        self.comm = world()
        self._numbers: IndexArray | None = None
        self._groups: tuple[int, NDArray[np.int64]] | None = None
        self.generation = 0
        self.warm, self.settled, self.related = 0.0, 0.0, False
        self.real = np.dtype(np.float32 if single else np.float64)
        self.set_wavefunction(wavefunction)
        self.state = self._arrays(count)

    @property
    def count(self) -> int:
        """Number of walkers."""
        return int(self.state.R.shape[0])

    @property
    def electrons(self) -> int:
        """Number of electrons of a walker."""
        return int(self.wavefunction.n_up + self.wavefunction.n_dn)

    def cell_info(self) -> dict[str, float]:
        """Return the density of the electrons (bohr^-3) in a periodic cell; nothing in open boundaries."""
        if not isinstance(self.wavefunction, CrystalWavefunction):
            return {}
        return {"density": self.electrons / self.wavefunction.cell.volume}

    def set_wavefunction(self, wavefunction: Wavefunction) -> None:
        """Follow another trial function of the same electrons; :meth:`recompute` makes the state agree."""
        self.wavefunction = wavefunction
        self.tables = tables_of(self.device, wavefunction, self.real)

    def on_device(self, tables: TablesT) -> TablesT:
        """Return tables whose arrays are on the device."""
        return _on(self.device, tables)

    def _arrays(self, count: int) -> State:
        return empty_state(self.device, self.wavefunction, self.tables, count, self.real)

    def stream(self, section: int) -> walk.Stream:
        """Return where the random numbers of the next generation are counted."""
        return walk.Stream(self.key, section, self.generation, self.offset + self.own.start)

    # ------------------------------------------------------------------------------------ ranks

    @property
    def state(self) -> State:
        """Arrays of all walkers; of foreign ones out of date."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        # Views of nine arrays cost a generation of helium a tenth of its time: they are made
        # once for an ensemble.
        count = int(state.R.shape[0])
        edges = bounds(count, self.comm.size)
        self._own = slice(int(edges[self.comm.rank]), int(edges[self.comm.rank + 1]))
        alone = self.comm.size == 1
        self._mine = state if alone else State._make(array[self._own] for array in state)

    @property
    def own(self) -> slice:
        """Walkers that this rank moves.

        Neighbouring walkers, in blocks whose sums are taken together: totals then have the same bits on any number of ranks.
        """
        return self._own

    @property
    def mine(self) -> State:
        """State of these walkers; kernels change it in place."""
        return self._mine

    @property
    def _places(self) -> IndexArray:
        """Numbers of all walkers, (count,) int64, on the device; made once for a number of walkers."""
        if self._numbers is None or self._numbers.shape[0] != self.count:
            self._numbers = self.device.xp.arange(self.count, dtype=np.int64)
        return self._numbers

    def join(self, array: NDArray[Any], axis: int = 0) -> NDArray[Any]:
        """Return an array of all walkers, on the host, from those of each rank; a collective call."""
        if self.comm.size == 1:
            return array
        if axis == 0 and array.ndim == 2:
            # Rows of numbers go in one message without pickling; anything else by
            # `allgather`.
            return gathered(
                self.comm, np.ascontiguousarray(array), np.diff(bounds(self.count, self.comm.size))
            )
        return np.concatenate(self.comm.allgather(array), axis=axis)

    def join_on_device(self, array: Array) -> Array:
        """Return an array (count, ...) of all walkers, on the device, from those of each rank; a collective call."""
        if self.comm.size == 1:
            return array
        return self.device.asarray(self.join(self.device.to_host(array)))

    def publish(self, *names: str) -> None:
        """Make some arrays of the state agree on all ranks; a collective call."""
        if self.comm.size == 1:
            return
        arrays, places = [getattr(self.state, name) for name in names], self._places
        rows = self.device.to_host(take_rows(self.device, arrays, places[self.own]))
        every = gathered(self.comm, rows, np.diff(bounds(self.count, self.comm.size)))
        put_rows(self.device, arrays, places, self.device.asarray(every))

    def publish_energies(self) -> None:
        """Make energies, weights, counts of moves and ages agree on all ranks; a collective call."""
        self.publish(*LIGHT)

    def measure(self, estimators: Estimators) -> None:
        """Add one sample of every walker to the histograms; a collective call.

        Of exact ones each rank adds its own walkers, and blocks are added when they are closed.
        """
        if self.comm.size > 1 and not estimators.exact:
            # Sums of floating point numbers depend on their order: each rank then adds all
            # walkers in one order.
            self.publish("R", "weight")
            estimators.accumulate(self.state.R, self.state.weight)
            return
        mine = self.mine
        estimators.accumulate(mine.R, mine.weight)

    def _fetch(self, indices: NDArray[np.int64]) -> None:
        """Bring the walkers that other ranks need to them: of the new ensemble `indices`, each rank has its own places."""
        edges = bounds(self.count, self.comm.size)
        # Only walkers that change their rank travel, once each, however many copies there
        # will be.
        ids = crossing(indices, bounds(len(indices), self.comm.size), edges)
        if not ids.size:
            return
        cuts, at = np.searchsorted(ids, edges), self.device.asarray(ids)
        own = at[cuts[self.comm.rank] : cuts[self.comm.rank + 1]]
        rows = self.device.to_host(take_rows(self.device, self.state, own))
        every = gathered(self.comm, rows, np.diff(cuts))
        put_rows(self.device, self.state, at, self.device.asarray(every))

    # ------------------------------------------------------------------------------------ set-up

    def place(self) -> None:
        """Put the electrons around the atoms, as many as the charge of each, by normal deviates, and spread them."""
        N = self.electrons
        first, mine = self.offset + self.own.start, self.mine
        count = int(mine.R.shape[0])
        # Electrons start around the atoms whatever the orbitals are: normal deviates of one
        # bohr.
        centre = self._starts(first, count)
        # A walker's start does not depend on how many there are.
        draws = rng.normals(self.key, PLACING, 0, count, 3 * N, first=first)
        mine.R[...] = self.device.asarray(centre + SPREAD * draws.reshape(count, N, 3))
        lost = np.arange(count)
        for _ in range(SHRINKS):  # compact orbitals are zero where some electrons start
            walk.recompute(self.device, mine, self.tables)
            lost = np.flatnonzero(self.device.to_host(mine.sign) == 0)
            if not lost.size:
                break
            at = self.device.asarray(lost)
            # Half the way to the atoms, for walkers whose orbitals all vanish: their
            # determinant has no gradient to follow.
            around = self.device.asarray(centre[lost])
            mine.R[at] = around + 0.5 * (mine.R[at] - around)
        if self.comm.allmax(int(lost.size)):
            self.recompute()
        for k in range(FAR_SWEEPS):
            self.far_sweep(PLACING, 1 + k)
        self.mine.moves[...] = 0.0
        self.recompute()

    @property
    def _open(self) -> bool:
        """True of a molecule or a trap, whose electrons may be anywhere in space."""
        return not isinstance(self.wavefunction, CrystalWavefunction)

    def _starts(self, first: int, count: int) -> NDArray[np.float64]:
        """Return the atoms (bohr) that the electrons of walkers ``first ..`` start from, (count, electrons, 3).

        In a molecule the orders of the atoms take turns: an electron that two distant atoms share is at either one in half of
        the walkers, which no walk of a run's length would bring about.  In cells every atom has its electrons.
        """
        orders = range(ORDERS) if self._open else [None]
        made = np.stack([self.wavefunction.start_positions(order) for order in orders])
        return made[(first + np.arange(count)) % len(made)]

    def far_sweep(self, section: int, generation: int) -> None:
        """Move each electron of a molecule far, once; nothing in a cell, where Bloch functions spread over all atoms.

        Moves as long as the system is large reach the other side of a node or another nucleus, which the short ones of a run do
        seldom; few are accepted, but all follow the square of the trial function.  Repeated, they give every region that nodes or
        distances shut off its share of the walkers.

        Parameters
        ----------
        section, generation
            Words of the random counters; the generation also chooses one of four lengths.
        """
        if not self._open:
            return
        positions = self.wavefunction.system.positions
        square = SPREAD**2 + float(np.mean((positions - positions.mean(axis=0)) ** 2))
        stream = walk.Stream(self.key, section, generation, self.offset + self.own.start)
        variance = square * FAR[generation % len(FAR)]
        walk.walk(self.device, self.mine, self.tables, variance, PLAIN, 1, stream)

    def recompute(self) -> float:
        """Recompute rows, inverses and log psi; return the largest relative error of an inverse.

        Raises
        ------
        NumericsError
            If a Slater matrix is singular: a walker on a node.
        """
        return self.judge(self.begin_recompute())

    def begin_recompute(self) -> Message:
        """Start what :meth:`recompute` does; :meth:`judge` reads what it finds."""
        mine = self.mine
        error = walk.recompute(self.device, mine, self.tables)
        return Message(self.device, [error, mine.sign.copy()])

    def judge(self, found: Message) -> float:
        """Return the largest relative error of an inverse; a collective call.

        Raises
        ------
        NumericsError
            If a Slater matrix is singular: a walker on a node.
        """
        return self.judge_all(self.comm.gather_numbers(self.worst(found)))

    def worst(self, found: Message) -> NDArray[np.float64]:
        """Return the largest relative error of an inverse on this rank, and its first walker on a node or their number, (2,)."""
        error, sign = found.read()
        zero = np.flatnonzero(sign == 0)
        first = self.own.start + zero[0] if zero.size else self.count
        return np.array([np.max(error, initial=0.0), first], np.float64)

    def judge_all(self, worst: NDArray[np.float64]) -> float:
        """Return the largest error of those of :meth:`worst` of all ranks, (ranks, 2), or raise as :meth:`judge`."""
        # All ranks must learn of a node on any of them, or they would wait for each other.
        if (node := float(worst[:, 1].min())) < self.count:
            self.complain(int(node), "lies on a node: its Slater matrix is singular")
        return float(worst[:, 0].max())

    def count_sweeps(self, sweeps: int, tau: float) -> None:
        """Count sweeps of a time step (1/hartree) that follow the square of the trial function."""
        self.generation += sweeps
        self.warm += sweeps * tau
        self.settled += sweeps * tau

    # ------------------------------------------------------------------------------------- branching

    def branch(self, population: Population, uniforms: NDArray[np.float64], *, together: bool) -> Branched:
        """Let walkers branch: in groups, where nothing is waited for if no rank shares one, or all together; a collective call.

        Parameters
        ----------
        population
            Whose rules choose.
        uniforms : (n,) float64
            Uniform numbers, on the host, the same on all ranks.
        together
            Take all walkers as one group.

        Returns
        -------
        Branched
            What the weights were.

        Raises
        ------
        NumericsError
            If a weight is out of range, or the population leaves its limits, where that is known at once.
        """
        mine, count, ranks = self.mine, self.count, self.comm.size
        held = mine.weight.copy()
        whole, sums = population.weigh(mine.weight, mine.age)
        together = together or population.control != "comb" or count != population.target
        if together or not has_whole_groups(count, ranks):
            self._branch_over_ranks(population, uniforms, Branched(sums, held), whole, together)
            return Branched(sums, held)
        edges = groups(count)
        first, last = np.searchsorted(edges, (self.own.start, self.own.stop))
        own = self._edges(count, int(first), int(last))
        indices = population.choose_in_groups(whole, own, int(first), float(uniforms[0]), mine.weight)
        # In place: most walkers stay, and only the places of those that die are written.
        copy_rows(self.device, mine, indices)
        return Branched(sums, held)

    def _edges(self, count: int, first: int, last: int) -> NDArray[np.int64]:
        """Return the first own walkers of groups, on the device; made once for a number of walkers."""
        if self._groups is None or self._groups[0] != count:
            self._groups = count, self.device.asarray(groups(count)[first : last + 1] - self.own.start)
        return self._groups[1]

    def _branch_over_ranks(
        self,
        population: Population,
        uniforms: NDArray[np.float64],
        before: Branched,
        whole: NDArray[np.int64],
        together: bool,
    ) -> None:
        """Let walkers of all ranks branch, by weights that each rank gets to see."""
        if self.comm.gather_numbers(self.device.to_host(before.sums))[:, 1].any():
            population.refuse(self.join_on_device(before.weights))
        # A GPU alone chooses among many walkers where the weights are; it is slower than the host
        # in that with few.
        if self.comm.size > 1 or self.count <= HOST:
            whole = self.join(self.device.to_host(whole)[:, None])[:, 0]
        if together:
            indices, weight = population.choose(whole, int(whole.sum()), uniforms)
            weights = np.full(len(indices), weight)
        else:
            weights = np.empty(self.count)
            indices = population.choose_in_groups(whole, groups(self.count), 0, float(uniforms[0]), weights)
        self.select(indices, weights, settled=True)

    def select(
        self,
        indices: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
        *,
        settled: bool = False,
    ) -> None:
        """Make an ensemble of copies of walkers ``indices`` (int64), on the host or the device.

        Parameters
        ----------
        weights
            New weights (float64); without them copies have those of their walkers.
        settled
            Whether a walker that is copied keeps its own place, as
            :func:`~qsim.qmc.kernels.walkers.branching.settle` arranges: others are then copied in place.
        """
        if len(indices) > self.count:  # copies
            # Copies are no independent walkers until they have moved apart.
            self.related, self.warm = True, 0.0
        self._rearrange(indices, settled=settled)
        if weights is not None:
            self.state.weight[...] = self.device.asarray(weights)

    def _rearrange(self, indices: NDArray[np.int64], *, settled: bool) -> None:
        if self.comm.size > 1:
            host = np.asarray(self.device.to_host(indices))
            self._fetch(host)
            if len(host) == self.count:
                self._copy(host)
                return
        at = self.device.asarray(indices)
        # In place: most walkers stay, and only the places of those that die are written.
        if settled and len(indices) == self.count:
            copy_rows(self.device, self.state, at)
            return
        # A population of another size needs new arrays.
        self.state = State(*(self.device.xp.ascontiguousarray(array[at]) for array in self.state))

    def _copy(self, indices: NDArray[np.int64]) -> None:
        """Write the walkers `indices` into the places of this rank."""
        own = self.own
        places = own.start + np.flatnonzero(indices[own] != np.arange(own.start, own.stop))
        if places.size:
            at, source = self.device.asarray(np.stack([places, indices[places]]))
            # read as a whole before they are written
            put_rows(self.device, self.state, at, take_rows(self.device, self.state, source))

    def check_finite(self) -> None:
        """Raise if a local energy is not a number, with the coordinates of its walker; a collective call."""
        self.publish("energy")
        total = self.device.to_host(self.state.energy[:, 5])
        if not np.isfinite(total).all():
            w = int(np.argmin(np.isfinite(total)))
            self.complain(w, f"has a local energy of {total[w]}")

    def complain(self, w: int, what: str) -> None:
        """Raise an error that shows a walker; called on all ranks."""
        self.publish("R")
        R = self.device.to_host(self.state.R[w])
        places = "; ".join(f"({x:.6g}, {y:.6g}, {z:.6g})" for x, y, z in R)
        raise NumericsError(
            f"walker {self.offset + w} {what} in generation {self.generation}; electrons at {places} bohr"
        )

    # ------------------------------------------------------------------------------------ checkpoints

    def saved(self, *, exact: bool = False) -> dict[str, Any]:
        """Return the state for :meth:`restore`; a collective call.

        Parameters
        ----------
        exact
            Whether everything has been recomputed since the last move: what positions determine is then left out.
        """
        names = KEPT if exact else State._fields
        arrays = {name: self._of_all(self.device.to_host(getattr(self.mine, name))) for name in names}
        # Arrays of all ranks: a checkpoint continues on any number of them.
        times = {"warm": self.warm, "settled": self.settled}
        return {"generation": self.generation, **times, "related": self.related, **arrays}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from :meth:`saved`, bit by bit."""
        self.generation = int(saved["generation"])
        self.warm, self.related = float(saved.get("warm", 0.0)), bool(saved.get("related", False))
        self.settled = float(saved.get("settled", math.inf))  # older checkpoints do not tell
        arrays = {
            name: self.device.asarray(np.ascontiguousarray(saved[name]))
            for name in State._fields
            if name in saved
        }
        self.state = self._arrays(int(arrays["R"].shape[0]))._replace(**arrays)
        if len(arrays) < len(State._fields):
            self.recompute()

    def _of_all(self, own: NDArray[Any]) -> NDArray[Any]:
        """Return an array (walkers, ...) of all walkers, on the host, from those of each rank; a collective call."""
        if self.comm.size == 1:
            return own
        width = math.prod(own.shape[1:])
        return self.join(own.reshape(-1, width)).reshape(self.count, *own.shape[1:])


def _on(device: Device, tables: TablesT) -> TablesT:
    """Return tables whose arrays are on a device."""
    return type(tables)(*(device.asarray(x) if isinstance(x, np.ndarray) else x for x in tables))


def tables_of(device: Device, wavefunction: Wavefunction, real: DTypeLike) -> walk.Tables:
    """Return the tables of a trial function on a device, its orbitals in a precision."""
    # The layout of radial tables differs: four shells side by side for vectors, all shells of an interval for lanes.
    orbitals, start = wavefunction.orbital_tables(real), wavefunction.start_tables(real)
    if device.is_cuda and isinstance(orbitals, OrbitalTables):
        orbitals, start = on_gpu(orbitals), None if start is None else on_gpu(start)
    return walk.Tables(
        _on(device, orbitals),
        _on(device, wavefunction.jastrow_tables()),
        _on(device, wavefunction.hamiltonian_tables()),
        float(wavefunction.ion_ion),
        int(wavefunction.n_up),
        _on(device, wavefunction.expansion.tables()),
        None if start is None else _on(device, start),
    )


def empty_state(
    device: Device, wavefunction: Wavefunction, tables: walk.Tables, count: int, real: DTypeLike
) -> State:
    """Return arrays for walkers without positions yet, on the device."""
    xp, N = device.xp, wavefunction.n_electrons
    # Rows and inverses of both spins have the same width, that of the larger one.
    n, M = max(wavefunction.n_up, wavefunction.n_dn, 1), max(1, *wavefunction.expansion.orbitals)
    kind = np.result_type(real, np.complex64) if tables.is_complex else real
    double = np.complex128 if tables.is_complex else np.float64
    return State(
        R=xp.zeros((count, N, 3)),
        rows=xp.zeros((count, N, 5, M), kind),
        inverse=xp.zeros((count, 2, n, n), kind),
        expansion=xp.ones((count, tables.expansion.numbers), double),
        log_psi=xp.zeros(count),
        sign=xp.ones(count),
        energy=xp.zeros((count, 6)),
        weight=xp.ones(count),
        moves=xp.zeros((count, 4)),
        age=xp.zeros(count, np.int64),
    )
