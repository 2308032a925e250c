"""Runs with a quantum system against closed forms, refusals, and continuation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

import qsim
from qsim.core.errors import QsimError, Stopped

QUBIT = {"name": "q", "type": "qubit"}


def deck(**changes):
    """Return a qubit with one control of 0.5 that turns it by pi in T = 1: H = (pi/2) sx, hbar = 1."""
    made = {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [QUBIT],
            "controls": {"x": "q.sx"},
            "initial": "0",
            "target": "1",
        },
        "time": {"T": 1.0, "slots": 10},
        "control": [{"name": "x", "guess": {"type": "expression", "value": "pi/2"}}],
        "optimizer": "none",
        "run": {"seed": 3},
    }
    for key, value in changes.items():
        made[key] = made[key] | value if isinstance(value, dict) and key in made else value
    return made


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def one(made, **options):
        return qsim.run(made, force=True, figures="none", **options)

    return one


def value(results, name):
    return results.scalars[name].value


def test_half_a_turn_of_a_qubit(run):
    results = run(deck())
    assert value(results, "probability") == pytest.approx(1.0, abs=1e-14)
    assert value(results, "probability_verified") == pytest.approx(1.0, abs=1e-13)
    # P(t) = sin^2(u t) at the end of each slot
    t = results["time_populations"]
    assert np.allclose(results["populations"][:, 1], np.sin(np.pi / 2 * t) ** 2, atol=1e-13)


@pytest.mark.parametrize("rate", [0.1, 2.0])
def test_relaxation_is_an_exponential(run, rate):
    system = {
        "initial": "1",
        "target": "1",
        "jumps": [{"operator": "q.sm", "rate": rate}],
    }
    made = deck(system=system, control=[{"name": "x", "guess": "zero"}])
    results = run(made)
    error = results.scalars["probability"].error
    assert abs(value(results, "probability") - np.exp(-rate)) < max(error, 1e-14)
    assert error < 1e-10


def test_search_finds_a_gate_within_bounds_with_a_fixed_drive(run):
    system = {
        "controls": {"x": "q.sx", "y": "q.sy", "z": "q.sz"},
        "target": {"gate": "h", "on": ["q"]},
    }
    control = [
        {"name": "x", "bounds": [-3.0, 3.0], "parameters": {"type": "bspline", "count": 5}},
        {"name": "y", "bounds": [-3.0, 3.0], "parameters": {"type": "sine", "band": [0.0, 12.0]}},
        {"name": "z", "guess": {"type": "expression", "value": "0.3*cos(t)"}, "fixed": True},
    ]
    made = deck(system=system, control=control, objective={"threshold": 0.99999}, optimizer="lbfgs")
    results = run(made)
    assert value(results, "fidelity") > 0.99999
    assert value(results, "leakage") == pytest.approx(0.0, abs=1e-13)
    assert np.array_equal(results["control/z"], 0.3 * np.cos(results["time"]))
    assert np.abs(results["control/x"]).max() <= 3.0
    # the average fidelity from the matrix that was written: (|t|^2 + d)/(d (d + 1))
    hadamard = np.array([[1, 1], [1, -1]]) / np.sqrt(2.0)
    overlap = np.abs(np.vdot(hadamard, results["unitary_final"])) ** 2
    assert value(results, "fidelity") == pytest.approx((overlap + 2) / 6, abs=1e-12)


def test_an_observable_of_negative_values_is_maximised(run):
    system = {"target": {"observable": "q.sz"}, "initial": "0"}
    for start in ("0", "1"):
        made = deck(system=system | {"initial": start}, optimizer="lbfgs", control=[{"name": "x"}])
        results = run(made)
        assert value(results, "observable") == pytest.approx(1.0, abs=1e-6)
        assert value(results, "observable_guess") < 0.9999


def test_squared_control_moves_as_its_square(run):
    system = {"controls": {"x": {"operator": "q.sx", "power": 2}}}
    made = deck(
        system=system, control=[{"name": "x", "guess": {"type": "expression", "value": "sqrt(pi/2)"}}]
    )
    assert value(run(made), "probability") == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"control": [{"name": "y"}]}, "control.0.name", "no control 'y'"),
        ({"control": [{"name": "x"}, {"name": "x"}]}, "control.1.name", "duplicate control"),
        ({"control": [{"name": "x", "bounds": [1.0, 2.0]}]}, "control.0.bounds", "include zero"),
        ({"run": {"precision": "single"}}, "run.precision", "double precision"),
        (
            {"control": [{"name": "x", "fixed": True}], "optimizer": "lbfgs"},
            "control",
            "every control is fixed",
        ),
        (
            {"control": [{"name": "x", "parameters": {"type": "bspline", "count": 50}}]},
            "control.0.parameters.count",
            "50 splines on 10 slots",
        ),
        ({"objective": {"leakage_weight": 1.0}}, "objective.leakage_weight", "the goal is none"),
        (
            {"objective": {"running": {"observable": "q.sy*i", "weight": 1.0}}},
            "objective.running.observable",
            "Hermitian",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_at_its_key(run, changes, key, text):
    with pytest.raises(QsimError) as refused:
        run(deck(**changes))
    message = str(refused.value)
    assert key in message
    assert text in message


ROTOR = {
    "method": "qoc",
    "system": {"type": "rotor", "B": 0.5, "dipole": 1.0, "J_max": 8, "initial": 0, "target": 1},
    "time": {"T": 2.0, "slots": 10},
    "control": [{"name": "field", "bounds": ["-1 V/nm", "1 V/nm"]}],
    "run": {"seed": 3},
    "optimizer": "none",
}


def test_bounds_of_molecules_are_electric_fields(run):
    """V/nm, the peak field of an intensity, or a.u.; the guess is half of the bound."""
    volts = run(ROTOR)["control/field"]
    assert np.sqrt(np.mean(volts**2)) == pytest.approx(0.5 / 514.220674763, rel=0.1)
    for bounds in ([-1 / 514.220674763, 1 / 514.220674763], [-1, "1.3272094e11 W/cm2"]):
        other = run(ROTOR | {"control": [{"name": "field", "bounds": bounds}]})["control/field"]
        assert other == pytest.approx(volts, rel=1e-4)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (ROTOR | {"control": [{"name": "field", "bounds": ["-1 GHz", "1 GHz"]}]}, "a unit of frequency"),
        (deck(system={"unit": "GHz"}, control=[{"name": "x", "bounds": [-1, "1 V/nm"]}]), "electric field"),
    ],
)
def test_units_of_another_kind_are_refused(run, made, text):
    with pytest.raises(QsimError, match=text) as refused:
        run(made)
    assert "control.0.bounds" in str(refused.value)


def test_a_stopped_search_is_continued_to_the_bit(tmp_path):
    search = {
        **deck(),
        "control": [
            {"name": "x", "guess": {"type": "expression", "value": "0.4 + 0.3*t"}, "bounds": [-3, 3]}
        ],
        "optimizer": {"type": "lbfgs", "max_sweeps": 40},
        "objective": {"threshold": 1.0, "alpha": 0.05},
    }
    with qsim.run(search, output=tmp_path / "whole") as whole:
        expected = {name: whole[name] for name in ("control/x", "populations", "history/objective")}
    with pytest.raises(Stopped):
        qsim.run({**search, "run": {"seed": 3, "walltime": "1e-4 s"}}, output=tmp_path / "part")
    with qsim.run(search, output=tmp_path / "part", resume=True) as part:
        for name, values in expected.items():
            assert np.array_equal(part[name], values), name


@pytest.mark.parametrize("seed", range(6))
def test_claims_hold_for_random_systems(tmp_path, seed):
    """Against exponentials of a Liouvillian made of Kronecker products, from a superposition to a level of H0."""
    rng = np.random.default_rng(seed)
    size, slots = int(rng.integers(2, 6)), int(rng.integers(3, 20))
    matrices = [hermitian(rng, size) for _ in range(3)]
    jumps = [0.3 * (hermitian(rng, size) + 1j * hermitian(rng, size)) for _ in range(seed % 3)]
    parts = {"H0": matrices[0], "controls/u": matrices[1], "controls/v": matrices[2]}
    np.savez(tmp_path / "m.npz", **parts, **{f"jumps/k{n}": jump for n, jump in enumerate(jumps)})
    weight = float(rng.uniform(0.1, 0.9))
    system = {
        "type": "matrices",
        "file": str(tmp_path / "m.npz"),
        "initial": {"0": weight, "1": 0.4},
        "target": size - 1,
    }
    guess = {"type": "expression", "value": "0.7*sin(2*t) + 0.2"}
    made = {
        "method": "qoc",
        "system": system,
        "time": {"T": 2.5, "slots": slots},
        "control": [{"name": name, "guess": guess, "bounds": [-2, 2]} for name in "uv"],
        "objective": {"threshold": 1.0},
        "optimizer": {"type": "lbfgs", "max_sweeps": 12},
        "run": {"seed": seed},
    }
    with qsim.run(made) as results:
        value = results.scalars["probability"]
        fields = np.array([results["control/u"], results["control/v"]])
    _, levels = np.linalg.eigh(matrices[0])
    start = np.zeros(size, complex)
    start[:2] = weight, 0.4  # of the basis states of the file
    rho = np.outer(start, start.conj()) / np.vdot(start, start).real
    one = np.eye(size)
    for u, v in fields.T:
        h = matrices[0] + u * matrices[1] + v * matrices[2]
        generator = -1j * (np.kron(h, one) - np.kron(one, h.T))
        for jump in jumps:
            rate = jump.conj().T @ jump
            generator += np.kron(jump, jump.conj()) - 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
        rho = (expm(2.5 / slots * generator) @ rho.ravel()).reshape(size, size)
    truth = np.vdot(levels[:, -1], rho @ levels[:, -1]).real
    assert abs(value.value - truth) <= value.error + 1e-14
    assert value.error < 1e-9


def hermitian(rng, size):
    a = rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size))
    return (a + a.conj().T) / 2.0


@pytest.mark.parametrize("gate", ["z", "s", "x"])
def test_searches_from_zero_reach_gates(run, gate):
    """Zero is a critical point of all of them; the truth by exponentials of the controls that were found."""
    wanted = {"z": np.diag([1, -1]), "s": np.diag([1, 1j]), "x": np.array([[0, 1], [1, 0]])}[gate]
    system = {
        "type": "model",
        "parts": [QUBIT],
        "controls": {"x": "q.sx", "y": "q.sy"},
        "target": {"gate": gate},
    }
    controls = [{"name": name, "guess": "zero"} for name in "xy"]
    made = deck(control=controls, optimizer="lbfgs", objective={"threshold": 0.9999}) | {"system": system}
    results = run(made)
    assert value(results, "threshold_reached")
    u = np.eye(2)
    for x, y in zip(results["control/x"], results["control/y"], strict=True):
        u = expm(-0.1j * np.array([[0, x - 1j * y], [x + 1j * y, 0]])) @ u
    fidelity = (2 + abs(np.trace(wanted.conj().T @ u)) ** 2) / 6
    assert fidelity >= 0.9999
    assert value(results, "fidelity") == pytest.approx(fidelity, abs=1e-12)


@pytest.mark.parametrize(("start", "told"), [(3, True), ({"level": 3}, False), ({"state": "3"}, False)])
def test_a_number_that_is_a_level_and_another_label_is_told(run, caplog, start, told):
    """Levels of a displaced ladder are no number states."""
    part = {"name": "o", "type": "ladder", "levels": 7, "frequency": 1.0, "anharmonicity": -0.3}
    system = {
        "type": "model",
        "parts": [part],
        "terms": [{"operator": "o.x", "value": 0.45}],
        "controls": {"n": "o.x"},
        "initial": {"level": 0},
        "target": start,
    }
    results = run(
        deck(control=[{"name": "n", "guess": {"type": "expression", "value": "0.8"}}], verify={"levels": 0})
        | {"system": system}
    )
    n = np.arange(7.0)
    x = np.diag(np.sqrt(n[1:]), 1)
    h = np.diag(n - 0.15 * n * (n - 1)) + 0.45 * (x + x.T)
    levels = np.linalg.eigh(h)[1]
    goal = np.eye(7)[3] if start == {"state": "3"} else levels[:, 3]
    exact = abs(goal @ expm(-1j * (h + 0.8 * (x + x.T))) @ levels[:, 0]) ** 2
    assert value(results, "probability") == pytest.approx(exact, abs=1e-11)
    text = caplog.text
    assert ('write {level: 3} for the level, or "3" in quotes' in text) == told


@pytest.mark.parametrize(("place", "size"), [("H0", 2.0**63), ("control", 1e180), ("H0", 1e300)])
def test_sizes_beyond_computing_name_the_matrix(run, tmp_path, place, size):
    h = np.diag([0.0, size if place == "H0" else 1.0])
    x = (size if place == "control" else 1.0) * np.array([[0.0, 1.0], [1.0, 0.0]])
    np.savez(tmp_path / "s.npz", **{"H0": h, "controls/x": x})
    made = deck() | {"system": {"type": "matrices", "file": "s.npz", "initial": "0", "target": "1"}}
    with pytest.raises(QsimError) as refused:
        run(made)
    text = str(refused.value)
    assert place in text
    assert "nan" not in text
    assert f"{size:.3g}" in text or f"{0.5 * size:.3g}" in text
