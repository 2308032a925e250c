"""The error of the levels kept: couplings that skip levels, hot baths, products, and levels that are the model."""

import numpy as np
import pytest
from scipy.linalg import expm

import qsim
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.models.builders import model
from qsim.qoc.models.composite import _reach
from qsim.qoc.models.parts import part_matrices


def deck(parts, control, target="0", duration=1.2, value=0.5, **more):
    states = {"initial": "0" * len(parts), "target": target}
    return {
        "method": "qoc",
        "system": {"type": "model", "parts": parts, "controls": {"f": control}, **states},
        "time": {"T": duration, "slots": 10},
        "control": [{"name": "f", "guess": {"type": "expression", "value": str(value)}}],
        "optimizer": "none",
        **more,
    }


def lowering(size):
    return np.diag(np.sqrt(np.arange(1.0, size)), 1)


@pytest.mark.parametrize(("power", "levels"), [(3, 5), (2, 4)])
def test_couplings_that_skip_levels_are_followed(power, levels):
    part = {"name": "o", "type": "ladder", "levels": levels, "anharmonicity": -0.7}
    found = qsim.run(deck([part], f"0.3*(o.b^{power} + o.bd^{power})"))
    b = np.linalg.matrix_power(lowering(90), power)
    n = np.arange(90.0)
    h = np.diag(-0.35 * n * (n - 1.0)) + 0.15 * (b + b.T)
    exact = abs(expm(-1.2j * h)[0, 0]) ** 2
    scalar = found.scalars["probability"]
    assert scalar.error is not None
    assert 1e-4 < abs(float(scalar.value) - exact) <= scalar.error


def test_a_hot_bath_fills_levels_that_are_not_kept():
    part = {"name": "o", "type": "ladder", "levels": 4, "frequency": 1.0, "T1": 3.0, "temperature": 3.0}
    found = qsim.run(deck([part], "o.x", {"observable": "o.n"}, duration=4.0, value=0.0))
    quanta = 1.0 / np.expm1(1.0 / 3.0)
    exact = quanta * (1.0 - np.exp(-4.0 / 3.0))
    scalar = found.scalars["observable"]
    assert scalar.error is not None
    missing = abs(float(scalar.value) - exact)
    assert missing > 0.3
    assert missing <= scalar.error < 3.0 * missing


def test_two_parts_whose_highest_levels_are_filled_together():
    parts = [{"name": k, "type": "ladder", "levels": 3, "frequency": 0.3} for k in "ab"]
    found = qsim.run(deck(parts, "a.b*c.b + a.bd*c.bd".replace("c.", "b."), "00", duration=1.0, value=0.8))
    # two-mode squeezing: 1/cosh^2 of the strength where both turn, from exponentials in the states |n n>
    n = np.arange(120.0)
    h = np.diag(0.6 * n) + 0.8 * (np.diag(n[1:], 1) + np.diag(n[1:], -1))
    exact = abs(expm(-1.0j * h)[0, 0]) ** 2
    scalar = found.scalars["probability"]
    assert scalar.error is not None
    assert 1e-3 < abs(float(scalar.value) - exact) <= scalar.error


def test_levels_that_are_the_model_keep_the_other_errors():
    part = {"name": "o", "type": "transmon", "levels": 3, "anharmonicity": -1.0}
    given = deck([part], "o.x", "1", verify={"levels": 0})
    found = qsim.run(given)
    n = np.arange(3.0)
    h = np.diag(-0.5 * n * (n - 1.0)) + 0.5 * (lowering(3) + lowering(3).T)
    exact = abs(expm(-1.2j * h)[1, 0]) ** 2
    scalar = found.scalars["probability"]
    assert abs(float(scalar.value) - exact) <= scalar.error < 1e-11
    assert "error_levels" not in found.scalars


def test_what_does_not_settle_is_told_with_the_part_and_the_remedy(qoc):
    part = {"name": "o", "type": "ladder", "levels": 4}
    # a squeezing drive beyond its threshold fills all levels there are
    summary = qoc.execute(**deck([part], "o.b^2 + o.bd^2", {"observable": "o.n"}, duration=4.0, value=0.9))
    text = " ".join(summary["warnings"])
    assert "has not settled with the number of levels" in text
    assert "raise levels of o" in text
    assert "verify: {levels: 0}" in text


def test_starts_and_goals_of_files_are_those_of_the_levels_kept(tmp_path):
    psi = np.array([0.6, 0.8j, 0.0, 0.0])
    np.savez(tmp_path / "psi.npz", psi=psi)
    part = {"name": "o", "type": "ladder", "levels": 4, "anharmonicity": -1.0}
    given = deck([part], "o.x", "1", value=0.3)
    given["system"]["initial"] = {"file": str(tmp_path / "psi.npz")}
    found = qsim.run(given)
    b = lowering(40)
    n = np.arange(40.0)
    h = np.diag(-0.5 * n * (n - 1.0)) + 0.3 * (b + b.T)
    exact = abs(expm(-1.2j * h)[1, :4] @ psi) ** 2
    scalar = found.scalars["probability"]
    assert scalar.error is not None
    assert abs(float(scalar.value) - exact) <= scalar.error


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a.b^3*r.cos + a.bd^3*r.cos", [3, 1]),
        ("a.n^2 + r.cos2", [1, 2]),
        ("2*(a.b + a.bd)^(1 + 1)*r.cos2^2/3 - 1", [2, 4]),
        ("sqrt(2)*a.p0", [1, 1]),
        ("-a.x*a.y", [2, 1]),
    ],
)
def test_the_reach_of_a_formula_needs_no_matrix(formula, expected):
    parts = [
        {"name": "a", "type": "ladder", "levels": 3},
        {"name": "r", "type": "rotor", "levels": 3, "B": 1.0},
    ]
    block = {"type": "model", "parts": parts, "controls": {"f": formula}, "initial": "00", "target": "01"}
    system = ModelSystem.model_validate(block)
    made = [part_matrices(part, Units(None), "system.parts") for part in system.parts]
    assert _reach(system, made).tolist() == expected


def test_labels_of_the_states_kept_stay_in_a_larger_basis():
    parts = [{"name": k, "type": "ladder", "levels": 9} for k in "ab"]
    block = {"type": "model", "parts": parts, "controls": {"f": "a.x"}, "initial": "78", "target": "80"}
    few, more = (model(ModelSystem.model_validate(block), extra) for extra in (0, 2))
    assert more.shape == (11, 11)
    assert set(few.labels) < set(more.labels)
    assert more.labels[int(np.argmax(np.abs(more.states[:, 0])))] == "78"


@pytest.mark.parametrize("optimizer", ["none", "lbfgs"])
def test_values_of_functions_claim_their_levels(tmp_path, optimizer):
    """A pulse narrower than its slot drives an oscillator out of the levels kept, which its mean over the slot does less.

    A kick of area a leaves the coherent state of amplitude a/2, whose vacuum has exp(-a^2/4): H = u (b + b+)/2 here.
    """
    part = {"name": "o", "type": "ladder", "levels": 4, "frequency": 0.37}
    kick = {"type": "expression", "value": "1.9/(0.003*sqrt(pi))*exp(-((t - 4.1)/0.003)^2)"}
    made = {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [part],
            "controls": {"x": "o.x/2"},
            "initial": "0",
            "target": "0",
        },
        "time": {"T": 9.0, "slots": 6},
        "control": [{"name": "x", "guess": kick}],
        "optimizer": "none",
    }
    if optimizer == "lbfgs":
        # of a search, the spline itself beside the values of its slots
        made["optimizer"] = {"type": "lbfgs", "max_sweeps": 2}
        made["control"] = [
            {
                "name": "x",
                "parameters": {"type": "bspline", "count": 4},
                "guess": {"type": "expression", "value": "0.4"},
            }
        ]
        made["objective"] = {"threshold": 1.0}
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        followed, held = (results.scalars[n] for n in ("probability_continuous", "probability"))
        levels = results.scalars["error_levels"].value
    assert levels > 1e-6
    if optimizer == "none":
        truth = np.exp(-(1.9**2) / 4)
        off = abs(followed.value - truth)
        assert off > 1e-4
        assert off <= followed.error < 0.01
        assert abs(held.value - truth) <= held.error
    else:
        assert followed.error > 0.5 * levels


@pytest.mark.parametrize("seed", range(5))
def test_levels_where_the_lindbladian_ends_a_search_without_jumps(monkeypatch, seed):
    """Kets tell what the levels change, jumps included; the truth has four times as many levels and one dense exponential."""
    monkeypatch.setattr("qsim.qoc.quantum.dissipation.QUICK", 0.0)
    rng = np.random.default_rng(seed)
    levels, size, life, duration = 4, 16, rng.uniform(14.0, 40.0), 1.5
    bent, value = rng.uniform(-3.0, -1.0), rng.uniform(0.3, 1.2)
    part = {"name": "q", "type": "transmon", "levels": levels, "frequency": 0.3, "anharmonicity": bent}
    part |= {"T1": life, "Tphi": 2.0 * life}
    found = qsim.run(deck([part], "q.x", rng.choice(["0", "1"]), duration, value))
    scalars = found.scalars
    assert "probability_no_jump" in scalars
    b, n = lowering(size), np.arange(size)
    one = np.eye(size)
    h = np.diag(0.3 * n + 0.5 * bent * n * (n - 1.0)) + value * (b + b.T)
    whole = -1j * (np.kron(h, one) - np.kron(one, h.T))
    for jump in (np.sqrt(1.0 / life) * b, np.sqrt(1.0 / life) * np.diag(n)):
        rate = jump.T @ jump
        whole += np.kron(jump, jump) - 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
    rho = expm(duration * whole)[:, 0].reshape(size, size).real
    exact = rho[int(found.deck["system"]["target"])][int(found.deck["system"]["target"])]
    scalar = scalars["probability"]
    assert abs(float(scalar.value) - exact) <= scalar.error
    kets = expm(duration * (-1j * h - 0.5 / life * (b.T @ b + np.diag(n**2.0))))[:, 0]
    alone = scalars["jump_free"]
    assert abs(float(alone.value) - np.linalg.norm(kets) ** 2) <= alone.error
