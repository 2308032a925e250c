"""Krylov steps, constant and driven, in sectors and in the whole space, against SciPy's integrator and dense exponentials."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.evolution.chebyshev import Whole
from qsim.trotter.evolution.krylov import Exponential
from qsim.trotter.kernels.product.operators import operator
from qsim.trotter.model.hamiltonian import dense
from tests.trotter.kernels.test_exchange import model as random_model
from tests.trotter.kernels.test_exchange import spin, state

N = 7
RING = {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6}
FIELD = {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.5, 0.1, 0.0, -0.4, 0.2]}
DRIVE = {"type": "field", "axis": "z", "values": "cos(j)", "profile": {"type": "cosine", "omega": 2.0}}


def run(trotter, terms, accuracy=1e-9, **more):
    deck = {
        "system": {"spins": N, "terms": terms},
        "initial": {"type": "basis", "bits": "0101011"},
        "evolve": {"t_final": 3.0, "outputs": 4, "accuracy": accuracy, "integrator": "krylov"},
        "observe": [{"sz": "all"}, "state", "energy_variance", "return_probability"],
    }
    return trotter.run(**deck | more)


def solved(H, t_final=3.0, bits="0101011"):
    psi = np.zeros(1 << N, complex)
    psi[sum(1 << j for j, b in enumerate(bits) if b == "1")] = 1.0
    made = solve_ivp(lambda t, y: -1j * (H(t) @ y), (0.0, t_final), psi, "DOP853", rtol=1e-12, atol=1e-13)
    return made.y[:, -1]


S = [[spin(a, j, N) for j in range(N)] for a in range(3)]
XXZ = sum(J * S[a][j] @ S[a][(j + 1) % N] for j in range(N) for a, J in enumerate((1.0, 1.0, 0.6))) + sum(
    h * S[2][j] for j, h in enumerate(FIELD["values"])
)
SHAKEN = sum(np.cos(j) * S[2][j] for j in range(N))


@pytest.mark.parametrize("t", [0.01, 0.7, -3.0, 20.0])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12])
def test_an_exponential_keeps_its_tolerance(t, tolerance):
    """Random couplings of all components, 64 and 8 states: longer and shorter than a Krylov space."""
    for spins in (3, 6):
        system, psi = random_model(spins), state(1 << spins, "c16")
        values, vectors = np.linalg.eigh(dense(system))
        expected = vectors @ (np.exp(-1j * t * values) * (vectors.conj().T @ psi))
        made = Exponential(cpu(1), psi.size, psi.dtype)
        made.advance(Whole(cpu(1), operator(cpu(1), system)), psi, t, tolerance)
        assert np.linalg.norm(psi - expected) < max(tolerance, 3e-13 * (1 + abs(t)))


@pytest.mark.parametrize("sector", ["auto", "full", {"parity": "even"}])
def test_constant(trotter, sector):
    result = run(trotter, [RING, FIELD], sector=sector)
    psi = solved(lambda t: XXZ)
    assert (result.problem.sector is None) == (sector == "full")
    assert result.integration.method == "krylov"
    assert np.linalg.norm(result.psi - psi) < 1e-9
    assert result.mean["energy"][-1] == pytest.approx(np.vdot(psi, XXZ @ psi).real, abs=1e-8)


@pytest.mark.parametrize("sector", ["auto", "full", {"parity": "even"}])
@pytest.mark.parametrize("accuracy", [1e-4, 1e-6, 1e-9])
def test_driven(trotter, sector, accuracy):
    """The true error is below the claim; energy and variance are those of H at that time."""
    result = run(trotter, [RING, FIELD, DRIVE], accuracy=accuracy, sector=sector)

    def H(t):
        return XXZ + np.cos(2.0 * t) * SHAKEN

    psi = solved(H)
    assert (result.problem.sector is None) == (sector == "full")
    assert np.linalg.norm(result.psi - psi) < result.integration.error <= accuracy
    energy = np.vdot(psi, H(3.0) @ psi).real
    assert result.mean["energy"][-1] == pytest.approx(energy, abs=20 * accuracy)
    variance = np.vdot(H(3.0) @ psi, H(3.0) @ psi).real - energy**2
    assert result.mean["energy_variance"][-1] == pytest.approx(variance, abs=100 * accuracy)


def test_driven_couplings_of_different_components(trotter):
    """`auto` takes these steps where there are no layers; a ramp with a kink."""
    term = {
        "type": "dm",
        "lattice": "ring",
        "D": [0.2, 0.1, 0.5],
        "profile": {"type": "table", "points": [[0.0, 0.0], [1.3, 1.0], [3.0, 0.2]]},
    }
    result = run(
        trotter,
        [RING, FIELD, term],
        evolve={"t_final": 3.0, "outputs": 2, "accuracy": 1e-8},
    )
    x, y, z = term["D"]
    K = np.array([[0, z, -y], [-z, 0, x], [y, -x, 0]])
    turned = sum(K[a, b] * S[a][j] @ S[b][(j + 1) % N] for j in range(N) for a in range(3) for b in range(3))
    psi = solved(lambda t: XXZ + np.interp(t, [0.0, 1.3, 3.0], [0.0, 1.0, 0.2]) * turned)
    assert result.integration.method == "krylov"
    assert np.linalg.norm(result.psi - psi) < 1e-8


def test_a_narrow_pulse_is_not_passed_over(trotter):
    pulse = {
        "type": "field",
        "axis": "z",
        "values": "cos(j)",
        "profile": {"type": "expression", "value": "40*exp(-((t-1.7)/0.01)^2)"},
    }
    result = run(trotter, [RING, FIELD, pulse], accuracy=1e-7)
    made = [0.0, 1.6, 1.8, 3.0]
    psi = np.zeros(1 << N, complex)
    psi[sum(1 << j for j, b in enumerate("0101011") if b == "1")] = 1.0
    for a, b in pairwise(made):
        psi = solve_ivp(
            lambda t, y: -1j * (XXZ @ y + 40 * np.exp(-(((t - 1.7) / 0.01) ** 2)) * (SHAKEN @ y)),
            (a, b),
            psi,
            "DOP853",
            rtol=1e-11,
            atol=1e-12,
            max_step=0.002 if a == 1.6 else 0.1,
        ).y[:, -1]
    assert np.linalg.norm(result.psi - psi) < 1e-7


@pytest.mark.parametrize("scheme", ["overlap", "return"])
def test_echo_and_verification(trotter, scheme):
    sigma = [{"type": "field", "axis": "z", "values": "0.2*sin(j)"}]
    result = run(
        trotter,
        [RING, FIELD, DRIVE],
        observe=[{"echo": {"sigma": sigma, "scheme": scheme, "times": "final"}}],
        evolve={"t_final": 3.0, "outputs": 2, "accuracy": 1e-9, "integrator": "krylov", "verify": True},
    )
    more = sum(0.2 * np.sin(j) * S[2][j] for j in range(N))
    one = solved(lambda t: XXZ + np.cos(2.0 * t) * SHAKEN)
    two = solved(lambda t: XXZ + np.cos(2.0 * t) * SHAKEN + more)
    assert result.mean["echo"][-1] == pytest.approx(abs(np.vdot(two, one)) ** 2, abs=1e-8)
    assert result.info["verification_error"][0] < 1e-9


def test_random_states_in_an_ensemble_of_a_sector(trotter):
    result = run(
        trotter,
        [RING, FIELD, DRIVE],
        initial={"type": "haar"},
        sector={"up": 3},
        ensemble={"states": 3},
        observe=["sz"],
    )
    np.testing.assert_allclose(result.mean["norm"], 1.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.mean["total_sz"], -0.5, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evolve": {"t_final": 1.0, "dt": 0.1, "integrator": "krylov"}}, "krylov finds its steps"),
        ({"evolve": {"t_final": 1.0, "accuracy": 1e-14, "integrator": "krylov"}}, "out of reach"),
        ({"evolve": {"t_final": 1.0, "accuracy": 1e-8, "integrator": "chebyshev"}}, "use krylov"),
    ],
)
def test_bad_input(trotter, change, message):
    with pytest.raises(Exception, match=message):
        run(trotter, [RING, DRIVE], **change)


def test_a_driven_term_that_leaves_the_sector(trotter):
    with pytest.raises(DeckError, match="mixes magnetisations"):
        run(trotter, [RING, DRIVE | {"axis": "x"}], sector={"up": 3})


NARROW = [[0.0, 0.0], [131.7, 0.0], [131.70002, 700.0], [131.70162, 700.0], [131.70163, 0.0]]
FORMULA = "250*exp(-((t-41.3)/0.002)^2)"


@pytest.mark.parametrize(
    ("kind", "sector"), [("table", {"up": 2}), ("table", "full"), ("formula", {"up": 2})]
)
def test_narrow_pulses_in_a_long_evolution(trotter, sector, kind):
    """Three spins with one down: a share of the accuracy below rounding refuses nothing, steps elsewhere stay long."""
    if kind == "table":
        profile = {"type": "table", "points": NARROW}
        edges = [t for t, _ in NARROW]
    else:
        profile = {"type": "expression", "value": FORMULA}
        edges = [0.0, 41.288, 41.3, 41.312]

    def f(t):
        if kind == "table":
            return np.interp(t, *np.array(NARROW).T)
        return 250 * np.exp(-(((t - 41.3) / 0.002) ** 2))

    values = [1.0, -0.4, 0.3]
    found = trotter.run(
        system={
            "spins": 3,
            "terms": [
                {"type": "xx", "lattice": "chain", "J": 1.0},
                {"type": "field", "axis": "z", "values": values, "profile": profile},
            ],
        },
        sector=sector,
        initial={"type": "basis", "bits": "100"},
        evolve={"t_final": 300.0, "outputs": {"count": 3}, "accuracy": 1e-6},
        observe=["state"],
    )
    places = [1, 2, 4]  # of the strings with one spin down
    xx = 0.5 * np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    field = np.array([0.5 * sum(values) - h for h in values])
    energies, vectors = np.linalg.eigh(xx)
    psi = np.array([1.0, 0.0, 0.0], complex)
    for a, b in pairwise([*edges, 300.0]):
        if abs(f(0.5 * (a + b))) < 1e-9:
            psi = vectors @ (np.exp(-1j * (b - a) * energies) * (vectors.T @ psi))
        else:
            options = {"rtol": 1e-11, "atol": 1e-12, "max_step": (b - a) / 20}
            made = solve_ivp(lambda t, y: -1j * (xx @ y + f(t) * field * y), (a, b), psi, "DOP853", **options)
            psi = made.y[:, -1]
    assert np.linalg.norm(found.psi[places] - psi) < found.integration.error
    assert found.integration.error < 1e-6
    assert found.numbers["steps"] < 5000
