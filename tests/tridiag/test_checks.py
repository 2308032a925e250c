"""Every finding of the physics checks of tridiag, provoked, with its message; and none for a sound run."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from qsim.tridiag.deck.electron import Absorber, Grid, Initial, TimeGrid
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.model import Observed, Photoelectron, PropagationBlocks, Solver
from qsim.tridiag.deck.potentials import Potential
from qsim.tridiag.propagate import checks
from qsim.tridiag.propagate.initial import initial_state
from qsim.tridiag.tdse import potentials
from qsim.tridiag.tdse.pulses import LaserField

PULSE = {"shape": "sin2", "wavelength": "800 nm", "intensity": "1e14 W/cm2", "cycles": 2.0}


def findings(
    grid=(-200.0, 200.0, 1001),
    stencil="numerov",
    potential=None,
    initial=None,
    pulses=(),
    gauge="length",
    absorber=None,
    dt=0.1,
    t_final=None,
    photoelectron=None,
    by_steps=False,
):
    """Return the findings for a deck made of these blocks."""
    laser = (
        LaserField(TypeAdapter(Laser).validate_python({"gauge": gauge, "pulses": list(pulses)}))
        if pulses
        else LaserField(None)
    )
    t_final = t_final or (laser.duration if np.isfinite(laser.duration) and pulses else 100.0)
    steps = round(t_final / dt)
    box = Grid(xmin=grid[0], xmax=grid[1], points=grid[2], stencil=stencil)
    blocks = PropagationBlocks(
        grid=box,
        potential=TypeAdapter(Potential).validate_python(potential or {"type": "softcore"}),
        initial=TypeAdapter(Initial).validate_python(initial or {"type": "eigenstate"}),
        laser=None,
        absorber=TypeAdapter(Absorber).validate_python(absorber or {"type": "none"}),
        time=TimeGrid(steps=steps) if by_steps else TimeGrid(dt=dt),
        solver=Solver(),
        observed=Observed(photoelectron=photoelectron),
        spectra=(),
        precision="double",
    )
    outside = list(checks.packet_in_box(blocks))
    if any(finding.severity == "error" for finding in outside):
        return outside
    x = box.xmin + box.dx * np.arange(box.points)
    v = potentials.evaluate(blocks.potential, x)
    psi = initial_state(blocks.initial, x, box.dx, v, stencil)
    setup = checks.Setup(blocks, x, v, laser, t_final / steps, steps, psi)
    return [*outside, *checks.physics(setup)]


def expect(found, key, severity, text):
    """Assert that one of the findings is this."""
    assert any(f.key == key and f.severity == severity and text in f.message for f in found), found


FREE = {"type": "none"}
GOOD_CAP = {"type": "manolopoulos", "kmin": 0.3}


@pytest.mark.parametrize(
    "setup",
    [
        {"pulses": [PULSE], "absorber": GOOD_CAP},
        {"pulses": [PULSE], "absorber": GOOD_CAP, "gauge": "velocity"},
        {"potential": FREE, "initial": {"type": "gaussian", "k0": 1.0, "width": 4.0}},
        {
            "grid": (-10.0, 10.0, 401),
            "potential": {"type": "double_well", "lambda": 0.02, "a": 3.0},
            "initial": {"type": "superposition", "levels": {"0": 1, "1": 1}},
        },
        {
            "grid": (-20.0, 20.0, 401),
            "potential": {"type": "harmonic", "omega": 0.3},
            "pulses": [{"shape": "expression", "value": "0.05*sin(pi*t/T)^2*cos(0.25*t)", "duration": 100.0}],
        },
        {"pulses": [{"shape": "cw", "omega": 0.267, "E0": 0.004}], "t_final": 600.0},
    ],
)
def test_sound_runs_pass(setup):
    assert findings(**setup) == []


CASES = [
    # a packet that is not in the box
    (
        {"potential": FREE, "initial": {"type": "gaussian", "x0": 300.0, "width": 2.0}},
        "initial.x0",
        "error",
        "starts at x0 = 300 bohr, outside of the box [-200, 200]",
    ),
    (
        {"potential": FREE, "initial": {"type": "gaussian", "x0": 190.0, "width": 8.0}},
        "initial.width",
        "error",
        "of the packet lies outside of the box",
    ),
    (
        {"potential": FREE, "initial": {"type": "gaussian", "x0": 190.0, "width": 2.5}},
        "initial.width",
        "warning",
        "of the packet lies outside",
    ),
    # no such state
    (
        {"grid": (-5.0, 5.0, 8), "initial": {"type": "eigenstate", "level": 9}},
        "initial.level",
        "raises",
        "8 grid points have no level 9",
    ),
    # the carrier and the time step
    (
        {"pulses": [{**PULSE, "wavelength": "8 nm"}], "dt": 0.2},
        "time.dt",
        "error",
        "steps per optical cycle do not resolve the field",
    ),
    (
        {"pulses": [{**PULSE, "wavelength": "8 nm"}], "dt": 0.1},
        "time.dt",
        "warning",
        "steps per optical cycle",
    ),
    (
        {"pulses": [{**PULSE, "wavelength": "8 nm"}], "dt": 0.1, "by_steps": True},
        "time.steps",
        "warning",
        "steps per optical cycle",
    ),
    ({"pulses": [PULSE], "dt": 0.6}, "time.dt", "warning", "classical cutoff, Ip + 3.17 Up"),
    (
        {"potential": FREE, "initial": {"type": "gaussian", "k0": 2.5, "width": 4.0}, "dt": 0.7},
        "time.dt",
        "error",
        "the kinetic energy of the packet",
    ),
    (
        {
            "potential": {"type": "harmonic", "omega": 1.0},
            "grid": (-20.0, 20.0, 801),
            "initial": {"type": "eigenstate", "level": 5},
            "dt": 0.2,
        },
        "time.dt",
        "warning",
        "the energy of the initial state (5.5 hartree)",
    ),
    (
        {"potential": {"type": "expression", "value": "x^4"}, "grid": (-20.0, 20.0, 801)},
        "time.dt",
        "warning",
        "the solver loses digits",
    ),
    (
        {"pulses": [{"shape": "static", "E0": 10.0, "duration": 10.0}], "dt": 0.1},
        "time.dt",
        "warning",
        "dt times the largest potential on the grid",
    ),
    # momenta that the grid cannot hold
    (
        {
            "potential": FREE,
            "grid": (-200.0, 200.0, 401),
            "initial": {"type": "gaussian", "k0": 4.0, "width": 4.0},
            "dt": 0.02,
        },
        "grid.points",
        "error",
        "points per wavelength for the packet, |k0| + 1.5 / width",
    ),
    (
        {
            "potential": FREE,
            "grid": (-200.0, 200.0, 401),
            "initial": {"type": "gaussian", "k0": 2.0, "width": 4.0},
        },
        "grid.points",
        "warning",
        "use four or more",
    ),
    ({"pulses": [PULSE], "grid": (-200.0, 200.0, 401)}, "grid.points", "warning", "electrons of 10 Up"),
    (
        {
            "potential": {"type": "gaussian_well", "depth": 20.0, "width": 3.0},
            "grid": (-30.0, 30.0, 121),
            "initial": {"type": "eigenstate", "level": 8},
            "dt": 0.02,
        },
        "grid.points",
        "warning",
        "the initial state at the bottom of the potential",
    ),
    (
        {"pulses": [PULSE], "gauge": "velocity", "stencil": "three_point", "grid": (-200.0, 200.0, 601)},
        "grid.points",
        "warning",
        "A dx reaches 0.543",
    ),
    # the box
    (
        {"pulses": [PULSE], "grid": (-15.0, 15.0, 151)},
        "grid.xmax",
        "error",
        "less than the quiver radius E0/omega^2 = 16.46 bohr",
    ),
    (
        {
            "pulses": [PULSE],
            "grid": (-30.0, 30.0, 301),
            "absorber": {"type": "cap", "width": 14.5, "strength": 0.3},
        },
        "absorber",
        "warning",
        "the absorber begins 15.5 bohr from the initial state, within the quiver radius",
    ),
    ({"grid": (-6.0, 6.0, 121)}, "grid", "warning", "|psi|^2 dx of the initial state at a wall is"),
    # the absorber
    (
        {"absorber": {"type": "cap", "width": 200.0, "strength": 0.1}},
        "absorber.width",
        "error",
        "two strips of 200 bohr leave nothing of a box of 400 bohr",
    ),
    ({"absorber": {"type": "mask", "width": 120.0}}, "absorber.width", "warning", "take 60% of the box"),
    ({"absorber": {"type": "manolopoulos", "kmin": 0.02}}, "absorber.kmin", "error", "leave nothing"),
    (
        {
            "grid": (-30.0, 30.0, 301),
            "absorber": {"type": "cap", "width": 15.0, "strength": 0.1},
            "initial": {"type": "eigenstate", "level": 3},
        },
        "absorber.width",
        "error",
        "of the initial state lies in the absorber",
    ),
    (
        {
            "grid": (-30.0, 30.0, 301),
            "absorber": {"type": "cap", "width": 22.0, "strength": 0.1},
            "initial": {"type": "eigenstate", "level": 1},
        },
        "absorber.width",
        "warning",
        "of the initial state lies in the absorber",
    ),
    (
        {"pulses": [PULSE], "absorber": {"type": "cap", "width": 50.0, "strength": 5e-4}},
        "absorber",
        "warning",
        "electrons of momentum 0.937 a.u. come back with probability 0.9",
    ),
    (
        {
            "potential": FREE,
            "initial": {"type": "gaussian", "k0": 0.1, "width": 12.0},
            "absorber": {"type": "manolopoulos", "kmin": 0.4},
        },
        "absorber",
        "warning",
        "lower kmin",
    ),
    # levels
    (
        {
            "potential": {"type": "poschl_teller", "depth": 1.0},
            "grid": (-40.0, 40.0, 401),
            "initial": {"type": "eigenstate", "level": 2},
        },
        "initial.level",
        "warning",
        "level 2 is a state of the box, not of the potential, which holds bound levels 0 to 0 only",
    ),
    (
        {
            "potential": {"type": "eckart", "V0": 1.0},
            "grid": (-40.0, 40.0, 401),
            "initial": {"type": "superposition", "levels": {"0": 1, "1": 1}},
        },
        "initial.levels",
        "warning",
        "which holds no bound level",
    ),
    # the pulse
    (
        {"pulses": [PULSE], "t_final": 100.0},
        "time.t_final",
        "warning",
        "the run ends at 100 a.u. (2.42 fs), before the last pulse does (220.64 a.u., 5.34 fs)",
    ),
    ({"pulses": [{**PULSE, "cycles": 1.0, "envelope_on": "E"}]}, "laser.pulses", "warning", "light has none"),
    # the photoelectron spectrum
    (
        {"pulses": [PULSE], "photoelectron": Photoelectron(gamma=1e-4)},
        "observe",
        "warning",
        "gamma = 0.0001 hartree resolves the single states of the box",
    ),
]


@pytest.mark.parametrize(
    ("setup", "key", "severity", "text"), CASES, ids=[f"{i}-{c[1]}-{c[2]}" for i, c in enumerate(CASES)]
)
def test_findings(setup, key, severity, text):
    if severity == "raises":
        with pytest.raises(ValueError, match=text) as caught:
            findings(**setup)
        assert caught.value.key == key
    else:
        expect(findings(**setup), key, severity, text)


def test_levels_that_spread_over_too_much_are_findings(monkeypatch, tridiag):
    from qsim.core.deck.load import load_deck
    from qsim.tridiag.deck.model import TridiagDeck
    from qsim.tridiag.propagate import build, eigenstates

    monkeypatch.setattr(eigenstates, "FIRST_WINDOW", 64)
    monkeypatch.setattr(eigenstates, "LARGEST_WINDOW", 256)
    deck = tridiag.write(
        task="propagate",
        grid={"xmin": -60, "xmax": 60, "points": 1201},
        potential={"type": "softcore"},
        initial={"type": "eigenstate", "level": 12},
        time={"dt": 0.1, "t_final": 1.0},
    )
    found = build.plan(load_deck(deck, TridiagDeck)).findings
    expect(found, "initial", "error", "level 12 spreads over more than 256 grid points; it is no bound state")


# ------------------------------------------------------------------------ contradictions within the blocks


@pytest.mark.parametrize(
    ("pulse", "key", "text"),
    [
        (
            {"shape": "sin2", "E0": 0.1, "cycles": 2.0},
            "wavelength",
            "missing key; give one of wavelength, omega",
        ),
        (
            {"shape": "sin2", "omega": 1.0, "cycles": 2.0},
            "intensity",
            "missing key; give one of intensity, E0",
        ),
        ({"shape": "sin2", "omega": 1.0, "E0": 0.1}, "cycles", "give one of cycles, duration, fwhm"),
        (
            {"shape": "sin2", "omega": 1.0, "E0": 0.1, "cycles": 2.0, "fwhm": 3.0},
            "fwhm",
            "not both cycles and fwhm",
        ),
        (
            {"shape": "sin2", "omega": 1.0, "wavelength": "8 nm", "E0": 0.1, "cycles": 2.0},
            "omega",
            "not both wavelength and omega",
        ),
        (
            {"shape": "flat_top", "omega": 1.0, "E0": 0.1, "cycles": 3.0},
            "ramp_cycles",
            "give one of ramp_cycles, ramp",
        ),
        (
            {"shape": "flat_top", "omega": 1.0, "E0": 0.1, "cycles": 3.0, "ramp_cycles": 2.0},
            "",
            "two ramps of 12.5664 a.u. are longer than the whole pulse",
        ),
        (
            {"shape": "flat_top", "omega": 1.0, "E0": 0.1, "flat_cycles": 0.0, "ramp_cycles": 0.0},
            "",
            "the pulse has no length",
        ),
        (
            {"shape": "cw", "omega": 1.0, "E0": 0.1, "cycles": 2.0, "duration": 3.0},
            "cycles",
            "either duration or cycles",
        ),
        ({"shape": "expression", "value": "sin(pi*t/T)"}, "duration", "the formula uses T"),
    ],
)
def test_contradictions_in_pulses(pulse, key, text):
    laser = TypeAdapter(Laser).validate_python({"pulses": [pulse]})
    (found,) = laser.check()
    assert found.key == ".".join(filter(None, ("laser.pulses.0", key)))
    assert text in found.message


def test_contradictions_in_other_blocks():
    (found,) = Grid(xmin=1.0, xmax=0.0, points=10).check()
    assert found.key == "grid.xmin"
    (found,) = Grid(xmin=1e6, xmax=1e6 + 1e-6, points=10).check()
    assert found.key == "grid.xmax"
    (found,) = TimeGrid(t_final=1.0).check()
    assert "give one of dt, steps" in found.message
    (found,) = TimeGrid(dt=2.0, t_final=1.0).check()
    assert "longer than t_final" in found.message
    for levels, text in (
        ({"0": 0.0}, "zero"),
        ({"0": 1.0, "00": 1.0}, "duplicate level"),
        ({"-1": 1.0}, "found '-1'"),
        ({"0": 1e-14, "1": 1.0}, "ordinary size"),
    ):
        state = TypeAdapter(Initial).validate_python({"type": "superposition", "levels": levels})
        (found,) = state.check()
        assert text in found.message


def test_steps():
    assert TimeGrid(dt=0.05).resolve(10.0) == (200, 0.05)
    assert TimeGrid(dt=0.05).resolve(10.0 + 1e-8) == (200, (10.0 + 1e-8) / 200)
    steps, dt = TimeGrid(dt=0.3).resolve(10.0)
    assert (steps, dt) == (34, 10.0 / 34)
    assert TimeGrid(steps=7).resolve(14.0) == (7, 2.0)
