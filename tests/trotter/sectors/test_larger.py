"""Spins above 1/2: known levels, closed forms, dense matrices, and what is said of decks that cannot be."""

from contextlib import ExitStack
from itertools import count

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.core.results.results import open_results
from qsim.trotter.deck.couplings import System
from qsim.trotter.model.hamiltonian import build_hamiltonian, dense
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import parity_obstacle
from qsim.trotter.sectors.selection import mixing
from qsim_checks.trotter.larger import component, dense_larger, entropy_of
from tests.changes import change
from tests.trotter.open import oracle

RING = {"type": "heisenberg", "lattice": "ring"}
#: Ground state and lowest level of Sz = 1 of spin-1 rings: reference/open_spins.json, dense and by QuSpin.
RINGS = {
    4: (-6.0, -5.0),
    6: (-8.61742318181421, -7.89679581919033),
    8: (-11.3369560778974, -10.7434008235221),
}


@pytest.fixture
def run(trotter):
    """Run decks and hand out their results files."""
    with ExitStack() as stack:

        def call(**blocks):
            name = f"deck{next(number)}"
            trotter.execute(name, **blocks)
            return stack.enter_context(open_results(trotter.folder / f"{name}.h5"))

        number = count()
        yield call


def spectrum(run, system, sector="auto", **block):
    return run(task="spectrum", system=system, sector=sector, spectrum=block)


def numbers(results, *names):
    return [results.scalars[name].value for name in names]


def operator(system, space=None):
    model = build_hamiltonian(System(**system), seed=0).static
    return DigitOperator(cpu(1), space or DigitSpace(model.twos), model)


@pytest.mark.parametrize("spins", RINGS)
def test_rings_of_spins_1(run, spins):
    results = spectrum(run, {"spins": spins, "spin": 1, "terms": [RING]})
    found = numbers(results, "energy_0", "gap", "degeneracy", "total_spin_0", "total_spin_1")
    ground, triplet = RINGS[spins]
    np.testing.assert_allclose(found, [ground, triplet - ground, 1, 0, 1], atol=1e-9)


def test_the_ground_state_of_affleck_kennedy_lieb_and_tasaki(run):
    """``sum S.S + (S.S)^2 / 3``: E0 = -2N/3 exactly; the gap of 6 sites by dense diagonalisation."""
    terms = [RING, {"type": "biquadratic", "lattice": "ring", "B": 1.0 / 3.0}]
    results = spectrum(run, {"spins": 6, "spin": 1, "terms": terms})
    np.testing.assert_allclose(numbers(results, "energy_0", "gap"), [-4.0, 0.6957314586893], atol=1e-9)
    # open ends: two spins 1/2 that are free
    ends = [{**term, "lattice": "chain"} for term in terms]
    results = spectrum(run, {"spins": 6, "spin": 1, "terms": ends})
    np.testing.assert_allclose(numbers(results, "energy_0", "degeneracy"), [-10.0 / 3.0, 4], atol=1e-9)


def test_a_ferrimagnet_of_spins_1_and_one_half(run):
    system = {"spins": 8, "spin": [1, 0.5] * 4, "terms": [RING]}
    results = spectrum(run, system, sector={"sz": [3, 2]}, levels=1, gap=False)
    # reference/open_spins.json: lowest levels of Sz = 3 and 2, the latter with S = 2
    np.testing.assert_allclose(results["levels"][:, 0], [-4.04449471391666, -5.82423061120488], atol=1e-9)
    assert results["total_spin"][1, 0] == 2.0
    whole = spectrum(run, system)
    assert numbers(whole, "degeneracy", "total_spin_0") == [5, 2.0]


@pytest.mark.parametrize("spin", ["3/2", 1.5])
def test_a_spin_in_a_crystal_field(run, spin):
    """``D Sz^2 + E (Sx^2 - Sy^2)`` of S = 3/2: two doublets ``sqrt(D^2 + 3 E^2)`` on either side of 5 D / 4."""
    D, E = 0.7, 0.3
    term = {"type": "anisotropy", "D": D, "E": E}
    results = run(
        task="levels",
        system={"spins": 1, "spin": spin, "terms": [term]},
        sector="full",
        levels={"statistics": ["participation"]},
    )
    middle, half = 1.25 * D, np.sqrt(D**2 + 3.0 * E**2)
    np.testing.assert_allclose(
        results["levels"][0], np.sort([middle - half] * 2 + [middle + half] * 2), atol=1e-12
    )


def test_paramagnets_follow_brillouin(run):
    """Independent spins of any size in a field: energy and susceptibility of each in closed form."""
    spins, h = [0.5, 1, 1.5], 0.8
    results = run(
        task="thermal",
        system={"spins": 3, "spin": spins, "terms": [{"type": "field", "values": h}]},
        thermal={"temperatures": [0.3, 1.0, 4.0]},
    )
    T = np.array([0.3, 1.0, 4.0])
    energy, chi = np.zeros(3), np.zeros(3)
    for S in spins:
        m = np.arange(-S, S + 1)
        p = np.exp(-h * m / T[:, None])
        p /= p.sum(axis=1, keepdims=True)
        energy += h * (p @ m)
        chi += (p @ m**2 - (p @ m) ** 2) / T
    np.testing.assert_allclose(results["energy_T"], energy / 3.0, atol=1e-12)
    np.testing.assert_allclose(results["susceptibility"], chi / 3.0, atol=1e-12)


def test_a_complex_bond_matrix_is_the_coupling_that_it_says(tmp_path):
    """A Dzyaloshinskii-Moriya coupling of two spins 1, given as a file."""
    two = {"spins": 3, "spin": 1}
    S = {(a, j): component({"spins": 2, "spin": 1}, a, j) for a in "xyz" for j in (0, 1)}
    # site 1 of the oracle is the slow index of its matrices, which the file wants for its first site
    D = S["x", 1] @ S["y", 0] - S["y", 1] @ S["x", 0]
    np.save(tmp_path / "dm.npy", D)
    given = {"type": "bond_matrix", "file": tmp_path / "dm.npy"}
    for pairs, lattice in (([[0, 2], [2, 1]], None), (None, {"type": "ring"})):
        where = {"list": pairs} if pairs else {"lattice": lattice}
        made = operator({**two, "terms": [given | where]})
        rows = {"list": [[*pair, 1.0] for pair in pairs]} if pairs else {"lattice": lattice, "D": 1.0}
        expected = operator({**two, "terms": [{"type": "dm", **rows}, {"type": "anisotropy", "D": 0.0}]})
        np.testing.assert_allclose(made.matrix.toarray(), expected.matrix.toarray(), atol=1e-14)
        assert not made.is_real
        assert mixing(made.model) == ""


def test_a_bond_matrix_of_spins_one_half_is_a_model_of_digits(tmp_path):
    pair = dense(
        build_hamiltonian(System(spins=2, terms=[{**RING, "lattice": {"type": "chain"}}]), seed=0).static
    )
    system = {
        "spins": 4,
        "terms": [{"type": "bond_matrix", "matrix": pair.real.tolist(), "lattice": {"type": "ring"}}],
    }
    expected = dense(
        build_hamiltonian(System(spins=4, terms=[{**RING, "lattice": {"type": "ring"}}]), seed=0).static
    )
    np.testing.assert_allclose(operator(system).matrix.toarray(), expected, atol=1e-14)


MIXED = {
    "spins": 4,
    "spin": [1, 0.5, 2.5, 1],
    "terms": [
        {"type": "tensor", "list": [[0, 1, *range(1, 10)], [3, 2, 1, 0, 2, 0, 1, 0, 0, 0, 1]]},
        {"type": "biquadratic", "list": [[0, 2, 0.3]]},
        {"type": "field", "axis": "y", "values": [0.1, 0.2, 0.3, 0.4]},
    ],
}
CHARGED = MIXED | {"terms": [{"type": "xxz", "lattice": {"type": "all"}, "Jxy": 0.7, "Jz": -1.0}]}


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(
    "space", [DigitSpace((2, 1, 5, 2)), DigitSpace((2, 1, 5, 2), down=4), DigitSpace((2, 1, 5, 2), odd=1)]
)
def test_products_with_and_without_a_matrix(space, dtype):
    made = operator(MIXED if space.down < 0 and space.odd < 0 else CHARGED, space)
    rng = np.random.default_rng(2)
    kind = complex if dtype is complex or not made.is_real else float
    psi = rng.normal(size=made.size).astype(kind)
    if kind is complex:
        psi += 1j * rng.normal(size=made.size)
    H = dense_larger(MIXED if space.down < 0 and space.odd < 0 else CHARGED)
    strings = space.strings()
    sizes = np.array([two + 1 for two in space.twos])
    place = sum(space.digit(strings, j) * int(np.prod(sizes[:j])) for j in range(4))
    expected = 0.5 * H[np.ix_(place, place)] @ psi - 2.0 * psi + 3.0 * psi
    for kept in (False, True):
        made.keeps = kept
        out = psi.copy()
        made.apply(psi, out, 0.5, -2.0, 3.0)
        np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.mark.parametrize("axis", "xyz")
def test_what_is_conserved_along_an_axis(run, axis):
    """A field along one axis of an isotropic ring: levels move by it alone, whatever the axis is."""
    terms = [RING, {"type": "field", "axis": axis, "values": 0.3}]
    results = spectrum(run, {"spins": 4, "spin": 1, "terms": terms}, levels=6)
    assert results.scalars["sector"].value.startswith(f"S{axis}")
    # singlet and triplet of the ring without a field, and the triplet's parts
    np.testing.assert_allclose(
        numbers(results, "energy_0", "energy_1", "energy_2"), [-6.0, -5.3, -5.0], atol=1e-9
    )


def test_half_turns_of_the_ring_of_fields():
    system = {"spins": 3, "spin": 1, "terms": [RING, {"type": "anisotropy", "E": 0.4, "D": 0.1}]}
    model = build_hamiltonian(System(**system), seed=0).static
    assert "changes the total Sz by 2" in mixing(model)
    assert [bool(parity_obstacle(model, axis)) for axis in range(3)] == [False, False, False]
    tilted = build_hamiltonian(
        System(**system | {"terms": [*system["terms"], {"type": "field", "axis": "y", "values": 1.0}]}),
        seed=0,
    ).static
    assert [bool(parity_obstacle(tilted, axis)) for axis in range(3)] == [True, False, True]


def test_the_current_of_a_spin_1_chain(run):
    """``<J^2>`` of the ground state against ``i [H, sum x Sz] / sqrt N``, with a biquadratic part."""
    terms = [
        {"type": "heisenberg", "lattice": {"type": "chain"}, "J": 1.0},
        {"type": "biquadratic", "lattice": {"type": "chain"}, "B": 0.4},
        {"type": "anisotropy", "D": 0.3},
    ]
    system = {"spins": 4, "spin": 1, "terms": terms}
    results = run(
        task="dynamics",
        system=system,
        dynamics={"operator": "current", "omega": {"from": 0.0, "to": 8.0, "count": 9}, "broadening": 0.3},
    )
    H = dense_larger(system)
    x = sum(j * component(system, "z", j) for j in range(4))
    J = 1j * (H @ x - x @ H) / 2.0
    ground = np.linalg.eigh(H)[1][:, 0]
    np.testing.assert_allclose(results["static"][0], np.linalg.norm(J @ ground) ** 2, atol=1e-9)


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_a_cycle_of_spins_1(run, sector):
    """A kicked spin-1 chain against exponentials of dense matrices; a step without flips is a phase."""
    chain = {"type": "chain"}
    terms = [
        {"type": "heisenberg", "lattice": chain},
        {"type": "anisotropy", "D": 0.6},
        {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.5]},
    ]
    system = {"spins": 3, "spin": [1, 1.5, 1], "terms": terms}
    results = run(
        task="floquet",
        system=system,
        sector=sector,
        initial={"type": "basis", "m": [1, -0.5, 0]},
        floquet={
            "cycle": [{"terms": [0, 1], "time": 0.7}, {"terms": [1, 2], "time": 0.4}],
            "cycles": 6,
            "accuracy": 1e-10,
            "quasienergies": True,
        },
        observe=["return_probability", {"entropy": {"sites": [0]}}],
    )
    U = np.eye(36, dtype=complex)
    for some, time in (([0, 1], 0.7), ([1, 2], 0.4)):
        U = expm(-1j * time * dense_larger(system | {"terms": [terms[k] for k in some]})) @ U
    # digits 0, 2, 1 of 3, 4, 3 levels
    psi = np.eye(36)[0 + 3 * 2 + 12 * 1]
    now = np.linalg.matrix_power(U, 6) @ psi
    expected = [np.vdot(now, component(system, "z", j) @ now).real for j in range(3)]
    np.testing.assert_allclose(results["sz"][-1], expected, atol=1e-9)
    np.testing.assert_allclose(results["return_probability"][-1], abs(np.vdot(psi, now)) ** 2, atol=1e-9)
    np.testing.assert_allclose(np.ravel(results["entropy"])[-1], entropy_of(system, now, 1), atol=1e-8)
    angles = np.angle(np.linalg.eigvals(U))
    found = np.asarray(results["quasienergies"])
    assert len(found) == (36 if sector == "full" else len(DigitSpace((2, 3, 2), down=3).strings()))
    assert np.abs(np.exp(1j * angles)[:, None] - np.exp(1j * found)).min(axis=0).max() < 1e-10


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_a_quench_of_the_single_ion_anisotropy(run, sector):
    """From the ground state of a spin-1 chain, at Sz = 0, under another H."""
    chain = [{"type": "heisenberg", "lattice": {"type": "chain"}, "J": 1.0}, {"type": "anisotropy", "D": 0.2}]
    system = {"spins": 4, "spin": 1, "terms": [chain[0], {"type": "anisotropy", "D": 1.5, "E": 0.0}]}
    results = run(
        system=system,
        sector=sector,
        initial={"type": "ground_state", "terms": chain},
        evolve={"t_final": 1.3, "outputs": 2, "accuracy": 1e-9},
        observe=[{"correlator": ["xx", "zz"], "pairs": [[0, 1]]}, {"entropy": {"sites": [0, 1]}}],
    )
    ground = np.linalg.eigh(dense_larger(system | {"terms": chain}))[1][:, 0]
    now = expm(-1.3j * dense_larger(system)) @ ground
    for axis in "xz":
        both = component(system, axis, 0) @ component(system, axis, 1)
        np.testing.assert_allclose(
            results[f"correlator_{axis}{axis}"][-1], np.vdot(now, both @ now).real, atol=1e-8
        )
    np.testing.assert_allclose(np.ravel(results["entropy"])[-1], entropy_of(system, now, 2), atol=1e-7)
    assert results.scalars["sector"].value == ("Sz = 0" if sector == "auto" else "all states")


def test_levels_far_below_zero(run):
    """Rounding of the levels found before does not grow by the large diagonal of H."""
    A = [[-2.9, -2.4, -0.2], [-2.4, -1.6, 1.1], [-0.2, 1.1, -9.2]]
    coupling = {"type": "xyz", "Jx": -0.2, "Jy": 2.0, "Jz": -1.5, "lattice": {"type": "ring"}}
    system = {"spins": 4, "spin": 1, "terms": [coupling, {"type": "anisotropy", "A": A}]}
    found = spectrum(run, system, levels=3, tolerance=1e-12)
    energies = np.linalg.eigvalsh(dense_larger(system))
    np.testing.assert_allclose(found["levels"][0][:3], energies[:3], atol=1e-9)


# --------------------------------------------------------------------------------------------- bad input

BASE = {
    "task": "spectrum",
    "system": {"spins": 4, "spin": 1, "terms": [{"type": "heisenberg", "lattice": "ring"}]},
}


def terms(*items):
    return {"system__terms": list(items)}


ERRORS = {
    "a third": (
        {"system__spin": 0.7},
        "system.spin: expected a whole or half number such as 1 or 1.5, found 0.7",
    ),
    "too large": ({"system__spin": 9}, "system.spin: .*found 9"),
    "other length": ({"system__spin": [1, 1]}, "system.spin: 2 values, but system.spins = 4"),
    "pauli": ({"system__operators": "pauli"}, "system.operators: Pauli matrices belong to spins 1/2"),
    "too many": (
        {"system__spins": 32, "sector": {"sz": 0}},
        "system.spins: at most 31 sites with spins up to 1, found 32",
    ),
    "up": ({"sector": {"up": 2}}, "sector.up: counts spins 1/2; of spins above 1/2 give sz"),
    "half sz": ({"sector": {"sz": 0.5}}, "sector.sz: Sz of 4 spins is whole; found 0.5: the sector is empty"),
    "large sz": (
        {"sector": {"sz": 5}},
        "sector.sz: 4 spins have Sz from -4 to 4; found Sz = 5: the sector is empty",
    ),
    "D of one half": (
        {"system__spin": 0.5, **terms(RING, {"type": "anisotropy", "D": 1.0})},
        r"system.terms.1: \(S\^a\)\^2 of a spin 1/2 is the constant 1/4",
    ),
    "D at one half": (
        {"system__spin": [1, 0.5, 1, 1], **terms({"type": "anisotropy", "D": 1.0, "sites": [0, 1]})},
        r"system.terms.0.sites.1: site 1: \(S\^a\)\^2 of a spin 1/2 is the constant 1/4",
    ),
    "nothing": (terms({"type": "anisotropy"}), "system.terms.0: give either A, or D and E"),
    "short D": (terms({"type": "anisotropy", "D": [1.0]}), "system.terms.0.D: 1 values, but .* are 4"),
    "odd A": (
        terms({"type": "anisotropy", "A": [[1, 2, 0], [0, 1, 0], [0, 0, 1]]}),
        "system.terms.0.A: A is symmetric, but Axy = 2 and Ayx = 0",
    ),
    "biquadratic of one half": (
        {"system__spin": 0.5, **terms(RING, {"type": "biquadratic", "lattice": "ring"})},
        r"system.terms.1: \(S_j . S_k\)\^2 of two spins 1/2 is 3/16",
    ),
    "no lattice": (terms({"type": "biquadratic"}), "system.terms.0.lattice: missing key"),
    "row": (terms({"type": "biquadratic", "list": [[0, 1, 2, 3]]}), r"list.0: expected \[j, k, B\], found 4"),
    "far": (terms({"type": "biquadratic", "list": [[0, 4, 1]]}), "list.0: site 4 does not exist"),
    "twice": (
        terms({"type": "bond_matrix", "matrix": np.eye(9).tolist(), "list": [[0, 1], [1, 0]]}),
        r"system.terms.0.list.1: the pair \(0, 1\) is listed twice",
    ),
    "no matrix": (
        terms({"type": "bond_matrix", "lattice": "ring"}),
        "system.terms.0: give either matrix or file",
    ),
    "ragged": (
        terms(
            {
                "type": "bond_matrix",
                "matrix": [[1, 0, 0, 0], [0, 1], [1, 2, 3, 4], [0, 0, 0, 0]],
                "lattice": "ring",
            }
        ),
        "system.terms.0.matrix.1: expected 4 numbers, as many as rows, found 2",
    ),
    "small": (
        terms({"type": "bond_matrix", "matrix": np.eye(4).tolist(), "lattice": "ring"}),
        "system.terms.0: bond_matrix: expected a matrix of 9 x 9 numbers for spins 1 and 1, found 4 x 4",
    ),
    "skew": (
        terms({"type": "bond_matrix", "matrix": np.tri(9).tolist(), "lattice": "ring"}),
        r"system.terms.0: bond_matrix: the matrix is not Hermitian: element \[0, 1\] is 0\+0j, element \[1, 0\] 1\+0j",
    ),
    "Sz": (
        {"sector": {"sz": 0}, **terms({"type": "anisotropy", "E": 1.0})},
        "sector: total Sz is not conserved: the term at site 0 changes the total Sz by 2",
    ),
    "parity": (
        {
            "sector": {"parity": "even"},
            **terms({"type": "anisotropy", "A": [[1, 1, 1], [1, 0, 1], [1, 1, 0]]}),
        },
        "parity of the number of spins down is conserved along no axis",
    ),
    "momentum": (
        {"system__spin": [1, 1, 2, 1], "sector": {"sz": 0, "momentum": 0}},
        "not invariant under the shift by one site: the spin of site 1 is 1, that of site 2, to which it goes, 2",
    ),
}


QUENCH = {
    "system": BASE["system"],
    "initial": {"type": "basis", "m": [1, 0, -1, 0]},
    "evolve": {"t_final": 1.0},
    "observe": [{"sz": "all"}],
}
STARTS = {
    "large m": ({"initial__m": [1, 0, 2, 0]}, "initial.m.2: Sz of a spin 1 is 1, 0, ..., -1; found 2"),
    "half m": ({"initial__m": [1, 0.5, 0, 0]}, "initial.m.1: Sz of a spin 1 is 1, 0, ..., -1; found 0.5"),
    "short m": ({"initial__m": [1, 0]}, "initial.m: 2 values, but system.spins = 4"),
    "autocorrelation": (
        {"observe": [{"autocorrelation": 0}]},
        "observe.0.autocorrelation: of larger spins the a1 state holds the projector on m = S, which is not Sz",
    ),
    "bonds of characters": (
        {
            "evolve": {"t_final": 1.0, "integrator": "bm4", "accuracy": 1e-3},
            "initial__m": [0, 0, 0, 0],
            "sector": {"sz": 0, "momentum": 0},
        },
        "evolve.integrator: bm4 goes bond by bond, and a single bond has not the symmetries",
    ),
    "driven bonds": (
        {
            "evolve": {"t_final": 1.0, "integrator": "bm4", "accuracy": 1e-3},
            **terms(RING, {"type": "field", "values": 1.0, "profile": {"type": "cosine", "omega": 1.0}}),
        },
        "evolve.integrator: bm4 goes bond by bond here, which takes a constant H",
    ),
    "other sz": ({"sector": {"sz": 1}}, "sector: the initial state has Sz = 0, the sector Sz = 1"),
}


CHARACTERS = {
    "momentum, reflection and inversion of one Sz": (
        {"initial__m": [0, 0, 0, 0]},
        {"momentum": 0, "reflection": 1, "inversion": 1},
    ),
    "inversion of Sz = 0": ({"initial__m": [0, 0, 0, 0]}, {"sz": 0, "inversion": 1}),
    "parity along x": (
        {
            "initial": {"type": "product", "theta": [0.5 * np.pi] * 4, "phi": 0.0},
            **terms({**RING, "lattice": "ring"}, {"type": "field", "axis": "x", "values": 0.7}),
        },
        {"parity": "even", "momentum": 0},
    ),
}


@pytest.mark.parametrize(("changes", "sector"), CHARACTERS.values(), ids=list(CHARACTERS))
def test_a_state_of_larger_spins_in_a_character(run, changes, sector):
    deck = change(QUENCH, changes) | {
        "observe": [
            {"sx": "all"},
            {"correlator": ["xx", "zz", "yz"], "pairs": [[0, 1]]},
            {"entropy": {"sites": [0]}},
        ]
    }
    deck["evolve"] = {"t_final": 1.0, "accuracy": 1e-9}
    one, other = run(**deck, sector="full"), run(**deck, sector=sector)
    for name in ("sx", "correlator_xx", "correlator_zz", "correlator_yz", "entropy"):
        np.testing.assert_allclose(other[name], one[name], atol=1e-8)


def test_a_start_beside_its_character(trotter):
    deck = QUENCH | {"sector": {"sz": 0, "momentum": 1}, "initial": {"type": "basis", "m": [0, 0, 0, 0]}}
    with pytest.raises(
        DeckError, match="only 0 of the initial state basis lies in Sz = 0, momentum 2 pi 1/4"
    ):
        trotter.run(**deck)


@pytest.mark.parametrize(("changes", "message"), STARTS.values(), ids=list(STARTS))
def test_what_a_larger_spin_in_time_cannot_be(trotter, changes, message):
    trotter.load(**QUENCH)
    with pytest.raises(DeckError, match=message):
        trotter.load(**change(QUENCH, changes))


@pytest.mark.parametrize(("changes", "message"), ERRORS.values(), ids=list(ERRORS))
def test_what_larger_spins_cannot_be(trotter, changes, message):
    with pytest.raises(DeckError, match=message):
        trotter.load(**change(BASE, changes))


@pytest.mark.parametrize("charged", [True, False])
def test_echoes_and_correlations_in_time_of_larger_spins(run, charged):
    """Against exponentials of dense matrices: ways back, with a field and without; W and V are 2 Sz."""
    sizes, t = [1.0, 0.5, 1.5], 0.7
    terms = [
        {"type": "heisenberg", "lattice": "chain", "J": 1.0},
        {"type": "anisotropy", "D": 0.4, "sites": [0, 2]},
    ]
    if not charged:
        terms.append({"type": "field", "axis": "x", "values": 0.6})
    field = {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.5]}
    given = {
        "system": {"spins": 3, "spin": sizes, "terms": terms},
        "initial": {"type": "basis", "m": [1, -0.5, 0.5]},
        "evolve": {"t_final": t, "outputs": 2, "accuracy": 1e-9},
    }
    S = oracle.spins((2, 1, 3))
    H = sum(S[j][a] @ S[j + 1][a] for j in range(2) for a in range(3))
    H = H + 0.4 * sum(S[j][2] @ S[j][2] for j in (0, 2))
    if not charged:
        H = H + 0.6 * sum(S[j][0] for j in range(3))
    other = H + sum(v * S[j][2] for j, v in enumerate(field["values"]))
    # site 0 is the fastest index, m = S first
    psi = np.eye(24)[0 + 3 * 1 + 6 * 1]
    U, back = expm(-1j * t * H), expm(1j * t * other)
    returned = back @ U @ psi
    results = run(**given, observe=[{"echo": {"sigma": [field], "local": [0, 2]}}])
    np.testing.assert_allclose(results["echo"][-1], abs(np.vdot(psi, returned)) ** 2, atol=1e-8)
    local = [2.0 * np.vdot(returned, S[j][2] @ returned).real for j in (0, 2)]
    np.testing.assert_allclose(results["echo_local"][-1], local, atol=1e-8)
    results = run(**given, observe=[{"echo": {"sigma": [field]}}, {"time_correlation": 2}])
    np.testing.assert_allclose(results["echo"][-1], abs(np.vdot(psi, returned)) ** 2, atol=1e-8)
    known = [np.vdot(U @ psi, S[j][2] @ U @ S[2][2] @ psi).real for j in range(3)]
    np.testing.assert_allclose(results["time_correlation"][-1], known, atol=1e-8)
    results = run(**given, observe=[{"otoc": {"w": 0, "v": [1, 2]}}])
    W = U.conj().T @ (2.0 * S[0][2]) @ U
    known = [np.vdot(psi, W @ (2.0 * S[v][2]) @ W @ (2.0 * S[v][2]) @ psi).real for v in (1, 2)]
    np.testing.assert_allclose(results["otoc"][-1], known, atol=1e-8)


UNLIKE = {"spins": 3, "spin": [1, 0.5, 1.5], "terms": [{"type": "heisenberg", "lattice": "chain", "J": 0.7}]}
AT_ONCE = {"t_final": 0.0, "outputs": 1}


def test_a_matrix_product_state_of_mixed_spins(trotter):
    g = np.random.default_rng(5)
    sizes, bonds = (3, 2, 4), (2, 3, 2, 2)
    A = [g.normal(size=(bonds[j], sizes[j], bonds[j + 1])) + 0j for j in range(3)]
    np.savez(trotter.folder / "m.npz", **{f"A{j}": tensor for j, tensor in enumerate(A)})
    found = trotter.run(
        system=UNLIKE, initial={"type": "mps", "file": "m.npz"}, evolve=AT_ONCE, observe=["state"]
    )
    # site 0 runs fastest
    expected = np.einsum("aib,bjc,cka->kji", *A).ravel()
    np.testing.assert_allclose(found.psi, expected / np.linalg.norm(expected), rtol=0, atol=1e-14)


def test_sites_up_among_random_phases(trotter):
    """The site that is up has m = S, the others are at infinite temperature: equal weights of all their states."""
    found = trotter.run(
        system=UNLIKE, initial={"type": "a1", "up": [2]}, evolve=AT_ONCE, observe=["state", {"sz": "all"}]
    )
    psi = found.psi.reshape(4, 2, 3)
    np.testing.assert_allclose(np.abs(psi[0]) ** 2, 1.0 / 6.0, rtol=0, atol=1e-14)
    assert not psi[1:].any()
    np.testing.assert_allclose(found.mean["sz"][-1], [0.0, 0.0, 1.5], rtol=0, atol=1e-14)


@pytest.mark.parametrize("sector", [{"sz": 1}, "full", {"parity": "even"}])
def test_the_overlap_with_a_file_in_any_space(trotter, sector):
    """The norm of the part in the space counts, not that of the space alone."""
    phi = np.random.default_rng(2).normal(size=(2, 24)).T @ [1.0, 1.0j]
    np.save(trotter.folder / "phi.npy", phi)
    found = trotter.run(
        system=UNLIKE,
        sector=sector,
        initial={"type": "basis", "m": [1, -0.5, 0.5]},
        evolve={"t_final": 1.1, "outputs": 2, "accuracy": 1e-11},
        observe=[{"fidelity": "phi.npy"}, "state"],
    )
    expected = abs(np.vdot(phi, found.psi)) ** 2 / np.vdot(phi, phi).real
    assert found.mean["fidelity"][-1] == pytest.approx(expected, abs=1e-13)
