"""Angular coefficients: references, an algebra that shares nothing with the 3j and 6j symbols, and symmetries."""

import itertools
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lpmv

from qsim.sturmian.deck import symmetry
from qsim.sturmian.two_electron import angular as algebra

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "sturmian.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
COEFFICIENTS = [name for name, entry in REFERENCES.items() if entry["kind"] == "angular_coefficient"]
GAUNTS = [name for name, entry in REFERENCES.items() if entry["kind"] == "gaunt"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
momenta = st.integers(0, 8)


@cache
def harmonic(ell, m):
    """Y_lm at phi = 0 on the Gauss-Legendre nodes, in the phase of Condon and Shortley."""
    norm = math.sqrt(
        (2 * ell + 1) / (4 * math.pi) * math.factorial(ell - abs(m)) / math.factorial(ell + abs(m))
    )
    value = norm * lpmv(abs(m), ell, NODES)
    return value if m >= 0 else (-1) ** m * value


@cache
def integral(*lm):
    """Integral of spherical harmonics over the sphere, by quadrature."""
    if sum(m for _, m in lm):
        return 0.0
    return 2 * math.pi * np.sum(WEIGHTS * np.prod([harmonic(ell, m) for ell, m in lm], axis=0))


@cache
def coupled(la, lb, L):
    """Coefficients of the coupled state with M = L on the states m1 + m2 = L: an eigenvector of L^2, no formula."""
    m1 = [m for m in range(-la, la + 1) if abs(L - m) <= lb]
    square = np.diag([la * (la + 1) + lb * (lb + 1) + 2.0 * m * (L - m) for m in m1])
    for k, m in enumerate(m1[:-1]):  # raise the first, lower the second
        n = L - m
        square[k, k + 1] = square[k + 1, k] = math.sqrt(
            (la * (la + 1) - m * (m + 1)) * (lb * (lb + 1) - n * (n - 1))
        )
    values, vectors = np.linalg.eigh(square)
    vector = vectors[:, np.argmin(np.abs(values - L * (L + 1)))]
    return dict(zip(m1, vector if vector[-1] > 0 else -vector, strict=True))


def by_quadrature(L, lap, lbp, la, lb, ell):
    """Eq. (16) times 4 pi/(2l+1), from eigenvectors of L^2 and integrals over three harmonics."""
    total = 0.0
    for map_, left in coupled(lap, lbp, L).items():
        for ma, right in coupled(la, lb, L).items():
            m = map_ - ma  # of Y_lm on the first, its conjugate acts on the second
            if abs(m) > ell:
                continue
            first = (-1) ** map_ * integral((lap, -map_), (ell, m), (la, ma))
            second = (-1) ** (L - map_ + m) * integral((lbp, map_ - L), (ell, -m), (lb, L - ma))
            total += left * right * first * second
    return 4 * math.pi / (2 * ell + 1) * total


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_references(name):
    entry = REFERENCES[name]
    value = algebra.angular(entry["L"], *entry["bra"], *entry["ket"], entry["l"])
    assert value == pytest.approx(entry["value"], abs=entry["tol"])


@pytest.mark.parametrize("name", GAUNTS)
def test_gaunt_references(name):
    entry = REFERENCES[name]
    value = algebra.gaunt(*entry["l"], *entry["m"])
    assert value == pytest.approx(entry["value"], abs=entry["tol"])
    assert value == pytest.approx(integral(*zip(entry["l"], entry["m"], strict=True)), abs=1e-13)


@pytest.mark.parametrize("L", range(4))
def test_second_algebra(L):
    pairs = [(a, b) for a in range(4) for b in range(4) if symmetry.triangle(a, b, L)]
    compared = 0
    for bra in pairs:
        for ket in pairs:
            for ell in range(7):
                value = algebra.angular(L, *bra, *ket, ell)
                assert value == pytest.approx(by_quadrature(L, *bra, *ket, ell), abs=1e-12), (bra, ket, ell)
                compared += value != 0
    assert compared >= 30


def test_legendre_integrals():
    """(a b c; 000)^2 is half the integral of three Legendre polynomials."""
    for a in range(9):
        for b in range(9):
            for c in range(9):
                expected = 0.5 * np.sum(WEIGHTS * lpmv(0, a, NODES) * lpmv(0, b, NODES) * lpmv(0, c, NODES))
                assert algebra.wigner_3j(a, b, c, 0, 0, 0) ** 2 == pytest.approx(expected, abs=1e-13)


@given(la=momenta, lb=momenta, lap=momenta, lbp=momenta, L=momenta, ell=momenta)
@settings(max_examples=300, deadline=None)
def test_symmetries(la, lb, lap, lbp, L, ell):
    value = algebra.angular(L, lap, lbp, la, lb, ell)
    assert algebra.angular(L, la, lb, lap, lbp, ell) == value
    assert algebra.angular(L, lbp, lap, lb, la, ell) == (-1) ** (la + lb + lap + lbp) * value
    assert abs(value) <= 1.0 + 1e-12  # |P_l| <= 1
    if value:
        assert symmetry.triangle(la, lb, L)
        assert symmetry.triangle(lap, lbp, L)
        assert (la + lb + lap + lbp) % 2 == 0


@given(la=momenta, lb=momenta, lap=momenta, lbp=momenta, L=momenta)
@settings(max_examples=100, deadline=None)
def test_monopole_and_selected_multipoles(la, lb, lap, lbp, L):
    expected = float((la, lb) == (lap, lbp) and symmetry.triangle(la, lb, L))
    assert algebra.angular(L, lap, lbp, la, lb, 0) == expected
    found = algebra.multipoles(L, (lap, lbp), (la, lb))
    assert found == [(ell, a) for ell in range(20) if (a := algebra.angular(L, lap, lbp, la, lb, ell)) != 0]


@pytest.mark.parametrize("L", range(4))
def test_pairs_of_a_complete_set_resolve_the_identity(L):
    """P_l of the angle between the electrons, squared, is 1/(2l+1) sums of P_k: a check across intermediate pairs."""
    start = (1, L + 1)
    between = [(a, b) for a in range(4) for b in range(L + 5) if symmetry.triangle(a, b, L)]
    for ell in (1, 2):
        squared = sum(algebra.angular(L, *start, *pair, ell) ** 2 for pair in between)
        product = sum(
            (2 * k + 1) * algebra.wigner_3j(ell, ell, k, 0, 0, 0) ** 2 * algebra.angular(L, *start, *start, k)
            for k in range(2 * ell + 1)
        )
        assert squared == pytest.approx(product, abs=1e-13)


@given(a=momenta, b=momenta, d=momenta, e=momenta, f=momenta, g=momenta)
@settings(max_examples=100, deadline=None)
def test_6j_are_orthogonal(a, b, d, e, f, g):
    total = sum(
        (2 * c + 1) * algebra.wigner_6j(a, b, c, d, e, f) * algebra.wigner_6j(a, b, c, d, e, g)
        for c in range(17)
    )
    allowed = symmetry.triangle(a, e, f) and symmetry.triangle(d, b, f)
    assert (2 * f + 1) * total == pytest.approx(float(f == g and allowed), abs=1e-12)


@given(j1=momenta, j2=momenta, m1=st.integers(-8, 8), m2=st.integers(-8, 8))
@settings(max_examples=100, deadline=None)
def test_clebsch_gordan_are_complete(j1, j2, m1, m2):
    total = sum(algebra.clebsch_gordan(j1, j2, J, m1, m2, m1 + m2) ** 2 for J in range(17))
    assert total == pytest.approx(float(abs(m1) <= j1 and abs(m2) <= j2), abs=1e-13)


def test_roots_are_rounded_once():
    from fractions import Fraction

    for square, expected in ((Fraction(2), math.sqrt(2)), (Fraction(1, 9), 1 / 3), (Fraction(4), 2.0)):
        assert float(algebra.Root(1, square)) == expected
        assert float(algebra.Root(-1, square)) == -expected
    assert float(algebra.Root(1, Fraction(1, 10**400))) == 1e-200
    assert float(algebra.NOTHING) == 0.0


def test_large_momenta_stay_exact():
    """Sums of alternating terms that a double could not hold."""
    assert algebra.angular(0, 40, 40, 40, 40, 0) == 1.0
    nodes, weights = np.polynomial.legendre.leggauss(100)
    expected = 0.5 * 81 * np.sum(weights * lpmv(0, 40, nodes) ** 2 * lpmv(0, 6, nodes))
    assert algebra.angular(0, 40, 40, 40, 40, 6) == pytest.approx(expected, rel=1e-11)


# --- pairs ----------------------------------------------------------------------------------------


def test_pairs():
    assert symmetry.pairs(0, 3) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert symmetry.pairs(1, 3) == [(0, 1), (1, 2), (2, 3)]
    assert symmetry.pairs(2, 2) == [(0, 2), (1, 1), (2, 2)]
    assert symmetry.pairs(1, 2, parity="even", S=1) == [(1, 1), (2, 2)]
    assert (
        symmetry.pairs(1, 2, parity="odd") == symmetry.pairs(1, 2, parity="natural") == symmetry.pairs(1, 2)
    )
    assert symmetry.pairs(1, 2, parity="unnatural") == symmetry.pairs(1, 2, parity="even")
    assert symmetry.pairs(2, 3, parity="unnatural") == [(1, 2), (2, 3)]
    assert symmetry.pairs(3, 1) == []
    assert symmetry.pairs(0, 4, parity="odd") == symmetry.pairs(0, 4, parity="unnatural") == []
    with pytest.raises(ValueError, match="S = 0 or 1"):
        symmetry.pairs(0, 1, S=2)


@given(L=st.integers(0, 6), l_max=st.integers(0, 10), parity=st.sampled_from([None, "even", "odd"]))
def test_pairs_are_all_there(L, l_max, parity):
    found = symmetry.pairs(L, l_max, parity=parity)
    assert len(set(found)) == len(found)
    for la in range(l_max + 1):
        for lb in range(la, l_max + 1):
            assert ((la, lb) in found) == symmetry.allowed(L, la, lb, parity)
    assert all(sum(p) <= sum(q) for p, q in itertools.pairwise(found))


@given(la=momenta, lb=momenta, L=momenta, S=st.integers(0, 1))
def test_exchange_sign(la, lb, L, S):
    assert symmetry.exchange_sign(la, lb, L, S) == (-1.0) ** (la + lb - L + S)
    assert symmetry.exchange_sign(la, lb, L, S) == -symmetry.exchange_sign(la, lb, L, 1 - S)
