"""Spectral functions against dense diagonalisation, sum rules, and their refusals."""

import json
from pathlib import Path

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, NumericsError
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.trotter.dynamics.kpm import chebyshev_moments, share, smoothed
from qsim.trotter.dynamics.run import truncation
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import SectorOperator
from tests.trotter.kernels.test_exchange import spin

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "sectors.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
RING = {"type": "heisenberg", "lattice": "ring", "J": 1.0}


def dynamics(trotter, system, sector="auto", **block):
    return trotter.run(task="dynamics", system=system, sector=sector, dynamics=block)


SIGNS = {"momentum": 0, "reflection": 1, "inversion": 1}


@pytest.mark.parametrize(
    "sector", [{"up": 6}, {"sz": 0, "inversion": 1}, "auto", {"momentum": 0}, SIGNS, {"momentum": [0, 6]}]
)
def test_ring_of_12_at_q_pi(trotter, sector):
    expected = REFERENCES["dsf_ring_12_pi"]["result"]
    omega = expected["omega"]
    found = dynamics(
        trotter,
        {"spins": 12, "terms": [RING]},
        sector,
        q=[1.0],
        omega={"from": 0.0, "to": 3.0, "count": 31},
        broadening=0.1,
    )
    assert found.energy == pytest.approx(expected["E0"], abs=1e-11)
    assert found.static[0] == pytest.approx(expected["static"], abs=1e-10)
    places = [round(10 * w) for w in omega]
    np.testing.assert_allclose(found.structure[0][places], expected["S"], rtol=0, atol=1e-9)
    for pole in expected["poles"]:
        near = np.abs(found.poles[0] - pole["omega"]) < 1e-7
        assert found.weights[0][near].sum() == pytest.approx(pole["weight"], abs=1e-9)


@pytest.mark.parametrize(
    ("block", "sector"),
    [
        ({"operator": "sz", "method": "kpm", "steps": 20}, {"momentum": 0}),
        ({"operator": "sz", "sites": [2]}, {"momentum": 0, "reflection": 1}),
        ({"operator": "current"}, SIGNS),
        ({"operator": "current"}, {"sz": 0, "inversion": 1}),
        ({"operator": "sp"}, SIGNS),
        ({"operator": "sx"}, {"parity": "even", "momentum": 0}),
        ({"operator": "yz"}, {"momentum": 0}),
    ],
)
def test_characters_change_no_function(trotter, block, sector):
    """What is left of the symmetries under an operator makes the recurrence smaller, and the function the same."""
    system = {"spins": 8, "terms": [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6}]}
    grid = {"from": 0.0, "to": 4.0, "count": 21}
    every, found = (dynamics(trotter, system, one, omega=grid, **block) for one in ("auto", sector))
    assert found.sector.dimension < every.sector.dimension
    assert found.energy == pytest.approx(every.energy, abs=1e-11)
    np.testing.assert_allclose(found.static, every.static, rtol=0, atol=1e-10)
    # polynomials of different bands have different resolutions
    wide = 0.1 if "method" in block else 1e-8
    np.testing.assert_allclose(found.structure, every.structure, rtol=0, atol=wide)


def test_an_operator_keeps_the_symmetries_under_which_it_has_a_character(trotter):
    from qsim.trotter.deck.lattices import Ring
    from qsim.trotter.deck.sectors import SectorBlock
    from qsim.trotter.lattices.momenta import translations
    from qsim.trotter.measurement.spaces import target_in
    from qsim.trotter.sectors.spin_operators import wave
    from qsim.trotter.sectors.symmetric import symmetric_sectors

    n, c = 8, np.zeros((3, 8), complex)
    ring = Model.zero(n)
    moves = translations(Ring(type="ring"), n)
    block = SectorBlock(momentum=2)
    sector = symmetric_sectors(block, ring, [Sector(n, 4)], moves)[0]
    # exp(i q j) adds q to the momentum
    c[2] = wave(n, 2.0 * np.pi * 3 / n)
    assert target_in(sector, c).symmetries[0].phase * n == 5
    # a single site has no momentum
    c[2] = np.arange(n) == 1
    assert target_in(sector, c) == Sector(n, 4)


@pytest.mark.parametrize("operator", ["sz", "sp", "sm"])
def test_open_chain_in_fields(trotter, operator):
    """All q of a disordered chain, by the eigenstates of the whole space."""
    terms = [
        {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.7},
        {"type": "field", "axis": "z", "values": "0.3*cos(2*j)"},
    ]
    eta, grid = 0.2, {"from": -1.0, "to": 3.0, "count": 41}
    found = dynamics(
        trotter,
        {"spins": 6, "terms": terms},
        {"up": 3},
        operator=operator,
        q=[0.0, 0.3, 1.0],
        omega=grid,
        broadening=eta,
    )
    H = dense(found.problem.model)
    index = np.arange(64)
    up = 6 - np.bitwise_count(index)
    inside = np.flatnonzero(up == 3)
    values, vectors = np.linalg.eigh(H[np.ix_(inside, inside)])
    psi = np.zeros(64, complex)
    psi[inside] = vectors[:, 0]
    energies, states = np.linalg.eigh(H)
    omega = np.linspace(-1, 3, 41)
    for k, q in enumerate((0.0, 0.3, 1.0)):
        S = np.zeros((64, 64), complex)
        for j in range(6):
            c = np.exp(1j * np.pi * q * j) / np.sqrt(6)
            bit = index >> j & 1
            if operator == "sz":
                S[index, index] += c * (0.5 - bit)
            else:
                source = index[bit == (1 if operator == "sp" else 0)]
                S[source ^ (1 << j), source] += c
        weights = np.abs(states.conj().T @ (S @ psi)) ** 2
        exact = sum(
            w * (eta / np.pi) / ((omega - e + values[0]) ** 2 + eta**2)
            for w, e in zip(weights, energies, strict=True)
        )
        np.testing.assert_allclose(found.structure[k], exact, rtol=0, atol=1e-9)
        assert found.static[k] == pytest.approx(weights.sum(), abs=1e-10)
        assert found.first_moment[k] == pytest.approx(weights @ (energies - values[0]), abs=1e-9)


def test_more_products_than_states(trotter):
    """A recurrence finds levels again and loses others by rounding: so few states are diagonalised, each pole is given once."""
    generator = np.random.default_rng(1)
    J, h = generator.normal(size=(2, 7, 7)), generator.normal(size=7)
    terms = [
        {
            "type": "pairs",
            "list": [
                [j, k, *map(float, (J[0, j, k], J[0, j, k], J[1, j, k]))] for k in range(7) for j in range(k)
            ],
        },
        {"type": "dm", "lattice": "ring", "D": [0.0, 0.0, 1.6]},
        {"type": "field", "axis": "z", "values": h.tolist()},
    ]
    found = dynamics(
        trotter,
        {"spins": 7, "terms": terms},
        {"up": 4},
        operator="sp",
        q=[0.0],
        steps=400,
    )
    H = dense(found.problem.model)
    down = np.bitwise_count(np.arange(128))
    start, target = (np.flatnonzero(down == n) for n in (3, 2))
    energies, vectors = np.linalg.eigh(H[np.ix_(start, start)])
    levels, states = np.linalg.eigh(H[np.ix_(target, target)])
    raised = np.zeros(128, complex)
    for j in range(7):
        for s, value in zip(start, vectors[:, 0], strict=True):
            if s >> j & 1:
                raised[s ^ (1 << j)] += value / np.sqrt(7.0)
    weights = np.abs(states.conj().T @ raised[target]) ** 2
    poles = found.poles[0][np.isfinite(found.poles[0])]
    assert len(poles) == len(levels) == 21
    np.testing.assert_allclose(poles, levels - energies[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.weights[0][:21], weights, rtol=0, atol=1e-9)


def lorentzians_of(H, psi, energy, operator, omega, eta):
    """Sum over all eigenstates of the whole space."""
    levels, states = np.linalg.eigh(H)
    weights = np.abs(states.conj().T @ operator @ psi) ** 2
    return ((eta / np.pi) / ((omega[:, None] - (levels - energy)) ** 2 + eta**2)) @ weights


def ground_of(H, spins, down):
    strings = np.flatnonzero(np.bitwise_count(np.arange(1 << spins)) == down)
    energies, vectors = np.linalg.eigh(H[np.ix_(strings, strings)])
    psi = np.zeros(1 << spins, complex)
    psi[strings] = vectors[:, 0]
    return energies[0], psi


@pytest.mark.parametrize("operator", ["sz", "sm"])
@pytest.mark.parametrize("method", ["lanczos", "kpm"])
def test_local_functions(trotter, operator, method):
    """Two sites of a chain in fields; of kpm the static factor alone."""
    n = 6
    terms = [
        {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.7},
        {"type": "field", "axis": "z", "values": "0.3*cos(2*j)"},
    ]
    found = dynamics(
        trotter, {"spins": n, "terms": terms}, {"up": 3}, operator=operator, sites=[4, 1], method=method
    )
    H = dense(found.problem.model)
    energy, psi = ground_of(H, n, 3)
    omega = np.linspace(0.0, 4.0, 401)
    for row, j in enumerate((4, 1)):
        S = spin(2, j, n) if operator == "sz" else spin(0, j, n) - 1j * spin(1, j, n)
        assert found.static[row] == pytest.approx(np.linalg.norm(S @ psi) ** 2, abs=1e-11)
        if method == "lanczos":
            expected = lorentzians_of(H, psi, energy, S, omega, 0.05)
            np.testing.assert_allclose(found.structure[row], expected, rtol=0, atol=1e-8)
    output = Method("trotter")
    np.testing.assert_array_equal(output.arrays(found)["dynamics_site"], [4, 1])
    assert "q" not in output.arrays(found)


@pytest.mark.parametrize("lattice", ["chain", "ring"])
def test_current(trotter, lattice):
    """The current of every bond, i [H_bond, Sz of its second site], with Dzyaloshinskii-Moriya couplings."""
    n = 6
    terms = [
        {"type": "xxz", "lattice": lattice, "Jxy": 1.0, "Jz": 0.7},
        {"type": "dm", "lattice": lattice, "D": [0.0, 0.0, 0.4]},
        {"type": "field", "axis": "z", "values": "0.3*cos(2*j)"},
    ]
    found = dynamics(trotter, {"spins": n, "terms": terms}, {"up": 3}, operator="current")
    H = dense(found.problem.model)
    energy, psi = ground_of(H, n, 3)
    current = np.zeros_like(H)
    for j in range(n if lattice == "ring" else n - 1):
        k = (j + 1) % n
        x, y = spin(0, j, n), spin(1, j, n)
        bond = x @ spin(0, k, n) + y @ spin(1, k, n) + 0.4 * (x @ spin(1, k, n) - y @ spin(0, k, n))
        current += 1j * (bond @ spin(2, k, n) - spin(2, k, n) @ bond) / np.sqrt(n)
    omega = np.linspace(0.0, 4.0, 401)
    expected = lorentzians_of(H, psi, energy, current, omega, 0.05)
    np.testing.assert_allclose(found.structure[0], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("block", "sector", "message"),
    [
        ({"sites": [6]}, "auto", "site 6"),
        ({"sites": [1], "q": [0.0]}, "auto", "leave q out"),
        ({"operator": "current", "sites": [1]}, "auto", "leave sites out"),
        ({"operator": "current", "q": [0.0]}, "auto", "taken at q = 0"),
    ],
)
def test_rows_that_cannot_be_are_refused(trotter, block, sector, message):
    with pytest.raises(DeckError, match=message):
        trotter.load(task="dynamics", system={"spins": 6, "terms": [RING]}, sector=sector, dynamics=block)


def test_a_current_without_direction_is_refused(trotter):
    terms = [RING, {"type": "pairs", "list": [[0, 3, 0.2, 0.2, 0.2]]}]
    with pytest.raises(DeckError, match="sites 0 and 3 are coupled and lie opposite"):
        dynamics(trotter, {"spins": 6, "terms": terms}, {"sz": 0}, operator="current")


def test_sum_rule(trotter):
    """The static factors of all q of a ring add up to N/4; S_q with q = 0 annihilates a state of Sz = 0."""
    found = dynamics(trotter, {"spins": 10, "terms": [RING]}, steps=30)
    assert found.static.sum() == pytest.approx(2.5, abs=1e-11)
    assert found.static[0] == pytest.approx(0.0, abs=1e-11)
    lower, upper = found.continuum
    assert lower[5] == pytest.approx(0.0, abs=1e-12)
    assert upper[5] == pytest.approx(np.pi)


def test_too_few_products_are_warned_of(trotter):
    """Four products resolve no broadening of 0.01; the change is said."""
    found = dynamics(trotter, {"spins": 14, "terms": [RING]}, {"sz": 0}, q=[1.0], steps=4, broadening=0.01)
    assert found.change.max() > 0.02


@pytest.mark.parametrize("seed", range(4))
def test_what_further_products_change_is_bounded(trotter, seed):
    """Models close to the one with equal couplings of all pairs: few lines carry most of the weight, others follow late."""
    rng = np.random.default_rng([415, seed])
    terms = [
        {"type": "xx", "lattice": {"type": "all"}, "J": float(rng.uniform(0.4, 2.2))},
        {"type": "field", "axis": "z", "values": [float(h) for h in rng.uniform(-0.15, 0.15, 6)]},
    ]
    system, eta = {"spins": 6, "terms": terms}, float(rng.uniform(0.03, 0.2))
    block = {"broadening": eta, "omega": {"from": -1.0, "to": 7.0, "count": 200}, "operator": "sz"}
    few = dynamics(trotter, system, steps=int(rng.integers(3, 6)), **block)
    whole = dynamics(trotter, system, steps=200, **block)
    error = np.abs(few.structure - whole.structure).max(axis=1)
    bound = few.change * np.abs(few.structure).max(axis=1)
    assert (error <= bound + 1e-12).all()
    assert (bound <= 40.0 * error + 1e-9).all()


def test_the_end_of_a_recurrence_is_bounded():
    """A random Hermitian matrix; the recurrence is that of a Householder reduction."""
    rng = np.random.default_rng(77)
    A = rng.normal(size=(30, 30))
    H = A + A.T
    v = rng.normal(size=30)
    v /= np.linalg.norm(v)
    basis = np.linalg.qr(np.stack([np.linalg.matrix_power(H / 15.0, k) @ v for k in range(9)], axis=1))[0]
    T = basis.T @ H @ basis
    z = np.linspace(-14.0, 14.0, 57) + 0.4j
    exact = np.array([-(np.linalg.solve(x * np.eye(30) - H, v) @ v).imag / np.pi for x in z])
    for M in range(1, 9):
        alpha, beta = list(np.diag(T)[:M]), list(np.abs(np.diag(T, 1)[:M]))
        part = np.array([-np.linalg.inv(x * np.eye(M) - T[:M, :M])[0, 0].imag / np.pi for x in z])
        assert (np.abs(part - exact) <= truncation(alpha, beta, z) + 1e-12).all()


REFUSED = {
    "q": ({"dynamics": {"q": [0.3]}}, "on a ring of 6 sites wave numbers are"),
    "grid": ({"dynamics": {"omega": {"from": 2.0, "to": 1.0}}}, "must lie above from"),
    "observed": ({"observe": ["sz"]}, "observes nothing beside its own block"),
    "block": ({"spectrum": {"levels": 3}}, "belongs to task: spectrum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    with pytest.raises(DeckError, match=message):
        trotter.run(**{"task": "dynamics", "system": {"spins": 6, "terms": [RING]}, **changes})


def test_a_degenerate_ground_state_is_refused(trotter):
    with pytest.raises(NumericsError, match="degenerate"):
        dynamics(trotter, {"spins": 5, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]})
    assert (
        dynamics(
            trotter,
            {"spins": 5, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
            {"sz": 0.5},
        ).energy
        < 0
    )


# ----------------------------------------------------------------------------------------------- kpm


def test_moments_of_the_reference():
    """``Tr T_k((H + 1) / 5) / D`` of the ring of 12 spins, one basis vector after the other."""
    entry = REFERENCES["kpm_moments_ring_12"]
    n, sector = 12, Sector(12, 6)
    J = np.zeros((3, n, n))
    for j in range(n):
        J[:, j, (j + 1) % n] = J[:, (j + 1) % n, j] = 1.0
    operator = SectorOperator(cpu(1), sector, Model(n, J, np.zeros((3, n))))
    total = np.zeros(13)
    for unit in np.eye(sector.dimension):
        total += chebyshev_moments(cpu(1), operator, unit, (-1.0, 5.0), 6, lambda: None)
    np.testing.assert_allclose(
        total / sector.dimension, entry["result"]["mu"], rtol=0, atol=entry["tolerance"]
    )


@pytest.mark.parametrize("operator", ["sz", "sp"])
def test_kpm_is_the_exact_function_with_the_kernel_of_jackson(trotter, operator):
    """Peaks of the dense diagonalisation, each smoothed by its own Chebyshev series; sum rule and first moment."""
    terms = [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.7}]
    grid = {"from": -1.0, "to": 12.0, "count": 53}
    found = dynamics(
        trotter,
        {"spins": 8, "terms": terms},
        {"up": 4},
        operator=operator,
        q=[0.5, 1.0],
        omega=grid,
        method="kpm",
        steps=30,
    )
    other = dynamics(trotter, {"spins": 8, "terms": terms}, {"up": 4}, operator=operator, q=[0.5, 1.0])
    centre, half = found.band
    count = found.moments.shape[1]
    assert count == 61
    omega = np.linspace(-1, 12, 53)
    for k in range(2):
        x = (other.poles[k] + found.energy - centre) / half
        known = np.isfinite(x)
        assert np.all(np.abs(x[known]) < 1.0)
        T = np.cos(np.arange(count)[:, None] * np.arccos(x[known]))
        expected = T @ other.weights[k, known]
        np.testing.assert_allclose(found.moments[k], expected, rtol=0, atol=1e-10)
        y = (omega + found.energy - centre) / half
        inside = np.abs(y) < 1
        g = np.array(
            [
                (
                    (count + 1 - m) * np.cos(np.pi * m / (count + 1))
                    + np.sin(np.pi * m / (count + 1)) / np.tan(np.pi / (count + 1))
                )
                / (count + 1)
                for m in range(count)
            ]
        )
        series = np.polynomial.chebyshev.chebval(
            y[inside], g * expected * np.r_[1.0, np.full(count - 1, 2.0)]
        )
        np.testing.assert_allclose(
            found.structure[k, inside],
            series / (np.pi * half * np.sqrt(1 - y[inside] ** 2)),
            rtol=0,
            atol=1e-9,
        )
        assert not found.structure[k, ~inside].any()
    np.testing.assert_allclose(found.static, other.static, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.first_moment, other.first_moment, rtol=0, atol=1e-9)
    assert found.captured == pytest.approx(1.0, abs=2e-3)
    assert found.structure.min() >= -1e-12


def test_the_resolution_is_the_width_of_a_peak():
    """A single level in the middle of the band has the standard deviation pi R / M, to a few per cent."""
    count, half = 201, 2.0
    mu = np.cos(np.arange(count) * np.pi / 2)
    energies = np.linspace(-1.0, 1.0, 20001)
    peak = smoothed(mu, energies, (0.0, half))
    step = energies[1] - energies[0]
    assert peak.sum() * step == pytest.approx(1.0, abs=1e-3)
    near = np.abs(energies) < 0.15  # tails fall slowly
    width = np.sqrt((peak * energies**2)[near].sum() / peak[near].sum())
    assert width == pytest.approx(np.pi * half / count, rel=0.05)
    assert share(mu, (-1.0, 1.0), (0.0, half)) == pytest.approx(peak.sum() * step, abs=1e-6)


def test_weight_outside_of_the_frequencies_is_warned_of(trotter):
    found = dynamics(
        trotter,
        {"spins": 8, "terms": [RING]},
        {"sz": 0},
        q=[1.0],
        omega={"from": 1.0, "to": 2.0, "count": 11},
        method="kpm",
    )
    assert found.captured < 0.5
    arrays = Method("trotter").arrays(found)
    assert "poles" not in arrays
    assert arrays["moments"].shape == (1, 301)


def test_a_band_that_is_too_narrow_is_noticed():
    n = 8
    J = np.zeros((3, n, n))
    J[:, 0, 1] = J[:, 1, 0] = 4.0
    operator = SectorOperator(cpu(1), Sector(n, 4), Model(n, J, np.zeros((3, n))))
    with pytest.raises(NumericsError, match="wider than the band"):
        chebyshev_moments(cpu(1), operator, np.ones(operator.size), (0.0, 0.9), 50, lambda: None)


def test_kpm_has_no_broadening(trotter):
    with pytest.raises(DeckError, match="leave broadening out"):
        dynamics(trotter, {"spins": 6, "terms": [RING]}, method="kpm", broadening=0.1)


@pytest.mark.gpu
def test_kpm_on_a_gpu(trotter, cuda):
    blocks = {
        "task": "dynamics",
        "system": {"spins": 10, "terms": [RING]},
        "sector": {"sz": 0},
        "dynamics": {"method": "kpm", "steps": 40},
    }
    found, expected = (
        stage("trotter", "run").run(trotter.build(device=device, **blocks), Monitor.silent())
        for device in (cuda, None)
    )
    np.testing.assert_allclose(found.moments, expected.moments, rtol=0, atol=1e-9)
