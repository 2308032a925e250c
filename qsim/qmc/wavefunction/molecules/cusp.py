r"""Cusps for Gaussian orbitals at bare nuclei: Ma, Towler, Drummond and Needs, J. Chem. Phys. 122, 224322 (2005).

Gaussians are flat at a nucleus, so that ``-Z/r`` is left uncancelled in the local energy.  Around each bare nucleus, the part of
an orbital that is spherical about it, ``chi(r)``, is replaced within a radius rc by ``sign exp(p(r))`` with a polynomial p of
degree 4: value, slope and curvature are continued at rc, ``p'(0) = -Z`` makes the cusp, and p(0) is what is left to choose.
(Here chi contains the constant by which the rest of the orbital contributes at the nucleus, so that the condition holds for the
orbital as a whole.)  The choice makes the local energy of chi, ``-(chi'' + 2 chi'/r) / (2 chi) - Z/r``, as smooth as possible:
least squares against ``a + b r^2``, as the potential of the other electrons varies.  rc is the boundary of the radial grid, up
to 1/Z, with the smallest variance of the local energy over (0, 1/Z).

The difference ``exp(p) - chi`` becomes an s shell of its own, zero from rc on, in that orbital only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.system.radial import KNOTS, Jet, RadialFunction, Terms
from qsim.qmc.wavefunction.molecules.orbitals import Y00, OrbitalSet, Shell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.system.ions import System

__all__ = ["Correction", "correct_cusps", "fit_correction"]

SMALLEST_RC = 0.2  # of 1/Z
SPREAD = 0.5  # log chi(0) is looked for so far around that of the Gaussians
SAMPLES = 60
QUADRATURE = 200  # points of Gauss and Legendre within rc, also for the sharpest Gaussians
ABSENT = 1e-3  # of the largest orbital at the nucleus: one that is smaller there is left as it is
NODE_SHARE = 0.8  # of the radius of a node of chi, that rc must stay below


@dataclass(frozen=True)
class Correction:
    """``sign exp(p(r)) - chi(r)`` below rc.

    Attributes
    ----------
    chi
        Radial function of the spherical part.
    p : (5,) float64
        Coefficients of r^0 ... r^4.
    sign
        Of chi.
    rc
        Bohr.
    """

    chi: Terms
    p: NDArray[np.float64]
    sign: float
    rc: float

    def corrected(self, r: NDArray[np.float64]) -> Jet:
        """Return the jet of ``sign exp(p)``."""
        # f = exp(p): f' = p' f, f'' = (p'' + p'^2) f.
        x = np.asarray(r, np.float64)[..., None] ** np.arange(5)
        k = np.arange(1, 5)
        p = x @ self.p
        dp = x[..., :4] @ (k * self.p[1:])
        ddp = x[..., :3] @ ((k * (k - 1))[1:] * self.p[2:])
        value = self.sign * np.exp(p)
        return Jet(value, value * dp, value * (ddp + dp**2))

    def __call__(self, r: NDArray[np.float64]) -> Jet:
        """Return the jet of the difference, as the R_s of an s shell; it vanishes at rc to second order."""
        # The difference to the Gaussians is one more s shell, so that kernels need nothing
        # new.
        x = np.minimum(np.asarray(r, np.float64), self.rc)
        inside = r < self.rc
        return Jet(*((a - b) * inside / Y00 for a, b in zip(self.corrected(x), self.chi(x), strict=True)))

    def change(self, Z: float) -> float:
        """Return by how much the correction changes the energy of an electron of this orbital, to first order, hartree.

        Value and slope at rc stay as they are, so that kinetic energies may be taken with Laplacians; the field of the other
        electrons is a constant here, which makes the mean local energy of the corrected function that of the orbital.
        """
        x, weights = np.polynomial.legendre.leggauss(QUADRATURE)
        r, weights = 0.5 * self.rc * (x + 1.0), 0.5 * self.rc * weights * 4.0 * math.pi
        means = []
        for jet in (self.corrected(r), self.chi(r)):
            square = weights * (r * jet.value) ** 2
            kinetic = -0.5 * r * jet.value * (r * jet.curvature + 2.0 * jet.slope)
            means.append((float(square.sum()), float((weights * (kinetic - Z * r * jet.value**2)).sum())))
        (norm, energy), (norm_before, energy_before) = means
        return energy / norm * norm_before - energy_before


def local_energy(jet: Jet, r: NDArray[np.float64], Z: float) -> NDArray[np.float64]:
    """Return the local energy of a spherical function at a nucleus, hartree."""
    return np.asarray(-0.5 * (jet.curvature + 2.0 * jet.slope / r) / jet.value - Z / r)


def fit_correction(chi: Terms, Z: float) -> Correction | None:
    """Find the correction of a spherical function; None if it has a node too close to the nucleus.

    Parameters
    ----------
    chi
        Values, not negligible at r = 0.
    Z
        Charge of the nucleus.
    """
    # exp(p) has no node: the correction must end before the first one of the orbital.
    r = _midpoints(1.0 / Z)
    raw = chi(r)
    sign = math.copysign(1.0, float(chi(np.zeros(1)).value[0]))
    changes = np.flatnonzero(sign * raw.value <= 0.0)
    limit = 1.0 / Z if changes.size == 0 else NODE_SHARE * float(r[changes[0]])
    # rc is a knot of the radial tables: the third derivative jumps there, and a table would
    # smear it over an interval.
    candidates = KNOTS[(limit * (1 - 1e-12) >= KNOTS) & (SMALLEST_RC / Z <= KNOTS)]
    if candidates.size == 0:
        return None
    # At most 16 of them, evenly over the range.
    candidates = candidates[np.unique(np.linspace(0, candidates.size - 1, 16).astype(int))]
    r = r[r < limit]
    raw = chi(r)
    energy = local_energy(raw, r, Z)
    best: tuple[float, Correction | None] = (math.inf, None)
    # The best radius is the one with the smoothest local energy.
    for rc in candidates:
        correction = _at_radius(chi, Z, sign, float(rc))
        inside = r < rc
        jet = correction.corrected(r)
        value = np.where(inside, jet.value, raw.value)
        everywhere = np.where(inside, local_energy(jet, r, Z), energy)
        spread = _residual(everywhere, r, (r * value) ** 2)
        if spread < best[0]:
            best = (spread, correction)
    return best[1]


def _at_radius(chi: Terms, Z: float, sign: float, rc: float) -> Correction:
    """Return the correction that joins at rc: ``exp(p(r))`` with five conditions on the polynomial p."""
    from scipy.optimize import minimize_scalar

    r = _midpoints(rc)
    # Five conditions fix p but for its value at zero: continuity of value, slope and
    # curvature at rc, and the cusp p'(0) = -Z.
    weight = (r * chi(r).value) ** 2
    value, slope, curvature = (float(part[0]) for part in chi(np.array([rc])))
    powers = np.arange(5)
    # p(rc), p'(rc), p''(rc), p'(0), p(0)
    conditions = np.array(
        [
            rc**powers,
            [0, 1, 2 * rc, 3 * rc**2, 4 * rc**3],
            [0, 0, 2, 6 * rc, 12 * rc**2],
            [0, 1, 0, 0, 0],
            [1, 0, 0, 0, 0],
        ]
    )
    inverse = np.linalg.inv(conditions)
    ratio = slope / value
    # In terms of log f: p' = f'/f and p'' = f''/f - (f'/f)^2.
    known = np.array([math.log(sign * value), ratio, curvature / value - ratio**2, -Z, 0.0])
    start = math.log(sign * float(chi(np.zeros(1)).value[0]))

    def correction(height: float) -> Correction:
        known[4] = height
        return Correction(chi, inverse @ known, sign, rc)

    def objective(height: float) -> float:
        return _residual(local_energy(correction(height).corrected(r), r, Z), r, weight)

    found = minimize_scalar(
        objective, bounds=(start - SPREAD, start + SPREAD), method="bounded", options={"xatol": 1e-9}
    )
    return correction(float(found.x))


def _midpoints(end: float) -> NDArray[np.float64]:
    return np.asarray(end * (np.arange(SAMPLES) + 0.5) / SAMPLES, np.float64)


def _residual(energy: NDArray[np.float64], r: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Return the weighted variance of what ``a + b r^2`` leaves of an energy."""
    root = np.sqrt(weight / weight.sum())
    # A constant and r^2 are what smooth local energies have near a nucleus; the rest is noise
    # that costs variance.
    A = root[:, None] * np.stack([np.ones_like(r), r * r], -1)
    left = root * energy - A @ np.linalg.lstsq(A, root * energy, rcond=None)[0]
    return float(left @ left)


def correct_cusps(
    orbitals: OrbitalSet, system: System, occurring: tuple[int, int] | None = None
) -> OrbitalSet:
    """Return the orbitals with cusps at all bare nuclei.

    Parameters
    ----------
    orbitals
        Of Gaussians; shells of other functions are left alone, and spoil nothing.
    system
        Nuclei and electrons.
    occurring
        Orbitals of each spin that determinants have, if there are more of them than electrons.

    Returns
    -------
    OrbitalSet
        With one more s shell for each orbital and nucleus where there is something to correct; its ``about`` says how many.
    """
    occurring = occurring or (system.n_up, system.n_dn)
    counts = [
        max(count, len(order)) for count, order in zip(occurring, orbitals.columns.numbers, strict=True)
    ]
    # Orbitals of both spins that are the same get one correction.
    shared = counts[0] >= counts[1] and np.array_equal(
        orbitals.coefficients[0][:, : counts[1]], orbitals.coefficients[1][:, : counts[1]]
    )
    extra: list[Shell] = []
    columns: list[NDArray[np.float64]] = []
    width = orbitals.coefficients.shape[2]
    largest_rc = change = 0.0
    for atom, symbol in enumerate(system.symbols):
        if not system.is_bare(symbol):
            continue
        # Orbitals that vanish at the nucleus have no cusp there.
        here = orbitals.atomic(orbitals.centres[atom][None], exact=True)[0, 0]
        negligible = ABSENT * float(np.abs(here @ orbitals.coefficients).max())
        for spin in range(1 if shared else 2):
            for k in range(counts[spin]):
                C = orbitals.coefficients[spin][:, k]
                if (
                    abs(here @ C) <= negligible
                    or (chi := _spherical(orbitals, atom, C, float(here @ C))) is None
                ):
                    continue
                correction = fit_correction(chi, float(system.charges[atom]))
                if correction is None:
                    continue
                column = np.zeros((2, width))
                column[spin, k] = 1.0
                if shared and k < counts[1]:
                    column[1, k] = 1.0
                electrons = sum(column[s, k] for s in range(2) if k < occurring[s])
                change += float(electrons) * correction.change(float(system.charges[atom]))
                extra.append(Shell(atom, 0, correction, correction.rc))
                columns.append(column)
                largest_rc = max(largest_rc, correction.rc)
    if not extra:
        return orbitals.noting(cusp_summary="no nuclear cusps to correct")
    return orbitals.with_shells(extra, np.stack(columns, axis=1)).noting(
        cusps=len(extra),
        cusp_change=change,
        cusp_summary=f"nuclear cusps corrected: {len(extra)}, within {largest_rc:.3g} bohr (the determinant's energy is no "
        f"longer the mean field's but lies about {change:.2g} hartree from it; cusp: false leaves its orbitals)",
    )


def _spherical(orbitals: OrbitalSet, atom: int, C: NDArray[np.float64], total: float) -> Terms | None:
    """Return the s part of an orbital at an atom, with the value there of the rest as a constant; None without s shells."""
    # Only s functions on this atom contribute to the spherical average near it, but for the
    # tails of others, which are taken as constant.
    chi: Terms | None = None
    for shell, first in zip(orbitals.shells, orbitals.first, strict=True):
        f: RadialFunction = shell.function
        if shell.atom == atom and shell.l == 0 and isinstance(f, Terms):
            part = f * (Y00 * float(C[first]))
            chi = part if chi is None else chi + part
    if chi is None:
        return None
    own = float(chi(np.zeros(1)).value[0])
    return chi + Terms.of(total - own)
