"""Scans of `task: propagate` over numbers of a pulse and of the potential; the ionisation of a line, and its focal average."""

import copy

import numpy as np
import pytest
from scipy.fft import dst

from qsim.core.device.device import cpu
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method
from qsim.tridiag.tdse.scan.run import _Batch, run_scan

PULSE = {"shape": "sin2", "omega": 0.6, "E0": 0.05, "cycles": 2}
SMALL = {
    "task": "propagate",
    "grid": {"xmin": -25, "xmax": 25, "points": 201},
    "potential": {"type": "gaussian_well", "depth": 0.8, "width": 1.0},
    "laser": {"gauge": "length", "pulses": [PULSE]},
    "absorber": {"type": "cap", "width": 6, "strength": 0.2},
    "time": {"dt": 0.1, "outputs": 3, "verify": False},
}


def exact(depth, laser, width=1.0, dt=0.01, sines=255):
    """Return norm and bound population by Strang steps in the sines between the walls, with a midpoint field."""
    x = -25.0 + 50.0 / (sines + 1) * np.arange(1, sines + 1)
    k = np.pi * np.arange(1, sines + 1) / 50.0
    v = -depth * np.exp(-0.5 * (x / width) ** 2)
    s = dst(np.eye(sines), type=1, axis=0, norm="ortho")
    levels, states = np.linalg.eigh(s @ (0.5 * k[:, None] ** 2 * s) + np.diag(v))
    omega, length = laser["omega"], 2.0 * np.pi * laser["cycles"] / laser["omega"]
    steps = round(length / dt)
    h = length / steps
    w = 0.2 * np.maximum((np.abs(x) - 19.0) / 6.0, 0.0) ** 2
    psi, half = states[:, 0] + 0j, np.exp(-0.5 * h * (1j * v + w))
    for t in (np.arange(steps) + 0.5) * h - 0.5 * length:
        # E = -dA/dt, A = E0 / omega cos^2(pi t / length) sin(omega t)
        c, phase = np.pi * t / length, omega * t + laser.get("cep", 0.0)
        slope = -np.pi / length * np.sin(2.0 * c) * np.sin(phase) + omega * np.cos(c) ** 2 * np.cos(phase)
        kick = half * np.exp(0.5j * h * x * laser["E0"] / omega * slope)
        psi = kick * dst(
            np.exp(-0.5j * h * k**2) * dst(kick * psi, type=1, norm="ortho"), type=1, norm="ortho"
        )
    return {
        "norm_final": float(np.sum(np.abs(psi) ** 2)),
        "bound_population": float(np.sum(np.abs(states[:, levels < 0.0].T @ psi) ** 2)),
        "population_0": float(np.abs(states[:, 0] @ psi) ** 2),
    }


def test_a_scan_is_its_runs(tridiag):
    """Every run of a scan is, bit for bit, the run of its own deck on one thread; the first key changes slowest."""
    scan = {"E0": [0.02, 0.05], "cycles": [2, 2.0], "potential": {"depth": [0.5, "0.8 hartree"], "x0": [0.1]}}
    batch = tridiag.run(device=cpu(2), **SMALL, scan=scan)
    assert batch.problem.values["potential.depth"] == [0.5, 0.8] * 4
    assert batch.problem.values["E0"] == [0.02] * 4 + [0.05] * 4
    for k in (0, 1, 6):
        values = {key: one[k] for key, one in batch.problem.values.items()}
        keys = SMALL | {
            "laser": {"gauge": "length", "pulses": [PULSE | {"E0": values["E0"]}]},
            "potential": SMALL["potential"] | {"depth": values["potential.depth"], "x0": 0.1},
            "observe": ["ionisation"],
        }
        alone = tridiag.run(**keys)
        assert np.array_equal(alone.psi, batch.runs[k].psi)
        assert np.array_equal(alone.trace, batch.runs[k].trace)
        assert batch.each()["bound_population"][k] == float(alone.frames["bound"][-1])
    names = set(Method("tridiag").arrays(batch))
    assert {"scan_potential_depth", "scan_E0", "run_continuum_population"} <= names


def test_threads_and_stops(tridiag):
    """Two runs at a time give the bits of one; a scan that was stopped goes on to the same bits."""
    scan = {"delay": [0.0, 3.0, 6.0]}
    problem = tridiag.build(cpu(2), **SMALL, scan=scan)
    both = run_scan(problem, Monitor.silent())
    whole, saved = _Batch(tridiag.build(**SMALL, scan=scan), None), []
    whole.advance(lambda progress: saved.append(copy.deepcopy(whole.state())))
    again = _Batch(whole.problem, saved[1])
    again.advance(lambda progress: None)
    for a, b, c in zip(both.runs, whole.runs, again.runs, strict=True):
        assert np.array_equal(a.psi, b.result().psi)
        assert np.array_equal(a.psi, c.result().psi)
        assert np.array_equal(a.trace, c.result().trace)


@pytest.mark.parametrize(
    "scan",
    [
        {"intensity": [2e-4, 9e-4, 4e-3], "focal_average": {"dimensions": 2}},
        {"omega": [0.5, 0.7], "potential": {"depth": [0.6, 1.1]}},
    ],
    ids=["focus", "omega and depth"],
)
def test_errors_of_a_scan_hold(tridiag, scan):
    """Each number of each run lies within its error of a spectral solution."""
    keys = SMALL | {"time": {"dt": 0.1, "outputs": 1, "verify": True}, "observe": [{"populations": 1}]}
    found = tridiag.run(**keys, scan=scan)
    errors, values = found.each_error(), found.problem.values
    assert {"norm_final", "bound_population", "continuum_population", "population_0"} <= set(errors)
    truth = []
    for k in range(len(found.runs)):
        laser = PULSE | {key: one[k] for key, one in values.items() if key == "omega"}
        laser["E0"] = values["intensity"][k] ** 0.5 if "intensity" in values else laser["E0"]
        truth.append(exact(values.get("potential.depth", [0.8] * 9)[k], laser, dt=0.005))
        if "omega" in values:
            # all runs go on to the end of the longest: freely, with what the absorber takes
            assert found.runs[k].problem.t_final == pytest.approx(2 * np.pi * 2 / 0.5)
    for name in ("bound_population", "population_0", "norm_final"):
        if name == "norm_final" and "omega" in values:
            continue
        apart = np.abs(found.each()[name] - [one[name] for one in truth])
        assert (apart <= errors[name] + 3e-8).all(), (name, apart, errors[name])
        assert errors[name].max() < 1e-3
    if "intensity" in values:
        assert found.focal["focal_yield"][-1] == pytest.approx(
            0.5 * found.each()["continuum_population"][-1], rel=0.2
        )
        assert (found.focal["focal_yield_error"] > 0.0).all()


def test_ionisation_counts_all_levels_below_the_threshold(tridiag):
    """Its population at all times is that of the levels one by one; without a field nothing moves."""
    keys = SMALL | {"potential": {"type": "softcore"}, "absorber": {"type": "none"}}
    many = tridiag.run(**keys, observe=["ionisation", {"populations": 30}])
    below = many.problem.energies < 0.0
    assert below.sum() == many.problem.bound
    found = (many.frames["populations"] @ below[:30]).astype(float)
    assert many.frames["bound"] == pytest.approx(found, abs=1e-13)
    scalars = Method("tridiag").scalars(many)
    assert scalars["continuum_population"].value == pytest.approx(1.0 - found[-1], abs=1e-13)
    alone = tridiag.run(**keys, observe=["ionisation"])
    assert alone.frames["bound"] == pytest.approx(found, abs=1e-13)
    assert "populations" not in alone.frames
    still = tridiag.run(
        **(keys | {"laser": None, "time": {"dt": 0.1, "t_final": 2.0}}), observe=["ionisation"]
    )
    assert still.frames["bound"] == pytest.approx(1.0, abs=1e-12)


MISTAKES = {
    "nothing": (
        {"scan": {}},
        r"scan: nothing is scanned; give intensity, cep or delay, or numbers of the potential",
    ),
    "no such number": (
        {"scan": {"potential": {"omega": [1.0]}}},
        r"scan\.potential\.omega: omega is no number of the potential; its numbers are depth, width, x0",
    ),
    "unit": ({"scan": {"potential": {"width": ["1 eV"]}}}, r"scan\.potential\.width\.0: .*energy.*length"),
    "range": (
        {"scan": {"potential": {"width": [1.0, -1.0]}}},
        r"scan\.potential\.width\.1: .*greater than 0",
    ),
    "no laser": (
        {"laser": None, "scan": {"E0": [0.1]}, "time": {"dt": 0.1, "t_final": 1.0}},
        r"scan: .*no laser",
    ),
    "instead": ({"scan": {"omega": [0.5], "wavelength": ["800 nm"]}}, r"scan: give one of omega, wavelength"),
    "no such pulse number": (
        {
            "laser": {"pulses": [{"shape": "static", "E0": 0.01}]},
            "scan": {"cycles": [1.0]},
            "time": {"dt": 0.1, "t_final": 5.0},
        },
        r"scan\.cycles: pulse 0 \(static\) has no cycles",
    ),
    "focus of a potential": (
        {"scan": {"intensity": [1e-4, 2e-4, 3e-4], "potential": {"depth": [1.0]}, "focal_average": {}}},
        r"scan\.focal_average: .*intensity alone",
    ),
    "confined": (
        {"potential": {"type": "harmonic", "omega": 0.3}, "observe": ["ionisation"]},
        r"observe\.0\.ionisation: the potential confines the electron: nothing is ionised",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tridiag, name):
    changes, message = MISTAKES[name]
    tridiag.refuses(message, **{**SMALL, **changes})


def test_a_scan_of_the_potential_tells_what_the_pulse_ionises(tridiag):
    deck = {**copy.deepcopy(SMALL), "scan": {"potential": {"depth": [0.6, 0.9]}}}
    found = tridiag.run(**deck).each()["continuum_population"]
    known = [1.0 - exact(depth, PULSE)["bound_population"] for depth in (0.6, 0.9)]
    # a step of 0.1 and a spacing of 0.25 bohr
    np.testing.assert_allclose(found, known, rtol=0.05)


def test_a_focus_of_a_confined_electron_is_refused(tridiag):
    keys = SMALL | {"potential": {"type": "harmonic", "omega": 0.3}}
    scan = {"intensity": [1e-6, 2e-6, 4e-6], "focal_average": {}}
    with pytest.raises(Exception, match=r"scan\.focal_average: nothing is ionised"):
        tridiag.build(**keys, scan=scan)


def test_an_atom_of_another_charge(tridiag):
    """A scan of `task: atom` over the charge of the nucleus: each run is that of its own deck, to the bit."""
    keys = {
        "task": "atom",
        "atom": {"type": "hydrogenic", "Z": 1.0},
        "grid": {"rmax": 40, "dr": 0.4, "l_max": 3, "map": {"dr0": 0.1, "width": 30}},
        "laser": {"gauge": "length", "pulses": [PULSE]},
        "time": {"dt": 0.1, "outputs": 2, "verify": False},
    }
    scan = {"atom": {"Z": [1.0, 1.2]}, "omega": [0.6, 0.7]}
    found = tridiag.run(**keys, scan=scan)
    assert found.problem.values == {"omega": [0.6, 0.6, 0.7, 0.7], "atom.Z": [1.0, 1.2, 1.0, 1.2]}
    for k in (0, 1):
        alone = tridiag.run(**keys | {"atom": {"type": "hydrogenic", "Z": [1.0, 1.2][k]}})
        # run k ends with the longest pulse, as the deck alone does
        assert np.array_equal(alone.phi, found.runs[k].phi)
    names = set(Method("tridiag").arrays(found))
    assert {"scan_atom_Z", "scan_omega", "run_continuum_population"} <= names
