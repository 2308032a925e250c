"""The truth for random qoc decks, by means that the method does not use.

Levels come from a sinc basis on the whole line (not a stencil, not a sine basis) in a box twice as wide; their number follows
from an energy, not from the deck.  The field is taken from the results file.  A field that is constant in each step is
propagated by exact exponentials (Chebyshev series to rounding), a spline by the commutator-free Magnus integrator of fourth order
(two exponentials per substep).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Function = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]

DECAY = 26.0  # of the integral of the decay constant beyond the turning points, at most
MOST_POINTS = 900
MOST_LEVELS = 120
UNSIGNED = 1e-12  # part of the largest dipole element below which an element is rounding, and so is its sign
CLOSE = (
    1e-3  # part of the mean spacing below which the potential between the points decides how two levels mix
)
BETWEEN = 8  # points of a finer grid per point of the basis
LONG = 300.0  # phase (rad) of one step from which its Hamiltonian is diagonalised


@dataclass(frozen=True)
class World:
    """A molecule as it is written in the deck.

    Attributes
    ----------
    mass : float
        Electron masses.
    potential, dipole : callable
        Functions of x on the whole line, hartree and a.u.
    span : (float, float)
        First and last point of the deck's grid, bohr.
    """

    mass: float
    potential: Function
    dipole: Function
    span: tuple[float, float]


@dataclass(frozen=True)
class Truth:
    """Converged levels: energies (K,), dipole matrix (K, K) and what they may be off by.

    Where two levels are so close that a basis may mix them wrongly, `other` holds those of the second grid.
    """

    energies: NDArray[np.float64]
    dipoles: NDArray[np.float64]
    energy_error: NDArray[np.float64]
    dipole_error: NDArray[np.float64]
    other: Truth | None = None


def levels(world: World, top: float, mass: float = 1.0, depth: float = 1.0) -> Truth:
    """Return all levels up to an energy, on two grids in two boxes; their difference is the error."""
    fine = _sinc_levels(world, top, mass, depth, 1.1, 2.6)
    rough = _sinc_levels(world, top, mass, depth, 0.8, 2.1)
    count = min(fine[0].size, rough[0].size)
    signs = signs_like(fine[1][:count, :count], rough[1][:count, :count])
    energy_error = _padded(np.abs(fine[0][:count] - rough[0][:count]), fine[0].size)
    dipole_error = np.abs(fine[1][:count, :count] - rough[1][:count, :count] * np.outer(signs, signs))
    other = Truth(*rough, energy_error, dipole_error) if _has_close(fine[0]) else None
    return Truth(*fine, energy_error, dipole_error, other)


def _has_close(energies: NDArray[np.float64]) -> bool:
    """Return True if two levels are so close that what lies between the points of a basis decides how they mix."""
    gaps = np.diff(energies)
    return bool(gaps.size) and float(gaps.min()) < CLOSE * float(gaps.mean())


def _padded(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.full(size - values.size, np.inf)])


def _sinc_levels(
    world: World, top: float, mass: float, depth: float, reach: float, sampling: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    m = world.mass * mass
    a, b = world.span
    width = b - a
    x = np.linspace(a - reach * width, b + reach * width, 6001)
    v = depth * world.potential(x)
    kappa = np.sqrt(2.0 * m * np.maximum(v - top, 0.0))
    open_ = np.flatnonzero(kappa == 0.0)
    step = float(x[1] - x[0])
    left = np.flatnonzero(np.cumsum(kappa[: open_[0] + 1][::-1])[::-1] * step < DECAY)[0]
    right = open_[-1] + np.flatnonzero(np.cumsum(kappa[open_[-1] :]) * step < DECAY)[-1]
    low, high = float(x[left]), float(x[right])
    waves = (high - low) * np.sqrt(2.0 * m * (top - float(v.min()))) / np.pi
    count = int(min(max(sampling * waves + 30, 100 * sampling), MOST_POINTS))
    grid = np.linspace(low, high, count)
    i = np.arange(count)
    distance = i[:, None] - i
    with np.errstate(divide="ignore"):
        kinetic = np.where(
            distance == 0, np.pi**2 / 3.0, 2.0 * (-1.0) ** distance / distance.astype(float) ** 2
        )
    h = kinetic / (2.0 * m * (grid[1] - grid[0]) ** 2)
    h[np.diag_indices(count)] += depth * world.potential(grid)
    from scipy.linalg import eigh

    energies, states = eigh(h, subset_by_value=(-np.inf, top))
    energies, states = energies[:MOST_LEVELS], states[:, :MOST_LEVELS]
    if _has_close(energies):
        return _with_between(world, grid, depth, energies, states)
    return energies, states.T @ (world.dipole(grid)[:, None] * states)


def _with_between(
    world: World,
    grid: NDArray[np.float64],
    depth: float,
    energies: NDArray[np.float64],
    states: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Diagonalise in the levels once more, with potential and dipole integrated over a grid `BETWEEN` times finer."""
    h = float(grid[1] - grid[0])
    x = grid[0] + h / BETWEEN * np.arange((grid.size - 1) * BETWEEN + 1)
    fine = states.T @ np.sinc((x - grid[:, None]) / h)
    potential = depth * ((fine * world.potential(x)) @ fine.T) / BETWEEN
    potential -= depth * (states.T * world.potential(grid)) @ states
    dipoles = (fine * world.dipole(x)) @ fine.T / BETWEEN
    matrix = np.diag(energies - energies[0]) + 0.5 * (potential + potential.T)
    better, turn = np.linalg.eigh(matrix)
    return better + energies[0], turn.T @ dipoles @ turn


def signs_like(
    model: NDArray[np.float64], matrix: NDArray[np.float64], error: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the signs s for which ``s_i matrix_ij s_j`` is like a model, along the elements whose signs are surest.

    The signs of levels are arbitrary, but relative signs must be read from elements that are the same in both matrices: levels of
    the model that are squeezed by a wall are not those of the matrix, although their elements are as large.  Signs that pass
    through them are wrong for the good levels behind them.

    Parameters
    ----------
    model, matrix : (K, K) float64
        Dipole matrices, a.u.
    error : (K, K) float64, optional
        What the elements of the model may be off by, a.u.; where it is NaN the whole element is uncertain.  Without it the
        largest elements count as the surest.
    """
    n = model.shape[0]
    signs, known = np.zeros(n), np.zeros(n, bool)
    strength = np.abs(model) * np.abs(matrix)
    if error is not None:
        floor = UNSIGNED * float(np.sqrt(strength.max(initial=0.0))) + 1e-300
        whole = np.abs(model) + np.abs(matrix)
        strength /= (np.where(np.isfinite(error), error, whole) + floor) ** 2
    np.fill_diagonal(strength, -1.0)
    signs[0], known[0] = 1.0, True
    for _ in range(n - 1):
        best = np.where(known[:, None] & ~known, strength, -np.inf)
        i, j = np.unravel_index(int(np.argmax(best)), best.shape)
        signs[j] = signs[i] * (1.0 if model[i, j] * matrix[i, j] >= 0 else -1.0)
        known[j] = True
    return signs


def propagate(
    truth: Truth,
    dipoles: NDArray[np.float64],
    initial: NDArray[np.complex128],
    field: NDArray[np.float64],
    duration: float,
    between: str,
    substeps: int,
) -> NDArray[np.complex128]:
    """Return the final amplitudes (K, columns) of initial ones under a field of N values.

    Parameters
    ----------
    between : str
        ``hold``: constant in each step; ``cubic``: a spline through the values at the midpoints.
    substeps : int
        Magnus steps per value of a spline.
    """
    tau = duration / field.size
    energies = truth.energies - truth.energies[0]
    if between == "hold" or field.size < 4:
        runs = zip(field, np.full(field.size, tau), strict=True)
        return _exponentials(energies, dipoles, initial, list(runs))
    from scipy.interpolate import CubicSpline

    spline = CubicSpline((np.arange(field.size) + 0.5) * tau, field)
    h = tau / substeps
    start = np.arange(field.size * substeps) * h
    root = np.sqrt(3.0) / 6.0
    one, two = spline(start + (0.5 - root) * h), spline(start + (0.5 + root) * h)
    a, b = 0.25 + root, 0.25 - root
    # half a step with the mean 2 (a H1 + b H2), then half a step with 2 (b H1 + a H2)
    means = np.stack([2.0 * (a * one + b * two), 2.0 * (b * one + a * two)], axis=1).ravel()
    return _exponentials(energies, dipoles, initial, [(value, 0.5 * h) for value in means])


def _exponentials(
    energies: NDArray[np.float64],
    dipoles: NDArray[np.float64],
    psi: NDArray[np.complex128],
    steps: Sequence[tuple[float, float]],
) -> NDArray[np.complex128]:
    """Apply ``exp(-i (E - mu eps) t)`` for every (eps, t) by Chebyshev series to rounding.

    With ``|H| <= r`` the series is ``sum_n (2 - delta_n0) (-i)^n J_n(r t) T_n(H / r)`` (H. Tal-Ezer and R. Kosloff,
    J. Chem. Phys. 81, 3967 (1984)).  Real and imaginary parts are columns of their own, so that every product is one
    of real matrices.
    """
    centre = 0.5 * float(energies[-1])
    diagonal = energies - centre
    strength = float(np.linalg.norm(dipoles, 2))
    columns = psi.shape[1]
    state = np.concatenate([psi.real, psi.imag], axis=1)
    for value, length in steps:
        bound = max(centre + strength * abs(value), 1e-300)
        if bound * length > LONG:
            state = _exact(np.diag(diagonal) - value * dipoles, length, state, columns)
            continue
        weights = _chebyshev(bound * abs(length))
        h = (-value / bound) * dipoles
        h[np.diag_indices(h.shape[0])] += diagonal / bound
        before, term = state, h @ state
        sums = [weights[0] * before, weights[1] * term, np.zeros_like(term), np.zeros_like(term)]
        h *= 2.0
        for n in range(2, weights.size):
            before, term = term, h @ term - before
            sums[n % 4] += weights[n] * term
        real, imaginary = sums[0] - sums[2], sums[3] - sums[1]  # factors of 1 and of i: (-i)^n
        state = real + np.concatenate([-imaginary[:, columns:], imaginary[:, :columns]], axis=1)
    return np.asarray(state[:, :columns] + 1j * state[:, columns:])


def _exact(
    h: NDArray[np.float64], length: float, state: NDArray[np.float64], columns: int
) -> NDArray[np.float64]:
    """Apply ``exp(-i h t)`` to real and imaginary columns by the eigenvectors of h."""
    from scipy.linalg import eigh

    values, vectors = eigh(h)
    psi = state[:, :columns] + 1j * state[:, columns:]
    psi = vectors @ (np.exp(-1j * values * length)[:, None] * (vectors.T @ psi))
    return np.concatenate([psi.real, psi.imag], axis=1)


def _chebyshev(argument: float) -> NDArray[np.float64]:
    """Return ``(2 - delta_n0) J_n(z)`` up to the order from which all are below rounding, at least two of them."""
    from scipy.special import jv

    orders = np.arange(int(argument + 12.0 * argument ** (1.0 / 3.0)) + 30)
    weights = 2.0 * jv(orders, argument)
    weights[0] *= 0.5
    return np.asarray(weights[: max(2, int(np.flatnonzero(np.abs(weights) > 1e-18)[-1]) + 1)])


def state(value: Any, count: int, weight: Callable[[Any], complex]) -> NDArray[np.complex128]:
    """Return the amplitudes (K,) of a level or a superposition of the deck."""
    vector = np.zeros(count, complex)
    for level, w in value.items() if isinstance(value, dict) else [(value, 1.0)]:
        vector[int(level)] = weight(w)
    return vector / np.linalg.norm(vector)
