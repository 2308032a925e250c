"""Every optimiser on several controls: derivatives, monotone searches, starts, and continuation to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import qsim
from qsim.core.errors import QsimError, Stopped
from qsim.qoc.models.quantum import GateTarget, StateTarget
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.slots import Motion
from tests.qoc.quantum.test_controls import deck
from tests.qoc.quantum.test_slots import random_model

KETS = ["state", "coherent", "gate"]


def slots_of(kind, seed, lindblad=False, slots=7):
    """Return the objective of a random system, and random controls."""
    model = random_model(seed, kind, 1 if lindblad else 0)
    objective = SlotObjective(model, Motion(1.3, slots, lindblad), 0.02)
    rng = np.random.default_rng(seed)
    return objective, rng.normal(size=(len(model.controls), slots))


@pytest.mark.parametrize("kind", KETS)
@pytest.mark.parametrize("seed", range(3))
def test_residuals_of_gauss_newton_against_central_differences(kind, seed):
    objective, fields = slots_of(kind, seed)
    source = objective.residuals()
    p, _, trial = source.trial(fields)
    r, rows = source.jacobian(trial)
    assert rows.shape == (r.size, *fields.shape)
    goal = objective.model.goal
    if isinstance(goal, StateTarget) and not goal.coherent:
        assert np.sum(np.abs(r) ** 2) == pytest.approx(1.0 - p, abs=1e-12)
    d = np.random.default_rng(50 + seed).normal(size=fields.shape)
    step = 1e-5
    ends = [source.jacobian(source.trial(fields + sign * step * d)[2])[0] for sign in (1, -1)]
    moved = (ends[0] - ends[1]) / (2 * step)
    if isinstance(goal, GateTarget) or goal.coherent:
        # of moving targets only what is not along their phase is claimed
        along = 1j * (trial.final.T.ravel() * source.scale - r)
        along /= np.linalg.norm(along)
        moved = moved - along * np.vdot(along, moved).real
    assert np.allclose(rows.reshape(r.size, -1) @ d.ravel(), moved, atol=2e-8)


@pytest.mark.parametrize(("kind", "lindblad"), [("state", False), ("gate", False), ("gate", True)])
@pytest.mark.parametrize("seed", range(3))
def test_a_small_krotov_update_moves_along_the_gradient(kind, lindblad, seed):
    """For a large lambda the update of all slots is the gradient, as no slot knows of the others."""
    objective, fields = slots_of(kind, seed, lindblad)
    exact = objective.evaluate(fields).gradient
    steps = objective.sequential()
    rate = 1e-7

    class Free:
        low = np.full(fields.shape, -np.inf)
        high = np.full(fields.shape, np.inf)

    new = steps.update(fields, steps.forward(fields), np.full(fields.shape, rate), Free)
    assert np.allclose((new - fields) / rate * objective.tau, exact, atol=1e-5 * np.abs(exact).max())


def search(optimizer, control=None, **changes):
    """Return a search for a swap of two coupled qubits."""
    names = "uvwx"
    control = control or [{"name": n, "bounds": [-4, 4]} for n in names]
    made = deck(control, optimizer=optimizer, **changes)
    made["system"]["target"] = {"gate": "cz", "on": ["a", "b"]}
    made["objective"] = {"threshold": 0.999} | changes.get("objective", {})
    return made


OPTIMISERS = {
    "krotov": {"type": "krotov", "max_sweeps": 800},
    "gauss_newton": {"type": "gauss_newton", "max_sweeps": 2000},
    "travolta": {"type": "travolta", "derivative": "exact", "max_iterations": 200, "max_sweeps": 9000},
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_finds_a_gate_with_four_controls(tmp_path, name):
    with qsim.run(search(OPTIMISERS[name]), output=tmp_path / "r", figures="none") as results:
        assert results.scalars["fidelity"].value >= 0.999
        assert results.scalars["fidelity_verified"].value >= 0.999
        assert max(np.abs(results[f"control/{n}"]).max() for n in "uvwx") <= 4.0
        if name != "travolta":
            assert np.all(np.diff(results["history/objective"]) > -1e-15)


def test_krotov_with_jumps_rises_and_keeps_a_fixed_drive(tmp_path):
    control = [
        {"name": "u"},
        {"name": "v", "guess": {"type": "expression", "value": "9*sin(t)"}, "fixed": True},
    ]
    made = deck(control, optimizer={"type": "krotov", "max_sweeps": 60}, dissipation="lindblad")
    made["control"][1]["bounds"] = [-10, 10]
    made["system"] |= {"target": "10", "jumps": [{"operator": "a.sm", "rate": 0.1}]}
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        history = results["history/objective"]
        assert np.all(np.diff(history) > -1e-15)
        assert history[-1] > 0.8
        assert np.array_equal(results["control/v"], 9 * np.sin(results["time"]))


def test_new_frequencies_are_drawn_where_the_search_rests(tmp_path):
    fourier = {"type": "fourier", "count": 1, "spread": 0.4}
    control = [{"name": n, "parameters": fourier | {"redraws": 0}} for n in "uvwx"]
    values = []
    for redraws in (0, 6):
        for block in control:
            block["parameters"]["redraws"] = redraws
        made = search({"type": "lbfgs", "max_sweeps": 600}, control, objective={"threshold": 0.9999})
        with qsim.run(made, output=tmp_path / str(redraws), figures="none") as results:
            values.append(results.scalars["fidelity"].value)
    assert values[1] > values[0] + 1e-3


def test_further_starts_are_made_below_the_threshold_and_the_best_is_kept(tmp_path):
    made = search({"type": "lbfgs", "max_sweeps": 30, "restarts": 3}, [{"name": "u"}, {"name": "v"}])
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        values = results["starts/value"]
        assert values.size == 4
        assert np.ptp(values) > 1e-6
        assert results.scalars["fidelity"].value == pytest.approx(values.max(), abs=1e-12)


STOPPED = {
    **{name: (options | {"max_sweeps": 60}, None) for name, options in OPTIMISERS.items()},
    "starts": ({"type": "lbfgs", "max_sweeps": 12, "restarts": 2}, None),
    "draws": (
        {"type": "lbfgs", "max_sweeps": 120},
        [{"name": "u", "parameters": {"type": "fourier", "count": 1}}],
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_search_of_any_kind_is_continued_to_the_bit(tmp_path, name):
    optimizer, control = STOPPED[name]
    made = search(optimizer, control, objective={"threshold": 0.999999, "alpha": 1e-3})
    with qsim.run(made, output=tmp_path / "whole", figures="none") as whole:
        expected = {n: whole[n] for n in whole if n.startswith(("control/", "history/obj", "starts"))}
    seconds = whole_seconds = 1e-4
    stops = 0
    resume = False
    while stops < 4:
        try:
            part = qsim.run(
                made | {"run": {"seed": 3, "walltime": f"{seconds} s"}},
                output=tmp_path / "part",
                figures="none",
                resume=resume,
            )
            part.close()
            break
        except Stopped:
            stops += 1
            resume = True
            seconds += whole_seconds
    with qsim.run(made, output=tmp_path / "part", figures="none", resume=True) as part:
        assert stops
        for n, values in expected.items():
            assert np.array_equal(part[n], values), n


REFUSED = {
    "krotov splines": (
        {"type": "krotov"},
        [{"name": "u", "parameters": {"type": "bspline", "count": 5}}],
        "control.0.parameters",
    ),
    "krotov pair": (
        {"type": "krotov"},
        [{"name": "u"}, {"name": "v", "modulus": {"with": "u", "bound": 1}}],
        "control.1.modulus",
    ),
    "krotov area": ({"type": "krotov"}, [{"name": "u", "zero_area": True}], "control.0.zero_area"),
    "same starts": (
        {"type": "lbfgs", "restarts": 2},
        [{"name": "u", "guess": {"type": "expression", "value": "t"}}],
        "every start would be the same",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_optimiser_cannot_keep_is_refused(case):
    optimizer, control, text = REFUSED[case]
    assert any(text in str(problem) for problem in qsim.validate(search(optimizer, control)).problems)


@pytest.mark.parametrize(
    ("target", "dissipation", "text"),
    [({"observable": "a.sz"}, "none", "observable"), ("11", "lindblad", "density matrices")],
)
def test_gauss_newton_says_where_it_has_no_meaning(target, dissipation, text):
    made = deck([{"name": "u"}], optimizer="gauss_newton", dissipation=dissipation)
    made["system"] |= {"target": target, "jumps": [{"operator": "a.sm", "rate": 0.1}]}
    with pytest.raises(QsimError) as refused:
        qsim.run(made)
    assert text in str(refused.value)
