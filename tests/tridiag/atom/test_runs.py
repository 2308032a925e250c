"""Runs of `task: atom` that are interrupted, grow, are absorbed, start from superpositions; claimed errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from qsim.core.run.loop import Progress
from qsim.core.run.stages import Method
from qsim.tridiag.atom.run import AtomEvolution

arrays = Method("tridiag").arrays
scalars = Method("tridiag").scalars

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "atom.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
SMALL = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 40, "dr": 0.3, "l_max": "auto", "map": {"dr0": 0.05, "width": 30}},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.7, "E0": 0.1, "cycles": 4}]},
    "absorber": {"type": "cap", "width": 15, "strength": 0.1},
    "time": {"dt": 0.1, "outputs": 10, "verify": False},
    "observe": [{"norm_within": [10]}],
}


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_a_stopped_run_continues_bit_for_bit(tridiag, gauge):
    """The state of any report, put back, leads to the same numbers."""
    laser = SMALL["laser"] | {"gauge": gauge}
    problem = tridiag.build(**{**SMALL, "laser": laser})
    whole = AtomEvolution(problem)
    saved = []

    def keep(progress: Progress):
        if len(calls) in (5, 60):
            saved.append(whole.state())

    calls = []
    whole.advance(lambda progress: (calls.append(progress.done), keep(progress)))
    assert len(calls) > 40
    assert len(saved) == 2
    for state in saved:
        again = AtomEvolution(problem, state)
        again.advance(lambda progress: None)
        one, two = whole.result(), again.result()
        assert np.array_equal(one.phi, two.phi)
        assert np.array_equal(one.trace, two.trace)
        assert all(np.array_equal(one.frames[name], two.frames[name]) for name in one.frames)


def test_angular_momenta_grow(tridiag):
    """`lmax: auto` gives what a large lmax gives."""
    auto = tridiag.run(**SMALL)
    fixed = tridiag.run(**{**SMALL, "grid": SMALL["grid"] | {"l_max": 24}})
    assert auto.lanes.lmax > 6
    assert auto.populations["population_1s"] == pytest.approx(fixed.populations["population_1s"], abs=1e-8)
    assert auto.final("norm") == pytest.approx(fixed.final("norm"), abs=1e-8)


def test_absorber(tridiag):
    """What leaves a small box through the absorber leaves a large box's inner part."""
    time = {"dt": 0.1, "t_final": 90, "outputs": 10, "verify": False}
    grid = SMALL["grid"] | {"l_max": 6}
    small = tridiag.run(**{**SMALL, "time": time, "grid": grid})
    large = tridiag.run(**{**SMALL, "time": time, "grid": grid | {"rmax": 150}, "absorber": "none"})
    assert large.final("norm") == pytest.approx(1.0, abs=1e-11)
    assert large.frames["norm_within"][-1, 0] < 0.99
    assert 0.9 < small.final("norm") < 0.995
    assert small.populations["population_1s"] == pytest.approx(large.populations["population_1s"], abs=1e-6)
    assert small.frames["norm_within"][-1] == pytest.approx(large.frames["norm_within"][-1], abs=5e-4)


def test_superposition_beats(tridiag):
    """<z> of 1s + 2p oscillates as 2 c <1s|r|2p> sin((E2 - E1) t), with the closed form of the integral."""
    result = tridiag.run(
        task="atom",
        atom="hydrogen",
        grid={"rmax": 60, "dr": 0.2, "l_max": 2, "map": {"dr0": 0.0125, "width": 60}},
        initial=[{"n": 1}, {"n": 2, "l": 1, "weight": "1i"}],
        time={"dt": 0.02, "t_final": 20, "outputs": 40, "verify": False},
    )
    radial = 128.0 * np.sqrt(6.0) / 243.0
    exact = radial / np.sqrt(3.0) * np.sin(0.375 * result.time)
    assert result.frames["dipole"][:, 0] == pytest.approx(exact, abs=1e-4)
    assert result.populations["population_1s"] == pytest.approx(0.5, abs=1e-12)
    assert result.numbers["energy_final"] == pytest.approx(-0.3125, abs=1e-6)


def test_hydrogen_like_ions_scale(tridiag):
    """Z: lengths over Z, times over Z^2, fields times Z^3 give the same populations."""
    pulse = {"shape": "sin2", "omega": 0.5, "E0": 0.05, "cycles": 2}
    found = []
    for z in (1.0, 2.0):
        result = tridiag.run(
            task="atom",
            atom={"type": "hydrogen", "Z": z},
            grid={"rmax": 50 / z, "dr": 0.2 / z, "l_max": 5, "map": {"dr0": 0.02 / z, "width": 50}},
            laser={"gauge": "length", "pulses": [pulse | {"omega": 0.5 * z**2, "E0": 0.05 * z**3}]},
            time={"steps": 400, "outputs": 1, "verify": False},
        )
        found.append(result.frames["populations"][-1])
    assert found[1] == pytest.approx(found[0], abs=1e-11)


def test_claims_hold(tridiag):
    """The errors of coarse runs against the converged reference."""
    want = REFERENCES["ir_400"]["result"]
    pulse = {"shape": "sin2", "omega": 0.114, "E0": 0.05338025, "cycles": 3}
    result = tridiag.run(
        task="atom",
        atom="hydrogen",
        grid={"rmax": 180, "dr": 0.4, "l_max": 13, "map": {"dr0": 0.05, "width": 30}},
        laser={"gauge": "length", "pulses": [pulse]},
        time={"dt": 0.15, "outputs": 1},
        observe=[{"norm_within": [20, 50]}],
    )
    found = scalars(result)
    names = {f"population_{name}": want[f"P_{name}"] for name in ("1s", "2s", "2p", "3d")}
    names |= {name: want[name] for name in ("norm_within_20", "norm_within_50")}
    for name, value in names.items():
        assert abs(found[name].value - value) < 3 * found[name].error + 2e-7, name
        assert found[name].error < 3e-3
    made = arrays(result)
    for name, parts in zip(made["claimed"], made["claimed_parts"], strict=True):
        assert found[name].error == pytest.approx(1.5 * parts.sum(), rel=1e-9, abs=3e-12)
    assert made["cause"][0] == "the time step (time.dt)"
    assert made["claimed_parts"].shape == (made["claimed"].size, made["cause"].size)
    assert made["claimed_parts"][list(made["claimed"]).index("population_1s")].min() > 0.0


def test_dense_core_in_velocity_gauge(tridiag):
    """Where dt A (L + 1) / dr is far above 16, the core of high l is emptied and the numbers stay right."""
    found = []
    for gauge, dr0 in (("length", 0.02), ("velocity", 0.02)):
        result = tridiag.run(
            task="atom",
            atom="hydrogen",
            grid={"rmax": 60, "dr": 0.2, "l_max": 20, "map": {"dr0": dr0, "width": 50}},
            laser={"gauge": gauge, "pulses": [{"shape": "sin2", "omega": 0.5, "E0": 1.0, "cycles": 1}]},
            time={"dt": 0.02, "outputs": 1, "verify": False},
        )
        found.append(result)
    length, velocity = found
    assert velocity.lost > 0.0
    assert velocity.populations["population_1s"] == pytest.approx(
        length.populations["population_1s"], abs=1e-4
    )
    assert velocity.frames["population_l"][-1, 20] < 1e-8


WIDE = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"dr": 0.3, "l_max": 4, "map": {"dr0": 0.05, "width": 30}},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.9, "E0": 0.05, "cycles": 16}]},
    "time": {"dt": 0.1, "outputs": 3, "verify": False},
    "observe": [{"norm_within": [10]}],
}


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_a_box_grows(tridiag, gauge):
    """`rmax: auto` begins small, ends large, and gives what the whole box gives; nothing reaches a wall on the way."""
    deck = WIDE | {"laser": WIDE["laser"] | {"gauge": gauge}}
    problem = tridiag.build(**deck)
    auto = AtomEvolution(problem)
    sizes = [auto.propagator.lattice.grid.points]
    auto.advance(lambda progress: sizes.append(auto.propagator.lattice.grid.points))
    grown = sorted(set(sizes))
    assert sizes == sorted(sizes)
    assert len(grown) >= 3
    assert sizes[0] < 0.4 * problem.lattice.grid.points
    assert sum(sizes) < 0.75 * len(sizes) * problem.lattice.grid.points
    rmax = problem.setting.rmax
    fixed = tridiag.run(**deck | {"grid": deck["grid"] | {"rmax": rmax}})
    found = auto.result()
    assert np.array_equal(fixed.problem.lattice.grid.r, problem.lattice.grid.r)
    assert np.abs(found.phi - fixed.phi).max() < 1e-7
    assert found.frames["populations"] == pytest.approx(fixed.frames["populations"], abs=1e-11)
    assert found.trace[:, 1:4] == pytest.approx(
        fixed.trace[np.isin(fixed.trace[:, 0], found.trace[:, 0]), 1:4], abs=1e-7
    )
    assert found.frames["wall"].max() < 1e-13
    assert found.wall == pytest.approx(auto.propagator.lattice.grid.wall)


def test_a_box_that_grows_continues_bit_for_bit(tridiag):
    problem = tridiag.build(**WIDE)
    whole, saved = AtomEvolution(problem), []
    whole.advance(lambda progress: saved.append(whole.state()))
    sizes = [int(one["points"]) for one in saved]
    first = sizes.index(max(sizes))
    for state in (saved[first - 1], saved[first]):
        again = AtomEvolution(problem, state)
        again.advance(lambda progress: None)
        assert np.array_equal(whole.result().phi, again.result().phi)
        assert np.array_equal(whole.result().trace, again.result().trace)


def test_a_box_with_an_absorber_does_not_grow(tridiag):
    """The absorber has its place: the box is chosen before the run."""
    problem = tridiag.build(**WIDE | {"absorber": {"type": "manolopoulos", "kmin": 0.2}})
    assert problem.first_points == problem.lattice.grid.points
    assert tridiag.build(**WIDE).first_points < 0.4 * tridiag.build(**WIDE).lattice.grid.points


def test_channels_grow_without_output_times(tridiag):
    """One output time is enough: channels are looked at on the way."""
    found = tridiag.run(**{**SMALL, "time": SMALL["time"] | {"outputs": 1}})
    many = tridiag.run(**SMALL)
    assert found.lanes.lmax == many.lanes.lmax > found.problem.setting.lmax
    assert found.populations["population_1s"] == pytest.approx(many.populations["population_1s"], abs=1e-10)


def test_a_sphere_that_the_box_has_not_reached(tridiag):
    """The flux through it is zero until the box has grown to it, and then that of the whole box."""
    block = {"method": "tsurff", "radius": 110, "energy": [0.2, 0.6], "points": 5, "tail": "none"}
    deck = WIDE | {"spectra": [block]}
    auto = tridiag.run(**deck)
    assert auto.problem.first_points < auto.problem.spheres[0].index
    fixed = tridiag.run(**deck | {"grid": WIDE["grid"] | {"rmax": auto.problem.setting.rmax}})
    assert np.abs(auto.flux[0, 0]).max() == 0.0  # the outer one
    size = np.abs(fixed.flux).max()
    assert size > 1e-6
    assert np.abs(auto.flux - fixed.flux).max() < 1e-4 * size
    assert auto.spectra["pes"] == pytest.approx(fixed.spectra["pes"], rel=1e-4, abs=1e-12)
