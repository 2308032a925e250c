"""Partitions of a tridiagonal system into blocks, and the cost model that says how finely.

Joint lines ``J_0 = 0 < J_1 < ... < J_nbl = n - 1``: block w holds the rows ``J_w + 1 .. J_{w+1}`` (block 0 also row 0), and
its interior, the rows strictly between two joint lines, may be empty.  The ``n_bl + 1`` joint lines form the reduced system,
which can be cut again: ``iterations`` counts the nested partitions, 1 being Table 1 of the paper.

Cost (Eq. T2; Eqs. 7-9 of Lutsyshyn, Navarrete and Bauer, with ``n_bl(0) = n``):

    t = alpha sum_i n_bl(i) / n_bl(i+1) + beta n_bl(last)

alpha: seconds per row for RD, RU and SS in one block; beta: seconds per row of the serial solution RS.  It supposes as many
processors as blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from qsim.core.device.device import Device

# rows of a block on a CPU: the five arrays of a block stay in its cache between the stages
CPU_ROWS = 1024
# joint lines that a CPU core solves serially rather than partition again
CPU_SERIAL = 16384
MOST_ITERATIONS = 6
# Seconds per row of a thread's three sweeps through global memory and of its serial RS; seconds of one more partition's
# launches.  Fitted on an H200 (bench case tridiag-fig2).
CUDA_ALPHA, CUDA_BETA, CUDA_LAUNCHES = 1.5e-6, 6.0e-7, 1.3e-4


def joints(n: int, blocks: int | Sequence[int]) -> NDArray[np.int64]:
    """Return the joint lines of a partition.

    Parameters
    ----------
    n
        Rows of the system.
    blocks
        Number of blocks, as equal as possible; or their sizes, which sum to ``n``.

    Returns
    -------
    (n_bl + 1,) int64
        ``J_0 = 0 .. J_nbl = n - 1``; a single row has ``[0]`` and no block.

    Raises
    ------
    ValueError
        If there are more blocks than fit, or the sizes do not make up the system.
    """
    if n < 1:
        raise ValueError(f"a system needs at least one row, not {n}")
    if isinstance(blocks, int | np.integer):
        return _equal(n, int(blocks))
    sizes = [int(size) for size in blocks]
    if not sizes or any(size < 1 for size in sizes):
        wrong = next((w for w, size in enumerate(sizes) if size < 1), 0)
        given = f"block {wrong} has {sizes[wrong]}" if sizes else "the list is empty"
        raise ValueError(f"block sizes must be at least 1 ({given})")
    if sum(sizes) != n:
        raise ValueError(f"the block sizes sum to {sum(sizes)}, but the system has {n} rows")
    # a row alone is a joint line, and no block
    if n == 1:
        return np.zeros(1, np.int64)
    if sizes[0] < 2:
        raise ValueError("the first block holds row 0 and its joint line: its size must be at least 2, not 1")
    # a joint line is the last row of its block; row 0 is a joint line, too
    edges = np.cumsum([0, *sizes], dtype=np.int64) - 1
    edges[0] = 0
    return edges


def _equal(n: int, blocks: int) -> NDArray[np.int64]:
    """Return the joint lines of equal blocks, sizes of which differ by one row at most."""
    if blocks < 1:
        raise ValueError(f"at least one block is needed, not {blocks}")
    if n == 1:
        return np.zeros(1, np.int64)
    if blocks > n - 1:
        raise ValueError(f"{n} rows have room for at most {n - 1} blocks, not {blocks}")
    if blocks == 1:
        return np.array([0, n - 1], np.int64)
    # n - 1 rows after row 0, spread evenly
    return np.arange(blocks + 1, dtype=np.int64) * (n - 1) // blocks


def levels(n: int, blocks: int | Sequence[int], iterations: int = 1) -> list[NDArray[np.int64]]:
    """Return the joint lines of nested partitions, the finest first.

    Parameters
    ----------
    n
        Rows of the system.
    blocks
        Blocks of the first partition, as for :func:`joints`.
    iterations
        Number of nested partitions.  The reduced system of m lines shrinks by ``m^(1/iterations)`` each time, as Eq. (8)
        asks for the levels that are left, but at least by half; partitions stop where fewer than three lines remain.
    """
    if iterations < 1:
        raise ValueError(f"at least one partition is needed, not {iterations}")
    partition = [joints(n, blocks)]
    # every partition shrinks the lines by the same factor, which makes the sum of all steps smallest (Eq. 8)
    ratio = len(partition[0]) ** (1.0 / iterations)
    while len(partition) < iterations and len(partition[-1]) >= 3:
        lines = len(partition[-1])
        # at least one block and at most one for every two lines: a partition must shrink the system
        partition.append(_equal(lines, max(1, min(round(lines / ratio), lines // 2))))
    return partition


def shift(
    lines: NDArray[np.int64], flagged: ArrayLike, weight: ArrayLike, reach: int = 2
) -> NDArray[np.int64]:
    """Move the joint lines at both ends of the flagged blocks by one to ``reach`` rows.

    Parameters
    ----------
    lines : (n_bl + 1,) int64
        Joint lines; the first and the last stay.
    flagged : indices of blocks
        Blocks with a small pivot.
    weight : (n,) real
        Row by row; of the rows in reach that with the largest weight becomes the joint line.
    """
    moved, weight = lines.copy(), np.asarray(weight)
    # both joint lines of a flagged block, but never the first and the last line of the system
    wanted = {line for w in np.asarray(flagged).tolist() for line in (w, w + 1)}
    for line in sorted(wanted & set(range(1, len(lines) - 1))):
        # a line stays between its neighbours, of which the one before may have moved already
        low = max(int(moved[line - 1]) + 1, int(lines[line]) - reach)
        high = min(int(moved[line + 1]) - 1, int(lines[line]) + reach)
        rows = [row for row in range(low, high + 1) if row != lines[line]]
        if rows:
            moved[line] = max(rows, key=lambda row: float(weight[row]))
    return moved


# ----------------------------------------------------------------------------------------- cost model


def _counts(n: int, blocks: float, iterations: int) -> list[float]:
    """Return ``n_bl(0) = n, n_bl(1) = blocks, ..`` with the inner levels shrinking as in :func:`levels`."""
    ratio = (blocks + 1.0) ** (1.0 / iterations)
    return [float(n), *(max(1.0, blocks / ratio**level) for level in range(iterations))]


def cost(n: int, blocks: float, iterations: int, alpha: float, beta: float) -> float:
    """Return the modelled seconds of a solution (Eq. for t_tot,(n_it) above Eq. 8)."""
    # alpha for each row of a block on each level, in parallel over the blocks; beta for each line of the last one, serially
    counts = _counts(n, blocks, iterations)
    steps = sum(first / second for first, second in pairwise(counts))
    return alpha * steps + beta * counts[-1]


def fit(
    blocks: Sequence[float], seconds: Sequence[float], n: int, iterations: int = 1
) -> tuple[float, float]:
    """Fit alpha and beta of the cost model to measured times, by relative least squares.

    Parameters
    ----------
    blocks, seconds
        Blocks of the first partition, and the times measured with them.
    n
        Rows of the system.
    iterations
        Nested partitions of the measurements.

    Returns
    -------
    alpha, beta : float
        Seconds per row, not negative.
    """
    times = np.asarray(seconds, dtype=float)
    if len(blocks) != len(times) or len(times) < 2:
        raise ValueError("alpha and beta need the times of at least two numbers of blocks")
    counts = [_counts(n, count, iterations) for count in blocks]
    # the model is linear in alpha and beta: non-negative least squares of the relative deviations
    table = np.array([[sum(p / q for p, q in pairwise(c)), c[-1]] for c in counts])
    from scipy.optimize import nnls

    # rows are divided by their times: a fast solution weighs as much as a slow one
    (alpha, beta), _rest = nnls(table / times[:, None], np.ones_like(times))
    return float(alpha), float(beta)


def optimum(n: int, iterations: int, alpha: float, beta: float) -> int:
    """Return the number of blocks of the first partition that the model calls fastest.

    For one iteration ``sqrt(alpha n / beta)`` (Eq. 7); in general every partition shrinks the system by the same ratio
    ``(beta n / alpha)^(1 / (iterations + 1))`` (Eq. 8, with its factor).
    """
    if n < 3 or alpha <= 0.0:
        return 1
    # minimum of alpha sum n_k / n_(k+1) + beta n_last (Eq. 9)
    ratio = (beta * n / alpha) ** (1.0 / (iterations + 1))
    return min(max(1, round(n / max(ratio, 1.0))), n - 1)


def auto(n: int, device: Device, iterations: int | None = None) -> tuple[int, int]:
    """Return blocks and iterations for the literal stages on a device.

    A CPU has few processors: its blocks are as long as stay in cache, and the reduced system is partitioned again only
    where it is long.  A CUDA device has one thread per block, as the cost model supposes.

    Returns
    -------
    blocks, iterations : int
    """
    if n < 3:
        return 1, iterations or 1
    if not device.is_cuda:
        blocks = 1 if n < 2 * CPU_ROWS else n // CPU_ROWS
        return blocks, iterations or nested(n, blocks, device)
    # every launch costs time that the model of Eq. 9 does not know: it is added before depths are compared
    options = []
    for count in (iterations,) if iterations else range(1, MOST_ITERATIONS + 1):
        blocks = optimum(n, count, CUDA_ALPHA, CUDA_BETA)
        options.append((_cuda_seconds(n, blocks, count), blocks, count))
    _seconds, blocks, count = min(options)
    return blocks, count


def nested(n: int, blocks: int, device: Device) -> int:
    """Return the number of nested partitions for a given number of blocks of the first one."""
    if not device.is_cuda:
        return 1 if blocks < CPU_SERIAL else 2
    return min(range(1, MOST_ITERATIONS + 1), key=lambda count: _cuda_seconds(n, blocks, count))


def _cuda_seconds(n: int, blocks: int, iterations: int) -> float:
    return cost(n, blocks, iterations, CUDA_ALPHA, CUDA_BETA) + CUDA_LAUNCHES * iterations


def rows_of(sizes: int | Sequence[int] | str) -> int | tuple[int, ...] | None:
    """Return a setting ``blocks`` in a form that can be compared: None for ``"auto"``."""
    if isinstance(sizes, str):
        if sizes != "auto":
            raise ValueError(f"blocks is 'auto', a number or a list of sizes, not {sizes!r}")
        return None
    return int(sizes) if isinstance(sizes, int | np.integer) else tuple(int(size) for size in sizes)
