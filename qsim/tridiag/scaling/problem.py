"""Problem of ``task: scaling``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.tridiag.systems.problem import SystemProblem

if TYPE_CHECKING:
    from qsim.tridiag.deck.model import Scaling

__all__ = ["ScalingProblem"]


@dataclass(frozen=True, kw_only=True)
class ScalingProblem(SystemProblem):
    """The solvers to time; `setting`: sizes, numbers of blocks and partitions, repetitions."""

    blocks_key = "scaling.blocks"

    setting: Scaling
