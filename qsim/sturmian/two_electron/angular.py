r"""Angular algebra of two electrons coupled to L: the numbers that multiply the radial repulsion kernels.

Everything is exact: a Wigner symbol of integer arguments is a sign times the square root of a rational number, which is kept as
such (`Root`) and rounded once.

The repulsion between the coupled spherical harmonics ``(la', lb') L`` and ``(la, lb) L`` is ``1/r12 = sum_l A_l G_l(r1, r2)``
with ``G_l = r<^l / r>^(l+1)`` and

    A_l = (-1)^(L + lb + lb') [(2la'+1)(2la+1)(2lb'+1)(2lb+1)]^(1/2)
          (la' l la; 0 0 0) (lb' l lb; 0 0 0) {L lb' la'; l la lb},

independent of M.  It includes the factor 4 pi/(2l+1): it equals Eq. (18) of Colavecchia, Comput. Phys. Commun. 185, 1955 (2014),
as printed, and 4 pi/(2l+1) times Eq. (16); Eq. (12) with Eq. (18) would count that factor twice.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from qsim.sturmian.deck.symmetry import triangle

# Binary digits of the integer square root before the one rounding: twice what a double needs, and more.
BITS = 128


class Root(NamedTuple):
    """The number ``sign * sqrt(square)``, exactly.

    Attributes
    ----------
    sign : int
        -1, 0 or 1.
    square : Fraction
        Not negative.
    """

    sign: int
    square: Fraction

    def __float__(self) -> float:
        """Return the nearest double."""
        if self.sign == 0:
            return 0.0
        # Scale the fraction by an even power of two, so that its integer part has about 2 BITS
        # binary digits: the integer square root then has BITS of them, and one division rounds
        # it.
        numerator, denominator = self.square.numerator, self.square.denominator
        shift = max(0, BITS - (numerator.bit_length() - denominator.bit_length()) // 2)
        scaled, rest = divmod(numerator << (2 * shift), denominator)
        root = math.isqrt(scaled)
        if rest or root * root != scaled:
            # sticky bit: what was cut off must not look like a tie
            root |= 1
        return self.sign * float(Fraction(root, 1 << shift))


NOTHING = Root(0, Fraction(0))


def _signed(value: Fraction, under_root: Fraction) -> Root:
    """Return ``value * sqrt(under_root)``."""
    if value == 0:
        return NOTHING
    return Root(1 if value > 0 else -1, value * value * under_root)


def _delta(a: int, b: int, c: int) -> Fraction:
    f = math.factorial
    return Fraction(f(a + b - c) * f(a - b + c) * f(b + c - a), f(a + b + c + 1))


@cache
def exact_3j(j1: int, j2: int, j3: int, m1: int, m2: int, m3: int) -> Root:
    """Return the 3j symbol of integer arguments, exactly; zero where the selection rules say so.

    Racah's sum, Edmonds, Angular Momentum in Quantum Mechanics, Eq. (3.6.11).
    """
    # Selection rules first: the factorials below have no negative arguments then.
    if m1 + m2 + m3 != 0 or not triangle(j1, j2, j3):
        return NOTHING
    if abs(m1) > j1 or abs(m2) > j2 or abs(m3) > j3:
        return NOTHING
    f = math.factorial
    total = Fraction(0)
    # t runs over all terms whose factorials have arguments that are not negative.
    for t in range(max(0, j2 - j3 - m1, j1 - j3 + m2), min(j1 + j2 - j3, j1 - m1, j2 + m2) + 1):
        below = f(t) * f(j3 - j2 + t + m1) * f(j3 - j1 + t - m2)
        below *= f(j1 + j2 - j3 - t) * f(j1 - t - m1) * f(j2 - t + m2)
        total += Fraction((-1) ** t, below)
    under = _delta(j1, j2, j3) * (f(j1 + m1) * f(j1 - m1) * f(j2 + m2) * f(j2 - m2) * f(j3 + m3) * f(j3 - m3))
    return _signed((-1) ** abs(j1 - j2 - m3) * total, under)


@cache
def exact_6j(a: int, b: int, c: int, d: int, e: int, f: int) -> Root:
    """Return the 6j symbol ``{a b c; d e f}`` of integer arguments, exactly; zero where a triangle is violated.

    Racah's sum, Edmonds, Eq. (6.3.7).
    """
    triads = ((a, b, c), (a, e, f), (d, b, f), (d, e, c))
    if not all(triangle(*triad) for triad in triads):
        return NOTHING
    under = Fraction(1)
    for triad in triads:
        under *= _delta(*triad)
    # Sums over the four triads and the three quadruples of Racah's formula bound the summation
    # index.
    lower, upper = [sum(triad) for triad in triads], [a + b + d + e, b + c + e + f, c + a + f + d]
    total = Fraction(0)
    for t in range(max(lower), min(upper) + 1):
        below = math.prod(math.factorial(t - x) for x in lower) * math.prod(
            math.factorial(x - t) for x in upper
        )
        total += Fraction((-1) ** t * math.factorial(t + 1), below)
    return _signed(total, under)


def wigner_3j(j1: int, j2: int, j3: int, m1: int, m2: int, m3: int) -> float:
    """Return the 3j symbol ``(j1 j2 j3; m1 m2 m3)`` of integer arguments, correctly rounded."""
    return float(exact_3j(j1, j2, j3, m1, m2, m3))


def wigner_6j(a: int, b: int, c: int, d: int, e: int, f: int) -> float:
    """Return the 6j symbol ``{a b c; d e f}`` of integer arguments, correctly rounded."""
    return float(exact_6j(a, b, c, d, e, f))


def clebsch_gordan(j1: int, j2: int, J: int, m1: int, m2: int, M: int) -> float:
    """Return ``<j1 m1 j2 m2 | J M>`` of integer arguments, in the phase of Condon and Shortley."""
    # Edmonds, Eq. (3.7.3): the 3j symbol times the phase (-1)^(j1 - j2 + M) and sqrt(2J + 1).
    sign, square = exact_3j(j1, j2, J, m1, m2, -M)
    return float(Root((-1) ** abs(j1 - j2 + M) * sign, square * (2 * J + 1)))


def gaunt(l1: int, l2: int, l3: int, m1: int, m2: int, m3: int) -> float:
    """Return the integral of ``Y_l1m1 Y_l2m2 Y_l3m3`` over the sphere."""
    zero, rest = exact_3j(l1, l2, l3, 0, 0, 0), exact_3j(l1, l2, l3, m1, m2, m3)
    square = zero.square * rest.square * ((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1))
    return float(Root(zero.sign * rest.sign, square)) / math.sqrt(4.0 * math.pi)


@cache
def angular(L: int, lap: int, lbp: int, la: int, lb: int, l: int) -> float:
    """Return the coefficient A_l of ``r<^l / r>^(l+1)`` between ``(lap, lbp) L`` and ``(la, lb) L``.

    Parameters
    ----------
    L : int
        Total orbital angular momentum.
    lap, lbp : int
        Angular momenta of electrons 1 and 2 of the bra.
    la, lb : int
        Angular momenta of electrons 1 and 2 of the ket.
    l : int
        Multipole.

    Returns
    -------
    float
        Correctly rounded; zero where the selection rules say so.
    """
    # Both 3j symbols contain the parity rule: la + l + la' and lb + l + lb' must be even.
    first, second = exact_3j(lap, l, la, 0, 0, 0), exact_3j(lbp, l, lb, 0, 0, 0)
    coupling = exact_6j(L, lbp, lap, l, la, lb)
    if not triangle(lap, lbp, L) or not triangle(la, lb, L):
        return 0.0
    sign = (-1) ** (L + lb + lbp) * first.sign * second.sign * coupling.sign
    weight = (2 * lap + 1) * (2 * la + 1) * (2 * lbp + 1) * (2 * lb + 1)
    return float(Root(sign, first.square * second.square * coupling.square * weight))


def multipoles(L: int, bra: tuple[int, int], ket: tuple[int, int]) -> list[tuple[int, float]]:
    """Return the multipoles that couple two pairs, as ``(l, A_l)`` with A_l not zero, ascending in l."""
    lowest = max(abs(bra[0] - ket[0]), abs(bra[1] - ket[1]))
    highest = min(bra[0] + ket[0], bra[1] + ket[1])
    values = ((l, angular(L, *bra, *ket, l)) for l in range(lowest, highest + 1))
    return [(l, value) for l, value in values if value != 0.0]
