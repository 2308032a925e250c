"""Decks that are wrong, or that ask for what the molecule cannot give: what is said, where, and with which exit code.

Each message must name the key, the value found, and what to do about it.
"""

import math
import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.device.device import cuda_status
from qsim.core.errors import DeckError, FileError, NumericsError, QsimError
from tests.changes import PLANS, REMOVE, change, some

BASE = {
    "system": {
        "mass": 1728.468338,
        "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
        "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
        "grid": {"xmin": 1.0, "xmax": 5.0, "points": 161},
        "initial": 0,
        "target": 1,
    },
    "time": {"T": 30000, "steps": 3000},
    "propagator": {"type": "eigenbasis", "states": 16},
    "control": {"guess": {"type": "ladder"}},
    "objective": {"threshold": 0.99, "alpha": 0.0},
    "optimizer": {"type": "lbfgs", "max_sweeps": 20},
    "verify": {"propagator": "none"},
}
DOUBLE_WELL = {
    "mass": 1.0,
    "potential": {"type": "polynomial", "coefficients": [0, 0, -0.25, 0.00390625, 0.015625]},
    "dipole": {"type": "linear"},
    "grid": {"xmin": -8.0, "xmax": 8.0, "points": 161},
    "initial": 0,
    "target": 1,
}


def changed(**changes):
    """Return a base deck with keys replaced, as :func:`tests.changes.change` does."""
    return change(BASE, changes)


def test_the_base_deck_is_good(qoc):
    assert qoc.load(**changed()).warnings == []


# ---------------------------------------------------------------------------------------------- errors

PAIR = {"initial": 0, "target": 1}
ERRORS = {
    "unknown key": (
        {"system__grid__pionts": 3},
        r"system.grid.pionts: unknown key; did you mean 'points'\? allowed: xmin, xmax, points",
    ),
    "unknown block": (
        {"optimiser": {"type": "lbfgs"}},
        r"optimiser: unknown key; did you mean 'optimizer'\?",
    ),
    "unknown type": (
        {"optimizer": {"type": "adam"}},
        "optimizer.type: .*'adam'.*lbfgs, krotov, gauss_newton, travolta, none",
    ),
    "missing target": ({"system__target": REMOVE}, "system.target: missing key; give a level such as 0"),
    "same state": (
        {"system__target": 0},
        r"system.target: initial and target are the same state \(0\); nothing to control",
    ),
    "same ray": (
        {"system__initial": {0: 1.0, 1: "0.5i"}, "system__target": {0: "2i", 1: -1.0}},
        "system.target: initial and target are the same state",
    ),
    "initial within the target": (
        {"system__initial": {0: 1.0, 2: 1.0}, "system__target": [0, 1, 2]},
        r"system.target: the initial state lies within the target levels \[0, 1, 2\]",
    ),
    "level not kept": (
        {"system__target": 16},
        "system.target: level 16 is not among the 16 states of propagator.states",
    ),
    "unbound level": (
        {"system__target": 23, "propagator__states": 40},
        "system.target: level 23 is not bound: this Morse potential holds levels 0 to 21",
    ),
    "box state": (
        {
            "system": {**DOUBLE_WELL, "grid": {"xmin": -3, "xmax": 3, "points": 61}, "target": 4},
            "time__T": 100,
        },
        r"system.target: level 4 \(E = [0-9.]+ hartree\) is a box state: .* \(-?[0-9.e-]+ hartree\); widen system.grid",
    ),
    "no bound level": (
        {"system__potential__D": 1e-6},
        "system.initial: this Morse potential holds no bound level",
    ),
    "negative level": ({"system__initial": -1}, "system.initial: expected a level 0, 1, 2, .*, found -1"),
    "list as initial": (
        {"system__initial": [0, 1]},
        "system.initial: .*a list of levels is only allowed as a target",
    ),
    "zero weights": (
        {"system__target": {1: 0.0}},
        "system.target: all weights of the superposition are zero",
    ),
    "bad weight": (
        {"system__target": {1: "one"}},
        "system.target: expected a number or a text such as '0.5i', found 'one'",
    ),
    "level twice": ({"system__target": [1, 2, 1]}, r"system.target: duplicate level in \[1, 2, 1\]"),
    "key twice": ({"system__target": {"1": 1.0, "01": 1.0}}, "system.target: duplicate level"),
    "no level": ({"system__target": {"²": 1.0}}, "system.target: .* found level '²'"),
    "huge weight": (
        {"system__target": {1: 1e200, 2: 1}},
        r"system.target: expected a weight between 1e-12 and 1e12 .* found 1e\+200",
    ),
    "pairs and states": (
        {"system__pairs": [PAIR]},
        "system.pairs: give either pairs, or initial and target, not both",
    ),
    "grid upside down": (
        {"system__grid__xmin": 5.0, "system__grid__xmax": 1.0},
        "system.grid.xmin: xmin = 5 must lie below xmax = 1 bohr",
    ),
    "grid without width": (
        {"system__grid__xmax": 1.0 + 1e-10},
        r"system.grid.xmax: the grid is only 1e-10 bohr wide",
    ),
    "few points": ({"system__grid__points": 15}, "system.grid.points: .*16.*15"),
    "states on few points": (
        {"system__grid__points": 30},
        "propagator.states: 16 states on 30 grid points; at most 15 of them are accurate",
    ),
    "infinite potential": (
        {"system__potential": {"type": "expression", "value": "1/(x-2)"}},
        r"system.potential.value: the formula '1/\(x-2\)' is not finite at x = 2",
    ),
    "huge potential": (
        {"system__potential": {"type": "expression", "value": "1e11*x"}},
        r"system.potential: 5e\+11 a.u. at x = 5 bohr is too large for double precision \(at most 1e\+10\)",
    ),
    "formula of another variable": (
        {"system__potential": {"type": "expression", "value": "y^2"}},
        "system.potential.value: .*'y'.*x",
    ),
    "infinite dipole": (
        {"system__dipole": {"type": "expression", "value": "log(x-1)"}},
        r"system.dipole.value: the formula 'log\(x-1\)' is not finite at x = 1",
    ),
    "no dipole": (
        {"system__dipole": {"type": "expression", "value": "0"}},
        "system.dipole: level 1 cannot be reached from level 0: no chain of non-zero dipole elements .* 16 retained",
    ),
    "parity": (
        {
            "system": {
                **DOUBLE_WELL,
                "potential": {"type": "harmonic", "omega": 1.0},
                "dipole": {"type": "polynomial", "coefficients": [0, 0, 1]},
            },
            "time__T": 100,
        },
        "system.dipole: level 1 cannot be reached from level 0",
    ),
    "direct transition forbidden": (
        {
            "system": {**DOUBLE_WELL, "potential": {"type": "harmonic", "omega": 1.0}, "target": 2},
            "time__T": 100,
            "control__guess": "resonant",
        },
        "control.guess: the dipole couples no initial level directly to a target level; use ladder",
    ),
    "missing steps": (
        {"time": {"T": 30000}},
        r"time.steps: missing key; give steps \(a number or auto\), or dt",
    ),
    "steps and tau": (
        {"time__tau": 2.0},
        "time.dt: dt = 2 a.u. and T = 30000 a.u. make 15000 steps, but steps = 3000; leave one of them out",
    ),
    "long tau": ({"time": {"T": 10, "tau": 20}}, "time.dt: dt = 20 a.u. is longer than T = 10 a.u."),
    "too few steps": (
        {"time__steps": 100},
        r"time.steps: 1.2[0-9]* steps per period of the fastest transition \(0.0172[0-9]* hartree\) cannot represent it; "
        "use at least 494 steps",
    ),
    "no steps": ({"time__steps": 0}, "time.steps: .*0"),
    "negative duration": ({"time__T": -5.0}, "time.T: .* found -5.0"),
    "wrong unit": ({"time__T": "5 eV"}, "time.T: .*eV.*fs"),
    "negative alpha": ({"objective__alpha": -0.1}, "objective.alpha: .*at least 0.* -0.1"),
    "threshold above one": ({"objective__threshold": 1.5}, "objective.threshold: .*1.5"),
    "bounds upside down": (
        {"control__bounds": [0.1, -0.1]},
        "control.bounds: lower bound 0.1 must lie below the upper bound -0.1 a.u.",
    ),
    "bounds without zero": (
        {"control__bounds": [0.1, 0.2]},
        r"control.bounds: the bounds \[0.1, 0.2\] must include zero field",
    ),
    "one bound": ({"control__bounds": [0.1]}, "control.bounds: .*2"),
    "one sign": (
        {"control__bounds": [0.0, 0.2], "control__zero_area": True},
        "control.bounds: a field of one sign cannot have zero area",
    ),
    "band upside down": (
        {"control__band": [0.02, 0.01]},
        "control.band: the lowest frequency 0.02 must be below 0.01",
    ),
    "empty band": (
        {"control__band": [0.01720, 0.01721]},
        r"control.band: no sine mode of the pulse lies between 0.0172 and 0.01721 hartree; their spacing is pi/T = 0.00010472",
    ),
    "band above the steps": (
        {"control__band": [1.0, 2.0]},
        "control.band: .* 3000 steps represent frequencies up to 0.314159",
    ),
    "shape above one": (
        {"control__shape": {"type": "expression", "value": "2*t/T"}},
        r"control.shape: the shape must stay between 0 and 1; it runs from 0.0\d+ to 1.99",
    ),
    "shape that is not finite": (
        {"control__shape": {"type": "expression", "value": "sqrt(t-T/2)"}},
        r"control.shape.value: the formula 'sqrt\(t-T/2\)' is not finite at t = 5",
    ),
    "infinite Morse potential": (
        {"system__potential__beta": 1e3},
        "system.potential: not finite at x = 1 bohr; change the formula or system.grid",
    ),
    "shape of nothing": (
        {"control__shape": {"type": "expression", "value": "0"}},
        "control.shape: the shape vanishes at every step",
    ),
    "cutoff above the steps": (
        {"control__guess": {"type": "random", "amplitude": 0.001, "cutoff": 5.0}},
        "control.guess.cutoff: 5 hartree is above pi / tau = 0.314159, the highest frequency of 3000 steps",
    ),
    "guess that is not finite": (
        {"control__guess": {"type": "expression", "value": "1/(t-5)"}},
        r"control.guess.value: the formula '1/\(t-5\)' is not finite at t = 5",
    ),
    "guess that is no field": (
        {"control__guess": {"type": "expression", "value": "1e300*t"}},
        r"control.guess.value: .* is not a field strength \(at most 1e\+10\)",
    ),
    "missing file": (
        {"control__guess": {"type": "file", "file": "none.csv"}},
        "control.guess.file: .*none.csv",
    ),
    "travolta with bounds": (
        {"optimizer": {"type": "travolta"}, "control__bounds": [-1, 1], "control__zero_area": True},
        "control.bounds: the paper's line search cannot keep constraints; use optimizer lbfgs or gauss_newton",
    ),
    "krotov on the grid": (
        {"optimizer": {"type": "krotov"}, "propagator": {"type": "crank_nicolson"}},
        "propagator: Krotov's method runs in the eigenbasis; set propagator: {type: eigenbasis}",
    ),
    "krotov with zero area": (
        {"optimizer": {"type": "krotov"}, "control__zero_area": True},
        "control.zero_area: Krotov's sequential update cannot keep this",
    ),
    "coherent Gauss-Newton": (
        {"optimizer": {"type": "gauss_newton"}, "objective__combine": "coherent"},
        "objective.combine: Gauss-Newton treats pairs incoherently",
    ),
    "coherent list": (
        {"system__target": [1, 2], "objective__combine": "coherent"},
        "objective.combine: a list of target levels has no phase; use incoherent",
    ),
    "mixed precision": (
        {"run": {"precision": "mixed"}},
        "run.precision: qoc runs in double or single precision, not mixed",
    ),
    "negative factor": ({"ensemble": {"field_scale": [1.0, -1.0]}}, "ensemble.field_scale.1: .*-1.0"),
    "empty ensemble": ({"ensemble": {"field_scale": []}}, "ensemble.field_scale: .*"),
    "huge ensemble": (
        {
            "ensemble": {
                k: {"start": 0.9, "stop": 1.1, "count": 1000}
                for k in ("field_scale", "mass_scale", "potential_scale")
            }
        },
        "ensemble: 1000000000 members; at most 1000000 are allowed",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_key_value_and_fix(qoc, name):
    changes, expected = ERRORS[name]
    qoc.refuses(expected, **changed(**changes))


def test_errors_of_the_command(qoc, command):
    """Names of figures are checked by the command, which loads them; a refused deck leaves nothing behind."""
    path = qoc.write(**changed(output={"figures": ["spectrun"]}))
    reply = command("qoc", path, "--device", "cpu", "--dry-run")
    assert reply.exit_code == 3, reply.stderr
    assert re.search(
        r"deck\.yaml:\d+:\d+: output.figures.0: unknown figure 'spectrun'; did you mean 'spectrum'\?",
        reply.stderr,
    )
    assert "Traceback" not in reply.stderr
    assert sorted(file.name for file in qoc.folder.iterdir()) == ["deck.yaml"]


def test_the_place_of_an_error_is_that_of_its_key(qoc):
    with pytest.raises(DeckError) as caught:
        qoc.load(**changed(system__grid__xmin=5.0, system__grid__xmax=1.0, objective__alpha=-1.0))
    [problem] = caught.value.diagnostics  # the model comes first, then what needs a good model
    assert problem.key == "objective.alpha"
    with pytest.raises(DeckError) as caught:
        qoc.load(**changed(system__grid__xmin=5.0, system__grid__xmax=1.0, control__bounds=[0.1, -0.1]))
    assert [problem.key for problem in caught.value.diagnostics] == ["system.grid.xmin", "control.bounds"]
    lines = (qoc.folder / "deck.yaml").read_text().splitlines()
    for problem, text in zip(caught.value.diagnostics, ("xmin: 5.0", "bounds:"), strict=True):
        assert lines[problem.line - 1].lstrip().startswith(text)


TABLES = {
    "three rows": ("1,0\n3,1\n5,0\n", FileError, "at least 4 rows with distinct x, found 3"),
    "twice the same x": ("1,0\n2,1\n2,1\n5,0\n6,1\n", FileError, "distinct x"),
    "a word": ("# x, v\nx,v\n1,0\n2,one\n", FileError, r"v\.csv:4: 'one' is not a finite number"),
    "one column": ("1\n2\n3\n4\n", FileError, r"v\.csv:1: expected 2 numbers \(x, V\), found '1'"),
    "infinity": ("1,0\n2,inf\n3,0\n5,0\n", FileError, r"v\.csv:2: 'inf' is not a finite number"),
    "nothing": ("# nothing\n", FileError, "holds no numbers"),
    "not covering": (
        "1.5,0\n2,1\n3,1\n5,0\n",
        DeckError,
        r"system.potential.file: the table covers \[1.5, 5\] bohr, the grid needs \[1, 5\]",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_cannot_be_used(qoc, name):
    text, error, message = TABLES[name]
    (qoc.folder / "v.csv").write_text(text)
    with pytest.raises(error, match=message):
        qoc.load(**changed(system__potential={"type": "table", "file": "v.csv"}))


FIELDS = {
    "one time": ("5,0.1\n", DeckError, "control.guess.file: .*needs at least two distinct times"),
    "elsewhere": (
        "40000,0\n50000,1\n60000,2\n",
        DeckError,
        "times from 40000 to 60000 a.u. do not overlap the pulse of 30000 a.u.",
    ),
    "huge": (
        "0,0\n10000,1e300\n20000,0\n30000,0\n",
        DeckError,
        "control.guess.file: .* is not a field strength",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_that_cannot_be_used(qoc, name):
    text, error, message = FIELDS[name]
    (qoc.folder / "pulse.csv").write_text(text)
    with pytest.raises(error, match=message):
        qoc.load(**changed(control__guess={"type": "file", "file": "pulse.csv"}))


def test_results_of_another_kind_are_no_field(qoc):
    (qoc.folder / "pulse.h5").write_bytes(b"not HDF5")
    with pytest.raises(QsimError, match=r"pulse\.h5"):
        qoc.load(**changed(control__guess={"type": "file", "file": "pulse.h5"}))


# -------------------------------------------------------------------------------- limits of the machine


def test_memory_that_is_not_there(qoc, command):
    deck = changed(
        time={"T": 1e9, "steps": 100_000_000},
        propagator={"type": "crank_nicolson", "memory": "store"},
        system__grid__points=5000,
    )
    reply = command("qoc", qoc.write(**deck), "--device", "cpu", "--no-figures")
    assert reply.exit_code == 4
    assert re.search(r"needs [\d.]+ TB in host memory \(trajectory [\d.]+ TB", reply.stderr)
    assert "lower time.steps, or set propagator.memory to reverse" in reply.stderr


def test_auto_memory_recovers_states_instead(qoc):
    from qsim.core.run.stages import stage

    deck = changed(time={"T": 100000, "steps": 1_000_000}, propagator={"type": "crank_nicolson"})
    plan = stage("qoc", "build").plan(qoc.load(**deck))
    assert plan.memory.parts["trajectory"] < 1e6


@pytest.mark.skipif(cuda_status().count > 0, reason="there is a GPU")
def test_a_gpu_that_is_not_there(qoc, command):
    reply = command("qoc", qoc.write(**changed()), "--device", "cuda", "--no-figures")
    assert reply.exit_code == 4
    assert "device 'cuda' (--device) is not available" in reply.stderr
    assert "run with --device cpu" in reply.stderr


# --------------------------------------------------------------------------------------------- warnings

# two-level estimate of the best P with alpha = 1 (0.9945 in the reference J2), pi pulse A = pi / (mu T)
MU01 = 0.0371047
WARNINGS = {
    "wall": (
        {"system__grid": {"xmin": 1.35, "xmax": 2.85, "points": 128}, "system__target": 2},
        r"system.grid: \|psi\|\^2 dx of level 2 at the wall is [0-9.e-]+ \(should stay below 1e-06\).*widen it",
    ),
    "coarse steps in the eigenbasis": (
        {"time__steps": 400},
        r"time.steps: 4.8\d* steps per period of the fastest transition .*; use at least 6, that is 494 steps",
    ),
    "coarse steps on the grid": (
        {"time__steps": 1500, "propagator": {"type": "crank_nicolson"}},
        r"time.steps: 18.2\d* steps per period .*; use at least 20, that is 1647 steps",
    ),
    "alpha": (
        {"objective": {"alpha": 1.0, "threshold": 0.999}},
        r"objective.alpha: with alpha = 1 the maximum of J has P of about 0.994\d \(two-level estimate\), below the "
        "threshold 0.999; lower alpha or the threshold",
    ),
    "weak bounds": (
        {"control__bounds": [-0.002, 0.002]},
        f"control.bounds: a pi pulse in T = 30000 a.u. needs an amplitude of (at least )?{math.pi / (MU01 * 30000):.4g}"
        r" a.u.; the bounds allow 0.002",
    ),
    "short pulse": (
        {"time": {"T": 5000, "steps": 1000}},
        r"time.T: T = 5000 a.u. \(121 fs\) is shorter than 2 pi / 0.0008\d* = 7\d\d\d a.u. \(18\d fs\), .*expect leakage; "
        "if 5000 fs is meant, write '5000 fs'",
    ),
    "band beside the line": (
        {"control__band": [0.02, 0.03]},
        r"control.band: no transition of the ladder \(0.01724 hartree\) lies in the band",
    ),
    "noise for nothing": (
        {"control__guess": {"type": "zero", "noise": 1e-12}},
        "control.guess.noise: noise is only used by optimizer travolta",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_carry_the_numbers(qoc, name):
    changes, expected = WARNINGS[name]
    qoc.warns(expected, **changed(**changes))


def test_warnings_are_in_the_summary_and_on_the_terminal(qoc, command):
    path = qoc.write(**changed(time={"T": 5000, "steps": 1000}, optimizer={"type": "none"}))
    reply = command("qoc", path, "--device", "cpu", "--no-figures", "-o", qoc.folder)
    assert reply.exit_code == 0
    path = qoc.write("short", **changed(time={"T": 5000, "steps": 1000}))
    reply = command("qoc", path, "--device", "cpu", "--no-figures", "-o", qoc.folder)
    assert reply.exit_code == 0
    assert "expect leakage" in reply.stderr
    assert "expect leakage" in (qoc.folder / "short.summary.json").read_text()
    assert "expect leakage" not in (qoc.folder / "deck.summary.json").read_text()


def test_too_few_levels_show_in_the_result(qoc):
    deck = changed(propagator__states=3, control__guess={"type": "ladder", "area": 2.0}, system__target=2)
    warnings = qoc.execute(**deck)["warnings"]
    [text] = [text for text in warnings if "retained levels" in text]
    assert re.search(
        r"highest two of 3 retained levels reach a population of [0-9.e-]+ .*raise propagator.states", text
    )


def test_a_threshold_that_is_not_reached_is_said(qoc):
    summary = qoc.execute(**changed(objective__threshold=1.0, optimizer__max_sweeps=4))
    assert summary["scalars"]["threshold_reached"]["value"] is False
    [text] = [text for text in summary["warnings"] if "threshold" in text]
    assert re.fullmatch(
        r"the threshold P = 1 was not reached \(best 0.\d+\): limit of 4 sweeps reached", text
    )


def test_a_field_that_is_too_weak_to_start_from_gives_way(qoc):
    """Its gradient is rounding: the search goes on from a resonant field without symmetries, once, and says so."""
    guess = {"type": "expression", "value": "1e-11*cos(0.01724*t)"}
    summary = qoc.execute(**changed(control__guess=guess, optimizer__max_sweeps=200))
    assert summary["scalars"]["probability"]["value"] > 0.99
    assert len([text for text in summary["warnings"] if "came to a critical point" in text]) == 1


def test_numbers_that_overflow_in_the_run(qoc):
    with pytest.raises(NumericsError, match="P is nan after 2 sweeps"):
        qoc.execute(
            **changed(
                control__guess={"type": "expression", "value": "1e9*cos(t)"},
                ensemble={"field_scale": [1000.0]},
                system__dipole={"type": "linear", "slope": 1e9},
            )
        )


# ------------------------------------------------------------------------------- what is not an error


def test_one_of_several_pairs_may_keep_a_state(qoc):
    deck = changed(
        system__initial=REMOVE, system__target=REMOVE, system__pairs=[PAIR, {"initial": 3, "target": 3}]
    )
    assert qoc.execute(**deck)["scalars"]["probability"]["value"] > 0.9


def test_pairs_that_all_keep_their_state_are_refused(qoc):
    pairs = [{"initial": 2, "target": 2}, {"initial": 3, "target": [3, 4]}]
    deck = changed(system__initial=REMOVE, system__target=REMOVE, system__pairs=pairs)
    with pytest.raises(DeckError, match=r"system\.pairs\.1\.target: the initial state lies within"):
        qoc.load(**deck)


@pytest.mark.parametrize("target", [0, [0], {0: 2.0}])
@pytest.mark.parametrize("steps", [3000, "auto"])
def test_without_optimisation_a_state_may_be_its_own_target(qoc, target, steps):
    deck = changed(system__target=target, optimizer={"type": "none"}, time__steps=steps)
    found = qoc.execute(**deck)["scalars"]["probability"]["value"]
    assert 0.0 < found < 1.0


def test_a_band_of_a_long_pulse(qoc):
    """More modes than the plan looks at times."""
    deck = changed(time={"T": 250_000, "steps": 20_000}, control__band=[0.016, 0.018])
    problem = qoc.build(**deck)
    assert problem.control.modes.shape == (159, 20_000)


def test_one_bound_may_be_zero(qoc):
    result = qoc.run(**changed(control__bounds=[0.0, 0.01], control__band=[0.0, 0.05]))
    assert result.field.min() > -1e-25
    assert result.field.max() <= 0.01


def test_the_line_search_stops_at_its_limit_of_sweeps(qoc):
    """Also within one growing sequence."""
    optimizer = {"type": "travolta", "gamma_add": 0.0, "gamma_mul": 1.001, "max_sweeps": 50}
    result = qoc.run(**changed(optimizer=optimizer))
    assert result.sweeps <= 51
    assert result.reason == "limit of 50 sweeps reached"


def test_the_bisection_ends_at_adjacent_numbers(qoc):
    optimizer = {
        "type": "travolta",
        "bisection_tolerance": 1.1e-15,
        "derivative": "exact",
        "max_iterations": 1,
    }
    result = qoc.run(**changed(optimizer=optimizer, time__steps=600, time__T=5000))
    assert result.iterations == 1


# ------------------------------------------------------------------------------------------------ fuzz

RUNS = settings(PLANS, max_examples=60)
# hypothesis likes the ends of what is allowed; these are the ends of what a deck may hold, and what lies beyond
EXTREMES = st.sampled_from([0.0, -1.0, 5e-324, 1e-300, 1e-12, 1.1e-12, 1e-3, 1e3, 0.9e12, 1e12, 1e300])
ANY = EXTREMES | st.floats(allow_nan=False, allow_infinity=False)
LEVEL = st.integers(-1, 13)
WEIGHT = st.sampled_from([1.0, 0.5, "1i", "2-i", 0.0, "x", 1e-11, 1e11]) | ANY
STATE = (
    st.integers(0, 6)
    | LEVEL
    | st.lists(st.integers(0, 6), min_size=1, max_size=3)
    | st.dictionaries(st.integers(0, 6), st.sampled_from([1.0, 0.5, "1i", "-0.3+2i"]), min_size=1, max_size=3)
    | st.dictionaries(LEVEL, WEIGHT, max_size=3)
)


def block(kind, **numbers):
    """Blocks of a type with the given numbers, which are strategies."""
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=numbers)


def formulas(*texts):
    return st.sampled_from(texts).map(lambda text: {"type": "expression", "value": text})


def keys(size):
    """Every key of the deck that holds numbers, with numbers of the given kind where it has no limits of its own."""
    fractions = st.sampled_from([0.01, 0.05, 0.3, 0.5]) | size
    pair = st.tuples(size, size).map(list)
    symmetric = size.map(lambda b: [-b, b])
    return {
        "system__mass": size.map(lambda v: 1700 * v),
        "system__potential": st.one_of(
            st.builds(
                lambda d, b, r: {"type": "morse", "D": 0.2 * d, "beta": b, "r0": 1.8 * r}, size, size, size
            ),
            st.builds(lambda o, x: {"type": "harmonic", "omega": 0.02 * o, "x0": 2 * x}, size, size),
            st.builds(
                lambda c: {"type": "polynomial", "coefficients": c}, st.lists(size, min_size=1, max_size=4)
            ),
            formulas("x^2", "1/x", "exp(x^9)", "sqrt(2-x)", "abs(x-3)", "1e9*x", "0"),
        ),
        "system__dipole": st.one_of(
            st.builds(lambda s: {"type": "linear", "slope": s}, size),
            st.builds(lambda m, r: {"type": "mecke", "mu0": m, "rstar": r}, size, size),
            formulas("x^2", "0", "1", "1e-9*x", "1e9*x"),
        ),
        "system__grid__xmin": size,
        "system__grid__xmax": size.map(lambda v: 5 * v),
        "time__T": size.map(lambda v: 2000 * v),
        "time__tau": size.map(lambda v: 20 * v),
        "control__bounds": symmetric | pair,
        "control__band": st.tuples(size, size).map(lambda p: [0.01 * p[0], 0.1 * p[1]]),
        "control__zero_area": st.booleans(),
        "control__shape": st.one_of(
            st.sampled_from(["sin2", "sin2_edges"]).map(lambda kind: {"type": kind}),
            block("sin2_edges", rise=fractions),
            st.builds(lambda w: {"type": "gaussian", "fwhm": 700 * w}, size),
            formulas("t", "t/T", "exp(-t)", "1/(t-T/2)"),
        ),
        "control__guess": st.one_of(
            st.sampled_from(["zero", "ladder", "resonant"]).map(lambda kind: {"type": kind}),
            block("resonant", area=size),
            block("ladder", area=size),
            block("zero", noise=fractions),
            st.builds(lambda a, c: {"type": "random", "amplitude": 0.01 * a, "cutoff": 0.02 * c}, size, size),
            formulas("0", "t", "1e5", "1/t", "exp(t)", "1e-9*t", "0.01*cos(0.017*t)"),
        ),
        "objective__alpha": size,
        "objective__threshold": fractions,
        "ensemble": st.one_of(
            st.builds(lambda v: {"field_scale": v}, st.lists(size, min_size=1, max_size=3)),
            st.builds(
                lambda a, b, n: {"mass_scale": {"start": a, "stop": b, "count": n}},
                size,
                size,
                st.integers(0, 3),
            ),
            st.builds(lambda v: {"potential_scale": [v], "mass_scale": [v]}, size),
        ),
        "optimizer": st.one_of(
            st.sampled_from(["lbfgs", "krotov", "gauss_newton"]).map(lambda t: {"type": t, "max_sweeps": 6}),
            st.just({"type": "lbfgs", "max_sweeps": 8, "finish": "gauss_newton", "finish_at": 0.1}),
            st.builds(lambda s: {"type": "krotov", "max_sweeps": 6, "step": s}, size),
            block(
                "travolta",
                gamma_start=size,
                gamma_add=size,
                gamma_mul=size.map(lambda v: 1 + v),
                gamma_max=size,
                derivative=st.sampled_from(["difference", "exact"]),
                derivative_step=size,
                gradient_tau=size,
                amplify_factor=size,
                amplify_below=fractions,
                bisection_tolerance=fractions,
            ).map(lambda b: {"max_sweeps": 30, "max_iterations": 2, **b}),
            st.just({"type": "none"}),
        ),
        "propagator": st.one_of(
            st.integers(0, 24).map(lambda n: {"type": "eigenbasis", "states": n}),
            block("crank_nicolson", energy_shift=size, memory=st.sampled_from(["store", "reverse"])),
        ),
        "verify": st.sampled_from(["auto", "eigenbasis", "crank_nicolson"]).map(
            lambda name: {"propagator": name, "steps": 70, "states": 14}
        ),
        "run": st.sampled_from([{"precision": "single"}, {"precision": "double"}]),
    }


def small(changes):
    deck = changed(
        system__grid__points=40,
        propagator__states=12,
        time__T=2000.0,
        time__steps=60,
        optimizer__max_sweeps=6,
    )
    for name, value in changes.items():
        *path, last = name.split("__")
        inner = deck
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = value
    if "tau" in deck["time"]:
        deck["time"].pop("steps")
    return deck


WILD, TAME = keys(ANY), keys(st.sampled_from([0.3, 0.7, 1.0, 1.4, 3.0]))


@PLANS
@given(some(WILD, 3))
def test_any_number_gives_a_plan_or_an_error_of_the_deck(qoc, changes):
    with suppress(QsimError):
        qoc.load(**small(changes))


@RUNS
@given(some(WILD, 2))
def test_any_number_gives_a_result_or_an_error(qoc, changes):
    run_small(qoc, changes)


@RUNS
@given(some({k: v for k, v in TAME.items() if k != "time__tau"}, 5))
def test_any_combination_gives_a_result_or_an_error(qoc, changes):
    run_small(qoc, changes)


@RUNS
@given(STATE, STATE, st.sampled_from(["lbfgs", "krotov", "gauss_newton", "travolta", "none"]))
def test_any_states_give_a_result_or_an_error(qoc, initial, target, optimizer):
    options = {"type": optimizer} if optimizer == "none" else {"type": optimizer, "max_sweeps": 6}
    run_small(qoc, {"system__initial": initial, "system__target": target, "optimizer": options})


@pytest.mark.parametrize("optimizer", ["lbfgs", "gauss_newton", "krotov"])
def test_a_shape_that_fades_away_keeps_its_bounds(qoc, optimizer):
    """Where the shape is as small as numbers get, bound / shape overflows: no parameter reaches the bound there."""
    result = qoc.run(
        **small(
            {
                "control__bounds": [-0.3, 0.3],
                "control__shape": {"type": "expression", "value": "exp(-(t/74)^2)"},
                "optimizer": {"type": optimizer, "max_sweeps": 6},
            }
        )
    )
    assert np.all(np.isfinite(result.field))
    assert np.abs(result.field).max() <= 0.3


def run_small(qoc, changes):
    """From loading to the last propagation: a result, or an error that qsim knows."""
    loaded = small(changes)
    if "tau" in loaded["time"]:  # as many steps as memory holds would take their time
        loaded["time"]["tau"] = max(loaded["time"]["tau"], loaded["time"]["T"] / 500)
    with suppress(QsimError):
        result = qoc.run(**loaded)
        assert np.all(np.isfinite(result.field))
        assert -1e-6 <= result.value <= 1.0 + 1e-6  # single precision
