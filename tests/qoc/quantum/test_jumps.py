"""Density matrices as matrices, and the expansion in jumps, against exponentials of dense Liouvillians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm, expm_frechet
from scipy.sparse import csr_array

import qsim
from qsim.qoc.models.quantum import ControlTerm, GateTarget, Jump, ObservableTarget, QuantumModel, StateTarget
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.jumps import expand
from qsim.qoc.propagators.densities import Densities

DURATION = 1.7


def hermitian(rng, d, filled=1.0):
    a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    a *= rng.random((d, d)) < filled
    return (a + a.conj().T) / 2.0


def isometry(rng, d, s):
    return np.linalg.qr(rng.normal(size=(d, s)) + 1j * rng.normal(size=(d, s)))[0]


def random_model(seed, kind, rate, levels=(2, 13)):
    """Return a random open system, its controls (C, N) and their powers."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(*levels))
    controls = tuple(
        ControlTerm(str(c), csr_array(hermitian(rng, d, 0.5)), 1 + c % 2)
        for c in range(int(rng.integers(1, 4)))
    )
    jumps = []
    for k in range(int(rng.integers(1, 4))):
        a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
        # some are sparse, some are full
        a *= rng.random((d, d)) < rng.choice([0.2, 1.0])
        jumps.append(Jump(str(k), csr_array(np.sqrt(rate) * a / max(np.linalg.norm(a, 2), 1e-9))))
    goals = {
        "gate": lambda v: GateTarget(isometry(rng, 2, 2), v, "none", np.zeros((2, 0), np.int64)),
        "states": lambda v: StateTarget((isometry(rng, d, 1).T, isometry(rng, d, 1).T)),
        "observable": lambda v: ObservableTarget(csr_array(hermitian(rng, d))),
        "mixture": lambda v: StateTarget((isometry(rng, d, 1).T,)),
    }
    states = isometry(rng, d, 2)
    weights = np.array([0.5, 0.5]) if kind == "gate" else np.array([0.7, 0.3])
    drift = csr_array(hermitian(rng, d, 0.7))
    labels = tuple(map(str, range(d)))
    made = QuantumModel(
        drift, controls, tuple(jumps), labels, (d,), None, states, weights, 0.0, goals[kind](states), None
    )
    return made, rng.normal(size=(len(controls), 6))


def liouvillians(made):
    """Return A0 and every A_c on rho row by row, from Kronecker products."""
    one = np.eye(made.dimension)
    out = []
    for h in [made.drift, *(c.operator for c in made.controls)]:
        out.append(-1j * (np.kron(h.toarray(), one) - np.kron(one, h.toarray().T)))
    for jump in made.jumps:
        a = jump.operator.toarray()
        rate = a.conj().T @ a
        out[0] += np.kron(a, a.conj()) - 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
    return out


def steps(made, fields):
    """Return tau A of every slot."""
    a, tau = liouvillians(made), DURATION / fields.shape[1]
    powers = [c.power for c in made.controls]
    return [
        tau * (a[0] + sum(u**p * b for u, p, b in zip(slot, powers, a[1:], strict=True))) for slot in fields.T
    ]


def true_value(made, fields):
    """Return the value of the goal by its definition, from the final density matrices of every product of two starts."""
    whole = np.eye(made.dimension**2)
    for step in steps(made, fields):
        whole = expm(step) @ whole

    def evolved(x, y):
        return (whole @ np.outer(x, y.conj()).ravel()).reshape(made.dimension, -1)

    goal, x = made.goal, made.states.T
    if isinstance(goal, GateTarget):
        # the mean over all states from those on the axes of the Bloch sphere of two logical states
        r = np.sqrt(0.5)
        cardinal = np.array([[1, 0], [0, 1], [r, r], [r, -r], [r, 1j * r], [r, -1j * r]])
        wanted = goal.columns @ goal.unitary @ cardinal.T
        starts = goal.columns @ cardinal.T
        return np.mean([np.vdot(f, evolved(s, s) @ f).real for f, s in zip(wanted.T, starts.T, strict=True)])
    parts = []
    for s, w in enumerate(made.weights):
        rho = evolved(x[s], x[s])
        if isinstance(goal, ObservableTarget):
            parts.append(w * np.trace(goal.operator.toarray() @ rho).real)
        else:
            f = goal.vectors[min(s, len(goal.vectors) - 1)][0]
            parts.append(w * np.vdot(f, rho @ f).real)
    return sum(parts)


@pytest.mark.parametrize("kind", ["gate", "states", "observable", "mixture"])
@pytest.mark.parametrize("seed", range(2))
def test_matrices_and_their_gradient_are_those_of_a_dense_liouvillian(kind, seed):
    made, fields = random_model(seed, kind, 0.4, (2, 6))
    densities = Densities(made, DURATION, fields.shape[1])
    start, cost = cost_of(made, lindblad=True)
    final, trajectory = densities.forward(fields, start)
    assert cost.value(final) == pytest.approx(true_value(made, fields), abs=1e-12)
    costate = cost.derivative(final)
    gradient = densities.gradient(fields, trajectory, costate)
    a, each = liouvillians(made), steps(made, fields)
    before = [start]
    for step in each:
        before.append(expm(step) @ before[-1])
    assert np.abs(final - before[-1]).max() < 1e-12
    lam, tau = costate, DURATION / fields.shape[1]
    for n in reversed(range(fields.shape[1])):
        for c, control in enumerate(made.controls):
            direction = tau * control.power * fields[c, n] ** (control.power - 1) * a[c + 1]
            change = expm_frechet(each[n], direction, compute_expm=False) @ before[n]
            assert gradient[c, n] == pytest.approx(2.0 * np.vdot(lam, change).real, abs=1e-11)
        lam = expm(each[n]).conj().T @ lam


def test_populations_of_a_sweep_are_those_of_its_slots(monkeypatch):
    made, fields = random_model(5, "mixture", 0.4, (3, 6))
    densities = Densities(made, DURATION, fields.shape[1])
    start, _ = cost_of(made, lindblad=True)
    # two slots at a time
    monkeypatch.setattr("qsim.qoc.propagators.densities.SEGMENT_BYTES", 32.0 * start.size)
    final, populations = densities.sweep(fields, start, np.ones(1))
    rho = start[:, 0]
    for step, row in zip(steps(made, fields), populations, strict=True):
        rho = expm(step) @ rho
        assert np.allclose(row, np.diag(rho.reshape(made.dimension, -1)).real, atol=1e-12)
    assert np.abs(final[:, 0] - rho).max() < 1e-12


@pytest.mark.parametrize("kind", ["gate", "states", "observable", "mixture"])
@pytest.mark.parametrize("rate", [0.02, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_the_expansion_holds_the_value(kind, rate, seed):
    made, fields = random_model(seed + 20, kind, rate, (2, 9))
    _, cost = cost_of(made, lindblad=False)
    found = expand(made, cost, made.weights, DURATION, fields)
    truth = true_value(made, fields)
    assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
    assert found.jump_free + found.one_jump <= 1.0 + 1e-12
    assert np.trace(found.density).real == pytest.approx(found.jump_free + found.one_jump, abs=1e-7)
    order = rate * DURATION * len(made.jumps)
    assert found.rest <= order**2
    # without order 1 the interval is wider, and holds the other one
    wide = expand(made, cost, made.weights, DURATION, fields, first_order=False)
    assert wide.lower <= found.lower + 1e-12
    assert found.upper <= wide.upper + 1e-12


def test_orders_of_a_driven_damped_atom():
    """Torrey's atom, H = sx/2 with the jump sqrt(0.3) |0><1| until t = 4: orders by quadrature of closed exponentials."""
    h = np.array([[0.0, 0.5], [0.5, 0.0]])
    lower = np.sqrt(0.3) * np.array([[0.0, 1.0], [0.0, 0.0]])
    one = csr_array(np.eye(2, dtype=complex))
    made = QuantumModel(
        csr_array(h.astype(complex)),
        (ControlTerm("u", one),),
        (Jump("0", csr_array(lower.astype(complex))),),
        ("0", "1"),
        (2,),
        None,
        np.array([[1.0], [0.0]], complex),
        np.ones(1),
        0.0,
        StateTarget((np.array([[0.0, 1.0]], complex),)),
        None,
    )
    _, cost = cost_of(made, lindblad=False)
    found = expand(made, cost, made.weights, 4.0, np.zeros((1, 40)))
    effective = -1j * h - 0.5 * lower.T @ lower
    x, w = np.polynomial.legendre.leggauss(30)
    kets = [expm(effective * (4.0 - s)) @ lower @ expm(effective * s)[:, 0] for s in 2.0 * (x + 1.0)]
    assert found.zero == pytest.approx(abs(expm(4.0 * effective)[1, 0]) ** 2, abs=1e-13)
    assert found.one == pytest.approx(
        2.0 * sum(w * [abs(k[1]) ** 2 for k in kets]), abs=found.quadrature + 1e-13
    )
    assert found.one_jump == pytest.approx(2.0 * sum(w * [np.vdot(k, k).real for k in kets]), abs=1e-9)
    assert found.quadrature < 1e-6
    # reference: H. C. Torrey, Phys. Rev. 76, 1059 (1949), resonance
    assert found.lower <= 0.6401663513927 <= found.upper


@pytest.mark.parametrize("dissipation", ["auto", "no_jump"])
@pytest.mark.parametrize("seed", range(3))
def test_claims_of_runs_without_jumps_in_the_search(tmp_path, monkeypatch, dissipation, seed):
    # no system is small: the Lindbladian comes at the end alone
    monkeypatch.setattr("qsim.qoc.quantum.dissipation.QUICK", 0.0)
    rng = np.random.default_rng(seed + 40)
    d = int(rng.integers(3, 12))
    jump = 0.2 * (rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))) / np.sqrt(d)
    matrices = {"H0": hermitian(rng, d), "controls/u": hermitian(rng, d), "jumps/k": jump}
    np.savez(tmp_path / "m.npz", **matrices)
    system = {"type": "matrices", "file": str(tmp_path / "m.npz"), "initial": {"0": 0.6, "1": 0.8}}
    target = {"observable": "H0"} if seed == 2 else "2"
    made = {
        "method": "qoc",
        "system": system | {"target": target},
        "time": {"T": 1.5, "slots": 12},
        "control": [{"name": "u", "guess": {"type": "expression", "value": "sin(2*t)"}, "bounds": [-2, 2]}],
        "dissipation": dissipation,
        "objective": {"threshold": 0.999},
        "optimizer": {"type": "lbfgs", "max_sweeps": 8},
        "run": {"seed": seed},
    }
    with qsim.run(made, figures="none") as results:
        fields = np.array([results["control/u"]])
        scalars = dict(results.scalars)
        rho = results["rho_final"]
    name = "observable" if seed == 2 else "probability"
    one = np.eye(d)
    vector = np.zeros(d, complex)
    vector[:2] = 0.6, 0.8
    wanted = matrices["H0"] if seed == 2 else np.diag(np.eye(d)[2])
    state = np.outer(vector, vector.conj()).ravel()
    rate = jump.conj().T @ jump
    for u in fields[0]:
        h = matrices["H0"] + u * matrices["controls/u"]
        a = -1j * (np.kron(h, one) - np.kron(one, h.T)) + np.kron(jump, jump.conj())
        a -= 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
        state = expm(1.5 / 12 * a) @ state
    truth = np.trace(wanted @ state.reshape(d, d)).real
    for key in (name, f"{name}_verified"):
        assert abs(scalars[key].value - truth) <= scalars[key].error + 1e-13
    if f"{name}_lower" in scalars or dissipation == "no_jump":
        assert scalars[f"{name}_lower"].value - 1e-12 <= truth <= scalars[f"{name}_upper"].value + 1e-12
    assert np.trace(rho).real == pytest.approx(1.0, abs=1e-10)
    if dissipation == "auto":
        assert scalars[name].error < 1e-3
        assert np.abs(rho - state.reshape(d, d)).max() < 1e-10
