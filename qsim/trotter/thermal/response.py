"""Magnetisation along each axis and its response to a uniform field, from all levels and states or from random vectors.

Where H does not commute with ``M_a = sum_j S^a_j`` the susceptibility is not a fluctuation but the integral of Kubo,

    chi_a = int_0^(1/T) dtau <M_a(tau) M_a> - <M_a>^2 / T
          = sum_nm |<n|M_a|m>|^2 (p_n - p_m) / (E_m - E_n) - <M_a>^2 / T,

the derivative of ``<M_a>`` by a field, ``H - h M_a``; pairs of equal energy count with ``p_n / T``.  ``M_a`` leads from one
space to another where these are parities along another axis.

From a random vector r it is the exact derivative of ``<phi|M|phi> / <phi|phi>`` with ``phi = exp(-(H - h M) / 2T) r`` at h = 0.
With H = c + R x the exponential is a series of Chebyshev polynomials, whose coefficients alone depend on T,

    T_(k+1) r = 2 x T_k r - T_(k-1) r,   T'_(k+1) r = 2 x T'_k r - T'_(k-1) r - (2 / R) M T_k r,

T' = dT / dh: two products with H and one with M for each term give phi and its derivative at all temperatures.  At T = 0 both
become those of the ground state, and statistical errors vanish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.stops.lapack import eigh
from qsim.core.statistics import student
from qsim.trotter.measurement.spaces import applied_in, columns_in, field_in, operator_in, target_in
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.sectors.digits.measure import magnetisation
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.lanczos import chain, random_start, ritz
from qsim.trotter.sectors.linear import matrix_of
from qsim.trotter.states.vectors import norm2, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.device import Device
    from qsim.trotter.deck.axes import Axis
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.sectors.linear import SpaceOperator
    from qsim.trotter.sectors.symmetric import PlainSpace
    from qsim.trotter.thermal.problem import ThermalProblem

__all__ = ["Response", "band_of", "response_of", "response_of_samples"]

# of the vectors of all temperatures that are kept at once; with more the series runs again
MOST_NUMBERS = 1 << 27
# terms that are added to the vectors of all temperatures at once
TOGETHER = 16
# of the lowest temperature, and of the width of the spectrum: residuals at the lower and the upper end of the spectrum
LOW, HIGH = 5.0, 0.01
# products in which these are reached, looks for it
MOST_PRODUCTS, CHECK = 500, 10
# of the sum of a series: terms that are left out
TAIL = 1e-15

# x of (1 - exp(-x)) / x below which it is 1 to rounding
EQUAL = 1e-16


def total_spin(spins: int, axis: str) -> csr_array:
    """Return the total spin along an axis of the strings, (2^N, 2^N)."""
    from scipy.sparse import csr_array, dia_array

    index = np.arange(1 << spins)
    s = 0.5 - (index >> np.arange(spins)[:, None] & 1)
    if axis == "z":
        return csr_array(dia_array((s.sum(axis=0)[None], [0]), shape=(index.size, index.size)))
    # S^x flips with 1/2, S^y with i s of the old spin
    values = np.full(s.shape, 0.5) if axis == "x" else 1j * s
    rows = index ^ (1 << np.arange(spins))[:, None]
    return csr_array((values.ravel(), (rows.ravel(), np.tile(index, spins))), shape=(index.size, index.size))


@singledispatch
def total_between(rows: PlainSpace, columns: PlainSpace, device: Device, axis: str) -> csr_array:
    """Return the total spin along an axis of the strings between the states of two spaces, (D, D')."""
    return total_spin(rows.spins, axis)[rows.strings()][:, columns.strings()]


total_between.register(DigitSpace)(magnetisation)


def response_of(problem: ThermalProblem, temperatures: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return ``magnetisation_a`` and ``susceptibility_a`` per site of every axis of the deck, (T,) each."""
    place = problem.place
    # once more, so that a checkpoint need not hold the states
    matrices = (matrix_of(problem.operator(sector, problem.model)) for sector in problem.sectors)
    solved = [eigh(place.to_host(matrix)) for matrix in matrices]
    made = [columns_in(sector, vectors) for sector, (_, vectors) in zip(problem.sectors, solved, strict=True)]
    states = [(values, vectors) for (values, _), (_, vectors) in zip(solved, made, strict=True)]
    beta = 1.0 / temperatures
    lowest = min(float(values[0]) for values, _ in states)
    weights = [np.exp(-beta[:, None] * (values - lowest)) for values, _ in states]
    Z = sum(w.sum(axis=1) for w in weights)
    spaces = [space for space, _ in made]
    found: dict[str, NDArray[np.float64]] = {}
    for axis in problem.response_axes:
        own, sign = problem.frame.place(axis)
        mean, square = np.zeros(beta.size), np.zeros(beta.size)
        for a, (ours, bras) in enumerate(states):
            for b, (theirs, kets) in enumerate(states):
                between = total_between(spaces[a], spaces[b], place, own)
                if not between.nnz:
                    continue
                block = bras.conj().T @ (between @ kets)
                if a == b:
                    mean += sign * (weights[a] @ block.diagonal().real)
                size, apart = np.abs(block) ** 2, np.abs(ours[:, None] - theirs)
                # of two levels the lower one has the larger weight: nothing cancels
                lower = np.minimum(ours[:, None], theirs) - lowest
                for t, inverse in enumerate(beta):
                    x = np.maximum(inverse * apart, EQUAL)
                    square[t] += inverse * float((size * np.exp(-inverse * lower) * -np.expm1(-x) / x).sum())
        mean, square = mean / Z, square / Z
        found[f"magnetisation_{axis}"] = mean / problem.spins
        found[f"susceptibility_{axis}"] = (square - beta * mean**2) / problem.spins
    return found


# ---------------------------------------------------------------------------------------- random vectors


@dataclass(frozen=True)
class Response:
    """The response of a sector to a field along an axis of the deck.

    Attributes
    ----------
    problem : ThermalProblem
    space : Space
    axis : {"x", "y", "z"}
    """

    problem: ThermalProblem
    space: Space
    axis: Axis

    @property
    def coefficients(self) -> NDArray[np.complex128]:
        """Coefficients (3, N) of M along the axes of the strings."""
        own, sign = self.problem.frame.place(self.axis)
        c = np.zeros((3, self.problem.spins), np.complex128)
        c["xyz".index(own)] = sign
        return c

    def sampled(
        self,
        operator: SpaceOperator,
        start: NDArray[Any],
        band: tuple[float, float],
        temperatures: NDArray[np.float64],
        poll: Callable[[], None],
    ) -> NDArray[np.float64]:
        """Return ``<phi|phi>``, ``<phi|M|phi>`` and their derivatives by h, of one random vector, (4, T).

        Energies are from the lower end of the band.

        Parameters
        ----------
        start : (D,)
            The random vector, which is kept.
        band : (c, R)
            Middle and half width of the spectrum of all sectors, see :func:`band_of`.
        """
        step = max(1, MOST_NUMBERS // (2 * start.size))
        parts = [
            self._of_temperatures(operator, start, band, temperatures[k : k + step], poll)
            for k in range(0, temperatures.size, step)
        ]
        return np.concatenate(parts, axis=1)

    def _of_temperatures(
        self,
        operator: SpaceOperator,
        start: NDArray[Any],
        band: tuple[float, float],
        T: NDArray[np.float64],
        poll: Callable[[], None],
    ) -> NDArray[np.float64]:
        """Return the sums of :meth:`sampled` at some temperatures."""
        device, xp, (middle, R) = operator.device, operator.device.xp, band
        target = target_in(self.space, self.coefficients)
        assert target is not None
        beyond = operator if target == self.space else self.problem.operator(target, self.problem.model)
        M = self._field(target)
        # the imaginary S^y makes everything complex
        kind = np.result_type(start.dtype, M(start).dtype)
        factors = _series(0.5 * R / T)
        with device.use():
            phi, slope = (xp.zeros((T.size, size), kind) for size in (start.size, beyond.size))
            new, old = start.astype(kind), xp.zeros(start.size, kind)
            dnew, dold = xp.zeros(beyond.size, kind), xp.zeros(beyond.size, kind)
            together = max(1, min(TOGETHER, MOST_NUMBERS // (2 * start.size)))
            block, dblock = (xp.empty((together, size), kind) for size in (start.size, beyond.size))
            for k in range(factors.shape[1]):
                row = k % together
                block[row], dblock[row] = new, dnew
                if row == together - 1 or k == factors.shape[1] - 1:
                    c = device.asarray(np.ascontiguousarray(factors[:, k - row : k + 1]))
                    phi += c @ block[: row + 1]
                    slope += c @ dblock[: row + 1]
                # the first step has half of the others
                twice = 2.0 if k else 1.0
                source = M(new)
                operator.apply(new, old, twice / R, -twice * middle / R, -1.0 if k else 0.0)
                beyond.apply(dnew, dold, twice / R, -twice * middle / R, -1.0 if k else 0.0)
                dold -= (twice / R) * source
                new, old, dnew, dold = old, new, dold, dnew
                poll()
            rows = np.zeros((4, T.size))
            for t in range(T.size):
                turned = M(phi[t])
                rows[0, t], rows[3, t] = norm2(phi[t]), 2.0 * overlap(slope[t], turned).real
                if target == self.space:
                    rows[1, t] = overlap(phi[t], turned).real
                    rows[2, t] = 2.0 * overlap(slope[t], phi[t]).real
        return rows

    def _field(self, target: Space) -> Callable[[Any], Any]:
        """Return the product with M, from the sector to the one that it leads to."""
        device, c = self.problem.place, self.coefficients
        if target != self.space:
            return lambda psi: applied_in(self.space, target, device, psi, c)
        linear = operator_in(self.space, device, field_in(self.space, c))

        def apply(psi: Any) -> Any:
            state = psi if linear.is_real or psi.dtype.kind == "c" else psi.astype(np.complex128)
            out = device.xp.empty_like(state)
            linear.apply(state, out)
            return out

        return apply


def band_of(problem: ThermalProblem, coldest: float, poll: Callable[[], None]) -> tuple[float, float]:
    """Return middle and half width of the spectra of all sectors, the lower end within some of the lowest temperature."""
    scale, device = scale_of(problem.model), problem.place
    low, high = math.inf, -math.inf
    for number, sector in enumerate(problem.sectors):
        operator = problem.operator(sector, problem.model)
        made = chain(device, operator, random_start(device, sector.dimension, number, operator.dtype))
        for count in range(1, MOST_PRODUCTS + 1):
            goes_on = made.step(scale)
            poll()
            if goes_on and count % CHECK:
                continue
            values, vectors = ritz(made.alpha, made.beta)
            below, above = (float(made.beta[-1] * abs(vectors[-1, end])) for end in (0, -1))
            if not goes_on or (below <= LOW * coldest and above <= HIGH * float(np.ptp(values))):
                break
        low, high = min(low, float(values[0]) - below), max(high, float(values[-1]) + above)
    # a spectrum without width is divided by its half width, too
    return 0.5 * (low + high), max(0.5 * (high - low), 1e-3 * scale)


def _series(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients (z, K) of exp(-z (1 + x)) in Chebyshev polynomials, ``(2 - delta_k0) (-1)^k exp(-z) I_k(z)``."""
    from scipy.special import ive

    # I_k(z) exp(-z) falls like exp(-k^2 / 2z), beyond k = z faster
    most = 32 + int(math.sqrt(80.0 * float(z.max()))) + int(min(float(z.max()), 40.0))
    k = np.arange(most)
    rows = (2.0 - (k == 0)) * (-1.0) ** k * ive(k, z[:, None])
    kept = int(np.flatnonzero(np.abs(rows).max(axis=0) > TAIL)[-1]) + 1
    return np.ascontiguousarray(rows[:, :kept])


def response_of_samples(
    problem: ThermalProblem, samples: Sequence[NDArray[np.float64]]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return magnetisation and susceptibility per site along every axis, and their errors by a jackknife.

    Parameters
    ----------
    samples : of (vectors, axes, 4, T)
        Of each sector, see :meth:`Response.sampled`.
    """
    total = np.sum(
        [sector.dimension * rows for sector, rows in zip(problem.sectors, samples, strict=True)], axis=0
    )
    means, errors = {}, {}
    count = len(total)
    for number, axis in enumerate(problem.response_axes):
        every = total[:, number].sum(axis=0)
        left_out = np.array([_per_site(every - total[k, number], problem.spins) for k in range(count)])
        spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
        bars = student(count - 1.0) * np.sqrt((count - 1.0) / count * spread)
        for row, name in enumerate(("magnetisation", "susceptibility")):
            means[f"{name}_{axis}"] = _per_site(every, problem.spins)[row]
            errors[f"{name}_{axis}"] = bars[row]
    return means, errors


def _per_site(sums: NDArray[np.float64], spins: int) -> NDArray[np.float64]:
    """Return magnetisation and susceptibility per site from sums (4, T), (2, T)."""
    Z, M, dZ, dM = sums
    return np.array([M / Z, (dM - M * dZ / Z) / Z]) / spins
