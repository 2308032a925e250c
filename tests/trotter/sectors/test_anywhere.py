"""Hamiltonians without a total Sz: free fermions, dense matrices, degeneracies, axes of the deck."""

import itertools

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.measurement.spaces import moments_in, operator_in, schmidt_in
from qsim.trotter.model.frames import FRAMES
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.matrix import matrix_of
from qsim.trotter.sectors.parity import ParitySector, WholeSpace

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
