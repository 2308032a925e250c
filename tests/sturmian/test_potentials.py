"""Potentials, automatic parameters and partial-wave limits."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import zeta

from qsim.core.errors import FileError, InvalidInput
from qsim.sturmian.deck.blocks import PotentialTable
from qsim.sturmian.radial import automatic
from qsim.sturmian.radial.grid import RadialGrid, contour_bounds, element_bounds
from qsim.sturmian.radial.inputs import read_radial
from qsim.sturmian.radial.potentials import OneBody, breaks, generating
from qsim.sturmian.radial.sturmians import orbitals, sturmians
from qsim.sturmian.two_electron.extrapolation import leading_power, partial_wave_limit

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "sturmian.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
R = np.linspace(0.05, 30.0, 400)


def block(kind, **keys):
    return SimpleNamespace(type=kind, **keys)


def formula(text, charge="auto"):
    return block("expression", value=text, charge=charge)


@pytest.fixture
def table(tmp_path):
    """Write two columns and return the block that names them."""

    def write(r, v, kind="table", **keys):
        path = tmp_path / "table.csv"
        path.write_text("r, v\n" + "".join(f"{a:.17g}, {b:.17g}\n" for a, b in zip(r, v, strict=True)))
        return PotentialTable(type=kind, file=path, **keys)

    return write


# --- one-body potentials ----------------------------------------------------------------------------


def test_coulomb_and_its_formula():
    nucleus, written = OneBody(block("coulomb"), 2), OneBody(formula("-Z/r"), 2)
    assert nucleus(R) == pytest.approx(-2 / R)
    assert written(R) == pytest.approx(nucleus(R))
    assert nucleus.charge == written.charge == OneBody(None, 2).charge == 2
    z = R * np.exp(0.3j)
    assert nucleus(z) == pytest.approx(-2 / z)


@pytest.mark.parametrize(
    ("text", "charge"),
    [("-(1 + (Z - 1)*exp(-2*r))/r", 1), ("-exp(-r)/r", 0), ("-Z/sqrt(r^2 + 0.01)", 3), ("-Z/r + 1/r^4", 3)],
)
def test_charge_of_a_formula(text, charge):
    potential = OneBody(formula(text), 3)
    assert potential.coulombic
    assert potential.charge == pytest.approx(charge, abs=1e-8)
    assert OneBody(formula(text, charge=0.5), 3).charge == 0.5


def test_confining_formula():
    potential = OneBody(formula("-Z/r + 0.1*r^2"), 2)
    assert not potential.coulombic
    assert np.isfinite(potential.charge)
    g = RadialGrid(contour_bounds(element_bounds(10.0, 2), 0.3, 5.0), 8)
    with pytest.raises(InvalidInput, match="needs a potential that goes like -charge/r"):
        potential(g.r)


def test_formula_that_fails():
    with pytest.raises(InvalidInput, match="not finite") as error:
        OneBody(formula("log(r - 1)/r"), 2)(R)
    assert error.value.key == "system.potential.value"


def test_contour_begins_where_the_potential_has_settled():
    potential = OneBody(formula("-(1 + exp(-2*r))/r"), 2)
    near, far = (RadialGrid(contour_bounds(element_bounds(r, 2), 0.3, 5.0), 8) for r in (3.0, 12.0))
    V = potential(far.r)
    assert V[~far.is_real] == pytest.approx(-1 / far.r[~far.is_real])
    with pytest.raises(InvalidInput, match="a complex contour begins at 3 bohr, where V is not yet"):
        potential(near.r)


def test_table_is_the_formula(table):
    r = np.linspace(0.0, 12.0, 400)[1:]
    exact = OneBody(formula("-(1 + exp(-2*r))/r"), 2)
    tabulated = OneBody(table(np.insert(r, 0, 0.0), np.insert(exact(r), 0, 0.0), charge="auto"), 2)
    assert tabulated.charge == pytest.approx(1.0, abs=1e-9)
    assert tabulated(R) == pytest.approx(exact(R), abs=1e-5)
    assert tabulated(np.array([1e-3])) == pytest.approx(exact(np.array([1e-3])), rel=1e-3)
    g = RadialGrid(element_bounds(25.0, 2), 12)
    assert orbitals(g, 0, tabulated(g.r)).e[0] == pytest.approx(orbitals(g, 0, exact(g.r)).e[0], abs=1e-5)
    assert OneBody(table(r, exact(r), charge=1.5), 2)(np.array([20.0])) == pytest.approx(-1.5 / 20)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no numbers"),
        ("r, v\n1, 2\n2, 3\n3, four\n", "table.csv:4: 'four' is not a finite number"),
        ("1, 2\n2, 3\n3\n4, 5\n", "table.csv:3"),
        ("1, 2\n-2, 3\n", "cannot be negative"),
        ("1, 2\n1, 3\n2, 3\n4, 4\n", "distinct"),
        ("1, 2\n2, nan\n", "table.csv:2"),
    ],
)
def test_tables_are_refused(tmp_path, text, complaint):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(FileError) as error:
        read_radial(PotentialTable(type="table", file=path))
    assert complaint in str(error.value)


def test_table_is_missing(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        read_radial(PotentialTable.model_construct(type="table", file=tmp_path / "none.csv"))


# --- generating potentials ----------------------------------------------------------------------------

GENERATORS = {
    "yukawa": ({"alpha": 0.5}, lambda r: np.exp(-0.5 * r) / r),
    "coulomb": ({}, lambda r: 1 / r),
    "hulthen": ({"alpha": 0.5}, lambda r: 1 / (np.exp(0.5 * r) - 1)),
    "exponential": ({"alpha": 0.5}, lambda r: np.exp(-0.5 * r)),
    "square_well": ({"r0": 7.0, "tail": 2.0}, lambda r: np.where(r.real <= 7, 1, np.exp(-(r - 7) / 2))),
}


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_generators(kind, angle):
    keys, exact = GENERATORS[kind]
    r = R * np.exp(1j * angle) if angle else R
    assert generating(block(kind, **keys), r) == pytest.approx(exact(r), rel=1e-12)
    assert np.all(generating(block(kind, **keys), R) > 0)
    if "alpha" in keys:
        auto = generating(block(kind, alpha="auto"), r, alpha=0.5)
        assert np.array_equal(auto, generating(block(kind, **keys), r))
        with pytest.raises(ValueError, match="'auto'"):
            generating(block(kind, alpha="auto"), r)


@pytest.mark.parametrize("kind", ["yukawa", "hulthen", "exponential"])
def test_generators_underflow_quietly(kind):
    v = generating(block(kind, alpha=50.0), np.array([0.1, 10.0, 1000.0]))
    assert v[0] > 0
    assert v[2] == 0


def test_step_of_a_well_costs_no_accuracy():
    """Levels of a well that ends inside of the box do not depend on the elements."""
    well, found = block("square_well", r0="auto", tail=0.0), []
    assert breaks(well, r0=5.3) == (5.3,)
    assert breaks(block("coulomb")) == breaks(None) == ()
    for order in (12, 18):
        g = RadialGrid(element_bounds(30.0, 2, breaks=breaks(well, r0=5.3)), order)
        found.append(sturmians(g, 0, -2 / g.r, -0.9, generating(well, g, r0=5.3), 6).beta)
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert np.count_nonzero(generating(well, g, r0=5.3) % 1.0) == 1
    assert set(generating(well, g.r, r0=5.3)) == {0.0, 1.0}


def test_generating_table(table):
    r = np.linspace(0.1, 20.0, 400)
    g = RadialGrid(element_bounds(30.0, 2), 10)
    v = generating(table(r, np.exp(-0.5 * r) / r), g)
    inside = (g.r > 0.1) & (g.r < 20)
    assert v[inside] == pytest.approx((np.exp(-0.5 * g.r) / g.r)[inside], rel=1e-4)
    assert np.all(v[g.r > 20] == 0.0)
    with pytest.raises(InvalidInput, match="negative at r = "):
        generating(table(r, np.cos(r)), g)
    bent = RadialGrid(contour_bounds(element_bounds(10.0, 2), 0.3, 5.0), 8)
    with pytest.raises(InvalidInput, match="into the complex contour"):
        generating(table(r, np.exp(-r)), bent)


# --- automatic parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "ionised", "energy"),
    [
        ((2, 0, 0, 0), -2.0, -2.9037243770),
        ((1, 0, 0, 0), -0.5, -0.5277510165),
        ((3, 0, 0, 0), -4.5, -7.2799134127),
        ((2, 0, 0, 1), -2.0, -2.145974046),
        ((2, 0, 1, 0), -2.0, -2.175229378),
        ((2, 1, 1, 0), -2.0, -2.133164191),
        ((2, 1, 0, 0), -2.0, -2.123843086),
        ((2, 1, 1, 0, "even"), -0.5, -0.7105),
    ],
)
def test_ionisation_energies(state, ionised, energy):
    assert automatic.ionisation(*state) == pytest.approx(ionised - energy, rel=0.05)


@pytest.mark.parametrize(
    ("state", "energy"),
    [
        ((1, 0, 0, "even"), -0.580246473),  # 2p3p 1P^e
        ((1, 1, 1, "even"), -0.567812899),  # 2p3p 3P^e
        ((2, 0, 0, "odd"), -0.563800420),  # 2p3d 1D^o
        ((2, 1, 0, "odd"), -0.559328263),  # 2p3d 3D^o
    ],
)
def test_ionisation_energies_of_the_other_parity(state, energy):
    """States of helium below its n = 2 threshold; a box of this size holds them."""
    assert automatic.ionisation(2, *state) == pytest.approx(-0.5 - energy, rel=0.15)


def test_automatic_parameters():
    states = [(0, 0, 0, "natural"), (1, 1, 0, "natural")]
    weakest = automatic.weakest(2, states)
    assert weakest == automatic.ionisation(2, 1, 1)
    assert automatic.energy(weakest) == -weakest
    assert automatic.energy(weakest, "coulomb") < -weakest
    assert automatic.alpha(-0.9) == pytest.approx(0.42 * np.sqrt(1.8))
    assert automatic.radius(0.9, 2) == pytest.approx(12 / np.sqrt(1.8) + 4)


@given(
    charge=st.floats(0.0, 100.0),
    L=st.integers(0, 10),
    S=st.integers(0, 1),
    root=st.integers(0, 20),
    parity=st.sampled_from(["natural", "even", "odd"]),
)
def test_automatic_parameters_are_always_usable(charge, L, S, root, parity):
    ionisation = automatic.ionisation(max(charge, 0.1), L, S, root, parity)
    assert ionisation >= automatic.WEAKEST
    assert automatic.ionisation(max(charge, 0.1), L, S, root + 2, parity) <= ionisation
    assert 0 < automatic.radius(ionisation, charge) < 1000


# --- partial-wave limits ----------------------------------------------------------------------------------


def test_helium_limit():
    entry = REFERENCES["He_1S_l_extrapolated"]
    points = [6, 8, 10]
    limit, error, coefficients = partial_wave_limit(
        points, [REFERENCES[f"He_1S_lmax{ell}"]["value"] for ell in points], L=0, S=0
    )
    assert limit == pytest.approx(-2.9037243756, abs=1e-10)
    assert abs(limit - entry["value"]) < entry["tol"]
    assert abs(limit - REFERENCES["exact_He_1S"]["value"]) < error < 5e-7
    assert coefficients == pytest.approx([-0.0742, -0.0299], abs=1e-4)


@pytest.mark.parametrize(
    ("prefix", "points", "symmetry", "exact"),
    [
        ("He_1S_lmax", [4, 6, 8], (0, 0), -2.9037243770),
        ("Hminus_1S_lmax", [1, 3, 5, 7], (0, 0), -0.5277510165),
        ("Liplus_1S_lmax", [2, 4, 6], (0, 0), -7.2799134127),
        ("He_2_1S_lmax", [0, 2, 4], (0, 0), -2.145974046),
        ("He_2_3S_lmax", [0, 2, 4], (0, 1), -2.175229378),
        ("He_2_3P_lmax", [1, 3, 5], (1, 1), -2.133164191),
        ("He_2_1P_lmax", [1, 3, 5], (1, 0), -2.123843086),
    ],
)
def test_limits_and_their_errors(prefix, points, symmetry, exact):
    """Most of what is missing is found, and the error is one."""
    energies = [REFERENCES[f"{prefix}{ell}"]["value"] for ell in points]
    limit, error, _ = partial_wave_limit(points, energies, L=symmetry[0], S=symmetry[1], uncertainty=1e-9)
    assert abs(limit - exact) < 0.25 * abs(energies[-1] - exact)
    assert abs(limit - exact) < 2.0 * error


@given(
    limit=st.floats(-10, -0.1),
    terms=st.lists(st.floats(-0.1, -0.01), min_size=1, max_size=3),
    first=st.integers(1, 5),
    L=st.integers(0, 2),
    S=st.integers(0, 1),
)
@settings(deadline=None)
def test_a_sum_of_the_model_is_found(limit, terms, first, L, S):
    points = [first + 2 * k + L for k in range(len(terms) + 1)]
    start = np.array(points) + 1.5 - L / 2
    step = 1 if L == S == 0 else 2
    energies = limit - sum(A * zeta(leading_power(S) + step * k, start) for k, A in enumerate(terms))
    found, error, coefficients = partial_wave_limit(points, energies, L=L, S=S)
    assert found == pytest.approx(limit, abs=1e-11)
    assert coefficients == pytest.approx(terms, rel=1e-2, abs=1e-3)
    assert error >= 0.0
    assert partial_wave_limit(points, energies, L=L, S=S, uncertainty=1e-3)[1] > 1e-3


def test_powers():
    assert [leading_power(S, natural=natural) for natural in (True, False) for S in (0, 1)] == [4, 6, 8, 6]
    energies = [-0.70, -0.7095, -0.7104]
    natural, unnatural = (
        partial_wave_limit([1, 2, 3], energies, L=1, S=0, parity=parity)[0] for parity in ("odd", "even")
    )
    assert max(natural, unnatural) < energies[-1]
    assert natural != unnatural
    assert natural == partial_wave_limit([1, 2, 3], energies, L=1, S=0)[0]


def test_limit_of_the_other_parity():
    """Helium 2p^2 3P^e: pairs (1, 1), (2, 2), ..., so that l_max itself counts, not l_max - 1/2."""
    points, energies = [3, 5, 7], [-0.710433961, -0.710492689, -0.710498478]  # 35 Sturmian functions
    limit, error, _ = partial_wave_limit(points, energies, L=1, S=1, parity="even")
    assert abs(limit + 0.710500155678) < error < 2e-7  # Hilger, Merckens and Kleindienst (1996)


@pytest.mark.parametrize(
    ("points", "energies"), [([3], [-1.0]), ([3, 3], [-1, -1]), ([4, 3], [-1, -1]), ([1, 2], [-1])]
)
def test_limits_are_refused(points, energies):
    with pytest.raises(ValueError, match="two or more ascending"):
        partial_wave_limit(points, energies, L=0, S=0)
