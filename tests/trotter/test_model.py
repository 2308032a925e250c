"""Spin models: terms of a deck against the couplings of the references and against Kronecker products; every complaint."""

import itertools
import json
import math
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.errors import DeckError, FileError
from qsim.trotter import checks
from qsim.trotter.deck import couplings as blocks
from qsim.trotter.deck import lattices as cells
from qsim.trotter.deck.lattices import cells_of
from qsim.trotter.deck.rules import check_system
from qsim.trotter.lattices import bonds as lattices
from qsim.trotter.lattices.momenta import shifts
from qsim.trotter.model.hamiltonian import Hamiltonian, Model, build_hamiltonian, conserved, dense, energies
from qsim.trotter.model.models import Models
from qsim.trotter.model.profiles import factor
from qsim.trotter.sectors.symmetric import order_of

REFERENCE = Path(__file__).resolve().parents[1] / "reference_data" / "trotter.json"
REFERENCES = {r["name"]: r for r in json.loads(REFERENCE.read_text(encoding="utf-8"))["references"]}
PAULI = {
    "x": np.array([[0, 1], [1, 0]], complex),
    "y": np.array([[0, -1j], [1j, 0]]),
    "z": np.array([[1, 0], [0, -1]], complex),
}


def system(spins, *terms, **keys):
    return blocks.System.model_validate_json(json.dumps({"spins": spins, "terms": list(terms), **keys}))


def model(spins, *terms, seed=1, realisation=0, **keys):
    given = system(spins, *terms, **keys)
    assert not list(check_system(given))
    return build_hamiltonian(given, seed=seed, realisation=realisation).static


def complaints(spins, *terms, **keys):
    given = system(spins, *terms, **keys)
    found = list(check_system(given)) or checks.shells_of_terms(given.terms, given, "system.terms")
    return {finding.key: finding.message for finding in found}


def ring(**keys):
    return {"type": "heisenberg", "lattice": "ring", **keys}


def field(**keys):
    return {"type": "field", **keys}


def pairs_of(J):
    """Pairs that are coupled, with their couplings."""
    return {(int(j), int(k)): J[:, j, k].tolist() for j, k in np.argwhere(np.triu(J.any(axis=0)))}


def spin_operator(spins, site, axis):
    """S^a of one site as a Kronecker product: site 0 is the least significant bit, so the rightmost factor."""
    factors = [np.eye(2)] * spins
    factors[spins - 1 - site] = 0.5 * PAULI[axis]
    return reduce(np.kron, factors)


def kronecker(m):
    """H by its definition, one product at a time."""
    S = [[spin_operator(m.spins, site, axis) for site in range(m.spins)] for axis in "xyz"]
    H = np.zeros((2**m.spins,) * 2, complex)
    for a in range(3):
        for j in range(m.spins):
            H += m.h[a, j] * S[a][j]
            for k in range(j + 1, m.spins):
                H += m.J[a, j, k] * S[a][j] @ S[a][k]
    return H


def random_model(spins, seed=0):
    generator = np.random.default_rng([seed, spins])
    J = np.triu(generator.uniform(-1, 1, (3, spins, spins)), 1)
    return Model(spins, J + J.transpose(0, 2, 1), generator.uniform(-1, 1, (3, spins)))


# --- against the references -----------------------------------------------------------------------

TERMS = {
    "pair_heisenberg": [{"type": "heisenberg", "lattice": "chain", "J": 1.3}],
    "precession_tilted_3": [
        field(axis="x", values=[0.7, 0.0, -0.4]),
        field(axis="y", values=[-0.3, 1.1, 0.25]),
        field(axis="z", values=[0.5, 0.2, -0.9]),
    ],
    "heisenberg_ring10_neel": [ring()],
    "dipolar_chain10_a1": [{"type": "dipolar", "lattice": "chain"}],
    "heisenberg_dq_ring10": [ring(), {"type": "double_quantum", "lattice": "ring", "shells": [1, 2, 3]}],
    "loschmidt_xx10_sigma_zz": [{"type": "xx", "lattice": "ring"}],
    "xx_chain12_neel": [{"type": "xx", "lattice": "chain"}],
    "xx_chain20_single": [{"type": "xyz", "lattice": "chain", "Jx": 1.0, "Jy": 1.0}],
    "xy_field_chain12": [
        {"type": "xyz", "lattice": "chain", "Jx": 1.0, "Jy": 0.3},
        field(values=0.4),
    ],
}


def reference_model(reference):
    spins = reference["N"]
    J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
    for j, k, *values in reference["couplings"]:
        J[:, j, k] = J[:, k, j] = values
    for a, axis in enumerate("xyz"):
        h[a] = (reference.get("fields") or {}).get(axis, 0.0)
    return Model(spins, J, h)


@pytest.mark.parametrize("name", TERMS)
def test_terms_give_the_couplings_of_the_references(name):
    expected = reference_model(REFERENCES[name])
    found = model(expected.spins, *TERMS[name])
    np.testing.assert_allclose(found.J, expected.J, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(found.h, expected.h, rtol=1e-14)


def test_listed_couplings_are_those_of_the_reference():
    reference = REFERENCES["random_xyz8_product"]
    fields = [field(axis=axis, values=values) for axis, values in reference["fields"].items()]
    found = model(8, {"type": "pairs", "list": reference["couplings"]}, *fields)
    expected = reference_model(reference)
    assert np.array_equal(found.J, expected.J)
    assert np.array_equal(found.h, expected.h)


# --- matrices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spins", [1, 2, 3, 4, 5, 6])
def test_dense_is_the_kronecker_product(spins):
    m = random_model(spins)
    np.testing.assert_allclose(dense(m), kronecker(m), atol=1e-14)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_energies_are_those_of_one_axis(axis):
    m = random_model(4)
    J, h = np.zeros_like(m.J), np.zeros_like(m.h)
    J[axis], h[axis] = m.J[axis], m.h[axis]
    along_z = Model(4, np.stack([0 * J[0], 0 * J[0], J[axis]]), np.stack([0 * h[0], 0 * h[0], h[axis]]))
    np.testing.assert_allclose(energies(m, axis), np.diagonal(kronecker(along_z)).real, atol=1e-14)
    spectrum = np.linalg.eigvalsh(kronecker(Model(4, J, h)))
    np.testing.assert_allclose(np.sort(energies(m, axis)), spectrum, atol=1e-13)


@given(spins=st.integers(2, 5), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_bounds_hold_the_spectrum(spins, seed):
    m = random_model(spins, seed)
    low, high = m.bounds
    spectrum = np.linalg.eigvalsh(dense(m))
    assert low <= spectrum[0] + 1e-12
    assert high >= spectrum[-1] - 1e-12


def test_bounds_of_a_pair_and_of_a_field_are_exact():
    assert model(2, {"type": "heisenberg", "lattice": "chain", "J": 2.0}).bounds == (-1.5, 0.5)
    low, high = model(1, field(axis="x", values=3.0), field(axis="y", values=4.0)).bounds
    assert (low, high) == (-2.5, 2.5)


def test_large_matrices_are_refused():
    with pytest.raises(ValueError, match="13 spins is refused"):
        dense(Model.zero(13))


CONSERVED = [
    ([ring()], "xyz"),
    ([ring(), field(axis="x", values=0.1)], "x"),
    ([{"type": "xx", "lattice": "ring"}], "z"),
    ([{"type": "xx", "lattice": "ring"}, field(axis="y", values=0.1)], ""),
    ([{"type": "ising", "lattice": "ring", "axis": "y"}], "y"),
    ([{"type": "double_quantum", "lattice": "ring"}], ""),
    ([{"type": "dipolar", "lattice": "chain"}], "z"),
    ([{"type": "xxz", "lattice": "ring", "Jz": 0.5}], "z"),
]


@pytest.mark.parametrize(("terms", "axes"), CONSERVED)
def test_conserved_magnetisation(terms, axes):
    m = model(4, *terms)
    assert conserved(m) == tuple(axes)
    H = dense(m)
    for axis in "xyz":
        total = sum(spin_operator(4, site, axis) for site in range(4))
        assert (np.abs(H @ total - total @ H).max() < 1e-12) == (axis in axes)


def test_a_driven_field_breaks_what_it_breaks():
    profile = {"type": "cosine", "omega": 1.0}
    both = build_hamiltonian(system(4, ring(), field(axis="x", values=0.1, profile=profile)), seed=1)
    assert conserved(both) == ("x",)


# --- conventions ----------------------------------------------------------------------------------


def test_pauli_operators_count_four_and_two_times():
    plain = model(4, ring(), field(axis="y", values=0.3))
    pauli = model(4, ring(), field(axis="y", values=0.3), operators="pauli")
    assert np.array_equal(pauli.J, 4 * plain.J)
    assert np.array_equal(pauli.h, 2 * plain.h)


def test_the_full_sum_counts_pairs_twice():
    plain, full = (model(4, ring(), field(values=0.3), sum=kind) for kind in ("pairs", "full"))
    assert np.array_equal(full.J, 2 * plain.J)
    assert np.array_equal(full.h, plain.h)


def test_terms_add_up():
    both = model(4, ring(J=1.0), ring(J=0.5), field(values=1.0), field(values=[0, 0, 0, 1]))
    assert np.array_equal(both.J, 1.5 * model(4, ring()).J)
    assert both.h[2].tolist() == [1, 1, 1, 2]


def test_a_model_refuses_what_is_no_coupling():
    J = np.zeros((3, 2, 2))
    with pytest.raises(ValueError, match="do not fit 2 spins"):
        Model(2, J, np.zeros((3, 3)))
    J[0, 0, 1] = 1.0
    with pytest.raises(ValueError, match="not symmetric"):
        Model(2, J, np.zeros((3, 2)))
    J[0] = np.eye(2)
    with pytest.raises(ValueError, match="coupled to itself"):
        Model(2, J, np.zeros((3, 2)))


def test_arithmetic_of_models():
    m = random_model(3)
    np.testing.assert_allclose(dense(2 * m - m), dense(m), atol=1e-14)
    assert np.array_equal((-m).J, -m.J)
    assert m.axes == (0, 1, 2)
    fields = model(3, ring(), field(axis="x", values=1.0))
    assert fields.axes == (0, 1, 2)
    ising = model(3, {"type": "ising", "lattice": "ring"}, field(axis="x", values=1.0))
    assert ising.axes == (0, 2)
    assert ising.coupled_axes == (2,)
    assert np.array_equal(ising.restricted([0, 2]).J, ising.J[:, [0, 2]][:, :, [0, 2]])
    assert ising.pairs().tolist() == [[0, 1], [0, 2], [1, 2]]


# --- kinds of terms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "components"),
    [
        ({"type": "heisenberg", "J": 2.0}, [2, 2, 2]),
        ({"type": "xxx", "J": 2.0}, [2, 2, 2]),
        ({"type": "xx", "J": 2.0}, [2, 2, 0]),
        ({"type": "xxz", "Jxy": 2.0, "Jz": 0.5}, [2, 2, 0.5]),
        ({"type": "xxz", "J": 2.0, "delta": 0.5}, [2, 2, 1]),
        ({"type": "xyz", "Jx": 1.0, "Jy": 2.0, "Jz": 3.0}, [1, 2, 3]),
        ({"type": "ising", "J": 2.0}, [0, 0, 2]),
        ({"type": "ising", "axis": "x"}, [1, 0, 0]),
        ({"type": "double_quantum", "J": 2.0}, [2, -2, 0]),
        ({"type": "dipolar", "J": 2.0}, [-1, -1, 2]),
        ({"type": "power_law", "alpha": 3.0, "J": 2.0}, [0, 0, 2]),
        ({"type": "power_law", "alpha": 3.0, "model": "xx"}, [1, 1, 0]),
    ],
)
def test_components_of_a_pair(term, components):
    assert pairs_of(model(2, {"lattice": "chain", **term}).J) == {(0, 1): components}


def test_shells_and_their_strengths():
    J = model(6, ring(shells=[1, 3], J=[1.0, 0.25])).J[2]
    assert J[0].tolist() == [0, 1, 0, 0.25, 0, 1]


def test_power_laws_reach_every_pair():
    J = model(5, {"type": "power_law", "lattice": "chain", "alpha": 2.0, "J": 3.0}).J[2]
    assert J[0, 1:].tolist() == [3 / r**2 for r in (1, 2, 3, 4)]
    on_ring = model(5, ring(alpha=1.0)).J[0]
    assert on_ring[0, 1:].tolist() == [1, 0.5, 0.5, 1]
    only_nearest = model(5, ring(alpha=1.0, shells=[1])).J[0]
    assert only_nearest[0, 1:].tolist() == [1, 0, 0, 1]


def test_power_laws_of_positions(tmp_path):
    places = [[0.0, 0.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]
    term = {"type": "power_law", "alpha": 1.0, "model": "heisenberg"}
    J = model(3, {**term, "positions": places}).J[1]
    np.testing.assert_allclose([J[0, 1], J[0, 2]], [0.2, 0.5])
    (tmp_path / "r.csv").write_text("x,y,z\n" + "\n".join(",".join(map(str, r)) for r in places))
    assert np.array_equal(model(3, {**term, "positions": str(tmp_path / "r.csv")}).J[1], J)


def test_dipolar_couplings_depend_on_the_angle():
    r = 2.0
    for angle in (0.0, math.acos(1 / math.sqrt(3)), 1.2):
        place = [r * math.sin(angle), 0.0, r * math.cos(angle)]
        d = model(2, {"type": "dipolar", "positions": [[0, 0, 0], place], "coupling": 5.0}).J[:, 0, 1]
        expected = 5.0 / r**3 * (1 - 3 * math.cos(angle) ** 2)
        np.testing.assert_allclose(d, [-0.5 * expected, -0.5 * expected, expected], atol=1e-14)
    tilted = {"type": "dipolar", "positions": [[0, 0, 0], [1, 1, 0]], "axis": [1.0, 1.0, 0.0]}
    np.testing.assert_allclose(model(2, tilted).J[2, 0, 1], -2 / 2**1.5)
    near = model(4, {"type": "dipolar", "lattice": "chain", "cutoff": 2.0}).J[2]
    assert near[0].tolist() == [0, 1, 1 / 8, 0]
    assert model(4, {"type": "dipolar", "lattice": "chain", "shells": [2]}).J[2, 0].tolist() == [
        0,
        0,
        0.125,
        0,
    ]


def test_fields():
    formula = model(4, field(axis="x", values="cos(pi*j)")).h
    np.testing.assert_allclose(formula[0], [1, -1, 1, -1], atol=1e-15)
    assert not formula[1:].any()
    assert model(4, field(values=0.5, sites=[1, 3])).h[2].tolist() == [0, 0.5, 0, 0.5]
    assert model(4, field(h=[0.5, 2.0], sites=[3, 1])).h[2].tolist() == [0, 2, 0, 0.5]


def test_fields_and_pairs_from_files(tmp_path):
    (tmp_path / "h.csv").write_text("h\n0.1\n0.2\n# comment\n0.3\n")
    assert model(3, field(file=str(tmp_path / "h.csv"))).h[2].tolist() == [0.1, 0.2, 0.3]
    (tmp_path / "J.csv").write_text("j,k,Jx,Jy,Jz\n0,2,1,2,3\n1,2,4,5,6\n")
    found = pairs_of(model(3, {"type": "pairs", "file": str(tmp_path / "J.csv")}).J)
    assert found == {(0, 2): [1, 2, 3], (1, 2): [4, 5, 6]}
    (tmp_path / "one.csv").write_text("0 2 1.5\n")
    found = pairs_of(model(3, {"type": "pairs", "file": str(tmp_path / "one.csv")}).J)
    assert found == {(0, 2): [1.5, 1.5, 1.5]}


def test_matrices_from_files(tmp_path):
    J = random_model(3).J
    np.savez(tmp_path / "xyz.npz", Jx=J[0], Jy=J[1], Jz=J[2])
    np.savez(tmp_path / "stack.npz", J=J)
    np.savez(tmp_path / "same.npz", J=J[0])
    np.save(tmp_path / "one.npy", J[0])
    np.savetxt(tmp_path / "one.csv", J[0], delimiter=",", fmt="%.17g")

    def read(name, **keys):
        return model(
            3, {"type": "pairs", **{k: str(tmp_path / v) if k != "model" else v for k, v in keys.items()}}
        ).J

    np.testing.assert_array_equal(read("", file="xyz.npz"), J)
    np.testing.assert_array_equal(read("", file="stack.npz"), J)
    np.testing.assert_array_equal(read("", file="same.npz"), np.stack([J[0]] * 3))
    for name in ("one.npy", "one.csv", "same.npz"):
        np.testing.assert_array_equal(read("", matrix=name, model="xx"), np.stack([J[0], J[0], 0 * J[0]]))
    np.testing.assert_array_equal(read("", matrix="one.npy", model="ising")[2], J[0])


def test_the_full_sum_adds_both_halves_of_a_matrix(tmp_path):
    np.save(tmp_path / "J.npy", np.array([[0.0, 1.0], [0.5, 0.0]]))
    J = model(2, {"type": "pairs", "matrix": str(tmp_path / "J.npy")}, sum="full").J
    assert pairs_of(J) == {(0, 1): [1.5, 1.5, 1.5]}


# --- lattices -------------------------------------------------------------------------------------


def lattice(**keys):
    return system(1, {"type": "xx", "lattice": keys}).terms[0].lattice


def neighbours(block, spins, shells=(1,)):
    return {bond[:2] for bond in lattices.bonds(block, spins, shells)}


def test_chains_and_rings():
    assert neighbours(lattice(type="chain"), 4) == {(0, 1), (1, 2), (2, 3)}
    assert neighbours(lattice(type="ring"), 4) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert neighbours(lattice(type="ring"), 4, (2,)) == {(0, 2), (1, 3)}  # once, though both ways are as long
    assert neighbours(lattice(type="all"), 3) == {(0, 1), (0, 2), (1, 2)}


def brute_force(points, shifts):
    """Distances of all pairs to the nearest image."""
    return {
        (j, k): min(math.dist(points[j], [a + b for a, b in zip(points[k], s, strict=True)]) for s in shifts)
        for j, k in itertools.combinations(range(len(points)), 2)
    }


COORDINATION = [("square", 9, 4), ("triangular", 9, 6), ("honeycomb", 18, 3), ("kagome", 27, 4)]
COORDINATION += [("cubic", 27, 6), ("bcc", 27, 8), ("fcc", 27, 12), ("pyrochlore", 32, 6)]


@pytest.mark.parametrize(("kind", "spins", "number"), COORDINATION)
def test_every_site_of_a_torus_has_the_neighbours_of_its_lattice(kind, spins, number):
    """Coordination numbers of crystallography, at unit distance, by the places of the sites alone, too."""
    block = lattice(type=kind, periodic=True, images="all")
    found = [bond for bond in lattices.bonds(block, spins) if bond.shell == 1]
    assert all(bond.distance == pytest.approx(1.0, rel=1e-12) for bond in found)
    ways = np.zeros(spins, int)
    for bond in found:
        ways[[bond.j, bond.k]] += bond.ways
    assert set(ways) == {number}
    # without periodic directions every pair at unit distance is a bond, and no two sites are nearer
    open_block = lattice(type=kind)
    places = np.array(lattices.positions(open_block, spins))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[np.triu_indices(spins, 1)].min() == pytest.approx(1.0, rel=1e-12)
    pairs = {(int(j), int(k)) for j, k in np.argwhere(np.triu(np.abs(apart - 1.0) < 1e-9))}
    assert neighbours(open_block, spins) == pairs


def test_cells_that_do_not_fit_are_told():
    assert cells_of(lattice(type="kagome"), 13) == "13 spins are no whole cells of 3 sites"
    assert cells_of(lattice(type="kagome"), 9) == "3 cells of 3 sites make no square; give Lx and Ly"
    assert cells_of(lattice(type="pyrochlore"), 8) == "2 cells of 4 sites make no cube; give Lx, Ly and Lz"
    assert cells_of(lattice(type="cubic", Lx=2, Ly=3), 12) == (2, 3, 2)
    wrong = cells_of(lattice(type="honeycomb", Lx=2, Ly=3), 16)
    assert wrong == "Lx Ly = 2 x 3 = 6 cells of 2 sites, but system.spins = 16"


@pytest.mark.parametrize("periodic", [False, True, [True, False]])
@pytest.mark.parametrize("kind", ["square", "triangular"])
def test_planes_against_brute_force(kind, periodic):
    Lx, Ly = 4, 3
    along, up = periodic if isinstance(periodic, list) else (periodic, periodic)
    lean, height = (0.5, math.sqrt(3) / 2) if kind == "triangular" else (0.0, 1.0)
    points = [(x + lean * y, height * y) for y in range(Ly) for x in range(Lx)]
    shifts = [
        (a * Lx + b * lean * Ly, b * height * Ly)
        for a in (range(-3, 4) if along else (0,))
        for b in (range(-3, 4) if up else (0,))
    ]
    block = lattice(type=kind, Lx=Lx, Ly=Ly, periodic=periodic)
    expected = brute_force(points, shifts)
    for bond in lattices.bonds(block, Lx * Ly):
        assert bond.distance == pytest.approx(expected[bond.j, bond.k], rel=1e-12)
    degree = {"square": 4, "triangular": 6}[kind]
    counts = np.bincount(np.array(sorted(neighbours(block, 12))).ravel(), minlength=12)
    assert counts.max() == degree
    if periodic is True and kind == "triangular":
        assert counts.min() == degree


def summed(kind, Lx, Ly):
    """How often every pair is joined by bonds from each site to its neighbours along x and y (and x - y) of a torus."""
    steps = {"square": [(1, 0), (0, 1)], "triangular": [(1, 0), (0, 1), (-1, 1)], "ring": [(1, 0)]}[kind]
    steps = [(dx, dy) for dx, dy in steps if (Lx > 1 or not dx) and (Ly > 1 or not dy)]
    counts = {}
    for x, y in itertools.product(range(Lx), range(Ly)):
        for dx, dy in steps:
            pair = sorted((x + Lx * y, (x + dx) % Lx + Lx * ((y + dy) % Ly)))
            counts[tuple(pair)] = counts.get(tuple(pair), 0) + 1
    return counts


@pytest.mark.parametrize(
    ("kind", "Lx", "Ly"),
    [
        ("ring", 2, 1),
        ("ring", 5, 1),
        ("square", 2, 3),
        ("square", 2, 2),
        ("square", 3, 3),
        ("triangular", 3, 2),
    ],
)
def test_bonds_across_periodic_directions(kind, Lx, Ly):
    """images: one joins two sites once, all as often as a sum over all sites and directions does."""
    keys = {"type": kind} if kind == "ring" else {"type": kind, "Lx": Lx, "Ly": Ly, "periodic": True}
    expected = summed(kind, Lx, Ly)
    for images in ("one", "all"):
        spec = system(Lx * Ly, {"type": "heisenberg", "lattice": keys | {"images": images}, "J": 0.7})
        J = build_hamiltonian(spec, seed=0).at(0.0).J[2]
        found = {(int(j), int(k)): J[j, k] for j, k in np.argwhere(np.triu(J))}
        counted = {pair: 0.7 * (count if images == "all" else 1) for pair, count in expected.items()}
        assert found == pytest.approx(counted, rel=1e-14)
        notes = Models(spec, 0).notes
        assert bool(notes) == (max(expected.values()) > 1)
        assert all(f"by {max(expected.values())} ways round" in note for note in notes)


def test_directed_bonds_of_tori():
    """A coupling of a site with the next ones along x and y of a torus has the shifts of the torus."""
    keys = {"type": "square", "Lx": 3, "Ly": 4, "periodic": True}
    spec = system(12, {"type": "dm", "lattice": keys, "D": 0.4})
    D = build_hamiltonian(spec, seed=0).at(0.0).cross[0, 1]
    expected = np.zeros((12, 12))
    for x, y in itertools.product(range(3), range(4)):
        for to in ((x + 1) % 3 + 3 * y, x + 3 * ((y + 1) % 4)):
            expected[x + 3 * y, to] += 0.4
            expected[to, x + 3 * y] -= 0.4
    np.testing.assert_allclose(D, expected, rtol=0, atol=1e-15)
    both = system(
        4, {"type": "dm", "lattice": {"type": "square", "periodic": True, "images": "all"}, "D": 0.4}
    )
    assert build_hamiltonian(both, seed=0).at(0.0).cross is None  # a bond each way: they cancel


def test_shapes_are_completed():
    assert cells_of(lattice(type="square"), 9) == (3, 3)
    assert cells_of(lattice(type="square", Lx=4), 8) == (4, 2)
    assert cells_of(lattice(type="square", Ly=4), 8) == (2, 4)


def test_ladders():
    assert neighbours(lattice(type="ladder"), 4) == {(0, 1), (2, 3), (0, 2), (1, 3)}
    assert neighbours(lattice(type="ladder", bonds="rungs"), 4) == {(0, 1), (2, 3)}
    assert neighbours(lattice(type="ladder", bonds="legs"), 6) == {(0, 2), (2, 4), (1, 3), (3, 5)}
    assert (0, 4) in neighbours(lattice(type="ladder", periodic=True), 6)


@pytest.mark.parametrize("kind", ["chain", "ring", "square", "triangular", "ladder"])
def test_neighbours_lie_at_unit_distance(kind):
    block = lattice(type=kind)
    places = np.array(lattices.positions(block, 16))
    for j, k in neighbours(block, 16):
        assert np.linalg.norm(places[j] - places[k]) == pytest.approx(1.0)
    assert lattices.distances_of_shells(block, 16)[0] == pytest.approx(1.0)


def test_no_positions_and_no_shells_without_a_lattice():
    with pytest.raises(ValueError, match="has no positions"):
        lattices.positions(lattice(type="all"), 3)
    with pytest.raises(
        ValueError, match=r"shell 3 does not exist: ring of 4 sites has shells 1 to 2 \(distances 1, 2\)"
    ):
        lattices.bonds(lattice(type="ring"), 4, [3])


# --- disorder -------------------------------------------------------------------------------------


def disordered(realisation=0, seed=1, **random):
    return model(12, field(random=random), seed=seed, realisation=realisation).h[2]


def test_disorder_is_bounded_and_centred():
    box = np.concatenate([disordered(r, kind="box", width=0.5) for r in range(100)])
    assert np.abs(box).max() <= 0.25
    assert np.std(box) == pytest.approx(0.5 / math.sqrt(12), rel=0.05)
    assert abs(np.mean(box)) < 0.02
    strength = np.concatenate([disordered(r, kind="box", W=3.0) for r in range(100)])
    assert 2.9 < np.abs(strength).max() <= 3.0
    normal = np.concatenate([disordered(r, kind="normal", sigma=2.0) for r in range(100)])
    assert np.std(normal) == pytest.approx(2.0, rel=0.06)
    assert set(np.abs(disordered(kind="binary", strength=0.7))) == {0.7}


def test_disorder_depends_on_seed_and_realisation_only():
    assert np.array_equal(disordered(kind="box", W=1.0, seed=1), disordered(kind="box", W=1.0, seed=1))
    first = model(4, field(random={"kind": "box", "W": 1.0, "seed": 7})).h[2]
    second = model(4, ring(), field(random={"kind": "box", "W": 1.0, "seed": 7}), seed=99).h[2]
    assert np.array_equal(first, second)  # its own seed: neither the run's seed nor the place matters
    free = {"random": {"kind": "box", "W": 1.0}}
    drawn = [
        model(4, field(**free)).h[2],
        model(4, field(**free), seed=2).h[2],
        model(4, field(**free), realisation=1).h[2],
        model(4, ring(), field(**free)).h[2],
        model(4, field(axis="x", **free)).h[0],
        first,
    ]
    for a, b in itertools.combinations(drawn, 2):
        assert not np.array_equal(a, b)


def test_a_number_belongs_to_its_site_and_pair():
    random = {"kind": "normal", "sigma": 1.0, "seed": 3}
    everywhere = model(6, field(random=random)).h[2]
    some = model(6, field(random=random, sites=[4, 1])).h[2]
    assert some.tolist() == [0, everywhere[1], 0, 0, everywhere[4], 0]
    shells = model(6, ring(random=random, J=0.0, shells=[1, 2])).J[0]
    one = model(6, ring(random=random, J=0.0, shells=[2])).J[0]
    assert one[0, 2] == shells[0, 2] != 0
    assert np.array_equal(field_values(random), everywhere)


def field_values(random):
    return model(6, field(values={"random": random})).h[2]


def test_random_couplings_add_to_the_strength():
    random = {"kind": "box", "W": 0.1, "seed": 3}
    J = model(6, ring(J=2.0, random=random)).J
    strengths = J[0][J[0] != 0]
    assert strengths.size == 12
    assert len(set(strengths)) == 6
    assert np.abs(strengths - 2.0).max() <= 0.1
    scaled = model(6, {"type": "xyz", "lattice": "ring", "Jx": 1.0, "Jz": 3.0, "random": random}).J
    np.testing.assert_allclose(scaled[2], 3 * scaled[0])
    np.testing.assert_allclose(scaled[0][scaled[0] != 0] - 1.0, strengths - 2.0)


def test_other_terms_have_other_disorder():
    given = system(4, field(random={"kind": "box", "W": 1.0}))
    own = build_hamiltonian(given, seed=1).static.h
    sigma = build_hamiltonian(given, seed=1, terms=given.terms, first=1).static.h
    assert not np.array_equal(own, sigma)


# --- profiles -------------------------------------------------------------------------------------


def profile(**keys):
    return factor(system(1, field(values=1.0, profile=keys)).terms[0].profile)


def test_profiles(tmp_path):
    assert factor(None)(3.0) == 1.0
    assert profile(type="constant", value=2.0)(3.0) == 2.0
    up = profile(type="ramp", duration=4.0)
    assert [up(t) for t in (-1, 0, 1, 4, 9)] == [0, 0, 0.25, 1, 1]
    down = profile(type="ramp", t0=1.0, t1=3.0, start=2.0, end=-2.0, shape="smooth")
    assert [down(t) for t in (0, 2, 5)] == pytest.approx([2, 0, -2])
    assert down(1.5) == pytest.approx(2 - 4 * math.sin(math.pi / 8) ** 2)
    wave = profile(type="cosine", omega=2.0, amplitude=3.0, phase=0.5, offset=1.0)
    assert wave(0.7) == pytest.approx(1 + 3 * math.cos(1.9))
    table = profile(type="table", points=[[0, 1], [1, 3], [3, -1]])
    assert [table(t) for t in (-1, 0, 0.5, 1, 2, 3, 9)] == [1, 1, 2, 3, 1, -1, -1]
    (tmp_path / "f.csv").write_text("t,f\n0,1\n1,3\n3,-1\n")
    read = profile(type="table", file=str(tmp_path / "f.csv"))
    assert [read(t) for t in (-1, 0.5, 2)] == [1, 2, 1]
    assert profile(type="expression", value="t^2 + 1")(3.0) == 10.0


def test_a_driven_hamiltonian():
    wave = {"type": "cosine", "omega": 0.6}
    turning = {"type": "cosine", "omega": 0.6, "phase": -0.5 * math.pi}
    given = system(
        2,
        ring(lattice="chain"),
        field(values=0.9, profile={"type": "constant", "value": 2.0}),
        field(axis="x", values=0.35, profile=wave),
        field(axis="y", values=0.35, profile=turning),
    )
    H = build_hamiltonian(given, seed=1)
    assert not H.is_static
    assert H.static.h[2].tolist() == [1.8, 1.8]
    now = H.at(1.3)
    np.testing.assert_allclose(now.h[:, 0], [0.35 * math.cos(0.78), 0.35 * math.sin(0.78), 1.8])
    mean = H.mean((0.0, 1.3), (0.75, -0.25))
    np.testing.assert_allclose(mean.h, 0.75 * H.at(0.0).h - 0.25 * now.h)
    np.testing.assert_allclose(mean.J, 0.5 * now.J)
    assert H.envelope.axes == (0, 1, 2)
    assert H.restricted([0]).spins == 1
    assert Hamiltonian(now).is_static
    assert not (Hamiltonian(now) + H).is_static
    assert np.array_equal((H + Hamiltonian(now)).at(1.3).h, 2 * now.h)


# --- complaints -----------------------------------------------------------------------------------

WRONG = [
    (
        [{"type": "pairs", "list": [[0, 1, 1], [1, 0, 2]]}],
        "0.list.1",
        r"the pair \(0, 1\) is listed twice.* 0 and 1",
    ),
    ([{"type": "pairs", "list": [[2, 2, 1]]}], "0.list.0", "site 2 is coupled to itself"),
    ([{"type": "pairs", "list": [[0, 4, 1]]}], "0.list.0", "site 4 does not exist: 4 spins are sites 0 to 3"),
    ([{"type": "pairs", "list": [[0, 0.5, 1]]}], "0.list.0", "site 0.5 does not exist"),
    ([{"type": "pairs", "list": [[-1, 0, 1]]}], "0.list.0", "site -1 does not exist"),
    ([{"type": "pairs", "list": [[0, 1, 1, 1]]}], "0.list.0", "found 4 numbers"),
    ([{"type": "pairs"}], "0", "exactly one of list, file and matrix; found none"),
    ([{"type": "pairs", "list": [[0, 1, 1]], "model": "xx"}], "0.model", "model belongs to matrix"),
    ([{"type": "xx"}], "0.lattice", "missing key"),
    ([ring(shells=[1, 1])], "0.shells", "duplicate shell in"),
    ([ring(shells=[3])], "0.shells", "shell 3 does not exist"),
    ([ring(shells=[1, 2], J=[1.0])], "0.J", "1 strengths for 2 shells"),
    ([ring(J=[1.0, 2.0])], "0.J", "2 strengths for 1 shells"),
    ([{"type": "xx", "lattice": "all", "shells": [1]}], "0.shells", "lattice all has no shells"),
    ([{"type": "xx", "lattice": {"type": "square", "Lx": 3}}], "0.lattice", "not made of rows of 3"),
    (
        [{"type": "xx", "lattice": {"type": "square", "Lx": 3, "Ly": 3}}],
        "0.lattice",
        r"3 x 3 = 9, but system.spins = 4",
    ),
    ([{"type": "xx", "lattice": {"type": "ladder", "legs": 3}}], "0.lattice", "not made of 3 legs"),
    (
        [{"type": "xx", "lattice": {"type": "ladder", "bonds": "legs"}, "shells": [1, 2], "J": [1.0, 0.5]}],
        "0.shells",
        r"shell 2 \(distance 1.414\) has no bonds along the legs: .* the legs hold 1 \(distance 1\)",
    ),
    ([{"type": "xxz", "lattice": "ring"}], "0", "either Jz or delta"),
    ([{"type": "xxz", "lattice": "ring", "Jz": 1.0, "delta": 1.0}], "0", "either Jz or delta"),
    ([{"type": "dipolar"}], "0.lattice", "missing key"),
    ([{"type": "dipolar", "lattice": "all"}], "0.lattice", "has no positions"),
    ([{"type": "dipolar", "positions": [[0, 0, 0]]}], "0.positions", "1 positions, but system.spins = 4"),
    (
        [{"type": "dipolar", "positions": [[0, 0, 0], [1, 0, 0], [0, 0, 0], [2, 0, 0]]}],
        "0.positions.2",
        "sites 0 and 2 are at the same place",
    ),
    (
        [{"type": "dipolar", "lattice": "ring", "positions": [[0, 0, 0]] * 4}],
        "0.positions",
        "positions or a lattice",
    ),
    (
        [{"type": "dipolar", "positions": [[j, 0, 0] for j in range(4)], "shells": [1]}],
        "0.shells",
        "shells belong",
    ),
    ([{"type": "dipolar", "lattice": "ring", "axis": [0, 0, 0]}], "0.axis", "zero vector"),
    ([field()], "0.values", "missing key"),
    ([field(values=[1, 2])], "0.values", "2 values, but system.spins = 4"),
    ([field(values=[1, 2], sites=[1])], "0.values", "2 values, but sites lists 1"),
    ([field(values=1.0, sites=[4])], "0.sites.0", "site 4 does not exist"),
    ([field(values=1.0, sites=[1, 1])], "0.sites.1", "duplicate site 1"),
    ([field(random={"kind": "box"})], "0.random", "either width"),
    ([field(values={"random": {"kind": "box"}})], "0.values.random", "either width"),
    (
        [field(values={"random": {"kind": "box", "W": 1}}, random={"kind": "box", "W": 1})],
        "0.random",
        "random is given twice",
    ),
    (
        [field(values=1.0, profile={"type": "ramp", "t0": 2.0, "t1": 1.0})],
        "0.profile.t1",
        "must end after it begins",
    ),
    ([field(values=1.0, profile={"type": "table"})], "0.profile", "either as points or as file"),
    (
        [field(values=1.0, profile={"type": "table", "points": [[0, 1], [0, 2]]})],
        "0.profile.points.1",
        "times must ascend, but 0 follows 0",
    ),
]


@pytest.mark.parametrize(("terms", "key", "message"), WRONG)
def test_complaints_about_terms(terms, key, message):
    found = complaints(4, *terms)
    assert f"system.terms.{key}" in found
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found[f"system.terms.{key}"])


def test_complaints_about_the_lattice_of_the_system():
    found = complaints(5, {"type": "xx"}, lattice="square")
    assert found["system.lattice"] == "5 spins make no square; give Lx and Ly"
    assert "a ring needs 2 sites" in complaints(1, {"type": "xx"}, lattice="ring")["system.lattice"]


def test_a_field_from_two_sources(tmp_path):
    (tmp_path / "h.csv").write_text("1\n2\n3\n4\n")
    found = complaints(4, field(values=1.0, file=str(tmp_path / "h.csv")))
    assert found["system.terms.0.file"] == "give either values or file"


BAD_FILES = [
    ("J.csv", "0,1,1\n1,0,2\n", "file", r"J.csv, pair 2: the pair \(0, 1\) is listed twice"),
    ("J.csv", "0,5,1\n", "file", "pair 1: site 5 does not exist"),
    ("J.csv", "0,1\n", "file", r"J.csv:1: 2 columns, expected 3 or 5 \(j, k, Jx"),
    ("J.csv", "0,1,1\n0,2,x\n", "file", "J.csv:2: 'x' is not a finite number"),
    ("J.csv", "0,1,nan\n", "file", "'nan' is not a finite number"),
    ("J.csv", "j,k,J\n", "file", "holds no numbers"),
    ("J.csv", "0,1,2\n1,0,0\n0,0,0\n", "matrix", r"J is not symmetric, J\[0, 2\] = 2 but J\[2, 0\] = 0"),
    ("J.csv", "0,1\n1,0\n", "matrix", r"shape \(2, 2\), but system.spins = 3"),
    ("J.csv", "1,0,0\n0,0,0\n0,0,0\n", "matrix", r"site 0 is coupled to itself, J\[0, 0\] = 1"),
    ("J.csv", "1,0,0\n0,0\n", "matrix", "2 columns, but 3 in the lines before"),
    ("J.npz", "no archive", "file", "is no NumPy file"),
]


@pytest.mark.parametrize(("name", "text", "key", "message"), BAD_FILES)
def test_complaints_about_coupling_files(tmp_path, name, text, key, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match=message):
        model(3, {"type": "pairs", key: str(tmp_path / name)})


def test_complaints_about_matrices(tmp_path):
    def read(key="file", **arrays):
        np.savez(tmp_path / "J.npz", **arrays)
        return model(3, {"type": "pairs", key: str(tmp_path / "J.npz")})

    zero = np.zeros((3, 3))
    with pytest.raises(FileError, match=r"holds K \(3, 3\); expected Jx, Jy and Jz"):
        read(K=zero)
    with pytest.raises(FileError, match="expected Jx, Jy and Jz, or J"):
        read(J=zero, Jx=zero)
    with pytest.raises(FileError, match=r"J has shape \(2, 3, 3\)"):
        read(J=np.zeros((2, 3, 3)))
    with pytest.raises(FileError, match="Jy does not hold real numbers"):
        read(Jy=zero.astype(complex))
    bad = zero.copy()
    bad[1, 2] = np.inf
    with pytest.raises(FileError, match=r"Jz\[1, 2\] is inf"):
        read(Jz=bad)
    with pytest.raises(FileError, match="expected one matrix J"):
        read("matrix", A=zero, B=zero)


def test_complaints_about_other_files(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1\n2\n")
    with pytest.raises(FileError, match="2 values for 3 sites"):
        model(3, field(file=str(path)))
    path.write_text("0,0,0\n1,0,0\n")
    with pytest.raises(FileError, match="2 positions, but system.spins = 3"):
        model(3, {"type": "dipolar", "positions": str(path)})
    path.write_text("0,0,0\n1,0,0\n0,0,0\n")
    with pytest.raises(DeckError, match="sites 0 and 2 are at the same place"):
        model(3, {"type": "dipolar", "positions": str(path)})
    path.write_text("t,f\n0,1\n0,2\n")
    with pytest.raises(FileError, match="times must ascend, but 0 follows 0 in row 2"):
        model(3, field(values=1.0, profile={"type": "table", "file": str(path)}))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not UTF-8 text"):
        model(3, field(file=str(path)))


@pytest.mark.parametrize("kind", ["chain", "square", "all"])
def test_a_single_site_has_no_pairs(trotter, kind):
    """A coupling among neighbours is a sum over nothing; that of a chain had ended in an internal error."""
    problem = trotter.build(
        system={
            "spins": 1,
            "terms": [{"type": "heisenberg", "lattice": kind}, {"type": "field", "axis": "x", "values": 0.4}],
        },
        initial={"type": "basis", "bits": "0"},
        evolve={"t_final": 1.0, "outputs": 2, "accuracy": 1e-8},
    )
    model = problem.hamiltonian().at(0.0)
    assert not model.J.any()
    assert model.h[0, 0] == 0.4


@pytest.mark.parametrize(
    ("block", "spins", "orders"),
    [
        (cells.Kagome(type="kagome", Lx=3, Ly=2, periodic=True), 18, [3, 2]),
        (cells.Honeycomb(type="honeycomb", Lx=2, Ly=4, periodic=[False, True]), 16, [4]),
        (cells.Cubic(type="cubic", Lx=2, Ly=3, Lz=3, periodic=True), 18, [2, 3, 3]),
        (cells.Ladder(type="ladder", legs=3, periodic=True), 12, [4]),
        (cells.Square(type="square", Lx=3, Ly=3, periodic=False), 9, []),
    ],
)
def test_shifts_by_a_cell_map_the_bonds_onto_themselves(block, spins, orders):
    pairs = {(bond.j, bond.k) for bond in lattices.bonds(block, spins, [1])}
    found = shifts(block, spins)
    assert [order_of(sites) for sites in found] == orders
    for sites in found:
        assert {tuple(sorted((sites[j], sites[k]))) for j, k in pairs} == pairs
