"""Runs of atoms on a GPU are those on a CPU, but for rounding: fields, absorbers, order 4, channels that grow, scans, stops."""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.run.progress import Monitor
from qsim.tridiag import build
from qsim.tridiag.atom.evolution import cuda as evolution
from qsim.tridiag.atom.evolution.cuda import CudaBatch, Stepping
from qsim.tridiag.atom.run import AtomEvolution
from qsim.tridiag.kernels.atom.cuda_tables import marching, shape
from qsim.tridiag.tdse.scan.run import _Batch, run_scan

ROUNDING = 1e-11  # of a few hundred operations per point, in states and sums of norm 1

PULSE = {"shape": "sin2", "omega": 0.7, "E0": 0.1, "cycles": 2, "cep": 0.3}
SMALL = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 25, "dr": 0.35, "l_max": 3, "map": {"dr0": 0.1, "width": 20}},
    "laser": {"gauge": "length", "pulses": [PULSE]},
    "time": {"steps": 24, "outputs": 3, "verify": False},
}
CAP = {"type": "cap", "width": 8, "strength": 0.3}
STEPS = {"steps": 20, "outputs": 3, "verify": False}


def laser(pulse=PULSE, **keys):
    return {"gauge": "length", "pulses": [pulse]} | keys


KINDS = {
    "length": {},
    "cap": {"absorber": CAP},
    "mask": {"absorber": {"type": "mask", "width": 8}},
    "order 4": {"time": STEPS | {"order": 4}, "laser": laser(PULSE | {"cycles": 1}), "absorber": CAP},
    "velocity": {"laser": laser(gauge="velocity")},
    "velocity, dense core": {
        "laser": laser(PULSE | {"E0": 0.4, "cycles": 1}, gauge="velocity"),
        "grid": {"rmax": 20, "dr": 0.3, "l_max": 6, "map": {"dr0": 0.05, "width": 15}},
        "time": STEPS,
    },
    "velocity, order 4": {
        "laser": laser(PULSE | {"cycles": 1}, gauge="velocity"),
        "time": STEPS | {"order": 4},
    },
    "velocity, circular": {
        "laser": laser(gauge="velocity", polarization={"type": "circular", "handedness": "left"})
    },
    "other m": {"initial": {"n": 2, "l": 1, "m": 1}},
    "circular": {"laser": laser(polarization={"type": "circular", "handedness": "left"})},
    "x": {
        "laser": laser(polarization={"type": "linear", "direction": [1, 0, 1]}),
        "initial": {"n": 2, "l": 1, "m": 1},
    },
    "flux": {
        "absorber": CAP,
        "spectra": [{"method": "tsurff", "radius": 12, "energy": [0.1, 0.8], "points": 5}],
    },
}


def compare(one, other):
    """All that a run records."""
    assert one.lanes == other.lanes
    assert one.lost == pytest.approx(other.lost, rel=1e-6)
    np.testing.assert_allclose(one.phi, other.phi, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(one.trace, other.trace, rtol=0, atol=ROUNDING * np.abs(other.trace).max())
    np.testing.assert_allclose(one.flux, other.flux, rtol=0, atol=ROUNDING)
    for name, values in other.frames.items():
        np.testing.assert_allclose(one.frames[name], values, rtol=0, atol=ROUNDING, err_msg=name)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_run(tridiag, cuda, kind):
    results = []
    for device in (cuda, cpu(1)):
        problem = tridiag.build(device, **SMALL | KINDS[kind])
        assert problem.on_cuda == device.is_cuda
        run = AtomEvolution(problem)
        run.advance(lambda progress: None)
        results.append(run.result())
    compare(*results)


@pytest.fixture
def marches(monkeypatch):
    """Runs along z are made by the kernels of large states, in chunks of a few rows."""

    def found(points, lanes, members, processors, shared, **keys):
        along = keys.get("warps", True)
        return (
            marching(points, lanes, members, 1)
            if along
            else shape(points, lanes, members, processors, shared, **keys)
        )

    monkeypatch.setattr(evolution, "shape", found)


ALONG = [kind for kind in KINDS if kind not in ("circular", "velocity, circular", "x")]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ALONG)
def test_a_large_run(marches, tridiag, cuda, kind):
    test_a_run(tridiag, cuda, kind)


@pytest.mark.gpu
def test_a_large_run_that_stops(marches, tridiag, cuda):
    test_a_stop(tridiag, cuda)


@pytest.mark.gpu
@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_large_members(marches, tridiag, cuda, gauge):
    test_a_scan(tridiag, cuda, SMALL | {"laser": laser(gauge=gauge)})


@pytest.mark.gpu
def test_a_stop(tridiag, cuda):
    """A run that is continued, on either device, is the run that was not stopped."""
    problem = tridiag.build(cuda, **SMALL)
    whole = AtomEvolution(problem)
    saved = []
    whole.advance(lambda progress: saved.append(whole.state()))
    assert len(saved) == 3
    for device, rounding in ((cuda, 0.0), (cpu(1), ROUNDING)):
        rest = AtomEvolution(tridiag.build(device, **SMALL), saved[1])
        rest.advance(lambda progress: None)
        np.testing.assert_allclose(rest.result().phi, whole.result().phi, rtol=0, atol=rounding)
        np.testing.assert_allclose(rest.result().trace, whole.result().trace, rtol=0, atol=10 * rounding)


GROWING = SMALL | {
    "grid": SMALL["grid"] | {"l_max": "auto"},
    "laser": {"gauge": "length", "pulses": [PULSE | {"E0": 0.5}]},
    "time": {"steps": 24, "outputs": 4, "verify": False},
}


@pytest.mark.gpu
def test_channels_that_grow(tridiag, cuda):
    runs = [AtomEvolution(tridiag.build(device, **GROWING)) for device in (cuda, cpu(1))]
    begun = runs[0].propagator.lanes.lmax
    for run in runs:
        run.advance(lambda progress: None)
    assert runs[0].propagator.lanes.lmax > begun
    compare(runs[0].result(), runs[1].result())


WIDENING = SMALL | {
    "grid": {"dr": 0.5, "l_max": 2, "map": {"dr0": 0.1, "width": 20}},
    "laser": {"gauge": "length", "pulses": [PULSE | {"omega": 0.9, "cycles": 8}]},
    "time": {"steps": 80, "outputs": 3, "verify": False, "coarse": "warn"},
    "observe": [{"populations": {"nmax": 1}}],
}


@pytest.mark.gpu
def test_a_box_that_grows(tridiag, cuda):
    runs = [AtomEvolution(tridiag.build(device, **WIDENING)) for device in (cuda, cpu(1))]
    begun = runs[0].propagator.lattice.grid.points
    saved = []
    runs[0].advance(lambda progress: saved.append(runs[0].state()))
    runs[1].advance(lambda progress: None)
    assert runs[0].propagator.lattice.grid.points > begun
    compare(runs[0].result(), runs[1].result())
    rest = AtomEvolution(tridiag.build(cuda, **WIDENING), saved[-2])
    rest.advance(lambda progress: None)
    np.testing.assert_array_equal(rest.result().phi, runs[0].result().phi)


@pytest.mark.gpu
@pytest.mark.parametrize("deck", [SMALL, GROWING, WIDENING], ids=["steady", "growing", "widening"])
def test_a_scan(tridiag, cuda, deck):
    """One batch; where channels of some runs grow, one batch for each number of channels."""
    scan = {"intensity": [1e-6, 0.25, 0.01]}
    found = [
        run_scan(tridiag.build(device, **deck, scan=scan), Monitor.silent()) for device in (cuda, cpu(1))
    ]
    for one, other in zip(found[0].runs, found[1].runs, strict=True):
        compare(one, other)


@pytest.mark.gpu
def test_a_scan_that_is_continued(tridiag, cuda):
    problem = tridiag.build(cuda, **GROWING, scan={"intensity": [1e-6, 0.25]})
    whole, saved = _Batch(problem, None), []
    whole.advance(lambda progress: saved.append(whole.state()))
    rest = _Batch(problem, saved[1])
    rest.advance(lambda progress: None)
    for one, other in zip(rest.runs, whole.runs, strict=True):
        assert one.propagator.lanes == other.propagator.lanes
        np.testing.assert_allclose(one.propagator.phi, other.propagator.phi, rtol=0, atol=ROUNDING)


def test_what_a_gpu_does_not_do(tridiag):
    """`auto` leaves it to the CPU; the plan says why."""
    assert build.plan(tridiag.load(**SMALL)).cpu_only == ""
    wide = SMALL | {"laser": laser(polarization={"type": "circular", "handedness": "left"})}
    wide |= {"grid": SMALL["grid"] | {"l_max": 55}}
    assert build.plan(tridiag.load(**wide)).cpu_only == "task: atom with 1624 channels, more than 1400"


@pytest.mark.parametrize("kind", ["length", "velocity", "order 4", "circular"])
@pytest.mark.parametrize("members", [1, 3])
def test_the_memory_that_is_planned(tridiag, kind, members):
    """Arrays of a batch on a pretended device are within the plan's; a single run may have a companion."""
    deck = SMALL | KINDS[kind] | ({"scan": {"cep": [0.0, 1.0, 2.0]}} if members > 1 else {})
    deck |= {"grid": {"rmax": 300, "dr": 0.2, "l_max": 6}}
    memory = build.plan(tridiag.load(**deck)).memory
    problem = tridiag.build(**deck)
    one = problem.runs[0] if members > 1 else problem
    lanes = one.frame.lanes(one.setting.lmax)
    phi = [one.state(one.lattice, lanes)] * members
    how = Stepping(one.setting.dt, one.velocity, one.order, one.setting.parts)
    cut = shape(one.lattice.grid.points, 2 * lanes.pairs, members, 132, 232_448)
    batch = CudaBatch(cpu(1), one.lattice, lanes, phi, [one.field()] * members, how, found=cut)
    planned = memory.device + memory.on_gpu
    assert batch.nbytes < planned / (2 if members == 1 else 1)
    assert batch.nbytes > 0.3 * planned
