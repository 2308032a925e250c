"""Goals that are families of gates: perfect entanglers, and gates up to local ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize

from qsim.qoc.models.goals import named_gate
from qsim.qoc.models.quantum import GateTarget
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.objectives.weyl import invariants, nearest_in_class, nearest_perfect_entangler, weyl_coordinates
from qsim.qoc.propagators.slots import Motion
from tests.qoc.quantum.oracle import DURATION, isometry, random_model

PAULI = [np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])]


def local(rng):
    """Return a random product of two gates of one qubit."""
    return np.kron(isometry(rng, 2, 2), isometry(rng, 2, 2))


def canonical(c):
    """Return exp(i pi sum c_k s_k s_k/2)."""
    return expm(0.5j * np.pi * sum(a * np.kron(s, s) for a, s in zip(c, PAULI, strict=True)))


def drawn(rng):
    """Return a gate and its coordinates, anywhere in the Weyl chamber."""
    c = np.sort(rng.uniform(0.0, 0.5, 3))[::-1]
    if rng.random() < 0.5:
        c[0] = 1.0 - c[0]
    return local(rng) @ canonical(c) @ local(rng), c


# Zhang, Vala, Sastry, Whaley, Phys. Rev. A 67, 042313 (2003), Table I and Fig. 2
KNOWN = {
    "cnot": ((0.0, 0.0, 1.0), (0.5, 0.0, 0.0)),
    "cz": ((0.0, 0.0, 1.0), (0.5, 0.0, 0.0)),
    "iswap": ((0.0, 0.0, -1.0), (0.5, 0.5, 0.0)),
    "sqrt_iswap": ((0.25, 0.0, 1.0), (0.25, 0.25, 0.0)),
    "swap": ((-1.0, 0.0, -3.0), (0.5, 0.5, 0.5)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_invariants_and_coordinates_of_known_gates(name):
    g, c = KNOWN[name]
    rng = np.random.default_rng(3)
    gate = local(rng) @ named_gate(name) @ local(rng)
    assert np.allclose(invariants(gate), g, atol=1e-12)
    assert np.allclose(weyl_coordinates(gate), c, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_the_nearest_perfect_entangler_is_as_far_as_the_polyhedron(seed):
    """Its faces: c1 + c2 = 1/2, c1 - c2 = 1/2 and c2 + c3 = 1/2; a face at an angle delta leaves cos^4(delta/4)."""
    rng = np.random.default_rng(seed)
    gate, c = drawn(rng)
    assert np.allclose(weyl_coordinates(gate), c, atol=1e-9)
    found = nearest_perfect_entangler(np.outer(gate.ravel(), gate.ravel().conj()))
    delta = np.pi * max(0.0, 0.5 - c[0] - c[1], c[0] - c[1] - 0.5, c[1] + c[2] - 0.5)
    assert abs(np.vdot(found, gate)) ** 2 / 16.0 == pytest.approx(np.cos(delta / 4.0) ** 4, abs=1e-12)
    x, y, z = weyl_coordinates(found)
    assert min(x + y - 0.5, 0.5 - (x - y), 0.5 - (y + z)) > -1e-8


@pytest.mark.parametrize("mixed", [False, True])
def test_the_nearest_gate_of_a_class_is_that_of_a_search_from_everywhere(mixed):
    rng = np.random.default_rng(5)
    parts = [isometry(rng, 4, 4).ravel() for _ in range(4 if mixed else 1)]
    form = sum(np.outer(v, v.conj()) / (1 + k) for k, v in enumerate(parts))
    gate = named_gate("sqrt_iswap")

    def value(u):
        return float(np.vdot(u.ravel(), form @ u.ravel()).real)

    def single(v):
        v = v / np.linalg.norm(v)
        return v[0] * np.eye(2) + 1j * sum(a * s for a, s in zip(v[1:], PAULI, strict=True))

    def lost(p):
        a, b, c, d = (single(v) for v in p.reshape(4, 4))
        return -value(np.kron(a, b) @ gate @ np.kron(c, d))

    best = max(-minimize(lost, rng.normal(size=16)).fun for _ in range(3))
    found = nearest_in_class(form, gate)
    assert np.allclose(invariants(found), invariants(gate), atol=1e-10)
    assert value(found) >= best - 1e-7


@pytest.mark.parametrize("family", ["perfect_entangler", "local"])
@pytest.mark.parametrize("form", ["kets", "lossy", "columns"])
def test_the_gradient_is_that_of_the_best_gate(family, form):
    made, fields = random_model(3, "gate", 0.2, (5, 6))
    rng = np.random.default_rng(3)
    states, unitary = isometry(rng, 5, 4), local(rng) @ canonical((0.1, 0.05, 0.0)) @ local(rng)
    goal = GateTarget(unitary, states, "local", np.zeros((4, 0), np.int64), family=family)
    made = replace(made, states=states, weights=np.full(4, 0.25), goal=goal)
    motion = Motion(DURATION, fields.shape[1], form == "columns", form == "lossy")
    objective = SlotObjective(made, motion)
    found = objective.evaluate(fields)
    h, (c, n) = 1e-5, (0, 2)
    ends = []
    for sign in (1.0, -1.0):
        moved = fields.copy()
        moved[c, n] += sign * h
        ends.append(objective.values(moved)[0][0])
    assert found.gradient[c, n] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=2e-8)


def blocks(**changes):
    """Return a deck of two coupled qubits whose coupling alone makes no perfect entangler in time."""
    return {
        "system": {
            "type": "model",
            "parts": [{"name": n, "type": "qubit", "frequency": 0.0, "T1": 4000.0} for n in "ab"],
            "terms": [{"operator": "a.sz*b.sz + 0.3*a.sx*b.sx", "value": 0.2}],
            "controls": {"u": "a.sx", "v": "b.sy"},
            "target": {"gate": "perfect_entangler", "on": ["a", "b"]},
        },
        "time": {"T": 4.0, "slots": 12},
        "control": [
            {"name": "u", "guess": {"type": "expression", "value": "0.4*cos(t)"}},
            {"name": "v", "guess": {"type": "expression", "value": "0.9*sin(2*t)"}},
        ],
        "objective": {"threshold": 0.9999},
        "verify": {"levels": 0},
        **changes,
    }


def reached(qoc, **changes):
    result = qoc.run(**blocks(**changes))
    assert result.reached
    assert abs(result.verified[0] - result.outcome.value) < 1e-9
    return result


@pytest.mark.parametrize("optimizer", ["lbfgs", "krotov", "gauss_newton", "travolta"])
def test_every_optimiser_finds_a_perfect_entangler(qoc, optimizer):
    result = reached(qoc, optimizer={"type": optimizer, "max_sweeps": 300}, dissipation="none")
    columns = result.outcome.final
    assert result.value > 0.9999
    x, y, z = weyl_coordinates(columns)
    assert min(x + y - 0.5, 0.5 - (x - y), 0.5 - (y + z)) > -0.01


def test_with_jumps_and_for_an_ensemble(qoc):
    reached(qoc, dissipation="lindblad", objective={"threshold": 0.99})
    scales = [{"scale": {"control.u": [0.99, 1.0, 1.01]}}]
    reached(qoc, ensemble={"members": scales}, dissipation="none", objective={"threshold": 0.995})


def test_a_gate_up_to_local_gates(qoc):
    # 0.2 T = pi/4 would be a CNOT without controls: they undo what is more
    system = blocks()["system"] | {
        "terms": [{"operator": "a.sz*b.sz", "value": 0.2}],
        "target": {"gate": "cnot", "free": ["local"]},
    }
    result = reached(
        qoc, system=system, dissipation="none", time={"T": 4.5, "slots": 8}, objective={"threshold": 0.999}
    )
    assert np.allclose(invariants(result.outcome.final), (0.0, 0.0, 1.0), atol=0.05)


def test_families_are_of_two_qubits(qoc):
    system = blocks()["system"]
    for target, told in (
        ({"gate": "perfect_entangler", "on": ["a"]}, "4 x 4 but the logical space of a is 2"),
        ({"gate": "x", "on": ["a"], "free": ["local"]}, "local is of two qubits, .* 4 states, not 2"),
    ):
        qoc.refuses(told, **blocks(system=system | {"target": target}))
