"""Messages about systems that the ladder does not solve well: singular, ill-conditioned, out of the range of the precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.solver.batch import Outcome, Systems

__all__ = [
    "SUSPICIOUS",
    "SUSPICIOUS_PIVOT",
    "SingularMatrixError",
    "check_condition",
    "difficulty",
    "give_up",
    "out_of_range",
    "underflow",
    "which",
]

# condition number times eps, and relative pivot over eps
SUSPICIOUS, SUSPICIOUS_PIVOT = 1e-3, 1e3
# of a batch whose condition numbers LAPACK estimates
CHECKED_SYSTEMS = 8
DIFFICULTY = ("nshape", "thomas", "woodbury", "lapack", "extended")


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


def which(systems: Systems, s: int) -> str:
    """Return how messages name a system of a batch."""
    return f" of system {s}" if systems.a.shape[0] > 1 else ""


def difficulty(algorithm: str) -> int:
    """Return the rank of an algorithm: a batch is named after the one that its most difficult system needed."""
    return DIFFICULTY.index(algorithm.partition("-")[0])


def give_up(systems: Systems, s: int, error: float) -> NumericsError:
    """Return what to say of a system that no rung of the ladder solves."""
    if not np.isfinite(error):
        # the row with the weakest pivot is the best hint that there is
        _number, row = _condition(systems, s)
        return SingularMatrixError(
            f"the matrix{which(systems, s)} is singular to working precision near row {row}: no finite solution was found",
            row=row,
            system=s,
        )
    return NumericsError(
        f"backward error{which(systems, s)} of a row {error:.1e} exceeds the tolerance {systems.tolerance:.0e}",
        hint="raise solver.tolerance, or use a larger precision",
    )


def out_of_range(dtype: np.dtype[Any], row: int, power: int, which: str) -> NumericsError:
    """Return what to say of a solution whose unknown in a row, about 10^power, is too large, or too small as all of them are."""
    limits, precision = np.finfo(dtype), "single" if np.finfo(dtype).bits == 32 else "double"
    hint = "multiply d by a power of two: the solution is multiplied by it, too"
    # scaling the right-hand side scales the solution, without any other change
    if power > 0:
        return NumericsError(
            f"the solution{which} overflows: x[{row}] is about 1e{power:+d}, but the largest number"
            f" of {precision} precision {limits.max:.1e}",
            hint=hint,
        )
    return NumericsError(
        f"the solution{which} underflows: its largest unknown, x[{row}], is about 1e{power:+d}, but the smallest number"
        f" of {precision} precision with all digits {limits.tiny:.1e}",
        hint=hint,
    )


def underflow(dtype: np.dtype[Any], count: int) -> str:
    """Return the note on unknowns that are too small for the precision."""
    return (
        f"{count} unknown(s) below {np.finfo(dtype).tiny:.1e}, the smallest number with all digits:"
        " zero, or with fewer digits, so that their rows are not solved as well as others"
    )


def check_condition(
    systems: Systems,
    outcome: Outcome,
    smallest: NDArray[np.float64],
    exact: NDArray[np.int64],
    *,
    allowed: bool = False,
) -> None:
    """Refuse answers without one correct digit; warn of few.

    ``||T|| max|x| / max|d|`` is a lower bound of the condition number that costs nothing.  Where it, or a vanishing pivot,
    raises suspicion, LAPACK estimates the number itself.

    Parameters
    ----------
    systems, outcome, smallest
        As for :func:`climb`.
    exact
        Systems that were solved in extended precision: their norms say nothing.
    allowed
        Whether a matrix may be singular to working precision: its condition number is then noted.
    """
    bound, eps = outcome.errors.condition, systems.eps
    bound[exact] = 0.0
    suspect = np.flatnonzero((bound * eps > SUSPICIOUS) | (smallest < SUSPICIOUS_PIVOT * eps))
    # the worst first: an estimate costs a factorisation, so a large batch is judged by a few of its systems
    for s in suspect[np.argsort(-bound[suspect])][:CHECKED_SYSTEMS].tolist():
        condition, row = _condition(systems, s)
        condition = max(condition, float(bound[s]))
        if condition * eps >= 1.0:
            text = (
                f"the matrix{which(systems, s)} is singular to working precision near row {row}"
                f" (condition number {condition:.1e})"
            )
            if not allowed:
                hint = "no digit of the solution would be correct; on_singular: solve returns it, as inverse iterations need it"
                raise SingularMatrixError(text, row=row, system=s, hint=hint)
            outcome.notes.append(
                f"{text}: its solution satisfies the equations, but no digit of its size is certain"
            )
            continue
        if condition * eps > SUSPICIOUS:
            outcome.notes.append(f"ill-conditioned{which(systems, s)}: condition number {condition:.1e}")


def _condition(systems: Systems, s: int) -> tuple[float, int]:
    """Return the condition number (1-norm, LAPACK's estimate) and the row with the smallest pivot relative to its entries."""
    from scipy.linalg import get_lapack_funcs

    one = systems.take(np.array([s])).to_host()
    a, b, c = one.a[0], one.b[0].copy(), one.c[0].copy()
    b[0] = c[-1] = 0
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(c))
    with np.errstate(all="ignore"):
        # too small for the wrappers of SciPy
        if len(a) < 3:
            full = np.diag(a) + (np.diag(b[1:], -1) + np.diag(c[:-1], 1) if len(a) == 2 else 0)
            return float(np.linalg.cond(full)), int(np.argmin(np.abs(a)))
        gttrf, gtcon = get_lapack_funcs(("gttrf", "gtcon"), (a,))
        lower, pivots, upper, second, order, info = gttrf(b[1:], a, c[:-1])
        row = info - 1 if info > 0 else int(np.argmin(np.nan_to_num(np.abs(pivots) / size, nan=0.0)))
        # 1-norm: the largest column sum, of which b and c hold elements of the neighbouring rows
        columns = np.abs(a)
        columns[:-1] += np.abs(b[1:])
        columns[1:] += np.abs(c[:-1])
        reciprocal, _info = gtcon(lower, pivots, upper, second, order, columns.max())
        return float(np.divide(1.0, reciprocal)), row
