"""Eigenstates of the field-free Hamiltonian, on the very lattice that the propagation uses.

Both stencils: bisection on the number of eigenvalues below an energy (`qsim.tridiag.kernels.sturm`), which cannot miss or
confuse a level, and inverse iteration with the tridiagonal pencil ``(K + M V - E M) y = M f`` (``M = 1`` for the three-point
stencil), then Rayleigh quotients.  Bound states are looked for in a window around the potential's minimum, which grows until
they have died out in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import InvalidInput, NumericsError, QsimError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

# points
FIRST_WINDOW = 4096
LARGEST_WINDOW = 8_000_000
# amplitude at the end of a window, relative to the largest, that counts as none
DEAD = 1e-14
# hartree: levels this close are made orthogonal explicitly
CLUSTER = 1e-6
# of an eigenstate, relative to the top of the spectrum
RESIDUAL = 4e-15
# amplitude of the next level in a state, residual over distance, above which levels are taken together
MIXED = 1e-4
# further levels on either side that are found for their sake
NEIGHBOURS = 8
# difference of V from its mirror image, relative to the largest |V|, that counts as none
SYMMETRIC = 1e-11
# up to which levels are looked for in a larger box, too
SQUEEZED_POINTS = 200_000
# of the levels below a threshold
MOST_NUMBERS = 50_000_000
# of the relaxation
ITERATIONS = 20_000


class Pencil:
    """``H - z`` of a lattice as a tridiagonal pencil ``(K + M V - z M, M)``.

    Parameters
    ----------
    potential : (n,) float64
        V, or V - i W, hartree.
    dx : float
        Spacing, bohr.
    stencil : {"three_point", "numerov"}
    """

    def __init__(self, potential: NDArray[Any], dx: float, stencil: str) -> None:
        self.v, self.dx, self.compact = potential, dx, stencil == "numerov"
        self.size = potential.shape[0]

    def mass(self, f: NDArray[Any]) -> NDArray[Any]:
        """Return ``M f``."""
        if not self.compact:
            return f
        out = f * (10.0 / 12.0)
        out[:-1] += f[1:] / 12.0
        out[1:] += f[:-1] / 12.0
        return out

    def bands(self, z: complex) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return lower (n-1,), main (n,), upper (n-1,) diagonal of ``K + M (V - z)``."""
        # -1/2 d2/dx2 by three points has 1/dx^2 on the diagonal and -1/(2 dx^2) beside it
        half = 0.5 / self.dx**2
        if not self.compact:
            # E shifts the diagonal alone without M
            off = np.full(self.size - 1, -half, dtype=np.result_type(self.v, z))
            return off, 2.0 * half + self.v - z, off.copy()
        # M (V - z) with M = (1, 10, 1) / 12: each column has the factor of its own point
        w = (self.v - z) / 12.0
        return w[:-1] - half, 10.0 * w + 2.0 * half, w[1:] - half

    def solve(self, z: complex, f: NDArray[Any]) -> NDArray[Any]:
        """Return ``(H - z)^-1 f``, by pivoted elimination.

        Raises
        ------
        NumericsError
            If z is an eigenvalue to the last bit.
        """
        from scipy.linalg import get_lapack_funcs

        lower, main, upper = self.bands(z)
        right = self.mass(f)
        (gtsv,) = get_lapack_funcs(("gtsv",), (main, right))
        *_, solution, info = gtsv(
            lower, main, upper, right, overwrite_dl=1, overwrite_d=1, overwrite_du=1, overwrite_b=self.compact
        )
        if info != 0:
            raise NumericsError(f"H - z is singular at z = {z:.17g}")
        return solution

    def apply(self, f: NDArray[Any]) -> NDArray[Any]:
        """Return ``H f``."""
        half = 0.5 / self.dx**2
        # H f = M^-1 K f + V f: only the kinetic part needs M
        kinetic = f * (2.0 * half)
        kinetic[:-1] -= half * f[1:]
        kinetic[1:] -= half * f[:-1]
        if self.compact:
            from scipy.linalg import solveh_banded

            rows = np.full((2, self.size), 1.0 / 12.0)
            rows[0] = 10.0 / 12.0
            kinetic = solveh_banded(rows, kinetic, lower=True)
        return kinetic + self.v * f

    def below(self, energy: float) -> int:
        """Return the number of eigenvalues below an energy."""
        from qsim.tridiag.kernels import sturm

        count = sturm.below_numerov if self.compact else sturm.below_three_point
        return int(count(self.v, self.dx, energy))

    @property
    def top(self) -> float:
        """An upper bound of the spectrum."""
        return float(np.max(self.v)) + (3.0 if self.compact else 2.0) / self.dx**2 * (1.0 + 1e-9) + 1e-6


def eigenstates(
    x: NDArray[np.float64],
    dx: float,
    potential: NDArray[np.float64],
    stencil: str,
    count: int,
    first: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the levels ``first`` to ``first + count - 1`` of the lattice.

    Parameters
    ----------
    x : (n,) float64
        Grid points, bohr (only their number counts).
    dx : float
        Spacing, bohr.
    potential : (n,) float64
        V, hartree.
    stencil : {"three_point", "numerov"}
    count : int
        Number of levels.
    first : int
        Lowest level.

    Returns
    -------
    energies : (count,) float64
        Hartree, ascending.
    states : (count, n) float64
        ``sum phi^2 dx = 1``; the first lobe that reaches a hundredth of the maximum is positive.

    Raises
    ------
    NumericsError
        If there are fewer levels, or one spreads over more than `LARGEST_WINDOW` points.
    """
    if first + count > x.shape[0]:
        raise NumericsError(f"{x.shape[0]} grid points have no level {first + count - 1}")
    energies, states, low = window_states(dx, potential, stencil, count, first)
    if states.shape[1] == x.shape[0]:
        return energies, states
    full = np.zeros((count, x.shape[0]))
    full[:, low : low + states.shape[1]] = states
    return energies, full


def window_states(
    dx: float, potential: NDArray[np.float64], stencil: str, count: int, first: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return energies, states on a window (count, m), and the first point of the window; see `eigenstates`.

    On a grid of 1e9 points the window of a bound state has some 1e4; overlaps with psi need no more.
    """
    n = potential.shape[0]
    # bound states lie about the minimum of V, in a small part of a large grid
    size = min(n, max(FIRST_WINDOW, 8 * (first + count)))
    # windows grow about the deepest point
    centre = int(np.argmin(potential))
    while True:
        low = min(max(centre - size // 2, 0), n - size)
        part = np.ascontiguousarray(potential[low : low + size], dtype=float)
        # Small windows cost little, but a state that is not bound there costs a full inverse iteration: look at the count first.
        if size == n or Pencil(part, dx, stencil).below(_outside(potential, low, size)) >= first + count:
            energies, states = _window(part, dx, stencil, count, first)
            if size == n or _dead(states, low, size, n):
                return energies, states, low
        if size >= LARGEST_WINDOW:
            raise NumericsError(
                f"level {first + count - 1} spreads over more than {LARGEST_WINDOW:.3g} grid points",
                hint="it is no bound state of this potential; ask for lower levels",
            )
        # twice the window: the work of all windows together is at most that of the last one, twice
        size = min(n, 2 * size)


class Levels(NamedTuple):
    """Levels that observables need.

    Attributes
    ----------
    energies, states, window
        As `window_states` returns them; None and 0 where none are needed.
    bound : int
        Levels below the threshold; 0 if none was asked about.
    """

    energies: NDArray[np.float64] | None
    states: NDArray[np.float64] | None
    window: int
    bound: int


def levels_of_box(
    dx: float, potential: NDArray[np.float64], stencil: str, count: int, free: float | None
) -> Levels:
    """Return the lowest levels of a box: `count` of them, and all below the threshold `free` with the one above them.

    Raises
    ------
    NumericsError
        If these are more than `MOST_NUMBERS` numbers.
    """
    bound = 0 if free is None else Pencil(potential, dx, stencil).below(free)
    # another grid may have one more below the threshold
    wanted = max(count, min(bound + 1, potential.size) if bound else 0)
    if bound and wanted * potential.size > MOST_NUMBERS:
        raise NumericsError(
            f"the box holds {bound} levels below the threshold, on {potential.size} points each: too many to project on",
            hint="take a smaller grid, or leave ionisation out of observe",
        )
    if not wanted:
        return Levels(None, None, 0, bound)
    return Levels(*window_states(dx, potential, stencil, wanted), bound)


def squeezed(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    x: NDArray[np.float64],
    stencil: str,
    levels: Iterable[int],
    free: float,
) -> dict[int, tuple[float, float]]:
    """Return bound levels that the walls squeeze: their energies between the walls, and in a box twice as wide, hartree.

    Parameters
    ----------
    function
        V at any points, hartree.
    x : (n,) float64
        Points between the walls, bohr.
    stencil : {"three_point", "numerov"}
    levels
        Levels that are looked at.
    free
        Energy above which a level is none of the potential, hartree.

    Returns
    -------
    dict
        Of the levels below `free` whose energies differ by more than the eigensolver leaves; empty where V has no values
        beyond the walls, or the grid is larger than `SQUEEZED_POINTS`.
    """
    wanted, n = sorted(levels), x.size
    if not wanted or n > SQUEEZED_POINTS or wanted[-1] >= n:
        return {}
    dx, more = float(x[1] - x[0]), n // 2
    try:
        wide = function(np.asarray(float(x[0]) + dx * np.arange(-more, n + more), float))
    except (QsimError, InvalidInput):
        # a table ends at the walls, a formula may have no value beyond them
        return {}
    inner = wide[more : more + n]
    own, there = (window_states(dx, v, stencil, wanted[-1] + 1)[0] for v in (inner, wide))
    slack = 10.0 * RESIDUAL * Pencil(inner, dx, stencil).top
    return {
        k: (float(own[k]), float(there[k]))
        for k in wanted
        if there[k] < free and abs(own[k] - there[k]) > slack
    }


def _outside(potential: NDArray[np.float64], low: int, size: int) -> float:
    """Return the lowest potential outside of the window: a state below it has no other place to be."""
    parts = (potential[:low], potential[low + size :])
    return min(float(np.min(part)) for part in parts if part.size)


def _dead(states: NDArray[np.float64], low: int, size: int, n: int) -> bool:
    largest = np.max(np.abs(states), axis=1)
    # an end of the window that is an end of the grid has a wall, at which states are zero anyway
    left = low == 0 or bool(np.all(np.abs(states[:, 0]) <= DEAD * largest))
    return left and (low + size == n or bool(np.all(np.abs(states[:, -1]) <= DEAD * largest)))


def _window(
    v: NDArray[np.float64], dx: float, stencil: str, count: int, first: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pencil = Pencil(v, dx, stencil)
    # levels that rounding cannot tell apart are found together, so that parity can tell them apart
    energies, low = _with_neighbours(pencil, _bisect(pencil, count, first), first)
    wanted = slice(first - low, first - low + count)
    states = np.empty((len(energies), v.shape[0]))
    # a fixed random start overlaps with every level, even and odd, and gives the same bits in each run
    start: NDArray[np.float64] = np.random.Generator(np.random.PCG64(20240301)).standard_normal(v.shape)
    close = _closeness(pencil)
    for k in range(len(energies)):
        # inverse iteration alone may find the same state twice where levels are close
        near = [states[j] for j in range(k) if energies[k] - energies[j] < close]
        energies[k], states[k] = _inverse_iteration(pencil, float(energies[k]), start, near)
    _check_levels(pencil, energies, low)
    _give_parity(pencil, energies, states, low)
    return energies[wanted], states[wanted]


def _closeness(pencil: Pencil) -> float:
    """Return the distance, hartree, below which the residual of the eigensolver mixes two levels by more than `MIXED`."""
    return max(CLUSTER, RESIDUAL * pencil.top / MIXED)


def _with_neighbours(
    pencil: Pencil, energies: NDArray[np.float64], first: int
) -> tuple[NDArray[np.float64], int]:
    """Return the energies, also of levels too close to be resolved from them, and the index of the lowest.

    One level of a doublet alone is any combination of the two; both are needed to make them even and odd.  A potential that
    is not symmetric gives no rule for that, and no neighbours.
    """
    slack, low, high = _closeness(pencil), first, first + len(energies)
    end = (max(0, first - NEIGHBOURS), min(pencil.size, high + NEIGHBOURS))
    while True:
        below = max(end[0], min(low, pencil.below(float(energies[0]) - slack)))
        above = min(end[1], max(high, pencil.below(float(energies[-1]) + slack)))
        if (below, above) == (low, high) or mirror(pencil.v) is None:
            return energies, low
        low, high = below, above
        energies = _bisect(pencil, high - low, low)


def mirror(v: NDArray[np.float64]) -> int | None:
    """Return S for which ``v[i] = v[S - i]`` to rounding wherever both exist; None if there is none."""
    n = v.shape[0]
    slack = SYMMETRIC * max(1.0, float(np.max(np.abs(v))))
    # a symmetric V has its minima symmetric about the centre; a box without a minimum is symmetric about its middle
    lowest = np.flatnonzero(v <= float(np.min(v)) + slack)
    for centre in (int(lowest[0] + lowest[-1]), n - 1):
        low, high = max(0, centre - n + 1), min(n - 1, centre)
        # the mirror image must cover more than half of the points: a few points at an end are symmetric by chance
        part = v[low : high + 1]
        if 2 * part.shape[0] > n and float(np.max(np.abs(part - part[::-1]))) <= slack:
            return centre
    return None


def _give_parity(
    pencil: Pencil, energies: NDArray[np.float64], states: NDArray[np.float64], first: int
) -> None:
    """Make levels that lie closer than rounding resolves even and odd, where the potential is symmetric, in place.

    Inverse iteration returns any combinations of them, such as one of either well; level n has n nodes and the parity
    ``(-1)^n``.  Those of one parity are made eigenstates of H among themselves.
    """
    close = np.flatnonzero(np.diff(energies) < _closeness(pencil))
    if not close.size or (centre := mirror(pencil.v)) is None:
        return
    n = states.shape[1]
    low, high = max(0, centre - n + 1), min(n - 1, centre)
    for group in np.split(close, np.flatnonzero(np.diff(close) > 1) + 1):
        levels = np.arange(group[0], group[-1] + 2)
        part = states[levels]
        # parity as a matrix in the space of the close levels: its eigenvectors are the even and the odd combinations
        parity = part[:, low : high + 1] @ part[:, low : high + 1][:, ::-1].T * pencil.dx
        wanted = (first + levels) % 2 == 0
        if np.max(np.abs(np.diag(parity) - np.where(wanted, 1.0, -1.0))) < 1e-9:
            # they have it
            continue
        # eigenvalues that are no signs, or a wrong number of them: this group is not the mirror image of itself
        signs, turn = np.linalg.eigh(0.5 * (parity + parity.T))
        if np.max(np.abs(np.abs(signs) - 1.0)) > 1e-6 or int(np.sum(signs > 0)) != int(np.sum(wanted)):
            continue
        combined = turn.T @ part
        for even in (True, False):
            # within each parity levels are as far apart as others: diagonalise H there
            alike = combined[(signs > 0) == even]
            h = np.array([[float(one @ pencil.apply(other)) for other in alike] for one in alike])
            alike = np.linalg.eigh(0.5 * (h + h.T))[1].T @ alike
            for k, state in zip(levels[wanted == even], alike, strict=True):
                energies[k] = float(state @ pencil.apply(state)) * pencil.dx
                lobe = int(np.argmax(np.abs(state) > 1e-2 * np.max(np.abs(state))))
                states[k] = state if state[lobe] > 0 else -state


def _bisect(pencil: Pencil, count: int, first: int) -> NDArray[np.float64]:
    """Return the wanted eigenvalues to about 1e-11 of the larger of |E| and 1, or the rounding of the spectrum."""
    # every eigenvalue lies between min V and the top of the kinetic band above max V
    bottom, top = float(np.min(pencil.v)), pencil.top
    low, high = np.full(count, bottom), np.full(count, top)
    # steps upwards from the bottom: levels of interest lie far below the top of the spectrum
    step = max(1e-3, 1e-3 * abs(bottom))
    known_low = bottom
    while known_low < top:
        probe = min(known_low + step, top)
        below = pencil.below(probe)
        for k in range(count):
            if below <= first + k:
                low[k] = max(low[k], probe)
            else:
                high[k] = min(high[k], probe)
        if below >= first + count:
            break
        known_low, step = probe, 4.0 * step
    # each count of levels below an energy narrows the brackets of all levels, not only that of level k
    for k in range(count):
        tolerance = max(1e-11 * max(1.0, abs(low[k])), 4e-16 * pencil.top)
        # bisection on the count: a level cannot be missed, however close to another
        while high[k] - low[k] > tolerance:
            middle = 0.5 * (low[k] + high[k])
            below = pencil.below(middle)
            for j in range(k, count):
                if below <= first + j:
                    low[j] = max(low[j], middle)
                else:
                    high[j] = min(high[j], middle)
    return 0.5 * (low + high)


def _inverse_iteration(
    pencil: Pencil, energy: float, start: NDArray[np.float64], near: list[NDArray[np.float64]]
) -> tuple[float, NDArray[np.float64]]:
    """Return the Rayleigh quotient and the normalised, signed eigenvector next to an energy."""
    scale = 1.0 / np.sqrt(pencil.dx)
    state = start / np.linalg.norm(start)
    shift = energy
    # bisection has left about 11 digits, and every step gains as many: two steps, or a few where levels are close
    for step in range(5):
        try:
            state = pencil.solve(shift, state)
        except NumericsError:
            # the shift is an eigenvalue to the last bit
            shift += 4e-16 * max(pencil.top, 1.0)
            state = pencil.solve(shift, state)
        # orthogonal to the levels beside it that were found before
        for other in near:
            state = state - (other @ state) * pencil.dx * other
        state = state / np.linalg.norm(state)
        if step >= 1:
            # the residual bounds the distance from an eigenvalue; below rounding of the largest energy nothing
            # is gained
            residual = pencil.apply(state) - energy * state
            if float(np.linalg.norm(residual)) < 4e-15 * pencil.top:
                break
    value = float(state @ pencil.apply(state))
    state *= scale
    lobe = int(np.argmax(np.abs(state) > 1e-2 * np.max(np.abs(state))))
    return value, state if state[lobe] > 0 else -state


def _check_levels(pencil: Pencil, energies: NDArray[np.float64], first: int) -> None:
    """Verify the index of every level by the number of eigenvalues below it."""
    for k, energy in enumerate(energies):
        # the bound of the bisection, with a margin, and rounding
        slack = 1e-10 * max(1.0, abs(float(energy))) + 1e-15 * pencil.top
        if not pencil.below(float(energy) - slack) <= first + k < pencil.below(float(energy) + slack):
            raise NumericsError(
                f"the eigensolver lost level {first + k} (E = {energy:.12g} hartree)",
                hint="make the grid spacing larger or the potential smoother",
            )


def imaginary_time(
    x: NDArray[np.float64],
    dx: float,
    potential: NDArray[np.float64],
    stencil: str,
    dtau: float | None = None,
    tolerance: float = 1e-13,
) -> tuple[float, NDArray[np.float64], int]:
    """Return the ground state by relaxation: steps ``(1 + dtau/2 H)^-1 (1 - dtau/2 H)`` with H shifted.

    A step multiplies an eigenstate by ``(1 - a (E - s)) / (1 + a (E - s))`` with ``a = dtau/2`` and the shift s: by more than 1
    below s, by less above it.  The matrix stays positive as long as ``dtau < 2 / (s - E0)``; dtau is 1.8 over a lower bound of
    that, and s follows the estimate of E0 downwards.

    Parameters
    ----------
    x, dx, potential, stencil
        As in `eigenstates`.
    dtau : float, optional
        Time step, with s fixed at 0; by default chosen with s.
    tolerance : float
        Largest norm of ``(H - E) phi``, relative to the larger of ``|E|`` and 1, but not below the rounding of H.

    Returns
    -------
    energy : float
        Hartree.
    state : (n,) float64
        ``sum phi^2 dx = 1``, positive.
    steps : int
        Steps taken.

    Raises
    ------
    NumericsError
        If `dtau` is ``2 / |E0|`` or more, or the relaxation does not converge.
    """
    pencil = Pencil(np.asarray(potential, float), dx, stencil)
    bottom = float(np.min(potential))
    # large where V is low; positive, so it overlaps
    state = np.exp(-0.5 * np.minimum(potential - bottom, 600.0))
    state /= np.linalg.norm(state)
    energy = float(state @ pencil.apply(state))
    # H is shifted to a little above the ground state, so that the step amplifies that state most
    shift, lowest = (energy + 0.1 * (energy - bottom), bottom) if dtau is None else (0.0, bottom)
    goal, residual = max(tolerance, 2e-15 * pencil.top), np.inf
    for step in range(1, ITERATIONS + 1):
        a = 0.9 / (shift - lowest) if dtau is None else 0.5 * dtau
        if dtau is not None and a * (shift - energy) >= 1.0:
            raise NumericsError(
                f"dtau = {dtau:.4g} is not below 2/|E0| = {2 / (shift - energy):.4g}: the relaxation would diverge"
            )
        # (1 + a (H - s)) y = f  is  (H - z) y = f / a  with  z = s - 1/a;  the step is 2 y - f
        state = 2.0 / a * pencil.solve(shift - 1.0 / a, state) - state
        state /= np.linalg.norm(state)
        if step % 5 and residual > 1e-3:
            continue
        h = pencil.apply(state)
        energy = float(state @ h)
        residual = float(np.linalg.norm(h - energy * state))
        if residual <= goal * max(1.0, abs(energy)):
            sign = 1.0 if float(np.sum(state)) > 0 else -1.0
            return energy, sign * state / np.sqrt(dx), step
        # an eigenvalue lies within one residual of the estimate
        if dtau is None:
            gap = min(max(10.0 * residual, 1e-6), shift - energy)
            shift, lowest = energy + gap, max(bottom, energy - residual)
    raise NumericsError(
        f"imaginary time did not converge in {ITERATIONS} steps; the residual is {residual:.3g} hartree",
        hint="use method: eigensolver, or a potential with a well",
    )
