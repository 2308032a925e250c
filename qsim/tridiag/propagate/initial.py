"""Initial states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.columns import smooth_curve
from qsim.core.deck.tables import read_table
from qsim.core.device.pool import each_part
from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.functions import CACHED, formula, in_chunks
from qsim.core.results.arrays import require_finite
from qsim.core.results.hdf5 import open_datasets
from qsim.tridiag.propagate.eigenstates import imaginary_time, window_states

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.tridiag.deck.electron import FileInitial

# norm outside of the grid that a state from a file may have
LOST = 1e-6


def initial_state(
    block: Any,
    x: NDArray[np.float64],
    dx: float,
    potential: NDArray[np.float64],
    stencil: str,
    key: str = "initial",
    threads: int = 1,
) -> NDArray[np.complex128]:
    """Return the initial state, (n,) complex128, ``sum |psi|^2 dx = 1``.

    Parameters
    ----------
    block
        A member of `qsim.tridiag.deck.electron.Initial`.
    x : (n,) float64
        Points between the walls, bohr.
    dx : float
        Spacing, bohr.
    potential : (n,) float64
        V, hartree.
    stencil : {"three_point", "numerov"}
    key : str
        Where the block stands in the deck.
    threads : int
        That share the points of a formula.

    Raises
    ------
    InvalidInput
        If the state vanishes on the grid, or a level does not exist.
    FileError, NumericsError
        If a file cannot be used, or the eigensolver fails.
    """
    kind = block.type
    if kind == "eigenstate":
        if block.method == "imaginary_time":
            if block.level != 0:
                raise InvalidInput(
                    f"{key}.method", "imaginary time finds level 0 only; use method: eigensolver"
                )
            return imaginary_time(x, dx, potential, stencil)[1].astype(complex)
        return _superpose({block.level: 1.0 + 0.0j}, x, dx, potential, stencil, f"{key}.level")
    if kind == "superposition":
        return _superpose(block.weights(), x, dx, potential, stencil, f"{key}.levels")
    if kind == "gaussian":
        psi = gaussian(x, block.x0, block.k0, block.width, threads)
    elif kind == "expression":
        real = in_chunks(lambda part: formula(block.real, f"{key}.real", x=part), x, threads)
        psi = real + 1j * in_chunks(lambda part: formula(block.imag, f"{key}.imag", x=part), x, threads)
    else:
        psi = _from_file(block, x, key)
    return normalised(psi, dx, key, threads)


def gaussian(
    x: NDArray[np.float64], x0: float, k0: float, width: float, threads: int = 1
) -> NDArray[np.complex128]:
    """Return ``(2 pi width^2)^(-1/4) exp(-(x - x0)^2 / (4 width^2) + i k0 x)``, of standard deviation `width` in density."""

    def part(x: NDArray[np.float64]) -> NDArray[np.complex128]:
        # far tails underflow to 0, as they should
        with np.errstate(under="ignore", over="ignore"):
            size = (2.0 * math.pi * width**2) ** -0.25 * np.exp(-(((x - x0) / (2.0 * width)) ** 2))
        # far away: not worth a phase
        if not size.any():
            return np.zeros(x.size, dtype=complex)
        return np.asarray(size * np.exp(1j * k0 * x), dtype=complex)

    return in_chunks(part, x, threads, complex, CACHED)


def normalised(
    psi: NDArray[np.complex128], dx: float, key: str = "initial", threads: int = 1
) -> NDArray[np.complex128]:
    """Return psi with ``sum |psi|^2 dx = 1``; chunks are summed in a fixed order, for any number of threads.

    Raises
    ------
    InvalidInput
        If it vanishes or is not finite.
    """
    # chunks of a fixed size: the sum has the same bits for any number of threads
    starts = range(0, psi.size, CACHED)
    found, sums = np.zeros(len(starts)), np.zeros(len(starts))

    def largest_of(first: int, last: int) -> None:
        for k in range(first, last):
            found[k] = np.max(np.abs(psi[starts[k] : starts[k] + CACHED]))

    each_part(largest_of, len(starts), psi.size, threads)
    largest = float(np.max(found))
    if not math.isfinite(largest):
        raise InvalidInput(key, "the wavefunction is not finite on the grid")
    if largest < 1e-150:
        raise InvalidInput(key, "the wavefunction vanishes on the grid; it lies outside of it")
    out = np.empty_like(psi)

    def scaled(first: int, last: int) -> None:
        for k in range(first, last):
            part = slice(starts[k], starts[k] + CACHED)
            # scaled by the largest value first, so that squares neither overflow nor underflow
            np.divide(psi[part], largest, out=out[part])
            sums[k] = np.vdot(out[part], out[part]).real

    each_part(scaled, len(starts), psi.size, threads)
    norm = math.sqrt(math.fsum(sums) * dx)

    def divided(first: int, last: int) -> None:
        part = slice(starts[first], starts[last - 1] + CACHED)
        out[part] /= norm

    each_part(divided, len(starts), psi.size, threads)
    return out


def _superpose(
    weights: dict[int, complex],
    x: NDArray[np.float64],
    dx: float,
    potential: NDArray[np.float64],
    stencil: str,
    key: str,
) -> NDArray[np.complex128]:
    """Return the normalised superposition of eigenstates; the levels are few, so each is looked for on its own."""
    n = x.shape[0]
    if max(weights) >= n:
        raise InvalidInput(key, f"{n} grid points have no level {max(weights)}")
    psi = np.zeros(n, dtype=complex)
    levels = sorted(level for level, weight in weights.items() if weight != 0)
    lowest, count = levels[0], levels[-1] - levels[0] + 1
    # together, so that levels next to each other are orthogonal
    # one window for all levels between the lowest and the highest; a wide range of levels would need many
    # states in it at once
    if count <= 64:
        _, states, low = window_states(dx, potential, stencil, count, lowest)
        for level in levels:
            psi[low : low + states.shape[1]] += weights[level] * states[level - lowest]
    else:
        for level in levels:
            _, states, low = window_states(dx, potential, stencil, 1, level)
            psi[low : low + states.shape[1]] += weights[level] * states[0]
    return normalised(psi, dx, key)


def _from_file(block: FileInitial, x: NDArray[np.float64], key: str) -> NDArray[np.complex128]:
    """Return a wavefunction from columns x, re, im or from a results file, interpolated to the grid."""
    path = block.file
    points, values = _read_results(path) if path.suffix in (".h5", ".hdf5") else _read_table(block)
    # spacing is compared up to the rounding of positions in a text file
    slack, dx = 1e-9 * (1.0 + float(np.max(np.abs(x)))), float(x[1] - x[0])
    # the walls: a results file has a zero there
    left, right = float(x[0]) - dx, float(x[-1]) + dx
    between = (points > left + slack) & (points < right - slack)
    same = points[between]
    # the same grid, with or without its walls: taken as it is, bit for bit
    if points.size <= x.size + 2 and same.shape == x.shape and np.allclose(same, x, rtol=0.0, atol=slack):
        return values[between]
    if points.size < 4 or np.any(np.diff(points) <= 0):
        raise FileError(f"{path}: x must rise and have at least 4 values")
    # a state too large to be squared is refused below
    with np.errstate(all="ignore"):
        weight = np.abs(values) ** 2
        outside = (points < left - slack) | (points > right + slack)
        lost = float(np.sum(weight[outside]) / max(np.sum(weight), 1e-300))
    if not math.isfinite(lost):
        raise FileError(
            f"{path}: the norm of the state is too large for a number, up to {np.abs(values).max():g}"
        )
    if lost > LOST:
        raise InvalidInput(
            f"{key}.file",
            f"the grid [{left:g}, {right:g}] bohr leaves out {lost:.2g} of the norm of the state in the file",
        )
    # zero beyond the points of the file
    inside = (x >= points[0]) & (x <= points[-1])
    psi = np.zeros(x.shape, dtype=complex)
    psi[inside] = smooth_curve(path, points, values)(x[inside])
    return psi


def _read_table(block: FileInitial) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    table = read_table(block)
    # files need not be sorted
    table = table[np.argsort(table[:, 0], kind="stable")]
    return table[:, 0], table[:, 1] + 1j * table[:, 2]


def _read_results(path: Path) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    """Return x and psi of a results file, or of another HDF5 file with the same arrays; complex numbers may be pairs."""
    file, datasets = open_datasets(path)
    arrays: dict[str, NDArray[Any]] = {}
    with file:
        for name in ("x", "psi_final"):
            item = datasets.get(f"results/{name}", datasets.get(name))
            if item is None:
                raise FileError(
                    f"{path}: no array {name!r}; expected x and psi_final, as qsim tridiag writes them"
                )
            arrays[name] = item[()]
            if arrays[name].dtype.kind not in ("biuf" if name == "x" else "biufc"):
                raise FileError(f"{path}: {name} holds {arrays[name].dtype}, not numbers")
            require_finite(path, name, arrays[name])
    x, psi = np.asarray(arrays["x"], np.float64), arrays["psi_final"]
    if psi.ndim == 2 and psi.shape[1] == 2 and not np.iscomplexobj(psi):
        psi = psi[:, 0] + 1j * psi[:, 1]
    if x.ndim != 1 or psi.shape != x.shape:
        raise FileError(
            f"{path}: psi_final has shape {psi.shape}, x has {x.shape}; expected one value for each x"
        )
    return x, np.asarray(psi, np.complex128)
