"""Exchange among the processes of one run: a few numbers of each, and edges of arrays that lie on devices.

`HostLinks` goes through the memory of the hosts and MPI, which works everywhere.  `NcclLinks` moves arrays of GPUs from device to
device, with MPI for nothing but the handshake: taken where CuPy finds NCCL and every process has a GPU of its own.
``QSIM_LINKS``, ``mpi`` or ``nccl``, chooses one of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import socket
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.core.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.core.device.parallel import Comm

    # partner, what goes, what comes
    Piece = tuple[int, Array, Array]

__all__ = ["HostLinks", "Links", "NcclLinks", "links_of", "total"]


class Links(Protocol):
    """Exchange of arrays among the processes of a run; every call is made by all of them."""

    @property
    def rank(self) -> int:
        """Number of this process."""

    @property
    def size(self) -> int:
        """Number of processes."""

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return small arrays of the host, of one shape, one below the other: (size, ...)."""

    def edges(self, left: Array, right: Array) -> tuple[Array | None, Array | None]:
        """Send edges to the process before and to the one after; return what they send here, None beyond the ends.

        Parameters
        ----------
        left, right : (n,) contiguous
            For the process before, and for the one after; of one length on all processes.

        Returns
        -------
        tuple
            The right edge of the process before, and the left edge of the one after.
        """

    def swap(self, partner: int, values: Array, out: Array) -> None:
        """Exchange contiguous arrays of one size with another process."""

    def trade(self, pieces: Sequence[Piece]) -> Callable[[], None]:
        """Begin to exchange contiguous arrays with several processes, while kernels go on.

        Parameters
        ----------
        pieces : sequence of (partner, values, out)
            What goes to a process, and where what it sends comes to.

        Returns
        -------
        function
            Called later, it lets kernels that are launched after it wait for the arrays; until then they belong to the exchange.
        """


class HostLinks:
    """Exchange through the memory of the hosts.

    Parameters
    ----------
    comm : Comm
    device : Device
        Where the arrays are.
    """

    def __init__(self, comm: Comm, device: Device) -> None:
        self.comm, self.device = comm, device
        self.rank, self.size = comm.rank, comm.size

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return small arrays of the host, of one shape, one below the other: (size, ...)."""
        return self.comm.gather_numbers(values)

    def edges(self, left: Array, right: Array) -> tuple[Array | None, Array | None]:
        """Send edges to the process before and to the one after; return what they send here, None beyond the ends."""
        # Copied to the host first: MPI takes no arrays of a GPU.
        to_left, to_right = self.device.to_host(left), self.device.to_host(right)
        before = np.empty_like(to_right) if self.rank else None
        after = np.empty_like(to_left) if self.rank < self.size - 1 else None
        # First all to the right, then all to the left, so that no two processes wait for each other.
        self.comm.shift(to_right, before, 1)
        self.comm.shift(to_left, after, -1)
        return self._back(before), self._back(after)

    def swap(self, partner: int, values: Array, out: Array) -> None:
        """Exchange contiguous arrays of one size with another process."""
        # Through the host: device to host, host to host, host to device.
        mine = self.device.to_host(values)
        theirs = np.empty_like(mine)
        self.comm.swap(partner, mine, theirs)
        out[...] = self.device.asarray(theirs)

    def trade(self, pieces: Sequence[Piece]) -> Callable[[], None]:
        """Begin to exchange contiguous arrays with several processes, while kernels go on."""
        if not self.device.is_cuda:
            return self.comm.trade(pieces)
        # arrays of a GPU are copied to the host when the exchange begins, and from there when it ends
        hosts = [
            (partner, self.device.to_host(values), np.empty(out.shape, out.dtype))
            for partner, values, out in pieces
        ]
        arrived = self.comm.trade(hosts)

        def wait() -> None:
            arrived()
            for (_, _, out), (_, _, theirs) in zip(pieces, hosts, strict=True):
                out[...] = self.device.asarray(theirs)

        return wait

    def _back(self, values: NDArray[Any] | None) -> Array | None:
        return None if values is None else self.device.asarray(values)


class NcclLinks:
    """Exchange between GPUs by NCCL; small arrays of the host go by MPI.

    Parameters
    ----------
    comm : Comm
        Hands round the identifier of the communicator.
    device : Device
        A GPU of its own for each process.
    nccl
        The module ``cupy.cuda.nccl``.
    """

    def __init__(self, comm: Comm, device: Device, nccl: Any) -> None:
        self.comm, self.device, self.nccl = comm, device, nccl
        self.rank, self.size = comm.rank, comm.size
        # One process makes the identifier of the communicator, all others join with it.
        identifier = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
        with device.use():
            self._nccl = nccl.NcclCommunicator(comm.size, identifier, comm.rank)
        # of exchanges that go on beside kernels; made when the first one begins
        self._beside: Any = None

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return small arrays of the host, of one shape, one below the other: (size, ...)."""
        return self.comm.gather_numbers(values)

    def edges(self, left: Array, right: Array) -> tuple[Array | None, Array | None]:
        """Send edges to the process before and to the one after; return what they send here, None beyond the ends."""
        xp = self.device.xp
        before = xp.empty_like(right) if self.rank else None
        after = xp.empty_like(left) if self.rank < self.size - 1 else None
        pairs = []
        if before is not None:
            pairs.append((self.rank - 1, left, before))
        if after is not None:
            pairs.append((self.rank + 1, right, after))
        self._exchange(pairs)
        return before, after

    def swap(self, partner: int, values: Array, out: Array) -> None:
        """Exchange contiguous arrays of one size with another process."""
        self._exchange([(partner, values, out)])

    def trade(self, pieces: Sequence[Piece]) -> Callable[[], None]:
        """Begin to exchange contiguous arrays with several processes, in a stream beside that of the kernels."""
        cuda = self.device.xp.cuda
        if self._beside is None:
            self._beside = cuda.Stream(non_blocking=True)
        kernels, beside = cuda.get_current_stream(), self._beside
        # kernels that were launched before have written what goes, and read what is overwritten
        beside.wait_event(kernels.record())
        self._exchange(pieces, beside.ptr)
        arrived = beside.record()
        self.comm.expect(arrived)
        return lambda: cuda.get_current_stream().wait_event(arrived)

    def _exchange(self, pairs: Sequence[Piece], stream: int | None = None) -> None:
        """Send to and receive from several processes at the same time, by default in the order of the stream of the kernels."""

        def address(array: Any) -> Any:
            return array.data.ptr  # as CuPy has it

        # Bytes, whatever the arrays hold: NCCL has no complex numbers.
        kind = self.nccl.NCCL_INT8
        stream = self.device.xp.cuda.get_current_stream().ptr if stream is None else stream
        # In a group, sends and receives progress together: in any order, and without a deadlock.
        self.nccl.groupStart()
        for partner, values, out in pairs:
            self._nccl.send(address(values), values.nbytes, kind, partner, stream)
            self._nccl.recv(address(out), out.nbytes, kind, partner, stream)
        self.nccl.groupEnd()


def links_of(comm: Comm, device: Device) -> Links:
    """Return the links of this run: by NCCL between GPUs if all processes can, else or by choice through the hosts.

    A collective call.

    Raises
    ------
    DeviceError
        If NCCL is chosen and cannot be used, or two processes have one GPU.
    """
    choice = os.environ.get("QSIM_LINKS", "auto").strip().lower()
    if choice not in ("auto", "mpi", "nccl"):
        raise DeviceError(f"QSIM_LINKS is {choice[:40]!r}; allowed: auto, mpi, nccl")
    if choice == "mpi" or comm.size == 1 or not device.is_cuda:
        return HostLinks(comm, device)
    nccl = _nccl()
    # The bus address tells whether each process has a GPU of its own, since launchers may number
    # GPUs per process.
    places = comm.allgather((socket.gethostname(), device.identity, nccl is not None))
    everywhere, own_gpus = all(there for *_, there in places), len({of[:2] for of in places}) == comm.size
    if nccl is not None and everywhere and own_gpus:
        return NcclLinks(comm, device, nccl)
    if choice == "auto":
        return HostLinks(comm, device)
    if not everywhere:
        raise DeviceError(
            "QSIM_LINKS is nccl, but CuPy finds no NCCL (libnccl.so.2)",
            hint="install nvidia-nccl-cu12 (CUDA 13: nvidia-nccl-cu13), or unset QSIM_LINKS",
        )
    raise DeviceError(
        "QSIM_LINKS is nccl, but two ranks have the same GPU",
        hint="start one rank per GPU, or unset QSIM_LINKS",
    )


def _nccl() -> Any:
    """Return the module of CuPy that wraps NCCL; None where the library is missing.

    CuPy 14 imports it for nobody, and its wheels leave finding the library to the loader: NVIDIA's own wheel is tried first.
    """
    wheel = find_spec("nvidia.nccl") if find_spec("nvidia") else None
    for folder in wheel.submodule_search_locations or () if wheel else ():
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(Path(folder) / "lib" / "libnccl.so.2"), mode=ctypes.RTLD_GLOBAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a library that is missing; the error says it
        try:
            nccl = importlib.import_module("cupy.cuda.nccl")
        except ImportError:
            return None
    return nccl if getattr(nccl, "available", False) else None


def total(links: Links, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of arrays over the processes, in their order: the same bits on all of them."""
    parts = links.gather(values)
    # Added in the order of the ranks everywhere: sums of floats depend on their order.
    out: NDArray[np.float64] = parts[0]
    for part in parts[1:]:
        out = out + part
    return out
