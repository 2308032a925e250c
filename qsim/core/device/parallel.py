"""The seam for runs on several processes: a communicator with the few calls that the methods use.

Only the serial twin exists so far.  Methods call it unconditionally, so that no ``if parallel:`` stands in
them.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")

__all__ = ["Comm", "SerialComm", "number_on_node", "world"]


class Comm(Protocol):
    """Operations among the processes of a run; named and behaving as in mpi4py."""

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""

    @property
    def size(self) -> int:
        """Number of processes."""

    @property
    def local_rank(self) -> int:
        """Number of this process on its node, which chooses its device."""

    def bcast(self, value: T, root: int = 0) -> T:
        """Return the value that process ``root`` has."""

    def allreduce(self, value: T) -> T:
        """Return the sum over all processes."""

    def gather(self, value: T, root: int = 0) -> list[T] | None:
        """Return the values of all processes on ``root``, None elsewhere."""

    def barrier(self) -> None:
        """Wait for all processes."""


class SerialComm:
    """A communicator of one process."""

    rank = 0
    size = 1

    def __init__(self, local_rank: int = 0) -> None:
        self.local_rank = local_rank

    def bcast(self, value: T, root: int = 0) -> T:
        """Return ``value``."""
        return value

    def allreduce(self, value: T) -> T:
        """Return ``value``."""
        return value

    def gather(self, value: T, root: int = 0) -> list[T] | None:
        """Return ``[value]``."""
        return [value]

    def barrier(self) -> None:
        """Return at once."""


_world: Comm = SerialComm()


def world() -> Comm:
    """Return the communicator of all processes of this run."""
    return _world


def number_on_node(number: int) -> None:
    """Give this process, which runs alone but beside others of its kind, the number that chooses its device."""
    global _world
    _world = SerialComm(number)
