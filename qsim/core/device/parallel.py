"""The processes of one run: a communicator with the few calls that methods use, and its serial twin.

A run is parallel if a launcher (``mpirun``, ``srun``) started it on several ranks; only then is mpi4py imported.  Methods call
the communicator of :func:`world` unconditionally, so that no ``if parallel:`` stands in them.

All ranks follow the same path: they decide alike, because they compute the same numbers, or because one decides and tells the
others.  `agreed` and `first` do that for errors.  An error of one rank alone ends all of them, by :func:`abort`, since the others
would wait for it for ever.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from qsim.core.device.patience import FORWARDED, Patience, time_limit
from qsim.core.errors import DeviceError
from qsim.core.install import install_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.core.device.patience import Event

__all__ = [
    "THREADS",
    "Comm",
    "SerialComm",
    "abort",
    "agreed",
    "by_all",
    "connected",
    "first",
    "gathered",
    "in_shares",
    "is_agreed",
    "launched_ranks",
    "number_on_node",
    "on_host",
    "owners",
    "share",
    "share_of",
    "world",
]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Variables that limit the threads of a process; libraries read them when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# Bytes of a message: more than 2^31 - 1 items are not taken by all MPI libraries.
MESSAGE = 1 << 30


class Comm(Protocol):
    """Operations among the processes of a run; named and behaving as in mpi4py.

    What is sent is anything that can be pickled, arrays of the host only: arrays of a GPU never go to MPI.
    """

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""

    @property
    def size(self) -> int:
        """Number of processes."""

    @property
    def local_rank(self) -> int:
        """Number of this process on its node, which chooses its device."""

    @property
    def local_size(self) -> int:
        """Number of processes on this node."""

    def bcast(self, value: T, root: int = 0) -> T:
        """Return the value that process ``root`` has."""

    def allgather(self, value: T) -> list[T]:
        """Return the values of all processes, in their order, on every process."""

    def gather(self, value: T, root: int = 0) -> list[T] | None:
        """Return the values of all processes on ``root``, None elsewhere."""

    def allmax(self, value: int) -> int:
        """Return the largest of the values."""

    def barrier(self) -> None:
        """Wait for all processes."""

    def gather_numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the arrays of all processes, of one shape and type, one below the other: (size, ...)."""

    def swap(self, partner: int, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Send an array to another process and receive what it sends at the same time into `out`."""

    def trade(self, pieces: Sequence[tuple[int, NDArray[Any], NDArray[Any]]]) -> Callable[[], None]:
        """Begin to exchange arrays, (partner, what goes, what comes) each; return a function that waits for all of them."""

    def shift(self, values: NDArray[Any] | None, out: NDArray[Any] | None, step: int) -> None:
        """Send an array to process ``rank + step`` and receive from ``rank - step``; None where there is no such process."""

    def expect(self, event: Event) -> None:
        """Watch an event of a GPU that ends an exchange, for the time limit of exchanges."""


class SerialComm:
    """A communicator of one process."""

    rank = 0
    size = 1
    local_size = 1

    def __init__(self, local_rank: int = 0) -> None:
        self.local_rank = local_rank

    def bcast(self, value: T, root: int = 0) -> T:
        """Return ``value``."""
        return value

    def allgather(self, value: T) -> list[T]:
        """Return ``[value]``."""
        return [value]

    def gather(self, value: T, root: int = 0) -> list[T] | None:
        """Return ``[value]``."""
        return [value]

    def allmax(self, value: int) -> int:
        """Return ``value``."""
        return value

    def barrier(self) -> None:
        """Return at once."""

    def gather_numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the array with a leading axis of length 1."""
        return values[None]

    def swap(self, partner: int, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Copy the array: the only partner is this process."""
        out[...] = values

    def trade(self, pieces: Sequence[tuple[int, NDArray[Any], NDArray[Any]]]) -> Callable[[], None]:
        """Copy the arrays: the only partner is this process."""
        for _, values, out in pieces:
            out[...] = values
        return lambda: None

    def shift(self, values: NDArray[Any] | None, out: NDArray[Any] | None, step: int) -> None:
        """Do nothing: there is no other process."""

    def expect(self, event: Event) -> None:
        """Do nothing: there is no other process."""


class MpiComm:
    """All ranks of an MPI job."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # without the library of MPI, mpi4py raises RuntimeError
            raise DeviceError(
                f"this run was started on several ranks, but mpi4py cannot be used: {error}",
                hint=f"{install_extra('mpi')} brings it with an MPI; on a cluster, build mpi4py with the MPI of the site",
            ) from error
        # Ranks of one node share its cores and its GPUs: their number on the node chooses the device.
        self._comm = MPI.COMM_WORLD
        self._max = MPI.MAX
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank: int = node.Get_rank()
        self.local_size: int = node.Get_size()
        self._masks = node.allgather(_affinity())
        # Affinity masks of all ranks of the node tell how many of them share a core.
        node.Free()
        self.patience = Patience(self.rank, self.size, time_limit(), self.abort)

    @property
    def threads(self) -> int:
        """CPU threads of this rank: its share of each core that its affinity mask has in common with other ranks."""
        return share_of(self._masks, self.local_rank)

    def bcast(self, value: T, root: int = 0) -> T:
        """Return the value that process ``root`` has."""
        with self.patience.during("bcast", limited=False):
            return cast("T", self._comm.bcast(_host(value), root))

    def allgather(self, value: T) -> list[T]:
        """Return the values of all processes, in their order, on every process."""
        with self.patience.during("allgather", limited=False):
            return cast("list[T]", self._comm.allgather(_host(value)))

    def gather(self, value: T, root: int = 0) -> list[T] | None:
        """Return the values of all processes on ``root``, None elsewhere."""
        with self.patience.during("gather", limited=False):
            return cast("list[T] | None", self._comm.gather(_host(value), root))

    def allmax(self, value: int) -> int:
        """Return the largest of the values."""
        with self.patience.during("allreduce", limited=False):
            return int(self._comm.allreduce(value, self._max))

    def barrier(self) -> None:
        """Wait for all processes."""
        with self.patience.during("barrier", limited=False):
            self._comm.Barrier()

    def gather_numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the arrays of all processes, of one shape and type, one below the other: (size, ...)."""
        import numpy as np

        mine = np.ascontiguousarray(_host(values))
        rows = np.empty((self.size, *mine.shape), mine.dtype)
        with self.patience.during("numbers of all ranks"):
            self._comm.Allgather(mine, rows)
        return rows

    def swap(self, partner: int, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Send an array to another process and receive what it sends at the same time into `out`."""
        # In pieces, each a send and a receive at once: two processes that both send first would
        # wait for each other.
        mine, theirs = _bytes(_host(values)), _bytes(_host(out))
        for low in range(0, len(mine), MESSAGE):
            part = slice(low, low + MESSAGE)
            with self.patience.during(f"an array of rank {partner}"):
                self._comm.Sendrecv(mine[part], partner, 0, theirs[part], partner, 0)

    def trade(self, pieces: Sequence[tuple[int, NDArray[Any], NDArray[Any]]]) -> Callable[[], None]:
        """Begin to exchange arrays, (partner, what goes, what comes) each; return a function that waits for all of them."""
        requests = []
        for partner, values, out in pieces:
            mine, theirs = _bytes(_host(values)), _bytes(_host(out))
            # messages of one pair of processes arrive in their order: parts need no numbers
            for low in range(0, len(mine), MESSAGE):
                part = slice(low, low + MESSAGE)
                requests.append(self._comm.Irecv(theirs[part], partner, 2))
                requests.append(self._comm.Isend(mine[part], partner, 2))

        def wait() -> None:
            with self.patience.during("arrays of " + ", ".join(f"rank {partner}" for partner, *_ in pieces)):
                for request in requests:
                    request.Wait()

        return wait

    def shift(self, values: NDArray[Any] | None, out: NDArray[Any] | None, step: int) -> None:
        """Send an array to process ``rank + step`` and receive from ``rank - step``; None where there is no such process."""
        target, source = self.rank + step, self.rank - step
        nobody = -1  # the ends of the row
        # The message to the other side is on its way before this one waits: a row of blocking sends would pass
        # on like a chain.
        requests = []
        if values is not None and nobody < target < self.size:
            requests.append(self._comm.Isend(_bytes(_host(values)), target, 1))
        if out is not None and nobody < source < self.size:
            with self.patience.during(f"an array of rank {source}"):
                self._comm.Recv(_bytes(_host(out)), source, 1)
        with self.patience.during(f"an array for rank {target}"):
            for request in requests:
                request.Wait()

    def expect(self, event: Event) -> None:
        """Watch an event of a GPU that ends an exchange, for the time limit of exchanges."""
        self.patience.expect(event)

    def abort(self, code: int) -> None:
        """End all ranks with an exit code."""
        self._comm.Abort(code)


def _bytes(values: NDArray[Any]) -> memoryview:
    """Return a contiguous array as bytes, which MPI takes of any type."""
    return values.data.cast("B")


def _host(value: T) -> T:
    """Refuse arrays of a GPU, which MPI libraries without CUDA crash on."""
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError("an array of a GPU was given to MPI; copy it to the host first")
    return value


def on_host(value: Any) -> Any:
    """Return nested mappings and lists with arrays of a GPU copied to the host, as MPI takes them."""
    if hasattr(value, "__cuda_array_interface__"):
        return value.get()
    if isinstance(value, Mapping):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(item) for item in value)
    return value


def _affinity() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def share_of(masks: list[frozenset[int]], rank: int) -> int:
    """Return the threads of a rank: a core that n ranks of the node may use counts 1/n for each; at least 1.

    Parameters
    ----------
    masks
        Cores that each rank of the node may use.
    rank
        Number of the rank on its node.
    """
    # Fractions, since 3 times 1/3 of a core must be a whole one.
    # Ranks that are bound to the same cores divide them; ranks with cores of their own have all
    # of these.
    parts = sum(Fraction(1, sum(core in mask for mask in masks)) for core in masks[rank])
    return max(1, math.floor(parts))


def share(comm: Comm, count: int) -> slice:
    """Return the part of `count` items that is this process's: contiguous, of nearly equal length, in the order of the ranks."""
    return slice(count * comm.rank // comm.size, count * (comm.rank + 1) // comm.size)


def gathered(comm: Comm, rows: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[Any]:
    """Return the rows of all ranks, one below the other, in one exchange of memory.

    Parameters
    ----------
    rows : (own, numbers)
        On the host, of one type on all ranks.
    counts : (ranks,) int64
        Rows of every rank, which all know.
    """
    import numpy as np

    # One exchange of equal lengths is faster than a message for each rank: shorter ones are filled up with
    # zeros.
    most = int(counts.max(initial=0))
    if (counts == most).all():
        return comm.gather_numbers(np.ascontiguousarray(rows)).reshape(-1, rows.shape[1])
    sent = np.zeros((most, rows.shape[1]), rows.dtype)
    sent[: len(rows)] = rows
    parts = comm.gather_numbers(sent)
    # Without the zeros, in the order of the ranks.
    return np.concatenate([parts[r, :count] for r, count in enumerate(counts)])


def owners(costs: Sequence[float], ranks: int) -> list[int]:
    """Return which process makes each of some items: most expensive first, each to the least loaded process.

    Parameters
    ----------
    costs
        Work of each item, in any unit.
    ranks
        Number of processes.
    """
    load, owner = [0.0] * ranks, [0] * len(costs)
    # Ties by number: all processes must come to the same division.
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        # The longest tasks first, each to the least loaded process: at most a third above the
        # best division.
        owner[item] = load.index(min(load))
        load[owner[item]] += costs[item]
    return owner


def in_shares(
    comm: Comm, keys: Sequence[K], make: Callable[[K], T], cost: Callable[[K], float] | None = None
) -> dict[K, T]:
    """Return what `make` returns for each key, made by one process each and sent to all; a collective call.

    The numbers are the same to the bit as with one process, as each is made whole.  An error of one process is raised by all.

    Parameters
    ----------
    comm
        Processes that share the work.
    keys
        The same on all processes.
    make
        Its values are on the host, and can be pickled.
    cost
        Work of a key, by which the keys are shared; equal by default.
    """
    if comm.size == 1:
        return {key: make(key) for key in keys}
    owner = owners([1.0 if cost is None else cost(key) for key in keys], comm.size)
    # An error in one share is raised by all, before anyone waits for a value.
    mine = agreed(
        comm, lambda: {key: make(key) for key, rank in zip(keys, owner, strict=True) if rank == comm.rank}
    )
    return {key: comm.bcast(mine.get(key), rank) for key, rank in zip(keys, owner, strict=True)}  # type: ignore[misc]  # the owner has it


# ------------------------------------------------------------------------------------------- this run

_world: Comm | None = None


def launched_ranks(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of ranks that a launcher started, by its environment variables; 1 without a launcher."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"):
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    # srun sets this for the processes of a step; a batch script itself has SLURM_NTASKS only
    step = environ.get("SLURM_STEP_NUM_TASKS", "")
    return int(step) if step.isdecimal() and "SLURM_PROCID" in environ else 1


def world() -> Comm:
    """Return the communicator of all processes of this run.

    Raises
    ------
    DeviceError
        If a launcher started several processes that do not find each other, or mpi4py is missing.
    """
    global _world
    if _world is None:
        # Only a launcher's variables decide: importing mpi4py starts MPI, which may abort a
        # process that no launcher started.
        ranks = launched_ranks()
        _world = _connect(ranks, os.environ) if ranks > 1 else SerialComm()
    return _world


def connected() -> Comm | None:
    """Return the communicator if there is one already."""
    return _world


def _connect(ranks: int, environ: MutableMapping[str, str]) -> MpiComm:
    """Return the communicator of `ranks` processes; give this one its share of the cores of its node."""
    comm = MpiComm()
    # An mpirun of another MPI starts processes of which each believes to be alone.
    if comm.size != ranks:
        raise DeviceError(
            f"{ranks} processes were started, but MPI knows {comm.size}: they would be copies of one another",
            hint="start with the mpirun of the MPI that mpi4py was built with, or with srun --mpi=pmi2 (MPICH), "
            "srun --mpi=pmix (Open MPI)",
        )
    # Before NumPy is loaded: libraries read these once.
    for name in THREADS:
        environ.setdefault(name, str(comm.threads))
    return comm


def number_on_node(number: int) -> None:
    """Give this process, which runs alone but beside others of its kind, the number that chooses its device."""
    global _world
    _world = SerialComm(number)


# ------------------------------------------------------------------------------------------- errors


def agreed(comm: Comm, do: Callable[[], T]) -> T:
    """Return what `do` returns; if it fails on any rank, fail on all of them, each with the code of the first that did.

    For what all ranks do before they talk to each other: load a deck, choose a device.
    """
    error: BaseException | None = None
    value: T | None = None
    try:
        value = do()
    except Exception as caught:
        error = caught
    if comm.size > 1:
        # Every rank tells the others whether it failed; without this, those that did not would go on and wait.
        failed = [(rank, e) for rank, e in enumerate(comm.allgather(_sendable(error))) if e is not None]
        if failed:
            raise _first_of(failed, error, comm)
    # One rank alone, or an error that all have raised already.
    if error is not None:
        raise error
    return cast("T", value)


def first(comm: Comm, do: Callable[[], T]) -> T:
    """Return on all ranks what `do` returns on rank 0, where alone it is called; all ranks raise its error.

    For what touches files.
    """
    error: BaseException | None = None
    value: T | None = None
    if comm.rank == 0:
        try:
            value = do()
        except Exception as caught:
            error = caught
    if comm.size > 1:
        # Value and error in one message: the other ranks wait for this one alone.
        value, its_error = comm.bcast((value, _sendable(error)))
        if its_error is not None:
            raise _first_of([(0, its_error)], error, comm)
    if error is not None:
        raise error
    return cast("T", value)


def _sendable(error: BaseException | None) -> Any:
    """Return an error in a form that can be sent: itself, or its text."""
    import pickle

    if error is None:
        return None
    try:
        # Some exceptions can be pickled, but not made again from it.
        pickle.loads(pickle.dumps(error))
    except Exception:
        # Its text survives, its type does not.
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _first_of(
    failed: list[tuple[int, BaseException]], own: BaseException | None, comm: Comm
) -> BaseException:
    """Return the error to raise here: from the lowest rank that has one, marked as known to all."""
    rank, first_error = failed[0]
    error = own if own is not None and rank == comm.rank else first_error
    if rank != 0 and isinstance(error, Exception):
        error.add_note(f"on rank {rank} of {comm.size}")
    return by_all(error)


E = TypeVar("E", bound=BaseException)


def by_all(error: E) -> E:
    """Mark an error that all ranks raise at the same place; return it."""
    error.agreed = True  # type: ignore[attr-defined]  # read by is_agreed
    return error


def is_agreed(error: BaseException) -> bool:
    """Return True if all ranks raise this error, so that each can end by itself and one of them tells it."""
    return bool(getattr(error, "agreed", False))


def abort(code: int) -> None:
    """End all ranks of the run with an exit code; return at once where there is one rank only."""
    # Not `world()`: an error before the communicator exists ends this process alone.
    comm = _world
    if isinstance(comm, MpiComm):
        # MPI_Abort kills at once: what is in the buffers must be out, and passed on.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        time.sleep(FORWARDED)
        comm.abort(code)
        os._exit(code)  # the library may return before it ends this process
