"""Solution of tridiagonal systems: x, its errors, and the algorithm that gave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Solution"]


@dataclass
class Solution:
    """Solution of one system or of a batch.

    Attributes
    ----------
    x
        Solution, shaped like ``d`` and of its kind (NumPy or CuPy).
    residual
        Largest ``|T x - d|``, with ``|z| = |Re z| + |Im z|``.
    backward_error
        Largest normwise backward error ``max|T x - d| / (||T|| max|x| + max|d|)`` of a system.
    rowwise_error
        Largest row-wise backward error ``|T x - d| / (|T| |x| + |d|)`` of a row, which no scale of rows or columns changes; rows
        that underflow do not count.
    algorithm
        What solved the most difficult system: ``nshape-local``, ``nshape-exact``, ``nshape-literal``, ``nshape-shifted``,
        ``thomas``, ``woodbury``, ``lapack`` or ``extended`` (:mod:`qsim.tridiag.solver.robustness.extended`).
    blocks, iterations
        Blocks of the first partition, and number of nested partitions.
    min_pivot
        Smallest ``|pivot| / max(|a|, |b|, |c|)`` of a row; 1 where LAPACK chose the pivots.
    refinements
        Largest number of refinements of a system.
    seconds
        Wall time, with all checks and copies between host and device.
    notes
        What the user should know.
    equilibrated
        Whether rows and columns were scaled before the system was solved and judged; `backward_error` and `min_pivot` then
        belong to the scaled system.
    """

    x: Any
    residual: float
    backward_error: float
    rowwise_error: float
    algorithm: str
    blocks: int
    iterations: int
    min_pivot: float
    refinements: int
    seconds: float
    notes: list[str]
    equilibrated: bool = False
