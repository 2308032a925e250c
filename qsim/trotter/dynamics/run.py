"""Spectral functions at zero temperature by the continued fraction of Lanczos.

With ``phi = S_q |0>`` the recurrence from phi gives ``S(q, w) = sum_k |phi|^2 y_k^2 delta(w - theta_k + E_0)``: eigenvalues theta
of its tridiagonal matrix, y the first components of the eigenvectors.  After M products the first 2 M moments are exact; every
delta is drawn as a Lorentzian of half width `broadening`.  With ``method: kpm`` the moments of Chebyshev take its place
(:mod:`qsim.trotter.dynamics.kpm`).

Of unlike components, with ``F[phi]`` the function of a vector and ``a = S^a_q |0>``,

    Re S^ab = (F[a + b] - F[a - b]) / 4,   Im S^ab = (F[a - ib] - F[a + ib]) / 4.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive
from qsim.core.run.stops.lapack import eigh
from qsim.trotter.dynamics.kpm import chebyshev_moments, smoothed
from qsim.trotter.dynamics.result import DynamicsResult
from qsim.trotter.evolution.chebyshev import lanczos_bounds
from qsim.trotter.measurement.spaces import applied_in, plain, target_in
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.ground import TOLERANCE, Ground
from qsim.trotter.sectors.lanczos import chain, dot, ritz
from qsim.trotter.sectors.linear import matrix_of
from qsim.trotter.sectors.selection import kept_by
from qsim.trotter.sectors.spin_operators import current_of, wave
from qsim.trotter.sectors.states import unfolded
from qsim.trotter.sectors.symmetric import SymmetricSector
from qsim.trotter.spectrum.search import LowestLevels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.deck.tasks import Dynamics
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.problem import TaskProblem
    from qsim.trotter.sectors.linear import SpaceOperator

__all__ = ["lorentzians", "run", "truncation"]

# components of the operators along x, y and z
OPERATORS: dict[str, tuple[complex, complex, complex]] = {
    "sx": (1.0, 0.0, 0.0),
    "sy": (0.0, 1.0, 0.0),
    "sz": (0.0, 0.0, 1.0),
    "sp": (1.0, 1.0j, 0.0),
    "sm": (1.0, -1.0j, 0.0),
}
# what is added to the first of two unlike components, and the shares of its function in the real and the imaginary part
SUMS = (1.0, -1.0, 1.0j, -1.0j)
REAL, IMAGINARY = np.array([0.25, -0.25, 0.0, 0.0]), np.array([0.0, 0.0, -0.25, 0.25])
# of the size of the spectrum: poles closer than that are one
SAME = 1e-10
# states; a sector with no more than these, nor than products, is diagonalised
DENSE = 1024
# amplitude of the next state in a ground state, from which on no spectral function is that of the ground state
MOST_MIXED = 1e-2
# of the maximum: change of S(q, w) by further products, beyond which it is warned of
SETTLED = 0.02
# of the static factor: less than that within the frequencies is warned of
CAPTURED = 0.98
# weight of S_q |0>, of its largest value 1/4, that is rounding: S_q annihilates the state
EMPTY = 1e-12


class Computation:
    """The recurrences of all wave numbers; complete ones are kept in a checkpoint."""

    def __init__(
        self,
        problem: TaskProblem[Dynamics],
        sector: Space,
        ground: Ground,
        monitor: Monitor,
    ) -> None:
        self.problem, self.sector, self.ground, self.monitor = problem, sector, ground, monitor
        self.sums = len(SUMS) if problem.block.unlike else 1
        count, steps = problem.block.rows(problem.spins) * self.sums, problem.block.steps
        self.count = count
        self.poles, self.weights = np.full((count, steps), math.nan), np.zeros((count, steps))
        self.change = np.zeros(count)
        self.moments = np.zeros((count, 2 * steps + 1)) if problem.block.method == "kpm" else None
        self.done = 0
        if (restored := monitor.restored) is not None:
            self.poles, self.weights = np.array(restored["poles"]), np.array(restored["weights"])
            self.change, self.done = np.array(restored["change"]), int(restored["done"])
            self.moments = None if restored["moments"] is None else np.array(restored["moments"])

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "poles": self.poles,
            "weights": self.weights,
            "change": self.change,
            "moments": self.moments,
            "done": self.done,
        }

    def target(self, number: int) -> Space | None:
        """Return the sector that the operator of a row leads to; None where it annihilates the ground state."""
        if self.problem.block.operator == "current":
            return kept_by(self.sector, self._flow)
        return target_in(self.sector, self._components(self._factors(number), number))

    @cached_property
    def _flow(self) -> Model:
        """The current, along the axes of the strings."""
        return current_of(self.problem.model, self.problem.ring)

    @lru_cache(maxsize=1)  # noqa: B019
    def _operator(self, target: Space) -> SpaceOperator:
        """Return H in a sector; of the last one alone, as rows of one momentum share theirs."""
        return self.problem.operator(target, self.problem.model)

    def _components(self, factors: NDArray[np.complex128], number: int) -> NDArray[np.complex128]:
        """Return the coefficients (3, N) of the operator of a row with factors of the sites, along the axes of the strings."""
        name = self.problem.block.operator
        if self.problem.block.unlike:
            first, second = (np.array(OPERATORS[f"s{axis}"]) for axis in name)
            of_deck = (first + SUMS[number % self.sums] * second)[:, None] * factors
        else:
            of_deck = np.array(OPERATORS[name])[:, None] * factors
        frame = self.problem.frame
        return np.asarray(np.array(frame.signs)[:, None] * of_deck[list(frame.axes)], np.complex128)

    @cached_property
    def band(self) -> tuple[float, float]:
        """Middle and half width of an interval that holds the spectra of all target sectors."""
        problem, ends = self.problem, []
        targets = dict.fromkeys(self.target(number) for number in range(self.count))
        for target in targets:
            if target is not None:
                ends.append(lanczos_bounds(problem.place, self._operator(target), problem.model))
        if not ends:
            return 0.0, 1.0
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        # the half width of a band without width must not vanish: energies are divided by it
        return 0.5 * (low + high), max(0.5 * (high - low), 1e-3 * scale_of(problem.model))

    def advance(self, report: Report) -> None:
        """Make the recurrences that are left."""
        # a row of S(q, w) is the unit of a checkpoint
        for number in range(self.done, self.count):
            target = self.target(number)
            if target is not None:
                self._one(number, self._operator(target), report)
            self.done = number + 1
            report(Progress(self.done))

    def _one(self, number: int, operator: SpaceOperator, report: Report) -> None:
        """Find the poles and weights, or the moments, of one row of the spectral function."""
        problem, block = self.problem, self.problem.block
        device, factors = problem.place, self._factors(number)
        vector = self.ground.vector
        if block.operator == "current":
            phi = self._current(vector, operator.sector)
        else:
            phi = applied_in(self.sector, operator.sector, device, vector, self._components(factors, number))
        # the static factor <0|S_q^+ S_q|0>, and the sum of all weights
        square = dot(phi, phi).real
        if square < EMPTY:
            return
        if self.moments is not None:
            self.moments[number] = chebyshev_moments(
                device, operator, phi, self.band, block.steps, lambda: report(Progress())
            )
            return
        # a small sector exactly: weights are the squared overlaps of S_q|0> with its states
        if operator.size <= min(block.steps, DENSE):
            levels, states = self._exact(operator.sector)
            with device.use():
                parts = device.to_host(device.xp.abs(states.conj().T @ phi) ** 2)
            poles, weights = joined(levels - self.ground.energy, parts, SAME * scale_of(problem.model))
            self.poles[number, : poles.size], self.weights[number, : poles.size] = poles, weights
            return
        # continued fraction: the recurrence starts from the normalised S_q|0>
        with device.use():
            phi = phi * (1.0 / math.sqrt(square))
        made = chain(device, operator, phi)
        # more products than there are states: parts of the state that rounding has lost come back with them
        for _ in range(block.steps):
            goes_on = made.step(scale_of(problem.model))
            report(Progress())
            if not goes_on:
                break
        # poles are Ritz values above E_0, weights the squared first components (docs/theory/trotter.md)
        poles, weights = self._poles(made.alpha, made.beta, square)
        self.poles[number, : poles.size], self.weights[number, : poles.size] = poles, weights
        # not exhausted: what further products could change is bounded
        if goes_on:
            self.change[number] = self.monitor.judged(
                "change_max", lambda: self._truncation(made, square, (poles, weights)), math.nan
            )

    def _truncation(
        self, made: chain, square: float, found: tuple[NDArray[np.float64], NDArray[np.float64]]
    ) -> float:
        """Return a bound of what the end of a recurrence changes in its spectral function, relative to the maximum.

        Parameters
        ----------
        made
            The recurrence, of M products.
        square
            ``<phi|phi>``, phi = S_q |0>.
        found
            Poles and weights.
        """
        omega, eta = np.array(self.problem.block.omega.values()), self.problem.block.broadening
        z = np.asarray(self.ground.energy + omega + 1j * eta, np.complex128)
        bound = truncation(made.alpha, made.beta, z)
        return float(square * bound.max() / lorentzians(omega, eta, *found).max())

    def _factors(self, number: int) -> NDArray[np.complex128]:
        """Return the factors of the sites in the operator of a row."""
        problem, block = self.problem, self.problem.block
        number //= self.sums
        if block.sites is not None:
            # one site, or the plane wave of a wave number
            return np.asarray(np.arange(problem.spins) == block.sites[number], np.complex128)
        return wave(problem.spins, math.pi * block.wave_numbers(problem.spins)[number])

    def _current(self, vector: NDArray[Any], target: Space) -> Any:
        """Return the current over the root of N on the ground state."""
        problem = self.problem
        # with characters and inversion by way of the space below
        base, below = plain(self.sector, vector)
        if isinstance(base, Sector) and not isinstance(target, SymmetricSector):
            base, below = unfolded(base, problem.place, below)
        current = problem.operator(base, self._flow)
        with problem.place.use():
            psi = below.astype(np.complex128)
            out = problem.place.xp.empty_like(psi)
            current.apply(psi, out, 1.0 / math.sqrt(problem.spins))
        return target.folded(out, out.dtype) if isinstance(target, SymmetricSector) else out

    @lru_cache(maxsize=1)  # noqa: B019
    def _exact(self, target: Space) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return all levels of a target sector, and on the device their states (columns); of the last one alone."""
        place = self.problem.place
        matrix = matrix_of(self._operator(target))
        with place.use():
            values, states = (place.xp.linalg.eigh if place.is_cuda else eigh)(matrix)
        return np.asarray(place.to_host(values), np.float64), states

    def _poles(
        self, alpha: list[float], beta: list[float], square: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        values, vectors = ritz(alpha, beta)
        return joined(
            values - self.ground.energy, square * vectors[0] ** 2, SAME * scale_of(self.problem.model)
        )


def joined(
    poles: NDArray[np.float64], weights: NDArray[np.float64], least: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Join ascending poles that are at most `least` apart: a recurrence finds converged ones again and shares their weight."""
    first = np.flatnonzero(np.concatenate([[True], np.diff(poles) > least]))
    total = np.add.reduceat(weights, first)
    centre = np.add.reduceat(weights * poles, first)
    return np.where(total > 0.0, centre / np.where(total > 0.0, total, 1.0), poles[first]), total


def lorentzians(
    omega: NDArray[np.float64], eta: float, poles: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``sum_k w_k (eta / pi) / ((omega - omega_k)^2 + eta^2)``, (omega,)."""
    return np.asarray(((eta / math.pi) / ((omega[:, None] - poles) ** 2 + eta**2)) @ weights, np.float64)


def truncation(alpha: list[float], beta: list[float], z: NDArray[np.complex128]) -> NDArray[np.float64]:
    r"""Return bounds of the error of :math:`-\tfrac1\pi\,\mathrm{Im}\langle v_1|(z-H)^{-1}|v_1\rangle` after M products.

    With :math:`y=(z-T)^{-1}e_1` the vector :math:`x=Vy` has the residual :math:`\beta_My_Mv_{M+1}`.  It enters on both sides, as
    :math:`v_{M+1}` is orthogonal to x: the error is :math:`\beta_M^2y_M^2\langle v_{M+1}|(z-H)^{-1}|v_{M+1}\rangle`, whose last
    factor is at most :math:`1/\mathrm{Im}\,z`.

    Parameters
    ----------
    alpha, beta : list of float
        Of the recurrence, M each.
    z : (n,) complex128
        Energies above the real axis.
    """
    values, vectors = ritz(alpha, beta)
    # last component of the solution, from the first and last ones of the eigenvectors of T
    last = (1.0 / (z[:, None] - values)) @ (vectors[0] * vectors[-1])
    return np.asarray((beta[len(alpha) - 1] * np.abs(last)) ** 2 / (math.pi * z.imag))


def run(problem: TaskProblem[Dynamics], monitor: Monitor) -> DynamicsResult:
    """Find the ground state, and the spectral function of every wave number."""
    with monitor.stage("ground state"):
        sector, ground = lowest(problem)
    monitor.note(
        f"ground state in the sector {sector} ({sector.dimension} states), energy {ground.energy:.10g}"
    )
    made = Computation(problem, sector, ground, monitor)
    with monitor.stage("recurrences"):
        drive(made, monitor, total=made.count, unit="functions", what="dynamics", done=made.done)
    result = _of_poles(made) if made.moments is None else _of_moments(made, made.moments, monitor)
    worst = 0.0 if result.change is None else float(result.change.max())
    if worst > SETTLED:
        monitor.warn(
            f"S(q, w) still changes by up to {worst:.2g} of its maximum beyond {problem.block.steps} products: the broadening "
            f"{problem.block.broadening:g} is below their resolution; give more dynamics.steps, or a larger broadening"
        )
    return result


def _parts(
    made: Computation, rows: NDArray[Any], *, joined: bool
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return rows of the function that was asked for from those of the recurrences, and those of its imaginary part.

    Parameters
    ----------
    joined : bool
        Whether the rows of sums are put one after the other, as weights of poles are, and not added.
    """
    if made.sums == 1:
        return rows, None
    each = rows.reshape(-1, made.sums, rows.shape[1])
    both = [factors[:, None] * each for factors in (REAL, IMAGINARY)]
    real, imaginary = (part.reshape(len(each), -1) if joined else part.sum(axis=1) for part in both)
    return real, imaginary


def _of_poles(made: Computation) -> DynamicsResult:
    """Return the result of the continued fractions: Lorentzians of all poles."""
    # rows by poles: Lorentzians of all of them; by moments: `_of_moments`
    block, omega = made.problem.block, np.array(made.problem.block.omega.values())
    each = np.zeros((made.count, omega.size))
    for k in range(made.count):
        known = np.isfinite(made.poles[k])
        each[k] = lorentzians(omega, block.broadening, made.poles[k, known], made.weights[k, known])
    structure, imaginary = _parts(made, each, joined=False)
    weights, weights_imaginary = _parts(made, made.weights, joined=True)
    change = made.change
    if imaginary is not None:
        # of each sum relative to its own maximum; each part may be off by a quarter of two of them
        off = (made.change * each.max(axis=1)).reshape(-1, made.sums)
        largest = np.hypot(structure, imaginary).max(axis=1)
        change = 0.25 * np.hypot(off[:, :2].sum(axis=1), off[:, 2:].sum(axis=1))
        change = np.where(change > 0.0, change / np.maximum(largest, EMPTY), 0.0)
    return _result(
        made,
        structure=structure,
        structure_imaginary=imaginary,
        poles=made.poles.reshape(len(weights), -1),
        weights=weights,
        weights_imaginary=weights_imaginary,
        change=change,
    )


def _result(made: Computation, **arrays: Any) -> DynamicsResult:
    """Return a result with the numbers of its ground state."""
    ground = made.ground
    return DynamicsResult(
        problem=made.problem,
        sector=made.sector,
        energy=ground.energy,
        residual=ground.residual,
        gap=ground.gap,
        **arrays,
    )


def _of_moments(made: Computation, every: NDArray[np.float64], monitor: Monitor) -> DynamicsResult:
    """Return the result of kpm, and warn where the frequencies leave out weight."""
    omega = np.array(made.problem.block.omega.values()) + made.ground.energy
    moments, imaginary = _parts(made, every, joined=False)
    result = _result(
        made,
        structure=smoothed(moments, omega, made.band),
        structure_imaginary=None if imaginary is None else smoothed(imaginary, omega, made.band),
        moments=moments,
        moments_imaginary=imaginary,
        band=made.band,
    )
    captured = monitor.judged("captured", lambda: result.captured, None)
    if captured is not None and captured < CAPTURED:
        monitor.warn(
            f"dynamics.omega holds {captured:.3g} of the weight of S(q, w) at one q, the rest lies outside; a wider grid "
            f"reaches from {result.edges[0]:.4g} to {result.edges[1]:.4g}"
        )
    return result


def lowest(problem: TaskProblem[Dynamics]) -> tuple[Space, Ground]:
    """Return the ground state of all sectors of the task.

    Raises
    ------
    NumericsError
        If it is degenerate, or too close to the next level to be told from it.
    """
    # the ground state of all sectors; several states of the
    # lowest energy have no spectral function of their own
    search = LowestLevels(problem, 1, TOLERANCE * scale_of(problem.model))
    for number in search.order:
        search.visit(number)
    energy, residual, *_ = min(search.entries)
    sector = problem.sectors[search.members[0].sector]
    if search.degeneracy != 1:
        count = "several" if search.degeneracy is None else str(search.degeneracy)
        raise NumericsError(
            f"the ground state is degenerate: {count} states have the energy {energy:.10g}, one of them in the sector {sector}",
            hint="name a sector in which it is not, {sz: ...} or {parity: even}, or add a small term that chooses one state",
        )
    gap = np.inf if search.second is None else search.second[0] - energy
    # a vector of this residual holds so much of the next state, of which nothing else would tell
    if residual > MOST_MIXED * gap:
        raise NumericsError(
            f"the ground state is not resolved: the next level lies {gap:.2g} above {energy:.10g}, the residual of the vector "
            f"is {residual:.1g}",
            hint="name a sector in which it is alone, {sz: ...} or {parity: even}, or add a small term that chooses one state",
        )
    return sector, Ground(search.members[0].vector, energy, residual, gap)
