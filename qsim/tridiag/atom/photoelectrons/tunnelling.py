r"""Tunnelling rates in the quasi-static limit (Ammosov, Delone and Krainov), to compare yields of a run with.

    w(F) = C^2 f_lm Ip (2 F0 / F)^(2 n* - |m| - 1) exp(-2 F0 / (3 F)),   F0 = (2 Ip)^(3/2),   n* = Z / sqrt(2 Ip),
    C^2 = 2^(2 n*) / (n* Gamma(2 n*)),   f_lm = (2 l + 1) (l + |m|)! / (2^|m| |m|! (l - |m|)!)

(Sov. Phys. JETP 64, 1191 (1986)); for 1s of hydrogen ``4 / F exp(-2 / (3 F))``.  It is for fields well below F0 / 8 and slow ones
(Keldysh parameter below 1): elsewhere the ratio to a run says how far away that is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.problem import AtomProblem

__all__ = ["adk_rate", "adk_yield"]

# of the field of a run
SAMPLES = 20_001
# of F0, below which nothing tunnels
WEAKEST = 1e-3


def adk_rate(field: NDArray[np.float64], ip: float, charge: float, l: int, m: int) -> NDArray[np.float64]:
    """Return the rate in static fields (k,), a.u.

    Parameters
    ----------
    field : (k,) float64
        Not negative, a.u.
    ip : float
        Ionisation potential, hartree.
    charge : float
        That is seen from far away, above 0.
    l, m : int
        Of the level, m about the field.
    """
    m = abs(m)
    strong, n = (2.0 * ip) ** 1.5, charge / math.sqrt(2.0 * ip)
    # as a logarithm: Gamma(2 n*) overflows for weakly bound levels
    log_c = 2.0 * n * math.log(2.0) - math.log(n) - math.lgamma(2.0 * n)
    shape = (2 * l + 1) * math.factorial(l + m) / (2**m * math.factorial(m) * math.factorial(l - m))
    # the exponent is about -670 there: the rate is 0, without a division by zero
    f = np.maximum(field, WEAKEST * strong)
    return np.asarray(
        shape * ip * np.exp(log_c + (2.0 * n - m - 1.0) * np.log(2.0 * strong / f) - 2.0 * strong / (3.0 * f))
    )


def adk_yield(problem: AtomProblem) -> float | None:
    """Return ``1 - exp(-int w(|E|) dt)`` of a run from one level; None from several, or without a Coulomb tail."""
    parts, start = problem.frame.parts, problem.start
    if len(parts) != 1 or start[0].n == 0 or problem.tail <= 0.0 or not problem.pulse.pulses:
        return None
    t = np.linspace(0.0, problem.t_final, SAMPLES)
    # quasi-static: the rate of each instant is that in a static field of its size
    size = np.hypot.reduce(problem.electric(t), axis=0)
    m = parts[0][1]
    # about the field, of which a level along the normal has no one m
    if problem.frame.planar:
        if start[0].l > 0:
            return None
        m = 0
    rate = adk_rate(size, -start[0].energy, problem.tail, start[0].l, m)
    return float(-np.expm1(-np.trapezoid(rate, t)))
