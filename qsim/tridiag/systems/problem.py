"""Problems about tridiagonal systems: what ``task: solve`` and ``task: scaling`` have in common, and the former's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.model import Precision, Solver, SystemSource

__all__ = ["SolveProblem", "SystemProblem"]


@dataclass(frozen=True, kw_only=True)
class SystemProblem:
    """A task that solves systems.

    Attributes
    ----------
    system : SystemSource or None
        Where the elements come from; None for the system of one Crank-Nicolson step.
    seed : int
        Seed of a generated system that names none.
    blame : Blame
        Raises a mistake at its key.
    blocks_key : str
        Key of the deck that cuts the system into blocks.
    """

    blocks_key: ClassVar[str]

    device: Device
    system: SystemSource | None
    precision: Precision
    seed: int
    blame: Blame
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SolveProblem(SystemProblem):
    """Problem of ``task: solve``, whose system is always given."""

    blocks_key = "solver.blocks"

    system: SystemSource
    solver: Solver
