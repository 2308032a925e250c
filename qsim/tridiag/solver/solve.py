"""Solve tridiagonal systems: ``from qsim.tridiag import solve``.

``T x = d`` (Eq. T1) with T given by its diagonal a, lower b and upper c (``b[i]`` couples row i to i - 1, ``c[i]`` row i to
i + 1).  The N-shaped partition method runs on CPUs and CUDA devices and does not pivot; what it cannot solve well is noticed
and climbs the ladder of :mod:`qsim.tridiag.solver.ladder`, so that an answer is accurate or an error.  Thomas, LAPACK
(pivoted) and the Woodbury formula are there to compare with, on the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from qsim.core.device.device import Device, Memory, cpu, namespace, out_of_memory, select
from qsim.tridiag.kernels.partition import nshape, serial, stages
from qsim.tridiag.solver import cyclic as cycles
from qsim.tridiag.solver import ladder
from qsim.tridiag.solver.batch import Outcome, Systems, dtype_of
from qsim.tridiag.solver.partition import auto, joints, levels, nested, rows_of
from qsim.tridiag.solver.robustness import extended
from qsim.tridiag.solver.robustness.verdicts import (
    SingularMatrixError,
    check_condition,
    give_up,
    out_of_range,
    underflow,
    which,
)
from qsim.tridiag.solver.solution import Solution
from qsim.tridiag.solver.systems import require_unmasked

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Unpack

    from qsim.core.device.device import Array
    from qsim.tridiag.solver.robustness import equilibrate

    Arrays = tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]

__all__ = ["SingularMatrixError", "Solution", "solve"]

Algorithm = Literal["nshape", "thomas", "lapack", "woodbury"]
Blocks = int | Sequence[int] | Literal["auto"]
# backward errors accepted, by bytes of a real number
TOLERANCE = {8: 1e-14, 4: 1e-6}


class Options(TypedDict, total=False):
    """Options of a solution.

    Attributes
    ----------
    type
        Algorithm, ``"nshape"`` by default.  ``thomas``, ``lapack`` and ``woodbury`` run on the CPU.
    blocks
        Number of blocks or their sizes.  With ``blocks`` and ``iterations`` both ``"auto"`` (the default) the fastest
        kernels run; otherwise the literal stages of the paper, with this partition.
    iterations
        Number of nested partitions.
    on_unstable
        ``"ladder"`` (the default) mends what needs pivoting (see :mod:`qsim.tridiag.solver.ladder`); ``"error"`` refuses it.
    on_singular
        ``"refuse"`` (the default) raises for a matrix that is singular to working precision; ``"solve"`` returns the
        solution, which satisfies the equations to the tolerance, and notes the condition number (inverse iteration).
    tolerance
        Largest backward error to accept, by default 1e-14 (single precision: 1e-6).  Row by row, 45 rounding errors always are.
    cyclic
        ``b[0]`` couples row 0 to row n - 1 and ``c[n-1]`` row n - 1 to row 0 (:mod:`qsim.tridiag.solver.cyclic`), for b and c
        of n entries.  False by default.
    """

    type: Algorithm
    blocks: Blocks
    iterations: int | Literal["auto"]
    on_unstable: Literal["ladder", "error"]
    on_singular: Literal["refuse", "solve"]
    tolerance: float | None
    cyclic: bool


@dataclass(frozen=True)
class _How:
    """The options with their defaults."""

    type: Algorithm = "nshape"
    blocks: Blocks = "auto"
    iterations: int | Literal["auto"] = "auto"
    on_unstable: Literal["ladder", "error"] = "ladder"
    on_singular: Literal["refuse", "solve"] = "refuse"
    tolerance: float | None = None
    cyclic: bool = False

    @property
    def pivoted(self) -> bool:
        """True if pivoting is requested."""
        return self.type == "lapack"


def solve(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    d: ArrayLike,
    *,
    device: Device | str | None = None,
    **options: Unpack[Options],
) -> Solution:
    """Solve ``T x = d``.

    Parameters
    ----------
    a : (n,) or (batch, n)
        Diagonal.
    b, c : n or n - 1 entries, and the batch axis of a or none
        Lower and upper diagonal.  Of n entries, the first of b and the last of c do not count.
    d : (n,), (n, k) or (batch, n)
        Right-hand sides; columns of a (n, k) array are solved with the same matrix.
    device
        Where to compute, such as ``"cuda:0"``; where the arrays are if not given.
    **options
        ``type``, ``blocks``, ``iterations``, ``on_unstable``, ``on_singular``, ``tolerance``, ``cyclic``: see :class:`Options`.

    Returns
    -------
    Solution
        In the precision of the arrays (mixed ones are promoted, integers count as double).

    Raises
    ------
    ValueError
        For shapes that do not fit, partitions that do not, arrays with NaN or infinity, and masked elements.
    SingularMatrixError
        If the matrix is singular, with the row.
    NumericsError
        If the backward error of the norms or of a row exceeds the tolerance, or the solution overflows or underflows.
    """
    start = time.perf_counter()
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(f"solve has no option {unknown[0]!r}; it has {', '.join(Options.__annotations__)}")
    how = _How(**options)
    for name, choices in (("on_unstable", ("ladder", "error")), ("on_singular", ("refuse", "solve"))):
        if (given := getattr(how, name)) not in choices:
            raise ValueError(f"{name} is {' or '.join(map(repr, choices))}, not {given!r}")
    for name, v in zip("abcd", arrays := (a, b, c, d), strict=True):
        require_unmasked(name, v)
    where = _device(device, arrays, how.type)
    if how.cyclic:
        return _solve_cyclic(where, arrays, how)
    # arrays of the user are read only: what works in place gets copies
    with where.use(), out_of_memory(where, Memory(reduce="system.n")):
        systems, finish = _prepare(where, arrays, how.tolerance)
        plan = _plan(systems.a.shape[1], where, how)
        solved = _allowed(systems, arrays, plan, how)
        # the copy to the host still needs the device
        x = finish(solved.outcome.x)
    return Solution(
        x,
        float(solved.residual.max()),
        float(solved.backward.max()),
        float(solved.rowwise.max()),
        solved.outcome.algorithm,
        plan.blocks,
        plan.iterations,
        float(solved.smallest.min()),
        solved.outcome.refinements,
        time.perf_counter() - start,
        solved.outcome.notes,
        solved.equilibrated,
    )


@dataclass(frozen=True)
class _Solved:
    """Solutions of a batch, with their errors and smallest pivots.

    Residuals and row-wise errors belong to the systems as they were given.
    """

    outcome: Outcome
    residual: NDArray[np.float64]
    backward: NDArray[np.float64]
    rowwise: NDArray[np.float64]
    smallest: NDArray[np.float64]
    equilibrated: bool

    def put(self, s: int, exact: extended.Extended) -> None:
        """Take the solution of one system from the last rung."""
        self.outcome.x[s] = namespace(self.outcome.x).asarray(exact.x[0])
        self.residual[s], self.backward[s], self.rowwise[s] = exact.residual, exact.backward, exact.rowwise


def _climbed(systems: Systems, arrays: Arrays, plan: _Plan, how: _How) -> _Solved:
    """Solve a batch, judge it (equilibrated where it is badly scaled), and climb the ladder where a row is not solved well."""
    outcome, smallest = _first(systems, plan)
    # NaN and infinities of the input show in the residual: arrays are searched only when it is not finite
    _finite(outcome, arrays, systems)
    again = None if how.pivoted else plan.again(systems.device)
    doubt = ladder.doubtful(systems, outcome.errors, smallest)
    if again is not None and how.on_unstable == "ladder" and doubt.any():
        # good pivots, and rows that are far smaller than others: the kernels see no further than a rounding of the largest
        small = systems.failing(outcome.errors) & (smallest >= ladder.WEAK_PIVOT)
        ladder.refine_some(systems, outcome, small, again, "small rows")
        doubt = ladder.doubtful(systems, outcome.errors, smallest)
    # the usual case
    if again is not None and not doubt.any():
        errors = outcome.errors
        return _Solved(
            outcome, errors.residual, errors.backward, errors.rowwise, smallest, equilibrated=False
        )
    # pivots and norms of a badly scaled system judge its units: it is solved again in units in which no row is small
    scales = ladder.scales_of(systems, doubt)
    judged, top = (systems, None) if scales is None else systems.scaled(scales)
    if scales is not None:
        outcome, smallest = _first(judged, plan)
    try:
        left = ladder.climb(
            judged,
            outcome,
            smallest,
            again,
            partition=plan.partition or None,
            shiftable=how.type == "nshape",
            strict=how.on_unstable == "error",
            polished=scales is not None,
        )
    except SingularMatrixError:
        if scales is None:
            raise
        # pivots of elements this far apart may have underflowed
        left = np.flatnonzero(judged.failing(outcome.errors))
        if not left.size or not extended.fits(len(left), systems.a.shape[1], systems.a.dtype):
            raise
    errors = outcome.errors
    solved = _Solved(outcome, errors.residual, errors.backward, errors.rowwise, smallest, scales is not None)
    if scales is not None and top is not None:
        solved, left = _unscaled(systems, solved, left, scales, top)
    if left.size:
        _mend(systems, judged, solved, left, strict=how.on_unstable == "error")
    check_condition(judged, outcome, smallest, left, allowed=how.on_singular == "solve")
    return solved


def _allowed(systems: Systems, arrays: tuple[Any, ...], plan: _Plan, how: _How) -> _Solved:
    """Solve a batch; where a matrix has no pivot left and may be singular, shift its diagonal by a rounding of each row."""
    try:
        return _climbed(systems, arrays, plan, how)
    except SingularMatrixError:
        # an eigenvalue to the last bit: a matrix that rounding cannot tell from this one has a solution
        if how.on_singular != "solve":
            raise
        solved = _climbed(systems.shifted(), arrays, plan, how)
    solved.outcome.notes += ["singular to rounding: the diagonal was shifted by a rounding of each row"]
    return solved


def _unscaled(
    systems: Systems,
    solved: _Solved,
    left: NDArray[np.int64],
    scales: equilibrate.Scales,
    top: NDArray[np.int32],
) -> tuple[_Solved, NDArray[np.int64]]:
    """Return the solutions in the units of the given systems, and those that are not solved well in these."""
    outcome, dtype = solved.outcome, systems.a.dtype
    y = systems.device.to_host(outcome.x)
    outcome.x = systems.device.asarray(scales.solution(y, top))
    # the normwise error stays the scaled system's: norms of the given one show its largest rows alone
    given = systems.errors(outcome.x, systems.device.xp.empty_like(outcome.x))
    solved = replace(solved, residual=given.residual, rowwise=given.rowwise)
    # good in the scaled units but not in the given ones
    worse = np.setdiff1d(np.flatnonzero(systems.failing(given)), left)
    # what was a good solution: some of its numbers are out of range
    if worse.size:
        sizes = scales.sizes(y, top)
        for s in worse.tolist():
            row = int(np.argmax(sizes[s]))
            if not np.finfo(dtype).minexp < sizes[s, row] <= np.finfo(dtype).maxexp:
                power = int(sizes[s, row] * np.log10(2.0))
                raise out_of_range(dtype, row, power, which(systems, s))
        if not extended.fits(len(worse), systems.a.shape[1], dtype):
            tiny = sizes[worse] <= np.finfo(dtype).minexp
            outcome.notes.append(underflow(dtype, int(tiny.sum())))
            worse = worse[~tiny.any(axis=1)]
    return solved, np.union1d(left, worse)


def _mend(
    systems: Systems, judged: Systems, solved: _Solved, left: NDArray[np.int64], *, strict: bool
) -> None:
    """Solve in extended precision what no other rung has solved, in place; raise what to say of large systems."""
    n, dtype, worst = systems.a.shape[1], systems.a.dtype, int(left[0])
    if strict or not extended.fits(len(left), n, dtype):
        raise give_up(judged, worst, max(solved.backward[worst], solved.rowwise[worst]))
    host = systems.take(left).to_host()
    b, c = host.b.copy(), host.c.copy()
    # unused corners may hold anything, and `Numbers` takes them for the corners of a cyclic matrix
    b[:, 0] = c[:, -1] = 0
    underflows = 0
    for k, s in enumerate(left.tolist()):
        numbers = extended.Numbers(host.a[k], b[k], c[k], host.d[k : k + 1])
        exact = extended.solve_extended(numbers, which(systems, s), s)
        solved.put(s, exact)
        # the exact solution rounded: it fails only where it lies below the range of the precision
        if exact.rowwise > systems.accepted:
            underflows += exact.underflows
    solved.outcome.algorithm = "extended"
    solved.outcome.notes.append(f"elements far apart: {len(left)} system(s) solved in extended precision")
    if underflows:
        solved.outcome.notes.append(underflow(dtype, underflows))


def _solve_cyclic(device: Device, arrays: Arrays, how: _How) -> Solution:
    """Solve cyclic systems, one after another."""
    a, b, c, d = (_array(v) for v in arrays)
    for name, v in (("b", b), ("c", c)):
        if v.shape[-1:] != a.shape[-1:]:
            raise ValueError(
                f"{name} has shape {v.shape}; a cyclic system with a of shape {a.shape} needs {a.shape[-1]} entries"
            )
    systems, finish = _prepare(device, (a, b, c, d), how.tolerance)
    count, n = systems.a.shape
    # one matrix, several right-hand sides
    many = a.ndim == 1 and d.ndim == 2

    # tridiagonal systems take the options of the cyclic one, and its tolerance
    def inner(a: Array, b: Array, c: Array, d: Array) -> Solution:
        return solve(
            a,
            b,
            c,
            d,
            device=device,
            type=how.type,
            blocks=how.blocks,
            iterations=how.iterations,
            on_unstable=how.on_unstable,
            tolerance=systems.tolerance,
        )

    solutions = []
    with device.use():
        _require_finite_corners(systems)
        for s in range(1 if many else count):
            matrix = cycles.Matrix(systems.a[s], systems.b[s], systems.c[s])
            right = systems.d.T if many else systems.d[s][:, None]
            # two rows have one coupling in each direction, a row alone has none
            if n < 3:
                solutions.append(cycles.solve_short(matrix, right, inner))
                continue
            one = cycles.solve_one(
                matrix,
                right,
                inner,
                pivoting=how.pivoted,
                strict=how.on_unstable == "error",
                tolerance=systems.tolerance,
            )
            solutions.append(one)
        x = device.xp.ascontiguousarray(device.xp.concatenate([one.x.T for one in solutions]))
    return cycles.joined(solutions, finish(x))


def _array(v: ArrayLike) -> Array:
    """Return an array of a device as it is, anything else as an array of NumPy."""
    on_device: Any = v
    return on_device if hasattr(v, "__cuda_array_interface__") else np.asarray(v)


def _require_finite_corners(systems: Systems) -> None:
    for name, column, v in (("b", 0, systems.b), ("c", -1, systems.c)):
        if not bool(np.isfinite(systems.device.to_host(v[:, column])).all()):
            row = systems.a.shape[1] - 1 if column else 0
            raise ValueError(f"{name}[{row}] is not finite; all elements must be finite")


# ---------------------------------------------------------------------------------------- algorithms


@dataclass(frozen=True)
class _Plan:
    """Algorithm and partition of a solution; ``partition`` is empty for the fast kernels and the serial solvers."""

    type: str
    blocks: int
    iterations: int
    partition: tuple[NDArray[np.int64], ...] = ()

    def run(self, systems: Systems, d: Array) -> tuple[Array, NDArray[np.float64], str]:
        """Return solutions, smallest pivots (each system or all) and the name of the algorithm."""
        device, matrix = systems.device, (systems.a, systems.b, systems.c)
        if self.type == "lapack":
            # LAPACK chooses its pivots: 1 says that none was weak
            found = ladder.pivoted(Systems(device, *matrix, d, systems.tolerance))
            return found, np.ones(len(found)), "lapack"
        if self.type == "nshape" and self.partition:
            # the literal stages work in place: on copies, as the ladder needs the system again
            x = d.copy()
            a, b, c = (v.copy() for v in matrix)
            smallest, _pivots = stages.solve_levels(device, self.partition, a, b, c, x, x)
            return x, device.to_host(smallest), "nshape-literal"
        x = device.xp.empty_like(d)
        if self.type == "nshape":
            a, b, c, right, out = (v.reshape(-1) for v in (*matrix, d, x))
            # the fast kernels take a batch as one system without couplings at its borders, and report one pivot for all
            pivots = nshape.partition_solve(device, a, b, c, right, out, d.shape[1])
            return x, np.full(len(x), np.nan_to_num(pivots.min_pivot)), f"nshape-{pivots.mode}"
        if self.type == "thomas":
            return x, serial.thomas(device, *matrix, d, x), "thomas"
        return x, serial.woodbury(device, self.partition[0], *matrix, d, x), "woodbury"

    def again(self, _device: Device) -> ladder.Solver:
        """Return the algorithm in the form that refinement wants."""
        return lambda systems, d: self.run(systems, d)[0]


@lru_cache(maxsize=64)
def _cached(
    n: int,
    device: Device,
    type: str,
    blocks: int | tuple[int, ...] | None,
    iterations: int | None,
    fast: bool,
) -> _Plan:
    """Return the plan of :func:`_plan`, made once for all systems of one shape."""
    if type in ("thomas", "lapack"):
        return _Plan(type, 1, 1)
    if blocks is None:
        count, depth = auto(n, device, iterations)
    else:
        count = blocks if isinstance(blocks, int) else len(blocks)
        depth = iterations or nested(n, max(count, 1), device)
    if type == "woodbury":
        # at least one cut, or there would be nothing to correct
        cut = joints(n, blocks if blocks is not None else min(max(2, count), max(1, n - 1)))
        return _Plan(type, max(1, len(cut) - 1), 1, (cut,))
    if fast:
        return _Plan(type, count, depth)
    partition = tuple(levels(n, count if isinstance(blocks, int | None) else blocks, depth))
    return _Plan(type, max(1, len(partition[0]) - 1), len(partition), partition)


def _plan(n: int, device: Device, how: _How) -> _Plan:
    """Return algorithm and partition for systems of n rows."""
    type, blocks, iterations = how.type, how.blocks, how.iterations
    if type not in ("nshape", "thomas", "lapack", "woodbury"):
        raise ValueError(f"type is nshape, thomas, lapack or woodbury, not {type!r}")
    sizes = rows_of(blocks)
    if isinstance(iterations, str) and iterations != "auto":
        raise ValueError(f"iterations is 'auto' or a number, not {iterations!r}")
    depth = None if isinstance(iterations, str) else int(iterations)
    if depth is not None and depth < 1:
        raise ValueError(f"iterations must be at least 1, not {depth}")
    # a partition that was given, by blocks or by nesting, is the user's: the literal stages follow it
    fast = sizes is None and depth is None
    return _cached(n, device, type, sizes, depth, fast)


def _first(systems: Systems, plan: _Plan) -> tuple[Outcome, NDArray[np.float64]]:
    """Solve a batch once and measure the residual."""
    x, smallest, algorithm = plan.run(systems, systems.d)
    errors = systems.errors(x, systems.device.xp.empty_like(x))
    return Outcome(x, errors, algorithm), smallest


# --------------------------------------------------------------------------------------------- arrays


@cache
def _cpu() -> Device:
    return cpu()


@cache
def _selected(name: str) -> Device:
    return select(name)[0]


def _device(device: Device | str | None, arrays: Arrays, type: str) -> Device:
    """Return where to compute: where the caller says, else where the arrays are; serial algorithms on the CPU."""
    # libraries and serial algorithms have no CUDA kernels; a CPU with a given number of threads is kept
    if type in ("thomas", "lapack", "woodbury"):
        return device if isinstance(device, Device) and not device.is_cuda else _cpu()
    if isinstance(device, Device):
        return device
    if device is not None:
        return _selected(device)
    for array in arrays:
        if hasattr(array, "__cuda_array_interface__"):
            on_device: Any = array
            return _selected(f"cuda:{on_device.device.id}")
    return _cpu()


def _prepare(
    device: Device, arrays: Arrays, tolerance: float | None
) -> tuple[Systems, Callable[[Array], Array]]:
    """Return the systems in the layout of the kernels, and what gives a solution the shape of d."""
    on_device = any(hasattr(v, "__cuda_array_interface__") for v in arrays)
    xp = device.xp if device.is_cuda else np
    a, b, c, d = (device.asarray(v) if device.is_cuda or on_device else np.asarray(v) for v in arrays)
    dtype = dtype_of(a, b, c, d)
    count = _systems(a, d)
    n = a.shape[-1]
    columns = a.ndim == 1 and d.ndim == 2

    def fit(v: Array) -> Array:
        """Return v with a batch axis; copied only where it has to be."""
        # one matrix for several right-hand sides is repeated: the kernels know batches alone
        v = v.reshape(1, n) if count == 1 else xp.broadcast_to(v, (count, n))
        return xp.ascontiguousarray(v, dtype=dtype)

    matrix = [fit(a)]
    for name, v, place in (("b", b, slice(1, None)), ("c", c, slice(None, -1))):
        if (
            v.ndim not in (1, a.ndim)
            or v.shape[-1] not in (n, n - 1)
            or v.shape[:-1] not in ((), a.shape[:-1])
        ):
            raise ValueError(
                f"{name} has shape {v.shape}; with a of shape {a.shape} it needs {n} or {n - 1} entries"
            )
        if v.shape[-1] == n:
            matrix.append(fit(v))
        else:
            matrix.append(xp.zeros((count, n), dtype))
            matrix[-1][:, place] = v
    # columns of right-hand sides become a batch: the kernels run along contiguous rows
    rhs = xp.ascontiguousarray(d.T if columns else d.reshape(count, n), dtype=dtype)
    if tolerance is not None and not tolerance > 0.0:
        raise ValueError(f"tolerance must be positive, not {tolerance}")
    accepted = TOLERANCE[dtype.type(0).real.itemsize] if tolerance is None else float(tolerance)
    shape = d.shape

    def finish(x: Array) -> Array:
        # back to the shape of d, and to where the arrays of the caller are
        x = x.T if columns else x.reshape(shape)
        if on_device and not device.is_cuda:
            moved: Array = import_module("cupy").asarray(x)
            return moved
        return x if on_device or not device.is_cuda else device.to_host(x)

    return Systems(device, matrix[0], matrix[1], matrix[2], rhs, accepted), finish


def _systems(a: Array, d: Array) -> int:
    """Return the number of systems, or of right-hand sides of one matrix.

    Raises
    ------
    ValueError
        If a or d has no shape that :func:`solve` takes.
    """
    n = a.shape[-1] if a.ndim else 0
    if a.ndim not in (1, 2) or n == 0:
        raise ValueError(f"a has shape {a.shape}; it must be (n,) or (batch, n) with n at least 1")
    # one matrix, several right-hand sides
    if a.ndim == 1 and d.ndim == 2:
        count = d.shape[1]
        fits = d.shape == (n, count)
    else:
        count = a.shape[0] if a.ndim == 2 else 1
        fits = d.shape == a.shape
    if not fits:
        shapes = f"({n},) or ({n}, k)" if a.ndim == 1 else str(a.shape)
        raise ValueError(f"d has shape {d.shape}; with a of shape {a.shape} it must be {shapes}")
    if count == 0:
        raise ValueError(f"d has shape {d.shape}: there is nothing to solve")
    return int(count)


def _finite(outcome: Outcome, arrays: Arrays, systems: Systems) -> None:
    """Name an element of the input that is not finite; every such one makes the residual infinite."""
    if np.isfinite(outcome.errors.residual).all():
        return
    n = systems.a.shape[1]
    for name, v in zip("abcd", arrays, strict=True):
        array = systems.device.to_host(v) if hasattr(v, "__cuda_array_interface__") else np.asarray(v)
        good = np.isfinite(array)
        # unused corners may hold anything
        if name in "bc" and array.shape[-1] == n:
            good[..., 0 if name == "b" else -1] = True
        if not good.all():
            place = np.unravel_index(int(np.argmin(good)), array.shape)
            index = ", ".join(str(int(i)) for i in place)
            raise ValueError(f"{name}[{index}] is {array[place]}; all elements must be finite")
