"""Dzyaloshinskii-Moriya and general couplings from the deck to the results: dense matrices, and a gauge transformation."""

import numpy as np
import pytest

from qsim.core.errors import DeckError
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import stage
from tests.trotter.kernels.test_exchange import spin

RING = {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6}
FIELDS = [0.3, -0.2, 0.5, 0.1, 0.0, -0.4, 0.2, 0.7]
FIELD = {"type": "field", "axis": "z", "values": FIELDS}
N = 8


def hamiltonian(D=(0.0, 0.0, 0.0), tensor=None, ring=True, fields=True):
    """Kronecker products; bonds j, j + 1, on a ring also N - 1, 0."""
    S = [[spin(a, j, N) for j in range(N)] for a in range(3)]
    H = sum(FIELDS[j] * S[2][j] for j in range(N)) if fields else 0.0
    x, y, z = D
    K = np.array([[0, z, -y], [-z, 0, x], [y, -x, 0]]) + (0.0 if tensor is None else np.array(tensor))
    for j in range(N if ring else N - 1):
        k = (j + 1) % N
        H = H + sum(J * S[a][j] @ S[a][k] for a, J in enumerate((1.0, 1.0, 0.6)))
        H = H + sum(K[a, b] * S[a][j] @ S[b][k] for a in range(3) for b in range(3))
    return H, S


def run(trotter, **deck):
    return stage("trotter", "run").run(trotter.build(**deck), Monitor.silent())


def neel():
    psi = np.zeros(1 << N, complex)
    psi[sum(1 << j for j in range(1, N, 2))] = 1.0
    return psi


def evolved(H, psi, t):
    energies, vectors = np.linalg.eigh(H)
    return vectors @ (np.exp(-1j * t * energies) * (vectors.conj().T @ psi))


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_quench_with_a_vector_along_z(trotter, sector):
    result = trotter.run(
        system={"spins": N, "terms": [RING, FIELD, {"type": "dm", "lattice": "ring", "D": 0.4}]},
        initial={"type": "neel"},
        evolve={"t_final": 3.0, "outputs": 2, "accuracy": 1e-10},
        observe=[{"sz": "all"}, "energy_variance", {"correlator": "xx", "pairs": [[0, 1], [2, 7]]}],
        sector=sector,
    )
    H, S = hamiltonian((0.0, 0.0, 0.4))
    psi = evolved(H, neel(), 3.0)
    assert (result.problem.sector is None) == (sector == "full")
    expected = [np.vdot(psi, S[2][j] @ psi).real for j in range(N)]
    np.testing.assert_allclose(result.mean["sz"][-1], expected, rtol=0, atol=1e-9)
    expected = [np.vdot(psi, S[0][j] @ S[0][k] @ psi).real for j, k in ((0, 1), (2, 7))]
    np.testing.assert_allclose(result.mean["correlator_xx"][-1], expected, rtol=0, atol=1e-9)
    energy = np.vdot(psi, H @ psi).real
    assert result.mean["energy"][-1] == pytest.approx(energy, abs=1e-9)
    variance = np.vdot(H @ psi, H @ psi).real - energy**2
    assert result.mean["energy_variance"][-1] == pytest.approx(variance, abs=1e-8)


def test_quench_with_every_component(trotter):
    """Vectors and matrices in any direction, as lattice terms, as lists, and as the perturbation of an echo."""
    matrix = [[0.1, 0.3, -0.2], [0.05, -0.1, 0.4], [0.25, -0.35, 0.2]]
    vector = [0.2, -0.3, 0.5]
    K = [x for row in matrix for x in row]
    pairs = [[j, (j + 1) % N, *K] for j in range(N)]
    result = trotter.run(
        system={
            "spins": N,
            "lattice": "ring",
            "terms": [RING, FIELD, {"type": "dm", "D": vector}, {"type": "tensor", "list": pairs}],
        },
        initial={"type": "neel"},
        evolve={"t_final": 2.0, "outputs": 2, "accuracy": 1e-10},
        observe=[{"sz": "all"}, {"sx": "all"}, {"echo": {"sigma": [{"type": "tensor", "J": matrix}]}}],
    )
    H, S = hamiltonian(vector, matrix)
    perturbed, _ = hamiltonian(vector, 2.0 * np.array(matrix))
    psi = evolved(H, neel(), 2.0)
    assert result.problem.sector is None
    for name, a in (("sz", 2), ("sx", 0)):
        expected = [np.vdot(psi, S[a][j] @ psi).real for j in range(N)]
        np.testing.assert_allclose(result.mean[name][-1], expected, rtol=0, atol=1e-9)
    expected = abs(np.vdot(evolved(perturbed, neel(), 2.0), psi)) ** 2
    assert result.mean["echo"][-1] == pytest.approx(expected, abs=1e-9)


def test_levels_of_an_open_chain_are_those_of_a_stronger_coupling(trotter):
    """Turning each spin by its place times atan(D/J) about z takes Jxy, D to sqrt(Jxy^2 + D^2), 0 (an open chain)."""
    terms = [
        {"type": "xxz", "lattice": "chain", "Jxy": 0.8, "Jz": 0.5},
        {"type": "dm", "lattice": "chain", "D": 0.6},
    ]
    found = run(
        trotter,
        task="spectrum",
        system={"spins": 11, "terms": [*terms, {"type": "field", "axis": "z", "values": "0.1*j"}]},
        sector={"up": [5, 6]},
        spectrum={"levels": 4, "tolerance": 1e-10},
    )
    turned = run(
        trotter,
        task="spectrum",
        system={
            "spins": 11,
            "terms": [
                {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.5},
                {"type": "field", "axis": "z", "values": "0.1*j"},
            ],
        },
        sector={"up": [5, 6]},
        spectrum={"levels": 4, "tolerance": 1e-10},
    )
    np.testing.assert_allclose(found.levels, turned.levels, rtol=0, atol=1e-9)


def test_tasks_in_sectors(trotter):
    """All levels, temperature and the spectral function of a ring, in which the couplings cannot be turned away."""
    system = {"spins": N, "terms": [RING, FIELD, {"type": "dm", "lattice": "ring", "D": 0.4}]}
    H, S = hamiltonian((0.0, 0.0, 0.4))
    energies, vectors = np.linalg.eigh(H)
    found = run(trotter, task="levels", system=system, sector={"sz": 0}, levels={"statistics": ["gap_ratio"]})
    strings = [s for s in range(1 << N) if s.bit_count() == N // 2]
    inside = np.linalg.eigvalsh(H[np.ix_(strings, strings)])
    np.testing.assert_allclose(found.levels[0], inside, rtol=0, atol=1e-11)
    thermal = run(trotter, task="thermal", system=system, thermal={"temperatures": [0.5, 2.0]})
    weights = np.exp(-(energies - energies[0])[None] / np.array([[0.5], [2.0]]))
    mean = (weights * energies).sum(axis=1) / weights.sum(axis=1) / N
    np.testing.assert_allclose(thermal.values[0], mean, rtol=0, atol=1e-10)
    dynamics = run(
        trotter,
        task="dynamics",
        system=system,
        dynamics={
            "operator": "sz",
            "q": [0.5],
            "omega": {"from": 0.0, "to": 4.0, "count": 81},
            "broadening": 0.2,
        },
    )
    wave = np.exp(0.5j * np.pi * np.arange(N)) / np.sqrt(N)
    phi = vectors.conj().T @ sum(wave[j] * S[2][j] for j in range(N)) @ vectors[:, 0]
    omega = np.linspace(0.0, 4.0, 81)
    shape = (0.2 / np.pi) / ((omega[:, None] - energies + energies[0]) ** 2 + 0.04)
    np.testing.assert_allclose(dynamics.structure[0], shape @ np.abs(phi) ** 2, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("terms", "more", "message"),
    [
        ([{"type": "dm", "lattice": "ring"}], {}, "give either D"),
        ([{"type": "tensor", "lattice": "ring", "list": [[0, 1, *range(9)]]}], {}, "goes with J"),
        ([{"type": "dm", "list": [[0, 8, 1.0]]}], {}, "site 8 does not exist"),
        ([{"type": "dm", "list": [[0, 1, 1.0, 2.0]]}], {}, "found 4 numbers"),
        ([{"type": "dm", "list": [[0, 1, 1.0], [1, 0, 2.0]]}], {}, "listed twice"),
        ([{"type": "dm", "D": 1.0}], {}, "missing key; give a lattice such as chain"),
        ([{"type": "dm", "lattice": "ring", "D": 1.0, "shells": [4]}], {}, "have no direction"),
        (
            [{"type": "dm", "D": 1.0, "lattice": {"type": "square", "Lx": 4, "Ly": 2, "periodic": True}}],
            {},
            "not defined on a periodic square",
        ),
        (
            [{"type": "dm", "lattice": "ring", "D": [0.0, 1.0, 0.0]}],
            {"sector": {"sz": 0}},
            "changes the number of spins up",
        ),
        (
            [RING, {"type": "dm", "lattice": "ring", "D": 1.0}],
            {"sector": {"sz": 0, "inversion": 1}, "initial": {"type": "haar"}},
            "changes its sign under the inversion",
        ),
    ],
)
def test_bad_input(trotter, terms, more, message):
    deck = {
        "system": {"spins": N, "terms": terms},
        "initial": {"type": "neel"},
        "evolve": {"t_final": 1.0, "accuracy": 1e-8},
    }
    with pytest.raises(DeckError, match=message):
        trotter.run(**deck | more)


def test_momenta_of_a_uniform_ring(trotter):
    """The lowest levels of every momentum, by the projectors of the shift; k and -k differ at Sz = 1."""
    found = run(
        trotter,
        task="spectrum",
        system={"spins": N, "terms": [RING, {"type": "dm", "lattice": "ring", "D": 0.4}]},
        sector={"sz": 1, "momentum": "all"},
        spectrum={"levels": 2},
        observe=[{"correlator": "xx", "pairs": [[0, 1]]}],
    )
    H, S = hamiltonian((0.0, 0.0, 0.4), fields=False)
    strings = np.arange(1 << N)
    images = ((strings << 1) & (2**N - 1)) | (strings >> (N - 1))  # the spin of site j goes to j + 1
    shift = np.zeros((1 << N, 1 << N))
    shift[images, strings] = 1.0
    inside = np.flatnonzero(np.bitwise_count(strings) == N // 2 - 1)
    shift, h = shift[np.ix_(inside, inside)], H[np.ix_(inside, inside)]
    for k in range(N):
        powers = (np.exp(2j * np.pi * k * n / N) * np.linalg.matrix_power(shift, n) for n in range(N))
        values, vectors = np.linalg.eigh(sum(powers) / N)
        basis = vectors[:, values > 0.5]
        expected = np.linalg.eigvalsh(basis.conj().T @ h @ basis)[:2]
        np.testing.assert_allclose(found.levels[k], expected, rtol=0, atol=1e-10)
    assert abs(found.levels[1, 0] - found.levels[7, 0]) > 0.1
    states = np.linalg.eigh(h)[1]
    xx = (S[0][0] @ S[0][1])[np.ix_(inside, inside)]
    assert found.observed["correlator_xx"][0] == pytest.approx(
        np.vdot(states[:, 0], xx @ states[:, 0]).real, abs=1e-8
    )


def test_momenta_of_a_torus(trotter):
    """3 x 3 sites: the lowest levels of the sector of Sz are those of all nine pairs of momenta."""
    square = {"type": "square", "Lx": 3, "periodic": True}
    terms = [{"type": "xx", "lattice": square}, {"type": "dm", "lattice": square, "D": -0.3}]
    right, up = [3 * (j // 3) + (j + 1) % 3 for j in range(9)], [(j + 3) % 9 for j in range(9)]

    def levels(count, **more):
        deck = {"task": "spectrum", "system": {"spins": 9, "terms": terms}, "spectrum": {"levels": count}}
        return run(trotter, **deck, sector={"up": 3} | more).levels[0]

    parts = [
        levels(3, permutations=[{"sites": right, "number": x}, {"sites": up, "number": y}])
        for x in range(3)
        for y in range(3)
    ]
    np.testing.assert_allclose(np.sort(np.concatenate(parts))[:4], levels(4), rtol=0, atol=1e-9)


def test_a_ring_that_is_not_uniform_has_no_momenta(trotter):
    """What is missing is named: the pair that differs."""
    terms = [RING, {"type": "dm", "list": [[j, j + 1, 0.4] for j in range(N - 1)]}]
    with pytest.raises(
        DeckError, match=r"Jxy of sites 0 and 7 \(Dzyaloshinskii-Moriya\) is 0, that of sites 1 and 0"
    ):
        run(trotter, task="spectrum", system={"spins": N, "terms": terms}, sector={"sz": 0, "momentum": 0})
