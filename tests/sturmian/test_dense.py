"""The dense route: integrals against 60-digit values, both routes for them, energies, complex symmetric factors."""

import json
from math import lgamma
from pathlib import Path

import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.core.errors import NumericsError
from qsim.core.results.tables import match_tables
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.sturmian.linalg import ldlt
from qsim.sturmian.radial import sturmians as gsf
from qsim.sturmian.radial.grid import RadialGrid, contour_bounds, element_bounds
from qsim.sturmian.two_electron import davidson, dense, integrals
from qsim.sturmian.two_electron.dense import Field, Symmetry
from qsim.sturmian.two_electron.hamiltonian import TwoElectron

output = Method("sturmian")

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "sturmian.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
CPU = cpu(1)
KAPPA = 1.7
# Elements that grow outwards: 18 of 20 points resolve twenty functions of kappa = 1.7 to 1e-12
WIDE = RadialGrid(60.0 * np.linspace(0.0, 1.0, 19) ** 1.6, 20)
HELIUM = RadialGrid(element_bounds(24.0, 2.0), 12)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def ids(prefix):
    return [name for name in REFERENCES if name.startswith(prefix)]


def coulomb_sturmians(N, l, kappa, r):
    """Return S_1 .. S_N at r, ``int S 1/r S dr = 1``, Laguerre polynomials by recurrence: (points, N)."""
    x, a = 2.0 * kappa * r, 2 * l + 1
    L = [np.ones_like(x), 1.0 + a - x]
    for n in range(1, N - 1):
        L.append(((2 * n + 1 + a - x) * L[n] - (n + a) * L[n - 1]) / (n + 1))
    factors = [
        np.exp((l + 1) * np.log(2.0 * kappa) + 0.5 * (lgamma(n) - lgamma(n + 2 * l + 1)))
        for n in range(1, N + 1)
    ]
    return (
        np.stack([f * p for f, p in zip(factors, L, strict=False)], axis=1)
        * (r ** (l + 1) * np.exp(-kappa * r))[:, None]
    )


def coefficients(grid, N, l, kappa=KAPPA):
    return coulomb_sturmians(N, l, kappa, grid.r) * np.sqrt(grid.w)[:, None]


def one(grid, n, l, kappa):
    return coefficients(grid, max(n, 2), l, kappa)[:, n - 1 : n]


def sizes(l, *functions):
    """Return the largest integral of the functions' absolute values: rounding is relative to it, whatever cancels."""
    return integrals.repulsion_gemm(WIDE, l, *map(abs, functions), device=CPU).max()


def yukawa(l, N, grid=HELIUM, Z=2.0, E=-0.9, alpha=0.6):
    return gsf.sturmians(grid, l, -Z / grid.r, E, np.exp(-alpha * grid.r) / grid.r, N)


# ---------------------------------------------------------------------------------------- integrals


@pytest.mark.parametrize("name", ids("slater_csf"))
def test_slater_integrals(device, name):
    entry = REFERENCES[name]
    if name.startswith("slater_csf_mixed"):
        kappas = {key: complex(*value) if key == "c" else value for key, value in entry["kappa"].items()}
        parts = [one(WIDE, n, l, kappas[key]) for n, l, key in entry["functions"]]
    else:
        kappa = entry["kappa"]
        kappa = complex(*kappa) if isinstance(kappa, list) else kappa
        parts = [one(WIDE, n, l, kappa) for n, l in entry["functions"]]
    want = complex(*entry["value"]) if isinstance(entry["value"], list) else entry["value"]
    got = device.to_host(integrals.repulsion_gemm(WIDE, entry["lam"], *parts, device=device))
    assert got.shape == (1, 1)
    assert abs(got[0, 0] - want) < entry["tol"] * abs(want)


@pytest.mark.parametrize("kappa", [KAPPA, 0.8 - 0.6j])
@pytest.mark.parametrize("l", [0, 2])
def test_both_ways_to_symmetry_agree(device, l, kappa):
    """Packed pairs and a root of the kernel against all products."""
    c, d = coefficients(WIDE, 6, 1, kappa), coefficients(WIDE, 4, 0, kappa)
    for functions in ((c, c, c, c), (c, c, d, d), (c, d, c, d), (d, c, c, c)):
        whole = integrals.repulsion_gemm(WIDE, l, *functions, device=device, symmetric=False)
        fast = integrals.repulsion_gemm(WIDE, l, *functions, device=device)
        assert float(abs(whole - fast).max()) < 1e-13 * sizes(l, *functions)


def test_symmetries_of_the_integrals(device):
    c = coefficients(WIDE, 5, 0, 0.8 - 0.6j)
    R = device.to_host(integrals.repulsion_gemm(WIDE, 1, c, c, c, c, device=device, symmetric=False))
    R = R.reshape(5, 5, 5, 5)  # a', a, b', b
    for axes in ((1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)):
        assert abs(R - R.transpose(axes)).max() < 1e-14 * sizes(1, c, c, c, c)
    assert abs(R - R.conj()).max() > 0.1 * abs(R).max()  # nothing is conjugated


def test_order_of_the_two_electron_matrix(device):
    """Rows (a', b') and columns (a, b), as the Kronecker products."""
    a1, a0, b1, b0 = (coefficients(WIDE, n, 0)[:, -m:] for n, m in ((3, 2), (4, 3), (5, 4), (6, 5)))
    pairs = integrals.repulsion_pairs(device, integrals.repulsion_kernel(WIDE, 0), (a1, a0, b1, b0))
    four = device.to_host(pairs.expand()).reshape(2, 4, 3, 5)
    rho = np.einsum("in,im->inm", a1, a0), np.einsum("in,im->inm", b1, b0)
    want = np.einsum("iac,ij,jbd->abcd", rho[0], WIDE.poisson(0), rho[1])
    np.testing.assert_allclose(four, want, rtol=1e-12, atol=1e-13)
    twice = pairs.expand(pairs.expand(), factor=2.0, accumulate=True)
    np.testing.assert_allclose(device.to_host(twice).reshape(want.shape), 3.0 * want, rtol=1e-12, atol=1e-13)


def test_kernels_of_several_multipoles_are_summed():
    c = coefficients(WIDE, 4, 1)
    parts = {0: 0.3, 2: -1.2}
    total = integrals.repulsion_gemm(WIDE, parts, c, c, c, c, device=CPU)
    want = sum(A * integrals.repulsion_gemm(WIDE, l, c, c, c, c, device=CPU) for l, A in parts.items())
    np.testing.assert_allclose(total, want, rtol=0, atol=1e-12 * abs(want).max())


def test_overlaps():
    entry = REFERENCES["overlap_csf_l0"]
    c = coefficients(WIDE, 5, 0, entry["kappa"])
    np.testing.assert_allclose(integrals.overlap(c, c), entry["value"], rtol=0, atol=entry["tol"])
    inverse = integrals.potential_matrix(c, 1.0 / WIDE.r, c)
    np.testing.assert_allclose(inverse, np.eye(5), rtol=0, atol=1e-11)


def test_kronecker_products(device):
    generator = np.random.default_rng(0)
    A, B = generator.standard_normal((3, 4)), generator.standard_normal((2, 5))
    out = integrals.kronecker(device.asarray(A), device.asarray(B))
    np.testing.assert_allclose(device.to_host(out), np.kron(A, B), rtol=1e-15)
    integrals.kronecker(device.asarray(A), device.asarray(B), out, accumulate=True)
    np.testing.assert_allclose(device.to_host(out), 2.0 * np.kron(A, B), rtol=1e-15)


@pytest.mark.parametrize("N", [4, 16, 24])
def test_rank_of_coulomb_sturmian_pairs(N):
    """Products of N functions are polynomials of degree 2N times one exponential: 2N - 1 independent ones."""
    c = coefficients(WIDE, N, 0)
    ranks, values = integrals.repulsion_rank(WIDE, 0, c, c)
    assert ranks[1e-12] == 2 * N - 1
    assert values[0] == 1.0
    assert np.all(np.diff(values) <= 0.0)


# ---------------------------------------------------------------------------------- the paper's quadrature


def simpson(device, functions, kinds, l, Nq, Ns, R=60.0):
    points = integrals.quadrature(Nq, Ns, R)
    samples = {f: integrals.sample(f, points, device, kinds) for f in set(functions)}
    return device.to_host(
        integrals.repulsion_simpson(tuple(samples[f] for f in functions), points, l, device=device)
    )


@pytest.mark.parametrize(("kappa", "kind"), [(KAPPA, float), (0.8 - 0.6j, complex)])
@pytest.mark.parametrize("l", [0, 1, 2])
def test_quadrature_agrees_with_products(device, l, kappa, kind):
    """Within the error of the paper's own choice, Nq = 256 and Ns = 9: 2e-8 at worst."""

    def first(r):
        return coulomb_sturmians(5, 1, kappa, r)

    def second(r):
        return coulomb_sturmians(4, 1, kappa, r)

    root = np.sqrt(WIDE.w)[:, None]
    c, d = first(WIDE.r) * root, second(WIDE.r) * root
    pairs = integrals.repulsion_pairs(CPU, integrals.repulsion_kernel(WIDE, l), (c, d, d, c))
    want = pairs.expand()
    got = simpson(device, (first, second, second, first), kind, l, 256, 9)
    assert abs(got - want).max() < 2e-8 * abs(want).max()


def test_order_of_simpsons_rule():
    """Halving the inner step divides the error by 16; the outer rule is exact to far below it."""

    def functions(r):
        return coulomb_sturmians(2, 0, KAPPA, r)

    c = functions(WIDE.r) * np.sqrt(WIDE.w)[:, None]
    want = integrals.repulsion_pairs(CPU, integrals.repulsion_kernel(WIDE, 1), (c, c, c, c)).expand()
    errors = [abs(simpson(CPU, (functions,) * 4, float, 1, 128, Ns) - want).max() for Ns in (3, 5, 9)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(abs(orders - 4.0) < 0.3)


def test_quadrature_needs_odd_points():
    for Ns in (1, 4):
        with pytest.raises(ValueError, match="odd"):
            integrals.quadrature(16, Ns, 10.0)


# ------------------------------------------------------------------------------------------- energies


@pytest.mark.parametrize(
    "name", [name for name in ids("He_gsf") if REFERENCES[name]["N"] <= (16 if "lmax4" not in name else 8)]
)
@pytest.mark.parametrize("generalised", [False, True])
def test_helium_energies(device, name, generalised):
    entry = REFERENCES[name]
    pairs = [(l, l) for l in range(entry["lmax"] + 1)]
    functions = {l: yukawa(l, entry["N"]) for l, _ in pairs}
    V = -2.0 / HELIUM.r
    v = np.exp(-0.6 * HELIUM.r) / HELIUM.r
    energies, _, info = dense.solve(
        Field(HELIUM, V, v, V), functions, Symmetry(0, 0, pairs), 1, device, generalised=generalised
    )
    assert abs(energies[0] - entry["value"]) < entry["tol"]
    assert info["unknowns"] == len(pairs) * entry["N"] * (entry["N"] + 1) // 2


@pytest.mark.parametrize(
    ("L", "S", "pairs"),
    [
        (0, 0, [(0, 0), (1, 1), (2, 2)]),
        (0, 1, [(0, 0), (1, 1)]),
        (1, 0, [(0, 1), (1, 2)]),
        (1, 1, [(0, 1), (1, 2), (2, 3)]),
        (1, 1, [(1, 1), (2, 2)]),
        (2, 0, [(0, 2), (1, 1), (1, 3), (2, 2)]),
        (2, 1, [(0, 2), (1, 1), (1, 3), (2, 2)]),
    ],
)
def test_dense_states_are_those_of_the_matrix_free_operator(device, L, S, pairs):
    grid = RadialGrid(element_bounds(30.0, 2.0), 10)
    V = -2.0 / grid.r
    ls = sorted({l for pair in pairs for l in pair})
    functions = {l: yukawa(l, 7 + l % 2, grid, E=-0.6, alpha=0.3) for l in ls}
    energies, vectors, info = dense.solve(Field(grid, V), functions, Symmetry(L, S, pairs), 3, device)
    orbitals = {l: gsf.orbitals(grid, l, V, functions[l].c) for l in ls}
    operator = TwoElectron(device, grid, orbitals, L, S, pairs)
    found = davidson.lowest(operator, 3, tolerance=1e-9)
    np.testing.assert_allclose(energies, found.values[:3], rtol=0, atol=1e-10)
    assert info["unknowns"] == operator.size
    # The vectors, in the orbitals of the operator, are its eigenvectors, of norm one in its norm.
    x = np.zeros((3, *operator.shape))
    for k, parts in enumerate(vectors):
        for p, ((la, lb), X) in enumerate(zip(pairs, parts, strict=True)):
            part = (orbitals[la].C.T @ functions[la].c) @ X @ (orbitals[lb].C.T @ functions[lb].c).T
            x[k, p, : part.shape[0], : part.shape[1]] = part
    np.testing.assert_allclose((x**2).sum(axis=(1, 2, 3)), 1.0, rtol=1e-9)
    residual = device.to_host(operator.apply(device.asarray(x))) - energies[:, None, None, None] * x
    assert np.sqrt((residual**2).sum(axis=(1, 2, 3))).max() < 1e-8


def test_auxiliary_potential_that_is_not_the_hamiltonians():
    """Eq. (12) with <V - U>: functions of U = -1.3/r in a Hamiltonian with V = -2/r."""
    grid, Z = HELIUM, 1.3
    V, U, v = -2.0 / grid.r, -Z / grid.r, np.exp(-0.6 * grid.r) / grid.r
    functions = gsf.sturmians(grid, 1, U, -0.9, v, 9)
    by_equation = dense.one_electron(grid, V, functions, v, U)
    by_grid = dense.one_electron(grid, V, functions)
    np.testing.assert_allclose(by_equation.h, by_grid.h, rtol=0, atol=1e-10 * abs(by_grid.h).max())
    assert abs(dense.one_electron(grid, V, functions, v).h - by_grid.h).max() > 0.1  # without that term


def test_dependent_functions_are_refused():
    functions = yukawa(0, 5)
    doubled = gsf.Sturmians(
        0, -0.9, np.repeat(functions.beta, 2), np.repeat(functions.c, 2, axis=1), 0.0, 5, 0.0
    )
    with pytest.raises(NumericsError, match="only 5 of 10"):
        dense.solve(Field(HELIUM, -2.0 / HELIUM.r), {0: doubled}, Symmetry(0, 0, [(0, 0)]), 1, CPU)


def test_too_many_states_are_refused():
    with pytest.raises(NumericsError, match="3 functions only"):
        dense.solve(Field(HELIUM, -2.0 / HELIUM.r), {0: yukawa(0, 3)}, Symmetry(0, 1, [(0, 0)]), 4, CPU)


# --------------------------------------------------------------------------- complex symmetric factors


def symmetric(n, kind, seed=0):
    generator = np.random.default_rng([seed, n])
    A = generator.standard_normal((n, n))
    A = A + 1j * generator.standard_normal((n, n)) if kind is complex else A
    return A + A.T + 4.0 * np.sqrt(n) * np.eye(n)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize(("n", "block"), [(1, None), (31, None), (64, 8), (65, 8), (97, 16), (200, None)])
def test_factors_solve(device, n, block, kind):
    A = symmetric(n, kind)
    generator = np.random.default_rng(n)
    b = generator.standard_normal((n, 3))
    on_device = device.asarray(A)
    factors = ldlt.factor(on_device, block)
    x, info = ldlt.solve(on_device, device.asarray(b), factors)
    want = np.linalg.solve(A, b)
    np.testing.assert_allclose(device.to_host(x), want, rtol=0, atol=1e-12 * abs(want).max())
    assert info["backward_error"] < 1e-14
    np.testing.assert_array_equal(device.to_host(on_device), A)  # not overwritten
    single, _ = ldlt.solve(on_device, device.asarray(b[:, 0]), factors)
    np.testing.assert_allclose(device.to_host(single), want[:, 0], rtol=0, atol=1e-12 * abs(want).max())


def test_only_the_lower_blocks_are_read():
    A = symmetric(50, complex)
    garbled = A.copy()
    for lo in range(0, 50, 8):
        garbled[lo : lo + 8, lo + 8 :] = np.nan
    x, _ = ldlt.solve(A, np.ones(50), ldlt.factor(garbled, 8))
    np.testing.assert_allclose(A @ x, np.ones(50), rtol=1e-11)


def test_growth_is_refused():
    A = symmetric(24, float)
    A[:8, :8] = 1e-13 * np.eye(8)  # a leading block that only an exchange of rows would get past
    with pytest.raises(NumericsError, match="breaks down"):
        ldlt.factor(A, 8)
    x, _ = ldlt.solve(A, np.ones(24), ldlt.factor(A, 24))
    np.testing.assert_allclose(A @ x, np.ones(24), rtol=1e-10)
    A[:8, :8] = 0.0
    with pytest.raises(NumericsError, match="singular"):
        ldlt.factor(A, 8)


def test_roots_of_kernels():
    turned = RadialGrid(contour_bounds(element_bounds(10.0, 1.0), 0.3, 8.0), 8)
    for grid in (WIDE, turned):
        K = grid.poisson(1)
        Q = ldlt.symmetric_root(K)
        assert Q is not None
        assert abs(Q @ Q.T - K).max() < 1e-12 * abs(K).max()
    assert ldlt.symmetric_root(np.diag([1.0, -1.0])) is None


def test_outgoing_hamiltonian_is_solved_without_exchanges():
    """The matrix of the driven equation in outgoing functions on a contour: complex symmetric, indefinite."""
    grid = RadialGrid(contour_bounds(element_bounds(15.0, 1.0), 0.3, 15.0), 9)
    V = -1.0 / grid.r
    well = np.where(grid.is_real, 1.0, np.exp(-(grid.r - grid.R0) / 4.0))
    functions = gsf.sturmians(grid, 0, V, 0.5, well, 10, outgoing=True, charge=1.0)
    part = dense.one_electron(grid, V, functions, well, V)
    by_grid = dense.one_electron(grid, V, functions)
    np.testing.assert_allclose(part.h, by_grid.h, rtol=0, atol=1e-8 * abs(by_grid.h).max())
    made = dense.assemble(CPU, grid, {0: part}, dense.Symmetry(0, 0, [(0, 0)]))
    A = made.H - 1.0 * made.S
    np.testing.assert_allclose(A, A.T, rtol=0, atol=1e-12 * abs(A).max())
    b = np.ones(len(A))
    x, info = ldlt.solve(A, b, ldlt.factor(A, 16))
    assert info["backward_error"] < 1e-13
    want = np.linalg.solve(A, b)
    assert abs(x - want).max() < 1e-16 * np.linalg.cond(A) * 100 * abs(want).max()


# ------------------------------------------------------------------------------------ tasks of a deck

DECK = """
method: sturmian
title: a small basis
system: {{Z: 2}}
grid: {{R: 20, order: 14}}
basis: {{type: gsf, generating: {{type: yukawa, alpha: 0.6}}, energy: -0.9, N: 8}}
{rest}
"""


def run(tmp_path, rest, device=CPU):
    path = tmp_path / "deck.yaml"
    path.write_text(DECK.format(rest=rest), encoding="utf-8")
    loaded = load_deck(path, stage("sturmian", "deck").DECK)
    loaded.raise_for(stage("sturmian", "build").plan(loaded).findings)
    problem = stage("sturmian", "build").build(loaded, device)
    return stage("sturmian", "run").run(problem, Monitor.silent())


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_task_of_integrals(tmp_path, device, kind):
    task = f"task: {{type: integrals, rank_report: true, N: [3, 8], l: [0, 1], points: [64, 160], dtype: {kind}}}"
    result = run(tmp_path, task, device)
    assert result.dtype == {"real": "float64", "complex": "complex128"}[kind]
    arrays, scalars = output.arrays(result), output.scalars(result)
    match_tables(output.tables(result), arrays)  # raises if an array is not declared
    assert len(result.runs) == 2 * 2 * 3
    finest = [run.difference for run in result.runs if run.route == "simpson" and run.points == 160]
    assert max(finest) < 2e-8  # the inner rule with nine points; the basis is resolved to 1e-9
    best = {
        N: min(run.difference for run in result.runs if run.functions == N and run.route == "simpson")
        for N in (3, 8)
    }
    assert {N: scalars[f"route_difference_N{N}"].value for N in best} == best
    assert scalars["route_difference"].value == max(best.values())
    assert scalars["integrals_per_second"].value > 0
    assert scalars["integrals"].value == 8**4
    assert np.isnan(arrays["integrals/paper_cpu_rate"]).all()  # the paper has no N = 3 or 8
    # Coulomb integrals are positive, exchange integrals smaller: |R[nm, nm]|^2 <= R[nn, nn] R[mm, mm] too
    J, K = arrays["integrals/coulomb"].real, arrays["integrals/exchange"].real
    np.testing.assert_allclose(np.diag(J), np.diag(K), rtol=1e-12)
    assert np.all(J > 0)
    assert np.all(0.5 * (np.diag(J)[:, None] + np.diag(J)) - K > -1e-12)
    assert arrays["rank/at_1e-12"].tolist() == [6, 6, *arrays["rank/at_1e-12"][2:]]  # all pairs of N = 3
    assert np.all(arrays["rank/at_1e-12"][2:] <= 36)
    assert np.all(arrays["rank/at_1e-08"] <= arrays["rank/at_1e-12"])


@pytest.mark.parametrize("route", ["poisson_gemm", "simpson"])
def test_one_route_alone(tmp_path, route):
    result = run(tmp_path, f"task: {{type: integrals, route: {route}}}")
    assert [run.route for run in result.runs] == [route]
    assert np.isnan(result.runs[0].difference)
    assert output.scalars(result)["integrals_per_second"].value == result.runs[0].rate
    assert "speedup" not in output.scalars(result)


@pytest.mark.parametrize("channels", ["{L: 0, S: 0, l_max: 2}", "{L: 1, S: 1, l_max: 2}"])
def test_dense_deck_is_the_matrix_free_deck(tmp_path, device, channels):
    found = [
        run(
            tmp_path,
            f"channels: {channels}\ntask: {{type: bound, n_roots: 2}}\nsolver: {{type: {solver}}}",
            device,
        ).states
        for solver in ("dense", "matrix_free")
    ]
    for dense_state, free_state in zip(*found, strict=True):
        assert abs(dense_state.energy - free_state.energy) < 1e-10
        assert dense_state.residual < 1e-9
        for name, value in free_state.moments.items():
            assert abs(dense_state.moments[name] - value) < 1e-6 * max(1.0, abs(value)), name


@pytest.mark.parametrize("route", ["poisson_gemm", "simpson"])
@pytest.mark.parametrize(("R", "order"), [(9.0, 8), (16.0, 5)])
def test_tables_of_integrals_state_their_errors(sturmian, route, R, order):
    """A small box, a coarse grid and few points of the quadrature, against a large box and a fine grid."""
    deck = {
        "system": {"Z": 2},
        "basis": {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.7}, "energy": -0.8, "N": 5},
        "task": {"type": "integrals", "route": route, "l": 2, "points": 24},
    }
    found = output.arrays(sturmian.run(**{**deck, "grid": {"R": R, "order": order}}))
    exact = output.arrays(
        sturmian.run(
            **{
                **deck,
                "task": {"type": "integrals", "route": "poisson_gemm", "l": 2},
                "grid": {"R": 45, "order": 16},
            }
        )
    )
    for name in ("overlap", "coulomb", "exchange"):
        off = np.abs(np.abs(found[f"integrals/{name}"]) - np.abs(exact[f"integrals/{name}"]))
        errors = found[f"integrals/{name}_error"]
        assert off.max() > 1e-9
        assert np.all(off <= 3.0 * errors + 1e-10)
        assert errors.max() <= 3.0 * off.max() + 1e-10
