"""Fronts against closed forms, bounds against random controls, continuation, refusals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import qsim
from qsim.core.errors import QsimError, Stopped
from qsim.qoc.control.controls import Controls, Line
from qsim.qoc.control.parametrisation import Parametrisation
from qsim.qoc.objectives.bounds import limits_of
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.slots import Motion
from qsim.qoc.quantum.fronts import most_probable
from tests.qoc.quantum.test_slots import random_model


def deck(**changes):
    """Return a qubit that one drive turns, H = u sx/2, |u| <= 1: P = sin^2(T/2) at most."""
    made = {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": "q", "type": "qubit"}],
            "controls": {"x": "q.sx/2"},
            "initial": "0",
            "target": "1",
        },
        "time": {"T": 2.0, "slots": 8},
        "control": [
            {"name": "x", "bounds": [-1, 1], "guess": {"type": "expression", "value": "0.3 + 0.1*t"}}
        ],
        "objective": {"threshold": 0.9999},
        "front": {"over": "time.T", "values": [1.0, 2.0, 3.0, 3.5]},
        "run": {"seed": 3},
    }
    for key, value in changes.items():
        made[key] = made[key] | value if isinstance(made.get(key), dict) else value
    return made


def run(made, path, **options):
    return qsim.run(made, output=path, figures="none", **options)


def test_front_of_durations_lies_on_its_bound(tmp_path):
    with run(deck(), tmp_path / "r") as r:
        t = r["front/value"]
        exact = np.sin(np.minimum(t, np.pi) / 2) ** 2
        assert np.allclose(r["front/probability"][:3], exact[:3], atol=1e-9)
        assert r["front/probability"][3] >= 0.9999
        assert np.allclose(r["front/bound"], exact, atol=1e-12)
        assert np.all(np.abs(r["front/verified"] - r["front/probability"]) <= r["front/error"] + 1e-15)
        assert list(r["front/reached"]) == [0, 0, 0, 1]
        # the last point is searched once, the others from both sides
        assert np.isnan(r["front/backward"]).tolist() == [False, False, False, True]
        # the file shows the shortest duration that is enough
        assert r.scalars["front_shown"].value == 3.5
        assert r["time"][-1] == pytest.approx(3.5 * 15 / 16)
        limit = r.scalars["front_limit"]
        assert abs(limit.value - np.pi) < limit.error
        assert np.array_equal(r["front/control/x"][3], r["control/x"])


def test_front_of_fluences(tmp_path):
    """The largest area of fluence F in T is sqrt(F T)."""
    made = deck(
        front={"over": "fluence", "values": [0.5, 2.0, 1.0]},
        control=[{"name": "x"}],
        objective={"threshold": 1.0},
    )
    with run(made, tmp_path / "r") as r:
        f = r["front/value"]
        assert np.all(r["front/fluence"] <= f)
        exact = np.sin(np.sqrt(f * 2.0) / 2) ** 2
        assert np.all(r["front/probability"] <= exact + 1e-12)
        assert np.allclose(r["front/probability"], exact, atol=2e-3)
        assert np.allclose(r["front/bound"], exact, atol=1e-12)
        # nothing reached the threshold: the best is shown
        assert r.scalars["front_shown"].value == 2.0


def test_front_over_the_width_of_an_ensemble(tmp_path):
    widths = [0.0, 1.0, 2.0]
    made = deck(
        time={"T": 5.0},
        control=[{"name": "x", "bounds": [-1, 1], "guess": {"type": "expression", "value": "0.4"}}],
        ensemble={"members": [{"scale": {"control.x": [0.8, 1.0, 1.2]}}]},
        front={"over": "ensemble.width", "values": widths},
        objective={"threshold": 1.0},
    )
    with run(made, tmp_path / "r") as r:
        found, errors = r["front/probability"], r["front/error"]
    # one axis alone: P is the mean of sin^2(s theta/2) at the best angle theta
    theta = np.linspace(0.0, 5.0, 500_001)
    for width, p, error in zip(widths, found, errors, strict=True):
        factors = 1.0 + width * np.array([-0.2, 0.0, 0.2])
        best = np.mean(np.sin(0.5 * factors[:, None] * theta) ** 2, axis=0).max()
        assert p == pytest.approx(best, abs=1e-9 + error)


def test_front_over_any_key_of_the_deck(tmp_path):
    values = ["20 ns", "2 us"]
    made = deck(front={"over": "system.parts.q.T1", "values": values}, time={"T": "1 ns"})
    made["system"] |= {"unit": "GHz", "parts": [{"name": "q", "type": "qubit", "T1": "1 us"}]}
    made["control"] = [{"name": "x", "bounds": [-1, 1]}]
    with run(made, tmp_path / "r") as r:
        assert np.allclose(r["front/value"], [20.0, 2000.0])
        assert r["front/probability"][0] < r["front/probability"][1]
    refused = deck(front={"over": "system.parts.z.T1", "values": values})
    assert any("there is no 'z'" in str(p) for p in qsim.validate(refused).problems)


def test_a_limit_through_searches_that_did_not_converge_is_refused(tmp_path, caplog):
    made = deck(optimizer={"type": "lbfgs", "max_sweeps": 6}, front={"warm_start": False})
    made["control"][0]["guess"] = {"type": "expression", "value": "0.5*cos(3*t) + 0.4"}
    made["front"]["values"] = [2.8, 3.0, 4.0, 7.0]
    made["objective"] = {"threshold": 0.99}
    with run(made, tmp_path / "r") as r:
        loose = (r["front/converged"] == 0) & (r["front/reached"] == 0)
        assert loose.any()
        assert r["front/reached"].any()
        assert "front_limit" not in r.scalars
        assert any("no limit of time.T is told" in text for text in caplog.messages)


@pytest.mark.parametrize("seed", range(12))
def test_no_random_controls_pass_the_bound(seed):
    rng = np.random.default_rng(seed)
    made = random_model(seed, "state", 0)
    count, slots, duration = len(made.controls), 9, 0.25 * float(rng.uniform(0.1, 1.0))
    largest = rng.uniform(0.2, 1.5, count)
    ones = np.ones(slots)
    lines = [Line(Parametrisation(ones, -b * ones, b * ones, None, None), np.ones_like) for b in largest]
    objective = SlotObjective(made, Motion(duration, slots))
    low, high = -largest, largest
    problem = SimpleNamespace(
        model=made,
        ensemble=None,
        dissipation=SimpleNamespace(search="closed"),
        limits=limits_of(made, duration, low, high, closed=True),
        objective=objective,
        duration=duration,
        times=ones,
        controls=Controls(tuple(lines), duration),
    )
    bound = most_probable(problem) or 1.0
    signs = rng.choice([-1.0, 1.0], (30, count, slots))
    best = max(float(objective.values(s * largest[:, None])[0][0]) for s in signs)
    assert best <= bound + 1e-12
    most = float(rng.uniform(0.1, 2.0))
    problem.controls = Controls(tuple(lines), duration, most=most)
    bound = most_probable(problem)
    if any(c.power == 2 for c in made.controls):
        # of squares the fluence says nothing more
        assert bound == problem.limits.speed
        return
    for fields in signs * largest[:, None]:
        size = np.sqrt(most / (np.sum(fields**2) * duration / slots))
        assert float(objective.values(min(1.0, size) * fields)[0][0]) <= bound + 1e-12


def test_a_stopped_front_is_continued_to_the_bit(tmp_path):
    made = deck(objective={"threshold": 0.9999, "alpha": 1e-3})
    with run(made, tmp_path / "whole") as whole:
        expected = {n: whole[n] for n in whole if n.startswith(("front", "control/", "history/obj"))}
    stops = 0
    for _ in range(3):
        limited = made | {"run": {"seed": 3, "walltime": f"{1e-4 * 4**stops} s"}}
        try:
            run(limited, tmp_path / "part", resume=stops > 0).close()
            break
        except Stopped:
            stops += 1
    assert stops
    with run(made, tmp_path / "part", resume=True) as part:
        for n, values in expected.items():
            assert np.array_equal(part[n], values, equal_nan=True), n


def test_points_that_cannot_begin(tmp_path):
    """A constant without area has no gradient anywhere; first values that vanish at one point alone are left by a seed."""
    rigid = {"parameters": {"type": "constant"}, "area": 0.0}
    made = deck(control=[{"name": "x", "guess": {"type": "expression", "value": "0.4"}, **rigid}])
    with pytest.raises(QsimError) as refused:
        run(made, tmp_path / "r")
    assert "of every point" in str(refused.value)
    made = deck(front={"values": [1.0, 2.0], "warm_start": False})
    made["control"][0]["guess"] = {"type": "expression", "value": "0.5*heaviside(T - 1.5)"}
    with run(made, tmp_path / "r") as r:
        assert r["front/probability"] == pytest.approx(np.sin([0.5, 1.0]) ** 2, abs=1e-6)
        assert list(r["front/converged"]) == [1, 1]


REFUSED = {
    "unknown": ({"over": "time.duration", "values": [1.0, 2.0]}, "time.duration"),
    "twice": ({"over": "time.T", "values": [1.0, 1.0]}, "appears twice"),
    "negative": ({"over": "time.T", "values": [1.0, -1.0]}, "time.T = -1"),
    "units": ({"over": "objective.alpha", "values": [0.1, "x"]}, "objective.alpha"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_front_is_refused(case):
    front, text = REFUSED[case]
    made = deck()
    made["front"] = front
    problems = [str(p) for p in qsim.validate(made).problems]
    assert any("front" in p and text in p for p in problems), problems
    made["front"] = deck()["front"]
    assert any("choose an optimizer" in str(p) for p in qsim.validate(made | {"optimizer": "none"}).problems)
