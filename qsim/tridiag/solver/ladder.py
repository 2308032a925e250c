"""What follows a solution without pivoting: backward error, refinement, other joint lines, pivoting, or an error.

The relative error of elimination without pivoting is a few rounding errors divided by the smallest relative pivot.  Where
that is small, or the backward error is not, these are tried in turn:

1. residual and refinement with the same algorithm;
2. other joint lines for the blocks with small pivots, one or two rows away, which mends a block that is singular by itself;
3. LAPACK's ``gtsv``, with partial pivoting, on the host;
4. :class:`SingularMatrixError`, which names the row.

The normwise backward error ``max|T x - d| / (||T|| max|x| + max|d|)`` decides (``||T||``: largest row sum; ``|z|`` here is
``|Re z| + |Im z|``, which cannot overflow).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.tridiag.kernels import stages
from qsim.tridiag.solver import equilibrate
from qsim.tridiag.solver.partition import auto, joints, levels, shift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device

WEAK_PIVOT = 1e-3  # relative pivots above this lose at most three of sixteen digits
REFINEMENTS = 3  # of one solution; what needs more is better solved otherwise
SHIFTS = 2  # attempts with other joint lines
SHIFTED_SYSTEMS = 8  # of a batch: each is partitioned by itself; the others go to LAPACK at once
SUSPICIOUS, SUSPICIOUS_PIVOT = 1e-3, 1e3  # condition number times eps, and relative pivot over eps
BADLY_SCALED = (
    10  # powers of two between the scales of two rows or columns from which a doubtful system is equilibrated
)
CHECKED_SYSTEMS = 8  # of a batch whose condition numbers LAPACK estimates
PIVOTED = "without pivoting this matrix cannot be solved reliably"


class SingularMatrixError(NumericsError):
    """The matrix is singular, exactly or to working precision.

    Attributes
    ----------
    row
        Row whose pivot vanishes under partial pivoting, counted from 0.
    system
        Number of the system in a batch.
    """

    def __init__(self, message: str, *, row: int, system: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.row, self.system = row, system


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

    def take(self, index: NDArray[np.int64]) -> Systems:
        """Return the systems of these numbers; the batch itself if these are all."""
        if len(index) == self.a.shape[0]:
            return self
        where = self.device.asarray(index)
        a, b, c, d = (v[where] for v in (self.a, self.b, self.c, self.d))
        return Systems(self.device, a, b, c, d, self.tolerance)

    def scaled(self, scales: equilibrate.Scales) -> Systems:
        """Return the systems with scaled rows and columns, on the same device."""
        host = self.to_host()
        a, b, c = (self.device.asarray(v) for v in scales.matrix(host.a, host.b, host.c))
        return Systems(self.device, a, b, c, self.device.asarray(scales.rhs(host.d)), self.tolerance)

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

    @property
    def backward(self) -> NDArray[np.float64]:
        """Normwise backward errors; infinite where the solution is not finite."""
        with np.errstate(all="ignore"):
            size = self.matrix * self.x + self.d
            error = self.residual / size
        error[self.residual == 0.0] = 0.0
        error[np.isnan(error)] = np.inf
        return error

    @property
    def condition(self) -> NDArray[np.float64]:
        """Lower bounds ``||T|| max|x| / max|d|`` of the condition numbers."""
        with np.errstate(all="ignore"):
            bound = self.matrix * self.x / self.d
        bound[self.d == 0.0] = 0.0
        return bound

    def update(self, better: NDArray[np.bool_], other: Errors) -> None:
        """Take the norms of ``other`` where it is better."""
        for name in ("residual", "x", "d", "matrix"):
            mine = getattr(self, name)
            mine[better] = getattr(other, name)[better]

    def put(self, index: NDArray[np.int64], other: Errors) -> None:
        """Store the norms of some systems of the batch."""
        for name in ("residual", "x", "d", "matrix"):
            getattr(self, name)[index] = getattr(other, name)


@dataclass
class Outcome:
    """What became of a batch.

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


# Solves the matrices of a batch for other right-hand sides: (systems, d) -> x
Solver = Callable[[Systems, Any], Any]


def scales_of(
    systems: Systems, outcome: Outcome, smallest: NDArray[np.float64], *, always: bool = False
) -> equilibrate.Scales | None:
    """Return the scales with which a doubtful batch has to be solved and judged; None for the usual one.

    Norms of a badly scaled system hide what is wrong with its small rows, and call it singular for its large ones.

    Parameters
    ----------
    systems, outcome, smallest
        As for :func:`climb`.
    always
        Look at the scales of all systems: pivoting, too, goes wrong where rows differ much in size.
    """
    backward = outcome.errors.backward
    doubtful = (smallest < WEAK_PIVOT) | (backward > systems.tolerance)
    doubtful |= outcome.errors.condition * systems.eps > SUSPICIOUS
    if not (doubtful.any() or always):
        return None
    host = systems.to_host()
    b, c = host.b.copy(), host.c.copy()
    b[:, 0] = c[:, -1] = 0
    if not doubtful.any() and equilibrate.spread(host.a, b, c) <= BADLY_SCALED:
        return None
    scales = equilibrate.find(host.a, b, c)
    return scales if scales.worst > BADLY_SCALED else None


def climb(
    systems: Systems,
    outcome: Outcome,
    smallest: NDArray[np.float64],
    again: Solver | None,
    *,
    partition: Sequence[Any] | None = None,
    shiftable: bool = False,
    strict: bool = False,
) -> None:
    """Take the doubtful systems of a solved batch up the ladder, in place.

    Parameters
    ----------
    systems, outcome
        Systems, with their solutions.
    smallest : (systems,) real
        Smallest relative pivots.
    again
        The algorithm that was used, for refinement; None for a pivoted one, which has no rung above it.
    partition
        Joint lines of the finest partition if the user chose them.
    shiftable
        Whether other joint lines may help.
    strict
        Raise instead of climbing.

    Raises
    ------
    NumericsError
        If ``strict`` and a backward error is too large, or if even pivoting does not make it small.
    SingularMatrixError
        If a matrix is singular.
    """
    backward = outcome.errors.backward
    weak = (smallest < WEAK_PIVOT) | (backward > systems.tolerance)
    if not weak.any():  # the usual case
        _check_condition(systems, outcome, smallest)
        return
    if again is not None:
        if strict:
            _refuse(systems, backward, smallest, outcome)
        else:
            _refine_weak(systems, outcome, weak, again)
            if (bad := _bad(systems, outcome)).size and shiftable:
                _shift_bad(systems, outcome, bad, partition)
    if (bad := _bad(systems, outcome)).size:
        if again is not None:
            _pivot_bad(systems, outcome, bad)
        if (bad := _bad(systems, outcome)).size:
            _give_up(systems, outcome, int(bad[0]))
    _check_condition(systems, outcome, smallest)


def _bad(systems: Systems, outcome: Outcome) -> NDArray[np.int64]:
    return np.flatnonzero(outcome.errors.backward > systems.tolerance)


def _which(systems: Systems, s: int) -> str:
    return f" of system {s}" if systems.a.shape[0] > 1 else ""


def _refuse(
    systems: Systems, backward: NDArray[np.float64], smallest: NDArray[np.float64], outcome: Outcome
) -> None:
    """Raise where the ladder would have been needed; note small pivots that did no harm."""
    worst = int(np.argmax(backward))
    if backward[worst] > systems.tolerance:
        raise NumericsError(
            f"{PIVOTED}: backward error{_which(systems, worst)} {backward[worst]:.1e}"
            f" (tolerance {systems.tolerance:.0e}), smallest relative pivot {smallest.min():.1e}",
            hint="set on_unstable: ladder, or type: lapack",
        )
    outcome.notes.append(f"smallest relative pivot {smallest.min():.1e}, but the backward error is small")


# ----------------------------------------------------------------------------------------- refinement


def _refine_weak(systems: Systems, outcome: Outcome, weak: NDArray[np.bool_], again: Solver) -> None:
    index = np.flatnonzero(weak & np.isfinite(outcome.errors.backward))
    if not index.size:
        return
    part = systems.take(index)
    whole = part is systems
    where = systems.device.asarray(index)
    x = outcome.x if whole else outcome.x[where]
    x, errors, count = refine(part, x, again)
    outcome.refinements = max(outcome.refinements, count)
    outcome.errors.put(index, errors)
    if whole:
        outcome.x = x
    else:
        outcome.x[where] = x
    plural = "s" if count > 1 else ""
    outcome.notes.append(f"small pivots: {count} refinement{plural} of {index.size} system(s)")


def refine(systems: Systems, x: Array, again: Solver) -> tuple[Any, Errors, int]:
    """Refine solutions until the backward error is at rounding level or no longer shrinks.

    Returns
    -------
    x : (systems, n)
        The better of what was tried, system by system.
    errors
        Norms of it.
    count
        Refinements made.
    """
    r = systems.device.xp.empty_like(x)
    errors, count = systems.errors(x, r), 0
    while count < REFINEMENTS:
        count += 1
        before = errors.backward
        with np.errstate(all="ignore"):  # a correction may be infinite; it is not taken then
            trial = x + again(systems, r)
        rest = systems.device.xp.empty_like(x)
        found = systems.errors(trial, rest)
        after = found.backward
        # The first correction repairs digits that the backward error does not see; of two equally good, the later.
        better = (after <= before) | ((after <= 4 * systems.eps) & (before <= 4 * systems.eps))
        if better.all():
            x, r = trial, rest
        elif better.any():
            mask = systems.device.asarray(better)[:, None]
            x, r = (systems.device.xp.where(mask, new, old) for new, old in ((trial, x), (rest, r)))
        errors.update(better, found)
        if (errors.backward <= 4 * systems.eps).all() or not (after < 0.5 * before).any():
            break
    return x, errors, count


def polish(systems: Systems, outcome: Outcome) -> None:
    """Refine solutions of a pivoted elimination, so that each row has a small residual by itself, in place."""

    def again(part: Systems, d: Array) -> Any:
        one = Systems(part.device, part.a, part.b, part.c, d, part.tolerance)
        return systems.device.asarray(pivoted(one))

    outcome.x, outcome.errors, count = refine(systems, outcome.x, again)
    outcome.refinements = max(outcome.refinements, count)


# --------------------------------------------------------------------------------- other joint lines


def literal(device: Device, partition: Sequence[Any]) -> Solver:
    """Return the literal stages with a given partition as an algorithm."""

    def solve(systems: Systems, d: Array) -> Any:
        x = d.copy()
        work = (systems.a.copy(), systems.b.copy(), systems.c.copy())
        stages.solve_levels(device, partition, *work, x, x)
        return x

    return solve


def _shift_bad(
    systems: Systems, outcome: Outcome, bad: NDArray[np.int64], partition: Sequence[Any] | None
) -> None:
    """Solve some systems again with other joint lines, each with its own."""
    n, device = systems.a.shape[1], systems.device
    if n < 8 or bad.size > SHIFTED_SYSTEMS:
        return
    first = joints(n, max(2, auto(n, device)[0])) if partition is None else partition[0]
    for s in bad.tolist():
        one = systems.take(np.array([s]))
        x, errors = _shifted(one, first)
        if errors.backward[0] <= systems.tolerance:
            outcome.x[s], outcome.algorithm = x[0], "nshape-shifted"
            outcome.errors.put(np.array([s]), errors)
            outcome.notes.append(f"singular block{_which(systems, s)}: joint lines moved")


def _shifted(one: Systems, first: NDArray[np.int64]) -> tuple[Any, Errors]:
    """Return the solution of one system after its joint lines were moved away from small pivots."""
    device, n = one.device, one.a.shape[1]
    weight = np.abs(device.to_host(one.a[0]))
    lines, nested = first, 2 if len(first) > 4096 else 1
    for attempt in range(SHIFTS + 1):
        sizes = np.diff(lines)
        sizes[0] += 1
        partition = levels(n, sizes.tolist(), nested)
        x = one.d.copy()
        _smallest, pivots = stages.solve_levels(
            device, partition, one.a.copy(), one.b.copy(), one.c.copy(), x, x
        )
        errors = one.errors(x, device.xp.empty_like(x))
        if attempt and np.isfinite(errors.backward).all():
            x, errors, _count = refine(one, x, literal(device, partition))
            if errors.backward[0] <= one.tolerance:
                break
        flagged = np.flatnonzero(device.to_host(pivots[0]) < WEAK_PIVOT)
        lines = shift(lines, flagged if flagged.size else np.arange(len(lines) - 1), weight)
    return x, errors


# -------------------------------------------------------------------------------------------- LAPACK


def pivoted(systems: Systems) -> NDArray[Any]:
    """Solve by LAPACK's ``gtsv`` on the host: all systems in one call, as diagonal blocks of one matrix.

    Rows of different systems are not coupled, so partial pivoting never mixes them.

    Raises
    ------
    SingularMatrixError
        If a pivot is exactly zero.
    """
    from scipy.linalg import get_lapack_funcs

    host = systems.to_host()
    a, b, c = host.a.copy(), host.b.copy(), host.c.copy()
    count, n = a.shape
    if n == 1 and count == 1:
        b, c = np.zeros((1, 2), a.dtype), np.zeros((1, 2), a.dtype)
    b[:, 0] = c[:, -1] = 0
    (gtsv,) = get_lapack_funcs(("gtsv",), (a,))
    with np.errstate(all="ignore"):
        if count * n == 1:
            x, info = host.d / a, int(a[0, 0] == 0)
        else:
            *_factors, x, info = gtsv(
                b.ravel()[1:],
                a.ravel(),
                c.ravel()[:-1],
                host.d.reshape(-1),
                overwrite_dl=1,
                overwrite_d=1,
                overwrite_du=1,
            )
    if info > 0:
        s, position = divmod(info - 1, n)
        row = _origin(host, s, position)
        raise SingularMatrixError(
            f"the matrix{_which(systems, s)} is singular: no pivot is left for row {row}", row=row, system=s
        )
    return x.reshape(count, n)


def _origin(host: Systems, s: int, position: int) -> int:
    """Return the row of the matrix that elimination had brought to a position by interchanges of neighbours."""
    from scipy.linalg import get_lapack_funcs

    a, b, c = host.a[s], host.b[s].copy(), host.c[s].copy()
    b[0] = c[-1] = 0
    if len(a) < 3:  # too small for the wrapper of SciPy
        return position
    (gttrf,) = get_lapack_funcs(("gttrf",), (a,))
    order = gttrf(b[1:], a, c[:-1])[4]
    while position > 0 and order[position - 1] > position:  # counted from 1: row position + 1 took its place
        position -= 1
    return position


def _pivot_bad(systems: Systems, outcome: Outcome, bad: NDArray[np.int64]) -> None:
    part = systems.take(bad)
    try:
        found = systems.device.asarray(pivoted(part))
    except SingularMatrixError as error:
        s = int(bad[error.system])
        raise SingularMatrixError(
            f"the matrix{_which(systems, s)} is singular: no pivot is left for row {error.row}",
            row=error.row,
            system=s,
        ) from None
    errors = part.errors(found, systems.device.xp.empty_like(found))
    outcome.errors.put(bad, errors)
    if part is systems:
        outcome.x = found
    else:
        outcome.x[systems.device.asarray(bad)] = found
    outcome.algorithm = "lapack"
    outcome.notes.append(f"{PIVOTED}: {bad.size} system(s) solved by LAPACK gtsv")


# -------------------------------------------------------------------------------------------- errors


def _give_up(systems: Systems, outcome: Outcome, s: int) -> None:
    error = outcome.errors.backward[s]
    if not np.isfinite(error):
        _number, row = _condition(systems, s)
        raise SingularMatrixError(
            f"the matrix{_which(systems, s)} is singular to working precision near row {row}: no finite solution was found",
            row=row,
            system=s,
        )
    raise NumericsError(
        f"backward error{_which(systems, s)} {error:.1e} exceeds the tolerance {systems.tolerance:.0e}",
        hint="raise solver.tolerance, or use a larger precision",
    )


def _check_condition(systems: Systems, outcome: Outcome, smallest: NDArray[np.float64]) -> None:
    """Refuse answers without one correct digit; warn of few.

    ``||T|| max|x| / max|d|`` is a lower bound of the condition number that costs nothing.  Where it, or a vanishing pivot,
    raises suspicion, LAPACK estimates the number itself.
    """
    bound, eps = outcome.errors.condition, systems.eps
    suspect = np.flatnonzero((bound * eps > SUSPICIOUS) | (smallest < SUSPICIOUS_PIVOT * eps))
    for s in suspect[np.argsort(-bound[suspect])][:CHECKED_SYSTEMS].tolist():
        condition, row = _condition(systems, s)
        condition = max(condition, float(bound[s]))
        if condition * eps >= 1.0:
            raise SingularMatrixError(
                f"the matrix{_which(systems, s)} is singular to working precision near row {row}"
                f" (condition number {condition:.1e})",
                row=row,
                system=s,
                hint="no digit of the solution would be correct",
            )
        if condition * eps > SUSPICIOUS:
            outcome.notes.append(f"ill-conditioned{_which(systems, s)}: condition number {condition:.1e}")


def _condition(systems: Systems, s: int) -> tuple[float, int]:
    """Return the condition number (1-norm, LAPACK's estimate) and the row with the smallest pivot relative to its entries."""
    from scipy.linalg import get_lapack_funcs

    one = systems.take(np.array([s])).to_host()
    a, b, c = one.a[0], one.b[0].copy(), one.c[0].copy()
    b[0] = c[-1] = 0
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(c))
    with np.errstate(all="ignore"):
        if len(a) < 3:  # too small for the wrappers of SciPy
            full = np.diag(a) + (np.diag(b[1:], -1) + np.diag(c[:-1], 1) if len(a) == 2 else 0)
            return float(np.linalg.cond(full)), int(np.argmin(np.abs(a)))
        gttrf, gtcon = get_lapack_funcs(("gttrf", "gtcon"), (a,))
        lower, pivots, upper, second, order, info = gttrf(b[1:], a, c[:-1])
        row = info - 1 if info > 0 else int(np.argmin(np.nan_to_num(np.abs(pivots) / size, nan=0.0)))
        columns = np.abs(a)
        columns[:-1] += np.abs(b[1:])
        columns[1:] += np.abs(c[:-1])
        reciprocal, _info = gtcon(lower, pivots, upper, second, order, columns.max())
        return float(np.divide(1.0, reciprocal)), row
