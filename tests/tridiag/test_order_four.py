"""Steps of order 4 and `time.accuracy` of `task: propagate`."""

import copy

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.run.progress import Monitor
from qsim.tridiag.propagate.run import LineEvolution

SMALL = {
    "task": "propagate",
    "grid": {"xmin": -12, "xmax": 12, "points": 81},
    "potential": {"type": "gaussian_well", "depth": 0.8, "width": 1.0},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.5, "E0": 0.06, "cycles": 1}]},
    "observe": [{"populations": 2}],
}
CAP = {"type": "cap", "width": 5, "strength": 0.3}


def time(steps, **more):
    return {"steps": steps, "outputs": 2, "verify": False, "order": 4} | more


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
def test_steps_of_order_four_approach_the_exponential(tridiag, stencil):
    """In a constant field, dense algebra of the same lattice; halving the step takes the error down by 16."""
    laser = {"pulses": [{"shape": "static", "E0": 0.05}]}
    keys = SMALL | {"laser": laser, "grid": SMALL["grid"] | {"stencil": stencil}}
    errors = []
    for steps in (20, 40):
        found = tridiag.run(**keys, time=time(steps, t_final=6.0))
        lattice = found.problem.lattice
        n, dx = lattice.points, lattice.dx
        off = np.eye(n, k=1) + np.eye(n, k=-1)
        kinetic = (2.0 * np.eye(n) - off) / (2.0 * dx**2)
        if stencil == "numerov":
            kinetic = np.linalg.solve((10.0 * np.eye(n) + off) / 12.0, kinetic)
        h = kinetic + np.diag(lattice.potential + 0.05 * lattice.x)
        exact = expm(-6j * h) @ found.problem.psi0
        errors.append(float(np.linalg.norm(found.psi - exact) * dx**0.5))
    assert errors[1] < 1e-5
    assert 12.0 < errors[0] / errors[1] < 20.0


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_order_in_a_pulse(tridiag, gauge):
    """Populations in a field that changes within a step: of order 4; a hundred times better than order 2 beside an absorber."""
    keys = SMALL | {"laser": SMALL["laser"] | {"gauge": gauge}}
    errors = {}
    for name, absorber in (("none", {"type": "none"}), ("cap", CAP)):
        fine = tridiag.run(**keys, absorber=absorber, time=time(1280)).frames["populations"][-1]
        for steps, order in ((80, 4), (160, 4), (160, 2)):
            run = tridiag.run(**keys, absorber=absorber, time=time(steps, order=order))
            errors[name, steps, order] = np.abs(run.frames["populations"][-1] - fine).max()
    assert 13.0 < errors["none", 80, 4] / errors["none", 160, 4] < 20.0
    for name in ("none", "cap"):
        assert errors[name, 160, 4] < 0.01 * errors[name, 160, 2]


@pytest.mark.parametrize(
    "solver",
    [
        {"type": "thomas"},
        {"type": "lapack"},
        {"type": "woodbury", "blocks": 4},
        {"blocks": 5},
        {"mode": "exact"},
    ],
)
def test_all_solvers_make_the_stages(tridiag, solver):
    keys = SMALL | {"absorber": CAP, "time": time(30)}
    whole, other = tridiag.run(**keys), tridiag.run(**keys, solver=solver)
    np.testing.assert_allclose(other.psi, whole.psi, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.trace, whole.trace, rtol=0, atol=1e-12)


def test_chunks_and_single_precision(tridiag):
    """Chunks with halos, chosen for the longest stage, are the whole grid to their tolerance; single precision has six digits."""
    keys = SMALL | {"grid": {"xmin": -300, "xmax": 300, "points": 3001}, "absorber": CAP, "time": time(40)}
    whole = tridiag.run(**keys, solver={"mode": "exact"})
    chunks = tridiag.run(**keys, solver={"mode": "local"})
    assert whole.info["blocks"] == 1 < chunks.info["blocks"]
    assert chunks.info["algorithm"] == "nshape-local, order 4"
    np.testing.assert_allclose(chunks.psi, whole.psi, rtol=0, atol=1e-11)
    single = tridiag.run(**keys, run={"precision": "single"})
    np.testing.assert_allclose(single.psi, whole.psi, rtol=0, atol=2e-5)


def test_a_stopped_run_of_order_four_goes_on_bit_for_bit(tridiag):
    keys = SMALL | {"absorber": CAP, "time": time(31, outputs=3)}
    whole, saved = LineEvolution(tridiag.build(**keys)), []
    whole.advance(lambda progress: saved.append(copy.deepcopy(whole.state())))
    again = LineEvolution(whole.problem, saved[0])
    again.advance(lambda progress: None)
    assert np.array_equal(again.result().psi, whole.result().psi)
    assert np.array_equal(again.result().trace, whole.result().trace)


@pytest.mark.parametrize(("order", "accuracy"), [(2, 1e-4), (4, 1e-7)])
def test_a_run_finds_its_step(tridiag, order, accuracy):
    """Its populations and norms lie within the accuracy of those of steps so short that they leave nothing."""
    keys = SMALL | {"absorber": CAP, "observe": ["ionisation", {"populations": 2}, {"norm_within": [4.0]}]}
    monitor = Monitor.silent()
    found = tridiag.run(
        monitor, **keys, time={"accuracy": accuracy, "order": order, "outputs": 2, "verify": True}
    )
    fine = tridiag.run(**keys, time=time(2500))
    for name in ("populations", "bound", "norm", "norm_within"):
        assert np.abs(found.frames[name][-1] - fine.frames[name][-1]).max() <= accuracy, name
    assert not any("time.accuracy" in text for text in monitor.warnings)
    # and is no waste: twice the step leaves more than a hundredth of it
    coarse = tridiag.run(**keys, time=time(found.problem.steps // 2, order=order))
    assert np.abs(coarse.frames["populations"][-1] - fine.frames["populations"][-1]).max() > 0.01 * accuracy


MISTAKES = {
    "mask and order": (
        {"absorber": {"type": "mask", "width": 4}, "time": time(10)},
        r"time\.order: a mask depends on the step",
    ),
    "mask and accuracy": (
        {"absorber": {"type": "mask", "width": 4}, "time": {"accuracy": 1e-4}},
        r"time\.accuracy: a mask depends on the step",
    ),
    "steps and accuracy": (
        {"time": {"steps": 10, "accuracy": 1e-4}},
        r"time\.accuracy: give one of dt, steps, accuracy, not both steps and accuracy",
    ),
    "scan and accuracy": (
        {"time": {"accuracy": 1e-4}, "scan": {"cep": [0.0, 1.0]}},
        r"time\.accuracy: the runs of a scan take the same steps",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tridiag, name):
    changes, message = MISTAKES[name]
    tridiag.refuses(message, **{**SMALL, **changes})
