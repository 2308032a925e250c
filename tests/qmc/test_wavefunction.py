"""Trial functions: every piece against finite differences and exact solutions, cusps, mistakes in decks."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number
from qsim.qmc.deck.wavefunction import System
from qsim.qmc.system.ions import build_system
from qsim.qmc.system.radial import KNOTS
from qsim.qmc.wavefunction.jastrow import Function
from tests.qmc.trials import trial_function

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "qmc.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}

HELIUM = [["He", 0, 0, 0]]
SHELL = {"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}
# Clementi and Roetti, At. Data Nucl. Data Tables 14, 177 (1974)
BERYLLIUM = {
    "n": [1, 1, 3, 3, 2, 2, 2],
    "zeta": [5.7531, 3.7156, 9.9670, 3.7128, 4.4661, 1.2919, 0.8555],
    "1s": [0.285107, 0.474813, -0.001620, 0.052852, 0.243499, 0.000106, -0.000032],
    "2s": [-0.016378, -0.155066, 0.000426, -0.059234, -0.031925, 0.387968, 0.685674],
}


def spline(rcut=6.0, size=6, **keys):
    return dict(type="bspline", rcut=rcut, size=size, **keys)


def wavefunction(atoms=HELIUM, orbitals=None, *, J1=None, J2=None, spin=0, **system):
    orbitals = orbitals or {"source": "sto", "shells": [SHELL]}
    return trial_function({"atoms": atoms, "spin": spin, **system}, orbitals, {"J1": J1, "J2": J2})


def beryllium(**keys):
    shells = [
        {"n": BERYLLIUM["n"], "l": 0, "zeta": BERYLLIUM["zeta"], "coefficients": BERYLLIUM[name]}
        for name in ("1s", "2s")
    ]
    return wavefunction([["Be", 0, 0, 0]], {"source": "sto", "shells": shells}, **keys)


def lithium_dimer(**keys):
    inputs = REFERENCES["Li2_vmc"]["inputs"]
    z = inputs["stos_per_atom"]
    shells = [
        {"n": 1, "l": 0, "zeta": z["s1"]},
        {"n": 1, "l": 0, "zeta": z["s1p"]},
        {"n": 2, "l": 0, "zeta": z["s2"]},
        {"n": 2, "l": 1, "zeta": z["pz"]},
    ]
    rows = []
    for row in inputs["orbital_rows"]:
        rows.append([])
        for atom in range(2):
            s, pz = row[4 * atom : 4 * atom + 3], row[4 * atom + 3]
            rows[-1] += [*s, 0.0, 0.0, pz]
    atoms = [["Li", *place] for place in inputs["ions"]]
    return wavefunction(atoms, {"source": "sto", "shells": shells, "molecular_orbitals": rows}, **keys)


def check_derivatives(w, R, tolerance=3e-6):
    """Compare gradient and Laplacian of one configuration with finite differences of log psi."""
    gradient = w.gradient(R)
    scale = 1.0 + np.abs(gradient).max()  # near a node psi varies fast
    h = 2e-3 / scale
    laplacian = np.zeros(len(R))
    here = w.log_psi(R)[0]
    for i in range(len(R)):
        for x in range(3):
            around = []
            for k in (-2, -1, 1, 2):
                moved = R.copy()
                moved[i, x] += k * h
                around.append(w.log_psi(moved)[0])
            a, b, c, d = around
            slope = (a - 8 * b + 8 * c - d) / (12 * h)
            curvature = (-a + 16 * b - 30 * here + 16 * c - d) / (12 * h * h)
            assert gradient[i, x] == pytest.approx(slope, abs=tolerance * scale)
            laplacian[i] += curvature + slope**2
    assert_allclose(w.laplacian_over_psi(R), laplacian, atol=30 * tolerance * scale**2)


CASES = {
    "helium": lambda: wavefunction(J1=spline(), J2=spline()),
    "beryllium": lambda: beryllium(J2=spline(), J1=spline()),
    "Li2": lambda: lithium_dimer(J2={"type": "pade", "b": 0.821683}),
    "triplet": lambda: wavefunction([["C", 0, 0, 0]], {"source": "hydrogen"}, spin=2, J2=spline()),
    "hooke": lambda: trial_function({"atoms": []}, {"source": "hooke"}),
    "dots": lambda: wavefunction([], {"source": "harmonic", "omega": 0.4}, electrons=7, spin=1, J2=None),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    w = CASES[name]()
    for R in w.scatter(3, np.random.default_rng(3)):
        check_derivatives(w, R)


@pytest.mark.parametrize("name", CASES)
def test_tables_agree_with_functions(name):
    w = CASES[name]()
    points = np.random.default_rng(4).normal(size=(50, 3)) * 1.5
    exact, tabulated = w.orbitals.atomic(points, exact=True), w.orbitals.atomic(points)
    scale = np.abs(exact).max(axis=(0, 2), keepdims=True)
    # where tight functions are tabulated in steps of 1/32 bohr they are already small
    assert (np.abs(exact - tabulated) / scale).max() < 1e-4
    assert np.abs(exact - tabulated)[:, 0].max() < 2e-7 * scale[0, 0]
    tables = w.orbital_tables(np.float32)
    assert tables.table.dtype == tables.coefficients.dtype == np.float32
    assert tables.coefficients.shape == (2, w.orbitals.size, max(w.n_up, w.n_dn))
    assert np.all(np.diff(tables.shell_atom) >= 0)
    assert set(tables.reach) <= set(KNOTS)


# --- exact solutions ------------------------------------------------------------------------------


def energies(w, count=20, seed=5):
    return np.array([w.local_energy(R)["total"] for R in w.scatter(count, np.random.default_rng(seed))])


def test_hydrogen_is_exact():
    assert_allclose(energies(wavefunction([["H", 0, 0, 0]], {"source": "hydrogen"}, spin=1)), -0.5, atol=1e-6)
    excited = wavefunction([["H", 0, 0, 0]], {"source": "hydrogen", "shells": [{"n": 2, "l": 1}]}, spin=1)
    assert_allclose(energies(excited), -0.125, atol=1e-6)


def test_hooke_is_exact():
    assert wavefunction([], {"source": "hooke"}).jastrow.functions[1].kind == "none"  # an empty Jastrow block
    w = trial_function({"atoms": []}, {"source": "hooke"})
    assert w.jastrow.functions[1].kind == "log1p"
    assert_allclose(energies(w), REFERENCES["hooke_k1/4"]["value"], atol=1e-5)


@pytest.mark.parametrize(
    ("electrons", "spin", "levels"),
    [(1, 1, 1.5), (2, 0, 3.0), (5, 3, 2 * 1.5 + 3 * 2.5), (10, 10, 1.5 + 3 * 2.5 + 6 * 3.5)],
)
def test_trapped_fermions_are_exact(electrons, spin, levels):
    w = wavefunction([], {"source": "harmonic", "omega": 0.3, "mass": 5.0}, electrons=electrons, spin=spin)
    assert not w.hamiltonian_tables().interacting
    assert_allclose(energies(w), 0.3 * levels, atol=2e-4 * levels)


def test_oscillator_of_another_width():
    w = wavefunction([], {"source": "harmonic", "omega": 1.0, "exponent": 0.4}, spin=1)
    R = np.array([[0.3, -0.2, 0.5]])
    rr = float((R**2).sum())
    assert w.local_energy(R)["total"] == pytest.approx(1.2 + 0.5 * rr - 2 * 0.4**2 * rr, abs=1e-8)


def test_helium_without_jastrow_by_component():
    w = wavefunction(orbitals={"source": "sto", "shells": [{**SHELL, "zeta": 2.0}]})
    R = np.array([[0.5, 0.1, -0.2], [-0.4, 0.3, 0.6]])
    e = w.local_energy(R)
    r1, r2 = np.linalg.norm(R, axis=1)
    assert e["local"] == pytest.approx(-2 / r1 - 2 / r2, rel=1e-12)
    assert e["electron_electron"] == pytest.approx(1 / np.linalg.norm(R[0] - R[1]), rel=1e-12)
    assert e["kinetic"] == pytest.approx(-4.0 + 2 / r1 + 2 / r2, abs=1e-6)
    assert e["nonlocal"] == e["external"] == 0.0


def test_ions_repel():
    w = lithium_dimer()
    assert w.ion_ion == pytest.approx(REFERENCES["Li2_vmc"]["inputs"]["components"]["ionion"], abs=1e-6)


def test_beryllium_has_its_hartree_fock_energy():
    """Two s orbitals on the radial grid: kinetic energy, nucleus, Coulomb and exchange integrals."""
    w = beryllium()
    x, weight = np.polynomial.legendre.leggauss(10)
    half = 0.5 * np.diff(KNOTS)[:, None]
    r = (half * x + 0.5 * (KNOTS[1:] + KNOTS[:-1])[:, None]).ravel()
    d = 4 * np.pi * r * r * (half * weight).ravel()
    rows = w.orbitals.rows(r[:, None] * np.array([0.0, 0.6, 0.8]), 0)
    phi, laplacian = rows[:, 0].T, rows[:, 4].T
    S = (phi * d) @ phi.T
    assert_allclose(S, np.eye(2), atol=2e-5)  # the published digits
    orthonormal = np.linalg.inv(np.linalg.cholesky(S))
    phi, laplacian = orthonormal @ phi, orthonormal @ laplacian
    energy = _hartree_fock(phi, laplacian, r, d, 4.0)
    assert energy == pytest.approx(REFERENCES["HFlimit_Be"]["value"], abs=2e-5)


def _hartree_fock(phi, laplacian, r, d, Z):
    energy = 2 * float((d * phi * (-0.5 * laplacian - Z / r * phi)).sum())

    def repulsion(f, g):
        """Return the integral of f(1) g(2) / r_> over both radii."""
        p, q = d * f, d * g
        return float((p / r * (np.cumsum(q) - 0.5 * q)).sum() + (q / r * (np.cumsum(p) - 0.5 * p)).sum())

    for a in phi:
        for b in phi:
            energy += 2 * repulsion(a * a, b * b) - repulsion(a * b, a * b)
    return energy


def test_lithium_dimer_orbitals_have_their_shape():
    w = lithium_dimer()
    values = w.orbitals.rows(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]), 0)[:, 0]
    assert_allclose(values[0], [1, -1, 1] * values[1], rtol=1e-12)


# --- determinants ---------------------------------------------------------------------------------


def test_psi_changes_sign_under_exchange():
    w = beryllium(J1=spline(), J2=spline())
    R = w.scatter(1, np.random.default_rng(0))[0]
    log, sign = w.log_psi(R)
    swapped = w.log_psi(R[[1, 0, 2, 3]])
    assert swapped[0] == pytest.approx(log, rel=1e-12)
    assert swapped[1] == -sign
    assert w.log_psi(R[[2, 3, 0, 1]]) == pytest.approx((log, sign))  # closed shell


def test_scatter_shares_electrons_out():
    R = lithium_dimer().scatter(500, np.random.default_rng(1))
    assert R.shape == (500, 6, 3)
    left = (R[..., 2] < 0).mean(0)
    assert np.all((left < 0.05) | (left > 0.95))
    assert left.sum() == pytest.approx(3.0, abs=0.1)


# --- Jastrow factor -------------------------------------------------------------------------------


def test_spline_is_that_of_qmcpack():
    """Values from the sum over cubic B-splines, with c = [p1 - 2 h cusp, p0, p1, ..., 0, 0, 0]."""
    p = [0.4631099906, 0.356399124, 0.2587895287, 0.1829298509]
    f = Function("ud", "bspline", -0.5, tuple(p), 3.0)
    h = 3.0 / 5
    c = [p[1] + h, *p, 0.0, 0.0, 0.0]
    assert_allclose(f.spline, c, rtol=1e-15)

    def by_hand(r):
        i = int(r / h)
        t = r / h - i
        weights = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
        return sum(a * b for a, b in zip(c[i : i + 4], weights, strict=True)) / 6

    r = np.array([0.0, 0.3, 0.6, 1.7, 2.999])
    assert_allclose(f.jet(r)[0], [by_hand(x) for x in r], atol=1e-14)
    assert f.jet(np.zeros(1))[1, 0] == pytest.approx(-0.5, abs=1e-14)
    assert np.abs(f.jet(np.array([3.0 - 1e-9]))).max() < 1e-8
    assert not f.jet(np.array([3.0, 4.0])).any()


@pytest.mark.parametrize(
    "f",
    [
        Function("ud", "bspline", -0.5, (0.4, 0.3, 0.1), 3.0),
        Function("ud", "pade", -0.5, (0.8,)),
        Function("ud", "log1p", -0.5),
        Function("He", "pade", 0.3125, (0.8,)),
    ],
)
def test_functions_have_their_slopes_and_cusps(f):
    r, h = np.array([0.11, 0.9, 1.6, 2.3]), 1e-5
    low, mid, high = f.jet(r - h), f.jet(r), f.jet(r + h)
    assert_allclose((high[0] - low[0]) / (2 * h), mid[1], atol=1e-8)
    assert_allclose((high[1] - low[1]) / (2 * h), mid[2], atol=1e-8)
    assert f.jet(np.zeros(1))[1, 0] == pytest.approx(f.cusp, abs=1e-13)


def test_design_matrix_is_the_derivative_of_the_spline():
    f = Function("ud", "bspline", -0.5, (0.4, 0.3, 0.1), 3.0)
    A, b = f.design
    assert_allclose(A @ f.parameters + b, f.spline, rtol=1e-15)
    assert f.with_parameters([0.4, 0.3 + 1e-3, 0.1]).spline - f.spline == pytest.approx(
        1e-3 * A[:, 1], abs=1e-15
    )


def test_parameters_go_round():
    w = beryllium(J1=spline(size=5), J2=spline(size=4))
    assert w.parameter_names == tuple(
        f"{name}_{k}" for name, n in (("uu", 4), ("ud", 4), ("Be", 5)) for k in range(n)
    )
    values = np.arange(13.0) / 20
    other = w.with_parameters(values)
    assert_allclose(other.parameters, values)
    assert other.jastrow.coefficients()["Be"] == pytest.approx(values[8:].tolist())
    assert [f.cusp for f in other.jastrow.functions] == [f.cusp for f in w.jastrow.functions]
    again = beryllium(
        J1=spline(size=5, coefficients={"Be": other.jastrow.coefficients()["Be"]}),
        J2=spline(size=4, coefficients={k: other.jastrow.coefficients()[k] for k in ("uu", "ud")}),
    )
    assert_allclose(again.parameters, values)
    tables = other.jastrow_tables()
    assert tables.kind.tolist() == [1, 1, 1]
    assert_allclose(tables.spline[2, :9], other.jastrow.functions[2].spline)
    with pytest.raises(ValueError, match="13 parameters wanted"):
        w.with_parameters(values[:-1])


def test_functions_of_absent_pairs_have_no_parameters():
    w = wavefunction(J1=spline(), J2=spline())
    assert w.jastrow_tables().kind.tolist() == [0, 1, 1]
    assert w.parameters.size == 12


def test_electrons_meet_at_a_cusp():
    """The local energy stays finite where electrons of either spin come together."""
    w = beryllium(J2=spline())
    R = np.array([[0.4, 0.1, 0.2], [0.9, -0.3, 0.1], [-0.5, 0.2, 0.3], [0.1, 0.7, -0.8]])
    for other in (1, 2):
        close = []
        for distance in (1e-3, 1e-4):
            near = R.copy()
            near[other] = R[0] + distance * np.array([0.6, 0.8, 0.0])
            close.append(w.local_energy(near)["total"])
        # up to the angle: without the cusp they would differ by more than 4000
        assert abs(close[0] - close[1]) < 5.0


@pytest.mark.parametrize("make", [lambda **k: wavefunction(**k), beryllium])
def test_electrons_have_a_cusp_at_the_nucleus(make):
    w = make(J1=spline(), J2=spline())
    R = w.scatter(1, np.random.default_rng(2))[0]
    R = R + 0.3
    Z = w.system.charges[0]
    slopes = []
    for direction in np.concatenate([np.eye(3), -np.eye(3)]):
        near = R.copy()
        near[0] = 1e-6 * direction
        slopes.append(w.gradient(near)[0] @ direction)
    # of the average over directions; contracted functions make the condition for the density
    assert np.mean(slopes) == pytest.approx(-Z, abs=1e-4 if w.n_electrons == 2 else 0.05)


def test_nuclear_cusp_is_what_the_orbitals_leave():
    w = wavefunction(J1=spline())
    assert w.jastrow.functions[2].cusp == pytest.approx(2.0 - 1.6875, abs=1e-9)
    assert wavefunction(J1=spline(cusp=0.1)).jastrow.functions[2].cusp == 0.1
    assert wavefunction(J1=spline(cusp={"He": 0.2})).jastrow.functions[2].cusp == 0.2
    assert abs(beryllium(J1=spline()).jastrow.functions[2].cusp) < 0.01
    assert wavefunction([["H", 0, 0, 0]], {"source": "hydrogen"}, spin=1, J1=spline()).jastrow.functions[
        2
    ].cusp == pytest.approx(0.0, abs=1e-9)


def test_start_of_a_pair_function_repels():
    f = wavefunction(J2=spline(8.0, 8)).jastrow.functions[1]
    r = np.linspace(0, 8, 200)
    assert np.all(f.jet(r)[1] <= 1e-6)
    assert 0.2 < f.jet(np.zeros(1))[0, 0] < 0.6


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"atoms": [["Hi", 0, 0, 0]]}, "system.atoms", "unknown element 'Hi'; did you mean 'H"),
        (
            {"atoms": [["He", 0, 0, 0], ["He", 0, 0, 0]]},
            "system.atoms",
            "atoms 1 .He. and 2 .He. are in the same place",
        ),
        (
            {"spin": 1},
            "system.spin",
            "2 electrons .ions of charge 2, total charge 0. need even spin .n_up - n_down. between -2 and 2",
        ),
        ({"spin": 4}, "system.spin", "found 4"),
        ({"charge": 2}, "system.charge", "there is no electron"),
        (
            {"orbitals": {"source": "sto", "shells": [{**SHELL, "atom": "Be"}]}},
            "wavefunction.orbitals.shells.0.atom",
            "no atom 'Be'",
        ),
        (
            {"orbitals": {"source": "sto", "shells": [{**SHELL, "l": 1}]}},
            "wavefunction.orbitals.shells.0",
            "0 <= l < n",
        ),
        (
            {"orbitals": {"source": "sto", "shells": [{**SHELL, "zeta": [1, 2]}]}},
            "wavefunction.orbitals.shells.0",
            "lists of one length",
        ),
        (
            {"spin": 2},
            "wavefunction.orbitals.shells",
            "2 electrons of one spin need as many orbitals, found 1",
        ),
        (
            {"orbitals": {"source": "sto", "shells": [SHELL], "molecular_orbitals": [[1, 2]]}},
            "wavefunction.orbitals.molecular_orbitals",
            "rows of 1 coefficients",
        ),
        ({"J2": {"type": "bspline", "size": 4}}, "wavefunction.jastrow.J2.rcut", "needs its range rcut > 0"),
        (
            {"J1": spline(coefficients={"Be": [1, 2]})},
            "wavefunction.jastrow.J1.coefficients.Be",
            "species of the system .He.",
        ),
        (
            {"J2": spline(size=3, coefficients={"ud": [1, 2]})},
            "wavefunction.jastrow.J2.coefficients.ud",
            "size is 3, but there are 2",
        ),
        ({"J1": {"type": "pade", "cusp": 0.0}}, "wavefunction.jastrow.J1.type", "vanishes"),
    ],
)
def test_mistakes(keys, key, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        wavefunction(**{"atoms": HELIUM, **keys})
    assert caught.value.key == key


def test_shells_that_do_not_suffice():
    with pytest.raises(InvalidInput, match="exactly one atom"):
        wavefunction([["H", 0, 0, 0], ["H", 0, 0, 1]], {"source": "hydrogen"})
    with pytest.raises(InvalidInput, match="hold 35 electrons"):
        wavefunction([], {"source": "harmonic", "omega": 1.0}, electrons=36, spin=36)


def test_elements_and_labels():
    assert [atomic_number(s) for s in ("H", "he", "C1", "Og")] == [1, 2, 6, 118]
    system = build_system(System(atoms=[["H1", 0, 0, 0], ["H2", 0, 0, 1.4]]))
    assert system.species == ("H1", "H2")
    assert (system.n_up, system.n_dn) == (1, 1)
    assert math.isclose(system.ion_ion, 1 / 1.4)
