"""`time.accuracy` of atoms: the run finds its step, and keeps what the deck allows."""

import numpy as np
import pytest

from qsim.core.run.progress import Monitor
from qsim.core.run.stages import stage
from qsim.tridiag.atom.accuracy import numbers
from qsim.tridiag.atom.run import AtomEvolution
from tests.tridiag.atom.test_runs import SMALL

SHARES = ("norm", "population_1s", "population_2p", "bound_population")


def deck(gauge="length", **time):
    """A box small enough for many runs."""
    pulse = {"shape": "sin2", "omega": 0.7, "E0": 0.1, "cycles": 2}
    return SMALL | {
        "laser": {"gauge": gauge, "pulses": [pulse]},
        "grid": {"rmax": 30, "dr": 0.4, "l_max": 5, "map": {"dr0": 0.1, "width": 30}},
        "absorber": {"type": "cap", "width": 10, "strength": 0.1},
        "time": {"outputs": 10, "verify": False} | time,
    }


def shares(result):
    return np.array(
        [
            result.final("norm"),
            *(result.populations[f"population_{name}"] for name in ("1s", "2s", "2p", "3p")),
        ]
    )


@pytest.mark.parametrize(("gauge", "order"), [("length", 2), ("length", 4), ("velocity", 2)])
@pytest.mark.parametrize(
    ("accuracy", "strength"),
    [
        (1e-6, 0.1),
        *(pytest.param(a, e, marks=pytest.mark.exhaustive) for a in (1e-4, 1e-7) for e in (0.02, 0.2)),
    ],
)
def test_the_steps_keep_the_accuracy(tridiag, gauge, order, accuracy, strength):
    """Against eight times as many steps."""
    wanted = deck(gauge, accuracy=accuracy, order=order)
    wanted["laser"] = wanted["laser"] | {
        "pulses": [{"shape": "sin2", "omega": 0.7, "E0": strength, "cycles": 2}]
    }
    result = tridiag.run(**wanted)
    steps = result.problem.setting.steps
    fine = tridiag.run(
        **wanted | {"time": {"outputs": 10, "verify": False, "steps": 8 * steps, "order": order}}
    )
    assert np.abs(shares(result) - shares(fine)).max() < accuracy


def test_a_smaller_error_takes_more_steps(tridiag):
    found = [tridiag.run(**deck(accuracy=accuracy)).problem.setting.steps for accuracy in (1e-4, 1e-6, 1e-8)]
    assert found[0] < found[1] < found[2]
    assert found[2] / found[1] == pytest.approx(10.0, rel=0.5)  # order 2


def test_a_stopped_run_keeps_its_steps(tridiag):
    """The step is in the checkpoint: the continued run makes the same numbers without trials."""
    whole = tridiag.run(**deck(accuracy=1e-5))
    problem = tridiag.build(**deck(accuracy=1e-5))
    half = AtomEvolution(whole.problem)
    saved = []
    half.advance(lambda progress: saved.append(half.state()) if len(saved) < 3 else None)
    monitor = Monitor.silent()
    monitor.restored = saved[-1]
    again = stage("tridiag", "run").run(problem, monitor)
    assert again.problem.setting == whole.problem.setting
    assert np.array_equal(again.phi, whole.phi)


def test_the_claim_of_the_steps_is_below_the_accuracy(tridiag):
    result = tridiag.run(**deck(accuracy=1e-5, verify=True))
    assert result.errors["norm_final"] > 0.0
    assert result.problem.setting.dt < 0.5


def test_bad_input(tridiag):
    tridiag.refuses("dt", **deck(accuracy=1e-5, dt=0.1))
    tridiag.refuses("accuracy", **deck(accuracy=0.5))
    tridiag.refuses(
        "the runs of a scan take the same steps", **deck(accuracy=1e-5), scan={"intensity": [1e-3, 2e-3]}
    )


def test_the_plan_says_whose_steps_it_shows(tridiag):
    """The run finds its own, which nobody knows before."""
    sizes = stage("tridiag", "build").plan(tridiag.load(**deck(accuracy=1e-5))).sizes
    assert "steps of the first trial" in sizes
    assert "steps" not in sizes
    assert "steps" in stage("tridiag", "build").plan(tridiag.load(**deck(dt=0.1))).sizes


def in_a_box(rmax, initial, **pulse):
    """A deck of hydrogen whose wall is at rmax."""
    return {
        "task": "atom",
        "atom": "hydrogen",
        "grid": {"rmax": rmax, "dr": 0.15, "l_max": 4},
        "initial": initial,
        "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "cycles": 1, **pulse}]},
        "time": {"dt": 0.1, "verify": True, "outputs": 1},
        "observe": [{"populations": {"nmax": 4}}],
    }


def test_what_a_wall_changes_is_claimed(tridiag):
    """Levels that it shapes, and electrons that it turns back: the numbers of a box three times as wide are within the errors."""
    pulse = {"omega": 0.06, "E0": 0.001}
    near, far = (tridiag.run(**in_a_box(rmax, "3p", **pulse)) for rmax in (28.0, 84.0))
    values, truth = numbers(near), numbers(far)
    for name in ("energy_initial", "population_3p", "population_3d", "population_4p", "bound_population"):
        away = abs(values[name] - truth[name])
        assert away <= near.errors[name] + far.errors[name], name
        assert near.errors[name] < 20.0 * away, name
    # errors that leave the wall out would be far below
    assert far.errors["energy_initial"] < 0.01 * near.errors["energy_initial"]
