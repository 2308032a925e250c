"""Steps after a solution without pivoting: backward error, refinement, other joint lines, pivoting, or an error.

The relative error of elimination without pivoting is a few rounding errors divided by the smallest relative pivot.  Where
that is small, or the backward error is not, these are tried in turn:

1. residual and refinement with the same algorithm;
2. other joint lines for the blocks with small pivots, one or two rows away, which mends a block that is singular by itself;
3. LAPACK's ``gtsv``, with partial pivoting, on the host, and refinement of what it gives;
4. decimal numbers of as many digits as it takes, for small systems (:mod:`qsim.tridiag.solver.robustness.extended`);
5. :class:`SingularMatrixError`, which names the row, or :class:`~qsim.core.errors.NumericsError`.

The row-wise backward error, the largest ``|T x - d| / (|T| |x| + |d|)`` of a row, decides (``|z|`` here is ``|Re z| + |Im z|``,
which cannot overflow): norms show the largest rows and hide what is wrong with small ones.  The normwise one, ``max|T x -
d| / (||T|| max|x| + max|d|)`` with the largest row sum ``||T||``, is never larger but where rows underflow, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.tridiag.kernels.partition import stages
from qsim.tridiag.solver.batch import Errors, Outcome, Systems
from qsim.tridiag.solver.partition import auto, joints, levels, shift
from qsim.tridiag.solver.robustness import equilibrate
from qsim.tridiag.solver.robustness.verdicts import SUSPICIOUS, SingularMatrixError, which

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device

# relative pivots above this lose at most three of sixteen digits
WEAK_PIVOT = 1e-3
# of one solution; what needs more is better solved otherwise
REFINEMENTS = 3
# attempts with other joint lines
SHIFTS = 2
# of a batch: each is partitioned by itself; the others go to LAPACK at once
SHIFTED_SYSTEMS = 8
# roundings of a row of a good solution
ROUNDED = 8
# powers of two between the scales of two rows or columns from which a doubtful system is equilibrated
BADLY_SCALED = 10
# share of the range of exponents from 1 beyond which all elements of a doubtful system are scaled
FAR = 4
PIVOTED = "without pivoting this matrix cannot be solved reliably"


# Solves the matrices of a batch for other right-hand sides: (systems, d) -> x
Solver = Callable[[Systems, Any], Any]


def doubtful(systems: Systems, errors: Errors, smallest: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which systems of a solved batch need a closer look: small pivots, large errors, few digits, or nothing to judge.

    Parameters
    ----------
    systems, errors
        Systems and the norms of their solutions.
    smallest : (systems,) real
        Smallest relative pivots.
    """
    # |T| |x| + |d| of the largest row, against the size from which underflow is below rounding
    with np.errstate(all="ignore"):
        size = errors.matrix * errors.x + errors.d
    doubt = (smallest < WEAK_PIVOT) | systems.failing(errors) | (errors.condition * systems.eps > SUSPICIOUS)
    # rows that underflow are not judged: if they all do, nothing is
    doubt |= (size > 0.0) & (size * systems.eps < stages.smallest_row(systems.a.dtype))
    return np.asarray(doubt)


def scales_of(systems: Systems, doubt: NDArray[np.bool_]) -> equilibrate.Scales | None:
    """Return the scales with which a batch has to be solved and judged; None for the usual ones.

    Norms of a badly scaled system hide what is wrong with its small rows, and call it singular for its large ones; pivoting, too,
    goes wrong where rows differ much in size.

    Parameters
    ----------
    doubt
        Which systems are :func:`doubtful`.
    """
    host = systems.to_host()
    b, c = host.b.copy(), host.c.copy()
    # unused corners may hold anything
    b[:, 0] = c[:, -1] = 0
    # a good solution of rows of similar size needs no scales: the check costs three passes, the matching many more
    if not doubt.any() and equilibrate.spread(host.a, b, c) <= BADLY_SCALED:
        return None
    # scales are powers of two, which round nothing; they are taken only where they change the judgement
    scales = equilibrate.find(host.a, b, c)
    far = np.finfo(host.a.dtype).maxexp // FAR
    _d, top = scales.rhs(host.d)
    return (
        scales if scales.worst > BADLY_SCALED or max(scales.farthest, int(np.abs(top).max())) > far else None
    )


def climb(
    systems: Systems,
    outcome: Outcome,
    smallest: NDArray[np.float64],
    again: Solver | None,
    *,
    partition: Sequence[Any] | None = None,
    shiftable: bool = False,
    strict: bool = False,
    polished: bool = False,
) -> NDArray[np.int64]:
    """Take the doubtful systems of a solved batch up the ladder, in place, as far as LAPACK.

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
    polished
        The systems are equilibrated: refine whatever LAPACK solves and whatever is not solved to rounding row by row, which is
        better in small unknowns, too.

    Returns
    -------
    (left,) int64
        Systems whose backward error is still too large.

    Raises
    ------
    NumericsError
        If ``strict`` and a backward error is too large.
    SingularMatrixError
        If a matrix is singular.
    """
    # rungs: refinement, other joint lines, pivoting; each only for the systems that the one before has left
    weak = (smallest < WEAK_PIVOT) | systems.failing(outcome.errors)
    if polished and again is not None and not strict:
        # scales leave unknowns of different size: a small one keeps its digits where every row is solved to rounding
        rough = ~weak & (outcome.errors.rowwise > ROUNDED * systems.eps)
        refine_some(systems, outcome, rough, again, "small rows")
    # the usual case
    if not (weak.any() or (polished and again is None)):
        return np.flatnonzero(weak)
    if again is not None:
        if strict:
            _refuse(systems, smallest, outcome)
        else:
            refine_some(systems, outcome, weak, again)
            if (bad := _bad(systems, outcome)).size and shiftable:
                _shift_bad(systems, outcome, bad, partition)
            if (bad := _bad(systems, outcome)).size:
                _pivot_bad(systems, outcome, bad)
    rough = systems.failing(outcome.errors) | polished
    if outcome.algorithm == "lapack" and rough.any():
        _polish(systems, outcome, rough)
    return _bad(systems, outcome)


def _bad(systems: Systems, outcome: Outcome) -> NDArray[np.int64]:
    return np.flatnonzero(systems.failing(outcome.errors))


def _refuse(systems: Systems, smallest: NDArray[np.float64], outcome: Outcome) -> None:
    """Raise where the ladder would have been needed; note small pivots that did no harm."""
    if systems.failing(outcome.errors).any():
        worst = int(np.argmax(outcome.errors.worst))
        raise NumericsError(
            f"{PIVOTED}: backward error{which(systems, worst)} {outcome.errors.worst[worst]:.1e}"
            f" (tolerance {systems.tolerance:.0e}), smallest relative pivot {smallest.min():.1e}",
            hint="set on_unstable: ladder, or type: lapack",
        )
    # small pivots with a small backward error are an answer, of which the user hears
    outcome.notes.append(f"smallest relative pivot {smallest.min():.1e}, but the backward error is small")


# ----------------------------------------------------------------------------------------- refinement


def refine_some(
    systems: Systems, outcome: Outcome, some: NDArray[np.bool_], again: Solver, why: str = "small pivots"
) -> None:
    """Refine some systems of a batch, in place."""
    # a residual that is not finite gives no correction
    index = np.flatnonzero(some & np.isfinite(outcome.errors.worst))
    if not index.size:
        return
    count = _refine(systems, outcome, index, again)
    plural = "s" if count > 1 else ""
    outcome.notes.append(f"{why}: {count} refinement{plural} of {index.size} system(s)")


def _refine(systems: Systems, outcome: Outcome, index: NDArray[np.int64], again: Solver) -> int:
    """Refine systems of these numbers, in place; return how often."""
    part = systems.take(index)
    whole = part is systems
    where = systems.device.asarray(index)
    # a part of a batch is a copy, and is written back
    x = outcome.x if whole else outcome.x[where]
    x, errors, count = refine(part, x, again)
    outcome.refinements = max(outcome.refinements, count)
    outcome.errors.put(index, errors)
    if whole:
        outcome.x = x
    else:
        outcome.x[where] = x
    return count


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
    # residuals are formed in the working precision, which is enough for a small backward error, if not for the forward one
    r = systems.device.xp.empty_like(x)
    errors, count = systems.errors(x, r), 0
    while count < REFINEMENTS:
        count += 1
        before = errors.worst
        # a correction may be infinite; it is not taken then
        with np.errstate(all="ignore"):
            trial = x + again(systems, r)
        rest = systems.device.xp.empty_like(x)
        trial_errors = systems.errors(trial, rest)
        after = trial_errors.worst
        # The first correction repairs digits that the backward error does not see; of two equally good, the later.
        better = (after <= before) | ((after <= ROUNDED * systems.eps) & (before <= ROUNDED * systems.eps))
        if better.all():
            x, r = trial, rest
        elif better.any():
            mask = systems.device.asarray(better)[:, None]
            x, r = (systems.device.xp.where(mask, new, old) for new, old in ((trial, x), (rest, r)))
        errors.update(better, trial_errors)
        if (errors.worst <= ROUNDED * systems.eps).all() or not (after < 0.5 * before).any():
            break
    return x, errors, count


def _polish(systems: Systems, outcome: Outcome, rough: NDArray[np.bool_]) -> None:
    """Refine solutions of a pivoted elimination, so that each row has a small residual by itself, in place.

    R. D. Skeel, Math. Comp. 35, 817 (1980).
    """

    def again(part: Systems, d: Array) -> Any:
        one = Systems(part.device, part.a, part.b, part.c, d, part.tolerance)
        return systems.device.asarray(pivoted(one))

    index = np.flatnonzero(rough & np.isfinite(outcome.errors.worst))
    if index.size:
        _refine(systems, outcome, index, again)


# --------------------------------------------------------------------------------- other joint lines


def literal(device: Device, partition: Sequence[Any]) -> Solver:
    """Return the literal stages with a given partition as an algorithm."""

    def solve(systems: Systems, d: Array) -> Any:
        x = d.copy()
        # the stages work in place; x begins as the right-hand side
        work = (systems.a.copy(), systems.b.copy(), systems.c.copy())
        stages.solve_levels(device, partition, *work, x, x)
        return x

    return solve


def _shift_bad(
    systems: Systems, outcome: Outcome, bad: NDArray[np.int64], partition: Sequence[Any] | None
) -> None:
    """Solve some systems again with other joint lines, each with its own."""
    n, device = systems.a.shape[1], systems.device
    # few rows have no other lines within reach; many systems are faster pivoted
    if n < 8 or bad.size > SHIFTED_SYSTEMS:
        return
    # a block may be singular although the matrix is not: other joint lines cut other blocks
    first = joints(n, max(2, auto(n, device)[0])) if partition is None else partition[0]
    for s in bad.tolist():
        one = systems.take(np.array([s]))
        x, errors = _shifted(one, first)
        if not systems.failing(errors)[0]:
            outcome.x[s], outcome.algorithm = x[0], "nshape-shifted"
            outcome.errors.put(np.array([s]), errors)
            outcome.notes.append(f"singular block{which(systems, s)}: joint lines moved")


def _shifted(one: Systems, first: NDArray[np.int64]) -> tuple[Any, Errors]:
    """Return the solution of one system after its joint lines were moved away from small pivots."""
    device, n = one.device, one.a.shape[1]
    # a row with a large diagonal element is a good pivot between two blocks
    weight = np.abs(device.to_host(one.a[0]))
    # the reduced system of many lines is partitioned once more, which keeps its serial part short
    lines, nested = first, 2 if len(first) > 4096 else 1
    for attempt in range(SHIFTS + 1):
        # block 0 holds row 0 besides, as for `joints`
        sizes = np.diff(lines)
        sizes[0] += 1
        partition = levels(n, sizes.tolist(), nested)
        x = one.d.copy()
        _smallest, pivots = stages.solve_levels(
            device, partition, one.a.copy(), one.b.copy(), one.c.copy(), x, x
        )
        errors = one.errors(x, device.xp.empty_like(x))
        # the first attempt uses the lines as they are, to learn which blocks have small pivots
        if attempt and np.isfinite(errors.backward).all():
            x, errors, _count = refine(one, x, literal(device, partition))
            if not one.failing(errors)[0]:
                break
        # no small pivot in the finest blocks: the weak one lies in the reduced system, and all lines move
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
    # without couplings between them the systems of a batch are one long system: pivoting never crosses a border
    b[:, 0] = c[:, -1] = 0
    (gtsv,) = get_lapack_funcs(("gtsv",), (a,))
    with np.errstate(all="ignore"):
        # LAPACK's wrapper takes no matrix of one row
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
        # LAPACK counts rows of the long system after its exchanges; the message names the row of the matrix as given
        s, position = divmod(info - 1, n)
        row = _origin(host, s, position)
        raise SingularMatrixError(
            f"the matrix{which(systems, s)} is singular: no pivot is left for row {row}", row=row, system=s
        )
    return x.reshape(count, n)


def _origin(host: Systems, s: int, position: int) -> int:
    """Return the row of the matrix that elimination had brought to a position by interchanges of neighbours."""
    from scipy.linalg import get_lapack_funcs

    a, b, c = host.a[s], host.b[s].copy(), host.c[s].copy()
    b[0] = c[-1] = 0
    # too small for the wrapper of SciPy
    if len(a) < 3:
        return position
    (gttrf,) = get_lapack_funcs(("gttrf",), (a,))
    order = gttrf(b[1:], a, c[:-1])[4]
    # counted from 1: row position + 1 took its place
    while position > 0 and order[position - 1] > position:
        position -= 1
    return position


def _pivot_bad(systems: Systems, outcome: Outcome, bad: NDArray[np.int64]) -> None:
    """Solve some systems by LAPACK, in place, and judge them again.

    Raises
    ------
    SingularMatrixError
        If one of them is singular, with its number in the whole batch.
    """
    part = systems.take(bad)
    # all of them in one call: an error names a system by its number in this part
    try:
        x = systems.device.asarray(pivoted(part))
    except SingularMatrixError as error:
        s = int(bad[error.system])
        raise SingularMatrixError(
            f"the matrix{which(systems, s)} is singular: no pivot is left for row {error.row}",
            row=error.row,
            system=s,
        ) from None
    # the residual judges LAPACK as it judges everything else
    errors = part.errors(x, systems.device.xp.empty_like(x))
    outcome.errors.put(bad, errors)
    if part is systems:
        outcome.x = x
    else:
        outcome.x[systems.device.asarray(bad)] = x
    outcome.algorithm = "lapack"
    outcome.notes.append(f"{PIVOTED}: {bad.size} system(s) solved by LAPACK gtsv")
