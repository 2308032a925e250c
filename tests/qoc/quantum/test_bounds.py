"""What no control can pass: against random controls, and against the cases that reach the bounds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.sparse import csr_array

import qsim
from qsim.qoc.models.quantum import ControlTerm, GateTarget, Jump, ObservableTarget, QuantumModel, StateTarget
from qsim.qoc.objectives.bounds import (
    coherence_limit,
    connection_bound,
    mixture_bound,
    speed_bound,
    widest,
)

SM = np.array([[0.0, 1.0], [0.0, 0.0]])


def hermitian(rng, d):
    a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    return (a + a.conj().T) / 2.0


def isometry(rng, d, s):
    return np.linalg.qr(rng.normal(size=(d, s)) + 1j * rng.normal(size=(d, s)))[0]


def made_of(drift, operators, states, weights, goal, jumps=(), powers=None):
    """Return a model of dense matrices."""
    powers = powers or [1] * len(operators)
    controls = [
        ControlTerm(str(c), csr_array(h), p) for c, (h, p) in enumerate(zip(operators, powers, strict=True))
    ]
    labels = tuple(map(str, range(len(drift))))
    all_jumps = tuple(Jump(str(k), csr_array(a.astype(complex))) for k, a in enumerate(jumps))
    return QuantumModel(
        csr_array(drift),
        tuple(controls),
        all_jumps,
        labels,
        (len(drift),),
        None,
        states,
        np.array(weights),
        0.0,
        goal,
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_unitary_passes_the_bound_of_a_mixture_and_one_reaches_it(seed):
    rng = np.random.default_rng(seed)
    d, rank = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    weights = rng.dirichlet(np.ones(3))
    states = isometry(rng, d, 3)
    operator = hermitian(rng, d)
    rows = isometry(rng, d, min(rank, d - 1)).T
    for goal, o in (
        (ObservableTarget(csr_array(operator)), operator),
        (StateTarget((rows,)), rows.T @ rows.conj()),
    ):
        bound = mixture_bound(made_of(operator, [operator], states, weights, goal))
        rho = (states * weights) @ states.conj().T
        for _ in range(20):
            u = isometry(rng, d, d)
            assert np.trace(o @ u @ rho @ u.conj().T).real <= bound + 1e-12
        # eigenvectors onto eigenvectors, both sorted
        best = np.linalg.eigh(o)[1] @ np.linalg.eigh(rho)[1].conj().T
        assert np.trace(o @ best @ rho @ best.conj().T).real == pytest.approx(bound, abs=1e-12)


@pytest.mark.parametrize("kind", ["states", "coherent", "gate"])
@pytest.mark.parametrize("seed", range(3))
def test_no_motion_inside_of_blocks_passes_the_bound_of_their_weights(kind, seed):
    rng = np.random.default_rng(seed + 40)
    sizes = [int(rng.integers(1, 4)) for _ in range(3)]
    ends = np.cumsum([0, *sizes])
    d = int(ends[-1])
    # the blocks lie anywhere among the basis states
    order = rng.permutation(d)

    def blocks(make):
        a = np.zeros((d, d), complex)
        for first, last in pairwise(ends):
            a[first:last, first:last] = make(last - first)
        return a[np.ix_(order, order)]

    states = isometry(rng, d, 2)
    goals = {
        "states": StateTarget((isometry(rng, d, min(2, d - 1)).T, isometry(rng, d, 1).T)),
        "coherent": StateTarget((isometry(rng, d, 1).T, isometry(rng, d, 1).T), coherent=True),
        "gate": GateTarget(isometry(rng, 2, 2), states, "none", np.zeros((2, 0), np.int64)),
    }
    weights = [0.5, 0.5] if kind == "gate" else [0.7, 0.3]
    h = blocks(lambda n: hermitian(rng, n))
    made = made_of(h, [h], states, weights, goals[kind])
    bound = connection_bound(made)
    from qsim.qoc.objectives.costs import cost_of

    cost = cost_of(made, lindblad=False)[1]
    values = [cost.value(blocks(lambda n: isometry(rng, n, n)) @ states) for _ in range(200)]
    assert max(values) <= bound + 1e-12
    assert max(values) > 0.3 * bound


def test_a_goal_that_nothing_leads_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [{"name": "q", "type": "ladder", "levels": 4, "frequency": 1.0}]
    system = {"type": "model", "parts": parts, "controls": {"x": "q.x^2"}, "initial": "0", "target": "1"}
    made = {"method": "qoc", "system": system, "time": {"T": 5.0, "slots": 20}, "control": [{"name": "x"}]}
    with pytest.raises(qsim.DeckError, match="no control, coupling or jump leads from the start to the goal"):
        qsim.run(made, figures="none")
    qubits = [{"name": "a", "type": "qubit"}, {"name": "b", "type": "qubit"}]
    gate = {"type": "model", "parts": qubits, "controls": {"x": "a.sx"}, "target": {"gate": "cnot"}}
    # 10 and 11 are exchanged by nothing: |t| <= 2 of 4
    with qsim.run(made | {"system": gate, "optimizer": "none"}, figures="none") as results:
        assert results.scalars["bound_connection"].value == pytest.approx(0.4, abs=1e-15)


@pytest.mark.parametrize("kind", ["states", "coherent", "gate"])
@pytest.mark.parametrize("seed", range(3))
def test_no_control_within_its_bounds_is_faster(kind, seed):
    rng = np.random.default_rng(seed + 10)
    d, slots, duration = int(rng.integers(2, 6)), 8, float(rng.uniform(0.1, 0.6))
    states = isometry(rng, d, 2)
    u = isometry(rng, 2, 2)
    goals = {
        "states": StateTarget((isometry(rng, d, 1).T, isometry(rng, d, 1).T)),
        "coherent": StateTarget((isometry(rng, d, 1).T, isometry(rng, d, 1).T), coherent=True),
        "gate": GateTarget(u, states, "none", np.zeros((2, 0), np.int64)),
    }
    goal, weights = goals[kind], np.array([0.5, 0.5])
    drift, operators = hermitian(rng, d), [hermitian(rng, d), hermitian(rng, d)]
    made = made_of(drift, operators, states, weights, goal, powers=[1, 2])
    low, high = np.array([-1.0, -0.4]), np.array([0.7, 0.9])
    bound = speed_bound(made, duration, low, high)
    width = widest(made, low, high)
    for _ in range(25):
        fields = rng.uniform(low[:, None], high[:, None], (2, slots))
        x = states
        for a, b in fields.T:
            h = drift + a * operators[0] + b**2 * operators[1]
            assert np.ptp(np.linalg.eigvalsh(h)) <= width + 1e-12
            x = expm(-1j * duration / slots * h) @ x
        if kind == "gate":
            t = np.trace(u.conj().T @ states.conj().T @ x)
            value = (abs(t) ** 2 + np.linalg.norm(states.conj().T @ x) ** 2) / 6.0
        else:
            overlaps = np.array([np.vdot(v[0], c) for v, c in zip(goal.vectors, x.T, strict=True)])
            value = abs(weights @ overlaps) ** 2 if kind == "coherent" else weights @ np.abs(overlaps) ** 2
        assert value <= bound + 1e-12


def test_a_turning_qubit_is_as_fast_as_the_bound():
    sx = np.array([[0.0, 1.0], [1.0, 0.0]], complex)
    made = made_of(
        0.0 * sx, [sx], np.eye(2, 1, dtype=complex), [1.0], StateTarget((np.array([[0.0, 1.0]], complex),))
    )
    # P = sin^2 T for u = 1
    bound = speed_bound(made, 0.8, -np.ones(1), np.ones(1))
    assert bound == pytest.approx(np.sin(0.8) ** 2, abs=1e-13)
    assert speed_bound(made, 0.8, -np.ones(1), np.full(1, np.inf)) is None


def test_lifetimes_leave_what_they_leave_of_idle_qubits():
    """Against F_pro = prod_q (1 + exp(-t/T1) + 2 exp(-t/T2))/4, to first order in t."""
    t1, t2, d = (30.0, 45.0), (20.0, 50.0), 4
    one = np.eye(2)
    jumps = []
    for q in range(2):
        phi = 1.0 / t2[q] - 0.5 / t1[q]
        for a in (SM / np.sqrt(t1[q]), np.sqrt(0.5 * phi) * np.diag([1.0, -1.0])):
            jumps.append(np.kron(a, one) if q == 0 else np.kron(one, a))
    states = np.eye(4, dtype=complex)
    goal = GateTarget(states, states, "none", np.zeros((4, 0), np.int64))
    made = made_of(np.zeros((4, 4), complex), [np.eye(4, dtype=complex)], states, [0.25] * 4, goal, jumps)
    # the published form of the estimate
    rates = sum(1.0 / a + 1.0 / b - 0.5 / a for a, b in zip(t1, t2, strict=True))
    assert coherence_limit(made, 1.5) == pytest.approx(1.0 - d * 1.5 / (2 * (d + 1)) * rates, abs=1e-14)
    t = 1e-4
    exact = np.prod([(1 + np.exp(-t / a) + 2 * np.exp(-t / b)) / 4 for a, b in zip(t1, t2, strict=True)])
    exact = (d * exact + 1) / (d + 1)
    assert 1.0 - coherence_limit(made, t) == pytest.approx(1.0 - exact, rel=1e-4)


def test_a_threshold_out_of_reach_is_told(caplog):
    system = {
        "type": "model",
        "parts": [{"name": "q", "type": "qubit", "frequency": 1.0}],
        "controls": {"x": "q.sx"},
        "initial": {"thermal": 0.5},
        "target": "1",
    }
    deck = {
        "method": "qoc",
        "system": system,
        "time": {"T": 5.0, "slots": 20},
        "control": [{"name": "x", "bounds": [-2, 2]}],
        "run": {"seed": 1},
    }
    with qsim.run(deck, figures="none") as results:
        upper = 1.0 / (1.0 + np.exp(-2.0))
        assert results.scalars["bound_mixture"].value == pytest.approx(upper, abs=1e-12)
        assert results.scalars["probability"].value <= upper + 1e-12
    assert "unitary motion" in caplog.text
    fast = deck | {"time": {"T": 0.2, "slots": 5}, "system": system | {"initial": "0"}}
    with qsim.run(fast, figures="none") as results:
        # the widest spectrum is that of sqrt(1/4 + 4) sx
        bound = np.sin(0.2 * np.sqrt(4.25)) ** 2
        assert results.scalars["speed_limit_bound"].value == pytest.approx(bound, abs=1e-12)
        assert results.scalars["probability"].value <= bound
    assert "Mandelstam" in caplog.text
