"""The time step from the accuracy where one scale of energy is far from the others, and the choice of the integrator."""

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.device.device import cpu
from qsim.core.errors import NumericsError
from qsim.trotter.evolution import accuracy
from qsim.trotter.evolution.accuracy import Machine, choose, estimate
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.model.hamiltonian import Model

SX, SY, SZ = np.array([[0, 1], [1, 0]]) / 2, np.array([[0, -1j], [1j, 0]]) / 2, np.diag([0.5, -0.5])


def ring(n, z=0.0, x=0.0, axes=(0, 1, 2)):
    J, h = np.zeros((3, n, n)), np.zeros((3, n))
    for j in range(n):
        for a in axes:
            J[a, j, (j + 1) % n] = J[a, (j + 1) % n, j] = 1.0
    h[2], h[0] = z, x
    return Model(n, J, h)


def matrix(model):
    n = model.spins
    on = [
        [np.kron(np.eye(1 << (n - 1 - j)), np.kron(o, np.eye(1 << j))) for j in range(n)]
        for o in (SX, SY, SZ)
    ]
    H = np.zeros((1 << n, 1 << n), complex)
    for a in range(3):
        for j in range(n):
            H += model.h[a, j] * on[a][j]
            H += sum(model.J[a, j, k] * on[a][j] @ on[a][k] for k in range(j + 1, n))
    return H


def neel(n):
    psi = np.zeros(1 << n, complex)
    psi[sum(1 << j for j in range(0, n, 2))] = 1.0
    return psi


@pytest.mark.parametrize("method", ["bm4", "bm6", "kl8", "auto"])
@pytest.mark.parametrize(
    ("model", "time"),
    [(ring(6, z=30.0), 5.0), (ring(6, z=300.0), 2.0), (ring(6, x=1e-4, axes=(2,)), 40.0)],
)
def test_a_strong_or_a_weak_term_does_not_hide_the_others(model, time, method):
    """The error of a pilot is below rounding there, at any step that it tries; that is no reason for longer ones."""
    psi = neel(6)
    found = choose(model, [0.0, time], 1e-6, method=method, psi=psi, machine=Machine("double", "cuda", 2))
    evolver, steps = Evolver(cpu(1), model, psi), int(np.ceil(time / found.dt))
    evolver.advance(found.method, time / steps, steps)
    error = np.linalg.norm(evolver.psi - expm(-1j * time * matrix(model)) @ psi)
    assert error <= found.error <= 1e-6


def test_the_estimate_of_steps_that_are_far_too_long_is_large():
    assert estimate(ring(6, z=30.0), "kl8", 1.0, 5.0) > 0.1


@pytest.mark.parametrize(
    ("field", "method", "wanted", "message"),
    [
        (1e9, "auto", 1e-4, "layers for t = 5 with couplings and fields up to 1e\\+09; at most 1e\\+11"),
        (1e10, "chebyshev", 1e-6, "terms for an interval of 5; at most 1e\\+08"),
        (1e10, "auto", 1e-6, "rounding alone"),  # of the angles: 1e-16 of 5e10
        (1e40, "auto", 1e-6, "rounding alone"),
    ],
)
def test_an_evolution_of_days_is_refused(field, method, wanted, message):
    with pytest.raises(NumericsError, match=message):
        choose(ring(6, z=field), [0.0, 5.0], wanted, method=method, psi=neel(6))


def test_terms_of_one_axis_are_exact_in_one_step():
    found = choose(ring(6, z=0.7, axes=(2,)), [0.0, 7.0], 1e-8, method="kl8", psi=neel(6))
    assert found.dt == 7.0


def test_a_profile_on_one_axis_is_followed(trotter):
    """All terms commute, but the integral of the profile is taken step by step: sin(t) turns a spin by 1 - cos(t)."""
    t = np.linspace(0.0, 6.0, 7)
    field = {
        "type": "field",
        "axis": "z",
        "values": 1.0,
        "profile": {"type": "expression", "value": "sin(t)"},
    }
    result = trotter.run(
        system={"spins": 2, "terms": [field]},
        initial={"type": "product", "theta": [np.pi / 2] * 2, "phi": [0.0] * 2},
        evolve={"outputs": t.tolist(), "accuracy": 1e-6},
        observe=["sx"],
    )
    expected = 0.5 * np.cos(1.0 - np.cos(t))
    np.testing.assert_allclose(result.mean["sx"], expected[:, None] + [0, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("outputs", [1, 30, 400])
@pytest.mark.parametrize("wanted", [1e-3, 1e-9])
def test_what_is_left_out_would_not_have_been_chosen(monkeypatch, wanted, outputs, kind):
    model, times = ring(8, z=0.3, x=0.2), np.linspace(0.0, 10.0, outputs + 1)
    few = choose(model, times, wanted, psi=neel(8), machine=Machine(kind=kind))
    monkeypatch.setattr(accuracy, "HOPELESS", np.inf)
    all_of_them = choose(model, times, wanted, psi=neel(8), machine=Machine(kind=kind))
    assert (few.method, few.dt) == (all_of_them.method, all_of_them.dt)
    assert set(few.costs) <= set(all_of_them.costs)


def test_single_precision_rounds_phases_on_a_gpu_alone():
    """With one axis, all terms commute and the error is that of rounding: 101 steps of one layer."""
    model = ring(4, z=0.3, axes=(2,))
    one = {
        kind: estimate(model, "ts2", 0.1, 10.1, machine=Machine("single", kind)) for kind in ("cpu", "cuda")
    }
    assert one["cpu"] == pytest.approx(6e-8 * 8.42, rel=1e-6)
    assert one["cuda"] == pytest.approx(6e-8 * (8.0 + 0.42 * 101**0.5 + 0.6 * 101), rel=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("spins", [4, 8, 12, 13, 16, 20])
@pytest.mark.parametrize(
    ("method", "steps", "dt"), [("bm6", 100, 0.02), ("ts2", 1000, 0.02), ("ts2", 20, 0.05)]
)
def test_rounding_of_single_precision_on_a_gpu(cuda, spins, method, steps, dt):
    """The same steps in single and in double precision differ by the rounding of single precision that is claimed."""
    model = ring(spins, z=0.7)
    psi = neel(spins)
    psi[:: 1 << (spins // 2)] += 0.3  # not an eigenstate of anything
    psi /= np.linalg.norm(psi)
    found = []
    for precision in ("single", "double"):
        evolver = Evolver(cuda, model, psi, precision=precision)
        evolver.advance(method, dt, steps)
        state = cuda.to_host(evolver.psi).astype(complex)
        found.append(state / np.linalg.norm(state))
    error = np.linalg.norm(found[0] - found[1])
    duration = steps * dt
    claimed, truncation = (
        estimate(model, method, dt, duration, psi, machine=Machine(precision, "cuda"))
        for precision in ("single", "double")
    )
    rounding = claimed - truncation
    assert error < 3.0 * rounding
    assert error > rounding / 30.0
