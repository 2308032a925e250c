"""Random decks of ``task: solve`` with elements over hundreds of orders of magnitude.

The oracle is elimination in rational numbers (:mod:`fractions`), which makes no error at all.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.solver.batch import ROUGH
from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

    Exact = tuple[Fraction, Fraction]

__all__ = ["rational_solution", "rowwise", "wild"]

DECADES = (30.0, 60.0, 100.0)  # elements lie within 10^-decades and 10^decades
ROUNDINGS = 8.0  # of a residual in the precision of the run: four products and four sums
NONE: Exact = (Fraction(0), Fraction(0))


def wild(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with a system of 3 to 19 rows."""
    n, batch = int(rng.integers(3, 20)), int(rng.choice([1, 1, 3]))
    columns = int(rng.choice([1, 1, 3])) if batch == 1 else 1
    bands = [_normal(rng, (batch, n), complex_ := bool(rng.random() < 0.5)) for _ in range(3)]
    right = _normal(rng, (batch, n, columns), complex_)
    decades = float(rng.choice(DECADES))
    which = int(rng.integers(3))  # the diagonal alone, the matrix, the right-hand sides, too
    for band in bands[: 1 if which == 0 else 3]:
        band *= 10.0 ** rng.uniform(-decades, decades, band.shape)
    if which == 2:
        right *= 10.0 ** rng.uniform(-decades, decades, right.shape)
    if rng.random() < 0.2:
        bands[0][:, rng.integers(n)] = 0.0  # a pivot that vanishes
    cyclic = bool(rng.random() < 0.25)
    if not cyclic:
        bands[1][:, 0] = bands[2][:, -1] = 0.0
    path = folder / "wild.npz"
    given = [band if batch > 1 else band[0] for band in bands]
    d = right[0] if columns > 1 else right[..., 0].reshape(given[0].shape)
    np.savez(path, a=given[0], b=given[1], c=given[2], d=d)
    solver: dict[str, Any] = {"type": str(rng.choice(["nshape", "nshape", "thomas", "lapack", "woodbury"]))}
    block: dict[str, Any] = {"source": "file", "file": str(path)}
    if cyclic:
        block["corners"] = "file"
    a, b, c = bands
    exact = [rational_solution(a[s], b[s], c[s], right[s]) for s in range(batch)]
    limits = np.finfo(float)

    def judge(results: Results) -> Sequence[Claim]:
        scalars: Any = results.scalars
        x = np.asarray(results["x"]).reshape(batch, n, columns)
        rows = max(rowwise(a[s], b[s], c[s], x[s], right[s]) for s in range(batch))
        stated = float(scalars["rowwise_error"].value)
        eps = float(limits.eps)
        claims = [
            Claim("rowwise_error", max(rows - stated, 0.0), 0.0, oracle=ROUNDINGS * eps),
            Claim("tolerance", stated, 0.0, oracle=ROUGH * eps, warning="unknown.s. below"),
        ]
        if batch == columns == 1 and not cyclic and str(scalars["algorithm"].value) == "extended":
            claims.append(
                Claim("x", _difference(x[0], exact[0]), 0.0, oracle=eps, warning="unknown.s. below")
            )
        return claims

    sizes = [_size(z) for one in exact for column in one or [[NONE]] for z in column]
    refusable = any(one is None for one in exact) or not limits.tiny < max(sizes) <= limits.max
    return Trial({"task": "solve", "system": block, "solver": solver}, judge, refusable=refusable)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], complex_: bool) -> NDArray[Any]:
    real = rng.normal(size=shape)
    return real + 1j * rng.normal(size=shape) if complex_ else real


def rational_solution(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]
) -> list[list[Exact]] | None:
    """Return the exact solution of a tridiagonal or cyclic system of at least 3 rows; None if it is singular.

    Parameters
    ----------
    a, b, c : (n,)
        Diagonal, lower, upper; ``b[0]`` and ``c[n - 1]`` are the corners.
    d : (n, columns)
        Right-hand sides.

    Returns
    -------
    Real and imaginary parts, column by column.
    """
    n = len(a)
    rows = []
    for i in range(n):
        row = {i: _exact(a[i]), (i - 1) % n: _exact(b[i]), (i + 1) % n: _exact(c[i])}
        rows.append(({j: z for j, z in row.items() if z != NONE}, [_exact(z) for z in d[i]]))
    done = []
    for j in range(n):
        found = [k for k, (row, _right) in enumerate(rows) if j in row]
        if not found:
            return None
        pivot, load = rows.pop(found[0])
        done.append((pivot, load))
        for k in found[1:]:
            row, right = rows[k - 1]
            factor = _over(row[j], pivot[j])
            changed = {
                i: _minus(row.get(i, NONE), _times(factor, pivot.get(i, NONE))) for i in {*row, *pivot} - {j}
            }
            right = [_minus(p, _times(factor, q)) for p, q in zip(right, load, strict=True)]
            rows[k - 1] = {i: z for i, z in changed.items() if z != NONE}, right
    x = [[NONE] * n for _ in range(d.shape[1])]
    for j in reversed(range(n)):
        row, load = done[j]
        for column, rest in zip(x, load, strict=True):
            for i, z in row.items():
                if i > j:
                    rest = _minus(rest, _times(z, column[i]))
            column[j] = _over(rest, row[j])
    return x


def rowwise(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], x: NDArray[Any], d: NDArray[Any]) -> float:
    """Return the largest ``|d - T x| / (|T| |x| + |d|)`` of a row, exactly, for x and d (n, columns)."""
    n, worst = len(a), Fraction(0)
    for i in range(n):
        for k in range(d.shape[1]):
            rest = _exact(d[i, k])
            whole = _size(rest)
            for element, j in ((a[i], i), (b[i], (i - 1) % n), (c[i], (i + 1) % n)):
                z, y = _exact(element), _exact(x[j, k])
                rest = _minus(rest, _times(z, y))
                whole += _size(z) * _size(y)
            worst = max(worst, _size(rest) / whole if whole else worst)
    return float(worst)


def _difference(x: NDArray[Any], exact: list[list[Exact]] | None) -> float:
    """Return the largest error of an unknown relative to it."""
    worst = Fraction(0)
    for k, column in enumerate(exact or []):
        for z, y in zip(x[:, k], column, strict=True):
            error = _size(_minus(_exact(z), y))
            worst = max(worst, error / _size(y) if error and y != NONE else error)
    return float(worst)


def _exact(z: Any) -> Exact:
    return Fraction(float(z.real)), Fraction(float(z.imag))


def _size(z: Exact) -> Fraction:
    return abs(z[0]) + abs(z[1])


def _minus(p: Exact, q: Exact) -> Exact:
    return p[0] - q[0], p[1] - q[1]


def _times(p: Exact, q: Exact) -> Exact:
    if not (p[1] or q[1]):
        return p[0] * q[0], Fraction(0)
    return p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]


def _over(p: Exact, q: Exact) -> Exact:
    if not (p[1] or q[1]):
        return p[0] / q[0], Fraction(0)
    square = q[0] * q[0] + q[1] * q[1]
    real, imaginary = _times(p, (q[0], -q[1]))
    return real / square, imaginary / square
