"""Effective cores with terms r^-2 and r^-1, as LANL2DZ has them: matrix elements are those of PySCF's integrals."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.qmc.system.pseudopotentials import Finite, from_ecp
from qsim.qmc.system.radial import KNOTS, Terms, evaluate

# LANL2DZ of Cl and I in the form of PySCF, channels in the order local, s, p (d of I is left out)
CHLORINE = (
    10,
    [
        (
            -1,
            [
                [],
                [(94.813, -10.0)],
                [(165.644, 66.272917), (30.8317, -28.968595), (10.5841, -12.866337), (3.7704, -1.710217)],
            ],
        ),
        (
            0,
            [
                [(128.8391, 3.0)],
                [(120.3786, 12.852851)],
                [(63.5622, 275.672398), (18.0695, 115.677712), (3.8142, 35.060609)],
            ],
        ),
        (
            1,
            [
                [(216.5263, 5.0)],
                [(46.5723, 7.479486)],
                [(147.4685, 613.032), (48.9869, 280.800685), (13.2096, 107.878824), (3.1831, 15.343956)],
            ],
        ),
    ],
)
IODINE = (
    46,
    [
        (
            -1,
            [
                [(1.0715702, -0.0747621)],
                [(44.1936028, -30.0811224)],
                [(12.9367609, -75.3722721), (3.1956412, -22.0563758), (0.8589806, -1.6979585)],
            ],
        ),
        (
            0,
            [
                [(127.920267, 2.9380036)],
                [(78.6211465, 41.2471267)],
                [(36.5146237, 287.8680095), (9.9065681, 114.3758506), (1.9420086, 37.6547714)],
            ],
        ),
        (
            1,
            [
                [(13.0035304, 2.222263)],
                [(76.0331404, 39.4090831)],
                [(24.1961684, 177.4075002), (6.4053433, 77.9889462), (1.5851786, 25.7547641)],
            ],
        ),
    ],
)
EXPONENTS = (0.7, 11.0)
#: PySCF 2.14.0, ``mol.intor("ECPscalar_sph")``: elements 11, 12, 22 of normalised Gaussians with these exponents, by l.
INTEGRALS = {
    ("Cl", 0): (7.88838307727, 26.0350600986, 147.931650108),
    ("Cl", 1): (1.00934908114, 4.12525665779, 57.5923450752),
    ("Cl", 2): (-0.0251912636608, -0.171366358454, -5.73890778906),
    ("I", 0): (10.8270754739, 27.0803050911, 148.879369965),
    ("I", 1): (3.21756866443, 5.27490664259, 60.1039883483),
    ("I", 3): (-0.308290307509, -0.404540731687, -24.1001087547),
}
CORES = {"Cl": (17, CHLORINE), "I": (53, IODINE)}


def gaussian(l, a, r):
    return math.sqrt(2 * (2 * a) ** (l + 1.5) / math.gamma(l + 1.5)) * r**l * np.exp(-a * r * r)


@pytest.mark.parametrize(("element", "l"), list(INTEGRALS))
def test_matrix_elements_are_those_of_pyscf(element, l):
    number, core = CORES[element]
    p = from_ecp(element, number, core)
    local, delta = p.tables(max(p.channels, l + 1))
    # Gauss-Legendre points in every interval of the tables
    x, w = np.polynomial.legendre.leggauss(12)
    half, middle = 0.5 * np.diff(KNOTS)[:, None], 0.5 * (KNOTS[1:] + KNOTS[:-1])[:, None]
    r, w = (middle + half * x).ravel(), (half * w).ravel()
    V = evaluate(local, r).value / r + evaluate(delta[l], r).value * (r < p.cutoff)
    a, b = (gaussian(l, e, r) for e in EXPONENTS)
    found = [float((f * g * V * r * r * w).sum()) for f, g in ((a, a), (a, b), (b, b))]
    # Next to the ion the curvature of the Gaussians is left out: (11 + 11) INNER^2 / 5 of the share of r^-2 there.
    assert_allclose(found, INTEGRALS[element, l], rtol=2e-6)


@pytest.mark.parametrize("l", [0, 2])
def test_integral_next_to_the_ion_is_exact(l):
    g = Terms.of([2.0, -3.0, 5.0], [0, 1, 2], 0.0, [10.0, 4.0, 1.0])
    f = Finite(g, l)
    x, w = np.polynomial.legendre.leggauss(40)
    r, w = 0.05 * (x + 1.0), 0.05 * w
    knot = 2.0**-8
    inside = 0.5 * knot * (x + 1.0)
    got = (f(inside).value * inside ** (2 * l + 2)) @ w
    assert_allclose(got, (g(inside).value * inside ** (2 * l)) @ w, rtol=1e-12)
    # Beyond it is the function itself, and derivatives are continuous.
    assert_allclose(f(r[r > knot]).value, (g(r).value / r**2)[r > knot], rtol=1e-14)
    below, above = f(np.array([knot * (1 - 1e-12)])), f(np.array([knot]))
    for a, b in zip(below, above, strict=True):
        assert_allclose(a, b, rtol=1e-9)
    h = 1e-6
    at = np.array([1e-3, 0.03])
    for jet, slope in ((f, 1), (f.times_r, 1)):
        assert_allclose((jet(at + h).value - jet(at - h).value) / (2 * h), jet(at)[slope], rtol=1e-4)
        assert_allclose((jet(at + h).slope - jet(at - h).slope) / (2 * h), jet(at)[2], rtol=1e-4)


def test_potentials_without_such_terms_stay_sums():
    p = from_ecp("C", 6, (2, [(-1, [[], [(14.4, 4.0)]]), (0, [[], [], [(7.7, 52.1)]])]))
    assert isinstance(p.local, Terms)
    assert isinstance(p.delta[0], Terms)
    # a coefficient of zero is no term
    zero = from_ecp("C", 6, (2, [(-1, [[(1.0, 0.0)], [(14.4, 4.0)]]), (0, [[], [], [(7.7, 52.1)]])]))
    assert isinstance(zero.local, Terms)
