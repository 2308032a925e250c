"""Radial grid, Sturmian functions and orbitals: references, closed forms, and every complaint."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import spherical_jn, spherical_yn

from qsim.core.errors import NumericsError
from qsim.sturmian.radial.coulomb import outgoing_logarithmic_derivative, steed
from qsim.sturmian.radial.grid import RadialGrid, contour_bounds, element_bounds, lobatto
from qsim.sturmian.radial.sturmians import numerical_rank, orbitals, sturmians

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "sturmian.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}


def of_kind(*kinds):
    return [name for name, entry in REFERENCES.items() if entry["kind"] in kinds]


def grid(R=24.0, Z=2, order=12, **keys):
    return RadialGrid(element_bounds(R, Z), order, **keys)


def yukawa(g, alpha):
    return np.exp(-alpha * g.r) / g.r


def coulomb_sturmian(n, ell, kappa, r):
    """S_nl of the generator 1/r, normalised to int S^2/r = 1, by the recurrence of the Laguerre polynomials."""
    a, x = 2 * ell + 1, 2 * kappa * r
    before, now = np.zeros_like(x), np.ones_like(x)
    for k in range(n - 1):
        before, now = now, ((2 * k + 1 + a - x) * now - (k + a) * before) / (k + 1)
    norm = (2 * kappa) ** (ell + 1) * math.sqrt(math.factorial(n - 1) / math.factorial(n + 2 * ell))
    return norm * r ** (ell + 1) * np.exp(-kappa * r) * now


def hydrogen(n, ell, Z, r):
    """P_nl, normalised to int P^2 = 1: a Coulomb-Sturmian of kappa = Z/n."""
    return coulomb_sturmian(n - ell, ell, Z / n, r) * np.sqrt(Z) / n


# --- grid -----------------------------------------------------------------------------------------


@given(n=st.integers(2, 40))
@settings(deadline=None)
def test_lobatto_is_exact(n):
    x, w, D = lobatto(n)
    assert x[0] == -1.0
    assert x[-1] == 1.0
    for power in range(min(2 * n - 2, 30)):
        assert w @ x**power == pytest.approx((1 + (-1) ** power) / (power + 1), abs=1e-13)
    degree = min(n - 1, 6)
    assert D @ x**degree == pytest.approx(degree * x ** (degree - 1), abs=1e-11)
    with pytest.raises(ValueError, match="at least 2"):
        lobatto(1)


@given(R=st.floats(0.1, 300), Z=st.floats(0.2, 20), share=st.floats(0.05, 0.95))
@settings(deadline=None)
def test_elements_fill_the_box(R, Z, share):
    bounds = element_bounds(R, Z)
    assert bounds[0] == 0.0
    assert bounds[-1] == R
    assert np.all(np.diff(bounds) > 0)
    assert np.diff(bounds)[0] <= 0.5 / max(Z, 1) * (1 + 1e-9)
    assert np.diff(bounds).max() <= 5.0 * (1 + 1e-9)
    broken = element_bounds(R, Z, breaks=[share * R])
    assert share * R in broken
    assert np.all(np.diff(broken) > 0)
    assert broken[-1] == R
    assert broken.size <= bounds.size + 1


@given(R=st.floats(1.0, 100), count=st.integers(1, 60), share=st.floats(0.05, 0.95))
@settings(deadline=None)
def test_elements_on_demand(R, count, share):
    assert element_bounds(R, 2, elements=count).size == count + 1
    assert element_bounds(R, 2, elements=count)[-1] == R
    assert share * R in element_bounds(R, 2, elements=count, breaks=[share * R])
    given_bounds = np.linspace(0, R, count + 1)
    assert np.array_equal(element_bounds(R, 2, elements=list(given_bounds)), given_bounds)
    assert np.array_equal(element_bounds(R, 2, elements=list(given_bounds[1:])), given_bounds)


def test_elements_are_refused():
    for keys, text in (
        ({"elements": 0}, "at least 1"),
        ({"elements": [0.0, 2.0, 1.0, 5.0]}, "ascend"),
        ({"elements": [0.0, 1.0]}, "end at R = 5"),
    ):
        with pytest.raises(ValueError, match=text):
            element_bounds(5.0, 1, **keys)
    with pytest.raises(ValueError, match="positive"):
        element_bounds(-1.0, 1)


def test_grid_block():
    from types import SimpleNamespace

    from qsim.sturmian.radial.grid import radial_grid

    block = SimpleNamespace(R="auto", order=10, elements="auto", ecs=SimpleNamespace(angle=0.3, length=12.0))
    g = radial_grid(block, 2, R=20.0, breaks=[7.0])
    assert g.R0 == 20.0
    assert abs(g.R - 20.0 - 12.0 * np.exp(0.3j)) < 1e-12
    assert 7.0 in g.bounds
    assert g.is_complex
    assert np.count_nonzero(g.is_real) == np.count_nonzero(g.r.imag == 0)
    block = SimpleNamespace(R=20.0, order=10, elements=5, ecs=None)
    assert radial_grid(block, 2).size == 5 * 9 - 1
    assert radial_grid(block, 2, keep_last=True).r[-1] == 20.0


@pytest.mark.parametrize("keep_last", [False, True])
@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_polynomials_are_represented_exactly(keep_last, angle):
    """u = r (r - R)^2 and its slope, anywhere on the contour."""
    bounds = np.array([0.0, 0.7, 2.0, 4.5])
    if angle:
        bounds = contour_bounds(bounds, angle, 3.0)
    g = RadialGrid(bounds, 6, keep_last=keep_last)
    u, slope = (lambda r: r * (r - g.R) ** 2), (lambda r: (r - g.R) * (3 * r - g.R))
    c = u(g.r) * np.sqrt(g.w)
    between = np.concatenate([a + (b - a) * np.linspace(0, 1, 7) for a, b in itertools.pairwise(bounds)])
    assert g.values(c, between) == pytest.approx(u(between), abs=1e-11)
    assert g.values(np.stack([c, 2 * c], axis=1), between) == pytest.approx(
        np.outer(u(between), [1, 2]), abs=1e-11
    )
    assert g.derivative(c) == pytest.approx(slope(g.r), abs=1e-11)
    # int u'^2 = 2/15 R^5
    assert 2 * c @ g.T @ c == pytest.approx(2 / 15 * g.R**5, rel=1e-12)
    assert c @ c == pytest.approx(g.R**7 / 105, rel=1e-12)
    with pytest.raises(ValueError, match="outside of the grid"):
        g.values(c, [-0.1])


@given(ell=st.integers(0, 4), Z=st.floats(0.8, 4.0))
@settings(deadline=None, max_examples=20)
def test_hydrogen_levels(ell, Z):
    g = RadialGrid(element_bounds(80 / Z, Z), 14)
    found = orbitals(g, ell, -Z / g.r)
    n = np.arange(ell + 1, ell + 3) if ell < 2 else np.array([ell + 1])
    n = n[n <= 3]  # the box cuts higher ones
    exact = -0.5 * Z**2 / n**2
    assert found.e[: n.size] == pytest.approx(exact, rel=1e-9)
    # variational up to quadrature; their means have no rounding of the eigenvalues, which is that of the largest one
    c = found.C[:, : n.size].astype(np.longdouble)
    H = g.T + np.diag(0.5 * ell * (ell + 1) / g.r**2 - Z / g.r)
    means = np.einsum("ik,ij,jk->k", c, H, c) / np.einsum("ik,ik->k", c, c)
    assert np.all(means >= exact * (1 + 1e-11))


def test_hydrogen_functions():
    g = grid(60.0, 1, 14)
    c = orbitals(g, 1, -1 / g.r).C
    r = np.linspace(0, 40, 301)
    exact = hydrogen(2, 1, 1, r)
    assert np.abs(g.values(c[:, 0], r)) == pytest.approx(np.abs(exact), abs=1e-8)
    assert np.abs(c.T @ c - np.eye(g.size)).max() < 1e-12


@pytest.mark.parametrize("name", of_kind("slater_integral", "slater_integral_complex"))
def test_slater_integrals(name):
    entry = REFERENCES[name]
    if name.startswith("slater_hyd"):
        g, ell = grid(60.0, 1, 14), int(name[-6])
        n = {"1s": (1, 0), "2s": (2, 0), "2p": (2, 1)}
        a, b = (hydrogen(*n[label], 1, g.r) for label in (name[-4:-2], name[-2:]))
        first, second = (a * b, a * b) if name[-7] == "G" else (a * a, b * b)
    else:
        g, ell = RadialGrid(element_bounds(60.0, 2, elements=26), 18), entry["lam"]
        given_kappa = entry["kappa"]
        functions = []
        for n, la, *label in entry["functions"]:
            kappa = given_kappa[label[0]] if label else given_kappa
            kappa = complex(*kappa) if isinstance(kappa, list) else kappa
            functions.append(coulomb_sturmian(n, la, kappa, g.r.astype(type(kappa))))
        first, second = functions[0] * functions[1], functions[2] * functions[3]
    value = entry["value"] if np.isscalar(entry["value"]) else complex(*entry["value"])
    scale = abs(value) if entry.get("tol_kind") == "relative" else 1.0
    integral = (g.w * first) @ g.poisson(ell) @ (g.w * second)
    assert abs(integral - value) < entry["tol"] * scale


@pytest.mark.parametrize("ell", range(5))
@pytest.mark.parametrize("angle", [0.0, 0.3])
@pytest.mark.parametrize("keep_last", [False, True])
def test_poisson_kernel_solves_its_integral(ell, angle, keep_last):
    """Against the closed integral of a polynomial density, on both kinds of grids, real and complex."""
    bounds = np.array([0.0, 0.5, 1.5, 3.0])
    if angle:
        bounds = contour_bounds(bounds, angle, 2.0)
    g = RadialGrid(bounds, 14, keep_last=keep_last)
    G, R = g.poisson(ell), g.R
    assert np.array_equal(G, G.T)
    p = ell + 2  # density r^p
    inner, outer = p + ell + 1, p - ell
    # without its last point, a grid knows densities only that vanish there
    density = g.r**p * (1.0 if keep_last else (R - g.r) ** 2)
    r = g.r
    if keep_last:
        exact = r ** (-ell - 1) * r**inner / inner + r**ell * (R**outer - r**outer) / outer
    else:
        terms = ((R**2, 0), (-2 * R, 1), (1, 2))
        exact = sum(
            f * (r ** (p + k) / (inner + k) + r**ell * (R ** (outer + k) - r ** (outer + k)) / (outer + k))
            for f, k in terms
        )
    assert np.abs(G @ (g.w * density) - exact).max() < 1e-11 * np.abs(exact).max()


# --- Coulomb waves ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ell", range(6))
@pytest.mark.parametrize("k", [0.3, 1.0, 2.5])
def test_free_waves_are_hankel_functions(ell, k):
    x = 7.0 * k
    h = spherical_jn(ell, x) + 1j * spherical_yn(ell, x)
    slope = spherical_jn(ell, x, True) + 1j * spherical_yn(ell, x, True)
    assert outgoing_logarithmic_derivative(ell, 0.5 * k * k, 0.0, 7.0) == pytest.approx(
        1 / 7.0 + k * slope / h, rel=1e-12
    )


@given(ell=st.integers(0, 5), eta=st.floats(-3, 3))
@settings(deadline=None, max_examples=20)
def test_coulomb_waves_solve_their_equation(ell, eta):
    """The fraction at two radii, and Riccati's equation between them."""

    def riccati(rho, f):
        return -(1 - 2 * eta / rho - ell * (ell + 1) / rho**2) - f * f

    start = steed(ell, eta, 30.0)
    path = solve_ivp(riccati, (30.0, 12.0), [start], rtol=1e-11, atol=1e-12, method="DOP853")
    assert path.y[0, -1] == pytest.approx(steed(ell, eta, 12.0), rel=1e-8)
    # the flux is that of a unit wave: Im f |H|^2 = 1, with |H| -> 1 far away
    assert steed(ell, eta, 2e4).imag == pytest.approx(1.0 - eta / 2e4, abs=1e-7)


@pytest.mark.parametrize(("n", "ell"), [(1, 0), (2, 1), (3, 2)])
def test_decaying_waves_are_bound_states(n, ell):
    Z, r = 2.0, 5.0
    assert outgoing_logarithmic_derivative(ell, -0.5 * (Z / n) ** 2, Z, r) == pytest.approx(
        (ell + 1) / r - Z / n, rel=1e-12
    )


def test_no_wave_at_the_origin():
    with pytest.raises(NumericsError, match="larger radius|cannot be computed"):
        steed(0, 1.0, 1e-9)


# --- Sturmian functions -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", of_kind("beta"))
def test_beta_references(name):
    entry = REFERENCES[name]
    g, Z, ell = RadialGrid(element_bounds(40.0, 2, elements=20), 16), entry["Z"], entry["l"]
    if "kappa" in entry:
        v, energy = 1 / g.r, -0.5 * entry["kappa"] ** 2
    else:
        v, energy = yukawa(g, entry["alpha"]), entry["E_sturmian"]
    found = sturmians(g, ell, -Z / g.r, energy, v, len(entry["value"]))
    assert found.beta == pytest.approx(entry["value"], abs=entry["tol"])
    assert found.orthogonality < 1e-12
    assert found.rank == len(entry["value"])
    assert np.all(found.c[0] > 0)
    assert np.all(np.diff(found.beta) > 0)


@pytest.mark.parametrize("name", of_kind("beta_complex"))
@pytest.mark.parametrize("contour", [False, True])
def test_outgoing_references(name, contour):
    entry = REFERENCES[name]
    Z, k, r0, exact = entry["Z"], entry["k"], entry["r0"], np.asarray(entry["value"]) @ [1, 1j]
    if contour:
        g = RadialGrid(contour_bounds(element_bounds(r0, 1), 0.3, 40.0), 14)
        v = np.where(g.is_real, 1.0, 0.0).astype(complex)
        node, share = g.share_below(r0)
        v[node] = share
    else:
        g = RadialGrid(element_bounds(r0, 1), 14, keep_last=True)
        v = np.ones(g.size)
    found = sturmians(g, entry["l"], -Z / g.r, 0.5 * k * k, v, exact.size, outgoing=True, charge=Z)
    assert np.abs(found.beta - exact).max() < (1e-8 if contour else 1e-12)
    assert found.orthogonality < 1e-12
    assert found.outgoing
    assert found.residual < 1e-9


def test_contour_does_not_matter():
    """Well with a tail along the contour: the angle of the contour drops out."""
    found = []
    for angle in (0.25, 0.4):
        g = RadialGrid(contour_bounds(element_bounds(12.0, 1), angle, 40.0), 16)
        v = np.where(g.is_real, 1.0, np.exp(-(g.r - 12.0) / 4.0))
        found.append(sturmians(g, 1, -1 / g.r, 1.0, v, 12, outgoing=True).beta)
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert np.all(np.diff(found[0].real) > 0)


def test_decaying_boundary_is_that_of_a_well():
    """Levels of a square well that ends at R: q cot(q R) = -kappa."""
    R, energy = 3.0, -0.5
    g = RadialGrid(element_bounds(R, 1), 16, keep_last=True)
    found = sturmians(g, 0, np.zeros(g.size), energy, np.ones(g.size), 5)

    def mismatch(q):
        return q * math.cos(q * R) + math.sin(q * R)  # kappa = 1

    for n, beta in enumerate(found.beta):
        q = brentq(mismatch, (n + 0.5) * math.pi / R, (n + 1) * math.pi / R, xtol=1e-15)
        assert beta == pytest.approx(0.5 * q * q - energy, rel=1e-12)


def test_overlap_reference():
    entry = REFERENCES["overlap_csf_l0"]
    g = RadialGrid(element_bounds(60.0, 2), 14)
    c = sturmians(g, entry["l"], -2 / g.r, -0.5 * entry["kappa"] ** 2, 1 / g.r, 5).c
    assert c.T @ c == pytest.approx(np.array(entry["value"]), abs=entry["tol"])
    r = np.linspace(0.0, 30.0, 200)
    for n in range(5):
        assert g.values(c[:, n], r) == pytest.approx(coulomb_sturmian(n + 1, 0, entry["kappa"], r), abs=1e-8)


@given(
    alpha=st.floats(0.1, 1.5),
    energy=st.floats(-1.8, -0.7),
    ell=st.integers(0, 4),
    N=st.integers(1, 40),
    kind=st.sampled_from(["yukawa", "exponential", "well"]),
)
@settings(deadline=None, max_examples=40)
def test_sturmians_are_orthogonal(alpha, energy, ell, N, kind):
    g = grid()
    decay = np.exp(-alpha * g.r)
    v = {"yukawa": decay / g.r, "exponential": decay, "well": np.where(g.r < 8, 1.0, 0.0)}[kind]
    found = sturmians(g, ell, -2 / g.r, energy, v, N)
    assert found.orthogonality < REFERENCES["gsf_orthogonality"]["tol"] * 1e-2
    assert found.residual < 1e-5
    assert np.all(np.diff(found.beta) > 0)
    # Sylvester: as many negative eigenvalues as levels of U below E
    levels = int(np.count_nonzero(orbitals(g, ell, -2 / g.r).e < energy))
    assert np.count_nonzero(found.beta < 0) == min(levels, N)
    more = sturmians(g, ell, -2 / g.r, energy, v, min(N + 3, 40))
    assert more.beta[:N] == pytest.approx(found.beta, rel=1e-9)


def test_orthogonality_of_many():
    g = grid()
    for ell in range(5):
        found = sturmians(g, ell, -2 / g.r, -0.9, yukawa(g, 0.6), 64)
        assert found.orthogonality < 1e-12
        assert found.rank == found.size == 64


# --- complaints of the functions --------------------------------------------------------------------


@pytest.mark.parametrize("energy", [-2.0, -0.5, -2.0 + 1e-8])
def test_energy_on_a_level(energy):
    g = RadialGrid(element_bounds(40.0, 2), 16)
    with pytest.raises(NumericsError, match="is the level -") as error:
        sturmians(g, 0, -2 / g.r, energy, yukawa(g, 0.6), 10)
    assert "energy: auto" in error.value.hint


def test_too_many_functions():
    g = grid()
    with pytest.raises(NumericsError, match="do not fit into a radial grid of 164"):
        sturmians(g, 0, -2 / g.r, -0.9, yukawa(g, 0.6), 200)
    with pytest.raises(NumericsError, match=r"only \d+ of 120 .* l = 0 are independent"):
        sturmians(g, 0, -2 / g.r, -0.9, yukawa(g, 6.0), 120)
    with pytest.raises(NumericsError, match="are independent"):
        sturmians(g, 0, -2 / g.r, -0.9, np.where(g.r < 0.4, 1.0, 0.0), 40)


def test_boundary_and_energy_must_agree():
    g = grid()
    contour = RadialGrid(contour_bounds(element_bounds(10.0, 1), 0.3, 10.0), 8)
    for where, energy, outgoing, text in (
        (g, 0.5, False, "need a negative energy"),
        (contour, -0.5, True, "need a positive energy"),
        (g, 0.5, True, "need a complex contour"),
    ):
        with pytest.raises(NumericsError, match=text):
            sturmians(where, 0, -1 / where.r, energy, np.ones(where.size), 3, outgoing=outgoing)


def test_unusable_generators():
    g = grid()
    for v, text in (
        (np.zeros(g.size), "zero everywhere"),
        (np.full(g.size, np.nan), "not finite"),
        (np.cos(g.r), "negative at r ="),
    ):
        with pytest.raises(NumericsError, match=text):
            sturmians(g, 0, -2 / g.r, -0.9, v, 3)


# --- orbitals -----------------------------------------------------------------------------------------


@given(ell=st.integers(0, 3), N=st.integers(2, 30))
@settings(deadline=None, max_examples=20)
def test_orbitals_span_the_sturmians(ell, N):
    g = grid()
    V = -2 / g.r
    c = sturmians(g, ell, V, -0.9, yukawa(g, 0.6), N).c
    found, whole = orbitals(g, ell, V, c), orbitals(g, ell, V)
    assert found.C.shape == (g.size, N)
    assert np.abs(found.C.T @ found.C - np.eye(N)).max() < 1e-12
    assert np.abs(c - found.C @ (found.C.T @ c)).max() < 1e-10 * np.abs(c).max()
    h = g.kinetic(ell) + np.diag(V)
    assert np.abs(found.C.T @ h @ found.C - np.diag(found.e)).max() < 1e-8 * abs(found.e[-1])
    assert np.all(found.e >= whole.e[:N] - 1e-9)  # a part of the space cannot lie lower
    assert found.size == N


def test_orbitals_drop_what_is_no_new_function():
    g = grid()
    c = sturmians(g, 0, -2 / g.r, -0.9, yukawa(g, 0.6), 6).c
    doubled = np.concatenate((c, c[:, :3] * 7.0, (c[:, 0] + c[:, 1])[:, None]), axis=1)
    assert numerical_rank(doubled) == 6
    assert orbitals(g, 0, -2 / g.r, doubled).size == 6
    assert orbitals(g, 0, -2 / g.r, doubled).e == pytest.approx(orbitals(g, 0, -2 / g.r, c).e, rel=1e-10)


@pytest.mark.parametrize("count", [3000, 70_000])
def test_many_elements_overflow_nothing(count):
    bounds = element_bounds(40.0, 2.0, elements=count)
    assert bounds.size == count + 1
    assert np.all(np.diff(bounds) > 0.0)
    assert bounds[-1] == 40.0
