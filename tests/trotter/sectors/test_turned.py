"""Correlations in time and out-of-time-order correlators: dense exponentials, exact traces, free fermions, in all spaces."""

import numpy as np
import pytest

from qsim.core.errors import DeckError, Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from tests.trotter.kernels.test_exchange import spin
from tests.trotter.sectors.test_quench import StopAfter

N = 6
TERMS = [
    {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6},
    {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.5, 0.1, 0.0, -0.4]},
]
S = [[spin(a, j, N) for j in range(N)] for a in range(3)]
H = sum(J * S[a][j] @ S[a][(j + 1) % N] for j in range(N) for a, J in enumerate((1.0, 1.0, 0.6))) + sum(
    h * S[2][j] for j, h in enumerate(TERMS[1]["values"])
)
ENERGIES, VECTORS = np.linalg.eigh(H)
OBSERVE = [{"time_correlation": 2}, {"otoc": {"w": 0, "v": [1, 3, 5]}}]


def at(operator, t):
    U = VECTORS @ np.diag(np.exp(-1j * t * ENERGIES)) @ VECTORS.conj().T
    return U.conj().T @ operator @ U


def expected(psi, t):
    correlation = [np.vdot(psi, at(S[2][j], t) @ S[2][2] @ psi).real for j in range(N)]
    W = at(2.0 * S[2][0], t)
    otoc = [np.vdot(psi, W @ (2 * S[2][v]) @ W @ (2 * S[2][v]) @ psi).real for v in (1, 3, 5)]
    return correlation, otoc


def basis(bits):
    psi = np.zeros(1 << N, complex)
    psi[sum(1 << j for j, b in enumerate(bits) if b == "1")] = 1.0
    return psi


EVOLVE = {"t_final": 2.0, "outputs": 3, "accuracy": 1e-10}


@pytest.mark.parametrize("integrator", ["auto", "krylov", "bm6"])
@pytest.mark.parametrize("sector", ["auto", "full", {"parity": "odd"}])
def test_against_dense_matrices(trotter, sector, integrator):
    if integrator == "bm6" and isinstance(sector, dict):
        pytest.skip("a product formula in a sector is refused")
    deck = {
        "system": {"spins": N, "terms": TERMS},
        "initial": {"type": "basis", "bits": "010101"},
        "evolve": EVOLVE | {"integrator": integrator, "accuracy": 1e-9},
        "observe": OBSERVE,
        "sector": sector,
    }
    result = trotter.run(**deck)
    for row, t in enumerate((0.0, 1.0, 2.0)):
        correlation, otoc = expected(basis("010101"), t)
        np.testing.assert_allclose(result.mean["time_correlation"][row], correlation, rtol=0, atol=3e-9)
        np.testing.assert_allclose(result.mean["otoc"][row], otoc, rtol=0, atol=2e-8)
    np.testing.assert_allclose(result.mean["otoc"][0], 1.0, rtol=0, atol=1e-12)  # V^2 = W^2 = 1


def test_any_state_of_the_whole_space(trotter):
    theta, phi = [0.3, 1.2, 2.0, 0.7, 1.5, 2.6], [0.1, 0.5, 2.0, 3.0, 1.0, 4.0]
    result = trotter.run(
        system={"spins": N, "terms": TERMS},
        initial={"type": "product", "theta": theta, "phi": phi},
        evolve=EVOLVE,
        observe=OBSERVE,
    )
    psi = np.ones(1)
    for a, b in zip(theta, phi, strict=True):
        psi = np.kron([np.cos(a / 2), np.exp(1j * b) * np.sin(a / 2)], psi)
    correlation, otoc = expected(psi, 2.0)
    np.testing.assert_allclose(result.mean["time_correlation"][-1], correlation, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.mean["otoc"][-1], otoc, rtol=0, atol=1e-9)


@pytest.mark.parametrize("initial", ["haar", "random_phase"])
def test_infinite_temperature_in_a_sector(trotter, initial):
    """The mean of random states is the trace over the sector, within five of its standard errors, on a ring of 10, Sz = 0."""
    n, t = 10, 2.0
    ring = {"type": "heisenberg", "lattice": "ring"}
    result = trotter.run(
        system={"spins": n, "terms": [ring]},
        initial={"type": initial},
        evolve={"t_final": t, "outputs": 2, "accuracy": 1e-8},
        sector={"sz": 0},
        ensemble={"states": 24},
        observe=[{"time_correlation": 0}, {"otoc": {"w": 0, "v": [5], "times": "final"}}],
    )
    strings = np.array([s for s in range(1 << n) if s.bit_count() == n // 2])
    place = {int(s): i for i, s in enumerate(strings)}
    matrix = np.zeros((252, 252))
    sz = 0.5 - (strings[:, None] >> np.arange(n) & 1)
    for i, s in enumerate(strings):
        for j in range(n):
            k = (j + 1) % n
            matrix[i, i] += sz[i, j] * sz[i, k]
            if sz[i, j] != sz[i, k]:
                matrix[place[int(s) ^ (1 << j) ^ (1 << k)], i] += 0.5
    energies, vectors = np.linalg.eigh(matrix)
    U = vectors @ np.diag(np.exp(-1j * t * energies)) @ vectors.T
    weight = np.abs(U) ** 2
    exact = sz.T @ weight @ sz[:, 0] / 252
    error = result.error["time_correlation"][-1]
    assert (np.abs(result.mean["time_correlation"][-1] - exact) < 5 * error + 1e-9).all()
    assert error.max() < 0.25 / np.sqrt(252)
    W = U.conj().T @ (2 * sz[:, 0, None] * U)
    VW = 2 * sz[:, 5, None] * W
    exact = np.trace(VW @ VW).real / 252
    assert abs(result.mean["otoc"][-1, 0] - exact) < 5 * result.error["otoc"][-1, 0] + 1e-8


def test_light_cone_of_free_fermions(trotter):
    """XX chain, infinite temperature: Tr[Sz_j(t) Sz_k]/2^N = |amplitude of the hop k -> j|^2 / 4."""
    n, t, k = 12, 3.0, 4
    result = trotter.run(
        system={"spins": n, "terms": [{"type": "xx", "lattice": "chain"}]},
        initial={"type": "haar"},
        evolve={"t_final": t, "outputs": 2, "accuracy": 1e-6, "integrator": "chebyshev"},
        ensemble={"states": 8},
        observe=[{"time_correlation": k}],
    )
    energies, modes = np.linalg.eigh(0.5 * (np.eye(n, k=1) + np.eye(n, k=-1)))
    hop = modes @ np.diag(np.exp(-1j * t * energies)) @ modes.T
    exact = 0.25 * np.abs(hop[:, k]) ** 2
    np.testing.assert_allclose(
        result.mean["time_correlation"][-1], exact, rtol=0, atol=0.25 * 5 / np.sqrt(8 * 4096)
    )


@pytest.mark.parametrize("integrator", ["chebyshev", "krylov"])
@pytest.mark.parametrize("calls", [2, 6])
def test_a_resumed_run_ends_with_the_same_bits(trotter, calls, integrator):
    deck = {
        "system": {"spins": N, "terms": TERMS},
        "initial": {"type": "basis", "bits": "010101"},
        "evolve": EVOLVE | {"integrator": integrator, "accuracy": 1e-9},
        "observe": [{"time_correlation": 2}, {"otoc": {"w": 0, "v": [1], "times": 2}}],
    }
    whole = trotter.run(**deck)
    assert whole.mean["otoc"].shape == (2, 1)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **deck)
    state, _ = checkpoint.load(file)
    found = trotter.run(monitor=Monitor(quiet=True, restored=state), **deck)
    for name, values in whole.mean.items():
        np.testing.assert_array_equal(found.mean[name], values, err_msg=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observe": [{"otoc": {"w": 6, "v": [1]}}]}, "site 6"),
        ({"observe": [{"otoc": {"w": 0, "v": [1, 1]}}]}, "site 1"),
        ({"observe": [{"time_correlation": 9}]}, "site 9"),
        (
            {"sector": {"sz": 0, "inversion": 1}, "system": {"spins": N, "terms": TERMS[:1]}},
            "changes the sign",
        ),
        (
            {
                "sector": {"sz": 0, "inversion": 1},
                "system": {"spins": N, "terms": TERMS[:1]},
                "observe": [{"time_correlation": 0}],
            },
            "changes the sign",
        ),
        ({"task": "spectrum", "initial": None, "evolve": None}, "otoc belongs to task: evolve"),
    ],
)
def test_bad_input(trotter, change, message):
    deck = {
        "system": {"spins": N, "terms": TERMS},
        "initial": {"type": "haar"},
        "evolve": EVOLVE,
        "observe": OBSERVE,
    } | change
    with pytest.raises(DeckError, match=message):
        trotter.load(**{key: value for key, value in deck.items() if value is not None})
