"""Random decks of ``task: solve``.

The oracle is a sparse LU factorisation of the matrix before its rows and columns were scaled (SuperLU, pivoted), refined with
residuals in extended precision.
"""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.hdf5 import open_datasets, save_datasets
from qsim.tridiag.solver.ladder import BADLY_SCALED
from qsim.tridiag.solver.robustness import equilibrate
from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.tridiag.solver.systems import Source

__all__ = ["system"]

SIZES = (1, 2, 3, 5, 31, 32, 33, 100, 257, 700, 1200)
SAFE = 1e-2  # condition number times eps below which a refusal is wrong
REFINEMENTS = 6
ROW_ROUNDING = 8.0  # roundings of a residual in the precision of the run: four products and four sums


@dataclass
class _System:
    """Systems of rows (systems, n), with the scales that their rows and columns were multiplied with."""

    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    d: NDArray[Any]
    """Right-hand sides (systems, n, columns)."""
    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    cyclic: bool = False


def system(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck with ``task: solve``."""
    single = bool(rng.random() < 0.2)
    kind = str(rng.choice(["random", "laplace", "crank_nicolson", "file"], p=[0.3, 0.1, 0.15, 0.45]))
    n = int(rng.choice(SIZES))
    draw = {"random": _random, "laplace": _laplace, "crank_nicolson": _crank_nicolson}.get(kind)
    block, made = draw(rng, n, single) if draw is not None else _file(rng, n, single, folder)
    solver = _solver(rng, n, made)
    deck: dict[str, Any] = {"task": "solve", "system": block, "solver": solver}
    deck["run"] = {"precision": "single" if single else "double", "seed": int(rng.integers(1, 1000))}
    eps = float(np.finfo(np.float32 if single else np.float64).eps)
    truth = _Truth(made, eps, folder)
    safe = truth.condition * eps < SAFE and solver.get("on_unstable", "ladder") == "ladder"
    if "memory" in solver:  # block by block there is no equilibration
        safe = safe and np.ptp(np.log10(made.rows)) + np.ptp(np.log10(made.columns)) < 3.0
    return Trial(deck, truth.judge, refusable=not safe)


# -------------------------------------------------------------------------------------------- the decks


def _corners(rng: np.random.Generator, block: dict[str, Any], made: _System, n: int) -> None:
    """Make a third of the systems cyclic."""
    if rng.random() > 0.3:
        return
    low, up = (round(float(v), 3) for v in rng.normal(size=2))
    block["corners"] = [low, up]
    made.b[:, 0], made.c[:, -1] = low, up
    made.cyclic = True


def _generated(source: Source, batch: int) -> _System:
    a, b, c, d = source.read(0, source.n)
    rows = source.n // batch
    a, b, c = (part.reshape(batch, rows).copy() for part in (a, b, c))
    right = d.reshape(source.columns, batch, rows).transpose(1, 2, 0).copy()
    ones = np.ones((batch, rows))
    return _System(a, b, c, right, ones, ones)


def _random(rng: np.random.Generator, n: int, single: bool) -> tuple[dict[str, Any], _System]:
    from qsim.tridiag.solver.systems import RandomSource

    dominance = float(rng.choice([0.0, 0.3, 0.8, 1.0, 1.0001, 1.5, 100.0, 1e5]))
    kind = str(rng.choice(["complex", "real"]))
    block: dict[str, Any] = {
        "source": "random",
        "n": n,
        "seed": int(rng.integers(1, 10**6)),
        "dominance": dominance,
    }
    block |= {"dtype": kind, "batch": int(rng.choice([1, 1, 2, 5])), "rhs": int(rng.choice([1, 1, 3]))}
    dtype = np.result_type(
        {"complex": np.complex64, "real": np.float32}[kind], np.float32 if single else float
    )
    source = RandomSource(n, block["seed"], dominance, dtype, block["batch"], block["rhs"])
    made = _generated(source, block["batch"])
    _corners(rng, block, made, n)
    return block, made


def _laplace(rng: np.random.Generator, n: int, single: bool) -> tuple[dict[str, Any], _System]:
    from qsim.tridiag.solver.systems import LaplaceSource

    block: dict[str, Any] = {"source": "laplace", "n": n, "seed": int(rng.integers(1, 10**6))}
    made = _generated(LaplaceSource(n, block["seed"], dtype=np.float32 if single else np.float64), 1)
    _corners(rng, block, made, n)
    return block, made


def _crank_nicolson(rng: np.random.Generator, n: int, single: bool) -> tuple[dict[str, Any], _System]:
    from qsim.tridiag.solver.systems import CrankNicolsonSource

    dx, dt = (float(f"{10.0**v:.4g}") for v in (rng.uniform(-2, 0.5), rng.uniform(-3, 5)))
    block: dict[str, Any] = {
        "source": "crank_nicolson",
        "n": n,
        "dx": dx,
        "dt": dt,
        "seed": int(rng.integers(1, 10**6)),
    }
    depth = float(rng.choice([0.0, 1.0, 50.0]))
    block["potential"] = {"type": "softcore", "Z": depth, "a2": 2.0}

    def potential(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return -depth / np.sqrt(x * x + 2.0)

    dtype = np.complex64 if single else np.complex128
    made = _generated(CrankNicolsonSource(n, dx, dt, potential, block["seed"], dtype), 1)
    _corners(rng, block, made, n)
    return block, made


def _file(rng: np.random.Generator, n: int, single: bool, folder: Path) -> tuple[dict[str, Any], _System]:
    """Draw a matrix of known condition, scale its rows and columns, and write it in a format of any byte order."""
    batch = int(rng.choice([1, 1, 3]))
    kind = rng.choice(["f", "F"]) if single else rng.choice(["d", "D", "d", "D", "f", "F"])
    made = _matrix(rng, n, batch, np.dtype(str(kind)))
    cyclic = bool(rng.random() < 0.3)
    if not cyclic:
        made.b[:, 0] = made.c[:, -1] = 0
    made.cyclic = cyclic
    ending = str(rng.choice([".npz", ".h5", ".mtx", ".mtx.gz"])) if batch == 1 and not cyclic else ".npz"
    columns = int(rng.choice([1, 1, 3])) if batch == 1 else 1
    made.d = made.d[:, :, :columns]
    path = folder / f"system{ending}"
    block: dict[str, Any] = {"source": "file", "file": str(path)}
    if cyclic:
        block["corners"] = "file"
    order: Any = str(rng.choice(["<", ">"]))
    right = made.d[..., 0] if columns == 1 else made.d[0]
    right = right[0] if batch == 1 and columns == 1 else right
    bands = [
        (part if batch > 1 else part[0]).astype(part.dtype.newbyteorder(order))
        for part in (made.a, made.b, made.c)
    ]
    if not cyclic and rng.random() < 0.5 and n > 1:
        bands[1], bands[2] = bands[1][..., 1:], bands[2][..., :-1]
    right = right.astype(right.dtype.newbyteorder(order))
    if ending.startswith(".mtx"):
        _write_market(path, made)
    elif ending == ".npz":
        np.savez(path, a=bands[0], b=bands[1], c=bands[2], d=right)
    else:
        save_datasets(path, dict(zip("abcd", [*bands, right], strict=True)))
    if ending.startswith(".mtx"):
        block["rhs"] = str(_write_rhs(rng, folder, right))
    return block, made


def _matrix(rng: np.random.Generator, n: int, batch: int, dtype: np.dtype[Any]) -> _System:
    """Return matrices with diagonals of any dominance, some of them with small or vanishing pivots, badly scaled."""
    single = dtype.char in "fF"

    def normal(*shape: int) -> NDArray[Any]:
        real = rng.normal(size=shape)
        return real + 1j * rng.normal(size=shape) if dtype.kind == "c" else real

    b, c, a = normal(batch, n), normal(batch, n), normal(batch, n)
    dominance = float(10.0 ** rng.uniform(-3, 2))
    if rng.random() < 0.7:
        a = a / np.abs(a) * dominance * (np.abs(b) + np.abs(c))
    if rng.random() < 0.2:
        a[:, rng.integers(n)] = 0.0  # a pivot that vanishes
    reach = float(rng.choice([0.0, 0.0, 3.0, 15.0 if not single else 6.0]))
    rows = 2.0 ** np.round(rng.uniform(-reach, reach, (batch, n)) * 3.32)
    columns = 2.0 ** np.round(rng.uniform(-reach, reach, (batch, n)) * 3.32)
    if rng.random() < 0.2:
        rows[:, rng.integers(n)] *= 2.0 ** (40 if single else 90)
    a, b, c = (part.astype(dtype) for part in (a, b, c))
    d = normal(batch, n, 3).astype(dtype)
    if n < 3:
        b[:, 0] = c[:, -1] = 0
    a = (a * (rows * columns)).astype(dtype)
    b = (b * (rows * np.roll(columns, 1, 1))).astype(dtype)
    c = (c * (rows * np.roll(columns, -1, 1))).astype(dtype)
    d = (d * rows[..., None]).astype(dtype)
    return _System(a, b, c, d, rows, columns)


def _write_market(path: Path, made: _System) -> None:
    a, b, c = made.a[0], made.b[0], made.c[0]
    n, kind = len(a), "complex" if np.iscomplexobj(a) else "real"
    entries = [(i, i, a[i]) for i in range(n)] + [(i, i - 1, b[i]) for i in range(1, n)]
    entries += [(i, i + 1, c[i]) for i in range(n - 1)]
    lines = [f"%%MatrixMarket matrix coordinate {kind} general", f"{n} {n} {len(entries)}"]
    for i, j, value in entries:
        z = complex(value)
        lines.append(f"{i + 1} {j + 1} {z.real!r}" + (f" {z.imag!r}" if kind == "complex" else ""))
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def _write_rhs(rng: np.random.Generator, folder: Path, right: NDArray[Any]) -> Path:
    ending = str(rng.choice([".npy", ".txt", ".csv", ".h5"]))
    path = folder / f"rhs{ending}"
    if ending == ".npy":
        np.save(path, right)
    elif ending == ".h5":
        save_datasets(path, {"d": right})
    else:
        separator = "," if ending == ".csv" else " "
        rows = [separator.join(repr(complex(v)).strip("()") for v in np.atleast_1d(row)) for row in right]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _solver(rng: np.random.Generator, n: int, made: _System) -> dict[str, Any]:
    kind = str(rng.choice(["nshape", "thomas", "lapack", "woodbury"], p=[0.6, 0.13, 0.14, 0.13]))
    solver: dict[str, Any] = {"type": kind}
    if kind in ("nshape", "woodbury") and n > 30 and rng.random() < 0.4:
        solver["blocks"] = int(rng.integers(2, n // 4))
        if kind == "nshape" and rng.random() < 0.5:
            solver["iterations"] = int(rng.integers(1, 4))
    elif kind == "nshape" and n >= 700 and not made.cyclic and rng.random() < 0.4:
        solver["memory"] = int(rng.choice([65536, 131072]))
    if rng.random() < 0.1:
        solver["on_unstable"] = "error"
    return solver


# -------------------------------------------------------------------------------------------- the truth


class _Truth:
    """Solutions and condition numbers of the systems before they were scaled."""

    def __init__(self, made: _System, eps: float, folder: Path) -> None:
        self.made, self.eps, self.folder = made, eps, folder
        self.tiny = float(np.finfo(np.float32 if eps > 1e-10 else np.float64).tiny)
        solutions, conditions, componentwise = zip(
            *(self._one(s) for s in range(made.a.shape[0])), strict=True
        )
        self.y = np.stack(solutions)
        self.condition = max(conditions)
        self.componentwise = max(componentwise)

    def _one(self, s: int) -> tuple[NDArray[Any], float, float]:
        """Return ``C x`` (n, columns), and the condition number and Skeel's of ``R^-1 T C^-1``."""
        from scipy.sparse.linalg import splu

        made = self.made
        wide = np.clongdouble if np.iscomplexobj(made.a) else np.longdouble
        rows, columns = (v[s].astype(np.longdouble) for v in (made.rows, made.columns))
        a = made.a[s].astype(wide) / (rows * columns)
        b = made.b[s].astype(wide) / (rows * np.roll(columns, 1))
        c = made.c[s].astype(wide) / (rows * np.roll(columns, -1))
        d = made.d[s].astype(wide) / rows[:, None]
        matrix = _sparse(*(np.asarray(v, complex if wide is np.clongdouble else float) for v in (a, b, c)))
        try:
            factors = splu(matrix)
        except RuntimeError:  # exactly singular
            return np.full(d.shape, np.nan, d.dtype), np.inf, np.inf
        double = np.asarray(d, matrix.dtype)
        with np.errstate(all="ignore"):
            y = factors.solve(double).astype(wide)
            for _repeat in range(REFINEMENTS):
                r = d - _times(a, b, c, y)
                y = y + factors.solve(np.asarray(r, matrix.dtype)).astype(wide)
        inverse, condition = _inverse(matrix, factors)
        sizes = _times(np.abs(a), np.abs(b), np.abs(c), np.abs(y)) + np.abs(d)
        with np.errstate(all="ignore"):
            componentwise = (inverse @ sizes.astype(float)).max(0) / np.abs(y).max(0).astype(float)
        return y, condition, float(componentwise.max())

    def judge(self, results: Results) -> Sequence[Claim]:
        """Return the claims of a run."""
        made, eps = self.made, self.eps
        scalars: Any = results.scalars
        x = self._solution(results).reshape(self.y.shape)
        backward = float(scalars["backward_error"].value)
        warning = "ill-conditioned|backward error"
        wide = np.clongdouble if np.iscomplexobj(made.a) else np.longdouble
        a, b, c, d = (v.astype(wide) for v in (made.a, made.b, made.c, made.d))
        residual, scale, errors, rowwise, forward = 0.0, 0.0, [], [], 0.0
        for s in range(len(a)):
            r = d[s] - _times(a[s], b[s], c[s], x[s].astype(wide))
            size = float((_size(a[s]) + _size(b[s]) + _size(c[s])).max())
            top = size * _size(x[s]).max(0) + _size(d[s]).max(0)
            residual, scale = max(residual, float(_size(r).max())), max(scale, float(top.max()))
            errors.append(float((_size(r).max(0) / np.where(top > 0, top, 1)).max()))
            whole = _times(_size(a[s]), _size(b[s]), _size(c[s]), _size(x[s].astype(wide))) + _size(d[s])
            counts = whole > 4 * self.tiny / eps  # rows that underflow do not count
            rowwise.append(float(np.where(counts, _size(r) / np.where(counts, whole, 1), 0).max()))
            y = x[s].astype(wide) * made.columns[s][:, None]
            forward = max(forward, float(np.abs(y - self.y[s]).max() / np.abs(self.y[s]).max()))
        found = float(scalars["residual"].value)
        lost = min(float(scalars["min_pivot"].value), 1.0)
        digits = eps * self.componentwise / lost if lost > 0 else np.inf
        stated = float(scalars["rowwise_error"].value)
        by_norms = self.condition * max(backward, eps)
        if not self._scaled_as_judged(results):
            # The norms are those of the scaled matrix, its condition number is not.  Elimination rounds the same whatever the
            # scales, but pivots are relative to their rows: large columns hide growth.  Cyclic systems are judged row by row,
            # which scales do not change.
            spread = min(float((made.columns.max(1) / made.columns.min(1)).max()), 2.0**BADLY_SCALED)
            by_rows = made.cyclic and made.a.shape[1] > 2
            digits *= 1.0 if by_rows else max(1.0, spread * lost)
            by_norms = np.inf
        elif not self._plain:
            by_norms = self._as_equilibrated() * max(backward, eps)
        claims = [
            Claim("residual", max(0.0, residual - found), found, oracle=eps * scale, warning=warning),
            Claim("backward_error", max(0.0, max(errors) - backward), backward, oracle=eps, warning=warning),
            Claim("rowwise_error", max(rowwise) - stated, 0.0, oracle=ROW_ROUNDING * eps),
        ]
        if math.isfinite(
            allowed := min(by_norms, digits)
        ):  # else the backward error says nothing of the solution
            claims.append(Claim("x", forward, allowed, warning=warning))
        return claims

    def _scaled_as_judged(self, results: Results) -> bool:
        """Tell whether backward error and pivots are those of a matrix with the scales of the oracle's, or better ones."""
        scalars: Any = results.scalars
        return self._plain or ("equilibrated" in scalars and bool(scalars["equilibrated"].value))

    @property
    def _plain(self) -> bool:
        """Whether rows and columns were left as they were drawn."""
        return bool(np.ptp(self.made.rows) == 0.0 and np.ptp(self.made.columns) == 0.0)

    def _as_equilibrated(self) -> float:
        """Return by how much a backward error of the equilibrated systems may grow in the unknowns before they were scaled.

        That is the condition number of ``R T C`` with the scales of the run, times the spread of its unknowns in units of
        those of the oracle: scales of a matrix are not unique, and a matrix of two rows leaves one of them open.
        """
        from scipy.sparse.linalg import splu

        made = self.made
        scales = equilibrate.find(made.a, made.b, made.c)
        bands = scales.matrix(made.a, made.b, made.c)
        worst = 0.0
        for s in range(len(made.a)):
            matrix = _sparse(*(np.asarray(v[s], complex if np.iscomplexobj(v) else float) for v in bands))
            try:
                _, condition = _inverse(matrix, splu(matrix))
            except RuntimeError:  # exactly singular
                return np.inf
            units = np.log2(made.columns[s].astype(float)) + scales.columns[s]
            worst = max(worst, condition * 2.0 ** float(np.ptp(units)))
        return worst

    def _solution(self, results: Results) -> NDArray[Any]:
        if "x" in results:
            return np.asarray(results["x"])
        file, datasets = open_datasets(self.folder / str(results.scalars["x_file"].value))
        with file:
            return np.asarray(datasets["x"][()])


def _inverse(matrix: Any, factors: Any) -> tuple[NDArray[np.float64], float]:
    """Return the sizes of the elements of an inverse, and the condition number in the 1-norm."""
    inverse = np.abs(factors.solve(np.eye(matrix.shape[0], dtype=matrix.dtype)))
    return inverse, float(abs(matrix).sum(axis=0).max()) * float(inverse.sum(axis=0).max())


def _size(z: NDArray[Any]) -> NDArray[Any]:
    return np.abs(z.real) + np.abs(z.imag)


def _times(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    return a[:, None] * x + b[:, None] * np.roll(x, 1, 0) + c[:, None] * np.roll(x, -1, 0)


def _sparse(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> Any:
    from scipy.sparse import csc_matrix

    n = len(a)
    i = np.arange(n)
    rows, columns = np.tile(i, 3), np.concatenate([i, (i - 1) % n, (i + 1) % n])
    return csc_matrix((np.concatenate([a, b, c]), (rows, columns)), shape=(n, n))
