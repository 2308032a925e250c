"""Steps of two coordinates on a GPU are those on a CPU, but for rounding: potentials, fields, absorbers, order 4, stops."""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeviceError
from qsim.tridiag.kernels.plane.steps import cut, pair
from qsim.tridiag.plane.cuda import PASSES, CudaPlanePropagator
from qsim.tridiag.plane.lattice import Axis, PlaneLattice, RadialAxis
from qsim.tridiag.plane.motion import PlaneEvolution
from qsim.tridiag.plane.propagator import PlanePropagator, stage_times

# of a few hundred operations per point, in states and sums of norm 1
ROUNDING = 1e-12


def test_windows_hold_their_halos():
    """Windows cover the line, and a block holds one with both halos; what lies beyond is 1e-16 of two filters."""
    for points in (1, 31, 450, 8192, 100_001):
        for s in (0.3, 1.0, 5.0, 200.0):
            one = Axis(0.0, 1.0, points).step(2.0 * s)
            decay = one.decay
            found = cut(points, decay, 8)
            assert found.windows * found.window >= points > (found.windows - 1) * found.window
            assert found.window + 2 * found.halo <= found.span
            assert found.halo % 2 == 0
            assert found.window % 8 == 0
            assert (2.0 + found.halo) * np.exp(-decay * found.halo) < 1.1e-16
    with pytest.raises(DeviceError, match="felt over"):
        cut(100, 1e-3, 8)


def test_constants_of_the_kernel():
    """A filter of no step changes nothing; beta is taken out of both."""
    from qsim.tridiag.kernels.plane.records import NO_STEP

    one = Axis(0.0, 0.25, 50).step(0.05)
    turn, _, alpha, beta = one.numbers[0]
    constants, reach, scale = pair(NO_STEP, one, 8)
    assert constants.view(complex) == pytest.approx([0.0, -1.0, 0.0, turn, alpha / beta, turn**8])
    assert scale == pytest.approx(beta)
    assert reach[0] == 0
    assert abs(turn) ** (8 * reach[1]) <= 1e-17 < abs(turn) ** (8 * (reach[1] - 1))


def compared(device, shape, *, h=0.25, dt=0.05, order=2, steps=3, stencil="numerov", **kinds):
    """Largest differences of state, losses and sums after three calls."""
    rng = np.random.default_rng(4)
    axes = tuple(
        Axis(-0.5 * h * (n + 1), h, n, mass, stencil) for n, mass in zip(shape, (1.0, 1.7), strict=True)
    )
    if kinds.get("radial"):
        axes = (RadialAxis(0.0, h, shape[0], 1.0, stencil), axes[1])
    table = rng.standard_normal(shape) if kinds.get("table") else None
    between = rng.standard_normal(sum(shape) - 1) if kinds.get("between") else None
    gamma = tuple(
        (np.abs(a.x) > 0.5 * a.high) * a.x**2 / a.high**2 * bool(kinds.get("absorber")) for a in axes
    )
    own = [rng.standard_normal(n) for n in shape]
    gauge = kinds.get("gauge", (0.0, 0.0))
    lattice = PlaneLattice(axes, own[0], own[1], between, table, gamma, 0, kinds.get("g", 0.0), gauge)
    psi = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    psi /= np.linalg.norm(psi) * h
    inside = tuple(rng.uniform(0, 1, n) for n in shape)
    _, lengths = stage_times(3 * steps, dt, order, turns=lattice.turns)
    actions = np.array([[0.1], [0.2]]) * lengths * rng.standard_normal((2, lengths.size))
    if not kinds.get("field"):
        actions[:] = 0.0
    common = (lattice, psi, dt, order, actions, inside)
    one = PlanePropagator(*common)
    other = CudaPlanePropagator(*common, device, single=kinds.get("single", False))
    for _ in range(3):
        for made in (one, other):
            made.advance(steps)
    weights = rng.standard_normal((2, *shape))
    found = [np.abs(one.psi - other.psi).max() * h, np.abs(one.lost - other.lost).max()]
    pairs = zip(one.marginals(weights), other.marginals(weights), strict=True)
    assert (one.lost.sum() > 0.0) == bool(kinds.get("absorber"))
    return max(*found, *(float(np.abs(a - b).max()) for a, b in pairs))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1, 31), (32, 33), (200, 40), (17, 1500), (1500, 19)])
@pytest.mark.parametrize(
    "kinds",
    [
        {},
        {"between": True, "field": True, "absorber": True},
        {"table": True, "field": True},
        {"table": True, "absorber": True},
        {"table": True, "g": 5.0},
        {"table": True, "absorber": True, "field": True, "radial": True},
        {"table": True, "g": 5.0, "gauge": (0.7, 0.7)},
        {"gauge": (-0.4, 0.2), "absorber": True, "field": True},
    ],
    ids=["free", "pair", "particle", "lossy table", "condensate", "cylinder", "rotation", "magnetic field"],
)
def test_steps(cuda, shape, kinds):
    assert compared(cuda, shape, **kinds) < ROUNDING


@pytest.mark.gpu
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize(("h", "dt"), [(0.25, 0.05), (0.1, 0.3), (0.03, 0.3)])
@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
def test_halos(cuda, order, h, dt, stencil):
    """Steps that are felt over 28 to 700 points: blocks of four lines, of two and of one."""
    kinds = {"between": True, "absorber": True, "field": True}
    assert compared(cuda, (700, 41), h=h, dt=dt, order=order, stencil=stencil, **kinds) < ROUNDING


@pytest.mark.gpu
@pytest.mark.parametrize("steps", [PASSES - 1, PASSES, 3 * PASSES])
@pytest.mark.parametrize("field", [False, True])
def test_recorded_passes(cuda, steps, field):
    """Groups of passes that come again are replayed."""
    assert compared(cuda, (40, 33), steps=steps, between=True, absorber=True, field=field) < 10 * ROUNDING


@pytest.mark.gpu
def test_single_precision(cuda):
    assert compared(cuda, (300, 41), between=True, absorber=True, field=True, single=True) < 1e-5


PULSE = {"shape": "sin2", "omega": 0.7, "E0": 0.2, "cycles": 1}
PAIR = {
    "task": "plane",
    "system": {
        "type": "electrons",
        "potential": {"type": "softcore", "Z": 2, "a2": 1.0},
        "repulsion": {"type": "softcore", "Z": -1, "a2": 1.0},
    },
    "grid": {"x": {"xmin": -16, "xmax": 16, "points": 81}},
    "laser": {"pulses": [PULSE]},
    "absorber": {"type": "cap", "width": 5, "strength": 0.5},
    "time": {"dt": 0.1, "outputs": 4, "verify": False},
    "observe": [{"regions": {"radius": 8}}, {"populations": {"levels": 2}}, "entanglement"],
}
ION = PAIR | {
    "system": {"type": "vibrating_ion", "masses": [40.0, 60.0]},
    "grid": {"R": {"xmin": 0.5, "xmax": 12, "points": 60}, "x": {"xmin": -10, "xmax": 10, "points": 60}},
    "observe": [{"ker": {"R": 6}}, {"boxes": {"right": {"x": [0, 10]}}}],
}
PLANE = PAIR | {
    "system": {"type": "particle", "potential": {"type": "softcore", "Z": 1, "a2": 0.64}},
    "laser": {"pulses": [PULSE], "polarization": "circular"},
    "observe": [{"norm_within": [5]}, {"density": {"maps": 3, "currents": True}}],
    "time": {"dt": 0.1, "outputs": 4, "order": 4, "verify": False},
}
TRAP = {
    "task": "plane",
    "system": {"type": "condensate", "potential": {"type": "harmonic", "omega": [1.0, 1.2]}, "g": 20.0},
    "grid": {"x": {"xmin": -7, "xmax": 7, "points": 57}},
    "initial": {"type": "eigenstate", "potential": {"type": "harmonic", "omega": [1.2, 1.0]}},
    "time": {"dt": 0.02, "t_final": 1.0, "outputs": 4, "verify": False},
}
CYLINDER = PAIR | {
    "system": {"type": "cylinder", "centers": [{"Z": 1, "z": -1.0, "a2": 0.3}, {"Z": 1, "z": 1.0}]},
    "grid": {"rho": {"xmin": 0, "xmax": 8, "points": 33}, "z": {"xmin": -12, "xmax": 12, "points": 80}},
    "absorber": {"type": "cap", "width": 3, "strength": 0.5},
    "observe": [{"boxes": {"right": {"z": [0, 10]}}}],
}
SPIN = TRAP | {"system": TRAP["system"] | {"rotation": 0.5}}
DECKS = {
    "rotation": SPIN,
    "electrons": PAIR,
    "ion": ION,
    "particle": PLANE,
    "condensate": TRAP,
    "cylinder": CYLINDER,
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", DECKS)
def test_runs(tridiag, cuda, name):
    """What is recorded is that of a CPU, and a run that is continued on either device is the run that was not stopped."""
    runs = [PlaneEvolution(tridiag.build(device, **DECKS[name])) for device in (cuda, cpu(1))]
    saved = []
    for run in runs:
        run.advance(lambda progress, run=run: saved.append(run.state()))
    one, other = (run.result() for run in runs)
    np.testing.assert_allclose(one.psi, other.psi, rtol=0, atol=10 * ROUNDING)
    np.testing.assert_allclose(one.trace, other.trace, rtol=0, atol=100 * ROUNDING)
    for key, values in other.frames.items():
        np.testing.assert_allclose(one.frames[key], values, rtol=0, atol=100 * ROUNDING, err_msg=key)
    rest = PlaneEvolution(tridiag.build(cuda, **DECKS[name]), saved[1])
    rest.advance(lambda progress: None)
    assert np.array_equal(rest.result().psi, one.psi)
    assert np.array_equal(rest.result().trace, one.trace)
