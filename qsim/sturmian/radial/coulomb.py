r"""Outgoing Coulomb waves: their logarithmic derivative, which is the boundary condition at the end of a box.

``H+_l(eta, rho)`` solves ``H'' + (1 - 2 eta/rho - l(l+1)/rho^2) H = 0`` and behaves like ``exp(i(rho - eta ln 2 rho))``; for the
potential -Z/r it is ``rho = k r``, ``eta = -Z/k``.  With ``k = i kappa`` the same function decays like ``exp(-kappa r)``.
"""

from __future__ import annotations

import cmath

from qsim.core.errors import NumericsError

# Stands for a zero in Lentz's method, far below any term and far above the smallest double.
TINY = 1e-290
# Needed number grows like 1/|rho|: enough down to rho of about 1e-3 for |eta| = 1.
ITERATIONS = 200_000


def steed(l: int, eta: complex, rho: complex) -> complex:
    """Return ``d ln H+_l(eta, rho) / d rho`` by Steed's continued fraction.

    Barnett, Comput. Phys. Commun. 27, 147 (1982), summed by the method of Lentz as modified by Thompson and Barnett, J. Comput.
    Phys. 64, 490 (1986).

    Parameters
    ----------
    l : int
        Angular momentum.
    eta : complex
        Sommerfeld parameter.
    rho : complex
        Argument, not zero, with real or imaginary part positive.

    Raises
    ------
    NumericsError
        If the fraction does not converge, which happens very close to the origin only.
    """
    # Numerators (a + n)(b + n) and denominators 2 (rho - eta + i n) of the fraction.
    a, b = 1j * eta - l, 1j * eta + l + 1
    f = C = complex(TINY)
    D = 0j
    for n in range(1, ITERATIONS):
        numerator = (a + n - 1) * (b + n - 1)
        # a neutral system: the fraction ends here, and is exact
        if numerator == 0:
            break
        denominator = 2.0 * (rho - eta + 1j * n)
        D = denominator + numerator * D
        D = 1.0 / (D if D != 0 else TINY)
        C = denominator + numerator / C
        C = C if C != 0 else complex(TINY)
        step = C * D
        f *= step
        if abs(step - 1.0) < 1e-16:
            break
    else:
        raise NumericsError(
            f"the Coulomb wave of l = {l}, eta = {eta:.6g} cannot be computed at rho = {rho:.6g}",
            hint="a larger radius R",
        )
    return 1j * (1.0 - eta / rho) + 1j / rho * f


def outgoing_logarithmic_derivative(l: int, energy: complex, charge: float, r: float) -> complex:
    """Return ``u'(r)/u(r)`` of the wave that leaves (or decays) outside of r.

    Parameters
    ----------
    l : int
        Angular momentum.
    energy : complex
        Energy E = k^2/2, hartree; a negative one gives the decaying function.
    charge : float
        The potential is -charge/r beyond r.
    r : float
        Radius, bohr.

    Returns
    -------
    complex
        1/bohr; real for a negative energy up to rounding.
    """
    k = cmath.sqrt(2.0 * energy)
    # The root with a positive imaginary part decays; on the real axis the positive one leaves.
    if k.imag < 0.0 or (k.imag == 0.0 and k.real < 0.0):
        k = -k
    return k * steed(l, -charge / k, k * r)
