"""Gates with free phases, leakage, seepage, running means and mixed goals: against searches by hand and differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.sparse import csr_array

import qsim
from qsim.qoc.models.quantum import DensityTarget, GateTarget, SeveralTargets
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.families import best_phases, factors_of
from qsim.qoc.objectives.slots import SlotObjective, Terms, leakage_operator
from qsim.qoc.propagators.slots import Motion
from tests.qoc.quantum.oracle import (
    DURATION,
    hermitian,
    isometry,
    random_model,
    steps,
    true_slope,
    true_value,
)


@pytest.mark.parametrize("seed", range(4))
def test_best_phases_are_those_of_a_search_from_everywhere(seed):
    rng = np.random.default_rng(seed)
    qubits = 1 + seed % 3
    d = 2**qubits
    generators = (np.arange(d)[:, None] >> np.arange(qubits - 1, -1, -1)) & 1
    a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    matrix = a @ a.conj().T

    def loss(phi):
        z = np.exp(1j * (generators @ phi))
        return -np.vdot(z, matrix @ z).real

    starts = product(np.linspace(-np.pi, np.pi, 5)[:-1], repeat=qubits)
    wanted = -min(minimize(loss, np.array(s), tol=1e-12).fun for s in starts)
    assert -loss(best_phases(matrix, generators)) == pytest.approx(wanted, rel=1e-10)


def two_qubit_gate(seed, levels, jumps):
    """Return a random system with a gate of two qubits whose local phases are free, and controls."""
    made, fields = random_model(seed, "gate", 0.2, (levels, levels + 1))
    rng = np.random.default_rng(seed)
    states = isometry(rng, levels, 4)
    generators = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    goal = GateTarget(isometry(rng, 4, 4), states, "local", generators)
    kept = made.jumps if jumps else ()
    return replace(made, states=states, weights=np.full(4, 0.25), goal=goal, jumps=kept), fields


@pytest.mark.parametrize("lindblad", [False, True])
def test_a_gate_with_free_phases_has_the_best_of_all_fixed_ones(lindblad):
    made, fields = two_qubit_gate(3, 5, lindblad)
    objective = SlotObjective(made, Motion(DURATION, fields.shape[1], lindblad))
    found = objective.evaluate(fields)
    goal = made.goal

    def fixed(phi):
        turned = factors_of(goal.generators, phi)[:, None] * goal.unitary
        other = replace(made, goal=replace(goal, unitary=turned, free_phases="none"))
        return cost_of(other, lindblad)[1].value(final)

    final = objective.propagator.final(fields, objective.start)
    best = max(
        -minimize(lambda phi: -fixed(phi), start, tol=1e-10).fun
        for start in product((-2.0, 0.0, 2.0), repeat=2)
    )
    assert found.probability == pytest.approx(best, abs=1e-9)
    assert fixed(objective.cost.phases(final)) == pytest.approx(found.probability, abs=1e-12)
    # the phases follow the controls: the gradient is that of the best value itself
    h, (c, n) = 1e-5, (0, 2)
    ends = []
    for sign in (1.0, -1.0):
        moved = fields.copy()
        moved[c, n] += sign * h
        ends.append(objective.values(moved)[0][0])
    assert found.gradient[c, n] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=2e-8)


def test_the_interval_of_jumps_has_the_phases_of_order_zero():
    from qsim.qoc.objectives.jumps import expand

    made, fields = two_qubit_gate(8, 5, True)
    lossy = SlotObjective(made, Motion(DURATION, fields.shape[1], lossy=True))
    found = expand(made, lossy.cost, lossy.mean_weights(), DURATION, fields)
    final = lossy.propagator.final(fields, lossy.start)
    whole = SlotObjective(made, Motion(DURATION, fields.shape[1], lindblad=True))
    columns = whole.propagator.final(fields, whole.start)
    value = whole.cost.at(lossy.cost.phases(final)).value(columns)
    assert found.zero == pytest.approx(lossy.cost.value(final), abs=1e-13)
    assert found.lower - 1e-12 <= value <= found.upper + 1e-12


@pytest.mark.parametrize("form", ["kets", "lossy", "columns", "matrices"])
def test_leakage_and_running_means_have_exact_gradients(form, monkeypatch):
    if form == "matrices":
        for name in ("NARROW_LEVELS", "WIDE_LEVELS"):
            monkeypatch.setattr(f"qsim.qoc.objectives.slots.{name}", 1)
    made, fields = random_model(12, "gate", 0.3, (4, 5))
    rng = np.random.default_rng(1)
    operator = hermitian(rng, made.dimension)
    terms = Terms(0.7, leakage_operator(made.goal.columns), 0.4, csr_array(operator))
    lindblad = form in ("columns", "matrices")
    objective = SlotObjective(
        made, Motion(DURATION, fields.shape[1], lindblad, form == "lossy"), 0.05, terms=terms
    )
    found = objective.evaluate(fields)
    if lindblad:
        # J by its definition: trapezoids of the mean over the logical states
        logical = made.goal.columns
        rho = (logical @ logical.conj().T / 2.0).ravel()
        means = [np.vdot(operator.ravel(), rho).real]
        for step in steps(made, fields):
            rho = expm(step) @ rho
            means.append(np.vdot(operator.ravel(), rho).real)
        mean = np.trapezoid(means, dx=1.0 / fields.shape[1])
        leak = np.vdot(terms.outside.ravel(), rho).real
        fluence = np.sum(fields**2) * DURATION / fields.shape[1]
        wanted = true_value(made, fields) - 0.7 * leak - 0.4 * mean - 0.05 * fluence
        assert found.objective == pytest.approx(wanted, abs=1e-12)
        assert objective.values(fields)[1][0] == pytest.approx(wanted, abs=1e-12)
    h = 1e-5
    for c, n in ((0, 0), (0, 3), (len(fields) - 1, 5)):
        ends = []
        for sign in (1.0, -1.0):
            moved = fields.copy()
            moved[c, n] += sign * h
            ends.append(objective.values(moved)[1][0])
        assert found.gradient[c, n] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=2e-8)


@pytest.mark.parametrize("lindblad", [False, True])
def test_closeness_to_a_mixed_state(lindblad):
    made, fields = random_model(31, "mixture", 0.3, (3, 5))
    rng = np.random.default_rng(4)
    a = isometry(rng, made.dimension, 2)
    sigma = (a * [0.6, 0.4]) @ a.conj().T
    made = replace(made, goal=DensityTarget(sigma), jumps=made.jumps if lindblad else ())
    objective = SlotObjective(made, Motion(DURATION, fields.shape[1], lindblad))
    found = objective.evaluate(fields)
    rho = ((made.states * made.weights) @ made.states.conj().T).ravel()
    for step in steps(made, fields):
        rho = expm(step) @ rho
    distance = np.linalg.norm(rho.reshape(sigma.shape) - sigma)
    assert found.probability == pytest.approx(1.0 - 0.5 * distance**2, abs=1e-12)
    h = 1e-5
    moved = [fields.copy(), fields.copy()]
    moved[0][0, 1] += h
    moved[1][0, 1] -= h
    slope = (objective.values(moved[0])[0][0] - objective.values(moved[1])[0][0]) / (2 * h)
    assert found.gradient[0, 1] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("jumps", [False, True])
def test_a_run_up_to_local_phases_with_leakage_and_seepage(jumps):
    system = {
        "type": "model",
        "parts": [
            {"name": "a", "type": "transmon", "levels": 3, "frequency": 0.0, "anharmonicity": -2.0},
            {"name": "b", "type": "qubit"},
        ],
        "terms": [{"operator": "a.n*b.n", "value": 1.0}],
        "controls": {"x": "a.x", "y": "b.x"},
        "target": {"gate": "cz", "on": ["a", "b"], "free": ["z"]},
    }
    if jumps:
        system["jumps"] = [{"operator": "a.b", "rate": 0.01}]
    deck = {
        "method": "qoc",
        "system": system,
        # a conditional phase of pi from the coupling alone; the rest are phases of each part
        "time": {"T": float(np.pi), "slots": 16},
        "control": [{"name": n, "guess": {"type": "expression", "value": "0.02*sin(t)"}} for n in "xy"],
        "objective": {
            "threshold": 0.9999,
            "leakage_weight": 0.5,
            "running": {"observable": "a.p2", "weight": 0.1},
        },
        "optimizer": {"type": "lbfgs", "max_sweeps": 60},
    }
    with qsim.run(deck, figures="none") as results:
        scalars = dict(results.scalars)
        phases = results["free_phases"]
        rho = results["rho_final"]
        matrix = None if jumps else results["unitary_final"]
    f, leak = scalars["fidelity"].value, scalars["leakage"].value
    logical = [0, 1, 2, 3]
    assert leak == pytest.approx(1.0 - np.trace(rho[np.ix_(logical, logical)]).real, abs=1e-12)
    if jumps:
        assert 0.97 < f < scalars["fidelity_coherence_limit"].value + 1e-3
        assert scalars["seepage"].value > 0.0
    else:
        assert f > 0.9999
        # of a unitary map, 4 logical states lose what 2 others give
        assert scalars["seepage"].value == pytest.approx(2.0 * leak, abs=1e-12)
        # also of what more levels of the transmon change
        assert scalars["seepage"].error == pytest.approx(2.0 * scalars["leakage"].error, rel=0.01)
        turned = np.exp(1j * (np.array([[0, 0], [0, 1], [1, 0], [1, 1]]) @ phases)) * [1, 1, 1, -1]
        t = np.vdot(np.diag(turned), matrix)
        assert f == pytest.approx((abs(t) ** 2 + np.linalg.norm(matrix) ** 2) / 20.0, abs=1e-12)
        assert t.imag == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("lindblad", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_the_process_fidelity_is_that_of_the_average_without_leakage(lindblad, free):
    made, fields = two_qubit_gate(5, 6, lindblad)
    if not free:
        made = replace(made, goal=replace(made.goal, free_phases="none"))
    average = SlotObjective(made, Motion(DURATION, fields.shape[1], lindblad))
    process = SlotObjective(
        replace(made, goal=replace(made.goal, process=True)), Motion(DURATION, fields.shape[1], lindblad)
    )
    final = average.propagator.final(fields, average.start)
    leak = np.vdot(leakage_operator(made.goal.columns), average.density(final)).real
    found = process.evaluate(fields)
    # F = (d F_pro + 1 - leak)/(d + 1)
    assert average.cost.value(final) == pytest.approx((4 * found.probability + 1 - leak) / 5, abs=1e-12)
    stacked = np.stack([final, 0.5 * final])
    if not lindblad:
        frozen = process.cost.frozen(final)
        assert frozen.values(stacked) == pytest.approx(
            [found.probability, 0.25 * found.probability], abs=1e-13
        )
    h = 1e-5
    moved = [fields.copy(), fields.copy()]
    moved[0][0, 1] += h
    moved[1][0, 1] -= h
    slope = (process.values(moved[0])[0][0] - process.values(moved[1])[0][0]) / (2 * h)
    assert found.gradient[0, 1] == pytest.approx(slope, abs=2e-8)


def test_measures_are_those_of_gates_and_levels_may_have_a_sign():
    system = {
        "type": "model",
        "parts": [{"name": "a", "type": "transmon", "levels": 3, "frequency": 0.0, "anharmonicity": -1.0}],
        "controls": {"x": "a.x"},
        "target": {"gate": "x", "on": ["a"]},
    }
    deck = {
        "method": "qoc",
        "system": system,
        "time": {"T": 3.0, "slots": 6},
        "control": [{"name": "x", "guess": {"type": "expression", "value": "0.5"}}],
        "objective": {"measure": "process_fidelity"},
        "optimizer": "none",
        "verify": {"levels": "+2"},
    }
    with qsim.run(deck, figures="none") as results:
        scalars = dict(results.scalars)
    f, pro, leak = (scalars[name].value for name in ("fidelity", "fidelity_process", "leakage"))
    assert f == pytest.approx((2 * pro + 1 - leak) / 3, abs=1e-13)
    assert scalars["fidelity_process_verified"].value == pytest.approx(pro, abs=1e-12)
    assert scalars["error_levels"].value > 0.0
    state = system | {"initial": "0", "target": "1"}
    with pytest.raises(qsim.DeckError, match="the goal is none"):
        qsim.run(deck | {"system": state})


def several_goals(seed, rate, levels):
    """Return a random system with a gate, pairs of states and an observable at once, and its controls."""
    kinds = ("gate", "states", "observable")
    made = [random_model(seed, kind, rate, (levels, levels + 1)) for kind in kinds]
    shares = np.array([0.5, 0.2, 0.3])
    goals = SeveralTargets(tuple(one.goal for one, _ in made), shares, (2, 2, 2))
    states = np.concatenate([one.states for one, _ in made], axis=1)
    weights = np.concatenate([w * one.weights for w, (one, _) in zip(shares, made, strict=True)])
    whole, fields = made[0]
    return replace(whole, goal=goals, states=states, weights=weights), fields


@pytest.mark.parametrize("form", ["kets", "columns", "matrices"])
@pytest.mark.parametrize("seed", range(2))
def test_several_goals_at_once_are_their_weighted_sum_with_its_gradient(form, seed, monkeypatch):
    if form == "matrices":
        for name in ("NARROW_LEVELS", "WIDE_LEVELS"):
            monkeypatch.setattr(f"qsim.qoc.objectives.slots.{name}", 1)
    made, fields = several_goals(seed, 0.3, 3 + seed)
    if form == "kets":
        made = replace(made, jumps=())
    objective = SlotObjective(made, Motion(DURATION, fields.shape[1], form != "kets"))
    found = objective.evaluate(fields)
    assert found.probability == pytest.approx(true_value(made, fields), abs=1e-12)
    assert objective.values(fields)[0][0] == pytest.approx(found.probability, abs=1e-14)
    for c, n in ((0, 0), (len(fields) - 1, 4)):
        assert found.gradient[c, n] == pytest.approx(true_slope(made, fields, c, n), abs=1e-11)
        ends = []
        for sign in (1.0, -1.0):
            moved = fields.copy()
            moved[c, n] += sign * 1e-5
            ends.append(objective.values(moved)[0][0])
        assert found.gradient[c, n] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=2e-8)


def test_the_interval_of_jumps_holds_several_goals():
    from qsim.qoc.objectives.jumps import expand

    made, fields = several_goals(5, 0.3, 4)
    lossy = SlotObjective(made, Motion(DURATION, fields.shape[1], lossy=True))
    found = expand(made, lossy.cost, lossy.mean_weights(), DURATION, fields)
    assert found.lower - 1e-12 <= true_value(made, fields) <= found.upper + 1e-12
    assert found.upper - found.lower < 2.0 * (found.most - found.least) * (1.0 - found.jump_free) ** 2


def several_deck(**system):
    return {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": "a", "type": "qubit"}, {"name": "b", "type": "qubit"}],
            "terms": [{"operator": "a.sz*b.sz", "value": 0.5}],
            "controls": {"ax": "a.sx", "ay": "a.sy", "bx": "b.sx", "by": "b.sy"},
            **system,
        },
        "time": {"T": 4.0, "slots": 20},
        "control": [
            {"name": n, "guess": {"type": "expression", "value": f"0.3*sin({k}*t + 1)"}}
            for k, n in enumerate(("ax", "ay", "bx", "by"), 1)
        ],
    }


def test_a_deck_asks_for_a_gate_a_state_and_an_observable():
    pairs = [
        {"target": {"gate": "cnot"}, "weight": 3},
        {"initial": {"00": 1, "10": 1}, "target": {"00": 1, "11": 1}, "weight": 2},
        {"initial": {"thermal": 0.3}, "target": {"observable": "0.5*(a.p1 + b.p1)"}},
    ]
    deck = several_deck(pairs=pairs)
    deck["system"]["jumps"] = [{"operator": "a.sm", "rate": 0.01}]
    deck["objective"] = {"threshold": 0.7}
    with qsim.run(deck, figures="none") as results:
        value, error = results.scalars["goals"].value, results.scalars["goals"].error
        verified, parts = results.scalars["goals_verified"].value, results["goal_values"]
        rho = results["rho_final"]
    assert value > 0.7
    assert abs(verified - value) <= error < 1e-8
    # the weights are divided by their sum, 6
    assert value == pytest.approx(parts @ [0.5, 1.0 / 3.0, 1.0 / 6.0], abs=1e-13)
    assert np.trace(rho).real == pytest.approx(1.0, abs=1e-10)
    # each goal alone, with the same controls
    assert parts[1] > 0.0
    assert 0.0 < parts[2] < 1.0


def test_weights_of_pairs_of_states_count():
    pairs = [{"initial": "00", "target": "00", "weight": 3}, {"initial": "01", "target": "10"}]
    deck = several_deck(pairs=pairs)
    deck["optimizer"] = {"type": "none"}
    with qsim.run(deck, figures="none") as results:
        weighted = results.scalars["probability"].value
    values = []
    for pair in pairs:
        alone = several_deck(initial=pair["initial"], target=pair["target"])
        alone["optimizer"] = {"type": "none"}
        with qsim.run(alone, figures="none") as results:
            values.append(results.scalars["probability"].value)
    assert weighted == pytest.approx((3.0 * values[0] + values[1]) / 4.0, abs=1e-13)


def test_states_and_an_observable_at_once_have_a_value_on_the_way():
    pairs = [
        {"initial": "00", "target": "11", "weight": 2},
        {"initial": "10", "target": {"observable": "a.sz + b.sz"}},
    ]
    deck = several_deck(pairs=pairs)
    deck["optimizer"] = {"type": "lbfgs", "max_sweeps": 20}
    with qsim.run(deck, figures="none") as results:
        value, parts, path = results.scalars["goals"].value, results["goal_values"], results["goal"]
    assert value == pytest.approx(parts @ [2.0 / 3.0, 1.0 / 3.0], abs=1e-13)
    # the last point of the curve over time is the value at T
    assert path[-1] == pytest.approx(value, abs=1e-12)
    assert parts[1] <= 2.0 + 1e-12


@pytest.mark.parametrize("kind", ["rotor", "grid2d"])
def test_densities_are_goals_of_rotors_and_of_two_coordinates(kind, tmp_path):
    """A start and a goal as arrays; the value by its definition from the final density matrix."""
    rotor = {"type": "rotor", "B": "2 cm-1", "dalpha": "0.7 angstrom^3", "J_max": 8}
    axes = {name: {"min": -6.0, "max": 6.0, "points": 24} for name in "xy"}
    grid = {"type": "grid2d", "mass": [1.0, 1.3], "dipole": {"x": "x"}, "grid": axes, "states": 8}
    grid["potential"] = {"type": "expression", "value": "0.5*x^2 + 0.6*y^2"}
    system, name, time = (rotor, "envelope", "1 ps") if kind == "rotor" else (grid, "x", 2.0)
    probe = {"system": {**system, "initial": 0, "target": 0}, "method": "qoc", "optimizer": "none"}
    probe |= {"control": [{"name": name, "guess": {"type": "expression", "value": "0.01"}}]}
    probe |= {"time": {"T": time, "slots": 20}, "run": {"seed": 1}}
    with qsim.run(probe, output=tmp_path / "probe", figures="none") as first:
        size = len(first["labels"])
    sigma = np.diag(np.arange(size, 0.0, -1.0)) * 2.0 / (size * (size + 1))
    psi = np.zeros(size)
    psi[:2] = 0.6, 0.8
    deck = probe | {"system": {**system, "initial": psi, "target": {"density": sigma}}}
    with qsim.run(deck, output=tmp_path / "whole", figures="none") as results:
        rho, scalar = results["rho_final"], results.scalars["closeness"]
    assert scalar.value == pytest.approx(1.0 - 0.5 * np.linalg.norm(rho - sigma) ** 2, abs=1e-12)
    # the arrays are those of the deck's levels in every larger basis
    assert scalar.error < 1e-3
