"""Decks of tridiag that are wrong, or that ask for what grid, step or files cannot give: what is said, where, which exit code.

Each message must name the file, the line and the key, what was found, and what is allowed or to be done about it.
"""

import re
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.device.device import cuda_status
from qsim.core.errors import DeckError, FileError, InvalidInput, QsimError
from qsim.core.run.stages import Method
from tests.changes import PLANS, REMOVE, change, some

PULSE = {"shape": "sin2", "omega": 0.2, "E0": 0.06, "cycles": 3}
BASE = {
    "task": "propagate",
    "grid": {"xmin": -50, "xmax": 50, "points": 401},
    "potential": {"type": "softcore", "Z": 1.0, "a2": 2.0},
    "initial": {"type": "eigenstate", "level": 0},
    "laser": {"gauge": "length", "pulses": [PULSE]},
    "absorber": {"type": "manolopoulos", "kmin": 0.3},
    "time": {"dt": 0.1, "t_final": "auto", "outputs": 10},
    "observe": ["norm", {"populations": {"levels": 3}}],
}
SOLVE = {"task": "solve", "system": {"source": "random", "n": 1000, "seed": 1}}


def changed(base=BASE, **changes):
    """Return a base deck with keys replaced, as :func:`tests.changes.change` does."""
    return change(base, changes)


SMALL = changed(grid__points=101, time={"steps": 100, "t_final": 20.0, "outputs": 5})


def pulse(**changes):
    """Return a laser block with one changed pulse."""
    return {"pulses": [{k: v for k, v in {**PULSE, **changes}.items() if v is not REMOVE}]}


@pytest.mark.parametrize("deck", [BASE, SOLVE])
def test_the_base_decks_are_good(tridiag, deck):
    assert tridiag.load(**deck).warnings == []


# ---------------------------------------------------------------------------------------------- errors

ERRORS = {
    # tasks and their blocks
    "unknown task": (
        {"task": "tdse"},
        "task: expected 'propagate', 'solve', 'scaling', 'atom' or 'plane', found 'tdse'",
    ),
    "no task": ({"task": REMOVE}, r"task: required key is missing \(propagate: an atom in a laser pulse"),
    "unknown key": ({"grid__dx": 0.1}, r"grid.dx: unknown key.*allowed: xmin, xmax, points, stencil"),
    "unknown block": ({"obsrve": []}, r"obsrve: unknown key; did you mean 'observe'\?"),
    "block of another task": (
        {"system": {"source": "laplace", "n": 5}},
        "system: this block belongs to task: solve or scaling, but the deck has task: propagate",
    ),
    "missing grid": (
        {"grid": REMOVE},
        r"grid: missing key; task: propagate needs it, for instance grid: \{xmin: -400, xmax: 400",
    ),
    "missing potential": ({"potential": REMOVE}, "potential: missing key; task: propagate needs it"),
    "missing time": ({"time": REMOVE}, "time: missing key; task: propagate needs it"),
    # grid, potential
    "grid upside down": (
        {"grid__xmin": 60},
        "grid.xmin: xmin = 60 must lie below xmax = 50 bohr",
    ),
    "few points": ({"grid__points": 3}, "grid.points: expected a whole number of at least 8, found 3"),
    "half a point": ({"grid__points": 400.5}, "grid.points: expected a whole number, found 400.5"),
    "unknown stencil": (
        {"grid__stencil": "five_point"},
        "grid.stencil: expected 'numerov' or 'three_point', found 'five_point'",
    ),
    "unknown potential": (
        {"potential": {"type": "softcor"}},
        r"potential.type: unknown type 'softcor'; did you mean 'softcore'\? allowed: softcore, morse",
    ),
    "no soft core": ({"potential__a2": 0.0}, "potential.a2: expected a number greater than 1e-12.*found 0.0"),
    "wrong unit": ({"grid__xmin": "-5 fs"}, "grid.xmin: .*fs.*bohr"),
    "formula of another variable": (
        {"potential": {"type": "expression", "value": "-1/sqrt(y^2+2)"}},
        "potential.value: .*'y'.*x",
    ),
    "infinite potential": (
        {"potential": {"type": "expression", "value": "1/x"}},
        "potential.value: the formula '1/x' is not finite at x = 0",
    ),
    "missing file": ({"potential": {"type": "table", "file": "v.csv"}}, "potential.file: .*v.csv"),
    # initial state
    "negative level": (
        {"initial__level": -1},
        "initial.level: expected a whole number of at least 0, found -1",
    ),
    "packet outside": (
        {"initial": {"type": "gaussian", "x0": 80, "width": 2}},
        r"initial.x0: the packet starts at x0 = 80 bohr, outside of the box \[-50, 50\]",
    ),
    "no width": ({"initial": {"type": "gaussian"}}, "initial.width: required key is missing"),
    "zero weights": (
        {"initial": {"type": "superposition", "levels": {"0": 0.0}}},
        "initial.levels: all weights of the superposition are zero",
    ),
    # laser
    "no pulse": ({"laser": {"pulses": []}}, "laser.pulses: expected at least 1 item, found an empty list"),
    "unknown shape": (
        {"laser": pulse(shape="gausian")},
        r"laser.pulses.0.shape: unknown shape 'gausian'; did you mean 'gaussian'\?",
    ),
    "unknown gauge": (
        {"laser__gauge": "coulomb"},
        "laser.gauge: expected 'length' or 'velocity', found 'coulomb'",
    ),
    "two frequencies": (
        {"laser": pulse(wavelength="800 nm")},
        "laser.pulses.0.omega: give one of wavelength, omega, not both wavelength and omega",
    ),
    "no frequency": (
        {"laser": pulse(omega=REMOVE)},
        "laser.pulses.0.wavelength: missing key; give one of wavelength, omega",
    ),
    "no length": (
        {"laser": pulse(cycles=REMOVE)},
        "laser.pulses.0.cycles: missing key; give one of cycles, duration, fwhm",
    ),
    "energy as wavelength": (
        {"laser": pulse(omega=REMOVE, wavelength="800 eV")},
        "laser.pulses.0.wavelength: .*eV.*nm",
    ),
    "negative intensity": (
        {"laser": pulse(E0=REMOVE, intensity=-1.0)},
        "laser.pulses.0.intensity: expected a number greater than .* found -1.0",
    ),
    "long ramps": (
        {
            "laser": {
                "pulses": [{"shape": "flat_top", "omega": 0.2, "E0": 0.02, "ramp_cycles": 3, "cycles": 4}]
            }
        },
        "laser.pulses.0: two ramps of .* a.u. are longer than the whole pulse",
    ),
    # absorber
    "unknown absorber": (
        {"absorber": {"type": "pml"}},
        "absorber.type: unknown type 'pml'; allowed: cap, manolopoulos, mask, none",
    ),
    "absorber that fills the box": (
        {"absorber": {"type": "cap", "width": 50, "strength": 0.1}},
        "absorber.width: two strips of 50 bohr leave nothing of a box of 100 bohr",
    ),
    "negative strength": (
        {"absorber": {"type": "cap", "width": 10, "strength": -0.1}},
        "absorber.strength: expected a number greater than .* found -0.1",
    ),
    # time
    "no step": ({"time__dt": REMOVE}, "time.dt: missing key; give one of dt, steps"),
    "step and steps": ({"time__steps": 100}, "time.steps: give one of dt, steps, not both dt and steps"),
    "zero step": ({"time__dt": 0.0}, "time.dt: expected a number greater than .* found 0.0"),
    "no end": (
        {"laser": {"pulses": [{"shape": "cw", "omega": 0.2, "E0": 0.01}]}},
        "time.t_final: auto is the end of the pulses, but they do not end; give a time",
    ),
    "no laser, no end": (
        {"laser": REMOVE},
        "time.t_final: auto is the end of the pulses, but there is no laser; give a time",
    ),
    "long step": (
        {"time": {"dt": 5.0, "t_final": 2.0}},
        "time.dt: dt = 5 a.u. is longer than t_final = 2 a.u.",
    ),
    "field not resolved": (
        {"time__dt": 6.0},
        "time.dt: 5.[0-9]+ steps per optical cycle do not resolve the field; take dt of 1.57 a.u. or less",
    ),
    "quiver radius": (
        {"grid__xmin": -8.0, "grid__xmax": 8.0, "laser": pulse(E0=0.5), "absorber": "none"},
        r"grid.xmax: the wall is 8 bohr from the initial state, less than the quiver radius E0/omega\^2 = 12.5",
    ),
    # observables
    "unknown observable": (
        {"observe": ["norm", "dipol"]},
        r"observe.1.dipol: unknown key; did you mean 'dipole'\? allowed: norm, energy, dipole",
    ),
    "unknown setting": (
        {"observe": [{"hhg": {"window": "hamming"}}]},
        "observe.0.hhg.window: expected 'none', 'hann', 'sin2', 'blackman' or 'gauss', found 'hamming'",
    ),
    "negative radius": (
        {"observe": [{"norm_within": [20, -5]}]},
        "observe.0.norm_within.1: expected a number greater than 0.* found -5",
    ),
    "no levels": (
        {"observe": [{"populations": {"levels": 0}}]},
        "observe.0.populations.levels: expected a whole number of at least 1, found 0",
    ),
    "twice": (
        {"observe": ["hhg", {"hhg": {"form": "dipole"}}]},
        "observe.1.hhg: duplicate of observe.0",
    ),
    "two in one item": (
        {"observe": [{"populations": 3, "hhg": {}}]},
        "observe.0: one observable an item, found populations, hhg; begin each with a dash",
    ),
    "harmonics of nothing": (
        {"laser": {"pulses": [{"shape": "static", "E0": 0.01, "duration": 50}]}, "observe": ["hhg"]},
        "observe.0.hhg: harmonics of what\\? No pulse has a carrier frequency; add a laser, or give omega here",
    ),
    "energies upside down": (
        {"observe": [{"photoelectron": {"energies": [1.0, 0.5]}}]},
        "observe.0.photoelectron.energies: the first energy 1 must lie below the last, 0.5 hartree",
    ),
    # solver, run, output
    "unknown solver": (
        {"solver": {"type": "cyclic_reduction"}},
        "solver.type: expected 'nshape', 'thomas', 'lapack' or 'woodbury', found 'cyclic_reduction'",
    ),
    "blocks of Thomas": (
        {"solver": {"type": "thomas", "blocks": 8}},
        "solver.blocks: thomas knows no blocks; use type nshape, or leave blocks out",
    ),
    "nested Woodbury": (
        {"solver": {"type": "woodbury", "iterations": 2}},
        "solver.iterations: Appendix II has no nested partitions",
    ),
    "no blocks": ({"solver": {"blocks": 0}}, "solver.blocks: expected .*at least 1.*found 0"),
    "blocks of another grid": (
        {"solver": {"blocks": [100, 100]}},
        "solver.blocks: the blocks hold 200 rows, but the grid has 401 points",
    ),
    "more blocks than rows": (
        {"solver": {"blocks": 500}},
        "solver.blocks: 401 points have room for at most 400 blocks, not 500",
    ),
    "photoelectrons of a huge grid": (
        {"grid__points": 9_000_001, "observe": ["photoelectron"]},
        r"observe: photoelectron: the grid has 9000001 points, at most 8e\+06 are allowed",
    ),
    "mixed precision": (
        {"run": {"precision": "mixed"}},
        "run.precision: tridiag runs in double or single precision, not mixed",
    ),
}
SOLVE_ERRORS = {
    "missing system": (
        {"system": REMOVE},
        r"system: missing key; task: solve needs it, for instance system: \{source: random, n: 3.0e5\}",
    ),
    "a propagation in it": (
        {"grid": {"xmin": -5, "xmax": 5, "points": 11}},
        "grid: this block belongs to task: propagate, but the deck has task: solve",
    ),
    "unknown source": (
        {"system__source": "radnom"},
        r"system.source: unknown source 'radnom'; did you mean 'random'\? allowed: random, laplace, crank_nicolson, file",
    ),
    "no rows": ({"system__n": 0}, "system.n: expected a whole number of at least 1, found 0"),
    "part of a row": ({"system__n": 10.5}, "system.n: expected a whole number, found 10.5"),
    "unknown numbers": (
        {"system__dtype": "quaternion"},
        "system.dtype: expected 'complex'.*found 'quaternion'",
    ),
    "missing file": (
        {"system": {"source": "file", "file": "a.npz"}},
        "system.file: file 'a.npz' not found; looked for .*a.npz",
    ),
    "memory without unit": ({"solver": {"memory": "2 apples"}}, "solver.memory: .*2 GB.*2 apples"),
    "blocks of another size": (
        {"solver": {"blocks": [500, 600]}},
        "solver.blocks: .*1100.*1000",
    ),
    "unequal nested blocks": (
        {"solver": {"blocks": [500, 500], "iterations": 2}},
        "solver.iterations: unequal blocks are one partition",
    ),
}
CASES = [pytest.param(BASE, *case, id=name) for name, case in ERRORS.items()]
CASES += [pytest.param(SOLVE, *case, id=f"solve, {name}") for name, case in SOLVE_ERRORS.items()]


@pytest.mark.parametrize(("base", "changes", "pattern"), CASES)
def test_errors_name_key_value_and_fix(tridiag, base, changes, pattern):
    tridiag.refuses(pattern, **changed(base, **changes))


def test_the_place_of_an_error_is_that_of_its_key(tridiag):
    with pytest.raises(DeckError) as caught:
        tridiag.load(**changed(grid__xmin=60, observe=["norm", "hhg", "hhg"], time__steps=3))
    assert [problem.key for problem in caught.value.diagnostics] == [
        "grid.xmin",
        "time.steps",
        "observe.2.hhg",
    ]
    lines = (tridiag.folder / "deck.yaml").read_text().splitlines()
    for problem, text in zip(caught.value.diagnostics, ("xmin: 60", "steps: 3", "- hhg"), strict=True):
        assert lines[problem.line - 1].lstrip().startswith(text)


# ------------------------------------------------------------------------------------------------ files

TABLES = {
    "three rows": ("-50,0\n0,1\n50,0\n", FileError, "at least 4 rows with distinct x, found 3"),
    "a word": ("x,v\n-50,0\n0,one\n", FileError, r"v\.csv:3: 'one' is not a finite number"),
    "infinity": ("-50,0\n0,inf\n3,0\n50,0\n", FileError, r"v\.csv:2: 'inf' is not a finite number"),
    "nothing": ("# nothing\n", FileError, "holds no numbers"),
    "not covering": (
        "-20,0\n2,1\n3,1\n50,0\n",
        DeckError,
        r"potential.file: the table covers \[-20, 50\] bohr, the grid needs \[-50, 50\]",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_cannot_be_used(tridiag, name):
    text, error, message = TABLES[name]
    (tridiag.folder / "v.csv").write_text(text)
    with pytest.raises(error, match=message):
        tridiag.load(**changed(potential={"type": "table", "file": "v.csv"}))


def arrays(**changes):
    n = 20
    whole = {"a": np.full(n, 4.0), "b": np.ones(n), "c": np.ones(n), "d": np.arange(n) + 1.0}
    return {k: v for k, v in {**whole, **changes}.items() if v is not REMOVE}


NAN = np.full(20, 4.0)
NAN[7] = np.nan
SYSTEMS = {
    "missing array": (arrays(c=REMOVE), "c"),
    "wrong length": (arrays(b=np.ones(17)), "b.*17.*20"),
    "not a number": (arrays(a=NAN), "a.*7"),
    "wrong right-hand side": (arrays(d=np.ones(19)), "d.*19.*20"),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_that_cannot_be_used(tridiag, name):
    content, message = SYSTEMS[name]
    np.savez(tridiag.folder / "system.npz", **content)
    with pytest.raises(QsimError, match=message) as caught:
        tridiag.run(task="solve", system={"source": "file", "file": "system.npz"})
    assert "system.npz" in str(caught.value) or "system.file" in str(caught.value)


def test_a_matrix_that_is_not_tridiagonal(tridiag):
    text = "%%MatrixMarket matrix coordinate real general\n5 5 3\n1 1 2.0\n2 2 1.0\n1 4 3.0\n"
    (tridiag.folder / "m.mtx").write_text(text)
    np.savetxt(tridiag.folder / "d.txt", np.ones(5))
    with pytest.raises(QsimError, match=r"(?s)m\.mtx.*(1, 4|\(0, 3\)|row 1.*column 4)"):
        tridiag.run(task="solve", system={"source": "file", "file": "m.mtx", "rhs": "d.txt"})


def test_a_singular_matrix_names_the_row(tridiag, command):
    """b = c = 1, a = 0, n odd: exactly singular."""
    n = 99
    np.savez(tridiag.folder / "system.npz", a=np.zeros(n), b=np.ones(n), c=np.ones(n), d=np.ones(n))
    deck = tridiag.write(task="solve", system={"source": "file", "file": "system.npz"})
    reply = command("tridiag", deck, "--device", "cpu", "--no-figures", "-o", tridiag.folder)
    assert reply.exit_code == 5, reply.stderr
    assert re.search(r"singular.*row \d+|row \d+.*singular", reply.stderr), reply.stderr


def test_chunks_that_do_not_work_are_a_mistake_of_the_deck(tridiag, monkeypatch):
    import_module("qsim.tridiag.propagate.stepping.shared")  # makes a class of the original

    def refuse(*_, **__):
        raise InvalidInput("solver.mode", "local needs an inverse that decays")

    monkeypatch.setattr("qsim.tridiag.propagate.stepping.propagator.Propagator", refuse)
    with pytest.raises(
        DeckError, match=r"deck\.yaml:\d+:\d+: solver\.mode: local needs an inverse that decays"
    ):
        tridiag.run(**changed(SMALL, solver={"mode": "local"}))


# -------------------------------------------------------------------------------- limits of the machine


def test_memory_that_is_not_there(tridiag, command):
    deck = changed(grid={"xmin": -1e9, "xmax": 1e9, "points": 20_000_000_000}, observe=[], absorber="none")
    reply = command("tridiag", tridiag.write(**deck), "--device", "cpu", "--no-figures")
    assert reply.exit_code == 4
    assert re.search(
        r"needs [\d.]+ TB in host memory \(wavefunction, potential, absorber [\d.]+ ", reply.stderr
    )
    assert "lower grid.points" in reply.stderr


@pytest.mark.skipif(cuda_status().count > 0, reason="there is a GPU")
def test_a_gpu_that_is_not_there(tridiag, command):
    reply = command("tridiag", tridiag.write(**BASE), "--device", "cuda", "--no-figures")
    assert reply.exit_code == 4
    assert "device 'cuda' (--device) is not available" in reply.stderr


# --------------------------------------------------------------------------------------------- warnings

WARNINGS = {
    "keys of another task": (
        {"solver": {"on_unstable": "error"}},
        "solver.on_unstable: only used by task: solve",
    ),
    "few steps a cycle": (
        {"time__dt": 2.0},
        "time.dt: 1[56][0-9.]* steps per optical cycle do not resolve the field",
    ),
    "short run": (
        {"time__t_final": 50},
        r"time.t_final: the run ends at 50 a.u. \(1.21 fs\), before the last pulse does \(94.2478",
    ),
    "box state": (
        {"initial__level": 14, "absorber": "none"},
        "initial.level: level 14 is a state of the box, not of the potential",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(tridiag, name):
    changes, expected = WARNINGS[name]
    tridiag.warns(expected, **changed(**changes))


# ------------------------------------------------------------------------------------------------ fuzz

RUNS = settings(PLANS, max_examples=60)
ANY = st.sampled_from(
    [0.0, -1.0, 5e-324, 1e-300, 1e-12, 1.1e-12, 1e-3, 1.0, 1e3, 0.9e12, 1e12, 1e300]
) | st.floats(allow_nan=False, allow_infinity=False)


def keys(size):
    """Keys of the deck that hold numbers, with numbers of the given kind."""
    return {
        "grid__xmin": size.map(lambda v: -30 * v),
        "grid__xmax": size.map(lambda v: 30 * v),
        "grid__stencil": st.sampled_from(["numerov", "three_point"]),
        "potential": st.one_of(
            st.builds(lambda z, a: {"type": "softcore", "Z": z, "a2": a}, size, size),
            st.builds(lambda o, x: {"type": "harmonic", "omega": o, "x0": x}, size, size),
            st.builds(lambda d, w: {"type": "square_well", "depth": d, "width": w}, size, size),
            st.builds(lambda d, w: {"type": "gaussian_well", "depth": d, "width": w}, size, size),
            st.builds(lambda d, b: {"type": "morse", "D": d, "beta": b}, size, size),
            st.sampled_from(["x^2", "1/x", "exp(x^9)", "sqrt(2-x)", "-1/cosh(x)"]).map(
                lambda text: {"type": "expression", "value": text}
            ),
            st.just({"type": "free"}),
        ),
        "initial": st.one_of(
            st.builds(lambda x, k, w: {"type": "gaussian", "x0": x, "k0": k, "width": w}, size, size, size),
            st.integers(-1, 30).map(lambda n: {"type": "eigenstate", "level": n}),
            st.builds(lambda a, b: {"0": a, "2": b}, size, size),
        ),
        "laser": st.builds(
            lambda gauge, shape, omega, peak, cep, chirp: {
                "gauge": gauge,
                "pulses": [
                    {
                        "shape": shape,
                        "omega": 0.2 * omega,
                        "E0": 0.02 * peak,
                        "cep": cep,
                        "chirp": 0.001 * chirp,
                    }
                    | ({"ramp_cycles": 1, "flat_cycles": 1} if shape == "flat_top" else {"cycles": 2})
                ],
            },
            st.sampled_from(["length", "velocity"]),
            st.sampled_from(["sin2", "gaussian", "cosn", "flat_top", "cw"]),
            size,
            size,
            size,
            size,
        ),
        "absorber": st.one_of(
            st.builds(lambda w, s: {"type": "cap", "width": 10 * w, "strength": 0.1 * s}, size, size),
            st.builds(lambda w, p: {"type": "mask", "width": 10 * w, "power": p}, size, size),
            st.builds(lambda k, d: {"type": "manolopoulos", "kmin": k, "delta": d}, size, size),
            st.just("none"),
        ),
        "time": st.builds(
            lambda steps, end, outputs: {"steps": steps, "t_final": 20 * end, "outputs": outputs},
            st.integers(0, 200),
            size,
            st.integers(0, 300),
        ),
        "solver": st.sampled_from(
            [
                {"type": "lapack"},
                {"mode": "exact"},
                {"mode": "local"},
                {"blocks": 3},
                {"blocks": 7, "iterations": 2},
            ]
        ),
        "observe": st.lists(
            st.sampled_from(
                ["populations", "hhg", "gabor", "photoelectron", "velocity", {"norm_within": [5]}]
            ),
            unique_by=str,
            max_size=3,
        ),
        "run": st.sampled_from([{"precision": "single"}, {"precision": "double"}]),
    }


WILD, TAME = keys(ANY), keys(st.sampled_from([0.3, 0.7, 1.0, 1.4, 3.0]))


@PLANS
@given(some(WILD, 3))
def test_any_number_gives_a_plan_or_an_error_of_the_deck(tridiag, changes):
    with suppress(QsimError):
        tridiag.load(**changed(SMALL, **changes))


@RUNS
@given(some(WILD, 2))
def test_any_number_gives_a_result_or_an_error(tridiag, changes):
    run_small(tridiag, changes)


@RUNS
@given(some(TAME, 5))
def test_any_combination_gives_a_result_or_an_error(tridiag, changes):
    run_small(tridiag, changes)


def run_small(tridiag, changes):
    """From loading to the written arrays: a result, or an error that qsim knows."""
    with suppress(QsimError):
        result = tridiag.run(**changed(SMALL, **changes))
        assert np.all(np.isfinite(result.psi))
        assert result.frames["norm"].max() < 1.0 + 1e-3  # single precision
        output = Method("tridiag")
        numbers = (array for array in output.arrays(result).values() if array.dtype != object)
        assert all(np.all(np.isfinite(array)) for array in numbers)
        assert output.scalars(result)
