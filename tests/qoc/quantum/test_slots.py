"""The slot kernel and the costs against dense exponentials."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm, expm_frechet
from scipy.sparse import csr_array

from qsim.qoc.models.quantum import (
    ControlTerm,
    DensityTarget,
    GateTarget,
    Jump,
    ObservableTarget,
    QuantumModel,
    StateTarget,
)
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.propagators.slots import Slots


def _hermitian(rng, d, filled):
    a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    a *= rng.random((d, d)) < filled
    return csr_array(a + a.conj().T)


def _unit(rng, d, s):
    return np.linalg.qr(rng.normal(size=(d, s)) + 1j * rng.normal(size=(d, s)))[0]


def random_model(seed, kind, jumps):
    """Return a random system of 2 to 6 levels with 1 to 4 controls, some of them squared."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    count = int(rng.integers(1, 5))
    controls = tuple(
        ControlTerm(str(c), _hermitian(rng, d, 0.6), 1 + int(rng.integers(2))) for c in range(count)
    )
    made = [csr_array(0.3 * (rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d)))) for _ in range(jumps)]
    s = 1 if kind == "density" else 2
    states = _unit(rng, d, s)
    unitary = _unit(rng, 2, 2)
    columns = states
    vectors = (_unit(rng, d, 1).T, _unit(rng, d, 1).T)
    psi = _unit(rng, d, 1)
    goals = {
        "state": StateTarget(vectors),
        "coherent": StateTarget(vectors, coherent=True),
        "gate": GateTarget(unitary, columns, "none", np.zeros((2, 0), np.int64)),
        "observable": ObservableTarget(_hermitian(rng, d, 1.0)),
        "density": DensityTarget(psi @ psi.conj().T),
    }
    weights = np.full(s, 1.0 / s)
    jump = tuple(Jump(str(k), a) for k, a in enumerate(made))
    labels = tuple(str(i) for i in range(d))
    drift = _hermitian(rng, d, 0.8)
    return QuantumModel(drift, controls, jump, labels, (d,), None, states, weights, 0.0, goals[kind], None)


def dense(model, lindblad):
    """Return A0 and A_c from products with every matrix unit, without Kronecker products."""
    d = model.dimension
    h = [model.drift.toarray(), *(c.operator.toarray() for c in model.controls)]
    if not lindblad:
        return [-1j * a for a in h]
    jumps = [j.operator.toarray() for j in model.jumps]

    def act(a, rho, which):
        out = -1j * (a @ rho - rho @ a)
        if which == 0:
            for k in jumps:
                m = k.conj().T @ k
                out = out + k @ rho @ k.conj().T - 0.5 * (m @ rho + rho @ m)
        return out.ravel()

    units = np.eye(d * d).reshape(-1, d, d)
    return [np.array([act(a, u, c) for u in units]).T for c, a in enumerate(h)]


CASES = [(k, 0) for k in ("state", "coherent", "gate", "observable", "density")]
CASES += [(k, 2) for k in ("state", "gate", "observable", "density")]


@pytest.mark.parametrize(("kind", "jumps"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_those_of_dense_exponentials(kind, jumps, seed):
    model, lindblad = random_model(seed, kind, jumps), jumps > 0
    n, duration = 5, 2.0
    u = np.random.default_rng(seed + 50).normal(size=(len(model.controls), n))
    slots = Slots(model, lindblad, duration, n)
    start, cost = cost_of(model, lindblad)
    final, trajectory = slots.forward(u, start)
    gradient = slots.gradient(u, trajectory, cost.derivative(final))
    a = dense(model, lindblad)
    tau = duration / n
    power = [c.power for c in model.controls]
    steps = [tau * (a[0] + sum(u[c, i] ** p * a[c + 1] for c, p in enumerate(power))) for i in range(n)]
    x = start
    before = []
    for step in steps:
        before.append(x)
        x = expm(step) @ x
    assert np.abs(final - x).max() < 1e-12
    lam = cost.derivative(x)
    wanted = np.empty_like(u)
    for i in reversed(range(n)):
        for c, p in enumerate(power):
            direction = tau * p * u[c, i] ** (p - 1) * a[c + 1]
            change = expm_frechet(steps[i], direction, compute_expm=False) @ before[i]
            wanted[c, i] = 2.0 * np.vdot(lam, change).real
        lam = expm(steps[i]).conj().T @ lam
    assert np.abs(gradient - wanted).max() < 1e-11 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["state", "coherent", "gate", "observable", "density"])
def test_derivative_of_a_cost_is_its_difference(kind):
    model = random_model(7, kind, 0)
    rng = np.random.default_rng(3)
    shape = model.states.shape
    x, change = rng.normal(size=(2, *shape)) + 1j * rng.normal(size=(2, *shape))
    _, cost = cost_of(model, lindblad=False)
    h = 1e-6
    difference = (cost.value(x + h * change) - cost.value(x - h * change)) / (2 * h)
    slope = 2.0 * np.vdot(cost.derivative(x), change).real
    assert difference == pytest.approx(slope, rel=1e-7)


def test_gate_fidelity_is_the_mean_over_cardinal_states():
    # on one qubit, the mean over all states is that over the six ends of the axes
    model = random_model(11, "gate", 0)
    goal = model.goal
    x = 0.9 * _unit(np.random.default_rng(1), model.dimension, 2)
    r = np.sqrt(0.5)
    cardinal = np.array([[1, 0], [0, 1], [r, r], [r, -r], [r, 1j * r], [r, -1j * r]])
    wanted = goal.columns @ goal.unitary
    mean = np.mean([np.abs(np.vdot(wanted @ c, x @ c)) ** 2 for c in cardinal])
    _, cost = cost_of(model, lindblad=False)
    assert cost.value(x) == pytest.approx(mean, rel=1e-13)
    # the same map as a Lindbladian without jumps
    starts, linear = cost_of(model, lindblad=True)
    lifted = x @ goal.columns.conj().T
    final = np.kron(lifted, lifted.conj()) @ starts
    assert linear.value(final) == pytest.approx(mean, rel=1e-13)
