"""Spectral functions of the ground state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.dynamics.kpm import share

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.deck.tasks import Dynamics
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.problem import TaskProblem

__all__ = ["QUANTITIES", "DynamicsResult"]

EPS = 2.2e-16


@dataclass
class DynamicsResult:
    """Spectral functions of the ground state.

    Attributes
    ----------
    problem : TaskProblem
    sector : Space
        Of the ground state.
    energy, residual : float
    gap : float
        Distance of the next level in the sector.
    structure : (q, omega) float64
    poles, weights : (q, steps) float64 or None
        Positions (not a number where there are fewer) and weights; None of kpm.
    change : (q,) float64 or None
        Bound of what further products could change in the structure, relative to its maximum; None of kpm.
    moments : (q, M) float64 or None
        Of Chebyshev, of kpm.
    band : (float, float)
        Middle and half width of the energies of kpm.
    structure_imaginary, weights_imaginary, moments_imaginary : optional
        The same of the imaginary part, of unlike components.
    """

    task: ClassVar[str] = "dynamics"

    problem: TaskProblem[Dynamics]
    sector: Space
    energy: float
    residual: float
    gap: float
    structure: NDArray[np.float64]
    poles: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    change: NDArray[np.float64] | None = None
    moments: NDArray[np.float64] | None = None
    band: tuple[float, float] = (0.0, 1.0)
    structure_imaginary: NDArray[np.float64] | None = None
    weights_imaginary: NDArray[np.float64] | None = None
    moments_imaginary: NDArray[np.float64] | None = None

    @property
    def static_imaginary(self) -> NDArray[np.float64] | None:
        """Imaginary part of ``<0| S^a_q^dagger S^b_q |0>`` of unlike components."""
        if self.weights_imaginary is not None:
            return np.asarray(self.weights_imaginary.sum(axis=1), np.float64)
        return None if self.moments_imaginary is None else self.moments_imaginary[:, 0]

    @property
    def static(self) -> NDArray[np.float64]:
        """``<0| S_q^dagger S_q |0>`` of every q."""
        if self.weights is None:
            assert self.moments is not None
            # mu_0 = <S_q^dagger S_q>, as T_0 = 1
            return self.moments[:, 0]
        return np.asarray(self.weights.sum(axis=1), np.float64)

    @property
    def static_error(self) -> float | None:
        """Bound of the error of the sum of the static factors; None of the current, which has no simple norm."""
        if self.problem.block.operator == "current":
            return None
        # the ground state is off by residual / gap; ||S_q||^2 is at most N S^2 for Sz, of spins 1/2 N / 4, and N (S + 1/2)^2 for
        # S+ and S-; of one site 1/N of it
        S = self.problem.largest
        largest = (S + 0.5) ** 2 if self.problem.block.operator in ("sp", "sm") else S**2
        size = largest * (self.problem.spins if self.problem.block.sites is None else 1)
        lost = min(self.residual / self.gap if self.gap > 0.0 else 1.0, 1.0)
        rounding = EPS * self.problem.spins
        return float(len(self.static) * size * (2.0 * lost + lost**2 + rounding))

    @property
    def resolution(self) -> float | None:
        """Standard deviation of a peak of kpm in the middle of the band, ``pi R / M``."""
        return None if self.moments is None else np.pi * self.band[1] / self.moments.shape[1]

    @property
    def edges(self) -> tuple[float, float]:
        """Ends of the band of kpm, as frequencies."""
        middle = self.band[0] - self.energy
        return middle - self.band[1], middle + self.band[1]

    @property
    def captured(self) -> float | None:
        """Least share of a static factor that lies within the frequencies, of kpm; None without weight."""
        # of unlike components weights have any sign
        if self.moments is None or self.problem.block.unlike or not self.static.any():
            return None
        omega = self.problem.block.omega
        ends = omega.first + self.energy, omega.to + self.energy
        return float(share(self.moments, ends, self.band)[self.static > 0.0].min())

    @property
    def first_moment(self) -> NDArray[np.float64]:
        """Integral of ``w S(q, w)`` of every q."""
        if self.weights is None or self.poles is None:
            assert self.moments is not None
            # H = R T_1 + c: the first moment is R mu_1 + (c - E_0) mu_0
            return self.band[1] * self.moments[:, 1] + (self.band[0] - self.energy) * self.moments[:, 0]
        return np.asarray((self.weights * np.nan_to_num(self.poles)).sum(axis=1), np.float64)

    @property
    def continuum(self) -> NDArray[np.float64] | None:
        """Edges of the two-spinon continuum (2, q) of a Heisenberg ring, None for all other models."""
        model, n = self.problem.model, self.problem.spins
        J = float(model.J[2, 0, 1]) if n > 2 else 0.0
        ring = np.zeros((n, n))
        for j in range(n):
            # a nearest-neighbour ring of equal isotropic couplings, for which the edges are known
            ring[j, (j + 1) % n] = ring[(j + 1) % n, j] = J
        if (
            J <= 0.0
            or self.problem.block.sites is not None
            or self.problem.block.operator == "current"
            or self.problem.block.unlike
            or model.h.any()
            or model.cross is not None
            or not all(np.allclose(part, ring, rtol=0, atol=1e-12 * J) for part in model.J)
        ):
            return None
        q = np.pi * np.array(self.problem.block.wave_numbers(n))
        # des Cloizeaux and Pearson (1962), and Yamada (1969): (pi / 2) J |sin q| and pi J |sin q/2|
        return np.array([0.5 * np.pi * J * np.abs(np.sin(q)), np.pi * J * np.abs(np.sin(0.5 * q))])


def _edge(number: int) -> Callable[[DynamicsResult], NDArray[np.float64] | None]:
    return lambda result: None if result.continuum is None else result.continuum[number]


def _row_axes(*more: str) -> Callable[[DynamicsResult], tuple[str, ...]]:
    """Return a function that gives the axes of spectral functions: wave numbers, or sites."""
    return lambda result: ("q" if result.problem.block.sites is None else "dynamics_site", *more)


QUANTITIES: tuple[Quantity[DynamicsResult], ...] = (
    Quantity(
        "energy_0",
        "J",
        "energy of the ground state",
        lambda r: r.energy,
        error=lambda r: r.residual,
        headline=True,
    ),
    Quantity(
        "static_sum",
        "hbar^2",
        "sum of the static structure factors of all q",
        lambda r: float(r.static.sum()),
        error=lambda r: r.static_error,
        headline=True,
    ),
    Quantity(
        "change_max",
        "",
        "bound of what further products would change in S(q, w), relative to its maximum",
        lambda r: None if r.change is None or np.isnan(r.change).any() else float(r.change.max()),
        headline=True,
        when=lambda r: r.change is not None,
        exact=True,
    ),
    Quantity("sector", "", "sector of the ground state", lambda r: str(r.sector), headline=True),
    Quantity("dimension", "", "states of that sector", lambda r: r.sector.dimension, headline=True),
    Quantity(
        "broadening",
        "J",
        "half width of the Lorentzians",
        lambda r: r.problem.block.broadening,
        when=lambda r: r.moments is None,
        exact=True,
    ),
    Quantity(
        "resolution",
        "J",
        "standard deviation of a peak in the middle of the band, pi R / M, of kpm",
        lambda r: r.resolution,
        headline=True,
        when=lambda r: r.moments is not None,
        exact=True,
    ),
    Quantity(
        "captured",
        "",
        "least share of a static factor that lies within the frequencies, of kpm",
        lambda r: r.captured,
        headline=True,
        when=lambda r: r.moments is not None,
        exact=True,
    ),
    Quantity(
        "band_lower",
        "J",
        "lower end of the band of kpm",
        lambda r: r.edges[0],
        when=lambda r: r.moments is not None,
        exact=True,
    ),
    Quantity(
        "band_upper",
        "J",
        "upper end of the band of kpm",
        lambda r: r.edges[1],
        when=lambda r: r.moments is not None,
        exact=True,
    ),
    Quantity("operator", "", "operator S_q, or the current", lambda r: r.problem.block.operator),
    Quantity("spins", "", "number of spins", lambda r: r.problem.spins),
    Quantity(
        "q",
        "pi",
        "wave numbers, in units of pi",
        lambda r: np.array(r.problem.block.wave_numbers(r.problem.spins)),
        axes=("q",),
        when=lambda r: r.problem.block.sites is None,
    ),
    Quantity(
        "dynamics_site",
        "",
        "sites of local functions, instead of q",
        lambda r: None if r.problem.block.sites is None else np.array(r.problem.block.sites),
        axes=("dynamics_site",),
    ),
    Quantity(
        "omega", "J", "frequencies", lambda r: np.array(r.problem.block.omega.values()), axes=("omega",)
    ),
    Quantity(
        "structure",
        "hbar^2/J",
        "S(q, w) = sum_n |<n|S_q|0>|^2 delta(w - E_n + E_0), every delta a Lorentzian of the broadening; of kpm a peak of the "
        "resolution",
        lambda r: r.structure,
        axes=("q", "omega"),
        axes_of=_row_axes("omega"),
        note="S_q = N^(-1/2) sum_j exp(iqj) S_j; of unlike components the real part; of sites S_j; of the current N^(-1/2) i "
        "[H, sum_j j Sz_j], with J^2 in the unit",
    ),
    Quantity(
        "static",
        "hbar^2",
        "<0|S_q^dagger S_q|0>, the integral of S(q, w)",
        lambda r: r.static,
        axes=("q",),
        axes_of=_row_axes(),
    ),
    *(
        Quantity(name, unit, f"imaginary part of {of}", value, axes=("q", *more), axes_of=_row_axes(*more))
        for name, of, unit, value, more in (
            (
                "structure_imag",
                "S^ab(q, w) = sum_n <0|Sa_q^dagger|n> <n|Sb_q|0> delta(w - E_n + E_0), a and b the two components",
                "hbar^2/J",
                lambda r: r.structure_imaginary,
                ("omega",),
            ),
            ("static_imag", "<0|Sa_q^dagger Sb_q|0>", "hbar^2", lambda r: r.static_imaginary, ()),
            ("pole_weight_imag", "the weights", "hbar^2", lambda r: r.weights_imaginary, ("pole",)),
            ("moments_imag", "the moments of kpm", "hbar^2", lambda r: r.moments_imaginary, ("moment",)),
        )
    ),
    Quantity(
        "first_moment",
        "hbar^2 J",
        "integral of w S(q, w)",
        lambda r: r.first_moment,
        axes=("q",),
        axes_of=_row_axes(),
    ),
    Quantity(
        "moments",
        "hbar^2",
        "<0|S_q^dagger T_k((H - c)/R) S_q|0>, the moments of kpm",
        lambda r: r.moments,
        axes=("q", "moment"),
        axes_of=_row_axes("moment"),
    ),
    Quantity(
        "poles",
        "J",
        "positions of the poles; not a number where there are fewer",
        lambda r: r.poles,
        axes=("q", "pole"),
        axes_of=_row_axes("pole"),
    ),
    Quantity(
        "pole_weight",
        "hbar^2",
        "weights of the poles",
        lambda r: r.weights,
        axes=("q", "pole"),
        axes_of=_row_axes("pole"),
    ),
    Quantity(
        "change",
        "",
        "bound of what further products would change in S(q, w)",
        lambda r: None if r.change is None or np.isnan(r.change).all() else r.change,
        axes=("q",),
        axes_of=_row_axes(),
    ),
    Quantity("continuum_lower", "J", "lower edge of two spinons of an infinite ring", _edge(0), axes=("q",)),
    Quantity("continuum_upper", "J", "upper edge of two spinons of an infinite ring", _edge(1), axes=("q",)),
)
