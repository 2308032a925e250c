"""The slot kernel and the costs against dense exponentials."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import expm, expm_frechet
from scipy.sparse import csr_array

import qsim
from qsim.core.device.device import cpu
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
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.slots import Motion, Slots
from qsim.qoc.quantum.build import plan


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


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
    return QuantumModel(drift, controls, jump, labels, (d,), None, states, weights, 0.0, goals[kind])


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
    slots = Slots(model, Motion(duration, n, lindblad))
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


@pytest.mark.parametrize("form", ["kets", "lossy", "density"])
@pytest.mark.parametrize(("kind", "jumps"), [("gate", 0), ("gate", 2), ("observable", 1), ("state", 1)])
def test_one_system_on_a_device_is_that_on_a_core(device, form, kind, jumps):
    model = random_model(3 + jumps, kind, jumps)
    motion = Motion(1.3, 7, form == "density", form == "lossy")
    fields = np.random.default_rng(1).normal(size=(len(model.controls), 7))
    there = SlotObjective(model, motion, 0.1, device=device)
    here = SlotObjective(model, motion, 0.1)
    found, wanted = there.evaluate(fields), here.evaluate(fields)
    # sums of some hundred terms of order 1, each rounded
    assert found.probability == pytest.approx(wanted.probability, abs=1e-13)
    assert np.abs(found.gradient - wanted.gradient).max() < 1e-12 * np.abs(wanted.gradient).max()
    assert there.values(fields)[1][0] == pytest.approx(found.objective, abs=1e-14)
    assert there.propagator.core is (device if device.is_cuda else there.propagator.core)
    for own, other in zip(there.look(fields), here.look(fields), strict=True):
        assert np.abs(own - other).max() < 1e-13


def chain(folder, qubits, **changes):
    """Return a deck with the Fourier transform of all qubits of a chain as its gate."""
    names = [f"q{k}" for k in range(qubits)]
    size = 2**qubits
    gate = np.exp(2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size) / np.sqrt(size)
    np.savez(folder / "gate.npz", gate=gate)
    pairs = pairwise(names)
    guess = {"type": "expression", "value": "0.3*sin(t)"}
    return {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": n, "type": "qubit", "frequency": 0.1 * k} for k, n in enumerate(names)],
            "terms": [{"operator": f"{a}.sz*{b}.sz", "value": 0.5} for a, b in pairs],
            "controls": {f"x{k}": f"{n}.sx" for k, n in enumerate(names)},
            "target": {"gate": str(folder / "gate.npz")},
        },
        "time": {"T": 2.0, "slots": 40},
        "control": [{"name": f"x{k}", "guess": guess} for k in range(qubits)],
        "optimizer": {"type": "lbfgs", "max_sweeps": 12},
        **changes,
    }


@pytest.mark.gpu
def test_a_search_of_one_system_takes_the_same_path_on_a_gpu(tmp_path):
    found = {}
    for where in ("cpu", "cuda"):
        with qsim.run(chain(tmp_path, 4), device=where, figures="none") as results:
            found[where] = (results.scalars["fidelity"].value, results["control/x0"])
    assert found["cuda"][0] == pytest.approx(found["cpu"][0], abs=1e-9)
    assert np.abs(found["cuda"][1] - found["cpu"][1]).max() < 1e-6


def test_one_system_has_a_gpu_where_its_products_are_wide(qoc, tmp_path):
    def planned(qubits, **changes):
        return plan(qoc.load(**chain(tmp_path, qubits, **changes)))

    small, wide = planned(2), planned(6)
    assert (small.cpu_only, wide.cpu_only) == ("", "")
    # whatever the duration, a product of few columns leaves a GPU idle
    assert small.size.gpu == np.inf
    assert wide.size.gpu < np.inf
    assert wide.memory.on_gpu >= 16 * 64 * 64 * 40
    for changes, told in (
        ({"optimizer": {"type": "krotov"}}, "optimizer: krotov"),
        ({"objective": {"running": {"observable": "q0.p1", "weight": 0.1}}}, "objective.running"),
    ):
        assert told in planned(2, **changes).cpu_only
    noisy = chain(tmp_path, 4)
    noisy["system"]["jumps"] = [{"operator": "q0.sm", "rate": 0.01}]
    noisy["dissipation"] = "lindblad"
    assert "density matrices of 16 levels" in plan(qoc.load(**noisy)).cpu_only
