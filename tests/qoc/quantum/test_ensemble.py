"""Ensembles of quantum systems: sums of single systems, closed forms, refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import qsim
from qsim.core.device.device import cpu
from qsim.core.errors import QsimError, Stopped
from qsim.core.run.examine import examine
from qsim.qoc.models.quantum import ControlTerm
from qsim.qoc.objectives.ensemble import EnsembleObjective, Member, Weighted, Worst
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.slots import Motion
from tests.qoc.models.oracle import liouvillian
from tests.qoc.quantum.test_run import deck, hermitian
from tests.qoc.quantum.test_slots import random_model

SLOTS, DURATION = 4, 2.0


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def one(made, **options):
        return qsim.run(made, force=True, figures="none", **options)

    return one


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def scaled(model, factors):
    """Return a system whose controls act with other strengths."""
    terms = zip(model.controls, factors, strict=True)
    controls = tuple(ControlTerm(c.name, f**c.power * c.operator, c.power) for c, f in terms)
    return replace(model, controls=controls)


def ensemble(kind, jumps, device, measure=None, members=5, lossy=False):
    """Return an ensemble of two random systems, and its members one by one."""
    first = random_model(3, kind, jumps)
    # the same controls and goal, other levels; another pattern
    other = replace(first, drift=0.7 * first.drift + 0.1 * random_model(3, "gate", 0).controls[0].operator)
    models = [first, other]
    rng = np.random.default_rng(9)
    system = rng.integers(2, size=members)
    scale = rng.uniform(0.8, 1.2, (members, len(first.controls)))
    motion = Motion(DURATION, SLOTS, lindblad=jumps > 0 and not lossy, lossy=lossy)
    measure = measure or Weighted(rng.dirichlet(np.ones(members)))
    systems = [Member(m, motion) for m in models]
    made = EnsembleObjective(device, systems, system, scale, measure, members, alpha=0.02)
    single = [SlotObjective(scaled(models[k], f), motion) for k, f in zip(system, scale, strict=True)]
    fields = rng.normal(size=(len(first.controls), SLOTS))
    return made, single, fields


@pytest.mark.parametrize(
    ("kind", "jumps", "lossy"),
    [
        *(("state", 0, False), ("coherent", 0, False), ("gate", 0, False), ("observable", 0, False)),
        *(("gate", 1, False), ("observable", 1, False), ("gate", 1, True)),
    ],
)
def test_an_ensemble_is_the_mean_of_its_members(device, kind, jumps, lossy):
    made, single, fields = ensemble(kind, jumps, device, lossy=lossy)
    found = made.evaluate(fields)
    alone = [s.evaluate(fields) for s in single]
    weights = made.measure.weights
    values = np.array([e.probability for e in alone])
    # sums of some hundred terms of order 1, each rounded
    assert np.abs(found.member_probabilities - values).max() < 1e-13 * max(1.0, np.abs(values).max())
    assert found.probability == pytest.approx(weights @ values, abs=1e-13 * max(1.0, np.abs(values).max()))
    gradient = sum(w * e.gradient for w, e in zip(weights, alone, strict=True)) - 0.04 * made.tau * fields
    assert np.abs(found.gradient - gradient).max() < 1e-12 * np.abs(gradient).max()
    assert found.objective == pytest.approx(
        found.probability - 0.02 * made.tau * np.sum(fields**2), abs=1e-13
    )
    assert made.sweeps == 2
    assert made.norm_error < 1e-12
    assert np.array_equal(made.member_values(fields), found.member_probabilities)


def test_members_go_in_portions_that_memory_holds(monkeypatch):
    made, _, fields = ensemble("gate", 0, cpu(1), members=7)
    whole = made.evaluate(fields)
    monkeypatch.setattr(made.propagator, "chunk", lambda columns, fields: 3)
    parts = made.evaluate(fields)
    assert np.array_equal(parts.member_probabilities, whole.member_probabilities)
    assert np.abs(parts.gradient - whole.gradient).max() < 1e-14 * np.abs(whole.gradient).max()


def test_search_for_the_worst_member_has_the_slope_of_its_smooth_minimum():
    made, single, fields = ensemble("state", 0, cpu(1), Worst(1.0))
    found = made.evaluate(fields)
    values = np.array([s.evaluate(fields).probability for s in single])
    assert found.probability == pytest.approx(values.min(), abs=1e-13)
    smooth = found.objective + made.penalty(fields)
    assert values.min() <= smooth <= values.mean()
    rng = np.random.default_rng(2)
    for _ in range(3):
        direction = rng.normal(size=fields.shape)
        h = 1e-5
        ends = [float(made.values(fields + s * h * direction)[1][0]) for s in (1, -1)]
        # central differences: truncation h^2, rounding eps/h
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(
            float(np.sum(found.gradient * direction)), abs=1e-8
        )


def test_smooth_minimum_of_equal_and_of_perfect_members():
    worst = Worst(1.0)
    equal = np.full(9, 0.75)
    assert worst.smooth(equal) == pytest.approx(0.75, abs=1e-15)
    assert worst.slope(equal).sum() == pytest.approx(1.0, abs=1e-14)
    perfect = np.ones(4)
    assert worst.value(perfect) == 1.0
    assert np.all(np.isfinite(worst.slope(perfect)))
    # a distance of 1e-300 beside one of 0.5 adds nothing, and nothing underflows to a NaN
    assert worst.slope(np.array([1.0, 0.5]))[1] == pytest.approx(0.5 * 2 ** (7 / 8), rel=1e-12)


def test_factors_and_detunings_of_a_qubit_have_closed_forms(run):
    # H = s u sx + w n in T = 1: P = (s u/W)^2 sin^2 W with W^2 = (s u)^2 + (w/2)^2
    members = [
        {"scale": {"control.x": [0.9, 1.0, 1.1]}},
        {"set": {"parts.q.frequency": {"start": 0.0, "stop": 2.0, "count": 2}}},
    ]
    weights = [0.0, 1.0, 2.0, 1.0, 0.0, 1.0]
    results = run(deck(ensemble={"members": members, "weights": weights}))
    s, w = np.repeat([0.9, 1.0, 1.1], 2), np.tile([0.0, 2.0], 3)
    rate = s * np.pi / 2
    both = np.sqrt(rate**2 + w**2 / 4)
    wanted = (rate / both) ** 2 * np.sin(both) ** 2
    values, errors = results["member_probability"], results["member_probability_error"]
    assert np.array_equal(results["member_parameter/control.x"], s)
    assert np.array_equal(results["member_parameter/parts.q.frequency"], w)
    assert np.all(np.abs(values - wanted) <= errors)
    assert errors.max() < 1e-11
    assert np.all(np.abs(results["member_probability_verified"] - wanted) < 1e-12)
    mean = results.scalars["probability"]
    assert abs(mean.value - np.average(wanted, weights=weights)) <= mean.error
    assert results.scalars["probability_worst"].value == pytest.approx(wanted.min(), abs=1e-12)
    assert results.scalars["probability_nominal"].value == pytest.approx(1.0, abs=1e-12)


def test_lists_of_one_entry_go_together(run):
    members = [{"scale": {"control.x": [0.9, 1.1], "parts.q.frequency": [1.0, 3.0]}}]
    made = deck(ensemble={"members": members, "measure": "worst"})
    made["system"] = made["system"] | {"parts": [{"name": "q", "type": "qubit", "frequency": 0.5}]}
    results = run(made)
    values = results["member_probability"]
    assert values.shape == (2,)
    for k, (s, w) in enumerate([(0.9, 0.5), (1.1, 1.5)]):
        rate, both = s * np.pi / 2, np.hypot(s * np.pi / 2, w / 2)
        assert values[k] == pytest.approx((rate / both * np.sin(both)) ** 2, abs=1e-12)
    worst = results.scalars["probability"]
    assert worst.value == values.min()
    assert worst.error < 1e-11


def test_thermal_members_have_levels_of_their_own(run):
    # the gap decides how many levels of the start are above the limit
    part = {"name": "q", "type": "ladder", "levels": 6, "frequency": 1.0}
    system = {
        "parts": [part],
        "controls": {"x": "q.x"},
        "initial": {"thermal": 1.0, "below": 1e-3},
        "target": {"observable": "q.n"},
    }
    control = [{"name": "x", "guess": {"type": "expression", "value": "0.3*t"}}]
    gaps = [0.9, 1.4, 3.0]
    both = run(
        deck(system=system, control=control, ensemble={"members": [{"set": {"parts.q.frequency": gaps}}]})
    )
    for k, gap in enumerate(gaps):
        one = run(deck(system=system | {"parts": [part | {"frequency": gap}]}, control=control))
        assert both["member_observable"][k] == pytest.approx(one.scalars["observable"].value, abs=1e-12)
        assert both["member_observable_error"][k] == pytest.approx(one.scalars["observable"].error, rel=0.01)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"members": [{"set": {"parts.p.frequency": [1.0]}}]}, r"no 'p' in the system; there is: q"),
        ({"members": [{"set": {"parts.q.frequenzy": [1.0]}}]}, r"did you mean 'frequency'"),
        ({"members": [{"set": {"parts.q.T1": [-1.0]}}]}, r"a time must be above 0, found -1.0"),
        ({"members": [{"scale": {"control.y": [1.0]}}]}, r"the system has no control 'y'; it has x"),
        (
            {"members": [{"scale": {"parts.q.T1": [2.0]}}]},
            r"only numbers can be scaled; the system has nothing",
        ),
        ({"members": [{"scale": {"control.x": ["2 GHz"]}}]}, r"factors are numbers, found '2 GHz'"),
        ({"members": [{}]}, r"nothing varies"),
        (
            {"members": [{"scale": {"control.x": [1.0]}, "set": {"parts.q.frequency": [1.0, 2.0]}}]},
            r"need the same length: set.parts.q.frequency has 2, scale.control.x has 1",
        ),
        (
            {"members": [{"scale": {"control.x": [1.0]}}, {"scale": {"control.x": [2.0]}}]},
            r"varies already in another entry",
        ),
        ({"members": [{"scale": {"control.x": [1.0, 2.0]}}], "weights": [1.0]}, r"1 weights for 2 members"),
        ({"members": [{"scale": {"control.x": [1.0]}}], "weights": [0.0]}, r"all weights are 0"),
        (
            {
                "members": [
                    {"scale": {"control.x": {"start": 0.9, "stop": 1.1, "count": 1001}}},
                    {"set": {"parts.q.frequency": {"start": 0.0, "stop": 1.0, "count": 1000}}},
                ]
            },
            r"1001000 members, at most 1000000",
        ),
        (
            {"members": [{"scale": {"control.x": [1.0]}}], "weights": [1.0], "measure": "worst"},
            r"the worst member has no weight",
        ),
        (
            {"members": [{"set": {"parts.q.frequency": {"start": "1 GHz", "stop": 2.0, "count": 2}}}]},
            r"start and stop need the same unit",
        ),
        (
            {"members": [{"scale": {"control.x": {"start": 1.0, "sigma": 2.0, "count": 2}}}]},
            r"give start and stop, or mean and sigma, with count",
        ),
        (
            {"members": [{"set": {"parts.q.T2": [9.0]}, "scale": {"parts.q.T1": [1.0]}}]},
            r"T2 = 9.0 exceeds 2 T1 = 2",
        ),
    ],
)
def test_mistakes_of_an_ensemble_are_refused(run, block, told):
    part = {"name": "q", "type": "qubit"}
    if "parts.q.T2" in str(block):
        part["T1"] = 1.0
    with pytest.raises(QsimError, match=told):
        run(deck(system={"parts": [part]}, ensemble=block))


def test_the_width_of_an_ensemble_is_about_the_mean_of_each_list(run):
    lists = {"set": {"parts.q.frequency": ["1 GHz", "3 GHz"]}, "scale": {"control.x": [0.9, 1.1]}}
    made = deck(system={"unit": "GHz"}, ensemble={"members": [lists], "width": 0.5})
    results = run(made)
    assert np.allclose(results["member_parameter/parts.q.frequency"], [1.5, 2.5])
    assert np.allclose(results["member_parameter/control.x"], [0.95, 1.05])
    lists["set"]["parts.q.frequency"] = ["1 GHz", "3 MHz"]
    with pytest.raises(QsimError, match="ensemble.width needs values of one unit, found GHz, MHz"):
        run(deck(system={"unit": "GHz"}, ensemble={"members": [lists], "width": 0.5}))


def test_members_of_other_levels_are_refused(run):
    system = {"parts": [{"name": "q", "type": "ladder", "levels": 4}], "controls": {"x": "q.x"}}
    with pytest.raises(QsimError, match="a member has 5 levels, the system of the deck 4"):
        run(deck(system=system, ensemble={"members": [{"set": {"parts.q.levels": [4, 5]}}]}))


def test_draws_of_one_entry_are_independent_and_belong_to_the_seed(run):
    drawn = {
        "scale": {"control.x": {"mean": 1.0, "sigma": 0.05, "count": 300}},
        "set": {"parts.q.frequency": {"mean": 0.0, "sigma": "50 MHz", "count": 300}},
    }
    made = deck(system={"unit": "GHz"}, ensemble={"members": [drawn]}, verify={"propagator": "none"})
    results = run(made)
    s, w = results["member_parameter/control.x"], results["member_parameter/parts.q.frequency"]
    # five standard errors of means, deviations and the correlation of 300 draws
    assert abs(s.mean() - 1.0) < 0.05 * 5 / np.sqrt(300)
    assert abs(w.std() / 50.0 - 1.0) < 5 / np.sqrt(600)
    assert abs(np.corrcoef(s, w)[0, 1]) < 5 / np.sqrt(300)
    # u is in GHz, the detuning in MHz, T in ns
    rate, half = s * np.pi / 2 * 2 * np.pi, w * 2e-3 * np.pi / 2
    both = np.hypot(rate, half)
    wanted = (rate / both * np.sin(both)) ** 2
    assert np.allclose(results["member_probability"], wanted, atol=1e-12)
    assert np.array_equal(run(made)["member_parameter/control.x"], s)
    assert run(made | {"run": {"seed": 4}})["member_parameter/control.x"][0] != s[0]


@pytest.mark.parametrize("seed", range(6))
def test_claims_of_random_members_hold(run, tmp_path, seed):
    """Members are files of random systems, under factors of both controls; truth by Kronecker products and dense exponentials."""
    rng = np.random.default_rng(seed)
    size, slots, files = int(rng.integers(2, 5)), int(rng.integers(3, 9)), []
    for number in range(3):
        h = [hermitian(rng, size) for _ in range(3)]
        jumps = [0.3 * (hermitian(rng, size) + 1j * hermitian(rng, size)) for _ in range(seed % 3)]
        files.append((h, jumps))
        parts = {"H0": h[0], "controls/u": h[1], "controls/v": h[2]}
        np.savez(tmp_path / f"m{number}.npz", **parts, **{f"jumps/k{k}": a for k, a in enumerate(jumps)})
    factors = rng.uniform(0.7, 1.3, 2)
    members = [
        {"set": {"file": ["m0.npz", "m1.npz", "m2.npz"]}},
        {"scale": {"control": [1.0, factors[0]], "control.u": [1.0, factors[1]]}},
    ]
    guess = {"type": "expression", "value": "0.7*sin(2*t) + 0.2"}
    results = run(
        {
            "method": "qoc",
            "system": {
                "type": "matrices",
                "file": "m0.npz",
                "initial": {"0": 0.6, "1": 0.4},
                "target": size - 1,
            },
            "time": {"T": 2.5, "slots": slots},
            "control": [{"name": name, "guess": guess, "bounds": [-2, 2]} for name in "uv"],
            "objective": {"threshold": 1.0},
            "optimizer": {"type": "lbfgs", "max_sweeps": 12},
            # a search of kets alone, whose values have the jumps at the end
            "dissipation": "auto" if seed < 4 else "no_jump",
            "ensemble": {"members": members, "measure": ("mean", "worst")[seed % 2]},
            "run": {"seed": seed},
        }
    )
    fields = np.array([results["control/u"], results["control/v"]])
    start = np.zeros(size, complex)
    start[:2] = 0.6, 0.4
    start /= np.linalg.norm(start)
    truth = []
    for h, jumps in files:
        level = np.linalg.eigh(h[0])[1][:, -1]
        for scale in ((1.0, 1.0), (factors[0] * factors[1], factors[0])):
            rho = np.outer(start, start.conj()).ravel()
            for u, v in fields.T:
                generator = liouvillian(h[0] + scale[0] * u * h[1] + scale[1] * v * h[2], jumps)
                rho = expm(2.5 / slots * generator) @ rho
            truth.append(np.vdot(level, rho.reshape(size, size) @ level).real)
    assert np.all(
        np.abs(results["member_probability"] - truth) <= results["member_probability_error"] + 1e-14
    )
    assert results["member_probability_error"].max() < 1e-9
    value = results.scalars["probability"]
    assert abs(value.value - (min(truth) if seed % 2 else np.mean(truth))) <= value.error + 1e-14


def test_a_stopped_search_of_an_ensemble_is_continued_to_the_bit(tmp_path):
    search = deck(
        control=[{"name": "x", "guess": "random"}],
        objective={"threshold": 1.0},
        ensemble={"members": [{"scale": {"control.x": [0.9, 1.1]}}], "measure": "worst"},
    ) | {"optimizer": {"type": "lbfgs", "max_sweeps": 30}}
    with qsim.run(search, output=tmp_path / "whole", figures="none") as whole:
        expected = {name: whole[name] for name in ("control/x", "member_probability", "history/objective")}
    with pytest.raises(Stopped):
        qsim.run(
            {**search, "run": {"seed": 3, "walltime": "1e-4 s"}}, output=tmp_path / "part", figures="none"
        )
    with qsim.run(search, output=tmp_path / "part", resume=True, figures="none") as part:
        for name, values in expected.items():
            assert np.array_equal(part[name], values), name


def test_numbers_of_an_ensemble_with_jumps_are_those_of_its_members(run):
    """Mean without jumps, and the spread with weights, of a qubit that decays under drives of three strengths."""
    weights, scales = np.array([3.0, 1.0, 2.0]), [0.8, 1.05, 1.3]
    system = {"parts": [{"name": "q", "type": "qubit", "T1": 1.7}]}
    results = run(
        deck(
            system=system, ensemble={"members": [{"scale": {"control.x": scales}}], "weights": list(weights)}
        )
    )
    x, lower, rho = np.array([[0, 1], [1, 0]]), np.array([[0, 1], [0, 0]]) / np.sqrt(1.7), np.diag([1.0, 0.0])
    closed = [np.sin(s * np.pi / 2) ** 2 for s in scales]
    truth = [(expm(liouvillian(s * np.pi / 2 * x, [lower])) @ rho.ravel())[3].real for s in scales]
    coherent, spread = (results.scalars[name].value for name in ("coherent_value", "probability_spread"))
    assert coherent == pytest.approx(np.average(closed, weights=weights), abs=1e-12)
    assert 0.0 < results.scalars["coherent_value"].error < 1e-9
    mean = np.average(truth, weights=weights)
    assert results.scalars["probability"].value == pytest.approx(mean, abs=1e-11)
    assert spread == pytest.approx(np.sqrt(np.average((truth - mean) ** 2, weights=weights)), abs=1e-11)


@pytest.mark.parametrize(("scales", "told"), [([0.3, 0.6], True), ([0.3, 1.4], False)])
def test_a_threshold_beyond_the_members_is_told(tmp_path, scales, told):
    """Bounds of 1.3 turn a qubit by 2.6 times the factor in T = 1; pi is what the goal asks for."""
    control = [{"name": "x", "bounds": [-1.3, 1.3], "guess": {"type": "expression", "value": "0.5"}}]
    made = deck(
        control=control,
        optimizer="lbfgs",
        objective={"threshold": 0.99},
        ensemble={"members": [{"scale": {"control.x": scales}}]},
    )
    path = tmp_path / "deck.yaml"
    path.write_text(json.dumps(made))
    found = [item for item in examine("qoc", path) if "the threshold 0.99 is above" in item.message]
    assert bool(found) == told
