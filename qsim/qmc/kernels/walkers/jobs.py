"""Jobs of the CPU kernels of walkers: one kernel does all of them, since each would compile the same parts again."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DERIVATIVES", "DIFFUSE", "ENERGIES", "GENERATIONS", "RECOMPUTE", "WALK", "Job"]

RECOMPUTE, WALK, ENERGIES, GENERATIONS, DIFFUSE, DERIVATIVES = range(6)


class Job(NamedTuple):
    """What a kernel takes besides walkers, tables and counters, in its order."""

    job: int
    tau: float = 0.0
    mode: int = 0
    sweeps: int = 0
    repeats: int = 1
    tmoves: bool = False
    reference: float = 0.0
    trial: float = 0.0
    window: float = 0.0
    tau_ratio: float = 1.0

    def numbers(self) -> tuple[int | float, ...]:
        """Return them in types that are always the same, so that there is one compiled kernel."""
        return tuple(kind(value) for kind, value in zip(_TYPES, self, strict=True))


_TYPES = (int, float, int, int, int, int, float, float, float, float)
