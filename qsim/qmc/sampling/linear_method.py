r"""From moments of a sample to steps of the parameters: linear method and stochastic reconfiguration.

With O_i = d log psi / dp_i, the local energy E and its derivatives G_i, averages over the square of psi give the overlaps and the
Hamiltonian between psi and its derivatives, all made orthogonal to psi [1]_:

.. math::
   S_{ij} = \langle \delta O_i\, \delta O_j\rangle,\quad
   H_{i0} = \langle \delta O_i E\rangle,\quad
   H_{0j} = \langle \delta O_j E\rangle + \langle G_j\rangle,\quad
   H_{ij} = \langle \delta O_i\, \delta O_j E\rangle + \langle \delta O_i\, \delta G_j\rangle .

H is not made symmetric: then each column is exact as soon as the eigenvector is, however small the sample.  The lowest sensible
eigenvector c of :math:`Hc = \lambda Sc` gives :math:`\Delta p_i = (c_i/c_0)/\sqrt{1 + D}` with
:math:`D = \sum S_{ij} c_i c_j/c_0^2`, the step for which the norm of psi stays the same on half of the way.

The variance V enters with its gradient g and the Gauss-Newton matrix :math:`h_{ij} = 2\langle\delta G_i\,\delta G_j\rangle`, as a
matrix with elements :math:`V, g_i/2, h_{ij}/2 + V S_{ij}` [1]_.  A shift *a* of the diagonal, in units of a metric of the
parameters, makes steps shorter and turns them towards steepest descent.

Stochastic reconfiguration [2]_ has the shift as the inverse of its time step: :math:`a\,S\,\Delta p = -g/2`; for the part of
the variance, whose curvature is far from that of S, :math:`h/2` is added on the left.

References
----------
.. [1] C. J. Umrigar, J. Toulouse, C. Filippi, S. Sorella, R. G. Hennig, Phys. Rev. Lett. 98, 110201 (2007),
       doi:10.1103/PhysRevLett.98.110201; J. Toulouse, C. J. Umrigar, J. Chem. Phys. 126, 084102 (2007), doi:10.1063/1.2437215.
.. [2] S. Sorella, Phys. Rev. B 71, 241103(R) (2005), doi:10.1103/PhysRevB.71.241103.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg

from qsim.core.device.device import namespace
from qsim.core.device.parallel import on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray

__all__ = ["LONGEST", "Limits", "Moments", "Surroundings", "linear_step", "reconfiguration_step", "smoothing"]

LONGEST = (
    0.1  # of D, the squared length of a step; weights of the sample then spread by 4 D in their logarithm
)
FLOOR = 1e-3  # of the metric, relative to its mean: for parameters that the sample hardly sees
SOFT = 2e-2  # of the metric in stochastic reconfiguration: slows down stiff combinations of parameters
ROUGH = 1e-2  # weight of second differences in the metric
CONDITION = 1e-10  # added to the scaled overlaps
NEAR = 0.25  # squared overlap with psi that an eigenvector needs
REAL = 1e-6  # largest imaginary part of an eigenvalue, relative


class Moments:
    """Second moments of ``1, O, e, e O, G``, where e is the energy above a reference; formed where the configurations live.

    Parameters
    ----------
    parameters
        Number P of parameters.
    reference, window
        Energies count as ``reference +- window``; beyond it they are cut off, and do not depend on parameters.  It tames the
        rare configurations next to nodes, where the energy has no bound.  Hartree.
    penalties : (states,) float64
        Costs of the squared overlaps with other states, hartree, whose ratios to psi then come with the configurations.
    """

    def __init__(
        self,
        parameters: int,
        reference: float,
        window: float,
        penalties: NDArray[np.float64] | None = None,
    ) -> None:
        self.count, self.reference, self.window = parameters, reference, window
        self.penalties = np.zeros(0) if penalties is None else penalties
        self.samples = 0
        self._sums: FloatArray | None = None

    def add(
        self,
        energy: FloatArray,
        log_slopes: FloatArray,
        energy_slopes: FloatArray,
        ratios: FloatArray | None = None,
    ) -> None:
        """Add configurations: energies (W,), O and G (W, P), ratios of other states (W, states), float64, all on one device."""
        xp = namespace(log_slopes)
        e = energy - self.reference
        beyond = xp.abs(e) > self.window
        e = xp.clip(e, -self.window, self.window)
        G = xp.where(beyond[:, None], 0.0, energy_slopes)
        columns = [xp.ones((e.size, 1)), log_slopes, e[:, None], e[:, None] * log_slopes, G]
        z = xp.concatenate(columns if ratios is None else [*columns, ratios], axis=1)
        sums = z.T @ z
        self._sums = sums if self._sums is None else self._sums + sums
        self.samples += e.size

    def surroundings(self) -> Surroundings:
        """Return energy, variance, and how they change with the parameters."""
        P = self.count
        O, E, EO, G = slice(1, P + 1), P + 1, slice(P + 2, 2 * P + 2), slice(2 * P + 2, 3 * P + 2)
        M = on_host(self._sums) / self.samples
        mean = M[0]
        C = M - np.outer(mean, mean)
        e, slope = float(mean[E]), C[O, E]  # <dO e>
        H = M[O, EO] - e * M[O, O] - np.outer(mean[O], slope) - np.outer(slope, mean[O]) + C[O, G]
        squares = M[E, EO] - 2.0 * e * mean[EO] + e * e * mean[O]  # <O (E - <E>)^2>
        variance = max(float(C[E, E]), 0.0)
        # The projectors on other states, with their costs, belong to the Hamiltonian.
        along = np.zeros(P)
        for k, cost in enumerate(self.penalties, start=3 * P + 2):
            r, own = mean[k], C[O, k]
            norm = float(M[k, k])
            along += cost * r * own / norm
            H += cost * (np.outer(own, own) - r * r * C[O, O]) / norm
            e += cost * r * r / norm
        return Surroundings(
            energy=self.reference + e,
            variance=variance,
            overlap=C[O, O],
            energy_gradient=2.0 * (slope + along),
            row=slope + along + mean[G],
            hamiltonian=H,
            variance_gradient=2.0 * (C[E, G] + squares - mean[O] * variance),
            variance_matrix=2.0 * C[G, G],
        )


@dataclass(frozen=True)
class Surroundings:
    """Energy and variance near some parameters.

    Attributes
    ----------
    energy, variance
        Hartree and hartree^2; the energy with the costs of overlaps, as all that follows.
    overlap : (P, P) float64
        S.
    energy_gradient : (P,) float64
        ``2 <dO E>``.
    row : (P,) float64
        H_0j.
    hamiltonian : (P, P) float64
        ``H_ij - <E> S_ij``.
    variance_gradient : (P,) float64
    variance_matrix : (P, P) float64
        h.
    """

    energy: float
    variance: float
    overlap: NDArray[np.float64]
    energy_gradient: NDArray[np.float64]
    row: NDArray[np.float64]
    hamiltonian: NDArray[np.float64]
    variance_gradient: NDArray[np.float64]
    variance_matrix: NDArray[np.float64]

    def gradient(self, weight: float) -> NDArray[np.float64]:
        """Return the gradient of ``(1 - weight) energy + weight variance``."""
        return (1.0 - weight) * self.energy_gradient + weight * self.variance_gradient


class Limits(NamedTuple):
    """Estimates of steps before they are tried.

    Attributes
    ----------
    smooth : (P, P) float64
        Quadratic form of rough changes, from :func:`smoothing`.
    most : (P,) float64
        Largest change of each parameter: where the sample has no configurations, the norm of psi sees nothing.
    nearest
        Follow the eigenvector with the largest overlap with psi, of an excited state, and not the lowest one.
    """

    smooth: NDArray[np.float64]
    most: NDArray[np.float64]
    nearest: bool = False


def smoothing(splines: Sequence[slice], parameters: int) -> NDArray[np.float64]:
    """Return the quadratic form (P, P) of second differences of B-spline coefficients, which end with zeros."""
    form = np.zeros((parameters, parameters))
    for place in splines:
        n = place.stop - place.start
        differences = np.diff(np.eye(n + 2), 2, axis=0)[:, :n]
        form[place, place] += differences.T @ differences
    return form


def metric(overlap: NDArray[np.float64], smooth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the metric (P, P) of the parameters that shifts refer to: their own overlaps, a floor, and smoothness."""
    own = np.diag(overlap)
    mean = float(own.mean()) or 1.0
    return np.diag(own + FLOOR * mean) + ROUGH * mean * smooth


def linear_step(at: Surroundings, shift: float, weight: float, limits: Limits) -> NDArray[np.float64]:
    """Return the step of the linear method.

    Parameters
    ----------
    at
        Where to start from.
    shift
        Of the diagonal, hartree.
    weight
        Of the variance in the target; 0: energy alone, 1: variance alone.
    limits
        Of the step.

    Returns
    -------
    (P,) float64
        No longer than `LONGEST` and `limits`; zero if no eigenvector is near psi.
    """
    P = at.overlap.shape[0]
    form = metric(at.overlap, limits.smooth)
    scale = np.concatenate([[1.0], 1.0 / np.sqrt(np.diag(form))])
    H, S = np.zeros((2, P + 1, P + 1))
    S[0, 0] = 1.0
    S[1:, 1:] = at.overlap
    H[1:, 0] = 0.5 * at.gradient(weight)
    H[0, 1:] = (1.0 - weight) * at.row + weight * 0.5 * at.variance_gradient
    H[1:, 1:] = (1.0 - weight) * at.hamiltonian + weight * 0.5 * at.variance_matrix + shift * form
    H *= np.outer(scale, scale)
    S *= np.outer(scale, scale)
    S[1:, 1:] += CONDITION * np.eye(P)
    values, vectors = scipy.linalg.eig(H, S)
    norms = np.einsum("ik,ij,jk->k", vectors.conj(), S, vectors).real
    near = np.abs(vectors[0]) ** 2 / np.maximum(norms, np.finfo(float).tiny)
    finite = np.isfinite(values) & (np.abs(values.imag) <= REAL * (1.0 + np.abs(values))) & (norms > 0.0)
    if not finite.any():
        return np.zeros(P)
    fit = finite & (near >= NEAR)
    k = (
        int(np.argmin(np.where(fit, values.real, np.inf)))
        if fit.any() and not limits.nearest
        else int(np.argmax(np.where(finite, near, -1.0)))
    )
    if not near[k] > 1e-6:
        return np.zeros(P)
    step = np.asarray((vectors[1:, k] / vectors[0, k]).real * scale[1:])
    return bounded(step / math.sqrt(1.0 + length(step, at.overlap)), at.overlap, limits.most)


def reconfiguration_step(
    at: Surroundings, shift: float, weight: float, limits: Limits
) -> NDArray[np.float64]:
    """Return the step of stochastic reconfiguration with the time step ``1 / shift``; arguments of :func:`linear_step`."""
    form = shift * (at.overlap + SOFT * metric(at.overlap, limits.smooth)) + 0.5 * weight * at.variance_matrix
    step = np.asarray(np.linalg.solve(form, -0.5 * at.gradient(weight)), np.float64)
    return bounded(step, at.overlap, limits.most)


def length(step: NDArray[np.float64], overlap: NDArray[np.float64]) -> float:
    """Return D, the squared length of a step: the squared norm by which it changes psi."""
    return max(float(step @ overlap @ step), 0.0)


def bounded(
    step: NDArray[np.float64], overlap: NDArray[np.float64], most: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the step, cut to a length of `LONGEST` and to the largest changes of each parameter."""
    excess = max(math.sqrt(length(step, overlap) / LONGEST), float(np.max(np.abs(step) / most)), 1.0)
    return np.asarray(step / excess)
