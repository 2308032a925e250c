"""Decks of `task: propagate` against numbers of other programs, and runs that are interrupted and continued.

Every reference is an entry of ``reference_data/tridiag.json`` with its recipe, tolerance and provenance: lattice-exact values
(independent LAPACK stepping), converged values of a Fourier split-operator program, and analytic results.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import Stopped
from qsim.core.results.results import open_results
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.tridiag.propagate import observer
from qsim.tridiag.propagate.problem import PIECE

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "tridiag.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}

OMEGA = REFERENCES["C1_sin2_4cycle_final"]["params"]["w0"]
PEAK = REFERENCES["C1_sin2_4cycle_final"]["params"]["E0"]
FOUR_CYCLES = {
    "gauge": "length",
    "pulses": [{"shape": "sin2", "omega": OMEGA, "E0": PEAK, "cycles": 4}],
}
HYDROGEN = {"task": "propagate", "potential": {"type": "softcore"}, "initial": {"type": "eigenstate"}}
EVERYTHING = [{"populations": {"levels": 6}}, {"norm_within": [20, 50, 100]}]


def box(half, dx, stencil="three_point"):
    return {"xmin": -half, "xmax": half, "points": round(2 * half / dx) + 1, "stencil": stencil}


def moments(result):
    """Mean and standard deviation of |psi|^2 at the end."""
    x, weight = result.problem.lattice.x, np.abs(result.psi) ** 2 * result.problem.lattice.dx
    mean = float(weight @ x)
    return mean, math.sqrt(float(weight @ (x - mean) ** 2))


# ------------------------------------------------------------------------------------- lattice-exact

# The references have no points at their walls; the absorber of L5 is 1e-4 d^2.
LATTICE = {
    "L3_sin2_length_lattice": ({"grid": box(800.2, 0.2)}, {}),
    "L5_sin2_cap_lattice": (
        {"grid": box(200.2, 0.2), "absorber": {"type": "cap", "width": 50.2, "strength": 1e-4 * 50.2**2}},
        {},
    ),
}


def lattice_run(tridiag, name, **changes):
    blocks, _ = LATTICE[name]
    return tridiag.run(
        **HYDROGEN,
        **blocks,
        laser=FOUR_CYCLES,
        observe=EVERYTHING,
        time={"steps": REFERENCES[name]["values"]["steps"], "outputs": 4},
        **changes,
    )


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("L3_sin2_length_lattice", "nshape"),
        ("L5_sin2_cap_lattice", "nshape"),
        ("L5_sin2_cap_lattice", "lapack"),
    ],
)
def test_lattice_values(tridiag, name, solver):
    """Independent stepping by zgtsv; the absorber takes 2.1 % only if the right-hand side is 2 - T."""
    expected, tolerance = REFERENCES[name]["values"], REFERENCES[name]["tol_rel"]
    result = lattice_run(tridiag, name, solver={"type": solver})
    frames = result.frames
    assert result.problem.lattice.points == expected["n"]
    assert result.problem.dt == pytest.approx(expected["dt"], rel=1e-14)
    assert frames["norm"][-1] == pytest.approx(expected["norm"], rel=tolerance)
    np.testing.assert_allclose(frames["populations"][-1], expected["pops0_5"], rtol=tolerance, atol=1e-12)
    np.testing.assert_allclose(
        frames["norm_within"][-1, :2], [expected["n20"], expected["n50"]], rtol=tolerance
    )
    assert frames["dipole"][-1] == pytest.approx(expected["x"], rel=tolerance)
    trace = np.array(expected["trace_t_norm_x_acc"])
    found = np.column_stack([frames[name][1:] for name in ("norm", "dipole", "acceleration")])
    np.testing.assert_allclose(found, trace[:, 1:], rtol=tolerance, atol=1e-11)


def test_gauges_agree(tridiag):
    """The compact stencil in velocity gauge is the image of that in length gauge; what is left is of second order in dt."""
    differences = {}
    for steps in (4400, 8800):
        length, velocity = (
            tridiag.run(
                **HYDROGEN,
                grid=box(200, 0.25, "numerov"),
                absorber={"type": "cap", "width": 50, "strength": 0.25},
                laser={**FOUR_CYCLES, "gauge": gauge},
                time={"steps": steps, "outputs": 8},
                observe=EVERYTHING,
            ).frames
            for gauge in ("length", "velocity")
        )
        differences[steps] = {name: np.abs(velocity[name] - length[name]).max() for name in length}
    for name, limit in (
        ("norm", 5e-4),
        ("populations", 5e-4),
        ("dipole", 5e-2),
        ("energy", 2e-3),
        ("velocity", 2e-3),
    ):
        assert differences[8800][name] < limit, differences
        assert differences[4400][name] / differences[8800][name] > 3.0, differences


# ---------------------------------------------------------------------------------------- converged


def test_ionisation_by_four_cycles(tridiag):
    """C1: the compact stencil at dx = 0.2 is good to 1e-6 in the ground state."""
    expected = REFERENCES["C1_sin2_4cycle_final"]["values"]
    result = tridiag.run(
        **HYDROGEN,
        grid=box(500, 0.2, "numerov"),
        absorber={"type": "manolopoulos", "kmin": 0.1},
        laser=FOUR_CYCLES,
        time={"dt": 0.025, "outputs": 10},
        observe=EVERYTHING,
    )
    frames = result.frames
    assert frames["populations"][-1, 0] == pytest.approx(expected["P0"], abs=1e-6)
    np.testing.assert_allclose(frames["populations"][-1], expected["pops0_5"], rtol=0, atol=5e-5)
    assert frames["dipole"][-1] == pytest.approx(
        expected["x_T"], abs=2e-2
    )  # the absorber takes fast electrons
    for k, radius in enumerate((20, 50, 100)):
        assert frames["norm_within"][-1, k] == pytest.approx(expected[f"norm_within_{radius}"], abs=2e-4)


def test_harmonics_of_a_flat_top(tridiag):
    """C3: odd orders, and the cutoff by the rule of the entry."""
    entry = REFERENCES["C3_hhg_1e14_odd_a"]
    expected = entry["values"]
    scalars = tridiag.execute(
        **HYDROGEN,
        grid=box(500, 0.2, "numerov"),
        absorber={"type": "manolopoulos", "kmin": 0.2},
        laser={
            "pulses": [{"shape": "flat_top", "omega": OMEGA, "E0": PEAK, "ramp_cycles": 2, "flat_cycles": 4}]
        },
        time={"dt": 0.025, "outputs": 8},
        observe=[{"populations": {"levels": 2}}, {"hhg": {"form": "acceleration", "window": "sin2"}}],
    )["scalars"]
    assert scalars["t_final"]["value"] == pytest.approx(entry["params"]["T"], rel=1e-12)
    assert scalars["up"]["value"] == pytest.approx(entry["params"]["Up"], rel=1e-12)
    assert scalars["population_0"]["value"] == pytest.approx(expected["P0_T"], abs=1.5e-3)
    classical = entry["params"]["cutoff_classical_order"]
    assert scalars["hhg_cutoff_classical"]["value"] == pytest.approx(classical, rel=1e-6)
    assert 21.0 <= scalars["hhg_cutoff_order"]["value"] <= 27.0
    with open_results(tridiag.folder / "deck.h5") as results:
        order, power, acceleration = (results[k] for k in ("hhg_order", "hhg_spectrum", "acceleration"))
    for text, value in expected["S"].items():
        found = power[np.argmin(np.abs(order - int(text)))]
        assert abs(order - int(text)).min() < 1e-9
        assert found == pytest.approx(value, rel=0.1), f"order {text}"  # the entry allows 0.3
    assert acceleration[2] == pytest.approx(expected["a_quarter"], rel=0.01)
    assert acceleration[4] == pytest.approx(expected["a_half"], rel=0.01)


def test_rabi_flopping(tridiag):
    """C6: the deck of inputs/, against the split-operator program after 13 and 26 cycles."""
    entry = REFERENCES["C6_rabi"]
    omega = 0.5 - 0.232903337378
    result = tridiag.run(
        **HYDROGEN,
        grid=box(120, 0.2, "numerov"),
        laser={"pulses": [{"shape": "cw", "omega": omega, "E0": 0.004, "cycles": 26}]},
        time={"dt": 0.05, "outputs": 2},
        observe=[{"populations": 3}],
    )
    for row, cycles in ((1, "13"), (2, "26")):
        expected = entry["values"][cycles]
        found = result.frames["populations"][row]
        assert row * result.problem.steps * result.problem.dt / 2 == pytest.approx(expected["t"], rel=1e-4)
        np.testing.assert_allclose(found, [expected["P0"], expected["P1"], expected["P2"]], rtol=0, atol=2e-3)


# ----------------------------------------------------------------------------------------- analytic


@pytest.mark.parametrize(
    ("stencil", "dx", "dt", "shift", "spread"),
    [
        ("three_point", 0.1, 0.02, 0.2, 0.02),
        ("three_point", 0.05, 0.01, 0.05, 0.005),
        ("numerov", 0.1, 0.01, 0.02, 0.003),
    ],
)
def test_free_packet(tridiag, stencil, dx, dt, shift, spread):
    """A2: tolerances of the entry; a quarter of them at half the spacing, and less by the compact stencil."""
    expected = REFERENCES["A2_free_gaussian"]["values"]["20"]
    result = tridiag.run(
        task="propagate",
        grid=box(60, dx, stencil),
        potential="free",
        initial={"type": "gaussian", "x0": -20, "k0": 1.5, "width": 2},
        time={"dt": dt, "t_final": 20, "outputs": 4},
    )
    mean, sigma = moments(result)
    assert abs(mean - expected["x"]) < shift
    assert abs(sigma / expected["sigma"] - 1) < spread
    assert mean == pytest.approx(float(result.frames["dipole"][-1]), abs=1e-9)


@pytest.mark.parametrize(
    ("stencil", "position", "population"), [("three_point", 0.04, 3e-3), ("numerov", 2e-3, 2e-4)]
)
def test_driven_oscillator(tridiag, stencil, position, population):
    """A4: the classical trajectory and a Poisson distribution."""
    expected = REFERENCES["A4_driven_oscillator"]["values"]
    result = tridiag.run(
        task="propagate",
        grid=box(20, 0.1, stencil),
        potential={"type": "harmonic", "omega": 0.3},
        initial={"type": "eigenstate"},
        laser={
            "pulses": [{"shape": "expression", "value": "0.05*sin(pi*t/T)^2*cos(0.25*t)", "duration": 100}]
        },
        time={"dt": 0.02, "outputs": 4},
        observe=[{"populations": 6}, "velocity"],
    )
    frames = result.frames
    np.testing.assert_allclose(frames["dipole"][1:], expected["x"], rtol=0, atol=position)
    np.testing.assert_allclose(frames["velocity"][1:], expected["p"], rtol=0, atol=position)
    np.testing.assert_allclose(frames["populations"][-1], expected["Pn"], rtol=0, atol=population)
    assert moments(result)[1] == pytest.approx(expected["sigma_x"], rel=0.5 * position)


@pytest.mark.parametrize("k0", ["1.0", "1.2"])
def test_tunnelling(tridiag, k0):
    """A5: the transmission of the Eckart barrier averaged over the packet."""
    expected = REFERENCES["A5_eckart_tunnelling"]["values"][k0]
    t_final = 140 / float(k0)
    scalars = tridiag.execute(
        task="propagate",
        grid=box(250, 0.1, "numerov"),
        potential={"type": "eckart", "V0": 0.8},
        initial={"type": "gaussian", "x0": -80, "k0": float(k0), "width": 10},
        time={"dt": 0.05, "t_final": t_final, "outputs": 10},
        observe=[{"norm_right": [0]}],
    )["scalars"]
    assert scalars["norm_right_0"]["value"] == pytest.approx(expected, abs=2e-4)  # the entry allows 2e-3


# ------------------------------------------------------------------------------------------ resume


class Pull:
    """Stop requests after a number of polls."""

    at_once = False

    def __init__(self, polls):
        self.left = polls

    @property
    def stop(self):
        self.left -= 1
        return "a test" if self.left < 0 else ""

    def compiling(self, now):
        """Take what a run says of its kernels."""


SMALL = {
    "task": "propagate",
    "grid": box(60, 0.2),
    "potential": {"type": "softcore"},
    "initial": {"type": "eigenstate"},
    "laser": {"pulses": [{"shape": "sin2", "omega": 0.2, "E0": 0.03, "cycles": 3}]},
    "absorber": {"type": "cap", "width": 15, "strength": 0.05},
    "time": {"dt": 0.05, "outputs": 7},
    "observe": [{"populations": 3}, {"norm_within": [10]}, {"hhg": {"form": "dipole"}}],
}


@pytest.mark.parametrize(
    "polls", [0, 3, *(pytest.param(polls, marks=pytest.mark.exhaustive) for polls in (1, 8, 15, 20))]
)
@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_a_continued_run_gives_the_same_bits(tridiag, monkeypatch, polls, gauge):
    """Interrupted within and at output times: the same numbers as without the interruption."""
    monkeypatch.setitem(PIECE, "cpu", 601 * 100)  # several pieces between two output times
    deck = {**SMALL, "laser": {**SMALL["laser"], "gauge": gauge}}
    whole = tridiag.run(**deck)
    file = tridiag.folder / "deck.ckpt.h5"
    with pytest.raises(Stopped):
        tridiag.run(monitor=Monitor(checkpoint=file, signals=Pull(polls), quiet=True), **deck)
    state, _ = checkpoint.load(file)
    assert 0 < state["step"] < whole.problem.steps
    again = tridiag.run(monitor=Monitor(checkpoint=file, restored=state, quiet=True), **deck)
    assert again.psi.tobytes() == whole.psi.tobytes()
    assert again.trace.tobytes() == whole.trace.tobytes()
    for some, others in ((again.frames, whole.frames), (again.spectra, whole.spectra)):
        assert list(some) == list(others)
        for name, values in others.items():
            assert some[name].tobytes() == values.tobytes(), name


@pytest.mark.parametrize("before", [0.05, 0.5])
def test_a_run_stopped_after_its_last_step_is_continued_there(tridiag, before):
    """Stopped among its photoelectrons and its companions: the same spectra, and the same errors."""
    deck = {**SMALL, "observe": [{"photoelectron": {"points": 20}}]}
    count = Pull(10**6)
    whole = tridiag.run(
        monitor=Monitor(checkpoint=tridiag.folder / "a.h5", signals=count, quiet=True), **deck
    )
    polls = 10**6 - count.left
    file = tridiag.folder / "deck.ckpt.h5"
    stop = Pull(int((1 - before) * polls))
    with pytest.raises(Stopped):
        tridiag.run(monitor=Monitor(checkpoint=file, signals=stop, quiet=True), **deck)
    state, _ = checkpoint.load(file)
    assert state["step"] == whole.problem.steps
    again = tridiag.run(monitor=Monitor(checkpoint=file, restored=state, quiet=True), **deck)
    assert (
        again.spectra["photoelectron_spectrum"].tobytes() == whole.spectra["photoelectron_spectrum"].tobytes()
    )
    assert (again.errors, again.parts) == (whole.errors, whole.parts)
    assert again.parts


def test_resume_by_the_command(tridiag, command):
    """Stopped by the wall time, continued by --resume, the same file but for times."""
    deck, folder = tridiag.write(**SMALL), tridiag.folder
    common = ("tridiag", deck, "--device", "cpu", "--no-figures", "-o")
    assert command(*common, folder / "whole.h5").exit_code == 0
    first = command(*common, folder / "parts.h5", "--set", "run.walltime=1e-6")
    assert first.exit_code == 75, first.stderr
    second = command(*common, folder / "parts.h5", "--resume")
    assert second.exit_code == 0, second.stderr
    with open_results(folder / "whole.h5") as a, open_results(folder / "parts.h5") as b:
        assert a.names == b.names
        for name in a.names:
            assert np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes(), name


# ------------------------------------------------------------------------------------- what is written


def test_the_sequence_does_not_depend_on_where_it_starts():
    from qsim.tridiag.propagate.problem import pieces_of

    for every, largest in ((1, 10), (3, 6), (7, 7), (50, 50), (50, 20), (30, 1), (200, 7), (8, 21)):
        whole = list(pieces_of(0, 100, every, largest))
        assert sum(count for count, _ in whole) == 100
        # no call is longer, and all samples of the trace are among those of the calls
        assert max(count for count, _ in whole) <= largest
        sampled = {
            at - count + each * (k + 1)
            for (count, each), at in zip(whole, np.cumsum([count for count, _ in whole]), strict=True)
            for k in range(count // each)
        }
        assert set(range(every, 101, every)) <= sampled
        step = 0
        for k, (count, each) in enumerate(whole):
            assert each in (every, count)
            assert list(pieces_of(step, 100, every, largest)) == whole[k:]
            step += count


def test_trace_holds_every_sample(tridiag):
    result = tridiag.run(**{**SMALL, "observe": ["hhg"]})
    steps = result.trace[:, 0]
    assert np.all(np.diff(steps) == result.problem.every)
    assert steps[0] == 0
    frames = result.problem.frames
    assert list(frames) == [round(k * result.problem.steps / 7) for k in range(8)]
    shared = np.isin(frames, steps)
    rows = np.searchsorted(steps, frames[shared])
    np.testing.assert_array_equal(result.trace[rows, 2], result.frames["dipole"][shared])


def test_names_of_the_contract(tridiag):
    summary = tridiag.execute(
        **{
            **SMALL,
            "observe": [
                "norm",
                "energy",
                {"populations": {"levels": 2}},
                {"norm_within": [20, 50]},
                {"hhg": {"form": "acceleration", "window": "sin2"}},
                "gabor",
                {"photoelectron": {"points": 20}},
                {"density": {"points": 50}},
            ],
        }
    )
    wanted = {"norm_final", "energy_initial", "energy_final", "population_0", "population_1", "steps"}
    wanted |= {"norm_within_20", "norm_within_50", "hhg_cutoff_order"}
    assert wanted <= set(summary["scalars"])
    with open_results(tridiag.folder / "deck.h5") as results:
        names = "time x norm dipole acceleration populations density hhg_order hhg_spectrum psi_final energy"
        for name in names.split():
            assert np.all(np.isfinite(results[name])), name
        assert results["density"].shape == (8, 47)
        assert results["populations"].shape == (8, 2)
        assert results["psi_final"].shape == results["x"].shape == (601,)
        assert results["hhg_gabor"].shape == (results["gabor_time"].size, results["gabor_order"].size)


def test_solvers_agree(tridiag):
    """Four ways to solve the same systems."""
    found = [
        tridiag.run(**SMALL, solver=solver).psi
        for solver in (
            {"type": "nshape"},
            {"type": "lapack"},
            {"type": "thomas"},
            {"type": "woodbury", "blocks": 4},
        )
    ]
    for psi in found[1:]:
        np.testing.assert_allclose(psi, found[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_energies_of_large_grids_are_taken_in_windows(tridiag, monkeypatch, stencil, gauge):
    deck = {**SMALL, "grid": box(60, 0.2, stencil), "laser": {**SMALL["laser"], "gauge": gauge}}
    whole = tridiag.run(**deck).frames["energy"]
    monkeypatch.setattr(observer, "WINDOW", 100)
    np.testing.assert_allclose(tridiag.run(**deck).frames["energy"], whole, rtol=0, atol=1e-13)
