"""Density matrices as matrices, and the expansion in jumps, against exponentials of dense Liouvillians."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm, expm_frechet
from scipy.sparse import csr_array

import qsim
from qsim.qoc.models.quantum import ControlTerm, Jump, QuantumModel, StateTarget
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.jumps import budget, expand
from qsim.qoc.propagators.densities import Densities
from qsim.qoc.propagators.slots import Motion
from tests.qoc.quantum.oracle import (
    DURATION,
    hermitian,
    liouvillians,
    random_model,
    steps,
    true_slope,
    true_value,
)


@pytest.mark.parametrize("kind", ["gate", "states", "observable", "mixture"])
@pytest.mark.parametrize("seed", range(2))
def test_matrices_and_their_gradient_are_those_of_a_dense_liouvillian(kind, seed):
    made, fields = random_model(seed, kind, 0.4, (2, 6))
    densities = Densities(made, Motion(DURATION, fields.shape[1], lindblad=True))
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


def test_strong_jumps_leave_matrices_hermitian():
    # an anti-Hermitian part of rounding would grow by exp(T ||sum L x L*||), 1e10 here
    made, fields = random_model(2, "mixture", 6.0, (9, 10))
    densities = Densities(made, Motion(DURATION, fields.shape[1], lindblad=True))
    start, cost = cost_of(made, lindblad=True)
    final, trajectory = densities.forward(fields, start)
    rho = final[:, 0].reshape(9, 9)
    assert np.abs(rho - rho.conj().T).max() < 1e-15
    assert abs(np.trace(rho) - 1.0) < 1e-13
    assert cost.value(final) == pytest.approx(true_value(made, fields), abs=1e-13)
    gradient = densities.gradient(fields, trajectory, cost.derivative(final))
    for c, n in ((0, 0), (len(fields) - 1, 3)):
        assert gradient[c, n] == pytest.approx(true_slope(made, fields, c, n), abs=1e-12)


def test_populations_of_a_sweep_are_those_of_its_slots(monkeypatch):
    made, fields = random_model(5, "mixture", 0.4, (3, 6))
    densities = Densities(made, Motion(DURATION, fields.shape[1], lindblad=True))
    start, _ = cost_of(made, lindblad=True)
    # two slots at a time
    monkeypatch.setattr("qsim.qoc.propagators.slots.SEGMENT_BYTES", 32.0 * start.size)
    final, matrices = densities.passed(fields, start, np.ones(1))
    populations = matrices[:, :: made.dimension + 1].real
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


@pytest.mark.parametrize("kind", ["gate", "states", "observable"])
def test_the_budget_has_the_slopes_of_the_value_by_the_rate_of_each_jump(kind):
    made, fields = random_model(61, kind, 0.5, (3, 6))
    # the same values in slots that the quadrature resolves
    fields = np.repeat(fields, 4, axis=1)
    _, cost = cost_of(made, lindblad=False)
    whole, taken = budget(made, cost, DURATION, fields)
    assert whole == pytest.approx(true_value(replace(made, jumps=()), fields), abs=1e-12)
    # a central difference would need negative rates: two steps from zero, of second order
    g = 1e-4
    for k, jump in enumerate(made.jumps):
        ends = [
            true_value(replace(made, jumps=(replace(jump, operator=np.sqrt(s) * jump.operator),)), fields)
            for s in (g, 2 * g)
        ]
        slope = (4.0 * ends[0] - ends[1] - 3.0 * whole) / (2.0 * g)
        assert taken[k] == pytest.approx(-slope, abs=1e-6)


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
