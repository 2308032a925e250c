"""Jobs of the kernels of walkers: one kernel of the CPU does all of them, since each would compile the same parts again."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DERIVATIVES", "DIFFUSE", "ENERGIES", "GENERATIONS", "RECOMPUTE", "SLOPES", "WALK", "Job"]

RECOMPUTE, WALK, ENERGIES, GENERATIONS, DIFFUSE, DERIVATIVES, SLOPES = range(7)


class Job(NamedTuple):
    """Work on walkers, and its numbers.

    Attributes
    ----------
    kind
        One of the constants of this module.
    tau
        Time step, 1/hartree.
    mode
        How electrons move: ``PLAIN``, ``DRIFT`` or ``FIXED_NODE`` of `walk_cpu`.
    sweeps
        Moves of all electrons before a local energy.
    repeats
        Generations.
    tmoves
        Sample the nonlocal potential by T-moves instead of the locality approximation.
    reference, window
        Local energies count in weights as clipped to ``reference +- window``, hartree.
    trial
        E_T, hartree.
    tau_ratio
        Effective over nominal time step.
    """

    kind: int
    tau: float = 0.0
    mode: int = 0
    sweeps: int = 0
    repeats: int = 1
    tmoves: int = 0
    reference: float = 0.0
    trial: float = 0.0
    window: float = 0.0
    tau_ratio: float = 1.0

    def typed(self) -> Job:
        """Return the job in types that are always the same, so that there is one compiled kernel."""
        return Job(*(kind(value) for kind, value in zip(_TYPES, self, strict=True)))


_TYPES = (int, float, int, int, int, int, float, float, float, float)
