r"""Angular distribution of a photoelectron: the asymmetry parameter beta.

For an initial state of L = 0 and light that is linearly polarised along z, with theta from there,

    d sigma / d Omega = sigma / (4 pi) (1 + beta P_2(cos theta)).

The ion is left in l_c, the electron leaves with l = l_c - 1 or l_c + 1.  With ``a_l = (-i)^l exp(i sigma_l) A_l``, A_l the
amplitude of the outgoing Coulomb wave and sigma_l its phase,

    beta = [(l_c - 1) |a_-|^2 + (l_c + 2) |a_+|^2 - 6 (l_c (l_c + 1))^(1/2) Re(a_- a_+*)] / [(2 l_c + 1) (|a_-|^2 + |a_+|^2)],

which is 2 for an ion in an s level.  It has the form of Cooper and Zare, J. Chem. Phys. 48, 942 (1968).

From an initial state with L_i > 0 the intensity is summed over the quantum numbers that are not observed, and averaged over M,

    I(theta) = 1/(2 L_i + 1) sum_M sum_m |sum_lL <l mu, l_c m | L M> g_LM a_lL Y_lmu|^2,   mu = M - m,
    g_LM = (-1)^(L - M) (L 1 L_i; -M 0 M) (3 (2 L_i + 1))^(1/2),

coherent in l and in the total L.  ``beta = 5 int I P_2 / int I``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.two_electron.angular import clebsch_gordan, wigner_3j

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.sturmian.scatter.photo.outgoing_waves import Channel, Wave

__all__ = ["asymmetries", "asymmetry", "averaged", "phased"]


def phased(
    k: NDArray[np.float64], amplitude: NDArray[np.complex128], leaves: int, charge: float
) -> NDArray[np.complex128]:
    """Return ``a_l = (-i)^l exp(i sigma_l) A_l`` (g, e) of a channel with wave numbers (e,), for a charge of the ion."""
    from scipy.special import loggamma

    sigma = np.imag(loggamma(leaves + 1 - 1j * charge / np.where(k > 0.0, k, 1.0)))
    return np.asarray((-1j) ** leaves * np.exp(1j * sigma) * amplitude)


def asymmetry(
    l: int, lower: NDArray[np.complex128] | None, upper: NDArray[np.complex128] | None
) -> NDArray[np.float64]:
    """Return beta for an ion in a level of l from the amplitudes a_- and a_+; NaN where there are none.

    Parameters
    ----------
    l : int
        Orbital momentum of the ion.
    lower, upper : complex128 or None
        Of the electron with one less and one more; None where the deck has no such pair.
    """
    minus = np.zeros_like(upper) if lower is None else lower
    plus = np.zeros_like(minus) if upper is None else upper
    assert minus is not None
    assert plus is not None
    first, second = np.abs(minus) ** 2, np.abs(plus) ** 2
    mixed = 6.0 * math.sqrt(l * (l + 1)) * np.real(minus * plus.conj())
    whole = (2 * l + 1) * (first + second)
    # A closed channel has no direction.
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0.0, ((l - 1) * first + (l + 2) * second - mixed) / whole, np.nan))


def asymmetries(
    waves: Mapping[Channel, Wave], charge: float, L_initial: int = 0
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return beta (g, e) of every level (n, l) for a charge of the ion and an initial state of some L."""
    out = {}
    for n, l in sorted({(channel.n, channel.l) for channel in waves}):
        parts = {
            (channel.leaves, channel.L): phased(wave.k, wave.amplitude, channel.leaves, charge)
            for channel, wave in waves.items()
            if (channel.n, channel.l) == (n, l)
        }
        if L_initial == 0:
            out[n, l] = asymmetry(l, parts.get((l - 1, 1)), parts.get((l + 1, 1)))
        else:
            out[n, l] = averaged(l, parts, L_initial)
    return out


def averaged(
    l: int, parts: Mapping[tuple[int, int], NDArray[np.complex128]], L_initial: int
) -> NDArray[np.float64]:
    """Return beta for an ion in a level of l from the amplitudes a of all (l of the electron, total L), averaged over M.

    Parameters
    ----------
    l : int
        Orbital momentum of the ion.
    parts : dict of complex128
    L_initial : int
        Of the initial state.
    """
    from scipy.special import sph_harm_y

    # Exact for the products of two harmonics that occur.
    x, weights = np.polynomial.legendre.leggauss(max(leaves for leaves, _ in parts) + 3)
    shape = next(iter(parts.values())).shape
    total, second = np.zeros(shape), np.zeros(shape)
    for M in range(-L_initial, L_initial + 1):
        for m in range(-l, l + 1):
            amplitude = np.zeros((x.size, *shape), complex)
            for (leaves, L), a in parts.items():
                if abs(M - m) > leaves or abs(M) > L:
                    continue
                factor = clebsch_gordan(leaves, l, L, M - m, m, M) * _projection(L, L_initial, M)
                amplitude += factor * sph_harm_y(leaves, M - m, np.arccos(x), 0.0)[:, None, None] * a
            intensity = np.abs(amplitude) ** 2
            total += np.tensordot(weights, intensity, 1)
            second += np.tensordot(weights * (1.5 * x**2 - 0.5), intensity, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0.0, 5.0 * second / total, np.nan))


def _projection(L: int, L_initial: int, M: int) -> float:
    """Return g_LM: element of the dipole along z between states of one M, over the mean that the sources carry."""
    return float(
        (-1) ** (L - M) * wigner_3j(L, 1, L_initial, -M, 0, M) * math.sqrt(3.0 * (2 * L_initial + 1))
    )
