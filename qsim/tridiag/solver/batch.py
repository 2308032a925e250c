"""A batch of systems on a device, norms of its solutions, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.kernels.partition import stages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.tridiag.solver.robustness import equilibrate

__all__ = ["ROUGH", "Errors", "Outcome", "Systems", "dtype_of"]

# roundings of a row that are accepted whatever the tolerance
ROUGH = 45


@dataclass
class Systems:
    """A batch of systems on a device.

    Attributes
    ----------
    a, b, c, d : (systems, n), contiguous
        Diagonal, lower, upper, right-hand side; ``b[:, 0]`` and ``c[:, -1]`` do not count.
    tolerance
        Largest backward error that is accepted.
    """

    device: Device
    a: Any
    b: Any
    c: Any
    d: Any
    tolerance: float

    @property
    def eps(self) -> float:
        """Rounding unit of the precision."""
        return float(np.finfo(self.a.dtype).eps)

    @property
    def accepted(self) -> float:
        """Largest row-wise backward error that is accepted."""
        return max(self.tolerance, ROUGH * self.eps)

    def failing(self, errors: Errors) -> NDArray[np.bool_]:
        """Return which solutions have a larger backward error than is accepted, of the norms or of a row."""
        return (errors.backward > self.tolerance) | (errors.rowwise > self.accepted)

    def shifted(self) -> Systems:
        """Return the systems with diagonals that differ by a rounding of each row."""
        a, b, c = (abs(v) for v in (self.a, self.b, self.c))
        return Systems(self.device, self.a + self.eps * (a + b + c), self.b, self.c, self.d, self.tolerance)

    def take(self, index: NDArray[np.int64]) -> Systems:
        """Return the systems of these numbers; the batch itself if these are all."""
        # the usual case in a batch of one: nothing is copied
        if len(index) == self.a.shape[0]:
            return self
        where = self.device.asarray(index)
        a, b, c, d = (v[where] for v in (self.a, self.b, self.c, self.d))
        return Systems(self.device, a, b, c, d, self.tolerance)

    def scaled(self, scales: equilibrate.Scales) -> tuple[Systems, NDArray[np.int32]]:
        """Return the systems with scaled rows and columns, on the same device, and the exponents of their right-hand sides."""
        host = self.to_host()
        a, b, c = (self.device.asarray(v) for v in scales.matrix(host.a, host.b, host.c))
        # the right-hand side gets a scale of its own, so that d and x stay in the range of the precision
        d, top = scales.rhs(host.d)
        return Systems(self.device, a, b, c, self.device.asarray(d), self.tolerance), top

    def errors(self, x: Array, r: Array) -> Errors:
        """Write the residual to ``r`` and return norms of it."""
        norms = stages.residual(self.device, self.a, self.b, self.c, self.d, x, r)
        return Errors(*norms.T)

    def to_host(self) -> Systems:
        """Return the systems in host memory."""
        from qsim.core.device.device import cpu

        if not self.device.is_cuda:
            return self
        host = cpu(self.device.threads)
        a, b, c, d = (self.device.to_host(v) for v in (self.a, self.b, self.c, self.d))
        return Systems(host, a, b, c, d, self.tolerance)


@dataclass
class Errors:
    """Norms of approximate solutions, one of each system (float64, on the host)."""

    residual: NDArray[np.float64]
    x: NDArray[np.float64]
    d: NDArray[np.float64]
    matrix: NDArray[np.float64]
    rowwise: NDArray[np.float64]

    @property
    def backward(self) -> NDArray[np.float64]:
        """Normwise backward errors; infinite where the solution is not finite."""
        with np.errstate(all="ignore"):
            size = self.matrix * self.x + self.d
            error = self.residual / size
        # 0 / 0: the zero solution of a zero right-hand side is exact
        error[self.residual == 0.0] = 0.0
        error[np.isnan(error)] = np.inf
        return error

    @property
    def condition(self) -> NDArray[np.float64]:
        """Lower bounds ``||T|| max|x| / max|d|`` of the condition numbers."""
        with np.errstate(all="ignore"):
            bound = self.matrix * self.x / self.d
        # a zero right-hand side says nothing of the matrix
        bound[self.d == 0.0] = 0.0
        return bound

    @property
    def worst(self) -> NDArray[np.float64]:
        """Larger of the normwise and the row-wise backward error."""
        return np.maximum(self.backward, self.rowwise)

    def update(self, better: NDArray[np.bool_], other: Errors) -> None:
        """Take the norms of ``other`` where it is better."""
        for name in self.__dataclass_fields__:
            mine = getattr(self, name)
            mine[better] = getattr(other, name)[better]

    def put(self, index: NDArray[np.int64], other: Errors) -> None:
        """Store the norms of some systems of the batch."""
        for name in self.__dataclass_fields__:
            getattr(self, name)[index] = getattr(other, name)


@dataclass
class Outcome:
    """Outcome of a batch.

    Attributes
    ----------
    x : (systems, n)
        Solutions.
    errors
        Their norms.
    algorithm
        What solved the most difficult system.
    refinements
        Largest number of refinements of a system.
    notes
        What the user should know.
    """

    x: Any
    errors: Errors
    algorithm: str
    refinements: int = 0
    notes: list[str] = field(default_factory=list)


def dtype_of(*arrays: Any) -> np.dtype[Any]:
    """Return the working precision: the widest of the arrays; integers count as double."""
    kinds = {v.dtype for v in arrays}
    for dtype in kinds:
        if dtype.kind not in "biufc":
            raise ValueError(f"arrays must hold numbers, not {dtype}")
    if len(kinds) == 1 and (only := next(iter(kinds))).char in "fdFD":
        # files of other machines have the other byte order
        return only.newbyteorder("=")
    # half precision is computed in single, extended precision and integers in double
    wide = np.result_type(*(np.dtype(float) if dtype.kind in "biu" else dtype for dtype in kinds), np.float32)
    if wide.char in "fdFD":
        return wide
    return np.dtype(complex) if wide.kind == "c" else np.dtype(float)
