"""Hamiltonians without a total Sz: free fermions, dense matrices, degeneracies, axes of the deck."""

import itertools

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.measurement.spaces import moments_in, operator_in, schmidt_in
from qsim.trotter.model.frames import FRAMES
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.linear import matrix_of
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim_checks.trotter.anywhere import dense as oracle_of
from qsim_checks.trotter.oracle import spin

# eight spins of reference/any_spins.json: bonds of the honeycomb lattice by their component
KITAEV = {
    "z": [(0, 1), (2, 3), (4, 5), (6, 7)],
    "x": [(0, 5), (2, 7), (1, 4), (3, 6)],
    "y": [(0, 3), (1, 2), (4, 7), (5, 6)],
}


def ising(spins, h, J=-1.0, axes="zx"):
    """The transverse Ising chain with open ends."""
    return {
        "spins": spins,
        "terms": [
            {"type": "ising", "lattice": "chain", "axis": axes[0], "J": J},
            {"type": "field", "axis": axes[1], "values": h},
        ],
    }


def modes(spins, h, J=-1.0):
    """Energies of the free fermions of this chain: singular values of h on the diagonal and J / 2 beside it."""
    return np.linalg.svd(
        np.diag(np.full(spins, h)) + np.diag(np.full(spins - 1, 0.5 * J), 1), compute_uv=False
    )


def fermions(spins, h, J=-1.0):
    """All levels: sums of the modes, each with a half of either sign."""
    return np.sort(
        [0.5 * np.dot(signs, modes(spins, h, J)) for signs in itertools.product((-1, 1), repeat=spins)]
    )


def spectrum(trotter, system, observe=(), sector="auto", **block):
    return trotter.run(task="spectrum", system=system, sector=sector, spectrum=block, observe=list(observe))


def random_model(spins, seed=3):
    """Couplings of all components of all pairs, and fields along all axes."""
    rng = np.random.default_rng(seed)
    tensors = rng.normal(size=(3, 3, spins, spins)) * np.triu(np.ones((spins, spins)), 1)
    both = tensors + tensors.transpose(1, 0, 3, 2)
    J = np.array([both[a, a] for a in range(3)])
    both[range(3), range(3)] = 0.0
    return Model(spins, J, rng.normal(size=(3, spins)), both)


@pytest.mark.parametrize("axes", ["zx", "xz", "xy", "yz"])
@pytest.mark.parametrize(("spins", "h"), [(7, 0.3), (9, 0.5), (6, 0.9)])
def test_transverse_ising_chain_is_one_of_free_fermions(trotter, spins, h, axes):
    found = spectrum(trotter, ising(spins, h, axes=axes), levels=6)
    assert {str(s)[:4] for s in found.sectors} == {"even", "odd "}
    listed = found.listed[:, 0]
    np.testing.assert_allclose(listed, fermions(spins, h)[: listed.size], rtol=0, atol=1e-10)
    assert found.gap[0] == pytest.approx(modes(spins, h).min(), abs=1e-10)
    assert np.nanmax(found.residuals) <= 1e-10


def test_the_two_parities_below_the_critical_field_are_degenerate_within_the_tolerance(trotter):
    """Their splitting, of the order of (2 h / J)^N, is no gap."""
    spins, h = 12, 0.07
    energies = fermions(spins, h)
    assert 1e-12 < energies[1] - energies[0] < 1e-10
    found = spectrum(
        trotter, ising(spins, h), [{"sz": "all"}, {"correlator": "zz", "pairs": [[0, spins - 1]]}]
    )
    assert found.degeneracy == 2
    assert found.gap[0] == pytest.approx(energies[2] - energies[0], abs=1e-9)
    # the mean over both has no magnetisation, and long-range order
    np.testing.assert_allclose(found.observed["sz"], 0.0, atol=1e-9)
    assert 4.0 * found.observed["correlator_zz"][0] > 0.9


def test_a_splitting_that_the_errors_resolve_is_a_gap(trotter):
    energies = fermions(10, 0.25)
    found = spectrum(trotter, ising(10, 0.25))
    assert found.degeneracy == 1
    assert found.gap[0] == pytest.approx(energies[1] - energies[0], rel=1e-5)


def test_kitaev_cluster(trotter):
    pairs = [[*bond, *(float(a == axis) for a in "xyz")] for axis, bonds in KITAEV.items() for bond in bonds]
    found = spectrum(trotter, {"spins": 8, "terms": [{"type": "pairs", "list": pairs}]}, levels=3)
    assert found.listed[0, 0] == pytest.approx(-np.sqrt(3.0), abs=1e-10)
    assert found.degeneracy == 1
    assert found.second[0] == pytest.approx(-1.6180339887498942, abs=1e-10)


def test_tilted_field_has_no_parity(trotter):
    system = ising(6, 0.4)
    system["terms"].append({"type": "field", "axis": "z", "values": 0.15})
    found = spectrum(trotter, system, levels=4)
    assert [str(s) for s in found.sectors] == ["all states"]
    with pytest.raises(DeckError, match="conserved along no axis"):
        spectrum(trotter, system, sector={"parity": "even"})
    whole = spectrum(trotter, system, sector="full", levels=4)
    np.testing.assert_array_equal(found.listed, whole.listed)


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_total_spin_along_another_axis(trotter, sector):
    """A field along x and couplings that conserve the total Sx: sectors of it, unless all states are asked for."""
    terms = [
        {"type": "xyz", "lattice": "ring", "Jx": 0.4, "Jy": 1.0, "Jz": 1.0},
        {"type": "field", "axis": "x", "values": 0.3},
    ]
    observe = [{"sx": "all"}, {"correlator": ["xx", "yy"], "pairs": "all"}]
    found = spectrum(trotter, {"spins": 6, "terms": terms}, observe, sector, levels=2)
    assert str(found.extreme) == {"auto": "Sx = 0", "full": "all states"}[sector]
    turned = [
        {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.4},
        {"type": "field", "axis": "z", "values": 0.3},
    ]
    along = [{"sz": "all"}, {"correlator": ["zz", "xx"], "pairs": "all"}]
    other = spectrum(trotter, {"spins": 6, "terms": turned}, along, levels=2)
    assert found.listed[0, 0] == pytest.approx(other.listed[0, 0], abs=1e-10)
    for mine, theirs in (
        ("sx", "sz"),
        ("correlator_xx", "correlator_zz"),
        ("correlator_yy", "correlator_xx"),
    ):
        np.testing.assert_allclose(found.observed[mine], other.observed[theirs], rtol=0, atol=1e-9)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_frames_are_rotations(axis):
    """Levels stay, and a rotation of the spins takes one matrix to the other."""
    model, frame = random_model(4), FRAMES[axis]
    turned = frame.turned(model)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(dense(turned)), np.linalg.eigvalsh(dense(model)), rtol=0, atol=1e-12
    )
    # an odd exchange of axes with one sign: determinant 1
    rotation = np.zeros((3, 3))
    rotation[range(3), list(frame.axes)] = frame.signs
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    for a, name in enumerate("xyz"):
        place, sign = frame.place(name)
        assert rotation["xyz".index(place), a] == sign


@pytest.mark.parametrize("space", [WholeSpace(5), ParitySector(5, 0), ParitySector(5, 1)], ids=str)
def test_every_space_has_the_same_face(space):
    model, device = random_model(5), cpu(2)
    if isinstance(space, ParitySector):
        model.h[:2] = 0.0
        model.cross[:2, 2] = model.cross[2, :2] = 0.0
    inside = space.strings()
    H = dense(model)[np.ix_(inside, inside)]
    np.testing.assert_allclose(matrix_of(operator_in(space, device, model)), H, rtol=0, atol=1e-13)
    rng = np.random.default_rng(1)
    psi = rng.normal(size=space.dimension) + 1j * rng.normal(size=space.dimension)
    psi /= np.linalg.norm(psi)
    whole = np.zeros(32, complex)
    whole[inside] = psi
    moments = moments_in(space, device, psi)
    for a, axis in enumerate("xyz"):
        field = np.zeros((3, 5))
        field[a, 2] = 1.0
        S = dense(Model(5, np.zeros((3, 5, 5)), field))
        assert moments.s[axis][2] == pytest.approx(np.vdot(whole, S @ whole).real, abs=1e-13)
        J = np.zeros((3, 5, 5))
        J[a, 1, 4] = J[a, 4, 1] = 1.0
        SS = dense(Model(5, J, np.zeros((3, 5))))
        assert moments.ss[axis][1, 4] == pytest.approx(np.vdot(whole, SS @ whole).real, abs=1e-13)
    weights = np.linalg.svd(whole.reshape(8, 4), compute_uv=False) ** 2
    np.testing.assert_allclose(schmidt_in(space, device, psi, [0, 1]).values[:4], weights, rtol=0, atol=1e-13)


# ------------------------------------------------------------------------------------ all levels, temperature


def test_all_levels_of_both_parities(trotter):
    found = trotter.run(task="levels", system=ising(9, 0.4), levels={"window": "all"})
    np.testing.assert_allclose(found.levels[0], fermions(9, 0.4), rtol=0, atol=1e-12)
    assert np.bincount(found.sectors[0]).tolist() == [256, 256]
    # the ratios are those of each parity alone
    ratios = []
    for parity in ("even", "odd"):
        one = trotter.run(
            task="levels", system=ising(9, 0.4), sector={"parity": parity}, levels={"window": "all"}
        )
        ratios.append(one.all_ratios)
    np.testing.assert_allclose(found.all_ratios, np.concatenate(ratios), rtol=0, atol=1e-12)


def free_energy(spins, h, T, J=-1.0):
    """``-T ln Z`` of the free fermions."""
    return -T * np.log(2.0 * np.cosh(0.5 * modes(spins, h, J) / T)).sum()


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_thermal_averages_of_free_fermions(trotter, sector):
    spins, h, T = 8, 0.45, np.array([0.05, 0.3, 2.0])
    observe = [{"correlator": ["xx", "yy", "zz"], "pairs": [[2, 3]]}]
    found = trotter.run(
        task="thermal",
        system=ising(spins, h),
        sector=sector,
        thermal={"temperatures": T.tolist()},
        observe=observe,
    )
    e = modes(spins, h)
    energy = [-0.5 * (e * np.tanh(0.5 * e / t)).sum() / spins for t in T]
    heat = [((0.5 * e / t / np.cosh(0.5 * e / t)) ** 2).sum() / spins for t in T]
    np.testing.assert_allclose(found.values[0], energy, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.values[1], heat, rtol=0, atol=1e-10)
    # along the field: derivatives of the free energy
    d = 1e-3
    F = np.array([[free_energy(spins, h + k * d, t) for t in T] for k in (-2, -1, 0, 1, 2)])
    first = (F[0] - 8 * F[1] + 8 * F[3] - F[4]) / (12 * d)
    second = (-F[0] + 16 * F[1] - 30 * F[2] + 16 * F[3] - F[4]) / (12 * d * d)
    np.testing.assert_allclose(found.response["magnetisation_x"], first / spins, rtol=0, atol=1e-8)
    # H holds + h M, so that the response to a field -h is minus the second derivative
    np.testing.assert_allclose(found.response["susceptibility_x"], -second / spins, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.response["magnetisation_z"], 0.0, atol=1e-12)
    # neighbours: the derivative by J of the whole chain
    d = 1e-4
    bonds = [(free_energy(spins, h, t, -1.0 + d) - free_energy(spins, h, t, -1.0 - d)) / (2 * d) for t in T]
    every = trotter.run(
        task="thermal",
        system=ising(spins, h),
        sector=sector,
        thermal={"temperatures": T.tolist()},
        observe=[{"correlator": "zz", "pairs": [[j, j + 1] for j in range(spins - 1)]}],
    )
    np.testing.assert_allclose(every.observed["correlator_zz_T"].sum(axis=1), bonds, rtol=0, atol=1e-7)


def test_response_across_the_parities_is_that_of_dense_matrices(trotter):
    """Along the couplings the magnetisation leads from one parity to the other: the derivative by a field that mixes them."""
    spins, h, T, d = 6, 0.5, 0.4, 1e-3

    def log_Z(field):
        J = np.zeros((3, spins, spins))
        for j in range(spins - 1):
            J[2, j, j + 1] = J[2, j + 1, j] = -1.0
        fields = np.zeros((3, spins))
        fields[0], fields[2] = h, field
        return np.log(np.exp(-np.linalg.eigvalsh(dense(Model(spins, J, fields))) / T).sum())

    expected = T * (log_Z(d) - 2.0 * log_Z(0.0) + log_Z(-d)) / d**2
    found = trotter.run(task="thermal", system=ising(spins, h), thermal={"temperatures": [T, 2.0]})
    assert spins * found.response["susceptibility_z"][0] == pytest.approx(expected, rel=1e-4)


def test_random_vectors_in_both_parities(trotter):
    """Within their error bars of the closed form, though no sector is diagonalised."""
    spins, h, T = 10, 0.5, np.array([0.1, 0.5, 2.0])
    block = {"temperatures": T.tolist(), "exact": 0, "vectors": 20}
    found = trotter.run(task="thermal", system=ising(spins, h), thermal=block)
    e = modes(spins, h)
    energy = np.array([-0.5 * (e * np.tanh(0.5 * e / t)).sum() / spins for t in T])
    assert (np.abs(found.values[0] - energy) < 4.0 * found.errors[0]).all()
    assert found.response == {}


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_response_from_random_vectors_is_that_of_all_states(trotter, sector):
    """Within the error bars, which vanish with the temperature; along the field, and from one parity to the other."""
    deck = {"task": "thermal", "system": ising(7, 0.6), "sector": sector, "run": {"seed": 4}}
    T = [0.01, 0.5, 1e3]
    exact = trotter.run(**deck, thermal={"temperatures": T})
    block = {"temperatures": T, "exact": 0, "vectors": 10, "response": ["x", "y", "z"]}
    found = trotter.run(**deck, thermal=block)
    assert set(found.response) == set(exact.response)
    for name, values in found.response.items():
        off, errors = np.abs(values - exact.response[name]), found.response_errors[name]
        # times beta: the response of free spins falls with T
        floor = 1e-10 * (1.0 + 1.0 / np.array(T)) if name.startswith("s") else 1e-10
        assert (off <= 4.0 * errors + floor).all(), name
        assert errors[0] <= 1e-3 * (1.0 + abs(values[0]))


def test_a_named_response_goes_beyond_conserved_spins(trotter):
    """Along x of an XXZ chain, whose sectors of Sz it mixes: parities are taken."""
    terms = [{"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.5}]
    block = {"temperatures": [0.5, 2.0], "response": ["x", "z"]}
    found = trotter.run(task="thermal", system={"spins": 6, "terms": terms}, thermal=block)
    plain = trotter.run(
        task="thermal", system={"spins": 6, "terms": terms}, thermal={"temperatures": [0.5, 2.0]}
    )
    assert set(found.response) == {
        f"{name}_{a}" for name in ("magnetisation", "susceptibility") for a in "xz"
    }
    np.testing.assert_allclose(found.response["susceptibility_z"], plain.values[2], rtol=1e-9)


def test_response_beside_a_sector_that_is_diagonalised(trotter):
    """Four spins 1 have 41 and 40 states in their parities: with exact: 40 one is diagonalised, the other is sampled."""
    terms = [
        {"type": "heisenberg", "lattice": "ring", "J": 1.0},
        {"type": "field", "axis": "x", "values": 0.3},
    ]
    deck = {"task": "thermal", "system": {"spins": 4, "spin": 1, "terms": terms}, "run": {"seed": 6}}
    block = {"temperatures": [0.4, 1.5], "response": ["x", "y"]}
    whole = trotter.run(**deck, thermal={**block, "exact": 100})
    found = trotter.run(**deck, thermal={**block, "exact": 40, "vectors": 12})
    assert set(found.response) == set(whole.response)
    for name, values in found.response.items():
        assert (np.abs(values - whole.response[name]) <= 4.0 * found.response_errors[name] + 1e-10).all(), (
            name
        )


# ------------------------------------------------------------------------------------------- spectral functions


@pytest.mark.parametrize("tilt", [0.0, 0.2])
@pytest.mark.parametrize("operator", ["sx", "sy", "sz", "sp"])
def test_spectral_functions_without_a_total_sz(trotter, operator, tilt):
    spins = 6
    system = ising(spins, 0.7)
    system["terms"].append({"type": "field", "axis": "y", "values": tilt})
    found = trotter.run(task="dynamics", system=system, dynamics={"operator": operator, "q": [0.0, 0.5]})
    J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
    for j in range(spins - 1):
        J[2, j, j + 1] = J[2, j + 1, j] = -1.0
    h[0], h[1] = 0.7, tilt
    energies, vectors = np.linalg.eigh(dense(Model(spins, J, h)))
    c = {"sx": (1, 0, 0), "sy": (0, 1, 0), "sz": (0, 0, 1), "sp": (1, 1j, 0)}[operator]
    for row, q in enumerate((0.0, 0.5)):
        S = np.zeros_like(vectors)
        for a, j in itertools.product(range(3), range(spins)):
            field = np.zeros((3, spins))
            field[a, j] = 1.0
            factor = c[a] * np.exp(1j * np.pi * q * j) / np.sqrt(spins)
            S = S + factor * dense(Model(spins, np.zeros((3, spins, spins)), field))
        weight = np.abs(vectors.conj().T @ S @ vectors[:, 0]) ** 2
        assert found.static[row] == pytest.approx(weight.sum(), abs=1e-11)
        assert found.first_moment[row] == pytest.approx(weight @ (energies - energies[0]), abs=1e-10)


# turned by a field in the plane: one parity along x, along y, a total Sz, and nothing at all
CHIRAL = {"type": "dm", "lattice": {"type": "chain"}}
UNEQUAL = {
    "parity along x": [
        {**CHIRAL, "D": [0.5, 0, 0]},
        {"type": "field", "axis": "x", "values": [0.9, 0.2, 0.4, 0.7]},
    ],
    "parity along y": [
        {**CHIRAL, "D": [0, 0.5, 0]},
        {"type": "field", "axis": "y", "values": [0.9, 0.2, 0.4, 0.7]},
    ],
    "total Sz": [
        {**CHIRAL, "D": [0, 0, 0.5]},
        {"type": "field", "axis": "z", "values": [0.9, 0.2, 0.4, 0.7]},
    ],
    "nothing": [
        {**CHIRAL, "D": [0.3, 0.2, 0.5]},
        {"type": "field", "axis": "z", "values": [0.9, 0.2, 0.4, 0.7]},
    ],
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_correlators_of_unlike_components(trotter, name):
    """Of ground state, temperature and evolution, against dense matrices, in an order of the pair that matters."""
    terms = [
        {
            "type": "xyz",
            "lattice": {"type": "chain"},
            **dict(zip(("Jx", "Jy", "Jz"), (1.0, 1.0, 1.0), strict=True)),
        },
        *UNEQUAL[name],
    ]
    system = {"spins": 4, "terms": terms}
    named = ["xy", "yx", "yz", "zy", "zx", "xz"]
    observe = [{"correlator": named, "pairs": [[2, 1], [0, 3]]}]
    energies, vectors = np.linalg.eigh(oracle_of(system))

    def expected(states, weights):
        made = []
        for a, b in named:
            for j, k in ((2, 1), (0, 3)):
                product = (spin(a, j, 4) @ spin(b, k, 4)).toarray()
                made.append(weights @ np.einsum("sn,st,tn->n", states.conj(), product, states).real)
        return np.array(made).reshape(len(named), 2)

    ground = trotter.run(task="spectrum", system=system, observe=observe)
    first = expected(vectors[:, :1], np.ones(1))
    assert np.abs(first).max() > 1e-3
    np.testing.assert_allclose([ground.observed[f"correlator_{ab}"] for ab in named], first, atol=1e-9)
    T = 0.7
    weights = np.exp(-(energies - energies[0]) / T)
    block = {"temperatures": [T, 1.0]}
    hot = trotter.run(task="thermal", system=system, thermal=block, observe=observe)
    found = [hot.observed[f"correlator_{ab}_T"][0] for ab in named]
    np.testing.assert_allclose(found, expected(vectors, weights / weights.sum()), atol=1e-11)
    psi = np.zeros(16, complex)
    psi[0b1010] = 1.0
    moved = vectors @ (np.exp(-1.3j * energies) * (vectors.conj().T @ psi))
    evolve = {"t_final": 1.3, "outputs": 2, "accuracy": 1e-10}
    later = trotter.run(system=system, initial="neel", evolve=evolve, observe=observe)
    found = [later.mean[f"correlator_{ab}"][-1] for ab in named]
    np.testing.assert_allclose(found, expected(moved[:, None], np.ones(1)), atol=1e-8)


@pytest.mark.parametrize("method", ["lanczos", "kpm"])
@pytest.mark.parametrize("operator", ["xy", "zx"])
def test_functions_of_unlike_components(trotter, operator, method):
    """Real and imaginary parts of static factor and first moment; of hermitian conjugates they are conjugate."""
    spins = 6
    D = [0.0, 0.0, 0.6] if operator == "xy" else [0.2, 0.5, 0.0]
    terms = [
        {"type": "heisenberg", "lattice": {"type": "ring"}, "J": 1.0},
        {"type": "dm", "lattice": {"type": "ring"}, "D": D},
        {"type": "field", "axis": "z", "values": 0.3},
    ]
    system = {"spins": spins, "terms": terms}
    a, b = operator
    rows = [
        trotter.run(
            task="dynamics", system=system, dynamics={"operator": name, "q": [0.0, 1 / 3], "method": method}
        )
        for name in (a + b, b + a)
    ]
    H = oracle_of(system)
    _, vectors = np.linalg.eigh(H)
    psi = vectors[:, 0]
    for row, q in enumerate((0.0, 1 / 3)):
        S = {
            axis: sum(
                np.exp(1j * np.pi * q * j) / np.sqrt(spins) * spin(axis, j, spins).toarray()
                for j in range(spins)
            )
            for axis in (a, b)
        }
        left, right = S[a] @ psi, S[b] @ psi
        for found, expected in ((rows[0], np.vdot(left, right)), (rows[1], np.vdot(right, left))):
            static = found.static[row] + 1j * found.static_imaginary[row]
            assert abs(static - expected) < 1e-11
        moment = np.vdot(left, H @ right - np.vdot(psi, H @ psi) * right).real
        assert rows[0].first_moment[row] == pytest.approx(moment, abs=1e-9)
    np.testing.assert_allclose(rows[0].structure, rows[1].structure, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rows[0].structure_imaginary, -rows[1].structure_imaginary, rtol=0, atol=1e-9)


def test_transverse_components_of_an_hamiltonian_with_a_total_sz(trotter):
    """Of an isotropic ring S^xx and S^zz are the same, though S^x leads to two sectors of Sz."""
    system = {"spins": 8, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]}
    block = {"q": [0.5, 1.0], "broadening": 0.2}
    rows = [
        trotter.run(task="dynamics", system=system, dynamics={"operator": name, **block})
        for name in ("sx", "sz")
    ]
    np.testing.assert_allclose(rows[0].structure, rows[1].structure, rtol=0, atol=1e-9)
    with pytest.raises(DeckError, match="leads from one Sz to two others"):
        trotter.run(task="dynamics", system=system, sector={"sz": 0}, dynamics={"operator": "sx", **block})


def test_kicked_ising_chain(trotter):
    """Angles and magnetisation of a cycle that conserves nothing along z, against the dense matrix."""
    from scipy.linalg import expm

    spins = 6
    system = ising(spins, 0.9, J=1.0)
    cycle = [{"terms": [0], "time": 0.7}, {"terms": [1], "time": 1.1}]
    block = {"cycle": cycle, "cycles": 3, "quasienergies": True}
    found = trotter.run(task="floquet", system=system, initial={"type": "neel"}, floquet=block)
    assert str(found.sector) == "all states"
    J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
    for j in range(spins - 1):
        J[2, j, j + 1] = J[2, j + 1, j] = 1.0
    h[0] = 0.9
    one = expm(-0.7j * dense(Model(spins, J, 0.0 * h)))
    U = expm(-1.1j * dense(Model(spins, 0.0 * J, h))) @ one
    np.testing.assert_allclose(
        found.quasienergies, np.sort(np.angle(np.linalg.eigvals(U))), rtol=0, atol=1e-9
    )
    psi = np.zeros(1 << spins, complex)
    psi[0b101010] = 1.0
    p = np.abs(np.linalg.matrix_power(U, 3) @ psi) ** 2
    s = 0.5 - (np.arange(1 << spins) >> np.arange(spins)[:, None] & 1)
    np.testing.assert_allclose(found.rows["sz"][-1], s @ p, rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------------------------- momenta

RING = [
    {"type": "tensor", "lattice": "ring", "J": [[0.7, 0.3, -0.2], [-0.1, -0.4, 0.5], [0.6, 0.1, 0.9]]},
    {"type": "field", "axis": "x", "values": 0.3},
    {"type": "field", "axis": "y", "values": -0.2},
    {"type": "field", "axis": "z", "values": 0.5},
]


def shifted_levels(model, k):
    """Levels of momentum 2 pi k / N of a dense matrix, by the projector on the eigenvalue exp(-2 pi i k / N) of the shift."""
    spins, strings = model.spins, np.arange(1 << model.spins)
    images = sum((strings >> j & 1) << ((j + 1) % spins) for j in range(spins))
    T = np.zeros((1 << spins, 1 << spins))
    T[images, strings] = 1.0
    power, P = np.eye(1 << spins), np.zeros_like(T, complex)
    for n in range(spins):
        P += np.exp(2j * np.pi * k * n / spins) * power / spins
        power = T @ power
    values, vectors = np.linalg.eigh(P)
    basis = vectors[:, values > 0.5]
    return np.linalg.eigvalsh(basis.conj().T @ dense(model) @ basis)


def test_momenta_of_any_couplings(trotter):
    """A chiral ring without any other symmetry: k and -k differ."""
    spins = 6
    deck = {"task": "levels", "system": {"spins": spins, "terms": RING}, "levels": {"window": "all"}}
    found = [trotter.run(**deck, sector={"momentum": k}).levels[0] for k in range(spins)]
    problem = trotter.load(**deck).deck
    from qsim.trotter.model.models import Models

    model = Models.of(problem).hamiltonian().at(0.0)
    for k in range(spins):
        np.testing.assert_allclose(found[k], shifted_levels(model, k), rtol=0, atol=1e-12)
    assert np.abs(found[1] - found[-1]).max() > 1e-3
    np.testing.assert_allclose(
        np.sort(np.concatenate(found)), np.linalg.eigvalsh(dense(model)), rtol=0, atol=1e-12
    )


ISING_RING = {  # reference/any_spins.json, ising_ring_8_k
    0: [-2.443321914503996, -2.417047605217428, -2.059894161883395],
    1: [-2.0005753027632642, -1.7221815036908323, -1.3778941004095804],
    2: [-1.7221815036908326, -1.6943664028637402, -1.4612236098524662],
    3: [-1.489153504807847, -1.461223609852469, -1.37789410040958],
    4: [-1.4170476052174261, -1.3198109628440906, -1.31981096284409],
}


def test_momenta_and_parities_of_the_ising_ring(trotter):
    system = ising(8, 0.45)
    system["terms"][0]["lattice"] = "ring"
    found = spectrum(trotter, system, sector={"momentum": "all"}, levels=3)
    assert found.problem.complete
    for k, expected in ISING_RING.items():
        rows = [n for n, s in enumerate(found.sectors) if s.momentum in (k, -k % 8)]
        merged = np.sort(np.concatenate([found.levels[n] for n in rows[:2]]))[:3]
        np.testing.assert_allclose(merged, expected, rtol=0, atol=1e-10)
    # the reflection splits k = 0 further, the inversion is the parity along x
    even = spectrum(trotter, system, sector={"momentum": 0, "reflection": "even", "inversion": "even"})
    assert even.listed[0, 0] == pytest.approx(ISING_RING[0][0], abs=1e-10)
    assert [str(s) for s in even.sectors] == [
        "all states, momentum 2 pi 0/8, even under reflection, even under inversion"
    ]
    odd = spectrum(trotter, system, sector={"momentum": 0, "parity": "odd"})
    assert odd.listed[0, 0] == pytest.approx(ISING_RING[0][1], abs=1e-10)
    with pytest.raises(DeckError, match="inversion of all spins is not conserved"):
        tilted = {"spins": 8, "terms": [*system["terms"], {"type": "field", "axis": "z", "values": 0.1}]}
        spectrum(trotter, tilted, sector={"momentum": 0, "inversion": "even"})


def test_observables_in_a_momentum(trotter):
    """A state of a momentum is unfolded to all spins along the axes of the deck."""
    system = ising(6, 0.45)
    system["terms"][0]["lattice"] = "ring"
    observe = [{"sx": "all"}, {"correlator": ["xx", "zz"], "pairs": "all"}, {"entropy": {"cuts": "all"}}]
    one = spectrum(trotter, system, observe, {"momentum": 0, "parity": "even"})
    other = spectrum(trotter, system, observe, "full")
    for name in ("sx", "correlator_xx", "correlator_zz", "entropy"):
        np.testing.assert_allclose(one.observed[name], other.observed[name], rtol=0, atol=1e-8)
